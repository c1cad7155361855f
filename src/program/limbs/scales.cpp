#include "program/limbs/scales.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

namespace heliograph::program::limbs {

namespace {

using Kind = Action::Kind;

std::string place_of(const Action& a) { return "instructions" + std::to_string(a.chip) + ":" + std::to_string(a.line); }

std::string bits_of(double scale) { return "2^" + std::to_string(std::log2(scale)); }

/// Returns the factor by which a key multiplies: its special primes and, for a key with `raise`, the last prime of its
/// level.
double gadget(const Key& k, const ScaleRules& rules) {
  double product = 1;
  for (std::size_t p = 0; p < k.extension; ++p) product *= rules.primes[kPrimes - 1 - p];
  if (k.type == Key::raise || k.type == Key::raise_from_ephemeral) product *= rules.primes[k.level - 1];
  return product;
}

double product_of(const std::vector<std::uint16_t>& primes, const ScaleRules& rules) {
  double product = 1;
  for (const std::uint16_t p : primes) product *= rules.primes[p];
  return product;
}

/// Infers missing scales of items. The logarithm of each value's scale is a linear form in the unknown logarithms.
class Inference {
 public:
  Inference(const Linked& program, const ScaleRules& rules, std::vector<double>& items)
      : program_(program), rules_(rules), items_(items), solved_(items.size()) {
    for (u32 i = 0; i < items.size(); ++i) {
      if (items[i] != 0) solved_[i] = Form{std::log2(items[i]), 0};
    }
    number_of({});
    forms_.resize(program.values.size());
    for (std::size_t v = 0; v < program.values.size(); ++v) {
      if (program.values[v].kind != Value::Kind::source) continue;
      const Source& s = program.sources[program.values[v].at];
      forms_[v] =
          s.kind == 'k' ? Form{std::log2(gadget(program.keys[s.which], rules)), 0} : Form{0, number_of({{s.which, 1.0}})};
    }
  }

  void run() {
    for (const Action& a : program_.actions) take(a);
    for (const auto& [terms, level] : quotients_) decide(terms, level);
    for (u32 i = 0; i < items_.size(); ++i) {
      if (!solved_[i]) solved_[i] = Form{own(i), 0}, ++version_;
    }
    for (u32 i = 0; i < items_.size(); ++i) {
      if (items_[i] == 0) items_[i] = scale_of(i);
    }
  }

 private:
  static constexpr std::size_t kMostUnknowns = 64;
  static constexpr double kMostTimes = 0x1p20, kLeastTimes = 0x1p-20;
  using Terms = std::vector<std::pair<u32, double>>;  // items and their coefficients, in ascending order
  struct Form {
    double known = 0;  // log2 of the known factor
    u32 terms = 0;     // index in `terms_`; 0: none
  };

  u32 number_of(const Terms& terms) {
    const auto [found, fresh] = numbers_.try_emplace(terms, static_cast<u32>(terms_.size()));
    if (fresh) terms_.push_back(terms), resolved_.emplace_back();
    return found->second;
  }
  double own(u32 item) const { return std::log2(rules_.level(program_.items[item].level)); }

  void add(std::map<u32, double>& into, const Terms& terms, double times) {
    for (const auto& [item, count] : terms) into[item] += times * count;
  }
  Form formed(double known, const std::map<u32, double>& all) {
    Terms terms;
    for (const auto& [item, count] : all) {
      if (std::abs(count) < kLeastTimes) continue;
      // The compiler's own texts stay below these limits. If another text exceeds the limits, the item gets the scale of its
      // level.
      if (terms.size() == kMostUnknowns || std::abs(count) > kMostTimes) {
        if (!solved_[item]) solved_[item] = Form{own(item), 0}, ++version_;
        known += count * resolved(*solved_[item]).known;
      } else {
        terms.emplace_back(item, count);
      }
    }
    return {known, number_of(terms)};
  }
  /// Substitutes all unknowns that are solved.
  Form resolved(Form f) {
    while (f.terms != 0) {
      Resolved& memo = resolved_[f.terms];
      if (memo.version != version_) {
        const Terms terms = terms_[f.terms];
        if (std::none_of(terms.begin(), terms.end(), [&](const auto& t) { return solved_[t.first].has_value(); })) {
          memo = {version_, {0, f.terms}};
        } else {
          double known = 0;
          std::map<u32, double> all;
          for (const auto& [item, count] : terms) {
            if (solved_[item])
              known += count * solved_[item]->known, add(all, terms_[solved_[item]->terms], count);
            else
              all[item] += count;
          }
          const Form next = formed(known, all);
          resolved_[f.terms] = {version_, next};
        }
      }
      const Form next = resolved_[f.terms].form;
      f.known += next.known;
      if (next.terms == f.terms) break;
      f.terms = next.terms;
    }
    return f;
  }
  Form sum(Form a, Form b, double times) {
    if (b.terms == 0) return {a.known + times * b.known, a.terms};
    if (a.terms == 0 && times == 1) return {a.known + b.known, b.terms};
    const auto [memo, fresh] = sums_.try_emplace({a.terms, b.terms, times});
    if (fresh) {
      std::map<u32, double> all;
      add(all, terms_[a.terms], 1), add(all, terms_[b.terms], times);
      const Form made = formed(0, all);
      memo->second = made;
    }
    return {a.known + times * b.known + memo->second.known, memo->second.terms};
  }

  /// Solves the equation that two values' scales are equal for one unknown.
  void equal(u32 a, u32 b) {
    if (forms_[a].terms == forms_[b].terms) return;
    const Form d = resolved(sum(resolved(forms_[a]), resolved(forms_[b]), -1));
    if (d.terms == 0 || !std::isfinite(d.known)) return;
    const auto [item, times] = terms_[d.terms].back();
    std::map<u32, double> rest;
    for (const auto& [other, count] : terms_[d.terms]) {
      if (other != item) rest[other] = -count / times;
    }
    solved_[item] = formed(-d.known / times, rest);
    ++version_;
  }
  /// Gives a quotient its level's scale, if that determines the scale of one plaintext or scalar. Does nothing if the
  /// item's scale would then lose half its bits.
  void decide(Form quotient, std::size_t level) {
    const Form f = resolved(quotient);
    if (f.terms == 0 || terms_[f.terms].size() != 1 || terms_[f.terms][0].second != 1) return;
    const u32 item = terms_[f.terms][0].first;
    const double wanted = std::log2(rules_.level(level)) - f.known;
    if (!(wanted >= own(item) / 2 && std::isfinite(wanted))) return;
    solved_[item] = Form{wanted, 0};
    ++version_;
  }
  double scale_of(u32 item) {
    const Form f = resolved(*solved_[item]);
    const double found = std::exp2(f.known), usual = rules_.level(program_.items[item].level);
    return std::abs(found / usual - 1) < 0x1p-40 ? usual : found;
  }

  void take(const Action& a) {
    if (a.kind == Kind::convert) {
      const Form of = forms_[program_.groups[a.a].members[0]];
      for (const u32 v : program_.groups[a.to].members) forms_[v] = of;
      return;
    }
    switch (a.kind) {
      case Kind::add:
      case Kind::subtract:
      case Kind::add_scalar:
      case Kind::take_scalar:
        equal(a.a, a.b);
        forms_[a.to] = forms_[a.a];
        break;
      case Kind::multiply:
      case Kind::scale:
        forms_[a.to] = sum(resolved(forms_[a.a]), resolved(forms_[a.b]), 1);
        break;
      case Kind::divide: {
        equal(a.a, a.b);
        const std::vector<std::uint16_t>& primes = program_.divisors[a.table].from;
        const Form f = forms_[a.to] = {forms_[a.a].known - std::log2(product_of(primes, rules_)), forms_[a.a].terms};
        const bool of_chain = primes.back() < kPrimes - program_.special;
        if (f.terms != 0 && of_chain && seen_.insert({f.terms, primes.front()}).second)
          quotients_.emplace_back(f, primes.front());
        break;
      }
      default:
        forms_[a.to] = forms_[a.a];
    }
  }

  struct Resolved {
    std::size_t version = ~std::size_t{0};
    Form form;
  };
  const Linked& program_;
  const ScaleRules& rules_;
  std::vector<double>& items_;
  std::vector<std::optional<Form>> solved_;  // indexed by item
  std::vector<Form> forms_;                  // indexed by value
  std::vector<Terms> terms_;
  std::map<Terms, u32> numbers_;
  std::vector<Resolved> resolved_;  // indexed by index in `terms_`
  std::map<std::tuple<u32, u32, double>, Form> sums_;
  std::vector<std::pair<Form, std::size_t>> quotients_;  // quotients and their numbers of limbs, in the program's order
  std::set<std::pair<u32, std::size_t>> seen_;
  std::size_t version_ = 0;
};

/// Computes the scale of each value, after the scales of all items are known.
class Follower {
 public:
  Follower(const Linked& program, const ScaleRules& rules, const std::vector<double>& items)
      : program_(program), rules_(rules), scales_(program.values.size()) {
    for (std::size_t v = 0; v < program.values.size(); ++v) {
      if (program.values[v].kind != Value::Kind::source) continue;
      const Source& s = program.sources[program.values[v].at];
      scales_[v] = s.kind == 'k' ? gadget(program.keys[s.which], rules) : items[s.which];
    }
  }

  std::vector<double> run() {
    for (const Action& action : program_.actions) take(action);
    std::vector<double> made;
    for (const Result& r : program_.results) {
      const double scale = scales_[r.values[0]];
      for (const u32 v : r.values) {
        if (!near(scales_[v], scale))
          throw ScaleError(maker_of(v) + "limbs of the result " + r.name + " have different scales: " + bits_of(scales_[v]) +
                           " and " + bits_of(scale));
      }
      double most = -1;
      for (std::size_t p = 0; p < r.level; ++p) most += std::log2(rules_.primes[p]);
      if (!(scale >= 1 && std::log2(scale) <= most))
        throw ScaleError(maker_of(r.values[0]) + "the result " + r.name + " would have the scale " + bits_of(scale) +
                         "; a ciphertext of " + std::to_string(r.level) +
                         " limbs must have one between 1 and half its modulus, 2^" + std::to_string(most) +
                         "; divide after each product");
      made.push_back(scale);
    }
    return made;
  }

 private:
  bool near(double a, double b) const { return a == b || std::abs(a - b) <= rules_.tolerance * std::abs(a); }

  /// Returns the location of the instruction that made a value, for example "instructions0:5: ".
  std::string maker_of(u32 v) const {
    for (const Action& a : program_.actions) {
      const bool group = a.kind == Kind::convert;
      if (!group && a.to == v) return place_of(a) + ": ";
    }
    return "";
  }

  /// Throws ScaleError unless the operands of a sum have the same scale.
  void meet(const Action& a) const {
    if (near(scales_[a.a], scales_[a.b])) return;
    throw ScaleError(place_of(a) + ": the scales of this sum differ: " + bits_of(scales_[a.a]) + " and " +
                     bits_of(scales_[a.b]));
  }

  void take(const Action& a) {
    if (a.kind == Kind::convert) {
      for (const u32 v : program_.groups[a.to].members) scales_[v] = scales_[program_.groups[a.a].members[0]];
      return;
    }
    double& to = scales_[a.to];
    switch (a.kind) {
      case Kind::add:
      case Kind::subtract:
      case Kind::add_scalar:
      case Kind::take_scalar:
        meet(a);
        to = scales_[a.a];
        break;
      case Kind::multiply:
      case Kind::scale:
        to = scales_[a.a] * scales_[a.b];
        break;
      case Kind::divide:
        meet(a);
        to = scales_[a.a] / product_of(program_.divisors[a.table].from, rules_);
        if (!(to >= rules_.least))
          throw ScaleError(place_of(a) + ": this division leaves a scale of " + bits_of(to) +
                           ", so that only the rounding error remains: nothing was multiplied since the last "
                           "division. The smallest scale is " +
                           bits_of(rules_.least));
        break;
      default:
        to = scales_[a.a];
    }
  }

  const Linked& program_;
  const ScaleRules& rules_;
  std::vector<double> scales_;
};

}  // namespace

Scales follow(const Linked& program, const ScaleRules& rules, std::vector<double> items) {
  if (std::find(items.begin(), items.end(), 0.0) != items.end()) Inference(program, rules, items).run();
  Scales made{.items = std::move(items), .results = {}};
  made.results = Follower(program, rules, made.items).run();
  for (u32 i = 0; i < made.items.size(); ++i) {
    if (!(made.items[i] >= 1))
      throw ScaleError(first_use(program, i) + ": the sums of this program leave a scale of " + bits_of(made.items[i]) +
                       " to " + program.items[i].name + "; it must be 1 or more: give its scale, or inputs of other scales");
  }
  return made;
}

std::string first_use(const Linked& program, u32 item) {
  const auto is = [&](u32 v) {
    if (v == kNone || program.values[v].kind != Value::Kind::source) return false;
    const Source& s = program.sources[program.values[v].at];
    return s.kind != 'k' && s.which == item;
  };
  for (const Action& a : program.actions) {
    if (a.kind != Kind::convert && (is(a.a) || is(a.b))) return place_of(a);
  }
  return "";
}

}  // namespace heliograph::program::limbs
