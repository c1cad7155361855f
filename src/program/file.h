// A program as data: its calls, their constants and the words that it holds, as arrays of a container (docs/format.md).
#pragma once

#include "io/container.h"
#include "program/program.h"

namespace heliograph::program {

/// What a program is saved with: arrays "calls", "kernels" and "constant0", "constant1", ... Sessions are known by their numbers
/// in `sessions`. Throws RecordingError for calls of other sessions, and for what only this process has.
void write(const Program::Parts& parts, const std::vector<const Session*>& sessions, io::Container& to);

/// What `write` wrote, for the same list of sessions, perhaps on another device: constants are prepared and words uploaded. All
/// that is read is checked, as if it came from an enemy: a program can name no memory but its own, its inputs, and `sources` sets
/// of keys. What was uploaded leaves `from`. Throws DamagedFileError, OutOfMemoryError.
Program::Parts read(io::Container& from, const std::vector<const Session*>& sessions, std::size_t sources);

}  // namespace heliograph::program
