// Text form of a parameter set, for any scheme that has `io::Json to_json(const Spec&)`.
#pragma once

#include <cstdint>
#include <string>

#include "io/json.h"
#include "io/sha256.h"
#include "schemes/word_size.h"

namespace heliograph::schemes {

template <class Spec>
std::string text_of(const Spec& spec) {
  return to_json(spec).dump();
}

/// Returns the SHA-256 of the set's numbers. `named`: the digest also includes the set's name, as in files of format 1.
template <class Spec>
std::string hash_of(const Spec& spec, bool named = false) {
  Spec numbers = spec;
  if (!named) numbers.name.clear();
  return io::to_hex(io::sha256(text_of(numbers)));
}

inline constexpr std::uint64_t kLargestPrime = std::uint64_t{1} << 60;

/// Returns the fields that sets of BFV, BGV and CKKS have in common.
template <class Spec>
io::Json ring_json(const Spec& s, const std::string& scheme) {
  return io::Json::object({{"scheme", scheme},
                           {"name", s.name},
                           {"edition", word_text(s.word_size)},
                           {"n", s.n},
                           {"chain", io::Json::array_of(s.chain)},
                           {"special", io::Json::array_of(s.special)},
                           {"digits", io::Json::array_of(s.digits)},
                           {"slots", s.slots},
                           {"insecure", s.insecure}});
}

/// Reads the fields that ring_json writes. Throws DamagedFileError for missing fields, wrong types and values out of
/// range.
template <class Spec>
Spec ring_from_json(const io::Json& j) {
  Spec s;
  s.name = j.string_at("name", 64);
  s.word_size = word_size_of(j.string_at("edition", 8));
  s.n = j.unsigned_at("n", 1 << 17);
  s.chain = j.unsigned_array_at("chain", 128, kLargestPrime);
  s.special = j.unsigned_array_at("special", 128, kLargestPrime);
  for (std::uint64_t d : j.unsigned_array_at("digits", 128, 128)) s.digits.push_back(d);
  s.slots = j.unsigned_at("slots", 1 << 17);
  s.insecure = j.bool_at("insecure");
  return s;
}

}  // namespace heliograph::schemes
