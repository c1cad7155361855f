// The cards that were compiled into this build.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/rtl/card.h"

namespace heliograph::backend::rtl {

/// Returns the number of butterflies of each compiled card; the first is the default.
const std::vector<int>& compiled_butterflies();
/// Makes a simulated card of a compiled number of butterflies. `stalls`: percentage of bus handshakes to delay, by `seed`.
std::unique_ptr<heliograph::rtl::Card> make_card(int butterflies, std::span<std::byte> memory, unsigned seed, int stalls);

}  // namespace heliograph::backend::rtl
