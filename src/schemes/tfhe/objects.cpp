// Accessors of the public handles (objects.h, tfhe.h), and operations on shapes.
#include "schemes/objects.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "schemes/tfhe/context.h"
#include "schemes/tfhe/encoding.h"

namespace heliograph {

template class ParametersOf<tfhe::Scheme>;
template class ObjectOf<tfhe::Scheme, tfhe::CiphertextData>;
template class ObjectOf<tfhe::Scheme, tfhe::EvaluationKeysData>;
template class ObjectOf<tfhe::Scheme, tfhe::SecretKeyData>;
template class CiphertextOf<tfhe::Scheme>;
template class OpenKeyOf<tfhe::Scheme, tfhe::EvaluationKeysData, tfhe::EvaluationKeys>;
template class SecretKeyOf<tfhe::Scheme>;

}  // namespace heliograph

namespace heliograph::tfhe {

double Parameters::log2_failure() const {
  // Largest error that leaves a value unchanged: half the distance of a digit's neighbouring values, or 1/8 of a turn for
  // a bit.
  const double half = static_cast<double>(unit_of(spec())) * 0x1p-64 / (is_boolean() ? 1 : 2);
  return lwe::log2_tail(context()->noise().before_table(spec().norm), half);
}

Variances Parameters::predicted() const {
  const lwe::NoiseModel& n = context()->noise();
  return {.fresh = std::log2(n.fresh),
          .bootstrap = std::log2(n.bootstrap),
          .key_switch = std::log2(n.key_switch),
          .modulus_switch = std::log2(n.modulus_switch)};
}

std::size_t Parameters::lwe_bytes() const { return context()->words() * sizeof(u64); }
std::size_t Parameters::bootstrap_key_bytes() const { return context()->lwe().bootstrap.words() * sizeof(u64); }
std::size_t Parameters::switch_key_bytes() const { return context()->lwe().key_switch.words() * sizeof(u32); }

std::size_t Parameters::parallel_bootstraps() const {
  return context()->session().device().tfhe().parallel_bootstraps(context()->lwe().bootstrap);
}

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
  throw DtypeError("\"" + text +
                   "\" is not a type of encrypted values; use \"bool\", or \"int\" or \"uint\" with 1 to 64 bits");
}

std::size_t EvaluationKeys::bytes() const {
  const Parameters p = parameters();
  return p.bootstrap_key_bytes() + p.switch_key_bytes();
}

Type Ciphertext::type() const { return data_->type; }
std::size_t Ciphertext::wires() const { return data_->tensor.wires(); }

namespace {

/// Returns the same ciphertexts in another shape. A seed generates the masks of the items in their
/// order, so the result keeps the seed only if the order is the same.
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
  require<ShapeError>(!parts.empty(), "concatenate needs at least one tensor");
  const CiphertextData& lead = parts.front().data();
  std::optional<KeyId> key;
  std::vector<lwe::Tensor> tensors;
  for (const Ciphertext& p : parts) {
    if (!key) key = p.data().key;
    require_same(p.data(), lead.context, key.value_or(KeyId{}), "the first to concatenate");
    if (!(p.type() == lead.type))
      throw DtypeError("tensors of " + lead.type.text() + " and " + p.type().text() +
                       " cannot be concatenated; they must have one type");
    tensors.push_back(p.data().tensor);
  }
  return make_ciphertext(lead.context, key, lead.type, lwe::concatenate(tensors, axis));
}

}  // namespace heliograph::tfhe
