// Helpers that return the error message of a call or set an environment variable.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace heliograph::test {

/// Returns the message of the `E` that `call` throws, or "" if it throws nothing.
template <class E, class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const E& e) {
    return e.what();
  }
  return "";
}

inline bool holds(const std::string& text, const std::string& wanted) { return text.find(wanted) != std::string::npos; }

inline void expect_in(const std::string& wanted, const std::string& text) {
  EXPECT_TRUE(holds(text, wanted)) << "\"" << wanted << "\" is missing in \"" << text << "\"";
}

/// Sets an environment variable while the object exists.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    const char* const old = std::getenv(name);
    if (old) old_ = old, had_ = true;
    setenv(name, value, 1);
  }
  ~Variable() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

}  // namespace heliograph::test
