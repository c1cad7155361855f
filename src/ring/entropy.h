// Where keys' and encryptions' randomness comes from, and the names of keys.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "device/device.h"
#include "math/sampler.h"

namespace heliograph::ring {

/// The operating system, except in tests that need known answers. What goes into tensors must be the same in all processes
/// that share a device, so it is drawn for that device.
class Entropy {
 public:
  /// `device` must outlive it.
  explicit Entropy(device::Device& device) : device_(&device) {}
  /// Test only: every key drawn from `seed` by counting.
  explicit Entropy(const math::Key256& seed) : fixed_(seed) {}
  math::Key256 next();

 private:
  device::Device* device_ = nullptr;
  std::optional<math::Key256> fixed_;
  math::u32 count_ = 0;
};

/// A key's or key set's name: 16 random bytes.
using KeyId = std::array<unsigned char, 16>;
KeyId new_id(Entropy& entropy);
std::string key_text(const KeyId& id);

}  // namespace heliograph::ring
