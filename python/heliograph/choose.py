"""Parameters from a computation: it is run on a device that computes nothing, with the noise model."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

from heliograph import _core
from heliograph._arrays import described, text_of
from heliograph._schemes import CHOOSERS, SCHEMES
from heliograph.host import logger

if TYPE_CHECKING:
    from heliograph import ckks, exact, tfhe


@overload
def parameters_for(
    function: Callable[[Any], Any], example: Any, *, scheme: Literal["bfv", "bgv"] = "bfv", **options: Any
) -> exact.Parameters: ...


@overload
def parameters_for(
    function: Callable[[Any], Any], example: Any, *, scheme: Literal["ckks"], **options: Any
) -> ckks.Parameters: ...


@overload
def parameters_for(
    function: Callable[[Any], Any], example: Any, *, scheme: Literal["tfhe"], **options: Any
) -> tfhe.Parameters: ...


def parameters_for(function: Callable[[Any], Any], example: Any, *, scheme: str = "bfv", **options: Any) -> Any:
    """The smallest 128-bit set, of "bfv", "bgv", "ckks" or "tfhe", that runs `function` on tensors like `example`.

    The function runs on trial sets on the `null` device, which computes nothing and counts. `needs` of the result is what
    `SecretKey.evaluation_keys` must make for it. Options:

    - "bfv" and "bgv", of integers: `slots` (-1), the axis inside the ciphertexts; `plain_bits`, or `plain_modulus`, else the clear
      run tells the bits and `margin_bits` (2) of room are left, and the bound that decryption goes by is within t/2 for inputs like
      the example; `exact`, as `hg.bfv.parameters`; `n`, the only ring degree to look at; `edition` ("w64").
    - "ckks", of numbers: `slots` (-1); `precision` (30), bits after the binary point that are right in the results; `bound`, which
      no value is larger than in magnitude (the example's largest); `edition` ("w64"). Levels are traced, and bounds on values and
      errors are those of `Tensor.precision`: no value can outgrow its modulus.
    - "tfhe", of integers and booleans: `dtype`, the tensor's (the example's); `log2_failure` (-128), the most that a set may state
      of one bootstrap. The set among `hg.tfhe.named()` whose bootstraps take the fewest floating-point operations together.

    Raises ParameterError where no set suffices, and for another scheme's options, DtypeError for what is no function; what the function raises.

    >>> import heliograph as hg, numpy as np
    >>> params = hg.parameters_for(lambda x: hg.sum(x * x, axis="slots"), np.ones((3, 100)), scheme="ckks", precision=18)
    >>> params.slots, params.depth, params.needs["rotations"]
    (100, 1, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048])
    """
    scheme = text_of(scheme, "the scheme", [name for s in SCHEMES.values() for name in s.files])
    search = CHOOSERS[next(s.key for s in SCHEMES.values() if scheme in s.files)]
    known = [name for name, p in inspect.signature(search).parameters.items() if p.kind is p.KEYWORD_ONLY]
    for name in options:
        if name not in known:
            raise _core.ParameterError(f"a set of {scheme} is not found by {described(name)}, but by {', '.join(known)}")
    if not callable(function):
        raise _core.DtypeError(f"a set is found for a function of a tensor, not {type(function).__name__}")
    found = search(function, example, scheme, **options)
    logger.info("parameters_for chose %r", found)
    return found
