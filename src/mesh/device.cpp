#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "device/perform.h"
#include "mesh/kernels.h"
#include "mesh/ranks.h"
#include "mesh/tfhe.h"

namespace heliograph::mesh {

// ---- the shared state

State::State(std::vector<std::shared_ptr<device::Device>> devices, Options options, std::unique_ptr<Transport> transport)
    : options_(std::move(options)), transport_(std::move(transport)) {
  require<ParameterError>(!devices.empty() && devices.size() <= 64, "a mesh has 1 to 64 members");
  const std::size_t count = devices.size();
  require<ParameterError>(options_.hosts.empty() || options_.hosts.size() == count, "a mesh needs one host for each member");
  for (const auto* list : {&options_.weights, &options_.slowdown}) {
    require<ParameterError>(list->empty() || list->size() == count, "a mesh needs one weight for each member");
    for (double w : *list) require<ParameterError>(w > 0 && w <= 1e6, "a member's weight lies between 0 and a million");
  }
  require<ParameterError>(options_.costs.empty() || options_.costs.size() == 5, "a mesh's costs are five figures");
  for (double figure : options_.costs) require<ParameterError>(figure > 0, "a mesh's costs are above 0");
  // An idle thread looks for work for a while where there are processors to spare: longer than most calls take, since waking
  // it takes tens of microseconds.
  const auto spin = std::chrono::microseconds(std::thread::hardware_concurrency() > 4 * count ? 2000 : 0);
  for (std::size_t m = 0; m < count; ++m) {
    const double slowdown = options_.slowdown.empty() ? 1 : options_.slowdown[m];
    // An asynchronous device is fed ahead of time; with a synchronous one a long queue would only hold memory.
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
  transport_->require_sound();  // failures of workers after that are its consequences
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
  require<MismatchError>(after != book_.begin(), "memory of another device");
  MeshMemory* const memory = std::prev(after)->second;
  require<MismatchError>(view.data <= memory->address() + memory->bytes(), "memory of another device");
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
  if (busy == 1 && !over_ranks() && members_[only].launches && members_[only].worker->idle() && !put_on()) {
    for (Worker::Entry& entry : std::exchange(waiting_[only], {})) members_[only].worker->run_here(entry);
    return;
  }
  for (std::size_t m = 0; m < size() && busy > 0; ++m) {
    if (!waiting_[m].empty()) members_[m].worker->post(std::exchange(waiting_[m], {})), --busy;
  }
}

void State::drain() {
  if (builder_.load() == std::this_thread::get_id()) flush();
  std::vector<std::shared_ptr<Signal>> done;  // of all at once
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
      if (!drained) {  // memory freed before may still be in the workers' queues
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

std::size_t State::kept_bytes() {
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

void State::calibrate() {
  if (const std::size_t total = memory_of(0).total) large_ = total / 8;
  if (!options_.costs.empty()) {
    costs_.limbs_a_second.assign(size(), options_.costs[0]);
    costs_.all = {.bytes_a_second = options_.costs[1], .exchange_seconds = options_.costs[2]};
    costs_.spread_seconds = options_.costs[3], costs_.step_seconds = options_.costs[4];
    if (costs_.group = largest_group(); !costs_.group.empty()) costs_.inside = costs_.all;
  } else if (options_.calibrate && size() > 1) {
    std::vector<std::string> descriptions;
    std::vector<std::string> kinds;  // numbers aside: GPUs of one kind are alike
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
    costs_.all = {.bytes_a_second = 1.2e9, .exchange_seconds = 50e-6};  // ten gigabits a second
  }
  if (!options_.weights.empty()) costs_.weights = options_.weights;
  limb_weights_ = options_.layout && options_.hosts.empty() ? costs_.weights : costs_.limb_weights();
  owners_ = std::make_unique<LimbOwners>(limb_weights_);
}

// ---- queues

namespace {

class MeshEvent final : public device::Event {
 public:
  MeshEvent(std::shared_ptr<State> state, std::vector<std::shared_ptr<Mark>> marks)
      : state_(std::move(state)), marks_(std::move(marks)) {}
  void wait() override {
    for (const auto& mark : marks_) {
      if (const auto& event = mark->get()) event->wait();
    }
    state_->require_sound();
  }
  const std::vector<std::shared_ptr<Mark>>& marks() const { return marks_; }

 private:
  std::shared_ptr<State> state_;
  std::vector<std::shared_ptr<Mark>> marks_;
};

}  // namespace

MeshQueue::MeshQueue(std::shared_ptr<State> state)
    : state_(std::move(state)),
      ring_(std::make_unique<MeshKernels>(state_)),
      lwe_(std::make_unique<MeshTfheKernels>(state_)),
      posted_(state_->size()),
      waited_(state_->size()) {
  for (std::size_t m = 0; m < state_->size(); ++m) queues_.push_back(state_->member(m).device->make_queue());
}

bool MeshQueue::supports(const device::Call& call) const { return device::performs<MeshKernels, MeshTfheKernels>(call); }

void MeshQueue::perform(const device::Call& call) {
  const std::lock_guard lock(state_->mutex());
  state_->require_sound();
  if (ring_->directly(*this, call)) return;
  state_->settle(call, *this);
  if (!ring_->directly(*this, call)) device::perform(*this, call, *ring_, *lwe_);
}

MeshQueue::~MeshQueue() {
  // The members' queues outlive what was posted.
  const std::lock_guard lock(state_->mutex());
  for (std::size_t m = 0; m < queues_.size(); ++m)
    state_->post(
        m, [queue = std::move(queues_[m])]() mutable { queue.reset(); }, true);
}

MeshQueue& own(Queue& queue) {
  auto* const mine = dynamic_cast<MeshQueue*>(&queue);
  require<MismatchError>(mine != nullptr, "a queue of another device");
  return *mine;
}

std::vector<Queue*> MeshQueue::queues() const {
  std::vector<Queue*> r;
  for (const auto& q : queues_) r.push_back(q.get());
  return r;
}

const std::shared_ptr<device::Meeting>& MeshQueue::meeting() {
  if (!meeting_) {
    meeting_ = nullptr;
    if (!state_->options().events && !state_->options().staged && state_->size() > 1) {
      state_->drain();  // no thread uses the queues now
      std::vector<device::Device*> devices;
      for (std::size_t m = 0; m < state_->size(); ++m) devices.push_back(state_->member(m).device.get());
      meeting_ = devices[0]->make_meeting(devices, queues());
    }
  }
  return *meeting_;
}

std::shared_ptr<Mark> MeshQueue::mark(std::size_t m) {
  const auto mark = std::make_shared<Mark>();
  state_->post(m, [setter = std::make_shared<Setter>(mark), queue = queues_[m].get()] { setter->set(queue->record()); });
  return mark;
}

void MeshQueue::after(std::size_t m, std::size_t from, std::shared_ptr<Mark> mark) {
  const bool ordered = state_->reaches(m, from);
  state_->post(m, [mark = std::move(mark), queue = queues_[m].get(), ordered] {
    const auto& event = mark->get();
    if (!event) return;
    ordered ? queue->after(*event) : event->wait();
  });
}

std::shared_ptr<device::Event> MeshQueue::record() {
  const std::lock_guard lock(state_->mutex());
  std::vector<std::shared_ptr<Mark>> marks;
  for (std::size_t m = 0; m < queues_.size(); ++m) marks.push_back(mark(m));
  return std::make_shared<MeshEvent>(state_, std::move(marks));
}

void MeshQueue::after(const device::Event& event) {
  const auto* const mine = dynamic_cast<const MeshEvent*>(&event);
  require<MismatchError>(mine != nullptr, "an event of another device");
  const std::lock_guard lock(state_->mutex());
  for (std::size_t m = 0; m < queues_.size(); ++m) touch(m), after(m, m, mine->marks()[m]);
}

void MeshQueue::uses(const Buffer& buffer) {
  const auto* const memory = dynamic_cast<const MeshMemory*>(buffer.get());
  require<MismatchError>(memory != nullptr, "memory of another device");
  const std::lock_guard lock(state_->mutex());
  for (std::size_t m = 0; m < queues_.size(); ++m) {
    if (!memory->local(m)) continue;
    state_->post(m, [queue = queues_[m].get(), mine = memory->local(m)] { queue->uses(mine); });
  }
}

void MeshQueue::wait() {
  std::vector<device::u64> posted;
  {
    const std::lock_guard lock(state_->mutex());
    posted = posted_;
  }
  state_->drain();
  for (std::size_t m = 0; m < queues_.size(); ++m) {
    if (waited_[m].load() >= posted[m]) continue;
    queues_[m]->wait();
    waited_[m].store(std::max(waited_[m].load(), posted[m]));  // of two who wait the later may be the first: then again
  }
  state_->require_sound();
}

// ---- the device

namespace {

class MeshDevice final : public Mesh {
 public:
  MeshDevice(std::vector<std::shared_ptr<device::Device>> members, Options options, std::unique_ptr<Transport> transport)
      : state_(std::make_shared<State>(std::move(members), std::move(options), std::move(transport))),
        kernels_(state_),
        tfhe_(state_) {
    state_->residents = &residents();
    state_->calibrate();
    measuring_ = moved_in_all();
  }
  ~MeshDevice() override { state_->residents = nullptr; }

  std::string name() const override {
    std::string text = state_->options().name;
    if (!text.empty()) return text;
    for (std::size_t m = 0; m < size(); ++m) {
      if (m) text += ',';
      text += state_->member(m).device->name();
    }
    return text;
  }
  std::string description() const override {
    return std::to_string(size()) + " devices as one: " + state_->member(0).device->description() +
           (size() > 1 ? ", ..." : "") +
           (ranks() > 1 ? std::string(", of ").append(std::to_string(ranks())).append(" ranks") : "");
  }
  device::MemoryState memory() const override {
    device::MemoryState sum;
    for (std::size_t m = 0; m < size(); ++m) {
      const device::MemoryState one = state_->memory_of(m);
      sum.total += one.total, sum.available += one.available, sum.pooled += one.pooled;
    }
    if (!state_->over_ranks()) sum.pooled += state_->kept_bytes();  // over ranks they are never freed for room
    return sum;
  }

  Buffer allocate(std::size_t bytes, Queue& queue) override {
    // Bytes of no known shape: words of one row, whole on a member.
    const View row = View::dense(nullptr, Word::w64, {1}, 1, 1, (bytes + 63) / 64 * 8);
    return allocate(row, {}, state_->choose(row), queue);
  }
  Buffer allocate(const View& shape, const PrimeList& primes, Queue& queue) override {
    // Words of no prime, or not of a ring's degree, are LWE ciphertexts: of no use in pieces.
    const bool whole = shape.limbs == 1 && (primes.size() == 0 || !std::has_single_bit(shape.n));
    if (!whole) return allocate(shape, primes, state_->choose(shape), queue);
    const Placement shared{Layout::batch, Deal::shares(shares(shape.items(), state_->weights()))};
    auto memory = allocate(shape, primes, shared, queue);
    memory->settled = true;  // what is computed on them takes long wherever they come from
    return memory;
  }

  std::unique_ptr<Queue> make_queue() override { return std::make_unique<MeshQueue>(state_); }

  void upload(Queue& queue, std::span<const std::byte> from, std::byte* to) override {
    if (from.empty()) return;
    state_->require_sound();
    const Copies copies = copies_of(to, from.size());
    transfer(queue, copies, to,
             [&](device::Device& d, Queue& q, const Copy& c) { d.upload(q, from.subspan(c.host, c.bytes), c.here); });
  }
  /// Every rank gets all bytes.
  void download(Queue& queue, const std::byte* from, std::span<std::byte> to) override {
    if (!to.empty()) {
      const Copies copies = fetch(queue, from, to.size(), to);
      if (ranks() > 1) unpack_others(state_->transport().all_gather(packed_here(to.data(), copies)), copies, to.data());
    }
    queue.wait();
  }

  device::Device* key_holder() override {
    if (!state_->over_ranks()) return this;
    if (rank() != 0) return nullptr;
    const std::lock_guard lock(state_->mutex());
    if (!key_holder_) {
      std::vector<std::shared_ptr<device::Device>> mine;
      for (std::size_t m = 0; m < size(); ++m) {
        if (state_->here(m)) mine.push_back(state_->member(m).device);
      }
      if (mine.size() == 1) {
        key_holder_ = mine.front();
      } else {
        key_holder_ = std::make_shared<MeshDevice>(std::move(mine), Options{}, make_local_transport());
      }
    }
    return key_holder_.get();
  }
  std::vector<std::byte> broadcast(const std::function<std::vector<std::byte>()>& make) override {
    return state_->over_ranks() ? broadcast_result(state_->transport(), make) : make();
  }
  void scatter(Queue& queue, std::span<const std::byte> from, std::size_t bytes, std::byte* to) override {
    if (!state_->over_ranks()) return Device::scatter(queue, from, bytes, to);
    if (bytes == 0) return;
    state_->require_sound();
    Copies copies = copies_of(to, bytes);
    std::vector<std::vector<std::byte>> each(ranks());
    if (rank() == 0) {
      require<InternalError>(from.size() == bytes, "the key holder scatters all bytes");
      for (std::size_t m = 0; m < size(); ++m) {
        if (!state_->here(m)) pack(from.data(), copies[m], each[state_->rank_of(m)]);
      }
    }
    const std::vector<std::byte> packed = state_->transport().scatter(std::move(each));
    if (rank() != 0) {
      require<DeviceError>(repack(copies) == packed.size(), "a rank does not run the same program");
      from = packed;
    }
    transfer(queue, copies, to,
             [&](device::Device& d, Queue& q, const Copy& c) { d.upload(q, from.subspan(c.host, c.bytes), c.here); });
  }
  void gather(Queue& queue, const std::byte* from, std::size_t bytes, std::span<std::byte> to) override {
    if (!state_->over_ranks()) return Device::gather(queue, from, bytes, to);
    if (bytes > 0) {
      state_->require_sound();
      Copies copies = copies_of(const_cast<std::byte*>(from), bytes);
      std::vector<std::byte> packed(rank() == 0 ? 0 : repack(copies));
      const std::span<std::byte> host = rank() == 0 ? to : std::span<std::byte>(packed);
      require<InternalError>(rank() != 0 || to.size() == bytes, "the key holder gathers all bytes");
      transfer(queue, copies, nullptr,
               [&](device::Device& d, Queue& q, const Copy& c) { d.download(q, c.here, host.subspan(c.host, c.bytes)); });
      const auto of_ranks = state_->transport().gather(std::move(packed));
      if (rank() == 0) unpack_others(of_ranks, copies, to.data());
    }
    queue.wait();
  }
  void confirm(const std::string& what, const std::string& value) override {
    if (state_->over_ranks()) mesh::confirm(state_->transport(), what, value);
  }

  device::Kernels& kernels() override { return kernels_; }
  device::TfheKernels& tfhe() override {
    for (std::size_t m = 0; m < size(); ++m) {
      if (state_->here(m)) state_->member(m).device->tfhe();  // throws here, not on its thread, where it has none
    }
    return tfhe_;
  }
  double product_ceiling() override { return sum_of(&device::Device::product_ceiling); }
  double sum_ceiling() override { return sum_of(&device::Device::sum_ceiling); }
  device::Traffic traffic() const override {
    device::Traffic sum;
    for (std::size_t m = 0; m < size(); ++m) {
      if (!state_->here(m)) continue;
      const device::Traffic t = state_->member(m).device->traffic();
      sum.uploads += t.uploads, sum.upload_bytes += t.upload_bytes;
      sum.downloads += t.downloads, sum.download_bytes += t.download_bytes;
      sum.launches += t.launches, sum.allocations += t.allocations, sum.waits += t.waits;
    }
    return sum;
  }

  std::size_t size() const override { return state_->size(); }
  device::Device& member(std::size_t m) override { return *state_->member(m).device; }
  std::size_t ranks() const override { return state_->transport().size(); }
  std::size_t rank() const override { return state_->transport().rank(); }
  Moved moved() const override {
    const Moved all = moved_in_all();
    return {.exchanges = all.exchanges - measuring_.exchanges,
            .bytes = all.bytes - measuring_.bytes,
            .staged_bytes = all.staged_bytes - measuring_.staged_bytes,
            .sent_bytes = all.sent_bytes - measuring_.sent_bytes};
  }
  Buffer reshard(const View& from, const PrimeList& primes, Layout to, Queue& queue) override {
    const std::vector<std::size_t> batch(from.shape.begin(), from.shape.begin() + from.axes);
    View target = View::dense(nullptr, from.word, batch, from.components, from.limbs, from.n);
    auto memory = allocate(target, primes, {to, state_->over_all(from.items()).deal}, queue);
    memory->settled = true;
    target.data = memory->address();
    queue.enqueue(device::Copy{from, target});
    return memory;
  }
  std::vector<std::string> report() override { return mesh::report(*state_); }

 private:
  Moved moved_in_all() const {
    return {.exchanges = state_->exchanges,
            .bytes = state_->exchanged_bytes,
            .staged_bytes = state_->staged_bytes,
            .sent_bytes = state_->transport().sent_bytes()};
  }

  double sum_of(double (device::Device::*what)()) {
    double sum = 0;
    for (std::size_t m = 0; m < size(); ++m) {
      if (state_->here(m)) sum += (state_->member(m).device.get()->*what)();
    }
    return sum;
  }

  std::shared_ptr<MeshMemory> allocate(const View& shape, const PrimeList& primes, const Placement& placement,
                                       Queue& queue) {
    state_->require_sound();
    return std::make_shared<MeshMemory>(state_, shape, primes, placement, own(queue).queues());
  }

  /// Bytes of a member and their place among the host's.
  struct Copy {
    std::byte* here;
    std::size_t host, bytes;
  };
  using Copies = std::vector<std::vector<Copy>>;  // each member's

  /// What this rank's members have of the `bytes` bytes at `from`.
  Copies fetch(Queue& queue, const std::byte* from, std::size_t bytes, std::span<std::byte> to) {
    state_->require_sound();
    Copies copies = copies_of(const_cast<std::byte*>(from), bytes);
    transfer(queue, copies, nullptr,
             [&](device::Device& d, Queue& q, const Copy& c) { d.download(q, c.here, to.subspan(c.host, c.bytes)); });
    return copies;
  }

  /// Where the `bytes` bytes at `address` and after lie.
  Copies copies_of(std::byte* address, std::size_t bytes) {
    View probe;
    probe.data = address;
    MeshMemory& memory = state_->find(probe);
    const View& shape = memory.shape();
    const std::size_t row = shape.n * shape.word_size();
    const auto offset = static_cast<std::size_t>(address - memory.address());
    require<InternalError>(offset + bytes <= memory.bytes(), "a transfer beyond its memory");
    // Whole items in one go where they lie whole; else limb by limb.
    const std::size_t item = shape.components * shape.limbs * row;
    const bool whole = memory.layout() == Layout::batch && offset % item == 0 && bytes % item == 0;
    Copies copies(size());
    const auto add = [&](std::size_t m, const Copy& c) {
      if (!copies[m].empty()) {
        Copy& last = copies[m].back();
        if (last.here + last.bytes == c.here && last.host + last.bytes == c.host) {
          last.bytes += c.bytes;
          return;
        }
      }
      copies[m].push_back(c);
    };
    if (whole) {
      const View v = View::dense(address, shape.word, {bytes / item}, shape.components, shape.limbs, shape.n);
      for (const Block& b : memory.blocks(v, true)) {
        if (b.step == 1) {
          add(b.member, {b.view.data, b.first * item, b.count * item});
          continue;
        }
        for (std::size_t i = 0; i < b.count; ++i)
          add(b.member, {b.view.address(i, 0, 0), (b.first + i * b.step) * item, item});
      }
      return copies;
    }
    std::size_t done = 0;
    while (done < bytes) {
      const std::size_t at = offset + done, inside = at % row, part = std::min(row - inside, bytes - done);
      View v = View::dense(address + done - inside, shape.word, {1}, 1, 1, shape.n);
      for (const Block& b : memory.blocks(v, true)) {
        const std::size_t begin = b.begin * v.word_size(), end = begin + b.length * v.word_size();
        const std::size_t from = std::max(begin, inside), to = std::min(end, inside + part);
        if (from < to) add(b.member, {b.view.data + (from - begin), done + (from - inside), to - from});
      }
      done += part;
    }
    return copies;
  }

  /// Does `one(device, queue, copy)` for all of this rank's, and waits.
  template <class One>
  void transfer(Queue& queue, const Copies& copies, const std::byte* written, One one) {
    MeshQueue& mine = own(queue);
    std::vector<std::shared_ptr<Signal>> done;
    {
      const std::lock_guard lock(state_->mutex());
      if (written) {
        View probe;
        probe.data = const_cast<std::byte*>(written);
        Operation(*state_, queue).writes(probe);
      }
      // By the threads: who waits for a device keeps nobody else from posting.
      for (std::size_t m = 0; m < size(); ++m) {
        if (copies[m].empty() || !state_->here(m)) continue;
        mine.touch(m);
        Worker& worker = *state_->member(m).worker;
        worker.post([&d = *state_->member(m).device, &q = mine.queue(m), &list = copies[m], &one] {
          for (const Copy& c : list) one(d, q, c);
        });
        done.push_back(worker.drained());
      }
    }
    for (const auto& signal : done) signal->wait();
    state_->require_sound();
  }

  // The bytes of one rank's members are packed one copy after the other.
  static void pack(const std::byte* host, const std::vector<Copy>& copies, std::vector<std::byte>& packed) {
    std::size_t bytes = packed.size();
    for (const Copy& c : copies) bytes += c.bytes;
    packed.reserve(bytes);
    for (const Copy& c : copies) packed.insert(packed.end(), host + c.host, host + c.host + c.bytes);
  }
  /// Lets this rank's copies show where they lie in what is packed; how many bytes that is.
  std::size_t repack(Copies& copies) {
    std::size_t at = 0;
    for (std::size_t m = 0; m < size(); ++m) {
      if (!state_->here(m)) continue;
      for (Copy& c : copies[m]) c.host = at, at += c.bytes;
    }
    return at;
  }
  static void unpack(const std::vector<std::byte>& packed, std::size_t& at, const std::vector<Copy>& copies,
                     std::byte* host) {
    for (const Copy& c : copies) {
      require<DeviceError>(packed.size() - at >= c.bytes, "a rank does not run the same program");
      std::memcpy(host + c.host, packed.data() + at, c.bytes);
      at += c.bytes;
    }
  }
  std::vector<std::byte> packed_here(const std::byte* host, const Copies& copies) {
    std::vector<std::byte> packed;
    for (std::size_t m = 0; m < size(); ++m) {
      if (state_->here(m)) pack(host, copies[m], packed);
    }
    return packed;
  }
  void unpack_others(const std::vector<std::vector<std::byte>>& of_ranks, const Copies& copies, std::byte* host) {
    std::vector<std::size_t> at(of_ranks.size());
    for (std::size_t m = 0; m < size(); ++m) {
      const std::size_t r = state_->rank_of(m);
      if (!state_->here(m)) unpack(of_ranks[r], at[r], copies[m], host);
    }
  }

  std::shared_ptr<State> state_;
  Moved measuring_;                             // what its own measurements moved
  std::shared_ptr<device::Device> key_holder_;  // rank 0's, over ranks; made at first use
  MeshKernels kernels_;
  MeshTfheKernels tfhe_;
};

}  // namespace

std::unique_ptr<Mesh> make_mesh(std::vector<std::shared_ptr<device::Device>> members, Options options,
                                std::unique_ptr<Transport> transport) {
  if (!transport) transport = make_local_transport();
  return std::make_unique<MeshDevice>(std::move(members), std::move(options), std::move(transport));
}

}  // namespace heliograph::mesh
