#include "lwe/products.h"

#include <algorithm>
#include <cstring>

namespace heliograph::lwe {

namespace {

template <class T>
T dot_of(std::span<const T> a, std::span<const T> s) {
  T sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] & s[i];
  return sum;
}

// Compiled for several instruction sets from one body.
typedef u64 Words2 __attribute__((vector_size(16)));
typedef u64 Words4 __attribute__((vector_size(32)));
typedef u64 Words8 __attribute__((vector_size(64)));

/// sum += the words at `from`, of any alignment.
template <class V>
[[gnu::always_inline]] inline void add_words(const u64* from, V& sum) {
  V words;
  std::memcpy(&words, from, sizeof words);
  sum += words;
}

/// out[i] += sum over exponents e of twice[degree + i - e], twice = (-a, a). Eight vectors of the result stay in registers.
template <class V>
[[gnu::always_inline]] inline void shift_add_of(const u64* twice, std::size_t degree, const u32* ones, std::size_t count,
                                                u64* out) {
  constexpr std::size_t lanes = sizeof(V) / 8;
  for (std::size_t first = 0; first < degree; first += 8 * lanes) {
    V sum[8] = {};
    const u64* const from = twice + degree + first;
    for (std::size_t k = 0; k < count; ++k) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < 8; ++i) add_words(from - ones[k] + i * lanes, sum[i]);
    }
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) {
      add_words(out + first + i * lanes, sum[i]);
      std::memcpy(out + first + i * lanes, &sum[i], sizeof(V));
    }
  }
}

using ShiftAdd = void (*)(const u64* twice, std::size_t degree, const u32* ones, std::size_t count, u64* out);
#if defined(__x86_64__)
__attribute__((target("avx2"))) void shift_add_avx2(const u64* twice, std::size_t degree, const u32* ones, std::size_t count,
                                                    u64* out) {
  shift_add_of<Words4>(twice, degree, ones, count, out);
}
__attribute__((target("avx512f"))) void shift_add_avx512(const u64* twice, std::size_t degree, const u32* ones,
                                                         std::size_t count, u64* out) {
  shift_add_of<Words8>(twice, degree, ones, count, out);
}
#endif

void shift_add_plain(const u64* twice, std::size_t degree, const u32* ones, std::size_t count, u64* out) {
  shift_add_of<Words2>(twice, degree, ones, count, out);
}

ShiftAdd best_shift_add() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return shift_add_avx512;
  if (__builtin_cpu_supports("avx2")) return shift_add_avx2;
#endif
  return shift_add_plain;
}

}  // namespace

u64 dot(std::span<const u64> a, std::span<const u64> s) { return dot_of(a, s); }
u32 dot(std::span<const u32> a, std::span<const u32> s) { return dot_of(a, s); }

BinaryPolynomial::BinaryPolynomial(std::span<const unsigned char> coefficients) : degree_(coefficients.size()) {
  for (std::size_t i = 0; i < degree_; ++i) {
    if (coefficients[i]) ones_.push_back(static_cast<u32>(i));
  }
}

void BinaryPolynomial::multiply_add(std::span<const u64> a, std::span<u64> out) const {
  static const ShiftAdd shift_add = best_shift_add();
  thread_local std::vector<u64> twice;
  twice.resize(2 * degree_);
  for (std::size_t i = 0; i < degree_; ++i) twice[i] = -a[i];
  std::copy(a.begin(), a.end(), twice.begin() + static_cast<std::ptrdiff_t>(degree_));
  shift_add(twice.data(), degree_, ones_.data(), ones_.size(), out.data());
}

}  // namespace heliograph::lwe
