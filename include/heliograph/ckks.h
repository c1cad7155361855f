// CKKS: approximate real and complex numbers, many to a ciphertext (full RNS, hybrid key switching, exactly tracked scales;
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

/// What a set has for bootstrapping (`bootstrap`).
struct Bootstrapping {
  std::size_t levels =
      0;  // above those of ciphertexts, for bootstrapping alone: 10, or 12 where a cube corrects its sine; 0: none
  double log_scale = 0;   // log2 of the scale there
  std::size_t entry = 0;  // levels that turning values into coefficients takes
};

/// Everything that defines a parameter set. Numbers only: a set is a value.
struct Spec {
  std::string name;                    // empty where nobody named it
  std::string edition = "w64";         // "w64" or "w32": the words residues are kept in
  std::size_t n = 0;                   // ring degree N
  std::vector<std::uint64_t> chain;    // all primes of ciphertexts
  std::vector<std::uint64_t> special;  // primes of P (key switching); at least one
  std::vector<std::size_t> digits;     // the gadget: chain primes in each digit
  /// Chain primes of each level, ascending, level 1 first. Empty: level l has the first l. Where a level has primes that
  /// the next does not, rescaling is rational.
  std::vector<std::vector<std::uint16_t>> levels;
  double log_scale = 0;  // log2 of the scale of a fresh ciphertext
  Bootstrapping bootstrapping;
  /// Values a user packs in one ciphertext; 0: all N/2. A power of two: they repeat through all N/2 slots, so that rotations
  /// turn these alone; else the slots beyond are 0 and rotations turn all N/2.
  std::size_t slots = 0;
  bool insecure = false;  // the user said so
  bool repeat = true;     // false: a power of two of slots does not repeat either, the slots beyond are 0
  /// Public bound on the values that encryption assumes if the call says none; 0: a rule of the room (Parameters::input_bound).
  double bound = 0;
};

struct Request {
  int depth = 1;       // multiplications in sequence
  int precision = 30;  // bits after the binary point that every operation keeps; errors add up
  /// The lowest level holds values up to 2^integer_bits at least. Not said: 10 at least, and one prime more where that costs no
  /// larger N, precision is below 22 and the room would be below 2^26; or other digits, from a precision of 22 on and below 2^30.
  std::optional<int> integer_bits = {};
  std::size_t slots = 0;  // values to pack; 0: no wish
  std::string edition = "w64";
  bool repeat = true;   // Spec::repeat
  double bound = 0;     // Spec::bound; the room holds it if integer_bits is not said
  std::string version;  // whose numbers: "0.2", or "0.3" as empty
};
/// The smallest 128-bit set for a request, with the most room up to 2^41 that the same N, primes and digits hold.
/// Version 0.2 took the room of integer_bits alone. Throws ParameterError where none of N <= 2^17 does it.
Spec choose(const Request& request);
/// `levels` levels of `log_scale` bits each, the lowest of `base_bits`, and `special_count` special primes; a digit takes as
/// many chain primes. w64: primes below 2^50, scales of 30 to 49.8 bits, one prime a level and one or two for the lowest.
/// w32: primes below 2^30; scales of 20 to 29.8 bits, one prime a level, or of 48 to 53 bits: some primes of half a scale
/// lead the chain and come and go between levels (rational rescaling), all others are as long as can be.
Spec make_spec(std::size_t n, std::size_t levels, double log_scale, int base_bits, std::size_t special_count,
               const std::string& edition = "w64", std::size_t slots = 0, bool insecure = false);
/// A set with bootstrapping: `depth` levels of `log_scale` bits are left after it, its own have scales of `log_top` bits, and the
/// lowest has as many: N >= 2^11. As few digits as its security allows, then as few special primes. w32: levels of several primes
/// below 2^30, and a longer sine. `corrected`: two levels more, which take away what the sine differs from a line by.
Spec make_bootstrapping_spec(std::size_t n, std::size_t depth, double log_scale, double log_top, std::size_t entry = 3,
                             const std::string& edition = "w64", bool insecure = false, bool corrected = false);
/// "n13-l4", "n14-l8", "n15-l20", "n16-l24", "n16-l28": log2 N and the primes of w64's top level; each also with "/w32".
/// Throws ParameterError listing them.
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

/// CKKS (objects.h).
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
  std::size_t top_level() const;                // of fresh ciphertexts; each rescaling takes one; the lowest is 1
  std::size_t bootstrapping_level() const;      // that bootstrapping starts at; 0: the set has none
  std::size_t bootstrapping_key_bytes() const;  // of evaluation keys for bootstrapping and nothing else; 0: the set has none
  double scale(std::size_t level) const;        // what operations keep ciphertexts of a level at
  std::size_t level_limbs(std::size_t level) const;
  std::size_t ciphertext_bytes(std::size_t degree = 1, std::size_t level = 0) const;  // level 0: the top
  std::size_t period() const;                                                         // slots that rotations turn
  double room() const;         // the largest values that fit the lowest level, before noise
  double input_bound() const;  // the bound on values that encryption assumes if the call says none
  /// What tells two sets apart, in words.
  std::string difference(const Parameters& other) const;
};

/// Bounds on values. Both 0: none was said.
struct Interval {
  double low = 0, high = 0;

  Interval() = default;
  Interval(double low, double high) : low(low), high(high) {}
  Interval(double largest) : low(-largest), high(largest) {}  // NOLINT(google-explicit-constructor): a number is a bound
};

/// Bounds on the values of one ciphertext; infinite: unknown.
struct ValueBounds {
  Interval values;  // real parts; of complex values: magnitudes
  double peak = 0;  // of the magnitudes at all places, those behind the values included
  double rms = 0;   // of the root mean square over all places: of each coefficient
  double mean = 0;  // of the magnitude of the values' mean
  bool word = false;
};

/// Why a tensor's values will be handed out: this process vouches that they fit their modulus; they do if files and users are right;
/// known places behind them show whether they do; or their coefficients have to show it.
enum class Standing : unsigned char { vouched, assumed, places, open };

/// Host numbers: a dense [items, width] array.
struct Values {
  std::vector<std::complex<double>> data;
  Shape shape;            // of the ciphertext tensor
  std::size_t width = 0;  // values in each ciphertext
  bool complex = false;   // whether imaginary parts matter to the user
};

class Ciphertext : public CiphertextOf<Scheme> {
 public:
  using CiphertextOf::CiphertextOf;
  std::size_t degree() const;
  /// Where its words lie, as its device counts: whether an operation in place took new memory.
  std::uintptr_t address() const;
  std::size_t level() const;
  double scale() const;
  std::size_t slots() const;
  /// Whether sums over all slots know what stands behind the values, so that nothing has to be hidden, which takes a level.
  bool tail_known() const;
  bool complex() const;
  bool fresh() const;  // an encryption that nothing was computed on, or said to be one by the file it came from
  /// Bits after the binary point that are right: a bound from the noise model and the magnitude of what was encrypted here,
  /// 0 at least. It promises nothing where something came from a file, evaluation and public keys included (NaN), nor where
  /// values of that magnitude may have outgrown their modulus on the way (minus infinity).
  double precision() const;
  /// All values lie between these, if what was said at encryption and in files is so; infinite: unknown.
  Interval bounds() const;
  /// The bounds of each ciphertext, or of all in one entry. `vouched`: those of this process alone, which are secret.
  std::vector<ValueBounds> value_bounds(bool vouched) const;
  /// The smaller of the vouched and the assumed bound on |value|; NaN if both are unknown.
  double known_bound() const;
  /// Bits after the binary point that are right by the assumed bounds, those of files and of `within`; NaN: unknown.
  double assumed_precision() const;
  /// Whether a bound on the values is somebody's word (`within`, a Chebyshev argument's interval).
  bool rests_on_word() const;
  /// Bits by which the assumed bound exceeds the room of the values' level; negative: it fits. NaN: unknown.
  double bits_beyond_room() const;
  /// Why decryption will hand out the values.
  Standing standing() const;
  /// Whether a known bound says that values may have outgrown the modulus of their level.
  bool may_outgrow() const;
};

class Plaintext : public ObjectOf<Scheme, PlaintextData> {
 public:
  using ObjectOf::ObjectOf;
  Shape shape() const;
  std::size_t level() const;
  double scale() const;
};
/// At a level (0: the top) with a scale (0: that level's); slot s is the value at exp(i pi 5^s / N). Throws
/// PlaintextRangeError where a value, times the scale, does not fit the level's modulus or is not finite, ShapeError,
/// ScaleError.
Plaintext encode(const Parameters& parameters, const Values& values, std::size_t level = 0, double scale = 0);
/// The integer polynomial [items][N] that encode rounds to, as doubles, and its inverse: for tests of precision.
std::vector<double> encode_polynomial(const Parameters& parameters, const Values& values, double scale);
Values decode_polynomial(const Parameters& parameters, const std::vector<double>& polynomial, const Shape& shape,
                         std::size_t width, double scale);

class EvaluationKeys : public OpenKeyOf<Scheme, EvaluationKeysData, EvaluationKeys> {
 public:
  using OpenKeyOf::OpenKeyOf;
  bool has_relinearization() const;
  bool has_conjugation() const;
  bool has_bootstrapping() const;
  std::vector<std::int64_t> rotations() const;  // steps to the left, ascending
  /// The same keys, by which a rotation without a key is composed of the fewest rotations with one, `most` at most: so many key
  /// switches. With 1, as keys are made and read, it is a MissingKeyError. ParameterError for 0.
  EvaluationKeys composing(std::size_t most) const;
  std::size_t most_switches() const;
  /// The fewest steps of keys that make a rotation, in the order in which they are applied, without a limit; nullopt: none make it. And
  /// how many they are.
  std::optional<std::vector<std::int64_t>> composition(std::int64_t steps) const;
  std::optional<std::size_t> switches(std::int64_t steps) const;
  /// A divisor and a number: these keys compose the rotations by multiples of the divisor, each of so many key switches at most.
  std::pair<std::size_t, std::size_t> reach() const;
  /// The step whose key, added to these, makes all of some rotations composed of the fewest key switches.
  std::int64_t cheapest(const std::vector<std::int64_t>& steps) const;
  std::vector<std::string> of_programs() const;  // names of keys of programs of instructions (cinnamon.h)
  std::size_t bytes() const;
};

class PublicKey : public OpenKeyOf<Scheme, PublicKeyData, PublicKey> {
 public:
  using OpenKeyOf::OpenKeyOf;
  Ciphertext encrypt(const Values& values, std::size_t level = 0, const Progress& progress = {}, Interval bound = {}) const;
};

/// The evidence that decryption demands before it returns values; else RoomError. usual: right known places; if there are none, a
/// vouched or assumed bound by which the values fit their modulus, or small coefficients. proof: a vouched bound. none: nothing.
enum class Checked : unsigned char { none, usual, proof };

class SecretKey : public SecretKeyOf<Scheme> {
 public:
  using SecretKeyOf::SecretKeyOf;
  PublicKey public_key() const;
  /// `bootstrapping`: all that `bootstrap` needs, relinearization and conjugation among it.
  EvaluationKeys evaluation_keys(bool relinearize, const std::vector<std::int64_t>& rotations, bool conjugate,
                                 const Progress& progress = {}, bool bootstrapping = false) const;
  /// Seeded: the uniform half travels as 32 bytes. Level 0: the top. `bound`: all values lie there, PlaintextRangeError where one
  /// does not. It is public and travels in files, grown as operations may let values grow. None: the parameters' own.
  Ciphertext encrypt(const Values& values, std::size_t level = 0, const Progress& progress = {}, Interval bound = {}) const;
  /// Throws WrongKeyError, MismatchError; RoomError where values have outgrown their modulus, as far as `checked` asks.
  Values decrypt(const Ciphertext& ciphertext, const Progress& progress = {}, Checked checked = Checked::usual) const;
  /// Decrypts with the ranges, noise and tail of `like`, a tensor of this process, in place of the ciphertext's own.
  /// MismatchError if both differ in shape, slots, level, scale, degree or kind of values.
  Values decrypt_as(const Ciphertext& ciphertext, const Ciphertext& like, const Progress& progress = {},
                    Checked checked = Checked::usual) const;
  /// Decryption for publication: a fresh Gaussian of `noise_bits` bits above the bound on the ciphertext's own noise is added
  /// to the phase before decoding (noise flooding against IND-CPA-D; Li, Micciancio, Schultz, Sorrell, ePrint 2022/816).
  /// `precision`: bits after the binary point that the caller knows to be right, for a tensor that came from a file, whatever
  /// it says; NaN: the tensor's; the lower of both counts. NoiseError where no bound is known, or nothing would be left of
  /// the values; RoomError as decrypt.
  Values decrypt_for_publication(const Ciphertext& ciphertext, double noise_bits,
                                 double precision = std::numeric_limits<double>::quiet_NaN(), const Progress& progress = {},
                                 Checked checked = Checked::usual) const;
};

// Arithmetic. Shapes broadcast as in NumPy. Operands of one key and one set, else WrongKeyError or MismatchError; operands of
// different levels meet at the lower one, at its scale (`lower`). Operands at one level whose scales differ by more than one
// part in 2^30: ScaleError.
Ciphertext add(const Ciphertext& a, const Ciphertext& b);
Ciphertext subtract(const Ciphertext& a, const Ciphertext& b);
Ciphertext negate(const Ciphertext& a);
Ciphertext add(const Ciphertext& a, const Plaintext& b);
Ciphertext subtract(const Ciphertext& a, const Plaintext& b);
/// Numbers, one for each ciphertext (broadcast), without encoding. `values.width` is 1.
Ciphertext add_constants(const Ciphertext& a, const Values& values);

// a = a + b and a = a - b in a's own memory, where nothing else shows that (no copy of the handle, no slice or other view of it, no
// recording) and the level stays; else in new memory: what was made of `a` before keeps its values. Figures as of add. b broadcasts
// into a's shape and slots, ShapeError; complex into complex, DtypeError. What throws leaves `a` as it was.
void add_into(Ciphertext& a, const Ciphertext& b);
void subtract_into(Ciphertext& a, const Ciphertext& b);
void add_into(Ciphertext& a, const Plaintext& b);
void subtract_into(Ciphertext& a, const Plaintext& b);
void add_constants_into(Ciphertext& a, const Values& values);

/// The product alone: degrees and scales add up. LevelError where the scale of the result has no room.
Ciphertext multiply(const Ciphertext& a, const Ciphertext& b);
Ciphertext multiply(const Ciphertext& a, const Plaintext& b);
/// Real numbers, one for each ciphertext (broadcast), as integers at `scale` (0: the ratio that rescaling divides by, so that a
/// rescaled result is at its level's scale).
Ciphertext multiply_constants(const Ciphertext& a, const Values& values, double scale = 0);
/// Times the imaginary unit, exactly.
Ciphertext multiply_i(const Ciphertext& a);
Ciphertext relinearize(const Ciphertext& a, const EvaluationKeys& keys, const Progress& progress = {});
/// Down one level, divided by the ratio of the moduli. LevelError at level 1; ScaleError where the scale would be below the
/// rounding error and the level's own: nothing was multiplied.
Ciphertext rescale(const Ciphertext& a, const Progress& progress = {});
/// relinearize and rescale in one rounding: an operation of its own, with bits of its own.
Ciphertext relinearize_rescale(const Ciphertext& a, const EvaluationKeys& keys, const Progress& progress = {});
/// multiply, then relinearize_rescale: what the operator * does.
Ciphertext multiply_rescale(const Ciphertext& a, const Ciphertext& b, const EvaluationKeys& keys,
                            const Progress& progress = {});
/// At a lower level and that level's scale.
Ciphertext lower(const Ciphertext& a, std::size_t level);

/// Slots turned left by each of `steps`, one result for each, stacked on a new first axis: decomposed once. What is unknown behind
/// the values (tail_known) is hidden first, which takes a level: LevelError at the lowest.
Ciphertext rotate(const Ciphertext& a, const std::vector<std::int64_t>& steps, const EvaluationKeys& keys,
                  const Progress& progress = {});
Ciphertext conjugate(const Ciphertext& a, const EvaluationKeys& keys, const Progress& progress = {});
/// Sums over `count` (a power of two) neighbouring slots, cyclically: slot i gets the sum of slots i .. i + count - 1. Over all
/// places (the period) it is the sum of the ciphertext's values, in every slot: what stands behind the values does not count.
/// Where nobody knows it (tail_known), hiding it takes a level: LevelError at the lowest.
Ciphertext sum_slots(const Ciphertext& a, std::size_t count, const EvaluationKeys& keys, const Progress& progress = {});
/// sum over `axis` of a * b, then over `count` slots (1: none): one relinearization and one rescaling for all products.
Ciphertext inner_product(const Ciphertext& a, const Ciphertext& b, std::size_t axis, std::size_t count,
                         const EvaluationKeys& keys, const Progress& progress = {});
/// The same with a plaintext of the tensor's shape.
Ciphertext inner_product(const Ciphertext& a, const Plaintext& b, std::size_t axis, std::size_t count,
                         const EvaluationKeys& keys, const Progress& progress = {});
Ciphertext sum(const Ciphertext& a, std::size_t axis);
/// weights [rows, columns], row by row, times the first axis, which has `columns` ciphertexts: one modular matrix product. `scale`:
/// of the weights, as of multiply_constants; it is not rescaled. Throws ShapeError, LevelError, ScaleError, PlaintextRangeError.
Ciphertext matmul(const std::vector<double>& weights, std::size_t rows, std::size_t columns, const Ciphertext& a,
                  double scale = 0, const Progress& progress = {});

/// A square matrix on the first `size` slots (a power of two; vectors repeat with that period), as its diagonals, by baby steps
/// and giant steps (Halevi, Shoup, ePrint 2018/244) whose sums stay modulo Q P (Bossuat et al., ePrint 2020/1203). Encoded once
/// for a level.
struct LinearTransformData;
/// Diagonal k holds the entries (i, i + k modulo the size) at place i; what is not there is 0.
using Diagonals = std::map<std::size_t, std::vector<std::complex<double>>>;
class LinearTransform {
 public:
  /// matrix [size][size], row by row. `baby`: diagonals to a giant step; 0: the choice that takes least.
  LinearTransform(const Parameters& parameters, const std::vector<std::complex<double>>& matrix, std::size_t size,
                  std::size_t level = 0, std::size_t baby = 0);
  /// The same from its diagonals. `width`: values of a result; 0: as many as the operand has.
  LinearTransform(const Parameters& parameters, const Diagonals& diagonals, std::size_t size, std::size_t level = 0,
                  std::size_t baby = 0, std::size_t width = 0);
  /// Rotations that evaluation keys must hold.
  std::vector<std::int64_t> rotations() const;
  std::size_t level() const;
  Parameters parameters() const;
  const LinearTransformData& data() const { return *data_; }

 private:
  Handle<LinearTransformData> data_;
};
/// One level, and one rounding. All keys of its rotations are on the device meanwhile.
Ciphertext apply(const LinearTransform& transform, const Ciphertext& a, const EvaluationKeys& keys,
                 const Progress& progress = {});

/// The same values at the top level again, from any level of `parameters().bootstrapping_level()` or above: of magnitudes of at most
/// `bound`, the smaller the more precise (docs/ckks.md). Real items are done in pairs. `iterations`: each bootstraps what the one
/// before left out, down to the rounding at the scale (Bae, Cheon, Cho, Kim, Kim, ePrint 2022/1167). Throws LevelError below that
/// level, ScaleError for products that were not rescaled, PlaintextRangeError if the known bound of the values is larger than `bound`
/// (0: takes the known bound, at most 2^20), MissingKeyError, ParameterError for sets without bootstrapping.
Ciphertext bootstrap(const Ciphertext& x, const EvaluationKeys& keys, double bound = 0, const Progress& progress = {},
                     int iterations = 1);
/// A tensor under another key of equal parameters that says of itself what x does, without x's words: for trial runs on the device that
/// computes nothing. Throws MismatchError for other parameters.
Ciphertext stand_in(const Ciphertext& x, const SecretKey& key);
/// The same values, which the caller knows to be at most `bound` in magnitude. If the tracked bound is larger, this process vouches
/// neither for their precision nor for their range from here on.
Ciphertext within(const Ciphertext& x, double bound);
/// The results of a variance of x's items times `factor`, of x's shape or of one item for several: at most the mean square, and a
/// quarter of the squared interval. Of covariances of x's items, of shape (items, items): by Cauchy and Schwarz.
Ciphertext with_variances(const Ciphertext& results, const Ciphertext& x, double factor);
Ciphertext with_covariances(const Ciphertext& results, const Ciphertext& x, double factor);

/// table[m] of each real value, a whole number m up to noise, modulo the table's size p: at the top level, less what its polynomial of
/// degree p - 1 takes, none where p is 2 and the table real. Noise of a part e of a step, up to about a quarter, becomes at most
/// 3.3 e^2 times the largest distance of two numbers; however large it is, the result is a mean of the table's numbers. It takes
/// about as long as `bootstrap`, and goes by pairs as that. Throws ParameterError for a table of other than 2 to 64 numbers and for
/// sets without bootstrapping, PlaintextRangeError where one is not finite or does not fit the result's level, DtypeError where x
/// is complex, LevelError where x is too low or the set has too few levels, ScaleError, MissingKeyError.
Ciphertext lookup(const Ciphertext& x, const std::vector<std::complex<double>>& table, const EvaluationKeys& keys,
                  const Progress& progress = {});

enum class Basis : unsigned char { monomial, chebyshev };
/// p(x) with real coefficients, in ceil(log2(degree + 1)) levels (baby steps, giant steps; Paterson and Stockmeyer, depth
/// optimal as in Bossuat et al., ePrint 2020/1203). Chebyshev: x in [-1, 1], coefficients of T_0, T_1, ....
Ciphertext evaluate_polynomial(const Ciphertext& x, const std::vector<double>& coefficients, Basis basis,
                               const EvaluationKeys& keys, const Progress& progress = {});
/// Levels it takes.
std::size_t polynomial_depth(std::size_t degree);

// Shapes: nothing is computed.
Ciphertext reshape(const Ciphertext& a, const Shape& shape);
Ciphertext transpose(const Ciphertext& a, const std::vector<std::size_t>& order);
Ciphertext slice(const Ciphertext& a, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count);
Ciphertext index(const Ciphertext& a, std::size_t axis, std::size_t position);
Ciphertext broadcast_to(const Ciphertext& a, const Shape& shape);
Ciphertext concatenate(const std::vector<Ciphertext>& parts, std::size_t axis);

}  // namespace heliograph::ckks
