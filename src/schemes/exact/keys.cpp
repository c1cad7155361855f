// Keys, encryption, decryption.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "schemes/exact/encode.h"

namespace heliograph::exact {

namespace {

/// Items encrypted or decrypted in one go: bounds the scratch beside the result.
constexpr std::size_t kStretch = 32;

/// `draw` draws for one plaintext modulus and returns the masks' seed, or nothing that means anything with a public key;
/// `encrypt_zero` then encrypts. Both are called in the key holder, which has the values as well.
template <class Draw, class EncryptZero>
Ciphertext encrypt(const std::shared_ptr<Context>& c, const rlwe::KeyId& key, const std::shared_ptr<rlwe::Context>& own,
                   const Values& values, Packing packing, Moduli moduli, bool public_key, const Progress& progress,
                   Draw draw, EncryptZero encrypt_zero, bool vouched = true) {
  device::Device& device = c->engine().device();
  Shape shape;
  ring::broadcast(device, shape, [&] {
    check_values(*c, values, packing);
    shape = values.shape, shape.push_back(values.width);
  });
  auto data = std::make_shared<CiphertextData>();
  data->width = shape.back(), shape.pop_back();
  const std::size_t items = ring::element_count(shape), level = c->rlwe().top_level();
  require<ShapeError>(items < (std::size_t{1} << 32), "one call encrypts fewer than 2^32 ciphertexts");
  require<ParameterError>(moduli.first < c->parts() && moduli.count <= c->parts() - moduli.first,
                          "the set has no such plaintext moduli");
  const std::size_t parts = moduli.count ? moduli.count : c->parts() - moduli.first;
  c->engine().require_memory(checked_product(items, parts, std::size_t{2}, c->rlwe().polynomial_bytes(level)),
                             "encrypting this array");
  data->context = c, data->key = key, data->packing = packing;
  data->first_part = moduli.first;
  data->independent = data->distinct = c->rules().independent();
  data->fresh = true, data->vouched = vouched;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t modulus = moduli.first + part;
    const Domain home = c->rules().home();
    const RnsTensor all(c->rlwe().engine(), {items}, 2, c->rlwe().chain(level), home);
    Key256 seed{};
    if (items > 0) ring::broadcast(device, std::span(&seed, 1), [&] { seed = draw(); });
    for (std::size_t first = 0; first < items; first += kStretch) {
      const std::size_t count = std::min(kStretch, items - first);
      rlwe::key_holder_writes(all.slice(0, first, 1, count), public_key ? 2 : 1, own, [&](const RnsTensor& out) {
        Context& k = *c->key_holder();
        ring::Engine& e = k.engine();  // coefficients first, whatever the domain it is to have
        encrypt_zero(seed, static_cast<math::u32>(first), k.rules().error_multiplier(modulus), out);
        const PlainBatch plain = make_plain_batch(k, count, ring::Secrecy::passing);
        upload_values(k, modulus, values, packing, first, plain);
        const RnsTensor message = scale_up(k, modulus, plain, level, 1), body = out.with_components(0, 1);
        e.enqueue(device::Add{e.prepared(), body.primes(), body.view(), message.view(), body.view()});
        if (home == Domain::ntt) e.enqueue(device::ForwardNtt{e.prepared(), out.primes(), out.view(), out.view()});
      });
      if (progress)
        progress((static_cast<double>(part) + static_cast<double>(first + count) / static_cast<double>(items)) /
                 static_cast<double>(parts));
    }
    if (!public_key) rlwe::key_holder_left_masks(all, seed);
    if (!public_key && items > 0) data->seeds.push_back(seed);
    data->parts.push_back(all.reshape(shape));
    data->factors.push_back(1);
    data->noise.push_back(c->rules().fresh_noise(modulus, public_key));
    data->tails.emplace_back();
  }
  return Ciphertext(std::move(data));
}

}  // namespace

PublicKey SecretKey::public_key() const {
  return PublicKey(std::make_shared<PublicKeyData>(PublicKeyData{schemes::make_public_key(*data_)}));
}

EvaluationKeys SecretKey::evaluation_keys(bool relinearize, const std::vector<std::int64_t>& rotations, bool columns,
                                          const Progress& progress) const {
  const Context& c = *data_->context;
  if ((!rotations.empty() || columns) && !c.has_slots())
    throw SlotsError("this set has no slots, so there is nothing to rotate");
  std::vector<u64> galois;
  for (const std::int64_t steps : rotations) galois.push_back(c.row_galois(steps));
  if (columns) galois.push_back(c.column_galois());
  return EvaluationKeys(std::make_shared<EvaluationKeysData>(
      EvaluationKeysData{schemes::make_evaluation_keys(*data_, relinearize, galois, progress)}));
}

bool EvaluationKeys::has_relinearization() const { return data_->keys.relinearization.has_value(); }
bool EvaluationKeys::has_columns() const { return data_->keys.rotations.contains(data_->context->column_galois()); }
std::vector<std::int64_t> EvaluationKeys::rotations() const { return data_->steps(3, data_->context->spec().n / 2); }
std::vector<std::string> EvaluationKeys::of_programs() const { return data_->of_programs(); }
std::size_t EvaluationKeys::bytes() const { return data_->bytes(); }

Ciphertext SecretKey::encrypt(const Values& values, Packing packing, const Progress& progress, Moduli moduli) const {
  Secret<Key256> errors;
  const auto draw = [&] {
    const Key256 seed = data_->entropy->next();
    errors = data_->entropy->next_secret();
    return seed;
  };
  return exact::encrypt(data_->context, data_->key.id(), data_->key.context(), values, packing, moduli, false, progress,
                        draw, [&](const Key256& seed, math::u32 first, u64 times, const RnsTensor& out) {
                          rlwe::encrypt_zero(data_->key, seed, errors, first, out, times);
                        });
}

Ciphertext PublicKey::encrypt(const Values& values, Packing packing, const Progress& progress, Moduli moduli) const {
  rlwe::Entropy entropy;
  Secret<Key256> secret;
  const auto draw = [&] {
    secret = entropy.next_secret();
    return Key256{};
  };
  return exact::encrypt(
      data_->context, data_->key.id, data_->key.context, values, packing, moduli, true, progress, draw,
      [&](const Key256&, math::u32 first, u64 times, const RnsTensor& out) {
        rlwe::encrypt_zero(data_->key, secret, first, out, times);
      },
      data_->vouched);
}

namespace {

/// Residues of each item of a phase, 64-bit whatever the edition's word.
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

/// Bits that the estimate leaves to one part; NaN: unknown.
double estimated_budget(const CiphertextData& x, std::size_t part) {
  return x.context->rules().noise_limit(x.first_part + part, x.level()) - x.noise[part];
}

/// Bits that noise measured must leave to one part, in whatever coefficient: what the estimate leaves, for noise beyond an
/// honest estimate has another cause than chance. Where there is none, or it is not to count, one bit: noise that wrapped in
/// few values often comes near the limit in none of them (docs/adr/0014).
double required_budget(const CiphertextData& x, std::size_t part) {
  constexpr double unknown = 1, least = 0.03, finest = 40;
  const double budget = estimated_budget(x, part);
  return budget >= 0 ? std::clamp(budget, least, finest) : unknown;
}

/// Throws NoiseError where the estimate says that noise is exhausted.
void require_budget(const CiphertextData& x) {
  for (std::size_t part = 0; part < x.parts.size(); ++part) {
    const double budget = estimated_budget(x, part);
    if (budget < 0) {
      throw NoiseError("the noise of this ciphertext is exhausted: by the estimate " +
                       std::to_string(static_cast<int>(std::ceil(std::min(-budget, 1e6)))) +
                       " more bits are needed, and it may decrypt to anything. Fewer multiplications, or a larger set, are "
                       "needed; or say that the noise measured is to decide, not its estimate (beyond_estimate)");
    }
  }
}

/// Throws NoiseError where noise measured leaves a coefficient less than so many bits.
void require_decryptable(const RnsTensor& phase, const std::vector<u64>& moduli, u64 multiplier, double budget) {
  const std::size_t n = phase.view().n, each = n * moduli.size();
  const SecretVector<u64> words = widened(phase);
  double largest = 0;
  for (std::size_t i = 0; i < phase.items(); ++i)
    largest = std::max(largest, rlwe::largest_fraction(words.data() + i * each, n, moduli, multiplier));
  if (declassified(largest > std::exp2(-1 - budget))) {
    throw NoiseError(
        "the noise of this ciphertext is exhausted, or not what its estimate says: it no longer decrypts. Fewer "
        "multiplications, or a larger set, are needed, and ciphertexts and keys that are what their files say");
  }
}

}  // namespace

std::vector<std::uint64_t> SecretKey::decrypt(const Ciphertext& ciphertext, const Progress& progress,
                                              bool beyond_estimate) const {
  const CiphertextData& x = ciphertext.data();
  require_same(x, data_->context, data_->key.id(), "this secret key");
  require_whole(x, "decrypting");
  if (!beyond_estimate) require_budget(x);
  Context& c = *data_->context;
  const std::size_t items = x.front().items();
  const std::vector<u64> moduli = c.rlwe().moduli(x.front().primes());
  std::vector<std::uint64_t> out =
      c.engine().host_array<std::uint64_t>(checked_product(c.parts(), items, x.width), "decrypting this tensor");
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
      if (progress)
        progress((static_cast<double>(part) + static_cast<double>(first + count) / static_cast<double>(items)) /
                 static_cast<double>(c.parts()));
    }
  }
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
      if (budget < required_budget(x, part)) return 0;  // decryption refuses it
      worst = std::min(worst, budget);
    }
  }
  return worst;
}

}  // namespace heliograph::exact
