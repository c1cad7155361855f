"""Exact integers, many to a ciphertext: what BFV and BGV share. Users find it in `hg.bfv` and `hg.bgv`."""

from heliograph.exact import choose as _choose  # noqa: F401 (known to hg.parameters_for from now on)
from heliograph.exact.keys import EvaluationKeys, PublicKey, SecretKey
from heliograph.exact.parameters import Parameters
from heliograph.exact.tensor import Plaintext, Tensor, encode

__all__ = ["EvaluationKeys", "Parameters", "Plaintext", "PublicKey", "SecretKey", "Tensor", "encode"]
