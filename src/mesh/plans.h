// Plans of composites and their scratch as one member has them.
#pragma once

#include <algorithm>

#include "mesh/kernels.h"

namespace heliograph::mesh {

/// What was prepared for this mesh, on member `m`; null for null. Throws MismatchError.
std::shared_ptr<const PreparedRing> ring_on(const std::shared_ptr<const PreparedRing>& ring, std::size_t m);
std::shared_ptr<const PreparedConversion> conversion_on(const std::shared_ptr<const PreparedConversion>& c, std::size_t m);
const MeshConversion& mesh_of(const std::shared_ptr<const PreparedConversion>& c);

std::shared_ptr<device::DividePlan> plan_on(const device::DividePlan& plan, std::size_t m);
std::shared_ptr<KeySwitchPlan> plan_on(const KeySwitchPlan& plan, std::size_t m);
std::shared_ptr<MultiplyPlan> plan_on(const MultiplyPlan& plan, std::size_t m);

/// Scratch of a part's call and the items it takes at a time.
struct Scratch {
  std::byte* address;
  std::size_t bytes, items;
};

/// `bytes`: what so many items need.
template <class Bytes>
Scratch scratch_for(Operation& op, const Block& part, Bytes bytes) {
  if (!op.state().here(part.member)) return {.address = nullptr, .bytes = 0, .items = 1};
  const std::size_t preferred = op.state().member(part.member).device->kernels().preferred_items(bytes(1));
  Scratch s{.address = nullptr, .bytes = 0, .items = std::clamp<std::size_t>(preferred, 1, part.count)};
  s.bytes = bytes(s.items);
  s.address = op.scratch(part.member, s.bytes);
  return s;
}

}  // namespace heliograph::mesh
