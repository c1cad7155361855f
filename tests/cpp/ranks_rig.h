// Processes that are the ranks of one mesh: the test program itself, started again with one test to run.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace heliograph::test {

using Environment = std::map<std::string, std::string>;

struct Outcome {
  bool passed = false;
  int signal = 0;    // that ended it
  std::string text;  // what it wrote
};

/// Runs the disabled test RankBody.DISABLED_`body` in `ranks` processes that find each other by the environment;
/// `extra(rank)`: more of it. Those that still run after `limit` seconds are killed, and who is stopped once the
/// others have ended. `started`: how many of the ranks.
std::vector<Outcome> run_ranks(const std::string& body, std::size_t ranks,
                               const std::function<Environment(std::size_t)>& extra = {}, double limit = 300,
                               std::size_t started = 0);
/// Runs it in `ranks` processes of mpirun, with these devices to test: one outcome, passed where all have.
Outcome run_by_mpi(const std::string& body, std::size_t ranks, const std::string& devices, double limit = 120,
                   const Environment& extra = {});
bool has_mpirun();
/// How often `part` stands in a text.
std::size_t count_of(const std::string& text, const std::string& part);
/// A port of this machine that no other program is given while this lives; a rank can listen there.
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
/// A variable of the environment; empty where there is none.
std::string given(const char* variable);

}  // namespace heliograph::test
