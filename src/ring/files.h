// What a tensor from a file may be, and cost.
#pragma once

#include "device/session.h"
#include "device/shape.h"
#include "io/container.h"

namespace heliograph::ring {

/// The header's "shape" of a tensor whose items take `each` bytes in memory, before any is taken. An axis of length zero
/// counts as one: a sum over it is as large as the others make it.
/// DamagedFileError: a shape that no tensor has. LimitError: more than `limit`. OutOfMemoryError: more than there is.
device::Shape read_shape(const io::Container& from, std::size_t each, std::size_t limit, const device::Session& session);

/// Throws MismatchError where parameters of that hash are not the wanted ones (empty: any are), before they are opened.
void require_parameters(const std::string& hash, const std::string& wanted);

}  // namespace heliograph::ring
