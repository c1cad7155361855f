// Objects as files and bytes (io/container.h). Everything read is checked before it is used.
#include <numeric>

#include "io/sha256.h"
#include "ring/files.h"
#include "rlwe/files.h"
#include "schemes/exact/derive.h"
#include "schemes/exact/spec_text.h"

namespace heliograph::exact {

namespace {

using rlwe::dtype_of;
using rlwe::key_of;
using rlwe::Payload;
using rlwe::seed_from;

std::string type_of(const std::string& scheme, const std::string& kind) { return "heliograph." + scheme + "." + kind; }

/// What follows "heliograph.bfv." or "heliograph.bgv."; empty for other types.
std::string kind_in(const std::string& type) {
  for (const Family* f : kFamilies) {
    if (const std::string prefix = type_of(f->scheme, ""); type.starts_with(prefix)) return type.substr(prefix.size());
  }
  return "";
}

Payload start(const char* kind, Context& c, const rlwe::KeyId& key, Payload::Read read = ring::download) {
  Payload p{.read = read};
  io::Container& k = p.container;
  k.type = type_of(c.spec().scheme, kind);
  k.header =
      io::Json::object({{"parameters", to_json(c.spec())}, {"parameter_hash", c.hash()}, {"key", rlwe::to_string(key)}});
  return p;
}

std::shared_ptr<Context> context_of(const io::Container& k, const char* kind, const std::string& wanted = {}) {
  if (const std::string have = kind_in(k.type); have != kind)
    throw FormatError("this file holds an object of kind " + (have.empty() ? k.type : have) + ", not " + kind);
  const Spec spec = spec_from_json(k.header.object_at("parameters"));
  rlwe::check_hash(k, [&](bool named) { return hash_of(spec, named); });
  ring::require_parameters(hash_of(spec), wanted);
  if (k.type != type_of(spec.scheme, kind)) throw DamagedFileError("the parameters are of another scheme");
  try {
    return open_context(spec);
  } catch (const ParameterError& e) {
    throw DamagedFileError(std::string("the file's parameters are impossible: ") + e.what());
  }
}

std::string hex(const Key256& key) { return io::to_hex(key); }

// Ciphertexts: what is not an array is in the header. Of noise the estimate travels: a fresh encryption's follows from the
// model, any other's is in the file. It is assumed where it was read, never vouched for.

/// The factors in a file, checked.
std::vector<u64> factors_of(const io::Container& k, const Context& c, bool fresh) {
  if (!c.family().has_factors) return std::vector<u64>(c.parts(), 1);
  std::vector<u64> factors = k.header.unsigned_array_at("factors", 64, u64{1} << 60);
  if (factors.size() != c.parts()) throw DamagedFileError("a ciphertext has one factor for each plaintext modulus");
  for (std::size_t part = 0; part < factors.size(); ++part) {
    const u64 t = c.plain(part).t, f = factors[part];
    if (f >= t || std::gcd(f, t) != 1 || (fresh && f != 1)) throw DamagedFileError("a factor has no inverse, or is not 1");
  }
  return factors;
}

Payload describe(const CiphertextData& x, Payload::Read read) {
  require_whole(x, "saving");
  Payload payload = start("ciphertext", *x.context, x.key, read);
  io::Container& k = payload.container;
  k.header["shape"] = io::Json::array_of(x.shape());
  k.header["degree"] = x.degree();
  k.header["level"] = x.level();
  k.header["ntt"] = x.seeds.empty() && x.front().domain() == Domain::ntt;  // seeds give masks as coefficients
  k.header["packing"] = x.packing == Packing::slots ? "slots" : "coefficients";
  k.header["width"] = x.width;
  k.header["fresh"] = x.fresh;
  if (x.context->family().has_factors) k.header["factors"] = io::Json::array_of(x.factors);
  if (const auto noise = rlwe::stored_figures(x.noise); noise && !x.fresh) k.header["noise"] = *noise;
  io::Json seeds = io::Json::array();
  for (const Key256& s : x.seeds) seeds.push_back(hex(s));
  k.header["seeds"] = seeds;
  for (std::size_t part = 0; part < x.parts.size(); ++part) {
    const RnsTensor kept =
        x.seeds.empty() ? x.parts[part] : ring::to_domain(x.parts[part].with_components(0, 1), Domain::coefficient);
    payload.add("part" + std::to_string(part), kept);
  }
  return payload;
}

RnsTensor read_part(const io::Container& k, Context& c, const Shape& shape, std::size_t part, std::size_t components,
                    std::size_t level, Domain domain, const std::vector<Key256>& seeds) {
  const std::string name = "part" + std::to_string(part);
  const auto chain = c.rlwe().chain(level);
  if (seeds.empty()) return rlwe::read_tensor(k, name, c.rlwe(), shape, components, chain, domain);
  const RnsTensor body = rlwe::read_tensor(k, name, c.rlwe(), shape, 1, chain, domain);
  const std::size_t items = ring::element_count(shape);
  const RnsTensor whole(c.rlwe().engine(), {items}, 2, chain, domain);
  ring::Engine& e = c.engine();
  if (items) {
    e.enqueue(device::Copy{body.reshape({items}).view(), whole.with_components(0, 1).view()});
    rlwe::fill_masks(whole.with_components(1, 1), seeds[part], 0);
  }
  return ring::to_domain(whole, c.rules().home()).reshape(shape);
}

Ciphertext read_ciphertext(const io::Container& k, const Allowed& allowed) {
  CiphertextData x;
  x.context = context_of(k, "ciphertext", allowed.parameters);
  Context& c = *x.context;
  k.header.require_only({"parameters", "parameter_hash", "key", "shape", "degree", "level", "ntt", "packing", "width",
                         "fresh", "seeds", c.family().has_factors ? "factors" : "seeds", k.version > 1 ? "noise" : "seeds"},
                        "a ciphertext");
  x.key = key_of(k);
  const std::size_t degree = k.header.unsigned_at("degree", 2), level = k.header.unsigned_at("level", c.rlwe().top_level());
  if (degree < 1 || level < 1) throw DamagedFileError("a ciphertext has degree 1 or 2 and at least one prime");
  const Shape shape =
      ring::read_shape(k, c.parts() * c.rlwe().polynomial_bytes(level) * (degree + 1), allowed.bytes, c.engine());
  const std::string& packing = k.header.string_at("packing", 16);
  if (packing != "slots" && packing != "coefficients")
    throw DamagedFileError("the packing is neither slots nor coefficients");
  x.packing = packing == "slots" ? Packing::slots : Packing::coefficients;
  if (x.packing == Packing::slots && !c.has_slots())
    throw DamagedFileError("the file packs slots, which its parameters do not have");
  x.width = k.header.unsigned_at("width", c.spec().n);
  const Domain domain = k.header.bool_at("ntt") ? Domain::ntt : Domain::coefficient;
  for (const io::Json& s : k.header.array_at("seeds", c.parts())) x.seeds.push_back(seed_from(s, "a seed"));
  x.fresh = k.header.bool_at("fresh");
  if (x.fresh && (degree != 1 || level != c.rlwe().top_level()))
    throw DamagedFileError("a fresh ciphertext has degree 1 and all primes");
  if (!x.seeds.empty() && (x.seeds.size() != c.parts() || !x.fresh || domain != Domain::coefficient)) {
    throw DamagedFileError("only fresh ciphertexts are seeded, once for each plaintext modulus");
  }
  if (x.fresh && k.header.find("noise")) throw DamagedFileError("a fresh ciphertext's noise follows from its parameters");
  x.noise = rlwe::figures_from(k, "noise", c.parts());
  x.vouched = false;
  if (k.arrays.size() != c.parts()) throw DamagedFileError("the file has another number of parts than plaintext moduli");
  for (std::size_t part = 0; part < c.parts(); ++part) {
    x.parts.push_back(read_part(k, c, shape, part, degree + 1, level, domain, x.seeds));
    if (x.fresh) x.noise[part] = c.rules().fresh_noise(part, x.seeds.empty());
  }
  x.factors = factors_of(k, c, x.fresh);
  x.independent = x.distinct = x.fresh && c.rules().independent();
  return finish(std::move(x));
}

// Keys

/// In the key holder, which has the key.
Payload describe(const PublicKeyData& p) {
  Payload payload = start("public-key", *p.context, p.key.id);
  payload.container.header["seed"] = hex(p.key.seed);
  payload.add("body", p.key.pair.with_components(0, 1));
  return payload;
}

PublicKey read_public_key(const io::Container& k) {
  const std::shared_ptr<Context> c = context_of(k, "public-key");
  k.header.require_only({"parameters", "parameter_hash", "key", "seed"}, "a public key");
  rlwe::PublicKey key = rlwe::broadcast_public_key(c->engine().device(), key_of(k), [&] {
    const std::shared_ptr<rlwe::Context>& own = c->key_holder()->rlwe_shared();
    const RnsTensor body = rlwe::read_tensor(k, "body", *own, {}, 1, own->chain(own->top_level()), Domain::ntt);
    return rlwe::expand_public_key(own, key_of(k), seed_from(k.header.at("seed"), "seed"), body);
  });
  return PublicKey(std::make_shared<PublicKeyData>(PublicKeyData{c, std::move(key), false}));
}

Payload describe(const EvaluationKeysData& d) {
  Payload payload = start("evaluation-keys", *d.context, d.keys.id);
  io::Container& k = payload.container;
  const rlwe::RingParameters& p = d.context->rlwe().parameters();
  const auto add = [&](const std::string& name, const rlwe::SwitchKey& key) {
    payload.add(name, dtype_of(p.word), {p.digits.size(), d.context->rlwe().key_primes().size(), p.n}, key.bodies());
  };
  io::Json rotations = io::Json::object();
  for (const auto& [galois, key] : d.keys.rotations) {
    rotations[std::to_string(galois)] = hex(key.seed());
    add("rotation" + std::to_string(galois), key);
  }
  k.header["rotations"] = rotations;
  if (d.keys.relinearization) {
    k.header["relinearization"] = hex(d.keys.relinearization->seed());
    add("relinearization", *d.keys.relinearization);
  }
  return payload;
}

rlwe::SwitchKey read_switch_key(const io::Container& k, Context& c, const std::string& name, const Key256& seed) {
  const std::span<const std::byte> words =
      rlwe::read_words(k, name, c.rlwe(), {}, c.spec().digits.size(), c.rlwe().key_primes());
  return rlwe::SwitchKey(c.rlwe(), seed, Bytes(words.begin(), words.end()));
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
  const bool relinearize = k.header.contains("relinearization");
  if (k.arrays.size() != rotations.size() + (relinearize ? 1 : 0))
    throw DamagedFileError("the file has arrays that no key names");
  c.engine().require_memory(k.arrays.size() * Parameters(d->context).switch_key_bytes(), "loading these keys");
  for (const auto& [galois, seed] : rotations) {
    u64 g = 0;
    for (char digit : galois) g = digit >= '0' && digit <= '9' && g < (1 << 20) ? g * 10 + static_cast<u64>(digit - '0') : 0;
    if (g % 2 == 0 || g >= 2 * c.spec().n || std::to_string(g) != galois)
      throw DamagedFileError("a rotation key names no automorphism");
    d->keys.rotations.emplace(g, read_switch_key(k, c, "rotation" + galois, seed_from(seed, "a seed")));
  }
  if (relinearize) {
    d->keys.relinearization =
        read_switch_key(k, c, "relinearization", seed_from(k.header.at("relinearization"), "relinearization"));
  }
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
  io::Container k = start("secret-key", *data_->context, data_->key.id()).container;
  const SecretVector<signed char>& s = data_->key.coefficients();
  k.arrays.push_back({"secret", "i8", {s.size()}, std::as_bytes(std::span(s))});
  ring::save(data_->context->engine().device(), path, k, true);
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

std::string kind_of(const std::string& path) {
  const std::string type = ring::file_type(path), kind = kind_in(type);
  if (kind.empty()) throw FormatError("this file holds an object of kind " + type + ", which this version does not read");
  return kind;
}

}  // namespace heliograph::exact
