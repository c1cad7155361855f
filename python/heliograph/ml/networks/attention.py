"""Attention by diagonals of the matrix of scores.

Scores [..., i, j] of token i for token j are kept as their diagonals [s, ..., i], with j = (i + s) mod n. So all factors are
whole tensors of tokens, turned by s tokens, and every product has its terms in the places of its results. If the number
of tokens is a power of two, both products are sums of products of rotated ciphertexts (`contraction`). Otherwise all
products of elements are made.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Graph, Node, Shape
from heliograph.ml.networks.contraction import is_direct
from heliograph.ml.networks.layouts import power
from heliograph.ml.networks.writer import Writer

MASKED = -1000.0  #: constants added to an argument of a softmax are masks up to this value
MOST_TERMS = 1 << 23  #: elementwise products of one matrix product
_MOVES = ("reshape", "transpose", "broadcast", "slice")  # operations of masks


@dataclass(frozen=True)
class Attention:
    """Two matrix products with a softmax between: softmax(scale(queries keys) + mask) values."""

    first: Node  #: product of queries [..., n, k] and keys [..., k, n]
    scales: tuple[Node, ...]  #: scales and constant summands of the scores, in order
    mask: str  #: mask [..., 1, n] of 0 and 1, or ""
    softmax: Node
    product: Node  #: product of the weights and the values [..., n, m]
    constants: tuple[tuple[str, npt.NDArray[np.float64]], ...]  #: for each scale: "scale" or "add", and its array

    @property
    def dropped(self) -> frozenset[str]:
        """Values of the graph that the diagonals replace."""
        return frozenset((self.first.output, self.softmax.output, *(node.output for node in self.scales)))

    def width(self, writer: Writer) -> int:
        """Returns the places of a head, a power of two; 0 if the products are made one by one."""
        left, right = writer.shape(self.first.inputs[0]), writer.shape(self.product.inputs[1])
        return power(max(left[-1], right[-1])) if is_direct(left[:-2], left[-2]) else 0

    def scores(self, writer: Writer, masks: dict[tuple[str, Shape], str]) -> tuple[str, str]:
        """Appends the scores as diagonals [n, ..., n], and the mask in the same places or "".

        `masks` holds the masks that were appended before, by their name and shape."""
        left, right = self.first.inputs
        shape = writer.shape(left)
        lead, count, inner = shape[:-2], shape[-2], shape[-1]
        whole = (count, *lead, count, inner)
        place = len(lead)
        left = _kept(writer, left, "queries")
        right = writer.turned(_kept(writer, right, "keys"), (*range(place), place + 1, place))
        if width := self.width(writer):
            value = writer.put("attention_scores", (left, right), whole[:-1], width=width)
        else:
            require_terms(self.first, whole)
            keys = writer.put("shifts", (right,), whole, axis=place, count=count)
            queries = writer.put("broadcast", (left,), whole, shape=whole)
            product = writer.put("multiply", (queries, keys), whole)
            value = writer.put("sum", (product,), whole[:-1], axes=(len(whole) - 1,), keepdims=False)
        for kind, array in self.constants:
            full = diagonals_of_scores(np.broadcast_to(array, (*lead, count, count)))
            one, zero = (np.float64(1), full) if kind == "add" else (full, np.float64(0))
            value = writer.put("scale", (value,), whole[:-1], factor=one, offset=zero)
        if not self.mask:
            return value, ""
        if (self.mask, whole[:-1]) not in masks:
            masks[self.mask, whole[:-1]] = self._mask(writer, lead, count)
        return value, masks[self.mask, whole[:-1]]

    def _mask(self, writer: Writer, lead: Shape, count: int) -> str:
        """Appends the mask in the places of the scores [n, ..., n]."""
        whole = (count, *lead, count)
        flat = (*writer.shape(self.mask)[:-2], count)  # the axis of one query is left out
        mask = writer.put("reshape", (self.mask,), flat, shape=flat)
        mask = writer.put("shifts", (mask,), (count, *flat), axis=len(flat) - 1, count=count)
        if (count, *flat) != whole:
            spread = (count, *(1,) * (len(lead) + 1 - len(flat)), *flat)
            mask = writer.put("reshape", (mask,), spread, shape=spread)
            mask = writer.put("broadcast", (mask,), whole, shape=whole)
        return mask

    def values(self, writer: Writer, weights: str) -> None:
        """Appends the product of weights, as diagonals, and values."""
        right = self.product.inputs[1]
        shape = writer.shape(right)
        lead, count, inner = shape[:-2], shape[-2], shape[-1]
        whole = (count, *lead, count, inner)
        right = _kept(writer, right, "values")
        if width := self.width(writer):
            writer.put("attention_values", (weights, right), shape, self.product.output, width=width)
            return
        require_terms(self.product, whole)
        turned = writer.put("shifts", (right,), whole, axis=len(lead), count=count)
        each = writer.put("reshape", (weights,), (*whole[:-1], 1), shape=(*whole[:-1], 1))
        each = writer.put("broadcast", (each,), whole, shape=whole)
        product = writer.put("multiply", (turned, each), whole)  # the layout is that of the first factor
        writer.put("sum", (product,), whole[1:], self.product.output, axes=(0,), keepdims=False)


def _kept(writer: Writer, value: str, part: str) -> str:
    """Returns a value with an identity before the operations that move its elements, so that a matrix of features and the
    turns by tokens are two maps."""
    moves: list[Node] = []
    node = writer.maker(value)
    while node is not None and node.operation in ("reshape", "transpose"):
        moves.insert(0, node)
        node = writer.maker(node.inputs[0])
    value = writer.function(moves[0].inputs[0] if moves else value, "identity", part)
    for node in moves:
        value = writer.put(node.operation, (value,), writer.shape(node.output), **node.attributes)
    return value


def require_terms(node: Node, whole: Shape) -> None:
    """Raises ModelError for a product of too many terms."""
    if math.prod(whole) > MOST_TERMS:
        raise ModelError(
            f"cannot compile node {node.source or node.output} (matmul) for encrypted data: a product of two encrypted "
            f"matrices must have at most {MOST_TERMS:,} terms, and has {math.prod(whole):,}; use shorter sequences or "
            "fewer features"
        )


def diagonals_of_scores(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns the diagonals of matrices [..., n, n]: for each s and i the element (i, (i + s) mod n), as [s, ..., i]."""
    count = array.shape[-1]
    rows = np.arange(count)
    return np.stack([array[..., rows, (rows + s) % count] for s in range(count)])


def fixed_mask(graph: Graph, softmax: Node, masks: Container[str]) -> npt.NDArray[np.bool_]:
    """Returns the arguments of a softmax that constants mask, as its shape: the sum of the constants is at most -1000."""
    value = softmax.inputs[0]
    total, factor = np.zeros(graph.shapes[value]), np.ones(())
    while (node := graph.maker(value)) is not None:
        found = mask_of(graph, value, masks)
        constants = [name for name in node.inputs if name in graph.constants]
        if found is not None:
            value = found[0]
        elif node.operation == "scale":
            total = total + factor * node.attributes["offset"]
            factor, value = factor * node.attributes["factor"], node.inputs[0]
        elif node.operation == "add" and constants:
            total = total + factor * np.asarray(graph.constants[constants[0]], np.float64)
            value = next(name for name in node.inputs if name not in graph.constants)
        else:
            break
    return np.broadcast_to(total <= MASKED, tuple(graph.shapes[softmax.output]))


def mask_of(graph: Graph, value: str, masks: Container[str]) -> tuple[str, str] | None:
    """Returns the two summands of a value that adds a mask, the mask last; None for any other value."""
    node = graph.maker(value)
    if node is None or node.operation != "add":
        return None
    for one, two in (node.inputs, node.inputs[::-1]):
        name: str | None = two
        while name is not None and name not in masks:
            maker = graph.maker(name)
            name = maker.inputs[0] if maker is not None and maker.operation in _MOVES else None
        if name is not None:
            return one, two
    return None


def attention_of(graph: Graph, softmax: Node, masks: Container[str]) -> Attention | None:
    """Returns the attention around a softmax; None if its scores are no square product, or if it has another use."""
    shape = tuple(graph.shapes[softmax.output])
    users = graph.users(softmax.output)
    square = len(shape) >= 2 and shape[-1] == shape[-2] and int(softmax.attributes["axis"]) % len(shape) == len(shape) - 1
    if not square or len(users) != 1 or users[0].operation != "matmul" or users[0].inputs[0] != softmax.output:
        return None
    value, mask = softmax.inputs[0], ""
    scales: list[Node] = []
    constants: list[tuple[str, npt.NDArray[np.float64]]] = []
    while True:
        node = graph.maker(value)
        if node is None or len(graph.users(value)) != 1:
            return None
        if node.operation == "matmul":
            break
        found = mask_of(graph, value, masks)
        if found is not None and not mask:
            value, mask = found[0], _before_broadcast(graph, found[1])
        elif node.operation == "scale":
            constants += [("add", node.attributes["offset"]), ("scale", node.attributes["factor"])]
            value = node.inputs[0]
        elif node.operation == "add" and any(name in graph.constants for name in node.inputs):
            value, constant = sorted(node.inputs, key=lambda name: name in graph.constants)
            constants.append(("add", np.asarray(graph.constants[constant], np.float64)))
        else:
            return None
        scales.append(node)
    whole = all(tuple(graph.shapes[name])[:-2] == shape[:-2] for name in (*node.inputs, users[0].inputs[1]))
    computed = not any(name in graph.constants for name in (*node.inputs, *users[0].inputs))
    if tuple(graph.shapes[node.output]) != shape or not whole or not computed or (mask and not _is_row(graph, mask, shape)):
        return None
    return Attention(node, tuple(reversed(scales)), mask, softmax, users[0], tuple(reversed(constants)))


def _before_broadcast(graph: Graph, value: str) -> str:
    while (node := graph.maker(value)) is not None and node.operation == "broadcast":
        value = node.inputs[0]
    return value


def _is_row(graph: Graph, mask: str, shape: Shape) -> bool:
    """Tells whether a mask is [..., 1, n], or [n]: one value for each key."""
    own = tuple(graph.shapes[mask])
    return own[-1:] == shape[-1:] and own[-2:-1] in ((), (1,)) and len(own) <= len(shape)
