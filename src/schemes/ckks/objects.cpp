// What the handles tell of themselves.
#include <algorithm>
#include <cmath>
#include <limits>

#include "mesh/mesh.h"
#include "schemes/ckks/context.h"

namespace heliograph::ckks {

Parameters::Parameters(const Spec& spec) : context_(open_context(spec)) {}

Parameters Parameters::on_device(const std::string& device) const {
  return Parameters(std::make_shared<Context>(spec(), std::shared_ptr<device::Device>(mesh::open_device(device))));
}

const Spec& Parameters::spec() const { return context_->spec(); }
std::string Parameters::device() const { return context_->engine().device().name(); }
double Parameters::log_q() const { return context_->rlwe().parameters().log_q(); }
double Parameters::log_qp() const { return context_->rlwe().parameters().log_qp(); }
bool Parameters::secure() const { return rlwe::is_secure(context_->rlwe().parameters()); }
int Parameters::security_bits() const { return rlwe::rough_security_bits(context_->rlwe().parameters()); }
std::size_t Parameters::slots() const { return context_->slots(); }
std::size_t Parameters::top_level() const { return context_->top_level(); }
double Parameters::scale(std::size_t level) const { return context_->scale(context_->require_level(level)); }
std::string Parameters::hash() const { return context_->hash(); }
bool Parameters::operator==(const Parameters& other) const { return context_ == other.context_; }

std::size_t Parameters::level_limbs(std::size_t level) const {
  return context_->rlwe().chain(context_->require_level(level)).size();
}

std::size_t Parameters::ciphertext_bytes(std::size_t degree, std::size_t level) const {
  const rlwe::RingParameters& r = context_->rlwe().parameters();
  return (degree + 1) * level_limbs(level) * r.n * math::word_bytes(r.word);
}

std::size_t Parameters::switch_key_bytes() const {
  const rlwe::RingParameters& r = context_->rlwe().parameters();
  return 2 * r.digits.size() * (r.chain.size() + r.special.size()) * r.n * math::word_bytes(r.word);
}

void Parameters::require_memory(std::size_t bytes, const std::string& purpose) const {
  context_->engine().require_memory(bytes, purpose.c_str());
}

std::size_t Parameters::free_memory() const { return context_->engine().free_memory(); }

namespace {

device::Counter& counter_of(Context& c) {
  device::Counter* counter = c.engine().device().counter();
  if (!counter) throw ParameterError("only the null device counts");
  return *counter;
}

}  // namespace

std::vector<Parameters::Count> Parameters::counts() const {
  std::vector<Count> list;
  for (const auto& [kernel, k] : counter_of(*context_).counts())
    list.push_back({kernel, k.calls, k.bytes_read, k.bytes_written, k.products});
  return list;
}

void Parameters::reset_counts() const { counter_of(*context_).reset(); }
std::size_t Parameters::peak_bytes() const { return counter_of(*context_).peak_bytes(); }

Parameters SecretKey::parameters() const { return Parameters(data_->context); }
Parameters PublicKey::parameters() const { return Parameters(data_->context); }
Parameters EvaluationKeys::parameters() const { return Parameters(data_->context); }

Parameters Plaintext::parameters() const { return Parameters(data_->context); }
Shape Plaintext::shape() const { return data_->shape; }
std::size_t Plaintext::level() const { return data_->level; }
double Plaintext::scale() const { return data_->scale; }

Parameters Ciphertext::parameters() const { return Parameters(data_->context); }
std::string Ciphertext::key_id() const { return rlwe::to_string(data_->key); }
Shape Ciphertext::shape() const { return data_->shape(); }
std::size_t Ciphertext::degree() const { return data_->degree(); }
std::size_t Ciphertext::level() const { return data_->level; }
double Ciphertext::scale() const { return data_->scale; }
std::size_t Ciphertext::slots() const { return data_->width; }
bool Ciphertext::complex() const { return data_->complex; }
bool Ciphertext::seeded() const { return data_->seed.has_value(); }
bool Ciphertext::fresh() const { return data_->fresh; }

double Ciphertext::precision() const {
  const CiphertextData& x = *data_;
  const double noise = x.noise.vouched, room = x.context->decoding_room(x.level, x.scale);
  if (std::isinf(noise) || outgrown(x.bound.vouched, noise, x.scale, room)) return -std::numeric_limits<double>::infinity();
  const double bits = std::log2(x.scale) - noise;
  return bits < 0 ? 0 : bits;  // NaN stays
}
std::size_t Ciphertext::bytes() const { return data_->tensor.bytes(); }
void Ciphertext::wait() const { data_->context->engine().queue().wait(); }

}  // namespace heliograph::ckks
