// Floating-point state for exact arithmetic in floating point.
#pragma once

#include <immintrin.h>

namespace heliograph::backend::cpu {
namespace {

/// Sets this thread's floating-point state during its lifetime: rounding to nearest, denormals enabled, exceptions masked.
class PlainFloats {
 public:
  PlainFloats() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~PlainFloats() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
};

}  // namespace
}  // namespace heliograph::backend::cpu
