#include "circuits/cache.h"

#include <algorithm>
#include <string>

namespace heliograph::circuits {

namespace {

constexpr std::size_t kMostBootstraps = 2'000'000;  // circuits with this total number of bootstraps take about 200 MB

std::string key_of(const Encoding& e, const tfhe::Operation& o, const std::vector<Type>& operands, Goal goal,
                   const std::vector<std::size_t>& same) {
  std::string key = o.name + '/' + o.variant + '/' + o.type.text() + (goal == Goal::fewest ? "/f" : "/s");
  for (unsigned v : {e.message_bits, e.carry_bits, e.norm}) key += '/' + std::to_string(v);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    key += '/' + operands[i].text();
    if (!same.empty() && same[i] != i) key += '=' + std::to_string(same[i]);
  }
  for (std::int64_t v : o.arguments) key += ',' + std::to_string(v);
  return key;
}

}  // namespace

std::shared_ptr<const tfhe::Circuit> Cache::get(const Encoding& encoding, const tfhe::Operation& operation,
                                                const std::vector<Type>& operands, Goal goal,
                                                const std::vector<std::size_t>& same) {
  const std::string key = key_of(encoding, operation, operands, goal, same);
  {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(key);
    if (found != places_.end()) {
      kept_.splice(kept_.begin(), kept_, found->second);
      return found->second->circuit;
    }
  }
  // Two threads may build the same circuit; the cache keeps the first result.
  auto circuit = std::make_shared<const tfhe::Circuit>(build(encoding, operation, operands, goal, same));
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(key);
  if (found != places_.end()) return found->second->circuit;
  kept_.push_front({key, circuit});
  places_[key] = kept_.begin();
  bootstraps_ += circuit->bootstraps() + 1;
  while (bootstraps_ > most_ && kept_.size() > 1) {
    bootstraps_ -= kept_.back().circuit->bootstraps() + 1;
    places_.erase(kept_.back().key);
    kept_.pop_back();
  }
  return circuit;
}

std::size_t Cache::size() const {
  const std::lock_guard lock(mutex_);
  return kept_.size();
}

/// Latency of one bootstrap relative to a full batch. The measured value is 0.2 on a GPU and on two cores. The constant is
/// smaller, because the linear model overestimates layers between one bootstrap and a batch.
constexpr double kAlone = 0.15;

double estimated_time(const tfhe::Circuit& circuit, std::size_t items, std::size_t parallel) {
  double sum = 0;
  for (const auto& layer : circuit.layers) {
    const double busy = static_cast<double>(layer.size()) * static_cast<double>(items) / static_cast<double>(parallel);
    sum += busy < 1 ? kAlone + (1 - kAlone) * busy : busy;
  }
  return sum;
}

std::shared_ptr<const tfhe::Circuit> circuit_for(const Encoding& encoding, const tfhe::Operation& operation,
                                                 const std::vector<Type>& operands, std::size_t items, std::size_t parallel,
                                                 const std::vector<std::size_t>& same) {
  static Cache cache(kMostBootstraps);
  if (operation.goal != Goal::automatic) return cache.get(encoding, operation, operands, operation.goal, same);
  const auto fewest = cache.get(encoding, operation, operands, Goal::fewest, same);
  parallel = std::max<std::size_t>(parallel, 1);
  // If one bootstrap saturates the device, the circuit with the fewest bootstraps is the fastest.
  if (fewest->layers.size() < 2 || parallel == 1) return fewest;
  const auto shallow = cache.get(encoding, operation, operands, Goal::shallow, same);
  return estimated_time(*shallow, items, parallel) < estimated_time(*fewest, items, parallel) ? shallow : fewest;
}

}  // namespace heliograph::circuits
