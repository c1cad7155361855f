"""Traces of computations: level, noise, precision and time of each operation on encrypted tensors."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from heliograph import _core
from heliograph._common.arguments import described, printable
from heliograph._common.html import grid
from heliograph._common.operations import add_tracer, remove_tracer
from heliograph._common.tensor import OPERATOR_NAMES, Tensor

#: Colours of a plot, and the number of degrees by which its labels are turned.
_LINE, _BARS = "tab:blue", "0.82"
_ROTATED = 45


@dataclass(frozen=True)
class Step:
    """One operation that returned tensors. A step with several results has the shape of the first result, and the minimum of
    each number.

    >>> with hg.trace() as t:
    ...     y = x * x
    >>> t.steps[0].name, t.steps[0].shape, t.steps[0].noise_budget < x.noise_budget
    ('multiply', (2,), True)
    """

    name: str  #: name of the function or operator, as in NumPy
    where: str  #: file and line of the call
    scheme: str  #: BFV, BGV, CKKS or TFHE
    shape: tuple[int, ...]  #: shape of the first result
    results: int  #: number of results
    seconds: float  #: time from the call until its results are computed
    nbytes: int  #: memory of the results, in bytes
    degree: int | None = None  #: degree in the secret key; for BFV, BGV, CKKS
    level: int | None = None  #: number of primes left, or CKKS's level; for BFV, BGV, CKKS
    noise_budget: float | None = None  #: noise budget in bits; for BFV and BGV
    precision: float | None = None  #: correct bits after the binary point; for CKKS
    log_scale: float | None = None  #: log2 of the scale; for CKKS


def _least(tensors: list[Tensor[Any, Any]], name: str) -> Any:
    """Returns the minimum of an attribute of the tensors; None unless all tensors have it."""
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
    """Yields the tensors in a nested result."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors_in(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors_in(part)


class Trace:
    """The steps of a computation, made by `hg.trace`.

    >>> with hg.trace() as t:
    ...     y = hg.sum(x * x)
    >>> [step.name for step in t]
    ['multiply', 'sum']
    """

    def __init__(self) -> None:
        self._steps: list[Step] = []

    # Recording of steps

    def __enter__(self) -> Trace:
        add_tracer(self._follow)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        remove_tracer(self._follow)

    def _follow(self, name: str, caller: FrameType, perform: Callable[[], Any]) -> Any:
        """Performs an operation and notes it as a step if it returns tensors."""
        start = time.perf_counter()
        made = perform()
        tensors = list(_tensors_in(made))
        if tensors:
            try:
                for tensor in tensors:
                    tensor.wait()
            except _core.RecordingError:  # a recording computes nothing
                pass
            seconds = time.perf_counter() - start
            where = f"{Path(caller.f_code.co_filename).name}:{caller.f_lineno}"
            self._steps.append(_step(OPERATOR_NAMES.get(name, name.strip("_")), where, tensors, seconds))
        return made

    # Results

    @property
    def steps(self) -> list[Step]:
        """The steps in order."""
        return list(self._steps)

    @property
    def seconds(self) -> float:
        """Total seconds of all steps."""
        return sum(step.seconds for step in self._steps)

    def data(self) -> list[dict[str, Any]]:
        """Returns the steps as dicts of plain values, for JSON or a data frame.

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
        """Returns header and rows, without columns that are empty in every step."""
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
        """Returns a text table with a line for each step: operation, shape, level, noise budget or precision, time, place.

        >>> with hg.trace() as t:
        ...     y = x * x
        >>> len(t.table().splitlines())  # a header, and a line for each step
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
        """Draws the steps from left to right: bars of the times, and a line of the noise budget or precision in bits.

        If the steps have neither noise budget nor precision, the line shows the level. `axes` are matplotlib axes, by
        default the axes of a new figure. Returns the axes. Raises DtypeError for other `axes`, HeliographError if matplotlib
        is not installed (``pip install 'heliograph[plot]'``).

        >>> import heliograph as hg
        >>> hg.trace().plot().figure.savefig("trace.png")  # doctest: +SKIP
        """
        if axes is not None and not hasattr(axes, "twinx"):
            raise _core.DtypeError(
                f"plot takes axes of matplotlib, not {described(axes)}; plot().figure.savefig(path) writes a file"
            )
        try:
            from matplotlib import pyplot
        except ImportError:
            raise _core.HeliographError("plot needs matplotlib: pip install 'heliograph[plot]'") from None
        if axes is None:
            _, axes = pyplot.subplots(figsize=(max(5.0, 1.5 + 0.45 * len(self._steps)), 3.6), layout="constrained")
        _draw(axes, self._steps)
        return axes


def _draw(axes: Any, steps: Sequence[Step]) -> None:
    """Draws bars of the times, and in front of the bars a line of the noise budget, precision or level."""
    places = range(len(steps))
    times = axes.twinx()
    times.bar(places, [1e3 * step.seconds for step in steps], color=_BARS, width=0.7, zorder=1)
    times.set_ylabel("time of the step, ms", color="0.45")
    times.tick_params(axis="y", colors="0.45")
    axes.set_zorder(times.get_zorder() + 1)
    axes.patch.set_visible(False)
    label, values = _left(steps)
    if label == "level":
        axes.step(places, values, where="mid", color=_LINE, marker="o", markersize=4)
    elif label:
        axes.plot(places, values, color=_LINE, marker="o", markersize=4)
    axes.set_ylabel(
        label or ("this scheme's noise does not grow" if steps else "no steps"), color=_LINE if label else "0.45"
    )
    if label:
        axes.tick_params(axis="y", colors=_LINE)
        axes.set_ylim(bottom=0)
    else:
        axes.set_yticks([])
    axes.set_xticks(places, [step.name for step in steps], rotation=_ROTATED, ha="right", rotation_mode="anchor")


def _left(steps: Sequence[Step]) -> tuple[str, list[float]]:
    """Returns label and values of the noise budget, precision or level of the steps; NaN for steps without this number."""
    for name, label in (("noise_budget", "noise budget, bits"), ("precision", "precision, bits"), ("level", "level")):
        values = [getattr(step, name) for step in steps]
        if any(value is not None for value in values):
            return label, [float("nan") if value is None else float(value) for value in values]
    return "", []


def _figure(value: float | None, form: str, after: str = "", before: str = "") -> str:
    return "" if value is None else f"{before}{value:{form}}{after}"


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def trace() -> Trace:
    """Returns a context manager that records operations on encrypted tensors: ``with hg.trace() as t:``.

    Every operation becomes a step with its name, shape, level, noise budget or precision (estimates of the tensors), bytes,
    seconds and the calling line. Networks and statistics appear as their operations; a program is one step. Views (``x[0]``,
    `reshape`) are not steps. The trace waits for each step, to measure its time alone; on a GPU this slows the computation.

    The trace records the operations of all threads. `steps` and `data` hold the figures, ``print(t)`` prints a table, `plot`
    draws a picture. Nothing is decrypted.

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
