// One kernel call of a mesh as it is posted to the members: operands fetched to where they are needed, the call on each
// member, results put where they belong.
#pragma once

#include "mesh/queue.h"

namespace heliograph::mesh {

class Operation {
 public:
  Operation(State& state, Queue& queue);
  /// Frees temporary memory after all that was posted.
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  State& state() const { return state_; }
  /// The layout of the memory a view shows.
  Layout home(const View& v) const { return state_.find(v).layout(); }

  /// Where the words of `v` are, each with its view: what a call that writes `v` in its own layout is split into.
  std::vector<Block> parts(const View& v) const { return state_.find(v).blocks(v, false); }
  /// The same in rows: blocks of one batch axis.
  std::vector<Block> rows(const View& v) const { return state_.find(v).blocks(v, true); }
  /// Where they would be in another layout: without views. `primes` are those of its limbs.
  std::vector<Block> parts(const View& v, const PrimeList& primes, Layout layout) const;

  /// The words of `v` for each part, which says items, limbs and words of a limb: in place where the member holds them,
  /// else copied there. `keep`: the copies are kept with the memory for the next use. `any_limbs`: in place, more limbs
  /// may be shown than were asked for; see the blocks returned.
  std::vector<Block> fetch(const View& v, const std::vector<Block>& parts, bool keep = false, bool any_limbs = false);
  /// Uninitialised temporary memory for each part.
  std::vector<Block> room(const std::vector<Block>& parts, std::size_t components, Word word);
  /// Items of `v` for each member, those of `wanted` (numbers in `items`, which says the item of each that `v` shows): one after
  /// the other on the member, kept with the memory for the next use. `meanwhile` posts what needs none of them.
  using Meanwhile = std::function<void()>;
  std::vector<View> collect(const View& v, const std::vector<std::size_t>& items,
                            const std::vector<std::vector<math::u32>>& wanted, const Meanwhile& meanwhile);
  /// Copies results to where the words of `out` lie.
  void store(const std::vector<Block>& results, const View& out);
  struct Move {
    std::size_t from, to;  // members
    Pair pair;
  };
  void exchange(const std::vector<Move>& moves, const Meanwhile& meanwhile = {});
  /// Marks `out` as changed: kept copies of it are dropped.
  void writes(const View& out);
  /// Scratch on a member, for calls posted to it by this operation.
  std::byte* scratch(std::size_t member, std::size_t bytes);

  using Task = std::function<void(device::Device&, Queue&)>;
  void post(std::size_t member, Task task);
  /// A call on a member's views.
  void post(std::size_t member, device::Call call);

 private:
  Buffer allocate(std::size_t member, std::size_t bytes);
  void stage(const std::vector<Move>& moves);
  /// Sends to and receives from other ranks: one exchange of the transport for each member.
  void ship(const std::vector<Move>& moves, const Meanwhile& meanwhile);

  State& state_;
  MeshQueue& queue_;
  std::unique_lock<std::recursive_mutex> lock_;
  std::vector<std::vector<Buffer>> temporary_;
};

/// The primes of a part's limbs.
PrimeList primes_of(const Block& part, const PrimeList& primes);

}  // namespace heliograph::mesh
