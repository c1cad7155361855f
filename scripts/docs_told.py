"""For the site: properties that `told` makes, with their types and words. An extension of griffe, which reads the sources."""

from __future__ import annotations

import ast
from typing import Any

import griffe


class Told(griffe.Extension):
    """Shows ``n = told("spec.n", int, "Ring degree N.")`` as the property that it is."""

    def on_attribute_instance(self, *, node: ast.AST | griffe.ObjectNode, attr: griffe.Attribute, **_: Any) -> None:
        """Of every attribute that is assigned in a class."""
        made = getattr(node, "value", None)
        if isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id == "told":
            _, kind, words = made.args
            attr.annotation = griffe.safe_get_annotation(kind, attr.parent)
            attr.docstring = griffe.Docstring(ast.literal_eval(words), lineno=words.lineno, parent=attr)
            attr.value = None
            attr.labels = {"property"}
