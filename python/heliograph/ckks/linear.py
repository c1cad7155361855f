"""Clear matrices on slots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol, Self, TypeVar

import numpy as np

from heliograph import _core
from heliograph._common.arguments import complexes, flag, listed, of_kind, whole
from heliograph._common.schemes import EngineProperty, engine_property, scheme_of
from heliograph._common.tensor import Progress
from heliograph.ckks.evaluation_keys import EvaluationKeys
from heliograph.ckks.levels import level_of
from heliograph.ckks.parameters import Parameters
from heliograph.ckks.scheme import CKKS


class _Transformable(Protocol):
    """A tensor of CKKS."""

    def _transformed(self, matrix: LinearTransform, keys: Any, progress: Progress | None) -> Self: ...

    def _blocks(self, blocks: BlockTransform, keys: Any, progress: Progress | None) -> Self: ...


T = TypeVar("T", bound=_Transformable)


class _Encoded(ABC):
    """A clear matrix, encoded for products with ciphertexts: its properties and its keys."""

    _core: Any
    _needs: dict[str, Any]
    _content: str  # content that makes the matrix again, in errors

    parameters: EngineProperty[Parameters] = engine_property("parameters", Parameters, "The parameter set.")
    level = engine_property("level", int, "Level of its operands; results are one level lower.")
    rotations = engine_property("rotations", list[int], "Rotation steps that need evaluation keys.")
    bytes = engine_property("bytes", int, "Bytes of its plaintexts.")

    def __reduce__(self) -> NoReturn:
        raise _core.DtypeError(
            f"cannot pickle a {type(self).__name__}: pickle its parameters and its {self._content}, and make it again from "
            "these"
        )

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for the keys of this matrix: for its level, if `level` was given."""
        return self._needs

    @abstractmethod
    def __call__(self, x: T, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> T:
        """Multiplies a tensor by the matrix."""

    def __matmul__(self, x: T) -> T:
        return self(x)


class LinearTransform(_Encoded):
    """A clear matrix on the slots, encoded once for many products ``transform @ x``, each of one level.

    Source: diagonals with baby steps, which share one decomposition, and giant steps (Halevi and Shoup, ePrint 2018/244).
    The sums stay modulo QP and are divided once (Bossuat et al., ePrint 2020/1203, section 4).

    >>> layer = hg.ckks.LinearTransform(params, [[1, 0, 0, -1], [0, 0.5, 0.5, 0]])
    >>> layer.shape, layer.rotations
    ((2, 4), [1, 3])
    >>> party = hg.Server(secret.evaluation_keys(for_=layer))
    >>> secret.decrypt(layer @ party.bind(x)).round(4)
    array([[-3. ,  2. ],
           [-3. ,  2.5]])
    """

    _content = "matrix"

    def __init__(
        self,
        parameters: Parameters,
        matrix: Any,
        *,
        repeats: bool = False,
        level: int | None = None,
        baby: int = 0,
        compact: bool | None = None,
    ) -> None:
        """Encodes matrix [rows, columns], real or complex, which maps `columns` slots to `rows` slots.

        With `repeats` the matrix is square with a power of two of rows, and the tensors' values repeat with that period;
        this halves the diagonals. `level` is the level of the operands (default the top); operands of a higher level are
        lowered. `baby` is the number of diagonals in a giant step; 0 chooses the cheapest number.

        The matrix is encoded to plaintexts of `bytes` bytes in all. With `compact` they take about a tenth of the memory.
        Each product then transforms them again, and the results have the same bits. Compact matrices use no composed
        rotations (`compose_rotations`). By default plaintexts are compact if the others take more than 256 MiB and would
        leave less than half of the device's memory free. Raises DtypeError, ShapeError, LevelError, PlaintextRangeError,
        OutOfMemoryError."""
        parameters = of_kind(parameters, Parameters, "a matrix on slots is encoded by")
        entries, _ = complexes(matrix, "the matrix")
        if entries.ndim != 2 or 0 in entries.shape:
            raise _core.ShapeError(f"a matrix on slots must have two axes and an entry, not shape {entries.shape}")
        rows, columns = entries.shape
        if repeats and (rows != columns or rows & (rows - 1)):
            raise _core.ShapeError(
                f"a matrix with repeats=True must be square with a power of two of rows, not {rows} x {columns}"
            )
        if max(rows, columns) > parameters.slots:
            raise _core.ShapeError(
                f"cannot make a matrix on slots of {rows:,} x {columns:,}: it must have at most as many rows and columns as "
                f"there are slots, {parameters.slots:,}; use a set of more slots, or put one axis along the ciphertexts, "
                "hg.matmul(matrix, x, axis=0)"
            )
        size = rows if repeats else parameters.period
        numbers, diagonals = _diagonals(entries, size)
        #: (rows, columns).
        self.shape = (rows, columns)
        self._repeats = repeats
        self._core = _core.ckks.linear_transform(
            parameters._core,
            numbers,
            list(diagonals),
            False,
            size,
            level_of(parameters, level),
            _baby(baby),
            0 if repeats else rows,
            _storage(compact),
        )
        self._needs = _needs(self._core, level)

    @classmethod
    def from_diagonals(
        cls,
        parameters: Parameters,
        diagonals: Mapping[int, Any],
        *,
        period: int | None = None,
        level: int | None = None,
        baby: int = 0,
        compact: bool | None = None,
    ) -> LinearTransform:
        """Encodes a sparse square matrix that is given by its nonzero diagonals, without the dense matrix.

        Diagonal k has the entry of row i and column i + k, modulo the number of rows, at index i. So the product is the sum
        of ``diagonals[k] * hg.ckks.rotate(x, k)``. A negative k counts from the last column. A diagonal is a number, or an
        array of one axis. An array shorter than the matrix must have a power of two of entries, which repeat.

        The matrix has as many rows as there are slots. `period` is a power of two of rows, at most the slots: the tensors'
        values then repeat with that period, as with ``repeats=True``. The other arguments are those of the constructor.

        Raises DtypeError, ShapeError, LevelError, ParameterError, PlaintextRangeError, OutOfMemoryError.

        >>> shift = hg.ckks.LinearTransform.from_diagonals(params, {1: 0.5, -1: [0, 2, 0, 0]})
        >>> shift.rotations
        [1, 3]
        >>> party = hg.Server(secret.evaluation_keys(for_=shift))
        >>> secret.decrypt(shift @ party.bind(secret.encrypt([1, 2, 3, 4]))).round(4)
        array([1. , 3.5, 2. , 0.5])
        """
        parameters = of_kind(parameters, Parameters, "a matrix on slots is encoded by")
        rows, size = _rows(parameters, period)
        entries = _sparse(diagonals, rows, size)
        made = object.__new__(cls)
        made.shape, made._repeats = (rows, rows), period is not None
        made._core = _core.ckks.linear_transform(
            parameters._core,
            list(entries),
            list(entries.values()),
            rows == size,
            size,
            level_of(parameters, level),
            _baby(baby),
            0 if period is not None else rows,
            _storage(compact),
        )
        made._needs = _needs(made._core, level)
        return made

    @classmethod
    def _mask(cls, parameters: Parameters, width: int, level: int, factor: float) -> LinearTransform:
        """Returns the matrix that multiplies the first `width` slots by a factor and sets all other slots to 0."""
        made = object.__new__(cls)
        made.shape, made._repeats = (width, parameters.slots), False
        diagonal = np.full(width, factor)
        made._core = _core.ckks.linear_transform(
            parameters._core, [0], [diagonal], False, parameters.period, level, 0, width, 0
        )
        made._needs = _needs(made._core, None)
        return made

    def __call__(self, x: T, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> T:
        """Multiplies each ciphertext's slots by the matrix.

        Raises LevelError, ShapeError, MissingKeyError, MismatchError.
        """
        if scheme_of(x) is not CKKS:
            raise _core.DtypeError(f"a matrix on slots takes a tensor of CKKS, not {type(x).__name__}")
        return x._transformed(self, keys, progress)

    def _fits(self, slots: int) -> bool:
        columns = self.shape[1]
        return bool(slots % columns == 0 if self._repeats else slots == columns)

    def __repr__(self) -> str:
        return (
            f"<CKKS matrix {self.shape[0]} x {self.shape[1]} on slots: level {self.level}, {len(self.rotations)} rotations>"
        )


class BlockTransform(_Encoded):
    """A clear matrix of blocks on several ciphertexts, encoded once for products ``blocks @ x``, each of one level.

    Block (o, i) is a square matrix on the slots, given by its diagonals. A tensor x of shape (inputs, ...) becomes a tensor
    of shape (outputs, ...): ``y[o]`` is the sum of block (o, i) times ``x[i]`` over i. The rotations of an input serve all
    outputs. An output has one division, and one key switch for each of its giant steps.

    >>> shift, double = {1: 1.0}, {0: 2.0}
    >>> blocks = hg.ckks.BlockTransform(params, [[shift, double], [None, shift], [double, None]])
    >>> blocks.shape, blocks.rotations
    ((3, 2), [1])
    >>> party = hg.Server(secret.evaluation_keys(for_=blocks))
    >>> secret.decrypt(blocks @ party.bind(secret.encrypt([[1, 2, 3, 4], [5, 6, 7, 8]]))).round(4)
    array([[12., 15., 18., 17.],
           [ 6.,  7.,  8.,  5.],
           [ 2.,  4.,  6.,  8.]])
    """

    _content = "blocks"

    def __init__(
        self,
        parameters: Parameters,
        blocks: Sequence[Sequence[Mapping[int, Any] | None]],
        *,
        period: int | None = None,
        level: int | None = None,
        baby: int = 0,
        compact: bool | None = None,
    ) -> None:
        """Encodes blocks [outputs, inputs]. A block is a mapping from the numbers of its nonzero diagonals to their values,
        as in `LinearTransform.from_diagonals`, or None for zero.

        `period`, `level`, `baby` and `compact` are those of `LinearTransform.from_diagonals`; one `baby` serves all blocks.
        Composed rotations (`compose_rotations`) do not replace keys of blocks. Raises DtypeError, ShapeError, LevelError,
        ParameterError, PlaintextRangeError, OutOfMemoryError."""
        parameters = of_kind(parameters, Parameters, "a matrix of blocks is encoded by")
        rows, size = _rows(parameters, period)
        table = _table(blocks)
        made = [_named(f"block ({o}, {i})", block, rows, size) for o, row in enumerate(table) for i, block in enumerate(row)]
        #: (outputs, inputs).
        self.shape = (len(table), len(table[0]))
        self._repeats, self._rows = period is not None, rows
        self._core = _core.ckks.block_transform(
            parameters._core,
            [list(block) for block in made],
            [list(block.values()) for block in made],
            rows == size,
            self.shape[1],
            size,
            level_of(parameters, level),
            _baby(baby),
            0 if self._repeats else rows,
            _storage(compact),
        )
        self._needs = _needs(self._core, level)

    def __call__(self, x: T, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> T:
        """Multiplies the ciphertexts along the first axis by the blocks.

        Raises LevelError, ShapeError, MissingKeyError, MismatchError.
        """
        if scheme_of(x) is not CKKS:
            raise _core.DtypeError(f"a matrix of blocks takes a tensor of CKKS, not {type(x).__name__}")
        return x._blocks(self, keys, progress)

    def _fits(self, slots: int) -> bool:
        return bool(slots % self._rows == 0 if self._repeats else slots == self._rows)

    def __repr__(self) -> str:
        outputs, inputs = self.shape
        return f"<CKKS matrix of {outputs} x {inputs} blocks on slots: level {self.level}, {len(self.rotations)} rotations>"


def _rows(parameters: Parameters, period: int | None) -> tuple[int, int]:
    """Returns the rows of a square matrix on slots, and the number modulo which its diagonals count."""
    if period is None:
        return parameters.slots, parameters.period
    rows = whole(period, "the period")
    if not (1 <= rows <= parameters.slots and rows & (rows - 1) == 0):
        raise _core.ShapeError(
            f"the period of a matrix on slots must be a power of two of at most {parameters.slots}, not {rows}"
        )
    return rows, rows


def _table(blocks: Any) -> list[list[Any]]:
    rows = None if isinstance(blocks, Mapping) else listed(blocks)
    table = None if rows is None else [None if isinstance(row, Mapping) else listed(row) for row in rows]
    if not table or any(row is None for row in table):
        raise _core.DtypeError("the blocks of a matrix must be a list of lists [outputs, inputs] of mappings")
    checked = [row for row in table if row is not None]
    if not checked[0] or any(len(row) != len(checked[0]) for row in checked):
        raise _core.ShapeError("the blocks of a matrix must be lists of equal lengths, with at least one input")
    return checked


def _named(name: str, block: Any, rows: int, size: int) -> dict[int, Any]:
    """Returns the diagonals of a block. Errors begin with its name."""
    if block is None:
        return {}
    try:
        return _sparse(block, rows, size)
    except (_core.DtypeError, _core.ShapeError, _core.PlaintextRangeError) as error:
        raise type(error)(f"{name}: {error}") from None


def _needs(core: Any, level: int | None) -> dict[str, Any]:
    return {"rotations": core.rotations} if level is None else {"level_rotations": {level: core.rotations}}


def _storage(compact: bool | None) -> int:
    """Returns the number of heliograph::ckks::Storage."""
    return 0 if compact is None else 2 if flag(compact, "compact") else 1


def _baby(baby: Any) -> int:
    if whole(baby, "the baby steps") < 0:
        raise _core.ParameterError(f"baby must be at least 1 step, or 0 for the cheapest, not {baby}")
    return int(baby)


def _sparse(diagonals: Any, rows: int, size: int) -> dict[int, Any]:
    """Returns diagonals by ascending numbers below `size`, as arrays of float64 or complex128 with one axis.

    `rows` below `size` means that zeros follow the slots: entries must then be inside `rows` rows and columns.
    """
    if not isinstance(diagonals, Mapping):
        raise _core.DtypeError(
            f"the diagonals of a matrix must be a mapping from their numbers to arrays, not {type(diagonals).__name__}"
        )
    made: dict[int, Any] = {}
    for given, entries in diagonals.items():
        k = whole(given, "the number of a diagonal")
        name = f"diagonal {k}"
        if not -size < k < size:
            raise _core.ShapeError(f"cannot use {name}: a matrix of {rows} rows has diagonals {1 - size} to {size - 1}")
        values, is_complex = complexes(entries, name)
        if rows == size and values.ndim == 0:
            values = values.reshape(1)
        count = values.size
        fits = count == rows or (rows == size and 0 < count < rows and count & (count - 1) == 0)
        if values.ndim != 1 or not fits:
            fewer = ", or a power of two of fewer entries" if rows == size else ""
            raise _core.ShapeError(f"{name} must have one axis of {rows} entries{fewer}, not shape {values.shape}")
        if rows < size and values[(np.arange(rows) + k) % size >= rows].any():
            raise _core.ShapeError(
                f"cannot use {name}: its entries must be 0 where row + {k} is no column below {rows}, the number of slots"
            )
        if k % size in made:
            raise _core.ShapeError(f"cannot use {name}: it is diagonal {k % size}, which is there already")
        made[k % size] = values if is_complex else np.ascontiguousarray(values.real)
    return dict(sorted(made.items()))


def _diagonals(entries: Any, size: int) -> tuple[list[int], Any]:
    """Returns the numbers of the nonzero diagonals, and their values [diagonals, rows]."""
    rows, columns = entries.shape
    row = np.arange(rows)
    numbers = [k % size for k in range(1 - rows, columns)] if rows + columns - 1 < size else list(range(size))
    numbers = sorted(numbers)
    values = np.zeros((len(numbers), rows), dtype=np.complex128)
    for at, k in enumerate(numbers):
        column = (row + k) % size
        inside = column < columns
        values[at, inside] = entries[row[inside], column[inside]]
    nonzero = np.flatnonzero(values.any(axis=1))
    return [numbers[i] for i in nonzero], np.ascontiguousarray(values[nonzero])
