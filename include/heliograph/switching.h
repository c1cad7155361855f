// Switching between CKKS and TFHE: values in slots become exact encrypted integers, on which every operation of TFHE works,
// and booleans or integers become values in slots (docs/switching.md, docs/adr/0038). Both secret keys belong to one owner.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "heliograph/ckks.h"
#include "heliograph/tfhe.h"

namespace heliograph::switching {

struct KeysData;

/// The keys that switch between one CKKS key and one TFHE key. Switching keys do not decrypt.
class Keys {
 public:
  Keys() = default;
  explicit Keys(std::shared_ptr<const KeysData> data) : data_(std::move(data)) {}
  /// Makes the keys from both secret keys. Throws ParameterError for a pair of sets that cannot switch; MismatchError for
  /// sets on two devices. Throws SecurityError if the keys would have less than 128 bits of security and neither set is
  /// insecure.
  static Keys make(const ckks::SecretKey& ckks, const tfhe::SecretKey& tfhe);
  ckks::Parameters ckks_parameters() const;
  tfhe::Parameters tfhe_parameters() const;
  std::string ckks_key_id() const;
  std::string tfhe_key_id() const;
  /// Returns the bytes of the keys on the device.
  std::size_t bytes() const;
  Bytes to_bytes() const;
  void save(const std::string& path) const;
  /// Throws FormatError or a subclass.
  static Keys from_bytes(std::span<const std::byte> bytes);
  static Keys load(const std::string& path);
  const KeysData& data() const { return *data_; }

 private:
  Handle<KeysData> data_;
};

/// Returns the default unit of to_tfhe: the smallest power of two for which value / unit fits a signed integer of `bits`
/// bits, for every value within the public bound of x. Throws PlaintextRangeError if there is no bound.
double unit_for(const ckks::Ciphertext& x, unsigned bits);

/// Returns log2 of the probability that a value, an exact multiple of the unit, becomes another integer. The probability is
/// a sum over the bootstraps of the value, without the error of the CKKS value.
double log2_failure(const Keys& keys, unsigned bits);

/// Returns x / unit, rounded, as signed integers of `bits` bits. The result has the shape of x, and the slots as last axis.
/// A `unit` of 0 stands for unit_for(x, bits). Takes 2 bits / message_bits - 1 bootstraps for each value. x needs level
/// `parameters().bootstrapping_level()` or above. Throws WrongKeyError and MismatchError for keys that do not belong
/// together; LevelError; ScaleError. Throws MissingKeyError for CKKS keys without bootstrapping. Throws DtypeError for
/// complex values, and if `bits` is not a multiple of the bits of a digit. Throws PlaintextRangeError if the known bound of
/// the values exceeds the integers. Throws NoiseError if the error of a value before it is rounded may reach half a unit.
tfhe::Ciphertext to_tfhe(const ckks::Ciphertext& x, unsigned bits, double unit, const Keys& keys,
                         const ckks::EvaluationKeys& ckks_keys, const tfhe::EvaluationKeys& tfhe_keys);

/// A relation of an integer to 0.
enum class Relation { less, less_equal, greater, greater_equal };

/// Returns whether x / unit, rounded, has the relation to 0, as booleans. The result has the shape of x, and the slots as
/// last axis. The rounded integers have `bits` bits, which need not be a multiple of the bits of a digit. With the set "2_2"
/// each value takes about bits / 4 bootstraps, the fewest for which a result is wrong with probability at most 2^-128. Other
/// arguments and the errors are those of to_tfhe.
tfhe::Ciphertext compare(const ckks::Ciphertext& x, Relation relation, unsigned bits, double unit, const Keys& keys,
                         const ckks::EvaluationKeys& ckks_keys, const tfhe::EvaluationKeys& tfhe_keys);

/// Returns `unit` times the booleans or integers of y, whose last axis becomes the slots. The result is at the top level
/// less the depth of a polynomial of degree 2^message_bits - 1, and for integers of several digits one level more. Each
/// digit takes a functional bootstrap of all values (ckks.h), which squares its error. Throws WrongKeyError and
/// MismatchError for keys that do not belong together; LevelError. Throws MissingKeyError for CKKS keys without
/// bootstrapping. Throws ShapeError if y has no axis, or more values along the last one than slots. Throws NoiseError if the
/// digits of the set are too noisy.
ckks::Ciphertext to_ckks(const tfhe::Ciphertext& y, double unit, const Keys& keys, const ckks::EvaluationKeys& ckks_keys);

}  // namespace heliograph::switching
