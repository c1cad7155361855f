#include "backend/cuda/runtime/device.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace heliograph::backend::cuda {

// ---- Pool

std::size_t Pool::size_class(std::size_t bytes) {
  constexpr std::size_t kLeast = 512;
  if (bytes <= kLeast) return kLeast;
  const std::size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

void* Pool::take(StreamHandle stream, std::size_t size) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return nullptr;
  const auto blocks = found->second.find(size);
  if (blocks == found->second.end() || blocks->second.empty()) return nullptr;
  void* const block = blocks->second.back();
  blocks->second.pop_back();
  kept_ -= size;
  return block;
}

void Pool::keep(StreamHandle stream, void* block, std::size_t size) {
  const std::lock_guard lock(mutex_);
  streams_[stream][size].push_back(block);
  kept_ += size;
}

void Pool::release_blocks(Driver& driver, StreamHandle stream, Blocks& blocks) {
  for (auto& [size, list] : blocks) {
    for (void* block : list) driver.free(block, stream), kept_ -= size;
  }
}

void Pool::release(Driver& driver, StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  release_blocks(driver, stream, found->second);
  streams_.erase(found);
}

void Pool::release_all(Driver& driver) {
  const std::lock_guard lock(mutex_);
  for (auto& [stream, blocks] : streams_) release_blocks(driver, stream, blocks);
  streams_.clear();
}

namespace {

constexpr std::size_t kSlack = std::size_t{64} << 20;  // the driver maps memory in pages of several MiB

/// Returns whether an environment variable is set to a value other than "0"; `unset` is the result if the variable is not
/// set.
bool switched(const char* name, bool unset) {
  const char* const given = std::getenv(name);
  return given == nullptr ? unset : std::string(given) != "0";
}

}  // namespace

State::State(std::shared_ptr<Driver> given)
    : driver_(std::move(given)),
      staging_(*driver_),
      properties_(driver_->properties()),
      waits_for_each_(switched("HELIOGRAPH_GPU_SYNC", false)),
      uses_peers_(switched("HELIOGRAPH_PEER", true)) {
  check(driver_->make_stream(&table_stream_), "cannot create a CUDA stream");
}

State::~State() {
  for (EventHandle event : events_) driver_->destroy_event(event);
  driver_->destroy_stream(table_stream_);
}

Status State::take_event(EventHandle* event) {
  {
    const std::lock_guard lock(events_mutex_);
    if (!events_.empty()) {
      *event = events_.back();
      events_.pop_back();
      return 0;
    }
  }
  return driver_->make_event(event);
}

void State::keep_event(EventHandle event) {
  const std::lock_guard lock(events_mutex_);
  events_.push_back(event);
}

void State::add_stream(StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  streams_.push_back(stream);
}

void State::remove_stream(StreamHandle stream) {
  const std::lock_guard lock(mutex_);
  std::erase(streams_, stream);
}

void State::free_after_all(void* memory) {
  const std::lock_guard lock(mutex_);
  captures_ > 0 ? freed_between_.push_back(memory) : free_now(memory);
}

void State::free_now(void* memory) {
  // Destructors call this function, so it ignores errors; the next wait reports a fault.
  EventHandle event = nullptr;
  const bool made = driver_->make_event(&event) == 0;
  for (StreamHandle stream : streams_) {
    if (!made || driver_->record(event, stream) != 0 || driver_->wait_event(table_stream_, event) != 0)
      ++counts.waits, driver_->synchronize(stream);
  }
  if (made) driver_->destroy_event(event);
  driver_->free(memory, table_stream_);
}

void State::join_capture() {
  const std::lock_guard lock(mutex_);
  ++captures_;
}

void State::begin_capture(StreamHandle stream) {
  join_capture();
  const Status status = driver_->begin_capture(stream);
  if (status != 0) end_of_capture();
  check(status, "cannot capture a CUDA graph");
}

Status State::end_capture(StreamHandle stream, void** graph) {
  const Status status = driver_->end_capture(stream, graph);
  end_of_capture();
  return status;
}

void State::end_of_capture() {
  const std::lock_guard lock(mutex_);
  if (--captures_ > 0) return;
  for (void* memory : freed_between_) free_now(memory);
  freed_between_.clear();
}

bool State::reaches(const State& other) const {
  require_sound();
  return this == &other || (uses_peers_ && driver_->reach(*other.driver_));
}

Status State::allocate(std::size_t bytes, StreamHandle stream, void** address) {
  ++counts.allocations;
  const Status status = driver_->allocate(address, bytes, stream);
  if (status == 0 || !driver_->is_out_of_memory(status)) return status;
  std::vector<StreamHandle> streams = {stream};
  {
    const std::lock_guard lock(mutex_);
    for (StreamHandle other : streams_) {
      if (other != stream) streams.push_back(other);
    }
  }
  const auto wait_for_all = [&]() -> Status {
    for (StreamHandle each : streams) {
      ++counts.waits;
      if (const Status waited = driver_->synchronize(each)) return waited;
    }
    return 0;
  };
  if (const Status waited = wait_for_all()) return waited;
  // Mapping GPU memory takes far longer than computing on it. So free nothing if the memory cannot suffice, and otherwise
  // free only the missing bytes.
  std::size_t available = 0, total = 0, pooled = 0;
  if (const Status failed = driver_->memory(&available, &total, &pooled)) return failed;
  if (bytes > available + pooled + pool_.kept()) return status;
  // Blocks of other sizes and queues become usable when the pool returns them to the driver.
  pool_.release_all(*driver_);
  if (const Status waited = wait_for_all()) return waited;
  const std::size_t room = bytes + kSlack, all = ~std::size_t{0};
  Status again = status;
  for (const std::size_t lacking : {room > available ? room - available : std::size_t{0}, all}) {
    ++counts.allocations;
    if (lacking > 0) driver_->trim(lacking);
    again = driver_->allocate(address, bytes, stream);
    if (again == 0 || !driver_->is_out_of_memory(again)) break;
  }
  return again;
}

void State::require_sound() const {
  if (!process_.is_here())
    throw ForkError("cannot use Heliograph in a child process after a fork; start the child with 'spawn'");
  if (!poisoned_) return;
  const std::lock_guard lock(mutex_);
  throw DeviceError("this GPU failed earlier and cannot be used again in this process; start a new one. Fault: " + fault_);
}

void State::check(Status status, const std::string& what) {
  if (status == 0) return;
  require_sound();
  if (driver_->is_out_of_memory(status)) throw OutOfMemoryError(what + ": " + driver_->describe(status));
  const std::string text = what + ": " + driver_->describe(status);
  if (driver_->is_fault(status)) {
    const std::lock_guard lock(mutex_);
    if (!poisoned_) fault_ = text;
    poisoned_ = true;
  }
  throw DeviceError(text);
}

device::Traffic State::traffic() const {
  return {.uploads = counts.uploads,
          .upload_bytes = counts.upload_bytes,
          .downloads = counts.downloads,
          .download_bytes = counts.download_bytes,
          .launches = counts.launches,
          .allocations = counts.allocations,
          .waits = counts.waits};
}

// ---- Stream, events, queue

Stream::Stream(std::shared_ptr<State> state) : state_(std::move(state)) {
  state_->check(state_->driver().make_stream(&handle_), "cannot create a CUDA stream");
  state_->add_stream(handle_);
}

Stream::~Stream() {
  state_->remove_stream(handle_);
  state_->pool().release(state_->driver(), handle_);
  state_->driver().destroy_stream(handle_);
}

namespace {

class CudaEvent final : public device::Event {
 public:
  /// `now`: the stream to record on, the queue's own or that of a capture.
  CudaEvent(std::shared_ptr<State> state, std::shared_ptr<Stream> stream, StreamHandle now, const Recent& kernels)
      : state_(std::move(state)), stream_(std::move(stream)), kernels_(kernels) {
    check(state_->take_event(&handle_), "cannot create a CUDA event");
    const Status recorded = state_->driver().record(handle_, now);
    if (recorded != 0) state_->keep_event(handle_);
    check(recorded, "cannot record a CUDA event");
  }
  ~CudaEvent() override { state_->keep_event(handle_); }
  void wait() override {
    ++state_->counts.waits;
    const Status status = state_->driver().synchronize_event(handle_);
    if (status != 0) state_->check(status, kernels_.text());
  }
  EventHandle handle() const { return handle_; }
  const State& state() const { return *state_; }

 private:
  /// Any call after a fault may return it, so the error names the preceding kernels.
  void check(Status status, const char* what) const {
    state_->check(status, status != 0 && state_->driver().is_fault(status) ? kernels_.text() : what);
  }

  std::shared_ptr<State> state_;
  std::shared_ptr<Stream> stream_;
  Recent kernels_;
  EventHandle handle_ = nullptr;
};

class CudaGraph final : public device::Graph {
 public:
  CudaGraph(std::shared_ptr<State> state, std::shared_ptr<Stream> stream, void* executable)
      : state_(std::move(state)), stream_(std::move(stream)), executable_(executable) {}
  ~CudaGraph() override { state_->driver().destroy_graph(executable_); }
  void replay() override {
    state_->check(state_->driver().replay(executable_, stream_->handle()), "cannot replay a CUDA graph");
  }

 private:
  std::shared_ptr<State> state_;
  std::shared_ptr<Stream> stream_;
  void* executable_;
};

}  // namespace

namespace {

/// A capture by this thread: the queue, and the stream that takes its launches.
struct Capturing {
  const CudaQueue* queue = nullptr;
  StreamHandle stream = nullptr;
};
thread_local std::vector<Capturing> capturing;

/// Returns the capture stream of a queue; null if this thread does not capture the queue.
StreamHandle captured(const CudaQueue* queue) {
  const auto found =
      std::find_if(capturing.rbegin(), capturing.rend(), [&](const Capturing& c) { return c.queue == queue; });
  return found == capturing.rend() ? nullptr : found->stream;
}

/// Diverts this thread's launches on a queue to a stream during its lifetime. Diversions end in reverse order of their
/// start.
class Diverted {
 public:
  Diverted(const CudaQueue& queue, StreamHandle stream) { capturing.push_back({&queue, stream}); }
  ~Diverted() { capturing.pop_back(); }
  Diverted(const Diverted&) = delete;
  Diverted& operator=(const Diverted&) = delete;
};

/// Makes later work on the stream `later` start after all work so far on the stream `earlier`, which belongs to `of`.
void follow(State& of, StreamHandle earlier, State& later_of, StreamHandle later) {
  EventHandle event = nullptr;
  of.check(of.take_event(&event), "cannot create a CUDA event");
  const Status recorded = of.driver().record(event, earlier);
  const Status waited = recorded == 0 ? later_of.driver().wait_event(later, event) : recorded;
  of.keep_event(event);
  later_of.check(waited, "cannot order the work of two queues");
}

}  // namespace

std::shared_ptr<device::Event> CudaQueue::record() {
  state_->require_sound();
  return std::make_shared<CudaEvent>(state_, stream_, now(), recent());
}

void CudaQueue::after(const device::Event& event) {
  const auto* const mine = dynamic_cast<const CudaEvent*>(&event);
  require<MismatchError>(mine != nullptr, "cannot use an event of another kind of device");
  if (&mine->state() != state_.get())
    mine->state().require_sound();  // report a fault of the other GPU as a fault of that GPU
  state_->check(state_->driver().wait_event(now(), mine->handle()), "cannot order the work of two queues");
}

void CudaQueue::uses(const device::Buffer& buffer) {
  auto* const mine = dynamic_cast<CudaMemory*>(buffer.get());
  require<MismatchError>(mine != nullptr, "cannot use memory of another kind of device");
  mine->used_by(stream_);
}

void CudaQueue::require_no_capture() const {
  require<DeviceError>(captured(this) == nullptr, "cannot wait, upload or download during the capture of a graph");
}

StreamHandle CudaQueue::now() const {
  const StreamHandle diverted = captured(this);
  return diverted ? diverted : stream_->handle();
}

StreamHandle CudaQueue::lane() {
  if (lanes_.empty()) lanes_.push_back(std::make_unique<Stream>(state_));
  return lanes_.front()->handle();
}

std::unique_ptr<device::Graph> CudaQueue::capture(const std::function<void()>& body,
                                                  const std::vector<device::Queue*>& others) {
  require_no_capture();
  std::vector<CudaQueue*> all = {this};
  for (device::Queue* q : others) all.push_back(&own(*q));
  std::sort(all.begin(), all.end(), std::less<>());  // one order for all threads avoids deadlocks
  std::vector<std::unique_lock<std::mutex>> locks;
  for (CudaQueue* q : all) locks.emplace_back(q->capture_mutex_);
  std::erase(all, this);
  const StreamHandle stream = lane();
  std::vector<std::unique_ptr<Diverted>> diverted;
  std::size_t joined = 0;
  const auto leave = [&] {
    while (!diverted.empty()) diverted.pop_back();
    while (joined > 0) all[--joined]->state_->leave_capture();
  };
  state_->begin_capture(stream);
  void* executable = nullptr;
  try {
    diverted.push_back(std::make_unique<Diverted>(*this, stream));
    for (CudaQueue* q : all) {
      q->state_->join_capture(), ++joined;
      follow(*state_, stream, *q->state_, q->lane());
      diverted.push_back(std::make_unique<Diverted>(*q, q->lane()));
    }
    body();
    for (CudaQueue* q : all) follow(*q->state_, q->lane(), *state_, stream);
    leave();
  } catch (...) {
    leave();
    state_->end_capture(stream, &executable);
    if (executable) state_->driver().destroy_graph(executable);
    throw;
  }
  state_->check(state_->end_capture(stream, &executable), "cannot capture a CUDA graph");
  return std::make_unique<CudaGraph>(state_, stream_, executable);
}

void CudaQueue::beside(const std::vector<std::function<void()>>& parts) {
  constexpr std::size_t kLanes = 8;
  const std::size_t lanes = std::min(parts.size(), kLanes);
  if (captured(this) == nullptr || lanes < 2) return Queue::beside(parts);
  while (lanes_.size() < lanes) lanes_.push_back(std::make_unique<Stream>(state_));
  const StreamHandle main = lanes_.front()->handle();
  for (std::size_t i = 1; i < lanes; ++i) follow(*state_, main, *state_, lanes_[i]->handle());
  for (std::size_t i = 0; i < lanes; ++i) {
    const Diverted there(*this, lanes_[i]->handle());
    for (std::size_t part = i; part < parts.size(); part += lanes) parts[part]();
  }
  for (std::size_t i = 1; i < lanes; ++i) follow(*state_, lanes_[i]->handle(), *state_, main);
}

void CudaQueue::wait() {
  require_no_capture();
  state_->require_sound();
  ++state_->counts.waits;
  const Status status = state_->driver().synchronize(stream_->handle());
  if (status != 0) state_->check(status, recent().text());
  const std::lock_guard lock(mutex_);
  recent_.enqueued = 0;
}

void CudaQueue::launch(const Launch& l) {
  state_->require_sound();
  if (l.blocks == 0) return;
  ++state_->counts.launches;
  const bool in_graph = captured(this) != nullptr;
  const Status status = state_->driver().launch(l, now());
  if (status != 0) check(status, std::string("kernel ") + l.kernel);
  if (state_->waits_for_each() && !in_graph) {
    ++state_->counts.waits;
    state_->check(state_->driver().synchronize(stream_->handle()), std::string("kernel ") + l.kernel);
    return;
  }
  const std::lock_guard lock(mutex_);
  recent_.add(l.kernel);
}

void CudaQueue::check(Status status, const std::string& what) const {
  if (status == 0) return;
  const Recent last = recent();
  state_->check(status, state_->driver().is_fault(status) && last.enqueued > 0 ? last.text() : what);
}

Recent CudaQueue::recent() const {
  const std::lock_guard lock(mutex_);
  return recent_;
}

std::string Recent::text() const {
  if (enqueued == 0) return "waiting for the GPU";
  if (enqueued == 1) return std::string("kernel ") + names[0];
  const std::size_t shown = std::min(enqueued, kRemembered);
  std::string list =
      "one of " + std::to_string(enqueued) + " kernels (set HELIOGRAPH_GPU_SYNC=1 to find out which), the last ";
  for (std::size_t i = enqueued - shown; i < enqueued; ++i)
    list += std::string(i == enqueued - shown ? "" : ", ") + names[i % kRemembered];
  return list;
}

CudaQueue& own(device::Queue& queue) {
  auto* const mine = dynamic_cast<CudaQueue*>(&queue);
  require<MismatchError>(mine != nullptr, "cannot use a queue of another device");
  return *mine;
}

Table::Table(const std::shared_ptr<State>& state, const void* data, std::size_t bytes, std::size_t room) : state_(state) {
  Driver& driver = state_->driver();
  state_->require_sound();
  state_->check(state_->allocate(std::max({bytes, room, std::size_t{16}}), state_->table_stream(), &data_),
                "cannot allocate GPU memory for tables of constants");
  try {
    if (bytes) {
      ++state_->counts.uploads, state_->counts.upload_bytes += bytes;
      state_->check(driver.upload(data_, data, bytes, state_->table_stream()), "cannot upload tables of constants");
    }
    ++state_->counts.waits;
    state_->check(driver.synchronize(state_->table_stream()), "cannot upload tables of constants");
  } catch (...) {
    driver.free(data_, state_->table_stream());
    throw;
  }
}

Table::~Table() { state_->free_after_all(data_); }

}  // namespace heliograph::backend::cuda
