"""Levels of each step of a network, and the places of its bootstraps.

The search runs from the output to the input. Its state is the level that each value must have for the steps after it. At
each cut it decides whether the value, or the argument of its activation, is bootstrapped. The result is the cheapest plan,
and each step runs at the lowest possible level.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

#: Seconds of two cores at N = 2^16, by the profile "two-cores" for n16-b13: a product of a diagonal and a limb. A rotation
#: and a multiplication, for each digit and limb. A bootstrap, for each digit and limb of the whole modulus.
_DIAGONAL, _ROTATION, _PRODUCT, _BOOTSTRAP = 0.000016, 0.00024, 0.00024, 0.0057


Reads = tuple[tuple[str, int, float, int], ...]
Needs = tuple[tuple[str, int], ...]


_COMPARED = 256  # states that are compared at a time, and cheapest ones that these are compared with


@dataclass(frozen=True)
class Step:
    """Levels and costs of one cut, for the search.

    `reads` has the linear maps of its argument: (source, levels, diagonals, rotations). A map by a factor of 1 takes no
    level. The input reads nothing.
    """

    name: str
    depth: int  #: levels of the activation
    products: int  #: multiplications of the activation
    ciphertexts: int
    reads: Reads
    filled: Reads = ()  #: the maps with filled copies, which take more levels; empty if there are none
    is_product: bool = False  #: whether the value is the product of two cuts, which has no argument to bootstrap
    is_linear: bool = False  #: whether there is no activation; then a level before a bootstrap makes the guard


@dataclass(frozen=True)
class Limits:
    """Levels of a parameter set: the top, and the least level of a bootstrap; 0 without bootstraps."""

    top: int
    entry: int
    size: float = 1.0  #: cost of an operation relative to N = 2^16
    special: int = 9  #: special primes of key switches
    digit: int = 11  #: primes of a digit of key switches
    primes: int = 30  #: primes of the whole modulus, those of bootstraps included

    def switch(self, level: int) -> int:
        """Returns the digits times the limbs of a key switch.

        >>> Limits(17, 4).switch(12)
        42
        """
        return -(-level // self.digit) * (level + self.special)


@dataclass(frozen=True)
class Place:
    """Levels of one cut."""

    value: int  #: level of the value for the steps after it
    argument: int  #: level of the argument of its activation, after a bootstrap
    before: bool  #: whether the argument is bootstrapped
    after: bool  #: whether the value is bootstrapped
    form: int  #: level of the result of the linear maps
    filled: bool = False  #: whether linear maps use filled copies


@dataclass(frozen=True)
class Plan:
    """Levels and bootstraps of all cuts, and the predicted seconds: of two cores, or of a profile that compared sets."""

    places: Mapping[str, Place]
    output: int  #: level of the result
    bootstraps: int  #: number of bootstrapped ciphertexts
    seconds: float


#: For the levels that values need: the cost, the bootstraps, and the places so far, the last cut first.
_States = dict[Needs, tuple[float, int, tuple[tuple[str, Place], ...]]]


def place(steps: list[Step], output: Step, limits: Limits) -> Plan | None:
    """Returns the cheapest plan; None if no plan fits the levels.

    `steps` are in topological order, the input first. `output` has the result's maps, and no activation.

    >>> steps = [Step("x", 0, 0, 1, ()), Step("y", 2, 3, 1, (("x", 1, 4, 2),))]
    >>> plan = place(steps, Step("out", 0, 0, 1, (("y", 1, 4, 2),)), Limits(8, 0))
    >>> plan.places["x"].value, plan.bootstraps
    (5, 0)
    """
    order = {step.name: i for i, step in enumerate(steps)}
    start: dict[str, int] = {}
    least = 1
    cost = _needs(output.reads, least, start, limits)
    if cost is None:
        return None
    states: _States = {_key(start): (cost, 0, ())}
    for step in reversed(steps):
        following: _States = {}
        for key, (spent, count, done) in states.items():
            needs = dict(key)
            value = needs.pop(step.name, 1)
            for option in _options(step, value, needs, limits):
                taken, boots, left, found = option
                entry = (spent + taken, count + boots, (*done, (step.name, found)))
                at = _key(left)
                if at not in following or entry[0] < following[at][0]:
                    following[at] = entry
        states = _undominated(following)
    best = min(states.values(), key=lambda state: state[0], default=None)
    if best is None:
        return None
    spent, count, done = best
    places = dict(sorted(done, key=lambda one: order[one[0]]))
    return Plan(places, least, count, spent)


def _key(needs: Mapping[str, int]) -> Needs:
    return tuple(sorted(needs.items()))


def _undominated(states: _States) -> _States:
    """Drops states that need at least the levels of a cheaper state."""
    if len(states) > 4096:
        states = dict(sorted(states.items(), key=lambda item: item[1][0])[:4096])
    ordered = sorted(states.items(), key=lambda item: item[1][0])
    if not ordered or not ordered[0][0]:
        return dict(ordered[:1])
    levels = np.array([[level for _, level in key] for key, _ in ordered], dtype=np.int8)
    chosen: list[int] = []
    for start in range(0, len(ordered), _COMPARED):
        some = levels[start : start + _COMPARED]
        left = start + np.flatnonzero(~_lower(levels[chosen[:_COMPARED]], some).any(axis=1))
        lower = np.tril(_lower(levels[left], levels[left]), -1)
        chosen += left[~lower.any(axis=1)].tolist()
    return dict(ordered[i] for i in chosen)


def _lower(a: npt.NDArray[np.int8], b: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
    """Returns for each state of `b` and each of `a` whether all levels of the latter are at most those of the former."""
    found = np.ones((len(b), len(a)), dtype=np.bool_)
    for some, every in zip(b.T, a.T, strict=True):
        found &= every <= some[:, None]
    return found


def _needs(reads: Reads, level: int, needs: dict[str, int], limits: Limits) -> float | None:
    """Raises the levels of `needs` for linear maps whose result is at `level`. Returns the cost, None beyond the top."""
    cost = 0.0
    for source, levels, diagonals, rotations in reads:
        at = level + levels
        if at > limits.top:
            return None
        needs[source] = max(needs.get(source, 1), at)
        each = diagonals * _DIAGONAL * (at + limits.special) + rotations * _ROTATION * limits.switch(at)
        cost += each * limits.size
    return cost


def _options(
    step: Step, value: int, needs: dict[str, int], limits: Limits
) -> Iterator[tuple[float, int, dict[str, int], Place]]:
    """Yields the cost, the bootstraps, the remaining needs and the place of each decision for one cut."""
    if value > limits.top:
        return
    if not step.reads:
        yield 0.0, 0, needs, Place(value, value, False, False, value)
        return
    choices = (False, True) if limits.entry else (False,)
    guard = int(step.is_linear)
    maps = ((False, step.reads), (True, step.filled)) if step.filled else ((False, step.reads),)
    of_values, of_arguments = ((False,) if fixed else choices for fixed in (step.is_linear, step.is_product))
    for after, before, (filled, reads) in itertools.product(of_values, of_arguments, maps):
        argument = (limits.entry if after else value) + step.depth
        if argument > limits.top:
            continue
        form = limits.entry + guard if before else argument
        left = dict(needs)
        taken = _needs(reads, form, left, limits)
        if taken is None:
            continue
        boots = (int(after) + int(before)) * step.ciphertexts
        each = step.products * _PRODUCT * limits.switch(argument) * step.ciphertexts
        again = boots * _BOOTSTRAP * limits.switch(limits.primes)
        yield taken + (each + again) * limits.size, boots, left, Place(value, argument, before, after, form, filled)
