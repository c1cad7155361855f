#include "schemes/exact/spec_text.h"

#include <bit>
#include <cmath>

#include "io/sha256.h"
#include "rlwe/parameters.h"
#include "schemes/exact/spec.h"

namespace heliograph::exact {

io::Json to_json(const Spec& s) {
  return io::Json::object({{"scheme", s.scheme},
                           {"name", s.name},
                           {"edition", s.edition},
                           {"n", s.n},
                           {"chain", io::Json::array_of(s.chain)},
                           {"special", io::Json::array_of(s.special)},
                           {"auxiliary", io::Json::array_of(s.auxiliary)},
                           {"digits", io::Json::array_of(s.digits)},
                           {"plain_moduli", io::Json::array_of(s.plain_moduli)},
                           {"slots", s.slots},
                           {"insecure", s.insecure}});
}

Spec spec_from_json(const io::Json& j) {
  constexpr std::uint64_t word = std::uint64_t{1} << 60;
  j.require_only(
      {"scheme", "name", "edition", "n", "chain", "special", "auxiliary", "digits", "plain_moduli", "slots", "insecure"},
      "parameters");
  Spec s;
  s.scheme = j.string_at("scheme", 16);
  if (family_of(s.scheme) == nullptr) throw DamagedFileError("the parameters are neither BFV's nor BGV's");
  s.name = j.string_at("name", 64);
  s.edition = j.string_at("edition", 8);
  s.n = j.unsigned_at("n", 1 << 17);
  s.chain = j.unsigned_array_at("chain", 128, word);
  s.special = j.unsigned_array_at("special", 128, word);
  s.auxiliary = j.unsigned_array_at("auxiliary", 128, word);
  for (std::uint64_t d : j.unsigned_array_at("digits", 128, 128)) s.digits.push_back(d);
  s.plain_moduli = j.unsigned_array_at("plain_moduli", 64, word);
  s.slots = j.unsigned_at("slots", 1 << 17);
  s.insecure = j.bool_at("insecure");
  return s;
}

std::string text_of(const Spec& spec) { return to_json(spec).dump(); }

std::string hash_of(const Spec& spec, bool named) {
  Spec numbers = spec;
  if (!named) numbers.name.clear();
  return io::to_hex(io::sha256(text_of(numbers)));
}

std::string short_text(const Spec& s) {
  const std::string name = s.name.empty() ? "" : s.name + " ";
  return name + "(N=2^" + std::to_string(std::countr_zero(s.n)) + ", log q " +
         std::to_string(static_cast<int>(std::lround(rlwe::log2_product(s.chain)))) + ", " + s.edition + ")";
}

}  // namespace heliograph::exact
