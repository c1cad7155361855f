// The definition of composites as sequences of smaller calls, which holds for every backend.
#pragma once

#include <functional>

#include "device/call.h"

namespace heliograph::device {

/// Returns the parts of a composite (or of Tensor or Gather); parts may be composites. Returns an empty list for other
/// kernels. Throws InternalError if the scratch is smaller than scratch_bytes().
std::vector<Call> expand(const Call& call);

/// Allocates a view with this many items and components, over these primes.
using Room = std::function<View(std::size_t items, std::size_t components, const PrimeList& primes)>;
/// Expand a call with buffers from `room` instead of scratch. The last call of an expanded LinearSum is its division, and
/// has no scratch.
std::vector<Call> expand(const LinearSum& call, const Room& room);
std::vector<Call> expand(const BabySteps& call, const Room& room);
std::vector<Call> expand(const PartialKeySwitch& call, const Room& room);
std::vector<Call> expand(const GiantSteps& call, const Room& room);
/// Expands sums of limbs, with two limbs from `room` instead of scratch.
std::vector<Call> expand(const LimbSums& call, const Room& room);

/// Number of key switches whose sums are divided together; it limits the scratch.
inline constexpr std::size_t kKeysAtOnce = 8;

/// Returns the bytes of scratch of a call for `items` items of its batch; 0 if the call takes no scratch.
std::size_t scratch_bytes(const Call& call, std::size_t items);

/// Returns whether two operands are the same items and components of the same memory, so that they need to be read only
/// once.
bool same_operand(const View& a, const View& b);

}  // namespace heliograph::device
