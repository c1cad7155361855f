// From a call to a device's own code for it.
#pragma once

#include "device/device.h"

namespace heliograph::device {

/// Runs a call by whichever has code for its kernel - a `run(Queue&, const K&)` -, else what the kernel stands for
/// (device/expand.h).
template <class Ring, class Lwe>
void perform(Queue& queue, const Call& call, Ring& ring, Lwe& lwe) {
  std::visit(
      [&](const auto& c) {
        if constexpr (requires { ring.run(queue, c); })
          ring.run(queue, c);
        else if constexpr (requires { lwe.run(queue, c); })
          lwe.run(queue, c);
        else
          queue.expand(c);
      },
      call);
}

/// Whether one of them has code for a call's kernel.
template <class Ring, class Lwe>
bool performs(const Call& call) {
  return std::visit(
      []<class C>(const C&) {
        return requires(Ring& ring, Lwe& lwe, Queue& queue, const C& c) { ring.run(queue, c); } ||
               requires(Ring& ring, Lwe& lwe, Queue& queue, const C& c) { lwe.run(queue, c); };
      },
      call);
}

}  // namespace heliograph::device
