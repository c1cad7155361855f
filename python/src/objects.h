// What parameters, keys and tensors of every scheme show to Python (heliograph/objects.h).
#pragma once

#include "arrays.h"
#include "heliograph/objects.h"

namespace heliograph::binding {

using namespace nb::literals;

/// Names in the module: "Parameters", "CkksParameters"; "load_ciphertext", "ckks_load_ciphertext".
struct Names {
  std::string classes, functions;
  std::string of(const char* name) const { return classes + name; }
  std::string call(const std::string& name) const { return functions + name; }
};

/// The numbers that define a set: those of every scheme, and those of every scheme of polynomials modulo primes.
template <class Spec>
nb::class_<Spec> bind_spec_of(nb::module_& m, const Names& names, const std::string& schemes) {
  nb::class_<Spec> c(m, names.of("Spec").c_str(), ("The numbers that define a parameter set of " + schemes + ".").c_str());
  c.def(nb::init<>()).def_rw("name", &Spec::name).def_rw("n", &Spec::n).def_rw("insecure", &Spec::insecure);
  if constexpr (requires(Spec s) { s.chain; }) {
    c.def_rw("edition", &Spec::edition)
        .def_rw("chain", &Spec::chain)
        .def_rw("special", &Spec::special)
        .def_rw("digits", &Spec::digits)
        .def_rw("slots", &Spec::slots);
  }
  return c;
}

template <class P>
nb::class_<P> bind_parameters_of(nb::module_& m, const Names& names) {
  using Spec = std::decay_t<decltype(std::declval<P>().spec())>;
  nb::class_<P> c(m, names.of("Parameters").c_str());
  c.def(nb::init<const Spec&>(), "spec"_a, Unlocked())
      .def("on_device", &P::on_device, "device"_a, Unlocked())
      .def_prop_ro("spec", &P::spec, nb::rv_policy::copy)
      .def_prop_ro("device", &P::device)
      .def_prop_ro("secure", &P::secure)
      .def_prop_ro("security_bits", &P::security_bits)
      .def_prop_ro("hash", &P::hash)
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

/// What keys and tensors have in common.
template <class T>
nb::class_<T> bind_object(nb::module_& m, const std::string& name) {
  nb::class_<T> c(m, name.c_str());
  c.def_prop_ro("parameters", &T::parameters).def_prop_ro("key_id", &T::key_id).def("save", &T::save, "path"_a, Unlocked());
  if constexpr (requires(const T& t) { t.bytes(); }) c.def_prop_ro("nbytes", &T::bytes);
  if constexpr (requires(const T& t) { t.to_bytes(); }) c.def("to_bytes", &written<T>);
  return c;
}

/// With ciphertext_from_bytes and load_ciphertext.
template <class T>
nb::class_<T> bind_ciphertext_of(nb::module_& m, const Names& names) {
  nb::class_<T> c = bind_object<T>(m, names.of("Ciphertext"));
  c.def("handle", [](const T& t) { return t; });  // another one of the same data: each tensor has its own
  c.def_prop_ro("shape", &T::shape).def_prop_ro("seeded", &T::seeded).def("wait", &T::wait, Unlocked());
  c.def_prop_ro("written_bytes", &T::written_bytes);
  c.def(
      "write",
      [](const T& t, const nb::object& sink) {
        const Released released;
        t.write([&](std::span<const std::byte> piece) { call_with_view(sink, piece); });
      },
      "sink"_a);
  if constexpr (requires(const T& x) { x.tail_known(); }) {  // of a scheme of polynomials modulo primes
    c.def_prop_ro("degree", &T::degree)
        .def_prop_ro("address", &T::address)
        .def_prop_ro("level", &T::level)
        .def_prop_ro("slots", &T::slots)
        .def_prop_ro("tail_known", &T::tail_known)
        .def_prop_ro("fresh", &T::fresh);
  }
  constexpr std::size_t kAny = Allowed{}.bytes;
  m.def(
      names.call("ciphertext_from_bytes").c_str(),
      [](const nb::object& data, std::size_t limit, const std::string& parameters) {
        const GivenBytes given(data);
        const Released released;
        return T::from_bytes(given.all(), {limit, parameters});
      },
      nb::arg("data").none(), "limit"_a = kAny, "parameters"_a = "");
  m.def(
      names.call("ciphertext_from_coming").c_str(),
      [](const nb::object& data, const nb::object& arrived, std::size_t limit, const std::string& parameters) {
        const GivenBytes given(data, GivenBytes::Changes::never);
        const Released released;
        const auto wait = [&](std::size_t count) {
          nb::gil_scoped_acquire gil;
          arrived(count);
        };
        return T::from_coming(given.all(), wait, {limit, parameters});
      },
      "data"_a, "arrived"_a, "limit"_a = kAny, "parameters"_a = "");
  m.def(
      names.call("load_ciphertext").c_str(),
      [](const std::string& path, std::size_t limit, const std::string& parameters) {
        const Released released;
        return T::load(path, {limit, parameters});
      },
      "path"_a, "limit"_a = kAny, "parameters"_a = "");
  return c;
}

/// The same ciphertexts otherwise arranged.
template <class T>
void bind_shapes_of(nb::module_& m, const Names& names) {
  m.def(
      names.call("reshape").c_str(), [](const T& a, const Shape& shape) { return reshape(a, shape); }, Unlocked());
  m.def(
      names.call("transpose").c_str(), [](const T& a, const std::vector<std::size_t>& order) { return transpose(a, order); },
      Unlocked());
  m.def(
      names.call("slice").c_str(),
      [](const T& a, std::size_t axis, std::size_t start, std::ptrdiff_t step, std::size_t count) {
        return slice(a, axis, start, step, count);
      },
      Unlocked());
  m.def(
      names.call("index").c_str(),
      [](const T& a, std::size_t axis, std::size_t position) { return index(a, axis, position); }, Unlocked());
  m.def(
      names.call("broadcast_to").c_str(), [](const T& a, const Shape& shape) { return broadcast_to(a, shape); }, Unlocked());
  m.def(
      names.call("concatenate").c_str(),
      [](const std::vector<T>& parts, std::size_t axis) { return concatenate(parts, axis); }, Unlocked());
}

/// A key that others may have, with KIND_from_bytes and load_KIND.
template <class K>
nb::class_<K> bind_open_key(nb::module_& m, const Names& names, const char* name, const std::string& kind) {
  m.def(
      names.call(kind + "_from_bytes").c_str(),
      [](const nb::object& data) {
        const GivenBytes given(data);
        const Released released;
        return K::from_bytes(given.all());
      },
      nb::arg("data").none());
  nb::class_<K> c = bind_object<K>(m, names.of(name));
  constexpr std::size_t kAny = Allowed{}.bytes;
  m.def(names.call("load_" + kind).c_str(), &K::load, "path"_a, "memory"_a = kAny, Unlocked());
  return c;
}

template <class K>
nb::class_<K> bind_secret_key_of(nb::module_& m, const Names& names) {
  using P = decltype(std::declval<K>().parameters());
  nb::class_<K> c = bind_object<K>(m, names.of("SecretKey"));
  c.def_static("generate", &K::generate, "parameters"_a, Unlocked())
      .def_static("generate_for_test", [](const P& p, const nb::bytes& seed) {
        return K::generate_for_test(p, std::string(seed.c_str(), seed.size()));
      });
  c.def("secret_bytes", [](const K& key) { return bytes_of(key.secret_bytes()); });
  m.def(names.call("load_secret_key").c_str(), &K::load, "path"_a, Unlocked());
  m.def(
      names.call("secret_key_from_bytes").c_str(),
      [](const nb::object& data) {
        const GivenBytes given(data);
        const Released released;
        return K::from_secret_bytes(given.all());
      },
      nb::arg("data").none());
  return c;
}

}  // namespace heliograph::binding
