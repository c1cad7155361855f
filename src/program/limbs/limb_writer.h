// Tools that lower a recorded program to instructions: limbs, the chips that have them, and operations on limbs.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/limbs/drafts.h"
#include "program/limbs/lower.h"

namespace heliograph::program::limbs {

using math::Conversion;
using Primes = std::vector<std::uint16_t>;

/// Size of a place's address range, as a number of bits. The artificial addresses of places are above all real memory.
inline constexpr int kPlaceBits = 40;

/// One limb of one polynomial. If several chips have partial sums of a limb, the limb is the sum of these parts.
struct Limb {
  enum class Kind : unsigned char { zero, source, made };
  Kind kind = Kind::made;
  bool coefficients = false;
  std::uint16_t prime = 0;
  char from = 0;       // kind of the source (Term)
  std::string symbol;  // symbol of a source
  std::map<std::size_t, Operand> parts, copies;
  u32 other = kNone;  // the same limb in the other domain, if it exists
};

/// The constants with which instructions compute a conversion: out = own x' + times [multiplier x], centred.
struct Factors {
  std::vector<u64> multiplier, times;  // multiplier: one constant per source; times: one constant per target
  std::vector<u64> product;            // product of the sources modulo each target
};

/// Maps the addresses of a recording to limbs, and has the operations that make limbs from limbs. The derived class
/// (lower.cpp) maps calls to these operations.
class LimbWriter {
 protected:
  LimbWriter(const Program::Parts& parts, const Lowering& how);

  static std::byte* at(std::size_t place, const std::byte* offset);
  static u64 address(const View& v, std::size_t item, std::size_t component, std::size_t limb);
  static std::string numbered(const std::string& name, const View& v, std::size_t item);
  std::size_t home(std::uint16_t prime) const { return prime % drafts_.chips(); }

  void know(u64 modulus, std::size_t index);
  /// Returns the instructions' index of a prime of the ring.
  std::uint16_t prime_of(device::PrimeIndex p) const;
  Primes primes_of(const device::PrimeList& list) const;
  Primes primes_of(const std::vector<u64>& moduli) const;

  Limb& limb(u32 x) { return limbs_[x]; }
  u32 add_limb(Limb l);
  u32 made(std::uint16_t prime, bool coefficients, std::size_t chip, const Operand& o);
  u32 zero(std::uint16_t prime, bool coefficients);
  /// Returns the coefficients of a limb in the NTT domain; only the first call transforms it.
  u32 coefficients_of(u32 values);
  u32 materialize(u32 x);
  bool is_zero(u32 x) { return limb(x).kind == Limb::Kind::zero; }
  bool is_source(u32 x) { return limb(x).kind == Limb::Kind::source; }

  /// Registers the limbs of an input; their symbol is `name`.
  void take_input(std::size_t place, const View& shape, const std::string& name, bool coefficients);

  u32 fetch(const View& v, std::size_t item, std::size_t component, std::size_t l, std::uint16_t prime);
  /// Fetches a limb for an addition to `beside`, hence in the domain of `beside`.
  u32 fetch_beside(const View& v, std::size_t item, std::size_t component, std::size_t l, std::uint16_t prime, u32 beside);
  /// Returns the limb at a view's address. `coefficients`: domain of a constant that is used for the first time.
  u32 find(const View& v, std::size_t item, std::size_t component, std::size_t l, std::uint16_t prime, bool coefficients);
  void write(const View& v, std::size_t item, std::size_t component, std::size_t l, u32 x);

  /// Returns the operand for a limb on a chip; if the limb is a source, the chip loads it.
  Operand load(u32 x, std::size_t chip);
  std::map<std::size_t, Operand> parts(u32 x);
  /// Adds the parts of a limb on one chip.
  void gather(u32 x);
  /// Makes the limb available on these chips; sends it to the chips that lack it.
  void bring(u32 x, const std::set<std::size_t>& chips);
  Operand on(u32 x, std::size_t chip);

  u32 each(Op op, u32 x, bool coefficients, std::int32_t steps = 0);
  u32 transform(u32 x, bool coefficients);
  u32 negated(u32 x) { return each(Op::neg_, x, limb(x).coefficients); }
  u32 sum(Op op, u32 a, u32 b);
  u32 product(u32 a, u32 b);
  /// Returns a scalar. Equal values modulo the same prime have the same name.
  Operand scalar(std::size_t chip, std::uint16_t prime, u64 value);
  Operand scaled(std::size_t chip, std::uint16_t prime, const Operand& x, u64 value);
  u32 scaled(u32 x, u64 value);
  u32 shifted(u32 x, u64 value);
  u32 turned(u32 x, std::int32_t turn);

  const Factors& factors(const Conversion& c);

  /// Converts coefficients x. The result at each target is own x' + times [multiplier x]. x' is a limb of `own`, and may be
  /// absent. `transformed`: x' and the result are in the NTT domain. `chip`: the chip that converts; by default the chips of
  /// the targets.
  std::vector<u32> convert(const Conversion& c, std::vector<u32> x, const std::vector<u32>& own, const std::vector<u64>& by,
                           bool transformed, std::optional<std::size_t> chip = std::nullopt);
  /// For each chip, the targets of a conversion that it computes.
  using ChipTargets = std::map<std::size_t, std::vector<std::size_t>>;
  /// Returns whether each chip converts its part of the limbs. Gathers the partial sums of the limbs to divide, unless the
  /// key switch aggregates partial results.
  bool keep_parts(const std::vector<u32>& sources, const std::vector<u32>& own);
  ChipTargets place_targets(const std::vector<std::size_t>& converted, const Primes& to, const std::vector<u32>& sources,
                            bool split, std::optional<std::size_t> chip);
  /// Converts the sources, or the chip's parts of them, to the primes of `targets`, on this chip.
  std::vector<Operand> convert_on(std::size_t chip, const Primes& from, const std::vector<u32>& sources, const Primes& to,
                                  const std::vector<std::size_t>& targets, bool split);
  /// Returns the part of limb x of `own` that a chip adds to its result. `first`: this chip adds sources that are not
  /// divided into parts.
  std::optional<Operand> own_part(u32 x, std::size_t chip, bool split, bool first);
  Operand combined(std::size_t chip, std::uint16_t prime, const Factors& f, std::size_t j,
                   const std::optional<Operand>& rest, const std::optional<Operand>& own, u64 by, bool transformed);
  /// Returns a chip's part of a limb. The zero is computed as a limb minus itself, because the instruction set has no zero
  /// constant.
  Operand part(u32 x, std::size_t chip);

  const Program::Parts& parts_;
  const Lowering& how_;
  Drafts drafts_;
  Lowered made_;
  std::size_t n_ = 0;
  std::map<u64, std::uint16_t> primes_;  // indexed by modulus
  std::array<u64, kPrimes> moduli_{};
  std::vector<Limb> limbs_;
  std::unordered_map<u64, u32> memory_;
  std::map<u64, std::size_t> constants_;
  std::map<std::pair<std::uint16_t, u64>, u32> scalars_;
  std::array<u32, kPrimes> of_prime_{};
  std::map<const Conversion*, std::optional<Factors>> factors_;
};

}  // namespace heliograph::program::limbs
