// A CKKS parameter set at work: the RLWE context, the scale of each level, the slots.
#pragma once

#include <optional>

#include "heliograph/ckks.h"
#include "rlwe/noise.h"
#include "schemes/ckks/embedding.h"
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

/// Bits below the room that inputs leave empty unless a bound is said: a modulus that is so empty shows that nothing wrapped.
inline constexpr double kEmptyBits = 14;

class Context : public schemes::RingContext<Context, Spec> {
 public:
  Context(Spec spec, std::shared_ptr<device::Device> own_device);

  static Spec canonical(const Spec& given);
  /// Throws ParameterError for numbers that contradict each other.
  static void require_possible(const Spec& spec);
  static bool reads(const std::string& scheme) { return scheme == "ckks"; }
  static Spec spec_from(const io::Json& json) { return spec_from_json(json); }
  static std::string scheme_of(const Spec&) { return "ckks"; }

  /// What public keys are given in: encryptions modulo Q P, divided by P, have little more than a rounding error.
  device::PrimeList public_key_primes() const { return rlwe().key_primes(); }
  const rlwe::NoiseModel& noise() const { return noise_; }
  const Embedding& embedding() const { return embedding_; }

  /// Of ciphertexts; above it are the levels of bootstrapping.
  std::size_t top_level() const { return scales_.size() - spec().bootstrapping.levels; }
  std::size_t raised_level() const { return scales_.size(); }
  /// Where bootstrapping's sine ends: the top level, or above it what corrects the sine.
  std::size_t sine_level() const { return top_level() + corrections(spec().bootstrapping); }
  /// Throws LevelError for what is no level; 0 is the top one.
  std::size_t require_level(std::size_t level) const;
  /// What operations keep ciphertexts of a level at.
  double scale(std::size_t level) const { return scales_[level - 1]; }
  /// What rescaling from `level` divides by. Level 2 at least.
  double ratio(std::size_t level) const { return ratios_[level - 1]; }
  double log_modulus(std::size_t level) const { return log_moduli_[level - 1]; }
  /// Primes of a level and of all below it: what plaintexts are kept at.
  device::PrimeList primes_up_to(std::size_t level) const;
  /// log2 of the largest values that fit the lowest level.
  double room() const { return log_moduli_[0] - 1 - std::log2(scales_[0]); }
  /// log2 of the largest public bound on inputs: values that fit the lowest level with their noise.
  double largest_bound() const { return room() - 0.25; }
  /// log2 of the public bound on inputs that encryption assumes if the call says none: Spec::bound, or kEmptyBits below the room,
  /// but 10 to 20 (a product of two inputs fits a room of 2^41), and largest_bound() at most.
  double input_bound() const;
  /// 2^input_bound(), and Spec::bound to the last bit.
  double input_magnitude() const { return spec().bound > 0 ? spec().bound : std::exp2(input_bound()); }
  /// Primes whose product holds a phase of values below 2^64 at a scale: the first few of a level's.
  device::PrimeList decoding_primes(std::size_t level, double scale) const;
  /// log2 of their product.
  double decoding_room(std::size_t level, double scale) const;

  std::size_t slots() const { return spec().slots ? spec().slots : spec().n / 2; }
  /// The slots repeat with this period, and rotations turn it: the slots where they are a power of two, else N/2.
  std::size_t period() const;

  /// Of a rounding of so many components. Absolute, log2; on the slots, so with the norm of s, not its mean, squared.
  double rounding_noise(std::size_t components) const;
  /// Of one key switch before its rounding, and after.
  double key_product_noise(std::size_t level) const;
  double key_switch_noise(std::size_t level) const;

  /// 5^steps (left) modulo 2N, steps modulo `places`; 0: the period.
  u64 galois(std::int64_t steps, std::size_t places = 0) const;
  u64 conjugation() const { return 2 * spec().n - 1; }
  /// X^(N/2), the imaginary unit in every slot: all chain primes, NTT domain.
  RnsTensor imaginary_unit();

  // schemes/ckks/bootstrapping.h. ParameterError for sets without bootstrapping.
  const Bootstrapper& bootstrapper();
  rlwe::BootstrappingLayouts bootstrapping_layouts();
  /// Made at first use, which takes seconds.
  BootstrappingPlan& bootstrapping();

 private:
  rlwe::NoiseModel noise_;
  Embedding embedding_;
  std::vector<double> scales_, ratios_, log_moduli_;  // level 1 first
  std::mutex mutex_;
  RnsTensor imaginary_unit_;
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
  std::size_t width = 0;  // slots used
  bool complex = false;
  rlwe::Figure noise = 0;      // log2 of the model's bound on the error's canonical norm, at the scale
  Ranges ranges;               // bounds on the values; vouched: from values encrypted here, so secret
  std::optional<Key256> seed;  // the mask's, of fresh secret-key encryptions
  bool fresh = false;          // an encryption nothing was computed on
  Tail tail;                   // in the places from `width` on, up to the period; zero where there are none

  std::size_t degree() const { return tensor.components() - 1; }
  Shape shape() const { return tensor.shape(); }
  bool seeded() const { return seed.has_value(); }
  bool shared() const { return tensor.shared(); }
  std::size_t bytes() const { return tensor.bytes(); }
  Packing packing() const { return {width, context->period(), complex}; }
  /// log2 of the largest |value| at any place; NaN where it is unknown.
  rlwe::Figure peak() const { return ranges.peak(); }
};

struct PlaintextData {
  std::shared_ptr<Context> context;
  RnsTensor tensor;  // one component, NTT domain, Context::primes_up_to(level)
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
  std::size_t period() const { return context->period(); }  // of the rotations
};

using schemes::require_same;

// Files (files.cpp).
io::Container describe(const CiphertextData& x, ring::Words words);
Ciphertext read(io::Container&& from, const Allowed& allowed, schemes::As<Ciphertext>);

/// Everything but the tensor and what makes an encryption fresh; the tail is unknown.
CiphertextData derived(const CiphertextData& a);
/// The ciphertext. Its tail is zero where there is none, and its ranges hold what its packing implies. Values beyond their level's
/// modulus harm nothing before they are decoded or bootstrapped: sums, products and rescalings take c + k Q to c' + k Q'.
Ciphertext finish(CiphertextData data);
/// Noise as it is after a use of keys: what a file's keys add nobody vouches for.
rlwe::Figure after_keys(rlwe::Figure noise, const EvaluationKeysData& keys);
/// Whether values and noise of these sizes, log2, may exceed a modulus at a scale. Unknown values or unknown noise may.
bool outgrown(double bound, double noise, double scale, double log_modulus);
/// Whether a tensor's bounds show that its values fit the modulus that they are decoded from.
struct Fits {
  bool vouched = false, assumed = false;          // proved for all items by this process alone; by what files and users say
  bool vouched_out = false, assumed_out = false;  // bounds are known and do not fit
  double bits = 0;                                // log2 of the values' bound, the smaller of both; NaN: unknown
  double room = 0;                                // log2 of the largest coefficient that fits, in units of the values
};
Fits fits(const CiphertextData& x);
/// The same of one item.
Fits fits(const CiphertextData& x, std::size_t item);
/// The smaller bound on |value| over all items, of the two that are known; NaN: unknown.
double known_bound(const CiphertextData& x);

}  // namespace heliograph::ckks
