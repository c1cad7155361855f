#include <cmath>

#include "circuits/switching/context.h"
#include "schemes/tfhe/encoding.h"

namespace heliograph::switching {

namespace {

/// log2 of the allowed failure probability of a comparison.
constexpr double kLog2Failure = -128;
/// Largest ratio of two windows that is tried.
constexpr std::int32_t kMostRatio = 256;

/// Returns the margin of every phase except the first, in turns: A_(k - 1) / W_k.
double margin_of(std::int32_t ratio) { return 0.25 / (ratio + 1.0); }

/// Returns a fraction of a turn as a torus word.
u64 word_of(double turns) { return static_cast<u64>(static_cast<std::int64_t>(std::round(turns * 0x1p64))); }

/// Returns factor^power, or 0 if it exceeds the largest factor of a circuit.
std::int32_t factor_of(std::int32_t ratio, unsigned power) {
  std::int64_t factor = 1;
  for (unsigned i = 0; i < power; ++i) {
    factor *= ratio;
    if (factor >= std::int64_t{1} << (kMostFactor - (64 - kTurnBits))) return 0;
  }
  return static_cast<std::int32_t>(factor);
}

}  // namespace

SignPlan Context::sign_plan(unsigned bits, double error, double turns) const {
  // Values may exceed the integers by kSlack, have an error below half a unit, and are moved by half a unit.
  const double most = std::exp2(bits - 1.0) + kSlack + 1;
  const lwe::NoiseModel& noise = tfhe_->noise();
  SignPlan best;
  for (unsigned count = 1; count <= bits && best.bootstraps == 0; ++count) {
    for (std::int32_t ratio = count > 1 ? 2 : 1; ratio <= (count > 1 ? kMostRatio : 1); ++ratio) {
      const std::int32_t factor = factor_of(ratio, count - 1);
      if (factor == 0) break;
      SignPlan plan{.bootstraps = count, .ratio = ratio, .window = 2 * most + 1};
      if (count > 1) {
        // The last window must contain the values and two margins. The first window must have more than ratio + 1 units,
        // because sign_circuit requires this for phase 1.
        plan.window = std::max(2 * most * (ratio + 1) / ratio, (ratio + 1.0) * factor);
      }
      const double first = variance() * factor * factor + noise.before_table(0);
      plan.log2_failure = lwe::log2_tail(first, std::max(0.0, (0.5 - error) / plan.window - turns) * factor);
      for (unsigned k = 1; k < count; ++k) {
        const double f = factor_of(ratio, count - 1 - k);
        plan.log2_failure =
            rlwe::log2_sum(plan.log2_failure, lwe::log2_tail(variance() * f * f + noise.before_table(1), margin_of(ratio)));
      }
      if (plan.log2_failure <= kLog2Failure && (best.bootstraps == 0 || plan.log2_failure < best.log2_failure)) best = plan;
    }
  }
  return best;
}

std::shared_ptr<const tfhe::Circuit> sign_circuit(const tfhe::Spec& spec, const SignPlan& plan, Relation relation) {
  using enum Relation;
  const bool upper = relation == greater || relation == less_equal;  // the sign is that of x > 0, not of x >= 0
  const bool positive = relation == greater || relation == greater_equal;
  const u64 half = tfhe::unit_of(spec) / 2;
  tfhe::Circuit c{.inputs = 1, .wires = 1};
  c.tables.push_back({{word_of(margin_of(plan.ratio))}});
  c.tables.push_back({{positive ? half : u64{0} - half}});
  for (unsigned k = 0; k < plan.bootstraps; ++k) {
    const std::int32_t factor = factor_of(plan.ratio, plan.bootstraps - 1 - k);
    tfhe::Linear phase{{{0, factor << (64 - kTurnBits)}}, word_of((upper ? -0.5 : 0.5) / plan.window * factor)};
    if (k > 0) phase.terms.push_back({k, 1});
    c.layers.push_back({{.input = phase, .table = k + 1 < plan.bootstraps ? 0u : 1u, .outputs = 1, .first_output = k + 1}});
  }
  c.wires += plan.bootstraps;
  c.outputs.push_back({{{plan.bootstraps, 1}}, half});
  return std::make_shared<const tfhe::Circuit>(std::move(c));
}

std::shared_ptr<const tfhe::Circuit> Context::comparing(const SignPlan& plan, Relation relation) const {
  const std::lock_guard lock(mutex_);
  SignPlan circuit = plan;
  circuit.log2_failure = 0;  // differs with the error of the values, for one circuit
  auto& made = comparing_[{circuit, relation}];
  if (!made) made = sign_circuit(tfhe_->spec(), plan, relation);
  return made;
}

}  // namespace heliograph::switching
