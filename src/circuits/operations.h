// Operations by name: their operands' and results' types, and their circuits.
#pragma once

#include "circuits/family.h"

namespace heliograph::circuits {

/// Types of the results, in order. Throws DtypeError, ParameterError naming what is wrong.
std::vector<Type> result_types(const tfhe::Operation& operation, const std::vector<Type>& operands);
/// Inputs are the operands' parts one after another, outputs the results'. `goal` must not be automatic. `same[i]`: the first
/// operand that shows the same ciphertexts as operand i, i itself where there is none; then operand i has no inputs of its own,
/// so that sums of one ciphertext count with their true norm. Empty: all differ. Throws ParameterError for a variant that the
/// operation does not have.
tfhe::Circuit build(const Encoding& encoding, const tfhe::Operation& operation, const std::vector<Type>& operands, Goal goal,
                    const std::vector<std::size_t>& same = {});
/// Names of the algorithms there are for an operation on these operands.
std::vector<std::string> variants(const Encoding& encoding, const tfhe::Operation& operation,
                                  const std::vector<Type>& operands);
/// Throws ParameterError, naming those there are, where the operation's variant is none of them.
void check_variant(const Encoding& encoding, const tfhe::Operation& operation, const std::vector<Type>& operands);
/// Parts of a type in an encoding.
std::size_t parts(const Encoding& encoding, const Type& type);
/// A clear value as parts in torus words, and back (each part rounded to the nearest value).
std::vector<std::uint64_t> encode(const Encoding& encoding, const Type& type, std::uint64_t value);
std::uint64_t decode(const Encoding& encoding, const Type& type, const std::vector<std::uint64_t>& parts);

}  // namespace heliograph::circuits
