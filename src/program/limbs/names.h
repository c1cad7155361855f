// Names in the lists of a program: inputs, keys, results.
#pragma once

#include <array>
#include <map>
#include <utility>

#include "program/limbs/link.h"

namespace heliograph::program::limbs {

/// A term that a chip's list declares.
struct Declared {
  char kind = 0;             // i, p, s, k; 'o' for an output
  u32 which = 0;             // index of the item, key or result
  u32 component = 0;         // component of the term, see Source
  u64 limbs = 0, freed = 0;  // sets of limbs as masks, one bit for each limb
  std::uint16_t freed_line = 0;
};

/// Returns the term's name, such as "v7".
std::string name_of(const Term& t);
inline u64 bit(std::size_t limb) { return u64{1} << limb; }
u64 bits(const std::vector<std::uint16_t>& limbs);

class Names {
 public:
  /// A component of a result that is an unchanged component of an input.
  struct Passed {
    u32 result, item, component;
  };

  Names(const Text& text, Linked& made);

  /// Returns the declaration of a chip's entry. The entry must also be in the program's lists.
  Declared of_chip(const Listing& listing, const Section& section, const Entry& e);
  /// A term of a result's component. Several terms of one name are summands.
  struct Part {
    Term term;  // `limb` is unused
    u64 limbs = 0;
    u32 line = 0;
  };
  /// Returns the terms of a result's component in program_inputs; empty if an input's component is the result.
  const std::vector<Part>& parts(u32 result, u32 component) const { return parts_[result][component]; }
  const std::vector<Passed>& passed() const { return passed_; }

 private:
  [[noreturn]] static void odd(const std::string& file, const Entry& e);
  static std::string symbol_of(const Declared& d, const Entry& e) { return (d.kind == 'o' ? "o" : "i") + e.symbol; }

  void note(const Listing& listing, const Section& s, const Entry& e);

  // The compiler names each polynomial only once. If an input's component is also a result's, as in x + p, the inputs list
  // it by the result's name, and no chip stores it.

  /// Returns whether a symbol is a component of a result that no chip stores.
  bool names_result(const std::string& symbol) const;

  /// Names an input's component after the other component, which has the adjacent number.
  void rename(const Listing& all, const Entry& e);
  Declared declared(const std::string& file, const std::string& title, const Entry& e, bool of_program);
  void key(const std::string& file, const Entry& e, Declared& d, bool of_program);
  void require_covered(const Listing& listing) const;
  void note_part(const Listing& listing, const Entry& e, const Declared& d);
  void grow(const Declared& d);
  void finish(const Listing& listing, const std::string& name, u32 which);

  /// Finds the input whose component is a result that no chip stores. The found input has the result's name, or is the only
  /// candidate by name, or the only unused input.
  void pass(const Listing& listing, const std::string& part, u32 which, u32 component);

  Linked& made_;
  std::map<std::string, u32> items_, results_, keys_;
  std::map<std::string, u64> limbs_;  // indexed by symbol, with the prefix i or o
  std::map<std::string, std::pair<u32, u32>> aliases_;
  std::vector<Passed> passed_;
  std::vector<u32> lines_;      // line of each result, by the result's index
  std::vector<u32> key_lines_;  // last line of each key, by the key's index
  std::vector<u64> key_limbs_;  // listed limbs of each key, by the key's index
  std::vector<std::array<std::vector<Part>, 2>> parts_;
};

}  // namespace heliograph::program::limbs
