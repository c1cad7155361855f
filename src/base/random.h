// Randomness of the operating system.
#pragma once

#include <sys/random.h>

#include <cerrno>
#include <span>

#include "base/errors.h"

namespace heliograph {

/// Fills `bytes`. A signal that arrives meanwhile changes nothing. Throws Error where there is no randomness.
inline void fill_random(std::span<unsigned char> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw Error("the operating system gave no randomness");
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace heliograph
