// Implementation of the public handles of every scheme (heliograph/objects.h). Each scheme's objects.cpp instantiates this
// implementation.
//
// In addition to the functions of context.h and files.h, a scheme defines:
//   SecretKey new_key(const std::shared_ptr<Context>&, std::shared_ptr<ring::Entropy>, As<SecretKey>);
// The data of all objects have `context`. Ciphertexts have `key`, `shape()`, `seeded()` and `bytes()`; keys have `id()`.
// Public keys have `kAtKeyHolder`, which is true if only the key holder has them.
#pragma once

#include "schemes/files.h"
#include "schemes/spec_text.h"

namespace heliograph {

template <class S>
ParametersOf<S>::ParametersOf(const typename S::Spec& spec) : context_(schemes::open_context<typename S::Context>(spec)) {}

template <class S>
typename S::Parameters ParametersOf<S>::on_device(const std::string& device) const {
  return typename S::Parameters(
      std::make_shared<typename S::Context>(spec(), std::shared_ptr<device::Device>(mesh::open_device(device))));
}

template <class S>
const typename S::Spec& ParametersOf<S>::spec() const {
  return context_->spec();
}

template <class S>
std::string ParametersOf<S>::device() const {
  return context_->session().device().name();
}

template <class S>
bool ParametersOf<S>::secure() const {
  return context_->secure();
}

template <class S>
int ParametersOf<S>::security_bits() const {
  return context_->security_bits();
}

template <class S>
std::string ParametersOf<S>::hash() const {
  return context_->hash();
}

template <class S>
std::string ParametersOf<S>::to_json() const {
  return schemes::text_of(spec());
}

template <class S>
typename S::Parameters ParametersOf<S>::from_json(const std::string& text, const std::string& hash) {
  const typename S::Spec spec = S::Context::spec_from(io::Json::parse(text));
  require<DamagedFileError>(schemes::hash_of(spec) == hash, "the parameters do not match their hash");
  return typename S::Parameters(schemes::open_saved_context<typename S::Context>(spec, "the parameters"));
}

template <class S>
void ParametersOf<S>::require_memory(std::size_t bytes, const std::string& purpose) const {
  context_->session().require_memory(bytes, purpose.c_str());
}

template <class S>
std::size_t ParametersOf<S>::free_memory() const {
  return context_->session().free_memory();
}

namespace schemes {

inline device::Counter& counter_of(const device::Session& session) {
  device::Counter* const counter = session.device().counter();
  if (counter == nullptr) throw ParameterError("only the null device counts calls; set HELIOGRAPH_DEVICE=null");
  return *counter;
}

inline std::string key_text(const std::optional<ring::KeyId>& id) { return id ? ring::key_text(*id) : ""; }

}  // namespace schemes

template <class S>
std::vector<typename ParametersOf<S>::Count> ParametersOf<S>::counts() const {
  std::vector<Count> list;
  for (const auto& [kernel, k] : schemes::counter_of(context_->session()).counts())
    list.push_back({kernel, k.calls, k.bytes_read, k.bytes_written, k.products});
  return list;
}

template <class S>
void ParametersOf<S>::reset_counts() const {
  schemes::counter_of(context_->session()).reset();
}

template <class S>
std::size_t ParametersOf<S>::peak_bytes() const {
  return schemes::counter_of(context_->session()).peak_bytes();
}

template <class S>
double RingParametersOf<S>::log_q() const {
  return this->context()->rlwe().parameters().log_q();
}

template <class S>
double RingParametersOf<S>::log_qp() const {
  return this->context()->rlwe().parameters().log_qp();
}

template <class S>
std::size_t RingParametersOf<S>::slots() const {
  return this->context()->slots();
}

template <class S>
std::size_t RingParametersOf<S>::switch_key_bytes() const {
  return this->context()->switch_key_bytes();
}

template <class S, class Data>
typename S::Parameters ObjectOf<S, Data>::parameters() const {
  return typename S::Parameters(data_->context);
}

template <class S>
std::string CiphertextOf<S>::key_id() const {
  return schemes::key_text(this->data_->key);
}

template <class S>
Shape CiphertextOf<S>::shape() const {
  return this->data_->shape();
}

template <class S>
bool CiphertextOf<S>::seeded() const {
  return this->data_->seeded();
}

template <class S>
std::size_t CiphertextOf<S>::bytes() const {
  return this->data_->bytes();
}

template <class S>
void CiphertextOf<S>::wait() const {
  this->data_->context->session().queue().wait();
}

template <class S>
Bytes CiphertextOf<S>::to_bytes() const {
  return io::to_bytes(describe(*this->data_, ring::Words::everywhere));
}

template <class S>
void CiphertextOf<S>::write(const Sink& sink) const {
  io::write(describe(*this->data_, ring::Words::everywhere), sink);
}

template <class S>
std::size_t CiphertextOf<S>::written_bytes() const {
  return io::byte_size(describe(*this->data_, ring::Words::everywhere));
}

template <class S>
void CiphertextOf<S>::save(const std::string& path) const {
  ring::save(this->data_->context->session().device(), path, describe(*this->data_, ring::Words::at_key_holder));
}

template <class S>
typename S::Ciphertext CiphertextOf<S>::from_bytes(std::span<const std::byte> bytes, const Allowed& allowed) {
  return read(ring::from_bytes(bytes, allowed.bytes), allowed, schemes::As<typename S::Ciphertext>());
}

template <class S>
typename S::Ciphertext CiphertextOf<S>::from_incoming(std::span<const std::byte> bytes, const Arrival& arrived,
                                                      const Allowed& allowed) {
  require<ParameterError>(!mesh::over_ranks(), "from_incoming does not work over several processes; use from_bytes or load");
  return read(io::from_bytes(bytes, false, allowed.bytes, arrived), allowed, schemes::As<typename S::Ciphertext>());
}

template <class S>
typename S::Ciphertext CiphertextOf<S>::load(const std::string& path, const Allowed& allowed) {
  return read(ring::load(path, {.most_bytes = allowed.bytes}), allowed, schemes::As<typename S::Ciphertext>());
}

template <class S, class Data, class Key>
std::string OpenKeyOf<S, Data, Key>::key_id() const {
  return ring::key_text(this->data_->id());
}

template <class S, class Data, class Key>
Bytes OpenKeyOf<S, Data, Key>::to_bytes() const {
  ring::require_own_process();
  const auto written = [&] { return io::to_bytes(describe(*this->data_, ring::Words::everywhere)); };
  if constexpr (Data::kAtKeyHolder) {
    Bytes bytes;
    ring::broadcast(this->data_->context->session().device(), bytes, [&] { bytes = written(); });
    return bytes;
  } else {
    return written();
  }
}

template <class S, class Data, class Key>
void OpenKeyOf<S, Data, Key>::save(const std::string& path) const {
  device::Device& device = this->data_->context->session().device();
  if constexpr (Data::kAtKeyHolder) {
    ring::broadcast(device, std::span<std::byte>(),
                    [&] { io::save(path, describe(*this->data_, ring::Words::everywhere)); });
  } else {
    ring::save(device, path, describe(*this->data_, ring::Words::everywhere));
  }
}

template <class S, class Data, class Key>
Key OpenKeyOf<S, Data, Key>::from_bytes(std::span<const std::byte> bytes) {
  return read(ring::from_bytes(bytes), {}, schemes::As<Key>());
}

template <class S, class Data, class Key>
Key OpenKeyOf<S, Data, Key>::load(const std::string& path, std::size_t memory) {
  io::Reading how{.most_bytes = memory};
  if constexpr (requires { Data::kHeldPerStored; }) how = {.most_held = memory / Data::kHeldPerStored};
  return read(ring::load(path, how), {.bytes = memory}, schemes::As<Key>());
}

template <class S>
typename S::SecretKey SecretKeyOf<S>::generate(const typename S::Parameters& parameters) {
  return new_key(parameters.context(), std::make_shared<ring::Entropy>(), schemes::As<typename S::SecretKey>());
}

template <class S>
typename S::SecretKey SecretKeyOf<S>::generate_for_test(const typename S::Parameters& parameters, const std::string& seed) {
  return new_key(parameters.context(), std::make_shared<ring::Entropy>(ring::test_seed(seed)),
                 schemes::As<typename S::SecretKey>());
}

template <class S>
std::string SecretKeyOf<S>::key_id() const {
  return ring::key_text(this->data_->id());
}

template <class S>
void SecretKeyOf<S>::save(const std::string& path) const {
  ring::save(this->data_->context->session().device(), path, describe(*this->data_, ring::Words::at_key_holder), true);
}

template <class S>
Bytes SecretKeyOf<S>::secret_bytes() const {
  require<ParameterError>(!mesh::over_ranks(), "secret_bytes does not work over several processes; save the key to a file");
  return io::to_bytes(describe(*this->data_, ring::Words::everywhere));
}

template <class S>
typename S::SecretKey SecretKeyOf<S>::from_secret_bytes(std::span<const std::byte> bytes) {
  require<ParameterError>(!mesh::over_ranks(),
                          "from_secret_bytes does not work over several processes; load the key from a file");
  return read(io::from_bytes(bytes, false), {}, schemes::As<typename S::SecretKey>());
}

template <class S>
typename S::SecretKey SecretKeyOf<S>::load(const std::string& path) {
  return read(ring::load(path, {.secret = true}), {}, schemes::As<typename S::SecretKey>());
}

}  // namespace heliograph

/// Instantiates all classes of a scheme whose ciphertexts are polynomials modulo primes.
#define HELIOGRAPH_RING_OBJECTS(scheme)                                                                    \
  template class heliograph::ParametersOf<heliograph::scheme::Scheme>;                                     \
  template class heliograph::RingParametersOf<heliograph::scheme::Scheme>;                                 \
  template class heliograph::ObjectOf<heliograph::scheme::Scheme, heliograph::scheme::PlaintextData>;      \
  template class heliograph::ObjectOf<heliograph::scheme::Scheme, heliograph::scheme::CiphertextData>;     \
  template class heliograph::ObjectOf<heliograph::scheme::Scheme, heliograph::scheme::PublicKeyData>;      \
  template class heliograph::ObjectOf<heliograph::scheme::Scheme, heliograph::scheme::EvaluationKeysData>; \
  template class heliograph::ObjectOf<heliograph::scheme::Scheme, heliograph::scheme::SecretKeyData>;      \
  template class heliograph::CiphertextOf<heliograph::scheme::Scheme>;                                     \
  template class heliograph::OpenKeyOf<heliograph::scheme::Scheme, heliograph::scheme::PublicKeyData,      \
                                       heliograph::scheme::PublicKey>;                                     \
  template class heliograph::OpenKeyOf<heliograph::scheme::Scheme, heliograph::scheme::EvaluationKeysData, \
                                       heliograph::scheme::EvaluationKeys>;                                \
  template class heliograph::RotationKeysOf<heliograph::scheme::Scheme>;                                   \
  template class heliograph::SecretKeyOf<heliograph::scheme::Scheme>;
