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

/// A message as a terminal may show it: names from files and texts of other ranks stand in some. What Python's repr escapes,
/// and what is no UTF-8, is escaped here too.
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
  // Registered base first: nanobind tries the latest translator first.
  const nb::object error = declare<Error>(m, "HeliographError", PyExc_Exception);
  const nb::object parameter = declare<ParameterError>(m, "ParameterError", error);
  declare<SecurityError>(m, "SecurityError", parameter);
  declare<MismatchError>(m, "MismatchError", error);
  declare<WrongKeyError>(m, "WrongKeyError", error);
  declare<MissingKeyError>(m, "MissingKeyError", error);
  declare<PlaintextRangeError>(m, "PlaintextRangeError", error);
  declare<ShapeError>(m, "ShapeError", error);
  declare<DtypeError>(m, "DtypeError", error);
  declare<SlotsError>(m, "SlotsError", error);
  const nb::object noise = declare<NoiseError>(m, "NoiseError", error);
  declare<RoomError>(m, "RoomError", noise);
  declare<LevelError>(m, "LevelError", error);
  declare<ScaleError>(m, "ScaleError", error);
  const nb::object format = declare<FormatError>(m, "FormatError", error);
  declare<DamagedFileError>(m, "DamagedFileError", format);
  declare<VersionError>(m, "VersionError", format);
  const nb::object out_of_memory = declare<OutOfMemoryError>(m, "OutOfMemoryError", error);
  declare<LimitError>(m, "LimitError", out_of_memory);
  declare<RecordingError>(m, "RecordingError", error);
  declare<DeviceError>(m, "DeviceError", error);
  declare<CancelledError>(m, "CancelledError", error);
  declare<ForkError>(m, "ForkError", error);
  declare<InternalError>(m, "InternalError", error);
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const FileError& e) {
      PyErr_SetObject(PyExc_OSError, nb::make_tuple(e.code(), shown(e.what())).ptr());
    }
  });
  // The host's memory; what is too large to be asked for at all is no other case.
  nb::register_exception_translator(
      [](const std::exception_ptr& p, void* raised) {
        try {
          std::rethrow_exception(p);
        } catch (const std::bad_alloc&) {
          PyErr_SetString(static_cast<PyObject*>(raised), "the host has no memory left for this");
        } catch (const std::length_error&) {
          PyErr_SetString(static_cast<PyObject*>(raised), "the host has no memory for so much");
        }
      },
      out_of_memory.ptr());
}
