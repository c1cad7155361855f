// A program as a whole: which calls may run side by side, alike ones as one call on a batch, and where everything lies.
#pragma once

#include "program/program.h"

namespace heliograph::program {

/// For each step the layer it belongs to: after all that wrote what it reads or writes, and all that read what it writes.
std::vector<u32> layers_of(const Program::Parts& parts);

/// A place among the bytes that one replay works in, or in memory of its own.
struct Spot {
  u32 area = 0;
  std::size_t offset = 0;  // of the place's first byte in its area
};

struct Area {
  std::size_t bytes = 0;
  bool result = false;  // in memory of its own; else at `offset` of the arena
  std::size_t offset = 0;
  u32 first = 0, last = 0;  // layers that use it
};

struct Schedule {
  struct Work {
    Step step;                // its places are those of the parts; with a batch those of the first call of it
    std::size_t scratch = 0;  // an area
    std::vector<Spot> spots;  // of each view; of made and input places alone
  };
  std::vector<std::vector<Work>> layers;
  std::vector<Area> areas;
  std::vector<Spot> spots;  // of each place: the made ones that are used and the inputs
  std::size_t arena_bytes = 0, result_bytes = 0;
  std::size_t launches() const;
};

/// Null where a part of the program cannot be moved: memory of a device of several, inputs that are no dense tensors of memory of their own, secrets that are
/// wiped, calls of several sessions, prepared keys.
std::unique_ptr<Schedule> schedule(const Program::Parts& parts);

}  // namespace heliograph::program
