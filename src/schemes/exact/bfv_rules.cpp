#include "schemes/exact/bfv_rules.h"

#include <algorithm>
#include <cmath>

#include "rlwe/rotate.h"

namespace heliograph::bfv {

namespace {

using math::Domain;
using math::u64;
using ring::RnsTensor;

class BfvRules : public exact::Rules {
 public:
  using Rules::Rules;

  Domain home() const override { return Domain::coefficient; }

  u64 error_multiplier(std::size_t) const override { return 1; }

  const std::shared_ptr<const device::ConversionConstant>& encoding(std::size_t part, std::size_t level, u64) override {
    return cached(Kind::encode, part, level, 1,
                  [&] { return math::scale_from_plain(plain(part), rlwe().moduli(rlwe().chain(level))); });
  }

  const std::shared_ptr<const device::ConversionConstant>& decoding(std::size_t part, std::size_t level) override {
    return cached(Kind::decode, part, level, 1,
                  [&] { return math::scale_to_plain(rlwe().moduli(rlwe().chain(level)), plain(part)); });
  }

  u64 noise_multiplier(std::size_t part) const override { return plain(part); }

  RnsTensor multiply(std::size_t part, const RnsTensor& a, const RnsTensor& b) override {
    ring::Engine& e = engine();
    RnsTensor out(rlwe().engine(), a.shape(), 3, a.primes(), Domain::coefficient);
    e.enqueue_reporting(device::ScaledTensor{multiply_plan(a.primes().size(), part), a.view(), b.view(), out.view()});
    return out;
  }

  RnsTensor relinearize(std::size_t, const RnsTensor& x, const rlwe::SwitchKey& key) override {
    ring::Engine& e = engine();
    const RnsTensor pairs = key.pairs();  // keeps the key in memory: the allocation below may evict other keys
    const std::size_t last = x.components() - 1;
    RnsTensor out(rlwe().engine(), x.shape(), 2, x.primes(), Domain::coefficient);
    e.enqueue_reporting(device::KeySwitch{rlwe().key_switch_plan(x.primes().size()), Domain::coefficient,
                                          x.with_components(last, 1).view(), pairs.view(), x.with_components(0, last).view(),
                                          out.view()});
    return out;
  }

  void rotate(std::size_t, const RnsTensor& x, const std::vector<u64>& galois,
              const std::vector<const rlwe::SwitchKey*>& keys, const std::vector<RnsTensor>& out) override {
    rlwe::rotate(x, galois, keys, out, rlwe().key_switch_plan(x.primes().size()), nullptr);
  }

  RnsTensor switch_level(std::size_t, const RnsTensor& x, std::size_t level) override {
    return rlwe::switch_level(rlwe(), x, level);
  }

  u64 switched_factor(std::size_t, std::size_t, std::size_t) const override { return 1; }

  bool multiplies_low() const override { return false; }
  bool independent() const override { return true; }

  double fresh_noise(std::size_t, bool public_key) const override {
    return public_key ? rlwe::log2_sum(model().fresh_public_key(), model().rounding()) : model().fresh_secret_key_rounded();
  }

  double message_noise(std::size_t, double, u64) const override { return model().rounding(); }

  double integer_noise(std::size_t) const override { return -1; }  // one rounding of the integer's multiple of Q/t

  double multiply_noise(std::size_t part, double a, double b) const override {
    // (t/Q) c(s) multiplies the other operand's noise. The rounding of three components adds to the noise.
    const double k = log_plain(part) + model().phase_over_modulus();
    return rlwe::log2_sum(rlwe::log2_sum(a, b) + k, model().rounding_times_secret(3));
  }

  double key_switch_noise(std::size_t, std::size_t level) const override { return switch_noise(level); }

  double switched_noise(std::size_t, double noise, std::size_t from, std::size_t to, std::size_t degree) const override {
    return rlwe::log2_sum(noise + log_modulus(to) - log_modulus(from), model().rounding_times_secret(degree + 1));
  }

  double noise_limit(std::size_t part, std::size_t level) const override {  // log2(Q / 2t)
    return log_modulus(level) - 1 - log_plain(part) - rlwe::kRoundingSlack;
  }

 private:
  const std::shared_ptr<const device::MultiplyPlan>& multiply_plan(std::size_t level, std::size_t part) {
    const std::lock_guard lock(mutex_);
    const auto found = multiply_plans_.find({level, part});
    if (found != multiply_plans_.end()) return found->second;
    // R must hold the scaled product, which is below t N Q / 2 in magnitude, with one bit of margin.
    const rlwe::RingParameters& p = rlwe().parameters();
    const double need = log_modulus(level) + log_plain(part) + std::log2(static_cast<double>(p.n)) + 1;
    std::size_t count = 0;
    double have = 0;
    while (have < need && count < p.auxiliary.size()) have += std::log2(static_cast<double>(p.auxiliary[count++]));
    require<ParameterError>(have >= need, "cannot multiply: the set has too few auxiliary primes; make it with make_spec");
    rlwe::Context& c = rlwe();
    device::MultiplyPlan plan{.ring = engine().prepared(), .chain = c.chain(level), .auxiliary = c.auxiliary(count)};
    plan.extended = plan.chain;
    plan.extended.append(plan.auxiliary);
    const std::vector<u64> q = c.moduli(plan.chain), r = c.moduli(plan.auxiliary);
    plan.lift = engine().kernels().prepare(math::extend_base(q, r));
    plan.scale = engine().kernels().prepare(math::divide_and_round(q, r, plain(part)));
    plan.lower = engine().kernels().prepare(math::extend_base(r, q));
    return multiply_plans_.emplace(std::pair{level, part}, std::make_shared<const device::MultiplyPlan>(std::move(plan)))
        .first->second;
  }

  std::mutex mutex_;
  std::map<std::pair<std::size_t, std::size_t>, std::shared_ptr<const device::MultiplyPlan>> multiply_plans_;
};

}  // namespace

std::unique_ptr<exact::Rules> make_rules(std::shared_ptr<rlwe::Context> rlwe, std::vector<u64> plain_moduli) {
  return std::make_unique<BfvRules>(std::move(rlwe), std::move(plain_moduli));
}

}  // namespace heliograph::bfv
