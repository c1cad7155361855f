// Calls whose operands are all on one member. The member executes them unchanged, without the overhead of a mesh.
#include <array>

#include "mesh/composites.h"

namespace heliograph::mesh {

template <class C>
bool MeshKernels::directly(Queue& q, const C& call) {
  constexpr std::size_t kMost = 64;  // largest number of views of a call
  std::array<MeshMemory*, kMost> memories{};
  std::optional<std::size_t> member;
  std::size_t views = 0;
  bool whole = true, plain = true;
  device::each_view(call, [&](const View& v, Access access) {
    if (!whole || v.items() == 0 || views == kMost) return void(whole = false);
    MeshMemory& memory = *(memories[views++] = &state_->find(v));
    const std::optional<std::size_t> sole = memory.sole();
    whole = sole && (!member || *member == *sole);
    member = sole;
    plain = plain && (access == Access::read || memory.copies.empty());
  });
  if (!whole || !member) return false;
  const std::size_t m = *member;
  C mine = call;
  views = 0;
  device::each_view(mine, [&](View& v, Access access) {
    MeshMemory& memory = *memories[views++];
    if (access != Access::read) memory.placement_fixed = true;
    if (state_->here(m)) v.data = memory.local(m)->address() + (v.data - memory.address());
  });
  std::optional<Operation> op;
  if (!plain) {  // cached copies on other members become invalid
    op.emplace(*state_, q);
    device::each_view(call, [&](const View& v, Access access) {
      if (access != Access::read) op->writes(v);
    });
  }
  if (!state_->here(m)) return true;
  device::each_constant(mine, [&](const auto& constant) { on(constant, m); });
  if constexpr (requires { mine.scratch; }) {
    if (!op) op.emplace(*state_, q);
    post_in_stretches(*op, m, mine);
  } else {
    MeshQueue& queue = own(q);
    queue.touch(m);
    const device::Call there = std::move(mine);
    const auto task = [&to = queue.queue(m), &there] { to.enqueue(there); };
    if (op || !state_->run_here(m, task)) state_->post(m, [&to = queue.queue(m), there] { to.enqueue(there); });
  }
  return true;
}

bool MeshKernels::directly(Queue& q, const device::Call& call) {
  return std::visit(
      [&]<class C>(const C& c) {
        if constexpr (OfTfhe<C>)
          return false;
        else
          return directly(q, c);
      },
      call);
}

}  // namespace heliograph::mesh
