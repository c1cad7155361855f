#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "program/limbs/tasks.h"

namespace heliograph::program::limbs {

namespace {

/// The slots of a device, allocated in rows of adjacent slots, up to a maximum.
class Slots {
 public:
  explicit Slots(u32 most = kNone) : most_(most) {}

  std::optional<u32> take(u32 count) {
    for (auto run = free_.begin(); run != free_.end(); ++run) {
      if (run->second >= count) return taken(run, count);
    }
    // A free run at the end can be extended to a longer row.
    const auto last = free_.empty() ? free_.end() : std::prev(free_.end());
    const u32 at = last != free_.end() && last->first + last->second == count_ ? last->first : count_;
    if (most_ - at < count) return {};
    if (at != count_) free_.erase(last);
    count_ = at + count;
    return at;
  }
  /// Takes the longest free row of at most `count` slots; returns its start and length.
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
  std::map<u32, u32> free_;  // start and length of each run
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
      // Members of a group are allocated and freed at the same time.
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
    std::vector<std::vector<u32>> gone(ends.size());  // for each step, the values whose last use is in this step
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
      if (limited_ && !reload(step)) return false;
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

  /// Sorts the tasks by steps and returns the end of each step.
  std::vector<u32> into_steps() {
    std::vector<u32> ready(p_.values.size(), 0);  // the first step that may read each value
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
    // Removes steps without tasks.
    u32 step = 0, first = 0;
    for (const u32 end : ends) {
      for (; first < end; ++first) p_.tasks[first].step = step;
      ++step;
    }
    return ends;
  }

  u32 device(const Task& t) const { return t.kind == Task::Kind::convert ? p_.groups[t.to].device : p_.values[t.to].device; }
  /// Returns the position of a value in memory, as a sort key.
  std::pair<long, long> address(u32 v) const {
    const Value& value = p_.values[v];
    if (value.kind == Value::Kind::made) return {0, value.at};
    const Source& s = p_.sources[value.at];
    const long level = s.kind == 'k' ? static_cast<long>(p_.keys[s.which].level) : kPrimes;
    const long limb = s.prime < level ? s.prime : level + static_cast<long>(kPrimes - 1 - s.prime);
    return {(static_cast<long>(s.kind) << 40) + (static_cast<long>(s.which) << 16) + s.component, limb};
  }
  /// Returns a sort key that makes tasks adjacent if they can merge: sums by their readers, transforms by their operands'
  /// memory, conversions by their bases.
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

  /// Takes a row of slots on a device. If the device's memory is limited, moves other values to the host.
  std::optional<u32> row(u32 device, u32 count) {
    for (;;) {
      if (const auto at = slots_[device].take(count)) return at;
      if (!spill(device)) return {};
    }
  }
  /// Takes slots for `count` limbs in any rows, in one row if possible. Calls `assign` with each index and slot. Returns
  /// false if there is no memory.
  template <class F>
  bool rows(u32 device, u32 count, F assign) {
    while (!slots_[device].has(count)) {
      if (!spill(device)) return false;
    }
    for (u32 done = 0; done < count;) {
      const auto [at, length] = slots_[device].take_some(count - done);
      for (u32 k = 0; k < length; ++k) assign(done + k, at + k);
      done += length;
    }
    return true;
  }

  bool place(std::span<Task> step) {
    std::vector<std::pair<std::array<long, 4>, Task>> tasks;
    for (const Task& t : step) tasks.emplace_back(order(t), t);
    std::stable_sort(tasks.begin(), tasks.end(), [](const auto& x, const auto& y) { return x.first < y.first; });
    for (std::size_t k = 0; k < tasks.size(); ++k) step[k] = tasks[k].second;
    // Groups whose first member is written in this step, sorted by their conversions.
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
    // Allocates rows for the values without a group.
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

  // Limited memory: the value with the latest next use moves to the host once. A step that reads a moved value reloads it as
  // a new value.

  u32 now(u32 v) const { return v < now_.size() ? now_[v] : v; }
  bool on_host(u32 v) const { return p_.values[now(v)].device == host_; }
  void here(u32 v) {
    if (limited_) resident_[p_.values[now(v)].device].insert(v), held_[v] = step_ + 1;
  }
  /// Records the steps in which each value is read.
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
  /// Returns the members of the value's group, or the value alone.
  std::vector<u32> group_members(u32 v) const {
    const u32 g = p_.values[now(v)].group;
    return g == kNone ? std::vector<u32>{v} : members_of(g);
  }
  const std::vector<u32>& members_of(u32 g) const {
    const auto found = reloaded_.find(g);
    return found == reloaded_.end() ? p_.groups[g].members : found->second;
  }
  void give_back(u32 v) {
    if (limited_ && kept_[v] != kNone) spilled_.give(p_.values[kept_[v]].at);
    if (limited_ && on_host(v)) return;
    const Value& value = p_.values[now(v)];
    slots_[value.device].give(value.at);
    if (limited_) resident_[value.device].erase(v);
  }
  /// Moves a value and its group from a device to the host. Returns false if this step needs all values of the device.
  bool spill(u32 device) {
    if (!chosen_[device]) choose(device);
    std::vector<std::pair<u32, u32>>& list = *chosen_[device];
    if (list.empty()) return false;
    const std::vector<u32> all = group_members(list.back().second);
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
  /// Lists the values that may leave a device in this step, sorted by their next use.
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

  /// Reloads the values that a step reads, and makes the step read the reloaded values.
  bool reload(std::vector<Task>& step) {
    for (const Task& t : step) {
      each_read(t, [&](u32 v) {
        if (p_.values[v].kind == Value::Kind::made) held_[v] = step_ + 1;
      });
    }
    std::map<u32, std::vector<u32>> missing;  // indexed by device
    for (Task& t : step) {
      if (t.kind == Task::Kind::convert) {
        if (!reload_group(t.a)) return false;
        continue;
      }
      each_read(t, [&](u32 v) {
        if (p_.values[v].kind != Value::Kind::made || !on_host(v)) return;
        std::vector<u32>& list = missing[p_.values[v].device];
        if (std::find(list.begin(), list.end(), v) == list.end()) list.push_back(v);
      });
    }
    for (const auto& [device, list] : missing) {
      std::vector<u32> still;  // values that no group has reloaded
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
  /// Reloads, into adjacent slots, a group that a conversion reads.
  bool reload_group(u32 g) {
    const std::vector<u32> members = p_.groups[g].members;
    const bool together = std::all_of(members.begin(), members.end(),
                                      [&](u32 v) { return !on_host(v) && p_.values[now(v)].group == groups_[g]; });
    if (together) return true;
    const u32 device = p_.groups[g].device;
    for (const u32 v : members) {
      if (on_host(v)) continue;
      slots_[device].give(p_.values[now(v)].at);  // the slot that a member got when it was reloaded alone
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
    groups_[g] = fresh, reloaded_[fresh] = members;
    return true;
  }

  Linked& p_;
  const std::size_t window_;
  const u32 host_;  // device number of the host
  std::vector<u32> reader_, last_;
  std::vector<Slots> slots_;
  const bool limited_;
  u32 step_ = 0;
  std::vector<std::set<u32>> resident_;  // values on each device; indices here and below are the program's
  std::vector<std::vector<u32>> uses_;
  std::vector<u32> now_, kept_, groups_;      // for each value its current number and its copy on the host; numbers of
                                              // groups
  std::vector<u32> held_;                     // the last step that needs the value on the device, plus 1
  std::map<u32, std::vector<u32>> reloaded_;  // members of each reloaded group, as numbers in the program
  std::vector<u32> unwritten_;                // for each group, the number of members that are not written yet
  std::vector<std::optional<std::vector<std::pair<u32, u32>>>>
      chosen_;  // values that may leave each device in this step, by their next use
  Slots spilled_;
  std::vector<Task> out_, in_;  // moves to the host and from the host before the step
};

}  // namespace

bool place(Linked& program, const Memory& memory) { return Placer(program, memory).run(); }

}  // namespace heliograph::program::limbs
