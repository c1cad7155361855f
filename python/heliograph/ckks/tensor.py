"""Tensors of real and complex numbers encrypted by CKKS, with NumPy's shapes and operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from heliograph import _core
from heliograph._common import tensor as tensors
from heliograph._common.arguments import (
    axis_of,
    complexes,
    count_of,
    described,
    exponent_of,
    flag,
    interval_of,
    listed,
    moved_last,
    of_kind,
    readable_bytes,
    real,
    whole,
    whole_numbers,
)
from heliograph._common.matrices import Axis, along_axis, matrix_of, require_columns, require_vectors, sums_slots
from heliograph._common.operations import composite, observer_now, operation, view
from heliograph._common.schemes import engine_property
from heliograph._common.strict import is_strict
from heliograph._common.tensor import Calls, Progress, keys_of
from heliograph.ckks.automatic import ready, rotation_of_halves
from heliograph.ckks.bootstrap_graph import Plan
from heliograph.ckks.evaluation_keys import EvaluationKeys
from heliograph.ckks.levels import level_of
from heliograph.ckks.linear import BlockTransform, LinearTransform
from heliograph.ckks.parameters import Parameters
from heliograph.ckks.scheme import CKKS
from heliograph.keys import NotingKeys
from heliograph.programs.bootstraps import Bootstraps
from heliograph.programs.forecast import announced

#: Evaluation keys of CKKS.
Keys = EvaluationKeys["Tensor"]
_ONES = (1j, -1j)
#: Number of ciphertexts from which a bootstrap's time is predicted before it starts.
_FEW = 4

#: Texts of a repr that state whether decryption will succeed, by the evidence that values fit their modulus.
_STANDINGS = {
    "vouched": "proved to fit",
    "assumed": "fits by its declared bound",
    "places": "decrypt checks its unused places",
    "open": "decrypt refuses it unless its coefficients are small",
}

#: Sums with a tensor or a plaintext.
_SUMS = {"add": Calls(_core.ckks.add, _core.ckks.add_into), "subtract": Calls(_core.ckks.subtract, _core.ckks.subtract_into)}
_CONSTANT_SUM = Calls(_core.ckks.add_constants, _core.ckks.add_constants_into)


class Guard(NamedTuple):
    """A ciphertext of squared Chebyshev polynomials of arguments, which are large outside the declared interval.

    >>> z = hg.ckks.exp(party.bind(owner.encrypt(np.linspace(0, 2, 1024))), domain=(0, 1), error=0.1)
    >>> z.guards[0].operation, 0 < z.guards[0].excess < 0.05
    ('exp on [0, 1]', True)
    """

    #: The guarded operation and its interval; several operations if guards were joined.
    operation: str
    #: Decryption certainly notices an argument that is outside by at least this fraction of half the interval's length.
    excess: float
    #: Size in memory, in bytes.
    nbytes: int


class Tensor(tensors.RingTensor[Parameters, Keys], core=_core.ckks.Ciphertext):
    """An array of ciphertexts of CKKS. ``shape`` counts ciphertexts; ``slots`` counts the values in each.

    Operators act as on an array of shape ``(*shape, slots)`` and broadcast. Operands are tensors, numbers, plaintexts
    (`encode`) and arrays, whose last axis is the slots or has length 1: one number for each ciphertext.

    A product takes one level, except a product with integers. A product is relinearized and rescaled at once;
    `hg.ckks.multiply` can defer both. An operand of a higher level is lowered to the other operand's level. Values are
    correct to `precision` bits after the binary point.

    >>> secret.decrypt(x[0] * x[1] - 1).round(4)
    array([-0.5,  2. ,  6.5, 13. ])
    >>> secret.decrypt(0.5 * x + [[1], [2]]).round(4)  # a number for each ciphertext
    array([[1.25, 1.75, 2.25, 2.75],
           [2.5 , 3.  , 3.5 , 4.  ]])
    >>> x.level, (x * x).level, (x * x).precision > 20
    (5, 4, True)
    """

    __slots__ = ("_changes",)
    _places = True
    _scheme = CKKS

    def __init__(self, core: Any, keys: Keys | None = None) -> None:
        super().__init__(core, keys)
        self._changes = 0  # number of in-place operations so far

    # Properties

    level = engine_property("level", int, "Level of the ciphertexts; each rescaling takes one, and 1 is the lowest.")
    scale = engine_property("scale", float, "Factor by which values are encoded, tracked exactly.")

    @property
    def dtype(self) -> Any:
        """Dtype of the decrypted values: float64 or complex128."""
        return np.dtype(np.complex128 if self._core.complex else np.float64)

    @property
    def precision(self) -> float | None:
        """Correct bits after the binary point: a lower bound by the noise model and the magnitude of the encrypted values.

        The number is 0 if less than one bit is correct. `precision` is None if any data or key came from a file, or if this
        process cannot prove that the values fit their modulus.
        """
        bits = float(self._core.precision)
        return bits if math.isfinite(bits) else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Interval of all values, by public bounds (of encryption, files and `within`) and the operations since.

        >>> server.bind(secret.encrypt([1, 2, 3, 4], bound=(0, 4))).bounds
        (0.0, 4.0)

        The interval is None if no bound is known. `decrypt` trusts this interval as the sender's declaration; `precision`
        does not depend on the interval."""
        low, high = self._core.bounds
        return (low, high) if math.isfinite(low) and math.isfinite(high) else None

    @property
    def guards(self) -> tuple[Guard, ...]:
        """Guards of arguments on which the values depend.

        >>> y = hg.ckks.exp(party.bind(owner.encrypt(np.linspace(0, 2, 1024))), domain=(0, 1), error=0.1)
        >>> [guard.operation for guard in y.guards]
        ['exp on [0, 1]']

        `decrypt` raises OutOfIntervalError if an argument was outside its interval.
        """
        return tuple(Guard(", ".join(names), excess, nbytes) for names, excess, nbytes in self._core.guards)

    def _bare(self) -> Any:
        """Returns the engine's tensor without guards."""
        return _core.ckks.drop_guards(self._core) if self._core.guards else self._core

    def _leaving(self, what: str) -> None:
        if is_strict() and self._core.may_outgrow:
            raise _core.RoomError(
                f"this tensor is not {what} (hg.strict is on): by their bounds its values may exceed their modulus "
                f"by {max(self._core.bits_beyond_room, 1):.0f} bits. Choose parameters with more integer_bits, or declare a "
                "smaller bound if it holds (bound= of encrypt, within())"
            )

    def __repr__(self) -> str:
        p, bits = self.parameters, self.precision
        why = "loaded" if math.isnan(self._core.precision) else "values may exceed the modulus"
        none = f"precision unknown ({why})"
        right = none if bits is None else f"{bits:.0f} bits after the point (estimate)"
        right = f"{right}, {_STANDINGS[self._core.standing]}"
        seeded = ", seeded" if self._core.seeded else ""
        guarded = f", guarded: {'; '.join(g.operation for g in self.guards)}" if self._core.guards else ""
        return (
            f"<CKKS tensor {self.shape} x {self.slots:,} {self.dtype}: N=2^{p.n.bit_length() - 1}, log q {p.log_q:.0f}, "
            f"{p.security}, degree {self.degree}, level {self.level} of {p.levels}, scale 2^{math.log2(self.scale):.1f}, "
            f"{right}, {readable_bytes(self.nbytes)}{seeded}{guarded}, key {self.key_id[:8]}>"
        )

    def __float__(self) -> float:
        raise TypeError("cannot make a float of an encrypted tensor: decrypt it with its secret key")

    # Programs that bootstrap

    @classmethod
    def _planned(cls, options: Bootstraps, function: Any, tensors: Sequence[Any]) -> Plan:
        """Places the bootstraps of a function of tensors.

        Raises ParameterError, MissingKeyError, and the function's errors.
        """
        own = [t for t in tensors if isinstance(t, Tensor)]
        for t in own:
            if not t.parameters.bootstrapping_level:
                raise _core.ParameterError("this set has no bootstrapping: choose one by parameters(..., bootstrap=True)")
        every = [t._keys for t in own if t._keys is not None]
        keys = next((k for k in every if k.bootstrap), None)
        if keys is None:
            there = (
                "the operands' keys have none for bootstrapping; make them with evaluation_keys(bootstrap=True)"
                if every
                else "bind the operands at a Server"
            )
            raise _core.MissingKeyError(f"a program that bootstraps needs evaluation keys; {there}")
        return Plan(options, keys, function, tensors)

    @view
    def _with_keys(self, keys: Keys) -> Self:
        """Returns the tensor with other keys attached."""
        return type(self)(self._core, keys)

    # Arithmetic

    def _call(self, calls: Calls, operand: Any, *rest: Any, into: bool) -> Self:
        if into:
            self._changes += 1
        return super()._call(calls, operand, *rest, into=into)

    def _become(self, result: Any) -> Self:
        super()._become(result)
        self._changes += 1
        observer = observer_now()
        if observer is not None:
            observer.same(self, result)
        return self

    @operation
    def _add(self, other: Any, call: str, into: bool = False) -> Self:
        if isinstance(other, Tensor):
            return self._call(_SUMS[call], other, into=into)
        if isinstance(other, Plaintext):
            return self._call(_SUMS[call], other._core, into=into)
        array, is_complex, each = _operand(self, other, "the values added" if call == "add" else "the values subtracted")
        if each:
            return self._call(_CONSTANT_SUM, array if call == "add" else -array, is_complex, into=into)
        plain = _core.ckks.encode(self._core.parameters, array, is_complex, self.level, self.scale)
        return self._call(_SUMS[call], plain, into=into)

    @operation
    def multiply(
        self,
        other: Any,
        *,
        relinearize: bool = True,
        rescale: bool = True,
        keys: Keys | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Same as `hg.ckks.multiply`."""
        if isinstance(other, Tensor):
            at_hand = next((k for k in (keys, self._keys, other._keys) if k is not None), None)
            x, y = ready(self, 1, at_hand), ready(other, 1, at_hand)
            if x.degree > 1 or y.degree > 1 or relinearize:
                own_keys = keys_of([x, y], keys, "a product")
            a, b = (_core.ckks.relinearize(t._core, own_keys._core) if t.degree > 1 else t._core for t in (x, y))
            if relinearize and rescale:
                return type(self)(_core.ckks.multiply_rescale(a, b, own_keys._core, progress), own_keys)
            product = x._with(_core.ckks.multiply(a, b), y)
            if relinearize:
                return type(self)(_core.ckks.relinearize(product._core, own_keys._core, progress), own_keys)
        elif isinstance(other, Plaintext):
            x = ready(self, 1, keys)
            product = x._wrap(_core.ckks.multiply_plain(x._core, other._core))
        else:
            product, scaled = self._times_constants(other, keys)
            rescale = rescale and scaled
        return product.rescale(progress=progress) if rescale else product

    def _times_constants(self, values: Any, keys: Keys | None) -> tuple[Self, bool]:
        """Returns the product with clear numbers, and whether it needs a rescaling."""
        if isinstance(values, complex) and values in _ONES:
            turned = self._wrap(_core.ckks.multiply_i(self._core))
            return (turned if values == 1j else -turned), False
        array, is_complex, each = _operand(self, values, "the factors")
        integral = np.asarray(values).dtype.kind in "iubO"
        if each and integral:
            return self._wrap(_core.ckks.multiply_constants(self._core, array, 1.0)), False
        x = ready(self, 1, keys)
        scale = factor_scale(x)
        if not each:
            plain = _core.ckks.encode(x._core.parameters, array, is_complex, x.level, scale)
            return x._wrap(_core.ckks.multiply_plain(x._core, plain)), True
        core = _core.ckks.multiply_constants(x._core, np.ascontiguousarray(array.real + 0j), scale)
        if is_complex:
            imaginary = _core.ckks.multiply_constants(x._core, np.ascontiguousarray(array.imag + 0j), scale)
            core = _core.ckks.add(core, _core.ckks.multiply_i(imaginary))
        return x._wrap(core), True

    def __truediv__(self, other: Any) -> Self:
        if isinstance(other, (Tensor, Plaintext)):
            raise _core.DtypeError(
                "CKKS divides by clear numbers only; approximate 1/x by hg.ckks.polynomial, or multiply by a plaintext of "
                "inverses"
            )
        array, is_complex, _ = _operand(self, other, "the divisors")
        if not np.all(array):
            raise _core.PlaintextRangeError("division by zero: the divisors must not hold 0")
        inverse = 1 / array
        return self.multiply(inverse if is_complex else inverse.real)

    def __rtruediv__(self, other: Any) -> Tensor:
        raise _core.DtypeError("CKKS divides by clear numbers only; approximate 1/x by hg.ckks.polynomial")

    def __pow__(self, exponent: int) -> Tensor:
        """Returns the power, in ceil(log2(exponent)) levels."""
        powers: dict[int, Tensor] = {1: +self}

        def power(n: int) -> Tensor:
            if n not in powers:
                largest = 1 << ((n - 1).bit_length() - 1)
                powers[n] = power(largest) * power(n - largest)
            return powers[n]

        return power(exponent_of(exponent))

    @operation
    def relinearize(self, *, keys: Keys | None = None, progress: Progress | None = None) -> Self:
        """Same as `hg.relinearize`."""
        return self._degree_one(keys, progress)[0]

    def _degree_one(self, keys: Keys | None, progress: Progress | None = None) -> tuple[Self, Any]:
        """Returns the tensor relinearized, and the keys that were used."""
        if self.degree == 1:
            return +self, keys
        own_keys = keys_of([self], keys, "relinearizing")
        return type(self)(_core.ckks.relinearize(self._core, own_keys._core, progress), own_keys), own_keys

    @operation
    def rescale(self, *, progress: Progress | None = None) -> Self:
        """Same as `hg.rescale`."""
        return self._wrap(_core.ckks.rescale(self._core, progress))

    @operation
    def relinearize_rescale(self, *, keys: Keys | None = None, progress: Progress | None = None) -> Self:
        """Same as `hg.ckks.relinearize_rescale`."""
        if self.degree == 1:
            return self.rescale(progress=progress)
        own_keys = keys_of([self], keys, "relinearizing")
        return type(self)(_core.ckks.relinearize_rescale(self._core, own_keys._core, progress), own_keys)

    @operation
    def lower(self, level: int) -> Self:
        """Same as `hg.ckks.lower`."""
        return self._wrap(_core.ckks.lower(self._core, level_of(self.parameters, level)))

    @operation
    def rotate(
        self,
        steps: int | Sequence[int],
        *,
        keys: Keys | None = None,
        compose: bool | int | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Same as `hg.ckks.rotate`."""
        several = whole_numbers(steps, "a rotation")
        own_keys = keys_of([self], keys, "a rotation")
        x = self.relinearize(keys=own_keys)
        by = own_keys._composing(compose)
        with by._naming("", several):
            turned = type(self)(_core.ckks.rotate(x._core, several, by._for(several), progress), own_keys)
        return turned[0] if listed(steps) is None else turned

    @operation
    def conjugate(self, *, keys: Keys | None = None, progress: Progress | None = None) -> Self:
        """Same as `hg.ckks.conjugate`."""
        own_keys = keys_of([self], keys, "conjugation")
        x = self.relinearize(keys=own_keys)
        return type(self)(_core.ckks.conjugate(x._core, own_keys._for(swap=True), progress), own_keys)

    @operation
    def sum_slots(self, count: int | None = None, *, keys: Keys | None = None, progress: Progress | None = None) -> Self:
        """Same as `hg.ckks.sum_slots`."""
        own_keys = keys_of([self], keys, "a sum over slots")
        over = self.parameters.period if count is None else power_of_two(count)
        core = self.relinearize(keys=own_keys)._core
        with own_keys._naming("a sum over slots", sum_rotations(over), ask=_keys_hint(over)):
            return type(self)(_core.ckks.sum_slots(core, over, own_keys._for(sum_rotations(over)), progress), own_keys)

    @operation
    def _transformed(self, matrix: LinearTransform, keys: Keys | None, progress: Progress | None) -> Self:
        """Multiplies each ciphertext's slots by a clear matrix."""
        if not matrix._fits(self.slots):
            rows, columns = matrix.shape
            raise _core.ShapeError(
                f"a matrix of {rows} x {columns} does not fit {self.slots:,} slots; hg.matmul(matrix, x, axis=0) multiplies "
                "along an axis of ciphertexts"
            )
        own_keys = keys_of([self], keys, "a matrix on slots")
        x = ready(self, 1, own_keys, least=matrix.level)
        rows, columns = matrix.shape
        ask = "for_=lambda x: hg.matmul(matrix, x)"
        with own_keys._naming(f"a matrix of {rows} x {columns} on slots", matrix.rotations, ask=ask):
            return type(self)(_core.ckks.apply(matrix._core, x._core, own_keys._for(matrix.rotations), progress), own_keys)

    @operation
    def _blocks(self, blocks: BlockTransform, keys: Keys | None, progress: Progress | None) -> Self:
        """Multiplies the ciphertexts along the first axis by a clear matrix of blocks on slots."""
        outputs, inputs = blocks.shape
        if not self.shape or self.shape[0] != inputs:
            raise _core.ShapeError(
                f"a matrix of {outputs} x {inputs} blocks takes {inputs} ciphertexts along the first axis, not a tensor of "
                f"shape {self.shape}"
            )
        if not blocks._fits(self.slots):
            raise _core.ShapeError(f"blocks of {blocks._rows:,} rows do not fit {self.slots:,} slots")
        own_keys = keys_of([self], keys, "a matrix of blocks")
        x = ready(self, 1, own_keys, least=blocks.level)
        steps = blocks.rotations
        what = f"a matrix of {outputs} x {inputs} blocks"
        with own_keys._naming(what, steps, ask="for_=blocks", composes=False):
            return type(self)(_core.ckks.apply_blocks(blocks._core, x._core, own_keys._for(steps), progress), own_keys)

    @operation
    def bootstrap(
        self,
        bound: float | None = None,
        *,
        iterations: int = 1,
        level: int | None = None,
        period: int | None = None,
        keys: Keys | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Same as `hg.ckks.bootstrap`."""
        to = level_of(self.parameters, level)
        repeats = 0 if period is None else count_of(period, "the period of a bootstrap", 1)
        own_keys = keys_of([self], keys, "bootstrapping")
        times = count_of(iterations, "iterations")
        self._leaving("bootstrapped")
        most = 0.0 if bound is None else real(bound, "the bound")
        if bound is not None and not most > 0:
            raise _core.ParameterError(f"the bound of a bootstrap must be a number above 0, not {described(bound)}")

        def computed(x: Self, progress: Progress | None = None) -> Self:
            return type(self)(_core.ckks.bootstrap(x._core, own_keys._core, most, progress, times, to, repeats), own_keys)

        if isinstance(own_keys, NotingKeys):
            own_keys.steps.update(rotation_of_halves(self, repeats))
        few = self.size < _FEW or observer_now() is not None or isinstance(own_keys, NotingKeys)
        bound_here = type(self)(self._core, own_keys)
        try:
            with announced(f"a bootstrap of {self.size:,} ciphertexts", None if few else computed, bound_here):
                return computed(bound_here, progress)
        except _core.MissingKeyError:
            own_keys._require("a bootstrap", relinearize=True, bootstrap=True)
            raise

    @operation
    def functional_bootstrap(self, table: Any, *, keys: Keys | None = None, progress: Progress | None = None) -> Self:
        """Same as `hg.ckks.functional_bootstrap`."""
        numbers, _ = complexes(table, "a table's numbers")
        if numbers.ndim != 1:
            raise _core.ShapeError(f"a table must be one list of numbers, not an array of shape {numbers.shape}")
        own_keys = keys_of([self], keys, "a table")
        return type(self)(_core.ckks.functional_bootstrap(self._core, numbers.tolist(), own_keys._core, progress), own_keys)

    @operation
    def within(self, bound: float | tuple[float, float]) -> Self:
        """Same as `hg.ckks.within`."""
        low, high = interval_of(bound)
        return self._wrap(_core.ckks.within(self._core, low, high))

    @view
    def _guarded(self, guard: bool) -> Self:
        """Returns the tensor with strong guards, or none, of its declared bounds."""
        rule = _core.ckks.strong_guards if flag(guard, "guard") else _core.ckks.skip_guards
        return self._wrap(rule(self._core))

    @view
    def _with_guards(self, other: Tensor) -> Self:
        """Returns the tensor with the guards of another tensor, too."""
        return self._wrap(_core.ckks.with_guards(self._core, other._core))

    @view
    def _as_received(self) -> Self:
        """Returns the tensor without trusted bounds, as if it came from a file."""
        return self._wrap(_core.ckks.without_trust(self._core))

    @view
    def _unguarded(self) -> Self:
        """Same as `hg.ckks.unguarded`."""
        return self._wrap(_core.ckks.drop_guards(_core.ckks.skip_guards(self._core)))

    @view
    def _narrowed(self, rule: Any, *facts: Any) -> Self:
        """Returns the tensor with narrower bounds on its values, by a rule of the engine."""
        return self._wrap(rule(self._core, *facts))

    @composite
    def polynomial(
        self,
        coefficients: Any,
        basis: str = "monomial",
        *,
        keys: Keys | None = None,
        guard: bool | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Same as `hg.ckks.polynomial`."""
        x = self if guard is None else self._guarded(guard)
        return x._polynomial(coefficients, basis, "" if guard is False else "a Chebyshev series", keys, progress)

    @operation
    def _polynomial(
        self,
        coefficients: Any,
        basis: str,
        guard: str,
        keys: Keys | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Evaluates a polynomial. A guard of declared arguments has the name `guard`; without a name there is none."""
        if not isinstance(basis, str) or basis not in ("chebyshev", "monomial"):
            raise _core.ParameterError(f'a basis must be "chebyshev" or "monomial", not {described(basis)}')
        if hasattr(coefficients, "coef"):  # polynomial classes differ in order and basis
            raise _core.DtypeError(
                "coefficients must be a list, the constant first, not a polynomial object: pass p.convert().coef of a "
                "numpy.polynomial class, or p.coef[::-1] of a poly1d"
            )
        values, is_complex = complexes(coefficients, "the coefficients")
        if is_complex:
            raise _core.DtypeError("coefficients of a polynomial must be real, not complex")
        if values.ndim != 1 or not values.size:
            raise _core.ShapeError(f"coefficients of a polynomial must be one list, not an array of shape {values.shape}")
        own_keys = keys_of([self], keys, "a polynomial")
        chebyshev = basis == "chebyshev"
        x = ready(self, _core.ckks.polynomial_depth(values.size - 1), own_keys)
        factor_scale(x)  # raises ScaleError for products that are not rescaled
        result = _core.ckks.evaluate_polynomial(x._core, values.real.tolist(), chebyshev, own_keys._core, progress, guard)
        return type(self)(result, own_keys)

    @operation
    def sum(self, axis: Axis = None, *, keys: Keys | None = None, progress: Progress | None = None) -> Self:
        """Same as `hg.sum`. A sum over slots is `sum_slots` and needs its rotations."""
        if sums_slots(self, axis):
            along_axis(self, "slots" if axis is None else axis)
            return self.sum_slots(keys=keys, progress=progress)
        turned, shape = self._along_one(axis)
        return turned._wrap(_core.ckks.sum(turned._core, 0)).reshape(shape)

    @operation
    def matmul(
        self,
        weights: Any,
        bias: Any = None,
        *,
        axis: Axis = None,
        keys: Keys | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Same as `hg.matmul`."""
        return self._matmul(weights, bias, axis, 0, keys, progress)

    def _matmul(self, weights: Any, bias: Any, axis: Any, place: int, keys: Keys | None, progress: Progress | None) -> Self:
        """Multiplies along `axis`. None selects the slots or the ciphertext axis `place`, if exactly one of the two
        fits."""
        if isinstance(weights, LinearTransform):
            if axis not in (None, "slots"):
                raise _core.DtypeError(
                    "a LinearTransform is a matrix on slots: for an axis of ciphertexts pass the matrix as an array"
                )
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
            raise _core.ShapeError(f"the bias has shape {each.shape}, but must have one value for each of {len(w)} outputs")
        return image + np.asarray(bias).reshape(-1, *[1] * (image.ndim - along))

    def _place(self, matrix: tuple[int, int], axis: Any, place: int) -> int | None:
        """Returns the axis that a matrix multiplies: a non-negative ciphertext axis, or None for the slots.

        Raises ShapeError.
        """
        rows, columns = matrix
        if axis is not None:
            along = along_axis(self, axis)
            if along is not None:
                require_columns(self, matrix, along)
            elif self.slots != columns:
                raise _core.ShapeError(
                    f"a matrix of {rows} x {columns} does not fit {self.slots:,} slots: {self._ways(columns)}"
                )
            return along
        fits = self.ndim > 0 and self.shape[place] == columns
        if fits and self.slots == columns:
            raise _core.ShapeError(
                f"a matrix of {rows} x {columns} fits both this tensor's {columns} slots and its {columns} ciphertexts: "
                f'pass hg.matmul(matrix, x, axis="slots") or axis={place % self.ndim}'
            )
        if not fits and self.slots != columns:
            raise _core.ShapeError(f"a matrix of {rows} x {columns} does not fit this tensor: {self._ways(columns)}")
        return place % self.ndim if fits else None

    def _ways(self, columns: int) -> str:
        """Returns an error's advice: the axes that a matrix with this number of columns fits."""
        where = [str(i) for i, length in enumerate(self.shape) if length == columns]
        hint = f"; axis={' or '.join(where)} has {columns}" if where else ""
        return (
            f'it must have as many columns as there are slots (axis="slots": {self.slots:,}) or ciphertexts along an axis '
            "(shape "
            f"{self.shape}{hint}); hg.dot(x, weights) multiplies by one vector"
        )

    def _along_ciphertexts(self, w: Any, along: int, progress: Progress | None) -> Self:
        """Multiplies the ciphertexts of an axis by w [rows, columns]: one matrix product, and a rescaling unless w is
        integral.
        """
        rows, columns = w.shape
        if not rows * self.size:
            raise _core.ShapeError(f"a matrix of {rows} x {columns} times a tensor of shape {self.shape} is empty")
        x = self.transpose([along, *(a for a in range(self.ndim) if a != along)])
        scale = 1.0 if w.dtype.kind in "iubO" else factor_scale(self)

        def times(part: Any) -> Any:
            entries = np.asarray(part, dtype=np.float64).ravel().tolist()
            return self._wrap(_core.ckks.matmul(entries, rows, columns, x._core, scale, progress))

        product: Self = times(w.real) + times(w.imag) * 1j if w.dtype.kind == "c" else times(w)
        if scale != 1:
            product = product.rescale()
        return product.transpose([*range(1, along + 1), 0, *range(along + 1, self.ndim)])

    @operation
    def __matmul__(self, matrix: Any) -> Self:
        if isinstance(matrix, Tensor):
            raise _core.DtypeError(
                "one side of a matrix product must be clear; hg.ckks.inner_product multiplies two tensors"
            )
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
        keys: Keys | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Same as `hg.ckks.inner_product`."""
        along = axis_of(axis, self.ndim, f"a tensor of shape {self.shape}")
        over = power_of_two(count)
        if isinstance(other, Tensor):
            own_keys = keys_of([self, other], keys, "an inner product")
            x, y = (ready(t, 1, own_keys).relinearize(keys=own_keys)._core for t in (self, other))
            turns = own_keys._for(sum_rotations(over))
            with own_keys._naming("an inner product over slots", sum_rotations(over), ask=_keys_hint(over)):
                return type(self)(_core.ckks.inner_product(x, y, along, over, turns, progress), own_keys)
        own_keys = keys_of([self], keys, "an inner product")
        z = ready(self, 1, own_keys)
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
            plain = _core.ckks.encode(z._core.parameters, array, is_complex, z.level, factor_scale(z))
        turns = own_keys._for(sum_rotations(over))
        with own_keys._naming("an inner product over slots", sum_rotations(over), ask=_keys_hint(over)):
            return type(self)(_core.ckks.inner_product_plain(z._core, plain, along, over, turns, progress), own_keys)

    @operation
    def dot(self, other: Any) -> Self:
        """Same as `hg.dot`."""
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


def _numbers(values: Any, what: str) -> Any:
    """Returns an array of numbers; integers stay integers. Raises the errors of `complexes`."""
    complexes(values, what)
    return np.asarray(values)


class Plaintext(tensors.Plaintext[Parameters], core=_core.ckks.Plaintext):
    """Encoded numbers, one for each slot, for sums and products with tensors. `encode` makes them.

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

    level = engine_property("level", int, "The highest level of tensors that it can be combined with.")
    scale = engine_property("scale", float, "Factor by which values are encoded.")

    def __repr__(self) -> str:
        return f"<CKKS plaintext {self.shape}: level {self.level}, scale 2^{math.log2(self.scale):.1f}>"


def encode(
    parameters: Parameters, values: Any, *, slots: int = -1, level: int | None = None, scale: float | None = None
) -> Plaintext:
    """Encodes numbers as plaintexts, once for many uses. The axis `slots` of `values` becomes the slots; zeros fill the
    remaining slots.

    `level` (default the top) and `scale` (default the scale of that level) must be those of the tensors that use the
    plaintexts. Raises DtypeError, ShapeError, PlaintextRangeError, SlotsError, LevelError, ScaleError.

    >>> secret.decrypt(x[0] + hg.ckks.encode(params, [1, 2, 3, 4])).round(4)
    array([1.5, 3.5, 5.5, 7.5])
    """
    parameters = of_kind(parameters, Parameters, "CKKS encodes by")
    array, is_complex = complexes(values, "the values")
    array = moved_last(array, slots, "the values")
    at = level_of(parameters, level)
    return Plaintext(
        _core.ckks.encode(parameters._core, array, is_complex, at, 0.0 if scale is None else real(scale, "the scale"))
    )


def _operand(x: Tensor, values: Any, what: str) -> tuple[Any, bool, bool]:
    """Returns clear numbers as [..., slots] or [..., 1], whether the numbers are complex, and whether there is one per
    ciphertext."""
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
        instead = f"; for a number for each ciphertext write c{index}, as in x - c{index}" if each else ""
        raise _core.ShapeError(
            f"{what} have a last axis of length {have:,}, which must be that of the slots, {x.slots:,}, or 1{instead}"
        )
    return array, is_complex, False


def factor_scale(x: Tensor) -> float:
    """Returns the scale of clear factors for which the rescaled product has its level's scale.

    Raises ScaleError for a tensor at the scale of a product, because the factors would keep no precision."""
    level_scale = x.parameters.scale(x.level)
    if x.scale > 2 * level_scale:
        raise _core.ScaleError(
            f"this tensor has a scale of 2^{math.log2(x.scale):.1f}, its level one of 2^{math.log2(level_scale):.1f}: "
            "rescale products before they are multiplied by clear numbers"
        )
    return level_scale * level_scale / x.scale


def power_of_two(count: Any) -> int:
    """Returns the number of slots of a sum. Raises ShapeError unless it is a power of two."""
    n = whole(count, "the number of slots")
    if n < 1 or n & (n - 1):
        raise _core.ShapeError(
            f"the number of slots of a sum must be a power of two, not {n}; to sum all slots, pass the parameter set's "
            "`period`"
        )
    return n


def _keys_hint(count: int) -> str:
    """Returns the argument of `evaluation_keys` for a sum over `count` slots."""
    return f"rotations=hg.ckks.sum_rotations({count})"


def sum_rotations(count: int) -> list[int]:
    """Returns the rotation steps that `sum_slots` over `count` slots needs keys for. Raises ShapeError.

    >>> hg.ckks.sum_rotations(8)
    [1, 2, 4]
    """
    return [1 << i for i in range(power_of_two(count).bit_length() - 1)]
