// The modular matrix product. A unit of work is a block of coefficients of one limb, with all inputs and outputs of a
// group.
#include <algorithm>

#include "backend/cpu/parallel.h"

namespace heliograph::backend::cpu {

namespace {

/// Returns the start address of each item of a view; reuses the thread's vector `starts`.
const std::vector<std::byte*>& item_starts(const device::View& v, std::vector<std::byte*>& starts) {
  starts.resize(v.items());
  for (std::size_t i = 0; i < starts.size(); ++i) starts[i] = v.address(i, 0, 0);
  return starts;
}

}  // namespace

void CpuKernels::run(Queue&, const Product& c) {
  const CpuRing& r = own(*c.ring);
  const CpuProduct* const mine = &own(*c.product);
  const device::GatheredProduct& g = c.product->product();
  static thread_local std::vector<std::byte*> in_kept, out_kept;
  const std::vector<std::byte*>& in_starts = item_starts(c.in, in_kept);
  const std::vector<std::byte*>& out_starts = item_starts(c.out, out_kept);
  if (out_starts.empty()) return;

  const bool tiny = c.out.n < kLeastVector;
  std::size_t block = c.out.n;
  for (math::PrimeIndex prime : c.primes)
    block = std::min(block, mine->ops(c.out.word, size_of(r.limb(prime).modulus.q)).block);
  const std::size_t blocks = (c.out.n + block - 1) / block, units = c.out.components * c.out.limbs * blocks,
                    word = c.out.word_size();
  const std::size_t work = units * block * g.groups * g.outputs * g.positions;
  threads_.parallel_for(units, work < kWorthSharing ? units : 1, [&](std::size_t unit, std::size_t) {
    const std::size_t first = unit % blocks * block, limb = unit / blocks % c.out.limbs,
                      component = unit / blocks / c.out.limbs;
    const Modulus& modulus = r.limb(c.primes[limb]).modulus;
    const ProductOps& ops =
        tiny ? *scalar_instructions().any_product[word == 8][0] : mine->ops(c.out.word, size_of(modulus.q));
    const std::size_t per_group = g.outputs * g.positions;
    const std::size_t pointers = (g.inputs + per_group) * sizeof(void*) / 64 * 64 + 64;
    std::byte* const scratch =
        static_cast<std::byte*>(thread_scratch(pointers + ops.scratch_bytes(g.outputs, g.terms, g.inputs, block)));
    const void** const from = reinterpret_cast<const void**>(scratch);
    void** const to = reinterpret_cast<void**>(scratch) + g.inputs;
    const std::size_t in_start = component * c.in.component_stride + limb * c.in.limb_stride + first;
    const std::size_t out_start = component * c.out.component_stride + limb * c.out.limb_stride + first;
    for (std::size_t i = 0; i < g.inputs; ++i) from[i] = in_starts[i] + in_start * word;
    ProductBlock part{.modulus = &modulus,
                      .outputs = g.outputs,
                      .positions = g.positions,
                      .terms = g.terms,
                      .inputs = g.inputs,
                      .weights = nullptr,
                      .index = nullptr,
                      .in = from,
                      .out = to,
                      .count = std::min(block, c.out.n - first),
                      .scratch = scratch + pointers,
                      .stream = c.out.words() * word > kCached};
    if (ops.gather) ops.gather(part);
    for (std::size_t group = 0; group < g.groups; ++group) {
      for (std::size_t i = 0; i < per_group; ++i) to[i] = out_starts[group * per_group + i] + out_start * word;
      part.weights = mine->weights(ops, group);
      part.index = g.index.data() + group * g.positions * g.terms;
      ops.run(part);
    }
  });
}

}  // namespace heliograph::backend::cpu
