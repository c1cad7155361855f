// Keys, encryption, decryption.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "schemes/bfv/encode.h"

namespace heliograph::bfv {

namespace {

/// Items encrypted or decrypted in one go: bounds the scratch beside the result.
constexpr std::size_t kStretch = 32;

template <class EncryptZero>
Ciphertext encrypt(const std::shared_ptr<Context>& c, const rlwe::KeyId& key, const Values& values, Packing packing,
                   Moduli moduli, bool public_key, const Progress& progress, EncryptZero encrypt_zero) {
  check_values(*c, values, packing);
  const std::size_t items = ring::element_count(values.shape), level = c->rlwe().top_level();
  require<ShapeError>(items < (std::size_t{1} << 32), "one call encrypts fewer than 2^32 ciphertexts");
  const std::size_t each = 2 * level * c->spec().n * math::word_bytes(c->rlwe().parameters().word);
  require<ParameterError>(moduli.first < c->parts() && moduli.count <= c->parts() - moduli.first,
                          "the set has no such plaintext moduli");
  const std::size_t parts = moduli.count ? moduli.count : c->parts() - moduli.first;
  c->engine().require_memory(items * parts * each, "encrypting this array");
  auto data = std::make_shared<CiphertextData>();
  data->context = c, data->key = key, data->packing = packing, data->width = values.width;
  data->first_part = moduli.first;
  data->independent = data->distinct = c->rules().independent();
  data->fresh = true;
  ring::Engine& e = c->engine();
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t modulus = moduli.first + part;
    const Domain home = c->rules().home();
    const RnsTensor all(c->rlwe().engine(), {items}, 2, c->rlwe().chain(level), home);
    for (std::size_t first = 0; first < items; first += kStretch) {
      const std::size_t count = std::min(kStretch, items - first);
      const RnsTensor out = all.slice(0, first, 1, count);  // coefficients first, whatever the domain it is to have
      encrypt_zero(part, static_cast<math::u32>(first), c->rules().error_multiplier(modulus), out);
      const PlainBatch plain = make_plain_batch(*c, count);
      upload_values(*c, modulus, values, packing, first, plain);
      const RnsTensor message = scale_up(*c, modulus, plain, level, 1), body = out.with_components(0, 1);
      e.kernels().add(e.queue(), e.prepared(), body.primes(), body.view(), message.view(), body.view());
      if (home == Domain::ntt) e.kernels().forward_ntt(e.queue(), e.prepared(), out.primes(), out.view(), out.view());
      if (progress)
        progress((static_cast<double>(part) + static_cast<double>(first + count) / static_cast<double>(items)) /
                 static_cast<double>(parts));
    }
    data->parts.push_back(all.reshape(values.shape));
    data->factors.push_back(1);
    data->noise.push_back(c->rules().fresh_noise(modulus, public_key));
  }
  return Ciphertext(std::move(data));
}

}  // namespace

SecretKey SecretKey::generate(const Parameters& parameters) {
  auto entropy = std::make_shared<rlwe::Entropy>(parameters.context()->engine().device());
  rlwe::SecretKey key = rlwe::SecretKey::generate(parameters.context()->rlwe_shared(), *entropy);
  return SecretKey(std::make_shared<SecretKeyData>(SecretKeyData{parameters.context(), std::move(key), entropy}));
}

SecretKey SecretKey::generate_for_test(const Parameters& parameters, const std::string& seed) {
  Key256 bytes{};
  require<ParameterError>(seed.size() == bytes.size(), "a test seed has 32 bytes");
  std::memcpy(bytes.data(), seed.data(), bytes.size());
  auto entropy = std::make_shared<rlwe::Entropy>(bytes);
  rlwe::SecretKey key = rlwe::SecretKey::generate(parameters.context()->rlwe_shared(), *entropy);
  return SecretKey(std::make_shared<SecretKeyData>(SecretKeyData{parameters.context(), std::move(key), entropy}));
}

std::string SecretKey::key_id() const { return rlwe::to_string(data_->key.id()); }

PublicKey SecretKey::public_key() const {
  return PublicKey(
      std::make_shared<PublicKeyData>(PublicKeyData{data_->context, rlwe::make_public_key(data_->key, *data_->entropy)}));
}

std::string PublicKey::key_id() const { return rlwe::to_string(data_->key.id); }

EvaluationKeys SecretKey::evaluation_keys(bool relinearize, const std::vector<std::int64_t>& rotations, bool columns,
                                          const Progress& progress) const {
  Context& c = *data_->context;
  if ((!rotations.empty() || columns) && !c.has_slots())
    throw SlotsError("this set has no slots, so there is nothing to rotate");
  auto data = std::make_shared<EvaluationKeysData>();
  data->context = data_->context;
  data->keys.context = c.rlwe_shared();
  data->keys.id = data_->key.id();
  std::vector<u64> galois;
  for (std::int64_t steps : rotations) {
    if (const u64 g = c.row_galois(steps); g != 1) galois.push_back(g);
  }
  if (columns) galois.push_back(c.column_galois());
  const std::size_t total = galois.size() + (relinearize ? 1 : 0);
  c.engine().require_memory(total * Parameters(data_->context).switch_key_bytes(), "generating these keys");
  std::size_t done = 0;
  const auto tick = [&] {
    if (progress) progress(static_cast<double>(++done) / static_cast<double>(total));
  };
  if (relinearize) data->keys.relinearization = rlwe::make_relinearization_key(data_->key, *data_->entropy), tick();
  for (u64 g : galois)
    data->keys.rotations.insert_or_assign(g, rlwe::make_rotation_key(data_->key, g, *data_->entropy)), tick();
  return EvaluationKeys(std::move(data));
}

std::string EvaluationKeys::key_id() const { return rlwe::to_string(data_->keys.id); }
bool EvaluationKeys::has_relinearization() const { return data_->keys.relinearization.has_value(); }
bool EvaluationKeys::has_columns() const { return data_->keys.rotations.contains(data_->context->column_galois()); }

std::vector<std::int64_t> EvaluationKeys::rotations() const {
  std::vector<std::int64_t> steps;
  const u64 modulus = 2 * data_->context->spec().n;
  u64 g = 1;
  for (std::size_t k = 0; k < data_->context->spec().n / 2; ++k, g = g * 3 % modulus) {
    if (k > 0 && data_->keys.rotations.contains(g)) steps.push_back(static_cast<std::int64_t>(k));
  }
  return steps;
}

std::size_t EvaluationKeys::bytes() const {
  std::size_t total = data_->keys.relinearization ? data_->keys.relinearization->bytes() : 0;
  for (const auto& [galois, key] : data_->keys.rotations) total += key.bytes();
  return total;
}

Ciphertext SecretKey::encrypt(const Values& values, Packing packing, const Progress& progress, Moduli moduli) const {
  const std::shared_ptr<Context>& c = data_->context;
  std::vector<Key256> seeds;
  Key256 errors{};
  Ciphertext out = bfv::encrypt(c, data_->key.id(), values, packing, moduli, false, progress,
                                [&](std::size_t part, math::u32 first, u64 times, const RnsTensor& target) {
                                  if (first == 0) seeds.push_back(data_->entropy->next()), errors = data_->entropy->next();
                                  rlwe::encrypt_zero(data_->key, seeds[part], errors, first, target, times);
                                });
  auto data = std::make_shared<CiphertextData>(out.data());
  if (seeds.size() == data->parts.size()) data->seeds = seeds;
  return Ciphertext(std::move(data));
}

Ciphertext PublicKey::encrypt(const Values& values, Packing packing, const Progress& progress, Moduli moduli) const {
  const std::shared_ptr<Context>& c = data_->context;
  rlwe::Entropy entropy(c->engine().device());
  Key256 seed{};
  return bfv::encrypt(c, data_->key.id, values, packing, moduli, true, progress,
                      [&](std::size_t, math::u32 first, u64 times, const RnsTensor& target) {
                        if (first == 0) seed = entropy.next();
                        rlwe::encrypt_zero(data_->key, seed, first, target, times);
                      });
}

namespace {

/// Residues of each item of a phase, 64-bit whatever the edition's word.
std::vector<u64> widened(const RnsTensor& phase) {
  const std::vector<std::byte> bytes = ring::download(phase);
  std::vector<u64> words(bytes.size() / phase.view().word_size());
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

/// Throws NoiseError where a coefficient lies so near a rounding boundary that noise must have reached it.
void require_decryptable(const RnsTensor& phase, const std::vector<u64>& moduli, u64 multiplier) {
  const std::size_t n = phase.view().n, each = n * moduli.size();
  const std::vector<u64> words = widened(phase);
  for (std::size_t i = 0; i < phase.items(); ++i) {
    if (rlwe::largest_fraction(words.data() + i * each, n, moduli, multiplier) > 0.49) {
      throw NoiseError(
          "the noise of this ciphertext is exhausted: it no longer decrypts. Fewer multiplications, or a larger set, are "
          "needed");
    }
  }
}

}  // namespace

std::vector<std::uint64_t> SecretKey::decrypt(const Ciphertext& ciphertext, const Progress& progress) const {
  const CiphertextData& x = ciphertext.data();
  require_same(x, data_->context, data_->key.id(), "this secret key");
  require_whole(x, "decrypting");
  Context& c = *data_->context;
  ring::Engine& e = c.engine();
  const std::size_t items = x.front().items();
  const std::vector<u64> moduli = c.rlwe().moduli(x.front().primes());
  std::vector<std::uint64_t> out(c.parts() * items * x.width);
  for (std::size_t part = 0; part < c.parts(); ++part) {
    const RnsTensor flat = x.parts[part].reshape({items});
    for (std::size_t first = 0; first < items; first += kStretch) {
      const std::size_t count = std::min(kStretch, items - first);
      const RnsTensor phase = rlwe::phase(data_->key, flat.slice(0, first, 1, count));
      if (!e.device().counter()) require_decryptable(phase, moduli, c.rules().noise_multiplier(part));
      const PlainBatch plain = make_plain_batch(c, count);
      e.kernels().convert(e.queue(), c.rules().decoding(part, x.level()), phase.view(), nullptr, plain.view);
      const std::span<u64> values(out.data() + (part * items + first) * x.width, count * x.width);
      download_values(c, part, x.packing, x.width, plain, values.data());
      if (x.factors[part] != 1) {
        const u64 t = c.plain(part).t, inverse = math::inverse_mod(x.factors[part], t);
        for (u64& v : values) v = math::mul_mod(v, inverse, t);
      }
      if (progress)
        progress((static_cast<double>(part) + static_cast<double>(first + count) / static_cast<double>(items)) /
                 static_cast<double>(c.parts()));
    }
  }
  return out;
}

double SecretKey::noise_budget(const Ciphertext& ciphertext) const {
  const CiphertextData& x = ciphertext.data();
  require_same(x, data_->context, data_->key.id(), "this secret key");
  Context& c = *data_->context;
  const std::size_t items = x.front().items(), n = c.spec().n;
  const std::vector<u64> moduli = c.rlwe().moduli(x.front().primes());
  const double whole = c.rules().log_modulus(x.level());
  double worst = whole;
  for (std::size_t part = 0; part < x.parts.size(); ++part) {
    const RnsTensor flat = x.parts[part].reshape({items});
    for (std::size_t i = 0; i < items; ++i) {
      const std::vector<u64> words = widened(rlwe::phase(data_->key, flat.slice(0, i, 1, 1)));
      const double noise = rlwe::log2_largest(words.data(), n, moduli, c.rules().noise_multiplier(x.first_part + part));
      worst = std::min(worst, whole - 1 - noise);
    }
  }
  return std::max(0.0, worst);
}

}  // namespace heliograph::bfv
