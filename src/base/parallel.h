// Parallel loops on the host's threads: encoding, keys, copies.
#pragma once

#include <cstddef>
#include <functional>

namespace heliograph {

/// Calls f(i) once for each i < count, on several threads if `words` of total work justify them. Rethrows the first error.
void parallel_for(std::size_t count, std::size_t words, const std::function<void(std::size_t)>& f);

}  // namespace heliograph
