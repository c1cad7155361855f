"""Every public function, method and class has an example, and the examples run.

A module's docstring sets up what the examples of its functions go on from: keys, a server, some tensors.
"""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import heliograph as hg
from heliograph import nn

MODULES = (hg, hg.bfv, hg.bgv, hg.ckks, hg.tfhe, nn, hg.cinnamon, hg.query, hg.serving)
#: A docstring that sends its reader to another one's example: "As `hg.multiply`.", "As a tensor's."
ELSEWHERE = re.compile(r"As (?:`(?:hg|heliograph)\.([\w.]+)`|a (tensor)'s)")


def own(thing: Any) -> bool:
    """Whether the library defines it, and not its extension, whose classes are not for users."""
    module = getattr(thing, "__module__", None) or ""
    return module.startswith("heliograph") and not module.endswith("_core")


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods of a class, with those of its bases here."""
    for name in dir(kind):
        found = inspect.getattr_static(kind, name)
        function = getattr(found, "__func__", found)
        if not name.startswith("_") and inspect.isfunction(function) and own(function):
            yield name, function


def public(module: types.ModuleType, seen: set[Any]) -> Iterator[tuple[str, Any]]:
    """Functions, classes and methods that users reach by a module, each once; errors have a page of their own."""
    for name in module.__all__:
        thing = getattr(module, name)
        if not callable(thing) or not own(thing) or (isinstance(thing, type) and issubclass(thing, Exception)):
            continue
        inside = members(thing) if isinstance(thing, type) else ()
        for label, one in ((name, thing), *((f"{name}.{method}", function) for method, function in inside)):
            if one not in seen:
                seen.add(one)
                yield f"{module.__name__}.{label}", one


def everything() -> dict[types.ModuleType, dict[str, Any]]:
    """By the module that users reach it by first."""
    seen: set[Any] = set()
    return {module: dict(public(module, seen)) for module in MODULES}


def run(docstring: str, names: dict[str, Any], label: str) -> str:
    """What went wrong in its examples, as doctest says it; the names are theirs afterwards."""
    said: list[str] = []
    for words, needed in ((r"\bsklearn\b", "sklearn"), (r"\bserving\.local\b", "uvicorn")):
        if re.search(rf">>> .*{words}", docstring) and importlib.util.find_spec(needed) is None:
            return ""
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    test = doctest.DocTestParser().get_doctest(docstring, names, label, None, None)
    test.globs = names
    runner.run(test, out=said.append, clear_globs=False)
    return "".join(said)


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_the_examples_run(module: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each goes on from its module's, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    wrong = run(inspect.getdoc(module) or "", names, module.__name__)
    assert not wrong, wrong
    for label, thing in everything()[module].items():
        wrong += run(inspect.getdoc(thing) or "", dict(names), label)
    assert not wrong, wrong


def has_example(label: str, thing: Any) -> bool:
    """In its docstring, or in the one that this names."""
    doc = inspect.getdoc(thing) or ""
    other = ELSEWHERE.match(doc)
    if ">>> " in doc or other is None:
        return ">>> " in doc
    found: Any = hg.Tensor if other[2] else hg
    for name in other[1].split(".") if other[1] else [label.rpartition(".")[2]]:
        found = getattr(found, name)
    return ">>> " in (inspect.getdoc(found) or "")


def test_everything_has_an_example() -> None:
    """Functions, classes and methods. A property says in a line what it is, and its class has an example."""
    things = {label: thing for found in everything().values() for label, thing in found.items()}
    assert len(things) > 150
    assert [label for label, thing in things.items() if not has_example(label, thing)] == []


def test_properties_say_what_they_are() -> None:
    """In words of their own, those that the engine tells among them."""
    kinds = [thing for found in everything().values() for thing in found.values() if isinstance(thing, type)]
    every = {(kind, name): inspect.getattr_static(kind, name) for kind in kinds for name in dir(kind) if name[0] != "_"}
    words = {label: inspect.getdoc(one) or "" for label, one in every.items() if isinstance(one, property)}
    assert len(words) > 150
    assert [label for label, said in words.items() if not said.endswith(".")] == []


def test_what_has_no_example_is_found() -> None:
    """Nor what is said to be like another thing without one."""

    def bare() -> None:
        """Words."""

    def like() -> None:
        """As `hg.multiply`."""

    def like_none() -> None:
        """As `hg.Tensor.shape`."""

    assert [has_example("x", function) for function in (bare, like, like_none)] == [False, True, False]


def test_a_wrong_example_is_found() -> None:
    """Values and kinds of errors are compared."""
    assert not run(">>> 1 + 1\n2", {}, "right")
    assert "Expected:\n    3" in run(">>> 1 + 1\n3", {}, "wrong")
    shape = "Traceback (most recent call last):\n    ...\nheliograph.{}: words"
    raising = ">>> import heliograph as hg\n>>> hg.concatenate([])\n"
    assert not run(raising + shape.format("ShapeError"), {}, "right")
    assert "Expected:" in run(raising + shape.format("NoiseError"), {}, "wrong")
