"""Models of several inputs, or of inputs that the client prepares in the clear: token numbers, masks.

The client computes a graph of cheap operations, such as look-ups of embeddings (`ml.partition`). Its results, divided by
their calibrated ranges, are one vector, which the network takes as its input.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import described
from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Graph, Node, Shape
from heliograph.ml.interpreter import sample_shape, samples_of
from heliograph.ml.partition import Partition

Floats = npt.NDArray[np.float64]
_NAME = "request"  #: name of the joined input
_LARGE = 1 << 11  # values of a tensor from which it is taken out of the vector before other maps
_MASKED = -1000.0  # additive masks of softmax are at most this where a token is masked, and 0 elsewhere


@dataclass(frozen=True)
class Part:
    """One result of the client's operations, and its place in the vector.

    >>> Part("words", (2, 3), 0.5).size
    6
    """

    name: str
    shape: Shape
    scale: float  #: number by which values are divided
    is_mask: bool = False  #: whether the client sends 1 in place of 0, and 0 in place of values of at most -1000
    has_equal_rows: bool = False  #: whether the client sends one row of a mask, because all rows are equal

    @property
    def sent(self) -> Shape:
        """Shape of the values that the client sends."""
        return (*self.shape[:-2], 1, self.shape[-1]) if self.has_equal_rows else self.shape

    @property
    def size(self) -> int:
        """Number of values that the client sends."""
        return math.prod(self.sent)


@dataclass(frozen=True)
class Preparation:
    """The client's operations on clear samples: from arrays by name, or one array, to vectors [count, size]."""

    partition: Partition
    parts: tuple[Part, ...]

    @staticmethod
    def of(partition: Partition, samples: Any, margin: float) -> Preparation:
        """Chooses the scales on calibration samples, widened by `margin`. Raises the errors of `Preparation.__call__`."""
        found = Preparation(partition, ())._values(samples)
        parts = []
        for name in partition.encrypted.inputs:
            values = found[name]
            shape = tuple(values.shape[1:])
            masked = values <= _MASKED
            if masked.any() and (masked | (values == 0)).all():
                several = len(shape) >= 2 and shape[-2] > 1
                parts.append(Part(name, shape, 1.0, True, several and bool((masked == masked[..., :1, :]).all())))
                continue
            scale = float(np.abs(values).max()) * margin
            if not math.isfinite(scale):
                raise ModelError(f"cannot encrypt value {name} of the model: it must be finite on the calibration samples")
            parts.append(Part(name, shape, scale or 1.0))
        return Preparation(partition, tuple(parts))

    @property
    def size(self) -> int:
        """Number of values of a vector."""
        return sum(part.size for part in self.parts)

    def _values(self, samples: Any) -> dict[str, Floats]:
        """Returns the results of the client's operations [count, ...] by name."""
        names = self.partition.encrypted.inputs if self.partition.client is None else self.partition.client.inputs
        if not isinstance(samples, Mapping) and len(names) > 1:
            what = f"an array of shape {samples.shape}" if isinstance(samples, np.ndarray) else described(samples)
            raise _core.DtypeError(f"samples must be a dict of arrays of {', '.join(names)}, each [count, ...], not {what}")
        given = samples if isinstance(samples, Mapping) else {names[0]: samples}
        if self.is_alone(samples):
            given = {name: np.asarray(values)[None] for name, values in given.items()}
        graph = self.partition.client or self.partition.encrypted
        arrays, count = samples_of(graph, given, np.dtype(np.float64))
        if not count:
            raise _core.ShapeError("samples must have at least one sample, got 0")
        made = self.partition.prepare(arrays)
        return {name: np.asarray(values, dtype=np.float64) for name, values in made.items()}

    def is_alone(self, samples: Any) -> bool:
        """Tells whether samples are one sample, without the axis of samples."""
        graph = self.partition.client or self.partition.encrypted
        given = samples if isinstance(samples, Mapping) else {graph.inputs[0]: samples}
        if set(given) != set(graph.inputs):
            return False
        try:
            return all(np.shape(values) == sample_shape(graph, name) for name, values in given.items())
        except ValueError:  # rows of different lengths, which `samples_of` refuses
            return False

    def __call__(self, samples: Any) -> Floats:
        """Returns the vectors [count, size] of samples: a dict of arrays [count, ...] by input, or an array for one input.
        One sample may be without the first axis.

        Raises ShapeError, DtypeError, and PlaintextRangeError for a mask of other values than on the calibration samples."""
        found = self._values(samples)
        vectors = []
        for part in self.parts:
            values = found[part.name]
            if part.is_mask:
                kept = values == 0
                if not (kept | (values <= _MASKED)).all():
                    raise _core.PlaintextRangeError(
                        f"cannot encrypt samples: the mask {part.name} must be 0, or at most {_MASKED:g} for masked tokens"
                    )
                values = kept.astype(np.float64)
                if part.has_equal_rows:
                    if (values != values[..., :1, :]).any():
                        raise _core.PlaintextRangeError(
                            f"cannot encrypt samples: the mask {part.name} of a sample must have equal rows, as all "
                            "calibration samples have; compile the model again with calibration samples of such masks"
                        )
                    values = values[..., :1, :]
            vectors.append(values.reshape(len(values), part.size) / part.scale)
        return np.concatenate(vectors, axis=1)

    def joined(self, graph: Graph) -> tuple[Graph, frozenset[str]]:
        """Returns the canonical graph with one vector as its input, and the names of its values that are masks."""
        nodes: list[Node] = []
        shapes = {**graph.shapes, _NAME: (self.size,)}
        start = 0
        for part in self.parts:
            piece, scaled = f"{_NAME}/{part.name}", f"{_NAME}/{part.name}/scaled"
            source = f"input {part.name}"
            nodes.append(Node("slice", (_NAME,), piece, {"slices": ((start, start + part.size, 1),)}, source))
            factor = {"factor": np.float64(part.scale), "offset": np.float64(0.0)}
            nodes.append(Node("scale", (piece,), scaled, factor, source))
            shapes |= {piece: (part.size,), scaled: (part.size,), part.name: part.shape}
            if part.has_equal_rows:
                shapes[f"{scaled}/row"] = part.sent
                nodes.append(Node("reshape", (scaled,), f"{scaled}/row", {"shape": part.sent}, source))
                nodes.append(Node("broadcast", (f"{scaled}/row",), part.name, {"shape": part.shape}, source))
            elif part.size < _LARGE or part.is_mask:
                nodes.append(Node("reshape", (scaled,), part.name, {"shape": part.shape}, source))
            else:  # a separate value, so that its maps do not read the whole vector
                shapes[f"{scaled}/whole"] = part.shape
                nodes.append(Node("reshape", (scaled,), f"{scaled}/whole", {"shape": part.shape}, source))
                attributes = {"function": "identity", "parameters": {}}
                nodes.append(Node("activation", (f"{scaled}/whole",), part.name, attributes, source))
            start += part.size
        masks = frozenset(part.name for part in self.parts if part.is_mask)
        return replace(graph, inputs=(_NAME,), nodes=(*nodes, *graph.nodes), shapes=shapes), masks
