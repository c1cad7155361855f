// Execution of circuits on tensors.
#pragma once

#include "schemes/tfhe/context.h"

namespace heliograph::tfhe {

/// A circuit as launches over an arena of wires. A wire has a slot from the layer that computes it to the last layer that
/// reads it.
class PreparedCircuit {
 public:
  PreparedCircuit(const Context& context, std::shared_ptr<const Circuit> circuit);

  const Circuit& circuit() const { return *circuit_; }
  const std::shared_ptr<const Circuit>& shared() const { return circuit_; }
  std::size_t slots() const { return slots_; }
  /// Returns the rows of the largest launch with bootstraps. An item needs as many narrow ciphertexts as the largest launch
  /// has rows.
  std::size_t narrow_rows() const { return narrow_rows_; }
  const std::vector<std::shared_ptr<const device::LayerConstant>>& launches() const { return launches_; }
  /// Returns the first slot of the outputs. The slots of inputs (from 0) and of outputs are contiguous.
  std::size_t first_output() const { return first_output_; }

 private:
  std::shared_ptr<const Circuit> circuit_;
  std::vector<std::shared_ptr<const device::LayerConstant>> launches_;
  std::size_t slots_ = 0, narrow_rows_ = 0, first_output_ = 0;
};

/// Runs a circuit on every element. The circuit's input wires are the wires of the inputs in order; the inputs' shapes
/// broadcast. `outputs[i]` is the number of wires of result i; the results divide the circuit's outputs in order, and are
/// dense. Enqueues without waiting: one launch per layer over as many elements as fit. Throws MismatchError if inputs or
/// outputs do not fit the circuit; OutOfMemoryError before anything is computed.
std::vector<lwe::Tensor> run(const EvaluationKeysData& keys, const std::shared_ptr<const Circuit>& circuit,
                             const std::vector<lwe::Tensor>& inputs, const std::vector<std::size_t>& outputs);

}  // namespace heliograph::tfhe
