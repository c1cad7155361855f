// Parameter sets: construction of chains, shared by both word sizes, and text form.
#pragma once

#include <optional>

#include "heliograph/ckks.h"
#include "schemes/spec_text.h"

namespace heliograph::ckks {

// Bits of primes. Products of long primes stay within the limits of AVX-512 IFMA.
inline constexpr int kLongest64 = 50, kLongest32 = 30;

/// Returns the prime below 2^bits nearest to `target` that is 1 modulo 2n and not in `taken`.
std::uint64_t nearest_prime(double target, std::size_t n, int bits, const std::vector<std::uint64_t>& taken);
/// Makes the chain, levels, digits and special primes of 32-bit words.
Spec spec_of_short_words(std::size_t n, std::size_t levels, double log_scale, int base_bits, std::size_t special_count);
/// Makes only the chain and the levels of a set of 32-bit words. Returns the least number of primes in the first digit.
std::size_t add_short_levels(Spec& s, std::size_t levels, double base_bits);
/// Returns `count` primes below 2^30 whose product is near `target`. Of 24 candidates, the last two primes are the pair with
/// the nearest product.
std::vector<std::uint64_t> short_primes_near(double target, std::size_t count, std::size_t n,
                                             std::vector<std::uint64_t> taken);
/// Adds the levels above the lowest one, whose primes the chain already has. Each level adds one prime below 2^longest,
/// chosen so that scales stay near the fresh scale.
void add_levels(Spec& s, std::size_t levels, int longest);
/// Divides the chain into digits and chooses `special` special primes below 2^longest. Each digit has at least `special`
/// chain primes, and more if the product of the special primes still exceeds the digit; the first digit has at least
/// `first`. If possible, the special primes are long enough that the noise of a key switch is at most its rounding error.
void finish_gadget(Spec& s, std::size_t first, std::size_t special, int longest);
double log2_of_largest_digit(const Spec& s);

// Levels of bootstrapping. The coefficients-to-slots matrices take a level each, except the first. The sine is an even
// polynomial of degree 30, followed by three angle doublings.
inline constexpr std::size_t kCoefficientsToSlots = 2;
inline constexpr std::size_t kSineLevels = 8;
// Levels of the sine's cubic correction, which some sets have.
inline constexpr std::size_t kCorrectionLevels = 2;
constexpr std::size_t corrections(const Bootstrapping& b) {
  return b.levels > 0 ? b.levels - (kCoefficientsToSlots + kSineLevels) : 0;
}
/// Returns log2 of the highest level's scale, which is longer than the others (spec_bootstrapping.cpp).
double top_log_scale(const Bootstrapping& b);

/// Returns the name of the named set with the numbers of this set; empty if there is none.
std::string known_name(const Spec& spec);
// Return the names, the spec of a name, and the name of a spec, for sets with bootstrapping (spec_bootstrapping.cpp).
std::vector<std::string> named_bootstrapping_specs();
std::optional<Spec> named_bootstrapping_spec(const std::string& name, bool insecure = false);
std::string known_bootstrapping_name(const Spec& spec);

// Text form: schemes/spec_text.h.
io::Json to_json(const Spec& spec);
/// Throws DamagedFileError for missing fields, wrong types and values out of range.
Spec spec_from_json(const io::Json& json);
using schemes::hash_of;
/// Returns a description such as "n16-l24 (N=2^16, log q 1187, 23 levels, scale 2^49.7, room 2^48, w64)".
std::string short_text(const Spec& spec);
/// Describes the difference of two sets. If only rooms or bounds differ, adds the arguments that give the other set.
std::string difference_text(const Spec& a, const Spec& b);
/// Formats with "%.6g".
std::string short_number(double value);

/// Throws ParameterError unless a public bound on inputs is 0 (none) or a positive number.
void require_bound(double bound);
/// Includes the levels of bootstrapping.
std::size_t level_count(const Spec& spec);
/// Returns log2 of the largest values that fit the lowest level.
double log2_room(const Spec& spec);
/// Returns 2^log_scale with 30 significant bits, equal on every machine.
double fresh_scale(double log_scale);
/// Returns the product of `from` over the product of `to`, without the primes that both contain. The order of the double
/// operations is fixed, so that all machines get the same bits.
double modulus_ratio(const std::vector<std::uint64_t>& from, const std::vector<std::uint64_t>& to);

}  // namespace heliograph::ckks
