#include "device/chunks.h"

#include <algorithm>

namespace heliograph::device {

void for_chunks(std::vector<View> views, std::size_t preferred, const Progress& progress,
                const std::function<void(const std::vector<View>&)>& step) {
  const std::size_t total = views.front().items();
  std::size_t done = 0;
  const std::function<void(const std::vector<View>&)> walk = [&](const std::vector<View>& part) {
    const View& lead = part.front();
    const std::size_t items = lead.items();
    if (items == 0) return;
    if (items <= preferred || lead.axes == 0) {
      step(part);
      done += items;
      if (progress) progress(static_cast<double>(done) / static_cast<double>(total));
      return;
    }
    const std::size_t inner = items / lead.shape[0], rows = std::max<std::size_t>(1, preferred / inner);
    for (std::size_t first = 0; first < lead.shape[0]; first += rows) {
      std::vector<View> next;
      for (const View& v : part) {
        View row = v.with_leading(first, std::min(rows, lead.shape[0] - first));
        if (inner > preferred) {  // one row is still too much: drop the axis and go deeper
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

}  // namespace heliograph::device
