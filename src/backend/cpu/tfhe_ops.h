// Loops of TFHE's kernels: the part that is written for each instruction set. As limb_ops.h: plain data and function
// pointers only.
#pragma once

#include "backend/cpu/limb_ops.h"

namespace heliograph::backend::cpu {

/// A real polynomial of N coefficients a_j, folded to M = N/2 complex numbers z_j = a_j + i a_(j+M): `lanes` real parts, as
/// many imaginary parts, and so on. The transform divides X^M - i into halves until its roots are left (merged twist, no bit
/// reversal); root number b in that order is zeta^E(b), zeta = exp(i pi / N). The first stages pair vectors; the last
/// log2(lanes) are within a vector, where `lanes` vectors are transposed first and stay so.
struct FourierPlan {
  std::size_t n = 0;
  int log_m = 0;
  std::size_t polynomial = 0;     // doubles from one polynomial to the next: N and a little, not to share cache sets
  const double* roots = nullptr;  // zeta^e for e < 2N: real, imaginary
  const double* nodes = nullptr;  // twiddle of block b of stage s at 2^s + b: real, imaginary
  const double* last =
      nullptr;  // of the stages within a vector: for each group of `lanes` vectors, lanes / 2 pairs of vectors
  // Root exponents: exponents[v] of lane 0 of vector v, and lane_exponents[l] more for lane l.
  const u32* exponents = nullptr;
  const u32* lane_exponents = nullptr;
};

/// Blind rotations of several samples through one key, which is read once for them all. A sample's arithmetic does not
/// depend on the others.
struct RotateBlock {
  const FourierPlan* plan;
  /// The transformed key: [group][vector][row][component][value] pairs of vectors, in units that make the rotation's results
  /// those of the gadget: 2^(64 - log_base * gadget_length) is 1.
  const double* key;
  std::size_t n, k, gadget_length, group;
  int log_base;
  std::size_t samples;
  const u32* exponents;  // of X: [sample][n + 1], the body's last
  /// [sample][rows][polynomial]: the GLWE ciphertext in and out, component c as row c * gadget_length.
  double* state;
  double* monomials;  // scratch: [sample][group][2 * lanes]
  /// For each sample, whether the next one has the same exponents but the body's, and is turned together with it.
  const unsigned char* twins;
};

/// Rows of a key-switching key times digits of several samples: acc[s] -= sum over rows of digits[s][row] * key[row].
struct SwitchBlock {
  std::size_t rows, samples;
  const i32* digits;  // [sample][digit_stride]
  std::size_t digit_stride;
  const u32* key;  // [row][kSwitchTile]
  u32* acc;        // [sample][acc_stride]
  std::size_t acc_stride;
};
inline constexpr std::size_t kSwitchTile = 64;

struct TfheOps {
  const char* name;
  std::size_t lanes;
  /// One polynomial's transform, in place.
  void (*forward)(const FourierPlan&, double* polynomial);
  void (*rotate)(const RotateBlock&);
  void (*switch_rows)(const SwitchBlock&);
  /// out[digit * count + i]: gadget digit `digit` of words[i]; `rest` is scratch of `count` words.
  void (*digits)(const u64* words, std::size_t count, unsigned log_base, unsigned gadget_length, u64* rest, i32* out);
  /// out = sum of weights[t] * in[t]
  void (*combine)(std::size_t terms, const u64* const* in, const i32* weights, u64* out, std::size_t count);
};

const TfheOps& scalar_tfhe();
const TfheOps& avx2_tfhe();
const TfheOps& avx512_tfhe();

}  // namespace heliograph::backend::cpu
