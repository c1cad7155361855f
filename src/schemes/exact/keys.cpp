// Keys, encryption, decryption.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/progress.h"
#include "schemes/exact/encode.h"

namespace heliograph::exact {

namespace {

/// Number of items that are encrypted or decrypted at a time, which limits the scratch memory.
constexpr std::size_t kStretch = 32;

constexpr u64 kLargestValue = u64{1} << 63;

/// Binary digits to which magnitudes are rounded up, so that similar data give equal metadata and reuse recorded programs.
constexpr int kDigits = 5;

std::string shown(const Magnitude& m) {
  return m.bits() > 64 ? "0x" + m.hex() : std::to_string(m.is_zero() ? 0 : m.words()[0]);
}

/// Returns the largest magnitude. Throws PlaintextRangeError if this magnitude exceeds the bound.
Magnitude largest_within(const Values& values, const std::optional<Magnitude>& bound) {
  Magnitude largest = largest_of(values);
  if (bound && !(largest <= *bound))
    throw PlaintextRangeError("a value of magnitude " + shown(largest) + " exceeds " + shown(*bound) + ", the given bound");
  return largest;
}

std::optional<Magnitude> magnitude_from(const std::optional<Bound>& bound) {
  if (!bound) return std::nullopt;
  std::optional<Magnitude> found = Magnitude::from(bound->hex);
  require<ParameterError>(found.has_value(), "a bound must be lower-case hexadecimal digits of at most 4096 bits");
  return found;
}

/// The part of an encryption that depends on the kind of key. The functions run in the key holder.
struct Encryption {
  std::shared_ptr<Context> context;
  rlwe::KeyId key;
  std::shared_ptr<rlwe::Context> own;  // context of the key, in the key holder
  bool is_public;
  /// Draws the randomness of one plaintext modulus. Returns the masks' seed, or zeros for a public key.
  std::function<Key256()> draw;
  /// Encrypts zeros with errors multiplied by `times`: the items of `out`, numbered from `first`.
  std::function<void(const Key256& seed, math::u32 first, u64 times, const RnsTensor& out)> encrypt_zero;
  Encrypted* encrypted = nullptr;  // largest magnitude that this secret key encrypted
  bool vouched = true;
};

Ciphertext encrypt(const Encryption& by, const Values& values, Packing packing, Moduli moduli,
                   const std::optional<Bound>& given_bound) {
  const std::shared_ptr<Context>& c = by.context;
  Encrypted* const encrypted = by.encrypted;
  const std::optional<Magnitude> bound = magnitude_from(given_bound);
  device::Device& device = c->engine().device();
  Shape shape;  // broadcast, followed by other data of the key holder
  ring::broadcast(device, shape, [&] {
    check_values(*c, values, packing);
    const Magnitude largest = largest_within(values, bound);
    shape = values.shape;
    shape.insert(shape.end(), largest.words().begin(), largest.words().end());
    shape.insert(shape.end(), {largest.words().size(), encrypted ? encrypted->session() : 0, values.width});
  });
  const auto next = [&shape] {
    const std::size_t value = shape.back();
    shape.pop_back();
    return value;
  };
  auto data = std::make_shared<CiphertextData>();
  data->width = next();
  const u64 session = next();
  std::vector<u64> words(next());
  for (std::size_t k = words.size(); k-- > 0;) words[k] = next();
  const Magnitude largest = Magnitude::of_words(std::move(words)), own = largest.rounded_up(kDigits);
  const Magnitude ceiling = larger(c->most(), kLargestValue);  // larger declared bounds are reduced to this
  data->bounds = {own <= c->most() ? own : c->most(),
                  bound ? Growth::constant(*bound <= ceiling ? *bound : ceiling)
                        : (encrypted ? Growth::own(session) : Growth::constant(c->most()))};
  if (encrypted && !bound) encrypted->add(largest);
  const std::size_t items = ring::element_count(shape), level = c->rlwe().top_level();
  require<ShapeError>(items < (std::size_t{1} << 32), "one call must encrypt fewer than 2^32 ciphertexts; split the array");
  require<ParameterError>(moduli.first < c->parts() && moduli.count <= c->parts() - moduli.first,
                          "the range of plaintext moduli is outside the set");
  const std::size_t parts = moduli.count ? moduli.count : c->parts() - moduli.first;
  c->engine().require_memory(checked_product(items, parts, std::size_t{2}, c->rlwe().polynomial_bytes(level)),
                             "encrypting this array");
  data->context = c, data->key = by.key, data->packing = packing;
  data->first_part = moduli.first;
  data->independent = data->distinct = c->rules().independent();
  data->fresh = true, data->vouched = by.vouched;
  ProgressSteps steps(parts * items);
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t modulus = moduli.first + part;
    const Domain home = c->rules().home();
    const RnsTensor all(c->rlwe().engine(), {items}, 2, c->rlwe().chain(level), home);
    Key256 seed{};
    if (items > 0) ring::broadcast(device, std::span(&seed, 1), [&] { seed = by.draw(); });
    for (std::size_t first = 0; first < items; first += kStretch) {
      const std::size_t count = std::min(kStretch, items - first);
      rlwe::key_holder_writes(all.slice(0, first, 1, count), by.is_public ? 2 : 1, by.own, [&](const RnsTensor& out) {
        Context& k = *c->key_holder();
        ring::Engine& e = k.engine();  // encryption in the coefficient domain, transformed below if the scheme requires it
        by.encrypt_zero(seed, static_cast<math::u32>(first), k.rules().error_multiplier(modulus), out);
        const PlainBatch plain = make_plain_batch(k, count, ring::Secrecy::passing);
        upload_values(k, modulus, values, packing, first, plain);
        const RnsTensor message = scale_up(k, modulus, plain, level, 1), body = out.with_components(0, 1);
        e.enqueue(device::Add{e.prepared(), body.primes(), body.view(), message.view(), body.view()});
        if (home == Domain::ntt) e.enqueue(device::ForwardNtt{e.prepared(), out.primes(), out.view(), out.view()});
      });
      steps.add(count);
    }
    if (!by.is_public) rlwe::key_holder_left_masks(all, seed);
    if (!by.is_public && items > 0) data->seeds.push_back(seed);
    data->parts.push_back(all.reshape(shape));
    data->factors.push_back(1);
    data->noise.push_back(c->rules().fresh_noise(modulus, by.is_public));
    data->tails.emplace_back();
  }
  return Ciphertext(std::move(data));
}

}  // namespace

Bound::Bound(u64 value) : hex(Magnitude(value).hex()) {}

PublicKey SecretKey::public_key() const {
  return PublicKey(std::make_shared<PublicKeyData>(PublicKeyData{schemes::make_public_key(*data_)}));
}

EvaluationKeys SecretKey::evaluation_keys(bool relinearize, const std::vector<std::int64_t>& rotations, bool columns) const {
  const Context& c = *data_->context;
  if ((!rotations.empty() || columns) && !c.has_slots())
    throw SlotsError("cannot make rotation keys: this set has no slots");
  std::vector<u64> galois;
  for (const std::int64_t steps : rotations) galois.push_back(c.row_galois(steps));
  if (columns) galois.push_back(c.column_galois());
  return EvaluationKeys(
      std::make_shared<EvaluationKeysData>(EvaluationKeysData{schemes::make_evaluation_keys(*data_, relinearize, galois)}));
}

bool EvaluationKeys::has_columns() const { return data_->keys.rotations.contains(data_->context->column_galois()); }

Ciphertext SecretKey::encrypt(const Values& values, Packing packing, Moduli moduli,
                              const std::optional<Bound>& bound) const {
  Secret<Key256> errors;
  const auto draw = [&] {
    const Key256 seed = data_->entropy->next();
    errors = data_->entropy->next_secret();
    return seed;
  };
  const auto encrypt_zero = [&](const Key256& seed, math::u32 first, u64 times, const RnsTensor& out) {
    rlwe::encrypt_zero(data_->key, seed, errors, first, out, times);
  };
  const Encryption by{.context = data_->context,
                      .key = data_->key.id(),
                      .own = data_->key.context(),
                      .is_public = false,
                      .draw = draw,
                      .encrypt_zero = encrypt_zero,
                      .encrypted = data_->encrypted.get()};
  return exact::encrypt(by, values, packing, moduli, bound);
}

Ciphertext PublicKey::encrypt(const Values& values, Packing packing, Moduli moduli,
                              const std::optional<Bound>& bound) const {
  rlwe::Entropy entropy;
  Secret<Key256> secret;
  const auto draw = [&] {
    secret = entropy.next_secret();
    return Key256{};
  };
  const auto encrypt_zero = [&](const Key256&, math::u32 first, u64 times, const RnsTensor& out) {
    rlwe::encrypt_zero(data_->key, secret, first, out, times);
  };
  const Encryption by{.context = data_->context,
                      .key = data_->key.id,
                      .own = data_->key.context,
                      .is_public = true,
                      .draw = draw,
                      .encrypt_zero = encrypt_zero,
                      .vouched = data_->vouched};
  return exact::encrypt(by, values, packing, moduli, bound);
}

namespace {

/// Returns the residues of each item of a phase as 64-bit words, for any word size.
SecretVector<u64> widened(const RnsTensor& phase) {
  const SecretVector<std::byte> bytes = ring::download_secret(phase);
  SecretVector<u64> words(bytes.size() / phase.view().word_size());
  if (phase.view().word == math::Word::w64) {
    std::memcpy(words.data(), bytes.data(), bytes.size());
  } else {
    for (std::size_t i = 0; i < words.size(); ++i) {
      math::u32 w;
      std::memcpy(&w, bytes.data() + 4 * i, 4);
      words[i] = w;
    }
  }
  return words;
}

/// Returns the bits that the estimate leaves to one part; NaN if unknown.
double estimated_budget(const CiphertextData& x, std::size_t part) {
  return x.context->rules().noise_limit(x.first_part + part, x.level()) - x.noise[part];
}

/// Returns the bits that the measured noise of one part must leave in every coefficient. The required bits are the bits that
/// the estimate leaves, because noise from correct operations exceeds its estimate with negligible probability. One bit is
/// required if the estimate is unknown or ignored. Noise that wrapped a few values often leaves all coefficients away from
/// the limit (docs/adr/0014).
double required_budget(const CiphertextData& x, std::size_t part) {
  constexpr double unknown = 1, least = 0.03, finest = 40;
  const double budget = estimated_budget(x, part);
  return budget >= 0 ? std::clamp(budget, least, finest) : unknown;
}

void require_budget(const CiphertextData& x) {
  for (std::size_t part = 0; part < x.parts.size(); ++part) {
    const double budget = estimated_budget(x, part);
    if (budget < 0) {
      throw NoiseError("the noise budget of this ciphertext is exhausted: by the estimate " +
                       std::to_string(static_cast<int>(std::ceil(std::min(-budget, 1e6)))) +
                       " more bits are needed, and the result may be wrong. Use fewer multiplications or a larger set, "
                       "or decrypt with beyond_estimate, which checks the measured noise alone");
    }
  }
}

/// Throws NoiseError if the measured noise leaves a coefficient fewer than `budget` bits.
void require_decryptable(const RnsTensor& phase, const std::vector<u64>& moduli, u64 multiplier, double budget) {
  const std::size_t n = phase.view().n, each = n * moduli.size();
  const SecretVector<u64> words = widened(phase);
  double largest = 0;
  for (std::size_t i = 0; i < phase.items(); ++i)
    largest = std::max(largest, rlwe::largest_fraction(words.data() + i * each, n, moduli, multiplier));
  if (declassified(largest > std::exp2(-1 - budget))) {
    throw NoiseError(
        "cannot decrypt: the noise budget of this ciphertext is exhausted, by measurement. Use fewer multiplications or a "
        "larger "
        "set, and check that the files of ciphertext and keys are unaltered");
  }
}

}  // namespace

namespace {

/// Values below t/2 * 2^kEmptyLog2 are accepted: a wrapped value, which may be any residue, is that small with probability
/// 2^kEmptyLog2.
constexpr double kEmptyLog2 = -14;

/// Formats a magnitude with digits in groups of three, or as a power of two.
std::string text_of(const Magnitude& value) {
  if (value.bits() > 63) return "2^" + std::to_string(value.bits());
  const std::string digits = std::to_string(value.is_zero() ? 0 : value.words()[0]);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

/// The key owner's evidence that a ciphertext's values are at most half its plaintext modulus.
class Room {
 public:
  Room(const SecretKeyData& key, const CiphertextData& x) : x_(x), most_(x.context->most()) {
    limit_ = x.context->spec().plain_moduli.front() % 2 == 0 ? most_ - Magnitude(1) : most_;
    const Growth& assumed = x.bounds.assumed;
    const bool own = assumed.open() && key.encrypted->session() == assumed.session();
    assumed_ = assumed.at(own ? key.encrypted->largest() : most_);
    vouched_ = x.vouched ? x.bounds.vouched : Magnitude::none();
  }

  bool vouched() const { return vouched_ <= limit_; }
  bool proven() const { return vouched() || assumed_ <= limit_; }

  [[noreturn]] void refuse(bool by_vouched) const {
    const Magnitude known = by_vouched || vouched_ <= assumed_ || !assumed_.known() ? vouched_ : assumed_;
    std::string text = "the integers of this tensor may have wrapped modulo t: t/2 is " + text_of(limit_) + ", and ";
    if (known.known())
      text += "the known bound on their magnitudes is " + text_of(known);
    else
      text += by_vouched ? "a bound that came from a file is not trusted" : "no bound on their magnitudes is known";
    text += ". Use a set of more plain_bits";
    if (known.known()) text += " (plain_bits=" + std::to_string(known.bits() + 1) + " holds them)";
    if (const Magnitude said = bound_that_does(); !said.is_zero())
      text += "; or give a public bound at encryption: bound=" + text_of(said) + " is enough, if no value is larger";
    else if (!by_vouched)
      text += "; or give a smaller public bound at encryption, if no value is larger (encrypt(..., bound=))";
    throw RoomError(text + "; or decrypt(..., unchecked=True), if you know that they fit");
  }

 private:
  /// Returns the largest magnitude D of inputs for which the result's bound is at most t/2; 0 if the bound does not
  /// depend on D.
  Magnitude bound_that_does() const {
    if (!x_.bounds.assumed.open()) return 0;
    u64 found = 0;
    for (u64 bit = kLargestValue; bit > 0; bit /= 2)
      if (x_.bounds.assumed.at(found | bit) <= limit_) found |= bit;
    return found;
  }

  const CiphertextData& x_;
  const Magnitude& most_;
  Magnitude limit_, assumed_, vouched_;
};

}  // namespace

std::vector<std::uint64_t> SecretKey::decrypt(const Ciphertext& ciphertext, bool beyond_estimate, Proof proof) const {
  const CiphertextData& x = ciphertext.data();
  require_same(x, data_->context, data_->key.id(), "this secret key");
  require_whole(x, "decrypting");
  if (!beyond_estimate) require_budget(x);
  Context& c = *data_->context;
  const Room room(*data_, x);
  const bool asked =
      c.engine().device().counter() == nullptr && (proof == Proof::trusted || (proof == Proof::any && c.spec().exact));
  unsigned char proven = 0;  // set in the process that holds the key
  if (asked)
    ring::broadcast(c.engine().device(), std::span(&proven, 1),
                    [&] { proven = proof == Proof::trusted ? room.vouched() : room.proven(); });
  if (asked && !proven && proof == Proof::trusted) room.refuse(true);
  const std::size_t items = x.front().items();
  const std::vector<u64> moduli = c.rlwe().moduli(x.front().primes());
  std::vector<std::uint64_t> out =
      c.engine().host_array<std::uint64_t>(checked_product(c.parts(), items, x.width), "decrypting this tensor");
  ProgressSteps steps(c.parts() * items);
  for (std::size_t part = 0; part < c.parts(); ++part) {
    const RnsTensor flat = x.parts[part].reshape({items});
    for (std::size_t first = 0; first < items; first += kStretch) {
      const std::size_t count = std::min(kStretch, items - first);
      const std::span<u64> values(out.data() + (part * items + first) * x.width, count * x.width);
      rlwe::key_holder_reads(flat.slice(0, first, 1, count), data_->key.context(), values, [&](const RnsTensor& some) {
        Context& k = *c.key_holder();
        ring::Engine& e = k.engine();
        const RnsTensor phase = rlwe::phase(data_->key, some);
        if (!e.device().counter())
          require_decryptable(phase, moduli, k.rules().noise_multiplier(part), required_budget(x, part));
        const PlainBatch plain = make_plain_batch(k, count, ring::Secrecy::passing);
        e.enqueue(device::Convert{k.rules().decoding(part, x.level()), phase.view(), std::nullopt, plain.view});
        download_values(k, part, x.packing, x.width, plain, values.data());
        if (x.factors[part] != 1) {
          const u64 t = k.plain(part).t, inverse = math::inverse_mod(x.factors[part], t);
          for (u64& v : values) v = math::mul_mod(v, inverse, t);
        }
      });
      steps.add(count);
    }
  }
  if (asked && !proven &&
      declassified(rlwe::largest_fraction(out.data(), items * x.width, c.spec().plain_moduli, 1) >
                   std::exp2(kEmptyLog2 - 1)))
    room.refuse(false);
  return out;
}

double SecretKey::noise_budget(const Ciphertext& ciphertext, bool beyond_estimate) const {
  const CiphertextData& x = ciphertext.data();
  require_same(x, data_->context, data_->key.id(), "this secret key");
  Context& c = *data_->context;
  const std::size_t items = x.front().items(), n = c.spec().n;
  const std::vector<u64> moduli = c.rlwe().moduli(x.front().primes());
  const double whole = c.rules().log_modulus(x.level());
  double worst = whole;
  for (std::size_t part = 0; part < x.parts.size(); ++part) {
    if (!beyond_estimate && estimated_budget(x, part) < 0) return 0;
    const RnsTensor flat = x.parts[part].reshape({items});
    for (std::size_t i = 0; i < items; ++i) {
      double noise = 0;
      rlwe::key_holder_reads(flat.slice(0, i, 1, 1), data_->key.context(), std::span(&noise, 1), [&](const RnsTensor& one) {
        const SecretVector<u64> words = widened(rlwe::phase(data_->key, one));
        noise = rlwe::log2_largest(words.data(), n, moduli, c.rules().noise_multiplier(x.first_part + part));
      });
      const double budget = whole - 1 - noise;
      if (budget < required_budget(x, part)) return 0;  // decrypt would throw NoiseError
      worst = std::min(worst, budget);
    }
  }
  return worst;
}

}  // namespace heliograph::exact
