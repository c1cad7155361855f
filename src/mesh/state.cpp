#include "mesh/state.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "mesh/ranks.h"

namespace heliograph::mesh {

State::State(std::vector<std::shared_ptr<device::Device>> devices, Options options, std::unique_ptr<Transport> transport)
    : options_(std::move(options)), transport_(std::move(transport)) {
  require<ParameterError>(!devices.empty() && devices.size() <= 64, "a mesh must have 1 to 64 members");
  const std::size_t count = devices.size();
  require<ParameterError>(options_.hosts.empty() || options_.hosts.size() == count,
                          "a mesh must have one host for each member");
  for (const auto* list : {&options_.weights, &options_.slowdown}) {
    require<ParameterError>(list->empty() || list->size() == count, "a mesh must have one weight for each member");
    for (double w : *list) require<ParameterError>(w > 0 && w <= 1e6, "a member's weight must be above 0 and at most 1e6");
  }
  require<ParameterError>(options_.costs.empty() || options_.costs.size() == 5, "the costs of a mesh must be five numbers");
  for (double figure : options_.costs) require<ParameterError>(figure > 0, "the costs of a mesh must be above 0");
  // Idle threads poll before they sleep if there are enough processors. Idle threads poll longer than most calls take,
  // because waking a thread takes tens of microseconds.
  const auto spin = std::chrono::microseconds(std::thread::hardware_concurrency() > 4 * count ? 2000 : 0);
  for (std::size_t m = 0; m < count; ++m) {
    const double slowdown = options_.slowdown.empty() ? 1 : options_.slowdown[m];
    // An asynchronous device receives calls in advance. For a synchronous device, a long queue would only hold memory.
    const std::size_t most = devices[m]->in_host_memory() ? 2 : 512;
    const auto* const remote = dynamic_cast<const RemoteDevice*>(devices[m].get());
    ranks_.push_back(remote ? remote->rank() : transport_->rank());
    const std::string host = remote ? remote->host() : own_host();
    hosts_.push_back(options_.hosts.empty() ? host : std::to_string(options_.hosts[m]));
    const auto on_error = [t = transport_.get()](std::exception_ptr e) { t->fail(std::move(e)); };
    auto worker = remote ? nullptr : std::make_unique<Worker>(spin, slowdown, most, on_error);
    const bool launches = worker && !devices[m]->in_host_memory() && slowdown <= 1;
    members_.push_back({std::move(devices[m]), std::move(worker), launches});
  }
  waiting_.resize(count);
  for (std::size_t to = 0; to < count; ++to) {
    for (std::size_t from = 0; from < count; ++from)
      reach_.push_back(to == from ||
                       (!options_.staged && here(to) && here(from) && members_[to].device->reaches(*members_[from].device)));
  }
  if (over_ranks()) {
    for (std::size_t m = 0; m < count; ++m) opening_.push_back(members_[m].device->memory());
    share(opening_);
  }
  costs_.weights.assign(count, 1);
  limb_weights_ = costs_.weights;
  owners_ = std::make_unique<LimbOwners>(limb_weights_);
}

std::vector<std::size_t> State::largest_group() const {
  std::vector<std::size_t> largest;
  for (std::size_t first = 0; first < size(); ++first) {
    std::vector<std::size_t> group;
    for (std::size_t m = 0; m < size(); ++m) {
      if (hosts_[m] == hosts_[first]) group.push_back(m);
    }
    if (group.size() > largest.size()) largest = std::move(group);
  }
  return largest.size() == size() ? std::vector<std::size_t>() : largest;
}

void State::require_sound() const {
  transport_->require_sound();  // first, because failures of workers follow from a failure of the transport
  for (const Member& m : members_) {
    if (m.worker) m.worker->require_sound();
  }
}

std::byte* State::new_address(std::size_t bytes, MeshMemory* memory) {
  const std::lock_guard lock(book_mutex_);
  auto* const address = reinterpret_cast<std::byte*>(next_);
  next_ += bytes / 64 * 64 + 128;
  book_[address] = memory;
  return address;
}

void State::forget(std::byte* address) {
  const std::lock_guard lock(book_mutex_);
  book_.erase(address);
}

MeshMemory& State::find(const View& view) {
  const std::lock_guard lock(book_mutex_);
  const auto after = book_.upper_bound(view.data);
  require<MismatchError>(after != book_.begin(), "cannot use memory of another device");
  MeshMemory* const memory = std::prev(after)->second;
  require<MismatchError>(view.data <= memory->address() + memory->bytes(), "cannot use memory of another device");
  return *memory;
}

void State::post(std::size_t m, Worker::Task task, bool always) {
  if (!here(m)) return;
  waiting_[m].push_back({std::move(task), always});
  if (operations_ == 0) flush();
}

void State::begin_operation() {
  if (operations_++ == 0) builder_ = std::this_thread::get_id();
}

void State::end_operation() {
  if (--operations_ > 0) return;
  flush();
  builder_ = std::thread::id();
}

void State::flush() {
  std::size_t busy = 0, only = 0;
  for (std::size_t m = 0; m < size(); ++m) {
    if (!waiting_[m].empty()) ++busy, only = m;
  }
  if (busy == 1 && !over_ranks() && members_[only].launches && members_[only].worker->idle() && !assigned_member()) {
    for (Worker::Entry& entry : std::exchange(waiting_[only], {})) members_[only].worker->run_here(entry);
    return;
  }
  for (std::size_t m = 0; m < size() && busy > 0; ++m) {
    if (!waiting_[m].empty()) members_[m].worker->post(std::exchange(waiting_[m], {})), --busy;
  }
}

void State::drain() {
  if (builder_.load() == std::this_thread::get_id()) flush();
  std::vector<std::shared_ptr<Signal>> done;  // signals of all members
  for (Member& m : members_) {
    if (m.worker && !m.worker->idle()) done.push_back(m.worker->drained());
  }
  for (const auto& signal : done) signal->wait();
  require_sound();
}

Buffer State::allocate(std::size_t m, std::size_t bytes, Queue& queue) {
  bool drained = false;
  for (;;) {
    const u64 seen = residents ? residents->evicted_bytes() : 0;
    try {
      return members_[m].device->allocate(bytes, queue);
    } catch (const OutOfMemoryError&) {
      if (!drained) {  // memory that is already freed may still be in the workers' queues
        drain();
        drained = true;
      } else if (over_ranks()) {
        transport_->fail(std::current_exception());
        throw;
      } else if (!drop_copies()) {
        if (!residents || !residents->make_room(bytes, seen)) throw;
        drain();
      }
    }
  }
}

bool State::drop_copies() {
  const std::lock_guard lock(mutex_);
  bool any = false;
  {
    const std::lock_guard book(book_mutex_);
    for (auto& [address, memory] : book_) {
      for (auto& copy : memory->copies) {
        any = true;
        release(copy.part.member, copy.buffer->bytes());
        post(
            copy.part.member, [mine = std::move(copy.buffer)]() mutable { mine.reset(); }, true);
      }
      memory->copies.clear();
    }
  }
  if (any) drain();
  return any;
}

std::size_t State::cached_bytes() {
  const std::lock_guard lock(mutex_);
  const std::lock_guard book(book_mutex_);
  std::size_t bytes = 0;
  for (auto& [address, memory] : book_) {
    for (auto& copy : memory->copies) bytes += copy.buffer->bytes();
  }
  return bytes;
}

device::MemoryState State::memory_of(std::size_t m) const {
  if (!over_ranks()) return members_[m].device->memory();
  const std::lock_guard lock(mutex_);
  device::MemoryState s = opening_[m];
  s.pooled -= std::min(s.pooled, members_[m].held - std::min(members_[m].held, s.available));
  s.available -= std::min(s.available, members_[m].held);
  return s;
}

bool State::simulated() const {
  return std::any_of(members_.begin(), members_.end(), [](const Member& m) { return m.device && m.device->simulation(); });
}

void State::calibrate() {
  if (const std::size_t total = memory_of(0).total) large_ = total / 8;
  if (!options_.costs.empty()) {
    costs_.limbs_a_second.assign(size(), options_.costs[0]);
    costs_.all = {.bytes_a_second = options_.costs[1], .exchange_seconds = options_.costs[2]};
    costs_.spread_seconds = options_.costs[3], costs_.step_seconds = options_.costs[4];
    if (costs_.group = largest_group(); !costs_.group.empty()) costs_.inside = costs_.all;
  } else if (options_.calibrate && size() > 1 && !simulated()) {
    std::vector<std::string> descriptions;
    std::vector<std::string> kinds;  // descriptions, which are equal for GPUs of one kind
    for (const Member& m : members_) {
      descriptions.push_back(m.device->name() + ": " + m.device->description());
      kinds.push_back(m.device->description());
    }
    if (!options_.slowdown.empty()) {
      for (std::size_t m = 0; m < size(); ++m) {
        descriptions[m] += " / " + std::to_string(options_.slowdown[m]);
        kinds[m] += " / " + std::to_string(options_.slowdown[m]);
      }
    }
    if (options_.staged) descriptions.push_back("staged");
    if (over_ranks()) descriptions.push_back(transport_->name());
    for (std::size_t m = 0; over_ranks() && m < size(); ++m)
      descriptions.back().append(" ").append(std::to_string(rank_of(m))).append("@").append(hosts_[m]);
    costs_ = measure(shared_from_this(), descriptions, kinds, largest_group());
  } else if (costs_.group = largest_group(); !costs_.group.empty()) {
    costs_.inside = costs_.all;
    costs_.all = {.bytes_a_second = 1.2e9, .exchange_seconds = 50e-6};  // speed of a ten-gigabit network
  }
  if (!options_.weights.empty()) costs_.weights = options_.weights;
  limb_weights_ = options_.layout && options_.hosts.empty() ? costs_.weights : costs_.limb_weights();
  owners_ = std::make_unique<LimbOwners>(limb_weights_);
}

}  // namespace heliograph::mesh
