// Matrix products over a batch whose items lie on several members: what each makes where it is, and what it wants of others.
#pragma once

#include <mutex>

#include "mesh/state.h"

namespace heliograph::mesh {

/// Where a product's operands lie: by items, the result all of its memory.
struct ProductPlace {
  std::vector<std::size_t> inputs;  // the item that each input is
  Deal in, out;
  bool operator==(const ProductPlace&) const = default;
};

/// One member's share of a product.
struct ProductShare {
  std::vector<math::u32> positions;  // where it makes outputs, ascending: all, or those that lie there
  std::vector<math::u32> held;       // by input: its number among those read that the member holds, else kNone
  std::size_t first = 0, count = 0;  // these, among the items that the member holds
  std::vector<math::u32> lacking;    // inputs that it reads and others hold
  std::vector<math::u32> affected;   // which of `positions` read some of these
  double pairs = 0;                  // of a weight and an input
};

/// How a product is shared: by positions, each member makes the outputs that lie there; by sums, each adds up the inputs that it
/// holds, and what it has for outputs of others goes to them.
struct ProductSplit {
  bool by_sums = false;
  ProductPlace place;
  std::vector<ProductShare> shares;  // each member's
};

/// What a mesh has of a product: its shares.
class MeshProduct final : public device::FormOf<device::ProductConstant> {
 public:
  using FormOf::FormOf;
  /// None where an output's position does not tell on which member it lies.
  std::shared_ptr<const ProductSplit> by_positions(ProductPlace place) const;
  std::shared_ptr<const ProductSplit> by_sums(ProductPlace place) const;

  using Constant = std::shared_ptr<const device::ProductConstant>;
  /// A member's product of the inputs that it holds; null where it reads none.
  Constant of_held(const ProductSplit& split, std::size_t member) const;
  /// Of those that it lacks, in their order, at the affected positions; null where it lacks none.
  Constant of_lacking(const ProductSplit& split, std::size_t member) const;

 private:
  struct Known {
    std::shared_ptr<const ProductSplit> split;  // null: by positions it cannot be
    ProductPlace place;
    bool by_sums;
    std::vector<Constant> held, lacking;
  };
  template <class Make>
  std::shared_ptr<const ProductSplit> known(ProductPlace place, bool by_sums, Make make) const;
  template <class Make>
  Constant made(const ProductSplit& split, std::vector<Constant> Known::*list, std::size_t member, Make make) const;

  mutable std::mutex mutex_;
  mutable std::vector<Known> known_;
};

/// How a product is shared that is predicted to take least; no split: in the coefficient layout.
struct ProductWay {
  std::shared_ptr<const ProductSplit> split;
  double seconds = 0;
};
/// `out`: where the result lies, or would lie.
ProductWay way_of(const State& state, const device::Product& call, MeshMemory& in, const Deal& out);
/// Where a product's result lies best.
Deal deal_of(const State& state, const device::Product& call, MeshMemory& in, std::size_t items);

}  // namespace heliograph::mesh
