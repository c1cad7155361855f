"""Hostile ONNX files: any bytes give a graph or a typed error, within bounded memory and time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph.ml import ModelError
from heliograph.ml.canonical import canonical
from heliograph.ml.interpreter import run
from heliograph.ml.read.onnx import Limits, read_onnx
from onnx_graphs import random_model
from test_ml_read_onnx import session

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


LIMITS = Limits(elements=1 << 20, constants=1 << 21, work=1 << 24, nodes=1000)
REFUSALS = (ModelError, hg.FormatError, hg.ShapeError)
SIZES = [0, -1, 1, 2, 3, 7, 64, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63)]
MODELS = [random_model(seed) for seed in range(60)]


def changed_bytes(model: Any, rng: random.Random) -> bytes:
    """Return the file with bytes changed, removed and added."""
    data = bytearray(model.SerializeToString())
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        i = rng.randrange(len(data))
        kind = rng.randrange(4)
        if kind == 0:
            data[i] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[i] = rng.choice([0, 127, 128, 255])
        elif kind == 2:
            del data[i : i + rng.randrange(1, 8)]
        else:
            data[i:i] = rng.randbytes(rng.randrange(1, 8))
    return bytes(data)


def changed_attribute(graph: Any, rng: random.Random) -> None:
    """Change a number of an attribute, or remove one."""
    attributes = rng.choice(graph.node).attribute
    if not attributes:
        return
    i = rng.randrange(len(attributes))
    attribute = attributes[i]
    if attribute.type == 7 and attribute.ints:
        attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(SIZES)
    elif attribute.type == 2:
        attribute.i = rng.choice(SIZES)
    elif attribute.type == 1:
        attribute.f = rng.choice([0.0, float("nan"), float("inf"), -1e38])
    else:
        del attributes[i]


def changed_input(graph: Any, rng: random.Random) -> None:
    """Let an operator read another value."""
    inputs = rng.choice(graph.node).input
    names = [name for node in graph.node for name in node.output] + [t.name for t in graph.initializer] + ["x", ""]
    inputs[rng.randrange(len(inputs))] = rng.choice(names)


def changed_operator(graph: Any, rng: random.Random) -> None:
    """Rename an operator."""
    others = "Reshape Gather Conv Tile Expand Range Pad ConstantOfShape GatherND Split Resize Einsum CumSum Slice Where"
    rng.choice(graph.node).op_type = rng.choice([*(node.op_type for node in graph.node), *others.split()])


def changed_constant(graph: Any, rng: random.Random) -> None:
    """Change sizes or the type of a constant, or an integer in it."""
    if not graph.initializer:
        return
    tensor = rng.choice(graph.initializer)
    kind = rng.randrange(3)
    if kind == 0 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(SIZES)
    elif kind == 1:
        tensor.data_type = rng.randrange(25)
    elif tensor.data_type == 7 and tensor.raw_data and len(tensor.raw_data) % 8 == 0:
        values = np.frombuffer(tensor.raw_data, np.int64).copy()
        values[rng.randrange(len(values))] = rng.choice(SIZES)
        tensor.raw_data = values.tobytes()


CHANGES: list[Callable[[Any, random.Random], None]] = [
    changed_attribute,
    changed_constant,
    changed_input,
    changed_operator,
]


def changed_structure(model: Any, rng: random.Random) -> bytes:
    """Return the file with one to three fields changed."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for _ in range(rng.choice([1, 1, 2, 3])):
        rng.choice(CHANGES)(copy.graph, rng)
    if rng.randrange(8) == 0:
        copy.opset_import[0].version = rng.choice([7, 9, 10, 11, 12, 13, 17, 18, 21, 24])
    return bytes(copy.SerializeToString())


def test_changed_bytes() -> None:
    """Files with changed bytes are read or refused."""
    read = 0
    start = time.process_time()
    for seed in range(1500):
        rng = random.Random(seed)
        try:
            canonical(read_onnx(changed_bytes(rng.choice(MODELS), rng), limits=LIMITS))
            read += 1
        except REFUSALS:
            pass
    assert 0 < read < 1500
    assert time.process_time() - start < 60


def test_changed_structures() -> None:
    """Files with changed fields are refused, or equal another runtime if that reads them too."""
    equal = refused = 0
    for seed in range(1200):
        rng = random.Random(seed)
        data = changed_structure(rng.choice(MODELS), rng)
        try:
            graph = read_onnx(data, limits=LIMITS)
        except REFUSALS:
            refused += 1
            continue
        wanted = other_runtime(data, graph.shapes["x"], seed) if "x" not in graph.dtypes else None
        if wanted is None or not np.all(np.isfinite(wanted[1])):
            continue
        x, values = wanted
        assert close(graph, x, values), seed
        try:
            simple = canonical(graph)
        except ModelError:
            continue
        assert close(simple, x, values), seed
        equal += 1
    assert equal > 100
    assert refused > 100


def other_runtime(data: bytes, shape: tuple[int, ...], seed: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return an input and onnxruntime's output; None for files that it refuses."""
    x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    try:
        return x, session(data).run(None, {"x": x})[0]
    except Exception:  # the runtime's many classes of refusals
        return None


def close(graph: Any, x: np.ndarray, wanted: np.ndarray) -> bool:
    """Return whether a graph's output equals values, up to rounding."""
    value = run(graph, x)[graph.outputs[0]].reshape(wanted.shape)
    return bool(np.abs(value - wanted).max(initial=0) <= 2e-5 * max(1.0, np.abs(wanted).max(initial=0)))
