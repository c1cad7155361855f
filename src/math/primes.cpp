#include "math/primes.h"

#include <algorithm>
#include <string>

#include "heliograph/interrupt.h"

namespace heliograph::math {

u64 inverse_mod(u64 a, u64 q) {
  i128 r0 = q, r1 = a % q, t0 = 0, t1 = 1;
  while (r1 != 0) {
    const i128 k = r0 / r1;
    const i128 r2 = r0 - k * r1, t2 = t0 - k * t1;
    r0 = r1, r1 = r2, t0 = t1, t1 = t2;
  }
  if (r0 != 1) throw ParameterError(std::to_string(a) + " has no inverse modulo " + std::to_string(q));
  return static_cast<u64>(t0 < 0 ? t0 + q : t0);
}

namespace {

bool witnesses_composite(u64 n, u64 base) {
  if (base % n == 0) return false;
  u64 d = n - 1;
  int s = 0;
  for (; (d & 1) == 0; d >>= 1) ++s;
  u64 x = pow_mod(base, d, n);
  if (x == 1 || x == n - 1) return false;
  for (int i = 1; i < s; ++i) {
    x = mul_mod(x, x, n);
    if (x == n - 1) return false;
  }
  return true;
}

}  // namespace

bool is_prime(u64 n) {
  if (n < 2) return false;
  for (u64 p : {2ULL, 3ULL, 5ULL, 7ULL, 11ULL, 13ULL}) {
    if (n % p == 0) return n == p;
  }
  for (u64 base : {2ULL, 325ULL, 9375ULL, 28178ULL, 450775ULL, 9780504ULL, 1795265022ULL}) {
    if (witnesses_composite(n, base)) return false;
  }
  return true;
}

std::vector<u64> largest_primes(int bits, std::size_t count, u64 step, const std::vector<u64>& taken) {
  require<ParameterError>(bits >= 2 && bits <= 60, "the length of primes must be 2 to 60 bits");
  require<ParameterError>(step >= 1, "the step of primes must be at least 1");
  std::vector<u64> found;
  const u64 top = u64{1} << bits, bottom = u64{1} << (bits - 1);
  if (step < top) {
    for (u64 p = (top - 2) / step * step + 1; p > bottom && found.size() < count; p -= step) {
      Interruptible::heed();
      if (is_prime(p) && std::find(taken.begin(), taken.end(), p) == taken.end()) found.push_back(p);
      if (p < step) break;
    }
  }
  if (found.size() < count) {
    throw ParameterError("only " + std::to_string(found.size()) + " free primes have " + std::to_string(bits) +
                         " bits and are 1 modulo " + std::to_string(step) + "; " + std::to_string(count) + " are needed");
  }
  return found;
}

std::vector<u64> prime_chain(std::size_t n, int log_q, int max_bits, const std::vector<u64>& taken) {
  require<ParameterError>(log_q > 1 && log_q <= kLongestChain, "log q must be 2 to 10000");
  require<ParameterError>(std::has_single_bit(n) && n <= (std::size_t{1} << 17), "N must be a power of two up to 2^17");
  const int count = (log_q + max_bits - 1) / max_bits;
  const int small_bits = log_q / count, longer = log_q % count;
  std::vector<u64> chain = longer ? largest_primes(small_bits + 1, longer, 2 * n, taken) : std::vector<u64>{};
  const std::vector<u64> rest = largest_primes(small_bits, count - longer, 2 * n, taken);
  chain.insert(chain.end(), rest.begin(), rest.end());
  return chain;
}

u64 smallest_primitive_root(u64 order, u64 q) {
  require<ParameterError>(std::has_single_bit(order) && (q - 1) % order == 0,
                          "the order of a root must be a power of two that divides q - 1");
  u64 root = 0;
  for (u64 base = 2; root == 0; ++base) {
    const u64 candidate = pow_mod(base, (q - 1) / order, q);
    if (pow_mod(candidate, order / 2, q) == q - 1) root = candidate;
  }
  // Every primitive root of this order is an odd power of any other primitive root of this order.
  const u64 square = mul_mod(root, root, q);
  u64 best = root;
  for (u64 i = 0, power = root; i < order / 2; ++i, power = mul_mod(power, square, q)) best = std::min(best, power);
  return best;
}

}  // namespace heliograph::math
