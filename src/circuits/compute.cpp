// Operations on tensors of ciphertexts.
#include <algorithm>

#include "base/checked.h"
#include "circuits/cache.h"
#include "schemes/tfhe/run.h"

namespace heliograph::tfhe {

namespace {

constexpr std::size_t kTerms = 64;  // of one sum's circuit

circuits::Encoding encoding_of(const Spec& spec) { return {spec.message_bits, spec.carry_bits, spec.norm}; }

std::string text_of(const Shape& shape) {
  std::string text = "(";
  for (std::size_t s : shape) text += std::to_string(s) + ", ";
  if (!shape.empty()) text.resize(text.size() - (shape.size() == 1 ? 1 : 2));
  return text + ")";
}

/// As NumPy: from the last axis, lengths are equal or one of them is 1.
Shape broadcast_shape(const std::vector<Ciphertext>& operands) {
  Shape shape;
  for (const Ciphertext& c : operands) {
    const Shape next = c.shape();
    if (next.size() > shape.size()) shape.insert(shape.begin(), next.size() - shape.size(), 1);
    for (std::size_t i = 0; i < next.size(); ++i) {
      std::size_t& length = shape[shape.size() - next.size() + i];
      if (length != next[i] && length != 1 && next[i] != 1)
        throw ShapeError("shapes " + text_of(operands[0].shape()) + " and " + text_of(next) + " do not broadcast");
      if (length == 1) length = next[i];
    }
  }
  return shape;
}

std::size_t size_of(const Shape& shape) {
  std::size_t size = 1;
  for (std::size_t s : shape) size = checked_mul(size, s);
  return size;
}

/// Sums of parts of the operands, then of the sums.
std::vector<Ciphertext> sum_in_rounds(const EvaluationKeys& keys, const Operation& operation,
                                      const std::vector<Ciphertext>& operands, const Progress& progress) {
  std::vector<Ciphertext> left = operands;
  while (left.size() > kTerms) {
    std::vector<Ciphertext> sums;
    for (std::size_t i = 0; i < left.size(); i += kTerms) {
      const auto first = left.begin() + static_cast<std::ptrdiff_t>(i);
      const auto count = static_cast<std::ptrdiff_t>(std::min(kTerms, left.size() - i));
      sums.push_back(compute(keys, operation, {first, first + count})[0]);
      if (progress) progress(0.9 * static_cast<double>(i) / static_cast<double>(left.size()));
    }
    left = std::move(sums);
  }
  return compute(keys, operation, left, progress);
}

}  // namespace

std::vector<Ciphertext> compute(const EvaluationKeys& keys, const Operation& operation,
                                const std::vector<Ciphertext>& operands, const Progress& progress) {
  const EvaluationKeysData& data = keys.data();
  if (operands.empty()) throw ParameterError(operation.name + " takes at least one encrypted operand");
  std::vector<Type> types;
  for (const Ciphertext& c : operands) {
    require_same(c.data(), data.context, data.id, operation.name.c_str());
    types.push_back(c.type());
  }
  const std::vector<Type> results = circuits::result_types(operation, types);
  if (operation.name == "sum" && operands.size() > kTerms) return sum_in_rounds(keys, operation, operands, progress);
  const circuits::Encoding encoding = encoding_of(data.context->spec());
  const Shape shape = broadcast_shape(operands);
  const std::size_t items = size_of(shape), parallel = keys.parameters().parallel_bootstraps();
  const auto circuit = circuits::circuit_for(encoding, operation, types, items, parallel);
  std::vector<Ciphertext> made;
  std::vector<std::size_t> wires;
  for (const Type& t : results) wires.push_back(circuits::parts(encoding, t));
  if (items == 0) {
    for (std::size_t i = 0; i < results.size(); ++i)
      made.push_back(make_ciphertext(data.context, data.id, results[i], data.context->tensor(shape, wires[i])));
    return made;
  }
  std::vector<lwe::Tensor> inputs;
  for (const Ciphertext& c : operands) inputs.push_back(c.data().tensor);
  const std::vector<lwe::Tensor> outputs = run(data, circuit, inputs, wires, progress);
  for (std::size_t i = 0; i < results.size(); ++i)
    made.push_back(make_ciphertext(data.context, data.id, results[i], outputs[i]));
  return made;
}

Cost cost(const Parameters& parameters, const Operation& operation, const std::vector<Type>& types) {
  const auto circuit =
      circuits::circuit_for(encoding_of(parameters.spec()), operation, types, 1, parameters.parallel_bootstraps());
  return {circuit->bootstraps(), circuit->levels.size()};
}

}  // namespace heliograph::tfhe
