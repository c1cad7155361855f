// Programs of instructions at work: what they take bound to a machine (program/limbs/machine.h).
#include <cmath>
#include <numeric>

#include "mesh/mesh.h"
#include "program/limbs/machine.h"
#include "program/limbs/scales.h"
#include "schemes/cinnamon/bounds.h"
#include "schemes/cinnamon/cinnamon.h"
#include "schemes/ckks/encode.h"
#include "schemes/ckks/figures.h"

namespace heliograph::cinnamon {

namespace limbs = program::limbs;
using limbs::kPrimes;
using math::u64;
using ring::RnsTensor;
using ring::Shape;

struct Runner::State {
  State(const Program& given, const AnyKeys& given_keys, Constants given_constants, Execution given_how);

  std::map<std::string, AnyCiphertext> run(const std::map<std::string, AnyCiphertext>& inputs);
  void require_constants() const;
  void require_recorded(const Words& words) const;
  void follow(const std::vector<double>& given_scales);
  void require_scalar(limbs::u32 i) const;
  /// Whether this process made the keys, of CKKS.
  bool keys_vouched() const {
    const auto* const k = std::get_if<ckks::EvaluationKeys>(&keys);
    return k && k->data().vouched;
  }
  void bind(limbs::Machine& made) const;
  std::vector<std::optional<Bound>> bounds(const std::map<std::string, AnyCiphertext>& inputs, const Shape& shape,
                                           bool complex) const;
  AnyCiphertext result(std::size_t r, RnsTensor tensor, bool complex, const std::vector<std::optional<Bound>>& bounds,
                       Standing standing) const;
  void prepare(const std::vector<double>& given_scales, std::size_t items);
  std::shared_ptr<const limbs::Linked> fitting(std::size_t items);
  std::vector<double> known_scales(const std::vector<double>& given_scales) const;

  Program program;
  AnyKeys keys;
  Constants constants;
  Execution how;
  Scheme scheme;
  std::vector<std::unique_ptr<device::Device>> opened;
  std::vector<std::unique_ptr<device::Session>> sessions;  // of a mesh's members, or of what was opened
  std::vector<const device::Session*> devices;
  const device::Session* host = nullptr;  // where devices have too little
  std::shared_ptr<const limbs::Linked> linked;
  std::vector<RnsTensor> pairs;  // which stay while the machine has them
  bool exact = false;            // it is the very program that its constants are of, with a recording's bits

  std::mutex mutex;            // of all below
  std::vector<double> scales;  // of the ciphertexts that it was made ready for
  limbs::Scales found;
  std::optional<Meaning> meaning;           // of a compiler's program
  std::vector<ckks::Plaintext> plaintexts;  // of each item
  std::size_t items = 0;
  std::unique_ptr<limbs::Machine> machine;
};

namespace {

template <class Map>
void require_names(const Map& given, const limbs::Linked& program, char kind, const char* what) {
  for (const auto& [name, value] : given) {
    const bool known = std::any_of(program.items.begin(), program.items.end(),
                                   [&](const limbs::Item& i) { return i.kind == kind && i.name == name; });
    if (!known) throw ParameterError("the program takes no " + std::string(what) + " of the name " + name);
  }
}

}  // namespace

Runner::State::State(const Program& given, const AnyKeys& given_keys, Constants given_constants, Execution given_how)
    : program(given), keys(given_keys), constants(std::move(given_constants)), how(given_how), scheme(keys) {
  require_fit(scheme, *program.state().linked);
  ring::Engine& engine = scheme.engine();
  device::Device& device = engine.device();
  linked = program.state().linked;
  auto* const mesh = dynamic_cast<mesh::Mesh*>(&device);
  if (!how.devices.empty()) {
    require<ParameterError>(mesh == nullptr, "chips run on a mesh's members, or on devices beside one that is no mesh");
    devices.push_back(&engine);
    for (const std::string& name : how.devices) {
      opened.push_back(mesh::open_device(name));
      sessions.push_back(std::make_unique<device::Session>(*opened.back()));
      devices.push_back(sessions.back().get());
    }
    linked = std::make_shared<const limbs::Linked>(limbs::link(program.state().text, devices.size(), how.fused));
    devices.resize(linked->devices);
  } else if (mesh != nullptr && !mesh::over_ranks()) {
    linked = std::make_shared<const limbs::Linked>(limbs::link(program.state().text, mesh->size(), how.fused));
    for (std::size_t m = 0; m < linked->devices; ++m) {
      sessions.push_back(std::make_unique<device::Session>(mesh->member(m)));
      devices.push_back(sessions.back().get());
    }
  } else {
    if (!how.fused) linked = std::make_shared<const limbs::Linked>(limbs::link(program.state().text, 1, false));
    devices.push_back(&engine);
  }
  require_constants();
  if (constants.words && constants.words->exact) {
    const Program::State* const written = constants.words->exact.get();
    exact = written == &program.state() || Program(constants.words->exact).files() == program.files();
  }
  for (const limbs::Key& k : linked->keys) {
    const auto& have = switch_keys(keys).of_programs;
    const auto found = have.find(k.name());
    if (const rlwe::SwitchKey* const own = own_key(scheme, switch_keys(keys), k); found == have.end() && own != nullptr) {
      pairs.push_back(own->pairs());
      continue;
    }
    if (found == have.end())
      throw MissingKeyError("the program's key " + k.name() +
                            " is not among the keys: SecretKey.evaluation_keys makes it of the program");
    pairs.push_back(found->second.pairs());
  }
}

void Runner::State::require_recorded(const Words& words) const {
  require<ParameterError>(constants.plaintexts.empty() && constants.values.empty() && constants.scalars.empty(),
                          "a program with the constants of its recording takes no others");
  require<MismatchError>(words.scheme == scheme, "the constants are of another parameter set than the keys");
  for (const limbs::Item& i : linked->items) {
    const bool known = i.kind == 'i'   ? words.takes.contains(i.name)
                       : i.kind == 'p' ? words.plaintexts.contains(i.name)
                                       : words.scalars.contains(i.name);
    if (!known) throw ParameterError("the constants are of another program: they do not know " + i.name);
  }
  for (const limbs::Result& r : linked->results) {
    if (!words.gives.contains(r.name))
      throw ParameterError("the constants are of another program: they do not know " + r.name);
  }
}

void Runner::State::require_constants() const {
  if (constants.words) return require_recorded(*constants.words);
  require<ParameterError>(scheme.ckks() != nullptr,
                          "a program of BGV is one that was written from a recording: it runs with that one's constants");
  require_names(constants.plaintexts, *linked, 'p', "plaintext");
  require_names(constants.values, *linked, 'p', "plaintext");
  require_names(constants.scalars, *linked, 's', "scalar");
  require<ParameterError>(constants.tolerance >= 0 && std::isfinite(constants.tolerance),
                          "a tolerance is a number, 0 or more");
  for (const limbs::Item& i : linked->items) {
    if (i.kind == 's') {
      const auto found = constants.scalars.find(i.name);
      if (found == constants.scalars.end())
        throw ParameterError("the program takes a scalar " + i.name + ", which is not given");
      require<ParameterError>(std::isfinite(found->second), "a scalar is a finite number");
    }
    if (i.kind != 'p') continue;
    const auto plain = constants.plaintexts.find(i.name);
    const auto values = constants.values.find(i.name);
    if (plain == constants.plaintexts.end() && values == constants.values.end())
      throw ParameterError("the program takes a plaintext " + i.name + ", which is not given");
    if (plain == constants.plaintexts.end()) {
      if (!values->second.shape.empty()) throw ShapeError("the plaintext " + i.name + " is one, not an array of them");
      continue;
    }
    const ckks::PlaintextData& p = plain->second.data();
    require<MismatchError>(p.context == scheme.ckks(), "a plaintext is of another parameter set than the keys");
    if (!p.shape.empty()) throw ShapeError("the plaintext " + i.name + " is one, not an array of them");
    if (p.tensor.primes().size() < i.level)
      throw LevelError("the plaintext " + i.name + " is at level " + std::to_string(p.level) + "; the program takes level " +
                       std::to_string(scheme.level_of(i.level)));
  }
}

std::vector<double> Runner::State::known_scales(const std::vector<double>& given_scales) const {
  std::vector<double> known = given_scales;
  take_scales(*linked, constants.scales, known);
  for (std::size_t i = 0; i < known.size(); ++i) {
    const auto plain = constants.plaintexts.find(linked->items[i].name);
    if (linked->items[i].kind != 'p' || plain == constants.plaintexts.end()) continue;
    require<ParameterError>(known[i] == 0, "a plaintext that is encoded has a scale: give one to values alone");
    known[i] = plain->second.scale();
  }
  return known;
}

/// The program as devices have room for it.
std::shared_ptr<const limbs::Linked> Runner::State::fitting(std::size_t batch) {
  const math::Ring& ring = scheme.engine().ring();
  const std::size_t each = device::View::dense(nullptr, ring.word(), {batch}, 1, 1, ring.n()).bytes();
  std::vector<limbs::u32> most;
  bool fits = true;
  for (std::size_t d = 0; d < linked->devices; ++d) {
    // What is in the host's memory gains nothing there; some is left for scratch.
    const bool bounded = how.memory > 0 || !devices[d]->device().in_host_memory();
    const std::size_t room = how.memory > 0 ? how.memory : devices[d]->free_memory() / 10 * 9;
    most.push_back(bounded ? static_cast<limbs::u32>(std::min<std::size_t>(room / each, limbs::kNone)) : limbs::kNone);
    fits = fits && linked->slots[d] <= most.back();
  }
  if (fits) return linked;
  auto made = std::make_shared<const limbs::Linked>(limbs::link(program.state().text, linked->devices, how.fused, most));
  if (!host) {
    opened.push_back(mesh::open_device("ref"));
    sessions.push_back(std::make_unique<device::Session>(*opened.back()));
    host = sessions.back().get();
  }
  return made;
}

/// Scales through the program, and plaintexts at those that it needs.
void Runner::State::follow(const std::vector<double>& given_scales) {
  found = limbs::follow(*linked, scale_rules(scheme, constants.tolerance), known_scales(given_scales));
  plaintexts.assign(linked->items.size(), {});
  for (limbs::u32 i = 0; i < linked->items.size(); ++i) {
    const limbs::Item& item = linked->items[i];
    if (item.kind == 's') require_scalar(i);
    if (item.kind != 'p') continue;
    const auto plain = constants.plaintexts.find(item.name);
    if (plain != constants.plaintexts.end()) {
      plaintexts[i] = plain->second;
      continue;
    }
    try {
      plaintexts[i] = ckks::encode(ckks::Parameters(scheme.ckks()), constants.values.at(item.name),
                                   scheme.level_of(item.level), found.items[i]);
    } catch (const PlaintextRangeError& error) {
      throw PlaintextRangeError(limbs::first_use(*linked, i) + ": cannot encode the plaintext " + item.name + ": " +
                                error.what());
    }
  }
  scales = given_scales;
  if (!meaning) meaning = Meaning::of(*linked, scheme);
}

/// Throws PlaintextRangeError for a scalar that its level's modulus does not hold at its scale, or of which the scale leaves nothing.
void Runner::State::require_scalar(limbs::u32 i) const {
  const limbs::Item& item = linked->items[i];
  const double value = constants.scalars.at(item.name), scale = found.items[i], whole = std::nearbyint(value * scale);
  const std::size_t level = scheme.level_of(item.level);
  const double most = scheme.ckks()->log_modulus(level) - 1 - std::log2(scale);
  const std::string where = limbs::first_use(*linked, i) + ": cannot encode the scalar " + item.name + ": ";
  const std::string at = " at the scale 2^" + ckks::short_number(std::log2(scale));
  if (!(std::abs(value) <= std::exp2(most)))
    throw PlaintextRangeError(where + "at level " + std::to_string(level) + at + " it must lie within " +
                              ckks::short_number(std::exp2(most)) + ", got " + ckks::short_number(value) +
                              "; use it at a higher level, or give it a smaller scale");
  if (value != 0 && whole == 0)
    throw PlaintextRangeError(where + "at level " + std::to_string(level) + at + " it must be 0, or at least " +
                              ckks::short_number(0.5 / scale) + " in magnitude, got " + ckks::short_number(value) +
                              ", which rounds to 0; give it a larger scale, or 0");
}

/// Keys, plaintexts and scalars.
void Runner::State::bind(limbs::Machine& made) const {
  const math::Ring& ring = scheme.engine().ring();
  for (limbs::u32 k = 0; k < pairs.size(); ++k) made.bind_key(k, pairs[k].view());
  for (limbs::u32 i = 0; i < linked->items.size(); ++i) {
    const limbs::Item& item = linked->items[i];
    if (const auto& words = constants.words) {
      if (item.kind == 'p') {
        const Words::Plaintext& p = words->plaintexts.at(item.name);
        made.bind_plaintext(i, words->limbs.view(), p.first, p.primes);
      } else if (item.kind == 's') {
        made.bind_scalar(i, words->scalars.at(item.name));
      }
      continue;
    }
    std::vector<std::uint16_t> primes(item.level);
    std::iota(primes.begin(), primes.end(), std::uint16_t{0});
    if (item.kind == 'p') made.bind_plaintext(i, plaintexts[i].data().tensor.view(), primes);
    if (item.kind != 's') continue;
    const double whole = std::nearbyint(constants.scalars.at(item.name) * found.items[i]);
    std::vector<u64> residues;
    for (const std::uint16_t p : primes) residues.push_back(ckks::residue_of(whole, ring.prime(p)));
    made.bind_scalar(i, residues);
  }
}

void Runner::State::prepare(const std::vector<double>& given_scales, std::size_t batch) {
  const rlwe::RingParameters& set = scheme.rlwe().parameters();
  if (!constants.words && (scales != given_scales || !machine)) machine = nullptr, follow(given_scales);
  if (machine && items == batch) return;
  machine = nullptr;
  limbs::Machine::Ring of{.ring = scheme.engine().prepared(), .turn = [this](std::int32_t steps, math::Domain domain) {
                            const bool other = steps == limbs::Linked::kConjugation;
                            return scheme.engine().automorphism(other ? scheme.other() : scheme.rotation(steps), domain);
                          }};
  for (std::size_t p = 0; p < std::min(kPrimes, set.chain.size()); ++p) of.primes[p] = static_cast<math::PrimeIndex>(p);
  for (std::size_t p = 0; p < linked->special; ++p)
    of.primes[kPrimes - 1 - p] = static_cast<math::PrimeIndex>(set.chain.size() + p);
  const std::shared_ptr<const limbs::Linked> fit = fitting(batch);
  std::vector<const device::Session*> all(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(fit->devices));
  if (fit->slots.size() > fit->devices) all.push_back(host);
  auto made = std::make_unique<limbs::Machine>(
      fit, scheme.engine(), std::move(all), std::move(of), batch,
      limbs::Machine::Options{how.merged, static_cast<limbs::Machine::Options::Graph>(how.graph), how.hints});
  bind(*made);
  machine = std::move(made);
  items = batch;
}

/// Of each result, where the program can be followed.
std::vector<std::optional<Bound>> Runner::State::bounds(const std::map<std::string, AnyCiphertext>& inputs,
                                                        const Shape& shape, bool complex) const {
  const ckks::Context& c = *scheme.ckks();
  Taken taken{.items = {}, .shape = shape, .complex = complex};
  taken.keys_vouched = keys_vouched();
  // Results have all slots: what stands behind the values is among theirs.
  const auto wide = [&](const ckks::Ranges& ranges, const ckks::Packing& packing, const ckks::Tail& tail) {
    return packing.width < c.period() ? ranges.map([&](const ckks::Range& r) { return ckks::moved(r, packing, tail); })
                                      : ranges;
  };
  for (std::size_t i = 0; i < linked->items.size(); ++i) {
    const limbs::Item& item = linked->items[i];
    if (item.kind == 'i') {
      const ckks::CiphertextData& x = std::get<ckks::Ciphertext>(inputs.at(item.name)).data();
      taken.items.push_back({x.noise, wide(x.ranges, x.packing(), x.tail), x.scale});
    } else if (item.kind == 'p') {
      const ckks::PlaintextData& p = plaintexts[i].data();
      taken.items.push_back({c.noise().rounding(), wide(p.ranges, {p.width, c.period(), p.complex}, {}), p.scale});
    } else {
      const double value = constants.scalars.at(item.name), scaled = value * found.items[i];
      taken.items.push_back(
          {std::rint(scaled) == scaled ? Meaning::kNothing : -1.0, ckks::ranges_of_numbers({value}), found.items[i]});
    }
  }
  return meaning->bounds(c, taken);
}

AnyCiphertext Runner::State::result(std::size_t r, RnsTensor tensor, bool complex,
                                    const std::vector<std::optional<Bound>>& bounds, Standing standing) const {
  const rlwe::KeyId& key = switch_keys(keys).id;
  if (const auto& words = constants.words)
    return cinnamon::result(words->gives.at(linked->results[r].name), words->give_numbers.at(linked->results[r].name), key,
                            std::move(tensor), complex, standing);
  const std::shared_ptr<ckks::Context>& c = scheme.ckks();
  ckks::CiphertextData data{.context = c, .key = key};
  data.tensor = std::move(tensor);
  data.level = scheme.level_of(linked->results[r].level);
  data.scale = bounds.empty() ? c->scale(data.level) : found.results[r];
  // As of a product of numbers that is rescaled: but for roundings of doubles.
  if (std::abs(data.scale / c->scale(data.level) - 1) < 0x1p-40) data.scale = c->scale(data.level);
  data.width = c->period(), data.complex = complex;
  data.noise = std::nan("");
  if (!bounds.empty() && bounds[r]) {
    const Bound& known = *bounds[r];
    data.ranges = known.ranges;
    data.noise = ckks::added_noise(known.noise, known.ranges.peak(), known.scale, data.scale);
  }
  return ckks::finish(std::move(data));
}

std::map<std::string, AnyCiphertext> Runner::State::run(const std::map<std::string, AnyCiphertext>& inputs) {
  require_names(inputs, *linked, 'i', "ciphertext");
  std::optional<Shape> shape;
  bool complex = false;
  Standing standing{exact, exact && keys_vouched()};
  std::vector<double> given_scales(linked->items.size());
  std::vector<RnsTensor> tensors(linked->items.size());
  const auto& words = constants.words;
  for (std::size_t i = 0; i < linked->items.size(); ++i) {
    const limbs::Item& item = linked->items[i];
    if (item.kind == 'p' && !words) {
      const auto plain = constants.plaintexts.find(item.name);
      complex = complex || (plain != constants.plaintexts.end() ? plain->second.data().complex
                                                                : constants.values.at(item.name).complex);
    }
    if (item.kind != 'i') continue;
    const auto found_input = inputs.find(item.name);
    if (found_input == inputs.end())
      throw ParameterError("the program takes a ciphertext " + item.name + ", which is not given");
    Given x = given(scheme, switch_keys(keys).id, item, found_input->second, words ? &words->takes.at(item.name) : nullptr);
    if (words) {
      const Standing mine = within(found_input->second, words->takes.at(item.name), words->take_numbers.at(item.name));
      standing.assumed = standing.assumed && mine.assumed, standing.vouched = standing.vouched && mine.vouched;
    }
    if (!shape) shape = x.tensor.shape();
    if (*shape != x.tensor.shape())
      throw ShapeError("the program's ciphertexts have one shape; " + item.name + " is of " +
                       ring::to_string(x.tensor.shape()) + ", others of " + ring::to_string(*shape));
    given_scales[i] = x.scale, complex = complex || x.complex;
    tensors[i] = std::move(x.tensor);
  }
  if (!shape) shape = Shape{};
  const std::size_t batch = ring::element_count(*shape);
  std::map<std::string, AnyCiphertext> results;
  const std::lock_guard lock(mutex);
  if (batch > 0) prepare(given_scales, batch);
  std::vector<device::View> from(tensors.size()), to;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].empty()) continue;
    tensors[i] = tensors[i].reshape({batch}).contiguous();
    from[i] = tensors[i].view();
  }
  std::vector<RnsTensor> made;
  for (const limbs::Result& r : linked->results) {
    made.emplace_back(scheme.rlwe().engine(), Shape{batch}, 2, device::PrimeList::range(0, r.level), math::Domain::ntt);
    to.push_back(made.back().view());
  }
  std::vector<std::optional<Bound>> known;
  if (batch > 0 && !words) known = bounds(inputs, *shape, complex);
  if (batch > 0) machine->run(from, to);
  for (std::size_t r = 0; r < made.size(); ++r)
    results.emplace(linked->results[r].name, result(r, made[r].reshape(*shape), complex, known, standing));
  return results;
}

Runner::Runner(const Program& program, const AnyKeys& keys, Constants constants, Execution how)
    : state_(std::make_shared<State>(program, keys, std::move(constants), how)) {}

std::map<std::string, AnyCiphertext> Runner::operator()(const std::map<std::string, AnyCiphertext>& inputs) const {
  return state_->run(inputs);
}

Runner::Summary Runner::summary() const {
  const std::lock_guard lock(state_->mutex);
  require<ParameterError>(state_->machine != nullptr, "the program has not run yet");
  const device::Count work = state_->machine->work();
  const limbs::Machine::Spilled spilled = state_->machine->spilled();
  std::map<std::string, double> scales;
  for (std::size_t i = 0; i < state_->found.items.size(); ++i) {
    const limbs::Item& item = state_->linked->items[i];
    if (item.kind != 'i') scales.emplace(item.name, state_->found.items[i]);
  }
  return {.calls = state_->machine->calls(),
          .bytes_read = work.bytes_read,
          .bytes_written = work.bytes_written,
          .products = work.products,
          .bytes = state_->machine->bytes(),
          .devices = state_->devices.size(),
          .host_bytes = spilled.bytes,
          .bytes_out = spilled.out,
          .bytes_in = spilled.in,
          .scales = std::move(scales)};
}

}  // namespace heliograph::cinnamon
