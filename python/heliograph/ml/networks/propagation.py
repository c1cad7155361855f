"""Layouts that a linear operation carries from its operand to its result, so that values stay at their places."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from heliograph.ml.graph import Node, Shape
from heliograph.ml.networks.layouts import Digits, Layout, period_of, power

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
    """Neighbouring axes become neighbouring axes of as many values, and their digits are divided among these."""
    digits: list[Digits] = [((1, 1),)] * len(shape)
    for before, after in _groups(layout.shape, shape):
        made = _divided([(layout.shape[i], layout.digits[i]) for i in before], [shape[i] for i in after])
        if made is None:
            return []
        for axis, own in zip(after, made, strict=True):
            digits[axis] = own
    return [_made(shape, tuple(digits), layout)]


def _groups(before: Shape, after: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """Yields the least runs of axes of both shapes that have as many values, without axes of length 1. The innermost axis
    comes first.

    >>> list(_groups((8, 4, 3), (8, 12)))
    [([2, 1], [1]), ([0], [0])]
    """
    old, new = ([i for i, n in enumerate(s) if n > 1][::-1] for s in (before, after))
    while old and new:
        ours, theirs = [old.pop(0)], [new.pop(0)]
        while (a := math.prod(before[i] for i in ours)) != (b := math.prod(after[i] for i in theirs)):
            some, rest = (ours, old) if a < b else (theirs, new)
            some.append(rest.pop(0))
        yield ours, theirs


def _divided(axes: list[tuple[int, Digits]], lengths: list[int]) -> list[Digits] | None:
    """Divides the digits of axes among axes of other lengths, the innermost one first. The highest digit of the outermost
    axis may be partly used, such as that of 12 heads in two ciphertexts of 8. Returns None if digits do not divide."""
    pending: list[tuple[int, int]] = []  # the highest digit last
    for i, (length, digits) in enumerate(axes):
        inner = math.prod(size for size, _ in digits[:-1])
        if length % inner and i < len(axes) - 1:
            return None
        pending += [digit for digit in (*digits[:-1], (-(-length // inner), digits[-1][1])) if digit[0] > 1]
    made: list[Digits] = []
    for length in lengths[:-1]:
        taken: list[tuple[int, int]] = []
        left = length
        while left > 1:
            size, distance = pending.pop(0) if pending else (1, 1)
            part = math.gcd(size, left)
            if part == 1 or part not in (size, left):
                return None
            taken.append((part, distance))
            left //= part
            if size > part:
                pending.insert(0, (size // part, distance * part))
        made.append(tuple(taken))
    return [*made, tuple(pending)] if pending else None


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
    return Layout(shape, digits, period_of(top, layout.slots), layout.slots, layout.share)


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
