// Composite kernels in the NTT domain, one item: each limb of the result is completed while it is in the second-level cache.
#include <algorithm>

#include "backend/cpu/parallel.h"
#include "math/modulus.h"

namespace heliograph::backend::cpu {

using device::Divide;
using device::DividePlan;
using device::KeySwitchPlan;

namespace {

/// A conversion with at most this many sources computes and transforms one target limb at a time. The sources stay in the
/// cache, and no target is written to memory and read again.
constexpr std::size_t kFewSources = 2;

/// Maximum number of digits that the sum permutes block by block, in the first-level cache.
constexpr std::size_t kMostTurned = 16;

}  // namespace

/// The term that a division (mod down, rescale) adds to each remaining limb.
class CpuKernels::Rest {
 public:
  /// `last`: the coefficients of the limbs that are divided out; overwritten.
  Rest(CpuKernels& kernels, Queue& q, const DividePlan& plan, const View& last, const View& out, Workspace& w)
      : kernels_(kernels), ring_(kernels.own(*plan.ring)), plan_(plan), out_(out), y_(last) {
    limb_wise_ = out.word == math::Word::w64 && plan.divisors() <= kFewSources && out.n >= kLeastVector;
    if (!limb_wise_) {
      kernels.run(q, device::Convert{plan.rest, last, std::nullopt, out});
      return;
    }
    v_ = w.take(math::Word::w64, 1, out.components, 1, out.n);
    lift();
  }

  /// Computes the division's term in the NTT domain for limb l of the result.
  void finish(std::size_t component, std::size_t l) const {
    const Limb& limb = ring_.limb(plan_.out[l]);
    std::byte* const to = address(out_, 0, component, l);
    if (limb_wise_) combine(component, l, to);
    limb.ops->forward(limb, to, to);
  }

 private:
  void lift() {
    const CpuConversion& conversion = kernels_.own(*plan_.rest);
    const math::Conversion& c = conversion.of().conversion();
    const std::size_t block = std::min<std::size_t>(4096, out_.n), blocks = out_.n / block;
    kernels_.threads_.parallel_for(blocks * out_.components, 4, [&](std::size_t unit, std::size_t) {
      const std::size_t component = unit / blocks, first = unit % blocks * block;
      u64* const v = v_.at<u64>(0, component, 0) + first;
      for (std::size_t i = 0; i < c.sources(); ++i) {
        const CpuConversion::Lift& lift = conversion.lifts()[i];
        u64* const x = y_.at<u64>(0, component, i) + first;
        kernels_.instructions_.lift[1][static_cast<int>(lift.size)](lift.step, x, x, v, i == 0, block);
      }
      const u64 half = u64{1} << (c.fixed.bits - 1);
      for (std::size_t k = 0; k < block; ++k) v[k] = (v[k] + half) >> c.fixed.bits;
    });
  }

  void combine(std::size_t component, std::size_t l, std::byte* to) const {
    const CpuConversion::Combine& step = kernels_.own(*plan_.rest).combines()[l];
    kernels_.instructions_.combine[1][static_cast<int>(step.size)](step.step, y_.at<u64>(0, component, 0), y_.limb_stride,
                                                                   v_.at<u64>(0, component, 0), nullptr, to, out_.n);
  }

  CpuKernels& kernels_;
  const CpuRing& ring_;
  const DividePlan& plan_;
  View out_, y_, v_;
  bool limb_wise_;
};

void CpuKernels::run(Queue& q, const Divide& c) {
  if (!c.plan->simple() || !c.plan->rest->conversion().rounded) return q.expand(c);
  each_item(c, [&](const Divide& one) { divide_fused(q, *one.plan, one.x, one.out, one.scratch); });
}

void CpuKernels::divide_fused(Queue& q, const DividePlan& plan, const View& x, const View& out, Workspace w) {
  const CpuRing& ring = own(*plan.ring);
  const std::size_t kept = plan.out.size(), divisors = plan.divisors();
  const View last = w.take(x.word, 1, x.components, divisors, x.n);
  const auto grain = [&](std::size_t count) { return x.n * count < kWorthSharing ? count : 1; };
  threads_.parallel_for(x.components * divisors, grain(x.components * divisors), [&](std::size_t unit, std::size_t) {
    const std::size_t c = unit % x.components, i = unit / x.components;
    const Limb& limb = ring.limb(plan.primes[kept + i]);
    limb.ops->inverse(limb, address(x, 0, c, kept + i), address(last, 0, c, i));
  });
  const Rest rest(*this, q, plan, last, out, w);
  const std::size_t units = x.components * kept;
  threads_.parallel_for(units, grain(units), [&](std::size_t unit, std::size_t) {
    const std::size_t c = unit % x.components, l = unit / x.components;  // adjacent work units use the same twiddles
    const Limb& limb = ring.limb(plan.out[l]);
    std::byte* const to = address(out, 0, c, l);
    rest.finish(c, l);
    const void* const from = address(x, 0, c, l);
    limb.ops->scaled_sum(limb.modulus, 1, &from, &plan.own[l], to, to, limb.n);
  });
}

bool CpuKernels::fuses(const KeySwitchPlan& plan, const device::PermutationHandle& turn) {
  return plan.down.simple() && (!turn || plan.digits.size() <= kMostTurned);
}

/// If `x` is null, `given` holds the digits; otherwise `given` holds x's coefficients. An automorphism is applied to the
/// digits and to the added ciphertext while they are read.
template <class Switch>
void CpuKernels::apply_key_fused(Queue& q, const Switch& one, const View* x, const View& given, Workspace w) {
  const KeySwitchPlan& plan = *one.plan;
  const View &key = one.key, &out = one.out;
  const CpuRing& ring = own(*plan.ring);
  const DividePlan& down = plan.down;
  const std::size_t kept = down.out.size(), divisors = down.divisors(), count = plan.digits.size(), word = out.word_size();
  const View last = w.take(out.word, 1, 2, divisors, out.n);
  const View digits = x ? w.take(out.word, 1, count, plan.extended.size(), out.n) : given;
  const auto grain = [&](std::size_t limbs) { return out.n * limbs < kWorthSharing ? limbs : 1; };
  const std::size_t block = std::min(kBlock, out.n);

  // Phase 1, mod up: extend each digit of x to the limbs outside the digit.
  for (std::size_t j = 0; x && j < count; ++j) {
    const KeySwitchPlan::Digit& digit = plan.digits[j];
    if (digit.others.size() == 0) continue;
    run(q, device::Convert{digit.raise, given.with_limbs(digit.first, digit.count), std::nullopt,
                           digits.with_components(j, 1), digit.others});
  }

  // Operands of the sums at limb l; the digits are in the NTT domain.
  struct Terms {
    const std::byte* x[device::kMaxLimbs];
    const std::byte* key[2][device::kMaxLimbs];
  };
  const auto terms_of = [&](const Limb& limb, std::size_t l, Terms& t) {
    for (std::size_t j = 0; j < count; ++j) {
      const KeySwitchPlan::Digit& digit = plan.digits[j];
      if (x && l >= digit.first && l < digit.first + digit.count) {
        t.x[j] = address(*x, 0, 0, l);
      } else {
        std::byte* const at = address(digits, 0, j, l);
        if (x) limb.ops->forward(limb, at, at);
        t.x[j] = at;
      }
      for (std::size_t c = 0; c < 2; ++c) t.key[c][j] = address(key, 0, 2 * j + c, plan.key_limbs[l]);
    }
  };
  // Returns a block of a limb, permuted into `room` if there is an automorphism. In the NTT domain an automorphism maps
  // aligned blocks of a power of two onto such blocks, so each gather reads contiguous memory.
  const CpuPermutation* const permutation = one.turn ? &own(*one.turn) : nullptr;
  struct Room {
    alignas(64) u64 words[kBlock];
  };
  const auto block_of = [&](const Limb& limb, const std::byte* from, std::size_t first, Room& room) -> const void* {
    if (!permutation) return from + first * word;
    permutation->gather(*limb.ops, limb.modulus, from, first, room.words, block);
    return room.words;
  };
  struct Block {
    const void* digits[device::kMaxLimbs];
    Room rooms[kMostTurned];
  };
  const auto digits_of = [&](const Limb& limb, const Terms& t, std::size_t first, Block& b) {
    for (std::size_t j = 0; j < count; ++j) b.digits[j] = block_of(limb, t.x[j], first, b.rooms[permutation ? j : 0]);
  };
  const auto sum_block = [&](const Limb& limb, const Terms& t, const Block& b, std::size_t c, std::size_t first, void* to) {
    const void* right[device::kMaxLimbs];
    for (std::size_t j = 0; j < count; ++j) right[j] = t.key[c][j] + first * word;
    limb.ops->dot(limb.modulus, count, b.digits, right, nullptr, to, block);
  };
  const auto added = [&](std::size_t c, std::size_t l) {
    return one.add && c < one.add->components && l < plan.chain.size() ? address(*one.add, 0, c, l) : nullptr;
  };

  // Phase 2: compute the sums modulo the primes that are divided out, and convert them to coefficients.
  threads_.parallel_for(divisors, grain(divisors), [&](std::size_t i, std::size_t) {
    const std::size_t l = kept + i;
    const Limb& limb = ring.limb(plan.extended[l]);
    Terms t;
    Block b;
    Room room;
    terms_of(limb, l, t);
    for (std::size_t first = 0; first < out.n; first += block) {
      digits_of(limb, t, first, b);
      for (std::size_t c = 0; c < 2; ++c) {
        std::byte* const to = address(last, 0, c, i) + first * word;
        sum_block(limb, t, b, c, first, to);
        if (const std::byte* const more = added(c, l)) {
          const void* const addend = block_of(limb, more, first, room);
          limb.ops->scaled_sum(limb.modulus, 1, &addend, &plan.weight[l], to, to, block);
        }
      }
    }
    for (std::size_t c = 0; c < 2; ++c) limb.ops->inverse(limb, address(last, 0, c, i), address(last, 0, c, i));
  });

  // Phase 3: compute the sums modulo the remaining primes, and divide them.
  const Rest rest(*this, q, down, last, out, w);
  threads_.parallel_for(kept, grain(kept), [&](std::size_t l, std::size_t) {
    const Limb& limb = ring.limb(plan.extended[l]);
    Terms t;
    Block b;
    Room room;
    terms_of(limb, l, t);
    for (std::size_t c = 0; c < 2; ++c) rest.finish(c, l);
    const u64 factors[2] = {down.own[l], math::mul_mod(down.own[l], plan.weight[l], limb.modulus.q)};
    alignas(64) u64 sum[kBlock];
    for (std::size_t first = 0; first < out.n; first += block) {
      digits_of(limb, t, first, b);
      for (std::size_t c = 0; c < 2; ++c) {
        std::byte* const to = address(out, 0, c, l) + first * word;
        const std::byte* const more = added(c, l);
        sum_block(limb, t, b, c, first, sum);
        const void* const scaled[2] = {sum, more ? block_of(limb, more, first, room) : nullptr};
        limb.ops->scaled_sum(limb.modulus, more ? 2 : 1, scaled, factors, to, to, block);
      }
    }
  });
}

template void CpuKernels::apply_key_fused(Queue&, const device::ApplyKey&, const View*, const View&, Workspace);
template void CpuKernels::apply_key_fused(Queue&, const device::KeySwitch&, const View*, const View&, Workspace);

}  // namespace heliograph::backend::cpu
