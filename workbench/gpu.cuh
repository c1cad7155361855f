// Shared parts of the workbench's kernel programs: tables of a field, random residues, and the backend's two-pass transform of a
// dense array [items, limbs, n].
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/ring/ntt.cuh"
#include "device.cuh"
#include "math/primes.h"
#include "math/ring.h"
#include "montgomery.cuh"
#include "report.h"

namespace workbench {

namespace cuda = heliograph::backend::cuda;
using cuda::Field32;
using cuda::Field50;
using cuda::Field60;
using math::u128;

// Returns a field's constant for the residue w.
template <class F>
typename F::Constant constant(u64 w, u64 q) {
  if constexpr (std::is_same_v<F, Field32>) {
    return {static_cast<u32>(w), static_cast<u32>((w << 32) / q)};
  } else if constexpr (std::is_same_v<F, FieldMontgomery>) {
    return {static_cast<u32>((w << 32) % q)};
  } else if constexpr (std::is_same_v<F, Field50>) {
    return static_cast<double>(math::centered(w, q));
  } else {
    return {w, static_cast<u64>((u128{w} << 64) / q)};
  }
}

/// Returns a field's constants of prime q. `scale` is the inverse transform's 1/n, `last` its last twiddle.
template <class F>
typename F::Prime prime(u64 q, u64 scale, u64 last) {
  typename F::Prime p{};
  if constexpr (std::is_same_v<F, Field32>) {
    const int bits = math::bit_length(q);
    p.q = static_cast<u32>(q);
    p.mu = static_cast<u32>((u64{1} << (bits + 30)) / q);
    p.shift = static_cast<u32>(bits - 2);
  } else if constexpr (std::is_same_v<F, FieldMontgomery>) {
    u32 inverse = static_cast<u32>(q);  // the low three bits are correct; each Newton step doubles them
    for (int i = 0; i < 4; ++i) inverse *= 2 - static_cast<u32>(q) * inverse;
    p.q = static_cast<u32>(q);
    p.minus_inverse = 0 - inverse;
    p.square = constant<F>((u64{1} << 32) % q, q);
  } else if constexpr (std::is_same_v<F, Field50>) {
    p.q = static_cast<double>(q);
    p.inverse = 1.0 / static_cast<double>(q);
  } else {
    p.q = q;
    p.mu = ~u64{0} / q;
    p.two64 = constant<F>(static_cast<u64>((u128{1} << 64) % q), q);
  }
  p.n_inverse = constant<F>(scale, q);
  p.last = constant<F>(math::mul_mod(last, scale, q), q);
  return p;
}

/// Moduli and their smallest primitive 2n-th roots, which the backends use too.
struct Moduli {
  Moduli(std::size_t degree, std::vector<u64> moduli) : n(degree), q(std::move(moduli)) {
    for (u64 p : q) roots.push_back(math::smallest_primitive_root(2 * n, p));
  }
  double bits() const {  // bits of the product of all moduli
    double sum = 0;
    for (u64 p : q) sum += std::log2(static_cast<double>(p));
    return sum;
  }
  std::size_t n;
  std::vector<u64> q, roots;
};

/// A ring's tables for field F.
template <class F>
class Tables {
 public:
  explicit Tables(const Moduli& m) {
    std::vector<typename F::Prime> primes;
    std::vector<typename F::Constant> forward, inverse;
    for (std::size_t l = 0; l < m.q.size(); ++l) {
      const u64 q = m.q[l];
      for (u64 w : math::forward_twiddles(m.n, m.roots[l], q)) forward.push_back(constant<F>(w, q));
      const std::vector<u64> back = math::inverse_twiddles(m.n, m.roots[l], q);
      for (u64 w : back) inverse.push_back(constant<F>(w, q));
      primes.push_back(prime<F>(q, math::inverse_mod(m.n, q), back[1]));
    }
    primes_ = std::make_unique<Array<typename F::Prime>>(primes);
    forward_ = std::make_unique<Array<typename F::Constant>>(forward);
    inverse_ = std::make_unique<Array<typename F::Constant>>(inverse);
    moduli_ = std::make_unique<Array<u64>>(m.q);
  }
  const typename F::Prime* primes() const { return primes_->data(); }
  const typename F::Constant* twiddles(bool inverse) const { return (inverse ? inverse_ : forward_)->data(); }
  const u64* moduli() const { return moduli_->data(); }
  std::size_t twiddle_bytes() const { return forward_->bytes(); }  // bytes for one direction, all limbs

 private:
  std::unique_ptr<Array<typename F::Prime>> primes_;
  std::unique_ptr<Array<typename F::Constant>> forward_, inverse_;
  std::unique_ptr<Array<u64>> moduli_;
};

/// Returns residue `index` of a stream: SplitMix64 scaled to [0, q).
__host__ __device__ inline u64 random_residue(u64 seed, u64 index, u64 q) {
  u64 z = (index + 1) * 0x9e3779b97f4a7c15ULL + seed * 0xd1342543de82ef95ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  z ^= z >> 31;
  return static_cast<u64>((u128{z} * q) >> 64);
}

template <class Word>
__global__ void fill_random(Word* x, u64 words, u64 seed, const u64* moduli, u32 limbs, u32 n) {
  for (u64 i = blockIdx.x * u64{blockDim.x} + threadIdx.x; i < words; i += u64{gridDim.x} * blockDim.x)
    x[i] = static_cast<Word>(random_residue(seed, i, moduli[i / n % limbs]));
}
template <class Word>
__global__ void count_changed(const Word* x, u64 words, u64 seed, const u64* moduli, u32 limbs, u32 n,
                              unsigned long long* changed) {
  for (u64 i = blockIdx.x * u64{blockDim.x} + threadIdx.x; i < words; i += u64{gridDim.x} * blockDim.x) {
    if (x[i] != random_residue(seed, i, moduli[i / n % limbs])) atomicAdd(changed, 1ULL);
  }
}

/// A dense array [items, limbs, n].
template <class Word>
struct Batch {
  Word* data;
  std::size_t items, limbs, n;

  std::size_t words() const { return items * limbs * n; }
  Batch part(std::size_t first, std::size_t count) const { return {data + first * limbs * n, count, limbs, n}; }
  void randomize(u64 seed, const u64* moduli) const {
    fill_random<<<4096, 256>>>(data, words(), seed, moduli, static_cast<u32>(limbs), static_cast<u32>(n));
    check(cudaGetLastError(), "fill_random");
  }
  /// Returns the number of words that differ from those of randomize(seed).
  u64 changed(u64 seed, const u64* moduli) const {
    const Array<unsigned long long> count(std::vector<unsigned long long>{0});
    count_changed<<<4096, 256>>>(data, words(), seed, moduli, static_cast<u32>(limbs), static_cast<u32>(n), count.data());
    check(cudaGetLastError(), "count_changed");
    return count.download(0, 1)[0];
  }
  std::vector<Word> limb(std::size_t item, std::size_t index) const {
    std::vector<Word> to(n);
    check(cudaMemcpy(to.data(), data + (item * limbs + index) * n, n * sizeof(Word), cudaMemcpyDeviceToHost), "download");
    return to;
  }
  device::View view() const {
    device::View v{.axes = 1, .limbs = limbs, .limb_stride = n, .n = n};
    v.shape[0] = items, v.stride[0] = limbs * n;
    return v;
  }
  cuda::Strided strided() const {
    cuda::Strided s{};
    s.data = reinterpret_cast<std::byte*>(data);
    s.axes = 1;
    s.word_bytes = sizeof(Word);
    s.shape[0] = cuda::Divisor(static_cast<u32>(items));
    s.stride[0] = limbs * n;
    s.limb = n;
    return s;
  }
};

inline cuda::Primes in_order() {
  cuda::Primes p;
  for (std::size_t i = 0; i < device::kMaxLimbs; ++i) p.index[i] = static_cast<math::PrimeIndex>(i);
  return p;
}

inline constexpr u32 kRowsPerBlock = 8;  // 128 threads

enum class Passes { both, columns, rows };

/// P: polynomials a thread in the row pass; each twiddle load serves all of them.
template <class F, int L, int P, bool INVERSE>
void enqueue_two_passes(const Tables<F>& tables, const Batch<typename F::Word>& x, Passes which = Passes::both) {
  using Columns = cuda::ColumnShape<F, L>;
  using Rows = cuda::Transform<F, cuda::kRowBits>;
  const auto pass = [&](u32 parts) {
    cuda::Source in{};
    in.kind = cuda::Source::plain;
    in.a = x.strided();
    return cuda::NttArguments<F>{.in = in,
                                 .out = x.strided(),
                                 .grid = cuda::Grid(parts, x.view()),
                                 .primes = in_order(),
                                 .table = tables.primes(),
                                 .twiddles = tables.twiddles(INVERSE),
                                 .n = static_cast<u32>(x.n),
                                 .components = cuda::Divisor(1),
                                 .polynomials = static_cast<u32>(x.items)};
  };
  const auto columns = [&] {
    const auto a = pass(cuda::kRow / Columns::kColumns);
    cuda::ntt_columns<F, L, INVERSE><<<static_cast<u32>(a.grid.blocks()), Columns::kBlock, Columns::kShared>>>(a);
  };
  const auto rows = [&] {
    auto a = pass((1U << L) / kRowsPerBlock);
    a.grid.components = cuda::Divisor((a.polynomials + P - 1) / P);
    a.grid.items = cuda::Divisor(1);
    constexpr std::size_t kShared =
        kRowsPerBlock * cuda::RowLayout<cuda::kRowBits, true>::kWords * sizeof(typename F::Value);
    constexpr u32 kThreads = kRowsPerBlock * Rows::kThreads;
    cuda::ntt_rows<F, cuda::kRowBits, P, INVERSE, false><<<static_cast<u32>(a.grid.blocks()), kThreads, kShared>>>(a);
  };
  if (INVERSE && which != Passes::columns) rows();
  if (which != Passes::rows) columns();
  if (!INVERSE && which != Passes::columns) rows();
  check(cudaGetLastError(), "a transform's launch");
}

/// Transforms `x` in place; canonical residues in and out; n = 2^14, 2^15 or 2^16.
template <class F, int P, bool INVERSE>
void enqueue_ntt(const Tables<F>& tables, const Batch<typename F::Word>& x) {
  switch (x.n) {
    case 1 << 14:
      return enqueue_two_passes<F, 6, P, INVERSE>(tables, x);
    case 1 << 15:
      return enqueue_two_passes<F, 7, P, INVERSE>(tables, x);
    case 1 << 16:
      return enqueue_two_passes<F, 8, P, INVERSE>(tables, x);
    default:
      throw std::runtime_error("degree must be 2^14, 2^15 or 2^16");
  }
}

/// Returns the transform's value at position i by definition: x at psi^(2 rev(i) + 1), by Horner's rule.
template <class Word>
u64 value_at(const std::vector<Word>& x, std::size_t i, u64 root, u64 q) {
  const u64 point = math::pow_mod(root, 2 * math::reverse_bits(i, std::countr_zero(x.size())) + 1, q);
  u64 sum = 0;
  for (std::size_t k = x.size(); k-- > 0;) sum = math::add_mod(math::mul_mod(sum, point, q), x[k], q);
  return sum;
}

/// Computes the forward transform on the host, radix 2: X^2t - z^2 = (X^t - z)(X^t + z).
inline void transform_on_host(std::vector<u64>& x, const std::vector<u64>& twiddles, u64 q) {
  for (std::size_t half = x.size() / 2, node = 1; half > 0; half /= 2) {
    for (std::size_t begin = 0; begin < x.size(); begin += 2 * half, ++node) {
      for (std::size_t k = begin; k < begin + half; ++k) {
        const u64 y = math::mul_mod(x[k + half], twiddles[node], q), u = x[k];
        x[k] = math::add_mod(u, y, q);
        x[k + half] = math::sub_mod(u, y, q);
      }
    }
  }
}

/// Runs PROGRAM OUT.json [MIB=512] [REPEATS=25]. `measure(report, multiprocessors, bytes, repeats)` returns whether all results are correct.
template <class Measure>
int run_on_gpu(const char* program, Measure measure, int argc, char** argv) {
  return told(program, [&] {
    if (argc < 2) {
      std::fprintf(stderr, "usage: %s OUT.json [MIB=512] [REPEATS=25]\n", argv[0]);
      return 2;
    }
    const std::size_t mebibytes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 512;
    const int repeats = argc > 3 ? std::atoi(argv[3]) : 25;
    if (mebibytes == 0 || repeats <= 0) throw std::runtime_error("MIB and REPEATS must be positive");
    Report report(program);
    const int multiprocessors = describe(report);
    report.settings.add("mebibytes", mebibytes).add("repeats", repeats);
    const bool right = measure(report, multiprocessors, mebibytes << 20, repeats);
    report.settings.add("right", right);
    report.write(argv[1]);
    return right ? 0 : 1;
  });
}

}  // namespace workbench
