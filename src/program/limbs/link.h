// Linking: resolves a text of instructions to values, each written once, and actions on them, in one order for all chips.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "program/limbs/instructions.h"

namespace heliograph::program::limbs {

inline constexpr u32 kNone = ~u32{0};

/// A named input: 'i' a ciphertext, 'p' a plaintext, 's' a scalar.
struct Item {
  char kind = 0;
  std::string name;
  std::size_t level = 0;  // minimum number of chain primes
};
/// A ciphertext of the output: the limbs of c0, then of c1.
struct Result {
  std::string name;
  std::size_t level = 0;
  std::vector<u32> values;
};

/// A key of hybrid key switching, modulo the primes 0 ... level - 1 and `extension` special primes.
struct Key {
  /// Kinds of key switches. `to_ephemeral` switches from the secret to an ephemeral secret. All other key switches are to
  /// the secret: from its square, an automorphism of it, the secret itself or the ephemeral secret. The types with `raise`
  /// also multiply by the last prime of their level, by which a rescaling divides. `own` is a key of Heliograph's own
  /// bootstrapping. A key `own` has a number instead of steps, and its digits are numbered pairs, from [0].
  enum Type : u32 { relinearization, rotation, conjugation, raise, to_ephemeral, raise_from_ephemeral, own };
  Type type = relinearization;
  u32 level = 0, extension = 0;
  std::int32_t turn = 0;                           // steps of a rotation, or number of an `own` key
  std::vector<std::vector<std::uint16_t>> digits;  // limbs of each digit, ascending
  /// "K:1:5:3:2:[0,2,4][1,3]", which identifies the value that the key encrypts, and the key's primes.
  std::string name() const;
  static std::optional<Key> named(std::string_view name);
};

struct Source {
  char kind = 0;      // kind of the source, see Term::kind
  u32 which = 0;      // index among the items or among the keys
  u32 component = 0;  // component of a ciphertext: 0 or 1; of a key: 2 * digit, plus 1 for the mask
  std::uint16_t prime = 0;
  bool operator==(const Source&) const = default;
};

struct Value {
  enum class Kind : unsigned char { source, made };
  Kind kind = Kind::made;
  bool coefficients = false;  // coefficient domain; otherwise NTT domain
  std::uint16_t prime = 0;
  u32 device = 0;
  u32 at = 0;         // index of a source, or slot of a computed value
  u32 group = kNone;  // group whose members have adjacent slots
};

/// Limbs that a conversion reads or writes, in adjacent slots.
struct Group {
  u32 device = 0;
  std::vector<u32> members;
  u32 at = kNone;  // slot of the first member
};

struct Action {
  enum class Kind : unsigned char {
    add,          // to = a + b
    subtract,     // to = a - b
    multiply,     // to = a b
    negate,       // to = -a
    add_scalar,   // to = a + b, where b is a scalar
    take_scalar,  // to = a - b, where b is a scalar
    scale,        // to = a b, where b is a scalar
    turn,         // to = an automorphism of a: the automorphism at index `table` in turns
    ntt,          // to = a in the other domain
    inverse,
    copy,
    move,     // to = a copy of a on another device
    convert,  // group `to` = group `a` after the conversion at index `table` in conversions
    divide,   // to = (a - b) / the primes of number `table` in divisors, modulo the prime of `to`
  };
  Kind kind = Kind::copy;
  u32 to = 0, a = kNone, b = kNone, table = 0;
  u32 line = 0;  // line of the instruction in the stream of `chip`
  u32 chip = 0;
};

/// A summand of an action that fuse.cpp has merged: weight * turn(a) * b, where turn is an automorphism. Factors may be
/// missing, but not all of them.
struct Summand {
  u32 a = kNone, b = kNone;
  u32 scalar = kNone, divisor = kNone;  // the weight: a scalar, or the inverse of the primes in divisors[divisor]
  u32 turn = kNone;                     // index of the automorphism in turns
  bool negative = false;
};
struct Task {
  enum class Kind : unsigned char {
    sum,    // to = sum of `count` summands from number `first` on
    shift,  // to = a + a constant polynomial, the summand's scalar, in the coefficient domain
    ntt,    // the following kinds are as in Action
    inverse,
    move,
    convert,
  };
  Kind kind = Kind::sum;
  u32 to = 0, a = kNone, table = 0;
  u32 first = 0, count = 0;
  u32 step = 0;  // tasks of one step are independent
};

struct Bases {
  std::vector<std::uint16_t> from, to;
  auto operator<=>(const Bases&) const = default;
};

struct Linked {
  static constexpr std::int32_t kConjugation = 1 << 30;
  std::size_t chips = 0, devices = 1;
  std::vector<Item> items;
  std::vector<Key> keys;
  std::vector<Result> results;
  std::vector<Source> sources;
  std::vector<Value> values;
  std::vector<Group> groups;
  std::vector<Action> actions;  // in the order of the text
  std::vector<Task> tasks;      // in the order of execution
  std::vector<Summand> summands;
  std::vector<std::int32_t> turns;  // automorphisms: steps, or kConjugation
  std::vector<Bases> conversions, divisors;
  std::vector<u32> slots;  // limbs in the slots of each device, and of the host if devices have too little memory
  std::size_t instructions = 0;
  std::size_t chain = 0, special = 0;  // numbers of chain primes and special primes that the program needs
};

/// Links a text. The instructions of chip c run on device c modulo `devices`. `fused`: see fuse() (tasks.h). `most`: largest
/// number of limbs of intermediate values on each device; empty: no limit. Throws InstructionError for invalid programs: a
/// register that was not written or was marked as last read, a wrong domain or prime, exchanges on which the chips disagree.
/// Throws OutOfMemoryError if a step needs more than `most` limbs.
Linked link(const Text& text, std::size_t devices = 1, bool fused = true, const std::vector<u32>& most = {});

}  // namespace heliograph::program::limbs
