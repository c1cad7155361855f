#include "program/program.h"

#include <algorithm>

#include "device/members.h"
#include "program/graphs.h"
#include "program/placed.h"

namespace heliograph::program {

using device::Access;

Program::Program(Parts parts) : parts_(std::move(parts)) {
  plan();
  graphs_ = std::make_shared<Graphs>(parts_);
  if (graphs_->launches() > 0) parts_.steps.front().session->device().residents().add(graphs_);
}
Program::~Program() = default;

void Program::plan() {
  constexpr u32 kNever = ~u32{0};
  const std::size_t steps = parts_.steps.size(), places = parts_.places.size();
  std::vector<u32> first(places, kNever), last(places, 0);
  for (u32 s = 0; s < steps; ++s) {
    for (const u32 p : parts_.steps[s].places) {
      first[p] = std::min(first[p], s), last[p] = s;
      parts_.places[p].used = true;
    }
  }
  for (const u32 layer : layers_of(parts_)) depth_ = std::max<std::size_t>(depth_, layer + 1);
  born_.assign(steps, {}), dies_.assign(steps, {});
  std::size_t live = 0;
  for (u32 p = 0; p < places; ++p) {
    const Place& place = parts_.places[p];
    if (place.kind == Place::Kind::constant && place.memory) constant_bytes_ += place.memory->bytes();
    if (place.kind != Place::Kind::made || first[p] == kNever) continue;
    born_[first[p]].push_back(p);
    if (!place.result) dies_[last[p]].push_back(p);
  }
  for (std::size_t s = 0; s < steps; ++s) {
    for (const u32 p : born_[s]) live += parts_.places[p].shape.bytes();
    peak_bytes_ = std::max(peak_bytes_, live);
    for (const u32 p : dies_[s]) live -= parts_.places[p].shape.bytes();
  }
}

std::vector<View> Program::replay(const std::vector<View>& inputs, const std::vector<const KeySource*>& keys) const {
  ++replays_;
  if (parts_.steps.empty()) return perform(inputs, keys);
  // A simulated device gets all calls as one list, whose cycles are counted.
  device::Device& device = parts_.steps.front().session->device();
  device::Simulation* const simulation = device.simulation();
  if (simulation == nullptr) return perform(inputs, keys);
  const device::Cycles before = simulation->cycles();
  std::vector<View> results = perform(inputs, keys);
  device::Cycles taken = simulation->cycles();
  taken -= before;
  const std::lock_guard lock(mutex_);
  cycles_ = readable(taken);
  return results;
}

std::string Program::cycles() const {
  const std::lock_guard lock(mutex_);
  return cycles_;
}

std::vector<View> Program::perform(const std::vector<View>& inputs, const std::vector<const KeySource*>& keys) const {
  // An observer of this thread must receive single calls, so graphs are not used.
  if (graphs_->launches() > 0 && !device::observed()) {
    for (const Place& place : parts_.places) {
      if (place.kind == Place::Kind::input && place.used) device::require_words(inputs[place.number]);
    }
    parts_.steps.front().session->device().residents().touch(*graphs_);
    if (std::optional<std::vector<View>> results = graphs_->replay(inputs, keys)) return std::move(*results);
  }
  if (!device::observed()) {
    if (const device::Members* const found = members()) {
      std::vector<std::size_t> lies(parts_.places.size(), found->all());
      for (std::size_t p = 0; p < lies.size(); ++p) {
        const Place& place = parts_.places[p];
        if (place.kind == Place::Kind::input && place.used) lies[p] = found->holder(inputs[place.number]);
      }
      if (const std::shared_ptr<Placed> here = placed(lies, &keys); here && here->places()) {
        try {
          parts_.steps.front().session->device().residents().touch(*here);
          bool graphs = false;
          std::vector<View> results = here->replay(inputs, keys, graphs);
          if (graphs) ++member_graphs_;
          return results;
        } catch (const OutOfMemoryError&) {  // on all members together the program may still fit
          here->evict();
        }
      }
    }
  }
  return perform_steps(inputs, keys);
}

namespace {

/// Orders the work of a program's queues: all earlier work of each queue, then the steps in sequence, then all later work. A
/// recording observes calls, but not the synchronization between queues that the recorded function made.
class QueueOrder {
 public:
  explicit QueueOrder(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      device::Queue* const queue = &step.session->queue();
      if (std::find(queues_.begin(), queues_.end(), queue) == queues_.end()) queues_.push_back(queue);
    }
    if (queues_.size() < 2) return;
    for (device::Queue* queue : queues_) {
      if (queue != queues_.front()) queues_.front()->after(*queue->record());
    }
    last_ = queues_.front();
  }

  bool several() const { return queues_.size() > 1; }

  /// Makes the next calls, on `queue`, start after all earlier steps.
  void enter(device::Queue& queue) {
    if (!several() || &queue == last_) return;
    queue.after(*last_->record());
    last_ = &queue;
  }

  /// Makes later work on each queue start after all steps.
  void finish() const {
    if (!several()) return;
    const std::shared_ptr<device::Event> end = last_->record();
    for (device::Queue* queue : queues_) {
      if (queue != last_) queue->after(*end);
    }
  }

 private:
  std::vector<device::Queue*> queues_;  // sorted by their first steps
  device::Queue* last_ = nullptr;
};

}  // namespace

std::vector<View> Program::perform_steps(const std::vector<View>& inputs, const std::vector<const KeySource*>& keys) const {
  std::vector<Buffer> memory(parts_.places.size());
  std::vector<std::byte*> base(parts_.places.size());
  const auto hold = [&](u32 p, Buffer buffer) {
    base[p] = buffer->address();
    memory[p] = std::move(buffer);
  };
  for (u32 p = 0; p < parts_.places.size(); ++p) {
    const Place& place = parts_.places[p];
    if (place.kind == Place::Kind::constant && place.memory) hold(p, place.memory);
    if (place.kind == Place::Kind::input) memory[p] = inputs[place.number].memory, base[p] = inputs[place.number].data;
  }
  QueueOrder order(parts_.steps);
  for (u32 s = 0; s < parts_.steps.size(); ++s) {
    const Step& step = parts_.steps[s];
    order.enter(step.session->queue());
    // Loads the keys of one step at a time before its operands, because all keys together may exceed the memory.
    std::vector<u32> held;
    for (const u32 p : step.places) {
      const Place& place = parts_.places[p];
      if (place.kind != Place::Kind::key || memory[p]) continue;
      hold(p, keys[place.number]->at(place));
      held.push_back(p);
    }
    for (const u32 p : born_[s]) {
      const Place& place = parts_.places[p];
      hold(p, step.session->allocate(place.shape, place.primes, place.secrecy));
    }
    Call call = step.call;
    std::size_t k = 0;
    device::each_view(call, [&](View& v, Access) {
      const u32 p = step.places[k++];
      v.data = behind(base[p], v.data);
      v.memory = memory[p];
      // Another queue may have allocated the memory, which then must not be freed before this call ends.
      const Place::Kind kind = parts_.places[p].kind;
      if (order.several() && (kind == Place::Kind::made || kind == Place::Kind::input)) step.session->queue().uses(v.memory);
    });
    if (step.source != Step::kNoSource) keys[step.source]->put_in(call);
    step.session->enqueue(std::move(call));
    for (const u32 p : held) memory[p] = nullptr;
    for (const u32 p : dies_[s]) memory[p] = nullptr;
  }
  order.finish();
  std::vector<View> results;
  for (const Shown& r : parts_.results) {
    View v = r.view;
    v.data = behind(base[r.place], v.data);
    v.memory = memory[r.place];
    results.push_back(std::move(v));
  }
  return results;
}

device::Count Program::work() const {
  device::Count sum;
  for (const Step& step : parts_.steps) sum += step.work;
  return sum;
}

namespace {

bool of_rings(const Call& call) {
  return std::visit(
      [](const auto& c) {
        return !requires { c.layer; };
      },
      call);
}

}  // namespace

Program::Times Program::times() const {
  const auto seconds = [](u64 amount, double rate) { return rate > 0 ? static_cast<double>(amount) / rate : 0; };
  Times times;
  if (parts_.steps.empty()) return times;
  // The device's rates do not apply to the products of TFHE's kernels.
  if (!std::all_of(parts_.steps.begin(), parts_.steps.end(), [](const Step& s) { return of_rings(s.call); })) return times;
  const device::Rates& rates = parts_.steps.front().session->device().rates();
  const device::Count all = work();
  u64 bytes = 0;
  for (const Place& place : parts_.places) {
    if (place.used && (place.kind == Place::Kind::input || place.result)) bytes += place.shape.bytes();
  }
  times.floor = std::max(seconds(bytes, rates.bytes),
                         seconds(all.butterflies, rates.butterflies) + seconds(all.products - all.butterflies, rates.sums));
  if (members() != nullptr) {
    times.predicted = std::max(times.floor, timeline().seconds);
    return times;
  }
  if (rates.transforms == 0) return times;
  for (const Step& step : parts_.steps) {
    const double moved = seconds(step.bytes, rates.bytes);
    // A matrix product first gathers its inputs, then sums.
    times.predicted += std::holds_alternative<device::Product>(step.call)
                           ? moved + seconds(step.work.products, rates.sums)
                           : std::max(moved, seconds(step.work.products, rates.transforms));
  }
  times.predicted = std::max(times.predicted, times.floor);
  return times;
}

device::Members* Program::members() const {
  if (parts_.steps.empty()) return nullptr;
  const Session* const session = parts_.steps.front().session;
  // Calls of several sessions use several queues, so a placement is not possible.
  for (const Step& step : parts_.steps) {
    if (step.session != session) return nullptr;
  }
  return session->queue().members();
}

std::shared_ptr<Placed> Program::placed(const std::vector<std::size_t>& lies,
                                        const std::vector<const KeySource*>* keys) const {
  constexpr std::size_t kMost = 4;  // number of placements; each may hold graphs and copies of constants
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(placed_.begin(), placed_.end(), [&](const auto& p) { return p.first == lies; });
  if (known != placed_.end()) {
    placed_.splice(placed_.begin(), placed_, known);
    return placed_.front().second;
  }
  auto made = std::make_shared<Placed>(parts_, *members(), lies, keys, peak_bytes_ + constant_bytes_);
  parts_.steps.front().session->device().residents().add(made);
  placed_.emplace_front(lies, made);
  if (placed_.size() > kMost) placed_.pop_back();
  return made;
}

Program::Timeline Program::timeline() const {
  const device::Members* const found = members();
  if (found == nullptr) return {};
  {
    const std::lock_guard lock(mutex_);
    if (!placed_.empty()) return placed_.front().second->timeline();
  }
  if (!std::all_of(parts_.steps.begin(), parts_.steps.end(), [](const Step& s) { return of_rings(s.call); })) return {};
  std::vector<std::size_t> lies(parts_.places.size(), found->all());
  for (std::size_t p = 0; p < lies.size(); ++p) {
    if (parts_.places[p].kind == Place::Kind::input && parts_.places[p].shape.items() == 1) lies[p] = 0;
  }
  return placed(lies, nullptr)->timeline();
}

std::size_t Program::launches() const { return graphs_->launches(); }
std::size_t Program::graph_bytes() const { return graphs_->evictable_bytes(); }
Program::Replays Program::replays() const { return {.all = replays_, .graphs = graphs_->replays() + member_graphs_}; }

}  // namespace heliograph::program
