"""Every function that makes a tensor by the engine passes the hook of operations (heliograph/_common/operations.py), which
traces and automatic bootstraps use.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import heliograph as hg
from heliograph import _core
from heliograph._common.matrices import IntegerLayers
from heliograph._common.operations import is_marked
from heliograph._common.tensor import OPERATOR_NAMES, Tensor

PACKAGE = Path(hg.__file__).parent
MARKS = {"operation", "view", "composite"}
#: Functions that make tensors and need no mark: parts of marked functions, and internal trials.
PARTS = {
    "exact/tensor.py": {"_add", "_sum_slots"},
    "ckks/tensor.py": {"_times_constants", "_degree_one", "_along_ciphertexts", "_bare"},
    "ckks/statistics.py": {"var", "cov"},  # these functions call an operation marked as a view
    "knn/vectors.py": {"_scores", "scores"},  # the ciphertexts of answers are not tensors
    "ckks/parameters.py": {"_after_bootstrap"},
    "ckks/signs.py": {"_rounding"},
    "ckks/integers.py": {"_error_of"},
    "ckks/approximation.py": {"inside", "with_errors"},  # these functions call an operation marked as a view
}


def signatures(found: Any, owner: str = "") -> Iterator[tuple[str, str, str]]:
    """Yields the class, name and signature of each function and method of the engine."""
    for name, value in vars(found).items():
        if isinstance(value, (ModuleType, type)) and not name.startswith("__"):
            yield from signatures(value, name if isinstance(value, type) else "")
        for signature, *_ in getattr(getattr(value, "__func__", value), "__nb_signature__", ()):
            yield owner, name, signature


def makers() -> re.Pattern[str]:
    """Returns a pattern that finds references to the engine's functions that return ciphertexts."""
    functions, methods, readers = set(), set(), set()
    for owner, name, signature in signatures(_core):
        if re.search(r"-> .*Ciphertext", signature):
            kind = functions if not owner else methods if "(self" in signature else readers
            kind.add(name)
    parts = "|".join(name for name, value in vars(_core).items() if isinstance(value, ModuleType))
    return re.compile(
        rf"\b(_core\.({parts})|[Ss]cheme\.core|_calls)\.({'|'.join(functions)})$|\b_core\.({'|'.join(methods)})$"
        rf"|\bCiphertext\.({'|'.join(readers)})$"
    )


def functions_of(path: Path) -> Iterator[ast.FunctionDef]:
    """Yields the functions and methods of a file, except nested functions."""
    tree = ast.parse(path.read_text())
    for body in (tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))):
        yield from (node for node in body if isinstance(node, ast.FunctionDef))


def test_every_engine_call_that_makes_a_tensor_is_marked() -> None:
    """Every function that makes tensors by the engine is marked, or is a known part of marked functions."""
    pattern = makers()
    assert pattern.search("_core.ckks.rescale")
    assert pattern.search("self._core.encrypt")
    found: dict[str, set[str]] = {}
    marked = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        for function in functions_of(path):
            references = [ast.unparse(node) for node in ast.walk(function) if isinstance(node, ast.Attribute)]
            if any(map(pattern.search, references)) or (path.name == "tensor.py" and "self._call" in references):
                if MARKS & {ast.unparse(mark) for mark in function.decorator_list}:
                    marked += 1
                elif function.name not in OPERATOR_NAMES:  # the tensor class marks the operators
                    found.setdefault(str(path.relative_to(PACKAGE)), set()).add(function.name)
    assert found == PARTS
    assert marked > 40


@pytest.mark.parametrize("kind", [hg.bfv.Tensor, hg.ckks.Tensor, hg.tfhe.Tensor])
def test_operators_are_marked(kind: Any) -> None:
    """Every operator that returns tensors is marked, also operators that are inherited."""
    classes = [c for c in kind.__mro__ if issubclass(c, Tensor | IntegerLayers)]
    own = {name: vars(c)[name] for c in reversed(classes) for name in OPERATOR_NAMES if name in vars(c)}
    assert len(own) > 15
    assert [name for name, method in own.items() if not is_marked(method)] == []
