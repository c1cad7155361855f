#include "schemes/tfhe/context.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "base/shared.h"
#include "mesh/mesh.h"
#include "ring/key_holder.h"
#include "schemes/tfhe/run.h"
#include "schemes/tfhe/spec_text.h"

namespace heliograph::tfhe {

namespace {

lwe::Noise noise_of(const Noise& n, const char* which) {
  const bool fits =
      n.tuniform ? n.value >= 0 && n.value <= 60 && n.value == std::floor(n.value) : n.value >= -63 && n.value <= -2;
  if (!fits) {
    throw ParameterError(std::string("the noise of the ") + which +
                         " key must be TUniform(0) to TUniform(60), or a Gaussian " + "of 2^-63 to 2^-2 turns");
  }
  return {.tuniform = n.tuniform, .value = n.value};
}

lwe::Parameters parameters_of(const Spec& s) {
  const device::Gadget bootstrap{s.bootstrap_log_base, s.bootstrap_levels}, key_switch{s.switch_log_base, s.switch_levels};
  lwe::Parameters p{.bootstrap = {.n = s.n, .k = s.k, .degree = s.degree, .gadget = bootstrap, .group = s.group},
                    .key_switch = {.from = s.k * s.degree, .to = s.n, .gadget = key_switch},
                    .lwe_noise = noise_of(s.lwe_noise, "narrow"),
                    .glwe_noise = noise_of(s.glwe_noise, "wide")};
  try {
    p.bootstrap.check(), p.key_switch.check();
  } catch (const ShapeError& e) {
    throw ParameterError(e.what());
  }
  require<ParameterError>(s.norm >= 1 && s.norm <= (1 << 20), "norm must be 1 to 2^20");
  require<ParameterError>(s.message_bits == 0 ? s.carry_bits == 0 : s.message_bits <= 8 && s.carry_bits <= 8,
                          "message_bits and carry_bits must be at most 8, and both 0 for booleans");
  require<ParameterError>((std::size_t{1} << (s.message_bits + s.carry_bits)) <= s.degree / 2,
                          "message_bits + carry_bits is too large for the degree: a test polynomial holds N/2 values");
  return p;
}

void check_security(const Spec& s, const lwe::Parameters& p) {
  if (s.insecure || lwe::is_secure(p)) return;
  throw SecurityError(short_text(s) + " has about " + std::to_string(lwe::rough_security_bits(p)) +
                      " bits of security, fewer than 128; pass insecure=True to use it anyway");
}

}  // namespace

Context::Context(Spec given, std::shared_ptr<device::Device> own_device)
    : schemes::Context<Spec>(std::move(given), std::move(own_device)), lwe_(parameters_of(spec())), noise_(lwe_) {
  check_security(spec(), lwe_);
  session_ = std::make_shared<device::Session>(device());
}

lwe::Tensor Context::tensor_over(const device::View& view, std::size_t wires) const {
  require<DamagedFileError>(view.n == words() && view.word == math::Word::w64 && view.limbs == 1 && view.components == wires,
                            "the words of a ciphertext must have the shape that its parameter set gives");
  return tensor({0}, wires).over(view);
}

std::shared_ptr<const PreparedCircuit> Context::prepared(const std::shared_ptr<const Circuit>& circuit) {
  const std::lock_guard lock(mutex_);
  return circuits_.get([&](const PreparedCircuit& kept) { return kept.shared() == circuit; },
                       [&] { return std::make_shared<const PreparedCircuit>(*this, circuit); },
                       [](const PreparedCircuit& kept) { return kept.circuit().bootstraps(); });
}

/// Both evaluation keys on a device. Both keys are evicted if the device needs their memory.
class EvaluationKeysData::OnDevice final : public device::Resident {
 public:
  explicit OnDevice(std::size_t bytes) : bytes_(bytes) {}

  std::shared_ptr<const PreparedKeys> held() {
    const std::lock_guard lock(mutex_);
    return keys_;
  }
  void hold(std::shared_ptr<const PreparedKeys> keys) {
    const std::lock_guard lock(mutex_);
    keys_ = std::move(keys);
  }
  std::size_t evictable_bytes() override {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    return lock && keys_ && keys_.use_count() == 1 ? bytes_ : 0;
  }
  std::size_t evict() override {
    std::shared_ptr<const PreparedKeys> gone;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || !keys_ || keys_.use_count() > 1) return 0;
    gone.swap(keys_);
    return bytes_;
  }

 private:
  const std::size_t bytes_;
  std::mutex mutex_;  // not held during an allocation, which may evict these keys
  std::shared_ptr<const PreparedKeys> keys_;
};

std::shared_ptr<const PreparedKeys> EvaluationKeysData::prepared() const {
  const std::lock_guard lock(mutex_);
  device::Session& s = context->session();
  const lwe::Parameters& p = context->lwe();
  if (!on_device_) {
    on_device_ = std::make_shared<OnDevice>(8 * p.bootstrap.words() + 4 * p.key_switch.words());
    s.device().residents().add(on_device_);
  }
  s.device().residents().touch(*on_device_);
  if (auto held = on_device_->held()) return held;
  device::TfheKernels& kernels = s.device().tfhe();
  auto made = std::make_shared<PreparedKeys>();
  {
    const std::vector<u64> words = lwe::expand_bootstrap_key(p, seed, bootstrap.read().values<u64>());
    made->bootstrap =
        s.with_room(8 * words.size(), [&] { return kernels.prepare(p.bootstrap, std::span<const u64>(words)); });
  }
  const std::vector<u32> words = lwe::expand_switch_key(p, seed, key_switch.read().values<u32>());
  made->key_switch =
      s.with_room(4 * words.size(), [&] { return kernels.prepare(p.key_switch, std::span<const u32>(words)); });
  on_device_->hold(made);
  return made;
}

Spec Context::canonical(const Spec& given) {
  static const std::map<std::string, std::string> names = [] {
    std::map<std::string, std::string> known;
    for (const std::string& name : named_specs()) known[hash_of(named_spec(name, true))] = name;
    return known;
  }();
  Spec s = given;
  s.insecure = s.insecure && !lwe::is_secure(parameters_of(s));
  if (const auto found = names.find(hash_of(s)); found != names.end()) s.name = found->second;
  return s;
}

Ciphertext make_ciphertext(std::shared_ptr<Context> context, std::optional<KeyId> key, Type type, lwe::Tensor tensor) {
  return Ciphertext(
      std::make_shared<CiphertextData>(CiphertextData{std::move(context), key, type, std::move(tensor), std::nullopt}));
}

}  // namespace heliograph::tfhe
