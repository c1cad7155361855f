"""Division of a graph into a part that the client computes in the clear, and a part on encrypted values.

The client looks up embeddings and prepares masks: operations on integers, and cheap operations on their results. Layers
never move to the client.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heliograph.ml import shapes
from heliograph.ml.canonical import canonical
from heliograph.ml.chains import with_softmax
from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Array, Graph, Node
from heliograph.ml.interpreter import run
from heliograph.ml.lowering import LOWERINGS

#: Operators that the client may compute: look-ups, masks, and arithmetic on them.
CLIENT = frozenset(
    [
        "Abs",
        "Add",
        "And",
        "Cast",
        "Ceil",
        "Clip",
        "Concat",
        "CumSum",
        "Div",
        "Equal",
        "Expand",
        "Floor",
        "Gather",
        "GatherND",
        "Greater",
        "GreaterOrEqual",
        "Identity",
        "IsNaN",
        "Less",
        "LessOrEqual",
        "Max",
        "Min",
        "Mod",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "Pad",
        "Pow",
        "Reciprocal",
        "ReduceMax",
        "ReduceMin",
        "ReduceSum",
        "Reshape",
        "Round",
        "Sign",
        "Slice",
        "Sqrt",
        "Sub",
        "Sum",
        "Tile",
        "Transpose",
        "Trilu",
        "Where",
        "Xor",
    ]
)


@dataclass(frozen=True)
class Partition:
    """A graph in two parts. The client computes `client`, whose outputs are the inputs of `encrypted`.

    `client` is None if the client only encrypts the inputs. `encrypted` has ONNX operators.
    """

    client: Graph | None
    encrypted: Graph

    def prepare(self, inputs: Any) -> dict[str, Array]:
        """Return the inputs of the encrypted part: [samples, shape...] by name. Errors are those of `interpreter.run`."""
        if self.client is not None:
            return run(self.client, inputs)
        if isinstance(inputs, dict):
            return {name: np.asarray(values) for name, values in inputs.items()}
        return {self.encrypted.inputs[0]: np.asarray(inputs)}

    def canonical(self) -> Graph:
        """Return the canonical form of the encrypted part."""
        return canonical(self.encrypted)


def partition(graph: Graph) -> Partition:
    """Divide a graph of ONNX operators. Models of float inputs alone have no part for the client.

    Raises ModelError if an operator needs clear values that depend on a layer, or an output does not depend on one.
    """
    graph = with_softmax(_without_nan_checks(graph))
    if not graph.dtypes:
        return Partition(None, graph)
    clear = _clear_values(graph)
    graph = _encrypted_operators(graph, clear)
    known = clear | set(graph.inputs)
    inside = [node for node in graph.nodes if node.output in clear]
    outside = [node for node in graph.nodes if node.output not in clear]
    made = {node.output for node in outside}
    for name in graph.outputs:
        if name not in made:
            raise ModelError(
                f"output {name} depends on no layer: the client alone computes it; select another output by outputs="
            )
    cut = dict.fromkeys(name for node in outside for name in node.inputs if name in known)
    for name in cut:
        if name in graph.dtypes:
            raise ModelError(f"value {name} of {graph.dtypes[name]} cannot be encrypted; it must be floats")
    first = _part(graph, graph.inputs, tuple(cut), inside)
    return Partition(first, _part(graph, tuple(cut), graph.outputs, outside))


def _part(graph: Graph, inputs: tuple[str, ...], outputs: tuple[str, ...], nodes: list[Node]) -> Graph:
    """Return a part of a graph, with the shapes, types and constants of its values."""
    values = {*inputs, *outputs, *(n.output for n in nodes), *(name for n in nodes for name in n.inputs)}
    return replace(
        graph,
        inputs=inputs,
        outputs=outputs,
        nodes=tuple(nodes),
        shapes={name: shape for name, shape in graph.shapes.items() if name in values},
        constants={name: array for name, array in graph.constants.items() if name in values},
        dtypes={name: dtype for name, dtype in graph.dtypes.items() if name in values},
    )


def _without_nan_checks(graph: Graph) -> Graph:
    """Replace selections by IsNaN of floats: encrypted values are never NaN."""
    checks = {node.output for node in graph.nodes if node.operation == "IsNaN" and node.inputs[0] not in graph.dtypes}
    nodes = []
    for node in graph.nodes:
        if node.operation == "Where" and node.inputs[0] in checks and node.inputs[2] not in graph.constants:
            shape = shapes.broadcast([graph.shapes[name] for name in node.inputs[:1]])
            if graph.shapes[node.inputs[2]] == graph.shapes[node.output] == shape:
                node = Node("Identity", node.inputs[2:], node.output, {}, node.source)
        nodes.append(node)
    used = {*graph.outputs, *(name for node in nodes for name in node.inputs)}
    kept = tuple(node for node in nodes if node.output not in checks or node.output in used)
    dtypes = {name: dtype for name, dtype in graph.dtypes.items() if name not in checks or name in used}
    return replace(graph, nodes=kept, dtypes=dtypes)


def _clear_values(graph: Graph) -> set[str]:
    """Return the values that the client computes: those that encryption cannot, and cheap results of these alone."""
    makers = {node.output: node for node in graph.nodes}
    needed: set[str] = set()
    for node in graph.nodes:
        pending = [node.output] if _needs_clear(graph, node) else []
        while pending:
            name = pending.pop()
            maker = makers.get(name)
            if maker is None or name in needed:
                continue
            if maker.operation not in CLIENT:
                raise ModelError(
                    f"cannot compile node {node.source}: {node.operation} needs clear values, and they depend on node "
                    f"{maker.source}, which is computed on encrypted values"
                )
            needed.add(name)
            pending.extend(maker.inputs)
    integers = {name for name in graph.inputs if name in graph.dtypes}
    for node in graph.nodes:
        operands = [name for name in node.inputs if name not in graph.constants]
        if node.operation in CLIENT and all(name in needed or name in integers for name in operands):
            needed.add(node.output)
    return needed


def _needs_clear(graph: Graph, node: Node) -> bool:
    """Return whether an operator reads or makes integers or booleans that depend on an input, or has no canonical form."""
    operands = [name for name in node.inputs if name in graph.dtypes and name not in graph.constants]
    if node.operation == "Where" and node.inputs[0] in operands:
        operands.remove(node.inputs[0])  # a mask: the client sends it as floats
    return bool(operands) or node.output in graph.dtypes or (node.operation not in LOWERINGS)


def _encrypted_operators(graph: Graph, clear: set[str]) -> Graph:
    """Rewrite operators on encrypted values whose other operand the client knows: divisions, and selections by a mask."""
    nodes: list[Node] = []
    new_shapes, constants = dict(graph.shapes), dict(graph.constants)

    def add(operation: str, inputs: tuple[str, ...], node: Node, output: str = "", client: bool = False, **more: Any) -> str:
        name = output or f"{node.output}#{len(nodes)}"
        nodes.append(Node(operation, inputs, name, more, node.source))
        new_shapes[name] = shapes.RAW[operation]([new_shapes[i] for i in inputs], more)
        if client:
            clear.add(name)
        return name

    for node in graph.nodes:
        if node.output in clear or not set(node.inputs) & clear:
            nodes.append(node)
        elif node.operation == "Div" and node.inputs[1] in clear:
            inverse = add("Reciprocal", node.inputs[1:], node, client=True)
            add("Mul", (node.inputs[0], inverse), node, node.output)
        elif node.operation == "Where" and node.inputs[0] in clear:
            mask = add("Cast", node.inputs[:1], node, client=True, dtype="float32", bfloat16=False)
            one = f"{node.output}#one"
            constants[one], new_shapes[one] = np.ones((), np.float32), ()
            rest = add("Sub", (one, mask), node, client=True)
            first = add("Mul", (mask, node.inputs[1]), node, client=_is_clear(graph, clear, node.inputs[1]))
            second = add("Mul", (rest, node.inputs[2]), node, client=_is_clear(graph, clear, node.inputs[2]))
            add("Add", (first, second), node, node.output)
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes), shapes=new_shapes, constants=constants)


def _is_clear(graph: Graph, clear: set[str], name: str) -> bool:
    return name in clear or name in graph.constants
