"""A service over loopback TLS: what it adds to a library call, uploads whole and cut, its memory meanwhile, and many clients at once.

    python benchmarks/serving.py --clients 200 --seconds 120 --out benchmarks/results/mine-serving.json

Service and clients share this machine's cores. The library's time is that of reading a request's bytes, computing, and writing the answer's;
the service's is `Client.run` of an encrypted request, from bytes to an answer that is read, without encryption and decryption.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import run as runner

import heliograph as hg
from heliograph import nn

_UPLOAD = 181 << 20  # bytes of keys, about
_LOADED = "mnist-small"  # whose keys are small, for many clients


def certificate(folder: Path) -> Path:
    """Of localhost, signed by itself, by OpenSSL's command; its key in the same file."""
    path = folder / "server.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*words, "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
    path.write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
    return path


class Served:
    """A service in a process of its own."""

    def __init__(self, folder: Path, models: list[Path], jobs: int) -> None:
        self.pem = certificate(folder)
        words = ["serve", *map(str, models), "--store", str(folder / "store"), "--port", "0", "--tls", str(self.pem)]
        words += ["--queue", str(jobs), "--jobs", str(jobs), "--quota", "64G"]
        self._log = (folder / "log").open("w+", encoding="utf-8")
        self.process = subprocess.Popen([sys.executable, "-m", "heliograph.cli", *words], stderr=self._log)
        self.port = 0
        while not self.port:
            time.sleep(0.05)
            if self.process.poll() is not None:
                raise SystemExit((folder / "log").read_text(encoding="utf-8"))
            lines = (folder / "log").read_text(encoding="utf-8").splitlines()
            self.port = next((json.loads(line)["http"] for line in lines if '"listening"' in line), 0)

    def client(self, model: str, **options: Any) -> hg.Client:
        """By TLS."""
        return hg.Client(f"https://localhost:{self.port}", model=model, ca=self.pem, **options)

    def peak_bytes(self) -> int:
        """Of the service's own process so far."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) << 10

    def stop(self) -> None:
        """Gracefully."""
        self.process.terminate()
        self.process.wait(60)
        self._log.close()


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


def crowd(served: Served, path: Path, count: int, seconds: float) -> dict[str, Any]:
    """Many clients, each with a key of its own, each asking again as soon as it is answered."""
    model, lock = hg.SealedModel.load(path), threading.Lock()
    picture = np.zeros(model.inputs[0].shape, dtype=int)
    clients = []
    for _ in range(count):
        secret = hg.SecretKey.generate(model.parameters)
        client = served.client(model.name, timeout=600.0)
        client.upload_keys(secret)
        clients.append((client, model.encrypt(secret, picture), secret))
    times, refused = list[float](), list[str]()
    end = time.monotonic() + seconds

    def ask(client: hg.Client, request: Any) -> None:
        while time.monotonic() < end:
            start = time.perf_counter()
            try:
                client.run(request)
            except hg.HeliographError as error:
                with lock:
                    refused.append(type(error).__name__)
                continue
            with lock:
                times.append(time.perf_counter() - start)

    threads = [threading.Thread(target=ask, args=(client, request)) for client, request, _ in clients]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.monotonic() - start
    times.sort()
    return {
        **{"model": model.name, "clients": count, "seconds": round(taken, 2), "answers": len(times), "refused": refused},
        **{"a_second": len(times) / taken, "median": statistics.median(times), "p99": times[int(0.99 * (len(times) - 1))]},
        "peak_bytes": served.peak_bytes(),
    }


@contextlib.contextmanager
def service(jobs: int) -> Iterator[tuple[Served, dict[str, Path], Path]]:
    """With its models."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = {network: folder / f"{network}.hgm" for network in ("digits", "mnist-packed", _LOADED)}
        for network, path in models.items():
            nn.setup(network).seal(path)
        served = Served(folder, list(models.values()), jobs)
        try:
            yield served, models, folder
        finally:
            served.stop()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with service(2 * given.clients) as (served, models, folder):
        runs = [overhead(served, models[name], given.repeats) for name in ("digits", "mnist-packed")]
        uploads = upload(served, models["digits"], folder)
        loaded = crowd(served, models[_LOADED], given.clients, given.seconds)
    found = {
        **{"what": "a service over loopback TLS", "when": datetime.now(UTC).isoformat(timespec="seconds")},
        **{"machine": runner.machine(), "engine": runner.engine(), "commit": runner.commit(), "load": runner.load()},
        **{"runs": runs, "uploads": uploads, "crowd": loaded},
    }
    print(json.dumps(found, indent=1))
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
