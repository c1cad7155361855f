// libFuzzer's entry points: heliograph_fuzz TARGET [libFuzzer's flags, files and folders].
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>

#include "io/container.h"
#include "limit.h"
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
// name and flags of the program, for the processes that libFuzzer itself starts
constexpr const char* kVariable = "HELIOGRAPH_FUZZ_TARGET";
constexpr std::size_t kLeastLength = 262144;  // maximum bytes of an input; default: twice the bytes of a valid input

std::span<const std::byte> bytes_of(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

/// A cache of parsed containers by the digest at the end of a container. libFuzzer mutates an input and its mutants many
/// times, so parsing each would take longer than running it. The cache also returns the container for damaged bytes that
/// still end in its digest.
class Documents {
 public:
  std::optional<fuzz::Document> open(std::span<const std::byte> bytes) {
    if (const auto found = known_.find(digest_of(bytes)); found != known_.end()) return found->second;
    auto document = fuzz::open(bytes);
    if (document) keep(bytes, *document);
    return document;
  }
  /// Returns the bytes of a document. Caches the document if its bytes parse to the same document, so its arrays have no
  /// explicit offset or length.
  Bytes sign(fuzz::Document document) {
    Bytes bytes = fuzz::sign(document);
    if (opens(document)) keep(bytes, std::move(document));
    return bytes;
  }

 private:
  static constexpr std::size_t kDigest = 32, kMostBytes = std::size_t{64} << 20;

  static std::string digest_of(std::span<const std::byte> bytes) {
    const auto end = bytes.last(std::min(bytes.size(), kDigest));
    return {reinterpret_cast<const char*>(end.data()), end.size()};
  }
  static bool opens(const fuzz::Document& document) {
    const auto fits = [](const fuzz::Piece& piece) {
      const heliograph::io::Json& entry = piece.entry;
      return entry.is_object() && !entry.contains("offset") && !entry.contains("bytes");
    };
    return document.version == heliograph::io::format_version && std::ranges::all_of(document.arrays, fits);
  }
  void keep(std::span<const std::byte> bytes, fuzz::Document document) {
    if ((kept_ += bytes.size()) > kMostBytes) known_.clear(), kept_ = bytes.size();
    known_.insert_or_assign(digest_of(bytes), std::move(document));
  }

  std::unordered_map<std::string, fuzz::Document> known_;
  std::size_t kept_ = 0;
};
Documents documents;

/// Copies bytes to `out`; if they do not fit, `out` keeps its old bytes.
std::size_t put(const Bytes& bytes, std::uint8_t* out, std::size_t size, std::size_t max_size) {
  if (bytes.size() > max_size) return size;
  std::memcpy(out, bytes.data(), bytes.size());
  return bytes.size();
}

/// Lets libFuzzer mutate the bytes, mostly with a matching digest.
std::size_t mutate_raw(std::uint8_t* data, std::size_t size, std::size_t max_size, fuzz::Random& random) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (!random.one_in(4)) fuzz::sign_again(std::as_writable_bytes(std::span(data, size)), random.one_in(2));
  return size;
}

/// Ends the process by a signal on which libFuzzer writes the input.
void stop(int /*signal*/) {
  static constexpr char kText[] = "the input took more than 30 s of processor time\n";
  (void)!::write(STDERR_FILENO, kText, sizeof kText - 1);
  std::abort();
}

}  // namespace

// An allocation of unreasonable size returns no memory, and the library must report this as OutOfMemoryError. The sanitizer
// records only the last 4 callers of an allocation; this saves a sixth of the time. To see all callers of a fault, run the
// input again with ASAN_OPTIONS=malloc_context_size=30.
const char* __asan_default_options() {
  return "allocator_may_return_null=1:max_allocation_size_mb=512:detect_leaks=1:quarantine_size_mb=16:malloc_context_size=4";
}

int LLVMFuzzerInitialize(int* argc, char*** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  static std::vector<char*> arguments((*argv), (*argv) + *argc);
  if (arguments.size() > 1 && *arguments[1] != '-' && std::getenv(kVariable) == nullptr) {
    ::setenv(kVariable, arguments[1], 1);
    arguments.erase(arguments.begin() + 1);
  }
  // By default runs the reference backend, whose memory the sanitizer checks; the environment can name another device.
  ::setenv("HELIOGRAPH_DEVICE", "ref", 0);
  ::setenv("HELIOGRAPH_THREADS", "1", 0);
  try {
    const char* const name = std::getenv(kVariable);
    g_target = &fuzz::target(name == nullptr ? "" : name);
  } catch (const heliograph::Error& e) {
    std::fprintf(stderr, "heliograph_fuzz TARGET [FLAGS] [CORPUS]: %s\n", e.what());
    std::exit(2);
  }
  fuzz::end_slow_inputs(stop);
  std::size_t longest = kLeastLength;
  for (const Bytes& base : g_target->bases()) longest = std::max(longest, 2 * base.size());
  // The given flags follow the default flags and override them. libFuzzer's limit counts real time, which becomes longer if
  // other processes run. The limit detects inputs that wait forever. `TimeLimit` detects slow inputs.
  static std::string flags[] = {"-max_len=" + std::to_string(longest), "-len_control=0", "-timeout=300",
                                "-rss_limit_mb=2560"};
  for (std::string& flag : flags) arguments.insert(arguments.begin() + 1, flag.data());
  *argc = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  *argv = arguments.data();
  return 0;
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::TimeLimit limit;
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
  auto document = anew ? std::nullopt : documents.open(bytes_of(data, size));
  if (!document) document = documents.open(bases[random.below(bases.size())]);
  try {
    fuzz::mutate(*document, random, std::min<std::size_t>(max_size / 2, 1 << 17));
    return put(documents.sign(std::move(*document)), data, size, max_size);
  } catch (const heliograph::Error&) {  // not representable as JSON
    return mutate_raw(data, size, max_size, random);
  }
}

std::size_t LLVMFuzzerCustomCrossOver(const std::uint8_t* data1, std::size_t size1, const std::uint8_t* data2,
                                      std::size_t size2, std::uint8_t* out, std::size_t max_size, unsigned seed) {
  fuzz::Random random(seed);
  auto first = documents.open(bytes_of(data1, size1));
  const auto second = documents.open(bytes_of(data2, size2));
  if (!first || !second) return 0;
  try {
    fuzz::cross(*first, *second, random);
    return put(documents.sign(std::move(*first)), out, 0, max_size);
  } catch (const heliograph::Error&) {
    return 0;
  }
}
