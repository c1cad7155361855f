// CKKS to TFHE: slots to coefficients, switch to the wide key, phases as LWE ciphertexts, digits or signs by bootstraps.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/progress.h"
#include "circuits/ckks/bootstrap_stages.h"
#include "circuits/switching/context.h"
#include "heliograph/switching.h"
#include "schemes/tfhe/encoding.h"
#include "schemes/tfhe/run.h"

namespace heliograph::switching {

namespace {

tfhe::Type type_of(const tfhe::Spec& spec, unsigned bits) {
  const tfhe::Type type{.boolean = false, .bits = bits, .is_signed = true};
  tfhe::wires_of(spec, type);
  const unsigned most = kMostFactor - (64 - kTurnBits) + spec.message_bits;
  if (bits > most)
    throw DtypeError("CKKS values become integers of at most " + std::to_string(most) + " bits, not " + type.text());
  return type;
}

using ckks::short_number;

/// Throws PlaintextRangeError.
void require_known(double low, double high) {
  if (!std::isfinite(low) || !std::isfinite(high))
    throw PlaintextRangeError(
        "no bound is known on the values of this tensor, but switching needs one; declare it "
        "(within(x, 8)), or encrypt with one (bound=)");
}

/// Returns the lowest and the highest value that x may have. Throws PlaintextRangeError if these bounds are unknown.
std::pair<double, double> interval_of(const ckks::Ciphertext& x) {
  const ckks::RangePair all = x.data().ranges.merged();
  // Takes the narrower of the two bounds; a comparison with NaN is false.
  const auto larger = [](double a, double b) { return std::isnan(a) || b > a ? b : a; };
  const double low = larger(all.vouched.low, all.assumed.low), high = -larger(-all.vouched.high, -all.assumed.high);
  require_known(low, high);
  return {low, high};
}

/// Bounds on errors of a value before it is rounded, in units.
struct Errors {
  double value = 0;     // error of the CKKS value
  double rounding = 0;  // error of the rounded matrices
  double switched = 0;  // error of key switches, the switch to TFHE and the first bootstraps
  double beyond = 0;    // amount by which values may exceed the integers

  double sum() const { return value + rounding + switched + beyond; }
};

/// Bounds on the errors that slots to coefficients adds.
struct MatrixErrors {
  double switches = 0;        // error of key switches, in turns of the phases
  double first_rounding = 0;  // error of the first stage's plaintexts, in turns of the phases
  double rounding = 0;        // error of later stages' plaintexts, in units

  double turns() const { return switches + first_rounding; }
};

/// Returns the largest magnitude that a slot of x may have, padding included. Throws PlaintextRangeError.
double peak_of(const ckks::Ciphertext& x) {
  const ckks::RangePair all = x.data().ranges.merged();
  const double peak = std::fmin(all.vouched.peak, all.assumed.peak);  // fmin ignores NaN
  require_known(-peak, peak);
  return peak;
}

class ToTfhe {
 public:
  /// With a `relation`, compares values with 0; without a `relation`, reads the digits of values.
  ToTfhe(const ckks::Ciphertext& x, std::optional<Relation> relation, unsigned bits, double unit, const Keys& keys,
         const ckks::EvaluationKeys& ckks_keys, const tfhe::EvaluationKeys& tfhe_keys)
      : x_(x),
        relation_(relation),
        bits_(bits),
        unit_(unit),
        keys_(keys.data()),
        pair_(*keys_.context),
        ckks_keys_(ckks_keys),
        tfhe_keys_(tfhe_keys.data()),
        ckks_(*pair_.ckks()) {
    ckks::require_same(x.data(), pair_.ckks(), keys_.ckks_key, "these switching keys");
    if (tfhe_keys_.context != pair_.tfhe())
      throw MismatchError("the switching keys and the TFHE evaluation keys have different " +
                          schemes::difference(pair_.tfhe()->spec(), tfhe_keys_.context->spec()));
    if (tfhe_keys_.id() != keys_.tfhe_key)
      throw WrongKeyError("the switching keys belong to TFHE key " + keys.tfhe_key_id().substr(0, 8) +
                          ", the evaluation keys to key " + tfhe_keys.key_id().substr(0, 8));
    ckks::require_bootstrapping(x, ckks_keys);
    if (x.complex()) throw DtypeError("only real values become TFHE integers, not complex ones");
    if (!x.data().guards.empty())
      throw OutOfIntervalError(
          "cannot switch this tensor to TFHE: TFHE's tensors carry no guards, so that arguments of " +
          x.data().guards.list().front()->operations.front() +
          " outside their interval would not be noticed. Pass guard=False to that function, or drop the guards "
          "(hg.ckks.unguarded)");
    type_ = relation ? tfhe::Type{} : type_of(pair_.tfhe()->spec(), bits);
    if (unit_ == 0) unit_ = unit_for(x, bits);
    require<ParameterError>(std::isfinite(unit_) && unit_ > 0, "the unit of a switched value must be a number above 0");
    require_range();
  }

  tfhe::Ciphertext run() {
    ProgressSteps steps(1);
    tfhe::Context& t = *pair_.tfhe();
    Shape shape = x_.shape();
    shape.push_back(x_.data().width);
    const ckks::Ciphertext low = lowered();
    const SignPlan plan = relation_ ? planned(low) : SignPlan{.window = std::exp2(bits_ + 1.0)};
    if (!relation_) require_noise(errors(low, plan.window));
    const auto circuit = relation_ ? pair_.comparing(plan, *relation_) : pair_.reading(bits_);
    const lwe::Tensor phases = steps.part(0.1, [&] { return this->phases(low, plan.window); });
    std::vector<lwe::Tensor> digits =
        steps.part_until(1, [&] { return tfhe::run(tfhe_keys_, circuit, {phases}, {tfhe::wires_of(t.spec(), type_)}); });
    return tfhe::make_ciphertext(pair_.tfhe(), keys_.tfhe_key, type_, digits[0].reshape(shape));
  }

 private:
  /// Returns the phases, x units of 1 / window turns: [items, width].
  lwe::Tensor phases(const ckks::Ciphertext& low, double window) {
    const std::size_t items = x_.data().tensor.items(), width = x_.data().width;
    if (items == 0) return pair_.tfhe()->tensor({0, width}, 1);
    RnsTensor t = low.data().tensor.reshape({items});
    for (const ckks::LinearSum& sum : ckks_.bootstrapping().to_coefficients(factor(low, window)))
      t = ckks::apply(sum, t, ckks_keys_);
    return pair_.extract(pair_.to_wide(t, keys_.to_wide), width);
  }

  ckks::Ciphertext lowered() const {
    const ckks::Ciphertext one = ckks::of_degree_one(x_, ckks_keys_);
    return ckks::lower(one, ckks_.bootstrapper().stages_to_coefficients() + 1);
  }

  /// Returns the scale of the values after all matrices with a factor of 1.
  double last_scale(const ckks::Ciphertext& low) const {
    double scale = low.data().scale;
    for (std::size_t level = low.level(); level > 1; --level) scale *= ckks_.scale(level) / ckks_.ratio(level);
    return scale;
  }

  /// Returns the matrices' factor, for coefficients of q / window for each unit.
  double factor(const ckks::Ciphertext& low, double window) const { return pair_.q() / window / (unit_ * last_scale(low)); }

  void require_range() const {
    const auto [low, high] = interval_of(x_);
    const double least = -std::exp2(bits_ - 1.0) - kSlack, most = std::exp2(bits_ - 1.0) - 1 + kSlack;
    if (low >= unit_ * least && high <= unit_ * most) return;
    throw PlaintextRangeError("the values of this tensor may lie between " + short_number(low) + " and " +
                              short_number(high) + ", but integers of " + std::to_string(bits_) + " bits in units of " +
                              short_number(unit_) + " hold " + short_number(unit_ * (least + kSlack)) + " to " +
                              short_number(unit_ * (most - kSlack)) +
                              "; give more bits or a larger unit, or declare a smaller bound (within)");
  }

  /// Returns bounds on the errors of the key switches, each matrix with about eight giant steps as in a bootstrap, and of
  /// the rounded plaintexts. A plaintext of at most 2 `period` coefficients, rounded, has an error of variance period / 6 in
  /// a slot. A stage of l layers has fewer than 2^(l + 1) diagonals, and each of its results is a sum of 2^l slots. So the
  /// error of a coefficient has at most twice the variance period / 6, times the square of the largest value. The factor is
  /// applied in the first stage, so the error of that stage is an error of phases.
  MatrixErrors matrix_errors(const ckks::Ciphertext& low) const {
    const double rounding = kDeviations * std::sqrt(static_cast<double>(ckks_.period()) / 3) * peak_of(x_);
    MatrixErrors e{.switches = std::exp2(ckks_.key_switch_noise(1) + 2.5 - std::log2(pair_.q())),
                   .first_rounding = rounding * last_scale(low) / (pair_.q() * ckks_.scale(low.level()))};
    for (std::size_t level = low.level() - 1; level > 1; --level) e.rounding += rounding / (unit_ * ckks_.scale(level));
    return e;
  }

  /// `window`: units in a turn of the phases.
  Errors errors(const ckks::Ciphertext& low, double window) const {
    const double read = std::sqrt(pair_.tfhe()->noise().before_table(1)) * std::exp2(1 + pair_.tfhe()->spec().message_bits);
    const MatrixErrors matrices = matrix_errors(low);
    const auto [least, most] = interval_of(x_);
    const double top = std::exp2(bits_ - 1.0);
    return {.value = std::exp2(low.data().noise.assumed) / (low.data().scale * unit_),
            .rounding = matrices.rounding + window * matrices.first_rounding,
            .switched = window * (matrices.switches + kDeviations * std::sqrt(pair_.variance())) + kDeviations * read,
            .beyond = std::max({0.0, most / unit_ - (top - 1), -least / unit_ - top})};
  }

  void require_noise(const Errors& e) const {
    if (e.sum() < 0.5) return;  // false for unknown noise
    refuse_noise(e);
  }

  [[noreturn]] void refuse_noise(const Errors& e) const {
    const auto bits = [](double v) { return std::to_string(static_cast<int>(std::ceil(std::log2(v)))); };
    if (std::isnan(e.value))
      throw NoiseError("no bound is known on the error of these values, but switching needs one below half a unit");
    if (e.rounding > std::max(e.value, e.switched))
      throw NoiseError("cannot switch: the error must be below half a unit, but the rounding of the matrices may add 2^" +
                       bits(e.rounding) + " units to values of up to " + short_number(peak_of(x_)) +
                       "; divide the values and the unit by a power of two, or give fewer bits");
    throw NoiseError("cannot switch: the error must be below half a unit, but may reach 2^" + bits(e.value) +
                     " units in the values and 2^" + bits(e.rounding + e.switched) +
                     " units in the switch; give fewer bits or a larger "
                     "unit (unit=)");
  }

  SignPlan planned(const ckks::Ciphertext& low) const {
    const Errors e = errors(low, std::exp2(bits_ + 1.0));
    // The plan counts the errors of the other steps of the switch as a variance.
    const MatrixErrors matrices = matrix_errors(low);
    const SignPlan plan = pair_.sign_plan(bits_, e.value + matrices.rounding, matrices.turns());
    if (plan.bootstraps == 0) refuse_noise(e);
    return plan;
  }

  const ckks::Ciphertext& x_;
  const std::optional<Relation> relation_;
  const unsigned bits_;
  double unit_;
  const KeysData& keys_;
  const Context& pair_;
  const ckks::EvaluationKeys& ckks_keys_;
  const tfhe::EvaluationKeysData& tfhe_keys_;
  ckks::Context& ckks_;
  tfhe::Type type_;
};

}  // namespace

double unit_for(const ckks::Ciphertext& x, unsigned bits) {
  // The unit follows from the public bound alone, because the integers must not depend on secret knowledge of this process
  // about the values.
  const ckks::Range range = x.data().ranges.merged().assumed;
  require_known(range.low, range.high);
  const double least = std::exp2(bits - 1.0);
  const double unit = std::max({0x1p-60, -range.low / (least + kSlack), range.high / (least - 1 + kSlack)});
  return std::exp2(std::ceil(std::log2(unit)));
}

double log2_failure(const Keys& keys, unsigned bits) {
  const Context& pair = *keys.data().context;
  const tfhe::Spec& spec = pair.tfhe()->spec();
  tfhe::wires_of(spec, {.boolean = false, .bits = bits, .is_signed = true});
  const unsigned m = spec.message_bits, digits = bits / m;
  const double unit = std::exp2(-1.0 - m);
  double sum = -std::numeric_limits<double>::infinity();
  for (unsigned k = 0; k < digits; ++k) {
    const double factor = std::exp2(m * (digits - 1.0 - k)), weight = std::exp2(spec.carry_bits - 1.0 * m);
    const double variance = pair.variance() * factor * factor +
                            pair.tfhe()->noise().before_table((k > 0 ? weight * weight : 0) + (k + 1 < digits ? 1 : 0));
    // Lower digits and the rounding move a phase by up to 2^-m / 2 units.
    const double margin = unit * (k == 0 ? 0.5 : 0.5 - std::exp2(-1.0 * m) / 2);
    // Each digit takes two bootstraps, except the highest digit, which takes one.
    sum = rlwe::log2_sum(sum, lwe::log2_tail(variance, margin) + (k + 1 < digits ? 1 : 0));
  }
  return sum;
}

tfhe::Ciphertext to_tfhe(const ckks::Ciphertext& x, unsigned bits, double unit, const Keys& keys,
                         const ckks::EvaluationKeys& ckks_keys, const tfhe::EvaluationKeys& tfhe_keys) {
  return ToTfhe(x, std::nullopt, bits, unit, keys, ckks_keys, tfhe_keys).run();
}

tfhe::Ciphertext compare(const ckks::Ciphertext& x, Relation relation, unsigned bits, double unit, const Keys& keys,
                         const ckks::EvaluationKeys& ckks_keys, const tfhe::EvaluationKeys& tfhe_keys) {
  return ToTfhe(x, relation, bits, unit, keys, ckks_keys, tfhe_keys).run();
}

}  // namespace heliograph::switching
