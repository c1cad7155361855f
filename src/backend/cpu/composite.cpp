// Composite kernels, item by item: each thread computes whole items, so that an item's data stays in its caches.
#include <algorithm>
#include <cstring>

#include "backend/cpu/parallel.h"
#include "device/expand.h"

namespace heliograph::backend::cpu {

using device::ApplyKey;
using device::Decompose;
using device::KeySwitch;
using device::KeySwitchPlan;
using device::MultiplyPlan;
using device::PrimeList;
using device::ScaledTensor;

void CpuKernels::run(Queue& q, const Decompose& c) {
  each_item(c, [&](const Decompose& one) { decompose_fused(q, *one.plan, one.x, one.digits); });
}

void CpuKernels::run(Queue& q, const ApplyKey& c) {
  const bool fused = c.domain == math::Domain::ntt;
  if (fused && !fuses(*c.plan, c.turn)) return q.expand(c);
  each_item(c,
            [&](const ApplyKey& one) { fused ? apply_key_fused(q, one, nullptr, one.digits, one.scratch) : q.expand(one); });
}

void CpuKernels::run(Queue& q, const KeySwitch& c) {
  if (c.domain == math::Domain::coefficient) return each_item(c, [&](const KeySwitch& one) { key_switch_fused(q, one); });
  if (!fuses(*c.plan, c.turn)) return q.expand(c);
  each_item(c, [&](const KeySwitch& one) {
    Workspace w = one.scratch;
    const View low = w.take(one.out.word, 1, 1, one.plan->chain.size(), one.out.n);
    run(q, device::InverseNtt{one.plan->ring, one.plan->chain, one.x, low});
    apply_key_fused(q, one, &one.x, low, w);
  });
}

void CpuKernels::run(Queue& q, const ScaledTensor& c) {
  each_item(c, [&](const ScaledTensor& one) {
    if (!multiply_fused(q, one)) q.expand(one);
  });
}

void CpuKernels::decompose_fused(Queue& q, const KeySwitchPlan& plan, const View& x, const View& digits) {
  const CpuRing& ring = own(*plan.ring);
  const std::size_t limbs = plan.extended.size(), units = plan.digits.size() * limbs;
  for (std::size_t j = 0; j < plan.digits.size(); ++j) {
    const KeySwitchPlan::Digit& digit = plan.digits[j];
    if (digit.others.size() == 0) continue;
    run(q, device::Convert{digit.raise, x.with_limbs(digit.first, digit.count), std::nullopt, digits.with_components(j, 1),
                           digit.others});
  }
  threads_.parallel_for(units, digits.n * units < kWorthSharing ? units : 1, [&](std::size_t unit, std::size_t) {
    const std::size_t j = unit % plan.digits.size(), l = unit / plan.digits.size();  // adjacent units use the same twiddles
    const Limb& limb = ring.limb(plan.extended[l]);
    const KeySwitchPlan::Digit& digit = plan.digits[j];
    std::byte* const to = address(digits, 0, j, l);
    const bool inside = l >= digit.first && l < digit.first + digit.count;
    limb.ops->forward(limb, inside ? address(x, 0, 0, l) : to, to);
  });
}

/// Computes limb by limb, so that a limb stays in the second-level cache: digits' transforms, key products, inverse
/// transform.
void CpuKernels::key_switch_fused(Queue& q, const KeySwitch& one) {
  const KeySwitchPlan& plan = *one.plan;
  const View &x = one.x, &key = one.key, &out = one.out;
  Workspace w = one.scratch;
  const CpuRing& ring = own(*plan.ring);
  const std::size_t chain = plan.chain.size(), limbs = plan.extended.size(), count = plan.digits.size();
  const View digits = w.take(out.word, 1, count, limbs, out.n);
  const View sum = plan.mod_down ? w.take(out.word, 1, 2, limbs, out.n) : out;
  for (std::size_t j = 0; j < count; ++j) {
    const KeySwitchPlan::Digit& digit = plan.digits[j];
    if (digit.others.size() == 0) continue;
    run(q, device::Convert{digit.raise, x.with_limbs(digit.first, digit.count), std::nullopt, digits.with_components(j, 1),
                           digit.others});
  }
  threads_.parallel_for(limbs, out.n * limbs < kWorthSharing ? limbs : 1, [&](std::size_t l, std::size_t) {
    const Limb& limb = ring.limb(plan.extended[l]);
    for (std::size_t j = 0; j < count; ++j) {
      const KeySwitchPlan::Digit& digit = plan.digits[j];
      const bool inside = l >= digit.first && l < digit.first + digit.count;
      limb.ops->forward(limb, inside ? address(x, 0, 0, l) : address(digits, 0, j, l), address(digits, 0, j, l));
    }
    PrimeList prime, place;
    prime.push_back(plan.extended[l]), place.push_back(plan.key_limbs[l]);
    run(q, device::InnerProduct{plan.ring, prime, digits.with_limbs(l, 1), key, place, sum.with_limbs(l, 1)});
    for (std::size_t c = 0; c < 2; ++c) limb.ops->inverse(limb, address(sum, 0, c, l), address(sum, 0, c, l));
  });
  if (plan.mod_down) {
    const View beside = sum.with_limbs(0, chain);
    run(q, device::Convert{plan.mod_down, sum.with_limbs(chain, plan.special.size()), beside, out});
  }
  if (one.add) {
    const View part = out.with_components(0, one.add->components);
    run(q, device::Add{plan.ring, plan.chain, part, *one.add, part});
  }
}

/// Multiplies (a0, a1) by (b0, b1), or squares (a0, a1). Components 0 and 1 overwrite a0 and a1; component 2 goes to
/// `third`.
void CpuKernels::tensor_limb(const Limb& limb, std::byte* const* a, std::byte* const* b, std::byte* third, bool square) {
  alignas(64) u64 second[kBlock];
  const std::size_t word = limb.word_bytes, length = std::min(limb.n, kBlock);
  for (std::size_t start = 0; start < limb.n * word; start += length * word) {
    std::byte *const a0 = a[0] + start, *const a1 = a[1] + start;
    std::byte *const b0 = square ? a0 : b[0] + start, *const b1 = square ? a1 : b[1] + start;
    const void* const left[2] = {a0, a1};
    const void* const right[2] = {b1, b0};
    limb.ops->dot(limb.modulus, 2, left, right, nullptr, second, length);
    limb.ops->mul(limb.modulus, a0, b0, a0, length);
    limb.ops->mul(limb.modulus, a1, b1, third + start, length);
    std::memcpy(a1, second, length * word);
  }
}

bool CpuKernels::multiply_fused(Queue& q, const ScaledTensor& one) {
  const MultiplyPlan& plan = *one.plan;
  const View &a = one.a, &b = one.b, &out = one.out;
  Workspace w = one.scratch;
  if (a.components != 2 || b.components != 2) return false;
  const CpuRing& ring = own(*plan.ring);
  const bool square = device::same_operand(a, b);
  const std::size_t chain = plan.chain.size(), auxiliary = plan.auxiliary.size(), limbs = chain + auxiliary;
  // The extended components: a0 and a1, then b0 and b1. For a square, component 2 holds the third component of the product.
  const View e = w.take(out.word, 1, square ? 3 : 4, limbs, out.n);
  run(q, device::Convert{plan.lift, a, std::nullopt, e.with_components(0, 2).with_limbs(chain, auxiliary)});
  if (!square) run(q, device::Convert{plan.lift, b, std::nullopt, e.with_components(2, 2).with_limbs(chain, auxiliary)});
  threads_.parallel_for(limbs, out.n * limbs < kWorthSharing ? limbs : 1, [&](std::size_t l, std::size_t) {
    const Limb& limb = ring.limb(plan.extended[l]);
    std::byte* at[4];
    for (std::size_t c = 0; c < (square ? 3 : 4); ++c) at[c] = address(e, 0, c, l);
    for (std::size_t c = 0; c < (square ? 2 : 4); ++c) {
      limb.ops->forward(limb, l >= chain ? at[c] : c < 2 ? address(a, 0, c, l) : address(b, 0, c - 2, l), at[c]);
    }
    tensor_limb(limb, at, at + 2, at[2], square);
    for (std::size_t c = 0; c < 3; ++c) limb.ops->inverse(limb, at[c], at[c]);
  });
  scale_and_lower(plan, e.with_components(0, 3), out);
  return true;
}

/// Computes round(t/Q x) in the auxiliary base and lifts it to Q. Works on one block of coefficients at a time, so that the
/// block in the auxiliary base stays in the cache.
void CpuKernels::scale_and_lower(const MultiplyPlan& plan, const View& product, const View& out) {
  const CpuConversion &scale = own(*plan.scale), &lower = own(*plan.lower);
  const std::size_t chain = plan.chain.size(), auxiliary = plan.auxiliary.size(), most = std::max(chain, auxiliary);
  const std::size_t block = convert_block_words(most, out.n), blocks = out.n / block, word = out.word_size();
  const bool wide = out.word == math::Word::w64;
  const std::size_t units = out.components * blocks;
  threads_.parallel_for(units, units * block * most < kWorthSharing ? units : 4, [&](std::size_t unit, std::size_t) {
    const std::size_t first = unit % blocks * block, component = unit / blocks;
    std::byte* const scratch =
        static_cast<std::byte*>(thread_scratch((most + 1) * block * sizeof(u64) + auxiliary * block * word));
    std::byte* const between = scratch + (most + 1) * block * sizeof(u64);
    const std::byte* from[kMaxSources];
    const std::byte* beside[device::kMaxLimbs];
    std::byte* to[device::kMaxLimbs];
    const auto convert = [&](const CpuConversion& conversion, bool with_own) {
      convert_block({.conversion = conversion,
                     .wide_in = wide,
                     .wide_out = wide,
                     .count = block,
                     .x = from,
                     .own = with_own ? beside : nullptr,
                     .out = to,
                     .scratch = reinterpret_cast<u64*>(scratch)});
    };
    for (std::size_t i = 0; i < chain; ++i) from[i] = address(product, 0, component, i) + first * word;
    for (std::size_t j = 0; j < auxiliary; ++j) {
      beside[j] = address(product, 0, component, chain + j) + first * word;
      to[j] = between + j * block * word;
    }
    convert(scale, true);
    for (std::size_t j = 0; j < auxiliary; ++j) from[j] = between + j * block * word;
    for (std::size_t i = 0; i < chain; ++i) to[i] = address(out, 0, component, i) + first * word;
    convert(lower, false);
  });
}

}  // namespace heliograph::backend::cpu
