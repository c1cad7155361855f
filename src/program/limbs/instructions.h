// Programs of single limbs as text: the Cinnamon instruction set (docs/cinnamon.md). A text has an instruction stream for
// each chip, and lists of its inputs and outputs. This file parses and prints texts; link.h resolves their values.
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

/// Indices of primes: indices of chain primes ascend from 0, indices of special primes descend from 63.
inline constexpr std::size_t kPrimes = 64;
inline constexpr u32 kMostRegisters = 1 << 16, kMostUnits = 1 << 10, kMostChips = 1 << 10;

/// list of F(name, form of the instruction's operands)
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
  unit_begins,          // bci B0: [1,2], [3]; begins a conversion
  into_unit,            // pl1 B0: r1 | 3; adds a limb to a conversion
  group,                // rsi {r1, r2}
  into_group,           // rsv {r1, r2}: r3: [0,1] | 1
  out_of_group,         // mod r3: {r1, r2[X]} | 4
  sends,                // dis @ 7:2 : r1
  receives,             // rcv @ 7:2 r1:
  joins,                // joins r2 of several chips to a sum in r1; either register may be missing
  nothing,              // nop
};
Form form_of(Op op);
/// Groups of forms whose operands have the same syntax.
enum class OperandKind : unsigned char { memory, arithmetic, conversion, grouped, exchange, none };
OperandKind operand_kind(Form form);
const char* name_of(Op op);

struct Register {
  enum class Kind : unsigned char {
    none,
    vector,     // r1
    scalar,     // s1
    converted,  // b0{1}
  };
  Kind kind = Kind::none;
  bool last = false;  // "[X]": the instruction is the last one that uses the value
  std::uint16_t unit = 0;
  u32 number = 0;
  bool operator==(const Register&) const = default;
};
std::string to_string(const Register& r);  // the text without "[X]"

/// A limb in memory.
struct Term {
  char kind = 0;       // i: ciphertext, p: plaintext, s: scalar, k: key, v or t: made by the program
  bool freed = false;  // "{F}": the instruction is the last one that loads the limb
  std::uint16_t limb = 0;
  u32 number = 0;
  bool operator==(const Term&) const = default;
};
std::string to_string(const Term& t);  // the text without "{F}"

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
  std::int32_t steps = 0;     // steps of a rotation
  std::uint16_t unit = 0;     // conversion unit to which the instruction adds a limb
  u32 size = 0;               // number of chips in the exchange
  u64 meeting = 0;            // number that identifies the exchange
  Slice primes, more, group;  // lists of primes; list of registers
  bool operator==(const Instruction&) const = default;
};

/// The instructions of one chip.
struct Stream {
  std::string file;
  u32 number = 0;  // number in the first line of the file
  std::vector<Instruction> instructions;
  std::vector<std::uint16_t> primes;  // all primes of the instructions' lists
  std::vector<Register> registers;    // all registers of the groups that the instructions use

  std::span<const std::uint16_t> list(Slice s) const { return std::span(primes).subspan(s.first, s.count); }
  std::span<const Register> group(Slice s) const { return std::span(registers).subspan(s.first, s.count); }
};

/// A line of a list: "i1 | x:c0 | [0,1]".
struct Entry {
  Term term;  // `limb` is unused
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
  std::vector<Stream> streams;  // streams of chips 0, 1, ...
  std::vector<Listing> inputs;  // indexed by chip
  Listing program;              // list of the whole program
};

struct File {
  std::string name, text;
};

/// Parses the files `instructions0`, `inputs0` and so on of each chip, and `program_inputs`; ignores other files. Throws
/// InstructionError, with file, line and word, for invalid text or a missing file.
Text parse(const std::vector<File>& files);
/// Prints the files. Output of the compiler is reproduced exactly; other files may differ in blanks.
std::vector<File> print(const Text& text);
std::string print(const Stream& stream);
std::string print(const Stream& stream, const Instruction& instruction);
std::string print(const Listing& listing);

/// Throws InstructionError with a message such as "instructions0:17: r3: why".
[[noreturn]] void refuse(const std::string& file, std::size_t line, std::string_view word, const std::string& why);

}  // namespace heliograph::program::limbs
