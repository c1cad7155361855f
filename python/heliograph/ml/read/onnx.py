"""Reader of ONNX files: a graph of operators with fixed shapes, whose constants are computed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._common.arguments import printable
from heliograph.ml import interpreter, shapes
from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Array, Graph, Node, Shape
from heliograph.ml.read import layers
from heliograph.ml.read.call import Call, Step
from heliograph.ml.read.operators import OPERATORS
from heliograph.ml.read.tensors import Budget, Limits, array_of, dtype_of

OPSETS = range(7, 25)  #: versions of the operator set that the reader knows
assert layers.__name__  # the module registers its operators
_BOOLS = {"And", "Or", "Xor", "Not", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "IsNaN"}


def read_onnx(
    model: str | os.PathLike[str] | bytes | Any,
    *,
    shapes: Mapping[str, int | Sequence[int]] | None = None,
    sample: Mapping[str, Sequence[int]] | None = None,
    outputs: Sequence[str] | None = None,
    limits: Limits | None = None,
) -> Graph:
    """Read an ONNX model: a path, the bytes of a file, or an `onnx.ModelProto`. Return its graph.

    Axis 0 of each input is the batch and becomes 1. `shapes` gives the size of other axes that the file leaves open, by
    their name (``{"sequence": 128}``), or the whole shape of an input by its name. `sample` has the shapes of one sample
    without the batch, by input, for sizes that `shapes` does not give; "" names the only input. `outputs` selects outputs
    by name; operators that they do not need are left out. The graph has `ONNX` operators without differences between
    opsets (`interpreter.RAW`); operators of constants alone are computed.

    Raises FormatError for bytes that are not an ONNX model. Operators, types, shapes and versions that are not supported are
    a ModelError, which names the node. Raises ShapeError for `shapes` that do not fit, ImportError without the package onnx.
    """
    limits = limits or Limits()
    budget = Budget(limits)
    proto = _proto(model, budget)
    reader = _Reader(proto, _sizes(shapes), budget, {name: tuple(shape) for name, shape in (sample or {}).items()})
    return reader.graph(outputs)


def _onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise ImportError("reading ONNX models needs the package onnx: pip install 'heliograph[ml]'") from error
    return onnx


def _proto(model: Any, budget: Budget) -> Any:
    onnx = _onnx()
    limit = budget.limits.file_bytes
    if isinstance(model, onnx.ModelProto):
        return model
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        size = path.stat().st_size
        if size > limit:
            raise ModelError(f"cannot read {path.name}: a file must have at most {limit} bytes, got {size}")
        budget.base = path.parent
        model = path.read_bytes()
    if not isinstance(model, bytes | bytearray | memoryview):
        kinds = "a path, bytes or an onnx.ModelProto"
        raise _core.DtypeError(f"an ONNX model must be {kinds}, got {type(model).__name__}")
    if len(model) > limit:
        raise ModelError(f"cannot read the model: it must have at most {limit} bytes, got {len(model)}")
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(bytes(model))
    except Exception as error:  # the parser's own class depends on its version
        raise _core.FormatError("these bytes are not an ONNX model") from error
    if not proto.HasField("graph"):
        raise _core.FormatError("these bytes are not an ONNX model: they have no graph")
    return proto


def _sizes(given: Mapping[str, int | Sequence[int]] | None) -> dict[str, int | Shape]:
    sizes: dict[str, int | Shape] = {}
    for name, value in (given or {}).items():
        try:
            size = int(value) if isinstance(value, int | np.integer) else tuple(int(v) for v in value)
        except (TypeError, ValueError) as error:
            raise _core.ShapeError(f"shapes[{name!r}] must be a size or a tuple of sizes, got {value!r}") from error
        if min(size if isinstance(size, tuple) else (size,), default=1) < 1:
            raise _core.ShapeError(f"shapes[{name!r}] must have sizes of at least 1, got {value!r}")
        sizes[str(name)] = size
    return sizes


def text(value: str | bytes) -> str:
    """Return a name of the file. Raises ModelError if its bytes are not text."""
    if isinstance(value, bytes):
        raise ModelError(f"cannot read the model: name {value[:40]!r} must be UTF-8")
    return value


class _Reader:
    """Reads the operators of one file in order; holds the constants, shapes and dtypes of the values made so far."""

    def __init__(self, proto: Any, sizes: dict[str, int | Shape], budget: Budget, sample: Mapping[str, Shape]) -> None:
        self.proto = proto.graph
        self.sample = sample
        self.budget = budget
        self.sizes = sizes
        self.unused = set(sizes)
        self.constants: dict[str, Array] = {}
        self.shapes: dict[str, Shape] = {}
        self.dtypes: dict[str, np.dtype[Any]] = {}
        self.nodes: list[Node] = []
        self.version = _opset(proto)
        if len(proto.functions):
            used = {(node.domain, node.op_type) for node in self.proto.node}
            if any((f.domain, f.name) in used for f in proto.functions):
                raise ModelError("cannot read local functions; inline them with onnx.inliner.inline_local_functions")
        if len(self.proto.node) > budget.limits.nodes:
            raise ModelError(f"a model must have at most {budget.limits.nodes} operators, got {len(self.proto.node)}")
        if len(self.proto.sparse_initializer):
            raise ModelError("cannot read sparse constants; store them as dense tensors")

    # ---- values ----

    def require(self, shape: Shape, what: str) -> None:
        """Raise ModelError for a constant of this shape beyond the limits."""
        self.budget.require_elements(shape, what, constant=True)

    def add_constant(self, name: str, array: Array) -> None:
        """Add a constant."""
        self._new(name)
        self.budget.require_elements(array.shape, f"constant {printable(name)}", constant=True)
        self.constants[name] = array
        self.shapes[name] = array.shape
        self.dtypes[name] = array.dtype

    def _new(self, name: Any) -> None:
        text(name)
        if not name or name in self.shapes:
            raise ModelError(f"cannot read the model: value {printable(name)!r} is made twice")

    # ---- the file ----

    def graph(self, outputs: Sequence[str] | None) -> Graph:
        """Return the whole graph."""
        text(self.proto.name)
        for tensor in self.proto.initializer:
            self._new(tensor.name)
            array = array_of(tensor, self.budget, f"tensor {printable(tensor.name)}")
            self.constants[tensor.name], self.shapes[tensor.name], self.dtypes[tensor.name] = array, array.shape, array.dtype
        inputs = [self._input(value) for value in self.proto.input if value.name not in self.constants]
        if self.unused:
            unused = ", ".join(sorted(self.unused))
            raise _core.ShapeError(f"shapes has {unused}, which are neither inputs nor open axes of the model")
        makers = self._makers()
        for proto in self.proto.node:
            self._node(proto, makers)
        names = [text(value.name) for value in self.proto.output]
        wanted = tuple(names if outputs is None else outputs)
        for output in wanted:
            if output not in self.shapes:
                known = ", ".join(map(printable, names)) or "none"
                raise ModelError(f"cannot return output {printable(output)!r}: no operator makes it; outputs are {known}")
            if output in self.constants or output in inputs:
                raise ModelError(f"cannot return output {printable(output)!r}: no operator of the inputs makes it")
        if not wanted:
            raise ModelError("cannot read the model: it has no outputs")
        return self._pruned(tuple(inputs), tuple(dict.fromkeys(wanted)))

    def _input(self, value: Any) -> str:
        name: str = value.name
        self._new(name)
        tensor = value.type.tensor_type
        if value.type.WhichOneof("value") != "tensor_type":
            raise ModelError(f"cannot read input {printable(name)}: it must be a tensor")
        shape = self._input_shape(name, tensor)
        self.budget.require_elements(shape, f"input {printable(name)}", constant=False)
        self.shapes[name] = shape
        self.dtypes[name] = dtype_of(tensor.elem_type, f"input {printable(name)}")
        return name

    def _input_shape(self, name: str, tensor: Any) -> Shape:
        given = self.sizes.get(name)
        if isinstance(given, tuple):
            self.unused.discard(name)
            if tensor.HasField("shape") and len(tensor.shape.dim) != len(given):
                raise _core.ShapeError(f"shapes[{name!r}] must have {len(tensor.shape.dim)} sizes, got {given}")
            return given
        if not tensor.HasField("shape"):
            raise ModelError(f"input {printable(name)} has no shape; give shapes={{{name!r}: (1, ...)}} to read_onnx")
        shape = []
        only = sum(value.name not in self.constants for value in self.proto.input) == 1
        sample = self.sample.get(name, self.sample.get("", ()) if only else ())
        for axis, dim in enumerate(tensor.shape.dim):
            text(dim.dim_param)
            size = int(dim.dim_value) if dim.HasField("dim_value") else 0
            if size <= 0 and dim.dim_param in self.sizes:
                self.unused.discard(dim.dim_param)
                chosen = self.sizes[dim.dim_param]
                if isinstance(chosen, tuple):
                    raise _core.ShapeError(f"shapes[{dim.dim_param!r}] must be one size, got {chosen}")
                size = chosen
            elif size <= 0 and axis == 0:
                size = 1
            elif size <= 0 and len(sample) == len(tensor.shape.dim) - 1:
                size = sample[axis - 1]
            if size <= 0:
                which = printable(dim.dim_param) or f"{name}[{axis}]"
                remedy = f"{dim.dim_param!r}: 128" if dim.dim_param else f"{name!r}: (1, ...)"
                where = f"axis {axis} of input {printable(name)} ({which})"
                raise ModelError(
                    f"{where} has no fixed size; give shapes={{{remedy}}} to read_onnx, or samples of the full shape to "
                    "hg.ml.compile"
                )
            if axis == 0 and size != 1 and len(tensor.shape.dim) > 1 and dim.dim_param not in self.sizes:
                raise ModelError(
                    f"axis 0 of input {printable(name)} must be a batch of 1 or open, got {size}; export the model with a "
                    f"batch of 1, or give the shape by shapes={{{name!r}: (...)}}"
                )
            shape.append(size)
        return tuple(shape)

    def _makers(self) -> dict[str, int]:
        makers: dict[str, int] = {}
        for i, proto in enumerate(self.proto.node):
            for name in map(text, filter(None, proto.output)):
                if name in makers or name in self.shapes:
                    raise ModelError(f"cannot read the model: value {printable(name)!r} is made twice")
                makers[name] = i
        return makers

    def _node(self, proto: Any, makers: Mapping[str, int]) -> None:
        operator = text(proto.op_type)
        for name in (*proto.input, *proto.output, proto.name, proto.domain):
            text(name)
        label = f"{printable(proto.name or (proto.output[0] if proto.output else '?'))} ({printable(operator)})"
        if not proto.output or not any(proto.output):
            raise ModelError(f"cannot read node {label}: it has no outputs")
        attributes = {}
        for attribute in proto.attribute:
            if attribute.type in (5, 10):  # GRAPH, GRAPHS
                raise ModelError(f"cannot read node {label}: operators with subgraphs are not supported")
            attributes[text(attribute.name)] = _attribute(attribute, self.budget, label)
        if proto.domain not in ("", "ai.onnx") or operator not in OPERATORS:
            domain = f"{printable(proto.domain)}." if proto.domain not in ("", "ai.onnx") else ""
            raise ModelError(
                f"cannot read node {label} of opset {self.version}: operator {domain}{printable(operator)} is not "
                f"supported; known operators are {', '.join(sorted(OPERATORS))}"
            )
        for name in filter(None, proto.input):
            if name not in self.shapes:
                why = "is made by a later operator or by a cycle" if name in makers else "is not made by any operator"
                raise ModelError(f"cannot read node {label}: its input {printable(name)!r} {why}")
        call = Call(operator, proto.name, self.version, proto.input, proto.output, attributes, self)
        try:
            with np.errstate(all="ignore"):
                steps = OPERATORS[operator](call)
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise call.error(f"its attributes or inputs are damaged: {error}") from error
        call.finish()
        for step in steps:
            self._step(call, step)

    def _step(self, call: Call, step: Step) -> None:
        output = step.output or call.outputs[0]
        if not step.inputs or not all(name in self.shapes for name in step.inputs):
            raise call.error("an input is missing")
        operands = [self.shapes[name] for name in step.inputs]
        if step.operation == "Identity" and step.inputs[0] in self.constants:
            self._alias(output, step.inputs[0])
            return
        try:
            shape = shapes.RAW[step.operation](operands, step.attributes)
        except (ValueError, IndexError) as error:
            raise call.error(str(error)) from error
        self.budget.require_elements(shape, f"node {call.source}", constant=False)
        node = Node(step.operation, step.inputs, output, step.attributes, call.source)
        if all(name in self.constants for name in step.inputs):
            self.budget.require_work(shapes.work(step.operation, operands, shape, step.attributes), f"node {call.source}")
            with np.errstate(all="ignore"):
                value = interpreter.evaluate(node, [self.constants[name] for name in step.inputs])
            if value.shape != shape:
                raise call.error(f"its value has shape {value.shape}, not {shape}")
            self.add_constant(output, value)
            return
        self._new(output)
        self.nodes.append(node)
        self.shapes[output] = shape
        self.dtypes[output] = self._dtype(step)

    def _alias(self, name: str, constant: str) -> None:
        self._new(name)
        self.constants[name] = self.constants[constant]
        self.shapes[name], self.dtypes[name] = self.shapes[constant], self.dtypes[constant]

    def _dtype(self, step: Step) -> np.dtype[Any]:
        if step.operation in _BOOLS:
            return np.dtype(np.bool_)
        if step.operation == "Cast":
            return np.dtype(str(step.attributes["dtype"]))
        if step.operation == "ArgMax":
            return np.dtype(np.int64)
        return self.dtypes[step.inputs[1 if step.operation == "Where" else 0]]

    def _pruned(self, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Graph:
        """Return the graph without operators and constants that the outputs do not need."""
        needed, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if node.output in needed:
                nodes.append(node)
                needed.update(node.inputs)
        values = needed | set(inputs)
        dtypes = {n: self.dtypes[n].name for n in values if self.dtypes[n].kind != "f"}
        constants = {name: array for name, array in self.constants.items() if name in needed}
        kept = {name: self.shapes[name] for name in self.shapes if name in values}
        return Graph(inputs, outputs, tuple(nodes[::-1]), kept, constants, printable(self.proto.name), dtypes)


def _opset(proto: Any) -> int:
    versions = {entry.domain: entry.version for entry in proto.opset_import}
    version = int(versions.get("", versions.get("ai.onnx", 0)))
    if version not in OPSETS:
        raise ModelError(
            f"cannot read opset {version}: it must be between {OPSETS[0]} and {OPSETS[-1]}; export with opset_version=17"
        )
    return version


def _attribute(attribute: Any, budget: Budget, label: str) -> Any:
    """Return an attribute's value as a number, a text, a list or an array."""
    text(attribute.name)
    kind = attribute.type
    if kind == 1:
        return float(attribute.f)
    if kind == 2:
        return int(attribute.i)
    if kind == 3:
        return attribute.s.decode("utf-8", "replace")
    if kind == 4:
        return array_of(attribute.t, budget, f"attribute {printable(attribute.name)} of node {label}")
    if kind == 6:
        return [float(value) for value in attribute.floats]
    if kind == 7:
        return [int(value) for value in attribute.ints]
    if kind == 8:
        return [value.decode("utf-8", "replace") for value in attribute.strings]
    raise ModelError(f"cannot read node {label}: attribute {printable(attribute.name)} has unsupported type {kind}")
