// Programs of instructions.
#include "heliograph/cinnamon.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "any.h"
#include "arrays.h"
#include "bindings.h"
#include "heliograph/program.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace heliograph;
using namespace heliograph::binding;

namespace {

using cinnamon::Item;
using cinnamon::Program;
using cinnamon::Runner;
using Complexes = nb::ndarray<const std::complex<double>, nb::numpy, nb::c_contig, nb::device::cpu>;

const char* kind_of(Item::Kind kind) {
  return kind == Item::Kind::ciphertext ? "ciphertext" : kind == Item::Kind::plaintext ? "plaintext" : "scalar";
}

std::vector<std::tuple<std::string, std::string, std::size_t>> listed(const std::vector<Item>& items) {
  std::vector<std::tuple<std::string, std::string, std::size_t>> all;
  for (const Item& i : items) all.emplace_back(i.name, kind_of(i.kind), i.level);
  return all;
}

/// plaintexts by name: the array of values, and whether they are complex
cinnamon::Constants constants_of(const nb::dict& plaintexts, const nb::dict& values, const nb::dict& scalars,
                                 std::map<std::string, double> scales, double tolerance,
                                 const cinnamon::Constants* recorded) {
  cinnamon::Constants c = recorded ? *recorded : cinnamon::Constants{};
  c.tolerance = tolerance, c.scales = std::move(scales);
  for (const auto& [name, p] : plaintexts)
    c.plaintexts.emplace(nb::cast<std::string>(name), nb::cast<const ckks::Plaintext&>(p));
  for (const auto& [name, given] : values) {
    const auto pair = nb::cast<nb::tuple>(given);
    const auto array = nb::cast<Complexes>(pair[0]);
    if (array.ndim() != 1) throw ShapeError("the values of a plaintext must be an array of one axis");
    ckks::Values v{.width = array.size(), .complex = nb::cast<bool>(pair[1])};
    v.data.assign(array.data(), array.data() + array.size());
    c.values.emplace(nb::cast<std::string>(name), std::move(v));
  }
  for (const auto& [name, s] : scalars) c.scalars.emplace(nb::cast<std::string>(name), nb::cast<double>(s));
  return c;
}

template <class Secret, class Keys>
Keys made_keys(const Program& program, const Secret& secret, const Keys& base, const nb::object& progress) {
  const Released released(progress);
  return program.keys(secret, base);
}

nb::dict run(const Runner& runner, const nb::dict& inputs) {
  std::map<std::string, AnyCiphertext> given, results;
  for (const auto& [name, x] : inputs) given.emplace(nb::cast<std::string>(name), ciphertext_of(x));
  {
    const Released released;
    results = runner(given);
  }
  nb::dict named;
  for (const auto& [name, x] : results) std::visit([&](const auto& c) { named[name.c_str()] = nb::cast(c); }, x);
  return named;
}

}  // namespace

void bind_cinnamon(nb::module_& m) {
  nb::class_<Program>(m, "Program")
      .def_prop_ro("chips", &Program::chips)
      .def_prop_ro("instructions", &Program::instructions)
      .def_prop_ro("counts", &Program::counts)
      .def_prop_ro("inputs", [](const Program& p) { return listed(p.inputs()); })
      .def_prop_ro("outputs", [](const Program& p) { return listed(p.outputs()); })
      .def_prop_ro("keys", nb::overload_cast<>(&Program::keys, nb::const_))
      .def_prop_ro("levels", &Program::levels)
      .def_prop_ro("special", &Program::special)
      .def("files", &Program::files, Unlocked())
      .def("spec", &Program::spec, "n"_a, "bits"_a = 27.8, "insecure"_a = false, Unlocked())
      .def("scales", &Program::scales, "parameters"_a, "given"_a, "tolerance"_a, Unlocked())
      .def(
          "make_keys",
          [](const Program& program, const ckks::SecretKey& secret, const ckks::EvaluationKeys& base,
             const nb::object& progress) { return made_keys(program, secret, base, progress); },
          "secret"_a, "base"_a, "progress"_a = nb::none())
      .def(
          "make_keys",
          [](const Program& program, const exact::SecretKey& secret, const exact::EvaluationKeys& base,
             const nb::object& progress) { return made_keys(program, secret, base, progress); },
          "secret"_a, "base"_a, "progress"_a = nb::none());
  m.def("load", &Program::load, "folder"_a, Unlocked());
  m.def("parse", &Program::parse, "files"_a, Unlocked());
  nb::class_<cinnamon::Constants>(m, "Constants");
  m.def(
      "write",
      [](const RecordedProgram& program, std::size_t chips, const std::string& switching, std::vector<std::string> inputs,
         std::vector<std::string> results) {
        using Switching = cinnamon::Writing::Switching;
        const std::map<std::string, Switching> kinds = {
            {"broadcast", Switching::broadcast}, {"sum", Switching::sum}, {"aggregate", Switching::aggregate}};
        const auto found = kinds.find(switching);
        if (found == kinds.end())
          throw ParameterError("switching must be \"broadcast\", \"sum\" or \"aggregate\", got " + switching);
        cinnamon::Written made = cinnamon::write(program, {chips, found->second, std::move(inputs), std::move(results)});
        return std::pair(std::move(made.program), std::move(made.constants));
      },
      "program"_a, "chips"_a, "switching"_a, "inputs"_a, "results"_a, Unlocked());
  nb::class_<Runner>(m, "Runner")
      .def(
          "__init__",
          [](Runner* self, const Program& program, const nb::object& given_keys, const nb::dict& plaintexts,
             const nb::dict& values, const nb::dict& scalars, std::map<std::string, double> scales, double tolerance,
             const cinnamon::Constants* recorded, bool fuse, bool merge, const std::string& graph, bool hints,
             std::vector<std::string> devices, std::size_t memory) {
            const AnyKeys keys = keys_of(given_keys);
            cinnamon::Constants constants =
                constants_of(plaintexts, values, scalars, std::move(scales), tolerance, recorded);
            using Graph = cinnamon::Execution::Graph;
            const std::map<std::string, Graph> kinds = {
                {"", Graph::none}, {"stream", Graph::stream}, {"branches", Graph::branches}};
            const auto found = kinds.find(graph);
            if (found == kinds.end()) throw ParameterError("graph must be None, \"stream\" or \"branches\", got " + graph);
            const cinnamon::Execution how{fuse, merge, found->second, hints, std::move(devices), memory};
            const Released released;
            new (self) Runner(program, keys, std::move(constants), how);
          },
          "program"_a, "keys"_a, "plaintexts"_a, "values"_a, "scalars"_a, "scales"_a, "tolerance"_a,
          nb::arg("recorded").none() = nb::none(), "fuse"_a = true, "merge"_a = true, "graph"_a = "branches",
          "hints"_a = true, "devices"_a = std::vector<std::string>(), "memory"_a = 0)
      .def("__call__", &run, "inputs"_a)
      .def_prop_ro("calls", [](const Runner& r) { return r.summary().calls; })
      .def_prop_ro("work",
                   [](const Runner& r) {
                     const Runner::Summary s = r.summary();
                     return std::tuple(s.bytes_read, s.bytes_written, s.products);
                   })
      .def_prop_ro("scales", [](const Runner& r) { return r.summary().scales; })
      .def_prop_ro("bytes", [](const Runner& r) { return r.summary().bytes; })
      .def_prop_ro("spilled",
                   [](const Runner& r) {
                     const Runner::Summary s = r.summary();
                     return std::tuple(s.host_bytes, s.bytes_out, s.bytes_in);
                   })
      .def_prop_ro("devices", [](const Runner& r) { return r.summary().devices; });
}
