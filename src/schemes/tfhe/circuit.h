// A circuit over encrypted bits and digits as a list of layers. Each layer runs in few launches.
#pragma once

#include <cstdint>
#include <vector>

namespace heliograph::tfhe {

/// The term weight * wire of a linear combination.
struct Term {
  std::uint32_t wire = 0;
  std::int32_t weight = 0;
  bool operator==(const Term&) const = default;
};

/// A linear combination of wires plus a constant of the torus (2^64 is one turn). The cost of a combination is negligible
/// compared with a bootstrap.
struct Linear {
  std::vector<Term> terms;  // ascending by wire, without duplicates; weights are not 0
  std::uint64_t constant = 0;
  bool operator==(const Linear&) const = default;
};

/// A table over the half turn [0, 1/2): values[i], a torus word, for a phase in [i, i + 1) / (2 * values.size()). For a
/// phase half a turn higher, the result is the negative value. The number of values is a power of two, at most N.
struct Table {
  std::vector<std::uint64_t> values;
  bool operator==(const Table&) const = default;
};

/// One bootstrap. Result o is wire first_output + o: the table at the phase of `input` plus o / (2 * outputs) turns.
struct Bootstrap {
  Linear input;
  std::uint32_t table = 0;
  std::uint32_t outputs = 1;  // 1, 2, 4 or 8
  std::uint32_t first_output = 0;
};

struct Circuit {
  std::uint32_t inputs = 0;  // the circuit's inputs are the wires from 0 to inputs - 1
  std::uint32_t wires = 0;   // number of all wires
  std::vector<Table> tables;
  std::vector<std::vector<Bootstrap>> layers;  // a layer reads inputs and results of earlier layers
  std::vector<Linear> outputs;                 // combinations of inputs and of bootstraps' results

  std::size_t bootstraps() const {
    std::size_t sum = 0;
    for (const auto& layer : layers) sum += layer.size();
    return sum;
  }
};

}  // namespace heliograph::tfhe
