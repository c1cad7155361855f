// Parameter sets of BFV (full RNS, HPS multiplication; ePrint 2018/117). exact.h has the types and operations.
#pragma once

#include "heliograph/exact.h"

namespace heliograph::bfv {

using namespace exact;  // makes the names of exact available here: bfv::SecretKey, bfv::multiply, ...

/// Returns a set with a chain of about log_q bits and its special and auxiliary primes, found by one deterministic rule. A
/// gadget digit takes `special_count` chain primes, or one if there are no special primes.
Spec make_spec(std::size_t n, int log_q, std::size_t special_count, std::vector<std::uint64_t> plain_moduli,
               int word_size = 64, std::size_t slots = 0, bool insecure = false);
/// Returns "hvmul-2020", "hcnn5-2020", "hcnn11-2020", "hcnn5" or "hcnn11", each also with "/w32". Throws ParameterError,
/// which lists these names, for any other.
Spec named_spec(const std::string& name, bool insecure = false);
std::vector<std::string> named_specs();
/// Returns the smallest 128-bit set for a request. Throws ParameterError if no set with N <= 2^17 fulfils it.
Spec choose(const Request& request);

}  // namespace heliograph::bfv
