// What the handles tell of themselves, and operations on shapes.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "mesh/mesh.h"
#include "schemes/tfhe/context.h"
#include "schemes/tfhe/encoding.h"

namespace heliograph::tfhe {

Parameters::Parameters(const Spec& spec) : context_(open_context(spec)) {}

Parameters Parameters::on_device(const std::string& device) const {
  return Parameters(std::make_shared<Context>(spec(), std::shared_ptr<device::Device>(mesh::open_device(device))));
}

const Spec& Parameters::spec() const { return context_->spec(); }
std::string Parameters::device() const { return context_->session().device().name(); }
bool Parameters::secure() const { return lwe::is_secure(context_->lwe()); }
int Parameters::security_bits() const { return lwe::rough_security_bits(context_->lwe()); }

double Parameters::log2_failure() const {
  // Half of the distance between two neighbouring values of a digit; a bit lies 1/8 from where its sign changes.
  const double half = static_cast<double>(unit_of(spec())) * 0x1p-64 / (is_boolean() ? 1 : 2);
  return lwe::log2_tail(context_->noise().before_table(spec().norm), half);
}

Variances Parameters::predicted() const {
  const lwe::NoiseModel& n = context_->noise();
  return {.fresh = std::log2(n.fresh),
          .bootstrap = std::log2(n.bootstrap),
          .key_switch = std::log2(n.key_switch),
          .modulus_switch = std::log2(n.modulus_switch)};
}

std::string Parameters::hash() const { return context_->hash(); }
std::size_t Parameters::lwe_bytes() const { return context_->words() * sizeof(u64); }
std::size_t Parameters::bootstrap_key_bytes() const { return context_->lwe().bootstrap.words() * sizeof(u64); }
std::size_t Parameters::switch_key_bytes() const { return context_->lwe().key_switch.words() * sizeof(u32); }

void Parameters::require_memory(std::size_t bytes, const std::string& purpose) const {
  context_->session().require_memory(bytes, purpose.c_str());
}

std::size_t Parameters::free_memory() const { return context_->session().free_memory(); }

std::size_t Parameters::parallel_bootstraps() const {
  return context_->session().device().tfhe().parallel_bootstraps(context_->lwe().bootstrap);
}

bool Parameters::operator==(const Parameters& other) const { return context_ == other.context_; }

std::string Type::text() const { return boolean ? "bool" : (is_signed ? "int" : "uint") + std::to_string(bits); }

Type type_of(const std::string& text) {
  if (text == "bool") return {};
  const bool is_signed = text.starts_with("int");
  if (is_signed || text.starts_with("uint")) {
    const std::string digits = text.substr(is_signed ? 3 : 4);
    unsigned bits = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    if (error == std::errc() && end == digits.data() + digits.size() && bits >= 1 && bits <= 64 && digits[0] != '0')
      return {.boolean = false, .bits = bits, .is_signed = is_signed};
  }
  throw DtypeError("\"" + text + "\" is no type of encrypted values: \"bool\", or \"int\" or \"uint\" and 1 to 64 bits");
}

Parameters SecretKey::parameters() const { return Parameters(data_->context); }
Parameters EvaluationKeys::parameters() const { return Parameters(data_->context); }
Parameters Ciphertext::parameters() const { return Parameters(data_->context); }
std::string SecretKey::key_id() const { return ring::key_text(data_->id); }
std::string EvaluationKeys::key_id() const { return ring::key_text(data_->id); }
std::string Ciphertext::key_id() const { return data_->key ? ring::key_text(*data_->key) : ""; }

std::size_t EvaluationKeys::bytes() const {
  const Parameters p = parameters();
  return p.bootstrap_key_bytes() + p.switch_key_bytes();
}

Shape Ciphertext::shape() const { return data_->shape(); }
Type Ciphertext::type() const { return data_->type; }
std::size_t Ciphertext::wires() const { return data_->tensor.wires(); }
bool Ciphertext::seeded() const { return data_->seed.has_value(); }
std::size_t Ciphertext::bytes() const { return data_->tensor.bytes(); }
void Ciphertext::wait() const { data_->context->session().queue().wait(); }

namespace {

/// The same ciphertexts in another shape. A seed numbers them in their order: it stays only where that does.
Ciphertext with_tensor(const Ciphertext& a, lwe::Tensor tensor, bool same_order = false) {
  CiphertextData data = a.data();
  data.tensor = std::move(tensor);
  if (!same_order) data.seed.reset();
  return Ciphertext(std::make_shared<CiphertextData>(std::move(data)));
}

}  // namespace

Ciphertext reshape(const Ciphertext& a, const Shape& shape) { return with_tensor(a, a.data().tensor.reshape(shape), true); }

Ciphertext transpose(const Ciphertext& a, const std::vector<std::size_t>& order) {
  return with_tensor(a, a.data().tensor.transpose(order));
}

Ciphertext slice(const Ciphertext& a, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count) {
  return with_tensor(a, a.data().tensor.slice(axis, start, step, count));
}

Ciphertext index(const Ciphertext& a, std::size_t axis, std::size_t position) {
  return with_tensor(a, a.data().tensor.drop_axis(axis, position));
}

Ciphertext broadcast_to(const Ciphertext& a, const Shape& shape) {
  return with_tensor(a, a.data().tensor.broadcast_to(shape));
}

Ciphertext concatenate(const std::vector<Ciphertext>& parts, std::size_t axis) {
  require<ShapeError>(!parts.empty(), "nothing to concatenate");
  const CiphertextData& lead = parts.front().data();
  std::optional<KeyId> key;
  std::vector<lwe::Tensor> tensors;
  for (const Ciphertext& p : parts) {
    if (!key) key = p.data().key;
    require_same(p.data(), lead.context, key.value_or(KeyId{}), "the first to concatenate");
    if (!(p.type() == lead.type))
      throw DtypeError("tensors of " + lead.type.text() + " and " + p.type().text() + " do not concatenate");
    tensors.push_back(p.data().tensor);
  }
  return make_ciphertext(lead.context, key, lead.type, lwe::concatenate(tensors, axis));
}

}  // namespace heliograph::tfhe
