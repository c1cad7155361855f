// The floating-point state that exact arithmetic in floating point needs.
#pragma once

#include <immintrin.h>

namespace heliograph::backend::cpu {
namespace {

/// While it lives this thread rounds to nearest, denormals count and floating-point exceptions are masked, whatever the host
/// process set.
class PlainFloats {
 public:
  PlainFloats() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~PlainFloats() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
};

}  // namespace
}  // namespace heliograph::backend::cpu
