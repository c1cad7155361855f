// Composites on complete items: each member computes its own items.
#pragma once

#include "device/expand.h"
#include "mesh/kernels.h"

namespace heliograph::mesh {

/// Posts a composite to a member in chunks of the size that the member prefers, with scratch on the member.
void post_in_stretches(Operation& op, std::size_t m, const Call& call);

template <class C>
bool MeshKernels::by_items(Queue& q, const C& call) {
  const View& out = [&]() -> const View& {
    if constexpr (requires {
                    call.digits;
                    call.x;
                  })
      return call.digits;
    else
      return call.out;
  }();
  if (out.items() == 0) return true;
  Operation op(*state_, q);
  if (runs_over_limbs(op, out)) return false;
  const std::vector<Block> parts = op.parts(out);
  // An input that occurs several times is fetched once.
  std::vector<const View*> inputs;
  std::vector<std::vector<Block>> fetched;
  std::vector<LocalKey> keys;
  device::each_view(call, [&](const View& v, Access access) {
    if (access != Access::read) return;
    inputs.push_back(&v);
    fetched.emplace_back();
    if constexpr (requires { call.key; }) {
      if (&v == &call.key) {
        keys = fetch_key(op, v, call.plan->key_limbs, with_limbs(parts, range(0, call.plan->extended.size())));
        return;
      }
    }
    for (std::size_t i = 0; i + 1 < inputs.size(); ++i) {
      if (same_operand(*inputs[i], v)) fetched.back() = fetched[i];
    }
    if (fetched.back().empty()) fetched.back() = op.fetch(v, with_limbs(parts, range(0, v.limbs)));
  });
  op.writes(out);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t m = parts[i].member;
    C mine = call;
    std::size_t input = 0;
    device::each_view(mine, [&](View& v, Access access) {
      if (access != Access::read) {
        v = parts[i].view;
      } else {
        if (!fetched[input].empty()) v = fetched[input][i].view;
        ++input;
      }
    });
    if constexpr (requires { call.key; })
      mine.key = keys[i].view, mine.plan = on(call.plan, m, keys[i].limbs);
    else
      on(call.plan, m);
    if constexpr (requires { call.turn; }) on(call.turn, m);
    post_in_stretches(op, m, mine);
  }
  return true;
}

}  // namespace heliograph::mesh
