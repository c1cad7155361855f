"""Errors of TLS files and handshakes."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from heliograph import _core
from heliograph._common.arguments import path_of, printable


def reason(error: ssl.SSLError) -> str:
    """Returns OpenSSL's reason in lower case."""
    return (getattr(error, "reason", None) or "not readable").lower().replace("_", " ")


@contextmanager
def pem(what: str, *paths: Any) -> Iterator[None]:
    """Context manager that names the files in errors while a block reads them as PEM. Raises ParameterError for invalid
    files, OSError.

    """
    given = [path_of(path) for path in paths if path is not None]
    named = " with ".join(printable(path) for path in given)
    lone = "; if the key is in another file, give that too" if "private key" in what and len(given) == 1 else ""
    for path in given:  # OpenSSL does not report which of two files it could not open
        if not Path(path).is_fifo():  # a pipe can be read only once
            with Path(path).open("rb"):
                pass
    try:
        yield
    except ssl.SSLError as error:
        raise _core.ParameterError(f"{named} holds no {what} (PEM): {printable(reason(error))}{lone}") from None
    except OSError as error:
        raise type(error)(error.errno, error.strerror, named) from None
