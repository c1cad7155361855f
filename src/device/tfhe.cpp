#include "device/tfhe.h"

#include <algorithm>
#include <bit>

namespace heliograph::device {

void BootstrapShape::check() const {
  require<ShapeError>(std::has_single_bit(degree) && degree >= 256 && degree <= 4096,
                      "N is a power of two from 256 to 4096");
  require<ShapeError>(k >= 1 && k <= 6 && wide() <= 4096, "a GLWE dimension is 1 to 6, k * N at most 4096");
  require<ShapeError>(group >= 1 && group <= 4, "1 to 4 bits of the narrow key make a group");
  require<ShapeError>(n >= 1 && n % group == 0 && n <= 4096,
                      "the narrow dimension is a multiple of the group, at most 4096");
  require<ShapeError>(gadget.log_base >= 1 && gadget.length >= 1 && gadget.log_base * gadget.length < 64 &&
                          gadget.log_base <= 32 && rows() <= 16,
                      "a bootstrapping gadget has digits of 1 to 32 bits, below 64 in all, and at most 16 rows");
}

void KeySwitchShape::check() const {
  require<ShapeError>(from >= 1 && to >= 1, "a key-switching key has dimensions");
  require<ShapeError>(gadget.log_base >= 1 && gadget.log_base <= 8 && gadget.length >= 1 && gadget.length <= 16 &&
                          gadget.log_base * gadget.length <= 32,
                      "a key-switching gadget has 1 to 16 digits of at most 8 bits, at most 32 in all");
}

std::size_t GateLayer::wires() const {
  std::size_t most = 0;
  for (u32 w : source) most = std::max<std::size_t>(most, w + std::size_t{1});
  for (u32 w : target) most = std::max<std::size_t>(most, w + std::size_t{1});
  return most;
}

void GateLayer::check() const {
  const std::size_t n = rows();
  require<ShapeError>(first.size() == n + 1 && first.front() == 0 && first.back() == source.size() &&
                          source.size() == weight.size() && std::is_sorted(first.begin(), first.end()),
                      "a layer's terms do not fit its rows");
  require<ShapeError>(std::has_single_bit(outputs) && outputs <= 8 && target.size() == n * outputs,
                      "a layer has 1, 2, 4 or 8 targets a row");
  if (linear()) {
    require<ShapeError>(outputs == 1 && lut.empty(), "a linear layer has one target a row and no tables");
  } else {
    require<ShapeError>(std::has_single_bit(degree) && tables.size() % degree == 0, "a table has N words");
    require<ShapeError>(lut.size() == n && std::all_of(lut.begin(), lut.end(), [&](u32 l) { return l < luts(); }),
                        "a row's table is not among the layer's");
  }
  std::vector<u32> written = target;  // memory by targets: a wire's number is anything yet
  std::sort(written.begin(), written.end());
  require<ShapeError>(std::adjacent_find(written.begin(), written.end()) == written.end(),
                      "two results of a layer go to one wire");
  for (u32 w : source)
    require<ShapeError>(!std::binary_search(written.begin(), written.end(), w),
                        "a result of a layer goes to a wire it reads");
}

}  // namespace heliograph::device
