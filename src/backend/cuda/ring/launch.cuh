// Launches of kernels with one variant for each field.
#pragma once

#include "backend/cuda/ring/forms.h"
#include "backend/cuda/ring/views.cuh"
#include "backend/cuda/runtime/launch.cuh"

namespace heliograph::backend::cuda {

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

/// Returns this backend's form of a constant. Throws MismatchError if the constant was not prepared for the queue's device.
template <class Own, class C>
const Own& own_as(device::Queue& q, const C& constant) {
  return device::form_on<Own>(constant, own(q).state().slot());
}
inline const CudaRing& own_ring(device::Queue& q, const device::RingConstant& ring) { return own_as<CudaRing>(q, ring); }
template <class Own, class C>
const Own& own_beside(const CudaRing& ring, const C& constant) {
  return device::form_on<Own>(constant, ring.slot());
}

}  // namespace heliograph::backend::cuda
