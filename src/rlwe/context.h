// Parameters at work on a device: the engine and the key-switching plans of each level.
#pragma once

#include <map>
#include <memory>

#include "base/checked.h"
#include "ring/tensor.h"
#include "rlwe/parameters.h"

namespace heliograph::rlwe {

using device::PrimeList;
using math::Domain;
using ring::Progress;
using ring::RnsTensor;
using ring::Shape;

class Context {
 public:
  /// Throws ParameterError unless the primes and the gadget fit together.
  Context(device::Device& device, RingParameters parameters);

  const RingParameters& parameters() const { return parameters_; }
  const std::shared_ptr<ring::Engine>& engine() const { return engine_; }
  /// The level of a fresh ciphertext; the lowest is 1. Unless the parameters say otherwise level l has the first l primes.
  std::size_t top_level() const { return parameters_.levels.empty() ? parameters_.chain.size() : parameters_.levels.size(); }
  PrimeList chain(std::size_t level) const {
    return parameters_.levels.empty() ? PrimeList::range(0, level) : PrimeList(parameters_.levels[level - 1]);
  }
  /// Bytes of a polynomial of so many limbs.
  std::size_t polynomial_bytes(std::size_t limbs) const {
    return checked_product(limbs, parameters_.n, math::word_bytes(parameters_.word));
  }
  PrimeList special() const { return PrimeList::range(parameters_.chain.size(), parameters_.special.size()); }
  /// The first `count` auxiliary primes.
  PrimeList auxiliary(std::size_t count) const;
  /// All primes keys are given in: the chain, then the special ones.
  PrimeList key_primes() const;
  std::vector<u64> moduli(const PrimeList& primes) const;

  const std::shared_ptr<const device::KeySwitchPlan>& key_switch_plan(std::size_t level);
  /// For polynomials in the NTT domain: the result is `times` the switched one, at `to_level`, divided by P and by the ratio
  /// of the two levels' moduli in one rounding. `times` is 1 where the levels differ.
  const std::shared_ptr<const device::KeySwitchPlan>& ntt_switch_plan(std::size_t level, std::size_t to_level,
                                                                      u64 times = 1);
  /// The same for keys of one digit that are given in `key_primes`, `special` among them: from `chain`, divided down to `to`.
  std::shared_ptr<const device::KeySwitchPlan> own_switch_plan(const PrimeList& chain, const PrimeList& special,
                                                               const PrimeList& to, const PrimeList& key_primes) const;
  /// From the primes `from` to `to`, some of them, in the NTT domain: divided by the others and rounded.
  std::shared_ptr<const device::DividePlan> own_divide_plan(const PrimeList& from, const PrimeList& to) const;
  /// From one level to a lower one in the NTT domain: divided by the ratio of their moduli and rounded, or (`keep` above 1)
  /// so that what is taken away is 0 modulo `keep`: math::divide_keeping.
  const std::shared_ptr<const device::DividePlan>& divide_plan(std::size_t from_level, std::size_t to_level, u64 keep = 1);
  /// Division by the last prime of `level`, rounded.
  const std::shared_ptr<const device::ConversionConstant>& drop_plan(std::size_t from_level, std::size_t to_level);

 private:
  RingParameters parameters_;
  std::shared_ptr<ring::Engine> engine_;
  std::mutex mutex_;
  /// Chain, digits and what is between them.
  device::KeySwitchPlan switch_plan(std::size_t level);
  /// The chain's limbs from `at` on, raised to all other primes.
  void add_digit(device::KeySwitchPlan& plan, std::size_t at, std::size_t size) const;
  /// The division at its end, to the primes `to`.
  void divide_down(device::KeySwitchPlan& plan, const PrimeList& to, u64 times) const;
  device::DividePlan division(const PrimeList& from, const PrimeList& to, u64 times, u64 keep) const;

  std::map<std::size_t, std::shared_ptr<const device::KeySwitchPlan>> plans_;
  std::map<std::tuple<std::size_t, std::size_t, u64>, std::shared_ptr<const device::KeySwitchPlan>> ntt_plans_;
  std::map<std::tuple<std::size_t, std::size_t, u64>, std::shared_ptr<const device::DividePlan>> divisions_;
  std::map<std::pair<std::size_t, std::size_t>, std::shared_ptr<const device::ConversionConstant>> drops_;
};

/// x modulo the product of the primes of `to_level`, divided by the primes dropped and rounded.
RnsTensor switch_level(Context& context, const RnsTensor& x, std::size_t to_level);

}  // namespace heliograph::rlwe
