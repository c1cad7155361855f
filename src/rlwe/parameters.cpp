#include "rlwe/parameters.h"

#include <array>
#include <bit>
#include <cmath>

namespace heliograph::rlwe {

std::vector<u64> RingParameters::all_primes() const {
  std::vector<u64> all = chain;
  all.insert(all.end(), special.begin(), special.end());
  all.insert(all.end(), auxiliary.begin(), auxiliary.end());
  return all;
}

double log2_product(const std::vector<u64>& values) {
  double sum = 0;
  for (u64 v : values) sum += std::log2(static_cast<double>(v));
  return sum;
}

double RingParameters::log_q() const { return log2_product(chain); }
double RingParameters::log_qp() const { return log2_product(chain) + log2_product(special); }

int largest_secure_log_qp(std::size_t n) {
  constexpr std::array<int, 8> kLargest = {26, 53, 106, 214, 430, 868, 1747, 3523};  // limits for N = 2^10, 2^11, ..., 2^17
  const int from = std::bit_width(n) - 11;
  return std::has_single_bit(n) && from >= 0 && from < static_cast<int>(kLargest.size()) ? kLargest[from] : 0;
}

bool is_secure(const RingParameters& p) { return p.log_qp() <= largest_secure_log_qp(p.n); }

void require_security(const RingParameters& p, bool insecure) {
  if (insecure || is_secure(p)) return;
  const int bound = largest_secure_log_qp(p.n);
  throw SecurityError("log QP = " + std::to_string(static_cast<int>(std::ceil(p.log_qp()))) +
                      " at N = " + std::to_string(p.n) + " is below 128 bits of security (" +
                      (bound ? "at most " + std::to_string(bound) : std::string("N must be 2^10 to 2^17")) +
                      "); pass insecure=True to use it anyway");
}

int rough_security_bits(const RingParameters& p) {
  return is_secure(p) ? 128 : static_cast<int>(128.0 * largest_secure_log_qp(p.n) / p.log_qp());
}

}  // namespace heliograph::rlwe
