#include "circuits/ckks/guards.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/errors.h"
#include "base/progress.h"

namespace heliograph::ckks {

namespace {

/// Relative distance outside the interval that a strong guard must notice in any number of ciphertexts, if levels suffice.
constexpr double kNoticed = 0.05;
/// Tolerated relative distance outside the interval, because bounds in files (kRounding) and bounds of callers (kSlack) are
/// rounded.
constexpr double kRounding = 0x1p-13, kSlack = 0x1p-8;
/// A guard of power kHigh or more allows values of T_k up to this number: a series of such a degree is still close to its
/// function there.
constexpr double kHigh = 16, kAllowed = 2;
/// Largest T_k in padding slots that a mask may clear: the mask's error is then below 2^-20.
constexpr double kMasked = 0x1p16;

double chebyshev(double k, double u) { return u <= 1 ? 1 : std::cosh(k * std::acosh(u)); }

/// Returns the largest |T_k| of arguments inside the interval, if the arguments' error is at most `noise`.
double largest(double k, double noise) {
  const double slack = k < kHigh ? kSlack : std::cosh(std::acosh(kAllowed) / k) - 1;
  return chebyshev(k, 1 + std::max(slack, kRounding) + noise);
}

/// Returns the error of an argument; 0 if unknown.
double noise_of(const Ciphertext& u) {
  const rlwe::Figure noise = u.data().noise.norm();
  const double least = std::fmin(noise.vouched, noise.assumed);
  return std::isfinite(least) ? std::exp2(least) / u.scale() : 0;
}

/// Returns the largest known magnitude in the padding slots; infinite if unknown.
double padding_of(const Ciphertext& u) {
  const CiphertextData& x = u.data();
  if (x.tail.kind() == Tail::Kind::known || x.tail.kind() == Tail::Kind::even) return 1;
  const RangePair all = x.ranges.merged();
  return std::min(all.vouched.peak, all.assumed.peak);
}

/// Number of ciphertexts that are squared in one call.
constexpr std::size_t kTogether = 64;
/// Number of ciphertexts to which a strong guard is reduced if one of more ciphertexts does not notice kNoticed.
constexpr std::size_t kFew = 16;
/// Wanted bits of room for the sum of squares at level 1, if the scale is large enough.
constexpr double kRoom = 24;
/// Bits by which the sum of squares stays below the room if all arguments are inside. The scale of the sum takes two of
/// these bits.
constexpr double kBelowRoom = 5;
/// Bits by which the room exceeds the sum of squares, at an unchanged scale, if all arguments are inside.
constexpr double kEnough = 10;
/// Bits by which the sum's scale stays above the rounding error.
constexpr double kAboveRounding = 3;

/// Steps of a guard: C_k of the evaluation, an optional mask, an optional smaller scale, then `doublings` of k, then the sum
/// of squares.
struct Plan {
  std::optional<Ciphertext> start;
  std::size_t degree = 0, doublings = 0;
  bool masks = false, reduces = false;

  std::size_t level() const { return 2 + doublings; }
  std::size_t least() const { return 2 + (masks ? 1 : 0) + (reduces ? 1 : 0); }
  double last() const { return static_cast<double>(degree << doublings); }
};

class Making {
 public:
  Making(const GuardedArgument& argument, const std::string& operation, const EvaluationKeys& keys)
      : argument_(argument),
        operation_(operation),
        keys_(keys),
        context_(*argument.u.data().context),
        noise_(noise_of(argument.u)),
        padding_(padding_of(argument.u)),
        strong_(argument.strong) {}

  std::vector<Guards::Item> run() {
    const Plan plan = chosen();
    const Unreported alone;
    Ciphertext c = *plan.start;
    if (plan.masks) c = masked(lower(c, plan.level() + (plan.reduces ? 2 : 1)));
    if (plan.reduces) {  // each squaring doubles the number of bits by which the scale is smaller
      const double bits = reduction_ / std::exp2(static_cast<double>(plan.doublings + 1));
      c = lower_to(c, plan.level(), context_.scale(plan.level()) * std::exp2(-bits));
    }
    c = confined(c, plan.level());
    std::size_t k = plan.degree;
    c = bounded(c, k);
    for (std::size_t i = 0; i < plan.doublings; ++i) {
      Ciphertext square = multiply(c, c);
      add_constants_into(square, number(-2));
      c = bounded(relinearize_rescale(square, keys_), k *= 2);
    }
    std::vector<Guards::Item> guards;
    const std::size_t items = c.data().tensor.items();
    const Ciphertext flat = reshape(c, {items});
    for (std::size_t first = 0; first < items; first += items_) {
      const Ciphertext some = slice(flat, 0, first, 1, std::min(items_, items - first));
      guards.push_back(std::make_shared<const Guard>(of_squares(squared(some), plan)));
    }
    return guards;
  }

 private:
  /// Returns the sum of the squares of all ciphertexts of a list, of degree 2.
  static Ciphertext squared(const Ciphertext& c) {
    const std::size_t items = c.data().tensor.items();
    std::optional<Ciphertext> total;
    for (std::size_t first = 0; first < items; first += kTogether) {
      const Ciphertext some = slice(c, 0, first, 1, std::min(kTogether, items - first));
      const Ciphertext part = sum(multiply(some, some), 0);
      total = total ? add(*total, part) : part;
    }
    return *total;
  }

  /// Returns the guard of a sum of squares of C_k, of degree 2.
  Guard of_squares(const Ciphertext& squares, const Plan& plan) const {
    CiphertextData sum = rescale(squares).data();
    sum.scale *= 4;  // C_k^2 is 4 T_k^2
    const double most = largest(plan.last(), noise_), total = squares_of(most);
    sum.ranges = Ranges(Range::of(0, total, 1, 1)), sum.guards = {};
    Guard guard{.operations = {operation_}, .squares = {}, .parts = {Guard::part()}};
    guard.noise = std::exp2(sum.noise.assumed) / sum.scale;
    guard.limit = total + guard.noise;
    guard.power = plan.last();
    guard.squares = std::make_shared<const CiphertextData>(finish(std::move(sum)).data());
    return guard;
  }

  /// Chooses the number of ciphertexts of a guard, and returns its steps. All ciphertexts have one guard if their sum has
  /// room, and if a strong guard of them notices kNoticed.
  Plan chosen() {
    Plan plan = planned(argument_.u.data().tensor.items());
    while (items_ > 1 && (!plan.start || (strong_ && items_ > kFew && !notices(plan)))) plan = planned((items_ + 1) / 2);
    if (!plan.start)
      throw LevelError("cannot guard the argument of " + operation_ + ": it is at level " +
                       std::to_string(argument_.u.level()) + " and a guard needs level " + std::to_string(plan.least()) +
                       " and room for its squares; compute at a higher level, or pass guard=False");
    return plan;
  }

  /// Returns the steps for guards of `items` ciphertexts, without a start if they do not fit.
  Plan planned(std::size_t items) {
    items_ = items, reduction_ = reduction_of(context_, static_cast<double>(items));
    Plan plan;
    plan.masks = padding_ > 1 + kRounding, plan.reduces = reduction_ > 0;
    const std::size_t least = plan.least();
    for (std::size_t k = std::bit_floor(argument_.degree); k > 0 && !plan.start; k /= 2) {
      if (plan.masks && k > 1 && !(chebyshev(static_cast<double>(k), padding_) <= kMasked)) continue;
      if (!fits(k)) continue;
      std::optional<Ciphertext> c = argument_.chebyshev(k);
      if (c && c->level() >= least) plan.start = std::move(c), plan.degree = k;
    }
    if (!plan.start) return plan;
    // If padding slots have unknown contents, the error of their mask may be large, and doublings would increase this error.
    if (!strong_ || (plan.masks && !std::isfinite(padding_))) return plan;
    const std::size_t levels = plan.start->level() - least;
    while (plan.doublings < levels && !notices(plan) && fits(plan.degree << (plan.doublings + 1))) ++plan.doublings;
    return plan;
  }

  /// Returns the sum of the squares of a number for all ciphertexts of a guard.
  double squares_of(double most) const { return static_cast<double>(items_) * most * most; }

  /// Returns whether the sum of squares is well below the room of level 1 if all arguments are inside.
  bool fits(std::size_t k) const {
    const double most = largest(static_cast<double>(k), noise_);
    return std::log2(squares_of(most)) + kBelowRoom < context_.room() + reduction_;
  }

  /// Returns the bits by which the scale of the sum is smaller than the scale of level 1; 0 if the room of level 1 suffices.
  /// Sets with bootstrapping have little room. A smaller scale takes a level.
  static double reduction_of(const Context& c, double items) {
    if (c.room() >= std::log2(items * kAllowed * kAllowed) + kEnough) return 0;
    const double most = std::log2(c.scale(1)) - c.rounding_noise(3) - kAboveRounding;
    return std::max(0.0, std::min(std::ceil(kRoom - c.room()), std::floor(most)));
  }

  /// Returns whether the guard notices a single argument that is outside by kNoticed, among all ciphertexts.
  bool notices(const Plan& plan) const {
    const double k = plan.last(), most = largest(k, noise_), seen = chebyshev(k, 1 + kNoticed);
    return seen * seen > 1.2 * squares_of(most);
  }

  /// Returns C_k with its bounds.
  Ciphertext bounded(const Ciphertext& c, std::size_t k) const {
    CiphertextData data = c.data();
    const double most = 2 * largest(static_cast<double>(k), noise_);
    data.ranges = Ranges(Range::of(-most, most, 1, 1));
    if (!std::isfinite(data.noise.assumed))  // bounds of padding slots are unknown
      data.noise = context_.key_switch_noise(data.level) + 2 * std::log2(static_cast<double>(k) + 1);
    return finish(std::move(data));
  }

  const GuardedArgument& argument_;
  const std::string& operation_;
  const EvaluationKeys& keys_;
  Context& context_;
  const double noise_, padding_;
  const bool strong_;
  std::size_t items_ = 0;  // ciphertexts of a guard
  double reduction_ = 0;
};

}  // namespace

bool needs_guard(const Ciphertext& u, double reach) {
  const RangePair all = u.data().ranges.merged();
  const auto proved = [&](const Range& r) {
    return !r.declared.unguarded && r.low >= -reach * (1 + kRounding) && r.high <= reach * (1 + kRounding);
  };
  // A recording is replayed for operands whose trusted bounds may be wider.
  const bool trusted = !device::observed() && proved(all.vouched);
  return u.data().tensor.items() > 0 && !trusted && !proved(all.assumed);
}

std::vector<Guards::Item> guards_of_argument(const GuardedArgument& argument, const std::string& operation,
                                             const EvaluationKeys& keys) {
  return Making(argument, operation, keys).run();
}

}  // namespace heliograph::ckks
