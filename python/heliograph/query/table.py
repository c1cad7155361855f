"""Encrypted tables: what the owner makes and keeps of data, and what a server gets."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from heliograph import _core, exact, tfhe
from heliograph._arrays import is_whole, path_of, printable, readable_bytes
from heliograph._container import replacing
from heliograph._shapes import Progress
from heliograph.keys import from_bytes
from heliograph.query.columns import BoolArray, Int64Array, frame_of
from heliograph.query.containers import Parts, Piece, Saved, pieces
from heliograph.query.integer_plan import IntegerPlan, integer_plan
from heliograph.query.integers import IntegerLayout
from heliograph.query.layout import Layout, Part
from heliograph.query.monomials import Monomial
from heliograph.query.plan import Plan, made_plan
from heliograph.query.sql import Query, Reader

TYPE = "heliograph.query.table"
_SPAN = 16  # blocks of rows that are read and computed together
_MOST_PARTS = 8000


Layouts = Layout | IntegerLayout
Plans = Plan | IntegerPlan
SecretKey = exact.SecretKey | tfhe.SecretKey


def layout_of(data: Any, parameters: Any) -> Layouts:
    """Reads what a file says of its table, which is of some parameters. Raises DamagedFileError."""
    if isinstance(parameters, tfhe.Parameters):
        return IntegerLayout.of_data(data, parameters)
    return Layout.of_data(data, parameters)


def plan_of(text: str, layout: Layouts) -> Plans:
    """How a query is computed. Raises SqlError."""
    query = Reader(layout.table, layout.columns).query(text)
    return made_plan(query, layout) if isinstance(layout, Layout) else integer_plan(query, layout)


def encrypt(
    secret: SecretKey, layout: Layouts, frame: Any, *, path: Any = None, progress: Progress | None = None
) -> EncryptedTable:
    """A table under a key of `layout`'s parameters. With `path` it is written there as it is made, and stays there.

    Raises as `layout` for data that do not fit it, MismatchError for a key of other parameters.

    >>> sealed = hg.query.encrypt(secret, layout, frame, path="t.hg")
    >>> sealed.nbytes == table.nbytes
    True
    """
    if not isinstance(layout, Layouts):
        raise _core.DtypeError(f"a table is encrypted by a layout, which hg.query.layout makes, not {type(layout).__name__}")
    if not isinstance(secret, SecretKey):
        raise _core.DtypeError(f"a table is encrypted by a secret key of BGV, BFV or TFHE, not {type(secret).__name__}")
    if secret.parameters != layout.parameters:
        raise _core.MismatchError("the key is of other parameters than the layout: SecretKey.generate(layout.parameters)")
    vectors = _Vectors(layout, frame) if isinstance(layout, Layout) else _Integers(layout, frame)
    blocks, parts = layout.blocks, layout.parts
    span = max(_SPAN if isinstance(layout, Layout) else layout.span, -(-blocks * len(parts) // _MOST_PARTS))
    spans = -(-blocks // span)
    header = {"key": secret.id, "layout": layout.data(), "span": span}

    def made() -> Iterator[bytes]:
        for number, part in enumerate(parts):
            values = vectors.of(part)
            for at in range(spans):
                chosen = values[at * span : (at + 1) * span]
                yield vectors.encrypted(secret, part, chosen).to_bytes()
                if progress is not None:
                    progress((number + (at + 1) / spans) / len(parts))

    if path is None:
        several = list(made())
        data = b"".join(bytes(piece) for piece in pieces(TYPE, header, several, [len(one) for one in several]))
        return EncryptedTable(Parts(data, TYPE), layout)

    name = path_of(path)
    with tempfile.TemporaryFile() as draft, replacing(name) as file:
        sizes = []
        for one in made():
            draft.write(one)
            sizes.append(len(one))
        draft.seek(0)
        for piece in pieces(TYPE, header, (draft.read(size) for size in sizes), sizes):
            file.write(piece)
    return EncryptedTable(Parts(name, TYPE), layout)


def _clear(layout: Layouts, frame: Any) -> tuple[dict[str, Int64Array], dict[str, BoolArray]]:
    """A table's columns as integers, and where they are not NULL. Raises ShapeError, PlaintextRangeError, DtypeError."""
    data = frame_of(frame)
    missing = [name for name in layout.columns if name not in data]
    if missing:
        raise _core.ShapeError(f"the table has no column {printable(missing[0])}")
    rows = len(next(iter(data.values()))[0])
    if rows != layout.rows:
        raise _core.ShapeError(f"the table has {rows:,} rows, and its layout says {layout.rows:,}")
    numbers = {name: column.numbers(data[name], name) for name, column in layout.columns.items()}
    return numbers, {name: data[name][1] for name in layout.columns}


class _Integers:
    """The vectors of a table of encrypted integers, in the clear."""

    def __init__(self, layout: IntegerLayout, frame: Any) -> None:
        self._layout = layout
        self._numbers, self._valid = _clear(layout, frame)

    def of(self, part: Part) -> Any:
        """[rows], 0 where NULL."""
        name = part.names[0]
        valid = self._valid[name]
        if part.kind == "valid":
            return valid
        values = np.where(valid, self._numbers[name] - self._layout.bases[name], 0)
        return values.astype(bool) if self._layout.types[name] == "bool" else values

    def encrypted(self, secret: Any, part: Part, values: Any) -> Any:
        """A piece of a vector."""
        return secret.encrypt(values, self._layout.type_of(part))


class _Vectors:
    """The vectors of a table of indicators, in the clear."""

    def __init__(self, layout: Layout, frame: Any) -> None:
        self._layout = layout
        self._numbers, self._valid = _clear(layout, frame)
        self._kept: tuple[Any, Any] = None, None

    def of(self, part: Part) -> Int64Array:
        """[blocks, slots], zeros behind the rows."""
        layout = self._layout
        if part.kind == "digit":
            values: Any = (self._digits(part) <= part.at_most) & self._valid[part.names[0]]
        elif part.kind == "valid":
            values = np.logical_and.reduce([self._valid[name] for name in part.names])
        else:
            whole, width = self._product(part.names), layout.limb_bits
            values = whole >> (width * part.digit)
            if part.digit < layout.limbs(part.names) - 1:
                values = values & ((1 << width) - 1)
        slots = layout.parameters.slots
        found = np.zeros(layout.blocks * slots, np.int64)
        found[: len(values)] = values
        return found.reshape(layout.blocks, slots)

    def encrypted(self, secret: Any, part: Part, values: Any) -> Any:
        """A piece of a vector."""
        return secret.encrypt(values)

    def _digits(self, part: Part) -> Int64Array:
        name = part.names[0]
        if self._kept[0] != (name, part.digit):
            several = self._layout.digits[name]
            rest = math.prod(several[part.digit + 1 :])
            codes = self._numbers[name] - self._layout.columns[name].low
            self._kept = (name, part.digit), codes // rest % several[part.digit]
        return self._kept[1]  # type: ignore[no-any-return]

    def _product(self, names: Monomial) -> Int64Array:
        """0 where a factor is NULL."""
        if self._kept[0] != names:
            valid = np.logical_and.reduce([self._valid[name] for name in names])
            self._kept = names, np.multiply.reduce([self._numbers[name] for name in names]) * valid
        return self._kept[1]  # type: ignore[no-any-return]


class EncryptedTable(Saved):
    """A table that only its key's owner can read. Made by `hg.query.encrypt`, or read from a file of it, in which its ciphertexts stay
    until they are computed with.

    >>> table.layout.rows, table.key_id == secret.id
    (6, True)
    >>> hg.query.EncryptedTable.from_bytes(table.to_bytes()).layout == layout
    True
    """

    _TYPE = TYPE

    def __init__(self, parts: Parts, layout: Layouts | None = None) -> None:
        self._parts = parts
        header = parts.header
        if set(header) != {"key", "layout", "span"} or not is_whole(header["span"]) or not isinstance(header["key"], str):
            raise _core.DamagedFileError("this file's header is not one of an encrypted table")
        if layout is None:
            if not len(parts):
                raise _core.DamagedFileError("this table has no vectors")
            layout = layout_of(header["layout"], getattr(from_bytes(parts[0]), "parameters", None))
        self.layout: Layouts = layout  #: how it is encrypted
        self._span = int(header["span"])
        if self._span < 1 or len(parts) != len(layout.parts) * self.spans:
            raise _core.DamagedFileError(f"this table has {len(parts):,} parts, which its layout has not")

    @property
    def spans(self) -> int:
        """How many pieces each vector is cut into, which are computed one after another."""
        return -(-self.layout.blocks // self._span)

    @property
    def key_id(self) -> str:
        """Which key it was encrypted under."""
        return str(self._parts.header["key"])

    @property
    def nbytes(self) -> int:
        """Bytes of its ciphertexts in a file."""
        return sum(self._parts.sizes())

    def blocks(self, span: int) -> range:
        """The blocks of rows of a piece.

        >>> table.blocks(0)
        range(0, 1)
        """
        return range(span * self._span, min(self.layout.blocks, (span + 1) * self._span))

    def data_of(self, part: Part, span: int) -> Any:
        """A piece of a vector: a ciphertext tensor's bytes.

        >>> len(table.data_of(layout.parts[0], 0)) > 1000
        True
        """
        return self._parts[self._number(part) * self.spans + span]

    def _number(self, part: Part) -> int:
        return self.layout.parts.index(part)

    def query(self, text: str) -> Query:
        """A query of this table, read. Raises SqlError.

        >>> table.query("SELECT SUM(salary) FROM t").items[0].function
        'SUM'
        """
        return Reader(self.layout.table, self.layout.columns).query(text)

    def plan(self, text: str) -> Plans:
        """How a query is computed. Raises SqlError, which names what this table does not answer.

        >>> table.plan("SELECT SUM(salary) FROM t WHERE age < 30").products > 0
        True
        """
        return plan_of(text, self.layout)

    def explain(self, text: str) -> str:
        """As `plan(text).explain()`.

        >>> print(table.explain("SELECT COUNT(*) FROM t").splitlines()[0].strip())
        query  SELECT COUNT(*) FROM t
        """
        return self.plan(text).explain()

    def _pieces(self) -> Iterator[Piece]:
        parts = self._parts
        return pieces(TYPE, parts.header, (parts[number] for number in range(len(parts))), parts.sizes())

    @classmethod
    def _of(cls, parts: Parts) -> Self:
        return cls(parts)

    def _rows(self) -> list[tuple[str, str]]:
        return self.layout.told()

    def __repr__(self) -> str:
        count = len(self.layout.parts)
        size = readable_bytes(self.nbytes)
        return f"<encrypted table {self.layout.table}: {self.layout.rows:,} rows, {count} vectors, {size}, key {printable(self.key_id[:8])}>"
