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

/// F(type, its base) of each, bases first: for whoever needs all of them.
#define HELIOGRAPH_ERRORS(F)                                                                            \
  F(ParameterError, Error)         /* values no parameter set can have */                               \
  F(SecurityError, ParameterError) /* below 128 bits without insecure=True */                           \
  F(MismatchError, Error)          /* operands of different parameters or editions */                   \
  F(WrongKeyError, Error)          /* a ciphertext of one key, a key of another */                      \
  F(MissingKeyError, Error)        /* an evaluation key that is not there */                            \
  F(PlaintextRangeError, Error)    /* a value the plaintext modulus cannot hold */                      \
  F(ShapeError, Error)             /* axes that do not fit */                                           \
  F(DtypeError, Error)             /* an array of the wrong element type */                             \
  F(SlotsError, Error)             /* batching or rotation where there are no slots */                  \
  F(NoiseError, Error)             /* noise exhausted */                                                \
  F(RoomError, NoiseError)         /* values that may have outgrown their modulus */                    \
  F(LevelError, Error)             /* no modulus left to drop */                                        \
  F(ScaleError, Error)             /* CKKS scales that do not fit */                                    \
  F(FormatError, Error)            /* a file that is not one of ours */                                 \
  F(DamagedFileError, FormatError) /* truncated, flipped, oversized, residues above the modulus */      \
  F(VersionError, FormatError)     /* a version we do not read */                                       \
  F(InstructionError, FormatError) /* a line of an instruction program that means nothing */            \
  F(OutOfMemoryError, Error)       /* told before the work starts where possible */                     \
  F(LimitError, OutOfMemoryError)  /* tensors from others, and keys, that take more than was allowed */ \
  F(RecordingError, Error)         /* a function that cannot be recorded as a program */                \
  F(DeviceError, Error)            /* a device fault, naming the kernel */                              \
  F(CancelledError, Error)         /* stopped from a progress callback or Ctrl-C */                     \
  F(ForkError, Error)              /* used in a child after fork */                                     \
  F(InternalError, Error)          /* a broken promise of our own */

#define HELIOGRAPH_ERROR(Name, Base) \
  class Name : public Base {         \
   public:                           \
    using Base::Base;                \
  };
HELIOGRAPH_ERRORS(HELIOGRAPH_ERROR)
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
