// What bootstrapping works with, of a parameter set: the matrices between slots and coefficients, the layouts of its own keys, and
// the step from the lowest level to the highest.
//
// Values become coefficients (matrices on the slots, `entry` levels), the ciphertext goes to a sparse secret key at the lowest
// level, modulo q, and is raised: its phase is then m + q I over all primes, |I| small for the key is sparse (Bossuat,
// Troncoso-Pastoriza, Hubaux, ePrint 2022/024). Matrices bring coefficients back to the slots. The first of them takes no level: its
// keys hold the diagonals times the turned sparse key, so that products with them, summed and divided by some special primes,
// multiply, turn and go back to the secret key at once (ePrint 2025/1403). A sine then takes q I away (circuits/ckks/bootstrap.cpp).
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <span>

#include "base/recent.h"
#include "schemes/ckks/diagonals.h"

namespace heliograph::ckks {

/// Coefficients of the sparse key that are not 0. At most this many halves and a half is |I|.
inline constexpr std::size_t kSparseWeight = 32;
// The sine: |I| beyond kSineMost fails, 2^-132.7 a ciphertext of 2^16 coefficients (docs/bootstrapping-security.md). It is taken on
// (-kSineRange, kSineRange) about kSineShift and a quarter.
#include "schemes/ckks/sine.inc"

/// A cosine of a part of the angle, by T_k of 2 y^2 - 1, and how often the angle is doubled then.
struct Sine {
  std::span<const double> coefficients;
  int doublings;
  double error;  // of the sine
};
/// The one that is as near as a set's scales are long.
Sine sine_of(const Bootstrapping& b);

/// A set's matrices, factors and layouts.
class Bootstrapper {
 public:
  /// Throws ParameterError for sets without bootstrapping.
  explicit Bootstrapper(Context& context);

  /// A matrix of the first few layers of the transform from values to coefficients, times `factor`; then of the next ones. Of as many
  /// slots as they repeat with.
  Diagonals to_coefficients(std::size_t stage, double factor) const;
  /// Of its inverse, times the stage's factor. Stage 0 is what the keys of the first matrix hold. Where slots repeat, the layers above
  /// theirs sum over all places, so that only the coefficients that a message has are left. `packed`: of the last, whose result
  /// plus its conjugate is then twice the real parts and, in as many slots behind, twice the imaginary ones.
  Diagonals to_slots(std::size_t stage, bool packed = false) const;
  std::size_t stages_to_coefficients() const { return to_coefficients_.size(); }
  std::size_t stages_to_slots() const { return to_slots_.size(); }

  /// Whether real and imaginary parts fit one ciphertext.
  bool packs() const { return 2 * slots_ <= places_; }
  /// The automorphism that turns by as many slots as there are, of packed parts.
  u64 swap() const { return context_.galois(static_cast<std::int64_t>(slots_), places_); }
  /// Automorphisms that keys must hold besides their own, ascending.
  std::vector<u64> turns() const;
  /// The automorphisms of the first matrix's diagonals; the first is 1.
  std::vector<u64> first_galois() const;
  /// Its diagonals as plaintexts, a component each, times the product of `first_special`: NTT domain. In `c`, of the same set.
  RnsTensor first_diagonals(Context& c, const device::PrimeList& primes) const;

  rlwe::BootstrappingLayouts layouts() const;
  /// What the matrices to coefficients have their keys in.
  const OwnKeys& to_coefficients_keys() const { return to_coefficients_keys_; }
  const device::PrimeList& low() const { return low_; }        // of the lowest level
  const device::PrimeList& raised() const { return raised_; }  // of the highest
  const device::PrimeList& to_sparse_special() const { return to_sparse_special_; }
  /// Primes that hold the first matrix's product with a ciphertext's body, which is small, as it is.
  const device::PrimeList& body_primes() const { return body_primes_; }
  /// The product of the lowest level's primes.
  double lowest_modulus() const;

 private:
  struct Layers {
    std::size_t first, count;  // layer l has butterflies 2^l apart
  };
  static device::PrimeList joined(device::PrimeList a, const device::PrimeList& b) {
    a.append(b);
    return a;
  }
  void make_factors();
  /// The slots that what these layers work on repeats with.
  std::size_t period(const Layers& layers) const {
    return std::max(slots_, std::size_t{1} << (layers.first + layers.count));
  }
  std::set<std::size_t> numbers(const Layers& layers) const;
  std::set<u64> turns(const Layers& layers) const;
  Diagonals matrix(const Layers& layers, bool inverse, double factor) const;

  Context& context_;
  std::size_t places_, slots_;                      // N/2; those that differ
  std::vector<Layers> to_coefficients_, to_slots_;  // in the order in which they are applied
  std::vector<double> factors_;                     // of to_slots_
  double multiplier_ = 0;                           // of the first matrix's rounded diagonals
  device::PrimeList low_, raised_, to_sparse_special_, first_special_, body_primes_;
  OwnKeys to_coefficients_keys_;
};

/// A key of one digit that encrypts `target` (over the layout's primes, NTT domain), times the special primes, under the secret.
rlwe::SwitchKey one_digit_key(const rlwe::SecretKey& secret, const RnsTensor& target, const rlwe::KeyLayout& layout,
                              const device::PrimeList& special, rlwe::Entropy& entropy);
/// The keys of the first matrix; `context` is the key holder's.
rlwe::SwitchKey first_matrix_key(Context& context, const rlwe::SecretKey& dense, const rlwe::SecretKey& sparse,
                                 const Bootstrapper& how, rlwe::Entropy& entropy);

/// From the lowest level to the highest, and through the first matrix.
class Raise {
 public:
  Raise(Context& context, const Bootstrapper& how);
  /// x [items], of degree one at the lowest level, NTT domain; the result is at the highest.
  RnsTensor operator()(const RnsTensor& x, const rlwe::BootstrappingKeys& keys, const Progress& progress = {}) const;

 private:
  void raise(const RnsTensor& x, const RnsTensor& first, const RnsTensor& out) const;

  Context& context_;
  device::PrimeList raised_, extended_, body_;
  std::vector<device::PermutationHandle> turns_;
  std::shared_ptr<const device::KeySwitchPlan> to_sparse_;
  std::shared_ptr<const device::ConversionConstant> mask_up_, body_up_, sum_up_;
  std::shared_ptr<const device::DividePlan> down_;
  RnsTensor diagonals_;  // over body_
};

/// What of a set is encoded once for all bootstraps.
class BootstrappingPlan {
 public:
  BootstrappingPlan(Context& context, const Bootstrapper& how);

  /// Values times a factor become coefficients: one sum after the other, down to the lowest level. Those of the last few factors are
  /// kept.
  std::vector<LinearSum> to_coefficients(double factor);
  /// And slots again, after the first matrix. See Bootstrapper::to_slots.
  std::vector<LinearSum> to_slots(bool packed);
  /// A plaintext of two numbers that alternate, each for as many slots as there are, without its context. The last few are kept.
  PlaintextData alternating(std::complex<double> first, std::complex<double> second, std::size_t level, double scale);

  Raise raise;

 private:
  struct Alternating {
    std::complex<double> first, second;
    PlaintextData plaintext;
  };

  LinearSum to_slots(std::size_t stage, bool packed) const;

  Context& context_;
  const Bootstrapper& how_;
  std::vector<LinearSum> to_slots_;
  std::optional<LinearSum> last_packed_;
  Recent<Alternating> alternating_{40, 40};
  std::mutex mutex_;
  std::deque<std::pair<double, LinearSum>> first_to_coefficients_;  // by factor, the latest in front
  std::vector<LinearSum> more_to_coefficients_;
};

}  // namespace heliograph::ckks
