// Products of bytes with words modulo 2^32. A unit of work multiplies kRows rows by all vectors, for one range of inputs
// at a time.
#include <algorithm>

#include "backend/cpu/parallel.h"

namespace heliograph::backend::cpu {

void CpuKernels::run(Queue&, const device::ByteProduct& c) {
  constexpr std::size_t kRows = 64;
  const std::size_t inputs = c.words.n, outputs = c.out.n, items = c.out.items();
  if (items == 0 || outputs == 0) return;
  const ByteOps& ops = *instructions_.bytes;
  device::Workspace scratch = c.scratch;
  const View packed = scratch.take(math::Word::w32, items, 1, 1, inputs);
  threads_.parallel_for(items, 1, [&](std::size_t item, std::size_t) {
    ops.pack(c.words.at<u32>(item, 0, 0), inputs, packed.data + item * inputs * sizeof(u32));
  });
  // With few vectors, longer ranges of their words fit the second-level cache.
  const std::size_t stretch = items < 4 ? 16384 : 4096;
  threads_.parallel_for((outputs + kRows - 1) / kRows, 1, [&](std::size_t unit, std::size_t) {
    const std::size_t first = unit * kRows, count = std::min(kRows, outputs - first);
    const unsigned char* rows[kRows];
    const std::byte* vectors[kMostByteVectors];
    u32* const sums = static_cast<u32*>(thread_scratch(items * kRows * sizeof(u32)));
    for (std::size_t start = 0; start < inputs; start += stretch) {
      for (std::size_t r = 0; r < count; ++r)
        rows[r] = reinterpret_cast<const unsigned char*>(address(c.bytes, 0, first + r, 0)) + start;
      for (std::size_t item = 0; item < items; item += kMostByteVectors) {
        const std::size_t some = std::min(kMostByteVectors, items - item);
        for (std::size_t v = 0; v < some; ++v) vectors[v] = packed.data + ((item + v) * inputs + start) * sizeof(u32);
        ops.run({.rows = rows,
                 .count = count,
                 .inputs = std::min(stretch, inputs - start),
                 .vectors = vectors,
                 .vectors_count = some,
                 .sums = sums + item * kRows,
                 .sum_stride = kRows,
                 .add = start > 0});
      }
    }
    for (std::size_t item = 0; item < items; ++item)
      std::copy_n(sums + item * kRows, count, c.out.at<u32>(item, 0, 0) + first);
  });
}

}  // namespace heliograph::backend::cpu
