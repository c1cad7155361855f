// TFHE to CKKS: packing, a switch to the CKKS key, and a functional bootstrap of each digit.
#include <cmath>

#include "base/progress.h"
#include "circuits/ckks/bootstrap_stages.h"
#include "circuits/switching/context.h"
#include "heliograph/switching.h"
#include "schemes/tfhe/encoding.h"
#include "schemes/tfhe/run.h"

namespace heliograph::switching {

namespace {

class ToCkks {
 public:
  ToCkks(const tfhe::Ciphertext& y, double unit, const Keys& keys, const ckks::EvaluationKeys& ckks_keys)
      : y_(y), unit_(unit), keys_(keys.data()), pair_(*keys_.context), ckks_keys_(ckks_keys), ckks_(*pair_.ckks()) {
    schemes::require_same(y.data(), pair_.tfhe(), keys_.tfhe_key, "these switching keys");
    if (ckks_keys.data().context != pair_.ckks())
      throw MismatchError("the switching keys and the CKKS evaluation keys have different " +
                          schemes::difference(pair_.ckks()->spec(), ckks_keys.data().context->spec()));
    if (ckks_keys.data().keys.id != keys_.ckks_key)
      throw WrongKeyError("the switching keys belong to CKKS key " + keys.ckks_key_id().substr(0, 8) +
                          ", the evaluation keys to key " + ckks_keys.key_id().substr(0, 8));
    if (!ckks_keys.has_bootstrapping())
      throw MissingKeyError("these evaluation keys have no bootstrapping keys (make them with bootstrap=True)");
    require<ParameterError>(std::isfinite(unit) && unit > 0, "the unit of a switched value must be a number above 0");
    const Shape shape = y.shape();
    require<ShapeError>(!shape.empty(), "a tensor needs an axis for the slots; one value is reshape(y, (1,))");
    width_ = shape.back();
    if (width_ == 0 || width_ > ckks_.slots())
      throw ShapeError("the last axis becomes the slots: it must have 1 to " + std::to_string(ckks_.slots()) +
                       " values, not " + std::to_string(width_));
    shape_.assign(shape.begin(), shape.end() - 1);
  }

  ckks::Ciphertext run() {
    ProgressSteps steps(1);
    const tfhe::Spec& spec = pair_.tfhe()->spec();
    const bool boolean = y_.type().boolean;
    const std::size_t wires = y_.wires(), items = device::element_count(shape_);
    // A digit has the unit 1/p turn.
    const unsigned bits = boolean ? 1 : spec.message_bits;
    const auto factor = std::int32_t{1} << (1 + spec.message_bits + spec.carry_bits - bits);
    tfhe::EvaluationKeysData none;  // a circuit without bootstraps reads no keys
    none.context = pair_.tfhe();
    lwe::Tensor digits = tfhe::run(none, pair_.scaling(wires, factor), {y_.data().tensor}, {wires})[0];
    const double p = std::exp2(bits);
    const lwe::NoiseModel& noise = pair_.tfhe()->noise();
    const double variance = std::max(noise.fresh, noise.bootstrap) * factor * factor + pair_.packing_variance();
    const double error = std::log2(kDeviations * std::sqrt(variance) * p);
    if (error > -2.5)
      throw NoiseError("cannot switch: the error of a digit must be below a sixth of a step, but may reach 2^" +
                       std::to_string(std::ceil(error)) + "; the TFHE set is too noisy");
    // All digits with one table are items of one functional bootstrap; the highest digit of a signed integer has its own.
    const bool split = y_.type().is_signed && wires > 1;
    const std::size_t low = split ? wires - 1 : wires;
    std::vector<lwe::Tensor> rows;
    for (std::size_t w = 0; w < wires; ++w) rows.push_back(digits.with_components(w, 1).reshape({1, items, width_}));
    const auto some = [&](std::size_t first, std::size_t count, bool is_signed, double end) {
      const std::vector<lwe::Tensor> part(rows.begin() + static_cast<std::ptrdiff_t>(first),
                                          rows.begin() + static_cast<std::ptrdiff_t>(first + count));
      return steps.part_until(
          end, [&] { return looked_up(lwe::concatenate(part, 0), table(bits, is_signed, wires == 1 ? unit_ : 1), error); });
    };
    const double share = static_cast<double>(low) / static_cast<double>(wires);
    ckks::Ciphertext read = some(0, low, y_.type().is_signed && !split, 0.95 * share);
    if (wires == 1) return ckks::reshape(read, shape_);
    if (split) read = ckks::concatenate({read, some(low, 1, true, 0.95)}, 0);
    std::vector<double> weights;
    for (std::size_t w = 0; w < wires; ++w) weights.push_back(std::exp2(static_cast<double>(bits * w)) * unit_);
    return ckks::reshape(ckks::rescale(ckks::matmul(weights, 1, wires, read)), shape_);
  }

 private:
  /// Returns the digits' values times a factor, signed or not.
  static std::vector<std::complex<double>> table(unsigned bits, bool is_signed, double factor) {
    std::vector<std::complex<double>> values;
    const int p = 1 << bits;
    for (int i = 0; i < p; ++i) values.emplace_back((is_signed && 2 * i >= p ? i - p : i) * factor);
    return values;
  }

  /// Returns table[d] for digits of 1 / p turns: [digit, items, width].
  ckks::Ciphertext looked_up(const lwe::Tensor& digits, const std::vector<std::complex<double>>& table, double error) {
    ProgressSteps steps(1);
    const std::size_t rows = digits.shape()[0] * digits.shape()[1];
    RnsTensor t = steps.part(0.3, [&] { return pair_.pack(digits.reshape({rows, width_}), keys_.packing); });
    t = pair_.to_dense(ring::to_domain(t, Domain::ntt), keys_.to_dense);
    Shape shape = {digits.shape()[0]};
    shape.insert(shape.end(), shape_.begin(), shape_.end());
    ckks::CiphertextData like;
    like.context = pair_.ckks(), like.key = keys_.ckks_key;
    like.tensor = t.reshape(shape);
    like.level = 1, like.scale = ckks_.scale(1), like.width = width_;
    like.noise = rlwe::Figure(keys_.vouched ? error : std::nan(""), error) + std::log2(like.scale);
    like.ranges = ckks::Ranges(ckks::Range::of(0, static_cast<double>(table.size()), 1, 1));
    return steps.part_until(1,
                            [&] { return ckks::functional_bootstrap(ckks::finish(std::move(like)), t, table, ckks_keys_); });
  }

  const tfhe::Ciphertext& y_;
  const double unit_;
  const KeysData& keys_;
  const Context& pair_;
  const ckks::EvaluationKeys& ckks_keys_;
  ckks::Context& ckks_;
  std::size_t width_ = 0;
  Shape shape_;
};

}  // namespace

ckks::Ciphertext to_ckks(const tfhe::Ciphertext& y, double unit, const Keys& keys, const ckks::EvaluationKeys& ckks_keys) {
  return ToCkks(y, unit, keys, ckks_keys).run();
}

}  // namespace heliograph::switching
