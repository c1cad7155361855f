// Programs of instructions as CKKS and BGV run them.
#pragma once

#include "heliograph/cinnamon.h"
#include "program/limbs/link.h"
#include "program/program.h"
#include "schemes/cinnamon/scheme.h"

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
  Scheme scheme;
  ring::RnsTensor limbs;  // of all plaintexts: components of one limb each, NTT domain, of its plaintext's primes
  std::map<std::string, Plaintext> plaintexts;
  std::map<std::string, std::array<math::u64, program::limbs::kPrimes>> scalars;  // residues
  std::map<std::string, AnyCiphertext> takes, gives;                              // what was said of them; no words
};

/// The key of that name among those that a set always has: relinearization, rotations, bootstrapping's own. Null where they
/// have none of its layout.
const rlwe::SwitchKey* own_key(const Scheme& scheme, const rlwe::EvaluationKeys& keys, const program::limbs::Key& key);
/// Calls on tensors of which this is said, written. Throws ParameterError.
Written write(const program::Program::Parts& parts, const std::vector<AnyCiphertext>& takes,
              const std::vector<AnyCiphertext>& gives, const Writing& how);
/// Throws ParameterError unless levels are the first few of the set's primes.
void require_prefixes(const Scheme& scheme);
/// Throws ParameterError where they are not, or the program needs more primes.
void require_fit(const Scheme& scheme, const program::limbs::Linked& program);

}  // namespace heliograph::cinnamon
