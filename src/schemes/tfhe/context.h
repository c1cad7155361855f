// Context of a TFHE parameter set: shapes, noise, the device; and the data of the handles.
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
  std::size_t words() const { return device::lwe_words(lwe_.wide()); }
  lwe::Tensor tensor(const Shape& shape, std::size_t wires) const { return {session_, shape, wires, words()}; }

  /// Makes a tensor over the existing words of a saved program's result. Throws DamagedFileError if these words do not have
  /// the shape of `wires` wide ciphertexts.
  lwe::Tensor tensor_over(const device::View& view, std::size_t wires) const;

  /// Returns a circuit's launches on this device. Caches the most recent circuits.
  std::shared_ptr<const PreparedCircuit> prepared(const std::shared_ptr<const Circuit>& circuit);

 private:
  lwe::Parameters lwe_;
  lwe::NoiseModel noise_;
  std::shared_ptr<device::Session> session_;
  std::mutex mutex_;
  Recent<PreparedCircuit> circuits_{64, std::size_t{1} << 20};  // at most 64 circuits, with at most 2^20 bootstraps together
};

struct CiphertextData {
  std::shared_ptr<Context> context;
  std::optional<KeyId> key;  // nullopt: a trivial encryption, valid under every key
  Type type;
  lwe::Tensor tensor;
  std::optional<Key256> seed;  // seed of a fresh encryption's masks, in the order of the items

  Shape shape() const { return tensor.shape(); }
  bool seeded() const { return seed.has_value(); }
  std::size_t bytes() const { return tensor.bytes(); }
};

/// On a device of several processes only the key holder has the key (device/device.h); the other processes have its id only.
struct SecretKeyData {
  std::shared_ptr<Context> context;
  KeyId key_id{};
  lwe::SecretKey key;
  SecretVector<u64> masks;                 // the wide key in the form that lwe::dot takes
  std::shared_ptr<ring::Entropy> entropy;  // used by the key holder only

  const KeyId& id() const { return key_id; }
};

struct PreparedKeys {
  std::shared_ptr<const device::BootstrapKey> bootstrap;
  std::shared_ptr<const device::LweSwitchKey> key_switch;
};

struct EvaluationKeysData {
  static constexpr bool kAtKeyHolder = false;
  static constexpr std::size_t kHeldPerStored = 1;  // bytes in memory per byte in the file

  std::shared_ptr<Context> context;
  KeyId key_id{};
  Key256 seed{};                    // seed of the masks
  io::Array bootstrap, key_switch;  // the bodies as in a file, read when the keys are prepared

  const KeyId& id() const { return key_id; }
  /// Prepares the keys at first use, and again after an eviction. The keys are not evicted while the result exists.
  std::shared_ptr<const PreparedKeys> prepared() const;

 private:
  class OnDevice;
  mutable std::mutex mutex_;  // held while keys are prepared
  mutable std::shared_ptr<OnDevice> on_device_;
};

using schemes::require_same;

io::Array bootstrap_array(const lwe::Parameters& parameters, const io::Held& bodies);
io::Array key_switch_array(const lwe::Parameters& parameters, const io::Held& bodies);

io::Container describe(const CiphertextData& x, ring::Words words);
io::Container describe(const EvaluationKeysData& d, ring::Words words);
io::Container describe(const SecretKeyData& d, ring::Words words);
Ciphertext read(io::Container&& from, const Allowed& allowed, schemes::As<Ciphertext>);
EvaluationKeys read(io::Container&& from, const Allowed& allowed, schemes::As<EvaluationKeys>);
SecretKey new_key(const std::shared_ptr<Context>& context, std::shared_ptr<ring::Entropy> entropy, schemes::As<SecretKey>);
SecretKey read(io::Container&& from, const Allowed& allowed, schemes::As<SecretKey>);

/// Makes a handle of an operand or result. Without `key`, the result is a trivial encryption.
Ciphertext make_ciphertext(std::shared_ptr<Context> context, std::optional<KeyId> key, Type type, lwe::Tensor tensor);

}  // namespace heliograph::tfhe
