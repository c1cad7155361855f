"""Predicted seconds of a compiled network on a target, by its profile."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from heliograph import ckks
from heliograph.ml.networks.design import Map
from heliograph.ml.networks.program import Circuit, is_one
from heliograph.ml.profile import Profile, Rates

#: Time of the encoding and addition of a constant, relative to a rotation, as measured for rings of 2^14.
_CONSTANT = 0.5


def products_of(degree: int) -> int:
    """Returns about the multiplications of a polynomial by baby steps and giant steps.

    >>> products_of(31)
    12
    """
    return max(1, round(2 * math.sqrt(degree + 1) + math.log2(degree + 1) - 4))


def seconds_of(circuit: Circuit, profile: Profile, parameters: ckks.Parameters | None = None) -> float:
    """Returns the predicted seconds of one call with encoded matrices: matrices, constants, activations with their guards,
    bootstraps. The seconds are those of the profile's device with all its threads at work.

    Raises ParameterError if the profile has no rates for the word size or for bootstraps."""
    rates = profile.rates(circuit.parameters if parameters is None else parameters)
    design, plan = circuit.design, circuit.plan
    total = 0.0
    for name, place in plan.places.items():
        if name not in design.maps:
            continue
        total += _maps(circuit, rates, name, place.form, place.filled)
        count = design.layouts[name].ciphertexts
        fitted = circuit.polynomials.get(name)
        if fitted is None:  # a product of two cuts; before a bootstrap it has a guard
            total += count * rates.product(place.argument)
            total += count * (rates.product(place.form) + rates.bootstrap()) if place.after else 0.0
            continue
        if fitted.is_identity:
            total += count * (2 * rates.product(place.form) + rates.bootstrap()) if place.before else 0.0
            continue
        middle = max(2, place.argument - fitted.depth // 2)
        products = products_of(fitted.degree) + circuit.guard  # a guard is a square, without the key switch of a product
        total += count * products * rates.product(middle)
        total += count * (place.before + place.after) * _bootstrap(rates, place.before or place.after)
    return total + _maps(circuit, rates, "", plan.output)


def _bootstrap(rates: Rates, bootstraps: bool) -> float:
    return rates.bootstrap() if bootstraps else 0.0


def _maps(circuit: Circuit, rates: Rates, name: str, level: int, filled: bool = False) -> float:
    """Returns the seconds of the maps of one argument, whose result is at a level."""
    design, units = circuit.design, circuit.units
    maps: Any = design.maps[name] if name else design.output_maps
    factors = name != "" and name not in units.arguments
    half = 1.0 if factors else units.arguments[name][1] if name else units.output
    total = (
        0.0
        if factors
        else _CONSTANT * rates.rotation(max(1, level)) * (design.layouts[name] if name else design.output).ciphertexts
    )
    for m in maps:
        if m.factor is not None and not factors and not is_one(m.factor * units.values[m.source] / half):
            total += rates.constant_product(level + 1) * design.layouts[m.source].ciphertexts
        if len(m.diagonals) > 1:
            total += _blocks(rates, level, m)
            continue
        for above, d in m.parts(filled):
            total += rates.transform(level + above, (int(k) for k in d.numbers), d.baby)
            total += len(d.folds) * rates.rotation(max(1, level))
    return total


def _blocks(rates: Rates, level: int, m: Map) -> float:
    """Returns the seconds of a map between tensors of several ciphertexts."""
    outputs, inputs = ({name[i] for name in m.diagonals} for i in (0, 1))
    every = m.diagonals.values()
    babies = len({(of, int(k)) for (_, of), d in m.diagonals.items() for k in np.unique(d.numbers % d.baby) if k})
    folds = sum(len(d.folds) for d in {to: d for (to, _), d in m.diagonals.items()}.values())
    giants = m.turns() - babies - folds
    bases = max(len(outputs), len(inputs)) - 1
    total = rates.parts(level + 1, sum(d.count for d in every), babies, giants) + bases * rates.parts(level + 1, 0, 0, 0)
    return total + folds * rates.rotation(max(1, level))
