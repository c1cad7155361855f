// Parameters, keys and tensors: the interface common to all schemes. A scheme S lists its types (exact.h, ckks.h, tfhe.h);
// its classes add their own members. Objects are cheap handles that share immutable data.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heliograph/handle.h"
#include "heliograph/types.h"

namespace heliograph {

/// A parameter set on a device.
template <class S>
class ParametersOf {
 public:
  /// Throws ParameterError, or SecurityError if the set has less than 128 bits of security and is not marked insecure.
  explicit ParametersOf(const typename S::Spec& spec);
  explicit ParametersOf(std::shared_ptr<typename S::Context> context) : context_(std::move(context)) {}
  /// Returns the same set on a separate device ("cpu:avx2", "ref", "null", ...), for tests and for counting.
  typename S::Parameters on_device(const std::string& device) const;
  const typename S::Spec& spec() const;
  std::string device() const;
  bool secure() const;
  int security_bits() const;  // returns 128, or a rough lower estimate
  std::string hash() const;   // SHA-256 of the defining numbers, in hex
  /// Returns the defining numbers and the name as JSON, as files have them.
  std::string to_json() const;
  /// Reads a set that `to_json` wrote, and compares it with its hash. Throws DamagedFileError, SecurityError.
  static typename S::Parameters from_json(const std::string& text, const std::string& hash);
  /// Throws OutOfMemoryError, which names `purpose`, if the device has fewer than `bytes` free.
  void require_memory(std::size_t bytes, const std::string& purpose) const;
  /// Returns the free bytes of the device.
  std::size_t free_memory() const;
  /// Calls of one kernel that a null device has counted since it was opened or reset. `counts` throws ParameterError on
  /// other devices.
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

/// Parameters of a scheme over polynomials modulo a chain of primes: BFV, BGV, CKKS.
template <class S>
class RingParametersOf : public ParametersOf<S> {
 public:
  using ParametersOf<S>::ParametersOf;
  double log_q() const;
  double log_qp() const;
  std::size_t slots() const;
  std::size_t switch_key_bytes() const;
};

/// Base of all objects that belong to a parameter set.
template <class S, class Data>
class ObjectOf {
 public:
  ObjectOf() = default;
  explicit ObjectOf(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  const Data& data() const { return *data_; }
  /// Returns whether no other handle shares the data, so that an in-place update affects no other object.
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
  /// Blocks until the tensor is computed. Only time measurements need this wait.
  void wait() const;
  Bytes to_bytes() const;
  /// Streams the bytes of `to_bytes` to `sink` without holding all of them in memory. Exceptions of `sink` propagate.
  /// `written_bytes` returns the number of streamed bytes.
  void write(const Sink& sink) const;
  std::size_t written_bytes() const;
  void save(const std::string& path) const;
  /// Throws FormatError or a subclass; MismatchError or LimitError if the tensor exceeds `allowed`.
  static typename S::Ciphertext from_bytes(std::span<const std::byte> bytes, const Allowed& allowed = {});
  /// Same as from_bytes, but accepts bytes that are still arriving. Calls `arrived(n)` before it reads the first n bytes;
  /// the caller must not change these bytes afterwards. Exceptions of `arrived` propagate. Throws ParameterError over
  /// several processes.
  static typename S::Ciphertext from_incoming(std::span<const std::byte> bytes, const Arrival& arrived,
                                              const Allowed& allowed = {});
  static typename S::Ciphertext load(const std::string& path, const Allowed& allowed = {});
};

/// A key that may be published: it cannot decrypt.
template <class S, class Data, class Key>
class OpenKeyOf : public ObjectOf<S, Data> {
 public:
  using ObjectOf<S, Data>::ObjectOf;
  std::string key_id() const;
  Bytes to_bytes() const;
  void save(const std::string& path) const;
  /// Throws FormatError or a subclass.
  static Key from_bytes(std::span<const std::byte> bytes);
  /// Evaluation keys larger than `memory` bytes of host memory stay in their file. Each key in a file is read at its use and
  /// evicted when others need its memory. A key that changed since the first read is a DamagedFileError. Throws LimitError
  /// if another kind of key exceeds `memory`, if `memory` cannot hold one key, or if an operation needs more keys at once.
  static Key load(const std::string& path, std::size_t memory = Allowed{}.bytes);
};

/// Keys for products and rotations: BFV, BGV, CKKS.
template <class S>
class RotationKeysOf : public OpenKeyOf<S, typename S::EvaluationKeysData, typename S::EvaluationKeys> {
 public:
  using OpenKeyOf<S, typename S::EvaluationKeysData, typename S::EvaluationKeys>::OpenKeyOf;
  bool has_relinearization() const;
  /// Returns the steps of rotations with a key, ascending. CKKS: to the left; BFV and BGV: along rows.
  std::vector<std::int64_t> rotations() const;
  /// Returns the same keys with composed rotations: a rotation without a key uses the fewest rotations with keys, at most
  /// `most` key switches. With 1, the default of new and loaded keys, a missing rotation is a MissingKeyError. Throws
  /// ParameterError for 0.
  typename S::EvaluationKeys composing(std::size_t most) const;
  std::size_t most_switches() const;
  /// Returns the fewest steps with keys that compose a rotation, in order of application; nullopt if none do. `switches`
  /// returns the number of steps of the composition. Neither function applies the limit `most_switches`.
  std::optional<std::vector<std::int64_t>> composition(std::int64_t steps) const;
  std::optional<std::size_t> switches(std::int64_t steps) const;
  /// Returns a divisor d and a number m: these keys compose every rotation by a multiple of d in at most m key switches.
  std::pair<std::size_t, std::size_t> reach() const;
  /// Returns the step whose additional key minimises the total key switches of the given rotations.
  std::int64_t cheapest(const std::vector<std::int64_t>& steps) const;
  std::vector<std::string> of_programs() const;  // names of the keys for instruction programs (cinnamon.h)
  std::size_t bytes() const;
};

/// Over several processes (docs/ranks.md) only rank 0 holds the secret key and encrypts, from its own values. All ranks
/// receive decrypted values.
template <class S>
class SecretKeyOf : public ObjectOf<S, typename S::SecretKeyData> {
 public:
  using ObjectOf<S, typename S::SecretKeyData>::ObjectOf;
  static typename S::SecretKey generate(const typename S::Parameters& parameters);
  /// Derives every random draw from `seed` (32 bytes), for known-answer tests. Never use a key from a known seed for data.
  static typename S::SecretKey generate_for_test(const typename S::Parameters& parameters, const std::string& seed);
  std::string key_id() const;
  /// Writes the key unencrypted, with file mode 0600.
  void save(const std::string& path) const;
  static typename S::SecretKey load(const std::string& path);
  /// Returns the unencrypted key, in memory that is not wiped. Anyone who has these bytes can decrypt. Throws ParameterError
  /// over several processes.
  Bytes secret_bytes() const;
  static typename S::SecretKey from_secret_bytes(std::span<const std::byte> bytes);
};

}  // namespace heliograph
