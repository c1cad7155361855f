"""Runs the program of one rank of ``heliograph run``. mpirun starts this file by its path on every host."""

from __future__ import annotations

import ctypes
import faulthandler
import fcntl
import os
import runpy
import select
import signal
import stat
import sys
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import NoReturn

_SET_PARENT_DEATH_SIGNAL = 1  # prctl
_LATER_SECONDS = 2.0  # seconds that a rank other than 0 waits with an error: mpirun ends it if rank 0 has failed too
_LATEST_SECONDS = 2.0  # seconds that a rank waits with an error that another rank's failure causes
_DRAIN_SECONDS = 5.0  # limit in seconds for the reader of a rank's last output: mpirun drops output after it ends a job
_forwarders: dict[int, int] = {}  #: by forwarded descriptor: a pipe that closes when the forwarding process has ended


def main() -> None:
    """Runs rank.py OUTPUT FORM TARGET ARGUMENTS..."""
    output, form, target, *arguments = sys.argv[1:]
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    _route_output(output, rank)
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)  # the parent is mpirun or its daemon
    if form == "executable":
        _execute(target, arguments)
    faulthandler.enable()
    sys.argv = [target, *arguments]
    try:
        _run(form, target, arguments)
    except SystemExit as error:
        if error.code is None or error.code == 0:
            return
        if not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
        _exit_now(error.code & 0xFF if isinstance(error.code, int) else 1)
    except BaseException as error:
        # All ranks raise these errors if one rank fails.
        secondary = type(error).__name__ in ("DeviceError", "OutOfMemoryError")
        time.sleep(_LATEST_SECONDS * secondary + _LATER_SECONDS * (rank > 0))
        _exit_now(_report(error, form))


def _route_output(output: str, rank: int) -> None:
    """Shows standard error of every rank, and standard output of rank 0 ("first", "terminal") or of every rank ("all")."""
    if output == "all":
        _forward(1, f"rank {rank}: ")
    elif rank > 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    elif output != "terminal":
        _forward(1, "")  # mpirun's own terminal would make the program print control characters
    if output == "all" or rank > 0:
        _forward(2, f"rank {rank}: ")


def _forward(descriptor: int, prefix: str) -> None:
    """Redirects a descriptor to a new process that prefixes each line. The process outlives a killed program."""
    source, sink = os.pipe()
    ended, running = os.pipe()
    if os.fork() == 0:
        if os.fork() != 0:  # double fork, so that the program has no child process that it did not start
            os._exit(0)
        os.setsid()  # mpirun signals the program's process group
        os.close(sink)
        try:
            _copy(source, descriptor, prefix.encode())
        finally:
            os._exit(0)
    os.wait()
    os.dup2(sink, descriptor)
    for one in (source, sink, running):
        os.close(one)
    _forwarders[descriptor] = ended


def _copy(source: int, target: int, prefix: bytes) -> None:
    """Copies bytes until the source ends. With a prefix, lines are prefixed and their control characters escaped."""
    with open(source, "rb", buffering=0) as reader, open(target, "wb", buffering=0, closefd=False) as writer:
        pending = b""
        while data := reader.read(1 << 16):
            *lines, pending = (pending + data).split(b"\n") if prefix else (data,)
            _write(writer.fileno(), b"".join(prefix + _escaped(line) + b"\n" for line in lines) if prefix else pending)
        if prefix and pending:
            _write(writer.fileno(), prefix + _escaped(pending) + b"\n")
    _drain(target)


def _drain(descriptor: int) -> None:
    """Waits until the reader of a pipe has read all that was written to it, within a time limit."""
    end = time.monotonic() + _DRAIN_SECONDS
    try:
        while stat.S_ISFIFO(os.fstat(descriptor).st_mode) and time.monotonic() < end:
            if not any(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))):
                return
            time.sleep(0.01)
    except OSError:  # the descriptor is closed
        return


def _escaped(line: bytes) -> bytes:
    """Escapes characters that could overwrite the prefix or control the terminal, and bytes that are not UTF-8."""
    text = line.removesuffix(b"\r").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in text).encode()


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _execute(target: str, arguments: list[str]) -> NoReturn:
    try:
        os.execv(target, [target, *arguments])
    except OSError as error:
        print(f"heliograph: {error.strerror}: {target}", file=sys.stderr)
        os._exit(1)


def _run(form: str, target: str, arguments: list[str]) -> None:
    """Runs the program. Returns or raises SystemExit at its end."""
    own = sys.path.pop(0) if not sys.flags.safe_path else None
    if form == "command":
        from heliograph.cli import invoke

        sys.exit(invoke(arguments))
    if own is not None:
        sys.path.insert(0, str(Path.cwd()) if form == "module" else str(Path(target).resolve().parent))
    if form == "module":
        runpy.run_module(target, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(target, run_name="__main__")


def _report(error: BaseException, form: str) -> int:
    """Prints an exception as Python or the command does, and returns the exit status."""
    if form == "command":
        from heliograph.cli import report

        try:
            return report(error)
        except BaseException as unexpected:
            error = unexpected
    error = error.with_traceback(_of_the_program(error.__traceback__))
    sys.excepthook(type(error), error, error.__traceback__)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _of_the_program(trace: TracebackType | None) -> TracebackType | None:
    """Returns the traceback without the frames of this file and runpy."""
    own = (__file__, runpy.__file__, "<frozen runpy>")
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename in own:
        trace = trace.tb_next
    return trace


def _exit_now(code: int) -> NoReturn:
    """Ends the process at once: an orderly exit would wait for ranks that wait for this one."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # the stream is closed
            continue
    for descriptor in (1, 2):
        if descriptor in _forwarders:  # the forwarding processes end if all copies of their pipes are closed
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        else:
            _drain(descriptor)
    for ended in _forwarders.values():
        select.select([ended], [], [], _DRAIN_SECONDS)
    os._exit(code)


if __name__ == "__main__":
    main()
