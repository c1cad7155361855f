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
  require<ShapeError>(gadget.log_base >= 1 && gadget.levels >= 1 && gadget.log_base * gadget.levels < 64 &&
                          gadget.log_base <= 32 && rows() <= 16,
                      "a bootstrapping gadget has digits of 1 to 32 bits, below 64 in all, and at most 16 rows");
}

void KeySwitchShape::check() const {
  require<ShapeError>(from >= 1 && to >= 1, "a key-switching key has dimensions");
  require<ShapeError>(gadget.log_base >= 1 && gadget.log_base <= 8 && gadget.levels >= 1 && gadget.levels <= 16 &&
                          gadget.log_base * gadget.levels <= 32,
                      "a key-switching gadget has 1 to 16 digits of at most 8 bits, at most 32 in all");
}

std::size_t GateLevel::wires() const {
  std::size_t most = 0;
  for (u32 w : source) most = std::max<std::size_t>(most, w + std::size_t{1});
  for (u32 w : target) most = std::max<std::size_t>(most, w + std::size_t{1});
  return most;
}

void GateLevel::check() const {
  const std::size_t n = rows();
  require<ShapeError>(first.size() == n + 1 && first.front() == 0 && first.back() == source.size() &&
                          source.size() == weight.size() && std::is_sorted(first.begin(), first.end()),
                      "a level's terms do not fit its rows");
  require<ShapeError>(std::has_single_bit(outputs) && outputs <= 8 && target.size() == n * outputs,
                      "a level has 1, 2, 4 or 8 targets a row");
  if (linear()) {
    require<ShapeError>(outputs == 1 && lut.empty(), "a linear level has one target a row and no tables");
  } else {
    require<ShapeError>(std::has_single_bit(degree) && tables.size() % degree == 0, "a table has N words");
    require<ShapeError>(lut.size() == n && std::all_of(lut.begin(), lut.end(), [&](u32 l) { return l < luts(); }),
                        "a row's table is not among the level's");
  }
  std::vector<bool> written(wires());
  for (u32 w : target) {
    require<ShapeError>(!written[w], "two results of a level go to one wire");
    written[w] = true;
  }
  for (u32 w : source) require<ShapeError>(!written[w], "a result of a level goes to a wire it reads");
}

namespace {

void check_wires(const PreparedLevel& level, const View& wires, std::size_t dimension) {
  require<ShapeError>(wires.word == Word::w64 && wires.axes == 1 && wires.limbs == 1 &&
                          (dimension == 0 || wires.n == lwe_words(dimension)) && wires.n % 64 == 0 && wires.stride[0] >= 0,
                      "wires are LWE ciphertexts [item][wire] of 64-bit words, the first item first");
  require<ShapeError>(wires.components >= level.level().wires(), "the level has more wires than there is room for");
}

void check_narrow(const PreparedLevel& level, const View& wires, const View& narrow, std::size_t dimension) {
  require<ShapeError>(narrow.word == Word::w32 && narrow.axes == 1 && narrow.limbs == 1 &&
                          narrow.n == lwe_words(dimension) && narrow.stride[0] >= 0,
                      "narrow ciphertexts are LWE ciphertexts [item][row] of 32-bit words, the first item first");
  require<ShapeError>(narrow.items() == wires.items() && narrow.components >= level.level().rows(),
                      "there is less room for narrow ciphertexts than rows");
}

}  // namespace

void TfheKernels::combine(Queue& q, const PreparedLevel& level, const View& wires) {
  check_wires(level, wires, 0);
  if (wires.items() && level.level().rows()) do_combine(q, level, wires);
}

void TfheKernels::key_switch(Queue& q, const PreparedKeySwitch& key, const PreparedLevel& level, const View& wires,
                             const View& narrow) {
  check_wires(level, wires, key.shape().from);
  check_narrow(level, wires, narrow, key.shape().to);
  if (wires.items() && level.level().rows()) do_key_switch(q, key, level, wires, narrow);
}

void TfheKernels::bootstrap(Queue& q, const PreparedBootstrap& key, const PreparedLevel& level, const View& narrow,
                            const View& wires) {
  check_wires(level, wires, key.shape().wide());
  check_narrow(level, wires, narrow, key.shape().n);
  require<ShapeError>(!level.level().linear() && level.level().degree == key.shape().degree,
                      "a level's tables have the key's N coefficients");
  if (wires.items() && level.level().rows()) do_bootstrap(q, key, level, narrow, wires);
}

void TfheKernels::evaluate(Queue& q, const PreparedKeySwitch& switch_key, const PreparedBootstrap& key,
                           const PreparedLevel& level, const View& wires, const View& narrow) {
  if (level.level().linear()) return combine(q, level, wires);
  check_wires(level, wires, key.shape().wide());
  check_narrow(level, wires, narrow, key.shape().n);
  require<ShapeError>(switch_key.shape().from == key.shape().wide() && switch_key.shape().to == key.shape().n,
                      "the two keys do not belong together");
  require<ShapeError>(level.level().degree == key.shape().degree, "a level's tables have the key's N coefficients");
  if (wires.items() && level.level().rows()) do_evaluate(q, switch_key, key, level, wires, narrow);
}

void TfheKernels::do_evaluate(Queue& q, const PreparedKeySwitch& switch_key, const PreparedBootstrap& key,
                              const PreparedLevel& level, const View& wires, const View& narrow) {
  do_combine(q, level, wires);
  do_key_switch(q, switch_key, level, wires, narrow);
  do_bootstrap(q, key, level, narrow, wires);
}

}  // namespace heliograph::device
