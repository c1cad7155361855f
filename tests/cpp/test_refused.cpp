// Tests with system calls that the kernel interrupts or refuses. This program replaces getrandom and pthread_create.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/random.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/threads.h"
#include "base/parallel.h"
#include "io/container.h"
#include "math/sampler.h"
#include "mesh/worker.h"

namespace {

std::atomic<int> interruptions{0};  // number of next getrandom calls that fail with EINTR
std::atomic<bool> no_randomness{false};
std::atomic<int> threads_left{1 << 20};  // number of threads until pthread_create fails
std::atomic<int> threads_refused{0};

}  // namespace

extern "C" ssize_t getrandom(void* to, size_t size, unsigned flags) {
  using Function = ssize_t (*)(void*, size_t, unsigned);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "getrandom"));
  if (no_randomness) return errno = ENOSYS, -1;
  if (interruptions > 0) return --interruptions, errno = EINTR, -1;
  return real(to, size < 3 ? size : 3, flags);  // returns at most 3 bytes per call
}

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  using Function = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left-- <= 0) return ++threads_refused, EAGAIN;
  return real(thread, attributes, start, argument);
}

namespace heliograph {
namespace {

/// Limits the number of further threads while the object exists.
struct FewThreads {
  explicit FewThreads(int count) { threads_refused = 0, threads_left = count; }
  ~FewThreads() { threads_left = 1 << 20; }
};

TEST(Randomness, IsCompleteDespiteInterruptions) {
  interruptions = 200;
  const math::Key256 a = math::system_entropy(), b = math::system_entropy();
  EXPECT_EQ(interruptions, 0);
  EXPECT_NE(a, b);
  EXPECT_FALSE(std::equal(a.begin() + 16, a.end(), math::Key256{}.begin()));
}

TEST(Randomness, FilesAreSavedDespiteInterruptions) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("refused-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  io::Container k;
  k.type = "heliograph.test", k.header = io::Json::object();
  interruptions = 200;
  EXPECT_NO_THROW(io::save((folder / "a.hg").string(), k));
  EXPECT_TRUE(std::filesystem::exists(folder / "a.hg"));
  no_randomness = true;
  std::string said;
  try {
    io::save((folder / "b.hg").string(), k);
  } catch (const Error& e) {
    said = e.what();
  }
  no_randomness = false;
  EXPECT_EQ(said.find("exists"), said.npos) << said;
  std::filesystem::remove_all(folder);
}

TEST(Threads, AFailedThreadIsADeviceErrorAndLeavesNoThreads) {
  for (int allowed = 0; allowed < 7; ++allowed) {
    {
      const FewThreads few(allowed);
      EXPECT_THROW(backend::cpu::ThreadPool pool(8), DeviceError) << allowed;
      EXPECT_GT(threads_refused, 0);
    }
    const FewThreads few(allowed);
    EXPECT_THROW(backend::cpu::make_device("scalar", 8), DeviceError) << allowed;
  }
  backend::cpu::ThreadPool pool(8);  // pthread_create succeeds again
  std::atomic<int> done{0};
  pool.parallel_for(100, 1, [&](std::size_t, std::size_t) { ++done; });
  EXPECT_EQ(done, 100);
}

TEST(Threads, AWorkerWithoutAThreadIsADeviceError) {
  const FewThreads few(0);
  EXPECT_THROW(mesh::Worker(std::chrono::microseconds(0), 1, 8), DeviceError);
}

TEST(Threads, ALoopUsesTheAvailableThreads) {
  setenv("HELIOGRAPH_THREADS", "8", 1);
  const FewThreads few(2);
  std::vector<int> seen(1000);
  parallel_for(seen.size(), std::size_t{1} << 30, [&](std::size_t i) { ++seen[i]; });
  EXPECT_EQ(seen, std::vector<int>(1000, 1));
  EXPECT_GT(threads_refused, 0);
}

}  // namespace
}  // namespace heliograph
