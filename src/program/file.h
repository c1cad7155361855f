// Programs in files: calls, constants and their words, as arrays of a container (docs/format.md).
#pragma once

#include "io/container.h"
#include "program/verify.h"

namespace heliograph::program {

/// Writes arrays "calls", "kernels" and "constant0", "constant1", ... A session is stored as its index in `sessions`;
/// `of_results` has the session of each result. Throws RecordingError for calls of other sessions, and for data that a
/// file cannot hold, such as secrets.
void write(const Program::Parts& parts, const std::vector<const Session*>& sessions,
           const std::vector<const Session*>& of_results, io::Container& to);

struct Loaded {
  Program::Parts parts;
  std::vector<std::vector<u64>> below;  // for each limb of each result, an exclusive bound on its words
};

/// Reads a program for the same list of parameter sets, on this or another device. The file may be malicious, so the
/// complete program is verified (program/verify.h) before constants are prepared and words uploaded. Removes the arrays
/// from `from`. Throws DamagedFileError, LimitError, OutOfMemoryError.
Loaded read(io::Container& from, const Surroundings& around, const Limits& limits);

}  // namespace heliograph::program
