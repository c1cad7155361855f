"""heliograph run: the same results in several processes, and their end whatever ends one of them."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import random
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import heliograph as hg
import net_rig
from heliograph import _core
from heliograph.cli import launch
from heliograph.cli import rank as rank_side
from heliograph.cli import run as command
from heliograph.cli.launch import Job, make_job
from heliograph.cli.roles import CommandError

PROGRAM = Path(__file__).with_name("ranks_program.py")
EXAMPLES = PROGRAM.parents[2] / "examples"
COMMAND = [sys.executable, "-m", "heliograph.cli", "run"]
MARK = "HELIOGRAPH_TEST_MARK"
QUICK = "cpu/uncalibrated"
LIMIT = 120.0  # seconds after which a job that must end soon hangs; others may keep the machine busy

try:
    launch.find_mpirun()
    missing = None
except hg.DeviceError as error:
    missing = str(error)
needs_mpirun = pytest.mark.skipif(missing is not None, reason=missing or "")


@dataclass
class Run:
    """A job under test."""

    process: subprocess.Popen[str]
    mark: str
    out: str = ""
    err: str = ""
    programs: dict[int, int] = field(default_factory=dict)

    def processes(self) -> list[int]:
        """All of it that lives, on whatever host, by a variable that all inherit."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                try:
                    if f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                        found.append(int(folder.name))
                except OSError:  # gone
                    continue
        return found

    def program(self, rank: int) -> int:
        """The process of a rank's program, as soon as there is one."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(f"it ended by itself: {self.process.returncode}, {self.process.communicate()}")
            for process in self.processes():
                try:
                    words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
                    variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                program = any(word.endswith(b"cli/program.py") for word in words)
                if program and f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables:
                    return process
            time.sleep(0.01)
        raise AssertionError(f"rank {rank} does not start")

    def read_until(self, text: str) -> None:
        """Until rank 0 has printed it."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.out += line
            if text in line:
                return
        raise AssertionError(f"it ended before it said {text}: {self.process.communicate()}")

    def end(self, limit: float) -> int:
        """Waits; the exit status. Nothing is left."""
        out, self.err = self.process.communicate(timeout=limit)
        self.out += out
        until = time.monotonic() + LIMIT
        while (left := self.processes()) and time.monotonic() < until:
            time.sleep(0.05)
        assert not left
        return self.process.returncode

    @property
    def last(self) -> str:
        """The last line on standard error."""
        return self.err.splitlines()[-1] if self.err else ""


def read_variable(process: int, name: str) -> str | None:
    """Of a process's environment as it began."""
    try:
        variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:  # gone
        return None
    return next((v.decode().partition("=")[2] for v in variables if v.startswith(f"{name}=".encode())), None)


@contextmanager
def started(*words: object, device: str = QUICK, environment: dict[str, str] | None = None) -> Iterator[Run]:
    """A job; ended with the test."""
    mark = uuid.uuid4().hex
    whole = os.environ | {MARK: mark, "HELIOGRAPH_DEVICE": device} | (environment or {})
    line = [*COMMAND, *(str(word) for word in words)]
    # A shell that runs this suite in its background ignores SIGINT for all its children.
    with subprocess.Popen(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=whole,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        run = Run(process, mark)
        try:
            yield run
        finally:
            process.kill()
            for left in run.processes():
                try:
                    os.kill(left, signal.SIGKILL)
                except ProcessLookupError:
                    continue


def finished(*words: object, device: str = QUICK, limit: float = LIMIT, environment: dict[str, str] | None = None) -> Run:
    """A job that ends by itself."""
    with started(*words, device=device, environment=environment) as run:
        run.end(limit)
        return run


# ---- results


@pytest.fixture(scope="module")
def alone() -> str:
    """What one process prints."""
    environment = os.environ | {"HELIOGRAPH_DEVICE": "cpu"}
    line = [sys.executable, str(PROGRAM), "same"]
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=True).stdout


@needs_mpirun
@pytest.mark.parametrize(
    ("ranks", "device"),
    [
        (2, "cpu/batch/uncalibrated"),
        (3, "cpu/limb/uncalibrated"),
        (2, "cpu/costs=1e3:300e9:12e-6:1e-6:1e-4"),  # programs are placed on members of either rank
    ],
)
def test_ranks_compute_what_one_process_computes(ranks: int, device: str, alone: str) -> None:
    """Bit for bit in BFV, BGV and CKKS; every rank sees the results."""
    run = finished("-n", ranks, "--output", "all", PROGRAM, "same", device=device)
    assert (run.process.returncode, run.err) == (0, "")
    lines = run.out.splitlines()
    for rank in range(ranks):
        mine = [line.removeprefix(f"rank {rank}: ") for line in lines if line.startswith(f"rank {rank}: ")]
        assert mine == alone.splitlines()
    assert len(lines) == ranks * len(alone.splitlines())


@needs_mpirun
def test_ranks_that_meet_by_tcp(alone: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """As in a build without MPI: the launcher finds them a place."""
    monkeypatch.setattr(_core, "has_mpi", lambda: False)
    monkeypatch.setenv("HELIOGRAPH_DEVICE", QUICK)
    assert launch.run(make_job([str(PROGRAM), "same"], 2, None, False, None, None, False)) == 0
    assert capfd.readouterr() == (alone, "")


@needs_mpirun
def test_mpirun_alone_starts_ranks(alone: str) -> None:
    """One mesh, no launcher."""
    if not _core.has_mpi():
        pytest.skip("this build has no MPI")
    line = [launch.find_mpirun(), "-n", "2", "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    environment = os.environ | {"HELIOGRAPH_DEVICE": QUICK}
    line += [sys.executable, str(PROGRAM), "same"]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=True, timeout=LIMIT)
    digests = re.findall("[0-9a-f]{16}", alone)
    assert len(digests) == 10
    assert [done.stdout.count(digest) for digest in digests] == [2] * 10  # mpirun mixes the ranks' lines


@needs_mpirun
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ranks.py"], "all right\n"),
        pytest.param(["tfhe_batch.py", "--count", 2, "--bits", 8], "every product right\n", marks=pytest.mark.full),
    ],
)
def test_examples(words: list[object], said: str) -> None:
    """The programs that docs/ranks.md names."""
    run = finished("-n", 2, EXAMPLES / str(words[0]), *words[1:])
    assert run.process.returncode == 0, run.err
    assert run.out.endswith(said)


@needs_mpirun
def test_a_program_is_started_as_python_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Name, arguments, path, input; standard output of rank 0 alone, standard error of all; the host's cores are shared."""
    monkeypatch.delenv("HELIOGRAPH_THREADS", raising=False)
    run = finished("-n", 2, PROGRAM, "told")
    assert run.process.returncode == 0, run.err
    cores = len(os.sched_getaffinity(0))
    assert run.out.splitlines() == [
        "__main__ ['told'] python False",
        f"cpu: {max(1, cores // 2)}",
        "terminal False",
        "standard input ",
    ]
    assert sorted(run.err.splitlines()) == ["rank 1: standard error", "standard error"]
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "__main__.py").write_text("import sys; print('module', *sys.argv[1:], input())")
    line = [*COMMAND, "-n", "1", "-m", "job", "--flag"]
    done = subprocess.run(line, input="typed\n", cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "module --flag typed\n"


@needs_mpirun
def test_a_terminal_is_one_for_rank_0() -> None:
    """So that bars are drawn; lines end as they do without ranks."""
    ours, theirs = pty.openpty()
    line = [*COMMAND, "-n", "2", "-m", "timeit", "-n", "1", "-s", "import sys", "print('tty', sys.stdout.isatty())"]
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL) as process:
        os.close(theirs)
        seen = b""
        try:
            while data := os.read(ours, 4096):
                seen += data
        except OSError:  # the other end is closed
            os.close(ours)
        assert process.wait(30) == 0
    assert b"tty True\r\n" in seen
    assert b"\r\r" not in seen


@needs_mpirun
def test_own_commands_and_other_programs() -> None:
    """heliograph's by its name; an executable as it is."""
    run = finished("-n", 2, "heliograph", "devices")
    assert run.process.returncode == 0
    assert "of rank 1" in run.out
    run = finished("-n", 2, "heliograph", "mnist")
    assert (run.process.returncode, run.out) == (1, "")
    assert run.err == "heliograph: all 2 ranks ended: CommandError: say --images FILE --labels FILE, or name pictures\n"
    run = finished("-n", 2, "heliograph", "mnist", "--bogus")
    assert run.process.returncode == 2
    run = finished("-n", 2, "--output", "all", "/bin/echo", "here")
    assert sorted(run.out.splitlines()) == ["rank 0: here", "rank 1: here"]
    run = finished("-n", 3, "/bin/false")
    assert (run.process.returncode, run.err) == (1, "heliograph: all 3 ranks ended with exit status 1\n")


# ---- ends


@needs_mpirun
@pytest.mark.parametrize(
    ("what", "rank", "status", "last", "traceback"),
    [
        ("raise", 1, 1, "ended: ValueError: out of luck", True),
        pytest.param("status", 2, 7, "ended with exit status 7", False, marks=pytest.mark.full),
        ("status", 0, 7, "ended with exit status 7", False),
    ],
)
def test_one_that_fails_ends_all(what: str, rank: int, status: int, last: str, traceback: bool) -> None:
    """One traceback, one line that names the rank and the cause."""
    run = finished("-n", 3, PROGRAM, "work", what, rank, limit=LIMIT)
    assert run.process.returncode == status
    assert run.last.startswith(f"heliograph: rank {rank} of 3 (")
    assert run.last.endswith(f") {last}")
    assert run.err.count("Traceback") == (1 if traceback else 0)
    if traceback:
        assert run.err.startswith(f'Traceback (most recent call last):\n  File "{PROGRAM}"')
        assert run.err.splitlines()[-2] == "ValueError: out of luck"
    else:
        assert run.err.count("\n") == 1


@needs_mpirun
def test_one_that_leaves_early_is_missed() -> None:
    """Its end is no error, but others need it."""
    run = finished("-n", 3, PROGRAM, "work", "leave", 1, limit=LIMIT)
    assert run.process.returncode == 1
    assert "ended: DeviceError: " in run.last
    assert re.search(r"rank 1 \([^)]*\) has left while others still need it$", run.last)


@needs_mpirun
def test_what_fails_everywhere_is_said_once() -> None:
    """One traceback, one line."""
    run = finished("-n", 3, PROGRAM, "everyone_raises")
    assert run.process.returncode == 1
    assert run.err.count("Traceback") == 1
    assert run.last == "heliograph: all 3 ranks ended: NoiseError: the same noise everywhere"


@needs_mpirun
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(s, marks=pytest.mark.full) for s in range(3, 6))])
def test_a_killed_rank_ends_all(seed: int) -> None:
    """At random points: before the ranks have met, while keys are made, in the middle of exchanges."""
    draw = random.Random(seed)
    rank, ranks = draw.randrange(3), 3
    with started("-n", ranks, PROGRAM, "work", device=draw.choice(["cpu/limb/uncalibrated", QUICK])) as run:
        if seed % 3:
            run.read_until("running" if seed % 3 == 1 else "computing")
            time.sleep(draw.uniform(0, 0.4))
        victim = run.program(rank)
        os.kill(victim, signal.SIGKILL)
        assert run.end(LIMIT) == 128 + signal.SIGKILL
    host = os.uname().nodename
    assert run.last == f"heliograph: rank {rank} of {ranks} ({host}, process {victim}) was killed by SIGKILL"
    assert run.err.count("\n") == 1


@needs_mpirun
def test_a_stopped_rank_ends_all() -> None:
    """It does not answer, but it is there."""
    with started("-n", 2, PROGRAM, "work") as run:
        run.read_until("computing")
        os.kill(run.program(1), signal.SIGSTOP)
        assert run.end(LIMIT) == 1
    assert "heliograph: rank 1 of 2 (" in run.last
    assert "was stopped and did not go on for 4 s" in run.last


@needs_mpirun
def test_a_stopped_rank_that_goes_on_is_forgiven() -> None:
    """A pause is no end."""
    with started("-n", 2, PROGRAM, "work", "status", 0) as run:
        run.read_until("running")
        victim = run.program(1)
        os.kill(victim, signal.SIGSTOP)
        time.sleep(0.5)
        os.kill(victim, signal.SIGCONT)
        assert run.end(LIMIT) == 7


@needs_mpirun
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_launcher_that_ends_ends_all(number: signal.Signals) -> None:
    """Ctrl-C, an order, a kill: no process stays."""
    with started("-n", 3, PROGRAM, "work") as run:
        run.read_until("computing")
        run.process.send_signal(number)
        status = run.end(LIMIT)
    assert status == (-9 if number == signal.SIGKILL else 128 + number)
    assert run.err == ("heliograph: stopped\n" if number == signal.SIGINT else "")


@needs_mpirun
def test_a_killed_mpirun_ends_all() -> None:
    """It is what keeps the ranks."""
    with started("-n", 2, PROGRAM, "work") as run:
        run.read_until("computing")
        supervisor = int(Path(f"/proc/{run.program(0)}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(int(Path(f"/proc/{supervisor}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
        assert run.end(LIMIT) == 1
    assert run.last == "heliograph: mpirun ended (by SIGKILL) before its ranks"


@needs_mpirun
def test_strangers_change_nothing() -> None:
    """What knocks at the launcher's door without the token is not let in, says what it may."""
    with started("-n", 2, PROGRAM, "work") as run:
        run.read_until("computing")
        places = [read_variable(process, "HELIOGRAPH_RUN") for process in run.processes()]
        port = next(json.loads(place)["port"] for place in places if place)
        claim = {"proof": "0" * 64, "protocol": rank_side.PROTOCOL, "rank": 1, "host": "h", "process": 1, "port": None}
        for sent in (b"", b"GET / HTTP/1.1\r\n\r\n", rank_side.message(challenge="x") + rank_side.message(**claim)):
            with socket.create_connection(("127.0.0.1", port)) as stranger:
                stranger.sendall(sent)
                if not sent:
                    stranger.shutdown(socket.SHUT_WR)
                stranger.settimeout(10)
                with contextlib.suppress(ConnectionError):
                    while stranger.recv(4096):  # until the door is closed
                        pass
        os.kill(run.program(1), signal.SIGKILL)
        assert run.end(LIMIT) == 128 + signal.SIGKILL
    assert run.last.startswith("heliograph: rank 1 of 2 (")


@needs_mpirun
def test_ranks_of_two_minds_are_refused(tmp_path: Path) -> None:
    """Before anything is computed."""
    script = tmp_path / "minds.py"
    script.write_text(
        "import os\n"
        "rank = os.environ['OMPI_COMM_WORLD_RANK']\n"
        "os.environ['HELIOGRAPH_DEVICE'] = 'cpu/limb' if rank == '1' else 'cpu/batch'\n"
        "import heliograph as hg\n"
        "print(hg.devices())\n"
    )
    run = finished("-n", 3, script)
    assert (run.process.returncode, run.out) == (1, "")
    assert "MismatchError: rank 1 (" in run.last
    assert 'options "/limb", rank 0 "/batch"' in run.last


@needs_mpirun
def test_a_host_that_is_not_there() -> None:
    """What the shell said, and one line; not mpirun's pages."""
    run = finished("-n", 2, "--hosts", "no-such-host-a.invalid,no-such-host-b.invalid", PROGRAM, "same")
    assert run.process.returncode == 1
    assert run.last.startswith("heliograph: mpirun ended (")
    assert len(run.err.splitlines()) <= 8


def test_without_mpirun(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A typed error that says what to install."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert command(["run", "-n", "2", str(PROGRAM), "same"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("heliograph: there is no mpirun")
    assert "apt-get install openmpi-bin" in said


def test_another_mpirun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes other options."""
    (tmp_path / "mpirun").write_text("#!/bin/sh\necho HYDRA build details: Version 4.0.2\n")
    (tmp_path / "mpirun").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(hg.DeviceError, match="is not Open MPI's"):
        launch.find_mpirun()


def test_jobs() -> None:
    """The command's words."""
    here = str(PROGRAM)
    assert make_job([here, "same"], 3, None, False, None, None, False) == Job("script", here, ["same"], 3)
    spread = make_job(["far.py"], None, "alpha,beta:2", False, 5, "cuda", True)
    assert spread == Job("script", "far.py", [], 3, [("alpha", 1), ("beta", 2)], 5, "cuda", True)
    assert make_job(["heliograph", "mnist"], 2, None, False, None, None, False).form == "command"
    assert make_job(["json.tool"], 2, None, True, None, None, False).form == "module"
    assert make_job([sys.executable], 2, None, False, None, None, False).form == "executable"
    for words in (
        ([here], None, None), ([here], 0, None), ([here], 65, None), ([here], 2, "a,,b"), ([here], 2, "a:0"), ([here], 2, "a:x"),
        (["nothing.py"], 2, None),
    ):  # fmt: skip
        with pytest.raises(CommandError):
            make_job(*words, False, None, None, False)


# ---- hosts


@pytest.fixture(scope="module")
def nets() -> None:
    """Skips where no hosts can be made."""
    if reason := net_rig.reason_for_none("mpirun"):
        pytest.skip(reason)


@pytest.mark.parametrize(("count", "by_mpi"), [(2, True), (3, True), (2, False)])
def test_hosts_compute_what_one_process_computes(
    count: int, by_mpi: bool, nets: None, tmp_path: Path, alone: str, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Separate networks, names of their own."""
    if by_mpi and not _core.has_mpi():
        pytest.skip("this build has no MPI")
    with net_rig.hosts(count, tmp_path) as net:
        for name, value in (net.environment() | {"HELIOGRAPH_DEVICE": QUICK}).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(_core, "has_mpi", lambda: by_mpi)
        assert launch.run(make_job([str(PROGRAM), "same"], None, ",".join(net.names), False, None, None, False)) == 0
        assert capfd.readouterr() == (alone, "")
        crossed, _ = net.counted(net.names[-1])
        assert crossed > 1 << 16, "nothing went over the network that was made for it"


def test_hosts_reached_by_ssh_compute_what_one_process_computes(nets: None, tmp_path: Path, alone: str) -> None:
    """Two networks, a daemon with keys of its own in each; every host let the launcher in."""
    if reason := net_rig.reason_for_no_sshd():
        pytest.skip(reason)
    with net_rig.hosts(2, tmp_path) as net, net_rig.served_by_ssh(net, tmp_path) as (environment, logs):
        with started("--hosts", ",".join(net.names), PROGRAM, "same", device=QUICK, environment=environment) as run:
            assert run.end(LIMIT) == 0, run.err
        assert (run.out, run.err) == (alone, "")
        for name in net.names:
            assert "Accepted publickey for root" in (logs / f"{name}.log").read_text()


def test_a_host_that_is_cut_off_ends_all(nets: None, tmp_path: Path) -> None:
    """Both sides of the cut end; the launcher names the rank and its host."""
    with net_rig.hosts(2, tmp_path) as net:
        with started("--hosts", ",".join(net.names), PROGRAM, "work", environment=net.environment()) as run:
            run.read_until("computing")
            net.cut(net.names[1])
            cut = time.monotonic()
            assert run.process.wait(LIMIT) == 1
            while net.processes() and time.monotonic() < cut + LIMIT:
                time.sleep(0.1)
            assert not net.processes()
            run.end(LIMIT)
        assert run.last.startswith(f"heliograph: rank 1 of 2 ({net.names[1]}, process ")
        assert "was not heard of for 5 s" in run.last


class Crossed:
    """What four calls have moved between two hosts, by the engine's count and on the wire."""

    def __init__(self, folder: Path, what: str, device: str) -> None:
        files = {step: [folder / f"{step}{rank}" for rank in range(2)] for step in ("ready", "done")}

        def wait_for(step: str) -> None:
            end = time.monotonic() + LIMIT
            while not all(path.exists() for path in files[step]) and time.monotonic() < end:
                time.sleep(0.02)

        with net_rig.hosts(2, folder) as net:
            words = ("--hosts", ",".join(net.names), PROGRAM, "count", folder, what)
            with started(*words, device=device, environment=net.environment()) as run:
                wait_for("ready")
                before = net.counted(net.names[1])
                (folder / "go").touch()
                wait_for("done")
                after = net.counted(net.names[1])
                (folder / "counted").touch()
                assert run.end(30) == 0, run.err
        assert run.out == "right\n"
        told = [[int(word) for word in path.read_text().split()] for path in files["done"]]
        self.moved, self.result, self.batch = [rank[0] for rank in told], told[0][2], told[0][3]
        self.sent = sum(rank[1] for rank in told)
        self.on_the_wire = after[0] - before[0]


def test_multiplications_of_a_batch_move_nothing_between_hosts(nets: None, tmp_path: Path) -> None:
    """Once it lies on the hosts: no byte of the engine's, and on the wire no more than signs of life."""
    crossed = Crossed(tmp_path, "products", "cpu/batch/uncalibrated")
    assert crossed.moved == [0, 0]
    assert crossed.on_the_wire < 4096 < crossed.result / 1000


def test_a_network_sends_what_its_windows_share_between_hosts(nets: None, tmp_path: Path) -> None:
    """Rows at the edges of shares and partial sums, in as few bytes as words need: a small part of what is computed on."""
    crossed = Crossed(tmp_path, "network", "cpu/costs=1e3:1e6:1e-3:1e-6:8e-6")
    each = crossed.batch // 441  # of a ciphertext
    print(f"moved {crossed.moved}, sent {crossed.sent}, on the wire {crossed.on_the_wire}; a ciphertext has {each} bytes")
    assert crossed.moved[0] == crossed.moved[1]
    assert 0 < crossed.moved[0] < 4 * 100 * each, "more than a quarter of a layer's inputs"
    assert crossed.sent < 0.9 * crossed.moved[0]
    assert crossed.sent < crossed.on_the_wire < 1.1 * crossed.sent + 65536
