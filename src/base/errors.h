// The public errors, and how the engine throws them.
#pragma once

#include "heliograph/errors.h"

namespace heliograph {

/// Throws `E` with `message` unless `ok`.
template <class E>
inline void require(bool ok, const char* message) {
  if (!ok) throw E(message);
}

}  // namespace heliograph
