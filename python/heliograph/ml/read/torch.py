"""Reader of PyTorch modules: an export to ONNX in memory, which is then read as a file. Nothing here imports PyTorch."""

from __future__ import annotations

import inspect
import io
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heliograph import _core
from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Array, Graph
from heliograph.ml.interpreter import run
from heliograph.ml.read.onnx import read_onnx
from heliograph.ml.read.tensors import Limits

_OPSET = 18  #: the newest operator set that both exporters of PyTorch write without conversion
_TOLERANCE = 1e-3  #: largest difference of the graph and the module, relative to the largest output


def is_module(model: Any) -> bool:
    """Return whether an object is a `torch.nn.Module`, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def read_torch(
    module: Any,
    example: Any,
    *,
    outputs: Sequence[str] | None = None,
    limits: Limits | None = None,
) -> Graph:
    """Read a `torch.nn.Module` by `torch.onnx.export`. Return its graph, as `read_onnx` does.

    `example` is an array [samples, shape...], or a tuple of arrays for several inputs; the first sample is exported. Arrays
    beyond the inputs of `module.forward`, such as class numbers, are left out. The module is exported in evaluation mode
    and keeps its own mode. Its shapes are the example's, with a batch of 1. The graph is compared with the module on the
    example.

    Raises DtypeError for another object, ShapeError for an empty example. ModelError: the export fails, an operator is not
    supported, or graph and module differ.
    """
    if not is_module(module):
        raise _core.DtypeError(f"the model must be a torch.nn.Module, got {type(module).__name__}")
    arrays = _first(_inputs(module, example))
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        torch = sys.modules["torch"]
        places = {tensor.device for tensor in module.parameters()}
        device = places.pop() if len(places) == 1 else torch.device("cpu")
        tensors = tuple(torch.from_numpy(array).to(device) for array in arrays)
        data = _exported(torch, module, tensors)
        with torch.no_grad():
            wanted = module(*tensors)
    finally:
        for part, training in modes.items():
            part.training = training
    graph = read_onnx(data, outputs=outputs, limits=limits)
    if outputs is None:
        _compare(graph, arrays, wanted)
    return graph


def _inputs(module: Any, example: Any) -> Any:
    """Return as many arrays of a tuple as the module's `forward` takes."""
    if not isinstance(example, tuple):
        return example
    places = inspect.signature(getattr(module, "forward", module)).parameters.values()
    if any(place.kind is place.VAR_POSITIONAL for place in places):
        return example
    count = sum(place.kind in (place.POSITIONAL_ONLY, place.POSITIONAL_OR_KEYWORD) for place in places)
    return example[:count]


def _first(example: Any) -> tuple[Array, ...]:
    """Return the first sample of each input, as float32 or 64-bit integers."""
    parts = example if isinstance(example, tuple) else (example,)
    arrays: list[Array] = []
    for part in parts:
        array = np.asarray(part)
        if array.ndim < 1 or not len(array):
            raise _core.ShapeError(f"an example must be [samples, shape...] with at least one sample, got {array.shape}")
        if array.dtype.kind not in "fiub":
            raise _core.DtypeError(f"an example must be numbers, got {array.dtype}")
        dtype = np.float32 if array.dtype.kind == "f" else np.int64 if array.dtype.kind in "iu" else np.bool_
        arrays.append(np.array(array[:1], dtype))
    return tuple(arrays)


def _exported(torch: Any, module: Any, tensors: tuple[Any, ...]) -> bytes:
    """Return the module as an ONNX file, by the exporter of graphs, or by the older one of scripts if that fails."""
    reasons = []
    try:
        program = torch.onnx.export(module, tensors, dynamo=True, opset_version=_OPSET, verbose=False)
        return bytes(program.model_proto.SerializeToString())
    except Exception as error:  # the exporter has many classes of errors, and needs the package onnxscript
        reasons.append(_line(error))
    try:
        buffer = io.BytesIO()
        torch.onnx.export(module, tensors, buffer, dynamo=False, opset_version=17)
        return buffer.getvalue()
    except Exception as error:
        reasons.append(_line(error))
        raise ModelError(
            f"cannot export the module to ONNX: {reasons[0]}; the exporter of TorchScript: {reasons[1]}. Install "
            "onnxscript, or export the module yourself and give the file"
        ) from error


def _line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0][:200] if text else ''}"


def _compare(graph: Graph, arrays: tuple[Array, ...], wanted: Any) -> None:
    """Raise ModelError if the graph's outputs differ from the module's."""
    if len(graph.inputs) != len(arrays):
        raise ModelError(f"cannot read the module: it has {len(arrays)} inputs, and its ONNX file {len(graph.inputs)}")
    values = run(graph, dict(zip(graph.inputs, arrays, strict=True)))
    tensors = _flat(wanted)
    if len(tensors) != len(graph.outputs):
        raise ModelError(f"cannot read the module: it has {len(tensors)} outputs, and its ONNX file {len(graph.outputs)}")
    for name, tensor in zip(graph.outputs, tensors, strict=True):
        target = tensor.detach().cpu().numpy().astype(np.float64)
        value = values[name]
        scale = max(1.0, float(np.abs(target).max(initial=0)))
        if (
            value.size != target.size
            or not np.abs(value.reshape(target.shape) - target).max(initial=0) <= _TOLERANCE * scale
        ):
            raise ModelError(
                f"cannot read the module: output {name} of its ONNX file differs from the module's on the example; does it "
                "draw random numbers or keep a state?"
            )


def _flat(value: Any) -> list[Any]:
    """Return the tensors of nested tuples, lists and mappings, in order."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [tensor for part in value for tensor in _flat(part)]
    return [value]
