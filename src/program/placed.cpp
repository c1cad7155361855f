#include "program/placed.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "device/shape.h"

namespace heliograph::program {

using device::Access;

namespace {

/// Stands for an absent step, place or number.
constexpr u32 kNoStep = ~u32{0};

/// Calls `f(place, access)` for each view of a step.
template <class F>
void each_place(const Step& step, F f) {
  std::size_t k = 0;
  device::each_view(step.call, [&](const View&, Access access) { f(step.places[k++], access); });
}

/// Strongly connected components of a graph. A component has a higher number than the components on which it depends.
/// Tarjan's algorithm (1972), without recursion.
class Circles {
 public:
  explicit Circles(const std::vector<std::set<u32>>& next) : next_(next), index_(next.size(), kNoStep), low_(next.size()) {
    of.assign(next.size(), kNoStep);
    for (u32 v = 0; v < next.size(); ++v) {
      if (index_[v] == kNoStep) visit(v);
    }
    for (u32& g : of) g = count - 1 - g;  // Tarjan's algorithm finds the last components first
  }
  std::vector<u32> of;
  u32 count = 0;

 private:
  void visit(u32 root) {
    struct Frame {
      u32 node;
      std::set<u32>::const_iterator at;
    };
    std::vector<Frame> frames;
    const auto enter = [&](u32 v) {
      index_[v] = low_[v] = time_++;
      stack_.push_back(v);
      frames.push_back({v, next_[v].begin()});
    };
    enter(root);
    while (!frames.empty()) {
      Frame& frame = frames.back();
      if (frame.at != next_[frame.node].end()) {
        const u32 w = *frame.at++;
        if (index_[w] == kNoStep)
          enter(w);
        else if (of[w] == kNoStep)
          low_[frame.node] = std::min(low_[frame.node], index_[w]);
        continue;
      }
      const u32 v = frame.node;
      frames.pop_back();
      if (!frames.empty()) low_[frames.back().node] = std::min(low_[frames.back().node], low_[v]);
      if (low_[v] != index_[v]) continue;
      for (u32 w = kNoStep; w != v;) {
        w = stack_.back();
        stack_.pop_back();
        of[w] = count;
      }
      ++count;
    }
  }

  const std::vector<std::set<u32>>& next_;
  std::vector<u32> index_, low_, stack_;
  u32 time_ = 0;
};

/// Steps grouped into tasks. All steps that write one place are in one task, and so are steps that wait for each other.
class Grouping {
 public:
  explicit Grouping(const Program::Parts& parts)
      : writer(parts.places.size(), kNoStep), task_of(parts.steps.size()), parts_(parts), root_(parts.steps.size()) {
    join_writers();
    number_tasks(dependencies());
  }

  std::vector<u32> writer;   // first step that writes each place, or kNoStep
  std::vector<u32> task_of;  // task of each step
  u32 count = 0;             // number of tasks

 private:
  u32 find(u32 s) {
    while (root_[s] != s) s = root_[s] = root_[root_[s]];
    return s;
  }

  /// Joins into one task the steps that write one place, and the steps that read the place before the first write.
  void join_writers() {
    for (u32 s = 0; s < root_.size(); ++s) root_[s] = s;
    std::vector<std::vector<u32>> early(parts_.places.size());  // steps that read a place before any step writes it
    for (u32 s = 0; s < root_.size(); ++s) {
      each_place(parts_.steps[s], [&](u32 p, Access access) {
        if (parts_.places[p].kind != Place::Kind::made) return;
        if (access == Access::read) {
          if (writer[p] == kNoStep) early[p].push_back(s);
          return;
        }
        if (writer[p] == kNoStep) writer[p] = s;
        root_[find(s)] = find(writer[p]);
        for (const u32 reader : early[p]) root_[find(reader)] = find(s);
        early[p].clear();
      });
    }
  }

  /// Returns the successors of each root step. A reader waits for the writer, and a later writer waits for the reader.
  std::vector<std::set<u32>> dependencies() {
    std::vector<std::set<u32>> next(root_.size());
    std::vector<u32> writes_last(parts_.places.size(), kNoStep);
    for (u32 s = 0; s < root_.size(); ++s) {
      each_place(parts_.steps[s], [&](u32 p, Access access) {
        if (access != Access::read) writes_last[p] = s;
      });
    }
    for (u32 s = 0; s < root_.size(); ++s) {
      each_place(parts_.steps[s], [&](u32 p, Access access) {
        if (access != Access::read || parts_.places[p].kind != Place::Kind::made || writer[p] == kNoStep) return;
        const u32 a = find(writer[p]), b = find(s);
        if (a == b) return;
        next[a].insert(b);
        if (writes_last[p] > s) next[b].insert(a);
      });
    }
    return next;
  }

  /// Numbers the tasks in topological order. Among the ready tasks, the task with the earliest step comes first.
  void number_tasks(const std::vector<std::set<u32>>& next) {
    const Circles circles(next);
    std::vector<u32> first(circles.count, kNoStep), waits(circles.count), number(circles.count);
    std::vector<std::set<u32>> after(circles.count);
    for (u32 s = 0; s < root_.size(); ++s) {
      const u32 mine = circles.of[find(s)];
      first[mine] = std::min(first[mine], s);
      for (const u32 other : next[s]) {
        if (const u32 theirs = circles.of[other]; theirs != mine && after[mine].insert(theirs).second) ++waits[theirs];
      }
    }
    std::set<std::pair<u32, u32>> ready;
    for (u32 g = 0; g < circles.count; ++g) {
      if (first[g] != kNoStep && waits[g] == 0) ready.emplace(first[g], g);
    }
    while (!ready.empty()) {
      const u32 g = ready.begin()->second;
      ready.erase(ready.begin());
      number[g] = count++;
      for (const u32 other : after[g]) {
        if (--waits[other] == 0) ready.emplace(first[other], other);
      }
    }
    for (u32 s = 0; s < root_.size(); ++s) task_of[s] = number[circles.of[find(s)]];
  }

  const Program::Parts& parts_;
  std::vector<u32> root_;  // union-find over steps
};

/// Predicts the seconds of each task on each executor: infinity on a member with too little memory for the program.
void predict(Tasks& tasks, const Program::Parts& parts, const device::Members& members,
             const std::vector<const KeySource*>* keys, std::size_t peak_bytes) {
  const std::size_t executors = members.size() + 1;
  std::vector<bool> room(members.size());
  for (std::size_t m = 0; m < members.size(); ++m) {
    const std::size_t memory = members.memory(m);
    room[m] = memory == 0 || peak_bytes <= memory / 2;
  }
  for (u32 t = 0; t < tasks.steps.size(); ++t) {
    TaskGraph::Task& task = tasks.graph.tasks[t];
    task.seconds.assign(executors, 0), task.calls = static_cast<double>(tasks.steps[t].size());
    for (const u32 s : tasks.steps[t]) {
      Call call = parts.steps[s].call;
      if (parts.steps[s].source != Step::kNoSource && keys != nullptr) (*keys)[parts.steps[s].source]->put_in(call);
      std::vector<double>& of_step = tasks.seconds[t].emplace_back(executors);
      for (std::size_t e = 0; e < executors; ++e) {
        of_step[e] = members.seconds(call, parts.steps[s].work, parts.steps[s].bytes, e);
        task.seconds[e] += of_step[e];
      }
    }
    for (std::size_t m = 0; m < members.size(); ++m) {
      if (!room[m]) task.seconds[m] = std::numeric_limits<double>::infinity();
    }
  }
}

/// Lists the values that tasks pass: inputs, and places that one task writes and another task reads.
void list_values(Tasks& tasks, const Program::Parts& parts, const Grouping& groups, const std::vector<std::size_t>& lies) {
  std::vector<u32> value(parts.places.size(), kNoStep);
  std::vector<std::set<u32>> reads(groups.count), writes(groups.count);
  for (u32 s = 0; s < parts.steps.size(); ++s) {
    const u32 t = groups.task_of[s];
    each_place(parts.steps[s], [&](u32 p, Access) {
      const Place& place = parts.places[p];
      const bool made = place.kind == Place::Kind::made && groups.writer[p] != kNoStep;
      if (!made && place.kind != Place::Kind::input) return;
      const u32 maker = made ? groups.task_of[groups.writer[p]] : TaskGraph::kInput;
      if (maker == t) return;
      if (value[p] == kNoStep) {
        value[p] = static_cast<u32>(tasks.graph.values.size());
        tasks.graph.values.push_back(
            {.bytes = static_cast<double>(place.shape.bytes()), .maker = maker, .lies = made ? 0 : lies[p]});
        tasks.places.push_back(p);
        if (made) writes[maker].insert(value[p]);
      }
      reads[t].insert(value[p]);
    });
  }
  for (u32 t = 0; t < groups.count; ++t) {
    tasks.graph.tasks[t].reads.assign(reads[t].begin(), reads[t].end());
    tasks.graph.tasks[t].writes.assign(writes[t].begin(), writes[t].end());
  }
}

/// Copies from `members` the costs of the links between executors, and the host's seconds for a call and for a piece.
void describe_links(TaskGraph& graph, const device::Members& members) {
  const std::size_t executors = members.size() + 1;
  graph.links.assign(executors, std::vector<TaskGraph::Link>(executors));
  for (std::size_t a = 0; a < executors; ++a) {
    for (std::size_t b = 0; b < executors; ++b) {
      const device::Members::Link link = members.link(a, b);
      graph.links[a][b] = {link.latency, link.bytes_a_second};
    }
    const device::Members::Host host = members.host(a);
    graph.call_host.push_back(host.call), graph.piece_host.push_back(host.piece);
  }
}

}  // namespace

Tasks::Tasks(const Program::Parts& parts, const device::Members& members, const std::vector<std::size_t>& lies,
             const std::vector<const KeySource*>* keys, std::size_t peak_bytes) {
  const Grouping groups(parts);
  steps.resize(groups.count), seconds.resize(groups.count);
  for (u32 s = 0; s < parts.steps.size(); ++s) steps[groups.task_of[s]].push_back(s);
  graph.members = members.size();
  graph.tasks.resize(groups.count);
  predict(*this, parts, members, keys, peak_bytes);
  list_values(*this, parts, groups, lies);
  describe_links(graph, members);
}

Placed::Placed(const Program::Parts& parts, device::Members& members, const std::vector<std::size_t>& lies,
               const std::vector<const KeySource*>* keys, std::size_t peak_bytes)
    : parts_(parts),
      members_(members),
      tasks_(parts, members, lies, keys, peak_bytes),
      partition_(program::partition(tasks_.graph)),
      places_(partition_.sole(tasks_.graph) != members.all() && !partition_.pieces.empty()),
      constants_(members.size(), std::vector<Buffer>(parts.places.size())) {
  if (places_) make_parts();
}

void Placed::make_parts() {
  const std::size_t places = parts_.places.size();
  std::vector<u32> part_of(parts_.steps.size());
  piece_of_.assign(places, kNoStep), born_.assign(places, kNoStep);
  for (const Piece& piece : partition_.pieces) {
    Part part{.executor = piece.executor};
    for (const u32 t : piece.tasks) part.steps.insert(part.steps.end(), tasks_.steps[t].begin(), tasks_.steps[t].end());
    for (const u32 s : part.steps) part_of[s] = static_cast<u32>(pieces_.size());
    pieces_.push_back(std::move(part));
  }
  for (u32 s = 0; s < parts_.steps.size(); ++s) {
    each_place(parts_.steps[s], [&](u32 p, Access access) {
      if (parts_.places[p].kind == Place::Kind::made && (access != Access::read || piece_of_[p] == kNoStep))
        piece_of_[p] = part_of[s];
    });
  }
  std::vector<std::set<u32>> takes(pieces_.size()), outputs(pieces_.size()), keys(pieces_.size());
  for (u32 s = 0; s < parts_.steps.size(); ++s) {
    const u32 mine = part_of[s];
    each_place(parts_.steps[s], [&](u32 p, Access) {
      const Place& place = parts_.places[p];
      if (place.kind == Place::Kind::input) takes[mine].insert(p);
      if (place.kind == Place::Kind::key) keys[mine].insert(p);
      if (place.kind != Place::Kind::made) return;
      const u32 maker = piece_of_[p];
      if (maker == mine) {
        if (place.result) outputs[mine].insert(p);
        return;
      }
      takes[mine].insert(p), outputs[maker].insert(p);
      if (pieces_[maker].executor != pieces_[mine].executor) pieces_[maker].awaited = true;
    });
  }
  for (u32 i = 0; i < pieces_.size(); ++i) {
    Part& part = pieces_[i];
    part.takes.assign(takes[i].begin(), takes[i].end()), part.outputs.assign(outputs[i].begin(), outputs[i].end());
    part.keys.assign(keys[i].begin(), keys[i].end());
    // A member that runs its own programs executes a complete part at once. On other members, the host alternates between
    // single calls of all parts, in the order of their starts, so that no member waits for another member's calls.
    if (part.executor < members_.size() && members_.session(part.executor) != nullptr) {
      actions_.push_back({partition_.pieces[i].start, i, kNoStep});
      continue;
    }
    for (const u32 t : partition_.pieces[i].tasks) {
      double at = partition_.begins[t];
      for (std::size_t k = 0; k < tasks_.steps[t].size(); ++k) {
        actions_.push_back({at, i, tasks_.steps[t][k]});
        at += tasks_.seconds[t][k][part.executor];
      }
    }
  }
  // The sort keeps the order of a part's actions, because their starts do not decrease. A part has a higher number than the
  // parts on which it depends.
  std::stable_sort(actions_.begin(), actions_.end(),
                   [](const Action& a, const Action& b) { return std::pair(a.start, a.part) < std::pair(b.start, b.part); });
  std::vector<u32> last(places, kNoStep);
  const auto use = [&](u32 action, u32 step) {
    each_place(parts_.steps[step], [&](u32 p, Access) {
      last[p] = action;
      if (born_[p] == kNoStep) born_[p] = step;
    });
  };
  for (u32 a = 0; a < actions_.size(); ++a) {
    if (actions_[a].step != kNoStep) {
      use(a, actions_[a].step);
      continue;
    }
    for (const u32 s : pieces_[actions_[a].part].steps) use(a, s);
  }
  for (u32 p = 0; p < places; ++p) {
    if (last[p] != kNoStep && !parts_.places[p].result) actions_[last[p]].releases.push_back(p);
  }
}

void Placed::make_own(Part& part) {
  const std::size_t m = part.executor;
  const device::Session* const session = members_.session(m);
  std::set<std::size_t> busy;
  for (const Part& one : pieces_) busy.insert(one.executor);
  Program::Parts own{.beside = busy.size()};
  std::map<u32, u32> number;
  part.own_takes.clear();
  const std::set<u32> takes(part.takes.begin(), part.takes.end());
  for (const u32 s : part.steps) {
    Step step = parts_.steps[s];
    step.session = session;
    members_.prepare(step.call, m);
    for (u32& p : step.places) {
      const auto [found, fresh] = number.try_emplace(p, static_cast<u32>(own.places.size()));
      if (fresh) {
        Place place = parts_.places[p];
        place.result = false;
        if (place.kind == Place::Kind::constant) {
          Buffer& copy = constants_[m][p];
          if (!copy) copy = members_.copy(place.memory, m);
          place.memory = members_.local(copy, m);
          require<OutOfMemoryError>(place.memory != nullptr,
                                    "a member has too little memory for the constants of a program");
        }
        if (takes.contains(p)) {
          if (place.kind == Place::Kind::made) place.alone = true;
          place.kind = Place::Kind::input;
          place.number = static_cast<u32>(part.own_takes.size());
          part.own_takes.push_back(p);
        }
        own.places.push_back(std::move(place));
      }
      p = found->second;
    }
    own.steps.push_back(std::move(step));
  }
  for (const u32 p : part.outputs) {
    Place& place = own.places[number.at(p)];
    place.result = true;
    own.results.push_back({.place = number.at(p), .view = place.shape.lent()});
    own.results.back().view.data = nullptr;
  }
  part.own = std::make_shared<const Program>(std::move(own));
}

namespace {

/// The keys of one owner, in a member's memory.
class MemberKeys final : public KeySource {
 public:
  explicit MemberKeys(const KeySource& keys) : keys_(keys) {}
  std::optional<u64> find(const Memory&) const override { return {}; }
  Buffer at(u64 which) const override { return there.at(which); }
  KeyForm form(u64 which) const override { return keys_.form(which); }
  void put_in(Call& call) const override { keys_.put_in(call); }

  std::map<u64, Buffer> there;

 private:
  const KeySource& keys_;
};

class Flag {
 public:
  explicit Flag(std::atomic<bool>& flag) : flag_(flag) { flag_ = true; }
  ~Flag() { flag_ = false; }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;

 private:
  std::atomic<bool>& flag_;
};

}  // namespace

class Placed::Run {
 public:
  Run(Placed& placed, const std::vector<View>& inputs, const std::vector<const KeySource*>& keys)
      : placed_(placed),
        parts_(placed.parts_),
        members_(placed.members_),
        inputs_(inputs),
        keys_(keys),
        moves_(members_.moves()),
        held_(members_.size() + 1, std::vector<Held>(parts_.places.size())),
        marks_(placed.pieces_.size()),
        begun_(placed.pieces_.size()) {}

  std::vector<View> results(bool& graphs) {
    // Inputs are copied first, because a copy waits for all earlier work of its source.
    for (const Part& part : placed_.pieces_) {
      for (const u32 p : part.takes) {
        if (parts_.places[p].kind == Place::Kind::input) bring(p, part.executor);
      }
    }
    graphs = false;
    for (u32 a = 0; a < placed_.actions_.size(); ++a) {
      const Action& action = placed_.actions_[a];
      Part& part = placed_.pieces_[action.part];
      if (!begun_[action.part]) {
        begun_[action.part] = true;
        for (const u32 p : part.takes) bring(p, part.executor);
      }
      if (action.step != kNoStep) {
        perform(part, action.step);
      } else if (std::optional<bool> as_graph = replay_as_program(part)) {
        graphs = graphs || *as_graph;
      } else {
        for (const u32 s : part.steps) perform(part, s);
      }
      const bool ended = action.step == kNoStep || action.step == part.steps.back();
      if (ended && part.awaited && part.executor < members_.size()) marks_[action.part] = moves_->mark(part.executor);
      for (const u32 p : action.releases) {
        for (auto& of_executor : held_) of_executor[p] = {};
      }
    }
    std::vector<View> shown;
    for (const Shown& r : parts_.results) {
      const Place& place = parts_.places[r.place];
      Held base;
      if (place.kind == Place::Kind::input)
        base = {inputs_[place.number].memory, inputs_[place.number].data};
      else if (place.kind == Place::Kind::constant)
        base = {place.memory, place.memory->address()};
      else
        base = held_[placed_.pieces_[placed_.piece_of_[r.place]].executor][r.place];
      View v = r.view;
      v.data = behind(base.data, v.data), v.memory = base.memory;
      shown.push_back(std::move(v));
    }
    return shown;
  }

 private:
  struct Held {
    Buffer memory = nullptr;
    std::byte* data = nullptr;  // address of the place's first byte
  };

  /// Makes the words of a place available on an executor, by a copy if necessary.
  void bring(u32 p, std::size_t executor) {
    Held& here = held_[executor][p];
    if (here.memory) return;
    const Place& place = parts_.places[p];
    View v = place.shape;
    std::optional<std::size_t> made;
    bool dense = true;
    if (place.kind == Place::Kind::input) {
      v = inputs_[place.number];
      dense = place.alone && device::is_dense(v);
    } else {
      const u32 maker = placed_.piece_of_[p];
      const Held& from = held_[placed_.pieces_[maker].executor][p];
      v.data = from.data, v.memory = from.memory;
      const std::size_t holder = members_.holder(v), on = placed_.pieces_[maker].executor;
      if (holder < members_.size()) made = holder == on && marks_[maker] ? *marks_[maker] : moves_->mark(holder);
    }
    const View there = moves_->bring(v, dense, executor, made);
    here = {there.memory, there.data};
  }

  Held constant(u32 p, std::size_t executor) {
    const Buffer& memory = parts_.places[p].memory;
    if (executor == members_.all()) return {memory, memory->address()};
    Buffer& copy = placed_.constants_[executor][p];
    if (!copy) copy = members_.copy(memory, executor);
    return {copy, copy->address()};
  }

  void perform(const Part& part, u32 s) {
    const Step& step = parts_.steps[s];
    members_.on(part.executor, [&] {
      std::vector<Held>& here = held_[part.executor];
      std::vector<Held> of_views;
      Call call = step.call;
      std::size_t k = 0;
      device::each_view(call, [&](View& v, Access) {
        const u32 p = step.places[k++];
        const Place& place = parts_.places[p];
        Held& mine = here[p];
        if (place.kind == Place::Kind::made && placed_.born_[p] == s && !mine.memory) {
          Buffer buffer = step.session->allocate(place.shape, place.primes, place.secrecy);
          mine.data = buffer->address(), mine.memory = std::move(buffer);
        }
        Held base = mine;
        if (place.kind == Place::Kind::constant) base = constant(p, part.executor);
        if (place.kind == Place::Kind::key) {
          // The key is held only during the call, because all keys together may exceed the memory.
          base.memory = keys_[place.number]->at(place);
          base.data = base.memory->address();
        }
        v.data = behind(base.data, v.data), v.memory = base.memory;
        of_views.push_back(std::move(base));
      });
      if (step.source != Step::kNoSource) keys_[step.source]->put_in(call);
      step.session->enqueue(std::move(call));
    });
  }

  /// Replays a part as the member's own program. Returns whether the replay was a graph; nullopt, before any work, if the
  /// operands are not on the member.
  std::optional<bool> replay_as_program(Part& part) {
    const std::size_t m = part.executor;
    if (!part.own) placed_.make_own(part);
    std::vector<View> views;
    for (const u32 p : part.own_takes) {
      const Held& here = held_[m][p];
      View v = parts_.places[p].kind == Place::Kind::input ? inputs_[parts_.places[p].number] : parts_.places[p].shape;
      v.data = here.data, v.memory = here.memory;
      std::byte* const address = members_.address(v, m);
      if (address == nullptr) return {};
      v.memory = members_.local(here.memory, m), v.data = address;
      views.push_back(std::move(v));
    }
    std::vector<MemberKeys> there;
    for (const KeySource* source : keys_) there.emplace_back(*source);
    for (const u32 p : part.keys) {
      const Place& place = parts_.places[p];
      Buffer& key = there[place.number].there[place.which];
      if (!key) key = members_.key(keys_[place.number]->at(place), m);
    }
    std::vector<const KeySource*> sources;
    for (const MemberKeys& source : there) sources.push_back(&source);
    bool as_graph = false;
    members_.alone(m, [&] {
      const u64 before = part.own->replays().graphs;
      const std::vector<View> made = part.own->replay(views, sources);
      as_graph = part.own->replays().graphs > before;
      for (std::size_t i = 0; i < made.size(); ++i) {
        const Place& place = parts_.places[part.outputs[i]];
        const Buffer memory = members_.adopt(made[i], place.shape, m);
        held_[m][part.outputs[i]] = {memory, memory->address()};
      }
    });
    return as_graph;
  }

  Placed& placed_;
  const Program::Parts& parts_;
  device::Members& members_;
  const std::vector<View>& inputs_;
  const std::vector<const KeySource*>& keys_;
  const std::unique_ptr<device::Moves> moves_;
  std::vector<std::vector<Held>> held_;            // [executor][place]
  std::vector<std::optional<std::size_t>> marks_;  // queue position after each part
  std::vector<bool> begun_;
};

std::vector<View> Placed::replay(const std::vector<View>& inputs, const std::vector<const KeySource*>& keys, bool& graphs) {
  for (const Place& place : parts_.places) {
    if (place.kind == Place::Kind::input && place.used) device::require_words(inputs[place.number]);
  }
  const std::lock_guard lock(mutex_);
  const Flag busy(busy_);
  return Run(*this, inputs, keys).results(graphs);
}

Program::Timeline Placed::timeline() const {
  Program::Timeline timeline{.lanes = {}, .seconds = partition_.seconds};
  for (std::size_t e = 0; e <= members_.size(); ++e) {
    Program::Lane lane{.member = e < members_.size() ? members_.name(e) : "all together", .events = {}};
    for (const Piece& piece : partition_.pieces) {
      if (piece.executor != e) continue;
      for (const u32 t : piece.tasks) {
        double at = partition_.begins[t];
        if (const double copying = partition_.copying[t]; copying > 0) lane.events.push_back({"fetch", at - copying, at});
        for (std::size_t k = 0; k < tasks_.steps[t].size(); ++k) {
          const double end = at + tasks_.seconds[t][k][e];
          lane.events.push_back({device::name(parts_.steps[tasks_.steps[t][k]].call), at, end});
          at = end;
        }
      }
    }
    if (e < members_.size() || !lane.events.empty()) timeline.lanes.push_back(std::move(lane));
  }
  return timeline;
}

std::size_t Placed::evictable_bytes() {
  if (busy_) return 0;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return 0;
  std::size_t bytes = 0;
  for (const auto& of_executor : constants_) {
    for (const Buffer& copy : of_executor) bytes += copy ? copy->bytes() : 0;
  }
  for (const Part& part : pieces_) bytes += part.own ? part.own->graph_bytes() : 0;
  return bytes;
}

std::size_t Placed::evict() {
  const std::size_t bytes = evictable_bytes();
  if (bytes == 0) return 0;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || busy_) return 0;
  for (auto& of_executor : constants_) std::fill(of_executor.begin(), of_executor.end(), nullptr);
  for (Part& part : pieces_) part.own = nullptr;
  return bytes;
}

}  // namespace heliograph::program
