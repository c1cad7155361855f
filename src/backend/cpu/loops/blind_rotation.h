// Blind rotation of a block of samples in the Fourier domain.
#pragma once

#include "backend/cpu/loops/fft.h"

namespace heliograph::backend::cpu {
namespace {

template <class D>
struct BlindRotation {
  using F = Fourier<D>;
  using V = typename D::V;
  using Complex = typename F::Complex;
  static constexpr std::size_t kLanes = D::kLanes, kPair = F::kPair;

  enum class Turn { start, between, finish };

  /// Computes the steps between two products: the last inverse stages, the digits, and the first forward stages. These steps
  /// use the same coefficients, which therefore stay in registers.
  template <int LogR, Turn kTurn, bool OneDigit>
  static void turn(const RotateBlock& b, double* data) {
    constexpr int kR = 1 << LogR;
    const FourierPlan& p = *b.plan;
    const auto t = F::template twiddles<LogR>(p.nodes, 0, 0);
    const std::size_t vectors = (std::size_t{1} << p.log_m) / kLanes, step = vectors >> LogR;
    const double base_value = static_cast<double>(u64{1} << b.log_base);
    double turn_value = base_value;
    for (std::size_t l = 1; l < b.gadget_length; ++l) turn_value *= base_value;
    const V base = D::all(base_value), inverse = D::all(1 / base_value);
    [[maybe_unused]] const V whole_turn = D::all(turn_value), inverse_turn = D::all(1 / turn_value);
    for (std::size_t i = 0; i < step; ++i) {
      Complex x[kR];
      unroll<kR>([&](auto r) __attribute__((always_inline)) { x[r()] = F::load(data + (i + r() * step) * kPair); });
      if constexpr (kTurn != Turn::start) F::template join_all<LogR>(x, t);
      if constexpr (kTurn == Turn::finish) {
        unroll<kR>([&](auto r) __attribute__((always_inline)) {
          x[r()].re = D::fnma(D::round(D::mul(x[r()].re, inverse_turn)), whole_turn, x[r()].re);
          x[r()].im = D::fnma(D::round(D::mul(x[r()].im, inverse_turn)), whole_turn, x[r()].im);
        });
        unroll<kR>([&](auto r) __attribute__((always_inline)) { F::store(data + (i + r() * step) * kPair, x[r()]); });
      } else {
        unroll<kR>([&](auto r) __attribute__((always_inline)) { x[r()] = {D::round(x[r()].re), D::round(x[r()].im)}; });
        for (std::size_t l = OneDigit ? 1 : b.gadget_length; l-- > 0;) {
          Complex d[kR];
          unroll<kR>([&](auto r) __attribute__((always_inline)) {
            const Complex carry{D::round(D::mul(x[r()].re, inverse)), D::round(D::mul(x[r()].im, inverse))};
            d[r()] = {D::fnma(carry.re, base, x[r()].re), D::fnma(carry.im, base, x[r()].im)};
            x[r()] = carry;
          });
          F::template split_all<LogR>(d, t);
          double* const to = data + l * p.polynomial;
          unroll<kR>([&](auto r) __attribute__((always_inline)) { F::store(to + (i + r() * step) * kPair, d[r()]); });
        }
      }
    }
  }

  template <int LogR, Turn kTurn>
  static void turn_sample(const RotateBlock& b, double* state) {
    const FourierPlan& p = *b.plan;
    for (std::size_t c = 0; c <= b.k; ++c) {
      double* const data = state + c * b.gadget_length * p.polynomial;
      if constexpr (kTurn != Turn::start) F::inverse_rest(p, data, LogR);
      b.gadget_length == 1 ? turn<LogR, kTurn, true>(b, data) : turn<LogR, kTurn, false>(b, data);
      if constexpr (kTurn != Turn::finish) {
        for (std::size_t l = 0; l < b.gadget_length; ++l) F::forward_rest(p, data + l * p.polynomial, LogR);
      }
    }
  }
  template <Turn kTurn>
  static void turn_block(const RotateBlock& b) {
    const std::size_t words = (b.k + 1) * b.gadget_length * b.plan->polynomial;
    for (std::size_t s = 0; s < b.samples; ++s) {
      double* const state = b.state + s * words;
      if constexpr (D::kMaxLogRadix >= 3) {
        if (F::radix(b.plan->log_m - D::kLogLanes) == 3) {
          turn_sample<3, kTurn>(b, state);
          continue;
        }
      }
      turn_sample<2, kTurn>(b, state);
    }
  }

  /// Computes each vector lane's factor of the monomial X^exponent of each key bit.
  static void lane_monomials(const RotateBlock& b, std::size_t group) {
    const std::size_t mask = 2 * b.plan->n - 1;
    for (std::size_t s = 0; s < b.samples; ++s) {
      for (std::size_t j = 0; j < b.group; ++j) {
        const std::size_t e = b.exponents[s * (b.n + 1) + group * b.group + j];
        double* const to = b.monomials + (s * b.group + j) * kPair;
        for (std::size_t l = 0; l < kLanes; ++l) {
          const double* const root = b.plan->roots + 2 * (e * b.plan->lane_exponents[l] & mask);
          to[l] = root[0], to[l + kLanes] = root[1];
        }
      }
    }
  }

  /// Multiplies the spectra of the digits by the key bundle of a group, in place.
  template <int Group, int Components>
  static void multiply(const RotateBlock& b, std::size_t group) {
    const FourierPlan& p = *b.plan;
    const std::size_t vectors = (std::size_t{1} << p.log_m) / kLanes,
                      slice = Components * b.gadget_length * Components * (kPair << Group);
    const double* key = b.key + group * vectors * slice;
    for (std::size_t v = 0; v < vectors; ++v, key += slice) {
      for (std::size_t s = 0; s < b.samples;) {
        if (b.twins[s]) {
          multiply_vector<Group, Components, 2>(b, group, v, s, key);
          s += 2;
        } else {
          multiply_vector<Group, Components, 1>(b, group, v, s, key);
          ++s;
        }
      }
    }
  }

  /// Computes one vector of the product in `multiply`, for `Together` samples that have the same exponents and therefore
  /// share one key bundle.
  template <int Group, int Components, int Together>
  static HELIOGRAPH_INLINE void multiply_vector(const RotateBlock& b, std::size_t group, std::size_t v, std::size_t s,
                                                const double* from) {
    constexpr int kValues = 1 << Group;
    const FourierPlan& p = *b.plan;
    const std::size_t mask = 2 * p.n - 1, rows = Components * b.gadget_length;
    const u32* const e = b.exponents + s * (b.n + 1) + group * Group;
    Complex m[kValues];
    unroll<kValues>([&](auto value) __attribute__((always_inline)) {
      constexpr int kValue = value();
      if constexpr (kValue != 0 && (kValue & (kValue - 1)) == 0) {
        constexpr int kBit = __builtin_ctz(kValue);
        const double* const lanes = b.monomials + (s * Group + kBit) * kPair;
        m[kValue] = F::all(p.roots + 2 * (std::size_t{e[kBit]} * p.exponents[v] & mask));
        if constexpr (kLanes > 1) m[kValue] = F::mul(F::load(lanes), m[kValue]);
      } else if constexpr (kValue != 0) {
        m[kValue] = F::mul(m[kValue & (kValue - 1)], m[kValue & -kValue]);
      }
    });
    double* const spectra = b.state + s * rows * p.polynomial + v * kPair;
    Complex sum[Together][Components];
    unroll<Together * Components>([&](auto i) __attribute__((always_inline)) {
      sum[i() / Components][i() % Components] = {D::all(0), D::all(0)};
    });
    for (std::size_t r = 0; r < rows; ++r) {
      Complex digit[Together];
      unroll<Together>([&](auto i) __attribute__((always_inline)) {
        digit[i()] = F::load(spectra + (i() * rows + r) * p.polynomial);
      });
      unroll<Components>([&](auto c) __attribute__((always_inline)) {
        Complex bundle = F::load(from);
        unroll<kValues - 1>([&](auto value) __attribute__((always_inline)) {
          const Complex x = F::load(from + (value() + 1) * kPair), &y = m[value() + 1];
          bundle.re = D::fnma(x.im, y.im, D::fma(x.re, y.re, bundle.re));
          bundle.im = D::fma(x.im, y.re, D::fma(x.re, y.im, bundle.im));
        });
        from += kValues * kPair;
        unroll<Together>([&](auto i) __attribute__((always_inline)) {
          Complex& z = sum[i()][c()];
          z.re = D::fnma(digit[i()].im, bundle.im, D::fma(digit[i()].re, bundle.re, z.re));
          z.im = D::fma(digit[i()].im, bundle.re, D::fma(digit[i()].re, bundle.im, z.im));
        });
      });
    }
    unroll<Together * Components>([&](auto i) __attribute__((always_inline)) {
      const std::size_t row = i() / Components * rows + i() % Components * b.gadget_length;
      F::store(spectra + row * p.polynomial, sum[i() / Components][i() % Components]);
    });
  }

  using Multiply = void (*)(const RotateBlock&, std::size_t);
  template <int Group>
  static Multiply choose(std::size_t k) {
    static constexpr Multiply by_dimension[] = {multiply<Group, 2>, multiply<Group, 3>, multiply<Group, 4>,
                                                multiply<Group, 5>, multiply<Group, 6>, multiply<Group, 7>};
    return by_dimension[k - 1];
  }

  static void run(const RotateBlock& b) {
    const typename D::State state;
    const Multiply multiply = b.group == 1   ? choose<1>(b.k)
                              : b.group == 2 ? choose<2>(b.k)
                              : b.group == 3 ? choose<3>(b.k)
                                             : choose<4>(b.k);
    turn_block<Turn::start>(b);
    for (std::size_t group = 0; group < b.n / b.group; ++group) {
      if (group) turn_block<Turn::between>(b);
      if constexpr (kLanes > 1) lane_monomials(b, group);
      multiply(b, group);
    }
    turn_block<Turn::finish>(b);
  }
};

template <class D>
void rotate(const RotateBlock& b) {
  BlindRotation<D>::run(b);
}

}  // namespace
}  // namespace heliograph::backend::cpu
