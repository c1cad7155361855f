"""BFV and BGV: exact integers, many in a ciphertext. The public modules are `hg.bfv` and `hg.bgv`."""

from heliograph.exact import parameter_search as _choose  # noqa: F401 (registers the search of hg.parameters_for)
from heliograph.exact.keys import EvaluationKeys, PublicKey, SecretKey
from heliograph.exact.parameters import Parameters
from heliograph.exact.tensor import Plaintext, Tensor, encode

__all__ = ["EvaluationKeys", "Parameters", "Plaintext", "PublicKey", "SecretKey", "Tensor", "encode"]
