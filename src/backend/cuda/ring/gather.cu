// Several copies in one launch. A piece is a run of words that is repeated along a few axes. Threads index the words of a
// piece linearly, so that all threads are busy for any run length. Access to another GPU's memory has high latency, so each
// thread has several accesses in flight. Neighbouring blocks copy different pieces, which distributes the load over the
// GPUs.
#include <optional>

#include "backend/cuda/ring/kernels.h"
#include "backend/cuda/ring/launch.cuh"

namespace heliograph::backend::cuda {

namespace {

constexpr u32 kThreads = 256;
constexpr u32 kUnroll = 4;  // number of accesses that a thread has in flight
constexpr u32 kEach = kThreads * kUnroll;
constexpr u32 kMostAxes = 4;     // maximum axes of a piece that shares a launch
constexpr u32 kMostPieces = 16;  // maximum pieces of a launch
constexpr u64 kMostUnits = (u64{1} << 31) - kEach;

/// Source and destination of a piece. Lengths and strides are in units: words of 16 bytes, or of 4.
struct Part {
  const std::byte* from;
  std::byte* to;
  u32 first_block, units, axes;
  Divisor run;  // length of a contiguous run, in units
  Divisor shape[kMostAxes];
  math::i64 from_stride[kMostAxes], to_stride[kMostAxes];
};
struct Arguments {
  u32 count;      // number of parts
  u32 blocks;     // number of blocks of all parts
  Divisor turns;  // number of ranges of blocks; neighbouring blocks belong to different ranges
  u32 stretch;    // number of blocks of a range
  Part parts[kMostPieces];
};

template <class Unit>
__global__ void __launch_bounds__(kThreads) gather_kernel(const __grid_constant__ Arguments a) {
  take_turn();
  u32 turn = blockIdx.x;
  const u32 step = a.turns.divide(turn), block = turn * a.stretch + step;
  if (block >= a.blocks) return;
  u32 p = 0;
  while (p + 1 < a.count && block >= a.parts[p + 1].first_block) ++p;
  const Part& part = a.parts[p];
  const u32 first = (block - part.first_block) * kEach + threadIdx.x;
  Unit x[kUnroll];
  Unit* to[kUnroll];
#pragma unroll
  for (u32 k = 0; k < kUnroll; ++k) {
    const u32 i = first + k * kThreads;
    if (i >= part.units) continue;
    u32 within = i, run = part.run.divide(within);
    math::i64 from_offset = within, to_offset = within;
#pragma unroll
    for (u32 d = 0; d < kMostAxes; ++d) {
      if (d >= part.axes) break;
      u32 at = run;
      run = part.shape[d].divide(at);
      from_offset += at * part.from_stride[d];
      to_offset += at * part.to_stride[d];
    }
    x[k] = reinterpret_cast<const Unit*>(part.from)[from_offset];
    to[k] = reinterpret_cast<Unit*>(part.to) + to_offset;
  }
#pragma unroll
  for (u32 k = 0; k < kUnroll; ++k) {
    if (first + k * kThreads < part.units) *to[k] = x[k];
  }
}

/// A piece in bytes. Axes are merged if the strides of both views allow it; the innermost axis is first.
struct Layout {
  const std::byte* from;
  std::byte* to;
  u64 run;
  u32 axes = 0;
  u64 shape[kMostAxes];
  math::i64 from_stride[kMostAxes], to_stride[kMostAxes];

  /// Adds an axis outside the present ones; returns false if there are too many axes.
  bool add(u64 extent, math::i64 from_step, math::i64 to_step) {
    if (extent == 1) return true;
    const auto end = static_cast<math::i64>(run);
    if (axes == 0 && from_step == end && to_step == end) return run *= extent, true;
    if (axes > 0) {
      const u32 last = axes - 1;
      const auto length = static_cast<math::i64>(shape[last]);
      if (from_step == length * from_stride[last] && to_step == length * to_stride[last]) return shape[last] *= extent, true;
    }
    if (axes == kMostAxes) return false;
    shape[axes] = extent, from_stride[axes] = from_step, to_stride[axes] = to_step;
    ++axes;
    return true;
  }
  bool aligned(math::i64 unit) const {
    bool good =
        run % static_cast<u64>(unit) == 0 &&
        (reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to)) % static_cast<u64>(unit) == 0;
    for (u32 d = 0; d < axes; ++d) good = good && from_stride[d] % unit == 0 && to_stride[d] % unit == 0;
    return good;
  }
  u64 bytes() const {
    u64 product = run;
    for (u32 d = 0; d < axes; ++d) product *= shape[d];
    return product;
  }
};

/// Returns nullopt if the piece needs its own launch: its two views have different batch axes, or too many.
std::optional<Layout> layout_of(const device::Piece& piece) {
  const View &from = piece.from, &to = piece.to;
  const auto word = static_cast<math::i64>(to.word_size());
  Layout l{.from = from.data, .to = to.data, .run = to.n * to.word_size()};
  const auto bytes = [&](std::size_t words) { return static_cast<math::i64>(words) * word; };
  bool good = l.add(to.limbs, bytes(from.limb_stride), bytes(to.limb_stride)) &&
              l.add(to.components, bytes(from.component_stride), bytes(to.component_stride));
  if (from.axes != to.axes) return std::nullopt;
  for (int i = to.axes - 1; i >= 0 && good; --i)
    good = from.shape[i] == to.shape[i] && l.add(to.shape[i], from.stride[i] * word, to.stride[i] * word);
  if (!good || l.bytes() / (l.aligned(16) ? 16 : 4) > kMostUnits) return std::nullopt;
  return l;
}

/// Collects the parts of one launch, and launches them.
template <class Unit>
class Batch {
 public:
  explicit Batch(Queue& queue) : queue_(queue) {}

  void add(const Layout& l) {
    const u64 units = l.bytes() / sizeof(Unit), blocks = (units + kEach - 1) / kEach;
    if (a_.count == kMostPieces || a_.blocks + blocks > kMostUnits) flush();
    Part& part = a_.parts[a_.count++];
    part = {.from = l.from, .to = l.to, .first_block = a_.blocks, .units = static_cast<u32>(units), .axes = l.axes};
    part.run = Divisor(static_cast<u32>(l.run / sizeof(Unit)));
    for (u32 d = 0; d < l.axes; ++d) {
      part.shape[d] = Divisor(static_cast<u32>(l.shape[d]));
      part.from_stride[d] = l.from_stride[d] / static_cast<math::i64>(sizeof(Unit));
      part.to_stride[d] = l.to_stride[d] / static_cast<math::i64>(sizeof(Unit));
    }
    a_.blocks += static_cast<u32>(blocks);
  }
  void flush() {
    if (a_.count == 0) return;
    a_.turns = Divisor(a_.count);
    a_.stretch = (a_.blocks + a_.count - 1) / a_.count;
    launch(queue_, "gather", &gather_kernel<Unit>, u64{a_.count} * a_.stretch, kThreads, 0, a_);
    a_ = {};
  }

 private:
  Queue& queue_;
  Arguments a_{};
};

}  // namespace

void CudaKernels::run(Queue& q, const Gather& c) {
  Batch<uint4> whole(q);
  Batch<u32> words(q);
  for (const device::Piece& piece : c.pieces) {
    if (piece.to.words() == 0) continue;
    if (const std::optional<Layout> l = layout_of(piece)) {
      l->aligned(16) ? whole.add(*l) : words.add(*l);
    } else {
      run(q, Copy{piece.from, piece.to});
    }
  }
  whole.flush();
  words.flush();
}

}  // namespace heliograph::backend::cuda
