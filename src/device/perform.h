// From a call to a device's own code for it.
#pragma once

#include "device/device.h"

namespace heliograph::device {

/// What has code for a kernel.
template <class Engine, class C>
concept Performs = requires(Engine& engine, Queue& queue, const C& call) {
  engine.run(queue, call);
};

/// Runs a call by whichever has code for its kernel - a `run(Queue&, const K&)` -, else what the kernel stands for
/// (device/expand.h).
template <class Ring, class Lwe>
void perform(Queue& queue, const Call& call, Ring& ring, Lwe& lwe) {
  std::visit(
      [&]<class C>(const C& c) {
        if constexpr (Performs<Ring, C>)
          ring.run(queue, c);
        else if constexpr (Performs<Lwe, C>)
          lwe.run(queue, c);
        else
          queue.expand(c);
      },
      call);
}

/// Whether one of them has code for a call's kernel.
template <class Ring, class Lwe>
bool performs(const Call& call) {
  return std::visit([]<class C>(const C&) { return Performs<Ring, C> || Performs<Lwe, C>; }, call);
}

}  // namespace heliograph::device
