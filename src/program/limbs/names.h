// What the lists of a program name: inputs, keys, results.
#pragma once

#include <array>
#include <map>
#include <utility>

#include "program/limbs/link.h"

namespace heliograph::program::limbs {

/// What a chip's lists say of a term.
struct Declared {
  char kind = 0;             // of what it is: i, p, s, k; 'o' for an output
  u32 which = 0;             // item, key or result
  u32 component = 0;         // as of Source
  u64 limbs = 0, freed = 0;  // bits
  std::uint16_t freed_line = 0;
};

/// "v7"
std::string name_of(const Term& t);
inline u64 bit(std::size_t limb) { return u64{1} << limb; }
u64 bits(const std::vector<std::uint16_t>& limbs);

/// What lists name.
class Names {
 public:
  /// A component of a result that is one of an input, as it was given.
  struct Passed {
    u32 result, item, component;
  };

  Names(const Text& text, Linked& made);

  /// A chip's own entry, which the program's lists must have.
  Declared of_chip(const Listing& listing, const Section& section, const Entry& e);
  u32 result_line(u32 which) const { return lines_[which]; }
  /// A term of a result's component. Several of one name are parts of a sum.
  struct Part {
    Term term;  // its limb means nothing
    u64 limbs = 0;
    u32 line = 0;
  };
  /// The terms of a result's component, as program_inputs lists them; none where it is an input's.
  const std::vector<Part>& parts(u32 result, u32 component) const { return parts_[result][component]; }
  const std::vector<Passed>& passed() const { return passed_; }

 private:
  [[noreturn]] static void odd(const std::string& file, const Entry& e);
  static std::string symbol_of(const Declared& d, const Entry& e) { return (d.kind == 'o' ? "o" : "i") + e.symbol; }

  void note(const Listing& listing, const Section& s, const Entry& e);

  // The compiler names a polynomial once: an input's that is a result's too, as of x + p, has the result's name among the inputs
  // and is not stored.

  /// Whether this is a component of a result that is not stored.
  bool names_result(const std::string& symbol) const;

  /// The input is that of the other component, which was numbered beside it.
  void rename(const Listing& all, const Entry& e);
  Declared declared(const std::string& file, const std::string& title, const Entry& e, bool of_program);
  void key(const std::string& file, const Entry& e, Declared& d, bool of_program);
  void require_covered(const Listing& listing) const;
  void note_part(const Listing& listing, const Entry& e, const Declared& d);
  void grow(const Declared& d);
  void finish(const Listing& listing, const std::string& name, u32 which);

  /// A component that is not stored: an input's. It is named, or the only one that is, or the only one that is not used.
  void pass(const Listing& listing, const std::string& part, u32 which, u32 component);

  Linked& made_;
  std::map<std::string, u32> items_, results_, keys_;
  std::map<std::string, u64> limbs_;  // by symbol, behind an i or an o
  std::map<std::string, std::pair<u32, u32>> aliases_;
  std::vector<Passed> passed_;
  std::vector<u32> lines_;      // of each result
  std::vector<u32> key_lines_;  // of each key: its last one
  std::vector<u64> key_limbs_;  // bits that are listed of it
  std::vector<std::array<std::vector<Part>, 2>> parts_;
};

}  // namespace heliograph::program::limbs
