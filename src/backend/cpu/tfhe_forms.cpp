#include "backend/cpu/tfhe_forms.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "base/checked.h"

namespace heliograph::backend::cpu {

using device::BootstrapShape;
using device::KeySwitchShape;

namespace {

/// Maximum rows of a key-switching key per chunk, so that one tile of a chunk fits the second-level cache.
constexpr std::size_t kChunkRows = 192;

std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

CpuBootstrap::CpuBootstrap(const device::BootstrapKey& constant, std::span<const u64> key, const TfheOps& ops,
                           MemoryPool& pool, ThreadPool& threads)
    : FormOf(constant), ops_(ops) {
  const BootstrapShape& shape = constant.shape();
  make_plan(pool);
  key_ = pool.allocate(checked_mul(shape.words(), sizeof(double)));
  threads.parallel_for(shape.groups(), 1, [&](std::size_t group, std::size_t) {
    transform(key, group, static_cast<double*>(thread_scratch(plan_.n * sizeof(double))));
  });
}

double CpuBootstrap::unit() const {
  const device::Gadget& g = shape().gadget;
  return std::ldexp(1.0, 64 - static_cast<int>(g.log_base * g.length));
}

void CpuBootstrap::make_plan(MemoryPool& pool) {
  const std::size_t n = shape().degree, m = n / 2, lanes = ops_.lanes, vectors = m / lanes;
  const int log_m = std::countr_zero(m), log_lanes = std::countr_zero(lanes);
  const std::size_t last = lanes > 1 ? m : 0;  // number of doubles of `within`
  const std::size_t bytes[] = {padded(2 * n * 2 * sizeof(double)), padded(2 * m * sizeof(double)),
                               padded(last * sizeof(double)), padded(vectors * sizeof(u32)), padded(lanes * sizeof(u32))};
  tables_ = pool.allocate(bytes[0] + bytes[1] + bytes[2] + bytes[3] + bytes[4]);
  std::byte* at = tables_->address();
  double* const roots = reinterpret_cast<double*>(at);
  double* const nodes = reinterpret_cast<double*>(at += bytes[0]);
  double* const within = reinterpret_cast<double*>(at += bytes[1]);
  u32* const exponents = reinterpret_cast<u32*>(at += bytes[2]);
  u32* const lane_exponents = reinterpret_cast<u32*>(at += bytes[3]);

  for (std::size_t e = 0; e < 2 * n; ++e) {
    const double angle = std::numbers::pi * static_cast<double>(e) / static_cast<double>(n);
    roots[2 * e] = std::cos(angle), roots[2 * e + 1] = std::sin(angle);
  }
  // Block b of stage s holds a polynomial modulo X^(M >> s) - zeta^value[b]. The block's halves have the values value[b] / 2
  // and value[b] / 2 + N. The value of the left half gives the block's twiddle.
  std::vector<std::size_t> value{n / 2};
  nodes[0] = nodes[1] = 0;
  const auto twiddle = [&](std::size_t block_value) { return roots + block_value; };  // root of exponent value / 2
  for (int s = 0; s < log_m; ++s) {
    std::vector<std::size_t> halves;
    for (std::size_t b = 0; b < value.size(); ++b) {
      const std::size_t node = (std::size_t{1} << s) + b;
      nodes[2 * node] = twiddle(value[b])[0], nodes[2 * node + 1] = twiddle(value[b])[1];
      halves.push_back(value[b] / 2), halves.push_back(value[b] / 2 + n);
    }
    value = std::move(halves);
  }
  // Returns the root exponent of a lane of a vector, after the transposition of blocks of `lanes` vectors.
  const auto root = [&](std::size_t vector, std::size_t lane) {
    return value[(vector / lanes * lanes + lane) * lanes + vector % lanes];
  };
  for (std::size_t v = 0; v < vectors; ++v) exponents[v] = static_cast<u32>(root(v, 0));
  for (std::size_t l = 0; l < lanes; ++l) {
    lane_exponents[l] = static_cast<u32>((root(0, l) + 2 * n - root(0, 0)) % (2 * n));
  }
  for (std::size_t g = 0; lanes > 1 && g < vectors / lanes; ++g) {
    double* to = within + g * lanes / 2 * 2 * lanes;
    for (int s = 0; s < log_lanes; ++s) {  // stores the twiddles of even blocks only
      for (std::size_t b = 0; b < (std::size_t{1} << s); b += 2 - (s == 0), to += 2 * lanes) {
        for (std::size_t l = 0; l < lanes; ++l) {
          const std::size_t node = (std::size_t{1} << (log_m - log_lanes + s)) + ((g * lanes + l) << s) + b;
          to[l] = nodes[2 * node], to[lanes + l] = nodes[2 * node + 1];
        }
      }
    }
  }
  plan_ = {.n = n,
           .log_m = log_m,
           .polynomial = n + 16,
           .roots = roots,
           .nodes = nodes,
           .last = within,
           .exponents = exponents,
           .lane_exponents = lane_exponents};
}

void CpuBootstrap::transform(std::span<const u64> key, std::size_t group, double* scratch) const {
  const BootstrapShape& s = shape();
  const std::size_t pair = 2 * ops_.lanes, pairs = s.degree / pair, values = s.values(), entries = s.rows() * (s.k + 1);
  const double scale = 2 / (unit() * static_cast<double>(s.degree));
  double* const to = reinterpret_cast<double*>(key_->address()) + group * values * entries * s.degree;
  for (std::size_t value = 0; value < values; ++value) {
    for (std::size_t entry = 0; entry < entries; ++entry) {
      const u64* const from = key.data() + ((group * values + value) * entries + entry) * s.degree;
      for (std::size_t j = 0; j < s.degree; ++j) {
        scratch[place(j)] = static_cast<double>(static_cast<i64>(from[j])) * scale;
      }
      ops_.forward(plan_, scratch);
      for (std::size_t v = 0; v < pairs; ++v) {
        std::copy_n(scratch + v * pair, pair, to + ((v * entries + entry) * values + value) * pair);
      }
    }
  }
}

void CpuBootstrap::rotate_table(const u64* table, u32 exponent, double* out) const {
  const std::size_t n = plan_.n;
  const double scale = 1 / unit();
  for (std::size_t j = 0; j < n; ++j) {
    const std::size_t from = (j + 2 * n - exponent) % (2 * n);
    const double x = static_cast<double>(static_cast<i64>(table[from % n])) * scale;
    out[place(j)] = from < n ? x : -x;
  }
}

void CpuBootstrap::words(const double* in, u64* out) const {
  constexpr double kTurn = 18446744073709551616.0;
  const double scale = unit();
  for (std::size_t j = 0; j < plan_.n; ++j) {
    const double x = in[place(j)] * scale;  // |x| is at most half of 2^64
    out[j] = static_cast<u64>(static_cast<i64>(x < kTurn / 2 ? x : x - kTurn));
  }
}

CpuKeySwitch::CpuKeySwitch(const device::LweSwitchKey& constant, std::span<const u32> key, MemoryPool& pool,
                           ThreadPool& threads)
    : FormOf(constant), chunk_(std::max<std::size_t>(1, kChunkRows / constant.shape().gadget.length)) {
  const KeySwitchShape& shape = constant.shape();
  const std::size_t gadget_length = shape.gadget.length, row = shape.to + 1;
  key_ = pool.allocate(checked_product(shape.from, gadget_length, tiles(), kSwitchTile, sizeof(u32)));
  threads.parallel_for((shape.from + chunk_ - 1) / chunk_, 1, [&](std::size_t c, std::size_t) {
    const std::size_t first = c * chunk_, count = std::min(chunk_, shape.from - first);
    for (std::size_t t = 0; t < tiles(); ++t) {
      u32* to = const_cast<u32*>(tile(first, count, t));
      const std::size_t columns = std::min(kSwitchTile, row - t * kSwitchTile);
      for (std::size_t l = 0; l < gadget_length; ++l) {
        for (std::size_t i = first; i < first + count; ++i, to += kSwitchTile) {
          std::copy_n(key.data() + (i * gadget_length + l) * row + t * kSwitchTile, columns, to);
          std::fill(to + columns, to + kSwitchTile, 0);
        }
      }
    }
  });
}

}  // namespace heliograph::backend::cpu
