"""Measures times and failures of a service's tenants alone, and beside a hostile tenant that runs all known attacks at once.

The hostile tenant is a separate process: `python serving_hostile.py PLACE`, started by `measured`. The tenant has a token and several
loopback addresses. The hostile tenant gets only idle processor time (SCHED_IDLE), because a real attacker would use another
machine."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import itertools
import json
import os
import secrets
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.runners import common
from benchmarks.serving.process import Served
from heliograph import nn
from heliograph.serving.access import new_token

_MODEL = "digits"
_ADDRESSES = 9  # number of loopback addresses of the hostile tenant
_CONNECTIONS, _WATCHERS, _SILENT = 2100, 1200, 400
_SETTLED = 2.0  # seconds until the hostile tenant's attacks are active
_RAW = (
    b"GET /livez HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n" % (b"a" * 300_000),
    b"GET /livez HTTP/1.1\r\nHost: x\r\n%s\r\n" % b"".join(b"X-%d: a\r\n" % k for k in range(5000)),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551621\r\n\r\nabc",
    b"PUT /v1/blobs/%s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\nabc" % (b"a" * 64),
    b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%s" % (b"10000\r\n" + b"x" * 65536 + b"\r\n"),
    b"GET /v1/models/..%2f..%2fetc%2fpasswd HTTP/1.1\r\nHost: x\r\n\r\n",
)


# The tenants


class Tenant(threading.Thread):
    """A client with its own keys that sends the next request as soon as it has an answer."""

    def __init__(self, client: hg.Client, request: Any, end: float) -> None:
        super().__init__(daemon=True)
        self.client, self.request, self.end = client, request, end
        self.times, self.errors = list[float](), list[str]()
        self.last: Any = None

    def run(self) -> None:
        """Sends requests until the end of the phase, and counts answers and errors."""
        while time.monotonic() < self.end:
            start = time.perf_counter()
            try:
                self.last = self.client.run(self.request)
                self.times.append(time.perf_counter() - start)
            except hg.HeliographError as error:
                self.errors.append(f"{type(error).__name__}: {error}"[:200])


def _phase(parties: list[tuple[Any, hg.Client, Any]], seconds: float) -> dict[str, Any]:
    """Runs all tenants concurrently for the given seconds."""
    end = time.monotonic() + seconds
    tenants = [Tenant(client, request, end) for _, client, request in parties]
    for one in tenants:
        one.start()
    for one in tenants:
        one.join()
    digit = np.random.default_rng(1).integers(0, 17, (8, 8))
    clear = nn.load(_MODEL).clear_logits([digit])[0]
    scores = [
        c.model.decrypt(s, t.last, like=digit) for (s, c, _), t in zip(parties, tenants, strict=True) if t.last is not None
    ]
    times = sorted(t for one in tenants for t in one.times)
    return {
        **{"answers": len(times), "failures": [error for one in tenants for error in one.errors]},
        **{"wrong": sum(not np.array_equal(one, clear) for one in scores), "median": statistics.median(times)},
        **{"p99": times[int(0.99 * (len(times) - 1))], "longest": times[-1], "load": round(os.getloadavg()[0], 2)},
    }


@contextlib.contextmanager
def _attacked(place: dict[str, Any], folder: Path) -> Iterator[dict[str, Any]]:
    """Runs the hostile tenant during the block; yields its counts, filled in afterwards."""
    (folder / "place.json").write_text(json.dumps(place), encoding="utf-8")
    words = [*common.module("serving.hostile"), str(folder / "place.json")]
    done: dict[str, Any] = {}
    with subprocess.Popen(words, cwd=common.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # by now the attacks are active
            time.sleep(_SETTLED)
            yield done
        finally:
            out, _ = process.communicate("", 60)
            done.update(json.loads(out.splitlines()[-1]))


def measured(tenants: int, pairs: int, seconds: float) -> dict[str, Any]:
    """Measures pairs of phases of the given seconds: the tenants alone, then beside the hostile tenant."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        nn.setup(_MODEL).export(folder / f"{_MODEL}.hgm")
        names = [f"tenant{k}" for k in range(tenants)] + [f"hostile{k}" for k in range(pairs)]
        tokens = {one: new_token(one) for one in names}
        (folder / "tokens").write_text("".join(f"{line}\n" for _, line in tokens.values()), encoding="utf-8")
        limits = [
            "--max-queue",
            "64",
            "--max-jobs-per-client",
            "16",
            "--quota",
            "4G",
            "--grpc-port",
            "0",
            "--tokens",
            str(folder / "tokens"),
        ]
        served = Served(folder, [folder / f"{_MODEL}.hgm"], 16, *limits)
        try:
            return _measured(served, folder, {one: token for one, (token, _) in tokens.items()}, pairs, seconds)
        finally:
            served.stop()


def _measured(served: Served, folder: Path, tokens: dict[str, str], pairs: int, seconds: float) -> dict[str, Any]:
    parties = []
    digit = np.random.default_rng(1).integers(0, 17, (8, 8))
    hostile = [tokens.pop(f"hostile{number}") for number in range(pairs)]  # a separate quota per pair
    for token in tokens.values():
        client = served.client(_MODEL, token=token, timeout=60.0)
        secret = hg.SecretKey.generate(client.model.parameters)
        client.upload_keys(secret)
        parties.append((secret, client, client.model.encrypt(secret, digit)))
    place = {"http": served.port, "grpc": served.ports["grpc"], "ca": str(served.pem)}
    found = list[dict[str, Any]]()
    _phase(parties, 2.0)  # warm-up
    for number in range(pairs):
        alone = _phase(parties, seconds) if number % 2 == 0 else {}
        with _attacked(place | {"token": hostile[number]}, folder) as done:
            beside = _phase(parties, seconds)
        alone = alone or _phase(parties, seconds)
        found.append({"alone": alone, "beside": beside, "done": done})
    return {
        **{"model": _MODEL, "tenants": len(parties), "seconds": seconds, "pairs": found},
        **{"ratio": statistics.median(one["beside"]["p99"] / one["alone"]["p99"] for one in found)},
        **{"failures": sum(len(one["beside"]["failures"]) for one in found)},
        **{"wrong": sum(one["beside"]["wrong"] for one in found), "peak_bytes": served.peak_bytes()},
    }


# The hostile tenant


class Hostile:
    """Runs all attacks, each in a thread, until it is stopped; counts the service's answers."""

    def __init__(self, place: dict[str, Any]) -> None:
        self.http, self.grpc, self.token, self.ca = place["http"], place["grpc"], place["token"], place["ca"]
        self.context = ssl.create_default_context(cafile=self.ca)
        self.headers, self.stopped, self.counts = (
            {"Authorization": f"Bearer {self.token}"},
            threading.Event(),
            Counter[str](),
        )
        self._sources = itertools.cycle(f"127.0.0.{2 + k}" for k in range(_ADDRESSES))
        self.client = hg.Client(f"https://localhost:{self.http}", model=_MODEL, token=self.token, ca=self.ca)
        self.secret = hg.SecretKey.generate(self.client.model.parameters)
        self.keys = self.client.upload_keys(self.secret)
        self.body = self.client.model.encrypt(self.secret, np.zeros((8, 8), int)).to_bytes()

    def line(self) -> ssl.SSLSocket:
        """Returns a connection from the next of the tenant's addresses."""
        plain = socket.create_connection(("localhost", self.http), 10, (next(self._sources), 0))
        return self.context.wrap_socket(plain, server_hostname="localhost")

    def asks(self, name: str, requests: Callable[[], tuple[str, str, Any, dict[str, str]]]) -> None:
        """Sends one request after another on one connection."""
        connection = http.client.HTTPSConnection("localhost", self.http, context=self.context, timeout=40)
        connection.source_address = (next(self._sources), 0)
        while not self.stopped.is_set():
            method, path, body, headers = requests()
            try:
                connection.request(method, path, body, headers)
                reply = connection.getresponse()
                reply.read()
                self.counts[f"{name} {reply.status}"] += 1
            except (OSError, http.client.HTTPException) as error:
                self.counts[f"{name} {type(error).__name__}"] += 1
                connection.close()

    def put(self, digest: str, body: bytes, total: int) -> tuple[str, str, Any, dict[str, str]]:
        """Returns a request that uploads a first piece."""
        return "PUT", f"/v1/blobs/{digest}", body, self.headers | {"Upload-Offset": "0", "Upload-Length": str(total)}

    # Each attack

    def unfinished_uploads(self) -> None:
        """Starts uploads and never ends them."""
        self.asks("unfinished uploads", lambda: self.put(secrets.token_hex(32), b"x", 2))

    def announced_bytes(self) -> None:
        """Announces large uploads and sends one byte of each."""
        self.asks("announced bytes", lambda: self.put(secrets.token_hex(32), b"x", 3 << 30))

    def tiny_objects(self) -> None:
        """Uploads whole objects of a few hundred bytes."""

        def one() -> tuple[str, str, Any, dict[str, str]]:
            about = {"arrays": [], "header": {"i": secrets.token_hex(4)}, "type": "heliograph.bfv.evaluation-keys"}
            head = json.dumps(about, separators=(",", ":"), sort_keys=True).encode()
            aligned = -(-(32 + len(head)) // 64) * 64
            body = bytes.fromhex("8948454c494f0d0a") + struct.pack("<IIQQ", 2, 0, len(head), aligned + 32) + head
            body += bytes(aligned - len(body))
            body += hashlib.sha256(body).digest()
            return self.put(hashlib.sha256(body).hexdigest(), body, len(body))

        self.asks("tiny objects", one)

    def numbers(self) -> None:
        """Asks for jobs with a wait of NaN seconds."""
        path = f"/v1/jobs?id={secrets.token_hex(16)}&model={_MODEL}&keys={self.keys}&parts={len(self.body)}&wait=nan"
        self.asks("wait=nan", lambda: ("POST", path, self.body, self.headers))

    def wrong_tokens(self) -> None:
        """Uses another wrong token each time."""
        self.asks(
            "wrong tokens", lambda: ("GET", "/v1/models", None, {"Authorization": f"Bearer {secrets.token_urlsafe(32)}"})
        )

    def reused_ids(self) -> None:
        """Sends different requests with one id."""
        path = f"/v1/jobs?id={secrets.token_hex(16)}&model={_MODEL}&keys={self.keys}&parts={len(self.body)}&wait=10"
        bodies = itertools.chain([self.body], itertools.repeat(bytes(len(self.body))))
        self.asks("reused ids", lambda: ("POST", path, next(bodies), self.headers))

    def raw_bytes(self) -> None:
        """Sends bytes that are not HTTP, or exceed its limits."""
        for data in itertools.cycle(_RAW):
            if self.stopped.is_set():
                return
            with contextlib.suppress(OSError), self.line() as line:
                line.settimeout(5)
                line.sendall(data)
                line.recv(1000)
            self.counts["raw bytes"] += 1

    def idle_connections(self) -> None:
        """Opens connections; each sends one request, and another every 15 s while it is open."""
        held = list[ssl.SSLSocket]()
        while not self.stopped.is_set():
            for _ in range(_CONNECTIONS):
                if self.stopped.is_set():
                    return
                try:
                    one = self.line()
                    one.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
                    one.recv(1000)
                    held.append(one)
                    self.counts["idle connections"] += 1
                except OSError:
                    self.counts["idle connections refused"] += 1
            self.stopped.wait(15)
            for one in held:
                with contextlib.suppress(OSError):
                    one.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            for one in held[:-_CONNECTIONS]:
                one.close()
            del held[:-_CONNECTIONS]

    def slow_requests(self) -> None:
        """Sends the first half of requests, then one byte every 5 s."""
        while not self.stopped.is_set():
            with contextlib.ExitStack() as stack:
                held = list[ssl.SSLSocket]()
                for _ in range(16):
                    path = f"/v1/jobs?id={secrets.token_hex(16)}&model={_MODEL}&keys={self.keys}&parts=200000"
                    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.token}\r\nContent-Length: 200000\r\n\r\n"
                    with contextlib.suppress(OSError):
                        held.append(stack.enter_context(self.line()))
                        held[-1].sendall(head.encode() + b"a")
                        self.counts["slow requests"] += 1
                for _ in range(3):
                    self.stopped.wait(5)
                    for one in held:
                        with contextlib.suppress(OSError):
                            one.sendall(b"a")

    def runs(self) -> None:
        """Always runs as many jobs as the service allows."""
        client = hg.Client(f"https://localhost:{self.http}", model=_MODEL, token=self.token, ca=self.ca, timeout=20.0)
        client._keys, client._secret = self.keys, self.secret
        request = client.model.encrypt(self.secret, np.zeros((8, 8), int))
        while not self.stopped.is_set():
            try:
                client.run(request)
                self.counts["runs"] += 1
            except hg.HeliographError as error:
                self.counts[f"runs {type(error).__name__}"] += 1

    def streams(self) -> None:
        """Opens gRPC streams: health watchers, reflection and runs without messages."""
        try:
            import grpc
            from grpc_health.v1 import health_pb2, health_pb2_grpc
            from grpc_reflection.v1alpha import reflection_pb2_grpc
        except ImportError:
            return
        trust = grpc.ssl_channel_credentials(Path(self.ca).read_bytes())
        run, metadata = "/heliograph.v1.Inference/Run", (("authorization", f"Bearer {self.token}"),)

        def silence() -> Iterator[Any]:
            self.stopped.wait()
            yield from ()

        for count, kind in itertools.cycle(((_WATCHERS, "watchers"), (40, "reflection"), (_SILENT, "silent runs"))):
            options = [("grpc.use_local_subchannel_pool", 1)]
            channels = [grpc.secure_channel(f"localhost:{self.grpc}", trust, options) for _ in range(count // 100 + 1)]
            calls = list[Any]()
            for number in range(count):
                if self.stopped.is_set():
                    break
                channel = channels[number % len(channels)]
                if kind == "watchers":
                    calls.append(health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest()))
                elif kind == "reflection":
                    calls.append(reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(silence()))
                elif number < 40:  # each of these streams uses a thread of the server
                    calls.append(channel.stream_stream(run)(silence(), metadata=metadata))
                self.counts[kind] += 1
            self.stopped.wait(3)
            for call in calls:
                call.cancel()
            for channel in channels:
                channel.close()
            if self.stopped.is_set():
                return

    def begin(self) -> None:
        """Starts all attacks."""
        several = [self.runs] * 16
        alone = [
            *(self.unfinished_uploads, self.announced_bytes, self.tiny_objects, self.numbers, self.wrong_tokens),
            *(self.reused_ids, self.raw_bytes, self.idle_connections, self.slow_requests, self.streams),
        ]
        for attack in (*several, *alone):
            threading.Thread(target=attack, daemon=True).start()


def main() -> None:
    """Runs the hostile tenant until its standard input ends."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    hostile = Hostile(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    hostile.begin()
    print("begun", flush=True)
    sys.stdin.read()
    hostile.stopped.set()
    time.sleep(0.2)
    print(json.dumps(dict(sorted(hostile.counts.items()))), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
