#include "schemes/ckks/embedding.h"

namespace heliograph::ckks {

Embedding::Embedding(std::size_t n) : roots_(n), position_(n / 2) {
  for (std::size_t s = 0, power = 1; s < position_.size(); ++s, power = power * 5 % (2 * n))
    position_[s] = static_cast<std::uint32_t>((power - 1) / 4);
}

void Embedding::to_slots(const double* polynomial, double divisor, std::complex<double>* slots) const {
  const std::size_t m = position_.size();
  std::vector<double> re(m), im(m);
  roots_.evaluate(polynomial, re.data(), im.data());
  for (std::size_t s = 0; s < m; ++s) slots[s] = {re[position_[s]] / divisor, im[position_[s]] / divisor};
}

void Embedding::to_polynomial(const std::complex<double>* slots, double factor, double* polynomial) const {
  const std::size_t m = position_.size();
  std::vector<double> re(m), im(m);
  for (std::size_t s = 0; s < m; ++s) re[position_[s]] = slots[s].real(), im[position_[s]] = slots[s].imag();
  roots_.interpolate(re.data(), im.data(), factor, polynomial);
}

}  // namespace heliograph::ckks
