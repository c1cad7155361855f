"""HTML tables of tensors, parameters, keys and programs for notebooks, without scripts or styles."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from heliograph._common.arguments import printable, readable_bytes

Rows = list[tuple[str, str]]
_SHOWN = 8  # maximum entries shown of a list


def _bits(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f} bits"


def _listed(values: Iterable[Any]) -> str:
    every = list(values)
    more = f", ... ({len(every)} in all)" if len(every) > _SHOWN else ""
    return ", ".join(str(value) for value in every[:_SHOWN]) + more or "none"


def _yes(value: Any) -> str:
    return "yes" if value else "no"


#: Attributes in display order: name, label and formatter. An object's table shows only the attributes that the object has.
_FACTS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("id", "key", lambda key: key[:8]),
    ("shape", "shape", str),
    ("dtype", "dtype", str),
    ("slots", "slots", lambda count: f"{count:,}"),
    ("degree", "degree", str),
    ("level", "level", str),
    ("scale", "scale", lambda scale: f"2^{math.log2(scale):.1f}"),
    ("noise_budget", "noise budget", _bits),
    ("precision", "precision after the point", _bits),
    ("relinearize", "relinearization", _yes),
    ("rotations", "rotations", _listed),
    ("columns", "columns", _yes),
    ("conjugate", "conjugation", _yes),
    ("key_id", "key", lambda key: key[:8] or "none: clear values"),
    ("keys", "keys", repr),
    ("limit", "limit of a tensor", lambda limit: "the free memory" if limit is None else readable_bytes(limit)),
    ("nbytes", "memory", readable_bytes),
    ("parameters", "parameters", repr),
)


def table(title: str, rows: Rows) -> str:
    """Returns a table of rows (label, text) under a title, escaped."""
    body = "".join(f"<tr><th>{_safe(label)}</th><td>{_safe(text)}</td></tr>" for label, text in rows)
    return f"<table><caption>{_safe(title)}</caption><tbody>{body}</tbody></table>"


def grid(title: str, header: list[str], rows: list[list[str]]) -> str:
    """Returns a table of rows of cells under a header, escaped."""
    head = "".join(f"<th>{_safe(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{_safe(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{_safe(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _safe(text: str) -> str:
    return html.escape(printable(text))


class HtmlRepr:
    """Base class of objects that notebooks show as a table of their attributes."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return table(_title(self), self._rows())

    def _rows(self) -> Rows:
        explain = getattr(self, "explain", None)
        if explain is not None:  # each line is a label, two spaces and a text
            lines = (line.strip().partition("  ") for line in explain().split("\n"))
            return [(label, text.strip()) for label, _, text in lines]
        rows = []
        for name, label, formatter in _FACTS:
            if isinstance(getattr(type(self), name, None), property) or name in getattr(self, "__dict__", {}):
                rows.append((label, formatter(getattr(self, name))))
        return rows


def _title(instance: Any) -> str:
    """Returns the title of an object's table, such as "BFV tensor"."""
    scheme = getattr(getattr(instance, "parameters", instance), "scheme", "")
    kind = re.sub(r"(?<!^)(?=[A-Z])", " ", type(instance).__name__).lower()
    return f"{scheme} {kind}".strip()
