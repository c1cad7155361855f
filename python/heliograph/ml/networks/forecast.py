"""Predicted seconds of a compiled network on a target, by its profile."""

from __future__ import annotations

import math

import numpy as np

from heliograph import ckks
from heliograph.ml.networks.design import Map
from heliograph.ml.networks.program import Circuit, is_large, is_one, matrix_bytes
from heliograph.ml.profile import Profile


def products_of(degree: int) -> int:
    """Returns about the multiplications of a polynomial by baby steps and giant steps.

    >>> products_of(31)
    12
    """
    return max(1, round(2 * math.sqrt(degree + 1) + math.log2(degree + 1) - 4))


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
            total += count * forecast.rates.product(place.argument, count)
            total += count * forecast.rates.bootstrap(count) if place.after else 0.0
            continue
        if fitted.is_identity:
            guard = 2 * forecast.rates.product(place.form, count) if place.before else 0.0
            total += count * (guard + forecast.rates.bootstrap(count)) if place.before else 0.0
            continue
        middle = max(2, place.argument - fitted.depth // 2)
        products = products_of(fitted.degree) + circuit.guard  # a guard is a square, without the key switch of a product
        total += count * products * forecast.rates.product(middle, count)
        if place.before or place.after:
            total += count * (place.before + place.after) * forecast.rates.bootstrap(count)
    return total + forecast.maps("", plan.output)


class _Forecast:
    """Seconds of the linear maps of a circuit."""

    def __init__(self, circuit: Circuit, profile: Profile, parameters: ckks.Parameters) -> None:
        self._circuit, self.rates = circuit, profile.rates(parameters)
        design = circuit.design
        self._columns = design.columns
        self._passes = -(-design.groups // circuit.part)  # a compact matrix is transformed in each part of a request
        memory = profile.memory
        large = memory is not None and is_large(matrix_bytes(parameters, design, circuit.plan), memory)
        self._compact = large if circuit.compact is None else circuit.compact

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
                total += rates.rotation(max(1, level), count * self._columns) * count * self._columns
        return total

    def _parts(self, level: int, m: Map, filled: bool) -> float:
        """Returns the seconds of a map between tensors of one ciphertext."""
        rates, columns, total = self.rates, self._columns, 0.0
        for above, d in m.parts(filled):
            total += columns * rates.transform(level + above, (int(k) for k in d.numbers), d.baby, columns)
            total += columns * len(d.folds) * rates.rotation(max(1, level), columns)
            total += self._transforms(level + above, d.count)
        return total

    def _blocks(self, level: int, m: Map) -> float:
        """Returns the seconds of a map between tensors of several ciphertexts."""
        rates, columns = self.rates, self._columns
        outputs, inputs = ({name[i] for name in m.diagonals} for i in (0, 1))
        every = m.diagonals.values()
        babies = len({(of, int(k)) for (_, of), d in m.diagonals.items() for k in np.unique(d.numbers % d.baby) if k})
        folds = sum(len(d.folds) for d in {to: d for (to, _), d in m.diagonals.items()}.values())
        giants = m.turns() - babies - folds
        bases = max(len(outputs), len(inputs)) - 1
        total = rates.parts(level + 1, sum(d.count for d in every), babies, giants, columns)
        total += bases * rates.parts(level + 1, 0, 0, 0, columns) + folds * rates.rotation(max(1, level), columns)
        return columns * total + self._transforms(level + 1, sum(d.count for d in every))

    def _transforms(self, level: int, diagonals: int) -> float:
        return self._passes * self.rates.transforms(level, diagonals) if self._compact else 0.0
