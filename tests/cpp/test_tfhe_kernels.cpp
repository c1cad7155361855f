// TFHE's kernels of device/call.h. Kernels with exact arithmetic have the bits of `ref`. Bootstraps are tested by the phases
// of their results under keys without noise, so only the gadget's rounding remains.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "backend/cpu/cpu.h"
#include "device/kernels.h"

namespace heliograph {
namespace {

using device::BootstrapShape;
using device::Gadget;
using device::GateLayer;
using device::KeySwitchShape;
using device::View;
using math::u32;
using math::u64;
using math::Word;
using i64 = std::int64_t;

std::vector<std::string> processor_devices() {
  std::vector<std::string> names;
  for (const char* name : {"cpu:scalar", "cpu:avx2", "cpu:avx512"}) {
    try {
      device::open_device(name);
      names.push_back(name);
    } catch (const ParameterError&) {  // this processor lacks the instruction set
    }
  }
  return names;
}

/// A device in host memory, a queue and ciphertexts.
class Rig {
 public:
  explicit Rig(const std::string& name) : Rig(device::open_device(name)) {}
  explicit Rig(std::unique_ptr<device::Device> device) : device_(std::move(device)), queue_(device_->make_queue()) {}

  device::TfheKernels& kernels() { return device_->tfhe(); }
  device::Queue& queue() { return *queue_; }
  /// Returns a view of [items][components] zeroed ciphertexts with `gap` words between them.
  View view(Word word, std::size_t items, std::size_t components, std::size_t dimension, std::size_t gap = 64) {
    View v = View::dense(nullptr, word, {items}, components, 1, device::lwe_words(dimension));
    v.limb_stride += gap;
    v.component_stride = v.limb_stride;
    v.stride[0] = components * v.component_stride + gap;
    const std::size_t bytes = (items * v.stride[0] + v.n) * v.word_size();
    kept_.push_back(device_->allocate(bytes, *queue_));
    v.data = kept_.back()->address();
    std::memset(v.data, 0, bytes);
    return v;
  }

 private:
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Queue> queue_;
  std::vector<device::Buffer> kept_;
};

template <class T>
void fill(const View& v, std::size_t dimension, u64 seed) {
  std::mt19937_64 random(seed);
  for (std::size_t item = 0; item < v.items(); ++item) {
    for (std::size_t c = 0; c < v.components; ++c) {
      for (std::size_t i = 0; i <= dimension; ++i) v.at<T>(item, c, 0)[i] = static_cast<T>(random());
    }
  }
}

template <class T>
std::vector<T> words(const View& v, std::size_t dimension) {
  std::vector<T> all;
  for (std::size_t item = 0; item < v.items(); ++item) {
    for (std::size_t c = 0; c < v.components; ++c) {
      all.insert(all.end(), v.at<T>(item, c, 0), v.at<T>(item, c, 0) + dimension + 1);
    }
  }
  return all;
}

template <class T>
std::vector<T> random_words(std::size_t count, u64 seed) {
  std::mt19937_64 random(seed);
  std::vector<T> all(count);
  for (T& x : all) x = static_cast<T>(random());
  return all;
}

/// Returns a layer whose rows have no term, one, two and many terms; the layer reads wires [0, wires) and writes the
/// following wires.
GateLayer linear_layer(std::size_t rows, u32 wires, u64 seed) {
  std::mt19937_64 random(seed);
  GateLayer layer;
  layer.first.push_back(0);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t terms = r % 5 == 4 ? 20 : r % 4;
    for (std::size_t t = 0; t < terms; ++t) {
      layer.source.push_back(static_cast<u32>(random() % wires));
      layer.weight.push_back(t == 0 && r % 3 == 0 ? INT32_MIN : static_cast<std::int32_t>(random() % 17) - 8);
    }
    layer.first.push_back(static_cast<u32>(layer.source.size()));
    layer.constant.push_back(random());
    layer.target.push_back(wires + static_cast<u32>((r * 3 + 1) % rows));
  }
  return layer;
}

/// Returns the layer with tables: row r uses table r % luts.
GateLayer with_tables(GateLayer layer, std::size_t degree, std::size_t luts, unsigned outputs, u64 seed) {
  const std::size_t rows = layer.rows();
  u32 first = ~u32{0};
  for (u32 w : layer.target) first = std::min(first, w);
  layer.outputs = outputs;
  layer.degree = degree;
  layer.tables = random_words<u64>(luts * degree, seed);
  layer.target.clear();
  for (std::size_t r = 0; r < rows; ++r) {
    layer.lut.push_back(static_cast<u32>(r % luts));
    for (unsigned o = 0; o < outputs; ++o) layer.target.push_back(first + static_cast<u32>((r + 1) % rows * outputs + o));
  }
  return layer;
}

/// A bootstrapping key without noise, and its secrets.
struct Keys {
  BootstrapShape shape;
  std::vector<u32> narrow;  // key bits (0 or 1)
  std::vector<u64> wide;    // key bits (0 or 1)
  std::vector<u64> words;

  Keys(const BootstrapShape& s, u64 seed) : shape(s), words(s.words()) {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < s.n; ++i) narrow.push_back(random() & 1);
    for (std::size_t i = 0; i < s.wide(); ++i) wide.push_back(random() & 1);
    u64* row = words.data();
    for (std::size_t g = 0; g < s.groups(); ++g) {
      for (std::size_t value = 0; value < s.values(); ++value) {
        std::size_t real = 0;
        for (std::size_t j = 0; j < s.group; ++j) real |= std::size_t{narrow[g * s.group + j]} << j;
        for (std::size_t r = 0; r < s.rows(); ++r, row += (s.k + 1) * s.degree) {
          encrypt_zero(row, random);
          const unsigned digit = static_cast<unsigned>(r % s.gadget.length);
          if (value == real) row[r / s.gadget.length * s.degree] += u64{1} << (64 - s.gadget.log_base * (digit + 1));
        }
      }
    }
  }

  void encrypt_zero(u64* row, std::mt19937_64& random) const {
    const std::size_t n = shape.degree;
    u64* const body = row + shape.k * n;
    for (std::size_t c = 0; c < shape.k; ++c) {
      u64* const mask = row + c * n;
      for (std::size_t i = 0; i < n; ++i) mask[i] = random();
      for (std::size_t i = 0; i < n; ++i) {
        if (wide[c * n + i] == 0) continue;
        for (std::size_t j = 0; j < n - i; ++j) body[i + j] += mask[j];
        for (std::size_t j = n - i; j < n; ++j) body[i + j - n] -= mask[j];
      }
    }
  }

  u64 phase(const u64* lwe) const {
    u64 sum = lwe[wide.size()];
    for (std::size_t i = 0; i < wide.size(); ++i) sum -= lwe[i] * wide[i];
    return sum;
  }

  /// Returns the expected phase of output o of a bootstrap of `in` without noise.
  u64 expected(const u32* in, const u64* table, unsigned o, unsigned outputs) const {
    const std::size_t n = shape.degree;
    std::vector<u32> e(shape.n + 1);
    device::switch_modulus({in, shape.n + 1}, static_cast<unsigned>(std::countr_zero(2 * n)), e);
    std::size_t at = e[shape.n] + o * n / outputs;
    for (std::size_t i = 0; i < shape.n; ++i) at += (2 * n - e[i]) * narrow[i];
    at %= 2 * n;
    return at < n ? table[at] : u64{0} - table[at - n];
  }

  /// Returns a bound of the standard deviation of the gadget's rounding over a blind rotation, in words, with room for the
  /// rounding of the FFT.
  double deviation() const {
    const double kept = std::ldexp(1.0, 64 - static_cast<int>(shape.gadget.log_base * shape.gadget.length));
    const double rounding = static_cast<double>(shape.wide()) / 2 + 1, groups = static_cast<double>(shape.groups());
    const double base = std::ldexp(1.0, static_cast<int>(shape.gadget.log_base) - 1);
    const double products = static_cast<double>(shape.rows() * shape.values() * shape.degree);
    const double transform = std::ldexp(base, 64 - 53) * std::sqrt(products * rounding);
    return std::sqrt(groups * (kept * kept * rounding / 12 + transform * transform));
  }
};

double distance(u64 a, u64 b) { return std::abs(static_cast<double>(static_cast<i64>(a - b))); }

// ---- Exact kernels

TEST(TfheKernels, CombineHasTheBitsOfRef) {
  for (const std::size_t dimension : {256u, 1536u}) {
    for (const std::size_t items : {1u, 3u}) {
      const GateLayer layer = linear_layer(7, 5, 1);
      const auto run = [&](const std::string& name) {
        Rig rig(name);
        const View wires = rig.view(Word::w64, items, layer.wires(), dimension);
        fill<u64>(wires, dimension, 2);
        rig.queue().enqueue(device::Combine{rig.kernels().prepare(layer), wires});
        return words<u64>(wires, dimension);
      };
      const auto expected = run("ref");
      for (const std::string& name : processor_devices()) EXPECT_EQ(run(name), expected) << name;
    }
  }
}

TEST(TfheKernels, CombineFollowsItsDefinition) {
  Rig rig("ref");
  GateLayer layer;
  layer.first = {0, 2};
  layer.source = {1, 0};
  layer.weight = {-3, 2};
  layer.constant = {u64{1} << 61};
  layer.target = {2};
  const View wires = rig.view(Word::w64, 2, 3, 256);
  fill<u64>(wires, 256, 3);
  rig.queue().enqueue(device::Combine{rig.kernels().prepare(layer), wires});
  for (std::size_t item = 0; item < 2; ++item) {
    const u64 *a = wires.at<u64>(item, 0, 0), *b = wires.at<u64>(item, 1, 0), *sum = wires.at<u64>(item, 2, 0);
    for (std::size_t i = 0; i < 256; ++i) ASSERT_EQ(sum[i], 2 * a[i] - 3 * b[i]);
    EXPECT_EQ(sum[256], 2 * a[256] - 3 * b[256] + (u64{1} << 61));
  }
}

TEST(TfheKernels, KeySwitchHasTheBitsOfRef) {
  const KeySwitchShape shapes[] = {
      {256, 100, {2, 6}}, {512, 63, {4, 4}}, {256, 64, {8, 4}}, {768, 200, {1, 16}}, {300 * 2, 130, {3, 1}}};
  for (KeySwitchShape shape : shapes) {
    shape.from = shape.from / 64 * 64;
    const auto key = random_words<u32>(shape.words(), 4);
    for (const std::size_t items : {1u, 2u, 5u}) {
      for (const std::size_t rows : {1u, 3u, 13u}) {
        const GateLayer layer = with_tables(linear_layer(rows, 2, 5), 256, 1, rows == 3 ? 2 : 1, 6);
        const auto run = [&](std::unique_ptr<device::Device> device) {
          Rig rig(std::move(device));
          const View wires = rig.view(Word::w64, items, layer.wires() + 1, shape.from);
          const View narrow = rig.view(Word::w32, items, rows + 1, shape.to);
          fill<u64>(wires, shape.from, 7);
          const auto prepared = rig.kernels().prepare(shape, key);
          rig.queue().enqueue(device::LweKeySwitch{prepared, rig.kernels().prepare(layer), wires, narrow});
          return words<u32>(narrow, shape.to);
        };
        const auto expected = run(device::open_device("ref"));
        for (const std::string& name : processor_devices()) {
          for (const int threads : {1, 2, 5}) {
            EXPECT_EQ(run(backend::cpu::make_device(name.substr(4), threads)), expected)
                << name << ", " << threads << " threads, " << items << " items, " << rows << " rows, " << shape.from;
          }
        }
      }
    }
  }
}

TEST(TfheKernels, KeySwitchKeepsThePhase) {
  const KeySwitchShape shape{512, 40, {4, 4}};
  std::mt19937_64 random(8);
  std::vector<u32> narrow_key(shape.to), wide_key(shape.from), key(shape.words());
  for (u32& s : narrow_key) s = random() & 1;
  for (u32& s : wide_key) s = random() & 1;
  const auto phase = [&](const u32* lwe) {
    u32 sum = lwe[shape.to];
    for (std::size_t j = 0; j < shape.to; ++j) sum -= lwe[j] * narrow_key[j];
    return sum;
  };
  for (std::size_t i = 0; i < shape.from; ++i) {
    for (unsigned l = 0; l < shape.gadget.length; ++l) {
      u32* const row = key.data() + (i * shape.gadget.length + l) * (shape.to + 1);
      for (std::size_t j = 0; j < shape.to; ++j) row[j] = static_cast<u32>(random());
      row[shape.to] = 0;
      row[shape.to] = wide_key[i] * (u32{1} << (32 - shape.gadget.log_base * (l + 1))) - phase(row);
    }
  }
  for (const std::string& name : {std::string("ref"), std::string("cpu")}) {
    Rig rig(name);
    const GateLayer layer = linear_layer(1, 1, 9);
    const View wires = rig.view(Word::w64, 1, 2, shape.from), narrow = rig.view(Word::w32, 1, 1, shape.to);
    fill<u64>(wires, shape.from, 10);
    rig.queue().enqueue(
        device::LweKeySwitch{rig.kernels().prepare(shape, key), rig.kernels().prepare(layer), wires, narrow});
    u64 before = wires.at<u64>(0, 1, 0)[shape.from];
    for (std::size_t i = 0; i < shape.from; ++i) before -= wires.at<u64>(0, 1, 0)[i] * wide_key[i];
    const double off = distance(before, u64{phase(narrow.at<u32>(0, 0, 0))} << 32);
    EXPECT_LT(off, std::ldexp(8 * std::sqrt(512 / 2 / 12.0), 64 - 16)) << name;
  }
}

// ---- Bootstraps

struct Case {
  BootstrapShape shape;
  unsigned outputs;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  const BootstrapShape& s = c.shape;
  return out << "n" << s.n << "_k" << s.k << "_N" << s.degree << "_base" << s.gadget.log_base << "x" << s.gadget.length
             << "_group" << s.group << "_outputs" << c.outputs;
}

class TfheBootstrap : public testing::TestWithParam<Case> {};

TEST_P(TfheBootstrap, GivesTheTablesValueAtThePhase) {
  const BootstrapShape shape = GetParam().shape;
  const unsigned outputs = GetParam().outputs;
  const Keys keys(shape, 11);
  constexpr std::size_t kItems = 2, kRows = 3;
  const GateLayer layer = with_tables(linear_layer(kRows, 2, 12), shape.degree, 2, outputs, 13);
  std::vector<std::string> names = processor_devices();
  if (shape.degree <= 512) names.push_back("ref");
  for (const std::string& name : names) {
    Rig rig(name);
    const View wires = rig.view(Word::w64, kItems, layer.wires(), shape.wide());
    const View narrow = rig.view(Word::w32, kItems, kRows, shape.n);
    fill<u32>(narrow, shape.n, 14);
    rig.queue().enqueue(
        device::Bootstrap{rig.kernels().prepare(shape, keys.words), rig.kernels().prepare(layer), narrow, wires});
    double squares = 0;
    for (std::size_t item = 0; item < kItems; ++item) {
      for (std::size_t row = 0; row < kRows; ++row) {
        for (unsigned o = 0; o < outputs; ++o) {
          const u64 expected =
              keys.expected(narrow.at<u32>(item, row, 0), layer.tables.data() + layer.lut[row] * shape.degree, o, outputs);
          const u64 phase = keys.phase(wires.at<u64>(item, layer.target[row * outputs + o], 0));
          const double off = distance(phase, expected) / keys.deviation();
          EXPECT_LT(off, 6) << name << " item " << item << " row " << row << " output " << o;
          squares += off * off;
        }
      }
    }
    // If the gadget rounds, a too small error is also a failure.
    if (shape.gadget.log_base * shape.gadget.length <= 24 && shape.groups() > 1) {
      EXPECT_GT(squares / static_cast<double>(kItems * kRows * outputs), 0.01) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, TfheBootstrap,
                         testing::Values(Case{{4, 1, 256, {8, 3}, 1}, 1}, Case{{6, 1, 512, {12, 2}, 2}, 2},
                                         Case{{6, 2, 256, {20, 1}, 3}, 4}, Case{{8, 3, 512, {17, 1}, 2}, 2},
                                         Case{{8, 1, 1024, {23, 1}, 4}, 1}, Case{{4, 1, 2048, {23, 1}, 2}, 8},
                                         Case{{2, 4, 256, {10, 2}, 2}, 1}, Case{{3, 2, 1024, {7, 3}, 1}, 2},
                                         Case{{2, 1, 4096, {22, 1}, 2}, 1}, Case{{3, 5, 256, {18, 1}, 3}, 1},
                                         Case{{4, 6, 256, {9, 2}, 4}, 8}, Case{{6, 3, 256, {15, 2}, 3}, 1}),
                         [](const auto& info) {
                           std::ostringstream name;
                           name << info.param;
                           return name.str();
                         });

TEST(TfheKernels, BootstrapsAgreeWithRef) {
  const BootstrapShape shape{12, 2, 256, {11, 2}, 2};
  const Keys keys(shape, 15);
  const GateLayer layer = with_tables(linear_layer(3, 2, 16), shape.degree, 1, 2, 17);
  const auto run = [&](const std::string& name) {
    Rig rig(name);
    const View wires = rig.view(Word::w64, 3, layer.wires(), shape.wide()), narrow = rig.view(Word::w32, 3, 3, shape.n);
    fill<u32>(narrow, shape.n, 18);
    rig.queue().enqueue(
        device::Bootstrap{rig.kernels().prepare(shape, keys.words), rig.kernels().prepare(layer), narrow, wires});
    std::vector<u64> phases;
    for (std::size_t item = 0; item < 3; ++item) {
      for (u32 w : layer.target) phases.push_back(keys.phase(wires.at<u64>(item, w, 0)));
    }
    return phases;
  };
  const auto expected = run("ref");
  for (const std::string& name : processor_devices()) {
    const auto found = run(name);
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_LT(distance(found[i], expected[i]), 8 * keys.deviation()) << name;
  }
}

/// With one instruction set, a batch has the same bits for any number of threads and any split of the batch.
TEST(TfheKernels, BitsDoNotDependOnBatchOrThreads) {
  const BootstrapShape shape{8, 1, 512, {13, 2}, 2};
  const Keys keys(shape, 19);
  constexpr std::size_t kItems = 37;
  const GateLayer layer = with_tables(linear_layer(1, 1, 20), shape.degree, 1, 1, 21);
  for (const std::string& name : processor_devices()) {
    const auto run = [&](int threads, std::size_t at_once) {
      Rig rig(backend::cpu::make_device(name.substr(4), threads));
      const View wires = rig.view(Word::w64, kItems, layer.wires(), shape.wide());
      const View narrow = rig.view(Word::w32, kItems, 1, shape.n);
      fill<u32>(narrow, shape.n, 22);
      const auto key = rig.kernels().prepare(shape, keys.words);
      const auto prepared = rig.kernels().prepare(layer);
      for (std::size_t i = 0; i < kItems; i += at_once) {
        const std::size_t count = std::min(at_once, kItems - i);
        rig.queue().enqueue(device::Bootstrap{key, prepared, narrow.with_leading(i, count), wires.with_leading(i, count)});
      }
      return words<u64>(wires, shape.wide());
    };
    const auto once = run(1, kItems);
    EXPECT_EQ(run(1, kItems), once) << name;
    EXPECT_EQ(run(2, kItems), once) << name;
    EXPECT_EQ(run(3, 5), once) << name;
    EXPECT_EQ(run(1, 1), once) << name;
  }
}

/// Gives some rows the mask of the previous row, as in bootstraps of the same combination.
template <class T>
void repeat_masks(const View& v, std::size_t dimension, const std::vector<u32>& components,
                  const std::vector<bool>& repeats) {
  for (std::size_t item = 0; item < v.items(); ++item) {
    for (std::size_t r = 1; r < components.size(); ++r) {
      if (repeats[r]) std::copy_n(v.at<T>(item, components[r - 1], 0), dimension, v.at<T>(item, components[r], 0));
    }
  }
}
const std::vector<bool> kRepeats{false, true, false, true, true, false, true};

TEST(TfheKernels, RowsWithTheSameMaskBootstrapAsTheyDoAlone) {
  for (const BootstrapShape& shape : {BootstrapShape{8, 3, 256, {16, 1}, 2}, BootstrapShape{6, 1, 512, {10, 2}, 3},
                                      BootstrapShape{4, 6, 256, {9, 2}, 1}}) {
    const Keys keys(shape, 33);
    const std::size_t rows = kRepeats.size();
    const GateLayer layer = with_tables(linear_layer(rows, 1, 34), shape.degree, 3, 2, 35);
    for (const std::string& name : processor_devices()) {
      const auto run = [&](int threads, bool alone) {
        Rig rig(backend::cpu::make_device(name.substr(4), threads));
        const View wires = rig.view(Word::w64, 3, layer.wires(), shape.wide());
        const View narrow = rig.view(Word::w32, 3, rows, shape.n);
        fill<u32>(narrow, shape.n, 36);
        repeat_masks<u32>(narrow, shape.n, {0, 1, 2, 3, 4, 5, 6}, kRepeats);
        const auto key = rig.kernels().prepare(shape, keys.words);
        for (std::size_t r = 0; r < (alone ? rows : 1); ++r) {
          GateLayer part = layer;
          if (alone) {
            part.first = {0, 0}, part.source = {}, part.weight = {}, part.constant = {0}, part.lut = {layer.lut[r]};
            part.target = {layer.target[2 * r], layer.target[2 * r + 1]};
          }
          const View own = alone ? narrow.with_components(r, 1) : narrow;
          rig.queue().enqueue(device::Bootstrap{key, rig.kernels().prepare(part), own, wires});
        }
        return words<u64>(wires, shape.wide());
      };
      const auto alone = run(1, true);
      for (const int threads : {1, 2, 5}) EXPECT_EQ(run(threads, false), alone) << name << ", " << threads << " threads";
    }
  }
}

TEST(TfheKernels, RowsWithTheSameMaskKeySwitchAsRefDoes) {
  const KeySwitchShape shape{256, 100, {2, 6}};
  const auto key = random_words<u32>(shape.words(), 37);
  const GateLayer layer = with_tables(linear_layer(kRepeats.size(), 2, 38), 256, 1, 2, 39);
  std::vector<u32> heads;
  for (std::size_t r = 0; r < layer.rows(); ++r) heads.push_back(layer.target[2 * r]);
  const auto run = [&](std::unique_ptr<device::Device> device) {
    Rig rig(std::move(device));
    const View wires = rig.view(Word::w64, 3, layer.wires(), shape.from), narrow = rig.view(Word::w32, 3, 8, shape.to);
    fill<u64>(wires, shape.from, 40);
    repeat_masks<u64>(wires, shape.from, heads, kRepeats);
    rig.queue().enqueue(
        device::LweKeySwitch{rig.kernels().prepare(shape, key), rig.kernels().prepare(layer), wires, narrow});
    return words<u32>(narrow, shape.to);
  };
  const auto expected = run(device::open_device("ref"));
  for (const std::string& name : processor_devices()) {
    for (const int threads : {1, 2, 5, 40})
      EXPECT_EQ(run(backend::cpu::make_device(name.substr(4), threads)), expected) << name;
  }
}

TEST(TfheKernels, OneCiphertextIsBroadcastToManyItems) {
  const BootstrapShape shape{4, 1, 256, {11, 2}, 2};
  const Keys keys(shape, 23);
  const GateLayer layer = with_tables(linear_layer(2, 1, 24), shape.degree, 2, 1, 25);
  for (const char* name : {"ref", "cpu"}) {
    Rig rig(name);
    const View wires = rig.view(Word::w64, 3, layer.wires(), shape.wide());
    View narrow = rig.view(Word::w32, 1, 2, shape.n);
    fill<u32>(narrow, shape.n, 26);
    narrow.shape[0] = 3, narrow.stride[0] = 0;
    rig.queue().enqueue(
        device::Bootstrap{rig.kernels().prepare(shape, keys.words), rig.kernels().prepare(layer), narrow, wires});
    for (std::size_t item = 0; item < 3; ++item) {
      for (std::size_t row = 0; row < 2; ++row) {
        const u64 expected = keys.expected(narrow.at<u32>(0, row, 0), layer.tables.data() + layer.lut[row] * 256, 0, 1);
        EXPECT_LT(distance(keys.phase(wires.at<u64>(item, layer.target[row], 0)), expected), 6 * keys.deviation()) << name;
      }
    }
  }
}

TEST(TfheKernels, EvaluateEqualsItsParts) {
  const BootstrapShape shape{6, 1, 256, {11, 2}, 2};
  const KeySwitchShape switch_shape{256, 6, {4, 4}};
  const Keys keys(shape, 27);
  const auto switch_key = random_words<u32>(switch_shape.words(), 28);
  const GateLayer layer = with_tables(linear_layer(4, 3, 29), 256, 2, 2, 30);
  Rig rig("cpu");
  device::TfheKernels& k = rig.kernels();
  const auto bootstrap = k.prepare(shape, keys.words);
  const auto key_switch = k.prepare(switch_shape, switch_key);
  const auto prepared = k.prepare(layer);
  const View a = rig.view(Word::w64, 2, layer.wires(), 256), b = rig.view(Word::w64, 2, layer.wires(), 256);
  const View narrow = rig.view(Word::w32, 2, 4, 6);
  fill<u64>(a, 256, 31), fill<u64>(b, 256, 31);
  rig.queue().enqueue(device::Combine{prepared, a});
  rig.queue().enqueue(device::LweKeySwitch{key_switch, prepared, a, narrow});
  rig.queue().enqueue(device::Bootstrap{bootstrap, prepared, narrow, a});
  rig.queue().enqueue(device::Evaluate{key_switch, bootstrap, prepared, b, narrow});
  EXPECT_EQ(words<u64>(a, 256), words<u64>(b, 256));
  EXPECT_GE(k.parallel_bootstraps(shape), 1u);
}

// ---- Arithmetic of the contract

TEST(TfheKernels, DigitsRecomposeToTheRoundedWord) {
  std::mt19937_64 random(32);
  for (const Gadget g :
       {Gadget{17, 1}, Gadget{23, 1}, Gadget{8, 3}, Gadget{2, 6}, Gadget{4, 4}, Gadget{21, 3}, Gadget{1, 16}}) {
    const unsigned kept = g.log_base * g.length;
    const i64 half = i64{1} << (g.log_base - 1);
    for (int i = 0; i < 1000; ++i) {
      const u64 word = i == 0 ? 0 : i == 1 ? ~u64{0} : i == 2 ? u64{1} << 63 : random();
      u64 sum = 0;
      for (unsigned l = 0; l < g.length; ++l) {
        const i64 digit = gadget_digit(word, g, l);
        ASSERT_GE(digit, -half);
        ASSERT_LT(digit, half);
        sum += static_cast<u64>(digit) << (64 - g.log_base * (l + 1));
      }
      ASSERT_LE(distance(sum, word), std::ldexp(1.0, 63 - static_cast<int>(kept))) << word;
    }
  }
}

TEST(TfheKernels, ModulusSwitchSubtractsTheExpectedRounding) {
  std::mt19937_64 random(33);
  constexpr std::size_t kN = 600;
  constexpr unsigned kLog = 11;
  double plain = 0, mitigated = 0;
  for (int run = 0; run < 400; ++run) {
    std::vector<u32> in(kN + 1), out(kN + 1);
    for (u32& x : in) x = static_cast<u32>(random());
    device::switch_modulus(in, kLog, out);
    double drift = 0, off = 0;
    for (std::size_t i = 0; i <= kN; ++i) {
      ASSERT_LT(out[i], u32{1} << kLog);
      const double error = static_cast<std::int32_t>(in[i] - (out[i] << (32 - kLog)));
      const u64 bit = i == kN ? 0 : random() & 1;
      off += i == kN ? error : -error * static_cast<double>(bit);
      drift += i == kN ? 0 : -error * static_cast<double>(bit);
    }
    plain += drift * drift, mitigated += off * off;
  }
  EXPECT_LT(mitigated, 0.6 * plain);  // expected: 1/2, the variance of a key bit divided by its mean square
}

TEST(TfheKernels, NullCountsBytesAndProducts) {
  const auto device = device::open_device("null");
  const auto queue = device->make_queue();
  device::TfheKernels& k = device->tfhe();
  const BootstrapShape shape{6, 2, 256, {11, 2}, 2};
  const KeySwitchShape switch_shape{512, 6, {4, 4}};
  const GateLayer layer = with_tables(linear_layer(4, 3, 39), 256, 2, 2, 40);
  const View wires = View::dense(nullptr, Word::w64, {5}, layer.wires(), 1, device::lwe_words(512));
  const View narrow = View::dense(nullptr, Word::w32, {5}, 4, 1, device::lwe_words(6));
  queue->enqueue(device::Evaluate{k.prepare(switch_shape, std::vector<u32>(switch_shape.words())),
                                  k.prepare(shape, std::vector<u64>(shape.words())), k.prepare(layer), wires, narrow});
  const auto counts = device->counter()->counts();
  ASSERT_EQ(counts.size(), 3u);
  EXPECT_EQ(counts.at("combine").products, 5 * layer.source.size() * 513);
  EXPECT_EQ(counts.at("combine").bytes_written, 5u * 4 * 513 * 8);
  EXPECT_EQ(counts.at("lwe_key_switch").products, 20u * 512 * 4 * 7);
  EXPECT_EQ(counts.at("lwe_key_switch").bytes_read, 20u * 513 * 8 + 512 * 4 * 7 * 4);
  EXPECT_EQ(counts.at("lwe_key_switch").bytes_written, 20u * 7 * 4);
  EXPECT_EQ(counts.at("bootstrap").products, 20u * 3 * ((6 * 3 * 4 + 3) * 4 * 128 + (6 + 3) * 2 * 128 * 7));
  EXPECT_EQ(counts.at("bootstrap").bytes_read, 20u * 7 * 4 + (3 * 4 * 6 * 3 * 256 + 2 * 256) * 8);
  EXPECT_EQ(counts.at("bootstrap").bytes_written, 40u * 513 * 8);
}

// ---- Errors

TEST(TfheKernels, RefusesWhatDoesNotFit) {
  const BootstrapShape shape{4, 1, 256, {11, 2}, 2};
  const KeySwitchShape switch_shape{256, 4, {4, 4}};
  const GateLayer layer = with_tables(linear_layer(2, 1, 34), 256, 1, 1, 35);
  for (const char* name : {"ref", "cpu", "null"}) {
    const auto device = device::open_device(name);
    const auto queue = device->make_queue();
    device::TfheKernels& k = device->tfhe();
    const auto bad = [&](BootstrapShape s) { EXPECT_THROW(k.prepare(s, std::vector<u64>(8)), ShapeError) << name; };
    bad(shape);  // the key has another size
    bad({4, 1, 300, {11, 2}, 2}), bad({4, 7, 256, {11, 1}, 2}), bad({5, 1, 256, {11, 2}, 2}), bad({4, 1, 256, {11, 9}, 2});
    bad({4, 1, 256, {11, 2}, 5}), bad({4, 1, 256, {32, 2}, 2});
    EXPECT_THROW(k.prepare(switch_shape, std::vector<u32>(8)), ShapeError) << name;
    EXPECT_THROW(k.prepare(KeySwitchShape{256, 4, {9, 2}}, std::vector<u32>(8)), ShapeError) << name;
    GateLayer broken = layer;
    broken.lut[1] = 1;
    EXPECT_THROW(k.prepare(broken), ShapeError) << name;
    broken = layer;
    broken.target[1] = broken.target[0];
    EXPECT_THROW(k.prepare(broken), ShapeError) << name;

    const auto bootstrap = k.prepare(shape, std::vector<u64>(shape.words()));
    const auto key_switch = k.prepare(switch_shape, std::vector<u32>(switch_shape.words()));
    const auto prepared = k.prepare(layer);
    const auto view = [](Word word, std::size_t items, std::size_t components, std::size_t dimension) {
      return View::dense(nullptr, word, {items}, components, 1, device::lwe_words(dimension));
    };
    const View wires = view(Word::w64, 2, 3, 256), narrow = view(Word::w32, 2, 2, 4);
    EXPECT_THROW(queue->enqueue(device::Combine{prepared, view(Word::w64, 2, 2, 256)}), ShapeError);
    EXPECT_THROW(queue->enqueue(device::Combine{prepared, view(Word::w32, 2, 3, 256)}), ShapeError);
    EXPECT_THROW(queue->enqueue(device::LweKeySwitch{key_switch, prepared, wires, view(Word::w32, 1, 2, 4)}), ShapeError);
    EXPECT_THROW(queue->enqueue(device::LweKeySwitch{key_switch, prepared, wires, view(Word::w32, 2, 1, 4)}), ShapeError);
    EXPECT_THROW(queue->enqueue(device::Bootstrap{bootstrap, prepared, narrow, view(Word::w64, 2, 3, 512)}), ShapeError);
    EXPECT_THROW(queue->enqueue(device::Bootstrap{bootstrap, prepared, view(Word::w32, 2, 2, 64), wires}), ShapeError);
    EXPECT_THROW(queue->enqueue(device::Bootstrap{bootstrap, k.prepare(linear_layer(2, 1, 36)), narrow, wires}), ShapeError);
  }
}

TEST(TfheKernels, RefusesKeysOfAnotherDevice) {
  const BootstrapShape shape{2, 1, 256, {11, 2}, 2};
  const KeySwitchShape switch_shape{256, 2, {4, 4}};
  const GateLayer layer = with_tables(linear_layer(1, 1, 37), 256, 1, 1, 38);
  Rig cpu("cpu"), ref("ref");
  for (auto [own, other] : {std::pair{&cpu, &ref}, std::pair{&ref, &cpu}}) {
    const View wires = own->view(Word::w64, 1, 2, 256), narrow = own->view(Word::w32, 1, 1, 2);
    const auto bootstrap = other->kernels().prepare(shape, std::vector<u64>(shape.words()));
    const auto key_switch = other->kernels().prepare(switch_shape, std::vector<u32>(switch_shape.words()));
    const auto prepared = own->kernels().prepare(layer);
    EXPECT_THROW(own->queue().enqueue(device::Bootstrap{bootstrap, prepared, narrow, wires}), MismatchError);
    EXPECT_THROW(own->queue().enqueue(device::LweKeySwitch{key_switch, prepared, wires, narrow}), MismatchError);
  }
}

}  // namespace
}  // namespace heliograph
