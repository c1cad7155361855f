#include "device/work.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <set>

#include "device/expand.h"

namespace heliograph::device {

namespace {

/// Returns the bytes of a view's memory; a broadcast item counts once.
u64 stored(const View& v) {
  u64 words = v.limbs * v.n * (v.component_stride == 0 ? 1 : v.components);
  for (int i = 0; i < v.axes; ++i) words *= v.stride[i] == 0 && v.shape[i] > 0 ? 1 : v.shape[i];
  return words * v.word_size();
}

u64 stored_items(const View& v) { return v.stride[0] == 0 && v.shape[0] > 0 ? 1 : v.items(); }

// Number of modular products of each call; calls that are not listed have none.

template <class C>
u64 products(const C&) {
  return 0;
}
u64 products(const Mul& c) { return c.out.words(); }
u64 products(const MulAccumulate& c) { return c.out.words(); }
u64 products(const MulConstants& c) { return c.out.words(); }
u64 products(const WeightedSum& c) {
  const auto plain = [&](const LimbConstants& w) {
    return std::all_of(w.begin(), w.begin() + c.primes.size(), [](u64 v) { return v == 1; });
  };
  const std::vector<LimbConstants>& weights = *c.weights;
  return c.out.words() * static_cast<u64>(std::count_if(weights.begin(), weights.end(), std::not_fn(plain)));
}
u64 transform(const RingHandle& ring, const View& out) { return out.words() / 2 * static_cast<u64>(ring->ring().log_n()); }
u64 products(const ForwardNtt& c) { return transform(c.ring, c.out); }
u64 products(const InverseNtt& c) { return transform(c.ring, c.out); }
u64 products(const Tensor& c) { return c.a.components * c.b.components * c.out.items() * c.primes.size() * c.out.n; }
u64 products(const InnerProduct& c) { return c.terms() * c.out.words(); }
u64 products(const Product& c) { return c.product->pairs() * c.out.components * c.out.limbs * c.out.n; }
u64 products(const ByteProduct& c) { return c.out.words() * c.words.n; }
u64 products(const LimbSums& c) {
  u64 count = 0;
  for (const LimbSumList::Term& t : c.sums->list().terms)
    count += (t.b.operand != LimbSumList::kNone ? 1 : 0) + (t.weight != 1 ? 1 : 0);
  return count * c.to[0].items() * c.to[0].n;
}
u64 products(const Convert& c) {
  const math::Conversion& k = c.conversion->conversion();
  return c.out.items() * c.out.components * c.out.n * (k.sources() + k.sources() * k.targets() + (c.own ? k.targets() : 0));
}

// Counts of calls; kernels that access less than their views have their own functions.

template <class C>
Count counted(const C& call) {
  Count count{.calls = 1, .products = products(call)};
  if constexpr (std::is_same_v<C, ForwardNtt> || std::is_same_v<C, InverseNtt>) count.butterflies = count.products;
  std::vector<const View*> read;
  each_view(call, [&](const View& v, Access access) {
    if (access != Access::write) {
      bool again = false;
      for (const View* other : read) again = again || same_operand(*other, v);
      if (!again) count.bytes_read += stored(v);
      read.push_back(&v);
    }
    if (access != Access::read) count.bytes_written += stored(v);
  });
  return count;
}

Count counted(const Convert& c) {
  // A conversion accesses only the targets' limbs of `own` and `out`.
  const std::size_t targets = c.conversion->conversion().targets();
  return {.calls = 1,
          .bytes_read = stored(c.x) + (c.own ? stored(c.own->with_limbs(0, targets)) : 0),
          .bytes_written = stored(c.out.with_limbs(0, targets)),
          .products = products(c)};
}

Count counted(const InnerProduct& c) {
  const View key = c.key.with_components(0, c.terms() * c.out.components).with_limbs(0, c.primes.size());
  return {.calls = 1, .bytes_read = stored(c.digits) + stored(key), .bytes_written = stored(c.out), .products = products(c)};
}

Count counted(const LimbSums& c) {
  const LimbSumList& list = c.sums->list();
  std::set<std::tuple<u32, u32, u32>> limbs;
  for (const LimbSumList::Term& t : list.terms) {
    for (const LimbSumList::At& at : {t.a, t.b}) {
      if (at.operand != LimbSumList::kNone) limbs.insert({at.operand, at.component, at.limb});
    }
  }
  Count count{.calls = 1, .products = products(c)};
  for (const auto& [operand, component, limb] : limbs)
    count.bytes_read += stored(c.from[operand].with_components(component, 1).with_limbs(limb, 1));
  for (const LimbSumList::Result& r : list.results)
    count.bytes_written += stored(c.to[r.to.operand].with_components(0, 1).with_limbs(0, 1));
  return count;
}

Count counted(const Gather& c) {
  Count count{.calls = 1};
  for (const Piece& p : c.pieces) count.bytes_read += stored(p.from), count.bytes_written += stored(p.to);
  return count;
}

// In Combine and LweKeySwitch, a product is a product of words. In Bootstrap, a product is a real multiplication in double
// precision, fused with its addition, in the formulation with Fourier transforms. With M = N / 2, a product of spectra takes
// 4 M products and a transform takes 2 M log2(M). Each group of the key takes rows * (k + 1) * 2^group + 2^group - 1
// products of spectra (for the bundle, its monomials, and digits times bundle) and rows + k + 1 transforms. Keys and tables
// are read once per call.

Count counted(const Combine& c) {
  const GateLayer& layer = c.layer->layer();
  const u64 words = c.wires.n - 63;  // the wide dimension is a multiple of 64
  std::vector<bool> read(layer.wires());
  u64 sources = 0;
  for (u32 w : layer.source) {
    sources += !read[w];
    read[w] = true;
  }
  return {.calls = 1,
          .bytes_read = stored_items(c.wires) * sources * words * sizeof(u64),
          .bytes_written = c.wires.items() * layer.rows() * words * sizeof(u64),
          .products = c.wires.items() * layer.source.size() * words};
}

Count counted(const LweKeySwitch& c) {
  const KeySwitchShape& s = c.key->shape();
  const u64 rows = c.layer->layer().rows(), samples = c.wires.items() * rows;
  return {.calls = 1,
          .bytes_read = stored_items(c.wires) * rows * (s.from + 1) * sizeof(u64) + s.words() * sizeof(u32),
          .bytes_written = samples * (s.to + 1) * sizeof(u32),
          .products = samples * s.words()};
}

Count counted(const Bootstrap& c) {
  const BootstrapShape& s = c.key->shape();
  const GateLayer& layer = c.layer->layer();
  const u64 samples = c.wires.items() * layer.rows(), m = s.degree / 2, log_m = static_cast<u64>(std::countr_zero(m));
  const u64 spectra = s.rows() * (s.k + 1) * s.values() + s.values() - 1, transforms = s.rows() + s.k + 1;
  return {.calls = 1,
          .bytes_read = stored_items(c.narrow) * layer.rows() * (s.n + 1) * sizeof(u32) +
                        (s.words() + layer.tables.size()) * sizeof(u64),
          .bytes_written = samples * layer.outputs * (s.wide() + 1) * sizeof(u64),
          .products = samples * s.groups() * (spectra * 4 * m + transforms * 2 * m * log_m)};
}

}  // namespace

u64 operand_bytes(const Call& call) {
  return std::visit(
      []<class C>(const C& c) {
        Count count;
        if constexpr (Composite<C> && requires {
                        c.plan->key_limbs;
                        c.key.components;
                      }) {
          C without = c;  // key without the limbs and digits that this level does not use
          without.key = c.key.with_components(0, std::min(c.key.components, 2 * c.plan->digits.size()))
                            .with_limbs(0, c.plan->extended.size());
          count = counted(without);
        } else {
          count = counted(c);
        }
        return count.bytes_read + count.bytes_written;
      },
      call);
}

Count work(const Call& call) {
  return std::visit(
      []<class C>(const C& c) {
        if constexpr (CountedInParts<C>) {
          Count sum;
          for (const Call& part : expand(c)) sum += work(part);
          return sum;
        } else {
          return counted(c);
        }
      },
      call);
}

}  // namespace heliograph::device
