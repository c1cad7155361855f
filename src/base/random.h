// Random bytes of the operating system.
#pragma once

#include <sys/random.h>

#include <cerrno>
#include <span>

#include "base/errors.h"

namespace heliograph {

/// Fills `bytes`, and resumes after signals. Throws Error if the system gives no random bytes.
inline void fill_random(std::span<unsigned char> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw Error("the operating system returned no random bytes (getrandom failed)");
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace heliograph
