// Circuits on tensors.
#pragma once

#include "schemes/tfhe/context.h"

namespace heliograph::tfhe {

/// A circuit as launches over an arena of wires: each wire has a slot from the layer that makes it to the last that reads it.
class PreparedCircuit {
 public:
  PreparedCircuit(const Context& context, std::shared_ptr<const Circuit> circuit);

  const Circuit& circuit() const { return *circuit_; }
  const std::shared_ptr<const Circuit>& shared() const { return circuit_; }
  std::size_t slots() const { return slots_; }
  /// Rows of the largest launch with bootstraps: narrow ciphertexts an item needs.
  std::size_t narrow_rows() const { return narrow_rows_; }
  const std::vector<std::shared_ptr<const device::LayerConstant>>& launches() const { return launches_; }
  /// Slots of the inputs (0 ..) and of the outputs (first_output() ..) lie one after another.
  std::size_t first_output() const { return first_output_; }

 private:
  std::shared_ptr<const Circuit> circuit_;
  std::vector<std::shared_ptr<const device::LayerConstant>> launches_;
  std::size_t slots_ = 0, narrow_rows_ = 0, first_output_ = 0;
};

/// Runs a circuit on every element. Wires 0, 1, .. of the circuit are the wires of the inputs one after another; the inputs'
/// shapes broadcast. `outputs[i]` is the number of wires of result i: the circuit's outputs are cut in that order, and each
/// result is dense, of the broadcast shape. Enqueues; waits for nothing. One launch a layer over as many elements as fit.
/// Throws MismatchError where inputs or outputs do not fit the circuit, OutOfMemoryError before anything is computed.
std::vector<lwe::Tensor> run(const EvaluationKeysData& keys, const std::shared_ptr<const Circuit>& circuit,
                             const std::vector<lwe::Tensor>& inputs, const std::vector<std::size_t>& outputs,
                             const Progress& progress = {});

}  // namespace heliograph::tfhe
