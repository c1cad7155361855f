// The negacyclic NTT for any arithmetic A (a vector type with butterflies).
//
// Forward: Cooley-Tukey on blocks, depth first. The head (the stages before the last kTail) runs up to three stages per
// pass, on groups of 2^K columns in registers. The last kTail stages run on blocks of 2^kVertical vectors: first between
// whole vectors, then between lanes, two vectors at a time. A::spread<d> moves the lanes of a stage's butterflies together
// before the stage of distance d; A::restore restores the order. The inverse uses A::gather<d> and A::restore_back. A
// stage's twiddles are stored in the order of the lanes. Inverse: runs the forward stages in reverse with Gentleman-Sande
// butterflies; the last stage multiplies by 1/n.
//
// Twiddle table: first pairs (twiddle, companion) of the head, at index m + i for group i of m groups. After the head, the
// table has each block's pairs for whole vectors and its twiddles for lanes. A block's entries are in the order of reading
// and aligned to cache lines.
#pragma once

#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/unroll.h"

namespace heliograph::backend::cpu {
namespace {

template <class A>
struct Network {
  using Word = typename A::Word;  // type of a word in memory
  using Cell = typename A::Cell;  // entry of the twiddle table
  using V = typename A::V;
  using Twiddle = typename A::Twiddle;

  static constexpr int lane_bits() {
    int bits = 0;
    while ((std::size_t{1} << bits) < A::kLanes) ++bits;
    return bits;
  }
  static constexpr int kLaneBits = lane_bits();
  static constexpr int kTail = A::kVertical + kLaneBits;
  static constexpr int kVectors = 1 << A::kVertical;
  static constexpr std::size_t kBlock = std::size_t{1} << kTail;
  /// Pairs of vectors that a lane stage processes at a time.
  static constexpr int kGroup = kVectors / 2 < A::kPairs ? kVectors / 2 : A::kPairs;
  static constexpr int kGroups = kVectors / 2 / kGroup;
  /// Columns of 2^K vectors that fill the registers of a pass, limited by the shortest stride.
  static constexpr int columns(int k) {
    const int most = A::kPassVectors >> k;
    return most < 1 ? 1 : most < kVectors ? most : kVectors;
  }
  /// Table cells of a block: pairs for whole vectors, padding, then twiddles for lanes.
  static constexpr std::size_t kLaneCells = std::size_t{kVectors} / 2 * (2 * A::kLanes - 2) * A::kLaneCells;
  static constexpr std::size_t kBlockCells = 2 * kVectors + kLaneCells;

  static std::size_t table_bytes(int log_n) {
    const std::size_t blocks = (std::size_t{1} << log_n) / kBlock;
    return (head_cells(blocks) + blocks * kBlockCells) * sizeof(Cell);
  }
  static std::size_t head_cells(std::size_t blocks) {
    const std::size_t line = 64 / sizeof(Cell);
    return (2 * blocks + line - 1) / line * line;
  }

  static void fill(const Modulus& modulus, int log_n, const u64* powers, void* table) {
    Cell* const cells = static_cast<Cell*>(table);
    const std::size_t n = std::size_t{1} << log_n, blocks = n / kBlock;
    for (std::size_t k = 1; k < blocks; ++k) A::encode_pair(modulus, powers[k], cells + 2 * k);
    for (std::size_t b = 0; b < blocks; ++b) {
      Cell* at = cells + head_cells(blocks) + b * kBlockCells;
      for (int s = 0; s < A::kVertical; ++s) {
        for (std::size_t g = 0; g < (std::size_t{1} << s); ++g) {
          A::encode_pair(modulus, powers[((blocks + b) << s) + g], at + 2 * ((std::size_t{1} << s) - 1 + g));
        }
      }
      at += 2 * kVectors;
      for (std::size_t d = 1; d < A::kLanes; d *= 2) {
        for (std::size_t p = 0; p < kVectors / 2; ++p, at += A::kLanes / d * A::kLaneCells) {
          A::encode_lanes(modulus, powers + n / (2 * d) + (b * kBlock + p * 2 * A::kLanes) / (2 * d), A::kLanes / d, at);
        }
      }
    }
  }

  // ---- state of one transform

  const A& f;
  const Cell* table;
  std::size_t n, blocks;
  int passes = 0;
  int radix[8] = {};

  Network(const A& arithmetic, const void* cells, std::size_t degree)
      : f(arithmetic), table(static_cast<const Cell*>(cells)), n(degree), blocks(degree / kBlock) {
    int head = 0;
    while ((std::size_t{1} << head) < blocks) ++head;
    // The addresses of columns differ by powers of two and map to few sets of the first-level cache. So a pass has at most
    // eight columns, or four if there are many passes; both measured faster than sixteen.
    passes = (head + (head < 9 ? 2 : 3)) / 3;
    for (int p = 0; p < passes; ++p) radix[p] = head / passes + (p < head % passes ? 1 : 0);
  }
  const Cell* block_cells(std::size_t b) const { return table + head_cells(blocks) + b * kBlockCells; }
  /// Prefetches the twiddles of a later block, because a block's twiddles are larger than its words and the table exceeds
  /// the caches.
  HELIOGRAPH_INLINE void fetch_ahead(std::size_t b) const {
    const Cell* const cells = block_cells(b + 4 < blocks ? b + 4 : blocks - 1);
    unroll<(kBlockCells * sizeof(Cell) + 63) / 64>([&](auto i) __attribute__((always_inline)) {
      __builtin_prefetch(reinterpret_cast<const char*>(cells) + 64 * i());
    });
  }

  // ---- stages on registers

  /// Runs K butterfly stages on the first 2^K vectors of v. twiddle(s, g) loads the twiddle of group g of stage s only when
  /// it is used, because registers are scarce. Odd: this group holds second outputs of the previous stage, which the
  /// arithmetic A may leave in a shifted range. OneRange: all outputs of the last stage must lie in the same range of
  /// values. Rest: the inputs are canonical words. C columns run interleaved, v[(2^K) c + i], to hide latency.
  template <int K, int C, bool Rest, bool Odd, bool OneRange, class F>
  HELIOGRAPH_INLINE void forward_stages(V* v, F&& twiddle) const {
    unroll<K>([&](auto s) __attribute__((always_inline)) {
      constexpr int half = 1 << (K - 1 - s());
      unroll<(1 << s())>([&](auto g) __attribute__((always_inline)) {
        const Twiddle t = twiddle(s(), g());
        unroll<half>([&](auto j) __attribute__((always_inline)) {
          unroll<C>([&](auto c) __attribute__((always_inline)) {
            V* const at = v + (c() << K) + g() * 2 * half + j();
            constexpr bool shifted = s() == 0 ? Odd : g() % 2 == 1;
            f.template forward<Rest && s() == 0, shifted, OneRange && s() == K - 1>(at[0], at[half], t);
          });
        });
      });
    });
  }

  template <int K, int C, bool Rest, bool Last, class F>
  HELIOGRAPH_INLINE void inverse_stages(V* v, F&& twiddle) const {
    unroll<K>([&](auto r) __attribute__((always_inline)) {
      constexpr int s = K - 1 - r(), half = 1 << r();
      unroll<(1 << s)>([&](auto g) __attribute__((always_inline)) {
        [[maybe_unused]] Twiddle t;
        if constexpr (!(Last && s == 0)) t = twiddle(s, g());
        unroll<half>([&](auto j) __attribute__((always_inline)) {
          unroll<C>([&](auto c) __attribute__((always_inline)) {
            V* const at = v + (c() << K) + g() * 2 * half + j();
            if constexpr (Last && s == 0) {
              f.inverse_last(at[0], at[half]);
            } else {
              f.template inverse<Rest && s == K - 1>(at[0], at[half], t);
            }
          });
        });
      });
    });
  }

  /// Runs the lane stages on vectors 2 First, ..., 2 Last - 1 of a block, stage by stage: independent pairs hide latency.
  template <bool Inverse, int First, int Last>
  HELIOGRAPH_INLINE void lane_stages(V* v, const Cell* lanes) const {
    if constexpr (kLaneBits > 0) {
      const auto each_pair = [&](auto&& work) __attribute__((always_inline)) {
        unroll<Last - First>([&](auto p) __attribute__((always_inline)) {
          work(v[2 * (First + p())], v[2 * (First + p()) + 1], static_cast<std::size_t>(First + p()));
        });
      };
      unroll<kLaneBits>([&](auto i) __attribute__((always_inline)) {
        // In the table, the twiddles of the stage of distance 2^k follow the twiddles of all shorter distances.
        constexpr int k = Inverse ? i() : kLaneBits - 1 - i();
        constexpr std::size_t count = std::size_t{A::kLanes} >> k;
        const Cell* const cells = lanes + std::size_t{kVectors} / 2 * (2 * A::kLanes - 2 * count) * A::kLaneCells;
        each_pair([&](V & a, V & b, std::size_t p) __attribute__((always_inline)) {
          const Twiddle t = f.template lane_twiddle<static_cast<int>(count)>(cells + p * count * A::kLaneCells);
          if constexpr (Inverse) {
            A::template gather<1 << k>(a, b);
            f.template inverse<k == 0>(a, b, t);
          } else {
            A::template spread<1 << k>(a, b);
            f.template forward<false, false, (k > 0)>(a, b, t);
          }
        });
      });
      each_pair([&](V & a, V & b, std::size_t) __attribute__((always_inline)) {
        if constexpr (Inverse) {
          A::restore_back(a, b);
        } else {
          a = f.template canonical<false>(a);
          b = f.template canonical<true>(b);
          A::restore(a, b);
        }
      });
    }
  }

  /// Reduces x if the arithmetic lets values grow over the stages (A::kRefresh).
  HELIOGRAPH_INLINE V refreshed(V x) const {
    if constexpr (A::kRefresh)
      return f.refresh(x);
    else
      return x;
  }

  /// Values that a pass reads: canonical words, results of the previous pass, or results that need a reduction first.
  enum class From { rest, values, grown };

  /// The twiddle factors of a pass whose first group is `first`, by stage and group.
  struct Twiddles {
    const Network& network;
    std::size_t first;
    HELIOGRAPH_INLINE auto operator()(int s, int g) const {
      return network.f.pair(network.table + 2 * ((first << s) + static_cast<std::size_t>(g)));
    }
  };

  template <int K, From Source, bool Odd>
  void forward_pass(const Word* in, Word* out, std::size_t stride, std::size_t first) const {
    const Twiddles twiddle{*this, first};
    constexpr int kColumns = columns(K);
    for (std::size_t c = 0; c < stride; c += kColumns * A::kLanes) {
      V v[kColumns << K];
      unroll<(kColumns << K)>([&](auto i) __attribute__((always_inline)) {
        const std::size_t at = (i() & ((1 << K) - 1)) * stride + c + (i() >> K) * A::kLanes;
        if constexpr (Source == From::rest)
          v[i()] = f.load_canonical(in + at);
        else if constexpr (Source == From::grown)
          v[i()] = refreshed(f.load(out + at));
        else
          v[i()] = f.load(out + at);
      });
      forward_stages<K, kColumns, Source == From::rest, Odd, false>(v, twiddle);
      unroll<(kColumns << K)>([&](auto i) __attribute__((always_inline)) {
        f.store(out + (i() & ((1 << K) - 1)) * stride + c + (i() >> K) * A::kLanes, v[i()]);
      });
    }
  }

  template <int K, bool Last>
  void inverse_pass(Word* out, std::size_t stride, std::size_t first) const {
    const Twiddles twiddle{*this, first};
    constexpr int kColumns = columns(K);
    for (std::size_t c = 0; c < stride; c += kColumns * A::kLanes) {
      V v[kColumns << K];
      unroll<(kColumns << K)>([&](auto i) __attribute__((always_inline)) {
        v[i()] = refreshed(f.load(out + (i() & ((1 << K) - 1)) * stride + c + (i() >> K) * A::kLanes));
      });
      inverse_stages<K, kColumns, false, Last>(v, twiddle);
      unroll<(kColumns << K)>([&](auto i) __attribute__((always_inline)) {
        Word* const to = out + (i() & ((1 << K) - 1)) * stride + c + (i() >> K) * A::kLanes;
        if constexpr (Last)
          f.store_canonical(to, f.template canonical<false>(v[i()]));
        else
          f.store(to, v[i()]);
      });
    }
  }

  template <bool First, bool Odd>
  HELIOGRAPH_INLINE void forward_block(const Word* in, Word* out, std::size_t b) const {
    const Cell* const cells = block_cells(b);
    fetch_ahead(b);
    V v[kVectors];
    unroll<kVectors>([&](auto j) __attribute__((always_inline)) {
      if constexpr (First)
        v[j()] = f.load_canonical(in + j() * A::kLanes);
      else
        v[j()] = refreshed(f.load(out + j() * A::kLanes));
    });
    const auto twiddle = [&](int s, int g) __attribute__((always_inline)) { return f.pair(cells + 2 * ((1 << s) - 1 + g)); };
    forward_stages<A::kVertical, 1, First, Odd, true>(v, twiddle);
    unroll<kGroups>([&](auto g) __attribute__((always_inline)) {
      lane_stages<false, g() * kGroup, (g() + 1) * kGroup>(v, cells + 2 * kVectors);
      unroll<2 * kGroup>([&](auto j) __attribute__((always_inline)) {
        constexpr int i = 2 * kGroup * g() + j();
        f.store_canonical(out + i * A::kLanes, kLaneBits ? v[i] : f.template canonical<false>(v[i]));
      });
    });
  }

  template <bool Last>
  HELIOGRAPH_INLINE void inverse_block(const Word* in, Word* out, std::size_t b) const {
    const Cell* const cells = block_cells(b);
    fetch_ahead(b);
    V v[kVectors];
    unroll<kGroups>([&](auto g) __attribute__((always_inline)) {
      unroll<2 * kGroup>([&](auto j) __attribute__((always_inline)) {
        constexpr int i = 2 * kGroup * g() + j();
        v[i] = f.load_canonical(in + i * A::kLanes);
      });
      lane_stages<true, g() * kGroup, (g() + 1) * kGroup>(v, cells + 2 * kVectors);
    });
    const auto twiddle = [&](int s, int g) __attribute__((always_inline)) { return f.pair(cells + 2 * ((1 << s) - 1 + g)); };
    unroll<kVectors>([&](auto j) __attribute__((always_inline)) { v[j()] = refreshed(v[j()]); });
    inverse_stages<A::kVertical, 1, kLaneBits == 0, Last>(v, twiddle);
    unroll<kVectors>([&](auto j) __attribute__((always_inline)) {
      if constexpr (Last)
        f.store_canonical(out + j() * A::kLanes, f.template canonical<false>(v[j()]));
      else
        f.store(out + j() * A::kLanes, v[j()]);
    });
  }

  void forward(const Word* in, Word* out) const {
    if (passes == 0) return forward_block<true, false>(in, out, 0);
    forward_group<true>(in, out, 0, n, 1);
  }
  template <From Source, bool Odd>
  void run_forward_pass(int k, const Word* in, Word* out, std::size_t stride, std::size_t first) const {
    switch (k) {
      case 1:
        return forward_pass<1, Source, Odd>(in, out, stride, first);
      case 2:
        return forward_pass<2, Source, Odd>(in, out, stride, first);
      default:
        return forward_pass<3, Source, Odd>(in, out, stride, first);
    }
  }
  template <bool First>
  void forward_group(const Word* in, Word* out, int pass, std::size_t length, std::size_t first) const {
    if (!First && pass == passes) {
      return A::kShifts && first % 2 ? forward_block<false, true>(out, out, first - blocks)
                                     : forward_block<false, false>(out, out, first - blocks);
    }
    const int k = radix[pass];
    const std::size_t stride = length >> k;
    if constexpr (First)
      run_forward_pass<From::rest, false>(k, in, out, stride, first);
    else if (A::kRefresh && pass % 2 == 0)
      run_forward_pass<From::grown, false>(k, in, out, stride, first);
    else if (A::kShifts && first % 2)
      run_forward_pass<From::values, true>(k, in, out, stride, first);
    else
      run_forward_pass<From::values, false>(k, in, out, stride, first);
    for (std::size_t j = 0; j < (std::size_t{1} << k); ++j) {
      forward_group<false>(nullptr, out + j * stride, pass + 1, stride, (first << k) + j);
    }
  }

  void inverse(const Word* in, Word* out) const {
    if (passes == 0) return inverse_block<true>(in, out, 0);
    inverse_group<true>(in, out, 0, n, 1);
  }
  template <bool Last>
  void inverse_group(const Word* in, Word* out, int pass, std::size_t length, std::size_t first) const {
    if (!Last && pass == passes) return inverse_block<false>(in, out, first - blocks);
    const int k = radix[pass];
    const std::size_t stride = length >> k;
    for (std::size_t j = 0; j < (std::size_t{1} << k); ++j) {
      inverse_group<false>(in + j * stride, out + j * stride, pass + 1, stride, (first << k) + j);
    }
    switch (k) {
      case 1:
        inverse_pass<1, Last>(out, stride, first);
        break;
      case 2:
        inverse_pass<2, Last>(out, stride, first);
        break;
      default:
        inverse_pass<3, Last>(out, stride, first);
    }
  }
};

template <class A>
void network_forward(const Limb& limb, const void* in, void* out) {
  [[maybe_unused]] const typename A::State state{};
  const A arithmetic(limb.modulus);
  Network<A>(arithmetic, limb.forward, limb.n)
      .forward(static_cast<const typename A::Word*>(in), static_cast<typename A::Word*>(out));
}

template <class A>
void network_inverse(const Limb& limb, const void* in, void* out) {
  [[maybe_unused]] const typename A::State state{};
  A arithmetic(limb.modulus);
  arithmetic.set_last(limb.degree_inverse, limb.last_twiddle);
  Network<A>(arithmetic, limb.inverse, limb.n)
      .inverse(static_cast<const typename A::Word*>(in), static_cast<typename A::Word*>(out));
}

}  // namespace
}  // namespace heliograph::backend::cpu
