// Making and choosing parameter sets.
#include <algorithm>
#include <array>
#include <cmath>

#include "device/view.h"
#include "heliograph/interrupt.h"
#include "math/primes.h"
#include "math/sampler.h"
#include "rlwe/noise.h"
#include "schemes/ckks/spec.h"

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
  throw ParameterError("there are too few primes of " + std::to_string(bits) + " bits for this set");
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

/// Digits of `size` primes, the first of `first`. What special primes are to hold, log2: the largest digit; and so much more that its
/// product's noise is no more than the rounding's, by rlwe::NoiseModel: sigma sqrt(1.5 digits) P^-1 digit.
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
  for (; size < s.chain.size(); ++size) {  // more where the chain's primes are shorter
    const Needs more = set_digits(s, std::max(first, size + 1), size + 1);
    if (more.digit + more.room > most) break;
  }
  set_digits(s, std::max(first, size), size);
  for (const std::size_t count = s.digits.size(); size > special; --size) {  // no more than as many digits take
    set_digits(s, std::max(first, size - 1), size - 1);
    if (s.digits.size() > count) break;
  }
  const Needs needs = set_digits(s, std::max(first, size), size);
  require<ParameterError>(needs.digit < most + 1, "the special primes are fewer than a digit needs");
  const int bits = static_cast<int>(std::ceil((needs.digit + needs.room) / static_cast<double>(special)));
  s.special = math::largest_primes(std::min(bits, longest), special, 2 * s.n, s.chain);
}

void add_levels(Spec& s, std::size_t levels, int longest) {
  const std::size_t bases = s.chain.size();
  const double fresh = fresh_scale(s.log_scale);
  double scale = fresh;
  std::vector<u64> upper, taken = s.chain;  // the top level's first
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
  require<ParameterError>(log_scale >= 30 && log_scale <= 49.8, "a scale of edition w64 has 30 to 49.8 bits");
  require<ParameterError>(base_bits > log_scale && base_bits <= 2 * kLongest64,
                          "the lowest level has more bits than the scale, and 100 at most");
  Spec s{.n = n, .log_scale = log_scale};
  const std::size_t bases = base_bits > kLongest64 ? 2 : 1;
  s.chain = math::largest_primes(bases == 1 ? base_bits : std::max((base_bits + 1) / 2, 31), bases, 2 * n);
  add_levels(s, levels, kLongest64);
  if (bases == 1) s.levels.clear();  // a prime a level goes without saying
  finish_gadget(s, 1, special_count, kLongest64);
  return s;
}

/// A set in both editions; a w32 level is one prime or two and less.
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
  // The number after "l" counts the primes of w64's top level.
  static const std::vector<NamedSet> sets = {
      {"n13-l4", 13, {4, 36, 46, 1}, {4, 29.5, 54, 2}},      {"n14-l8", 14, {8, 38, 48, 2}, {8, 29.5, 54, 5}},
      {"n15-l20", 15, {20, 31.5, 38, 5}, {20, 29.5, 54, 8}}, {"n16-l24", 16, {23, 49.7, 99, 8}, {23, 49.7, 99, 15}},
      {"n16-l28", 16, {27, 49.7, 99, 7}, {27, 49.7, 99, 8}},
  };
  return sets;
}

}  // namespace

Spec make_spec(std::size_t n, std::size_t levels, double log_scale, int base_bits, std::size_t special_count,
               const std::string& edition, std::size_t slots, bool insecure) {
  require<ParameterError>(std::has_single_bit(n) && n >= 1024 && n <= (1 << 17), "N is a power of two, 2^10 to 2^17");
  require<ParameterError>(levels >= 1 && levels <= 100, "a set has 1 to 100 levels");
  require<ParameterError>(special_count >= 1 && special_count <= 64, "a set has 1 to 64 special primes");
  if (edition != "w64" && edition != "w32")
    throw ParameterError("there is no edition \"" + edition + "\"; there are w64 and w32");
  Spec s = edition == "w64" ? spec_of_long_words(n, levels, log_scale, base_bits, special_count)
                            : spec_of_short_words(n, levels, log_scale, base_bits, special_count);
  s.edition = edition, s.slots = slots, s.insecure = insecure;
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
  const std::string base = name.substr(0, slash), edition = slash == std::string::npos ? "w64" : name.substr(slash + 1);
  std::string known;
  for (const NamedSet& set : named_sets()) {
    known += std::string(known.empty() ? "" : ", ") + set.name;
    if (base != set.name) continue;
    const NamedSet::Chain& c = edition == "w32" ? set.w32 : set.w64;
    Spec s = make_spec(std::size_t{1} << set.log_n, c.levels, c.log_scale, c.base_bits, c.special, edition, 0, insecure);
    s.name = name;
    return s;
  }
  if (std::optional<Spec> s = named_bootstrapping_spec(name, insecure)) return *s;
  for (const std::string& other : named_bootstrapping_specs()) known += ", " + other;
  throw ParameterError("there is no parameter set \"" + name + "\"; there are " + known +
                       " (each with an l also with /w32)");
}

std::string known_name(const Spec& spec) {
  const std::size_t levels = spec.levels.empty() ? spec.chain.size() : spec.levels.size();
  if (spec.bootstrapping.levels > 0) return known_bootstrapping_name(spec);
  for (const NamedSet& set : named_sets()) {
    if (std::size_t{1} << set.log_n != spec.n || (spec.edition == "w32" ? set.w32 : set.w64).levels != levels) continue;
    const std::string name = std::string(set.name) + (spec.edition == "w32" ? "/w32" : "");
    if (hash_of(named_spec(name)) == hash_of(spec)) return name;
  }
  return "";
}

namespace {

/// Noise of one operation at most: an encryption, a rescaling, a key switch. Absolute, log2.
double noise_of_one(std::size_t n) {
  const rlwe::NoiseModel model(n, rlwe::NoiseModel::Spoils::values, rlwe::NoiseModel::kFormer);  // sets stay as they were
  return rlwe::log2_sum(rlwe::log2_sum(model.fresh_secret_key(), model.rounding_times_secret(2)),
                        model.rounding_times_secret(2));
}

// Rooms beyond a request, in integer bits: the most, the least that an added prime is for, and from what on none is added.
constexpr int kMostRoom = 41, kGoodRoom = 30, kEnoughRoom = 26;
constexpr int kLeastIntegerBits = 10;     // unless a request says so
constexpr int kPrecisionOfOnePrime = 22;  // sets below it have one short prime at the lowest level

bool is_secure(const Spec& s) {
  return rlwe::log2_product(s.chain) + rlwe::log2_product(s.special) <= rlwe::largest_secure_log_qp(s.n);
}

/// log2 of the scale that a request takes at a degree; nothing if the words of its edition hold none so long.
std::optional<double> scale_for(std::size_t n, const Request& r) {
  double log_scale = r.precision + noise_of_one(n);
  if (r.edition == "w64") {
    log_scale = std::max(log_scale, 30.0);
  } else if (log_scale > 29.8) {
    log_scale = std::max(log_scale, 48.0);
  }
  if (log_scale > (r.edition == "w64" ? 49.8 : 53.0)) return {};
  return log_scale;
}

/// The set of a request with so much room and so many special primes; nothing if there is none that is secure.
std::optional<Spec> with_special(std::size_t n, const Request& r, double log_scale, int integer_bits, std::size_t special) {
  // A sign, and the quarter of a bit that Context::largest_bound leaves.
  const int base = static_cast<int>(std::ceil(log_scale + 1.3)) + integer_bits;
  const auto levels = static_cast<std::size_t>(r.depth) + 1;
  try {
    Spec s = make_spec(n, levels, log_scale, base, special, r.edition, r.slots);
    if (s.chain.size() + special > device::kMaxLimbs || special > s.chain.size() || !is_secure(s)) return {};
    return s;
  } catch (const ParameterError&) {  // more or fewer special primes than the digits need
    return {};
  }
}

/// The set of degree n with the fewest digits that is secure, or nothing.
std::optional<Spec> fit(std::size_t n, const Request& r, int integer_bits) {
  const std::optional<double> log_scale = scale_for(n, r);
  if (!log_scale) return {};
  const int base = static_cast<int>(std::ceil(*log_scale + 1.3)) + integer_bits;
  if (base + *log_scale * r.depth > rlwe::largest_secure_log_qp(n)) return {};
  // The more special primes, the fewer digits; of as many digits the one with the fewest special primes.
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

/// Whether each level of `a` has at most so many primes more than that of `b`.
bool is_as_short(const Spec& a, const Spec& b, std::size_t more) {
  const std::size_t count = level_count(a);
  if (a.chain.size() > b.chain.size() + more || count != level_count(b)) return false;
  const auto limbs = [](const Spec& s, std::size_t level) { return s.levels.empty() ? level : s.levels[level - 1].size(); };
  for (std::size_t level = 1; level <= count; ++level) {
    if (limbs(a, level) > limbs(b, level) + more) return false;
  }
  return true;
}

/// Limbs of a switching key, and about the time of a key switch.
std::size_t key_limbs(const Spec& s) { return s.digits.size() * (s.chain.size() + s.special.size()); }

/// What a larger room may cost: nothing; larger switching keys (other digits and special primes); or larger keys and one more prime at
/// each level.
enum class Price { nothing, keys, prime };

/// The set for `integer_bits` at a price; nothing if its room is no larger. Of several the one with the smallest switching keys.
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

/// The set with the most room up to 2^kMostRoom; `s` if it has the most. At a price, room beyond 2^kGoodRoom makes switching keys a
/// quarter larger at most.
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
  require<ParameterError>(r.depth >= 0 && r.depth < 100, "depth lies between 0 and 99");
  require<ParameterError>(r.precision >= 1 && r.precision <= 40, "precision lies between 1 and 40 bits");
  require_bound(r.bound);
  const int bits_of_bound = r.bound > 0 ? static_cast<int>(std::ceil(std::log2(r.bound))) : 0;
  const int integer_bits = r.integer_bits.value_or(std::max(kLeastIntegerBits, bits_of_bound));
  if (!r.integer_bits && integer_bits > 40)
    throw ParameterError("a bound of " + short_number(r.bound) + " on inputs is beyond 2^40, the largest room of a request");
  require<ParameterError>(integer_bits >= 0 && integer_bits <= 40, "integer_bits lies between 0 and 40");
  require<ParameterError>(r.slots <= (1 << 16), "there are at most 2^16 slots");
  if (r.edition != "w64" && r.edition != "w32")
    throw ParameterError("there is no edition \"" + r.edition + "\"; there are w64 and w32");
  if (!r.version.empty() && r.version != "0.2" && r.version != "0.3")
    throw ParameterError("there are no numbers of version \"" + r.version + "\"; there are those of 0.2 and 0.3");
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
