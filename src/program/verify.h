// Verification of a program from a file, before anything of it is prepared, allocated or run (docs/adr/0032).
#pragma once

#include <span>

#include "program/program.h"

namespace heliograph::program {

/// A tensor that a program takes.
struct InputForm {
  std::string form;         // device::form_of its view
  std::vector<u64> moduli;  // of each limb; empty: LWE ciphertexts, whose words have every value
};

/// One parameter set of a program.
struct ParameterSet {
  const Session* session = nullptr;
  std::vector<device::RingHandle> rings;
  std::shared_ptr<const device::BootstrapKey> bootstrap_key;  // TFHE's, of shapes alone
  std::shared_ptr<const device::LweSwitchKey> switch_key;
};

/// What the file says beside its calls.
struct Surroundings {
  std::vector<ParameterSet> sets;
  std::vector<InputForm> inputs;
  std::size_t sources = 0;  // sets of evaluation keys
  const ParameterSet& of(const Session* session) const;
};

/// What a replay may take.
struct Limits {
  u64 bytes = ~u64{0}, products = ~u64{0};
};

/// Throws unless every replay of the parts is right whatever the words of the inputs and keys:
///   each call passes device::check on its shapes, and writes places of kind `made` alone;
///   a view shows nothing beyond its place, and no result of a call overlaps another operand of it;
///   words that are read were written before, by the program itself: where this does not follow, the place begins with zeros;
///   words that are read as residues are residues: constants are looked at, keys are asked at each replay (Place::below);
///   memory and products of a replay are within the limits.
/// `words`: of each place that is a constant, its words. Sets each place's `result`, `reach` and `below`, and each step's
/// figures. Returns of each result, limb by limb, what its words are less than. Throws ShapeError, MismatchError,
/// ParameterError, DamagedFileError, LimitError.
std::vector<std::vector<u64>> verify(Program::Parts& parts, const std::vector<std::span<const std::byte>>& words,
                                     const Surroundings& around, const Limits& limits);

}  // namespace heliograph::program
