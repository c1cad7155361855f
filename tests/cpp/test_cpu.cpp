// Tests of the cpu backend that go beyond the declared cases: instruction sets, threads, memory, floating-point state.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backend/cpu/cpu.h"
#include "backend/cpu/threads.h"
#include "device/kernels.h"
#include "device/shape.h"
#include "math/primes.h"
#include "said.h"

namespace heliograph::test {

namespace {

using backend::cpu::make_device;
using backend::cpu::ThreadPool;
using device::View;
using math::u64;
using math::Word;

std::vector<std::string> instruction_sets() {
  std::vector<std::string> found;
  for (const char* instructions : {"scalar", "avx2", "avx512"}) {
    try {
      make_device(instructions, 1);
      found.push_back(instructions);
    } catch (const ParameterError&) {  // this machine lacks the instruction set
    }
  }
  return found;
}

TEST(Cpu, NamesItsInstructionSets) {
  const std::string text = test::message_of<ParameterError>([] { make_device("avx1024", 1); });
  EXPECT_NE(text.find("avx1024"), std::string::npos);
  for (const std::string& instructions : instruction_sets()) EXPECT_NE(text.find(instructions), std::string::npos) << text;
}

TEST(Cpu, EnvironmentForcesInstructionSetAndThreads) {
  const test::Variable instructions("HELIOGRAPH_CPU", "scalar"), threads("HELIOGRAPH_THREADS", "3");
  EXPECT_EQ(make_device()->description(), "3 threads, 64-bit scalar");
  EXPECT_EQ(make_device("", 1)->description(), "1 thread, 64-bit scalar");
  {
    const test::Variable bad("HELIOGRAPH_THREADS", "many");
    EXPECT_NE(test::message_of<ParameterError>([] { make_device(); }).find("many"), std::string::npos);
  }
  {
    const test::Variable bad("HELIOGRAPH_THREADS", "0");
    EXPECT_THROW(make_device(), ParameterError);
  }
  const test::Variable bad("HELIOGRAPH_CPU", "sse");
  EXPECT_THROW(make_device(), ParameterError);
}

TEST(Cpu, MemoryIsAlignedAndReused) {
  const auto device = make_device("scalar", 1);
  const auto queue = device->make_queue();
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{64}, std::size_t{100000}, std::size_t{5} << 20}) {
    device::Buffer first = device->allocate(bytes, *queue);
    std::byte* const address = first->address();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % (bytes >= (std::size_t{2} << 20) ? std::size_t{2} << 20 : 64), 0u);
    address[0] = address[bytes - 1] = std::byte{1};
    const device::Buffer other = device->allocate(bytes, *queue);
    EXPECT_NE(other->address(), address);
    first.reset();
    EXPECT_GE(device->memory().pooled, bytes);
    EXPECT_EQ(device->allocate(bytes, *queue)->address(), address);
  }
}

// Blocks of many sizes, allocated and freed in random order: pooled memory must serve all sizes.
TEST(Cpu, PooledMemoryNeverExceedsThePeak) {
  const auto device = make_device("scalar", 1);
  const auto queue = device->make_queue();
  std::mt19937_64 random(7);
  struct Held {
    device::Buffer buffer;
    std::size_t bytes;
    std::byte mark;
  };
  std::vector<Held> held;
  std::size_t live = 0, peak = 0, wrong = 0;
  const auto drop = [&](std::size_t i) {
    const Held& h = held[i];
    wrong += h.buffer->address()[0] != h.mark || h.buffer->address()[h.bytes - 1] != h.mark;
    live -= h.bytes;
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (std::size_t round = 0; round < 4000; ++round) {
    // The sizes are 64 KiB to 128 MiB, few of them large, like the sizes of ciphertexts, keys and scratch memory.
    const std::size_t bytes = (std::size_t{65} << 10) + (random() % (std::size_t{1} << (16 + random() % 12)));
    while (live + bytes > (std::size_t{512} << 20)) drop(random() % held.size());
    held.push_back({device->allocate(bytes, *queue), bytes, static_cast<std::byte>(random())});
    held.back().buffer->address()[0] = held.back().buffer->address()[bytes - 1] = held.back().mark;
    live += bytes;
    peak = std::max(peak, live + held.size() * (std::size_t{64} << 10));
    if (random() % 3 == 0) drop(random() % held.size());
    // The limit is a quarter above the peak. Rounding up to huge pages takes an eighth, and the free parts of used huge
    // pages serve only small blocks.
    ASSERT_LE(live + device->memory().pooled, peak + peak / 4 + (std::size_t{16} << 20)) << "round " << round;
  }
  while (!held.empty()) drop(held.size() - 1);
  EXPECT_EQ(wrong, 0u);
}

TEST(Cpu, MemoryOutlivesItsDevice) {
  device::Buffer kept;
  {
    const auto device = make_device("scalar", 1);
    kept = device->allocate(1000, *device->make_queue());
  }
  kept->address()[999] = std::byte{1};
}

TEST(Cpu, StatesTheMissingMemory) {
  const auto device = make_device("scalar", 1);
  const auto queue = device->make_queue();
  try {
    device->allocate(std::size_t{1} << 46, *queue);
    FAIL() << "64 TiB were allocated";
  } catch (const OutOfMemoryError& e) {
    EXPECT_EQ(std::string(e.what()).find("this allocation needs 64.0 TiB, you have "), 0u) << e.what();
  }
  EXPECT_THROW(device->allocate(~std::size_t{0}, *queue), OutOfMemoryError);
}

TEST(Cpu, InjectedAllocationFailuresAreErrors) {
  const auto device = make_device("scalar", 1);
  const auto queue = device->make_queue();
  backend::cpu::fail_allocation(*device, 3);
  device->allocate(64, *queue);
  device->allocate(64, *queue);
  EXPECT_THROW(device->allocate(64, *queue), OutOfMemoryError);
  EXPECT_NO_THROW(device->allocate(64, *queue));
}

TEST(Threads, EachIndexRunsOnceForConcurrentCallers) {
  ThreadPool pool(3);
  std::atomic<int> wrong{0};
  const auto user = [&] {
    for (std::size_t round = 0; round < 200; ++round) {
      std::vector<int> seen(101, 0);
      pool.parallel_for(seen.size(), 1 + round % 7, [&](std::size_t i, std::size_t worker) {
        seen[i] += worker < 3 ? 1 : 1000;
        pool.parallel_for(2, 1, [&](std::size_t, std::size_t inner) { wrong += inner >= 3; });
      });
      for (const int count : seen) wrong += count != 1;
    }
  };
  std::vector<std::thread> users;
  for (int i = 0; i < 3; ++i) users.emplace_back(user);
  for (std::thread& t : users) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, ExceptionsReachTheCaller) {
  ThreadPool pool(2);
  for (int round = 0; round < 20; ++round) {
    EXPECT_THROW(pool.parallel_for(50, 1,
                                   [](std::size_t i, std::size_t) {
                                     if (i % 10 == 9) throw std::runtime_error("i");
                                   }),
                 std::runtime_error);
    std::atomic<int> count{0};
    pool.parallel_for(50, 1, [&](std::size_t, std::size_t) { ++count; });
    EXPECT_EQ(count, 50);
  }
}

/// Results of large sums and differences are written directly to memory, not into the caches. Each item must have the same
/// words as if it were computed alone.
TEST(Cpu, ResultsWrittenPastTheCachesAreTheSame) {
  constexpr std::size_t n = std::size_t{1} << 14, kBytes = std::size_t{40} << 20;
  for (const std::string& instructions : instruction_sets()) {
    for (const int bits : {30, 50, 59}) {
      const Word word = bits == 30 ? Word::w32 : Word::w64;
      const std::size_t each = n * math::word_bytes(word), items = kBytes / each;
      const auto device = make_device(instructions, 2);
      const auto queue = device->make_queue();
      const auto ring = std::make_shared<math::Ring>(n, word, math::largest_primes(bits, 1, 2 * n));
      const auto prepared = device->kernels().prepare(ring);
      const device::Buffer memory = device->allocate(3 * each + kBytes, *queue);
      const View inputs = View::dense(memory->address(), word, {2}, 1, 1, n);
      const View alone = View::dense(memory->address() + 2 * each, word, {}, 1, 1, n);
      const View all = View::dense(memory->address() + 3 * each, word, {items}, 1, 1, n);
      queue->enqueue(device::Sample{prepared, {0}, Secret(device::Draw{}), inputs});
      const View a = inputs.item(0), b = inputs.item(1), many_a = device::broadcast_view(a, {items});
      const auto check = [&](const char* name, const device::Call& one, const device::Call& many) {
        queue->enqueue(device::Zero{all});
        queue->enqueue(one);
        queue->enqueue(many);
        std::vector<std::byte> expected(each), got(kBytes);
        device->download(*queue, alone.address(0, 0, 0), expected);
        device->download(*queue, all.address(0, 0, 0), got);
        for (std::size_t i = 0; i < items; ++i)
          ASSERT_TRUE(std::equal(expected.begin(), expected.end(), got.begin() + static_cast<std::ptrdiff_t>(i * each)))
              << instructions << ", " << bits << " bits, " << name << ", item " << i;
      };
      const View many_b = device::broadcast_view(b, {items});
      check("add", device::Add{prepared, {0}, a, b, alone}, device::Add{prepared, {0}, many_a, many_b, all});
      check("sub", device::Sub{prepared, {0}, a, b, alone}, device::Sub{prepared, {0}, many_a, many_b, all});
    }
  }
}

#if defined(__x86_64__)

/// Returns the resulting words of NTTs and conversions that compute in floating point.
std::vector<u64> transforms_and_conversions(const std::string& instructions, int bits) {
  constexpr std::size_t n = 2048;
  const auto device = make_device(instructions, 1);
  const auto queue = device->make_queue();
  device::Kernels& k = device->kernels();
  const auto ring = std::make_shared<math::Ring>(n, Word::w64, math::largest_primes(bits, 4, 2 * n));
  const std::vector<u64>& p = ring->primes();
  const auto prepared = k.prepare(ring);
  const auto convert = k.prepare(math::extend_base({p[0], p[1]}, {p[2], p[3]}));
  device::GatheredProduct g{.groups = 1,
                            .outputs = 2,
                            .positions = 1,
                            .terms = 3,
                            .inputs = 3,
                            .weights = {5, -7, 11, -1, 2, 1000},
                            .index = {0, 1, 2}};
  const auto product = k.prepare(g);
  const device::Buffer memory = device->allocate(10 * n * 8, *queue);
  const auto view = [&](std::size_t at, std::size_t items, std::size_t limbs) {
    return View::dense(memory->address() + at * n * 8, Word::w64, {items}, 1, limbs, n);
  };
  const View x = view(0, 1, 2), y = view(2, 1, 2), in = view(4, 3, 1), out = view(7, 2, 1);
  queue->enqueue(device::Sample{prepared, {0, 1}, Secret(device::Draw{}), x});
  queue->enqueue(device::Sample{prepared, {1}, Secret(device::Draw{}), in});
  queue->enqueue(device::ForwardNtt{prepared, {0, 1}, x, x});
  queue->enqueue(device::Mul{prepared, {0, 1}, x, x, x});
  queue->enqueue(device::Convert{convert, x, std::nullopt, y});
  queue->enqueue(device::InverseNtt{prepared, {0, 1}, x, x});
  queue->enqueue(device::Product{prepared, {1}, product, in, out});
  std::vector<u64> words(9 * n);
  device->download(*queue, memory->address(), std::as_writable_bytes(std::span(words)));
  return words;
}

TEST(Cpu, TheHostsFloatStateChangesNothing) {
  for (const std::string& instructions : instruction_sets()) {
    for (const int bits : {50, 40, 30}) {
      const std::vector<u64> expected = transforms_and_conversions("scalar", bits);
      const unsigned saved = _mm_getcsr();
      // MXCSR bits: flush to zero, denormals are zero, and each rounding mode.
      for (const unsigned rounding : {0u, 0x2000u, 0x4000u, 0x6000u}) {
        _mm_setcsr(0x1f80 | 0x8040 | rounding);
        const std::vector<u64> got = transforms_and_conversions(instructions, bits);
        const unsigned after = _mm_getcsr();
        _mm_setcsr(saved);
        EXPECT_EQ(after & 0xe040, 0x8040 | rounding) << instructions;
        EXPECT_EQ(got, expected) << instructions << ", " << bits << " bits, rounding " << rounding;
      }
    }
  }
}

#endif

}  // namespace

}  // namespace heliograph::test
