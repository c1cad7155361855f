#include "device/chunks.h"

#include <algorithm>

namespace heliograph::device {

void for_chunks(std::vector<View> views, std::size_t preferred, const std::function<void(const std::vector<View>&)>& step) {
  const std::function<void(const std::vector<View>&)> walk = [&](const std::vector<View>& part) {
    const View& lead = part.front();
    const std::size_t items = lead.items();
    if (items == 0) return;
    if (items <= preferred || lead.axes == 0) {
      step(part);
      return;
    }
    const std::size_t inner = items / lead.shape[0], rows = std::max<std::size_t>(1, preferred / inner);
    for (std::size_t first = 0; first < lead.shape[0]; first += rows) {
      std::vector<View> next;
      for (const View& v : part) {
        View row = v.with_leading(first, std::min(rows, lead.shape[0] - first));
        if (inner > preferred) {  // one entry of the axis has too many items: drop the axis
          for (int i = 0; i + 1 < row.axes; ++i) row.shape[i] = row.shape[i + 1], row.stride[i] = row.stride[i + 1];
          --row.axes;
        }
        next.push_back(row);
      }
      walk(next);
    }
  };
  walk(views);
}

namespace {

template <class C>
View result_of(const C& call) {
  View out;
  each_view(call, [&](const View& v, Access access) {
    if (access != Access::read) out = v;
  });
  return out;
}

/// Returns the operands that have the result's batch axes.
template <class C>
std::vector<View*> batched(C& call) {
  const View out = result_of(call);
  std::vector<View*> found;
  each_view(call, [&](View& v, Access) {
    if (v.axes == out.axes && v.shape == out.shape) found.push_back(&v);
  });
  return found;
}

}  // namespace

std::size_t items_of(const Call& call) {
  return std::visit([](const auto& c) { return result_of(c).items(); }, call);
}

std::size_t stretch_of(const Call& call, std::size_t preferred) {
  return std::visit(
      [&]<class C>(const C& c) {
        const View out = result_of(c);
        const std::size_t all = std::max<std::size_t>(1, out.items());
        if constexpr (std::is_same_v<C, BabySteps>) return all;  // the result has several items for each item of an operand
        bool alike = true;
        each_view(c, [&](const View& v, Access) {
          alike = alike && (v.items() == 1 || (v.axes == out.axes && v.shape == out.shape));
        });
        return alike ? std::clamp<std::size_t>(preferred, 1, all) : all;
      },
      call);
}

void for_stretches(const Call& call, std::size_t preferred, const std::function<void(Call&)>& step) {
  std::visit(
      [&]<class C>(C whole) {
        std::vector<View> views;
        for (const View* v : batched(whole)) views.push_back(*v);
        for_chunks(std::move(views), preferred, [&](const std::vector<View>& stretch) {
          C part = whole;
          const std::vector<View*> to = batched(part);
          for (std::size_t i = 0; i < to.size(); ++i) *to[i] = stretch[i];
          Call one = std::move(part);
          step(one);
        });
      },
      call);
}

Workspace scratch_of(const Call& call) {
  return std::visit(
      [](const auto& c) -> Workspace {
        if constexpr (requires { c.scratch; }) return c.scratch;
        return {};
      },
      call);
}

void give_scratch(Call& call, const Workspace& scratch) {
  std::visit(
      [&](auto& c) {
        if constexpr (requires { c.scratch; }) c.scratch = scratch;
      },
      call);
}

}  // namespace heliograph::device
