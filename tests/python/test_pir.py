"""Tests private look-up: rows by number and by key, keys that are not found, batches, updates, errors."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import heliograph as hg
from heliograph.pir.records import hashed


def signed(data: bytes) -> bytes:
    """Returns a container with a matching digest."""
    return data[:-32] + hashlib.sha256(data[:-32]).digest()


@pytest.fixture(scope="module")
def phones() -> tuple[dict[str, list[object]], hg.pir.Database]:
    """Returns a table by key with columns of several kinds."""
    count = 3000
    frame: dict[str, list[object]] = {
        "phone": [f"+41 {i:05d}" for i in range(count)],
        "name": [f"Zoë {i}" * (1 + i % 3) for i in range(count)],
        "balance": [i * 10**9 - 7 for i in range(count)],
        "open": [i % 3 == 0 for i in range(count)],
    }
    return frame, hg.pir.Database(frame, key="phone")


def test_rows_are_found_by_key_and_misses_give_none(phones: tuple[dict[str, list[object]], hg.pir.Database]) -> None:
    """Every value is returned with its type; for a missing key the result is None."""
    frame, db = phones
    client = db.client()
    for i in (0, 1, 1234, 2999):
        assert client.get(f"+41 {i:05d}", db.answer) == {name: values[i] for name, values in frame.items()}
    for miss in ("+41 03000", "+41 0000", "", "ü"):
        assert client.get(miss, db.answer) is None
    for key in (41, 1.5, b"+41 00001", True, None):
        with pytest.raises(hg.DtypeError, match=r"cannot look up .* column phone, are texts"):
            client.ask(key)
    assert db.log2_failure < -40


def test_a_batch_has_the_answers_of_single_queries(phones: tuple[dict[str, list[object]], hg.pir.Database]) -> None:
    """A batch of queries, some of which miss, is answered in one pass. A client cannot read the answer of another client."""
    frame, db = phones
    client = db.client()
    keys = [f"+41 {i:05d}" for i in (5, 77, 5, 9999, 2048)]
    questions = [client.ask(key) for key in keys]
    answers = db.answers(question.to_bytes() for question in questions)
    names = [row and row["name"] for row in (q.read(a) for q, a in zip(questions, answers, strict=True))]
    assert names == [frame["name"][5], frame["name"][77], frame["name"][5], None, frame["name"][2048]]
    with pytest.raises(hg.WrongKeyError, match="another question"):
        questions[0].read(answers[1])
    assert db.answers([]) == []


def test_queries_do_not_depend_on_the_row(phones: tuple[dict[str, list[object]], hg.pir.Database]) -> None:
    """Two queries for the same row have as few equal words as two random queries. All queries have the same length."""
    _, db = phones
    client = db.client()
    a, b = (client.ask("+41 00001")._queries[0] for _ in range(2))
    assert (a.words == b.words).sum() < 3
    assert (a.keys == b.keys).sum() < 3
    assert len(client.ask("+41 00002").to_bytes()) == len(client.ask("no such key").to_bytes())


def test_updates_keep_existing_clients_working(phones: tuple[dict[str, list[object]], hg.pir.Database]) -> None:
    """Rows are replaced, added and removed. Keys move if their buckets are full, and existing clients keep working."""
    frame, _ = phones
    db = hg.pir.Database({name: values[:500] for name, values in frame.items()}, key="phone")
    client = hg.pir.LookupClient.from_bytes(db.client().to_bytes())
    db.update({"phone": ["+41 00007", "+1"], "name": ["Ada", "Ida"], "balance": [-1, 2], "open": [True, False]})
    assert client.get("+41 00007", db.answer) == {"phone": "+41 00007", "name": "Ada", "balance": -1, "open": True}
    assert client.get("+1", db.answer)["name"] == "Ida"
    assert client.get("+41 00008", db.answer)["name"] == frame["name"][8]
    assert len(db) == 501
    db.remove(["+41 00008", "+1"])
    assert client.get("+1", db.answer) is None
    assert client.get("+41 00008", db.answer) is None
    assert client.get("+41 00009", db.answer)["name"] == frame["name"][9]
    with pytest.raises(hg.ShapeError, match="not in the table"):
        db.remove(["+1"])
    with pytest.raises(hg.DtypeError, match="do not fit"):
        db.update({"phone": ["+1"], "name": ["n" * 999], "balance": [0], "open": [True]})


@pytest.mark.parametrize(
    ("width", "count"), [(8, 70_000), (300, 5_000), (5_000, 5), pytest.param(65_536, 5, marks=pytest.mark.full)]
)
def test_rows_of_bytes_by_number(width: int, count: int) -> None:
    """Narrow rows share a row of the matrix, and wide rows have a row each. An update changes only the row that it concerns."""
    rows = np.random.default_rng(width).integers(0, 256, size=(count, width), dtype=np.uint8)
    db = hg.pir.Database(rows)
    client = db.client()
    for i in (0, count // 2, count - 1):
        assert client.get(i, db.answer) == rows[i].tobytes()
    new = np.full((2, width), 255, np.uint8)
    db.update(new, rows=[1, count - 1])
    assert client.get(1, db.answer) == new[0].tobytes()
    assert client.get(count - 1, db.answer) == new[0].tobytes()
    assert client.get(0, db.answer) == rows[0].tobytes()
    for wrong in (-1, count, "1", None):
        with pytest.raises(hg.ShapeError, match="number"):
            client.ask(wrong)


def test_full_buckets_move_keys() -> None:
    """In a table at its maximum load, all keys are found."""
    count = 11_000  # the table has 2 slots in each of 8,192 rows
    frame = {"id": np.arange(count) * 7, "data": np.frombuffer(np.random.default_rng(3).bytes(count * 900), "S900")}
    db = hg.pir.Database(frame, key="id")
    tags, places = hashed(frame["id"].tolist(), db._seed)
    assert all(db._find(tag, place) is not None for tag, place in zip(tags, places, strict=True))
    assert db.client().get(7 * 4321, db.answer)["data"] == frame["data"][4321].ljust(900, b"\0")


def test_refusals(phones: tuple[dict[str, list[object]], hg.pir.Database], tmp_path: Path) -> None:
    """Queries for another table, damaged bytes, bytes of another kind, and invalid tables are refused."""
    _, db = phones
    client = db.client()
    other = hg.pir.Database(np.zeros((4, 8), np.uint8))
    question = client.ask("+41 00001")
    sent = question.to_bytes()
    with pytest.raises(hg.MismatchError, match="another table"):
        other.answer(sent)
    with pytest.raises(hg.DamagedFileError):
        db.answer(sent[:-1] + bytes([sent[-1] ^ 1]))
    answer = bytearray(db.answer(sent))
    answer[2000] ^= 4
    with pytest.raises(hg.DamagedFileError):
        question.read(bytes(answer))
    with pytest.raises(hg.WrongKeyError):
        question.read(signed(bytes(answer[:1024]) + bytes(2048) + bytes(answer[3072:])))
    with pytest.raises(hg.FormatError, match="they must hold"):
        db.answer(bytes(db.answer(sent)))
    path = tmp_path / "client.hg"
    client.save(path)
    assert hg.pir.LookupClient.load(path).get("+41 00003", db.answer)["open"] is True
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(hg.DamagedFileError):
        hg.pir.LookupClient.load(path)
    for frame, error in (
        ({}, hg.ShapeError),
        ({"a": [1], "b": [1, 2]}, hg.ShapeError),
        ({"a": [None]}, hg.DtypeError),
        (5, hg.DtypeError),
    ):
        with pytest.raises(error):
            hg.pir.Database(frame)
    with pytest.raises(hg.ParameterError, match="twice"):
        hg.pir.Database({"a": [1, 1]}, key="a")
    with pytest.raises(hg.ParameterError, match="key="):
        hg.pir.Database({"a": [1]}, key="b")


PROGRAM = """
import hashlib, numpy as np
from heliograph import _core
rng = np.random.default_rng(1)
seed, data = bytes(range(32)), rng.integers(0, 256, 2048 * 2048, dtype=np.uint8)
words = rng.integers(0, 1 << 32, 3 * 2048, dtype=np.uint32)
keys = rng.integers(0, 1 << 49, 3 * _core.pir.KEY_WORDS, dtype=np.uint64)
for name in ("cpu", "cpu:scalar", "cpu:avx2", "2*cpu", "ref"):
    try:
        table = _core.pir.Table(2048, 2048, seed, data, 2048, name)
    except _core.DeviceError:
        continue
    bodies, masks = table.answer(words, keys)
    print(hashlib.sha256(bodies.tobytes() + masks.tobytes()).hexdigest())
"""


@pytest.mark.full
def test_equal_bits_on_every_device() -> None:
    """Preparation and answers have the same bits with every instruction set, on a mesh of two devices, and on ref."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=600)
    lines = done.stdout.split()
    assert len(lines) >= 3
    assert len(set(lines)) == 1
