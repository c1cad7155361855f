// Composite kernels item by item: each thread takes whole items, so that one item's data stays in its caches.
#include "backend/cpu/parallel.h"

namespace heliograph::backend::cpu {

using device::KeySwitchPlan;
using device::MultiplyPlan;

template <class F>
void CpuKernels::each_item(std::size_t items, std::size_t bytes, Workspace w, F&& f) {
  const std::size_t threads = static_cast<std::size_t>(threads_.usable()), whole = items / threads * threads;
  std::vector<Workspace> slots(threads, w);
  if (whole > 0) {
    for (Workspace& slot : slots) slot = w.split(bytes);
  }
  threads_.parallel_for(whole, 1, [&](std::size_t item, std::size_t worker) { f(item, slots[worker]); });
  for (std::size_t item = whole; item < items; ++item) f(item, slots[0]);
}

void CpuKernels::do_decompose(Queue& q, const KeySwitchPlan& plan, const View& x, const View& digits, Workspace w) {
  each_item(x.items(), decompose_workspace(plan, 1), w, [&](std::size_t i, Workspace part) {
    Kernels::do_decompose(q, plan, x.item(i), digits.item(i), part);
  });
}

void CpuKernels::do_apply_key(Queue& q, const KeySwitchPlan& plan, const View& digits, const View& key, const View* add,
                              const View& out, Workspace w) {
  each_item(out.items(), apply_key_workspace(plan, 1), w, [&](std::size_t i, Workspace part) {
    const View more = add ? add->item(i) : View{};
    Kernels::do_apply_key(q, plan, digits.item(i), key, add ? &more : nullptr, out.item(i), part);
  });
}

void CpuKernels::do_key_switch(Queue& q, const KeySwitchPlan& plan, const View& x, const View& key, const View* add,
                               const View& out, Workspace w) {
  each_item(out.items(), key_switch_workspace(plan, 1), w, [&](std::size_t i, Workspace part) {
    const View more = add ? add->item(i) : View{};
    Kernels::do_key_switch(q, plan, x.item(i), key, add ? &more : nullptr, out.item(i), part);
  });
}

void CpuKernels::do_bfv_multiply(Queue& q, const MultiplyPlan& plan, const View& a, const View& b, const View& out, Workspace w) {
  each_item(out.items(), bfv_multiply_workspace(plan, 1, a.components, b.components), w, [&](std::size_t i, Workspace part) {
    Kernels::do_bfv_multiply(q, plan, a.item(i), b.item(i), out.item(i), part);
  });
}

}  // namespace heliograph::backend::cpu
