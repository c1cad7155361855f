#include "schemes/ckks/spec.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace heliograph::ckks {

io::Json to_json(const Spec& s) {
  io::Json json = schemes::ring_json(s, "ckks");
  json["levels"] = io::Json::array();
  for (const auto& level : s.levels) json["levels"].push_back(io::Json::array_of(level));
  json["log_scale"] = s.log_scale;
  if (const Bootstrapping& b = s.bootstrapping; b.levels > 0) {
    json["bootstrapping"] = io::Json::object({{"levels", b.levels}, {"log_scale", b.log_scale}, {"entry", b.entry}});
  }
  return json;
}

Spec spec_from_json(const io::Json& j) {
  j.require_only({"scheme", "name", "edition", "n", "chain", "special", "digits", "levels", "log_scale", "slots", "insecure",
                  "bootstrapping"},
                 "parameters");
  if (j.string_at("scheme", 16) != "ckks") throw DamagedFileError("the parameters are not CKKS's");
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
    if (s.bootstrapping.levels == 0) throw DamagedFileError("a bootstrapping takes levels");
  }
  return s;
}

std::string short_text(const Spec& s) {
  const std::string name = s.name.empty() ? "" : s.name + " ";
  return name + "(N=2^" + std::to_string(std::countr_zero(s.n)) + ", " +
         std::to_string(s.levels.empty() ? s.chain.size() : s.levels.size()) + " levels, " + s.edition + ")";
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
