// Words are packed into as few bytes as their moduli need, and unpacked again. Invalid packed data are refused.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "mesh/transport/packing.h"

namespace heliograph::mesh::packing {
namespace {

using u64 = std::uint64_t;

std::vector<u64> words_of(int bits, std::size_t count) {
  std::mt19937_64 random(3);
  std::vector<u64> words(count);
  for (u64& w : words) w = bits == 0 ? 0 : random() >> (64 - bits);
  return words;
}

std::span<const std::byte> bytes_of(const std::vector<u64>& words) { return std::as_bytes(std::span(words)); }

TEST(Packing, WordsAreRestoredAndTakeTheBytesOfTheirModulus) {
  for (int bits = 0; bits <= 64; ++bits) {
    for (const std::size_t count : {1024, 1025, 5000, 40960}) {
      const std::vector<u64> words = words_of(bits, count);
      const std::optional<Bytes> small = packed(bytes_of(words));
      EXPECT_EQ(small.has_value(), bits <= 56) << bits;
      if (!small) continue;
      const std::size_t width = static_cast<std::size_t>(bits + 7) / 8, blocks = (count + 1023) / 1024;
      EXPECT_EQ(small->size(), 8 + blocks + count * width);
      EXPECT_EQ(plain_size(*small), count * 8);
      std::vector<u64> back(count, ~u64{0});
      EXPECT_TRUE(unpack(*small, std::as_writable_bytes(std::span(back))));
      EXPECT_EQ(back, words) << bits;
    }
  }
}

TEST(Packing, PacksSeveralModuliAndAnIncompleteLastWord) {
  std::vector<u64> words = words_of(60, 2048);
  for (const int bits : {47, 30, 0, 1}) {
    const std::vector<u64> more = words_of(bits, 8192);
    words.insert(words.end(), more.begin(), more.end());
  }
  const std::span<const std::byte> bytes = bytes_of(words).first(words.size() * 8 - 3);
  const std::optional<Bytes> small = packed(bytes);
  ASSERT_TRUE(small);
  EXPECT_LT(small->size(), bytes.size() / 2);
  Bytes back(bytes.size());
  EXPECT_TRUE(unpack(*small, back));
  EXPECT_TRUE(std::equal(back.begin(), back.end(), bytes.begin()));
  EXPECT_FALSE(packed(bytes.first(100)));  // too short to be packed
  EXPECT_FALSE(packed({}));
}

TEST(Packing, DamagedBytesAreRefused) {
  const std::vector<u64> words = words_of(47, 3000);
  const Bytes small = *packed(bytes_of(words));
  Bytes back(words.size() * 8);
  for (std::size_t size = 0; size < small.size(); size += 97)
    EXPECT_FALSE(unpack(std::span(small).first(size), back)) << size;
  for (const int width : {7, 8, 9, 255}) {
    Bytes wrong = small;
    wrong[8] = static_cast<std::byte>(width);
    EXPECT_FALSE(unpack(wrong, back)) << width;
  }
  Bytes longer = small;
  longer.push_back({});
  EXPECT_FALSE(unpack(longer, back));
  EXPECT_FALSE(unpack(small, std::span(back).first(back.size() - 8)));
}

}  // namespace
}  // namespace heliograph::mesh::packing
