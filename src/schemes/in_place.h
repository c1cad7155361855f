// a += b in the memory of `a`, if no other object refers to it.
#pragma once

#include <utility>

#include "device/observer.h"
#include "device/shape.h"
#include "heliograph/errors.h"

namespace heliograph::schemes {

/// Sets `a` to combine(over), which has a's shape and number of values. `over`: a's memory has no other owner, and no
/// recording refers to it. combine may then overwrite a's memory, after all steps that may throw. Throws ShapeError if b
/// does not broadcast to a's shape.
template <class C, class Combine>
void become(C& a, const device::Shape& of_b, std::size_t width_of_b, Combine combine) {
  const device::Shape shape = a.shape();
  if (device::broadcast_shapes(shape, of_b) != shape)
    throw ShapeError("cannot update in place: a tensor of shape " + device::to_string(of_b) +
                     " does not broadcast into one of shape " + device::to_string(shape));
  if (width_of_b > a.slots())
    throw ShapeError("cannot update in place: " + std::to_string(width_of_b) + " values do not fit " +
                     std::to_string(a.slots()) + " slots");
  C made = combine(a.unique() && !a.data().shared() && !device::observed());
  a = std::move(made);
}

}  // namespace heliograph::schemes
