// Programs of single limbs as text has them: the Cinnamon instruction set (docs/cinnamon.md), streams of instructions for several
// chips, and lists of what they take and give. Parsing and printing alone; what a program means is linked (link.h).
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.h"
#include "math/modulus.h"

namespace heliograph::program::limbs {

using math::u32;
using math::u64;

/// Indices of primes: a chain counts up from 0, special primes count down from 63.
inline constexpr std::size_t kPrimes = 64;
inline constexpr u32 kMostRegisters = 1 << 16, kMostUnits = 1 << 10, kMostChips = 1 << 10;

/// F(name, how its operands are written)
#define HELIOGRAPH_INSTRUCTIONS(F) \
  F(load, memory_to_register)      \
  F(loas, memory_to_scalar)        \
  F(store, register_to_memory)     \
  F(spill, register_to_memory)     \
  F(evg, memory_to_register)       \
  F(rec, memory_with_prime)        \
  F(snd, register_with_prime)      \
  F(add, two_operands)             \
  F(sub, two_operands)             \
  F(mul, two_operands)             \
  F(mup, two_operands)             \
  F(ads, register_and_scalar)      \
  F(sus, register_and_scalar)      \
  F(mus, register_and_scalar)      \
  F(neg, one_operand)              \
  F(mov, one_operand)              \
  F(con, one_operand)              \
  F(rot, rotation)                 \
  F(ntt, one_operand)              \
  F(int, one_operand)              \
  F(bci, unit_begins)              \
  F(pl1, into_unit)                \
  F(pll, into_unit)                \
  F(bcw, into_unit)                \
  F(sud, two_operands)             \
  F(rsi, group)                    \
  F(rsv, into_group)               \
  F(mod, out_of_group)             \
  F(dis, sends)                    \
  F(rcv, receives)                 \
  F(joi, joins)                    \
  F(nop, nothing)

enum class Op : unsigned char {
#define HELIOGRAPH_OP(name, form) name##_,
  HELIOGRAPH_INSTRUCTIONS(HELIOGRAPH_OP)
#undef HELIOGRAPH_OP
};
enum class Form : unsigned char {
  memory_to_register,   // load r1: i2(3){F}
  memory_to_scalar,     // loas s1: s2(3)
  register_to_memory,   // store r1[X]: v2(3)
  memory_with_prime,    // rec r1: i2(3) | 3
  register_with_prime,  // snd r1: v2(3) | 3
  two_operands,         // add r1: r2[X], b0{1} | 3
  register_and_scalar,  // ads r1: r2, s3[X] | 3
  one_operand,          // neg r1: r2 | 3
  rotation,             // rot -2 r1: r2 | 3
  unit_begins,          // bci B0: [1,2], [3]
  into_unit,            // pl1 B0: r1 | 3
  group,                // rsi {r1, r2}
  into_group,           // rsv {r1, r2}: r3: [0,1] | 1
  out_of_group,         // mod r3: {r1, r2[X]} | 4
  sends,                // dis @ 7:2 : r1
  receives,             // rcv @ 7:2 r1:
  joins,                // joi @ 7:2 r1: r2 | 3, either register may be missing
  nothing,              // nop
};
Form form_of(Op op);
const char* name_of(Op op);

struct Register {
  enum class Kind : unsigned char {
    none,
    vector,     // r1
    scalar,     // s1
    converted,  // b0{1}
  };
  Kind kind = Kind::none;
  bool last = false;  // "[X]": its value is used no more
  std::uint16_t unit = 0;
  u32 number = 0;
  bool operator==(const Register&) const = default;
};
std::string to_string(const Register& r);  // without a mark

/// A limb in memory.
struct Term {
  char kind = 0;       // i: ciphertext, p: plaintext, s: scalar, k: key, v or t: made by the program
  bool freed = false;  // "{F}": this load is its last
  std::uint16_t limb = 0;
  u32 number = 0;
  bool operator==(const Term&) const = default;
};
std::string to_string(const Term& t);  // without a mark

/// Where a list begins in its stream, and its length.
struct Slice {
  u32 first = 0, count = 0;
  bool operator==(const Slice&) const = default;
};

struct Instruction {
  static constexpr std::uint16_t kNoPrime = 0xffff;
  Op op = Op::nop_;
  std::uint16_t prime = kNoPrime;
  u32 line = 0;
  Register to, a, b;
  Term term;
  std::int32_t steps = 0;     // of a rotation
  std::uint16_t unit = 0;     // of what fills one
  u32 size = 0;               // chips that meet
  u64 meeting = 0;            // where
  Slice primes, more, group;  // lists of primes; registers
  bool operator==(const Instruction&) const = default;
};

/// The instructions of one chip.
struct Stream {
  std::string file;
  u32 number = 0;  // as its first line says
  std::vector<Instruction> instructions;
  std::vector<std::uint16_t> primes;  // that instructions list
  std::vector<Register> registers;    // of groups

  std::span<const std::uint16_t> list(Slice s) const { return std::span(primes).subspan(s.first, s.count); }
  std::span<const Register> group(Slice s) const { return std::span(registers).subspan(s.first, s.count); }
};

/// "i1 | x:c0 | [0,1]"
struct Entry {
  Term term;  // its limb means nothing
  std::string symbol;
  std::vector<std::uint16_t> limbs;
  u32 line = 0;
};
struct Section {
  std::string title;  // "Input", "Output", "Ciphertext", "Plaintext", "Scalar", "Evalkey"
  std::vector<Entry> entries;
};
struct Listing {
  std::string file;
  std::vector<Section> sections;
};

struct Text {
  std::vector<Stream> streams;  // of chip 0, 1, ...
  std::vector<Listing> inputs;  // of each
  Listing program;              // of all together
};

/// A file's name and content.
struct File {
  std::string name, text;
};

/// Files `instructions0`, `inputs0`, ... of each chip and `program_inputs`; others are not looked at. Throws InstructionError, which
/// names file, line and word, for what is none of this, and for a file that is missing.
Text parse(const std::vector<File>& files);
/// The files again. What the compiler wrote is given back as it was; blanks of other writers may move.
std::vector<File> print(const Text& text);
std::string print(const Stream& stream);
std::string print(const Stream& stream, const Instruction& instruction);
std::string print(const Listing& listing);

/// "instructions0:17: r3: why"
[[noreturn]] void refuse(const std::string& file, std::size_t line, std::string_view word, const std::string& why);

}  // namespace heliograph::program::limbs
