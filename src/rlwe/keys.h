// Secret, public and evaluation material: different types, so that what a server holds cannot decrypt.
#pragma once

#include <map>
#include <optional>

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

/// Encryptions of a multiple of another secret, one pair a digit: components 2j (body) and 2j+1 (mask), NTT domain.
/// A handle; copies are the same key. The pairs leave the device when other work runs out of memory, and come back with the
/// same bits at their next use: the bodies from the host, the masks from their seed. Safe from several threads.
class SwitchKey {
 public:
  using Bytes = std::vector<std::byte>;

  /// A key that lies on the device, where nobody else holds `pairs`.
  SwitchKey(const Key256& seed, RnsTensor pairs);
  /// The key again from what bodies() returned. Nothing is on the device until its first use.
  SwitchKey(const Context& context, const Key256& seed, Bytes bodies);

  /// Of the masks.
  const Key256& seed() const;
  /// Components 2 * digits. They stay on the device as long as this tensor or a copy of it is there. OutOfMemoryError.
  RnsTensor pairs() const;
  /// Whether the pairs are on the device, in that memory.
  bool lies_in(const device::Memory& memory) const;
  /// Bytes of the pairs, on the device or not.
  std::size_t bytes() const;
  /// The bodies alone, digit by digit, limb by limb: what a file keeps. May wait.
  std::shared_ptr<const Bytes> bodies() const;

 private:
  class Pairs;
  std::shared_ptr<Pairs> pairs_;
};
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

struct EvaluationKeys {
  std::shared_ptr<Context> context;
  KeyId id;
  std::optional<SwitchKey> relinearization;
  std::map<u64, SwitchKey> rotations;  // by Galois element
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
