#include "schemes/tfhe/run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <queue>
#include <utility>

#include "base/checked.h"
#include "base/progress.h"
#include "device/chunks.h"

namespace heliograph::tfhe {

namespace {

/// Allocates slots of the arena to wires, the lowest free slot first. Returned slots become free after their layer.
class Slots {
 public:
  explicit Slots(std::size_t taken) : count_(taken) {}
  u32 take() {
    if (free_.empty()) return static_cast<u32>(count_++);
    const u32 slot = free_.top();
    free_.pop();
    return slot;
  }
  void give_back(u32 slot) { free_.push(slot); }
  /// Takes consecutive slots after all slots in use.
  std::size_t take_row(std::size_t count) {
    count_ += count;
    return count_ - count;
  }
  std::size_t count() const { return count_; }

 private:
  std::priority_queue<u32, std::vector<u32>, std::greater<>> free_;
  std::size_t count_;
};

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

/// Returns the last layer that reads each wire, or kNever. Throws MismatchError for inconsistent circuits.
std::vector<std::size_t> last_reads(const Circuit& c) {
  std::vector<std::size_t> last(c.wires, kNever);
  std::vector<bool> made(c.wires);
  const auto reads = [&](const Linear& x, std::size_t layer) {
    for (const Term& t : x.terms) {
      require<MismatchError>(t.wire < c.wires && made[t.wire], "a circuit reads a wire before it is made");
      last[t.wire] = layer;
    }
  };
  require<MismatchError>(c.inputs <= c.wires, "a circuit must have at least as many wires as inputs");
  std::fill_n(made.begin(), c.inputs, true);
  for (std::size_t layer = 0; layer < c.layers.size(); ++layer) {
    for (const Bootstrap& b : c.layers[layer]) reads(b.input, layer);
    for (const Bootstrap& b : c.layers[layer]) {
      require<MismatchError>(b.first_output <= c.wires && b.outputs <= c.wires - b.first_output && b.table < c.tables.size(),
                             "a circuit's bootstrap refers to a wire or table that does not exist");
      for (u32 o = 0; o < b.outputs; ++o) {
        require<MismatchError>(!made[b.first_output + o], "a circuit makes a wire twice");
        made[b.first_output + o] = true;
      }
    }
  }
  for (const Linear& x : c.outputs) reads(x, c.layers.size());
  return last;
}

/// Appends the table's values, each repeated equally often, so that they fill N coefficients.
void append_table(const Table& table, std::size_t degree, std::vector<u64>& out) {
  require<MismatchError>(!table.values.empty() && table.values.size() <= degree && degree % table.values.size() == 0,
                         "a circuit's table does not fit the test polynomial");
  const std::size_t box = degree / table.values.size();
  for (const u64 value : table.values) out.insert(out.end(), box, value);
}

void append_row(const Linear& x, const std::vector<u32>& slot, device::GateLayer& to) {
  if (to.first.empty()) to.first.push_back(0);
  for (const Term& t : x.terms) to.source.push_back(slot[t.wire]), to.weight.push_back(t.weight);
  to.first.push_back(static_cast<u32>(to.source.size()));
  to.constant.push_back(x.constant);
}

/// Returns, for bootstraps of 2^i results, the number of results with which to launch them. A launch costs one
/// bootstrap's latency, an unused result one slot of the arena. So bootstraps with fewer results join a launch with more
/// results if few slots are wasted.
std::array<u32, 4> launched_results(const std::vector<Bootstrap>& layer) {
  constexpr std::size_t kFew = 64;
  std::array<std::size_t, 4> rows{};
  for (const Bootstrap& b : layer) {
    require<MismatchError>(std::has_single_bit(b.outputs) && b.outputs <= 8, "a bootstrap must have 1, 2, 4 or 8 results");
    ++rows[static_cast<std::size_t>(std::countr_zero(b.outputs))];
  }
  std::array<u32, 4> launched{1, 2, 4, 8};
  for (std::size_t i = 0; i < 3; ++i) {
    std::size_t more = i + 1;
    while (more < 4 && rows[more] == 0) ++more;
    if (rows[i] == 0 || more == 4) continue;
    const std::size_t unread = rows[i] * ((std::size_t{1} << more) - (std::size_t{1} << i));
    if (unread > std::max(kFew, rows[more] << more)) continue;
    rows[more] += std::exchange(rows[i], 0);
    std::replace(launched.begin(), launched.end(), u32{1} << i, u32{1} << more);
  }
  return launched;
}

}  // namespace

PreparedCircuit::PreparedCircuit(const Context& context, std::shared_ptr<const Circuit> circuit)
    : circuit_(std::move(circuit)) {
  const Circuit& c = *circuit_;
  const std::size_t degree = context.spec().degree;
  const std::vector<std::size_t> last = last_reads(c);
  std::vector<u32> slot(c.wires);
  for (u32 w = 0; w < c.inputs; ++w) slot[w] = w;
  Slots slots(c.inputs);
  std::vector<std::vector<u32>> dies(c.layers.size() + 1);  // the wires that each layer is the last to read
  for (u32 w = 0; w < c.wires; ++w) {
    if (last[w] != kNever) dies[last[w]].push_back(w);
  }
  device::TfheKernels& kernels = context.session().device().tfhe();
  const auto prepare = [&](device::GateLayer layer) {
    launches_.push_back(context.session().with_room(8 * layer.tables.size() + 16 * layer.source.size() + 16 * layer.rows(),
                                                    [&] { return kernels.prepare(layer); }));
  };
  for (std::size_t l = 0; l < c.layers.size(); ++l) {
    // A layer's slots are returned after the layer, because all its launches read them.
    std::vector<u32> unread;
    const std::array<u32, 4> launched = launched_results(c.layers[l]);
    const auto results = [&](const Bootstrap& b) { return launched[static_cast<std::size_t>(std::countr_zero(b.outputs))]; };
    for (const u32 outputs : {1U, 2U, 4U, 8U}) {
      device::GateLayer layer{.outputs = outputs, .degree = degree};
      std::map<u32, u32> luts;
      for (const Bootstrap& b : c.layers[l]) {
        if (results(b) != outputs) continue;
        append_row(b.input, slot, layer);
        const auto [lut, fresh] = luts.try_emplace(b.table, static_cast<u32>(luts.size()));
        if (fresh) append_table(c.tables[b.table], degree, layer.tables);
        layer.lut.push_back(lut->second);
      }
      if (layer.rows() == 0) continue;
      for (const Bootstrap& b : c.layers[l]) {
        if (results(b) != outputs) continue;
        for (u32 o = 0; o < outputs; ++o) {
          const u32 place = slots.take(), apart = outputs / b.outputs, wire = b.first_output + o / apart;
          layer.target.push_back(place);
          if (o % apart == 0) slot[wire] = place;
          if (o % apart != 0 || last[wire] == kNever) unread.push_back(place);
        }
      }
      narrow_rows_ = std::max(narrow_rows_, layer.rows());
      prepare(std::move(layer));
    }
    for (u32 w : dies[l]) slots.give_back(slot[w]);
    for (u32 s : unread) slots.give_back(s);
  }
  first_output_ = slots.take_row(c.outputs.size());
  if (!c.outputs.empty()) {
    device::GateLayer layer;
    for (const Linear& x : c.outputs) {
      layer.target.push_back(static_cast<u32>(first_output_ + layer.rows()));
      append_row(x, slot, layer);
    }
    prepare(std::move(layer));
  }
  slots_ = slots.count();
}

namespace {

std::size_t sum(const std::vector<std::size_t>& values) {
  std::size_t total = 0;
  for (std::size_t v : values) total = checked_add(total, v);
  return total;
}

/// Returns the number of elements to process at a time. The elements of one pass use at most half of the free memory. The
/// number of elements is at most 32 times the bootstraps that the device runs in parallel.
std::size_t items_at_once(const Context& c, const PreparedCircuit& p, std::size_t items, std::size_t bytes_each) {
  const std::size_t room = c.session().free_memory() / 2,
                    fit = std::max<std::size_t>(1, room / std::max<std::size_t>(1, bytes_each));
  const std::size_t busy = 32 * c.session().device().tfhe().parallel_bootstraps(c.lwe().bootstrap);
  return p.narrow_rows() == 0 ? std::min(items, fit) : std::min({items, fit, std::max<std::size_t>(1, busy)});
}

}  // namespace

std::vector<lwe::Tensor> run(const EvaluationKeysData& keys, const std::shared_ptr<const Circuit>& circuit,
                             const std::vector<lwe::Tensor>& inputs, const std::vector<std::size_t>& outputs) {
  Context& c = *keys.context;
  Shape shape;
  std::vector<std::size_t> wires;
  for (const lwe::Tensor& x : inputs) {
    require<MismatchError>(x.session() == c.session_shared() && x.view().n == c.words(),
                           "an operand must have the parameter set of the evaluation keys");
    shape = device::broadcast_shapes(shape, x.shape());
    wires.push_back(x.wires());
  }
  require<MismatchError>(sum(wires) == circuit->inputs && sum(outputs) == circuit->outputs.size(),
                         "the wires of operands and results must be those of the circuit");
  const std::shared_ptr<const PreparedCircuit> prepared = c.prepared(circuit);
  device::Session& session = c.session();
  const std::size_t items = device::element_count(shape), narrow_words = device::lwe_words(c.spec().n);
  const std::size_t each = prepared->slots() * c.words() * 8 + prepared->narrow_rows() * narrow_words * 4;
  // The keys are held before memory is counted, because held keys cannot be evicted.
  const bool bootstraps = prepared->narrow_rows() > 0 && items > 0;
  const std::shared_ptr<const PreparedKeys> key = bootstraps ? keys.prepared() : nullptr;
  session.require_memory(checked_add(checked_product(items, sum(outputs), c.words(), std::size_t{8}), items ? each : 0),
                         "this computation");

  std::vector<lwe::Tensor> results;
  std::vector<device::View> views;
  for (const lwe::Tensor& x : inputs) views.push_back(x.broadcast_to(shape).view());
  for (const std::size_t count : outputs) {
    results.push_back(c.tensor(shape, count));
    views.push_back(results.back().view());
  }
  if (items == 0 || outputs.empty()) return results;

  const std::size_t at_once = items_at_once(c, *prepared, items, each);
  const lwe::Tensor arena = c.tensor({at_once}, prepared->slots());
  // The view has at least one row, which circuits without bootstraps do not use.
  device::View narrow = device::View::dense(nullptr, math::Word::w32, {at_once},
                                            std::max<std::size_t>(1, prepared->narrow_rows()), 1, narrow_words);
  narrow = narrow.in(session.allocate(narrow, device::PrimeList::range(0, 1)));

  ProgressSteps steps(items * prepared->launches().size());
  device::for_chunks(views, at_once, [&](const std::vector<device::View>& part) {
    const std::size_t count = part.front().items();
    const device::View flat = arena.view().with_leading(0, count), scratch = narrow.with_leading(0, count);
    const device::View shaped = *device::reshape_view(flat, device::shape_of(part.front()));
    std::size_t at = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      session.enqueue(device::Copy{part[i], shaped.with_components(at, wires[i])});
      at += wires[i];
    }
    for (std::size_t l = 0; l < prepared->launches().size(); ++l) {
      const std::shared_ptr<const device::LayerConstant>& layer = prepared->launches()[l];
      if (layer->layer().linear())
        session.enqueue(device::Combine{layer, flat});
      else
        session.enqueue(device::Evaluate{key->key_switch, key->bootstrap, layer, flat, scratch});
      steps.add(count);
    }
    at = prepared->first_output();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      session.enqueue(device::Copy{shaped.with_components(at, outputs[i]), part[inputs.size() + i]});
      at += outputs[i];
    }
  });
  return results;
}

}  // namespace heliograph::tfhe
