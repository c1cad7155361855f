// CKKS: approximate real and complex numbers, packed in slots (full RNS, hybrid key switching, exactly tracked scales;
// Cheon, Han, Kim, Kim, Song, SAC 2018; Han and Ki, ePrint 2019/688). Objects are cheap handles that share immutable data.
#pragma once

#include <complex>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heliograph/errors.h"
#include "heliograph/objects.h"

namespace heliograph::ckks {

/// The bootstrapping part of a parameter set (`bootstrap`).
struct Bootstrapping {
  std::size_t levels = 0;  // number of top levels that bootstrapping consumes: 10, or 12 with a cubic sine correction; 0:
                           // none
  double log_scale = 0;    // log2 of the scale of these levels
  std::size_t entry = 0;   // number of levels that the slots-to-coefficients transform consumes
};

/// The numbers that define a parameter set.
struct Spec {
  std::string name;                    // empty if unnamed
  int word_size = 64;                  // bits of the words of residues: 64 or 32
  std::size_t n = 0;                   // ring degree N
  std::vector<std::uint64_t> chain;    // all primes of ciphertexts
  std::vector<std::uint64_t> special;  // primes of P (key switching); at least one
  std::vector<std::size_t> digits;     // the gadget: number of chain primes in each digit
  /// Indices of each level's chain primes, ascending, from level 1. Empty: level l has the first l primes. Rescaling is
  /// rational if a level has primes that the next higher level lacks.
  std::vector<std::vector<std::uint16_t>> levels;
  double log_scale = 0;  // log2 of the scale of a fresh ciphertext
  Bootstrapping bootstrapping;
  /// Values per ciphertext; 0: all N/2. A power of two repeats through all N/2 slots, and rotations act modulo `slots`. For
  /// any other number the remaining slots are 0, and rotations act modulo N/2.
  std::size_t slots = 0;
  bool insecure = false;  // allows less than 128 bits of security
  bool repeat = true;     // false: values do not repeat if `slots` is a power of two; the remaining slots are 0
  /// Public bound on the values, assumed if encryption gets none; 0: derived from the room (Parameters::input_bound).
  double bound = 0;
};

struct Request {
  int depth = 1;       // sequential multiplications
  int precision = 30;  // bits after the binary point that each operation keeps; errors add up
  /// The lowest level holds values up to at least 2^integer_bits. nullopt: at least 10 bits, and more if it needs no
  /// larger N. To reach more, precisions below 22 with a room below 2^26 take one more prime; higher precisions with a
  /// room below 2^30 take larger key-switching keys.
  std::optional<int> integer_bits = {};
  std::size_t slots = 0;  // values per ciphertext; 0: any
  int word_size = 64;
  bool repeat = true;   // Spec::repeat
  double bound = 0;     // Spec::bound; the room includes it if integer_bits is nullopt
  std::string version;  // rules of version "0.2" or "0.3"; empty: "0.3"
};
/// Returns the smallest 128-bit set for a request, with the largest room up to 2^41 for its N, primes and digits. The rules
/// of version 0.2 use integer_bits alone as the room. Throws ParameterError if no set with N <= 2^17 fulfils the request.
Spec choose(const Request& request);
/// Returns a set with `levels` levels of `log_scale` bits, the lowest of `base_bits`. A gadget digit takes `special_count`
/// chain primes. w64: primes below 2^50, scales of 30 to 49.8 bits, one prime per level, one or two for the lowest. w32:
/// primes below 2^30; scales of 20 to 29.8 bits with one prime per level, or of 48 to 53 bits. The latter use rational
/// rescaling: primes of half a scale at the start of the chain differ between levels, and all other primes are as long as
/// possible.
Spec make_spec(std::size_t n, std::size_t levels, double log_scale, int base_bits, std::size_t special_count,
               int word_size = 64, std::size_t slots = 0, bool insecure = false);
/// Returns a set with bootstrapping that leaves `depth` levels of `log_scale` bits. Bootstrapping's own levels and the
/// lowest level have scales of `log_top` bits. N >= 2^11. Minimises the digits that security allows, then the special
/// primes. w32: levels of several primes below 2^30, and a sine of higher degree. `corrected`: two more levels, for a cubic
/// correction of the sine's deviation from a line.
Spec make_bootstrapping_spec(std::size_t n, std::size_t depth, double log_scale, double log_top, std::size_t entry = 3,
                             int word_size = 64, bool insecure = false, bool corrected = false);
/// Returns "n13-l4", "n14-l8", "n15-l20", "n16-l24", "n16-l28" or "n16-l41" (log2 N, and primes of the top level in w64),
/// each also with "/w32". Throws ParameterError, which lists these names, for any other.
Spec named_spec(const std::string& name, bool insecure = false);
std::vector<std::string> named_specs();

class Context;
class Parameters;
class Plaintext;
class Ciphertext;
class EvaluationKeys;
class PublicKey;
class SecretKey;
struct PlaintextData;
struct CiphertextData;
struct EvaluationKeysData;
struct PublicKeyData;
struct SecretKeyData;

/// Types of CKKS (objects.h).
struct Scheme {
  using Spec = ckks::Spec;
  using Context = ckks::Context;
  using Parameters = ckks::Parameters;
  using Ciphertext = ckks::Ciphertext;
  using CiphertextData = ckks::CiphertextData;
  using PublicKey = ckks::PublicKey;
  using PublicKeyData = ckks::PublicKeyData;
  using EvaluationKeys = ckks::EvaluationKeys;
  using EvaluationKeysData = ckks::EvaluationKeysData;
  using SecretKey = ckks::SecretKey;
  using SecretKeyData = ckks::SecretKeyData;
};

class Parameters : public RingParametersOf<Scheme> {
 public:
  using RingParametersOf::RingParametersOf;
  std::size_t top_level() const;                // level of fresh ciphertexts; each rescaling consumes one; the lowest is 1
  std::size_t bootstrapping_level() const;      // lowest level that bootstrap accepts; 0: the set has no bootstrapping
  std::size_t bootstrapping_key_bytes() const;  // size of evaluation keys for bootstrapping alone; 0: the set has none
  double scale(std::size_t level) const;        // the scale at which operations keep ciphertexts of a level
  std::size_t level_limbs(std::size_t level) const;
  std::size_t ciphertext_bytes(std::size_t degree = 1, std::size_t level = 0) const;  // level 0: the top level
  std::size_t period() const;                                                         // the modulus of rotation steps
  double room() const;         // largest value magnitude that fits the lowest level, noise excluded
  double input_bound() const;  // bound on values that encryption assumes if it gets none
  /// Describes the differences of two parameter sets in words.
  std::string difference(const Parameters& other) const;
};

/// An interval of values. If both ends are 0, no interval is given.
struct Interval {
  double low = 0, high = 0;

  Interval() = default;
  Interval(double low, double high) : low(low), high(high) {}
  Interval(double largest) : low(-largest), high(largest) {}  // NOLINT(google-explicit-constructor): a number is a bound
};

/// Bounds on the values of one ciphertext; infinite if unknown.
struct ValueBounds {
  Interval values;        // bounds on real parts; for complex values on magnitudes
  double peak = 0;        // largest magnitude over all slots, padding included
  double rms = 0;         // root mean square over all slots; bounds each coefficient
  double mean = 0;        // magnitude of the values' mean
  bool declared = false;  // whether the bounds rest on a declaration of the caller
};

/// Reason why decryption accepts a tensor. vouched: a trusted bound fits the modulus. assumed: a bound fits if files and
/// callers are truthful. places: known padding slots will reveal a wrapped value. open: only the size of the coefficients
/// can reveal it.
enum class Standing : unsigned char { vouched, assumed, places, open };

/// Numbers on the host: a dense [items, width] array.
struct Values {
  std::vector<std::complex<double>> data;
  Shape shape;            // shape of the ciphertext tensor
  std::size_t width = 0;  // values per ciphertext
  bool complex = false;   // whether the caller uses the imaginary parts
};

class Ciphertext : public CiphertextOf<Scheme> {
 public:
  using CiphertextOf::CiphertextOf;
  std::size_t degree() const;
  /// Returns the device address of the words, which tells whether an in-place operation allocated memory.
  std::uintptr_t address() const;
  std::size_t level() const;
  double scale() const;
  std::size_t slots() const;
  /// Returns whether the padding slots' contents are known. Sums over all slots then need no masking, which takes a level.
  bool tail_known() const;
  bool complex() const;
  bool fresh() const;  // an encryption before any operation; for loaded tensors, as their file claims
  /// Returns the correct bits after the binary point, 0 at least: a trusted bound from the noise model and the magnitude of
  /// the encrypted values. NaN if anything came from a file, evaluation and public keys included. Minus infinity if values
  /// of that magnitude may have exceeded their modulus.
  double precision() const;
  /// Returns an interval that holds all values if encryption bounds and files are truthful; infinite if unknown.
  Interval bounds() const;
  /// Returns the bounds of each ciphertext, or one entry for all. `vouched`: trusted bounds, which are secret; else assumed
  /// bounds.
  std::vector<ValueBounds> value_bounds(bool vouched) const;
  /// Returns the smaller of the trusted and the assumed bound on |value|; NaN if both are unknown.
  double known_bound() const;
  /// Returns the correct bits after the binary point by the assumed bounds of files and `within`; NaN if unknown.
  double assumed_precision() const;
  /// Returns whether a bound on the values was declared by a caller (`within`, a Chebyshev argument's interval).
  bool rests_on_declaration() const;
  /// Returns whether a declared bound has no guard yet and the caller did not refuse one.
  bool awaits_guard() const;
  /// Returns the bits by which the assumed bound exceeds the room of the values' level. Negative: it fits. NaN: unknown.
  double bits_beyond_room() const;
  /// Returns why decryption accepts the values.
  Standing standing() const;
  /// Returns whether a known bound exceeds the modulus of the values' level.
  bool may_outgrow() const;
};

class Plaintext : public ObjectOf<Scheme, PlaintextData> {
 public:
  using ObjectOf::ObjectOf;
  Shape shape() const;
  std::size_t level() const;
  double scale() const;
};
/// Encodes at a level (0: the top) and scale (0: the level's); slot s is the value at exp(i pi 5^s / N). Throws
/// PlaintextRangeError if a value times the scale is not finite or exceeds the level's modulus; ShapeError; ScaleError.
Plaintext encode(const Parameters& parameters, const Values& values, std::size_t level = 0, double scale = 0);
/// Returns the integer polynomial [items][N] that encode rounds to, as doubles; decode_polynomial inverts it. Tests of
/// precision use it.
std::vector<double> encode_polynomial(const Parameters& parameters, const Values& values, double scale);
Values decode_polynomial(const Parameters& parameters, const std::vector<double>& polynomial, const Shape& shape,
                         std::size_t width, double scale);

class EvaluationKeys : public RotationKeysOf<Scheme> {
 public:
  using RotationKeysOf::RotationKeysOf;
  /// Returns whether there is a conjugation key, for all levels or for some.
  bool has_conjugation() const;
  bool has_bootstrapping() const;
  /// Returns the steps of rotation keys that were made for a level and below, by level.
  std::map<std::size_t, std::vector<std::int64_t>> level_rotations() const;
};

class PublicKey : public OpenKeyOf<Scheme, PublicKeyData, PublicKey> {
 public:
  using OpenKeyOf::OpenKeyOf;
  Ciphertext encrypt(const Values& values, std::size_t level = 0, Interval bound = {}) const;
};

/// Rotation keys for ciphertexts of a level and below, and optionally a conjugation key. They have fewer primes than the
/// usual keys, so they are smaller and faster.
struct LevelRotations {
  std::size_t level = 0;
  std::vector<std::int64_t> rotations;
  bool conjugate = false;
};

/// Evidence that decryption requires, else RoomError. usual: padding slots with their known contents; if the contents are
/// unknown, a trusted or assumed bound that fits the modulus, or small coefficients. proof: a trusted bound that fits.
/// none: no evidence.
enum class Checked : unsigned char { none, usual, proof };

class SecretKey : public SecretKeyOf<Scheme> {
 public:
  using SecretKeyOf::SecretKeyOf;
  PublicKey public_key() const;
  /// `bootstrapping`: adds all keys that `bootstrap` needs, with relinearization and conjugation. `levels`: adds keys for
  /// levels; an operation takes the keys of the lowest level that suffices. Throws LevelError for an unknown level.
  EvaluationKeys evaluation_keys(bool relinearize, const std::vector<std::int64_t>& rotations, bool conjugate,
                                 bool bootstrapping = false, const std::vector<LevelRotations>& levels = {}) const;
  /// Encrypts at `level` (0: the top). The uniform component is stored as a 32-byte seed. `bound`: public interval of the
  /// values, stored in files and propagated by operations; not given: the parameters' bound. A value outside is a
  /// PlaintextRangeError.
  Ciphertext encrypt(const Values& values, std::size_t level = 0, Interval bound = {}) const;
  /// Throws WrongKeyError; MismatchError; RoomError if values may exceed their modulus, as `checked` requires.
  Values decrypt(const Ciphertext& ciphertext, Checked checked = Checked::usual) const;
  /// Returns the slots in which a guard shows an argument outside its interval, ascending. Values of a sum that wrapped may
  /// also show in other slots. Throws WrongKeyError; MismatchError.
  std::vector<std::size_t> outside_slots(const Ciphertext& ciphertext) const;
  /// Decrypts with the ranges, noise and padding of `like`, a tensor of this process, in place of the ciphertext's own.
  /// Throws MismatchError if the two differ in shape, slots, level, scale, degree or kind of values.
  Values decrypt_as(const Ciphertext& ciphertext, const Ciphertext& like, Checked checked = Checked::usual) const;
  /// Decrypts for publication. Adds a fresh Gaussian to the phase before decoding, `noise_bits` bits above the bound on the
  /// ciphertext's own noise (noise flooding against IND-CPA-D; Li, Micciancio, Schultz, Sorrell, ePrint 2022/816).
  /// `precision`: correct bits after the binary point that the caller knows, for a tensor from a file. NaN: the tensor's
  /// own; the lower of both counts. Throws NoiseError if no bound is known or no correct bit would remain; RoomError as
  /// decrypt.
  Values decrypt_for_publication(const Ciphertext& ciphertext, double noise_bits,
                                 double precision = std::numeric_limits<double>::quiet_NaN(),
                                 Checked checked = Checked::usual) const;
};

// Arithmetic. Shapes broadcast as in NumPy. Operands must have the same key (WrongKeyError) and set (MismatchError).
// Operands at different levels are first brought to the lower one and its scale (`lower`). At one level, scales must agree
// to one part in 2^30 (ScaleError).
Ciphertext add(const Ciphertext& a, const Ciphertext& b);
Ciphertext subtract(const Ciphertext& a, const Ciphertext& b);
Ciphertext negate(const Ciphertext& a);
Ciphertext add(const Ciphertext& a, const Plaintext& b);
Ciphertext subtract(const Ciphertext& a, const Plaintext& b);
/// Adds real or complex numbers, one for each ciphertext (broadcast), without encoding. `values.width` is 1.
Ciphertext add_constants(const Ciphertext& a, const Values& values);

// In place: a = a + b and a = a - b in the memory of `a`. If other handles, views or a recording share that memory, or if
// the level changes, the result takes new memory. The metadata are those that `add` gives. b must broadcast to a's shape
// and slots (ShapeError) and must not be complex if `a` is real (DtypeError). After an exception `a` is unchanged.
void add_into(Ciphertext& a, const Ciphertext& b);
void subtract_into(Ciphertext& a, const Ciphertext& b);
void add_into(Ciphertext& a, const Plaintext& b);
void subtract_into(Ciphertext& a, const Plaintext& b);
void add_constants_into(Ciphertext& a, const Values& values);

/// Multiplies without relinearization and rescaling; degrees and log-scales add up. LevelError if the result's scale exceeds
/// the modulus.
Ciphertext multiply(const Ciphertext& a, const Ciphertext& b);
Ciphertext multiply(const Ciphertext& a, const Plaintext& b);
/// Multiplies by real numbers, one for each ciphertext (broadcast), encoded as integers at `scale`. If `scale` is 0,
/// takes the divisor of the next rescaling, so that the rescaled result has its level's scale.
Ciphertext multiply_constants(const Ciphertext& a, const Values& values, double scale = 0);
/// Multiplies by the imaginary unit, exactly.
Ciphertext multiply_i(const Ciphertext& a);
Ciphertext relinearize(const Ciphertext& a, const EvaluationKeys& keys);
/// Divides by the ratio of the moduli and drops one level. Throws LevelError at level 1; ScaleError if the resulting scale
/// would be below both the rounding error and the level's scale, because nothing was multiplied.
Ciphertext rescale(const Ciphertext& a);
/// Relinearizes and rescales with one rounding. The bits differ from those of two separate operations.
Ciphertext relinearize_rescale(const Ciphertext& a, const EvaluationKeys& keys);
/// Multiplies, then applies relinearize_rescale: Python's operator *.
Ciphertext multiply_rescale(const Ciphertext& a, const Ciphertext& b, const EvaluationKeys& keys);
/// Brings a tensor to a lower level and that level's scale.
Ciphertext lower(const Ciphertext& a, std::size_t level);

/// Rotates slots left by each of `steps` from one decomposition; the results are stacked on a new first axis. Unknown
/// contents of padding slots (tail_known) are first masked, which takes a level: LevelError at the lowest.
Ciphertext rotate(const Ciphertext& a, const std::vector<std::int64_t>& steps, const EvaluationKeys& keys);
Ciphertext conjugate(const Ciphertext& a, const EvaluationKeys& keys);
/// Returns twice the real and twice the imaginary parts of complex values, as real tensors on a new first axis of two.
Ciphertext parts_doubled(const Ciphertext& a, const EvaluationKeys& keys);
/// Sums `count` (a power of two) neighbouring slots, cyclically: slot i gets the sum of slots i .. i + count - 1. If `count`
/// is the whole period, every slot gets the sum of the ciphertext's values, without the padding slots. Unknown contents of
/// padding slots (tail_known) are first masked, which takes a level: LevelError at the lowest.
Ciphertext sum_slots(const Ciphertext& a, std::size_t count, const EvaluationKeys& keys);
/// Sums a * b over `axis`, then over `count` slots (1: none), with one relinearization and one rescaling for all products.
Ciphertext inner_product(const Ciphertext& a, const Ciphertext& b, std::size_t axis, std::size_t count,
                         const EvaluationKeys& keys);
/// Same as inner_product of two tensors, but b is a plaintext of the tensor's shape.
Ciphertext inner_product(const Ciphertext& a, const Plaintext& b, std::size_t axis, std::size_t count,
                         const EvaluationKeys& keys);
Ciphertext sum(const Ciphertext& a, std::size_t axis);
/// Multiplies weights [rows, columns] (row-major) by the first axis of `columns` ciphertexts, as one modular matrix product.
/// `scale`: scale of the weights, as in multiply_constants. Does not rescale. Throws ShapeError, LevelError, ScaleError,
/// PlaintextRangeError.
Ciphertext matmul(const std::vector<double>& weights, std::size_t rows, std::size_t columns, const Ciphertext& a,
                  double scale = 0);

/// A square matrix on the first `size` slots (a power of two; vectors repeat with that period), encoded for one level. The
/// product is evaluated by diagonals with baby steps and giant steps (Halevi, Shoup, ePrint 2018/244), whose sums stay
/// modulo Q P (Bossuat et al., ePrint 2020/1203).
struct LinearTransformData;
/// Form of a matrix's plaintexts at rest. transforms: as operations need them. coefficients: about a tenth of the memory;
/// each use computes transforms, and results have the same bits. automatic: transforms of at most 256 MiB, and larger
/// ones that leave half of the device's memory free.
enum class Storage : unsigned char { automatic, transforms, coefficients };
/// Nonzero diagonals: diagonal k holds the entries (i, i + k modulo the size) at index i.
using Diagonals = std::map<std::size_t, std::vector<std::complex<double>>>;
/// A diagonal in the caller's memory: `count` real numbers, or `count` pairs of real and imaginary parts. The entries after
/// them are 0, or with `repeats` the same numbers again; then `count` is a power of two.
struct DiagonalView {
  const double* numbers = nullptr;
  std::size_t count = 0;
  bool complex = false, repeats = false;

  DiagonalView() = default;
  DiagonalView(const double* numbers, std::size_t count, bool complex, bool repeats = false)
      : numbers(numbers), count(count), complex(complex), repeats(repeats) {}
  explicit DiagonalView(const std::vector<std::complex<double>>& values)
      : DiagonalView(reinterpret_cast<const double*>(values.data()), values.size(), true) {}  // layout: [complex.numbers]
  std::complex<double> operator[](std::size_t i) const {
    if (repeats)
      i &= count - 1;
    else if (i >= count)
      return 0;
    return complex ? std::complex<double>(numbers[2 * i], numbers[2 * i + 1]) : std::complex<double>(numbers[i]);
  }
};
using DiagonalViews = std::map<std::size_t, DiagonalView>;
class LinearTransform {
 public:
  /// matrix [size][size], row-major. `baby`: diagonals per giant step; 0: the cheapest choice.
  LinearTransform(const Parameters& parameters, const std::vector<std::complex<double>>& matrix, std::size_t size,
                  std::size_t level = 0, std::size_t baby = 0);
  /// Encodes a matrix that is given by its diagonals. `width`: values per result; 0: as in the operand.
  LinearTransform(const Parameters& parameters, const Diagonals& diagonals, std::size_t size, std::size_t level = 0,
                  std::size_t baby = 0, std::size_t width = 0);
  /// Same, without a copy of the diagonals.
  LinearTransform(const Parameters& parameters, const DiagonalViews& diagonals, std::size_t size, std::size_t level = 0,
                  std::size_t baby = 0, std::size_t width = 0, Storage storage = Storage::automatic);
  /// Returns the rotations that evaluation keys must have.
  std::vector<std::int64_t> rotations() const;
  std::size_t level() const;
  /// Returns the bytes of the plaintexts at rest.
  std::size_t bytes() const;
  Parameters parameters() const;
  const LinearTransformData& data() const { return *data_; }

 private:
  Handle<LinearTransformData> data_;
};
/// Applies the transform, with one level and one rounding. Keeps all keys of its rotations on the device meanwhile.
Ciphertext apply(const LinearTransform& transform, const Ciphertext& a, const EvaluationKeys& keys);

/// A matrix of blocks [outputs][inputs], each a square matrix on the slots, encoded for one level: y_o = sum of W_oi x_i.
/// The baby steps of an input serve all outputs. The sums of all inputs stay modulo Q P until one division.
struct BlockTransformData;
class BlockTransform {
 public:
  /// `blocks`: diagonals of block (o, i) at o * inputs + i; none: zero. The other arguments are those of LinearTransform.
  BlockTransform(const Parameters& parameters, const std::vector<DiagonalViews>& blocks, std::size_t inputs,
                 std::size_t size, std::size_t level = 0, std::size_t baby = 0, std::size_t width = 0,
                 Storage storage = Storage::automatic);
  /// Returns the rotations that evaluation keys must have.
  std::vector<std::int64_t> rotations() const;
  std::size_t level() const;
  std::size_t inputs() const;
  std::size_t outputs() const;
  /// Returns the bytes of the plaintexts at rest.
  std::size_t bytes() const;
  Parameters parameters() const;
  const BlockTransformData& data() const { return *data_; }

 private:
  Handle<BlockTransformData> data_;
};
/// Applies the blocks to a tensor of shape (inputs, ...); the result has shape (outputs, ...). Takes one level. Throws
/// ShapeError, LevelError, MismatchError, MissingKeyError.
Ciphertext apply(const BlockTransform& transform, const Ciphertext& a, const EvaluationKeys& keys);

/// Returns the same values at the top level, from level `parameters().bootstrapping_level()` or above. Magnitudes must be
/// at most `bound`; a smaller bound gives more precision (docs/ckks.md). bound 0: the known bound, at most 2^20. Pairs of
/// real items share one bootstrap. `iterations`: each iteration after the first bootstraps the remaining error (Bae,
/// Cheon, Cho, Kim, Kim, ePrint 2022/1167). Throws LevelError below that level; ScaleError for products that were not
/// rescaled; PlaintextRangeError if the known bound exceeds `bound`; MissingKeyError; ParameterError for sets without
/// bootstrapping. `level`: level of the result, from the set's lowest level for a bootstrap to the top (0); a lower level
/// is faster. LevelError for others. `period`: the caller declares that the values repeat with this power of two of slots;
/// 0: that of the set. A smaller period is faster with the same keys. With a key for the rotation by a period of at most
/// half of the set's, complex values and pairs take one sine. Other values give wrong results, so the precision is no longer
/// trusted. ParameterError for other periods, ShapeError for values with unused slots behind them.
Ciphertext bootstrap(const Ciphertext& x, const EvaluationKeys& keys, double bound = 0, int iterations = 1,
                     std::size_t level = 0, std::size_t period = 0);
/// Returns a tensor under another key of equal parameters with the metadata of x but not its words, for dry runs on the null
/// device. Throws MismatchError for other parameters.
Ciphertext stand_in(const Ciphertext& x, const SecretKey& key);
/// Declares that the values are in an interval. If the tracked bounds are wider, the precision and range of the result are
/// no longer trusted. Throws ParameterError unless both bounds are finite and in ascending order.
Ciphertext within(const Ciphertext& x, Interval interval);

/// Bounds on the error of every slot, as numbers; NaN if unknown.
struct ErrorBounds {
  double trusted = 0;  // does not depend on files
  double assumed = 0;  // correct if all files are truthful
};
ErrorBounds error_bounds(const Ciphertext& x);
/// Returns x with other error bounds. For functions that approximate, and for those that prove a smaller bound than the sum
/// of their operations' bounds. Throws ParameterError for a negative bound.
Ciphertext with_error(const Ciphertext& x, const ErrorBounds& error);
/// Tightens the bounds on the values to [low, high], which the caller has proved; compare `within`. Throws ParameterError
/// unless both are finite and in ascending order.
Ciphertext inside(const Ciphertext& x, double low, double high);
/// Tightens the bounds of `results`, which hold `factor` times the variance of x, for all items or one per item. The
/// variance is at most the mean square of x, and at most a quarter of the squared length of its interval.
/// with_covariances also bounds covariances of shape (items, items), by the Cauchy-Schwarz inequality.
Ciphertext with_variances(const Ciphertext& results, const Ciphertext& x, double factor);
Ciphertext with_covariances(const Ciphertext& results, const Ciphertext& x, double factor);

/// Returns table[m] for each real value m, a noisy integer modulo the table's size p: functional bootstrapping. The
/// result is at the top level less the depth of a polynomial of degree p - 1; no depth if p is 2 and the table real.
/// Input noise of a fraction e of a step, up to about a quarter, becomes at most 3.3 e^2 times the largest difference of
/// two entries. For any noise the result is a weighted mean of entries. Takes about as long as `bootstrap`; pairs of real
/// items share one bootstrap. Throws ParameterError unless the table has 2 to 64 entries and the set has bootstrapping;
/// PlaintextRangeError if an entry is not finite or exceeds the result's level; DtypeError if x is complex; LevelError if
/// x is too low or the set has too few levels; ScaleError; MissingKeyError.
Ciphertext functional_bootstrap(const Ciphertext& x, const std::vector<std::complex<double>>& table,
                                const EvaluationKeys& keys);

enum class Basis : unsigned char { monomial, chebyshev };
/// Evaluates p(x) with real coefficients in ceil(log2(degree + 1)) levels (baby-step giant-step; Paterson and Stockmeyer,
/// depth optimal as in Bossuat et al., ePrint 2020/1203). Chebyshev: x in [-1, 1], coefficients of T_0, T_1, .... If only a
/// declaration (`within`) shows that real values are in [-1, 1], the result has a guard: decryption throws
/// OutOfIntervalError with the name `guard` if a value was outside. An empty name makes no guard.
Ciphertext evaluate_polynomial(const Ciphertext& x, const std::vector<double>& coefficients, Basis basis,
                               const EvaluationKeys& keys, const std::string& guard = "a Chebyshev series");
/// Properties of a guard. Decryption certainly notices an argument outside by `excess` times half the interval's length.
struct GuardSummary {
  std::vector<std::string> operations;
  double excess = 0;
  std::size_t bytes = 0;
};
std::vector<GuardSummary> guards_of(const Ciphertext& x);
/// Returns x without its guards: arguments outside their intervals are no longer noticed.
Ciphertext drop_guards(const Ciphertext& x);
/// Returns x with the guards of another tensor of the same key, too. Throws MismatchError.
Ciphertext with_guards(const Ciphertext& x, const Ciphertext& of);
/// Returns x with the same declared bounds, for which later polynomials make no guard.
Ciphertext skip_guards(const Ciphertext& x);
/// Returns x with the same bounds, of which later polynomials make strong guards. A strong guard has a higher power than the
/// series, if a single argument 5% outside its interval would otherwise go unnoticed.
Ciphertext strong_guards(const Ciphertext& x);
/// Returns x as a reader of its file has it: without trusted bounds.
Ciphertext without_trust(const Ciphertext& x);
/// Returns the levels that a polynomial of this degree takes.
std::size_t polynomial_depth(std::size_t degree);

// Shape operations return views and compute nothing.
Ciphertext reshape(const Ciphertext& a, const Shape& shape);
Ciphertext transpose(const Ciphertext& a, const std::vector<std::size_t>& order);
Ciphertext slice(const Ciphertext& a, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count);
Ciphertext index(const Ciphertext& a, std::size_t axis, std::size_t position);
Ciphertext broadcast_to(const Ciphertext& a, const Shape& shape);
Ciphertext concatenate(const std::vector<Ciphertext>& parts, std::size_t axis);

}  // namespace heliograph::ckks
