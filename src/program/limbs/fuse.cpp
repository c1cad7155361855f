#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>

#include "device/view.h"
#include "program/limbs/tasks.h"

namespace heliograph::program::limbs {

namespace {

using Kind = Action::Kind;
using Sum = std::vector<Summand>;

constexpr std::size_t kMostSummands = 32;

class Fuser {
 public:
  Fuser(Linked& program, bool fused)
      : p_(program), fused_(fused), uses_(program.values.size()), kept_(program.values.size()) {}

  void run() {
    join_conversions();
    for (const Action& a : p_.actions) {
      const bool reads_values = a.kind == Kind::ntt || a.kind == Kind::inverse || a.kind == Kind::move || shifts(a);
      if (a.kind == Kind::convert) {
        for (const u32 v : p_.groups[a.a].members) kept_[v] = true;
        continue;
      }
      for (const u32 v : {a.a, a.b}) {
        if (v == kNone) continue;
        ++uses_[v];
        kept_[v] = kept_[v] || reads_values;
      }
    }
    for (const Result& r : p_.results) {
      for (const u32 v : r.values) kept_[v] = true;
    }
    for (std::size_t i = 0; i < p_.actions.size(); ++i) {
      if (!joined_[i]) take(p_.actions[i]);
    }
  }

 private:
  /// Returns whether an action adds a number at coefficient 0 only. In the NTT domain a constant polynomial has the
  /// number at every position.
  bool shifts(const Action& a) const {
    return (a.kind == Kind::add_scalar || a.kind == Kind::take_scalar) && p_.values[a.to].coefficients;
  }

  /// Merges the conversions of one group into the first conversion, which gets all targets.
  void join_conversions() {
    joined_.assign(p_.actions.size(), false);
    if (!fused_) return;
    std::map<Bases, u32> known;
    for (u32 t = 0; t < p_.conversions.size(); ++t) known.emplace(p_.conversions[t], t);
    std::unordered_map<u32, std::size_t> first;  // indexed by source of the conversions
    for (std::size_t i = 0; i < p_.actions.size(); ++i) {
      Action& a = p_.actions[i];
      if (a.kind != Kind::convert) continue;
      const auto [found, fresh] = first.try_emplace(a.a, i);
      if (fresh) continue;
      Action& into = p_.actions[found->second];
      Bases both = p_.conversions[into.table];
      const std::vector<std::uint16_t>& more = p_.conversions[a.table].to;
      if (both.to.size() + more.size() > device::PrimeList::kMost) {
        found->second = i;
        continue;
      }
      both.to.insert(both.to.end(), more.begin(), more.end());
      const auto [table, is_new] = known.try_emplace(both, static_cast<u32>(p_.conversions.size()));
      if (is_new) p_.conversions.push_back(both);
      into.table = table->second;
      for (const u32 v : p_.groups[a.to].members) {
        p_.values[v].group = into.to;
        p_.groups[into.to].members.push_back(v);
      }
      p_.groups[a.to].members.clear();
      joined_[i] = true;
    }
  }

  static Sum only(u32 v) { return Sum(1, Summand{.a = v}); }
  Sum sum_of(u32 v) {
    const auto found = pending_.find(v);
    return found == pending_.end() ? only(v) : found->second;
  }
  /// Returns the value. Adds an action that computes the value if there is none yet.
  u32 kept(u32 v) {
    const auto found = pending_.find(v);
    if (found == pending_.end()) return v;
    emit(v, found->second);
    pending_.erase(found);
    return v;
  }
  void emit(u32 v, const Sum& sum) {
    p_.tasks.push_back({.kind = Task::Kind::sum,
                        .to = v,
                        .first = static_cast<u32>(p_.summands.size()),
                        .count = static_cast<u32>(sum.size())});
    p_.summands.insert(p_.summands.end(), sum.begin(), sum.end());
  }
  void make(u32 v, Sum sum) {
    const bool wait =
        fused_ && !kept_[v] && p_.values[v].group == kNone && (uses_[v] <= 1 || (sum.size() == 1 && sum[0].b == kNone));
    if (wait)
      pending_[v] = std::move(sum);
    else
      emit(v, sum);
  }

  Sum joined(u32 a, u32 b, bool negative) {
    Sum x = sum_of(a), y = sum_of(b);
    if (x.size() + y.size() > kMostSummands) {
      const bool first = x.size() > y.size();
      (first ? x : y) = only(kept(first ? a : b));
    }
    for (Summand& s : y) {
      s.negative = s.negative != negative;
      x.push_back(s);
    }
    return x;
  }
  /// Applies `f` to each summand of a value. If `f` cannot process the summands, applies `f` to the value itself.
  template <class F>
  Sum each(u32 v, F f) {
    Sum sum = sum_of(v);
    for (Summand& s : sum) {
      if (f(s)) continue;
      sum = only(kept(v));
      f(sum[0]);
      return sum;
    }
    return sum;
  }
  static bool turnless(const Summand& s) { return s.turn == kNone && s.b == kNone && s.a != kNone; }
  Sum product(u32 a, u32 b) {
    Sum x = sum_of(a), y = sum_of(b);
    // One factor may have an automorphism and a weight; the other factor must be a value without them.
    const auto plain = [](const Sum& s) {
      return s.size() == 1 && turnless(s[0]) && s[0].scalar == kNone && s[0].divisor == kNone && !s[0].negative;
    };
    const auto one = [](const Sum& s) { return s.size() == 1 && s[0].b == kNone && s[0].a != kNone; };
    if (!plain(y) && plain(x)) std::swap(x, y), std::swap(a, b);
    if (!plain(y)) y = only(kept(b));
    if (!one(x)) x = only(kept(a));
    x[0].b = y[0].a;
    return x;
  }

  void take(const Action& a) {
    switch (a.kind) {
      case Kind::add:
      case Kind::subtract:
        return make(a.to, joined(a.a, a.b, a.kind == Kind::subtract));
      case Kind::negate:
        return make(a.to, each(a.a, [](Summand& s) { return s.negative = !s.negative, true; }));
      case Kind::multiply:
        return make(a.to, product(a.a, a.b));
      case Kind::scale:
        return make(a.to, each(a.a, [&](Summand& s) {
                      if (s.scalar != kNone) return false;
                      s.scalar = a.b;
                      return true;
                    }));
      case Kind::divide: {
        Sum sum = joined(a.a, a.b, true);
        if (std::any_of(sum.begin(), sum.end(), [](const Summand& s) { return s.divisor != kNone; }))
          sum = {Summand{.a = kept(a.a)}, Summand{.a = kept(a.b), .negative = true}};
        for (Summand& s : sum) s.divisor = a.table;
        return make(a.to, std::move(sum));
      }
      case Kind::turn:
        return make(a.to, each(a.a, [&](Summand& s) {
                      if (!turnless(s)) return false;
                      s.turn = a.table;
                      return true;
                    }));
      case Kind::copy:
        return make(a.to, sum_of(a.a));
      case Kind::add_scalar:
      case Kind::take_scalar: {
        const bool negative = a.kind == Kind::take_scalar;
        if (!shifts(a)) {
          Sum sum = sum_of(a.a);
          if (sum.size() == kMostSummands) sum = only(kept(a.a));
          sum.push_back({.scalar = a.b, .negative = negative});
          return make(a.to, std::move(sum));
        }
        p_.tasks.push_back({.kind = Task::Kind::shift,
                            .to = a.to,
                            .a = kept(a.a),
                            .first = static_cast<u32>(p_.summands.size()),
                            .count = 1});
        p_.summands.push_back({.scalar = a.b, .negative = negative});
        return;
      }
      case Kind::ntt:
        p_.tasks.push_back({.kind = Task::Kind::ntt, .to = a.to, .a = kept(a.a)});
        return;
      case Kind::inverse:
        p_.tasks.push_back({.kind = Task::Kind::inverse, .to = a.to, .a = kept(a.a)});
        return;
      case Kind::move:
        p_.tasks.push_back({.kind = Task::Kind::move, .to = a.to, .a = kept(a.a)});
        return;
      case Kind::convert:
        p_.tasks.push_back({.kind = Task::Kind::convert, .to = a.to, .a = a.a, .table = a.table});
        return;
    }
  }

  Linked& p_;
  bool fused_;
  std::vector<u32> uses_;
  std::vector<bool> kept_, joined_;
  std::unordered_map<u32, Sum> pending_;
};

}  // namespace

void fuse(Linked& program, bool fused) { Fuser(program, fused).run(); }

}  // namespace heliograph::program::limbs
