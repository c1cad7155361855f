// Parameters, keys, tensors and operations of TFHE.
#include "heliograph/tfhe.h"

#include "bindings.h"
#include "objects.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace heliograph;
using namespace heliograph::binding;

namespace {

using tfhe::Ciphertext;
using tfhe::EvaluationKeys;
using tfhe::Operation;
using tfhe::Parameters;
using tfhe::SecretKey;
using tfhe::Spec;
using tfhe::Type;

/// C-contiguous; Python has checked the values and converted them to the wide type.
using Words = nb::ndarray<const std::uint64_t, nb::numpy, nb::c_contig, nb::device::cpu>;

std::vector<std::uint64_t> words_of(const Words& a) { return {a.data(), a.data() + a.size()}; }
Shape shape_of(const Words& a) {
  Shape shape;
  for (std::size_t i = 0; i < a.ndim(); ++i) shape.push_back(a.shape(i));
  return shape;
}

tfhe::Goal goal_of(const std::string& name) {
  if (name.empty()) return tfhe::Goal::automatic;
  if (name == "fewest") return tfhe::Goal::fewest;
  if (name == "shallow") return tfhe::Goal::shallow;
  throw ParameterError("a goal must be \"fewest\" (bootstraps) or \"shallow\" (fewest layers), got \"" + name + "\"");
}

Operation operation_of(const std::string& name, std::vector<std::int64_t> arguments, const std::string& type,
                       const std::string& variant, const std::string& goal) {
  return {name, std::move(arguments), type.empty() ? Type{} : tfhe::type_of(type), variant, goal_of(goal)};
}

void bind_spec(nb::module_& m) {
  nb::class_<tfhe::Noise>(m, "Noise", "TUniform(value), or a Gaussian of log2 standard deviation `value`.")
      .def(nb::init<>())
      .def_rw("tuniform", &tfhe::Noise::tuniform)
      .def_rw("value", &tfhe::Noise::value);
  bind_spec_of<Spec>(m, "TFHE")
      .def_rw("k", &Spec::k)
      .def_rw("degree", &Spec::degree)
      .def_rw("lwe_noise", &Spec::lwe_noise)
      .def_rw("glwe_noise", &Spec::glwe_noise)
      .def_rw("bootstrap_log_base", &Spec::bootstrap_log_base)
      .def_rw("bootstrap_levels", &Spec::bootstrap_levels)
      .def_rw("switch_log_base", &Spec::switch_log_base)
      .def_rw("switch_levels", &Spec::switch_levels)
      .def_rw("group", &Spec::group)
      .def_rw("message_bits", &Spec::message_bits)
      .def_rw("carry_bits", &Spec::carry_bits)
      .def_rw("norm", &Spec::norm)
      .def_rw("insecure", &Spec::insecure);
  m.def("named_spec", &tfhe::named_spec, "name"_a, "insecure"_a = false);
  m.def("named_specs", &tfhe::named_specs);
  m.def("operations", &tfhe::operations);
}

void bind_parameters(nb::module_& m) {
  bind_parameters_of<Parameters>(m)
      .def_prop_ro("log2_failure", &Parameters::log2_failure)
      .def_prop_ro("lwe_bytes", &Parameters::lwe_bytes)
      .def_prop_ro("bootstrap_key_bytes", &Parameters::bootstrap_key_bytes)
      .def_prop_ro("parallel_bootstraps", &Parameters::parallel_bootstraps)
      .def("predicted",
           [](const Parameters& p) {
             const tfhe::Variances v = p.predicted();
             nb::dict all;
             all["fresh"] = v.fresh, all["bootstrap"] = v.bootstrap;
             all["key_switch"] = v.key_switch, all["modulus_switch"] = v.modulus_switch;
             return all;
           })
      .def(
          "cost",
          [](const Parameters& p, const std::string& name, std::vector<std::int64_t> arguments, const std::string& type,
             const std::string& variant, const std::string& goal, const std::vector<std::string>& operands) {
            const Operation o = operation_of(name, std::move(arguments), type, variant, goal);
            std::vector<Type> types;
            for (const std::string& t : operands) types.push_back(tfhe::type_of(t));
            tfhe::Cost c;
            {
              const Released released;
              c = tfhe::cost(p, o, types);
            }
            return std::pair(c.bootstraps, c.layers);
          },
          "name"_a, "arguments"_a, "type"_a, "variant"_a, "goal"_a, "operands"_a);
}

void bind_ciphertext(nb::module_& m) {
  bind_ciphertext_of<Ciphertext>(m)
      .def_prop_ro("type", [](const Ciphertext& c) { return c.type().text(); })
      .def_prop_ro("wires", &Ciphertext::wires);
}

void bind_keys(nb::module_& m) {
  bind_open_key<EvaluationKeys>(m, "EvaluationKeys");
  bind_secret_key_of<SecretKey>(m)
      .def(
          "evaluation_keys",
          [](const SecretKey& k, const nb::object& progress) {
            const Released released(progress);
            return k.evaluation_keys();
          },
          "progress"_a = nb::none())
      .def(
          "encrypt",
          [](const SecretKey& k, const Words& values, const std::string& type, const nb::object& progress) {
            const auto words = words_of(values);
            const Shape shape = shape_of(values);
            const Released released(progress);
            return k.encrypt(words, shape, tfhe::type_of(type));
          },
          "values"_a, "type"_a, "progress"_a = nb::none())
      .def(
          "decrypt",
          [](const SecretKey& k, const Ciphertext& c, const nb::object& progress) {
            std::vector<std::uint64_t> words;
            {
              const Released released(progress);
              words = k.decrypt(c);
            }
            return array_of(std::move(words), c.shape());
          },
          "ciphertext"_a, "progress"_a = nb::none())
      .def(
          "errors",
          [](const SecretKey& k, const Ciphertext& c) {
            std::vector<double> errors;
            {
              const Released released;
              errors = k.errors(c);
            }
            Shape shape = c.shape();
            shape.push_back(c.wires());
            return array_of(std::move(errors), shape);
          },
          "ciphertext"_a);
}

void bind_computing(nb::module_& m) {
  m.def(
      "trivial",
      [](const EvaluationKeys& keys, const Words& values, const std::string& type) {
        const auto words = words_of(values);
        const Shape shape = shape_of(values);
        const Released released;
        return tfhe::trivial(keys, words, shape, tfhe::type_of(type));
      },
      "keys"_a, "values"_a, "type"_a);
  m.def(
      "compute",
      [](const EvaluationKeys& keys, const std::string& name, const std::vector<Ciphertext>& operands,
         std::vector<std::int64_t> arguments, const std::string& type, const std::string& variant, const std::string& goal,
         const nb::object& progress) {
        const Operation o = operation_of(name, std::move(arguments), type, variant, goal);
        const Released released(progress);
        return tfhe::compute(keys, o, operands);
      },
      "keys"_a, "name"_a, "operands"_a, "arguments"_a = std::vector<std::int64_t>{}, "type"_a = "", "variant"_a = "",
      "goal"_a = "", "progress"_a = nb::none());
  m.def(
      "sum",
      [](const EvaluationKeys& keys, const Ciphertext& a, std::size_t axis, const std::string& type,
         const nb::object& progress) {
        const Released released(progress);
        return tfhe::sum(keys, a, axis, tfhe::type_of(type));
      },
      "keys"_a, "a"_a, "axis"_a, "type"_a, "progress"_a = nb::none());
  m.def(
      "matmul",
      [](const EvaluationKeys& keys, const Ciphertext& a, const Ciphertext& b, const std::string& algorithm,
         const std::string& variant, const std::string& goal, const nb::object& progress) {
        const Operation o = operation_of("", {}, "", variant, goal);
        const Released released(progress);
        return tfhe::matmul(keys, a, b, algorithm, o);
      },
      "keys"_a, "a"_a, "b"_a, "algorithm"_a = "", "variant"_a = "", "goal"_a = "", "progress"_a = nb::none());
}

}  // namespace

void bind_tfhe(nb::module_& m) {
  bind_spec(m);
  bind_parameters(m);
  bind_ciphertext(m);
  bind_keys(m);
  bind_computing(m);
  bind_shapes_of<Ciphertext>(m);
}
