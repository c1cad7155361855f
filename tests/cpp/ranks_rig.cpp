#include "ranks_rig.h"

#include <netinet/in.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>

extern char** environ;

namespace heliograph::test {

namespace {

using Clock = std::chrono::steady_clock;

struct Process {
  pid_t id = 0;
  int output = -1;
  bool ended = false, stopped = false;
};

/// Starts a program whose environment is the current environment and the variables of `environment`. Its output goes to an
/// unnamed file.
Process start(const std::string& program, std::vector<std::string> words, const Environment& environment) {
  Process p;
  p.output = memfd_create("output", MFD_CLOEXEC);
  std::vector<std::string> settings;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string text = *e;
    if (!environment.contains(text.substr(0, text.find('='))) && !text.starts_with("GTEST_")) settings.push_back(text);
  }
  for (const auto& [name, value] : environment) settings.push_back(name + "=" + value);
  const auto pointers = [](std::vector<std::string>& list) {
    std::vector<char*> r;
    for (std::string& s : list) r.push_back(s.data());
    r.push_back(nullptr);
    return r;
  };
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, p.output, 1);
  posix_spawn_file_actions_adddup2(&actions, p.output, 2);
  const int code =
      posix_spawnp(&p.id, program.c_str(), &actions, nullptr, pointers(words).data(), pointers(settings).data());
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) throw std::runtime_error("cannot start the process of a rank");
  return p;
}

std::vector<std::string> words_for(const std::string& program, const std::string& body) {
  return {program, "--gtest_color=no", "--gtest_also_run_disabled_tests", "--gtest_filter=RankBody.DISABLED_" + body};
}

std::string text_of(int file) {
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, lseek(file, 0, SEEK_END))), '\0');
  const ssize_t n = pread(file, text.data(), text.size(), 0);
  text.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  close(file);
  return text;
}

std::vector<Outcome> outcomes_of(std::vector<Process>& processes, double limit, Clock::time_point begin) {
  std::vector<Outcome> outcomes(processes.size());
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  for (std::size_t left = processes.size(); left > 0;) {
    const bool alone = std::all_of(processes.begin(), processes.end(), [](auto& p) { return p.ended || p.stopped; });
    const bool late = alone || seconds() > limit;
    for (std::size_t r = 0; r < processes.size(); ++r) {
      if (processes[r].ended) continue;
      if (late) kill(processes[r].id, SIGKILL);
      int status = 0;
      if (waitpid(processes[r].id, &status, late ? 0 : WNOHANG | WUNTRACED) <= 0) continue;
      if (WIFSTOPPED(status)) {
        processes[r].stopped = true;
        continue;
      }
      processes[r].ended = true, --left;
      outcomes[r] = {.passed = WIFEXITED(status) && WEXITSTATUS(status) == 0,
                     .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                     .text = text_of(processes[r].output) +
                             (late ? alone ? "\n(killed: the process was stopped)" : "\n(killed: it ran too long)" : "")};
      // gtest also exits with 0 if the named test does not exist.
      outcomes[r].passed = outcomes[r].passed && outcomes[r].text.find("[  PASSED  ] 1 test") != std::string::npos;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return outcomes;
}

}  // namespace

Port::Port() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  // The socket is bound but does not listen. With SO_REUSEADDR the rank can bind the port too, and the kernel gives it to no
  // other program.
  const int on = 1;
  ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in a{};
  a.sin_family = AF_INET, a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  auto* const raw = reinterpret_cast<sockaddr*>(&a);
  if (::bind(socket_, raw, size) != 0 || ::getsockname(socket_, raw, &size) != 0)
    throw std::runtime_error("no TCP port is free");
  number_ = std::to_string(ntohs(a.sin_port));
}

Port::~Port() { ::close(socket_); }

std::string given(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr ? value : "";
}

std::vector<Outcome> run_ranks(const std::string& body, std::size_t ranks,
                               const std::function<Environment(std::size_t)>& extra, double limit, std::size_t started) {
  const Port port;
  const std::string place = "127.0.0.1:" + port.number();
  std::vector<Process> processes;
  const auto begin = Clock::now();
  for (std::size_t r = 0; r < (started ? started : ranks); ++r) {
    Environment e = {{"HELIOGRAPH_RANK", std::to_string(r)},
                     {"HELIOGRAPH_RANKS", std::to_string(ranks)},
                     {"HELIOGRAPH_MEET", place},
                     {"HELIOGRAPH_TIMEOUT", "60"},
                     {"HELIOGRAPH_THREADS", "1"},
                     {"HELIOGRAPH_DEVICE", "cpu"}};
    if (extra) {
      for (const auto& [name, value] : extra(r)) e[name] = value;
    }
    processes.push_back(start("/proc/self/exe", words_for("test_ranks", body), e));
  }
  return outcomes_of(processes, limit, begin);
}

Outcome run_by_mpi(const std::string& body, std::size_t ranks, const std::string& devices, double limit,
                   const Environment& extra) {
  std::vector<std::string> words = {"mpirun", "-n", std::to_string(ranks), "--oversubscribe", "--bind-to", "none"};
  for (const std::string& word : words_for(std::filesystem::read_symlink("/proc/self/exe").string(), body))
    words.push_back(word);
  const auto begin = Clock::now();
  Environment e = {{"HELIOGRAPH_TEST_DEVICES", devices},
                   {"HELIOGRAPH_THREADS", "1"},
                   {"ASAN_OPTIONS", "detect_leaks=0"},  // the leak sanitizer would report Open MPI's leaks
                   {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                   {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  e.insert(extra.begin(), extra.end());
  std::vector<Process> one = {start("mpirun", words, e)};
  Outcome o = outcomes_of(one, limit, begin).front();
  o.passed = o.passed && count_of(o.text, "[  PASSED  ] 1 test") == ranks;
  return o;
}

bool has_mpirun() { return std::system("command -v mpirun >/dev/null 2>&1") == 0; }

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

}  // namespace heliograph::test
