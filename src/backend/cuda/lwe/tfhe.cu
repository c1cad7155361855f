#include "backend/cuda/lwe/tfhe.h"

#include <cmath>
#include <cstring>
#include <numbers>

#include "backend/cuda/runtime/launch.cuh"

namespace heliograph::backend::cuda {

namespace {

/// Returns exp(i pi j / n) for j < 2n.
std::vector<Complex> roots_of(std::size_t n) {
  std::vector<Complex> r(2 * n);
  for (std::size_t j = 0; j < 2 * n; ++j) {
    const double angle = std::numbers::pi * static_cast<double>(j) / static_cast<double>(n);
    r[j] = {std::cos(angle), std::sin(angle)};
  }
  return r;
}

std::unique_ptr<Table> table_of(const std::shared_ptr<State>& state, const std::vector<Complex>& values) {
  return std::make_unique<Table>(state, values.data(), values.size() * sizeof(Complex));
}

constexpr u32 kCombineThreads = 256;

struct CombineArguments {
  const u32 *first, *source, *target;
  const std::int32_t* weight;
  const u64* constant;
  u64* wires;
  u64 item, wire;
  u32 rows, outputs, words, body, parts;
};

__global__ void __launch_bounds__(kCombineThreads) combine_kernel(const __grid_constant__ CombineArguments a) {
  take_turn();
  const u32 part = blockIdx.x % a.parts, row = blockIdx.x / a.parts % a.rows;
  u64* const item = a.wires + static_cast<u64>(blockIdx.x / a.parts / a.rows) * a.item;
  const u32 w = part * kCombineThreads + threadIdx.x;
  if (w >= a.words) return;
  u64 sum = w == a.body ? a.constant[row] : 0;
  for (u32 t = a.first[row], end = a.first[row + 1]; t < end; ++t)
    sum += static_cast<u64>(static_cast<long long>(a.weight[t])) * item[a.source[t] * a.wire + w];
  item[a.target[row * a.outputs] * a.wire + w] = sum;
}

}  // namespace

CudaBootstrap::CudaBootstrap(const std::shared_ptr<State>& state, const device::BootstrapShape& shape,
                             std::span<const u64> key) {
  const BlindKernel& kernel = blind_kernel(shape);
  roots_ = table_of(state, roots_of(shape.degree));
  if (kernel.twiddles) twiddles_ = table_of(state, kernel.twiddles());
  const Complex* const constants = kernel.twiddles ? twiddles() : roots();
  key_ = std::make_unique<Table>(state, nullptr, 0, shape.words() / 2 * sizeof(Complex));
  // Uploads and transforms one part of the key at a time; the key's words are not stored.
  CudaQueue queue(state);
  const std::size_t group_words = shape.words() / shape.groups(),
                    at_once = std::max<std::size_t>(1, (1u << 23) / group_words);
  device::BootstrapShape part = shape;
  for (std::size_t g = 0; g < shape.groups(); g += at_once) {
    const std::size_t count = std::min(at_once, shape.groups() - g);
    part.n = count * shape.group;
    const Table words(state, key.data() + g * group_words, count * group_words * sizeof(u64));
    kernel.transform(queue, part, words.as<u64>(), constants, const_cast<Complex*>(this->key()) + g * group_words / 2);
    queue.wait();
  }
}

CudaLayer::CudaLayer(const std::shared_ptr<State>& state, const device::LayerConstant& constant) : FormOf(constant) {
  const device::GateLayer& l = constant.layer();
  std::vector<u32> words = l.first;
  source_ = words.size();
  words.insert(words.end(), l.source.begin(), l.source.end());
  weight_ = words.size();
  for (std::int32_t w : l.weight) words.push_back(static_cast<u32>(w));
  lut_ = words.size();
  words.insert(words.end(), l.lut.begin(), l.lut.end());
  target_ = words.size();
  words.insert(words.end(), l.target.begin(), l.target.end());
  words_ = std::make_unique<Table>(state, words.data(), words.size() * sizeof(u32));
  std::vector<u64> constants = l.constant;
  constants.insert(constants.end(), l.tables.begin(), l.tables.end());
  constants_ = std::make_unique<Table>(state, constants.data(), constants.size() * sizeof(u64));
}

std::unique_ptr<const device::Form> CudaTfhe::form(const device::BootstrapKey& c, std::span<const u64> key) {
  return std::make_unique<CudaBootstrap>(state_, c.shape(), key);
}
std::unique_ptr<const device::Form> CudaTfhe::form(const device::LweSwitchKey& c, std::span<const u32> key) {
  return std::make_unique<CudaKeySwitch>(state_, c.shape(), key);
}
std::unique_ptr<const device::Form> CudaTfhe::form(const device::LayerConstant& c) {
  return std::make_unique<CudaLayer>(state_, c);
}

std::size_t CudaTfhe::parallel_bootstraps(const device::BootstrapShape& shape) const {
  return std::size_t{blind_kernel(shape).samples_a_processor(*state_)} *
         static_cast<std::size_t>(state_->properties().processors);
}

void CudaTfhe::run(Queue& queue, const device::Combine& c) {
  const auto& mine = device::form_on<CudaLayer>(*c.layer, slot());
  const device::GateLayer& l = mine.layer();
  const u32 parts = static_cast<u32>((c.wires.n + kCombineThreads - 1) / kCombineThreads);
  // The linear combination is the same for all words of an LWE ciphertext except the body, to which the constant is added.
  // The body is word d of lwe_words(d) = d + 64 words; padding follows.
  const CombineArguments a{.first = mine.first(),
                           .source = mine.source(),
                           .target = mine.target(),
                           .weight = mine.weight(),
                           .constant = mine.constant(),
                           .wires = c.wires.at<u64>(0, 0, 0),
                           .item = static_cast<u64>(c.wires.stride[0]),
                           .wire = c.wires.component_stride,
                           .rows = static_cast<u32>(l.rows()),
                           .outputs = l.outputs,
                           .words = static_cast<u32>(c.wires.n),
                           .body = static_cast<u32>(c.wires.n - 64),
                           .parts = parts};
  launch(queue, "combine", combine_kernel, u64{parts} * l.rows() * c.wires.items(), kCombineThreads, 0, a);
}

void CudaTfhe::run(Queue& queue, const device::Bootstrap& c) {
  const auto& mine = device::form_on<CudaBootstrap>(*c.key, slot());
  const auto& rows = device::form_on<CudaLayer>(*c.layer, slot());
  const device::BootstrapShape& shape = c.key->shape();
  u32 log_degree = 0;
  while ((std::size_t{1} << log_degree) < shape.degree) ++log_degree;
  const u64 count = u64{c.wires.items()} * rows.layer().rows();
  require<ShapeError>(count < u64{1} << 31, "a call is too large for a GPU launch; split the batch");
  const BlindArguments a{.key = mine.key(),
                         .twiddles = blind_kernel(shape).twiddles ? mine.twiddles() : nullptr,
                         .roots = mine.roots(),
                         .tables = rows.tables(),
                         .lut = rows.lut(),
                         .target = rows.target(),
                         .narrow = c.narrow.at<u32>(0, 0, 0),
                         .wires = c.wires.at<u64>(0, 0, 0),
                         .narrow_item = static_cast<u64>(c.narrow.stride[0]),
                         .narrow_row = c.narrow.component_stride,
                         .wire_item = static_cast<u64>(c.wires.stride[0]),
                         .wire = c.wires.component_stride,
                         .n = static_cast<u32>(shape.n),
                         .rows = static_cast<u32>(rows.layer().rows()),
                         .count = static_cast<u32>(count),
                         .outputs = rows.layer().outputs,
                         .k = static_cast<u32>(shape.k),
                         .gadget_length = shape.gadget.length,
                         .log_base = shape.gadget.log_base,
                         .group = shape.group,
                         .log_degree = log_degree};
  blind_kernel(shape).rotate(queue, *state_, a);
}

}  // namespace heliograph::backend::cuda
