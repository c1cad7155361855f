// A ring on a device: what tensors of one parameter set share.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <mutex>

#include "device/chunks.h"
#include "device/composite.h"
#include "device/kernels.h"

namespace heliograph::ring {

using device::PrimeList;
using device::View;
using math::Domain;
using math::PrimeIndex;
using math::u64;

using device::Progress;

class Engine {
 public:
  /// `device` must outlive the engine (the process's own do).
  Engine(device::Device& device, std::shared_ptr<const math::Ring> ring);

  device::Device& device() const { return device_; }
  /// The queue work is enqueued on. Throws ForkError in a child of the process that made the engine.
  device::Queue& queue() const;
  device::Kernels& kernels() const { return device_.kernels(); }
  const math::Ring& ring() const { return prepared_->ring(); }
  const device::PreparedRing& prepared() const { return *prepared_; }
  std::shared_ptr<const device::PreparedRing> prepared_shared() const { return prepared_; }
  /// Where memory is short, what may leave the device makes room first: the least recently used, of any parameter set.
  /// Throws OutOfMemoryError where that is not enough.
  device::Buffer allocate(std::size_t bytes) const;
  device::Buffer allocate(const View& shape, const PrimeList& primes) const;
  /// Bytes that can be had now, what may leave the device for them included.
  std::size_t free_memory() const;
  /// Throws OutOfMemoryError, before anything is computed, where `bytes` more are not to be had. Makes room as `allocate`.
  void require_memory(std::size_t bytes, const char* purpose) const;
  /// The permutation of X -> X^galois in `domain`, prepared once.
  const device::PreparedPermutation& automorphism(u64 galois, Domain domain);
  /// A matrix product prepared once, whoever asks for these very weights again: the last few are kept.
  std::shared_ptr<const device::PreparedProduct> product(device::GatheredProduct product);

 private:
  /// Evicts at least `missing` bytes where that may lead to `bytes` free ones. False: trying again is of no use.
  bool make_room(std::size_t bytes, std::size_t missing, u64 seen) const;
  /// What `attempt` returns, tried again as long as it runs out of memory and room can be made.
  template <class Attempt>
  auto with_room(std::size_t bytes, Attempt attempt) const;

  device::Device& device_;
  std::shared_ptr<const device::PreparedRing> prepared_;
  std::unique_ptr<device::Queue> queue_;
  long process_;
  std::mutex mutex_;
  std::map<std::pair<u64, Domain>, std::shared_ptr<const device::PreparedPermutation>> automorphisms_;
  std::list<std::shared_ptr<const device::PreparedProduct>> products_;  // the last used first
};

using device::readable_bytes;

}  // namespace heliograph::ring
