// Writes recorded programs of CKKS and BGV as instructions on single limbs (docs/cinnamon.md).
#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "program/limbs/lower.h"
#include "schemes/cinnamon/cinnamon.h"
#include "schemes/ckks/bootstrapping.h"

namespace heliograph::cinnamon {

namespace {

namespace limbs = program::limbs;
using math::u64;

/// Rotation steps of Galois elements.
class Turns {
 public:
  explicit Turns(const Scheme& scheme) {
    u64 power = 1;
    const std::size_t n = scheme.rlwe().parameters().n;
    const auto half = static_cast<std::int32_t>(n / 2);
    for (std::int32_t k = 0; k < half; ++k, power = power * scheme.generator() % (2 * n))
      steps_[power] = k <= half / 2 ? k : k - half;
    steps_[scheme.other()] = limbs::Linked::kConjugation;
  }
  std::optional<std::int32_t> find(u64 galois) const {
    const auto found = steps_.find(galois);
    return found == steps_.end() ? std::nullopt : std::optional(found->second);
  }
  std::int32_t operator()(u64 galois) const {
    const auto steps = find(galois);
    require<ParameterError>(
        steps.has_value(),
        "cannot write: the program has an automorphism that is neither a rotation nor a conjugation or exchange of rows");
    return *steps;
  }

 private:
  std::map<u64, std::int32_t> steps_;
};

/// Returns the key of a recorded call, as it occurs in a set's keys (rlwe::EvaluationKeys::each).
limbs::Key key_of(const Scheme& scheme, u64 which, const Turns& turns) {
  const rlwe::RingParameters& p = scheme.rlwe().parameters();
  limbs::Key key{.level = static_cast<limbs::u32>(p.chain.size()), .extension = static_cast<limbs::u32>(p.special.size())};
  std::uint16_t next = 0;
  for (const std::size_t count : p.digits) {
    auto& digit = key.digits.emplace_back();
    for (std::size_t i = 0; i < count; ++i) digit.push_back(next++);
  }
  if (which == 0) return key;
  const auto steps = which % 2 == 1 && which >> 20 == 0 ? turns.find(which) : std::nullopt;
  if (steps) {
    key.type = *steps == limbs::Linked::kConjugation ? limbs::Key::conjugation : limbs::Key::rotation;
    key.turn = *steps == limbs::Linked::kConjugation ? 0 : *steps;
    return key;
  }
  require<ParameterError>(which >> 22 == 0, "cannot write: the recorded program runs an instruction program");
  key.type = limbs::Key::own, key.turn = static_cast<std::int32_t>(which);
  if (which % 2 == 1 && which >> 20 == 0) return key;
  const rlwe::BootstrappingLayouts layouts = scheme.ckks()->bootstrapping_layouts();
  const rlwe::KeyLayout& layout = which == 2   ? layouts.to_sparse
                                  : which == 4 ? layouts.first_matrix
                                               : layouts.to_coefficients;
  key.level = key.extension = 0;
  for (const math::PrimeIndex prime : layout.primes) ++(prime < p.chain.size() ? key.level : key.extension);
  key.digits.clear();
  for (std::size_t j = 0; j < layout.digits; ++j) key.digits.push_back({static_cast<std::uint16_t>(j)});
  return key;
}

void gather(const program::Program::Parts& parts, const std::vector<limbs::Constant>& constants, Words& words) {
  std::size_t count = 0;
  for (const limbs::Constant& constant : constants) {
    Words::Plaintext& p = words.plaintexts[constant.name];
    p.first = count, count += constant.limbs.size();
    for (const limbs::Constant::Limb& l : constant.limbs) p.primes.push_back(l.prime);
  }
  if (count == 0) return;
  words.limbs = ring::RnsTensor(words.scheme.rlwe().engine(), {}, count, {0}, math::Domain::ntt);
  ring::Engine& e = words.scheme.engine();
  const std::size_t chain = words.scheme.rlwe().parameters().chain.size();
  const auto prime_of = [&](const limbs::Constant::Limb& l) {
    return static_cast<math::PrimeIndex>(l.prime < chain ? l.prime : chain + (limbs::kPrimes - 1 - l.prime));
  };
  ring::RnsTensor ones;  // one limb of ones: its product with a plaintext of one word per run of equal words has all words
  device::Gather whole;
  std::size_t next = 0;
  for (const limbs::Constant& constant : constants) {
    for (const limbs::Constant::Limb& from : constant.limbs) {
      device::View view = from.view;
      const device::Buffer& memory = parts.places[from.place].memory;
      require<InternalError>(memory != nullptr, "a constant of a recorded program has no memory");
      view.data = program::behind(memory->address(), view.data);
      view.memory = memory;
      const device::View to = words.limbs.with_components(next++, 1).view();
      if (view.n == to.n) {
        whole.pieces.push_back({view, to});
        continue;
      }
      if (ones.empty()) {
        ones = ring::RnsTensor(words.scheme.rlwe().engine(), {}, 1, {0}, math::Domain::ntt);
        device::LimbConstants one{};
        one[0] = 1;
        e.enqueue(device::Zero{ones.view()});
        e.enqueue(device::AddConstants{e.prepared(), {0}, ones.view(), one, math::Domain::ntt, ones.view()});
      }
      e.enqueue(device::Mul{e.prepared(), {prime_of(from)}, ones.view(), view, to});
    }
  }
  if (!whole.pieces.empty()) e.enqueue(whole);
  next = 0;
  for (const limbs::Constant& constant : constants) {
    for (const limbs::Constant::Limb& from : constant.limbs) {
      const device::View to = words.limbs.with_components(next++, 1).view();
      if (from.coefficients) e.enqueue(device::ForwardNtt{e.prepared(), {prime_of(from)}, to, to});
    }
  }
}

void require_names(const std::vector<std::string>& names) {
  const std::set<std::string> all(names.begin(), names.end());
  require<ParameterError>(all.size() == names.size(), "names of a program's tensors must differ");
  for (const std::string& name : all) {
    const bool plain = !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](unsigned char ch) {
      return std::isalnum(ch) || ch == '_' || ch == '-' || ch == '.';
    });
    require<ParameterError>(plain, "names must have 1 to 64 letters, digits, '_', '-' or '.'");
  }
}

/// Stores the metadata of each ciphertext of a tensor, by the ciphertext's name.
void note(const AnyCiphertext& x, const std::string& name, std::map<std::string, AnyCiphertext>& said,
          std::map<std::string, std::size_t>& numbers) {
  const ring::Shape shape = tensor_of(x).shape();
  for (std::size_t i = 0; i < ring::element_count(shape); ++i) {
    const std::string one = shape.empty() ? name : name + "." + std::to_string(i);
    said.emplace(one, x), numbers.emplace(one, i);
  }
}

std::vector<bool> in_coefficients(const std::vector<AnyCiphertext>& tensors) {
  std::vector<bool> all;
  for (const AnyCiphertext& x : tensors) all.push_back(tensor_of(x).domain() == math::Domain::coefficient);
  return all;
}

}  // namespace

Written write(const program::Program::Parts& parts, const std::vector<AnyCiphertext>& takes,
              const std::vector<AnyCiphertext>& gives, const Writing& how) {
  require<ParameterError>(!takes.empty() && !gives.empty(),
                          "cannot write: the program must have at least one input and one result");
  require<ParameterError>(how.chips >= 1 && how.chips <= limbs::kPrimes, "chips must be 1 to 64");
  require<ParameterError>(how.inputs.size() == takes.size() && how.results.size() == gives.size(),
                          "names must be one for each input and result tensor");
  require_names(how.inputs), require_names(how.results);
  const Scheme scheme(takes.front());
  for (const auto* tensors : {&takes, &gives}) {
    for (const AnyCiphertext& x : *tensors)
      require<ParameterError>(Scheme(x) == scheme, "cannot write: all tensors of the program must have one parameter set");
  }
  for (const AnyCiphertext& x : gives) {
    const auto* const c = std::get_if<ckks::Ciphertext>(&x);
    if (c != nullptr && !c->data().guards.empty())
      throw ParameterError("cannot write: instructions carry no guards, and the argument of " +
                           c->data().guards.list().front()->operations.front() +
                           " has one; record the program with guard=False");
  }
  require_prefixes(scheme);
  const rlwe::RingParameters& p = scheme.rlwe().parameters();
  const Turns turns(scheme);
  limbs::Lowered lowered =
      limbs::lower(parts, {.chips = how.chips,
                           .switching = static_cast<limbs::Lowering::Switching>(how.switching),
                           .chain = p.chain,
                           .special = p.special,
                           .inputs = how.inputs,
                           .results = how.results,
                           .coefficients = in_coefficients(takes),
                           .key = [&](const program::Place& place) { return key_of(scheme, place.which, turns); },
                           .turn = turns});
  auto words = std::make_shared<Words>(Words{.scheme = scheme});
  gather(parts, lowered.plaintexts, *words);
  words->scalars = std::move(lowered.scalars);
  for (std::size_t i = 0; i < how.inputs.size(); ++i) note(takes[i], how.inputs[i], words->takes, words->take_numbers);
  for (std::size_t r = 0; r < how.results.size(); ++r) note(gives[r], how.results[r], words->gives, words->give_numbers);
  auto made = std::make_shared<Program::State>();
  made->text = std::move(lowered.text);
  made->linked = std::make_shared<const limbs::Linked>(limbs::link(made->text));
  if (how.chips == 1 || how.switching != Writing::Switching::aggregate) words->exact = made;
  return {.program = Program(std::move(made)), .constants = {.words = std::move(words)}};
}

}  // namespace heliograph::cinnamon
