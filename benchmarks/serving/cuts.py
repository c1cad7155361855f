"""Measures lost calls and wrong answers of clients over TLS during connection faults and restarts of the service."""

from __future__ import annotations

import contextlib
import hashlib
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.serving.process import Served
from benchmarks.serving.proxy import KINDS, Fault, Proxy

#: Percentage of each event: faults of a connection (proxy.KINDS), and stops of the service. Stalls are rare, because each
#: blocks a call until the client's timeout.
_OFTEN = {"reset": 25, "close": 24, "corrupt": 20, "duplicate": 19, "stall": 2, "restart": 5, "kill": 5}
_FARTHEST = 6.3  # log10 of the largest number of bytes before a fault
_WAIT = 20.0  # time limit in seconds until an armed fault occurs, and for the calls between two events
_BETWEEN, _AFTER_START = 2, 20  # number of calls between two events, and after a start of the service


class Calls(threading.Thread):
    """Makes calls one after another until `stop`, and records their results and times."""

    def __init__(self, call: Callable[[], bool], stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._call, self._stop_asking = call, stop
        self.right, self.wrong, self.lost, self.times = 0, 0, list[str](), list[float]()

    def run(self) -> None:
        """Makes and counts calls."""
        while not self._stop_asking.is_set():
            start = time.perf_counter()
            try:
                right = self._call()
                self.right, self.wrong = self.right + right, self.wrong + (not right)
            except hg.HeliographError as error:
                self.lost.append(f"{type(error).__name__}: {error}")
            self.times.append(time.perf_counter() - start)

    @property
    def count(self) -> int:
        """Returns the number of calls so far."""
        return len(self.times)


def asking(client: hg.Client, digit: Any, scores: Any) -> Callable[[], bool]:
    """Returns a function that sends a request and returns whether the answer is right."""
    return lambda: bool(np.array_equal(client.run(digit), scores))


def uploading(client: hg.Client) -> Callable[[], bool]:
    """Returns a function that uploads new keys, returns whether the keys arrived complete, and revokes the keys to free
    space.
    """

    def call() -> bool:
        data = client.model.keys(hg.SecretKey.generate(client.model.parameters)).to_bytes()
        digest = client._upload(memoryview(data), None)
        there = digest == hashlib.sha256(data).hexdigest() and digest in [kept["digest"] for kept in client.uploads()]
        client.revoke(digest)
        return there

    return call


def _until_answered(askers: list[Calls], count: int) -> None:
    """Waits until the clients together have made `count` more calls, at most `_WAIT` seconds."""
    before, end = sum(one.count for one in askers), time.monotonic() + _WAIT
    while sum(one.count for one in askers) < before + count and time.monotonic() < end:
        time.sleep(0.005)


def cuts(served: Served, path: Path, events: int, clients: int) -> dict[str, Any]:
    """Injects `events` events while clients send requests and one client uploads keys. An event is a fault of a connection (reset,
    stall, flipped bit, ...), a restart of the service, or a kill of its process.
    """
    model = hg.ModelBundle.load(path)
    digit = np.random.default_rng(1).integers(0, 17, model.inputs[0].shape)
    dice, happened, stop = random.Random(1), Counter[str](), threading.Event()
    with Proxy(served.port) as proxy, contextlib.ExitStack() as opened:
        options: dict[str, Any] = {"model": model.name, "ca": served.pem}
        address = f"https://localhost:{proxy.port}"
        first = opened.enter_context(hg.Client(address, **options))
        secret = hg.SecretKey.generate(model.parameters)
        first.upload_keys(secret)
        scores, options = first.run(digit), options | {"secret": secret, "keys": first.keys}
        made = [opened.enter_context(hg.Client(address, **options)) for _ in range(clients + 1)]
        askers = [Calls(asking(client, digit, scores), stop) for client in made[:-1]]
        uploader = Calls(uploading(made[-1]), stop)
        start = time.monotonic()
        for thread in (*askers, uploader):
            thread.start()
        while happened.total() < events:
            _until_answered(askers, _BETWEEN)
            (kind,) = dice.choices(list(_OFTEN), list(_OFTEN.values()))
            if kind in KINDS:
                before = proxy.happened
                proxy.arm(Fault(kind, dice.random() < 0.5, int(10 ** dice.uniform(0.0, _FARTHEST))))
                happened[kind] += proxy.wait(before + 1, _WAIT)
                continue
            if kind == "restart":
                served.stop()
            else:
                served.kill()
            served.start()
            happened[kind] += 1
            _until_answered(askers, _AFTER_START)
        proxy.arm(None)
        stop.set()
        for thread in (*askers, uploader):
            thread.join()
        taken = time.monotonic() - start
    threads = (*askers, uploader)
    times = sorted(t for one in askers for t in one.times)
    return {
        **{"model": model.name, "clients": clients, "timeout": first.timeout, "seconds": round(taken, 1)},
        **{"events": happened.total(), "kinds": dict(sorted(happened.items())), "connections": proxy.connections},
        **{"calls": sum(one.count for one in askers), "uploads": uploader.count},
        **{"lost": [text for one in threads for text in one.lost], "wrong": sum(one.wrong for one in threads)},
        **{"median": statistics.median(times), "longest": times[-1], "longest_upload": max(uploader.times)},
    }
