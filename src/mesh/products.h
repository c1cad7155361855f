// Matrix products over a batch whose items are on several members: each member's own work, and inputs from others.
#pragma once

#include <mutex>

#include "mesh/state.h"

namespace heliograph::mesh {

/// The distribution of a product's operands by items. The result is a complete tensor.
struct ProductPlace {
  std::vector<std::size_t> inputs;  // item number of each input
  Distribution in, out;
  bool operator==(const ProductPlace&) const = default;
};

struct ProductShare {
  std::vector<math::u32> positions;  // positions of the member's outputs, ascending: all, or those of outputs that it holds
  std::vector<math::u32> held;       // for each input: its index among the inputs that the member holds, or kNone
  std::size_t first = 0, count = 0;  // range of the held inputs among the member's items
  std::vector<math::u32> lacking;    // inputs that the member reads from other members
  std::vector<math::u32> affected;   // indices of `positions` that read lacking inputs
  double pairs = 0;                  // number of pairs of a weight and an input
};

/// A division of a product among members. By positions: each member computes the outputs that it holds. By sums: each
/// member sums over the inputs that it holds, and sends partial sums to the owners of the outputs.
struct ProductSplit {
  bool by_sums = false;
  ProductPlace place;
  std::vector<ProductShare> shares;  // share of each member
};

/// A mesh's form of a product: its splits for several distributions.
class MeshProduct final : public device::FormOf<device::ProductConstant> {
 public:
  using FormOf::FormOf;
  /// Returns the split by positions; null if outputs at the same position are on several members.
  std::shared_ptr<const ProductSplit> by_positions(ProductPlace place) const;
  std::shared_ptr<const ProductSplit> by_sums(ProductPlace place) const;

  using Constant = std::shared_ptr<const device::ProductConstant>;
  /// Returns a member's product of the inputs that it holds; null if it reads none.
  Constant of_held(const ProductSplit& split, std::size_t member) const;
  /// Returns a member's product of its lacking inputs, in order, at the affected positions; null if it lacks none.
  Constant of_lacking(const ProductSplit& split, std::size_t member) const;

 private:
  struct Known {
    std::shared_ptr<const ProductSplit> split;  // null: a split by positions is impossible
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

/// The split with the least predicted time; null: compute in the coefficient layout.
struct ProductWay {
  std::shared_ptr<const ProductSplit> split;
  double seconds = 0;
};
/// Returns the fastest way to compute a product. `out`: distribution of the result.
ProductWay way_of(const State& state, const device::Product& call, MeshMemory& in, const Distribution& out);
Distribution best_distribution(const State& state, const device::Product& call, MeshMemory& in, std::size_t items);

}  // namespace heliograph::mesh
