"""Functions on tensors of every scheme, named as in NumPy. All take clear tensors too (`ClearTensor`).

Each is the tensor's own method of that name: what a scheme lacks is a DtypeError that says what it has instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._arrays import Computable, axis_of
from heliograph._matrices import Axis
from heliograph._shapes import Progress

T = TypeVar("T", bound=Computable)
#: Numbers that are not encrypted.
Clear = int | float | complex | Sequence[Any] | npt.NDArray[Any] | np.generic


def _own(x: Any, name: str) -> Callable[..., Any]:
    """The tensor's method. Raises DtypeError for what is no tensor, or of a scheme that lacks it."""
    if not isinstance(x, Computable):
        raise _core.DtypeError(f"{name} takes a tensor, not {type(x).__name__}")
    found: Callable[..., Any] | None = getattr(x, name, None)
    if found is None:
        scheme: Any = getattr(type(x), "_scheme", None)
        if scheme is None:
            raise _core.DtypeError(f"clear tensors have no {name}")
        instead = scheme.instead.get(name)
        raise _core.DtypeError(f"{scheme.title} has no {name}{f'; there is {instead}' if instead else ''}")
    return found


def _either(a: Any, b: Any) -> tuple[Any, Any]:
    """Two factors, a tensor first."""
    return (a, b) if isinstance(a, Computable) else (b, a)


@overload
def multiply(a: T, b: Any, *, progress: Progress | None = None) -> T: ...


@overload
def multiply(a: Clear, b: T, *, progress: Progress | None = None) -> T: ...


def multiply(a: Any, b: Any, *, progress: Progress | None = None) -> Any:
    """a * b, with progress.

    >>> shares = []
    >>> y = hg.multiply(x, x, progress=shares.append)
    >>> shares[-1], secret.decrypt(y)[0]
    (1.0, array([ 1,  4,  9, 16]))
    """
    x, other = _either(a, b)
    return _own(x, "multiply")(other, progress=progress)


def square(x: T, *, progress: Progress | None = None) -> T:
    """x * x: cheaper than a product of two. BFV's result has degree two, CKKS's is relinearized and rescaled.

    >>> secret.decrypt(hg.square(x))
    array([[ 1,  4,  9, 16],
           [25, 36, 49, 64]])
    """
    return multiply(x, x, progress=progress)


def relinearize(x: T, *, keys: Any = None, progress: Progress | None = None) -> T:
    """Back to degree one. Raises MissingKeyError where no relinearization key is at hand.

    >>> y = x * x
    >>> y.degree, hg.relinearize(y).degree
    (2, 1)
    """
    found: T = _own(x, "relinearize")(keys=keys, progress=progress)
    return found


def rescale(x: T, *, progress: Progress | None = None) -> T:
    """One level lower, the scale divided by the ratio of the moduli: of CKKS. Raises LevelError at level 1.

    >>> numbers = hg.SecretKey.generate(hg.ckks.parameters(depth=2, precision=20, slots=4))
    >>> z = hg.Server(numbers.evaluation_keys()).bind(numbers.encrypt([1, 2, 3, 4]))
    >>> y = hg.ckks.multiply(z, z, rescale=False)
    >>> y.level, hg.rescale(y).level
    (3, 2)
    """
    found: T = _own(x, "rescale")(progress=progress)
    return found


@overload
def matmul(
    weights: Any, x: T, bias: Any = None, *, axis: Axis = None, keys: Any = None, progress: Progress | None = None
) -> T: ...


@overload
def matmul(
    weights: T, x: Clear, bias: None = None, *, axis: None = None, keys: Any = None, progress: Progress | None = None
) -> T: ...


def matmul(
    weights: Any, x: Any, bias: Any = None, *, axis: Axis = None, keys: Any = None, progress: Progress | None = None
) -> Any:
    """weights [rows, columns] times x along one axis, which then has a value for each row.

    `axis` says which: an integer is an axis of ciphertexts, counted as NumPy does, "slots" the values inside each. Without it,
    it is the first axis of ciphertexts or the slots, whichever has as many as `weights` has columns; where both have, it is an
    error that says the two ways. Along ciphertexts it is a layer over features: a number for each pair of ciphertexts, one
    modular matrix product in BFV and BGV. On slots, which CKKS alone has, it takes rotations (`hg.ckks.LinearTransform` tells
    which), and one level, as products by real numbers do.

    Weights and bias are clear: integers, in CKKS numbers; the bias has a value for each row. TFHE's have no slots, may be
    encrypted themselves, on either side, and without an axis are as NumPy's matmul. Raises ShapeError, DtypeError,
    PlaintextRangeError, LevelError, MissingKeyError.

    >>> import heliograph as hg, numpy as np
    >>> secret = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=16))
    >>> x = secret.encrypt(np.array([[1, 2, 3], [10, 20, 30]]), pad=True)  # two features of three people
    >>> y = hg.matmul([[1, 1], [2, -1], [0, 5]], x, axis=0)
    >>> y.shape, secret.decrypt(y)[:, :3].tolist()
    ((3,), [[11, 22, 33], [-8, -16, -24], [50, 100, 150]])
    """
    if isinstance(weights, Computable) and not isinstance(x, Computable):
        if bias is not None or axis is not None:
            raise _core.DtypeError("matmul takes a bias and an axis where the matrix comes first and the tensor second")
        return weights @ x
    options = {} if keys is None else {"keys": keys}
    return _own(x, "matmul")(weights, bias, axis=axis, progress=progress, **options)


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
    """Convolution of x (channels, H, W) or (batch, channels, H, W) with clear integer weights
    [outputs, channels / groups, height, width]: one modular matrix product. Of BFV and BGV. Raises ShapeError, DtypeError.

    >>> image = server.bind(secret.encrypt(np.arange(16).reshape(4, 4)))  # four pixels, each of four images in the slots
    >>> kernel = np.array([[[[1, 1], [1, 1]]]])
    >>> secret.decrypt(hg.conv2d(image.reshape(1, 2, 2), kernel))[0, 0, 0]
    array([24, 28, 32, 36])
    """
    options: dict[str, Any] = {"stride": stride, "padding": padding, "groups": groups, "progress": progress}
    found: T = _own(x, "conv2d")(weights, bias, **options)
    return found


def sum_pool2d(x: T, size: int) -> T:
    """Sums over windows of size x size, which tile the last two axes: one modular matrix product. Of BFV and BGV. Raises
    ShapeError.

    >>> image = server.bind(secret.encrypt(np.ones((4, 4), dtype=int)))
    >>> secret.decrypt(hg.sum_pool2d(image.reshape(1, 2, 2), 2))
    array([[[[4, 4, 4, 4]]]])
    """
    found: T = _own(x, "sum_pool2d")(size)
    return found


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
    """relinearize(sum_pool2d(square(conv2d(x, ...)), pool)) of x (channels, H, W), to the same bits, in less memory. Of BFV and BGV.

    It goes over stretches of output channels, so that the convolution's outputs and their squares are never all there:
    `stretch` of them at a time, or as many as half of the memory left holds. Raises ShapeError, DtypeError, MissingKeyError,
    OutOfMemoryError (before anything is computed).

    >>> image = server.bind(secret.encrypt(np.arange(16).reshape(4, 4)))
    >>> y = hg.conv2d_square_pool(image.reshape(1, 2, 2), np.array([[[[2]]]]), pool=2)  # sums of (2 x)^2 over the pixels
    >>> secret.decrypt(y)[0, 0, 0]
    array([ 896, 1104, 1344, 1616])
    """
    shape: dict[str, Any] = {"pool": pool, "stride": stride, "padding": padding, "groups": groups, "stretch": stretch}
    found: T = _own(x, "conv2d_square_pool")(weights, bias, **shape, keys=keys, progress=progress)
    return found


def split_moduli(x: T) -> list[T]:
    """The tensor as one for each plaintext modulus that it holds; nothing is copied. Of BFV and BGV. Long computations can so
    run modulus by modulus, with the memory of one. Operations take tensors of the same moduli; to be saved or decrypted they
    are joined.

    >>> two = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_modulus=[65537, 114689]))
    >>> [y.plain_moduli for y in hg.split_moduli(two.encrypt([100_000], pad=True))]
    [[65537], [114689]]
    """
    found: list[T] = _own(x, "split_moduli")()
    return found


def join_moduli(tensors: Sequence[T]) -> T:
    """Tensors of adjacent plaintext moduli, in order, as one; nothing is copied. Raises MismatchError, ShapeError, DtypeError.

    >>> two = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_modulus=[65537, 114689]))
    >>> parts = hg.split_moduli(two.encrypt([100_000], pad=True))
    >>> two.decrypt(hg.join_moduli([y * 3 for y in parts]))[:1]
    array([300000])
    """
    if not isinstance(tensors, (list, tuple)):
        raise _core.DtypeError(f"join_moduli takes a list of tensors, not {type(tensors).__name__}")
    if not tensors:
        raise _core.MismatchError("nothing to join")
    found: T = _own(tensors[0], "join_moduli")(tensors[1:])
    return found


def sum(x: T, axis: Axis = None, *, keys: Any = None, progress: Progress | None = None) -> T:
    """Sum over axes of ciphertexts, slot by slot: one, several, or all of them where none is named; with axis="slots" over the
    values inside each ciphertext, then every slot holds the sum. Of one ciphertext, of shape (), which is a vector, the sum is
    over its slots where no axis is named.

    The sum over slots is rotations and additions, over all places that rotations turn, and of the tensor's `slots` values: what
    stands behind them does not count. Where nobody knows what that is (something secret, as in x less its mean, or a file does
    not tell), it is hidden by a product with a plaintext: a level in CKKS (LevelError where there is none), noise in BFV and BGV.
    It needs keys for the rotations 1, 2, 4, ... (`hg.ckks.sum_rotations`), in BFV and BGV those below N/2 and the columns. TFHE
    has no slots. Raises ShapeError, DtypeError, MissingKeyError, LevelError.

    >>> import heliograph as hg
    >>> secret = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=16))
    >>> x = secret.encrypt([[1, 2], [3, 4], [5, 6]], pad=True)
    >>> secret.decrypt(hg.sum(x, axis=0))[:2].tolist()
    [9, 12]
    """
    found: T = _own(x, "sum")(axis, keys=keys, progress=progress)
    return found


@overload
def dot(a: T, b: Any) -> T: ...


@overload
def dot(a: Clear, b: T) -> T: ...


def dot(a: Any, b: Any) -> Any:
    """Dot product of two vectors of which one or both are encrypted, along the ciphertext axis. Relinearized at most once. In
    CKKS a clear one may also be of shape (n, slots).

    >>> secret.decrypt(hg.dot(x, x))
    array([26, 40, 58, 80])
    >>> secret.decrypt(hg.dot([10, 1], x))
    array([15, 26, 37, 48])
    """
    x, other = _either(a, b)
    return _own(x, "dot")(other)


def rotate_rows(
    x: T,
    steps: int | Sequence[int],
    *,
    keys: Any = None,
    compose: bool | int | None = None,
    progress: Progress | None = None,
) -> T:
    """Slots turned left by `steps` within each of the two rows of N/2, in BFV and BGV. Several steps give a new first axis, one
    entry each, for little more than the price of one (hoisting). Behind fewer values than slots come zeros; something unknown
    there is hidden first, by a product with a plaintext.

    `compose`: True makes steps that have no key from those that have one, by the fewest key switches
    (`EvaluationKeys.composition`), at most 32 for each step, a number: at most so many; False makes none. None: as the tensor's `Server`
    was told (``compose_rotations=``), which is none unless it was. Each key switch takes as long as a rotation by a key and adds noise.

    Raises MissingKeyError naming the steps there are keys for, and what a composition takes; ParameterError, DtypeError for another
    `compose`.

    >>> secret.decrypt(hg.rotate_rows(x[0], 1))[:3]
    array([2, 3, 4])
    >>> hg.rotate_rows(x, [1, 2]).shape  # several for little more than the price of one
    (2, 2)
    >>> secret.decrypt(hg.rotate_rows(x[0], 3, compose=True))[:1]  # by the keys of 1 and 2
    array([4])
    """
    found: T = _own(x, "rotate_rows")(steps, keys=keys, compose=compose, progress=progress)
    return found


def rotate_columns(x: T, *, keys: Any = None, progress: Progress | None = None) -> T:
    """The two rows of slots exchanged, in BFV and BGV.

    >>> full = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=20))  # all slots: two rows
    >>> z = hg.Server(full.evaluation_keys(columns=True)).bind(full.encrypt(np.arange(full.parameters.slots)))
    >>> full.decrypt(hg.rotate_columns(z))[:2] - full.parameters.slots // 2
    array([0, 1])
    """
    found: T = _own(x, "rotate_columns")(keys=keys, progress=progress)
    return found


def concatenate(tensors: Sequence[T], axis: int = 0) -> T:
    """Tensors of one scheme and kind joined along an axis they have. Raises ShapeError, DtypeError, MismatchError.

    >>> hg.concatenate([x, x[:1]]).shape
    (3,)
    """
    found: T = _of_one_kind(tensors, "concatenate")._joined(tensors, axis)
    return found


def stack(tensors: Sequence[T], axis: int = 0) -> T:
    """Tensors of one scheme, kind and shape along a new axis. Raises ShapeError, DtypeError, MismatchError.

    >>> hg.stack([x, x]).shape
    (2, 2)
    """
    kind = _of_one_kind(tensors, "stack")
    each: Any = list(tensors)
    at = axis_of(axis, each[0].ndim + 1, f"a stack of tensors of shape {each[0].shape}")
    found: T = kind._joined([t.reshape(*t.shape[:at], 1, *t.shape[at:]) for t in each], at)
    return found


def _of_one_kind(tensors: Sequence[Any], what: str) -> Any:
    """The tensors' class. Raises DtypeError for what is no tensor, or of another class, ShapeError where there is none."""
    if not isinstance(tensors, (Computable, list, tuple)):
        raise _core.DtypeError(f"{what} takes a list of tensors, not {type(tensors).__name__}")
    if not len(tensors):
        raise _core.ShapeError(f"nothing to {what}")
    first = type(tensors[0])
    for t in tensors:
        if not isinstance(t, Computable):
            raise _core.DtypeError(f"{what} takes tensors, not {type(t).__name__}")
        if not isinstance(t, first):
            raise _core.DtypeError(f"{what} takes tensors of one scheme")
    return first


def shrink(x: T, level: int = 0) -> T:
    """The same values modulo a smaller ciphertext modulus: fewer bytes to send. `level` primes stay; 0: as few as the noise
    estimate allows. Of BFV and BGV. Raises LevelError.

    >>> y = hg.shrink(hg.relinearize(x * x))
    >>> y.level < x.level, len(y.to_bytes()) < len((x * x).to_bytes())
    (True, True)
    """
    found: T = _own(x, "shrink")(level)
    return found
