#include "circuits/builder.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "base/errors.h"

namespace heliograph::circuits {

using tfhe::Bootstrap;
using tfhe::Circuit;
using tfhe::Table;
using tfhe::Term;

namespace {

std::uint64_t look(const std::vector<std::uint64_t>& values, std::uint64_t phase) {
  const std::uint64_t half = phase & ~(std::uint64_t{1} << 63);
  const unsigned bits = static_cast<unsigned>(std::countr_zero(values.size()));
  const std::uint64_t value = values[bits == 0 ? 0 : half >> (63 - bits)];
  return phase == half ? value : std::uint64_t{0} - value;
}

std::uint64_t turned(std::uint32_t o, std::uint32_t outputs) { return o * ((std::uint64_t{1} << 63) / outputs); }

Linear combine(const Linear& a, std::int32_t factor, const Linear& b) {
  Linear sum;
  sum.constant = a.constant + static_cast<std::uint64_t>(std::int64_t{factor}) * b.constant;
  sum.terms.reserve(a.terms.size() + b.terms.size());
  auto put = [&sum](std::uint32_t wire, std::int64_t weight) {
    require<InternalError>(weight >= INT32_MIN && weight <= INT32_MAX, "a weight of a linear combination exceeds 32 bits");
    if (weight != 0) sum.terms.push_back({wire, static_cast<std::int32_t>(weight)});
  };
  auto x = a.terms.begin();
  auto y = b.terms.begin();
  while (x != a.terms.end() || y != b.terms.end()) {
    if (y == b.terms.end() || (x != a.terms.end() && x->wire < y->wire)) {
      put(x->wire, x->weight);
      ++x;
    } else if (x == a.terms.end() || y->wire < x->wire) {
      put(y->wire, std::int64_t{factor} * y->weight);
      ++y;
    } else {
      put(x->wire, x->weight + std::int64_t{factor} * y->weight);
      ++x, ++y;
    }
  }
  return sum;
}

using Words = std::vector<std::uint64_t>;

/// Returns the terms of a combination as words, without the constant.
Words words_of(const Linear& x) {
  Words words;
  words.reserve(2 * x.terms.size() + 3);
  for (const Term& t : x.terms) words.insert(words.end(), {t.wire, static_cast<std::uint64_t>(std::int64_t{t.weight})});
  return words;
}

std::uint64_t phase_of(const Linear& x, const std::vector<std::uint64_t>& wires) {
  std::uint64_t phase = x.constant;
  for (const Term& t : x.terms) phase += static_cast<std::uint64_t>(std::int64_t{t.weight}) * wires[t.wire];
  return phase;
}

}  // namespace

Linear operator+(const Linear& a, const Linear& b) { return combine(a, 1, b); }
Linear operator-(const Linear& a, const Linear& b) { return combine(a, -1, b); }
Linear operator*(std::int32_t factor, const Linear& a) { return combine({}, factor, a); }

Linear plus(const Linear& a, std::uint64_t constant) {
  Linear sum = a;
  sum.constant += constant;
  return sum;
}

Linear constant(std::uint64_t value) { return {{}, value}; }

Linear Builder::input() {
  const auto wire = static_cast<std::uint32_t>(sources_.size());
  sources_.push_back(0);
  ++inputs_;
  return {{{wire, 1}}, 0};
}

std::uint64_t Builder::norm(const Linear& x) {
  std::uint64_t sum = 0;
  for (const Term& t : x.terms) sum += static_cast<std::uint64_t>(std::int64_t{t.weight} * t.weight);
  return sum;
}

std::size_t Builder::layer(const Linear& x) const {
  std::size_t layer = 0;
  for (const Term& t : x.terms) {
    const std::uint64_t source = sources_[t.wire];
    if (source != 0) layer = std::max(layer, made_[source - 1].layer + 1);
  }
  return layer;
}

std::vector<Linear> Builder::bootstrap(const Linear& x, const std::vector<std::uint64_t>& table, unsigned outputs,
                                       unsigned scale) {
  require<InternalError>(std::has_single_bit(outputs) && outputs <= 8, "a bootstrap must have 1, 2, 4 or 8 outputs");
  require<InternalError>(std::has_single_bit(table.size()), "the size of a bootstrap's table must be a power of two");
  std::vector<Linear> results(outputs);
  if (x.terms.empty()) {
    for (unsigned o = 0; o < outputs; ++o) results[o].constant = look(table, x.constant + turned(o, outputs));
    return results;
  }
  if (const std::uint64_t limit = std::uint64_t{encoding_.norm} * scale * scale; norm(x) > limit) {
    throw InternalError("the norm of a bootstrap's input is " + std::to_string(norm(x)) + "; the limit is " +
                        std::to_string(limit));
  }

  const auto [named, new_table] = table_numbers_.try_emplace(table, static_cast<std::uint32_t>(tables_.size()));
  if (new_table) tables_.push_back({table});
  Words key = words_of(x);
  key.insert(key.end(), {x.constant, named->second, outputs});
  const auto [entry, is_new] = known_.try_emplace(std::move(key), static_cast<std::uint32_t>(made_.size()));
  if (is_new) {
    const std::size_t at = layer(x);
    made_.push_back({{x, named->second, outputs, static_cast<std::uint32_t>(sources_.size())}, at});
    sources_.insert(sources_.end(), outputs, made_.size());
  }
  const std::uint32_t first = made_[entry->second].bootstrap.first_output;
  for (unsigned o = 0; o < outputs; ++o) results[o].terms = {{first + o, 1}};
  return results;
}

void Builder::output(const Linear& x) { outputs_.push_back(x); }

std::vector<std::vector<std::uint32_t>> Builder::ordered(const std::vector<bool>& needed, std::size_t depth) const {
  std::vector<std::vector<std::uint32_t>> layers(depth);
  std::vector<std::map<Words, std::uint32_t>> first(depth);
  std::vector<std::uint32_t> place(made_.size());
  for (std::size_t i = 0; i < made_.size(); ++i) {
    if (!needed[i]) continue;
    const auto number = static_cast<std::uint32_t>(i);
    place[i] = first[made_[i].layer].try_emplace(words_of(made_[i].bootstrap.input), number).first->second;
    layers[made_[i].layer].push_back(number);
  }
  for (auto& layer : layers) {
    std::stable_sort(layer.begin(), layer.end(), [&](std::uint32_t a, std::uint32_t b) { return place[a] < place[b]; });
  }
  return layers;
}

tfhe::Circuit Builder::finish() {
  // The inputs of a bootstrap are made before it, so one backward pass finds all needed bootstraps.
  std::vector<bool> needed(made_.size(), false), read(sources_.size(), false);
  auto need = [&](const Linear& x) {
    for (const Term& t : x.terms) {
      read[t.wire] = true;
      if (sources_[t.wire] != 0) needed[sources_[t.wire] - 1] = true;
    }
  };
  for (const Linear& x : outputs_) need(x);
  std::size_t depth = 0;
  for (std::size_t i = made_.size(); i-- > 0;) {
    if (!needed[i]) continue;
    need(made_[i].bootstrap.input);
    depth = std::max(depth, made_[i].layer + 1);
  }

  Circuit circuit;
  circuit.inputs = inputs_;
  circuit.layers.resize(depth);
  std::vector<std::uint32_t> number(sources_.size(), 0);  // number of each wire in the finished circuit
  for (std::size_t wire = 0; wire < sources_.size(); ++wire) {
    if (sources_[wire] == 0) number[wire] = circuit.wires++;
  }
  const std::vector<std::vector<std::uint32_t>> at = ordered(needed, depth);
  auto renumbered = [&number](Linear x) {
    for (Term& t : x.terms) t.wire = number[t.wire];
    std::sort(x.terms.begin(), x.terms.end(), [](const Term& a, const Term& b) { return a.wire < b.wire; });
    return x;
  };
  const auto unused = static_cast<std::uint32_t>(tables_.size());
  std::vector<std::uint32_t> table_number(tables_.size(), unused);
  for (std::size_t layer = 0; layer < depth; ++layer) {
    for (const std::uint32_t i : at[layer]) {
      const Bootstrap& made = made_[i].bootstrap;
      if (table_number[made.table] == unused) {
        table_number[made.table] = static_cast<std::uint32_t>(circuit.tables.size());
        circuit.tables.push_back(tables_[made.table]);
      }
      // If only the first result is read, one output suffices, because the result does not depend on their number.
      const auto others = read.begin() + made.first_output + 1;
      const bool alone = std::none_of(others, others + (made.outputs - 1), [](bool used) { return used; });
      const std::uint32_t outputs = alone ? 1 : made.outputs;
      circuit.layers[layer].push_back({renumbered(made.input), table_number[made.table], outputs, circuit.wires});
      for (std::uint32_t o = 0; o < outputs; ++o) number[made.first_output + o] = circuit.wires++;
    }
  }
  for (const Linear& x : outputs_) circuit.outputs.push_back(renumbered(x));
  return circuit;
}

std::vector<std::uint64_t> evaluate(const tfhe::Circuit& circuit, const std::vector<std::uint64_t>& inputs) {
  require<ShapeError>(inputs.size() == circuit.inputs, "inputs must have one torus word for each input of the circuit");
  std::vector<std::uint64_t> wires = inputs;
  wires.resize(circuit.wires);
  for (const auto& layer : circuit.layers) {
    for (const Bootstrap& b : layer) {
      const std::uint64_t phase = phase_of(b.input, wires);
      for (std::uint32_t o = 0; o < b.outputs; ++o) {
        wires[b.first_output + o] = look(circuit.tables[b.table].values, phase + turned(o, b.outputs));
      }
    }
  }
  std::vector<std::uint64_t> outputs;
  outputs.reserve(circuit.outputs.size());
  for (const Linear& x : circuit.outputs) outputs.push_back(phase_of(x, wires));
  return outputs;
}

}  // namespace heliograph::circuits
