"""Tests `heliograph run`: several ranks give the results of one process, and if one rank ends, all ranks end."""

from __future__ import annotations

import os
import pty
import random
import re
import signal
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
from heliograph.cli import run as command
from heliograph.cli.launch import Job, make_job
from heliograph.cli.workflow import CommandError

PROGRAM = Path(__file__).with_name("ranks_program.py")
EXAMPLES = PROGRAM.parents[2] / "examples"
COMMAND = [sys.executable, "-m", "heliograph.cli", "run"]
MARK = "HELIOGRAPH_TEST_MARK"
QUICK = "cpu/uncalibrated"
LIMIT = 120.0  # after this many seconds a test regards a job as hanging, even on a busy machine

try:
    launch.find_mpirun()
    missing = None
except hg.DeviceError as error:
    missing = str(error)
needs_mpirun = pytest.mark.skipif(missing is not None, reason=missing or "mpirun is installed")


@dataclass
class Run:
    """A job that is tested."""

    process: subprocess.Popen[str]
    mark: str
    out: str = ""
    err: str = ""
    programs: dict[int, int] = field(default_factory=dict)

    def processes(self) -> list[int]:
        """Returns the ids of all running processes of the job on any virtual host. The processes are found by an environment
        variable that they inherit.

        """
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                try:
                    if f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                        found.append(int(folder.name))
                except OSError:  # the process has ended
                    continue
        return found

    def program(self, rank: int) -> int:
        """Waits until the program of a rank runs, and returns its process id."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise AssertionError(f"the job ended: {self.process.returncode}, {self.process.communicate()}")
            for process in self.processes():
                try:
                    words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
                    variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
                except OSError:
                    continue
                program = any(word.endswith(b"cli/rank.py") for word in words) and is_child_of_mpirun(process)
                if program and f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables:
                    return process
            time.sleep(0.01)
        raise AssertionError(f"rank {rank} did not start within {LIMIT} s")

    def read_until(self, text: str) -> None:
        """Reads the output of rank 0 up to a line that has this text."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.out += line
            if text in line:
                return
        raise AssertionError(f"the job ended before it printed {text!r}: {self.process.communicate()}")

    def end(self, limit: float) -> int:
        """Waits for the job, checks that no process of it is left, and returns its exit status."""
        out, self.err = self.process.communicate(timeout=limit)
        self.out += out
        until = time.monotonic() + LIMIT
        while (left := self.processes()) and time.monotonic() < until:
            time.sleep(0.05)
        assert not left
        return self.process.returncode

    @property
    def own_errors(self) -> list[str]:
        """The lines on standard error without the explanations of mpirun, which are between lines of hyphens."""
        return re.sub("^-{10,}\n.*?^-{10,}\n", "", self.err, flags=re.MULTILINE | re.DOTALL).splitlines()


def parent_of(process: int) -> int:
    """Returns the id of a process's parent."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def is_child_of_mpirun(process: int) -> bool:
    """Returns whether mpirun or its daemon started a process. A process that only forwards output has another parent."""
    try:
        return Path(f"/proc/{parent_of(process)}/comm").read_text().strip() in (
            "mpirun",
            "orterun",
            "prterun",
            "orted",
            "prted",
        )
    except OSError:  # the process has ended
        return False


@contextmanager
def started(*words: object, device: str = QUICK, environment: dict[str, str] | None = None) -> Iterator[Run]:
    """Starts a job; ends it at exit."""
    mark = uuid.uuid4().hex
    whole = os.environ | {MARK: mark, "HELIOGRAPH_DEVICE": device} | (environment or {})
    line = [*COMMAND, *(str(word) for word in words)]
    # If a shell runs the tests in the background, child processes inherit an ignored SIGINT, so the test restores the
    # default.
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
    """Runs a job until it ends."""
    with started(*words, device=device, environment=environment) as run:
        run.end(limit)
        return run


# ---- results


@pytest.fixture(scope="module")
def alone() -> str:
    """Returns the output of the program in a single process."""
    environment = os.environ | {"HELIOGRAPH_DEVICE": "cpu"}
    line = [sys.executable, str(PROGRAM), "same"]
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=True).stdout


@needs_mpirun
@pytest.mark.parametrize(
    ("ranks", "device"),
    [
        (2, "cpu/batch/uncalibrated"),
        (3, "cpu/limb/uncalibrated"),
        (2, "cpu/costs=1e3:300e9:12e-6:1e-6:1e-4"),  # programs are distributed over the members of both ranks
    ],
)
def test_ranks_compute_what_one_process_computes(ranks: int, device: str, alone: str) -> None:
    """With several ranks, results of BFV, BGV and CKKS have the bits of one process, on every rank."""
    run = finished("-n", ranks, "--output", "all", PROGRAM, "same", device=device)
    assert (run.process.returncode, run.err) == (0, "")
    lines = run.out.splitlines()
    for rank in range(ranks):
        mine = [line.removeprefix(f"rank {rank}: ") for line in lines if line.startswith(f"rank {rank}: ")]
        assert mine == alone.splitlines()
    assert len(lines) == ranks * len(alone.splitlines())


@needs_mpirun
def test_ranks_connect_by_tcp_without_mpi(
    alone: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without MPI, the ranks connect by TCP at an address that the launcher chooses."""
    monkeypatch.setattr(_core.device, "has_mpi", lambda: False)
    monkeypatch.setenv("HELIOGRAPH_DEVICE", QUICK)
    assert launch.run(make_job([str(PROGRAM), "same"], 2, None, False, None, None, False)) == 0
    assert capfd.readouterr() == (alone, "")


@needs_mpirun
def test_mpirun_alone_starts_ranks(alone: str) -> None:
    """mpirun alone starts ranks of one mesh."""
    if not _core.device.has_mpi():
        pytest.skip("this build has no MPI support")
    line = [launch.find_mpirun(), "-n", "2", "--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    environment = os.environ | {"HELIOGRAPH_DEVICE": QUICK}
    line += [sys.executable, str(PROGRAM), "same"]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=True, timeout=LIMIT)
    digests = re.findall("[0-9a-f]{16}", alone)
    assert len(digests) == 10
    assert [done.stdout.count(digest) for digest in digests] == [2] * 10  # in the output, the lines of the ranks are mixed


@needs_mpirun
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ranks.py"], "all right\n"),
        pytest.param(["tfhe_batch.py", "--count", 2, "--bits", 8], "every product right\n", marks=pytest.mark.full),
    ],
)
def test_examples(words: list[object], said: str) -> None:
    """The example programs named in docs/ranks.md run with several ranks."""
    run = finished("-n", 2, EXAMPLES / str(words[0]), *words[1:])
    assert run.process.returncode == 0, run.err
    assert run.out.endswith(said)


@needs_mpirun
def test_a_program_is_started_as_python_starts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program gets the name, arguments, path and input that Python would give it. The launcher shows the output of rank 0
    and the errors of all ranks, and divides the cores among the ranks.

    """
    monkeypatch.delenv("HELIOGRAPH_THREADS", raising=False)
    run = finished("-n", 2, PROGRAM, "told")
    assert run.process.returncode == 0, run.err
    cores = len(os.sched_getaffinity(0))
    assert run.out.splitlines() == [
        "__main__ ['told'] python",
        f"cpu: {max(1, cores // 2)}",
        "terminal False",
        "standard input ",
    ]
    assert "rank 1: standard error" in run.err
    assert run.err.count("standard error") == 2  # mpirun may put both texts on one line
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "__main__.py").write_text("import sys; print('module', *sys.argv[1:], input())")
    line = [*COMMAND, "-n", "1", "-m", "job", "--flag"]
    done = subprocess.run(line, input="typed\n", cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "module --flag typed\n"


@needs_mpirun
def test_rank_0_has_the_launchers_terminal() -> None:
    """If the output of the launcher is a terminal, the output of rank 0 is one, too, with the usual line ends."""
    ours, theirs = pty.openpty()
    line = [*COMMAND, "-n", "2", "-m", "timeit", "-n", "1", "-s", "import sys", "print('tty', sys.stdout.isatty())"]
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL) as process:
        os.close(theirs)
        seen = b""
        try:
            while data := os.read(ours, 4096):
                seen += data
        except OSError:  # the ranks have closed the terminal
            os.close(ours)
        assert process.wait(LIMIT) == 0
    assert b"tty True\r\n" in seen
    assert b"\r\r" not in seen


@needs_mpirun
def test_commands_and_executables_can_be_run() -> None:
    """`heliograph run` accepts the names of heliograph's own commands, and executables."""
    run = finished("-n", 2, "heliograph", "devices")
    assert run.process.returncode == 0
    assert "of rank 1" in run.out
    run = finished("-n", 2, "heliograph", "mnist")
    assert (run.process.returncode, run.out) == (1, "")
    assert run.own_errors == ["heliograph: give pictures, or --images FILE and --labels FILE"]
    run = finished("-n", 2, "heliograph", "mnist", "--bogus")
    assert run.process.returncode == 2
    assert run.err.count("No such option: --bogus") == 1
    run = finished("-n", 2, "--output", "all", "/bin/echo", "here")
    assert sorted(run.out.splitlines()) == ["rank 0: here", "rank 1: here"]
    run = finished("-n", 3, "/bin/false")
    assert (run.process.returncode, run.own_errors) == (1, [])


# ---- failures


@needs_mpirun
@pytest.mark.parametrize(
    ("what", "rank", "status"), [("raise", 1, 1), pytest.param("status", 2, 7, marks=pytest.mark.full), ("status", 0, 7)]
)
def test_a_failing_rank_ends_all_ranks(what: str, rank: int, status: int) -> None:
    """If one rank fails, all ranks end with its status. An exception is printed once, with its rank and without the frames
    of the launcher.
    """
    run = finished("-n", 3, PROGRAM, "work", what, rank, limit=LIMIT)
    assert run.process.returncode == status
    if what == "status":
        assert run.own_errors == []
        return
    lines = run.own_errors
    assert all(line.startswith(f"rank {rank}: ") for line in lines)
    assert lines[0] == f"rank {rank}: Traceback (most recent call last):"
    assert lines[1].startswith(f'rank {rank}:   File "{PROGRAM}"')
    assert lines[-1] == f"rank {rank}: ValueError: out of luck"
    assert run.err.count("Traceback") == 1


@needs_mpirun
def test_a_rank_that_exits_early_is_an_error() -> None:
    """It is an error if a rank exits early with status 0 and other ranks need it."""
    run = finished("-n", 3, PROGRAM, "work", "leave", 1, limit=LIMIT)
    assert run.process.returncode == 1
    assert re.search(r"DeviceError: rank 1 \([^)]*\) has ended while others still need it$", run.own_errors[-1])


@needs_mpirun
@pytest.mark.full
def test_ranks_that_end_first_wait_for_the_others() -> None:
    """Rank 0 may work long after the other ranks have ended their programs, for example to save results."""
    run = finished("-n", 3, PROGRAM, "late")
    assert (run.process.returncode, run.out, run.err) == (0, "the last rank\n", "")


@needs_mpirun
def test_an_error_on_all_ranks_is_reported_once() -> None:
    """If all ranks raise the same error, only rank 0 prints it."""
    run = finished("-n", 3, PROGRAM, "everyone_raises")
    assert run.process.returncode == 1
    assert run.err.count("Traceback") == 1
    assert run.own_errors[-1] == "heliograph._core.NoiseError: the same noise everywhere"


@needs_mpirun
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(s, marks=pytest.mark.full) for s in range(3, 6))])
def test_a_killed_rank_ends_all_ranks(seed: int) -> None:
    """All ranks end if one rank is killed at a random time: before the ranks connect, during key generation, or during
    exchanges.
    """
    draw = random.Random(seed)
    rank, ranks = draw.randrange(3), 3
    with started("-n", ranks, PROGRAM, "work", device=draw.choice(["cpu/limb/uncalibrated", QUICK])) as run:
        if seed % 3:
            run.read_until("running" if seed % 3 == 1 else "computing")
            time.sleep(draw.uniform(0, 0.4))
        os.kill(run.program(rank), signal.SIGKILL)
        assert run.end(LIMIT) == 128 + signal.SIGKILL
    explanation = " ".join(run.err.split())  # mpirun's own message
    assert re.search(r"signal 9 \(Killed\)", explanation)
    if seed % 3:  # Open MPI 4 does not always name a rank that is killed while it starts
        assert f"process rank {rank} with PID" in explanation


@needs_mpirun
def test_a_stopped_rank_ends_all_ranks() -> None:
    """If a rank's process is stopped (SIGSTOP), it does not answer, and all ranks end."""
    with started("-n", 2, PROGRAM, "work") as run:
        run.read_until("computing")
        os.kill(run.program(1), signal.SIGSTOP)
        assert run.end(LIMIT) == 1
    assert re.search(r"DeviceError: rank 1 \([^)]*\) does not answer", run.own_errors[-1])


@needs_mpirun
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_launcher_ends_all_ranks(number: signal.Signals) -> None:
    """After SIGINT, SIGTERM or SIGKILL of the launcher no process remains."""
    with started("-n", 3, PROGRAM, "work") as run:
        run.read_until("computing")
        run.process.send_signal(number)
        status = run.end(LIMIT)
    assert status == (-9 if number == signal.SIGKILL else 128 + number)
    assert run.own_errors == (["heliograph: stopped"] if number == signal.SIGINT else [])


@needs_mpirun
def test_a_killed_mpirun_ends_all_ranks() -> None:
    """If mpirun is killed, all ranks end."""
    with started("-n", 2, PROGRAM, "work") as run:
        run.read_until("computing")
        os.kill(parent_of(run.program(0)), signal.SIGKILL)
        assert run.end(LIMIT) == 128 + signal.SIGKILL


@needs_mpirun
def test_ranks_with_different_options_are_refused(tmp_path: Path) -> None:
    """Ranks with different options are refused before any computation."""
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
    assert "MismatchError: rank 1 (" in run.own_errors[-1]
    assert 'options "/limb", rank 0 "/batch"' in run.own_errors[-1]


@needs_mpirun
def test_an_unknown_host_is_named() -> None:
    """For an unknown host, mpirun fails and ssh names the host."""
    run = finished("-n", 2, "--hosts", "no-such-host-a.invalid,no-such-host-b.invalid", PROGRAM, "same")
    assert run.process.returncode not in (0, 130)
    assert "no-such-host" in run.err


def test_without_mpirun_there_is_a_typed_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without mpirun, a typed error states what to install."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert command(["run", "-n", "2", str(PROGRAM), "same"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("heliograph: cannot start ranks: mpirun is not installed")
    assert "pip install 'heliograph[mpi]'" in said


def test_another_mpirun_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mpirun of another MPI, which has other options, is refused."""
    (tmp_path / "mpirun").write_text("#!/bin/sh\necho HYDRA build details: Version 4.0.2\n")
    (tmp_path / "mpirun").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(hg.DeviceError, match="is not Open MPI's"):
        launch.find_mpirun()


def test_mpirun_of_the_python_environment_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mpirun of a Python environment is found even if its folder is not on the PATH."""
    (tmp_path / "mpirun").write_text("#!/bin/sh\necho 'mpirun (Open MPI) 5.0.11'\n")
    (tmp_path / "mpirun").chmod(0o755)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert launch.find_mpirun() == str(tmp_path / "mpirun")


def test_options_give_the_right_job() -> None:
    """The options of the command give the right job: ranks, hosts, devices."""
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
    """Skips the tests if virtual hosts cannot be made."""
    if reason := net_rig.reason_for_none("mpirun"):
        pytest.skip(reason)


def environment_of(net: net_rig.Hosts, by_mpi: bool = _core.device.has_mpi()) -> dict[str, str]:
    """Returns environment variables for the launcher. The hosts cannot resolve each other's names, so ranks that start
    without MPI get the address of rank 0.

    """
    return net.environment() | ({} if by_mpi else {"HELIOGRAPH_MEET": f"{net.addresses[net.names[0]]}:29500"})


@pytest.mark.parametrize(("count", "by_mpi"), [(2, True), (3, True), (2, False)])
def test_hosts_compute_what_one_process_computes(
    count: int, by_mpi: bool, nets: None, tmp_path: Path, alone: str, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Hosts that are in separate networks and have their own names give the results of one process."""
    if by_mpi and not _core.device.has_mpi():
        pytest.skip("this build has no MPI support")
    with net_rig.hosts(count, tmp_path) as net:
        for name, value in (environment_of(net, by_mpi) | {"HELIOGRAPH_DEVICE": QUICK}).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(_core.device, "has_mpi", lambda: by_mpi)
        assert launch.run(make_job([str(PROGRAM), "same"], None, ",".join(net.names), False, None, None, False)) == 0
        assert capfd.readouterr() == (alone, "")
        crossed, _ = net.counted(net.names[-1])
        assert crossed > 1 << 16, "the ranks did not use the virtual network"


def test_hosts_reached_by_ssh_compute_what_one_process_computes(nets: None, tmp_path: Path, alone: str) -> None:
    """Ranks that ssh starts on two virtual hosts, whose sshd has separate keys, give the results of one process."""
    if reason := net_rig.reason_for_no_sshd():
        pytest.skip(reason)
    with net_rig.hosts(2, tmp_path) as net, net_rig.served_by_ssh(net, tmp_path) as (environment, logs):
        environment = environment_of(net) | environment
        with started("--hosts", ",".join(net.names), PROGRAM, "same", device=QUICK, environment=environment) as run:
            assert run.end(LIMIT) == 0, run.err
        assert (run.out, run.err) == (alone, "")
        for name in net.names:
            assert "Accepted publickey for root" in (logs / f"{name}.log").read_text()


def test_a_disconnected_host_ends_all_ranks(nets: None, tmp_path: Path) -> None:
    """If a host is disconnected, the ranks on both sides end, and mpirun names the host."""
    with net_rig.hosts(2, tmp_path) as net:
        with started("--hosts", ",".join(net.names), PROGRAM, "work", environment=environment_of(net)) as run:
            run.read_until("computing")
            net.cut(net.names[1])
            cut = time.monotonic()
            assert run.process.wait(LIMIT) not in (0, 128 + signal.SIGINT)
            while net.processes() and time.monotonic() < cut + LIMIT:
                time.sleep(0.1)
            assert not net.processes()
            run.end(LIMIT)
        assert f"on node {net.names[1]}" in run.err


class Crossed:
    """Returns the number of bytes that four calls send between two hosts, as counted by the engine and by the network
    interface.
    """

    def __init__(self, folder: Path, what: str, device: str) -> None:
        files = {step: [folder / f"{step}{rank}" for rank in range(2)] for step in ("ready", "done")}

        def wait_for(step: str) -> None:
            end = time.monotonic() + LIMIT
            while not all(path.exists() for path in files[step]) and time.monotonic() < end:
                time.sleep(0.02)

        with net_rig.hosts(2, folder) as net:
            words = ("--hosts", ",".join(net.names), PROGRAM, "count", folder, what)
            with started(*words, device=device, environment=environment_of(net)) as run:
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
    """After a batch is distributed, its products exchange no bytes; the network carries only heartbeats."""
    crossed = Crossed(tmp_path, "products", "cpu/batch/uncalibrated")
    assert crossed.moved == [0, 0]
    assert crossed.on_the_wire < 4096 < crossed.result / 1000


def test_a_network_sends_only_border_rows_and_sums_between_hosts(nets: None, tmp_path: Path) -> None:
    """Between hosts, a neural network exchanges only border rows and partial sums, packed to as many bits as the words need."""
    crossed = Crossed(tmp_path, "network", "cpu/costs=1e3:1e6:1e-3:1e-6:8e-6")
    each = crossed.batch // 441  # bytes of a ciphertext
    print(f"moved {crossed.moved}, sent {crossed.sent}, on the wire {crossed.on_the_wire}; a ciphertext has {each} bytes")
    assert crossed.moved[0] == crossed.moved[1]
    assert 0 < crossed.moved[0] < 4 * 100 * each, "the network exchanges more than a quarter of a layer's inputs"
    assert crossed.sent < 0.9 * crossed.moved[0]
    assert crossed.sent < crossed.on_the_wire < 1.1 * crossed.sent + 65536


def test_harmless_mpi_messages_are_not_shown(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Two kinds of Open MPI messages are dropped: about a race when ssh starts, and about the memory of a rank that has
    ended. All other messages are shown.

    """
    source, sink = os.pipe()
    setpgid = b"[vm:01682] plm:rsh: Warning: setpgid(1689,1689) failed in parent with errno=Permission denied(13)\n"
    ended = b"[vm:31045] Read -1, expected 98304, errno = 3\nrank 2: [vm:31044] Read -1, expected 98304, errno = 3\n"
    other = b"[vm:31045] Read -1, expected 98304, errno = 1\n"
    os.write(sink, b"first\n" + setpgid + ended + other + b"[vm:1] another\n[vm")
    os.close(sink)
    with os.fdopen(source, "rb") as errors:
        launch._relay(errors, set())
    assert capfdbinary.readouterr() == (b"", b"first\n" + other + b"[vm:1] another\n[vm")
