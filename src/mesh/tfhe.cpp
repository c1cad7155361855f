#include "mesh/tfhe.h"

#include <algorithm>
#include <future>

#include "base/threads.h"

namespace heliograph::mesh {

// ---- keys and layers

/// Prepares a key on all members at the same time, on separate threads, because a large key takes long to transform.
template <class Key, class Word>
void MeshTfheKernels::on_every_member(const Key& constant, std::size_t bytes, std::span<const Word> key) {
  const auto prepare_on = [&](std::size_t m) { state_->member(m).device->tfhe().prepare(constant, key); };
  std::vector<std::size_t> short_of_memory;
  state_->guarded([&] {
    std::vector<std::pair<std::size_t, std::future<void>>> running;
    for (std::size_t m = 0; m < state_->size(); ++m) {
      if (!state_->here(m)) continue;
      running.emplace_back(m, starting_threads([&] { return std::async(std::launch::async, prepare_on, m); }));
    }
    for (auto& [m, result] : running) result.wait();  // threads must not read the key after an exception
    for (auto& [m, result] : running) {
      try {
        result.get();
      } catch (const OutOfMemoryError&) {
        if (state_->over_ranks()) throw;
        short_of_memory.push_back(m);
      }
    }
  });
  for (std::size_t m : short_of_memory) {  // frees cached copies, then evicts residents, as for tensors
    for (bool made = false; !made;) {
      const u64 seen = state_->residents ? state_->residents->evicted_bytes() : 0;
      try {
        prepare_on(m), made = true;
      } catch (const OutOfMemoryError&) {
        if (!state_->drop_copies() && !(state_->residents && state_->residents->make_room(bytes, seen))) throw;
        state_->drain();
      }
    }
  }
}

std::unique_ptr<const Form> MeshTfheKernels::form(const BootstrapKey& constant, std::span<const u64> key) {
  state_->require_sound();
  on_every_member(constant, key.size_bytes(), key);
  return std::make_unique<MeshBootstrap>(parallel_of_members(constant.shape()));
}

std::unique_ptr<const Form> MeshTfheKernels::form(const LweSwitchKey& constant, std::span<const math::u32> key) {
  state_->require_sound();
  on_every_member(constant, key.size_bytes(), key);
  return std::make_unique<const Form>();
}

std::vector<std::size_t> MeshTfheKernels::parallel_of_members(const BootstrapShape& shape) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [known, counts] : parallel_) {
    if (known == shape) return counts;
  }
  std::vector<std::size_t> counts(state_->size());
  state_->guarded([&] {
    for (std::size_t m = 0; m < counts.size(); ++m) {
      if (state_->here(m)) counts[m] = state_->member(m).device->tfhe().parallel_bootstraps(shape);
    }
  });
  if (state_->over_ranks()) state_->share(counts);  // all ranks must decide by the same numbers
  parallel_.emplace_back(shape, counts);
  return counts;
}

std::size_t MeshTfheKernels::parallel_bootstraps(const BootstrapShape& shape) const {
  std::size_t sum = 0;
  for (std::size_t count : parallel_of_members(shape)) sum += count;
  return sum;
}

std::vector<std::size_t> MeshTfheKernels::parallel_of(const Evaluate& call) const {
  if (!call.key) return std::vector<std::size_t>(state_->size(), 1);
  return form_on<MeshBootstrap>(*call.key, slot()).parallel;
}

std::shared_ptr<const LayerConstant> MeshLayer::rows(std::size_t first, std::size_t count, bool packed) const {
  const std::lock_guard lock(mutex_);
  auto& known = each_[{first, count, packed}];
  if (known) return known;
  const GateLayer& all = of().layer();
  const auto slice = [](const auto& list, std::size_t from, std::size_t n) {
    const auto begin = list.begin() + static_cast<std::ptrdiff_t>(from);
    return std::vector(begin, begin + static_cast<std::ptrdiff_t>(n));
  };
  GateLayer part{.first = std::vector<math::u32>(count + 1),
                 .source = {},
                 .weight = {},
                 .constant = std::vector<u64>(count),
                 .lut = slice(all.lut, first, count),
                 .target = slice(all.target, first * all.outputs, count * all.outputs),
                 .outputs = all.outputs,
                 .tables = all.tables,
                 .degree = all.degree};
  for (std::size_t i = 0; packed && i < part.target.size(); ++i) part.target[i] = static_cast<math::u32>(i);
  return known = std::make_shared<const LayerConstant>(std::move(part));
}

// ---- items of each member

namespace {

/// A tensor that a call processes in parts of complete items. A part is used in place if the member holds it; otherwise it
/// is fetched, and stored again after the call.
class Items {
 public:
  Items(Operation& op, const View& v) : op_(op), view_(v), away_(op.home(v) != Layout::batch) {
    parts_ = away_ ? op.fetch(v, op.parts(v, {}, Layout::batch)) : op.parts(v);
  }
  const std::vector<Block>& parts() const { return parts_; }
  bool away() const { return away_; }
  /// Records that the call writes the parts.
  void changed() {
    op_.writes(view_);
    if (away_) op_.store(parts_, view_);
  }

 private:
  Operation& op_;
  View view_;
  bool away_;
  std::vector<Block> parts_;
};

/// For each part of the items, returns the block of `v` that has the part's items.
std::vector<Block> like(const std::vector<Block>& parts, const View& v) {
  std::vector<Block> result = parts;
  for (Block& b : result) b.begin = 0, b.length = v.n, b.view = {};
  return result;
}

/// Returns the blocks that a call writes for each part's items. A block is in place if the member holds it; all other blocks
/// are also listed in `elsewhere`.
std::vector<Block> to_write(Operation& op, const View& v, const std::vector<Block>& parts, std::vector<Block>& elsewhere) {
  const std::vector<Block> have = op.parts(v);
  std::vector<Block> result;
  for (Block part : like(parts, v)) {
    const auto found = std::find_if(have.begin(), have.end(), [&](const Block& h) {
      return h.covers(part) && (h.view.axes == 1 || (h.first == part.first && h.count == part.count));
    });
    if (found == have.end()) {
      part = op.room({part}, v.components, v.word).front();
      elsewhere.push_back(part);
    } else {
      part.view = found->view;
      if (part.view.axes == 1) part.view = part.view.with_leading(part.first - found->first, part.count);
    }
    result.push_back(std::move(part));
  }
  return result;
}

}  // namespace

void MeshTfheKernels::run(Queue& q, const Combine& c) {
  Operation op(*state_, q);
  Items items(op, c.wires);
  for (const Block& part : items.parts()) {
    op.post(part.member, [there = on(c.layer, part.member), w = part.view](Device&, Queue& queue) {
      queue.enqueue(Combine{there, w});
    });
  }
  items.changed();
}

void MeshTfheKernels::run(Queue& q, const LweKeySwitch& c) {
  form_on<Form>(*c.key, slot());  // throws here, because an exception on a member's thread would end the mesh
  Operation op(*state_, q);
  const Items items(op, c.wires);
  std::vector<Block> elsewhere;
  const View rows = c.narrow.with_components(0, c.layer->layer().rows());  // without the padding after the rows
  const std::vector<Block> out = to_write(op, rows, items.parts(), elsewhere);
  op.writes(rows);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t m = out[i].member;
    op.post(m, [there = on(c.layer, m), key = c.key, w = items.parts()[i].view, o = out[i].view](Device&, Queue& queue) {
      queue.enqueue(LweKeySwitch{key, there, w, o});
    });
  }
  op.store(elsewhere, rows);
}

void MeshTfheKernels::run(Queue& q, const Bootstrap& c) {
  form_on<Form>(*c.key, slot());
  Operation op(*state_, q);
  Items items(op, c.wires);
  const View rows = c.narrow.with_components(0, c.layer->layer().rows());
  const std::vector<Block> in = op.fetch(rows, like(items.parts(), rows));
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::size_t m = in[i].member;
    op.post(m, [there = on(c.layer, m), key = c.key, n = in[i].view, w = items.parts()[i].view](Device&, Queue& queue) {
      queue.enqueue(Bootstrap{key, there, n, w});
    });
  }
  items.changed();
}

// ---- a layer

namespace {

/// Members that evaluate a layer for the items of one part: the owner of the items, then helping members. `bounds` divide
/// the rows among these members.
struct Team {
  std::vector<std::size_t> members, bounds;
};

/// Assigns idle members to the parts with the most rows per member. A part gets no idle members if its own members can
/// compute its rows in parallel.
std::vector<Team> teams_for(const State& state, const std::vector<Block>& parts, std::size_t rows,
                            const std::vector<std::size_t>& parallel) {
  std::vector<Team> teams;
  std::vector<double> waiting, capacity;
  std::vector<std::size_t> idle = range(0, parallel.size());
  for (const Block& part : parts) {
    teams.push_back({.members = {part.member}, .bounds = {}});
    waiting.push_back(static_cast<double>(part.count * rows));
    capacity.push_back(static_cast<double>(std::max<std::size_t>(1, parallel[part.member])));
    std::erase(idle, part.member);
  }
  for (std::size_t m : idle) {
    std::size_t most = 0;
    for (std::size_t i = 1; i < teams.size(); ++i) {
      if (waiting[i] * capacity[most] > waiting[most] * capacity[i]) most = i;
    }
    if (waiting[most] <= capacity[most] || teams[most].members.size() >= rows) break;
    teams[most].members.push_back(m);
    capacity[most] += static_cast<double>(std::max<std::size_t>(1, parallel[m]));
  }
  for (Team& team : teams) {
    std::vector<double> weights;
    for (std::size_t m : team.members) weights.push_back(state.weights()[m]);
    team.bounds = shares(rows, weights);
  }
  return teams;
}

/// The `count` wires first, first + step, ..., which hold the requested results at, at + 1, ...
struct Wires {
  std::size_t at, count, first, step;
};

std::vector<Wires> runs_of(const std::vector<math::u32>& wires) {
  std::vector<Wires> runs;
  for (std::size_t i = 0; i < wires.size(); ++i) {
    if (!runs.empty()) {
      Wires& r = runs.back();
      const std::size_t last = r.first + (r.count - 1) * r.step;
      if (wires[i] > last && (r.count == 1 || wires[i] - last == r.step)) {
        r.step = wires[i] - last;
        ++r.count;
        continue;
      }
    }
    runs.push_back({.at = i, .count = 1, .first = wires[i], .step = 1});
  }
  return runs;
}

/// Returns the `count` components first, first + step, ...
View every(const View& v, std::size_t first, std::size_t count, std::size_t step) {
  View r = v.with_components(first, (count - 1) * step + 1);
  r.components = count, r.component_stride = v.component_stride * step;
  return r;
}

/// Rows of a part's items that another member evaluates.
struct Help {
  std::size_t first = 0, count = 0;  // range of rows
  Block wires, narrow;               // blocks on the helping member: its rows' results without gaps; its narrow ciphertexts
  std::vector<Wires> in, out;        // wires of the rows' first results; wires of all results

  Help(const GateLayer& layer, std::size_t first_row, std::size_t rows) : first(first_row), count(rows) {
    std::vector<math::u32> heads, targets;
    for (std::size_t r = first; r < first + count; ++r) {
      for (std::size_t o = 0; o < layer.outputs; ++o) targets.push_back(layer.target[r * layer.outputs + o]);
      heads.push_back(layer.target[r * layer.outputs]);
    }
    in = runs_of(heads), out = runs_of(targets);
  }
};

/// Largest number of pieces to move for a helping member. Irregular wires need more pieces; help then takes too long.
constexpr std::size_t kMostRuns = 64;

/// Rows that helping members evaluate, and for each part the number of rows that the owner of its items evaluates.
struct Division {
  std::vector<Help> helps;
  std::vector<std::size_t> own;
};

/// Divides the rows of a layer between the members that hold items and the idle members.
Division divide_rows(const State& state, const std::vector<Block>& parts, const GateLayer& gates, const View& narrow,
                     const std::vector<std::size_t>& parallel) {
  Division division{.helps = {}, .own = std::vector<std::size_t>(parts.size(), gates.rows())};
  const std::vector<Team> teams = teams_for(state, parts, gates.rows(), parallel);
  for (std::size_t i = 0; i < teams.size(); ++i) {
    const auto& [members, bounds] = teams[i];
    std::vector<Help> team;
    for (std::size_t k = 1; k < members.size(); ++k) {
      if (bounds[k] == bounds[k + 1]) continue;
      Help h(gates, bounds[k], bounds[k + 1] - bounds[k]);
      h.wires = parts[i], h.wires.member = members[k];
      h.narrow = like({h.wires}, narrow).front();
      team.push_back(std::move(h));
    }
    const bool scattered = std::any_of(team.begin(), team.end(),
                                       [](const Help& h) { return h.in.size() > kMostRuns || h.out.size() > kMostRuns; });
    if (team.empty() || scattered) continue;
    division.own[i] = bounds[1];
    std::move(team.begin(), team.end(), std::back_inserter(division.helps));
  }
  return division;
}

/// Posts the work of a helping member. The member fetches the combinations of its rows and bootstraps them, while the owners
/// evaluate their own rows. `rows`: the layer restricted to the helping member's rows.
void post_help(Operation& op, const Evaluate& c, const std::shared_ptr<const LayerConstant>& rows, Help& h) {
  const std::size_t outputs = c.layer->layer().outputs;
  std::vector<device::Piece> pieces;
  const Block wanted = h.wires;
  h.wires = op.room({wanted}, h.count * outputs, c.wires.word).front();
  h.narrow = op.room({h.narrow}, h.count, c.narrow.word).front();
  for (const Wires& r : h.in) {
    const Block from = op.fetch(every(c.wires, r.first, r.count, r.step), {wanted}).front();
    pieces.push_back({from.view, every(h.wires.view, r.at * outputs, r.count, outputs)});
  }
  op.post(h.wires.member, [rows, ks = c.switch_key, bk = c.key, pieces = std::move(pieces), w = h.wires.view,
                           n = h.narrow.view](Device&, Queue& queue) {
    queue.enqueue(Gather{pieces});
    queue.enqueue(LweKeySwitch{ks, rows, w, n});
    queue.enqueue(Bootstrap{bk, rows, n, w});
  });
}

}  // namespace

void MeshTfheKernels::run(Queue& q, const Evaluate& c) {
  if (c.layer->layer().linear()) return q.expand(c);
  const std::vector<std::size_t>& parallel = form_on<MeshBootstrap>(*c.key, slot()).parallel;
  form_on<Form>(*c.switch_key, slot());
  prepare(*c.layer);
  const GateLayer& gates = c.layer->layer();
  Operation op(*state_, q);
  Items items(op, c.wires);
  std::vector<Block> elsewhere;  // scratch, which is not stored
  const std::vector<Block> scratch = to_write(op, c.narrow.with_components(0, gates.rows()), items.parts(), elsewhere);
  op.writes(c.narrow);
  Division division{.helps = {}, .own = std::vector<std::size_t>(items.parts().size(), gates.rows())};
  if (!items.away() && !state_->assigned_member()) division = divide_rows(*state_, items.parts(), gates, c.narrow, parallel);
  // An owner whose part has no helping member evaluates all rows of the part. All other owners first compute the
  // combinations, which helping members fetch.
  for (std::size_t i = 0; i < division.own.size(); ++i) {
    const std::size_t m = items.parts()[i].member;
    op.post(m, [there = on(c.layer, m), ks = c.switch_key, bk = c.key, w = items.parts()[i].view, n = scratch[i].view,
                alone = division.own[i] == gates.rows()](Device&, Queue& queue) {
      if (alone)
        queue.enqueue(Evaluate{ks, bk, there, w, n});
      else
        queue.enqueue(Combine{there, w});
    });
  }
  items.changed();
  if (division.helps.empty()) return;
  for (Help& h : division.helps) post_help(op, c, rows_on(*c.layer, h.wires.member, h.first, h.count, true), h);
  for (std::size_t i = 0; i < division.own.size(); ++i) {
    if (division.own[i] == gates.rows()) continue;
    const std::size_t m = items.parts()[i].member;
    op.post(m, [there = rows_on(*c.layer, m, 0, division.own[i], false), ks = c.switch_key, bk = c.key,
                w = items.parts()[i].view, n = scratch[i].view](Device&, Queue& queue) {
      queue.enqueue(LweKeySwitch{ks, there, w, n});
      queue.enqueue(Bootstrap{bk, there, n, w});
    });
  }
  op.writes(c.wires);  // cached copies of the combinations become invalid
  for (const Help& h : division.helps) {
    for (const Wires& r : h.out) {
      Block from = h.wires;
      from.view = every(h.wires.view, r.at, r.count, 1);
      op.store({from}, every(c.wires, r.first, r.count, r.step));
    }
  }
}

}  // namespace heliograph::mesh
