// Threads that the operating system may refuse.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/errors.h"

namespace heliograph {

/// What `start` returns, which starts threads. Throws DeviceError where the operating system gives none.
template <class Start>
auto starting_threads(Start&& start) {
  try {
    return start();
  } catch (const std::system_error& e) {
    throw DeviceError(std::string("the operating system starts no more threads: ") + e.what());
  }
}

/// A thread that runs `body`. Throws DeviceError.
template <class Body>
std::thread start_thread(Body&& body) {
  return starting_threads([&] { return std::thread(std::forward<Body>(body)); });
}

}  // namespace heliograph
