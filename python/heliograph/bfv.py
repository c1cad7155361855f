"""BFV: exact integers, many to a ciphertext. BGV's sets, keys and tensors are of the same types.

The examples of its functions go on from these lines.

>>> import numpy as np
>>> import heliograph as hg
>>> params = hg.bfv.parameters(depth=2, plain_bits=20, slots=4)
>>> secret = hg.SecretKey.generate(params)
>>> server = hg.Server(secret.evaluation_keys(rotations=[1, 2]))
>>> x = server.bind(secret.encrypt([[1, 2, 3, 4], [5, 6, 7, 8]]))  # two ciphertexts of four values
>>> secret.decrypt(x * x + 1)
array([[ 2,  5, 10, 17],
       [26, 37, 50, 65]])
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
    """A BFV parameter set, in one of three ways (BGV's: `hg.bgv.parameters`).

    - By name: ``parameters("hcnn5-2020")``; ``/w32`` after it names the 32-bit edition.
    - By need: ``parameters(depth=4, plain_bits=42, slots=10_000)``: the smallest 128-bit set for `depth` multiplications
      in sequence, each summing up to `terms` products, of integers modulo a plaintext modulus of more than
      `plain_bits` bits (or `plain_modulus`), with at least `slots` slots.
    - By numbers: ``parameters(n=2**14, log_q=330, special=2, plain_modulus=65537)``.

    Where t is found for `plain_bits`, values are **exact integers**: `SecretKey.decrypt` raises RoomError for what may have
    wrapped modulo t. Where t is given, and in named sets, they are residues, and wrap by design. `exact` says it otherwise.

    `version`: by whose rules a set is chosen by need. "0.3", the default: noise bounds fail with 2^-128. "0.2": with 2^-64, and
    values are residues: the sets of that version.

    Raises ParameterError where no such set exists, SecurityError below 128 bits without ``insecure=True``.

    >>> hg.bfv.parameters("hcnn5-2020").slots
    16384
    >>> hg.bfv.parameters(depth=4, plain_bits=42, slots=10_000).n
    16384
    >>> hg.bfv.parameters(n=2**14, log_q=330, special=2, plain_modulus=65537).security
    '128-bit'
    >>> hg.bfv.parameters(depth=1, plain_bits=20).exact, hg.bfv.parameters(depth=1, plain_modulus=65537).exact
    (True, False)
    """
    wanted = {"depth": depth, "slots": slots, "terms": terms, "n": n, "log_q": log_q, "special": special}
    return found("bfv", name, plain_bits, plain_modulus, edition, insecure, version, exact, wanted)


def named() -> list[str]:
    """The named sets.

    >>> "hcnn5-2020" in hg.bfv.named()
    True
    """
    return _core.named_specs()
