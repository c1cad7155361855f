"""``heliograph run``: the same program in several processes, on one host or several, that end together.

mpirun starts a rank.py on every host; each of them comes to this process over TCP, starts its program, and tells how it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import queue
import re
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from hmac import compare_digest
from pathlib import Path
from typing import Any, NoReturn

import heliograph as hg
from heliograph._arrays import printable
from heliograph.cli import rank as rank_side
from heliograph.cli.roles import CommandError
from heliograph.cli.screen import complain, lines_of

MOST_RANKS = 64
_START_SECONDS = 60  # for all ranks to come, where --timeout does not say
_DECIDE_SECONDS = 0.5  # after the first trouble, for its cause to be told too
_LAST_SECONDS = 1.0  # for mpirun to end by itself; then the same again after SIGTERM
_HANDSHAKE_SECONDS = 5.0
_MOST_OF_MPIRUN = 1 << 14  # characters kept of what mpirun says
_MOST_LINES = 6  # of it shown
_INTERFACE_ADDRESS = 0x8915  # SIOCGIFADDR
_FORWARDED = ("HELIOGRAPH_", "PYTHON", "NCCL_")  # beginnings of the variables that ranks on other hosts get too
_OF_ONE_RANK = ("HELIOGRAPH_RANKS", "HELIOGRAPH_RANK")  # mpirun says these
#: What mpirun is told where the user's environment does not: connections of its daemons that notice a lost host, a shell
#: that asks no questions, no warnings of networks that are not there.
_MPIRUN_DEFAULTS = {
    "OMPI_MCA_oob_tcp_keepalive_time": "3",
    "OMPI_MCA_oob_tcp_keepalive_intvl": "1",
    "OMPI_MCA_oob_tcp_keepalive_probes": "3",
    "OMPI_MCA_btl": "^openib",
    "OMPI_MCA_btl_base_warn_component_unused": "0",
}
#: What Open MPI says in a rank whose neighbour has died, of whose death more is known than this.
_NOISE = re.compile(rb"\[[^\]\n]+:\d+\] Read -1, expected \d+, errno = 3\n")
_SSH_DEFAULTS = {"OMPI_MCA_plm_rsh_args": "-o BatchMode=yes -o ConnectTimeout=10"}


@dataclass(frozen=True)
class Job:
    """What is run, where."""

    form: str  #: script, module, command (of heliograph), or executable
    target: str
    arguments: list[str]
    ranks: int
    hosts: list[tuple[str, int]] = field(default_factory=list)  #: names and slots; none: this host
    timeout: int | None = None  #: seconds that a rank waits for another
    device: str | None = None
    all_output: bool = False


def read_hosts(text: str | None) -> list[tuple[str, int]]:
    """Hosts and slots of "a,b:2". Raises CommandError."""
    hosts = []
    for word in text.split(",") if text is not None else []:
        name, colon, slots = word.strip().partition(":")
        if not name or (colon and not (slots.isdecimal() and int(slots) > 0)):
            raise CommandError(f'--hosts is a list like "alpha,beta:2" of hosts and how many ranks each takes, not "{text}"')
        hosts.append((name, int(slots or 1)))
    return hosts


def make_job(
    program: list[str], ranks: int | None, hosts: str | None, module: bool, timeout: int | None, device: str | None,
    all_output: bool,
) -> Job:  # fmt: skip
    """A job from the command's words. Raises CommandError for what cannot be run."""
    places = read_hosts(hosts)
    count = ranks if ranks is not None else sum(slots for _, slots in places)
    if not 1 <= count <= MOST_RANKS:
        raise CommandError(f"say how many ranks, 1 to {MOST_RANKS}: -n 4, or --hosts alpha,beta:2")
    target, *arguments = program
    form = "module" if module else _form_of(target, bool(places))
    return Job(form, target, arguments, count, places, timeout, device, all_output)


def _form_of(target: str, elsewhere: bool) -> str:
    path = Path(target)
    if target == "heliograph":
        return "command"
    if not path.exists() and not elsewhere:
        raise CommandError(f"there is no program {target} (-m runs a module, the name heliograph its own commands)")
    return "executable" if path.is_file() and path.suffix != ".py" and os.access(path, os.X_OK) else "script"


def find_mpirun() -> str:
    """Open MPI's mpirun. Raises DeviceError."""
    advice = "on Debian: sudo apt-get install openmpi-bin"
    found = shutil.which("mpirun")
    if found is None:
        raise hg.DeviceError(f"there is no mpirun, which starts the ranks; {advice}")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    if "Open MPI" not in said:
        raise hg.DeviceError(f"{found} is not Open MPI's, which starts the ranks; {advice}")
    return found


def own_addresses() -> list[str]:
    """IPv4 addresses of this host that others may reach."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # an interface without an address
                request = struct.pack("256s", name.encode()[:15])
                found.append(socket.inet_ntoa(fcntl.ioctl(any_socket, _INTERFACE_ADDRESS, request)[20:24]))
    return sorted(found, key=lambda address: address.startswith("127."))


@dataclass
class Trouble:
    """What ends the job, of one rank."""

    rank: int
    text: str  #: what follows the rank's name
    weight: int  #: the least is the cause: a dead rank, then what a program raised, then what only tells of another rank
    status: int  #: the exit status that follows
    traceback: str = ""
    lost: bool = False  #: nothing more is known of it


class Guest:
    """A rank as the launcher sees it."""

    def __init__(self, connection: socket.socket, said: dict[str, Any]) -> None:
        self.connection = connection
        self.host, self.process, self.port = str(said["host"]), int(said["process"]), said["port"]
        self.heard = time.monotonic()
        self.busy = False  # its output is being written: no silence counts
        self.over = False  # its program has ended
        self._lock = threading.Lock()

    def send(self, data: bytes) -> None:
        """A few bytes; a lost connection shows as silence."""
        with self._lock, contextlib.suppress(OSError):
            self.connection.sendall(data)


class _Lines:
    """One stream of a rank, written with its name before each line."""

    def __init__(self, descriptor: int, lock: threading.Lock, name: str | None) -> None:
        self._descriptor, self._lock = descriptor, lock
        self._prefix = f"{name}: ".encode() if name is not None else b""
        self._held = b""

    def write(self, data: bytes) -> None:
        data = _NOISE.sub(b"", data)
        if not self._prefix:
            self._put(data)
            return
        *whole, self._held = (self._held + data).split(b"\n")
        self._put(b"".join(self._line(line) for line in whole))

    def close(self) -> None:
        if self._held:
            self._put(self._line(self._held))
            self._held = b""

    def _line(self, line: bytes) -> bytes:
        """With the rank's name, which nothing in the line can write over."""
        text = line.removesuffix(b"\r").decode(errors="backslashreplace")
        return self._prefix + lines_of(text.replace("\r", "\n")).encode().replace(b"\n", b"\n" + self._prefix) + b"\n"

    def _put(self, data: bytes) -> None:
        with self._lock:
            while data:
                data = data[os.write(self._descriptor, data) :]


class Launcher:
    """One job from start to end."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._token = secrets.token_hex(16)
        self._guests: dict[int, Guest] = {}
        self._events: queue.SimpleQueue[tuple[int, dict[str, Any]]] = queue.SimpleQueue()
        self._troubles: list[Trouble] = []
        self._locks = {1: threading.Lock(), 2: threading.Lock()}
        self._door = socket.create_server(("" if job.hosts else "127.0.0.1", 0), backlog=MOST_RANKS)
        self._mpirun_said = ""
        self._caught: int | None = None  # a signal that ends the job

    def run(self) -> int:
        """The exit status: 0 where every rank ended with 0."""
        mpirun = self._start_mpirun(find_mpirun())
        threading.Thread(target=self._accept, daemon=True).start()
        threading.Thread(target=self._listen_to, args=(mpirun,), daemon=True).start()
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)
        before = {number: signal.getsignal(number) for number in numbers}
        try:
            for number in numbers[:-1]:
                signal.signal(number, self._on_signal)
            signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # ranks that hear nothing would end
            self._watch(mpirun)
            return self._conclude(mpirun)
        finally:
            for guest in self._guests.values():
                guest.send(rank_side.message(order="end", interrupt=False))
            self._end_mpirun(mpirun)
            self._door.close()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _: Any) -> None:
        self._caught = number

    def _start_mpirun(self, mpirun: str) -> subprocess.Popen[bytes]:
        job = self._job
        place = {
            "addresses": own_addresses() if job.hosts else ["127.0.0.1"],
            "port": self._door.getsockname()[1],
            "token": self._token,
        }
        defaults = _MPIRUN_DEFAULTS | (_SSH_DEFAULTS if "OMPI_MCA_plm_rsh_agent" not in os.environ else {})
        environment = defaults | {k: v for k, v in os.environ.items() if k not in _OF_ONE_RANK}
        environment[rank_side.VARIABLE] = json.dumps(place)
        if job.device is not None:
            environment["HELIOGRAPH_DEVICE"] = job.device
        if job.timeout is not None:
            environment["HELIOGRAPH_TIMEOUT"] = str(job.timeout)
        command = [mpirun, "-n", str(job.ranks), "--map-by", "slot:OVERSUBSCRIBE", "--bind-to", "none"]
        if os.geteuid() == 0:  # in a container
            command.append("--allow-run-as-root")
        if job.hosts:
            command += ["--host", ",".join(f"{name}:{slots}" for name, slots in job.hosts)]
            for name in sorted(environment):
                if name.startswith(_FORWARDED):
                    command += ["-x", name]
        return subprocess.Popen(
            [*command, sys.executable, "-P", str(Path(rank_side.__file__).resolve())],
            stdin=subprocess.DEVNULL if sys.stdin is None or sys.stdin.isatty() else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,  # Ctrl-C is for this process, which tells the ranks
        )

    def _listen_to(self, mpirun: subprocess.Popen[bytes]) -> None:
        assert mpirun.stdout is not None
        for line in mpirun.stdout:
            self._mpirun_said = (self._mpirun_said + line.decode(errors="replace"))[-_MOST_OF_MPIRUN:]

    def _end_mpirun(self, mpirun: subprocess.Popen[bytes]) -> None:
        for number in (0, signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(subprocess.TimeoutExpired, ProcessLookupError):
                if number and mpirun.poll() is None:
                    os.killpg(mpirun.pid, number)
                mpirun.wait(_LAST_SECONDS)
                return

    # ---- the ranks' side; a thread each

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed: the job is over
            while True:
                connection, _ = self._door.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        rank = -1
        try:
            connection.settimeout(_HANDSHAKE_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            rank, guest = self._welcome(connection)
            connection.settimeout(None)
            self._events.put((rank, {"event": "came", "guest": guest}))
            self._read(rank, guest)
        except (OSError, ValueError, KeyError) as error:
            if rank >= 0:  # else a stranger
                self._events.put((rank, {"event": "lost", "error": error}))
            connection.close()

    def _welcome(self, connection: socket.socket) -> tuple[int, Guest]:
        hello = rank_side.receive_message(connection)
        challenge = secrets.token_hex(16)
        answer = rank_side.proof(self._token, "launcher", str(hello["challenge"]))
        connection.sendall(rank_side.message(challenge=challenge, proof=answer))
        said = rank_side.receive_message(connection)
        if not compare_digest(str(said["proof"]), rank_side.proof(self._token, "rank", challenge)):
            raise ConnectionError("a stranger")
        guest = Guest(connection, said)
        if said["protocol"] != rank_side.PROTOCOL:
            name = f"rank {said['rank']} ({guest.host}, process {guest.process})"
            self._events.put((-1, {"event": "refused", "text": f"{name} runs another version of heliograph"}))
        return int(said["rank"]), guest

    def _read(self, rank: int, guest: Guest) -> None:
        splitter = rank_side.Splitter()
        everyone = self._job.all_output
        streams = {
            rank_side.OUT: _Lines(1, self._locks[1], f"rank {rank}" if everyone else None),
            rank_side.ERR: _Lines(2, self._locks[2], f"rank {rank}" if everyone or rank > 0 else None),
        }
        while True:
            data = guest.connection.recv(1 << 16)
            if not data:
                raise ConnectionError("its connection was closed")
            guest.heard, guest.busy = time.monotonic(), True
            for kind, payload in splitter.feed(data):
                if kind in streams:
                    try:
                        streams[kind].write(payload)
                    except OSError:  # the reader left
                        self._events.put((rank, {"event": "unread"}))
                elif kind == rank_side.MESSAGE:
                    said = json.loads(payload)
                    if said["event"] == "ended":
                        with contextlib.suppress(OSError):
                            for stream in streams.values():
                                stream.close()
                    self._events.put((rank, said))
            guest.heard, guest.busy = time.monotonic(), False

    # ---- the launcher's side

    def _watch(self, mpirun: subprocess.Popen[bytes]) -> None:
        """Until every program has ended, or for some reason all must."""
        job = self._job
        started, beat, decide_at = time.monotonic(), 0.0, float("inf")
        limit = max(job.timeout or 0, _START_SECONDS)
        while self._caught is None and time.monotonic() < decide_at:
            with contextlib.suppress(queue.Empty):
                self._take_in(*self._events.get(timeout=0.05))
            now = time.monotonic()
            if now - beat >= rank_side.BEAT_SECONDS:
                beat = now
                for guest in self._guests.values():
                    guest.send(rank_side.frame(rank_side.BEAT))
            for rank, guest in self._guests.items():
                if not guest.over and not guest.busy and now - guest.heard > rank_side.SILENCE_SECONDS:
                    silence = f"was not heard of for {rank_side.SILENCE_SECONDS:.0f} s"
                    self._lose(rank, f"{silence}: its host or the network to it is gone, or stands still")
            if len(self._guests) < job.ranks and now - started > limit:
                missing = ", ".join(f"rank {rank}" for rank in range(job.ranks) if rank not in self._guests)
                self._fail_without_cause(f"{missing} did not start within {limit} s")
            if len(self._guests) == job.ranks and all(guest.over for guest in self._guests.values()):
                return
            if mpirun.poll() is not None and self._events.empty() and not self._troubles:
                time.sleep(_LAST_SECONDS / 5)  # the ranks' last words are on their way
                if self._events.empty():
                    self._fail_without_cause(f"mpirun ended ({_ending(mpirun.returncode)}) before its ranks")
            if self._troubles and decide_at == float("inf"):
                decide_at = now + _DECIDE_SECONDS

    def _take_in(self, rank: int, said: dict[str, Any]) -> None:
        event = said["event"]
        if event == "refused":
            raise hg.MismatchError(said["text"])
        if event == "came":
            self._guests[rank] = said["guest"]
            if len(self._guests) == self._job.ranks:
                self._start_programs()
            return
        guest = self._guests[rank]
        if event == "started":
            guest.process = said["process"]
        elif event == "ended":
            guest.over = True
            if (trouble := _trouble(rank, said)) is not None:
                self._troubles.append(trouble)
        elif event == "stopped":
            self._troubles.append(Trouble(rank, f"was stopped and did not go on for {said['seconds']} s", 0, 1))
        elif event == "unread":
            raise BrokenPipeError
        elif event == "lost" and not guest.over:
            self._lose(rank, f"was lost: {said['error']}")

    def _lose(self, rank: int, text: str) -> None:
        self._guests[rank].over = True
        self._troubles.append(Trouble(rank, text, 0, 1, lost=True))

    def _start_programs(self) -> None:
        job = self._job
        environment = {}
        if not hg._core.has_mpi() and not os.environ.get("HELIOGRAPH_MEET"):
            environment["HELIOGRAPH_MEET"] = f"{self._meeting_address()}:{self._guests[0].port}"
        for rank, guest in self._guests.items():
            shown = rank == 0 or job.all_output
            guest.send(
                rank_side.message(
                    order="start",
                    form=job.form,
                    target=job.target,
                    arguments=job.arguments,
                    folder=str(Path.cwd()),
                    environment=environment,
                    shown=shown,
                    terminal=_terminal() if shown and not job.all_output else None,
                )
            )

    def _meeting_address(self) -> str:
        """Where rank 0 can be reached by the others, by the way that they came."""
        ways = {rank: (g.connection.getpeername()[0], g.connection.getsockname()[0]) for rank, g in self._guests.items()}
        first, _ = ways[0]
        if first not in own_addresses():
            return str(first)
        return str(next((here for there, here in ways.values() if there not in own_addresses()), first))

    def _fail_without_cause(self, text: str) -> NoReturn:
        """What mpirun has said is all that there is to say."""
        for line in _essence(self._mpirun_said):
            print(f"mpirun: {printable(line)}", file=sys.stderr)
        raise hg.DeviceError(text)

    def _conclude(self, mpirun: subprocess.Popen[bytes]) -> int:
        """The last line, and the exit status."""
        if self._caught is not None:
            self._interrupt(mpirun)
            return 128 + self._caught  # of SIGINT: what the command says at Ctrl-C
        if not self._troubles:
            return 0
        job = self._job
        if mpirun.poll() is not None and all(trouble.lost for trouble in self._troubles):
            self._fail_without_cause(f"mpirun ended ({_ending(mpirun.returncode)}) before its ranks")
        cause = min(self._troubles, key=lambda trouble: trouble.weight)
        alike = [trouble for trouble in self._troubles if trouble.text == cause.text]
        if cause.traceback:
            sys.stderr.write(lines_of(cause.traceback))
        if len(alike) == job.ranks > 1:
            complain(f"all {job.ranks} ranks " + re.sub("^was ", "were ", cause.text))
        else:
            guest = self._guests[cause.rank]
            complain(f"rank {cause.rank} of {job.ranks} ({guest.host}, process {guest.process}) {cause.text}")
        return cause.status

    def _interrupt(self, mpirun: subprocess.Popen[bytes]) -> None:
        for guest in self._guests.values():
            guest.send(rank_side.message(order="end", interrupt=True))
        with contextlib.suppress(subprocess.TimeoutExpired):
            mpirun.wait(2 * rank_side.BEAT_SECONDS + _LAST_SECONDS)


def _essence(said: str) -> list[str]:
    """What the shell or the system said; without that, the beginning of mpirun's own explanation, a text between rules."""
    parts = re.split(r"^-{10,}\n", said, flags=re.MULTILINE)
    plain, explained = ("\n".join(part).splitlines() for part in (parts[::2], parts[1::2]))
    outside, inside = ([line.strip() for line in lines if line.strip()] for lines in (plain, explained))
    return outside[:_MOST_LINES] or inside[:_MOST_LINES]


def _ending(code: int) -> str:
    return f"by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def _trouble(rank: int, said: dict[str, Any]) -> Trouble | None:
    """Of how a program ended; None where all was well."""
    if "signal" in said:
        number = int(said["signal"])
        return Trouble(rank, f"was killed by {_signal_name(number)}", 0, 128 + number)
    status = int(said["status"])
    if status == 0:
        return None
    if "type" in said:
        secondary = said["type"] in ("DeviceError", "OutOfMemoryError")  # of which all ranks tell when one has it
        text = f"ended: {said['type']}" + (f": {said['text']}" if said["text"] else "")
        return Trouble(rank, text, 2 if secondary else 1, status, said["traceback"])
    return Trouble(rank, f"ended with exit status {status}", 1, status)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _terminal() -> tuple[int, int] | None:
    """Rows and columns where standard output is a terminal."""
    if not sys.stdout.isatty():
        return None
    size = shutil.get_terminal_size()
    return size.lines, size.columns


def run(job: Job) -> int:
    """Runs a job; its exit status. Raises DeviceError where it cannot start, MismatchError where hosts disagree."""
    sys.stdout.flush()
    return Launcher(job).run()
