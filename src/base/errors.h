// The public error classes, and a helper that throws them.
#pragma once

#include "heliograph/errors.h"

namespace heliograph {

/// Throws an exception of type `E` with `message` unless `ok`.
template <class E>
inline void require(bool ok, const char* message) {
  if (!ok) throw E(message);
}

}  // namespace heliograph
