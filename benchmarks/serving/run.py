"""Measures a service over loopback TLS: overhead over a library call, uploads (whole and interrupted), memory, users with batches, many
clients of models and of a table, calls during connection faults and restarts, and tenants beside a hostile tenant.

    python -m benchmarks.serving.run --seconds 600 --kill --out benchmarks/results/mine-serving.jsonl
    python -m benchmarks.serving.run --what lookups --seconds 30 --add --out benchmarks/results/mine-serving.jsonl
    python -m benchmarks.serving.run --what cuts --events 1000 --add --out benchmarks/results/mine-serving.jsonl
    python -m benchmarks.serving.run --what large --add --out benchmarks/results/mine-serving.jsonl
    python -m benchmarks.serving.run --what hostile --seconds 30 --out benchmarks/results/mine-serving-hostile.jsonl

Service and clients share this machine's cores. The library's time consists of reading a request's bytes, computing, and
writing the answer's bytes. The service's time is `Client.run` of an encrypted request, from bytes to a read answer, without
encryption and decryption.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.report import results
from benchmarks.runners import common
from benchmarks.serving import cuts as serving_cuts
from benchmarks.serving import hostile as serving_hostile
from benchmarks.serving import load
from benchmarks.serving import lookups as serving_lookups
from benchmarks.serving.process import Served
from heliograph import nn

_ALL = ("overhead", "uploads", "shared", "mixed", "crowd", "cuts", "lookups", "hostile", "large")
_UPLOAD = 181 << 20  # approximate bytes of the uploaded keys
_LOADED = "mnist-small"  # a network with small keys, for many clients


def medians(work: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Returns median and least seconds, after two warm-up calls."""
    times = []
    for number in range(repeats + 2):
        start = time.perf_counter()
        work()
        if number > 1:
            times.append(time.perf_counter() - start)
    return {"median": statistics.median(times), "least": min(times)}


def overhead(served: Served, path: Path, repeats: int) -> dict[str, Any]:
    """Measures one model, by the library and by the service."""
    model = hg.ModelBundle.load(path)
    secret = hg.SecretKey.generate(model.parameters)
    keys, request = model.keys(secret), model.encrypt(secret, np.zeros(model.inputs[0].shape, dtype=int))
    data, server = request.to_bytes(), hg.Server(keys)
    with served.client(model.name, timeout=300.0) as client:
        client.upload_keys(keys)
        service = medians(lambda: client.run(request).shape, repeats)
    library = medians(lambda: model.run(server, server.from_bytes(data)).to_bytes(), repeats)
    sizes = {"request_bytes": len(data), "answer_bytes": len(model.run(server, request).to_bytes())}
    return {"model": model.name, "library": library, "service": service, **sizes}


class CutError(Exception):
    """Raised by the progress callback to stop an upload in the middle."""


def upload(served: Served, path: Path, folder: Path) -> dict[str, Any]:
    """Uploads one set of large keys from a file without interruption, and another set that is interrupted in the middle and
    resumed.
    """
    model = hg.ModelBundle.load(path)
    before, found = served.peak_bytes(), dict[str, Any]()
    for name in ("whole", "cut"):
        secret = hg.SecretKey.generate(model.parameters)
        one = len(secret.evaluation_keys(rotations=[1], relinearize=False).to_bytes())
        steps = sorted({*model.needs.get("rotations", []), *range(1, _UPLOAD // one)})
        secret.evaluation_keys(**model.needs | {"rotations": steps}).save(folder / f"{name}.hg")
        data = memoryview((folder / f"{name}.hg").read_bytes())
        hashlib.sha256(data).hexdigest()  # reads the file once, so that it is in the system's cache
        client = served.client(model.name, timeout=300.0)
        start = time.perf_counter()
        if name == "cut":

            def half(share: float) -> None:
                if share > 0.5:
                    raise CutError

            with contextlib.suppress(CutError):
                client._upload(data, half)
            start = time.perf_counter()
        client._upload(data, None)
        found[name] = {"seconds": time.perf_counter() - start, "bytes": len(data)}
    return found | {"peak_before": before, "peak_bytes": served.peak_bytes()}


@contextlib.contextmanager
def service(names: Sequence[str], jobs: int, *more: str) -> Iterator[tuple[Served, dict[str, Path], Path]]:
    """Starts a service with models of shipped networks, by name; "large" is the model with large keys."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = {network: folder / f"{network}.hgm" for network in names}
        for network, path in models.items():
            load.large_model(folder) if network == "large" else nn.setup(network).export(path)
        served = Served(folder, list(models.values()), jobs, *more)
        try:
            yield served, models, folder
        finally:
            served.stop()


def measured(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yields a row per measurement; each measurement has a separate service."""
    if "overhead" in given.what:
        with service(("digits", "mnist-packed"), 16) as (served, models, _):
            yield from ({"part": "runs"} | overhead(served, path, given.repeats) for path in models.values())
    if "uploads" in given.what:
        with service(("digits",), 16) as (served, models, folder):
            yield {"part": "uploads"} | upload(served, models["digits"], folder)
    if "shared" in given.what:
        yield from ({"part": "shared"} | load.shared(name) for name in ("digits", "mnist-packed"))
    if "mixed" in given.what:
        with service(("hcnn5",), 16) as (served, models, _):
            yield {"part": "mixed"} | load.mixed(served, models["hcnn5"], given.users, given.rounds)
    if "crowd" in given.what:
        with service((_LOADED,), 2 * given.clients) as (served, models, _):
            yield {"part": "crowd"} | load.crowd(served, models[_LOADED], given.clients, given.seconds, given.kill)
    if "cuts" in given.what:
        with service(("digits",), 16) as (served, models, _):
            yield {"part": "cuts"} | serving_cuts.cuts(served, models["digits"], given.events, given.askers)
    if "lookups" in given.what:
        yield {"part": "lookups"} | serving_lookups.lookups(given.table, given.crowds, given.together, given.seconds)
    if "hostile" in given.what:
        yield {"part": "hostile"} | serving_hostile.measured(given.tenants, given.pairs, given.seconds)
    if "large" in given.what:
        with service(("large",), 16, "--memory-limit", "4G") as (served, models, folder):
            yield {"part": "large"} | load.large(served, models["large"], folder, given.gigabytes)


def main() -> None:
    """Parses the command line, prints and writes the results."""
    parser = common.parser(
        __doc__,
        clients=200,
        seconds=(60.0, "seconds during which clients send requests"),
        kill=(False, "kill the service by SIGKILL in the middle"),
        events=(100, "number of connection faults, restarts and kills"),
        askers=(3, "number of clients meanwhile, besides one that uploads"),
        users=(3, "number of users that send batches"),
        rounds=2,
        repeats=30,
        gigabytes=(10.0, "GB of large keys"),
        table=(1.0, "GiB of the table for look-ups"),
        together=(32, "most questions per batch"),
        tenants=(8, "number of concurrent tenants"),
        pairs=(3, "number of pairs of measurements: tenants alone, and beside a hostile tenant"),
        add=(False, "keep the file's other measurements"),
    )
    parser.add_argument("--what", nargs="+", choices=_ALL, default=_ALL[:-2], help="measurements; large needs disk space")
    parser.add_argument(
        "--crowds", type=int, nargs="+", default=[1, 16, 64], help="numbers of concurrent clients of look-ups"
    )
    given = parser.parse_args()
    rows = results.read(given.out)["results"] if given.add and given.out.exists() else []
    for row in measured(given):
        print(json.dumps(row, indent=1))
        rows = [other for other in rows if other["part"] != row["part"] or other.get("model") != row.get("model")] + [row]
        report = common.report(rows, what="a service over loopback TLS", engine=common.engine(), load=common.load())
        results.save(given.out, report)


if __name__ == "__main__":
    main()
