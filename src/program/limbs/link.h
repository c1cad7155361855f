// What a text of limbs means: values, each written once, and actions on them, in one order for all chips.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "program/limbs/instructions.h"

namespace heliograph::program::limbs {

inline constexpr u32 kNone = ~u32{0};

/// What a program takes by name: 'i' a ciphertext, 'p' a plaintext, 's' a scalar.
struct Item {
  char kind = 0;
  std::string name;
  std::size_t level = 0;  // limbs of the chain that it has at least
};
/// A ciphertext that it gives: limb after limb of c0, then of c1.
struct Result {
  std::string name;
  std::size_t level = 0;
  std::vector<u32> values;
};

/// A key of hybrid key switching, in the primes 0 ... level - 1 and as many special ones as `extension` says.
struct Key {
  /// From the secret's square, its automorphisms, itself or an ephemeral secret to the secret; `to_ephemeral` the other way.
  /// Those that raise multiply by the last prime of their level besides, by which a rescaling divides.
  /// Those of Heliograph's own bootstrapping, `own`, have a number for their steps; their digits are pairs, counted from [0] on.
  enum Type : u32 { relinearization, rotation, conjugation, raise, to_ephemeral, raise_from_ephemeral, own };
  Type type = relinearization;
  u32 level = 0, extension = 0;
  std::int32_t turn = 0;                           // steps of a rotation, or a number
  std::vector<std::vector<std::uint16_t>> digits;  // the limbs of each, ascending
  /// "K:1:5:3:2:[0,2,4][1,3]": all that decides what is encrypted, in which primes.
  std::string name() const;
  static std::optional<Key> named(std::string_view name);
};

/// One limb of what is taken.
struct Source {
  char kind = 0;      // as in Term
  u32 which = 0;      // among the items or keys
  u32 component = 0;  // of a ciphertext: 0 or 1; of a key: 2 * digit, and 1 more for the mask
  std::uint16_t prime = 0;
  bool operator==(const Source&) const = default;
};

struct Value {
  enum class Kind : unsigned char { source, made };
  Kind kind = Kind::made;
  bool coefficients = false;  // its domain; else NTT
  std::uint16_t prime = 0;
  u32 device = 0;
  u32 at = 0;         // source: which; made: the slot it lies in
  u32 group = kNone;  // with whose members it lies side by side
};

/// Limbs that a conversion takes or makes, one slot after another.
struct Group {
  u32 device = 0;
  std::vector<u32> members;
  u32 at = kNone;  // the first one's slot
};

struct Action {
  enum class Kind : unsigned char {
    add,          // to = a + b
    subtract,     // to = a - b
    multiply,     // to = a b
    negate,       // to = -a
    add_scalar,   // to = a + b, b a scalar
    take_scalar,  // to = a - b
    scale,        // to = a b
    turn,         // an automorphism of a: `table` in turns
    ntt,          // to the other domain
    inverse,
    copy,
    move,     // from another device
    convert,  // the group a, to the group `to`: `table` in conversions
    divide,   // to = (a - b) / the primes of `table` in divisors; modulo `to`'s prime
  };
  Kind kind = Kind::copy;
  u32 to = 0, a = kNone, b = kNone, table = 0;
  u32 line = 0;  // of the instruction, in the stream of `chip`
  u32 chip = 0;
};

/// weight * turn(a) * b, of which all but one may be missing: what a fused action adds up (fuse.h).
struct Summand {
  u32 a = kNone, b = kNone;
  u32 scalar = kNone, divisor = kNone;  // the weight: a scalar; one over the primes of a list in divisors
  u32 turn = kNone;                     // in turns
  bool negative = false;
};
/// What a device does in one go.
struct Task {
  enum class Kind : unsigned char {
    sum,    // to = the sum of the summands from `first` on
    shift,  // to = a + the summand's scalar, a constant polynomial, of coefficients
    ntt,    // as of actions
    inverse,
    move,
    convert,
  };
  Kind kind = Kind::sum;
  u32 to = 0, a = kNone, table = 0;
  u32 first = 0, count = 0;
  u32 step = 0;  // tasks of one step need nothing of each other
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
  std::vector<Action> actions;  // as the text has them
  std::vector<Task> tasks;      // as they are done
  std::vector<Summand> summands;
  std::vector<std::int32_t> turns;  // steps, or kConjugation
  std::vector<Bases> conversions, divisors;
  std::vector<u32> slots;  // of each device: single limbs; then of the host, where devices have too few
  std::size_t instructions = 0;
  std::size_t chain = 0, special = 0;  // primes that it needs
};

/// Chip c runs on device c modulo `devices`. Throws InstructionError for what means nothing: a register that was never written
/// or was marked as read for the last time, the wrong domain or prime, chips that do not meet.
/// `fused`: as of fuse (tasks.h). `most`: limbs that each device has for what is made; none: as many as it takes. Throws OutOfMemoryError
/// where that is too few for what is needed at once.
Linked link(const Text& text, std::size_t devices = 1, bool fused = true, const std::vector<u32>& most = {});

}  // namespace heliograph::program::limbs
