"""Tests the tables of a service: look-ups by key and by number, nearest vectors, errors, and a killed engine."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import heliograph as hg
from heliograph._common.service.kinds import KINDS
from heliograph.cli import run as command
from heliograph.models.halves import digest_of
from serving_rig import Running, client_of, running, stop

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

ROWS = np.random.default_rng(1).integers(0, 256, (300, 6), dtype=np.uint8)
BASE = np.random.default_rng(2).integers(-128, 128, (500, 12), dtype=np.int8)
IDS = np.arange(500) + 7000
PEOPLE = {"phone": ["+41 44 1", "+41 44 2", "+41 44 3"], "name": ["Ada", "Grace", "Emmy"], "balance": [120, -7, 33]}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Runs a service that has two tables, vectors and a model."""
    folder = tmp_path_factory.mktemp("tables")
    hg.pir.Database(PEOPLE, key="phone").save(folder / "phones.hgd", title="people")
    hg.pir.Database(ROWS).save(folder / "rows.hgd")
    hg.knn.Vectors(BASE, ids=IDS).save(folder / "faces.hgv")
    hg.nn.setup("digits").export(folder / "digits.hgm")
    files = [folder / name for name in ("phones.hgd", "rows.hgd", "faces.hgv", "digits.hgm")]
    with running(*files, "--store", folder / "store") as made:
        yield made


def test_rows_by_key_and_number(service: Running) -> None:
    """Look-ups need no uploaded keys, may run concurrently, and leave no row number in the log."""
    phones, rows = client_of(service, "phones"), client_of(service, "rows")
    assert phones.get("+41 44 2") == {"phone": "+41 44 2", "name": "Grace", "balance": -7}
    assert phones.get("+41 44 9") is None
    assert rows.get(299) == ROWS[299].tobytes()
    assert [(m["name"], m["kind"], m["title"]) for m in phones.models()][2:] == [
        ("phones", "look-up", "people"),
        ("rows", "look-up", ""),
    ]

    async def several() -> list[object]:
        tasks = [asyncio.create_task(phones.aget(f"+41 44 {1 + k % 3}")) for k in range(7)]
        tasks[3].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    came = asyncio.run(several())
    assert isinstance(came.pop(3), asyncio.CancelledError)
    assert [row["name"] for row in came] == ["Ada", "Grace", "Emmy", "Grace", "Emmy", "Ada"]  # type: ignore[index]
    assert "+41" not in service.text
    assert "Grace" not in service.text


def test_nearest_vectors_are_found(service: Running, tmp_path: Path) -> None:
    """Nearest vectors are found by id, with exact scores. Missing keys and keys of another layout are refused."""
    faces = client_of(service, "faces")
    with pytest.raises(hg.MissingKeyError, match="upload_keys"):
        faces.nearest(BASE[0])
    secret = hg.SecretKey.generate(faces.half.parameters)  # type: ignore[union-attr]
    digest = faces.upload_keys(secret)
    found = faces.nearest(BASE[42], k=3)
    exact = BASE.astype(int) @ BASE[42]
    assert (found.ids[0], found.scores[0]) == (7042, exact[42])
    assert sorted(found.scores, reverse=True) == sorted(exact, reverse=True)[:3]
    secret.evaluation_keys(relinearize=False, rotations=[1]).save(tmp_path / "few.hg")
    with pytest.raises(hg.MissingKeyError):
        faces.upload_keys(tmp_path / "few.hg")  # the client refuses this at once
    digits = client_of(service, "digits")
    other = digits.upload_keys(hg.SecretKey.generate(digits.model.parameters))
    faces._keys = other
    with pytest.raises(hg.MismatchError, match=r"(other|different) parameters"):
        faces.nearest(BASE[0])
    faces._keys = digest
    for call in (lambda: faces.run(BASE[0]), lambda: faces.get(1), lambda: digits.nearest(BASE[0])):
        with pytest.raises(hg.ParameterError, match=r"client\.nearest|no look-up table|no set of vectors"):
            call()
    with pytest.raises(hg.ShapeError, match="12 components"):
        faces.nearest(BASE[0][:5])
    with pytest.raises(hg.LimitError):
        faces._job(KINDS["nearest"], bytes(8 << 20), (8 << 20,), digest, None, "x" * 20, None)


def test_the_command_looks_up(service: Running, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`heliograph client --get` and `inspect` show rows; if there is no row, one line says so."""
    address = f"http://127.0.0.1:{service.ports['http']}"
    assert command(["client", address, "--model", "phones", "--get", "+41 44 3"]) == 0
    assert "Emmy" in capsys.readouterr().out
    assert command(["client", address, "--model", "rows", "--get", "7"]) == 0
    assert ROWS[7].tobytes().hex() in capsys.readouterr().out
    assert command(["client", address, "--model", "phones", "--get", "none"]) == 1
    assert "the table has no row none" in capsys.readouterr().err
    assert command(["client", address, "--model", "rows", "--get", "seven"]) == 2
    hg.pir.Database(PEOPLE, key="name").save(tmp_path / "names.hgd", title="by name")
    assert command(["inspect", str(tmp_path / "names.hgd")]) == 0
    assert "3 rows by name" in capsys.readouterr().out


def test_refusals(service: Running) -> None:
    """Running a table, look-ups in a model, queries for another table, and invalid bytes are refused."""
    phones, rows, digits = (client_of(service, name) for name in ("phones", "rows", "digits"))
    with pytest.raises(hg.ParameterError, match=r"client\.get"):
        phones.run([1])
    with pytest.raises(hg.ParameterError, match="no look-up table"):
        digits.get(1)
    question = rows.table.ask(1).to_bytes()
    for name, body, error in (
        ("phones", question, hg.MismatchError),
        ("rows", b"x" * 500, hg.FormatError),
        ("digits", question, hg.ParameterError),
    ):
        with pytest.raises(error):
            client_of(service, name)._job(KINDS["get"], body, (len(body),), None, None, "question" * 2 + name, None)
    with pytest.raises(hg.ParameterError, match="answers jobs of kind get; got session"):
        rows._job(KINDS["session"], None, (), None, None, "session" * 4, None)
    with pytest.raises(hg.ShapeError, match="from 0 to 299"):
        rows.get(300)


def test_an_engine_that_is_killed(service: Running) -> None:
    """After an engine is killed, the next engine prepares the tables and answers."""
    rows = client_of(service, "rows")
    (engine,) = service.engines()
    stop(engine)

    async def asked() -> object:
        task = asyncio.create_task(rows.aget(8))
        while not rows.status()["engines"][0]["jobs"]:
            await asyncio.sleep(0.01)
        os.kill(engine, signal.SIGKILL)
        return await task

    assert asyncio.run(asked()) == ROWS[8].tobytes()


def test_loaded_tables_answer_clients_of_saved_ones(tmp_path: Path) -> None:
    """A loaded table answers clients of the saved table and accepts updates. Damaged files and bad names are refused."""
    db = hg.pir.Database(PEOPLE, key="phone")
    client = db.client()
    db.save(tmp_path / "t.hgd")
    again = hg.pir.Database.load(tmp_path / "t.hgd")
    assert client.get("+41 44 1", again.answer) == db.client().get("+41 44 1", db.answer)
    again.update({"phone": ["+41 44 9"], "name": ["Sofja"], "balance": [5]})
    again.remove(["+41 44 1"])
    again.save(tmp_path / "u.hgd", name="later")
    later = hg.pir.Database.load(tmp_path / "u.hgd")
    assert client.get("+41 44 1", later.answer) is None
    assert client.get("+41 44 9", later.answer)["name"] == "Sofja"
    for name in ("", "a b", "../x", "x" * 65):
        with pytest.raises(hg.ParameterError, match="a table's name"):
            db.save(tmp_path / "\u00e4.hgd", name=name)
    data = (tmp_path / "t.hgd").read_bytes()
    for wrong, error in (
        (data[:-1], hg.DamagedFileError),
        (data[:99] + b"x" + data[100:], hg.DamagedFileError),
        (client.to_bytes(), hg.FormatError),
    ):
        (tmp_path / "w.hgd").write_bytes(wrong)
        with pytest.raises(error):
            hg.pir.Database.load(tmp_path / "w.hgd")
    index = hg.knn.Vectors(BASE[:20], ids=IDS[:20])
    index.save(tmp_path / "v.hgv", title="v")
    assert np.array_equal(hg.knn.Vectors.load(tmp_path / "v.hgv").layout.ids, IDS[:20])
    assert command(["inspect", str(tmp_path / "v.hgv")]) == 0
    (tmp_path / "v.hgv").write_bytes((tmp_path / "v.hgv").read_bytes()[:-64])
    with pytest.raises(hg.DamagedFileError):
        hg.knn.Vectors.load(tmp_path / "v.hgv")
    (tmp_path / "bad.hgd").write_bytes(data[:-1])
    assert command(["serve", str(tmp_path / "bad.hgd"), "--store", str(tmp_path / "store")]) == 1


def test_an_updated_table_answers_earlier_queries(tmp_path: Path) -> None:
    """SIGHUP loads an updated file. Queries that were made before are answered from the new rows. Wrong files change
    nothing.
    """
    people, vectors = hg.pir.Database(PEOPLE, key="phone"), hg.knn.Vectors(BASE, ids=IDS)
    rows = hg.pir.Database(ROWS)
    files = [tmp_path / name for name in ("phones.hgd", "rows.hgd", "faces.hgv")]

    def saved(version: str) -> None:
        for table, path in zip((people, rows, vectors), files, strict=True):
            table.save(path, version=version)  # type: ignore[attr-defined]

    saved("1")
    with running(*files, "--store", tmp_path / "store", "--device", "cpu", "--device", "cpu") as service:
        phones, numbers, faces = (client_of(service, name) for name in ("phones", "rows", "faces"))
        pinned = {name: digest_of(client.half) for name, client in (("phones", phones), ("rows", numbers))}
        faces.upload_keys(hg.SecretKey.generate(faces.half.parameters))  # type: ignore[union-attr]
        asked = {key: phones.table.ask(key) for key in ("+41 44 1", "+41 44 2", "+41 44 9")}
        assert phones.get("+41 44 9") is None
        people.update({"phone": ["+41 44 9", "+41 44 2"], "name": ["Sofja", "Marie"], "balance": [5, 6]})
        people.remove(["+41 44 1"])
        rows.update(255 - ROWS[:299], rows=range(299))  # changes most rows, so the table is prepared again
        changed = BASE.copy()
        changed[42] = -BASE[42]
        vectors.replace(42, changed[42:43])
        saved("2")
        assert phones.get("+41 44 1")["name"] == "Ada"  # the service has not reloaded the file yet
        service.signal(signal.SIGHUP)
        service.until(lambda: len(service.events("model_reloaded")) == 6)
        answers = {key: phones._query(question, None, f"{'before' * 3}{key[-1]}") for key, question in asked.items()}
        found = [asked[key].read(answer) for key, answer in answers.items()]
        assert [one and one["name"] for one in found] == [None, "Marie", "Sofja"]
        assert [numbers.get(k) for k in (0, 298, 299)] == [bytes(255 - ROWS[0]), bytes(255 - ROWS[298]), bytes(ROWS[299])]
        exact = changed.astype(int) @ BASE[42]
        assert faces.nearest(BASE[42], k=1).scores[0] == exact.max() != BASE[42].astype(int) @ BASE[42]
        assert {m["version"] for m in phones.models()} == {"2"}
        for name, digest in pinned.items():
            hg.Client(f"http://127.0.0.1:{service.ports['http']}", model=name, digest=digest).get(
                "+41 44 2" if name == "phones" else 1
            )

        hg.pir.Database(PEOPLE, key="phone").save(files[0])  # a different table that has the same rows
        files[1].write_bytes(files[1].read_bytes()[:-1])
        service.signal(signal.SIGHUP)
        service.until(lambda: len(service.events("model_reload_failed")) == 2)
        assert [(e["model"], e["error"]) for e in service.events("model_reload_failed")] == [
            ("phones", "MismatchError"),
            ("rows", "DamagedFileError"),
        ]
        assert phones.get("+41 44 9")["name"] == "Sofja"
        assert numbers.get(299) == ROWS[299].tobytes()
        assert len(service.events("model_reloaded")) == 6
