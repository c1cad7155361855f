// TFHE's loops with AVX2 and FMA.
#include <immintrin.h>

#include "backend/cpu/loops/plain_floats.h"
#include "backend/cpu/loops/tfhe_loops.h"

namespace heliograph::backend::cpu {

namespace {

struct FourDoubles {
  using V = __m256d;
  using State = PlainFloats;
  static constexpr int kLogLanes = 2, kMaxLogRadix = 2;
  static constexpr std::size_t kLanes = 4;

  static HELIOGRAPH_INLINE V load(const double* p) { return _mm256_load_pd(p); }
  static HELIOGRAPH_INLINE void store(double* p, V x) { _mm256_store_pd(p, x); }
  static HELIOGRAPH_INLINE V all(double x) { return _mm256_set1_pd(x); }
  static HELIOGRAPH_INLINE V add(V a, V b) { return _mm256_add_pd(a, b); }
  static HELIOGRAPH_INLINE V sub(V a, V b) { return _mm256_sub_pd(a, b); }
  static HELIOGRAPH_INLINE V mul(V a, V b) { return _mm256_mul_pd(a, b); }
  static HELIOGRAPH_INLINE V fma(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
  static HELIOGRAPH_INLINE V fnma(V a, V b, V c) { return _mm256_fnmadd_pd(a, b, c); }
  static HELIOGRAPH_INLINE V round(V x) { return _mm256_round_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
  static HELIOGRAPH_INLINE void transpose(V* x) {
    const V a = _mm256_unpacklo_pd(x[0], x[1]), b = _mm256_unpackhi_pd(x[0], x[1]);
    const V c = _mm256_unpacklo_pd(x[2], x[3]), d = _mm256_unpackhi_pd(x[2], x[3]);
    x[0] = _mm256_permute2f128_pd(a, c, 0x20), x[1] = _mm256_permute2f128_pd(b, d, 0x20);
    x[2] = _mm256_permute2f128_pd(a, c, 0x31), x[3] = _mm256_permute2f128_pd(b, d, 0x31);
  }
};

struct EightWords {
  using V = __m256i;
  static constexpr std::size_t kLanes = 8;
  static constexpr int kVectors = 2;
  static HELIOGRAPH_INLINE V load(const u32* p) { return _mm256_load_si256(reinterpret_cast<const V*>(p)); }
  static HELIOGRAPH_INLINE void store(u32* p, V x) { _mm256_store_si256(reinterpret_cast<V*>(p), x); }
  static HELIOGRAPH_INLINE V all(i32 x) { return _mm256_set1_epi32(x); }
  static HELIOGRAPH_INLINE V mul(V a, V b) { return _mm256_mullo_epi32(a, b); }
  static HELIOGRAPH_INLINE V sub(V a, V b) { return _mm256_sub_epi32(a, b); }
};

}  // namespace

const TfheOps& avx2_tfhe() {
  static constexpr TfheOps ops = tfhe_loops<FourDoubles, EightWords>("AVX2");
  return ops;
}

}  // namespace heliograph::backend::cpu
