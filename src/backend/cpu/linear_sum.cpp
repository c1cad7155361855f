// Kernel of linear sums of rotations (device/call.h, LinearSum), for one item. A block of a limb is multiplied by every baby
// step's key and every plaintext while it is cached.
#include <algorithm>

#include "backend/cpu/parallel.h"

namespace heliograph::backend::cpu {

using device::BabySteps;
using device::GiantSteps;
using device::KeySwitchPlan;
using device::LinearPlan;
using device::LinearSum;

namespace {

constexpr std::size_t kMostTerms = 256;  // maximum terms of one sum of products

/// Returns every `step`-th item from `first` on, of a view with one axis.
View every(View v, std::size_t first, std::size_t step) {
  v.data = v.address(first, 0, 0);
  v.shape[0] /= step, v.stride[0] *= static_cast<std::ptrdiff_t>(step);
  return v;
}

}  // namespace

void CpuKernels::run(Queue& q, const LinearSum& c) {
  if (c.plan->babies.size() > kMostTerms) return q.expand(c);
  each_item(c, [&](const LinearSum& one) { linear_sum_fused(q, one); });
}

void CpuKernels::run(Queue& q, const BabySteps& c) {
  if (c.turns.size() > kMostTerms) return q.expand(c);
  const std::size_t items = c.x.items();
  for (std::size_t i = 0; i < items; ++i) {
    BabySteps one = c;
    one.x = c.x.item(i), one.digits = c.digits.item(i);
    one.sums = every(c.sums, i, items);
    add_babies(one);
  }
}

void CpuKernels::run(Queue& q, const GiantSteps& c) {
  if (c.digits.components > device::kMaxLimbs) return q.expand(c);
  const std::size_t items = c.total.items();
  for (std::size_t i = 0; i < items; ++i) {
    GiantSteps one = c;
    one.sums = every(c.sums, i, items), one.digits = every(c.digits, i, items), one.total = c.total.item(i);
    add_giants(one);
  }
}

/// Adds the giant steps of one item to `total`. Each block of a limb is written once.
void CpuKernels::add_giants(const GiantSteps& one) {
  const CpuRing& ring = own(*one.ring);
  const std::size_t count = one.digits.components, word = one.total.word_size(), n = one.total.n;
  const std::size_t block = std::min(kBlock, n), blocks = n / block, units = one.primes.size() * blocks;
  threads_.parallel_for(units, n * one.primes.size() < kWorthSharing ? units : 8, [&](std::size_t unit, std::size_t) {
    const std::size_t l = unit / blocks, first = unit % blocks * block;
    const Limb& limb = ring.limb(one.primes[l]);
    const Blocks rooms(count + 1, block, word);
    const void *left[device::kMaxLimbs], *right[device::kMaxLimbs];
    for (std::size_t g = 0; g < one.turns.size(); ++g) {
      const CpuPermutation& turn = own(*one.turns[g]);
      const auto turned = [&](const View& v, std::size_t component, std::byte* room) {
        turn.gather(*limb.ops, limb.modulus, address(v, g, component, l), first, room, block);
        return room;
      };
      for (std::size_t j = 0; j < count; ++j) left[j] = turned(one.digits, j, rooms[j]);
      for (std::size_t c = 0; c < 2; ++c) {
        std::byte* const to = address(one.total, 0, c, l) + first * word;
        for (std::size_t j = 0; j < count; ++j)
          right[j] = address(one.keys[g], 0, 2 * j + c, (*one.key_limbs)[l]) + first * word;
        limb.ops->dot(limb.modulus, count, left, right, to, to, block);
      }
      std::byte* const to = address(one.total, 0, 0, l) + first * word;
      limb.ops->add(limb.modulus, to, turned(one.sums, 0, rooms[count]), to, block, false);
    }
  });
}

void CpuKernels::linear_sum_fused(Queue& q, const LinearSum& one) {
  const LinearPlan& plan = *one.plan;
  const KeySwitchPlan& k = *plan.key_switch;
  const math::Word word = one.out.word;
  Workspace w = one.scratch;
  const std::size_t limbs = k.extended.size(), chain = k.chain.size(), giants = plan.giants.size(), n = one.out.n;
  const View low = w.take(word, 1, 1, chain, n).item(0), digits = w.take(word, 1, k.digits.size(), limbs, n).item(0);
  const View sums = w.take(word, giants, 2, limbs, n);
  if (LinearPlan::turning(plan.babies) > 0) {
    run(q, device::InverseNtt{k.ring, k.chain, one.x.with_components(1, 1), low});
    decompose_fused(q, k, low, digits);
  }
  std::size_t key = LinearPlan::turning(plan.babies);
  add_babies({.ring = k.ring,
              .primes = k.extended,
              .turns = plan.babies,
              .terms = plan.terms,
              .weight = k.weight,
              .x = one.x,
              .digits = digits,
              .keys = {one.keys.begin(), one.keys.begin() + static_cast<std::ptrdiff_t>(key)},
              .key_limbs = k.key_limbs,
              .plaintexts = one.plaintexts,
              .sums = sums,
              .scratch = {}});
  const std::size_t first = plan.giants[0] ? 0 : 1;
  const View total = first > 0 ? sums.item(0) : w.take(word, 1, 2, limbs, n).item(0);
  for (std::size_t g = first; g < giants; ++g) add_giant(q, one, g, one.keys[key++], sums.item(g), low, digits, total);
  run(q, device::Divide{device::division_of(plan.key_switch), total, one.out, w});
}

/// Computes the baby steps of one item; `sums` has one item for each giant step.
void CpuKernels::add_babies(const BabySteps& one) {
  const CpuRing& ring = own(*one.ring);
  const View& digits = one.digits;
  const std::size_t count = digits.components, word = one.sums.word_size(), n = one.sums.n, babies = one.turns.size();
  const std::size_t block = std::min(kBlock, n), blocks = n / block, units = one.primes.size() * blocks;
  const std::size_t run = run_of(one.plaintexts, one.sums), giants = one.giants();
  threads_.parallel_for(units, n * one.primes.size() < kWorthSharing ? units : 8, [&](std::size_t unit, std::size_t) {
    const std::size_t l = unit / blocks, first = unit % blocks * block;
    const bool kept = l < one.x.limbs;  // modulo a special prime this operand's weight is 0
    const Limb& limb = ring.limb(one.primes[l]);
    // Scratch: blocks of u_b (the baby steps' results), then blocks of the permuted digits. If one plaintext word serves a
    // run of words, a giant step's expanded plaintexts overwrite the digits.
    const Blocks rooms(2 * babies + std::max(count + 1, run > 1 ? babies : 0), block, word);
    const auto at = [&](const View& v, std::size_t component, std::size_t from) {
      return address(v, 0, component, from) + first * word;
    };
    const void *left[kMostTerms], *right[kMostTerms];
    const u64 weight = kept ? one.weight[l] : 0;
    std::size_t key = 0;
    for (std::size_t b = 0; b < babies; ++b) {
      std::byte* const u[2] = {rooms[2 * b], rooms[2 * b + 1]};
      if (!one.turns[b]) {
        for (std::size_t c = 0; c < 2; ++c) {
          if (kept)
            limb.ops->mul_constant(limb.modulus, at(one.x, c, l), weight, u[c], block);
          else
            std::fill_n(u[c], block * word, std::byte{0});
        }
        continue;
      }
      const CpuPermutation& turn = own(*one.turns[b]);
      const auto turned = [&](const View& v, std::size_t component, std::byte* room) {
        turn.gather(*limb.ops, limb.modulus, address(v, 0, component, l), first, room, block);
        return room;
      };
      for (std::size_t j = 0; j < count; ++j) left[j] = turned(digits, j, rooms[2 * babies + j]);
      for (std::size_t c = 0; c < 2; ++c) {
        for (std::size_t j = 0; j < count; ++j) right[j] = at(one.keys[key], 2 * j + c, (*one.key_limbs)[l]);
        limb.ops->dot(limb.modulus, count, left, right, nullptr, u[c], block);
      }
      ++key;
      if (!kept) continue;
      const void* const body = turned(one.x, 0, rooms[2 * babies + count]);
      limb.ops->scaled_sum(limb.modulus, 1, &body, &weight, u[0], u[0], block);
    }
    for (std::size_t t = 0, g = 0; g < giants; ++g) {
      const std::size_t begin = t;
      for (; t < one.terms.size() && one.terms[t].giant == g; ++t) {
        std::byte* const room = rooms[2 * babies + t - begin];
        if (run > 1) repeat(address(one.plaintexts, 0, t, l), word, run, first, block, room);
        right[t - begin] = run > 1 ? room : at(one.plaintexts, t, l);
      }
      for (std::size_t c = 0; c < 2; ++c) {
        for (std::size_t i = begin; i < t; ++i) left[i - begin] = rooms[2 * one.terms[i].baby + c];
        limb.ops->dot(limb.modulus, t - begin, left, right, nullptr, address(one.sums, g, c, l) + first * word, block);
      }
    }
  });
}

/// total += the key-switched sum of a giant step that has an automorphism. Overwrites `sum`, `low` and `digits`.
void CpuKernels::add_giant(Queue& q, const LinearSum& one, std::size_t giant, const View& key, const View& sum,
                           const View& low, const View& digits, const View& total) {
  const LinearPlan& plan = *one.plan;
  const KeySwitchPlan& k = *plan.key_switch;
  const CpuRing& ring = own(*k.ring);
  const std::size_t count = k.digits.size(), word = one.out.word_size(), n = one.out.n, chain = k.chain.size();
  const std::size_t block = std::min(kBlock, n), limbs = k.extended.size();
  const View mask = sum.with_components(1, 1);
  run(q, device::InverseNtt{k.ring, k.extended, mask, mask});
  if (plan.mod_down)
    run(q, device::Convert{plan.mod_down, mask.with_limbs(chain, k.special.size()), mask.with_limbs(0, chain), low});
  const View& from = plan.mod_down ? low : mask;
  for (std::size_t j = 0; j < count; ++j) {
    const KeySwitchPlan::Digit& digit = k.digits[j];
    if (digit.others.size() == 0) continue;
    run(q, device::Convert{digit.raise, from.with_limbs(digit.first, digit.count), std::nullopt,
                           digits.with_components(j, 1), digit.others});
  }
  const CpuPermutation& turn = own(*plan.giants[giant]);
  const bool begins = giant == 0;
  threads_.parallel_for(limbs, n * limbs < kWorthSharing ? limbs : 1, [&](std::size_t l, std::size_t) {
    const Limb& limb = ring.limb(k.extended[l]);
    for (std::size_t j = 0; j < count; ++j) {
      const KeySwitchPlan::Digit& digit = k.digits[j];
      std::byte* const to = address(digits, 0, j, l);
      const bool inside = l >= digit.first && l < digit.first + digit.count;
      limb.ops->forward(limb, inside ? address(from, 0, 0, l) : to, to);
    }
    const Blocks rooms(count + 1, block, word);
    const void *left[device::kMaxLimbs], *right[device::kMaxLimbs];
    for (std::size_t first = 0; first < n; first += block) {
      const auto turned = [&](const View& v, std::size_t component, std::byte* room) {
        turn.gather(*limb.ops, limb.modulus, address(v, 0, component, l), first, room, block);
        return room;
      };
      for (std::size_t j = 0; j < count; ++j) left[j] = turned(digits, j, rooms[j]);
      for (std::size_t c = 0; c < 2; ++c) {
        std::byte* const to = address(total, 0, c, l) + first * word;
        for (std::size_t j = 0; j < count; ++j) right[j] = address(key, 0, 2 * j + c, k.key_limbs[l]) + first * word;
        limb.ops->dot(limb.modulus, count, left, right, begins ? nullptr : to, to, block);
      }
      std::byte* const to = address(total, 0, 0, l) + first * word;
      limb.ops->add(limb.modulus, to, turned(sum, 0, rooms[count]), to, block, false);
    }
  });
}

}  // namespace heliograph::backend::cpu
