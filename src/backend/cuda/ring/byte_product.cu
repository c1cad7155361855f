// Bytes times words modulo 2^32. A word is four signed digits of base 256; bytes and digits meet in dp4a for few vectors, in int8
// matrix units for many, which read the bytes once for 32 vectors. Stretches of the inputs are for different blocks, whose sums
// modulo 2^32 are added in any order.
#include "backend/cuda/ring/kernels.h"
#include "backend/cuda/runtime/launch.cuh"

namespace heliograph::backend::cuda {

namespace {

constexpr u32 kItems = 32;  // vectors of a launch
constexpr u32 kFew = 3;     // that dp4a takes, one after another
constexpr u32 kThreads = 256, kWarps = kThreads / 32;
constexpr u32 kRowsOfWarp = 8;           // dp4a: rows that digits meet once they are made
constexpr u32 kRows = 128, kStep = 128;  // matrix units: of a block, and inputs at a time
constexpr u32 kStride = kStep + 16;      // of a row in shared memory: eight rows begin in different banks
constexpr u32 kHalf = 0x80808080;

struct ByteArguments {
  const unsigned char* bytes;
  u64 row;  // bytes from one to the next
  const u32* words[kItems];
  u32* out[kItems];
  u32 count, inputs, outputs, stretch, splits;
};

/// Digits of four words, a plane each.
__device__ __forceinline__ void planes_of(const uint4& words, u32 (&planes)[4]) {
  const u32 a = (words.x + kHalf) ^ kHalf, b = (words.y + kHalf) ^ kHalf, c = (words.z + kHalf) ^ kHalf,
            d = (words.w + kHalf) ^ kHalf;
  const u32 low_ab = __byte_perm(a, b, 0x5140), high_ab = __byte_perm(a, b, 0x7362);  // a0 b0 a1 b1, a2 b2 a3 b3
  const u32 low_cd = __byte_perm(c, d, 0x5140), high_cd = __byte_perm(c, d, 0x7362);
  planes[0] = __byte_perm(low_ab, low_cd, 0x5410), planes[1] = __byte_perm(low_ab, low_cd, 0x7632);
  planes[2] = __byte_perm(high_ab, high_cd, 0x5410), planes[3] = __byte_perm(high_ab, high_cd, 0x7632);
}

__device__ __forceinline__ void add_bytes(int (&sum)[4], u32 bytes, const u32 (&planes)[4]) {
#pragma unroll
  for (u32 p = 0; p < 4; ++p) sum[p] = __dp4a(static_cast<int>(bytes ^ kHalf), static_cast<int>(planes[p]), sum[p]);
}

/// A warp: kRowsOfWarp rows of one vector, 16 inputs a lane at a time.
__global__ void __launch_bounds__(kThreads) byte_rows_kernel(const __grid_constant__ ByteArguments a, u32 item) {
  take_turn();
  const u32 lane = threadIdx.x % 32, tile = blockIdx.x / a.splits * kWarps + threadIdx.x / 32;
  const u32 first = tile * kRowsOfWarp, start = blockIdx.x % a.splits * a.stretch;
  if (first >= a.outputs) return;
  const u32 end = min(start + a.stretch, a.inputs);
  int sum[kRowsOfWarp][4] = {};
  for (u32 i = start + lane * 16; i < end; i += 32 * 16) {
    uint4 bytes[kRowsOfWarp];
#pragma unroll
    for (u32 r = 0; r < kRowsOfWarp; ++r)
      bytes[r] = __ldcs(reinterpret_cast<const uint4*>(a.bytes + min(first + r, a.outputs - 1) * a.row + i));
    const uint4* const words = reinterpret_cast<const uint4*>(a.words[item] + i);
    u32 planes[4];
#pragma unroll
    for (u32 k = 0; k < 4; ++k) {
      planes_of(words[k], planes);
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
    if (lane == 0 && first + r < a.outputs) atomicAdd(a.out[item] + first + r, all);
  }
}

__device__ __forceinline__ void multiply(int (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/// kStep inputs of a block on their way to shared memory.
struct Fetched {
  static constexpr u32 kEach = kRows * kStep / 16 / kThreads;
  uint4 bytes[kEach], words[kEach];

  __device__ __forceinline__ void load(const ByteArguments& a, u32 first, u32 start) {
#pragma unroll
    for (u32 k = 0; k < kEach; ++k) {
      const u32 unit = k * kThreads + threadIdx.x, row = unit / (kStep / 16), at = unit % (kStep / 16) * 16;
      bytes[k] = __ldcs(reinterpret_cast<const uint4*>(a.bytes + min(first + row, a.outputs - 1) * a.row + start + at));
      const u32 item = unit / (kStep / 4), word = unit % (kStep / 4) * 4;
      words[k] = item < a.count ? *reinterpret_cast<const uint4*>(a.words[item] + start + word) : uint4{};
    }
  }
  __device__ __forceinline__ void store(unsigned char* rows, unsigned char* columns) const {
#pragma unroll
    for (u32 k = 0; k < kEach; ++k) {
      const u32 unit = k * kThreads + threadIdx.x, row = unit / (kStep / 16), at = unit % (kStep / 16) * 16;
      *reinterpret_cast<uint4*>(rows + row * kStride + at) =
          uint4{bytes[k].x ^ kHalf, bytes[k].y ^ kHalf, bytes[k].z ^ kHalf, bytes[k].w ^ kHalf};
      const u32 item = unit / (kStep / 4), word = unit % (kStep / 4) * 4;
      u32 planes[4];
      planes_of(words[k], planes);
#pragma unroll
      for (u32 p = 0; p < 4; ++p) *reinterpret_cast<u32*>(columns + (item * 4 + p) * kStride + word) = planes[p];
    }
  }
};
static_assert(kItems * 4 == kRows, "bytes and digits fill as much of shared memory");

/// A block: kRows rows, kItems vectors, whose digits are 4 kItems columns. A warp: 32 rows and 64 columns. The fragments of
/// mma.m16n8k32 (PTX ISA): g = lane / 4, t = lane % 4; A has rows g and g + 8, words t and t + 4; B column g; C columns 2t, 2t + 1.
__global__ void __launch_bounds__(kThreads) byte_matrix_kernel(const __grid_constant__ ByteArguments a) {
  take_turn();
  __shared__ __align__(16) unsigned char rows[kRows * kStride], columns[kRows * kStride];
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const u32 first = blockIdx.x / a.splits * kRows, row = warp % 4 * 32, column = warp / 4 * 64;
  const u32 start = blockIdx.x % a.splits * a.stretch, end = min(start + a.stretch, a.inputs);
  int sum[2][8][4] = {};
  Fetched next;
  if (start < end) next.load(a, first, start);
  for (u32 i = start; i < end; i += kStep) {
    __syncthreads();
    next.store(rows, columns);
    __syncthreads();
    if (i + kStep < end) next.load(a, first, i + kStep);
#pragma unroll
    for (u32 k = 0; k < kStep; k += 32) {
      u32 x[2][4];
#pragma unroll
      for (u32 m = 0; m < 2; ++m) {
#pragma unroll
        for (u32 r = 0; r < 4; ++r)
          x[m][r] = *reinterpret_cast<const u32*>(rows + (row + m * 16 + g + r % 2 * 8) * kStride + k + t * 4 + r / 2 * 16);
      }
#pragma unroll
      for (u32 n = 0; n < 8; ++n) {
        const unsigned char* const from = columns + (column + n * 8 + g) * kStride + k + t * 4;
        const u32 b0 = *reinterpret_cast<const u32*>(from), b1 = *reinterpret_cast<const u32*>(from + 16);
#pragma unroll
        for (u32 m = 0; m < 2; ++m) multiply(sum[m][n], x[m], b0, b1);
      }
    }
  }
  const u32 shift = t % 2 * 16;  // two planes here, two with the neighbour
#pragma unroll
  for (u32 n = 0; n < 8; ++n) {
    const u32 item = (column + n * 8) / 4 + t / 2;
#pragma unroll
    for (u32 m = 0; m < 2; ++m) {
#pragma unroll
      for (u32 half = 0; half < 2; ++half) {
        const u32 mine =
            (static_cast<u32>(sum[m][n][2 * half]) << shift) + (static_cast<u32>(sum[m][n][2 * half + 1]) << (shift + 8));
        const u32 all = mine + __shfl_xor_sync(~0u, mine, 1), at = first + row + m * 16 + half * 8 + g;
        if (t % 2 == 0 && item < a.count && at < a.outputs) atomicAdd(a.out[item] + at, all);
      }
    }
  }
}

}  // namespace

void CudaKernels::run(Queue& q, const device::ByteProduct& call) {
  constexpr u32 kBlocks = 2048;  // that keep every GPU busy
  const std::size_t items = call.out.items();
  if (items == 0 || call.out.n == 0) return;
  run(q, device::Zero{call.out});
  for (std::size_t done = 0; done < items; done += kItems) {
    ByteArguments a{.bytes = reinterpret_cast<const unsigned char*>(call.bytes.address(0, 0, 0)),
                    .row = call.bytes.component_stride * sizeof(u32),
                    .words = {},
                    .out = {},
                    .count = static_cast<u32>(std::min<std::size_t>(kItems, items - done)),
                    .inputs = static_cast<u32>(call.words.n),
                    .outputs = static_cast<u32>(call.out.n)};
    for (u32 k = 0; k < a.count; ++k) {
      a.words[k] = reinterpret_cast<const u32*>(call.words.address(done + k, 0, 0));
      a.out[k] = reinterpret_cast<u32*>(call.out.address(done + k, 0, 0));
    }
    const bool few = a.count <= kFew;
    const u32 rows = few ? kWarps * kRowsOfWarp : kRows, step = few ? 32 * 16 : kStep, tiles = (a.outputs + rows - 1) / rows;
    const u32 steps = (a.inputs + step - 1) / step;
    a.stretch = std::max<u32>(4, (steps * tiles + kBlocks - 1) / kBlocks) * step;
    a.splits = (a.inputs + a.stretch - 1) / a.stretch;
    if (few) {
      for (u32 k = 0; k < a.count; ++k)
        launch(q, "byte_product", &byte_rows_kernel, u64{tiles} * a.splits, kThreads, 0, a, k);
    } else {
      launch(q, "byte_product", &byte_matrix_kernel, u64{tiles} * a.splits, kThreads, 0, a);
    }
  }
}

}  // namespace heliograph::backend::cuda
