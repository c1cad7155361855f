"""Uploaded content: its kinds, and its digest as a name."""

from __future__ import annotations

import re

from heliograph import _core
from heliograph._common.arguments import printable
from heliograph._common.schemes import split_type, type_of_bytes

DIGEST = re.compile(r"[0-9a-f]{64}")
_TABLE = "heliograph.query.table"


def upload_kind(head: bytes | memoryview) -> str:
    """Returns the kind of a container from its first bytes: "keys" or "table". Raises FormatError for other kinds, such as
    secret keys.
    """
    found = type_of_bytes(head) or ""
    if found == _TABLE:
        return "table"
    scheme = split_type(found)
    if scheme and scheme[1] == "evaluation-keys":
        return "keys"
    if scheme and "secret" in scheme[1]:
        raise _core.FormatError(
            "cannot upload a SECRET key, which no service may have: its bytes were deleted; upload evaluation keys"
        )
    raise _core.FormatError(
        f"an upload must hold evaluation keys or an encrypted table, got {printable(found) or 'a file of another kind'}"
    )
