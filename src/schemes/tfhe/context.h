// A TFHE parameter set at work: shapes, noise, a device, and what the handles hold.
#pragma once

#include <mutex>
#include <optional>

#include "base/recent.h"
#include "device/session.h"
#include "heliograph/tfhe.h"
#include "lwe/noise.h"
#include "lwe/tensor.h"
#include "schemes/files.h"
#include "schemes/tfhe/circuit.h"
#include "schemes/tfhe/spec_text.h"

namespace heliograph::tfhe {

using lwe::Key256;
using math::u32;
using math::u64;
using ring::KeyId;

class PreparedCircuit;  // schemes/tfhe/run.h

class Context : public schemes::Context<Spec> {
 public:
  Context(Spec spec, std::shared_ptr<device::Device> own_device);

  static Spec canonical(const Spec& given);
  static bool reads(const std::string& scheme) { return scheme == "tfhe"; }
  static Spec spec_from(const io::Json& json) { return spec_from_json(json); }
  static std::string title(const Spec& spec) { return "tfhe, " + (spec.name.empty() ? "unnamed" : spec.name); }
  std::string scheme() const { return "tfhe"; }
  bool secure() const { return lwe::is_secure(lwe_); }
  int security_bits() const { return lwe::rough_security_bits(lwe_); }
  const lwe::Parameters& lwe() const { return lwe_; }
  const lwe::NoiseModel& noise() const { return noise_; }
  device::Session& session() const { return *session_; }
  const std::shared_ptr<device::Session>& session_shared() const { return session_; }
  /// Words of a wide ciphertext.
  std::size_t words() const { return device::lwe_words(lwe_.wide()); }
  /// Storage for ciphertexts.
  lwe::Tensor tensor(const Shape& shape, std::size_t wires) const { return {session_, shape, wires, words()}; }

  /// The same of words that are elsewhere, for what a saved program makes. DamagedFileError where they are no such ciphertexts.
  lwe::Tensor tensor_over(const device::View& view, std::size_t wires) const;

  /// The circuit's layers on this device: the last few circuits asked for are kept.
  std::shared_ptr<const PreparedCircuit> prepared(const std::shared_ptr<const Circuit>& circuit);

 private:
  lwe::Parameters lwe_;
  lwe::NoiseModel noise_;
  std::shared_ptr<device::Session> session_;
  std::mutex mutex_;
  Recent<PreparedCircuit> circuits_{64, std::size_t{1} << 20};  // by bootstraps
};

struct CiphertextData {
  std::shared_ptr<Context> context;
  std::optional<KeyId> key;  // none: trivial, every key's
  Type type;
  lwe::Tensor tensor;
  std::optional<Key256> seed;  // of the masks of a fresh encryption, items in the order of the tensor

  Shape shape() const { return tensor.shape(); }
  bool seeded() const { return seed.has_value(); }
  std::size_t bytes() const { return tensor.bytes(); }
};

/// Of a device of several processes the key holder alone has the key (device/device.h); the others know its id.
struct SecretKeyData {
  std::shared_ptr<Context> context;
  KeyId key_id{};
  lwe::SecretKey key;
  SecretVector<u64> masks;                 // the wide key as lwe::dot takes it
  std::shared_ptr<ring::Entropy> entropy;  // asked by the key holder alone

  const KeyId& id() const { return key_id; }
};

/// Both keys on a device.
struct PreparedKeys {
  std::shared_ptr<const device::BootstrapKey> bootstrap;
  std::shared_ptr<const device::LweSwitchKey> key_switch;
};

struct EvaluationKeysData {
  static constexpr bool kAtKeyHolder = false;
  static constexpr std::size_t kHeldPerStored = 1;  // bytes of the host's memory, of a file's

  std::shared_ptr<Context> context;
  KeyId key_id{};
  Key256 seed{};                    // of the masks
  io::Array bootstrap, key_switch;  // the bodies, as a file has them: read when they are prepared

  const KeyId& id() const { return key_id; }
  /// Prepared at first use, and again where they had to leave the device in between. They stay as long as they are held.
  std::shared_ptr<const PreparedKeys> prepared() const;

 private:
  class OnDevice;
  mutable std::mutex mutex_;  // while they are prepared
  mutable std::shared_ptr<OnDevice> on_device_;
};

using schemes::require_same;

// Files (files.cpp).

/// A key's bodies as a file's array.
io::Array bootstrap_array(const lwe::Parameters& parameters, const io::Held& bodies);
io::Array key_switch_array(const lwe::Parameters& parameters, const io::Held& bodies);

io::Container describe(const CiphertextData& x, ring::Words words);
io::Container describe(const EvaluationKeysData& d, ring::Words words);
io::Container describe(const SecretKeyData& d, ring::Words words);
Ciphertext read(io::Container&& from, const Allowed& allowed, schemes::As<Ciphertext>);
EvaluationKeys read(io::Container&& from, const Allowed& allowed, schemes::As<EvaluationKeys>);
SecretKey new_key(const std::shared_ptr<Context>& context, std::shared_ptr<ring::Entropy> entropy, schemes::As<SecretKey>);
SecretKey read(io::Container&& from, const Allowed& allowed, schemes::As<SecretKey>);

/// An operand or result as a handle. `key` none: trivial.
Ciphertext make_ciphertext(std::shared_ptr<Context> context, std::optional<KeyId> key, Type type, lwe::Tensor tensor);

}  // namespace heliograph::tfhe
