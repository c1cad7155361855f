// Secret, public and evaluation keys as different types, so that a server's keys cannot decrypt.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "device/residents.h"
#include "io/container.h"
#include "ring/entropy.h"
#include "rlwe/context.h"

namespace heliograph::rlwe {

using math::Key256;

/// The `purpose` of each draw (math/sampler.h). Masks come from public seeds, all other draws from secret seeds.
enum Purpose : unsigned char { kMask = 1, kSecret = 2, kError = 3, kKeyMask = 4, kKeyError = 5, kEphemeral = 6 };

using ring::Entropy;

/// A secret key. With several processes only the key holder has the coefficients (device/device.h), in its own context. The
/// other processes know the key's id.
class SecretKey {
 public:
  static SecretKey generate(std::shared_ptr<Context> context, Entropy& entropy);
  /// Generates a key with `weight` nonzero coefficients and no id; ciphertexts are switched to it and back.
  static SecretKey generate_sparse(std::shared_ptr<Context> context, std::size_t weight, Entropy& entropy);
  /// Makes a key that only another process has: it has an id, but no context and no coefficients.
  explicit SecretKey(const KeyId& id) : id_(id) {}
  /// Makes a key from coefficients in {-1, 0, 1}. Throws DamagedFileError for other coefficients.
  SecretKey(std::shared_ptr<Context> context, SecretVector<signed char> coefficients, KeyId id);

  const std::shared_ptr<Context>& context() const { return context_; }
  const KeyId& id() const { return id_; }
  const SecretVector<signed char>& coefficients() const { return coefficients_; }
  /// Returns s in the NTT domain, over the chain and the special primes.
  const RnsTensor& transformed() const { return transformed_; }

 private:
  std::shared_ptr<Context> context_;
  KeyId id_;
  SecretVector<signed char> coefficients_;
  RnsTensor transformed_;
};

/// Memory limit on the host for the keys of a file. If the limit is reached, the least recently used keys are evicted.
class KeyRoom : public std::enable_shared_from_this<KeyRoom> {
 public:
  explicit KeyRoom(std::size_t bytes) : bytes_(bytes) {}
  /// Reserves memory as long as the result lives. Throws LimitError if the keys in use leave too little.
  std::shared_ptr<const void> take(std::size_t bytes);
  device::Residents& residents() { return residents_; }

 private:
  const std::size_t bytes_;
  std::atomic<std::size_t> taken_{0};
  std::mutex mutex_;  // evictions hold this mutex
  device::Residents residents_;
};

struct KeyLayout {
  PrimeList primes;
  std::size_t digits = 0;

  /// Returns the layout of keys with the parameters' gadget: all chain primes, then the special primes.
  static KeyLayout of(const Gadget& gadget) { return {gadget.primes(), gadget.ends.size()}; }
  static KeyLayout of(const Context& context) { return {context.key_primes(), context.parameters().digits.size()}; }
  std::size_t bytes(const Context& context) const { return 2 * digits * context.polynomial_bytes(primes.size()); }
};

/// Encryptions of a multiple of another secret, one pair for each digit: component 2j is the body and 2j+1 the mask, in the
/// NTT domain. The object is a handle: copies refer to the same key. If other work needs the device's memory, the pairs are
/// evicted. The next use restores the pairs with the same bits: bodies from the host or a file, masks from their seed.
/// Thread-safe.
class SwitchKey {
 public:
  /// Makes a key from pairs on the device; `pairs` must have no other owner.
  SwitchKey(const Key256& seed, RnsTensor pairs);
  /// Makes a key from its bodies; the first use makes the pairs on the device.
  SwitchKey(const Context& context, const KeyLayout& layout, const Key256& seed, io::Held bodies);
  /// Makes a key whose bodies are read by `bodies` at each use, within the memory limit `room`.
  SwitchKey(const Context& context, const KeyLayout& layout, const Key256& seed, std::function<io::Held()> bodies,
            std::shared_ptr<KeyRoom> room);

  const Key256& seed() const;
  /// Returns the pairs, 2 * digits components. The pairs stay on the device as long as the returned tensor or a copy of it
  /// exists. Throws OutOfMemoryError; for keys in a file also LimitError, DamagedFileError and FileError.
  RnsTensor pairs() const;
  /// Returns whether `memory` has the pairs; false if they are evicted.
  bool lies_in(const device::Memory& memory) const;
  KeyLayout layout() const;
  /// Returns the bytes of the pairs, whether they are on the device or evicted.
  std::size_t bytes() const;
  /// Returns the bodies in the order of files: digit by digit, limb by limb. May wait for the device.
  io::Held bodies() const;

 private:
  class Pairs;
  std::shared_ptr<Pairs> pairs_;
};
/// Makes a key whose pair j encrypts messages(j) under `secret`. A message is a polynomial in the NTT domain over the
/// layout's primes. An error is the sum of `errors` Gaussians of deviation 3.19.
SwitchKey make_key(const SecretKey& secret, const KeyLayout& layout, const std::function<RnsTensor(std::size_t)>& messages,
                   Entropy& entropy, std::size_t errors = 1);
SwitchKey make_relinearization_key(const SecretKey& secret, Entropy& entropy);
SwitchKey make_rotation_key(const SecretKey& secret, u64 galois, Entropy& entropy);
/// Makes a key of another gadget than the parameters' own.
SwitchKey make_rotation_key(const SecretKey& secret, u64 galois, const Gadget& gadget, Entropy& entropy);

/// A public key. Only the key holder has the pair, because only it encrypts. Other processes have the id.
struct PublicKey {
  std::shared_ptr<Context> context;
  KeyId id;
  Key256 seed{};
  RnsTensor pair;  // components (b, a), NTT domain; chain primes, and optionally the special primes

  /// Returns whether the pair has limbs of the special primes. Encryptions by such a key are divided by the special primes,
  /// which reduces the key's error.
  bool divides() const;
};
/// Makes a public key over `primes`: the chain, or the chain and the special primes.
PublicKey make_public_key(const SecretKey& secret, const PrimeList& primes, Entropy& entropy);
PublicKey expand_public_key(std::shared_ptr<Context> context, KeyId id, const Key256& seed, const RnsTensor& body);

/// Further keys for CKKS bootstrapping (schemes/ckks/bootstrapping.h).
struct BootstrappingKeys {
  SwitchKey to_sparse;                       // switches the secret key to a sparse one, at the lowest level
  SwitchKey first_matrix;                    // switches back to the secret key, with the first matrix on the slots
  std::map<u64, SwitchKey> to_coefficients;  // rotations at the lowest levels, by Galois element
};
struct BootstrappingLayouts {
  KeyLayout to_sparse, first_matrix, to_coefficients;
  std::vector<u64> turns;  // Galois elements of to_coefficients, ascending

  std::size_t bytes(const Context& context) const {
    return to_sparse.bytes(context) + first_matrix.bytes(context) + turns.size() * to_coefficients.bytes(context);
  }
};

struct EvaluationKeys {
  std::shared_ptr<Context> context;
  KeyId id;
  std::optional<SwitchKey> relinearization;
  std::map<u64, SwitchKey> rotations;  // rotation keys by Galois element
  /// Rotation keys for ciphertexts of a level and below, by level and Galois element.
  std::map<std::size_t, std::map<u64, SwitchKey>> level_rotations;
  std::optional<BootstrappingKeys> bootstrapping;
  std::map<std::string, SwitchKey> of_programs;  // keys of instruction programs, by name

  /// Returns the number of a rotation key for a level.
  static u64 level_number(std::size_t level, u64 galois) { return u64{level} << 32 | galois; }
  /// Calls f(number, key) for each key; the number identifies its kind in every set. Galois elements are odd and below 2^18.
  template <class F>
  void each(F f) const {
    if (relinearization) f(u64{0}, *relinearization);
    for (const auto& [galois, key] : rotations) f(galois, key);
    for (const auto& [level, keys] : level_rotations)
      for (const auto& [galois, key] : keys) f(level_number(level, galois), key);
    for (const auto& [name, key] : of_programs) f(u64{1} << 63 | std::hash<std::string>()(name), key);
    if (!bootstrapping) return;
    f(u64{2}, bootstrapping->to_sparse), f(u64{4}, bootstrapping->first_matrix);
    for (const auto& [galois, key] : bootstrapping->to_coefficients) f((u64{1} << 20) + galois, key);
  }
};

/// Write encryptions of zero to `out`: one batch axis, two components, coefficient domain, no other owner. `first_item` is
/// the batch index of the first item. `seed` generates the masks. `times` multiplies the error; with a public key, whose
/// encryptions are not seeded, it multiplies the whole encryption. A public key that divides encrypts modulo Q P and
/// requires `times` = 1.
void encrypt_zero(const SecretKey& secret, const Key256& seed, const Key256& error_seed, math::u32 first_item,
                  const RnsTensor& out, u64 times = 1);
void encrypt_zero(const PublicKey& key, const Key256& secret_seed, math::u32 first_item, const RnsTensor& out,
                  u64 times = 1);
/// Fills the masks of a seeded encryption: component 1, as in encrypt_zero.
void fill_masks(const RnsTensor& target, const Key256& seed, math::u32 first_item);

/// Returns the secret polynomial c_0 + c_1 s + c_2 s^2 + ... in the coefficient domain, as one component.
RnsTensor phase(const SecretKey& secret, const RnsTensor& ciphertext);

}  // namespace heliograph::rlwe
