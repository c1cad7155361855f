// Loops of TFHE's kernels, one implementation per instruction set. The file has only plain data and function pointers,
// for the reason given in limb_ops.h.
#pragma once

#include "backend/cpu/limb_ops.h"

namespace heliograph::backend::cpu {

/// Layout and tables of the negacyclic Fourier transform. A real polynomial of N coefficients a_j is folded to M = N/2
/// complex numbers z_j = a_j + i a_(j+M). The numbers are stored as `lanes` real parts, then `lanes` imaginary parts,
/// and so on. The transform splits X^M - i into halves down to its roots (merged twist, no bit reversal). Root b in
/// that order is zeta^E(b), zeta = exp(i pi / N). The first stages combine pairs of whole vectors. The last log2(lanes)
/// stages run within vectors, after `lanes` vectors are transposed; the result stays transposed.
struct FourierPlan {
  std::size_t n = 0;
  int log_m = 0;
  std::size_t polynomial = 0;     // doubles between polynomials: N plus padding, to avoid shared cache sets
  const double* roots = nullptr;  // the roots zeta^e for e < 2N: real part, imaginary part
  const double* nodes = nullptr;  // twiddle of block b of stage s at 2^s + b: real, imaginary
  const double* last = nullptr;   // twiddles within a vector: lanes / 2 pairs of vectors for each `lanes` vectors
  // Root exponents: exponents[v] for lane 0 of vector v, plus lane_exponents[l] for lane l.
  const u32* exponents = nullptr;
  const u32* lane_exponents = nullptr;
};

/// Blind rotations of several samples, for which the key is read once. Each sample's result is independent of the other
/// samples.
struct RotateBlock {
  const FourierPlan* plan;
  /// The transformed key: [group][vector][row][component][value] pairs of vectors, scaled such that 2^(64 - log_base *
  /// gadget_length) becomes 1.
  const double* key;
  std::size_t n, k, gadget_length, group;
  int log_base;
  std::size_t samples;
  const u32* exponents;  // exponents of X: [sample][n + 1], the body's last
  /// [sample][rows][polynomial]: the GLWE ciphertext, input and output; component c is row c * gadget_length.
  double* state;
  double* monomials;  // scratch: [sample][group][2 * lanes]
  /// [sample]: nonzero if the next sample has the same exponents except the body's; the two samples are then rotated
  /// together.
  const unsigned char* twins;
};

/// Multiplies key-switching rows by digits of several samples: acc[s] -= sum over rows of digits[s][row] * key[row].
struct SwitchBlock {
  std::size_t rows, samples;
  const i32* digits;  // layout [sample][digit_stride]
  std::size_t digit_stride;
  const u32* key;  // layout [row][kSwitchTile]
  u32* acc;        // layout [sample][acc_stride]
  std::size_t acc_stride;
};
inline constexpr std::size_t kSwitchTile = 64;

struct TfheOps {
  const char* name;
  std::size_t lanes;
  void (*forward)(const FourierPlan&, double* polynomial);
  void (*rotate)(const RotateBlock&);
  void (*switch_rows)(const SwitchBlock&);
  /// out[digit * count + i] = gadget digit `digit` of words[i]; `rest` is scratch of `count` words.
  void (*digits)(const u64* words, std::size_t count, unsigned log_base, unsigned gadget_length, u64* rest, i32* out);
  /// out = sum of weights[t] * in[t]
  void (*combine)(std::size_t terms, const u64* const* in, const i32* weights, u64* out, std::size_t count);
};

const TfheOps& scalar_tfhe();
const TfheOps& avx2_tfhe();
const TfheOps& avx512_tfhe();

}  // namespace heliograph::backend::cpu
