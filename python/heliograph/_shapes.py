"""Shapes and indices, the same for tensors of every scheme."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from heliograph import _core

C = TypeVar("C")


@dataclass(frozen=True)
class ShapeCalls(Generic[C]):
    """The engine's calls for one scheme's ciphertexts."""

    reshape: Callable[[C, Sequence[int]], C]
    slice: Callable[[C, int, int, int, int], C]
    index: Callable[[C, int, int], C]


def lengths_of(shape: Sequence[Any], size: int) -> list[int]:
    """The arguments of `reshape` as lengths; one of them may be -1. Raises ShapeError."""
    lengths = list(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
    if lengths.count(-1) == 1:
        known = -math.prod(lengths)
        lengths[lengths.index(-1)] = size // known if known else 0
    if any(length < 0 for length in lengths):
        raise _core.ShapeError(f"a shape has no negative lengths: {tuple(lengths)}")
    return lengths


def take(core: Any, key: Any, calls: ShapeCalls[Any]) -> Any:
    """``core[key]`` with integers, slices, None and an ellipsis. Raises ShapeError."""
    ndim = len(core.shape)
    keys = list(key) if isinstance(key, tuple) else [key]
    if sum(1 for k in keys if k is Ellipsis) > 1:
        raise _core.ShapeError("an index has at most one ellipsis")
    named = sum(1 for k in keys if k is not None and k is not Ellipsis)
    if named > ndim:
        raise _core.ShapeError(f"{named} indices for a tensor of {ndim} axes")
    at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys[at : at + 1] = [slice(None)] * (ndim - named)
    axis = 0
    for k in keys:
        core, axis = _take_one(core, axis, k, calls)
    return core


def _take_one(core: Any, axis: int, key: Any, calls: ShapeCalls[Any]) -> tuple[Any, int]:
    """One index applied along `axis`; where the next one goes."""
    shape = list(core.shape)
    if key is None:
        return calls.reshape(core, [*shape[:axis], 1, *shape[axis:]]), axis + 1
    if isinstance(key, slice):
        start, stop, step = key.indices(shape[axis])
        count = len(range(start, stop, step))
        if (start, step, count) == (0, 1, shape[axis]):
            return core, axis + 1
        return calls.slice(core, axis, start if count else 0, step, count), axis + 1
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        position = int(key) + (shape[axis] if key < 0 else 0)
        if not 0 <= position < shape[axis]:
            raise _core.ShapeError(f"index {key} is out of range for an axis of {shape[axis]}")
        return calls.index(core, axis, position), axis
    raise _core.ShapeError(f"a tensor is indexed by integers, slices, None and ..., not {type(key).__name__}")
