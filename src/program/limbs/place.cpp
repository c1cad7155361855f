#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "program/limbs/tasks.h"

namespace heliograph::program::limbs {

namespace {

/// Limbs of memory, of which rows are taken.
class Slots {
 public:
  u32 take(u32 count) {
    for (auto run = free_.begin(); run != free_.end(); ++run) {
      if (run->second < count) continue;
      const auto [at, length] = *run;
      free_.erase(run);
      if (length > count) free_.emplace(at + count, length - count);
      return at;
    }
    count_ += count;
    return count_ - count;
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

 private:
  std::map<u32, u32> free_;  // where each run begins, and its length
  u32 count_ = 0;
};

class Placer {
 public:
  explicit Placer(Linked& program)
      : p_(program), reader_(program.values.size(), kNone), last_(program.values.size(), kNone), slots_(program.devices) {}

  void run() {
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
    u32 first = 0;
    for (u32 step = 0; step < ends.size(); ++step) {
      place(std::span(p_.tasks).subspan(first, ends[step] - first));
      for (const u32 v : gone[step]) slots_[p_.values[v].device].give(p_.values[v].at);
      first = ends[step];
    }
    for (const Slots& s : slots_) p_.slots.push_back(s.count());
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
    constexpr std::size_t kWindow = 2048;
    std::vector<u32> ready(p_.values.size(), 0);  // the first step that may read a value
    u32 base = 0, most = 0;
    for (std::size_t k = 0; k < p_.tasks.size(); ++k) {
      if (k % kWindow == 0) base = most;
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

  void place(std::span<Task> step) {
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
      while (i + count < begun.size() && begun[i + count].first == begun[i].first) ++count;
      const auto [where, size] = begun[i].first;
      u32 at = slots_[where].take(static_cast<u32>(count) * size);
      for (; count > 0; --count, ++i) {
        Group& g = p_.groups[begun[i].second];
        g.at = at;
        for (const u32 v : g.members) p_.values[v].at = at++;
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
      u32 at = slots_[device(step[i])].take(static_cast<u32>(count));
      for (; count > 0; --count, ++i) p_.values[step[i].to].at = at++;
    }
  }

  Linked& p_;
  std::vector<u32> reader_, last_;
  std::vector<Slots> slots_;
};

}  // namespace

void place(Linked& program) { Placer(program).run(); }

}  // namespace heliograph::program::limbs
