"""Search for the smallest parameter set that runs a computation, on the `null` device and by the noise model."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

from heliograph import _core
from heliograph._common.arguments import described, text_of
from heliograph._common.process import logger
from heliograph._common.schemes import CHOOSERS, SCHEMES

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
    """Returns the smallest 128-bit set of a scheme that runs `function` on tensors like `example`.

    `scheme` is "bfv", "bgv", "ckks" or "tfhe". `function` runs with trial sets on the `null` device, which counts operations
    and computes nothing. The result's `needs` holds the arguments for `SecretKey.evaluation_keys`.

    Options (defaults in parentheses):

    - "bfv" and "bgv", integers: `slots` (-1), the axis inside the ciphertexts; `plain_bits` or `plain_modulus`; `exact`, as
      in `hg.bfv.parameters`; `n`, the only ring degree to try; `word_size` (64). Without a plaintext modulus, a run on
      clear values determines its bits, plus `margin_bits` (2). The bound that decryption checks is then at most t/2 for
      inputs like the example.
    - "ckks", numbers: `slots` (-1); `precision` (30), correct bits after the binary point in the results; `bound`, the
      largest magnitude of an input (the example's largest); `word_size` (64). A trace of the computation determines its
      levels. Bounds on values and errors are those of `Tensor.precision`, so no value can exceed its modulus.
    - "tfhe", integers and booleans: `dtype` of the tensor (the example's); `log2_failure` (-128), the largest failure
      probability of one bootstrap, as log2. The result is the set of `hg.tfhe.named()` whose bootstraps take the fewest
      floating-point operations in total.

    Raises ParameterError if no set suffices or an option belongs to another scheme, DtypeError if `function` is not
    callable, and the errors of `function`.

    >>> import heliograph as hg, numpy as np
    >>> params = hg.parameters_for(lambda x: hg.sum(x * x, axis="slots"), np.ones((3, 100)), scheme="ckks", precision=18)
    >>> params.slots, params.depth, params.needs["rotations"]
    (100, 1, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048])
    """
    scheme = text_of(scheme, "the scheme", [name for s in SCHEMES.values() for name in s.files])
    search = CHOOSERS[next(s.key for s in SCHEMES.values() if scheme in s.files)]
    option_names = [name for name, p in inspect.signature(search).parameters.items() if p.kind is p.KEYWORD_ONLY]
    for name in options:
        if name not in option_names:
            raise _core.ParameterError(
                f"parameters_for has no option {described(name)} for {scheme}; its options are {', '.join(option_names)}"
            )
    if not callable(function):
        raise _core.DtypeError(f"parameters_for takes a function of a tensor, not {type(function).__name__}")
    parameters = search(function, example, scheme, **options)
    logger.info("parameters_for chose %r", parameters)
    return parameters
