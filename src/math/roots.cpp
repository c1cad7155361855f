#include "math/roots.h"

#include <bit>
#include <cmath>

#include "math/modulus.h"

namespace heliograph::math {

namespace {

constexpr int kPoint = 62;  // fraction bits of fixed-point numbers
constexpr i64 kOne = i64{1} << kPoint;

struct Root {
  i64 cosine, sine;
};

i64 product(i64 a, i64 b) { return static_cast<i64>((i128{a} * b + (i128{1} << (kPoint - 1))) >> kPoint); }

Root product(const Root& a, const Root& b) {
  return {product(a.cosine, b.cosine) - product(a.sine, b.sine), product(a.cosine, b.sine) + product(a.sine, b.cosine)};
}

u64 square_root(u128 x) {
  u64 root = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const u64 next = root | u64{1} << bit;
    if (u128{next} * next <= x) root = next;
  }
  return root;
}

/// Returns the root at half the angle, which must be at most a quarter turn.
Root halved(const Root& r) {
  const auto cosine = static_cast<i64>(square_root(static_cast<u128>((i128{kOne} + r.cosine) / 2) << kPoint));
  return {cosine, static_cast<i64>((i128{r.sine} << (kPoint - 1)) / cosine)};
}

constexpr Root kQuarter{0, kOne};

double number(i64 fixed) { return std::ldexp(static_cast<double>(fixed), -kPoint); }

}  // namespace

RealRoots::RealRoots(std::size_t n) : cosine_(n), sine_(n), reversed_(n / 2) {
  const int log_n = std::countr_zero(n);
  std::vector<Root> roots(n, {kOne, 0}), steps = {kQuarter};  // steps: roots at 1/4, 1/8, 1/16, ... of a turn
  while (steps.size() < static_cast<std::size_t>(log_n)) steps.push_back(halved(steps.back()));
  for (std::size_t from = 1; from < n; from *= 2, steps.pop_back())
    for (std::size_t i = 0; i < from; ++i) roots[from + i] = product(roots[i], steps.back());
  for (std::size_t j = 0; j < n; ++j) cosine_[j] = number(roots[j].cosine), sine_[j] = number(roots[j].sine);
  for (std::size_t k = 0; k < reversed_.size(); ++k) reversed_[k] = static_cast<std::uint32_t>(reverse_bits(k, log_n - 1));
}

std::complex<double> RealRoots::root(std::size_t j) const {
  const std::size_t n = cosine_.size();
  const std::complex<double> value(cosine_[j % n], sine_[j % n]);
  return j < n ? value : -value;
}

std::complex<double> turn(u64 part, u64 whole) {
  const auto fraction =
      static_cast<u64>(((u128{part} << kPoint) + whole / 2) / whole);  // the angle in units of 2^-kPoint of a turn
  Root r{kOne, 0}, step{-kOne, 0};
  for (int bit = 1; bit <= kPoint; ++bit) {
    if (fraction >> (kPoint - bit) & 1) r = product(r, step);
    step = bit == 1 ? kQuarter : halved(step);
  }
  return {number(r.cosine), number(r.sine)};
}

// With z = exp(i pi (4k + 1) / n), z^(n/2) = i: p(z) = sum_(j < n/2) (p_j + i p_(j + n/2)) exp(i pi j / n) exp(2 pi i j k /
// (n/2)).

void RealRoots::evaluate(const double* polynomial, double* re, double* im) const {
  const std::size_t m = reversed_.size(), n = 2 * m;
  for (std::size_t j = 0; j < m; ++j) {
    const std::size_t to = reversed_[j];
    re[to] = polynomial[j] * cosine_[j] - polynomial[j + m] * sine_[j];
    im[to] = polynomial[j] * sine_[j] + polynomial[j + m] * cosine_[j];
  }
  for (std::size_t half = 1; half < m; half *= 2) {
    const std::size_t step = n / half;  // exp(2 pi i k / (2 half)) = exp(i pi (k n / half) / n)
    for (std::size_t first = 0; first < m; first += 2 * half) {
      for (std::size_t k = 0; k < half; ++k) {
        const std::size_t u = first + k, v = u + half;
        const double c = cosine_[k * step], s = sine_[k * step];
        const double x = re[v] * c - im[v] * s, y = re[v] * s + im[v] * c;
        re[v] = re[u] - x, im[v] = im[u] - y;
        re[u] += x, im[u] += y;
      }
    }
  }
}

void RealRoots::interpolate(double* re, double* im, double factor, double* polynomial) const {
  const std::size_t m = reversed_.size(), n = 2 * m;
  for (std::size_t half = m / 2; half >= 1; half /= 2) {
    const std::size_t step = n / half;
    for (std::size_t first = 0; first < m; first += 2 * half) {
      for (std::size_t k = 0; k < half; ++k) {
        const std::size_t u = first + k, v = u + half;
        const double c = cosine_[k * step], s = sine_[k * step];
        const double x = re[u] - re[v], y = im[u] - im[v];
        re[u] += re[v], im[u] += im[v];
        re[v] = x * c + y * s, im[v] = y * c - x * s;
      }
    }
  }
  const double each = factor / static_cast<double>(m);  // exact, because m is a power of two
  for (std::size_t j = 0; j < m; ++j) {
    const double x = re[reversed_[j]], y = im[reversed_[j]];
    polynomial[j] = (x * cosine_[j] + y * sine_[j]) * each;
    polynomial[j + m] = (y * cosine_[j] - x * sine_[j]) * each;
  }
}

}  // namespace heliograph::math
