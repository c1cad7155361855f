#include "schemes/exact/spec.h"
#include "schemes/word_size.h"

#include <bit>
#include <cmath>

#include "rlwe/parameters.h"

namespace heliograph::exact {

io::Json to_json(const Spec& s) {
  io::Json json = schemes::ring_json(s, s.scheme);
  json["auxiliary"] = io::Json::array_of(s.auxiliary);
  json["plain_moduli"] = io::Json::array_of(s.plain_moduli);
  if (s.exact) json["exact"] = true;  // absent in sets of residues, whose text is unchanged since earlier releases
  return json;
}

Spec spec_from_json(const io::Json& j) {
  j.require_only({"scheme", "name", "edition", "n", "chain", "special", "auxiliary", "digits", "plain_moduli", "slots",
                  "insecure", "exact"},
                 "parameters");
  const std::string& scheme = j.string_at("scheme", 16);
  if (family_of(scheme) == nullptr) throw DamagedFileError("the scheme of the parameters must be bfv or bgv");
  Spec s = schemes::ring_from_json<Spec>(j);
  s.scheme = scheme;
  s.auxiliary = j.unsigned_array_at("auxiliary", 128, schemes::kLargestPrime);
  s.plain_moduli = j.unsigned_array_at("plain_moduli", 64, schemes::kLargestPrime);
  s.exact = j.contains("exact") && j.bool_at("exact");
  return s;
}

std::string short_text(const Spec& s) {
  const std::string name = s.name.empty() ? "" : s.name + " ";
  return name + "(N=2^" + std::to_string(std::countr_zero(s.n)) + ", log q " +
         std::to_string(static_cast<int>(std::lround(rlwe::log2_product(s.chain)))) + ", " +
         schemes::word_text(s.word_size) + ")";
}

}  // namespace heliograph::exact
