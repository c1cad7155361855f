// Parameters at work on a device: the engine and the key-switching plans of each level.
#pragma once

#include <map>
#include <memory>

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
  /// Number of chain primes: the level of a fresh ciphertext. Level l has l primes; the lowest is 1.
  std::size_t top_level() const { return parameters_.chain.size(); }
  PrimeList chain(std::size_t level) const { return PrimeList::range(0, level); }
  PrimeList special() const { return PrimeList::range(parameters_.chain.size(), parameters_.special.size()); }
  /// The first `count` auxiliary primes.
  PrimeList auxiliary(std::size_t count) const;
  /// All primes keys are given in: the chain, then the special ones.
  PrimeList key_primes() const;
  std::vector<u64> moduli(const PrimeList& primes) const;

  const device::KeySwitchPlan& key_switch_plan(std::size_t level);
  /// Division by the last prime of `level`, rounded.
  const device::PreparedConversion& drop_plan(std::size_t from_level, std::size_t to_level);

 private:
  RingParameters parameters_;
  std::shared_ptr<ring::Engine> engine_;
  std::mutex mutex_;
  std::map<std::size_t, device::KeySwitchPlan> plans_;
  std::map<std::pair<std::size_t, std::size_t>, std::shared_ptr<const device::PreparedConversion>> drops_;
};

/// x modulo the product of the primes of `to_level`, divided by the primes dropped and rounded.
RnsTensor switch_level(Context& context, const RnsTensor& x, std::size_t to_level);

}  // namespace heliograph::rlwe
