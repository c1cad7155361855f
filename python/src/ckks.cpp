// Parameters, keys, tensors and operations of CKKS.
#include "heliograph/ckks.h"

#include <nanobind/stl/complex.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include "bindings.h"
#include "objects.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace heliograph;
using namespace heliograph::binding;

namespace {

using ckks::BlockTransform;
using ckks::Ciphertext;
using ckks::EvaluationKeys;
using ckks::LinearTransform;
using ckks::Parameters;
using ckks::Plaintext;
using ckks::PublicKey;
using ckks::SecretKey;
using ckks::Spec;
using ckks::Values;

/// C-contiguous; Python has checked the values and made the array contiguous.
using Complexes = nb::ndarray<const std::complex<double>, nb::numpy, nb::c_contig, nb::device::cpu>;

/// Returns the values of an array: the last axis holds a ciphertext's values, the other axes are the tensor's.
Values values_of(const Complexes& a, bool complex) {
  if (a.ndim() == 0) throw ShapeError("an array of values must have at least one axis");
  Values v;
  v.data.assign(a.data(), a.data() + a.size());
  for (std::size_t i = 0; i + 1 < a.ndim(); ++i) v.shape.push_back(a.shape(i));
  v.width = a.shape(a.ndim() - 1);
  v.complex = complex;
  return v;
}

/// float64 or complex128, one axis, C-contiguous; Python has checked the values and the length.
using Diagonal = nb::ndarray<nb::numpy, nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// Returns views of diagonals, whose entries repeat or are followed by zeros.
ckks::DiagonalViews views_of(const std::vector<std::size_t>& numbers, const std::vector<Diagonal>& diagonals, bool repeats) {
  if (numbers.size() != diagonals.size()) throw ShapeError("a matrix must have one number for each diagonal");
  ckks::DiagonalViews views;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const Diagonal& d = diagonals[i];
    const bool complex = d.dtype() == nb::dtype<std::complex<double>>();
    if (!complex && d.dtype() != nb::dtype<double>()) throw DtypeError("a diagonal must be float64 or complex128");
    views.emplace(numbers[i], ckks::DiagonalView(static_cast<const double*>(d.data()), d.shape(0), complex, repeats));
  }
  return views;
}

/// float64, or complex128 if imaginary parts matter.
nb::object array_from(Values&& v) {
  Shape shape = v.shape;
  shape.push_back(v.width);
  if (v.complex) return array_of(std::move(v.data), shape);
  std::vector<double> real(v.data.size());
  for (std::size_t i = 0; i < real.size(); ++i) real[i] = v.data[i].real();
  return array_of(std::move(real), shape);
}

/// Returns the check of a decryption by its name in Python.
ckks::Checked checked_of(const std::string& name) {
  if (name == "proof") return ckks::Checked::proof;
  return name == "none" ? ckks::Checked::none : ckks::Checked::usual;
}

void bind_spec(nb::module_& m) {
  bind_spec_of<Spec>(m, "CKKS")
      .def_rw("levels", &Spec::levels)
      .def_rw("log_scale", &Spec::log_scale)
      .def_rw("repeat", &Spec::repeat)
      .def_rw("bound", &Spec::bound);
  m.def("make_spec", &ckks::make_spec, "n"_a, "levels"_a, "log_scale"_a, "base_bits"_a, "special_count"_a,
        "word_size"_a = 64, "slots"_a = 0, "insecure"_a = false, Unlocked());
  m.def("make_bootstrapping_spec", &ckks::make_bootstrapping_spec, "n"_a, "depth"_a, "log_scale"_a, "log_top"_a,
        "entry"_a = 3, "word_size"_a = 64, "insecure"_a = false, "corrected"_a = false, Unlocked());
  m.def("named_spec", &ckks::named_spec, "name"_a, "insecure"_a = false, Unlocked());
  m.def("named_specs", &ckks::named_specs);
  m.def(
      "choose",
      [](int depth, int precision, std::optional<int> integer_bits, std::size_t slots, int word_size, bool repeat,
         double bound, std::string version) {
        return ckks::choose({depth, precision, integer_bits, slots, word_size, repeat, bound, std::move(version)});
      },
      "depth"_a, "precision"_a, "integer_bits"_a.none(), "slots"_a, "word_size"_a, "repeat"_a = true, "bound"_a = 0.0,
      "version"_a = "", Unlocked());
}

void bind_parameters(nb::module_& m) {
  bind_parameters_of<Parameters>(m)
      .def_prop_ro("top_level", &Parameters::top_level)
      .def_prop_ro("bootstrapping_level", &Parameters::bootstrapping_level)
      .def_prop_ro("bootstrapping_key_bytes", &Parameters::bootstrapping_key_bytes)
      .def_prop_ro("period", &Parameters::period)
      .def_prop_ro("room", &Parameters::room)
      .def_prop_ro("input_bound", &Parameters::input_bound)
      .def("difference", &Parameters::difference, "other"_a)
      .def("scale", &Parameters::scale, "level"_a)
      .def("level_limbs", &Parameters::level_limbs, "level"_a)
      .def("ciphertext_bytes", &Parameters::ciphertext_bytes, "degree"_a = 1, "level"_a = 0);
}

void bind_ciphertext(nb::module_& m) {
  bind_ciphertext_of<Ciphertext>(m)
      .def_prop_ro("scale", &Ciphertext::scale)
      .def_prop_ro("complex", &Ciphertext::complex)
      .def_prop_ro("precision", &Ciphertext::precision)
      .def_prop_ro("bounds",
                   [](const Ciphertext& c) {
                     const ckks::Interval in = c.bounds();
                     return std::pair(in.low, in.high);
                   })
      .def_prop_ro("public_bound",
                   [](const Ciphertext& c) {
                     const ckks::Interval in = c.bounds();
                     return std::max(-in.low, in.high);
                   })
      .def(
          "value_bounds",
          [](const Ciphertext& c, bool vouched) {
            nb::list all;
            for (const ckks::ValueBounds& b : c.value_bounds(vouched))
              all.append(nb::make_tuple(b.values.low, b.values.high, b.peak, b.rms, b.mean, b.declared));
            return all;
          },
          "vouched"_a)
      .def_prop_ro("known_bound", &Ciphertext::known_bound)
      .def_prop_ro("assumed_precision", &Ciphertext::assumed_precision)
      .def_prop_ro("rests_on_declaration", &Ciphertext::rests_on_declaration)
      .def_prop_ro("awaits_guard", &Ciphertext::awaits_guard)
      .def_prop_ro("bits_beyond_room", &Ciphertext::bits_beyond_room)
      .def_prop_ro("standing",
                   [](const Ciphertext& c) {
                     constexpr const char* names[] = {"vouched", "assumed", "places", "open"};
                     return names[static_cast<std::size_t>(c.standing())];
                   })
      .def_prop_ro("may_outgrow", &Ciphertext::may_outgrow)
      .def_prop_ro("guards", [](const Ciphertext& c) {
        nb::list all;
        for (const ckks::GuardSummary& g : ckks::guards_of(c)) all.append(nb::make_tuple(g.operations, g.excess, g.bytes));
        return all;
      });
  nb::class_<Plaintext>(m, "Plaintext")
      .def_prop_ro("shape", &Plaintext::shape)
      .def_prop_ro("parameters", &Plaintext::parameters)
      .def_prop_ro("level", &Plaintext::level)
      .def_prop_ro("scale", &Plaintext::scale);
  m.def(
      "encode",
      [](const Parameters& p, const Complexes& values, bool complex, std::size_t level, double scale) {
        const Values v = values_of(values, complex);
        const Released released;
        return ckks::encode(p, v, level, scale);
      },
      "parameters"_a, "values"_a, "complex"_a, "level"_a = 0, "scale"_a = 0.0);
}

/// Binds the common members of both encryption keys.
template <class Key>
void bind_encryption(nb::class_<Key>& k) {
  k.def(
      "encrypt",
      [](const Key& key, const Complexes& values, bool complex, std::size_t level, const nb::object& progress,
         std::pair<double, double> bound) {
        const Values v = values_of(values, complex);
        const Released released(progress);
        return key.encrypt(v, level, {bound.first, bound.second});
      },
      "values"_a, "complex"_a, "level"_a = 0, "progress"_a = nb::none(), "bound"_a = std::pair(0.0, 0.0));
}

void bind_secret_key(nb::module_& m) {
  nb::class_<SecretKey> secret = bind_secret_key_of<SecretKey>(m);
  bind_encryption(secret);
  secret.def("public_key", &SecretKey::public_key, Unlocked())
      .def(
          "evaluation_keys",
          [](const SecretKey& k, bool relinearize, const std::vector<std::int64_t>& rotations, bool conjugate,
             const nb::object& progress, bool bootstrapping,
             const std::vector<std::tuple<std::size_t, std::vector<std::int64_t>, bool>>& levels) {
            std::vector<ckks::LevelRotations> of_levels;
            for (const auto& [level, steps, swaps] : levels) of_levels.push_back({level, steps, swaps});
            const Released released(progress);
            return k.evaluation_keys(relinearize, rotations, conjugate, bootstrapping, of_levels);
          },
          "relinearize"_a, "rotations"_a, "conjugate"_a, "progress"_a = nb::none(), "bootstrapping"_a = false,
          "levels"_a = std::vector<std::tuple<std::size_t, std::vector<std::int64_t>, bool>>())
      .def(
          "decrypt",
          [](const SecretKey& k, const Ciphertext& c, const nb::object& progress, const std::string& checked) {
            Values values;
            {
              const Released released(progress);
              values = k.decrypt(c, checked_of(checked));
            }
            return array_from(std::move(values));
          },
          "ciphertext"_a, "progress"_a = nb::none(), "checked"_a = "usual")
      .def(
          "decrypt_as",
          [](const SecretKey& k, const Ciphertext& c, const Ciphertext& like, const nb::object& progress,
             const std::string& checked) {
            Values values;
            {
              const Released released(progress);
              values = k.decrypt_as(c, like, checked_of(checked));
            }
            return array_from(std::move(values));
          },
          "ciphertext"_a, "like"_a, "progress"_a = nb::none(), "checked"_a = "usual")
      .def("outside_slots", &SecretKey::outside_slots, "ciphertext"_a, Unlocked())
      .def(
          "stand_in", [](const SecretKey& k, const Ciphertext& x) { return ckks::stand_in(x, k); }, "x"_a)
      .def(
          "decrypt_for_publication",
          [](const SecretKey& k, const Ciphertext& c, double noise_bits, double precision, const nb::object& progress,
             const std::string& checked) {
            Values values;
            {
              const Released released(progress);
              values = k.decrypt_for_publication(c, noise_bits, precision, checked_of(checked));
            }
            return array_from(std::move(values));
          },
          "ciphertext"_a, "noise_bits"_a, "precision"_a, "progress"_a = nb::none(), "checked"_a = "usual");
}

void bind_keys(nb::module_& m) {
  nb::class_<PublicKey> public_key = bind_open_key<PublicKey>(m, "PublicKey");
  bind_encryption(public_key);
  bind_evaluation_keys_of<EvaluationKeys>(m)
      .def_prop_ro("conjugate", &EvaluationKeys::has_conjugation)
      .def_prop_ro("level_rotations", &EvaluationKeys::level_rotations)
      .def_prop_ro("bootstrap", &EvaluationKeys::has_bootstrapping);
  bind_secret_key(m);
}

void bind_arithmetic(nb::module_& m) {
  m.def("add", nb::overload_cast<const Ciphertext&, const Ciphertext&>(&ckks::add), Unlocked());
  m.def("subtract", nb::overload_cast<const Ciphertext&, const Ciphertext&>(&ckks::subtract), Unlocked());
  m.def("negate", &ckks::negate, Unlocked());
  m.def("add", nb::overload_cast<const Ciphertext&, const Plaintext&>(&ckks::add), Unlocked());
  m.def("subtract", nb::overload_cast<const Ciphertext&, const Plaintext&>(&ckks::subtract), Unlocked());
  m.def("add_into", nb::overload_cast<Ciphertext&, const Ciphertext&>(&ckks::add_into), Unlocked());
  m.def("subtract_into", nb::overload_cast<Ciphertext&, const Ciphertext&>(&ckks::subtract_into), Unlocked());
  m.def("add_into", nb::overload_cast<Ciphertext&, const Plaintext&>(&ckks::add_into), Unlocked());
  m.def("subtract_into", nb::overload_cast<Ciphertext&, const Plaintext&>(&ckks::subtract_into), Unlocked());
  m.def(
      "add_constants_into",
      [](Ciphertext& a, const Complexes& v, bool complex) {
        const Values values = values_of(v, complex);
        const Released released;
        ckks::add_constants_into(a, values);
      },
      "a"_a, "values"_a, "complex"_a);
  m.def("multiply", nb::overload_cast<const Ciphertext&, const Ciphertext&>(&ckks::multiply), Unlocked());
  m.def("multiply_plain", nb::overload_cast<const Ciphertext&, const Plaintext&>(&ckks::multiply), Unlocked());
  // Arrays of numbers have a last axis of length one.
  m.def(
      "add_constants",
      [](const Ciphertext& a, const Complexes& v, bool complex) {
        const Values values = values_of(v, complex);
        const Released released;
        return ckks::add_constants(a, values);
      },
      "a"_a, "values"_a, "complex"_a);
  m.def(
      "multiply_constants",
      [](const Ciphertext& a, const Complexes& v, double scale) {
        const Values values = values_of(v, false);
        const Released released;
        return ckks::multiply_constants(a, values, scale);
      },
      "a"_a, "values"_a, "scale"_a = 0.0);
  m.def("multiply_i", &ckks::multiply_i, Unlocked());
  m.def("lower", &ckks::lower, "a"_a, "level"_a, Unlocked());
  m.def("rescale", with_progress(&ckks::rescale), "a"_a, "progress"_a = nb::none());
}

void bind_key_switches(nb::module_& m) {
  m.def("relinearize", with_progress(&ckks::relinearize), "a"_a, "keys"_a, "progress"_a = nb::none());
  m.def("relinearize_rescale", with_progress(&ckks::relinearize_rescale), "a"_a, "keys"_a, "progress"_a = nb::none());
  m.def("conjugate", with_progress(&ckks::conjugate), "a"_a, "keys"_a, "progress"_a = nb::none());
  m.def("parts_doubled", with_progress(&ckks::parts_doubled), "a"_a, "keys"_a, "progress"_a = nb::none());
  m.def("multiply_rescale", with_progress(&ckks::multiply_rescale), "a"_a, "b"_a, "keys"_a, "progress"_a = nb::none());
  m.def(
      "bootstrap",
      [](const Ciphertext& a, const EvaluationKeys& keys, double bound, const nb::object& progress, int iterations,
         std::size_t level, std::size_t period) {
        const Released released(progress);
        return ckks::bootstrap(a, keys, bound, iterations, level, period);
      },
      "a"_a, "keys"_a, "bound"_a = 0.0, "progress"_a = nb::none(), "iterations"_a = 1, "level"_a = 0, "period"_a = 0);
  m.def("functional_bootstrap", with_progress(&ckks::functional_bootstrap), "a"_a, "table"_a, "keys"_a,
        "progress"_a = nb::none());
  m.def(
      "within",
      [](const Ciphertext& a, double low, double high) {
        return ckks::within(a, {low, high});
      },
      "a"_a, "low"_a, "high"_a, Unlocked());
  m.def("error_bounds", [](const Ciphertext& x) {
    const ckks::ErrorBounds e = ckks::error_bounds(x);
    return std::pair(e.trusted, e.assumed);
  });
  m.def(
      "with_error",
      [](const Ciphertext& x, double trusted, double assumed) {
        return ckks::with_error(x, {trusted, assumed});
      },
      "x"_a, "trusted"_a, "assumed"_a, Unlocked());
  m.def("inside", &ckks::inside, "x"_a, "low"_a, "high"_a, Unlocked());
  m.def("with_variances", &ckks::with_variances, "results"_a, "x"_a, "factor"_a, Unlocked());
  m.def("with_covariances", &ckks::with_covariances, "results"_a, "x"_a, "factor"_a, Unlocked());
  m.def("rotate", with_progress(&ckks::rotate), "a"_a, "steps"_a, "keys"_a, "progress"_a = nb::none());
  m.def("sum_slots", with_progress(&ckks::sum_slots), "a"_a, "count"_a, "keys"_a, "progress"_a = nb::none());
}

template <class Other>
using InnerProduct = Ciphertext(const Ciphertext&, const Other&, std::size_t, std::size_t, const EvaluationKeys&);

template <class Transform>
using Apply = Ciphertext(const Transform&, const Ciphertext&, const EvaluationKeys&);

ckks::Storage storage_of(int number) {
  if (number < 0 || number > 2) throw ParameterError("storage must be 0 to 2");
  return static_cast<ckks::Storage>(number);
}

void bind_circuits(nb::module_& m) {
  m.def("inner_product", with_progress(static_cast<InnerProduct<Ciphertext>*>(&ckks::inner_product)), "a"_a, "b"_a, "axis"_a,
        "count"_a, "keys"_a, "progress"_a = nb::none());
  m.def("inner_product_plain", with_progress(static_cast<InnerProduct<Plaintext>*>(&ckks::inner_product)), "a"_a, "b"_a,
        "axis"_a, "count"_a, "keys"_a, "progress"_a = nb::none());
  m.def("sum", &ckks::sum, "a"_a, "axis"_a, Unlocked());
  m.def("matmul", with_progress(&ckks::matmul), "weights"_a, "rows"_a, "columns"_a, "a"_a, "scale"_a = 0.0,
        "progress"_a = nb::none());
  m.def(
      "evaluate_polynomial",
      [](const Ciphertext& x, const std::vector<double>& coefficients, bool chebyshev, const EvaluationKeys& keys,
         const nb::object& progress, const std::string& guard) {
        const Released released(progress);
        const ckks::Basis basis = chebyshev ? ckks::Basis::chebyshev : ckks::Basis::monomial;
        return ckks::evaluate_polynomial(x, coefficients, basis, keys, guard);
      },
      "x"_a, "coefficients"_a, "chebyshev"_a, "keys"_a, "progress"_a = nb::none(), "guard"_a = "");
  m.def("drop_guards", &ckks::drop_guards, "x"_a, Unlocked());
  m.def("with_guards", &ckks::with_guards, "x"_a, "of"_a, Unlocked());
  m.def("without_trust", &ckks::without_trust, "x"_a, Unlocked());
  m.def("strong_guards", &ckks::strong_guards, "x"_a, Unlocked());
  m.def("skip_guards", &ckks::skip_guards, "x"_a, Unlocked());
  m.def("polynomial_depth", &ckks::polynomial_depth, "degree"_a);
  nb::class_<LinearTransform>(m, "LinearTransform")
      .def_prop_ro("rotations", &LinearTransform::rotations)
      .def_prop_ro("level", &LinearTransform::level)
      .def_prop_ro("bytes", &LinearTransform::bytes)
      .def_prop_ro("parameters", &LinearTransform::parameters);
  nb::class_<BlockTransform>(m, "BlockTransform")
      .def_prop_ro("rotations", &BlockTransform::rotations)
      .def_prop_ro("level", &BlockTransform::level)
      .def_prop_ro("inputs", &BlockTransform::inputs)
      .def_prop_ro("outputs", &BlockTransform::outputs)
      .def_prop_ro("bytes", &BlockTransform::bytes)
      .def_prop_ro("parameters", &BlockTransform::parameters);
  m.def(
      "linear_transform",
      [](const Parameters& p, const std::vector<std::size_t>& numbers, const std::vector<Diagonal>& diagonals, bool repeats,
         std::size_t size, std::size_t level, std::size_t baby, std::size_t width, int storage) {
        const ckks::DiagonalViews views = views_of(numbers, diagonals, repeats);
        const Released released;
        return LinearTransform(p, views, size, level, baby, width, storage_of(storage));
      },
      "parameters"_a, "numbers"_a, "diagonals"_a, "repeats"_a, "size"_a, "level"_a, "baby"_a, "width"_a, "storage"_a);
  m.def(
      "block_transform",
      [](const Parameters& p, const std::vector<std::vector<std::size_t>>& numbers,
         const std::vector<std::vector<Diagonal>>& diagonals, bool repeats, std::size_t inputs, std::size_t size,
         std::size_t level, std::size_t baby, std::size_t width, int storage) {
        if (numbers.size() != diagonals.size()) throw ShapeError("each block must have numbers and diagonals");
        std::vector<ckks::DiagonalViews> views;
        for (std::size_t i = 0; i < numbers.size(); ++i) views.push_back(views_of(numbers[i], diagonals[i], repeats));
        const Released released;
        return BlockTransform(p, views, inputs, size, level, baby, width, storage_of(storage));
      },
      "parameters"_a, "numbers"_a, "diagonals"_a, "repeats"_a, "inputs"_a, "size"_a, "level"_a, "baby"_a, "width"_a,
      "storage"_a);
  m.def("apply", with_progress(static_cast<Apply<LinearTransform>*>(&ckks::apply)), "transform"_a, "a"_a, "keys"_a,
        "progress"_a = nb::none());
  m.def("apply_blocks", with_progress(static_cast<Apply<BlockTransform>*>(&ckks::apply)), "transform"_a, "a"_a, "keys"_a,
        "progress"_a = nb::none());
}

}  // namespace

void bind_ckks(nb::module_& m) {
  bind_spec(m);
  bind_parameters(m);
  bind_ciphertext(m);
  bind_keys(m);
  bind_arithmetic(m);
  bind_key_switches(m);
  bind_circuits(m);
  bind_shapes_of<Ciphertext>(m);
}
