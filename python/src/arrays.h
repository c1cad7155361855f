// NumPy arrays, progress and the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <span>

#include "heliograph/bfv.h"

namespace heliograph::binding {

namespace nb = nanobind;

/// C-contiguous int64: Python has checked dtype and laid the array out.
using Integers = nb::ndarray<const std::int64_t, nb::numpy, nb::c_contig, nb::device::cpu>;

/// The last axis holds a ciphertext's values, the others are the tensor's.
inline bfv::Values values_of(const Integers& a) {
  if (a.ndim() == 0) throw ShapeError("an array of values has at least one axis");
  bfv::Values v;
  v.data.assign(a.data(), a.data() + a.size());
  for (std::size_t i = 0; i + 1 < a.ndim(); ++i) v.shape.push_back(a.shape(i));
  v.width = a.shape(a.ndim() - 1);
  return v;
}

inline std::vector<std::int64_t> flat(const Integers& a) { return {a.data(), a.data() + a.size()}; }

/// Calls `callback` (None: nobody) with the GIL; looks for Ctrl-C each time. Works from a thread without the GIL.
inline Progress progress_of(const nb::object& callback) {
  return [callback](double share) {
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!callback.is_none()) callback(share);
  };
}

inline bfv::Packing packing_of(const std::string& name) {
  if (name == "slots") return bfv::Packing::slots;
  if (name == "coefficients") return bfv::Packing::coefficients;
  throw ParameterError("packing is \"slots\" or \"coefficients\"");
}

template <class T>
nb::object array_of(std::vector<T> data, std::vector<std::size_t> shape) {
  auto* owned = new std::vector<T>(std::move(data));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), shape.size(), shape.data(), owner));
}

inline nb::bytes bytes_of(const Bytes& b) { return nb::bytes(b.data(), b.size()); }
inline Bytes bytes_from(const nb::bytes& b) {
  const auto* first = reinterpret_cast<const std::byte*>(b.c_str());
  return Bytes(first, first + b.size());
}

/// to_bytes and from_bytes of keys and tensors, without the GIL.
template <class T>
nb::bytes written(const T& object) {
  Bytes b;
  {
    nb::gil_scoped_release release;
    b = object.to_bytes();
  }
  return bytes_of(b);
}

template <class T>
T parse(const nb::bytes& b) {
  const Bytes raw = bytes_from(b);
  nb::gil_scoped_release release;
  return T::from_bytes(raw);
}

/// Tensors from files and messages, without the GIL and without a copy of the message.
template <class T>
void bind_reading(nb::module_& m, const std::string& prefix) {
  using namespace nb::literals;
  constexpr std::size_t kAny = Allowed{}.bytes;
  m.def((prefix + "ciphertext_from_bytes").c_str(),
        [](const nb::bytes& data, std::size_t limit, const std::string& parameters) {
          const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data.c_str()), data.size());
          nb::gil_scoped_release release;
          return T::from_bytes(bytes, {limit, parameters});
        },
        "data"_a, "limit"_a = kAny, "parameters"_a = "");
  m.def((prefix + "load_ciphertext").c_str(),
        [](const std::string& path, std::size_t limit, const std::string& parameters) {
          nb::gil_scoped_release release;
          return T::load(path, {limit, parameters});
        },
        "path"_a, "limit"_a = kAny, "parameters"_a = "");
}

/// What a null device has counted, by kernel.
template <class Count>
nb::dict counts_of(const std::vector<Count>& counts) {
  nb::dict all;
  for (const Count& c : counts) {
    nb::dict one;
    one["calls"] = c.calls, one["bytes_read"] = c.bytes_read, one["bytes_written"] = c.bytes_written,
    one["products"] = c.products;
    all[c.kernel.c_str()] = one;
  }
  return all;
}

}  // namespace heliograph::binding
