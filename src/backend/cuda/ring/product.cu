// Sums of gathered inputs times small integers, by one of three methods (see CudaProduct::way).
//
// general  any weights: one thread for each coefficient, 128-bit sums
// sums     weights of up to 21 bits: residues split into parts of 15 to 30 bits, exact FP64 sums of each part
// int8     weights of one or two signed bytes: matrix units, one product for each byte of the residues
//
// The methods sums and int8 have one structure. A warp computes several outputs of one position for a range of one limb;
// neighbouring warps compute the next outputs and positions of the same range. So an input of many warps is loaded from
// memory once and then comes from the caches. The methods sums and int8 end in an integer sum whose quotient by q is small:
// see finished().
#include <algorithm>
#include <bit>
#include <type_traits>

#include "backend/cuda/ring/kernels.h"
#include "backend/cuda/ring/launch.cuh"

namespace heliograph::backend::cuda {

using device::GatheredProduct;
using math::i64;

namespace {

constexpr u32 kNone = GatheredProduct::kNone;
constexpr u32 kWarp = 32, kThreads = 128;
constexpr u32 kStep = 32;                         // terms of a matrix instruction; a row of indices is padded to whole steps
constexpr u32 kTileRows = 16;                     // rows of a matrix instruction
constexpr u32 kLaneBytes = 16;                    // bytes of a load of sums and int8; addresses are multiples
constexpr int kSumBits = 21;                      // longest weight in bits whose double has a zero low word
constexpr int kExactBits = 51;                    // sums below 2^51 are exact, and adding 1.5 2^52 converts them to integers
constexpr u32 kOutputTiles[] = {10, 8, 5, 4, 1};  // outputs of a thread in the method sums: one of these numbers

struct ProductArguments {
  Strided in, out;
  Primes primes;
  const Field60::Prime* table;
  const u32* index;     // layout [group][position][term, padded]
  const void* weights;  // weights in the method's layout
  u32 groups, outputs, positions, terms, padded;
  u32 n, components, limbs;
  u32 input_bytes;  // distance of inputs in bytes, if it is constant, positive and below 2^32
  u32 blocks;       // number of tiles of outputs
  u32 tiles;        // number of ranges of a limb
};

// ---------------------------------------------------------------- shared parts of the methods sums and int8

/// The work of a warp. Outputs vary fastest, then positions, then ranges: warps that read the same words are neighbours.
struct Job {
  u32 block, position, group, tile, component, limb;
};

__device__ __forceinline__ Job job_of(const ProductArguments& a) {
  u32 w = blockIdx.x * (kThreads / kWarp) + threadIdx.x / kWarp;
  Job j;
  j.block = w % a.blocks, w /= a.blocks;
  j.position = w % a.positions, w /= a.positions;
  j.group = w % a.groups, w /= a.groups;
  j.tile = w % a.tiles, w /= a.tiles;
  j.component = w % a.components;
  j.limb = w / a.components;
  return j;
}

/// Hides the computation of an address, so that a loop increments it instead of recomputing it.
__device__ __forceinline__ const std::byte* opaque(const std::byte* p) {
  asm("" : "+l"(p));
  return p;
}

template <int kBytes>
struct Lane;
template <>
struct Lane<8> {
  using Type = uint2;
};
template <>
struct Lane<16> {
  using Type = uint4;
};

/// Loads kBytes of an input; `base` is their address in input 0. Returns zeros for kNone. kRegular: input_bytes is valid.
template <int kBytes, bool kRegular>
__device__ __forceinline__ typename Lane<kBytes>::Type gather(const ProductArguments& a, const std::byte* base, u32 item) {
  using L = typename Lane<kBytes>::Type;
  L value{};
  if (item != kNone) {
    math::i64 offset;
    if constexpr (kRegular) {
      offset = static_cast<math::i64>(u64{item} * a.input_bytes);
    } else {
      offset =
          // the difference of the pointers counts words
          (limb_of<std::byte>(a.in, item, 0, 0) - a.in.data) * static_cast<math::i64>(a.in.word_bytes);
    }
    value = *reinterpret_cast<const L*>(base + offset);
  }
  return value;
}

__device__ __forceinline__ const std::byte* first_word(const ProductArguments& a, const Job& j, u32 coefficient) {
  return opaque(a.in.data + (j.component * a.in.component + j.limb * a.in.limb + coefficient) * a.in.word_bytes);
}

__device__ __forceinline__ u32 part_of(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }
__device__ __forceinline__ u32 part_of(const uint2& v, int i) { return i == 0 ? v.x : v.y; }

template <int kBytes, class T>
__device__ __forceinline__ void store(T* to, const T* words) {
  typename Lane<kBytes>::Type v;
  __builtin_memcpy(&v, words, sizeof v);
  *reinterpret_cast<decltype(v)*>(to) = v;
}

constexpr long long kRoundBits = 0x4338000000000000LL;  // bits of the double 1.5 2^52

/// Converts an integer below 2^51 in magnitude to T, modulo 2^32 or 2^64.
template <class T>
__device__ __forceinline__ T integer(double a) {
  return static_cast<T>(__double_as_longlong(__dadd_rn(a, Field50::kRound)) - kRoundBits);
}

/// Returns the canonical residue of a sum. `low` is the sum modulo 2^32 or 2^64, `about` the rounded sum, `inverse` 1/q.
/// Residues are below q, so the quotient is at most the sum of all |weights|, far below 2^50. So `about` determines the
/// quotient within one, and the remainder is between -q and q.
template <class T>
__device__ __forceinline__ T finished(T low, double about, T q, double inverse) {
  const double shifted = __fma_rn(about, inverse, Field50::kRound);
  const T quotient = static_cast<T>(__double_as_longlong(shifted) - kRoundBits);
  const T rest = low - quotient * q;
  return rest >> (8 * sizeof(T) - 1) ? rest + q : rest;
}

// ---------------------------------------------------------------- sums

/// Splits residues of type T into kParts parts of kBits bits; a thread reads kBytes of an input at a time.
template <class T, int kPartCount, int kPartBits, int kLoad>
struct Split {
  using Word = T;
  static constexpr int kParts = kPartCount, kBits = kPartBits, kBytes = kLoad, kWords = kLoad / static_cast<int>(sizeof(T));
};
using Split32 = Split<u32, 1, 30, 16>;
using Narrow32 = Split<u32, 2, 15, 8>;
using Split50 = Split<u64, 2, 25, 16>;
using Split60 = Split<u64, 2, 30, 16>;
using Narrow64 = Split<u64, 3, 20, 8>;

template <class S>
__device__ __forceinline__ double split(typename S::Word w, int part) {
  u32 bits = static_cast<u32>(w >> (part * S::kBits));
  if (part + 1 < S::kParts) bits &= (u32{1} << S::kBits) - 1;
  return __dadd_rn(__hiloint2double(0x43300000, static_cast<int>(bits)), -Field50::kWhole);
}

/// Minimum blocks that a multiprocessor holds at once: the largest number for which the loop spills at most two registers.
template <class S>
constexpr int sums_resident(int outputs) {
  return outputs * S::kWords * S::kParts < 32 ? 4 : 3;
}

/// The method sums. Layout of weights: [group][block][four terms][output of the block][term], the high words of doubles.
template <class S, int kOut, bool kRegular>
__global__ void __launch_bounds__(kThreads, sums_resident<S>(kOut)) sums_kernel(const __grid_constant__ ProductArguments a) {
  take_turn();
  using T = typename S::Word;
  constexpr int kWords = S::kWords, kParts = S::kParts;
  const Job j = job_of(a);
  if (j.limb >= a.limbs) return;
  const u32 first = (j.tile * kWarp + threadIdx.x % kWarp) * kWords;
  if (first >= a.n) return;

  const std::byte* const base = first_word(a, j, first);
  const u32 quads = (a.terms + 3) / 4;
  const uint4* index = reinterpret_cast<const uint4*>(a.index) + u64{j.group * a.positions + j.position} * (a.padded / 4);
  const uint4* weights = static_cast<const uint4*>(a.weights) + u64{j.group * a.blocks + j.block} * quads * kOut;
  double sum[kOut][kWords][kParts] = {};
  for (u32 quad = 0; quad < quads; ++quad, ++index, weights += kOut) {
    const uint4 items = __ldg(index);
    T words[4][kWords];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const auto v = gather<S::kBytes, kRegular>(a, base, part_of(items, t));
      __builtin_memcpy(words[t], &v, sizeof v);
    }
    double x[4][kWords][kParts];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
#pragma unroll
        for (int p = 0; p < kParts; ++p) x[t][i][p] = split<S>(words[t][i], p);
      }
    }
#pragma unroll
    for (int m = 0; m < kOut; ++m) {
      const uint4 w = __ldg(weights + m);
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        const double weight = __hiloint2double(static_cast<int>(part_of(w, t)), 0);
#pragma unroll
        for (int i = 0; i < kWords; ++i) {
#pragma unroll
          for (int p = 0; p < kParts; ++p) sum[m][i][p] = __fma_rn(x[t][i][p], weight, sum[m][i][p]);
        }
      }
    }
  }

  const u64 q = a.table[a.primes.index[j.limb]].q;
  const double inverse = 1.0 / static_cast<double>(q);
#pragma unroll
  for (int m = 0; m < kOut; ++m) {
    const u32 output = j.block * kOut + m;
    if (output >= a.outputs) break;
    T result[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      T low = integer<T>(sum[m][i][0]);
      double about = sum[m][i][kParts - 1];
#pragma unroll
      for (int p = 1; p < kParts; ++p) low += integer<T>(sum[m][i][p]) << (p * S::kBits);
#pragma unroll
      for (int p = kParts - 1; p-- > 0;) about = __fma_rn(about, static_cast<double>(u32{1} << S::kBits), sum[m][i][p]);
      result[i] = finished<T>(low, about, static_cast<T>(q), inverse);
    }
    const u32 item = (j.group * a.outputs + output) * a.positions + j.position;
    store<S::kBytes>(limb_of<T>(a.out, item, j.component, j.limb) + first, result);
  }
}

// ---------------------------------------------------------------- int8

// Fragments of mma.m16n8k32 (PTX ISA), with g = lane / 4 and t = lane % 4. Register r of A has row g + r % 2 * 8 and columns
// from r / 2 * 16 + 4t. Register r of B has column g and rows from r * 16 + 4t. Register r of C has row g + r / 2 * 8 and
// column 2t + r % 2. The order of terms is free: thread t takes the terms 8t to 8t + 7 of a step.

/// Return the row (output) within a tile, and the term within a step, of a byte of A's register r.
constexpr u32 fragment_row(u32 lane, u32 r) { return lane / 4 + r % 2 * 8; }
constexpr u32 fragment_term(u32 lane, u32 r, u32 byte) { return lane % 4 * 8 + r / 2 * 4 + byte; }

/// Prevents the compiler from computing expressions in v early, which would take more registers.
__device__ __forceinline__ int held(int v) {
  asm volatile("" : "+r"(v));
  return v;
}

__device__ __forceinline__ void multiply(int (&c)[4], const uint4& a, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

/// Transposes the bytes of four words: byte i of plane[d] is byte d of words[i].
__device__ __forceinline__ void transpose(const u32 (&words)[4], u32 (&plane)[4]) {
  const u32 a = __byte_perm(words[0], words[1], 0x5140), b = __byte_perm(words[2], words[3], 0x5140);
  const u32 c = __byte_perm(words[0], words[1], 0x7362), d = __byte_perm(words[2], words[3], 0x7362);
  plane[0] = __byte_perm(a, b, 0x5410), plane[1] = __byte_perm(a, b, 0x7632);
  plane[2] = __byte_perm(c, d, 0x5410), plane[3] = __byte_perm(c, d, 0x7632);
}

/// Returns the sum of acc[d] 2^(8d) over d in [from, min(from + 4, kPlanes)), for register r (and r + 2, a higher digit).
template <int kDigits, int kPlanes>
__device__ __forceinline__ i64 joined(const int (&acc)[kPlanes][4], int from, int r) {
  i64 sum = 0;
#pragma unroll
  for (int d = 3; d >= 0; --d) {
    if (from + d >= kPlanes) continue;
    sum = sum * 256 + held(acc[from + d][r]);
    if (kDigits == 2) sum += i64{held(acc[from + d][r + 2])} * 256;
  }
  return sum;
}

constexpr int int8_resident(int tiles, int planes) { return tiles == 1 ? 3 : tiles == 2 ? 4 : planes == 7 ? 3 : 2; }

/// A warp reads kColumns * 64 bytes of each input, a thread kColumns * 8. Each 8 bytes are a residue of 64 bits or two of
/// 32; kPlanes of their bytes are not zero. kTiles tiles of 16 rows: 16 outputs, or 8 low digits and their 8 high digits.
/// Weights: [group][block][step][tile][lane] A fragments.
template <class T, int kPlanes, int kDigits, int kTiles, int kColumns, bool kRegular>
__global__ void __launch_bounds__(kThreads, int8_resident(kTiles, kPlanes))
    int8_kernel(const __grid_constant__ ProductArguments a) {
  take_turn();
  constexpr int kBytes = 8 * kColumns, kWords = kBytes / static_cast<int>(sizeof(T));
  constexpr u32 kRows = kTileRows / kDigits;
  using L = typename Lane<kBytes>::Type;
  const Job j = job_of(a);
  if (j.limb >= a.limbs) return;  // whole warps return here, so that matrix instructions have all lanes
  const u32 lane = threadIdx.x % kWarp, column = lane / 4, quarter = lane % 4;
  const u32 tile = j.tile * 8 * kWords, first = tile + column * kWords;

  const std::byte* const base = first_word(a, j, first < a.n ? first : 0);  // the results of columns beyond n are not stored
  const u32 steps = a.padded / kStep;
  const uint4* index =
      reinterpret_cast<const uint4*>(a.index) + u64{j.group * a.positions + j.position} * (a.padded / 4) + quarter * 2;
  const uint4* weights =
      static_cast<const uint4*>(a.weights) + u64{j.group * a.blocks + j.block} * steps * kTiles * kWarp + lane;

  // Phase 1: products of bytes, summed over the inputs.
  L raw[8];
  const auto load = [&](const uint4& low, const uint4& high) {
#pragma unroll
    for (int t = 0; t < 8; ++t) raw[t] = gather<kBytes, kRegular>(a, base, part_of(t < 4 ? low : high, t % 4));
  };
  int acc[kTiles][kColumns][kPlanes][4] = {};
  load(__ldg(index), __ldg(index + 1));
  // Inputs are loaded one step before their use, their indices two steps before.
  uint4 low = {kNone, kNone, kNone, kNone}, high = low;
  if (steps > 1) low = __ldg(index + 8), high = __ldg(index + 9);
#pragma unroll 1
  for (u32 step = 0; step < steps; ++step, weights += kTiles * kWarp) {
    // Transpose four words to their bytes.
    u32 plane[kColumns][2][8];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const u32 words[4] = {part_of(raw[half * 4], c * 2 + i), part_of(raw[half * 4 + 1], c * 2 + i),
                                part_of(raw[half * 4 + 2], c * 2 + i), part_of(raw[half * 4 + 3], c * 2 + i)};
          u32 bytes[4];
          transpose(words, bytes);
#pragma unroll
          for (int d = 0; d < 4; ++d) plane[c][half][i * 4 + d] = bytes[d];
        }
      }
    }
    if (step + 1 < steps) {
      load(low, high);
      if (step + 2 < steps) low = __ldg(index + (step + 2) * 8), high = __ldg(index + (step + 2) * 8 + 1);
    }
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const uint4 w = __ldg(weights + t * kWarp);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
#pragma unroll
        for (int d = 0; d < kPlanes; ++d) multiply(acc[t][c][d], w, plane[c][0][d], plane[c][1][d]);
      }
    }
  }

  // Phase 2: the sums of bytes joined to words, reduced and stored.
  const u64 q = a.table[a.primes.index[j.limb]].q;
  const double inverse = 1.0 / static_cast<double>(q);
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int upper = 0; upper < 2 / kDigits; ++upper) {
      const u32 output = (j.block * kTiles + t) * kRows + column + upper * 8;
      if (output >= a.outputs) continue;
      const u32 item = (j.group * a.outputs + output) * a.positions + j.position;
      T result[2 * kWords];  // results of two adjacent columns of a matrix instruction
#pragma unroll
      for (int side = 0; side < 2; ++side) {
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          const i64 x = joined<kDigits, kPlanes>(acc[t][c], 0, upper * 2 + side);
          const i64 y = joined<kDigits, kPlanes>(acc[t][c], 4, upper * 2 + side);
          T* const to = result + side * kWords + c * (8 / sizeof(T));
          if constexpr (sizeof(T) == 4) {
            to[0] = finished<T>(static_cast<T>(x), __ll2double_rn(x), static_cast<T>(q), inverse);
            to[1] = finished<T>(static_cast<T>(y), __ll2double_rn(y), static_cast<T>(q), inverse);
          } else {
            const double about = __fma_rn(__ll2double_rn(y), 4294967296.0, __ll2double_rn(x));
            to[0] = finished<T>(static_cast<u64>(x) + (static_cast<u64>(y) << 32), about, q, inverse);
          }
        }
      }
      const u32 at = tile + quarter * 2 * kWords;
      T* const to = limb_of<T>(a.out, item, j.component, j.limb) + at;
      constexpr u32 kStored = kLaneBytes / sizeof(T);  // words of a store; n is a multiple
#pragma unroll
      for (u32 w = 0; w < 2 * kWords; w += kStored) {
        if (at + w < a.n) store<kLaneBytes>(to + w, result + w);
      }
    }
  }
}

// ---------------------------------------------------------------- general

/// Weights: [group][output][term], signed. One thread for each coefficient.
template <class T>
__global__ void __launch_bounds__(kThreads) general_kernel(const __grid_constant__ ProductArguments a, const Grid grid) {
  take_turn();
  const At at = locate(grid, blockIdx.x);
  const u32 i = at.part * kThreads + threadIdx.x;
  if (i >= a.n) return;
  const Field60::Prime p = a.table[a.primes.index[at.limb]];
  const u32 position = at.item % a.positions, row = at.item / a.positions, group = row / a.outputs;
  const u32* const index = a.index + u64{group * a.positions + position} * a.padded;
  const i64* const weights = static_cast<const i64*>(a.weights) + u64{row} * a.terms;
  u64 high = 0, low = 0;  // the sum of at most 255 products below 2^120 and a residue
  u32 added = 0;
#pragma unroll 1
  for (u32 k = 0; k < a.terms; ++k) {
    const u32 item = index[k];
    if (item == kNone) continue;
    const i64 w = weights[k];
    const u64 magnitude = Field60::reduce64(w < 0 ? u64{0} - static_cast<u64>(w) : static_cast<u64>(w), p);
    const u64 weight = w < 0 ? p.q - magnitude : magnitude;  // a residue, at most q
    const u64 x = limb_of<const T>(a.in, item, at.component, at.limb)[i];
    const u64 product = weight * x;
    low += product;
    high += __umul64hi(weight, x) + (low < product);
    if (++added == 255) low = Field60::reduce128(high, low, p), high = 0, added = 0;
  }
  limb_of<T>(a.out, at.item, at.component, at.limb)[i] = static_cast<T>(Field60::reduce128(high, low, p));
}

// ---------------------------------------------------------------- on the host

u32 parts(std::size_t whole, std::size_t part) { return static_cast<u32>((whole + part - 1) / part); }

enum class Way { general, sums, int8 };

/// Returns the columns of a thread in the method int8, limited by registers.
constexpr int columns_of(u32 tiles) { return tiles == 1 ? 2 : 1; }

/// Returns the outputs of a thread with the least cost, products by zero included; loading and splitting an input costs
/// about 1.5 products.
u32 output_tile(std::size_t outputs) {
  u32 best = 1;
  double least_cost = 0;
  for (u32 tile : kOutputTiles) {
    const double cost = parts(outputs, tile) * (tile + 1.5);
    if (least_cost == 0 || cost < least_cost) best = tile, least_cost = cost;
  }
  return best;
}

/// Returns the number of signed bytes that hold every weight, 1 or 2; 0 if a weight needs more.
int byte_digits(const std::vector<i64>& weights) {
  int digits = 1;
  for (i64 w : weights) {
    if (w < -32768 || w > 127 * 256 + 127) return 0;
    if (w < -128 || w > 127) digits = 2;
  }
  return digits;
}
/// Returns digit d of w; w is the sum of digit d times 256^d.
int byte_digit(i64 w, int d) {
  const auto low = static_cast<signed char>(static_cast<unsigned char>(w & 255));
  return d == 0 ? low : static_cast<int>((w - low) / 256);
}

template <class T>
std::unique_ptr<Table> table(const std::shared_ptr<State>& state, std::vector<T> values) {
  if (values.empty()) values.resize(1);
  return std::make_unique<Table>(state, values.data(), values.size() * sizeof(T));
}

class CudaProduct final : public device::FormOf<device::ProductConstant> {
 public:
  CudaProduct(const std::shared_ptr<State>& state, const device::ProductConstant& constant);
  const GatheredProduct& product() const { return of().product(); }
  /// Returns the method of least estimated time in a ring of this kind; the caller checks the views.
  Way way(FieldKind kind) const;
  /// Whether sums of parts of this many bits are exact.
  bool sums_fit(int part_bits) const { return part_bits + bits_ + math::bit_length(product().terms) <= kExactBits; }

  u32 padded() const { return padded_; }
  u32 outputs_a_thread() const { return output_tile_; }
  int digits() const { return digits_; }
  u32 tiles_a_warp() const { return tiles_; }
  u32 int8_blocks() const { return parts(product().outputs, tiles_ * kTileRows / static_cast<u32>(digits_)); }
  const Table& index() const { return *index_; }
  const Table& weights(Way way) const {
    return way == Way::sums ? *sum_weights_ : way == Way::int8 ? *byte_weights_ : *weights_;
  }

 private:
  std::vector<u32> sum_weights() const;
  std::vector<u32> byte_weights() const;

  int bits_;
  u32 padded_, output_tile_;
  int digits_ = 0;  // signed bytes of a weight; 0: the method int8 does not support the weights
  u32 tiles_ = 1;
  std::unique_ptr<Table> index_, weights_, sum_weights_, byte_weights_;
};

CudaProduct::CudaProduct(const std::shared_ptr<State>& state, const device::ProductConstant& constant)
    : FormOf(constant), bits_(product().weight_bits()) {
  const GatheredProduct& g = product();
  padded_ = parts(g.terms, kStep) * kStep;
  output_tile_ = output_tile(g.outputs);
  std::vector<u32> index(g.groups * g.positions * padded_, kNone);
  for (std::size_t i = 0; i < g.groups * g.positions; ++i) {
    std::copy_n(g.index.begin() + static_cast<std::ptrdiff_t>(i * g.terms), g.terms,
                index.begin() + static_cast<std::ptrdiff_t>(i * padded_));
  }
  index_ = table(state, std::move(index));
  weights_ = table(state, g.weights);
  const bool any = g.groups * g.outputs * g.positions * g.terms > 0;
  if (any && bits_ <= kSumBits) sum_weights_ = table(state, sum_weights());
  if (any) {
    // A 32-bit accumulator holds 2^16 products of two bytes. If weights have two digits, the sums of both digits are joined
    // in 64 bits, which limits the number of products to 2^14.
    const int digits = byte_digits(g.weights);
    if (digits > 0 && g.terms <= std::size_t{1} << (digits == 1 ? 16 : 14)) digits_ = digits;
  }
  if (digits_ > 0) {
    const u32 tiles = parts(g.outputs, kTileRows / static_cast<u32>(digits_));
    tiles_ = tiles <= 1 ? 1 : tiles <= 2 ? 2 : 4;
    byte_weights_ = table(state, byte_weights());
  }
}

std::vector<u32> CudaProduct::sum_weights() const {
  const GatheredProduct& g = product();
  const std::size_t blocks = parts(g.outputs, output_tile_), quads = parts(g.terms, 4);
  std::vector<u32> words(g.groups * blocks * quads * output_tile_ * 4);  // words of weights; a zero weight has the word 0
  for (std::size_t row = 0; row < g.groups * g.outputs; ++row) {
    const std::size_t group = row / g.outputs, output = row % g.outputs;
    for (std::size_t k = 0; k < g.terms; ++k) {
      const std::size_t place = (group * blocks + output / output_tile_) * quads + k / 4;
      words[(place * output_tile_ + output % output_tile_) * 4 + k % 4] =
          static_cast<u32>(std::bit_cast<u64>(static_cast<double>(g.weights[row * g.terms + k])) >> 32);
    }
  }
  return words;
}

std::vector<u32> CudaProduct::byte_weights() const {
  const GatheredProduct& g = product();
  const std::size_t blocks = int8_blocks(), steps = padded_ / kStep, rows = kTileRows / static_cast<std::size_t>(digits_);
  std::vector<u32> words(g.groups * blocks * steps * tiles_ * kWarp * 4);
  std::size_t next = 0;
  for (std::size_t i = 0; i < g.groups * blocks * steps * tiles_; ++i) {
    const std::size_t tile = i % tiles_, step = i / tiles_ % steps, block = i / tiles_ / steps % blocks;
    const std::size_t group = i / tiles_ / steps / blocks;
    for (u32 lane = 0; lane < kWarp; ++lane) {
      for (u32 r = 0; r < 4; ++r, ++next) {
        const std::size_t row = fragment_row(lane, r), output = (block * tiles_ + tile) * rows + row % rows;
        if (output >= g.outputs) continue;
        for (u32 byte = 0; byte < 4; ++byte) {
          const std::size_t k = step * kStep + fragment_term(lane, r, byte);
          if (k >= g.terms) continue;
          const i64 w = g.weights[(group * g.outputs + output) * g.terms + k];
          words[next] |= (static_cast<u32>(byte_digit(w, static_cast<int>(row / rows))) & 255) << (8 * byte);
        }
      }
    }
  }
  return words;
}

/// Estimates clocks of one multiprocessor for a word of an output, from instruction counts. On an H200 it chooses the
/// measured faster method for each layer of HCNN-5 in both word sizes (docs/adr/0007-gpu-kernels.md).
///   sums  64 FMAs a clock, an FMA for each part, and about a sixth more for loads and splits.
///   int8  for a step of a warp, the maximum of its matrix instructions (1.6 clocks each), its issue slots with a quarter
///         more for missing overlap, and its loads from L1. Joining and reducing takes a third of a clock.
Way CudaProduct::way(FieldKind kind) const {
  const GatheredProduct& g = product();
  const bool narrow = kind == FieldKind::field32;
  const int wide_part = kind == FieldKind::field50 ? 25 : 30, least_part = narrow ? 15 : 20;
  const bool sums = sum_weights_ && sums_fit(least_part), int8 = byte_weights_ != nullptr;
  if (!sums || !int8) return sums ? Way::sums : int8 ? Way::int8 : Way::general;

  const double parts_of_word = (narrow ? 1 : 2) + (sums_fit(wide_part) ? 0 : 1);
  const double outputs = static_cast<double>(g.outputs);
  const double sums_cost =
      parts_of_word * static_cast<double>(g.terms) * output_tile_ * parts(g.outputs, output_tile_) / outputs / 64 * 1.17 +
      0.15;
  const double columns = columns_of(tiles_), planes = kind == FieldKind::field50 ? 7 : 8;
  const double words = columns * 8 * (narrow ? 2 : 1);
  const double steps = parts(g.terms, kStep), blocks = int8_blocks();
  const double step = 1.25 * std::max(1.6 * planes * tiles_ * columns, 20 + 14 * columns) + 16 * columns;
  const double int8_cost = steps * blocks * step / (words * outputs) + 0.35;
  return sums_cost <= int8_cost ? Way::sums : Way::int8;
}

/// Whether all ranges of a view may be loaded kLaneBytes at a time.
bool lanes_fit(const device::View& v) {
  const std::size_t words = kLaneBytes / v.word_size();
  bool fit = v.n % words == 0 && reinterpret_cast<std::uintptr_t>(v.data) % kLaneBytes == 0;
  for (int i = 0; i < v.axes; ++i) fit = fit && v.stride[i] % static_cast<std::ptrdiff_t>(words) == 0;
  return fit && v.component_stride % words == 0 && v.limb_stride % words == 0;
}

struct Launcher {
  device::Queue& queue;
  const CudaProduct& product;
  ProductArguments arguments;
  bool regular = false;  // whether arguments.input_bytes is valid

  /// Sets one warp for each of `blocks` tiles of outputs and each range of `words`.
  void warps(void (*kernel)(ProductArguments), u32 blocks, u32 words) {
    ProductArguments& a = arguments;
    a.blocks = blocks;
    a.tiles = parts(a.n, words);
    u64 count = u64{a.blocks} * a.positions * a.groups;
    require<ShapeError>(count < u64{1} << 32, "a call is too large for a GPU launch; split the batch");
    count = count * a.tiles * a.components * a.limbs;
    require<ShapeError>(count < (u64{1} << 32) - kThreads, "a call is too large for a GPU launch; split the batch");
    launch(queue, "product", kernel, (count + kThreads / kWarp - 1) / (kThreads / kWarp), kThreads, 0, a);
  }

  template <class S>
  void sums() {
    const u32 tile = product.outputs_a_thread(), blocks = parts(arguments.outputs, tile), words = kWarp * S::kWords;
    const auto run = [&]<int kOut>(std::integral_constant<int, kOut>) {
      warps(regular ? sums_kernel<S, kOut, true> : sums_kernel<S, kOut, false>, blocks, words);
    };
    if (tile == 10) return run(std::integral_constant<int, 10>{});
    if (tile == 8) return run(std::integral_constant<int, 8>{});
    if (tile == 5) return run(std::integral_constant<int, 5>{});
    if (tile == 4) return run(std::integral_constant<int, 4>{});
    run(std::integral_constant<int, 1>{});
  }

  template <class T, int kPlanes, int kDigits, int kTiles>
  void int8_run() {
    constexpr int kColumns = columns_of(kTiles);
    warps(regular ? int8_kernel<T, kPlanes, kDigits, kTiles, kColumns, true>
                  : int8_kernel<T, kPlanes, kDigits, kTiles, kColumns, false>,
          product.int8_blocks(), kColumns * 64 / sizeof(T));
  }
  template <class T, int kPlanes, int kDigits>
  void int8_tiles() {
    if (product.tiles_a_warp() == 1) return int8_run<T, kPlanes, kDigits, 1>();
    if (product.tiles_a_warp() == 2) return int8_run<T, kPlanes, kDigits, 2>();
    int8_run<T, kPlanes, kDigits, 4>();
  }
  template <class T, int kPlanes>
  void int8() {
    product.digits() == 1 ? int8_tiles<T, kPlanes, 1>() : int8_tiles<T, kPlanes, 2>();
  }

  void general(const device::View& out, bool narrow) {
    const Grid grid(parts(arguments.n, kThreads), out);
    launch(queue, "product", narrow ? general_kernel<u32> : general_kernel<u64>, grid.blocks(), kThreads, 0, arguments,
           grid);
  }
};

}  // namespace

std::unique_ptr<const device::Form> CudaKernels::form(const device::ProductConstant& c) {
  return std::make_unique<CudaProduct>(state_, c);
}

void CudaKernels::run(Queue& queue, const Product& c) {
  if (c.out.words() == 0) return;
  const CudaRing& ring = own_ring(queue, *c.ring);
  const CudaProduct& product = own_as<CudaProduct>(queue, *c.product);
  const GatheredProduct& g = product.product();
  const FieldKind kind = ring.kind();
  const Way way = lanes_fit(c.in) && lanes_fit(c.out) ? product.way(kind) : Way::general;

  Launcher call{queue, product, {}, false};
  ProductArguments& a = call.arguments;
  a.in = strided(c.in), a.out = strided(c.out);
  a.primes = primes_of(c.primes);
  a.table = ring.any_primes().as<Field60::Prime>();
  a.index = product.index().as<u32>();
  a.weights = product.weights(way).as<void>();
  a.groups = static_cast<u32>(g.groups), a.outputs = static_cast<u32>(g.outputs);
  a.positions = static_cast<u32>(g.positions), a.terms = static_cast<u32>(g.terms), a.padded = product.padded();
  a.n = static_cast<u32>(c.out.n), a.components = static_cast<u32>(c.out.components),
  a.limbs = static_cast<u32>(c.out.limbs);
  const math::i64 input_bytes = a.in.axes > 0 ? a.in.stride[0] * static_cast<math::i64>(a.in.word_bytes) : 0;
  call.regular = a.in.axes <= 1 && input_bytes >= 0 && input_bytes < math::i64{1} << 32;
  a.input_bytes = static_cast<u32>(input_bytes);

  const bool narrow = kind == FieldKind::field32;
  switch (way) {
    case Way::general:
      return call.general(c.out, narrow);
    case Way::sums:
      if (narrow) return product.sums_fit(30) ? call.sums<Split32>() : call.sums<Narrow32>();
      if (kind == FieldKind::field50 && product.sums_fit(25)) return call.sums<Split50>();
      if (kind == FieldKind::field60 && product.sums_fit(30)) return call.sums<Split60>();
      return call.sums<Narrow64>();
    case Way::int8:
      if (narrow) return call.int8<u32, 8>();
      return kind == FieldKind::field50 ? call.int8<u64, 7>() : call.int8<u64, 8>();
  }
}

}  // namespace heliograph::backend::cuda
