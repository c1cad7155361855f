// Times of TFHE's kernels on one device, for a set of bits and a set of digits:
//   micro_tfhe [--device cpu:avx512] [--items 1,32] [--seconds 1]
// Threads: HELIOGRAPH_THREADS. Medians of repeated calls, in milliseconds of the whole batch. Keys are random words: no time
// depends on what they say.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <sstream>

#include "device/tfhe.h"

namespace heliograph::bench {

using device::BootstrapShape;
using device::GateLevel;
using device::KeySwitchShape;
using device::View;
using math::u32;
using math::u64;
using math::Word;

struct Set {
  const char* name;
  BootstrapShape bootstrap;
  KeySwitchShape key_switch;
};

const Set kSets[] = {{"bits", {700, 3, 512, {17, 1}, 2}, {1536, 700, {2, 6}}},
                     {"digits", {920, 1, 2048, {23, 1}, 2}, {2048, 920, {4, 4}}}};

double median_ms(const std::function<void()>& call, device::Queue& queue, double seconds) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  call(), queue.wait();
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (times.size() < 3 || Clock::now() < end) {
    const auto start = Clock::now();
    call(), queue.wait();
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

template <class T>
std::vector<T> random_words(std::size_t count) {
  std::mt19937_64 random(count);
  std::vector<T> words(count);
  for (T& w : words) w = static_cast<T>(random());
  return words;
}

/// One row: wire 1 = table(wire 0).
GateLevel one_gate(std::size_t degree) {
  GateLevel level;
  level.first = {0, 1};
  level.source = {0}, level.weight = {1}, level.constant = {0}, level.lut = {0}, level.target = {1};
  level.tables = random_words<u64>(degree), level.degree = degree;
  return level;
}

View random_view(device::Device& device, device::Queue& queue, std::vector<device::Buffer>& kept, Word word,
                 std::size_t items, std::size_t components, std::size_t dimension) {
  View v = View::dense(nullptr, word, {items}, components, 1, device::lwe_words(dimension));
  const auto words = random_words<u64>(v.words() * v.word_size() / sizeof(u64) + 1);
  kept.push_back(device.allocate(v.words() * v.word_size(), queue));
  v.data = kept.back()->address();
  device.upload(queue, std::as_bytes(std::span(words)).first(v.words() * v.word_size()), v.data);
  return v;
}

void run(device::Device& device, const std::vector<std::size_t>& batches, double seconds) {
  const auto queue = device.make_queue();
  device::TfheKernels& k = device.tfhe();
  std::printf("%s\n", device.description().c_str());
  for (const Set& set : kSets) {
    const auto bootstrap = k.prepare(set.bootstrap, random_words<u64>(set.bootstrap.words()));
    const auto key_switch = k.prepare(set.key_switch, random_words<u32>(set.key_switch.words()));
    const auto level = k.prepare(one_gate(set.bootstrap.degree));
    for (const std::size_t items : batches) {
      std::vector<device::Buffer> kept;
      const View wires = random_view(device, *queue, kept, Word::w64, items, 2, set.bootstrap.wide());
      const View narrow = random_view(device, *queue, kept, Word::w32, items, 1, set.bootstrap.n);
      const double rotate = median_ms([&] { k.bootstrap(*queue, *bootstrap, *level, narrow, wires); }, *queue, seconds);
      const double change = median_ms([&] { k.key_switch(*queue, *key_switch, *level, wires, narrow); }, *queue, seconds);
      const double all =
          median_ms([&] { k.evaluate(*queue, *key_switch, *bootstrap, *level, wires, narrow); }, *queue, seconds);
      std::printf("%-7s x %-4zu bootstrap %9.3f ms, key switch %8.3f ms, whole %9.3f ms: %8.3f ms each\n", set.name, items,
                  rotate, change, all, all / static_cast<double>(items));
      std::fflush(stdout);
    }
  }
}

}  // namespace heliograph::bench

int main(int argc, char** argv) {
  std::string device = "cpu", items = "1,32";
  double seconds = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--device")) device = argv[i + 1];
    if (!std::strcmp(argv[i], "--items")) items = argv[i + 1];
    if (!std::strcmp(argv[i], "--seconds")) seconds = std::atof(argv[i + 1]);
  }
  std::vector<std::size_t> batches;
  std::stringstream list(items);
  for (std::string item; std::getline(list, item, ',');) batches.push_back(static_cast<std::size_t>(std::stoul(item)));
  heliograph::bench::run(*heliograph::device::open_device(device), batches, seconds);
  return 0;
}
