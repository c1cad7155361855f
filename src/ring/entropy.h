// Where keys' and encryptions' randomness comes from, and the names of keys.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "base/secret.h"
#include "math/sampler.h"

namespace heliograph::ring {

/// The operating system, except in tests that need known answers. Of a device of several processes the key holder alone draws
/// (device/device.h), and what others must have, the seed of masks say, is broadcast with what was made of it.
class Entropy {
 public:
  Entropy() = default;
  /// Test only: every key drawn from `seed` by counting.
  explicit Entropy(const math::Key256& seed) : fixed_(seed) {}
  /// A seed that may be known.
  math::Key256 next();
  /// A seed of secrets or errors.
  Secret<math::Key256> next_secret();

 private:
  std::optional<math::Key256> fixed_;
  math::u32 count_ = 0;
};

/// Test only: the 32 bytes of a text. ParameterError.
math::Key256 test_seed(const std::string& text);

/// A key's or key set's name: 16 random bytes.
using KeyId = std::array<unsigned char, 16>;
KeyId new_id(Entropy& entropy);
std::string key_text(const KeyId& id);

}  // namespace heliograph::ring
