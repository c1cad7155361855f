"""The encrypted program of a network: linear maps, polynomials and bootstraps on tensors of CKKS."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heliograph import ckks
from heliograph.ckks.approximation import with_errors
from heliograph.ml.costs import Counter
from heliograph.ml.networks.cuts import Cut, Network
from heliograph.ml.networks.design import Design, Map
from heliograph.ml.networks.diagonals import Blocks, Diagonals
from heliograph.ml.networks.fitting import Polynomial
from heliograph.ml.networks.placing import Plan
from heliograph.ml.networks.terms import Floats

#: Assumed error of arguments in [-1, 1], for the limits of guards. Worst-case bounds grow by orders of magnitude with each
#: layer, beyond all use; `NetworkModel.simulate` models the errors and `compare` measures them.
_ARGUMENT_ERROR = 2.0**-12
_Key = tuple[str, str, str]  #: of a matrix: the cut that reads it, the cut that it reads, and its part of filled copies
_SAME = 1e-9  # largest relative distance of factors that count as equal


@dataclass(frozen=True)
class Units:
    """Numbers by which values are divided in ciphertexts, so that encrypted values are in [-1, 1].

    `arguments` are the middle and half the length of the intervals of activations."""

    values: Mapping[str, float]
    arguments: Mapping[str, tuple[float, float]]
    output: float


@dataclass
class Circuit:
    """A network with polynomials, layouts, levels and a parameter set. Calls take and return tensors of ciphertexts.

    Encoded matrices are made at the first call and kept; with `lean` they are made for each call and dropped after use.
    `compact` matrices take about a tenth of the memory, and are transformed again for each product. By default they are
    compact if all of them would take more than half of the free memory."""

    network: Network
    design: Design
    plan: Plan
    polynomials: Mapping[str, Polynomial]
    units: Units
    parameters: ckks.Parameters
    guard: bool = True
    lean: bool = False
    compact: bool | None = None
    _encoded: dict[_Key, Any] = field(default_factory=dict, repr=False)

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for the keys of the circuit."""
        needs: dict[str, Any] = {
            "relinearize": True,
            "level_rotations": level_rotations(self.parameters, self.design, self.plan),
        }
        if self.plan.bootstraps:
            needs["bootstrap"] = True
        return needs

    @property
    def guarded(self) -> frozenset[str]:
        """Names of the guards of answers."""
        return frozenset(_guarded_text(cut.label, self.polynomials[cut.name]) for cut in self.network.activations)

    @property
    def input_level(self) -> int:
        """Level of the encrypted input."""
        return self.plan.places[self.network.cuts[0].name].value

    def __call__(self, x: Any, observer: Callable[[str, Any], None] | None = None) -> Any:
        """Returns the encrypted output (ciphertexts,) of an encrypted input (ciphertexts,).

        `observer` receives the name of each cut and its value."""
        values = {self.network.cuts[0].name: x}
        users = {name: i for i, cut in enumerate(self.network.cuts) if cut.form for name in cut.form.maps}
        kept = {m.source for m in self.design.output_maps}
        for i, cut in enumerate(self.network.cuts):
            if cut.form is None:
                continue
            values[cut.name] = (self._product if cut.is_product else self._activated)(cut, values)
            if observer is not None:
                observer(cut.name, values[cut.name])
            for name in [n for n, last in users.items() if last == i and n not in kept]:
                values.pop(name, None)
        constant, scaling = self.network.output.constant, (0.0, self.units.output)
        result = self._form("", self.design.output_maps, constant, scaling, self.plan.output, values)
        # Without a figure for the noise, decryption accepts only declared bounds. Bounds that are known without the
        # intervals, such as those of small inputs beside larger constants, are not declared.
        return with_errors(result, (math.nan, _ARGUMENT_ERROR))

    def _product(self, cut: Cut, values: Mapping[str, Any]) -> Any:
        """Returns the product of two cuts."""
        place = self.plan.places[cut.name]
        one, two = (
            _lowered(values[m.source], place.form)
            if m.factor is not None
            else self._transformed(cut.name, m, 1.0, place.form, values[m.source], False)
            for m in self.design.maps[cut.name]
        )
        y = with_errors((one * two).within((-1.0, 1.0)), (math.nan, _ARGUMENT_ERROR))
        return _lowered(self._bootstrapped(y, 1.0, place.value) if place.after else y, place.value)

    def _activated(self, cut: Cut, values: Mapping[str, Any]) -> Any:
        """Returns the value of an activation."""
        name, form = cut.name, cut.form
        place = self.plan.places[name]
        assert form is not None
        u = self._form(name, self.design.maps[name], form.constant, self.units.arguments[name], place.form, values)
        u = u.within((-1.0, 1.0))
        if place.before:
            u = _lowered(self._bootstrapped(u, 1.0, place.argument).within((-1.0, 1.0)), place.argument)
        fitted = self.polynomials[name]
        if fitted.is_identity and not (place.before or place.after):
            return _lowered(with_errors(u, (math.nan, _ARGUMENT_ERROR)), place.value)
        text = _guarded_text(cut.label, fitted) if self.guard else ""
        coefficients = [c / self.units.values[name] for c in fitted.coefficients]
        u = with_errors(u._guarded(self.guard), (math.nan, _ARGUMENT_ERROR))
        y = with_errors(u._polynomial(coefficients, "chebyshev", text), (math.nan, math.nan))
        if place.after:
            low, high = _bound(fitted, self.units.values[name])
            y = self._bootstrapped(y.within((low, high)), max(-low, high), place.value)
        return _lowered(y, place.value)

    def _bootstrapped(self, x: Any, bound: float, level: int) -> Any:
        """Returns values of at most `bound`, bootstrapped to a level."""
        return x.bootstrap(bound, level=max(level, self.parameters.bootstrapping_level))

    def _form(
        self,
        name: str,
        maps: tuple[Map, ...],
        constant: Floats,
        scaling: tuple[float, float],
        level: int,
        values: Mapping[str, Any],
    ) -> Any:
        """Returns (maps + constant - middle) / half at a level."""
        middle, half = scaling
        target = self.design.layouts[name] if name else self.design.output
        filled = name != "" and self.plan.places[name].filled
        total: Any = None
        for m in maps:
            unit = self.units.values[m.source] / half
            if m.factor is not None:
                part = _scaled(values[m.source], m.factor * unit, level)
            else:
                part = self._transformed(name, m, unit, level, values[m.source], filled)
            total = part if total is None else total + part
        offset = target.spread((constant - middle) / half, -self._unused(maps, half))
        return total + offset if np.any(offset) else total

    def _unused(self, maps: tuple[Map, ...], half: float) -> float:
        """Returns the sum of maps in the slots that the layout does not use: there activations have their value at the
        middle of the interval, and all other values are 0."""
        return math.fsum(m.factor * self._unused_value(m.source) / half for m in maps if m.factor is not None)

    def _unused_value(self, name: str) -> float:
        """Returns the value of a cut in the slots that its layout does not use."""
        fitted = self.polynomials.get(name)
        if fitted is not None:
            return float(fitted(np.array([(fitted.low + fitted.high) / 2]))[0])
        maps = self.design.maps.get(name, ())
        return math.prod(0.0 if m.factor is None else self._unused_value(m.source) for m in maps) if maps else 0.0

    def _transformed(self, name: str, m: Map, unit: float, level: int, x: Any, filled: bool) -> Any:
        """Returns a map by diagonals of a tensor (ciphertexts,)."""
        for key, above, blocks, factor in self._parts(name, m, unit, filled):
            x = self._transform(key, blocks, factor, level + above)(x)
            for step in next(iter(blocks.values())).folds:
                x = x + x.rotate(step)
        return x

    def _parts(self, name: str, m: Map, unit: float, filled: bool) -> Iterator[tuple[_Key, int, Blocks, float]]:
        """Yields the matrices of a map: key, levels of the operand above the result, diagonals, and their factor."""
        if filled and m.filled is not None:
            yield (name, m.source, "spread"), 2, {(0, 0): m.filled.spread}, 1.0
            yield (name, m.source, "filled"), 1, {(0, 0): m.filled.matrix}, unit
        elif m.diagonals:
            yield (name, m.source, ""), 1, m.diagonals, unit

    def prepare(self) -> None:
        """Encodes all matrices now, instead of at the first call. Does nothing with `lean`."""
        if self.lean:
            return
        for cut in self.network.cuts:
            if cut.is_product:
                for m in self.design.maps[cut.name]:
                    half = self.units.values[m.source]
                    self._encode(cut.name, (m,), half, self.plan.places[cut.name].form, False)
            elif cut.form is not None:
                half = self.units.arguments[cut.name][1]
                place = self.plan.places[cut.name]
                self._encode(cut.name, self.design.maps[cut.name], half, place.form, place.filled)
        self._encode("", self.design.output_maps, self.units.output, self.plan.output, False)

    def _encode(self, name: str, maps: tuple[Map, ...], half: float, level: int, filled: bool) -> None:
        for m in maps:
            for key, above, blocks, factor in self._parts(name, m, self.units.values[m.source] / half, filled):
                self._transform(key, blocks, factor, level + above)

    def _is_compact(self) -> bool | None:
        """Tells whether matrices are compact: as requested, or if all of them would take more than half of the memory."""
        if self.compact is None and not self.lean and not self._encoded:
            large = matrix_bytes(self.parameters, self.design, self.plan)
            self.compact = True if 2 * large > self.parameters.free_memory else None
        return self.compact

    def _transform(self, key: _Key, blocks: Blocks, unit: float, level: int) -> Any:
        """Returns an encoded matrix: one of `LinearTransform`, or of `BlockTransform` for tensors of several ciphertexts."""
        if key in self._encoded:
            return self._encoded[key]
        layouts = self.design.layouts
        target = layouts[key[0]] if key[0] else self.design.output
        shape = target.ciphertexts, layouts[key[1]].ciphertexts
        made = transform_of(self.parameters, blocks, shape, unit, level, self._is_compact())
        if not self.lean:
            self._encoded[key] = made
        return made


def _guarded_text(label: str, fitted: Polynomial) -> str:
    return f"{label} on [{fitted.low:.4g}, {fitted.high:.4g}]"


def matrix_bytes(p: ckks.Parameters, design: Design, plan: Plan) -> int:
    """Returns the bytes of the encoded matrices: words of the level's and the special primes, once per period."""
    special = len(p._core.spec.special)
    total = 0
    for result, above, matrix in matrices(design, plan):
        words = p._core.level_limbs(min(result + above, p.levels)) + special
        total += matrix.count * 2 * matrix.period * words * p.word_size // 8
    return int(total)


def matrices(design: Design, plan: Plan) -> Iterator[tuple[int, int, Diagonals]]:
    """Yields the matrices of a plan: the level of the map's result, the levels of the operand above it, and diagonals."""
    for name, maps in (*design.maps.items(), ("", design.output_maps)):
        place = plan.places.get(name) if name else None
        for m in maps:
            for above, matrix in m.parts(place is not None and place.filled):
                yield (plan.output if place is None else place.form), above, matrix


def level_rotations(parameters: ckks.Parameters, design: Design, plan: Plan) -> dict[int, list[int]]:
    """Returns the steps of rotation keys by level, ascending. Neighbouring levels share keys if this takes fewer bytes."""
    steps: dict[int, set[int]] = {}
    for result, above, matrix in matrices(design, plan):
        steps.setdefault(result + above, set()).update(matrix.rotations)
        steps.setdefault(result, set()).update(matrix.folds)
    for level in sorted(steps, reverse=True):
        high, low = steps.get(level, set()), steps.get(level - 1, set())
        each, less = level_key_bytes(parameters, level), level_key_bytes(parameters, max(1, level - 1))
        if len(high | low) * each < len(high) * each + len(low) * less:
            steps[level] = high | low
            del steps[level - 1]
    return {level: sorted(some) for level, some in sorted(steps.items()) if some}


@functools.lru_cache(maxsize=256)
def level_key_bytes(p: ckks.Parameters, level: int) -> int:
    """Returns the bytes of a rotation key for a level."""
    return Counter(p, level).rotation_key_bytes()


def transform_of(
    parameters: ckks.Parameters, blocks: Blocks, shape: tuple[int, int], unit: float, level: int, compact: bool | None = None
) -> ckks.LinearTransform | ckks.BlockTransform:
    """Encodes the diagonals times `unit` for operands of a level. `shape` has the ciphertexts of output and input."""
    some = next(iter(blocks.values()))
    period = some.period if some.period < parameters.slots else None
    made = {name: _entries(diagonals, unit) for name, diagonals in blocks.items()}
    if shape == (1, 1):
        return ckks.LinearTransform.from_diagonals(
            parameters, made[0, 0], period=period, level=level, baby=some.baby, compact=compact
        )
    table = [[made.get((to, of)) for of in range(shape[1])] for to in range(shape[0])]
    return ckks.BlockTransform(parameters, table, period=period, level=level, baby=some.baby, compact=compact)


def _entries(diagonals: Diagonals, unit: float) -> dict[int, Floats]:
    """Returns diagonals times a factor, by their numbers."""
    values = diagonals.values() * unit
    return {int(k): values[i] for i, k in enumerate(diagonals.numbers)}


def _bound(fitted: Polynomial, unit: float) -> tuple[float, float]:
    """Returns the bounds of the encrypted values of a polynomial on its interval."""
    x = np.linspace(fitted.low, fitted.high, 4097)
    y = fitted(x) / unit
    return min(float(y.min()), -1.0), max(float(y.max()), 1.0)


def _lowered(x: Any, level: int) -> Any:
    return x.lower(level) if x.level > level else x


def _scaled(x: Any, factor: float, level: int) -> Any:
    """Returns a tensor times a number, at a level."""
    if is_one(factor):
        return _lowered(x, level)
    return _lowered(x, level + 1) * factor


def is_one(factor: float) -> bool:
    """Tells whether a factor needs no multiplication."""
    return abs(factor - 1) < _SAME


def units_of(network: Network, design: Design, polynomials: Mapping[str, Polynomial], largest: Mapping[str, float]) -> Units:
    """Chooses the units of values, so that additions in place need no multiplication.

    `largest` has the largest magnitudes of the input and of the output."""
    arguments = {name: ((p.low + p.high) / 2, (p.high - p.low) / 2) for name, p in polynomials.items()}
    name = network.cuts[0].name
    output = largest["output"]
    values: dict[str, float] = {}
    factors = {m.source for cut in network.cuts if cut.is_product for m in design.maps[cut.name]}
    for cut in network.cuts:
        if cut.is_product:
            values[cut.name] = math.prod(values[m.source] for m in design.maps[cut.name])
            continue
        top = largest["input"] if cut.name == name else _largest(polynomials[cut.name])
        if cut.name in factors:  # in [-1, 1], so that the product is, too; the identity is its argument
            values[cut.name] = top
            continue
        wanted = [
            arguments[user][1] / m.factor
            for user, maps in design.maps.items()
            if user in arguments
            for m in maps
            if m.source == cut.name and m.factor is not None and m.factor > 0
        ]
        wanted += [output / m.factor for m in design.output_maps if m.source == cut.name and m.factor]
        near = [w for w in wanted if top / 2 <= w <= 32 * top]
        values[cut.name] = near[0] if near else top
    return Units(values, arguments, output)


def _largest(fitted: Polynomial) -> float:
    x = np.linspace(fitted.low, fitted.high, 4097)
    return fitted.high if fitted.is_identity else max(float(np.abs(fitted(x)).max()), 1e-300)
