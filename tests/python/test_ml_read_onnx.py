"""ONNX files: graphs with fixed shapes give the results of onnxruntime; if an operator is refused, the error names it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph.ml import ModelError
from heliograph.ml.interpreter import run
from heliograph.ml.read.onnx import Limits, read_onnx

onnx = pytest.importorskip("onnx")
helper = pytest.importorskip("onnx.helper")


def model(
    nodes: list[Any],
    inputs: dict[str, Any],
    outputs: list[str],
    constants: dict[str, Any] | None = None,
    opset: int = 17,
    kind: int = 1,
) -> Any:
    """Return a model of these nodes; its inputs have float32 elements unless `kind` is another type."""
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def node(operator: str, inputs: str, output: str = "y", **attributes: Any) -> Any:
    """Return a node that has the name of its output."""
    return helper.make_node(operator, inputs.split(), output.split(), name=output.split()[0], **attributes)


def small_network(opset: int = 17) -> Any:
    """Return a convolution, a normalization, a pool and a product of matrices."""
    rng = np.random.default_rng(1)
    constants = {
        "w": rng.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "b": rng.normal(size=4).astype(np.float32),
        **{name: rng.uniform(0.5, 1.5, 4).astype(np.float32) for name in ("f", "o", "m", "v")},
        "d": rng.normal(size=(5, 64)).astype(np.float32),
        "e": np.zeros(5, np.float32),
        "shape": np.array([0, -1], np.int64),
    }
    nodes = [
        node("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c f o m v", "n"),
        node("Relu", "n", "r"),
        node("AveragePool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Reshape", "p shape", "s"),
        node("Gemm", "s d e", "y", transB=1),
    ]
    return model(nodes, {"x": ["N", 3, 8, 8]}, ["y"], constants, opset)


def session(data: bytes) -> Any:
    """Return onnxruntime's session of a file, which changes nothing of the graph."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(data, options)


def reference(proto: Any, feeds: dict[str, Any]) -> list[np.ndarray]:
    """Return onnxruntime's outputs."""
    return session(proto.SerializeToString()).run(None, feeds)


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 17])
def test_a_small_network_equals_onnxruntime(opset: int) -> None:
    """For each opset, the graph gives the numbers of the runtime for each sample of a batch."""
    proto = small_network(opset)
    graph = read_onnx(proto.SerializeToString())
    assert [n.operation for n in graph.nodes] == ["Conv", "BatchNormalization", "Relu", "AveragePool", "Reshape", "Gemm"]
    assert graph.shapes["p"] == (1, 4, 4, 4)
    assert graph.nodes[0].source == "c (Conv)"
    x = np.random.default_rng(2).normal(size=(3, 3, 8, 8)).astype(np.float32)
    for dtype in (np.float64, np.float32):
        assert np.abs(run(graph, x, dtype=dtype)["y"] - reference(proto, {"x": x})[0]).max() < 1e-4


def test_values_inside_a_graph() -> None:
    """`until` returns the values with these names and does not compute later values."""
    graph = read_onnx(small_network())
    x = np.ones((2, 3, 8, 8))
    values = run(graph, x, until=["c", "p"])
    assert {name: value.shape for name, value in values.items()} == {"c": (2, 4, 8, 8), "p": (2, 4, 4, 4)}
    with pytest.raises(ModelError, match="no value 'q'"):
        run(graph, x, until=["q"])
    assert run(graph, np.empty((0, 3, 8, 8)))["y"].shape == (0, 5)


@pytest.mark.parametrize(
    ("inputs", "error", "words"),
    [
        (np.ones((2, 3, 8, 9)), hg.ShapeError, r"\(samples, 3, 8, 8\)"),
        (np.full((1, 3, 8, 8), "a"), hg.DtypeError, "must be numbers"),
        ({"z": np.ones((1, 3, 8, 8))}, hg.ShapeError, "inputs must be x"),
    ],
)
def test_wrong_inputs(inputs: Any, error: type[Exception], words: str) -> None:
    """Inputs whose name, shape or type differs are refused."""
    with pytest.raises(error, match=words):
        run(read_onnx(small_network()), inputs)


REFUSED = {
    "unknown": ([node("TopK", "x k", "y i")], r"node y \(TopK\) of opset 17: operator TopK.*known operators are Abs, Add"),
    "cycle": ([node("Relu", "y", "z"), node("Relu", "z", "y")], r"node z \(Relu\): its input 'y'.*cycle"),
    "missing": ([node("Relu", "q", "y")], "its input 'q' is not made by any operator"),
    "twice": ([node("Relu", "x", "y"), node("Tanh", "x", "y")], "'y' is made twice"),
    "input again": ([node("Relu", "x", "x"), node("Relu", "x", "y")], "'x' is made twice"),
    "attribute": ([node("Relu", "x", "y", slope=1.0)], "attributes slope are not supported"),
    "type": ([node("LeakyRelu", "x", "y", alpha="a")], "alpha must be of type float, got str"),
    "shapes": ([node("MatMul", "x k", "y")], "4 columns and 3 rows"),
    "axis": ([node("Softmax", "x", "y", axis=5)], "axis must be between -2 and 1, got 5"),
    "reshape": ([node("Reshape", "x s", "y")], r"cannot become \(7, 3\)"),
    "computed shape": ([node("Cast", "x", "c", to=7), node("Reshape", "x c", "y")], "the shape must be"),
    "work": ([node("ConstantOfShape", "h", "m"), node("MatMul", "m m", "y")], "take more than"),
    "size": ([node("ConstantOfShape", "huge", "y")], "at most"),
    "negative": ([node("Expand", "x n", "y")], "at least 0"),
    "range": ([node("Range", "zero limit one", "y")], "at most"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    """Operators that cannot be read are refused; the error has the name of the node and the reason."""
    nodes, words = REFUSED[case]
    constants = {
        "k": np.ones((3, 2), np.float32),
        "s": np.array([7, 3]),
        "h": np.array([4096, 4096]),
        "huge": np.array([1 << 40, 1 << 40]),
        "n": np.array([-3, 4]),
        "zero": np.array(0),
        "limit": np.array(1 << 62),
        "one": np.array(1),
    }
    with pytest.raises(ModelError, match=words):
        read_onnx(model(nodes, {"x": [1, 4]}, ["y"], constants))


def test_subgraphs_are_refused() -> None:
    """If an operator has a subgraph, the error names it."""
    branch = helper.make_graph([node("Relu", "x", "b")], "branch", [], [helper.make_tensor_value_info("b", 1, None)])
    choice = helper.make_node("If", ["c"], ["y"], name="choose", then_branch=branch, else_branch=branch)
    with pytest.raises(ModelError, match=r"node choose \(If\): operators with subgraphs"):
        read_onnx(model([choice], {"x": [1, 4]}, ["y"], {"c": np.array(True)}))


def test_opsets_and_bytes() -> None:
    """Opsets outside 7 to 24 are refused, and so are bytes of another kind."""
    for opset in (6, 25):
        with pytest.raises(ModelError, match=f"opset {opset}: it must be between 7 and 24"):
            read_onnx(model([node("Relu", "x")], {"x": [1, 4]}, ["y"], opset=opset))
    with pytest.raises(hg.FormatError, match="not an ONNX model"):
        read_onnx(b"")
    with pytest.raises(hg.FormatError, match="not an ONNX model"):
        read_onnx(b"\xff" * 100)
    with pytest.raises(hg.DtypeError, match="got int"):
        read_onnx(3)


def test_open_axes() -> None:
    """Axis 0 becomes 1. Other axes of unknown length take their length from `shapes`, by the name of the axis or of the
    input.

    """
    proto = model([node("Relu", "x")], {"x": ["N", "length", 4]}, ["y"])
    with pytest.raises(ModelError, match=r"axis 1 of input x \(length\) has no fixed size; give shapes=\{'length': 128\}"):
        read_onnx(proto)
    assert read_onnx(proto, shapes={"length": 7}).shapes["y"] == (1, 7, 4)
    assert read_onnx(proto, shapes={"x": (1, 9, 4)}).shapes["y"] == (1, 9, 4)
    for wrong, words in (
        ({"length": 7, "width": 7}, "width, which are neither"),
        ({"length": 0}, "at least 1"),
        ({"x": (1, 2)}, "3 sizes"),
    ):
        with pytest.raises(hg.ShapeError, match=words):
            read_onnx(proto, shapes=wrong)
    with pytest.raises(ModelError, match="axis 0 of input x must be a batch of 1 or open, got 8"):
        read_onnx(model([node("Relu", "x")], {"x": [8, 4]}, ["y"]))


def test_limits() -> None:
    """The number of operators, bytes and elements is limited before memory is allocated."""
    proto = small_network()
    for limits, words in (
        (Limits(nodes=3), "at most 3 operators, got 6"),
        (Limits(file_bytes=100), "at most 100 bytes"),
        (Limits(elements=50), "tensor w: it must have at most 50 elements, got 108"),
        (Limits(constants=200), "all constants must have at most 200"),
    ):
        with pytest.raises(ModelError, match=words):
            read_onnx(proto.SerializeToString(), limits=limits)


def external(folder: Path, **entries: str) -> Path:
    """Write a model whose weight is in a separate file."""
    proto = model([node("Add", "x w", "y")], {"x": [1, 4]}, ["y"], {"w": np.arange(4, dtype=np.float32)})
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    for key, value in entries.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_external_data(tmp_path: Path) -> None:
    """Data in a separate file is read only from the folder of the model, and its size is checked."""
    (tmp_path / "inside").mkdir()
    folder = tmp_path / "inside"
    data = np.arange(6, dtype=np.float32).tobytes()
    (folder / "w.bin").write_bytes(data)
    (tmp_path / "outside.bin").write_bytes(data)
    (folder / "link.bin").symlink_to(tmp_path / "outside.bin")
    graph = read_onnx(external(folder, location="w.bin", offset="8", length="16"))
    assert run(graph, np.zeros((1, 4)))["y"].tolist() == [[2, 3, 4, 5]]
    for entries, words in (
        ({"location": "../outside.bin"}, "must be a file in the folder"),
        ({"location": str(tmp_path / "outside.bin")}, "must be a file in the folder"),
        ({"location": "link.bin"}, "must be a file in the folder"),
        ({"location": "none.bin"}, "must be a file in the folder"),
        ({"location": "w.bin", "offset": "16"}, "must have its 16 bytes at 16"),
        ({"location": "w.bin", "length": "24"}, "must have its 16 bytes"),
        ({"location": "w.bin", "offset": "-4"}, "must have its 16 bytes at -4"),
        ({"location": "w.bin", "offset": "x"}, "damaged"),
    ):
        with pytest.raises(ModelError, match=words):
            read_onnx(external(folder, **entries))
    with pytest.raises(ModelError, match="external data must have at most 8 bytes"):
        read_onnx(external(folder, location="w.bin", length="16"), limits=Limits(external_bytes=8))
    with pytest.raises(ModelError, match="give the model's path, not bytes"):
        read_onnx(external(folder, location="w.bin").read_bytes())


@pytest.mark.skipif("HELIOGRAPH_DATA" not in os.environ, reason="HELIOGRAPH_DATA names no folder of models")
def test_resnet20() -> None:
    """A ResNet-20 that others have trained gives the results of onnxruntime."""
    path = Path(os.environ["HELIOGRAPH_DATA"]) / "models" / "resnet20_cifar10_pre.onnx"
    x = np.random.default_rng(3).normal(size=(1, 3, 32, 32)).astype(np.float32)
    assert np.abs(run(read_onnx(path), x)["output"] - reference(onnx.load(path), {"input": x})[0]).max() < 1e-4
