#include "program/program.h"

#include <algorithm>
#include <atomic>

namespace heliograph::program {

namespace {

using device::Access;

std::byte* behind(std::byte* base, const std::byte* offset) { return base + reinterpret_cast<std::ptrdiff_t>(offset); }

/// What a call does with a stretch of a place.
struct Use {
  u32 step = 0;
  std::ptrdiff_t begin = 0, end = 0;  // bytes
  bool writes = false;
};

Use use_of(const View& v, Access access, u32 step) {
  const auto word = static_cast<std::ptrdiff_t>(v.word_size());
  std::ptrdiff_t low = 0, high = 0;
  const auto widen = [&](std::size_t count, std::ptrdiff_t stride) {
    if (count > 1) (stride < 0 ? low : high) += static_cast<std::ptrdiff_t>(count - 1) * stride;
  };
  for (int i = 0; i < v.axes; ++i) widen(v.shape[i], v.stride[i]);
  widen(v.components, static_cast<std::ptrdiff_t>(v.component_stride));
  widen(v.limbs, static_cast<std::ptrdiff_t>(v.limb_stride));
  const auto first = reinterpret_cast<std::ptrdiff_t>(v.data);
  return {.step = step,
          .begin = first + low * word,
          .end = first + (high + static_cast<std::ptrdiff_t>(v.n)) * word,
          .writes = access != Access::read};
}

}  // namespace

class Program::Graphs {
 public:
  std::atomic<u64> all{0}, graphs{0};
};

Program::Program(Parts parts) : parts_(std::move(parts)), graphs_(std::make_unique<Graphs>()) { plan(); }
Program::~Program() = default;

void Program::plan() {
  constexpr u32 kNever = ~u32{0};
  const std::size_t steps = parts_.steps.size(), places = parts_.places.size();
  std::vector<u32> first(places, kNever), last(places, 0);
  std::vector<std::vector<Use>> uses(places);
  layer_.assign(steps, 0);
  for (u32 s = 0; s < steps; ++s) {
    std::size_t k = 0;
    std::vector<std::pair<u32, Use>> mine;
    device::each_view(parts_.steps[s].call, [&](const View& v, Access access) {
      const u32 p = parts_.steps[s].places[k++];
      first[p] = std::min(first[p], s), last[p] = s;
      if (parts_.places[p].kind == Place::Kind::made) mine.emplace_back(p, use_of(v, access, s));
    });
    // After whatever wrote what it reads or writes, and whatever read what it writes.
    for (const auto& [p, use] : mine) {
      for (const Use& other : uses[p]) {
        const bool meet = use.begin < other.end && other.begin < use.end;
        if (meet && (use.writes || other.writes)) layer_[s] = std::max(layer_[s], layer_[other.step] + 1);
      }
    }
    for (const auto& [p, use] : mine) uses[p].push_back(use);
    depth_ = std::max<std::size_t>(depth_, layer_[s] + 1);
  }
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
  ++graphs_->all;
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
  for (std::size_t s = 0; s < parts_.steps.size(); ++s) {
    const Step& step = parts_.steps[s];
    // Keys first, one step's at a time: together they may be more than the device has room for.
    std::vector<u32> held;
    for (const u32 p : step.places) {
      const Place& place = parts_.places[p];
      if (place.kind != Place::Kind::key || memory[p]) continue;
      hold(p, keys[place.number]->at(place.which));
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
    });
    if (step.source != Step::kNoSource) keys[step.source]->put_in(call);
    step.session->enqueue(std::move(call));
    for (const u32 p : held) memory[p] = nullptr;
    for (const u32 p : dies_[s]) memory[p] = nullptr;
  }
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

Program::Replays Program::replays() const { return {.all = graphs_->all, .graphs = graphs_->graphs}; }

}  // namespace heliograph::program
