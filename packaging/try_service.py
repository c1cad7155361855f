"""try_service.py unit|image: runs the service from packaging/ as systemd or a container engine would, and sends it a digit.

    try_service.py unit ENVIRONMENT          runs heliograph.service from a Python environment that has Heliograph
    try_service.py image ROOT CONFIGURATION  runs an image's root folder; CONFIGURATION is the output of `buildah inspect`

Needs neither systemd nor an engine: bubblewrap makes the mounts, setpriv drops privileges, and a seccomp filter has systemd's own list of
system calls. Needs root, and a network namespace, because the ports are those of the files. `scripts/image.sh` calls it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "python"))

import heliograph as hg  # noqa: E402
import serving_rig as rig  # noqa: E402

PORT = 8443
_DENIED = 0x00050000 | 1  # SECCOMP_RET_ERRNO, EPERM
_ALLOWED, _X86_64 = 0x7FFF0000, 0xC000003E
_FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10}
_NO_PRIVILEGES = ["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]


# The unit's sandbox


def calls_of(words: list[str]) -> set[str]:
    """Returns the system calls of a filter's names, by `systemd-analyze`; names after ~ are removed."""
    found: set[str] = set()
    for word in words:
        if word.startswith("~"):
            found -= calls_of([word[1:]])
        elif word.startswith("@"):
            told = subprocess.run(
                ["systemd-analyze", "syscall-filter", word], capture_output=True, text=True, check=True
            ).stdout
            found |= calls_of([line.strip() for line in told.splitlines()[1:] if line.strip() and line.strip()[0] != "#"])
        else:
            found.add(word)
    return found


def filter_of(calls: set[str], families: set[int]) -> bytes:
    """Returns a seccomp program (classic BPF) that allows these calls, and sockets of these families only."""
    numbers = dict(
        re.findall(r"#define __NR_(\w+)\s+(\d+)", Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h").read_text())
    )
    known = sorted(int(numbers[call]) for call in calls if call in numbers and call != "socket")
    load, equal, back = 0x20, 0x15, 0x06
    program = [(load, 0, 0, 4), (equal, 1, 0, _X86_64), (back, 0, 0, _DENIED), (load, 0, 0, 0)]
    sockets = [(load, 0, 0, 16), *((equal, len(families) - k, 0, family) for k, family in enumerate(sorted(families)))]
    sockets += [(back, 0, 0, _DENIED), (back, 0, 0, _ALLOWED)]
    program += [(equal, 0, len(sockets), int(numbers["socket"])), *sockets]
    for number in known:
        program += [(equal, 0, 1, number), (back, 0, 0, _ALLOWED)]
    program.append((back, 0, 0, _DENIED))
    return b"".join(struct.pack("HBBI", *line) for line in program)


#: Installs a filter from a file, then executes the command after it, as systemd does directly before a service's program.
_UNDER = """
import ctypes, os, sys
data = ctypes.create_string_buffer(open(sys.argv[1], "rb").read())
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("lines", ctypes.c_void_p)]
program = Program((len(data) - 1) // 8, ctypes.addressof(data))
if ctypes.CDLL(None).prctl(22, 2, ctypes.byref(program), 0, 0):  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
    sys.exit("cannot install the seccomp filter")
os.execv(sys.argv[2], sys.argv[2:])
"""


class Unit:
    """The settings of a systemd unit's [Service] section."""

    def __init__(self, path: Path) -> None:
        self.settings: dict[str, list[str]] = {}
        section = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("["):
                section = line
            elif section == "[Service]" and line and line[0] != "#":
                name, _, value = line.partition("=")
                self.settings.setdefault(name, []).append(value)

    def __getitem__(self, name: str) -> str:
        return self.settings[name][-1]

    def filter(self) -> bytes:
        """Returns the seccomp filter of the unit's system calls and socket families."""
        words: list[str] = []
        for line in self.settings["SystemCallFilter"]:
            words += ["~" + word for word in line[1:].split()] if line.startswith("~") else line.split()
        return filter_of(calls_of(words), {_FAMILIES[name] for name in self["RestrictAddressFamilies"].split()})

    def places(self, environment: Path, etc: Path, state: Path, credentials: Path) -> list[str]:
        """Returns bubblewrap's mounts for ProtectSystem=strict, ProtectHome, PrivateTmp, StateDirectory and LoadCredential."""
        assert self["ProtectSystem"] == "strict"
        assert self["ProtectHome"] == self["PrivateTmp"] == "yes"
        words = ["--perms", "1777", "--tmpfs", "/tmp"]
        parents = {Path("/"), Path("/tmp")}
        for place in map(Path, ("/etc/x", "/run/x", "/opt/x", "/var/lib/x", environment, sys.base_prefix)):
            for parent in [*reversed(place.parents)]:  # bubblewrap would make them accessible to root only
                words += [] if parent in parents else ["--perms", "0755", "--dir", str(parent)]
                parents.add(parent)
        for top in sorted(Path("/").iterdir()):
            if top.name not in ("dev", "proc", "tmp", "home", "root", "etc", "opt", "run", "var", "sys"):
                words += (
                    ["--symlink", str(top.readlink()), str(top)] if top.is_symlink() else ["--ro-bind", str(top), str(top)]
                )
        for path in sorted(Path("/etc").iterdir()):
            words += ["--ro-bind-try", str(path), str(path)]
        words += ["--ro-bind", str(etc), "/etc/heliograph", "--dev-bind", "/dev", "/dev", "--proc", "/proc"]
        words += ["--ro-bind", "/sys", "/sys", "--ro-bind", str(credentials), "/run/credentials"]
        words += ["--ro-bind", str(environment), "/opt/heliograph", "--bind", str(state), "/var/lib/heliograph"]
        # Installed programs name their own folder; the interpreter may be elsewhere.
        for folder in (environment, Path(sys.base_prefix)):
            words += ["--ro-bind", str(folder), str(folder)]
        return words


# The service's process


@contextmanager
def caged(words: list[str], places: list[str], user: int) -> Iterator[tuple[Any, int]]:
    """Runs a command with these mounts as an unprivileged user; yields bubblewrap's process and the command's process ID."""
    reads, writes = os.pipe()
    privileges = ["setpriv", f"--reuid={user}", f"--regid={user}", *_NO_PRIVILEGES]
    command = ["bwrap", "--cap-add", "ALL", "--clearenv", *places, "--info-fd", str(writes), "--", *privileges, "--", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, pass_fds=[writes])
    os.close(writes)
    with os.fdopen(reads) as told:
        said = told.read()
    number = int(json.loads(said)["child-pid"]) if said else 0
    try:
        yield process, number
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        process.wait(20)


def listening(process: Any) -> list[str]:
    """Waits for the `listening` event and returns the log lines until then."""
    said = []
    for line in process.stderr:
        said.append(line)
        if '"listening"' in line:
            return said
    sys.exit("the service did not start:\n" + "".join(said))


def require_bare(number: int, user: int, filtered: bool) -> None:
    """Checks that the process has that user, no capabilities, and cannot gain any."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{number}/status").read_text().splitlines() if ":\t" in line)
    assert status["Uid"].split() == [str(user)] * 4, status["Uid"]
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    assert (status["Seccomp"] == "2") == filtered


def stopped(process: Any, number: int) -> None:
    """Sends SIGTERM and checks that the service finishes accepted jobs and exits with 0."""
    started = time.monotonic()
    os.kill(number, signal.SIGTERM)
    rest = process.stderr.read()
    assert process.wait(70) == 0, rest
    assert '"stopped"' in rest, rest
    print(f"stopped by SIGTERM in {time.monotonic() - started:.2f} s, status 0")


class Party:
    """A model, a certificate, tokens, and a client."""

    def __init__(self, folder: Path, user: int) -> None:
        self.authority = rig.Authority(folder)
        self.etc = folder / "etc"
        self.etc.mkdir()
        rig.nn.setup("digits").export(self.etc / "digits.hgm")
        self.pem = self.authority.issue("localhost").rename(self.etc / "server.pem")
        self.token = rig.tokens(self.etc / "tokens", "ann")["ann"]
        self.state = folder / "state"
        self.state.mkdir(mode=0o700)
        for path in (self.etc, *self.etc.iterdir(), self.state):
            os.chown(path, user, user)
        self.secret: Any = None
        self.keys: str | None = None

    def asks(self, token: str | None = None) -> None:
        """Sends a digit and checks the result; uploads the keys first if they are not on the service."""
        address = f"https://localhost:{PORT}"
        client = hg.Client(address, model="digits", token=token or self.token, ca=self.authority.file, keys=self.keys)
        if self.keys is None:
            self.secret = hg.SecretKey.generate(client.model.parameters)
            self.keys = client.upload_keys(self.secret)
        client._secret = self.secret
        assert np.array_equal(client.run(rig.DIGIT), rig.expected())

    def kept(self) -> None:
        """Checks that the keys are in the state folder and readable by the service's user only."""
        files = list(self.state.rglob("*.hg"))
        assert [file.stem for file in files] == [self.keys]
        assert not any(path.stat().st_mode & 0o077 for path in self.state.rglob("*"))


def try_unit(environment: Path) -> None:
    """Runs the unit's command with the unit's restrictions."""
    unit, user = Unit(HERE / "heliograph.service"), 61184  # a user id in the range of DynamicUser
    with tempfile.TemporaryDirectory(prefix="heliograph-unit-") as name:
        party = Party(Path(name), user)
        credentials = Path(name) / "credentials"
        credentials.mkdir()
        for line in unit.settings["LoadCredential"]:
            called, _, source = line.partition(":")
            copy = credentials / called
            copy.write_bytes((party.etc / Path(source).name).read_bytes())
            copy.chmod(0o400)
            os.chown(copy, user, user)
            (party.etc / Path(source).name).chmod(0)  # root only: the service can read only the copy
        os.chown(credentials, user, user)
        words = [word.replace("${CREDENTIALS_DIRECTORY}", "/run/credentials") for word in shlex.split(unit["ExecStart"])]
        limits = f'umask {unit["UMask"]} && ulimit -c {unit["LimitCORE"]} && exec "$@"'
        words = ["/bin/sh", "-c", limits, "sh", *words]
        (Path(name) / "filter").write_bytes(unit.filter())
        words = ["/opt/heliograph/bin/python", "-c", _UNDER, "/run/filter", *words]
        places = unit.places(environment.resolve(), party.etc, party.state, credentials)
        places += ["--ro-bind", str(Path(name) / "filter"), "/run/filter"]
        with caged(words, places, user) as (process, number):
            listening(process)
            require_bare(number, user, filtered=True)
            party.asks()
            print("the unit's service stored keys and classified a digit")
            figures = urllib.request.urlopen("http://127.0.0.1:9090/metrics", timeout=5).read().decode()
            assert 'heliograph_jobs_total{model="digits",outcome="done"}' in figures
            token, line = rig.token_of("bob")
            with (party.etc / "tokens").open("a") as file:
                file.write(line + "\n")
            assert shlex.split(unit["ExecReload"])[:2] == ["/bin/kill", "-HUP"]
            os.kill(number, signal.SIGHUP)
            time.sleep(1)
            hg.Client(f"https://localhost:{PORT}", token=token, ca=party.authority.file).models()
            print("a token added to the file is valid after a reload")
            stopped(process, number)
        party.kept()


def try_image(root: Path, configuration: Path) -> None:
    """Runs the image's command as its user and process 1, with a read-only root."""
    said = json.loads(configuration.read_text(encoding="utf-8"))["Docker"]["config"]
    user = int(said["User"])
    assert user != 0
    (volume,) = said["Volumes"]
    with tempfile.TemporaryDirectory(prefix="heliograph-image-") as name:
        party = Party(Path(name), user)
        at = root / "models"  # a container engine would make the mount points of volumes
        at.mkdir(exist_ok=True)
        places = f"--ro-bind {root} / --dev /dev --proc /proc --tmpfs /tmp --unshare-pid --as-pid-1".split()
        places += ["--bind", str(party.state), volume, "--ro-bind", str(party.etc), "/models"]
        for setting in said["Env"]:
            places += ["--setenv", *setting.split("=", 1)]
        arguments = ["/models/digits.hgm", "--tls-cert", "/models/server.pem", "--tokens", "/models/tokens"]
        check = said["Healthcheck"]["Test"][1:]
        for turn in ("with new keys", "with the stored keys"):
            with caged([*said["Entrypoint"], *arguments], places, user) as (process, number):
                listening(process)
                require_bare(number, user, filtered=False)
                party.asks()
                print(f"the image's service classified a digit, {turn}")
                with caged(check, places, user) as (healthy, _):
                    assert healthy.wait(20) == 0, healthy.stderr.read()
                assert said["StopSignal"] == "SIGTERM"
                stopped(process, number)
        with caged(check, places, user) as (healthy, _):
            assert healthy.wait(20) != 0
        print("the image's health check succeeds while the service runs and fails after it stops")
        party.kept()


if __name__ == "__main__":
    if sys.argv[1] == "unit":
        try_unit(Path(sys.argv[2]))
    else:
        try_image(Path(sys.argv[2]), Path(sys.argv[3]))
