"""BFV: exact integers, many in a ciphertext. BGV has the same classes of parameters, keys and tensors.

Sources: Fan and Vercauteren, ePrint 2012/144; in residue number systems: Halevi, Polyakov and Shoup, ePrint 2018/117.

The examples of this module's functions continue this example.

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
    """Returns a BFV parameter set, chosen in one of three ways (BGV: `hg.bgv.parameters`).

    - By name: ``parameters("hcnn5-2020")``; the suffix ``/w32`` selects 32-bit words.
    - By need: ``parameters(depth=4, plain_bits=42, slots=10_000)`` is the smallest 128-bit set with at least `slots` slots
      for `depth` successive multiplications. Each multiplication may sum up to `terms` products. The plaintext modulus t
      has more than `plain_bits` bits, or is `plain_modulus`.
    - By numbers: ``parameters(n=2**14, log_q=330, special=2, plain_modulus=65537)``. `log_q` is in bits; `special` is the
      number of special primes of key switching.

    If t is chosen for `plain_bits`, values are **exact integers**: `SecretKey.decrypt` raises RoomError for integers that
    may have wrapped modulo t. With a given t and in named sets, values are residues and wrap by design. The argument `exact`
    overrides this choice.

    `version` selects the rules for a set by need. With "0.3", the default, noise bounds fail with probability 2^-128. With
    "0.2" they fail with 2^-64 and values are residues, as in that version.

    Raises ParameterError if no such set exists, SecurityError below 128 bits without ``insecure=True``.

    >>> hg.bfv.parameters("hcnn5-2020").slots
    16384
    >>> hg.bfv.parameters(depth=4, plain_bits=42, slots=10_000).n
    16384
    >>> hg.bfv.parameters(n=2**14, log_q=330, special=2, plain_modulus=65537).security
    '128-bit'
    >>> hg.bfv.parameters(depth=1, plain_bits=20).exact, hg.bfv.parameters(depth=1, plain_modulus=65537).exact
    (True, False)
    """
    moduli: dict[str, Any] = {"plain_bits": plain_bits, "plain_modulus": plain_modulus, "word_size": word_size}
    ring: dict[str, Any] = {"depth": depth, "slots": slots, "terms": terms, "n": n, "log_q": log_q, "special": special}
    return set_for("bfv", name, **moduli, **ring, insecure=insecure, version=version, exact=exact)


def named() -> list[str]:
    """Returns the names of the named sets.

    >>> "hcnn5-2020" in hg.bfv.named()
    True
    """
    return _core.exact.named_specs()
