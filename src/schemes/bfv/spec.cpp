// Making and choosing parameter sets.
#include <algorithm>
#include <cmath>

#include "heliograph/bfv.h"
#include "math/primes.h"
#include "rlwe/noise.h"
#include "schemes/bfv/spec_text.h"

namespace heliograph::bfv {

namespace {

using math::u64;

/// Longest primes of an edition: products stay below what AVX-512 IFMA (w64) and 32-bit words take.
int longest_prime(const std::string& edition) {
  if (edition == "w64") return 50;
  if (edition == "w32") return 30;
  throw ParameterError("there is no edition \"" + edition + "\"; there are w64 and w32");
}

double log2_largest_of(const std::vector<u64>& values) {
  return std::log2(static_cast<double>(*std::max_element(values.begin(), values.end())));
}

void append(std::vector<u64>& to, const std::vector<u64>& from) { to.insert(to.end(), from.begin(), from.end()); }

struct NamedSet {
  const char* name;
  int log_n, log_q;
  int special64, special32;
  std::vector<u64> plain_moduli;
  bool insecure;
  std::size_t slots;
};

const std::vector<NamedSet>& named_sets() {
  // The "-2020" sets are those of Al Badawi and others, IEEE TPDS 2020, section 5; special primes are ours. hcnn5 is what
  // parameters_for finds for the shipped networks at 128 bits; hcnn11 what it finds for the paper's CIFAR-10 network
  // with 8-bit weights of root mean square 30, with five bits to spare (tests repeat both searches).
  static const std::vector<u64> ten = {2424833, 2654209, 2752513, 3604481, 3735553,
                                       4423681, 4620289, 4816897, 4882433, 5308417};
  static const std::vector<NamedSet> sets = {
      {"hvmul-2020", 15, 600, 4, 5, {2}, false, 0}, {"hcnn5-2020", 14, 330, 2, 3, {5522259017729}, false, 0},
      {"hcnn11-2020", 13, 300, 0, 0, ten, true, 0}, {"hcnn5", 13, 187, 0, 0, {8796092858369}, false, 0},
      {"hcnn11", 13, 210, 0, 0, ten, false, 0},
  };
  return sets;
}

}  // namespace

Spec make_spec(std::size_t n, int log_q, std::size_t special_count, std::vector<std::uint64_t> plain_moduli,
               const std::string& edition, std::size_t slots, bool insecure) {
  if (plain_moduli.empty()) throw ParameterError("a BFV set needs a plaintext modulus");
  const int longest = longest_prime(edition);
  Spec s{.edition = edition, .n = n, .plain_moduli = plain_moduli, .slots = slots, .insecure = insecure};
  std::vector<u64> taken = plain_moduli;
  s.chain = math::prime_chain(n, log_q, longest, taken);
  append(taken, s.chain);
  if (special_count) s.special = math::largest_primes(longest, special_count, 2 * n, taken);
  append(taken, s.special);
  const double need = rlwe::log2_product(s.chain) + log2_largest_of(plain_moduli) + std::log2(static_cast<double>(n)) + 2;
  // Primes just below 2^longest lose less than a thousandth of a bit each.
  const auto count = static_cast<std::size_t>(std::ceil(need / (longest - 0.01)));
  s.auxiliary = math::largest_primes(longest, count, 2 * n, taken);
  for (std::size_t left = s.chain.size(), size = std::max<std::size_t>(1, special_count); left > 0;) {
    s.digits.push_back(std::min(size, left));
    left -= s.digits.back();
  }
  return s;
}

std::vector<std::string> named_specs() {
  std::vector<std::string> names;
  for (const NamedSet& set : named_sets()) names.push_back(set.name);
  return names;
}

Spec named_spec(const std::string& name, bool insecure) {
  const std::size_t slash = name.find('/');
  const std::string base = name.substr(0, slash), edition = slash == std::string::npos ? "w64" : name.substr(slash + 1);
  std::string known;
  for (const NamedSet& set : named_sets()) {
    known += std::string(known.empty() ? "" : ", ") + set.name;
    if (base != set.name) continue;
    if (set.insecure && !insecure) {
      throw SecurityError("\"" + base + "\" is below 128 bits of security; say insecure=True to use it all the same");
    }
    const int special = edition == "w32" ? set.special32 : set.special64;
    Spec s = make_spec(std::size_t{1} << set.log_n, set.log_q, static_cast<std::size_t>(special), set.plain_moduli, edition,
                       set.slots, set.insecure);
    s.name = name;
    return s;
  }
  throw ParameterError("there is no parameter set \"" + name + "\"; there are " + known + " (each also with /w32)");
}

int largest_secure_log_qp(std::size_t n) { return rlwe::largest_secure_log_qp(n); }

std::vector<std::uint64_t> batching_primes(std::size_t n, int bits, std::size_t count) {
  if (bits < 2 || bits > 1200) throw ParameterError("plain_bits must lie between 2 and 1200");
  if (count == 0) count = static_cast<std::size_t>((bits + 58) / 59);
  const int each = std::max((bits + static_cast<int>(count)) / static_cast<int>(count), math::bit_length(2 * n) + 1);
  // The product of `count` primes just below 2^each exceeds 2^bits: each is at least 2^(bits / count).
  for (int length = std::min(each, 60); length <= 60; ++length) {
    try {
      return math::largest_primes(length, count, 2 * n);
    } catch (const ParameterError&) {
      if (length == 60) throw;
    }
  }
  throw ParameterError("plain_bits is too large for that many plaintext primes");
}

namespace {

/// Noise after `depth` levels, each a sum of products, a key switch and a rotation (log2), at the worst plaintext modulus.
double noise_after(const Spec& s, const Request& r) {
  const rlwe::NoiseModel model(s.n);
  const double log_t = log2_largest_of(s.plain_moduli), k = log_t + model.phase_over_modulus();
  std::vector<double> digits;
  std::size_t first = 0;
  for (std::size_t size : s.digits) {
    digits.push_back(rlwe::log2_product(std::vector<u64>(s.chain.begin() + static_cast<std::ptrdiff_t>(first),
                                                         s.chain.begin() + static_cast<std::ptrdiff_t>(first + size))));
    first += size;
  }
  const double key_switch = model.key_switch(digits, rlwe::log2_product(s.special));
  double v = rlwe::log2_sum(model.fresh_public_key(), model.rounding());
  for (int level = 0; level < r.depth; ++level) {
    v = rlwe::log2_sum(v + 1 + k, model.rounding_times_secret(3));  // one product
    v += std::log2(static_cast<double>(r.terms));                   // summed
    v = rlwe::log2_sum(rlwe::log2_sum(v, key_switch), key_switch);  // relinearized, rotated
  }
  return v;
}

/// Cost of a multiplication and relinearization in one-limb transforms times N log N: what the chooser minimises.
double cost_of(const Spec& s) {
  const double q = static_cast<double>(s.chain.size()), r = static_cast<double>(s.auxiliary.size());
  const double p = static_cast<double>(s.special.size()), d = static_cast<double>(s.digits.size());
  const double transforms = 7 * (q + r) + (d + 2) * (q + p);
  return static_cast<double>(s.plain_moduli.size()) * transforms * static_cast<double>(s.n) *
         std::log2(static_cast<double>(s.n));
}

/// The smallest chain of ring degree n for the request with this many special primes, or nothing.
bool fit(std::size_t n, std::size_t special, const std::vector<u64>& plain, const Request& r, Spec& found) {
  const int bound = rlwe::largest_secure_log_qp(n), longest = longest_prime(r.edition);
  const double log_t = log2_largest_of(plain);
  int log_q = 2 * math::bit_length(n) + static_cast<int>(log_t);
  while (log_q + static_cast<int>(special) * longest <= bound) {
    Spec s;
    try {
      s = make_spec(n, log_q, special, plain, r.edition, r.slots);
    } catch (const ParameterError&) {  // no primes of that length: a little longer
      ++log_q;
      continue;
    }
    const double missing = noise_after(s, r) + 1 + log_t - rlwe::log2_product(s.chain);
    if (missing <= 0) {
      found = s;
      return true;
    }
    log_q += std::max(1, static_cast<int>(missing));
  }
  return false;
}

}  // namespace

Spec choose(const Request& r) {
  if (r.depth < 0) throw ParameterError("depth must not be negative");
  if (r.plain_bits <= 0 && r.plain_moduli.empty()) throw ParameterError("say plain_bits or plain_modulus");
  if (r.slots > (std::size_t{1} << 17)) throw ParameterError("there are at most 2^17 slots");
  for (int log_n = 11; log_n <= 17; ++log_n) {
    const std::size_t n = std::size_t{1} << log_n;
    if (n < r.slots) continue;
    Spec best;
    bool any = false;
    const std::size_t fewest = r.plain_moduli.empty() ? static_cast<std::size_t>((r.plain_bits + 58) / 59) : 1;
    for (std::size_t count = fewest; count <= (r.plain_moduli.empty() ? fewest + 2 : fewest); ++count) {
      const std::vector<u64> plain = r.plain_moduli.empty() ? batching_primes(n, r.plain_bits, count) : r.plain_moduli;
      for (std::size_t special = 0; special <= 5; ++special) {
        Spec s;
        if (fit(n, special, plain, r, s) && (!any || cost_of(s) < cost_of(best))) best = s, any = true;
      }
    }
    if (any) return best;
  }
  throw ParameterError(
      "no parameter set of 128 bits has depth " + std::to_string(r.depth) + " with " +
      (r.plain_moduli.empty() ? std::to_string(r.plain_bits) + " plaintext bits" : "that plaintext modulus") +
      ": N would exceed 2^17");
}

}  // namespace heliograph::bfv
