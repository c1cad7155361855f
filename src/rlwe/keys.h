// Secret, public and evaluation material: different types, so that what a server holds cannot decrypt.
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

/// The `purpose` of each draw (math/sampler.h). Public seeds (mask) and secret seeds (the rest) are drawn apart.
enum Purpose : unsigned char { kMask = 1, kSecret = 2, kError = 3, kKeyMask = 4, kKeyError = 5, kEphemeral = 6 };

using ring::Entropy;

/// With several processes the coefficients of a secret key are on the key holder alone (device/device.h), in its own context; the
/// other processes know the key's id.
class SecretKey {
 public:
  static SecretKey generate(std::shared_ptr<Context> context, Entropy& entropy);
  /// One with `weight` coefficients that are not 0, of no name: for switching to it and back.
  static SecretKey generate_sparse(std::shared_ptr<Context> context, std::size_t weight, Entropy& entropy);
  /// A key that another process has: no context, no coefficients.
  explicit SecretKey(const KeyId& id) : id_(id) {}
  /// From coefficients in {-1, 0, 1}. Throws DamagedFileError for others.
  SecretKey(std::shared_ptr<Context> context, SecretVector<signed char> coefficients, KeyId id);

  const std::shared_ptr<Context>& context() const { return context_; }
  const KeyId& id() const { return id_; }
  const SecretVector<signed char>& coefficients() const { return coefficients_; }
  /// s in the NTT domain, over the chain and the special primes.
  const RnsTensor& transformed() const { return transformed_; }

 private:
  std::shared_ptr<Context> context_;
  KeyId id_;
  SecretVector<signed char> coefficients_;
  RnsTensor transformed_;
};

/// The host's memory that keys kept in a file may take, all of a set together: those used longest ago leave for others.
class KeyRoom : public std::enable_shared_from_this<KeyRoom> {
 public:
  explicit KeyRoom(std::size_t bytes) : bytes_(bytes) {}
  /// Taken until what is returned goes. LimitError where keys in use leave too little.
  std::shared_ptr<const void> take(std::size_t bytes);
  device::Residents& residents() { return residents_; }

 private:
  const std::size_t bytes_;
  std::atomic<std::size_t> taken_{0};
  std::mutex mutex_;  // while room is made
  device::Residents residents_;
};

/// The primes that a key is given in, and its pairs.
struct KeyLayout {
  PrimeList primes;
  std::size_t digits = 0;

  /// Of keys with the parameters' own gadget: all primes of the chain, then the special ones.
  static KeyLayout of(const Context& context) { return {context.key_primes(), context.parameters().digits.size()}; }
  std::size_t bytes(const Context& context) const { return 2 * digits * context.polynomial_bytes(primes.size()); }
};

/// Encryptions of a multiple of another secret, one pair a digit: components 2j (body) and 2j+1 (mask), NTT domain.
/// A handle; copies are the same key. The pairs leave the device when other work runs out of memory, and come back with the
/// same bits at their next use: the bodies from the host or a file, the masks from their seed. Safe from several threads.
class SwitchKey {
 public:
  /// A key that lies on the device, where nobody else holds `pairs`.
  SwitchKey(const Key256& seed, RnsTensor pairs);
  /// The key again from what bodies() returned. Nothing is on the device until its first use.
  SwitchKey(const Context& context, const KeyLayout& layout, const Key256& seed, io::Held bodies);
  /// The same from where they are read at each use, within that room.
  SwitchKey(const Context& context, const KeyLayout& layout, const Key256& seed, std::function<io::Held()> bodies,
            std::shared_ptr<KeyRoom> room);

  /// Of the masks.
  const Key256& seed() const;
  /// Components 2 * digits. They stay on the device as long as this tensor or a copy of it is there. OutOfMemoryError; of a
  /// key in a file LimitError, DamagedFileError, FileError.
  RnsTensor pairs() const;
  /// Whether the pairs are on the device, in that memory.
  bool lies_in(const device::Memory& memory) const;
  KeyLayout layout() const;
  /// Bytes of the pairs, on the device or not.
  std::size_t bytes() const;
  /// The bodies alone, digit by digit, limb by limb: what a file keeps. May wait.
  io::Held bodies() const;

 private:
  class Pairs;
  std::shared_ptr<Pairs> pairs_;
};
/// Pair j encrypts messages(j), a polynomial in the NTT domain over the layout's primes, under the secret.
SwitchKey make_key(const SecretKey& secret, const KeyLayout& layout, const std::function<RnsTensor(std::size_t)>& messages,
                   Entropy& entropy);
SwitchKey make_relinearization_key(const SecretKey& secret, Entropy& entropy);
SwitchKey make_rotation_key(const SecretKey& secret, u64 galois, Entropy& entropy);

/// It encrypts what the key holder alone knows, so it lies where the secret keys do: elsewhere it is its id.
struct PublicKey {
  std::shared_ptr<Context> context;
  KeyId id;
  Key256 seed{};
  RnsTensor pair;  // components (b, a), NTT domain, chain primes and perhaps the special ones

  /// Whether it has the special primes: what it encrypts is divided by them, and most of the key's error with it.
  bool divides() const;
};
/// Over the chain, or over the chain and the special primes.
PublicKey make_public_key(const SecretKey& secret, const PrimeList& primes, Entropy& entropy);
PublicKey expand_public_key(std::shared_ptr<Context> context, KeyId id, const Key256& seed, const RnsTensor& body);

/// What CKKS's bootstrapping needs besides (schemes/ckks/bootstrapping.h).
struct BootstrappingKeys {
  SwitchKey to_sparse;                       // from the secret key to a sparse one, at the lowest level
  SwitchKey first_matrix;                    // the first matrix on the slots, and back to the secret key
  std::map<u64, SwitchKey> to_coefficients;  // rotations at the lowest few levels, by Galois element
};
struct BootstrappingLayouts {
  KeyLayout to_sparse, first_matrix, to_coefficients;
  std::vector<u64> turns;  // of to_coefficients, ascending

  std::size_t bytes(const Context& context) const {
    return to_sparse.bytes(context) + first_matrix.bytes(context) + turns.size() * to_coefficients.bytes(context);
  }
};

struct EvaluationKeys {
  std::shared_ptr<Context> context;
  KeyId id;
  std::optional<SwitchKey> relinearization;
  std::map<u64, SwitchKey> rotations;  // by Galois element
  std::optional<BootstrappingKeys> bootstrapping;
  std::map<std::string, SwitchKey> of_programs;  // of programs of instructions, by their names

  /// f(number, key) for each: a number that a key of its kind has in every set. Galois elements are odd and below 2^18.
  template <class F>
  void each(F f) const {
    if (relinearization) f(u64{0}, *relinearization);
    for (const auto& [galois, key] : rotations) f(galois, key);
    for (const auto& [name, key] : of_programs) f(u64{1} << 63 | std::hash<std::string>()(name), key);
    if (!bootstrapping) return;
    f(u64{2}, bootstrapping->to_sparse), f(u64{4}, bootstrapping->first_matrix);
    for (const auto& [galois, key] : bootstrapping->to_coefficients) f((u64{1} << 20) + galois, key);
  }
};

/// Encryptions of zero into `out`: one batch axis, two components, coefficient domain, not seen by anyone yet.
/// `first_item` numbers the batch. The masks come from `seed`. `times` multiplies the error; with a public key, whose
/// encryptions are not seeded, all of it. A key that divides encrypts modulo Q P; `times` is 1 then.
void encrypt_zero(const SecretKey& secret, const Key256& seed, const Key256& error_seed, math::u32 first_item,
                  const RnsTensor& out, u64 times = 1);
void encrypt_zero(const PublicKey& key, const Key256& secret_seed, math::u32 first_item, const RnsTensor& out,
                  u64 times = 1);
/// The masks of a seeded encryption: component 1 of encrypt_zero.
void fill_masks(const RnsTensor& target, const Key256& seed, math::u32 first_item);

/// c_0 + c_1 s + c_2 s^2 + ..., coefficient domain, one component; secret.
RnsTensor phase(const SecretKey& secret, const RnsTensor& ciphertext);

}  // namespace heliograph::rlwe
