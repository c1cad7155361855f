// Functions of encrypted reals. Python's evaluator performs each operation on tensors, so that traces, recordings, trials
// and automatic bootstraps observe the operation.
#include "heliograph/functions.h"

#include <nanobind/stl/optional.h>

#include "arrays.h"
#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace heliograph;
using namespace heliograph::binding;

namespace {

using ckks::Approximation;
using ckks::Composition;
using ckks::FunctionOptions;
using ckks::Guarding;
using ckks::Operand;
/// C-contiguous float64; Python has checked the dtype and made the array contiguous.
using Doubles = nb::ndarray<const double, nb::numpy, nb::c_contig, nb::device::cpu>;
using Domain = std::optional<std::pair<double, double>>;

/// Returns a Python tensor as an operand, which holds the tensor.
Operand operand_of(const nb::object& tensor) {
  return {nb::cast<ckks::Ciphertext>(tensor.attr("_core")), std::make_shared<nb::object>(tensor)};
}

nb::object tensor_of(const Operand& x) { return *static_cast<const nb::object*>(x.attached().get()); }

nb::object real_array(const ckks::Values& values) {
  std::vector<double> real;
  for (const auto& v : values.data) real.push_back(v.real());
  Shape shape = values.shape;
  shape.push_back(values.width);
  return array_of(std::move(real), shape);
}

/// Performs operations by the methods of a Python object (heliograph/ckks/approximation.py). All calls of these methods hold
/// the GIL.
class PythonEvaluator final : public ckks::Evaluator {
 public:
  explicit PythonEvaluator(nb::object face) : face_(std::move(face)) {}

  Operand ready(const Operand& x, std::size_t levels) const override { return call("ready", tensor_of(x), levels); }
  Operand polynomial(const Operand& x, const std::vector<double>& coefficients, const std::string& guard) const override {
    return call("polynomial", tensor_of(x), coefficients, guard);
  }
  Operand multiply(const Operand& a, const Operand& b) const override {
    return call("multiply", tensor_of(a), tensor_of(b));
  }
  Operand times(const Operand& x, double factor) const override { return call("times", tensor_of(x), factor); }
  Operand plus(const Operand& x, double summand) const override { return call("plus", tensor_of(x), summand); }
  Operand add(const Operand& a, const Operand& b) const override { return call("add", tensor_of(a), tensor_of(b)); }
  Operand subtract(const Operand& a, const Operand& b) const override {
    return call("subtract", tensor_of(a), tensor_of(b));
  }
  Operand negate(const Operand& x) const override { return call("negate", tensor_of(x)); }
  Operand sum(const Operand& x, std::size_t axis) const override { return call("sum", tensor_of(x), axis); }
  Operand sum_slots(const Operand& x) const override { return call("sum_slots", tensor_of(x)); }
  Operand reshape(const Operand& x, const Shape& shape) const override { return call("reshape", tensor_of(x), shape); }
  Operand with_error(const Operand& x, const ckks::ErrorBounds& error) const override {
    return call("with_error", tensor_of(x), error.trusted, error.assumed);
  }
  Operand inside(const Operand& x, double low, double high) const override {
    return call("inside", tensor_of(x), low, high);
  }
  Operand within(const Operand& x, const ckks::Interval& in) const override {
    return call("within", tensor_of(x), in.low, in.high);
  }
  Operand guarded(const Operand& x, Guarding guard) const override {
    return guard == Guarding::usual ? x : call("guarded", tensor_of(x), guard == Guarding::strong);
  }
  Operand index(const Operand& x, std::size_t position) const override { return call("index", tensor_of(x), position); }
  Operand concatenate(const std::vector<Operand>& parts) const override {
    nb::list tensors;
    for (const Operand& part : parts) tensors.append(tensor_of(part));
    return call("concatenate", tensors);
  }
  Operand slice(const Operand& x, std::size_t start, std::size_t count) const override {
    return call("slice", tensor_of(x), start, count);
  }
  Operand transpose(const Operand& x, const std::vector<std::size_t>& order) const override {
    return call("transpose", tensor_of(x), order);
  }
  Operand lower(const Operand& x, std::size_t level) const override { return call("lower", tensor_of(x), level); }
  Operand rotate(const Operand& x, std::int64_t steps, bool composes) const override {
    return call("rotate", tensor_of(x), steps, composes);
  }
  Operand times_each(const Operand& x, const ckks::Values& values) const override {
    return call("times_each", tensor_of(x), real_array(values));
  }
  Operand plus_each(const Operand& x, const ckks::Values& values) const override {
    return call("plus_each", tensor_of(x), real_array(values));
  }
  Operand first_slots(const Operand& x, std::size_t count, double factor) const override {
    return call("first_slots", tensor_of(x), count, factor);
  }
  bool has_rotations(const std::vector<std::int64_t>& steps) const override {
    return nb::cast<bool>(face_.attr("has_rotations")(steps));
  }
  void require_rotations(const std::vector<std::int64_t>& steps, const std::string& what) const override {
    face_.attr("require_rotations")(steps, what);
  }
  Operand functional_bootstrap(const Operand& x, const std::vector<double>& table) const override {
    return call("functional_bootstrap", tensor_of(x), table);
  }
  bool has_bootstrapping() const override { return nb::cast<bool>(face_.attr("has_bootstrapping")()); }
  bool is_automatic() const override { return nb::cast<bool>(face_.attr("is_automatic")()); }
  Operand bootstrapped(const Operand& x, int iterations) const override {
    return call("bootstrapped", tensor_of(x), iterations);
  }
  double bootstrap_error(const ckks::Parameters& /*parameters*/, int iterations) const override {
    return nb::cast<double>(face_.attr("bootstrap_error")(iterations));
  }
  double rounding_error(const ckks::Parameters& /*parameters*/, const Composition& composition,
                        std::size_t stage) const override {
    return nb::cast<double>(face_.attr("rounding_error")(composition.place, stage));
  }
  double table_error(const ckks::Parameters& /*parameters*/, const std::vector<double>& table, double noise) const override {
    return nb::cast<double>(face_.attr("table_error")(table, noise));
  }
  bool is_trial() const override { return nb::cast<bool>(face_.attr("is_trial")()); }

 private:
  template <class... A>
  Operand call(const char* method, const A&... arguments) const {
    return operand_of(face_.attr(method)(arguments...));
  }

  nb::object face_;
};

FunctionOptions options_of(std::optional<double> error, const Domain& domain, std::optional<bool> guard) {
  FunctionOptions options;
  options.error = error;
  if (domain) options.domain = ckks::Interval(domain->first, domain->second);
  if (guard) options.guard = *guard ? Guarding::strong : Guarding::none;
  return options;
}

/// Binds a function of one tensor.
void bind_function(nb::module_& m, const char* name,
                   Operand (*f)(const Operand&, const ckks::Evaluator&, const FunctionOptions&)) {
  m.def(
      name,
      [f](const nb::object& face, const nb::object& x, std::optional<double> error, const Domain& domain,
          std::optional<bool> guard) {
        return tensor_of(f(operand_of(x), PythonEvaluator(face), options_of(error, domain, guard)));
      },
      "evaluator"_a, "x"_a, "error"_a.none(), "domain"_a.none(), "guard"_a.none());
}

/// Binds a function along an axis of one tensor. The axis is None for the slots.
void bind_along(nb::module_& m, const char* name,
                Operand (*f)(const Operand&, const ckks::Axis&, const ckks::Evaluator&, const FunctionOptions&)) {
  m.def(
      name,
      [f](const nb::object& face, const nb::object& x, std::optional<std::size_t> axis, std::optional<double> error,
          const Domain& domain, std::optional<bool> guard) {
        return tensor_of(f(operand_of(x), axis, PythonEvaluator(face), options_of(error, domain, guard)));
      },
      "evaluator"_a, "x"_a, "axis"_a.none(), "error"_a.none(), "domain"_a.none(), "guard"_a.none());
}

void bind_approximation(nb::module_& m) {
  nb::class_<Approximation>(m, "Approximation")
      .def(nb::init<std::string, double, double, std::vector<double>, double, bool>(), "name"_a, "low"_a, "high"_a,
           "coefficients"_a, "error"_a, "is_relative"_a)
      .def_prop_ro("name", &Approximation::name)
      .def_prop_ro("low", &Approximation::low)
      .def_prop_ro("high", &Approximation::high)
      .def_prop_ro("coefficients",
                   [](const Approximation& f) { return array_of(f.coefficients(), {f.coefficients().size()}); })
      .def_prop_ro("error", &Approximation::error)
      .def_prop_ro("is_relative", &Approximation::is_relative)
      .def_prop_ro("degree", &Approximation::degree)
      .def_prop_ro("depth", &Approximation::depth)
      .def(
          "clear",
          [](const Approximation& f, const Doubles& values) {
            std::vector<double> made(values.size());
            for (std::size_t i = 0; i < made.size(); ++i) made[i] = f.clear(values.data()[i]);
            std::vector<std::size_t> shape;
            for (std::size_t i = 0; i < values.ndim(); ++i) shape.push_back(values.shape(i));
            return array_of(std::move(made), shape);
          },
          "values"_a)
      .def(
          "evaluate",
          [](const Approximation& f, const nb::object& face, const nb::object& x) {
            return tensor_of(ckks::evaluate(f, operand_of(x), PythonEvaluator(face)));
          },
          "evaluator"_a, "x"_a);
  m.def(
      "approximate",
      [](const nb::object& f, double low, double high, std::optional<double> error, bool relative,
         std::optional<std::size_t> depth, const std::string& name) {
        const auto sampled = [&](const std::vector<double>& points) {
          const auto found = nb::cast<Doubles>(f(array_of(points, {points.size()})));
          return std::vector<double>(found.data(), found.data() + found.size());
        };
        return ckks::approximate_values(sampled, low, high, {error, relative, depth, name});
      },
      "f"_a, "low"_a, "high"_a, "error"_a.none(), "relative"_a, "depth"_a.none(), "name"_a);
}

void bind_parts(nb::module_& m) {
  m.def(
      "bounded_by",
      [](const nb::object& face, const nb::object& x, const Domain& domain, std::optional<bool> guard,
         const std::string& what) {
        const ckks::Bounded found =
            ckks::bounded_by(operand_of(x), PythonEvaluator(face), options_of({}, domain, guard), what);
        return nb::make_tuple(tensor_of(found.x), found.low, found.high);
      },
      "evaluator"_a, "x"_a, "domain"_a.none(), "guard"_a.none(), "what"_a);
  m.def(
      "inverse_root",
      [](const nb::object& face, const nb::object& x, double low, double high, double relative, const std::string& guard) {
        const ckks::Relative found = ckks::inverse_root(operand_of(x), PythonEvaluator(face), {low, high}, relative, guard);
        return nb::make_tuple(tensor_of(found.y), found.relative, found.rounding.assumed);
      },
      "evaluator"_a, "x"_a, "low"_a, "high"_a, "relative"_a, "guard"_a);
  m.def(
      "inverse_root_from_zero",
      [](const nb::object& face, const nb::object& x, double low, double high, double relative, const std::string& guard) {
        const ckks::Relative found =
            ckks::inverse_root_from_zero(operand_of(x), PythonEvaluator(face), {low, high}, relative, guard);
        return nb::make_tuple(tensor_of(found.y), found.relative);
      },
      "evaluator"_a, "x"_a, "low"_a, "high"_a, "relative"_a, "guard"_a);
}

void bind_compositions(nb::module_& m) {
  nb::class_<Composition>(m, "Composition")
      .def_ro("place", &Composition::place)
      .def_ro("gap", &Composition::gap)
      .def_ro("error", &Composition::error)
      .def_ro("error_of_abs", &Composition::error_of_abs)
      .def_ro("degrees", &Composition::degrees)
      .def_ro("depths", &Composition::depths)
      .def_ro("stages", &Composition::stages)
      .def_ro("lows", &Composition::lows)
      .def_ro("growths", &Composition::growths)
      .def_ro("growths_of_abs", &Composition::growths_of_abs);
  nb::class_<ckks::SignPlan>(m, "SignPlan")
      .def_ro("composition", &ckks::SignPlan::composition)
      .def_ro("has_gap", &ckks::SignPlan::has_gap)
      .def_prop_ro("growths", [](const ckks::SignPlan& plan) { return plan.growths(); })
      .def_prop_ro("iterations", [](const ckks::SignPlan& plan) { return nb::tuple(nb::cast(plan.iterations)); });
  m.def("compositions", [] { return ckks::compositions(); });
  m.def("fitting_compositions", &ckks::fitting_compositions, "gap"_a, "error"_a);
  m.def(
      "plan_signs",
      [](const nb::object& face, const nb::object& x, const std::vector<Composition>& candidates, bool has_gap, double error,
         bool scales, std::size_t after) {
        return ckks::plan_signs(operand_of(x), PythonEvaluator(face), candidates, has_gap, error, scales, after);
      },
      "evaluator"_a, "x"_a, "candidates"_a, "has_gap"_a, "error"_a, "scales"_a, "after"_a = 0);
}

ckks::SignMethod method_of(const std::string& name) {
  using ckks::SignMethod;
  if (name == "polynomial") return SignMethod::polynomial;
  return name == "bootstrap" ? SignMethod::bootstrap : SignMethod::automatic;
}

/// Returns the relation that a Python comparison sign denotes; Python has checked the sign.
ckks::Relation relation_of(const std::string& sign) {
  using ckks::Relation;
  if (sign == "<") return Relation::less;
  if (sign == "<=") return Relation::less_equal;
  if (sign == ">") return Relation::greater;
  if (sign == ">=") return Relation::greater_equal;
  return sign == "==" ? Relation::equal : Relation::not_equal;
}

ckks::SignOptions sign_options(std::optional<double> error, const Domain& domain, std::optional<bool> guard,
                               std::optional<double> gap, const std::string& method) {
  const FunctionOptions o = options_of(error, domain, guard);
  return {.gap = gap, .integers = !gap, .method = method_of(method), .error = o.error, .domain = o.domain, .guard = o.guard};
}

void bind_signs(nb::module_& m) {
  m.def(
      "sign",
      [](const nb::object& face, const nb::object& x, std::optional<double> error, const Domain& domain,
         std::optional<bool> guard, std::optional<double> gap, const std::string& method) {
        const ckks::SignOptions options = sign_options(error, domain, guard, gap, method);
        return tensor_of(ckks::sign(operand_of(x), PythonEvaluator(face), options));
      },
      "evaluator"_a, "x"_a, "error"_a.none(), "domain"_a.none(), "guard"_a.none(), "gap"_a.none(), "method"_a);
  m.def(
      "compare",
      [](const nb::object& face, const nb::object& x, std::optional<double> error, const Domain& domain,
         std::optional<bool> guard, std::optional<double> gap, const std::string& method, const std::string& relation) {
        const ckks::SignOptions options = sign_options(error, domain, guard, gap, method);
        return tensor_of(ckks::compare(operand_of(x), relation_of(relation), PythonEvaluator(face), options));
      },
      "evaluator"_a, "x"_a, "error"_a.none(), "domain"_a.none(), "guard"_a.none(), "gap"_a.none(), "method"_a, "relation"_a);
  m.def("require_condition", &ckks::require_condition, "condition"_a);
}

void bind_extremes(nb::module_& m) {
  bind_function(m, "abs", &ckks::abs);
  bind_function(m, "relu", &ckks::relu);
  m.def(
      "clip",
      [](const nb::object& face, const nb::object& x, std::optional<double> error, const Domain& domain,
         std::optional<bool> guard, double low, double high) {
        return tensor_of(ckks::clip(operand_of(x), low, high, PythonEvaluator(face), options_of(error, domain, guard)));
      },
      "evaluator"_a, "x"_a, "error"_a.none(), "domain"_a.none(), "guard"_a.none(), "low"_a, "high"_a);
  m.def(
      "extreme_of",
      [](const nb::object& face, const nb::object& sum, const nb::object& difference, const Domain& limits, bool larger,
         double error, const std::string& what) {
        std::optional<ckks::Interval> in;
        if (limits) in = ckks::Interval(limits->first, limits->second);
        return tensor_of(
            ckks::extreme_of(operand_of(sum), operand_of(difference), in, larger, PythonEvaluator(face), error, what));
      },
      "evaluator"_a, "sum"_a, "difference"_a, "limits"_a.none(), "larger"_a, "error"_a, "what"_a);
}

using ckks::Axis;
using ckks::OrderOptions;
using Gap = std::optional<double>;
using Count = std::optional<std::size_t>;

OrderOptions order_options(const Domain& domain, std::optional<bool> guard, const Gap& gap, const std::string& method,
                           const Count& count) {
  const FunctionOptions o = options_of({}, domain, guard);
  return {.gap = gap, .integers = !gap, .method = method_of(method), .domain = o.domain, .guard = o.guard, .count = count};
}

/// Binds a function of order along an axis, with one more argument `last`.
template <class Last, class F>
void bind_order(nb::module_& m, const char* name, const char* last, F f) {
  m.def(
      name,
      [f](const nb::object& face, const nb::object& x, const Axis& axis, const Domain& domain, std::optional<bool> guard,
          const Gap& gap, const std::string& method, const Count& count, Last more) {
        const OrderOptions options = order_options(domain, guard, gap, method, count);
        return tensor_of(f(operand_of(x), axis, PythonEvaluator(face), options, more));
      },
      "evaluator"_a, "x"_a, "axis"_a.none(), "domain"_a.none(), "guard"_a.none(), "gap"_a.none(), "method"_a,
      "count"_a.none(), nb::arg(last));
}

void bind_orders(nb::module_& m) {
  using ckks::Evaluator;
  bind_along(m, "max", &ckks::max);
  bind_along(m, "min", &ckks::min);
  bind_order<bool>(m, "argmax", "one_hot", &ckks::argmax);
  bind_order<bool>(m, "argmin", "one_hot", &ckks::argmin);
  m.def(
      "sort",
      [](const nb::object& face, const nb::object& x, const Axis& axis, const Domain& domain, std::optional<bool> guard,
         const Gap& gap, const std::string& method, const Count& count) {
        const OrderOptions options = order_options(domain, guard, gap, method, count);
        return tensor_of(ckks::sort(operand_of(x), axis, PythonEvaluator(face), options));
      },
      "evaluator"_a, "x"_a, "axis"_a.none(), "domain"_a.none(), "guard"_a.none(), "gap"_a.none(), "method"_a,
      "count"_a.none());
  bind_order<std::size_t>(m, "top_k", "k",
                          [](const Operand& x, const Axis& axis, const Evaluator& by, const OrderOptions& options,
                             std::size_t k) { return ckks::top_k(x, k, axis, by, options); });
  bind_order<double>(m, "quantile", "q",
                     [](const Operand& x, const Axis& axis, const Evaluator& by, const OrderOptions& options, double q) {
                       return ckks::quantile(x, q, axis, by, options);
                     });
  bind_order<std::vector<double>>(
      m, "histogram", "edges",
      [](const Operand& x, const Axis& /*slots*/, const Evaluator& by, const OrderOptions& options,
         const std::vector<double>& edges) { return ckks::histogram(x, edges, by, options); });
  m.def("sort_rotations", &ckks::sort_rotations, "period"_a);
  m.def("block_rotations", &ckks::block_rotations, "slots"_a, "period"_a);
}

}  // namespace

void bind_functions(nb::module_& ckks_module) {
  nb::module_ m = ckks_module.def_submodule("functions", "Functions of encrypted reals.");
  bind_approximation(m);
  bind_parts(m);
  m.def(
      "exp",
      [](const nb::object& face, const nb::object& x, std::optional<double> error, const Domain& domain,
         std::optional<bool> guard, const std::string& method) {
        using ckks::ExpMethod;
        const ExpMethod by = method == "polynomial" ? ExpMethod::polynomial
                             : method == "squaring" ? ExpMethod::squaring
                                                    : ExpMethod::automatic;
        return tensor_of(ckks::exp(operand_of(x), PythonEvaluator(face), options_of(error, domain, guard), by));
      },
      "evaluator"_a, "x"_a, "error"_a.none(), "domain"_a.none(), "guard"_a.none(), "method"_a);
  m.def(
      "power",
      [](const nb::object& face, const nb::object& x, std::optional<double> error, const Domain& domain,
         std::optional<bool> guard, double exponent) {
        return tensor_of(ckks::power(operand_of(x), exponent, PythonEvaluator(face), options_of(error, domain, guard)));
      },
      "evaluator"_a, "x"_a, "error"_a.none(), "domain"_a.none(), "guard"_a.none(), "exponent"_a);
  bind_function(m, "log", &ckks::log);
  bind_function(m, "sigmoid", &ckks::sigmoid);
  bind_function(m, "tanh", &ckks::tanh);
  bind_function(m, "gelu", &ckks::gelu);
  bind_function(m, "erf", &ckks::erf);
  bind_function(m, "sin", &ckks::sin);
  bind_function(m, "cos", &ckks::cos);
  bind_function(m, "inverse", &ckks::inverse);
  bind_function(m, "rsqrt", &ckks::rsqrt);
  bind_function(m, "sqrt", &ckks::sqrt);
  bind_along(m, "softmax", &ckks::softmax);
  bind_along(m, "logsumexp", &ckks::logsumexp);
  bind_along(m, "norm", &ckks::norm);
  bind_compositions(m);
  bind_signs(m);
  bind_extremes(m);
  bind_orders(m);
}
