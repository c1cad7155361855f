// TFHE's constants: LWE ciphertexts over the torus, held modulo 2^64, go through linear combinations, key switch and bootstrap
// (device/call.h). Combine and LweKeySwitch are exact, the same on every backend; Bootstrap uses a floating-point FFT and has
// a tolerance: its noise is predicted (lwe/noise.h) and tested.
//
// Layout. An LWE ciphertext of dimension d is the words a_0 .. a_(d-1), b, padded to a multiple of 64 words (lwe_words);
// b = sum a_i s_i + m + e. Wide ciphertexts (dimension k*N, 64-bit words) are what a user holds; narrow ones (dimension n,
// 32-bit words: modulo 2^32) exist between key switch and bootstrap. A GLWE ciphertext is polynomials A_0 .. A_(k-1), B
// with B = sum A_r S_r + M + E modulo X^N + 1; the wide key is the coefficients of S_0, then S_1, and so on.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "device/forms.h"
#include "device/view.h"

namespace heliograph::device {

/// Digits of base 2^log_base in [-base/2, base/2), the first `length` of a word rounded to them, most significant first.
struct Gadget {
  unsigned log_base = 0, length = 0;
  bool operator==(const Gadget&) const = default;
};

/// Words that an LWE ciphertext takes: its mask and body, padded.
constexpr std::size_t lwe_words(std::size_t dimension) { return (dimension + 64) / 64 * 64; }

/// A bootstrapping key: for each group of `group` bits of the narrow key, a GGSW encryption of each of the 2^group possible
/// values' indicators, in the order of the value (bit j of it: bit `group * g + j` of the key is 1; Zhou et al. 2018, Joye and
/// Paillier 2022). Words: [group][value][r][digit][component][N], row (r, digit) an encryption of zero with
/// indicator * 2^(64 - log_base * (digit + 1)) added to coefficient 0 of component r.
struct BootstrapShape {
  std::size_t n = 0, k = 0, degree = 0;  // narrow dimension (a multiple of group), GLWE dimension, N
  Gadget gadget;
  unsigned group = 1;

  std::size_t groups() const { return n / group; }
  std::size_t values() const { return std::size_t{1} << group; }
  std::size_t rows() const { return (k + 1) * gadget.length; }
  std::size_t wide() const { return k * degree; }
  std::size_t words() const { return groups() * values() * rows() * (k + 1) * degree; }
  /// Throws ShapeError for what no backend computes: N a power of two from 256 to 4096, k 1 to 6, k * N at
  /// most 4096, rows at most 16, group 1 to 4.
  void check() const;
  bool operator==(const BootstrapShape&) const = default;
};

/// A key-switching key: [from][digit] encryptions of s_i * 2^(64 - log_base * (digit + 1)) under the narrow key, rounded to
/// 32-bit words: [from][digit][to + 1], not padded.
struct KeySwitchShape {
  std::size_t from = 0, to = 0;
  Gadget gadget;

  std::size_t words() const { return from * gadget.length * (to + 1); }
  /// Throws ShapeError: 1 to 16 digits of at most 8 bits, within 32 bits.
  void check() const;
  bool operator==(const KeySwitchShape&) const = default;
};

/// One layer of a circuit: rows that depend on nothing of the layer. Row r is the linear combination
///   sum over t in [first[r], first[r + 1]) of weight[t] * wire source[t], plus constant[r] on the body,
/// and, unless the layer is linear, its bootstrap with test polynomial lut[r], read at `outputs` places N / outputs
/// coefficients apart. Result o of row r goes to wire target[r * outputs + o]. No target is a source of the layer.
struct GateLayer {
  std::vector<u32> first, source;
  std::vector<std::int32_t> weight;
  std::vector<u64> constant;
  std::vector<u32> lut, target;
  unsigned outputs = 1;     // a power of two, at most 8
  std::vector<u64> tables;  // [number of luts][N]; empty: the layer is linear
  std::size_t degree = 0;   // N

  std::size_t rows() const { return constant.size(); }
  std::size_t luts() const { return degree ? tables.size() / degree : 0; }
  bool linear() const { return tables.empty(); }
  /// One more than the largest wire.
  std::size_t wires() const;
  /// Throws ShapeError unless sizes and indices fit.
  void check() const;
};

/// Devices have the key's words as their forms of it; the constant says its shape alone.
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

// The arithmetic of the contract, as every backend's scalar code does it.

/// Signed digit `index` (0: most significant) of `word` as Gadget says.
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

/// Words of a 32-bit LWE ciphertext switched to modulus 2N = 2^log_modulus: exponents of X. `out` has n + 1 places.
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
