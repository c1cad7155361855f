"""Heliograph computes on encrypted data. ``import heliograph as hg``.

A data owner makes parameters and a secret key, encrypts arrays, and gives a server the evaluation keys; the server
computes on ciphertext tensors with NumPy's names; only the secret key decrypts.

The examples of its functions go on from these lines.

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

from heliograph import _startup  # isort: skip  # noqa: F401  before the engine: a SIGHUP must not end a service that starts
from heliograph import (
    _core,
    _errors,  # noqa: F401  docstrings of the engine's errors
    bfv,
    bgv,
    cinnamon,
    ckks,
    nn,
    query,
    serving,
    tfhe,
)
from heliograph import sealed_programs as _sealed_programs  # noqa: F401  a kind of sealed model
from heliograph._arrays import IndexingError
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
from heliograph._shapes import Plaintext, Tensor
from heliograph._strict import strict
from heliograph.choose import parameters_for
from heliograph.clear import ClearTensor
from heliograph.forecasting import Costs, Forecast, HeliographWarning, LongCallWarning, forecast
from heliograph.functions import (
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
from heliograph.host import Cycles, Span, cycles, threads, timeline
from heliograph.keys import EvaluationKeys, PublicKey, SecretKey, Server, encode, from_bytes, load
from heliograph.ranks import barrier, devices, ranks, sent_bytes
from heliograph.recording import Program, program, program_limits
from heliograph.sealed import SealedModel
from heliograph.serving.client import Client
from heliograph.serving.errors import (
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
from heliograph.tracing import Step, Trace, trace

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
    "ModelUnavailableError",
    "NoiseError",
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
    "SealedModel",
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
    "from_bytes",
    "join_moduli",
    "load",
    "matmul",
    "multiply",
    "nn",
    "parameters_for",
    "program",
    "program_limits",
    "query",
    "ranks",
    "relinearize",
    "rescale",
    "rotate_columns",
    "rotate_rows",
    "sent_bytes",
    "serving",
    "shrink",
    "split_moduli",
    "square",
    "stack",
    "strict",
    "sum",
    "sum_pool2d",
    "tfhe",
    "threads",
    "timeline",
    "trace",
]
