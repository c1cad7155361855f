// Compares transforms whose threads hold 2, 4, 8 or 16 points in registers between two exchanges through shared memory, i.e. radix 2 to 16.
// Kim's thesis (2025, figure 5.3) compares 2, 4 and 8, with the roofline of DRAM, L2 and L1.
//
//   radix OUT.json [MIB=512] [REPEATS=25]
//   radix once [LIMBS=64]     runs each kernel once, for the profiler (command in README.md)
//
// A forward transform of N = 2^16 over 28-bit primes, Field32, in two kernels as in the thesis: stage 1 joins points 256 apart, stage 2
// rows of 256. Values between the stages are below 4q, in place. The product's own kernels (ntt.cuh, 16 points) are measured too.
#include <cstring>

#include "gpu.cuh"

namespace workbench {

constexpr std::size_t kN = 1 << 16;
constexpr u32 kRow = cuda::kRow, kColumns = 16;  // neighbouring columns a block of stage 1
constexpr int kBits = 8;                         // stages of each kernel
constexpr std::size_t kLimbs = 64;               // primes

struct Stage {
  u32* x;  // [limb of the launch][N]
  const Field32::Prime* primes;
  const Field32::Constant* twiddles;
  u32 limbs;  // limbs an item; each has its own prime
};

/// A transform in rounds of K stages; a thread holds P polynomials or columns.
template <int K, int P>
struct Radix {
  static constexpr int kEach = 1 << K, kThreads = (1 << kBits) / kEach, kRounds = (kBits + K - 1) / K;
  static constexpr int bits(int round) { return round + 1 < kRounds ? K : kBits - K * (kRounds - 1); }
  template <int I>
  using At = cuda::Round<Field32, kBits, K * I, bits(I), kEach, P>;
  static constexpr int kLast = kRounds - 1;
  using Values = u32[P][kEach];

  /// Calls body(register, point) for each point of round I.
  template <int I, class Body>
  static __device__ __forceinline__ void each(int t, Body body) {
#pragma unroll
    for (int g = 0; g < (kEach >> bits(I)); ++g) {
#pragma unroll
      for (int e = 0; e < (1 << bits(I)); ++e) body((g << bits(I)) + e, At<I>::point(t, g, e));
    }
  }
  template <int FROM, int TO, class Layout>
  static __device__ __forceinline__ void exchange(Values& v, int t, u32* shared, const Layout& layout, bool again) {
    struct alignas(P * sizeof(u32)) Side {
      u32 at[P];
    };
    auto* const sides = reinterpret_cast<Side*>(shared);
    if (again) layout.sync();
    each<FROM>(t, [&](int r, int point) {
      Side s;
#pragma unroll
      for (int k = 0; k < P; ++k) s.at[k] = v[k][r];
      sides[layout.at(point)] = s;
    });
    layout.sync();
    each<TO>(t, [&](int r, int point) {
      const Side s = sides[layout.at(point)];
#pragma unroll
      for (int k = 0; k < P; ++k) v[k][r] = s.at[k];
    });
  }
  template <int I, class Layout>
  static __device__ __forceinline__ void forward(Values& v, int t, u32 root, const Field32::Constant* tw,
                                                 const Field32::Prime& p, u32* shared, const Layout& layout) {
    At<I>::forward(v, t, root, tw, p);
    if constexpr (I < kLast) {
      exchange<I, I + 1>(v, t, shared, layout, I > 0);
      forward<I + 1>(v, t, root, tw, p, shared, layout);
    }
  }
};

template <int K>
struct Columns {
  static constexpr int kTogether = 2, kNeighbours = kColumns / kTogether;
  using R = Radix<K, kTogether>;
  static constexpr int kBlock = R::kThreads * kNeighbours;
  static constexpr std::size_t kShared = (sizeof(u32) * kColumns) << kBits;
};
template <int K>
struct Rows {
  using R = Radix<K, 1>;
  static constexpr int kBlock = 256, kRows = kBlock / R::kThreads;  // rows a block
  using Layout = cuda::RowLayout<kBits, R::kThreads <= 32>;
  static constexpr std::size_t kShared = sizeof(u32) * kRows * Layout::kWords;
};

template <int K>
__global__ void __launch_bounds__(Columns<K>::kBlock) stage_1(Stage a) {
  using R = typename Columns<K>::R;
  extern __shared__ __align__(16) u32 memory[];
  const cuda::ColumnLayout<Columns<K>::kNeighbours, 2> layout{static_cast<int>(threadIdx.x) % Columns<K>::kNeighbours};
  const int t = static_cast<int>(threadIdx.x) / Columns<K>::kNeighbours;
  const u32 prime = blockIdx.y % a.limbs;
  const Field32::Prime p = a.primes[prime];
  u32* const x = a.x + blockIdx.y * kN + blockIdx.x * kColumns + layout.column * 2;
  typename R::Values v;
  R::template each<0>(t, [&](int r, int point) {
    const uint2 two = *reinterpret_cast<const uint2*>(x + static_cast<u32>(point) * kRow);
    v[0][r] = two.x, v[1][r] = two.y;
  });
  R::template forward<0>(v, t, 1, a.twiddles + prime * kN, p, memory, layout);
  R::template each<R::kLast>(t, [&](int r, int point) {
    *reinterpret_cast<uint2*>(x + static_cast<u32>(point) * kRow) = make_uint2(v[0][r], v[1][r]);
  });
}

template <int K>
__global__ void __launch_bounds__(Rows<K>::kBlock) stage_2(Stage a) {
  using R = typename Rows<K>::R;
  using Layout = typename Rows<K>::Layout;
  extern __shared__ __align__(16) u32 memory[];
  const int t = static_cast<int>(threadIdx.x) % R::kThreads, inside = static_cast<int>(threadIdx.x) / R::kThreads;
  const u32 row = blockIdx.x * Rows<K>::kRows + static_cast<u32>(inside), prime = blockIdx.y % a.limbs;
  const Field32::Prime p = a.primes[prime];
  u32* const x = a.x + blockIdx.y * kN + row * kRow;
  u32* const shared = memory + inside * Layout::kWords;
  const Layout layout;
  typename R::Values v;
  R::template each<0>(t, [&](int r, int point) { v[0][r] = x[point]; });
  R::template forward<0>(v, t, kRow + row, a.twiddles + prime * kN, p, shared, layout);
#pragma unroll
  for (int r = 0; r < R::kEach; ++r) v[0][r] = Field32::canonical(v[0][r], p);
  if constexpr (R::bits(R::kLast) <= 2) {  // two or four neighbours in registers
    constexpr int kPack = 1 << R::bits(R::kLast);
    using Pack = std::conditional_t<kPack == 4, uint4, uint2>;
    R::template each<R::kLast>(t, [&](int r, int point) {
      if (r % kPack != 0) return;
      alignas(Pack) u32 pack[kPack];
#pragma unroll
      for (int k = 0; k < kPack; ++k) pack[k] = v[0][r + k];
      *reinterpret_cast<Pack*>(x + point) = *reinterpret_cast<const Pack*>(pack);
    });
  } else {
    R::template exchange<R::kLast, 0>(v, t, shared, layout, true);
    R::template each<0>(t, [&](int r, int point) { x[point] = v[0][r]; });
  }
}

// ---- roofs -------------------------------------------------------------------------------------------------------------

enum class Roof { multiply_add, upper_half, add, butterfly };
constexpr const char* kRoofs[] = {"32-bit multiply-add", "upper half of a 32-bit product", "32-bit add and minimum",
                                  "forward butterfly"};
/// Integer instructions of a butterfly: three products (one with an addition), x less 2q, a minimum, and two sums.
constexpr int kButterflyOperations = 7, kButterflyProducts = 3, kCanonicalOperations = 4;
constexpr int kChains = 8, kTurns = 1024;
/// Operations of one thread in one turn.
constexpr int operations_of(Roof roof) {
  return roof == Roof::butterfly ? kChains / 2 * kButterflyOperations : roof == Roof::add ? 2 * kChains : kChains;
}

template <Roof ROOF>
__global__ void __launch_bounds__(256)
    operations(const Field32::Prime* prime, const Field32::Constant* constants, u32* out) {
  const Field32::Prime p = *prime;
  const Field32::Constant w = constants[threadIdx.x % 32];
  u32 v[kChains];
#pragma unroll
  for (int k = 0; k < kChains; ++k) v[k] = blockIdx.x * blockDim.x + threadIdx.x + k;
#pragma unroll 4
  for (int turn = 0; turn < kTurns; ++turn) {
#pragma unroll
    for (int k = 0; k < kChains; ++k) {
      if constexpr (ROOF == Roof::multiply_add) v[k] = v[k] * w.w + p.q;
      if constexpr (ROOF == Roof::upper_half) v[k] = __umulhi(v[k], w.quotient);
      if constexpr (ROOF == Roof::add) v[k] = cuda::least(v[k] + w.w, p.q ^ w.quotient);
    }
    if constexpr (ROOF == Roof::butterfly) {
#pragma unroll
      for (int k = 0; k < kChains / 2; ++k) Field32::forward(v[k], v[k + kChains / 2], w, p, false);
    }
  }
  u32 sum = 0;
#pragma unroll
  for (int k = 0; k < kChains; ++k) sum ^= v[k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

template <Roof ROOF>
void time_operations(Report& report, const Tables<Field32>& tables, int multiprocessors, int repeats) {
  const u32 blocks = 32 * static_cast<u32>(multiprocessors);
  const Array<u32> out(std::size_t{blocks} * 256);
  const double taken = seconds(repeats, [&] {
    operations<ROOF><<<blocks, 256>>>(tables.primes(), tables.twiddles(false) + 1024, out.data());
    check(cudaGetLastError(), "operations");
  });
  const double rate = 256.0 * blocks * kTurns * operations_of(ROOF) / taken;
  const char* const name = kRoofs[static_cast<int>(ROOF)];
  std::printf("%-32s %8.2f T operations/s\n", name, rate * 1e-12);
  report.row("roofs").add("what", name).add("unit", "operations").add("per_second", rate);
}

/// Copies the same words `times` times, bypassing the L1.
__global__ void copy(const uint4* from, uint4* to, std::size_t count, int times) {
  for (int k = 0; k < times; ++k) {
    for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count;
         i += std::size_t{gridDim.x} * blockDim.x)
      __stcg(to + i, __ldcg(from + i));
  }
}
/// Times launches that copy `bytes` bytes `times` times each.
void time_copy(Report& report, const char* name, std::size_t bytes, int times, int multiprocessors, int repeats) {
  const Array<uint4> from(bytes / 16), to(bytes / 16);
  check(cudaMemset(from.data(), 1, bytes), "cudaMemset");
  const double taken = seconds(repeats, [&] {
    copy<<<8 * static_cast<u32>(multiprocessors), 256>>>(from.data(), to.data(), bytes / 16, times);
    check(cudaGetLastError(), "copy");
  });
  const double rate = 2.0 * static_cast<double>(bytes) * times / taken;
  std::printf("%-32s %8.0f GB/s, read and written\n", name, rate * 1e-9);
  report.row("roofs").add("what", name).add("unit", "bytes").add("per_second", rate);
}

// ---- transforms --------------------------------------------------------------------------------------------------------

/// Enqueues a transform's kernels: radix 2^K, or the product's if K is 0.
template <int K>
void enqueue(const Tables<Field32>& tables, const Batch<u32>& x, Passes which) {
  if constexpr (K == 0) {
    enqueue_two_passes<Field32, kBits, 1, false>(tables, x, which);
  } else {
    const Stage a{x.data, tables.primes(), tables.twiddles(false), static_cast<u32>(x.limbs)};
    const u32 limbs = static_cast<u32>(x.items * x.limbs);
    if (which != Passes::rows) stage_1<K><<<dim3(kRow / kColumns, limbs), Columns<K>::kBlock, Columns<K>::kShared>>>(a);
    if (which != Passes::columns) stage_2<K><<<dim3(kRow / Rows<K>::kRows, limbs), Rows<K>::kBlock, Rows<K>::kShared>>>(a);
    check(cudaGetLastError(), "a stage's launch");
  }
}

constexpr const char* kPasses[] = {"both", "stage 1", "stage 2"};

/// Returns the words a coefficient that pass through shared memory (each a write and a read). The product's kernels are radix 16.
constexpr int exchanges(int k, Passes which) {
  const int radix = k == 0 ? 4 : k, rounds = (kBits + radix - 1) / radix;
  const int last = (kBits - radix * (rounds - 1)) > 2 ? 1 : 0;  // exchange before a row is stored
  return (which == Passes::rows ? 0 : rounds - 1) + (which == Passes::columns ? 0 : rounds - 1 + last);
}

struct Data {
  const char* name;
  std::size_t limbs, primes;  // limbs a launch; primes an item
  std::size_t launches;       // launches of each kernel in a measurement
  bool same;                  // whether each launch uses the same limbs, or the next limbs
};

template <int K>
void time_kernels(Report& report, const Tables<Field32>& tables, const Batch<u32>& all, const Data& data, Passes which,
                  int repeats) {
  const std::size_t item = data.primes * kN, limbs = all.words() / kN;
  const double taken = seconds(repeats, [&] {
    for (std::size_t i = 0; i < data.launches; ++i) {
      const std::size_t first = data.same ? 0 : i * data.limbs % (limbs / data.limbs * data.limbs);
      enqueue<K>(tables, {all.data + first * kN, data.limbs / data.primes, item / kN, kN}, which);
    }
  });
  const double each = taken / static_cast<double>(data.limbs * data.launches), n = static_cast<double>(kN);
  const int passes = which == Passes::both ? 2 : 1, radix = K == 0 ? 16 : 1 << K;
  const double butterflies = passes * n / 2 * kBits;
  const double operations = butterflies * kButterflyOperations + (which == Passes::columns ? 0 : n * kCanonicalOperations);
  const double moved = passes * 2 * n * sizeof(u32);
  const double tables_read = (which == Passes::columns ? kRow : kN) * static_cast<double>(sizeof(Field32::Constant));
  const double shared = 2.0 * exchanges(K, which) * n * sizeof(u32);
  const char* const kernel = K == 0 ? "product" : "radix";
  std::printf("%-8s %3d %-8s %-10s %5zu %9.1f ns/limb %8.0f GB/s %8.2f T operations/s\n", kernel, radix,
              kPasses[static_cast<int>(which)], data.name, data.limbs, each * 1e9, moved / each * 1e-9,
              operations / each * 1e-12);
  report.row("transforms")
      .add("kernel", kernel)
      .add("radix", radix)
      .add("stage", kPasses[static_cast<int>(which)])
      .add("data", data.name)
      .add("limbs_a_launch", data.limbs)
      .add("launches", data.launches)
      .add("seconds_a_limb", each)
      .add("bytes_a_limb", moved)
      .add("twiddle_bytes_a_limb", tables_read)
      .add("shared_bytes_a_limb", shared)
      .add("operations_a_limb", operations)
      .add("products_a_limb", butterflies * kButterflyProducts)
      .add("bytes_per_second", moved / each)
      .add("operations_per_second", operations / each);
}

/// Checks the transforms of two limbs against the host.
template <int K>
bool verify(const Moduli& moduli, const Tables<Field32>& tables, const Batch<u32>& all) {
  const Batch<u32> x = all.part(0, 2);
  x.randomize(1, tables.moduli());
  enqueue<K>(tables, x, Passes::both);
  bool right = true;
  for (const auto& [item, limb] : {std::pair{0, 0}, std::pair{1, static_cast<int>(kLimbs) - 1}}) {
    const u64 q = moduli.q[limb], root = moduli.roots[limb];
    std::vector<u64> expected(kN);
    for (std::size_t i = 0; i < kN; ++i) expected[i] = random_residue(1, (item * kLimbs + limb) * kN + i, q);
    const u64 there = value_at(expected, kN / 3, root, q);
    transform_on_host(expected, math::forward_twiddles(kN, root, q), q);
    const auto got = x.limb(item, limb);
    right &= expected[kN / 3] == there && std::equal(got.begin(), got.end(), expected.begin());
  }
  if (!right) std::printf("%s %d: WRONG\n", K == 0 ? "product" : "radix", K == 0 ? 16 : 1 << K);
  return right;
}

template <int K>
bool time_radix(Report& report, const Moduli& moduli, const Tables<Field32>& tables, const Batch<u32>& all, int repeats) {
  const bool right = verify<K>(moduli, tables, all);
  report.row("checked").add("kernel", K == 0 ? "product" : "radix").add("radix", K == 0 ? 16 : 1 << K).add("right", right);
  all.randomize(2, tables.moduli());  // in place and repeated: values stay below 4q
  const std::size_t limbs = all.items * kLimbs;
  for (const Passes which : {Passes::both, Passes::columns, Passes::rows}) {
    for (const std::size_t launch : {std::size_t{1}, std::size_t{27}, kLimbs}) {
      time_kernels<K>(report, tables, all, {"in L2", launch, launch, 64, true}, which, repeats);
      time_kernels<K>(report, tables, all, {"in turn", launch, launch, limbs / launch, false}, which, repeats);
    }
    time_kernels<K>(report, tables, all, {"one launch", limbs, kLimbs, 1, true}, which, repeats);
  }
  return right;
}

Moduli primes() { return {kN, math::largest_primes(28, kLimbs, 2 * kN)}; }

bool measure(Report& report, int multiprocessors, std::size_t bytes, int repeats) {
  const Moduli moduli = primes();
  const Tables<Field32> tables(moduli);
  report.settings.add("n", kN)
      .add("primes", kLimbs)
      .add("prime_bits", 28)
      .add("butterfly_operations", kButterflyOperations)
      .add("butterfly_products", kButterflyProducts)
      .add("canonical_operations", kCanonicalOperations);
  time_copy(report, "copy in DRAM", bytes, 1, multiprocessors, repeats);
  time_copy(report, "copy in L2", std::size_t{8} << 20, 50, multiprocessors, repeats);
  time_operations<Roof::multiply_add>(report, tables, multiprocessors, repeats);
  time_operations<Roof::upper_half>(report, tables, multiprocessors, repeats);
  time_operations<Roof::add>(report, tables, multiprocessors, repeats);
  time_operations<Roof::butterfly>(report, tables, multiprocessors, repeats);
  const std::size_t items = std::max<std::size_t>(2, bytes / (kLimbs * kN * sizeof(u32)));
  const Array<u32> words(items * kLimbs * kN);
  const Batch<u32> all{words.data(), items, kLimbs, kN};
  bool right = time_radix<1>(report, moduli, tables, all, repeats);
  right &= time_radix<2>(report, moduli, tables, all, repeats);
  right &= time_radix<3>(report, moduli, tables, all, repeats);
  right &= time_radix<4>(report, moduli, tables, all, repeats);
  right &= time_radix<0>(report, moduli, tables, all, repeats);
  return right;
}

/// Runs every kernel once.
int once(std::size_t limbs) {
  const Moduli moduli = primes();
  const Tables<Field32> tables(moduli);
  const Array<u32> words(limbs * kN);
  const Batch<u32> x{words.data(), 1, limbs, kN};
  x.randomize(2, tables.moduli());
  enqueue<1>(tables, x, Passes::both);
  enqueue<2>(tables, x, Passes::both);
  enqueue<3>(tables, x, Passes::both);
  enqueue<4>(tables, x, Passes::both);
  enqueue<0>(tables, x, Passes::both);
  check(cudaDeviceSynchronize(), "a kernel");
  return 0;
}

}  // namespace workbench

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "once") == 0) {
    return workbench::told("radix", [&] {
      const std::size_t limbs = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : workbench::kLimbs;
      if (limbs == 0 || limbs > workbench::kLimbs) throw std::runtime_error("LIMBS must be 1 to 64");
      return workbench::once(limbs);
    });
  }
  return workbench::run_on_gpu("radix", workbench::measure, argc, argv);
}
