"""BGV parameter sets: exact integers, many to a ciphertext. Types, keys and functions are those of BFV.

The examples of its functions go on from these lines.

>>> import heliograph as hg
>>> params = hg.bgv.parameters(depth=2, plain_modulus=65537, slots=1000)
>>> params.scheme, params.plain_modulus
('BGV', 65537)
"""

from __future__ import annotations

from collections.abc import Sequence

from heliograph import _core
from heliograph.exact import EvaluationKeys, Parameters, Plaintext, PublicKey, SecretKey, Tensor, encode
from heliograph.exact.parameters import found

__all__ = [
    "EvaluationKeys",
    "Parameters",
    "Plaintext",
    "PublicKey",
    "SecretKey",
    "Tensor",
    "encode",
    "named",
    "parameters",
]


def parameters(
    name: str | None = None,
    *,
    depth: int | None = None,
    plain_bits: int = 0,
    plain_modulus: int | Sequence[int] | None = None,
    slots: int = 0,
    terms: int = 1024,
    n: int | None = None,
    log_q: int | None = None,
    special: int = 1,
    edition: str = "w64",
    insecure: bool = False,
    version: str | None = None,
    exact: bool | None = None,
) -> Parameters:
    """A BGV parameter set; arguments and errors are those of `hg.bfv.parameters`.

    Noise grows with the plaintext modulus, so BGV is for small ones (``plain_modulus=65537``); there its products are far
    cheaper than BFV's. The operator ``*`` first switches both operands to a smaller modulus, where their noise is known.

    >>> hg.bgv.parameters("bgv-n14").levels
    6
    >>> hg.bgv.parameters(depth=4, plain_modulus=65537, slots=8192).n
    16384
    """
    wanted = {"depth": depth, "slots": slots, "terms": terms, "n": n, "log_q": log_q, "special": special}
    return found("bgv", name, plain_bits, plain_modulus, edition, insecure, version, exact, wanted)


def named() -> list[str]:
    """The named sets.

    >>> hg.bgv.named()
    ['bgv-n15', 'bgv-n14', 'hcnn5-bgv']
    """
    return _core.named_specs("bgv")
