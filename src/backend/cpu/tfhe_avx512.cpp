// TFHE's loops with AVX-512.
#include <immintrin.h>

#include "backend/cpu/loops/plain_floats.h"
#include "backend/cpu/loops/tfhe_loops.h"

namespace heliograph::backend::cpu {

namespace {

struct EightDoubles {
  using V = __m512d;
  using State = PlainFloats;
  static constexpr int kLogLanes = 3, kMaxLogRadix = 3;
  static constexpr std::size_t kLanes = 8;

  static HELIOGRAPH_INLINE V load(const double* p) { return _mm512_load_pd(p); }
  static HELIOGRAPH_INLINE void store(double* p, V x) { _mm512_store_pd(p, x); }
  static HELIOGRAPH_INLINE V all(double x) { return _mm512_set1_pd(x); }
  static HELIOGRAPH_INLINE V add(V a, V b) { return _mm512_add_pd(a, b); }
  static HELIOGRAPH_INLINE V sub(V a, V b) { return _mm512_sub_pd(a, b); }
  static HELIOGRAPH_INLINE V mul(V a, V b) { return _mm512_mul_pd(a, b); }
  static HELIOGRAPH_INLINE V fma(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
  static HELIOGRAPH_INLINE V fnma(V a, V b, V c) { return _mm512_fnmadd_pd(a, b, c); }
  static HELIOGRAPH_INLINE V round(V x) { return _mm512_roundscale_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static HELIOGRAPH_INLINE void transpose(V* x) {
    V a[8], b[8];
    unroll<4>([&](auto i) __attribute__((always_inline)) {
      a[2 * i()] = _mm512_unpacklo_pd(x[2 * i()], x[2 * i() + 1]);
      a[2 * i() + 1] = _mm512_unpackhi_pd(x[2 * i()], x[2 * i() + 1]);
    });
    // b[4 h + r] has rows 4 h to 4 h + 3, quarters r and r + 2 (even columns in 0, 2; odd columns in 1, 3).
    unroll<2>([&](auto h) __attribute__((always_inline)) {
      unroll<2>([&](auto o) __attribute__((always_inline)) {
        b[4 * h() + o()] = _mm512_shuffle_f64x2(a[4 * h() + o()], a[4 * h() + 2 + o()], 0x88);
        b[4 * h() + 2 + o()] = _mm512_shuffle_f64x2(a[4 * h() + o()], a[4 * h() + 2 + o()], 0xdd);
      });
    });
    unroll<4>([&](auto r) __attribute__((always_inline)) {
      x[r()] = _mm512_shuffle_f64x2(b[r()], b[4 + r()], 0x88);
      x[4 + r()] = _mm512_shuffle_f64x2(b[r()], b[4 + r()], 0xdd);
    });
  }
};

struct SixteenWords {
  using V = __m512i;
  static constexpr std::size_t kLanes = 16;
  static constexpr int kVectors = 4;
  static HELIOGRAPH_INLINE V load(const u32* p) { return _mm512_load_si512(p); }
  static HELIOGRAPH_INLINE void store(u32* p, V x) { _mm512_store_si512(p, x); }
  static HELIOGRAPH_INLINE V all(i32 x) { return _mm512_set1_epi32(x); }
  static HELIOGRAPH_INLINE V mul(V a, V b) { return _mm512_mullo_epi32(a, b); }
  static HELIOGRAPH_INLINE V sub(V a, V b) { return _mm512_sub_epi32(a, b); }
};

}  // namespace

const TfheOps& avx512_tfhe() {
  static constexpr TfheOps ops = tfhe_loops<EightDoubles, SixteenWords>("AVX-512");
  return ops;
}

}  // namespace heliograph::backend::cpu
