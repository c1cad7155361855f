// Launching kernels that are made for each field.
#pragma once

#include "backend/cuda/ring/prepared.h"
#include "backend/cuda/ring/views.cuh"
#include "backend/cuda/runtime/launch.cuh"

namespace heliograph::backend::cuda {

/// body(F{}) for the ring's field.
template <class Body>
void with_field(FieldKind kind, Body body) {
  switch (kind) {
    case FieldKind::field32:
      return body(Field32{});
    case FieldKind::field50:
      return body(Field50{});
    case FieldKind::field60:
      return body(Field60{});
  }
}

inline const CudaRing& own_ring(const device::PreparedRing& ring) { return own_as<CudaRing>(ring); }

}  // namespace heliograph::backend::cuda
