"""CKKS: approximate real and complex numbers, many in a ciphertext, to a stated precision.

``hg.ckks.parameters(depth=4, precision=30)`` returns a parameter set. ``hg.SecretKey.generate`` and ``hg.Server`` make keys
and servers, as for every scheme.

Sources: Cheon, Kim, Kim and Song, ePrint 2016/421; in residue number systems: Cheon, Han, Kim, Kim and Song, SAC 2018; Han
and Ki, ePrint 2019/688.

The examples of this module's functions continue this one.

>>> import numpy as np
>>> import heliograph as hg
>>> params = hg.ckks.parameters(depth=4, precision=25, slots=4)
>>> secret = hg.SecretKey.generate(params)
>>> server = hg.Server(secret.evaluation_keys(rotations=[1, 2], conjugate=True))
>>> x = server.bind(secret.encrypt([[0.5, 1.5, 2.5, 3.5], [1, 2, 3, 4]]))  # two ciphertexts of four values
>>> secret.decrypt(x * x + 1).round(4)
array([[ 1.25,  3.25,  7.25, 13.25],
       [ 2.  ,  5.  , 10.  , 17.  ]])

The examples of bootstrapping use a small, insecure set:

>>> small = hg.ckks.parameters(n=2**11, depth=3, log_scale=39, bootstrap=True, insecure=True)
>>> owner = hg.SecretKey.generate(small)
>>> party = hg.Server(owner.evaluation_keys(bootstrap=True))

The examples of functions use a deep, insecure set:

>>> deep = hg.ckks.parameters(n=2**11, levels=40, log_scale=45, slots=4, insecure=True)
>>> holder = hg.SecretKey.generate(deep)
>>> service = hg.Server(holder.evaluation_keys(rotations=hg.ckks.sort_rotations(4)))
>>> v = service.bind(holder.encrypt([0.25, 0.5, 1, 2], bound=(0.25, 2)))
>>> w = service.bind(holder.encrypt([-1, -0.25, 0, 0.5], bound=1))
"""

from heliograph._common.functions import concatenate, dot, matmul, relinearize, rescale, square, stack, sum
from heliograph.ckks import parameter_search as _choose  # noqa: F401 (registers the search of hg.parameters_for)
from heliograph.ckks.approximation import Approximation, approximate
from heliograph.ckks.automatic import AutoBootstrap, auto_bootstrap
from heliograph.ckks.comparisons import abs, clip, compare, maximum, minimum, relu, sign, where
from heliograph.ckks.elementary import (
    cos,
    divide,
    erf,
    exp,
    gelu,
    inverse,
    log,
    logsumexp,
    norm,
    power,
    rsqrt,
    sigmoid,
    sin,
    softmax,
    sqrt,
    tanh,
)
from heliograph.ckks.functions import (
    bootstrap,
    conjugate,
    functional_bootstrap,
    inner_product,
    lower,
    multiply,
    polynomial,
    polynomial_depth,
    relinearize_rescale,
    rotate,
    sum_slots,
    unguarded,
    within,
)
from heliograph.ckks.keys import EvaluationKeys, PublicKey, SecretKey
from heliograph.ckks.linear import BlockTransform, LinearTransform
from heliograph.ckks.parameters import Parameters
from heliograph.ckks.ranks import (
    argmax,
    argmin,
    block_rotations,
    histogram,
    max,
    median,
    min,
    quantile,
    sort,
    sort_rotations,
    top_k,
)
from heliograph.ckks.sets import named, parameters
from heliograph.ckks.statistics import corrcoef, cov, mean, standardize, var
from heliograph.ckks.tensor import Guard, Plaintext, Tensor, encode, sum_rotations
from heliograph.programs.bootstraps import Bootstrapped, Bootstraps, Placement

__all__ = [
    "Approximation",
    "AutoBootstrap",
    "BlockTransform",
    "Bootstrapped",
    "Bootstraps",
    "EvaluationKeys",
    "Guard",
    "LinearTransform",
    "Parameters",
    "Placement",
    "Plaintext",
    "PublicKey",
    "SecretKey",
    "Tensor",
    "abs",
    "approximate",
    "argmax",
    "argmin",
    "auto_bootstrap",
    "block_rotations",
    "bootstrap",
    "clip",
    "compare",
    "concatenate",
    "conjugate",
    "corrcoef",
    "cos",
    "cov",
    "divide",
    "dot",
    "encode",
    "erf",
    "exp",
    "functional_bootstrap",
    "gelu",
    "histogram",
    "inner_product",
    "inverse",
    "log",
    "logsumexp",
    "lower",
    "matmul",
    "max",
    "maximum",
    "mean",
    "median",
    "min",
    "minimum",
    "multiply",
    "named",
    "norm",
    "parameters",
    "polynomial",
    "polynomial_depth",
    "power",
    "quantile",
    "relinearize",
    "relinearize_rescale",
    "relu",
    "rescale",
    "rotate",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "softmax",
    "sort",
    "sort_rotations",
    "sqrt",
    "square",
    "stack",
    "standardize",
    "sum",
    "sum_rotations",
    "sum_slots",
    "tanh",
    "top_k",
    "unguarded",
    "var",
    "where",
    "within",
]
