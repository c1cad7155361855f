// Parameter sets: what makes a chain, shared by the editions, and sets as text.
#pragma once

#include <optional>

#include "heliograph/ckks.h"
#include "schemes/spec_text.h"

namespace heliograph::ckks {

// Bits of primes: products of long ones stay below what AVX-512 IFMA takes.
inline constexpr int kLongest64 = 50, kLongest32 = 30;

/// The prime below 2^bits nearest to `target` that is 1 modulo 2n and not taken.
std::uint64_t nearest_prime(double target, std::size_t n, int bits, const std::vector<std::uint64_t>& taken);
/// Edition w32's chain, levels, digits and special primes.
Spec spec_of_short_words(std::size_t n, std::size_t levels, double log_scale, int base_bits, std::size_t special_count);
/// The same without digits: chain and levels, from nothing. Returns how many primes the first digit has at least.
std::size_t add_short_levels(Spec& s, std::size_t levels, double base_bits);
/// `count` primes below 2^30 whose product is near `target`; the last two are the best of some pairs.
std::vector<std::uint64_t> short_primes_near(double target, std::size_t count, std::size_t n,
                                             std::vector<std::uint64_t> taken);
/// Levels above the lowest, whose primes the chain has so far: a prime below 2^longest for each, so that scales stay near the
/// fresh one.
void add_levels(Spec& s, std::size_t levels, int longest);
/// So many special primes below 2^longest that one key switch adds no more than its rounding does, where they can be so long;
/// and digits of as many chain primes as they hold so, as many at least as there are special ones. The first has `first` at least.
void finish_gadget(Spec& s, std::size_t first, std::size_t special, int longest);
/// log2 of the product of a digit's primes, the largest of the set's.
double log2_of_largest_digit(const Spec& s);

// Levels of bootstrapping: of the matrices that bring coefficients back to the slots (the first of them takes none), and of the
// sine: an even polynomial of degree 30, and an angle doubled three times.
inline constexpr std::size_t kCoefficientsToSlots = 2;
inline constexpr std::size_t kSineLevels = 8;
// And, in some sets, of a cube that takes away what the sine differs from its angle by.
inline constexpr std::size_t kCorrectionLevels = 2;
/// Levels of a set's correction.
constexpr std::size_t corrections(const Bootstrapping& b) {
  return b.levels > 0 ? b.levels - (kCoefficientsToSlots + kSineLevels) : 0;
}
/// log2 of the highest level's scale, which is longer than the others (spec.cpp).
double top_log_scale(const Bootstrapping& b);

/// The name of the named set that has these numbers; empty where none has.
std::string known_name(const Spec& spec);
// The same of sets with bootstrapping alone (spec_bootstrapping.cpp).
std::vector<std::string> named_bootstrapping_specs();
std::optional<Spec> named_bootstrapping_spec(const std::string& name, bool insecure = false);
std::string known_bootstrapping_name(const Spec& spec);

// As text (schemes/spec_text.h), and the numbers that follow from a set.
io::Json to_json(const Spec& spec);
/// Throws DamagedFileError for fields that are missing, of a wrong type or beyond bounds.
Spec spec_from_json(const io::Json& json);
using schemes::hash_of;
/// "n16-l24 (N=2^16, log q 1187, 23 levels, scale 2^49.7, room 2^48, w64)"
std::string short_text(const Spec& spec);
/// What tells two sets apart, and how to get the numbers of the other version if only their rooms or bounds differ.
std::string difference_text(const Spec& a, const Spec& b);
/// "%.6g"
std::string short_number(double value);

/// Throws ParameterError unless a public bound on inputs is 0, for none, or a number above 0.
void require_bound(double bound);
/// Levels of ciphertexts and of bootstrapping.
std::size_t level_count(const Spec& spec);
/// log2 of the largest values that fit the lowest level.
double log2_room(const Spec& spec);
/// 2^log_scale with 30 significant bits: the same on every machine.
double fresh_scale(double log_scale);
/// Product of `from` over product of `to`, what both have left out; in one order, in doubles.
double modulus_ratio(const std::vector<std::uint64_t>& from, const std::vector<std::uint64_t>& to);

}  // namespace heliograph::ckks
