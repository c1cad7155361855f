// What the handles tell of themselves.
#include <algorithm>
#include <cmath>

#include "mesh/mesh.h"
#include "schemes/exact/context.h"
#include "schemes/exact/spec_text.h"

namespace heliograph::exact {

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
bool Parameters::has_slots() const { return context_->has_slots(); }
std::string Parameters::hash() const { return context_->hash(); }
bool Parameters::operator==(const Parameters& other) const { return context_ == other.context_; }

std::size_t Parameters::ciphertext_bytes(std::size_t degree) const {
  const rlwe::RingParameters& r = context_->rlwe().parameters();
  return (degree + 1) * context_->parts() * r.chain.size() * r.n * math::word_bytes(r.word);
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
Parameters Ciphertext::parameters() const { return Parameters(data_->context); }
std::string Ciphertext::key_id() const { return rlwe::to_string(data_->key); }
Shape Ciphertext::shape() const { return data_->shape(); }
std::size_t Ciphertext::degree() const { return data_->degree(); }
std::size_t Ciphertext::level() const { return data_->level(); }
std::size_t Ciphertext::slots() const { return data_->width; }
Packing Ciphertext::packing() const { return data_->packing; }
bool Ciphertext::fresh() const { return data_->fresh; }
bool Ciphertext::vouched() const { return data_->vouched; }
bool Ciphertext::seeded() const { return !data_->seeds.empty(); }

std::size_t Ciphertext::first_modulus() const { return data_->first_part; }

std::vector<std::uint64_t> Ciphertext::plain_moduli() const {
  const auto first = data_->context->spec().plain_moduli.begin() + static_cast<std::ptrdiff_t>(data_->first_part);
  return {first, first + static_cast<std::ptrdiff_t>(data_->parts.size())};
}

double Ciphertext::noise_budget() const {
  double least = 1e9;
  for (std::size_t part = 0; part < data_->parts.size(); ++part) {
    if (std::isnan(data_->noise[part])) return data_->noise[part];
    least =
        std::min(least, data_->context->rules().noise_limit(data_->first_part + part, data_->level()) - data_->noise[part]);
  }
  return least;
}

std::size_t Ciphertext::bytes() const {
  std::size_t total = 0;
  for (const RnsTensor& part : data_->parts) total += part.bytes();
  return total;
}

void Ciphertext::wait() const { data_->context->engine().queue().wait(); }

}  // namespace heliograph::exact
