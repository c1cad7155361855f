// Operations on ciphertext tensors: each is one call of the engine, without the GIL.
#include "arrays.h"
#include "bindings.h"
#include "objects.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace heliograph;
using namespace heliograph::binding;
using exact::Ciphertext;
using exact::EvaluationKeys;

namespace {

using Product = Ciphertext(const Ciphertext&, const Ciphertext&, const EvaluationKeys*);

template <class Result, class A>
auto with_integers(Result (*f)(A, const exact::Values&)) {
  return [f](A a, const Integers& v) {
    if (v.ndim() == 0) throw ShapeError("an array of values must have at least one axis");
    const exact::Values values = values_of(v, v.shape(v.ndim() - 1));
    const Released released;
    return f(a, values);
  };
}

void bind_arithmetic(nb::module_& m) {
  m.def("add", nb::overload_cast<const Ciphertext&, const Ciphertext&>(&exact::add), Unlocked());
  m.def("subtract", nb::overload_cast<const Ciphertext&, const Ciphertext&>(&exact::subtract), Unlocked());
  m.def("negate", &exact::negate, Unlocked());
  m.def("add", nb::overload_cast<const Ciphertext&, const exact::Plaintext&>(&exact::add), Unlocked());
  m.def("subtract", nb::overload_cast<const Ciphertext&, const exact::Plaintext&>(&exact::subtract), Unlocked());
  m.def("multiply_plain", nb::overload_cast<const Ciphertext&, const exact::Plaintext&>(&exact::multiply), Unlocked());
  // Arrays of integers have a last axis: the words of one value.
  m.def("add_integers", with_integers(&exact::add_integers));
  m.def("subtract_integers", with_integers(&exact::subtract_integers));
  m.def("add_into", nb::overload_cast<Ciphertext&, const Ciphertext&>(&exact::add_into), Unlocked());
  m.def("subtract_into", nb::overload_cast<Ciphertext&, const Ciphertext&>(&exact::subtract_into), Unlocked());
  m.def("add_into", nb::overload_cast<Ciphertext&, const exact::Plaintext&>(&exact::add_into), Unlocked());
  m.def("subtract_into", nb::overload_cast<Ciphertext&, const exact::Plaintext&>(&exact::subtract_into), Unlocked());
  m.def("add_integers_into", with_integers(&exact::add_integers_into));
  m.def("subtract_integers_into", with_integers(&exact::subtract_integers_into));
  m.def("multiply_integers", with_integers(&exact::multiply_integers));
  m.def("multiply", with_progress(static_cast<Product*>(&exact::multiply)), "a"_a, "b"_a, "keys"_a.none(),
        "progress"_a = nb::none());
  m.def("multiply_switched", with_progress(&exact::multiply_switched), "a"_a, "b"_a, "keys"_a.none(),
        "progress"_a = nb::none());
  m.def("product_level", &exact::product_level, "a"_a, "b"_a);
  m.def("relinearize", with_progress(&exact::relinearize), "a"_a, "keys"_a, "progress"_a = nb::none());
  m.def("rotate_rows", with_progress(&exact::rotate_rows), "a"_a, "steps"_a, "keys"_a, "progress"_a = nb::none());
  m.def("sum_slots", with_progress(&exact::sum_slots), "a"_a, "keys"_a, "progress"_a = nb::none());
  m.def("rotate_columns", with_progress(&exact::rotate_columns), "a"_a, "keys"_a, "progress"_a = nb::none());
  m.def("switch_level", &exact::switch_level, "a"_a, "level"_a, Unlocked());
}

void bind_linear(nb::module_& m) {
  m.def(
      "matmul",
      [](const Integers& w, const Ciphertext& x, const Integers& bias, const nb::object& progress) {
        const auto weights = flat(w), b = flat(bias);
        const std::size_t rows = w.shape(0), columns = w.shape(1);
        const Released released(progress);
        return exact::matmul(weights, rows, columns, x, b);
      },
      "weights"_a, "x"_a, "bias"_a, "progress"_a = nb::none());
  m.def(
      "conv2d",
      [](const Ciphertext& x, const Integers& w, const Integers& bias, std::size_t stride, std::size_t padding,
         std::size_t groups, const nb::object& progress) {
        const auto weights = flat(w), b = flat(bias);
        const exact::Convolution shape{w.shape(0), w.shape(1), w.shape(2), w.shape(3), stride, padding, groups};
        const Released released(progress);
        return exact::conv2d(x, weights, shape, b);
      },
      "x"_a, "weights"_a, "bias"_a, "stride"_a, "padding"_a, "groups"_a, "progress"_a = nb::none());
  m.def(
      "conv2d_square_pool",
      [](const Ciphertext& x, const Integers& w, const Integers& bias, std::size_t stride, std::size_t padding,
         std::size_t groups, std::size_t pool, const EvaluationKeys& keys, const nb::object& progress, std::size_t stretch) {
        const auto weights = flat(w), b = flat(bias);
        const exact::Convolution shape{w.shape(0), w.shape(1), w.shape(2), w.shape(3), stride, padding, groups};
        const Released released(progress);
        return exact::conv2d_square_pool(x, weights, shape, b, pool, keys, stretch);
      },
      "x"_a, "weights"_a, "bias"_a, "stride"_a, "padding"_a, "groups"_a, "pool"_a, "keys"_a, "progress"_a = nb::none(),
      "stretch"_a = 0);
  m.def("sum", &exact::sum, "a"_a, "axis"_a, Unlocked());
  m.def("sum_pool2d", &exact::sum_pool2d, "a"_a, "size"_a, Unlocked());
  m.def(
      "take_moduli",
      [](const Ciphertext& a, std::size_t first, std::size_t count) {
        return exact::take_moduli(a, {first, count});
      },
      "a"_a, "first"_a, "count"_a);
  m.def("join_moduli", &exact::join_moduli, "parts"_a, Unlocked());
}

}  // namespace

void bind_operations(nb::module_& m) {
  bind_arithmetic(m);
  bind_linear(m);
  bind_shapes_of<Ciphertext>(m);
}
