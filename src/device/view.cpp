#include "device/view.h"

namespace heliograph::device {

View View::dense(std::byte* data, Word word, const std::vector<std::size_t>& batch, std::size_t components,
                 std::size_t limbs, std::size_t n) {
  require<ShapeError>(batch.size() <= kMaxAxes, "a ciphertext tensor has at most 6 axes");
  View v{
      .data = data, .word = word, .axes = static_cast<int>(batch.size()), .components = components, .limbs = limbs, .n = n};
  v.limb_stride = n;
  v.component_stride = limbs * n;
  std::size_t step = components * limbs * n;
  for (int i = v.axes - 1; i >= 0; --i) {
    v.shape[i] = batch[i];
    v.stride[i] = step;
    step *= batch[i];
  }
  return v;
}

View View::with_components(std::size_t first, std::size_t count) const {
  View v = *this;
  v.data += first * component_stride * word_size();
  v.components = count;
  return v;
}

View View::with_limbs(std::size_t first, std::size_t count) const {
  View v = *this;
  v.data += first * limb_stride * word_size();
  v.limbs = count;
  return v;
}

View View::with_leading(std::size_t first, std::size_t count) const {
  View v = *this;
  v.data += first * stride[0] * word_size();
  v.shape[0] = count;
  return v;
}

View View::item(std::size_t index) const {
  View v = *this;
  v.data += item_offset(index) * word_size();
  v.axes = 0;
  return v;
}

}  // namespace heliograph::device
