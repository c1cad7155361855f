// Switching keys, and their files.
#include "base/progress.h"
#include "circuits/switching/context.h"
#include "heliograph/switching.h"
#include "rlwe/files.h"

namespace heliograph::switching {

namespace {

constexpr const char* kType = "heliograph.switching.evaluation-keys";

/// Returns S(X^r) as a key of the ring of degree N. Runs in the key holder.
rlwe::SecretKey embedded(const Context& pair, const tfhe::SecretKeyData& secret) {
  const std::shared_ptr<rlwe::Context>& own = pair.ckks()->key_holder()->rlwe_shared();
  SecretVector<signed char> coefficients(own->parameters().n);
  for (std::size_t i = 0; i < pair.wide(); ++i)
    coefficients[i * pair.parts()] = static_cast<signed char>(secret.key.wide[i]);
  return rlwe::SecretKey(own, std::move(coefficients), {});
}

/// Makes the key that switches from the secret `from` (NTT domain, modulo q) to the secret `to`, with the pair's digits.
/// Runs in the key holder.
rlwe::SwitchKey digits_key(const Context& pair, const RnsTensor& from, const rlwe::SecretKey& to, ring::Entropy& entropy) {
  ring::Engine& e = *to.context()->engine();
  const rlwe::KeyLayout layout{from.primes(), kDigits};
  const RnsTensor message(to.context()->engine(), {}, 1, layout.primes, Domain::ntt, ring::Secrecy::passing);
  const auto scaled = [&](std::size_t j) {
    device::LimbConstants gadget{};
    gadget[0] = pair.gadget(j + 1);
    e.enqueue(device::MulConstants{e.prepared(), layout.primes, from.view(), gadget, message.view()});
    return message;
  };
  return rlwe::make_key(to, layout, scaled, entropy, kErrors);
}

}  // namespace

Keys Keys::make(const ckks::SecretKey& ckks, const tfhe::SecretKey& tfhe) {
  ProgressSteps steps(1);
  const ckks::SecretKeyData& from = ckks.data();
  const tfhe::SecretKeyData& to = tfhe.data();
  const auto pair = std::make_shared<Context>(from.context, to.context);
  const std::shared_ptr<rlwe::Context>& wide = from.context->rlwe_shared();
  const rlwe::KeyLayout dense_layout = pair->to_dense_layout();
  std::optional<rlwe::SecretKey> secret, packed;  // the keys S(X^r) and S; only the key holder has values
  rlwe::SwitchKey to_wide = rlwe::broadcast_key(wide, pair->to_wide_layout(), [&] {
    secret = embedded(*pair, to);
    return digits_key(*pair, ring::limbs_of(from.key.transformed(), pair->to_wide_layout().primes), *secret, *from.entropy);
  });
  rlwe::SwitchKey to_dense = rlwe::broadcast_key(wide, dense_layout, [&] {
    return ckks::one_digit_key(from.key, ring::limbs_of(secret->transformed(), dense_layout.primes), dense_layout,
                               from.context->bootstrapper().to_coefficients_keys().special, *from.entropy);
  });
  std::map<u64, rlwe::SwitchKey> packing;
  for (const u64 galois : pair->packing_galois()) {
    packing.emplace(galois, rlwe::broadcast_key(pair->narrow_shared(), pair->packing_layout(), [&] {
                      if (!packed) {
                        SecretVector<signed char> bits(to.key.wide.begin(), to.key.wide.end());
                        packed.emplace(pair->own_narrow(), std::move(bits), ring::KeyId{});
                      }
                      return digits_key(*pair, ring::automorphism(packed->transformed(), galois), *packed, *from.entropy);
                    }));
  }
  steps.add();
  return Keys(std::make_shared<KeysData>(
      KeysData{pair, from.id(), to.id(), std::move(to_wide), std::move(packing), std::move(to_dense)}));
}

ckks::Parameters Keys::ckks_parameters() const { return ckks::Parameters(data_->context->ckks()); }
tfhe::Parameters Keys::tfhe_parameters() const { return tfhe::Parameters(data_->context->tfhe()); }
std::string Keys::ckks_key_id() const { return ring::key_text(data_->ckks_key); }
std::string Keys::tfhe_key_id() const { return ring::key_text(data_->tfhe_key); }
std::size_t Keys::bytes() const {
  std::size_t sum = data_->to_wide.bytes() + data_->to_dense.bytes();
  for (const auto& [galois, key] : data_->packing) sum += key.bytes();
  return sum;
}

// Files.

namespace {

template <class C>
io::Json half(const C& context, const ring::KeyId& key) {
  return io::Json::object(
      {{"parameters", to_json(context.spec())}, {"parameter_hash", context.hash()}, {"key", ring::key_text(key)}});
}

io::Container describe(const KeysData& d) {
  io::Container k;
  k.type = kType;
  const std::size_t n = d.context->ckks()->spec().n;
  const auto add = [&](const std::string& name, const rlwe::SwitchKey& key, std::size_t degree) {
    const rlwe::KeyLayout layout = key.layout();
    k.arrays.push_back(
        io::Array::made(name, "u64", {layout.digits, layout.primes.size(), degree}, [key] { return key.bodies(); }));
    return io::to_hex(key.seed());
  };
  io::Json packing = io::Json::object();
  for (const auto& [galois, key] : d.packing)
    packing[std::to_string(galois)] = add("packing" + std::to_string(galois), key, d.context->wide());
  k.header = io::Json::object({{"ckks", half(*d.context->ckks(), d.ckks_key)},
                               {"tfhe", half(*d.context->tfhe(), d.tfhe_key)},
                               {"to_wide", add("to_wide", d.to_wide, n)},
                               {"to_dense", add("to_dense", d.to_dense, n)},
                               {"packing", packing}});
  return k;
}

/// Opens one of the two sets, with the id of its key.
template <class C>
std::pair<std::shared_ptr<C>, ring::KeyId> half_from(const io::Json& header, const char* name) {
  io::Container part;
  part.header = header.object_at(name);
  part.header.require_only({"parameters", "parameter_hash", "key"}, "a parameter set of switching keys");
  const auto spec = C::spec_from(part.header.object_at("parameters"));
  ring::check_hash(part, [&](bool named) { return hash_of(spec, named); });
  return {schemes::open_saved_context<C>(spec, "the parameters of the file"), ring::key_of(part)};
}

Keys read(io::Container&& k) {
  if (k.type != kType) throw FormatError("this file holds an object of type " + k.type + ", not switching keys");
  k.header.require_only({"ckks", "tfhe", "to_wide", "to_dense", "packing"}, "switching keys");
  const auto [ckks, ckks_key] = half_from<ckks::Context>(k.header, "ckks");
  const auto [tfhe, tfhe_key] = half_from<tfhe::Context>(k.header, "tfhe");
  std::shared_ptr<Context> pair;
  try {
    pair = std::make_shared<Context>(ckks, tfhe);
  } catch (const ParameterError& e) {
    throw DamagedFileError(std::string("the sets of these switching keys do not fit: ") + e.what());
  }
  const std::vector<u64> galois = pair->packing_galois();
  ring::require_arrays(k, 2 + galois.size());
  const auto key = [&](const rlwe::Context& c, const rlwe::KeyLayout& layout, const std::string& name,
                       const io::Json& seed) {
    const io::Held words = rlwe::take_words(k, name, c, {}, layout.digits, layout.primes);
    return rlwe::SwitchKey(c, layout, ring::seed_from(seed, "a seed"), words);
  };
  const rlwe::Context& c = ckks->rlwe();
  rlwe::SwitchKey to_wide = key(c, pair->to_wide_layout(), "to_wide", k.header.at("to_wide"));
  rlwe::SwitchKey to_dense = key(c, pair->to_dense_layout(), "to_dense", k.header.at("to_dense"));
  const io::Json& seeds = k.header.object_at("packing");
  std::map<u64, rlwe::SwitchKey> packing;
  for (const u64 g : galois) {
    const std::string name = std::to_string(g);
    packing.emplace(g, key(pair->narrow(), pair->packing_layout(), "packing" + name, seeds.at(name)));
  }
  return Keys(std::make_shared<KeysData>(
      KeysData{pair, ckks_key, tfhe_key, std::move(to_wide), std::move(packing), std::move(to_dense), false}));
}

}  // namespace

Bytes Keys::to_bytes() const {
  ring::require_own_process();
  return io::to_bytes(describe(*data_));
}

void Keys::save(const std::string& path) const {
  ring::save(data_->context->ckks()->engine().device(), path, describe(*data_));
}

Keys Keys::from_bytes(std::span<const std::byte> bytes) { return read(ring::from_bytes(bytes)); }
Keys Keys::load(const std::string& path) { return read(ring::load(path)); }

}  // namespace heliograph::switching
