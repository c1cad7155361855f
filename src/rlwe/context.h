// A parameter set on a device: the engine, and the key-switching plans of each level.
#pragma once

#include <map>
#include <memory>

#include "base/checked.h"
#include "ring/tensor.h"
#include "rlwe/parameters.h"

namespace heliograph::rlwe {

using device::PrimeList;
using math::Domain;
using ring::RnsTensor;
using ring::Shape;

/// A gadget of key-switching keys, other than the parameters' own: fewer primes, and possibly other digits.
struct Gadget {
  PrimeList chain;                // chain primes of the keys, ascending
  PrimeList special;              // special primes of the keys
  std::vector<std::size_t> ends;  // for each digit, the index in the parameters' chain after its last prime

  PrimeList primes() const {
    PrimeList all = chain;
    all.append(special);
    return all;
  }
};

class Context {
 public:
  /// Throws ParameterError if the primes and the gadget contradict each other.
  Context(device::Device& device, RingParameters parameters);
  /// Shares the engine of a context with the same primes.
  Context(std::shared_ptr<ring::Engine> engine, RingParameters parameters);

  const RingParameters& parameters() const { return parameters_; }
  const std::shared_ptr<ring::Engine>& engine() const { return engine_; }
  /// Returns the level of a fresh ciphertext; the lowest level is 1. Level l has the first l primes, unless the parameters
  /// list the primes of each level.
  std::size_t top_level() const { return parameters_.levels.empty() ? parameters_.chain.size() : parameters_.levels.size(); }
  PrimeList chain(std::size_t level) const {
    return parameters_.levels.empty() ? PrimeList::range(0, level) : PrimeList(parameters_.levels[level - 1]);
  }
  std::size_t polynomial_bytes(std::size_t limbs) const {
    return checked_product(limbs, parameters_.n, math::word_bytes(parameters_.word));
  }
  PrimeList special() const { return PrimeList::range(parameters_.chain.size(), parameters_.special.size()); }
  PrimeList auxiliary(std::size_t count) const;
  PrimeList key_primes() const;
  std::vector<u64> moduli(const PrimeList& primes) const;

  const std::shared_ptr<const device::KeySwitchPlan>& key_switch_plan(std::size_t level);
  /// Returns the plan of a key switch for polynomials in the NTT domain. The key switch multiplies the switched polynomial
  /// by `times` and divides it by P and by the ratio of the two levels' moduli, with one rounding. `times` must be 1 if the
  /// levels differ.
  const std::shared_ptr<const device::KeySwitchPlan>& ntt_switch_plan(std::size_t level, std::size_t to_level,
                                                                      u64 times = 1);
  /// Returns the plan of a key switch from the primes `chain` down to the primes `to`, for keys of one digit over
  /// `key_primes`, which include `special`.
  std::shared_ptr<const device::KeySwitchPlan> own_switch_plan(const PrimeList& chain, const PrimeList& special,
                                                               const PrimeList& to, const PrimeList& key_primes) const;
  /// Returns the plan of a key switch by keys of a gadget, from the primes `chain` down to the primes `to`.
  std::shared_ptr<const device::KeySwitchPlan> gadget_plan(const Gadget& gadget, const PrimeList& chain,
                                                           const PrimeList& to) const;
  /// Returns the plan for division in the NTT domain, with rounding, from the primes `from` to a subset `to`.
  std::shared_ptr<const device::DividePlan> own_divide_plan(const PrimeList& from, const PrimeList& to) const;
  /// Returns the conversion of centred integers modulo the primes `from` to the primes `to`.
  const std::shared_ptr<const device::ConversionConstant>& extension(const PrimeList& from, const PrimeList& to);
  /// Returns the plan for division in the NTT domain, with rounding, from one level to a lower one. If `keep` is above 1,
  /// the part that rounding removes is 0 modulo `keep` (math::divide_keeping).
  const std::shared_ptr<const device::DividePlan>& divide_plan(std::size_t from_level, std::size_t to_level, u64 keep = 1);
  /// Returns the conversion that divides, with rounding, by the primes that `to_level` lacks.
  const std::shared_ptr<const device::ConversionConstant>& drop_plan(std::size_t from_level, std::size_t to_level);

 private:
  RingParameters parameters_;
  std::shared_ptr<ring::Engine> engine_;
  std::mutex mutex_;
  /// Returns a plan with the chain, the digits and the conversions between them.
  device::KeySwitchPlan switch_plan(std::size_t level);
  /// Adds the digits of a gadget. `ends`: see Gadget.
  void add_digits(device::KeySwitchPlan& plan, const std::vector<std::size_t>& ends) const;
  /// Adds a digit: `size` limbs of the chain from `at` on, with the conversion to all other primes (mod up).
  void add_digit(device::KeySwitchPlan& plan, std::size_t at, std::size_t size) const;
  void divide_down(device::KeySwitchPlan& plan, const PrimeList& to, u64 times) const;
  device::DividePlan division(const PrimeList& from, const PrimeList& to, u64 times, u64 keep) const;

  std::map<std::size_t, std::shared_ptr<const device::KeySwitchPlan>> plans_;
  std::map<std::tuple<std::size_t, std::size_t, u64>, std::shared_ptr<const device::KeySwitchPlan>> ntt_plans_;
  std::map<std::tuple<std::size_t, std::size_t, u64>, std::shared_ptr<const device::DividePlan>> divisions_;
  std::map<std::pair<std::size_t, std::size_t>, std::shared_ptr<const device::ConversionConstant>> drops_;
  std::map<std::pair<std::vector<math::PrimeIndex>, std::vector<math::PrimeIndex>>,
           std::shared_ptr<const device::ConversionConstant>>
      extensions_;
};

/// Divides x, with rounding, by the primes that `to_level` lacks.
RnsTensor switch_level(Context& context, const RnsTensor& x, std::size_t to_level);

}  // namespace heliograph::rlwe
