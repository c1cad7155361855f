"""Predicted seconds of a compiled network on a target, by its profile."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from heliograph import ckks
from heliograph.ml.networks.design import Map
from heliograph.ml.networks.program import Circuit, is_one, level_rotations
from heliograph.ml.profile import Profile, Rates

#: Encoding of a constant: seconds of each step of its transform, and the time of its limbs relative to a rotation. Both as
#: measured on two cores for rings of 2^14 and 2^15.
_ENCODE, _CONSTANT = 1.2e-9, 0.25


class _Levels:
    """Seconds of operations with the rotation keys for some levels, which have fewer primes than those for all levels."""

    def __init__(self, profile: Profile, parameters: ckks.Parameters, levels: list[int]) -> None:
        self.all = profile.rates(parameters)
        self._made: dict[int, Rates] = {}
        self._profile, self._parameters, self._levels = profile, parameters, levels

    def at(self, level: int) -> Rates:
        """Returns the seconds of rotations and matrices of operands of a level."""
        key = next((one for one in self._levels if one >= level), None)
        if key is None:
            return self.all
        if key not in self._made:
            self._made[key] = self._profile.rates(self._parameters, key)
        return self._made[key]


def products_of(degree: int) -> int:
    """Returns about the multiplications of a polynomial by baby steps and giant steps.

    >>> products_of(31)
    12
    """
    return max(1, round(2 * math.sqrt(degree + 1) + math.log2(degree + 1) - 4))


def _polynomial(rates: Rates, degree: int, level: int, guard: bool) -> float:
    """Returns the seconds of a polynomial, and of its guard: key switches, and weighted sums of powers and divisions.

    Both counts are fits to recorded programs of degrees 1 to 255, within 10% from degree 7 on. A weighted sum takes about
    the time of a product with a number."""
    switches = max(0, round(2 * math.sqrt(degree + 1) - 2))
    sums = round(3 * math.sqrt(degree + 1) + 0.09 * degree) - (not guard)
    return switches * rates.product(level) + sums * rates.constant_product(level)


def seconds_of(circuit: Circuit, profile: Profile, parameters: ckks.Parameters | None = None) -> float:
    """Returns the predicted seconds of one call with encoded matrices: matrices, constants, activations with their guards,
    bootstraps. The seconds are those of the profile's device with all its threads at work.

    Raises ParameterError if the profile has no rates for the word size or for bootstraps."""
    chosen = circuit.parameters if parameters is None else parameters
    rates = _Levels(profile, chosen, sorted(level_rotations(chosen, circuit.design, circuit.plan)))
    design, plan = circuit.design, circuit.plan
    total = 0.0
    for name, place in plan.places.items():
        if name not in design.maps:
            continue
        total += _maps(circuit, rates, name, place.form, place.filled)
        count = design.layouts[name].ciphertexts
        fitted = circuit.polynomials.get(name)
        if fitted is None:  # a product of two cuts
            total += count * rates.all.product(place.argument)
        elif fitted.depth or place.before or place.after:
            middle = max(2, place.argument - fitted.depth // 2)
            total += count * _polynomial(rates.all, fitted.degree, middle, circuit.guard)
        total += count * (place.before + place.after) * _bootstrap(rates.all, place.before or place.after)
    return total + _maps(circuit, rates, "", plan.output)


def _bootstrap(rates: Rates, bootstraps: bool) -> float:
    return rates.bootstrap() if bootstraps else 0.0


def _maps(circuit: Circuit, rates: _Levels, name: str, level: int, filled: bool = False) -> float:
    """Returns the seconds of the maps of one argument, whose result is at a level."""
    design, units = circuit.design, circuit.units
    maps: Any = design.maps[name] if name else design.output_maps
    factors = name != "" and name not in units.arguments
    half = 1.0 if factors else units.arguments[name][1] if name else units.output
    n = rates.all.counter.n
    level = max(1, level)
    constant = 0.0 if factors else _ENCODE * n * math.log2(n) + _CONSTANT * rates.all.rotation(level)
    total = constant * (design.layouts[name] if name else design.output).ciphertexts
    for m in maps:
        if m.factor is not None and not factors and not is_one(m.factor * units.values[m.source] / half):
            total += rates.all.constant_product(level + 1) * design.layouts[m.source].ciphertexts
        if len(m.diagonals) > 1:
            total += _blocks(rates, level, m)
            continue
        for above, d in m.parts(filled):
            total += rates.at(level + above).transform(level + above, (int(k) for k in d.numbers), d.baby)
            total += len(d.folds) * rates.at(level).rotation(level)
    return total


def _blocks(rates: _Levels, level: int, m: Map) -> float:
    """Returns the seconds of a map between tensors of several ciphertexts."""
    outputs, inputs = ({name[i] for name in m.diagonals} for i in (0, 1))
    every = m.diagonals.values()
    babies = len({(of, int(k)) for (_, of), d in m.diagonals.items() for k in np.unique(d.numbers % d.baby) if k})
    folds = sum(len(d.folds) for d in {to: d for (to, _), d in m.diagonals.items()}.values())
    giants = m.turns() - babies - folds
    bases = max(len(outputs), len(inputs)) - 1
    above = rates.at(level + 1)
    total = above.parts(level + 1, sum(d.count for d in every), babies, giants) + bases * above.parts(level + 1, 0, 0, 0)
    return total + folds * rates.at(level).rotation(level)
