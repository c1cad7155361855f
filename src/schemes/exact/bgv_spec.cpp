// Parameter sets of BGV.
#include <algorithm>
#include <cmath>

#include "heliograph/bgv.h"
#include "rlwe/noise.h"
#include "schemes/exact/bgv_noise.h"
#include "schemes/exact/bgv_rules.h"
#include "schemes/exact/spec.h"

namespace heliograph::bgv {

namespace {

const std::vector<exact::NamedSet>& named_sets() {
  // bgv-n15 and bgv-n14 are for benchmarks: chains of 11 and 6 primes of w64, for at least 10 and 4 sequential
  // multiplications (tests). hcnn5-bgv is the result of parameters_for for the shipped network hcnn5.
  static const std::vector<exact::NamedSet> sets = {
      {"bgv-n15", 15, 550, 6, 10, {65537}, false, 0},
      {"bgv-n14", 14, 270, 3, 5, {65537}, false, 0},
      {"hcnn5-bgv", 13, 211, 0, 0, {8796092858369}, false, 0},
  };
  return sets;
}

/// Returns the bits that Q lacks for `depth` levels at the largest plaintext modulus. A level switches operands to the best
/// level for their product, then takes a sum of products, a key switch and a rotation.
double missing(const Spec& s, const Request& r) {
  const rlwe::NoiseModel::Deviations deviations = exact::deviations_of(r);
  const Noise noise(s.n, exact::log2_largest_of(s.plain_moduli), deviations);
  std::vector<double> log_modulus = {0};
  for (std::uint64_t q : s.chain) log_modulus.push_back(log_modulus.back() + std::log2(static_cast<double>(q)));
  std::size_t level = s.chain.size();
  double v = noise.fresh(true);
  for (int depth = 0; depth < r.depth; ++depth) {
    const auto at = [&](std::size_t to) {
      return to < level ? rlwe::log2_sum(v + log_modulus[to] - log_modulus[level], noise.floor(1)) : v;
    };
    const auto budget = [&](std::size_t to) { return log_modulus[to] - 2 * at(to); };
    std::size_t best = level;
    double most = budget(level);
    for (std::size_t to = 1; to < level; ++to) most = std::max(most, budget(to));
    for (std::size_t to = level; to >= 1; --to) {
      if (budget(to) >= most - 0.5) best = to;
    }
    v = 2 * at(best) + std::log2(static_cast<double>(r.terms));
    level = best;
    const double key_switch = noise.key_switch(exact::key_switch_noise(s, level, deviations));
    v = rlwe::log2_sum(rlwe::log2_sum(v, key_switch), key_switch);
    const double excess = v + 1 + rlwe::kRoundingSlack - log_modulus[level];
    // Estimate of the missing bits: each added bit of Q lowers the deficit by at most two bits, and each remaining level
    // needs at least the floor of the noise.
    if (excess > 0) return excess / 2 + (r.depth - 1 - depth) * noise.floor(1);
  }
  return v + 1 + rlwe::kRoundingSlack - log_modulus[level];
}

double transforms(const Spec& s) {
  const double q = static_cast<double>(s.chain.size()), p = static_cast<double>(s.special.size());
  const double d = static_cast<double>(s.digits.size());
  return d * (q + p) + 4 * q + 2 * p;  // transforms of raised digits, of the division by P, of one modulus switch
}

}  // namespace

Spec make_spec(std::size_t n, int log_q, std::size_t special_count, std::vector<std::uint64_t> plain_moduli, int word_size,
               std::size_t slots, bool insecure) {
  return exact::make_spec("bgv", n, log_q, special_count, std::move(plain_moduli), word_size, slots, insecure);
}

std::vector<std::string> named_specs() { return exact::named_specs(exact::kBgv); }
Spec named_spec(const std::string& name, bool insecure) { return exact::named_spec(exact::kBgv, name, insecure); }
Spec choose(const Request& request) { return exact::choose(exact::kBgv, request); }

}  // namespace heliograph::bgv

namespace heliograph::exact {

constinit const Family kBgv = {.scheme = "bgv",
                               .make = bgv::make_spec,
                               .missing = bgv::missing,
                               .transforms = bgv::transforms,
                               .named = bgv::named_sets,
                               .rules = bgv::make_rules,
                               .has_factors = true};

}  // namespace heliograph::exact
