// A simulated GPU driver: host memory, immediate copies, recorded but not executed launches, and injected failures. The fake
// checks calls as the CUDA runtime would (`misuse`) and reports unreleased objects (`left`). Several simulated GPUs may
// exist and wait for each other's events.
#pragma once

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "backend/cuda/runtime/driver.h"

namespace heliograph::test {

class FakeDriver final : public backend::cuda::Driver {
 public:
  using Status = backend::cuda::Status;
  using StreamHandle = backend::cuda::StreamHandle;
  using EventHandle = backend::cuda::EventHandle;

  static constexpr Status kInvalid = 1, kOutOfMemory = 2, kFault = 700;
  static constexpr std::size_t kMemory = std::size_t{1} << 30;

  struct Call {
    std::string what;  // name of the called driver function
    StreamHandle stream;
    const void* subject;  // memory, event or graph that the call is about
  };

  /// `peers`: whether this GPU can read the memory of the other simulated GPUs that have `peers`, and these GPUs can read
  /// its memory.
  explicit FakeDriver(bool peers = true) : peers_(peers) {}
  ~FakeDriver() override {
    for (const auto& [event, live] : events_) all_events().erase(event);
  }

  // ---- Injected failures

  /// Makes the k-th next call of this name (k = 1 is the next) return `status`. If `ever_after` is set, all later calls of
  /// this name fail, too.
  void fail(const std::string& what, std::size_t k, Status status, bool ever_after = false) {
    const std::lock_guard lock(mutex_);
    order_ = {.what = what, .left = k, .status = status, .ever_after = ever_after};
    struck_ = false;
  }
  /// Makes the kernel of the k-th next launch fault. The next waiting call reports the fault; with `seen_at_once` the next
  /// call of any kind does. After that every call fails, as on a real GPU.
  void fault(std::size_t k, bool seen_at_once = false) {
    const std::lock_guard lock(mutex_);
    fault_at_ = launches_.size() + k, seen_at_once_ = seen_at_once;
  }
  /// Removes the injected failure.
  void heal() {
    const std::lock_guard lock(mutex_);
    order_ = {};
  }
  /// Returns whether the injected failure has occurred.
  bool struck() const { return struck_; }

  // ---- Observations

  std::vector<Call> calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  /// Returns the argument of the last trim: bytes that the driver's memory pool may keep.
  std::size_t trimmed() const {
    const std::lock_guard lock(mutex_);
    return trimmed_;
  }
  std::size_t count(const std::string& what) const {
    const std::lock_guard lock(mutex_);
    const auto found = counts_.find(what);
    return found == counts_.end() ? 0 : found->second;
  }
  std::map<std::string, std::size_t> counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  /// Returns the names of all launched kernels.
  std::vector<std::string> launches() const {
    const std::lock_guard lock(mutex_);
    return launches_;
  }
  std::size_t uploaded_bytes() const { return uploaded_; }
  std::size_t downloaded_bytes() const { return downloaded_; }
  /// Returns the misuse of the driver's functions so far, or "".
  std::string misuse() const {
    const std::lock_guard lock(mutex_);
    return misuse_;
  }
  /// Returns the objects that were created and not released, or "".
  std::string left() const {
    const std::lock_guard lock(mutex_);
    std::string text;
    const auto tell = [&](std::size_t n, const char* of) { text += n ? std::to_string(n) + " " + of + " " : ""; };
    tell(memory_.size(), "allocations"), tell(streams_.size(), "streams");
    tell(events_.size(), "events"), tell(graphs_.size(), "graphs"), tell(pinned_.size(), "pinned blocks");
    return text;
  }

  // ---- Driver

  backend::cuda::Properties properties() override {
    return {.name = "a simulated GPU",
            .major = 9,
            .minor = 0,
            .processors = 132,
            .memory = kMemory,
            .shared_bytes_a_block = 227 << 10,
            .l2_bytes = 50 << 20};
  }
  Status memory(std::size_t* available, std::size_t* total, std::size_t* pooled) override {
    const std::lock_guard lock(mutex_);
    *total = kMemory, *available = kMemory - allocated_, *pooled = 0;
    return enter("memory");
  }
  Status make_stream(StreamHandle* s) override { return make("make_stream", streams_, s); }
  Status destroy_stream(StreamHandle s) override {
    const std::lock_guard lock(mutex_);
    const Status status = enter("destroy_stream", s);
    perform(s, ~std::size_t{0});
    streams_.erase(s);
    return status;
  }
  Status make_event(EventHandle* e) override {
    const Status status = make("make_event", events_, e);
    if (status == 0) all_events().insert(*e);
    return status;
  }
  Status destroy_event(EventHandle e) override {
    all_events().erase(e);
    return destroy("destroy_event", events_, e);
  }
  Status record(EventHandle e, StreamHandle s) override {
    const std::lock_guard lock(mutex_);
    require(events_.contains(e), "record of an event that was destroyed or belongs to another GPU");
    recorded_[e] = {s, copies_[s].first + copies_[s].list.size()};
    return enter("record", s, e);
  }
  Status wait_event(StreamHandle s, EventHandle e) override {
    const std::lock_guard lock(mutex_);
    require(all_events().contains(e), "a stream waits for a destroyed event");
    return enter("wait_event", s, e);
  }
  Status synchronize_event(EventHandle e) override {
    const std::lock_guard lock(mutex_);
    require(events_.contains(e), "the host waits for a destroyed event");
    const Status status = enter("synchronize_event", nullptr, e, true);
    const auto found = recorded_.find(e);
    if (status == 0 && found != recorded_.end()) perform(found->second.stream, found->second.copies);
    return status;
  }
  Status synchronize(StreamHandle s) override {
    const std::lock_guard lock(mutex_);
    const Status status = enter("synchronize", s, nullptr, true);
    if (status == 0) perform(s, ~std::size_t{0});
    return status ? status : uncapturable(s);
  }
  Status allocate(void** p, std::size_t bytes, StreamHandle s) override {
    const std::lock_guard lock(mutex_);
    Status status = enter("allocate", s);
    if (status == 0 && bytes > kMemory - allocated_) status = kOutOfMemory;
    if (status) return status;
    require(bytes > 0, "an allocation of 0 bytes");
    *p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    memory_[*p] = bytes, allocated_ += bytes;
    calls_.back().subject = *p;
    return 0;
  }
  Status free(void* p, StreamHandle s) override {
    const std::lock_guard lock(mutex_);
    const Status status = enter("free", s, p);
    for (auto& [stream, copies] : copies_) perform(stream, ~std::size_t{0});
    const auto found = memory_.find(p);
    require(found != memory_.end(), "memory was freed twice or never allocated");
    if (found != memory_.end()) {
      allocated_ -= found->second;
      memory_.erase(found);
      std::free(p);
    }
    return status;
  }
  Status trim(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    trimmed_ = bytes;
    return enter("trim");
  }
  Status pin(void* pages, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    const Status status = enter("pin", nullptr, pages);
    require(reinterpret_cast<std::uintptr_t>(pages) % 4096 == 0 && bytes == kPinned,
            "pinned memory is not a page-aligned block of the expected size");
    if (status == 0) require(pinned_.insert(pages).second, "pages were pinned twice");
    return status;
  }
  Status unpin(void* pages) override {
    const std::lock_guard lock(mutex_);
    for (const auto& [stream, copies] : copies_) require(copies.list.empty(), "pages were unpinned during a copy");
    require(pinned_.erase(pages) == 1, "pages were unpinned that were not pinned");
    return enter("unpin", nullptr, pages);
  }
  Status upload(void* to, const void* from, std::size_t bytes, StreamHandle s) override {
    const std::lock_guard lock(mutex_);
    Status status = enter("upload", s, to);
    if (status == 0) status = uncapturable(s);
    if (status == 0 && inside(to, bytes)) copy(s, to, from, bytes, from);
    uploaded_ += bytes;
    return status;
  }
  Status download(void* to, const void* from, std::size_t bytes, StreamHandle s) override {
    const std::lock_guard lock(mutex_);
    const bool waits = !is_pinned(to);
    Status status = enter("download", s, from, waits);
    if (status == 0) status = uncapturable(s);
    if (status == 0 && inside(from, bytes)) copy(s, to, from, bytes, to);
    if (waits) perform(s, ~std::size_t{0});
    downloaded_ += bytes;
    return status;
  }
  Status launch(const backend::cuda::Launch& l, StreamHandle s) override {
    const std::lock_guard lock(mutex_);
    const Status status = enter("launch", s, l.function);
    require(l.kernel != nullptr && l.function != nullptr && l.arguments != nullptr, "a launch without a kernel");
    require(l.blocks > 0 && l.blocks < 1u << 31 && l.threads > 0 && l.threads <= 1024, "a launch with an invalid size");
    require(l.shared_bytes <= properties().shared_bytes_a_block, "a launch with more shared memory than a block may use");
    launches_.push_back(l.kernel ? l.kernel : "");
    if (launches_.size() == fault_at_) hurt_ = true;
    return status;
  }
  int number() const override { return number_; }
  bool reach(Driver& other) override {
    const auto* const theirs = dynamic_cast<const FakeDriver*>(&other);
    const std::lock_guard lock(mutex_);
    calls_.push_back({"reach", nullptr, theirs});
    ++counts_["reach"];
    return theirs != nullptr && peers_ && theirs->peers_;
  }
  Status begin_capture(StreamHandle s) override {
    const std::lock_guard lock(mutex_);
    const Status status = enter("begin_capture", s);
    require(!capturing_.contains(s), "a capture inside a capture");
    if (status == 0) capturing_[s] = true;
    return status;
  }
  Status end_capture(StreamHandle s, void** graph) override {
    const std::lock_guard lock(mutex_);
    const Status status = enter("end_capture", s);
    require(capturing_.contains(s), "a capture was ended that never began");
    const bool whole = capturing_[s];
    capturing_.erase(s);
    if (status || !whole) return status ? status : kInvalid;
    graphs_[*graph = new_handle()] = true;
    return 0;
  }
  Status replay(void* graph, StreamHandle s) override {
    const std::lock_guard lock(mutex_);
    require(graphs_.contains(graph), "a destroyed graph was replayed");
    return enter("replay", s, graph);
  }
  Status destroy_graph(void* graph) override { return destroy("destroy_graph", graphs_, graph); }
  std::string describe(Status s) override {
    return s == kOutOfMemory ? "out of memory"
           : s == kFault     ? "an illegal memory access was encountered"
                             : "invalid argument";
  }
  bool is_out_of_memory(Status s) override { return s == kOutOfMemory; }
  bool is_fault(Status s) override { return s == kFault; }

 private:
  static int next_number() {
    static std::atomic<int> next{0};
    return next++;
  }
  const int number_ = next_number();
  using Handles = std::map<void*, bool>;
  /// The events of all simulated GPUs; any stream may wait for any of these events.
  class Events {
   public:
    void insert(EventHandle e) {
      const std::lock_guard lock(mutex_);
      live_.insert(e);
    }
    void erase(EventHandle e) {
      const std::lock_guard lock(mutex_);
      live_.erase(e);
    }
    bool contains(EventHandle e) {
      const std::lock_guard lock(mutex_);
      return live_.contains(e);
    }

   private:
    std::mutex mutex_;
    std::set<EventHandle> live_;
  };
  static Events& all_events() {
    static Events events;
    return events;
  }
  struct Order {
    std::string what;
    std::size_t left = 0;
    Status status = 0;
    bool ever_after = false;
  };

  // Callers of the functions below hold the mutex.

  /// Records a call and returns its status: success, the status of a fault, or the status of an injected failure.
  Status enter(const char* what, StreamHandle stream = nullptr, const void* subject = nullptr, bool waits = false) {
    require(stream == nullptr || streams_.contains(stream), std::string(what) + " on a destroyed stream");
    calls_.push_back({what, stream, subject});
    ++counts_[what];
    if (hurt_ && (waits || seen_at_once_)) faulted_ = true;
    if (faulted_) return kFault;
    if (order_.what != what || order_.left == 0 || (order_.left > 1 && order_.left-- > 0)) return 0;
    struck_ = true;
    order_.left = order_.ever_after ? 1 : 0;
    return order_.status;
  }
  void require(bool ok, const std::string& message) {
    if (!ok) misuse_ += message + "; ";
  }
  /// Returns the status of a call that cannot be captured. A call that cannot be captured makes a running capture invalid.
  Status uncapturable(StreamHandle s) {
    const auto found = capturing_.find(s);
    if (found == capturing_.end()) return 0;
    found->second = false;
    return kInvalid;
  }
  bool is_pinned(const void* p) const {
    const auto next = pinned_.upper_bound(const_cast<void*>(p));
    return next != pinned_.begin() &&
           static_cast<const std::byte*>(p) < static_cast<const std::byte*>(*std::prev(next)) + kPinned;
  }
  /// Enqueues a copy from or to the host memory `host`. A copy with pinned memory is performed only when a call waits for
  /// it.
  void copy(StreamHandle s, void* to, const void* from, std::size_t bytes, const void* host) {
    copies_[s].list.push_back({to, from, bytes});
    if (!is_pinned(host)) perform(s, ~std::size_t{0});
  }
  /// Performs the stream's pending copies whose numbers are below `number`.
  void perform(StreamHandle s, std::size_t number) {
    Copies& copies = copies_[s];
    for (; !copies.list.empty() && copies.first < number; copies.list.pop_front(), ++copies.first)
      std::memcpy(copies.list.front().to, copies.list.front().from, copies.list.front().bytes);
  }
  bool inside(const void* p, std::size_t bytes) {
    auto next = memory_.upper_bound(const_cast<void*>(p));
    const bool ok = next != memory_.begin() && (--next, static_cast<const std::byte*>(p) + bytes <=
                                                            static_cast<std::byte*>(next->first) + next->second);
    require(ok, "a copy beyond the memory allocated");
    return ok;
  }
  /// Returns a handle that is unique among all simulated GPUs.
  static void* new_handle() {
    static std::atomic<std::uintptr_t> next{0x1000};
    return reinterpret_cast<void*>(next += 16);
  }
  Status make(const char* what, Handles& handles, void** handle) {
    const std::lock_guard lock(mutex_);
    if (const Status status = enter(what)) return status;
    handles[*handle = new_handle()] = true;
    calls_.back().subject = *handle;
    return 0;
  }
  Status destroy(const char* what, Handles& handles, void* handle) {
    const std::lock_guard lock(mutex_);
    const Status status = enter(what, nullptr, handle);
    require(handles.erase(handle) == 1, std::string(what) + " of an object that was already destroyed");
    return status;
  }

  const bool peers_;
  mutable std::mutex mutex_;
  Order order_;
  std::atomic<bool> struck_{false};
  std::size_t fault_at_ = 0;
  bool seen_at_once_ = false, hurt_ = false, faulted_ = false;
  Handles streams_, events_, graphs_, capturing_;  // capturing_: the bool tells whether the capture is still valid
  std::map<void*, std::size_t> memory_;
  static constexpr std::size_t kPinned = std::size_t{1} << 20;  // size of a pinned block in bytes
  std::set<void*> pinned_;
  struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
  };
  struct Copies {
    std::deque<Copy> list;
    std::size_t first = 0;  // number of the first copy in the list
  };
  std::map<StreamHandle, Copies> copies_;
  struct Recorded {
    StreamHandle stream;
    std::size_t copies;
  };
  std::map<EventHandle, Recorded> recorded_;
  std::size_t allocated_ = 0, trimmed_ = 0;
  std::atomic<std::size_t> uploaded_{0}, downloaded_{0};
  std::vector<Call> calls_;
  std::map<std::string, std::size_t> counts_;
  std::vector<std::string> launches_;
  std::string misuse_;
};

}  // namespace heliograph::test
