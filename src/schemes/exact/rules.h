// What BFV and BGV do differently: how a message lies in a phase, how ciphertexts are multiplied, switched and brought to
// smaller moduli, and what that does to noise. All else (schemes/bfv) is common to both.
//
// A ciphertext holds one residue tensor for each plaintext modulus t, its part. BFV's phase is round(Q m / t) + e, its noise
// e. BGV's phase is f m + t e for a factor f modulo t, its noise the whole phase. Noise is log2 of the canonical norm.
#pragma once

#include <map>
#include <mutex>
#include <tuple>

#include "rlwe/keys.h"
#include "rlwe/noise.h"

namespace heliograph::exact {

using math::Domain;
using math::u64;
using ring::Progress;
using ring::RnsTensor;

/// Noise of a key switch at a level before anything multiplies it.
double key_switch_noise(const rlwe::RingParameters& parameters, std::size_t level,
                        rlwe::NoiseModel::Deviations deviations = {});

class Rules {
 public:
  Rules(std::shared_ptr<rlwe::Context> rlwe, std::vector<u64> plain_moduli);
  virtual ~Rules() = default;
  Rules(const Rules&) = delete;
  Rules& operator=(const Rules&) = delete;

  /// Where ciphertexts that were computed on rest. Fresh ones rest in the coefficient domain.
  virtual Domain home() const = 0;

  // Messages.
  /// What an encryption of zero multiplies its errors by.
  virtual u64 error_multiplier(std::size_t part) const = 0;
  /// m -> what adds m to a phase of this factor: a conversion from t to the chain of a level.
  virtual const std::shared_ptr<const device::ConversionConstant>& encoding(std::size_t part, std::size_t level,
                                                                            u64 factor) = 0;
  /// phase -> factor * m: a conversion from the chain of a level to t.
  virtual const std::shared_ptr<const device::ConversionConstant>& decoding(std::size_t part, std::size_t level) = 0;
  /// The noise is what is left of this multiple of a phase modulo Q.
  virtual u64 noise_multiplier(std::size_t part) const = 0;
  /// m -> its centred representative in every chain prime.
  const std::shared_ptr<const device::ConversionConstant>& lift(std::size_t part);

  // Operations on ciphertexts of one level in the home domain; relinearize from degree two, rotate from degree one.
  virtual RnsTensor multiply(std::size_t part, const RnsTensor& a, const RnsTensor& b, const Progress& progress) = 0;
  virtual RnsTensor relinearize(std::size_t part, const RnsTensor& x, const rlwe::SwitchKey& key,
                                const Progress& progress) = 0;
  /// One result for each Galois element, written to `out` (of x's shape and primes, in the home domain); 1 has no key and
  /// gives a copy.
  virtual void rotate(std::size_t part, const RnsTensor& x, const std::vector<u64>& galois,
                      const std::vector<const rlwe::SwitchKey*>& keys, const std::vector<RnsTensor>& out,
                      const Progress& progress) = 0;
  /// In any domain.
  virtual RnsTensor switch_level(std::size_t part, const RnsTensor& x, std::size_t level) = 0;
  /// What switch_level multiplies the factor by.
  virtual u64 switched_factor(std::size_t part, std::size_t from, std::size_t to) const = 0;

  // Noise.
  /// Whether a product of operands at a lower level may leave a larger noise budget.
  virtual bool multiplies_low() const = 0;
  /// Whether noises of separate encryptions are independent, so that the variances of sums add up.
  virtual bool independent() const = 0;
  virtual double fresh_noise(std::size_t part, bool public_key) const = 0;
  /// Of adding a plaintext polynomial of this norm (log2), and of adding an integer.
  virtual double message_noise(std::size_t part, double log_norm, u64 factor) const = 0;
  virtual double integer_noise(std::size_t part) const = 0;
  virtual double multiply_noise(std::size_t part, double a, double b) const = 0;
  /// What one key switch adds.
  virtual double key_switch_noise(std::size_t part, std::size_t level) const = 0;
  virtual double switched_noise(std::size_t part, double noise, std::size_t from, std::size_t to,
                                std::size_t degree) const = 0;
  /// Where noise ends.
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
  /// The conversion of a kind, made by `make` at its first use.
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
