// Encoding of values as torus words, with one bit or one digit per wire.
#pragma once

#include "heliograph/tfhe.h"

namespace heliograph::tfhe {

/// Returns one unit of a digit, or 1/8 of a turn for a bit, in torus words.
std::uint64_t unit_of(const Spec& spec);
/// Returns the LWE ciphertexts per element. Throws DtypeError if the type's bits are not a multiple of a digit's bits.
std::size_t wires_of(const Spec& spec, const Type& type);
/// Encodes the low bits of `value` as wires_of(type) torus words, least significant first.
void encode(const Spec& spec, const Type& type, std::uint64_t value, std::uint64_t* out);
/// Returns the value nearest to the phases, sign-extended if the type is signed. Carry bits of a digit are added to the
/// next digit.
std::uint64_t decode(const Spec& spec, const Type& type, const std::uint64_t* phases);
/// Returns the phase minus the nearest value of a wire, as a signed torus word.
std::int64_t error_of(const Spec& spec, std::uint64_t phase);

}  // namespace heliograph::tfhe
