"""Every public function, method and class has an example, and the examples run.

The docstring of a module makes the keys, the server and the tensors that the examples in its functions use.
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
from heliograph import ml, nn

MODULES = (
    hg,
    hg.bfv,
    hg.bgv,
    hg.ckks,
    hg.tfhe,
    nn,
    ml,
    hg.cinnamon,
    hg.sql,
    hg.frame,
    hg.pir,
    hg.knn,
    hg.serving,
    hg.switching,
)
#: A docstring that points to another example: "Same as `hg.multiply`.", "Example: `hg.Client`."
ELSEWHERE = re.compile(r"(?:Same as|Example:) `(?:hg|heliograph)\.([\w.]+)`")


def own(thing: Any) -> bool:
    """Returns whether the library's Python code defines the object; classes of the extension are not public."""
    module = getattr(thing, "__module__", None) or ""
    return module.startswith("heliograph") and not module.startswith("heliograph._core")


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yields public methods of a class and of its bases in the library."""
    for name in dir(kind):
        found = inspect.getattr_static(kind, name)
        function = getattr(found, "__func__", found)
        if not name.startswith("_") and inspect.isfunction(function) and own(function):
            yield name, function


def public(module: types.ModuleType, seen: set[Any]) -> Iterator[tuple[str, Any]]:
    """Yields the public functions, classes and methods of a module, each only once. Errors are documented on a separate
    page.

    """
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
    """Returns the public functions and classes by the first module that exports them."""
    seen: set[Any] = set()
    return {module: dict(public(module, seen)) for module in MODULES}


def run(docstring: str, names: dict[str, Any], label: str) -> str:
    """Runs the examples of a docstring and returns the failures that doctest finds; `names` keeps the variables."""
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
    """Each example runs after the example of its module, in a temporary folder."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    wrong = run(inspect.getdoc(module) or "", names, module.__name__)
    assert not wrong, wrong
    for label, thing in everything()[module].items():
        wrong += run(inspect.getdoc(thing) or "", dict(names), label)
    assert not wrong, wrong


def has_example(thing: Any) -> bool:
    """Returns whether a docstring, or the docstring to which it points, has an example."""
    doc = inspect.getdoc(thing) or ""
    other = ELSEWHERE.search(doc)
    if ">>> " in doc or other is None:
        return ">>> " in doc
    found: Any = hg
    for name in other[1].split("."):
        found = getattr(found, name)
    return ">>> " in (inspect.getdoc(found) or "")


def test_every_public_object_has_an_example() -> None:
    """Each function, class and method has an example; a property needs only a description."""
    things = {label: thing for found in everything().values() for label, thing in found.items()}
    assert len(things) > 150
    assert [label for label, thing in things.items() if not has_example(thing)] == []


def test_properties_have_docstrings() -> None:
    """Each property has a docstring of its own, also properties that the engine defines."""
    kinds = [thing for found in everything().values() for thing in found.values() if isinstance(thing, type)]
    every = {(kind, name): inspect.getattr_static(kind, name) for kind in kinds for name in dir(kind) if name[0] != "_"}
    words = {label: inspect.getdoc(one) or "" for label, one in every.items() if isinstance(one, property)}
    assert len(words) > 150
    assert [label for label, said in words.items() if not said.endswith(".")] == []


def test_a_missing_example_is_detected() -> None:
    """A missing example is detected, also if a docstring points to another docstring without an example."""

    def bare() -> None:
        """Has no example (this docstring is a test's input)."""

    def like() -> None:
        """Same as `hg.multiply`."""

    def like_none() -> None:
        """Same as `hg.Tensor.shape`."""

    assert [has_example(function) for function in (bare, like, like_none)] == [False, True, False]


def test_a_wrong_example_is_detected() -> None:
    """Wrong values and wrong kinds of errors are detected."""
    assert not run(">>> 1 + 1\n2", {}, "right")
    assert "Expected:\n    3" in run(">>> 1 + 1\n3", {}, "wrong")
    shape = "Traceback (most recent call last):\n    ...\nheliograph.{}: words"
    raising = ">>> import heliograph as hg\n>>> hg.concatenate([])\n"
    assert not run(raising + shape.format("ShapeError"), {}, "right")
    assert "Expected:" in run(raising + shape.format("NoiseError"), {}, "wrong")
