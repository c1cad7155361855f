// What a recorded program is lowered with: limbs, where they lie on chips, and instructions that compute with them.
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

/// Each place has addresses of its own, which no memory has.
inline constexpr int kPlaceBits = 40;

/// One limb of one polynomial. Where several chips have a part of it, it is their sum.
struct Limb {
  enum class Kind : unsigned char { zero, source, made };
  Kind kind = Kind::made;
  bool coefficients = false;
  std::uint16_t prime = 0;
  char from = 0;       // source: as in Term
  std::string symbol;  // source
  std::map<std::size_t, Operand> parts, copies;
  u32 other = kNone;  // the same in the other domain, where it is there
};

/// A conversion by what the set converts: out = own x' + times [multiplier x], centred.
struct Factors {
  std::vector<u64> multiplier, times;  // of each source, each target
  std::vector<u64> product;            // of the sources, modulo each target
};

/// The limbs that a recording's memory holds, by address, and what makes limbs of limbs. Which calls these are of is the
/// business of who derives from it (lower.cpp).
class LimbWriter {
 protected:
  LimbWriter(const Program::Parts& parts, const Lowering& how);

  static std::byte* at(std::size_t place, const std::byte* offset);
  static u64 address(const View& v, std::size_t item, std::size_t component, std::size_t limb);
  static std::string numbered(const std::string& name, const View& v, std::size_t item);
  std::size_t home(std::uint16_t prime) const { return prime % drafts_.chips(); }

  void know(u64 modulus, std::size_t index);
  /// A ring's prime as instructions name it.
  std::uint16_t prime_of(device::PrimeIndex p) const;
  Primes primes_of(const device::PrimeList& list) const;
  Primes primes_of(const std::vector<u64>& moduli) const;

  // Limbs.

  Limb& limb(u32 x) { return limbs_[x]; }
  u32 add_limb(Limb l);
  u32 made(std::uint16_t prime, bool coefficients, std::size_t chip, const Operand& o);
  u32 zero(std::uint16_t prime, bool coefficients);
  /// The coefficients of what is given by values, transformed once somebody asks for them.
  u32 coefficients_of(u32 values);
  u32 asked(u32 x);
  bool is_zero(u32 x) { return limb(x).kind == Limb::Kind::zero; }
  bool is_source(u32 x) { return limb(x).kind == Limb::Kind::source; }

  /// An operand's limbs, which the text takes by `name`.
  void take_input(std::size_t place, const View& shape, const std::string& name, bool coefficients);

  u32 fetch(const View& v, std::size_t item, std::size_t component, std::size_t l, std::uint16_t prime);
  /// `beside`: what it is added to, in whose domain it is then.
  u32 fetch_beside(const View& v, std::size_t item, std::size_t component, std::size_t l, std::uint16_t prime, u32 beside);
  /// `coefficients`: of a constant that nobody has met.
  u32 find(const View& v, std::size_t item, std::size_t component, std::size_t l, std::uint16_t prime, bool coefficients);
  void write(const View& v, std::size_t item, std::size_t component, std::size_t l, u32 x);

  /// The limb's operand where it lies; of a source, loaded there.
  Operand load(u32 x, std::size_t chip);
  std::map<std::size_t, Operand> parts(u32 x);
  /// One chip has all of it from now on.
  void gather(u32 x);
  /// The limb on each of these chips: sent where it is not.
  void bring(u32 x, const std::set<std::size_t>& chips);
  Operand on(u32 x, std::size_t chip);

  // Arithmetic of limbs.

  u32 each(Op op, u32 x, bool coefficients, std::int32_t steps = 0);
  u32 transform(u32 x, bool coefficients);
  u32 negated(u32 x) { return each(Op::neg_, x, limb(x).coefficients); }
  u32 sum(Op op, u32 a, u32 b);
  u32 product(u32 a, u32 b);
  /// Scalars have a name for each value that they have modulo a prime.
  Operand scalar(std::size_t chip, std::uint16_t prime, u64 value);
  Operand scaled(std::size_t chip, std::uint16_t prime, const Operand& x, u64 value);
  u32 scaled(u32 x, u64 value);
  /// x, a constant polynomial more.
  u32 shifted(u32 x, u64 value);
  u32 turned(u32 x, std::int32_t turn);

  // Conversions.

  const Factors& factors(const Conversion& c);

  /// What a conversion makes of coefficients x, at each target of it: own x' + times [multiplier x], with x' from `own`, whose
  /// limbs may be missing. `transformed`: own and the result are of the NTT domain. `chip`: where it is done, if not where its
  /// targets lie.
  std::vector<u32> convert(const Conversion& c, std::vector<u32> x, const std::vector<u32>& own, const std::vector<u64>& by,
                           bool transformed, std::optional<std::size_t> chip = std::nullopt);
  Operand combined(std::size_t chip, std::uint16_t prime, const Factors& f, std::size_t j,
                   const std::optional<Operand>& rest, const std::optional<Operand>& own, u64 by, bool transformed);
  /// A chip's part of what some chips have parts of. Zero is what something is less itself: the set has no other word for it.
  Operand part(u32 x, std::size_t chip);

  const Program::Parts& parts_;
  const Lowering& how_;
  Drafts drafts_;
  Lowered made_;
  std::size_t n_ = 0;
  std::map<u64, std::uint16_t> primes_;  // by modulus
  std::array<u64, kPrimes> moduli_{};
  std::vector<Limb> limbs_;
  std::unordered_map<u64, u32> memory_;
  std::map<u64, std::size_t> constants_;
  std::map<std::pair<std::uint16_t, u64>, u32> scalars_;
  std::array<u32, kPrimes> of_prime_{};
  std::map<const Conversion*, std::optional<Factors>> factors_;
};

}  // namespace heliograph::program::limbs
