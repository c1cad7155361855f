// Switching between CKKS and TFHE.
#include "heliograph/switching.h"

#include "bindings.h"
#include "objects.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace heliograph;
using namespace heliograph::binding;

void bind_switching(nb::module_& m) {
  using switching::Keys;
  nb::class_<Keys>(m, "Keys")
      .def_static(
          "make",
          [](const ckks::SecretKey& ckks, const tfhe::SecretKey& tfhe, const nb::object& progress) {
            const Released released(progress);
            return Keys::make(ckks, tfhe);
          },
          "ckks"_a, "tfhe"_a, "progress"_a = nb::none())
      .def_prop_ro("ckks_parameters", &Keys::ckks_parameters)
      .def_prop_ro("tfhe_parameters", &Keys::tfhe_parameters)
      .def_prop_ro("ckks_key_id", &Keys::ckks_key_id)
      .def_prop_ro("tfhe_key_id", &Keys::tfhe_key_id)
      .def_prop_ro("nbytes", &Keys::bytes)
      .def("save", &Keys::save, "path"_a, Unlocked())
      .def("to_bytes", &written<Keys>)
      .def_static(
          "from_bytes",
          [](const nb::object& data) {
            const GivenBytes given(data);
            const Released released;
            return Keys::from_bytes(given.all());
          },
          nb::arg("data").none())
      .def_static("load", &Keys::load, "path"_a, Unlocked());
  m.def("unit_for", &switching::unit_for, "x"_a, "bits"_a);
  m.def("log2_failure", &switching::log2_failure, "keys"_a, "bits"_a);
  m.def(
      "to_tfhe",
      [](const ckks::Ciphertext& x, unsigned bits, double unit, const Keys& keys, const ckks::EvaluationKeys& ckks_keys,
         const tfhe::EvaluationKeys& tfhe_keys, const nb::object& progress) {
        const Released released(progress);
        return switching::to_tfhe(x, bits, unit, keys, ckks_keys, tfhe_keys);
      },
      "x"_a, "bits"_a, "unit"_a, "keys"_a, "ckks_keys"_a, "tfhe_keys"_a, "progress"_a = nb::none());
  nb::enum_<switching::Relation>(m, "Relation")
      .value("less", switching::Relation::less)
      .value("less_equal", switching::Relation::less_equal)
      .value("greater", switching::Relation::greater)
      .value("greater_equal", switching::Relation::greater_equal);
  m.def(
      "compare",
      [](const ckks::Ciphertext& x, switching::Relation relation, unsigned bits, double unit, const Keys& keys,
         const ckks::EvaluationKeys& ckks_keys, const tfhe::EvaluationKeys& tfhe_keys, const nb::object& progress) {
        const Released released(progress);
        return switching::compare(x, relation, bits, unit, keys, ckks_keys, tfhe_keys);
      },
      "x"_a, "relation"_a, "bits"_a, "unit"_a, "keys"_a, "ckks_keys"_a, "tfhe_keys"_a, "progress"_a = nb::none());
  m.def(
      "to_ckks",
      [](const tfhe::Ciphertext& y, double unit, const Keys& keys, const ckks::EvaluationKeys& ckks_keys,
         const nb::object& progress) {
        const Released released(progress);
        return switching::to_ckks(y, unit, keys, ckks_keys);
      },
      "y"_a, "unit"_a, "keys"_a, "ckks_keys"_a, "progress"_a = nb::none());
}
