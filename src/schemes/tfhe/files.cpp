// Objects as files and bytes (io/container.h). Everything read is checked before it is used.
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

namespace {

constexpr const char* kPrefix = "heliograph.tfhe.";

std::string file_type(const char* kind) { return std::string(kPrefix) + kind; }

io::Container start(const char* kind, const Context& c) {
  io::Container k;
  k.type = file_type(kind);
  k.header = io::Json::object({{"parameters", to_json(c.spec())}, {"parameter_hash", c.hash()}});
  return k;
}

std::shared_ptr<Context> context_of(const io::Container& k, const char* kind, const std::string& wanted = {}) {
  if (k.type != file_type(kind)) {
    const std::string have = k.type.starts_with(kPrefix) ? k.type.substr(std::strlen(kPrefix)) : k.type;
    throw FormatError("this file holds an object of kind " + have + ", not " + kind);
  }
  const Spec spec = spec_from_json(k.header.object_at("parameters"));
  if (hash_of(spec) != k.header.string_at("parameter_hash", 64))
    throw DamagedFileError("the parameters do not match their hash");
  ring::require_parameters(hash_of(spec), wanted);
  try {
    return open_context(spec);
  } catch (const ParameterError& e) {
    throw DamagedFileError(std::string("the file's parameters are impossible: ") + e.what());
  }
}

KeyId key_of(const io::Container& k) { return io::bytes_from_hex<16>(k.header.string_at("key", 32), "the key id"); }
Key256 seed_of(const io::Container& k) { return io::bytes_from_hex<32>(k.header.string_at("seed", 64), "the seed"); }

void require_arrays(const io::Container& k, std::size_t count) {
  if (k.arrays.size() != count) throw DamagedFileError("the file has another number of arrays than its kind");
}

// Ciphertexts. Fresh ones are their bodies and the masks' seed; others their masks and bodies, bit for bit, without padding.

struct CiphertextWords {
  io::Container container;
  std::vector<u64> words;
};

/// `read`: lwe::download, or lwe::gather where the key holder alone is to write it.
std::unique_ptr<CiphertextWords> describe(const CiphertextData& x, std::vector<u64> (*read)(const lwe::Tensor&)) {
  auto out = std::make_unique<CiphertextWords>();
  io::Container& k = out->container;
  const std::size_t kept = x.seed ? 1 : x.context->lwe().wide() + 1, from = x.context->lwe().wide() + 1 - kept;
  k = start("ciphertext", *x.context);
  k.header["key"] = x.key ? ring::key_text(*x.key) : "";
  k.header["type"] = x.type.text();
  k.header["shape"] = io::Json::array_of(x.shape());
  if (x.seed) k.header["seed"] = io::to_hex(*x.seed);
  out->words = read(x.tensor);
  const std::size_t words = x.context->words(), count = out->words.size() / words;
  for (std::size_t i = 0; i < count; ++i)
    std::copy_n(out->words.data() + i * words + from, kept, out->words.data() + i * kept);
  out->words.resize(count * kept);
  std::vector<std::size_t> shape = x.shape();
  shape.insert(shape.end(), {x.tensor.wires(), kept});
  k.arrays.push_back(io::Array::of("words", std::move(shape), std::span<const u64>(out->words)));
  return out;
}

Type type_from(const io::Container& k, const Spec& spec) {
  try {
    const Type type = type_of(k.header.string_at("type", 16));
    wires_of(spec, type);
    return type;
  } catch (const DtypeError& e) {
    throw DamagedFileError(e.what());
  }
}

Ciphertext read_ciphertext(const io::Container& k, const Allowed& allowed) {
  CiphertextData x;
  x.context = context_of(k, "ciphertext", allowed.parameters);
  const Context& c = *x.context;
  k.header.require_only({"parameters", "parameter_hash", "key", "type", "shape", "seed"}, "a ciphertext");
  require_arrays(k, 1);
  if (!k.header.string_at("key", 32).empty()) x.key = key_of(k);
  if (k.header.contains("seed")) x.seed = seed_of(k);
  if (x.seed && !x.key) throw DamagedFileError("only encryptions are seeded");
  x.type = type_from(k, c.spec());
  const std::size_t wires = wires_of(c.spec(), x.type), kept = x.seed ? 1 : c.lwe().wide() + 1;
  const Shape shape = ring::read_shape(k, wires * c.words() * sizeof(u64), allowed.bytes, c.session());
  std::vector<std::size_t> expected = shape;
  expected.insert(expected.end(), {wires, kept});
  const std::span<const u64> words = k.array("words", "u64", expected).values<u64>();
  const std::size_t items = device::element_count(shape);
  require<DamagedFileError>(items * wires < std::size_t{1} << 32, "a file holds fewer than 2^32 LWE ciphertexts");
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

// Keys. Evaluation keys are their bodies and the masks' seed.

io::Container describe(const EvaluationKeysData& d) {
  const device::BootstrapShape& b = d.context->lwe().bootstrap;
  const device::KeySwitchShape& s = d.context->lwe().key_switch;
  io::Container k = start("evaluation-keys", *d.context);
  k.header["key"] = ring::key_text(d.id);
  k.header["seed"] = io::to_hex(d.keys.seed);
  k.arrays.push_back(
      io::Array::of("bootstrap", {b.groups(), b.values(), b.rows(), b.degree}, std::span<const u64>(d.keys.bootstrap)));
  k.arrays.push_back(io::Array::of("key_switch", {s.from, s.gadget.length}, std::span<const u32>(d.keys.key_switch)));
  return k;
}

EvaluationKeys read_evaluation_keys(const io::Container& k) {
  auto d = std::make_shared<EvaluationKeysData>();
  d->context = context_of(k, "evaluation-keys");
  k.header.require_only({"parameters", "parameter_hash", "key", "seed"}, "evaluation keys");
  require_arrays(k, 2);
  const device::BootstrapShape& b = d->context->lwe().bootstrap;
  const device::KeySwitchShape& s = d->context->lwe().key_switch;
  d->id = key_of(k);
  d->keys.seed = seed_of(k);
  const auto bootstrap = k.array("bootstrap", "u64", {b.groups(), b.values(), b.rows(), b.degree}).values<u64>();
  const auto key_switch = k.array("key_switch", "u32", {s.from, s.gadget.length}).values<u32>();
  d->keys.bootstrap.assign(bootstrap.begin(), bootstrap.end());
  d->keys.key_switch.assign(key_switch.begin(), key_switch.end());
  return EvaluationKeys(std::move(d));
}

}  // namespace

Bytes Ciphertext::to_bytes() const { return io::to_bytes(describe(*data_, lwe::download)->container); }
void Ciphertext::save(const std::string& path) const {
  ring::save(data_->context->session().device(), path, describe(*data_, lwe::gather)->container);
}
Ciphertext Ciphertext::from_bytes(std::span<const std::byte> bytes, const Allowed& allowed) {
  return read_ciphertext(ring::from_bytes(bytes, allowed.bytes), allowed);
}
Ciphertext Ciphertext::load(const std::string& path, const Allowed& allowed) {
  return read_ciphertext(ring::load(path, allowed.bytes), allowed);
}

Bytes EvaluationKeys::to_bytes() const {
  ring::require_own_process();
  return io::to_bytes(describe(*data_));
}
void EvaluationKeys::save(const std::string& path) const {
  ring::save(data_->context->session().device(), path, describe(*data_));
}
EvaluationKeys EvaluationKeys::from_bytes(const Bytes& bytes) { return read_evaluation_keys(ring::from_bytes(bytes)); }
EvaluationKeys EvaluationKeys::load(const std::string& path) { return read_evaluation_keys(ring::load(path)); }

void SecretKey::save(const std::string& path) const {
  const Context& c = *data_->context;
  io::Container k = start("secret-key", c);
  k.header["key"] = ring::key_text(data_->id);
  k.arrays.push_back(io::Array::of("narrow", {c.lwe().narrow()}, std::span<const unsigned char>(data_->key.narrow)));
  k.arrays.push_back(io::Array::of("wide", {c.lwe().wide()}, std::span<const unsigned char>(data_->key.wide)));
  ring::save(c.session().device(), path, k, true);
}

SecretKey SecretKey::load(const std::string& path) {
  const io::Container k = ring::load_secret(path);
  auto data = std::make_shared<SecretKeyData>();
  data->context = context_of(k, "secret-key"), data->entropy = std::make_shared<ring::Entropy>();
  const lwe::Parameters& p = data->context->lwe();
  k.header.require_only({"parameters", "parameter_hash", "key"}, "a secret key");
  data->id = key_of(k);
  ring::broadcast(data->context->session().device(), std::span<std::byte>(), [&] {
    require_arrays(k, 2);
    const auto bits = [&](const char* name, std::size_t count) {
      const auto raw = k.array(name, "u8", {count}).values<unsigned char>();
      SecretVector<unsigned char> key(raw.begin(), raw.end());
      mark_secret(key.data(), key.size());
      unsigned others = 0;
      for (unsigned char bit : key) others |= bit & ~1U;
      require<DamagedFileError>(declassified(others) == 0, "a secret key's coefficients are 0 and 1");
      return key;
    };
    data->key = {bits("narrow", p.narrow()), bits("wide", p.wide())};
    data->masks = data->key.wide_masks();
  });
  return SecretKey(std::move(data));
}

std::string inspect(const std::string& path) { return ring::inspect(path); }

}  // namespace heliograph::tfhe
