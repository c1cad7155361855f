// Matrix products with weights of any size, for any arithmetic E of canonical residues.
#pragma once

#include "backend/cpu/loops/scalar.h"

namespace heliograph::backend::cpu {
namespace {

/// Weights are converted to residues of each block's modulus. kOutputs sums of kVectors vectors stay in registers, so that
/// each input is read once for kOutputs outputs.
template <class E>
struct AnyProduct {
  static constexpr u32 kNone = ~u32{0};
  static constexpr int kVectors = E::kLanes > 1 ? 2 : 1;
  static constexpr int kOutputs = 4;
  using Word = typename E::Word;
  using V = typename E::V;

  static std::size_t weight_bytes(std::size_t outputs, std::size_t terms) { return outputs * terms * sizeof(i64); }
  static void pack_weights(const i64* weights, std::size_t outputs, std::size_t terms, void* packed) {
    for (std::size_t i = 0; i < outputs * terms; ++i) static_cast<i64*>(packed)[i] = weights[i];
  }
  static std::size_t scratch_bytes(std::size_t outputs, std::size_t terms, std::size_t, std::size_t) {
    return outputs * terms * sizeof(u64);
  }

  static void run(const ProductBlock& b) {
    const Modulus& m = *b.modulus;
    const i64* const weights = static_cast<const i64*>(b.weights);
    u64* const residues = static_cast<u64*>(b.scratch);
    for (std::size_t i = 0; i < b.outputs * b.terms; ++i) {
      const i64 w = weights[i];
      const u64 r = reduce128(w < 0 ? u64{0} - static_cast<u64>(w) : static_cast<u64>(w), m);
      residues[i] = w < 0 && r != 0 ? m.q - r : r;
    }
    [[maybe_unused]] const typename E::WordState state{};
    const E e(m);
    for (std::size_t p = 0; p < b.positions; ++p) {
      std::size_t output = 0;
      for (; output + kOutputs <= b.outputs; output += kOutputs) rows<kOutputs>(e, b, residues, p, output);
      for (; output < b.outputs; ++output) rows<1>(e, b, residues, p, output);
    }
  }

 private:
  template <int Rows>
  static void rows(const E& e, const ProductBlock& b, const u64* residues, std::size_t position, std::size_t output) {
    constexpr int kSums = Rows * kVectors;
    const u32* const index = b.index + position * b.terms;
    const u64* const weights = residues + output * b.terms;
    for (std::size_t i = 0; i < b.count; i += kVectors * E::kLanes) {
      typename E::Sum sum[kSums];
      unroll<kSums>([&](auto s) __attribute__((always_inline)) { sum[s()] = e.sum_zero(); });
      std::size_t summed = 0;
      for (std::size_t k = 0; k < b.terms; ++k) {
        if (index[k] == kNone) continue;
        if (summed == E::kTerms) {
          unroll<kSums>([&](auto s) __attribute__((always_inline)) { sum[s()] = e.sum_from(e.reduce(sum[s()])); });
          summed = 0;
        }
        ++summed;
        const Word* const from = static_cast<const Word*>(b.in[index[k]]) + i;
        V x[kVectors];
        unroll<kVectors>([&](auto v) __attribute__((always_inline)) { x[v()] = e.load(from + v() * E::kLanes); });
        unroll<Rows>([&](auto r) __attribute__((always_inline)) {
          const V weight = e.broadcast(weights[r() * b.terms + k]);
          unroll<kVectors>([&](auto v)
                               __attribute__((always_inline)) { e.accumulate(sum[r() * kVectors + v()], x[v()], weight); });
        });
      }
      unroll<kSums>([&](auto s) __attribute__((always_inline)) {
        Word* const to = static_cast<Word*>(b.out[(output + s() / kVectors) * b.positions + position]);
        e.store(to + i + s() % kVectors * E::kLanes, e.reduce(sum[s()]));
      });
    }
  }
};

template <class E>
constexpr ProductOps any_product(const char* name) {
  using P = AnyProduct<E>;
  return {.name = name,
          .block = 1024,
          .weight_bytes = P::weight_bytes,
          .pack_weights = P::pack_weights,
          .scratch_bytes = P::scratch_bytes,
          .gather = nullptr,
          .run = P::run};
}

inline void set_narrow_products(InstructionSet& set, const ProductOps& (*of)(bool wide)) {
  for (int word = 0; word < 2; ++word) {
    for (int size = 0; size < 3; ++size) set.narrow_product[word][size] = &of(word);
  }
}

}  // namespace
}  // namespace heliograph::backend::cpu
