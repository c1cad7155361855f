"""The program of one rank, under the eyes of rank.py: run as Python would run it; what ends it is told before it ends."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import runpy
import signal
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

_SET_PARENT_DEATH_SIGNAL = 1  # prctl
_LONGEST = 1 << 16  # of a traceback


def main() -> None:
    """program.py STATUS PARENT FORM TARGET ARGUMENTS..."""
    status, parent, form, target, *arguments = sys.argv[1:]
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != int(parent):
        os._exit(1)
    os.set_inheritable(int(status), False)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job had it ignored
    faulthandler.enable()
    sys.argv = [target, *arguments]
    try:
        _run(form, target, arguments)
    except SystemExit as error:
        code = error.code
        if code is None or code == 0:
            return
        if not isinstance(code, int):
            print(code, file=sys.stderr)
        _leave(code & 0xFF if isinstance(code, int) else 1)
    except KeyboardInterrupt:
        _leave(130)
    except BaseException as error:
        try:
            account = _account(error, form)
        except KeyboardInterrupt:  # all are being stopped, which is why another process was gone
            _leave(130)
        _tell(int(status), account)
        _leave(int(getattr(error, "exit_code", 1)) if form == "command" else 1)


def _run(form: str, target: str, arguments: list[str]) -> None:
    """Returns, or raises SystemExit, where the program has come to its end."""
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


def _account(error: BaseException, form: str) -> dict[str, Any]:
    """What is told of an exception; of an error that a command expects, no traceback."""
    plain = False
    if form == "command":
        from heliograph.cli import is_plain

        plain = is_plain(error)
    lines = "" if plain else "".join(traceback.format_exception(type(error), error, _of_the_program(error.__traceback__)))
    show = getattr(error, "format_message", None)  # a usage error of the command library
    text = " ".join(str(show() if show else error).split())
    return {"type": type(error).__name__, "text": text[:_LONGEST], "traceback": lines[-_LONGEST:]}


def _of_the_program(trace: TracebackType | None) -> TracebackType | None:
    """The frames below this file's and runpy's."""
    own = (__file__, runpy.__file__, "<frozen runpy>")
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename in own:
        trace = trace.tb_next
    return trace


def _tell(status: int, account: dict[str, Any]) -> None:
    data = json.dumps(account).encode()
    while data:
        data = data[os.write(status, data) :]


def _leave(code: int) -> NoReturn:
    """At once: an orderly end would wait for ranks that wait for this one."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # closed, or nobody reads
            continue
    os._exit(code)


if __name__ == "__main__":
    main()
