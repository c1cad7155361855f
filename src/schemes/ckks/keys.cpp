// Keys, encryption, decryption.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "base/progress.h"
#include "math/reducer.h"
#include "schemes/ckks/bootstrapping.h"
#include "schemes/ckks/decrypt.h"
#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

namespace {

/// Description of values to encrypt. All processes know the interval; only the key holder has the values.
struct Described {
  std::size_t width = 0;
  bool complex = false;
};

/// Returns the public interval of the values. Throws ParameterError for an invalid interval, PlaintextRangeError if it does
/// not fit the level.
Interval public_interval(const Context& c, Interval given, bool complex, std::size_t level) {
  const bool said = given.low != 0 || given.high != 0;
  const double most = c.input_magnitude();
  const Interval in = said ? given : Interval{-most, most};
  if (!std::isfinite(in.low) || !std::isfinite(in.high) || !(in.low <= in.high))
    throw ParameterError("a bound on values must be a finite number above 0, or a lowest and a highest value, not " +
                         short_number(in.low) + " to " + short_number(in.high));
  require<ParameterError>(!complex || in.low == -in.high,
                          "a bound on complex values must be one number, for their magnitudes");
  const double largest = std::max(-in.low, in.high);
  if (std::log2(largest) + std::log2(c.scale(level)) > c.log_modulus(level) - 1)
    throw PlaintextRangeError("values up to " + short_number(largest) + " do not fit level " + std::to_string(level));
  return in;
}

/// Throws PlaintextRangeError for a value outside the interval.
void require_inside(const Values& values, Interval in, bool said) {
  const auto refuse = [&](double v) {
    if (said)
      throw PlaintextRangeError("a value of " + short_number(v) + " is outside the bound given, " + short_number(in.low) +
                                " to " + short_number(in.high));
    throw PlaintextRangeError("cannot encrypt a value of magnitude " + short_number(std::abs(v)) +
                              ": without bound= these parameters take at most " + short_number(in.high) +
                              ". Pass bound= with the largest magnitude (it becomes public), or make parameters with a "
                              "larger bound=");
  };
  for (const std::complex<double>& v : values.data) {
    if (values.complex) {
      if (std::abs(v) > in.high) refuse(std::abs(v));
    } else if (v.real() < in.low || v.real() > in.high) {
      refuse(v.real());
    }
  }
}

/// Returns the bounds of each ciphertext as five numbers; one entry for all if there are many ciphertexts.
std::vector<double> measured(const Values& values, std::size_t period) {
  const Ranges ranges = ranges_of(values, period);
  std::vector<double> all;
  for (const RangePair& pair : ranges.list()) {
    const Range& r = pair.vouched;
    all.insert(all.end(), {r.low, r.high, r.peak, r.rms, r.mean});
  }
  return all;
}

/// Makes the ranges of values. `numbers`: the result of `measured`; `in`: the public interval.
Ranges ranges_of(const std::vector<double>& numbers, Interval in, std::size_t width, std::size_t period) {
  // Round as in a file, so that a tensor and its copy from a file give the same bytes.
  const Range assumed = rounded(Range::of(in.low, in.high, width, period));
  if (numbers.empty()) return Ranges(RangePair{assumed, assumed});
  std::vector<RangePair> list;
  for (std::size_t i = 0; i < numbers.size(); i += 5) {
    const Range r{numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3], numbers[i + 4]};
    list.push_back({narrowed(coarse(r), assumed), assumed});
  }
  return Ranges::of(std::move(list));
}

/// The part of an encryption that depends on the kind of key.
struct Encryption {
  std::shared_ptr<Context> context;
  rlwe::KeyId key;
  std::shared_ptr<rlwe::Context> own;  // context of the key, in the key holder
  rlwe::Figure noise;                  // noise of an encryption of zero
  std::optional<Key256> seed;          // seed of the masks, if the masks have one
  /// Encrypts zeros in the key holder: the items of `out`, numbered from `first`.
  std::function<void(math::u32 first, const RnsTensor& out)> encrypt_zero;
};

CiphertextData encrypt(const Encryption& by, const Values& values, std::size_t level, Interval bound) {
  const std::shared_ptr<Context>& c = by.context;
  CiphertextData data;
  data.level = c->require_level(level);
  data.scale = c->scale(data.level);
  device::Device& device = c->engine().device();
  Shape shape;
  ring::broadcast(device, shape, [&] {
    check_values(*c, values, data.level, data.scale);
    shape = values.shape;
  });
  const auto described =
      ring::broadcast<Described>(device, [&] { return Described{.width = values.width, .complex = values.complex}; });
  const Interval in = public_interval(*c, bound, described.complex, data.level);
  std::vector<double> numbers;
  ring::broadcast(device, numbers, [&] {
    require_inside(values, in, bound.low != 0 || bound.high != 0);
    numbers = measured(values, c->period());
  });
  const std::size_t items = ring::element_count(shape);
  require<ShapeError>(items < (std::size_t{1} << 32), "one call must encrypt fewer than 2^32 ciphertexts; split the array");
  const device::PrimeList chain = c->rlwe().chain(data.level);
  c->engine().require_memory(checked_product(items, std::size_t{2}, c->rlwe().polynomial_bytes(chain.size())),
                             "encrypting this array");
  data.context = c, data.key = by.key, data.width = described.width, data.complex = described.complex, data.fresh = true;
  const RnsTensor all(c->rlwe().engine(), {items}, 2, chain, Domain::ntt);
  const std::size_t stretch = encoding_stretch(*c, chain.size());
  ProgressSteps steps(items);
  for (std::size_t first = 0; first < items; first += stretch) {
    const std::size_t count = std::min(stretch, items - first);
    rlwe::key_holder_writes(all.slice(0, first, 1, count), by.seed ? 1 : 2, by.own, [&](const RnsTensor& out) {
      Context& k = *c->key_holder();
      ring::Engine& e = k.engine();
      const RnsTensor zero(k.rlwe().engine(), {count}, 2, chain, Domain::coefficient);
      by.encrypt_zero(static_cast<math::u32>(first), zero);
      const RnsTensor body = zero.with_components(0, 1);
      const RnsTensor message =
          upload_polynomials(k, rounded_polynomials(k, values, data.scale, first, count), chain, ring::Secrecy::passing);
      e.enqueue(device::Add{e.prepared(), chain, body.view(), message.view(), body.view()});
      e.enqueue(device::ForwardNtt{e.prepared(), chain, zero.view(), out.view()});
    });
    steps.add(count);
  }
  if (by.seed) rlwe::key_holder_left_masks(all, *by.seed);
  data.tensor = all.reshape(shape);
  data.noise = c->random(rlwe::log2_sum(by.noise, c->noise().rounding()));
  data.ranges = ranges_of(numbers, in, described.width, c->period());
  data.seed = by.seed;
  return data;
}

}  // namespace

namespace {

/// Makes bootstrapping's keys with a temporary sparse key.
rlwe::BootstrappingKeys bootstrapping_keys(const SecretKeyData& dense) {
  Context& c = *dense.context;
  const rlwe::BootstrappingLayouts layouts = c.bootstrapping_layouts();
  c.engine().require_memory(layouts.bytes(c.rlwe()), "generating the bootstrapping keys");
  std::optional<rlwe::SecretKey> sparse;  // in the key holder
  ProgressSteps steps(layouts.turns.size() + 2);
  const auto make = [&](const rlwe::KeyLayout& layout, const auto& key) {
    rlwe::SwitchKey made = rlwe::broadcast_key(c.rlwe_shared(), layout, key);
    steps.add();
    return made;
  };
  rlwe::SwitchKey to_sparse = make(layouts.to_sparse, [&] {
    sparse = rlwe::SecretKey::generate_sparse(c.key_holder()->rlwe_shared(), kSparseWeight, *dense.entropy);
    return one_digit_key(*sparse, ring::limbs_of(dense.key.transformed(), layouts.to_sparse.primes), layouts.to_sparse,
                         c.bootstrapper().to_sparse_special(), *dense.entropy);
  });
  rlwe::SwitchKey first = make(layouts.first_matrix, [&] {
    return first_matrix_key(*c.key_holder(), dense.key, *sparse, c.key_holder()->bootstrapper(), *dense.entropy);
  });
  rlwe::BootstrappingKeys keys{std::move(to_sparse), std::move(first), {}};
  for (const u64 galois : layouts.turns) {
    keys.to_coefficients.emplace(galois, make(layouts.to_coefficients, [&] {
                                   const RnsTensor s =
                                       ring::limbs_of(dense.key.transformed(), layouts.to_coefficients.primes);
                                   return one_digit_key(dense.key, ring::automorphism(s, galois), layouts.to_coefficients,
                                                        c.bootstrapper().to_coefficients_keys().special, *dense.entropy);
                                 }));
  }
  return keys;
}

/// Makes rotation keys for levels, each once.
std::map<std::size_t, std::map<u64, rlwe::SwitchKey>> level_keys(const SecretKeyData& secret,
                                                                 const std::vector<LevelRotations>& levels) {
  Context& c = *secret.context;
  std::map<std::size_t, std::set<u64>> wanted;
  for (const LevelRotations& of_level : levels) {
    const std::size_t level = c.require_level(of_level.level);
    for (const std::int64_t s : of_level.rotations)
      if (const u64 g = c.galois(s); g != 1) wanted[level].insert(g);
    if (of_level.conjugate) wanted[level].insert(c.conjugation());
  }
  std::size_t bytes = 0, count = 0;
  for (const auto& [level, galois] : wanted) {
    bytes += galois.size() * rlwe::KeyLayout::of(c.gadget(level)).bytes(c.rlwe());
    count += galois.size();
  }
  c.engine().require_memory(bytes, "generating these keys");
  ProgressSteps steps(static_cast<double>(count));
  std::map<std::size_t, std::map<u64, rlwe::SwitchKey>> made;
  for (const auto& [level, all] : wanted) {
    const rlwe::Gadget gadget = c.gadget(level);
    for (const u64 galois : all) {
      made[level].emplace(galois, rlwe::broadcast_key(c.rlwe_shared(), rlwe::KeyLayout::of(gadget), [&] {
                            return rlwe::make_rotation_key(secret.key, galois, gadget, *secret.entropy);
                          }));
      steps.add();
    }
  }
  return made;
}

}  // namespace

PublicKey SecretKey::public_key() const {
  return PublicKey(std::make_shared<PublicKeyData>(PublicKeyData{schemes::make_public_key(*data_)}));
}

EvaluationKeys SecretKey::evaluation_keys(bool relinearize, const std::vector<std::int64_t>& rotations, bool conjugate,
                                          bool bootstrapping, const std::vector<LevelRotations>& levels) const {
  Context& c = *data_->context;
  std::vector<u64> galois;
  const auto add = [&](const std::vector<std::int64_t>& all) {
    for (const std::int64_t steps : all) galois.push_back(c.galois(steps));
  };
  add(rotations);
  if (bootstrapping) {
    const std::vector<u64> turns = c.bootstrapper().turns();
    galois.insert(galois.end(), turns.begin(), turns.end());
  }
  if (conjugate || bootstrapping) galois.push_back(c.conjugation());
  ProgressSteps steps((bootstrapping ? 2 : 1) + (levels.empty() ? 0 : 1));
  EvaluationKeysData made{
      steps.part(1, [&] { return schemes::make_evaluation_keys(*data_, relinearize || bootstrapping, galois); })};
  if (bootstrapping) made.keys.bootstrapping = steps.part(1, [&] { return bootstrapping_keys(*data_); });
  if (!levels.empty()) steps.part(1, [&] { made.keys.level_rotations = level_keys(*data_, levels); });
  return EvaluationKeys(std::make_shared<EvaluationKeysData>(std::move(made)));
}

bool EvaluationKeys::has_bootstrapping() const { return data_->keys.bootstrapping.has_value(); }
bool EvaluationKeys::has_conjugation() const {
  const u64 galois = data_->context->conjugation();
  const auto& levels = data_->keys.level_rotations;
  return data_->keys.rotations.contains(galois) ||
         std::any_of(levels.begin(), levels.end(), [&](const auto& of_level) { return of_level.second.contains(galois); });
}
std::map<std::size_t, std::vector<std::int64_t>> EvaluationKeys::level_rotations() const {
  std::map<std::size_t, std::vector<std::int64_t>> all;
  for (const auto& [level, keys] : data_->keys.level_rotations)
    all[level] = data_->steps(EvaluationKeysData::kRotation, data_->period(), keys);
  return all;
}

Ciphertext SecretKey::encrypt(const Values& values, std::size_t level, Interval bound) const {
  const std::shared_ptr<Context>& c = data_->context;
  Secret<Key256> errors;
  const auto seed = ring::broadcast<Key256>(c->engine().device(), [&] {
    const Key256 masks = data_->entropy->next();
    errors = data_->entropy->next_secret();
    return masks;
  });
  const Encryption by{.context = c,
                      .key = data_->key.id(),
                      .own = data_->key.context(),
                      .noise = c->noise().fresh_secret_key(),
                      .seed = seed,
                      .encrypt_zero = [&](math::u32 first, const RnsTensor& out) {
                        rlwe::encrypt_zero(data_->key, seed, errors, first, out);
                      }};
  return finish(ckks::encrypt(by, values, level, bound));
}

Ciphertext PublicKey::encrypt(const Values& values, std::size_t level, Interval bound) const {
  const std::shared_ptr<Context>& c = data_->context;
  rlwe::Entropy entropy;
  const Secret<Key256> secret = entropy.next_secret();  // used by the key holder only
  // All processes know these properties; only the key holder has the key.
  const bool divides =
      ring::broadcast<unsigned char>(c->engine().device(), [&] { return data_->key.divides() ? 1 : 0; }) != 0;
  const double noise =
      divides ? c->noise().fresh_public_key(rlwe::log2_product(c->spec().special)) : c->noise().fresh_public_key();
  const rlwe::Figure fresh(data_->vouched ? noise : std::nan(""), noise);
  const Encryption by{
      .context = c,
      .key = data_->key.id,
      .own = data_->key.context,
      .noise = fresh,
      .seed = std::nullopt,
      .encrypt_zero = [&](math::u32 first, const RnsTensor& out) { rlwe::encrypt_zero(data_->key, secret, first, out); }};
  return finish(ckks::encrypt(by, values, level, bound));
}

namespace {

std::string bits_text(double bits) { return std::isnan(bits) ? "unknown" : "2^" + short_number(std::ceil(bits * 10) / 10); }

/// Throws RoomError for an item. `why`: the reason for which the values are in doubt.
[[noreturn]] void no_room(const CiphertextData& x, std::size_t item, const std::string& why, bool promise = false) {
  const Fits f = fits(x, item);
  std::string text = "values of this tensor may have outgrown their modulus and decrypt to wrong numbers: " + why +
                     ". Room for " + bits_text(f.room) + ", bound on the values " + bits_text(f.bits);
  if (x.tensor.items() > 1) text += " (ciphertext " + std::to_string(item) + ")";
  const double needs = std::ceil(f.bits - f.room + x.context->room());
  const bool noisy = !std::isfinite(x.noise.assumed);  // the tensor comes from a file without a noise figure
  if (noisy) text += ", noise unknown: compute the tensor anew from encryptions";
  text += noisy ? ", choose parameters with more room" : ". Choose parameters with more room";
  if (std::isfinite(needs) && needs > x.context->room() && needs <= 40)
    text += " (integer_bits=" + std::to_string(static_cast<int>(needs)) + " holds this bound)";
  if (promise)
    text += ", or encrypt and compute in the process that decrypts";
  else if (!noisy)
    text += ", or declare a smaller bound where it holds (bound= of encrypt, within())";
  text += promise ? "" : ", or pass unchecked=True to take the numbers as they are";
  throw RoomError(text);
}

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// Properties of one decrypted ciphertext.
struct Evidence {
  double largest = 0;        // largest coefficient, in units of the phase
  double apart_squared = 0;  // largest squared distance of a padding slot from its known contents
  double low = 0, high = 0;  // the lowest and the highest of real values
  double square = 0;         // square of the largest magnitude of complex values; its root would branch on a secret
};

/// Returns the larger number by masks, because compilers make branches of comparisons.
double larger(double a, double b) {
  const u64 less = math::mask_of(a < b);
  return std::bit_cast<double>((std::bit_cast<u64>(b) & less) | (std::bit_cast<u64>(a) & ~less));
}

/// Returns the largest of many numbers in constant time, in lanes for SIMD comparisons.
template <class Number>
double most_of(std::size_t count, Number number) {
  constexpr std::size_t lanes = 16;
  std::array<double, lanes> most;
  most.fill(-kUnbounded);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::size_t k = 0; k < lanes; ++k) most[k] = larger(most[k], number(i + k));
  }
  for (; i < count; ++i) most[0] = larger(most[0], number(i));
  for (const double v : most) most[0] = larger(most[0], v);
  return most[0];
}

/// Measures a decrypted ciphertext. `behind`: known contents of the slots from `width` to `period`.
Evidence evidence_of(std::span<const double> polynomial, std::span<const std::complex<double>> places,
                     const Packing& packing, const std::optional<std::complex<double>>& behind) {
  const auto square = [](double x, double y) { return x * x + y * y; };
  Evidence seen{.largest = most_of(polynomial.size(), [&](std::size_t i) { return std::abs(polynomial[i]); })};
  if (packing.width > 0 && packing.complex) {
    seen.square = most_of(packing.width, [&](std::size_t i) { return square(places[i].real(), places[i].imag()); });
  } else if (packing.width > 0) {
    seen.high = most_of(packing.width, [&](std::size_t i) { return places[i].real(); });
    seen.low = -most_of(packing.width, [&](std::size_t i) { return -places[i].real(); });
  }
  if (behind) {
    const auto rest = places.subspan(packing.width, packing.period - packing.width);
    seen.apart_squared = most_of(rest.size(), [&](std::size_t i) {
      return square(rest[i].real() - behind->real(), rest[i].imag() - behind->imag());
    });
  }
  return seen;
}

/// Factors by which values may exceed a declared bound, because declared bounds are often rounded. A caller may have
/// meant a complex bound for each part (kParts).
constexpr double kMeantWell = 1.2, kParts = 1.42;

/// Throws RoomError for values outside their declared bounds: the caller's or the file's bound is wrong, and so may be
/// results that depend on it.
void require_as_said(const CiphertextData& x, std::size_t item, const Evidence& seen) {
  const Range& said = x.ranges.at(item).assumed;
  if (!said.known() || !std::isfinite(x.noise.assumed)) return;
  const double noise = 2 * std::exp2(x.noise.assumed) / x.scale, slack = x.complex ? kMeantWell * kParts : kMeantWell;
  const double most = (slack - 1) * said.largest() + noise, coefficient = (slack * said.rms + noise) * x.scale;
  const double reach = said.largest() + most;
  const auto outside =
      static_cast<unsigned>(seen.low < said.low - most) | static_cast<unsigned>(seen.high > said.high + most) |
      static_cast<unsigned>(seen.square > reach * reach) | static_cast<unsigned>(seen.largest > coefficient);
  if (declassified(outside) == 0) return;
  throw RoomError(
      "values of this tensor" + (x.tensor.items() > 1 ? " (ciphertext " + std::to_string(item) + ")" : std::string()) +
      " lie outside of the bounds that were declared, " + short_number(said.low) + " to " + short_number(said.high) +
      ": a bound given to encrypt, within() or bootstrap(), or one in a file, is wrong, and results that depend on it may "
      "be "
      "wrong too. Declare correct bounds, or pass unchecked=True to take the numbers as they are");
}

/// Least number of padding slots whose known contents reveal a wrap. A wrap adds 2 R w for a nonzero integer polynomial
/// w, which is nonzero in all slots.
constexpr std::size_t kLeastPlaces = 2;
/// Returns how many bits below the room coefficients must be to prove that they did not wrap: a wrapped coefficient is that
/// small with probability 2^-bits. Small rooms, which many results exceed, require more bits. `room` is the log2 of the
/// largest value that fits.
double empty_bits(double room) { return 14 + std::clamp(20 - room, 0.0, 10.0); }

/// Throws RoomError unless known padding slots, a bound, or small coefficients show that a ciphertext has not wrapped.
void judge(const CiphertextData& x, std::size_t item, const Evidence& seen, double room, bool publication) {
  const double modulus = std::exp2(room - 1), largest_place = std::exp2(room - 1) / x.scale;
  const Fits f = fits(x, item);
  if (!f.vouched) require_as_said(x, item, seen);
  if (x.tail.kind() == Tail::Kind::known && x.context->period() >= x.width + kLeastPlaces) {
    const double noise = rlwe::log2_sum(x.noise.assumed, tail_noise(x).assumed), relative = 0x1p-12 * largest_place;
    const double known = std::isnan(noise) ? relative : std::min(relative, 2 * std::exp2(noise) / x.scale);
    const double most = std::max(0x1p-8, known);
    if (declassified(seen.apart_squared > most * most))
      no_room(x, item, "their padding slots do not have the known contents");
    return;
  }
  if (f.vouched) return;
  const bool edge = declassified(seen.largest > 0.98 * modulus);
  if (f.assumed && !publication && !edge) return;
  if (declassified(seen.largest <= modulus * std::exp2(-empty_bits(f.room)))) return;
  if (edge) no_room(x, item, "a coefficient is at the limit of the modulus");
  if (!std::isfinite(x.noise.assumed)) no_room(x, item, "no bound on their noise is known");
  no_room(x, item, std::isnan(f.bits) ? "no bound on them is known" : "no bound shows that they fit");
}

}  // namespace

void require_vouched(const CiphertextData& x) {
  for (std::size_t i = 0; i < x.ranges.list().size(); ++i) {
    const Fits f = fits(x, i);
    if (f.vouched) continue;
    if (!x.ranges.at(i).vouched.known() || std::isnan(x.noise.vouched))
      no_room(x, i, "a proof is required (checked=True or hg.strict), but an operand, a key or the tensor came from a file",
              true);
    no_room(x, i,
            "a proof is required (checked=True or hg.strict), but the bound of the values encrypted in this process does "
            "not fit",
            true);
  }
}

Values decrypted(const SecretKeyData& key, const CiphertextData& x, Checked checked,
                 const std::function<void(std::span<double>)>& disturb) {
  require_same(x, key.context, key.key.id(), "this secret key");
  Context& c = *key.context;
  Values v{.shape = x.shape(), .width = x.width, .complex = x.complex};
  const std::size_t items = x.tensor.items();
  v.data = c.engine().host_array<std::complex<double>>(checked_mul(items, x.width), "decrypting this tensor");
  if (checked == Checked::proof) require_vouched(x);
  const bool looks = checked != Checked::none && !c.engine().device().counter();
  if (looks) require_silent(key, x);
  const device::PrimeList primes = c.decoding_primes(x.level, x.scale);
  const double room = c.decoding_room(x.level, x.scale);
  const RnsTensor flat = x.tensor.reshape({items});
  const std::size_t stretch = encoding_stretch(c, primes.size());
  ProgressSteps steps(items);
  for (std::size_t first = 0; first < items; first += stretch) {
    const std::size_t count = std::min(stretch, items - first);
    const RnsTensor some = ring::limbs_of(flat.slice(0, first, 1, count), primes);
    const std::span<std::complex<double>> slots(v.data.data() + first * x.width, count * x.width);
    rlwe::key_holder_reads(some, key.key.context(), slots, [&](const RnsTensor& mine) {
      SecretVector<double> polynomials = download_polynomials(*c.key_holder(), rlwe::phase(key.key, mine));
      if (looks) {
        std::vector<Evidence> seen(count);
        const bool known = x.tail.kind() == Tail::Kind::known && c.period() >= x.width + kLeastPlaces;
        // Publication noise is added after the tests.
        read_slots(c, polynomials, x.scale, x.width, x.complex, slots.data(),
                   [&](std::size_t i, std::span<const double> polynomial, std::span<const std::complex<double>> places) {
                     seen[i] = evidence_of(polynomial, places, x.packing(),
                                           known ? std::optional(x.tail.at(first + i)) : std::nullopt);
                   });
        for (std::size_t i = 0; i < count; ++i) judge(x, first + i, seen[i], room, disturb != nullptr);
      }
      if (disturb) disturb(polynomials);
      if (disturb || !looks) read_slots(c, polynomials, x.scale, x.width, x.complex, slots.data());
    });
    steps.add(count);
  }
  return v;
}

Ciphertext stand_in(const Ciphertext& x, const SecretKey& key) {
  const std::shared_ptr<Context>& c = key.data().context;
  require<MismatchError>(c->hash() == x.data().context->hash(), "the key of a stand-in must have the tensor's parameters");
  CiphertextData r = x.data();
  r.context = c, r.key = key.data().key.id();
  r.guards = {};  // the words of the guards belong to the other key
  r.tensor = RnsTensor(c->rlwe().engine(), x.shape(), x.degree() + 1, c->rlwe().chain(r.level), Domain::ntt);
  r.seed.reset(), r.fresh = false;
  return finish(std::move(r));
}

Values SecretKey::decrypt_as(const Ciphertext& ciphertext, const Ciphertext& like, Checked checked) const {
  const CiphertextData &x = ciphertext.data(), &known = like.data();
  if (x.shape() != known.shape() || x.width != known.width || x.level != known.level || x.scale != known.scale ||
      x.degree() != known.degree() || x.complex != known.complex)
    throw MismatchError("this tensor does not match that computation: it has shape " + ring::to_string(x.shape()) + ", " +
                        std::to_string(x.width) + " slots, level " + std::to_string(x.level) + ", degree " +
                        std::to_string(x.degree()) + "; the computation gives " + ring::to_string(known.shape()) + ", " +
                        std::to_string(known.width) + ", " + std::to_string(known.level) + ", " +
                        std::to_string(known.degree()) + ", or scales or kinds of values differ");
  CiphertextData r = x;
  r.noise = known.noise;
  if (r.tail.kind() == Tail::Kind::unknown) r.tail = known.tail;
  r.ranges = known.ranges;
  return decrypted(*data_, r, checked, {});
}

Values SecretKey::decrypt(const Ciphertext& ciphertext, Checked checked) const {
  return decrypted(*data_, ciphertext.data(), checked, {});
}

}  // namespace heliograph::ckks
