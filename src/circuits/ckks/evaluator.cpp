// The operations of functions, performed with evaluation keys.
#include <set>

#include "base/errors.h"
#include "circuits/ckks/trial.h"
#include "heliograph/functions.h"
#include "schemes/ckks/operations.h"

namespace heliograph::ckks {

namespace {

const EvaluationKeys& keys_of(const std::optional<EvaluationKeys>& keys) {
  require<InternalError>(keys.has_value(), "an evaluator without keys must perform all operations itself");
  return *keys;
}

/// Returns the first of these rotations that has no key; nullopt if all have keys.
std::optional<std::int64_t> missing_rotation(const EvaluationKeys& keys, const std::vector<std::int64_t>& steps) {
  const auto period = static_cast<std::int64_t>(keys.parameters().period());
  std::set<std::int64_t> turns = {0};
  for (const std::int64_t step : keys.rotations()) turns.insert((step % period + period) % period);
  for (const std::int64_t step : steps)
    if (!turns.contains((step % period + period) % period)) return step;
  return std::nullopt;
}

}  // namespace

Operand Evaluator::ready(const Operand& x, std::size_t /*levels*/) const { return x; }

Operand Evaluator::polynomial(const Operand& x, const std::vector<double>& coefficients, const std::string& guard) const {
  return evaluate_polynomial(x, coefficients, Basis::chebyshev, keys_of(keys_), guard);
}

Operand Evaluator::multiply(const Operand& a, const Operand& b) const {
  const EvaluationKeys& keys = keys_of(keys_);
  return multiply_rescale(of_degree_one(ready(a, 1), keys), of_degree_one(ready(b, 1), keys), keys);
}

Operand Evaluator::times(const Operand& x, double factor) const {
  return rescale(multiply_constants(ready(x, 1), number(factor)));
}

Operand Evaluator::plus(const Operand& x, double summand) const { return add_constants(x, number(summand)); }
Operand Evaluator::add(const Operand& a, const Operand& b) const { return ckks::add(a, b); }
Operand Evaluator::subtract(const Operand& a, const Operand& b) const { return ckks::subtract(a, b); }
Operand Evaluator::negate(const Operand& x) const { return ckks::negate(x); }
Operand Evaluator::sum(const Operand& x, std::size_t axis) const { return ckks::sum(x, axis); }

Operand Evaluator::sum_slots(const Operand& x) const {
  const EvaluationKeys& keys = keys_of(keys_);
  return ckks::sum_slots(of_degree_one(x, keys), x.parameters().period(), keys);
}

Operand Evaluator::reshape(const Operand& x, const Shape& shape) const { return ckks::reshape(x, shape); }
Operand Evaluator::with_error(const Operand& x, const ErrorBounds& error) const { return ckks::with_error(x, error); }
Operand Evaluator::inside(const Operand& x, double low, double high) const { return ckks::inside(x, low, high); }
Operand Evaluator::within(const Operand& x, const Interval& interval) const { return ckks::within(x, interval); }

Operand Evaluator::guarded(const Operand& x, Guarding guard) const {
  if (guard == Guarding::usual) return x;
  return guard == Guarding::strong ? strong_guards(x) : skip_guards(x);
}

Operand Evaluator::index(const Operand& x, std::size_t position) const { return ckks::index(x, 0, position); }

Operand Evaluator::concatenate(const std::vector<Operand>& parts) const {
  return ckks::concatenate({parts.begin(), parts.end()}, 0);
}

Operand Evaluator::slice(const Operand& x, std::size_t start, std::size_t count) const {
  return ckks::slice(x, 0, start, 1, count);
}

Operand Evaluator::transpose(const Operand& x, const std::vector<std::size_t>& order) const {
  return ckks::transpose(x, order);
}

Operand Evaluator::lower(const Operand& x, std::size_t level) const { return ckks::lower(x, level); }

Operand Evaluator::rotate(const Operand& x, std::int64_t steps, bool composes) const {
  constexpr std::size_t kMostSwitches = 32;
  const EvaluationKeys& keys = keys_of(keys_);
  const Ciphertext turned = ckks::rotate(of_degree_one(x, keys), {steps}, composes ? keys.composing(kMostSwitches) : keys);
  return ckks::index(turned, 0, 0);
}

Operand Evaluator::times_each(const Operand& x, const Values& values) const {
  const Operand y = ready(x, 1);
  if (values.width == 1) return rescale(multiply_constants(y, values));
  const double scale = y.parameters().scale(y.level());
  return rescale(ckks::multiply(y, encode(y.parameters(), values, y.level(), scale * scale / y.scale())));
}

Operand Evaluator::plus_each(const Operand& x, const Values& values) const {
  if (values.width == 1) return add_constants(x, values);
  return ckks::add(x, encode(x.parameters(), values, x.level(), x.scale()));
}

Operand Evaluator::first_slots(const Operand& x, std::size_t count, double factor) const {
  const Operand y = ready(x, 1);
  const Parameters p = y.parameters();
  const Diagonals diagonal{{0, std::vector<std::complex<double>>(count, factor)}};
  return apply(LinearTransform(p, diagonal, p.period(), y.level(), 0, count), y, keys_of(keys_));
}

bool Evaluator::has_rotations(const std::vector<std::int64_t>& steps) const {
  return keys_ && !missing_rotation(*keys_, steps);
}

void Evaluator::require_rotations(const std::vector<std::int64_t>& steps, const std::string& what) const {
  const EvaluationKeys& keys = keys_of(keys_);
  if (const std::optional<std::int64_t> missing = missing_rotation(keys, steps))
    throw MissingKeyError(what + " needs a key for the rotation " + std::to_string(*missing) +
                          "; make keys with the rotations of sort_rotations(period)");
  if (!keys.has_relinearization()) throw MissingKeyError(what + " needs a key for relinearization");
}

Operand Evaluator::functional_bootstrap(const Operand& x, const std::vector<double>& table) const {
  return ckks::functional_bootstrap(x, {table.begin(), table.end()}, keys_of(keys_));
}

bool Evaluator::has_bootstrapping() const { return keys_ && keys_->has_bootstrapping(); }

Operand Evaluator::bootstrapped(const Operand& x, int iterations) const {
  return bootstrap(x, keys_of(keys_), 0, iterations);
}

double Evaluator::bootstrap_error(const Parameters& parameters, int iterations) const {
  return error_of_bootstrap(parameters, iterations);
}

double Evaluator::rounding_error(const Parameters& parameters, const Composition& composition, std::size_t stage) const {
  return error_of_series(parameters, composition.stages.at(stage));
}

double Evaluator::table_error(const Parameters& parameters, const std::vector<double>& table, double noise) const {
  return error_of_table(parameters, table, noise);
}

}  // namespace heliograph::ckks
