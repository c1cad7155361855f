// Cache of fits and plans of functions.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/recent.h"

namespace heliograph::ckks {

/// Identity of a fit or plan: the name of the function and of the method, the interval and the error.
struct FitKey {
  std::string name;
  double low, high;
  std::optional<double> error;

  bool operator==(const FitKey&) const = default;
};

/// Cache of values that take milliseconds to compute. A cache belongs to one thread, so that it needs no lock.
template <class T>
class FitCache {
 public:
  template <class Make>
  T get(const FitKey& key, const Make& make) {
    const auto is = [&](const Entry& e) { return e.key == key; };
    const auto insert = [&] { return std::make_shared<const Entry>(Entry{key, make()}); };
    return recent_.get(is, insert, [](const Entry&) { return std::size_t{1}; })->value;
  }

 private:
  static constexpr std::size_t kMost = 256;
  struct Entry {
    FitKey key;
    T value;
  };
  Recent<Entry> recent_{kMost, kMost};
};

}  // namespace heliograph::ckks
