// NumPy arrays, progress callbacks and the GIL.
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
#include "heliograph/progress.h"

namespace heliograph::binding {

namespace nb = nanobind;

/// C-contiguous int64; Python has checked the dtype and made the array contiguous.
using Integers = nb::ndarray<const std::int64_t, nb::numpy, nb::c_contig, nb::device::cpu>;

/// Returns the values of an array: the last axis holds a ciphertext's values of `words` words, the other axes are the
/// tensor's.
inline exact::Values values_of(const Integers& a, std::size_t words = 1) {
  if (a.ndim() == 0 || words == 0 || a.shape(a.ndim() - 1) % words != 0)
    throw ShapeError("an array of values must have at least one axis and whole values along the last one");
  exact::Values v;
  v.data.assign(a.data(), a.data() + a.size());
  for (std::size_t i = 0; i + 1 < a.ndim(); ++i) v.shape.push_back(a.shape(i));
  v.width = a.shape(a.ndim() - 1) / words, v.words = words;
  return v;
}

inline std::vector<std::int64_t> flat(const Integers& a) { return {a.data(), a.data() + a.size()}; }

/// `progress`, if not None, is called with the completed fraction; throws DtypeError if it is not callable. Called without
/// the GIL; acquires it.
inline void look_for_signals() {
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

/// Whether this is the thread in which Python handles signals. The first call, during import, asks Python; later calls need
/// no GIL.
bool is_main_thread();

/// Returns the name of an object's type.
inline std::string type_of(nb::handle object) { return nb::cast<std::string>(object.type().attr("__name__")); }

/// Releases the GIL while the engine works. Ctrl-C also stops the work inside one long step. `progress`, if not None, is
/// called with the fraction done; throws DtypeError if it is not callable.
class Released {
 public:
  explicit Released(const nb::object& progress = nb::none()) {
    if (is_main_thread()) signals_.emplace(&look_for_signals);
    if (!progress.is_none()) {
      if (PyCallable_Check(progress.ptr()) == 0)
        throw DtypeError(std::string("progress must be a function of the fraction done, got ") + type_of(progress));
      progress_.emplace([progress](double share) {
        nb::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        progress(share);
      });
    }
    release_.emplace();
  }

 private:
  std::optional<Interruptible> signals_;
  std::optional<ProgressScope> progress_;
  std::optional<nb::gil_scoped_release> release_;
};
using Unlocked = nb::call_guard<Released>;

/// Wraps a function for Python with a last argument `progress`, a callable or None; it releases the GIL.
template <class R, class... A>
auto with_progress(R (*f)(A...)) {
  return [f](A... given, const nb::object& progress) {
    const Released released(progress);
    return f(given...);
  };
}

inline exact::Packing packing_of(const std::string& name) {
  if (name == "slots") return exact::Packing::slots;
  if (name == "coefficients") return exact::Packing::coefficients;
  throw ParameterError("packing must be \"slots\" or \"coefficients\", got \"" + name + "\"");
}

template <class T>
nb::object array_of(std::vector<T> data, std::vector<std::size_t> shape) {
  auto* owned = new std::vector<T>(std::move(data));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(owned->data(), shape.size(), shape.data(), owner));
}

inline nb::bytes bytes_of(const Bytes& b) { return nb::bytes(b.data(), b.size()); }
/// A contiguous buffer: bytes, a bytearray, a memoryview or a memory map. Immutable memory is used in place. Other memory is
/// copied, since other threads may write to it without the GIL. Throws DtypeError.
class GivenBytes {
 public:
  enum class Changes : unsigned char { maybe, never };  // may not be copied or moved: the owner guarantees the memory

  explicit GivenBytes(const nb::object& given, Changes changes = Changes::maybe) {
    if (PyObject_GetBuffer(given.ptr(), &view_, PyBUF_SIMPLE) != 0) {
      PyErr_Clear();
      throw DtypeError(std::string("the data must be bytes, a bytearray or a contiguous memoryview, got ") + type_of(given) +
                       "; use load for the path of a file");
    }
    bytes_ = {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
    if (!PyBytes_Check(given.ptr()) && changes == Changes::maybe) {
      copy_.assign(bytes_.begin(), bytes_.end());
      bytes_ = copy_;
      PyBuffer_Release(&view_);  // does nothing if PyObject_GetBuffer failed
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

/// Calls a Python function with a view of memory that is valid only during the call: later use raises BufferError.
inline void call_with_view(const nb::object& function, std::span<const std::byte> bytes) {
  nb::gil_scoped_acquire gil;
  char* const data = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
  const nb::object view = nb::steal(PyMemoryView_FromMemory(data, static_cast<Py_ssize_t>(bytes.size()), PyBUF_READ));
  if (!view.is_valid()) throw nb::python_error();
  function(view);
  view.attr("release")();
}

/// Implements to_bytes of keys and tensors, without the GIL. A tensor is written directly into Python's bytes object.
template <class T>
nb::bytes written(const T& object) {
  if constexpr (requires { object.written_bytes(); }) {
    const T same = object;  // a snapshot of the tensor: another thread may change the tensor in place without the GIL
    const std::size_t bytes = same.written_bytes();
    PyObject* const whole = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes));
    if (whole == nullptr) {
      PyErr_Clear();
      throw OutOfMemoryError("out of host memory: cannot allocate the bytes of this tensor");
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

/// The counts of a null device by kernel.
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
