// Scalar 64-bit arithmetic for any modulus below 2^60.
#pragma once

#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/unroll.h"

namespace heliograph::backend::cpu {
namespace {

HELIOGRAPH_INLINE u64 high64(u64 a, u64 b) { return static_cast<u64>((u128{a} * b) >> 64); }
/// Returns x mod q for x < 2q; x, q < 2^63. Uses the sign, because compilers turn comparisons into branches.
HELIOGRAPH_INLINE u64 fold(u64 x, u64 q) {
  const u64 less = x - q;
  return less + (q & (u64{0} - (less >> 63)));
}
HELIOGRAPH_INLINE u64 shoup64(u64 w, u64 q) { return static_cast<u64>((u128{w} << 64) / q); }
/// Returns y * w mod q below 2q, for any y.
HELIOGRAPH_INLINE u64 mul_lazy(u64 y, u64 w, u64 w_shoup, u64 q) { return y * w - high64(y, w_shoup) * q; }

HELIOGRAPH_INLINE u64 reduce128(u128 x, const Modulus& m) {
  const u64 high = static_cast<u64>(x >> 64), low = static_cast<u64>(x);
  const u64 lazy = mul_lazy(high, m.two64, m.two64_shoup, m.q) + (low - high64(low, m.one_shoup64) * m.q);
  return fold(fold(lazy, 2 * m.q), m.q);
}

template <class WordType>
struct Scalar {
  using Word = WordType;
  using Cell = u64;
  using V = u64;
  struct State {};
  struct WordState {};
  struct Twiddle {
    u64 w, w_shoup;
  };
  static constexpr std::size_t kLanes = 1, kLaneCells = 1, kTerms = 128;
  static constexpr bool kRefresh = false, kShifts = false;
  static constexpr int kPassVectors = 1, kVertical = 3, kPairs = 1;

  const Modulus& m;
  u64 q, q2, last_w = 0, last_w_shoup = 0, last_x = 0, last_x_shoup = 0;
  explicit Scalar(const Modulus& modulus) : m(modulus), q(modulus.q), q2(2 * modulus.q) {}
  void set_last(u64 inverse, u64 twiddle) {
    last_x = inverse, last_x_shoup = shoup64(inverse, q), last_w = twiddle, last_w_shoup = shoup64(twiddle, q);
  }

  static void encode_pair(const Modulus& m, u64 w, Cell* cell) { cell[0] = w, cell[1] = shoup64(w, m.q); }
  static void encode_lanes(const Modulus&, const u64*, std::size_t, Cell*) {}
  Twiddle pair(const Cell* cell) const { return {cell[0], cell[1]}; }

  // Butterflies: below 4q forward, below 2q backward.
  V load_canonical(const Word* p) const { return *p; }
  V load(const u64* p) const { return *p; }
  void store(u64* p, V x) const { *p = x; }
  template <bool Rest, bool Shifted, bool OneRange>
  void forward(V& x, V& y, Twiddle t) const {
    const u64 a = fold(x, q2), b = mul_lazy(y, t.w, t.w_shoup, q);
    x = a + b, y = a + q2 - b;
  }
  template <bool Rest>
  void inverse(V& x, V& y, Twiddle t) const {
    const u64 sum = x + y, difference = x + q2 - y;
    x = fold(sum, q2), y = mul_lazy(difference, t.w, t.w_shoup, q);
  }
  void inverse_last(V& x, V& y) const {
    const u64 sum = x + y, difference = x + q2 - y;
    x = mul_lazy(sum, last_x, last_x_shoup, q), y = mul_lazy(difference, last_w, last_w_shoup, q);
  }
  template <bool Shifted>
  V canonical(V x) const {
    return fold(fold(x, q2), q);
  }
  void store_canonical(Word* p, V x) const { *p = static_cast<Word>(x); }

  using Factor = Twiddle;
  using Sum = u128;
  V load(const u32* p) const { return *p; }
  void store(u32* p, V x) const { *p = static_cast<u32>(x); }
  V broadcast(u64 c) const { return c; }
  V add(V a, V b) const { return fold(a + b, q); }
  V sub(V a, V b) const { return fold(a + q - b, q); }
  V neg(V a) const { return fold(q - a, q); }
  V mul(V a, V b) const { return reduce128(u128{a} * b, m); }
  Factor factor(u64 c) const { return {c, shoup64(c, q)}; }
  V mul_factor(V a, Factor f) const { return fold(mul_lazy(a, f.w, f.w_shoup, q), q); }
  Sum sum_zero() const { return 0; }
  Sum sum_from(V a) const { return a; }
  void accumulate(Sum& sum, V a, V b) const { sum += u128{a} * b; }
  V reduce(Sum sum) const { return reduce128(sum, m); }
};

}  // namespace
}  // namespace heliograph::backend::cpu
