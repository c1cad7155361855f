#include "device/rates.h"

#include <algorithm>
#include <chrono>

#include "device/kernels.h"
#include "math/primes.h"

namespace heliograph::device {

namespace {

/// Returns the time of the fastest of several runs of a call, because disturbances only add time.
double seconds_of(Queue& queue, const Call& call, int times) {
  double least = 1e9;
  for (int i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    queue.enqueue(call);
    queue.wait();
    if (i > 0) least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

double copied_bytes(Device& device, Queue& queue) {
  constexpr std::size_t kWords = std::size_t{1} << 15;
  double rate = 0;
  for (const std::size_t items : {2, 16, 128, 512}) {  // copies of 512 KiB to 128 MiB
    const Buffer memory = device.allocate(2 * items * kWords * sizeof(u64), queue);
    const View both = View::dense(memory->address(), Word::w64, {2 * items}, 1, 1, kWords);
    queue.enqueue(Zero{both});
    const double seconds = seconds_of(queue, Copy{both.with_leading(0, items), both.with_leading(items, items)}, 4);
    rate = std::max(rate, static_cast<double>(both.bytes()) / seconds);
  }
  return rate;
}

double transformed_products(Device& device, Queue& queue) {
  constexpr std::size_t kDegree = std::size_t{1} << 14, kPrimes = 8;
  const auto ring = std::make_shared<const math::Ring>(kDegree, Word::w64, math::largest_primes(50, kPrimes, 2 * kDegree));
  const auto prepared = device.kernels().prepare(ring);
  double rate = 0;
  for (std::size_t items = 4; items <= 256; items *= 8) {  // more items until the time is long enough to measure
    const Buffer memory = device.allocate(items * kPrimes * kDegree * sizeof(u64), queue);
    const View v = View::dense(memory->address(), Word::w64, {items}, 1, kPrimes, kDegree);
    queue.enqueue(Zero{v});
    const Call call = ForwardNtt{prepared, PrimeList::range(0, kPrimes), v, v};
    const double seconds = seconds_of(queue, call, 6);
    rate = static_cast<double>(work(call).products) / seconds;
    if (seconds > 1e-3) break;
  }
  return rate;
}

}  // namespace

Rates measured_rates(Device& device, double threads) {
  if (device.counter() != nullptr) return {};
  Rates rates{.butterflies = threads * device.product_ceiling(), .sums = threads * device.sum_ceiling()};
  try {
    const std::unique_ptr<Queue> queue = device.make_queue();
    rates.bytes = copied_bytes(device, *queue);
    rates.transforms = transformed_products(device, *queue);
  } catch (const OutOfMemoryError&) {  // too little free memory: rates that were not measured stay 0
  }
  return rates;
}

}  // namespace heliograph::device
