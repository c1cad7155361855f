// Times of TFHE's kernels on a device: combine, key switch and bootstrap of batches of ciphertexts.
//   tfhe_kernels --device cuda --shapes 2_2,boolean --counts 1,16,528,16384 [--seconds 0.3] [--longest 10]
// Keys and ciphertexts are random words: times do not depend on them. Prints one JSON object per line, with medians in microseconds of
// one call with the wait. Counts whose call would take longer than `longest` seconds are skipped. On the null device the
// lines have its counts in place of times. On cores (HELIOGRAPH_THREADS of them) a first line has the rates per second of
// the cores: multiply-adds of doubles and of 32-bit words in registers, and bytes read from memory.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>

#include "device/kernels.h"
#include "device/tfhe.h"
#include "tools.h"

namespace heliograph::bench {

using device::BootstrapShape;
using device::Gadget;
using device::KeySwitchShape;
using device::u32;
using device::u64;
using device::View;

struct Named {
  const char* name;
  BootstrapShape bootstrap;
  Gadget key_switch;
};
// The bases of gadgets do not affect the times.
const Named kShapes[] = {
    {"2_2", {.n = 920, .k = 1, .degree = 2048, .gadget = {23, 1}, .group = 2}, {3, 5}},
    {"2_2/latency", {.n = 920, .k = 1, .degree = 2048, .gadget = {22, 1}, .group = 4}, {3, 5}},
    {"1_1", {.n = 880, .k = 4, .degree = 512, .gadget = {23, 1}, .group = 2}, {5, 3}},
    {"boolean", {.n = 688, .k = 3, .degree = 512, .gadget = {16, 1}, .group = 2}, {2, 6}},
    {"morshed-2020", {.n = 500, .k = 1, .degree = 1024, .gadget = {10, 2}, .group = 2}, {2, 8}},
};

template <class Once>
double median_of(double seconds, Once once) {
  std::vector<double> times;
  once();
  const auto start = Clock::now();
  while (times.size() < 3 || (microseconds_since(start) < seconds * 1e6 && times.size() < 2000)) {
    const auto begin = Clock::now();
    once();
    times.push_back(microseconds_since(begin));
  }
  return median(std::move(times));
}

template <class T>
std::vector<T> random_words(std::size_t count) {
  std::mt19937_64 draw(1);
  std::vector<T> r(count);
  for (T& w : r) w = static_cast<T>(draw());
  return r;
}

// Vectors are as wide as the processor allows; the compiler flags of this file do not limit them.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define HELIOGRAPH_WIDEST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define HELIOGRAPH_WIDEST
#endif
constexpr std::size_t kSteps = 200'000, kChains = 8;  // independent chains for two units with four cycles of latency
using Doubles [[gnu::vector_size(64)]] = double;
using Words [[gnu::vector_size(64)]] = u32;

/// Computes kSteps * kChains multiply-adds of 64 bytes. The returned sum prevents the compiler from removing the
/// multiply-adds.
HELIOGRAPH_WIDEST double many_fma(double factor) {
  Doubles x[kChains], sum = {};
  for (std::size_t i = 0; i < kChains; ++i)
    x[i] = sum + static_cast<double>(i);  // different values, because the compiler would merge equal chains
  for (std::size_t s = 0; s < kSteps; ++s)
    for (Doubles& v : x) v = v * factor + 1.0;
  for (const Doubles& v : x) sum += v;
  return sum[0];
}

HELIOGRAPH_WIDEST u32 many_mac(u32 factor) {
  Words x[kChains], sum = {};
  for (std::size_t i = 0; i < kChains; ++i) x[i] = sum + static_cast<u32>(i);
  for (std::size_t s = 0; s < kSteps; ++s)
    for (Words& v : x) v = v * factor + 1;
  for (const Words& v : x) sum += v;
  return sum[0];
}

/// Reads the words once, in sequence, as a bootstrap reads its key, and returns their sum.
HELIOGRAPH_WIDEST u64 read_words(const u64* words, std::size_t count) {
  using Eight [[gnu::vector_size(64)]] = u64;
  Eight x[kChains] = {};
  for (std::size_t i = 0; i + 8 * kChains <= count; i += 8 * kChains)
    for (std::size_t c = 0; c < kChains; ++c) {
      Eight v;
      __builtin_memcpy(&v, words + i + 8 * c, sizeof v);
      x[c] ^= v;
    }
  for (std::size_t c = 1; c < kChains; ++c) x[0] ^= x[c];
  return x[0][0];
}

/// Prints the rates of all cores: multiply-adds per second, summed over threads, and bytes per second of the shared memory.
void print_rates() {
  const char* asked = std::getenv("HELIOGRAPH_THREADS");
  const std::size_t threads = asked ? std::max(1, std::atoi(asked)) : std::max(1U, std::thread::hardware_concurrency());
  volatile double factor = 0.999, double_sum = 0;
  volatile u32 odd = 0x9e3779b1U, word_sum = 0;
  const double fma_us = median_of(0.2, [&] { double_sum = many_fma(factor); });
  const double mac_us = median_of(0.2, [&] { word_sum = many_mac(odd); });
  const double vectors = 1e6 * kSteps * kChains * static_cast<double>(threads);
  // The memory is in huge pages, which are the fastest kind of pages.
  const std::size_t part = std::size_t{1} << 24, bytes = part * threads * sizeof(u64);
  const std::unique_ptr<u64, decltype(&std::free)> key(static_cast<u64*>(std::aligned_alloc(1 << 21, bytes)), &std::free);
  if (!key) throw std::bad_alloc();
  madvise(key.get(), bytes, MADV_HUGEPAGE);
  std::memset(key.get(), 1, bytes);
  std::vector<u64> sums(threads);
  const double read_us = median_of(0.3, [&] {
    std::vector<std::jthread> readers;
    for (std::size_t t = 0; t < threads; ++t)
      readers.emplace_back([&, t] { sums[t] = read_words(key.get() + t * part, part); });
  });
  std::printf("{\"fma_s\": %.4g, \"mac_s\": %.4g, \"bytes_s\": %.4g}\n", vectors * 8 / fma_us, vectors * 16 / mac_us,
              1e6 * static_cast<double>(bytes) / read_us);
}

/// Prints the null device's counts of each kernel.
void print_counts(const device::Counter& counter) {
  for (const auto& [kernel, count] : counter.counts()) {
    std::printf(", \"%s_counts\": {\"products\": %llu, \"bytes\": %llu}", kernel.c_str(),
                static_cast<unsigned long long>(count.products),
                static_cast<unsigned long long>(count.bytes_read + count.bytes_written));
  }
}

void run(device::Device& device, const Named& shape, const std::vector<std::size_t>& counts, double seconds,
         double longest) {
  const auto queue = device.make_queue();
  device::TfheKernels& kernels = device.tfhe();
  const BootstrapShape& b = shape.bootstrap;
  const KeySwitchShape s{.from = b.wide(), .to = b.n, .gadget = shape.key_switch};
  const auto start = Clock::now();
  const auto bootstrap = kernels.prepare(b, random_words<u64>(b.words()));
  const auto key_switch = kernels.prepare(s, random_words<u32>(s.words()));
  const double prepared = microseconds_since(start);
  double each_us = 0;
  for (std::size_t count : counts) {
    if (each_us * static_cast<double>(count) > longest * 1e6) break;
    // Returns a layer of gates a + b of an item's two inputs; each gate has its own result wire.
    device::GateLayer layer{.first = {0, 2},
                            .source = {0, 1},
                            .weight = {1, 1},
                            .constant = {u64{7} << 60},
                            .lut = {0},
                            .target = {2},
                            .tables = std::vector<u64>(b.degree, u64{1} << 61),
                            .degree = b.degree};
    const auto gates = kernels.prepare(layer);
    View wires = View::dense(nullptr, math::Word::w64, {count}, 3, 1, device::lwe_words(b.wide()));
    View narrow = View::dense(nullptr, math::Word::w32, {count}, 1, 1, device::lwe_words(b.n));
    const auto wide_memory = device.allocate(wires, device::PrimeList{0}, *queue);
    const auto narrow_memory = device.allocate(narrow, device::PrimeList{0}, *queue);
    wires.data = wide_memory->address(), narrow.data = narrow_memory->address();
    const std::vector<u64> inputs = random_words<u64>(wires.words());
    device.upload(*queue, std::as_bytes(std::span(inputs)), wires.data);
    if (device.counter()) {
      device.counter()->reset();
      queue->enqueue(device::Evaluate{key_switch, bootstrap, gates, wires, narrow});
      std::printf("{\"shape\": \"%s\", \"n\": %zu, \"k\": %zu, \"degree\": %zu, \"group\": %u, \"count\": %zu", shape.name,
                  b.n, b.k, b.degree, b.group, count);
      print_counts(*device.counter());
      std::printf("}\n");
      continue;
    }
    const auto time = [&](auto call) {
      return median_of(seconds, [&] {
        call();
        queue->wait();
      });
    };
    const double combine = time([&] { queue->enqueue(device::Combine{gates, wires}); });
    const double switched = time([&] { queue->enqueue(device::LweKeySwitch{key_switch, gates, wires, narrow}); });
    const double rotated = time([&] { queue->enqueue(device::Bootstrap{bootstrap, gates, narrow, wires}); });
    const double all = time([&] { queue->enqueue(device::Evaluate{key_switch, bootstrap, gates, wires, narrow}); });
    each_us = all / static_cast<double>(count);
    std::printf(
        "{\"shape\": \"%s\", \"device\": \"%s\", \"count\": %zu, \"combine_us\": %.2f, \"key_switch_us\": %.2f, "
        "\"bootstrap_us\": %.2f, \"all_us\": %.2f, \"a_second\": %.0f, \"prepare_us\": %.0f}\n",
        shape.name, device.name().c_str(), count, combine, switched, rotated, all, 1e6 / each_us, prepared);
    std::fflush(stdout);
  }
}

int run(int argc, char** argv) {
  std::string device_name = "cpu";
  std::vector<std::string> shapes = {"2_2", "boolean"};
  std::vector<std::size_t> counts = {1, 16};
  double seconds = 0.3, longest = 10;
  read_options(argc, argv,
               {{"--device", into(device_name)},
                {"--shapes", into(shapes)},
                {"--counts", into(counts)},
                {"--seconds", into(seconds)},
                {"--longest", into(longest)}});
  const auto device = device::open_device(device_name);
  if (device->name().starts_with("cpu")) print_rates();
  for (const std::string& name : shapes) {
    for (const Named& shape : kShapes) {
      if (name == shape.name) run(*device, shape, counts, seconds, longest);
    }
  }
  return 0;
}

}  // namespace heliograph::bench

int main(int argc, char** argv) { return heliograph::bench::run_and_report(heliograph::bench::run, argc, argv); }
