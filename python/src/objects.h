// Bindings that parameters, keys and tensors of all schemes share (heliograph/objects.h).
#pragma once

#include "arrays.h"
#include "heliograph/objects.h"

namespace heliograph::binding {

using namespace nb::literals;

/// Binds the numbers that define a set: those of all schemes, and those of schemes of polynomials modulo primes.
template <class Spec>
nb::class_<Spec> bind_spec_of(nb::module_& m, const std::string& schemes) {
  nb::class_<Spec> c(m, "Spec", ("The numbers that define a parameter set of " + schemes + ".").c_str());
  c.def(nb::init<>()).def_rw("name", &Spec::name).def_rw("n", &Spec::n).def_rw("insecure", &Spec::insecure);
  if constexpr (requires(Spec s) { s.chain; }) {
    c.def_rw("word_size", &Spec::word_size)
        .def_rw("chain", &Spec::chain)
        .def_rw("special", &Spec::special)
        .def_rw("digits", &Spec::digits)
        .def_rw("slots", &Spec::slots);
    m.def("largest_secure_log_qp", &exact::largest_secure_log_qp, "n"_a);
  }
  return c;
}

template <class P>
nb::class_<P> bind_parameters_of(nb::module_& m) {
  using Spec = std::decay_t<decltype(std::declval<P>().spec())>;
  nb::class_<P> c(m, "Parameters");
  c.def(nb::init<const Spec&>(), "spec"_a, Unlocked())
      .def("on_device", &P::on_device, "device"_a, Unlocked())
      .def_prop_ro("spec", &P::spec, nb::rv_policy::copy)
      .def_prop_ro("device", &P::device)
      .def_prop_ro("secure", &P::secure)
      .def_prop_ro("security_bits", &P::security_bits)
      .def_prop_ro("hash", &P::hash)
      .def("to_json", &P::to_json)
      .def_static("from_json", &P::from_json, "text"_a, "hash"_a, Unlocked())
      .def_prop_ro("switch_key_bytes", &P::switch_key_bytes)
      .def("require_memory", &P::require_memory, "bytes"_a, "purpose"_a)
      .def_prop_ro("free_memory", &P::free_memory)
      .def("counts", [](const P& p) { return counts_of(p.counts()); })
      .def("reset_counts", &P::reset_counts)
      .def_prop_ro("peak_bytes", &P::peak_bytes)
      .def("__eq__", [](const P& a, const nb::object& b) { return nb::isinstance<P>(b) && a == nb::cast<const P&>(b); })
      .def("__hash__", [](const P& a) { return std::hash<std::string>()(a.hash()); });
  if constexpr (requires(const P& p) { p.log_qp(); })
    c.def_prop_ro("log_q", &P::log_q).def_prop_ro("log_qp", &P::log_qp).def_prop_ro("slots", &P::slots);
  return c;
}

/// Binds the common members of keys and tensors.
template <class T>
nb::class_<T> bind_object(nb::module_& m, const std::string& name) {
  nb::class_<T> c(m, name.c_str());
  c.def_prop_ro("parameters", &T::parameters).def_prop_ro("key_id", &T::key_id).def("save", &T::save, "path"_a, Unlocked());
  if constexpr (requires(const T& t) { t.bytes(); }) c.def_prop_ro("nbytes", &T::bytes);
  if constexpr (requires(const T& t) { t.to_bytes(); }) c.def("to_bytes", &written<T>);
  return c;
}

template <class T>
nb::class_<T> bind_ciphertext_of(nb::module_& m) {
  nb::class_<T> c = bind_object<T>(m, "Ciphertext");
  c.def("handle", [](const T& t) { return t; });  // a copy of the object that shares the ciphertexts
  c.def_prop_ro("shape", &T::shape).def_prop_ro("seeded", &T::seeded).def("wait", &T::wait, Unlocked());
  c.def_prop_ro("written_bytes", &T::written_bytes);
  c.def(
      "write",
      [](const T& t, const nb::object& sink) {
        const Released released;
        t.write([&](std::span<const std::byte> piece) { call_with_view(sink, piece); });
      },
      "sink"_a);
  if constexpr (requires(const T& x) { x.tail_known(); }) {  // only for schemes of polynomials modulo primes
    c.def_prop_ro("degree", &T::degree)
        .def_prop_ro("address", &T::address)
        .def_prop_ro("level", &T::level)
        .def_prop_ro("slots", &T::slots)
        .def_prop_ro("tail_known", &T::tail_known)
        .def_prop_ro("fresh", &T::fresh);
  }
  constexpr std::size_t kAny = Allowed{}.bytes;
  c.def_static(
      "from_bytes",
      [](const nb::object& data, std::size_t limit, const std::string& parameters) {
        const GivenBytes given(data);
        const Released released;
        return T::from_bytes(given.all(), {limit, parameters});
      },
      nb::arg("data").none(), "limit"_a = kAny, "parameters"_a = "");
  c.def_static(
      "from_incoming",
      [](const nb::object& data, const nb::object& arrived, std::size_t limit, const std::string& parameters) {
        const GivenBytes given(data, GivenBytes::Changes::never);
        const Released released;
        const auto wait = [&](std::size_t count) {
          nb::gil_scoped_acquire gil;
          arrived(count);
        };
        return T::from_incoming(given.all(), wait, {limit, parameters});
      },
      "data"_a, "arrived"_a, "limit"_a = kAny, "parameters"_a = "");
  c.def_static(
      "load",
      [](const std::string& path, std::size_t limit, const std::string& parameters) {
        const Released released;
        return T::load(path, {limit, parameters});
      },
      "path"_a, "limit"_a = kAny, "parameters"_a = "");
  return c;
}

/// Binds operations that rearrange the ciphertexts of a tensor.
template <class T>
void bind_shapes_of(nb::module_& m) {
  m.def(
      "reshape", [](const T& a, const Shape& shape) { return reshape(a, shape); }, Unlocked());
  m.def(
      "transpose", [](const T& a, const std::vector<std::size_t>& order) { return transpose(a, order); }, Unlocked());
  m.def(
      "slice",
      [](const T& a, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count) {
        return slice(a, axis, start, step, count);
      },
      Unlocked());
  m.def(
      "index", [](const T& a, std::size_t axis, std::size_t position) { return index(a, axis, position); }, Unlocked());
  m.def(
      "broadcast_to", [](const T& a, const Shape& shape) { return broadcast_to(a, shape); }, Unlocked());
  m.def(
      "concatenate", [](const std::vector<T>& parts, std::size_t axis) { return concatenate(parts, axis); }, Unlocked());
}

/// A key that can be published.
template <class K>
nb::class_<K> bind_open_key(nb::module_& m, const char* name) {
  nb::class_<K> c = bind_object<K>(m, name);
  c.def_static(
      "from_bytes",
      [](const nb::object& data) {
        const GivenBytes given(data);
        const Released released;
        return K::from_bytes(given.all());
      },
      nb::arg("data").none());
  constexpr std::size_t kAny = Allowed{}.bytes;
  c.def_static("load", &K::load, "path"_a, "memory"_a = kAny, Unlocked());
  return c;
}

/// Evaluation keys of a ring's scheme: relinearization, rotations and compositions of rotations.
template <class K>
nb::class_<K> bind_evaluation_keys_of(nb::module_& m) {
  return bind_open_key<K>(m, "EvaluationKeys")
      .def_prop_ro("relinearize", &K::has_relinearization)
      .def_prop_ro("rotations", &K::rotations)
      .def_prop_ro("most_switches", &K::most_switches)
      .def("reach", &K::reach, Unlocked())
      .def("composing", &K::composing, "most"_a)
      .def("composition", &K::composition, "steps"_a, Unlocked())
      .def("switches", &K::switches, "steps"_a, Unlocked())
      .def("cheapest", &K::cheapest, "steps"_a, Unlocked())
      .def_prop_ro("of_programs", &K::of_programs);
}

template <class K>
nb::class_<K> bind_secret_key_of(nb::module_& m) {
  using P = decltype(std::declval<K>().parameters());
  nb::class_<K> c = bind_object<K>(m, "SecretKey");
  c.def_static("generate", &K::generate, "parameters"_a, Unlocked())
      .def_static("generate_for_test", [](const P& p, const nb::bytes& seed) {
        return K::generate_for_test(p, std::string(seed.c_str(), seed.size()));
      });
  c.def("secret_bytes", [](const K& key) { return bytes_of(key.secret_bytes()); });
  c.def_static("load", &K::load, "path"_a, Unlocked());
  c.def_static(
      "from_secret_bytes",
      [](const nb::object& data) {
        const GivenBytes given(data);
        const Released released;
        return K::from_secret_bytes(given.all());
      },
      nb::arg("data").none());
  return c;
}

}  // namespace heliograph::binding
