// Public functions about this process's device.
#include "heliograph/device.h"
#include "mesh/mesh.h"
#include "mesh/transport/mpi.h"

namespace heliograph {

double product_ceiling() { return mesh::default_device().product_ceiling(); }
double sum_ceiling() { return mesh::default_device().sum_ceiling(); }

std::string device_name() { return mesh::default_device().name(); }

Traffic device_traffic() {
  const device::Traffic t = mesh::default_device().traffic();
  return {.uploads = t.uploads,
          .upload_bytes = t.upload_bytes,
          .downloads = t.downloads,
          .download_bytes = t.download_bytes,
          .launches = t.launches,
          .allocations = t.allocations,
          .waits = t.waits};
}

std::optional<Cycles> device_cycles() {
  device::Simulation* const simulation = mesh::default_device().simulation();
  if (simulation == nullptr) return std::nullopt;
  const device::Cycles c = simulation->cycles();
  return Cycles{.cycles = c.cycles,
                .predicted = c.predicted,
                .waited = c.waited,
                .lists = c.lists,
                .instructions = c.descriptors,
                .bytes_read = c.bytes_read,
                .bytes_written = c.bytes_written,
                .stalled = c.stalled,
                .sampled = c.sampled,
                .moved = c.moved,
                .busy = c.busy,
                .clock = c.clock};
}

std::vector<Span> device_timeline() {
  std::vector<Span> all;
  device::Simulation* const simulation = mesh::default_device().simulation();
  if (simulation == nullptr) return all;
  for (device::Span& s : simulation->timeline()) all.push_back({std::move(s.unit), s.begin, s.end});
  return all;
}

Moved device_moved() {
  const auto* const mesh = dynamic_cast<const mesh::Mesh*>(&mesh::default_device());
  if (mesh == nullptr) return {};
  const mesh::Moved m = mesh->moved();
  return {.exchanges = m.exchanges, .bytes = m.bytes, .staged_bytes = m.staged_bytes, .sent_bytes = m.sent_bytes};
}

Ranks device_ranks() {
  const auto* const mesh = dynamic_cast<const mesh::Mesh*>(&mesh::default_device());
  if (mesh == nullptr) return {};
  return {.rank = mesh->rank(), .count = mesh->ranks()};
}

void meet_ranks() { mesh::default_device().confirm("the barrier", ""); }
bool has_mpi() { return mesh::mpi::trouble().empty(); }

std::vector<std::string> describe_devices() { return mesh::default_device().report(); }

}  // namespace heliograph
