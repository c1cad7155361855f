// Helpers of the benchmark programs: options, times, exit status.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "heliograph/errors.h"

namespace heliograph::bench {

/// Returns the nonempty parts of a comma-separated list.
inline std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t at = std::min(text.find(',', from), text.size());
    if (at > from) parts.push_back(text.substr(from, at - from));
    from = at + 1;
  }
  return parts;
}

inline void read(const std::string& value, std::string& to) { to = value; }
inline void read(const std::string& value, double& to) { to = std::stod(value); }
inline void read(const std::string& value, std::size_t& to) { to = std::stoul(value); }
template <class T>
void read(const std::string& value, std::vector<T>& to) {
  to.clear();
  for (const std::string& part : split(value)) read(part, to.emplace_back());
}

/// Function that receives an option's value as text.
using Option = std::function<void(const std::string& value)>;
/// Returns an Option that stores its value in `target`.
template <class T>
Option into(T& place) {
  return [&place](const std::string& value) { read(value, place); };
}
/// Reads "--option value", any number of times. Throws Error for options that are not in `options`.
inline void read_options(int argc, char** argv, const std::map<std::string, Option>& options) {
  for (int i = 1; i < argc; i += 2) {
    const auto option = options.find(argv[i]);
    if (option == options.end()) throw Error("unknown option " + std::string(argv[i]));
    if (i + 1 == argc) throw Error(option->first + " needs a value");
    option->second(argv[i + 1]);
  }
}

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }
inline double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

inline double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

/// Returns the exit status of a benchmark, and prints the text of an exception.
inline int run_and_report(int (*run)(int, char**), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}

}  // namespace heliograph::bench
