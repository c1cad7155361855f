// Bytes times words modulo 2^32 by the asynchronous matrix units of compute capability 9.0 (wgmma, PTX ISA); compiled only
// for it. A first kernel lays out the words' digits as tiles of columns for shared memory. The second kernel has one block
// for each multiprocessor. One group of four warps copies stages of rows and columns; two groups multiply them.
#include <algorithm>

#include "backend/cuda/ring/byte_product.cuh"
#include "backend/cuda/runtime/launch.cuh"

namespace heliograph::backend::cuda {

namespace {

constexpr u32 kRows = 128, kStep = 128;  // rows of a stage, and inputs (bytes of a row) of a stage
constexpr u32 kGroup = 128, kMultiply = 2 * kGroup, kThreads = kMultiply + kGroup;
constexpr u32 kSumThreads = 1024, kColumnThreads = 256;
constexpr u32 kUnit = 16;   // bytes that are copied and swizzled at once
constexpr u32 kAhead = 2;   // stages whose rows are being copied
constexpr u32 kChunk = 64;  // maximum stages between two additions to `out`

/// Vectors of a launch; their digits are the columns.
template <u32 ITEMS>
struct Tile {
  static constexpr u32 kColumns = 4 * ITEMS, kRowBytes = kRows * kStep, kColumnBytes = kColumns * kStep;
  static constexpr u32 kStage = kRowBytes + kColumnBytes, kStages = (192 << 10) / kStage, kSums = kColumns / 2;
  static constexpr u32 kAlign = 1024, kShared = kAlign + kStages * (kStage + 2 * sizeof(u64));
};

/// A unit of work is a tile of rows and a chunk of the inputs' steps. Blocks that run at the same time have the same chunk,
/// so that its columns stay in the L2 cache.
struct Units {
  u32 tiles, chunk, count;
};

/// Initializes the sums. The bytes are multiplied as unsigned numbers, so 128 times the sum of a vector's words is
/// subtracted. Each block has one vector.
__global__ void __launch_bounds__(kSumThreads) begin_sums(const __grid_constant__ ByteArguments a) {
  take_turn();
  __shared__ u32 parts[kSumThreads / 32];
  const u32* const words = limb_of<u32>(a.words, blockIdx.x, 0, 0);
  const auto over_warp = [](u32 x) {
    for (u32 d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
    return x;
  };
  u32 sum = 0;
  for (u32 i = threadIdx.x * 4; i < a.inputs; i += kSumThreads * 4) {
    const uint4 w = *reinterpret_cast<const uint4*>(words + i);
    sum += w.x + w.y + w.z + w.w;
  }
  sum = over_warp(sum);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = over_warp(parts[threadIdx.x % 32]);
  u32* const out = limb_of<u32>(a.out, blockIdx.x, 0, 0);
  for (u32 i = threadIdx.x; i < a.outputs; i += kSumThreads) out[i] = 0u - 128 * sum;
}

/// Returns the position of a unit of a row or column in shared memory; eight consecutive ones are in different banks
/// (128-byte swizzle).
__device__ __forceinline__ u32 swizzled(u32 row, u32 unit) { return row * kStep + (unit ^ (row & 7)) * kUnit; }

/// Lays out the columns of one step in each block. An item's columns are placed such that one thread of the product has the
/// sums of all of them.
template <u32 ITEMS>
__global__ void __launch_bounds__(kColumnThreads)
    lay_out_columns(const __grid_constant__ ByteArguments a, u32 first, unsigned char* to) {
  take_turn();
  constexpr u32 kUnits = kStep / kUnit;
  unsigned char* const step = to + u64{blockIdx.x} * Tile<ITEMS>::kColumnBytes;
  for (u32 k = threadIdx.x; k < ITEMS * kUnits; k += kColumnThreads) {
    const u32 item = k / kUnits, unit = k % kUnits;
    u32 planes[4][4] = {};  // digit planes [word][plane]
    if (first + item < a.items) {
      const u32* const words = limb_of<u32>(a.words, first + item, 0, 0) + blockIdx.x * kStep + unit * kUnit;
#pragma unroll
      for (u32 w = 0; w < 4; ++w) planes_of(reinterpret_cast<const uint4*>(words)[w], planes[w]);
    }
#pragma unroll
    for (u32 p = 0; p < 4; ++p) {
      const u32 column = item / 4 * 16 + p / 2 * 8 + item % 4 * 2 + p % 2;
      *reinterpret_cast<uint4*>(step + swizzled(column, unit)) =
          uint4{planes[0][p], planes[1][p], planes[2][p], planes[3][p]};
    }
  }
}

__device__ __forceinline__ u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

/// A barrier in shared memory (mbarrier) for threads and bytes, with alternating phases.
struct Barrier {
  u32 address;

  __device__ __forceinline__ void init(u32 arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(arrivals) : "memory");
  }
  __device__ __forceinline__ void arrive() const {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
  }
  /// Arrives, and makes the phase wait for this number of bytes.
  __device__ __forceinline__ void expect(u32 bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes) : "memory");
  }
  __device__ __forceinline__ void wait(u32 phase) const {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "AGAIN%=:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra AGAIN%=;\n"
        "}" ::"r"(address),
        "r"(phase)
        : "memory");
  }
};

__device__ __forceinline__ void copy_bulk(u32 to, const void* from, u32 bytes, Barrier arrive_at) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(arrive_at.address)
               : "memory");
}
__device__ __forceinline__ void copy_unit(u32 to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <u32 LEFT>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}
/// Makes this thread's writes to shared memory visible to the matrix units.
__device__ __forceinline__ void show_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Descriptor of a matrix of swizzled rows of 128 bytes in shared memory, 1,024 bytes for eight rows.
__device__ __forceinline__ u64 matrix_at(u32 address) {
  return u64{(address & 0x3FFFF) >> 4} | u64{1} << 16 | u64{1024 >> 4} << 32 | u64{1} << 62;
}

#define HG_SUMS_4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define HG_SUMS_16(i) HG_SUMS_4(i), HG_SUMS_4(i + 4), HG_SUMS_4(i + 8), HG_SUMS_4(i + 12)
#define HG_SUMS_64(i) HG_SUMS_16(i), HG_SUMS_16(i + 16), HG_SUMS_16(i + 32), HG_SUMS_16(i + 48)
#define HG_NAMES_64_0                                                \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"           \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define HG_NAMES_64_1                                                            \
  "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"             \
  "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"             \
  "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111," \
  "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

/// d += 64 rows times columns, for 32 inputs; without `add`, d = the product. The multiplication is asynchronous.
__device__ __forceinline__ void multiply(int (&d)[64], u64 rows, u64 columns, u32 add) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.u8.s8 {" HG_NAMES_64_0
      "}, %64, %65, p;\n"
      "}"
      : HG_SUMS_64(0)
      : "l"(rows), "l"(columns), "r"(add));
}
__device__ __forceinline__ void multiply(int (&d)[128], u64 rows, u64 columns, u32 add) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %130, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k32.s32.u8.s8 {" HG_NAMES_64_0 "," HG_NAMES_64_1
      "}, %128, %129, p;\n"
      "}"
      : HG_SUMS_64(0), HG_SUMS_64(64)
      : "l"(rows), "l"(columns), "r"(add));
}
#undef HG_SUMS_4
#undef HG_SUMS_16
#undef HG_SUMS_64
#undef HG_NAMES_64_0
#undef HG_NAMES_64_1

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <u32 LEFT>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

/// A ring buffer of stages in shared memory. A stage is full when its bytes have arrived, and empty after their product.
template <u32 ITEMS>
struct Stages {
  using T = Tile<ITEMS>;
  u32 base;

  __device__ __forceinline__ u32 rows(u32 n) const { return base + n % T::kStages * T::kStage; }
  __device__ __forceinline__ u32 columns(u32 n) const { return rows(n) + T::kRowBytes; }
  __device__ __forceinline__ Barrier full(u32 n) const {
    return {base + T::kStages * T::kStage + n % T::kStages * static_cast<u32>(sizeof(u64))};
  }
  __device__ __forceinline__ Barrier empty(u32 n) const {
    return {full(n).address + T::kStages * static_cast<u32>(sizeof(u64))};
  }
  __device__ __forceinline__ static u32 phase(u32 n) { return n / T::kStages & 1; }
};

/// The producer group of warps. Each thread copies one 16-byte unit of the rows of all units of work; one thread copies the
/// columns. A stage's rows are signalled as full `kAhead` stages later, when they have arrived.
template <u32 ITEMS>
__device__ __forceinline__ void bring(const ByteArguments& a, const Units& units, Stages<ITEMS> stages,
                                      const unsigned char* columns) {
  using T = Tile<ITEMS>;
  constexpr u32 kEach = kRows * kStep / kUnit / kGroup, kUnits = kStep / kUnit, kApart = kGroup / kUnits;  // kApart:
                                                                                                           // distance in
                                                                                                           // rows
  const u32 thread = threadIdx.x % kGroup, steps = a.inputs / kStep;
  u32 n = 0;
  const auto tell = [&](u32 stage) {
    show_writes();
    stages.full(stage).arrive();
  };
  for (u32 unit = blockIdx.x; unit < units.count; unit += gridDim.x) {
    const u32 row = unit % units.tiles * kRows + thread / kUnits, start = unit / units.tiles * units.chunk;
    const unsigned char* from[kEach];
#pragma unroll
    for (u32 k = 0; k < kEach; ++k)
      from[k] = a.bytes + min(row + k * kApart, a.outputs - 1) * a.row + thread % kUnits * kUnit;
    for (u32 i = start; i < min(start + units.chunk, steps); ++i, ++n) {
      if (n >= T::kStages) stages.empty(n).wait(stages.phase(n) ^ 1);
      if (thread == 0) {
        stages.full(n).expect(T::kColumnBytes);
        copy_bulk(stages.columns(n), columns + u64{i} * T::kColumnBytes, T::kColumnBytes, stages.full(n));
      }
      const u32 to = stages.rows(n) + swizzled(thread / kUnits, thread % kUnits);
#pragma unroll
      for (u32 k = 0; k < kEach; ++k) copy_unit(to + k * kApart * kStep, from[k] + u64{i} * kStep);
      commit_copies();
      if (n >= kAhead) wait_copies<kAhead>(), tell(n - kAhead);
    }
  }
  wait_copies<0>();
  for (u32 stage = n > kAhead ? n - kAhead : 0; stage < n; ++stage) tell(stage);
}

/// The consumer groups of warps. Each group multiplies 64 rows by all columns. In each eight columns a thread has the sums
/// of rows g and g + 8 (g = lane / 4) and columns 2 t and 2 t + 1 (t = lane % 4).
template <u32 ITEMS>
__device__ __forceinline__ void multiply_all(const ByteArguments& a, const Units& units, Stages<ITEMS> stages,
                                             u32* const* out, u32 items) {
  using T = Tile<ITEMS>;
  const u32 group = threadIdx.x / kGroup, warp = threadIdx.x / 32, lane = threadIdx.x % 32, steps = a.inputs / kStep;
  int sum[T::kSums];
  const auto leave = [&](u32 stage) {
    if (lane == 0) stages.empty(stage).arrive();
  };
  u32 n = 0;
  for (u32 unit = blockIdx.x; unit < units.count; unit += gridDim.x) {
    const u32 start = unit / units.tiles * units.chunk;
    for (u32 i = start; i < min(start + units.chunk, steps); ++i, ++n) {
      stages.full(n).wait(stages.phase(n));
      const u64 x = matrix_at(stages.rows(n) + group * (kRows / 2) * kStep), y = matrix_at(stages.columns(n));
      begin_products();
#pragma unroll
      // the next 32 bytes of a row are 2 units further in shared memory
      for (u32 k = 0; k < kStep / 32; ++k) multiply(sum, x + 2 * k, y + 2 * k, i > start || k > 0);
      commit_products();
      if (i > start) wait_products<1>(), leave(n - 1);
    }
    wait_products<0>();
#pragma unroll
    for (u32 k = 0; k < T::kSums; ++k)
      asm volatile(""
                   : "+r"(sum[k])::"memory");  // the sums must not be read before this
                                               // point
    leave(n - 1);
    const u32 row = unit % units.tiles * kRows + warp * 16 + lane / 4;
#pragma unroll
    for (u32 j = 0; j < ITEMS / 4; ++j) {
      const u32 item = j * 4 + lane % 4;
      if (item >= items) continue;
#pragma unroll
      for (u32 half = 0; half < 2; ++half) {
        const int* const d = sum + j * 8 + 2 * half;
        const u32 all = static_cast<u32>(d[0]) + (static_cast<u32>(d[1]) << 8) + (static_cast<u32>(d[4]) << 16) +
                        (static_cast<u32>(d[5]) << 24);
        if (row + 8 * half < a.outputs) atomicAdd(out[item] + row + 8 * half, all);
      }
    }
  }
}

template <u32 ITEMS>
__global__ void __launch_bounds__(kThreads, 1)
    wide_product(const __grid_constant__ ByteArguments a, const Units units, u32 first, const unsigned char* columns) {
  take_turn();
  using T = Tile<ITEMS>;
  extern __shared__ unsigned char shared[];
  __shared__ u32* out[ITEMS];
  const Stages<ITEMS> stages{(shared_address(shared) + T::kAlign - 1) & ~(T::kAlign - 1)};
  const u32 items = min(ITEMS, a.items - first);
  if (threadIdx.x < items) out[threadIdx.x] = limb_of<u32>(a.out, first + threadIdx.x, 0, 0);
  if (threadIdx.x == 0) {
    for (u32 s = 0; s < T::kStages; ++s) {
      stages.full(s).init(kGroup + 1);  // arrivals: the threads that copy rows, and one for columns
      stages.empty(s).init(kMultiply / 32);
    }
    show_writes();
  }
  __syncthreads();
  threadIdx.x < kMultiply ? multiply_all(a, units, stages, out, items) : bring(a, units, stages, columns);
}

template <u32 ITEMS>
void launch_some(Queue& queue, const State& state, const ByteArguments& a, u32 first, unsigned char* columns) {
  const u32 steps = a.inputs / kStep, tiles = (a.outputs + kRows - 1) / kRows;
  const auto blocks = static_cast<u32>(state.properties().processors);
  Units units{.tiles = tiles, .chunk = 0, .count = 0};
  units.chunk = std::clamp(static_cast<u32>(u64{steps} * tiles / (8 * blocks)), 8u, kChunk);
  units.count = tiles * ((steps + units.chunk - 1) / units.chunk);
  launch(queue, "byte_product", &lay_out_columns<ITEMS>, steps, kColumnThreads, 0, a, first, columns);
  launch(queue, "byte_product", &wide_product<ITEMS>, std::min(blocks, units.count), kThreads, Tile<ITEMS>::kShared, a,
         units, first, static_cast<const unsigned char*>(columns));
}

}  // namespace

void wide_byte_product(Queue& queue, State& state, const ByteArguments& a, unsigned char* columns) {
  launch(queue, "byte_product", &begin_sums, a.items, kSumThreads, 0, a);
  for (u32 first = 0; first < a.items; first += 64)
    a.items - first > 32 ? launch_some<64>(queue, state, a, first, columns)
                         : launch_some<32>(queue, state, a, first, columns);
}

}  // namespace heliograph::backend::cuda
