#include "schemes/exact/rules.h"

#include <algorithm>
#include <cmath>

namespace heliograph::exact {

Rules::Rules(std::shared_ptr<rlwe::Context> rlwe, std::vector<u64> plain_moduli)
    : rlwe_(std::move(rlwe)), plain_(std::move(plain_moduli)), model_(rlwe_->parameters().n) {}

const std::shared_ptr<const device::ConversionConstant>& Rules::cached(Kind kind, std::size_t part, std::size_t level,
                                                                       u64 factor,
                                                                       const std::function<math::Conversion()>& make) {
  const std::lock_guard lock(mutex_);
  auto& conversion = conversions_[{kind, part, level, factor}];
  if (!conversion) conversion = engine().kernels().prepare(make());
  return conversion;
}

const std::shared_ptr<const device::ConversionConstant>& Rules::lift(std::size_t part) {
  return cached(Kind::lift, part, 0, 1,
                [&] { return math::extend_base({plain_[part]}, rlwe_->moduli(rlwe_->chain(rlwe_->top_level()))); });
}

double Rules::log_plain(std::size_t part) const { return std::log2(static_cast<double>(plain_[part])); }

double Rules::log_modulus(std::size_t level) const { return rlwe::log2_product(rlwe_->moduli(rlwe_->chain(level))); }

double key_switch_noise(const rlwe::RingParameters& p, std::size_t level, rlwe::NoiseModel::Deviations deviations) {
  std::vector<double> digits;
  std::size_t first = 0;
  for (std::size_t size : p.digits) {
    if (first >= level) break;
    double bits = 0;
    for (std::size_t l = first; l < std::min(first + size, level); ++l) bits += std::log2(static_cast<double>(p.chain[l]));
    digits.push_back(bits);
    first += size;
  }
  return rlwe::NoiseModel(p.n, rlwe::NoiseModel::Spoils::coefficients, deviations)
      .key_switch(digits, rlwe::log2_product(p.special));
}

}  // namespace heliograph::exact
