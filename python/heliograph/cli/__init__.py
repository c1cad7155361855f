"""The command line: ``heliograph`` and ``python -m heliograph.cli``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

_INTERRUPTED = 130


def invoke(arguments: Sequence[str] | None = None) -> int:
    """The command with these arguments (default: the process's); its exit status. Errors come as exceptions."""
    import typer

    from heliograph.cli.commands import commands

    status = typer.main.get_command(commands)(
        args=None if arguments is None else list(arguments),
        prog_name="heliograph",
        standalone_mode=False,
    )
    return int(status or 0)


def is_plain(error: BaseException) -> bool:
    """Whether an error's text is all that a user needs: no traceback."""
    import heliograph as hg

    return isinstance(error, hg.HeliographError | OSError | MemoryError) or hasattr(error, "show")


def run(arguments: Sequence[str] | None = None) -> int:
    """The command with these arguments (default: the process's); its exit status. Errors are one line, no traceback."""
    import typer

    import heliograph as hg
    from heliograph.cli.screen import complain

    try:
        status = invoke(arguments)
        return _interrupted() if status == _INTERRUPTED else status
    except KeyboardInterrupt:
        return _interrupted()
    except typer.Abort:  # what the command library makes of Ctrl-C
        return _interrupted()
    except hg.CancelledError:
        return _interrupted()
    except BrokenPipeError:
        sys.stderr.close()  # the reader left: nothing to say, and nobody to say it to
        return 1
    except OSError as error:
        complain(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        return 1
    except Exception as error:
        if not is_plain(error):
            raise
        show = getattr(error, "show", None)  # a usage error of the command library
        if show is None:
            complain(str(error) or type(error).__name__)
            return 1
        show()
        return int(getattr(error, "exit_code", 2))


def _interrupted() -> int:
    from heliograph.cli.screen import complain

    complain("stopped")
    return _INTERRUPTED


def app() -> None:
    """The console script."""
    sys.exit(run())
