// Keys of BFV, BGV and CKKS: which automorphisms keys are made for is the scheme's, all else is alike.
#pragma once

#include <mutex>

#include "io/sha256.h"
#include "program/limbs/link.h"
#include "rlwe/compositions.h"
#include "rlwe/files.h"
#include "schemes/files.h"
#include "schemes/ring_context.h"

namespace heliograph::schemes {

template <class C>
struct RingSecretKey {
  std::shared_ptr<C> context;
  rlwe::SecretKey key;                     // of context->key_holder()
  std::shared_ptr<rlwe::Entropy> entropy;  // asked by the key holder alone
  bool read = false;                       // from a file, not made here

  const rlwe::KeyId& id() const { return key.id(); }
};

template <class C>
struct RingPublicKey {
  static constexpr bool kAtKeyHolder = true;

  std::shared_ptr<C> context;
  rlwe::PublicKey key;  // of context->key_holder()
  bool vouched = true;  // made here, not read

  const rlwe::KeyId& id() const { return key.id; }
};

/// The compositions of a set of rotation keys, searched at first use.
struct LazyCompositions {
  std::once_flag once;
  std::optional<rlwe::Compositions> found;
};

template <class C>
struct RingEvaluationKeys {
  static constexpr bool kAtKeyHolder = false;
  static constexpr std::size_t kHeldPerStored = 2;  // bytes of memory, of a file's: bodies and masks

  std::shared_ptr<C> context;
  rlwe::EvaluationKeys keys;
  bool vouched = true;  // made here, not read
  /// Key switches that one rotation may take: rotations without a key are composed of so many at most. 1: none is composed.
  std::size_t most_switches = 1;
  std::shared_ptr<LazyCompositions> compositions = std::make_shared<LazyCompositions>();  // of all copies

  const rlwe::KeyId& id() const { return keys.id; }
  std::size_t bytes() const {
    std::size_t total = 0;
    keys.each([&](math::u64, const rlwe::SwitchKey& key) { total += key.bytes(); });
    return total;
  }
  std::vector<std::string> of_programs() const {
    std::vector<std::string> names;
    for (const auto& [name, key] : keys.of_programs) names.push_back(name);
    return names;
  }
  /// The powers of `generator` below `period` that there are keys for: steps of rotations, ascending.
  std::vector<std::int64_t> steps(math::u64 generator, std::size_t period) const {
    std::vector<std::int64_t> list;
    const math::u64 modulus = 2 * context->spec().n;
    math::u64 g = 1;
    for (std::size_t k = 0; k < period; ++k, g = g * generator % modulus) {
      if (k > 0 && keys.rotations.contains(g)) list.push_back(static_cast<std::int64_t>(k));
    }
    return list;
  }
};

template <class C>
RingSecretKey<C> make_secret_key(const std::shared_ptr<C>& c, std::shared_ptr<rlwe::Entropy> entropy) {
  rlwe::SecretKey key = rlwe::broadcast_secret_key(
      c->engine().device(), [&] { return rlwe::SecretKey::generate(c->key_holder()->rlwe_shared(), *entropy); });
  return {c, std::move(key), std::move(entropy), false};
}

template <class C>
RingPublicKey<C> make_public_key(const RingSecretKey<C>& secret) {
  C& c = *secret.context;
  const auto make = [&] { return rlwe::make_public_key(secret.key, c.public_key_primes(), *secret.entropy); };
  return {secret.context, rlwe::broadcast_public_key(c.engine().device(), secret.id(), make)};
}

/// For these automorphisms, each once.
template <class C>
RingEvaluationKeys<C> make_evaluation_keys(const RingSecretKey<C>& secret, bool relinearize,
                                           const std::vector<math::u64>& automorphisms, const ring::Progress& progress) {
  C& c = *secret.context;
  RingEvaluationKeys<C> made{.context = secret.context, .keys = {.context = c.rlwe_shared(), .id = secret.id()}};
  std::vector<math::u64> galois;
  for (const math::u64 g : automorphisms) {
    if (g != 1 && std::find(galois.begin(), galois.end(), g) == galois.end()) galois.push_back(g);
  }
  const std::size_t total = galois.size() + (relinearize ? 1 : 0);
  c.engine().require_memory(total * c.switch_key_bytes(), "generating these keys");
  std::size_t done = 0;
  const auto next = [&](const std::function<rlwe::SwitchKey()>& make) {
    rlwe::SwitchKey key = rlwe::broadcast_key(c.rlwe_shared(), rlwe::KeyLayout::of(c.rlwe()), make);
    if (progress) progress(static_cast<double>(++done) / static_cast<double>(total));
    return key;
  };
  if (relinearize)
    made.keys.relinearization = next([&] { return rlwe::make_relinearization_key(secret.key, *secret.entropy); });
  for (const math::u64 g : galois)
    made.keys.rotations.emplace(g, next([&] { return rlwe::make_rotation_key(secret.key, g, *secret.entropy); }));
  return made;
}

/// The automorphisms of rotations by some steps, one at least.
template <class Galois>
std::vector<math::u64> galois_of(const std::vector<std::int64_t>& steps, Galois galois) {
  require<ShapeError>(!steps.empty(), "no steps to rotate by");
  std::vector<math::u64> all;
  for (const std::int64_t s : steps) all.push_back(galois(s));
  return all;
}

/// The compositions of all keys' rotations. `Keys`: the public class, whose data has `period()`.
template <class Keys>
const rlwe::Compositions& compositions_of(const Keys& keys) {
  LazyCompositions& lazy = *keys.data().compositions;
  std::call_once(lazy.once, [&] { lazy.found.emplace(keys.rotations(), keys.data().period()); });
  return *lazy.found;
}

/// The same keys with another limit on the key switches of a rotation. ParameterError for a limit of 0.
template <class Keys>
Keys composing(const Keys& keys, std::size_t most) {
  require<ParameterError>(most > 0, "a rotation takes one key switch at least");
  using Data = std::remove_cvref_t<decltype(keys.data())>;
  auto data = std::make_shared<Data>(keys.data());
  data->most_switches = most;
  return Keys(std::move(data));
}

/// Throws MissingKeyError for a rotation by some steps that there is no key for. It tells what the keys have, and what a composition takes.
template <class Keys>
[[noreturn]] void refuse_rotation(const Keys& keys, std::int64_t steps) {
  std::string list;
  for (std::int64_t k : keys.rotations()) list += (list.empty() ? "" : ", ") + std::to_string(k);
  std::string text =
      "rotation " + std::to_string(steps) + " is not among the keys; they have " + (list.empty() ? "none" : list);
  const std::size_t most = keys.data().most_switches;
  if (const auto count = compositions_of(keys).switches(steps)) {
    text += ", which compose it in " + std::to_string(*count) + " key switches";
    text += most > 1 ? "; at most " + std::to_string(most) + " are allowed" : " (EvaluationKeys::composing)";
  }
  throw MissingKeyError(text);
}

/// The steps of keys that make a rotation, as these keys allow it: one where it has a key, the fewest where not, none for a multiple of
/// the period. MissingKeyError.
template <class Keys>
std::vector<std::int64_t> composition_of(const Keys& keys, std::int64_t steps) {
  const std::size_t most = keys.data().most_switches;
  if (most > 1) {
    const rlwe::Compositions& all = compositions_of(keys);
    const auto count = all.switches(steps);
    if (count && *count <= most) return *all.of(steps);
  }
  refuse_rotation(keys, steps);
}

/// The key of an automorphism. `other`: the one that is no rotation, whose absence `other_is_missing` says. MissingKeyError.
template <class Keys>
const rlwe::SwitchKey& key_of(const Keys& keys, math::u64 galois, std::int64_t steps, math::u64 other,
                              const char* other_is_missing) {
  const auto& have = keys.data().keys.rotations;
  const auto found = have.find(galois);
  if (found != have.end()) return found->second;
  if (galois == other) throw MissingKeyError(other_is_missing);
  refuse_rotation(keys, steps);
}

/// Keys of automorphisms, or how they are composed.
struct Turns {
  std::vector<const rlwe::SwitchKey*> keys;  // null for Galois element 1; none if there is a plan
  std::optional<rlwe::RotationPlan> plan;    // if any is composed
  std::size_t switches = 1;                  // the most in a row

  /// What so many key switches make of a noise, if one makes add(noise) of it.
  template <class Noise, class Add>
  Noise noise(Noise before, Add add) const {
    for (std::size_t i = 0; i < switches; ++i) before = add(before);
    return before;
  }
};

/// How keys make automorphisms: `galois` are those of rotations by `steps`, or one is `other`, which is no rotation. Throws as `key_of`.
template <class Keys>
Turns turns_of(const Keys& keys, const std::vector<math::u64>& galois, const std::vector<std::int64_t>& steps,
               math::u64 other, const char* other_is_missing) {
  const auto& have = keys.data().keys.rotations;
  Turns turns;
  const auto needs_more = [&](math::u64 g) { return g != 1 && g != other && !have.contains(g); };
  if (keys.data().most_switches == 1 || std::none_of(galois.begin(), galois.end(), needs_more)) {
    for (std::size_t i = 0; i < galois.size(); ++i)
      turns.keys.push_back(galois[i] == 1 ? nullptr : &key_of(keys, galois[i], steps[i], other, other_is_missing));
    return turns;
  }
  std::vector<std::vector<std::int64_t>> compositions;
  for (const std::int64_t s : steps) compositions.push_back(composition_of(keys, s));
  turns.plan.emplace(compositions, keys.data().period());
  turns.switches = turns.plan->switches;
  return turns;
}

// Files.

/// The coefficients are the key holder's: elsewhere there are none.
template <class C>
io::Container describe(const RingSecretKey<C>& d, ring::Words) {
  io::Container k = start("secret-key", *d.context, rlwe::to_string(d.id()));
  const SecretVector<signed char>& s = d.key.coefficients();
  k.arrays.push_back({"secret", "i8", {s.size()}, std::as_bytes(std::span(s))});
  return k;
}

template <class C>
RingSecretKey<C> read_secret_key(const io::Container& from) {
  const std::shared_ptr<C> c = context_of<C>(from, "secret-key");
  from.header.require_only({"parameters", "parameter_hash", "key"}, "a secret key");
  rlwe::SecretKey key = rlwe::broadcast_secret_key(
      c->engine().device(), [&] { return rlwe::read_secret_key(from, c->key_holder()->rlwe_shared()); });
  return {c, std::move(key), std::make_shared<rlwe::Entropy>(), true};
}

/// In the key holder, which has the key.
template <class C>
io::Container describe(const RingPublicKey<C>& d, ring::Words) {
  io::Container k = start("public-key", *d.context, rlwe::to_string(d.id()));
  k.header["seed"] = io::to_hex(d.key.seed);
  rlwe::add(k, "body", d.key.pair.with_components(0, 1), math::Domain::ntt);
  return k;
}

template <class C>
RingPublicKey<C> read_public_key(io::Container& from) {
  const std::shared_ptr<C> c = context_of<C>(from, "public-key");
  from.header.require_only({"parameters", "parameter_hash", "key", "seed"}, "a public key");
  ring::require_arrays(from, 1);
  const rlwe::KeyId id = ring::key_of(from);
  rlwe::PublicKey key = rlwe::broadcast_public_key(c->engine().device(), id, [&] {
    const std::shared_ptr<rlwe::Context>& own = c->key_holder()->rlwe_shared();
    // Keys of older Heliographs have no special primes.
    const device::PrimeList all = c->public_key_primes(), chain = device::PrimeList::range(0, c->spec().chain.size());
    const io::Array* const array = from.find("body");
    const bool short_one = array != nullptr && array->shape.size() == 3 && array->shape[1] == chain.size();
    const ring::RnsTensor body = rlwe::take_tensor(from, "body", *own, {}, 1, short_one ? chain : all, math::Domain::ntt);
    return rlwe::expand_public_key(own, id, ring::seed_from(from.header.at("seed"), "seed"), body);
  });
  return {c, std::move(key), false};
}

template <class C>
io::Container describe(const RingEvaluationKeys<C>& d, ring::Words) {
  io::Container k = start("evaluation-keys", *d.context, rlwe::to_string(d.id()));
  const rlwe::RingParameters& r = d.context->rlwe().parameters();
  const auto add = [&](const std::string& name, const rlwe::SwitchKey& key) {
    const rlwe::KeyLayout layout = key.layout();
    k.arrays.push_back(io::Array::made(name, rlwe::dtype_of(r.word), {layout.digits, layout.primes.size(), r.n},
                                       [key] { return key.bodies(); }));
  };
  io::Json rotations = io::Json::object();
  for (const auto& [galois, key] : d.keys.rotations) {
    rotations[std::to_string(galois)] = io::to_hex(key.seed());
    add("rotation" + std::to_string(galois), key);
  }
  k.header["rotations"] = rotations;
  if (d.keys.relinearization) {
    k.header["relinearization"] = io::to_hex(d.keys.relinearization->seed());
    add("relinearization", *d.keys.relinearization);
  }
  if (const auto& b = d.keys.bootstrapping) {
    io::Json turns = io::Json::object();
    for (const auto& [galois, key] : b->to_coefficients) {
      turns[std::to_string(galois)] = io::to_hex(key.seed());
      add("to_coefficients" + std::to_string(galois), key);
    }
    k.header["bootstrapping"] = io::Json::object({{"to_sparse", io::to_hex(b->to_sparse.seed())},
                                                  {"first_matrix", io::to_hex(b->first_matrix.seed())},
                                                  {"to_coefficients", turns}});
    add("to_sparse", b->to_sparse);
    add("first_matrix", b->first_matrix);
  }
  if (!d.keys.of_programs.empty()) {
    io::Json programs = io::Json::object();
    std::size_t number = 0;
    for (const auto& [name, key] : d.keys.of_programs) {
      programs[name] = io::to_hex(key.seed());
      add("program" + std::to_string(number++), key);
    }
    k.header["programs"] = programs;
  }
  return k;
}

/// An odd number below 2N as text in its one spelling.
inline math::u64 galois_from(const std::string& text, std::size_t n) {
  math::u64 g = 0;
  for (const char c : text) g = c >= '0' && c <= '9' && g < (1 << 20) ? g * 10 + static_cast<math::u64>(c - '0') : 0;
  if (g % 2 == 0 || g >= 2 * n || std::to_string(g) != text) throw DamagedFileError("a rotation key names no automorphism");
  return g;
}

/// Bootstrapping's own keys, read by key(name, layout, seed). DamagedFileError for sets that have none.
template <class C, class Key>
rlwe::BootstrappingKeys read_bootstrapping_keys(C& c, const io::Json& header, Key key) {
  if constexpr (requires { c.bootstrapping_layouts(); }) {
    const rlwe::BootstrappingLayouts layouts = c.bootstrapping_layouts();
    header.require_only({"to_sparse", "first_matrix", "to_coefficients"}, "the keys of bootstrapping");
    rlwe::BootstrappingKeys keys{key("to_sparse", layouts.to_sparse, header.at("to_sparse")),
                                 key("first_matrix", layouts.first_matrix, header.at("first_matrix")),
                                 {}};
    const io::Json& turns = header.at("to_coefficients");
    for (const math::u64 g : layouts.turns) {
      const std::string galois = std::to_string(g);
      keys.to_coefficients.emplace(g, key("to_coefficients" + galois, layouts.to_coefficients, turns.at(galois)));
    }
    return keys;
  } else {
    throw DamagedFileError("keys of bootstrapping for a set that has none");
  }
}

/// The primes of a program's key in a set: its level's, then the special ones that it uses. None where the set lacks some.
inline std::optional<rlwe::KeyLayout> layout_of(const rlwe::Context& context, const program::limbs::Key& key) {
  const rlwe::RingParameters& p = context.parameters();
  if (key.level > p.chain.size() || key.extension > p.special.size()) return std::nullopt;
  rlwe::KeyLayout layout{.primes = device::PrimeList::range(0, key.level), .digits = key.digits.size()};
  layout.primes.append(device::PrimeList::range(p.chain.size(), key.extension));
  return layout;
}
/// Of a key that a program of instructions names. DamagedFileError for names that are of none, or of one that the set has not.
inline rlwe::KeyLayout program_key_layout(const rlwe::Context& context, const std::string& name) {
  if (const std::optional<program::limbs::Key> key = program::limbs::Key::named(name)) {
    if (const std::optional<rlwe::KeyLayout> layout = layout_of(context, *key)) return *layout;
  }
  throw DamagedFileError("a key of a program that this set does not run");
}

/// Where arrays stayed in the file, the keys take `memory` bytes of the host's at most.
template <class C>
RingEvaluationKeys<C> read_evaluation_keys(io::Container& from, std::size_t memory) {
  RingEvaluationKeys<C> d{.context = context_of<C>(from, "evaluation-keys"), .keys = {}, .vouched = false};
  C& c = *d.context;
  from.header.require_only(
      {"parameters", "parameter_hash", "key", "rotations", "relinearization", "bootstrapping", "programs"},
      "evaluation keys");
  d.keys.context = c.rlwe_shared();
  d.keys.id = ring::key_of(from);
  const io::Json::Object& rotations = from.header.at("rotations").as_object("rotations");
  const io::Json* const relinearization = from.header.find("relinearization");
  const io::Json* const bootstrapping = from.header.find("bootstrapping");
  const std::size_t own = bootstrapping ? 2 + bootstrapping->at("to_coefficients").as_object("rotations").size() : 0;
  const io::Json* const programs = from.header.find("programs");
  const std::size_t of_programs = programs ? programs->as_object("programs").size() : 0;
  if (from.arrays.size() != rotations.size() + (relinearization ? 1 : 0) + own + of_programs)
    throw DamagedFileError("the file has arrays that no key names");
  const rlwe::KeyLayout usual = rlwe::KeyLayout::of(c.rlwe());
  c.engine().require_memory(std::min(memory, from.arrays.size() * usual.bytes(c.rlwe())), "loading these keys");
  const auto room = std::make_shared<rlwe::KeyRoom>(memory);
  const auto key = [&](const std::string& name, const rlwe::KeyLayout& layout, const io::Json& text) {
    const math::Key256 seed = ring::seed_from(text, "a seed");
    const io::Held words = rlwe::take_words(from, name, c.rlwe(), {}, layout.digits, layout.primes);
    const auto& elsewhere = from.find(name)->elsewhere;
    if (!elsewhere) return rlwe::SwitchKey(c.rlwe(), layout, seed, words);
    const std::size_t least = layout.bytes(c.rlwe()) / 2 * 3;  // a key on the device, and what is read of it
    if (memory < least) {
      throw LimitError("one of these keys takes " + readable_bytes(least) + " of memory, " + readable_bytes(memory) +
                       " are allowed");
    }
    return rlwe::SwitchKey(c.rlwe(), layout, seed, elsewhere, room);
  };
  for (const auto& [galois, seed] : rotations)
    d.keys.rotations.emplace(galois_from(galois, c.spec().n), key("rotation" + galois, usual, seed));
  if (relinearization) d.keys.relinearization = key("relinearization", usual, *relinearization);
  if (bootstrapping) d.keys.bootstrapping = read_bootstrapping_keys(c, *bootstrapping, key);
  if (programs) {
    std::map<std::string, const io::Json*> seeds;  // ascending, as their arrays are numbered
    for (const auto& [name, seed] : programs->as_object("programs")) seeds.emplace(name, &seed);
    std::size_t number = 0;
    for (const auto& [name, seed] : seeds)
      d.keys.of_programs.emplace(name, key("program" + std::to_string(number++), program_key_layout(c.rlwe(), name), *seed));
  }
  return d;
}

template <class Key>
using DataOf = std::remove_cvref_t<decltype(std::declval<const Key&>().data())>;
template <class Data>
using ContextOf = typename decltype(Data::context)::element_type;

/// A new secret key as its scheme's class has it.
template <class Key>
requires requires { typename ContextOf<DataOf<Key>>; }
Key new_key(const std::shared_ptr<ContextOf<DataOf<Key>>>& context, std::shared_ptr<rlwe::Entropy> entropy, As<Key>) {
  using Data = DataOf<Key>;
  return Key(std::make_shared<Data>(Data{make_secret_key(context, std::move(entropy))}));
}
/// A key as its scheme's class has it, whose data is one of the above.
template <class Key>
requires requires { typename ContextOf<DataOf<Key>>; }
Key read(io::Container&& from, const Allowed& allowed, As<Key>) {
  using Data = DataOf<Key>;
  using C = ContextOf<Data>;
  const auto data = [&] {
    if constexpr (std::derived_from<Data, RingSecretKey<C>>)
      return read_secret_key<C>(from);
    else if constexpr (std::derived_from<Data, RingPublicKey<C>>)
      return read_public_key<C>(from);
    else
      return read_evaluation_keys<C>(from, allowed.bytes);
  };
  return Key(std::make_shared<Data>(Data{data()}));
}

}  // namespace heliograph::schemes
