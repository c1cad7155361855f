"""``heliograph run``: starts mpirun with the ranks of one mesh. mpirun ends all ranks if one fails."""

from __future__ import annotations

import ctypes
import os
import random
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import heliograph as hg
from heliograph.cli.workflow import CommandError

MOST_RANKS = 64
_SET_PARENT_DEATH_SIGNAL = 1  # prctl
#: Prefixes of the environment variables that mpirun passes to other hosts.
_FORWARDED = ("HELIOGRAPH_", "PYTHON", "NCCL_", "COLUMNS", "LINES")
_OF_ONE_RANK = ("HELIOGRAPH_RANKS", "HELIOGRAPH_RANK")  # not passed: each rank gets these numbers from mpirun
_PORTS = (20000, 32000)  # range of random ports, below the ephemeral ports of Linux
_END_SECONDS = 5  # seconds for mpirun to end the ranks after a signal; it waits for unreachable hosts without a limit
#: Settings of mpirun, unless the environment has them: TCP keep-alive detects lost hosts, and ssh asks for no passwords.
_KEEPALIVE = {"oob_tcp_keepalive_time": "3", "oob_tcp_keepalive_intvl": "1", "oob_tcp_keepalive_probes": "3"}
_LOST = b"has lost communication with a remote daemon"  # Open MPI 5 ends with status 0 after this message
_KILLED = b"exited on signal"  # Open MPI 4 omits this message if a rank is killed at its start
#: Harmless messages of Open MPI 4, with or without a rank's prefix. The first: the ssh agent started before mpirun set its
#: process group. The second (ESRCH): a rank read the memory of an ended rank; the job itself reports that rank's end.
_NOISE = re.compile(
    rb"(?:rank \d+: )?\[[^\]\n]+\] (?:"
    rb"plm:rsh: Warning: setpgid\(\d+,\d+\) failed in parent with errno=Permission denied\(13\)"
    rb"|Read -1, expected \d+, errno = 3)"
)
_SSH_ARGUMENTS = "-o BatchMode=yes -o ConnectTimeout=10"
_DEFAULTS = {
    **{f"OMPI_MCA_{name}": value for name, value in _KEEPALIVE.items()},  # read by Open MPI 4
    **{f"PRTE_MCA_{name}": value for name, value in _KEEPALIVE.items()},  # read by Open MPI 5
    "OMPI_MCA_btl": "^openib",  # suppresses warnings about missing InfiniBand
    "OMPI_MCA_btl_base_warn_component_unused": "0",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
#: Settings of Open MPI 4 and 5 for the remote shell: the command's, and that of its arguments.
_AGENTS = {"OMPI_MCA_plm_rsh_agent": "OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_agent": "PRTE_MCA_plm_ssh_args"}


@dataclass(frozen=True)
class Job:
    """The program and the ranks."""

    form: str  #: script, module, command (of heliograph), or executable
    target: str
    arguments: list[str]
    ranks: int
    hosts: list[tuple[str, int]] = field(default_factory=list)  #: host names and slots; empty: this host
    timeout: int | None = None  #: seconds that a rank waits for another
    device: str | None = None
    all_output: bool = False


def read_hosts(text: str | None) -> list[tuple[str, int]]:
    """Parses hosts and slots of "a,b:2". Raises CommandError."""
    hosts = []
    for word in text.split(",") if text is not None else []:
        name, colon, slots = word.strip().partition(":")
        if not name or (colon and not (slots.isdecimal() and int(slots) > 0)):
            raise CommandError(f'--hosts must list hosts and their numbers of ranks, as in "alpha,beta:2"; got "{text}"')
        hosts.append((name, int(slots or 1)))
    return hosts


def make_job(
    program: list[str], ranks: int | None, hosts: str | None, module: bool, timeout: int | None, device: str | None,
    all_output: bool,
) -> Job:  # fmt: skip
    """Makes a job of the command's arguments. Raises CommandError for a job that cannot run."""
    places = read_hosts(hosts)
    count = ranks if ranks is not None else sum(slots for _, slots in places)
    if not 1 <= count <= MOST_RANKS:
        raise CommandError(f"give the number of ranks, 1 to {MOST_RANKS}, by -n 4 or --hosts alpha,beta:2; got {count}")
    target, *arguments = program
    form = "module" if module else _form_of(target, bool(places))
    return Job(form, target, arguments, count, places, timeout, device, all_output)


def _form_of(target: str, elsewhere: bool) -> str:
    path = Path(target)
    if target == "heliograph":
        return "command"
    if not path.exists() and not elsewhere:
        raise CommandError(f"no program {target}: give a file, -m and a module, or heliograph and one of its commands")
    return "executable" if path.is_file() and path.suffix != ".py" and os.access(path, os.X_OK) else "script"


def find_mpirun() -> str:
    """Returns the path of Open MPI's mpirun, on the PATH or beside Python. Raises DeviceError."""
    advice = "run: pip install 'heliograph[mpi]' (Debian: sudo apt-get install openmpi-bin)"
    found = shutil.which("mpirun") or shutil.which("mpirun", path=str(Path(sys.executable).parent))
    if found is None:
        raise hg.DeviceError(f"cannot start ranks: mpirun is not installed; {advice}")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    if "Open MPI" not in version:
        raise hg.DeviceError(f"cannot start ranks: {found} is not Open MPI's mpirun; {advice}")
    return found


def _reserve_port() -> socket.socket:
    """Binds a free port without listening. SO_REUSEADDR lets rank 0 bind the port too, and no other program gets it."""
    bound_socket = socket.socket()
    bound_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound_socket.bind(("127.0.0.1", 0))
    return bound_socket


def _has_input() -> bool:
    """Tells whether standard input is a file or pipe, not a terminal or /dev/null."""
    try:
        return not stat.S_ISCHR(os.fstat(0).st_mode)
    except OSError:  # standard input is closed
        return False


def _environment(job: Job, port: int) -> dict[str, str]:
    ssh = {arguments: _SSH_ARGUMENTS for agent, arguments in _AGENTS.items() if agent not in os.environ}
    environment = _DEFAULTS | ssh | {k: v for k, v in os.environ.items() if k not in _OF_ONE_RANK}
    if not hg._core.device.has_mpi() and not environment.get("HELIOGRAPH_MEET"):
        host = job.hosts[0][0] if job.hosts else "127.0.0.1"
        environment["HELIOGRAPH_MEET"] = f"{host}:{random.randint(*_PORTS) if job.hosts else port}"
    if job.device is not None:
        environment["HELIOGRAPH_DEVICE"] = job.device
    if job.timeout is not None:
        environment["HELIOGRAPH_TIMEOUT"] = str(job.timeout)
    if sys.stdout.isatty():
        size = shutil.get_terminal_size()
        environment |= {"COLUMNS": str(size.columns), "LINES": str(size.lines)}
    return environment


def _command(job: Job, mpirun: str, environment: dict[str, str]) -> list[str]:
    command = [mpirun, "-n", str(job.ranks), "--map-by", "slot:OVERSUBSCRIBE", "--bind-to", "none"]
    if not _has_input():
        command += ["--stdin", "none"]
    if job.hosts:
        command += ["--host", ",".join(f"{name}:{slots}" for name, slots in job.hosts)]
        for name in sorted(environment):
            if name.startswith(_FORWARDED):
                command += ["-x", name]
    output = "all" if job.all_output else "terminal" if sys.stdout.isatty() else "first"
    rank = str(Path(__file__).with_name("rank.py").resolve())
    return [*command, sys.executable, rank, output, job.form, job.target, *job.arguments]


def _relay(errors: IO[bytes], seen: set[bytes]) -> None:
    """Copies mpirun's standard error without lines of `_NOISE`. Adds the messages `_LOST` and `_KILLED` to `seen`."""
    last, pending = b"", b""
    while data := os.read(errors.fileno(), 1 << 16):
        *lines, pending = (pending + data).split(b"\n")
        ready = b"".join(line + b"\n" for line in lines if not _NOISE.fullmatch(line))
        if not pending.startswith((b"[", b"rank ")):  # cannot match _NOISE: shown before the line is complete
            ready, pending = ready + pending, b""
        sys.stderr.buffer.write(ready)
        sys.stderr.buffer.flush()
        last = (last + data)[-(len(data) + len(_LOST)) :]
        seen.update(message for message in (_LOST, _KILLED) if message in last)
    sys.stderr.buffer.write(pending)
    sys.stderr.buffer.flush()


def _signal_name(status: int) -> str | None:
    """Returns the name of the signal that a status above 128 means, or None."""
    return signal.strsignal(status - 128) if status - 128 in signal.valid_signals() else None


def run(job: Job) -> int:
    """Runs a job and returns mpirun's exit status; 128 plus the number of a signal that this process received.

    Raises DeviceError without mpirun.
    """
    mpirun = find_mpirun()
    sys.stdout.flush()
    received: list[int] = []
    seen: set[bytes] = set()
    own, library = os.getpid(), ctypes.CDLL(None)

    def end_with_launcher() -> None:
        library.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != own:
            os._exit(1)

    with _reserve_port() as bound_socket:
        environment = _environment(job, bound_socket.getsockname()[1])
        process = subprocess.Popen(
            _command(job, mpirun, environment),
            stdin=None if _has_input() else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            process_group=0,  # Ctrl-C reaches only this process, which ends mpirun
            preexec_fn=end_with_launcher,
        )

        def end(number: int, _: Any) -> None:
            received.append(number)
            process.terminate()
            signal.alarm(_END_SECONDS)

        relay = threading.Thread(target=_relay, args=(process.stderr, seen), daemon=True)
        relay.start()
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
        before = [signal.signal(number, end) for number in numbers[:-1]]
        before.append(signal.signal(signal.SIGALRM, lambda *_: process.kill()))
        try:
            status = process.wait()
        finally:
            signal.alarm(0)
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)
    relay.join(1)  # ssh to a lost host may keep the pipe open
    if received:
        return 128 + received[0]  # SIGINT: 130
    if status < 0:
        return 128 - status
    if _KILLED not in seen and (name := _signal_name(status)):
        print(f"heliograph: a rank ended with status {status}: signal {status - 128} ({name})", file=sys.stderr)
    return status or int(_LOST in seen)
