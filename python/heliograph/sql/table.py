"""Encrypted tables: created by the owner, queried by a server."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from heliograph import _core, exact, tfhe
from heliograph._common.arguments import is_whole, path_of, printable, readable_bytes
from heliograph._common.ciphertext_files import Parts, Serializable, pieces
from heliograph._common.columns import BoolArray, Int64Array, frame_of
from heliograph._common.container import Piece, replacing
from heliograph._common.tensor import Progress
from heliograph.keys import from_bytes
from heliograph.sql.monomials import Monomial
from heliograph.sql.parser import Query, Reader
from heliograph.sql.slot_layout import Layout, Part
from heliograph.sql.slot_plan import Plan, make_plan
from heliograph.sql.tfhe_layout import IntegerLayout
from heliograph.sql.tfhe_plan import IntegerPlan, integer_plan

TYPE = "heliograph.query.table"
_SPAN = 16  # blocks of rows that are read and computed at a time
_MOST_PARTS = 8000


Layouts = Layout | IntegerLayout
Plans = Plan | IntegerPlan
SecretKey = exact.SecretKey | tfhe.SecretKey


def layout_of(data: Any, parameters: Any) -> Layouts:
    """Parses the layout in a file's header. Raises DamagedFileError."""
    if isinstance(parameters, tfhe.Parameters):
        return IntegerLayout.of_data(data, parameters)
    return Layout.of_data(data, parameters)


def plan_of(text: str, layout: Layouts) -> Plans:
    """Plans a query. Raises SqlError."""
    query = Reader(layout.table, layout.columns).query(text)
    return make_plan(query, layout) if isinstance(layout, Layout) else integer_plan(query, layout)


def encrypt(
    secret: SecretKey, layout: Layouts, frame: Any, *, path: Any = None, progress: Progress | None = None
) -> EncryptedTable:
    """Encrypts a table with a secret key of `layout`'s parameters. With `path`, writes the table to that file and leaves it
    there.

    Raises the errors of `layout` for data that do not fit, MismatchError for a key of other parameters.

    >>> stored = hg.sql.encrypt(secret, layout, frame, path="t.hg")
    >>> stored.nbytes == table.nbytes
    True
    """
    if not isinstance(layout, Layouts):
        raise _core.DtypeError(f"layout must be one that hg.sql.layout returns, got {type(layout).__name__}")
    if not isinstance(secret, SecretKey):
        raise _core.DtypeError(f"a table's key must be a secret key of BGV, BFV or TFHE, got {type(secret).__name__}")
    if secret.parameters != layout.parameters:
        raise _core.MismatchError(
            "the key has other parameters than the layout; make one by SecretKey.generate(layout.parameters)"
        )
    vectors = _Vectors(layout, frame) if isinstance(layout, Layout) else _Integers(layout, frame)
    blocks, parts = layout.blocks, layout.parts
    span = max(_SPAN if isinstance(layout, Layout) else layout.piece_rows, -(-blocks * len(parts) // _MOST_PARTS))
    piece_count = -(-blocks // span)
    header = {"key": secret.id, "layout": layout.data(), "span": span}

    def encrypted_pieces() -> Iterator[bytes]:
        for number, part in enumerate(parts):
            values = vectors.of(part)
            for at in range(piece_count):
                piece_values = values[at * span : (at + 1) * span]
                yield vectors.encrypted(secret, part, piece_values).to_bytes()
                if progress is not None:
                    progress((number + (at + 1) / piece_count) / len(parts))

    if path is None:
        several = list(encrypted_pieces())
        data = b"".join(bytes(piece) for piece in pieces(TYPE, header, several, [len(one) for one in several]))
        return EncryptedTable(Parts(data, TYPE), layout)

    name = path_of(path)
    with tempfile.TemporaryFile() as draft, replacing(name) as file:
        sizes = []
        for one in encrypted_pieces():
            draft.write(one)
            sizes.append(len(one))
        draft.seek(0)
        for piece in pieces(TYPE, header, (draft.read(size) for size in sizes), sizes):
            file.write(piece)
    return EncryptedTable(Parts(name, TYPE), layout)


def _numbers_and_masks(layout: Layouts, frame: Any) -> tuple[dict[str, Int64Array], dict[str, BoolArray]]:
    """Returns a table's columns as integers, and their masks of values that are not NULL. Raises ShapeError,
    PlaintextRangeError, DtypeError.
    """
    data = frame_of(frame)
    missing = [name for name in layout.columns if name not in data]
    if missing:
        raise _core.ShapeError(f"the table must have the layout's columns; {printable(missing[0])} is missing")
    rows = len(next(iter(data.values()))[0])
    if rows != layout.rows:
        raise _core.ShapeError(f"the table has {rows:,} rows, its layout {layout.rows:,}; make a layout of this table")
    numbers = {name: column.numbers(data[name], name) for name, column in layout.columns.items()}
    return numbers, {name: data[name][1] for name in layout.columns}


class _Integers:
    """The vectors of a table of encrypted integers, in clear."""

    def __init__(self, layout: IntegerLayout, frame: Any) -> None:
        self._layout = layout
        self._numbers, self._valid = _numbers_and_masks(layout, frame)

    def of(self, part: Part) -> Any:
        """Returns a vector [rows], 0 for NULL."""
        name = part.names[0]
        valid = self._valid[name]
        if part.kind == "valid":
            return valid
        values = np.where(valid, self._numbers[name] - self._layout.bases[name], 0)
        return values.astype(bool) if self._layout.types[name] == "bool" else values

    def encrypted(self, secret: Any, part: Part, values: Any) -> Any:
        """Encrypts a piece of a vector."""
        return secret.encrypt(values, self._layout.type_of(part))


class _Vectors:
    """The vectors of a table of indicators, in clear."""

    def __init__(self, layout: Layout, frame: Any) -> None:
        self._layout = layout
        self._numbers, self._valid = _numbers_and_masks(layout, frame)
        self._cached: tuple[Any, Any] = None, None

    def of(self, part: Part) -> Int64Array:
        """Returns a vector [blocks, slots], 0 after the last row."""
        layout = self._layout
        if part.kind == "digit":
            values: Any = (self._digits(part) <= part.at_most) & self._valid[part.names[0]]
        elif part.kind == "valid":
            values = np.logical_and.reduce([self._valid[name] for name in part.names])
        else:
            product, width = self._product(part.names), layout.limb_bits
            values = product >> (width * part.digit)
            if part.digit < layout.limbs(part.names) - 1:
                values = values & ((1 << width) - 1)
        slots = layout.parameters.slots
        padded = np.zeros(layout.blocks * slots, np.int64)
        padded[: len(values)] = values
        return padded.reshape(layout.blocks, slots)

    def encrypted(self, secret: Any, part: Part, values: Any) -> Any:
        """Encrypts a piece of a vector."""
        return secret.encrypt(values)

    def _digits(self, part: Part) -> Int64Array:
        name = part.names[0]
        if self._cached[0] != (name, part.digit):
            several = self._layout.digits[name]
            rest = math.prod(several[part.digit + 1 :])
            codes = self._numbers[name] - self._layout.columns[name].low
            self._cached = (name, part.digit), codes // rest % several[part.digit]
        return self._cached[1]  # type: ignore[no-any-return]

    def _product(self, names: Monomial) -> Int64Array:
        """Returns the product of columns, 0 if a factor is NULL."""
        if self._cached[0] != names:
            valid = np.logical_and.reduce([self._valid[name] for name in names])
            self._cached = names, np.multiply.reduce([self._numbers[name] for name in names]) * valid
        return self._cached[1]  # type: ignore[no-any-return]


class EncryptedTable(Serializable):
    """A table that only the owner of its key can decrypt. Created by `hg.sql.encrypt`, or loaded from a file, in which its
    ciphertexts stay until they are used.

    >>> table.layout.rows, table.key_id == secret.id
    (6, True)
    >>> hg.sql.EncryptedTable.from_bytes(table.to_bytes()).layout == layout
    True
    """

    _TYPE = TYPE

    def __init__(self, parts: Parts, layout: Layouts | None = None) -> None:
        self._parts = parts
        header = parts.header
        if set(header) != {"key", "layout", "span"} or not is_whole(header["span"]) or not isinstance(header["key"], str):
            raise _core.DamagedFileError("this file's header must be that of an encrypted table: key, layout and span")
        if layout is None:
            if not len(parts):
                raise _core.DamagedFileError("this table has no vectors")
            layout = layout_of(header["layout"], getattr(from_bytes(parts[0]), "parameters", None))
        self.layout: Layouts = layout  #: the layout
        self._piece_rows = int(header["span"])
        if self._piece_rows < 1 or len(parts) != len(layout.parts) * self.piece_count:
            raise _core.DamagedFileError(f"this table has {len(parts):,} parts, which does not match its layout")

    @property
    def piece_count(self) -> int:
        """The number of pieces of each vector, which are computed one after another."""
        return -(-self.layout.blocks // self._piece_rows)

    @property
    def key_id(self) -> str:
        """The id of the key under which the table is encrypted."""
        return str(self._parts.header["key"])

    @property
    def nbytes(self) -> int:
        """Bytes of the ciphertexts in a file."""
        return sum(self._parts.sizes())

    def blocks(self, span: int) -> range:
        """Returns the blocks of rows of a piece.

        >>> table.blocks(0)
        range(0, 1)
        """
        return range(span * self._piece_rows, min(self.layout.blocks, (span + 1) * self._piece_rows))

    def data_of(self, part: Part, span: int) -> Any:
        """Returns a piece of a vector as the bytes of a ciphertext tensor.

        >>> len(table.data_of(layout.parts[0], 0)) > 1000
        True
        """
        return self._parts[self._number(part) * self.piece_count + span]

    def _number(self, part: Part) -> int:
        return self.layout.parts.index(part)

    def query(self, text: str) -> Query:
        """Parses a query of this table. Raises SqlError.

        >>> table.query("SELECT SUM(salary) FROM t").items[0].function
        'SUM'
        """
        return Reader(self.layout.table, self.layout.columns).query(text)

    def plan(self, text: str) -> Plans:
        """Plans a query. Raises SqlError, which names the unsupported construct.

        >>> table.plan("SELECT SUM(salary) FROM t WHERE age < 30").products > 0
        True
        """
        return plan_of(text, self.layout)

    def explain(self, text: str) -> str:
        """Returns `plan(text).explain()`.

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
        return self.layout.summary_rows()

    def __repr__(self) -> str:
        count = len(self.layout.parts)
        size = readable_bytes(self.nbytes)
        table = f"{self.layout.table}: {self.layout.rows:,} rows, {count} vectors, {size}"
        return f"<encrypted table {table}, key {printable(self.key_id[:8])}>"
