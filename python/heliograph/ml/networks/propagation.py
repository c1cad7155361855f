"""Layouts that a linear operation carries from its operand to its result, so that values stay at their places."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from heliograph.ml.graph import Node, Shape
from heliograph.ml.networks.layouts import Digits, Layout, power

_MOST = 4  # layouts that are kept for one value


def carried(node: Node, layouts: tuple[Layout, ...], shape: Shape) -> tuple[Layout, ...]:
    """Returns layouts of the result of an operation, from those of its first operand; none for other operations.

    >>> source = Layout((4, 6), (((4, 8),), ((6, 1),)), 32, 64)
    >>> [one] = carried(Node("reshape", ("x",), "y", {"shape": (4, 2, 3)}), (source,), (4, 2, 3))
    >>> one.digits
    (((4, 8),), ((2, 3),), ((3, 1),))
    """
    rule = _RULES.get(node.operation)
    found: dict[Layout, None] = {}
    for layout in layouts:
        for made in rule(node, layout, shape) if rule is not None else ():
            if made.shape == shape:
                found[made] = None
    return tuple(found)[:_MOST]


def _same(_: Node, layout: Layout, shape: Shape) -> list[Layout]:
    return [layout] if layout.shape == shape else []


def _dense(_: Node, layout: Layout, shape: Shape) -> list[Layout]:
    """The last axis keeps its distance. If its new length does not fit between the other axes, the rest goes outside."""
    last, count = layout.digits[-1], shape[-1]
    if len(last) != 1:
        last = tuple(digit for digit in last if digit[0] > 1)[:1] or last[:1]
    distance = last[0][1]
    above = [d for digits in layout.digits[:-1] for size, d in digits if d > distance and size > 1]
    room = min(above, default=0) // distance if above else 0
    if not room or power(count) <= room:
        return [_made(shape, (*layout.digits[:-1], ((count, distance),)), layout)]
    others = max(d * power(size) for digits in layout.digits[:-1] for size, d in digits)
    digits = ((room, distance), (-(-count // room), others))
    return [_made(shape, (*layout.digits[:-1], digits), layout)]


def _reshape(_: Node, layout: Layout, shape: Shape) -> list[Layout]:
    """The digits of all axes in order are divided among the new axes."""
    pending: list[tuple[int, int]] = []  # the lowest digit last
    for length, digits in zip(layout.shape, layout.digits, strict=True):
        sizes = [size for size, _ in digits[:-1]]
        inner = math.prod(sizes)
        if length % inner:
            return []
        own = [*digits[:-1], (length // inner, digits[-1][1])]
        pending += [digit for digit in reversed(own) if digit[0] > 1]
    axes: list[Digits] = []
    for length in reversed(shape):
        taken: list[tuple[int, int]] = []
        left = length
        while left > 1:
            if not pending:
                return []
            size, distance = pending.pop()
            part = math.gcd(size, left)
            if part in (size, left) and part > 1:
                taken.append((part, distance))
                left //= part
                if size > part:
                    pending.append((size // part, distance * part))
            else:
                return []
        axes.append(tuple(taken) or ((1, 1),))
    return [_made(shape, tuple(reversed(axes)), layout)] if not pending else []


def _transpose(node: Node, layout: Layout, shape: Shape) -> list[Layout]:
    return [replace(layout, shape=shape, digits=tuple(layout.digits[int(i)] for i in node.attributes["permutation"]))]


def _broadcast(_: Node, layout: Layout, shape: Shape) -> list[Layout]:
    """Repeated axes go outside, the last one first."""
    added = len(shape) - len(layout.shape)
    own: list[Digits] = [((1, 1),)] * added + list(layout.digits)
    lengths = (*(1,) * added, *layout.shape)
    distance = layout.period
    for axis in reversed(range(len(shape))):
        if lengths[axis] != shape[axis]:
            own[axis] = ((shape[axis], distance),)
            distance *= power(shape[axis])
    return [_made(shape, tuple(own), layout)]


def _shifts(_: Node, layout: Layout, shape: Shape) -> list[Layout]:
    return [_made(shape, (((shape[0], layout.period),), *layout.digits), layout)]


def _sum(node: Node, layout: Layout, shape: Shape) -> list[Layout]:
    """The axes disappear. A second layout fills their places with the outermost axis."""
    rank = len(layout.shape)
    axes = {int(axis) % rank for axis in node.attributes["axes"]}
    keep = bool(node.attributes["keepdims"])
    digits = [((1, 1),) if i in axes else d for i, d in enumerate(layout.digits) if keep or i not in axes]
    found = [_made(shape, tuple(digits), layout)]
    freed = [digit for i in axes for digit in layout.digits[i] if digit[0] > 1]
    outer = max(range(len(digits)), key=lambda i: max(d if size > 1 else 0 for size, d in digits[i]), default=None)
    if len(freed) == 1 and outer is not None and len(digits[outer]) == 1:
        (size, distance), (count, far) = freed[0], digits[outer][0]
        if far > distance and size > 1 and count > 1:
            inside = ((count, distance),) if count <= size else ((size, distance), (-(-count // size), far))
            found.insert(0, _made(shape, tuple(inside if i == outer else d for i, d in enumerate(digits)), layout))
    return found


def _made(shape: Shape, digits: tuple[Digits, ...], layout: Layout) -> Layout:
    """Returns a layout with the least period for its digits."""
    top = 1 + sum(_largest(length, own) for length, own in zip(shape, digits, strict=True))
    return Layout(shape, digits, power(top), layout.slots, layout.share)


def _largest(length: int, digits: Digits) -> int:
    """Returns at least the largest place of an index."""
    total, left = 0, length
    for i, (size, distance) in enumerate(digits):
        count = left if i == len(digits) - 1 else min(size, left)
        total += (count - 1) * distance
        left = -(-left // size)
    return total


_RULES: Mapping[str, Callable[[Node, Layout, Shape], list[Layout]]] = {
    "activation": _same,
    "add": _same,
    "broadcast": _broadcast,
    "dense": _dense,
    "multiply": _same,
    "reshape": _reshape,
    "scale": _same,
    "shifts": _shifts,
    "sum": _sum,
    "transpose": _transpose,
}
