#include "schemes/exact/spec.h"
#include "schemes/word_size.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "math/primes.h"
#include "schemes/exact/rules.h"

namespace heliograph::exact {

using math::u64;

int longest_prime(int word_size) {
  schemes::require_word_size(word_size);
  return word_size == 64 ? 50 : 30;
}

double log2_largest_of(const std::vector<u64>& values) {
  return std::log2(static_cast<double>(*std::max_element(values.begin(), values.end())));
}

namespace {

void require_degree(std::size_t n) {
  require<ParameterError>(std::has_single_bit(n) && n >= 1024 && n <= (std::size_t{1} << 17),
                          "N must be a power of two from 2^10 to 2^17");
}

}  // namespace

Spec make_spec(const std::string& scheme, std::size_t n, int log_q, std::size_t special_count, std::vector<u64> plain_moduli,
               int word_size, std::size_t slots, bool insecure) {
  if (plain_moduli.empty()) throw ParameterError("a set of exact integers needs a plaintext modulus");
  const int longest = longest_prime(word_size);
  require_degree(n);
  require<ParameterError>(special_count <= 64, "special primes must be at most 64");
  Spec s{.scheme = scheme,
         .word_size = word_size,
         .n = n,
         .plain_moduli = std::move(plain_moduli),
         .slots = slots,
         .insecure = insecure};
  std::vector<u64> taken = s.plain_moduli;
  s.chain = math::prime_chain(n, log_q, longest, taken);
  taken.insert(taken.end(), s.chain.begin(), s.chain.end());
  if (special_count) s.special = math::largest_primes(longest, special_count, 2 * n, taken);
  for (std::size_t left = s.chain.size(), size = std::max<std::size_t>(1, special_count); left > 0;) {
    s.digits.push_back(std::min(size, left));
    left -= s.digits.back();
  }
  return s;
}

double key_switch_noise(const Spec& s, std::size_t level, rlwe::NoiseModel::Deviations deviations) {
  return key_switch_noise(rlwe::RingParameters{.n = s.n, .chain = s.chain, .special = s.special, .digits = s.digits}, level,
                          deviations);
}

rlwe::NoiseModel::Deviations deviations_of(const Request& r) {
  if (r.version == kPresentRules) return {};
  if (r.version == kFormerRules) return rlwe::NoiseModel::kFormer;
  throw ParameterError("the version of the rules must be " + std::string(kFormerRules) + " or " + kPresentRules +
                       ", not \"" + r.version + "\"");
}

std::vector<u64> batching_primes(std::size_t n, int bits, std::size_t count) {
  require_degree(n);
  if (bits < 2 || bits > 1200) throw ParameterError("plain_bits must lie between 2 and 1200");
  if (count == 0) count = static_cast<std::size_t>((bits + 58) / 59);
  const int each = std::max((bits + static_cast<int>(count)) / static_cast<int>(count), math::bit_length(2 * n) + 1);
  // Each prime is at least 2^(bits / count), so the product of `count` primes just below 2^each exceeds 2^bits.
  for (int length = std::min(each, 60); length <= 60; ++length) {
    try {
      return math::largest_primes(length, count, 2 * n);
    } catch (const ParameterError&) {
      if (length == 60) throw;
    }
  }
  throw ParameterError("plain_bits is too large for that many plaintext primes");
}

std::vector<std::string> named_specs(const Family& family) {
  std::vector<std::string> names;
  for (const NamedSet& set : family.named()) names.push_back(set.name);
  return names;
}

Spec named_spec(const Family& family, const std::string& name, bool insecure) {
  const std::size_t slash = name.find('/');
  const std::string base = name.substr(0, slash);
  const int word_size = schemes::word_size_of_name(name);
  std::string known;
  for (const NamedSet& set : family.named()) {
    known += std::string(known.empty() ? "" : ", ") + set.name;
    if (base != set.name) continue;
    if (set.insecure && !insecure) {
      throw SecurityError("\"" + base + "\" is below 128 bits of security; pass insecure=True to use it anyway");
    }
    const int special = word_size == 32 ? set.special32 : set.special64;
    Spec s = family.make(std::size_t{1} << set.log_n, set.log_q, static_cast<std::size_t>(special), set.plain_moduli,
                         word_size, set.slots, set.insecure);
    s.name = name;
    return s;
  }
  throw ParameterError("unknown parameter set \"" + name + "\"; the named sets are " + known + " (each also with /w32)");
}

const Family* family_of(const std::string& scheme) {
  for (const Family* f : kFamilies) {
    if (scheme == f->scheme) return f;
  }
  return nullptr;
}

namespace {

/// Returns the cost that the search minimises: the number of transforms times N log N.
double cost_of(const Family& family, const Spec& s) {
  return static_cast<double>(s.plain_moduli.size()) * family.transforms(s) * static_cast<double>(s.n) *
         std::log2(static_cast<double>(s.n));
}

/// Finds the smallest chain of ring degree n for the request with this many special primes; returns false if there is none.
bool fit(const Family& family, std::size_t n, std::size_t special, const std::vector<u64>& plain, const Request& r,
         Spec& found) {
  const int bound = rlwe::largest_secure_log_qp(n), longest = longest_prime(r.word_size);
  int log_q = 2 * math::bit_length(n) + static_cast<int>(log2_largest_of(plain));
  while (log_q + static_cast<int>(special) * longest <= bound) {
    Spec s;
    try {
      s = family.make(n, log_q, special, plain, r.word_size, r.slots, false);
    } catch (const ParameterError&) {  // there are too few primes for log_q bits; try one bit more
      ++log_q;
      continue;
    }
    const double missing = family.missing(s, r);
    if (missing <= 0) {
      found = s;
      return true;
    }
    log_q += std::max(1, static_cast<int>(missing));
  }
  return false;
}

}  // namespace

Spec choose(const Family& family, const Request& r) {
  if (r.depth < 0) throw ParameterError("depth must not be negative");
  if (r.plain_bits <= 0 && r.plain_moduli.empty()) throw ParameterError("give plain_bits or plain_modulus");
  if (r.slots > (std::size_t{1} << 17)) throw ParameterError("slots must be at most 2^17");
  if (r.terms < 1) throw ParameterError("terms must be at least 1");
  deviations_of(r);
  for (int log_n = 11; log_n <= 17; ++log_n) {
    const std::size_t n = std::size_t{1} << log_n;
    if (n < r.slots || r.depth > rlwe::largest_secure_log_qp(n)) continue;  // each level takes at least one bit
    Spec best;
    bool any = false;
    const std::size_t fewest = r.plain_moduli.empty() ? static_cast<std::size_t>((r.plain_bits + 58) / 59) : 1;
    for (std::size_t count = fewest; count <= (r.plain_moduli.empty() ? fewest + 2 : fewest); ++count) {
      const std::vector<u64> plain = r.plain_moduli.empty() ? batching_primes(n, r.plain_bits, count) : r.plain_moduli;
      for (std::size_t special = 0; special <= 5; ++special) {
        Spec s;
        if (fit(family, n, special, plain, r, s) && (!any || cost_of(family, s) < cost_of(family, best)))
          best = s, any = true;
      }
    }
    if (any) {
      best.exact = r.exact.value_or(r.plain_moduli.empty() && r.version != kFormerRules);
      return best;
    }
  }
  throw ParameterError(
      "no parameter set of 128 bits has depth " + std::to_string(r.depth) + " with " +
      (r.plain_moduli.empty() ? std::to_string(r.plain_bits) + " plaintext bits" : "that plaintext modulus") +
      ": N would exceed 2^17");
}

int largest_secure_log_qp(std::size_t n) { return rlwe::largest_secure_log_qp(n); }

}  // namespace heliograph::exact
