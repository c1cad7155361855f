// Programs of instructions as CKKS and BGV run them.
#pragma once

#include "heliograph/cinnamon.h"
#include "program/limbs/link.h"
#include "program/limbs/scales.h"
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
  std::map<std::string, std::size_t> take_numbers, give_numbers;                  // which item of its tensor each is
  /// The program that was written, if it has the recording's bits: what was said of the results holds for this one.
  std::shared_ptr<const Program::State> exact;
};

/// The key of that name among those that a set always has: relinearization, rotations, bootstrapping's own. Null where they
/// have none of its layout.
const rlwe::SwitchKey* own_key(const Scheme& scheme, const rlwe::EvaluationKeys& keys, const program::limbs::Key& key);
/// Calls on tensors of which this is said, written. Throws ParameterError.
Written write(const program::Program::Parts& parts, const std::vector<AnyCiphertext>& takes,
              const std::vector<AnyCiphertext>& gives, const Writing& how);
/// How scales behave in a set of CKKS.
program::limbs::ScaleRules scale_rules(const Scheme& scheme, double tolerance);
/// The given scales of plaintexts and scalars, into `items`. Throws ParameterError for names that the program does not take, ScaleError.
void take_scales(const program::limbs::Linked& program, const std::map<std::string, double>& given,
                 std::vector<double>& items);
/// Throws ParameterError unless levels are the first few of the set's primes.
void require_prefixes(const Scheme& scheme);
/// Throws ParameterError where they are not, or the program needs more primes.
void require_fit(const Scheme& scheme, const program::limbs::Linked& program);

}  // namespace heliograph::cinnamon
