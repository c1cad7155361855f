"""A service in a separate process, for measurements: TLS on loopback, and a store that survives restarts."""

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
    """Makes a self-signed certificate of localhost with OpenSSL's command; the key is in the same file."""
    path = folder / "server.pem"
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*words, "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
    path.write_bytes((folder / "key.pem").read_bytes() + (folder / "cert.pem").read_bytes())
    return path


def _told(pid: int, name: str) -> int:
    """Returns an entry of /proc/PID/status in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name))) << 10


def resident_bytes(pid: int) -> int:
    """Returns the resident bytes of a process. Raises OSError or StopIteration if the process has ended."""
    return _told(pid, "VmRSS")


def engine_bytes(pid: int) -> int:
    """Returns the peak resident bytes of a service's engines, summed."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return sum(_told(int(child), "VmHWM") for child in children)


class Served:
    """A service in a separate process."""

    def __init__(self, folder: Path, models: list[Path], jobs: int, *more: str) -> None:
        self.pem, self._log = certificate(folder), folder / "log"
        self._words = ["serve", *map(str, models), "--store", str(folder / "store"), "--tls-cert", str(self.pem)]
        self._words += ["--max-queue", str(jobs), "--max-jobs-per-client", str(jobs), "--quota", "64G", *more]
        self.port, self._metrics = 0, 0
        self.start()

    def start(self) -> float:
        """Starts the service, after a restart on the same port; returns the seconds until it listens. Raises SystemExit on failure."""
        start = time.perf_counter()
        with self._log.open("w", encoding="utf-8") as log:
            words = [sys.executable, "-m", "heliograph.cli", *self._words, "--port", str(self.port)]
            self.process = subprocess.Popen(words, stderr=log)
        while not (started := [line for line in self.text().splitlines() if '"listening"' in line]):
            time.sleep(0.02)
            if self.process.poll() is not None:
                raise SystemExit(self.text())
        ports = json.loads(started[0])
        self.port, self._metrics, self.ports = ports["http"], ports.get("metrics", 0), ports
        return time.perf_counter() - start

    def text(self) -> str:
        """Returns the log."""
        return self._log.read_text(encoding="utf-8")

    @property
    def address(self) -> str:
        """Returns the service's URL."""
        return f"https://localhost:{self.port}"

    def client(self, model: str | None, **options: Any) -> hg.Client:
        """Returns a client."""
        return hg.Client(self.address, model=model, ca=self.pem, **options)

    def unfinished(self) -> int:
        """Returns the number of unfinished jobs."""
        with self.client(None) as client:
            return int(client.status()["queue"]["unfinished"])

    def figure(self, name: str) -> float:
        """Returns a metric by its full name; 0 if it does not exist yet. Needs `--metrics-address`."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics}/metrics", timeout=10) as reply:
            metrics = dict(line.rsplit(" ", 1) for line in reply.read().decode().splitlines())
        return float(metrics.get(name, 0))

    def peak_bytes(self) -> int:
        """Returns the peak resident bytes of the service's own process."""
        return _told(self.process.pid, "VmHWM")

    def kill(self) -> None:
        """Kills the service by SIGKILL."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Stops the service gracefully."""
        self.process.terminate()
        self.process.wait(60)
