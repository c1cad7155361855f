"""One operator of an ONNX file, with its operands' shapes, types and known values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from heliograph._common.arguments import printable
from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Array, Shape

_MOST_INTEGERS = 1 << 16  # of a list of sizes or axes


@dataclass(frozen=True)
class Step:
    """One operation that a reader emits. Several steps may replace one operator of the file."""

    operation: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    output: str = ""  #: name of the result; "" for the operator's first output


class Values(Protocol):
    """The values that a reader has made so far."""

    constants: dict[str, Array]
    shapes: dict[str, Shape]
    dtypes: dict[str, np.dtype[Any]]

    def require(self, shape: Shape, what: str) -> None:
        """Raise ModelError for a constant of this shape beyond the limits."""

    def add_constant(self, name: str, array: Array) -> None:
        """Add a constant, within the reader's limits."""


class Call:
    """One operator with its inputs, outputs and attributes. Each attribute must be read: the others are refused."""

    def __init__(
        self,
        operator: str,
        name: str,
        version: int,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: Mapping[str, Any],
        values: Values,
    ) -> None:
        self.operator = operator
        self.version = version
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.attributes = dict(attributes)
        self.values = values
        self.source = f"{printable(name or outputs[0])} ({operator})"
        self._made = 0

    def error(self, reason: str) -> ModelError:
        """Return an error that names this operator."""
        return ModelError(f"cannot read node {self.source} of opset {self.version}: {reason}")

    def attribute(self, name: str, default: Any = None) -> Any:
        """Take an attribute of the type of `default`; required if that is a type."""
        value = self.attributes.pop(name, None)
        kind = default if isinstance(default, type) else type(default)
        if value is None:
            if isinstance(default, type):
                raise self.error(f"attribute {name} is missing")
            return default
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if kind is float and isinstance(value, float) and not math.isfinite(value) and name not in ("min", "max", "value"):
            raise self.error(f"attribute {name} must be finite, got {value}")
        if default is not None and not isinstance(value, kind):
            raise self.error(f"attribute {name} must be of type {kind.__name__}, got {type(value).__name__}")
        return value

    def drop(self, *names: str) -> None:
        """Take attributes that do not change the values."""
        for name in names:
            self.attributes.pop(name, None)

    def has(self, i: int) -> bool:
        """Return whether the operator has an input number i."""
        return i < len(self.inputs) and self.inputs[i] != ""

    def shape(self, i: int = 0) -> Shape:
        """Return the shape of an input."""
        return self.values.shapes[self.input(i)]

    def dtype(self, i: int = 0) -> np.dtype[Any]:
        """Return the dtype of an input."""
        return self.values.dtypes[self.input(i)]

    def input(self, i: int) -> str:
        """Return the name of an input, which must be there."""
        if not self.has(i):
            raise self.error(f"input {i} is missing")
        return self.inputs[i]

    def constant(self, i: int, what: str) -> Array:
        """Return the value of an input that must be known while reading."""
        name = self.input(i)
        if name not in self.values.constants:
            raise self.error(
                f"{what} must be a constant, got value {printable(name)}, which depends on an input; "
                "give fixed sizes by shapes= or export the model with constants there"
            )
        return self.values.constants[name]

    def is_constant(self, i: int) -> bool:
        """Return whether an input's value is known while reading."""
        return self.has(i) and self.inputs[i] in self.values.constants

    def integers(self, i: int, what: str) -> tuple[int, ...]:
        """Return a known input as integers."""
        array = self.constant(i, what)
        if array.dtype.kind not in "iu" or array.ndim > 1:
            raise self.error(f"{what} must be a list of integers, got {array.dtype} of shape {array.shape}")
        if array.size > _MOST_INTEGERS:
            raise self.error(f"{what} must have at most {_MOST_INTEGERS} integers, got {array.size}")
        return tuple(int(value) for value in array.reshape(-1))

    def number(self, i: int, what: str) -> float:
        """Return a known input as one number."""
        array = self.constant(i, what)
        if array.size != 1 or array.dtype.kind not in "fiub":
            raise self.error(f"{what} must be one number, got {array.dtype} of shape {array.shape}")
        return float(array.reshape(-1)[0])

    def axis(self, value: int, rank: int | None = None) -> int:
        """Return an axis of input 0 from one that may be negative."""
        rank = len(self.shape()) if rank is None else rank
        if not -rank <= value < rank:
            raise self.error(f"axis must be between {-rank} and {rank - 1}, got {value}")
        return value % rank

    def axes(self, values: Sequence[int], rank: int | None = None) -> tuple[int, ...]:
        """Return different axes of input 0."""
        axes = tuple(self.axis(value, rank) for value in values)
        if len(set(axes)) != len(axes):
            raise self.error(f"axes must be different, got {tuple(values)}")
        return axes

    def temporary(self) -> str:
        """Return a new name for an intermediate value."""
        self._made += 1
        return f"{self.outputs[0]}#{self._made}"

    def new_constant(self, array: Array) -> str:
        """Add a constant and return its name."""
        name = self.temporary()
        self.values.add_constant(name, array)
        return name

    def only_output(self, used: Sequence[str] = ()) -> None:
        """Raise ModelError if the operator makes more than one result."""
        for i, name in enumerate(self.outputs[1:], 1):
            if name:
                raise self.error(f"output {i} is not supported; only the first output is")

    def finish(self) -> None:
        """Raise ModelError for attributes that were not read."""
        if self.attributes:
            names = ", ".join(sorted(printable(name) for name in self.attributes))
            raise self.error(f"attributes {names} are not supported")
