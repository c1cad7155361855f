"""Functions on tensors, named as in NumPy. Each is one call of the engine. All take clear tensors too (`ClearTensor`).

Those that mean the same for TFHE (multiply, square, sum, dot, matmul, concatenate, stack) and CKKS (these, relinearize and rescale)
take their tensors and go to `hg.tfhe`'s and `hg.ckks`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from heliograph import _core, ckks, tfhe
from heliograph._arrays import axis_of, described, integers, listed, long_integers, residues, whole, whole_numbers
from heliograph._shapes import joined
from heliograph.clear import ClearTensor
from heliograph.keys import EvaluationKeys
from heliograph.tensor import Progress, Tensor

AnyTensor = TypeVar("AnyTensor", Tensor, ClearTensor)
Keys = TypeVar("Keys", EvaluationKeys, ckks.EvaluationKeys)
EachTensor = TypeVar("EachTensor", Tensor, ClearTensor, tfhe.Tensor, ckks.Tensor)
RelinearizedTensor = TypeVar("RelinearizedTensor", Tensor, ClearTensor, ckks.Tensor)
_NO_BIAS = np.zeros(0, dtype=np.int64)


def _bias(bias: Any, x: Tensor | ClearTensor) -> Any:
    """As the engine takes it: integers beyond 64 bits as residues [moduli, outputs]."""
    values = _NO_BIAS if bias is None else long_integers(bias, "the bias")
    if values.ndim != 1:
        raise _core.ShapeError(f"a bias has one axis, a value for each output, not shape {values.shape}")
    if isinstance(x, ClearTensor) or values.dtype != object:
        return values
    parameters = x.parameters
    largest = max(abs(v) for v in values)
    if 2 * largest > parameters.plain_modulus:
        raise _core.PlaintextRangeError(f"the bias holds {described(largest)}, beyond half the plaintext modulus")
    return np.stack([residues(values, t, "the bias") for t in parameters.plain_moduli])


def _require_bfv(x: Any, what: str, instead: str = "") -> None:
    """Raises DtypeError for anything but BFV's tensors and clear ones."""
    if isinstance(x, tfhe.Tensor):
        raise _core.DtypeError(f"{what} is BFV's, not TFHE's{instead and '; for TFHE there is '}{instead}")
    if isinstance(x, ckks.Tensor):
        raise _core.DtypeError(f"{what} is BFV's, not CKKS's: see hg.ckks")
    if not isinstance(x, (Tensor, ClearTensor)):
        raise _core.DtypeError(f"{what} takes a tensor, not {type(x).__name__}")


def _keys(x: Tensor, keys: EvaluationKeys | None, what: str) -> EvaluationKeys:
    found = _only(keys, EvaluationKeys) or x._keys
    if found is None:
        raise _core.MissingKeyError(f"{what} needs evaluation keys: load the tensor through a Server, or pass keys=")
    return found


def multiply(a: EachTensor, b: Any, *, progress: Progress | None = None) -> EachTensor:
    """a * b, with progress."""
    if isinstance(a, tfhe.Tensor):
        return tfhe.multiply(a, b, progress=progress)
    if isinstance(a, ckks.Tensor):
        return ckks.multiply(a, b, progress=progress)
    _require_bfv(a, "multiply")
    if isinstance(a, ClearTensor):
        return ClearTensor.__mul__(a, b)
    return a._multiply(b, progress)


def square(x: EachTensor, *, progress: Progress | None = None) -> EachTensor:
    """x * x: cheaper than a product of two. BFV's result has degree two, CKKS's is relinearized and rescaled."""
    return multiply(x, x, progress=progress)


def relinearize(
    x: RelinearizedTensor,
    *,
    keys: EvaluationKeys | ckks.EvaluationKeys | None = None,
    progress: Progress | None = None,
) -> RelinearizedTensor:
    """Back to degree one. Raises MissingKeyError where no relinearization key is at hand."""
    if isinstance(x, ckks.Tensor):
        return ckks.relinearize(x, keys=_only(keys, ckks.EvaluationKeys), progress=progress)
    _require_bfv(x, "relinearize", "nothing to relinearize: results are ready to compute on")
    if isinstance(x, ClearTensor) or x.degree == 1:
        return x
    found = _keys(x, _only(keys, EvaluationKeys), "relinearizing")
    return Tensor(_core.relinearize(x._core, found._core, progress), found)


def _only(keys: Any, kind: type[Keys]) -> Keys | None:
    """Raises MismatchError for another scheme's keys."""
    if keys is None or isinstance(keys, kind):
        return keys
    raise _core.MismatchError(f"{described(keys)} are no evaluation keys of the tensor's scheme")


def rescale(x: Any, *, progress: Progress | None = None) -> ckks.Tensor:
    """As `hg.ckks.rescale`: one level lower, the scale divided. The exact schemes have no scales."""
    if isinstance(x, (Tensor, ClearTensor, tfhe.Tensor)):
        raise _core.DtypeError("rescale is of CKKS; exact integers have no scale")
    return ckks.rescale(x, progress=progress)


def matmul(weights: Any, x: EachTensor, bias: Any = None, *, progress: Progress | None = None) -> EachTensor:
    """weights [rows, columns] times x (columns, ...): one modular matrix product reading each ciphertext once.

    Weights and bias are clear integers, the bias of any length that the plaintext moduli hold together. Raises ShapeError,
    DtypeError, PlaintextRangeError. With a tensor of TFHE on either side this is `hg.tfhe.matmul`, without a bias; of CKKS,
    `hg.ckks.matmul`: real weights on the slots, the bias an array of a value for each row.
    """
    if isinstance(x, ckks.Tensor):
        image = ckks.matmul(weights, x, progress=progress)
        return image if bias is None else image + bias
    if isinstance(x, tfhe.Tensor) or isinstance(weights, tfhe.Tensor):
        if bias is not None:
            raise _core.DtypeError("matmul of TFHE takes no bias: add it to the product")
        either: Any = tfhe.matmul(weights, x, progress=progress)
        product: EachTensor = either
        return product
    _require_bfv(x, "matmul")
    w = integers(weights, "the weights")
    if w.ndim != 2:
        raise _core.ShapeError(f"weights of a matrix product have two axes, not {w.ndim}")
    if isinstance(x, ClearTensor):
        return x.matmul(w, _bias(bias, x))
    return x._wrap(_core.matmul(w, x._core, _bias(bias, x), progress))


def conv2d(
    x: AnyTensor,
    weights: Any,
    bias: Any = None,
    *,
    stride: int = 1,
    padding: int = 0,
    groups: int = 1,
    progress: Progress | None = None,
) -> AnyTensor:
    """Convolution of x (channels, H, W) or (batch, channels, H, W) with clear integer weights
    [outputs, channels / groups, height, width]: one modular matrix product. Raises ShapeError, DtypeError.
    """
    _require_bfv(x, "conv2d", "hg.tfhe.matmul, of windows side by side")
    w = _kernel(weights, stride, padding, groups)
    if isinstance(x, ClearTensor):
        return x.conv2d(w, _bias(bias, x), stride, padding, groups)
    return x._wrap(_core.conv2d(x._core, w, _bias(bias, x), stride, padding, groups, progress))


def _kernel(weights: Any, stride: Any, padding: Any, groups: Any) -> Any:
    w = integers(weights, "the weights")
    if w.ndim != 4:
        raise _core.ShapeError(f"weights of a convolution have four axes, not {w.ndim}")
    if whole(stride, "the stride") < 1 or whole(padding, "the padding") < 0 or whole(groups, "groups") < 1:
        raise _core.ShapeError(
            f"stride {stride}, padding {padding}, groups {groups}: a stride and groups are at least 1, padding 0"
        )
    return w


def sum_pool2d(x: AnyTensor, size: int) -> AnyTensor:
    """Sums over windows of size x size, which tile the last two axes: one modular matrix product. Raises ShapeError."""
    _require_bfv(x, "sum_pool2d", "hg.tfhe.sum, of windows reshaped to axes")
    if whole(size, "the size of a window") < 1:
        raise _core.ShapeError(f"a window of {size} x {size} is none")
    if isinstance(x, ClearTensor):
        return x.sum_pool2d(size)
    return x._wrap(_core.sum_pool2d(x._core, size))


def conv2d_square_pool(
    x: AnyTensor,
    weights: Any,
    bias: Any = None,
    *,
    pool: int = 1,
    stride: int = 1,
    padding: int = 0,
    groups: int = 1,
    stretch: int = 0,
    keys: EvaluationKeys | None = None,
    progress: Progress | None = None,
) -> AnyTensor:
    """relinearize(sum_pool2d(square(conv2d(x, ...)), pool)) of x (channels, H, W), to the same bits, in less memory.

    It goes over stretches of output channels, so that the convolution's outputs and their squares are never all there:
    `stretch` of them at a time, or as many as half of the memory left holds. Raises ShapeError, DtypeError, MissingKeyError,
    OutOfMemoryError (before anything is computed).
    """
    _require_bfv(x, "conv2d_square_pool", "hg.tfhe.matmul, hg.square and hg.tfhe.sum")
    w = _kernel(weights, stride, padding, groups)
    if whole(pool, "the size of a window") < 1 or whole(stretch, "a stretch") < 0:
        raise _core.ShapeError(f"pool {pool}, stretch {stretch}: a pool is at least 1, a stretch 0")
    if isinstance(x, ClearTensor):
        outputs = x.conv2d(w, _bias(bias, x), stride, padding, groups)
        return (outputs * outputs).sum_pool2d(pool)
    found = _keys(x, keys, "this layer")
    core = _core.conv2d_square_pool(
        x._core, w, _bias(bias, x), stride, padding, groups, pool, found._core, progress, stretch
    )
    return Tensor(core, found)


def split_moduli(x: AnyTensor) -> list[AnyTensor]:
    """The tensor as one for each plaintext modulus that it holds; nothing is copied. Long computations can so run modulus by
    modulus, with the memory of one. Operations take tensors of the same moduli; to be saved or decrypted they are joined.
    """
    _require_bfv(x, "split_moduli")
    if isinstance(x, ClearTensor):
        return [x]
    first, count = x._core.first_modulus, len(x.plain_moduli)
    return [x._wrap(_core.take_moduli(x._core, modulus, 1)) for modulus in range(first, first + count)]


def join_moduli(tensors: Sequence[AnyTensor]) -> AnyTensor:
    """Tensors of adjacent plaintext moduli, in order, as one; nothing is copied. Raises MismatchError, ShapeError."""
    if not tensors:
        raise _core.MismatchError("nothing to join")
    _require_bfv(tensors[0], "join_moduli")
    first = tensors[0]
    if isinstance(first, ClearTensor):
        if len(tensors) > 1:
            raise _core.MismatchError("clear tensors are not joined")
        return first
    return first._wrap(_core.join_moduli([t._core for t in tensors]))


def sum(x: EachTensor, axis: int | None = None) -> EachTensor:
    """Sum over one ciphertext axis, or over all."""
    if isinstance(x, tfhe.Tensor):
        return tfhe.sum(x, axis)
    if isinstance(x, ckks.Tensor):
        return ckks.sum(x, axis)
    _require_bfv(x, "sum")
    if isinstance(x, ClearTensor):
        return x.sum(axis)
    if axis is None:
        return x._wrap(_core.sum(_core.reshape(x._core, [x.size]), 0))
    return x._wrap(_core.sum(x._core, axis_of(axis, x.ndim, f"a tensor of shape {x.shape}")))


def dot(a: Any, b: Any) -> Any:
    """Dot product of two vectors of which one or both are encrypted, along the ciphertext axis. Relinearized at most once."""
    if isinstance(a, tfhe.Tensor) or isinstance(b, tfhe.Tensor):
        return tfhe.dot(a, b)
    if isinstance(a, ckks.Tensor) or isinstance(b, ckks.Tensor):
        return ckks.dot(a, b)
    if isinstance(a, (Tensor, ClearTensor)) and isinstance(b, (Tensor, ClearTensor)):
        if a.shape != b.shape or len(a.shape) != 1:
            raise _core.ShapeError(f"dot takes two vectors of one length, not shapes {a.shape} and {b.shape}")
        products: Any = a * b
        return sum(products, 0)
    x: Any
    x, w = (a, b) if isinstance(a, (Tensor, ClearTensor)) else (b, a)
    _require_bfv(x, "dot")
    vector = integers(w, "the weights")
    if vector.ndim != 1 or len(x.shape) != 1:
        raise _core.ShapeError(f"dot takes two vectors of one length, not shapes {x.shape} and {vector.shape}")
    return matmul(vector[None, :], x)[0]


def rotate_rows(
    x: AnyTensor, steps: int | Sequence[int], *, keys: EvaluationKeys | None = None, progress: Progress | None = None
) -> AnyTensor:
    """Slots turned left by `steps` within each of the two rows of N/2. Several steps give a new first axis, one entry each,
    for little more than the price of one (hoisting). Raises MissingKeyError naming the steps there are keys for.
    """
    _require_bfv(x, "rotate_rows", "concatenate of slices; rotate_left turns the bits of integers")
    several = whole_numbers(steps, "a rotation")
    if isinstance(x, ClearTensor):
        turned = x.rotate_rows(several)
    else:
        found = _keys(x, keys, "a rotation")
        turned = Tensor(_core.rotate_rows(x._core, several, found._for_rotations(several), progress), found)
    return turned[0] if listed(steps) is None else turned


def rotate_columns(x: AnyTensor, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> AnyTensor:
    """The two rows of slots exchanged."""
    _require_bfv(x, "rotate_columns", "concatenate of slices")
    if isinstance(x, ClearTensor):
        return x.rotate_columns()
    found = _keys(x, keys, "a column rotation")
    return Tensor(_core.rotate_columns(x._core, found._for_rotations([], columns=True), progress), found)


def concatenate(tensors: Sequence[EachTensor], axis: int = 0) -> EachTensor:
    """Tensors joined along an axis they have."""
    if not tensors:
        raise _core.ShapeError("nothing to concatenate")
    joined: EachTensor = _joined(tensors, axis)
    return joined


def _joined(tensors: Sequence[Any], axis: int) -> Any:
    if any(isinstance(t, tfhe.Tensor) for t in tensors):
        return tfhe.concatenate(tensors, axis)
    if any(isinstance(t, ckks.Tensor) for t in tensors):
        return ckks.concatenate(tensors, axis)
    first = tensors[0]
    if isinstance(first, ClearTensor):
        along = axis_of(axis, first.ndim, f"a tensor of shape {first.shape}")
        return first._view(np.concatenate([first._operand(t) for t in tensors], along))
    for t in tensors:
        _require_bfv(t, "concatenate")
    return joined(tensors, axis)


def stack(tensors: Sequence[EachTensor]) -> EachTensor:
    """Tensors of one shape along a new first axis."""
    for t in tensors:
        if not isinstance(t, (tfhe.Tensor, ckks.Tensor)):
            _require_bfv(t, "stack")
    return concatenate([t.reshape(1, *t.shape) for t in tensors])


def shrink(x: AnyTensor, level: int = 0) -> AnyTensor:
    """The same values modulo a smaller ciphertext modulus: fewer bytes to send. `level` primes stay; 0: as few as the noise
    estimate allows. Raises LevelError.
    """
    _require_bfv(x, "shrink", "nothing to shrink: a result has one size")
    if isinstance(x, ClearTensor):
        return x
    if whole(level, "a level") < 0:
        raise _core.LevelError(f"there is no level {level}")
    return x._wrap(_core.switch_level(x._core, level))
