"""A service in its own process on loopback, for tests: certificates, models, log events, engines."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

import heliograph as hg
from heliograph import nn
from heliograph.serving.log import EVENTS

#: Time limit in seconds of steps that must end; it is long enough for a busy machine.
PATIENCE = 120.0
DIGIT = np.random.default_rng(1).integers(0, 17, (8, 8))


def expected(digit: Any = DIGIT) -> Any:
    """Returns the scores of the unencrypted network."""
    return nn.load("digits").clear_logits([digit])[0]


def slow_network(times: int) -> nn.Network:
    """Returns the digits network with `times` as many hidden neurons; the added neurons do not change the scores."""
    one, two = nn.load("digits").layers
    wide = nn.Layer("dense1", np.tile(one.weight, (times, 1)), np.tile(one.bias, times), square=True)
    weight = np.zeros((two.weight.shape[0], two.weight.shape[1] * times), dtype=np.int64)
    weight[:, : two.weight.shape[1]] = two.weight
    return nn.Network("slow", (wide, nn.Layer("dense2", weight, two.bias)), (8, 8), nn.load("digits").meta)


def export(folder: Path) -> list[Path]:
    """Writes two model files: digits takes milliseconds, slow takes seconds."""
    nn.setup("digits").export(folder / "digits.hgm")
    wide = hg.bfv.parameters(n=8192, log_q=150, special=1, plain_modulus=1032193)
    slow_network(12).export(folder / "slow.hgm", parameters=wide, name="slow")
    return [folder / "digits.hgm", folder / "slow.hgm"]


def within(seconds: float, ask: Callable[[float], Any]) -> Any:
    """Calls `ask` with a time limit and returns its result, or raises the service's error. If a busy machine gives no answer
    within the limit, `ask` is called again with a longer limit.

    """
    while True:
        try:
            return ask(seconds)
        except hg.UnreachableError:
            if seconds > PATIENCE:
                raise
        seconds *= 4


class Authority:
    """A certificate authority whose certificates are valid for one day, beginning `ago` days ago."""

    def __init__(self, folder: Path, ago: int = 0) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec

        self.folder, self._x509 = folder, x509
        self._now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=ago)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._new = lambda: ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"tests {folder.name}")])
        self.file = folder / "ca.pem"
        self.file.write_bytes(self._signed(self.name, self._key, authority=True))

    def _signed(self, name: Any, key: Any, authority: bool = False) -> bytes:
        from cryptography.hazmat.primitives import hashes, serialization

        x509, now = self._x509, self._now
        made = x509.CertificateBuilder().subject_name(name).issuer_name(self.name).public_key(key.public_key())
        made = made.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
        made = made.not_valid_after(now + datetime.timedelta(days=1))
        made = made.add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        if not authority:
            places = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            made = made.add_extension(x509.SubjectAlternativeName(places), critical=False)
        found: bytes = made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        return found

    def issue(self, common_name: str) -> Path:
        """Issues a certificate; returns one file with the certificate and the private key that belongs to it."""
        from cryptography.hazmat.primitives import serialization

        key, x509 = self._new(), self._x509
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
        plain = serialization.NoEncryption()
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        path = self.folder / f"{common_name}.pem"
        path.write_bytes(private + self._signed(name, key))
        return path


def computed(processes: list[int]) -> float:
    """Returns the processor time in seconds that these processes have used, summed over all their threads."""
    words = [Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split() for process in processes]
    return sum(int(user) + int(system) for user, system in (w[11:13] for w in words)) / os.sysconf("SC_CLK_TCK")


def environment_of_tests() -> dict[str, str]:
    """Returns an environment with this package's path and one thread."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "HELIOGRAPH_THREADS": "1"}


class Running:
    """A running process of a service."""

    def __init__(
        self,
        arguments: list[str],
        environment: dict[str, str],
        before: Callable[[], None] | None = None,
        host: str | None = None,
    ) -> None:
        where = ["ip", "netns", "exec", host] if host else []
        command = [*where, sys.executable, "-m", "heliograph.cli", "serve", *arguments]
        env = environment_of_tests() | environment
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env, preexec_fn=before)
        self.lines: list[str] = []
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._listening.wait(PATIENCE), self.text
        assert self.ports, self.text

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if '"listening"' in line:
                self._listening.set()
        self._listening.set()

    @property
    def text(self) -> str:
        """The text that the service has logged so far."""
        return "".join(self.lines)

    def events(self, name: str) -> list[dict[str, Any]]:
        """Returns the log events of this name."""
        assert name in EVENTS
        return [words for line in self.lines if (words := json.loads(line))["event"] == name]

    def errors(self) -> list[dict[str, Any]]:
        """Returns the log events of level "error"."""
        return [words for line in self.lines if (words := json.loads(line))["level"] == "error"]

    @property
    def ports(self) -> dict[str, Any]:
        """Maps a protocol to the port on which the service listens."""
        return next(iter(self.events("listening")), {})

    def until(self, told: Callable[[], Any], seconds: float = PATIENCE) -> Any:
        """Polls until `told` returns a true value, and returns it."""
        end = time.monotonic() + seconds
        while not (found := told()):
            assert time.monotonic() < end, self.text
            time.sleep(0.01)
        return found

    def engines(self) -> list[int]:
        """Returns the process ids of the engines."""
        pid = self.process.pid
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def signal(self, number: int) -> None:
        """Sends a signal to the service."""
        self.process.send_signal(number)

    def ended(self, seconds: float = PATIENCE) -> int:
        """Waits for the service to exit and returns its exit status."""
        status = self.process.wait(seconds)
        self._reader.join(PATIENCE)
        if not self._reader.is_alive() and self.process.stderr is not None:
            self.process.stderr.close()
        return status

    def memory(self) -> int:
        """Returns the peak resident memory of the service process, in bytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM")) << 10


@contextmanager
def running(
    *arguments: Any,
    environment: dict[str, str] | None = None,
    before: Callable[[], None] | None = None,
    host: str | None = None,
) -> Iterator[Running]:
    """Starts a service on free ports, on a host of `net_rig` if a host is named. Ends the service at exit if the test has
    not ended it.
    """
    made = Running([*map(str, arguments), "--port", "0"], environment or {}, before, host)
    try:
        yield made
    finally:
        with contextlib.suppress(OSError):
            for engine in made.engines():
                go_on(engine)
        with contextlib.suppress(ProcessLookupError):
            if made.process.poll() is None:
                made.process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    made.process.wait(30)
                made.process.kill()
        made.ended()


@contextmanager
def started(*arguments: Any) -> Iterator[subprocess.Popen[str]]:
    """Runs the command in its own process with readable output, and ends it at exit."""
    command = [sys.executable, "-m", "heliograph.cli", *map(str, arguments)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            yield process
        finally:
            process.kill()


def tokens(path: Path, *names: str) -> dict[str, str]:
    """Writes a file of tokens and returns the tokens by name."""
    made = {name: token_of(name) for name in names}
    path.write_text("# clients\n" + "".join(line + "\n" for _, line in made.values()))
    return {name: token for name, (token, _) in made.items()}


def token_of(name: str) -> tuple[str, str]:
    """Returns a token and its line in the file of tokens."""
    from heliograph.serving.access import new_token

    return new_token(name)


def stop(pid: int) -> None:
    """Suspends an engine."""
    os.kill(pid, signal.SIGSTOP)


def go_on(pid: int) -> None:
    """Resumes an engine."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def client_of(service: Running, model: str | None = "digits", **options: Any) -> hg.Client:
    """Returns a client over plain HTTP."""
    return hg.Client(f"http://127.0.0.1:{service.ports['http']}", model=model, **options)


class Place:
    """A service with TLS and tokens, and the data of its clients. `running` starts the service with further arguments."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.folder, self.authority, self.models = folder, Authority(folder), export(folder)
        self.tokens, self.first = tokens(folder / "tokens", *names), names[0]
        self.service: Running

    @contextmanager
    def running(self, *more: Any) -> Iterator[Self]:
        """Runs the service with further command-line arguments."""
        server = self.authority.issue("localhost")
        words = [*self.models, "--store", self.folder / "store", "--tls-cert", server, "--tokens", self.folder / "tokens"]
        with running(*words, *more) as self.service:
            yield self

    @property
    def address(self) -> str:
        """The HTTPS address."""
        return f"https://localhost:{self.service.ports['http']}"

    def client(self, name: str | None = None, model: str | None = "digits", **options: Any) -> hg.Client:
        """Returns a client with the token of `name`, by default of the first name."""
        token = self.tokens[name or self.first]
        return hg.Client(self.address, model=model, token=token, ca=self.authority.file, **options)


def party(client: hg.Client) -> hg.SecretKey[Any, Any]:
    """Makes a secret key and uploads its evaluation keys to the service."""
    secret = hg.SecretKey.generate(client.model.parameters)
    client.upload_keys(secret)
    return secret
