"""BGV: exact integers, many in a ciphertext. Classes, keys and functions are those of BFV.

Source: Brakerski, Gentry and Vaikuntanathan, ePrint 2011/277.

The examples of this module's functions continue this example.

>>> import heliograph as hg
>>> params = hg.bgv.parameters(depth=2, plain_modulus=65537, slots=1000)
>>> params.scheme, params.plain_modulus
('BGV', 65537)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heliograph import _core
from heliograph.exact import EvaluationKeys, Parameters, Plaintext, PublicKey, SecretKey, Tensor, encode
from heliograph.exact.parameters import set_for

__all__ = ["EvaluationKeys", "Parameters", "Plaintext", "PublicKey", "SecretKey", "Tensor", "encode", "named", "parameters"]


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
    word_size: int = 64,
    insecure: bool = False,
    version: str | None = None,
    exact: bool | None = None,
) -> Parameters[SecretKey]:
    """Returns a BGV parameter set. Arguments and errors are the same as of `hg.bfv.parameters`.

    Noise grows with the plaintext modulus, so BGV suits small moduli (``plain_modulus=65537``), for which its products are
    far cheaper than BFV's. The operator ``*`` first switches both operands to a smaller modulus if their noise is known.

    >>> hg.bgv.parameters("bgv-n14").levels
    6
    >>> hg.bgv.parameters(depth=4, plain_modulus=65537, slots=8192).n
    16384
    """
    moduli: dict[str, Any] = {"plain_bits": plain_bits, "plain_modulus": plain_modulus, "word_size": word_size}
    ring: dict[str, Any] = {"depth": depth, "slots": slots, "terms": terms, "n": n, "log_q": log_q, "special": special}
    return set_for("bgv", name, **moduli, **ring, insecure=insecure, version=version, exact=exact)


def named() -> list[str]:
    """Returns the names of the named sets.

    >>> hg.bgv.named()
    ['bgv-n15', 'bgv-n14', 'hcnn5-bgv']
    """
    return _core.exact.named_specs("bgv")
