// Exact integers modulo a plaintext modulus, many to a ciphertext: BFV and BGV, which differ in how they compute (bfv.h, bgv.h).
// Objects are cheap handles that share immutable data.
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

/// Everything that defines a parameter set. Numbers only: a set is a value.
struct Spec {
  std::string scheme = "bfv";               // or "bgv"
  std::string name;                         // empty where nobody named it
  std::string edition = "w64";              // "w64" or "w32": the words residues are kept in
  std::size_t n = 0;                        // ring degree N
  std::vector<std::uint64_t> chain;         // primes of Q
  std::vector<std::uint64_t> special;       // primes of P (key switching); may be empty
  std::vector<std::uint64_t> auxiliary;     // primes of R (BFV's multiplication)
  std::vector<std::size_t> digits;          // the gadget: chain primes in each digit
  std::vector<std::uint64_t> plain_moduli;  // t, or several coprime ones
  std::size_t slots = 0;                    // values a user packs in one ciphertext; 0: all N
  bool insecure = false;                    // the user said so
  bool exact = false;  // values are integers that decryption must know not to have wrapped modulo t; else residues
};

/// The rules that sets are chosen by: by the present ones noise bounds fail with 2^-128, by the former ones with 2^-64.
inline constexpr const char *kPresentRules = "0.3", *kFormerRules = "0.2";

struct Request {
  int depth = 1;                            // multiplications in sequence, each summing up to `terms` products
  int plain_bits = 0;                       // t has more than this many bits ...
  std::vector<std::uint64_t> plain_moduli;  // ... or is given
  std::size_t slots = 0;                    // values to pack; 0: no wish
  std::size_t terms = 1024;
  std::string edition = "w64";
  std::string version = kPresentRules;
  /// Spec::exact; else whether t is found for `plain_bits` by the present rules.
  std::optional<bool> exact = {};
};
/// Plaintext primes 1 modulo 2n whose product has more than `bits` bits, `count` of them of like size (0: the fewest).
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

/// BFV and BGV (objects.h).
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
  bool has_slots() const;  // t is 1 modulo 2N
  std::size_t ciphertext_bytes(std::size_t degree = 1) const;
};

/// How values lie in a polynomial.
enum class Packing : unsigned char { slots, coefficients };

/// A range of a set's plaintext moduli: `count` of them from the `first`-th on; 0: all the others.
struct Moduli {
  std::size_t first = 0, count = 0;
};

/// Host integers: a dense [items, width] array, centred modulo the plaintext modulus when read back.
struct Values {
  std::vector<std::int64_t> data;
  Shape shape;            // of the ciphertext tensor
  std::size_t width = 0;  // values in each ciphertext
  std::size_t words = 1;  // of each value in `data`: two's complement, the lowest word first
};

/// A bound on magnitudes.
struct Bound {
  Bound(std::uint64_t value);  // NOLINT(google-explicit-constructor): a number is a bound
  explicit Bound(std::string digits) : hex(std::move(digits)) {}
  std::string hex;  // lower-case digits without leading zeros, of at most 4096 bits
};

class Ciphertext : public CiphertextOf<Scheme> {
 public:
  using CiphertextOf::CiphertextOf;
  std::size_t degree() const;
  /// Where its words lie, as its device counts: whether an operation in place took new memory.
  std::uintptr_t address() const;
  std::size_t level() const;
  std::size_t slots() const;
  /// Whether sums over all slots know what stands behind the values, so that nothing has to be hidden, which costs noise.
  bool tail_known() const;
  Packing packing() const;
  bool fresh() const;  // an encryption that nothing was computed on, or said to be one by the file it came from
  /// Whether nothing in it came from a file, evaluation and public keys included: noise_budget is then this process's own
  /// bound; else what it is if all files are what they say.
  bool vouched() const;
  /// Those of the set's plaintext moduli that it holds: all, unless it was taken apart.
  std::vector<std::uint64_t> plain_moduli() const;
  std::size_t first_modulus() const;  // which of the set's the first of them is
  /// Bits left before decryption fails: a bound from the model, of what was loaded if its file is what it says. NaN where
  /// the file does not tell. Negative: exhausted by that much.
  double noise_budget() const;
  // Bounds on the integers' magnitudes, behind the values too, in hexadecimal digits; empty where nobody knows one.
  /// What follows, if files are what they say, from the bounds said in public at encryption; where none was, from t/2.
  std::string bound() const;
  /// From the values that this process encrypted: a secret. Empty for what is not vouched for.
  std::string vouched_bound() const;
};

/// What decryption asks of results of a set of exact integers (Spec::exact) before it hands them out; of residues nothing but
/// `vouched`, which is always asked.
enum class Proof : unsigned char {
  none,  // nothing
  any,  // a bound within t/2, vouched for or assumed; else values that all lie within t/2 2^-14, where one that wrapped lies with
        // probability 2^-14
  vouched  // a bound within t/2 that rests on this process alone
};

class Plaintext : public ObjectOf<Scheme, PlaintextData> {
 public:
  using ObjectOf::ObjectOf;
  Shape shape() const;
};
/// Throws PlaintextRangeError, ShapeError, SlotsError.
Plaintext encode(const Parameters& parameters, const Values& values, Packing packing);

class EvaluationKeys : public OpenKeyOf<Scheme, EvaluationKeysData, EvaluationKeys> {
 public:
  using OpenKeyOf::OpenKeyOf;
  bool has_relinearization() const;
  std::vector<std::int64_t> rotations() const;  // row steps, ascending
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
  bool has_columns() const;
  std::vector<std::string> of_programs() const;  // names of keys of programs of instructions (cinnamon.h)
  std::size_t bytes() const;
};

class PublicKey : public OpenKeyOf<Scheme, PublicKeyData, PublicKey> {
 public:
  using OpenKeyOf::OpenKeyOf;
  /// `bound`: no value is larger in magnitude (PlaintextRangeError). It is public, and travels in files. ParameterError for
  /// digits that are none.
  Ciphertext encrypt(const Values& values, Packing packing, const Progress& progress = {}, Moduli moduli = {},
                     const std::optional<Bound>& bound = {}) const;
};

class SecretKey : public SecretKeyOf<Scheme> {
 public:
  using SecretKeyOf::SecretKeyOf;
  PublicKey public_key() const;
  EvaluationKeys evaluation_keys(bool relinearize, const std::vector<std::int64_t>& rotations, bool columns,
                                 const Progress& progress = {}) const;
  /// Seeded: the uniform half travels as 32 bytes. For some `moduli`, where memory does not hold all at once.
  Ciphertext encrypt(const Values& values, Packing packing, const Progress& progress = {}, Moduli moduli = {},
                     const std::optional<Bound>& bound = {}) const;
  /// Residues modulo each plaintext modulus in turn, [moduli][items][width], canonical. Throws WrongKeyError, MismatchError
  /// where moduli are missing; NoiseError where the noise estimate is exhausted, and where the noise measured is beyond it.
  /// `beyond_estimate`: an exhausted estimate is no error, which is a bound and no measurement; only noise measured, where it
  /// leaves less than a bit, is one then, and most wrong results of few different values pass (docs/adr/0014). RoomError for values
  /// that may have wrapped modulo t, as `proof` asks.
  std::vector<std::uint64_t> decrypt(const Ciphertext& ciphertext, const Progress& progress = {},
                                     bool beyond_estimate = false, Proof proof = Proof::any) const;
  /// Bits left, measured: the least over all ciphertexts and plaintext moduli; 0 where decrypt would throw NoiseError.
  double noise_budget(const Ciphertext& ciphertext, bool beyond_estimate = false) const;
};

// Arithmetic. Shapes broadcast as in NumPy. Operands of one key and one set, else WrongKeyError or MismatchError; operands
// at different levels meet at the lower one.
Ciphertext add(const Ciphertext& a, const Ciphertext& b);
Ciphertext subtract(const Ciphertext& a, const Ciphertext& b);
Ciphertext negate(const Ciphertext& a);
/// Degree two from degree one; operands of degree two are relinearized first, for which `keys` must not be null. At the
/// lower of the operands' levels: BGV's callers choose it (bgv.h), or take multiply_switched.
Ciphertext multiply(const Ciphertext& a, const Ciphertext& b, const EvaluationKeys* keys, const Progress& progress = {});
Ciphertext square(const Ciphertext& a, const EvaluationKeys* keys, const Progress& progress = {});
/// The level that operands of degree one are best switched to before they are multiplied: BFV's lower one; BGV's lowest
/// level that leaves the product, by the noise estimates, within half a bit of the largest noise budget. Where an estimate
/// is not known (NaN): the lower of the two levels.
std::size_t product_level(const Ciphertext& a, const Ciphertext& b);
/// multiply of what the operands, relinearized, are at that level: what the operator * does.
Ciphertext multiply_switched(const Ciphertext& a, const Ciphertext& b, const EvaluationKeys* keys,
                             const Progress& progress = {});
Ciphertext relinearize(const Ciphertext& a, const EvaluationKeys& keys, const Progress& progress = {});
Ciphertext add(const Ciphertext& a, const Plaintext& b);
Ciphertext subtract(const Ciphertext& a, const Plaintext& b);
Ciphertext multiply(const Ciphertext& a, const Plaintext& b);
/// Integers, one for each ciphertext (broadcast), without encoding. `values.width` is 1.
Ciphertext add_integers(const Ciphertext& a, const Values& values);
Ciphertext subtract_integers(const Ciphertext& a, const Values& values);
Ciphertext multiply_integers(const Ciphertext& a, const Values& values);
// a = a + b and a = a - b in a's own memory, where nothing else shows that (no copy of the handle, no slice or other view of it, no
// recording) and level, domain and factor stay; else in new memory: what was made of `a` before keeps its values. Figures as of
// add. b broadcasts into a's shape and slots, else ShapeError. What throws leaves `a` as it was.
void add_into(Ciphertext& a, const Ciphertext& b);
void subtract_into(Ciphertext& a, const Ciphertext& b);
void add_into(Ciphertext& a, const Plaintext& b);
void subtract_into(Ciphertext& a, const Plaintext& b);
void add_integers_into(Ciphertext& a, const Values& values);
void subtract_integers_into(Ciphertext& a, const Values& values);
/// Rows of N/2 slots turned left by `steps`, one result for each step, stacked on a new first axis: decomposed once.
Ciphertext rotate_rows(const Ciphertext& a, const std::vector<std::int64_t>& steps, const EvaluationKeys& keys,
                       const Progress& progress = {});
/// The two rows exchanged.
Ciphertext rotate_columns(const Ciphertext& a, const EvaluationKeys& keys, const Progress& progress = {});
/// The sum of a ciphertext's values, in every slot: what stands behind the values does not count. Needs the rotations 1, 2, 4,
/// ... below N/2 and the exchange of rows. Where nobody knows what stands there (a secret, or a file does not tell), it is
/// hidden by a product with a plaintext, which costs noise.
Ciphertext sum_slots(const Ciphertext& a, const EvaluationKeys& keys, const Progress& progress = {});
/// A smaller modulus with the same value: fewer bytes. `level` primes stay; 0: as few as the noise estimate allows
/// (NoiseError where there is none).
Ciphertext switch_level(const Ciphertext& a, std::size_t level);

/// weights [rows, columns] times ciphertexts (columns, ...): ONE modular matrix product. `bias` is empty, or one for each
/// row, or, for integers beyond 64 bits, residues [plaintext moduli of the set][rows].
Ciphertext matmul(const std::vector<std::int64_t>& weights, std::size_t rows, std::size_t columns, const Ciphertext& x,
                  const std::vector<std::int64_t>& bias, const Progress& progress = {});
struct Convolution {
  std::size_t outputs, inputs_per_group, height, width;  // of the weights [outputs, inputs_per_group, height, width]
  std::size_t stride = 1, padding = 0, groups = 1;
};
/// x (channels, H, W) or (batch, channels, H, W): ONE modular matrix product.
Ciphertext conv2d(const Ciphertext& x, const std::vector<std::int64_t>& weights, const Convolution& shape,
                  const std::vector<std::int64_t>& bias, const Progress& progress = {});
Ciphertext sum(const Ciphertext& a, std::size_t axis);
/// Sums over windows of size x size that tile the last two axes.
Ciphertext sum_pool2d(const Ciphertext& a, std::size_t size);
/// relinearize(sum_pool2d(square(conv2d(x (channels, H, W), ...)), pool)), to the same bits (the square that of
/// multiply_switched), over stretches of output channels: only one stretch's outputs and squares are in memory. `stretch`:
/// so many channels; 0: what half of the memory left holds.
Ciphertext conv2d_square_pool(const Ciphertext& x, const std::vector<std::int64_t>& weights, const Convolution& shape,
                              const std::vector<std::int64_t>& bias, std::size_t pool, const EvaluationKeys& keys,
                              const Progress& progress = {}, std::size_t stretch = 0);

// A tensor is one residue tensor for each plaintext modulus of its set, and these never meet: a long computation can run
// modulus by modulus. Operands must hold the same moduli (MismatchError); to be saved or decrypted a tensor must hold all.
/// Some moduli of a tensor: nothing is copied. Throws ParameterError where it does not hold them.
Ciphertext take_moduli(const Ciphertext& a, Moduli moduli);
/// Tensors of adjacent moduli, in order, as one: nothing is copied. Those at different levels meet at the lowest.
Ciphertext join_moduli(const std::vector<Ciphertext>& parts);

// Rows of bytes in the clear times an encrypted vector: one inner product for each row, exact modulo t.

/// How a set computes them, for rows of so many columns.
struct RowsPlan {
  std::size_t columns = 0;  // of the rows; the vector's components
  std::size_t ciphertexts = 0,
              spread = 0;  // component j is coefficient j / ciphertexts, below spread, of ciphertext j % ciphertexts
  std::size_t level = 0;   // at which rows and vector meet
  int body_bits = 0, mask_bits = 0;     // what rounding leaves of the two components' words
  std::vector<std::int64_t> rotations;  // the keys that it takes: row steps
  /// Bytes of the rounded products with so many rows.
  std::size_t rounded_bytes(const Parameters& parameters, std::size_t rows) const;
};
/// Throws ParameterError where the set has not the room for products of 8-bit numbers, SlotsError, LimitError.
RowsPlan rows_plan(const Parameters& parameters, std::size_t columns);
/// The encryption of a vector of so many columns as products take it: a tensor of `ciphertexts`. Throws ShapeError.
Ciphertext encrypt_vector(const SecretKey& secret, std::span<const std::int8_t> vector);

/// The rows, N to a block, transformed: column j of a block is a polynomial with a row in each coefficient.
class ClearRows : public ObjectOf<Scheme, ClearRowsData> {
 public:
  using ObjectOf::ObjectOf;
  /// `rows` rows of zeros. Throws as rows_plan; OutOfMemoryError.
  ClearRows(const Parameters& parameters, std::size_t rows, std::size_t columns);
  std::size_t rows() const;
  const RowsPlan& plan() const;
  std::size_t bytes() const;
  /// Sets the rows of a block: `values` [rows of the block][columns]. Throws ShapeError. Not while others compute with it.
  void set(std::size_t block, std::span<const std::int8_t> values) const;
  /// For each vector a tensor of one ciphertext for each block: coefficient r of block b is row b N + r times the vector. `vectors`
  /// as of encrypt_vector, as they were encrypted, or read; under several keys, each with its own: the rows are read once for some.
  /// Throws MismatchError, WrongKeyError, ShapeError, LevelError, MissingKeyError.
  std::vector<Ciphertext> times(const std::vector<Ciphertext>& vectors, const std::vector<EvaluationKeys>& keys,
                                const Progress& progress = {}) const;
};

/// What `times` gave in the fewest bytes: its words modulo Q as fractions of Q, rounded to the plan's bits.
Bytes rounded(const Ciphertext& products, const RowsPlan& plan);
/// The tensor again, with the noise that rounding added, under the key's id: for its owner. Throws DamagedFileError where the bytes
/// are not those of so many rows.
Ciphertext from_rounded(const SecretKey& secret, std::span<const std::byte> bytes, const RowsPlan& plan, std::size_t rows);

// Shapes: nothing is computed.
Ciphertext reshape(const Ciphertext& a, const Shape& shape);
Ciphertext transpose(const Ciphertext& a, const std::vector<std::size_t>& order);
Ciphertext slice(const Ciphertext& a, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count);
Ciphertext index(const Ciphertext& a, std::size_t axis, std::size_t position);
Ciphertext broadcast_to(const Ciphertext& a, const Shape& shape);
Ciphertext concatenate(const std::vector<Ciphertext>& parts, std::size_t axis);

}  // namespace heliograph::exact
