// Ceilings in registers and NTT rates of one GPU with 30-bit Shoup, 30-bit Montgomery, FP64 and 60-bit Shoup arithmetic. The NTTs run
// through the backend's own kernels.
//
//   words OUT.json [MIB=512] [REPEATS=25]
#include "gpu.cuh"

namespace workbench {
namespace {

constexpr std::size_t kStretch = std::size_t{32} << 20;  // bytes that stay in the L2 between two passes

struct Edition {
  const char* name;
  int bits, primes;
};
template <class F>
constexpr Edition kEdition{};
template <>
constexpr Edition kEdition<Field32>{"30-bit Shoup", 30, 48};
template <>
constexpr Edition kEdition<FieldMontgomery>{"30-bit Montgomery", 30, 48};
template <>
constexpr Edition kEdition<Field50>{"50-bit FP64", 50, 29};
template <>
constexpr Edition kEdition<Field60>{"60-bit Shoup", 60, 24};

// ---- ceilings ----------------------------------------------------------------------------------------------------------

enum class Ceiling { by_constant, of_two, butterfly };
constexpr const char* kCeilings[] = {"product by a constant", "product of two residues", "forward butterfly"};
constexpr int kChains = 8, kRounds = 1024;
/// Operations of one thread in one round.
constexpr int round_operations(Ceiling kind) { return kind == Ceiling::butterfly ? 4 * kChains / 2 : kChains; }

/// Chains of operations in registers. The prime and the factors come from memory, as in the transforms.
template <class F, Ceiling KIND>
__global__ void __launch_bounds__(256)
    chains(const typename F::Prime* prime, const typename F::Constant* constants, typename F::Word* out) {
  const typename F::Prime p = *prime;
  const typename F::Constant w = constants[threadIdx.x % 32];
  const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
  typename F::Value v[kChains];
#pragma unroll
  for (int k = 0; k < kChains; ++k) v[k] = F::load(thread * kChains + k + 1);
  const typename F::Value other = F::load(thread + 12345);
#pragma unroll 2
  for (int round = 0; round < kRounds; ++round) {
    if constexpr (KIND == Ceiling::butterfly) {
#pragma unroll
      for (int stage = 0; stage < 4; ++stage) {
#pragma unroll
        for (int k = 0; k < kChains / 2; ++k) F::forward(v[k], v[k + kChains / 2], w, p, stage == 0);
      }
    } else {
#pragma unroll
      for (int k = 0; k < kChains; ++k) {
        if constexpr (KIND == Ceiling::by_constant) v[k] = F::mul(v[k], w, p);
        if constexpr (KIND == Ceiling::of_two) v[k] = F::mul_reduced(v[k], other, p);
      }
    }
  }
  typename F::Word sum = 0;
#pragma unroll
  for (int k = 0; k < kChains; ++k) sum ^= F::canonical(F::reduce(v[k], p), p);
  out[thread] = sum;
}

template <class F, Ceiling KIND>
void time_ceiling(Report& report, int multiprocessors, int repeats) {
  const u64 q = math::largest_primes(kEdition<F>.bits, 1, 1 << 17)[0];
  std::vector<typename F::Constant> factors;
  for (u64 i = 0; i < 32; ++i) factors.push_back(constant<F>(random_residue(1, i, q), q));
  const Array<typename F::Constant> constants(factors);
  const Array<typename F::Prime> primes(std::vector<typename F::Prime>{prime<F>(q, 1, 1)});
  const u32 blocks = 32 * static_cast<u32>(multiprocessors);
  const Array<typename F::Word> out(std::size_t{blocks} * 256);
  const double taken = seconds(repeats, [&] {
    chains<F, KIND><<<blocks, 256>>>(primes.data(), constants.data(), out.data());
    check(cudaGetLastError(), "chains");
  });
  const double rate = 256.0 * blocks * kRounds * round_operations(KIND) / taken;
  const char* const operation = kCeilings[static_cast<int>(KIND)];
  std::printf("%-18s %-24s %8.3f T/s\n", kEdition<F>.name, operation, rate * 1e-12);
  report.row("ceilings").add("edition", kEdition<F>.name).add("operation", operation).add("per_second", rate);
}

template <class F>
void time_ceilings(Report& report, int multiprocessors, int repeats) {
  time_ceiling<F, Ceiling::by_constant>(report, multiprocessors, repeats);
  time_ceiling<F, Ceiling::of_two>(report, multiprocessors, repeats);
  time_ceiling<F, Ceiling::butterfly>(report, multiprocessors, repeats);
}

/// Measures the copy rate of DRAM, the limit of a pass.
void time_copy(Report& report, std::size_t bytes, int repeats) {
  const Array<unsigned char> from(bytes), to(bytes);
  const double taken =
      seconds(repeats, [&] { check(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice), "a copy"); });
  const double rate = 2 * static_cast<double>(bytes) / taken;
  std::printf("copy, read and written: %.0f GB/s\n", rate * 1e-9);
  report.settings.add("copy_bytes_per_second", rate);
}

// ---- transforms --------------------------------------------------------------------------------------------------------

/// Checks the forward transform of random `x` (seed 1) against the host and the definition, and the inverse against `x`.
template <class F, int P>
bool verify(const Moduli& moduli, const Tables<F>& tables, const Batch<typename F::Word>& x) {
  bool right = true;
  x.randomize(1, tables.moduli());
  enqueue_ntt<F, P, false>(tables, x);
  for (const auto& [item, limb] : {std::pair{std::size_t{0}, std::size_t{0}}, std::pair{x.items - 1, x.limbs - 1}}) {
    const u64 q = moduli.q[limb], root = moduli.roots[limb];
    std::vector<u64> expected(x.n);
    for (std::size_t i = 0; i < x.n; ++i) expected[i] = random_residue(1, (item * x.limbs + limb) * x.n + i, q);
    const std::size_t somewhere = x.n / 3;
    const u64 there = value_at(expected, somewhere, root, q);
    transform_on_host(expected, math::forward_twiddles(x.n, root, q), q);
    const auto got = x.limb(item, limb);
    right &= expected[somewhere] == there && std::equal(got.begin(), got.end(), expected.begin());
  }
  enqueue_ntt<F, P, true>(tables, x);
  return x.changed(1, tables.moduli()) == 0 && right;
}

struct Way {
  std::size_t stretch;  // items a launch
  int rows_together;    // polynomials a thread in the row pass
  bool inverse;
};

template <class F>
void note(Report& report, const Moduli& moduli, const Batch<typename F::Word>& x, const Tables<F>& tables, const Way& way,
          double taken, bool right) {
  const double polynomials = static_cast<double>(x.items * x.limbs), n = static_cast<double>(x.n);
  const double limbs = polynomials / taken, bits = moduli.bits() / static_cast<double>(moduli.q.size());
  const double bytes = 4 * polynomials * n * sizeof(typename F::Word);  // two passes, each with a read and a write
  const double butterflies = polynomials * n / 2 * std::log2(n);
  const char* const direction = way.inverse ? "inverse" : "forward";
  std::printf("%-18s %6zu %-8s %4zu x %2zu %5zu %4d %12.0f %8.1f %8.0f %8.3f %8.2f  %s\n", kEdition<F>.name, x.n, direction,
              x.items, x.limbs, way.stretch, way.rows_together, limbs, 1e9 / limbs, bytes / taken * 1e-9,
              butterflies / taken * 1e-12, limbs * bits * n * 1e-12, right ? "right" : "WRONG");
  report.row("transforms")
      .add("edition", kEdition<F>.name)
      .add("n", x.n)
      .add("direction", direction)
      .add("items", x.items)
      .add("limbs", x.limbs)
      .add("items_a_launch", way.stretch)
      .add("polynomials_a_thread", way.rows_together)
      .add("prime_bits", bits)
      .add("twiddle_bytes", tables.twiddle_bytes())
      .add("seconds", taken)
      .add("limbs_per_second", limbs)
      .add("ns_per_limb", 1e9 / limbs)
      .add("bytes_per_second", bytes / taken)
      .add("butterflies_per_second", butterflies / taken)
      .add("modulus_bits_per_second", limbs * bits * n)
      .add("right", right);
}

template <class F, int P, bool INVERSE>
void time_direction(Report& report, const Moduli& moduli, const Tables<F>& tables, const Batch<typename F::Word>& x,
                    std::size_t stretch, int repeats, bool right) {
  const double taken = seconds(repeats, [&] {
    for (std::size_t first = 0; first < x.items; first += stretch)
      enqueue_ntt<F, P, INVERSE>(tables, x.part(first, std::min(stretch, x.items - first)));
  });
  note<F>(report, moduli, x, tables, {stretch, P, INVERSE}, taken, right);
}

template <class F, int P>
bool time_ways(Report& report, const Moduli& moduli, const Tables<F>& tables, const Batch<typename F::Word>& x,
               int repeats) {
  const bool right = verify<F, P>(moduli, tables, x);
  // In place and repeated: transformed random residues stay uniform.
  x.randomize(2, tables.moduli());
  const std::size_t item = x.limbs * x.n * sizeof(typename F::Word);
  const std::size_t stretch = std::min(x.items, std::max<std::size_t>(P, kStretch / item));
  time_direction<F, P, false>(report, moduli, tables, x, x.items, repeats, right);
  time_direction<F, P, true>(report, moduli, tables, x, x.items, repeats, right);
  if (stretch < x.items) {
    time_direction<F, P, false>(report, moduli, tables, x, stretch, repeats, right);
    time_direction<F, P, true>(report, moduli, tables, x, stretch, repeats, right);
  }
  return right;
}

template <class F>
bool time_transforms(Report& report, std::size_t n, std::size_t bytes, int repeats) {
  using Word = typename F::Word;
  const Moduli moduli(n, math::largest_primes(kEdition<F>.bits, kEdition<F>.primes, 2 * n));
  const Tables<F> tables(moduli);
  const std::size_t limbs = moduli.q.size(), items = std::max<std::size_t>(1, bytes / (limbs * n * sizeof(Word)));
  const Array<Word> words(items * limbs * n);
  const Batch<Word> x{words.data(), items, limbs, n};
  bool right = time_ways<F, 1>(report, moduli, tables, x, repeats);
  right &= time_ways<F, 2>(report, moduli, tables, x, repeats);
  if constexpr (sizeof(Word) == 4) right &= time_ways<F, 4>(report, moduli, tables, x, repeats);
  return right;
}

bool measure(Report& report, int multiprocessors, std::size_t bytes, int repeats) {
  time_copy(report, bytes, repeats);
  std::printf("\nIn registers\n");
  time_ceilings<Field32>(report, multiprocessors, repeats);
  time_ceilings<FieldMontgomery>(report, multiprocessors, repeats);
  time_ceilings<Field50>(report, multiprocessors, repeats);
  time_ceilings<Field60>(report, multiprocessors, repeats);

  std::printf("\n%-18s %6s %-8s %9s %5s %4s %12s %8s %8s %8s %8s\n", "transforms", "n", "", "", "items", "rows", "limbs/s",
              "ns/limb", "GB/s", "Tbfly/s", "Tbit/s");
  bool right = true;
  for (const std::size_t n : {1 << 14, 1 << 15, 1 << 16}) {
    right &= time_transforms<Field32>(report, n, bytes, repeats);
    right &= time_transforms<FieldMontgomery>(report, n, bytes, repeats);
    right &= time_transforms<Field50>(report, n, bytes, repeats);
    right &= time_transforms<Field60>(report, n, bytes, repeats);
  }
  return right;
}

}  // namespace
}  // namespace workbench

int main(int argc, char** argv) { return workbench::run_on_gpu("words", workbench::measure, argc, argv); }
