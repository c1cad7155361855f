// BGV: exact integers modulo a plaintext modulus, many to a ciphertext (full RNS; Brakerski, Gentry, Vaikuntanathan, ePrint
// 2011/277; Kim, Polyakov, Zucca, ePrint 2021/204). Types and operations are those of exact.h; a set's Spec.scheme tells which
// of the two schemes it is of. What differs from BFV:
//
// - Noise. A ciphertext's phase is f m + t e: small while Q is large. A product's noise is the product of its operands', so
//   operands are best switched to a smaller modulus first, which divides their noise until it meets a floor of about 2 t N
//   (rounding errors times the secret). `switch_level` switches; `multiply` multiplies at the lower of its operands' levels
//   and nothing else. `multiply_switched`, which is Python's operator *, first switches both operands to `product_level`, a
//   function of the noise estimates alone: equal programs take equal levels and give equal bits. Loaded tensors, whose
//   noise is not known, stay at their level: switch them explicitly.
// - A switch multiplies a message by the inverse, modulo t, of what the modulus was divided by: the factor f. It is tracked
//   and taken away by decryption. Sums of operands of different factors first multiply each by a small integer (about half
//   t's bits), which costs noise; operands that went through the same levels have the same factor.
// - Ciphertexts rest in the NTT domain, so that sums, products with plaintexts and products cost no transforms.
#pragma once

#include "heliograph/exact.h"

namespace heliograph::bgv {

using namespace exact;  // bgv::SecretKey, bgv::multiply, ...

/// Spec of a chain of about log_q bits with its special primes, all found by the same rule everywhere. `special_count`
/// special primes; a digit takes as many chain primes (one each where there are none).
Spec make_spec(std::size_t n, int log_q, std::size_t special_count, std::vector<std::uint64_t> plain_moduli,
               const std::string& edition = "w64", std::size_t slots = 0, bool insecure = false);
/// "bgv-n15", "bgv-n14", "hcnn5-bgv", each also with "/w32". Throws ParameterError listing them.
Spec named_spec(const std::string& name, bool insecure = false);
std::vector<std::string> named_specs();
/// The smallest 128-bit set for a request, its products taken by multiply_switched. Throws ParameterError where none of
/// N <= 2^17 does it.
Spec choose(const Request& request);

}  // namespace heliograph::bgv
