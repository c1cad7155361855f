"""A canonical graph while it is made and rewritten."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from heliograph.ml import shapes
from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Array, Graph, Node, Shape, floats


def compact(array: Array) -> Array:
    """Return an array as floats, with size 1 along axes where all elements are equal, without axes of 1 in front."""
    array = floats(array)
    for axis, size in enumerate(array.shape):
        first = array.take([0], axis=axis) if size else array
        if size > 1 and np.array_equal(np.broadcast_to(first, array.shape), array):
            array = first
    lead = next((i for i, size in enumerate(array.shape) if size != 1), array.ndim)
    return array.reshape(array.shape[lead:])


class Draft:
    """Nodes by their output, with the shape and the users of each value. Rules change it through `put` and `replace`."""

    def __init__(self, inputs: Mapping[str, Shape], constants: Mapping[str, Array], name: str = "") -> None:
        self.inputs = tuple(inputs)
        self.shapes: dict[str, Shape] = dict(inputs)
        self.constants = dict(constants)
        self.shapes.update({key: array.shape for key, array in self.constants.items()})
        self.name = name
        self.nodes: dict[str, Node] = {}
        self.outputs: dict[str, str] = {}  #: value by the name of each output
        self._users: dict[str, dict[str, None]] = {}
        self._made = 0

    # ---- making ----

    def put(
        self, operation: str, inputs: tuple[str, ...], attributes: Mapping[str, Any], source: str, output: str = ""
    ) -> str:
        """Add a node, or replace the node of this output, and return the output's name."""
        output = output or self._new_name(source)
        try:
            shape = shapes.CANONICAL[operation]([self.shapes[name] for name in inputs], attributes)
        except ValueError as error:
            raise ModelError(f"cannot compile node {source}: {error}") from error
        if output in self.nodes:
            self._unlink(self.nodes[output])
        self.nodes[output] = Node(operation, inputs, output, dict(attributes), source)
        self.shapes[output] = shape
        for name in inputs:
            self._users.setdefault(name, {})[output] = None
        return output

    def _new_name(self, source: str) -> str:
        while True:
            self._made += 1
            name = f"{source.split(' (')[0]}@{self._made}"
            if name not in self.shapes:
                return name

    def _unlink(self, node: Node) -> None:
        for name in node.inputs:
            self._users.get(name, {}).pop(node.output, None)

    def scale(self, value: str, factor: Any, offset: Any, source: str, output: str = "") -> str:
        """Add a `scale` node. Raises ModelError for factors that are not finite."""
        factor, offset = compact(np.asarray(factor)), compact(np.asarray(offset))
        if not (np.all(np.isfinite(factor)) and np.all(np.isfinite(offset))):
            raise ModelError(f"cannot compile node {source}: its constants must be finite numbers")
        return self.put("scale", (value,), {"factor": factor, "offset": offset}, source, output)

    def activation(self, value: str, function: str, source: str, output: str = "", **parameters: float) -> str:
        """Add an `activation` node."""
        attributes = {"function": function, "parameters": {k: float(v) for k, v in parameters.items()}}
        return self.put("activation", (value,), attributes, source, output)

    def reshape(self, value: str, shape: Shape, source: str, output: str = "") -> str:
        """Add a `reshape` node; return the value itself if it has the shape and no name is asked for."""
        if self.shapes[value] == tuple(shape) and not output:
            return value
        return self.put("reshape", (value,), {"shape": tuple(shape)}, source, output)

    def transpose(self, value: str, permutation: tuple[int, ...], source: str, output: str = "") -> str:
        """Add a `transpose` node; return the value itself if nothing moves and no name is asked for."""
        if permutation == tuple(range(len(permutation))) and not output:
            return value
        return self.put("transpose", (value,), {"permutation": tuple(permutation)}, source, output)

    def broadcast(self, value: str, shape: Shape, source: str) -> str:
        """Add a `broadcast` node; return the value itself if it has the shape."""
        if self.shapes[value] == tuple(shape):
            return value
        return self.put("broadcast", (value,), {"shape": tuple(shape)}, source)

    # ---- asking and rewriting ----

    def maker(self, value: str, *operations: str) -> Node | None:
        """Return the node that makes a value, if it is one of these operations."""
        node = self.nodes.get(value)
        return node if node is not None and (not operations or node.operation in operations) else None

    def users(self, value: str) -> list[Node]:
        """Return the nodes that read a value."""
        return [self.nodes[name] for name in self._users.get(value, {})]

    def only_user(self, value: str) -> bool:
        """Return whether one node reads the value, and the value is not an output."""
        return len(self._users.get(value, {})) == 1 and value not in self.outputs.values()

    def replace(self, old: str, new: str) -> None:
        """Let all users of a value read another one, and drop the old node."""
        for user in self.users(old):
            inputs = tuple(new if name == old else name for name in user.inputs)
            self.put(user.operation, inputs, user.attributes, user.source, user.output)
        for name, value in self.outputs.items():
            if value == old:
                self.outputs[name] = new
        self.drop(old)

    def drop(self, output: str) -> None:
        """Remove a node that is not read, and those that only it read."""
        pending = [output]
        while pending:
            name = pending.pop()
            if name in self.nodes and not self._users.get(name) and name not in self.outputs.values():
                node = self.nodes.pop(name)
                self._unlink(node)
                pending.extend(node.inputs)

    def order(self) -> list[Node]:
        """Return the nodes that the outputs need, each after its operands."""
        done: set[str] = set()
        ordered: list[Node] = []
        for value in self.outputs.values():
            pending = [value]
            while pending:
                name = pending[-1]
                node = self.nodes.get(name)
                missing = [i for i in node.inputs if i not in done and i in self.nodes] if node and name not in done else []
                if missing:
                    pending.extend(reversed(missing))
                    continue
                pending.pop()
                if node and name not in done:
                    ordered.append(node)
                done.add(name)
        return ordered

    def prune(self) -> None:
        """Remove the nodes that the outputs do not need."""
        needed = {node.output for node in self.order()}
        for name in [name for name in self.nodes if name not in needed]:
            self._unlink(self.nodes.pop(name))

    def graph(self) -> Graph:
        """Return the graph, whose outputs have the names of the file."""
        for name, value in list(self.outputs.items()):
            if name != value:
                self._rename(name, value)
        nodes = self.order()
        used = {*self.inputs, *self.outputs, *(i for node in nodes for i in node.inputs), *(n.output for n in nodes)}
        kept = {name: shape for name, shape in self.shapes.items() if name in used}
        constants = {name: array for name, array in self.constants.items() if name in used}
        return Graph(self.inputs, tuple(self.outputs), tuple(nodes), kept, constants, self.name)

    def _rename(self, name: str, value: str) -> None:
        """Give an output's value the output's name. A value that is an input or another output is copied by a `scale`."""
        source = self.nodes[value].source if value in self.nodes else name
        if value not in self.nodes or list(self.outputs.values()).count(value) > 1 or value in self.outputs:
            self.scale(value, 1.0, 0.0, source, name)
        else:
            node = self.nodes[value]
            self.put(node.operation, node.inputs, node.attributes, node.source, name)
            for user in self.users(value):
                inputs = tuple(name if i == value else i for i in user.inputs)
                self.put(user.operation, inputs, user.attributes, user.source, user.output)
        self.outputs[name] = name
        self.drop(value)
