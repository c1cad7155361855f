#include "program/graphs.h"

#include <algorithm>
#include <cstdlib>
#include <string>

namespace heliograph::program {

namespace {

constexpr std::size_t kMostExits = 4;
constexpr std::size_t kMostOwners = 8;  // number of key owners for whom one set of result buffers (an exit) keeps graphs

class Busy {
 public:
  explicit Busy(std::atomic<bool>& flag) : flag_(flag) { flag_ = true; }
  ~Busy() { flag_ = false; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  std::atomic<bool>& flag_;
};

}  // namespace

Graphs::Graphs(const Program::Parts& parts)
    : parts_(parts), session_(parts.steps.empty() ? nullptr : parts.steps.front().session), schedule_(schedule(parts)) {
  const char* const wanted = std::getenv("HELIOGRAPH_REPLAY");
  always_ = wanted != nullptr && std::string(wanted) == "batched";
  if (schedule_ && !always_ && !pays()) schedule_ = nullptr;
}

bool Graphs::pays() const {
  // In microseconds, measured on an H200 with 16 cores. kCall: host time of a single call. kGraph: time of a graph's
  // launch and of the input copy, before the first kernel. kMerged: time that the merging of two equal calls saves.
  // kBytes: bytes per microsecond.
  constexpr double kCall = 4, kGraph = 11, kMerged = 10, kBytes = 4e6;
  // Host time of a call if the host makes calls for several members: on four H200s with 64 cores, 29 calls took 520 us.
  constexpr double kMemberCall = 18;
  double bytes = 0, copied = 0;
  for (const Step& step : parts_.steps) bytes += static_cast<double>(step.work.bytes_read + step.work.bytes_written);
  for (const Place& place : parts_.places) {
    if (place.kind == Place::Kind::input && place.used) copied += 2 * static_cast<double>(place.shape.bytes());
  }
  const double calls = static_cast<double>(parts_.steps.size()), launches = static_cast<double>(schedule_->launches());
  const auto beside = static_cast<double>(parts_.beside);
  const double host = parts_.beside == 1 ? kCall * calls : kMemberCall * calls * beside;
  const double one_by_one = std::max(host, bytes / kBytes);
  const double more =
      calls < 16 && parts_.beside == 1 ? 1 : 1.1;  // allowed slowdown of a graph replay, because a graph frees the host
  return kGraph + (bytes + copied) / kBytes - kMerged * (calls - launches) <= more * one_by_one;
}

bool Graphs::Exit::free() const {
  return std::all_of(results.begin(), results.end(), [](const Buffer& b) { return !b || b.use_count() == 1; });
}

std::byte* Graphs::address(const Spot& spot, const Exit& exit) const {
  const Area& area = schedule_->areas[spot.area];
  return (area.result ? exit.results[spot.area]->address() : arena_->address() + area.offset) + spot.offset;
}

void Graphs::enqueue_all(const Exit& exit, const std::vector<Buffer>& keys) const {
  const auto enqueue = [&](const Schedule::Work& work) {
    Call call = work.step.call;
    std::size_t k = 0;
    device::each_view(call, [&](View& v, device::Access) {
      const u32 p = work.step.places[k++];
      const Place& place = parts_.places[p];
      if (place.kind == Place::Kind::key)
        v.data = behind(keys[p]->address(), v.data);
      else if (place.kind == Place::Kind::constant)
        v.data = behind(place.memory->address(), v.data);
      else
        v.data = behind(address(schedule_->spots[p], exit), v.data);
    });
    const Area& scratch = schedule_->areas[work.scratch];
    session_->enqueue_in(call, {arena_->address() + scratch.offset, scratch.bytes});
  };
  for (const auto& layer : schedule_->layers) {
    std::vector<std::function<void()>> parts;
    for (const Schedule::Work& work : layer) parts.emplace_back([&enqueue, &work] { enqueue(work); });
    session_->queue().beside(parts);
  }
}

bool Graphs::Bound::to(const std::vector<Buffer>& memory) const {
  return std::equal(keys.begin(), keys.end(), memory.begin(),
                    [](const auto& a, const auto& b) { return !a.owner_before(b) && !b.owner_before(a); });
}

Graphs::Bound* Graphs::Exit::bound_to(const std::vector<Buffer>& keys) {
  const auto found = std::find_if(bound.begin(), bound.end(), [&](const Bound& b) { return b.to(keys); });
  if (found == bound.end()) return nullptr;
  bound.splice(bound.begin(), bound, found);
  return &bound.front();
}

Graphs::Exit* Graphs::open(const std::vector<Buffer>& keys) {
  Exit* exit = nullptr;
  for (Exit& e : exits_) {
    if (!e.free()) continue;
    if (e.bound_to(keys) != nullptr) return &e;
    if (exit == nullptr) exit = &e;
  }
  const Schedule& s = *schedule_;
  if (exit == nullptr) {
    if (exits_.size() == kMostExits) return nullptr;
    if (!arena_) arena_ = session_->allocate(s.arena_bytes);
    Exit made{.results = std::vector<Buffer>(s.areas.size())};
    for (std::size_t a = 0; a < s.areas.size(); ++a) {
      if (s.areas[a].result) made.results[a] = session_->allocate(s.areas[a].bytes);
    }
    exit = &exits_.emplace_back(std::move(made));
  }
  // A graph contains the addresses of keys, so other keys, or keys that moved, need another capture.
  Bound bound{.keys = {keys.begin(), keys.end()}};
  bound.graph = session_->queue().capture([&] { enqueue_all(*exit, keys); });
  if (exit->bound.size() == kMostOwners) exit->bound.pop_back();
  exit->bound.push_front(std::move(bound));
  return exit;
}

std::optional<std::vector<View>> Graphs::replay(const std::vector<View>& inputs, const std::vector<const KeySource*>& keys) {
  if (!schedule_ || refused_ || !(always_ || session_->queue().captures())) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const Busy busy(busy_);
  std::vector<Buffer> held(parts_.places.size());
  Exit* exit = nullptr;
  try {
    for (std::size_t p = 0; p < parts_.places.size(); ++p) {
      const Place& place = parts_.places[p];
      if (place.kind == Place::Kind::key) held[p] = keys[place.number]->at(place);
    }
    exit = open(held);
  } catch (const OutOfMemoryError&) {  // the caller then makes single calls, which need one key at a time
    exits_.clear();
    arena_ = nullptr;
  } catch (
      // the device cannot capture these calls, or it has failed; a failed device reports its fault at the next call
      const DeviceError&) {
    refused_ = true;
    exits_.clear();
    arena_ = nullptr;
  }
  if (exit == nullptr) return std::nullopt;
  device::Gather copies;
  for (std::size_t p = 0; p < parts_.places.size(); ++p) {
    const Place& place = parts_.places[p];
    if (place.kind != Place::Kind::input || !place.used) continue;
    View to = place.shape;
    to.data = address(schedule_->spots[p], *exit);
    copies.pieces.push_back({inputs[place.number].lent(), to});
  }
  if (!copies.pieces.empty()) session_->queue().enqueue(copies);
  if (const auto& graph = exit->bound.front().graph)
    graph->replay();
  else
    enqueue_all(*exit, held);
  ++replays_;
  std::vector<View> results;
  for (const Shown& r : parts_.results) {
    const Place& place = parts_.places[r.place];
    View v = r.view;
    if (place.kind == Place::Kind::made) {
      const Spot& spot = schedule_->spots[r.place];
      v.memory = exit->results[spot.area], v.data = behind(address(spot, *exit), v.data);
    } else if (place.kind == Place::Kind::input) {
      v.memory = inputs[place.number].memory, v.data = behind(inputs[place.number].data, v.data);
    } else {
      v.memory = place.memory, v.data = behind(place.memory->address(), v.data);
    }
    results.push_back(std::move(v));
  }
  return results;
}

std::size_t Graphs::held_bytes() const {
  if (!schedule_) return 0;
  return (arena_ ? arena_->bytes() : 0) +
         static_cast<std::size_t>(std::count_if(exits_.begin(), exits_.end(), [](const Exit& e) { return e.free(); })) *
             schedule_->result_bytes;
}

std::size_t Graphs::evictable_bytes() {
  if (busy_) return 0;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock ? held_bytes() : 0;
}

std::size_t Graphs::evict() {
  if (busy_) return 0;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return 0;
  const std::size_t bytes = held_bytes();
  exits_.clear();
  arena_ = nullptr;
  return bytes;
}

}  // namespace heliograph::program
