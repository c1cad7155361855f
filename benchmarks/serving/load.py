"""Measures a service under load: many clients while it is killed, users that each send a batch, and keys larger than memory."""

from __future__ import annotations

import contextlib
import hashlib
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.serving.process import Served, engine_bytes, resident_bytes
from heliograph import _core, nn
from heliograph._common import container

_BLOCK = 4  # number of keys that are generated at a time, to bound the memory
_UPLOADER = """
import json, os, sys, time, heliograph as hg
peak = lambda: int(next(l.split()[1] for l in open("/proc/self/status") if l.startswith("VmHWM"))) << 10
address, ca, path, cut = sys.argv[1:]
def progress(share):
    if share > float(cut): print(json.dumps({"peak_bytes": peak()}), flush=True), os._exit(0)
client, start = hg.Client(address, ca=ca, timeout=600.0), time.perf_counter()
client.upload_keys(path, progress)
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "peak_bytes": peak()}))
"""


# Many clients


class Watched:
    """Samples the memory of a service's own process every second, with one entry for each process after a restart."""

    def __init__(self, served: Served) -> None:
        self._served, self._stop, self._seen = served, threading.Event(), dict[int, list[int]]()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._stop.wait(1.0):
            pid = self._served.process.pid
            with contextlib.suppress(OSError, StopIteration):
                self._seen.setdefault(pid, []).append(resident_bytes(pid))

    def stop(self) -> list[dict[str, int]]:
        """Returns, for each process, bytes after a tenth of its time (when all have connected), at the end, and the peak."""
        self._stop.set()
        self._thread.join()
        return [{"first": s[len(s) // 10], "last": s[-1], "peak": max(s), "looks": len(s)} for s in self._seen.values() if s]


class Asking(threading.Thread):
    """A client with its own key that sends the next request as soon as it has an answer, until the time `end`."""

    def __init__(self, client: hg.Client, request: Any, end: float) -> None:
        super().__init__(daemon=True)
        self.client, self.request, self.end = client, request, end
        self.times, self.errors, self.asked, self.last = list[float](), list[str](), 0, None

    def run(self) -> None:
        """Sends requests until `end` and counts requests, answers and errors."""
        while time.monotonic() < self.end:
            self.asked, start = self.asked + 1, time.perf_counter()
            try:
                self.last: Any = self.client.run(self.request)
                self.times.append(time.perf_counter() - start)
            except hg.HeliographError as error:
                self.errors.append(type(error).__name__)


def crowd(served: Served, path: Path, count: int, seconds: float, kill: bool) -> dict[str, Any]:
    """Runs many clients concurrently. With `kill` the service is killed half-way and started again, and every call must be answered."""
    model = hg.ModelBundle.load(path)
    picture = np.random.default_rng(1).integers(0, 255, model.inputs[0].shape)
    parties = []
    for _ in range(count):
        secret = hg.SecretKey.generate(model.parameters)
        client = served.client(model.name, timeout=600.0)
        client.upload_keys(secret)
        parties.append((secret, client, model.encrypt(secret, picture)))
    watched, start = Watched(served), time.monotonic()
    asking = [Asking(client, request, start + seconds) for _, client, request in parties]
    for one in asking:
        one.start()
    killed = None
    if kill:
        time.sleep(seconds / 2)
        killed = {"after": time.monotonic() - start, "jobs": served.unfinished()}
        served.kill()
        killed["down"] = served.start()
    for one in asking:
        one.join()
    taken, memory = time.monotonic() - start, watched.stop()
    times = sorted(t for one in asking for t in one.times)
    errors = [name for one in asking for name in one.errors]
    scores = [model.decrypt(secret, one.last, like=picture) for (secret, _, _), one in zip(parties, asking, strict=True)]
    wrong = sum(not np.array_equal(one, scores[0]) for one in scores)
    return {
        **{"model": model.name, "clients": count, "seconds": round(taken, 2), "asked": sum(one.asked for one in asking)},
        **{"answers": len(times), "refused": errors, "wrong": wrong, "killed": killed, "memory": memory},
        **{"a_second": len(times) / taken, "median": statistics.median(times), "p99": times[int(0.99 * (len(times) - 1))]},
        **{"longest": times[-1], "peak_bytes": max(one["peak"] for one in memory)},
    }


# Users who send batches


def mixed(served: Served, path: Path, users: int, rounds: int) -> dict[str, Any]:
    """Runs several users with separate keys that send batches of images; then measures the library with the same work in
    sequence.
    """
    model = hg.ModelBundle.load(path)
    items, parties = model.inputs[0].items, []
    images = np.random.default_rng(1).integers(0, 256, (items, *model.inputs[0].shape))
    for _ in range(users):
        secret = hg.SecretKey.generate(model.parameters)
        keys, request = model.keys(secret), model.encrypt(secret, images)
        client = served.client(model.name, timeout=3600.0)
        client.upload_keys(keys)
        parties.append((client, request, hg.Server(keys)))

    def library() -> float:
        start = time.perf_counter()
        for _, data, server in zip(range(users), blobs, [server for _, _, server in parties], strict=True):
            model.run(server, server.from_bytes(data)).to_bytes()
        return time.perf_counter() - start

    def service() -> float:
        start = time.perf_counter()
        threads = [threading.Thread(target=lambda c=c, r=r: [c.run(r) for _ in range(rounds)]) for c, r, _ in parties]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (time.perf_counter() - start) / rounds

    blobs = [request.to_bytes() for _, request, _ in parties]
    model.prepare()
    parties[0][0].run(parties[0][1])  # this run prepares the engine's weights
    before, between = library(), service()
    after = library()
    images_each = users * items
    rates = {"library": 2 * images_each / (before + after), "service": images_each / between}
    sizes = {
        "request_bytes": len(blobs[0]),
        "peak_bytes": served.peak_bytes(),
        "engine_bytes": engine_bytes(served.process.pid),
    }
    return {"model": model.name, "users": users, "rounds": rounds, "images": items, **rates, **sizes}


def shared(name: str, repeats: int = 20) -> dict[str, Any]:
    """Measures the processor time of a packed network's call on one core, and the part of it that encodes weights, which
    users could share.
    """
    setup = nn.setup(name)
    secret = hg.SecretKey.generate(setup.parameters())
    server = hg.Server(secret.evaluation_keys(**setup.keys()))
    layout: Any = setup.layout()
    x = server.bind(secret.encrypt(layout.pack(np.zeros(layout.network.image, dtype=int))))
    start = time.process_time()
    packed = layout.server(setup.parameters())
    encoded = time.process_time() - start
    y = x
    if layout.convolution is not None:
        taps = layout.convolution.weight.reshape(layout.maps, -1)
        y = hg.square(hg.matmul(taps, x, layout.convolution.bias))
    if layout.copies > 1:
        y = hg.rotate_rows(hg.relinearize(y.reshape(layout.maps)), range(layout.copies))
    y = y.reshape(layout.copies, layout.maps)
    z = hg.square(hg.relinearize(hg.sum(y * packed._wide)))
    products = _cpu(lambda: y * packed._wide, repeats) + _cpu(lambda: z * packed._narrow, repeats)
    return {"model": name, "encoded": encoded, "call": _cpu(lambda: packed.run(x), repeats), "products": products}


def _cpu(work: Callable[[], Any], repeats: int) -> float:
    """Returns the median processor seconds, after two warm-up calls."""
    times = []
    for _ in range(repeats + 2):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return statistics.median(times[2:])


# Keys larger than memory


def many_keys(path: Path, secret: Any, steps: list[int], columns: bool) -> None:
    """Writes evaluation keys of many rotations into one file, a few keys at a time: the memory never holds all keys."""
    n = secret.parameters.n
    places: dict[str, int] = {}
    header: dict[str, Any] = {}
    arrays: list[tuple[str, str, list[int]]] = []
    with path.open("w+b") as file:
        for start in range(0, len(steps), _BLOCK):
            with_first = {"relinearize": start == 0, "columns": start == 0 and columns}
            some = secret.evaluation_keys(rotations=steps[start : start + _BLOCK], **with_first)
            made = container.from_bytes(some.to_bytes())
            if not header:
                header = json.loads(json.dumps(made.header)) | {"rotations": {}}
                turns = [pow(3, step, 2 * n) for step in steps] + [2 * n - 1] * columns
                names = [f"rotation{turn}" for turn in sorted(turns)] + ["relinearization"]
                shape = list(made.arrays["relinearization"].shape)
                arrays = [(name, "<u8", shape) for name in names]
                seeds = {name.removeprefix("rotation"): "0" * 64 for name in names[:-1]}
                head = _head(made.type, header | {"rotations": seeds}, arrays)
                # the arrays have complete polynomials, so the file has no padding
                size = made.arrays["relinearization"].nbytes
                places = {name: len(head) + k * size for k, name in enumerate(names)}
            header["rotations"] |= made.header["rotations"]
            for name, array in made.arrays.items():
                file.seek(places[name])
                file.write(np.ascontiguousarray(array).data)
        file.seek(0)
        file.write(_head(made.type, header, arrays))
        _finished(file, max(places.values()) + size)


def _head(kind: str, header: dict[str, Any], arrays: list[tuple[str, str, list[int]]]) -> bytes:
    return _core.container.Writer(kind, json.dumps(header), arrays).head()


def _finished(file: Any, end: int) -> None:
    """Appends the digest of the file's contents."""
    file.truncate(end)
    file.seek(0)
    sha = hashlib.sha256()
    while piece := file.read(1 << 22):
        sha.update(piece)
    file.write(sha.digest())


def large_model(folder: Path) -> Path:
    """Writes a model of the digits' network in a ring whose keys have 68 MiB each."""
    params = hg.bfv.parameters(n=32768, log_q=780, special=1, plain_modulus=7340033)
    nn.PackedNetwork(nn.load("digits"), params.n).export(folder / "large.hgm", parameters=params, name="large")
    return folder / "large.hgm"


def large(served: Served, path: Path, folder: Path, gigabytes: float) -> dict[str, Any]:
    """Measures keys of many GB. The keys are made, uploaded by a process that is killed half-way and by a second process,
    inspected, and used.
    """
    model, start = hg.ModelBundle.load(path), time.perf_counter()
    secret = hg.SecretKey.generate(model.parameters)
    needed = model.needs["rotations"]
    count = max(int(gigabytes * 1e9 / (model.parameters.switch_key_bytes / 2)), len(needed))
    steps = sorted({*needed, *list(range(1, count + len(needed)))[: count - len(needed)]})
    keys = folder / "many.hg"
    many_keys(keys, secret, steps, bool(model.needs.get("columns")))
    found: dict[str, Any] = {"model": model.name, "bytes": keys.stat().st_size, "rotations": len(steps)}
    found["made_seconds"], found["peak_before"] = time.perf_counter() - start, served.peak_bytes()
    found["cut"] = _uploaded(served, keys, 0.5)
    found["rest"] = _uploaded(served, keys, 2.0)
    found["peak_bytes"] = served.peak_bytes()
    start = time.perf_counter()
    inspected = subprocess.run(
        [sys.executable, "-m", "heliograph.cli", "inspect", str(keys)], capture_output=True, text=True
    )
    found["inspect"] = {"seconds": time.perf_counter() - start, "status": inspected.returncode}
    client = served.client(model.name, timeout=1800.0, secret=secret)
    digit = np.random.default_rng(1).integers(0, 17, model.inputs[0].shape)
    with _timed(found, "session_seconds"):
        client.upload_keys(keys)  # the keys are uploaded already; the engine reads them
    for name in ("first_seconds", "second_seconds"):
        with _timed(found, name):
            scores = client.run(digit)
    found["right"] = bool(np.array_equal(scores, nn.load("digits").clear_logits([digit])[0]))
    found["engine_bytes"] = engine_bytes(served.process.pid)
    with _timed(found, "revoke_seconds"):
        client.revoke()
    keys.unlink()
    return found


@contextlib.contextmanager
def _timed(found: dict[str, Any], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    found[name] = time.perf_counter() - start


def _uploaded(served: Served, keys: Path, cut: float) -> dict[str, Any]:
    """Uploads in a separate process, which ends at the given share."""
    words = [sys.executable, "-c", _UPLOADER, served.address, str(served.pem), str(keys), str(cut)]
    start = time.perf_counter()
    said: dict[str, Any] = json.loads(
        subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    )
    return {"seconds": time.perf_counter() - start} | said
