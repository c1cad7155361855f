// Parts that the OpenFHE programs share.
#pragma once

#include <openfhe.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <string>

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

inline double log2_of(const std::shared_ptr<lbcrypto::ILDCRTParams<lbcrypto::BigInteger>>& primes) {
  double sum = 0;
  for (const auto& prime : primes->GetParams()) sum += std::log2(prime->GetModulus().ConvertToDouble());
  return sum;
}

/// Returns the seconds of each call as a JSON array.
template <class Call>
std::string times_of(int calls, const Call& call) {
  std::string times;
  for (int i = 0; i < calls; ++i) {
    const auto start = Clock::now();
    call();
    times += (i ? ", " : "") + std::to_string(seconds_since(start));
  }
  return "[" + times + "]";
}
