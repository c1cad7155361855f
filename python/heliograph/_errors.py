"""The docstrings of the errors that the engine raises. docs/errors.md has them too, and says what to do."""

from __future__ import annotations

from heliograph import _core

_MEANINGS = {
    "HeliographError": "The base class of all errors of Heliograph.",
    "ParameterError": "Values that no parameter set, option or setting can have; also an unknown name.",
    "SecurityError": "The set would have less than 128 bits of security.",
    "DtypeError": (
        "A value of a type that does not belong there: floats for an exact scheme, another scheme's tensor, "
        "an object that is no array."
    ),
    "ShapeError": ("Axes that do not fit: lengths that do not broadcast, a matrix of other sides, fewer values than slots."),
    "SlotsError": "Slots or rotations of a set whose plaintext modulus has none.",
    "PlaintextRangeError": (
        "A clear value that the plaintext modulus, the dtype or the level cannot hold, or that lies outside "
        "the input ranges of a model."
    ),
    "MismatchError": "Operands of different parameters, schemes or editions, or ranks that are not of one mind.",
    "WrongKeyError": "A tensor of one secret key and a key of another.",
    "MissingKeyError": "An operation needs an evaluation key that is not at hand.",
    "NoiseError": ("The noise estimate is exhausted, or the noise measured is beyond it: a result could be wrong."),
    "RoomError": (
        "CKKS values that nothing shows to fit their modulus, or exact integers of BFV and BGV that may have "
        "wrapped modulo t. It names the bound and the room."
    ),
    "LevelError": "No multiplication is left, or a level that is not there.",
    "ScaleError": "CKKS operands whose scales do not fit.",
    "FormatError": "Not one of Heliograph's files, or one of another kind than was asked for.",
    "InstructionError": "A line of a program of instructions means nothing; the message names file, line and word.",
    "DamagedFileError": "A file that is cut short, changed, or says what cannot be.",
    "VersionError": "A file of a version that this release does not read.",
    "OutOfMemoryError": ("There is less memory than the operation needs; told before it starts where that can be known."),
    "LimitError": (
        "A tensor from others takes more than `hg.Server(keys, limit=)` allows, or keys more than `hg.load(path, memory=)`."
    ),
    "DeviceError": "A fault of the device, a device that is not there, or a rank that is gone.",
    "CancelledError": "The work was stopped from outside before it was done.",
    "ForkError": "A child process made by `fork` uses the engine of its parent.",
    "RecordingError": (
        "A function does what cannot be recorded: it looks at a value, draws random numbers, returns "
        "something else than tensors."
    ),
    "InternalError": "A promise of the library's own is broken.",
}

for _name, _meaning in _MEANINGS.items():
    getattr(_core, _name).__doc__ = _meaning
