#include "backend/cpu/tfhe.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backend/cpu/tfhe_forms.h"

namespace heliograph::backend::cpu {

using device::BootstrapShape;
using device::GateLayer;
using device::KeySwitchShape;
using device::Queue;
using device::View;

namespace {

/// A block of samples of at most this size stays in the second-level cache while the key is read.
constexpr std::size_t kBlockBytes = 384 * 1024, kMostSamples = 32;
/// Maximum samples per pass over a key-switching key.
constexpr std::size_t kSwitchSamples = 64;

std::size_t block_samples(const BootstrapShape& s) {
  return std::clamp<std::size_t>(kBlockBytes / (s.rows() * s.degree * sizeof(double)), 1, kMostSamples);
}

std::size_t ceil_div(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

/// Marks each sample that is rotated together with the next sample: adjacent samples with the same mask.
void find_twins(const u32* exponents, std::size_t n, std::size_t samples, unsigned char* twins) {
  std::fill_n(twins, samples, static_cast<unsigned char>(0));
  for (std::size_t i = 0; i + 1 < samples; i += 1 + twins[i]) {
    const u32* const own = exponents + i * (n + 1);
    twins[i] = std::equal(own, own + n, own + n + 1);
  }
}

/// Hands out 64-byte aligned pieces of one scratch block.
class Pieces {
 public:
  explicit Pieces(void* base) : at_(static_cast<std::byte*>(base)) {}
  template <class T>
  T* take(std::size_t count) {
    T* const piece = reinterpret_cast<T*>(at_);
    at_ += bytes<T>(count);
    return piece;
  }
  template <class T>
  static std::size_t bytes(std::size_t count) {
    return (count * sizeof(T) + 63) / 64 * 64;
  }

 private:
  std::byte* at_;
};

}  // namespace

std::unique_ptr<const device::Form> CpuTfheKernels::form(const device::BootstrapKey& c, std::span<const u64> key) {
  return std::make_unique<CpuBootstrap>(c, key, ops_, pool_, threads_);
}

std::unique_ptr<const device::Form> CpuTfheKernels::form(const device::LweSwitchKey& c, std::span<const u32> key) {
  return std::make_unique<CpuKeySwitch>(c, key, pool_, threads_);
}

std::size_t CpuTfheKernels::parallel_bootstraps(const BootstrapShape& shape) const {
  return static_cast<std::size_t>(threads_.threads()) * std::min<std::size_t>(block_samples(shape), 8);
}

void CpuTfheKernels::run(Queue&, const Combine& c) {
  constexpr std::size_t kTerms = 16;
  const GateLayer& layer = c.layer->layer();
  const std::size_t body = c.wires.n - 64, rows = layer.rows();  // the wide dimension is a multiple of 64
  threads_.parallel_for(
      c.wires.items() * rows, std::max<std::size_t>(1, 16384 / c.wires.n), [&](std::size_t i, std::size_t) {
        const std::size_t item = i / rows, row = i % rows, first = layer.first[row], terms = layer.first[row + 1] - first;
        u64* const out = c.wires.at<u64>(item, layer.target[row * layer.outputs], 0);
        u64 sum = layer.constant[row];
        const u64* few[kTerms];
        std::vector<const u64*> many(terms > kTerms ? terms : 0);
        const u64** const in = terms > kTerms ? many.data() : few;
        for (std::size_t t = 0; t < terms; ++t) {
          in[t] = c.wires.at<u64>(item, layer.source[first + t], 0);
          sum += static_cast<u64>(i64{layer.weight[first + t]}) * in[t][body];
        }
        ops_.combine(terms, in, layer.weight.data() + first, out, body);
        out[body] = sum;
      });
}

void CpuTfheKernels::run(Queue&, const LweKeySwitch& c) {
  const CpuKeySwitch& key = device::form_on<CpuKeySwitch>(*c.key, slot());
  const KeySwitchShape& s = key.shape();
  const GateLayer& layer = c.layer->layer();
  const std::size_t rows = layer.rows(), all = c.wires.items() * rows, gadget_length = s.gadget.length;
  const auto wire = [&](std::size_t i) { return c.wires.at<u64>(i / rows, layer.target[i % rows * layer.outputs], 0); };
  // Adjacent samples with the same mask differ in the body only: one key switch serves all of them.
  std::vector<std::size_t> distinct;
  for (std::size_t i = 0; i < all; ++i) {
    if (i % rows == 0 || !std::equal(wire(i), wire(i) + s.from, wire(i - 1))) distinct.push_back(i);
  }
  const std::size_t samples = distinct.size();
  distinct.push_back(all);
  // Divides the samples among the threads; if there are fewer samples than threads, divides the columns too.
  const std::size_t threads = static_cast<std::size_t>(threads_.usable());
  const std::size_t parts = samples >= threads ? threads * ceil_div(samples, threads * kSwitchSamples) : samples;
  const std::size_t cuts = samples >= threads ? 1 : std::min(key.tiles(), ceil_div(threads, samples));
  threads_.parallel_for(parts * cuts, 1, [&](std::size_t unit, std::size_t) {
    const std::size_t part = unit / cuts, cut = unit % cuts;
    const std::size_t first = samples * part / parts, count = samples * (part + 1) / parts - first;
    const std::size_t first_tile = key.tiles() * cut / cuts, tiles = key.tiles() * (cut + 1) / cuts - first_tile;
    const std::size_t width = tiles * kSwitchTile, digits_stride = key.chunk() * gadget_length;
    Pieces pieces(thread_scratch(Pieces::bytes<u32>(count * width) + Pieces::bytes<i32>(count * digits_stride) +
                                 Pieces::bytes<u64>(key.chunk())));
    u32* const acc = pieces.take<u32>(count * width);
    i32* const digits = pieces.take<i32>(count * digits_stride);
    u64* const rest = pieces.take<u64>(key.chunk());
    std::memset(acc, 0, count * width * sizeof(u32));
    for (std::size_t from = 0; from < s.from; from += key.chunk()) {
      const std::size_t length = std::min(key.chunk(), s.from - from);
      for (std::size_t i = 0; i < count; ++i) {
        ops_.digits(wire(distinct[first + i]) + from, length, s.gadget.log_base, s.gadget.length, rest,
                    digits + i * digits_stride);
      }
      for (std::size_t t = 0; t < tiles; ++t) {
        ops_.switch_rows({.rows = length * gadget_length,
                          .samples = count,
                          .digits = digits,
                          .digit_stride = digits_stride,
                          .key = key.tile(from, length, first_tile + t),
                          .acc = acc + t * kSwitchTile,
                          .acc_stride = width});
      }
    }
    const std::size_t column = first_tile * kSwitchTile, columns = std::min(width, s.to + 1 - column);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t to = distinct[first + i]; to < distinct[first + i + 1]; ++to) {
        u32* const out = c.narrow.at<u32>(to / rows, to % rows, 0);
        std::memcpy(out + column, acc + i * width, columns * sizeof(u32));
        if (column + columns > s.to) out[s.to] += static_cast<u32>((wire(to)[s.from] + (u64{1} << 31)) >> 32);
      }
    }
  });
}

void CpuTfheKernels::run(Queue&, const Bootstrap& call) {
  const CpuBootstrap& key = device::form_on<CpuBootstrap>(*call.key, slot());
  const BootstrapShape& s = key.shape();
  const FourierPlan& plan = key.plan();
  const GateLayer& layer = call.layer->layer();
  const std::size_t rows = layer.rows(), samples = call.wires.items() * rows, n = s.degree;
  const std::size_t threads = static_cast<std::size_t>(threads_.usable());
  const std::size_t parts = std::min(samples, threads * ceil_div(samples, threads * block_samples(s)));
  threads_.parallel_for(parts, 1, [&](std::size_t part, std::size_t) {
    const std::size_t first = samples * part / parts, count = samples * (part + 1) / parts - first;
    Pieces pieces(thread_scratch(
        Pieces::bytes<double>(count * key.state()) + Pieces::bytes<double>(count * s.group * 2 * key.ops().lanes) +
        Pieces::bytes<u64>((s.k + 1) * n) + Pieces::bytes<u32>(count * (s.n + 1)) + Pieces::bytes<unsigned char>(count)));
    double* const state = pieces.take<double>(count * key.state());
    double* const monomials = pieces.take<double>(count * s.group * 2 * key.ops().lanes);
    u64* const words = pieces.take<u64>((s.k + 1) * n);
    u32* const exponents = pieces.take<u32>(count * (s.n + 1));
    unsigned char* const twins = pieces.take<unsigned char>(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t item = (first + i) / rows, row = (first + i) % rows;
      const std::span<u32> own_exponents(exponents + i * (s.n + 1), s.n + 1);
      device::switch_modulus({call.narrow.at<u32>(item, row, 0), s.n + 1}, static_cast<unsigned>(std::countr_zero(2 * n)),
                             own_exponents);
      const auto component = [&](std::size_t c) { return state + i * key.state() + c * s.gadget.length * plan.polynomial; };
      for (std::size_t c = 0; c < s.k; ++c) std::fill_n(component(c), n, 0.0);
      key.rotate_table(layer.tables.data() + layer.lut[row] * n,
                       (static_cast<u32>(2 * n) - own_exponents.back()) & static_cast<u32>(2 * n - 1), component(s.k));
    }
    find_twins(exponents, s.n, count, twins);
    key.ops().rotate({.plan = &plan,
                      .key = key.key(),
                      .n = s.n,
                      .k = s.k,
                      .gadget_length = s.gadget.length,
                      .group = s.group,
                      .log_base = static_cast<int>(s.gadget.log_base),
                      .samples = count,
                      .exponents = exponents,
                      .state = state,
                      .monomials = monomials,
                      .twins = twins});
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t item = (first + i) / rows, row = (first + i) % rows;
      for (std::size_t c = 0; c <= s.k; ++c) {
        key.words(state + i * key.state() + c * s.gadget.length * plan.polynomial, words + c * n);
      }
      for (unsigned o = 0; o < layer.outputs; ++o) {
        const std::size_t at = o * n / layer.outputs;
        u64* const out = call.wires.at<u64>(item, layer.target[row * layer.outputs + o], 0);
        for (std::size_t r = 0; r < s.k; ++r) {
          const u64* const from = words + r * n;
          for (std::size_t j = 0; j <= at; ++j) out[r * n + j] = from[at - j];
          for (std::size_t j = at + 1; j < n; ++j) out[r * n + j] = u64{0} - from[n + at - j];
        }
        out[s.k * n] = words[s.k * n + at];
      }
    }
  });
}

}  // namespace heliograph::backend::cpu
