// Shared state of a mesh: its members, their threads, and the locations of its allocations.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <optional>

#include "device/kernels.h"
#include "mesh/costs.h"
#include "mesh/mesh.h"
#include "mesh/placement.h"
#include "mesh/transport/transport.h"
#include "mesh/worker.h"

namespace heliograph::mesh {

using device::Buffer;
using device::Queue;
using math::u64;
using math::Word;

class State;

/// The items of a tensor that a view with one stride addresses: the `count` items item, item + step, ...
struct ItemRow {
  std::size_t item, count;
  std::ptrdiff_t step;

  std::size_t at(std::size_t k) const {
    return static_cast<std::size_t>(static_cast<std::ptrdiff_t>(item) + static_cast<std::ptrdiff_t>(k) * step);
  }
  bool operator==(const ItemRow&) const = default;
};

/// Returns whether all items of a view are the same item.
bool is_one_item(const View& v);

/// A range of a member's memory. While this object exists, the range of the member's memory remains allocated.
class Within final : public device::Memory {
 public:
  Within(Buffer whole, std::byte* address, std::size_t bytes) : Memory(address, bytes), whole_(std::move(whole)) {}
  const Buffer& whole() const { return whole_; }

 private:
  Buffer whole_;
};

/// One allocation over the members. The allocation's address only identifies the words (device/view.h); no device has memory
/// at this address.
class MeshMemory final : public device::Memory {
 public:
  /// Allocates by `placement`. `shape` is dense, without an address; `primes`: the primes of its limbs. Throws
  /// OutOfMemoryError.
  MeshMemory(std::shared_ptr<State> state, const View& shape, const PrimeList& primes, const Placement& placement,
             const std::vector<Queue*>& queues);
  /// Wraps `words`, a dense tensor that a member allocated.
  MeshMemory(std::shared_ptr<State> state, const View& shape, std::size_t member, Buffer words);
  ~MeshMemory() override;

  Layout layout() const { return layout_; }
  const View& shape() const { return shape_; }
  std::size_t items() const { return shape_.items(); }
  const Distribution& distribution() const { return distribution_; }
  /// Returns the member that holds all items; nullopt if several members do, or if the layout is not batch.
  std::optional<std::size_t> sole() const { return layout_ == Layout::batch ? distribution_.sole() : std::nullopt; }
  /// Changes the distribution in the batch layout. Call this function before any write. Throws OutOfMemoryError.
  void move_to(const Distribution& distribution, const std::vector<Queue*>& queues);
  /// Changes the layout to limbs. Call this function before any write.
  void move_to_limbs(const std::vector<Queue*>& queues);
  /// Returns the items of a view; nullopt if they have several strides.
  std::optional<ItemRow> row(const View& view) const;
  /// Returns, for each item of a view, the index of that item in this tensor.
  std::vector<std::size_t> items_of(const View& view) const;
  /// In the batch layout: returns a view of all items that a member holds, with the components and limbs of `view`. The
  /// address is null for members of other ranks.
  View held(const View& view, std::size_t member) const;
  /// Returns, for each member, the part of a view that it holds. With `in_rows`, each part has one batch axis.
  std::vector<Block> blocks(const View& view, bool in_rows) const;
  /// Returns the words on a member; null if the member holds none.
  const Buffer& local(std::size_t member) const { return local_[member].buffer; }

  /// A member's cached copy of words of other members: keys that every member needs, inputs of products.
  struct Copy {
    Block part;  // the copy's member, limbs and words
    std::size_t offset, components;
    View source;  // source of the copy
    View view;
    Buffer buffer;
    std::vector<std::size_t> items = {};  // the copy's items in order, if they differ from the items of `part`

    /// Returns whether the copy has the words of a view that begins `from` bytes after the start of the memory. `one`:
    /// checks only the words of the view's first item.
    bool shows(const View& v, std::size_t from, bool one = false) const;
  };
  /// Returns a member's cached copy of these inputs of a view; null if there is none. `items` has the item of each input.
  const Copy* cached_items(const View& view, std::size_t member, const std::vector<math::u32>& inputs,
                           const std::vector<std::size_t>& items) const;
  /// Returns whether members cache ranges of the words of the view's limbs.
  bool caches_ranges(const View& view) const;
  std::vector<Copy> copies;      // guarded by the mesh's mutex; a write to the memory removes its copies
  bool placement_fixed = false;  // the memory can no longer move, because it was written or its placement was given

 private:
  struct Local {
    std::size_t words = 0;  // words of an item
    Buffer buffer;
  };
  /// Returns a member's part of a view, from the member's first item on. begin_at sets another first item.
  Block block_of(const View& view, std::size_t member) const;
  void begin_at(Block& block, std::size_t place) const;
  std::size_t bytes_on(std::size_t member) const;
  void allocate(const std::vector<Queue*>& queues);
  void share_limbs();
  void hold(bool held);
  bool fits_elsewhere(const std::vector<Queue*>& queues);

  std::shared_ptr<State> state_;
  View shape_;
  PrimeList primes_;
  Layout layout_;
  Distribution distribution_;                    // used only in the batch layout
  std::vector<std::size_t> bounds_;              // coefficient layout: bounds of the members' words
  std::vector<std::vector<std::size_t>> limbs_;  // limb layout: the limbs that each member holds
  std::vector<std::size_t> owner_, rank_;        // limb layout: owner of each limb, and the limb's position on its owner
  std::vector<Local> local_;
};

struct Member {
  std::shared_ptr<device::Device> device;
  std::unique_ptr<Worker> worker;  // null for a member of another rank
  bool launches = false;           // the device executes enqueued work asynchronously, so any thread may enqueue
  std::size_t held = 0;            // bytes of tensors and cached copies; every rank counts them for all members
};

class State : public std::enable_shared_from_this<State> {
 public:
  State(std::vector<std::shared_ptr<device::Device>> devices, Options options, std::unique_ptr<Transport> transport);
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::size_t size() const { return members_.size(); }
  Member& member(std::size_t m) { return members_[m]; }
  const Member& member(std::size_t m) const { return members_[m]; }
  bool here(std::size_t m) const { return members_[m].worker != nullptr; }
  std::size_t rank_of(std::size_t m) const { return ranks_[m]; }
  /// Posts a task to a member's thread. Does nothing for a member of another rank. During an operation, tasks are collected
  /// and posted at its end. The caller must hold the mutex.
  void post(std::size_t m, Worker::Task task, bool always = false);
  /// Runs a task on this thread if the member's queue accepts any thread, its own thread is idle and no operation is open.
  /// Returns false otherwise. The caller must hold the mutex.
  template <class Task>
  bool run_here(std::size_t m, const Task& task) {
    Member& member = members_[m];
    if (!member.launches || operations_ > 0 || !member.worker->idle() || assigned_member()) return false;
    Worker::Entry entry{std::cref(task), false};
    member.worker->run_here(entry);
    return true;
  }
  /// Tasks between these two calls are collected. The calls may be nested. The caller must hold the mutex.
  void begin_operation();
  void end_operation();
  Transport& transport() const { return *transport_; }
  /// On every rank, replaces each member's value by the value that the member's own rank has.
  template <class T>
  void share(std::vector<T>& of_members) {
    const auto all = transport_->all_gather(std::as_bytes(std::span(of_members)));
    for (std::size_t m = 0; m < of_members.size(); ++m) {
      const auto& theirs = all[rank_of(m)];
      require<DeviceError>(theirs.size() == of_members.size() * sizeof(T),
                           "the ranks must run the same program; one rank made another call");
      std::memcpy(&of_members[m], theirs.data() + m * sizeof(T), sizeof(T));
    }
  }
  bool over_ranks() const { return transport_->size() > 1; }
  /// Returns the result of `make`, which works on one member. If `make` throws, the mesh ends on all ranks.
  template <class Make>
  auto guarded(Make make) {
    try {
      return make();
    } catch (...) {
      transport_->fail(std::current_exception());
      throw;
    }
  }
  /// Prepares a constant or plan on a member of this rank.
  template <class C>
  void prepare(std::size_t m, const C& constant) {
    if (!here(m)) return;
    auto& kernels = [&]() -> auto& {
      if constexpr (std::is_same_v<C, device::LayerConstant>)
        return members_[m].device->tfhe();
      else
        return members_[m].device->kernels();
    }
    ();
    if (!kernels.has(constant)) guarded([&] { kernels.prepare(constant); });
  }
  /// Index of the mesh's forms in constants.
  const device::Slot slot;
  const Options& options() const { return options_; }
  const std::vector<double>& weights() const { return costs_.weights; }
  /// Returns the weights by which limbs, and words of a limb, are shared; 0 for members without a share.
  const std::vector<double>& limb_weights() const { return limb_weights_; }
  const LimbOwners& owners() const { return *owners_; }
  /// Changes the weights by `change`, for a measurement. Returns the previous weights.
  template <class Change>
  std::vector<double> weigh(Change change) {
    const std::vector<double> before = costs_.weights;
    change(costs_.weights);
    limb_weights_ = costs_.weights;
    return before;
  }
  const Costs& costs() const { return costs_; }
  std::size_t fastest() const;
  /// Returns the member on which this thread puts results (ResultsOnMember), if any.
  std::optional<std::size_t> assigned_member() const;
  bool on_one_host(std::size_t a, std::size_t b) const { return hosts_[a] == hosts_[b]; }
  /// Returns the members of the host with the most members; empty if there is one host.
  std::vector<std::size_t> largest_group() const;
  /// Returns whether a member is simulated. Simulated members are not measured.
  bool simulated() const;
  /// Measures the members and links, or reads a cached measurement.
  void calibrate();
  /// Returns whether `to` can read the memory of `from` by address.
  bool reaches(std::size_t to, std::size_t from) const { return reach_[to * size() + from]; }
  /// Chooses the placement of a new tensor whose computation is unknown; see choice.cpp.
  Placement choose(const View& shape) const;
  Placement over_all(std::size_t items) const;
  /// Chooses the placement of a call's result before any write: that of its operands, unless another placement is faster,
  /// the moves of operands included.
  void place_result(const device::Call& call, Queue& queue);
  /// Returns whether a call of one ciphertext reads many keys. The owners of the ciphertext's limbs may share a long call.
  static bool is_long(const device::Call& call);
  /// Returns the predicted seconds of a long call over the limbs' owners, plus the error of predictions; nullopt for
  /// other calls.
  std::optional<double> seconds_shared(const device::Call& call) const;
  /// Returns the predicted seconds of a call over the limbs' owners. `out`: shape of the result; `moved`: bytes of
  /// operands on other members.
  template <class C>
  double seconds_over_limbs(const C& call, const View& out, double moved) const;

  /// Guards the order in which work is posted to the workers, and state that depends on this order.
  std::recursive_mutex& mutex() { return mutex_; }

  std::byte* new_address(std::size_t bytes, MeshMemory* memory);
  void forget(std::byte* address);
  /// Returns the memory of a view. Throws MismatchError for an address of another device.
  MeshMemory& find(const View& view);
  /// Allocates memory of a member. If memory is short, frees cached copies, then evicts residents. Over ranks it frees
  /// nothing, because other ranks would not know of it, so the mesh ends. Throws OutOfMemoryError.
  Buffer allocate(std::size_t m, std::size_t bytes, Queue& queue);
  /// Frees all cached copies. Returns false if there were none.
  bool drop_copies();
  /// Blocks until the members' threads are idle. Throws the exception of a failed task.
  void drain();
  /// Evictable memory of the mesh (device/residents.h).
  device::Residents* residents = nullptr;
  std::size_t cached_bytes();
  /// Returns the memory state of a member. Over ranks, the free memory is that at the start minus allocations, so that
  /// all ranks agree.
  device::MemoryState memory_of(std::size_t m) const;
  void hold(std::size_t m, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    members_[m].held += bytes;
  }
  void release(std::size_t m, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    members_[m].held -= bytes;
  }

  /// Number of exchanges, and bytes moved between members, since the mesh was opened.
  std::atomic<u64> exchanges{0}, exchanged_bytes{0}, staged_bytes{0};
  /// Returns the number of the next exchange, which is equal on all ranks. The caller must hold the mutex.
  u64 next_exchange() { return exchange_++; }
  void require_sound() const;

 private:
  template <class C>
  void place_result_of(const C& call, Queue& queue);
  /// Posts collected tasks to the threads. If only one member has tasks and its thread is idle, runs them on this thread,
  /// because waking a thread takes longer than a launch. Over ranks this function always posts the tasks, because an
  /// exchange would block this thread.
  void flush();

  Options options_;
  std::unique_ptr<Transport> transport_;  // must outlive the members' threads
  std::vector<Member> members_;
  std::vector<std::size_t> ranks_;
  std::vector<std::string> hosts_;            // host of each member; empty: this host
  std::vector<device::MemoryState> opening_;  // over ranks: free memory of each member at the start
  u64 exchange_ = 0;
  Costs costs_;
  std::vector<double> limb_weights_;
  std::unique_ptr<LimbOwners> owners_;
  std::size_t large_ = ~std::size_t{0};  // size of an item in bytes above which one member cannot hold it
  std::vector<char> reach_;
  mutable std::recursive_mutex mutex_;
  std::size_t operations_ = 0;                       // number of operations in progress
  std::atomic<std::thread::id> builder_{};           // thread of the operation in progress
  std::vector<std::vector<Worker::Entry>> waiting_;  // tasks that are collected for each member during an operation
  std::mutex book_mutex_;
  std::map<const std::byte*, MeshMemory*> book_;
  std::size_t next_ = std::size_t{1} << 56;  // above all addresses of hosts and devices
};

/// While this object exists, this thread's results are on a member.
class ResultsOnMember {
 public:
  ResultsOnMember(const State& state, std::size_t member);
  ~ResultsOnMember();
  ResultsOnMember(const ResultsOnMember&) = delete;
  ResultsOnMember& operator=(const ResultsOnMember&) = delete;

 private:
  const State* former_state_;
  std::size_t former_member_;
};

}  // namespace heliograph::mesh
