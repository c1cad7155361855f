"""The command line: ``heliograph`` and ``python -m heliograph.cli``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_INTERRUPTED = 130


def invoke(arguments: Sequence[str] | None = None) -> int:
    """Runs the command with these arguments (None: the process's) and returns its exit status. Errors are raised."""
    import typer

    from heliograph.cli.commands import commands

    status = typer.main.get_command(commands)(
        args=None if arguments is None else list(arguments), prog_name="heliograph", standalone_mode=False
    )
    return int(status or 0)


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs the command with these arguments (None: the process's) and returns its exit status. Prints errors as one line."""
    try:
        status = invoke(arguments)
        return _interrupted() if status == _INTERRUPTED else status
    except BaseException as error:
        return report(error)


def report(error: BaseException) -> int:
    """Prints an error as one line and returns the command's exit status. Raises errors that a command does not expect."""
    import typer

    import heliograph as hg
    from heliograph.cli.terminal import complain

    if isinstance(error, KeyboardInterrupt | typer.Abort | hg.CancelledError):  # typer converts Ctrl-C to Abort
        return _interrupted()
    if isinstance(error, BrokenPipeError):
        sys.stderr.close()  # the reader has closed the pipe: no message can be shown
        return 1
    if isinstance(error, OSError):
        complain(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        return 1
    show = getattr(error, "show", None)  # a usage error of typer
    if show is not None:
        show()
        return int(getattr(error, "exit_code", 2))
    if isinstance(error, hg.HeliographError | MemoryError):
        complain(str(error) or type(error).__name__)
        return 1
    raise error


def _interrupted() -> int:
    from heliograph.cli.terminal import complain

    complain("stopped")
    return _INTERRUPTED


def app() -> None:
    """Runs the console script."""
    sys.exit(run())
