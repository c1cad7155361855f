#include "lwe/sampling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/errors.h"
#include "base/secret.h"
#include "lwe/gaussian.h"

namespace heliograph::lwe {

namespace {

// A vector has the same word of several ChaCha20 blocks, one block per lane. The same source is compiled for several
// instruction sets.
typedef u32 Words4 __attribute__((vector_size(16)));
typedef u32 Words8 __attribute__((vector_size(32)));
typedef u32 Words16 __attribute__((vector_size(64)));

constexpr std::size_t kStreamWords = 256;  // words of 16 ChaCha20 blocks

template <class V>
[[gnu::always_inline]] inline void step(V& x, const V& y, V& z, int by) {
  x += y;
  z ^= x;
  z = z << by | z >> (32 - by);
}

template <class V>
[[gnu::always_inline]] inline void quarter(V& a, V& b, V& c, V& d) {
  step(a, b, d, 16), step(c, d, b, 12), step(a, b, d, 8), step(c, d, b, 7);
}

/// Selects lanes: lane i of `out` is lane `from[i]` of the concatenation of a and b.
template <class V>
[[gnu::always_inline]] inline void shuffle(const V& a, const V& b, const V& from, V& out) {
#ifdef __clang__  // clang's builtin takes constant indices only
  constexpr u32 lanes = sizeof(V) / 4;
  for (u32 i = 0; i < lanes; ++i) out[i] = from[i] < lanes ? a[from[i]] : b[from[i] - lanes];
#else
  out = __builtin_shuffle(a, b, from);
#endif
}

/// Transposes a square matrix of lanes by exchanging halves at every distance.
template <class V>
[[gnu::always_inline]] inline void transpose(V* rows) {
  constexpr u32 lanes = sizeof(V) / 4;
  for (u32 h = 1; h < lanes; h *= 2) {
    V low, high;
    for (u32 i = 0; i < lanes; ++i) {
      low[i] = i & h ? lanes + i - h : i;
      high[i] = i & h ? lanes + i : i + h;
    }
    for (u32 i = 0; i < lanes; ++i) {
      if (i & h) continue;
      const V a = rows[i], b = rows[i + h];
      shuffle(a, b, low, rows[i]);
      shuffle(a, b, high, rows[i + h]);
    }
  }
}

/// Computes the ChaCha20 blocks for the counters from `counter` to counter + 15, in this order. counter + 15, in this order.
template <class V>
[[gnu::always_inline]] inline void blocks_of(const u32* start, u32 counter, u32* out) {
  constexpr std::size_t lanes = sizeof(V) / 4;
  for (std::size_t first = 0; first < 16; first += lanes) {
    V count, s[16];
    for (std::size_t j = 0; j < lanes; ++j) count[j] = counter + static_cast<u32>(first + j);
    for (std::size_t i = 0; i < 16; ++i) s[i] = V{} + start[i];
    s[12] = count;
    for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) quarter(s[k], s[4 + k], s[8 + k], s[12 + k]);
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) quarter(s[k], s[4 + (k + 1) % 4], s[8 + (k + 2) % 4], s[12 + (k + 3) % 4]);
    }
    for (std::size_t i = 0; i < 16; ++i) s[i] += i == 12 ? count : V{} + start[i];
    for (std::size_t i = 0; i < 16; i += lanes) {
      transpose(s + i);
      for (std::size_t j = 0; j < lanes; ++j) std::memcpy(out + 16 * (first + j) + i, &s[i + j], sizeof(V));
    }
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void blocks_avx2(const u32* start, u32 counter, u32* out) {
  blocks_of<Words8>(start, counter, out);
}
__attribute__((target("avx512f"))) void blocks_avx512(const u32* start, u32 counter, u32* out) {
  blocks_of<Words16>(start, counter, out);
}
#endif

void blocks_plain(const u32* start, u32 counter, u32* out) { blocks_of<Words4>(start, counter, out); }

using Blocks = void (*)(const u32* start, u32 counter, u32* out);
Blocks best_blocks() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return blocks_avx512;
  if (__builtin_cpu_supports("avx2")) return blocks_avx2;
#endif
  return blocks_plain;
}

/// Writes the first `bytes` bytes of the ChaCha20 stream of a position.
void stream(const Key256& key, const Position& at, std::byte* out, std::size_t bytes) {
  static const Blocks blocks = best_blocks();
  std::array<u32, 16> start = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
  const WipeAtEnd end(start);
  std::memcpy(&start[4], key.data(), 32);
  const auto nonce = math::draw_nonce(at.purpose, at.component, 0, at.object, at.item);
  std::copy(nonce.begin(), nonce.end(), &start[13]);
  if (bytes <= 64) {
    auto block = math::chacha20_block(key, 0, nonce);
    const WipeAtEnd block_end(block);
    std::memcpy(out, block.data(), bytes);
    return;
  }
  alignas(64) std::array<u32, kStreamWords> block;
  const WipeAtEnd block_end(block);
  for (std::size_t done = 0; done < bytes; done += sizeof block) {
    blocks(start.data(), static_cast<u32>(done / 64), block.data());
    std::memcpy(out + done, block.data(), std::min(sizeof block, bytes - done));
  }
}

}  // namespace

double Noise::variance() const {
  return tuniform ? (std::exp2(2 * value + 1) + 1) / 6 * 0x1p-128 : std::exp2(2 * value) + 0x1p-128 / 12;
}

void fill_uniform(const Key256& key, const Position& at, std::span<u64> out) {
  stream(key, at, reinterpret_cast<std::byte*>(out.data()), out.size_bytes());
}

void fill_uniform(const Key256& key, const Position& at, std::span<u32> out) {
  stream(key, at, reinterpret_cast<std::byte*>(out.data()), out.size_bytes());
}

void fill_binary(const Key256& key, const Position& at, std::span<unsigned char> out) {
  SecretVector<std::byte> bits((out.size() + 7) / 8);
  stream(key, at, bits.data(), bits.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<unsigned char>(bits[i / 8] >> (i % 8)) & 1;
}

void fill_errors(const Key256& key, const Position& at, const Noise& noise, std::span<u64> out) {
  if (noise.tuniform) {
    const auto b = static_cast<unsigned>(noise.value);
    require<ParameterError>(b <= 62 && b == noise.value, "b of TUniform(b) must be an integer of at most 62");
    fill_uniform(key, at, out);
    // b + 2 random bits, halved and rounded up: each of the two end values comes from one number, every other value from two
    // numbers.
    for (u64& x : out) x = (((x >> (62 - b)) + 1) >> 1) - (u64{1} << b);
    return;
  }
  const double sigma = std::exp2(noise.value + 64);
  std::vector<u64> draws(2 * out.size());
  fill_uniform(key, at, std::span<u64>(draws));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = nearest_word(sigma * deviates_from(draws[2 * i], draws[2 * i + 1]).first);
  wipe(draws.data(), draws.size() * sizeof(u64));
}

}  // namespace heliograph::lwe
