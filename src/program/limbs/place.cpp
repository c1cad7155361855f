#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "program/limbs/tasks.h"

namespace heliograph::program::limbs {

namespace {

/// Limbs of memory, of which rows are taken; at most so many.
class Slots {
 public:
  explicit Slots(u32 most = kNone) : most_(most) {}

  std::optional<u32> take(u32 count) {
    for (auto run = free_.begin(); run != free_.end(); ++run) {
      if (run->second >= count) return taken(run, count);
    }
    // What is free at the end is the beginning of a longer row.
    const auto last = free_.empty() ? free_.end() : std::prev(free_.end());
    const u32 at = last != free_.end() && last->first + last->second == count_ ? last->first : count_;
    if (most_ - at < count) return {};
    if (at != count_) free_.erase(last);
    count_ = at + count;
    return at;
  }
  /// As long a row as there is, of `count` at most; and its length.
  std::pair<u32, u32> take_some(u32 count) {
    if (const auto all = take(count)) return {*all, count};
    const auto longest =
        std::max_element(free_.begin(), free_.end(), [](const auto& x, const auto& y) { return x.second < y.second; });
    const u32 found = longest == free_.end() ? 0 : longest->second, beyond = most_ - count_;
    if (beyond > found) return {*take(beyond), beyond};
    return {taken(longest, found), found};
  }
  void give(u32 at) {
    u32 length = 1;
    auto next = free_.lower_bound(at);
    if (next != free_.end() && next->first == at + 1) length += next->second, next = free_.erase(next);
    if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == at)
      std::prev(next)->second += length;
    else
      free_.emplace(at, length);
  }
  u32 count() const { return count_; }
  bool has(u32 wanted) const {
    u32 left = most_ - count_;
    for (auto run = free_.begin(); left < wanted && run != free_.end(); ++run) left += run->second;
    return left >= wanted;
  }

 private:
  u32 taken(std::map<u32, u32>::iterator run, u32 count) {
    const auto [at, length] = *run;
    free_.erase(run);
    if (length > count) free_.emplace(at + count, length - count);
    return at;
  }

  u32 most_;
  std::map<u32, u32> free_;  // where each run begins, and its length
  u32 count_ = 0;
};

class Placer {
 public:
  Placer(Linked& program, const Memory& memory)
      : p_(program),
        window_(memory.window),
        host_(program.devices),
        reader_(program.values.size(), kNone),
        last_(program.values.size(), kNone),
        slots_(program.devices),
        limited_(!memory.most.empty()),
        resident_(program.devices) {
    for (std::size_t d = 0; d < memory.most.size(); ++d) slots_[d] = Slots(memory.most[d]);
  }

  bool run() {
    const std::vector<u32> ends = into_steps();
    for (u32 i = 0; i < p_.tasks.size(); ++i) {
      each_read(p_.tasks[i], [&](u32 v) {
        if (reader_[v] == kNone) reader_[v] = i;
        last_[v] = p_.tasks[i].step;
      });
      each_written(p_.tasks[i], [&](u32 v) {
        if (last_[v] == kNone) last_[v] = p_.tasks[i].step;
      });
    }
    for (const Group& g : p_.groups) {
      // They come and go together.
      u32 last = 0;
      for (const u32 v : g.members) last = std::max(last, last_[v]);
      for (const u32 v : g.members) last_[v] = last;
    }
    std::vector<bool> stays(p_.values.size());
    for (const Result& r : p_.results) {
      for (const u32 v : r.values) stays[v] = true;
    }
    for (const Group& g : p_.groups) {
      const bool some = std::any_of(g.members.begin(), g.members.end(), [&](u32 v) { return stays[v]; });
      for (const u32 v : g.members) stays[v] = stays[v] || some;
    }
    std::vector<std::vector<u32>> gone(ends.size());  // values after each step
    for (u32 v = 0; v < p_.values.size(); ++v) {
      if (p_.values[v].kind == Value::Kind::made && last_[v] != kNone && !stays[v]) gone[last_[v]].push_back(v);
    }
    if (limited_) note_uses();
    std::vector<Task> all = std::move(p_.tasks), done;
    u32 first = 0, number = 0;
    for (step_ = 0; step_ < ends.size(); ++step_) {
      std::vector<Task> step(all.begin() + first, all.begin() + ends[step_]);
      out_.clear(), in_.clear();
      chosen_.assign(p_.devices, std::nullopt);
      if (limited_ && !come_back(step)) return false;
      if (!place(step)) return false;
      for (std::vector<Task>* const part : {&out_, &in_, &step}) {
        if (part->empty()) continue;
        for (Task& t : *part) t.step = number;
        done.insert(done.end(), part->begin(), part->end());
        ++number;
      }
      if (limited_) note_written(step);
      for (const u32 v : gone[step_]) give_back(v);
      first = ends[step_];
    }
    p_.tasks = std::move(done);
    for (Result& r : p_.results) {
      for (u32& v : r.values) v = now(v);
    }
    for (const Slots& s : slots_) p_.slots.push_back(s.count());
    if (spilled_.count() > 0) p_.slots.push_back(spilled_.count());
    return true;
  }

 private:
  template <class F>
  void each_read(const Task& t, F f) const {
    if (t.kind == Task::Kind::convert) {
      for (const u32 v : p_.groups[t.a].members) f(v);
      return;
    }
    if (t.a != kNone) f(t.a);
    for (u32 k = 0; k < t.count; ++k) {
      const Summand& s = p_.summands[t.first + k];
      if (s.a != kNone) f(s.a);
      if (s.b != kNone) f(s.b);
    }
  }
  template <class F>
  void each_written(const Task& t, F f) const {
    if (t.kind != Task::Kind::convert) return f(t.to);
    for (const u32 v : p_.groups[t.to].members) f(v);
  }

  /// Orders the tasks by steps and returns where each step ends.
  std::vector<u32> into_steps() {
    std::vector<u32> ready(p_.values.size(), 0);  // the first step that may read a value
    u32 base = 0, most = 0;
    for (std::size_t k = 0; k < p_.tasks.size(); ++k) {
      if (k % window_ == 0) base = most;
      Task& task = p_.tasks[k];
      task.step = base;
      each_read(task, [&](u32 v) { task.step = std::max(task.step, ready[v]); });
      each_written(task, [&](u32 v) { ready[v] = task.step + 1; });
      most = std::max(most, task.step + 1);
    }
    std::stable_sort(p_.tasks.begin(), p_.tasks.end(), [](const Task& x, const Task& y) { return x.step < y.step; });
    std::vector<u32> ends;
    for (u32 k = 1; k <= p_.tasks.size(); ++k) {
      if (k == p_.tasks.size() || p_.tasks[k].step != p_.tasks[k - 1].step) ends.push_back(k);
    }
    // Steps without tasks are left out.
    u32 step = 0, first = 0;
    for (const u32 end : ends) {
      for (; first < end; ++first) p_.tasks[first].step = step;
      ++step;
    }
    return ends;
  }

  u32 device(const Task& t) const { return t.kind == Task::Kind::convert ? p_.groups[t.to].device : p_.values[t.to].device; }
  /// Of a value that is there.
  std::pair<long, long> address(u32 v) const {
    const Value& value = p_.values[v];
    if (value.kind == Value::Kind::made) return {0, value.at};
    const Source& s = p_.sources[value.at];
    const long level = s.kind == 'k' ? static_cast<long>(p_.keys[s.which].level) : kPrimes;
    const long limb = s.prime < level ? s.prime : level + static_cast<long>(kPrimes - 1 - s.prime);
    return {(static_cast<long>(s.kind) << 40) + (static_cast<long>(s.which) << 16) + s.component, limb};
  }
  /// What comes together: sums by who reads them, transforms as their operands lie, conversions by their bases.
  std::array<long, 4> order(const Task& t) const {
    std::array<long, 4> key{static_cast<long>(t.kind), device(t), 0, 0};
    if (t.kind == Task::Kind::sum) {
      key[2] = reader_[t.to];
    } else if (t.kind == Task::Kind::convert) {
      key[2] = t.table, key[3] = p_.groups[t.a].at;
    } else if (t.kind == Task::Kind::move) {
      key[2] = p_.values[t.a].device, key[3] = address(t.a).second;
    } else {
      std::tie(key[2], key[3]) = address(t.a);
    }
    return key;
  }

  /// A row on a device, for which others leave it where it is limited.
  std::optional<u32> row(u32 device, u32 count) {
    for (;;) {
      if (const auto at = slots_[device].take(count)) return at;
      if (!spill(device)) return {};
    }
  }
  /// Rows for so many limbs that lie anywhere: one, where it can be. `put`: of each one's number and slot. False where there is no room.
  template <class F>
  bool rows(u32 device, u32 count, F put) {
    while (!slots_[device].has(count)) {
      if (!spill(device)) return false;
    }
    for (u32 done = 0; done < count;) {
      const auto [at, length] = slots_[device].take_some(count - done);
      for (u32 k = 0; k < length; ++k) put(done + k, at + k);
      done += length;
    }
    return true;
  }

  bool place(std::span<Task> step) {
    std::vector<std::pair<std::array<long, 4>, Task>> tasks;
    for (const Task& t : step) tasks.emplace_back(order(t), t);
    std::stable_sort(tasks.begin(), tasks.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    for (std::size_t k = 0; k < tasks.size(); ++k) step[k] = tasks[k].second;
    // Groups that begin here, those of one conversion after another.
    std::vector<std::pair<std::pair<u32, u32>, u32>> begun;
    for (const Task& t : step) {
      each_written(t, [&](u32 v) {
        const u32 g = p_.values[v].group;
        if (g == kNone || p_.groups[g].at != kNone) return;
        p_.groups[g].at = 0;
        begun.push_back({{p_.groups[g].device, static_cast<u32>(p_.groups[g].members.size())}, g});
      });
    }
    std::stable_sort(begun.begin(), begun.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    for (std::size_t i = 0; i < begun.size();) {
      std::size_t count = 1;
      while (!limited_ && i + count < begun.size() && begun[i + count].first == begun[i].first) ++count;
      const auto [where, size] = begun[i].first;
      const std::optional<u32> found = row(where, static_cast<u32>(count) * size);
      if (!found) return false;
      for (u32 at = *found; count > 0; --count, ++i) {
        Group& g = p_.groups[begun[i].second];
        g.at = at;
        for (const u32 v : g.members) p_.values[v].at = at++, here(v);
      }
    }
    // Rows of the others.
    for (std::size_t i = 0; i < step.size();) {
      const auto free = [&](const Task& t) { return t.kind != Task::Kind::convert && p_.values[t.to].group == kNone; };
      std::size_t count = 1;
      if (!free(step[i])) {
        ++i;
        continue;
      }
      while (i + count < step.size() && free(step[i + count]) && step[i + count].kind == step[i].kind &&
             device(step[i + count]) == device(step[i]))
        ++count;
      const bool room = rows(device(step[i]), static_cast<u32>(count), [&](u32 k, u32 at) {
        const u32 v = step[i + k].to;
        p_.values[v].at = at, here(v);
      });
      if (!room) return false;
      i += count;
    }
    return true;
  }

  // Memory that is limited: what is read latest goes to the host, once, and comes back as another value when it is read.

  u32 now(u32 v) const { return v < now_.size() ? now_[v] : v; }
  bool on_host(u32 v) const { return p_.values[now(v)].device == host_; }
  void here(u32 v) {
    if (limited_) resident_[p_.values[now(v)].device].insert(v), held_[v] = step_ + 1;
  }
  /// The steps in which each value is read.
  void note_uses() {
    const std::size_t count = p_.values.size();
    uses_.resize(count), now_.resize(count), kept_.resize(count, kNone), held_.resize(count, 0);
    for (u32 v = 0; v < count; ++v) now_[v] = v;
    groups_.resize(p_.groups.size());
    for (u32 g = 0; g < groups_.size(); ++g)
      groups_[g] = g, unwritten_.push_back(static_cast<u32>(p_.groups[g].members.size()));
    for (const Task& t : p_.tasks) {
      each_read(t, [&](u32 v) {
        if (uses_[v].empty() || uses_[v].back() != t.step) uses_[v].push_back(t.step);
      });
    }
  }
  void note_written(const std::vector<Task>& step) {
    for (const Task& t : step) {
      each_written(t, [&](u32 v) {
        if (p_.values[v].group != kNone) --unwritten_[p_.values[v].group];
      });
    }
  }
  u32 next_use(u32 v) const {
    const auto next = std::upper_bound(uses_[v].begin(), uses_[v].end(), step_);
    return next == uses_[v].end() ? kNone : *next;
  }
  /// Where it lies together with others, those.
  std::vector<u32> company(u32 v) const {
    const u32 g = p_.values[now(v)].group;
    return g == kNone ? std::vector<u32>{v} : members_of(g);
  }
  const std::vector<u32>& members_of(u32 g) const {
    const auto found = again_.find(g);
    return found == again_.end() ? p_.groups[g].members : found->second;
  }
  void give_back(u32 v) {
    if (limited_ && kept_[v] != kNone) spilled_.give(p_.values[kept_[v]].at);
    if (limited_ && on_host(v)) return;
    const Value& value = p_.values[now(v)];
    slots_[value.device].give(value.at);
    if (limited_) resident_[value.device].erase(v);
  }
  /// One value leaves a device, with those beside which it lies; false where this step needs all that are there.
  bool spill(u32 device) {
    if (!chosen_[device]) choose(device);
    std::vector<std::pair<u32, u32>>& list = *chosen_[device];
    if (list.empty()) return false;
    const std::vector<u32> all = company(list.back().second);
    list.pop_back();
    std::optional<u32> at;
    for (std::size_t k = 0; k < all.size(); ++k) {
      const u32 v = all[k], from = now(v);
      slots_[device].give(p_.values[from].at);
      resident_[device].erase(v);
      if (kept_[v] == kNone) {
        if (!at) at = *spilled_.take(static_cast<u32>(all.size() - k));
        kept_[v] = another(v, host_, (*at)++, kNone);
        out_.push_back({.kind = Task::Kind::move, .to = kept_[v], .a = from});
      }
      now_[v] = kept_[v];
    }
    return true;
  }
  /// What may leave a device in this step, what is read latest last.
  void choose(u32 device) {
    std::vector<std::pair<u32, u32>>& list = chosen_[device].emplace();
    for (const u32 v : resident_[device]) {
      const u32 g = p_.values[now(v)].group;
      const auto next_of = [&](u32 m) { return held_[m] == step_ + 1 ? 0 : next_use(m); };
      if (g == kNone) {
        if (next_of(v) > 0) list.emplace_back(next_of(v), v);
        continue;
      }
      const std::vector<u32>& all = members_of(g);
      if (v != all[0] || (g < unwritten_.size() && unwritten_[g] > 0)) continue;
      u32 next = kNone;
      for (const u32 m : all) next = std::min(next, next_of(m));
      if (next > 0) list.emplace_back(next, v);
    }
    std::sort(list.begin(), list.end());
  }
  u32 another(u32 v, u32 device, u32 at, u32 group) {
    Value copy = p_.values[v];
    copy.device = device, copy.at = at, copy.group = group;
    p_.values.push_back(copy);
    return static_cast<u32>(p_.values.size() - 1);
  }

  /// Brings back what a step reads and names it as it is then.
  bool come_back(std::vector<Task>& step) {
    for (const Task& t : step) {
      each_read(t, [&](u32 v) {
        if (p_.values[v].kind == Value::Kind::made) held_[v] = step_ + 1;
      });
    }
    std::map<u32, std::vector<u32>> missing;  // by device
    for (Task& t : step) {
      if (t.kind == Task::Kind::convert) {
        if (!come_back_together(t.a)) return false;
        continue;
      }
      each_read(t, [&](u32 v) {
        if (p_.values[v].kind != Value::Kind::made || !on_host(v)) return;
        std::vector<u32>& list = missing[p_.values[v].device];
        if (std::find(list.begin(), list.end(), v) == list.end()) list.push_back(v);
      });
    }
    for (const auto& [device, list] : missing) {
      std::vector<u32> still;  // a group may have brought some
      for (const u32 v : list) {
        if (on_host(v)) still.push_back(v);
      }
      const bool room = rows(device, static_cast<u32>(still.size()), [&, device = device](u32 k, u32 at) {
        const u32 v = still[k];
        now_[v] = another(v, device, at, kNone);
        in_.push_back({.kind = Task::Kind::move, .to = now_[v], .a = kept_[v]});
        here(v);
      });
      if (!room) return false;
    }
    for (Task& t : step) {
      if (t.kind == Task::Kind::convert) {
        t.a = groups_[t.a];
        continue;
      }
      if (t.a != kNone) t.a = now(t.a);
      for (u32 k = 0; k < t.count; ++k) {
        Summand& s = p_.summands[t.first + k];
        if (s.a != kNone) s.a = now(s.a);
        if (s.b != kNone) s.b = now(s.b);
      }
    }
    return true;
  }
  /// A group that a conversion reads: side by side.
  bool come_back_together(u32 g) {
    const std::vector<u32> members = p_.groups[g].members;
    const bool together = std::all_of(members.begin(), members.end(),
                                      [&](u32 v) { return !on_host(v) && p_.values[now(v)].group == groups_[g]; });
    if (together) return true;
    const u32 device = p_.groups[g].device;
    for (const u32 v : members) {
      if (on_host(v)) continue;
      slots_[device].give(p_.values[now(v)].at);  // which came back alone
      resident_[device].erase(v);
      now_[v] = kept_[v];
    }
    const std::optional<u32> found = row(device, static_cast<u32>(members.size()));
    if (!found) return false;
    const u32 fresh = static_cast<u32>(p_.groups.size());
    Group copy{.device = device, .members = {}, .at = *found};
    for (u32 k = 0; k < members.size(); ++k) {
      const u32 v = members[k];
      now_[v] = another(v, device, *found + k, fresh);
      copy.members.push_back(now_[v]);
      in_.push_back({.kind = Task::Kind::move, .to = now_[v], .a = kept_[v]});
      here(v);
    }
    p_.groups.push_back(std::move(copy));
    groups_[g] = fresh, again_[fresh] = members;
    return true;
  }

  Linked& p_;
  const std::size_t window_;
  const u32 host_;  // as a device
  std::vector<u32> reader_, last_;
  std::vector<Slots> slots_;
  const bool limited_;
  u32 step_ = 0;
  std::vector<std::set<u32>> resident_;  // of each device, by the values' first names, as all below
  std::vector<std::vector<u32>> uses_;
  std::vector<u32> now_, kept_, groups_;   // what a value is now, its copy on the host; what a group is now
  std::vector<u32> held_;                  // one more than the last step that needs it where it is
  std::map<u32, std::vector<u32>> again_;  // first names of those of a group that came back
  std::vector<u32> unwritten_;             // members of a group
  std::vector<std::optional<std::vector<std::pair<u32, u32>>>>
      chosen_;  // of each device: what may leave it now, by its next use
  Slots spilled_;
  std::vector<Task> out_, in_;  // before a step
};

}  // namespace

bool place(Linked& program, const Memory& memory) { return Placer(program, memory).run(); }

}  // namespace heliograph::program::limbs
