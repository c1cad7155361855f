// BFV and BGV: exact integers modulo a plaintext modulus, packed in slots. The schemes differ in how they compute (bfv.h,
// bgv.h). Objects are cheap handles that share immutable data.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heliograph/errors.h"
#include "heliograph/objects.h"

namespace heliograph::exact {

/// The numbers that define a parameter set.
struct Spec {
  std::string scheme = "bfv";               // "bfv" or "bgv"
  std::string name;                         // empty if unnamed
  int word_size = 64;                       // bits of the words of residues: 64 or 32
  std::size_t n = 0;                        // ring degree N
  std::vector<std::uint64_t> chain;         // primes of Q
  std::vector<std::uint64_t> special;       // primes of P (key switching); may be empty
  std::vector<std::uint64_t> auxiliary;     // primes of R (BFV's multiplication)
  std::vector<std::size_t> digits;          // the gadget: number of chain primes in each digit
  std::vector<std::uint64_t> plain_moduli;  // t, or several coprime moduli
  std::size_t slots = 0;                    // values per ciphertext; 0: all N
  bool insecure = false;                    // allows less than 128 bits of security
  bool exact = false;                       // decryption must prove that no integer wrapped modulo t; false: residues
};

/// Versions of the rules by which parameter sets are chosen. Noise bounds fail with probability 2^-128 under the present
/// rules, and 2^-64 under the former rules.
inline constexpr const char *kPresentRules = "0.3", *kFormerRules = "0.2";

struct Request {
  int depth = 1;                            // sequential multiplications, each a sum of up to `terms` products
  int plain_bits = 0;                       // plain_bits: t must exceed 2^plain_bits; used if `t` is empty
  std::vector<std::uint64_t> plain_moduli;  // the plaintext modulus t itself
  std::size_t slots = 0;                    // values per ciphertext; 0: any
  std::size_t terms = 1024;
  int word_size = 64;
  std::string version = kPresentRules;
  /// The value of Spec::exact; nullopt: true if t is derived from `plain_bits` under the present rules.
  std::optional<bool> exact = {};
};
/// Returns plaintext primes congruent to 1 modulo 2n whose product has more than `bits` bits: `count` primes of similar
/// size, or the fewest if `count` is 0.
std::vector<std::uint64_t> batching_primes(std::size_t n, int bits, std::size_t count = 0);
int largest_secure_log_qp(std::size_t n);

class Context;
class Parameters;
class Plaintext;
class Ciphertext;
class EvaluationKeys;
class PublicKey;
class SecretKey;
class ClearRows;
struct ClearRowsData;
struct PlaintextData;
struct CiphertextData;
struct EvaluationKeysData;
struct PublicKeyData;
struct SecretKeyData;

/// Types of BFV and BGV (objects.h).
struct Scheme {
  using Spec = exact::Spec;
  using Context = exact::Context;
  using Parameters = exact::Parameters;
  using Ciphertext = exact::Ciphertext;
  using CiphertextData = exact::CiphertextData;
  using PublicKey = exact::PublicKey;
  using PublicKeyData = exact::PublicKeyData;
  using EvaluationKeys = exact::EvaluationKeys;
  using EvaluationKeysData = exact::EvaluationKeysData;
  using SecretKey = exact::SecretKey;
  using SecretKeyData = exact::SecretKeyData;
};

class Parameters : public RingParametersOf<Scheme> {
 public:
  using RingParametersOf::RingParametersOf;
  bool has_slots() const;  // whether t is 1 modulo 2N, so that plaintexts have slots
  std::size_t ciphertext_bytes(std::size_t degree = 1) const;
};

/// Placement of values in a polynomial.
enum class Packing : unsigned char { slots, coefficients };

/// A range of a set's plaintext moduli: `count` moduli from index `first`; a count of 0 means all moduli from `first` on.
struct Moduli {
  std::size_t first = 0, count = 0;
};

/// Integers on the host: a dense [items, width] array. Decryption returns integers centred modulo the plaintext modulus.
struct Values {
  std::vector<std::int64_t> data;
  Shape shape;            // shape of the ciphertext tensor
  std::size_t width = 0;  // values per ciphertext
  std::size_t words = 1;  // 64-bit words per value in `data`: two's complement, lowest word first
};

/// An upper bound on magnitudes.
struct Bound {
  Bound(std::uint64_t value);  // NOLINT(google-explicit-constructor): a number is a bound
  explicit Bound(std::string digits) : hex(std::move(digits)) {}
  std::string hex;  // lower-case digits without leading zeros, at most 4096 bits
};

class Ciphertext : public CiphertextOf<Scheme> {
 public:
  using CiphertextOf::CiphertextOf;
  std::size_t degree() const;
  /// Returns the device address of the words, which tells whether an in-place operation allocated memory.
  std::uintptr_t address() const;
  std::size_t level() const;
  std::size_t slots() const;
  /// Returns whether the padding slots' contents are known. If the contents are known, sums over all slots need no masking,
  /// which would cost noise.
  bool tail_known() const;
  Packing packing() const;
  bool fresh() const;  // an encryption before any operation; for loaded tensors, the file states this flag
  /// Returns whether the noise bound is trusted: nothing it depends on came from a file, evaluation and public keys
  /// included. If the bound is not trusted, noise_budget holds only if all files are truthful.
  bool vouched() const;
  /// Returns the plaintext moduli of the set that the tensor holds: all, except after take_moduli.
  std::vector<std::uint64_t> plain_moduli() const;
  std::size_t first_modulus() const;  // index in the set of the first modulus held
  /// Returns the bits left before decryption fails, by the noise model. For a loaded tensor, the number holds if its file is
  /// truthful; NaN if the file does not state it. A negative number means that the noise exceeds its limit by that many
  /// bits.
  double noise_budget() const;
  // Bounds on the integers' magnitudes, padding slots included, in hexadecimal digits; empty if unknown.
  /// Returns the bound that follows from the public bounds given at encryption (t/2 if none), if all files are truthful.
  std::string bound() const;
  /// Returns the bound that follows from the values this process encrypted; it is secret. Returns an empty text if no such
  /// bound is trusted.
  std::string vouched_bound() const;
};

/// Evidence that decryption requires for results of a set of exact integers (Spec::exact). For sets of residues only
/// `trusted` is enforced.
enum class Proof : unsigned char {
  none,  // no check
  // a trusted or assumed bound of at most t/2; else all values at most t/2 * 2^-14 (a wrapped value is that small with
  // probability 2^-14)
  any,
  trusted  // a trusted bound of at most t/2
};

class Plaintext : public ObjectOf<Scheme, PlaintextData> {
 public:
  using ObjectOf::ObjectOf;
  Shape shape() const;
};
/// Encodes values. Throws PlaintextRangeError, ShapeError, SlotsError.
Plaintext encode(const Parameters& parameters, const Values& values, Packing packing);

class EvaluationKeys : public RotationKeysOf<Scheme> {
 public:
  using RotationKeysOf::RotationKeysOf;
  bool has_columns() const;
};

class PublicKey : public OpenKeyOf<Scheme, PublicKeyData, PublicKey> {
 public:
  using OpenKeyOf::OpenKeyOf;
  /// `bound`: public upper bound on the values' magnitudes, stored in files. A larger value is a PlaintextRangeError; a
  /// malformed bound a ParameterError.
  Ciphertext encrypt(const Values& values, Packing packing, Moduli moduli = {},
                     const std::optional<Bound>& bound = {}) const;
};

class SecretKey : public SecretKeyOf<Scheme> {
 public:
  using SecretKeyOf::SecretKeyOf;
  PublicKey public_key() const;
  EvaluationKeys evaluation_keys(bool relinearize, const std::vector<std::int64_t>& rotations, bool columns) const;
  /// Encrypts. The uniform component is stored as a 32-byte seed. `moduli`: encrypts only these plaintext moduli, to save
  /// memory.
  Ciphertext encrypt(const Values& values, Packing packing, Moduli moduli = {},
                     const std::optional<Bound>& bound = {}) const;
  /// Returns residues modulo each plaintext modulus, [moduli][items][width], canonical. Throws WrongKeyError; MismatchError
  /// if moduli are missing; RoomError if values may have wrapped modulo t, as `proof` requires. Throws NoiseError if the
  /// noise estimate is exhausted or the measured noise exceeds it. `beyond_estimate` ignores the estimate: NoiseError is
  /// then thrown only if the measured budget is below one bit. Most wrong results with few distinct values pass this weaker
  /// test (docs/adr/0014).
  std::vector<std::uint64_t> decrypt(const Ciphertext& ciphertext, bool beyond_estimate = false,
                                     Proof proof = Proof::any) const;
  /// Measures the noise budget in bits: the least over all ciphertexts and plaintext moduli; 0 if decrypt would throw
  /// NoiseError.
  double noise_budget(const Ciphertext& ciphertext, bool beyond_estimate = false) const;
};

// Arithmetic. Shapes broadcast as in NumPy. Operands must have the same key (WrongKeyError) and set (MismatchError).
// Operands at different levels are first brought to the lower one.
Ciphertext add(const Ciphertext& a, const Ciphertext& b);
Ciphertext subtract(const Ciphertext& a, const Ciphertext& b);
Ciphertext negate(const Ciphertext& a);
/// Returns a product of degree two, at the lower of the operands' levels. Relinearizes operands of degree two first, which
/// requires `keys`. In BGV, choose the level first (bgv.h) or use multiply_switched.
Ciphertext multiply(const Ciphertext& a, const Ciphertext& b, const EvaluationKeys* keys);
Ciphertext square(const Ciphertext& a, const EvaluationKeys* keys);
/// Returns the best level for a product of operands of degree one. BFV: the lower of their levels. BGV: the lowest level
/// whose estimated noise budget of the product is within half a bit of the largest; if an estimate is NaN, the lower of
/// their levels.
std::size_t product_level(const Ciphertext& a, const Ciphertext& b);
/// Relinearizes the operands, switches them to product_level and multiplies: Python's operator *.
Ciphertext multiply_switched(const Ciphertext& a, const Ciphertext& b, const EvaluationKeys* keys);
Ciphertext relinearize(const Ciphertext& a, const EvaluationKeys& keys);
Ciphertext add(const Ciphertext& a, const Plaintext& b);
Ciphertext subtract(const Ciphertext& a, const Plaintext& b);
Ciphertext multiply(const Ciphertext& a, const Plaintext& b);
// The operand is one integer for each ciphertext (broadcast), without encoding. `values.width` is 1.
Ciphertext add_integers(const Ciphertext& a, const Values& values);
Ciphertext subtract_integers(const Ciphertext& a, const Values& values);
Ciphertext multiply_integers(const Ciphertext& a, const Values& values);
// Computes a = a + b and a = a - b in the memory of `a`. If other handles, views or a recording share that memory, or if
// level, domain or factor change, the result takes new memory. The metadata are those that `add` gives. b must broadcast to
// a's shape and slots (ShapeError). After an exception `a` is unchanged.
void add_into(Ciphertext& a, const Ciphertext& b);
void subtract_into(Ciphertext& a, const Ciphertext& b);
void add_into(Ciphertext& a, const Plaintext& b);
void subtract_into(Ciphertext& a, const Plaintext& b);
void add_integers_into(Ciphertext& a, const Values& values);
void subtract_integers_into(Ciphertext& a, const Values& values);
/// Rotates rows of N/2 slots left by each of `steps` from one decomposition; the results are stacked on a new first axis.
Ciphertext rotate_rows(const Ciphertext& a, const std::vector<std::int64_t>& steps, const EvaluationKeys& keys);
/// Exchanges the two rows of slots.
Ciphertext rotate_columns(const Ciphertext& a, const EvaluationKeys& keys);
/// Returns the sum of each ciphertext's values in every slot, without the padding slots. Needs the rotations 1, 2, 4, ...
/// below N/2 and the exchange of rows. If the padding slots' contents are unknown (tail_known), they are first masked by a
/// plaintext product, which costs noise.
Ciphertext sum_slots(const Ciphertext& a, const EvaluationKeys& keys);
/// Switches to a smaller modulus of `level` primes, for fewer bytes; the value is the same. For level 0, switches to the
/// fewest primes that the noise estimate allows, and throws NoiseError if no number of primes suffices.
Ciphertext switch_level(const Ciphertext& a, std::size_t level);

/// Multiplies weights [rows, columns] by ciphertexts (columns, ...) as one modular matrix product. `bias`: empty, one value
/// per row, or, for integers above 64 bits, residues [plaintext moduli of the set][rows].
Ciphertext matmul(const std::vector<std::int64_t>& weights, std::size_t rows, std::size_t columns, const Ciphertext& x,
                  const std::vector<std::int64_t>& bias);
struct Convolution {
  std::size_t outputs, inputs_per_group, height, width;  // weights [outputs, inputs_per_group, height, width]
  std::size_t stride = 1, padding = 0, groups = 1;
};
/// Convolves x (channels, H, W) or (batch, channels, H, W) with weights, as one modular matrix product.
Ciphertext conv2d(const Ciphertext& x, const std::vector<std::int64_t>& weights, const Convolution& shape,
                  const std::vector<std::int64_t>& bias);
Ciphertext sum(const Ciphertext& a, std::size_t axis);
/// Returns sums over windows of size x size that tile the last two axes.
Ciphertext sum_pool2d(const Ciphertext& a, std::size_t size);
/// Returns relinearize(sum_pool2d(square(conv2d(x (channels, H, W), ...)), pool)) with the same bits, the square by
/// multiply_switched. Computes `stretch` output channels at a time, to save memory; 0: as many as half of the free memory
/// holds.
Ciphertext conv2d_square_pool(const Ciphertext& x, const std::vector<std::int64_t>& weights, const Convolution& shape,
                              const std::vector<std::int64_t>& bias, std::size_t pool, const EvaluationKeys& keys,
                              std::size_t stretch = 0);

// Plaintext moduli. A tensor is one residue tensor per plaintext modulus of its set, and operations treat these
// independently. A long computation can therefore run modulus by modulus. Operands must hold the same moduli
// (MismatchError); saving and decryption need all of them.
/// Returns a view of some moduli of a tensor. Throws ParameterError if the tensor lacks some of these moduli.
Ciphertext take_moduli(const Ciphertext& a, Moduli moduli);
/// Joins tensors of adjacent moduli, in order, without copies. Tensors at different levels are switched to the lowest level.
Ciphertext join_moduli(const std::vector<Ciphertext>& parts);

// Products of clear rows of bytes with an encrypted vector: one inner product per row, exact modulo t.

/// Layout and level of products of byte rows with a vector, for rows of `columns` bytes.
struct RowsPlan {
  std::size_t columns = 0;  // columns: length of a row and of the vector
  std::size_t ciphertexts = 0,
              spread = 0;  // vector component j is coefficient j / ciphertexts (< spread) of ciphertext j % ciphertexts
  std::size_t level = 0;   // level of the rows and of the vector
  int body_bits = 0, mask_bits = 0;     // bits per word of each component after rounding
  std::vector<std::int64_t> rotations;  // rotation steps of the required keys
  /// Returns the bytes of the rounded products with `rows` rows.
  std::size_t rounded_bytes(const Parameters& parameters, std::size_t rows) const;
};
/// Throws ParameterError if the set's t is too small for products of 8-bit numbers; SlotsError; LimitError.
RowsPlan rows_plan(const Parameters& parameters, std::size_t columns);
/// Encrypts a vector in the layout of rows_plan, as a tensor of `ciphertexts`. Throws ShapeError.
Ciphertext encrypt_vector(const SecretKey& secret, std::span<const std::int8_t> vector);

/// Clear rows in NTT form, in blocks of N rows. Column j of a block is a polynomial with one row per coefficient.
class ClearRows : public ObjectOf<Scheme, ClearRowsData> {
 public:
  using ObjectOf::ObjectOf;
  /// Makes `rows` rows of zeros. Throws as rows_plan; OutOfMemoryError.
  ClearRows(const Parameters& parameters, std::size_t rows, std::size_t columns);
  std::size_t rows() const;
  const RowsPlan& plan() const;
  std::size_t bytes() const;
  /// Sets the rows of a block: `values` [rows of the block][columns]. Throws ShapeError. Do not call `set` while `times`
  /// runs on another thread.
  void set(std::size_t block, std::span<const std::int8_t> values) const;
  /// Multiplies the rows by each vector. Each result has one ciphertext per block: coefficient r of block b is the product
  /// of row b N + r. Vectors must come from encrypt_vector without further operations. The vectors' keys may differ: keys[i]
  /// belongs to vectors[i]. Batches of vectors share one pass over the rows. Throws MismatchError, WrongKeyError,
  /// ShapeError, LevelError, MissingKeyError.
  std::vector<Ciphertext> times(const std::vector<Ciphertext>& vectors, const std::vector<EvaluationKeys>& keys) const;
};

/// Compresses a result of `times`: its words modulo Q as fractions of Q, rounded to the plan's bits.
Bytes rounded(const Ciphertext& products, const RowsPlan& plan);
/// Restores a tensor from `rounded`, for the owner of the key. Rounding adds noise. Throws DamagedFileError if the bytes do
/// not match `rows` rows.
Ciphertext from_rounded(const SecretKey& secret, std::span<const std::byte> bytes, const RowsPlan& plan, std::size_t rows);

// Shape operations return views and compute nothing.
Ciphertext reshape(const Ciphertext& a, const Shape& shape);
Ciphertext transpose(const Ciphertext& a, const std::vector<std::size_t>& order);
Ciphertext slice(const Ciphertext& a, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count);
Ciphertext index(const Ciphertext& a, std::size_t axis, std::size_t position);
Ciphertext broadcast_to(const Ciphertext& a, const Shape& shape);
Ciphertext concatenate(const std::vector<Ciphertext>& parts, std::size_t axis);

}  // namespace heliograph::exact
