// Clear rows of bytes times an encrypted vector.
#include "bindings.h"
#include "heliograph/exact.h"
#include "objects.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace heliograph;
using namespace heliograph::binding;
using exact::ClearRows;
using exact::RowsPlan;

namespace {

/// C-contiguous int8; Python has checked the dtype and made the array contiguous.
using Int8s = nb::ndarray<const std::int8_t, nb::numpy, nb::c_contig, nb::device::cpu>;

std::span<const std::int8_t> all_of(const Int8s& a) { return {a.data(), a.size()}; }

}  // namespace

void bind_clear_rows(nb::module_& m) {
  nb::class_<RowsPlan>(m, "RowsPlan")
      .def_ro("columns", &RowsPlan::columns)
      .def_ro("ciphertexts", &RowsPlan::ciphertexts)
      .def_ro("level", &RowsPlan::level)
      .def_ro("body_bits", &RowsPlan::body_bits)
      .def_ro("mask_bits", &RowsPlan::mask_bits)
      .def_ro("rotations", &RowsPlan::rotations)
      .def("rounded_bytes", &RowsPlan::rounded_bytes, "parameters"_a, "rows"_a);
  m.def("rows_plan", &exact::rows_plan, "parameters"_a, "columns"_a, Unlocked());
  m.def(
      "encrypt_vector",
      [](const exact::SecretKey& secret, const Int8s& vector) {
        const Released released;
        return exact::encrypt_vector(secret, all_of(vector));
      },
      "secret"_a, "vector"_a);
  nb::class_<ClearRows>(m, "ClearRows")
      .def(nb::init<const exact::Parameters&, std::size_t, std::size_t>(), "parameters"_a, "rows"_a, "columns"_a, Unlocked())
      .def_prop_ro("plan", &ClearRows::plan)
      .def_prop_ro("nbytes", &ClearRows::bytes)
      .def(
          "set",
          [](const ClearRows& r, std::size_t block, const Int8s& values) {
            const Released released;
            r.set(block, all_of(values));
          },
          "block"_a, "values"_a)
      .def(
          "times",
          [](const ClearRows& r, const std::vector<exact::Ciphertext>& vectors,
             const std::vector<exact::EvaluationKeys>& keys, const nb::object& progress) {
            const Released released(progress);
            return r.times(vectors, keys);
          },
          "vectors"_a, "keys"_a, "progress"_a = nb::none());
  m.def(
      "rounded",
      [](const exact::Ciphertext& products, const RowsPlan& plan) {
        Bytes b;
        {
          const Released released;
          b = exact::rounded(products, plan);
        }
        return bytes_of(b);
      },
      "products"_a, "plan"_a);
  m.def(
      "from_rounded",
      [](const exact::SecretKey& secret, const nb::object& bytes, const RowsPlan& plan, std::size_t rows) {
        const GivenBytes given(bytes);
        const Released released;
        return exact::from_rounded(secret, given.all(), plan, rows);
      },
      "secret"_a, "bytes"_a, "plan"_a, "rows"_a);
}
