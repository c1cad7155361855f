"""Functions on tensors of every scheme, named as in NumPy. All functions also take clear tensors (`ClearTensor`).

Each function calls the tensor's method of the same name. If the scheme lacks the method, the function raises DtypeError
and names the alternative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import Computable, axis_of
from heliograph._common.matrices import Axis
from heliograph._common.operations import composite, view
from heliograph._common.tensor import Progress

T = TypeVar("T", bound=Computable)
#: Numbers that are not encrypted.
PlainOperand = int | float | complex | Sequence[Any] | npt.NDArray[Any] | np.generic


def _own(x: Any, name: str) -> Callable[..., Any]:
    """Returns the tensor's method. Raises DtypeError if `x` is not a tensor or its scheme lacks the method."""
    if not isinstance(x, Computable):
        raise _core.DtypeError(f"{name} takes a tensor, not {type(x).__name__}")
    method: Callable[..., Any] | None = getattr(x, name, None)
    if method is None:
        scheme: Any = getattr(type(x), "_scheme", None)
        if scheme is None:
            raise _core.DtypeError(f"clear tensors have no {name}")
        instead = scheme.instead.get(name)
        has = "have" if " and " in scheme.title else "has"
        raise _core.DtypeError(f"{scheme.title} {has} no {name}{f': {instead}' if instead else ''}")
    return method


def _either(a: Any, b: Any) -> tuple[Any, Any]:
    """Returns the two factors, a tensor first."""
    return (a, b) if isinstance(a, Computable) else (b, a)


@overload
def multiply(a: T, b: Any, *, progress: Progress | None = None) -> T: ...


@overload
def multiply(a: PlainOperand, b: T, *, progress: Progress | None = None) -> T: ...


@composite
def multiply(a: Any, b: Any, *, progress: Progress | None = None) -> Any:
    """Returns ``a * b``, elementwise, with NumPy's broadcasting. At least one operand is a tensor.

    `progress` is called with the completed fraction, from 0 to 1. Raises ShapeError, MismatchError, LevelError.

    >>> shares = []
    >>> y = hg.multiply(x, x, progress=shares.append)
    >>> shares[-1], secret.decrypt(y)[0]
    (1.0, array([ 1,  4,  9, 16]))
    """
    x, other = _either(a, b)
    return _own(x, "multiply")(other, progress=progress)


@composite
def square(x: T, *, progress: Progress | None = None) -> T:
    """Returns ``x * x``, elementwise; cheaper than a product of two different tensors.

    In BFV and BGV the result has degree two (three polynomials) until it is relinearized. In CKKS the result is relinearized
    and rescaled. Raises LevelError, MissingKeyError.

    >>> secret.decrypt(hg.square(x))
    array([[ 1,  4,  9, 16],
           [25, 36, 49, 64]])
    """
    return multiply(x, x, progress=progress)


@composite
def relinearize(x: T, *, keys: Any = None, progress: Progress | None = None) -> T:
    """Returns the tensor with ciphertexts of degree one, by one key switch for each ciphertext.

    `keys` defaults to the keys of the tensor's server. Raises MissingKeyError without a relinearization key.

    >>> y = x * x
    >>> y.degree, hg.relinearize(y).degree
    (2, 1)
    """
    result: T = _own(x, "relinearize")(keys=keys, progress=progress)
    return result


@composite
def rescale(x: T, *, progress: Progress | None = None) -> T:
    """Returns the tensor one level lower, its scale divided by the ratio of the moduli. CKKS only. Raises LevelError at
    level 1.

    >>> numbers = hg.SecretKey.generate(hg.ckks.parameters(depth=2, precision=20, slots=4))
    >>> z = hg.Server(numbers.evaluation_keys()).bind(numbers.encrypt([1, 2, 3, 4]))
    >>> y = hg.ckks.multiply(z, z, rescale=False)
    >>> y.level, hg.rescale(y).level
    (3, 2)
    """
    result: T = _own(x, "rescale")(progress=progress)
    return result


@overload
def matmul(
    weights: Any, x: T, bias: Any = None, *, axis: Axis = None, keys: Any = None, progress: Progress | None = None
) -> T: ...


@overload
def matmul(
    weights: T, x: PlainOperand, bias: None = None, *, axis: None = None, keys: Any = None, progress: Progress | None = None
) -> T: ...


@composite
def matmul(
    weights: Any, x: Any, bias: Any = None, *, axis: Axis = None, keys: Any = None, progress: Progress | None = None
) -> Any:
    """Returns ``weights @ x + bias`` along one axis of x. In the result, that axis has one entry for each row of `weights`.

    `weights` has shape [rows, columns] and `bias` has shape [rows]. Weights and bias are clear: integers, or numbers in
    CKKS.

    `axis` is an axis of ciphertexts, or "slots" for the values inside each ciphertext. By default it is the first axis of
    ciphertexts or the slots: the one with as many entries as `weights` has columns. If both the axis of ciphertexts and the
    slots have that number of entries, `axis` is required.

    Along ciphertexts, each weight multiplies whole ciphertexts: one modular matrix product in BFV and BGV. Along slots (CKKS
    only), the product takes one level and the rotations listed by `hg.ckks.LinearTransform`.

    TFHE has no slots. TFHE's weights may be encrypted, on either side. Without `axis`, a product in TFHE follows NumPy's
    matmul.

    Raises ShapeError, DtypeError, PlaintextRangeError, LevelError, MissingKeyError.

    >>> import heliograph as hg, numpy as np
    >>> secret = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=16))
    >>> x = secret.encrypt(np.array([[1, 2, 3], [10, 20, 30]]), pad=True)  # two features of three people
    >>> y = hg.matmul([[1, 1], [2, -1], [0, 5]], x, axis=0)
    >>> y.shape, secret.decrypt(y)[:, :3].tolist()
    ((3,), [[11, 22, 33], [-8, -16, -24], [50, 100, 150]])
    """
    if isinstance(weights, Computable) and not isinstance(x, Computable):
        if bias is not None or axis is not None:
            raise _core.DtypeError(
                "matmul takes bias and axis only if the matrix is the first operand and the tensor the second; swap the "
                "operands, or add the bias to the product"
            )
        return weights @ x
    options = {} if keys is None else {"keys": keys}
    return _own(x, "matmul")(weights, bias, axis=axis, progress=progress, **options)


@composite
def conv2d(
    x: T,
    weights: Any,
    bias: Any = None,
    *,
    stride: int = 1,
    padding: int = 0,
    groups: int = 1,
    progress: Progress | None = None,
) -> T:
    """Returns the 2D convolution of x with clear integer weights, as one modular matrix product. BFV and BGV only.

    `x` has shape (channels, H, W) or (batch, channels, H, W), `weights` (outputs, channels / groups, height, width) and
    `bias` (outputs,). Raises ShapeError, DtypeError.

    >>> image = server.bind(secret.encrypt(np.arange(16).reshape(4, 4)))  # four pixels, each of four images in the slots
    >>> kernel = np.array([[[[1, 1], [1, 1]]]])
    >>> secret.decrypt(hg.conv2d(image.reshape(1, 2, 2), kernel))[0, 0, 0]
    array([24, 28, 32, 36])
    """
    options: dict[str, Any] = {"stride": stride, "padding": padding, "groups": groups, "progress": progress}
    result: T = _own(x, "conv2d")(weights, bias, **options)
    return result


@composite
def sum_pool2d(x: T, size: int) -> T:
    """Returns the sums over the windows of size x size that tile the last two axes. Only BFV and BGV have this function.

    The call is one modular matrix product. Raises ShapeError.

    >>> image = server.bind(secret.encrypt(np.ones((4, 4), dtype=int)))
    >>> secret.decrypt(hg.sum_pool2d(image.reshape(1, 2, 2), 2))
    array([[[[4, 4, 4, 4]]]])
    """
    result: T = _own(x, "sum_pool2d")(size)
    return result


@composite
def conv2d_square_pool(
    x: T,
    weights: Any,
    bias: Any = None,
    *,
    pool: int = 1,
    stride: int = 1,
    padding: int = 0,
    groups: int = 1,
    stretch: int = 0,
    keys: Any = None,
    progress: Progress | None = None,
) -> T:
    """Returns relinearize(sum_pool2d(square(conv2d(x, ...)), pool)), bit for bit, in less memory. BFV and BGV only.

    `x` has shape (channels, H, W). The output channels are computed in blocks of `stretch` channels, so that only one block
    of outputs and squares is in memory. If `stretch` is 0, a block fills half of the free memory. Raises ShapeError,
    DtypeError, MissingKeyError, and OutOfMemoryError before anything is computed.

    >>> image = server.bind(secret.encrypt(np.arange(16).reshape(4, 4)))
    >>> y = hg.conv2d_square_pool(image.reshape(1, 2, 2), np.array([[[[2]]]]), pool=2)  # sums of (2 x)^2 over the pixels
    >>> secret.decrypt(y)[0, 0, 0]
    array([ 896, 1104, 1344, 1616])
    """
    shape: dict[str, Any] = {"pool": pool, "stride": stride, "padding": padding, "groups": groups, "stretch": stretch}
    result: T = _own(x, "conv2d_square_pool")(weights, bias, **shape, keys=keys, progress=progress)
    return result


@view
def split_moduli(x: T) -> list[T]:
    """Returns one tensor for each plaintext modulus of x, without a copy. BFV and BGV only.

    A long computation can then run modulus by modulus, with the memory that one modulus needs. The operands of an operation
    must have the same moduli. To save or decrypt the tensors, join them (`join_moduli`).

    >>> two = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_modulus=[65537, 114689]))
    >>> [y.plain_moduli for y in hg.split_moduli(two.encrypt([100_000], pad=True))]
    [[65537], [114689]]
    """
    result: list[T] = _own(x, "split_moduli")()
    return result


@view
def join_moduli(tensors: Sequence[T]) -> T:
    """Joins tensors with adjacent plaintext moduli, in order, into one tensor without a copy. Inverse of `split_moduli`.

    Raises MismatchError, ShapeError, DtypeError.

    >>> two = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_modulus=[65537, 114689]))
    >>> parts = hg.split_moduli(two.encrypt([100_000], pad=True))
    >>> two.decrypt(hg.join_moduli([y * 3 for y in parts]))[:1]
    array([300000])
    """
    if not isinstance(tensors, (list, tuple)):
        raise _core.DtypeError(f"join_moduli takes a list of tensors, not {type(tensors).__name__}")
    if not tensors:
        raise _core.MismatchError("join_moduli takes at least one tensor, not an empty list")
    result: T = _own(tensors[0], "join_moduli")(tensors[1:])
    return result


@composite
def sum(x: T, axis: Axis = None, *, keys: Any = None, progress: Progress | None = None) -> T:
    """Returns the sum over axes of ciphertexts, slot by slot, or over the slots of each ciphertext.

    `axis` is one axis, a sequence of axes, or "slots". The sum over slots is in every slot of the result. By default the sum
    is over all axes. For one ciphertext, of shape (), the default is its slots. TFHE has no slots.

    The sum over slots takes rotations and additions. The sum over slots needs keys for the rotations 1, 2, 4, ...
    (`hg.ckks.sum_rotations`); in BFV and BGV it needs those below N/2 and the key for the column exchange.

    Only the tensor's first `slots` values are added. The content of the unused slots is unknown after ``x - mean``, or if
    the tensor comes from a file that does not state it. If the content of the unused slots is unknown, a plaintext mask
    clears these slots first. A mask takes one level in CKKS and adds noise in BFV and BGV.

    Raises ShapeError, DtypeError, MissingKeyError, and LevelError if no level is left for a mask.

    >>> import heliograph as hg
    >>> secret = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=16))
    >>> x = secret.encrypt([[1, 2], [3, 4], [5, 6]], pad=True)
    >>> secret.decrypt(hg.sum(x, axis=0))[:2].tolist()
    [9, 12]
    """
    result: T = _own(x, "sum")(axis, keys=keys, progress=progress)
    return result


@overload
def dot(a: T, b: Any) -> T: ...


@overload
def dot(a: PlainOperand, b: T) -> T: ...


@composite
def dot(a: Any, b: Any) -> Any:
    """Returns the dot product of two vectors of shape (n,) along the ciphertext axis. One vector or both are encrypted.

    The result is relinearized at most once. In CKKS a clear vector may also have shape (n, slots). Raises ShapeError,
    DtypeError.

    >>> secret.decrypt(hg.dot(x, x))
    array([26, 40, 58, 80])
    >>> secret.decrypt(hg.dot([10, 1], x))
    array([15, 26, 37, 48])
    """
    x, other = _either(a, b)
    return _own(x, "dot")(other)


@composite
def rotate_rows(
    x: T,
    steps: int | Sequence[int],
    *,
    keys: Any = None,
    compose: bool | int | None = None,
    progress: Progress | None = None,
) -> T:
    """Returns the slots rotated left by `steps` within each of the two rows of N/2. BFV and BGV only.

    If `steps` has several steps, the result has a new first axis with one entry for each step. Several steps cost little
    more than one rotation (hoisting). Unused slots count as zeros. If the content of unused slots is unknown, a plaintext
    mask clears these slots first.

    `compose` controls rotations by steps that have no key. Steps without a key can be composed of keyed rotations, by the
    fewest key switches (`EvaluationKeys.composition`). Each key switch takes as long as a rotation with a key and adds
    noise. The values are:

    - True: compose, with at most 32 key switches for each step.
    - an integer: compose, with at most that number of key switches.
    - False: do not compose.
    - None: use the setting of ``hg.Server(compose_rotations=)``, which by default does not compose.

    Raises MissingKeyError, which lists the available steps and the cost of a composition; ParameterError or DtypeError for
    an invalid `compose`.

    >>> secret.decrypt(hg.rotate_rows(x[0], 1))[:3]
    array([2, 3, 4])
    >>> hg.rotate_rows(x, [1, 2]).shape  # several for little more than the price of one
    (2, 2)
    >>> secret.decrypt(hg.rotate_rows(x[0], 3, compose=True))[:1]  # by the keys of 1 and 2
    array([4])
    """
    result: T = _own(x, "rotate_rows")(steps, keys=keys, compose=compose, progress=progress)
    return result


@composite
def rotate_columns(x: T, *, keys: Any = None, progress: Progress | None = None) -> T:
    """Returns the tensor with its two rows of N/2 slots exchanged. BFV and BGV only. Raises MissingKeyError.

    >>> full = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=20))  # all slots: two rows
    >>> z = hg.Server(full.evaluation_keys(columns=True)).bind(full.encrypt(np.arange(full.parameters.slots)))
    >>> full.decrypt(hg.rotate_columns(z))[:2] - full.parameters.slots // 2
    array([0, 1])
    """
    result: T = _own(x, "rotate_columns")(keys=keys, progress=progress)
    return result


@composite
def concatenate(tensors: Sequence[T], axis: int = 0) -> T:
    """Joins tensors of one scheme along an existing axis. Raises ShapeError, DtypeError, MismatchError.

    >>> hg.concatenate([x, x[:1]]).shape
    (3,)
    """
    result: T = _of_one_kind(tensors, "concatenate")._join(tensors, axis)
    return result


@composite
def stack(tensors: Sequence[T], axis: int = 0) -> T:
    """Joins tensors of one scheme and shape along a new axis. Raises ShapeError, DtypeError, MismatchError.

    >>> hg.stack([x, x]).shape
    (2, 2)
    """
    kind = _of_one_kind(tensors, "stack")
    each: Any = list(tensors)
    at = axis_of(axis, each[0].ndim + 1, f"a stack of tensors of shape {each[0].shape}")
    result: T = kind._join([t.reshape(*t.shape[:at], 1, *t.shape[at:]) for t in each], at)
    return result


def _of_one_kind(tensors: Sequence[Any], what: str) -> Any:
    """Returns the common class of the tensors. Raises DtypeError for anything but tensors of one class, ShapeError for an
    empty list.

    """
    if not isinstance(tensors, (Computable, list, tuple)):
        raise _core.DtypeError(f"{what} takes a list of tensors, not {type(tensors).__name__}")
    if not len(tensors):
        raise _core.ShapeError(f"{what} takes at least one tensor, not an empty list")
    first = type(tensors[0])
    for t in tensors:
        if not isinstance(t, Computable):
            raise _core.DtypeError(f"{what} takes tensors, not {type(t).__name__}")
        if not isinstance(t, first):
            raise _core.DtypeError(f"{what} takes tensors of one scheme, not {_of(tensors[0])} and {_of(t)}")
    return first


def _of(tensor: Any) -> str:
    """Names a tensor's class and scheme, for an error."""
    scheme = getattr(type(tensor), "_scheme", None)
    return "a clear tensor" if scheme is None else f"a tensor of {scheme.title}"


@composite
def shrink(x: T, level: int = 0) -> T:
    """Switches to a smaller ciphertext modulus: the same values in fewer bytes. BFV and BGV only.

    `level` is the number of primes that remain; with 0, as few primes remain as the noise estimate allows. Raises
    LevelError.

    >>> y = hg.shrink(hg.relinearize(x * x))
    >>> y.level < x.level, len(y.to_bytes()) < len((x * x).to_bytes())
    (True, True)
    """
    result: T = _own(x, "shrink")(level)
    return result
