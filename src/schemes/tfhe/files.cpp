// Objects as files and bytes (io/container.h). All data is checked before use.
#include <algorithm>
#include <cstring>

#include "io/container.h"
#include "io/sha256.h"
#include "ring/files.h"
#include "ring/key_holder.h"
#include "schemes/tfhe/context.h"
#include "schemes/tfhe/encoding.h"
#include "schemes/tfhe/spec_text.h"

namespace heliograph::tfhe {

// Fresh ciphertexts are stored as bodies and the masks' seed, other ciphertexts as masks and bodies without padding.

io::Container describe(const CiphertextData& x, ring::Words words) {
  const std::size_t kept = x.seed ? 1 : x.context->lwe().wide() + 1, from = x.context->lwe().wide() + 1 - kept;
  io::Container k = schemes::start("ciphertext", *x.context, x.key ? ring::key_text(*x.key) : "");
  io::Json& h = k.header;
  h["type"] = x.type.text();
  h["shape"] = io::Json::array_of(x.shape());
  if (x.seed) h["seed"] = io::to_hex(*x.seed);
  std::vector<std::size_t> shape = x.shape();
  shape.insert(shape.end(), {x.tensor.wires(), kept});
  k.arrays.push_back(
      io::Array::made("words", "u64", std::move(shape), [tensor = x.tensor, each = x.context->words(), from, kept, words] {
        auto all = words == ring::Words::everywhere ? lwe::download(tensor) : lwe::gather(tensor);
        const std::size_t count = all.size() / each;
        for (std::size_t i = 0; i < count; ++i) std::copy_n(all.data() + i * each + from, kept, all.data() + i * kept);
        all.resize(count * kept);
        return io::Held::of(std::move(all));
      }));
  return k;
}

namespace {

Type type_from(const io::Container& k, const Spec& spec) {
  try {
    const Type type = type_of(k.header.string_at("type", 16));
    wires_of(spec, type);
    return type;
  } catch (const DtypeError& e) {
    throw DamagedFileError(e.what());
  }
}

}  // namespace

Ciphertext read(io::Container&& k, const Allowed& allowed, schemes::As<Ciphertext>) {
  CiphertextData x;
  x.context = schemes::context_of<Context>(k, "ciphertext", allowed.parameters);
  const Context& c = *x.context;
  k.header.require_only({"parameters", "parameter_hash", "key", "type", "shape", "seed"}, "a ciphertext");
  ring::require_arrays(k, 1);
  if (!k.header.string_at("key", 32).empty()) x.key = ring::key_of(k);
  if (k.header.contains("seed")) x.seed = ring::seed_from(k.header.at("seed"), "the seed");
  if (x.seed && !x.key) throw DamagedFileError("a seed needs a key id: only encryptions have seeds");
  x.type = type_from(k, c.spec());
  const std::size_t wires = wires_of(c.spec(), x.type), kept = x.seed ? 1 : c.lwe().wide() + 1;
  const Shape shape = ring::read_shape(k, wires * c.words() * sizeof(u64), allowed.bytes, c.session());
  std::vector<std::size_t> expected = shape;
  expected.insert(expected.end(), {wires, kept});
  const io::Held held = k.take("words", "u64", expected);
  const std::span<const u64> words = held.values<u64>();
  const std::size_t items = device::element_count(shape);
  require<DamagedFileError>(items * wires < std::size_t{1} << 32, "a file must hold fewer than 2^32 LWE ciphertexts");
  const lwe::Tensor all = c.tensor({items}, wires);
  const std::size_t step = std::max<std::size_t>(1, 4096 / wires);
  std::vector<u64> stretch;
  for (std::size_t first = 0; first < items; first += step) {
    const std::size_t count = std::min(step, items - first), each = c.words();
    const std::span<const u64> part = words.subspan(first * wires * kept, count * wires * kept);
    stretch.assign(count * wires * each, 0);
    if (x.seed) lwe::expand(c.lwe(), part, *x.seed, static_cast<u32>(first * wires), stretch);
    for (std::size_t i = 0; !x.seed && i < count * wires; ++i)
      std::copy_n(part.data() + i * kept, kept, stretch.data() + i * each);
    lwe::upload(all.slice(0, first, 1, count), stretch);
  }
  x.tensor = all.reshape(shape);
  return Ciphertext(std::make_shared<CiphertextData>(std::move(x)));
}

// Evaluation keys are stored as bodies and the masks' seed.

io::Array bootstrap_array(const lwe::Parameters& p, const io::Held& bodies) {
  const device::BootstrapShape& b = p.bootstrap;
  return io::Array::holding<u64>("bootstrap", {b.groups(), b.values(), b.rows(), b.degree}, bodies);
}

io::Array key_switch_array(const lwe::Parameters& p, const io::Held& bodies) {
  return io::Array::holding<u32>("key_switch", {p.key_switch.from, p.key_switch.gadget.length}, bodies);
}

io::Container describe(const EvaluationKeysData& d, ring::Words) {
  io::Container k = schemes::start("evaluation-keys", *d.context, ring::key_text(d.id()));
  k.header["seed"] = io::to_hex(d.seed);
  k.arrays = {d.bootstrap, d.key_switch};
  return k;
}

EvaluationKeys read(io::Container&& k, const Allowed&, schemes::As<EvaluationKeys>) {
  auto d = std::make_shared<EvaluationKeysData>();
  d->context = schemes::context_of<Context>(k, "evaluation-keys");
  k.header.require_only({"parameters", "parameter_hash", "key", "seed"}, "evaluation keys");
  ring::require_arrays(k, 2);
  d->key_id = ring::key_of(k);
  d->seed = ring::seed_from(k.header.at("seed"), "the seed");
  const auto own = [&](const io::Array& form) { return k.array(form.name, form.dtype, form.shape).owned(); };
  d->bootstrap = own(bootstrap_array(d->context->lwe(), {}));
  d->key_switch = own(key_switch_array(d->context->lwe(), {}));
  return EvaluationKeys(std::move(d));
}

io::Container describe(const SecretKeyData& d, ring::Words) {
  const lwe::Parameters& l = d.context->lwe();
  io::Container k = schemes::start("secret-key", *d.context, ring::key_text(d.id()));
  k.arrays.push_back(io::Array::of("narrow", {l.narrow()}, std::span<const unsigned char>(d.key.narrow)));
  k.arrays.push_back(io::Array::of("wide", {l.wide()}, std::span<const unsigned char>(d.key.wide)));
  return k;
}

SecretKey read(io::Container&& k, const Allowed&, schemes::As<SecretKey>) {
  auto data = std::make_shared<SecretKeyData>();
  data->context = schemes::context_of<Context>(k, "secret-key"), data->entropy = std::make_shared<ring::Entropy>();
  const lwe::Parameters& p = data->context->lwe();
  k.header.require_only({"parameters", "parameter_hash", "key"}, "a secret key");
  data->key_id = ring::key_of(k);
  ring::broadcast(data->context->session().device(), std::span<std::byte>(), [&] {
    ring::require_arrays(k, 2);
    const auto bits = [&](const char* name, std::size_t count) {
      const auto raw = k.array(name, "u8", {count}).values<unsigned char>();
      SecretVector<unsigned char> key(raw.begin(), raw.end());
      mark_secret(key.data(), key.size());
      unsigned others = 0;
      for (unsigned char bit : key) others |= bit & ~1U;
      require<DamagedFileError>(declassified(others) == 0, "a secret key's coefficients must be 0 or 1");
      return key;
    };
    data->key = {bits("narrow", p.narrow()), bits("wide", p.wide())};
    data->masks = data->key.wide_masks();
  });
  return SecretKey(std::move(data));
}

}  // namespace heliograph::tfhe
