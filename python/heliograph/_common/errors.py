"""Texts of the docstrings of the engine's error classes. docs/errors.md repeats these texts and adds remedies."""

from __future__ import annotations

from heliograph import _core

_MEANINGS = {
    "HeliographError": "The base class of all errors of Heliograph.",
    "ParameterError": "A parameter set, option or setting has an invalid value or an unknown name.",
    "SecurityError": "The parameter set would have less than 128 bits of security.",
    "DtypeError": (
        "An argument has an invalid type: floats for an exact scheme, another scheme's tensor, an object that is no array."
    ),
    "ShapeError": (
        "Shapes do not fit: lengths that do not broadcast, a matrix of other dimensions, fewer values than slots."
    ),
    "SlotsError": "The plaintext modulus of the parameter set has no slots, or no rotations of slots.",
    "PlaintextRangeError": (
        "A clear value is too large for the plaintext modulus, the dtype or the level, or is outside "
        "the input ranges of a model."
    ),
    "OutOfIntervalError": (
        "An argument of a function of encrypted reals was outside its declared interval, and results that depend on it are "
        "wrong. The message names the operation."
    ),
    "MismatchError": "Operands have different parameters, schemes or word sizes, or ranks run different calls.",
    "WrongKeyError": "A tensor and a key are of different secret keys.",
    "MissingKeyError": "An operation needs an evaluation key that the server's keys lack.",
    "NoiseError": ("The noise budget is exhausted, or the measured noise exceeds its estimate: a result could be wrong."),
    "RoomError": (
        "CKKS values are not known to fit their modulus, or exact integers of BFV and BGV may have "
        "wrapped modulo t. The message names the bound and the room."
    ),
    "LevelError": "No multiplication is left, or the level does not exist.",
    "ScaleError": "The scales of CKKS operands do not match.",
    "FormatError": "The data is not a file of Heliograph, or a file of another kind than expected.",
    "InstructionError": "A line of a program of instructions is invalid; the message names file, line and word.",
    "DamagedFileError": "A file is truncated, changed, or inconsistent.",
    "VersionError": "This release does not read files of this format version.",
    "OutOfMemoryError": "The operation needs more memory than is free; raised before it starts if the need is known.",
    "LimitError": (
        "A loaded tensor takes more memory than `hg.Server(keys, limit=)` allows, or loaded keys more "
        "than `hg.load(path, memory=)`."
    ),
    "DeviceError": "The device has a fault or does not exist, or a rank has ended.",
    "CancelledError": "The work was cancelled before it was complete.",
    "ForkError": "A child process made by `fork` uses its parent's engine.",
    "RecordingError": (
        "A function cannot be recorded: it reads a value, draws random numbers, or returns something else than tensors."
    ),
    "InternalError": "An internal invariant of the library is violated.",
}

for _name, _meaning in _MEANINGS.items():
    getattr(_core, _name).__doc__ = _meaning
