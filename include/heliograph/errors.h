// Typed errors. Each error class becomes a Python exception of the same name.
#pragma once

#include <stdexcept>
#include <string>

namespace heliograph {

/// Base class of all errors that Heliograph throws on purpose.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Applies F(class, base class) to every error class, base classes first.
#define HELIOGRAPH_ERRORS(F)                                                                                   \
  F(ParameterError, Error)                   /* invalid values in a parameter set */                           \
  F(SecurityError, ParameterError)           /* less than 128 bits of security without insecure=True */        \
  F(MismatchError, Error)                    /* operands of different parameter sets, schemes or word sizes */ \
  F(WrongKeyError, Error)                    /* ciphertext and key belong to different secret keys */          \
  F(MissingKeyError, Error)                  /* a required evaluation key is missing */                        \
  F(PlaintextRangeError, Error)              /* a value that the plaintext modulus cannot hold */              \
  F(OutOfIntervalError, PlaintextRangeError) /* a function's argument outside its declared interval */         \
  F(ShapeError, Error)                       /* incompatible shapes */                                         \
  F(DtypeError, Error)                       /* a value or array of the wrong type */                          \
  F(SlotsError, Error)                       /* batching or rotation with a set that has no slots */           \
  F(NoiseError, Error)                       /* the noise budget is exhausted */                               \
  F(RoomError, NoiseError)                   /* values that may have wrapped modulo their modulus */           \
  F(LevelError, Error)                       /* no level left, or no such level */                             \
  F(ScaleError, Error)                       /* incompatible CKKS scales */                                    \
  F(FormatError, Error)                      /* not a Heliograph file, or not of the expected kind */          \
  F(DamagedFileError, FormatError)           /* a truncated, altered or inconsistent file */                   \
  F(VersionError, FormatError)               /* a file version that this release does not read */              \
  F(InstructionError, FormatError)           /* an invalid line of an instruction program */                   \
  F(OutOfMemoryError, Error)                 /* too little memory; checked before the work if possible */      \
  F(LimitError, OutOfMemoryError)            /* received tensors or keys that exceed a memory limit */         \
  F(RecordingError, Error)                   /* a function that cannot be recorded */                          \
  F(DeviceError, Error)                      /* a fault or absence of a device or rank */                      \
  F(CancelledError, Error)                   /* cancelled by a progress callback or Ctrl-C */                  \
  F(ForkError, Error)                        /* engine used in a forked child process */                       \
  F(InternalError, Error)                    /* a bug in Heliograph */

#define HELIOGRAPH_ERROR(Name, Base) \
  class Name : public Base {         \
   public:                           \
    using Base::Base;                \
  };
HELIOGRAPH_ERRORS(HELIOGRAPH_ERROR)
#undef HELIOGRAPH_ERROR

/// A file cannot be opened, read or written; `code` is the errno. Becomes Python's OSError.
class FileError : public Error {
 public:
  FileError(const std::string& message, int code) : Error(message), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

}  // namespace heliograph
