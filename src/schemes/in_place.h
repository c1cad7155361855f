// a += b: in a's own memory, where nothing else shows it.
#pragma once

#include <utility>

#include "device/observer.h"
#include "device/shape.h"
#include "heliograph/errors.h"

namespace heliograph::schemes {

/// `a` becomes combine(whether it may write over a's memory), which has a's shape and values. Nobody else has that memory, no
/// recording sees it, and `combine` writes after all that may fail. Throws ShapeError where b does not broadcast into `a`.
template <class C, class Combine>
void become(C& a, const device::Shape& of_b, std::size_t width_of_b, Combine combine) {
  const device::Shape shape = a.shape();
  if (device::broadcast_shapes(shape, of_b) != shape)
    throw ShapeError("in place, a tensor of shape " + device::to_string(of_b) + " does not broadcast into one of shape " +
                     device::to_string(shape));
  if (width_of_b > a.slots())
    throw ShapeError("in place, " + std::to_string(width_of_b) + " values do not go into " + std::to_string(a.slots()) +
                     " slots");
  C made = combine(a.unique() && !a.data().shared() && !device::observed());
  a = std::move(made);
}

}  // namespace heliograph::schemes
