// NTT-friendly primes.
#pragma once

#include <vector>

#include "math/modulus.h"

namespace heliograph::math {

/// Deterministic Miller-Rabin for 64-bit integers (bases of Sinclair, 2011).
bool is_prime(u64 n);

/// The `count` largest primes p < 2^bits with p = 1 modulo `step`, none of them in `taken`.
/// Throws ParameterError where there are not so many of that bit length.
std::vector<u64> largest_primes(int bits, std::size_t count, u64 step, const std::vector<u64>& taken = {});

constexpr int kLongestChain = 10000;  // bits; the longest secure one at N = 2^17 has 3523

/// A prime chain whose product is just below 2^log_q: ceil(log_q / max_bits) primes of nearly equal
/// length, the longer first, all 1 modulo 2n. Throws ParameterError where n is too large for that length.
std::vector<u64> prime_chain(std::size_t n, int log_q, int max_bits, const std::vector<u64>& taken = {});

/// The numerically smallest primitive `order`-th root of unity modulo the prime q (order a power of two).
u64 smallest_primitive_root(u64 order, u64 q);

}  // namespace heliograph::math
