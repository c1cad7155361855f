// Recorded programs.
#include "heliograph/program.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>

#include "any.h"
#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace heliograph;
using namespace heliograph::binding;

namespace {

/// Makes an operand of each tensor and its keys (None if it has none).
Operands operands_of(const nb::list& tensors, const nb::list& keys) {
  if (tensors.size() != keys.size()) throw InternalError("each operand must have keys or None");
  std::vector<Operand> operands;
  operands.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) operands.push_back({ciphertext_of(tensors[i]), keys_of(keys[i])});
  return Operands(std::move(operands));
}

nb::list list_of(const std::vector<AnyCiphertext>& results) {
  nb::list list;
  for (const AnyCiphertext& x : results) std::visit([&](const auto& c) { list.append(nb::cast(c)); }, x);
  return list;
}

ProgramLimits limits_of(std::uint64_t memory, std::optional<std::uint64_t> products) {
  ProgramLimits limits{.memory = memory};
  if (products) limits.products = *products;
  return limits;
}

void bind_operands(nb::module_& m) {
  nb::class_<Operands>(m, "Operands")
      .def(
          "__init__",
          [](Operands* self, const nb::list& tensors, const nb::list& keys) {
            new (self) Operands(operands_of(tensors, keys));
          },
          "tensors"_a, "keys"_a)
      .def(
          "guarded",
          [](const Operands& o, const nb::handle& result) {
            const AnyCiphertext x = o.guarded(ciphertext_of(result));
            return std::visit([](const auto& c) -> nb::object { return nb::cast(c); }, x);
          },
          "result"_a)
      .def_prop_ro("signature", [](const Operands& o) { return nb::bytes(o.signature().data(), o.signature().size()); })
      .def_prop_ro("shapes", [](const Operands& o) { return nb::bytes(o.shapes().data(), o.shapes().size()); });
}

void bind_recorded_program(nb::module_& m) {
  nb::class_<RecordedProgram>(m, "RecordedProgram")
      .def(
          "__call__",
          [](const RecordedProgram& program, const Operands& operands) {
            std::vector<AnyCiphertext> results;
            {
              const Released released;
              results = program(operands);
            }
            return list_of(results);
          },
          "operands"_a)
      .def(
          "to_bytes",
          [](const RecordedProgram& p, const std::string& note) {
            Bytes bytes;
            {
              const Released released;
              bytes = p.to_bytes(note);
            }
            return bytes_of(bytes);
          },
          "note"_a)
      .def("save", &RecordedProgram::save, "path"_a, "note"_a, Unlocked())
      .def_prop_ro("result_kinds", &RecordedProgram::result_kinds)
      .def_prop_ro("operands", [](const RecordedProgram& p) { return list_of(p.operands()); })
      .def_prop_ro("results", [](const RecordedProgram& p) { return list_of(p.results()); })
      .def_prop_ro("key_numbers", &RecordedProgram::key_numbers)
      .def("shares_calls_with", &RecordedProgram::shares_calls_with, "other"_a)
      .def_prop_ro("calls", [](const RecordedProgram& p) { return p.summary().calls; })
      .def_prop_ro("launches", [](const RecordedProgram& p) { return p.summary().launches; })
      .def_prop_ro("depth", [](const RecordedProgram& p) { return p.summary().depth; })
      .def_prop_ro("peak_bytes", [](const RecordedProgram& p) { return p.summary().peak_bytes; })
      .def_prop_ro("constant_bytes", [](const RecordedProgram& p) { return p.summary().constant_bytes; })
      .def_prop_ro("bytes_read", [](const RecordedProgram& p) { return p.summary().bytes_read; })
      .def_prop_ro("bytes_written", [](const RecordedProgram& p) { return p.summary().bytes_written; })
      .def_prop_ro("products", [](const RecordedProgram& p) { return p.summary().products; })
      .def_prop_ro("times",
                   [](const RecordedProgram& p) {
                     const RecordedProgram::Times t = p.times();
                     return std::pair(t.floor, t.predicted);
                   })
      .def_prop_ro("timeline",
                   [](const RecordedProgram& p) {
                     nb::list lanes;
                     for (const RecordedProgram::Timeline::Lane& lane : p.timeline().lanes) {
                       nb::list events;
                       for (const auto& e : lane.events) events.append(nb::make_tuple(e.name, e.start, e.end));
                       lanes.append(nb::make_tuple(lane.member, events));
                     }
                     return lanes;
                   })
      .def_prop_ro("cycles", [](const RecordedProgram& p) { return p.summary().cycles; })
      .def_prop_ro("replays", [](const RecordedProgram& p) { return p.summary().replays; })
      .def_prop_ro("graphs", [](const RecordedProgram& p) { return p.summary().graphs; });
}

void bind_readers(nb::module_& m) {
  m.def(
      "from_bytes",
      [](const nb::object& data, std::uint64_t memory, std::optional<std::uint64_t> products) {
        const GivenBytes bytes(data);
        const Released released;
        return RecordedProgram::from_bytes(bytes.all(), limits_of(memory, products));
      },
      nb::arg("data").none(), "memory"_a, "products"_a.none());
  m.def(
      "load",
      [](const std::string& path, std::uint64_t memory, std::optional<std::uint64_t> products) {
        return RecordedProgram::load(path, limits_of(memory, products));
      },
      "path"_a, "memory"_a, "products"_a.none(), Unlocked());
}

void bind_recording(nb::module_& m) {
  nb::class_<Recording>(m, "Recording")
      .def(
          "__init__",
          [](Recording* self, const Operands& operands, bool dry) {
            new (self) Recording(operands, dry ? Recording::Mode::dry : Recording::Mode::performed);
          },
          "operands"_a, "dry"_a = false)
      .def(
          "finish",
          [](Recording& self, const nb::list& results, const nb::list& known) {
            std::vector<AnyCiphertext> given;
            for (const nb::handle x : results) given.push_back(ciphertext_of(x));
            std::vector<RecordedProgram> programs;
            for (const nb::handle p : known) programs.push_back(nb::cast<const RecordedProgram&>(p));
            return self.finish(given, programs);
          },
          "results"_a, "known"_a)
      .def("stop", &Recording::stop);
}

}  // namespace

void bind_program(nb::module_& m) {
  bind_operands(m);
  bind_recorded_program(m);
  bind_readers(m);
  bind_recording(m);
}
