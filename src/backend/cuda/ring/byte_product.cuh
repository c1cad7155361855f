// Shared parts of the kernels of bytes times words modulo 2^32. A word is four signed digits of base 256.
#pragma once

#include "backend/cuda/ring/views.cuh"

namespace heliograph::backend::cuda {

class State;

constexpr u32 kHalf = 0x80808080;

struct ByteArguments {
  const unsigned char* bytes;
  u64 row;  // distance of rows in bytes
  Strided words, out;
  u32 items, inputs, outputs;
};

/// Splits four words into their digits, one plane for each digit.
__device__ __forceinline__ void planes_of(const uint4& words, u32 (&planes)[4]) {
  const u32 a = (words.x + kHalf) ^ kHalf, b = (words.y + kHalf) ^ kHalf, c = (words.z + kHalf) ^ kHalf,
            d = (words.w + kHalf) ^ kHalf;
  const u32 low_ab = __byte_perm(a, b, 0x5140), high_ab = __byte_perm(a, b, 0x7362);  // a0 b0 a1 b1, a2 b2 a3 b3
  const u32 low_cd = __byte_perm(c, d, 0x5140), high_cd = __byte_perm(c, d, 0x7362);
  planes[0] = __byte_perm(low_ab, low_cd, 0x5410), planes[1] = __byte_perm(low_ab, low_cd, 0x7632);
  planes[2] = __byte_perm(high_ab, high_cd, 0x5410), planes[3] = __byte_perm(high_ab, high_cd, 0x7632);
}

/// Computes the product on the asynchronous matrix units of compute capability 9.0; faster only for many bytes. First lays
/// out the words' digits in `columns`. `columns` needs 4 bytes for each word of all items, with the number of items rounded
/// up to a multiple of 32. `a.out` need not be zero before the call.
void wide_byte_product(Queue& queue, State& state, const ByteArguments& a, unsigned char* columns);

}  // namespace heliograph::backend::cuda
