// A circuit over encrypted bits and digits as a levelled list: what a program becomes before it runs, one launch a layer.
#pragma once

#include <cstdint>
#include <vector>

namespace heliograph::tfhe {

/// weight * wire
struct Term {
  std::uint32_t wire = 0;
  std::int32_t weight = 0;
  bool operator==(const Term&) const = default;
};

/// A linear combination of wires plus a constant of the torus (2^64 is one turn). Costs nothing until it is bootstrapped.
struct Linear {
  std::vector<Term> terms;  // by wire, each once, weights not 0
  std::uint64_t constant = 0;
  bool operator==(const Linear&) const = default;
};

/// A table over the half turn [0, 1/2): values[i] for a phase in [i, i + 1) / (2 * values.size()), each a torus word; a
/// phase half a turn on gives the negative. The number of values is a power of two, at most N.
struct Table {
  std::vector<std::uint64_t> values;
  bool operator==(const Table&) const = default;
};

/// One bootstrap: its results are wires first_output, first_output + 1, ...: the table at the phase of `input`, and at that
/// phase plus o / (2 * outputs) turns.
struct Bootstrap {
  Linear input;
  std::uint32_t table = 0;
  std::uint32_t outputs = 1;  // 1, 2, 4 or 8
  std::uint32_t first_output = 0;
};

struct Circuit {
  std::uint32_t inputs = 0;  // wires 0 .. inputs - 1
  std::uint32_t wires = 0;   // all
  std::vector<Table> tables;
  std::vector<std::vector<Bootstrap>> layers;  // each reads inputs and results of the layers before it
  std::vector<Linear> outputs;                 // of inputs and all results

  std::size_t bootstraps() const {
    std::size_t sum = 0;
    for (const auto& layer : layers) sum += layer.size();
    return sum;
  }
};

}  // namespace heliograph::tfhe
