// Instruction programs in terms of CKKS and BGV.
#pragma once

#include "heliograph/cinnamon.h"
#include "program/limbs/link.h"
#include "program/limbs/scales.h"
#include "program/program.h"
#include "schemes/cinnamon/scheme.h"

namespace heliograph::cinnamon {

struct Program::State {
  program::limbs::Text text;
  std::shared_ptr<const program::limbs::Linked> linked;  // linked for one device
};

struct Words {
  struct Plaintext {
    std::size_t first = 0;  // index of the first limb in `limbs`
    std::vector<std::uint16_t> primes;
  };
  Scheme scheme;
  ring::RnsTensor limbs;  // limbs of all plaintexts (NTT domain), each a component
  std::map<std::string, Plaintext> plaintexts;
  std::map<std::string, std::array<math::u64, program::limbs::kPrimes>> scalars;  // metadata of inputs and results
  std::map<std::string, AnyCiphertext> takes, gives;                              // inputs and results without words
  std::map<std::string, std::size_t> take_numbers, give_numbers;                  // index of the item in its tensor
  /// The written program, if its results have the recording's bits. Results with the recording's bits also have the recorded
  /// results' metadata.
  std::shared_ptr<const Program::State> exact;
};

/// Returns the key `key` among the set's usual keys: relinearization, rotations, bootstrapping. Null if the set has no such
/// key with the layout of `key`.
const rlwe::SwitchKey* own_key(const Scheme& scheme, const rlwe::EvaluationKeys& keys, const program::limbs::Key& key);
/// Writes the calls of a recorded program as instructions; `takes` and `gives` have the metadata of its inputs and
/// results. Throws ParameterError.
Written write(const program::Program::Parts& parts, const std::vector<AnyCiphertext>& takes,
              const std::vector<AnyCiphertext>& gives, const Writing& how);
program::limbs::ScaleRules scale_rules(const Scheme& scheme, double tolerance);
/// Stores the given scales of plaintexts and scalars in `items`. Throws ParameterError for unknown names; ScaleError.
void take_scales(const program::limbs::Linked& program, const std::map<std::string, double>& given,
                 std::vector<double>& items);
/// Throws ParameterError unless each level is a prefix of the set's primes.
void require_prefixes(const Scheme& scheme);
/// Throws ParameterError unless require_prefixes passes and the set has the primes that the program needs.
void require_fit(const Scheme& scheme, const program::limbs::Linked& program);

}  // namespace heliograph::cinnamon
