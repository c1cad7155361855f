// Parameter sets, as BFV and BGV both have them: made, chosen, as text.
#pragma once

#include <array>

#include "heliograph/exact.h"
#include "schemes/exact/rules.h"
#include "schemes/spec_text.h"

namespace heliograph::exact {

/// Longest primes of an edition: products stay below what AVX-512 IFMA (w64) and 32-bit words take. ParameterError.
int longest_prime(const std::string& edition);
double log2_largest_of(const std::vector<std::uint64_t>& values);

/// A chain of about log_q bits, special primes and the gadget; no auxiliary primes.
Spec make_spec(const std::string& scheme, std::size_t n, int log_q, std::size_t special_count,
               std::vector<std::uint64_t> plain_moduli, const std::string& edition, std::size_t slots, bool insecure);
/// Of a key switch before anything multiplies it (log2).
double key_switch_noise(const Spec& spec, std::size_t level, rlwe::NoiseModel::Deviations deviations);
/// What a request's search bounds noise by. ParameterError for versions that there are not.
rlwe::NoiseModel::Deviations deviations_of(const Request& request);

struct NamedSet {
  const char* name;
  int log_n, log_q;
  int special64, special32;
  std::vector<std::uint64_t> plain_moduli;
  bool insecure;
  std::size_t slots;
};

/// What tells one scheme from the other.
struct Family {
  const char* scheme;  // as Spec has it
  Spec (*make)(std::size_t n, int log_q, std::size_t special_count, std::vector<std::uint64_t> plain_moduli,
               const std::string& edition, std::size_t slots, bool insecure);
  /// Bits that a set lacks to hold a request's noise.
  double (*missing)(const Spec& spec, const Request& request);
  /// Of a multiplication and relinearization, in one-limb transforms.
  double (*transforms)(const Spec& spec);
  const std::vector<NamedSet>& (*named)();
  std::unique_ptr<Rules> (*rules)(std::shared_ptr<rlwe::Context> rlwe, std::vector<math::u64> plain_moduli);
  bool has_factors;  // whether ciphertexts' factors can be other than 1
};
extern const Family kBfv, kBgv;
inline constexpr std::array kFamilies = {&kBfv, &kBgv};
/// Null where there is no such scheme.
const Family* family_of(const std::string& scheme);

Spec named_spec(const Family& family, const std::string& name, bool insecure);
std::vector<std::string> named_specs(const Family& family);
/// The smallest 128-bit set for a request. Throws ParameterError where none of N <= 2^17 does it.
Spec choose(const Family& family, const Request& request);

// As text (schemes/spec_text.h).
io::Json to_json(const Spec& spec);
/// Throws DamagedFileError for fields that are missing, of a wrong type or beyond bounds.
Spec spec_from_json(const io::Json& json);
using schemes::hash_of;
/// "hcnn5-2020 (N=2^14, log q 330)"
std::string short_text(const Spec& spec);

}  // namespace heliograph::exact
