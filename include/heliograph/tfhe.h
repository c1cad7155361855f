// TFHE: exact computation of any depth on encrypted bits and integers (Chillotti et al., ePrint 2018/421).
// Objects are cheap handles that share immutable data.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heliograph/errors.h"
#include "heliograph/objects.h"

namespace heliograph {

namespace tfhe {

/// How errors of fresh encryptions are drawn, in units of 2^-64 turns.
struct Noise {
  bool tuniform = true;  // TUniform(b): integers in [-2^b, 2^b], the two ends half as often; else a rounded Gaussian
  double value = 0;      // b; or log2 of the Gaussian's standard deviation as a part of a turn (negative)
  bool operator==(const Noise&) const = default;
};

/// Everything that defines a parameter set. Numbers only: a set is a value.
struct Spec {
  std::string name;                      // empty where nobody named it
  std::size_t n = 0, k = 0, degree = 0;  // LWE dimension, GLWE dimension, N
  Noise lwe_noise, glwe_noise;           // of the narrow (n) and the wide (k * N) key
  // Gadgets: digits of base 2^log_base, so many of them (their length; files and Python say levels).
  unsigned bootstrap_log_base = 0, bootstrap_levels = 0;
  unsigned switch_log_base = 0, switch_levels = 0;
  unsigned group = 2;                         // key bits that one step of blind rotation takes
  unsigned message_bits = 0, carry_bits = 0;  // of a digit, below one bit of padding; 0: bits as -1/8 and 1/8 turns
  unsigned norm = 0;                          // largest sum of squared weights a bootstrap's input may have
  bool insecure = false;                      // the user said so
  bool operator==(const Spec&) const = default;
};
/// "2_2", "2_2/p64", "1_1", "1_1/p64", "boolean", "boolean/p64", "morshed-2020" and so on. Throws ParameterError listing them.
Spec named_spec(const std::string& name, bool insecure = false);
std::vector<std::string> named_specs();

class Context;
class Parameters;
class Ciphertext;
class EvaluationKeys;
class SecretKey;
struct CiphertextData;
struct EvaluationKeysData;
struct SecretKeyData;

/// TFHE (objects.h).
struct Scheme {
  using Spec = tfhe::Spec;
  using Context = tfhe::Context;
  using Parameters = tfhe::Parameters;
  using Ciphertext = tfhe::Ciphertext;
  using CiphertextData = tfhe::CiphertextData;
  using EvaluationKeys = tfhe::EvaluationKeys;
  using EvaluationKeysData = tfhe::EvaluationKeysData;
  using SecretKey = tfhe::SecretKey;
  using SecretKeyData = tfhe::SecretKeyData;
};

/// log2 of variances, in units of one turn squared.
struct Variances {
  double fresh = 0, bootstrap = 0, key_switch = 0, modulus_switch = 0;
};

class Parameters : public ParametersOf<Scheme> {
 public:
  using ParametersOf::ParametersOf;
  /// log2 of the probability that one bootstrap at the largest norm returns a wrong value.
  double log2_failure() const;
  /// What each step adds (bootstrap: of its result), as predicted.
  Variances predicted() const;
  bool is_boolean() const { return spec().message_bits == 0; }
  std::size_t lwe_bytes() const;  // one wide LWE ciphertext in memory
  std::size_t bootstrap_key_bytes() const, switch_key_bytes() const;
  /// Bootstraps that keep the device busy.
  std::size_t parallel_bootstraps() const;
};

/// What one element of a tensor is.
struct Type {
  bool boolean = true;
  unsigned bits = 1;  // of an integer: 8, 16, 24, 32, 64 (or any multiple of a digit's message bits up to 64)
  bool is_signed = false;
  /// "bool", "uint32", "int8"
  std::string text() const;
  bool operator==(const Type&) const = default;
};
/// Throws DtypeError.
Type type_of(const std::string& text);

/// A tensor of encrypted booleans or integers.
class Ciphertext : public CiphertextOf<Scheme> {
 public:
  using CiphertextOf::CiphertextOf;
  Type type() const;
  /// LWE ciphertexts in one element.
  std::size_t wires() const;
};

/// Bootstrapping and key-switching key: what a server gets.
class EvaluationKeys : public OpenKeyOf<Scheme, EvaluationKeysData, EvaluationKeys> {
 public:
  using OpenKeyOf::OpenKeyOf;
  std::size_t bytes() const;
};

class SecretKey : public SecretKeyOf<Scheme> {
 public:
  using SecretKeyOf::SecretKeyOf;
  EvaluationKeys evaluation_keys(const Progress& progress = {}) const;
  /// Seeded: masks travel as 32 bytes. Values are taken modulo 2^bits (booleans: 0 or 1). Throws ShapeError, PlaintextRangeError.
  Ciphertext encrypt(const std::vector<std::uint64_t>& values, const Shape& shape, Type type,
                     const Progress& progress = {}) const;
  /// Values, sign-extended where the type is signed. Throws WrongKeyError, MismatchError, NoiseError.
  std::vector<std::uint64_t> decrypt(const Ciphertext& ciphertext, const Progress& progress = {}) const;
  /// Signed errors of each LWE ciphertext, in turns, [element][wire]: phase less the nearest value. For tests of noise.
  std::vector<double> errors(const Ciphertext& ciphertext) const;
};

/// Clear values as a tensor that needs no key to read: an operand (noiseless, no secret; every key's).
Ciphertext trivial(const EvaluationKeys& keys, const std::vector<std::uint64_t>& values, const Shape& shape, Type type);

/// Which circuit computes an operation: the fewest bootstraps, or the fewest layers. Results are the same.
enum class Goal : unsigned char { automatic, fewest, shallow };

/// An operation by name with its clear arguments. Names and arguments: docs/tfhe.md, and `operations()`.
struct Operation {
  std::string name;
  std::vector<std::int64_t> arguments;  // clear integers: a factor, a shift amount, a table
  Type type{};                          // of the result, where the operation does not tell (convert)
  std::string variant;                  // empty, or an algorithm that the operation has in the set's family
  Goal goal = Goal::automatic;
};
/// Every operation's name.
std::vector<std::string> operations();
/// Runs an operation over whole tensors, whose shapes broadcast as in NumPy; results in order. Operands of one key and one
/// set, else WrongKeyError or MismatchError. Throws DtypeError for types it does not take.
/// Operands that show the same ciphertexts are known as such, and their noise counts as one; those that meet themselves on some
/// elements only are refreshed first. Copies are not known: docs/tfhe.md, "Failure". Results may share storage with operands.
std::vector<Ciphertext> compute(const EvaluationKeys& keys, const Operation& operation,
                                const std::vector<Ciphertext>& operands, const Progress& progress = {});
/// What it would take: bootstraps for one element, and layers.
struct Cost {
  std::size_t bootstraps = 0, layers = 0;
};
Cost cost(const Parameters& parameters, const Operation& operation, const std::vector<Type>& types);

// Along axes; each is a few computations however many elements there are. Sums of more than 64 terms go in rounds.
/// Sum along an axis: of integers in their own type (wraps), of booleans in `type`.
Ciphertext sum(const EvaluationKeys& keys, const Ciphertext& a, std::size_t axis, Type type, const Progress& progress = {});
/// Matrix products of integers, [..., M, K] by [..., K, N]; batch axes broadcast. `algorithm`: empty, a dot product for each
/// element; "cannon", of square matrices: products and sums cycle by cycle, operands turned in between (Cannon 1969).
/// `operation`: its variant and goal, of the products.
Ciphertext matmul(const EvaluationKeys& keys, const Ciphertext& a, const Ciphertext& b, const std::string& algorithm = "",
                  const Operation& operation = {}, const Progress& progress = {});

// Shapes: nothing is computed.
Ciphertext reshape(const Ciphertext& a, const Shape& shape);
Ciphertext transpose(const Ciphertext& a, const std::vector<std::size_t>& order);
Ciphertext slice(const Ciphertext& a, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count);
Ciphertext index(const Ciphertext& a, std::size_t axis, std::size_t position);
Ciphertext broadcast_to(const Ciphertext& a, const Shape& shape);
Ciphertext concatenate(const std::vector<Ciphertext>& parts, std::size_t axis);

}  // namespace tfhe
}  // namespace heliograph
