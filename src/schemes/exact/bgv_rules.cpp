#include "schemes/exact/bgv_rules.h"

#include <algorithm>
#include <cmath>

#include "base/progress.h"
#include "rlwe/rotate.h"
#include "rlwe/transformed.h"
#include "schemes/exact/bgv_noise.h"

namespace heliograph::bgv {

namespace {

using math::Domain;
using math::u64;
using ring::RnsTensor;

class BgvRules : public exact::Rules {
 public:
  BgvRules(std::shared_ptr<rlwe::Context> context, std::vector<u64> plain_moduli) : Rules(std::move(context), plain_moduli) {
    for (std::size_t part = 0; part < plain_moduli.size(); ++part) {
      noise_.emplace_back(rlwe().parameters().n, log_plain(part));
      device::LimbConstants inverses{};
      const std::vector<u64>& chain = rlwe().parameters().chain;
      for (std::size_t l = 0; l < chain.size(); ++l)
        inverses[l] = math::inverse_mod(plain_moduli[part] % chain[l], chain[l]);
      inverses_.push_back(inverses);
    }
  }

  Domain home() const override { return Domain::ntt; }

  u64 error_multiplier(std::size_t part) const override { return plain(part); }

  const std::shared_ptr<const device::ConversionConstant>& encoding(std::size_t part, std::size_t level,
                                                                    u64 factor) override {
    return cached(Kind::encode, part, level, factor,
                  [&] { return math::extend_base({plain(part)}, rlwe().moduli(rlwe().chain(level)), true, factor); });
  }

  const std::shared_ptr<const device::ConversionConstant>& decoding(std::size_t part, std::size_t level) override {
    return cached(Kind::decode, part, level, 1,
                  [&] { return math::extend_base(rlwe().moduli(rlwe().chain(level)), {plain(part)}); });
  }

  u64 noise_multiplier(std::size_t) const override { return 1; }

  RnsTensor multiply(std::size_t, const RnsTensor& a, const RnsTensor& b) override {
    if (a.items() == 0) return RnsTensor(rlwe().engine(), a.shape(), 3, a.primes(), Domain::ntt);
    ProgressSteps steps(1);
    RnsTensor out = rlwe::multiply(a, b);
    steps.add();
    return out;
  }

  RnsTensor relinearize(std::size_t part, const RnsTensor& x, const rlwe::SwitchKey& key) override {
    return rlwe::switch_last(rlwe(), x, key, x.primes().size(), x.primes().size(), plain(part), &inverses_[part]);
  }

  void rotate(std::size_t part, const RnsTensor& x, const std::vector<u64>& galois,
              const std::vector<const rlwe::SwitchKey*>& keys, const std::vector<RnsTensor>& out) override {
    const std::size_t level = x.primes().size();
    rlwe::rotate(x, galois, keys, out, rlwe().ntt_switch_plan(level, level, plain(part)), &inverses_[part]);
  }

  RnsTensor switch_level(std::size_t part, const RnsTensor& x, std::size_t level) override {
    const Unreported preparation;
    return rlwe::divide(rlwe(), ring::to_domain(x, Domain::ntt), x.primes().size(), level, plain(part));
  }

  u64 switched_factor(std::size_t part, std::size_t from, std::size_t to) const override {
    const u64 t = plain(part);
    u64 dropped = 1 % t;
    const std::vector<u64>& chain = rlwe().parameters().chain;
    for (std::size_t l = to; l < from; ++l) dropped = math::mul_mod(dropped, chain[l] % t, t);
    return math::inverse_mod(dropped, t);
  }

  bool multiplies_low() const override { return true; }
  bool independent() const override { return false; }  // the noise contains the messages, which may be correlated

  double fresh_noise(std::size_t part, bool public_key) const override { return noise_[part].fresh(public_key); }

  double message_noise(std::size_t part, double log_norm, u64 factor) const override {
    return factor == 1 ? log_norm : noise_[part].message();  // f m modulo t can be any residue
  }

  double integer_noise(std::size_t part) const override { return log_plain(part) - 1; }

  double multiply_noise(std::size_t, double a, double b) const override { return a + b; }  // canonical norms multiply

  double key_switch_noise(std::size_t part, std::size_t level) const override {
    return noise_[part].key_switch(switch_noise(level));
  }

  double switched_noise(std::size_t part, double noise, std::size_t from, std::size_t to,
                        std::size_t degree) const override {
    return rlwe::log2_sum(noise + log_modulus(to) - log_modulus(from), noise_[part].floor(degree));
  }

  double noise_limit(std::size_t, std::size_t level) const override {  // log2(Q / 2)
    return log_modulus(level) - 1 - rlwe::kRoundingSlack;
  }

 private:
  std::vector<Noise> noise_;
  std::vector<device::LimbConstants> inverses_;  // inverse of t modulo each chain prime
};

}  // namespace

std::unique_ptr<exact::Rules> make_rules(std::shared_ptr<rlwe::Context> rlwe, std::vector<u64> plain_moduli) {
  return std::make_unique<BgvRules>(std::move(rlwe), std::move(plain_moduli));
}

}  // namespace heliograph::bgv
