// Files of any type: their headers, the places of their arrays, and a writer.
#include "heliograph/container.h"

#include <nanobind/stl/tuple.h>

#include "arrays.h"
#include "bindings.h"
#include "heliograph/files.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace heliograph;
using namespace heliograph::binding;

namespace {

/// Dtypes of files, and NumPy's names of them.
constexpr std::pair<const char*, const char*> kDtypes[] = {
    {"u8", "|u1"}, {"i8", "|i1"}, {"u32", "<u4"}, {"u64", "<u8"}, {"i64", "<i8"}};

std::string numpy_dtype(const std::string& dtype) {
  for (const auto& [own, numpy] : kDtypes)
    if (dtype == own) return numpy;
  throw InternalError("a file has an unknown dtype");
}

std::string file_dtype(const std::string& dtype) {
  for (const auto& [own, numpy] : kDtypes)
    if (dtype == numpy) return own;
  throw DtypeError("cannot write an array of dtype " + dtype + ": it must be one of |u1, |i1, <u4, <u8, <i8");
}

using Described = std::tuple<std::string, std::string, Shape>;

}  // namespace

void bind_container(nb::module_& m) {
  nb::class_<container::Array>(m, "Array", "A named array of a file.")
      .def_ro("name", &container::Array::name)
      .def_prop_ro("dtype", [](const container::Array& a) { return numpy_dtype(a.dtype); })
      .def_ro("shape", &container::Array::shape)
      .def_ro("offset", &container::Array::offset)
      .def_ro("bytes", &container::Array::bytes);
  nb::class_<container::Contents>(m, "Contents", "Description of a file whose bytes were read and checked.")
      .def_ro("type", &container::Contents::type)
      .def_ro("header", &container::Contents::header)
      .def_ro("arrays", &container::Contents::arrays)
      .def_ro("digest", &container::Contents::digest);
  m.def(
      "read",
      [](const nb::object& data) {
        const GivenBytes given(data, GivenBytes::Changes::never);
        const Released released;
        return container::read(given.all());
      },
      nb::arg("data").none());
  m.def(
      "read_file", [](const std::string& path) { return container::read(path); }, "path"_a, Unlocked());
  m.def(
      "header_end",
      [](const nb::object& first, std::size_t size) {
        return container::header_end(GivenBytes(first, GivenBytes::Changes::never).all(), size);
      },
      "first"_a, "size"_a);
  m.def(
      "type_of",
      [](const nb::object& first) { return container::type_of(GivenBytes(first, GivenBytes::Changes::never).all()); },
      "first"_a);
  m.attr("PREFIX_BYTES") = container::kPrefixBytes;
  m.attr("MAX_HEADER_BYTES") = container::kMaxHeaderBytes;
  nb::class_<container::Writer>(m, "Writer", "Writes a file whose arrays become known one after another.")
      .def(
          "__init__",
          [](container::Writer* self, const std::string& type, const std::string& header,
             const std::vector<Described>& arrays) {
            std::vector<container::Array> all;
            for (const auto& [name, dtype, shape] : arrays) all.push_back({name, file_dtype(dtype), shape});
            new (self) container::Writer(type, header, all);
          },
          "type"_a, "header"_a, "arrays"_a)
      .def("head", [](const container::Writer& w) { return bytes_of(w.head()); })
      .def(
          "padding",
          [](container::Writer& w, const nb::object& array) {
            const GivenBytes given(array, GivenBytes::Changes::never);
            Bytes zeros;
            {
              const Released released;
              zeros = w.padding(given.all());
            }
            return bytes_of(zeros);
          },
          "array"_a)
      .def("digest", [](container::Writer& w) { return bytes_of(w.digest()); });
  m.def("inspect", &heliograph::inspect, "path"_a, Unlocked());
  m.def("kind_of", &heliograph::kind_of, "path"_a, Unlocked());
}
