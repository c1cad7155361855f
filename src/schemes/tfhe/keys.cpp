// Keys, encryption, decryption.
#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/progress.h"
#include "ring/key_holder.h"
#include "schemes/tfhe/context.h"
#include "schemes/tfhe/encoding.h"

namespace heliograph::tfhe {

namespace {

/// Number of LWE ciphertexts processed at a time, which limits the host's scratch memory.
constexpr std::size_t kStretch = 4096;

std::vector<u64> messages_of(const Spec& spec, const std::vector<std::uint64_t>& values, const Shape& shape,
                             const Type& type) {
  const std::size_t items = device::element_count(shape), wires = wires_of(spec, type);
  if (values.size() != items) {
    throw ShapeError(std::to_string(values.size()) + " values do not fill the shape " + device::to_string(shape));
  }
  require<ShapeError>(checked_mul(items, wires) < (std::size_t{1} << 32),
                      "one call must encrypt fewer than 2^32 LWE ciphertexts; split the array");
  std::vector<u64> messages(items * wires);
  for (std::size_t i = 0; i < items; ++i) {
    if (type.boolean && values[i] > 1) throw PlaintextRangeError("a boolean must be 0 or 1");
    encode(spec, type, values[i], messages.data() + i * wires);
  }
  return messages;
}

template <class F>
void in_stretches(std::size_t items, std::size_t wires, F&& f) {
  const std::size_t step = std::max<std::size_t>(1, kStretch / std::max<std::size_t>(1, wires));
  ProgressSteps steps(items);
  for (std::size_t first = 0; first < items; first += step) {
    const std::size_t count = std::min(step, items - first);
    f(first, count);
    steps.add(count);
  }
}

}  // namespace

SecretKey new_key(const std::shared_ptr<Context>& c, std::shared_ptr<ring::Entropy> entropy, schemes::As<SecretKey>) {
  auto data = std::make_shared<SecretKeyData>();
  data->context = c, data->entropy = std::move(entropy);
  ring::broadcast(c->session().device(), std::span(&data->key_id, 1), [&] {
    data->key = lwe::SecretKey::generate(c->lwe(), data->entropy->next_secret());
    data->masks = data->key.wide_masks();
    data->key_id = ring::new_id(*data->entropy);
  });
  return SecretKey(std::move(data));
}

EvaluationKeys SecretKey::evaluation_keys() const {
  device::Device& device = data_->context->session().device();
  auto data = std::make_shared<EvaluationKeysData>();
  data->context = data_->context;
  data->key_id = data_->key_id;
  lwe::EvaluationKeys keys;
  ring::broadcast(device, keys.bootstrap, [&] {
    const Key256 seed = data_->entropy->next();
    const Secret<Key256> secret_seed = data_->entropy->next_secret();
    keys = lwe::make_evaluation_keys(data_->context->lwe(), data_->key, seed, secret_seed);
  });
  ring::broadcast(device, keys.key_switch, [] {});
  ring::broadcast(device, std::span(&keys.seed, 1), [] {});
  data->seed = keys.seed;
  data->bootstrap = bootstrap_array(data->context->lwe(), io::Held::of(std::move(keys.bootstrap)));
  data->key_switch = key_switch_array(data->context->lwe(), io::Held::of(std::move(keys.key_switch)));
  return EvaluationKeys(std::move(data));
}

Ciphertext SecretKey::encrypt(const std::vector<std::uint64_t>& values, const Shape& given, Type type) const {
  Context& c = *data_->context;
  device::Device& device = c.session().device();
  std::vector<u64> messages;  // only the key holder has the values
  Shape shape;
  ring::broadcast(device, shape, [&] { messages = messages_of(c.spec(), values, given, type), shape = given; });
  const std::size_t items = device::element_count(shape), wires = wires_of(c.spec(), type), words = c.words();
  c.session().require_memory(checked_product(items, wires, words, sizeof(u64)), "encrypting this array");
  Secret<Key256> error_seed;
  const auto seed = ring::broadcast<Key256>(device, [&] {
    const Key256 masks = data_->entropy->next();
    error_seed = data_->entropy->next_secret();
    return masks;
  });
  const lwe::Tensor all = c.tensor({items}, wires);
  const bool whole = ring::is_whole(device);
  std::vector<u64> stretch, bodies;
  in_stretches(items, wires, [&](std::size_t first, std::size_t count) {
    const auto first_item = static_cast<u32>(first * wires);
    stretch.resize(count * wires * words);
    bodies.resize(whole ? 0 : count * wires);  // bodies for the other processes, which compute the masks from the seed
    ring::broadcast(device, std::span(bodies), [&] {
      lwe::encrypt(c.lwe(), data_->masks, std::span(messages).subspan(first * wires, count * wires), seed, error_seed,
                   first_item, stretch);
      for (std::size_t i = 0; i < bodies.size(); ++i) bodies[i] = stretch[i * words + c.lwe().wide()];
    });
    if (device.key_holder() == nullptr) lwe::expand(c.lwe(), bodies, seed, first_item, stretch);
    lwe::upload(all.slice(0, first, 1, count), stretch);
  });
  return Ciphertext(
      std::make_shared<CiphertextData>(CiphertextData{data_->context, data_->key_id, type, all.reshape(shape), seed}));
}

namespace {

/// Calls `read`, in the key holder, with the phases of each stretch of items and the stretch's part of `out`, which has
/// `each` values per item.
template <class T>
void read_phases(const SecretKeyData& key, const CiphertextData& x, std::vector<T>& out, std::size_t each,
                 const std::function<void(std::span<const u64>, std::span<T>)>& read) {
  require_same(x, key.context, key.id(), "this secret key");
  const lwe::Tensor flat = x.tensor.reshape({x.tensor.items()});
  out = key.context->session().host_array<T>(checked_mul(flat.items(), each), "decrypting this tensor");
  in_stretches(flat.items(), flat.wires(), [&](std::size_t first, std::size_t count) {
    const std::vector<u64> words = lwe::gather(flat.slice(0, first, 1, count));
    const std::span<T> part = std::span(out).subspan(first * each, count * each);
    ring::broadcast(key.context->session().device(), part,
                    [&] { read(lwe::phases(key.context->lwe(), key.masks, words), part); });
  });
}

}  // namespace

std::vector<std::uint64_t> SecretKey::decrypt(const Ciphertext& ciphertext) const {
  const CiphertextData& x = ciphertext.data();
  const Spec& spec = data_->context->spec();
  const double limit = 0.98 * static_cast<double>(spec.message_bits == 0 ? unit_of(spec) : unit_of(spec) / 2);
  const bool computes = data_->context->session().device().counter() == nullptr;
  const std::size_t wires = x.tensor.wires();
  std::vector<std::uint64_t> values;
  read_phases<std::uint64_t>(*data_, x, values, 1, [&](std::span<const u64> p, std::span<std::uint64_t> out) {
    unsigned beyond = 0;  // all phases are examined before the test, so that the time does not reveal which phase failed
    for (u64 phase : p) beyond |= static_cast<unsigned>(std::abs(static_cast<double>(error_of(spec, phase))) > limit);
    require<NoiseError>(!computes || declassified(beyond) == 0,
                        "the noise of this ciphertext is exhausted: it cannot be decrypted. Bootstrap more often, or use a "
                        "set with a larger norm");
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = decode(spec, x.type, p.data() + i * wires);
  });
  return values;
}

std::vector<double> SecretKey::errors(const Ciphertext& ciphertext) const {
  const CiphertextData& x = ciphertext.data();
  std::vector<double> errors;
  read_phases<double>(*data_, x, errors, x.tensor.wires(), [&](std::span<const u64> p, std::span<double> out) {
    std::transform(p.begin(), p.end(), out.begin(),
                   [&](u64 v) { return static_cast<double>(error_of(data_->context->spec(), v)) * 0x1p-64; });
  });
  return errors;
}

Ciphertext trivial(const EvaluationKeys& keys, const std::vector<std::uint64_t>& values, const Shape& shape, Type type) {
  const std::shared_ptr<Context>& c = keys.data().context;
  const std::vector<u64> messages = messages_of(c->spec(), values, shape, type);
  const std::size_t items = values.size(), wires = wires_of(c->spec(), type), words = c->words();
  const lwe::Tensor all = c->tensor({items}, wires);
  std::vector<u64> stretch;
  in_stretches(items, wires, [&](std::size_t first, std::size_t count) {
    stretch.assign(count * wires * words, 0);
    for (std::size_t i = 0; i < count * wires; ++i) stretch[i * words + c->lwe().wide()] = messages[first * wires + i];
    lwe::upload(all.slice(0, first, 1, count), stretch);
  });
  return make_ciphertext(c, std::nullopt, type, all.reshape(shape));
}

}  // namespace heliograph::tfhe
