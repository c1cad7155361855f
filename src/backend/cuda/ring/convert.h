// Conversion passes that composites put together: each one launch.
#pragma once

#include "backend/cuda/ring/forms.h"
#include "backend/cuda/ring/ntt.cuh"

namespace heliograph::backend::cuda {

inline constexpr std::size_t kMostSteps = 16;  // conversions that one launch makes

/// Conversions of one call: one for all components, or one for each (digits raised to their extended base).
struct ConvertPass {
  struct Step {
    const CudaConversion* conversion;
    u32 first = 0;                // source 0 is this limb of x
    u32 skip_at = ~0u, skip = 0;  // target j is limb j, or j + skip from skip_at on
  };
  const char* name;
  Source x;
  std::vector<Step> steps;
  const CudaConversion* lower = nullptr;  // applied to the result before it is stored
  const device::View* own = nullptr;
  const device::View* add = nullptr;  // added to the first components of the result
  const device::PrimeList* place = nullptr;
};
void run_pass(device::Queue& queue, const ConvertPass& pass, math::Word from, const device::View& out);

}  // namespace heliograph::backend::cuda
