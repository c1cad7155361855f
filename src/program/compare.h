// Whether two recordings are of the same calls.
#pragma once

#include "program/program.h"

namespace heliograph::program {

/// Whether replays of one are replays of the other: the same calls on places that are alike, with constants that are the same
/// memory or were made in the same way of the same values. False where that cannot be told.
bool same_calls(const Program::Parts& a, const Program::Parts& b);

}  // namespace heliograph::program
