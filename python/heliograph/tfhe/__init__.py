"""TFHE: encrypted booleans and integers with NumPy's operators. Results are exact, and depth is unlimited.

``hg.tfhe.parameters()`` returns a parameter set. ``hg.SecretKey.generate`` and ``hg.Server`` make keys and servers, as for
every scheme.

Source: Chillotti, Gama, Georgieva and Izabachène, J. Cryptology 2020 (ePrint 2018/421).

The examples of this module's functions continue this example.

>>> import numpy as np
>>> import heliograph as hg
>>> secret = hg.SecretKey.generate(hg.tfhe.parameters("boolean"))
>>> server = hg.Server(secret.evaluation_keys())
>>> a = server.bind(secret.encrypt(np.array([7, 12], dtype=np.uint8)))
>>> b = server.bind(secret.encrypt(np.array([3, 200], dtype=np.uint8)))
>>> p = server.bind(secret.encrypt([True, True, False, False]))
>>> q = server.bind(secret.encrypt([True, False, True, False]))
>>> secret.decrypt(a + b), secret.decrypt(p & q)
(array([ 10, 212], dtype=uint8), array([ True, False, False, False]))
"""

from heliograph._common.functions import concatenate, stack
from heliograph.tfhe import parameter_search as _choose  # noqa: F401 (registers the search of hg.parameters_for)
from heliograph.tfhe.dtypes import int24, uint24
from heliograph.tfhe.functions import (
    add,
    and3,
    and_,
    andny,
    andyn,
    divmod,
    dot,
    floor_divide,
    full_adder,
    half_adder,
    look_up,
    majority,
    matmul,
    maximum,
    minimum,
    multiply,
    mux,
    nand,
    nor,
    not_,
    or3,
    or_,
    orny,
    oryn,
    remainder,
    rotate_left,
    rotate_right,
    select,
    shift_left,
    shift_right,
    subtract,
    sum,
    truncated_divmod,
    truth_table,
    xnor,
    xor,
    xor3,
)
from heliograph.tfhe.keys import EvaluationKeys, SecretKey, trivial
from heliograph.tfhe.parameters import Parameters, operations
from heliograph.tfhe.sets import named, parameters
from heliograph.tfhe.tensor import Tensor

__all__ = [
    "EvaluationKeys",
    "Parameters",
    "SecretKey",
    "Tensor",
    "add",
    "and3",
    "and_",
    "andny",
    "andyn",
    "concatenate",
    "divmod",
    "dot",
    "floor_divide",
    "full_adder",
    "half_adder",
    "int24",
    "look_up",
    "majority",
    "matmul",
    "maximum",
    "minimum",
    "multiply",
    "mux",
    "named",
    "nand",
    "nor",
    "not_",
    "operations",
    "or3",
    "or_",
    "orny",
    "oryn",
    "parameters",
    "remainder",
    "rotate_left",
    "rotate_right",
    "select",
    "shift_left",
    "shift_right",
    "stack",
    "subtract",
    "sum",
    "trivial",
    "truncated_divmod",
    "truth_table",
    "uint24",
    "xnor",
    "xor",
    "xor3",
]
