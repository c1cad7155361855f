// Programs in files: parameters, requirements on operands, the program itself (program/file.h), and the results' metadata.
// Nothing depends on encrypted values: stored figures of noise and size follow from operations (docs/format.md).
#include <algorithm>
#include <cmath>
#include <limits>

#include "heliograph/program.h"
#include "program/file.h"
#include "recording/state.h"
#include "ring/key_holder.h"
#include "rlwe/files.h"
#include "schemes/ckks/context.h"
#include "schemes/ckks/spec.h"
#include "schemes/exact/spec.h"
#include "schemes/exact/tails.h"
#include "schemes/tfhe/context.h"
#include "schemes/tfhe/encoding.h"
#include "schemes/tfhe/spec_text.h"

namespace heliograph {

namespace recording {

namespace {

constexpr std::string_view kType = "heliograph.program";
constexpr std::uint64_t kTables = std::uint64_t{1} << 30;    // default limit on bytes of the parameter sets' tables
constexpr const char* kSchemes[] = {"bfv", "ckks", "tfhe"};  // the reader of BFV's sets also reads BGV's

void require_saved(bool right, const char* what) { require<DamagedFileError>(right, what); }

// JSON numbers are finite, so an unknown number is written as null and an infinite one as the text "unbounded".
constexpr const char* kUnbounded = "unbounded";

io::Json figure(double value) {
  if (std::isnan(value)) return io::Json();
  return std::isinf(value) ? io::Json(value > 0 ? kUnbounded : "-unbounded") : io::Json(value);
}
double figure_from(const io::Json& json) {
  if (json.is_null()) return std::nan("");
  if (json.kind() != io::Json::Kind::string) return json.as_double("a figure");
  const std::string& word = json.as_string("a figure", 16);
  require_saved(word == kUnbounded || word == std::string("-") + kUnbounded,
                "a figure of a saved program must be a number, null or \"unbounded\"");
  return word == kUnbounded ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

/// Throws unless the words of a result are residues. Each word is less than `below`. If there are no moduli, any word is
/// valid.
void require_residues(const std::vector<std::uint64_t>& below, const std::vector<std::uint64_t>& moduli) {
  for (std::size_t l = 0; l < moduli.size(); ++l)
    require_saved(below[l] <= moduli[l], "a saved program's result may have words that are not below its primes");
}

template <class Data>
bool is_trivial(const Data& x) {
  if constexpr (std::is_same_v<Data, tfhe::CiphertextData>) return !x.key;
  return false;
}

// ---- parameters

const device::Session* session_of(const AnyContext& context) {
  return std::visit(
      [](const auto& c) -> const device::Session* {
        if constexpr (requires { c->engine(); })
          return &c->engine();
        else
          return &c->session();
      },
      context);
}

template <class C>
program::ParameterSet set_of(C& context) {
  return {.session = &context.engine(), .rings = {context.engine().prepared()}, .bootstrap_key = {}, .switch_key = {}};
}
program::ParameterSet set_of(tfhe::Context& context) {
  const lwe::Parameters& p = context.lwe();
  return {.session = &context.session(),
          .rings = {},
          .bootstrap_key = std::make_shared<const device::BootstrapKey>(p.bootstrap),
          .switch_key = std::make_shared<const device::LweSwitchKey>(p.key_switch)};
}

// Returns the approximate bytes of the tables that a set makes when it is opened.
template <class Spec>
std::uint64_t table_bytes(const Spec& spec) {
  std::size_t primes = spec.chain.size() + spec.special.size();
  if constexpr (requires { spec.auxiliary; }) primes += spec.auxiliary.size();
  if constexpr (requires { spec.plain_moduli; }) primes += spec.plain_moduli.size();
  return checked_product(4 * sizeof(std::uint64_t), spec.n, primes);
}
std::uint64_t table_bytes(const tfhe::Spec&) { return 0; }

struct Parameters {
  std::vector<AnyContext> list;

  std::size_t number(const AnyContext& context) {
    const auto found = std::find(list.begin(), list.end(), context);
    if (found != list.end()) return static_cast<std::size_t>(found - list.begin());
    list.push_back(context);
    return list.size() - 1;
  }
  std::vector<const device::Session*> sessions() const {
    std::vector<const device::Session*> all;
    for (const AnyContext& context : list) all.push_back(session_of(context));
    return all;
  }
  std::vector<program::ParameterSet> sets() const {
    std::vector<program::ParameterSet> all;
    for (const AnyContext& context : list) all.push_back(std::visit([](const auto& c) { return set_of(*c); }, context));
    return all;
  }
  io::Json json() const {
    io::Json all = io::Json::array();
    for (const AnyContext& context : list) {
      std::visit(
          [&](const auto& c) {
            all.push_back(io::Json::object(
                {{"scheme", kSchemes[context.index()]}, {"parameters", to_json(c->spec())}, {"parameter_hash", c->hash()}}));
          },
          context);
    }
    return all;
  }
};

/// Opens the context of a set. `room`: remaining bytes for the tables of sets that are not open yet.
template <class C>
AnyContext opened(const io::Json& json, std::uint64_t& room) {
  const auto spec = C::spec_from(json.object_at("parameters"));
  require_saved(json.string_at("parameter_hash", 128) == hash_of(spec),
                "a saved program's parameters do not match their hash");
  const std::uint64_t bytes = table_bytes(spec);
  require<LimitError>(
      bytes <= room,
      "the tables of this program's parameter sets exceed the memory limit; raise it (program_limits(memory=))");
  room -= bytes;
  return schemes::open_saved_context<C>(spec, "a saved program's parameters");
}

AnyContext context_from(const io::Json& json, std::uint64_t& room) {
  json.require_only({"scheme", "parameters", "parameter_hash"}, "a saved program's parameters");
  const std::string& scheme = json.string_at("scheme", 16);
  if (scheme == kSchemes[0]) return opened<exact::Context>(json, room);
  if (scheme == kSchemes[1]) return opened<ckks::Context>(json, room);
  if (scheme == kSchemes[2]) return opened<tfhe::Context>(json, room);
  throw DamagedFileError("a saved program has an unknown scheme");
}

// ---- metadata of results

io::Json tensor_json(const ring::RnsTensor& t) {
  if (t.secret()) throw RecordingError("cannot save a program with secret results");
  return io::Json::object(
      {{"primes", io::Json::array_of(t.primes())}, {"domain", t.domain() == math::Domain::ntt ? "ntt" : "coefficient"}});
}

/// Makes a tensor over `view`.
ring::RnsTensor tensor_from(const io::Json& json, const rlwe::Context& c, const View& view) {
  json.require_only({"primes", "domain"}, "a saved program's result");
  device::PrimeList primes;
  for (const std::uint64_t p : json.unsigned_array_at("primes", device::PrimeList::kMost, 0xffff))
    primes.push_back(static_cast<math::PrimeIndex>(p));
  const std::string& domain = json.string_at("domain", 16);
  require_saved(domain == "ntt" || domain == "coefficient",
                "the domain of a saved program's result must be ntt or coefficient");
  return rlwe::tensor_over(view, c, primes, domain == "ntt" ? math::Domain::ntt : math::Domain::coefficient);
}

void describe(io::Json& h, const exact::CiphertextData& x) {
  h["first_part"] = x.first_part, h["packing"] = x.packing == exact::Packing::slots ? "slots" : "coefficients";
  h["width"] = x.width, h["factors"] = io::Json::array_of(x.factors);
  h["independent"] = x.independent, h["distinct"] = x.distinct;
  if (x.packing == exact::Packing::slots && x.width < x.context->spec().n) exact::common_tail(x).describe(h);
  io::Json noise = io::Json::array(), parts = io::Json::array();
  for (const double n : x.noise) noise.push_back(figure(n));
  for (const ring::RnsTensor& part : x.parts) parts.push_back(tensor_json(part));
  h["noise"] = std::move(noise), h["parts"] = std::move(parts);
}

/// Writes ranges without rounding, because results' ranges depend on them: [low, high, peak, rms, mean] per item.
io::Json ranges_json(const ckks::Ranges& ranges) {
  io::Json all = io::Json::array();
  for (const ckks::RangePair& pair : ranges.list()) {
    const ckks::Range& r = pair.assumed;
    io::Json one = io::Json::array();
    for (const double bound : {r.low, r.high, r.peak, r.rms, r.mean}) one.push_back(figure(bound));
    all.push_back(std::move(one));
  }
  return all;
}
ckks::Ranges ranges_from(const io::Json& json) {
  std::vector<ckks::RangePair> list;
  for (const io::Json& one : json.as_array("ranges", ckks::Ranges::kMost)) {
    std::vector<double> bounds;
    for (const io::Json& bound : one.as_array("a range", 5)) bounds.push_back(figure_from(bound));
    require_saved(bounds.size() == 5, "a range of a saved program must have 5 bounds");
    list.push_back({ckks::Range::unknown(), {bounds[0], bounds[1], bounds[2], bounds[3], bounds[4]}});
  }
  require_saved(!list.empty(), "each CKKS operand of a saved program must have a range");
  return ckks::Ranges::of(std::move(list));
}

void describe(io::Json& h, const ckks::CiphertextData& x) {
  h["level"] = x.level, h["scale"] = x.scale, h["width"] = x.width, h["complex"] = x.complex;
  if (x.width < x.context->period()) x.tail.describe(h);
  h["noise"] = figure(x.noise.assumed), h["tensor"] = tensor_json(x.tensor);
  if (!x.guards.empty()) h["guards"] = ckks::described(x.guards);
  if (const auto ranges = x.ranges.stored()) h["ranges"] = *ranges;
}

void describe(io::Json& h, const tfhe::CiphertextData& x) { h["type"] = x.type.text(); }

AnyCiphertext ciphertext_from(const io::Json& h, const std::shared_ptr<exact::Context>& c, const View*& views) {
  h.require_only({"parameters", "key", "first_part", "packing", "width", "factors", "independent", "distinct", "noise",
                  "parts", "tail", "bound"},
                 "a saved program's result");
  exact::CiphertextData x;
  x.context = c;
  const io::Json::Array& parts = h.array_at("parts", c->parts());
  x.first_part = h.unsigned_at("first_part", c->parts() - 1);
  require_saved(!parts.empty() && x.first_part + parts.size() <= c->parts(),
                "a saved program's result has plaintext moduli that its parameters lack");
  for (const io::Json& part : parts) x.parts.push_back(tensor_from(part, c->rlwe(), *views++));
  for (const ring::RnsTensor& part : x.parts) {
    require_saved(part.shape() == x.front().shape() && part.components() == x.front().components() &&
                      part.domain() == x.front().domain() && part.primes() == x.front().primes(),
                  "the parts of a saved program's result must have one shape, domain and list of primes");
  }
  require_saved(x.level() >= 1 && x.front().primes() == c->rlwe().chain(x.level()),
                "a saved program's result must have the primes of a level");
  const std::string& packing = h.string_at("packing", 16);
  require_saved(packing == "slots" || packing == "coefficients",
                "the packing of a saved program's result must be slots or coefficients");
  x.packing = packing == "slots" ? exact::Packing::slots : exact::Packing::coefficients;
  x.width = h.unsigned_at("width", c->spec().n);
  for (const io::Json& n : h.array_at("noise", parts.size())) x.noise.push_back(figure_from(n));
  x.factors = h.unsigned_array_at("factors", parts.size());
  require_saved(x.factors.size() == parts.size() && x.noise.size() == parts.size(),
                "a saved program's result must have one factor and one noise figure for each part");
  for (std::size_t i = 0; i < parts.size(); ++i)
    require_saved(x.factors[i] > 0 && x.factors[i] < c->plain(x.first_part + i).t,
                  "a factor of a saved program's result must be above 0 and below t");
  x.independent = h.bool_at("independent"), x.distinct = h.bool_at("distinct");
  const bool behind = x.packing == exact::Packing::slots && x.width < c->spec().n;
  x.tails.assign(parts.size(), behind ? exact::Tail::from(h, false) : exact::Tail());
  x.vouched = false;
  if (h.contains("bound")) x.bounds.assumed = exact::growth_from(h.at("bound"));
  return exact::Ciphertext(std::make_shared<exact::CiphertextData>(std::move(x)));
}

AnyCiphertext ciphertext_from(const io::Json& h, const std::shared_ptr<ckks::Context>& c, const View*& views) {
  h.require_only(
      {"parameters", "key", "level", "scale", "width", "complex", "noise", "bound", "ranges", "tensor", "tail", "guards"},
      "a saved program's result");
  ckks::CiphertextData x;
  x.context = c;
  x.level = h.unsigned_at("level", c->top_level());
  require_saved(x.level >= 1, "the level of a saved program's result must be at least 1");
  x.scale = h.double_at("scale");
  require_saved(x.scale >= 1 && std::log2(x.scale) + 1 <= c->log_modulus(x.level),
                "the scale of a saved program's result must be between 1 and half its modulus");
  x.width = h.unsigned_at("width", c->slots()), x.complex = h.bool_at("complex");
  if (x.width < c->period()) x.tail = ckks::Tail::from(h, false);
  x.noise = rlwe::Figure(std::nan(""), figure_from(h.at("noise")));
  x.tensor = tensor_from(h.at("tensor"), c->rlwe(), *views++);
  if (const io::Json* const ranges = h.find("ranges")) {
    x.ranges = ckks::Ranges::from(*ranges, x.tensor.items());
  } else if (const io::Json* const bound = h.find("bound")) {  // the program was saved by a release without ranges
    const double most = std::exp2(figure_from(*bound));
    if (std::isfinite(most)) x.ranges = ckks::Ranges({ckks::Range::unknown(), ckks::Range::of(-most, most, 1, 1)});
  }
  require_saved(x.tensor.primes() == c->rlwe().chain(x.level) && x.tensor.domain() == math::Domain::ntt,
                "a saved program's result must have the primes of its level, in the NTT domain");
  if (const io::Json* const guards = h.find("guards")) {
    x.guards = ckks::guards_from(*guards, c, {}, [&] {
      const ring::RnsTensor squares = rlwe::tensor_over(*views++, c->rlwe(), c->rlwe().chain(1), math::Domain::ntt);
      require_saved(squares.shape().empty(), "a guard of a saved program's result must be one ciphertext");
      return squares;
    });
  }
  return ckks::Ciphertext(std::make_shared<ckks::CiphertextData>(std::move(x)));
}

AnyCiphertext ciphertext_from(const io::Json& h, const std::shared_ptr<tfhe::Context>& c, const View*& views) {
  h.require_only({"parameters", "key", "type"}, "a saved program's result");
  tfhe::CiphertextData x;
  x.context = c;
  try {
    x.type = tfhe::type_of(h.string_at("type", 16));
  } catch (const DtypeError& e) {
    throw DamagedFileError(std::string("a saved program's result: ") + e.what());
  }
  x.tensor = c->tensor_over(*views++, tfhe::wires_of(c->spec(), x.type));
  return tfhe::Ciphertext(std::make_shared<tfhe::CiphertextData>(std::move(x)));
}

}  // namespace

io::Json Form::describe(std::size_t parameters) const {
  io::Json h = io::Json::object({{"parameters", parameters}});
  if (key_ != kNone)
    h["key"] = key_;
  else if (!std::visit([](const auto& c) { return is_trivial(c.data()); }, x_))
    throw RecordingError("cannot save a program whose results have another key than its operands");
  std::visit([&](const auto& c) { recording::describe(h, c.data()); }, x_);
  if (const auto* const x = std::get_if<exact::Ciphertext>(&x_)) {
    const exact::Growth& bound = x->data().bounds.assumed;
    if (bound.known() && (!bound.open() || session_ != kNone)) h["bound"] = to_json(bound.in(session_));
  }
  return h;
}

Form::Form(const io::Json& from, const AnyContext& context, const View*& views, std::size_t keys) {
  const View* const first = views;
  x_ = std::visit([&](const auto& c) { return ciphertext_from(from, c, views); }, context);
  tensors_ = static_cast<std::size_t>(views - first);
  if (from.contains("key")) {
    require_saved(keys > 0, "a saved program's result must have the key of an operand");
    key_ = from.unsigned_at("key", keys - 1);
  }
  require_saved(key_ != kNone || context.index() == 2, "a saved program's result must have a key");
  if (const auto* const x = std::get_if<exact::Ciphertext>(&x_); x && x->data().bounds.assumed.open())
    session_ = x->data().bounds.assumed.session();
}

}  // namespace recording

bool RecordedProgram::State::require_fit(const std::vector<Operand>& operands) const {
  const recording::Takes given(operands);
  require<MismatchError>(given.text != takes.text || given.contexts == takes.contexts,
                         "the operands are on another device than the program, which is on the device in use");
  require<MismatchError>(
      given.text == takes.text && given.limits.size() == takes.limits.size() && given.keys == takes.keys &&
          given.sources == takes.sources,
      "a program from a file needs operands with the parameters, shapes, levels, scales and kinds of keys that it was "
      "recorded with; record a new program for others");
  bool known = true;
  for (std::size_t i = 0; i < given.limits.size(); ++i) {
    require<MismatchError>(!(given.limits[i] > takes.limits[i] + 1e-9),
                           "an operand has more noise, larger values or dependent items, for which this program from a file "
                           "was not recorded; record a new program for it");
    known = known && !std::isnan(given.limits[i]);
  }
  for (std::size_t i = 0; i < takes.spreads.size(); ++i) {
    require<MismatchError>(given.spreads.size() == takes.spreads.size() && !(given.spreads[i] > takes.spreads[i] + 1e-9),
                           "an operand has noise that grows more in sums over slots, for which this program from a file was "
                           "not recorded; record a new program for it");
  }
  // Results' ranges hold for operands within the recorded ranges. Programs of older releases have no ranges, but their
  // limits include bounds.
  if (!takes.ranges.empty()) known = known && std::ranges::equal(given.ranges, takes.ranges, &ckks::Ranges::inside);
  return known;
}

bool RecordedProgram::State::bounded(const std::vector<Operand>& operands) const {
  const std::vector<exact::Growth> given = recording::Takes(operands).bounds;
  if (given.size() != takes.bounds.size()) return false;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const exact::Growth& taken = takes.bounds[i];
    if (!taken.known()) continue;  // results that depend on this operand have unknown bounds too
    if (!given[i].below(taken) || (given[i].open() && given[i].session() != taken.session())) return false;
  }
  return true;
}

io::Container RecordedProgram::State::describe(const std::string& note) const {
  recording::Parameters parameters;
  io::Container file;
  file.type = recording::kType;
  io::Json operands = io::Json::array(), described = io::Json::array(), limits = io::Json::array();
  for (const auto& context : takes.contexts) operands.push_back(parameters.number(context));
  for (const recording::Form& form : results) {
    const recording::AnyContext context = form.context();
    if (std::find(takes.contexts.begin(), takes.contexts.end(), context) == takes.contexts.end())
      throw RecordingError("cannot save a program whose results have other parameters than its operands");
    described.push_back(form.describe(parameters.number(context)));
  }
  for (const double limit : takes.limits) limits.push_back(recording::figure(limit));
  io::Json spreads = io::Json::array();
  for (const double spread : takes.spreads) spreads.push_back(recording::figure(spread));
  if (!takes.bounds.empty()) {
    io::Json bounds = io::Json::array();
    for (const exact::Growth& bound : takes.bounds) bounds.push_back(bound.known() ? to_json(bound) : io::Json());
    file.header["bounds"] = std::move(bounds);
  }
  file.header["note"] = note;
  file.header["parameters"] = parameters.json();
  file.header["operands"] = std::move(operands);
  file.header["keys"] = takes.keys;
  file.header["sources"] = takes.sources;
  file.header["limits"] = std::move(limits);
  if (!takes.spreads.empty()) file.header["spreads"] = std::move(spreads);
  io::Json ranges = io::Json::array();
  for (const ckks::Ranges& r : takes.ranges) ranges.push_back(recording::ranges_json(r));
  if (!takes.ranges.empty()) file.header["ranges"] = std::move(ranges);
  file.header["results"] = std::move(described);
  const auto text = std::as_bytes(std::span(takes.text));
  file.arrays.push_back({"takes", "u8", {text.size()}, text});
  std::vector<const device::Session*> of_results;
  for (const recording::Form& form : results)
    of_results.insert(of_results.end(), form.tensors(), recording::session_of(form.context()));
  program::write(program->parts(), parameters.sessions(), of_results, file);
  return file;
}

std::vector<std::byte> RecordedProgram::to_bytes(const std::string& note) const {
  return io::to_bytes(state_->describe(note));
}

void RecordedProgram::save(const std::string& path, const std::string& note) const {
  recording::Parameters parameters;
  parameters.number(state_->takes.contexts.front());
  ring::save(parameters.sessions().front()->device(), path, state_->describe(note));
}

RecordedProgram::Noted RecordedProgram::from_bytes(std::span<const std::byte> bytes, const ProgramLimits& limits) {
  return State::read(ring::from_bytes(bytes), limits);
}
RecordedProgram::Noted RecordedProgram::load(const std::string& path, const ProgramLimits& limits) {
  return State::read(ring::load(path), limits);
}

RecordedProgram::Noted RecordedProgram::State::read(io::Container file, const ProgramLimits& limits) {
  using recording::require_saved;
  if (file.type != recording::kType) throw FormatError("this file holds an object of kind " + file.type + ", not a program");
  const io::Json& h = file.header;
  h.require_only(
      {"note", "parameters", "operands", "keys", "sources", "limits", "spreads", "bounds", "ranges", "results", "kernels"},
      "a saved program");
  recording::Parameters parameters;
  std::uint64_t room = limits.memory > 0 ? limits.memory : recording::kTables;
  for (const io::Json& p : h.array_at("parameters", 64)) parameters.list.push_back(recording::context_from(p, room));
  require_saved(!parameters.list.empty(), "a saved program must have parameters");
  auto state = std::make_shared<State>();
  for (const std::uint64_t number : h.unsigned_array_at("operands", 4096)) {
    require_saved(number < parameters.list.size(), "a saved program's operand must refer to one of its parameter sets");
    state->takes.contexts.push_back(parameters.list[number]);
  }
  const std::size_t operands = state->takes.contexts.size();
  state->takes.keys = h.unsigned_at("keys", 2 * operands), state->takes.sources = h.unsigned_at("sources", operands);
  for (const io::Json& limit : h.array_at("limits", std::size_t{1} << 16))
    state->takes.limits.push_back(recording::figure_from(limit));
  if (const io::Json* const spreads = h.find("spreads")) {
    for (const io::Json& spread : spreads->as_array("spreads", std::size_t{1} << 16))
      state->takes.spreads.push_back(recording::figure_from(spread));
  }
  if (h.contains("ranges")) {
    for (const io::Json& r : h.array_at("ranges", operands)) state->takes.ranges.push_back(recording::ranges_from(r));
  }
  if (h.contains("bounds")) {
    for (const io::Json& bound : h.array_at("bounds", operands))
      state->takes.bounds.push_back(bound.is_null() ? exact::Growth() : exact::growth_from(bound));
  }
  const io::Array* const text = file.find("takes");
  require_saved(text && text->dtype == "u8" && text->shape.size() == 1, "a saved program must have the array takes");
  state->takes.text.assign(reinterpret_cast<const char*>(text->data.data()), text->data.size());
  for (const io::Array& array : file.arrays)
    require_saved(array.name == "takes" || array.name == "calls" || array.name.starts_with("constant"),
                  "a saved program has an unknown array");
  const program::Surroundings around{
      .sets = parameters.sets(), .inputs = state->takes.inputs(), .sources = state->takes.sources};
  const std::uint64_t memory = limits.memory > 0 ? limits.memory : around.sets.front().session->free_memory();
  program::Loaded loaded = program::read(file, around, {.bytes = memory, .products = limits.products});
  program::Program::Parts& parts = loaded.parts;
  std::vector<device::View> views;
  for (const program::Shown& shown : parts.results) views.push_back(shown.view.lent());
  const device::View* next = views.data();
  const io::Json::Array& results = h.array_at("results", views.size());
  for (const io::Json& result : results) {
    const std::size_t number = result.unsigned_at("parameters");
    require_saved(number < parameters.list.size(), "a saved program's result must refer to one of its parameter sets");
    const recording::AnyContext& context = parameters.list[number];
    std::size_t tensors = result.contains("parts") ? result.array_at("parts", views.size()).size() : 1;
    if (result.contains("guards")) tensors += result.array_at("guards", views.size()).size();
    require_saved(tensors <= static_cast<std::size_t>(views.data() + views.size() - next), "a saved program lacks a result");
    state->results.emplace_back(result, context, next, state->takes.keys);
  }
  require_saved(next == views.data() + views.size(), "a saved program has outputs that belong to no result");
  std::size_t shown = 0;
  for (const recording::Form& form : state->results) {
    for (const std::vector<std::uint64_t>& moduli : form.moduli())
      recording::require_residues(loaded.below[shown++], moduli);
  }
  state->loaded = true;
  state->program = std::make_shared<program::Program>(std::move(parts));
  return {RecordedProgram(std::move(state)), h.string_at("note", io::Json::max_text)};
}

}  // namespace heliograph
