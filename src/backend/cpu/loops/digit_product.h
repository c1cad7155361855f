// Matrix product with weights of up to 15 bits. Residues are cut into D digits of at most 15 bits, so that one 16-bit dot
// product adds the products of two terms into 32 bits. The digits' sums are recombined and reduced once, after as many terms
// as 31 bits hold.
//
// Scratch: a block of zero digits; the digits of each input [input][tile of kTile words][digit]; and one panel: the digits
// of one position's terms in pairs [pair][digit], in the dot product's order.
// S, the instruction set, provides: vectors of kTile 16-bit digits, ordered such that interleaving two of them yields
// kTile / 2 words per half; dot products; the final recombination.
#pragma once

#include <algorithm>

#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/plain_floats.h"
#include "backend/cpu/loops/unroll.h"

namespace heliograph::backend::cpu {
namespace {

/// Store mode of a result: overwrite, write around the caches (aligned to a vector), or add.
enum class Put { plain, stream, add };

template <class S, class Word>
struct DigitProduct {
  using V = typename S::V;
  static constexpr std::size_t kTile = S::kTile, kVector = sizeof(V), kMostDigits = 4;
  static constexpr u32 kNone = ~u32{0};

  /// Number of digits for modulus q, and their length in bits.
  static int digits(u64 q) {
    int bits = 1;
    while (q >> bits) ++bits;
    return bits <= 30 ? 2 : bits <= 45 ? 3 : 4;
  }
  static int digit_bits(u64 q, int count) {
    int bits = 1;
    while (q >> bits) ++bits;
    return (bits + count - 1) / count;
  }

  // ---- packed weights: largest magnitude, then [tile of outputs][pair of terms][output] pairs of 16-bit weights

  static std::size_t pairs(std::size_t terms) { return (terms + 1) / 2; }
  static std::size_t weight_bytes(std::size_t outputs, std::size_t terms) { return 64 + outputs * pairs(terms) * 4; }
  static void pack_weights(const i64* weights, std::size_t outputs, std::size_t terms, void* packed) {
    i64 largest = 1;
    for (std::size_t i = 0; i < outputs * terms; ++i) largest = std::max(largest, weights[i] < 0 ? -weights[i] : weights[i]);
    *static_cast<i64*>(packed) = largest;
    u32* to = reinterpret_cast<u32*>(static_cast<char*>(packed) + 64);
    for (std::size_t first = 0; first < outputs; first += S::kOutputs) {
      const std::size_t width = std::min<std::size_t>(S::kOutputs, outputs - first);
      for (std::size_t k = 0; k < terms; k += 2) {
        for (std::size_t m = first; m < first + width; ++m) {
          const u32 low = static_cast<std::uint16_t>(weights[m * terms + k]);
          const u32 high = k + 1 < terms ? static_cast<std::uint16_t>(weights[m * terms + k + 1]) : 0;
          *to++ = low | high << 16;
        }
      }
    }
  }

  static std::size_t input_bytes(std::size_t count) { return count / kTile * kMostDigits * kVector; }
  static std::size_t scratch_bytes(std::size_t, std::size_t terms, std::size_t inputs, std::size_t count) {
    return (inputs + 1) * input_bytes(count) + pairs(terms) * kMostDigits * kVector;
  }

  // ---- cutting the inputs

  static void gather(const ProductBlock& b) {
    const int count = digits(b.modulus->q);
    const typename S::Cut cut(count, digit_bits(b.modulus->q, count));
    char* to = static_cast<char*>(b.scratch);
    const std::size_t each = input_bytes(b.count);
    for (std::size_t i = 0; i < each; i += kVector) S::store(to + i, S::zero());
    to += each;
    constexpr std::size_t kAhead = 6;  // blocks are far apart: the hardware prefetcher cannot predict the next
    for (std::size_t i = 0; i < b.inputs; ++i, to += each) {
      if (i + kAhead < b.inputs) {
        for (std::size_t c = 0; c < b.count; c += 64 / sizeof(Word))
          __builtin_prefetch(static_cast<const Word*>(b.in[i + kAhead]) + c);
      }
      const Word* const x = static_cast<const Word*>(b.in[i]);
      for (std::size_t t = 0; t < b.count / kTile; ++t) cut(x + t * kTile, to + t * kMostDigits * kVector, kVector);
    }
  }

  struct Panel {
    const ProductBlock& b;
    std::size_t first, last;  // range of terms
    std::size_t tile, each;   // bytes of one input's digits
    char* at;
  };

  /// Stores the digits of one half of a tile for terms k and k + 1 of position p, interleaved.
  template <int D, bool High>
  static HELIOGRAPH_INLINE void pair(const Panel& panel, const u32* index, std::size_t k, V* to) {
    const ProductBlock& b = panel.b;
    const char* const digits = static_cast<const char*>(b.scratch) + panel.tile * kMostDigits * kVector;
    const auto from = [&](std::size_t term) __attribute__((always_inline)) {
      return digits + (term < b.terms && index[term] != kNone ? (std::size_t{index[term]} + 1) * panel.each : 0);
    };
    const char *const x = from(k), *const y = from(k + 1);
    unroll<D>([&](auto d) __attribute__((always_inline)) {
      to[d()] = S::template interleave<High>(S::load(x + d() * kVector), S::load(y + d() * kVector));
    });
  }

  template <int D, bool High>
  static void fill(const Panel& panel, std::size_t p) {
    char* to = panel.at;
    for (std::size_t k = panel.first; k < panel.last; k += 2, to += D * kVector) {
      V x[D];
      pair<D, High>(panel, panel.b.index + p * panel.b.terms, k, x);
      unroll<D>([&](auto d) __attribute__((always_inline)) { S::store(to + d() * kVector, x[d()]); });
    }
  }

  /// Computes the outputs from `first` to first + T - 1 at position p for one half of the tile. Direct: reads the digits of
  /// the inputs instead of the panel.
  template <int D, int T, bool High, bool Direct>
  static void tile(const Panel& panel, const typename S::template Join<D>& join, std::size_t p, std::size_t first) {
    const ProductBlock& b = panel.b;
    const u32* weights = reinterpret_cast<const u32*>(static_cast<const char*>(b.weights) + 64) + first * pairs(b.terms) +
                         panel.first / 2 * T;
    const u32* const index = b.index + p * b.terms;
    const char* from = panel.at;
    V sum[T][D];
    unroll<T>([&](auto m) __attribute__((always_inline)) {
      unroll<D>([&](auto d) __attribute__((always_inline)) { sum[m()][d()] = S::zero(); });
    });
    for (std::size_t k = panel.first; k < panel.last; k += 2, weights += T) {
      V x[D];
      if constexpr (Direct) {
        pair<D, High>(panel, index, k, x);
      } else {
        unroll<D>([&](auto d) __attribute__((always_inline)) { x[d()] = S::load(from + d() * kVector); });
        from += D * kVector;
      }
      unroll<T>([&](auto m) __attribute__((always_inline)) {
        const V w = S::broadcast(weights[m()]);
        unroll<D>([&](auto d) __attribute__((always_inline)) { sum[m()][d()] = S::dot(sum[m()][d()], x[d()], w); });
      });
    }
    const std::size_t start = panel.tile * kTile + (High ? kTile / 2 : 0);
    unroll<T>([&](auto m) __attribute__((always_inline)) {
      Word* const out = static_cast<Word*>(b.out[(first + m()) * b.positions + p]) + start;
      if (panel.first != 0)
        join.template store<Put::add>(sum[m()], out);
      else if (b.stream)
        join.template store<Put::stream>(sum[m()], out);
      else
        join.template store<Put::plain>(sum[m()], out);
    });
  }

  template <int D, bool High>
  static void half(const Panel& panel, const typename S::template Join<D>& join, std::size_t p) {
    const std::size_t outputs = panel.b.outputs;
    if (outputs == S::kOutputs) return tile<D, S::kOutputs, High, true>(panel, join, p, 0);
    fill<D, High>(panel, p);
    std::size_t m = 0;
    for (; m + S::kOutputs <= outputs; m += S::kOutputs) tile<D, S::kOutputs, High, false>(panel, join, p, m);
    unroll<S::kOutputs>([&](auto left) __attribute__((always_inline)) {
      if constexpr (left() > 0) {
        if (outputs - m == static_cast<std::size_t>(left())) tile<D, left(), High, false>(panel, join, p, m);
      }
    });
  }

  template <int D>
  static void run_digits(const ProductBlock& b) {
    const int bits = digit_bits(b.modulus->q, D);
    const typename S::template Join<D> join(*b.modulus, bits);
    // 31 bits hold the sum of `stretch` terms. Each further group of `stretch` terms is reduced and added to the output
    // modulo q.
    const u64 largest = static_cast<u64>(*static_cast<const i64*>(b.weights)) * ((u64{1} << bits) - 1);
    const std::size_t stretch = static_cast<std::size_t>(0x7fffffff / largest) / 2 * 2, even = 2 * pairs(b.terms);
    Panel panel{b, 0, 0, 0, input_bytes(b.count), static_cast<char*>(b.scratch) + (b.inputs + 1) * input_bytes(b.count)};
    for (panel.tile = 0; panel.tile < b.count / kTile; ++panel.tile) {
      for (std::size_t p = 0; p < b.positions; ++p) {
        panel.first = 0;
        do {  // runs once even without terms, to store zeros
          panel.last = std::min(even, panel.first + stretch);
          half<D, false>(panel, join, p);
          half<D, true>(panel, join, p);
          panel.first = panel.last;
        } while (panel.first < even);
      }
    }
  }

  static void run(const ProductBlock& b) {
    const PlainFloats state;
    switch (digits(b.modulus->q)) {
      case 2:
        return run_digits<2>(b);
      case 3:
        return run_digits<3>(b);
      default:
        return run_digits<4>(b);
    }
  }
};

template <class S, class Word>
constexpr ProductOps digit_ops(const char* name) {
  using P = DigitProduct<S, Word>;
  return {.name = name,
          .block = 64,
          .weight_bytes = P::weight_bytes,
          .pack_weights = P::pack_weights,
          .scratch_bytes = P::scratch_bytes,
          .gather = P::gather,
          .run = P::run};
}

}  // namespace
}  // namespace heliograph::backend::cpu
