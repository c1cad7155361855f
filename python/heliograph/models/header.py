"""Fields of the headers of model bundles: each function checks one kind of value."""

from __future__ import annotations

import math
import re
from typing import Any

from heliograph import _core

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def damaged(what: str) -> _core.DamagedFileError:
    """Returns the error of a header whose fields are wrong."""
    return _core.DamagedFileError(f"damaged model bundle: {what}")


def fields_of(fields: Any, *names: str) -> dict[str, Any]:
    """Returns an object of a header with exactly these fields. Raises DamagedFileError."""
    if not isinstance(fields, dict) or set(fields) != set(names):
        raise damaged(f"an object of its header must have exactly the fields {', '.join(names)}")
    return fields


def count_in(value: Any, what: str, least: int = 0, most: int = 1 << 31) -> int:
    """Returns an integer of a header. Raises DamagedFileError."""
    if type(value) is not int or not least <= value <= most:
        raise damaged(f"a {what} must be an integer from {least:,} to {most:,}")
    return value


def real_in(value: Any, what: str) -> float:
    """Returns a finite number of a header, a string in C's hexadecimal notation. Raises DamagedFileError."""
    try:
        number = float.fromhex(value) if isinstance(value, str) and len(value) <= 32 else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number.hex() != value:
        raise damaged(f"a {what} must be a finite number in hexadecimal notation")
    return number


def list_in(value: Any, what: str, most: int) -> list[Any]:
    """Returns a list of a header. Raises DamagedFileError."""
    if not isinstance(value, list) or len(value) > most:
        raise damaged(f"{what} must be a list of at most {most:,} entries")
    return value


def name_in(value: Any, what: str) -> str:
    """Returns the name of a model in a header. Raises DamagedFileError."""
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise damaged(f"a {what} must be 1 to 64 letters, digits, dots, dashes and underscores, the first a letter or digit")
    return value


def text_in(value: Any, what: str, longest: int = 64) -> str:
    """Returns a string of a header, of at most `longest` characters. Raises DamagedFileError."""
    if not isinstance(value, str) or len(value) > longest:
        raise damaged(f"a {what} must be a string of at most {longest} characters")
    return value
