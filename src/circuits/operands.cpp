#include "circuits/operands.h"

#include <algorithm>
#include <numeric>

namespace heliograph::circuits {

Shared shared(const lwe::Tensor& a, const lwe::Tensor& b) {
  if (!a.shares_storage(b)) return Shared::nothing;
  const device::View &x = a.view(), &y = b.view();
  // Element i of x is the same words as element i of y if `apart` + sum of i_k * step_k is 0, in words.
  const std::ptrdiff_t apart = (x.data - y.data) / static_cast<std::ptrdiff_t>(x.word_size());
  std::ptrdiff_t low = apart, high = apart, divisor = 0;
  for (int k = 0; k < x.axes; ++k) {
    const auto axis = static_cast<std::size_t>(k);
    const auto last = static_cast<std::ptrdiff_t>(x.shape[axis]) - 1;
    const std::ptrdiff_t step = x.stride[axis] - y.stride[axis];
    if (last <= 0 || step == 0) continue;
    (step < 0 ? low : high) += step * last;
    divisor = std::gcd(divisor, step);
  }
  if (low > 0 || high < 0) return Shared::nothing;
  if (divisor != 0) return apart % divisor == 0 ? Shared::some : Shared::nothing;
  return x.components == y.components && x.component_stride == y.component_stride ? Shared::all : Shared::some;
}

Operands compare(const std::vector<lwe::Tensor>& operands) {
  Operands result{std::vector<std::size_t>(operands.size()), std::vector<std::size_t>(operands.size(), 0)};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    std::size_t& same = result.same[i];
    same = i;
    for (std::size_t j = 0; j < i && same == i; ++j) {
      if (result.same[j] == j && shared(operands[i], operands[j]) == Shared::all) same = j;
    }
    if (same != i) continue;
    // Overlapping operands need different numbers of refreshes, because bootstraps of equal ciphertexts have equal noise.
    for (std::size_t j = 0; j < i; ++j) {
      if (result.same[j] == j && shared(operands[i], operands[j]) == Shared::some)
        result.refresh[i] = std::max(result.refresh[i], result.refresh[j] + 1);
    }
  }
  return result;
}

}  // namespace heliograph::circuits
