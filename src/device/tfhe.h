// TFHE's constants. LWE ciphertexts over the torus, stored modulo 2^64, pass through linear combinations, a key switch and a
// bootstrap (device/call.h). Combine and LweKeySwitch are exact and equal on every backend. Bootstrap uses a floating-point
// FFT and has a tolerance: lwe/noise.h predicts its noise, and tests check the prediction.
//
// Layout. An LWE ciphertext of dimension d has the mask words a_0 to a_(d-1) and the body b = sum a_i s_i + m + e, padded to
// a multiple of 64 words (lwe_words). Users have wide ciphertexts (dimension k*N, 64-bit words). Narrow ciphertexts
// (dimension n, 32-bit words, modulo 2^32) exist only between key switch and bootstrap. A GLWE ciphertext has the mask
// polynomials A_0 to A_(k-1) and the body B = sum A_r S_r + M + E modulo X^N + 1. The wide key is the coefficients of S_0,
// then S_1, and so on.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "device/forms.h"
#include "device/view.h"

namespace heliograph::device {

/// Decomposition into digits of base 2^log_base in [-base/2, base/2): the first `length` digits of a rounded word, the most
/// significant first.
struct Gadget {
  unsigned log_base = 0, length = 0;
  bool operator==(const Gadget&) const = default;
};

/// Returns the words of an LWE ciphertext: mask and body, padded to a multiple of 64.
constexpr std::size_t lwe_words(std::size_t dimension) { return (dimension + 64) / 64 * 64; }

/// A bootstrapping key. For each group of `group` bits of the narrow key, the key has 2^group GGSW encryptions: the
/// indicators of the group's values, in ascending order. Bit j of a value is bit `group * g + j` of the key (Zhou et al.
/// 2018, Joye and Paillier 2022). Words: [group][value][r][digit][component][N]. Row (r, digit) is an encryption of zero
/// with indicator * 2^(64 - log_base * (digit + 1)) added to coefficient 0 of component r.
struct BootstrapShape {
  std::size_t n = 0, k = 0, degree = 0;  // narrow dimension (a multiple of group), GLWE dimension, N
  Gadget gadget;
  unsigned group = 1;

  std::size_t groups() const { return n / group; }
  std::size_t values() const { return std::size_t{1} << group; }
  std::size_t rows() const { return (k + 1) * gadget.length; }
  std::size_t wide() const { return k * degree; }
  std::size_t words() const { return groups() * values() * rows() * (k + 1) * degree; }
  /// Throws ShapeError for shapes without a kernel: N must be a power of two from 256 to 4096, k 1 to 6, k * N at most 4096,
  /// rows at most 16, group 1 to 4.
  void check() const;
  bool operator==(const BootstrapShape&) const = default;
};

/// A key-switching key: [from][digit] encryptions of s_i * 2^(64 - log_base * (digit + 1)) under the narrow key, rounded to
/// 32-bit words: [from][digit][to + 1], not padded.
struct KeySwitchShape {
  std::size_t from = 0, to = 0;
  Gadget gadget;

  std::size_t words() const { return from * gadget.length * (to + 1); }
  /// Throws ShapeError unless there are 1 to 16 digits of at most 8 bits, at most 32 bits in all.
  void check() const;
  bool operator==(const KeySwitchShape&) const = default;
};

/// One layer of a circuit: rows that do not depend on each other. Row r is the linear combination
///   sum over t in [first[r], first[r + 1]) of weight[t] * wire source[t], plus constant[r] on the body.
/// Unless the layer is linear, the row is bootstrapped with test polynomial lut[r]. A row has `outputs` results:
/// coefficients at distance N / outputs. Result o of row r goes to wire target[r * outputs + o]. No target is a source of
/// the layer.
struct GateLayer {
  std::vector<u32> first, source;
  std::vector<std::int32_t> weight;
  std::vector<u64> constant;
  std::vector<u32> lut, target;
  unsigned outputs = 1;     // results of a row: a power of two, at most 8
  std::vector<u64> tables;  // test polynomials [number of luts][N]; empty: the layer is linear
  std::size_t degree = 0;   // degree N of the test polynomials

  std::size_t rows() const { return constant.size(); }
  std::size_t luts() const { return degree ? tables.size() / degree : 0; }
  bool linear() const { return tables.empty(); }
  /// Returns one more than the largest wire number.
  std::size_t wires() const;
  /// Throws ShapeError if the sizes contradict each other or an index is out of range.
  void check() const;
};

/// A bootstrapping key. The constant has only its shape; the devices' forms have its words.
class BootstrapKey : public ConstantOf<BootstrapShape> {
 public:
  using ConstantOf::ConstantOf;
  const BootstrapShape& shape() const { return value(); }
};

class LweSwitchKey : public ConstantOf<KeySwitchShape> {
 public:
  using ConstantOf::ConstantOf;
  const KeySwitchShape& shape() const { return value(); }
};

class LayerConstant : public ConstantOf<GateLayer> {
 public:
  using ConstantOf::ConstantOf;
  const GateLayer& layer() const { return value(); }
};

// Scalar arithmetic that defines the kernels, for all backends.

/// Returns signed digit `index` of `word`; index 0 is the most significant (see Gadget).
inline std::int64_t gadget_digit(u64 word, const Gadget& g, unsigned index) {
  const unsigned kept = g.log_base * g.length;
  u64 t = kept < 64 ? (word + (u64{1} << (63 - kept))) >> (64 - kept) : word;
  const u64 base = u64{1} << g.log_base;
  std::int64_t digit = 0;
  for (unsigned l = g.length; l-- > index;) {
    digit = static_cast<std::int64_t>((t + base / 2) & (base - 1)) - static_cast<std::int64_t>(base / 2);
    t = (t - static_cast<u64>(digit)) >> g.log_base;
  }
  return digit;
}

/// Switches the words of a 32-bit LWE ciphertext to modulus 2N = 2^log_modulus; the results are exponents of X. `out` has n
/// + 1 elements.
inline void switch_modulus(std::span<const u32> in, unsigned log_modulus, std::span<u32> out) {
  const unsigned shift = 32 - log_modulus;
  const u32 mask = (u32{1} << log_modulus) - 1, half = u32{1} << (shift - 1);
  std::int64_t errors = 0;
  for (std::size_t i = 0; i + 1 < in.size(); ++i) {
    const u32 rounded = (in[i] + half) >> shift;
    errors += static_cast<std::int32_t>(in[i] - (rounded << shift));
    out[i] = rounded & mask;
  }
  const u32 body = in.back() - static_cast<u32>(errors >> 1);
  out.back() = ((body + half) >> shift) & mask;
}

}  // namespace heliograph::device
