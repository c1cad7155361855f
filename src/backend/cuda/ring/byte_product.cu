// Bytes times words modulo 2^32. A word is split into four signed digits of base 256. For few vectors, the dp4a instruction
// multiplies bytes by digits; for many, int8 matrix units do. Each block sums over a range of the inputs and adds its sums
// modulo 2^32 to the result; overflow of 32-bit sums is harmless.
#include "backend/cuda/ring/byte_product.cuh"
#include "backend/cuda/ring/kernels.h"
#include "backend/cuda/runtime/launch.cuh"

namespace heliograph::backend::cuda {

namespace {

constexpr u32 kFew = 3;  // maximum number of vectors for dp4a, which multiplies them one after another
constexpr u32 kThreads = 256, kWarps = kThreads / 32;
constexpr u32 kRowsOfWarp = 8;  // rows of a warp with dp4a, for each vector

/// Partition of the inputs over blocks. `stretch`: inputs of a range; `splits`: number of ranges; `blocks`: blocks of all
/// tiles and ranges.
struct Cut {
  u32 stretch, splits;
  u64 blocks;
};

__device__ __forceinline__ void add_bytes(int (&sum)[4], u32 bytes, const u32 (&planes)[4]) {
#pragma unroll
  for (u32 p = 0; p < 4; ++p) sum[p] = __dp4a(static_cast<int>(bytes ^ kHalf), static_cast<int>(planes[p]), sum[p]);
}

/// A warp computes kRowsOfWarp rows of one vector, 16 inputs per lane at a time.
__global__ void __launch_bounds__(kThreads) byte_rows_kernel(const __grid_constant__ ByteArguments a, Cut cut, u32 item) {
  take_turn();
  const u32 lane = threadIdx.x % 32, tile = blockIdx.x / cut.splits * kWarps + threadIdx.x / 32;
  const u32 first = tile * kRowsOfWarp, start = blockIdx.x % cut.splits * cut.stretch;
  if (first >= a.outputs) return;
  const u32 end = min(start + cut.stretch, a.inputs);
  const u32* const words = limb_of<u32>(a.words, item, 0, 0);
  u32* const out = limb_of<u32>(a.out, item, 0, 0);
  int sum[kRowsOfWarp][4] = {};
  for (u32 i = start + lane * 16; i < end; i += 32 * 16) {
    uint4 bytes[kRowsOfWarp];
#pragma unroll
    for (u32 r = 0; r < kRowsOfWarp; ++r)
      bytes[r] = __ldcs(reinterpret_cast<const uint4*>(a.bytes + min(first + r, a.outputs - 1) * a.row + i));
    const uint4* const from = reinterpret_cast<const uint4*>(words + i);
    u32 planes[4];
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      planes_of(from[k], planes);
#pragma unroll
      for (u32 r = 0; r < kRowsOfWarp; ++r)
        add_bytes(sum[r], k == 0 ? bytes[r].x : k == 1 ? bytes[r].y : k == 2 ? bytes[r].z : bytes[r].w, planes);
    }
  }
#pragma unroll
  for (u32 r = 0; r < kRowsOfWarp; ++r) {
    u32 all = 0;
#pragma unroll
    for (u32 p = 0; p < 4; ++p) all += static_cast<u32>(sum[r][p]) << (8 * p);
    for (u32 d = 16; d > 0; d /= 2) all += __shfl_xor_sync(~0u, all, d);
    if (lane == 0 && first + r < a.outputs) atomicAdd(out + first + r, all);
  }
}

__device__ __forceinline__ void multiply(int (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/// Loads four matrices of eight rows of 16 bytes from shared memory. Lanes 0 to 7 have the row addresses of the first
/// matrix, lanes 8 to 15 those of the second, and so on. Lane l receives word l % 4 of row l / 4 of each matrix.
__device__ __forceinline__ void load_rows(const unsigned char* row, u32& a, u32& b, u32& c, u32& d) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
  const auto at = static_cast<u32>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"(at));
#endif
}

/// Block shape for the matrix units: kRows rows by kItems vectors. The vectors' digits form kColumns columns. A step has
/// kStep inputs; shared memory holds two steps. A warp has 64 rows and kItems columns.
struct Matrix {
  static constexpr u32 kRows = 128, kStep = 64, kItems = 32, kColumns = 4 * kItems;
  static constexpr u32 kStride = kStep + 16;  // row distance in bytes in shared memory: eight rows start in different banks
  static constexpr u32 kTilesDown = 64 / 16, kTilesAcross = kItems / 8;
  static constexpr u32 kStage = (kRows + kColumns) * kStride, kShared = 2 * kStage;
  static constexpr u32 kBytesEach = kRows * kStep / 16 / kThreads, kWordsEach = kItems * kStep / 4 / kThreads;
  static_assert(kWarps == kRows / 64 * (kColumns / kItems));
};

/// A thread's part of the copies of a step to shared memory.
struct Fetched {
  using M = Matrix;
  const unsigned char* from[M::kBytesEach];
  const u32* words_from[M::kWordsEach];
  uint4 bytes[M::kBytesEach], words[M::kWordsEach];

  static constexpr u32 kByteUnits = M::kStep / 16, kWordUnits = M::kStep / 4;  // 16-byte units of a row, and of a vector

  __device__ __forceinline__ Fetched(const ByteArguments& a, u32 first_row, u32 first_item) {
#pragma unroll
    for (u32 k = 0; k < M::kBytesEach; ++k) {
      const u32 unit = k * kThreads + threadIdx.x;
      from[k] = a.bytes + min(first_row + unit / kByteUnits, a.outputs - 1) * a.row + unit % kByteUnits * 16;
    }
#pragma unroll
    for (u32 k = 0; k < M::kWordsEach; ++k) {
      const u32 unit = k * kThreads + threadIdx.x;
      words_from[k] = limb_of<u32>(a.words, min(first_item + unit / kWordUnits, a.items - 1), 0, 0) + unit % kWordUnits * 4;
    }
  }
  __device__ __forceinline__ void load(u32 start) {
#pragma unroll
    for (u32 k = 0; k < M::kBytesEach; ++k) bytes[k] = *reinterpret_cast<const uint4*>(from[k] + start);
#pragma unroll
    for (u32 k = 0; k < M::kWordsEach; ++k) words[k] = *reinterpret_cast<const uint4*>(words_from[k] + start);
  }
  __device__ __forceinline__ void store(unsigned char* stage) const {
#pragma unroll
    for (u32 k = 0; k < M::kBytesEach; ++k) {
      const u32 unit = k * kThreads + threadIdx.x;
      *reinterpret_cast<uint4*>(stage + unit / kByteUnits * M::kStride + unit % kByteUnits * 16) =
          uint4{bytes[k].x ^ kHalf, bytes[k].y ^ kHalf, bytes[k].z ^ kHalf, bytes[k].w ^ kHalf};
    }
    unsigned char* const columns = stage + M::kRows * M::kStride;
#pragma unroll
    for (u32 k = 0; k < M::kWordsEach; ++k) {
      const u32 unit = k * kThreads + threadIdx.x;
      u32 planes[4];
      planes_of(words[k], planes);
#pragma unroll
      for (u32 p = 0; p < 4; ++p)
        *reinterpret_cast<u32*>(columns + (unit / kWordUnits * 4 + p) * M::kStride + unit % kWordUnits * 4) = planes[p];
    }
  }
};

/// Blocks of the same rows are neighbours, so that one block loads the bytes to the L2 cache for all. Fragments of
/// mma.m16n8k32 (PTX ISA), with g = lane / 4 and t = lane % 4: A has rows g and g + 8, words t and t + 4; B has column g; C
/// has columns 2t and 2t + 1.
__global__ void __launch_bounds__(kThreads, 2)
    byte_matrix_kernel(const __grid_constant__ ByteArguments a, Cut cut, u32 groups) {
  take_turn();
  using M = Matrix;
  extern __shared__ __align__(16) unsigned char shared[];
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const u32 first_item = blockIdx.x % groups * M::kItems, tile = blockIdx.x / groups;
  const u32 first = tile / cut.splits * M::kRows, row = warp % 2 * 64, column = warp / 2 * M::kItems;
  const u32 start = tile % cut.splits * cut.stretch, end = min(start + cut.stretch, a.inputs);
  if (start >= end) return;
  int sum[M::kTilesDown][M::kTilesAcross][4] = {};
  Fetched next(a, first, first_item);
  next.load(start);
  next.store(shared);
  __syncthreads();
  // Row addresses of this lane: 16 rows, then two times 8 columns.
  const u32 own_row = (row + lane % 16) * M::kStride + lane / 16 * 16;
  const u32 own_column = (M::kRows + column + lane / 16 * 8 + lane % 8) * M::kStride + lane / 8 % 2 * 16;
  for (u32 i = start, stage = 0; i < end; i += M::kStep, stage ^= 1) {
    const bool more = i + M::kStep < end;
    if (more) next.load(i + M::kStep);
    const unsigned char* const rows = shared + stage * M::kStage + own_row;
    const unsigned char* const columns = shared + stage * M::kStage + own_column;
#pragma unroll
    for (u32 k = 0; k < M::kStep; k += 32) {
      u32 x[M::kTilesDown][4];
#pragma unroll
      for (u32 m = 0; m < M::kTilesDown; ++m) load_rows(rows + m * 16 * M::kStride + k, x[m][0], x[m][1], x[m][2], x[m][3]);
#pragma unroll
      for (u32 n = 0; n < M::kTilesAcross; n += 2) {
        u32 b[2][2];
        load_rows(columns + n * 8 * M::kStride + k, b[0][0], b[0][1], b[1][0], b[1][1]);
#pragma unroll
        for (u32 two = 0; two < 2; ++two) {
#pragma unroll
          for (u32 m = 0; m < M::kTilesDown; ++m) multiply(sum[m][n + two], x[m], b[two][0], b[two][1]);
        }
      }
    }
    if (more) next.store(shared + (stage ^ 1) * M::kStage);
    __syncthreads();
  }
  const u32 shift = t % 2 * 16;  // this lane has the sums of two digits, the neighbouring lane the sums of the other two
#pragma unroll
  for (u32 n = 0; n < M::kTilesAcross; ++n) {
    const u32 item = first_item + (column + n * 8) / 4 + t / 2;
    u32* const out = limb_of<u32>(a.out, min(item, a.items - 1), 0, 0);
#pragma unroll
    for (u32 m = 0; m < M::kTilesDown; ++m) {
#pragma unroll
      for (u32 half = 0; half < 2; ++half) {
        const u32 mine =
            (static_cast<u32>(sum[m][n][2 * half]) << shift) + (static_cast<u32>(sum[m][n][2 * half + 1]) << (shift + 8));
        const u32 all = mine + __shfl_xor_sync(~0u, mine, 1), at = first + row + m * 16 + half * 8 + g;
        if (t % 2 == 0 && item < a.items && at < a.outputs) atomicAdd(out + at, all);
      }
    }
  }
}

}  // namespace

void CudaKernels::run(Queue& q, const device::ByteProduct& call) {
  constexpr u32 kBlocks = 2048;        // number of blocks that fills every GPU
  constexpr u64 kWide = u64{1} << 19;  // size in bytes from which byte_product_wide.cu is faster
  const auto items = static_cast<u32>(call.out.items());
  if (items == 0 || call.out.n == 0) return;
  const ByteArguments a{.bytes = reinterpret_cast<const unsigned char*>(call.bytes.address(0, 0, 0)),
                        .row = call.bytes.component_stride * sizeof(u32),
                        .words = strided(call.words),
                        .out = strided(call.out),
                        .items = items,
                        .inputs = static_cast<u32>(call.words.n),
                        .outputs = static_cast<u32>(call.out.n)};
  const Properties& gpu = state_->properties();
  if (items > kFew && u64{a.inputs} * a.outputs >= kWide && gpu.major == 9 && gpu.minor == 0) {
    Workspace scratch = call.scratch;
    const View columns = scratch.take(math::Word::w32, (items + 31) / 32 * 32, 1, 1, a.inputs);
    return wide_byte_product(q, *state_, a, reinterpret_cast<unsigned char*>(columns.data));
  }
  run(q, device::Zero{call.out});
  /// Partitions the inputs among blocks of `rows` rows; `groups` blocks have the same rows.
  const auto cut_for = [&](u32 rows, u32 step, u32 groups) {
    const u32 tiles = (a.outputs + rows - 1) / rows, steps = (a.inputs + step - 1) / step;
    const u32 stretch = std::max<u32>(4, static_cast<u32>((u64{steps} * tiles * groups + kBlocks - 1) / kBlocks)) * step;
    const u32 splits = (a.inputs + stretch - 1) / stretch;
    return Cut{.stretch = stretch, .splits = splits, .blocks = u64{tiles} * splits * groups};
  };
  if (items <= kFew) {
    const Cut cut = cut_for(kWarps * kRowsOfWarp, 32 * 16, 1);
    for (u32 item = 0; item < items; ++item)
      launch(q, "byte_product", &byte_rows_kernel, cut.blocks, kThreads, 0, a, cut, item);
    return;
  }
  using M = Matrix;
  const u32 groups = (items + M::kItems - 1) / M::kItems;
  const Cut cut = cut_for(M::kRows, M::kStep, groups);
  launch(q, "byte_product", &byte_matrix_kernel, cut.blocks, kThreads, M::kShared, a, cut, groups);
}

}  // namespace heliograph::backend::cuda
