#include "ring/entropy.h"

#include <cstring>

#include "base/errors.h"

namespace heliograph::ring {

math::Key256 Entropy::next() {
  if (!fixed_) return math::system_entropy();
  const auto block = math::chacha20_block(*fixed_, count_++, {0, 0, 0});
  math::Key256 key;
  std::memcpy(key.data(), block.data(), key.size());
  return key;
}

Secret<math::Key256> Entropy::next_secret() {
  Secret<math::Key256> seed;
  seed.get() = next();
  mark_secret(&seed.get(), sizeof seed);
  return seed;
}

math::Key256 test_seed(const std::string& text) {
  math::Key256 seed{};
  require<ParameterError>(text.size() == seed.size(), "a test seed must be 32 bytes");
  std::memcpy(seed.data(), text.data(), seed.size());
  return seed;
}

KeyId new_id(Entropy& entropy) {
  const math::Key256 bytes = entropy.next();
  KeyId id;
  std::memcpy(id.data(), bytes.data(), id.size());
  return id;
}

std::string key_text(const KeyId& id) {
  static const char* const digits = "0123456789abcdef";
  std::string text;
  for (unsigned char byte : id) text += digits[byte >> 4], text += digits[byte & 15];
  return text;
}

}  // namespace heliograph::ring
