// Integer loops on LWE ciphertexts: linear combinations modulo 2^64 and key switching modulo 2^32.
#pragma once

#include "backend/cpu/loops/unroll.h"
#include "backend/cpu/tfhe_ops.h"

namespace heliograph::backend::cpu {
namespace {

// Plain loops: compilers vectorise them for each instruction set.

inline void lwe_digits(const u64* words, std::size_t count, unsigned log_base, unsigned gadget_length, u64* rest, i32* out) {
  const unsigned kept = log_base * gadget_length;
  const u64 half = u64{1} << (63 - kept), base = u64{1} << log_base;
  for (std::size_t i = 0; i < count; ++i) rest[i] = (words[i] + half) >> (64 - kept);
  for (unsigned l = gadget_length; l-- > 0;) {
    i32* const to = out + l * count;
    for (std::size_t i = 0; i < count; ++i) {
      const u64 digit = ((rest[i] + base / 2) & (base - 1)) - base / 2;
      to[i] = static_cast<i32>(digit);
      rest[i] = (rest[i] - digit) >> log_base;
    }
  }
}

inline void lwe_combine(std::size_t terms, const u64* const* in, const i32* weights, u64* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = 0;
  for (std::size_t t = 0; t < terms; ++t) {
    const u64 weight = static_cast<u64>(i64{weights[t]});
    const u64* const x = in[t];
    for (std::size_t i = 0; i < count; ++i) out[i] += weight * x[i];
  }
}

/// W: vectors of 32-bit words. `Samples` ciphertexts times `Vectors` vectors stay in registers.
template <class W>
struct SwitchRows {
  using V = typename W::V;
  static constexpr std::size_t kLanes = W::kLanes;

  template <int Samples, int Vectors>
  static HELIOGRAPH_INLINE void strip(const SwitchBlock& b, const i32* digits, u32* acc, std::size_t first) {
    V sum[Samples][Vectors];
    unroll<Samples>([&](auto s) __attribute__((always_inline)) {
      unroll<Vectors>([&](auto v) __attribute__((always_inline)) {
        sum[s()][v()] = W::load(acc + s() * b.acc_stride + first + v() * kLanes);
      });
    });
    for (std::size_t row = 0; row < b.rows; ++row) {
      V key[Vectors];
      unroll<Vectors>([&](auto v) __attribute__((always_inline)) {
        key[v()] = W::load(b.key + row * kSwitchTile + first + v() * kLanes);
      });
      unroll<Samples>([&](auto s) __attribute__((always_inline)) {
        const V digit = W::all(digits[s() * b.digit_stride + row]);
        unroll<Vectors>([&](auto v) __attribute__((always_inline)) {
          sum[s()][v()] = W::sub(sum[s()][v()], W::mul(digit, key[v()]));
        });
      });
    }
    unroll<Samples>([&](auto s) __attribute__((always_inline)) {
      unroll<Vectors>([&](auto v) __attribute__((always_inline)) {
        W::store(acc + s() * b.acc_stride + first + v() * kLanes, sum[s()][v()]);
      });
    });
  }
  template <int Samples>
  static void strips(const SwitchBlock& b, std::size_t sample) {
    constexpr int kVectors = W::kVectors;
    static_assert(kSwitchTile % (kVectors * kLanes) == 0);
    for (std::size_t first = 0; first < kSwitchTile; first += kVectors * kLanes) {
      strip<Samples, kVectors>(b, b.digits + sample * b.digit_stride, b.acc + sample * b.acc_stride, first);
    }
  }
  static void run(const SwitchBlock& b) {
    std::size_t s = 0;
    for (; s + 4 <= b.samples; s += 4) strips<4>(b, s);
    for (; s + 2 <= b.samples; s += 2) strips<2>(b, s);
    for (; s < b.samples; ++s) strips<1>(b, s);
  }
};

template <class W>
void switch_rows(const SwitchBlock& b) {
  SwitchRows<W>::run(b);
}

}  // namespace
}  // namespace heliograph::backend::cpu
