// Loops over the threads of the host: encoding, keys, copies.
#pragma once

#include <cstddef>
#include <functional>

namespace heliograph {

/// Calls f(i) once for each i < count, on several threads where `words` of work in all are worth it. Rethrows the first error.
void parallel_for(std::size_t count, std::size_t words, const std::function<void(std::size_t)>& f);

}  // namespace heliograph
