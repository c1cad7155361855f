"""Layouts of networks with attention: of its operands, and of inputs of one vector for each token."""

from __future__ import annotations

import math
from collections.abc import Mapping

from heliograph.ml.graph import Node, Shape
from heliograph.ml.networks.contraction import Heads
from heliograph.ml.networks.cuts import Cut, Network
from heliograph.ml.networks.layouts import Digits, Layout, packed, power, raster
from heliograph.ml.networks.propagation import carried


def spacing(network: Network, slots: int) -> dict[int, int]:
    """Returns the distance in slots from one token to the next, by the number of tokens of attention.

    All tensors with this number of tokens have the same distance, so the diagonals of a map of each token are periodic."""
    made: dict[int, int] = {}
    products = [cut for cut in network.cuts if cut.is_contraction and cut.node is not None]
    for product in products:
        assert product.node is not None
        (*lead, count, _) = network.graph.shapes[product.node.inputs[1]]
        heads = Heads(tuple(lead), count, int(product.node.attributes["width"]), slots)
        features = [cut.shape[-1] for cut in network.cuts if cut.shape[-2:-1] == (count,) and math.prod(cut.shape[:-2]) == 1]
        needed = power(max(*features, math.prod(lead) * heads.width, made.get(count, 1)))
        made[count] = min(needed if heads.blocks == 1 else slots, max(1, slots // count))
    return made


def heads_of(cut: Cut, network: Network, slots: int) -> Heads:
    """Returns the places of the operands of a product of attention. Raises ModelError if a head has too many features."""
    assert cut.node is not None
    (*lead, count, _) = network.graph.shapes[cut.node.inputs[1]]
    made = Heads(tuple(lead), count, int(cut.node.attributes["width"]), slots, spacing(network, slots)[count])
    made.require()
    return made


def operand_layouts(cut: Cut, heads: Heads, shapes: Mapping[str, Shape]) -> tuple[Layout, Layout, Layout]:
    """Returns the layouts of both factors of a product of attention, and of the product."""
    assert cut.node is not None
    operand = heads.operand(shapes[cut.node.inputs[1]][-1])
    return (
        (operand, operand, heads.scores())
        if cut.node.operation == "attention_scores"
        else (heads.scores(), operand, operand)
    )


def fixed_layouts(network: Network, slots: int) -> dict[str, Layout]:
    """Returns the layouts that products of attention require of cuts, by their names. The value that a factor moves has
    the same places as the factor, so that the move is free. Other tensors of spaced tokens have these layouts, too."""
    cuts = {cut.name: cut for cut in network.cuts}
    found: dict[str, Layout] = {}
    whole: dict[Shape, Layout] = {}
    for cut in network.cuts:
        if not cut.is_contraction or cut.form is None:
            continue
        heads = heads_of(cut, network, slots)
        layouts = operand_layouts(cut, heads, network.graph.shapes)
        for name, layout in zip((*cut.form.maps, cut.name), layouts, strict=True):
            found.setdefault(name, layout)
        whole.update(_of_scores(heads))
        for name in cut.form.maps:
            source, moved = _before_moves(network, cuts[name], found[name])
            if moved is not None and cuts[source].is_linear:
                found.setdefault(source, moved)
    for count, distance in spacing(network, slots).items():
        for cut in network.cuts[1:]:
            own = None if cut.name in found else _sequence(cut.shape, count, distance, slots)
            if own is not None and own.fill == 1:
                found[cut.name] = own
    for cut in network.cuts[1:]:
        if cut.shape in whole:
            found.setdefault(cut.name, whole[cut.shape])
    return found


def _of_scores(heads: Heads) -> dict[Shape, Layout]:
    """Returns the layouts of tensors in the places of scores, by their shapes: whole, in blocks, and sums over blocks."""
    scores = heads.scores()
    made = {scores.shape: scores}
    shape = (heads.blocks, heads.inner, *scores.shape[1:])
    for blocks in carried(Node("reshape", ("x",), "y", {"shape": shape}), (scores,), shape) if heads.blocks > 1 else ():
        made[shape] = blocks
        summed = Node("sum", ("x",), "y", {"axes": (0,), "keepdims": True})
        one = (1, *shape[1:])
        made[one] = carried(summed, (blocks,), one)[-1]
    return made


def _before_moves(network: Network, cut: Cut, layout: Layout) -> tuple[str, Layout | None]:
    """Returns the cut whose values a factor moves, and its layout with the same places; None without such a layout."""
    graph, names = network.graph, {one.name for one in network.cuts}
    value = cut.node.inputs[0] if cut.node is not None else cut.name
    made: Layout | None = layout
    while value not in names:
        node = graph.maker(value)
        if node is None or node.operation not in ("reshape", "transpose") or made is None:
            return value, None
        before = tuple(graph.shapes[node.inputs[0]])
        made = next(iter(carried(_inverse(node, before), (made,), before)), None)
        value = node.inputs[0]
    return value, made


def _inverse(node: Node, before: Shape) -> Node:
    """Returns the move that undoes a reshape or a transposition."""
    if node.operation == "reshape":
        return Node("reshape", (node.output,), node.inputs[0], {"shape": before})
    order = [int(i) for i in node.attributes["permutation"]]
    return Node(
        "transpose", (node.output,), node.inputs[0], {"permutation": tuple(order.index(i) for i in range(len(order)))}
    )


def input_layout(network: Network, slots: int) -> Layout:
    """Returns the layout of the input: row-major, or in networks of many tokens one part for each tensor of the vector that
    the client prepares, with the tokens outermost.

    A mask of tokens fills the places of its tokens, so that it can be turned to all diagonals."""
    first = network.cuts[0]
    plain = raster(first.shape, slots)
    count, distance = max(spacing(network, slots).items(), default=(0, 0))
    if not count or (count * distance < slots and math.prod(first.shape) <= slots):
        return plain
    parts = _parts(network)
    if not parts:
        return _sequence(first.shape, count, distance, slots) or plain
    layouts = tuple(_sequence(shape, count, distance, slots) or packed(shape, slots) for shape in parts)
    total = sum(one.ciphertexts for one in layouts) * slots
    return Layout(first.shape, (((math.prod(first.shape), 1),),), total, slots, parts=layouts)


def _parts(network: Network) -> list[Shape]:
    """Returns the shapes of the tensors of a prepared vector, in order; none if the input is one tensor."""
    graph = network.graph
    found: list[tuple[int, Shape]] = []
    for node in graph.users(network.cuts[0].name):
        if node.operation != "slice" or len(network.cuts[0].shape) != 1:
            return []
        value, start = node.output, int(node.attributes["slices"][0][0])
        while len(users := graph.users(value)) == 1 and users[0].operation == "scale":
            value = users[0].output
        shaped = [user for user in users if user.operation == "reshape"]
        found.append((start, tuple(graph.shapes[shaped[0].output if shaped else value])))
    found.sort()
    ends = [start + math.prod(shape) for start, shape in found]
    whole = [start for start, _ in found] == [0, *ends[:-1]] and ends[-1:] == [network.cuts[0].shape[0]]
    return [shape for _, shape in found] if whole else []


def _sequence(shape: Shape, count: int, distance: int, slots: int) -> Layout | None:
    """Returns the layout of a tensor [..., count, features] with the tokens outermost in each ciphertext; None for other
    shapes. One value for each token fills the token's places."""
    if math.prod(shape) == count and shape[-1] == count:
        digits = (*(((1, 1),) for _ in shape[:-1]), ((count, distance),))
        return Layout(shape, digits, count * distance, slots, fill=distance)
    if len(shape) < 2 or shape[-2] != count or math.prod(shape[:-2]) != 1:
        return None
    features = shape[-1]
    own: Digits = ((features, 1),) if features <= distance else ((distance, 1), (-(-features // distance), slots))
    axes: list[Digits] = [((1, 1),)] * (len(shape) - 2)
    every: tuple[Digits, ...] = (*axes, ((count, distance),), own)
    return Layout(shape, every, slots * own[1][0] if len(own) > 1 else count * distance, slots)
