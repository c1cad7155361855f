// TFHE: exact computation of any depth on encrypted booleans and integers (Chillotti et al., ePrint 2018/421).
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

/// Distribution of fresh encryption errors, in units of 2^-64 turns.
struct Noise {
  bool tuniform = true;  // TUniform(b): integers in [-2^b, 2^b], the two ends half as likely; else a rounded Gaussian
  double value = 0;      // b; or log2 of the Gaussian's standard deviation as a fraction of a turn (negative)
  bool operator==(const Noise&) const = default;
};

/// The numbers that define a parameter set.
struct Spec {
  std::string name;                      // empty if unnamed
  std::size_t n = 0, k = 0, degree = 0;  // LWE dimension, GLWE dimension, N
  Noise lwe_noise, glwe_noise;           // errors under the narrow (dimension n) and the wide (k * N) key
  // Gadgets: number of digits (files and Python: levels), each of base 2^log_base.
  unsigned bootstrap_log_base = 0, bootstrap_levels = 0;
  unsigned switch_log_base = 0, switch_levels = 0;
  unsigned group = 2;  // key bits per step of blind rotation
  unsigned message_bits = 0,
           carry_bits = 0;  // message bits of a digit, below one padding bit; 0: booleans, encoded as -1/8 and 1/8 turns
  unsigned norm = 0;        // norm: largest sum of squared weights in a bootstrap's input
  bool insecure = false;    // allows less than 128 bits of security
  bool operator==(const Spec&) const = default;
};
/// Returns the set "2_2", "2_2/p64", "1_1", "1_1/p64", "boolean", "boolean/p64", "morshed-2020" and so on. Throws
/// ParameterError, which lists the names, for any other.
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

/// Types of TFHE (objects.h).
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

/// Each variance is a log2, in squared turns.
struct Variances {
  double fresh = 0, bootstrap = 0, key_switch = 0, modulus_switch = 0;
};

class Parameters : public ParametersOf<Scheme> {
 public:
  using ParametersOf::ParametersOf;
  /// Returns log2 of the probability that a bootstrap at the largest norm returns a wrong value.
  double log2_failure() const;
  /// Returns the predicted variance that each step adds (bootstrap: of its result).
  Variances predicted() const;
  bool is_boolean() const { return spec().message_bits == 0; }
  std::size_t lwe_bytes() const;  // size of one wide LWE ciphertext in memory
  std::size_t bootstrap_key_bytes() const, switch_key_bytes() const;
  /// Returns the number of concurrent bootstraps that saturates the device.
  std::size_t parallel_bootstraps() const;
};

/// Element type of a tensor.
struct Type {
  bool boolean = true;
  unsigned bits = 1;  // bits of an integer: 8, 16, 24, 32, 64 (or any multiple of a digit's message bits up to 64)
  bool is_signed = false;
  /// Returns "bool", "uint32", "int8" and so on.
  std::string text() const;
  bool operator==(const Type&) const = default;
};
/// Parses the text of a type. Throws DtypeError.
Type type_of(const std::string& text);

/// A tensor of encrypted booleans or integers.
class Ciphertext : public CiphertextOf<Scheme> {
 public:
  using CiphertextOf::CiphertextOf;
  Type type() const;
  /// Returns the LWE ciphertexts per element.
  std::size_t wires() const;
};

/// Bootstrapping key and key-switching key, for the server.
class EvaluationKeys : public OpenKeyOf<Scheme, EvaluationKeysData, EvaluationKeys> {
 public:
  using OpenKeyOf::OpenKeyOf;
  std::size_t bytes() const;
};

class SecretKey : public SecretKeyOf<Scheme> {
 public:
  using SecretKeyOf::SecretKeyOf;
  EvaluationKeys evaluation_keys() const;
  /// Encrypts. Masks are stored as 32-byte seeds. Values are reduced modulo 2^bits (booleans: 0 or 1). Throws ShapeError,
  /// PlaintextRangeError.
  Ciphertext encrypt(const std::vector<std::uint64_t>& values, const Shape& shape, Type type) const;
  /// Returns the values, sign-extended if the type is signed. Throws WrongKeyError, MismatchError, NoiseError.
  std::vector<std::uint64_t> decrypt(const Ciphertext& ciphertext) const;
  /// Returns the signed error of each LWE ciphertext in turns, [element][wire]: phase minus the nearest value. The function
  /// is for tests of the noise.
  std::vector<double> errors(const Ciphertext& ciphertext) const;
};

/// Returns clear values as a noiseless tensor (a trivial encryption), usable as an operand under any key. The result hides
/// nothing.
Ciphertext trivial(const EvaluationKeys& keys, const std::vector<std::uint64_t>& values, const Shape& shape, Type type);

/// Circuit to use for an operation: the circuit with the fewest bootstraps or with the fewest layers. The circuits of both
/// choices give equal results.
enum class Goal : unsigned char { automatic, fewest, shallow };

/// An operation's name and clear arguments (docs/tfhe.md, `operations()`).
struct Operation {
  std::string name;
  std::vector<std::int64_t> arguments;  // clear integers: a factor, a shift amount, a table
  Type type{};                          // type of the result, if the operation does not determine it (convert)
  std::string variant;                  // an algorithm that the set's circuits have for the operation; empty: the default
  Goal goal = Goal::automatic;
};
/// Returns the names of all operations.
std::vector<std::string> operations();
/// Applies an operation to whole tensors, with NumPy's broadcasting; returns its results in order. Operands must have the
/// same key (WrongKeyError) and set (MismatchError). Throws DtypeError for types that the operation does not take.
///
/// The noise of operands that are views of the same ciphertexts is correlated and counted once. Operands that share only
/// some elements are refreshed first. Copies are not detected (docs/tfhe.md, "Failure"). Results may share storage with
/// operands.
std::vector<Ciphertext> compute(const EvaluationKeys& keys, const Operation& operation,
                                const std::vector<Ciphertext>& operands);
/// Cost of an operation: bootstraps per element, and layers.
struct Cost {
  std::size_t bootstraps = 0, layers = 0;
};
Cost cost(const Parameters& parameters, const Operation& operation, const std::vector<Type>& types);

// Reduce axes in a few computations, for any number of elements. Sums of more than 64 terms take several rounds.
/// Sums along an axis: integers in their own type (wrapping), booleans in `type`.
Ciphertext sum(const EvaluationKeys& keys, const Ciphertext& a, std::size_t axis, Type type);
/// Matrix products of integers, [..., M, K] by [..., K, N]; batch axes broadcast. `algorithm`: "" computes one dot product
/// per element. "cannon", for square matrices: rounds of products and sums with rotated operands (Cannon, 1969).
/// `operation`: variant and goal of the products.
Ciphertext matmul(const EvaluationKeys& keys, const Ciphertext& a, const Ciphertext& b, const std::string& algorithm = "",
                  const Operation& operation = {});

// Shape operations return views and compute nothing.
Ciphertext reshape(const Ciphertext& a, const Shape& shape);
Ciphertext transpose(const Ciphertext& a, const std::vector<std::size_t>& order);
Ciphertext slice(const Ciphertext& a, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count);
Ciphertext index(const Ciphertext& a, std::size_t axis, std::size_t position);
Ciphertext broadcast_to(const Ciphertext& a, const Shape& shape);
Ciphertext concatenate(const std::vector<Ciphertext>& parts, std::size_t axis);

}  // namespace tfhe
}  // namespace heliograph
