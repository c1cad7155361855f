#include "mesh/transport/packing.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace heliograph::mesh::packing {

namespace {

static_assert(std::endian::native == std::endian::little, "words must be little-endian");

using u64 = std::uint64_t;
constexpr std::size_t kWord = sizeof(u64), kBlock = 1024;  // words of a block
constexpr std::size_t kLeast = kBlock * kWord;             // bytes below which data is not packed
constexpr std::size_t kSamples = 16;                       // number of sampled blocks

u64 word_at(const std::byte* from) {
  u64 w;
  std::memcpy(&w, from, kWord);
  return w;
}

std::size_t width_of(const std::byte* words, std::size_t count) {
  u64 any = 0;
  for (std::size_t i = 0; i < count; ++i) any |= word_at(words + i * kWord);
  return (static_cast<std::size_t>(std::bit_width(any)) + 7) / 8;
}

/// Returns whether sampled blocks need at least an eighth less memory when packed.
bool worth(std::span<const std::byte> words) {
  const std::size_t blocks = words.size() / kLeast, step = std::max<std::size_t>(1, blocks / kSamples);
  std::size_t bytes = 0, all = 0;
  for (std::size_t b = 0; b < blocks; b += step) bytes += width_of(words.data() + b * kLeast, kBlock), all += kWord;
  return blocks > 0 && bytes <= all - all / 8;
}

/// Calls `f` with the width as a compile-time constant.
template <class F>
void of_width(std::size_t width, F f) {
  switch (width) {
    case 1:
      return f(std::integral_constant<std::size_t, 1>());
    case 2:
      return f(std::integral_constant<std::size_t, 2>());
    case 3:
      return f(std::integral_constant<std::size_t, 3>());
    case 4:
      return f(std::integral_constant<std::size_t, 4>());
    case 5:
      return f(std::integral_constant<std::size_t, 5>());
    case 6:
      return f(std::integral_constant<std::size_t, 6>());
    case 7:
      return f(std::integral_constant<std::size_t, 7>());
    case 8:
      return f(std::integral_constant<std::size_t, 8>());
    default:
      return;
  }
}

}  // namespace

std::optional<Bytes> packed(std::span<const std::byte> words) {
  if (!worth(words)) return {};
  Bytes out;
  out.reserve(words.size() + words.size() / kLeast + 4 * kWord);
  const u64 size = words.size();
  out.resize(kWord);
  std::memcpy(out.data(), &size, kWord);
  const std::size_t whole = words.size() / kWord;
  for (std::size_t first = 0; first < whole; first += kBlock) {
    const std::byte* const from = words.data() + first * kWord;
    const std::size_t count = std::min(kBlock, whole - first), width = width_of(from, count), at = out.size() + 1;
    out.push_back(static_cast<std::byte>(width));
    out.resize(at + count * width + kWord);  // each store writes a complete word; the next store overwrites the rest
    of_width(width, [&](auto w) {
      for (std::size_t i = 0; i < count; ++i) std::memcpy(out.data() + at + i * w(), from + i * kWord, kWord);
    });
    out.resize(at + count * width);
  }
  out.insert(out.end(), words.begin() + static_cast<std::ptrdiff_t>(whole * kWord), words.end());
  return out;
}

std::size_t plain_size(std::span<const std::byte> packed) { return packed.size() < kWord ? 0 : word_at(packed.data()); }

bool unpack(std::span<const std::byte> packed, std::span<std::byte> words) {
  if (packed.size() < kWord || plain_size(packed) != words.size()) return false;
  const std::size_t whole = words.size() / kWord;
  std::size_t at = kWord;
  for (std::size_t first = 0; first < whole; first += kBlock) {
    const std::size_t count = std::min(kBlock, whole - first);
    if (at >= packed.size()) return false;
    const auto width = static_cast<std::size_t>(packed[at++]);
    if (width > kWord || packed.size() - at < count * width) return false;
    std::byte* const to = words.data() + first * kWord;
    if (width == 0) std::memset(to, 0, count * kWord);
    of_width(width, [&](auto w) {
      constexpr u64 kMask = ~u64{0} >> (64 - 8 * decltype(w)::value);
      const std::byte* const from = packed.data() + at;
      // Reads complete words as long as they end within the block.
      const std::size_t safe = count - std::min(count, (kWord - 1) / w());
      for (std::size_t i = 0; i < safe; ++i) {
        const u64 word = word_at(from + i * w()) & kMask;
        std::memcpy(to + i * kWord, &word, kWord);
      }
      for (std::size_t i = safe; i < count; ++i) {
        u64 word = 0;
        std::memcpy(&word, from + i * w(), w());
        std::memcpy(to + i * kWord, &word, kWord);
      }
    });
    at += count * width;
  }
  const std::size_t rest = words.size() - whole * kWord;
  if (packed.size() - at != rest) return false;
  std::copy(packed.begin() + static_cast<std::ptrdiff_t>(at), packed.end(),
            words.begin() + static_cast<std::ptrdiff_t>(whole * kWord));
  return true;
}

}  // namespace heliograph::mesh::packing
