// How the benchmarks end.
#pragma once

#include <exception>
#include <iostream>

namespace heliograph::bench {

/// The exit status of a benchmark; what it throws is told.
inline int told(int (*run)(int, char**), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}

}  // namespace heliograph::bench
