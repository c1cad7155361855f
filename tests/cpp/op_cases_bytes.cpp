// Cases of byte_product.
#include "op_cases.h"

namespace heliograph::test {

namespace {

struct Bytes {
  std::size_t inputs, outputs;
  std::vector<std::size_t> batch;
  Layout words = Layout::packed, bytes = Layout::packed, out = Layout::packed;
  Fill fill = Fill::random;
  Kind kind = Kind::geometry;
};

OpCase bytes_case(const Bytes& s) {
  constexpr u64 kAll = u64{1} << 32;
  const auto declare = [=](Rig& rig) -> std::function<void()> {
    const View bytes = rig.input(Word::w32, s.inputs / 4, {kAll}, {{1}, s.outputs, s.bytes}, s.fill);
    const View words = rig.input(Word::w32, s.inputs, {kAll}, {s.batch, 1, s.words}, s.fill);
    const View out = rig.output(Word::w32, s.outputs, 1, {s.batch, 1, s.out});
    const device::Call call = rig.with_scratch(device::ByteProduct{bytes, words, out, {}});
    return [=, &rig] { rig.queue().enqueue(call); };
  };
  std::string name = std::to_string(s.inputs) + " inputs, " + std::to_string(s.outputs) + " outputs";
  for (const std::size_t axis : s.batch) name += ", " + std::to_string(axis) + " items";
  if (s.words != Layout::packed) name += ", vectors apart";
  if (s.bytes != Layout::packed) name += ", rows apart";
  if (s.out != Layout::packed) name += ", results apart";
  if (s.fill != Fill::random) name += s.fill == Fill::top ? ", all largest" : ", edges";
  return {"byte_product", name, s.kind, false, declare};
}

}  // namespace

void byte_cases(std::vector<OpCase>& cases) {
  cases.push_back(bytes_case({.inputs = 256, .outputs = 1, .batch = {}}));
  cases.push_back(bytes_case({.inputs = 512, .outputs = 64, .batch = {1}, .fill = Fill::top, .kind = Kind::arithmetic}));
  cases.push_back(bytes_case({.inputs = 768, .outputs = 67, .batch = {3}, .fill = Fill::edges, .kind = Kind::arithmetic}));
  cases.push_back(
      bytes_case({.inputs = 4096 + 256, .outputs = 130, .batch = {5}, .words = Layout::sliced, .bytes = Layout::sliced}));
  cases.push_back(
      bytes_case({.inputs = 256, .outputs = 320, .batch = {2, 4}, .words = Layout::transposed, .out = Layout::sliced}));
  cases.push_back(
      bytes_case({.inputs = 512, .outputs = 9, .batch = {7}, .words = Layout::broadcast, .out = Layout::reversed}));
  cases.push_back(bytes_case({.inputs = 16384 + 512, .outputs = 6, .batch = {2}}));
  cases.push_back(bytes_case({.inputs = 8192, .outputs = 65, .batch = {67}}));
  cases.push_back(bytes_case({.inputs = 16384 + 256,
                              .outputs = 300,
                              .batch = {3, 3},
                              .words = Layout::transposed,
                              .bytes = Layout::sliced,
                              .out = Layout::reversed}));
  cases.push_back(bytes_case({.inputs = 4096, .outputs = 129, .batch = {65}, .fill = Fill::top, .kind = Kind::arithmetic}));
}

}  // namespace heliograph::test
