// What a composite call is: a sequence of smaller calls, on every backend.
#pragma once

#include <functional>

#include "device/call.h"

namespace heliograph::device {

/// The calls that a composite (or Tensor, or Gather) stands for, some of them composites; empty for the other kernels.
/// Throws InternalError where its scratch is smaller than scratch_bytes says.
std::vector<Call> expand(const Call& call);

/// Memory of so many items and components over some primes.
using Room = std::function<View(std::size_t items, std::size_t components, const PrimeList& primes)>;
/// What a linear sum stands for, with room wherever it is found; the last of the calls is the division, without scratch.
std::vector<Call> expand(const LinearSum& call, const Room& room);
/// The same of sums of limbs: without scratch, but for two limbs of room.
std::vector<Call> expand(const LimbSums& call, const Room& room);

/// Key switches of a call whose sums are divided at once: what scratch there is for.
inline constexpr std::size_t kKeysAtOnce = 8;

/// Bytes of scratch that a call wants for `items` items of its batch; 0 for one that takes none.
std::size_t scratch_bytes(const Call& call, std::size_t items);

/// Whether two operands are the same items and components of the same memory: one need not be read for the other.
bool same_operand(const View& a, const View& b);

}  // namespace heliograph::device
