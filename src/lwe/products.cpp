#include "lwe/products.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <numbers>

#include "base/errors.h"

namespace heliograph::lwe {

namespace {

template <class T>
T dot_of(std::span<const T> a, std::span<const T> s) {
  T sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] & s[i];
  return sum;
}

// A polynomial modulo X^N + 1 is represented by its values at the roots of X^N = -1. A step splits X^(2t) - z^2 into X^t - z
// and X^t + z, as in the ring transforms (math/ring.h), but in complex doubles. The same source is compiled for several
// instruction sets.
typedef double Doubles2 __attribute__((vector_size(16)));
typedef double Doubles4 __attribute__((vector_size(32)));
typedef double Doubles8 __attribute__((vector_size(64)));

struct Complexes {
  double *re, *im;
};
struct ConstComplexes {
  const double *re, *im;
};

template <class V>
[[gnu::always_inline]] inline void load(const double* from,
                                        V& v) {  // reference, because older processors cannot return vectors in registers
  std::memcpy(&v, from, sizeof v);
}
template <class V>
[[gnu::always_inline]] inline void store(double* to, const V& v) {
  std::memcpy(to, &v, sizeof v);
}

/// Computes the butterfly of two points at distance t.
struct ForwardStep {
  template <class V>
  [[gnu::always_inline]] static inline void apply(double* re, double* im, std::size_t t, double c, double s) {
    V a, b, x, y;
    load(re, a), load(im, b), load(re + t, x), load(im + t, y);
    const V u = x * c - y * s, v = x * s + y * c;
    store<V>(re, a + u), store<V>(im, b + v), store<V>(re + t, a - u), store<V>(im + t, b - v);
  }
};
struct InverseStep {
  template <class V>
  [[gnu::always_inline]] static inline void apply(double* re, double* im, std::size_t t, double c, double s) {
    V a, b, x, y;
    load(re, a), load(im, b), load(re + t, x), load(im + t, y);
    const V u = a - x, v = b - y;
    store<V>(re, a + x), store<V>(im, b + y), store<V>(re + t, u * c + v * s), store<V>(im + t, v * c - u * s);
  }
};

/// Runs one stage of m splits; w[m + i] is the root z of split i.
template <class V, class Step>
[[gnu::always_inline]] inline void stage_of(std::size_t n, std::size_t m, const ConstComplexes& w, const Complexes& x) {
  constexpr std::size_t lanes = sizeof(V) / sizeof(double);
  const std::size_t t = n / 2 / m, step = t < lanes ? 1 : lanes;
  for (std::size_t i = 0; i < m; ++i) {
    const std::size_t first = 2 * i * t;
    for (std::size_t j = first; j < first + t; j += step) {
      t < lanes ? Step::template apply<double>(x.re + j, x.im + j, t, w.re[m + i], w.im[m + i])
                : Step::template apply<V>(x.re + j, x.im + j, t, w.re[m + i], w.im[m + i]);
    }
  }
}
template <class V>
[[gnu::always_inline]] inline void forward_of(std::size_t n, const ConstComplexes& w, const Complexes& x) {
  for (std::size_t m = 1; m < n; m *= 2) stage_of<V, ForwardStep>(n, m, w, x);
}
/// Inverts the transform, except for a factor of n.
template <class V>
[[gnu::always_inline]] inline void inverse_of(std::size_t n, const ConstComplexes& w, const Complexes& x) {
  for (std::size_t m = n / 2; m >= 1; m /= 2) stage_of<V, InverseStep>(n, m, w, x);
}

/// Multiplies x by the polynomial whose values are `factor`, and by n.
template <class V>
[[gnu::always_inline]] inline void multiply_of(std::size_t n, const ConstComplexes& w, const ConstComplexes& factor,
                                               const Complexes& x) {
  constexpr std::size_t lanes = sizeof(V) / sizeof(double);
  forward_of<V>(n, w, x);
  for (std::size_t j = 0; j < n; j += lanes) {
    V a, b, c, d;
    load(x.re + j, a), load(x.im + j, b), load(factor.re + j, c), load(factor.im + j, d);
    store<V>(x.re + j, a * c - b * d), store<V>(x.im + j, a * d + b * c);
  }
  inverse_of<V>(n, w, x);
}

using Multiply = void (*)(std::size_t n, const ConstComplexes& w, const ConstComplexes& factor, const Complexes& x);
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void multiply_avx2(std::size_t n, const ConstComplexes& w, const ConstComplexes& factor,
                                                       const Complexes& x) {
  multiply_of<Doubles4>(n, w, factor, x);
}
__attribute__((target("avx512f"))) void multiply_avx512(std::size_t n, const ConstComplexes& w, const ConstComplexes& factor,
                                                        const Complexes& x) {
  multiply_of<Doubles8>(n, w, factor, x);
}
#endif

void multiply_plain(std::size_t n, const ConstComplexes& w, const ConstComplexes& factor, const Complexes& x) {
  multiply_of<Doubles2>(n, w, factor, x);
}

Multiply best_multiply() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return multiply_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return multiply_avx2;
#endif
  return multiply_plain;
}

/// Returns the roots z of all splits, first the real parts, then the imaginary parts. If X^(2t) = exp(i pi angle), then z =
/// exp(i pi angle / 2).
const std::vector<double>& roots(std::size_t n) {
  static std::mutex mutex;
  static std::map<std::size_t, std::vector<double>> made;
  const std::lock_guard lock(mutex);
  std::vector<double>& w = made[n];
  if (w.empty()) {
    std::vector<double> angle(n);
    angle[1] = 1;
    for (std::size_t k = 2; k < n; ++k) angle[k] = angle[k / 2] / 2 + static_cast<double>(k % 2);
    w.resize(2 * n);
    for (std::size_t k = 1; k < n; ++k)
      w[k] = std::cos(std::numbers::pi * angle[k] / 2), w[n + k] = std::sin(std::numbers::pi * angle[k] / 2);
  }
  return w;
}

/// Returns the integer nearest to x, for |x| < 2^51.
u64 rounded(double x) {
  constexpr double shift = 0x1.8p52;
  return std::bit_cast<u64>(x + shift) - std::bit_cast<u64>(shift);
}

}  // namespace

u64 dot(std::span<const u64> a, std::span<const u64> s) { return dot_of(a, s); }
u32 dot(std::span<const u32> a, std::span<const u32> s) { return dot_of(a, s); }

BinaryPolynomial::BinaryPolynomial(std::span<const unsigned char> coefficients)
    : degree_(coefficients.size()), roots_(roots(degree_)), values_(2 * degree_) {
  require<InternalError>(std::has_single_bit(degree_) && degree_ >= 8 && degree_ <= kMostCoefficients,
                         "a binary polynomial must have 2^3 to 2^12 coefficients");
  for (std::size_t i = 0; i < degree_; ++i) values_[i] = static_cast<double>(coefficients[i]);
  const Complexes x{values_.data(), values_.data() + degree_};
  forward_of<Doubles2>(degree_, {roots_.data(), roots_.data() + degree_}, x);
}

void BinaryPolynomial::multiply_add(std::span<const u64> a, std::span<u64> out) const {
  static const Multiply multiply = best_multiply();
  const std::size_t n = degree_;
  std::array<double, 2 * kMostCoefficients> words;
  const Complexes x{words.data(), words.data() + n};
  // The real part is the low half of each word as a signed number; the imaginary part is the remaining high half. The factor
  // is a real polynomial, so the products of the real and the imaginary part stay separate.
  for (std::size_t i = 0; i < n; ++i) {
    const auto low = static_cast<std::int32_t>(a[i]);
    x.re[i] = low;
    x.im[i] = static_cast<std::int32_t>((a[i] - static_cast<u64>(std::int64_t{low})) >> 32);
  }
  multiply(n, {roots_.data(), roots_.data() + n}, {values_.data(), values_.data() + n}, x);
  const double scale = 1 / static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i) out[i] += rounded(x.re[i] * scale) + (rounded(x.im[i] * scale) << 32);
  wipe(words.data(), 2 * n * sizeof(double));  // a product and its known factor together reveal the key
}

}  // namespace heliograph::lwe
