"""A trace has a step for every operation of every scheme. A step has the noise, the size and the time of its result."""

from __future__ import annotations

import cProfile
import json
import math
import pstats
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph import nn
from heliograph.programs import trace as tracing
from tfhe_rig import parameters as tfhe_parameters


@pytest.fixture(scope="module")
def exact() -> tuple[Any, Any]:
    """Returns a BFV secret key and a server."""
    secret = hg.SecretKey.generate(hg.bfv.parameters(depth=2, plain_bits=20))
    return secret, hg.Server(secret.evaluation_keys(rotations=[1, 2]))


def names(t: hg.Trace) -> list[str]:
    """Returns the names of the steps."""
    return [step.name for step in t]


@pytest.mark.parametrize("family", [hg.bfv, hg.bgv])
def test_exact_schemes(family: Any) -> None:
    """Operators, functions, encryption and files are steps under their own names, with the noise and size of the results."""
    secret = hg.SecretKey.generate(family.parameters(depth=2, plain_bits=16))
    server = hg.Server(secret.evaluation_keys(rotations=[1, 2]))
    made: list[Any] = []
    with hg.trace() as t:
        made.append(secret.encrypt(np.ones((4, 3), dtype=int), pad=True))
        x = server.bind(made[0])
        made.append(x * x)
        made.append(hg.relinearize(made[1]))
        made.append(2 - made[2][1:].reshape(3))
        made.append(hg.sum(made[3]))
        made.append(hg.rotate_rows(made[4], [1, 2]))
        made.append(server.from_bytes(made[4].to_bytes()))
    assert names(t) == ["encrypt", "multiply", "relinearize", "subtract", "sum", "rotate_rows", "from_bytes"]
    for step, tensor in zip(t, made, strict=True):
        assert step.scheme == secret.parameters.scheme
        assert (step.shape, step.degree, step.level) == (tensor.shape, tensor.degree, tensor.level)
        assert (step.noise_budget, step.nbytes) == (tensor.noise_budget, tensor.nbytes)
        assert step.seconds > 0
        assert step.where.startswith("test_trace.py:")
        assert step.precision is step.log_scale is None
    assert t.seconds == pytest.approx(sum(step.seconds for step in t.steps))


def test_ckks() -> None:
    """Steps of CKKS have a level, a precision and a scale. A statistic appears as the sequence of its operations."""
    secret = hg.SecretKey.generate(hg.ckks.parameters(depth=3, precision=20, slots=64))
    server = hg.Server(secret.evaluation_keys(rotations=hg.ckks.sum_rotations(secret.parameters.period)))
    x = server.bind(secret.encrypt(np.linspace(-1, 1, 64), bound=1.0))
    with hg.trace() as t:
        y = x * x
        z = y * 0.5
        hg.ckks.mean(x, "slots")
    assert names(t)[:2] == ["multiply", "multiply"]
    assert "sum_slots" in names(t)[2:]
    assert [step.level for step in t.steps[:2]] == [y.level, z.level] == [3, 2]
    assert [step.precision for step in t.steps[:2]] == [y.precision, z.precision]
    assert t.steps[0].log_scale == math.log2(y.scale)
    assert all(step.scheme == "CKKS" and step.noise_budget is None for step in t)


def test_tfhe() -> None:
    """Operators of TFHE have the names of NumPy. An operation that has several results is one step."""
    secret = hg.SecretKey.generate(tfhe_parameters("digits"))
    x = hg.Server(secret.evaluation_keys()).bind(secret.encrypt(np.array([1, 2], dtype=np.uint8)))
    with hg.trace() as t:
        x + 1
        divmod(x, 3)
        hg.tfhe.select(x < 2, x, 5)
    assert names(t) == ["add", "divmod", "less", "select"]
    assert [(step.results, step.shape) for step in t] == [(1, (2,)), (2, (2,)), (1, (2,)), (1, (2,))]
    assert all(step.level is step.noise_budget is None and step.nbytes > 0 for step in t)


def test_networks_and_programs(exact: tuple[Any, Any]) -> None:
    """A network is traced as its operations. A program is one step, whether it is recorded or replayed."""
    setup = nn.setup("digits-batch")
    secret = hg.SecretKey.generate(setup.parameters())
    server = hg.Server(secret.evaluation_keys())
    x = server.bind(secret.encrypt(setup.load().arrange(setup.load().blank()), pad=True))
    with hg.trace() as t:
        setup.load().evaluate(x)
    assert names(t)[0] in ("conv2d", "matmul")
    assert names(t)[-1] == "shrink"
    assert {"square", "relinearize"} <= set(names(t))
    assert all(step.where.startswith("networks.py:") for step in t)

    @hg.program
    def twice(x: Any) -> Any:
        return (x * x) * 2

    y = exact[1].bind(exact[0].encrypt([1], pad=True))
    with hg.trace() as t:
        twice(y)
        twice(y)
        twice(y + y)  # the noise estimates are new, so a dry run records the function again
    assert names(t) == ["twice", "twice", "add", "twice"]


def test_a_steps_time_is_that_of_its_operation(exact: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a step excludes the caller's work between steps. A clock that advances at each reading tests this."""
    x = exact[1].bind(exact[0].encrypt([1], pad=True))
    now = [0.0]

    def clock() -> float:
        now[0] += 1
        return now[0]

    monkeypatch.setattr(tracing, "time", types.SimpleNamespace(perf_counter=clock))
    with hg.trace() as t:
        x + x
        now[0] += 300  # the caller's work between two operations
        x + x
    assert len(t.steps) == 2
    assert all(0 < step.seconds < 100 for step in t)
    assert t.seconds < 200


def test_failed_operations_are_no_steps(exact: tuple[Any, Any]) -> None:
    """An operation that fails is not a step, and after the block nothing is traced. A trace includes all threads, also those
    of pools.
    """
    x = exact[1].bind(exact[0].encrypt([1], pad=True))
    with hg.trace() as t:
        with pytest.raises(hg.MissingKeyError):
            hg.rotate_rows(x, 3)
        x + 1
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: x + x).result()
        with hg.trace() as inner:
            x - 1
    x * x
    assert names(t) == ["add", "add", "subtract"]
    assert names(inner) == ["subtract"]
    with pytest.raises(ZeroDivisionError), hg.trace() as t:
        _ = 1 // 0
    x + x
    assert names(t) == []


def test_a_trace_and_a_profiler_work_together(exact: tuple[Any, Any]) -> None:
    """A trace and a profiler work at the same time."""
    x = exact[1].bind(exact[0].encrypt([1], pad=True))
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        with hg.trace() as t:
            x + 1
    finally:
        profiler.disable()
    assert names(t) == ["add"]
    assert any(name == "__add__" for _, _, name in pstats.Stats(profiler).stats)  # type: ignore[attr-defined]


def test_operators_of_arrays(exact: tuple[Any, Any]) -> None:
    """If NumPy calls an operator, this is a step at the line of the caller."""
    x = exact[1].bind(exact[0].encrypt([[1], [2]], pad=True))
    with hg.trace() as t:
        np.array([1, 2]) * x
        x += 1
        x @ np.ones((2, 2), dtype=int)
    assert names(t) == ["multiply", "add", "matmul"]
    assert all(step.where.startswith("test_trace.py:") for step in t)


def test_traces_have_a_table_and_data(exact: tuple[Any, Any]) -> None:
    """The table has a header, one line per step, and no empty columns; its data can be written as JSON."""
    x = exact[1].bind(exact[0].encrypt([1], pad=True))
    with hg.trace() as t:
        y = x * x
    header, line = str(t).split("\n")
    assert header.split() == ["operation", "shape", "level", "noise", "budget", "time", "at"]
    assert line.split()[:4] == ["1", "multiply", "-", str(y.level)]
    assert f"{y.noise_budget:.1f} bits" in line
    assert json.loads(json.dumps(t.data()))[0]["noise_budget"] == y.noise_budget
    assert "<td>multiply</td>" in t._repr_html_()
    assert repr(t).startswith("<trace of 1 steps")
    with hg.trace() as nothing:
        pass
    assert str(nothing).split() == ["operation", "shape", "level", "noise", "budget", "precision", "scale", "time", "at"]


def test_plots_show_noise_and_times(exact: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Plots show the noise budget as a line and times as bars. If matplotlib is missing, the error names matplotlib."""
    x = exact[1].bind(exact[0].encrypt([1], pad=True))
    with hg.trace() as t:
        y = x * x
        z = y + 1
    mpl = pytest.importorskip("matplotlib")
    mpl.use("agg")
    axes = t.plot()
    assert axes.get_lines()[0].get_ydata().tolist() == [y.noise_budget, z.noise_budget]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["multiply", "add"]
    beside = next(a for a in axes.figure.axes if a is not axes)
    assert [bar.get_height() for bar in beside.patches] == [1e3 * step.seconds for step in t]
    assert t.plot(axes) is axes
    with hg.trace() as nothing:
        pass
    nothing.plot()
    mpl.pyplot.close("all")


def test_plots_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """If matplotlib is missing, the error is one sentence that includes the remedy."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(hg.HeliographError, match=r"pip install 'heliograph\[plot\]'"):
        hg.trace().plot()


def test_the_picture_of_the_documents_has_its_script() -> None:
    """The picture in the documentation has a script and is a small file."""
    picture = Path(__file__).parents[2] / "docs" / "pictures" / "trace.svg"
    assert picture.with_suffix(".py").is_file()
    assert picture.read_text().count("multiply") >= 3
    assert picture.stat().st_size < 100_000
