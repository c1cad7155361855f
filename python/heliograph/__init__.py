"""Heliograph computes on encrypted data. ``import heliograph as hg``.

A data owner makes parameters and a secret key, encrypts arrays, and gives a server the evaluation keys. The server
computes on ciphertext tensors with functions named as in NumPy. Only the secret key decrypts.

The examples of this module's functions continue this example.

>>> import numpy as np
>>> import heliograph as hg
>>> secret = hg.SecretKey.generate(hg.bfv.parameters(depth=2, plain_bits=20, slots=4))
>>> server = hg.Server(secret.evaluation_keys(rotations=[1, 2], columns=True))
>>> x = server.bind(secret.encrypt([[1, 2, 3, 4], [5, 6, 7, 8]]))  # two ciphertexts of four values
>>> x.shape, x.slots
((2,), 4)
>>> secret.decrypt(hg.sum(x))
array([ 6,  8, 10, 12])
"""

# The start-up module must be imported before the engine: it handles SIGHUP while a service starts.
from heliograph._common import startup as _startup  # isort: skip  # noqa: F401
from heliograph import _core, bfv, bgv, cinnamon, ckks, frame, knn, ml, nn, pir, serving, sql, switching, tfhe
from heliograph._common import errors as _errors  # noqa: F401  docstrings of the engine's errors
from heliograph._common.arguments import IndexingError
from heliograph._common.clear_tensor import ClearTensor
from heliograph._common.functions import (
    concatenate,
    conv2d,
    conv2d_square_pool,
    dot,
    join_moduli,
    matmul,
    multiply,
    relinearize,
    rescale,
    rotate_columns,
    rotate_rows,
    shrink,
    split_moduli,
    square,
    stack,
    sum,
    sum_pool2d,
)
from heliograph._common.process import Cycles, Span, cycles, threads, timeline
from heliograph._common.ranks import barrier, devices, ranks, sent_bytes
from heliograph._common.service.errors import (
    AccessError,
    BusyError,
    CertificateError,
    ConflictError,
    DeadlineError,
    EvictedKeyError,
    ExpiredKeyError,
    ForeignKeyError,
    ModelUnavailableError,
    QuotaError,
    RateError,
    RevokedKeyError,
    ServiceError,
    StorageError,
    UnknownJobError,
    UnknownKeyError,
    UnknownModelError,
    UnreachableError,
    UploadError,
)
from heliograph._common.strict import strict
from heliograph._common.tensor import Plaintext, Tensor
from heliograph._core import (
    CancelledError,
    DamagedFileError,
    DeviceError,
    DtypeError,
    ForkError,
    FormatError,
    HeliographError,
    InstructionError,
    InternalError,
    LevelError,
    LimitError,
    MismatchError,
    MissingKeyError,
    NoiseError,
    OutOfIntervalError,
    OutOfMemoryError,
    ParameterError,
    PlaintextRangeError,
    RecordingError,
    RoomError,
    ScaleError,
    SecurityError,
    ShapeError,
    SlotsError,
    VersionError,
    WrongKeyError,
)
from heliograph.client.client import Client
from heliograph.keys import EvaluationKeys, PublicKey, SecretKey, Server, encode, from_bytes, load
from heliograph.models import ModelBundle
from heliograph.parameter_search import parameters_for
from heliograph.programs.forecast import Costs, Forecast, HeliographWarning, LongCallWarning, forecast
from heliograph.programs.program import Program, program, program_limits
from heliograph.programs.trace import Step, Trace, trace

__version__ = _core.version()

__all__ = [
    "AccessError",
    "BusyError",
    "CancelledError",
    "CertificateError",
    "ClearTensor",
    "Client",
    "ConflictError",
    "Costs",
    "Cycles",
    "DamagedFileError",
    "DeadlineError",
    "DeviceError",
    "DtypeError",
    "EvaluationKeys",
    "EvictedKeyError",
    "ExpiredKeyError",
    "Forecast",
    "ForeignKeyError",
    "ForkError",
    "FormatError",
    "HeliographError",
    "HeliographWarning",
    "IndexingError",
    "InstructionError",
    "InternalError",
    "LevelError",
    "LimitError",
    "LongCallWarning",
    "MismatchError",
    "MissingKeyError",
    "ModelBundle",
    "ModelUnavailableError",
    "NoiseError",
    "OutOfIntervalError",
    "OutOfMemoryError",
    "ParameterError",
    "Plaintext",
    "PlaintextRangeError",
    "Program",
    "PublicKey",
    "QuotaError",
    "RateError",
    "RecordingError",
    "RevokedKeyError",
    "RoomError",
    "ScaleError",
    "SecretKey",
    "SecurityError",
    "Server",
    "ServiceError",
    "ShapeError",
    "SlotsError",
    "Span",
    "Step",
    "StorageError",
    "Tensor",
    "Trace",
    "UnknownJobError",
    "UnknownKeyError",
    "UnknownModelError",
    "UnreachableError",
    "UploadError",
    "VersionError",
    "WrongKeyError",
    "barrier",
    "bfv",
    "bgv",
    "cinnamon",
    "ckks",
    "concatenate",
    "conv2d",
    "conv2d_square_pool",
    "cycles",
    "devices",
    "dot",
    "encode",
    "forecast",
    "frame",
    "from_bytes",
    "join_moduli",
    "knn",
    "load",
    "matmul",
    "ml",
    "multiply",
    "nn",
    "parameters_for",
    "pir",
    "program",
    "program_limits",
    "ranks",
    "relinearize",
    "rescale",
    "rotate_columns",
    "rotate_rows",
    "sent_bytes",
    "serving",
    "shrink",
    "split_moduli",
    "sql",
    "square",
    "stack",
    "strict",
    "sum",
    "sum_pool2d",
    "switching",
    "tfhe",
    "threads",
    "timeline",
    "trace",
]
