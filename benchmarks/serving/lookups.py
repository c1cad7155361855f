"""Measures private look-ups by many clients of a service, and the library's rate for as many questions in one call."""

from __future__ import annotations

import secrets
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.serving.process import Served
from heliograph._common.service.kinds import GET

_WIDTH = 256  # bytes per row
_LEAST = 3  # minimum number of calls of the library, and minimum seconds that they take together
_FIGURE = 'heliograph_batch_size_{}{{model="rows"}}'


class Asking(threading.Thread):
    """A client that sends the next question as soon as it has an answer, until the time `end`. Times are from sending the
    question to receiving the answer.
    """

    def __init__(self, client: hg.Client, question: Any, end: float) -> None:
        super().__init__(daemon=True)
        self.client, self.question, self.end = client, question, end
        self.times, self.errors, self.last = list[float](), list[str](), b""
        self._body = question.to_bytes()

    def run(self) -> None:
        """Sends questions until `end` and counts answers and errors."""
        while time.monotonic() < self.end:
            start = time.perf_counter()
            try:
                self.last = self.client._job(GET, self._body, (len(self._body),), None, None, secrets.token_hex(16), None)
                self.times.append(time.perf_counter() - start)
            except hg.HeliographError as error:
                self.errors.append(type(error).__name__)


def rate(db: hg.pir.Database, asked: list[bytes]) -> float:
    """Returns the library's questions per second with all of `asked` in one call, after one warm-up call."""
    db.answers(asked)
    count, start = 0, time.perf_counter()
    while count < _LEAST or time.perf_counter() - start < _LEAST:
        db.answers(asked)
        count += 1
    return count * len(asked) / (time.perf_counter() - start)


def crowd(served: Served, half: hg.pir.LookupClient, rows: Any, count: int, seconds: float) -> dict[str, Any]:
    """Runs `count` clients concurrently for the given seconds."""
    numbers = np.random.default_rng(count).integers(0, len(rows), count)
    before = [served.figure(_FIGURE.format(name)) for name in ("count", "sum")]
    questions = [half.ask(int(number)) for number in numbers]
    clients = [served.client("rows", timeout=600.0) for _ in numbers]
    start = time.monotonic()
    asking = [Asking(client, question, start + seconds) for client, question in zip(clients, questions, strict=True)]
    for one in asking:
        one.start()
    for one in asking:
        one.join()
    taken = time.monotonic() - start
    times = sorted(t for one in asking for t in one.times)
    readings, answers = (
        served.figure(_FIGURE.format(name)) - old for name, old in zip(("count", "sum"), before, strict=True)
    )
    right = [one.question.read(one.last) == rows[number].tobytes() for one, number in zip(asking, numbers, strict=True)]
    return {
        **{"clients": count, "seconds": round(taken, 2), "answers": len(times), "wrong": right.count(False)},
        **{"a_second": len(times) / taken, "median": statistics.median(times), "p99": times[int(0.99 * (len(times) - 1))]},
        **{"together": answers / readings, "refused": [name for one in asking for name in one.errors]},
    }


def lookups(gigabytes: float, crowds: list[int], together: int, seconds: float) -> dict[str, Any]:
    """Measures a table of random rows, queried by number: by the library, then by numbers of clients."""
    rng, count = np.random.default_rng(7), max(int(gigabytes * 2**30) // _WIDTH, 1)
    rows = np.frombuffer(rng.bytes(count * _WIDTH), np.uint8).reshape(count, _WIDTH)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        db = hg.pir.Database(rows)
        db.save(folder / "rows.hgd")
        half = db.client()
        asked = [half.ask(int(number)).to_bytes() for number in rng.integers(0, count, together)]
        library = {"alone": rate(db, asked[:1]), "together": rate(db, asked)}
        del db
        most = str(max(crowds))
        served = Served(
            folder, [folder / "rows.hgd"], int(most), "--max-batch-size", str(together), "--metrics-address", "127.0.0.1:0"
        )
        try:
            found = [crowd(served, half, rows, size, seconds) for size in crowds]
            peak = served.peak_bytes()
        finally:
            served.stop()
    sizes = {"bytes": count * _WIDTH, "row_bytes": _WIDTH, "up_bytes": len(asked[0]), "peak_bytes": peak}
    return sizes | {"together": together, "library": library, "crowds": found}
