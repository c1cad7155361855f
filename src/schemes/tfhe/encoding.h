// How values become torus words: a wire a bit, or a wire a digit.
#pragma once

#include "heliograph/tfhe.h"

namespace heliograph::tfhe {

/// One unit of a digit, or of a bit 1/8 of a turn, in torus words.
std::uint64_t unit_of(const Spec& spec);
/// LWE ciphertexts of one element. Throws DtypeError where digits do not make up the type.
std::size_t wires_of(const Spec& spec, const Type& type);
/// Low bits of `value` as torus words, least significant first: wires_of(type) of them, into `out`.
void encode(const Spec& spec, const Type& type, std::uint64_t value, std::uint64_t* out);
/// The value nearest to phases, sign-extended where the type is signed. Digits may have used their carry bits.
std::uint64_t decode(const Spec& spec, const Type& type, const std::uint64_t* phases);
/// Phase less the nearest value that a wire can have, as a signed torus word.
std::int64_t error_of(const Spec& spec, std::uint64_t phase);

}  // namespace heliograph::tfhe
