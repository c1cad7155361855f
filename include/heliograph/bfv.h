// BFV (full RNS, HPS multiplication; ePrint 2018/117): its parameter sets. Types and operations are those of exact.h.
#pragma once

#include "heliograph/exact.h"

namespace heliograph::bfv {

using namespace exact;  // bfv::SecretKey, bfv::multiply, ...

/// Spec of a chain of about log_q bits with its special and auxiliary primes, all found by the same rule everywhere.
/// `special_count` special primes; a digit takes as many chain primes (one each where there are none).
Spec make_spec(std::size_t n, int log_q, std::size_t special_count, std::vector<std::uint64_t> plain_moduli,
               const std::string& edition = "w64", std::size_t slots = 0, bool insecure = false);
/// "hvmul-2020", "hcnn5-2020", "hcnn11-2020", "hcnn5", "hcnn11", each also with "/w32". Throws ParameterError listing them.
Spec named_spec(const std::string& name, bool insecure = false);
std::vector<std::string> named_specs();
/// The smallest 128-bit set for a request. Throws ParameterError where none of N <= 2^17 does it.
Spec choose(const Request& request);

}  // namespace heliograph::bfv
