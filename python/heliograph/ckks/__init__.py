"""CKKS: encrypted real and complex numbers, many to a ciphertext, to a precision.

``hg.ckks.parameters(depth=4, precision=30)`` gives a set; keys and servers are the library's: ``hg.SecretKey.generate``,
``hg.Server``.
"""

from heliograph.ckks import choose as _choose  # noqa: F401 (known to hg.parameters_for from now on)
from heliograph.ckks.functions import (
    conjugate,
    inner_product,
    lower,
    multiply,
    polynomial,
    polynomial_depth,
    relinearize_rescale,
    rotate,
    sum_slots,
)
from heliograph.ckks.keys import EvaluationKeys, PublicKey, SecretKey
from heliograph.ckks.linear import LinearTransform
from heliograph.ckks.parameters import Parameters, named, parameters
from heliograph.ckks.statistics import corrcoef, cov, mean, var
from heliograph.ckks.tensor import Plaintext, Tensor, encode, sum_rotations
from heliograph.functions import concatenate, dot, matmul, relinearize, rescale, square, stack, sum

__all__ = [
    "EvaluationKeys",
    "LinearTransform",
    "Parameters",
    "Plaintext",
    "PublicKey",
    "SecretKey",
    "Tensor",
    "concatenate",
    "conjugate",
    "corrcoef",
    "cov",
    "dot",
    "encode",
    "inner_product",
    "lower",
    "matmul",
    "mean",
    "multiply",
    "named",
    "parameters",
    "polynomial",
    "polynomial_depth",
    "relinearize",
    "relinearize_rescale",
    "rescale",
    "rotate",
    "square",
    "stack",
    "sum",
    "sum_rotations",
    "sum_slots",
    "var",
]
