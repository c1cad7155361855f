"""Private look-up (PIR): the server has a table in clear and does not learn which row a client looks up."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common import container
from heliograph._common.arguments import Buffer, described, is_whole, listed, path_of, printable, readable_bytes
from heliograph._common.ciphertext_files import Parts, pieces, split_title, titled
from heliograph._common.tensor import Progress
from heliograph.pir.records import (
    KEYS,
    TAG,
    Bytes2D,
    Records,
    Shape,
    changed_slots,
    fields_of,
    hashed,
    keys_of,
    other_bucket,
    require_key,
)

CLIENT_TYPE, _QUESTION, _ANSWER = (f"heliograph.query.lookup-{kind}" for kind in ("client", "question", "answer"))
DATABASE_TYPE = "heliograph.query.database"
_MOVES = 2000  # maximum moves of keys for one insertion; a table that needs more moves is full
_FULL_UPDATE_RATIO = 16  # if more than 1 in this many bytes changed, it is faster to prepare the whole table
#: A parsed query: words [1 or 2, rows] and keys [1 or 2, LOOKUP_KEY_WORDS].
QueryArrays = tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64]]
_Cells = dict[tuple[int, int], tuple[Any, Any]]  # previous tag and bytes, by row and slot


class Database:
    """A table in clear that answers private queries: its server does not learn which row a query reads (docs/query.md).

    `frame` is a dict of arrays, a pyarrow.Table or a pandas.DataFrame of numbers, strings, bytes, dates and truth values; or
    rows of bytes, a uint8 array [row, byte]. No value may be missing, and the bytes of a column have one length. A row may
    have from about 8 B to 64 kB. `key` is the column by whose values clients look rows up: whole numbers, strings or bytes,
    all different. Without `key`, clients look rows up by number. The preparation of a table takes half a minute per
    gigabyte, once. Sources: SimplePIR (ePrint 2022/949), YPIR (2024/270) and InsPIRe (2025/1352).

    Raises DtypeError, ShapeError, ParameterError for an invalid table, OutOfMemoryError.

    >>> db = hg.pir.Database({"phone": ["+41 1", "+41 2"], "city": ["Bern", "Basel"]}, key="phone")
    >>> caller = db.client()
    >>> caller.get("+41 2", db.answer)
    {'phone': '+41 2', 'city': 'Basel'}
    >>> print(caller.get("+41 3", db.answer))
    None
    """

    def __init__(self, frame: Any, key: str | None = None, *, progress: Progress | None = None) -> None:
        self._records, rows, columns = Records.from_frame(frame)
        self._key, self._count = key, len(rows)
        if key is not None and key not in columns:
            raise _core.ParameterError(
                f"key= names {described(key)}, which the table does not have; its columns are "
                f"{printable(', '.join(columns))[:300]}"
            )
        self._seed, self._unsent = secrets.token_bytes(32), set[tuple[int, int]]()
        tag = 0 if key is None else TAG
        self._shape = Shape.of(len(rows), self._records.width + tag, key is not None)
        if key is None:
            self._matrix = np.zeros((self._shape.rows, self._shape.columns), np.uint8)
            self._fill(rows)
        else:
            self._place_all(rows, keys_of(columns[key]))
        shape = self._shape
        self._table = _core.pir.Table(
            shape.rows, shape.columns, self._seed, self._matrix.reshape(-1), shape.columns, "", progress
        )

    def _fill(self, rows: Bytes2D) -> None:
        slots, width = self._shape.slots, self._shape.slot
        full_buckets = len(rows) // slots
        self._matrix[:full_buckets, : slots * width] = rows[: full_buckets * slots].reshape(full_buckets, slots * width)
        rest = rows[full_buckets * slots :].reshape(-1)
        if len(rest):
            self._matrix[full_buckets, : len(rest)] = rest

    def _require_each_once(self, tags: Any) -> None:
        if len(np.unique(tags)) != len(tags):
            raise _core.ParameterError(f"column {printable(str(self._key))} has a key twice; keys must be different")

    def _place_all(self, rows: Bytes2D, keys: list[Any]) -> None:
        """Places all rows by cuckoo hashing: first each row in a bucket with a free slot, then other rows by moving rows
        away.

        """
        shape = self._shape
        tags, places = hashed(keys, self._seed)
        self._require_each_once(tags)
        self._tags = np.zeros((shape.rows, shape.slots), np.uint64)
        content = np.concatenate([tags.astype("<u8").view(np.uint8).reshape(-1, TAG), rows], axis=1)
        owner = np.full((shape.rows, shape.slots), -1, np.int64)
        unplaced = np.arange(len(rows))
        bucket = places % np.uint64(shape.rows)
        for buckets in (bucket, other_bucket(tags, bucket, shape.rows)):
            filled = (owner >= 0).sum(axis=1)
            order = unplaced[np.argsort(buckets[unplaced], kind="stable")]
            own = buckets[order].astype(np.int64)
            starts = np.r_[0, np.flatnonzero(np.diff(own)) + 1] if len(own) else np.zeros(0, np.int64)
            rank = np.arange(len(own)) - np.repeat(starts, np.diff(np.r_[starts, len(own)])) + filled[own]
            fits = rank < shape.slots
            owner[own[fits], rank[fits]] = order[fits]
            unplaced = order[~fits]
        occupied = owner >= 0
        self._matrix = np.zeros((shape.rows, shape.columns), np.uint8)
        places_of = np.nonzero(occupied)
        self._tags[places_of] = tags[owner[places_of]]
        self._write(places_of[0], places_of[1], content[owner[places_of]])
        for i in unplaced.tolist():
            self._insert(tags[i], int(bucket[i]), content[i], {})

    def _write(self, rows: Any, slots: Any, content: Any) -> None:
        starts = np.asarray(slots) * self._shape.slot
        for first in range(0, len(starts), 1 << 16):
            part = slice(first, first + (1 << 16))
            at = starts[part, None] + np.arange(self._shape.slot)
            self._matrix[np.asarray(rows)[part, None], at] = content[part]

    def _insert(self, tag: np.uint64, bucket: int, content: Bytes2D, changed: _Cells) -> None:
        """Inserts a row by cuckoo hashing. Raises ParameterError if the table is full."""
        shape, width = self._shape, self._shape.slot
        for _ in range(_MOVES):
            for at in (bucket, int(other_bucket(tag, bucket, shape.rows))):
                free = np.flatnonzero(self._tags[at] == 0)
                if len(free):
                    self._write_slot(at, int(free[0]), tag, content, changed)
                    return
            at, slot = bucket, random.randrange(shape.slots)
            old_tag, old_content = self._tags[at, slot].copy(), self._matrix[at, slot * width : (slot + 1) * width].copy()
            self._write_slot(at, slot, tag, content, changed)
            tag, content, bucket = old_tag, old_content, int(other_bucket(old_tag, at, shape.rows))
        raise _core.ParameterError("cannot insert the row: this table is full; make a new Database of all rows")

    def _write_slot(self, row: int, slot: int, tag: Any, content: Any, changed: _Cells) -> None:
        width = self._shape.slot
        cell = self._matrix[row, slot * width : (slot + 1) * width]
        changed.setdefault((row, slot), (self._tags[row, slot].copy(), cell.copy()))
        self._tags[row, slot], cell[:] = tag, content

    def __len__(self) -> int:
        """Returns the number of rows."""
        return self._count

    @property
    def log2_failure(self) -> float:
        """log2 of a bound on the probability that an answer is refused or wrong."""
        return float(_core.pir.log2_failure(self._shape.rows, self._shape.columns))

    def save(self, path: Any, *, name: str = "", version: str = "1", title: str = "") -> None:
        """Writes the table to one file, in clear, for `heliograph serve` or `load`. Clients' files remain valid for the
        saved table.

        `name` is the table's name at a service (default: the file's), `version` and `title` are texts of its maker. Raises
        OSError; ParameterError for an invalid name.

        >>> db.save("phones.hgd", title="phones by city")
        >>> caller.get("+41 2", hg.pir.Database.load("phones.hgd").answer)["city"]
        'Basel'
        """
        place = path_of(path)
        metadata = titled(name or Path(place).stem, version, title)
        matrix = memoryview(self._matrix.reshape(-1).data)
        with container.replacing(place) as file:
            for piece in pieces(DATABASE_TYPE, self.client()._header() | metadata, [matrix], [matrix.nbytes]):
                file.write(piece)

    @classmethod
    def load(cls, path: Any, *, progress: Progress | None = None) -> Database:
        """Reads a file that `save` wrote and prepares the table, which takes half a minute per gigabyte. Raises FormatError
        and its subclasses, OSError, OutOfMemoryError.

        >>> db.save("phones.hgd")
        >>> caller.get("+41 1", hg.pir.Database.load("phones.hgd").answer)["city"]
        'Bern'
        """
        parts = Parts(path_of(path), DATABASE_TYPE)
        half, _ = served(parts)
        database = cls.__new__(cls)
        database._records, database._key, database._count = half._records, half._key, half._count
        database._seed, database._shape, database._unsent = half._seed, half._shape, set()
        shape = database._shape
        database._matrix = parts.array(0).reshape(shape.rows, shape.columns)
        if database._key is not None:
            database._tags = shape.tags(database._matrix, database._count)
        database._table = _core.pir.Table(
            shape.rows, shape.columns, database._seed, database._matrix.reshape(-1), shape.columns, "", progress
        )
        return database

    def _follow(self, parts: Parts) -> None:
        """Replaces the rows by the rows of a newer file of the same table.

        Raises MismatchError for another table's file, DamagedFileError, OutOfMemoryError; after an error the table is
        unchanged.
        """
        half, _ = served(parts)
        if half._identity() != self.client()._identity():
            raise _core.MismatchError("the file holds a different table, for which this table's client files are not valid")
        shape = self._shape
        matrix = parts.array(0).reshape(shape.rows, shape.columns)
        tags = None if self._key is None else shape.tags(matrix, half._count)
        changed = changed_slots(self._matrix, matrix, shape)
        if len(changed) * shape.slot * _FULL_UPDATE_RATIO > matrix.size:
            self._table = _core.pir.Table(shape.rows, shape.columns, self._seed, matrix.reshape(-1), shape.columns)
            changed = []
            self._unsent.clear()
        self._matrix, self._count = matrix, half._count
        if tags is not None:
            self._tags = tags
        self._unsent.update(changed)
        self._send()

    def client(self) -> LookupClient:
        """Returns the client's half: the public description of the table that every client needs.

        >>> db.client()
        <client of a look-up in 2 rows by phone: 80.0 KiB up, 14.0 KiB down>
        """
        return LookupClient(self._shape, self._seed, self._records, self._key, self._count)

    def answer(self, question: Buffer) -> bytes:
        """Answers one query, the bytes of `Question.to_bytes`. Raises the errors of `answers`.

        >>> question.read(db.answer(question.to_bytes()))["city"]
        'Bern'
        """
        return self.answers([question])[0]

    def answers(self, questions: Iterable[Buffer]) -> list[bytes]:
        """Answers several queries in one pass over the table.

        Raises FormatError and its subclasses for invalid bytes, MismatchError for a query of another table.

        >>> several = [caller.ask(phone) for phone in ("+41 1", "+41 2")]
        >>> answers = db.answers([question.to_bytes() for question in several])
        >>> [question.read(answer)["city"] for question, answer in zip(several, answers)]
        ['Bern', 'Basel']
        """
        return self._answer_all([self._query_arrays(question) for question in questions])

    def _answer_all(self, queries: list[QueryArrays]) -> list[bytes]:
        if not queries:
            return []
        words = np.concatenate([words for words, _ in queries])
        bodies, masks = self._table.answer(words, np.concatenate([keys for _, keys in queries]))
        answers, first = [], 0
        for _, keys in queries:
            mine = np.ascontiguousarray(bodies[first : first + len(keys)])
            arrays = {"bodies": mine.astype("<u2").view(np.uint8), "masks": masks}
            answers.append(container.to_bytes(_ANSWER, {"table": self._seed.hex()}, arrays))
            first += len(keys)
        return answers

    def _query_arrays(self, question: Buffer) -> QueryArrays:
        """Parses and checks a query. Raises the errors of `answers`."""
        arrays = _arrays(question, _QUESTION, self._seed)
        count = 1 if self._key is None else 2
        words = _array(arrays, "words", (count, self._shape.rows), np.uint32)
        keys = _array(arrays, "keys", (count, _core.pir.KEY_WORDS), np.uint64)
        if int(keys.max()) >= _core.pir.KEY_MODULUS:
            raise _core.DamagedFileError("the query's keys must be residues below their modulus")
        return words, keys

    def update(self, frame: Any, rows: Iterable[int] | None = None) -> None:
        """Replaces or adds rows. An update prepares only the changed parts of the matrix again, which takes a fraction of a
        second.

        With a key column, rows with an existing key are replaced, and rows with new keys are added. Without a key column,
        `rows` has the numbers of the rows to replace. Values must fit the existing columns. An interrupted update is
        completed by the next answer or update.

        Raises DtypeError, ShapeError; ParameterError if a row is named twice or the table is full. After an error the table
        is unchanged.

        >>> db.update({"phone": ["+41 3"], "city": ["Zug"]})
        >>> caller.get("+41 3", db.answer)["city"]
        'Zug'
        """
        content, columns = self._records.fitted(frame)
        if self._key is None:
            numbers = listed(rows)
            if (
                numbers is None
                or len(numbers) != len(content)
                or not all(is_whole(n) and 0 <= n < self._count for n in numbers)
            ):
                raise _core.ShapeError(
                    f"rows= must have one number from 0 to {self._count - 1:,} for each of {len(content):,} rows, "
                    f"got {described(rows)}"
                )
            if len({int(number) for number in numbers}) != len(numbers):
                raise _core.ParameterError("rows= names a row twice; give each number once")
            places = [divmod(int(number), self._shape.slots) for number in numbers]
            self._unsent.update(places)
            self._write([at for at, _ in places], [slot for _, slot in places], content)
        else:
            if rows is not None:
                raise _core.ParameterError(
                    "rows= requires a table without a key column; omit it: this table finds rows by key"
                )
            self._place(keys_of(columns[self._key]), content)
        self._send()

    def _place(self, keys: list[Any], content: Bytes2D) -> None:
        """Inserts or replaces all of the rows or none: if there is no slot for a row, all moves are undone."""
        changed, before = _Cells(), self._count
        tags, places = hashed(keys, self._seed)
        self._require_each_once(tags)
        try:
            for tag, place, row in zip(tags, places, content, strict=True):
                full = np.concatenate([np.frombuffer(int(tag).to_bytes(TAG, "little"), np.uint8), row])
                place_of_key = self._find(tag, place)
                if place_of_key is not None:
                    self._write_slot(*place_of_key, tag, full, changed)
                else:
                    self._insert(tag, int(place) % self._shape.rows, full, changed)
                    self._count += 1
        except BaseException:
            for (at, slot), old in changed.items():
                self._write_slot(at, slot, *old, {})
            self._count = before
            raise
        self._unsent.update(changed)

    def remove(self, keys: Iterable[Any]) -> None:
        """Removes the rows of these keys.

        Raises ParameterError for a table without a key column, DtypeError if `keys` is not a list, ShapeError for a missing
        key.

        >>> db.update({"phone": ["+41 3"], "city": ["Zug"]})
        >>> db.remove(["+41 3"])
        >>> print(caller.get("+41 3", db.answer))
        None
        """
        if self._key is None:
            raise _core.ParameterError("cannot remove rows of a table without a key column; overwrite them by update")
        all_keys = listed(keys)
        if all_keys is None:
            raise _core.DtypeError(f"the keys to remove must be a list, got {described(keys)}")
        for key in all_keys:
            require_key(key, self._records.field(self._key))
        tags, places = hashed(all_keys, self._seed)
        cells = [self._find(tag, place) for tag, place in zip(tags, places, strict=True)]
        if None in cells or len(set(cells)) != len(cells):
            missing = [key for key, place in zip(all_keys, cells, strict=True) if place is None]
            if missing:
                raise _core.ShapeError(f"cannot remove {described(missing[0])}: the key is not in the table")
            raise _core.ShapeError("cannot remove rows: a key is named twice; name each key once")
        changed = _Cells()
        for place in cells:
            assert place is not None
            self._write_slot(*place, 0, 0, changed)
        self._count -= len(cells)
        self._unsent.update(changed)
        self._send()

    def _find(self, tag: Any, place: Any) -> tuple[int, int] | None:
        at = int(place) % self._shape.rows
        for row in (at, int(other_bucket(tag, at, self._shape.rows))):
            slots = np.flatnonzero(self._tags[row] == tag)
            if len(slots):
                return row, int(slots[0])
        return None

    def _send(self) -> None:
        """Updates the prepared table with all pending changes, including those of an interrupted update."""
        if not self._unsent:
            return
        cells, width = list(self._unsent), self._shape.slot
        rows = np.array([row for row, _ in cells], np.uint64)
        starts = np.array([slot * width for _, slot in cells], np.uint64)
        content = np.concatenate([self._matrix[row, slot * width : (slot + 1) * width] for row, slot in cells])
        self._table.update(rows, starts, width, content)
        self._unsent.clear()

    def __repr__(self) -> str:
        by = "number" if self._key is None else printable(self._key)
        prepared = readable_bytes(self._table.bytes)
        return f"<look-up in {self._count:,} rows of {self._records.width:,} bytes by {by}, {prepared} prepared>"


class LookupClient:
    """The client's half of a private look-up, from `Database.client` or a file. The client's half holds no secret.

    >>> caller.get("+41 1", db.answer)["city"]
    'Bern'
    """

    def __init__(self, shape: Shape, seed: bytes, records: Records, key: str | None, count: int) -> None:
        self._shape, self._seed, self._records, self._key, self._count = shape, seed, records, key, count
        self._core = _core.pir.Client(shape.rows, shape.columns, seed)

    def ask(self, key: Any) -> Question:
        """Creates a query for a key, or for a row's number. Two queries for the same row are unlinkable.

        Raises DtypeError for a key of another kind, ShapeError for a number beyond the table's.

        >>> len(caller.ask("+41 1").to_bytes())
        82336
        """
        if self._key is None:
            if not is_whole(key) or not 0 <= key < self._count:
                raise _core.ShapeError(f"a row's number must be from 0 to {self._count - 1:,}, got {described(key)}")
            row, slot = divmod(int(key), self._shape.slots)
            return Question(self, [self._core.ask(row)], slot, None)
        require_key(key, self._records.field(self._key))
        tags, places = hashed([key], self._seed)
        at = int(places[0]) % self._shape.rows
        buckets = (at, int(other_bucket(tags[0], at, self._shape.rows)))
        return Question(self, [self._core.ask(bucket) for bucket in buckets], None, int(tags[0]))

    def get(self, key: Any, through: Callable[[bytes], Buffer]) -> Any:
        """Looks up the row of a key or number: a dict by column, or bytes for a table of bytes; None for an unknown key.

        `through` sends the query's bytes to the server and returns the answer's bytes. Raises the errors of `ask` and
        `Question.read`.

        >>> caller.get("+41 1", db.answer)
        {'phone': '+41 1', 'city': 'Bern'}
        """
        question = self.ask(key)
        if not callable(through):
            raise _core.DtypeError(f"through must be a function from bytes to bytes, got {described(through)}")
        return question.read(through(question.to_bytes()))

    def to_bytes(self) -> bytes:
        """Returns the client's half as bytes.

        >>> hg.pir.LookupClient.from_bytes(caller.to_bytes()).get("+41 1", db.answer)["city"]
        'Bern'
        """
        return container.to_bytes(CLIENT_TYPE, self._header(), {})

    def _identity(self) -> bytes:
        """Returns bytes that updates do not change; for a table by keys, they exclude the number of rows."""
        header = self._header() | ({} if self._key is None else {"count": 0})
        return container.to_bytes(CLIENT_TYPE, header, {})

    def _header(self) -> dict[str, Any]:
        return {
            "rows": self._shape.rows,
            "columns": self._shape.columns,
            "table": self._seed.hex(),
            "fields": [asdict(f) for f in self._records.fields],
            "width": self._records.width,
            "key": self._key,
            "count": self._count,
        }

    def save(self, path: Any) -> None:
        """Writes a file. Raises OSError.

        >>> caller.save("caller.hg")
        """
        container.save(path_of(path), self.to_bytes())

    @classmethod
    def load(cls, path: Any) -> LookupClient:
        """Reads a file that `save` wrote. Raises FormatError and its subclasses, OSError.

        >>> caller.save("caller.hg")
        >>> hg.pir.LookupClient.load("caller.hg").get("+41 2", db.answer)["city"]
        'Basel'
        """
        return cls._from(container.load(path_of(path)))

    @classmethod
    def from_bytes(cls, data: Buffer) -> LookupClient:
        """Reads bytes that `to_bytes` returned. Raises the errors of `load`.

        >>> hg.pir.LookupClient.from_bytes(caller.to_bytes())
        <client of a look-up in 2 rows by phone: 80.0 KiB up, 14.0 KiB down>
        """
        return cls._from(container.from_bytes(data))

    @classmethod
    def _from(cls, file: container.Container) -> LookupClient:
        if file.type != CLIENT_TYPE:
            raise _core.FormatError(f"this file holds {printable(file.type)}; it must hold the client's half of a look-up")
        return cls._of(file.header)

    @classmethod
    def _of(cls, header: dict[str, Any]) -> LookupClient:
        try:
            width, key, count = header["width"], header["key"], header["count"]
            fields = fields_of(header["fields"])
            shape = Shape(header["rows"], header["columns"], width + (0 if key is None else TAG))
            is_valid = all(type(n) is int and n > 0 for n in (width, shape.rows, shape.columns)) and type(count) is int
            if (
                not is_valid
                or count < (key is None)
                or not (key is None or key in [f.name for f in fields])
                or not shape.slots
            ):
                raise ValueError
            if count > shape.rows * shape.slots:
                raise ValueError
            records = Records(fields, width)
            if key is not None and records.kind(key) not in KEYS:
                raise ValueError
            return cls(shape, bytes.fromhex(header["table"]), records, key, count)
        except (KeyError, TypeError, ValueError, _core.ParameterError):
            raise _core.DamagedFileError("this file's header describes an invalid look-up") from None

    def __len__(self) -> int:
        """Returns the number of rows."""
        return self._count

    @property
    def by_number(self) -> bool:
        """Whether keys are whole numbers (row numbers, or values of a column)."""
        return self._key is None or self._records.kind(self._key) in "iu"

    @property
    def question_bytes(self) -> int:
        """Bytes of a query, without the file's header."""
        return (1 if self._key is None else 2) * (4 * self._shape.rows + 8 * _core.pir.KEY_WORDS)

    @property
    def answer_bytes(self) -> int:
        """Bytes of an answer, without the file's header."""
        return self._shape.columns * (2 * (1 if self._key is None else 2) + _core.pir.MASK_BYTES)

    def explain(self) -> str:
        """Describes the table and the sizes of a query, a line each.

        >>> print(caller.explain().splitlines()[0])
               look-up  2 rows by phone
        """
        return "\n".join(f"{label:>14}  {text}" for label, text in self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        columns = self._records.columns_text()
        by = "number" if self._key is None else self._key
        return [
            ("look-up", f"{self._count:,} rows by {printable(by)}"),
            ("columns", printable(columns)[:1000] or f"rows of {self._records.width:,} bytes"),
            ("a query", f"{readable_bytes(self.question_bytes)} up, {readable_bytes(self.answer_bytes)} down"),
        ]

    def __repr__(self) -> str:
        by = "number" if self._key is None else printable(self._key)
        up, down = readable_bytes(self.question_bytes), readable_bytes(self.answer_bytes)
        return f"<client of a look-up in {self._count:,} rows by {by}: {up} up, {down} down>"


class Question:
    """A query with the secret that decrypts its answer. The client keeps a question until the answer arrives.

    >>> question.read(reply)
    {'phone': '+41 1', 'city': 'Bern'}
    """

    def __init__(self, client: LookupClient, queries: list[Any], slot: int | None, tag: int | None) -> None:
        self._client, self._queries, self._slot, self._tag = client, queries, slot, tag

    def to_bytes(self) -> bytes:
        """Returns the bytes of the query for the server. The bytes reveal neither the key nor the row.

        >>> len(db.answer(question.to_bytes())) == len(reply)
        True
        """
        arrays = {
            "words": np.stack([query.words for query in self._queries]),
            "keys": np.stack([query.keys for query in self._queries]),
        }
        return container.to_bytes(_QUESTION, {"table": self._client._seed.hex()}, arrays)

    def read(self, answer: Buffer) -> Any:
        """Decrypts the row, as `LookupClient.get` returns it.

        Raises FormatError and its subclasses for invalid bytes, MismatchError for an answer of another table, WrongKeyError
        for the answer to another query.

        >>> question.read(reply)["phone"]
        '+41 1'
        """
        arrays = _arrays(answer, _ANSWER, self._client._seed)
        shape, records = self._client._shape, self._client._records
        bodies = _array(arrays, "bodies", (len(self._queries), 2 * shape.columns), np.uint8).view("<u2")
        masks = _array(arrays, "masks", (shape.columns * _core.pir.MASK_BYTES,), np.uint8)
        row_bytes = None
        for query, body in zip(self._queries, bodies, strict=True):
            row = query.read(np.ascontiguousarray(body), masks)
            slots = np.frombuffer(row[: shape.slots * shape.slot], np.uint8).reshape(shape.slots, shape.slot)
            if self._slot is not None:
                return records.read(slots[self._slot].tobytes())
            same = np.flatnonzero(np.ascontiguousarray(slots[:, :TAG]).view("<u8")[:, 0] == self._tag)
            if len(same) and row_bytes is None:
                row_bytes = slots[int(same[0]), TAG:].tobytes()
        return None if row_bytes is None else records.read(row_bytes)


def served(parts: Parts) -> tuple[LookupClient, dict[str, str]]:
    """Returns the client's half of a saved table, and its name, version and title. Raises DamagedFileError."""
    header, metadata = split_title(parts.header)
    half = LookupClient._of(header)
    if parts.sizes() != [half._shape.rows * half._shape.columns]:
        raise _core.DamagedFileError(
            f"the look-up's table must have {half._shape.rows * half._shape.columns:,} bytes by its header, got "
            f"{sum(parts.sizes()):,}"
        )
    return half, metadata


def _arrays(data: Buffer, kind: str, seed: bytes) -> dict[str, npt.NDArray[Any]]:
    """Returns the arrays of a query or an answer of this table."""
    message = container.from_bytes(data)
    if message.type != kind:
        raise _core.FormatError(f"these bytes hold {printable(message.type)}; they must hold {kind}")
    if message.header.get("table") != seed.hex():
        raise _core.MismatchError("this query or answer is of another table; get the client's half of this one")
    return message.arrays


def _array(arrays: dict[str, npt.NDArray[Any]], name: str, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
    array = arrays.get(name)
    if array is None or array.shape != shape or array.dtype != np.dtype(dtype):
        raise _core.DamagedFileError(
            f"the look-up's {name} are not those of its table: they must be {np.dtype(dtype)} of shape {shape}"
        )
    return array
