// Instruction programs: files, requirements, keys.
#include "schemes/cinnamon/cinnamon.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/progress.h"
#include "schemes/ckks/bootstrapping.h"

namespace heliograph::cinnamon {

namespace limbs = program::limbs;
using math::u64;
using ring::RnsTensor;

namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 32;  // limit on the bytes of a program's texts

bool is_ours(const std::string& name) {
  for (const std::string kind : {"instructions", "inputs"}) {
    if (name.starts_with(kind) && name.size() > kind.size() &&
        name.find_first_not_of("0123456789", kind.size()) == std::string::npos)
      return true;
  }
  return name == "program_inputs";
}

std::string text_of(const std::filesystem::path& path, std::size_t& left) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) throw FileError("cannot read '" + path.string() + "': " + error.message(), error.value());
  require<InstructionError>(size <= left, "the texts of a program must be at most 4 GiB");
  std::ifstream file(path, std::ios::binary);
  std::string text(size, '\0');
  file.read(text.data(), static_cast<std::streamsize>(size));
  if (!file) throw FileError("cannot read '" + path.string() + "'", EIO);
  left -= size;
  return text;
}

/// Makes a switching key. The message of each digit's pair, in the limbs of the digit, is `target` times the product of
/// the special primes. Keys that raise a modulus also multiply by the level's last prime.
rlwe::SwitchKey make_key(const rlwe::SecretKey& secret, const RnsTensor& target, const limbs::Key& key,
                         const rlwe::KeyLayout& layout, rlwe::Entropy& entropy) {
  rlwe::Context& c = *secret.context();
  ring::Engine& e = *c.engine();
  const std::vector<u64> moduli = c.moduli(layout.primes);
  const RnsTensor scaled(c.engine(), {}, 1, layout.primes, math::Domain::ntt, ring::Secrecy::passing);
  const RnsTensor whole = ring::limbs_of(target, layout.primes);
  return rlwe::make_key(
      secret, layout,
      [&](std::size_t j) {
        device::LimbConstants constants{};
        for (const std::uint16_t l : key.digits[j]) {
          u64 product = 1;
          for (std::size_t p = key.level; p < moduli.size(); ++p)
            product = math::mul_mod(product, moduli[p] % moduli[l], moduli[l]);
          if (key.type == limbs::Key::raise || key.type == limbs::Key::raise_from_ephemeral)
            product = math::mul_mod(product, moduli[key.level - 1] % moduli[l], moduli[l]);
          constants[l] = product;
        }
        e.enqueue(device::MulConstants{e.prepared(), layout.primes, whole.view(), constants, scaled.view()});
        return scaled;
      },
      entropy);
}

RnsTensor square_of(const RnsTensor& s) {
  ring::Engine& e = *s.engine();
  const RnsTensor square(s.engine(), {}, 1, s.primes(), math::Domain::ntt, ring::Secrecy::passing);
  e.enqueue(device::Mul{e.prepared(), s.primes(), s.view(), s.view(), square.view()});
  return square;
}

}  // namespace

Program Program::parse(const Files& files) {
  std::vector<limbs::File> given;
  for (const auto& [name, text] : files) given.push_back({name, text});
  auto state = std::make_shared<State>();
  state->text = limbs::parse(given);
  state->linked = std::make_shared<const limbs::Linked>(limbs::link(state->text));
  return Program(std::move(state));
}

Program Program::load(const std::string& folder) {
  std::error_code error;
  Files files;
  std::size_t left = kMostBytes;
  std::filesystem::directory_iterator it(folder, error);
  if (error) throw FileError("cannot read '" + folder + "': " + error.message(), error.value());
  for (const auto& entry : it) {
    const std::string name = entry.path().filename().string();
    if (is_ours(name)) files.emplace_back(name, text_of(entry.path(), left));
  }
  return parse(files);
}

Files Program::files() const {
  Files files;
  for (limbs::File& f : limbs::print(state_->text)) files.emplace_back(std::move(f.name), std::move(f.text));
  return files;
}

std::size_t Program::chips() const { return state_->linked->chips; }
std::size_t Program::instructions() const { return state_->linked->instructions; }
std::size_t Program::levels() const { return state_->linked->chain; }
std::size_t Program::special() const { return state_->linked->special; }

std::map<std::string, std::size_t> Program::counts() const {
  std::map<std::string, std::size_t> counts;
  for (const limbs::Stream& s : state_->text.streams) {
    for (const limbs::Instruction& i : s.instructions) ++counts[limbs::name_of(i.op)];
  }
  return counts;
}

std::vector<Item> Program::inputs() const {
  std::vector<Item> all;
  for (const limbs::Item& i : state_->linked->items) {
    const Item::Kind kind = i.kind == 'i'   ? Item::Kind::ciphertext
                            : i.kind == 'p' ? Item::Kind::plaintext
                                            : Item::Kind::scalar;
    all.push_back({kind, i.name, i.level});
  }
  return all;
}

std::vector<Item> Program::outputs() const {
  std::vector<Item> all;
  for (const limbs::Result& r : state_->linked->results) all.push_back({Item::Kind::ciphertext, r.name, r.level});
  return all;
}

std::vector<std::string> Program::keys() const {
  std::vector<std::string> names;
  for (const limbs::Key& k : state_->linked->keys) names.push_back(k.name());
  return names;
}

ckks::Spec Program::spec(std::size_t n, double bits, bool insecure) const {
  require<ParameterError>(bits >= 20 && bits <= 29, "bits must be 20 to 29");
  return ckks::make_spec(n, levels(), bits, 30, std::max<std::size_t>(special(), 1), 32, 0, insecure);
}

limbs::ScaleRules scale_rules(const Scheme& scheme, double tolerance) {
  ckks::Context& c = *scheme.ckks();
  const rlwe::RingParameters& set = scheme.rlwe().parameters();
  limbs::ScaleRules rules{.tolerance = tolerance, .least = std::exp2(c.rounding_noise(2))};
  for (std::size_t p = 0; p < std::min(limbs::kPrimes, set.chain.size()); ++p)
    rules.primes[p] = static_cast<double>(set.chain[p]);
  for (std::size_t p = 0; p < std::min(limbs::kPrimes / 2, set.special.size()); ++p)
    rules.primes[limbs::kPrimes - 1 - p] = static_cast<double>(set.special[p]);
  rules.level = [scheme, &c](std::size_t primes) { return c.scale(std::min(scheme.level_of(primes), c.top_level())); };
  for (std::size_t level = 1; level <= c.top_level(); ++level) rules.least = std::min(rules.least, c.scale(level) / 2);
  return rules;
}

void take_scales(const limbs::Linked& program, const std::map<std::string, double>& given, std::vector<double>& items) {
  for (const auto& [name, scale] : given) {
    const auto found = std::find_if(program.items.begin(), program.items.end(),
                                    [&name = name](const limbs::Item& i) { return i.kind != 'i' && i.name == name; });
    if (found == program.items.end())
      throw ParameterError("cannot use the scale given for " + name +
                           ": the program has no plaintext or scalar of this name");
    if (!(scale >= 1 && std::isfinite(scale)))
      throw ScaleError("cannot encode " + name + ": a scale must be a finite number of 1 or more, got " +
                       ckks::short_number(scale));
    items[static_cast<std::size_t>(found - program.items.begin())] = scale;
  }
}

std::map<std::string, double> Program::scales(const ckks::Parameters& parameters, const std::map<std::string, double>& given,
                                              double tolerance) const {
  const Scheme scheme(parameters.context());
  const limbs::Linked& program = *state_->linked;
  require_fit(scheme, program);
  const limbs::ScaleRules rules = scale_rules(scheme, tolerance);
  std::vector<double> items(program.items.size());
  for (std::size_t i = 0; i < items.size(); ++i)
    if (program.items[i].kind == 'i') items[i] = rules.level(program.items[i].level);
  take_scales(program, given, items);
  const limbs::Scales found = limbs::follow(program, rules, std::move(items));
  std::map<std::string, double> named;
  for (std::size_t i = 0; i < found.items.size(); ++i)
    if (program.items[i].kind != 'i') named.emplace(program.items[i].name, found.items[i]);
  return named;
}

const rlwe::SwitchKey* own_key(const Scheme& scheme, const rlwe::EvaluationKeys& keys, const limbs::Key& key) {
  const std::optional<rlwe::KeyLayout> layout = schemes::layout_of(scheme.rlwe(), key);
  if (!layout) return nullptr;
  const rlwe::SwitchKey* found = nullptr;
  const auto take = [&](u64 wanted) {
    keys.each([&](u64 number, const rlwe::SwitchKey& k) {
      const rlwe::KeyLayout has = k.layout();
      if (number == wanted && has.primes == layout->primes && has.digits >= layout->digits) found = &k;
    });
  };
  if (key.type == limbs::Key::own) {
    take(static_cast<u64>(key.turn));
    return found;
  }
  // The digits of the set's gadget are consecutive primes of its chain.
  std::uint16_t next = 0;
  std::vector<std::vector<std::uint16_t>> digits;
  const rlwe::RingParameters& set = scheme.rlwe().parameters();
  for (const std::size_t count : set.digits) {
    auto& digit = digits.emplace_back();
    for (std::size_t i = 0; i < count; ++i) digit.push_back(next++);
  }
  const bool whole = key.level == set.chain.size() && key.extension == set.special.size();
  // A program that uses only lower levels has only the first digits.
  if (!whole || key.digits.size() > digits.size() || !std::equal(key.digits.begin(), key.digits.end(), digits.begin()))
    return nullptr;
  if (key.type == limbs::Key::relinearization) take(0);
  if (key.type == limbs::Key::rotation) take(scheme.rotation(key.turn));
  if (key.type == limbs::Key::conjugation) take(scheme.other());
  return found;
}

void require_prefixes(const Scheme& scheme) {
  const rlwe::Context& c = scheme.rlwe();
  for (std::size_t level = 1; level <= c.top_level(); ++level) {
    require<ParameterError>(c.chain(level) == device::PrimeList::range(0, c.chain(level).size()),
                            "cannot run: each level of the set must be a prefix of its primes; Program::spec "
                            "makes such a set");
  }
}

void require_fit(const Scheme& scheme, const limbs::Linked& program) {
  require_prefixes(scheme);
  const rlwe::RingParameters& p = scheme.rlwe().parameters();
  if (p.chain.size() < program.chain || p.special.size() < program.special)
    throw ParameterError("the program needs " + std::to_string(program.chain) + " primes and " +
                         std::to_string(program.special) + " special ones; the set has " + std::to_string(p.chain.size()) +
                         " and " + std::to_string(p.special.size()));
}

namespace {

/// Makes the keys that a program needs in addition to `base`.
template <class Data>
rlwe::EvaluationKeys keys_of(const limbs::Linked& program, const Data& owner, const rlwe::EvaluationKeys& base) {
  const Scheme scheme(owner.context);
  rlwe::Context& c = scheme.rlwe();
  require_fit(scheme, program);
  require<WrongKeyError>(base.id == owner.id(), "the base keys must belong to this secret key");
  rlwe::EvaluationKeys made = base;
  std::size_t bytes = 0, missing = 0;
  const auto has = [&](const limbs::Key& k) { return own_key(scheme, base, k) != nullptr; };
  for (const limbs::Key& k : program.keys) {
    require<ParameterError>(k.type != limbs::Key::own || has(k),
                            "the program needs a bootstrapping or rotation key that this set does not have");
    require<ParameterError>(scheme.ckks() || k.type <= limbs::Key::conjugation || has(k),
                            "the program needs keys that raise a modulus, which only CKKS has");
    bytes += has(k) ? 0 : schemes::layout_of(c, k)->bytes(c);
    missing += has(k) ? 0 : 1;
  }
  c.engine()->require_memory(bytes, "generating the keys of this program");
  std::optional<rlwe::SecretKey> ephemeral;  // in the key holder; temporary, for all keys of the program
  ProgressSteps steps(missing);
  for (const limbs::Key& k : program.keys) {
    if (has(k)) continue;
    const rlwe::KeyLayout layout = *schemes::layout_of(c, k);
    const auto make = [&] {
      rlwe::Entropy& entropy = *owner.entropy;
      const bool sparse = k.type == limbs::Key::to_ephemeral || k.type == limbs::Key::raise_from_ephemeral;
      if (sparse && !ephemeral)
        ephemeral = rlwe::SecretKey::generate_sparse(scheme.key_holder(), ckks::kSparseWeight, entropy);
      const RnsTensor& s = owner.key.transformed();
      switch (k.type) {
        case limbs::Key::relinearization:
          return make_key(owner.key, square_of(s), k, layout, entropy);
        case limbs::Key::rotation:
          return make_key(owner.key, ring::automorphism(s, scheme.rotation(k.turn)), k, layout, entropy);
        case limbs::Key::conjugation:
          return make_key(owner.key, ring::automorphism(s, scheme.other()), k, layout, entropy);
        case limbs::Key::to_ephemeral:
          return make_key(*ephemeral, s, k, layout, entropy);
        case limbs::Key::raise_from_ephemeral:
          return make_key(owner.key, ephemeral->transformed(), k, layout, entropy);
        default:
          return make_key(owner.key, s, k, layout, entropy);
      }
    };
    const std::string name = k.name();
    const bool fresh = k.type == limbs::Key::to_ephemeral || k.type == limbs::Key::raise_from_ephemeral;
    // Keys of a temporary secret serve only the program that they were made for.
    if (fresh) made.of_programs.erase(name);
    if (!made.of_programs.contains(name))
      made.of_programs.emplace(name, rlwe::broadcast_key(scheme.rlwe_shared(), layout, make));
    steps.add();
  }
  return made;
}

template <class Keys, class Secret>
Keys with_keys_of(const limbs::Linked& program, const Secret& secret, const Keys& base) {
  auto made = std::make_shared<std::remove_cvref_t<decltype(base.data())>>(base.data());
  require<MismatchError>(made->context == secret.data().context, "the base keys must have the secret key's parameter set");
  made->keys = keys_of(program, secret.data(), made->keys);
  return Keys(std::move(made));
}

}  // namespace

ckks::EvaluationKeys Program::keys(const ckks::SecretKey& secret, const ckks::EvaluationKeys& base) const {
  return with_keys_of(*state_->linked, secret, base);
}
exact::EvaluationKeys Program::keys(const exact::SecretKey& secret, const exact::EvaluationKeys& base) const {
  return with_keys_of(*state_->linked, secret, base);
}

}  // namespace heliograph::cinnamon
