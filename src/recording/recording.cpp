#include "heliograph/program.h"

#include <set>

#include "program/compare.h"
#include "program/tape.h"
#include "recording/state.h"

namespace heliograph {

namespace recording {

/// The key sources of operands, one per operand; null for an operand without keys.
class Sources {
 public:
  explicit Sources(const std::vector<Operand>& operands) {
    for (const Operand& o : operands) all_.push_back(key_source(o.keys));
  }
  std::vector<const program::KeySource*> list() const {
    std::vector<const program::KeySource*> list;
    for (const auto& source : all_) {
      if (source) list.push_back(source.get());
    }
    return list;
  }

 private:
  std::vector<std::unique_ptr<program::KeySource>> all_;
};

}  // namespace recording

namespace {

using recording::Form;

std::vector<device::View> all_views(const std::vector<Operand>& operands) {
  std::vector<device::View> views;
  for (const Operand& o : operands) {
    for (const device::View& v : recording::views_of(o.tensor)) views.push_back(v);
  }
  return views;
}

}  // namespace

class Recording::State {
 public:
  State(Operands given, Mode mode)
      : inputs(std::move(given)),
        sources(inputs.list()),
        tape(all_views(inputs.list()), sources.list(), mode == Mode::dry),
        observing(std::make_unique<device::Observing>(tape)) {}

  Operands inputs;
  recording::Sources sources;
  program::Tape tape;
  std::unique_ptr<device::Observing> observing;
};

Recording::Recording(Operands inputs, Mode mode) : state_(std::make_unique<State>(std::move(inputs), mode)) {}
Recording::~Recording() = default;
void Recording::stop() { state_ = nullptr; }

RecordedProgram Recording::finish(const std::vector<AnyCiphertext>& results) { return finish(results, {}); }

RecordedProgram Recording::finish(const std::vector<AnyCiphertext>& results, const std::vector<RecordedProgram>& known) {
  require<RecordingError>(state_ != nullptr, "the recording has already ended");
  const std::unique_ptr<State> state = std::move(state_);
  state->observing = nullptr;
  std::vector<device::View> views;
  auto made = std::make_shared<RecordedProgram::State>();
  for (const AnyCiphertext& result : results) {
    const AnyCiphertext x = recording::without_guards_of(state->inputs.with_guards(), result);
    for (const device::View& v : recording::views_of(x)) views.push_back(v);
    made->results.emplace_back(x, state->inputs.list());
  }
  for (const Operand& o : state->inputs.list()) made->inputs.emplace_back(o.tensor, state->inputs.list());
  made->signature = state->inputs.signature();
  made->takes = recording::Takes(state->inputs.list());
  program::Program::Parts parts = state->tape.parts(views);
  for (const RecordedProgram& other : known) {
    if (!made->program && program::same_calls(other.state_->program->parts(), parts)) made->program = other.state_->program;
  }
  if (!made->program) made->program = std::make_shared<program::Program>(std::move(parts));
  return RecordedProgram(std::move(made));
}

std::vector<AnyCiphertext> RecordedProgram::operator()(const Operands& given) const {
  const std::vector<Operand>& operands = given.list();
  bool known = true, bounded = true;  // whether the results' metadata and integer bounds hold
  if (state_->loaded)
    known = state_->require_fit(operands), bounded = state_->bounded(operands);
  else if (given.signature() != state_->signature)
    throw MismatchError(
        "a recorded program needs operands with the parameters, shapes, levels and noise that it was recorded with");
  const recording::Sources sources(operands);
  const std::vector<device::View> views = state_->program->replay(all_views(operands), sources.list());
  std::vector<AnyCiphertext> results;
  const device::View* next = views.data();
  ckks::NewParts parts;
  for (const Form& form : state_->results) {
    const Form said = bounded ? form : form.unbounded();
    results.push_back(given.guarded((known ? said : said.unknown()).filled(next, operands, parts)));
    next += form.tensors();
  }
  return results;
}

const std::string& RecordedProgram::signature() const { return state_->signature; }
bool RecordedProgram::shares_calls_with(const RecordedProgram& other) const {
  return state_->program == other.state_->program;
}

namespace {

std::vector<AnyCiphertext> said_of(const std::vector<Form>& forms) {
  std::vector<AnyCiphertext> all;
  for (const Form& form : forms) all.push_back(form.said());
  return all;
}

}  // namespace

std::vector<std::string> RecordedProgram::result_kinds() const {
  static constexpr const char* kNames[] = {"exact", "ckks", "tfhe"};
  std::vector<std::string> kinds;
  for (const Form& form : state_->results) kinds.emplace_back(kNames[form.context().index()]);
  return kinds;
}

std::vector<AnyCiphertext> RecordedProgram::operands() const { return said_of(state_->inputs); }
std::vector<AnyCiphertext> RecordedProgram::results() const { return said_of(state_->results); }

std::vector<std::uint64_t> RecordedProgram::key_numbers() const {
  std::set<std::uint64_t> numbers;
  for (const program::Place& place : state_->program->parts().places) {
    if (place.kind == program::Place::Kind::key) numbers.insert(place.which);
  }
  return {numbers.begin(), numbers.end()};
}

RecordedProgram::Summary RecordedProgram::summary() const {
  const program::Program& p = *state_->program;
  Summary s{
      .launches = p.launches(), .depth = p.depth(), .peak_bytes = p.peak_bytes(), .constant_bytes = p.constant_bytes()};
  for (const program::Step& step : p.steps()) ++s.calls[device::name(step.call)];
  const device::Count work = p.work();
  s.bytes_read = work.bytes_read, s.bytes_written = work.bytes_written, s.products = work.products;
  const program::Program::Replays replays = p.replays();
  s.cycles = p.cycles();
  s.replays = replays.all, s.graphs = replays.graphs;
  return s;
}

RecordedProgram::Times RecordedProgram::times() const {
  const program::Program::Times t = state_->program->times();
  return {.floor = t.floor, .predicted = t.predicted};
}

RecordedProgram::Timeline RecordedProgram::timeline() const {
  const program::Program::Timeline found = state_->program->timeline();
  Timeline timeline{.lanes = {}, .seconds = found.seconds};
  for (const program::Program::Lane& lane : found.lanes) {
    Timeline::Lane& mine = timeline.lanes.emplace_back(Timeline::Lane{.member = lane.member, .events = {}});
    for (const program::Program::Event& e : lane.events) mine.events.push_back({e.name, e.start, e.end});
  }
  return timeline;
}

std::pair<RecordedProgram, std::vector<AnyCiphertext>> record(const Operands& inputs,
                                                              const std::function<std::vector<AnyCiphertext>()>& function) {
  Recording recording(inputs);
  std::vector<AnyCiphertext> results = function();
  RecordedProgram program = recording.finish(results);
  for (AnyCiphertext& result : results) result = inputs.guarded(result);
  return {std::move(program), std::move(results)};
}

RecordedProgram follow(const Operands& inputs, const std::function<std::vector<AnyCiphertext>()>& function,
                       const std::vector<RecordedProgram>& known) {
  Recording recording(inputs, Recording::Mode::dry);
  const std::vector<AnyCiphertext> results = function();
  return recording.finish(results, known);
}

}  // namespace heliograph
