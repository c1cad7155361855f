"""Tensors of integers encrypted by BFV or BGV, with NumPy's shapes and operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from heliograph import _core
from heliograph._common import tensor as tensors
from heliograph._common.arguments import (
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
from heliograph._common.matrices import (
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
from heliograph._common.operations import operation, view
from heliograph._common.schemes import engine_property
from heliograph._common.tensor import Calls, Progress, keys_of
from heliograph.exact.evaluation_keys import EvaluationKeys
from heliograph.exact.parameters import Parameters
from heliograph.exact.scheme import EXACT

#: Evaluation keys of BFV and BGV.
Keys = EvaluationKeys["Tensor"]
#: Operations for sums with a tensor or a plaintext.
_SUMS = {
    "add": Calls(_core.exact.add, _core.exact.add_into),
    "subtract": Calls(_core.exact.subtract, _core.exact.subtract_into),
}
#: Operations for sums with integers.
_INTEGER_SUMS = {
    "add": Calls(_core.exact.add_integers, _core.exact.add_integers_into),
    "subtract": Calls(_core.exact.subtract_integers, _core.exact.subtract_integers_into),
}


class Tensor(tensors.RingTensor[Parameters, Keys], IntegerLayers, core=_core.exact.Ciphertext):
    """An array of ciphertexts of BFV or BGV. ``shape`` counts ciphertexts; ``slots`` counts the values in each.

    Operators take tensors, integers, integer arrays (one integer for each ciphertext) and plaintexts (`encode`: one integer
    for each slot). Operands broadcast over the ciphertext axes.

    A product has degree two. The next product or rotation relinearizes it, or `relinearize` does; so a sum of products is
    relinearized once. In BGV, the operands of a product are first switched to the modulus that leaves the
    largest noise budget, if their noise estimates are known.

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

    # Properties

    level = engine_property("level", int, "Number of primes left in the ciphertext modulus.")
    is_trusted = engine_property(
        "vouched",
        bool,
        "Whether this process made all data and keys it derives from; else `noise_budget` trusts a file's noise fields.",
    )
    plain_moduli = engine_property(
        "plain_moduli",
        list[int],
        "The set's plaintext moduli that the tensor holds: all, unless it was split (`split_moduli`).",
    )

    @property
    def noise_budget(self) -> float | None:
        """Estimated noise budget in bits: a lower bound by the noise model; at 0, decryption refuses the tensor.

        The budget of a loaded tensor depends on the file's noise fields (`is_trusted`). The budget is None if the file has
        no estimate (format 1, not fresh).
        """
        bits = float(self._core.noise_budget)
        return None if math.isnan(bits) else max(0.0, bits)

    @property
    def bound(self) -> int | None:
        """Upper bound on the magnitude of the tensor's integers. The bound follows from the bounds given at encryption, or
        from t/2 without one.

        The bound trusts the bounds in loaded files, and is None if unknown: files of format 1 and 2 have no bound.
        """
        digits = str(self._core.bound)
        return int(digits, 16) if digits else None

    def __repr__(self) -> str:
        p = self.parameters
        budget = self.noise_budget
        estimate = "estimate" if self.is_trusted else "estimate of a file"
        noise = "noise unknown (loaded)" if budget is None else f"noise budget {budget:.0f} bits ({estimate})"
        kind = "slots" if self._core.packing == "slots" else "coefficients"
        seeded = ", seeded" if self._core.seeded else ""
        own_moduli, moduli = len(self.plain_moduli), len(p.plain_moduli)
        part = f", {own_moduli} of {moduli} plaintext moduli" if own_moduli < moduli else ""
        return (
            f"<{p.scheme} tensor {self.shape} x {self.slots:,} {kind}: N=2^{p.n.bit_length() - 1}, log q {p.log_q:.0f}, "
            f"{p.security}, degree {self.degree}, level {self.level}, {noise}, {readable_bytes(self.nbytes)}{seeded}{part}, "
            f"key {self.key_id[:8]}>"
        )

    # Arithmetic

    def _add(self, other: Any, call: str, into: bool = False) -> Self:
        if isinstance(other, Tensor):
            return self._call(_SUMS[call], other, into=into)
        if isinstance(other, Plaintext):
            return self._call(_SUMS[call], other._core, into=into)
        values = self._integers(other, "the values added")
        return self._call(_INTEGER_SUMS[call], values, into=into)

    @operation
    def multiply(self, other: Any, *, progress: Progress | None = None) -> Self:
        """Returns ``self * other``, of degree two if both are encrypted. Raises DtypeError, ShapeError, MismatchError.

        >>> x.multiply(x).degree, secret.decrypt(x.multiply([10, 1]))
        (2, array([[10, 20, 30, 40],
               [ 5,  6,  7,  8]]))
        """
        if isinstance(other, Tensor):
            keys = self._keys or other._keys
            core = None if keys is None else keys._core
            return self._with(_core.exact.multiply_switched(self._core, other._core, core, progress), other)
        if isinstance(other, Plaintext):
            return self._wrap(_core.exact.multiply_plain(self._core, other._core))
        values = self._integers(other, "the factors")
        return self._wrap(_core.exact.multiply_integers(self._core, values))

    def _integers(self, values: Any, what: str) -> Any:
        """Returns clear integers, one for each ciphertext, as words for the engine."""
        array = long_integers(values, what)
        if self._core.packing == "slots":
            require_one_meaning(self, array)
        return words_within(array[..., None].copy(), what, (self.parameters.plain_modulus - 1) // 2)[0]

    @operation
    def relinearize(self, *, keys: Keys | None = None, progress: Progress | None = None) -> Self:
        """Same as `hg.relinearize`."""
        if self.degree == 1:
            return +self
        own_keys = keys_of([self], keys, "relinearizing")
        return type(self)(_core.exact.relinearize(self._core, own_keys._core, progress), own_keys)

    @operation
    def shrink(self, level: int = 0) -> Self:
        """Same as `hg.shrink`."""
        if whole(level, "a level") < 0:
            raise _core.LevelError(f"a level must be at least 0, not {level}")
        return self._wrap(_core.exact.switch_level(self._core, level))

    # Along the axes of ciphertexts

    @operation
    def sum(self, axis: Axis = None, *, keys: Keys | None = None, progress: Progress | None = None) -> Self:
        """Same as `hg.sum`. A sum over slots needs keys for the rotations 1, 2, 4, ... below N/2 and for the column
        exchange.
        """
        if sums_slots(self, axis):
            return self._sum_slots("slots" if axis is None else str(axis), keys, progress)
        turned, shape = self._along_one(axis)
        return turned._wrap(_core.exact.sum(turned._core, 0)).reshape(shape)

    def _sum_slots(self, axis: str, keys: Keys | None, progress: Progress | None) -> Self:
        along_axis(self, axis)
        own_keys = keys_of([self], keys, "a sum over slots")
        steps = [1 << i for i in range((self.parameters.n // 2).bit_length() - 1)]
        with own_keys._naming("a sum over slots", steps, swap=True, ask="for_=hg.sum"):
            return type(self)(_core.exact.sum_slots(self._core, own_keys._for(steps, swap=True), progress), own_keys)

    @operation
    def matmul(self, weights: Any, bias: Any = None, *, axis: Axis = None, progress: Progress | None = None) -> Self:
        """Same as `hg.matmul`, along ciphertexts only: one modular matrix product, which reads each ciphertext once."""
        w = matrix_of(weights, integers)
        along = along_axis(self, 0 if axis is None else axis)
        if along is None:
            raise _core.DtypeError(
                f"{self.parameters.scheme} has no matrices on slots: encrypt with the columns along an axis of ciphertexts, "
                "or use hg.ckks"
            )
        require_columns(self, w.shape, along)
        b = self._bias(bias)
        if along == 0:
            return self._wrap(_core.exact.matmul(w, self._core, b, progress))
        rest = [a for a in range(self.ndim) if a != along]
        product = self._wrap(_core.exact.matmul(w, self.transpose([along, *rest])._core, b, progress))
        return product.transpose([*range(1, along + 1), 0, *range(along + 1, self.ndim)])

    def _bias(self, bias: Any) -> Any:
        """Returns a bias for the engine; integers beyond 64 bits become residues [moduli, outputs]."""
        values = bias_of(bias)
        if values.dtype != object:
            return values
        parameters = self.parameters
        largest = max(abs(v) for v in values)
        if 2 * largest > parameters.plain_modulus:
            raise _core.PlaintextRangeError(
                f"the bias holds {described(largest)}, beyond half the plaintext modulus, "
                f"{described(parameters.plain_modulus // 2)}"
            )
        return np.stack([residues(values, t, "the bias") for t in parameters.plain_moduli])

    @operation
    def _convolved(self, kernel: Kernel, bias: Any, progress: Progress | None) -> Self:
        return self._wrap(_core.exact.conv2d(self._core, kernel.weights, self._bias(bias), *kernel[1:], progress))

    @operation
    def sum_pool2d(self, size: int) -> Self:
        """Same as `hg.sum_pool2d`."""
        return self._wrap(_core.exact.sum_pool2d(self._core, pool_of(size)))

    @operation
    def _convolved_squares(
        self, kernel: Kernel, bias: Any, pool: int, stretch: int, keys: Keys | None, progress: Progress | None
    ) -> Self:
        own_keys = keys_of([self], keys, "this layer")
        core = _core.exact.conv2d_square_pool(
            self._core, kernel.weights, self._bias(bias), *kernel[1:], pool, own_keys._core, progress, stretch
        )
        return type(self)(core, own_keys)

    # Along the slots

    @operation
    def rotate_rows(
        self,
        steps: int | Sequence[int],
        *,
        keys: Keys | None = None,
        compose: bool | int | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Same as `hg.rotate_rows`."""
        several = whole_numbers(steps, "a rotation")
        own_keys = keys_of([self], keys, "a rotation")
        by = own_keys._composing(compose)
        with by._naming("", several):
            turned = type(self)(_core.exact.rotate_rows(self._core, several, by._for(several), progress), own_keys)
        return turned[0] if listed(steps) is None else turned

    @operation
    def rotate_columns(self, *, keys: Keys | None = None, progress: Progress | None = None) -> Self:
        """Same as `hg.rotate_columns`."""
        own_keys = keys_of([self], keys, "a column rotation")
        return type(self)(_core.exact.rotate_columns(self._core, own_keys._for(swap=True), progress), own_keys)

    # Plaintext moduli

    @view
    def split_moduli(self) -> list[Self]:
        """Same as `hg.split_moduli`."""
        first, count = self._core.first_modulus, len(self.plain_moduli)
        return [self._wrap(_core.exact.take_moduli(self._core, modulus, 1)) for modulus in range(first, first + count)]

    @view
    def join_moduli(self, others: Sequence[Self]) -> Self:
        """Same as `hg.join_moduli`, for this tensor and the given tensors."""
        return self._wrap(
            _core.exact.join_moduli([t._core for t in tensors.of_tensors([self, *others], Tensor, "join_moduli")])
        )


class Plaintext(tensors.Plaintext[Parameters], core=_core.exact.Plaintext):
    """Encoded integers, one for each slot, for sums and products with tensors. `encode` makes plaintexts.

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
    """Encodes integers as plaintexts. One axis of `values` becomes the slots (default the last) or the coefficients.

    Zeros fill the remaining slots. Raises DtypeError, ShapeError, PlaintextRangeError, SlotsError.

    >>> secret.decrypt(x + hg.bfv.encode(params, [10, 20, 30, 40]))
    array([[11, 22, 33, 44],
           [15, 26, 37, 48]])
    """
    axis, packing = packing_axis(of_kind(parameters, Parameters, "integers are encoded by"), slots, coefficients)
    whole = moved_last(long_integers(values, "the values"), axis, "the values")
    array, words = words_within(whole, "the values", (parameters.plain_modulus - 1) // 2)
    return Plaintext(_core.exact.encode(parameters._core, array, packing, words))


def packing_axis(parameters: Parameters, slots: int | None, coefficients: int | None) -> tuple[int, str]:
    """Returns the axis of values inside the ciphertexts, and the packing: "slots" or "coefficients"."""
    if slots is not None and coefficients is not None:
        raise _core.ParameterError("slots and coefficients exclude each other; pass the axis as one of them")
    if coefficients is not None:
        return whole(coefficients, "the axis of coefficients"), "coefficients"
    if not parameters.has_slots:
        raise _core.SlotsError(
            "this set has no slots; pass coefficients=axis to place values in the polynomial's coefficients"
        )
    return -1 if slots is None else whole(slots, "the slot axis"), "slots"
