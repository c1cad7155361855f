"""What a computation did, step by step: noise or level, precision and time of each operation on encrypted tensors."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any

from heliograph import _core
from heliograph._arrays import described, printable
from heliograph._html import grid
from heliograph._plot import draw
from heliograph._shapes import OPERATORS, Tensor

_PACKAGE = str(Path(__file__).parent) + "/"
#: Files whose functions are made of operations: these are the steps, not the function.
_COMPOSED = tuple(_PACKAGE + part for part in ("nn/", "cli/", "ckks/statistics.py"))
#: Files whose functions stand between a call and its operation.
_BETWEEN = tuple(_PACKAGE + part for part in ("ckks/automatic.py", "ckks/placing.py"))
#: Methods that compute nothing.
_VIEWS = frozenset(
    (
        "reshape",
        "transpose",
        "T",
        "broadcast_to",
        "__getitem__",
        "__pos__",
        "bind",
        "split_moduli",
        "join_moduli",
        "of_tensors",
    )
)
_NAMES = {
    **{right: name for name, (_, right) in OPERATORS.items()},
    **{left: name for name, (left, _) in OPERATORS.items()},  # a < b and b > a are one method
    **{f"__i{left[2:]}": name for name, (left, _) in OPERATORS.items()},  # a += b
    **{"__ipow__": "power", "__pow__": "power", "__neg__": "negative", "__abs__": "absolute", "__invert__": "invert"},
}
_IGNORED, _OPERATION, _MADE_OF = range(3)


@dataclass(frozen=True)
class Step:
    """One operation that gave tensors. Where it gave several: the shape of the first, the least of the figures.

    >>> with hg.trace() as t:
    ...     y = x * x
    >>> t.steps[0].name, t.steps[0].shape, t.steps[0].noise_budget < x.noise_budget
    ('multiply', (2,), True)
    """

    name: str  #: the function's or operator's, as NumPy calls it
    where: str  #: file and line that called it
    scheme: str  #: BFV, BGV, CKKS, TFHE
    shape: tuple[int, ...]
    results: int
    seconds: float  #: until the result was there
    nbytes: int  #: of the results in memory
    degree: int | None = None  #: BFV, BGV, CKKS
    level: int | None = None  #: BFV, BGV, CKKS
    noise_budget: float | None = None  #: bits, BFV and BGV
    precision: float | None = None  #: bits after the point, CKKS
    log_scale: float | None = None  #: CKKS


def _least(tensors: list[Tensor[Any, Any]], name: str) -> Any:
    """The least of a figure that all have."""
    values: list[Any] = [getattr(t, name, None) for t in tensors]
    return None if None in values else min(values)


def _step(name: str, where: str, tensors: list[Tensor[Any, Any]], seconds: float) -> Step:
    scale = _least(tensors, "scale")
    return Step(
        name=name,
        where=where,
        scheme=tensors[0].parameters.scheme,
        shape=tensors[0].shape,
        results=len(tensors),
        seconds=seconds,
        nbytes=sum(t.nbytes for t in tensors),
        degree=_least(tensors, "degree"),
        level=_least(tensors, "level"),
        noise_budget=_least(tensors, "noise_budget"),
        precision=_least(tensors, "precision"),
        log_scale=None if scale is None else math.log2(scale),
    )


def _tensors_in(value: Any) -> Iterator[Tensor[Any, Any]]:
    """Those of a result, nested as a program nests them."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors_in(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors_in(part)


class Trace:
    """The steps of a computation. Made by `hg.trace`.

    >>> with hg.trace() as t:
    ...     y = hg.sum(x * x)
    >>> [step.name for step in t]
    ['multiply', 'sum']
    """

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._open: list[tuple[FrameType, int, float, int]] = []  # frames of this package: kind, start, steps before
        self._kinds: dict[CodeType, int] = {}
        self._before: Any = None

    # Following

    def __enter__(self) -> Trace:
        before = sys.getprofile()
        if before is not None and not callable(before):
            raise _core.HeliographError("another profiler follows this thread: a trace takes its place")
        self._before = before
        sys.setprofile(self._follow)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        sys.setprofile(self._before)
        self._open.clear()

    def _follow(self, frame: FrameType, event: str, result: Any) -> None:
        if self._before is not None:
            self._before(frame, event, result)
        if event == "call":
            kind = self._kind(frame.f_code)
            if kind != _IGNORED:
                self._open.append((frame, kind, time.perf_counter(), len(self._steps)))
        elif event == "return" and self._open and self._open[-1][0] is frame:
            _, kind, start, before = self._open.pop()
            inside = any(k == _OPERATION for _, k, _, _ in self._open)
            if not inside and not (kind == _MADE_OF and len(self._steps) > before):
                self._note(frame, result, start)

    def _kind(self, code: CodeType) -> int:
        kind = self._kinds.get(code)
        if kind is None:
            file = code.co_filename
            kind = _OPERATION if file.startswith(_PACKAGE) and file not in (__file__, *_BETWEEN) else _IGNORED
            if kind == _OPERATION and file.startswith(_COMPOSED):
                kind = _MADE_OF
            self._kinds[code] = kind
        return kind

    def _note(self, frame: FrameType, result: Any, start: float) -> None:
        name = frame.f_code.co_name
        private = name.startswith(("_", "<")) and name not in _NAMES and name != "__call__"
        tensors = [] if private or name in _VIEWS else list(_tensors_in(result))
        if not tensors:
            return
        try:
            for tensor in tensors:
                tensor.wait()
        except _core.RecordingError:  # it is only recorded: there is nothing to wait for
            pass
        seconds = time.perf_counter() - start
        if name == "__call__":
            name = str(getattr(frame.f_locals.get("self"), "_name", name))
        caller = frame.f_back
        while caller is not None and caller.f_code.co_filename in _BETWEEN:
            caller = caller.f_back
        where = "" if caller is None else f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"
        self._steps.append(_step(_NAMES.get(name, name.rstrip("_")), where, tensors, seconds))

    # What was seen

    @property
    def steps(self) -> list[Step]:
        """In the order they were done."""
        return list(self._steps)

    @property
    def seconds(self) -> float:
        """Of all steps."""
        return sum(step.seconds for step in self._steps)

    def data(self) -> list[dict[str, Any]]:
        """The steps as dicts of plain values, for JSON or a data frame.

        >>> with hg.trace() as t:
        ...     y = x * x
        >>> t.data()[0]["name"]
        'multiply'
        """
        return [asdict(step) for step in self._steps]

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """Header and rows, without columns that no step has."""
        columns: dict[str, Callable[[Step], str]] = {
            "": lambda s: str(self._steps.index(s) + 1),
            "operation": lambda s: s.name + (f" ({s.results})" if s.results > 1 else ""),
            "shape": lambda s: "x".join(map(str, s.shape)) or "-",
            "level": lambda s: _figure(s.level, "d"),
            "noise budget": lambda s: _figure(s.noise_budget, ".1f", " bits"),
            "precision": lambda s: _figure(s.precision, ".1f", " bits"),
            "scale": lambda s: _figure(s.log_scale, ".1f", before="2^"),
            "time": lambda s: _time(s.seconds),
            "at": lambda s: s.where,
        }
        rows = [[printable(written(step)) for written in columns.values()] for step in self._steps]
        kept = [i for i, name in enumerate(columns) if i < 3 or not rows or any(row[i] for row in rows)]
        return [list(columns)[i] for i in kept], [[row[i] for i in kept] for row in rows]

    def table(self) -> str:
        """A line for each step: operation, shape, level, noise budget or precision, time, where.

        >>> with hg.trace() as t:
        ...     y = x * x
        >>> len(t.table().splitlines())  # heads, and a line for each step
        2
        """
        header, rows = self._cells()
        widths = [max(len(cell) for cell in column) for column in zip(header, *rows, strict=True)]
        left = {header.index(name) for name in ("operation", "at") if name in header}
        lines = [
            "  ".join(
                cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in [header, *rows]
        ]
        return "\n".join(line.rstrip() for line in lines)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<trace of {len(self._steps)} steps, {_time(self.seconds)}>"

    def _repr_html_(self) -> str:
        return grid(f"trace of {len(self._steps)} steps, {_time(self.seconds)}", *self._cells())

    def plot(self, axes: Any = None) -> Any:
        """The steps from left to right: a line of what is left (noise budget of BFV and BGV, precision of CKKS, both in bits), a
        staircase of the level where it has neither, bars of the times. `axes` of matplotlib, or a new figure's; returned.

        Raises DtypeError for what are no axes, HeliographError where matplotlib is not installed
        (``pip install 'heliograph[plot]'``).

        >>> import heliograph as hg
        >>> hg.trace().plot().figure.savefig("trace.png")  # doctest: +SKIP
        """
        if axes is not None and not hasattr(axes, "twinx"):
            raise _core.DtypeError(
                f"a trace is drawn into matplotlib's axes, not {described(axes)}; plot().figure.savefig(path) writes a file"
            )
        try:
            from matplotlib import pyplot
        except ImportError:
            raise _core.HeliographError("plots are drawn by matplotlib: pip install 'heliograph[plot]'") from None
        if axes is None:
            _, axes = pyplot.subplots(figsize=(max(5.0, 1.5 + 0.45 * len(self._steps)), 3.6), layout="constrained")
        draw(axes, self._steps)
        return axes


def _figure(value: float | None, form: str, after: str = "", before: str = "") -> str:
    return "" if value is None else f"{before}{value:{form}}{after}"


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def trace() -> Trace:
    """Follow what this thread computes with encrypted tensors, of any scheme: ``with hg.trace() as t:``.

    Every operation becomes a step: name, shape, level, noise budget or precision (estimates, as the tensors' own), bytes, seconds, and
    the line that called it. Functions made of operations (networks, statistics) give their operations as steps; a program gives one. Views (``x[0]``, `reshape`) are no steps. Each step is waited for, so that times are its own: on a GPU the whole
    is slower than untraced. `steps` and `data` have the figures, ``print(t)`` a table, `plot` a picture; nothing decrypts.

    >>> import heliograph as hg
    >>> secret = hg.SecretKey.generate(hg.bfv.parameters(depth=2, plain_bits=20))
    >>> x = hg.Server(secret.evaluation_keys()).bind(secret.encrypt([1, 2, 3], pad=True))
    >>> with hg.trace() as t:
    ...     y = hg.relinearize(x * x) + 1
    >>> [step.name for step in t]
    ['multiply', 'relinearize', 'add']
    >>> t.steps[0].noise_budget > t.steps[-1].noise_budget > 0
    True
    """
    return Trace()
