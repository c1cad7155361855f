// Objects as files and bytes (io/container.h). Everything read is checked before it is used.
#include <cmath>

#include "io/sha256.h"
#include "ring/files.h"
#include "rlwe/files.h"
#include "schemes/ckks/context.h"
#include "schemes/ckks/spec_text.h"

namespace heliograph::ckks {

namespace {

using rlwe::dtype_of;
using rlwe::key_of;
using rlwe::Payload;

constexpr std::string_view kPrefix = "heliograph.ckks.";

Payload start(const char* kind, Context& c, const rlwe::KeyId& key, Payload::Read read = ring::download) {
  Payload p{.read = read};
  p.container.type = std::string(kPrefix) + kind;
  p.container.header =
      io::Json::object({{"parameters", to_json(c.spec())}, {"parameter_hash", c.hash()}, {"key", rlwe::to_string(key)}});
  return p;
}

std::shared_ptr<Context> context_of(const io::Container& k, const char* kind, const std::string& wanted = {}) {
  if (k.type != std::string(kPrefix) + kind) {
    const std::string have = k.type.starts_with(kPrefix) ? k.type.substr(kPrefix.size()) : k.type;
    throw FormatError("this file holds an object of kind " + have + ", not " + kind);
  }
  const Spec spec = spec_from_json(k.header.object_at("parameters"));
  rlwe::check_hash(k, [&](bool named) { return hash_of(spec, named); });
  ring::require_parameters(hash_of(spec), wanted);
  try {
    return open_context(spec);
  } catch (const ParameterError& e) {
    throw DamagedFileError(std::string("the file's parameters are impossible: ") + e.what());
  }
}

// Ciphertexts: what is not an array is in the header. Of noise and size the figures travel that follow from operations and
// from what is public, nothing that tells of values. They are assumed where they were read, never vouched for.

Payload describe(const CiphertextData& x, Payload::Read read) {
  Payload p = start("ciphertext", *x.context, x.key, read);
  io::Json& h = p.container.header;
  h["shape"] = io::Json::array_of(x.shape());
  h["degree"] = x.degree();
  h["level"] = x.level;
  h["scale"] = x.scale;
  h["width"] = x.width;
  h["complex"] = x.complex;
  h["fresh"] = x.fresh;
  if (const auto noise = rlwe::stored_figures({x.noise.assumed}); noise && !x.fresh) h["noise"] = *noise;
  if (const auto bound = rlwe::stored_figures({x.bound.assumed})) h["bound"] = *bound;
  if (x.seed) h["seed"] = io::to_hex(*x.seed);
  p.add("words", x.seed ? x.tensor.with_components(0, 1) : x.tensor);
  return p;
}

/// A body and the mask its seed gives.
RnsTensor with_mask(Context& c, const RnsTensor& body, const Key256& seed) {
  const std::size_t items = body.items();
  ring::Engine& e = c.engine();
  const RnsTensor whole(c.rlwe().engine(), {items}, 2, body.primes(), Domain::ntt);
  if (items) {
    const RnsTensor mask(c.rlwe().engine(), {items}, 1, body.primes(), Domain::coefficient);
    rlwe::fill_masks(mask, seed, 0);
    e.enqueue(device::ForwardNtt{e.prepared(), body.primes(), mask.view(), whole.with_components(1, 1).view()});
    e.enqueue(device::Copy{body.reshape({items}).view(), whole.with_components(0, 1).view()});
  }
  return whole.reshape(body.shape());
}

Ciphertext read_ciphertext(const io::Container& k, const Allowed& allowed) {
  CiphertextData x;
  x.context = context_of(k, "ciphertext", allowed.parameters);
  Context& c = *x.context;
  const io::Json& h = k.header;
  const bool figures = k.version > 1;
  h.require_only({"parameters", "parameter_hash", "key", "shape", "degree", "level", "scale", "width", "complex", "fresh",
                  "seed", figures ? "noise" : "seed", figures ? "bound" : "seed"},
                 "a ciphertext");
  require<DamagedFileError>(k.arrays.size() == 1, "a ciphertext has one array");
  x.key = key_of(k);
  const std::size_t degree = h.unsigned_at("degree", 2);
  x.level = h.unsigned_at("level", c.top_level());
  require<DamagedFileError>(degree >= 1 && x.level >= 1, "a ciphertext has degree 1 or 2 and a level of 1 at least");
  x.scale = h.double_at("scale");
  require<DamagedFileError>(x.scale >= 1 && std::log2(x.scale) + 1 <= c.log_modulus(x.level),
                            "a ciphertext's scale lies between 1 and its modulus");
  x.width = h.unsigned_at("width", c.slots());
  x.complex = h.bool_at("complex");
  x.fresh = h.bool_at("fresh");
  require<DamagedFileError>(!x.fresh || (degree == 1 && x.scale == c.scale(x.level)),
                            "a fresh ciphertext has degree 1 and its level's scale");
  if (const io::Json* seed = h.find("seed")) x.seed = rlwe::seed_from(*seed, "a seed");
  require<DamagedFileError>(x.fresh || !x.seed, "only fresh ciphertexts are seeded");
  require<DamagedFileError>(!x.fresh || !h.contains("noise"), "a fresh ciphertext's noise follows from its parameters");
  const device::PrimeList chain = c.rlwe().chain(x.level);
  const Shape shape = ring::read_shape(k, c.rlwe().polynomial_bytes(chain.size()) * (degree + 1), allowed.bytes, c.engine());
  x.tensor = rlwe::read_tensor(k, "words", c.rlwe(), shape, x.seed ? 1 : degree + 1, chain, Domain::ntt);
  if (x.seed) x.tensor = with_mask(c, x.tensor, *x.seed);
  const double fresh = x.seed ? c.noise().fresh_secret_key() : c.noise().fresh_public_key();
  x.noise = {std::nan(""), x.fresh ? rlwe::log2_sum(fresh, c.noise().rounding()) : rlwe::figures_from(k, "noise", 1)[0]};
  x.bound = {std::nan(""), rlwe::figures_from(k, "bound", 1)[0]};
  return finish(std::move(x));
}

// Keys

/// In the key holder, which has the key.
Payload describe(const PublicKeyData& d) {
  Payload p = start("public-key", *d.context, d.key.id);
  p.container.header["seed"] = io::to_hex(d.key.seed);
  p.add("body", d.key.pair.with_components(0, 1));
  return p;
}

PublicKey read_public_key(const io::Container& k) {
  const std::shared_ptr<Context> c = context_of(k, "public-key");
  k.header.require_only({"parameters", "parameter_hash", "key", "seed"}, "a public key");
  require<DamagedFileError>(k.arrays.size() == 1, "a public key has one array");
  rlwe::PublicKey key = rlwe::broadcast_public_key(c->engine().device(), key_of(k), [&] {
    const std::shared_ptr<rlwe::Context>& own = c->key_holder()->rlwe_shared();
    const device::PrimeList chain = device::PrimeList::range(0, c->spec().chain.size());
    const RnsTensor body = rlwe::read_tensor(k, "body", *own, {}, 1, chain, Domain::ntt);
    return rlwe::expand_public_key(own, key_of(k), rlwe::seed_from(k.header.at("seed"), "a seed"), body);
  });
  return PublicKey(std::make_shared<PublicKeyData>(PublicKeyData{c, std::move(key), false}));
}

Payload describe(const EvaluationKeysData& d) {
  Payload p = start("evaluation-keys", *d.context, d.keys.id);
  const rlwe::RingParameters& r = d.context->rlwe().parameters();
  const auto add = [&](const std::string& name, const rlwe::SwitchKey& key) {
    p.add(name, dtype_of(r.word), {r.digits.size(), d.context->rlwe().key_primes().size(), r.n}, key.bodies());
  };
  io::Json rotations = io::Json::object();
  for (const auto& [galois, key] : d.keys.rotations) {
    rotations[std::to_string(galois)] = io::to_hex(key.seed());
    add("rotation" + std::to_string(galois), key);
  }
  p.container.header["rotations"] = rotations;
  if (d.keys.relinearization) {
    p.container.header["relinearization"] = io::to_hex(d.keys.relinearization->seed());
    add("relinearization", *d.keys.relinearization);
  }
  return p;
}

rlwe::SwitchKey read_switch_key(const io::Container& k, Context& c, const std::string& name, const Key256& seed) {
  const std::span<const std::byte> words =
      rlwe::read_words(k, name, c.rlwe(), {}, c.spec().digits.size(), c.rlwe().key_primes());
  return rlwe::SwitchKey(c.rlwe(), seed, Bytes(words.begin(), words.end()));
}

/// An odd number below 2N as text in its one spelling.
u64 galois_from(const std::string& text, std::size_t n) {
  u64 g = 0;
  for (char digit : text) g = digit >= '0' && digit <= '9' && g < (1 << 20) ? g * 10 + static_cast<u64>(digit - '0') : 0;
  if (g % 2 == 0 || g >= 2 * n || std::to_string(g) != text) throw DamagedFileError("a rotation key names no automorphism");
  return g;
}

EvaluationKeys read_evaluation_keys(const io::Container& k) {
  auto d = std::make_shared<EvaluationKeysData>();
  d->vouched = false;
  d->context = context_of(k, "evaluation-keys");
  Context& c = *d->context;
  k.header.require_only({"parameters", "parameter_hash", "key", "rotations", "relinearization"}, "evaluation keys");
  d->keys.context = c.rlwe_shared();
  d->keys.id = key_of(k);
  const io::Json::Object& rotations = k.header.at("rotations").as_object("rotations");
  const io::Json* const relinearization = k.header.find("relinearization");
  if (k.arrays.size() != rotations.size() + (relinearization ? 1 : 0))
    throw DamagedFileError("the file has arrays that no key names");
  c.engine().require_memory(k.arrays.size() * Parameters(d->context).switch_key_bytes(), "loading these keys");
  for (const auto& [galois, seed] : rotations) {
    d->keys.rotations.emplace(galois_from(galois, c.spec().n),
                              read_switch_key(k, c, "rotation" + galois, rlwe::seed_from(seed, "a seed")));
  }
  if (relinearization)
    d->keys.relinearization = read_switch_key(k, c, "relinearization", rlwe::seed_from(*relinearization, "a seed"));
  return EvaluationKeys(std::move(d));
}

}  // namespace

Bytes Ciphertext::to_bytes() const { return io::to_bytes(describe(*data_, ring::download).container); }
void Ciphertext::save(const std::string& path) const {
  ring::save(data_->context->engine().device(), path, describe(*data_, rlwe::gather).container);
}
Ciphertext Ciphertext::from_bytes(std::span<const std::byte> bytes, const Allowed& allowed) {
  return read_ciphertext(ring::from_bytes(bytes, allowed.bytes), allowed);
}
Ciphertext Ciphertext::load(const std::string& path, const Allowed& allowed) {
  return read_ciphertext(ring::load(path, allowed.bytes), allowed);
}

Bytes PublicKey::to_bytes() const {
  Bytes bytes;
  ring::broadcast(data_->context->engine().device(), bytes, [&] { bytes = io::to_bytes(describe(*data_).container); });
  return bytes;
}
void PublicKey::save(const std::string& path) const {
  ring::broadcast(data_->context->engine().device(), std::span<std::byte>(),
                  [&] { io::save(path, describe(*data_).container); });
}
PublicKey PublicKey::from_bytes(const Bytes& bytes) { return read_public_key(ring::from_bytes(bytes)); }
PublicKey PublicKey::load(const std::string& path) { return read_public_key(ring::load(path)); }

Bytes EvaluationKeys::to_bytes() const { return io::to_bytes(describe(*data_).container); }
void EvaluationKeys::save(const std::string& path) const {
  ring::save(data_->context->engine().device(), path, describe(*data_).container);
}
EvaluationKeys EvaluationKeys::from_bytes(const Bytes& bytes) { return read_evaluation_keys(ring::from_bytes(bytes)); }
EvaluationKeys EvaluationKeys::load(const std::string& path) { return read_evaluation_keys(ring::load(path)); }

void SecretKey::save(const std::string& path) const {
  Payload p = start("secret-key", *data_->context, data_->key.id());
  const SecretVector<signed char>& s = data_->key.coefficients();
  p.container.arrays.push_back({"secret", "i8", {s.size()}, std::as_bytes(std::span(s))});
  ring::save(data_->context->engine().device(), path, p.container, true);
}

SecretKey SecretKey::load(const std::string& path) {
  const io::Container k = ring::load_secret(path);
  const std::shared_ptr<Context> c = context_of(k, "secret-key");
  k.header.require_only({"parameters", "parameter_hash", "key"}, "a secret key");
  rlwe::SecretKey key = rlwe::broadcast_secret_key(c->engine().device(),
                                                   [&] { return rlwe::read_secret_key(k, c->key_holder()->rlwe_shared()); });
  return SecretKey(std::make_shared<SecretKeyData>(SecretKeyData{c, std::move(key), std::make_shared<rlwe::Entropy>()}));
}

std::string inspect(const std::string& path) { return ring::inspect(path); }

}  // namespace heliograph::ckks
