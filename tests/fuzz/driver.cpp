// libFuzzer's entry points: heliograph_fuzz TARGET [libFuzzer's flags, files and folders].
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "mutate.h"
#include "targets.h"

extern "C" {
std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);
int LLVMFuzzerInitialize(int* argc, char*** argv);
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed);
std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* data1, std::size_t size1, const std::uint8_t* data2,
                                      std::size_t size2, std::uint8_t* out, std::size_t max_size, unsigned seed);
const char* __asan_default_options();
}

namespace {

namespace fuzz = heliograph::fuzz;
using fuzz::Bytes;

const fuzz::Target* g_target = nullptr;
constexpr const char* kVariable = "HELIOGRAPH_FUZZ_TARGET";  // for the processes that libFuzzer starts itself

std::span<const std::byte> bytes_of(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

/// The bytes into `out`, or as they were where they are too many.
std::size_t put(const Bytes& bytes, std::uint8_t* out, std::size_t size, std::size_t max_size) {
  if (bytes.size() > max_size) return size;
  std::memcpy(out, bytes.data(), bytes.size());
  return bytes.size();
}

/// What libFuzzer does to bytes, mostly with a digest that fits.
std::size_t mutate_raw(std::uint8_t* data, std::size_t size, std::size_t max_size, fuzz::Random& random) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (!random.one_in(4)) fuzz::sign_again(std::as_writable_bytes(std::span(data, size)), random.one_in(2));
  return size;
}

}  // namespace

// A size that no input should ask for gives no memory, which must become OutOfMemoryError.
const char* __asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=512:detect_leaks=1:quarantine_size_mb=16";
}

int LLVMFuzzerInitialize(int* argc, char*** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  static std::vector<char*> arguments((*argv), (*argv) + *argc);
  if (arguments.size() > 1 && *arguments[1] != '-' && std::getenv(kVariable) == nullptr) {
    ::setenv(kVariable, arguments[1], 1);
    arguments.erase(arguments.begin() + 1);
  }
  // What runs is the definition, whose memory the sanitizer sees; another device can be named.
  ::setenv("HELIOGRAPH_DEVICE", "ref", 0);
  ::setenv("HELIOGRAPH_THREADS", "1", 0);
  try {
    const char* const name = std::getenv(kVariable);
    g_target = &fuzz::target(name == nullptr ? "" : name);
  } catch (const heliograph::Error& e) {
    std::fprintf(stderr, "heliograph_fuzz TARGET [FLAGS] [CORPUS]: %s\n", e.what());
    std::exit(2);
  }
  // Before what was given, which counts more.
  static char flags[][32] = {"-max_len=262144", "-len_control=0", "-timeout=30", "-rss_limit_mb=2560"};
  for (char* flag : flags) arguments.insert(arguments.begin() + 1, flag);
  *argc = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  *argv = arguments.data();
  g_target->bases();
  return 0;
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    g_target->run(bytes_of(data, size));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "a fault of %s: %s\n", g_target->name.c_str(), e.what());
    std::abort();
  }
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  fuzz::Random random(seed);
  const auto& bases = g_target->bases();
  const bool anew = size == 0 || random.one_in(512);
  if (!g_target->container) {
    if (anew) return put(bases[random.below(bases.size())], data, size, max_size);
    return LLVMFuzzerMutate(data, size, max_size);
  }
  const bool raw = g_target->name == "container" ? random.one_in(2) : random.one_in(32);
  if (raw && !anew) return mutate_raw(data, size, max_size, random);
  auto document = anew ? std::nullopt : fuzz::open(bytes_of(data, size));
  if (!document) document = fuzz::open(bases[random.below(bases.size())]);
  try {
    fuzz::mutate(*document, random, std::min<std::size_t>(max_size / 2, 1 << 17));
    return put(fuzz::sign(*document), data, size, max_size);
  } catch (const heliograph::Error&) {  // no JSON text holds it
    return mutate_raw(data, size, max_size, random);
  }
}

std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* data1, std::size_t size1, const std::uint8_t* data2,
                                      std::size_t size2, std::uint8_t* out, std::size_t max_size, unsigned seed) {
  fuzz::Random random(seed);
  auto first = fuzz::open(bytes_of(data1, size1));
  const auto second = fuzz::open(bytes_of(data2, size2));
  if (!first || !second) return 0;
  try {
    fuzz::cross(*first, *second, random);
    return put(fuzz::sign(*first), out, 0, max_size);
  } catch (const heliograph::Error&) {
    return 0;
  }
}
