// The card's instructions as descriptors (rtl/src/hg_core.sv), and their constants.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "backend/rtl/wide.h"
#include "math/conversion.h"
#include "math/modulus.h"

namespace heliograph::rtl {

using math::u128;
using math::u64;

using Descriptor = std::array<std::uint32_t, 16>;

enum class Op : std::uint32_t { ntt = 1, pointwise, permute, convert, load, store, twiddles, constants, fence };

inline constexpr u64 kWordEnd = u64{1} << kWordBits;

/// A modulus shifted to kWordBits bits, and its Barrett constant k.
struct Modulus {
  u64 q, normal, k;
  int shift;
  explicit Modulus(u64 modulus) : q(modulus), shift(kWordBits - math::bit_length(modulus)) {
    normal = q << shift;
    k = std::min<u64>(static_cast<u64>((u128{1} << (2 * kWordBits)) / normal), 2 * kWordEnd - 1);
  }
};

inline Descriptor instruction(Op op, int log_n) {
  return {static_cast<std::uint32_t>(op) | static_cast<std::uint32_t>(log_n) << 8};
}

inline Descriptor ntt(int log_n, bool inverse, u64 q, unsigned from, unsigned to, unsigned table_row = 0) {
  Descriptor d = instruction(Op::ntt, log_n);
  d[0] |= std::uint32_t{inverse} << 12;
  d[1] = to | from << 8;
  d[2] = static_cast<std::uint32_t>(q);
  d[6] = table_row;
  return d;
}

inline constexpr int kNone = -1;
/// out = c +- a b. A missing a is 1, a missing b is `constant`, a missing c is 0.
struct Pointwise {
  int a = kNone, b = kNone, c = kNone;
  bool subtract = false, first_only = false;
  u64 constant = 1;
};
inline Descriptor pointwise(int log_n, const Modulus& m, const Pointwise& p, unsigned out) {
  Descriptor d = instruction(Op::pointwise, log_n);
  const auto slot = [](int s) { return s == kNone ? 0u : static_cast<unsigned>(s); };
  d[0] |= std::uint32_t{p.a != kNone} << 13 | std::uint32_t{p.b != kNone} << 14 | std::uint32_t{p.c != kNone} << 15 |
          std::uint32_t{p.subtract} << 16 | std::uint32_t{p.first_only} << 17 | static_cast<std::uint32_t>(m.shift) << 18;
  d[1] = out | slot(p.a) << 8 | slot(p.b) << 16 | slot(p.c) << 24;
  d[2] = static_cast<std::uint32_t>(m.q);
  d[3] = static_cast<std::uint32_t>(m.normal);
  d[4] = static_cast<std::uint32_t>(m.k);
  d[5] = static_cast<std::uint32_t>(p.constant);
  return d;
}

inline Descriptor permute(int log_n, bool ntt_order, u64 galois, u64 q, unsigned from, unsigned to) {
  Descriptor d = instruction(Op::permute, log_n);
  d[0] |= std::uint32_t{ntt_order} << 12;
  d[1] = to | from << 8;
  d[2] = static_cast<std::uint32_t>(q);
  d[6] = static_cast<std::uint32_t>(galois);
  return d;
}

/// Returns an instruction that converts to at most shape.targets targets, with the constants in set `set`.
inline Descriptor convert(int log_n, const std::vector<unsigned>& from, const std::vector<unsigned>& to, unsigned set) {
  Descriptor d = instruction(Op::convert, log_n);
  d[6] = static_cast<std::uint32_t>(from.size() - 1) | static_cast<std::uint32_t>(to.size() - 1) << 8 | set << 16;
  for (std::size_t i = 0; i < from.size(); ++i) d[8 + i / 4] |= from[i] << (8 * (i % 4));
  for (std::size_t j = 0; j < to.size(); ++j) d[12 + j / 4] |= to[j] << (8 * (j % 4));
  return d;
}

/// Returns the conversion's constants of source i for the targets [first, first + count): {fraction, one constant per
/// target}.
inline std::vector<u64> source_constants(const math::Conversion& c, std::size_t i, std::size_t first, std::size_t count) {
  std::vector<u64> row;
  for (std::size_t j = first; j < first + count; ++j) row.push_back(c.matrix[j * c.sources() + i] << Modulus(c.to[j]).shift);
  row.push_back(c.fixed.fractions[i]);
  return row;
}
/// Returns the conversion's constants of target j: {normal, wrap, fold, k, shift}.
inline std::array<u64, 5> target_constants(const math::Conversion& c, std::size_t j) {
  const Modulus m(c.to[j]);
  const u64 wrap = c.rounded ? c.wrap[j] << m.shift : 0;
  return {m.normal, wrap, static_cast<u64>((u128{1} << (2 * kWordBits)) % m.normal), m.k, static_cast<u64>(m.shift)};
}

/// Returns the constants of targets [first, first + count) in the format that the card loads. The format is records of 16
/// words (hg_dma_read), in whole beats of the bus.
inline std::vector<std::uint32_t> constant_records(const math::Conversion& c, std::size_t first, std::size_t count,
                                                   std::size_t beat_words) {
  constexpr std::size_t kRecord = 16;
  std::vector<std::uint32_t> words;
  const auto record = [&](std::size_t index, bool target) {
    words.resize(words.size() + kRecord);
    words.back() = static_cast<std::uint32_t>(index) | std::uint32_t{target} << 16;
    return words.end() - kRecord;
  };
  for (std::size_t i = 0; i < c.sources(); ++i) {
    const auto row = source_constants(c, i, first, count);
    const auto at = record(i, false);
    for (std::size_t j = 0; j < count; ++j) at[static_cast<long>(j)] = static_cast<std::uint32_t>(row[j]);
    at[8] = static_cast<std::uint32_t>(row.back());
    at[9] = static_cast<std::uint32_t>(row.back() >> 32);
  }
  for (std::size_t j = 0; j < count; ++j) {
    const auto row = target_constants(c, first + j);
    const auto at = record(j, true);
    for (std::size_t f = 0; f < row.size(); ++f) at[static_cast<long>(f)] = static_cast<std::uint32_t>(row[f]);
  }
  if (words.size() % beat_words != 0) {  // pad by repeating the last record
    const std::vector<std::uint32_t> last(words.end() - kRecord, words.end());
    words.insert(words.end(), last.begin(), last.end());
  }
  return words;
}

}  // namespace heliograph::rtl
