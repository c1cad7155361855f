// Cache of circuits, so that a loop over one operation builds its circuit once.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "circuits/operations.h"

namespace heliograph::circuits {

/// A cache of circuits that evicts the least recently used ones. Thread-safe; its contents do not affect results.
class Cache {
 public:
  explicit Cache(std::size_t most_bootstraps) : most_(most_bootstraps) {}
  /// Calls `build` if the circuit is not in the cache.
  std::shared_ptr<const tfhe::Circuit> get(const Encoding& encoding, const tfhe::Operation& operation,
                                           const std::vector<Type>& operands, Goal goal,
                                           const std::vector<std::size_t>& same = {});
  std::size_t size() const;

 private:
  struct Kept {
    std::string key;
    std::shared_ptr<const tfhe::Circuit> circuit;
  };
  std::size_t most_, bootstraps_ = 0;
  std::list<Kept> kept_;  // most recently used first
  std::map<std::string, std::list<Kept>::iterator> places_;
  mutable std::mutex mutex_;
};

/// Returns the estimated time for `items` elements, in units of a full batch of `parallel` bootstraps. A layer smaller
/// than a batch takes its share of the batch's time, plus a constant latency.
double estimated_time(const tfhe::Circuit& circuit, std::size_t items, std::size_t parallel);

/// Returns the circuit of the operation's goal. For an automatic goal, returns the faster of the two circuits for `items`
/// elements.
std::shared_ptr<const tfhe::Circuit> circuit_for(const Encoding& encoding, const tfhe::Operation& operation,
                                                 const std::vector<Type>& operands, std::size_t items, std::size_t parallel,
                                                 const std::vector<std::size_t>& same = {});

}  // namespace heliograph::circuits
