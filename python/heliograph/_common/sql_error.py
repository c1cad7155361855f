"""The error of queries."""

from __future__ import annotations

from heliograph import _core


class SqlError(_core.HeliographError):
    """A query that an encrypted table does not answer. `construct` names the unsupported part: "JOIN", "LIKE", "ORDER BY", a
    column.
    """

    def __init__(self, construct: str, reason: str) -> None:
        super().__init__(f"{construct}: {reason}")
        self.construct = construct
