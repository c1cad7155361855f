// What calls say when they throw, and variables of the environment.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace heliograph::test {

/// What `call` says when it throws `E`; empty where it throws nothing.
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
  EXPECT_TRUE(holds(text, wanted)) << "\"" << wanted << "\" is not in \"" << text << "\"";
}

/// Sets a variable of the environment while it lives.
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
