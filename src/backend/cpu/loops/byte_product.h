// Products of bytes with words modulo 2^32, in plain loops that compilers vectorise.
#pragma once

#include <cstring>

#include "backend/cpu/limb_ops.h"
#include "backend/cpu/loops/unroll.h"

namespace heliograph::backend::cpu {
namespace {

inline void pack_plain(const u32* words, std::size_t inputs, std::byte* packed) {
  std::memcpy(packed, words, inputs * sizeof(u32));
}

inline void plain_byte_rows(const ByteBlock& b) {
  constexpr int kVectors = 4;  // vectors multiplied for each read of a row's byte
  for (std::size_t r = 0; r < b.count; ++r) {
    const unsigned char* const row = b.rows[r];
    for (std::size_t v = 0; v < b.vectors_count; v += kVectors) {
      const int some = static_cast<int>(b.vectors_count - v < kVectors ? b.vectors_count - v : kVectors);
      for (int k = 0; k < some; ++k) {
        const u32* const words = reinterpret_cast<const u32*>(b.vectors[v + k]);
        u32 sum = 0;
        for (std::size_t i = 0; i < b.inputs; ++i) sum += static_cast<u32>(row[i] - 128) * words[i];
        u32& to = b.sums[(v + k) * b.sum_stride + r];
        to = b.add ? to + sum : sum;
      }
    }
  }
}

constexpr ByteOps plain_bytes(const char* name) { return {.name = name, .pack = pack_plain, .run = plain_byte_rows}; }

}  // namespace
}  // namespace heliograph::backend::cpu
