#include "backend/cuda/ring/columns.cuh"
#include "backend/cuda/ring/passes.h"

namespace heliograph::backend::cuda {

namespace {

constexpr std::size_t kLeastFused = std::size_t{1} << 15;  // rings with columns of 128 to 512 points

template <int L>
void convert_columns_of(Queue& q, const char* name, const ColumnConversion& a) {
  launch(q, name, &convert_columns_kernel<L>, a.grid.blocks(), FusedShape<L>::kThreads,
         FusedShape<L>::bytes(a.step.n_sources), a);
}

}  // namespace

bool fuses_columns(const CudaRing& ring, const CudaConversion& conversion, const View& out) {
  const math::Conversion& c = conversion.conversion();
  const u64 blocks = u64{kRow / kFusedColumns} * out.components * out.items();
  return ring.kind() == FieldKind::field50 && conversion.kind() == FieldKind::field50 && out.n >= kLeastFused &&
         out.n <= kRow << 9 && c.sources() <= kFusedSources && c.targets() <= kFusedTargets && blocks >= kFusedBlocks;
}

void convert_columns(Queue& q, const char* name, const CudaRing& ring, const CudaConversion& conversion,
                     const PrimeList& from, const View& x, const PrimeList& to, const View& out) {
  const math::Conversion& c = conversion.conversion();
  ColumnConversion a{.in = strided(x),
                     .out = strided(out),
                     .grid = Grid(kRow / kFusedColumns, out),
                     .from = primes_of(from),
                     .to = primes_of(to),
                     .table = ring.primes().as<Field50::Prime>(),
                     .inverse = ring.inverse().as<double>(),
                     .forward = ring.forward().as<double>(),
                     .step = {.sources = conversion.sources().as<ConversionSource<Field50>>(),
                              .targets = conversion.targets().as<ConversionTarget<Field50>>(),
                              .matrix = conversion.matrix().as<double>(),
                              .n_sources = static_cast<u32>(c.sources()),
                              .n_targets = static_cast<u32>(c.targets()),
                              .shift = static_cast<u32>(c.fixed.shift),
                              .bits = static_cast<u32>(c.fixed.bits),
                              .rounded = c.rounded},
                     .n = static_cast<u32>(out.n)};
  static_assert(sizeof a <= 4096, "kernel arguments must fit a launch");
  a.grid.limbs = Divisor(1);
  switch (out.n / kRow) {
    case 1 << 7:
      return convert_columns_of<7>(q, name, a);
    case 1 << 8:
      return convert_columns_of<8>(q, name, a);
    default:
      return convert_columns_of<9>(q, name, a);
  }
}

}  // namespace heliograph::backend::cuda
