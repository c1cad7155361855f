// What the parameters, keys and tensors of every scheme have. A scheme S names its types (exact.h, ckks.h, tfhe.h); its classes
// add what it alone has. Objects are cheap handles that share immutable data.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heliograph/handle.h"
#include "heliograph/types.h"

namespace heliograph {

/// A parameter set at work on a device.
template <class S>
class ParametersOf {
 public:
  /// Throws ParameterError, or SecurityError where the set is below 128 bits and not marked insecure.
  explicit ParametersOf(const typename S::Spec& spec);
  explicit ParametersOf(std::shared_ptr<typename S::Context> context) : context_(std::move(context)) {}
  /// The same set on a device of its own ("cpu:avx2", "ref", "null", ...). For tests and for counting.
  typename S::Parameters on_device(const std::string& device) const;
  const typename S::Spec& spec() const;
  std::string device() const;
  bool secure() const;
  int security_bits() const;  // 128, or a rough lower level
  std::string hash() const;   // SHA-256 of the defining numbers, hex
  /// Throws OutOfMemoryError, naming the purpose, where the device has fewer bytes left.
  void require_memory(std::size_t bytes, const std::string& purpose) const;
  /// Bytes the device has left.
  std::size_t free_memory() const;
  /// What a null device has counted since it was opened or reset; throws ParameterError on others.
  struct Count {
    std::string kernel;
    std::uint64_t calls, bytes_read, bytes_written, products;
  };
  std::vector<Count> counts() const;
  void reset_counts() const;
  std::size_t peak_bytes() const;
  bool operator==(const ParametersOf& other) const { return context_ == other.context_; }
  const std::shared_ptr<typename S::Context>& context() const { return context_; }

 private:
  std::shared_ptr<typename S::Context> context_;
};

/// The same of a scheme of polynomials modulo a chain of primes: BFV, BGV, CKKS.
template <class S>
class RingParametersOf : public ParametersOf<S> {
 public:
  using ParametersOf<S>::ParametersOf;
  double log_q() const;
  double log_qp() const;
  std::size_t slots() const;
  std::size_t switch_key_bytes() const;
};

/// What all objects of a parameter set are.
template <class S, class Data>
class ObjectOf {
 public:
  ObjectOf() = default;
  explicit ObjectOf(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  const Data& data() const { return *data_; }
  /// Whether no copy of this handle holds its data too: what changes it then changes nothing else.
  bool unique() const { return data_.unique(); }
  typename S::Parameters parameters() const;

 protected:
  Handle<Data> data_;
};

/// A tensor of ciphertexts.
template <class S>
class CiphertextOf : public ObjectOf<S, typename S::CiphertextData> {
 public:
  using ObjectOf<S, typename S::CiphertextData>::ObjectOf;
  std::string key_id() const;
  Shape shape() const;
  bool seeded() const;
  std::size_t bytes() const;
  /// Blocks until it is computed, on a device that computes while its caller goes on. Only a stopwatch needs it.
  void wait() const;
  Bytes to_bytes() const;
  /// The same bytes to `sink`, of which memory never holds all, and how many they are. What `sink` throws comes out of it.
  void write(const Sink& sink) const;
  std::size_t written_bytes() const;
  void save(const std::string& path) const;
  /// Throws FormatError and its kinds; MismatchError and LimitError for what is not allowed.
  static typename S::Ciphertext from_bytes(std::span<const std::byte> bytes, const Allowed& allowed = {});
  /// As from_bytes, while the bytes come: each is read once `arrived` has returned for it, and nobody changes it then. What
  /// `arrived` throws comes out. ParameterError over several processes.
  static typename S::Ciphertext from_coming(std::span<const std::byte> bytes, const Arrival& arrived,
                                            const Allowed& allowed = {});
  static typename S::Ciphertext load(const std::string& path, const Allowed& allowed = {});
};

/// A key that others may have: nothing in it decrypts.
template <class S, class Data, class Key>
class OpenKeyOf : public ObjectOf<S, Data> {
 public:
  using ObjectOf<S, Data>::ObjectOf;
  std::string key_id() const;
  Bytes to_bytes() const;
  void save(const std::string& path) const;
  /// Throws FormatError and its kinds.
  static Key from_bytes(std::span<const std::byte> bytes);
  /// Evaluation keys that would take more than `memory` bytes of the host's memory stay in their file: each is read again when it
  /// is used, compared with what was read before (DamagedFileError, also where the file was changed), and leaves when others
  /// need the room. LimitError: other keys that are larger, less memory than for one key, or a use of more keys at once.
  static Key load(const std::string& path, std::size_t memory = Allowed{}.bytes);
};

/// Over several processes (docs/ranks.md) it lies in the first alone, which encrypts its own values; all see what is decrypted.
template <class S>
class SecretKeyOf : public ObjectOf<S, typename S::SecretKeyData> {
 public:
  using ObjectOf<S, typename S::SecretKeyData>::ObjectOf;
  static typename S::SecretKey generate(const typename S::Parameters& parameters);
  /// Known answers for tests: every draw follows from `seed` (32 bytes). Never use it for data.
  static typename S::SecretKey generate_for_test(const typename S::Parameters& parameters, const std::string& seed);
  std::string key_id() const;
  /// Explicit, mode 0600.
  void save(const std::string& path) const;
  static typename S::SecretKey load(const std::string& path);
  /// The same as bytes, in memory that is not wiped: whoever has them decrypts. ParameterError over several processes.
  Bytes secret_bytes() const;
  static typename S::SecretKey from_secret_bytes(std::span<const std::byte> bytes);
};

}  // namespace heliograph
