// Precomputed data of bootstrapping for a parameter set: the matrices between slots and coefficients, the layouts of its own
// keys, and the step from the lowest level to the highest.
//
// Slots-to-coefficients matrices (`entry` levels) move values to coefficients. The ciphertext is switched to a sparse secret
// key at the lowest level, modulo q, and raised to all primes. The ciphertext's phase is then m + q I; |I| is small because
// the key is sparse (Bossuat, Troncoso-Pastoriza, Hubaux, ePrint 2022/024). Coefficients-to-slots matrices move coefficients
// back. The first of them takes no level: its keys hold the diagonals times the rotated sparse key. Products with these
// keys, summed and divided by some special primes, multiply, rotate and switch to the secret key at once (ePrint 2025/1403).
// A sine approximation then removes q I (circuits/ckks/bootstrap.cpp).
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <tuple>

#include "base/recent.h"
#include "schemes/ckks/diagonals.h"

namespace heliograph::ckks {

/// Nonzero coefficients of the sparse key. |I| is at most half of this number plus a half.
inline constexpr std::size_t kSparseWeight = 32;
// The sine approximation. |I| above kSineMost gives a wrong result, with probability 2^-132.7 per ciphertext of 2^16
// coefficients (docs/bootstrapping-security.md). The sine is approximated on (-kSineRange, kSineRange) around kSineShift and
// a quarter.
#include "schemes/ckks/sine.inc"

/// A cosine of a fraction of the angle, as a series in T_k of 2 y^2 - 1, followed by angle doublings.
struct Sine {
  std::span<const double> coefficients;
  int doublings;
  double error;  // error of the sine
};
/// Returns the approximation whose error matches a set's scale.
Sine sine_of(const Bootstrapping& b);

/// Repetition of the values in a bootstrap.
struct Repetition {
  std::size_t period = 0;  // a power of two, at most the set's period
  /// Whether the coefficients of every second block of `period` slots hold the values times -i. After a conjugation and an
  /// addition, real parts alternate with imaginary parts. The period must be at most half of the set's.
  bool alternating = false;
  bool operator==(const Repetition&) const = default;
};

/// Matrices, factors and key layouts of a set.
class Bootstrapper {
 public:
  /// Throws ParameterError for sets without bootstrapping.
  explicit Bootstrapper(Context& context);

  /// Returns stage number `stage` of slots-to-coefficients, times `factor`: a matrix of several layers of the transform, on
  /// as many slots as it repeats with.
  Diagonals to_coefficients(std::size_t stage, double factor) const;
  /// Returns the stage for repeated values: the same product, with the sum of all diagonals that are `period` apart in place
  /// of each. The steps of its diagonals are among those of the whole stage, in giant steps of `baby_steps(stage)`.
  Diagonals to_coefficients(std::size_t stage, double factor, const Repetition& repetition) const;
  std::size_t baby_steps(std::size_t stage) const;
  /// Returns the part of a repetition that changes the matrix of a stage: equal parts have equal matrices.
  Repetition part_of(std::size_t stage, const Repetition& repetition) const;
  /// Returns a stage of the inverse, times the stage's factor. The keys of the first matrix hold stage 0. If slots repeat,
  /// the layers beyond theirs sum over all slots, which leaves only the message's coefficients. `packed`: a variant of the
  /// last stage. The packed result plus its conjugate holds twice the real parts and, in as many slots behind, twice the
  /// imaginary parts.
  Diagonals to_slots(std::size_t stage, bool packed = false) const;
  std::size_t stages_to_coefficients() const { return to_coefficients_.size(); }
  std::size_t stages_to_slots() const { return to_slots_.size(); }

  /// Returns whether real and imaginary parts fit one ciphertext.
  bool packs() const { return 2 * slots_ <= places_; }
  /// Returns the automorphism that rotates by the number of slots. This automorphism exchanges packed real and imaginary
  /// parts.
  u64 swap() const { return swap(slots_); }
  /// Returns the automorphism that rotates by `period` slots, for halves of a repetition.
  u64 swap(std::size_t period) const { return context_.galois(static_cast<std::int64_t>(period), places_); }
  /// Returns the automorphisms whose usual keys bootstrapping needs in addition to its own keys, ascending.
  std::vector<u64> turns() const;
  /// Returns the automorphisms of the first matrix's diagonals; the first is 1.
  std::vector<u64> first_galois() const;
  /// Returns the first matrix's diagonals as plaintexts in the NTT domain, one component each, times the product of
  /// `first_special`. `c` is a context of the same set.
  RnsTensor first_diagonals(Context& c, const device::PrimeList& primes) const;

  rlwe::BootstrappingLayouts layouts() const;
  const OwnKeys& to_coefficients_keys() const { return to_coefficients_keys_; }
  const device::PrimeList& low() const { return low_; }        // primes of the lowest level
  const device::PrimeList& raised() const { return raised_; }  // primes of the highest level
  const device::PrimeList& to_sparse_special() const { return to_sparse_special_; }
  /// Primes whose product exceeds the product of the first matrix with a ciphertext's body.
  const device::PrimeList& body_primes() const { return body_primes_; }
  /// Returns the product of the lowest level's primes.
  double lowest_modulus() const;

 private:
  struct Layers {
    std::size_t first, count;  // layer l has butterflies at distance 2^l
  };
  static device::PrimeList joined(device::PrimeList a, const device::PrimeList& b) {
    a.append(b);
    return a;
  }
  void make_factors();
  /// Returns the period of the slots that these layers transform.
  std::size_t period(const Layers& layers) const {
    return std::max(slots_, std::size_t{1} << (layers.first + layers.count));
  }
  std::set<std::size_t> numbers(const Layers& layers) const;
  std::set<u64> turns(const Layers& layers) const;
  Diagonals matrix(const Layers& layers, bool inverse, double factor) const;

  Context& context_;
  std::size_t places_, slots_;                      // N/2; the period of the slots
  std::vector<Layers> to_coefficients_, to_slots_;  // matrices in order of application
  std::vector<double> factors_;                     // factors of to_slots_
  double multiplier_ = 0;                           // multiplier of the first matrix's rounded diagonals
  device::PrimeList low_, raised_, to_sparse_special_, first_special_, body_primes_;
  OwnKeys to_coefficients_keys_;
};

/// Makes a key of one digit that encrypts `target` (over the layout's primes, NTT domain), times the special primes.
rlwe::SwitchKey one_digit_key(const rlwe::SecretKey& secret, const RnsTensor& target, const rlwe::KeyLayout& layout,
                              const device::PrimeList& special, rlwe::Entropy& entropy);
/// Makes the keys of the first matrix; `context` is that of the key holder.
rlwe::SwitchKey first_matrix_key(Context& context, const rlwe::SecretKey& dense, const rlwe::SecretKey& sparse,
                                 const Bootstrapper& how, rlwe::Entropy& entropy);

/// Raises ciphertexts from the lowest level to the highest and applies the first matrix.
class Raise {
 public:
  Raise(Context& context, const Bootstrapper& how);
  /// x: [items], degree one, lowest level, NTT domain. The result is at the highest level.
  RnsTensor operator()(const RnsTensor& x, const rlwe::BootstrappingKeys& keys) const;

 private:
  void raise(const RnsTensor& x, const RnsTensor& first, const RnsTensor& out) const;

  Context& context_;
  device::PrimeList raised_, extended_, body_;
  std::vector<device::PermutationHandle> turns_;
  std::shared_ptr<const device::KeySwitchPlan> to_sparse_;
  std::shared_ptr<const device::ConversionConstant> mask_up_, body_up_, sum_up_;
  std::shared_ptr<const device::DividePlan> down_;
  RnsTensor diagonals_;  // diagonals over body_
};

/// Encoded matrices and plaintexts that all bootstraps of a set share.
class BootstrappingPlan {
 public:
  BootstrappingPlan(Context& context, const Bootstrapper& how);

  /// Returns the slots-to-coefficients matrices, times a factor, in order of application down to the lowest level. Caches
  /// the first matrix, which contains the factor, for the last four factors, and the others for every period in use.
  std::vector<LinearSum> to_coefficients(double factor) { return to_coefficients(factor, {context_.period()}); }
  std::vector<LinearSum> to_coefficients(double factor, const Repetition& repetition);
  /// Returns the coefficients-to-slots matrices after the first one; see Bootstrapper::to_slots.
  std::vector<LinearSum> to_slots(bool packed);
  /// Returns a plaintext, without its context, that alternates between two numbers: each fills `period` slots. Caches the
  /// last 40 plaintexts.
  PlaintextData alternating(std::complex<double> first, std::complex<double> second, std::size_t period, std::size_t level,
                            double scale);

  Raise raise;

 private:
  struct Alternating {
    std::complex<double> first, second;
    std::size_t period;
    PlaintextData plaintext;
  };

  LinearSum to_slots(std::size_t stage, bool packed) const;

  Context& context_;
  const Bootstrapper& how_;
  std::vector<LinearSum> to_slots_;
  std::optional<LinearSum> last_packed_;
  Recent<Alternating> alternating_{40, 40};
  std::mutex mutex_;
  struct First {
    double factor;
    Repetition part;
    LinearSum sum;
  };
  std::deque<First> first_to_coefficients_;                                               // cache, most recently used first
  std::map<std::tuple<std::size_t, std::size_t, bool>, LinearSum> more_to_coefficients_;  // by stage and Repetition
};

}  // namespace heliograph::ckks
