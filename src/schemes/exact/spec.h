// Parameter sets of BFV and BGV: construction, search, text.
#pragma once

#include <array>

#include "heliograph/exact.h"
#include "schemes/exact/rules.h"
#include "schemes/spec_text.h"

namespace heliograph::exact {

/// Returns the largest number of bits of a prime: for 64-bit words, AVX-512 IFMA's products of 52 bits limit it; for 32-bit
/// words, the products of these words.
/// Throws ParameterError for other word sizes than 64 and 32.
int longest_prime(int word_size);
double log2_largest_of(const std::vector<std::uint64_t>& values);

/// Returns a set with a chain of about log_q bits, special primes and digits, but without auxiliary primes.
Spec make_spec(const std::string& scheme, std::size_t n, int log_q, std::size_t special_count,
               std::vector<std::uint64_t> plain_moduli, int word_size, std::size_t slots, bool insecure);
/// Returns log2 of the noise of a key switch, without the factor t of BGV.
double key_switch_noise(const Spec& spec, std::size_t level, rlwe::NoiseModel::Deviations deviations);
/// Returns the number of standard deviations that bound noise in the search of a request. Throws ParameterError for
/// unknown versions.
rlwe::NoiseModel::Deviations deviations_of(const Request& request);

struct NamedSet {
  const char* name;
  int log_n, log_q;
  int special64, special32;
  std::vector<std::uint64_t> plain_moduli;
  bool insecure;
  std::size_t slots;
};

/// Scheme-specific parts of parameter sets.
struct Family {
  const char* scheme;  // Spec::scheme
  Spec (*make)(std::size_t n, int log_q, std::size_t special_count, std::vector<std::uint64_t> plain_moduli, int word_size,
               std::size_t slots, bool insecure);
  /// Returns the bits of Q that a set lacks for a request's noise.
  double (*missing)(const Spec& spec, const Request& request);
  /// Returns the cost of a multiplication with relinearization, in one-limb transforms.
  double (*transforms)(const Spec& spec);
  const std::vector<NamedSet>& (*named)();
  std::unique_ptr<Rules> (*rules)(std::shared_ptr<rlwe::Context> rlwe, std::vector<math::u64> plain_moduli);
  bool has_factors;  // whether factors of ciphertexts can differ from 1
};
extern const Family kBfv, kBgv;
inline constexpr std::array kFamilies = {&kBfv, &kBgv};
/// Returns null for an unknown scheme.
const Family* family_of(const std::string& scheme);

Spec named_spec(const Family& family, const std::string& name, bool insecure);
std::vector<std::string> named_specs(const Family& family);
/// Returns the smallest 128-bit set for a request. Throws ParameterError if no set with N <= 2^17 fulfils it.
Spec choose(const Family& family, const Request& request);

// Text form (schemes/spec_text.h).
io::Json to_json(const Spec& spec);
/// Throws DamagedFileError for missing fields, wrong types and values out of range.
Spec spec_from_json(const io::Json& json);
using schemes::hash_of;
/// Returns a short description such as "hcnn5-2020 (N=2^14, log q 330)".
std::string short_text(const Spec& spec);

}  // namespace heliograph::exact
