// Keys, encryption, decryption.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/checked.h"
#include "schemes/tfhe/context.h"
#include "schemes/tfhe/encoding.h"

namespace heliograph::tfhe {

namespace {

/// LWE ciphertexts made or read in one go: bounds the host's scratch.
constexpr std::size_t kStretch = 4096;

SecretKey generate(const Parameters& parameters, std::shared_ptr<ring::Entropy> entropy) {
  const std::shared_ptr<Context>& c = parameters.context();
  lwe::SecretKey key = lwe::SecretKey::generate(c->lwe(), entropy->next());
  std::vector<u64> masks = key.wide_masks();
  const KeyId id = ring::new_id(*entropy);
  return SecretKey(std::make_shared<SecretKeyData>(SecretKeyData{c, id, std::move(key), std::move(masks), entropy}));
}

std::vector<u64> messages_of(const Spec& spec, const std::vector<std::uint64_t>& values, const Shape& shape,
                             const Type& type) {
  const std::size_t items = device::element_count(shape), wires = wires_of(spec, type);
  if (values.size() != items) {
    throw ShapeError(std::to_string(values.size()) + " values do not fill the shape " + device::to_string(shape));
  }
  require<ShapeError>(checked_mul(items, wires) < (std::size_t{1} << 32), "one call encrypts fewer than 2^32 ciphertexts");
  std::vector<u64> messages(items * wires);
  for (std::size_t i = 0; i < items; ++i) {
    if (type.boolean && values[i] > 1) throw PlaintextRangeError("a boolean is 0 or 1");
    encode(spec, type, values[i], messages.data() + i * wires);
  }
  return messages;
}

/// Calls f(first, count) on stretches of `count` ciphertexts' elements.
template <class F>
void in_stretches(std::size_t items, std::size_t wires, const Progress& progress, F&& f) {
  const std::size_t step = std::max<std::size_t>(1, kStretch / std::max<std::size_t>(1, wires));
  for (std::size_t first = 0; first < items; first += step) {
    const std::size_t count = std::min(step, items - first);
    f(first, count);
    if (progress) progress(static_cast<double>(first + count) / static_cast<double>(items));
  }
}

}  // namespace

SecretKey SecretKey::generate(const Parameters& parameters) {
  return tfhe::generate(parameters, std::make_shared<ring::Entropy>(parameters.context()->session().device()));
}

SecretKey SecretKey::generate_for_test(const Parameters& parameters, const std::string& seed) {
  Key256 bytes{};
  require<ParameterError>(seed.size() == bytes.size(), "a test seed has 32 bytes");
  std::memcpy(bytes.data(), seed.data(), bytes.size());
  return tfhe::generate(parameters, std::make_shared<ring::Entropy>(bytes));
}

EvaluationKeys SecretKey::evaluation_keys(const Progress& progress) const {
  auto data = std::make_shared<EvaluationKeysData>();
  data->context = data_->context;
  data->id = data_->id;
  const Key256 seed = data_->entropy->next(), secret_seed = data_->entropy->next();
  data->keys = lwe::make_evaluation_keys(data_->context->lwe(), data_->key, seed, secret_seed, progress);
  return EvaluationKeys(std::move(data));
}

Ciphertext SecretKey::encrypt(const std::vector<std::uint64_t>& values, const Shape& shape, Type type,
                              const Progress& progress) const {
  Context& c = *data_->context;
  const std::vector<u64> messages = messages_of(c.spec(), values, shape, type);
  const std::size_t items = values.size(), wires = wires_of(c.spec(), type), words = c.words();
  c.session().require_memory(messages.size() * words * sizeof(u64), "encrypting this array");
  const Key256 seed = data_->entropy->next(), error_seed = data_->entropy->next();
  const lwe::Tensor all = c.tensor({items}, wires);
  std::vector<u64> stretch;
  in_stretches(items, wires, progress, [&](std::size_t first, std::size_t count) {
    stretch.resize(count * wires * words);
    lwe::encrypt(c.lwe(), data_->masks, std::span(messages).subspan(first * wires, count * wires), seed, error_seed,
                 static_cast<u32>(first * wires), stretch);
    lwe::upload(all.slice(0, first, 1, count), stretch);
  });
  return Ciphertext(
      std::make_shared<CiphertextData>(CiphertextData{data_->context, data_->id, type, all.reshape(shape), seed}));
}

namespace {

std::vector<u64> phases(const SecretKeyData& key, const CiphertextData& x, const Progress& progress) {
  require_same(x, key.context, key.id, "this secret key");
  const lwe::Tensor flat = x.tensor.reshape({x.tensor.items()});
  std::vector<u64> all;
  all.reserve(flat.items() * flat.wires());
  in_stretches(flat.items(), flat.wires(), progress, [&](std::size_t first, std::size_t count) {
    const std::vector<u64> words = lwe::download(flat.slice(0, first, 1, count));
    const std::vector<u64> part = lwe::phases(key.context->lwe(), key.masks, words);
    all.insert(all.end(), part.begin(), part.end());
  });
  return all;
}

}  // namespace

std::vector<std::uint64_t> SecretKey::decrypt(const Ciphertext& ciphertext, const Progress& progress) const {
  const CiphertextData& x = ciphertext.data();
  const Spec& spec = data_->context->spec();
  const std::vector<u64> p = phases(*data_, x, progress);
  const double limit = 0.98 * static_cast<double>(spec.message_bits == 0 ? unit_of(spec) : unit_of(spec) / 2);
  const bool computes = data_->context->session().device().counter() == nullptr;
  for (std::size_t i = 0; computes && i < p.size(); ++i) {
    if (std::abs(static_cast<double>(error_of(spec, p[i]))) > limit)
      throw NoiseError("the noise of this ciphertext is exhausted: it no longer decrypts");
  }
  const std::size_t wires = x.tensor.wires();
  std::vector<std::uint64_t> values(x.tensor.items());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = decode(spec, x.type, p.data() + i * wires);
  return values;
}

std::vector<double> SecretKey::errors(const Ciphertext& ciphertext) const {
  const std::vector<u64> p = phases(*data_, ciphertext.data(), {});
  std::vector<double> errors(p.size());
  std::transform(p.begin(), p.end(), errors.begin(),
                 [&](u64 x) { return static_cast<double>(error_of(data_->context->spec(), x)) * 0x1p-64; });
  return errors;
}

Ciphertext trivial(const EvaluationKeys& keys, const std::vector<std::uint64_t>& values, const Shape& shape, Type type) {
  const std::shared_ptr<Context>& c = keys.data().context;
  const std::vector<u64> messages = messages_of(c->spec(), values, shape, type);
  const std::size_t items = values.size(), wires = wires_of(c->spec(), type), words = c->words();
  const lwe::Tensor all = c->tensor({items}, wires);
  std::vector<u64> stretch;
  in_stretches(items, wires, {}, [&](std::size_t first, std::size_t count) {
    stretch.assign(count * wires * words, 0);
    for (std::size_t i = 0; i < count * wires; ++i) stretch[i * words + c->lwe().wide()] = messages[first * wires + i];
    lwe::upload(all.slice(0, first, 1, count), stretch);
  });
  return make_ciphertext(c, std::nullopt, type, all.reshape(shape));
}

}  // namespace heliograph::tfhe
