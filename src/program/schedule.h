// The schedule of a whole program: layers of independent calls, equal calls batched into one, and a memory layout.
#pragma once

#include "program/program.h"

namespace heliograph::program {

/// Returns the layer of each step. A step's layer follows the layers of all steps that write the step's operands, and of all
/// earlier steps that read its outputs.
std::vector<u32> layers_of(const Program::Parts& parts);

/// A position in the arena of a replay, or in memory of a result.
struct Spot {
  u32 area = 0;
  std::size_t offset = 0;  // offset of the place's first byte in its area
};

struct Area {
  std::size_t bytes = 0;
  bool result = false;  // whether the area has separate memory; otherwise it is at `offset` of the arena
  std::size_t offset = 0;
  u32 first = 0, last = 0;  // first and last layer that uses the area
};

struct Schedule {
  struct Work {
    Step step;                // the step; in a batch, `places` are the places of its first call
    std::size_t scratch = 0;  // area of the call's scratch
    std::vector<Spot> spots;  // location of each view that is in a made or input place
  };
  std::vector<std::vector<Work>> layers;
  std::vector<Area> areas;
  std::vector<Spot> spots;  // indexed by place: locations of inputs, and of made places that are used
  std::size_t arena_bytes = 0, result_bytes = 0;
  std::size_t launches() const;
};

/// Returns null if the program's memory cannot be laid out again. Possible reasons are: a device of several parts,
/// calls of several sessions, prepared keys, secrets that must be wiped, inputs that are not dense or share memory.
std::unique_ptr<Schedule> schedule(const Program::Parts& parts);

}  // namespace heliograph::program
