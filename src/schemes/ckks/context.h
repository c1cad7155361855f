// Context of a CKKS parameter set: the RLWE context, the scale of each level, the slots.
#pragma once

#include <map>
#include <optional>

#include "heliograph/ckks.h"
#include "rlwe/noise.h"
#include "schemes/ckks/embedding.h"
#include "schemes/ckks/figures.h"
#include "schemes/ckks/guards.h"
#include "schemes/ckks/ranges.h"
#include "schemes/ckks/spec.h"
#include "schemes/ring_keys.h"

namespace heliograph::ckks {

using math::Domain;
using math::u64;
using ring::RnsTensor;
using rlwe::Key256;

class Bootstrapper;
class BootstrappingPlan;

/// Bits by which inputs without a declared bound stay below the room. Coefficients that many bits below the modulus have
/// probably not wrapped.
inline constexpr double kEmptyBits = 14;

class Context : public schemes::RingContext<Context, Spec> {
 public:
  Context(Spec spec, std::shared_ptr<device::Device> own_device);

  static Spec canonical(const Spec& given);
  static void require_possible(const Spec& spec);
  static bool reads(const std::string& scheme) { return scheme == "ckks"; }
  static Spec spec_from(const io::Json& json) { return spec_from_json(json); }
  static std::string scheme_of(const Spec&) { return "ckks"; }

  /// Returns the primes of public keys: encryptions modulo Q P, divided by P, have little more than a rounding error.
  device::PrimeList public_key_primes() const { return rlwe().key_primes(); }
  const rlwe::NoiseModel& noise() const { return noise_; }
  const Embedding& embedding() const { return embedding_; }

  /// Returns the top level of ciphertexts. The levels of bootstrapping are above it.
  std::size_t top_level() const { return scales_.size() - spec().bootstrapping.levels; }
  std::size_t raised_level() const { return scales_.size(); }
  /// Returns the level after bootstrapping's sine: the top level, plus the levels that correct the sine.
  std::size_t sine_level() const { return top_level() + corrections(spec().bootstrapping); }
  /// Returns `level`, or the top level for 0. Throws LevelError if it does not exist.
  std::size_t require_level(std::size_t level) const;
  /// Returns the scale at which operations keep ciphertexts of a level.
  double scale(std::size_t level) const { return scales_[level - 1]; }
  /// Returns the divisor of rescaling from `level`, at least 2.
  double ratio(std::size_t level) const { return ratios_[level - 1]; }
  double log_modulus(std::size_t level) const { return log_moduli_[level - 1]; }
  /// Returns the primes of a level and of all lower levels. Stored plaintexts have these primes.
  device::PrimeList primes_up_to(std::size_t level) const;
  /// Returns log2 of the largest values that fit the lowest level.
  double room() const { return log_moduli_[0] - 1 - std::log2(scales_[0]); }
  /// Returns log2 of the largest public bound on inputs: values that fit the lowest level together with their noise.
  double largest_bound() const { return room() - 0.25; }
  /// Returns log2 of the public bound that encryption assumes if it gets none: Spec::bound, else kEmptyBits below the room,
  /// clamped to 10 to 20 (a product of two inputs fits a room of 2^41), and at most largest_bound().
  double input_bound() const;
  double input_magnitude() const { return spec().bound > 0 ? spec().bound : std::exp2(input_bound()); }
  /// Returns the first primes of a level whose product holds a phase of values below 2^64 at a scale.
  device::PrimeList decoding_primes(std::size_t level, double scale) const;
  double decoding_room(std::size_t level, double scale) const;

  std::size_t slots() const { return spec().slots ? spec().slots : spec().n / 2; }
  /// Returns the period of the slots, modulo which rotations act: the slots if they are a power of two, else N/2.
  std::size_t period() const;

  /// Returns the noise of a random error with the canonical norm `norm` (log2).
  Noise random(rlwe::Figure norm) const { return Noise::random(norm, noise_); }
  /// Returns log2 of the noise of rounding `components` components. The result bounds every slot, so it uses the squared
  /// norm of s, not the norm's mean.
  double rounding_noise(std::size_t components) const;
  /// Returns the noise of one key switch before its rounding; key_switch_noise includes the rounding.
  /// `key_level`: level of the keys, 0 for keys of the set's own gadget.
  double key_product_noise(std::size_t level, std::size_t key_level = 0) const;
  double key_switch_noise(std::size_t level, std::size_t key_level = 0) const;

  /// Returns a context whose top level is `level`, or the lowest level above that is possible; null if none is. Its levels
  /// of bootstrapping lack the primes of the levels between its top level and this context's. Up to its top level both
  /// contexts have the same levels. The set must have bootstrapping.
  std::shared_ptr<Context> lowered(std::size_t level);
  /// Returns the gadget of rotation keys for ciphertexts of `level` and below: the fewest digits, then the fewest special
  /// primes whose product exceeds each digit by 2^3.5. If no digits of equal size fit, these are the set's own digits.
  rlwe::Gadget gadget(std::size_t level) const;
  /// Returns the plan of a key switch in the NTT domain, by keys for `key_level`; 0: the set's own gadget.
  std::shared_ptr<const device::KeySwitchPlan> switch_plan(std::size_t key_level, std::size_t level, std::size_t to_level);
  /// Returns the division by the product of the special primes of keys for `key_level`.
  std::shared_ptr<const device::ConversionConstant> mod_down(std::size_t key_level, std::size_t level);

  /// Returns the Galois element of a rotation to the left: 5^steps modulo 2N, steps modulo `places` (0: the period).
  u64 galois(std::int64_t steps, std::size_t places = 0) const;
  u64 conjugation() const { return 2 * spec().n - 1; }
  /// Returns X^(N/2), the imaginary unit in every slot: all chain primes, NTT domain.
  RnsTensor imaginary_unit();

  // See schemes/ckks/bootstrapping.h. Throw ParameterError for sets without bootstrapping.
  const Bootstrapper& bootstrapper();
  rlwe::BootstrappingLayouts bootstrapping_layouts();
  /// The first call makes the matrices and plaintexts, which takes seconds.
  BootstrappingPlan& bootstrapping();

 private:
  /// See `lowered`. `spec`: that of `of` with other levels.
  Context(Context& of, Spec spec);
  void measure_moduli();

  rlwe::NoiseModel noise_;
  Embedding embedding_;
  std::vector<double> scales_, ratios_, log_moduli_;  // one per level, from level 1
  std::mutex mutex_;
  RnsTensor imaginary_unit_;
  std::map<std::size_t, std::shared_ptr<Context>> lowered_;
  std::map<std::tuple<std::size_t, std::size_t, std::size_t>, std::shared_ptr<const device::KeySwitchPlan>> level_plans_;
  std::shared_ptr<const Bootstrapper> bootstrapper_;
  std::mutex bootstrapping_mutex_;
  std::shared_ptr<BootstrappingPlan> bootstrapping_;
};

struct CiphertextData {
  std::shared_ptr<Context> context;
  rlwe::KeyId key{};
  RnsTensor tensor;  // NTT domain
  std::size_t level = 0;
  double scale = 0;
  std::size_t width = 0;  // number of values per ciphertext
  bool complex = false;
  Noise noise = 0;             // bound on the error, relative to the scaled values
  Ranges ranges;               // bounds on the values; vouched: from values encrypted here, so secret
  std::optional<Key256> seed;  // mask seed of a fresh secret-key encryption
  bool fresh = false;          // an encryption before any operation
  Guards guards;               // guards of arguments on which the values depend
  Tail tail;                   // contents of the slots from `width` to the period; zero if `width` is the period

  std::size_t degree() const { return tensor.components() - 1; }
  Shape shape() const { return tensor.shape(); }
  bool seeded() const { return seed.has_value(); }
  bool shared() const { return tensor.shared(); }
  std::size_t bytes() const { return tensor.bytes(); }
  Packing packing() const { return {width, context->period(), complex}; }
  /// Returns log2 of the largest |value| over all slots; NaN if unknown.
  rlwe::Figure peak() const { return ranges.peak(); }
};

struct PlaintextData {
  std::shared_ptr<Context> context;
  RnsTensor tensor;  // one component, NTT domain, modulo Context::primes_up_to(level)
  Shape shape;
  std::size_t level = 0, width = 0;
  double scale = 0;
  double bound = 0;  // log2 of the largest value
  bool complex = false;
  Ranges ranges;
};

struct SecretKeyData : schemes::RingSecretKey<Context> {};
struct PublicKeyData : schemes::RingPublicKey<Context> {};
struct EvaluationKeysData : schemes::RingEvaluationKeys<Context> {
  static constexpr math::u64 kRotation = 5;                 // automorphism of the rotation by one slot
  std::size_t period() const { return context->period(); }  // automorphisms of the rotations
};

using schemes::require_same;

io::Container describe(const CiphertextData& x, ring::Words words);
Ciphertext read(io::Container&& from, const Allowed& allowed, schemes::As<Ciphertext>);

/// Copies everything except the tensor and the marks of a fresh encryption; the padding slots become unknown (Tail).
CiphertextData derived(const CiphertextData& a);
/// Makes the ciphertext. Sets the tail to zero if there are no padding slots, and tightens the ranges by the packing.
/// Values may exceed their level's modulus before decoding or bootstrapping: sums, products and rescalings map c + k Q to
/// c' + k Q'.
Ciphertext finish(CiphertextData data);
/// Returns the noise of a result that was computed with these keys. The trusted part of the noise is unknown if the keys
/// came from a file.
rlwe::Figure after_keys(rlwe::Figure noise, const EvaluationKeysData& keys);
Noise after_keys(const Noise& noise, const EvaluationKeysData& keys);
/// Returns whether values and noise of these sizes (log2) may exceed a modulus at a scale. Returns true for unknown sizes.
bool outgrown(double bound, double noise, double scale, double log_modulus);
/// Result of comparing a tensor's bounds with the modulus from which its values are decoded.
struct Fits {
  bool vouched = false, assumed = false;          // trusted and assumed bounds fit, for all items
  bool vouched_out = false, assumed_out = false;  // bounds are known and do not fit
  double bits = 0;                                // log2 of the smaller bound on the values; NaN: unknown
  double room = 0;                                // log2 of the largest coefficient that fits, in units of the values
};
Fits fits(const CiphertextData& x);
Fits fits(const CiphertextData& x, std::size_t item);
/// Returns the smaller known bound on |value| over all items; NaN if both are unknown.
double known_bound(const CiphertextData& x);

}  // namespace heliograph::ckks
