// Circuits that were built, so that a loop over one operation builds it once.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "circuits/operations.h"

namespace heliograph::circuits {

/// The least recently used go first. Any thread may call; results do not depend on what is kept.
class Cache {
 public:
  explicit Cache(std::size_t most_bootstraps) : most_(most_bootstraps) {}
  /// As `build`.
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
  std::list<Kept> kept_;  // latest first
  std::map<std::string, std::list<Kept>::iterator> places_;
  mutable std::mutex mutex_;
};

/// Estimated time for `items` elements, in units of what `parallel` bootstraps at once take. A layer with fewer takes its
/// share of that but at least a quarter, which is between a GPU's behaviour (all of it) and a processor's.
double estimated_time(const tfhe::Circuit& circuit, std::size_t items, std::size_t parallel);

/// The circuit of the operation's goal; of the two the faster one for `items` elements where that is automatic.
std::shared_ptr<const tfhe::Circuit> circuit_for(const Encoding& encoding, const tfhe::Operation& operation,
                                                 const std::vector<Type>& operands, std::size_t items, std::size_t parallel,
                                                 const std::vector<std::size_t>& same = {});

}  // namespace heliograph::circuits
