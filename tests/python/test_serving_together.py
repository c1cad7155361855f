"""Questions of several clients to one table are answered in one reading: what that leaves alone, what it bounds, what goes wrong in it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from serving_rig import DIGIT, Running, expected, go_on, party, running, seal, stop, tokens

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

ROWS = np.random.default_rng(1).integers(0, 256, (300, 6), dtype=np.uint8)
BASE = np.random.default_rng(2).integers(-128, 128, (500, 12), dtype=np.int8)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Rows by number, vectors, and two models."""
    folder = tmp_path_factory.mktemp("together")
    hg.query.Database(ROWS).save(folder / "rows.hgd")
    hg.query.Vectors(BASE).save(folder / "faces.hgv")
    return [folder / "rows.hgd", folder / "faces.hgv", *seal(folder)]


class Crowd:
    """A service of several clients by name, and what its metrics say of readings."""

    def __init__(self, service: Running, words: dict[str, str]) -> None:
        self.service, self._tokens = service, words
        self._threads = ThreadPoolExecutor(64)

    def client(self, name: str, model: str, **options: Any) -> hg.Client:
        """One of them."""
        return hg.Client(f"http://127.0.0.1:{self.service.ports['http']}", model=model, token=self._tokens[name], **options)

    def asked(self, work: Callable[..., Any], *given: Any, **named: Any) -> Future[Any]:
        """On a thread of its own."""
        return self._threads.submit(work, *given, **named)

    def readings(self, model: str) -> tuple[int, int, int]:
        """Of a table so far: how many, of how many questions, and of one question alone."""
        port = self.service.ports["metrics"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        told = dict(line.rsplit(" ", 1) for line in lines if line.startswith("heliograph_questions_together"))
        names = (f'count{{model="{model}"}}', f'sum{{model="{model}"}}', f'bucket{{le="1.0",model="{model}"}}')
        found = [float(told.get(f"heliograph_questions_together_{name}", 0)) for name in names]
        return int(found[0]), int(found[1]), int(found[2])

    def waiting(self, count: int) -> None:
        """Until so many jobs have not ended."""
        client = self.client("ann", "rows")
        self.service.until(lambda: client.status()["queue"]["unfinished"] == count)

    @contextlib.contextmanager
    def gathered(self, count: int) -> Iterator[None]:
        """The engine is at something long until so many questions, which the block asks, wait: then it answers them."""
        slow = self.client("carl", "slow")
        party(slow)
        run = self.asked(slow.run, DIGIT)
        self.service.until(lambda: slow.status()["engines"][0]["jobs"])
        (engine,) = self.service.engines()
        stop(engine)
        try:
            yield
            self.waiting(count + 1)
        finally:
            go_on(engine)
        assert np.array_equal(run.result(60), expected())


@contextlib.contextmanager
def crowd(files: list[Path], folder: Path, *more: str) -> Iterator[Crowd]:
    """With these arguments besides."""
    words = tokens(folder / "tokens", "ann", "bob", "carl")
    with running(*files, "--store", folder / "store", "--tokens", folder / "tokens", "--metrics", ":0", *more) as service:
        yield Crowd(service, words)


@pytest.fixture(scope="module")
def place(files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    """With bounds as they are by default."""
    with crowd(files, tmp_path_factory.mktemp("crowd")) as made:
        yield made


def test_clients_share_a_reading(place: Crowd) -> None:
    """Rows of several clients come from one; each gets its own."""
    before = place.readings("rows")
    ann, bob = place.client("ann", "rows"), place.client("bob", "rows")
    numbers = [7, 7, 299, 0, 100, 12, 13]
    with place.gathered(7):
        came = [place.asked((ann, bob)[k % 2].get, number) for k, number in enumerate(numbers)]
    assert [one.result(60) for one in came] == [ROWS[number].tobytes() for number in numbers]
    after = place.readings("rows")
    assert (after[0] - before[0], after[1] - before[1]) == (1, 7)
    assert ann.get(5) == ROWS[5].tobytes()  # nobody beside: one question is a reading
    assert place.readings("rows") == (after[0] + 1, after[1] + 1, after[2] + 1)


def test_searches_share_a_reading(place: Crowd) -> None:
    """Vectors of clients with keys of their own, four a reading: more are two."""
    faces = []
    for name in ("ann", "bob", "carl", "ann", "bob", "carl"):
        faces.append(place.client(name, "faces"))
        faces[-1].upload_keys(hg.SecretKey.generate(faces[-1].half.parameters))  # type: ignore[union-attr]
    before = place.readings("faces")
    with place.gathered(6):
        came = [place.asked(client.nearest, BASE[k], k=1) for k, client in enumerate(faces)]
    for k, one in enumerate(came):
        scores = BASE.astype(int) @ BASE[k]
        assert (one.result(60).ids[0], one.result(60).scores[0]) == (int(scores.argmax()), int(scores.max()))
    after = place.readings("faces")
    assert (after[0] - before[0], after[1] - before[1]) == (2, 6)


def test_a_bad_question_harms_itself_alone(place: Crowd) -> None:
    """Refused by its own class, found as it is read or only as it is computed; what waited with it is answered."""
    ann, bob = place.client("ann", "rows"), place.client("bob", "rows")
    question = ann.table.ask(1)
    keys = np.stack([asked.keys for asked in question._asked])
    keys[0, 9] = 1 << 50
    words = np.stack([asked.words for asked in question._asked])
    bad = hg._container.to_bytes(
        "heliograph.query.lookup-question", {"table": ann.table._seed.hex()}, {"keys": keys, "words": words}
    )
    before = place.readings("rows")
    with place.gathered(5):
        good = [place.asked(one.get, 3) for one in (ann, bob, bob)]
        wrong = [
            place.asked(bob._job, "get", body, (len(body),), None, None, secrets.token_hex(16), None)
            for body in (bad, b"x" * 500)
        ]
    assert [one.result(60) for one in good] == 3 * [ROWS[3].tobytes()]
    for one, error in zip(wrong, (hg.DamagedFileError, hg.FormatError), strict=True):
        with pytest.raises(error):
            one.result(60)
    after = place.readings("rows")
    assert (after[0] - before[0], after[1] - before[1]) == (1, 3)

    faces = [place.client(name, "faces") for name in ("ann", "bob", "carl")]
    parties = []
    for client in faces:
        parties.append(hg.SecretKey.generate(client.half.parameters))  # type: ignore[union-attr]
        client.upload_keys(parties[-1])
    body = parties[0].encrypt(np.zeros((1, 4096), int), slots=1).to_bytes()  # a tensor of this key, and no vector
    with place.gathered(3):
        near = [place.asked(client.nearest, BASE[1], k=1) for client in faces[1:]]
        none = place.asked(faces[0]._job, "nearest", body, (len(body),), faces[0].keys, None, secrets.token_hex(16), None)
    with pytest.raises(hg.ShapeError, match="no encrypted vector"):
        none.result(60)
    assert {int(one.result(60).scores[0]) for one in near} == {int((BASE.astype(int) @ BASE[1]).max())}


def test_one_that_is_cancelled_or_late(place: Crowd) -> None:
    """It ends at once and is not computed; the others are answered together."""
    ann, bob = place.client("ann", "rows"), place.client("bob", "rows")
    before = place.readings("rows")

    async def several() -> list[Any]:
        tasks = [asyncio.create_task(ann.aget(number)) for number in range(5)]
        await asyncio.to_thread(place.waiting, 7)
        tasks[2].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    with place.gathered(4):
        late = place.asked(bob.get, 9, deadline=2.5)
        came = place.asked(asyncio.run, several())
        with pytest.raises(hg.DeadlineError):
            late.result(60)
    found = came.result(60)
    assert isinstance(found.pop(2), asyncio.CancelledError)
    assert found == [ROWS[number].tobytes() for number in (0, 1, 3, 4)]
    after = place.readings("rows")
    assert (after[0] - before[0], after[1] - before[1]) == (1, 4)


def test_an_engine_that_is_killed_with_several(place: Crowd) -> None:
    """All are answered by the next one, each by itself, lest one of them takes it down again with the others."""
    rows = [place.client(name, "rows") for name in ("ann", "bob", "carl")]
    (engine,) = place.service.engines()
    stop(engine)
    came = [place.asked(rows[k % 3].get, k) for k in range(6)]
    place.waiting(6)
    before = place.readings("rows")
    os.kill(engine, signal.SIGKILL)
    assert [one.result(60) for one in came] == [ROWS[k].tobytes() for k in range(6)]
    assert place.readings("rows") == before
    assert {e["attempts"] for e in place.service.events("job")[-6:]} == {2}


def test_bounds(files: list[Path], tmp_path: Path) -> None:
    """At most `--together` a reading, `--jobs` of one client, `--queue` in all: others wait, or are refused by type."""
    with crowd(files, tmp_path, "--together", "3", "--jobs", "8", "--queue", "8") as place:
        ann, bob = place.client("ann", "rows"), place.client("bob", "rows")
        with place.gathered(10):
            came = [place.asked(ann.get, number) for number in range(8)]
            place.waiting(9)
            with pytest.raises(hg.BusyError, match="8 jobs of yours"):
                place.client("ann", "rows", timeout=0.5).get(1)
            came += [place.asked(bob.get, number) for number in (20, 21)]
        assert [one.result(60) for one in came] == [ROWS[number].tobytes() for number in (*range(8), 20, 21)]
        count, questions, _ = place.readings("rows")
        assert questions == 10
        assert count >= 4


def test_whose_turn_it_is() -> None:
    """Questions to one table go together in turn, in each client's order, and hold up nobody else's turn."""
    from heliograph.serving.jobs import Asked, Job, Queue, group_of

    def job(owner: str, number: int, kind: str = "get", model: str = "rows") -> Job:
        return Job(Asked(f"{owner}{number:015}", kind, "", model), owner, None, Path(), 0.0)  # type: ignore[arg-type]

    queue = Queue()
    for one in (
        job("ann", 1),
        job("ann", 2),
        job("bob", 1, "run", "digits"),
        job("bob", 2),
        job("carl", 1),
        job("carl", 2, "get", "other"),
    ):
        queue.put(one)
    group = group_of("get", "rows")
    first = queue.take()
    assert first is not None
    assert (first.key, first.group) == (job("ann", 1).key, group)
    together = [one.key for one in iter(lambda: queue.take(group), None)]
    assert together == [job("carl", 1).key, job("ann", 2).key]  # bob's has its own run before it
    rest = [one.key for one in iter(queue.take, None)]
    assert rest == [job("bob", 1).key, job("carl", 2).key, job("bob", 2).key]
    again = job("ann", 3)
    again.attempts = 1
    queue.put(again)
    assert queue.take(group) is None


# The engine's process, by hand


class Line:
    """A worker without models, and what it says."""

    def __init__(self) -> None:
        from heliograph.serving.worker import Worker

        ours, theirs = socket.socketpair()
        self.worker, self._lines = Worker(theirs, {}, 1 << 30, {"get:t": 8}), ours.makefile("r")

    def send(self, *jobs: str) -> None:
        """Jobs."""
        for job in jobs:
            self.worker._heard({"do": "run", "job": job, "group": "get:t", "model": "t"})

    def heard(self, count: int) -> list[tuple[str, Any]]:
        """So many words: of a job and how it ended, or of several that were begun with."""
        words = [json.loads(self._lines.readline()) for _ in range(count)]
        return [(one["event"], one.get("jobs") or (one["job"], (one.get("error") or {}).get("name"))) for one in words]


def test_one_is_cancelled_while_several_are_computed() -> None:
    """It ends at once; the others go on; once nobody wants any of them the computation is stopped."""
    from heliograph.serving.worker import Question

    line, inside, further = Line(), threading.Event(), threading.Event()
    before = signal.signal(signal.SIGUSR1, line.worker.interrupt)

    def together(numbers: list[int]) -> list[int]:
        inside.set()
        assert further.wait(20)
        for _ in range(1000):  # where a signal would be heeded
            pass
        return [10 * number for number in numbers]

    def computed(*cancelled: str) -> list[Any]:
        def others() -> None:
            assert inside.wait(20)
            for job in cancelled:
                line.worker._heard({"do": "cancel", "job": job})
            further.set()

        inside.clear(), further.clear()
        thread = threading.Thread(target=others)
        thread.start()
        found = line.worker._ended(
            [({"job": job, "group": "get:t", "model": "t"}, Question(k, together)) for k, job in enumerate("abc")]
        )
        thread.join()
        return [(asked["job"], answer, type(error)) for asked, answer, error in found]

    try:
        line.send("a", "b", "c")
        assert computed("b") == [("a", 0, type(None)), ("c", 20, type(None))]
        assert line.heard(2) == [("begun", ["a", "b", "c"]), ("failed", ("b", "CancelledError"))]
        line.send("a", "b", "c")
        line.worker._heard({"do": "cancel", "job": "a"})  # it waits still
        assert computed("c", "c", "a", "b") == [("b", None, hg.CancelledError)]
        assert line.heard(3) == [
            ("failed", ("a", "CancelledError")),
            ("begun", ["b", "c"]),
            ("failed", ("c", "CancelledError")),
        ]
    finally:
        signal.signal(signal.SIGUSR1, before)
