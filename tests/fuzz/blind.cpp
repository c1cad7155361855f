// Runs one target for some seconds on mutated inputs, without a fuzzer's guidance and without clang. The program is for
// g++'s sanitizers and for machines with many cores. Usage: blind TARGET SECONDS [SEED]; equal seeds give equal inputs.
// Inputs with faults are written to the current folder.
#include <execinfo.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "limit.h"
#include "mutate.h"
#include "targets.h"

extern "C" __attribute__((weak)) void __asan_set_death_callback(void (*callback)());

namespace heliograph::fuzz {
namespace {

constexpr unsigned kWaitSeconds = 300;  // real time, for inputs that wait forever

Bytes current;  // the input that the target currently runs
std::string fault_name;

/// Also called from a signal handler, so it uses only system calls.
void write_current() {
  const int file = ::open(fault_name.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  std::span<const std::byte> left(current);
  while (!left.empty()) {
    const ssize_t written = ::write(file, left.data(), left.size());
    if (written <= 0) break;
    left = left.subspan(static_cast<std::size_t>(written));
  }
  ::close(file);
}

extern "C" void died(int signal) {
  static constexpr char kText[] = "the process received a fatal signal; its input is written; the stack was\n";
  write_current();
  (void)!::write(STDERR_FILENO, kText, sizeof kText - 1);
  void* frames[64];
  ::backtrace_symbols_fd(frames, ::backtrace(frames, 64), STDERR_FILENO);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

/// On a fatal signal, also after a stack overflow, writes the input and its location. The address sanitizer does this
/// itself, except for hangs.
void leave_traces() {
  void* first[1];
  ::backtrace(first, 1);  // loads libraries now, because a signal handler must not load them
  static char room[1 << 16];
  const stack_t stack = {.ss_sp = room, .ss_flags = 0, .ss_size = sizeof room};
  ::sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_handler = died;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  ::sigaction(SIGALRM, &action, nullptr);
  end_slow_inputs(died);
  if (__asan_set_death_callback) return;
  for (const int s : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) ::sigaction(s, &action, nullptr);
}

/// Sets, removes or repeats bytes, or copies them from another input.
Bytes changed(Bytes input, const Bytes& other, Random& random) {
  const std::size_t times = 1 + random.below(6);
  for (std::size_t i = 0; i < times && !input.empty(); ++i) {
    const std::size_t at = random.below(input.size()),
                      count = 1 + random.below(std::min<std::size_t>(16, input.size() - at));
    const auto first = input.begin() + static_cast<std::ptrdiff_t>(at), last = first + static_cast<std::ptrdiff_t>(count);
    switch (random.below(5)) {
      case 0:
        *first = static_cast<std::byte>(random.next());
        break;
      case 1:
        *first ^= static_cast<std::byte>(1 << random.below(8));
        break;
      case 2:
        input.erase(first, last);
        break;
      case 3: {
        const Bytes piece(first, last);
        input.insert(first, piece.begin(), piece.end());
        break;
      }
      default: {
        if (other.empty()) break;
        const std::size_t from = random.below(other.size()),
                          more = 1 + random.below(std::min<std::size_t>(32, other.size() - from));
        const auto source = other.begin() + static_cast<std::ptrdiff_t>(from);
        input.insert(first, source, source + static_cast<std::ptrdiff_t>(more));
      }
    }
  }
  return input;
}

Bytes mutated(const Target& target, Random& random) {
  const std::vector<Bytes>& bases = target.bases();
  const Bytes &base = bases[random.below(bases.size())], &other = bases[random.below(bases.size())];
  if (!target.container || random.one_in(16)) return changed(base, other, random);
  auto document = open(base);
  if (random.one_in(8)) {
    if (const auto second = open(other)) cross(*document, *second, random);
  }
  mutate(*document, random, 1 << 17);
  return sign(*document);
}

int run(const Target& target, double seconds, std::uint64_t seed) {
  target.bases();  // the target throws if its own valid inputs fail
  Random random(seed);
  std::size_t executions = 0, faults = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  while (elapsed() < seconds) {
    try {
      current = mutated(target, random);
    } catch (const Error&) {  // not representable as JSON
      continue;
    }
    ++executions;
    fault_name = "crash-" + target.name + "-" + std::to_string(seed) + "-" + std::to_string(executions);
    ::alarm(kWaitSeconds);
    const TimeLimit limit;
    try {
      target.run(current);
    } catch (const std::exception& e) {
      fault_name = "fault-" + target.name + "-" + std::to_string(seed) + "-" + std::to_string(executions);
      write_current();
      std::printf("%s: %s\n", fault_name.c_str(), e.what());
      ++faults;
    }
  }
  std::printf("%s executions %zu faults %zu seconds %.0f seed %llu\n", target.name.c_str(), executions, faults, elapsed(),
              static_cast<unsigned long long>(seed));
  return faults == 0 ? 0 : 1;
}

}  // namespace
}  // namespace heliograph::fuzz

int main(int argc, char** argv) {
  using namespace heliograph::fuzz;
  ::setenv("HELIOGRAPH_DEVICE", "ref", 0);
  if (argc < 3 || argc > 4) {
    std::fprintf(stderr, "blind TARGET SECONDS [SEED]; the targets are");
    for (const Target& t : targets()) std::fprintf(stderr, " %s", t.name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  const std::uint64_t seed = argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 1;
  fault_name = "crash-" + std::string(argv[1]) + "-" + std::to_string(seed);
  leave_traces();
  if (__asan_set_death_callback) __asan_set_death_callback(write_current);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    return run(target(argv[1]), std::strtod(argv[2], nullptr), seed);
  } catch (const heliograph::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  }
}
