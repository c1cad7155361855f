// The differences between BFV and BGV: encoding of messages in a phase, multiplication, key switching, modulus switching,
// and their noise. All other code of schemes/exact is common to BFV and BGV.
//
// A ciphertext holds one residue tensor, its part, for each plaintext modulus t. BFV's phase is round(Q m / t) + e with
// noise e. BGV's phase is f m + t e for a factor f modulo t; its noise is the whole phase. Noise is log2 of the canonical
// norm.
#pragma once

#include <map>
#include <mutex>
#include <tuple>

#include "rlwe/keys.h"
#include "rlwe/noise.h"

namespace heliograph::exact {

using math::Domain;
using math::u64;
using ring::RnsTensor;

/// Returns the noise of a key switch at a level, without the factor t of BGV.
double key_switch_noise(const rlwe::RingParameters& parameters, std::size_t level,
                        rlwe::NoiseModel::Deviations deviations = {});

class Rules {
 public:
  Rules(std::shared_ptr<rlwe::Context> rlwe, std::vector<u64> plain_moduli);
  virtual ~Rules() = default;
  Rules(const Rules&) = delete;
  Rules& operator=(const Rules&) = delete;

  /// Returns the domain of computed ciphertexts. Fresh ciphertexts are in the coefficient domain.
  virtual Domain home() const = 0;

  // Messages.
  /// Returns the multiplier of the errors in an encryption of zero.
  virtual u64 error_multiplier(std::size_t part) const = 0;
  /// Returns the conversion of m from t to the chain of a level. The conversion's result is the term that adds m to a phase
  /// of this factor.
  virtual const std::shared_ptr<const device::ConversionConstant>& encoding(std::size_t part, std::size_t level,
                                                                            u64 factor) = 0;
  /// Returns the conversion of a phase from the chain of a level to factor * m modulo t.
  virtual const std::shared_ptr<const device::ConversionConstant>& decoding(std::size_t part, std::size_t level) = 0;
  /// Returns the multiplier of a phase. The product modulo Q is the noise.
  virtual u64 noise_multiplier(std::size_t part) const = 0;
  /// Returns the conversion of m to its centred representative modulo every chain prime.
  const std::shared_ptr<const device::ConversionConstant>& lift(std::size_t part);

  // Operations on ciphertexts of one level, in the home domain. relinearize takes degree two, rotate degree one.
  virtual RnsTensor multiply(std::size_t part, const RnsTensor& a, const RnsTensor& b) = 0;
  virtual RnsTensor relinearize(std::size_t part, const RnsTensor& x, const rlwe::SwitchKey& key) = 0;
  /// Writes one result per Galois element to `out`, of x's shape and primes, in the home domain. Element 1 has no key and
  /// gives a copy.
  virtual void rotate(std::size_t part, const RnsTensor& x, const std::vector<u64>& galois,
                      const std::vector<const rlwe::SwitchKey*>& keys, const std::vector<RnsTensor>& out) = 0;
  /// Accepts ciphertexts in either domain.
  virtual RnsTensor switch_level(std::size_t part, const RnsTensor& x, std::size_t level) = 0;
  /// Returns the factor by which switch_level multiplies the message.
  virtual u64 switched_factor(std::size_t part, std::size_t from, std::size_t to) const = 0;

  // Noise.
  /// Returns whether a product at a lower level may have a larger noise budget.
  virtual bool multiplies_low() const = 0;
  /// Returns whether the noises of separate encryptions are independent, so that variances of sums add up.
  virtual bool independent() const = 0;
  virtual double fresh_noise(std::size_t part, bool public_key) const = 0;
  /// Return the noise that a plaintext polynomial of this norm (log2), or an integer, adds to a sum.
  virtual double message_noise(std::size_t part, double log_norm, u64 factor) const = 0;
  virtual double integer_noise(std::size_t part) const = 0;
  virtual double multiply_noise(std::size_t part, double a, double b) const = 0;
  virtual double key_switch_noise(std::size_t part, std::size_t level) const = 0;
  virtual double switched_noise(std::size_t part, double noise, std::size_t from, std::size_t to,
                                std::size_t degree) const = 0;
  /// Returns the noise at which decryption fails.
  virtual double noise_limit(std::size_t part, std::size_t level) const = 0;
  double log_modulus(std::size_t level) const;

 protected:
  rlwe::Context& rlwe() const { return *rlwe_; }
  ring::Engine& engine() const { return *rlwe_->engine(); }
  const rlwe::NoiseModel& model() const { return model_; }
  u64 plain(std::size_t part) const { return plain_[part]; }
  double log_plain(std::size_t part) const;
  double switch_noise(std::size_t level) const { return exact::key_switch_noise(rlwe_->parameters(), level); }
  enum class Kind : unsigned char { lift, encode, decode };
  /// Returns the conversion of a kind from a cache; `make` computes it at first use.
  const std::shared_ptr<const device::ConversionConstant>& cached(Kind kind, std::size_t part, std::size_t level, u64 factor,
                                                                  const std::function<math::Conversion()>& make);

 private:
  std::shared_ptr<rlwe::Context> rlwe_;
  std::vector<u64> plain_;
  rlwe::NoiseModel model_;
  std::mutex mutex_;
  std::map<std::tuple<Kind, std::size_t, std::size_t, u64>, std::shared_ptr<const device::ConversionConstant>> conversions_;
};

}  // namespace heliograph::exact
