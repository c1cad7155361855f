// Which part of a tensor lies on which member of a mesh.
#pragma once

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

/// Bounds of consecutive shares of `count`, in proportion to `weights` and in multiples of `unit` (the last one of any weight
/// takes the rest): one more than there are weights.
std::vector<std::size_t> shares(std::size_t count, const std::vector<double>& weights, std::size_t unit = 1);

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
  std::size_t first = 0, count = 0;   // flat items
  std::vector<std::size_t> limbs;     // positions, ascending
  std::size_t begin = 0, length = 0;  // words of a limb
  View view;                          // its words, where they are known: items in order, limbs in order

  bool covers(const Block& other) const;
};

/// first, first + 1, ..., `count` of them.
std::vector<std::size_t> range(std::size_t first, std::size_t count);
/// The same items and words, other limbs.
std::vector<Block> with_limbs(std::vector<Block> parts, const std::vector<std::size_t>& limbs);
/// The same limbs and words, all of other items.
std::vector<Block> with_items(std::vector<Block> parts, std::size_t count);

/// What two rectangles share, as pairs of equal views.
struct Pair {
  View from, to;
};
std::vector<Pair> intersect(const Block& from, const Block& to);

}  // namespace heliograph::mesh
