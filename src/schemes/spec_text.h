// A parameter set as text, whatever its scheme, which has `io::Json to_json(const Spec&)`.
#pragma once

#include <cstdint>
#include <string>

#include "io/json.h"
#include "io/sha256.h"

namespace heliograph::schemes {

/// SHA-256 of the numbers; `named`: of the name too, as files of format 1 may have it.
template <class Spec>
std::string hash_of(const Spec& spec, bool named = false) {
  Spec numbers = spec;
  if (!named) numbers.name.clear();
  return io::to_hex(io::sha256(to_json(numbers).dump()));
}

inline constexpr std::uint64_t kLargestPrime = std::uint64_t{1} << 60;

/// The fields that sets of BFV, BGV and CKKS share.
template <class Spec>
io::Json ring_json(const Spec& s, const std::string& scheme) {
  return io::Json::object({{"scheme", scheme},
                           {"name", s.name},
                           {"edition", s.edition},
                           {"n", s.n},
                           {"chain", io::Json::array_of(s.chain)},
                           {"special", io::Json::array_of(s.special)},
                           {"digits", io::Json::array_of(s.digits)},
                           {"slots", s.slots},
                           {"insecure", s.insecure}});
}

/// A set with these. Throws DamagedFileError for fields that are missing, of a wrong type or beyond bounds.
template <class Spec>
Spec ring_from_json(const io::Json& j) {
  Spec s;
  s.name = j.string_at("name", 64);
  s.edition = j.string_at("edition", 8);
  s.n = j.unsigned_at("n", 1 << 17);
  s.chain = j.unsigned_array_at("chain", 128, kLargestPrime);
  s.special = j.unsigned_array_at("special", 128, kLargestPrime);
  for (std::uint64_t d : j.unsigned_array_at("digits", 128, 128)) s.digits.push_back(d);
  s.slots = j.unsigned_at("slots", 1 << 17);
  s.insecure = j.bool_at("insecure");
  return s;
}

}  // namespace heliograph::schemes
