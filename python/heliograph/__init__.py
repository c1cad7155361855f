"""Heliograph computes on encrypted data. ``import heliograph as hg``.

A data owner makes parameters and a secret key, encrypts arrays, and gives a server the evaluation keys; the server
computes on ciphertext tensors with NumPy's names; only the secret key decrypts.
"""

from heliograph import bfv, tfhe
from heliograph._core import (
    CancelledError,
    DamagedFileError,
    DeviceError,
    DtypeError,
    ForkError,
    FormatError,
    HeliographError,
    InternalError,
    LevelError,
    MismatchError,
    MissingKeyError,
    NoiseError,
    OutOfMemoryError,
    ParameterError,
    PlaintextRangeError,
    SecurityError,
    ShapeError,
    SlotsError,
    VersionError,
    WrongKeyError,
)
from heliograph._core import describe_devices as devices
from heliograph.choose import parameters_for
from heliograph.clear import ClearTensor
from heliograph.functions import (
    concatenate,
    conv2d,
    conv2d_square_pool,
    dot,
    join_moduli,
    matmul,
    multiply,
    relinearize,
    rotate_columns,
    rotate_rows,
    shrink,
    split_moduli,
    square,
    stack,
    sum,
    sum_pool2d,
)
from heliograph.keys import EvaluationKeys, PublicKey, SecretKey, Server, load
from heliograph.tensor import Plaintext, Tensor, encode

__version__ = "0.1.0"

__all__ = [
    "CancelledError",
    "ClearTensor",
    "DamagedFileError",
    "DeviceError",
    "DtypeError",
    "EvaluationKeys",
    "ForkError",
    "FormatError",
    "HeliographError",
    "InternalError",
    "LevelError",
    "MismatchError",
    "MissingKeyError",
    "NoiseError",
    "OutOfMemoryError",
    "ParameterError",
    "Plaintext",
    "PlaintextRangeError",
    "PublicKey",
    "SecretKey",
    "SecurityError",
    "Server",
    "ShapeError",
    "SlotsError",
    "Tensor",
    "VersionError",
    "WrongKeyError",
    "bfv",
    "concatenate",
    "conv2d",
    "conv2d_square_pool",
    "devices",
    "dot",
    "encode",
    "join_moduli",
    "load",
    "matmul",
    "multiply",
    "parameters_for",
    "relinearize",
    "rotate_columns",
    "rotate_rows",
    "shrink",
    "split_moduli",
    "square",
    "stack",
    "sum",
    "sum_pool2d",
    "tfhe",
]
