"""Functions on encrypted real and complex numbers. Each is one call of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._arrays import axis_of, complexes, described, listed, whole, whole_numbers
from heliograph._shapes import joined
from heliograph.ckks.keys import EvaluationKeys
from heliograph.ckks.parameters import Parameters
from heliograph.ckks.tensor import Plaintext, Progress, Tensor, factor_scale, keys_of, level_of, product, require_tensor


def multiply(
    a: Any,
    b: Any,
    *,
    relinearize: bool = True,
    rescale: bool = True,
    keys: EvaluationKeys | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """a * b. Without `relinearize` it is of degree two, without `rescale` at the product of both scales and on the same level:
    sums of such products are relinearized and rescaled once (`hg.ckks.relinearize_rescale`). Raises MissingKeyError,
    LevelError, ScaleError, ShapeError.
    """
    if not isinstance(a, Tensor):
        a, b = b, a
    require_tensor(a, "multiply")
    return product(a, b, relinearize=relinearize, rescale=rescale, keys=keys, progress=progress)


def square(x: Tensor, *, progress: Progress | None = None) -> Tensor:
    """x * x."""
    return multiply(x, x, progress=progress)


def relinearize(x: Tensor, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Tensor:
    """Back to degree one. Raises MissingKeyError where no relinearization key is at hand."""
    require_tensor(x, "relinearize")
    if x.degree == 1:
        return x
    found = keys_of((x,), keys, "relinearizing")
    return Tensor(_core.ckks_relinearize(x._core, found._core, progress), found)


def rescale(x: Tensor, *, progress: Progress | None = None) -> Tensor:
    """One level lower, the scale divided by the ratio of the moduli. Raises LevelError at level 1."""
    require_tensor(x, "rescale")
    return x._wrap(_core.ckks_rescale(x._core, progress))


def relinearize_rescale(x: Tensor, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Tensor:
    """Both in one, with one rounding. Raises MissingKeyError, LevelError at level 1."""
    require_tensor(x, "relinearize_rescale")
    if x.degree == 1:
        return rescale(x, progress=progress)
    found = keys_of((x,), keys, "relinearizing")
    return Tensor(_core.ckks_relinearize_rescale(x._core, found._core, progress), found)


def lower(x: Tensor, level: int) -> Tensor:
    """The same values at a lower level: fewer bytes, faster operations. Raises LevelError for a higher one."""
    require_tensor(x, "lower")
    return x._wrap(_core.ckks_lower(x._core, level_of(x.parameters, level)))


def rotate(
    x: Tensor, steps: int | Sequence[int], *, keys: EvaluationKeys | None = None, progress: Progress | None = None
) -> Tensor:
    """Slots turned left by `steps` (right where negative), cyclically over the set's `period`. Several steps give a new first
    axis, one entry each, for little more than the price of one (hoisting). Raises MissingKeyError naming the steps there are
    keys for.
    """
    require_tensor(x, "rotate")
    several = whole_numbers(steps, "a rotation")
    found = keys_of((x,), keys, "a rotation")
    turned = Tensor(_core.ckks_rotate(relinearize(x, keys=found)._core, several, found._core, progress), found)
    return turned[0] if listed(steps) is None else turned


def conjugate(x: Tensor, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Tensor:
    """The conjugates of complex values. Raises MissingKeyError."""
    require_tensor(x, "conjugate")
    found = keys_of((x,), keys, "conjugation")
    return Tensor(_core.ckks_conjugate(relinearize(x, keys=found)._core, found._core, progress), found)


def sum(x: Tensor, axis: int | None = None) -> Tensor:
    """Sum over one ciphertext axis, or over all: slot by slot. `sum_slots` adds up slots."""
    require_tensor(x, "sum")
    if axis is None:
        return x._wrap(_core.ckks_sum(_core.ckks_reshape(x._core, [x.size]), 0))
    return x._wrap(_core.ckks_sum(x._core, axis_of(axis, x.ndim, f"a tensor of shape {x.shape}")))


def sum_rotations(count: int) -> list[int]:
    """The rotations that `sum_slots` over so many slots needs keys for."""
    return [1 << i for i in range(_count(count).bit_length() - 1)]


def sum_slots(
    x: Tensor, count: int | None = None, *, keys: EvaluationKeys | None = None, progress: Progress | None = None
) -> Tensor:
    """Slot i gets the sum of slots i to i + count - 1, cyclically; `count` is a power of two, by default all: then every slot
    holds the sum of all. Needs the rotations `sum_rotations(count)`. Raises MissingKeyError, ShapeError.
    """
    require_tensor(x, "sum_slots")
    found = keys_of((x,), keys, "a sum over slots")
    over = x.parameters.period if count is None else _count(count)
    return Tensor(_core.ckks_sum_slots(relinearize(x, keys=found)._core, over, found._core, progress), found)


def _count(count: Any) -> int:
    n = whole(count, "the number of slots")
    if n < 1 or n & (n - 1):
        raise _core.ShapeError(f"slots are summed by powers of two, not {n} at a time")
    return n


def inner_product(
    a: Tensor,
    b: Any,
    axis: int = 0,
    count: int = 1,
    *,
    keys: EvaluationKeys | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """The sum over a ciphertext axis of a * b, then over `count` neighbouring slots (a power of two; 1: none): one
    relinearization and one rescaling for all products. b is a tensor of a's shape, or an array of shape (*a.shape, slots).

    Raises MissingKeyError, LevelError, ShapeError.
    """
    require_tensor(a, "inner_product")
    along = axis_of(axis, a.ndim, f"a tensor of shape {a.shape}")
    if isinstance(b, Tensor):
        found = keys_of((a, b), keys, "an inner product")
        x, y = (relinearize(t, keys=found)._core for t in (a, b))
        return Tensor(_core.ckks_inner_product(x, y, along, _count(count), found._core, progress), found)
    found = keys_of((a,), keys, "an inner product")
    if isinstance(b, Plaintext):
        plain = b._core
    else:
        array, is_complex = complexes(b, "the factors")
        try:
            array = np.ascontiguousarray(np.broadcast_to(array, (*a.shape, a.slots)))
        except ValueError:
            raise _core.ShapeError(
                f"factors of shape {array.shape} do not broadcast to {a.shape} ciphertexts of {a.slots} slots"
            ) from None
        plain = _core.ckks_encode(a._core.parameters, array, is_complex, a.level, factor_scale(a))
    return Tensor(_core.ckks_inner_product_plain(a._core, plain, along, _count(count), found._core, progress), found)


def dot(a: Any, b: Any) -> Tensor:
    """Dot product of two vectors of ciphertexts, slot by slot; one may be an array of shape (n,), a number for each ciphertext,
    or (n, slots). `inner_product` also adds up slots.
    """
    if not isinstance(a, Tensor):
        a, b = b, a
    require_tensor(a, "dot")
    if a.ndim != 1 or (isinstance(b, Tensor) and b.shape != a.shape):
        other = b.shape if isinstance(b, (Tensor, np.ndarray)) else ()
        raise _core.ShapeError(f"dot takes two vectors of one length, not shapes {a.shape} and {other}")
    if isinstance(b, (Tensor, Plaintext)):
        return inner_product(a, b)
    array = np.asarray(b)
    total = sum(product(a, array[:, None] if array.ndim == 1 else array, rescale=False), 0)
    return total if total.scale == a.scale else rescale(total)


class LinearTransform:
    """A clear matrix on the slots, encoded once for many products: ``transform @ x``, one level.

    By its diagonals, with baby steps that share a decomposition and giant steps (Halevi and Shoup, ePrint 2018/244), whose sums
    stay modulo Q and P and are divided once (Bossuat et al., ePrint 2020/1203, section 4).
    """

    def __init__(
        self, parameters: Parameters, matrix: Any, *, repeats: bool = False, level: int | None = None, baby: int = 0
    ) -> None:
        """matrix [rows, columns], real or complex: takes tensors of `columns` slots and gives `rows`.

        With `repeats` it is square, of a power of two of rows, and the tensors' values repeat with that period: half as many
        diagonals. `level`: of the tensors it is for (default the top; others are lowered to it). `baby`: diagonals to a giant
        step; 0: the choice that takes least. Raises DtypeError, ShapeError, LevelError, PlaintextRangeError,
        OutOfMemoryError.
        """
        entries, _ = complexes(matrix, "the matrix")
        if entries.ndim != 2 or 0 in entries.shape:
            raise _core.ShapeError(f"a matrix on slots has two axes, not shape {entries.shape}")
        rows, columns = entries.shape
        if repeats and (rows != columns or rows & (rows - 1)):
            raise _core.ShapeError(f"a matrix on values that repeat is square, of a power of two, not {rows} x {columns}")
        if max(rows, columns) > parameters.slots:
            raise _core.ShapeError(f"a matrix of {rows} x {columns} on {parameters.slots:,} slots")
        size = rows if repeats else parameters.period
        numbers, diagonals = _diagonals(entries, size)
        #: Rows and columns.
        self.shape = (rows, columns)
        self._repeats = repeats
        self._core = _core.ckks_linear_transform(
            parameters._core, numbers, diagonals, size, level_of(parameters, level), _baby(baby), 0 if repeats else rows
        )

    @property
    def parameters(self) -> Parameters:
        """The parameter set."""
        return Parameters(self._core.parameters)

    @property
    def level(self) -> int:
        """Of the tensors it takes; results are one lower."""
        return self._core.level

    @property
    def rotations(self) -> list[int]:
        """The steps that evaluation keys must have."""
        return list(self._core.rotations)

    def __call__(self, x: Tensor, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Tensor:
        """The matrix times each ciphertext's slots. Raises LevelError, ShapeError, MissingKeyError, MismatchError."""
        require_tensor(x, "a matrix on slots")
        columns = self.shape[1]
        if x.slots % columns if self._repeats else x.slots != columns:
            raise _core.ShapeError(f"a matrix of {self.shape[0]} x {columns} does not go with {x.slots:,} slots")
        found = keys_of((x,), keys, "a matrix on slots")
        return Tensor(_core.ckks_apply(self._core, x._core, found._core, progress), found)

    def __matmul__(self, x: Tensor) -> Tensor:
        return self(x)

    def __repr__(self) -> str:
        return (
            f"<CKKS matrix {self.shape[0]} x {self.shape[1]} on slots: level {self.level}, {len(self.rotations)} rotations>"
        )


def _baby(baby: Any) -> int:
    if whole(baby, "the baby steps") < 0:
        raise _core.ParameterError(f"baby steps are at least 1 (0: chosen), not {baby}")
    return int(baby)


def _diagonals(entries: Any, size: int) -> tuple[list[int], Any]:
    """The numbers of the diagonals that are not 0, and their values [diagonals, rows]."""
    rows, columns = entries.shape
    row = np.arange(rows)
    numbers = [k % size for k in range(1 - rows, columns)] if rows + columns - 1 < size else list(range(size))
    numbers = sorted(numbers)
    values = np.zeros((len(numbers), rows), dtype=np.complex128)
    for at, k in enumerate(numbers):
        column = (row + k) % size
        inside = column < columns
        values[at, inside] = entries[row[inside], column[inside]]
    kept = np.flatnonzero(values.any(axis=1))
    return [numbers[i] for i in kept], np.ascontiguousarray(values[kept])


def matmul(matrix: Any, x: Tensor, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Tensor:
    """A clear matrix [rows, slots] times each ciphertext's slots: rows slots, one level. `LinearTransform` encodes it once for
    many products and tells the rotations it needs. Raises DtypeError, ShapeError, LevelError, MissingKeyError.
    """
    require_tensor(x, "matmul")
    if isinstance(matrix, LinearTransform):
        return matrix(x, keys=keys, progress=progress)
    return LinearTransform(x.parameters, matrix, level=x.level)(x, keys=keys, progress=progress)


def polynomial(
    x: Tensor,
    coefficients: Any,
    basis: str = "monomial",
    *,
    keys: EvaluationKeys | None = None,
    progress: Progress | None = None,
) -> Tensor:
    """p(x) of real coefficients, lowest first, in ceil(log2(degree + 1)) levels (`polynomial_depth`).

    Basis "monomial": coefficients of 1, x, x^2, ...; "chebyshev": of T_0, T_1, ... for values in [-1, 1], as
    `numpy.polynomial.chebyshev` has them, and of higher degrees far more precise. Baby steps and giant steps (Paterson and Stockmeyer; Bossuat et al., ePrint 2020/1203).
    Raises LevelError telling how many levels it takes, DtypeError, ShapeError, ParameterError, MissingKeyError.
    """
    require_tensor(x, "polynomial")
    if basis not in ("chebyshev", "monomial"):
        raise _core.ParameterError(f'a basis is "chebyshev" or "monomial", not {described(basis)}')
    values, is_complex = complexes(coefficients, "the coefficients")
    if is_complex:
        raise _core.DtypeError("coefficients of a polynomial are real")
    if values.ndim != 1 or not values.size:
        raise _core.ShapeError(f"coefficients of a polynomial are one list, not of shape {values.shape}")
    found = keys_of((x,), keys, "a polynomial")
    return Tensor(
        _core.ckks_evaluate_polynomial(x._core, values.real.tolist(), basis == "chebyshev", found._core, progress), found
    )


def polynomial_depth(degree: int) -> int:
    """Levels that a polynomial of a degree takes."""
    if whole(degree, "a degree") < 0:
        raise _core.ParameterError(f"a degree is at least 0, not {degree}")
    return _core.ckks_polynomial_depth(degree)


def concatenate(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one level and scale joined along an axis they have. Raises ShapeError, MismatchError."""
    if not tensors:
        raise _core.ShapeError("nothing to concatenate")
    for t in tensors:
        require_tensor(t, "concatenate")
    return joined(tensors, axis)


def stack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors of one shape along a new first axis."""
    for t in tensors:
        require_tensor(t, "stack")
    return concatenate([t.reshape(1, *t.shape) for t in tensors])
