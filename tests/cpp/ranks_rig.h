// Runs processes as ranks of one mesh: the test program starts itself again, with one test to run.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace heliograph::test {

using Environment = std::map<std::string, std::string>;

struct Outcome {
  bool passed = false;
  int signal = 0;    // signal that ended the process, or 0
  std::string text;  // standard output and error
};

/// Runs the disabled test RankBody.DISABLED_`body` in `ranks` processes that connect by the environment, with `extra(rank)`
/// added to it. Processes that still run after `limit` seconds are killed. A stopped process (SIGSTOP) is killed when the
/// other processes have ended. `started`: number of processes to start, if not all.
std::vector<Outcome> run_ranks(const std::string& body, std::size_t ranks,
                               const std::function<Environment(std::size_t)>& extra = {}, double limit = 300,
                               std::size_t started = 0);
/// Runs the test body in `ranks` processes of mpirun on these devices. Returns one outcome for all ranks; the run has passed
/// only if every rank has passed.
Outcome run_by_mpi(const std::string& body, std::size_t ranks, const std::string& devices, double limit = 120,
                   const Environment& extra = {});
bool has_mpirun();
/// Returns the number of occurrences of `part` in `text`.
std::size_t count_of(const std::string& text, const std::string& part);
/// Reserves a port on this machine while the object exists; a rank can still listen on this port.
class Port {
 public:
  Port();
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  const std::string& number() const { return number_; }

 private:
  int socket_;
  std::string number_;
};
/// Returns an environment variable, or "".
std::string given(const char* variable);

}  // namespace heliograph::test
