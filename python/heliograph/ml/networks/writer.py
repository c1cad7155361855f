"""Writing of nodes that replace a node of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph.ml.graph import Graph, Node, Shape


class Writer:
    """Appends nodes of one source, with names below that of its output."""

    def __init__(self, graph: Graph, nodes: list[Node], shapes: dict[str, Shape], node: Node) -> None:
        self._graph, self._nodes, self._shapes, self._node = graph, nodes, shapes, node
        self._count = 0

    def put(
        self, operation: str, inputs: tuple[str, ...], result: Shape, output: str = "", /, part: str = "", **attributes: Any
    ) -> str:
        """Appends a node and returns the name of its value. `part` is appended to the source in reports and errors."""
        name = output
        if not name:
            name, self._count = f"{self._node.output}/{self._count}", self._count + 1
        source = f"{self._node.source or self._node.output} ({part})" if part else self._node.source
        self._nodes.append(Node(operation, inputs, name, attributes, source))
        self._shapes[name] = result
        return name

    def maker(self, value: str) -> Node | None:
        """Returns the written node that makes a value; None for others."""
        return next((node for node in self._nodes if node.output == value), None)

    def shape(self, value: str) -> Shape:
        """Returns the shape of a value."""
        return tuple(self._shapes[value])

    def function(self, value: str, function: str, part: str, **parameters: float) -> str:
        """Appends an activation."""
        return self.put("activation", (value,), self.shape(value), part=part, function=function, parameters=parameters)

    def summed(self, value: str, weight: npt.NDArray[np.float64]) -> str:
        """Appends a dense layer along the last axis."""
        shape = (*self.shape(value)[:-1], len(weight))
        return self.put("dense", (value,), shape, weight=weight, bias=np.zeros(len(weight)))

    def turned(self, value: str, order: tuple[int, ...]) -> str:
        """Appends a transposition, if the axes are not in this order already."""
        if order == tuple(range(len(order))):
            return value
        shape = self.shape(value)
        return self.put("transpose", (value,), tuple(shape[i] for i in order), permutation=order)
