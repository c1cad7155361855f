#include "device/view.h"

#include <algorithm>

#include "device/address.h"

namespace heliograph::device {

std::size_t bounded_product(std::size_t each, std::span<const std::size_t> axes) {
  for (const std::size_t length : axes) {
    if (length != 0 && (__builtin_mul_overflow(each, length, &each) || each > kMaxViewBytes))
      throw ShapeError("a shape has too many elements");
  }
  return each;
}

void View::check_extent() const {
  const std::array<std::size_t, 4> inner{components, limbs, n, word_size()};
  bounded_product(bounded_product(1, inner), std::span(shape).first(static_cast<std::size_t>(axes)));
}

View View::dense(std::byte* data, Word word, const std::vector<std::size_t>& batch, std::size_t components,
                 std::size_t limbs, std::size_t n) {
  require<ShapeError>(batch.size() <= kMaxAxes, "a ciphertext tensor has at most 6 axes");
  View v{
      .data = data, .word = word, .axes = static_cast<int>(batch.size()), .components = components, .limbs = limbs, .n = n};
  std::copy(batch.begin(), batch.end(), v.shape.begin());
  v.check_extent();
  v.limb_stride = n;
  v.component_stride = limbs * n;
  std::size_t step = components * limbs * n;
  for (int i = v.axes - 1; i >= 0; --i) {
    v.stride[i] = static_cast<std::ptrdiff_t>(step);
    step *= batch[i];
  }
  return v;
}

View View::with_components(std::size_t first, std::size_t count) const {
  View v = *this;
  v.data = displaced(v.data, first * component_stride * word_size());
  v.components = count;
  return v;
}

View View::with_limbs(std::size_t first, std::size_t count) const {
  View v = *this;
  v.data = displaced(v.data, first * limb_stride * word_size());
  v.limbs = count;
  return v;
}

View View::with_leading(std::size_t first, std::size_t count) const {
  View v = *this;
  v.data = displaced(v.data, static_cast<std::ptrdiff_t>(first) * stride[0] * static_cast<std::ptrdiff_t>(word_size()));
  v.shape[0] = count;
  return v;
}

View View::item(std::size_t index) const {
  View v = *this;
  v.data = displaced(v.data, item_offset(index) * static_cast<std::ptrdiff_t>(word_size()));
  v.axes = 0;
  return v;
}

}  // namespace heliograph::device
