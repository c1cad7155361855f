// A recorded program as a text of limbs: each call becomes instructions of one chip or several.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "program/limbs/link.h"
#include "program/program.h"

namespace heliograph::program::limbs {

struct Lowering {
  /// Who raises the digits of a key switch where there are several chips. Limb l lies on chip l modulo the chips.
  enum class Switching : unsigned char {
    broadcast,  // each chip, to its own limbs: the input's limbs are sent to all
    sum,        // one chip a digit, to all limbs: products are added up, then divided
    aggregate,  // the same, but each chip divides its own products, and what it then has is added up
  };
  std::size_t chips = 1;
  Switching switching = Switching::broadcast;
  std::vector<u64> chain, special;           // the set's primes, as its ring counts them
  std::vector<std::string> inputs, results;  // a name for each view; of a view of several items, before each one's number
  std::vector<bool> coefficients;            // of each input: whether the recording has it so; instructions take values
  std::function<Key(const Place&)> key;
  std::function<std::int32_t(u64)> turn;  // steps of a Galois element, or Linked::kConjugation
};

/// What a program takes beside ciphertexts: words of the recording.
struct Constant {
  struct Limb {
    std::uint16_t prime;
    u32 place;
    View view;                  // of one limb; `data` counts from the first byte of the place
    bool coefficients = false;  // what the words there are; instructions take values
  };
  std::string name;
  std::vector<Limb> limbs;
};

struct Lowered {
  Text text;
  std::vector<Constant> plaintexts;
  std::map<std::string, std::array<u64, kPrimes>> scalars;  // residues
};

/// Throws ParameterError for calls and primes that the instruction set has not.
Lowered lower(const Program::Parts& parts, const Lowering& how);

}  // namespace heliograph::program::limbs
