// Element-wise loops for any arithmetic E of canonical residues.
#pragma once

#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/unroll.h"

namespace heliograph::backend::cpu {
namespace {

template <class E>
struct WordLoops {
  using Word = typename E::Word;
  using V = typename E::V;
  static constexpr int kTogether = E::kLanes > 1 ? 4 : 1;
  static const Word* in(const void* p) { return static_cast<const Word*>(p); }
  static Word* to(void* p) { return static_cast<Word*>(p); }

  /// out = f(a, b), written around the caches if `past` is set and E has streaming stores.
  template <class F>
  static HELIOGRAPH_INLINE void combine(const E& e, const void* a, const void* b, void* out, std::size_t count, bool past,
                                        F f) {
    [[maybe_unused]] const typename E::WordState state{};
    if constexpr (requires(Word * p, V x) { e.store_past(p, x); }) {
      if (past) {
        for (std::size_t i = 0; i < count; i += E::kLanes)
          e.store_past(to(out) + i, f(e.load(in(a) + i), e.load(in(b) + i)));
        return;
      }
    }
    for (std::size_t i = 0; i < count; i += E::kLanes) e.store(to(out) + i, f(e.load(in(a) + i), e.load(in(b) + i)));
  }

  static void add(const Modulus& m, const void* a, const void* b, void* out, std::size_t count, bool past) {
    const E e(m);
    combine(
        e, a, b, out, count, past, [&](V x, V y) __attribute__((always_inline)) { return e.add(x, y); });
  }
  static void sub(const Modulus& m, const void* a, const void* b, void* out, std::size_t count, bool past) {
    const E e(m);
    combine(
        e, a, b, out, count, past, [&](V x, V y) __attribute__((always_inline)) { return e.sub(x, y); });
  }
  static void neg(const Modulus& m, const void* a, void* out, std::size_t count) {
    [[maybe_unused]] const typename E::WordState state{};
    const E e(m);
    for (std::size_t i = 0; i < count; i += E::kLanes) e.store(to(out) + i, e.neg(e.load(in(a) + i)));
  }
  static void mul(const Modulus& m, const void* a, const void* b, void* out, std::size_t count) {
    [[maybe_unused]] const typename E::WordState state{};
    const E e(m);
    for (std::size_t i = 0; i < count; i += E::kLanes) e.store(to(out) + i, e.mul(e.load(in(a) + i), e.load(in(b) + i)));
  }
  static void mul_constant(const Modulus& m, const void* a, u64 c, void* out, std::size_t count) {
    [[maybe_unused]] const typename E::WordState state{};
    const E e(m);
    const typename E::Factor factor = e.factor(c);
    for (std::size_t i = 0; i < count; i += E::kLanes) e.store(to(out) + i, e.mul_factor(e.load(in(a) + i), factor));
  }
  static void add_constant(const Modulus& m, const void* a, u64 c, void* out, std::size_t count) {
    [[maybe_unused]] const typename E::WordState state{};
    const E e(m);
    const V constant = e.broadcast(c);
    for (std::size_t i = 0; i < count; i += E::kLanes) e.store(to(out) + i, e.add(e.load(in(a) + i), constant));
  }

  /// Returns how many products a sum adds before a reduction.
  static std::size_t terms_of(const E& e) {
    if constexpr (requires { e.terms(); })
      return e.terms();
    else
      return E::kTerms;
  }
  static void dot(const Modulus& m, std::size_t terms, const void* const* a, const void* const* b, const void* start,
                  void* out, std::size_t count) {
    [[maybe_unused]] const typename E::WordState state{};
    const E e(m);
    constexpr std::size_t L = E::kLanes;
    const std::size_t most = terms_of(e);
    for (std::size_t i = 0; i < count; i += kTogether * L) {
      typename E::Sum sum[kTogether];
      unroll<kTogether>([&](auto u) __attribute__((always_inline)) {
        sum[u()] = start ? e.sum_from(e.load(in(start) + i + u() * L)) : e.sum_zero();
      });
      for (std::size_t k = 0; k < terms;) {
        const std::size_t end = terms - k > most ? k + most : terms;
        for (; k < end; ++k) {
          const Word *const x = in(a[k]) + i, *const y = in(b[k]) + i;
          unroll<kTogether>([&](auto u) __attribute__((always_inline)) {
            e.accumulate(sum[u()], e.load(x + u() * L), e.load(y + u() * L));
          });
        }
        if (k < terms) {
          unroll<kTogether>([&](auto u) __attribute__((always_inline)) { sum[u()] = e.sum_from(e.reduce(sum[u()])); });
        }
      }
      unroll<kTogether>([&](auto u) __attribute__((always_inline)) { e.store(to(out) + i + u() * L, e.reduce(sum[u()])); });
    }
  }

  static void dot_pair(const Modulus& m, std::size_t terms, const void* const* a, const void* const* b, bool start,
                       void* const* out, std::size_t count) {
    [[maybe_unused]] const typename E::WordState state{};
    const E e(m);
    constexpr std::size_t L = E::kLanes;
    const std::size_t most = terms_of(e);
    for (std::size_t i = 0; i < count; i += kTogether * L) {
      typename E::Sum sum[2][kTogether];
      const auto each = [&](auto f) __attribute__((always_inline)) {
        unroll<2>([&](auto r) __attribute__((always_inline)) {
          unroll<kTogether>([&](auto u) __attribute__((always_inline)) { f(r, u, sum[r()][u()]); });
        });
      };
      each([&](auto r, auto u, auto& s) __attribute__((always_inline)) {
        s = start ? e.sum_from(e.load(in(out[r()]) + i + u() * L)) : e.sum_zero();
      });
      for (std::size_t k = 0; k < terms;) {
        const std::size_t end = terms - k > most ? k + most : terms;
        for (; k < end; ++k) {
          const Word *const x = in(a[k]) + i, *const y = in(b[2 * k]) + i, *const z = in(b[2 * k + 1]) + i;
          unroll<kTogether>([&](auto u) __attribute__((always_inline)) {
            const V factor = e.load(x + u() * L);
            e.accumulate(sum[0][u()], factor, e.load(y + u() * L));
            e.accumulate(sum[1][u()], factor, e.load(z + u() * L));
          });
        }
        if (k < terms) each([&](auto, auto, auto& s) __attribute__((always_inline)) { s = e.sum_from(e.reduce(s)); });
      }
      each([&](auto r, auto u, auto& s)
               __attribute__((always_inline)) { e.store(to(out[r()]) + i + u() * L, e.reduce(s)); });
    }
  }

  static void scaled_sum(const Modulus& m, std::size_t terms, const void* const* a, const u64* c, const void* start,
                         void* out, std::size_t count) {
    [[maybe_unused]] const typename E::WordState state{};
    const E e(m);
    const typename E::Factor first = e.factor(c[0]);
    const Word *const x = in(a[0]), *const base = in(start);
    Word* const r = to(out);
    if (terms == 1) {
      for (std::size_t i = 0; i < count; i += E::kLanes)
        e.store(r + i, e.add(e.load(base + i), e.mul_factor(e.load(x + i), first)));
      return;
    }
    const typename E::Factor second = e.factor(c[1]);
    const Word* const y = in(a[1]);
    for (std::size_t i = 0; i < count; i += E::kLanes) {
      const V product = e.add(e.mul_factor(e.load(x + i), first), e.mul_factor(e.load(y + i), second));
      e.store(r + i, e.add(e.load(base + i), product));
    }
  }

  /// Reduces each product if there are at most kFew; otherwise reduces their sum once. kFew was measured.
  static void weighted_sum(const Modulus& m, std::size_t terms, const void* const* a, const u64* c, u64 constant, void* out,
                           std::size_t count) {
    [[maybe_unused]] const typename E::WordState state{};
    const E e(m);
    constexpr std::size_t L = E::kLanes, kFew = L > 1 && sizeof(Word) == 8 ? 1 : 3;
    const Word *plain[kMostWeighted], *weighted[kMostWeighted];
    u64 weights[kMostWeighted];
    std::size_t plains = 0, products = 0;
    for (std::size_t k = 0; k < terms; ++k) {
      if (c[k] == 1)
        plain[plains++] = in(a[k]);
      else
        weights[products] = c[k], weighted[products++] = in(a[k]);
    }
    const V start = e.broadcast(constant);
    const auto add = [&](V * sum, const Word* x) __attribute__((always_inline)) {
      unroll<kTogether>([&](auto u) __attribute__((always_inline)) { sum[u()] = e.add(sum[u()], e.load(x + u() * L)); });
    };
    if (products <= kFew) {
      typename E::Factor factors[kFew] = {};
      for (std::size_t k = 0; k < products; ++k) factors[k] = e.factor(weights[k]);
      for (std::size_t i = 0; i < count; i += kTogether * L) {
        V sum[kTogether];
        unroll<kTogether>([&](auto u) __attribute__((always_inline)) { sum[u()] = start; });
        for (std::size_t k = 0; k < plains; ++k) add(sum, plain[k] + i);
        for (std::size_t k = 0; k < products; ++k) {
          const Word* const x = weighted[k] + i;
          unroll<kTogether>([&](auto u) __attribute__((always_inline)) {
            sum[u()] = e.add(sum[u()], e.mul_factor(e.load(x + u() * L), factors[k]));
          });
        }
        unroll<kTogether>([&](auto u) __attribute__((always_inline)) { e.store(to(out) + i + u() * L, sum[u()]); });
      }
      return;
    }
    for (std::size_t i = 0; i < count; i += kTogether * L) {
      typename E::Sum sum[kTogether];
      unroll<kTogether>([&](auto u) __attribute__((always_inline)) { sum[u()] = e.sum_from(start); });
      for (std::size_t k = 0; k < products; ++k) {
        static_assert(kMostWeighted <= E::kTerms);
        const Word* const x = weighted[k] + i;
        const V weight = e.broadcast(weights[k]);
        unroll<kTogether>([&](auto u)
                              __attribute__((always_inline)) { e.accumulate(sum[u()], e.load(x + u() * L), weight); });
      }
      V total[kTogether];
      unroll<kTogether>([&](auto u) __attribute__((always_inline)) { total[u()] = e.reduce(sum[u()]); });
      for (std::size_t k = 0; k < plains; ++k) add(total, plain[k] + i);
      unroll<kTogether>([&](auto u) __attribute__((always_inline)) { e.store(to(out) + i + u() * L, total[u()]); });
    }
  }

  static void permute(const Modulus& m, const void* a, const u32* source, void* out, std::size_t count) {
    const Word q = static_cast<Word>(m.q);
    std::size_t i = 0;
    if constexpr (requires(const E& e) { e.turned(in(a), source); }) {
      const E e(m);
      for (; i + E::kLanes <= count; i += E::kLanes) e.store(to(out) + i, e.turned(in(a), source + i));
    }
    for (; i < count; ++i) {
      const Word x = in(a)[source[i] >> 1];
      const Word flip = static_cast<Word>(0) - static_cast<Word>((source[i] & 1) != 0 && x != 0);
      to(out)[i] = static_cast<Word>((x ^ flip) - flip + (q & flip));
    }
  }
};

}  // namespace
}  // namespace heliograph::backend::cpu
