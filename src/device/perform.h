// Dispatch of a call to a backend's kernel.
#pragma once

#include "device/device.h"

namespace heliograph::device {

template <class Engine, class C>
concept Performs = requires(Engine& engine, Queue& queue, const C& call) {
  engine.run(queue, call);
};

/// Runs a call by the engine that has a function run(Queue&, const K&) for it; otherwise runs the call's parts
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

template <class Ring, class Lwe>
bool performs(const Call& call) {
  return std::visit([]<class C>(const C&) { return Performs<Ring, C> || Performs<Lwe, C>; }, call);
}

}  // namespace heliograph::device
