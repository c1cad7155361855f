// The device of this process.
#include "heliograph/device.h"

#include <nanobind/stl/tuple.h>

#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace heliograph;
using namespace heliograph::binding;

void bind_device(nb::module_& m) {
  m.def("describe", &describe_devices);
  m.def("name", &device_name);
  m.def("host_memory", &host_memory);
  m.def("has_mpi", &has_mpi);
  m.def("moved", [] {
    const Moved moved = device_moved();
    nb::dict all;
    all["exchanges"] = moved.exchanges, all["bytes"] = moved.bytes, all["staged_bytes"] = moved.staged_bytes;
    all["sent_bytes"] = moved.sent_bytes;
    return all;
  });
  m.def("traffic", [] {
    const Traffic t = device_traffic();
    nb::dict all;
    all["uploads"] = t.uploads, all["upload_bytes"] = t.upload_bytes;
    all["downloads"] = t.downloads, all["download_bytes"] = t.download_bytes;
    all["launches"] = t.launches, all["allocations"] = t.allocations, all["waits"] = t.waits;
    return all;
  });
  m.def("cycles", []() -> nb::object {
    std::optional<Cycles> c;
    {
      const Released released;
      c = device_cycles();
    }
    if (!c) return nb::none();
    nb::dict all, busy;
    all["cycles"] = c->cycles, all["predicted"] = c->predicted, all["waited"] = c->waited;
    all["lists"] = c->lists, all["instructions"] = c->instructions;
    all["bytes_read"] = c->bytes_read, all["bytes_written"] = c->bytes_written;
    all["stalled"] = c->stalled, all["sampled"] = c->sampled, all["moved"] = c->moved;
    for (const auto& [unit, count] : c->busy) busy[unit.c_str()] = count;
    all["busy"] = busy, all["clock"] = c->clock;
    return all;
  });
  m.def("timeline", []() -> std::vector<std::tuple<std::string, std::uint64_t, std::uint64_t>> {
    std::vector<std::tuple<std::string, std::uint64_t, std::uint64_t>> all;
    const Released released;
    for (Span& i : device_timeline()) all.emplace_back(std::move(i.unit), i.begin, i.end);
    return all;
  });
  m.def("ranks", [] {
    const Ranks r = device_ranks();
    return std::pair(r.rank, r.count);
  });
  m.def("meet_ranks", &meet_ranks, Unlocked());
  m.def("product_ceiling", &product_ceiling, Unlocked());
  m.def("sum_ceiling", &sum_ceiling, Unlocked());
}
