// Table of TFHE loops for vectors of doubles and of 32-bit words.
#pragma once

#include "backend/cpu/loops/blind_rotation.h"
#include "backend/cpu/loops/lwe_loops.h"

namespace heliograph::backend::cpu {
namespace {

template <class Doubles, class Words>
constexpr TfheOps tfhe_loops(const char* name) {
  return {.name = name,
          .lanes = Doubles::kLanes,
          .forward = fourier_forward<Doubles>,
          .rotate = rotate<Doubles>,
          .switch_rows = switch_rows<Words>,
          .digits = lwe_digits,
          .combine = lwe_combine};
}

}  // namespace
}  // namespace heliograph::backend::cpu
