// Operations on tensors of ciphertexts.
#include <algorithm>

#include "base/checked.h"
#include "base/progress.h"
#include "circuits/cache.h"
#include "circuits/operands.h"
#include "schemes/tfhe/run.h"

namespace heliograph::tfhe {

namespace {

circuits::Encoding encoding_of(const Spec& spec) { return {spec.message_bits, spec.carry_bits, spec.norm}; }

std::string text_of(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  text += shape.size() == 1 ? ",)" : ")";
  return text;
}

/// Returns the common shape, by NumPy's rule: from the last axis, lengths must be equal or 1.
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

/// Sums operands in rounds of at most kSumTerms.
std::vector<Ciphertext> sum_in_rounds(const EvaluationKeys& keys, const Operation& operation,
                                      const std::vector<Ciphertext>& operands) {
  std::size_t computations = 1;
  for (std::size_t n = operands.size(); n > circuits::kSumTerms; computations += n)
    n = (n + circuits::kSumTerms - 1) / circuits::kSumTerms;
  ProgressSteps steps(computations);
  std::vector<Ciphertext> left = operands;
  while (left.size() > circuits::kSumTerms) {
    std::vector<Ciphertext> sums;
    std::vector<std::vector<Ciphertext>> rounds;
    const auto same = [](const Ciphertext& a, const Ciphertext& b) { return &a.data() == &b.data(); };
    for (std::size_t i = 0; i < left.size(); i += circuits::kSumTerms) {
      const auto first = left.begin() + static_cast<std::ptrdiff_t>(i);
      rounds.emplace_back(first, first + static_cast<std::ptrdiff_t>(std::min(circuits::kSumTerms, left.size() - i)));
      const std::vector<Ciphertext>& now = rounds.back();
      // A sum of the same operands has the same noise, so it must become the same tensor, which `compare` recognises.
      const auto before = std::find_if(rounds.begin(), rounds.end() - 1, [&](const auto& r) {
        return std::equal(r.begin(), r.end(), now.begin(), now.end(), same);
      });
      const auto at = static_cast<std::size_t>(before - rounds.begin());
      sums.push_back(steps.part(1, [&] { return at + 1 < rounds.size() ? sums[at] : compute(keys, operation, now)[0]; }));
    }
    left = std::move(sums);
  }
  return steps.part(1, [&] { return compute(keys, operation, left); });
}

/// Returns the index of the operand that a result equals; nullopt unless the circuit passes all of its wires unchanged.
std::optional<std::size_t> passed_through(const Circuit& circuit, std::size_t first, std::size_t count,
                                          const std::vector<lwe::Tensor>& inputs) {
  std::uint32_t at = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i, at += static_cast<std::uint32_t>(inputs[i - 1].wires())) {
    bool same = inputs[i].wires() == count;
    for (std::size_t w = 0; same && w < count; ++w)
      same = circuit.outputs[first + w] == Linear{{{at + static_cast<std::uint32_t>(w), 1}}, 0};
    if (same) return i;
  }
  return std::nullopt;
}

/// Broadcasts operands to the result's shape, except along axes where every operand repeats its elements. Along axes of
/// repeated elements, an element is computed once, because the equal noise of separate copies would not be detected.
struct Widened {
  Shape shape, inner;

  Widened(const std::vector<Ciphertext>& operands, const Shape& whole) : shape(whole), inner(whole) {
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const bool flat = std::all_of(operands.begin(), operands.end(), [&](const Ciphertext& c) {
        return c.data().tensor.broadcast_to(shape).view().stride[axis] == 0;
      });
      if (flat && shape[axis] > 1) inner[axis] = 1;
    }
  }
  lwe::Tensor operator()(const Ciphertext& c) const {
    lwe::Tensor t = c.data().tensor.broadcast_to(shape);
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      if (inner[axis] != shape[axis]) t = t.slice(axis, 0, 1, 1);
    return t;
  }
};

}  // namespace

std::vector<Ciphertext> compute(const EvaluationKeys& keys, const Operation& operation,
                                const std::vector<Ciphertext>& operands) {
  const EvaluationKeysData& data = keys.data();
  if (operands.empty()) throw ParameterError(operation.name + " needs at least one encrypted operand");
  std::vector<Type> types;
  for (const Ciphertext& c : operands) {
    require_same(c.data(), data.context, data.id(), operation.name.c_str());
    types.push_back(c.type());
  }
  const std::vector<Type> results = circuits::result_types(operation, types);
  if (operation.name == "sum" && operands.size() > circuits::kSumTerms) return sum_in_rounds(keys, operation, operands);
  const circuits::Encoding encoding = encoding_of(data.context->spec());
  const Shape shape = broadcast_shape(operands);
  const std::size_t items = size_of(shape), parallel = keys.parameters().parallel_bootstraps();
  std::vector<Ciphertext> made;
  std::vector<std::size_t> wires;
  for (const Type& t : results) wires.push_back(circuits::parts(encoding, t));
  if (items == 0) {
    circuits::circuit_for(encoding, operation, types, 1, parallel);  // reports an invalid operation
    for (std::size_t i = 0; i < results.size(); ++i)
      made.push_back(make_ciphertext(data.context, data.id(), results[i], data.context->tensor(shape, wires[i])));
    return made;
  }
  const Widened widened(operands, shape);
  std::vector<lwe::Tensor> wide;
  for (const Ciphertext& c : operands) wide.push_back(widened(c));
  const circuits::Operands compared = circuits::compare(wide);
  std::vector<lwe::Tensor> inputs;  // the distinct operands
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (compared.same[i] != i) continue;
    Ciphertext fresh = operands[i];
    const Unreported preparation;
    for (std::size_t n = 0; n < compared.refresh[i]; ++n) fresh = compute(keys, {.name = "refresh"}, {fresh})[0];
    inputs.push_back(compared.refresh[i] ? widened(fresh) : wide[i]);
  }
  const auto circuit = circuits::circuit_for(encoding, operation, types, size_of(widened.inner), parallel, compared.same);
  std::vector<lwe::Tensor> outputs;
  for (std::size_t i = 0, at = 0; circuit->layers.empty() && i < results.size(); at += wires[i++]) {
    const auto from = passed_through(*circuit, at, wires[i], inputs);
    if (!from) break;
    outputs.push_back(inputs[*from]);
  }
  if (outputs.size() < results.size()) outputs = run(data, circuit, inputs, wires);
  for (std::size_t i = 0; i < results.size(); ++i)
    made.push_back(make_ciphertext(data.context, data.id(), results[i], outputs[i].broadcast_to(shape)));
  return made;
}

Cost cost(const Parameters& parameters, const Operation& operation, const std::vector<Type>& types) {
  const auto circuit =
      circuits::circuit_for(encoding_of(parameters.spec()), operation, types, 1, parameters.parallel_bootstraps());
  return {circuit->bootstraps(), circuit->layers.size()};
}

}  // namespace heliograph::tfhe
