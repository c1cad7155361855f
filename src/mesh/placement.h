// Which part of a tensor lies on which member of a mesh.
#pragma once

#include <optional>
#include <vector>

#include "device/view.h"

namespace heliograph::mesh {

using device::PrimeIndex;
using device::PrimeList;
using device::View;

enum class Layout : unsigned char {
  batch,        // whole items
  limb,         // some limbs of every item
  coefficient,  // a stretch of every limb's words
};
const char* to_string(Layout);

/// Which member holds each item of a tensor laid out by items: consecutive shares, of all items or of every stretch of so many, or
/// items dealt round.
class Deal {
 public:
  Deal() = default;
  /// Member m holds items [bounds[m], bounds[m + 1]).
  static Deal shares(std::vector<std::size_t> bounds);
  /// The same of each stretch of bounds.back() items, which all are whole: of a batch of pictures every member holds the same rows.
  static Deal repeated(std::vector<std::size_t> bounds, std::size_t items);
  /// Item i is on member order[i / block % order.size()], each member named once: so a slice of a few items lies on many
  /// members, and where a fresh tensor of as many items does.
  static Deal round(std::vector<std::size_t> order, std::size_t items, std::size_t block = 1);
  /// All on one member.
  static Deal whole(std::size_t member, std::size_t items) { return round({member}, items); }

  bool in_shares() const { return order_.empty() && stretch() == items_; }
  /// Of shares, and of those of every stretch.
  const std::vector<std::size_t>& bounds() const { return bounds_; }
  /// The items after which shares repeat; 0 where items are dealt round.
  std::size_t stretch() const { return bounds_.empty() ? 0 : bounds_.back(); }
  const std::vector<std::size_t>& order() const { return order_; }
  std::size_t block() const { return block_; }
  std::size_t items() const { return items_; }
  std::size_t owner(std::size_t item) const;
  /// The place of an item among those of its owner.
  std::size_t place(std::size_t item) const;
  std::size_t items_on(std::size_t member) const;
  /// The member that holds all items; none where there are several, or no items.
  std::optional<std::size_t> sole() const;
  bool operator==(const Deal&) const = default;

 private:
  std::vector<std::size_t> bounds_, order_;
  std::size_t block_ = 1, items_ = 0;
};

/// Bounds of consecutive shares of `count`, in proportion to `weights` and in multiples of `unit` (the last one of any weight
/// takes the rest): one more than there are weights.
std::vector<std::size_t> shares(std::size_t count, const std::vector<double>& weights, std::size_t unit = 1);

/// Where a tensor lies.
struct Placement {
  Layout layout = Layout::batch;
  Deal deal = {};  // by items
};

/// The member that holds the limb of each prime, whatever the tensor: dealt round in proportion to the weights, so that
/// tensors of different levels lie alike and a dropped level unbalances nothing.
class LimbOwners {
 public:
  explicit LimbOwners(const std::vector<double>& weights);
  std::size_t operator[](PrimeIndex p) const { return owner_[p % owner_.size()]; }

 private:
  std::vector<unsigned char> owner_;
};

/// A rectangle of a view's index space, or of a tensor's, on one member.
struct Block {
  std::size_t member = 0;
  std::size_t first = 0, count = 0;   // flat items: first, first + step, ...; see `run`
  std::vector<std::size_t> limbs;     // positions, ascending
  std::size_t begin = 0, length = 0;  // words of a limb
  View view;                          // its words, where they are known: items in order, limbs in order
  std::size_t step = 1;               // from one item to the next
  std::size_t run = 0, apart = 0;     // after so many items the next is `apart` from where these began; 0: never

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

/// first, first + 1, ..., `count` of them.
std::vector<std::size_t> range(std::size_t first, std::size_t count);
/// The same items and words, other limbs.
std::vector<Block> with_limbs(std::vector<Block> parts, const std::vector<std::size_t>& limbs);
/// The same limbs and words, all of other items.
std::vector<Block> with_items(std::vector<Block> parts, std::size_t count);
/// Whole limbs of another length.
std::vector<Block> with_words(std::vector<Block> parts, std::size_t n);

/// What two rectangles share, as pairs of equal views.
struct Pair {
  View from, to;
};
std::vector<Pair> intersect(const Block& from, const Block& to);

}  // namespace heliograph::mesh
