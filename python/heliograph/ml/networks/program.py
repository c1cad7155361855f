"""The encrypted program of a network: linear maps, polynomials and bootstraps on tensors of CKKS."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from heliograph import ckks
from heliograph._common.functions import concatenate
from heliograph.ckks.approximation import doubled_parts, inside, with_errors
from heliograph.ml.activations import FUNCTIONS
from heliograph.ml.costs import Counter
from heliograph.ml.networks.contraction import Contraction
from heliograph.ml.networks.cuts import Cut, Network
from heliograph.ml.networks.design import Design, Map
from heliograph.ml.networks.diagonals import Blocks, Diagonals
from heliograph.ml.networks.evaluation import is_relative
from heliograph.ml.networks.fitting import Polynomial
from heliograph.ml.networks.placing import Plan
from heliograph.ml.networks.terms import Floats
from heliograph.programs.forecast import unannounced

#: Assumed error of arguments in [-1, 1], for the limits of guards. Worst-case bounds grow by orders of magnitude with each
#: layer, beyond all use; `NetworkModel.simulate` models the errors and `compare` measures them.
_ARGUMENT_ERROR = 2.0**-12
_Key = tuple[str, str, str]  #: of a matrix: the cut that reads it, the cut that it reads, and its part of filled copies
_SAME = 1e-9  # largest relative distance of factors that count as equal
_PART_BYTES = 1 << 30  # largest bytes of one tensor in a call; more groups are computed in parts
_MATRIX_SHARE = 0.65  # share of the free memory that encoded matrices may take, else they are compact
_WORK = 16  # tensors that a call holds at a time: values, powers of an argument, parts of matrices
_ROOM_SHARE = 0.9  # of the room that bounds of outputs may take
_UNIT_ROUNDS = 4  # of the search of units
_MOST_EXCESS = 4.0  # largest ratio of approximated and exact inverses with which products have bounds
_MOST_GAIN = 5  # log2 of the largest value of a factor
_PAIRED = 0.5  # factor of matrices of paired groups, whose parts are doubled


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

    Tensors have the shape (ciphertexts,), or (groups, ciphertexts) if a full request has several groups. Each linear map
    takes two groups at a time, as real and imaginary parts.

    Encoded matrices and constants are made at the first call and kept; with `lean` they are made for each call and dropped
    after use. `compact` matrices take about a tenth of the memory, and are transformed again for each product. By default
    they are compact if all of them would take more than 65% of the free memory."""

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
    _constants: dict[tuple[str, int, float], Any] = field(default_factory=dict, init=False, repr=False)
    _encoded_masks: dict[tuple[bytes, int, int], Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def needs(self) -> dict[str, Any]:
        """Arguments of `SecretKey.evaluation_keys` for the keys of the circuit."""
        needs: dict[str, Any] = {
            "relinearize": True,
            "level_rotations": level_rotations(self.parameters, self.design, self.plan),
        }
        if self.plan.bootstraps:
            needs["bootstrap"] = True
        elif self.design.groups > 1:
            needs["conjugate"] = True
        return needs

    @property
    def guarded(self) -> frozenset[str]:
        """Names of the guards of answers."""
        places = self.plan.places
        guarded = [cut for cut in self.network.activations if not cut.is_linear or places[cut.name].before]
        guarded += [cut for cut in self.network.cuts if self._factors.get(cut.name) == ""]
        return frozenset(self._guard_name(cut.name, cut.label) for cut in guarded)

    @property
    def input_level(self) -> int:
        """Level of the encrypted input."""
        return self.plan.places[self.network.cuts[0].name].value

    @property
    def part(self) -> int:
        """Number of groups that are computed together: an even number, or 1 of the largest tensors."""
        count = _PART_BYTES // (self.design.most_ciphertexts * int(self.parameters.ciphertext_bytes()))
        return max(1, count - count % 2)

    @property
    def work_bytes(self) -> int:
        """About the bytes of the tensors of a call for a full request, without keys and matrices."""
        largest = self.design.most_ciphertexts * int(self.parameters.ciphertext_bytes())
        return _WORK * largest * min(self.part, self.design.groups)

    def __call__(self, x: Any, observer: Callable[[str, Any], None] | None = None) -> Any:
        """Returns the encrypted output (ciphertexts,) or (groups, ciphertexts) of an encrypted input.

        `observer` receives the name of each cut and its value."""
        with unannounced():  # the report states the seconds; a forecast of each bootstrap would take the host longer
            if x.ndim == 1:
                return self._computed(x, observer)
            most = len(x) if observer is not None else self.part
            parts = [self._computed(x[i : i + most].T, observer).T for i in range(0, len(x), most)]
            return parts[0] if len(parts) == 1 else concatenate(parts)

    def _computed(self, x: Any, observer: Callable[[str, Any], None] | None) -> Any:
        """Returns the output (ciphertexts,) or (ciphertexts, groups) of an input."""
        values = {self.network.cuts[0].name: x}
        kept = {m.source for m in self.design.output_maps}
        for cut in self.network.cuts:
            if cut.form is None:
                continue
            values[cut.name] = (self._product if cut.is_product else self._activated)(cut, values)
            if observer is not None:
                observer(cut.name, values[cut.name] if x.ndim == 1 else values[cut.name].T)
            for name in [n for n, last in self._last_users.items() if last == cut.name and n not in kept]:
                values.pop(name, None)
        constant, scaling = self.network.output.constant, (0.0, self.units.output)
        result = self._form("", self.design.output_maps, constant, scaling, self.plan.output, values)
        low, high = result.bounds or (-math.inf, math.inf)
        most = self._output_bound(values)
        if -most > low or most < high:
            result = inside(result, max(low, -most), min(high, most))
        # Without a figure for the noise, decryption accepts only declared bounds. Bounds that are known without the
        # intervals, such as those of small inputs beside larger constants, are not declared.
        return with_errors(result, (math.nan, _ARGUMENT_ERROR))

    @cached_property
    def _last_users(self) -> dict[str, str]:
        """The last cut that reads each cut."""
        return {name: cut.name for cut in self.network.cuts if cut.form is not None for name in cut.form.maps}

    def _product(self, cut: Cut, values: Mapping[str, Any]) -> Any:
        """Returns the product of two cuts, whose values have guards."""
        place = self.plan.places[cut.name]
        one, two = (
            _lowered(values[m.source], place.form)
            if m.factor is not None
            else self._transformed(cut.name, m, 1.0, place.form, values[m.source], False)
            for m in self.design.maps[cut.name]
        )
        if cut.is_contraction:
            y = self._contracted(cut.name, one, two, place.form)
        else:
            second = self.design.maps[cut.name][1]
            y = one * (two if second.copies == 1 else concatenate([two] * second.copies))
            doublings = self._doublings(cut.name)
            y = with_errors(y.within((-(2.0**-doublings), 2.0**-doublings)), (math.nan, _ARGUMENT_ERROR))
            for _ in range(doublings):
                y = y + y
        if place.after:
            low, high = y.bounds
            y = self._bootstrapped(cut.name, y, max(1.0, -low, high), place.value)
        return _lowered(y, place.value)

    def _doublings(self, name: str) -> int:
        """Returns the number of doublings of a product whose known bound is below the product of its factors' units."""
        units = self.units.values
        return max(0, round(math.log2(math.prod(units[m.source] for m in self.design.maps[name]) / units[name])))

    def _contracted(self, name: str, one: Any, two: Any, level: int) -> Any:
        """Returns a product of attention. For each block of the scores it sums all versions of the first factor times the
        second one, rotated. The operands are at `level`; the result is two levels lower."""
        c = self.design.contractions[name]
        each = self.design.layouts[name].ciphertexts // (1 if c.sums_blocks else c.blocks)
        masks = self._masks(c, level, one.ndim)
        turned = self._skewed(name, level)(two)
        parts: list[Any] = []
        versions: Any = None
        for a, steps in enumerate(c.steps):
            if versions is None or c.sums_blocks:
                block = one[a * each : (a + 1) * each] if c.sums_blocks else one
                versions = block.rotate(list(c.versions)) * masks
            parts.append(versions.inner_product(turned.rotate(list(steps)), 0, 1))
        if not c.sums_blocks:
            y = parts[0] if len(parts) == 1 else concatenate(parts)
        else:
            y = parts[0]
            for part in parts[1:]:
                y = y + part
        bound = self._contraction_bound(name)
        return with_errors(y.within((-bound, bound)), (math.nan, _ARGUMENT_ERROR))

    def _contraction_bound(self, name: str) -> float:
        """Returns a bound on a product of attention, for operands inside their intervals."""
        c, unit = self.design.contractions[name], self.units.values[name]
        one, two = (self.units.values[m.source] for m in self.design.maps[name])
        largest = c.terms * one * two / unit
        if c.sums_blocks:  # weights of a softmax have the sum 1, up to the errors of inverses
            return min(largest, self._excess * two / unit)
        for cut in self.network.activations:  # the guard of an activation that adds only constants to the scores
            maps = self.design.maps[cut.name]
            if cut.is_linear or cut.form is None or [m.source for m in maps] != [name] or not maps[0].factor:
                continue
            middle, half = self.units.arguments[cut.name]
            added = float(np.abs((cut.form.constant - middle) / half).max())
            largest = min(largest, (1 + added) * half / (unit * abs(maps[0].factor)))
        return largest

    @cached_property
    def _excess(self) -> float:
        return excess_of(self.network, self.polynomials)

    def _masks(self, c: Contraction, level: int, axes: int) -> Any:
        """Returns the encoded masks of a product of attention, [versions, 1, ...]. Equal masks are encoded once."""
        key = (c.masks.tobytes(), level, axes)
        if key not in self._encoded_masks:
            slots = np.tile(c.masks, self.parameters.slots // c.masks.shape[1])
            made = ckks.encode(self.parameters, slots.reshape(len(slots), *(1,) * axes, -1), level=level)
            if self.lean:
                return made
            self._encoded_masks[key] = made
        return self._encoded_masks[key]

    def _skewed(self, name: str, level: int) -> Any:
        """Returns the matrix of the second factor of a product of attention. It divides by the unit of the product."""
        one, two = self.design.maps[name]
        factor = self.units.values[one.source] * self.units.values[two.source] / self.units.values[name]
        blocks = {(0, 0): self.design.contractions[name].skew}
        return self._transform((name, two.source, "skew"), blocks, factor, level, (1, 1))

    @cached_property
    def _factors(self) -> dict[str, str]:
        """The linear cuts that products read. Those that compute their values have guards."""
        return self.network.factors()

    def _factor(self, name: str, u: Any, text: str) -> Any:
        """Returns the value of a linear cut that products read."""
        u = with_errors(u.within((-1.0, 1.0))._guarded(self.guard), (math.nan, _ARGUMENT_ERROR))
        if text and not self._factors[name]:
            u = u._with_guards(u._polynomial([0.0, 1.0], "chebyshev", text))
        return u

    def _guarded(self, x: Any, text: str) -> Any:
        """Returns values that a bootstrap follows, with a guard of [-1, 1], which takes a level."""
        x = with_errors(x.within((-1.0, 1.0))._guarded(self.guard), (math.nan, _ARGUMENT_ERROR))
        x = with_errors(x._polynomial([0.0, 1.0], "chebyshev", text), (math.nan, _ARGUMENT_ERROR))
        return x.within((-1.0, 1.0))

    def _activated(self, cut: Cut, values: Mapping[str, Any]) -> Any:
        """Returns the value of an activation."""
        name, form = cut.name, cut.form
        place = self.plan.places[name]
        assert form is not None
        u = self._form(name, self.design.maps[name], form.constant, self.units.arguments[name], place.form, values)
        fitted = self.polynomials[name]
        text = self._guard_name(name, cut.label) if self.guard else ""
        if fitted.is_identity and not place.before and name in self._factors:
            return _lowered(self._factor(name, u, text), place.value)
        if fitted.is_identity and not place.before:  # right for all values, so there is no guard and no declared bound
            return _lowered(with_errors(u, (math.nan, math.nan)), place.value)
        if fitted.is_identity:
            return _lowered(self._bootstrapped(name, self._guarded(u, text), 1.0, place.value), place.value)
        u = u.within((-1.0, 1.0))
        if place.before:
            u = _lowered(self._bootstrapped(name, u, 1.0, place.argument).within((-1.0, 1.0)), place.argument)
        coefficients, (low, high) = self._activations[name]
        # A bootstrap takes values of about 1, which are doubled after it.
        doublings = max(0, math.ceil(math.log2(max(-low, high) / 2))) if place.after else 0
        coefficients, low, high = [c / 2**doublings for c in coefficients], low / 2**doublings, high / 2**doublings
        u = with_errors(u._guarded(self.guard), (math.nan, _ARGUMENT_ERROR))
        y = with_errors(u._polynomial(coefficients, "chebyshev", text), (math.nan, math.nan))
        if place.after:
            y = self._bootstrapped(name, y.within((low, high)), max(-low, high), place.value)
            for _ in range(doublings):
                y = y + y
        return _lowered(y, place.value)

    def _output_bound(self, values: Mapping[str, Any]) -> float:
        """Returns a bound on the encrypted outputs, from those of the cuts and the sums of magnitudes in each slot. The
        engine's own bound has the largest magnitude of each diagonal, and may be much larger."""
        most = float(np.abs(self.network.output.constant).max(initial=0.0)) / self.units.output
        for m in self.design.output_maps:
            if m.source in self._activations and not self.polynomials[m.source].is_identity:
                low, high = self._activations[m.source][1]
            else:
                low, high = values[m.source].bounds or (-math.inf, math.inf)
            norm = self._output_norms[m.source] * self.units.values[m.source] / self.units.output
            most += norm * max(-low, high)
        return most * (1 + _SAME)

    @cached_property
    def _output_norms(self) -> dict[str, float]:
        return {m.source: m.norm for m in self.design.output_maps}

    def _guard_name(self, name: str, label: str) -> str:
        """Returns the name of the guard of an argument: the node and the interval."""
        middle, half = self.units.arguments.get(name, (0.0, self.units.values[name]))
        return f"{label} on [{middle - half:.4g}, {middle + half:.4g}]"

    @cached_property
    def _activations(self) -> dict[str, tuple[list[float], tuple[float, float]]]:
        """The coefficients in units, and the bounds of values."""
        made = {}
        for name, fitted in self.polynomials.items():
            unit = self.units.values[name]
            made[name] = ([c / unit for c in fitted.coefficients], _bound(fitted, unit))
        return made

    def _bootstrapped(self, name: str, x: Any, bound: float, level: int) -> Any:
        """Returns values of a cut of at most `bound`, bootstrapped to a level. Values repeat with the layout's period."""
        layout = self.design.layouts[name]
        repeated = layout.period * layout.share
        period = repeated if repeated < layout.slots else None
        return x.bootstrap(bound, level=max(level, self.parameters.bootstrapping_level + 1), period=period)

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
        filled = name != "" and self.plan.places[name].filled
        total: Any = None
        for m in maps:
            unit = self.units.values[m.source] / half
            if m.factor is not None:
                part = _scaled(values[m.source], m.factor * unit, level)
            else:
                part = self._transformed(name, m, unit, level, values[m.source], filled)
            total = part if total is None else total + part
        offset = self._constant(name, maps, (constant - middle) / half, half, total)
        return total if offset is None else total + offset

    def _constant(self, name: str, maps: tuple[Map, ...], values: Floats, half: float, x: Any) -> Any:
        """Returns the encoded constant of a form for a tensor (ciphertexts,) or (ciphertexts, groups); None for zeros."""
        key = (name, x.level, x.scale)
        if key in self._constants:
            return self._constants[key]
        target = self.design.layouts[name] if name else self.design.output
        slots = target.spread(values, -self._unused(maps, half))
        made: Any = None
        if np.any(slots):
            shaped = slots if x.ndim == 1 else slots[:, None]
            made = ckks.encode(self.parameters, shaped, level=x.level, scale=x.scale)
        if not self.lean:
            self._constants[key] = made
        return made

    def _unused(self, maps: tuple[Map, ...], half: float) -> float:
        """Returns the sum of maps in the slots that the layout does not use: there activations have their value at the
        middle of the interval, and all other values are 0."""
        return math.fsum(m.factor * self._unused_value(m.source) / half for m in maps if m.factor is not None)

    def _unused_value(self, name: str) -> float:
        """Returns the value of a cut in the slots that its layout does not use."""
        fitted = self.polynomials.get(name)
        if fitted is not None:
            return float(fitted(np.array([(fitted.low + fitted.high) / 2]))[0])
        if name in self.design.contractions:
            return 0.0
        maps = self.design.maps.get(name, ())
        return math.prod(0.0 if m.factor is None else self._unused_value(m.source) for m in maps) if maps else 0.0

    def _transformed(self, name: str, m: Map, unit: float, level: int, x: Any, filled: bool) -> Any:
        """Returns a map by diagonals of a tensor (ciphertexts,) or (ciphertexts, groups)."""
        several = x.ndim == 2
        y = _paired(x) if several else x
        for key, above, blocks, factor in self._parts(name, m, unit, filled):
            y = self._transform(key, blocks, factor, level + above)(y)
            for step in next(iter(blocks.values())).folds:
                y = y + y.rotate(step)
        return _separated(y, x.shape[1]) if several else y

    def _parts(self, name: str, m: Map, unit: float, filled: bool) -> Iterator[tuple[_Key, int, Blocks, float]]:
        """Yields the matrices of a map: key, levels of the operand above the result, diagonals, and their factor."""
        paired = _PAIRED if self.design.groups > 1 else 1.0
        if filled and m.filled is not None:
            yield (name, m.source, "spread"), 2, {(0, 0): m.filled.spread}, 1.0
            yield (name, m.source, "filled"), 1, {(0, 0): m.filled.matrix}, unit * paired
        elif m.diagonals:
            yield (name, m.source, ""), 1, m.diagonals, unit * paired

    def prepare(self) -> None:
        """Encodes all matrices now, instead of at the first call. Does nothing with `lean`."""
        if self.lean:
            return
        for cut in self.network.cuts:
            if cut.is_product:
                level = self.plan.places[cut.name].form
                for m in self.design.maps[cut.name]:
                    self._encode(cut.name, (m,), self.units.values[m.source], level, False)
                if cut.is_contraction:
                    self._masks(self.design.contractions[cut.name], level, 2 if self.design.groups > 1 else 1)
                    self._skewed(cut.name, level)
            elif cut.form is not None:
                half = self.units.arguments[cut.name][1]
                place = self.plan.places[cut.name]
                self._encode(cut.name, self.design.maps[cut.name], half, place.form, place.filled)
        self._encode("", self.design.output_maps, self.units.output, self.plan.output, False)

    def forget(self) -> None:
        """Frees encoded matrices and constants. The next call makes them again."""
        self._encoded.clear()
        self._constants.clear()
        self._encoded_masks.clear()

    def _encode(self, name: str, maps: tuple[Map, ...], half: float, level: int, filled: bool) -> None:
        for m in maps:
            for key, above, blocks, factor in self._parts(name, m, self.units.values[m.source] / half, filled):
                self._transform(key, blocks, factor, level + above)

    def _is_compact(self) -> bool | None:
        """Tells whether matrices are compact: as requested, or if all of them would take too much of the free memory."""
        if self.compact is None and not self.lean and not self._encoded:
            nbytes = matrix_bytes(self.parameters, self.design, self.plan)
            self.compact = is_large(nbytes, self.parameters.free_memory)
        return self.compact

    def _transform(self, key: _Key, blocks: Blocks, unit: float, level: int, shape: tuple[int, int] | None = None) -> Any:
        """Returns an encoded matrix: one of `LinearTransform`, or of `BlockTransform` for tensors of several ciphertexts.

        `shape` has the ciphertexts of output and input, by default those of the layouts."""
        if key in self._encoded:
            return self._encoded[key]
        layouts = self.design.layouts
        target = layouts[key[0]] if key[0] else self.design.output
        shape = (target.ciphertexts, layouts[key[1]].ciphertexts) if shape is None else shape
        made = transform_of(self.parameters, blocks, shape, unit, level, self._is_compact())
        if not self.lean:
            self._encoded[key] = made
        return made


def _paired(x: Any) -> Any:
    """Returns a tensor (ciphertexts, groups) whose neighbouring groups are real and imaginary parts: half the groups."""
    count = x.shape[1]
    if count == 1:
        return x
    pairs = x[:, 0 : count - 1 : 2] + x[:, 1::2] * 1j
    return pairs if count % 2 == 0 else concatenate([pairs, x[:, -1:]], axis=1)


def _separated(y: Any, count: int) -> Any:
    """Returns twice the groups (ciphertexts, count) of pairs (ciphertexts, half of them)."""
    if count == 1:
        return y + y
    parts = doubled_parts(y)  # [parts, ciphertexts, pairs]
    every = parts.transpose(1, 2, 0).reshape(y.shape[0], -1)
    return every[:, :count]


def is_large(nbytes: int, memory: int) -> bool:
    """Tells whether matrices of `nbytes` bytes are compact on a device with `memory` free bytes.

    >>> is_large(8 << 30, 8 << 30)
    True
    """
    return nbytes > _MATRIX_SHARE * memory


def matrix_bytes(p: ckks.Parameters, design: Design, plan: Plan) -> int:
    """Returns the bytes of the encoded matrices and constants. Matrices have words of the level's and the special primes,
    once per period."""
    special = len(p._core.spec.special)
    total = 0
    for result, above, matrix in matrices(design, plan):
        words = p._core.level_limbs(min(result + above, p.levels)) + special
        total += matrix.count * 2 * matrix.span * words * p.word_size // 8
    masks = {(made.masks.tobytes(), plan.places[name].form): len(made.masks) for name, made in design.contractions.items()}
    for (_, level), count in masks.items():
        total += count * p.n * p._core.level_limbs(level) * p.word_size // 8
    forms = [(design.layouts[name], plan.places[name].form) for name in design.maps]
    for layout, level in (*forms, (design.output, plan.output)):
        total += layout.ciphertexts * p.n * p._core.level_limbs(level) * p.word_size // 8
    return int(total)


def matrices(design: Design, plan: Plan) -> Iterator[tuple[int, int, Diagonals]]:
    """Yields the matrices of a plan: the level of the map's result, the levels of the operand above it, and diagonals."""
    for name, maps in (*design.maps.items(), ("", design.output_maps)):
        place = plan.places.get(name) if name else None
        for m in maps:
            for above, matrix in m.parts(place is not None and place.filled):
                yield (plan.output if place is None else place.form), above, matrix
        if place is not None and name in design.contractions:
            yield place.form - 1, 1, design.contractions[name].skew


def level_rotations(parameters: ckks.Parameters, design: Design, plan: Plan) -> dict[int, list[int]]:
    """Returns the steps of rotation keys by level, ascending. Neighbouring levels share keys if this takes fewer bytes."""
    steps: dict[int, set[int]] = {}
    for result, above, matrix in matrices(design, plan):
        steps.setdefault(result + above, set()).update(matrix.rotations)
        steps.setdefault(result, set()).update(matrix.folds)
    for name, made in design.contractions.items():
        steps.setdefault(plan.places[name].form, set()).update({step for step in made.versions if step})
        steps.setdefault(plan.places[name].form - 1, set()).update(made.rotations)
    for level in sorted(steps, reverse=True):
        high, low = steps.get(level, set()), steps.get(level - 1, set())
        each, less = level_key_bytes(parameters, level), level_key_bytes(parameters, max(1, level - 1))
        if len(high | low) * each < len(high) * each + len(low) * less:
            steps[level] = high | low
            del steps[level - 1]
    return {level: sorted(some) for level, some in sorted(steps.items()) if some}


@lru_cache(maxsize=256)
def level_key_bytes(p: ckks.Parameters, level: int) -> int:
    """Returns the bytes of a rotation key for a level."""
    return Counter(p, level).rotation_key_bytes()


def transform_of(
    parameters: ckks.Parameters, blocks: Blocks, shape: tuple[int, int], unit: float, level: int, compact: bool | None = None
) -> ckks.LinearTransform | ckks.BlockTransform:
    """Encodes the diagonals times `unit` for operands of a level. `shape` has the ciphertexts of output and input."""
    some = next(iter(blocks.values()))
    period = some.period if some.period < parameters.slots else None
    by_input = sorted(blocks.items(), key=lambda item: item[0][::-1])  # the triplets of an input are made once
    values = {name: diagonals.values() for name, diagonals in by_input}
    span = _span(list(values.values()))
    made = {name: _entries(blocks[name], values.pop(name)[:, :span], unit) for name in list(values)}
    if shape == (1, 1):
        return ckks.LinearTransform.from_diagonals(
            parameters, made[0, 0], period=period, level=level, baby=some.baby, compact=compact
        )
    table = [[made.get((to, of)) for of in range(shape[1])] for to in range(shape[0])]
    return ckks.BlockTransform(parameters, table, period=period, level=level, baby=some.baby, compact=compact)


def _span(values: list[Floats]) -> int:
    """Returns the common period of all diagonals, in slots. Plaintexts of a shorter period take less memory.

    >>> _span([np.array([[1.0, 2.0, 1.0, 2.0]])])
    2
    """
    span = int(max(some.shape[1] for some in values))
    while span > 1 and all(np.array_equal(some[:, : span // 2], some[:, span // 2 : span]) for some in values):
        span //= 2
    return span


def _entries(diagonals: Diagonals, values: Floats, unit: float) -> dict[int, Floats]:
    """Returns diagonals times a factor, by their numbers."""
    values = values * unit
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
    arguments = arguments_of(polynomials)
    _share(network, design, arguments)
    name = network.cuts[0].name
    output = largest["output"]
    values: dict[str, float] = {}
    factors = {m.source for cut in network.cuts if cut.is_product for m in design.maps[cut.name]}
    excess = excess_of(network, polynomials)
    for cut in network.cuts:
        if cut.is_product:
            unit = math.prod(values[m.source] for m in design.maps[cut.name])
            if cut.is_contraction:
                unit *= design.contractions[cut.name].terms
                unit = next(iter(_wanted(cut, design, arguments)), unit)
            if (bound := _bound_of(cut, excess)) is not None:
                unit /= 2.0 ** max(0, math.floor(math.log2(unit / bound)))
            values[cut.name] = unit
            continue
        if cut.node is not None and cut.is_linear:
            values[cut.name] = arguments[cut.name][1]
            continue
        top = largest["input"] if cut.name == name else _largest(polynomials[cut.name])
        if cut.name in factors:  # in [-1, 1], so that the product is, too
            values[cut.name] = top / _gain(cut.name, top, network, values, excess)
            continue
        wanted = _wanted(cut, design, arguments)
        wanted += [output / m.factor for m in design.output_maps if m.source == cut.name and m.factor]
        near = [w for w in wanted if top / 2 <= w <= 32 * top]
        values[cut.name] = near[0] if near else top
    return Units(values, arguments, output)


def excess_of(network: Network, polynomials: Mapping[str, Polynomial]) -> float:
    """Returns the largest ratio of approximated to exact inverses, over the smallest one, on all intervals.

    Quotients of approximated inverses exceed their bounds by at most this factor. It is infinite if an approximation is not
    positive."""
    high = low = 1.0
    for cut in network.activations:
        if cut.node is None or not is_relative(cut.node):
            continue
        fitted = polynomials[cut.name]
        if not fitted.low > 0:
            return math.inf
        parameters = tuple(sorted(cut.node.attributes.get("parameters", {}).items()))
        ratios = _ratios(fitted, str(cut.node.attributes["function"]), parameters)
        high, low = max(high, ratios[1]), min(low, ratios[0])
    return high / low if low > 0 else math.inf


@lru_cache(maxsize=4096)
def _ratios(fitted: Polynomial, function: str, parameters: tuple[tuple[str, float], ...]) -> tuple[float, float]:
    """Returns the smallest and the largest ratio of a polynomial to its function on the interval, which is positive."""
    x = np.concatenate([np.linspace(fitted.low, fitted.high, 4097), np.geomspace(fitted.low, fitted.high, 4097)])
    ratio = fitted(x) / FUNCTIONS[function](x, **dict(parameters))
    return float(ratio.min()), float(ratio.max())


def _bound_of(cut: Cut, excess: float) -> float | None:
    """Returns the known bound of a product; None if there is none, or if errors of inverses are too large for it."""
    bound = None if cut.node is None else cut.node.attributes.get("largest")
    return None if bound is None or excess > _MOST_EXCESS else excess * float(bound)


def _gain(name: str, top: float, network: Network, values: Mapping[str, float], excess: float) -> float:
    """Returns the largest encrypted value of a factor, a power of two. It is above 1 if the factor's products are small.

    The inverse of a softmax's sum may be 100, though its products are at most 1: these then keep more bits."""
    gains = []
    for cut in network.cuts:
        if cut.node is None or cut.form is None or not cut.is_product or name not in cut.form.maps:
            continue
        bound = _bound_of(cut, excess)
        other = next(key for key in cut.form.maps if key != name)
        if bound is None or other not in values:
            return 1.0
        gains.append(values[other] * top / bound)
    return 2.0 ** max(0, min(_MOST_GAIN, math.floor(math.log2(min(gains, default=1.0)))))


def _wanted(cut: Cut, design: Design, arguments: Mapping[str, tuple[float, float]]) -> list[float]:
    """Returns the units of a value with which the arguments that add it in place need no multiplication."""
    return [
        arguments[user][1] / m.factor
        for user, maps in design.maps.items()
        if user in arguments
        for m in maps
        if m.source == cut.name and m.factor is not None and m.factor > 0
    ]


def with_room(
    network: Network, design: Design, polynomials: Mapping[str, Polynomial], largest: Mapping[str, float], room: float
) -> Units:
    """Returns units whose output fits `room`, for all values of cuts inside their intervals. Decryption requires this."""
    made = units_of(network, design, polynomials, largest)
    for _ in range(_UNIT_ROUNDS):
        bounds = {
            name: unit * max(map(abs, _bound(polynomials[name], unit))) if name in polynomials else unit
            for name, unit in made.values.items()
        }
        most = network.output.largest(bounds) / (room * _ROOM_SHARE)
        if most <= made.output:
            break
        made = units_of(network, design, polynomials, {**largest, "output": most})
    return made


def arguments_of(polynomials: Mapping[str, Polynomial]) -> dict[str, tuple[float, float]]:
    """Returns the middle and half the length of the interval of each activation."""
    return {name: ((p.low + p.high) / 2, (p.high - p.low) / 2) for name, p in polynomials.items()}


def _share(network: Network, design: Design, arguments: dict[str, tuple[float, float]]) -> None:
    """Enlarges the units of values without an activation, so that chains of additions in place need no multiplication."""
    linear = [cut.name for cut in network.activations if cut.is_linear]
    pairs = [(m.source, name, m.factor) for name in linear for m in design.maps[name] if m.source in linear]
    for some in (pairs, pairs[::-1]):
        for source, name, factor in some:
            if factor is not None and factor > 0:
                half = max(arguments[source][1] * factor, arguments[name][1])
                arguments[source], arguments[name] = (0.0, half / factor), (0.0, half)


def _largest(fitted: Polynomial) -> float:
    x = np.linspace(fitted.low, fitted.high, 4097)
    return max(float(np.abs(fitted(x)).max()), 1e-300)
