// BGV: exact integers modulo a plaintext modulus, packed in slots (full RNS; Brakerski, Gentry, Vaikuntanathan, ePrint
// 2011/277; Kim, Polyakov, Zucca, ePrint 2021/204). exact.h has the types and operations; Spec.scheme distinguishes BGV from
// BFV. Differences from BFV:
//
// - Noise. A ciphertext's phase is f m + t e (message m, error e), small compared with Q. A product's noise is the
//   product of its operands' noise. Operands are therefore first switched to a smaller modulus. The modulus switch divides
//   the operands' noise, down to a floor of about 2 t N (rounding errors times the secret key).
// - Levels. `switch_level` switches the modulus. `multiply` multiplies at the lower of its operands' levels.
//   `multiply_switched` (Python's operator *) first switches both operands to `product_level`. The product level depends on
//   the noise estimates alone, so equal programs take equal levels and give equal bits. Loaded tensors of unknown noise stay
//   at their level; switch such tensors explicitly.
// - Factor. A switch multiplies the message by the inverse, modulo t, of the divisor. The ciphertext stores this factor f,
//   and decryption removes it. A sum of operands with different factors first multiplies each operand by a small integer
//   (about half of t's bits), which costs noise. Operands that passed the same levels have the same factor.
// - Domain. Ciphertexts are stored in the NTT domain, so sums and products need no transforms.
#pragma once

#include "heliograph/exact.h"

namespace heliograph::bgv {

using namespace exact;  // makes the names of exact available here: bgv::SecretKey, bgv::multiply, ...

/// Returns a set with a chain of about log_q bits and its special primes, found by one deterministic rule. A gadget digit
/// takes `special_count` chain primes, or one if there are no special primes.
Spec make_spec(std::size_t n, int log_q, std::size_t special_count, std::vector<std::uint64_t> plain_moduli,
               int word_size = 64, std::size_t slots = 0, bool insecure = false);
/// Returns "bgv-n15", "bgv-n14" or "hcnn5-bgv", each also with "/w32". Throws ParameterError, which lists these names, for
/// any other.
Spec named_spec(const std::string& name, bool insecure = false);
std::vector<std::string> named_specs();
/// Returns the smallest 128-bit set for a request whose products are computed by multiply_switched. Throws ParameterError if
/// no set with N <= 2^17 fulfils it.
Spec choose(const Request& request);

}  // namespace heliograph::bgv
