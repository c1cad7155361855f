// Blind rotation for any shape: one block for each sample, radix 2 in shared memory. Frequencies are in the tree's order
// (blind.cuh): position p is the root exp(i pi (1 + 4 reversed(p)) / N).
#include "backend/cuda/lwe/blind.cuh"

namespace heliograph::backend::cuda {

namespace {

constexpr u32 kThreads = 256;

__device__ __forceinline__ u32 reversed(u32 x, u32 bits) { return bits ? __brev(x) >> (32 - bits) : 0; }

/// Returns the twiddle of a node before its split at a depth: exp(i pi theta / 2).
__device__ __forceinline__ double2 node_twiddle(const double2* roots, u32 log_degree, u32 depth, u32 node) {
  const u32 n = 1u << log_degree;
  return roots[(n >> (depth + 2)) * (1 + 4 * reversed(node, depth)) & (2 * n - 1)];
}

__device__ void forward(double2* x, const double2* roots, u32 log_degree) {
  const u32 log_half = log_degree - 1, half = 1u << log_half;
  for (u32 depth = 0; depth < log_half; ++depth) {
    const u32 log_length = log_half - depth - 1;
    for (u32 i = threadIdx.x; i < half / 2; i += blockDim.x) {
      const u32 node = i >> log_length, at = node << (log_length + 1) | (i & ((1u << log_length) - 1));
      forward_butterfly(x[at], x[at + (1u << log_length)], node_twiddle(roots, log_degree, depth, node));
    }
    __syncthreads();
  }
}
__device__ void inverse(double2* x, const double2* roots, u32 log_degree) {
  const u32 log_half = log_degree - 1, half = 1u << log_half;
  for (u32 depth = log_half; depth-- > 0;) {
    const u32 log_length = log_half - depth - 1;
    for (u32 i = threadIdx.x; i < half / 2; i += blockDim.x) {
      const u32 node = i >> log_length, at = node << (log_length + 1) | (i & ((1u << log_length) - 1));
      inverse_butterfly(x[at], x[at + (1u << log_length)], node_twiddle(roots, log_degree, depth, node));
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kThreads) plain_rotation(const __grid_constant__ BlindArguments a) {
  take_turn();
  extern __shared__ __align__(128) unsigned char raw[];
  const u32 n = 1u << a.log_degree, half = n / 2, mask = 2 * n - 1, rows = (a.k + 1) * a.gadget_length,
            values = 1u << a.group;
  auto* const work = reinterpret_cast<double2*>(raw);
  auto* const sums = work + half;
  auto* const acc = reinterpret_cast<double*>(sums + (a.k + 1) * half);
  auto* const exponents = reinterpret_cast<unsigned short*>(acc + (a.k + 1) * n);
  __shared__ unsigned long long errors;
  const auto* const roots = reinterpret_cast<const double2*>(a.roots);
  const u32 sample = blockIdx.x, row = sample % a.rows;

  // Phase 1, modulus switch: exponents modulo 2N; the body is corrected by half the sum of the rounding errors.
  const u32* const in = a.narrow + sample / a.rows * a.narrow_item + row * a.narrow_row;
  const u32 shift = 32 - (a.log_degree + 1), half_step = 1u << (shift - 1);
  if (threadIdx.x == 0) errors = 0;
  __syncthreads();
  long long error = 0;
  for (u32 i = threadIdx.x; i < a.n; i += blockDim.x) {
    const u32 word = in[i], switched = (word + half_step) >> shift;
    error += static_cast<int>(word - (switched << shift));
    exponents[i] = static_cast<unsigned short>(switched & mask);
  }
  atomicAdd(&errors, static_cast<unsigned long long>(error));
  __syncthreads();
  const u32 body = in[a.n] - static_cast<u32>(static_cast<long long>(errors) >> 1);
  const u32 turn = ((body + half_step) >> shift) & mask;

  // Phase 2, the accumulator X^(-body) * table, where 1.0 stands for 2^64.
  const u64* const table = a.tables + static_cast<u64>(a.lut[row]) * n;
  for (u32 j = threadIdx.x; j < n; j += blockDim.x) {
    for (u32 c = 0; c < a.k; ++c) acc[c * n + j] = 0;
    const u32 index = (j + turn) & mask;
    const double v = static_cast<double>(static_cast<long long>(table[index & (n - 1)])) * 0x1p-64;
    acc[a.k * n + j] = index & n ? -v : v;
  }
  __syncthreads();

  // Phase 3, blind rotation: one step for each group of key bits.
  const double base = static_cast<double>(u64{1} << a.log_base);
  double whole = 1;
  for (u32 l = 0; l < a.gadget_length; ++l) whole *= base;
  const auto* key = reinterpret_cast<const double2*>(a.key);
  for (u32 g = 0; g < a.n / a.group; ++g, key += static_cast<u64>(values) * rows * (a.k + 1) * half) {
    for (u32 r = 0; r < rows; ++r) {
      const u32 index = r % a.gadget_length;
      const auto digit = [&](double v) {
        double whole_digit = rounded((v - rounded(v)) * whole), high = whole_digit;
        for (u32 l = a.gadget_length; l-- > index;) {
          whole_digit = high;
          high = l ? rounded(whole_digit / base) : 0;
        }
        return index ? whole_digit - base * high : whole_digit;
      };
      const double* const from = acc + r / a.gadget_length * n;
      for (u32 j = threadIdx.x; j < half; j += blockDim.x) work[j] = {digit(from[j]), digit(from[j + half])};
      __syncthreads();
      forward(work, roots, a.log_degree);
      // Multiply: add the digit times the sum over values of monomial * key.
      for (u32 i = threadIdx.x; i < (a.k + 1) * half; i += blockDim.x) {
        const u32 c = i / half, p = i % half, angle = 1 + 4 * reversed(p, a.log_degree - 1);
        double2 w = {0, 0};
        for (u32 v = 0; v < values; ++v) {
          u32 sum = 0;
          for (u32 bit = 0; bit < a.group; ++bit) sum += v >> bit & 1 ? exponents[g * a.group + bit] : 0;
          const double2 o = roots[sum * angle & mask],
                        k = key[((static_cast<u64>(v) * rows + r) * (a.k + 1) + c) * half + p];
          w.x += o.x * k.x - o.y * k.y;
          w.y += o.x * k.y + o.y * k.x;
        }
        const double2 f = work[p];
        double2 s = r ? sums[i] : double2{0, 0};
        s.x += f.x * w.x - f.y * w.y;
        s.y += f.x * w.y + f.y * w.x;
        sums[i] = s;
      }
      __syncthreads();
    }
    for (u32 c = 0; c <= a.k; ++c) {
      inverse(sums + c * half, roots, a.log_degree);
      for (u32 j = threadIdx.x; j < half; j += blockDim.x) {
        acc[c * n + j] = sums[c * half + j].x;
        acc[c * n + j + half] = sums[c * half + j].y;
      }
    }
    __syncthreads();
  }

  // Phase 4, sample extraction: coefficient p of the accumulator.
  u64* const item = a.wires + sample / a.rows * a.wire_item;
  for (u32 o = 0; o < a.outputs; ++o) {
    const u32 p = o * (n / a.outputs);
    u64* const out = item + a.target[row * a.outputs + o] * a.wire;
    for (u32 i = threadIdx.x; i < (a.k + 1) * n; i += blockDim.x) {
      const u32 c = i / n, j = i % n;
      const u64 word = static_cast<u64>(__double2ll_rn((acc[i] - rounded(acc[i])) * 0x1p64));
      if (c < a.k) out[c * n + ((p - j) & (n - 1))] = j <= p ? word : 0 - word;
      if (c == a.k && j == p) out[a.k * n] = word;
    }
  }
}

/// Transforms a key; each block has one polynomial.
__global__ void __launch_bounds__(kThreads)
    plain_transform(const u64* words, const double2* roots, double2* key, u32 log_degree) {
  take_turn();
  extern __shared__ __align__(128) unsigned char raw[];
  auto* const x = reinterpret_cast<double2*>(raw);
  const u32 n = 1u << log_degree, half = n / 2;
  const auto* const in = reinterpret_cast<const long long*>(words) + static_cast<u64>(blockIdx.x) * n;
  const double scale = 0x1p-64 / half;
  for (u32 j = threadIdx.x; j < half; j += blockDim.x)
    x[j] = {static_cast<double>(in[j]) * scale, static_cast<double>(in[j + half]) * scale};
  __syncthreads();
  forward(x, roots, log_degree);
  for (u32 j = threadIdx.x; j < half; j += blockDim.x) key[static_cast<u64>(blockIdx.x) * half + j] = x[j];
}

void rotate(device::Queue& queue, const State&, const BlindArguments& a) {
  const std::size_t n = std::size_t{1} << a.log_degree;
  launch(queue, "bootstrap", plain_rotation, a.count, kThreads, 16 * (n / 2) + 16 * (a.k + 1) * n + 2 * (a.n + 8), a);
}

void transform(device::Queue& queue, const device::BootstrapShape& shape, const u64* words, const Complex* roots,
               Complex* key) {
  u32 log_degree = 0;
  while ((std::size_t{1} << log_degree) < shape.degree) ++log_degree;
  launch(queue, "bootstrap key", plain_transform, shape.words() / shape.degree, kThreads, 8 * shape.degree, words,
         reinterpret_cast<const double2*>(roots), reinterpret_cast<double2*>(key), log_degree);
}

constexpr BlindKernel kPlain{
    .transform = transform, .rotate = rotate, .twiddles = nullptr, .samples_a_processor = [](const State&) {
      return u32{1};
    }};

}  // namespace

// Each kernel is defined in its own file, because compiling one takes long.
extern const BlindKernel kBlind2048, kBlind2048Latency, kBlind512, kBlind512Wide, kBlind1024;

const BlindKernel& blind_kernel(const device::BootstrapShape& shape) {
  static const BlindKernel* const kernels[] = {&kBlind2048, &kBlind2048Latency, &kBlind512, &kBlind512Wide, &kBlind1024};
  for (const BlindKernel* k : kernels) {
    if (std::size_t{1} << k->log_degree == shape.degree && k->k == shape.k && k->gadget_length == shape.gadget.length &&
        k->group == shape.group)
      return *k;
  }
  return kPlain;
}

}  // namespace heliograph::backend::cuda
