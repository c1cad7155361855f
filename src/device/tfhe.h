// The contract of TFHE's kernels: LWE ciphertexts over the torus, held modulo 2^64, through linear combinations, key switch
// and bootstrap. As with device/kernels.h a public call checks its arguments (device/tfhe.cpp), then enqueues through the
// protected virtual of the same name; it neither blocks nor uploads. combine and key_switch are exact, the same on every
// backend; bootstrap uses a floating-point FFT and has a tolerance: its noise is predicted (lwe/noise.h) and tested.
//
// Layout. An LWE ciphertext of dimension d is the words a_0 .. a_(d-1), b, padded to a multiple of 64 words (lwe_words);
// b = sum a_i s_i + m + e. Wide ciphertexts (dimension k*N, 64-bit words) are what a user holds; narrow ones (dimension n,
// 32-bit words: modulo 2^32) exist between key switch and bootstrap. A GLWE ciphertext is polynomials A_0 .. A_(k-1), B
// with B = sum A_r S_r + M + E modulo X^N + 1; the wide key is the coefficients of S_0, then S_1, and so on.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "device/device.h"

namespace heliograph::device {

/// Digits of base 2^log_base in [-base/2, base/2), the first `levels` of a word rounded to them, most significant first.
struct Gadget {
  unsigned log_base = 0, levels = 0;
  bool operator==(const Gadget&) const = default;
};

/// Words that an LWE ciphertext takes: its mask and body, padded.
constexpr std::size_t lwe_words(std::size_t dimension) { return (dimension + 64) / 64 * 64; }

/// A bootstrapping key: for each group of `group` bits of the narrow key, a GGSW encryption of each of the 2^group possible
/// values' indicators, in the order of the value (bit j of it: bit `group * g + j` of the key is 1; Zhou et al. 2018, Joye and
/// Paillier 2022). Words: [group][value][r][level][component][N], row (r, level) an encryption of zero with
/// indicator * 2^(64 - log_base * (level + 1)) added to coefficient 0 of component r.
struct BootstrapShape {
  std::size_t n = 0, k = 0, degree = 0;  // narrow dimension (a multiple of group), GLWE dimension, N
  Gadget gadget;
  unsigned group = 1;

  std::size_t groups() const { return n / group; }
  std::size_t values() const { return std::size_t{1} << group; }
  std::size_t rows() const { return (k + 1) * gadget.levels; }
  std::size_t wide() const { return k * degree; }
  std::size_t words() const { return groups() * values() * rows() * (k + 1) * degree; }
  /// Throws ShapeError for what no backend computes: N a power of two from 256 to 4096, k 1 to 6, k * N at
  /// most 4096, rows at most 16, group 1 to 4.
  void check() const;
  bool operator==(const BootstrapShape&) const = default;
};

/// A key-switching key: [from][level] encryptions of s_i * 2^(64 - log_base * (level + 1)) under the narrow key, rounded to
/// 32-bit words: [from][level][to + 1], not padded.
struct KeySwitchShape {
  std::size_t from = 0, to = 0;
  Gadget gadget;

  std::size_t words() const { return from * gadget.levels * (to + 1); }
  /// Throws ShapeError: digits of at most 8 bits, 1 to 16 levels, within 32 bits.
  void check() const;
  bool operator==(const KeySwitchShape&) const = default;
};

/// One level of a circuit: rows that depend on nothing of the level. Row r is the linear combination
///   sum over t in [first[r], first[r + 1]) of weight[t] * wire source[t], plus constant[r] on the body,
/// and, unless the level is linear, its bootstrap with test polynomial lut[r], read at `outputs` places N / outputs
/// coefficients apart. Result o of row r goes to wire target[r * outputs + o]. No target is a source of the level.
struct GateLevel {
  std::vector<u32> first, source;
  std::vector<std::int32_t> weight;
  std::vector<u64> constant;
  std::vector<u32> lut, target;
  unsigned outputs = 1;     // a power of two, at most 8
  std::vector<u64> tables;  // [number of luts][N]; empty: the level is linear
  std::size_t degree = 0;   // N

  std::size_t rows() const { return constant.size(); }
  std::size_t luts() const { return degree ? tables.size() / degree : 0; }
  bool linear() const { return tables.empty(); }
  /// One more than the largest wire.
  std::size_t wires() const;
  /// Throws ShapeError unless sizes and indices fit.
  void check() const;
};

class PreparedBootstrap {
 public:
  explicit PreparedBootstrap(const BootstrapShape& shape) : shape_(shape) { shape_.check(); }
  virtual ~PreparedBootstrap() = default;
  const BootstrapShape& shape() const { return shape_; }

 private:
  BootstrapShape shape_;
};

class PreparedKeySwitch {
 public:
  explicit PreparedKeySwitch(const KeySwitchShape& shape) : shape_(shape) { shape_.check(); }
  virtual ~PreparedKeySwitch() = default;
  const KeySwitchShape& shape() const { return shape_; }

 private:
  KeySwitchShape shape_;
};

class PreparedLevel {
 public:
  explicit PreparedLevel(GateLevel level) : level_(std::move(level)) { level_.check(); }
  virtual ~PreparedLevel() = default;
  const GateLevel& level() const { return level_; }

 private:
  GateLevel level_;
};

class TfheKernels {
 public:
  virtual ~TfheKernels() = default;

  // Preparing constants (may allocate, upload and wait; never inside a computation). Keys are as the shapes say, in host
  // memory that may go when the call returns.
  virtual std::shared_ptr<const PreparedBootstrap> prepare(const BootstrapShape&, std::span<const u64> key) = 0;
  virtual std::shared_ptr<const PreparedKeySwitch> prepare(const KeySwitchShape&, std::span<const u32> key) = 0;
  virtual std::shared_ptr<const PreparedLevel> prepare(GateLevel level) = 0;

  // `wires`: 64-bit words, one batch axis of items (not reversed), a component for each wire, one limb, n = lwe_words(k * N).
  // `narrow`: 32-bit words, one batch axis of as many items, a component for each row, one limb, n = lwe_words(n).

  /// The linear combination of each row of each item, into the row's first target.
  void combine(Queue&, const PreparedLevel&, const View& wires);
  /// The row's first target, switched to the narrow key:
  ///   (0, .., 0, round(b / 2^32)) - sum over i, level of digit(a_i, level) * key[i][level]   modulo 2^32.
  void key_switch(Queue&, const PreparedKeySwitch&, const PreparedLevel&, const View& wires, const View& narrow);
  /// Modulus switch, blind rotation and sample extraction (Chillotti et al., ePrint 2018/421).
  /// Modulus switch to 2N: a'_i = round(2N a_i / 2^32), and b' = round(2N (b - floor(E / 2)) / 2^32), E the sum of the
  /// signed errors a_i - 2^32 a'_i / 2N: what half of the key's bits is expected to add is taken away (drift mitigation,
  /// ePrint 2024/1718). Blind rotation: acc = X^(-b') * (0, .., 0, table); then for each group
  ///   acc_c = sum over r, level of digit(acc_r, level) * (sum over values v of X^(sum of a'_i over the bits of v) key[g][v][r][level][c]).
  /// Result o: coefficient o * N / outputs of acc as an LWE ciphertext.
  void bootstrap(Queue&, const PreparedBootstrap&, const PreparedLevel&, const View& narrow, const View& wires);
  /// All of a level: combine, and for what is not linear key_switch and bootstrap, with `narrow` as scratch.
  void evaluate(Queue&, const PreparedKeySwitch&, const PreparedBootstrap&, const PreparedLevel&, const View& wires,
                const View& narrow);

  /// So many bootstraps at once keep the whole device busy; fewer take no less time.
  virtual std::size_t parallel_bootstraps(const BootstrapShape&) const = 0;

 protected:
  virtual void do_combine(Queue&, const PreparedLevel&, const View& wires) = 0;
  virtual void do_key_switch(Queue&, const PreparedKeySwitch&, const PreparedLevel&, const View& wires,
                             const View& narrow) = 0;
  virtual void do_bootstrap(Queue&, const PreparedBootstrap&, const PreparedLevel&, const View& narrow,
                            const View& wires) = 0;
  virtual void do_evaluate(Queue&, const PreparedKeySwitch&, const PreparedBootstrap&, const PreparedLevel&,
                           const View& wires, const View& narrow);
};

// The arithmetic of the contract, as every backend's scalar code does it.

/// Signed digit `level` (0: most significant) of `word` as Gadget says.
inline std::int64_t gadget_digit(u64 word, const Gadget& g, unsigned level) {
  const unsigned kept = g.log_base * g.levels;
  u64 t = kept < 64 ? (word + (u64{1} << (63 - kept))) >> (64 - kept) : word;
  const u64 base = u64{1} << g.log_base;
  std::int64_t digit = 0;
  for (unsigned l = g.levels; l-- > level;) {
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
