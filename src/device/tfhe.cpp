#include "device/tfhe.h"

#include <algorithm>
#include <bit>

namespace heliograph::device {

void BootstrapShape::check() const {
  require<ShapeError>(std::has_single_bit(degree) && degree >= 256 && degree <= 4096,
                      "N must be a power of two from 256 to 4096");
  require<ShapeError>(k >= 1 && k <= 6 && wide() <= 4096, "the GLWE dimension must be 1 to 6, and k * N at most 4096");
  require<ShapeError>(group >= 1 && group <= 4, "a group must have 1 to 4 bits of the narrow key");
  require<ShapeError>(n >= 1 && n % group == 0 && n <= 4096,
                      "the narrow dimension must be a multiple of the group and at most 4096");
  require<ShapeError>(gadget.log_base >= 1 && gadget.length >= 1 && gadget.log_base * gadget.length < 64 &&
                          gadget.log_base <= 32 && rows() <= 16,
                      "a bootstrapping gadget must have digits of 1 to 32 bits, below 64 bits in all, and at most 16 rows");
}

void KeySwitchShape::check() const {
  require<ShapeError>(from >= 1 && to >= 1, "the dimensions of a key-switching key must be positive");
  require<ShapeError>(gadget.log_base >= 1 && gadget.log_base <= 8 && gadget.length >= 1 && gadget.length <= 16 &&
                          gadget.log_base * gadget.length <= 32,
                      "a key-switching gadget must have 1 to 16 digits of at most 8 bits, at most 32 bits in all");
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
                      "the terms of a layer must fit its rows");
  require<ShapeError>(std::has_single_bit(outputs) && outputs <= 8 && target.size() == n * outputs,
                      "a layer must have 1, 2, 4 or 8 targets for each row");
  if (linear()) {
    require<ShapeError>(outputs == 1 && lut.empty(), "a linear layer must have one target for each row and no tables");
  } else {
    require<ShapeError>(std::has_single_bit(degree) && tables.size() % degree == 0, "a table must have N words");
    require<ShapeError>(lut.size() == n && std::all_of(lut.begin(), lut.end(), [&](u32 l) { return l < luts(); }),
                        "the table of a row must be one of the layer's tables");
  }
  std::vector<u32> written = target;  // sorted instead of indexed by wire, because wire numbers are not bounded here
  std::sort(written.begin(), written.end());
  require<ShapeError>(std::adjacent_find(written.begin(), written.end()) == written.end(),
                      "two results of a layer must not have the same target");
  for (u32 w : source)
    require<ShapeError>(!std::binary_search(written.begin(), written.end(), w),
                        "a target of a layer must not be one of its sources");
}

}  // namespace heliograph::device
