// NTT-friendly primes.
#pragma once

#include <vector>

#include "math/modulus.h"

namespace heliograph::math {

/// Deterministic Miller-Rabin for 64-bit integers (bases of Sinclair, 2011).
bool is_prime(u64 n);

/// Returns the `count` largest primes p with bit length `bits`, with p = 1 modulo `step`, that are not in `taken`. Throws
/// ParameterError if there are fewer.
std::vector<u64> largest_primes(int bits, std::size_t count, u64 step, const std::vector<u64>& taken = {});

constexpr int kLongestChain = 10000;  // largest length in bits; the longest secure chain, at N = 2^17, has 3523

/// Returns a prime chain whose product is just below 2^log_q: ceil(log_q / max_bits) primes of nearly equal length, the
/// longer ones first, all 1 modulo 2n. Throws ParameterError if n is too large for primes of that length.
std::vector<u64> prime_chain(std::size_t n, int log_q, int max_bits, const std::vector<u64>& taken = {});

/// Returns the smallest primitive `order`-th root of unity modulo the prime q (order a power of two).
u64 smallest_primitive_root(u64 order, u64 q);

}  // namespace heliograph::math
