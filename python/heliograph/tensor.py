"""Ciphertext tensors: NumPy's shapes and operators over encrypted values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from heliograph import _core
from heliograph._arrays import exponent_of, integers, last_axis, of_kind, readable_bytes, whole
from heliograph._shapes import ShapeCalls, Shaped
from heliograph.bfv import Parameters

if TYPE_CHECKING:
    from heliograph.keys import EvaluationKeys

Progress = Callable[[float], None]


class Tensor(Shaped):
    """Ciphertexts in an array. ``shape`` counts ciphertexts; ``slots`` are the values inside each.

    Operators take tensors, integers, integer arrays (one integer for each ciphertext) and plaintexts (`encode`: one
    integer for each slot), and broadcast over the ciphertext axes. A product has degree two and is relinearized when
    next multiplied or rotated, or by `relinearize`; sums of products are so relinearized once. BGV's operands of a product are
    first switched to the smaller modulus that leaves it the largest noise budget, where their noise estimates are known.
    """

    __slots__ = ()
    _keys: EvaluationKeys | None
    _calls: ClassVar[ShapeCalls[_core.Ciphertext]] = ShapeCalls(
        _core.reshape, _core.slice, _core.index, _core.transpose, _core.broadcast_to, _core.concatenate
    )

    def __init__(self, core: _core.Ciphertext, keys: EvaluationKeys | None = None) -> None:
        super().__init__(core, keys)

    # What it is

    @property
    def slots(self) -> int:
        """Values used in each ciphertext."""
        return int(self._core.slots)

    @property
    def degree(self) -> int:
        """Degree in the secret key: 1, or 2 after a multiplication."""
        return int(self._core.degree)

    @property
    def level(self) -> int:
        """Primes left in the modulus."""
        return int(self._core.level)

    @property
    def parameters(self) -> Parameters:
        """The parameter set."""
        return Parameters(self._core.parameters)

    @property
    def fresh(self) -> bool:
        """Whether nothing was computed on it since it was encrypted, or its file says so."""
        return bool(self._core.fresh)

    @property
    def vouched(self) -> bool:
        """Whether nothing in it came from a file, keys included: `noise_budget` is then this process's own bound."""
        return bool(self._core.vouched)

    @property
    def plain_moduli(self) -> list[int]:
        """Those of the set's plaintext moduli that it holds: all, unless it was split (`split_moduli`)."""
        return list(self._core.plain_moduli)

    @property
    def noise_budget(self) -> float | None:
        """Bits of noise left, an estimate: a bound, from the model, 0 where it is exhausted and decryption refuses. Of what was
        loaded it holds if its file is what it says (`vouched`); None where the file does not tell (format 1, not fresh).
        """
        bits = float(self._core.noise_budget)
        return None if math.isnan(bits) else max(0.0, bits)

    def __repr__(self) -> str:
        p = self.parameters
        budget = self.noise_budget
        estimate = "estimate" if self.vouched else "estimate, if files are what they say"
        noise = "noise unknown (loaded)" if budget is None else f"noise budget {budget:.0f} bits ({estimate})"
        kind = "slots" if self._core.packing == "slots" else "coefficients"
        seeded = ", seeded" if self._core.seeded else ""
        held, moduli = len(self.plain_moduli), len(p.plain_moduli)
        part = f", {held} of {moduli} plaintext moduli" if held < moduli else ""
        return (
            f"<{p.scheme} tensor {self.shape} x {self.slots:,} {kind}: N=2^{p.n.bit_length() - 1}, log q {p.log_q:.0f}, {p.security}, "
            f"degree {self.degree}, level {self.level}, {noise}, {readable_bytes(self.nbytes)}{seeded}{part}, key {self.key_id[:8]}>"
        )

    # Arithmetic

    def _with(self, core: _core.Ciphertext, other: Tensor) -> Tensor:
        return Tensor(core, self._keys or other._keys)

    def _add(self, other: Any, negative: bool) -> Tensor:
        if isinstance(other, Tensor):
            return self._with((_core.subtract if negative else _core.add)(self._core, other._core), other)
        if isinstance(other, Plaintext):
            return self._wrap((_core.subtract_plain if negative else _core.add_plain)(self._core, other._core))
        values = integers(other, "the values added")[..., None].copy()
        return self._wrap((_core.subtract_integers if negative else _core.add_integers)(self._core, values))

    def __add__(self, other: Any) -> Tensor:
        return self._add(other, negative=False)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Tensor:
        return self._add(other, negative=True)

    def __rsub__(self, other: Any) -> Tensor:
        return (-self)._add(other, negative=False)

    def __neg__(self) -> Tensor:
        return self._wrap(_core.negate(self._core))

    def _multiply(self, other: Any, progress: Progress | None = None) -> Tensor:
        if isinstance(other, Tensor):
            keys = self._keys or other._keys
            return self._with(
                _core.multiply_switched(self._core, other._core, None if keys is None else keys._core, progress), other
            )
        if isinstance(other, Plaintext):
            return self._wrap(_core.multiply_plain(self._core, other._core))
        values = integers(other, "the factors")
        return self._wrap(_core.multiply_integers(self._core, values[..., None].copy()))

    def __mul__(self, other: Any) -> Tensor:
        return self._multiply(other)

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Tensor:
        exponent = exponent_of(exponent)
        if exponent == 1:
            return self
        half = self ** (exponent // 2)
        product = half * half
        return product * self if exponent % 2 else product

    def __matmul__(self, weights: Any) -> Tensor:
        from heliograph.functions import matmul

        w = integers(weights, "the weights")
        if w.ndim != 2 or self.ndim == 0:
            raise _core.ShapeError(f"a tensor of shape {self.shape} and weights of shape {w.shape} do not multiply")
        last = self.ndim - 1
        back = [*range(1, self.ndim), 0]
        return matmul(w.T, self.transpose([last, *range(last)])).transpose(back)

    def __rmatmul__(self, weights: Any) -> Tensor:
        from heliograph.functions import matmul

        return matmul(weights, self)


class Plaintext:
    """Encoded values, one for each slot, for adding to and multiplying tensors. Made by `encode`."""

    __slots__ = ("_core",)

    def __init__(self, core: _core.Plaintext) -> None:
        self._core = core

    @property
    def shape(self) -> tuple[int, ...]:
        """Plaintext polynomials along each axis."""
        return tuple(self._core.shape)

    def __repr__(self) -> str:
        return f"<{Parameters(self._core.parameters).scheme} plaintext {self.shape}>"


def encode(parameters: Parameters, values: Any, *, slots: int | None = None, coefficients: int | None = None) -> Plaintext:
    """Integers as plaintexts: one axis of `values` lies in the slots (default the last) or the coefficients.

    Fewer values than slots are filled up with zeros. Raises DtypeError, ShapeError, PlaintextRangeError, SlotsError.
    """
    axis, packing = packing_axis(of_kind(parameters, Parameters, "integers are encoded by"), slots, coefficients)
    return Plaintext(_core.encode(parameters._core, last_axis(values, axis, "the values"), packing))


def packing_axis(parameters: Parameters, slots: int | None, coefficients: int | None) -> tuple[int, str]:
    """Which axis goes inside the ciphertexts, and how."""
    if slots is not None and coefficients is not None:
        raise _core.ParameterError("values lie in slots or in coefficients, not both")
    if coefficients is not None:
        return whole(coefficients, "the axis of coefficients"), "coefficients"
    if not parameters.has_slots:
        raise _core.SlotsError(
            "this set has no slots; say coefficients=axis to place values in the polynomial's coefficients"
        )
    return -1 if slots is None else whole(slots, "the slot axis"), "slots"
