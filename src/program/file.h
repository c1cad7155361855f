// A program as data: its calls, their constants and the words that it holds, as arrays of a container (docs/format.md).
#pragma once

#include "io/container.h"
#include "program/verify.h"

namespace heliograph::program {

/// What a program is saved with: arrays "calls", "kernels" and "constant0", "constant1", ... Sessions are known by their numbers
/// in `sessions`; `of_results` are those of the results' parameters. Throws RecordingError for calls of other sessions, and for
/// what only this process has.
void write(const Program::Parts& parts, const std::vector<const Session*>& sessions,
           const std::vector<const Session*>& of_results, io::Container& to);

struct Loaded {
  Program::Parts parts;
  std::vector<std::vector<u64>> below;  // of each result, limb by limb: its words are less
};

/// What `write` wrote, for the same list of parameter sets, perhaps on another device. It is verified whole (program/verify.h),
/// as if an enemy had written it; then its constants are prepared and its words uploaded, and leave `from`. Throws
/// DamagedFileError, LimitError, OutOfMemoryError.
Loaded read(io::Container& from, const Surroundings& around, const Limits& limits);

}  // namespace heliograph::program
