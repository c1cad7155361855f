"""CKKS: encrypted real and complex numbers, many to a ciphertext, to a precision.

``hg.ckks.parameters(depth=4, precision=30)`` gives a set; keys and servers are the library's: ``hg.SecretKey.generate``,
``hg.Server``.

The examples of its functions go on from these lines.

>>> import numpy as np
>>> import heliograph as hg
>>> params = hg.ckks.parameters(depth=4, precision=25, slots=4)
>>> secret = hg.SecretKey.generate(params)
>>> server = hg.Server(secret.evaluation_keys(rotations=[1, 2], conjugate=True))
>>> x = server.bind(secret.encrypt([[0.5, 1.5, 2.5, 3.5], [1, 2, 3, 4]]))  # two ciphertexts of four values
>>> secret.decrypt(x * x + 1).round(4)
array([[ 1.25,  3.25,  7.25, 13.25],
       [ 2.  ,  5.  , 10.  , 17.  ]])

Those of bootstrapping have a small set, for tests alone:

>>> small = hg.ckks.parameters(n=2**11, depth=3, log_scale=39, bootstrap=True, insecure=True)
>>> owner = hg.SecretKey.generate(small)
>>> party = hg.Server(owner.evaluation_keys(bootstrap=True))
"""

from heliograph.ckks import choose as _choose  # noqa: F401 (known to hg.parameters_for from now on)
from heliograph.ckks.automatic import AutoBootstrap, auto_bootstrap
from heliograph.ckks.functions import (
    bootstrap,
    conjugate,
    inner_product,
    lookup,
    lower,
    multiply,
    polynomial,
    polynomial_depth,
    relinearize_rescale,
    rotate,
    sum_slots,
    within,
)
from heliograph.ckks.keys import EvaluationKeys, PublicKey, SecretKey
from heliograph.ckks.linear import LinearTransform
from heliograph.ckks.parameters import Parameters, named, parameters
from heliograph.ckks.statistics import corrcoef, cov, mean, var
from heliograph.ckks.tensor import Plaintext, Tensor, encode, sum_rotations
from heliograph.functions import concatenate, dot, matmul, relinearize, rescale, square, stack, sum
from heliograph.placement import Bootstrapped, Bootstraps, Placement

__all__ = [
    "AutoBootstrap",
    "Bootstrapped",
    "Bootstraps",
    "EvaluationKeys",
    "LinearTransform",
    "Parameters",
    "Placement",
    "Plaintext",
    "PublicKey",
    "SecretKey",
    "Tensor",
    "auto_bootstrap",
    "bootstrap",
    "concatenate",
    "conjugate",
    "corrcoef",
    "cov",
    "dot",
    "encode",
    "inner_product",
    "lookup",
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
    "within",
]
