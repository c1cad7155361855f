"""Tests batches of queries that several clients send to one table: separation of clients, limits, and faults within a batch."""

from __future__ import annotations

import asyncio
import contextlib
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
from heliograph._common import container
from serving_rig import DIGIT, PATIENCE, Running, expected, export, go_on, party, running, stop, tokens, within

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")

from heliograph._common.service.kinds import KINDS
from heliograph.serving.engine_messages import Begun, Cancel, Done, Run, decode

ROWS = np.random.default_rng(1).integers(0, 256, (300, 6), dtype=np.uint8)
BASE = np.random.default_rng(2).integers(-128, 128, (500, 12), dtype=np.int8)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Writes rows with numbers, vectors, and two models."""
    folder = tmp_path_factory.mktemp("together")
    hg.pir.Database(ROWS).save(folder / "rows.hgd")
    hg.knn.Vectors(BASE).save(folder / "faces.hgv")
    return [folder / "rows.hgd", folder / "faces.hgv", *export(folder)]


class Crowd:
    """A service with several named clients, and the metrics of its batches."""

    def __init__(self, service: Running, words: dict[str, str]) -> None:
        self.service, self._tokens = service, words
        self._threads = ThreadPoolExecutor(64)

    def client(self, name: str, model: str, **options: Any) -> hg.Client:
        """Returns one of the clients."""
        return hg.Client(f"http://127.0.0.1:{self.service.ports['http']}", model=model, token=self._tokens[name], **options)

    def asked(self, work: Callable[..., Any], *given: Any, **named: Any) -> Future[Any]:
        """Runs a call on a separate thread and returns its future."""
        return self._threads.submit(work, *given, **named)

    def readings(self, model: str) -> tuple[int, int, int]:
        """Returns three counts for a table: batches, queries in batches, and batches of one query."""
        port = self.service.ports["metrics"]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as reply:
            lines = reply.read().decode().splitlines()
        told = dict(line.rsplit(" ", 1) for line in lines if line.startswith("heliograph_batch_size"))
        names = (f'count{{model="{model}"}}', f'sum{{model="{model}"}}', f'bucket{{le="1.0",model="{model}"}}')
        found = [float(told.get(f"heliograph_batch_size_{name}", 0)) for name in names]
        return int(found[0]), int(found[1]), int(found[2])

    def waiting(self, count: int) -> None:
        """Waits until `count` jobs are unfinished."""
        client = self.client("ann", "rows")
        self.service.until(lambda: client.status()["queue"]["unfinished"] == count)

    @contextlib.contextmanager
    def gathered(self, count: int) -> Iterator[None]:
        """Keeps the engine busy until `count` queries from the block are waiting, so that they form a batch."""
        slow = self.client("carl", "slow")
        party(slow)
        # if the engine still computed an earlier job, the queries would overtake the slow run
        self.waiting(0)
        run = self.asked(slow.run, DIGIT)
        self.service.until(lambda: slow.status()["engines"][0]["jobs"])
        (engine,) = self.service.engines()
        stop(engine)
        try:
            yield
            self.waiting(count + 1)
        finally:
            go_on(engine)
        assert np.array_equal(run.result(PATIENCE), expected())


@contextlib.contextmanager
def crowd(files: list[Path], folder: Path, *more: str) -> Iterator[Crowd]:
    """Runs the service with further arguments."""
    words = tokens(folder / "tokens", "ann", "bob", "carl")
    with running(
        *files, "--store", folder / "store", "--tokens", folder / "tokens", "--metrics-address", ":0", *more
    ) as service:
        yield Crowd(service, words)


@pytest.fixture(scope="module")
def place(files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    """Runs the service with default limits."""
    with crowd(files, tmp_path_factory.mktemp("crowd")) as made:
        yield made


def test_queries_of_several_clients_form_a_batch(place: Crowd) -> None:
    """The queries of several clients form one batch, and each client gets its own row."""
    before = place.readings("rows")
    ann, bob = place.client("ann", "rows"), place.client("bob", "rows")
    numbers = [7, 7, 299, 0, 100, 12, 13]
    with place.gathered(7):
        came = [place.asked((ann, bob)[k % 2].get, number) for k, number in enumerate(numbers)]
    assert [one.result(PATIENCE) for one in came] == [ROWS[number].tobytes() for number in numbers]
    after = place.readings("rows")
    assert (after[0] - before[0], after[1] - before[1]) == (1, 7)
    assert ann.get(5) == ROWS[5].tobytes()  # a single query is a batch of one
    assert place.readings("rows") == (after[0] + 1, after[1] + 1, after[2] + 1)


def test_vector_queries_form_batches(place: Crowd) -> None:
    """Queries for vectors with different keys form batches of at most four queries."""
    faces = []
    for name in ("ann", "bob", "carl", "ann", "bob", "carl"):
        faces.append(place.client(name, "faces"))
        faces[-1].upload_keys(hg.SecretKey.generate(faces[-1].half.parameters))  # type: ignore[union-attr]
    before = place.readings("faces")
    with place.gathered(6):
        came = [place.asked(client.nearest, BASE[k], k=1) for k, client in enumerate(faces)]
    for k, one in enumerate(came):
        scores = BASE.astype(int) @ BASE[k]
        assert (one.result(PATIENCE).ids[0], one.result(PATIENCE).scores[0]) == (int(scores.argmax()), int(scores.max()))
    after = place.readings("faces")
    assert (after[0] - before[0], after[1] - before[1]) == (2, 6)


def test_an_invalid_query_affects_no_other_of_its_batch(place: Crowd) -> None:
    """An invalid query fails by its own error, when it is read or computed. The other queries of its batch are answered."""
    ann, bob = place.client("ann", "rows"), place.client("bob", "rows")
    question = ann.table.ask(1)
    keys = np.stack([query.keys for query in question._queries])
    keys[0, 9] = 1 << 50
    words = np.stack([query.words for query in question._queries])
    bad = container.to_bytes(
        "heliograph.query.lookup-question", {"table": ann.table._seed.hex()}, {"keys": keys, "words": words}
    )
    before = place.readings("rows")
    with place.gathered(5):
        good = [place.asked(one.get, 3) for one in (ann, bob, bob)]
        wrong = [
            place.asked(bob._job, KINDS["get"], body, (len(body),), None, None, secrets.token_hex(16), None)
            for body in (bad, b"x" * 500)
        ]
    assert [one.result(PATIENCE) for one in good] == 3 * [ROWS[3].tobytes()]
    for one, error in zip(wrong, (hg.DamagedFileError, hg.FormatError), strict=True):
        with pytest.raises(error):
            one.result(PATIENCE)
    after = place.readings("rows")
    assert (after[0] - before[0], after[1] - before[1]) == (1, 3)

    faces = [place.client(name, "faces") for name in ("ann", "bob", "carl")]
    parties = []
    for client in faces:
        parties.append(hg.SecretKey.generate(client.half.parameters))  # type: ignore[union-attr]
        client.upload_keys(parties[-1])
    # A tensor that has this key but is not a query vector.
    body = parties[0].encrypt(np.zeros((1, 4096), int), slots=1).to_bytes()
    with place.gathered(3):
        near = [place.asked(client.nearest, BASE[1], k=1) for client in faces[1:]]
        none = place.asked(
            faces[0]._job, KINDS["nearest"], body, (len(body),), faces[0].keys, None, secrets.token_hex(16), None
        )
    with pytest.raises(hg.ShapeError, match="not a vector for these rows"):
        none.result(PATIENCE)
    assert {int(one.result(PATIENCE).scores[0]) for one in near} == {int((BASE.astype(int) @ BASE[1]).max())}


def test_a_cancelled_or_late_query_is_not_computed(place: Crowd) -> None:
    """A query that is cancelled or late ends at once and is not computed. The other queries are answered together."""
    ann, bob = place.client("ann", "rows"), place.client("bob", "rows")
    before, logged, ended = place.readings("rows"), len(place.service.events("job_ended")), threading.Event()

    async def several() -> list[Any]:
        tasks = [asyncio.create_task(ann.aget(number)) for number in range(5)]
        await asyncio.to_thread(ended.wait, PATIENCE)
        tasks[2].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    def late() -> list[Any]:
        return [e for e in place.service.events("job_ended")[logged:] if e["outcome"] == "DeadlineError"]

    with place.gathered(4):
        came = place.asked(asyncio.run, several())
        place.waiting(6)  # the job that the engine runs, and these five queries
        # the service estimates the duration of the engine's job and accepts the first deadline that suffices
        for deadline in (2.5, 10, 40):
            with pytest.raises((hg.DeadlineError, hg.BusyError, hg.UnreachableError)) as caught:
                bob.get(9, deadline=deadline)
            if caught.type is not hg.BusyError:
                break
        place.service.until(late)
        ended.set()
    found = came.result(PATIENCE)
    assert isinstance(found.pop(2), asyncio.CancelledError)
    assert found == [ROWS[number].tobytes() for number in (0, 1, 3, 4)]
    after = place.readings("rows")
    assert (after[0] - before[0], after[1] - before[1]) == (1, 4)
    assert len(late()) == 1


def test_after_a_killed_batch_queries_run_separately(place: Crowd) -> None:
    """If an engine is killed during a batch, the next engine answers each query separately, because one query may have
    caused the failure.

    """
    rows = [place.client(name, "rows") for name in ("ann", "bob", "carl")]
    (engine,) = place.service.engines()
    stop(engine)
    came = [place.asked(rows[k % 3].get, k) for k in range(6)]
    place.waiting(6)
    before = place.readings("rows")
    os.kill(engine, signal.SIGKILL)
    assert [one.result(PATIENCE) for one in came] == [ROWS[k].tobytes() for k in range(6)]
    assert place.readings("rows") == before
    # Another thread of the test reads the log.
    place.service.until(lambda: {e["attempts"] for e in place.service.events("job_ended")[-6:]} == {2})


def test_bounds(files: list[Path], tmp_path: Path) -> None:
    """`--max-batch-size`, `--max-jobs-per-client` and `--max-queue` limit the batch, the jobs of a client and all jobs.
    Other jobs wait or get a typed error.

    """
    with crowd(files, tmp_path, "--max-batch-size", "3", "--max-jobs-per-client", "8", "--max-queue", "8") as place:
        ann, bob = place.client("ann", "rows"), place.client("bob", "rows")
        with place.gathered(10):
            came = [place.asked(ann.get, number) for number in range(8)]
            place.waiting(9)
            with pytest.raises(hg.BusyError, match="at most 8 unfinished jobs"):
                within(0.5, lambda seconds: place.client("ann", "rows", timeout=seconds).get(1))
            came += [place.asked(bob.get, number) for number in (20, 21)]
        assert [one.result(PATIENCE) for one in came] == [ROWS[number].tobytes() for number in (*range(8), 20, 21)]
        count, questions, _ = place.readings("rows")
        assert questions == 10
        assert count >= 4


def test_batches_take_queries_in_turn() -> None:
    """Batches take queries in turn, in the order of each client, and do not delay other jobs."""
    from heliograph.serving.jobs import Job, JobSpec, Queue, group_of

    def job(owner: str, number: int, kind: str = "get", model: str = "rows") -> Job:
        return Job(JobSpec(f"{owner}{number:015}", KINDS[kind], "", model), owner, None, Path(), 0.0)  # type: ignore[arg-type]

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
    group = group_of(KINDS["get"], "rows")
    first = queue.take()
    assert first is not None
    assert (first.key, first.group) == (job("ann", 1).key, group)
    together = [one.key for one in iter(lambda: queue.take(group), None)]
    assert together == [job("carl", 1).key, job("ann", 2).key]  # bob also sent a run earlier
    rest = [one.key for one in iter(queue.take, None)]
    assert rest == [job("bob", 1).key, job("carl", 2).key, job("bob", 2).key]
    again = job("ann", 3)
    again.attempts = 1
    queue.put(again)
    assert queue.take(group) is None


# The process of an engine


class Line:
    """The loop of a worker process without models, and the messages to and from it."""

    def __init__(self) -> None:
        from heliograph.serving.worker import Worker

        ours, theirs = socket.socketpair()
        self.worker, self._lines = Worker(theirs, {}, 1 << 30, {"get:t": 8}), ours.makefile("r")

    def send(self, *jobs: str) -> None:
        """Sends jobs."""
        for job in jobs:
            self.worker.handle(self.run(job))

    @staticmethod
    def run(job: str) -> Run:
        """Returns the message of a job."""
        return Run(job=job, kind="get", model="t", group="get:t")

    def received(self, count: int) -> list[tuple[str, Any]]:
        """Returns the next `count` messages of the worker. A message is the outcome of a job, or lists the jobs of a batch."""
        messages = [decode(self._lines.readline()) for _ in range(count)]
        return [
            ("begun", one.jobs) if isinstance(one, Begun) else (one.job, one.error and one.error["name"])
            for one in messages
            if isinstance(one, Begun | Done)
        ]


def test_a_query_of_a_running_batch_can_be_cancelled() -> None:
    """If a query of a running batch is cancelled, it ends at once and the others continue. If all are cancelled, the
    computation stops.
    """
    from heliograph.serving.served import Query

    line, inside, further = Line(), threading.Event(), threading.Event()
    before = signal.signal(signal.SIGUSR1, line.worker.interrupt)

    def together(numbers: list[int]) -> list[int]:
        inside.set()
        assert further.wait(PATIENCE)
        for _ in range(1000):  # a signal would interrupt this loop
            pass
        return [10 * number for number in numbers]

    def computed(*cancelled: str) -> list[Any]:
        def others() -> None:
            assert inside.wait(PATIENCE)
            for job in cancelled:
                line.worker.handle(Cancel(job))
            further.set()

        inside.clear(), further.clear()
        thread = threading.Thread(target=others)
        thread.start()
        found = line.worker._ended([(line.run(job), Query(k, together)) for k, job in enumerate("abc")])
        thread.join()
        return [(run.job, answer, type(error)) for run, answer, error in found]

    try:
        line.send("a", "b", "c")
        assert computed("b") == [("a", 0, type(None)), ("c", 20, type(None))]
        assert line.received(2) == [("begun", ["a", "b", "c"]), ("b", "CancelledError")]
        line.send("a", "b", "c")
        line.worker.handle(Cancel("a"))  # the call is still waiting
        assert computed("c", "c", "a", "b") == [("b", None, hg.CancelledError)]
        assert line.received(3) == [("a", "CancelledError"), ("begun", ["b", "c"]), ("c", "CancelledError")]
    finally:
        signal.signal(signal.SIGUSR1, before)
