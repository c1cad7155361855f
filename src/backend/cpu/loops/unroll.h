// Loops unrolled at compile time. Code under loops/ has internal linkage: each instruction set compiles its own copy.
#pragma once

#include <type_traits>
#include <utility>

#define HELIOGRAPH_INLINE inline __attribute__((always_inline))

namespace heliograph::backend::cpu {
namespace {

template <class F, int... I>
HELIOGRAPH_INLINE void unroll_sequence(F&& f, std::integer_sequence<int, I...>) {
  (f(std::integral_constant<int, I>{}), ...);
}

template <int N, class F>
HELIOGRAPH_INLINE void unroll(F&& f) {
  unroll_sequence(f, std::make_integer_sequence<int, N>{});
}

}  // namespace
}  // namespace heliograph::backend::cpu
