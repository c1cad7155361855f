"""Convolutions and pools of NumPy arrays [batch, channels, spatial...], of any number of spatial axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_CHUNK_BYTES = 1 << 24  # bytes of the patches of one chunk of a batch, which share a cache with their products


def window_counts(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    """Return the number of windows along each spatial axis. `pads` has all begins, then all ends."""
    rank = len(sizes)
    return tuple(
        (sizes[i] + pads[i] + pads[i + rank] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(rank)
    )


def padded(x: Array, pads: Sequence[int], value: float = 0.0) -> Array:
    """Return x with `pads` around its spatial axes: all begins, then all ends."""
    rank = x.ndim - 2
    if not any(pads):
        return x
    widths = [(0, 0), (0, 0), *((pads[i], pads[i + rank]) for i in range(rank))]
    return np.pad(x, widths, constant_values=value)


def windows(x: Array, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """Return a view [batch, channels, kernel..., windows...] of a padded array."""
    rank = len(kernel)
    counts = window_counts(x.shape[2:], kernel, strides, (0,) * (2 * rank), dilations)
    steps = x.strides[2:]
    return np.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:2], *kernel, *counts),
        (
            *x.strides[:2],
            *(steps[i] * dilations[i] for i in range(rank)),
            *(steps[i] * strides[i] for i in range(rank)),
        ),
        writeable=False,
    )


def _chunks(count: int, bytes_each: int) -> Iterator[slice]:
    size = max(1, _CHUNK_BYTES // max(1, bytes_each))
    yield from (slice(start, min(start + size, count)) for start in range(0, count, size))


def convolve(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int = 1,
) -> Array:
    """Return the convolution (cross-correlation) of x [batch, inputs, spatial...] by weight [outputs, inputs / groups,
    kernel...], plus bias [outputs].
    """
    outputs, per_group, *kernel = weight.shape
    x = padded(x, pads)
    counts = window_counts(x.shape[2:], kernel, strides, (0,) * (2 * len(kernel)), dilations)
    result = np.empty((len(x), outputs, *counts), x.dtype)
    if per_group == 1 and outputs == groups:
        _depthwise(x, weight, result, strides, dilations)
    else:
        view = windows(x, kernel, strides, dilations)
        points, taps = math.prod(counts), per_group * math.prod(kernel)
        rows = weight.reshape(groups, outputs // groups, taps).astype(x.dtype, copy=False)
        for part in _chunks(len(x), groups * taps * points * x.itemsize):
            images = view[part].swapaxes(0, 1)  # [inputs, batch, kernel..., windows...]
            patches = np.moveaxis(images, 1, 1 + len(kernel)).reshape(groups, taps, -1)  # one product for all images
            sums = np.matmul(rows, patches).reshape(outputs, images.shape[1], *counts)
            result[part] = sums.swapaxes(0, 1)
    if bias is not None:
        result += bias.astype(x.dtype, copy=False).reshape(-1, *(1,) * len(kernel))
    return result


def _shifted(x: Array, starts: Sequence[int], strides: Sequence[int], counts: Sequence[int]) -> Array:
    """Return the view of the elements that one tap of a kernel reads, one for each window."""
    parts = tuple(slice(s, s + strides[i] * (counts[i] - 1) + 1, strides[i]) for i, s in enumerate(starts))
    return x[(slice(None), slice(None), *parts)]


def _depthwise(x: Array, weight: Array, result: Array, strides: Sequence[int], dilations: Sequence[int]) -> None:
    """Fill `result` with a convolution of one input and one output a group, as a sum of shifted views."""
    kernel, counts = weight.shape[2:], result.shape[2:]
    result[...] = 0
    for tap in itertools.product(*map(range, kernel)):
        starts = [tap[i] * dilations[i] for i in range(len(kernel))]
        index: tuple[Any, ...] = (slice(None), 0, *tap)
        factors = weight[index].astype(x.dtype, copy=False)
        result += _shifted(x, starts, strides, counts) * factors.reshape(-1, *(1,) * len(kernel))


def maximum_pool(
    x: Array, *, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int]
) -> Array:
    """Return the maximum of each window. Padding never wins: it counts as minus infinity."""
    rank = len(kernel)
    x = padded(x, pads, -math.inf)
    counts = window_counts(x.shape[2:], kernel, strides, (0,) * (2 * rank), dilations)
    result: Array | None = None
    for tap in itertools.product(*map(range, kernel)):
        starts = [tap[i] * dilations[i] for i in range(rank)]
        view = _shifted(x, starts, strides, counts)
        result = view.copy() if result is None else np.maximum(result, view, out=result)
    assert result is not None
    return result


def real_elements(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int]
) -> Array:
    """Return [windows...]: the number of elements of each window that are not padding."""
    rank = len(sizes)
    total: Array = np.ones(())
    for i, count in enumerate(window_counts(sizes, kernel, strides, pads, dilations)):
        starts = np.arange(count) * strides[i] - pads[i]
        first = -(np.minimum(starts, 0) // dilations[i])  # the first tap inside, and the last one
        last = np.minimum(kernel[i] - 1, (sizes[i] - 1 - starts) // dilations[i])
        total = total[..., None] * np.maximum(0, last - first + 1)
    assert total.ndim == rank
    return total


def average_pool(
    x: Array,
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    include_pads: bool = False,
) -> Array:
    """Return the mean of each window. Padding counts as elements only if `include_pads`."""
    channels = x.shape[1]
    ones = np.ones((channels, 1, *kernel), x.dtype)
    total = convolve(x, ones, strides=strides, pads=pads, dilations=dilations, groups=channels)
    if include_pads:
        return np.asarray(total / math.prod(kernel))
    return np.asarray(total / real_elements(x.shape[2:], kernel, strides, pads, dilations).astype(x.dtype))
