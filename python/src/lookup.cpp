// Private look-up.
#include "heliograph/lookup.h"

#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace heliograph;
using namespace heliograph::binding;

namespace {

using lookup::Client;
using lookup::Question;
using lookup::Size;
using lookup::Table;

template <class T>
using Array = nb::ndarray<const T, nb::numpy, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> all_of(const Array<T>& a) {
  return {a.data(), a.size()};
}

std::string text_of(const nb::bytes& b) { return {static_cast<const char*>(b.data()), b.size()}; }

void bind_table(nb::module_& m) {
  nb::class_<Table>(m, "Table")
      .def(
          "__init__",
          [](Table* self, std::size_t rows, std::size_t columns, const nb::bytes& seed, const Array<std::uint8_t>& bytes,
             std::size_t width, const std::string& device, const nb::object& progress) {
            const std::string text = text_of(seed);
            const Released released(progress);
            new (self) Table(Size{rows, columns}, text, all_of(bytes), width, device);
          },
          "rows"_a, "columns"_a, "seed"_a, "bytes"_a, "width"_a, "device"_a = "", "progress"_a = nb::none())
      .def_prop_ro("rows", [](const Table& t) { return t.size().rows; })
      .def_prop_ro("columns", [](const Table& t) { return t.size().columns; })
      .def_prop_ro("seed",
                   [](const Table& t) {
                     const std::string seed = t.seed();
                     return nb::bytes(seed.data(), seed.size());
                   })
      .def_prop_ro("bytes", &Table::bytes)
      .def(
          "update",
          [](Table& t, const Array<std::uint64_t>& rows, const Array<std::uint64_t>& columns, std::size_t width,
             const Array<std::uint8_t>& bytes) { t.update(all_of(rows), all_of(columns), width, all_of(bytes)); },
          "rows"_a, "columns"_a, "width"_a, "bytes"_a, Unlocked())
      .def(
          "answer",
          [](const Table& t, const Array<std::uint32_t>& words, const Array<std::uint64_t>& keys) {
            lookup::Answers answers;
            {
              const Released released;
              answers = t.answer(all_of(words), all_of(keys));
            }
            const std::size_t columns = t.size().columns, count = answers.bodies.size() / columns,
                              masks = answers.masks.size();
            return nb::make_tuple(array_of(std::move(answers.bodies), {count, columns}),
                                  array_of(std::move(answers.masks), {masks}));
          },
          "words"_a, "keys"_a);
}

void bind_client(nb::module_& m) {
  nb::class_<Question>(m, "Question")
      .def_prop_ro("words", [](const Question& q) { return array_of(q.words(), {q.words().size()}); })
      .def_prop_ro("keys", [](const Question& q) { return array_of(q.keys(), {q.keys().size()}); })
      .def(
          "read",
          [](const Question& q, const Array<std::uint16_t>& bodies, const Array<std::uint8_t>& masks) {
            std::vector<std::uint8_t> row;
            {
              const Released released;
              row = q.read(all_of(bodies), all_of(masks));
            }
            return nb::bytes(row.data(), row.size());
          },
          "bodies"_a, "masks"_a);
  nb::class_<Client>(m, "Client")
      .def(
          "__init__",
          [](Client* self, std::size_t rows, std::size_t columns, const nb::bytes& seed, const std::string& device) {
            new (self) Client(Size{rows, columns}, text_of(seed), device);
          },
          "rows"_a, "columns"_a, "seed"_a, "device"_a = "")
      .def("ask", &Client::ask, "row"_a, Unlocked());
}

}  // namespace

void bind_pir(nb::module_& m) {
  m.attr("STEP") = lookup::kStep;
  m.attr("MOST_ROWS") = lookup::kMostRows;
  m.attr("MOST_COLUMNS") = lookup::kMostColumns;
  m.attr("KEY_WORDS") = lookup::kKeyWords;
  m.attr("MASK_BYTES") = lookup::kMaskBytes;
  m.attr("KEY_MODULUS") = lookup::key_modulus();
  m.def(
      "log2_failure",
      [](std::size_t rows, std::size_t columns) {
        return lookup::log2_failure({rows, columns});
      },
      "rows"_a, "columns"_a);
  bind_table(m);
  bind_client(m);
}
