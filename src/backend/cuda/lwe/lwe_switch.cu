// LWE key switch: a matrix product of digits and key modulo 2^32. For many ciphertexts the int8 matrix units multiply: the
// key's words are split into bytes, and shifts combine the bytes' products. For few ciphertexts, many blocks read the key
// once: each block sums over a range of the mask, and adds its sums to the result.
#include "backend/cuda/lwe/tfhe.h"
#include "backend/cuda/runtime/launch.cuh"

namespace heliograph::backend::cuda {

namespace {

constexpr u32 kBytes = 4;     // bytes of a key word
constexpr u32 kStep = 32;     // mask words of one matrix instruction, for one gadget digit
constexpr u32 kColumns = 32;  // columns that a block computes
constexpr u32 kSamples = 128;
constexpr u32 kThreads = 128;
constexpr u32 kTile = 16;        // samples of one matrix instruction
constexpr u32 kMost = 1u << 14;  // samples whose digits are stored at once
constexpr u32 kTileWords = kTile * kStep / 4;

struct SwitchArguments {
  const u64* wires;
  const u32* target;
  u32* narrow;
  const u32* key;
  u64 item, wire, narrow_item, narrow_row;
  u32 rows, outputs, count, from, to, gadget_length, log_base;
  u32 column_blocks, padded_columns, splits, tiles, first;
};

__device__ __forceinline__ const u64* wide(const SwitchArguments& a, u32 sample) {
  sample += a.first;
  return a.wires + sample / a.rows * a.item + a.target[sample % a.rows * a.outputs] * a.wire;
}
__device__ __forceinline__ u32* narrow(const SwitchArguments& a, u32 sample) {
  sample += a.first;
  return a.narrow + sample / a.rows * a.narrow_item + sample % a.rows * a.narrow_row;
}

/// Calls f(index, digit) for the digits of a word, the least significant first (device::gadget_digit).
template <class F>
__device__ __forceinline__ void digits(u64 word, u32 log_base, u32 gadget_length, F f) {
  const u32 kept = log_base * gadget_length;  // bits of all digits, at most 32
  u32 t = static_cast<u32>((word + (u64{1} << (63 - kept))) >> (64 - kept));
  const u32 base = 1u << log_base;
  for (u32 l = gadget_length; l-- > 0;) {
    const int digit = static_cast<int>((t + base / 2) & (base - 1)) - static_cast<int>(base / 2);
    t = (t - static_cast<u32>(digit)) >> log_base;
    f(l, digit);
  }
}

__device__ __forceinline__ void multiply_bytes(int (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/// Writes digits in the lane order of the matrix instruction: [chunk of 32 mask words][digit][16 samples][lane][4 words]. A
/// thread writes four mask words of one ciphertext.
__global__ void __launch_bounds__(kThreads) switch_digits(const __grid_constant__ SwitchArguments a, u32* matrix) {
  take_turn();
  const u32 quads = a.from / 4, index = blockIdx.x * kThreads + threadIdx.x, sample = index / quads, quad = index % quads;
  if (sample >= a.tiles * kTile) return;
  u32 words[16] = {};
  if (sample < a.count) {
    const auto* const in = reinterpret_cast<const ulonglong2*>(wide(a, sample) + quad * 4);
    const ulonglong2 low = in[0], high = in[1];
    const u64 given[4] = {low.x, low.y, high.x, high.y};
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 kept = a.log_base * a.gadget_length;
      u32 t = static_cast<u32>((given[i] + (u64{1} << (63 - kept))) >> (64 - kept));
      const u32 base = 1u << a.log_base;
#pragma unroll
      for (u32 l = 0; l < 16; ++l) {  // digits follow each other, the least significant first
        if (l >= a.gadget_length) break;
        const u32 digit = ((t + base / 2) & (base - 1)) - base / 2;
        t = (t - digit) >> a.log_base;
        words[l] |= (digit & 0xff) << (8 * i);
      }
    }
  }
  const u32 chunk = quad / 8, place = quad % 4, high = quad % 8 / 4, row = sample % kTile;
  const u32 lane = row % 8 * 4 + place, word = row / 8 + 2 * high;
#pragma unroll
  for (u32 l = 0; l < 16; ++l) {
    if (l >= a.gadget_length) break;
    matrix[((u64{chunk} * a.gadget_length + (a.gadget_length - 1 - l)) * a.tiles + sample / kTile) * kTileWords + lane * 4 +
           word] = words[l];
  }
}

/// Multiplies 128 ciphertexts by 32 columns; each warp has 32 ciphertexts.
__global__ void __launch_bounds__(kThreads) switch_many(const __grid_constant__ SwitchArguments a, const u32* matrix) {
  take_turn();
  const u32 column = blockIdx.x % a.column_blocks * kColumns, first = blockIdx.x / a.column_blocks * kSamples;
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, place = lane % 4;
  int sums[2][kColumns / 8][kBytes][4] = {};
  const u32 tile = first / kTile + warp * 2;
  const u32* digits = matrix + u64{tile} * kTileWords + lane * 4;
  const u32* step = a.key + (u64{column} + group) * 8 + place * 2;
  const u32 steps = a.from / kStep * a.gadget_length;
  for (u32 i = 0; i < steps; ++i, digits += u64{a.tiles} * kTileWords, step += u64{kBytes} * a.padded_columns * 8) {
    u32 d[2][4];
#pragma unroll
    for (u32 m = 0; m < 2; ++m) {
      const uint4 v = __ldg(reinterpret_cast<const uint4*>(digits + m * kTileWords));
      d[m][0] = v.x, d[m][1] = v.y, d[m][2] = v.z, d[m][3] = v.w;
    }
#pragma unroll
    for (u32 p = 0; p < kBytes; ++p) {
#pragma unroll
      for (u32 n = 0; n < kColumns / 8; ++n) {
        const uint2 b = __ldg(reinterpret_cast<const uint2*>(step + (u64{p} * a.padded_columns + n * 8) * 8));
        multiply_bytes(sums[0][n][p], d[0], b.x, b.y);
        multiply_bytes(sums[1][n][p], d[1], b.x, b.y);
      }
    }
  }
#pragma unroll
  for (u32 m = 0; m < 2; ++m) {
#pragma unroll
    for (u32 half = 0; half < 2; ++half) {
      const u32 sample = first + warp * 32 + m * 16 + half * 8 + group;
      if (sample >= a.count) continue;
      u32* const out = narrow(a, sample);
#pragma unroll
      for (u32 n = 0; n < kColumns / 8; ++n) {
#pragma unroll
        for (u32 i = 0; i < 2; ++i) {
          const u32 c = column + n * 8 + place * 2 + i;
          if (c > a.to) continue;
          u32 sum = 0;
#pragma unroll
          for (u32 p = 0; p < kBytes; ++p) sum += static_cast<u32>(sums[m][n][p][half * 2 + i]) << (8 * p);
          const u32 body = c == a.to ? static_cast<u32>((wide(a, sample)[a.from] + 0x80000000u) >> 32) : 0;
          out[c] = body - sum;
        }
      }
    }
  }
}

constexpr u32 kFew = 8;           // samples that a block computes
constexpr u32 kFewThreads = 256;  // columns that a block computes
constexpr u32 kStretch = 32;      // mask words that a block sums over

__global__ void __launch_bounds__(kFewThreads) switch_start(const __grid_constant__ SwitchArguments a) {
  take_turn();
  const u32 sample = blockIdx.x;
  u32* const out = narrow(a, sample);
  for (u32 c = threadIdx.x; c <= a.to; c += kFewThreads)
    out[c] = c == a.to ? static_cast<u32>((wide(a, sample)[a.from] + 0x80000000u) >> 32) : 0;
}

__global__ void __launch_bounds__(kFewThreads) switch_few(const __grid_constant__ SwitchArguments a) {
  take_turn();
  __shared__ int digit[kFew][kStretch * 16];
  u32 index = blockIdx.x;
  const u32 column = index % a.column_blocks * kFewThreads + threadIdx.x;
  index /= a.column_blocks;
  const u32 begin = index % a.splits * kStretch, first = index / a.splits * kFew, samples = min(kFew, a.count - first);
  const u32 length = min(kStretch, a.from - begin);
  for (u32 i = threadIdx.x; i < samples * length; i += kFewThreads) {
    const u32 s = i / length, at = i % length;
    digits(wide(a, first + s)[begin + at], a.log_base, a.gadget_length,
           [&](u32 index, int d) { digit[s][at * a.gadget_length + index] = d; });
  }
  __syncthreads();
  if (column > a.to) return;
  u32 sums[kFew] = {};
  const u32* key = a.key + u64{begin} * a.gadget_length * (a.to + 1) + column;
#pragma unroll 8
  for (u32 r = 0; r < length * a.gadget_length; ++r, key += a.to + 1) {
    const u32 k = __ldg(key);
#pragma unroll
    for (u32 s = 0; s < kFew; ++s) sums[s] += static_cast<u32>(digit[s][r]) * k;
  }
#pragma unroll
  for (u32 s = 0; s < kFew; ++s) {
    if (s < samples) atomicSub(narrow(a, first + s) + column, sums[s]);
  }
}

u32 padded_columns(std::size_t to) { return static_cast<u32>((to + 1 + kColumns - 1) / kColumns * kColumns); }

}  // namespace

CudaKeySwitch::CudaKeySwitch(const std::shared_ptr<State>& state, const device::KeySwitchShape& shape,
                             std::span<const u32> key) {
  rows_ = std::make_unique<Table>(state, key.data(), key.size() * sizeof(u32));
  if (shape.from % kStep != 0) return;
  // Layout: [chunk of 32 mask words][digit][byte][column] of 32 bytes. Group p of 8 bytes, for p from 0 to 3, has the mask
  // words 4p to 4p + 3 and 16 + 4p to 16 + 4p + 3.
  const std::size_t columns = padded_columns(shape.to), gadget_length = shape.gadget.length;
  std::vector<unsigned char> planes(shape.from * gadget_length * kBytes * columns);
  for (std::size_t i = 0; i < shape.from; ++i) {
    const std::size_t chunk = i / kStep, at = i % kStep, place = at % 16 / 4 * 8 + at / 16 * 4 + at % 4;
    for (std::size_t l = 0; l < gadget_length; ++l) {
      const u32* const row = key.data() + (i * gadget_length + l) * (shape.to + 1);
      for (std::size_t p = 0; p < kBytes; ++p) {
        unsigned char* const out = planes.data() + ((chunk * gadget_length + l) * kBytes + p) * columns * kStep + place;
        for (std::size_t c = 0; c <= shape.to; ++c) out[c * kStep] = static_cast<unsigned char>(row[c] >> (8 * p));
      }
    }
  }
  planes_ = std::make_unique<Table>(state, planes.data(), planes.size());
}

void CudaTfhe::run(Queue& queue, const device::LweKeySwitch& c) {
  const auto& mine = device::form_on<CudaKeySwitch>(*c.key, slot());
  const auto& rows = device::form_on<CudaLayer>(*c.layer, slot());
  const device::KeySwitchShape& shape = c.key->shape();
  const u64 count = u64{c.wires.items()} * rows.layer().rows();
  require<ShapeError>(count < u64{1} << 31, "a call is too large for a GPU launch; split the batch");
  SwitchArguments a{.wires = c.wires.at<u64>(0, 0, 0),
                    .target = rows.target(),
                    .narrow = c.narrow.at<u32>(0, 0, 0),
                    .item = static_cast<u64>(c.wires.stride[0]),
                    .wire = c.wires.component_stride,
                    .narrow_item = static_cast<u64>(c.narrow.stride[0]),
                    .narrow_row = c.narrow.component_stride,
                    .rows = static_cast<u32>(rows.layer().rows()),
                    .outputs = rows.layer().outputs,
                    .count = static_cast<u32>(count),
                    .from = static_cast<u32>(shape.from),
                    .to = static_cast<u32>(shape.to),
                    .gadget_length = shape.gadget.length,
                    .log_base = shape.gadget.log_base};
  if (count > 4 * kFew && shape.from % kStep == 0) {
    a.key = mine.planes();
    a.padded_columns = padded_columns(shape.to);
    a.column_blocks = a.padded_columns / kColumns;
    CudaQueue& q = own(queue);
    const StreamHandle stream = q.stream()->handle();
    const u32 most = static_cast<u32>(std::min<u64>(kMost, (count + kSamples - 1) / kSamples * kSamples));
    const std::size_t size = Pool::size_class(std::size_t{most} * a.from * a.gadget_length);
    void* digits = state_->pool().take(stream, size);
    if (digits == nullptr) q.check(state_->allocate(size, stream, &digits), "memory for digits of ciphertexts");
    for (u64 first = 0; first < count; first += kMost) {
      a.first = static_cast<u32>(first);
      a.count = static_cast<u32>(std::min<u64>(kMost, count - first));
      const u32 blocks = (a.count + kSamples - 1) / kSamples;
      a.tiles = blocks * (kSamples / kTile);
      launch(queue, "key_switch", switch_digits, (u64{a.tiles} * kTile * (a.from / 4) + kThreads - 1) / kThreads, kThreads,
             0, a, static_cast<u32*>(digits));
      launch(queue, "key_switch", switch_many, u64{blocks} * a.column_blocks, kThreads, 0, a,
             static_cast<const u32*>(digits));
    }
    state_->pool().keep(stream, digits, size);  // the memory stays reserved for later calls on this stream
    return;
  }
  a.key = mine.rows();
  a.column_blocks = (a.to + 1 + kFewThreads - 1) / kFewThreads;
  a.splits = (a.from + kStretch - 1) / kStretch;
  launch(queue, "key_switch", switch_start, count, kFewThreads, 0, a);
  launch(queue, "key_switch", switch_few, u64{a.column_blocks} * a.splits * ((count + kFew - 1) / kFew), kFewThreads, 0, a);
}

}  // namespace heliograph::backend::cuda
