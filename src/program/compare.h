// Comparison of two recordings.
#pragma once

#include "program/program.h"

namespace heliograph::program {

/// Returns whether replays of the two recordings are equal: the recordings have equal calls on matching places.
/// Matching constants use the same memory, or are made by equal steps from equal values. Returns false if equality is
/// not certain.
bool same_calls(const Program::Parts& a, const Program::Parts& b);

}  // namespace heliograph::program
