// C++ exceptions as Python exceptions of the same names.
#include "bindings.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <new>
#include <stdexcept>

#include "heliograph/errors.h"

namespace nb = nanobind;
using namespace heliograph;

namespace {

/// Returns a message that is safe for a terminal. Messages may contain names from files and texts of other ranks. Therefore
/// characters that Python's repr escapes, and invalid UTF-8, are escaped.
nb::object shown(const char* message) {
  nb::object text =
      nb::steal(PyUnicode_DecodeUTF8(message, static_cast<Py_ssize_t>(std::strlen(message)), "backslashreplace"));
  if (!text.is_valid()) throw nb::python_error();
  if (nb::cast<bool>(text.attr("isprintable")())) return text;
  nb::list parts;
  for (nb::handle c : text) {
    const bool plain = nb::cast<bool>(c.attr("isprintable")());
    parts.append(plain ? nb::borrow(c) : c.attr("encode")("unicode_escape").attr("decode")());
  }
  return nb::str("").attr("join")(parts);
}

template <class E>
nb::object declare(nb::module_& m, const char* name, nb::handle base) {
  const std::string full = nb::cast<std::string>(m.attr("__name__")) + "." + name;
  const nb::object type = nb::steal(PyErr_NewException(full.c_str(), base.ptr(), nullptr));
  if (!type.is_valid()) throw nb::python_error();
  m.attr(name) = type;
  nb::register_exception_translator(
      [](const std::exception_ptr& p, void* raised) {
        try {
          std::rethrow_exception(p);
        } catch (const E& e) {
          PyErr_SetObject(static_cast<PyObject*>(raised), shown(e.what()).ptr());
        }
      },
      type.ptr());
  return type;
}

}  // namespace

void bind_errors(nb::module_& m) {
  // Base classes are registered first: nanobind tries the latest translator first.
  const nb::object error = declare<Error>(m, "HeliographError", PyExc_Exception);
  m.attr("Error") = error;  // the name in HELIOGRAPH_ERRORS
#define HELIOGRAPH_DECLARE(Name, Base) declare<Name>(m, #Name, m.attr(#Base));
  HELIOGRAPH_ERRORS(HELIOGRAPH_DECLARE)
#undef HELIOGRAPH_DECLARE
  nb::delattr(m, "Error");
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const FileError& e) {
      PyErr_SetObject(PyExc_OSError, nb::make_tuple(e.code(), shown(e.what())).ptr());
    }
  });
  // bad_alloc and length_error mean that the host is out of memory; length_error is a request that exceeds any memory.
  nb::register_exception_translator(
      [](const std::exception_ptr& p, void* raised) {
        try {
          std::rethrow_exception(p);
        } catch (const std::bad_alloc&) {
          PyErr_SetString(static_cast<PyObject*>(raised), "out of host memory");
        } catch (const std::length_error&) {
          PyErr_SetString(static_cast<PyObject*>(raised), "out of host memory: the request is too large");
        }
      },
      m.attr("OutOfMemoryError").ptr());
}
