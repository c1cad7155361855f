// Typed errors. Each kind becomes a Python exception of the same name.
#pragma once

#include <stdexcept>
#include <string>

namespace heliograph {

/// Base of everything Heliograph throws on purpose.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

#define HELIOGRAPH_ERROR(Name, Base) \
  class Name : public Base {         \
   public:                           \
    using Base::Base;                \
  };

HELIOGRAPH_ERROR(ParameterError, Error)          // values no parameter set can have
HELIOGRAPH_ERROR(SecurityError, ParameterError)  // below 128 bits without insecure=True
HELIOGRAPH_ERROR(MismatchError, Error)           // operands of different parameters or editions
HELIOGRAPH_ERROR(WrongKeyError, Error)           // a ciphertext of one key, a key of another
HELIOGRAPH_ERROR(MissingKeyError, Error)         // an evaluation key that is not there
HELIOGRAPH_ERROR(PlaintextRangeError, Error)     // a value the plaintext modulus cannot hold
HELIOGRAPH_ERROR(ShapeError, Error)              // axes that do not fit
HELIOGRAPH_ERROR(DtypeError, Error)              // an array of the wrong element type
HELIOGRAPH_ERROR(SlotsError, Error)              // batching or rotation where there are no slots
HELIOGRAPH_ERROR(NoiseError, Error)              // noise exhausted
HELIOGRAPH_ERROR(RoomError, NoiseError)          // CKKS values that may have outgrown their modulus
HELIOGRAPH_ERROR(LevelError, Error)              // no modulus left to drop
HELIOGRAPH_ERROR(ScaleError, Error)              // CKKS scales that do not fit
HELIOGRAPH_ERROR(FormatError, Error)             // a file that is not one of ours
HELIOGRAPH_ERROR(DamagedFileError, FormatError)  // truncated, flipped, oversized, residues above the modulus
HELIOGRAPH_ERROR(VersionError, FormatError)      // a version we do not read
HELIOGRAPH_ERROR(OutOfMemoryError, Error)        // told before the work starts where possible
HELIOGRAPH_ERROR(LimitError, OutOfMemoryError)   // tensors from others, and keys, that take more than was allowed
HELIOGRAPH_ERROR(RecordingError, Error)          // a function that cannot be recorded as a program
HELIOGRAPH_ERROR(DeviceError, Error)             // a device fault, naming the kernel
HELIOGRAPH_ERROR(CancelledError, Error)          // stopped from a progress callback or Ctrl-C
HELIOGRAPH_ERROR(ForkError, Error)               // used in a child after fork
HELIOGRAPH_ERROR(InternalError, Error)           // a broken promise of our own

#undef HELIOGRAPH_ERROR

/// A file that cannot be opened, read or written; `code` is errno's. Python's OSError.
class FileError : public Error {
 public:
  FileError(const std::string& message, int code) : Error(message), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

}  // namespace heliograph
