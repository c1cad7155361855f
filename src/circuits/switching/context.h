// Constants of a pair of parameter sets: CKKS of degree N with lowest prime q, TFHE with a wide key of dimension d, a power
// of two that divides N. The wide key as a polynomial is S. S(X^r) with r = N / d is a secret of the ring of degree N, and
//   c(X) = sum over j < r of X^j c_j(X^r)
// splits a ciphertext under S(X^r) into r ciphertexts of degree d under S. Coefficient i of c_j is an LWE ciphertext under
// the wide key.
//
// The key switch to S(X^r) has no special primes, because the modulus at dimension d is limited to q. The digits of x are
// kDigits signed digits of the fraction x / q in base 2^kDigitBits; the remainder is rounded.
#pragma once

#include <map>
#include <mutex>

#include "heliograph/switching.h"
#include "schemes/ckks/bootstrapping.h"
#include "schemes/tfhe/context.h"

namespace heliograph::switching {

using device::PrimeList;
using device::View;
using math::Domain;
using math::u64;
using ring::RnsTensor;

/// Number of digits of the key switch to S. The base of these digits is the smallest power of two for which they drop at
/// most kDroppedBits bits of a residue modulo q.
inline constexpr std::size_t kDigits = 3;
inline constexpr int kDroppedBits = 8;
/// Number of standard deviations of a Gaussian error in a bound.
inline constexpr double kDeviations = rlwe::NoiseModel::kDeviations;
/// Number of Gaussians of deviation 3.19 whose sum is an error of a key under S. With this number the ratio of error and q
/// equals the ratio for TFHE's wide key.
inline constexpr std::size_t kErrors = 2;
/// LWE words are multiples of 2^-kTurnBits turns before a circuit multiplies them by 2^(64 - kTurnBits): residues modulo
/// 2^kTurnBits, which conversions handle.
inline constexpr int kTurnBits = 59;
/// log2 of the largest factor by which a circuit multiplies a phase; factors are 32-bit integers.
inline constexpr unsigned kMostFactor = 30;
/// Fraction of a unit by which a bound on values may exceed the range of the integers. Values beyond the range are rounded
/// to the range's end.
inline constexpr double kSlack = 0.25;

/// Returns the variance of an error of a key under S.
inline double error_variance() { return kErrors * math::kSigma * math::kSigma; }

/// Orders the work of two sessions with separate queues: `later` may use the view's memory after all work that `earlier` has
/// enqueued. `earlier` is the session that allocated this memory or wrote it last.
void order(const device::Session& earlier, const device::Session& later, const View& view);

/// Splits a polynomial modulo a prime q into digits, as signed residues.
class Digits {
 public:
  explicit Digits(ring::Engine& engine);
  /// x: one component, coefficient domain. Returns a component for each digit in the NTT domain.
  RnsTensor operator()(const RnsTensor& x) const;
  /// Returns the weight of digit j (from 1 on): q / 2^(bits j), rounded.
  u64 gadget(std::size_t digit) const;
  unsigned bits() const { return bits_; }
  /// Returns the variance that a switch by these digits adds to a phase, in units of q. `n`: the degree; `error`: the
  /// variance of the key's errors; `norm`: the squared norm of the former secret.
  double variance(double n, double error, double norm) const;

 private:
  u64 q_;
  unsigned bits_;
  u64 offset_, half_;  // offset added to x; half a base, subtracted from each digit
  std::vector<std::shared_ptr<const device::ConversionConstant>> conversions_;
};

/// The windows by which bootstraps read the sign of a value x, one bootstrap for each window; see sign_circuit.
struct SignPlan {
  unsigned bootstraps = 0;
  std::int32_t ratio = 1;   // size of a window, divided by the previous window's
  double window = 0;        // units in a turn of the input phase, which the last window reads
  double log2_failure = 0;  // log2 of the probability that one value fails

  auto operator<=>(const SignPlan&) const = default;
};

class Context {
 public:
  /// Throws ParameterError, SecurityError, MismatchError.
  Context(std::shared_ptr<ckks::Context> ckks, std::shared_ptr<tfhe::Context> tfhe);

  const std::shared_ptr<ckks::Context>& ckks() const { return ckks_; }
  const std::shared_ptr<tfhe::Context>& tfhe() const { return tfhe_; }
  double q() const { return q_; }
  std::size_t wide() const { return wide_; }
  std::size_t parts() const { return ckks_->spec().n / wide_; }  // r
  /// Returns the layout of the key to S(X^r).
  rlwe::KeyLayout to_wide_layout() const { return {low_, kDigits}; }
  u64 gadget(std::size_t digit) const { return digits_.gadget(digit); }

  /// Switches to S(X^r). x: [items], degree one, lowest level, NTT domain.
  RnsTensor to_wide(const RnsTensor& x, const rlwe::SwitchKey& key) const;
  /// Returns the phases of the first `width` slots as LWE ciphertexts, [items, width], in units of 2^-kTurnBits turns. x:
  /// [items] under S(X^r), coefficient domain, with values in the coefficients of a bootstrap's transform.
  lwe::Tensor extract(const RnsTensor& x, std::size_t width) const;
  /// Returns the variance, in squared turns, that to_wide and extract together add to a phase.
  double variance() const;

  /// Return the context of the ring of degree d modulo q; own_narrow returns it on the key holder's device.
  rlwe::Context& narrow() const { return *narrow_; }
  const std::shared_ptr<rlwe::Context>& narrow_shared() const { return narrow_; }
  std::shared_ptr<rlwe::Context> own_narrow() const;
  /// Return the layouts of the packing keys, which switch from S(X^g) to S, and of the key from S(X^r) to the CKKS key.
  rlwe::KeyLayout packing_layout() const { return {kFirst, kDigits}; }
  rlwe::KeyLayout to_dense_layout() const;
  /// Returns the g of the packing keys: 2^l + 1 for l from 1 to log2 d.
  std::vector<u64> packing_galois() const;
  /// Packs the phases of [items, width] LWE ciphertexts into the first `width` slots' coefficients, modulo q: [items] under
  /// S(X^r), coefficient domain. The low 32 bits of the words are dropped.
  RnsTensor pack(const lwe::Tensor& x, const std::map<u64, rlwe::SwitchKey>& keys) const;
  /// Switches from S(X^r) to the CKKS key. Operand and result are in the NTT domain.
  RnsTensor to_dense(const RnsTensor& x, const rlwe::SwitchKey& key) const;
  /// Returns the variance, in squared turns, that to_wide and extract together add to a phase.
  double packing_variance() const;

  /// Return digits_circuit for the set, and the circuit that multiplies `wires` wires by a factor. Both circuits are cached,
  /// so that a device prepares each circuit only once.
  std::shared_ptr<const tfhe::Circuit> reading(unsigned bits) const;
  std::shared_ptr<const tfhe::Circuit> scaling(std::size_t wires, std::int32_t factor) const;
  /// Returns sign_circuit for the set, cached like the other circuits.
  std::shared_ptr<const tfhe::Circuit> comparing(const SignPlan& plan, Relation relation) const;
  /// Returns the plan with the fewest bootstraps that compares integers of `bits` bits and fails with a probability of at
  /// most 2^-128. If there is no such plan, the result has 0 bootstraps. `error` bounds the error of a value in units,
  /// `turns` the error of its phase; neither includes the switch to the wide key.
  SignPlan sign_plan(unsigned bits, double error, double turns = 0) const;

 private:
  inline static const PrimeList kFirst = {0};

  void require_pair() const;
  void make_places();
  void make_packing();
  /// Returns whether a view of the device's memory may have another degree than its allocation. If no view may, the device
  /// has several parts, and words of tensors that change their degree pass through the host.
  bool one_memory() const { return narrow_->engine()->cuts_batches(); }
  static std::vector<u64> downloaded(const RnsTensor& x);
  /// Splits [items] polynomials of degree N into [items, r] polynomials of degree d; the parts of a polynomial are adjacent
  /// in memory.
  RnsTensor divided(const RnsTensor& x) const;
  /// Writes LWE ciphertexts from constant coefficients of bodies and from masks.
  void store(const RnsTensor& body, const RnsTensor& mask, const lwe::Tensor& out) const;
  /// Returns RLWE ciphertexts, in the coefficient domain, whose phases have the LWE phases, divided by d, as constant
  /// coefficients.
  RnsTensor as_ring(const lwe::Tensor& x) const;
  /// Returns plus + turn(minus), in the coefficient domain.
  RnsTensor folded(const RnsTensor& plus, const RnsTensor& minus, u64 galois, const rlwe::SwitchKey& key) const;

  std::shared_ptr<ckks::Context> ckks_;
  std::shared_ptr<tfhe::Context> tfhe_;
  std::size_t wide_;
  PrimeList low_;
  double q_;
  Digits digits_;
  std::shared_ptr<rlwe::Context> narrow_;    // the ring of degree d modulo q
  std::shared_ptr<ring::Engine> pairs_;      // a ring of degree 2 d, for the halves of 64-bit words
  std::size_t used_parts_ = 1, places_ = 1;  // number of parts with values, and of values in each part
  device::PermutationHandle split_;          // moves the coefficients of used parts to the front, in slot order
  RnsTensor monomials_, first_;              // X^-i for each position i of a part, in slot order; the constant 1
  std::shared_ptr<const device::ConversionConstant> to_turns_, to_negative_turns_;
  device::PermutationHandle join_;                       // the inverse of split_
  device::PermutationHandle mask_, body_;                // permute halves of words: a to -a(X^-1); the body to position 0
  std::vector<device::PermutationHandle> monomials_of_;  // products with X^(d / 2^l), for l from 2
  std::shared_ptr<const device::ConversionConstant>
      from_turns_;  // converts units of 2^-32 turns to residues modulo q, divided by d
  std::shared_ptr<const device::KeySwitchPlan> to_dense_;

  mutable std::mutex mutex_;  // guards the circuits
  mutable std::map<unsigned, std::shared_ptr<const tfhe::Circuit>> reading_;
  mutable std::map<std::pair<std::size_t, std::int32_t>, std::shared_ptr<const tfhe::Circuit>> scaling_;
  mutable std::map<std::pair<SignPlan, Relation>, std::shared_ptr<const tfhe::Circuit>> comparing_;
};

struct KeysData {
  std::shared_ptr<Context> context;
  ring::KeyId ckks_key{}, tfhe_key{};
  rlwe::SwitchKey to_wide;                 // from the CKKS key to S(X^r), modulo q
  std::map<u64, rlwe::SwitchKey> packing;  // automorphism keys by Galois element
  rlwe::SwitchKey to_dense;                // from S(X^r) to the CKKS key
  bool vouched = true;                     // whether this process made the keys
};

/// Returns the circuit that reads an integer from a phase. The phase is x units of 2^-(bits + 1) turns; the results are the
/// digits of x, rounded to an integer of `bits` bits, in two's complement.
///
/// Digits of m bits are read from the lowest. In the phase for digit k, the digit has the unit 2^-(m + 1) turns, and one
/// more bit is above it. A first bootstrap reads the bit above the digit. This bit and the digit k - 1 are subtracted from
/// the phase; then a second bootstrap reads the digit k. The digits below k - 1 move the phase by less than 2^-m units; half
/// of this amount is subtracted. If a phase is halfway between two digits, both bootstraps may err by one step. The table's
/// values are symmetric around 0, so that a phase beyond an end of the range gives the integer at that end.
std::shared_ptr<const tfhe::Circuit> digits_circuit(const tfhe::Spec& spec, unsigned bits);

/// Returns the circuit that computes a boolean: whether a rounded integer x has a relation (such as <) to 0. The input is x
/// units of 1 / window turns.
///
/// Half a unit is added or subtracted, so that |x| is at least half a unit. Window k has W_k units, `ratio` times as many as
/// window k - 1; the last window contains all values. A bootstrap reads the sign s_k of x + A_(k - 1) s_(k - 1) modulo W_k,
/// where s_(k - 1) is the previous sign. Only values near 0 need the right sign: s_k moves them away from 0 by A_k, which is
/// ratio / (4 ratio + 4) of W_k. The phase for s_(k + 1) is then at least 1 / (4 ratio + 4) turns from 0. Near 0 the
/// distance is A_k; near W_k / 2, where s_k may be either sign, it is W_k / 2 - A_k. A_(k - 1) and the error of phase k
/// reduce both distances.
std::shared_ptr<const tfhe::Circuit> sign_circuit(const tfhe::Spec& spec, const SignPlan& plan, Relation relation);

}  // namespace heliograph::switching
