// What everything of one mesh shares: its members, their threads, where each allocation lies.
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

/// Items of a tensor that a view shows at one distance: item, item + step, ..., `count` of them.
struct ItemRow {
  std::size_t item, count;
  std::ptrdiff_t step;

  std::size_t at(std::size_t k) const {
    return static_cast<std::size_t>(static_cast<std::ptrdiff_t>(item) + static_cast<std::ptrdiff_t>(k) * step);
  }
  bool operator==(const ItemRow&) const = default;
};

/// Whether all items of a view are one.
bool is_one_item(const View& v);

/// A stretch of a member's memory, which it holds.
class Within final : public device::Memory {
 public:
  Within(Buffer whole, std::byte* address, std::size_t bytes) : Memory(address, bytes), whole_(std::move(whole)) {}
  const Buffer& whole() const { return whole_; }

 private:
  Buffer whole_;
};

/// One allocation over the members. Its address belongs to no device: it identifies the words, see device/view.h.
class MeshMemory final : public device::Memory {
 public:
  /// Lies as `placement` says; `shape` is dense (its data is not looked at), `primes` are those of its limbs.
  /// Throws OutOfMemoryError.
  MeshMemory(std::shared_ptr<State> state, const View& shape, const PrimeList& primes, const Placement& placement,
             const std::vector<Queue*>& queues);
  /// Shows words that a member made, as a dense tensor that lies whole there.
  MeshMemory(std::shared_ptr<State> state, const View& shape, std::size_t member, Buffer words);
  ~MeshMemory() override;

  Layout layout() const { return layout_; }
  const View& shape() const { return shape_; }
  std::size_t items() const { return shape_.items(); }
  /// By items: which member holds which.
  const Deal& deal() const { return deal_; }
  /// The member on which all of it lies, as one device would have it.
  std::optional<std::size_t> sole() const { return layout_ == Layout::batch ? deal_.sole() : std::nullopt; }
  /// By items, before anything is written: its items are to lie so. Throws OutOfMemoryError.
  void move_to(const Deal& deal, const std::vector<Queue*>& queues);
  /// The items of a view; none where they lie at several distances.
  std::optional<ItemRow> row(const View& view) const;
  /// The item of each of a view's.
  std::vector<std::size_t> items_of(const View& view) const;
  /// By items: all that a member holds, of a view's components and limbs; at no address for a member of another rank.
  View held(const View& view, std::size_t member) const;
  /// The words of a view of this memory on each member that has some. In rows: views of one axis.
  std::vector<Block> blocks(const View& view, bool in_rows) const;
  /// Its words on a member; may be null.
  const Buffer& local(std::size_t member) const { return local_[member].buffer; }

  /// A copy of another member's words, kept for the next use: keys that every member needs, inputs of products.
  struct Copy {
    Block part;  // member, limbs and words of it
    std::size_t offset, components;
    View source;  // what it was made of
    View view;
    Buffer buffer;
    std::vector<std::size_t> items = {};  // where not those of `part`: which, in this order

    /// Whether it was made of the words that a view of this memory shows `from` bytes on; of its one item, where it has no other.
    bool shows(const View& v, std::size_t from, bool one = false) const;
  };
  /// A member's copy of these of the inputs that a view shows, each of the item that `items` says; null where there is none.
  const Copy* kept_items(const View& view, std::size_t member, const std::vector<math::u32>& inputs,
                         const std::vector<std::size_t>& items) const;
  /// Whether members keep stretches of its limbs.
  bool kept_stretches(const View& view) const;
  std::vector<Copy> copies;  // guarded by the mesh's mutex; emptied when the memory is written
  bool settled = false;      // it has been written, or lies where it was asked to: it stays

 private:
  struct Local {
    std::size_t words = 0;  // of an item
    Buffer buffer;
  };
  /// What a member has of a view, from its first item on: `begin_at` says which that is.
  Block block_of(const View& view, std::size_t member) const;
  void begin_at(Block& block, std::size_t place) const;
  std::size_t bytes_on(std::size_t member) const;
  void allocate(const std::vector<Queue*>& queues);
  void hold(bool held);
  bool fits_elsewhere(const std::vector<Queue*>& queues);

  std::shared_ptr<State> state_;
  View shape_;
  Layout layout_;
  Deal deal_;                                    // by items
  std::vector<std::size_t> bounds_;              // coefficient layout: of the members' words
  std::vector<std::vector<std::size_t>> limbs_;  // limb layout: each member's
  std::vector<std::size_t> owner_, rank_;        // limb layout: each limb's
  std::vector<Local> local_;
};

/// One device of the mesh.
struct Member {
  std::shared_ptr<device::Device> device;
  std::unique_ptr<Worker> worker;  // none: of another rank
  bool launches = false;           // what is enqueued runs by itself: any thread may enqueue it, and is soon done
  std::size_t held = 0;            // bytes of tensors and kept copies: known of all members on all ranks
};

class State : public std::enable_shared_from_this<State> {
 public:
  State(std::vector<std::shared_ptr<device::Device>> devices, Options options, std::unique_ptr<Transport> transport);
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::size_t size() const { return members_.size(); }
  Member& member(std::size_t m) { return members_[m]; }
  const Member& member(std::size_t m) const { return members_[m]; }
  /// Whether a member is this rank's.
  bool here(std::size_t m) const { return members_[m].worker != nullptr; }
  std::size_t rank_of(std::size_t m) const { return ranks_[m]; }
  /// Posts to a member's thread; does nothing for a member of another rank. While an operation is put together, with all of its
  /// tasks at its end. The mutex is held.
  void post(std::size_t m, Worker::Task task, bool always = false);
  /// Runs a task at once, on this thread, where a member's queue takes it from any and nothing waits for the member's own
  /// thread, nor for an operation's end; else false. The mutex is held.
  template <class Task>
  bool run_here(std::size_t m, const Task& task) {
    Member& member = members_[m];
    if (!member.launches || operations_ > 0 || !member.worker->idle() || put_on()) return false;
    Worker::Entry entry{std::cref(task), false};
    member.worker->run_here(entry);
    return true;
  }
  /// Between these two tasks are gathered (they may be nested). The mutex is held.
  void begin_operation();
  void end_operation();
  Transport& transport() const { return *transport_; }
  /// Replaces each member's value by that of its own rank, on every rank.
  template <class T>
  void share(std::vector<T>& of_members) {
    const auto all = transport_->all_gather(std::as_bytes(std::span(of_members)));
    for (std::size_t m = 0; m < of_members.size(); ++m) {
      const auto& theirs = all[rank_of(m)];
      require<DeviceError>(theirs.size() == of_members.size() * sizeof(T), "a rank does not run the same program");
      std::memcpy(&of_members[m], theirs.data() + m * sizeof(T), sizeof(T));
    }
  }
  bool over_ranks() const { return transport_->size() > 1; }
  /// What `make` returns, made for one member alone. Where it fails, the other ranks fail too.
  template <class Make>
  auto guarded(Make make) {
    try {
      return make();
    } catch (...) {
      transport_->fail(std::current_exception());
      throw;
    }
  }
  /// Sees to it that a member of this rank has its form of a constant, or of all that a plan names.
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
  /// Where the mesh has its own forms of constants.
  const device::Slot slot;
  const Options& options() const { return options_; }
  const std::vector<double>& weights() const { return costs_.weights; }
  /// Of limbs and of words of a limb: 0 for a member that has none.
  const std::vector<double>& limb_weights() const { return limb_weights_; }
  const LimbOwners& owners() const { return *owners_; }
  /// Changes the weights by `change`, for a measurement; returns what they were.
  template <class Change>
  std::vector<double> weigh(Change change) {
    const std::vector<double> before = costs_.weights;
    change(costs_.weights);
    limb_weights_ = costs_.weights;
    return before;
  }
  const Costs& costs() const { return costs_; }
  /// The member with the largest share.
  std::size_t fastest() const;
  /// The member that this thread's part of a program was put on, see Homed.
  std::optional<std::size_t> put_on() const;
  bool on_one_host(std::size_t a, std::size_t b) const { return hosts_[a] == hosts_[b]; }
  /// The most members that one host has (the first such host's); none where all are of one host.
  std::vector<std::size_t> largest_group() const;
  /// Whether a member is simulated: its seconds are nobody's, and are not measured.
  bool simulated() const;
  /// Measures (or remembers) the members and their links.
  void calibrate();
  /// Whether `to` reads the memory of `from` by its address.
  bool reaches(std::size_t to, std::size_t from) const { return reach_[to * size() + from]; }
  /// Where a tensor of that shape should lie, as long as nothing is known of what is computed: see choice.cpp.
  Placement choose(const View& shape) const;
  /// By items, over all members.
  Placement over_all(std::size_t items) const;
  /// Where the result of a call, which is not written yet, lies best: where its operands do, unless what it takes is less
  /// elsewhere, moving them included.
  void settle(const device::Call& call, Queue& queue);

  /// Guards the order in which work is posted to the workers, and what follows from it.
  std::recursive_mutex& mutex() { return mutex_; }

  std::byte* new_address(std::size_t bytes, MeshMemory* memory);
  void forget(std::byte* address);
  /// The memory a view shows. Throws MismatchError for an address of another device.
  MeshMemory& find(const View& view);
  /// Memory of a member. Where none is left, kept copies are freed first, then residents. Over ranks neither, for the other
  /// ranks would not know of it: running out of memory ends the mesh.
  /// Throws OutOfMemoryError.
  Buffer allocate(std::size_t m, std::size_t bytes, Queue& queue);
  /// Frees all kept copies; false where there were none.
  bool drop_copies();
  /// Blocks until the members' threads have nothing left to do. Throws what a task threw.
  void drain();
  /// The residents of the Device that this is the state of.
  device::Residents* residents = nullptr;
  std::size_t kept_bytes();
  /// Free memory of a member; over ranks what was free at the start less what is allocated, so that all ranks have one figure.
  device::MemoryState memory_of(std::size_t m) const;
  void hold(std::size_t m, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    members_[m].held += bytes;
  }
  void release(std::size_t m, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    members_[m].held -= bytes;
  }

  /// Bytes moved between members, and in how many exchanges, since the mesh was opened.
  std::atomic<u64> exchanges{0}, exchanged_bytes{0}, staged_bytes{0};
  /// Numbers exchanges, alike on all ranks; the mutex is held.
  u64 next_exchange() { return exchange_++; }
  void require_sound() const;

 private:
  /// What waits to be posted goes out: to the threads; where one member alone has tasks and its thread is idle, it is done
  /// here, for waking a thread takes longer than a launch. Not over ranks: an exchange waits for them.
  void flush();

  Options options_;
  std::unique_ptr<Transport> transport_;  // outlives the members' threads
  std::vector<Member> members_;
  std::vector<std::size_t> ranks_;
  std::vector<std::string> hosts_;            // each member's; empty: this one
  std::vector<device::MemoryState> opening_;  // over ranks
  u64 exchange_ = 0;
  Costs costs_;
  std::vector<double> limb_weights_;
  std::unique_ptr<LimbOwners> owners_;
  std::size_t large_ = ~std::size_t{0};  // bytes of an item that are too many for one member
  std::vector<char> reach_;
  mutable std::recursive_mutex mutex_;
  std::size_t operations_ = 0;                       // begun, not ended
  std::atomic<std::thread::id> builder_{};           // whose operation it is
  std::vector<std::vector<Worker::Entry>> waiting_;  // of each member, while there is an operation
  std::mutex book_mutex_;
  std::map<const std::byte*, MeshMemory*> book_;
  std::size_t next_ = std::size_t{1} << 56;  // beyond any host's or device's addresses
};

/// While it is there, what this thread makes lies on that member.
class Homed {
 public:
  Homed(const State& state, std::size_t member);
  ~Homed();
  Homed(const Homed&) = delete;
  Homed& operator=(const Homed&) = delete;

 private:
  const State* former_state_;
  std::size_t former_member_;
};

}  // namespace heliograph::mesh
