#include "backend/ref/tfhe.h"

#include <bit>

namespace heliograph::backend::ref {

using device::BootstrapKey;
using device::BootstrapShape;
using device::Gadget;
using device::GateLayer;
using device::KeySwitchShape;
using device::LayerConstant;
using device::LweSwitchKey;
using device::Queue;
using device::u32;
using device::u64;
using device::View;

namespace {

class RefBootstrap final : public device::FormOf<BootstrapKey> {
 public:
  RefBootstrap(const BootstrapKey& constant, std::span<const u64> key) : FormOf(constant), key_(key.begin(), key.end()) {}
  const BootstrapShape& shape() const { return of().shape(); }
  /// Returns the key's polynomial (row, component) for a value of a group's bits.
  const u64* polynomial(std::size_t group, std::size_t value, std::size_t row, std::size_t component) const {
    const BootstrapShape& s = shape();
    return key_.data() + (((group * s.values() + value) * s.rows() + row) * (s.k + 1) + component) * s.degree;
  }

 private:
  std::vector<u64> key_;
};

class RefKeySwitch final : public device::FormOf<LweSwitchKey> {
 public:
  RefKeySwitch(const LweSwitchKey& constant, std::span<const u32> key) : FormOf(constant), key_(key.begin(), key.end()) {}
  const KeySwitchShape& shape() const { return of().shape(); }
  const u32* row(std::size_t i, unsigned digit) const {
    return key_.data() + (i * shape().gadget.length + digit) * (shape().to + 1);
  }

 private:
  std::vector<u32> key_;
};

using Polynomial = std::vector<u64>;

/// Computes out += X^e * in modulo X^N + 1, for e below 2N.
void add_rotated(const u64* in, std::size_t e, Polynomial& out) {
  const std::size_t n = out.size();
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t to = (i + e) % (2 * n);
    if (to < n) {
      out[to] += in[i];
    } else {
      out[to - n] -= in[i];
    }
  }
}

void add_product(const Polynomial& a, const Polynomial& b, Polynomial& out) {
  const std::size_t n = out.size();
  for (std::size_t i = 0; i < n; ++i) {
    if (a[i] == 0) continue;
    for (std::size_t j = 0; j < n - i; ++j) out[i + j] += a[i] * b[j];
    for (std::size_t j = n - i; j < n; ++j) out[i + j - n] -= a[i] * b[j];
  }
}

/// Returns acc multiplied by one group of the key; `exponents` has the exponent of each of the group's bits.
std::vector<Polynomial> rotate_group(const RefBootstrap& key, std::size_t group, std::span<const u32> exponents,
                                     const std::vector<Polynomial>& acc) {
  const BootstrapShape& s = key.shape();
  std::vector<Polynomial> next(s.k + 1, Polynomial(s.degree));
  for (std::size_t row = 0; row < s.rows(); ++row) {
    Polynomial digits(s.degree);
    for (std::size_t i = 0; i < s.degree; ++i) {
      digits[i] = static_cast<u64>(
          gadget_digit(acc[row / s.gadget.length][i], s.gadget, static_cast<unsigned>(row % s.gadget.length)));
    }
    for (std::size_t c = 0; c <= s.k; ++c) {
      Polynomial bundle(s.degree);
      for (std::size_t value = 0; value < s.values(); ++value) {
        std::size_t e = 0;
        for (std::size_t bit = 0; bit < s.group; ++bit) e += (value >> bit & 1) * exponents[bit];
        add_rotated(key.polynomial(group, value, row, c), e % (2 * s.degree), bundle);
      }
      add_product(digits, bundle, next[c]);
    }
  }
  return next;
}

/// Extracts coefficient `at` of a GLWE ciphertext as an LWE ciphertext.
void extract(const std::vector<Polynomial>& acc, std::size_t at, u64* out) {
  const std::size_t n = acc[0].size(), k = acc.size() - 1;
  for (std::size_t r = 0; r < k; ++r) {
    for (std::size_t i = 0; i < n; ++i) out[r * n + i] = i <= at ? acc[r][at - i] : u64{0} - acc[r][n + at - i];
  }
  out[k * n] = acc[k][at];
}

}  // namespace

std::unique_ptr<const device::Form> RefTfheKernels::form(const BootstrapKey& constant, std::span<const u64> key) {
  return std::make_unique<RefBootstrap>(constant, key);
}

std::unique_ptr<const device::Form> RefTfheKernels::form(const LweSwitchKey& constant, std::span<const u32> key) {
  return std::make_unique<RefKeySwitch>(constant, key);
}

void RefTfheKernels::run(Queue&, const Combine& c) {
  const GateLayer& layer = c.layer->layer();
  const std::size_t body = c.wires.n - 64;  // the wide dimension is a multiple of 64
  for (std::size_t item = 0; item < c.wires.items(); ++item) {
    for (std::size_t row = 0; row < layer.rows(); ++row) {
      u64* const out = c.wires.at<u64>(item, layer.target[row * layer.outputs], 0);
      for (std::size_t i = 0; i <= body; ++i) {
        u64 sum = i == body ? layer.constant[row] : 0;
        for (u32 t = layer.first[row]; t < layer.first[row + 1]; ++t) {
          sum += static_cast<u64>(std::int64_t{layer.weight[t]}) * c.wires.at<u64>(item, layer.source[t], 0)[i];
        }
        out[i] = sum;
      }
    }
  }
}

void RefTfheKernels::run(Queue&, const LweKeySwitch& c) {
  const RefKeySwitch& key = device::form_on<RefKeySwitch>(*c.key, slot());
  const KeySwitchShape& s = key.shape();
  for (std::size_t item = 0; item < c.wires.items(); ++item) {
    for (std::size_t row = 0; row < c.layer->layer().rows(); ++row) {
      const u64* const in = c.wires.at<u64>(item, c.layer->layer().target[row * c.layer->layer().outputs], 0);
      u32* const out = c.narrow.at<u32>(item, row, 0);
      for (std::size_t j = 0; j < s.to; ++j) out[j] = 0;
      out[s.to] = static_cast<u32>((in[s.from] + (u64{1} << 31)) >> 32);
      for (std::size_t i = 0; i < s.from; ++i) {
        for (unsigned l = 0; l < s.gadget.length; ++l) {
          const u32 digit = static_cast<u32>(gadget_digit(in[i], s.gadget, l));
          for (std::size_t j = 0; j <= s.to; ++j) out[j] -= digit * key.row(i, l)[j];
        }
      }
    }
  }
}

void RefTfheKernels::run(Queue&, const Bootstrap& c) {
  const RefBootstrap& key = device::form_on<RefBootstrap>(*c.key, slot());
  const BootstrapShape& s = key.shape();
  const GateLayer& layer = c.layer->layer();
  std::vector<u32> exponents(s.n + 1);
  for (std::size_t item = 0; item < c.wires.items(); ++item) {
    for (std::size_t row = 0; row < layer.rows(); ++row) {
      device::switch_modulus({c.narrow.at<u32>(item, row, 0), s.n + 1},
                             static_cast<unsigned>(std::countr_zero(2 * s.degree)), exponents);
      std::vector<Polynomial> acc(s.k + 1, Polynomial(s.degree));
      add_rotated(layer.tables.data() + layer.lut[row] * s.degree, (2 * s.degree - exponents[s.n]) % (2 * s.degree),
                  acc[s.k]);
      for (std::size_t g = 0; g < s.groups(); ++g) {
        acc = rotate_group(key, g, std::span(exponents).subspan(g * s.group, s.group), acc);
      }
      for (unsigned o = 0; o < layer.outputs; ++o) {
        extract(acc, o * s.degree / layer.outputs, c.wires.at<u64>(item, layer.target[row * layer.outputs + o], 0));
      }
    }
  }
}

}  // namespace heliograph::backend::ref
