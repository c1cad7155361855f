#include "mesh/members.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <string_view>

#include "mesh/operation.h"
#include "mesh/tfhe.h"

namespace heliograph::mesh {

namespace {

constexpr std::size_t kN = std::size_t{1} << 14;
constexpr double kProducts = 14.0 / 2 * kN;  // products in a transform of 2^14 words
/// Bytes that are read and written in the time that a transform of 2^14 words takes. An addition takes 0.6 of the time of a
/// transform (choice.cpp).
constexpr double kBytes = 3 * 8 * kN / 0.6;
constexpr double kLaunch = 3e-6;  // seconds of a call without work, in a sequence of calls
/// Host seconds to start a piece of a program that a member runs as its own program. The launch of the piece's graph takes
/// most of the host's seconds.
constexpr double kPiece = 15e-6;

View whole_view(const MeshMemory& memory) {
  View v = memory.shape().lent();
  v.data = memory.address();
  return v;
}

View dense_like(const View& v, std::byte* address) {
  const std::vector<std::size_t> batch(v.shape.begin(), v.shape.begin() + v.axes);
  return View::dense(address, v.word, batch, v.components, v.limbs, v.n);
}

std::size_t written_items(const device::Call& call, View& shape) {
  std::size_t items = 0;
  std::visit(
      [&](const auto& c) {
        device::each_view(c, [&](const View& v, device::Access access) {
          if (access == device::Access::read || v.items() < items) return;
          items = v.items(), shape = v.lent();
        });
      },
      call);
  return items;
}

}  // namespace

MeshMembers::MeshMembers(MeshQueue& queue, const MeshTfheKernels& lwe)
    : queue_(queue),
      state_(queue.state()),
      lwe_(lwe),
      always_([] {
        const char* const replay = std::getenv("HELIOGRAPH_REPLAY");
        return replay != nullptr && std::string_view(replay) == "batched";
      }()),
      sessions_(state_.size()) {}

// ---- predictions

double MeshMembers::seconds_alone(const device::Call& call, const device::Count& work, u64 bytes) const {
  const double transform = state_.costs().transform(kN);
  const double moved = static_cast<double>(bytes) / kBytes * transform;
  const double products = static_cast<double>(work.products) / kProducts * transform;
  // A matrix product first gathers its inputs, then sums.
  return kLaunch + (std::holds_alternative<device::Product>(call) ? moved + products : std::max(moved, products));
}

double MeshMembers::bootstrap_seconds(const device::Evaluate& call, const device::Count& work, std::size_t executor) const {
  const std::vector<double>& weights = state_.weights();
  const std::size_t rows = call.layer->layer().rows(), items = std::max<std::size_t>(1, call.wires.items());
  const std::vector<std::size_t> parallel = lwe_.parallel_of(call);
  const double most = weights[state_.fastest()];
  const double one =
      static_cast<double>(work.products) / static_cast<double>(rows * items) / kProducts * state_.costs().transform(kN);
  // A member computes `parallel` bootstraps in the time of one.
  const auto on_member = [&](std::size_t m, std::size_t bootstraps) {
    const std::size_t together = std::max<std::size_t>(1, parallel[m]), waves = (bootstraps + together - 1) / together;
    return kLaunch + static_cast<double>(waves * together) * one * most / weights[m];
  };
  if (executor < size()) return on_member(executor, rows * items);
  const std::vector<std::size_t> bounds = shares(items, weights);
  double longest = 0;
  std::size_t holders = 0;
  for (std::size_t m = 0; m < size(); ++m) {
    const std::size_t mine = bounds[m + 1] - bounds[m];
    if (mine > 0) longest = std::max(longest, on_member(m, mine * rows)), ++holders;
  }
  if (holders == size() || rows * items <= parallel[0]) return longest;
  // Idle members compute part of the rows. The linear combinations move to the idle members, and the results move back.
  const std::vector<std::size_t> each = shares(rows * items, weights);
  double shared = 0;
  for (std::size_t m = 0; m < size(); ++m) shared = std::max(shared, on_member(m, each[m + 1] - each[m]));
  return std::min(longest, shared + 2 * state_.costs().all.exchange_seconds);
}

double MeshMembers::seconds(const device::Call& call, const device::Count& work, u64 bytes, std::size_t executor) const {
  if (const auto* const layer = std::get_if<device::Evaluate>(&call); layer && !layer->layer->layer().linear())
    return bootstrap_seconds(*layer, work, executor);
  const Costs& costs = state_.costs();
  const std::vector<double>& weights = state_.weights();
  const std::size_t home = state_.fastest();
  const double alone = seconds_alone(call, work, bytes);
  if (executor < size()) return alone * weights[home] / weights[executor];
  View shape;
  const std::size_t items = written_items(call, shape);
  if (items == 0) return alone;
  const Placement placement = state_.choose(shape);
  const double count = static_cast<double>(size());
  if (placement.layout != Layout::batch) return 1.5 * alone / count + 3 * costs.limb_links().exchange_seconds;
  if (placement.distribution.sole()) return std::min(alone, state_.seconds_shared(call).value_or(alone));
  double longest = 0;
  for (std::size_t m = 0; m < size(); ++m)
    longest = std::max(longest, static_cast<double>(placement.distribution.items_on(m)) * weights[home] / weights[m]);
  return kLaunch + longest / static_cast<double>(items) * (alone - kLaunch) + costs.spread_seconds;
}

device::Members::Link MeshMembers::link(std::size_t from, std::size_t to) const {
  if (from == to) return {0, 1e18};
  const Costs& costs = state_.costs();
  const bool near = from < size() && to < size() && costs.inside && state_.on_one_host(from, to);
  const Links& links = near ? *costs.inside : costs.all;
  // If memory is on all members, each member lacks only the parts that other members hold.
  const double count = static_cast<double>(size()), lacking = from < size() && to < size() ? 1 : (count - 1) / count;
  return {links.exchange_seconds, links.bytes_a_second / std::max(lacking, 1e-3)};
}

device::Members::Host MeshMembers::host(std::size_t executor) const {
  const double step = state_.costs().step_seconds;
  if (executor >= size()) return {step * static_cast<double>(size()), step};
  const bool own = state_.member(executor).launches && !state_.over_ranks();
  return own ? Host{0, kPiece} : Host{step, step};
}

// ---- locations of words

MeshMemory& MeshMembers::memory_of(const Buffer& memory) const {
  View probe;
  probe.data = memory->address();
  return state_.find(probe);
}

std::size_t MeshMembers::holder(const View& view) const { return state_.find(view).sole().value_or(all()); }

namespace {

class MeshMoves final : public device::Moves {
 public:
  explicit MeshMoves(MeshQueue& queue) : queue_(queue), state_(queue.state()), begin_(state_.size()) {}
  MeshMoves(const MeshMoves&) = delete;
  MeshMoves& operator=(const MeshMoves&) = delete;

  ~MeshMoves() override {
    // Memory is released or overwritten only after the other members have read it.
    try {
      const std::lock_guard lock(state_.mutex());
      for (const auto& [from, to] : reads_) queue_.after(from, to, queue_.mark(to));
    } catch (...) {  // a failed mesh executes no more calls, and reports its fault at the next call
    }
  }

  std::size_t mark(std::size_t member) override {
    const std::lock_guard lock(state_.mutex());
    marks_.push_back(queue_.mark(member));
    return marks_.size() - 1;
  }

  View bring(const View& view, bool dense, std::size_t executor, std::optional<std::size_t> made) override {
    const std::lock_guard lock(state_.mutex());
    state_.require_sound();
    MeshMemory& from = state_.find(view);
    const std::optional<std::size_t> sole = from.sole();
    const bool to_all = executor >= state_.size();
    if (to_all ? !sole.has_value() : sole == executor) return view;
    View source = dense ? view.lent() : whole_view(from);
    View target = dense_like(source, nullptr);
    Placement placement{Layout::batch, {}};
    if (to_all) {
      placement = state_.choose(target);
      if (placement.layout != Layout::batch || placement.distribution.sole()) return view;
    } else {
      placement.distribution = Distribution::whole(executor, target.items());
    }
    const auto memory = std::make_shared<MeshMemory>(queue_.shared_state(), target, PrimeList{}, placement, queue_.queues());
    memory->placement_fixed = true;
    target.data = memory->address();
    if (!to_all && sole && memory->sole() == executor && state_.reaches(executor, *sole) && !state_.over_ranks())
      pull(from, view.memory, source, *sole, *memory, target, executor, made);
    else
      queue_.enqueue(device::Copy{source, target});
    View result = view;
    if (dense)
      result = target;
    else
      result.data = target.data + (view.data - from.address());
    result.memory = memory;
    return result;
  }

 private:
  /// Makes the member `reader` copy words of the member `owner` once they are valid. The owner does not wait here.
  void pull(MeshMemory& from, const Buffer& held, const View& source, std::size_t owner, MeshMemory& to, const View& target,
            std::size_t reader, std::optional<std::size_t> made) {
    if (!made) {
      if (!begin_[owner]) begin_[owner] = mark(owner);
      made = begin_[owner];
    }
    if (waits_.emplace(reader, *made).second) queue_.after(reader, owner, marks_[*made]);
    queue_.touch(reader);
    const device::Gather copy{
        {{from.blocks(source, false).front().view.lent(), to.blocks(target, false).front().view.lent()}}};
    state_.post(reader, [queue = &queue_.queue(reader), copy] { queue->enqueue(copy); });
    reads_.emplace(owner, reader);
    held_.push_back(held);
    ++state_.exchanges, state_.exchanged_bytes += target.bytes();
  }

  MeshQueue& queue_;
  State& state_;
  std::vector<std::shared_ptr<Mark>> marks_;
  std::vector<std::optional<std::size_t>> begin_;        // mark of each member before the first copy from it
  std::set<std::pair<std::size_t, std::size_t>> waits_;  // pairs of a reader and its mark
  std::set<std::pair<std::size_t, std::size_t>> reads_;  // pairs of an owner and a reader
  std::vector<Buffer> held_;                             // memory that readers may still read
};

}  // namespace

std::unique_ptr<device::Moves> MeshMembers::moves() { return std::make_unique<MeshMoves>(queue_); }

Buffer MeshMembers::copy(const Buffer& memory, std::size_t member) {
  const std::lock_guard lock(state_.mutex());
  const MeshMemory& from = memory_of(memory);
  if (from.sole() == member) return memory;
  const View source = whole_view(from);
  View target = dense_like(source, nullptr);
  auto copied =
      std::make_shared<MeshMemory>(queue_.shared_state(), target, PrimeList{},
                                   Placement{Layout::batch, Distribution::whole(member, target.items())}, queue_.queues());
  copied->placement_fixed = true;
  target.data = copied->address();
  queue_.enqueue(device::Copy{source, target});
  return copied;
}

void MeshMembers::on(std::size_t executor, const std::function<void()>& body) {
  std::optional<ResultsOnMember> there;
  if (executor < size()) there.emplace(state_, executor);
  body();
}

// ---- members that run their own programs

const device::Session* MeshMembers::session(std::size_t m) {
  const Member& member = state_.member(m);
  if (state_.over_ranks() || !(member.launches || always_)) return nullptr;
  const std::lock_guard lock(mutex_);
  if (!sessions_[m]) sessions_[m] = std::make_unique<const device::Session>(*member.device, queue_.shared_queue(m));
  return sessions_[m].get();
}

void MeshMembers::prepare(const device::Call& call, std::size_t m) {
  std::visit(
      [&](const auto& c) {
        device::each_constant(c, [&]<class T>(const std::shared_ptr<const T>& constant) {
          if constexpr (std::is_same_v<T, device::LayerConstant> ||
                        requires { state_.member(m).device->kernels().prepare(*constant); })
            if (constant) state_.prepare(m, *constant);
        });
      },
      call);
}

void MeshMembers::alone(std::size_t m, const std::function<void()>& body) {
  for (;;) {
    {
      const std::lock_guard lock(state_.mutex());
      state_.require_sound();
      if (state_.member(m).worker->idle()) {
        queue_.touch(m);
        return body();
      }
    }
    state_.member(m).worker->drained()->wait();
  }
}

Buffer MeshMembers::local(const Buffer& memory, std::size_t m) {
  const MeshMemory& mine = memory_of(memory);
  return mine.sole() == m ? mine.local(m) : nullptr;
}

std::byte* MeshMembers::address(const View& view, std::size_t m) {
  const MeshMemory& memory = state_.find(view);
  return memory.sole() == m ? memory.local(m)->address() + (view.data - memory.address()) : nullptr;
}

Buffer MeshMembers::key(const Buffer& key, std::size_t m) {
  const std::lock_guard lock(state_.mutex());
  MeshMemory& memory = memory_of(key);
  if (memory.sole() == m) return memory.local(m);
  const View whole = whole_view(memory);
  const Block part{
      .member = m, .first = 0, .count = whole.items(), .limbs = range(0, whole.limbs), .begin = 0, .length = whole.n};
  const View there = Operation(state_, queue_).fetch(whole, {part}, true).front().view;
  if (memory.local(m) && memory.local(m)->address() == there.data && memory.local(m)->bytes() == whole.bytes())
    return memory.local(m);  // the member holds every limb of the key
  for (const MeshMemory::Copy& copy : memory.copies) {
    if (copy.part.member == m && copy.buffer->address() == there.data && copy.buffer->bytes() >= whole.bytes())
      return copy.buffer;
  }
  throw InternalError("a member has no copy of a key");
}

Buffer MeshMembers::adopt(const View& from, const View& shape, std::size_t m) {
  Buffer words = from.memory;
  if (from.data != words->address() || words->bytes() != shape.bytes())
    words = std::make_shared<Within>(std::move(words), from.data, shape.bytes());
  auto memory = std::make_shared<MeshMemory>(queue_.shared_state(), shape, m, std::move(words));
  memory->placement_fixed = true;
  memory->is_for({.word = shape.word, .components = shape.components, .limbs = shape.limbs, .n = shape.n});
  return memory;
}

}  // namespace heliograph::mesh
