// TFHE on a GPU: combine and key switch have the bits of the cpu backend. Bootstraps give correct values and no more noise
// than on the CPU. All kernels that a batch size or key shape selects are tested.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "device/kernels.h"
#include "schemes/tfhe/run.h"

namespace heliograph::tfhe {
namespace {

using device::u32;
using device::u64;
using device::View;

std::string gpu() {
  for (const std::string& name : device::found_devices()) {
    if (name != "cpu") return name;
  }
  return "";
}

class GpuTfhe : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu().empty()) GTEST_SKIP() << "no GPU";
  }
};

/// Returns the words of all ciphertexts after a key switch on this device.
std::vector<u32> switched(const std::string& name, const device::KeySwitchShape& shape, std::size_t items,
                          std::size_t rows) {
  const auto device = device::open_device(name);
  const auto queue = device->make_queue();
  std::mt19937_64 random(7);
  std::vector<u32> key(shape.words());
  for (u32& w : key) w = static_cast<u32>(random());
  device::GateLayer layer{.first = {0}, .tables = std::vector<u64>(256), .degree = 256};
  const std::size_t inputs = 3;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t w = 0; w < inputs; ++w) {
      layer.source.push_back(static_cast<u32>(w));
      layer.weight.push_back(static_cast<std::int32_t>(random() % 9) - 4);
    }
    layer.first.push_back(static_cast<u32>(layer.source.size()));
    layer.constant.push_back(random());
    layer.lut.push_back(0);
    layer.target.push_back(static_cast<u32>(inputs + rows - 1 - r));
  }
  auto& kernels = device->tfhe();
  const auto prepared = kernels.prepare(shape, key);
  const auto gates = kernels.prepare(layer);
  View wires = View::dense(nullptr, math::Word::w64, {items}, inputs + rows, 1, device::lwe_words(shape.from));
  View narrow = View::dense(nullptr, math::Word::w32, {items}, rows, 1, device::lwe_words(shape.to));
  const auto wide_memory = device->allocate(wires, {}, *queue), narrow_memory = device->allocate(narrow, {}, *queue);
  wires.data = wide_memory->address(), narrow.data = narrow_memory->address();
  std::vector<u64> words(wires.words());
  for (u64& w : words) w = random();
  device->upload(*queue, std::as_bytes(std::span(words)), wires.data);
  queue->enqueue(device::Combine{gates, wires});
  queue->enqueue(device::LweKeySwitch{prepared, gates, wires, narrow});
  std::vector<u32> out(narrow.words());
  device->download(*queue, narrow.data, std::as_writable_bytes(std::span(out)));
  std::vector<u32> kept;
  for (std::size_t i = 0; i < items * rows; ++i)
    kept.insert(kept.end(), out.begin() + static_cast<std::ptrdiff_t>(i * narrow.n),
                out.begin() + static_cast<std::ptrdiff_t>(i * narrow.n + shape.to + 1));
  return kept;
}

TEST_F(GpuTfhe, CombineAndKeySwitchHaveTheBitsOfTheProcessor) {
  const device::KeySwitchShape shapes[] = {
      {.from = 256, .to = 48, .gadget = {4, 4}},   {.from = 1536, .to = 688, .gadget = {2, 6}},
      {.from = 2048, .to = 920, .gadget = {4, 4}}, {.from = 512, .to = 31, .gadget = {8, 1}},
      {.from = 512, .to = 96, .gadget = {2, 16}},  {.from = 2048, .to = 880, .gadget = {5, 3}}};
  for (const auto& shape : shapes) {
    for (const auto& [items, rows] : {std::pair<std::size_t, std::size_t>{1, 1}, {3, 3}, {1, 33}, {7, 19}, {129, 2}})
      EXPECT_EQ(switched(gpu(), shape, items, rows), switched("cpu", shape, items, rows))
          << shape.from << " to " << shape.to << ", " << items << " x " << rows;
  }
}

/// Returns a circuit of a NAND b and of a bootstrap whose result is always true.
std::shared_ptr<const Circuit> nand() {
  constexpr u64 kEighth = u64{1} << 61;
  auto c = std::make_shared<Circuit>();
  c->inputs = 2, c->wires = 6;
  c->tables = {{{kEighth}}};
  c->layers.resize(2);
  c->layers[0].push_back({{{{0, -1}, {1, -1}}, kEighth}, 0, 1, 2});
  c->layers[0].push_back({{{{0, 1}, {1, 1}}, 0 - kEighth}, 0, 2, 3});  // results: and, or
  c->layers[1].push_back({{{{3, 2}, {2, 2}}, 2 * kEighth}, 0, 1, 5});  // (a and b) xor (a nand b) is always true
  c->outputs = {{{{2, 1}}, 0}, {{{3, 1}}, 0}, {{{4, 1}}, 0}, {{{5, 1}}, 0}};
  return c;
}

struct Shape5 {
  std::size_t degree, k;
  unsigned gadget_length, log_base, group;
};

double spread(const std::vector<double>& errors) {
  double sum = 0;
  for (double e : errors) sum += e * e;
  return std::sqrt(sum / static_cast<double>(errors.size()));
}

TEST_F(GpuTfhe, BootstrapsAreRightForEveryShapeAndBatch) {
  for (const Shape5& s : {Shape5{2048, 1, 1, 23, 2},
                          {2048, 1, 1, 22, 4},
                          {512, 3, 1, 16, 2},
                          {512, 4, 1, 20, 2},
                          {1024, 1, 2, 10, 2},
                          {256, 1, 1, 18, 2},
                          {4096, 1, 1, 22, 1},
                          {512, 2, 2, 10, 3},
                          {1024, 2, 3, 8, 4},
                          {256, 6, 1, 18, 2}}) {
    const Spec spec{.n = 48,
                    .k = s.k,
                    .degree = s.degree,
                    .lwe_noise = {false, -22},
                    .glwe_noise = {false, -44},
                    .bootstrap_log_base = s.log_base,
                    .bootstrap_levels = s.gadget_length,
                    .switch_log_base = 4,
                    .switch_levels = 4,
                    .group = s.group,
                    .norm = 17,
                    .insecure = true};
    const Parameters p = Parameters(spec).on_device(gpu()), host = Parameters(spec).on_device("cpu");
    const std::string seed(32, 's');
    const SecretKey secret = SecretKey::generate_for_test(p, seed), host_secret = SecretKey::generate_for_test(host, seed);
    const EvaluationKeys keys = secret.evaluation_keys(), host_keys = host_secret.evaluation_keys();
    std::vector<double> on_gpu, on_host;
    for (std::size_t count : {1U, 2U, 5U, 60U, 70U, 140U, 301U, 1030U}) {
      if (count > 301 && s.degree != 512 && s.degree != 2048) continue;
      std::mt19937_64 random(count);
      std::vector<u64> a(count), b(count);
      for (u64& v : a) v = random() & 1;
      for (u64& v : b) v = random() & 1;
      const auto compute = [&](const Parameters& q, const SecretKey& key, const EvaluationKeys& e,
                               std::vector<double>& errors) {
        const Ciphertext x = key.encrypt(a, {count}, {}), y = key.encrypt(b, {count}, {});
        const auto out = run(e.data(), nand(), {x.data().tensor, y.data().tensor}, {1, 1, 1, 1});
        std::vector<std::vector<u64>> values;
        for (const auto& t : out) {
          const Ciphertext c = make_ciphertext(q.context(), x.data().key, {}, t);
          values.push_back(key.decrypt(c));
          const auto found = key.errors(c);
          errors.insert(errors.end(), found.begin(), found.end());
        }
        return values;
      };
      const auto got = compute(p, secret, keys, on_gpu);
      for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(got[0][i], 1 - (a[i] & b[i])) << s.degree << " " << s.k << " " << count << " " << i;
        EXPECT_EQ(got[1][i], a[i] & b[i]);
        EXPECT_EQ(got[2][i], a[i] | b[i]);
        EXPECT_EQ(got[3][i], 1u);
      }
      if (count <= 301) compute(host, host_secret, host_keys, on_host);
    }
    const double ratio = spread(on_gpu) / spread(on_host);
    EXPECT_GT(ratio, 0.9) << s.degree << " " << s.k << " " << s.gadget_length << " " << s.group;
    EXPECT_LT(ratio, 1.1) << s.degree << " " << s.k << " " << s.gadget_length << " " << s.group;
  }
}

TEST_F(GpuTfhe, NamedSetsCompute) {
  for (const char* name : {"boolean", "morshed-2020"}) {
    const Parameters p = Parameters(named_spec(name, true)).on_device(gpu());
    const SecretKey secret = SecretKey::generate(p);
    const EvaluationKeys keys = secret.evaluation_keys();
    std::vector<u64> a(3000), b(3000);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = i & 1, b[i] = i >> 1 & 1;
    const Ciphertext x = secret.encrypt(a, {a.size()}, {}), y = secret.encrypt(b, {a.size()}, {});
    const auto out = run(keys.data(), nand(), {x.data().tensor, y.data().tensor}, {1, 1, 1, 1});
    const auto values = secret.decrypt(make_ciphertext(p.context(), x.data().key, {}, out[0]));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < a.size(); ++i) wrong += values[i] != 1 - (a[i] & b[i]);
    EXPECT_LE(wrong, name == std::string("boolean") ? 0u : 3u);
  }
}

}  // namespace
}  // namespace heliograph::tfhe
