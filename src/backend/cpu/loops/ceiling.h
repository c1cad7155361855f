// Measures an instruction set's maximum rate of modular products: butterflies on registers, without loads.
#pragma once

#include <chrono>

#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/unroll.h"

namespace heliograph::backend::cpu {
namespace {

/// Returns products per second on the calling thread, the best of a few short runs.
template <class A>
double product_ceiling(const Modulus& m) {
  constexpr int kPairs = 6, kRounds = 20000;
  [[maybe_unused]] const typename A::State state{};
  const A arithmetic(m);
  alignas(64) typename A::Cell cell[8] = {};
  A::encode_pair(m, m.q / 3, cell);
  const typename A::Twiddle twiddle = arithmetic.pair(cell);
  typename A::V x[kPairs], y[kPairs];
  alignas(64) typename A::Word words[A::kLanes];
  for (std::size_t i = 0; i < A::kLanes; ++i) words[i] = static_cast<typename A::Word>(m.q / (i + 2));
  for (int i = 0; i < kPairs; ++i) x[i] = y[i] = arithmetic.load_canonical(words);
  double best = 0;
  for (int run = 0; run < 20; ++run) {
    const auto start = std::chrono::steady_clock::now();
    for (int round = 0; round < kRounds; ++round) {
      unroll<kPairs>([&](auto i) __attribute__((always_inline)) {
        arithmetic.template forward<false, false, true>(x[i()], y[i()], twiddle);
      });
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const double rate = static_cast<double>(kPairs) * kRounds * A::kLanes / seconds;
    best = rate > best ? rate : best;
  }
  asm volatile("" : : "r"(x), "r"(y) : "memory");  // prevents the compiler from removing the computation
  return best;
}

/// Returns products per second on the calling thread, for products that are added before one reduction.
template <class E>
double sum_ceiling(const Modulus& m) {
  constexpr int kSums = 6, kRounds = 20000;
  const E e(m);
  alignas(64) typename E::Word words[E::kLanes];
  for (std::size_t i = 0; i < E::kLanes; ++i) words[i] = static_cast<typename E::Word>(m.q / (i + 2));
  const typename E::V x = e.load(words);
  double best = 0;
  for (int run = 0; run < 20; ++run) {
    typename E::Sum sum[kSums];
    for (auto& s : sum) s = e.sum_zero();
    const auto start = std::chrono::steady_clock::now();
    for (int round = 0; round < kRounds; ++round) {
      unroll<kSums>([&](auto i) __attribute__((always_inline)) { e.accumulate(sum[i()], x, x); });
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    asm volatile("" : : "r"(sum) : "memory");
    const double rate = static_cast<double>(kSums) * kRounds * E::kLanes / seconds;
    best = rate > best ? rate : best;
  }
  return best;
}

}  // namespace
}  // namespace heliograph::backend::cpu
