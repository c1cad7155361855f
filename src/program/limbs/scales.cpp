#include "program/limbs/scales.h"

#include <cmath>

namespace heliograph::program::limbs {

namespace {

class Follower {
 public:
  Follower(const Linked& program, const std::array<double, kPrimes>& primes, std::vector<double> items,
           const std::function<double(std::size_t)>& of_level, double tolerance)
      : program_(program), primes_(primes), items_(std::move(items)), of_level_(of_level), tolerance_(tolerance) {
    known_.assign(program.values.size(), {});
    for (std::size_t v = 0; v < program.values.size(); ++v) {
      if (program.values[v].kind != Value::Kind::source) continue;
      const Source& s = program.sources[program.values[v].at];
      known_[v] = s.kind == 'k' ? Known{.scale = gadget(program.keys[s.which])} : Known{.item = s.which};
    }
  }

  Scales run() {
    for (const Action& action : program_.actions) take(action);
    Scales made;
    for (const Result& r : program_.results) {
      const double scale = sure(r.values[0]);
      for (const u32 v : r.values) {
        if (!near(sure(v), scale)) throw ScaleError("limbs of the result " + r.name + " have different scales");
      }
      made.results.push_back(scale);
    }
    // What is never used with anything.
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (items_[i] == 0) items_[i] = of_level_(program_.items[i].level);
    }
    made.items = std::move(items_);
    return made;
  }

 private:
  struct Known {
    double scale = 0;
    u32 item = kNone;  // it is that item's
  };

  /// What a key multiplies by, beside the other secret.
  double gadget(const Key& k) const {
    double product = 1;
    for (std::size_t p = 0; p < k.extension; ++p) product *= primes_[kPrimes - 1 - p];
    if (k.type == Key::raise || k.type == Key::raise_from_ephemeral) product *= primes_[k.level - 1];
    return product;
  }

  double scale(u32 v) const { return known_[v].item == kNone ? known_[v].scale : items_[known_[v].item]; }
  double sure(u32 v) {
    if (scale(v) == 0 && known_[v].item != kNone) {
      const u32 item = known_[v].item;
      items_[item] = of_level_(program_.items[item].level);
    }
    return scale(v);
  }
  bool near(double a, double b) const { return std::abs(a - b) <= tolerance_ * std::abs(a); }

  /// Both as one: a sum's.
  void meet(const Action& action) {
    if (scale(action.a) == 0 && known_[action.a].item != kNone) items_[known_[action.a].item] = sure(action.b);
    if (scale(action.b) == 0 && known_[action.b].item != kNone) items_[known_[action.b].item] = sure(action.a);
    if (near(scale(action.a), scale(action.b))) return;
    const auto bits = [](double scale) { return "2^" + std::to_string(std::log2(scale)); };
    throw ScaleError("instructions" + std::to_string(action.chip) + ":" + std::to_string(action.line) +
                     ": the scales of this sum differ: " + bits(scale(action.a)) + " and " + bits(scale(action.b)));
  }

  void take(const Action& action) {
    if (action.kind == Action::Kind::convert) {
      const double scale = sure(program_.groups[action.a].members[0]);
      for (const u32 v : program_.groups[action.to].members) known_[v] = {.scale = scale};
      return;
    }
    Known& to = known_[action.to];
    switch (action.kind) {
      case Action::Kind::add:
      case Action::Kind::subtract:
      case Action::Kind::add_scalar:
      case Action::Kind::take_scalar:
        meet(action);
        to = {.scale = scale(action.a)};
        break;
      case Action::Kind::multiply:
      case Action::Kind::scale:
        to = {.scale = sure(action.a) * sure(action.b)};
        break;
      case Action::Kind::divide: {
        meet(action);
        double divisor = 1;
        for (const std::uint16_t p : program_.divisors[action.table].from) divisor *= primes_[p];
        to = {.scale = scale(action.a) / divisor};
        break;
      }
      default:
        to = known_[action.a];
    }
  }

  const Linked& program_;
  const std::array<double, kPrimes>& primes_;
  std::vector<double> items_;
  const std::function<double(std::size_t)>& of_level_;
  double tolerance_;
  std::vector<Known> known_;
};

}  // namespace

Scales follow(const Linked& program, const std::array<double, kPrimes>& primes, std::vector<double> items,
              const std::function<double(std::size_t)>& of_level, double tolerance) {
  return Follower(program, primes, std::move(items), of_level, tolerance).run();
}

}  // namespace heliograph::program::limbs
