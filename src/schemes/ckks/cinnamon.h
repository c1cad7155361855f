// Programs of instructions as CKKS runs them.
#pragma once

#include "heliograph/cinnamon.h"
#include "program/limbs/link.h"
#include "program/program.h"
#include "schemes/ckks/context.h"

namespace heliograph::cinnamon {

struct Program::State {
  program::limbs::Text text;
  std::shared_ptr<const program::limbs::Linked> linked;  // for one device
};

struct Words {
  struct Plaintext {
    std::size_t first = 0;  // among the limbs
    std::vector<std::uint16_t> primes;
  };
  std::shared_ptr<ckks::Context> context;
  ckks::RnsTensor limbs;  // of all plaintexts: components of one limb each, NTT domain, of its plaintext's primes
  std::map<std::string, Plaintext> plaintexts;
  std::map<std::string, std::array<math::u64, program::limbs::kPrimes>> scalars;  // residues
  std::map<std::string, double> takes, gives;                                     // scales
  bool complex = false;                                                           // of a result
};

/// The primes of a program's key in a set: its level's, then the special ones it uses. None where the set lacks some.
std::optional<rlwe::KeyLayout> layout_of(const rlwe::Context& context, const program::limbs::Key& key);
/// The key of that name among those that a set always has: relinearization, rotations, bootstrapping's own. Null where they
/// have none of its layout.
const rlwe::SwitchKey* own_key(const ckks::EvaluationKeysData& keys, const program::limbs::Key& key);
/// Calls on ciphertexts of which this is said, written. Throws ParameterError.
Written write(const program::Program::Parts& parts, const std::vector<const ckks::CiphertextData*>& takes,
              const std::vector<const ckks::CiphertextData*>& gives, const Writing& how);
/// Throws ParameterError unless levels are the first few of the set's primes.
void require_prefixes(const ckks::Context& context);
/// Throws ParameterError where they are not, or the program needs more primes.
void require_fit(const ckks::Context& context, const program::limbs::Linked& program);

}  // namespace heliograph::cinnamon
