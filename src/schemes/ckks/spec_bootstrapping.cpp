// Parameter sets with bootstrapping, whose levels are above those of ciphertexts.
#include <algorithm>
#include <array>
#include <cmath>

#include "math/primes.h"
#include "math/sampler.h"
#include "rlwe/noise.h"
#include "schemes/ckks/spec.h"
#include "schemes/word_size.h"

namespace heliograph::ckks {

namespace {

using math::u64;

/// A set with bootstrapping. In its name, the number after "b" is the number of levels that bootstrapping leaves.
struct NamedBootstrapping {
  const char* name;
  int log_n;
  std::size_t depth;
  double log_scale, log_top;
  std::size_t entry;
  bool corrected = false;
};

const std::vector<NamedBootstrapping>& bootstrapping_sets() {
  static const std::vector<NamedBootstrapping> sets = {
      {"n15-b4", 15, 4, 35, 45, 2},           {"n16-b9", 16, 9, 39, 49.9, 3},
      {"n16-b10-h", 16, 10, 47, 49.9, 3},     {"n16-b13", 16, 13, 39, 49.9, 3},
      {"n16-b18", 16, 18, 39, 49.9, 3},       {"n16-b11-c", 16, 11, 39, 49.9, 3, true},
      {"n16-b11/w32", 16, 11, 44.8, 59.2, 3}, {"n16-b13/w32", 16, 13, 29.5, 59.2, 3},
  };
  return sets;
}

/// Primes of one of bootstrapping's own levels.
enum class Form { of_one, in_pairs, of_short };  // one prime below 2^50; two shorter primes; two or three primes below 2^30
Form form_of(const Bootstrapping& b) {
  return b.log_scale > kLongest64 ? Form::of_short : b.log_scale > kLongest64 - 4 ? Form::in_pairs : Form::of_one;
}

/// Bits by which scales exceed bootstrapping's nominal scale, from the highest level down. The sine begins with squares
/// near 0, where its derivative is small and rounding matters most, so scales there are a few bits longer. The excess
/// doubles at each level; levels with longer primes reduce it again.
using Longer = std::array<double, kCoefficientsToSlots + kSineLevels + 1>;
Longer longer(const Bootstrapping& b) {
  constexpr double first = 0.7125;
  switch (form_of(b)) {
    case Form::of_one:
      return {first / 2, 0.7125, 1.425, 2.85, 1, 0, 0, 0, 0, 0, 0};
    case Form::in_pairs:
      return {first, 1.425, 2.85, 5.7, 4, 1, 2, 4, 1.5, 3, 6};
    default:
      return {0.5, 1, 2, 4, 8, 0, 0, 0, 0, 0, 0};
  }
}

/// Returns the fewest primes whose product is near `wanted`.
std::vector<u64> primes_of_level(const Spec& s, double wanted, const std::vector<u64>& taken) {
  if (s.word_size == 32) {
    const auto count = static_cast<std::size_t>(std::ceil(std::log2(wanted) / kLongest32));
    return short_primes_near(wanted, count, s.n, taken);
  }
  if (wanted <= 0x1p50) return {nearest_prime(wanted, s.n, kLongest64, taken)};
  std::vector<u64> pair = {nearest_prime(std::sqrt(wanted), s.n, kLongest64, taken)}, others = taken;
  others.push_back(pair[0]);
  pair.push_back(nearest_prime(wanted / static_cast<double>(pair[0]), s.n, kLongest64, others));
  return pair;
}

/// Adds the levels of bootstrapping, from the top: first those of its matrices, then those of the sine.
void add_sine_levels(Spec& s) {
  const Longer bits = longer(s.bootstrapping);
  const auto target = [&](std::size_t down) { return fresh_scale(s.bootstrapping.log_scale + bits[down]); };
  std::vector<std::vector<u64>> upper;  // primes of each added level, from the top level down
  std::vector<u64> taken = s.chain;
  double scale = target(0);
  for (std::size_t down = 1; down < bits.size(); ++down) {
    upper.push_back(primes_of_level(s, scale * scale / target(down), taken));
    double ratio = 1;
    for (const u64 q : upper.back()) taken.push_back(q), ratio *= static_cast<double>(q);
    scale = scale * scale / ratio;
  }
  for (auto level = upper.rbegin(); level != upper.rend(); ++level) {
    s.levels.push_back(s.levels.back());
    for (const u64 q : *level) {
      s.levels.back().push_back(static_cast<std::uint16_t>(s.chain.size()));
      s.chain.push_back(q);
    }
  }
}

/// Fills digits of at most `most` bits greedily.
void fill_digits(Spec& s, double most) {
  s.digits.clear();
  double bits = most;
  for (const u64 q : s.chain) {
    const double more = std::log2(static_cast<double>(q));
    if (bits + more > most) s.digits.push_back(0), bits = 0;
    ++s.digits.back(), bits += more;
  }
}

void check(const Spec& s, std::size_t depth) {
  const Bootstrapping& b = s.bootstrapping;
  require<ParameterError>(std::has_single_bit(s.n) && s.n >= 2048 && s.n <= (1 << 17),
                          "N must be a power of two from 2^11 to 2^17");
  require<ParameterError>(depth >= 1 && depth <= 60, "depth must be 1 to 60 with bootstrapping");
  require<ParameterError>(b.entry >= 2 && b.entry <= 5, "entry must be 2 to 5");
  if (s.word_size == 32) {
    require<ParameterError>(b.log_scale >= 56 && b.log_scale <= 59.5, "log_top must be 56 to 59.5 with 32-bit words");
    require<ParameterError>((s.log_scale >= 25 && s.log_scale <= 29.8) || (s.log_scale >= 43 && s.log_scale <= 53),
                            "log_scale with bootstrapping must be 25 to 29.8 or 43 to 53 with 32-bit words");
    return;
  }
  schemes::require_word_size(s.word_size);
  require<ParameterError>(b.log_scale <= kLongest64 - 4 || (b.log_scale >= 49.5 && b.log_scale <= 49.9),
                          "log_top must be at most 46, or 49.5 to 49.9");
  require<ParameterError>(s.log_scale >= 30 && s.log_scale <= b.log_scale - 2.5,
                          "log_scale with bootstrapping must be at least 30 and at most log_top - 2.5");
}

}  // namespace

double top_log_scale(const Bootstrapping& b) { return b.log_scale + longer(b)[0]; }

Spec make_bootstrapping_spec(std::size_t n, std::size_t depth, double log_scale, double log_top, std::size_t entry,
                             int word_size, bool insecure, bool corrected) {
  const std::size_t corrections = corrected ? kCorrectionLevels : 0, levels = 1 + entry + depth + corrections;
  Spec s{.word_size = word_size,
         .n = n,
         .log_scale = log_scale,
         .bootstrapping = {kCoefficientsToSlots + kSineLevels + corrections, log_top, entry}};
  check(s, depth);
  const int longest = word_size == 32 ? kLongest32 : kLongest64;
  if (word_size == 32) {
    add_short_levels(s, levels, log_top);
  } else {
    s.chain = {nearest_prime(std::exp2(log_top), n, longest, {})};
    add_levels(s, levels, longest);
  }
  add_sine_levels(s);
  s.insecure = insecure;
  const double log_q = rlwe::log2_product(s.chain), room = rlwe::largest_secure_log_qp(n) - log_q;
  // A digit's product noise stays below the rounding (see finish_gadget).
  const double slack = std::log2(math::kSigma) + 1.5;
  std::optional<Spec> best;
  for (std::size_t special = 3;
       special < s.chain.size() && (insecure || static_cast<double>(special) * 0.6 * longest < room); ++special) {
    fill_digits(s, static_cast<double>(special) * (longest - (word_size == 32 ? 0.05 : 0.01)) - slack);
    const int bits = static_cast<int>(std::ceil((log2_of_largest_digit(s) + slack) / static_cast<double>(special)));
    s.special = math::largest_primes(std::min(bits, longest), special, 2 * n, s.chain);
    if (!insecure && rlwe::log2_product(s.special) > room) break;
    if (!best || s.digits.size() < best->digits.size()) best = s;
    if (s.digits.size() <= 3 && insecure) break;
  }
  require<ParameterError>(best.has_value(), "no 128-bit set leaves that many levels; use a smaller depth or a larger N");
  return *best;
}

std::vector<std::string> named_bootstrapping_specs() {
  std::vector<std::string> names;
  for (const NamedBootstrapping& set : bootstrapping_sets()) names.push_back(set.name);
  return names;
}

std::optional<Spec> named_bootstrapping_spec(const std::string& name, bool insecure) {
  for (const NamedBootstrapping& set : bootstrapping_sets()) {
    if (name != set.name) continue;
    Spec s = make_bootstrapping_spec(std::size_t{1} << set.log_n, set.depth, set.log_scale, set.log_top, set.entry,
                                     schemes::word_size_of_name(name), insecure, set.corrected);
    s.name = name;
    return s;
  }
  return {};
}

std::string known_bootstrapping_name(const Spec& spec) {
  for (const NamedBootstrapping& set : bootstrapping_sets()) {
    if (std::size_t{1} << set.log_n == spec.n && schemes::word_size_of_name(set.name) == spec.word_size &&
        hash_of(*named_bootstrapping_spec(set.name)) == hash_of(spec))
      return set.name;
  }
  return "";
}

}  // namespace heliograph::ckks
