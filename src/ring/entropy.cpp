#include "ring/entropy.h"

#include <cstring>

namespace heliograph::ring {

math::Key256 Entropy::next() {
  if (!fixed_) {
    math::Key256 key{};
    const std::vector<std::byte> bytes = device_->told([] {
      const math::Key256 drawn = math::system_entropy();
      const auto all = std::as_bytes(std::span(drawn));
      return std::vector<std::byte>(all.begin(), all.end());
    });
    std::memcpy(key.data(), bytes.data(), key.size());
    return key;
  }
  const auto block = math::chacha20_block(*fixed_, count_++, {0, 0, 0});
  math::Key256 key;
  std::memcpy(key.data(), block.data(), key.size());
  return key;
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
