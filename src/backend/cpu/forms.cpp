#include "backend/cpu/forms.h"

#include <algorithm>

#include "base/checked.h"

namespace heliograph::backend::cpu {

namespace {

constexpr u64 kMask52 = (u64{1} << 52) - 1;

/// Returns q^-1 mod 2^52, by Newton's iteration; 0 for even q.
u64 inverse_two52(u64 q) {
  if (q % 2 == 0) return 0;
  u64 r = q;  // q is its own inverse modulo 8: 3 bits are correct
  for (int i = 0; i < 5; ++i) r *= 2 - q * r;
  return r & kMask52;
}

u64 floor_div(int bits, u64 w, u64 q) { return static_cast<u64>((u128{w} << bits) / q); }

const LimbOps& pick(const InstructionSet& set, math::Word word, u64 q, std::size_t n) {
  const bool wide = word == math::Word::w64;
  for (const InstructionSet* l : {&set, &scalar_instructions()}) {
    const LimbOps& ops = *l->limb[wide][static_cast<int>(size_of(q))];
    if (n >= ops.least_degree) return ops;
  }
  return tiny_ops(wide);
}

}  // namespace

Modulus make_modulus(u64 q) {
  Modulus m{.q = q};
  m.two52 = (u64{1} << 52) % q;
  m.two52_shoup = floor_div(52, m.two52, q);
  m.one_shoup52 = floor_div(52, 1, q);
  m.two104 = math::mul_mod(m.two52, m.two52, q);
  m.inverse52 = inverse_two52(q);
  m.two64 = static_cast<u64>((u128{1} << 64) % q);
  m.two64_shoup = floor_div(64, m.two64, q);
  m.one_shoup64 = q == 1 ? ~u64{0} : floor_div(64, 1, q);
  return m;
}

Size size_of(u64 q) { return q < (u64{1} << 30) ? Size::below30 : q < (u64{1} << 50) ? Size::below50 : Size::below60; }

CpuRing::CpuRing(const device::RingConstant& constant, const InstructionSet& set, MemoryPool& pool, ThreadPool& threads)
    : FormOf(constant) {
  const math::Ring* const ring = &constant.ring();
  std::vector<std::size_t> offsets;
  std::size_t bytes = 0;
  for (u64 q : ring->primes()) {
    const LimbOps& ops = pick(set, ring->word(), q, ring->n());
    limbs_.push_back({.modulus = make_modulus(q),
                      .ops = &ops,
                      .n = ring->n(),
                      .log_n = ring->log_n(),
                      .word_bytes = math::word_bytes(ring->word())});
    if (!ring->transforms()) continue;
    offsets.push_back(bytes);
    bytes = checked_add(bytes, checked_mul(2, (ops.table_bytes(ring->log_n()) + 63) / 64 * 64));
  }
  if (bytes == 0) return;
  tables_ = pool.allocate(bytes);
  threads.parallel_for(limbs_.size(), 1, [&](std::size_t i, std::size_t) {
    Limb& limb = limbs_[i];
    const u64 q = limb.modulus.q, root = ring->root(static_cast<math::PrimeIndex>(i));
    const std::size_t half = (limb.ops->table_bytes(limb.log_n) + 63) / 64 * 64;
    std::byte* const forward = tables_->address() + offsets[i];
    const std::vector<u64> inverse_powers = math::inverse_twiddles(limb.n, root, q);
    limb.ops->fill_forward(limb.modulus, limb.log_n, math::forward_twiddles(limb.n, root, q).data(), forward);
    limb.ops->fill_inverse(limb.modulus, limb.log_n, inverse_powers.data(), forward + half);
    limb.forward = forward;
    limb.inverse = forward + half;
    limb.degree_inverse = math::inverse_mod(limb.n, q);
    limb.last_twiddle = math::mul_mod(limb.degree_inverse, inverse_powers[1], q);
  });
}

CpuConversion::CpuConversion(const device::ConversionConstant& constant) : FormOf(constant) {
  const math::Conversion& c = constant.conversion();
  Size largest = Size::below30;
  for (std::size_t i = 0; i < c.sources(); ++i) {
    const u64 q = c.from[i], w = c.inverse[i];
    LiftStep step{.modulus = make_modulus(q),
                  .factor = w,
                  .factor_shoup52 = q >> 52 ? 0 : floor_div(52, w, q),
                  .factor_shoup64 = floor_div(64, w, q),
                  .fraction = c.fixed.fractions[i],
                  .shift = c.fixed.shift};
    Size size = size_of(q);
    // If q is a power of two, the fraction may need 53 bits.
    if (size == Size::below50 && (c.fixed.shift != 52 || step.fraction > kMask52)) size = Size::below60;
    if (size == Size::below30 && c.fixed.shift != 0)
      size = c.fixed.shift == 52 && step.fraction <= kMask52 ? Size::below50 : Size::below60;
    lifts_.push_back({step, size});
    largest = std::max(largest, size_of(q));
  }
  montgomery_.resize(c.matrix.size());
  for (std::size_t j = 0; j < c.targets(); ++j) {
    const Modulus m = make_modulus(c.to[j]);
    CombineStep step{.modulus = m,
                     .sources = c.sources(),
                     .row = c.matrix.data() + j * c.sources(),
                     .wrap = c.wrap.empty() ? 0 : c.wrap[j],
                     .own = c.own.empty() ? 0 : c.own[j],
                     .montgomery_row = nullptr,
                     .montgomery_wrap = 0,
                     .montgomery_own = 0};
    if (m.q % 2 == 1 && m.q >> 20 != 0 && m.q >> 50 == 0 && c.sources() <= 14) {
      u64* const row = montgomery_.data() + j * c.sources();
      for (std::size_t i = 0; i < c.sources(); ++i) row[i] = math::mul_mod(step.row[i], m.two52, m.q);
      step.montgomery_row = row;
      step.montgomery_wrap = math::mul_mod(step.wrap, m.two52, m.q);
      step.montgomery_own = math::mul_mod(step.own, m.two52, m.q);
    }
    combines_.push_back({step, std::max(largest, size_of(m.q))});
  }
}

CpuPermutation::CpuPermutation(const device::Permutation& p) {
  for (std::size_t i = 0; i < p.source.size(); ++i) {
    source_.push_back(p.source[i] << 1 | (!p.negate.empty() && p.negate[i] ? 1 : 0));
  }
  if (!p.negate.empty() || p.source.size() % 64 != 0) return;
  for (std::size_t i = 0; i < p.source.size(); i += 8) {
    const u32 block = p.source[i] / 8 * 8;
    u64 lanes = 0;
    for (std::size_t k = 0; k < 8; ++k) {
      if (p.source[i + k] / 8 * 8 != block) {
        block_.clear();
        return;
      }
      lanes |= u64{p.source[i + k] - block} << (8 * k);
    }
    block_.push_back(block);
    lanes_.push_back(lanes);
  }
  block_.insert(block_.end(), kEightsAhead, block_.back());
}

void CpuPermutation::gather(const LimbOps& ops, const Modulus& modulus, const void* a, std::size_t first, void* out,
                            std::size_t count) const {
  if (!block_.empty() && ops.permute_eights && first % 8 == 0) {
    ops.permute_eights(a, block_.data() + first / 8, lanes_.data() + first / 8, out, count);
  } else {
    ops.permute(modulus, a, source_.data() + first, out, count);
  }
}

CpuProduct::CpuProduct(const device::ProductConstant& constant, const InstructionSet& set)
    : FormOf(constant), instructions_(set) {
  const device::GatheredProduct& g = constant.product();
  narrow_ = g.weight_bits() <= 15;
  const auto pack = [&](const ProductOps& ops) {
    for (const Packed& p : packed_) {
      if (p.ops == &ops) return;
    }
    Packed p{.ops = &ops, .group_bytes = (ops.weight_bytes(g.outputs, g.terms) + 63) / 64 * 64, .bytes = {}};
    p.bytes.resize(g.groups * p.group_bytes / sizeof(u64));
    for (std::size_t i = 0; i < g.groups; ++i) {
      ops.pack_weights(g.weights.data() + i * g.outputs * g.terms, g.outputs, g.terms,
                       p.bytes.data() + i * p.group_bytes / sizeof(u64));
    }
    packed_.push_back(std::move(p));
  };
  for (int word = 0; word < 2; ++word) {
    for (int size = 0; size < 3; ++size) pack(ops(word ? math::Word::w64 : math::Word::w32, static_cast<Size>(size)));
    pack(*scalar_instructions().any_product[word][0]);  // rings smaller than a vector use these loops
  }
}

const ProductOps& CpuProduct::ops(math::Word word, Size size) const {
  const bool wide = word == math::Word::w64;
  return *(narrow_ ? instructions_.narrow_product : instructions_.any_product)[wide][static_cast<int>(size)];
}

const void* CpuProduct::weights(const ProductOps& ops, std::size_t group) const {
  for (const Packed& p : packed_) {
    if (p.ops == &ops) return reinterpret_cast<const std::byte*>(p.bytes.data()) + group * p.group_bytes;
  }
  throw InternalError("the matrix product has no weights packed for these loops");
}

}  // namespace heliograph::backend::cpu
