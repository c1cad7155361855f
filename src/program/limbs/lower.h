// Lowering of a recorded program to a text of limbs: each call becomes instructions of one chip or several.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "program/limbs/link.h"
#include "program/program.h"

namespace heliograph::program::limbs {

struct Lowering {
  /// Distribution of a key switch over several chips. Limb l is on chip l modulo the number of chips.
  enum class Switching : unsigned char {
    broadcast,  // each chip raises all digits to its own limbs, so the input's limbs are sent to all chips
    sum,        // one chip raises each digit to all limbs; products are summed, then divided
    aggregate,  // like the method `sum`, but each chip divides its own products, and the quotients are summed
  };
  std::size_t chips = 1;
  Switching switching = Switching::broadcast;
  std::vector<u64> chain, special;           // the set's primes, in the order of its ring
  std::vector<std::string> inputs, results;  // one name per view; if a view has several items, an item's number is appended
                                             // to the name
  // for each input, whether the recording has it in the coefficient domain; instructions use the NTT domain
  std::vector<bool> coefficients;
  std::function<Key(const Place&)> key;
  std::function<std::int32_t(u64)> turn;  // returns the rotation steps of a Galois element, or Linked::kConjugation
};

/// A plaintext of the recorded program: its words.
struct Constant {
  struct Limb {
    std::uint16_t prime;
    u32 place;
    View view;                  // view of one limb; `data` is an offset from the first byte of the place
    bool coefficients = false;  // the words are in the coefficient domain; instructions use the NTT domain
  };
  std::string name;
  std::vector<Limb> limbs;
};

struct Lowered {
  Text text;
  std::vector<Constant> plaintexts;
  std::map<std::string, std::array<u64, kPrimes>> scalars;  // residues of each scalar
};

/// Throws ParameterError for calls and primes that the instruction set lacks.
Lowered lower(const Program::Parts& parts, const Lowering& how);

}  // namespace heliograph::program::limbs
