"""For the site: examples in docstrings (lines after >>>) as blocks of code. An extension of griffe, which reads the sources."""

from __future__ import annotations

import re
from typing import Any

import griffe

#: From the first >>> to the empty line after it.
EXAMPLE = re.compile(r"^>>> .*?(?=^\s*$|\Z)", re.S | re.M)


class Examples(griffe.Extension):
    """Fences them."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Of every module, class and function with a docstring."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value)
