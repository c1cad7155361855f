// Which cards are compiled in.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/rtl/card.h"

namespace heliograph::backend::rtl {

/// Butterflies of each, the usual one first.
const std::vector<int>& compiled_butterflies();
/// A simulated card of so many butterflies, which is compiled in; `stalls` of 100 handshakes of its buses are put off, by `seed`.
std::unique_ptr<heliograph::rtl::Card> make_card(int butterflies, std::span<std::byte> memory, unsigned seed, int stalls);

}  // namespace heliograph::backend::rtl
