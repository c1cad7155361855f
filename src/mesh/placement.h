// Distribution of a tensor over the members of a mesh.
#pragma once

#include <optional>
#include <vector>

#include "device/view.h"

namespace heliograph::mesh {

using device::PrimeIndex;
using device::PrimeList;
using device::View;

enum class Layout : unsigned char {
  batch,        // a member has all words of some items
  limb,         // a member has some limbs of every item
  coefficient,  // a member has a range of every limb's words
};
const char* to_string(Layout);

/// Distribution of a tensor by items: in consecutive shares of all items, in shares of each repetition, or round robin.
class Distribution {
 public:
  Distribution() = default;
  /// Member m holds items [bounds[m], bounds[m + 1]).
  static Distribution shares(std::vector<std::size_t> bounds);
  /// The items consist of blocks of bounds.back() items. Member m holds items [bounds[m], bounds[m + 1]) of each block, for
  /// example the same rows of each picture in a batch.
  static Distribution repeated(std::vector<std::size_t> bounds, std::size_t items);
  /// Item i is on member order[i / block % order.size()]; `order` has no duplicates. The items of a small slice are then on
  /// many members, in the order of a new tensor of this many items.
  static Distribution round(std::vector<std::size_t> order, std::size_t items, std::size_t block = 1);
  static Distribution whole(std::size_t member, std::size_t items) { return round({member}, items); }

  bool in_shares() const { return order_.empty() && stretch() == items_; }
  /// Returns the bounds of the shares, or of the shares within a repetition.
  const std::vector<std::size_t>& bounds() const { return bounds_; }
  /// Returns the number of items of a repetition; 0 for round robin.
  std::size_t stretch() const { return bounds_.empty() ? 0 : bounds_.back(); }
  const std::vector<std::size_t>& order() const { return order_; }
  std::size_t block() const { return block_; }
  std::size_t items() const { return items_; }
  std::size_t owner(std::size_t item) const;
  /// Returns the index of an item among the items of its owner.
  std::size_t place(std::size_t item) const;
  std::size_t items_on(std::size_t member) const;
  /// Returns the member of all items; nullopt if there are several members or no items.
  std::optional<std::size_t> sole() const;
  bool operator==(const Distribution&) const = default;

 private:
  std::vector<std::size_t> bounds_, order_;
  std::size_t block_ = 1, items_ = 0;
};

/// Returns the bounds of consecutive shares of `count`, proportional to `weights`, in multiples of `unit`. The last
/// member with a nonzero weight gets the rest. The result has one element more than `weights`.
std::vector<std::size_t> shares(std::size_t count, const std::vector<double>& weights, std::size_t unit = 1);

struct Placement {
  Layout layout = Layout::batch;
  Distribution distribution = {};  // used only in the batch layout
};

/// The owner of each prime's limb in all tensors. Owners are assigned round robin, in proportion to the weights. So
/// tensors of different levels are aligned, and shares remain balanced when a level is dropped.
class LimbOwners {
 public:
  explicit LimbOwners(const std::vector<double>& weights);
  std::size_t operator[](PrimeIndex p) const { return owner_[p % owner_.size()]; }

 private:
  std::vector<unsigned char> owner_;
};

/// A block of a tensor on one member: ranges of its items, limbs and words of a limb.
struct Block {
  std::size_t member = 0;
  std::size_t first = 0, count = 0;   // flat indices of items: first, first + step, ...; see `run`
  std::vector<std::size_t> limbs;     // positions of limbs, ascending
  std::size_t begin = 0, length = 0;  // range of words of a limb
  View view;                          // view of the block's words, if known: items in order, limbs in order
  std::size_t step = 1;               // distance of consecutive items
  // after `run` items, the next run starts at a distance of `apart` from the start of this run; 0: a single run
  std::size_t run = 0, apart = 0;

  bool covers(const Block& other) const;
  std::size_t runs() const { return run == 0 || count == 0 ? 1 : count / run; }
  std::size_t last() const {
    const std::size_t each = count / runs();
    return first + (runs() - 1) * apart + (each - 1) * step;
  }
  bool same_items(const Block& other) const {
    return first == other.first && count == other.count && step == other.step && run == other.run && apart == other.apart;
  }
};

/// Returns the `count` numbers first, first + 1, ...
std::vector<std::size_t> range(std::size_t first, std::size_t count);
/// Returns these parts, with the given limbs in place of their own.
std::vector<Block> with_limbs(std::vector<Block> parts, const std::vector<std::size_t>& limbs);
/// Returns these parts, with all of `count` items in place of their own.
std::vector<Block> with_items(std::vector<Block> parts, std::size_t count);
/// Returns these parts, with all words of limbs of length n.
std::vector<Block> with_words(std::vector<Block> parts, std::size_t n);

/// The intersection of two blocks, as pairs of views of the same words.
struct Pair {
  View from, to;
};
std::vector<Pair> intersect(const Block& from, const Block& to);

}  // namespace heliograph::mesh
