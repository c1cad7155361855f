"""Special cases of private look-up: all kinds of keys and values, full tables, interruptions, old clients, malicious clients
and servers.
"""

from __future__ import annotations

import datetime
import functools
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import resign
from heliograph._common import container


def asked(frame: dict[str, Any], key: Any) -> Any:
    """Returns the row of a key in column k."""
    db = hg.pir.Database(frame, key="k")
    return db.client().get(key, db.answer)


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ([5, -7, 2**62], 1),
        (np.array([1, 2**64 - 1], np.uint64), 1),
        ([b"a\0", b"bc"], 0),
        (["ü", "u"], 0),
        (np.array(["x", "yyy"], object), 1),
    ],
)
def test_keys_of_every_kind_are_found_unchanged(keys: Any, place: int) -> None:
    """Keys of every kind are found and returned without change; trailing zero bytes belong to a key."""
    key = keys[place]
    assert asked({"k": keys, "v": [10, 11, 12][: len(keys)]}, key) == {"k": key, "v": 10 + place}


def test_bytes_of_numpy_keep_their_zeros() -> None:
    """A key such as an IPv4 address may end with a zero byte, which NumPy does not display."""
    addresses = np.array([b"\x0a\0\0\1", b"\x0a\0\0\0"])
    assert asked({"k": addresses, "v": [1, 2]}, b"\x0a\0\0\0") == {"k": b"\x0a\0\0\0", "v": 2}


@pytest.mark.parametrize(
    ("frame", "match"),
    [
        ({"k": ["a", None], "v": [1, 2]}, "column k has None"),
        ({"k": [1, None], "v": [1, 2]}, "column k has None"),
        ({"k": ["a", b"b"], "v": [1, 2]}, "column k has b'b'"),
        ({"k": ["a", 1], "v": [1, 2]}, "column k has 1"),
        ({"k": ["a", "b"], "v": [b"long", b"s"]}, "got 1 to 4"),
        ({"k": ["a"], "v": [2**70]}, "more than 64 bits"),
        ({"k": ["a\0"], "v": [1]}, "ends in a zero"),
        ({"k": ["\ud800"], "v": [1]}, "UTF-8"),
        ({"k": ["a"], "v": [[1, 2]]}, r"column v has \[1, 2\]"),
        ({"k": "a", "v": [1]}, "column k must hold numbers"),
        ({"k": [1.5], "v": [1]}, r"a key must be .* got 1\.5"),
        ({"k": [True], "v": [1]}, "a key must be"),
        ({"k": ["a"], 5: [1]}, "names of a table must be strings"),
        ({"k": ["a"], "": [1]}, "names of a table must be strings"),
    ],
)
def test_values_that_change_in_a_row_are_refused(frame: Any, match: str) -> None:
    """Values that a row cannot store exactly are refused."""
    with pytest.raises(hg.DtypeError, match=match):
        hg.pir.Database(frame, key="k")


@pytest.fixture(scope="module")
def numbered() -> hg.pir.Database:
    """Returns a table whose keys are integers. No test changes the table."""
    return hg.pir.Database({"id": [5, 6], "name": ["five", "six"]}, key="id")


@pytest.fixture(scope="module")
def lettered() -> hg.pir.Database:
    """Returns a table whose keys are strings. No test changes the table."""
    return hg.pir.Database({"k": ["a", "b"], "v": [1, 2]}, key="k")


@pytest.mark.parametrize("key", ["5", 5.0, np.float64(5), True, np.bool_(True), b"5", None, np.timedelta64(5, "D")])
def test_keys_of_another_type_are_refused(numbered: hg.pir.Database, key: Any) -> None:
    """The client and remove() refuse keys of another type; they do not treat them as not found. Any class of integers is
    accepted.

    """
    db = numbered
    with pytest.raises(
        hg.DtypeError, match=f"of type {type(key).__name__}: the keys of this table, column id, are whole numbers"
    ):
        db.client().ask(key)
    with pytest.raises(hg.DtypeError, match="column id, are whole numbers"):
        db.remove([key])
    assert db.client().get(np.uint8(5), db.answer)["name"] == "five"
    assert db.client().get(7, db.answer) is None


@pytest.mark.parametrize(
    ("values", "dtype"), [([2**64 - 1, 0], np.uint64), ([2**63 - 1, -(2**63)], np.int64), ([np.uint64(2**63), 1], np.uint64)]
)
def test_whole_numbers_of_a_list_stay_whole(values: list[int], dtype: Any) -> None:
    """Integers in a list remain integers, although NumPy converts some lists to floats."""
    db = hg.pir.Database({"k": ["a", "b"], "v": values, "w": np.array(values, object)}, key="k")
    rows = [db.client().get(key, db.answer) for key in ("a", "b")]
    for column in ("v", "w"):
        found = [row[column] for row in rows]
        assert found == values
        assert all(type(v) is int for v in found)
        assert np.dtype(db.client()._records.field(column).dtype) == dtype


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ([2**63, -1], "need more than 64 bits"),
        ([2**64, 0], "need more than 64 bits"),
        ([2**53 + 1, 0.5], "mixes 9007199254740993 with real numbers"),
        ([True, 2], "all of one kind"),
        ([np.timedelta64(1, "D"), 2], "all of one kind"),
        ([np.datetime64("2026-01-01"), np.timedelta64(1, "D")], "all of one kind"),
        (np.ma.array([1, 2], mask=[False, True]), "masked values"),
        ([1, np.ma.masked], "masked values"),
    ],
)
def test_values_that_would_change_are_refused(lettered: hg.pir.Database, values: Any, match: str) -> None:
    """A value that would be changed by storing it is refused, both in a new table and in an update."""
    with pytest.raises(hg.DtypeError, match=match):
        hg.pir.Database({"k": ["a", "b"], "v": values}, key="k")
    with pytest.raises(hg.DtypeError, match=match):
        lettered.update({"k": ["a", "b"], "v": values})


def test_nulls_of_pandas_are_refused() -> None:
    """NULLs of pandas' own types and of NumPy's types are refused. Without NULLs, integers remain integers."""
    pd = pytest.importorskip("pandas")
    for column in (
        pd.Series([1, None]),
        pd.Series([1, None], dtype="Int64"),
        pd.Series(["a", None]),
        pd.Series([pd.NaT, pd.NaT]),
    ):
        for frame in ({"k": ["a", "b"], "v": column}, pd.DataFrame({"k": ["a", "b"], "v": column})):
            with pytest.raises(hg.DtypeError, match="column v has NULLs"):
                hg.pir.Database(frame, key="k")
    frame = pd.DataFrame({"k": ["a", "b"], "v": pd.Series([2**60 + 1, 3], dtype="Int64")})
    assert asked(frame, "a") == {"k": "a", "v": 2**60 + 1}


@pytest.mark.parametrize(
    "dtype", ["f8,(", "f8,", "(2,)f8", "O", "<U4", "{}", "f8" * 400, "<c16", "|V0", "|V99999", "<M8[1/0s]", "é", 5, None]
)
def test_column_types_in_files_are_restricted(lettered: hg.pir.Database, dtype: Any) -> None:
    """Column types in files must be in a list of known texts, because NumPy evaluates some texts of types as Python code."""
    data = lettered.client().to_bytes()
    assert hg.pir.LookupClient.from_bytes(resign.signed(resign.take_apart(data)))
    file = resign.take_apart(data)
    (column,) = (one for one in file.header["fields"] if one["name"] == "v")
    column["dtype"] = dtype
    with pytest.raises(hg.DamagedFileError):
        hg.pir.LookupClient.from_bytes(resign.signed(file))


def test_keys_of_another_length_are_refused() -> None:
    """In a key column of bytes, all keys have the same length; a query of another length is refused."""
    db = hg.pir.Database({"k": np.array([b"abcd", b"a"]), "v": [1, 2]}, key="k")
    assert db.client().get(b"a\0\0\0", db.answer)["v"] == 2
    with pytest.raises(hg.DtypeError, match="keys of this table have 4 bytes, got 1"):
        db.client().ask(b"a")


def test_arrow_columns_are_accepted() -> None:
    """Arrow columns are accepted. Columns with NULLs are refused, because their integers would become floats."""
    pa = pytest.importorskip("pyarrow")
    day = datetime.date(2026, 2, 28)
    table = pa.table({"k": ["a", "b"], "day": [day, day], "v": pa.array([2**60 + 1, 2], pa.int64())})
    assert asked(table, "a") == {"k": "a", "day": np.datetime64(day), "v": 2**60 + 1}
    assert asked({"k": ["a"], "day": [day]}, "a")["day"] == np.datetime64(day)
    with pytest.raises(hg.DtypeError, match="column v has NULLs"):
        hg.pir.Database(pa.table({"k": ["a", "b"], "v": [1, None]}), key="k")


def test_updates_fit_by_value() -> None:
    """An update accepts columns in any order and integers of any type that fit; other columns and values are refused."""
    frame = {"k": ["a", "b"], "small": np.array([1, 2], np.int8), "real": [0.5, float("nan")]}
    db = hg.pir.Database(frame, key="k")
    client = db.client()
    db.update({"real": [float("nan"), 3], "small": [127, -128], "k": ["b", "c"]})
    assert client.get("c", db.answer) == {"k": "c", "small": -128, "real": 3.0}
    assert np.isnan(client.get("b", db.answer)["real"])
    for wrong in (
        {"k": ["a"], "small": [128], "real": [0.0]},
        {"k": ["a"], "small": [1.0], "real": [0.0]},
        {"k": ["a"], "small": [1], "real": [2**53 + 1]},
        {"k": ["ab"], "small": [1], "real": [0.0]},
    ):
        with pytest.raises(hg.DtypeError, match="do not fit"):
            db.update(wrong)
    for keys in ("ab", 5):
        with pytest.raises(hg.DtypeError, match="must be a list"):
            db.remove(keys)
    with pytest.raises(hg.ShapeError, match="rows="):
        hg.pir.Database(np.zeros((4, 8), np.uint8)).update(np.zeros((1, 8), np.uint8), rows=0)  # type: ignore[arg-type]
    assert client.get("a", db.answer)["small"] == 1


def test_clients_of_an_emptied_table_miss() -> None:
    """After all rows are removed, the client's file states 0 rows, and queries find nothing. Rows that are added later are
    found.

    """
    db = hg.pir.Database({"k": ["a"], "v": [1]}, key="k")
    db.remove(["a"])
    client = hg.pir.LookupClient.from_bytes(db.client().to_bytes())
    assert (len(db), client.get("a", db.answer)) == (0, None)
    db.update({"k": ["b"], "v": [2]})
    assert client.get("b", db.answer) == {"k": "b", "v": 2}


def test_an_update_of_a_full_table_changes_nothing() -> None:
    """If there is not enough room, an update changes nothing, and no moved key is lost."""
    count, width = 800, 1500  # the table has one slot in each of 2,048 buckets
    rng = np.random.default_rng(5)
    frame = {"k": np.arange(count), "v": np.frombuffer(rng.bytes(count * width), f"V{width}")}
    db = hg.pir.Database(frame, key="k")
    client, before = db.client(), db._matrix.copy()
    assert db._shape.slots == 1
    many = {"k": np.arange(10_000, 11_240), "v": np.frombuffer(rng.bytes(1240 * width), f"V{width}")}
    with pytest.raises(hg.ParameterError, match="full"):
        db.update(many)
    assert len(db) == count
    assert np.array_equal(db._matrix, before)
    db.update({"k": [3], "v": frame["v"][:1]})
    for key, row in ((3, 0), (4, 4), (799, 799)):
        assert client.get(key, db.answer)["v"] == frame["v"][row].tobytes()
    assert client.get(10_000, db.answer) is None


def interrupted_after(lines: int, work: Callable[[], None]) -> bool:
    """Runs `work` and raises KeyboardInterrupt in it before a line of code. The lines are counted over the files of
    look-ups. Returns whether `work` was interrupted.

    """
    seen = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal seen
        if "/heliograph/pir/" not in frame.f_code.co_filename:
            return None
        seen += event == "line"
        if seen == lines:
            seen += 1
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupted_update_can_be_repeated() -> None:
    """If an update is interrupted before any line, each row is the old or the new row. Repeating the update makes all rows
    new.

    """
    rows = np.random.default_rng(1).integers(0, 256, (50_000, 64), dtype=np.uint8)
    db = hg.pir.Database(rows)
    client, number, lines = db.client(), 10, 1

    def update(place: int) -> None:
        db.update(rows[place : place + 1] ^ 255, rows=[place])

    while interrupted_after(lines, functools.partial(update, number)):
        found = client.get(number, db.answer)
        assert found in (rows[number].tobytes(), (rows[number] ^ 255).tobytes())
        assert client.get(number + 100, db.answer) == rows[number + 100].tobytes()
        update(number)
        assert client.get(number, db.answer) == (rows[number] ^ 255).tobytes()
        number, lines = number + 1, 1 + lines * 3 // 2
    assert number > 14
    assert client.get(number, db.answer) == (rows[number] ^ 255).tobytes()


def test_an_update_interrupted_in_the_engine_can_be_repeated() -> None:
    """If a signal ends the engine's part of an update, the next answer has the old row or the new row."""
    rows = np.random.default_rng(1).integers(0, 256, (50_000, 64), dtype=np.uint8)
    db = hg.pir.Database(rows)
    client, stopped, number = db.client(), 0, 10

    def end(_: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code.co_name == "_send":  # the engine's step is the only long step of this call
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, end)
    try:
        while stopped < 3:
            signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
            try:
                db.update(rows[number : number + 1] ^ 255, rows=[number])
            except KeyboardInterrupt:
                stopped += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            found = client.get(number, db.answer)
            assert found in (rows[number].tobytes(), (rows[number] ^ 255).tobytes())
            assert client.get(number + 100, db.answer) == rows[number + 100].tobytes()
            db.update(rows[number : number + 1] ^ 255, rows=[number])
            assert client.get(number, db.answer) == (rows[number] ^ 255).tobytes()
            number += 1
    finally:
        signal.signal(signal.SIGALRM, before)


def test_older_clients_never_get_another_row() -> None:
    """Files and queries that were made before an update return the current row or a miss, never another row."""
    count = 2000
    db = hg.pir.Database({"k": np.arange(count), "v": np.arange(count) * 7}, key="k")
    old = db.client().to_bytes()
    client = hg.pir.LookupClient.from_bytes(old)
    questions = {key: client.ask(key) for key in (0, 1, 2, 1999, 5000)}
    db.update({"k": np.arange(1, count, 2), "v": -np.arange(1, count, 2)})
    db.remove([0])
    db.update({"k": np.arange(5000, 5600), "v": np.arange(600)})
    found = {key: question.read(db.answer(question.to_bytes())) for key, question in questions.items()}
    assert {key: row and row["v"] for key, row in found.items()} == {0: None, 1: -1, 2: 14, 1999: -1999, 5000: 0}
    assert len(db) == count + 599


def test_invalid_queries_are_refused() -> None:
    """Queries of another shape, word type or table, or with invalid residues, are refused. The table keeps working."""
    db = hg.pir.Database({"k": ["a", "b"], "v": [1, 2]}, key="k")
    client = db.client()
    question = client.ask("a")
    arrays = dict(container.from_bytes(question.to_bytes()).arrays)
    header = {"table": db._seed.hex()}

    def sent(**changed: Any) -> bytes:
        return container.to_bytes("heliograph.query.lookup-question", header, {**arrays, **changed})

    words, keys = arrays["words"], arrays["keys"]
    for changed in (
        {"words": words[:1]},
        {"words": words[:, :-1].copy()},
        {"words": words.astype(np.uint64)},
        {"words": np.zeros((0, 0), np.uint32)},
        {"keys": keys[:, 1:].copy()},
        {"keys": np.concatenate([keys, keys])},
        {"keys": np.full_like(keys, 2**64 - 1)},
    ):
        with pytest.raises(hg.DamagedFileError):
            db.answer(sent(**changed))
    with pytest.raises(hg.DamagedFileError):
        db.answer(container.to_bytes("heliograph.query.lookup-question", header, {"words": words}))
    with pytest.raises(hg.MismatchError):
        db.answer(container.to_bytes("heliograph.query.lookup-question", {}, arrays))
    for junk in (b"", b"x" * 5000, None, 5):
        with pytest.raises(hg.HeliographError):
            db.answer(junk)  # type: ignore[arg-type]
    assert question.read(db.answer(sent()))["v"] == 1


def test_invalid_answers_are_refused() -> None:
    """An error is raised for answers of another size, and for words that noise cannot explain."""
    rows = np.random.default_rng(2).integers(0, 256, (3000, 16), dtype=np.uint8)
    db = hg.pir.Database(rows)
    question = db.client().ask(7)
    arrays = dict(container.from_bytes(db.answer(question.to_bytes())).arrays)

    def answer(**changed: Any) -> bytes:
        return container.to_bytes("heliograph.query.lookup-answer", {"table": db._seed.hex()}, {**arrays, **changed})

    bodies, masks = arrays["bodies"], arrays["masks"]
    for changed in (
        {"bodies": bodies[:, :-2].copy()},
        {"bodies": np.concatenate([bodies, bodies])},
        {"bodies": bodies.astype(np.uint32)},
        {"masks": masks[:-1].copy()},
        {"masks": np.zeros(0, np.uint8)},
    ):
        with pytest.raises(hg.DamagedFileError, match="not those of its table"):
            question.read(answer(**changed))
    for changed in ({"bodies": np.zeros_like(bodies)}, {"masks": masks[::-1].copy()}, {"bodies": bodies ^ 128}):
        with pytest.raises(hg.WrongKeyError):
            question.read(answer(**changed))
    assert question.read(answer()) == rows[7].tobytes()


@pytest.mark.parametrize("dtype", ["object", "O", "<i8,<i8", "(2,)<i4", "nothing", "<c16"])
def test_invalid_client_files_are_refused(dtype: str) -> None:
    """A client file whose column type is not supported is damaged."""
    db = hg.pir.Database({"k": ["a"], "v": [1]}, key="k")
    found = container.from_bytes(db.client().to_bytes())
    found.header["fields"][1]["dtype"] = dtype
    with pytest.raises(hg.DamagedFileError):
        hg.pir.LookupClient.from_bytes(container.to_bytes(found.type, found.header, {}))
    found.header["fields"][1] |= {"dtype": "<i8", "text": True}
    with pytest.raises(hg.DamagedFileError):
        hg.pir.LookupClient.from_bytes(container.to_bytes(found.type, found.header, {}))


@pytest.mark.full
def test_a_million_rows() -> None:
    """Look-ups in a million rows, by number and by key, find the rows and report keys that do not exist."""
    count = 1_000_000
    values = np.random.default_rng(4).integers(0, 2**63, count)
    rows = values.view(np.uint8).reshape(count, 8)
    db = hg.pir.Database(rows)
    assert all(db.client().get(i, db.answer) == rows[i].tobytes() for i in (0, 654_321, count - 1))
    db = hg.pir.Database({"k": np.arange(count) * 3, "v": values}, key="k")
    client = db.client()
    assert all(client.get(3 * i, db.answer)["v"] == values[i] for i in (0, 654_321, count - 1))
    assert client.get(4, db.answer) is None


def test_two_columns_of_one_name() -> None:
    """Data frames allow duplicate column names. Look-ups and encrypted tables refuse duplicate column names, and the error
    has the name.
    """
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    several = [
        pandas.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]),
        pyarrow.table([pyarrow.array([1, 3]), pyarrow.array([2, 4])], names=["a", "a"]),
    ]
    for frame in several:
        with pytest.raises(hg.ParameterError, match=r"two columns called 'a'; rename one"):
            hg.pir.Database(frame)
        with pytest.raises(hg.ParameterError, match=r"two columns called 'a'; rename one"):
            hg.sql.layout(frame, sums=["a"])
    with pytest.raises(hg.ParameterError, match=r"two columns called '1'"):  # look-ups convert the names of columns to texts
        hg.pir.Database(pandas.DataFrame([[1, 2], [3, 4]], columns=[1, "1"]))


def test_a_repeated_key_in_an_update_is_refused() -> None:
    """If a key occurs twice in an update, the update is refused, as in a new table, and nothing changes."""
    db = hg.pir.Database({"k": ["a", "b"], "v": [1, 2]}, key="k")
    with pytest.raises(hg.ParameterError, match="column k has a key twice"):
        db.update({"k": ["a", "a"], "v": [7, 9]})
    assert db.client().get("a", db.answer)["v"] == 1
    rows = hg.pir.Database(np.zeros((5, 3), np.uint8))
    with pytest.raises(hg.ParameterError, match="rows= names a row twice"):
        rows.update(np.ones((2, 3), np.uint8), rows=[4, np.int64(4)])
    assert rows.client().get(4, rows.answer) == bytes(3)


def test_through_must_be_a_function() -> None:
    """The `through` argument must be a function; otherwise the error states the given value."""
    client = hg.pir.Database({"k": ["a", "b"], "v": [1, 2]}, key="k").client()
    with pytest.raises(hg.DtypeError, match="through must be a function from bytes to bytes, got None"):
        client.get("a", None)  # type: ignore[arg-type]


def test_numbers_beyond_a_column() -> None:
    """The error states the range of the column and the given number."""
    with pytest.raises(hg.DtypeError, match=r"a, row 1: -9223372036854775808 is not between -9,007,199,254,740,992 and"):
        hg.sql.layout({"a": np.array([1, -(2**63)])}, filters=["a"])
    for far in (-(2**53) - 1, 2**53 + 1):
        with pytest.raises(hg.DtypeError, match="is not between"):
            hg.sql.layout({"a": np.array([1, far])}, filters=["a"])
    assert hg.sql.layout({"a": np.array([2**53, -(2**53)])}, sums=["a"]).rows == 2
    with pytest.raises(hg.DtypeError, match=r"between -90,071,992,547,409\.92 and"):
        hg.sql.Column("decimal", places=2).exact(10**15, "a price")


def test_texts_that_utf8_cannot_hold_are_refused() -> None:
    """Unpaired surrogates in names or values are refused before anything is encrypted or written."""
    for make in (
        lambda: hg.pir.Database({"\ud800": ["x", "y"]}),
        lambda: hg.sql.layout({"\ud800": [1, 2]}, sums=[]),
        lambda: hg.sql.layout({"a": ["\ud800", "y"]}, filters=["a"]),
    ):
        with pytest.raises(hg.DtypeError, match="cannot be written in UTF-8"):
            make()
