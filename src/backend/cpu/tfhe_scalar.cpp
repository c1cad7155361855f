// TFHE's loops in scalar code.
#include <cfenv>
#include <cmath>

#include "backend/cpu/loops/tfhe_loops.h"

namespace heliograph::backend::cpu {

namespace {

struct OneDouble {
  using V = double;
  static constexpr int kLogLanes = 0, kMaxLogRadix = 2;
  static constexpr std::size_t kLanes = 1;

  class State {
   public:
    State() { std::fegetenv(&saved_), std::fesetenv(FE_DFL_ENV); }
    ~State() { std::fesetenv(&saved_); }

   private:
    std::fenv_t saved_;
  };

  static HELIOGRAPH_INLINE V load(const double* p) { return *p; }
  static HELIOGRAPH_INLINE void store(double* p, V x) { *p = x; }
  static HELIOGRAPH_INLINE V all(double x) { return x; }
  static HELIOGRAPH_INLINE V add(V a, V b) { return a + b; }
  static HELIOGRAPH_INLINE V sub(V a, V b) { return a - b; }
  static HELIOGRAPH_INLINE V mul(V a, V b) { return a * b; }
  static HELIOGRAPH_INLINE V fma(V a, V b, V c) { return a * b + c; }
  static HELIOGRAPH_INLINE V fnma(V a, V b, V c) { return c - a * b; }
  /// Doubles from 2^52 on are integers.
  static HELIOGRAPH_INLINE V round(V x) {
    constexpr double kMagic = 6755399441055744.0;  // 1.5 * 2^52
    return std::fabs(x) < 2251799813685248.0 ? (x + kMagic) - kMagic : std::nearbyint(x);
  }
  static void transpose(V*) {}
};

struct OneWord {
  using V = u32;
  static constexpr std::size_t kLanes = 1;
  static constexpr int kVectors = 8;
  static HELIOGRAPH_INLINE V load(const u32* p) { return *p; }
  static HELIOGRAPH_INLINE void store(u32* p, V x) { *p = x; }
  static HELIOGRAPH_INLINE V all(i32 x) { return static_cast<u32>(x); }
  static HELIOGRAPH_INLINE V mul(V a, V b) { return a * b; }
  static HELIOGRAPH_INLINE V sub(V a, V b) { return a - b; }
};

}  // namespace

const TfheOps& scalar_tfhe() {
  static constexpr TfheOps ops = tfhe_loops<OneDouble, OneWord>("scalar");
  return ops;
}

}  // namespace heliograph::backend::cpu
