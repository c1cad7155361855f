// Randomness of keys and encryptions, and key ids.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "base/secret.h"
#include "math/sampler.h"

namespace heliograph::ring {

/// Source of random seeds: the operating system, or in tests a fixed seed. On a device of several processes only the key
/// holder draws (device/device.h). Public values such as mask seeds are broadcast with the objects made from them.
class Entropy {
 public:
  Entropy() = default;
  /// For tests: derives every seed from `seed` and a counter.
  explicit Entropy(const math::Key256& seed) : fixed_(seed) {}
  /// Returns a seed that may be published.
  math::Key256 next();
  /// Returns a seed for secrets or errors.
  Secret<math::Key256> next_secret();

 private:
  std::optional<math::Key256> fixed_;
  math::u32 count_ = 0;
};

/// For tests: converts a text of 32 bytes to a seed. Throws ParameterError for other lengths.
math::Key256 test_seed(const std::string& text);

/// Identifies a key or a set of keys: 16 random bytes.
using KeyId = std::array<unsigned char, 16>;
KeyId new_id(Entropy& entropy);
std::string key_text(const KeyId& id);

}  // namespace heliograph::ring
