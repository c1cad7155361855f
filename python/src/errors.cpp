// C++ exceptions as Python exceptions of the same names.
#include "bindings.h"

#include "heliograph/errors.h"

namespace nb = nanobind;
using namespace heliograph;

namespace {

template <class E>
nb::object declare(nb::module_& m, const char* name, nb::handle base) {
  return nb::exception<E>(m, name, base);
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
  const nb::object memory = declare<OutOfMemoryError>(m, "OutOfMemoryError", error);
  declare<LimitError>(m, "LimitError", memory);
  declare<DeviceError>(m, "DeviceError", error);
  declare<CancelledError>(m, "CancelledError", error);
  declare<ForkError>(m, "ForkError", error);
  declare<InternalError>(m, "InternalError", error);
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const FileError& e) {
      PyErr_SetObject(PyExc_OSError, nb::make_tuple(e.code(), e.what()).ptr());
    }
  });
}
