// Construction and search of parameter sets.
#include <algorithm>
#include <array>
#include <cmath>

#include "device/view.h"
#include "heliograph/interrupt.h"
#include "math/primes.h"
#include "math/sampler.h"
#include "rlwe/noise.h"
#include "schemes/ckks/spec.h"
#include "schemes/word_size.h"

namespace heliograph::ckks {

using math::u64;

u64 nearest_prime(double target, std::size_t n, int bits, const std::vector<u64>& taken) {
  const u64 step = 2 * n, limit = u64{1} << bits;
  const auto fits = [&](u64 p) {
    return p > step && p < limit && math::is_prime(p) && std::find(taken.begin(), taken.end(), p) == taken.end();
  };
  const u64 middle = static_cast<u64>(target) / step * step + 1;
  for (u64 away = 0; away < limit; away += step) {
    Interruptible::heed();
    if (fits(middle + away)) return middle + away;
    if (away <= middle && fits(middle - away)) return middle - away;
  }
  throw ParameterError("too few primes have " + std::to_string(bits) + " bits for this set");
}

double log2_of_largest_digit(const Spec& s) {
  double largest = 0;
  for (std::size_t at = 0, j = 0; j < s.digits.size(); at += s.digits[j++]) {
    const auto begin = s.chain.begin() + static_cast<std::ptrdiff_t>(at);
    largest = std::max(largest, rlwe::log2_product({begin, begin + static_cast<std::ptrdiff_t>(s.digits[j])}));
  }
  return largest;
}

namespace {

/// Makes digits of `size` primes each, the first one of `first` primes. Returns the log2 that the product P of the
/// special primes needs: that of the largest digit (`digit`) plus a surplus (`room`). With the surplus, the noise of the
/// products with the key, sigma sqrt(1.5 digits) digit / P (rlwe::NoiseModel), is at most the rounding error.
struct Needs {
  double digit, room;
};
Needs set_digits(Spec& s, std::size_t first, std::size_t size) {
  s.digits.clear();
  for (std::size_t at = 0; at < s.chain.size(); at += s.digits.back())
    s.digits.push_back(std::min(at == 0 ? first : size, s.chain.size() - at));
  return {log2_of_largest_digit(s), std::log2(math::kSigma) + std::log2(1.5 * static_cast<double>(s.digits.size())) / 2};
}

}  // namespace

void finish_gadget(Spec& s, std::size_t first, std::size_t special, int longest) {
  const auto most = static_cast<double>(special) * longest;
  std::size_t size = special;
  for (; size < s.chain.size(); ++size) {  // larger digits, in primes, if the chain's primes are shorter
    const Needs more = set_digits(s, std::max(first, size + 1), size + 1);
    if (more.digit + more.room > most) break;
  }
  set_digits(s, std::max(first, size), size);
  for (const std::size_t count = s.digits.size(); size > special; --size) {  // smaller digits, if their number stays the
                                                                             // same
    set_digits(s, std::max(first, size - 1), size - 1);
    if (s.digits.size() > count) break;
  }
  const Needs needs = set_digits(s, std::max(first, size), size);
  require<ParameterError>(needs.digit < most + 1, "too few special primes for the largest digit");
  const int bits = static_cast<int>(std::ceil((needs.digit + needs.room) / static_cast<double>(special)));
  s.special = math::largest_primes(std::min(bits, longest), special, 2 * s.n, s.chain);
}

void add_levels(Spec& s, std::size_t levels, int longest) {
  const std::size_t bases = s.chain.size();
  const double fresh = fresh_scale(s.log_scale);
  double scale = fresh;
  std::vector<u64> upper, taken = s.chain;  // from the top level down
  for (std::size_t level = levels; level > 1; --level) {
    upper.push_back(nearest_prime(scale * scale / fresh, s.n, longest, taken));
    taken.push_back(upper.back());
    scale = scale * scale / static_cast<double>(upper.back());
  }
  s.chain.insert(s.chain.end(), upper.rbegin(), upper.rend());
  for (std::size_t level = 1; level <= levels; ++level) {
    s.levels.emplace_back();
    for (std::size_t p = 0; p < level - 1 + bases; ++p) s.levels.back().push_back(static_cast<std::uint16_t>(p));
  }
}

namespace {

Spec spec_of_long_words(std::size_t n, std::size_t levels, double log_scale, int base_bits, std::size_t special_count) {
  require<ParameterError>(log_scale >= 30 && log_scale <= 49.8, "log_scale must be 30 to 49.8 with 64-bit words");
  require<ParameterError>(base_bits > log_scale && base_bits <= 2 * kLongest64,
                          "base_bits must be above log_scale and at most 100");
  Spec s{.n = n, .log_scale = log_scale};
  const std::size_t bases = base_bits > kLongest64 ? 2 : 1;
  s.chain = math::largest_primes(bases == 1 ? base_bits : std::max((base_bits + 1) / 2, 31), bases, 2 * n);
  add_levels(s, levels, kLongest64);
  if (bases == 1) s.levels.clear();  // one prime per level is the default
  finish_gadget(s, 1, special_count, kLongest64);
  return s;
}

/// A named set in both word sizes. A level with 32-bit words has one prime of its scale, or rational rescaling by about
/// two primes.
struct NamedSet {
  struct Chain {
    std::size_t levels;
    double log_scale;
    int base_bits;
    std::size_t special;
  };
  const char* name;
  int log_n;
  Chain w64, w32;
};

const std::vector<NamedSet>& named_sets() {
  // In a name, the number after "l" is the number of primes of w64's top level.
  static const std::vector<NamedSet> sets = {
      {"n13-l4", 13, {4, 36, 46, 1}, {4, 29.5, 54, 2}},      {"n14-l8", 14, {8, 38, 48, 2}, {8, 29.5, 54, 5}},
      {"n15-l20", 15, {20, 31.5, 38, 5}, {20, 29.5, 54, 8}}, {"n16-l24", 16, {23, 49.7, 99, 8}, {23, 49.7, 99, 15}},
      {"n16-l28", 16, {27, 49.7, 99, 7}, {27, 49.7, 99, 8}}, {"n16-l41", 16, {41, 30, 43, 10}, {41, 29.5, 59, 14}},
  };
  return sets;
}

}  // namespace

Spec make_spec(std::size_t n, std::size_t levels, double log_scale, int base_bits, std::size_t special_count, int word_size,
               std::size_t slots, bool insecure) {
  require<ParameterError>(std::has_single_bit(n) && n >= 1024 && n <= (1 << 17),
                          "N must be a power of two from 2^10 to 2^17");
  require<ParameterError>(levels >= 1 && levels <= 100, "levels must be 1 to 100");
  require<ParameterError>(special_count >= 1 && special_count <= 64, "special primes must be 1 to 64");
  schemes::require_word_size(word_size);
  Spec s = word_size == 64 ? spec_of_long_words(n, levels, log_scale, base_bits, special_count)
                           : spec_of_short_words(n, levels, log_scale, base_bits, special_count);
  s.word_size = word_size, s.slots = slots, s.insecure = insecure;
  return s;
}

std::vector<std::string> named_specs() {
  std::vector<std::string> names;
  for (const NamedSet& set : named_sets()) names.push_back(set.name);
  for (const std::string& name : named_bootstrapping_specs()) names.push_back(name);
  return names;
}

Spec named_spec(const std::string& name, bool insecure) {
  const std::size_t slash = name.find('/');
  const std::string base = name.substr(0, slash);
  const int word_size = schemes::word_size_of_name(name);
  std::string known;
  for (const NamedSet& set : named_sets()) {
    known += std::string(known.empty() ? "" : ", ") + set.name;
    if (base != set.name) continue;
    const NamedSet::Chain& c = word_size == 32 ? set.w32 : set.w64;
    Spec s = make_spec(std::size_t{1} << set.log_n, c.levels, c.log_scale, c.base_bits, c.special, word_size, 0, insecure);
    s.name = name;
    return s;
  }
  if (std::optional<Spec> s = named_bootstrapping_spec(name, insecure)) return *s;
  for (const std::string& other : named_bootstrapping_specs()) known += ", " + other;
  throw ParameterError("unknown parameter set \"" + name + "\"; the named sets are " + known +
                       " (those with an l also with /w32)");
}

std::string known_name(const Spec& spec) {
  const std::size_t levels = spec.levels.empty() ? spec.chain.size() : spec.levels.size();
  if (spec.bootstrapping.levels > 0) return known_bootstrapping_name(spec);
  for (const NamedSet& set : named_sets()) {
    if (std::size_t{1} << set.log_n != spec.n || (spec.word_size == 32 ? set.w32 : set.w64).levels != levels) continue;
    const std::string name = std::string(set.name) + (spec.word_size == 32 ? "/w32" : "");
    if (hash_of(named_spec(name)) == hash_of(spec)) return name;
  }
  return "";
}

namespace {

/// Returns the noise (log2, absolute) of a fresh encryption, a rescaling and a key switch together.
double noise_of_one(std::size_t n) {
  const rlwe::NoiseModel model(n, rlwe::NoiseModel::Spoils::values,
                               rlwe::NoiseModel::kFormer);  // former rules, so that existing sets do not change
  return rlwe::log2_sum(rlwe::log2_sum(model.fresh_secret_key(), model.rounding_times_secret(2)),
                        model.rounding_times_secret(2));
}

// Limits on the room, in bits: the largest room; the room above which switching keys may grow by at most a quarter; the
// room from which no prime is added.
constexpr int kMostRoom = 41, kGoodRoom = 30, kEnoughRoom = 26;
constexpr int kLeastIntegerBits = 10;     // default of a request
constexpr int kPrecisionOfOnePrime = 22;  // sets with less precision have one short prime at the lowest level

bool is_secure(const Spec& s) {
  return rlwe::log2_product(s.chain) + rlwe::log2_product(s.special) <= rlwe::largest_secure_log_qp(s.n);
}

/// Returns log2 of the scale that a request needs at a degree; nullopt if its word size has no such scale.
std::optional<double> scale_for(std::size_t n, const Request& r) {
  double log_scale = r.precision + noise_of_one(n);
  if (r.word_size == 64) {
    log_scale = std::max(log_scale, 30.0);
  } else if (log_scale > 29.8) {
    log_scale = std::max(log_scale, 48.0);
  }
  if (log_scale > (r.word_size == 64 ? 49.8 : 53.0)) return {};
  return log_scale;
}

/// Returns the set of a request with this room and these special primes; nullopt if it is impossible or insecure.
std::optional<Spec> with_special(std::size_t n, const Request& r, double log_scale, int integer_bits, std::size_t special) {
  // One bit is for the sign; a quarter bit is the margin of Context::largest_bound.
  const int base = static_cast<int>(std::ceil(log_scale + 1.3)) + integer_bits;
  const auto levels = static_cast<std::size_t>(r.depth) + 1;
  try {
    Spec s = make_spec(n, levels, log_scale, base, special, r.word_size, r.slots);
    if (s.chain.size() + special > device::kMaxLimbs || special > s.chain.size() || !is_secure(s)) return {};
    return s;
  } catch (const ParameterError&) {  // the special primes are too few or too many for the digits
    return {};
  }
}

/// Returns the secure set of degree n with the fewest digits; nullopt if there is none.
std::optional<Spec> fit(std::size_t n, const Request& r, int integer_bits) {
  const std::optional<double> log_scale = scale_for(n, r);
  if (!log_scale) return {};
  const int base = static_cast<int>(std::ceil(*log_scale + 1.3)) + integer_bits;
  if (base + *log_scale * r.depth > rlwe::largest_secure_log_qp(n)) return {};
  // More special primes give fewer digits. Among equal digits, take the fewest special primes.
  std::optional<Spec> found;
  const auto levels = static_cast<std::size_t>(r.depth) + 1;
  for (std::size_t special = std::min<std::size_t>(64, 2 * levels + 8); special >= 1; --special) {
    const std::optional<Spec> s = with_special(n, r, *log_scale, integer_bits, special);
    if (!s) continue;
    if (found && s->digits.size() > found->digits.size()) break;
    found = s;
  }
  return found;
}

/// Returns whether each level of `a` has at most `more` primes more than the same level of `b`.
bool is_as_short(const Spec& a, const Spec& b, std::size_t more) {
  const std::size_t count = level_count(a);
  if (a.chain.size() > b.chain.size() + more || count != level_count(b)) return false;
  const auto limbs = [](const Spec& s, std::size_t level) { return s.levels.empty() ? level : s.levels[level - 1].size(); };
  for (std::size_t level = 1; level <= count; ++level) {
    if (limbs(a, level) > limbs(b, level) + more) return false;
  }
  return true;
}

/// Returns the number of limbs of a switching key, which is proportional to the time of a key switch.
std::size_t key_limbs(const Spec& s) { return s.digits.size() * (s.chain.size() + s.special.size()); }

/// Allowed cost of a larger room: none; larger switching keys (other digits and special primes); or these and one more
/// prime per level.
enum class Price { nothing, keys, prime };

/// Returns the set for `integer_bits` at a price, with the smallest switching keys; nullopt if no such set has a larger
/// room than `s`.
std::optional<Spec> with_room(const Spec& s, const Request& r, int integer_bits, Price price) {
  const bool free = price == Price::nothing;
  std::optional<Spec> best;
  for (std::size_t special = free ? s.special.size() : 1; special <= s.special.size() + (free ? 0 : 1); ++special) {
    const std::optional<Spec> wide = with_special(s.n, r, s.log_scale, integer_bits, special);
    if (!wide || !is_as_short(*wide, s, price == Price::prime ? 1 : 0)) continue;
    if (free && wide->digits.size() != s.digits.size()) continue;
    if (const double room = log2_room(*wide); room >= kMostRoom + 1 || room <= log2_room(s)) continue;
    if (!best || key_limbs(*wide) < key_limbs(*best)) best = wide;
  }
  return best;
}

/// Returns the set with the largest room up to 2^kMostRoom, or `s`. If `price` permits larger keys, a room above
/// 2^kGoodRoom enlarges them by at most a quarter.
Spec widened(const Spec& s, const Request& r, Price price) {
  const std::optional<Spec> good = price != Price::nothing ? with_room(s, r, kGoodRoom, price) : std::nullopt;
  for (int bits = kMostRoom; bits > log2_room(s); --bits) {
    if (good && bits == kGoodRoom) return *good;
    const std::optional<Spec> wide = with_room(s, r, bits, price);
    if (wide && (!good || 4 * key_limbs(*wide) <= 5 * key_limbs(*good))) return *wide;
  }
  return s;
}

}  // namespace

Spec choose(const Request& r) {
  require<ParameterError>(r.depth >= 0 && r.depth < 100, "depth must be 0 to 99");
  require<ParameterError>(r.precision >= 1 && r.precision <= 40, "precision must be 1 to 40 bits");
  require_bound(r.bound);
  const int bits_of_bound = r.bound > 0 ? static_cast<int>(std::ceil(std::log2(r.bound))) : 0;
  const int integer_bits = r.integer_bits.value_or(std::max(kLeastIntegerBits, bits_of_bound));
  if (!r.integer_bits && integer_bits > 40)
    throw ParameterError("a bound of " + short_number(r.bound) + " on inputs exceeds 2^40, the largest room of a request");
  require<ParameterError>(integer_bits >= 0 && integer_bits <= 40, "integer_bits must be 0 to 40");
  require<ParameterError>(r.slots <= (1 << 16), "slots must be at most 2^16");
  schemes::require_word_size(r.word_size);
  if (!r.version.empty() && r.version != "0.2" && r.version != "0.3")
    throw ParameterError("unknown version \"" + r.version + "\": it must be 0.2 or 0.3");
  for (int log_n = 11; log_n <= 17; ++log_n) {
    const std::size_t n = std::size_t{1} << log_n;
    if (n / 2 < r.slots) continue;
    std::optional<Spec> s = fit(n, r, integer_bits);
    if (!s) continue;
    if (r.version != "0.2") {
      s = widened(*s, r, Price::nothing);
      const bool short_prime = r.precision < kPrecisionOfOnePrime;
      if (!r.integer_bits && log2_room(*s) < (short_prime ? kEnoughRoom : kGoodRoom))
        s = widened(*s, r, short_prime ? Price::prime : Price::keys);
    }
    s->repeat = r.repeat, s->bound = r.bound;
    return *s;
  }
  throw ParameterError("no parameter set of 128 bits has depth " + std::to_string(r.depth) + " with " +
                       std::to_string(r.precision) + " bits of precision: N would exceed 2^17, or the scale its words");
}

}  // namespace heliograph::ckks
