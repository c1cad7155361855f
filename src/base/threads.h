// Thread creation with typed errors.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/errors.h"

namespace heliograph {

/// Returns start(), where `start` is a function that starts threads. Throws DeviceError if the operating system
/// refuses.
template <class Start>
auto starting_threads(Start&& start) {
  try {
    return start();
  } catch (const std::system_error& e) {
    throw DeviceError(std::string("cannot start a thread: ") + e.what());
  }
}

template <class Body>
std::thread start_thread(Body&& body) {
  return starting_threads([&] { return std::thread(std::forward<Body>(body)); });
}

}  // namespace heliograph
