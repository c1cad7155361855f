"""Tensors of encrypted real and complex numbers: NumPy's shapes and operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from heliograph import _core, _shapes
from heliograph._arrays import (
    axis_of,
    complexes,
    count_of,
    described,
    exponent_of,
    listed,
    moved_last,
    of_kind,
    readable_bytes,
    real,
    whole,
    whole_numbers,
)
from heliograph._matrices import Axis, along_axis, matrix_of, require_columns, require_vectors, sums_slots
from heliograph._schemes import told
from heliograph._shapes import Progress, keys_of
from heliograph._strict import is_strict
from heliograph.ckks.automatic import OBSERVER, operation, ready
from heliograph.ckks.levels import level_of
from heliograph.ckks.linear import LinearTransform
from heliograph.ckks.parameters import Parameters
from heliograph.ckks.placing import Plan
from heliograph.ckks.scheme import CKKS
from heliograph.forecasting import announced
from heliograph.keys import NotingKeys
from heliograph.placement import Bootstraps

if TYPE_CHECKING:
    from heliograph.ckks.keys import EvaluationKeys

_ONES = (1j, -1j)
#: Ciphertexts of a bootstrap at least, before its time is forecast.
_FEW = 4

#: Whether decryption will hand out values, by what is known before.
_STANDINGS = {
    "vouched": "proved to fit",
    "assumed": "fits by its declared bound",
    "places": "decrypt checks its unused places",
    "open": "decrypt refuses it unless its coefficients are small",
}


class Tensor(_shapes.RingTensor[Parameters, "EvaluationKeys"], core=_core.CkksCiphertext):
    """Ciphertexts in an array. ``shape`` counts ciphertexts; ``slots`` are the values inside each.

    Operators act as on an array of shape ``(*shape, slots)`` and broadcast: with tensors, numbers, arrays (the last axis lies
    along the slots, or has length 1: a number for each ciphertext) and plaintexts (`encode`). A product takes one level, but by
    integers; it is relinearized and rescaled at once (`hg.ckks.multiply` leaves that for later). Operands of different levels
    meet at the lower one. Values are right to `precision` bits after the binary point.

    >>> secret.decrypt(x[0] * x[1] - 1).round(4)
    array([-0.5,  2. ,  6.5, 13. ])
    >>> secret.decrypt(0.5 * x + [[1], [2]]).round(4)  # a number for each ciphertext
    array([[1.25, 1.75, 2.25, 2.75],
           [2.5 , 3.  , 3.5 , 4.  ]])
    >>> x.level, (x * x).level, (x * x).precision > 20
    (5, 4, True)
    """

    __slots__ = ("__weakref__", "_changes")
    _places = True
    _scheme = CKKS

    def __init__(self, core: Any, keys: EvaluationKeys | None = None) -> None:
        super().__init__(core, keys)
        self._changes = 0  # in place

    # What it is

    level = told("level", int, "Each rescaling takes one; 1 is the lowest.")
    scale = told("scale", float, "What the values are multiplied by inside; tracked exactly.")

    @property
    def dtype(self) -> Any:
        """What decryption gives: float64 or complex128."""
        return np.dtype(np.complex128 if self._core.complex else np.float64)

    @property
    def precision(self) -> float | None:
        """Bits after the binary point that are right: a bound from the noise model and the size of what was encrypted here; 0
        where it is less than one. None where nothing can be promised: where anything came from a file, keys included, or where
        this process does not vouch that the values fit their modulus.
        """
        bits = float(self._core.precision)
        return bits if math.isfinite(bits) else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The interval of all values by what is public: bounds said at encryption, in files and by `within`, and the operations since.

        >>> server.bind(secret.encrypt([1, 2, 3, 4], bound=(0, 4))).bounds
        (0.0, 4.0)

        None where no bound is known. `decrypt` takes it as the sender's word; no promise rests on it.
        """
        low, high = self._core.bounds
        return (low, high) if math.isfinite(low) and math.isfinite(high) else None

    def _leaving(self, what: str) -> None:
        if is_strict() and self._core.may_outgrow:
            raise _core.RoomError(
                f"this tensor is not {what} (hg.strict is on): by their bounds its values may have outgrown their modulus by "
                f"{max(self._core.bits_beyond_room, 1):.0f} bits. Choose parameters of more integer_bits, or declare a smaller bound where it "
                "holds (bound= of encrypt, within())"
            )

    def __repr__(self) -> str:
        p, bits = self.parameters, self.precision
        none = "precision unknown (loaded)" if math.isnan(self._core.precision) else "precision unknown (may have outgrown)"
        right = none if bits is None else f"{bits:.0f} bits after the point (estimate)"
        right = f"{right}, {_STANDINGS[self._core.standing]}"
        seeded = ", seeded" if self._core.seeded else ""
        return (
            f"<CKKS tensor {self.shape} x {self.slots:,} {self.dtype}: N=2^{p.n.bit_length() - 1}, log q {p.log_q:.0f}, "
            f"{p.security}, degree {self.degree}, level {self.level} of {p.levels}, scale 2^{math.log2(self.scale):.1f}, {right}, "
            f"{readable_bytes(self.nbytes)}{seeded}, key {self.key_id[:8]}>"
        )

    def __float__(self) -> float:
        raise TypeError("an encrypted value is no number before the secret key decrypts it")

    # Programs that bootstrap

    @classmethod
    def _planned(cls, asked: Bootstraps, function: Any, tensors: Sequence[Any]) -> Plan:
        """How a function of tensors bootstraps. Raises ParameterError, MissingKeyError, and what the function raises."""
        own = [t for t in tensors if isinstance(t, Tensor)]
        for t in own:
            if not t.parameters.bootstrapping_level:
                raise _core.ParameterError(
                    "this set has no bootstrapping: parameters(..., bootstrap=True) finds one that has"
                )
        every = [t._keys for t in own if t._keys is not None]
        keys = next((k for k in every if k.bootstrap), None)
        if keys is None:
            there = (
                "these have none of bootstrapping: evaluation_keys(bootstrap=True)" if every else "bind operands at a Server"
            )
            raise _core.MissingKeyError(f"a program that bootstraps needs evaluation keys; {there}")
        return Plan(asked, keys, function, tensors)

    # Of one level, and of every scheme

    reshape = operation(_shapes.RingTensor.reshape)
    transpose = operation(_shapes.RingTensor.transpose)
    broadcast_to = operation(_shapes.RingTensor.broadcast_to)
    __getitem__ = operation(_shapes.RingTensor.__getitem__)
    __pos__ = operation(_shapes.RingTensor.__pos__)
    __neg__ = operation(_shapes.RingTensor.__neg__)

    @classmethod
    def _joined(cls, tensors: Sequence[Any], axis: int) -> Any:
        return _join(super()._joined, tensors, axis)

    @operation
    def _with_keys(self, keys: EvaluationKeys) -> Self:
        """With these at hand."""
        return type(self)(self._core, keys)

    # Arithmetic

    def _call(self, name: str, operand: Any, *rest: Any, into: bool) -> Self:
        if into:
            self._changes += 1
        return super()._call(name, operand, *rest, into=into)

    def _become(self, made: Any) -> Self:
        super()._become(made)
        self._changes += 1
        observer = OBSERVER.get()
        if observer is not None:
            observer.same(self, made)
        return self

    @operation
    def _add(self, other: Any, call: str, into: bool = False) -> Self:
        if isinstance(other, Tensor):
            return self._call(call, other, into=into)
        if isinstance(other, Plaintext):
            return self._call(f"{call}_plain", other._core, into=into)
        array, is_complex, each = _operand(self, other, "the values added" if call == "add" else "the values subtracted")
        if each:
            return self._call("add_constants", array if call == "add" else -array, is_complex, into=into)
        plain = _core.ckks_encode(self._core.parameters, array, is_complex, self.level, self.scale)
        return self._call(f"{call}_plain", plain, into=into)

    @operation
    def multiply(
        self,
        other: Any,
        *,
        relinearize: bool = True,
        rescale: bool = True,
        keys: EvaluationKeys | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """As `hg.ckks.multiply`."""
        if isinstance(other, Tensor):
            at_hand = next((k for k in (keys, self._keys, other._keys) if k is not None), None)
            x, y = ready(self, 1, at_hand), ready(other, 1, at_hand)
            if x.degree > 1 or y.degree > 1 or relinearize:
                found = keys_of([x, y], keys, "a product")
            a, b = (_core.ckks_relinearize(t._core, found._core) if t.degree > 1 else t._core for t in (x, y))
            if relinearize and rescale:
                return type(self)(_core.ckks_multiply_rescale(a, b, found._core, progress), found)
            made = x._with(_core.ckks_multiply(a, b), y)
            if relinearize:
                return type(self)(_core.ckks_relinearize(made._core, found._core, progress), found)
        elif isinstance(other, Plaintext):
            x = ready(self, 1, keys)
            made = x._wrap(_core.ckks_multiply_plain(x._core, other._core))
        else:
            made, scaled = self._times_clear(other, keys)
            rescale = rescale and scaled
        return made.rescale(progress=progress) if rescale else made

    def _times_clear(self, values: Any, keys: EvaluationKeys | None) -> tuple[Self, bool]:
        """The product with clear numbers, and whether its scale has grown."""
        if isinstance(values, complex) and values in _ONES:
            turned = self._wrap(_core.ckks_multiply_i(self._core))
            return (turned if values == 1j else -turned), False
        array, is_complex, each = _operand(self, values, "the factors")
        integral = np.asarray(values).dtype.kind in "iubO"
        if each and integral:
            return self._wrap(_core.ckks_multiply_constants(self._core, array, 1.0)), False
        x = ready(self, 1, keys)
        scale = factor_scale(x)
        if not each:
            plain = _core.ckks_encode(x._core.parameters, array, is_complex, x.level, scale)
            return x._wrap(_core.ckks_multiply_plain(x._core, plain)), True
        core = _core.ckks_multiply_constants(x._core, np.ascontiguousarray(array.real + 0j), scale)
        if is_complex:
            imaginary = _core.ckks_multiply_constants(x._core, np.ascontiguousarray(array.imag + 0j), scale)
            core = _core.ckks_add(core, _core.ckks_multiply_i(imaginary))
        return x._wrap(core), True

    def __truediv__(self, other: Any) -> Self:
        if isinstance(other, (Tensor, Plaintext)):
            raise _core.DtypeError("CKKS divides by clear numbers alone; polynomial(x, ...) approximates 1/x")
        array, is_complex, _ = _operand(self, other, "the divisors")
        if not np.all(array):
            raise _core.PlaintextRangeError("division by zero")
        inverse = 1 / array
        return self.multiply(inverse if is_complex else inverse.real)

    def __rtruediv__(self, other: Any) -> Tensor:
        raise _core.DtypeError("CKKS divides by clear numbers alone; polynomial(x, ...) approximates 1/x")

    def __pow__(self, exponent: int) -> Tensor:
        """In ceil(log2(exponent)) levels."""
        powers: dict[int, Tensor] = {1: +self}

        def power(n: int) -> Tensor:
            if n not in powers:
                largest = 1 << ((n - 1).bit_length() - 1)
                powers[n] = power(largest) * power(n - largest)
            return powers[n]

        return power(exponent_of(exponent))

    @operation
    def relinearize(self, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Self:
        """As `hg.relinearize`."""
        return self._degree_one(keys, progress)[0]

    def _degree_one(self, keys: EvaluationKeys | None, progress: Progress | None = None) -> tuple[Self, Any]:
        """The tensor relinearized, and the keys at hand."""
        if self.degree == 1:
            return +self, keys
        found = keys_of([self], keys, "relinearizing")
        return type(self)(_core.ckks_relinearize(self._core, found._core, progress), found), found

    @operation
    def rescale(self, *, progress: Progress | None = None) -> Self:
        """As `hg.rescale`."""
        return self._wrap(_core.ckks_rescale(self._core, progress))

    @operation
    def relinearize_rescale(self, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Self:
        """As `hg.ckks.relinearize_rescale`."""
        if self.degree == 1:
            return self.rescale(progress=progress)
        found = keys_of([self], keys, "relinearizing")
        return type(self)(_core.ckks_relinearize_rescale(self._core, found._core, progress), found)

    @operation
    def lower(self, level: int) -> Self:
        """As `hg.ckks.lower`."""
        return self._wrap(_core.ckks_lower(self._core, level_of(self.parameters, level)))

    # Along the slots

    @operation
    def rotate(
        self,
        steps: int | Sequence[int],
        *,
        keys: EvaluationKeys | None = None,
        compose: bool | int | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """As `hg.ckks.rotate`."""
        several = whole_numbers(steps, "a rotation")
        found = keys_of([self], keys, "a rotation")
        x = self.relinearize(keys=found)
        by = found._composing(compose)
        with by._naming("", several):
            turned = type(self)(_core.ckks_rotate(x._core, several, by._for(several), progress), found)
        return turned[0] if listed(steps) is None else turned

    @operation
    def conjugate(self, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Self:
        """As `hg.ckks.conjugate`."""
        found = keys_of([self], keys, "conjugation")
        x = self.relinearize(keys=found)
        return type(self)(_core.ckks_conjugate(x._core, found._for(swap=True), progress), found)

    @operation
    def sum_slots(
        self, count: int | None = None, *, keys: EvaluationKeys | None = None, progress: Progress | None = None
    ) -> Self:
        """As `hg.ckks.sum_slots`."""
        found = keys_of([self], keys, "a sum over slots")
        over = self.parameters.period if count is None else power_of_two(count)
        core = self.relinearize(keys=found)._core
        with found._naming("a sum over slots", sum_rotations(over), ask=_asking(over)):
            return type(self)(_core.ckks_sum_slots(core, over, found._for(sum_rotations(over)), progress), found)

    @operation
    def _transformed(self, matrix: LinearTransform, keys: EvaluationKeys | None, progress: Progress | None) -> Self:
        """A clear matrix times each ciphertext's slots."""
        if not matrix._fits(self.slots):
            rows, columns = matrix.shape
            raise _core.ShapeError(
                f"a matrix of {rows} x {columns} does not go with {self.slots:,} slots; hg.matmul(matrix, x, axis=0) multiplies "
                "along an axis of ciphertexts"
            )
        found = keys_of([self], keys, "a matrix on slots")
        x = ready(self, 1, found, least=matrix.level)
        rows, columns = matrix.shape
        ask = "for_=lambda x: hg.matmul(matrix, x)"
        with found._naming(f"a matrix of {rows} x {columns} on slots", matrix.rotations, ask=ask):
            return type(self)(_core.ckks_apply(matrix._core, x._core, found._for(matrix.rotations), progress), found)

    @operation
    def bootstrap(
        self,
        bound: float | None = None,
        *,
        iterations: int = 1,
        keys: EvaluationKeys | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """As `hg.ckks.bootstrap`."""
        found = keys_of([self], keys, "bootstrapping")
        times = count_of(iterations, "iterations")
        self._leaving("bootstrapped")
        most = 0.0 if bound is None else real(bound, "the bound")
        if bound is not None and not most > 0:
            raise _core.ParameterError(f"the bound of a bootstrap is a number above 0, not {described(bound)}")

        def computed(x: Self, progress: Progress | None = None) -> Self:
            return type(self)(_core.ckks_bootstrap(x._core, found._core, most, progress, times), found)

        few = self.size < _FEW or OBSERVER.get() is not None or isinstance(found, NotingKeys)
        bound_here = type(self)(self._core, found)
        try:
            with announced(f"a bootstrap of {self.size:,} ciphertexts", None if few else computed, bound_here):
                return computed(bound_here, progress)
        except _core.MissingKeyError:
            found._require("a bootstrap", relinearize=True, bootstrap=True)
            raise

    @operation
    def lookup(self, table: Any, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Self:
        """As `hg.ckks.lookup`."""
        numbers, _ = complexes(table, "a table's numbers")
        if numbers.ndim != 1:
            raise _core.ShapeError(f"a table is one list of numbers, not of shape {numbers.shape}")
        found = keys_of([self], keys, "a table")
        return type(self)(_core.ckks_lookup(self._core, numbers.tolist(), found._core, progress), found)

    @operation
    def within(self, bound: float) -> Self:
        """As `hg.ckks.within`."""
        return self._wrap(_core.ckks_within(self._core, real(bound, "the bound")))

    @operation
    def _narrowed(self, rule: Any, *facts: Any) -> Self:
        """With the bounds that a rule of the engine gives these results besides."""
        return self._wrap(rule(self._core, *facts))

    @operation
    def polynomial(
        self,
        coefficients: Any,
        basis: str = "monomial",
        *,
        keys: EvaluationKeys | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """As `hg.ckks.polynomial`."""
        if not isinstance(basis, str) or basis not in ("chebyshev", "monomial"):
            raise _core.ParameterError(f'a basis is "chebyshev" or "monomial", not {described(basis)}')
        if hasattr(coefficients, "coef"):  # their orders and bases differ
            raise _core.DtypeError(
                "coefficients are a list, the constant first: of numpy.polynomial's p.convert().coef, of a poly1d p.coef[::-1]"
            )
        values, is_complex = complexes(coefficients, "the coefficients")
        if is_complex:
            raise _core.DtypeError("coefficients of a polynomial are real")
        if values.ndim != 1 or not values.size:
            raise _core.ShapeError(f"coefficients of a polynomial are one list, not of shape {values.shape}")
        found = keys_of([self], keys, "a polynomial")
        chebyshev = basis == "chebyshev"
        x = ready(self, _core.ckks_polynomial_depth(values.size - 1), found)
        factor_scale(x)  # refuses products that are not rescaled
        made = _core.ckks_evaluate_polynomial(x._core, values.real.tolist(), chebyshev, found._core, progress)
        return type(self)(made, found)

    # Along the axes of ciphertexts

    @operation
    def sum(self, axis: Axis = None, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Self:
        """As `hg.sum`. Over the slots it is `sum_slots`, and needs its rotations."""
        if sums_slots(self, axis):
            along_axis(self, "slots" if axis is None else axis)
            return self.sum_slots(keys=keys, progress=progress)
        turned, shape = self._along_one(axis)
        return turned._wrap(_core.ckks_sum(turned._core, 0)).reshape(shape)

    @operation
    def matmul(
        self,
        weights: Any,
        bias: Any = None,
        *,
        axis: Axis = None,
        keys: EvaluationKeys | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """As `hg.matmul`."""
        return self._matmul(weights, bias, axis, 0, keys, progress)

    def _matmul(
        self, weights: Any, bias: Any, axis: Any, place: int, keys: EvaluationKeys | None, progress: Progress | None
    ) -> Self:
        """A product along `axis`; without one along the slots or the ciphertext axis `place`, whichever fits alone."""
        if isinstance(weights, LinearTransform):
            if axis not in (None, "slots"):
                raise _core.DtypeError("a LinearTransform is a matrix on slots: give the array for an axis of ciphertexts")
            image = self._transformed(weights, keys, progress)
            return image if bias is None else image + bias
        w = matrix_of(weights, lambda values, what: _numbers(values, what))
        along = self._place(w.shape, axis, place)
        if along is None:
            x = ready(self, 1, keys)
            image = x._transformed(LinearTransform(x.parameters, w, level=x.level), keys, progress)
            return image if bias is None else image + bias
        whole = w.dtype.kind in "iubO"
        image = (self if whole else ready(self, 1, keys))._along_ciphertexts(w, along, progress)
        if bias is None:
            return image
        each, _ = complexes(bias, "the bias")
        if each.shape != (len(w),):
            raise _core.ShapeError(f"the bias has shape {each.shape} for {len(w)} outputs")
        return image + np.asarray(bias).reshape(-1, *[1] * (image.ndim - along))

    def _place(self, matrix: tuple[int, int], axis: Any, place: int) -> int | None:
        """Where a matrix of that shape multiplies: a ciphertext axis from the front, or None for the slots."""
        rows, columns = matrix
        if axis is not None:
            along = along_axis(self, axis)
            if along is not None:
                require_columns(self, matrix, along)
            elif self.slots != columns:
                raise _core.ShapeError(
                    f"a matrix of {rows} x {columns} does not go with {self.slots:,} slots: {self._ways(columns)}"
                )
            return along
        fits = self.ndim > 0 and self.shape[place] == columns
        if fits and self.slots == columns:
            raise _core.ShapeError(
                f"a matrix of {rows} x {columns} goes with this tensor's {columns} slots and with its {columns} ciphertexts: say "
                f'hg.matmul(matrix, x, axis="slots") or axis={place % self.ndim}'
            )
        if not fits and self.slots != columns:
            raise _core.ShapeError(f"a matrix of {rows} x {columns} does not go with this tensor: {self._ways(columns)}")
        return place % self.ndim if fits else None

    def _ways(self, columns: int) -> str:
        """What a matrix of so many columns would go with."""
        where = [str(i) for i, length in enumerate(self.shape) if length == columns]
        found = f"; axis={' or '.join(where)} has {columns}" if where else ""
        return (
            f'its columns are as many as the slots (axis="slots": {self.slots:,}) or as the ciphertexts along an axis (shape '
            f"{self.shape}{found}); hg.dot(x, weights) multiplies by one vector"
        )

    def _along_ciphertexts(self, w: Any, along: int, progress: Progress | None) -> Self:
        """w [rows, columns] times the ciphertexts of an axis: one matrix product, and a rescaling unless w is of integers."""
        rows, columns = w.shape
        if not rows * self.size:
            raise _core.ShapeError(f"a matrix of {rows} x {columns} times a tensor of shape {self.shape} is empty")
        x = self.transpose([along, *(a for a in range(self.ndim) if a != along)])
        scale = 1.0 if w.dtype.kind in "iubO" else factor_scale(self)

        def times(part: Any) -> Any:
            entries = np.asarray(part, dtype=np.float64).ravel().tolist()
            return self._wrap(_core.ckks_matmul(entries, rows, columns, x._core, scale, progress))

        made: Self = times(w.real) + times(w.imag) * 1j if w.dtype.kind == "c" else times(w)
        if scale != 1:
            made = made.rescale()
        return made.transpose([*range(1, along + 1), 0, *range(along + 1, self.ndim)])

    @operation
    def __matmul__(self, matrix: Any) -> Self:
        if isinstance(matrix, Tensor):
            raise _core.DtypeError("one side of a matrix product is clear; inner_product multiplies two tensors")
        turned = matrix_of(matrix, lambda values, what: _numbers(values, what)).T
        return self._matmul(turned, None, None, -1, None, None)

    def __rmatmul__(self, matrix: Any) -> Self:
        return self.matmul(matrix)

    @operation
    def inner_product(
        self,
        other: Any,
        axis: int = 0,
        count: int = 1,
        *,
        keys: EvaluationKeys | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """As `hg.ckks.inner_product`."""
        along = axis_of(axis, self.ndim, f"a tensor of shape {self.shape}")
        over = power_of_two(count)
        if isinstance(other, Tensor):
            found = keys_of([self, other], keys, "an inner product")
            x, y = (ready(t, 1, found).relinearize(keys=found)._core for t in (self, other))
            turns = found._for(sum_rotations(over))
            with found._naming("an inner product over slots", sum_rotations(over), ask=_asking(over)):
                return type(self)(_core.ckks_inner_product(x, y, along, over, turns, progress), found)
        found = keys_of([self], keys, "an inner product")
        z = ready(self, 1, found)
        if isinstance(other, Plaintext):
            plain = other._core
        else:
            array, is_complex = complexes(other, "the factors")
            try:
                array = np.ascontiguousarray(np.broadcast_to(array, (*self.shape, self.slots)))
            except ValueError:
                raise _core.ShapeError(
                    f"factors of shape {array.shape} do not broadcast to {self.shape} ciphertexts of {self.slots} slots"
                ) from None
            plain = _core.ckks_encode(z._core.parameters, array, is_complex, z.level, factor_scale(z))
        turns = found._for(sum_rotations(over))
        with found._naming("an inner product over slots", sum_rotations(over), ask=_asking(over)):
            return type(self)(_core.ckks_inner_product_plain(z._core, plain, along, over, turns, progress), found)

    @operation
    def dot(self, other: Any) -> Self:
        """As `hg.dot`."""
        if isinstance(other, Tensor):
            require_vectors(self.shape, other.shape)
            return self.inner_product(other)
        if isinstance(other, Plaintext):
            require_vectors(self.shape, self.shape)
            return self.inner_product(other)
        array = _numbers(other, "the factors")
        if self.ndim != 1 or array.ndim not in (1, 2):
            require_vectors(self.shape, array.shape)
        total = self.multiply(array[:, None] if array.ndim == 1 else array, rescale=False).sum(0)
        return total if total.scale == self.scale else total.rescale()


@operation
def _join(joined: Any, tensors: Sequence[Any], axis: int) -> Any:
    """`concatenate`, which is of a class and not of a tensor."""
    return joined(tensors, axis)


def _numbers(values: Any, what: str) -> Any:
    """An array of numbers, of integers where they are. Raises as `complexes`."""
    complexes(values, what)
    return np.asarray(values)


class Plaintext(_shapes.Plaintext[Parameters], core=_core.CkksPlaintext):
    """Encoded values, one for each slot, for adding to and multiplying tensors. Made by `encode`.

    >>> weights = server.encode([1, 0.5, 0.25, 2])
    >>> secret.decrypt(x * weights).round(4)
    array([[0.5  , 0.75 , 0.625, 7.   ],
           [1.   , 1.   , 0.75 , 8.   ]])
    """

    _scheme = CKKS
    _options = ("slots", "level", "scale")

    @classmethod
    def _encoded(cls, parameters: Any, values: Any, **options: Any) -> Plaintext:
        return encode(parameters, values, **options)

    level = told("level", int, "The highest level of tensors it goes with.")
    scale = told("scale", float, "What the values are multiplied by inside.")

    def __repr__(self) -> str:
        return f"<CKKS plaintext {self.shape}: level {self.level}, scale 2^{math.log2(self.scale):.1f}>"


def encode(
    parameters: Parameters, values: Any, *, slots: int = -1, level: int | None = None, scale: float | None = None
) -> Plaintext:
    """Numbers as plaintexts, once for many uses: the axis `slots` of `values` lies in the slots; fewer than there are slots are
    filled up with zeros. `level` (default the top) and `scale` (default that level's) are those of the tensors they go with.

    Raises DtypeError, ShapeError, PlaintextRangeError, SlotsError, LevelError, ScaleError.

    >>> secret.decrypt(x[0] + hg.ckks.encode(params, [1, 2, 3, 4])).round(4)
    array([1.5, 3.5, 5.5, 7.5])
    """
    parameters = of_kind(parameters, Parameters, "CKKS encodes by")
    array, is_complex = complexes(values, "the values")
    array = moved_last(array, slots, "the values")
    at = level_of(parameters, level)
    return Plaintext(
        _core.ckks_encode(parameters._core, array, is_complex, at, 0.0 if scale is None else real(scale, "the scale"))
    )


def _operand(x: Tensor, values: Any, what: str) -> tuple[Any, bool, bool]:
    """Clear numbers as [..., slots] or [..., 1], whether complex, and whether they are one for each ciphertext."""
    array, is_complex = complexes(values, what)
    if array.ndim == 0:
        return array.reshape(1), is_complex, True
    if array.shape[-1] == 1:
        return array, is_complex, True
    if array.shape[-1] != x.slots:
        have = array.shape[-1]
        last = x.shape[max(0, x.ndim - array.ndim) :]
        each = array.ndim == len(last) and all(a in (1, b) for a, b in zip(array.shape, last, strict=True))
        index = "[:, None]" if array.ndim == 1 else "[..., None]"
        instead = f"; a number for each ciphertext is written c{index}, as in x - c{index}" if each else ""
        raise _core.ShapeError(
            f"{what} have a last axis of {have:,}: it lies along the slots and has {x.slots:,} values, or 1{instead}"
        )
    return array, is_complex, False


def factor_scale(x: Tensor) -> float:
    """The scale of clear factors with which the rescaled product is at its level's scale. Raises ScaleError for a tensor at the
    scale of a product: so few bits would be left of the factors that they would vanish.
    """
    level_scale = x.parameters.scale(x.level)
    if x.scale > 2 * level_scale:
        raise _core.ScaleError(
            f"this tensor has a scale of 2^{math.log2(x.scale):.1f}, its level one of 2^{math.log2(level_scale):.1f}: rescale "
            "products before they are multiplied by clear numbers"
        )
    return level_scale * level_scale / x.scale


def power_of_two(count: Any) -> int:
    """How many slots are summed at a time. Raises ShapeError."""
    n = whole(count, "the number of slots")
    if n < 1 or n & (n - 1):
        raise _core.ShapeError(f"slots are summed by powers of two, not {n} at a time; a set's are summed by its `period`")
    return n


def _asking(count: int) -> str:
    """The argument of `evaluation_keys` that makes the keys of a sum over so many slots."""
    return f"rotations=hg.ckks.sum_rotations({count})"


def sum_rotations(count: int) -> list[int]:
    """The rotations that `sum_slots` over so many slots needs keys for.

    >>> hg.ckks.sum_rotations(8)
    [1, 2, 4]
    """
    return [1 << i for i in range(power_of_two(count).bit_length() - 1)]
