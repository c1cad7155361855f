// Operations by name: types of operands and results, and circuits.
#pragma once

#include "circuits/family.h"

namespace heliograph::circuits {

/// Returns the types of the results, in order. Throws DtypeError or ParameterError, which names the problem.
std::vector<Type> result_types(const tfhe::Operation& operation, const std::vector<Type>& operands);
/// Builds a circuit. The circuit's inputs are the parts of the operands in order; its outputs are the parts of the results
/// in order. `goal` must not be automatic. `same[i]`: the first operand with the same ciphertexts as operand i, or i itself.
/// An operand equal to an earlier one has no separate inputs, so that norms of sums are correct. If the list is empty, all
/// operands differ. Throws ParameterError for a variant that the operation does not have.
tfhe::Circuit build(const Encoding& encoding, const tfhe::Operation& operation, const std::vector<Type>& operands, Goal goal,
                    const std::vector<std::size_t>& same = {});
/// Returns the names of an operation's algorithms for these operands.
std::vector<std::string> variants(const Encoding& encoding, const tfhe::Operation& operation,
                                  const std::vector<Type>& operands);
/// Throws ParameterError, which lists the known variants, if the operation's variant is not one of them.
void check_variant(const Encoding& encoding, const tfhe::Operation& operation, const std::vector<Type>& operands);
std::size_t parts(const Encoding& encoding, const Type& type);
/// Encodes a clear value as parts in torus words; decode inverts it (each part rounded to the nearest value).
std::vector<std::uint64_t> encode(const Encoding& encoding, const Type& type, std::uint64_t value);
std::uint64_t decode(const Encoding& encoding, const Type& type, const std::vector<std::uint64_t>& parts);

}  // namespace heliograph::circuits
