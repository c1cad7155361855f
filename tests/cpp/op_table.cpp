// The support table: each operation on each device of this machine. `op_table [--time] [device...]`; `op_table
// --write-digests` writes the results of `ref` to tests/data/ref_digests.txt.
#include <cstdio>
#include <cstring>

#include "op_cases.h"

namespace heliograph::test {

namespace {

/// Returns "ok", the difference between the results, or the error.
std::string verdict(Target& target, const std::string& kernel, std::size_t& count) {
  for (const OpCase& c : op_cases()) {
    if (c.kernel != kernel || c.large) continue;
    ++count;
    try {
      if (std::string fault = fault_in(c, run_case(target, c)); !fault.empty()) return fault;
    } catch (const Error& e) {
      return std::string(e.what()) + ": " + c.name;
    }
  }
  return "ok";
}

void print_times(Target& target) {
  for (const OpCase& c : op_cases())
    std::printf("%-16s %-16s %10.1f us  %s\n", target.name.c_str(), c.kernel.c_str(), time_case(target, c) * 1e6,
                c.name.c_str());
}

int table(const std::vector<std::string>& names, bool timed) {
  bool good = true;
  for (const std::string& name : names) {
    try {
      Target target = open_target(name);
      if (timed) {
        print_times(target);
        continue;
      }
      std::printf("%s (%s)\n", name.c_str(), target.device->description().c_str());
      for (const std::string& kernel : contract_kernels()) {
        std::size_t cases = 0;
        const std::string said = verdict(target, kernel, cases);
        good = good && said == "ok";
        std::printf("  %-16s %4zu cases  %s\n", kernel.c_str(), cases, said.c_str());
      }
    } catch (const Error& e) {
      std::printf("%s: not available: %s\n", name.c_str(), e.what());
    }
  }
  return good ? 0 : 1;
}

}  // namespace

}  // namespace heliograph::test

int main(int count, char** arguments) {
  bool timed = false;
  std::vector<std::string> names;
  if (count == 2 && std::strcmp(arguments[1], "--write-digests") == 0) {
    heliograph::test::write_digests();
    return 0;
  }
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(arguments[i], "--time") == 0) {
      timed = true;
    } else {
      names.emplace_back(arguments[i]);
    }
  }
  return heliograph::test::table(names.empty() ? heliograph::test::target_names() : names, timed);
}
