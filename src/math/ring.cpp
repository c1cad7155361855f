#include "math/ring.h"

#include <algorithm>
#include <set>
#include <string>

#include "math/primes.h"

namespace heliograph::math {

Ring::Ring(std::size_t n, Word word, std::vector<u64> primes) : n_(n), word_(word), primes_(std::move(primes)) {
  require<ParameterError>(std::has_single_bit(n) && n >= 2 && n <= (std::size_t{1} << 17),
                          "N must be a power of two up to 2^17");
  log_n_ = std::countr_zero(n);
  check_primes(2 * n);
  for (u64 q : primes_) roots_.push_back(smallest_primitive_root(2 * n, q));
}

Ring::Ring(Rows, std::size_t n, Word word, std::vector<u64> primes)
    : n_(n), log_n_(0), word_(word), transforms_(false), primes_(std::move(primes)) {
  require<ParameterError>(n > 0 && n % 64 == 0 && n <= (std::size_t{1} << 20),
                          "a row's length must be a multiple of 64 up to 2^20");
  check_primes(1);
}

Ring Ring::rows(std::size_t n, Word word, std::vector<u64> primes) { return Ring(Rows{}, n, word, std::move(primes)); }

/// Throws ParameterError unless the primes fit the word, differ, and are 1 modulo `step`.
void Ring::check_primes(u64 step) const {
  require<ParameterError>(primes_.size() < 1024, "a ring must have fewer than 1024 primes");
  const u64 limit = u64{1} << (word_ == Word::w32 ? 30 : 60);
  for (u64 q : primes_) {
    if (q >= limit || (q - 1) % step != 0 || !is_prime(q)) {
      throw ParameterError(std::to_string(q) + " is not a prime below 2^" + (word_ == Word::w32 ? "30" : "60") +
                           (step > 1 ? " that is 1 modulo 2N" : ""));
    }
  }
  require<ParameterError>(std::set<u64>(primes_.begin(), primes_.end()).size() == primes_.size(),
                          "the primes must be distinct");
}

namespace {

std::vector<u64> reversed_powers(std::size_t n, u64 base, u64 prime) {
  const int bits = std::countr_zero(n);
  std::vector<u64> table(n);
  for (u64 i = 0, power = 1; i < n; ++i, power = mul_mod(power, base, prime)) table[reverse_bits(i, bits)] = power;
  return table;
}

}  // namespace

std::vector<u64> forward_twiddles(std::size_t n, u64 root, u64 prime) { return reversed_powers(n, root, prime); }

std::vector<u64> inverse_twiddles(std::size_t n, u64 root, u64 prime) {
  return reversed_powers(n, inverse_mod(root, prime), prime);
}

std::vector<u32> automorphism_table(std::size_t n, u64 galois) {
  const int bits = std::countr_zero(n);
  std::vector<u32> table(n);
  for (u64 i = 0; i < n; ++i) {
    const u64 exponent = (2 * reverse_bits(i, bits) + 1) * galois % (2 * n);
    table[i] = static_cast<u32>(reverse_bits((exponent - 1) / 2, bits));
  }
  return table;
}

}  // namespace heliograph::math
