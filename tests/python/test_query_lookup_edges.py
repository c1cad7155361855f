"""Private look-up at its edges: keys and values of all kinds, full tables, interruptions, old clients, and sides that lie."""

from __future__ import annotations

import datetime
import signal
import time
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import resign
from heliograph import _container


def asked(frame: dict[str, Any], key: Any) -> Any:
    """The row of a key, by column k."""
    db = hg.query.Database(frame, key="k")
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
def test_keys_come_back_as_they_were_asked_for(keys: Any, place: int) -> None:
    """Of every kind; zeros at the end of bytes are part of a key."""
    key = keys[place]
    assert asked({"k": keys, "v": [10, 11, 12][: len(keys)]}, key) == {"k": key, "v": 10 + place}


def test_bytes_of_numpy_keep_their_zeros() -> None:
    """An internet address whose last byte is 0, which NumPy shows without it."""
    addresses = np.array([b"\x0a\0\0\1", b"\x0a\0\0\0"])
    assert asked({"k": addresses, "v": [1, 2]}, b"\x0a\0\0\0") == {"k": b"\x0a\0\0\0", "v": 2}


@pytest.mark.parametrize(
    ("frame", "match"),
    [
        ({"k": ["a", None], "v": [1, 2]}, "column k has None"),
        ({"k": [1, None], "v": [1, 2]}, "column k has None"),
        ({"k": ["a", b"b"], "v": [1, 2]}, "column k has b'b'"),
        ({"k": ["a", 1], "v": [1, 2]}, "column k has 1"),
        ({"k": ["a", "b"], "v": [b"long", b"s"]}, "bytes of 1 to 4"),
        ({"k": ["a"], "v": [2**70]}, "more than 64 bits"),
        ({"k": ["a\0"], "v": [1]}, "ends in a zero"),
        ({"k": ["\ud800"], "v": [1]}, "UTF-8"),
        ({"k": ["a"], "v": [[1, 2]]}, r"column v has \[1, 2\]"),
        ({"k": "a", "v": [1]}, "column k is no row"),
        ({"k": [1.5], "v": [1]}, r"keys are .* not 1\.5"),
        ({"k": [True], "v": [1]}, "keys are"),
        ({"k": ["a"], 5: [1]}, "named by texts"),
        ({"k": ["a"], "": [1]}, "named by texts"),
    ],
)
def test_values_that_a_row_does_not_keep(frame: Any, match: str) -> None:
    """Are refused; nothing is made of something else in silence."""
    with pytest.raises(hg.DtypeError, match=match):
        hg.query.Database(frame, key="k")


@pytest.mark.parametrize("key", ["5", 5.0, np.float64(5), True, np.bool_(True), b"5", None, np.timedelta64(5, "D")])
def test_keys_of_another_type_are_refused(key: Any) -> None:
    """Where "not there" would be wrong: by the client, and by the table that removes rows. Integers of any class are keys."""
    db = hg.query.Database({"id": [5, 6], "name": ["five", "six"]}, key="id")
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
    """NumPy makes floats of some."""
    for frame in (values, np.array(values, object)):
        db = hg.query.Database({"k": ["a", "b"], "v": frame}, key="k")
        found = [db.client().get(key, db.answer)["v"] for key in ("a", "b")]
        assert found == values
        assert all(type(v) is int for v in found)
        assert np.dtype(db.client()._records.field("v").dtype) == dtype


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ([2**63, -1], "take more than 64 bits"),
        ([2**64, 0], "take more than 64 bits"),
        ([2**53 + 1, 0.5], "9007199254740993 stands beside real numbers"),
        ([True, 2], "all of one kind"),
        ([np.timedelta64(1, "D"), 2], "all of one kind"),
        ([np.datetime64("2026-01-01"), np.timedelta64(1, "D")], "all of one kind"),
        (np.ma.array([1, 2], mask=[False, True]), "masked values"),
        ([1, np.ma.masked], "masked values"),
    ],
)
def test_values_that_would_become_others(values: Any, match: str) -> None:
    """Are refused, in a new table and in an update."""
    with pytest.raises(hg.DtypeError, match=match):
        hg.query.Database({"k": ["a", "b"], "v": values}, key="k")
    db = hg.query.Database({"k": ["a", "b"], "v": [1, 2]}, key="k")
    with pytest.raises(hg.DtypeError, match=match):
        db.update({"k": ["a", "b"], "v": values})


def test_nulls_of_pandas_are_refused() -> None:
    """Of its own types and of NumPy's; without them, integers stay integers."""
    pd = pytest.importorskip("pandas")
    for column in (
        pd.Series([1, None]),
        pd.Series([1, None], dtype="Int64"),
        pd.Series(["a", None]),
        pd.Series([pd.NaT, pd.NaT]),
    ):
        for frame in ({"k": ["a", "b"], "v": column}, pd.DataFrame({"k": ["a", "b"], "v": column})):
            with pytest.raises(hg.DtypeError, match="column v has NULLs"):
                hg.query.Database(frame, key="k")
    frame = pd.DataFrame({"k": ["a", "b"], "v": pd.Series([2**60 + 1, 3], dtype="Int64")})
    assert asked(frame, "a") == {"k": "a", "v": 2**60 + 1}


@pytest.mark.parametrize(
    "dtype", ["f8,(", "f8,", "(2,)f8", "O", "<U4", "{}", "f8" * 400, "<c16", "|V0", "|V99999", "<M8[1/0s]", "é", 5, None]
)
def test_types_of_a_forged_file(dtype: Any) -> None:
    """A file's types of columns are texts of a list: NumPy reads others as Python."""
    file = resign.take_apart(hg.query.Database({"v": np.arange(5)}).client().to_bytes())
    file.header["fields"][0]["dtype"] = dtype
    with pytest.raises(hg.DamagedFileError):
        hg.query.LookupClient.from_bytes(resign.signed(file))


def test_bytes_of_another_length_are_no_key() -> None:
    """Bytes are of one length in a column; a question of another says so."""
    db = hg.query.Database({"k": np.array([b"abcd", b"a"]), "v": [1, 2]}, key="k")
    assert db.client().get(b"a\0\0\0", db.answer)["v"] == 2
    with pytest.raises(hg.DtypeError, match="keys of this table have 4 bytes, not 1"):
        db.client().ask(b"a")


def test_arrow_and_days() -> None:
    """Columns of Arrow; one with NULLs is refused, as its integers would become real numbers."""
    pa = pytest.importorskip("pyarrow")
    day = datetime.date(2026, 2, 28)
    table = pa.table({"k": ["a", "b"], "day": [day, day], "v": pa.array([2**60 + 1, 2], pa.int64())})
    assert asked(table, "a") == {"k": "a", "day": np.datetime64(day), "v": 2**60 + 1}
    assert asked({"k": ["a"], "day": [day]}, "a")["day"] == np.datetime64(day)
    with pytest.raises(hg.DtypeError, match="column v has NULLs"):
        hg.query.Database(pa.table({"k": ["a", "b"], "v": [1, None]}), key="k")


def test_updates_fit_by_value() -> None:
    """Columns in any order, whole numbers of any type that fit, no number that does not."""
    frame = {"k": ["a", "b"], "small": np.array([1, 2], np.int8), "real": [0.5, float("nan")]}
    db = hg.query.Database(frame, key="k")
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
        with pytest.raises(hg.DtypeError, match="are a list"):
            db.remove(keys)
    with pytest.raises(hg.ShapeError, match="rows="):
        hg.query.Database(np.zeros((4, 8), np.uint8)).update(np.zeros((1, 8), np.uint8), rows=0)  # type: ignore[arg-type]
    assert client.get("a", db.answer)["small"] == 1


def test_an_emptied_table_has_clients() -> None:
    """Everything removed, the client's file says 0 rows and misses; what is added then is found."""
    db = hg.query.Database({"k": ["a"], "v": [1]}, key="k")
    db.remove(["a"])
    client = hg.query.LookupClient.from_bytes(db.client().to_bytes())
    assert (len(db), client.get("a", db.answer)) == (0, None)
    db.update({"k": ["b"], "v": [2]})
    assert client.get("b", db.answer) == {"k": "b", "v": 2}


def test_a_full_table_stays_as_it_was() -> None:
    """An update for which there is no room leaves nothing behind, and no key that it moved on its way is lost."""
    count, width = 800, 1500  # one slot for each of 2,048 buckets
    rng = np.random.default_rng(5)
    frame = {"k": np.arange(count), "v": np.frombuffer(rng.bytes(count * width), f"V{width}")}
    db = hg.query.Database(frame, key="k")
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


def test_an_interrupted_update_is_done_later() -> None:
    """At whatever moment it is interrupted: rows are the old or the new ones then, and the new ones once it is repeated."""
    rows = np.random.default_rng(1).integers(0, 256, (50_000, 64), dtype=np.uint8)
    db = hg.query.Database(rows)
    client, stopped = db.client(), 0
    start = time.perf_counter()
    db.update(rows[:1], rows=[1])
    taken = time.perf_counter() - start
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for number in range(10, 16):
            signal.setitimer(signal.ITIMER_REAL, taken * (number - 9) / 8)
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
    finally:
        signal.signal(signal.SIGALRM, before)
    assert stopped


def test_clients_older_than_the_table() -> None:
    """Files and questions from before updates read what there is now, or a miss: never another row."""
    count = 2000
    db = hg.query.Database({"k": np.arange(count), "v": np.arange(count) * 7}, key="k")
    old = db.client().to_bytes()
    client = hg.query.LookupClient.from_bytes(old)
    questions = {key: client.ask(key) for key in (0, 1, 2, 1999, 5000)}
    db.update({"k": np.arange(1, count, 2), "v": -np.arange(1, count, 2)})
    db.remove([0])
    db.update({"k": np.arange(5000, 5600), "v": np.arange(600)})
    found = {key: question.read(db.answer(question.to_bytes())) for key, question in questions.items()}
    assert {key: row and row["v"] for key, row in found.items()} == {0: None, 1: -1, 2: 14, 1999: -1999, 5000: 0}
    assert len(db) == count + 599


def test_questions_that_lie() -> None:
    """Of another shape or kind of words, with residues that are none, to another table: refused, and the table goes on."""
    db = hg.query.Database({"k": ["a", "b"], "v": [1, 2]}, key="k")
    client = db.client()
    question = client.ask("a")
    arrays = dict(_container.from_bytes(question.to_bytes()).arrays)
    header = {"table": db._seed.hex()}

    def sent(**changed: Any) -> bytes:
        return _container.to_bytes("heliograph.query.lookup-question", header, {**arrays, **changed})

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
        db.answer(_container.to_bytes("heliograph.query.lookup-question", header, {"words": words}))
    with pytest.raises(hg.MismatchError):
        db.answer(_container.to_bytes("heliograph.query.lookup-question", {}, arrays))
    for junk in (b"", b"x" * 5000, None, 5):
        with pytest.raises(hg.HeliographError):
            db.answer(junk)  # type: ignore[arg-type]
    assert question.read(db.answer(sent()))["v"] == 1


def test_answers_that_lie() -> None:
    """Of another size, or of words that no noise explains: an error, never a row."""
    rows = np.random.default_rng(2).integers(0, 256, (3000, 16), dtype=np.uint8)
    db = hg.query.Database(rows)
    question = db.client().ask(7)
    arrays = dict(_container.from_bytes(db.answer(question.to_bytes())).arrays)

    def answer(**changed: Any) -> bytes:
        return _container.to_bytes("heliograph.query.lookup-answer", {"table": db._seed.hex()}, {**arrays, **changed})

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
def test_client_files_that_lie(dtype: str) -> None:
    """A column's type is one that a row has, or the file is damaged."""
    db = hg.query.Database({"k": ["a"], "v": [1]}, key="k")
    found = _container.from_bytes(db.client().to_bytes())
    found.header["fields"][1]["dtype"] = dtype
    with pytest.raises(hg.DamagedFileError):
        hg.query.LookupClient.from_bytes(_container.to_bytes(found.type, found.header, {}))
    found.header["fields"][1] |= {"dtype": "<i8", "text": True}
    with pytest.raises(hg.DamagedFileError):
        hg.query.LookupClient.from_bytes(_container.to_bytes(found.type, found.header, {}))


@pytest.mark.full
def test_a_million_rows() -> None:
    """By number and by key; misses beside them."""
    count = 1_000_000
    values = np.random.default_rng(4).integers(0, 2**63, count)
    rows = values.view(np.uint8).reshape(count, 8)
    db = hg.query.Database(rows)
    assert all(db.client().get(i, db.answer) == rows[i].tobytes() for i in (0, 654_321, count - 1))
    db = hg.query.Database({"k": np.arange(count) * 3, "v": values}, key="k")
    client = db.client()
    assert all(client.get(3 * i, db.answer)["v"] == values[i] for i in (0, 654_321, count - 1))
    assert client.get(4, db.answer) is None


def test_two_columns_of_one_name() -> None:
    """A data frame may have them, and which is meant nobody can say: refused by name, for look-ups and encrypted tables."""
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    several = [
        pandas.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]),
        pyarrow.table([pyarrow.array([1, 3]), pyarrow.array([2, 4])], names=["a", "a"]),
    ]
    for frame in several:
        with pytest.raises(hg.ParameterError, match=r"two columns called 'a': rename one"):
            hg.query.Database(frame)
        with pytest.raises(hg.ParameterError, match=r"two columns called 'a': rename one"):
            hg.query.layout(frame, sums=["a"])
    with pytest.raises(hg.ParameterError, match=r"two columns called '1'"):  # names of look-ups are texts
        hg.query.Database(pandas.DataFrame([[1, 2], [3, 4]], columns=[1, "1"]))


def test_a_row_named_twice_in_an_update() -> None:
    """As in a table that is made: refused, and nothing was changed."""
    db = hg.query.Database({"k": ["a", "b"], "v": [1, 2]}, key="k")
    with pytest.raises(hg.ParameterError, match="column k has a key twice"):
        db.update({"k": ["a", "a"], "v": [7, 9]})
    assert db.client().get("a", db.answer)["v"] == 1
    rows = hg.query.Database(np.zeros((5, 3), np.uint8))
    with pytest.raises(hg.ParameterError, match="rows= names a row twice"):
        rows.update(np.ones((2, 3), np.uint8), rows=[4, np.int64(4)])
    assert rows.client().get(4, rows.answer) == bytes(3)


def test_what_a_question_goes_through() -> None:
    """A function, or it is said what was given."""
    client = hg.query.Database({"k": ["a", "b"], "v": [1, 2]}, key="k").client()
    with pytest.raises(hg.DtypeError, match="through is a function from bytes to bytes, not None"):
        client.get("a", None)  # type: ignore[arg-type]


def test_numbers_beyond_a_column() -> None:
    """The range is told, and the number as it was written."""
    with pytest.raises(hg.DtypeError, match=r"a, row 1: -9223372036854775808 is not between -9,007,199,254,740,992 and"):
        hg.query.layout({"a": np.array([1, -(2**63)])}, filters=["a"])
    for far in (-(2**53) - 1, 2**53 + 1):
        with pytest.raises(hg.DtypeError, match="is not between"):
            hg.query.layout({"a": np.array([1, far])}, filters=["a"])
    assert hg.query.layout({"a": np.array([2**53, -(2**53)])}, sums=["a"]).rows == 2
    with pytest.raises(hg.DtypeError, match=r"between -90,071,992,547,409\.92 and"):
        hg.query.Column("decimal", places=2).exact(10**15, "a price")


def test_texts_that_no_file_holds() -> None:
    """Half of a surrogate pair, in a name or a value, is refused before anything is encrypted or written."""
    for make in (
        lambda: hg.query.Database({"\ud800": ["x", "y"]}),
        lambda: hg.query.layout({"\ud800": [1, 2]}, sums=[]),
        lambda: hg.query.layout({"a": ["\ud800", "y"]}, filters=["a"]),
    ):
        with pytest.raises(hg.DtypeError, match="UTF-8 cannot write"):
            make()
