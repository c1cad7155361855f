// ChaCha20 follows RFC 8439, draws have the intended distributions, and the kernel `sample` follows its definition.
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <cstring>

#include "math/sampler.h"
#include "op_cases.h"

namespace heliograph::test {

namespace {

using device::Distribution;
using device::Draw;

math::Key256 counting_key() {
  math::Key256 key;
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<unsigned char>(i);
  return key;
}

/// Returns a block as hexadecimal bytes in stream order.
std::string hex(const std::array<u32, 16>& block) {
  std::string text;
  for (const u32 word : block) {
    for (int b = 0; b < 4; ++b) {
      constexpr char kDigits[] = "0123456789abcdef";
      const u32 byte = word >> (8 * b) & 0xff;
      text += kDigits[byte >> 4], text += kDigits[byte & 15];
    }
  }
  return text;
}

TEST(ChaCha20, MatchesTheBlockOfSection232) {
  EXPECT_EQ(hex(math::chacha20_block(counting_key(), 1, {0x09000000, 0x4a000000, 0})),
            "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
            "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e");
}

TEST(ChaCha20, MatchesTheBlocksOfAppendixA1) {
  math::Key256 zero{}, last{}, second{};
  last[31] = 1, second[1] = 0xff;
  EXPECT_EQ(hex(math::chacha20_block(zero, 0, {0, 0, 0})),
            "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
            "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586");
  EXPECT_EQ(hex(math::chacha20_block(zero, 1, {0, 0, 0})),
            "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
            "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f");
  EXPECT_EQ(hex(math::chacha20_block(last, 1, {0, 0, 0})),
            "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
            "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0");
  EXPECT_EQ(hex(math::chacha20_block(second, 2, {0, 0, 0})),
            "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
            "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096");
  EXPECT_EQ(hex(math::chacha20_block(zero, 0, {0, 0, 0x02000000})),
            "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
            "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d");
}

TEST(Entropy, TwoDrawsDiffer) { EXPECT_NE(math::system_entropy(), math::system_entropy()); }

/// 64-bit draws of a fixed stream.
class Stream {
 public:
  u64 next() {
    if (at_ == 8) block_ = math::chacha20_block(counting_key(), counter_++, {1, 2, 3}), at_ = 0;
    const u64 draw = u64{block_[2 * at_ + 1]} << 32 | block_[2 * at_];
    ++at_;
    return draw;
  }

 private:
  std::array<u32, 16> block_{};
  std::size_t at_ = 8;
  u32 counter_ = 0;
};

TEST(Uniform, ReducesAll128Bits) {
  EXPECT_EQ(math::uniform_from(5, 0, 97), 5u);
  EXPECT_EQ(math::uniform_from(0, 1, 97), math::pow_mod(2, 64, 97));
  const u64 q = (u64{1} << 60) - 93, all = ~u64{0};
  EXPECT_EQ(math::uniform_from(all, all, q), math::sub_mod(math::pow_mod(2, 128, q), 1, q));
}

TEST(Uniform, FillsItsRangeEvenly) {
  // Chi-square of 128 cells with 127 degrees of freedom has mean 127 and deviation 16; chance alone never exceeds 8
  // deviations.
  for (const u64 q : {u64{1073738753}, (u64{1} << 60) - 93, u64{97}}) {
    const u64 cells = std::min<u64>(q, 128), draws = 200'000;
    std::vector<double> hits(cells, 0);
    Stream stream;
    for (u64 i = 0; i < draws; ++i) {
      const u64 low = stream.next(), value = math::uniform_from(low, stream.next(), q);
      ASSERT_LT(value, q);
      ++hits[static_cast<std::size_t>(static_cast<math::u128>(value) * cells / q)];
    }
    double chi = 0;
    for (std::size_t c = 0; c < cells; ++c) {
      const auto width =
          static_cast<double>((math::u128{q} * (c + 1) + cells - 1) / cells - (math::u128{q} * c + cells - 1) / cells);
      const double expected = static_cast<double>(draws) * width / static_cast<double>(q);
      chi += (hits[c] - expected) * (hits[c] - expected) / expected;
    }
    const double degrees = static_cast<double>(cells - 1);
    EXPECT_LT(std::abs(chi - degrees), 8 * std::sqrt(2 * degrees)) << q;
  }
}

TEST(Ternary, HasThreeEquallyLikelyValues) {
  EXPECT_EQ(math::ternary_from(0), -1);
  EXPECT_EQ(math::ternary_from(~u64{0}), 1);
  EXPECT_EQ(math::ternary_from(u64{1} << 63), 0);
  EXPECT_EQ(math::ternary_from(~u64{0} / 3), -1);
  EXPECT_EQ(math::ternary_from(~u64{0} / 3 + 1), 0);
  Stream stream;
  double hits[3] = {};
  const int draws = 300'000;
  for (int i = 0; i < draws; ++i) ++hits[math::ternary_from(stream.next()) + 1];
  for (const double h : hits) EXPECT_LT(std::abs(h - draws / 3.0), 8 * std::sqrt(draws * 2.0 / 9));
}

/// Returns P(|X| = k) of the discrete Gaussian with deviation 3.19.
std::vector<long double> gaussian_weights() {
  std::vector<long double> w(60);
  long double sum = 0;
  for (std::size_t k = 0; k < w.size(); ++k) {
    const auto x = static_cast<long double>(k);
    w[k] = (k == 0 ? 1 : 2) * std::exp(-x * x / (2 * 3.19L * 3.19L));
    sum += w[k];
  }
  for (long double& v : w) v /= sum;
  return w;
}

TEST(Gaussian, TableMatchesTheDistribution) {
  const std::vector<long double> w = gaussian_weights();
  long double below = 0, tail = 0;
  for (std::size_t k = 0; k < math::kGaussianTable.size(); ++k) {
    below += w[k];
    // `below` times 2^63 is 2^63 P(|X| <= k) to the precision of a long double, which is 64 bits or more, on some machines
    // 53.
    const long double difference = below * 9223372036854775808.0L - static_cast<long double>(math::kGaussianTable[k]);
    EXPECT_LT(std::abs(difference), std::numeric_limits<long double>::digits >= 64 ? 16.0L : 65536.0L) << k;
  }
  EXPECT_TRUE(std::is_sorted(math::kGaussianTable.begin(), math::kGaussianTable.end()));
  // The largest entry also represents the magnitudes beyond the table. A magnitude beyond the table has a probability below
  // 2^-63.
  for (std::size_t k = math::kGaussianTable.size() + 1; k < w.size(); ++k) tail += w[k];
  EXPECT_LT(tail, std::ldexp(1.0L, -63));
}

TEST(Gaussian, InversionChangesValueAtEachTableEntry) {
  EXPECT_EQ(math::gaussian_from(0), 0);
  EXPECT_EQ(math::gaussian_from(1), 0);
  for (std::size_t k = 0; k < math::kGaussianTable.size(); ++k) {
    const u64 entry = math::kGaussianTable[k];
    const int magnitude = static_cast<int>(k) + 1;
    EXPECT_EQ(math::gaussian_from(entry << 1), magnitude);
    EXPECT_EQ(math::gaussian_from(entry << 1 | 1), -magnitude);
    EXPECT_EQ(math::gaussian_from((entry - 1) << 1), magnitude - 1);
  }
}

TEST(Gaussian, HasItsMomentsAndTails) {
  Stream stream;
  const int draws = 400'000;
  double sum = 0, squares = 0;
  std::vector<double> hits(40, 0);
  for (int i = 0; i < draws; ++i) {
    const int x = math::gaussian_from(stream.next());
    ASSERT_LE(std::abs(x), 29);
    sum += x, squares += static_cast<double>(x) * x;
    ++hits[static_cast<std::size_t>(std::abs(x))];
  }
  const double deviation = math::kSigma / std::sqrt(draws);
  EXPECT_LT(std::abs(sum / draws), 8 * deviation);
  EXPECT_NEAR(squares / draws, math::kSigma * math::kSigma, 8 * math::kSigma * math::kSigma * std::sqrt(2.0 / draws));
  const std::vector<long double> w = gaussian_weights();
  for (std::size_t k = 0; k < 14; ++k) {
    const double expected = draws * static_cast<double>(w[k]);
    EXPECT_LT(std::abs(hits[k] - expected), 8 * std::sqrt(expected) + 8) << k;
  }
}

/// Runs `sample` once on `ref` and returns [item][component][limb][n] residues, in a ring of three primes.
std::vector<u64> sampled(const math::Ring& ring, const PrimeList& primes, const Draw& draw, std::size_t items,
                         std::size_t components) {
  const auto device = device::open_device("ref");
  const auto queue = device->make_queue();
  std::vector<u64> words(items * components * primes.size() * ring.n());
  const View v =
      View::dense(reinterpret_cast<std::byte*>(words.data()), Word::w64, {items}, components, primes.size(), ring.n());
  const auto prepared = device->kernels().prepare(std::make_shared<math::Ring>(ring));
  queue->enqueue(device::Sample{prepared, primes, Secret(draw), v});
  return words;
}

TEST(Sample, FollowsTheDefinedNonces) {
  const auto ring = ring_of(kField60, 32, 3);
  const PrimeList primes{2, 0};
  for (const Distribution d : {Distribution::uniform, Distribution::ternary, Distribution::gaussian}) {
    const Draw draw{.key = counting_key(), .distribution = d, .purpose = 9, .object = 77, .first_item = 1000};
    const std::vector<u64> words = sampled(*ring, primes, draw, 3, 2);
    std::size_t at = 0;
    for (u32 item = 0; item < 3; ++item) {
      for (u32 c = 0; c < 2; ++c) {
        for (const math::PrimeIndex p : primes) {
          const u64 q = ring->prime(p);
          for (u32 i = 0; i < 32; ++i, ++at) {
            const u32 low = d == Distribution::uniform ? p : 0xffffu, per = d == Distribution::uniform ? 4 : 8,
                      step = 16 / per;
            const auto block = math::chacha20_block(draw.key, i / per, {9u << 24 | c << 16 | low, 77, 1000 + item});
            u64 w[2];
            std::memcpy(w, &block[i % per * step], step * 4);
            const u64 expected = d == Distribution::uniform   ? math::uniform_from(w[0], w[1], q)
                                 : d == Distribution::ternary ? math::signed_mod(math::ternary_from(w[0]), q)
                                                              : math::signed_mod(math::gaussian_from(w[0]), q);
            ASSERT_EQ(words[at], expected);
          }
        }
      }
    }
  }
}

TEST(Sample, DoesNotDependOnTheSplitOfBatchOrLimbs) {
  const auto ring = ring_of(kField60, 64, 3);
  for (const Distribution d : {Distribution::uniform, Distribution::ternary, Distribution::gaussian}) {
    Draw draw{.key = counting_key(), .distribution = d, .purpose = 1};
    const std::vector<u64> whole = sampled(*ring, {0, 1, 2}, draw, 5, 1);
    draw.first_item = 3;
    const std::vector<u64> part = sampled(*ring, {1}, draw, 2, 1);
    for (std::size_t item = 0; item < 2; ++item) {
      for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(part[item * 64 + i], whole[((item + 3) * 3 + 1) * 64 + i]);
    }
  }
}

TEST(Sample, DiffersWithEveryPartOfItsPosition) {
  const auto ring = ring_of(kField60, 64, 3);
  const Draw draw{.key = counting_key(), .distribution = Distribution::uniform, .purpose = 1, .object = 5, .first_item = 7};
  const std::vector<u64> first = sampled(*ring, {0}, draw, 1, 1);
  EXPECT_EQ(first, sampled(*ring, {0}, draw, 1, 1));
  for (int part = 0; part < 4; ++part) {
    Draw other = draw;
    if (part == 0) other.key[31] ^= 1;
    if (part == 1) ++other.purpose;
    if (part == 2) ++other.object;
    if (part == 3) ++other.first_item;
    EXPECT_NE(first, sampled(*ring, {0}, other, 1, 1)) << part;
  }
  const std::vector<u64> two = sampled(*ring, {0}, draw, 1, 2);
  EXPECT_FALSE(std::equal(two.begin(), two.begin() + 64, two.begin() + 64));
}

}  // namespace

}  // namespace heliograph::test
