"""A service as a process of its own, for measurements: TLS on loopback, a store that outlives it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import heliograph as hg


def certificate(folder: Path) -> Path:
    """Of localhost, signed by itself, by OpenSSL's command; its key in the same file."""
    path = folder / "server.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*words, "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
    path.write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
    return path


def _told(pid: int, name: str) -> int:
    """Bytes, of what the system tells of a process."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name))) << 10


def resident_bytes(pid: int) -> int:
    """Of a process, now. Raises OSError, StopIteration where it has ended."""
    return _told(pid, "VmRSS")


def engine_bytes(pid: int) -> int:
    """Of a service's engines so far, at most, all together."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return sum(_told(int(child), "VmHWM") for child in children)


class Served:
    """A service in a process of its own."""

    def __init__(self, folder: Path, models: list[Path], jobs: int, *more: str) -> None:
        self.pem, self._log = certificate(folder), folder / "log"
        self._words = ["serve", *map(str, models), "--store", str(folder / "store"), "--tls", str(self.pem)]
        self._words += ["--queue", str(jobs), "--jobs", str(jobs), "--quota", "64G", *more]
        self.port, self._metrics = 0, 0
        self.start()

    def start(self) -> float:
        """Starts it, again on the port that it had: in how many seconds it listens. Ends the program where it does not."""
        start = time.perf_counter()
        with self._log.open("w", encoding="utf-8") as log:
            words = [sys.executable, "-m", "heliograph.cli", *self._words, "--port", str(self.port)]
            self.process = subprocess.Popen(words, stderr=log)
        while not (told := [line for line in self.text().splitlines() if '"listening"' in line]):
            time.sleep(0.02)
            if self.process.poll() is not None:
                raise SystemExit(self.text())
        ports = json.loads(told[0])
        self.port, self._metrics, self.ports = ports["http"], ports.get("metrics", 0), ports
        return time.perf_counter() - start

    def text(self) -> str:
        """Its log."""
        return self._log.read_text(encoding="utf-8")

    @property
    def address(self) -> str:
        """By TLS."""
        return f"https://localhost:{self.port}"

    def client(self, model: str | None, **options: Any) -> hg.Client:
        """One."""
        return hg.Client(self.address, model=model, ca=self.pem, **options)

    def unfinished(self) -> int:
        """Jobs that it has."""
        with self.client(None) as client:
            return int(client.status()["queue"]["unfinished"])

    def figure(self, name: str) -> float:
        """One of its metrics, by its whole name; it was started with `--metrics`. 0 where there is none yet."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics}/metrics", timeout=10) as reply:
            told = dict(line.rsplit(" ", 1) for line in reply.read().decode().splitlines())
        return float(told.get(name, 0))

    def peak_bytes(self) -> int:
        """Of the service's own process so far."""
        return _told(self.process.pid, "VmHWM")

    def kill(self) -> None:
        """By SIGKILL, in the middle of what it does."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Gracefully."""
        self.process.terminate()
        self.process.wait(60)
