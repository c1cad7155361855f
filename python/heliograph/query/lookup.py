"""Private look-up: the server has a table in clear and does not learn which of its rows a client asks for."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _container, _core
from heliograph._arrays import Buffer, described, is_whole, listed, path_of, printable, readable_bytes
from heliograph._shapes import Progress
from heliograph.query.containers import Parts, pieces, split_title, titled
from heliograph.query.records import (
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
_MOVES = 2000  # of keys, before a table is full
_MUCH = 16  # where more than one byte in so many is another, all is prepared sooner than what lies beside these
Asked = tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64]]  # words [1 or 2, rows] and keys [1 or 2, LOOKUP_KEY_WORDS]
_Cells = dict[tuple[int, int], tuple[Any, Any]]  # rows and slots, and the tag and the bytes that were there


class Database:
    """A table in clear that answers encrypted questions: which row they ask for it does not learn (docs/query.md).

    `frame` is a dict of arrays, a pyarrow.Table or a pandas.DataFrame of numbers, texts, bytes, days and truth values, or rows
    of bytes, a uint8 array [row, byte]. No value is missing; bytes of a column are of one length. A row takes 8 B to 64 kB or so. `key`
    is the column by whose values clients ask: whole numbers, texts or bytes, each once; without it they ask by the row's number. What is prepared takes half a minute a
    gigabyte, once. After SimplePIR (ePrint 2022/949), YPIR (2024/270) and InsPIRe (2025/1352).

    Raises DtypeError, ShapeError, ParameterError for a table that is none, OutOfMemoryError.

    >>> db = hg.query.Database({"phone": ["+41 1", "+41 2"], "city": ["Bern", "Basel"]}, key="phone")
    >>> caller = db.client()
    >>> caller.get("+41 2", db.answer)
    {'phone': '+41 2', 'city': 'Basel'}
    >>> print(caller.get("+41 3", db.answer))
    None
    """

    def __init__(self, frame: Any, key: str | None = None, *, progress: Progress | None = None) -> None:
        self._records, rows, columns = Records.made(frame)
        self._key, self._count = key, len(rows)
        if key is not None and key not in columns:
            raise _core.ParameterError(
                f"key= names {described(key)}, and the table has {printable(', '.join(columns))[:300]}"
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
        self._table = _core.LookupTable(
            shape.rows, shape.columns, self._seed, self._matrix.reshape(-1), shape.columns, "", progress
        )

    def _fill(self, rows: Bytes2D) -> None:
        slots, width = self._shape.slots, self._shape.slot
        whole = len(rows) // slots
        self._matrix[:whole, : slots * width] = rows[: whole * slots].reshape(whole, slots * width)
        rest = rows[whole * slots :].reshape(-1)
        if len(rest):
            self._matrix[whole, : len(rest)] = rest

    def _slots(self) -> Bytes2D:
        slots, width = self._shape.slots, self._shape.slot
        return self._matrix[:, : slots * width].reshape(self._shape.rows, slots, width)

    def _require_each_once(self, tags: Any) -> None:
        if len(np.unique(tags)) != len(tags):
            raise _core.ParameterError(f"column {printable(str(self._key))} has a key twice")

    def _place_all(self, rows: Bytes2D, keys: list[Any]) -> None:
        """First come, first served in either bucket; what finds both full moves others."""
        shape = self._shape
        tags, places = hashed(keys, self._seed)
        self._require_each_once(tags)
        self._tags = np.zeros((shape.rows, shape.slots), np.uint64)
        content = np.concatenate([tags.astype("<u8").view(np.uint8).reshape(-1, TAG), rows], axis=1)
        owner = np.full((shape.rows, shape.slots), -1, np.int64)
        left = np.arange(len(rows))
        bucket = places % np.uint64(shape.rows)
        for buckets in (bucket, other_bucket(tags, bucket, shape.rows)):
            taken = (owner >= 0).sum(axis=1)
            order = left[np.argsort(buckets[left], kind="stable")]
            own = buckets[order].astype(np.int64)
            starts = np.r_[0, np.flatnonzero(np.diff(own)) + 1] if len(own) else np.zeros(0, np.int64)
            rank = np.arange(len(own)) - np.repeat(starts, np.diff(np.r_[starts, len(own)])) + taken[own]
            fits = rank < shape.slots
            owner[own[fits], rank[fits]] = order[fits]
            left = order[~fits]
        held = owner >= 0
        self._matrix = np.zeros((shape.rows, shape.columns), np.uint8)
        places_of = np.nonzero(held)
        self._tags[places_of] = tags[owner[places_of]]
        self._write(places_of[0], places_of[1], content[owner[places_of]])
        for i in left.tolist():
            self._insert(tags[i], int(bucket[i]), content[i], {})

    def _write(self, rows: Any, slots: Any, content: Any) -> None:
        starts = np.asarray(slots) * self._shape.slot
        for first in range(0, len(starts), 1 << 16):
            part = slice(first, first + (1 << 16))
            at = starts[part, None] + np.arange(self._shape.slot)
            self._matrix[np.asarray(rows)[part, None], at] = content[part]

    def _insert(self, tag: np.uint64, bucket: int, content: Bytes2D, changed: _Cells) -> None:
        """Raises ParameterError where the table is full."""
        shape, width = self._shape, self._shape.slot
        for _ in range(_MOVES):
            for at in (bucket, int(other_bucket(tag, bucket, shape.rows))):
                free = np.flatnonzero(self._tags[at] == 0)
                if len(free):
                    self._put(at, int(free[0]), tag, content, changed)
                    return
            at, slot = bucket, random.randrange(shape.slots)
            moved, kept = self._tags[at, slot].copy(), self._matrix[at, slot * width : (slot + 1) * width].copy()
            self._put(at, slot, tag, content, changed)
            tag, content, bucket = moved, kept, int(other_bucket(moved, at, shape.rows))
        raise _core.ParameterError("this table is full; make a larger one of all its rows")

    def _put(self, row: int, slot: int, tag: Any, content: Any, changed: _Cells) -> None:
        width = self._shape.slot
        cell = self._matrix[row, slot * width : (slot + 1) * width]
        changed.setdefault((row, slot), (self._tags[row, slot].copy(), cell.copy()))
        self._tags[row, slot], cell[:] = tag, content

    def __len__(self) -> int:
        """Rows that can be asked for."""
        return self._count

    @property
    def log2_failure(self) -> float:
        """log2 of a bound on the probability that an answer is refused or wrong."""
        return float(_core.lookup_log2_failure(self._shape.rows, self._shape.columns))

    def save(self, path: Any, *, name: str = "", version: str = "1", title: str = "") -> None:
        """Writes the table as one file, in clear, for `heliograph serve` or `load`; clients' files stay right for it.

        `name` is what a service calls it (by default the file's), `version` and `title` are its maker's. Raises OSError,
        ParameterError for a name that is none.

        >>> db.save("phones.hgd", title="phones by city")
        >>> caller.get("+41 2", hg.query.Database.load("phones.hgd").answer)["city"]
        'Basel'
        """
        place = path_of(path)
        told = titled(name or Path(place).stem, version, title)
        matrix = memoryview(self._matrix.reshape(-1).data)
        with _container.replacing(place) as file:
            for piece in pieces(DATABASE_TYPE, self.client()._header() | told, [matrix], [matrix.nbytes]):
                file.write(piece)

    @classmethod
    def load(cls, path: Any, *, progress: Progress | None = None) -> Database:
        """Reads what `save` wrote, and prepares it: half a minute a gigabyte. Raises FormatError and its kinds, OSError,
        OutOfMemoryError.

        >>> db.save("phones.hgd")
        >>> caller.get("+41 1", hg.query.Database.load("phones.hgd").answer)["city"]
        'Bern'
        """
        parts = Parts(path_of(path), DATABASE_TYPE)
        half, _ = served(parts)
        made = cls.__new__(cls)
        made._records, made._key, made._count = half._records, half._key, half._count
        made._seed, made._shape, made._unsent = half._seed, half._shape, set()
        shape = made._shape
        made._matrix = parts.array(0).reshape(shape.rows, shape.columns)
        if made._key is not None:
            made._tags = shape.tags(made._matrix, made._count)
        made._table = _core.LookupTable(
            shape.rows, shape.columns, made._seed, made._matrix.reshape(-1), shape.columns, "", progress
        )
        return made

    def _follow(self, parts: Parts) -> None:
        """Becomes what a file of the same table has, which somebody updated and saved since.

        Raises MismatchError for another table's, DamagedFileError, OutOfMemoryError: it is as it was then.
        """
        half, _ = served(parts)
        if half._identity() != self.client()._identity():
            raise _core.MismatchError("this file is of another table, whose clients are others")
        shape = self._shape
        matrix = parts.array(0).reshape(shape.rows, shape.columns)
        tags = None if self._key is None else shape.tags(matrix, half._count)
        changed = changed_slots(self._matrix, matrix, shape)
        if len(changed) * shape.slot * _MUCH > matrix.size:
            self._table = _core.LookupTable(shape.rows, shape.columns, self._seed, matrix.reshape(-1), shape.columns)
            changed = []
            self._unsent.clear()
        self._matrix, self._count = matrix, half._count
        if tags is not None:
            self._tags = tags
        self._unsent.update(changed)
        self._send()

    def client(self) -> LookupClient:
        """The client's half: public, the same for all clients, to be saved as a file.

        >>> db.client()
        <client of a look-up in 2 rows by phone: 80.0 KiB up, 14.0 KiB down>
        """
        return LookupClient(self._shape, self._seed, self._records, self._key, self._count)

    def answer(self, question: Buffer) -> bytes:
        """The answer to one question, bytes of `Question.to_bytes`. Raises as `answers`.

        >>> question.read(db.answer(question.to_bytes()))["city"]
        'Bern'
        """
        return self.answers([question])[0]

    def answers(self, questions: Iterable[Buffer]) -> list[bytes]:
        """The answers to several questions, which share one reading of the table.

        Raises FormatError and its kinds for bytes that are no question, MismatchError for one to another table.

        >>> several = [caller.ask(phone) for phone in ("+41 1", "+41 2")]
        >>> answers = db.answers([question.to_bytes() for question in several])
        >>> [question.read(answer)["city"] for question, answer in zip(several, answers)]
        ['Bern', 'Basel']
        """
        return self._answered([self._asked(question) for question in questions])

    def _answered(self, asked: list[Asked]) -> list[bytes]:
        if not asked:
            return []
        words = np.concatenate([words for words, _ in asked])
        bodies, masks = self._table.answer(words, np.concatenate([keys for _, keys in asked]))
        answers, first = [], 0
        for _, keys in asked:
            mine = np.ascontiguousarray(bodies[first : first + len(keys)])
            arrays = {"bodies": mine.astype("<u2").view(np.uint8), "masks": masks}
            answers.append(_container.to_bytes(_ANSWER, {"table": self._seed.hex()}, arrays))
            first += len(keys)
        return answers

    def _asked(self, question: Buffer) -> Asked:
        """A question that was read and checked. Raises as `answers`."""
        arrays = _arrays(question, _QUESTION, self._seed)
        count = 1 if self._key is None else 2
        words = _array(arrays, "words", (count, self._shape.rows), np.uint32)
        keys = _array(arrays, "keys", (count, _core.LOOKUP_KEY_WORDS), np.uint64)
        if int(keys.max()) >= _core.LOOKUP_KEY_MODULUS:
            raise _core.DamagedFileError("a question's keys are no residues of its modulus")
        return words, keys

    def update(self, frame: Any, rows: Iterable[int] | None = None) -> None:
        """Other values for some rows. Prepares what lies beside them again, not the whole table: a fraction of a second.

        By key: rows whose key is there are replaced, others are new. By number: `rows` says which. Values must fit the columns
        as they are. Raises DtypeError, ShapeError, and ParameterError where a row is named twice or a table by keys is full; it is as
        it was then. What is interrupted is finished by the next answer or update.

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
                raise _core.ShapeError(f"rows= has a number from 0 to {self._count - 1:,} for each new row")
            if len({int(number) for number in numbers}) != len(numbers):
                raise _core.ParameterError("rows= names a row twice")
            places = [divmod(int(number), self._shape.slots) for number in numbers]
            self._unsent.update(places)
            self._write([at for at, _ in places], [slot for _, slot in places], content)
        else:
            if rows is not None:
                raise _core.ParameterError("rows= is for tables without a key; this one's rows are known by theirs")
            self._place(keys_of(columns[self._key]), content)
        self._send()

    def _place(self, keys: list[Any], content: Bytes2D) -> None:
        """Rows with keys, all of them or none: where one finds no room what was moved for it goes back."""
        changed, before = _Cells(), self._count
        tags, places = hashed(keys, self._seed)
        self._require_each_once(tags)
        try:
            for tag, place, row in zip(tags, places, content, strict=True):
                full = np.concatenate([np.frombuffer(int(tag).to_bytes(TAG, "little"), np.uint8), row])
                found = self._find(tag, place)
                if found is not None:
                    self._put(*found, tag, full, changed)
                else:
                    self._insert(tag, int(place) % self._shape.rows, full, changed)
                    self._count += 1
        except BaseException:
            for (at, slot), old in changed.items():
                self._put(at, slot, *old, {})
            self._count = before
            raise
        self._unsent.update(changed)

    def remove(self, keys: Iterable[Any]) -> None:
        """Takes the rows of these keys away.

        Raises ParameterError for a table without keys, DtypeError for what is no list of keys, ShapeError for a key that is not there.

        >>> db.update({"phone": ["+41 3"], "city": ["Zug"]})
        >>> db.remove(["+41 3"])
        >>> print(caller.get("+41 3", db.answer))
        None
        """
        if self._key is None:
            raise _core.ParameterError("rows are taken from a table with a key; write others over these, by update")
        given = listed(keys)
        if given is None:
            raise _core.DtypeError(f"keys to remove are a list of them, not {described(keys)}")
        for key in given:
            require_key(key, self._records.field(self._key))
        tags, places = hashed(given, self._seed)
        found = [self._find(tag, place) for tag, place in zip(tags, places, strict=True)]
        if None in found or len(set(found)) != len(found):
            raise _core.ShapeError("a key is not in the table, or is named twice")
        changed = _Cells()
        for place in found:
            assert place is not None
            self._put(*place, 0, 0, changed)
        self._count -= len(found)
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
        """What has changed; also what an interruption left."""
        if not self._unsent:
            return
        sent, width = list(self._unsent), self._shape.slot
        rows = np.array([row for row, _ in sent], np.uint64)
        starts = np.array([slot * width for _, slot in sent], np.uint64)
        content = np.concatenate([self._matrix[row, slot * width : (slot + 1) * width] for row, slot in sent])
        self._table.update(rows, starts, width, content)
        self._unsent.clear()

    def __repr__(self) -> str:
        by = "number" if self._key is None else printable(self._key)
        return f"<look-up in {self._count:,} rows of {self._records.width:,} bytes by {by}, {readable_bytes(self._table.bytes)} prepared>"


class LookupClient:
    """The client's half of a private look-up: made by `Database.client`, loaded from its file. It holds no secret.

    >>> caller.get("+41 1", db.answer)["city"]
    'Bern'
    """

    def __init__(self, shape: Shape, seed: bytes, records: Records, key: str | None, count: int) -> None:
        self._shape, self._seed, self._records, self._key, self._count = shape, seed, records, key, count
        self._core = _core.LookupClient(shape.rows, shape.columns, seed)

    def ask(self, key: Any) -> Question:
        """A question for a key, or for a row's number. Two questions for one row have nothing in common.

        Raises DtypeError for a key of another kind, ShapeError for a number beyond the table's.

        >>> len(caller.ask("+41 1").to_bytes())
        82336
        """
        if self._key is None:
            if not is_whole(key) or not 0 <= key < self._count:
                raise _core.ShapeError(f"a row's number is from 0 to {self._count - 1:,}, not {described(key)}")
            row, slot = divmod(int(key), self._shape.slots)
            return Question(self, [self._core.ask(row)], slot, None)
        require_key(key, self._records.field(self._key))
        tags, places = hashed([key], self._seed)
        at = int(places[0]) % self._shape.rows
        buckets = (at, int(other_bucket(tags[0], at, self._shape.rows)))
        return Question(self, [self._core.ask(bucket) for bucket in buckets], None, int(tags[0]))

    def get(self, key: Any, through: Callable[[bytes], Buffer]) -> Any:
        """The row of a key, or of a number: a dict by column, bytes where the table has rows of bytes; None where there is no such key.

        `through` takes the question's bytes to the server and returns its answer's. Raises as `ask` and `Question.read`.

        >>> caller.get("+41 1", db.answer)
        {'phone': '+41 1', 'city': 'Bern'}
        """
        question = self.ask(key)
        if not callable(through):
            raise _core.DtypeError(f"through is a function from bytes to bytes, not {described(through)}")
        return question.read(through(question.to_bytes()))

    def to_bytes(self) -> bytes:
        """The client as bytes.

        >>> hg.query.LookupClient.from_bytes(caller.to_bytes()).get("+41 1", db.answer)["city"]
        'Bern'
        """
        return _container.to_bytes(CLIENT_TYPE, self._header(), {})

    def _identity(self) -> bytes:
        """The same before and after updates: a table by keys may have another number of rows then."""
        said = self._header() | ({} if self._key is None else {"count": 0})
        return _container.to_bytes(CLIENT_TYPE, said, {})

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
        """Writes it as a file. Raises OSError.

        >>> caller.save("caller.hg")
        """
        _container.save(path_of(path), self.to_bytes())

    @classmethod
    def load(cls, path: Any) -> LookupClient:
        """Reads what `save` wrote. Raises FormatError and its kinds, OSError.

        >>> caller.save("caller.hg")
        >>> hg.query.LookupClient.load("caller.hg").get("+41 2", db.answer)["city"]
        'Basel'
        """
        return cls._from(_container.load(path_of(path)))

    @classmethod
    def from_bytes(cls, data: Buffer) -> LookupClient:
        """Reads `to_bytes`. Raises as `load`.

        >>> hg.query.LookupClient.from_bytes(caller.to_bytes())
        <client of a look-up in 2 rows by phone: 80.0 KiB up, 14.0 KiB down>
        """
        return cls._from(_container.from_bytes(data))

    @classmethod
    def _from(cls, found: _container.Container) -> LookupClient:
        if found.type != CLIENT_TYPE:
            raise _core.FormatError(f"this file holds {printable(found.type)}, not the client's half of a look-up")
        return cls._of(found.header)

    @classmethod
    def _of(cls, said: dict[str, Any]) -> LookupClient:
        try:
            width, key, count = said["width"], said["key"], said["count"]
            fields = fields_of(said["fields"])
            shape = Shape(said["rows"], said["columns"], width + (0 if key is None else TAG))
            whole = all(type(n) is int and n > 0 for n in (width, shape.rows, shape.columns)) and type(count) is int
            if not whole or count < (key is None) or not (key is None or key in [f.name for f in fields]) or not shape.slots:
                raise ValueError
            if count > shape.rows * shape.slots:
                raise ValueError
            records = Records(fields, width)
            if key is not None and records.kind(key) not in KEYS:
                raise ValueError
            return cls(shape, bytes.fromhex(said["table"]), records, key, count)
        except (KeyError, TypeError, ValueError, _core.ParameterError):
            raise _core.DamagedFileError("this file's header is of no look-up") from None

    def __len__(self) -> int:
        """Rows that can be asked for."""
        return self._count

    @property
    def by_number(self) -> bool:
        """Whether rows are asked for by whole numbers: their own, or those of a column."""
        return self._key is None or self._records.kind(self._key) in "iu"

    @property
    def question_bytes(self) -> int:
        """Bytes of a question, but for the file's head."""
        return (1 if self._key is None else 2) * (4 * self._shape.rows + 8 * _core.LOOKUP_KEY_WORDS)

    @property
    def answer_bytes(self) -> int:
        """Bytes of an answer, but for the file's head."""
        return self._shape.columns * (2 * (1 if self._key is None else 2) + _core.LOOKUP_MASK_BYTES)

    def explain(self) -> str:
        """What can be asked and what it costs, a line each.

        >>> print(caller.explain().splitlines()[0])
               look-up  2 rows by phone
        """
        return "\n".join(f"{label:>14}  {text}" for label, text in self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        columns = self._records.told()
        by = "number" if self._key is None else self._key
        return [
            ("look-up", f"{self._count:,} rows by {printable(by)}"),
            ("columns", printable(columns)[:1000] or f"rows of {self._records.width:,} bytes"),
            ("a question", f"{readable_bytes(self.question_bytes)} to send, {readable_bytes(self.answer_bytes)} back"),
        ]

    def __repr__(self) -> str:
        by = "number" if self._key is None else printable(self._key)
        up, down = readable_bytes(self.question_bytes), readable_bytes(self.answer_bytes)
        return f"<client of a look-up in {self._count:,} rows by {by}: {up} up, {down} down>"


class Question:
    """One question, with the secret that reads its answer: to be kept by the client until then.

    >>> question.read(reply)
    {'phone': '+41 1', 'city': 'Bern'}
    """

    def __init__(self, client: LookupClient, asked: list[Any], slot: int | None, tag: int | None) -> None:
        self._client, self._asked, self._slot, self._tag = client, asked, slot, tag

    def to_bytes(self) -> bytes:
        """What goes to the server: nothing in it tells of the key or the row.

        >>> len(db.answer(question.to_bytes())) == len(reply)
        True
        """
        arrays = {
            "words": np.stack([asked.words for asked in self._asked]),
            "keys": np.stack([asked.keys for asked in self._asked]),
        }
        return _container.to_bytes(_QUESTION, {"table": self._client._seed.hex()}, arrays)

    def read(self, answer: Buffer) -> Any:
        """The row that was asked for, as `LookupClient.get` returns it.

        Raises FormatError and its kinds for bytes that are no answer, MismatchError for one of another table, WrongKeyError for the
        answer to another question.

        >>> question.read(reply)["phone"]
        '+41 1'
        """
        arrays = _arrays(answer, _ANSWER, self._client._seed)
        shape, records = self._client._shape, self._client._records
        bodies = _array(arrays, "bodies", (len(self._asked), 2 * shape.columns), np.uint8).view("<u2")
        masks = _array(arrays, "masks", (shape.columns * _core.LOOKUP_MASK_BYTES,), np.uint8)
        found = None
        for asked, body in zip(self._asked, bodies, strict=True):
            row = asked.read(np.ascontiguousarray(body), masks)
            slots = np.frombuffer(row[: shape.slots * shape.slot], np.uint8).reshape(shape.slots, shape.slot)
            if self._slot is not None:
                return records.read(slots[self._slot].tobytes())
            same = np.flatnonzero(np.ascontiguousarray(slots[:, :TAG]).view("<u8")[:, 0] == self._tag)
            if len(same) and found is None:
                found = slots[int(same[0]), TAG:].tobytes()
        return None if found is None else records.read(found)


def served(parts: Parts) -> tuple[LookupClient, dict[str, str]]:
    """The client's half of a saved table, and its name, version and title. Raises DamagedFileError."""
    said, told = split_title(parts.header)
    half = LookupClient._of(said)
    if parts.sizes() != [half._shape.rows * half._shape.columns]:
        raise _core.DamagedFileError("a look-up's table is of another size than it says")
    return half, told


def _arrays(data: Buffer, kind: str, seed: bytes) -> dict[str, npt.NDArray[Any]]:
    """Of a question or an answer of this table."""
    found = _container.from_bytes(data)
    if found.type != kind:
        raise _core.FormatError(f"this holds {printable(found.type)}, not {kind}")
    if found.header.get("table") != seed.hex():
        raise _core.MismatchError("this question or answer is of another table")
    return found.arrays


def _array(arrays: dict[str, npt.NDArray[Any]], name: str, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
    array = arrays.get(name)
    if array is None or array.shape != shape or array.dtype != np.dtype(dtype):
        raise _core.DamagedFileError(f"a look-up's {name} are not those of its table")
    return array
