"""Tensors of encrypted integers: NumPy's shapes and operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from heliograph import _core, _shapes
from heliograph._arrays import (
    described,
    integers,
    listed,
    long_integers,
    moved_last,
    of_kind,
    readable_bytes,
    residues,
    whole,
    whole_numbers,
    words_within,
)
from heliograph._matrices import (
    Axis,
    IntegerLayers,
    Kernel,
    along_axis,
    bias_of,
    matrix_of,
    pool_of,
    require_columns,
    require_one_meaning,
    sums_slots,
)
from heliograph._schemes import told
from heliograph._shapes import Progress, keys_of
from heliograph.exact.parameters import Parameters
from heliograph.exact.scheme import EXACT

if TYPE_CHECKING:
    from heliograph.exact.keys import EvaluationKeys


class Tensor(_shapes.RingTensor[Parameters, "EvaluationKeys"], IntegerLayers, core=_core.Ciphertext):
    """Ciphertexts in an array. ``shape`` counts ciphertexts; ``slots`` are the values inside each.

    Operators take tensors, integers, integer arrays (one integer for each ciphertext) and plaintexts (`encode`: one
    integer for each slot), and broadcast over the ciphertext axes. A product has degree two and is relinearized when
    next multiplied or rotated, or by `relinearize`; sums of products are so relinearized once. BGV's operands of a product are
    first switched to the smaller modulus that leaves it the largest noise budget, where their noise estimates are known.

    >>> secret.decrypt(x[0] * x[1] + 1)
    array([ 6, 13, 22, 33])
    >>> secret.decrypt(3 * x - [1, 2])  # an integer for each ciphertext
    array([[ 2,  5,  8, 11],
           [13, 16, 19, 22]])
    >>> secret.decrypt(np.array([[1, -1]]) @ x)
    array([[-4, -4, -4, -4]])
    >>> x.degree, (x * x).degree, x.T.shape
    (1, 2, (2,))
    """

    __slots__ = ()
    _scheme = EXACT

    # What it is

    level = told("level", int, "Primes left in the modulus.")
    vouched = told(
        "vouched",
        bool,
        "Whether nothing in it came from a file, keys included: `noise_budget` is then this process's own bound.",
    )
    plain_moduli = told(
        "plain_moduli",
        list[int],
        "Those of the set's plaintext moduli that it holds: all, unless it was split (`split_moduli`).",
    )

    @property
    def noise_budget(self) -> float | None:
        """Bits of noise left, an estimate: a bound, from the model, 0 where it is exhausted and decryption refuses. Of what was
        loaded it holds if its file is what it says (`vouched`); None where the file does not tell (format 1, not fresh).
        """
        bits = float(self._core.noise_budget)
        return None if math.isnan(bits) else max(0.0, bits)

    @property
    def bound(self) -> int | None:
        """No integer in it is larger in magnitude, if files are what they say: what follows from the bounds said at encryption,
        or from t/2 where none was. None where nobody knows: of what was loaded from a file of format 1 or 2.
        """
        digits = str(self._core.bound)
        return int(digits, 16) if digits else None

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

    def _add(self, other: Any, call: str, into: bool = False) -> Self:
        if isinstance(other, Tensor):
            return self._call(call, other, into=into)
        if isinstance(other, Plaintext):
            return self._call(f"{call}_plain", other._core, into=into)
        values = self._integers(other, "the values added")
        return self._call(f"{call}_integers", values, into=into)

    def multiply(self, other: Any, *, progress: Progress | None = None) -> Self:
        """self * other: of degree two where both are encrypted.

        >>> x.multiply(x).degree, secret.decrypt(x.multiply([10, 1]))
        (2, array([[10, 20, 30, 40],
               [ 5,  6,  7,  8]]))
        """
        if isinstance(other, Tensor):
            keys = self._keys or other._keys
            core = None if keys is None else keys._core
            return self._with(_core.multiply_switched(self._core, other._core, core, progress), other)
        if isinstance(other, Plaintext):
            return self._wrap(_core.multiply_plain(self._core, other._core))
        values = self._integers(other, "the factors")
        return self._wrap(_core.multiply_integers(self._core, values))

    def _integers(self, values: Any, what: str) -> Any:
        """Clear integers, one for each ciphertext, as the engine takes them."""
        array = long_integers(values, what)
        if self._core.packing == "slots":
            require_one_meaning(self, array)
        return words_within(array[..., None].copy(), what, (self.parameters.plain_modulus - 1) // 2)[0]

    def relinearize(self, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Self:
        """As `hg.relinearize`."""
        if self.degree == 1:
            return +self
        found = keys_of([self], keys, "relinearizing")
        return type(self)(_core.relinearize(self._core, found._core, progress), found)

    def shrink(self, level: int = 0) -> Self:
        """As `hg.shrink`."""
        if whole(level, "a level") < 0:
            raise _core.LevelError(f"there is no level {level}")
        return self._wrap(_core.switch_level(self._core, level))

    # Along the axes of ciphertexts

    def sum(self, axis: Axis = None, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Self:
        """As `hg.sum`. Over the slots it needs the rotations 1, 2, 4, ... below N/2, and the exchange of rows."""
        if sums_slots(self, axis):
            return self._sum_slots("slots" if axis is None else str(axis), keys, progress)
        turned, shape = self._along_one(axis)
        return turned._wrap(_core.sum(turned._core, 0)).reshape(shape)

    def _sum_slots(self, axis: str, keys: EvaluationKeys | None, progress: Progress | None) -> Self:
        along_axis(self, axis)
        found = keys_of([self], keys, "a sum over slots")
        steps = [1 << i for i in range((self.parameters.n // 2).bit_length() - 1)]
        with found._naming("a sum over slots", steps, swap=True, ask="for_=hg.sum"):
            return type(self)(_core.sum_slots(self._core, found._for(steps, swap=True), progress), found)

    def matmul(self, weights: Any, bias: Any = None, *, axis: Axis = None, progress: Progress | None = None) -> Self:
        """As `hg.matmul`: along ciphertexts, one modular matrix product that reads each of them once."""
        w = matrix_of(weights, integers)
        along = along_axis(self, 0 if axis is None else axis)
        if along is None:
            raise _core.DtypeError(
                f"{self.parameters.scheme} has no matrices on slots: encrypt with the columns along an axis of ciphertexts, or "
                "use hg.ckks"
            )
        require_columns(self, w.shape, along)
        b = self._bias(bias)
        if along == 0:
            return self._wrap(_core.matmul(w, self._core, b, progress))
        rest = [a for a in range(self.ndim) if a != along]
        made = self._wrap(_core.matmul(w, self.transpose([along, *rest])._core, b, progress))
        return made.transpose([*range(1, along + 1), 0, *range(along + 1, self.ndim)])

    def _bias(self, bias: Any) -> Any:
        """As the engine takes it: integers beyond 64 bits as residues [moduli, outputs]."""
        values = bias_of(bias)
        if values.dtype != object:
            return values
        parameters = self.parameters
        largest = max(abs(v) for v in values)
        if 2 * largest > parameters.plain_modulus:
            raise _core.PlaintextRangeError(f"the bias holds {described(largest)}, beyond half the plaintext modulus")
        return np.stack([residues(values, t, "the bias") for t in parameters.plain_moduli])

    def _convolved(self, kernel: Kernel, bias: Any, progress: Progress | None) -> Self:
        return self._wrap(_core.conv2d(self._core, kernel.weights, self._bias(bias), *kernel[1:], progress))

    def sum_pool2d(self, size: int) -> Self:
        """As `hg.sum_pool2d`."""
        return self._wrap(_core.sum_pool2d(self._core, pool_of(size)))

    def _convolved_squares(
        self, kernel: Kernel, bias: Any, pool: int, stretch: int, keys: EvaluationKeys | None, progress: Progress | None
    ) -> Self:
        found = keys_of([self], keys, "this layer")
        core = _core.conv2d_square_pool(
            self._core, kernel.weights, self._bias(bias), *kernel[1:], pool, found._core, progress, stretch
        )
        return type(self)(core, found)

    # Along the slots

    def rotate_rows(
        self,
        steps: int | Sequence[int],
        *,
        keys: EvaluationKeys | None = None,
        compose: bool | int | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """As `hg.rotate_rows`."""
        several = whole_numbers(steps, "a rotation")
        found = keys_of([self], keys, "a rotation")
        by = found._composing(compose)
        with by._naming("", several):
            turned = type(self)(_core.rotate_rows(self._core, several, by._for(several), progress), found)
        return turned[0] if listed(steps) is None else turned

    def rotate_columns(self, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Self:
        """As `hg.rotate_columns`."""
        found = keys_of([self], keys, "a column rotation")
        return type(self)(_core.rotate_columns(self._core, found._for(swap=True), progress), found)

    # Plaintext moduli

    def split_moduli(self) -> list[Self]:
        """As `hg.split_moduli`."""
        first, count = self._core.first_modulus, len(self.plain_moduli)
        return [self._wrap(_core.take_moduli(self._core, modulus, 1)) for modulus in range(first, first + count)]

    def join_moduli(self, others: Sequence[Self]) -> Self:
        """As `hg.join_moduli`, of this one and others."""
        return self._wrap(_core.join_moduli([t._core for t in _shapes.of_tensors([self, *others], Tensor, "join_moduli")]))


class Plaintext(_shapes.Plaintext[Parameters], core=_core.Plaintext):
    """Encoded integers, one for each slot, for adding to and multiplying tensors. Made by `encode`.

    >>> weights = server.encode([[1, 0, 2, 0]])  # one integer for each slot
    >>> secret.decrypt(x * weights)
    array([[ 1,  0,  6,  0],
           [ 5,  0, 14,  0]])
    """

    _scheme = EXACT
    _options = ("slots", "coefficients")

    @classmethod
    def _encoded(cls, parameters: Any, values: Any, **options: Any) -> Plaintext:
        return encode(parameters, values, **options)


def encode(parameters: Parameters, values: Any, *, slots: int | None = None, coefficients: int | None = None) -> Plaintext:
    """Integers as plaintexts: one axis of `values` lies in the slots (default the last) or the coefficients.

    Fewer values than slots are filled up with zeros. Raises DtypeError, ShapeError, PlaintextRangeError, SlotsError.

    >>> secret.decrypt(x + hg.bfv.encode(params, [10, 20, 30, 40]))
    array([[11, 22, 33, 44],
           [15, 26, 37, 48]])
    """
    axis, packing = packing_axis(of_kind(parameters, Parameters, "integers are encoded by"), slots, coefficients)
    whole = moved_last(long_integers(values, "the values"), axis, "the values")
    array, words = words_within(whole, "the values", (parameters.plain_modulus - 1) // 2)
    return Plaintext(_core.encode(parameters._core, array, packing, words))


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
