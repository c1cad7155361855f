// Parameter sets with bootstrapping: its levels above those of ciphertexts.
#include <algorithm>
#include <array>
#include <cmath>

#include "math/primes.h"
#include "math/sampler.h"
#include "rlwe/noise.h"
#include "schemes/ckks/spec.h"

namespace heliograph::ckks {

namespace {

using math::u64;

/// A set with bootstrapping; the number after "b" counts the levels that it leaves.
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

std::string edition_of(const std::string& name) { return name.ends_with("/w32") ? "w32" : "w64"; }

/// What bootstrapping's own levels are made of.
enum class Form { of_one, in_pairs, of_short };  // a prime below 2^50; or two shorter ones; two or three below 2^30
Form form_of(const Bootstrapping& b) {
  return b.log_scale > kLongest64 ? Form::of_short : b.log_scale > kLongest64 - 4 ? Form::in_pairs : Form::of_one;
}

/// Bits by which scales are longer than bootstrapping's own, from the highest level. It begins with a square near 0, whose
/// rounding counts for most (its derivative is small), and with squares of that: there scales are some bits longer, which they become
/// by themselves, from level to level; and levels are longer that bring them back.
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

/// Primes whose product is near `wanted`, as few as can be.
std::vector<u64> primes_of_level(const Spec& s, double wanted, const std::vector<u64>& taken) {
  if (s.edition == "w32") {
    const auto count = static_cast<std::size_t>(std::ceil(std::log2(wanted) / kLongest32));
    return short_primes_near(wanted, count, s.n, taken);
  }
  if (wanted <= 0x1p50) return {nearest_prime(wanted, s.n, kLongest64, taken)};
  std::vector<u64> pair = {nearest_prime(std::sqrt(wanted), s.n, kLongest64, taken)}, others = taken;
  others.push_back(pair[0]);
  pair.push_back(nearest_prime(wanted / static_cast<double>(pair[0]), s.n, kLongest64, others));
  return pair;
}

/// The levels of bootstrapping, from the top: of its matrices, then of the sine.
void add_sine_levels(Spec& s) {
  const Longer bits = longer(s.bootstrapping);
  const auto target = [&](std::size_t down) { return fresh_scale(s.bootstrapping.log_scale + bits[down]); };
  std::vector<std::vector<u64>> upper;  // the top level's first
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

/// Digits of at most `most` bits, as full as they go.
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
  require<ParameterError>(std::has_single_bit(s.n) && s.n >= 2048 && s.n <= (1 << 17), "N is a power of two, 2^11 to 2^17");
  require<ParameterError>(depth >= 1 && depth <= 60, "bootstrapping leaves 1 to 60 levels");
  require<ParameterError>(b.entry >= 2 && b.entry <= 5, "values become coefficients in 2 to 5 levels");
  if (s.edition == "w32") {
    require<ParameterError>(b.log_scale >= 56 && b.log_scale <= 59.5,
                            "bootstrapping's own scales have 56 to 59.5 bits in edition w32");
    require<ParameterError>((s.log_scale >= 25 && s.log_scale <= 29.8) || (s.log_scale >= 43 && s.log_scale <= 53),
                            "scales with bootstrapping have 25 to 29.8 bits in edition w32, or 43 to 53");
    return;
  }
  require<ParameterError>(s.edition == "w64", "there are editions w64 and w32");
  require<ParameterError>(b.log_scale <= kLongest64 - 4 || (b.log_scale >= 49.5 && b.log_scale <= 49.9),
                          "bootstrapping's own scales have 46 bits at most, or 49.5 to 49.9");
  require<ParameterError>(s.log_scale >= 30 && s.log_scale <= b.log_scale - 2.5,
                          "scales with bootstrapping have 30 bits or more, and 2.5 less than its own");
}

}  // namespace

double top_log_scale(const Bootstrapping& b) { return b.log_scale + longer(b)[0]; }

Spec make_bootstrapping_spec(std::size_t n, std::size_t depth, double log_scale, double log_top, std::size_t entry,
                             const std::string& edition, bool insecure, bool corrected) {
  const std::size_t corrections = corrected ? kCorrectionLevels : 0, levels = 1 + entry + depth + corrections;
  Spec s{.edition = edition,
         .n = n,
         .log_scale = log_scale,
         .bootstrapping = {kCoefficientsToSlots + kSineLevels + corrections, log_top, entry}};
  check(s, depth);
  const int longest = edition == "w32" ? kLongest32 : kLongest64;
  if (edition == "w32") {
    add_short_levels(s, levels, log_top);
  } else {
    s.chain = {nearest_prime(std::exp2(log_top), n, longest, {})};
    add_levels(s, levels, longest);
  }
  add_sine_levels(s);
  s.insecure = insecure;
  const double log_q = rlwe::log2_product(s.chain), room = rlwe::largest_secure_log_qp(n) - log_q;
  // What a digit's product adds stays below the rounding: see finish_gadget.
  const double slack = std::log2(math::kSigma) + 1.5;
  std::optional<Spec> best;
  for (std::size_t special = 3;
       special < s.chain.size() && (insecure || static_cast<double>(special) * 0.6 * longest < room); ++special) {
    fill_digits(s, static_cast<double>(special) * (longest - (edition == "w32" ? 0.05 : 0.01)) - slack);
    const int bits = static_cast<int>(std::ceil((log2_of_largest_digit(s) + slack) / static_cast<double>(special)));
    s.special = math::largest_primes(std::min(bits, longest), special, 2 * n, s.chain);
    if (!insecure && rlwe::log2_product(s.special) > room) break;
    if (!best || s.digits.size() < best->digits.size()) best = s;
    if (s.digits.size() <= 3 && insecure) break;
  }
  require<ParameterError>(best.has_value(), "no 128-bit set leaves so many levels: fewer, or a larger N");
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
                                     edition_of(name), insecure, set.corrected);
    s.name = name;
    return s;
  }
  return {};
}

std::string known_bootstrapping_name(const Spec& spec) {
  for (const NamedBootstrapping& set : bootstrapping_sets()) {
    if (std::size_t{1} << set.log_n == spec.n && edition_of(set.name) == spec.edition &&
        hash_of(*named_bootstrapping_spec(set.name)) == hash_of(spec))
      return set.name;
  }
  return "";
}

}  // namespace heliograph::ckks
