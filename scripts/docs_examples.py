"""An extension of griffe for the site: converts examples in docstrings (lines after >>>) to code blocks."""

from __future__ import annotations

import re
from typing import Any

import griffe

#: From the first >>> to the empty line after it.
EXAMPLE = re.compile(r"^>>> .*?(?=^\s*$|\Z)", re.S | re.M)


class Examples(griffe.Extension):
    """Fence the examples of docstrings."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Convert the docstring of a module, class or function."""
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value)
