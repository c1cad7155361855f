"""Predicted seconds of a compiled network on a target, by its profile."""

from __future__ import annotations

import math

import numpy as np

from heliograph import ckks
from heliograph.ml.networks.design import Map
from heliograph.ml.networks.program import Circuit, is_large, is_one, level_rotations, matrix_bytes
from heliograph.ml.profile import Profile, Rates

_HOISTED = 0.6  # share of a rotation that a hoisted one takes
_UNFINISHED = 0.1  # share of a product without its relinearization
_BATCH = 32  # ciphertexts that these operations take together


def products_of(degree: int) -> int:
    """Returns about the multiplications of a polynomial by baby steps and giant steps.

    >>> products_of(31)
    12
    """
    return max(1, round(2 * math.sqrt(degree + 1) + math.log2(degree + 1) - 4))


def _polynomial(rates: Rates, degree: int, level: int, guard: bool, batch: int) -> float:
    """Returns the seconds of a polynomial, and of its guard: key switches, and weighted sums of powers and divisions.

    Both counts are fits to recorded programs of degrees 1 to 255, within 10% from degree 7 on. A weighted sum takes about
    the time of a product with a number."""
    switches = max(0, round(2 * math.sqrt(degree + 1) - 2))
    sums = round(3 * math.sqrt(degree + 1) + 0.09 * degree) - (not guard)
    return switches * rates.product(level, batch) + sums * rates.constant_product(level, batch)


def seconds_of(circuit: Circuit, profile: Profile, parameters: ckks.Parameters | None = None) -> float:
    """Returns the predicted seconds of one call for a full request, with encoded matrices: matrices, activations with their
    guards, bootstraps. The seconds are those of the profile's device with all its threads at work.

    Matrices that are compact by the device's memory have the time of their transforms. Raises ParameterError if the profile
    has no rates for the word size or for bootstraps."""
    design, plan = circuit.design, circuit.plan
    forecast = _Forecast(circuit, profile, circuit.parameters if parameters is None else parameters)
    total = 0.0
    for name, place in plan.places.items():
        if name not in design.maps:
            continue
        total += forecast.maps(name, place.form, place.filled)
        count = design.layouts[name].ciphertexts * design.groups
        fitted = circuit.polynomials.get(name)
        if fitted is None:  # a product of two cuts
            if name in design.contractions:
                total += forecast.contraction(name, place.form)
            else:
                total += count * forecast.rates.product(place.argument, count)
            total += forecast.bootstraps(count, place.value) if place.after else 0.0
            continue
        if fitted.is_identity:
            if place.before:
                total += count * 2 * forecast.rates.product(place.form, count) + forecast.bootstraps(count, place.value)
            continue
        middle = max(2, place.argument - fitted.depth // 2)
        total += count * _polynomial(forecast.rates, fitted.degree, middle, circuit.guard, count)
        total += forecast.bootstraps(count, place.argument) if place.before else 0.0
        total += forecast.bootstraps(count, place.value) if place.after else 0.0
    return total + forecast.maps("", plan.output)


class _Forecast:
    """Seconds of the linear maps and bootstraps of a circuit."""

    def __init__(self, circuit: Circuit, profile: Profile, parameters: ckks.Parameters) -> None:
        self._circuit, self.rates = circuit, profile.rates(parameters)
        self._profile, self._parameters = profile, parameters
        self._levels = sorted(level_rotations(parameters, circuit.design, circuit.plan))
        self._made: dict[int, Rates] = {}
        design = circuit.design
        self._columns = design.columns
        self._passes = -(-design.groups // circuit.part)  # a compact matrix is transformed in each part of a request
        memory = profile.memory
        large = memory is not None and is_large(matrix_bytes(parameters, design, circuit.plan), memory)
        self._compact = large if circuit.compact is None else circuit.compact

    def at(self, level: int) -> Rates:
        """Returns the seconds of rotations and matrices of operands of a level, with the keys for some level."""
        key = next((one for one in self._levels if one >= level), None)
        if key is None:
            return self.rates
        if key not in self._made:
            self._made[key] = self._profile.rates(self._parameters, key)
        return self._made[key]

    def bootstraps(self, count: int, level: int) -> float:
        """Returns the seconds of `count` bootstraps to a level, or to the lowest level above it that a bootstrap gives."""
        lowest = self._parameters.bootstrapping_level + 1
        return count * self.rates.bootstrap(count, min(max(level, lowest), self._parameters.levels))

    def maps(self, name: str, level: int, filled: bool = False) -> float:
        """Returns the seconds of the maps of one argument, whose result is at a level."""
        design, units, rates = self._circuit.design, self._circuit.units, self.rates
        maps: tuple[Map, ...] = design.maps[name] if name else design.output_maps
        factors = name != "" and name not in units.arguments  # the factors of a product are read as they are
        half = 1.0 if factors else units.arguments[name][1] if name else units.output
        count = (design.layouts[name] if name else design.output).ciphertexts
        total = 0.0 if factors else rates.addition(max(1, level), count * design.groups) * count * design.groups
        for m in maps:
            if m.factor is not None and not factors and not is_one(m.factor * units.values[m.source] / half):
                each = design.layouts[m.source].ciphertexts * design.groups
                total += rates.constant_product(level + 1, each) * each
            if m.factor is not None:
                continue
            total += self._blocks(level, m) if len(m.diagonals) > 1 else self._parts(level, m, filled)
            if design.groups > 1:  # the separation of real and imaginary parts
                total += self.at(level).rotation(max(1, level), count * self._columns) * count * self._columns
        return total

    def contraction(self, name: str, level: int) -> float:
        """Returns the seconds of a product of attention with operands of a level: the versions of both factors, hoisted
        rotations and products without relinearization."""
        design = self._circuit.design
        made, (one, two) = design.contractions[name], design.maps[name]
        first, second = (design.layouts[m.source].ciphertexts * design.groups for m in (one, two))
        versions, rates = len(made.versions), self.at(level)
        result = design.layouts[name].ciphertexts * design.groups
        total = first * versions * _HOISTED * rates.rotation(level, _BATCH)
        total += first * versions * self.rates.constant_product(level, _BATCH)
        total += second * rates.transform(level, (int(k) for k in made.skew.numbers), made.skew.baby, second)
        total += second * len(made.rotations) * _HOISTED * self.at(level - 1).rotation(level - 1, _BATCH)
        total += result * versions * made.blocks * _UNFINISHED * self.rates.product(level - 1, _BATCH)
        return total + result * self.rates.product(level - 1, result)

    def _parts(self, level: int, m: Map, filled: bool) -> float:
        """Returns the seconds of a map between tensors of one ciphertext."""
        columns, total = self._columns, 0.0
        for above, d in m.parts(filled):
            total += columns * self.at(level + above).transform(level + above, (int(k) for k in d.numbers), d.baby, columns)
            total += columns * len(d.folds) * self.at(level).rotation(max(1, level), columns)
            total += self._transforms(level + above, d.count)
        return total

    def _blocks(self, level: int, m: Map) -> float:
        """Returns the seconds of a map between tensors of several ciphertexts."""
        rates, columns = self.at(level + 1), self._columns
        outputs, inputs = ({name[i] for name in m.diagonals} for i in (0, 1))
        every = m.diagonals.values()
        babies = len({(of, int(k)) for (_, of), d in m.diagonals.items() for k in np.unique(d.numbers % d.baby) if k})
        folds = sum(len(d.folds) for d in {to: d for (to, _), d in m.diagonals.items()}.values())
        giants = m.turns() - babies - folds
        bases = max(len(outputs), len(inputs)) - 1
        total = rates.parts(level + 1, sum(d.count for d in every), babies, giants, columns)
        total += bases * rates.parts(level + 1, 0, 0, 0, columns) + folds * self.at(level).rotation(max(1, level), columns)
        return columns * total + self._transforms(level + 1, sum(d.count for d in every))

    def _transforms(self, level: int, diagonals: int) -> float:
        return self._passes * self.rates.transforms(level, diagonals) if self._compact else 0.0
