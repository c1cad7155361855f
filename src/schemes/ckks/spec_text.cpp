#include "schemes/ckks/spec.h"
#include "schemes/word_size.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <tuple>

#include "rlwe/noise.h"

namespace heliograph::ckks {

io::Json to_json(const Spec& s) {
  io::Json json = schemes::ring_json(s, "ckks");
  json["levels"] = io::Json::array();
  for (const auto& level : s.levels) json["levels"].push_back(io::Json::array_of(level));
  json["log_scale"] = s.log_scale;
  if (const Bootstrapping& b = s.bootstrapping; b.levels > 0) {
    json["bootstrapping"] = io::Json::object({{"levels", b.levels}, {"log_scale", b.log_scale}, {"entry", b.entry}});
  }
  if (!s.repeat) json["repeat"] = false;
  if (s.bound != 0) json["bound"] = s.bound;
  return json;
}

Spec spec_from_json(const io::Json& j) {
  j.require_only({"scheme", "name", "edition", "n", "chain", "special", "digits", "levels", "log_scale", "slots", "insecure",
                  "bootstrapping", "repeat", "bound"},
                 "parameters");
  if (j.string_at("scheme", 16) != "ckks") throw DamagedFileError("the scheme of the parameters must be ckks");
  Spec s = schemes::ring_from_json<Spec>(j);
  for (const io::Json& level : j.array_at("levels", 128)) {
    std::vector<std::uint16_t> primes;
    for (const io::Json& p : level.as_array("a level", 128))
      primes.push_back(static_cast<std::uint16_t>(p.as_unsigned("a level's prime", 127)));
    s.levels.push_back(std::move(primes));
  }
  s.log_scale = j.double_at("log_scale");
  if (const io::Json* const b = j.find("bootstrapping")) {
    b->require_only({"levels", "log_scale", "entry"}, "the parameters' bootstrapping");
    s.bootstrapping = {.levels = b->unsigned_at("levels", 64),
                       .log_scale = b->double_at("log_scale"),
                       .entry = b->unsigned_at("entry", 16)};
    if (s.bootstrapping.levels == 0) throw DamagedFileError("the levels of bootstrapping must be at least 1");
  }
  if (j.contains("repeat")) s.repeat = j.bool_at("repeat");
  if (j.contains("bound")) s.bound = j.double_at("bound");
  return s;
}

namespace {

std::string with_digits(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::vector<std::uint64_t> primes_of_level(const Spec& s, std::size_t level) {
  if (s.levels.empty()) return {s.chain.begin(), s.chain.begin() + static_cast<std::ptrdiff_t>(level)};
  std::vector<std::uint64_t> primes;
  for (const std::uint16_t p : s.levels[level - 1]) primes.push_back(s.chain[p]);
  return primes;
}

}  // namespace

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string short_text(const Spec& s) {
  const std::string name = s.name.empty() ? "" : s.name + " ";
  const std::string slots = s.slots == 0 ? "" : std::to_string(s.slots) + (s.repeat ? " slots, " : " slots not repeated, ");
  const std::string bound = s.bound == 0 ? "" : "bound " + short_number(s.bound) + ", ";
  return name + "(N=2^" + std::to_string(std::countr_zero(s.n)) + ", log q " + with_digits(rlwe::log2_product(s.chain), 0) +
         ", " + std::to_string(level_count(s) - s.bootstrapping.levels) + " levels, scale 2^" + with_digits(s.log_scale, 1) +
         ", room 2^" + with_digits(std::floor(log2_room(s)), 0) + ", " + bound + slots + schemes::word_text(s.word_size) +
         ")";
}

std::string difference_text(const Spec& a, const Spec& b) {
  const auto kind = [](const Spec& s) {
    const Bootstrapping& g = s.bootstrapping;
    return std::tuple(s.n, s.word_size, level_count(s), s.log_scale, s.slots, s.repeat, s.insecure, g.levels, g.log_scale,
                      g.entry);
  };
  const std::string text = "parameters: " + short_text(a) + " and " + short_text(b);
  if (kind(a) != kind(b)) return text;
  if (a.chain == b.chain && a.special == b.special) return text + "; make both with the same bound=";
  return text +
         "; versions 0.2 and 0.3 choose different numbers for one request: parameters(..., version=\"0.2\") gives the "
         "former";
}

void require_bound(double bound) {
  if (!(bound >= 0) || !std::isfinite(bound))
    throw ParameterError("a bound on inputs must be a finite number above 0, not " + short_number(bound));
}

std::size_t level_count(const Spec& s) { return s.levels.empty() ? s.chain.size() : s.levels.size(); }

double log2_room(const Spec& s) {
  double scale = fresh_scale(s.log_scale);
  for (std::size_t level = level_count(s) - s.bootstrapping.levels + corrections(s.bootstrapping); level > 1; --level)
    scale = scale * scale / modulus_ratio(primes_of_level(s, level), primes_of_level(s, level - 1));
  return rlwe::log2_product(primes_of_level(s, 1)) - 1 - std::log2(scale);
}

double fresh_scale(double log_scale) {
  const double whole = std::floor(log_scale);
  return std::ldexp(std::rint(std::ldexp(std::exp2(log_scale - whole), 29)), static_cast<int>(whole) - 29);
}

double modulus_ratio(const std::vector<std::uint64_t>& from, const std::vector<std::uint64_t>& to) {
  const auto product_without = [](const std::vector<std::uint64_t>& all, const std::vector<std::uint64_t>& left_out) {
    double product = 1;
    for (std::uint64_t q : all) {
      if (std::find(left_out.begin(), left_out.end(), q) == left_out.end()) product *= static_cast<double>(q);
    }
    return product;
  };
  return product_without(from, to) / product_without(to, from);
}

}  // namespace heliograph::ckks
