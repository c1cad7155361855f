"""An extension of griffe for the site: documents properties made by `engine_property`, with their types and texts."""

from __future__ import annotations

import ast
from typing import Any

import griffe


class EngineProperty(griffe.Extension):
    """Document ``n = engine_property("spec.n", int, "Ring degree N.")`` as a property."""

    def on_attribute_instance(self, *, node: ast.AST | griffe.ObjectNode, attr: griffe.Attribute, **_: Any) -> None:
        """Convert an attribute of a class if `engine_property` makes it."""
        call = getattr(node, "value", None)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "engine_property":
            _, kind, words = call.args
            attr.annotation = griffe.safe_get_annotation(kind, attr.parent)
            attr.docstring = griffe.Docstring(ast.literal_eval(words), lineno=words.lineno, parent=attr)
            attr.value = None
            attr.labels = {"property"}
