// One kernel call of a mesh. The call fetches operands to the members, runs on each of them, and stores results at their
// locations.
#pragma once

#include "mesh/queue.h"

namespace heliograph::mesh {

class Operation {
 public:
  Operation(State& state, Queue& queue);
  /// Frees temporary memory after the work that was posted so far.
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  State& state() const { return state_; }
  Layout home(const View& v) const { return state_.find(v).layout(); }

  /// Returns the parts of a call that writes `v` in its own layout: for each member, the words that it holds, and their
  /// view.
  std::vector<Block> parts(const View& v) const { return state_.find(v).blocks(v, false); }
  /// Returns these parts with one batch axis each.
  std::vector<Block> rows(const View& v) const { return state_.find(v).blocks(v, true); }
  /// Returns the parts in another layout, without views. `primes`: the primes of the view's limbs.
  std::vector<Block> parts(const View& v, const PrimeList& primes, Layout layout) const;

  /// Provides the words of `v` that each part needs: its items, limbs, and words of a limb. Returns views of words that the
  /// member holds, and views of copies for all other words. `keep`: caches the copies with the memory. `any_limbs`: views
  /// without copies may have more limbs than requested; the returned blocks list them.
  std::vector<Block> fetch(const View& v, const std::vector<Block>& parts, bool keep = false, bool any_limbs = false);
  /// Runs `fetches`, a function that calls fetch() several times, and moves the words of all these calls in one
  /// exchange.
  void together(const std::function<void()>& fetches);
  /// Allocates temporary memory, uninitialised, for each part.
  std::vector<Block> room(const std::vector<Block>& parts, std::size_t components, Word word);
  /// Provides items of `v` on each member, contiguous and cached with the memory. `wanted` has, for each member, indices
  /// into `items`, the list of item numbers. `meanwhile` posts work that does not need these items.
  using Meanwhile = std::function<void()>;
  std::vector<View> collect(const View& v, const std::vector<std::size_t>& items,
                            const std::vector<std::vector<math::u32>>& wanted, const Meanwhile& meanwhile);
  /// Copies results to the members that hold the words of `out`.
  void store(const std::vector<Block>& results, const View& out);
  struct Move {
    std::size_t from, to;  // source and destination members
    Pair pair;
  };
  void exchange(const std::vector<Move>& moves, const Meanwhile& meanwhile = {});
  /// Drops cached copies of `out`, whose words change.
  void writes(const View& out);
  /// Allocates scratch on a member for the calls of this operation.
  std::byte* scratch(std::size_t member, std::size_t bytes);

  using Task = std::function<void(device::Device&, Queue&)>;
  void post(std::size_t member, Task task);
  void post(std::size_t member, device::Call call);

 private:
  Buffer allocate(std::size_t member, std::size_t bytes);
  void stage(const std::vector<Move>& moves);
  /// Exchanges words with other ranks, by one exchange of the transport for each member.
  void ship(const std::vector<Move>& moves, const Meanwhile& meanwhile);

  /// A copy to cache, which an exchange fills, and the memory that it copies.
  struct Fresh {
    MeshMemory* memory;
    MeshMemory::Copy copy;
  };
  struct Pending {
    std::vector<Move> moves;
    std::vector<Fresh> fresh;
  };
  void finish(Pending pending);

  State& state_;
  MeshQueue& queue_;
  std::optional<Pending> pending_;  // set while several fetches share one exchange
  std::unique_lock<std::recursive_mutex> lock_;
  std::vector<std::vector<Buffer>> temporary_;
};

PrimeList primes_of(const Block& part, const PrimeList& primes);

}  // namespace heliograph::mesh
