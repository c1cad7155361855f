// The Discrete Galois Transform (Al Badawi and others 2018 and 2020, after Crandall), compared with the NTT.
//
// A polynomial of degree below N over Z_q folds to h = N/2 Gaussian integers A_j = a_j + i a_(j+h), because X^h = i in
// Z_q[X]/(X^N + 1) = Z_q[i][X]/(X^h - i). A twist by powers of z, z^h = i, precedes a cyclic transform of h points.
//
// The primes are the NTT's, below 2^30 and 1 modulo 2N. There Z_q[i] is Z_q x Z_q by i -> I and i -> -I, with I a square root of -1.
// An h-th root z of i has images s and t with s^h = I, t^h = -I. So s has order 2N, and q must be 1 modulo 2N. With t = 1/s:
//   z^j = (s^j + s^-j)/2 + i (s^j - s^-j)/(2 I),   z^-j is its conjugate,   w = s^4 is an h-th root of unity in Z_q.
// Butterflies multiply Gaussian integers by plain residues (two Shoup products by one twiddle). Only the twist is a product of Gaussian
// integers. (For q = 3 modulo 4, GF(q^2) is a field and q needs not be 1 modulo 2N, but each butterfly would be such a product, twice
// the work.)
//
// Modular products of a transform: N/2 log2 N for the NTT; N/2 (log2 N - 1) and h Gaussian products of the twist for the DGT. Products of
// a pointwise product: N for the NTT, h Gaussian ones for the DGT. The DGT has half as many twiddles, each used twice, and a twist table.
//
//   dgt OUT.json [MIB=512] [REPEATS=25]

#include "gpu.cuh"

namespace workbench {

/// A Gaussian integer over a 30-bit prime.
struct Gauss {
  struct Value {
    u32 re, im;
  };
  /// A Gaussian integer's canonical residues, times 2^32.
  struct alignas(8) Factor {
    u32 re, im;
  };
  struct Prime : Field32::Prime {
    u32 minus_inverse;  // -1/q mod 2^32
  };

  static __device__ __forceinline__ u32 reduce_wide(u64 t, const Prime& p) {  // t / 2^32 mod q, below 2q; t < 2^32 q
    const u32 m = static_cast<u32>(t) * p.minus_inverse;
    return static_cast<u32>((t + u64{m} * p.q) >> 32);
  }
  /// Returns a f / 2^32, or a conj(f) / 2^32, below 2q. Parts of a are below 2q, parts of f at most q. One reduction for two products.
  template <bool CONJUGATE>
  static __device__ __forceinline__ Value mul(Value a, Value f, const Prime& p) {
    const u32 minus = p.q - f.im, im = CONJUGATE ? minus : f.im, minus_im = CONJUGATE ? f.im : minus;
    return {reduce_wide(u64{a.re} * f.re + u64{a.im} * minus_im, p), reduce_wide(u64{a.re} * im + u64{a.im} * f.re, p)};
  }
};

namespace {

/// A batch of limbs and its constants. In both domains a limb has h real parts, then h imaginary parts.
struct DgtArguments {
  const u32* in;
  u32* out;  // may be `in`
  cuda::Grid grid;
  const Gauss::Prime* table;
  const Field32::Constant* twiddles;  // h constants per prime
  const Gauss::Factor* twists;        // h factors per prime
  u32 n, items;
};

__device__ __forceinline__ u64 limb_at(const DgtArguments& a, u32 item, u32 limb) {
  return (u64{item} * a.grid.limbs.value + limb) * a.n;
}

/// Blocks of at least 32 neighbouring columns. An exchange moves a point's real and imaginary part together.
template <int L>
struct DgtColumns {
  static constexpr int kThreads = cuda::Transform<Field32, L>::kThreads;
  static constexpr int kColumns = std::max(32, 128 / kThreads);
  static constexpr int kBlock = kThreads * kColumns;
  static constexpr std::size_t kShared = cuda::Transform<Field32, L>::kRounds > 1 ? 2 * sizeof(u32) * kColumns << L : 0;
};

/// Column pass of 2^L points with the twist. Forward: canonical words to values below 4q; inverse: values to canonical words. With
/// plain twiddles, the real and the imaginary parts are two polynomials of the backend's transform with shared twiddles.
template <int L, bool INVERSE>
__global__ void __launch_bounds__(DgtColumns<L>::kBlock) dgt_columns(const __grid_constant__ DgtArguments a) {
  using T = cuda::Transform<Field32, L, 2>;
  using Shape = DgtColumns<L>;
  extern __shared__ __align__(16) unsigned char raw[];
  auto* const shared = reinterpret_cast<u32*>(raw);
  const cuda::At at = cuda::locate_in_order(a.grid, blockIdx.x);
  const cuda::ColumnLayout<Shape::kColumns, 2> layout{static_cast<int>(threadIdx.x) % Shape::kColumns};
  const int t = static_cast<int>(threadIdx.x) / Shape::kColumns;
  const u32 column = at.part * Shape::kColumns + static_cast<u32>(layout.column), half = a.n / 2;
  const Gauss::Prime p = a.table[at.limb];
  const Field32::Constant* const tw = a.twiddles + u64{at.limb} * half;
  const Gauss::Factor* const twist = a.twists + u64{at.limb} * half + column;
  const u32* const in = a.in + limb_at(a, at.item, at.limb) + column;
  u32* const out = a.out + limb_at(a, at.item, at.limb) + column;
  const auto factor = [&](u32 i) {
    const uint2 f = __ldg(reinterpret_cast<const uint2*>(twist + i));
    return Gauss::Value{f.x, f.y};
  };
  typename T::Values v;
  if constexpr (INVERSE) {
    T::each_last(t, [&](int r, int point) {
      const u32 i = static_cast<u32>(point) * cuda::kRow;
      v[0][r] = in[i];
      v[1][r] = in[i + half];
    });
    T::template inverse<true>(v, t, 1, tw, p, shared, layout);
    T::each_first(t, [&](int r, int point) {
      const u32 i = static_cast<u32>(point) * cuda::kRow;
      const Gauss::Value x = Gauss::mul<true>({v[0][r], v[1][r]}, factor(i), p);
      out[i] = cuda::least(x.re, x.re - p.q);
      out[i + half] = cuda::least(x.im, x.im - p.q);
    });
  } else {
    T::each_first(t, [&](int r, int point) {
      const u32 i = static_cast<u32>(point) * cuda::kRow;
      const Gauss::Value x = Gauss::mul<false>({in[i], in[i + half]}, factor(i), p);
      v[0][r] = x.re;
      v[1][r] = x.im;
    });
    T::forward(v, t, 1, tw, p, shared, layout);
    T::each_last(t, [&](int r, int point) {
      const u32 i = static_cast<u32>(point) * cuda::kRow;
      out[i] = v[0][r];
      out[i + half] = v[1][r];
    });
  }
}

/// Row pass of 256 points, P polynomials (items) a thread; the grid's items are groups of P.
template <int P, bool INVERSE>
__global__ void __launch_bounds__(128) dgt_rows(const __grid_constant__ DgtArguments a) {
  constexpr int L = cuda::kRowBits;
  using T = cuda::Transform<Field32, L, 2 * P>;
  using Layout = cuda::RowLayout<L, true>;
  static_assert(T::kThreads <= 16);
  extern __shared__ __align__(16) unsigned char raw[];
  const cuda::At at = cuda::locate(a.grid, blockIdx.x);
  const u32 t = threadIdx.x % T::kThreads, inside = threadIdx.x / T::kThreads, half = a.n / 2;
  const u32 row = at.part * (blockDim.x / T::kThreads) + inside;
  auto* const shared = reinterpret_cast<u32*>(raw) + inside * Layout::kWords;
  const Gauss::Prime p = a.table[at.limb];
  const Field32::Constant* const tw = a.twiddles + u64{at.limb} * half;
  const u32 root = (half >> L) + row;
  const Layout layout;
  typename T::Values v;
  const u32* in[2 * P];  // real and imaginary part of each polynomial
  u32* out[2 * P];
#pragma unroll
  for (int k = 0; k < 2 * P; ++k) {  // beyond the last item: reads the last item again, stores nothing
    const u32 item = cuda::least(at.item * P + k / 2, a.items - 1);
    const u64 offset = limb_at(a, item, at.limb) + k % 2 * half + (row << L);
    in[k] = a.in + offset;
    out[k] = a.out + offset;
    // Opaque; otherwise the compiler precomputes the address of every point and doubles the registers.
    asm("" : "+l"(in[k]), "+l"(out[k]));
  }
  const auto ours = [&](int k) { return P == 1 || at.item * P + k / 2 < a.items; };
#pragma unroll
  for (int k = 0; k < 2 * P; ++k) T::each_first(t, [&](int r, int point) { v[k][r] = in[k][point]; });
  if constexpr (INVERSE) {
#pragma unroll
    for (int k = 0; k < 2 * P; ++k) {
      if (k > 0) Layout::sync();
      T::each_first(t, [&](int r, int point) { shared[layout.at(point)] = v[k][r]; });
      Layout::sync();
      T::each_last(t, [&](int r, int point) { v[k][r] = shared[layout.at(point)]; });
    }
    Layout::sync();
    T::template inverse<false>(v, t, root, tw, p, shared, layout);
#pragma unroll
    for (int k = 0; k < 2 * P; ++k) {
      if (ours(k)) T::each_first(t, [&](int r, int point) { out[k][point] = v[k][r]; });
    }
  } else {
    T::forward(v, t, root, tw, p, shared, layout);
#pragma unroll
    for (int k = 0; k < 2 * P; ++k) {
      Layout::sync();
      T::each_last(t, [&](int r, int point) { shared[layout.at(point)] = v[k][r]; });
      Layout::sync();
      if (!ours(k)) continue;
      T::each_first(t, [&](int, int point) { out[k][point] = Field32::canonical(shared[layout.at(point)], p); });
    }
  }
}

/// Computes a *= b on residues, four points a thread.
__global__ void __launch_bounds__(256) ntt_mul(uint4* a, const uint4* b, const Field32::Prime* table, u32 limbs, u32 n) {
  const u32 limb = blockIdx.x % limbs, item = blockIdx.x / limbs;
  const Field32::Prime p = table[limb];
  const u64 base = (u64{item} * limbs + limb) * (n / 4);
  const u32 i = blockIdx.y * blockDim.x + threadIdx.x;
  const uint4 x = a[base + i], y = b[base + i];
  a[base + i] = {Field32::mul_reduced(x.x, y.x, p), Field32::mul_reduced(x.y, y.y, p), Field32::mul_reduced(x.z, y.z, p),
                 Field32::mul_reduced(x.w, y.w, p)};
}

/// Computes a *= b / 2^32, four Gaussian points a thread; the following inverse transform's scale cancels 2^-32.
__global__ void __launch_bounds__(256) dgt_mul(uint4* a, const uint4* b, const Gauss::Prime* table, u32 limbs, u32 n) {
  const u32 limb = blockIdx.x % limbs, item = blockIdx.x / limbs;
  const Gauss::Prime p = table[limb];
  const u64 re = (u64{item} * limbs + limb) * (n / 4) + blockIdx.y * blockDim.x + threadIdx.x, im = re + n / 8;
  const uint4 x = a[re], xi = a[im], y = b[re], yi = b[im];
  const auto mul = [&](u32 r, u32 i, u32 s, u32 j) {
    const Gauss::Value v = Gauss::mul<false>({r, i}, {s, j}, p);
    return Gauss::Value{cuda::least(v.re, v.re - p.q), cuda::least(v.im, v.im - p.q)};
  };
  const Gauss::Value z0 = mul(x.x, xi.x, y.x, yi.x), z1 = mul(x.y, xi.y, y.y, yi.y), z2 = mul(x.z, xi.z, y.z, yi.z),
                     z3 = mul(x.w, xi.w, y.w, yi.w);
  a[re] = {z0.re, z1.re, z2.re, z3.re};
  a[im] = {z0.im, z1.im, z2.im, z3.im};
}

__global__ void count_different(const u32* a, const u32* b, u64 words, unsigned long long* different) {
  for (u64 i = blockIdx.x * u64{blockDim.x} + threadIdx.x; i < words; i += u64{gridDim.x} * blockDim.x) {
    if (a[i] != b[i]) atomicAdd(different, 1ULL);
  }
}

using Polynomials = Batch<u32>;

/// The DGT's constants of the primes of `m`.
class DgtTables {
 public:
  explicit DgtTables(const Moduli& m) {
    const std::size_t half = m.n / 2;
    std::vector<Gauss::Prime> plain, product;
    std::vector<Field32::Constant> forward, inverse;
    std::vector<Gauss::Factor> twists;
    for (std::size_t l = 0; l < m.q.size(); ++l) {
      const u64 q = m.q[l], s = m.roots[l], w = math::pow_mod(s, 4, q), scale = math::inverse_mod(half, q);
      const u64 two32 = (u64{1} << 32) % q;
      plain.push_back(gauss_prime(q, scale));
      product.push_back(gauss_prime(q, math::mul_mod(scale, two32, q)));
      append_stages(forward, math::forward_twiddles(half / 2, w, q), q);
      append_stages(inverse, math::inverse_twiddles(half / 2, w, q), q);
      const u64 back = math::inverse_mod(s, q), half32 = math::mul_mod(two32, math::inverse_mod(2, q), q);
      const u64 over_i = math::mul_mod(half32, math::inverse_mod(math::pow_mod(s, half, q), q), q);
      for (u64 j = 0, x = 1, y = 1; j < half; ++j, x = math::mul_mod(x, s, q), y = math::mul_mod(y, back, q)) {
        twists.push_back({static_cast<u32>(math::mul_mod(math::add_mod(x, y, q), half32, q)),
                          static_cast<u32>(math::mul_mod(math::sub_mod(x, y, q), over_i, q))});
      }
    }
    plain_ = std::make_unique<Array<Gauss::Prime>>(plain);
    product_ = std::make_unique<Array<Gauss::Prime>>(product);
    forward_ = std::make_unique<Array<Field32::Constant>>(forward);
    inverse_ = std::make_unique<Array<Field32::Constant>>(inverse);
    twists_ = std::make_unique<Array<Gauss::Factor>>(twists);
  }
  DgtArguments arguments(const Polynomials& x, u32 parts, bool inverse, bool after_product) const {
    return {.in = x.data,
            .out = x.data,
            .grid = cuda::Grid(parts, x.view()),
            .table = primes(after_product),
            .twiddles = (inverse ? inverse_ : forward_)->data(),
            .twists = twists_->data(),
            .n = static_cast<u32>(x.n),
            .items = static_cast<u32>(x.items)};
  }
  const Gauss::Prime* primes(bool after_product) const { return (after_product ? product_ : plain_)->data(); }
  std::size_t twiddle_bytes() const { return forward_->bytes(); }
  std::size_t twist_bytes() const { return twists_->bytes(); }

 private:
  static Gauss::Prime gauss_prime(u64 q, u64 scale) {
    Gauss::Prime p{};
    static_cast<Field32::Prime&>(p) = prime<Field32>(q, scale, 1);
    p.minus_inverse = prime<FieldMontgomery>(q, 0, 0).minus_inverse;
    return p;
  }
  /// Stage m of a cyclic network uses the first m of `twiddles`; they are stored at m + i, where the kernels read them.
  static void append_stages(std::vector<Field32::Constant>& to, const std::vector<u64>& twiddles, u64 q) {
    to.push_back(constant<Field32>(1, q));
    for (std::size_t m = 1; m <= twiddles.size(); m *= 2) {
      for (std::size_t i = 0; i < m; ++i) to.push_back(constant<Field32>(twiddles[i], q));
    }
  }
  std::unique_ptr<Array<Gauss::Prime>> plain_, product_;
  std::unique_ptr<Array<Field32::Constant>> forward_, inverse_;
  std::unique_ptr<Array<Gauss::Factor>> twists_;
};

template <int L, int P, bool INVERSE>
void enqueue_dgt_passes(const DgtTables& tables, const Polynomials& x, bool after_product) {
  using Columns = DgtColumns<L>;
  constexpr u32 kRows = std::min(kRowsPerBlock, 1U << L);
  const auto columns = [&] {
    const DgtArguments a = tables.arguments(x, cuda::kRow / Columns::kColumns, INVERSE, after_product);
    dgt_columns<L, INVERSE><<<static_cast<u32>(a.grid.blocks()), Columns::kBlock, Columns::kShared>>>(a);
  };
  const auto rows = [&] {
    constexpr std::size_t kShared = kRows * cuda::RowLayout<cuda::kRowBits, true>::kWords * sizeof(u32);
    constexpr u32 kThreads = kRows * cuda::Transform<Field32, cuda::kRowBits>::kThreads;
    DgtArguments a = tables.arguments(x, (1U << L) / kRows, INVERSE, after_product);
    a.grid.items = cuda::Divisor((a.items + P - 1) / P);
    dgt_rows<P, INVERSE><<<static_cast<u32>(a.grid.blocks()), kThreads, kShared>>>(a);
  };
  if constexpr (INVERSE) {
    rows(), columns();
  } else {
    columns(), rows();
  }
  check(cudaGetLastError(), "a DGT's launch");
}

/// Transforms in place: coefficients to the Galois domain, or back. `after_product`: the input is dgt_mul's result.
template <int P, bool INVERSE>
void enqueue_dgt(const DgtTables& tables, const Polynomials& x, bool after_product = false) {
  switch (x.n) {
    case 1 << 11:
      return enqueue_dgt_passes<2, P, INVERSE>(tables, x, after_product);
    case 1 << 14:
      return enqueue_dgt_passes<5, P, INVERSE>(tables, x, after_product);
    case 1 << 15:
      return enqueue_dgt_passes<6, P, INVERSE>(tables, x, after_product);
    case 1 << 16:
      return enqueue_dgt_passes<7, P, INVERSE>(tables, x, after_product);
    default:
      throw std::runtime_error("degree must be 2^11, 2^14, 2^15 or 2^16");
  }
}

/// NTT and DGT with the same three operations; P polynomials a thread in the row passes.
template <int P>
struct WithNtt {
  static constexpr const char* kName = "NTT";
  static constexpr int kTogether = P;
  const Tables<Field32>& tables;
  void forward(const Polynomials& x) const { enqueue_ntt<Field32, P, false>(tables, x); }
  void inverse(const Polynomials& x, bool) const { enqueue_ntt<Field32, P, true>(tables, x); }
  void mul(const Polynomials& a, const Polynomials& b) const {
    const dim3 blocks(static_cast<u32>(a.items * a.limbs), static_cast<u32>(a.n / 1024));
    ntt_mul<<<blocks, 256>>>(reinterpret_cast<uint4*>(a.data), reinterpret_cast<const uint4*>(b.data), tables.primes(),
                             static_cast<u32>(a.limbs), static_cast<u32>(a.n));
    check(cudaGetLastError(), "ntt_mul");
  }
  std::size_t table_bytes() const { return 2 * tables.twiddle_bytes(); }
};

template <int P>
struct WithDgt {
  static constexpr const char* kName = "DGT";
  static constexpr int kTogether = P;
  const DgtTables& tables;
  void forward(const Polynomials& x) const { enqueue_dgt<P, false>(tables, x); }
  void inverse(const Polynomials& x, bool after_product) const { enqueue_dgt<P, true>(tables, x, after_product); }
  void mul(const Polynomials& a, const Polynomials& b) const {
    const u32 threads = static_cast<u32>(std::min<std::size_t>(256, a.n / 8));
    const dim3 blocks(static_cast<u32>(a.items * a.limbs), static_cast<u32>(a.n / 8) / threads);
    dgt_mul<<<blocks, threads>>>(reinterpret_cast<uint4*>(a.data), reinterpret_cast<const uint4*>(b.data),
                                 tables.primes(true), static_cast<u32>(a.limbs), static_cast<u32>(a.n));
    check(cudaGetLastError(), "dgt_mul");
  }
  std::size_t table_bytes() const { return 2 * tables.twiddle_bytes() + tables.twist_bytes(); }
};

/// Computes a *= b in the ring; b is left transformed.
template <class With>
void multiply(const With& with, const Polynomials& a, const Polynomials& b) {
  with.forward(a);
  with.forward(b);
  with.mul(a, b);
  with.inverse(a, true);
}

u64 different(const Polynomials& a, const Polynomials& b) {
  const Array<unsigned long long> count(std::vector<unsigned long long>{0});
  count_different<<<4096, 256>>>(a.data, b.data, a.words(), count.data());
  check(cudaGetLastError(), "count_different");
  return count.download(0, 1)[0];
}

/// Compares the DGT's product of two polynomials of 2^11 coefficients with the schoolbook product.
bool verify_small() {
  const std::size_t n = 1 << 11;
  const Moduli moduli(n, math::largest_primes(30, 2, 2 * n));
  const DgtTables tables(moduli);
  const Array<u64> q(moduli.q);
  const Array<u32> left(2 * n), right(2 * n);
  const Polynomials a{left.data(), 1, 2, n}, b{right.data(), 1, 2, n};
  a.randomize(1, q.data());
  b.randomize(2, q.data());
  bool same = true;
  std::vector<std::vector<u64>> expected(2, std::vector<u64>(n));
  for (std::size_t l = 0; l < 2; ++l) {
    const std::vector<u32> x = a.limb(0, l), y = b.limb(0, l);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        const u64 product = u64{x[i]} * y[j] % moduli.q[l];
        u64& sum = expected[l][(i + j) % n];
        sum = i + j < n ? math::add_mod(sum, product, moduli.q[l]) : math::sub_mod(sum, product, moduli.q[l]);
      }
    }
  }
  multiply(WithDgt<1>{tables}, a, b);
  for (std::size_t l = 0; l < 2; ++l) {
    const std::vector<u32> got = a.limb(0, l);
    same &= std::equal(got.begin(), got.end(), expected[l].begin());
  }
  return same;
}

template <class With>
void time_products(Report& report, const With& with, const Polynomials& a, const Polynomials& b, std::size_t together,
                   int repeats, bool right) {
  const auto time = [&](auto body) {
    return seconds(repeats, [&] {
      for (std::size_t first = 0; first < a.items; first += together) {
        const std::size_t count = std::min(together, a.items - first);
        body(a.part(first, count), b.part(first, count));
      }
    });
  };
  const double forward = time([&](const Polynomials& x, const Polynomials&) { with.forward(x); });
  const double mul = time([&](const Polynomials& x, const Polynomials& y) { with.mul(x, y); });
  const double inverse = time([&](const Polynomials& x, const Polynomials&) { with.inverse(x, false); });
  const double product = time([&](const Polynomials& x, const Polynomials& y) { multiply(with, x, y); });
  const double limbs = static_cast<double>(a.items * a.limbs);
  std::printf("%-4s %6zu %4zu x %2zu %5zu %4d %10.1f %10.1f %10.1f %10.1f %10.1f %9.1f  %s\n", With::kName, a.n, a.items,
              a.limbs, together, With::kTogether, forward / limbs * 1e9, mul / limbs * 1e9, inverse / limbs * 1e9,
              (forward + mul + inverse) / limbs * 1e9, product / limbs * 1e9,
              static_cast<double>(with.table_bytes()) / static_cast<double>(a.limbs) / 1024, right ? "right" : "WRONG");
  report.row("products")
      .add("transform", With::kName)
      .add("n", a.n)
      .add("items", a.items)
      .add("limbs", a.limbs)
      .add("items_a_launch", together)
      .add("polynomials_a_thread", With::kTogether)
      .add("table_bytes_a_limb", with.table_bytes() / a.limbs)
      .add("forward_ns_per_limb", forward / limbs * 1e9)
      .add("pointwise_ns_per_limb", mul / limbs * 1e9)
      .add("inverse_ns_per_limb", inverse / limbs * 1e9)
      .add("forward_pointwise_inverse_ns_per_limb", (forward + mul + inverse) / limbs * 1e9)
      .add("whole_product_ns_per_limb", product / limbs * 1e9)
      .add("right", right);
}

/// Maximum polynomials a thread of the DGT; each needs the registers of two NTT polynomials.
constexpr int kMostTogether = 2;

/// Two operands for the NTT (a, b) and two for the DGT (c, d).
struct Operands {
  Polynomials a, b, c, d;
};

template <int P>
bool compare_ways(Report& report, const Tables<Field32>& ntt, const DgtTables& dgt, const Operands& x, int repeats) {
  const WithNtt<P> by_ntt{ntt};
  bool right = true;
  if constexpr (P <= kMostTogether) {
    const WithDgt<P> by_dgt{dgt};
    x.c.randomize(3, ntt.moduli());
    by_dgt.forward(x.c);
    by_dgt.inverse(x.c, false);
    right = x.c.changed(3, ntt.moduli()) == 0;
    for (const Polynomials& to : {x.a, x.c}) to.randomize(1, ntt.moduli());
    for (const Polynomials& to : {x.b, x.d}) to.randomize(2, ntt.moduli());
    multiply(by_ntt, x.a, x.b);
    multiply(by_dgt, x.c, x.d);
    right &= different(x.a, x.c) == 0;
  }
  const std::size_t item = x.a.limbs * x.a.n * sizeof(u32);
  // Both operands fit into the L2.
  const std::size_t stretch = std::min(x.a.items, std::max<std::size_t>(P, (std::size_t{16} << 20) / item));
  for (const std::size_t together : {x.a.items, stretch}) {
    time_products(report, by_ntt, x.a, x.b, together, repeats, right);
    if constexpr (P <= kMostTogether) time_products(report, WithDgt<P>{dgt}, x.c, x.d, together, repeats, right);
    if (stretch == x.a.items) break;
  }
  return right;
}

bool compare(Report& report, std::size_t n, std::size_t bytes, int repeats) {
  const Moduli moduli(n, math::largest_primes(30, 48, 2 * n));
  const Tables<Field32> ntt(moduli);
  const DgtTables dgt(moduli);
  const std::size_t limbs = moduli.q.size(), items = std::max<std::size_t>(1, bytes / (limbs * n * sizeof(u32)));
  const Array<u32> words(4 * items * limbs * n);
  const auto operand = [&](std::size_t i) { return Polynomials{words.data() + i * items * limbs * n, items, limbs, n}; };
  const Operands x{operand(0), operand(1), operand(2), operand(3)};
  bool right = compare_ways<1>(report, ntt, dgt, x, repeats);
  right &= compare_ways<2>(report, ntt, dgt, x, repeats);
  right &= compare_ways<4>(report, ntt, dgt, x, repeats);
  return right;
}

bool measure(Report& report, int, std::size_t bytes, int repeats) {
  bool right = verify_small();
  std::printf("schoolbook product at n = 2048: %s\n\n", right ? "right" : "WRONG");
  std::printf("%-4s %6s %9s %5s %4s %10s %10s %10s %10s %10s %9s\n", "ns", "n", "", "items", "rows", "forward", "pointwise",
              "inverse", "sum", "product", "KiB/limb");
  for (const std::size_t n : {1 << 14, 1 << 15, 1 << 16}) right &= compare(report, n, bytes, repeats);
  return right;
}

}  // namespace
}  // namespace workbench

int main(int argc, char** argv) { return workbench::run_on_gpu("dgt", workbench::measure, argc, argv); }
