// Parameter sets of BFV.
#include <algorithm>
#include <cmath>

#include "heliograph/bfv.h"
#include "math/primes.h"
#include "rlwe/noise.h"
#include "schemes/exact/bfv_rules.h"
#include "schemes/exact/spec.h"

namespace heliograph::bfv {

namespace {

using exact::log2_largest_of;
using math::u64;

const std::vector<exact::NamedSet>& named_sets() {
  // The "-2020" sets are those of Al Badawi and others, IEEE TPDS 2020, section 5, with special primes of this project.
  // hcnn5 is the result of parameters_for for the shipped networks at 128 bits. hcnn11 is the result of parameters_for for
  // the CIFAR-10 network of that paper with 8-bit weights of root mean square 30, plus five bits of margin. Tests repeat
  // both searches.
  static const std::vector<u64> ten = {2424833, 2654209, 2752513, 3604481, 3735553,
                                       4423681, 4620289, 4816897, 4882433, 5308417};
  static const std::vector<exact::NamedSet> sets = {
      {"hvmul-2020", 15, 600, 4, 5, {2}, false, 0}, {"hcnn5-2020", 14, 330, 2, 3, {5522259017729}, false, 0},
      {"hcnn11-2020", 13, 300, 0, 0, ten, true, 0}, {"hcnn5", 13, 187, 0, 0, {8796092858369}, false, 0},
      {"hcnn11", 13, 210, 0, 0, ten, false, 0},
  };
  return sets;
}

/// Returns the noise (log2) after `depth` levels at the largest plaintext modulus. A level is a sum of products, a key
/// switch and a rotation.
double noise_after(const Spec& s, const Request& r) {
  const rlwe::NoiseModel::Deviations deviations = exact::deviations_of(r);
  const rlwe::NoiseModel model(s.n, rlwe::NoiseModel::Spoils::coefficients, deviations);
  const double k = log2_largest_of(s.plain_moduli) + model.phase_over_modulus();
  const double key_switch = exact::key_switch_noise(s, s.chain.size(), deviations);
  double v = rlwe::log2_sum(model.fresh_public_key(), model.rounding());
  for (int level = 0; level < r.depth; ++level) {
    v = rlwe::log2_sum(v + 1 + k, model.rounding_times_secret(3));  // one product
    v += std::log2(static_cast<double>(r.terms));                   // the sum of `terms` products
    v = rlwe::log2_sum(rlwe::log2_sum(v, key_switch), key_switch);  // relinearization, rotation
  }
  return v;
}

double missing(const Spec& s, const Request& r) {
  return noise_after(s, r) + 1 + log2_largest_of(s.plain_moduli) - rlwe::log2_product(s.chain);
}

double transforms(const Spec& s) {
  const double q = static_cast<double>(s.chain.size()), r = static_cast<double>(s.auxiliary.size());
  const double p = static_cast<double>(s.special.size()), d = static_cast<double>(s.digits.size());
  return 7 * (q + r) + (d + 2) * (q + p);
}

}  // namespace

Spec make_spec(std::size_t n, int log_q, std::size_t special_count, std::vector<std::uint64_t> plain_moduli, int word_size,
               std::size_t slots, bool insecure) {
  Spec s = exact::make_spec("bfv", n, log_q, special_count, std::move(plain_moduli), word_size, slots, insecure);
  std::vector<u64> taken = s.plain_moduli;
  for (const auto* list : {&s.chain, &s.special}) taken.insert(taken.end(), list->begin(), list->end());
  const int longest = exact::longest_prime(word_size);
  const double need = rlwe::log2_product(s.chain) + log2_largest_of(s.plain_moduli) + std::log2(static_cast<double>(n)) + 2;
  // Primes just below 2^longest have less than a thousandth of a bit less than `longest` bits.
  const auto count = static_cast<std::size_t>(std::ceil(need / (longest - 0.01)));
  s.auxiliary = math::largest_primes(longest, count, 2 * n, taken);
  return s;
}

std::vector<std::string> named_specs() { return exact::named_specs(exact::kBfv); }
Spec named_spec(const std::string& name, bool insecure) { return exact::named_spec(exact::kBfv, name, insecure); }
Spec choose(const Request& request) { return exact::choose(exact::kBfv, request); }

}  // namespace heliograph::bfv

namespace heliograph::exact {

constinit const Family kBfv = {.scheme = "bfv",
                               .make = bfv::make_spec,
                               .missing = bfv::missing,
                               .transforms = bfv::transforms,
                               .named = bfv::named_sets,
                               .rules = bfv::make_rules,
                               .has_factors = false};

}  // namespace heliograph::exact
