// Negacyclic Fourier transforms of real polynomials in the layout of tfhe_ops.h: vectors of D::kLanes doubles.
#pragma once

#include "backend/cpu/loops/unroll.h"
#include "backend/cpu/tfhe_ops.h"

namespace heliograph::backend::cpu {
namespace {

template <class D>
struct Fourier {
  using V = typename D::V;
  static constexpr int kLogLanes = D::kLogLanes;
  static constexpr std::size_t kLanes = D::kLanes, kPair = 2 * kLanes;

  struct Complex {
    V re, im;
  };

  static HELIOGRAPH_INLINE Complex load(const double* p) { return {D::load(p), D::load(p + kLanes)}; }
  static HELIOGRAPH_INLINE void store(double* p, const Complex& x) { D::store(p, x.re), D::store(p + kLanes, x.im); }
  static HELIOGRAPH_INLINE Complex all(const double* p) { return {D::all(p[0]), D::all(p[1])}; }
  static HELIOGRAPH_INLINE Complex mul(const Complex& a, const Complex& b) {
    return {D::fnma(a.im, b.im, D::mul(a.re, b.re)), D::fma(a.re, b.im, D::mul(a.im, b.re))};
  }

  // ---- butterflies. Twiddles of sibling blocks differ by the factor i, which is applied by exchanging real and imaginary
  // parts.
  template <bool TimesI>
  static HELIOGRAPH_INLINE void split(Complex& u, Complex& v, const Complex& w) {
    const Complex t = mul(v, w), a = u;
    if constexpr (TimesI) {
      u = {D::sub(a.re, t.im), D::add(a.im, t.re)};
      v = {D::add(a.re, t.im), D::sub(a.im, t.re)};
    } else {
      u = {D::add(a.re, t.re), D::add(a.im, t.im)};
      v = {D::sub(a.re, t.re), D::sub(a.im, t.im)};
    }
  }
  template <bool TimesI>
  static HELIOGRAPH_INLINE void join(Complex& u, Complex& v, const Complex& w) {
    if constexpr (TimesI) {
      const Complex d{D::sub(v.re, u.re), D::sub(v.im, u.im)};
      u = {D::add(u.re, v.re), D::add(u.im, v.im)};
      v = {D::fnma(w.re, d.im, D::mul(w.im, d.re)), D::fma(w.im, d.im, D::mul(w.re, d.re))};
    } else {
      const Complex d{D::sub(u.re, v.re), D::sub(u.im, v.im)};
      u = {D::add(u.re, v.re), D::add(u.im, v.im)};
      v = {D::fma(w.im, d.im, D::mul(w.re, d.re)), D::fnma(w.im, d.re, D::mul(w.re, d.im))};
    }
  }

  /// Twiddles of `LogR` stages on one block: of the block, of its left child, and of its left grandchildren.
  template <int LogR>
  struct Twiddles {
    Complex w[1 << (LogR - 1)];
  };
  template <int LogR>
  static HELIOGRAPH_INLINE Twiddles<LogR> twiddles(const double* nodes, int stage, std::size_t block) {
    const std::size_t node = (std::size_t{1} << stage) + block;
    Twiddles<LogR> t;
    t.w[0] = all(nodes + 2 * node);
    if constexpr (LogR >= 2) t.w[1] = all(nodes + 4 * node);
    if constexpr (LogR >= 3) t.w[2] = all(nodes + 8 * node), t.w[3] = all(nodes + 8 * node + 4);
    return t;
  }

  template <int LogR>
  static HELIOGRAPH_INLINE void split_all(Complex* x, const Twiddles<LogR>& t) {
    constexpr int kR = 1 << LogR;
    unroll<kR / 2>([&](auto i) __attribute__((always_inline)) { split<false>(x[i()], x[i() + kR / 2], t.w[0]); });
    if constexpr (LogR >= 2) {
      unroll<kR / 4>([&](auto i) __attribute__((always_inline)) {
        split<false>(x[i()], x[i() + kR / 4], t.w[1]);
        split<true>(x[i() + kR / 2], x[i() + 3 * kR / 4], t.w[1]);
      });
    }
    if constexpr (LogR >= 3) {
      split<false>(x[0], x[1], t.w[2]), split<true>(x[2], x[3], t.w[2]);
      split<false>(x[4], x[5], t.w[3]), split<true>(x[6], x[7], t.w[3]);
    }
  }
  template <int LogR>
  static HELIOGRAPH_INLINE void join_all(Complex* x, const Twiddles<LogR>& t) {
    constexpr int kR = 1 << LogR;
    if constexpr (LogR >= 3) {
      join<false>(x[0], x[1], t.w[2]), join<true>(x[2], x[3], t.w[2]);
      join<false>(x[4], x[5], t.w[3]), join<true>(x[6], x[7], t.w[3]);
    }
    if constexpr (LogR >= 2) {
      unroll<kR / 4>([&](auto i) __attribute__((always_inline)) {
        join<false>(x[i()], x[i() + kR / 4], t.w[1]);
        join<true>(x[i() + kR / 2], x[i() + 3 * kR / 4], t.w[1]);
      });
    }
    unroll<kR / 2>([&](auto i) __attribute__((always_inline)) { join<false>(x[i()], x[i() + kR / 2], t.w[0]); });
  }

  /// Runs `LogR` stages of pairs of vectors, starting at `stage`.
  template <int LogR, bool Forward>
  static void pass(const FourierPlan& p, double* data, int stage) {
    constexpr int kR = 1 << LogR;
    const std::size_t vectors = (std::size_t{1} << p.log_m) / kLanes, length = vectors >> stage, step = length >> LogR;
    for (std::size_t block = 0; block < vectors / length; ++block) {
      const Twiddles<LogR> t = twiddles<LogR>(p.nodes, stage, block);
      double* const base = data + block * length * kPair;
      for (std::size_t i = 0; i < step; ++i) {
        Complex x[kR];
        unroll<kR>([&](auto r) __attribute__((always_inline)) { x[r()] = load(base + (i + r() * step) * kPair); });
        if constexpr (Forward) {
          split_all<LogR>(x, t);
        } else {
          join_all<LogR>(x, t);
        }
        unroll<kR>([&](auto r) __attribute__((always_inline)) { store(base + (i + r() * step) * kPair, x[r()]); });
      }
    }
  }

  template <bool Forward>
  static void last_pass(const FourierPlan& p, double* data) {
    if constexpr (kLogLanes > 0) {
      constexpr int kR = static_cast<int>(kLanes), kTwiddles = kR / 2;
      const std::size_t groups = (std::size_t{1} << p.log_m) / kLanes / kLanes;
      for (std::size_t g = 0; g < groups; ++g) {
        Twiddles<kLogLanes> t;
        unroll<kTwiddles>([&](auto i)
                              __attribute__((always_inline)) { t.w[i()] = load(p.last + (g * kTwiddles + i()) * kPair); });
        double* const base = data + g * kLanes * kPair;
        Complex x[kR];
        unroll<kR>([&](auto r) __attribute__((always_inline)) { x[r()] = load(base + r() * kPair); });
        if constexpr (Forward) {
          transpose(x);
          split_all<kLogLanes>(x, t);
        } else {
          join_all<kLogLanes>(x, t);
          transpose(x);
        }
        unroll<kR>([&](auto r) __attribute__((always_inline)) { store(base + r() * kPair, x[r()]); });
      }
    }
  }
  static HELIOGRAPH_INLINE void transpose(Complex* x) {
    V half[kLanes];
    unroll<static_cast<int>(kLanes)>([&](auto i) __attribute__((always_inline)) { half[i()] = x[i()].re; });
    D::transpose(half);
    unroll<static_cast<int>(kLanes)>([&](auto i) __attribute__((always_inline)) { x[i()].re = half[i()]; });
    unroll<static_cast<int>(kLanes)>([&](auto i) __attribute__((always_inline)) { half[i()] = x[i()].im; });
    D::transpose(half);
    unroll<static_cast<int>(kLanes)>([&](auto i) __attribute__((always_inline)) { x[i()].im = half[i()]; });
  }

  /// Returns how many of the `left` remaining stages the next pass runs.
  static int radix(int left) {
    if constexpr (D::kMaxLogRadix >= 3) {
      if (left == 3 || left >= 5) return 3;
    }
    return left >= 2 ? 2 : 1;
  }
  /// Run all passes except the first `stage` stages; the inverse runs them in reverse order.
  static void forward_rest(const FourierPlan& p, double* data, int stage) {
    const int all = p.log_m - kLogLanes;
    while (stage < all) {
      const int r = radix(all - stage);
      r == 3 ? pass_or_two<3, true>(p, data, stage) : r == 2 ? pass<2, true>(p, data, stage) : pass<1, true>(p, data, stage);
      stage += r;
    }
    last_pass<true>(p, data);
  }
  static void inverse_rest(const FourierPlan& p, double* data, int stage) {
    last_pass<false>(p, data);
    inverse_passes(p, data, stage);
  }
  static void inverse_passes(const FourierPlan& p, double* data, int stage) {
    const int all = p.log_m - kLogLanes;
    if (stage >= all) return;
    const int r = radix(all - stage);
    inverse_passes(p, data, stage + r);
    r == 3   ? pass_or_two<3, false>(p, data, stage)
    : r == 2 ? pass<2, false>(p, data, stage)
             : pass<1, false>(p, data, stage);
  }
  /// Uses radix 8 if the instruction set has enough registers.
  template <int LogR, bool Forward>
  static void pass_or_two(const FourierPlan& p, double* data, int stage) {
    pass<(D::kMaxLogRadix < LogR ? 2 : LogR), Forward>(p, data, stage);
  }
};

template <class D>
void fourier_forward(const FourierPlan& p, double* polynomial) {
  const typename D::State state;
  Fourier<D>::forward_rest(p, polynomial, 0);
}

}  // namespace
}  // namespace heliograph::backend::cpu
