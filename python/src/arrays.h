// NumPy arrays, progress and the GIL.
#pragma once

#include <optional>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <span>

#include "heliograph/exact.h"
#include "heliograph/interrupt.h"

namespace heliograph::binding {

namespace nb = nanobind;

/// C-contiguous int64: Python has checked dtype and laid the array out.
using Integers = nb::ndarray<const std::int64_t, nb::numpy, nb::c_contig, nb::device::cpu>;

/// The last axis holds a ciphertext's values, `words` words of each, the others are the tensor's.
inline exact::Values values_of(const Integers& a, std::size_t words = 1) {
  if (a.ndim() == 0 || words == 0 || a.shape(a.ndim() - 1) % words != 0)
    throw ShapeError("an array of values has at least one axis, and whole values along the last");
  exact::Values v;
  v.data.assign(a.data(), a.data() + a.size());
  for (std::size_t i = 0; i + 1 < a.ndim(); ++i) v.shape.push_back(a.shape(i));
  v.width = a.shape(a.ndim() - 1) / words, v.words = words;
  return v;
}

inline std::vector<std::int64_t> flat(const Integers& a) { return {a.data(), a.data() + a.size()}; }

/// With the GIL: raises KeyboardInterrupt where Ctrl-C was pressed. From a thread without the GIL.
inline void look_for_signals() {
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

/// Whether this is the thread that Python handles signals in. Asks Python once, as the module is loaded; needs no GIL then.
bool is_main_thread();

/// While the engine works: others may have the GIL, and Ctrl-C ends the work, also inside one long step of it.
class Released {
 public:
  Released() {
    if (is_main_thread()) signals_.emplace(&look_for_signals);
  }

 private:
  std::optional<Interruptible> signals_;
  nb::gil_scoped_release release_;
};
using Unlocked = nb::call_guard<Released>;

/// The name of its type, as texts show it.
inline std::string type_of(nb::handle object) { return nb::cast<std::string>(object.type().attr("__name__")); }

/// Calls `callback` (None: nobody) with the GIL; looks for Ctrl-C each time. Works from a thread without the GIL.
/// Throws DtypeError for what cannot be called.
inline Progress progress_of(const nb::object& callback) {
  if (!callback.is_none() && PyCallable_Check(callback.ptr()) == 0)
    throw DtypeError(std::string("progress is a function of the share done, not ") + type_of(callback));
  return [callback](double share) {
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!callback.is_none()) callback(share);
  };
}

namespace details {
template <class R, class... A, std::size_t... I>
auto with_progress(R (*f)(A...), std::index_sequence<I...>) {
  return [f](std::tuple_element_t<I, std::tuple<A...>>... given, const nb::object& progress) {
    const Progress p = progress_of(progress);
    const Released released;
    return f(given..., p);
  };
}
}  // namespace details

/// A function whose last argument is a Progress, as Python calls it: with a callable or None there, while others have the GIL.
template <class R, class... A>
auto with_progress(R (*f)(A...)) {
  return details::with_progress(f, std::make_index_sequence<sizeof...(A) - 1>());
}

inline exact::Packing packing_of(const std::string& name) {
  if (name == "slots") return exact::Packing::slots;
  if (name == "coefficients") return exact::Packing::coefficients;
  throw ParameterError("packing is \"slots\" or \"coefficients\"");
}

template <class T>
nb::object array_of(std::vector<T> data, std::vector<std::size_t> shape) {
  auto* owned = new std::vector<T>(std::move(data));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), shape.size(), shape.data(), owner));
}

inline nb::bytes bytes_of(const Bytes& b) { return nb::bytes(b.data(), b.size()); }
/// What has bytes in a row, bytes, a bytearray, a memoryview or a map of a file: as it is where it cannot change, else a copy,
/// for others may write to it while the GIL is not held. Throws DtypeError.
class GivenBytes {
 public:
  enum class Changes : unsigned char { maybe, never };  // never: its owner promises it

  explicit GivenBytes(const nb::object& given, Changes changes = Changes::maybe) {
    if (PyObject_GetBuffer(given.ptr(), &view_, PyBUF_SIMPLE) != 0) {
      PyErr_Clear();
      throw DtypeError(std::string("bytes are read from bytes, a bytearray or a memoryview in a row, not from ") +
                       type_of(given) + "; load reads files by their paths");
    }
    bytes_ = {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
    if (!PyBytes_Check(given.ptr()) && changes == Changes::maybe) {
      copy_.assign(bytes_.begin(), bytes_.end());
      bytes_ = copy_;
      PyBuffer_Release(&view_);  // nothing is left to release then
    }
  }
  ~GivenBytes() { PyBuffer_Release(&view_); }
  GivenBytes(const GivenBytes&) = delete;
  GivenBytes& operator=(const GivenBytes&) = delete;
  std::span<const std::byte> all() const { return bytes_; }

 private:
  Py_buffer view_;
  Bytes copy_;
  std::span<const std::byte> bytes_;
};

/// Calls what Python gave with a view of memory that is there during the call alone: one that was kept is then a BufferError.
inline void call_with_view(const nb::object& function, std::span<const std::byte> bytes) {
  nb::gil_scoped_acquire gil;
  char* const data = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
  const nb::object view = nb::steal(PyMemoryView_FromMemory(data, static_cast<Py_ssize_t>(bytes.size()), PyBUF_READ));
  if (!view.is_valid()) throw nb::python_error();
  function(view);
  view.attr("release")();
}

/// to_bytes of keys and tensors, without the GIL. A tensor's go where Python will have them.
template <class T>
nb::bytes written(const T& object) {
  if constexpr (requires { object.written_bytes(); }) {
    const T same = object;  // as it is now: another thread may change the tensor in place once the GIL is released
    const std::size_t bytes = same.written_bytes();
    PyObject* const whole = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes));
    if (whole == nullptr) {
      PyErr_Clear();
      throw OutOfMemoryError("the host has no memory for the file of this tensor");
    }
    const nb::bytes owned = nb::steal<nb::bytes>(whole);
    char* to = PyBytes_AsString(whole);
    {
      const Released released;
      same.write([&](std::span<const std::byte> piece) {
        std::memcpy(to, piece.data(), piece.size());
        to += piece.size();
      });
    }
    return owned;
  }
  Bytes b;
  {
    const Released released;
    b = object.to_bytes();
  }
  return bytes_of(b);
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
