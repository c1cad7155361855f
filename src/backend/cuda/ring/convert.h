// Conversion passes of composites: one launch for each.
#pragma once

#include "backend/cuda/ring/forms.h"
#include "backend/cuda/ring/ntt.cuh"

namespace heliograph::backend::cuda {

inline constexpr std::size_t kMostSteps = 16;  // maximum conversions of one launch

/// Conversions of one call: one conversion for all components, or one for each component (mod up of digits).
struct ConvertPass {
  struct Step {
    const CudaConversion* conversion;
    u32 first = 0;                // limb of x that is source 0
    u32 skip_at = ~0u, skip = 0;  // target j is limb j if j < skip_at, else limb j + skip
  };
  const char* name;
  Source x;
  std::vector<Step> steps;
  const CudaConversion* lower = nullptr;  // converts the result before it is stored; null: none
  const device::View* own = nullptr;
  const device::View* add = nullptr;  // addend of the result's first components; null: none
  const device::PrimeList* place = nullptr;
};
void run_pass(device::Queue& queue, const ConvertPass& pass, math::Word from, const device::View& out);

}  // namespace heliograph::backend::cuda
