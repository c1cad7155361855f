"""A service over loopback TLS: what it adds to a library call, uploads whole and cut, its memory meanwhile, users who send batches,
many clients at once, of models and of a table, calls while connections die and the service is killed, and tenants beside a hostile one.

    python benchmarks/serving.py --seconds 600 --kill --out benchmarks/results/mine-serving.json
    python benchmarks/serving.py --what lookups --seconds 30 --add --out benchmarks/results/mine-serving.json
    python benchmarks/serving.py --what cuts --events 1000 --add --out benchmarks/results/mine-serving.json
    python benchmarks/serving.py --what large --add --out benchmarks/results/mine-serving.json
    python benchmarks/serving.py --what hostile --seconds 30 --out benchmarks/results/mine-serving-hostile.json

Service and clients share this machine's cores. The library's time is that of reading a request's bytes, computing, and writing the answer's;
the service's is `Client.run` of an encrypted request, from bytes to an answer that is read, without encryption and decryption.
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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import run as runner
import serving_cuts
import serving_hostile
import serving_load as load
import serving_lookups
from serving_process import Served

import heliograph as hg
from heliograph import nn

_ALL = ("overhead", "uploads", "shared", "mixed", "crowd", "cuts", "lookups", "hostile", "large")
_UPLOAD = 181 << 20  # bytes of keys, about
_LOADED = "mnist-small"  # whose keys are small, for many clients


def medians(work: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Seconds, after two that do not count."""
    times = []
    for number in range(repeats + 2):
        start = time.perf_counter()
        work()
        if number > 1:
            times.append(time.perf_counter() - start)
    return {"median": statistics.median(times), "least": min(times)}


def overhead(served: Served, path: Path, repeats: int) -> dict[str, Any]:
    """One model: by the library, and by the service."""
    model = hg.SealedModel.load(path)
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
    """The client is stopped in the middle."""


def upload(served: Served, path: Path, folder: Path) -> dict[str, Any]:
    """Large keys from a file: whole; another set cut in the middle, and gone on with."""
    model = hg.SealedModel.load(path)
    before, found = served.peak_bytes(), dict[str, Any]()
    for name in ("whole", "cut"):
        secret = hg.SecretKey.generate(model.parameters)
        one = len(secret.evaluation_keys(rotations=[1], relinearize=False).to_bytes())
        steps = sorted({*model.needs.get("rotations", []), *range(1, _UPLOAD // one)})
        secret.evaluation_keys(**model.needs | {"rotations": steps}).save(folder / f"{name}.hg")
        data = memoryview((folder / f"{name}.hg").read_bytes())
        hashlib.sha256(data).hexdigest()  # in the system's cache
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
    """With its models, by the names of shipped networks; "large" is the one of large keys."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = {network: folder / f"{network}.hgm" for network in names}
        for network, path in models.items():
            load.large_model(folder) if network == "large" else nn.setup(network).seal(path)
        served = Served(folder, list(models.values()), jobs, *more)
        try:
            yield served, models, folder
        finally:
            served.stop()


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """What was asked for, each by a service of its own."""
    found: dict[str, Any] = {}
    if "overhead" in given.what:
        with service(("digits", "mnist-packed"), 16) as (served, models, _):
            found["runs"] = [overhead(served, path, given.repeats) for path in models.values()]
    if "uploads" in given.what:
        with service(("digits",), 16) as (served, models, folder):
            found["uploads"] = upload(served, models["digits"], folder)
    if "shared" in given.what:
        found["shared"] = [load.shared(name) for name in ("digits", "mnist-packed")]
    if "mixed" in given.what:
        with service(("hcnn5",), 16) as (served, models, _):
            found["mixed"] = load.mixed(served, models["hcnn5"], given.users, given.rounds)
    if "crowd" in given.what:
        with service((_LOADED,), 2 * given.clients) as (served, models, _):
            found["crowd"] = load.crowd(served, models[_LOADED], given.clients, given.seconds, given.kill)
    if "cuts" in given.what:
        with service(("digits",), 16) as (served, models, _):
            found["cuts"] = serving_cuts.cuts(served, models["digits"], given.events, given.askers)
    if "lookups" in given.what:
        found["lookups"] = serving_lookups.lookups(given.table, given.crowds, given.together, given.seconds)
    if "hostile" in given.what:
        found["hostile"] = serving_hostile.measured(given.tenants, given.pairs, given.seconds)
    if "large" in given.what:
        with service(("large",), 16, "--memory", "4G") as (served, models, folder):
            found["large"] = load.large(served, models["large"], folder, given.gigabytes)
    return found


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--what", nargs="+", choices=_ALL, default=_ALL[:-2], help="what is measured; large needs a disk")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0, help="for which the clients ask")
    parser.add_argument("--kill", action="store_true", help="the service by SIGKILL in the middle of that")
    parser.add_argument(
        "--events", type=int, default=100, help="connections that die, and services that are stopped or killed"
    )
    parser.add_argument("--askers", type=int, default=3, help="clients meanwhile, besides one that uploads")
    parser.add_argument("--users", type=int, default=3, help="who each send batches")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--gigabytes", type=float, default=10.0, help="of large keys")
    parser.add_argument("--table", type=float, default=1.0, help="GiB of the table that is looked up")
    parser.add_argument("--crowds", type=int, nargs="+", default=[1, 16, 64], help="clients at once that look up")
    parser.add_argument("--together", type=int, default=32, help="of their questions that one reading answers")
    parser.add_argument("--tenants", type=int, default=8, help="at once, alone and beside a hostile one")
    parser.add_argument(
        "--pairs", type=int, default=3, help="of measurements: the tenants alone, and beside the hostile one"
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--add", action="store_true", help="to what the file has of other measurements")
    given = parser.parse_args()
    found = {
        **{"what": "a service over loopback TLS", "when": datetime.now(UTC).isoformat(timespec="seconds")},
        **{"machine": runner.machine(), "engine": runner.engine(), "commit": runner.commit(), "load": runner.load()},
        **measured(given),
    }
    print(json.dumps(found, indent=1))
    if given.out:
        before = json.loads(given.out.read_text(encoding="utf-8")) if given.add and given.out.exists() else {}
        given.out.write_text(json.dumps(before | found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
