// Keys, encryption, decryption.
#include <algorithm>
#include <cmath>

#include "schemes/ckks/bootstrapping.h"
#include "schemes/ckks/decrypt.h"

namespace heliograph::ckks {

namespace {

/// What of the values all processes know: the key holder alone has them.
struct Described {
  std::size_t width = 0;
  double bound = 0;
  bool complex = false;
};

/// log2 of what all may know of the values' size. Throws PlaintextRangeError where they are larger, or it fits no level.
double public_bound(const Context& c, double largest, double bound, std::size_t level) {
  require<ParameterError>(bound >= 0 && std::isfinite(bound), "a bound on values is a number above 0");
  const double log_bound = bound == 0 ? c.input_bound() : std::log2(std::max(bound, 1.0));
  if (log_bound + std::log2(c.scale(level)) > c.log_modulus(level) - 1)
    throw PlaintextRangeError("values up to " + short_number(std::exp2(log_bound)) + " do not fit level " +
                              std::to_string(level));
  const double most = bound == 0 ? c.input_magnitude() : bound;
  if (largest > most) {
    throw PlaintextRangeError("a value of magnitude " + short_number(largest) + " is beyond " + short_number(most) +
                              (bound == 0
                                   ? ", the room of the lowest level: take parameters with more integer_bits, or, where "
                                     "results stay above that level, say a bound (it is public)"
                                   : ", the bound given"));
  }
  return log_bound;
}

/// `encrypt_zero` is called in the key holder. `seed`: of the masks, where they have one.
template <class EncryptZero>
CiphertextData encrypt(const std::shared_ptr<Context>& c, const rlwe::KeyId& key, const std::shared_ptr<rlwe::Context>& own,
                       const Values& values, std::size_t level, double bound, rlwe::Figure fresh_noise,
                       const std::optional<Key256>& seed, const Progress& progress, EncryptZero encrypt_zero) {
  CiphertextData data;
  data.level = c->require_level(level);
  data.scale = c->scale(data.level);
  device::Device& device = c->engine().device();
  Shape shape;
  ring::broadcast(device, shape, [&] {
    check_values(*c, values, data.level, data.scale);
    shape = values.shape;
  });
  const auto described = ring::broadcast<Described>(device, [&] {
    const double largest = largest_of(values);
    public_bound(*c, largest, bound, data.level);
    return Described{.width = values.width, .bound = std::log2(std::max(largest, 1.0)), .complex = values.complex};
  });
  const std::size_t items = ring::element_count(shape);
  require<ShapeError>(items < (std::size_t{1} << 32), "one call encrypts fewer than 2^32 ciphertexts");
  const device::PrimeList chain = c->rlwe().chain(data.level);
  c->engine().require_memory(checked_product(items, std::size_t{2}, c->rlwe().polynomial_bytes(chain.size())),
                             "encrypting this array");
  data.context = c, data.key = key, data.width = described.width, data.complex = described.complex, data.fresh = true;
  const RnsTensor all(c->rlwe().engine(), {items}, 2, chain, Domain::ntt);
  const std::size_t stretch = encoding_stretch(*c, chain.size());
  for (std::size_t first = 0; first < items; first += stretch) {
    const std::size_t count = std::min(stretch, items - first);
    rlwe::key_holder_writes(all.slice(0, first, 1, count), seed ? 1 : 2, own, [&](const RnsTensor& out) {
      Context& k = *c->key_holder();
      ring::Engine& e = k.engine();
      const RnsTensor zero(k.rlwe().engine(), {count}, 2, chain, Domain::coefficient);
      encrypt_zero(static_cast<math::u32>(first), zero);
      const RnsTensor body = zero.with_components(0, 1);
      const RnsTensor message =
          upload_polynomials(k, rounded_polynomials(k, values, data.scale, first, count), chain, ring::Secrecy::passing);
      e.enqueue(device::Add{e.prepared(), chain, body.view(), message.view(), body.view()});
      e.enqueue(device::ForwardNtt{e.prepared(), chain, zero.view(), out.view()});
    });
    if (progress) progress(static_cast<double>(first + count) / static_cast<double>(items));
  }
  if (seed) rlwe::key_holder_left_masks(all, *seed);
  data.tensor = all.reshape(shape);
  data.noise = rlwe::log2_sum(fresh_noise, c->noise().rounding());
  const double assumed = public_bound(*c, 0, bound, data.level);
  data.bound = {described.bound,
                rlwe::figure_from(rlwe::stored_figure(assumed))};  // as in a file: equal bytes, loaded or not
  data.seed = seed;
  return data;
}

}  // namespace

namespace {

/// By a sparse key that is gone afterwards.
rlwe::BootstrappingKeys bootstrapping_keys(const SecretKeyData& dense, const Progress& progress) {
  Context& c = *dense.context;
  const rlwe::BootstrappingLayouts layouts = c.bootstrapping_layouts();
  c.engine().require_memory(layouts.bytes(c.rlwe()), "generating the keys of bootstrapping");
  std::optional<rlwe::SecretKey> sparse;  // in the key holder
  std::size_t done = 0;
  const auto make = [&](const rlwe::KeyLayout& layout, const auto& key) {
    rlwe::SwitchKey made = rlwe::broadcast_key(c.rlwe_shared(), layout, key);
    if (progress) progress(static_cast<double>(++done) / static_cast<double>(layouts.turns.size() + 2));
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

}  // namespace

PublicKey SecretKey::public_key() const {
  return PublicKey(std::make_shared<PublicKeyData>(PublicKeyData{schemes::make_public_key(*data_)}));
}

EvaluationKeys SecretKey::evaluation_keys(bool relinearize, const std::vector<std::int64_t>& rotations, bool conjugate,
                                          const Progress& progress, bool bootstrapping) const {
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
  const auto part = [&](double begin, double end) -> Progress {
    if (!progress) return {};
    return [&progress, begin, end](double share) { progress(begin + share * (end - begin)); };
  };
  const double end = bootstrapping ? 0.5 : 1;
  EvaluationKeysData made{schemes::make_evaluation_keys(*data_, relinearize || bootstrapping, galois, part(0, end))};
  if (bootstrapping) made.keys.bootstrapping = bootstrapping_keys(*data_, part(end, 1));
  return EvaluationKeys(std::make_shared<EvaluationKeysData>(std::move(made)));
}

bool EvaluationKeys::has_relinearization() const { return data_->keys.relinearization.has_value(); }
bool EvaluationKeys::has_bootstrapping() const { return data_->keys.bootstrapping.has_value(); }
bool EvaluationKeys::has_conjugation() const { return data_->keys.rotations.contains(data_->context->conjugation()); }
std::vector<std::int64_t> EvaluationKeys::rotations() const { return data_->steps(5, data_->context->period()); }
std::vector<std::string> EvaluationKeys::of_programs() const { return data_->of_programs(); }
std::size_t EvaluationKeys::bytes() const { return data_->bytes(); }

Ciphertext SecretKey::encrypt(const Values& values, std::size_t level, const Progress& progress, double bound) const {
  const std::shared_ptr<Context>& c = data_->context;
  Secret<Key256> errors;
  const auto seed = ring::broadcast<Key256>(c->engine().device(), [&] {
    const Key256 masks = data_->entropy->next();
    errors = data_->entropy->next_secret();
    return masks;
  });
  return finish(ckks::encrypt(
      c, data_->key.id(), data_->key.context(), values, level, bound, c->noise().fresh_secret_key(), seed, progress,
      [&](math::u32 first, const RnsTensor& out) { rlwe::encrypt_zero(data_->key, seed, errors, first, out); }));
}

Ciphertext PublicKey::encrypt(const Values& values, std::size_t level, const Progress& progress, double bound) const {
  const std::shared_ptr<Context>& c = data_->context;
  rlwe::Entropy entropy;
  const Secret<Key256> secret = entropy.next_secret();  // of which only the key holder makes use
  // What all processes know: the key holder alone has the key.
  const bool divides =
      ring::broadcast<unsigned char>(c->engine().device(), [&] { return data_->key.divides() ? 1 : 0; }) != 0;
  const double noise =
      divides ? c->noise().fresh_public_key(rlwe::log2_product(c->spec().special)) : c->noise().fresh_public_key();
  const rlwe::Figure fresh(data_->vouched ? noise : std::nan(""), noise);
  return finish(
      ckks::encrypt(c, data_->key.id, data_->key.context, values, level, bound, fresh, std::nullopt, progress,
                    [&](math::u32 first, const RnsTensor& out) { rlwe::encrypt_zero(data_->key, secret, first, out); }));
}

namespace {

[[noreturn]] void no_room(const std::string& why) {
  throw RoomError("the values of this ciphertext may have outgrown their modulus and decrypt to anything: " + why);
}

/// Throws RoomError where a coefficient lies at the very edge of the modulus: what wrapped is spread over all of it.
void require_inside(std::span<const double> polynomials, double log_modulus) {
  double largest = 0;
  for (const double v : polynomials) largest = std::max(largest, std::abs(v));
  if (declassified(largest > 0.98 * std::exp2(log_modulus - 1))) no_room("a coefficient lies at the edge of it");
}

}  // namespace

void require_room_for_values(const CiphertextData& x, Checked checked) {
  const double room = x.context->decoding_room(x.level, x.scale);
  const auto full = [&](double bound, double noise) { return std::isinf(noise) || outgrown(bound, noise, x.scale, room); };
  if (checked != Checked::visible && full(x.bound.vouched, x.noise.vouched))
    no_room(
        "what was encrypted and computed here could exceed it. Take parameters with more room (integer_bits), or smaller "
        "values, or do not ask for a check: bounds take every sum and product at its worst");
  if (checked != Checked::assumed) return;
  if (std::isnan(x.bound.assumed) || std::isnan(x.noise.assumed)) no_room("the file it came from does not tell their size");
  if (full(x.bound.assumed, x.noise.assumed))
    no_room(
        "values of the bound that they were encrypted with could exceed it. A smaller bound can be said there, where it "
        "holds");
}

Values decrypted(const SecretKeyData& key, const CiphertextData& x, const Progress& progress, Checked checked,
                 const std::function<void(std::span<double>)>& disturb) {
  require_same(x, key.context, key.key.id(), "this secret key");
  Context& c = *key.context;
  Values v{.shape = x.shape(), .width = x.width, .complex = x.complex};
  const std::size_t items = x.tensor.items();
  v.data = c.engine().host_array<std::complex<double>>(checked_mul(items, x.width), "decrypting this tensor");
  require_room_for_values(x, checked);
  const device::PrimeList primes = c.decoding_primes(x.level, x.scale);
  const double room = c.decoding_room(x.level, x.scale);
  const RnsTensor flat = x.tensor.reshape({items});
  const std::size_t stretch = encoding_stretch(c, primes.size());
  for (std::size_t first = 0; first < items; first += stretch) {
    const std::size_t count = std::min(stretch, items - first);
    const RnsTensor some = ring::limbs_of(flat.slice(0, first, 1, count), primes);
    const std::span<std::complex<double>> slots(v.data.data() + first * x.width, count * x.width);
    rlwe::key_holder_reads(some, key.key.context(), slots, [&](const RnsTensor& mine) {
      SecretVector<double> polynomials = download_polynomials(*c.key_holder(), rlwe::phase(key.key, mine));
      if (!c.engine().device().counter()) require_inside(polynomials, room);
      if (disturb) disturb(polynomials);
      read_slots(c, polynomials, x.scale, x.width, x.complex, slots.data());
    });
    if (progress) progress(static_cast<double>(first + count) / static_cast<double>(items));
  }
  return v;
}

Values SecretKey::decrypt(const Ciphertext& ciphertext, const Progress& progress, Checked checked) const {
  return decrypted(*data_, ciphertext.data(), progress, checked, {});
}

}  // namespace heliograph::ckks
