// A ring on a device: the state that tensors of one parameter set share.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "base/recent.h"
#include "device/chunks.h"
#include "device/kernels.h"
#include "device/session.h"

namespace heliograph::ring {

using device::PrimeList;
using device::View;
using math::Domain;
using math::PrimeIndex;
using math::u64;

class Engine : public device::Session {
 public:
  /// `device` must outlive this object.
  Engine(device::Device& device, std::shared_ptr<const math::Ring> ring);

  const math::Ring& ring() const { return prepared_->ring(); }
  const device::RingHandle& prepared() const { return prepared_; }
  /// Returns the permutation of X -> X^galois in `domain`. The first call prepares the permutation; the engine keeps it.
  device::PermutationHandle automorphism(u64 galois, Domain domain);
  /// Returns a prepared matrix product. The most recently used products are cached, by their weights and indices.
  std::shared_ptr<const device::ProductConstant> product(device::GatheredProduct product);

 private:
  std::shared_ptr<const device::RingConstant> prepared_;
  std::mutex mutex_;
  std::map<std::pair<u64, Domain>, std::shared_ptr<const device::PermutationConstant>> automorphisms_;
  Recent<device::ProductConstant> products_{64, std::size_t{1} << 24};  // cached products, found by their weights and
                                                                        // indices
};

}  // namespace heliograph::ring
