"""Choice of the parameter set of a network, by the predicted time of all sets that hold it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from heliograph import _core, ckks
from heliograph.ml.networks.cuts import Network
from heliograph.ml.networks.design import MOST_CIPHERTEXTS, Design, Map, design_of
from heliograph.ml.networks.fitting import Polynomial
from heliograph.ml.networks.forecast import products_of, seconds_of
from heliograph.ml.networks.layouts import power
from heliograph.ml.networks.placing import Limits, Plan, Reads, Step, place
from heliograph.ml.networks.program import Circuit, Units, is_one, units_of, with_room
from heliograph.ml.profile import Profile

#: Named sets with bootstrapping that are tried.
NAMED = ("n15-b4", "n16-b9", "n16-b13", "n16-b18")
_PRECISION = 17  # bits of products of sets without bootstraps; values are at most 1
_INTEGER_BITS = 6  # bits of room of these sets, for the guards
_MOST_LEVELS = 45  # more levels fit no set without bootstraps
_SMALLEST, _LARGEST = 12, 16  # log2 of ring degrees
_MOST_DESIGNS = 4  # layouts in memory; those of ResNet-20 take 0.7 GB for each number of places
_SHARE_GAIN = 0.02  # least share of the seconds that more samples in a ciphertext must save


@dataclass(frozen=True)
class Choice:
    """A parameter set, and the layouts, units and levels for it."""

    parameters: ckks.Parameters
    design: Design
    units: Units
    plan: Plan


class Chooser:
    """Finds the cheapest set of a network, by the seconds of a profile for requests of `batch` samples. Recent layouts for a
    number of places of a sample are kept. `share` sets the number of samples in a ciphertext, a power of two."""

    def __init__(
        self,
        network: Network,
        largest: Mapping[str, float],
        batch: int,
        parameters: ckks.Parameters | None = None,
        profile: Profile | None = None,
        compact: bool | None = None,
        share: int | None = None,
    ) -> None:
        self._network, self._largest, self._batch, self._given = network, largest, batch, parameters
        self._profile, self._compact, self._share = profile, compact, share
        self._designs: dict[int, Design] = {}
        self._sets: dict[object, ckks.Parameters | None] = {}
        self._best_shares: dict[ckks.Parameters, int] = {}

    def design(self, slots: int, share: int = 1) -> Design:
        """Returns the layouts for a number of slots, which `share` samples share."""
        places = slots // share
        found = self._designs.pop(places, None)
        self._designs[places] = design_of(self._network, places) if found is None else found
        if len(self._designs) > _MOST_DESIGNS:
            del self._designs[next(iter(self._designs))]
        return self._designs[places].interleaved(self._batch, share)

    def _shares(self, slots: int) -> list[int]:
        """Returns the numbers of samples that may share ciphertexts."""
        return [self._share] if self._share else [1 << i for i in range(min(power(self._batch), slots).bit_length())]

    def choose(self, polynomials: Mapping[str, Polynomial]) -> Choice | None:
        """Returns the cheapest choice; None if no set has the levels of the polynomials."""
        if self._given is not None:
            return self._planned(self._given, polynomials)
        found = [one for one in (*self._without_bootstraps(polynomials), *self._with(polynomials)) if one is not None]
        return min(found, key=lambda one: one.plan.seconds, default=None)

    def _planned(self, parameters: ckks.Parameters, polynomials: Mapping[str, Polynomial]) -> Choice | None:
        """Returns the choice for a set, with the number of samples in a ciphertext that takes the least time. Later calls
        for the set keep this number."""
        best: Choice | None = None
        known = self._best_shares.get(parameters)
        for share in self._shares(parameters.slots) if known is None else [known]:
            if share > 1 and self.design(parameters.slots, share).most_ciphertexts > MOST_CIPHERTEXTS:
                break
            found = self._shared(parameters, polynomials, share)
            if found is None:
                continue
            if best is not None and not found.plan.seconds < best.plan.seconds * (1 - _SHARE_GAIN):
                break
            best = found
        if best is not None:
            self._best_shares[parameters] = best.design.share
        return best

    def _shared(self, parameters: ckks.Parameters, polynomials: Mapping[str, Polynomial], share: int) -> Choice | None:
        """Returns the choice for a set and a number of samples in a ciphertext; None if there is no plan."""
        design = self.design(parameters.slots, share)
        units = with_room(self._network, design, polynomials, self._largest, parameters.room)
        plan = plan_of(self._network, design, units, polynomials, limits_of(parameters))
        if plan is None:
            return None
        if self._profile is not None:
            circuit = Circuit(self._network, design, plan, polynomials, units, parameters, compact=self._compact)
            try:
                plan = replace(plan, seconds=seconds_of(circuit, self._profile))
            except _core.ParameterError:  # sets without rates come last
                plan = replace(plan, seconds=math.inf)
        return Choice(parameters, design, units, plan)

    def _set_of(self, depth: int, slots: int) -> ckks.Parameters | None:
        """Returns the set without bootstraps of a depth; None if there is none."""
        if (depth, slots) not in self._sets:
            try:
                made = ckks.parameters(depth=depth, precision=_PRECISION, integer_bits=_INTEGER_BITS, slots=slots)
            except _core.ParameterError:
                made = None
            self._sets[depth, slots] = made
        return self._sets[depth, slots]

    def _named(self, name: str) -> ckks.Parameters:
        """Returns a named set."""
        found = self._sets.get(name)
        if found is None:
            found = self._sets[name] = ckks.parameters(name)
        return found

    def _least_slots(self) -> int:
        """Returns the slots of the largest tensor, at most those of the largest ring degree."""
        design = self.design(1 << (_LARGEST - 1))
        periods = [layout.period for layout in (*design.layouts.values(), design.output)]
        return min(max(periods), 1 << (_LARGEST - 1))

    def _without_bootstraps(self, polynomials: Mapping[str, Polynomial]) -> list[Choice | None]:
        made: list[Choice | None] = []
        whole = self.design(1 << (_LARGEST - 1))
        units = units_of(self._network, whole, polynomials, self._largest)
        if plan_of(self._network, whole, units, polynomials, Limits(_MOST_LEVELS, 0)) is None:
            return made
        for log_n in range(max(_SMALLEST, int(math.log2(self._least_slots())) + 1), _LARGEST + 1):
            slots = 1 << (log_n - 1)
            design = self.design(slots)
            units = units_of(self._network, design, polynomials, self._largest)
            limits = Limits(_MOST_LEVELS, 0, 2.0 ** (log_n - 16))
            plan = plan_of(self._network, design, units, polynomials, limits)
            if plan is None:
                break
            depth = plan.places[self._network.cuts[0].name].value - 1
            parameters = self._set_of(depth, slots)
            if parameters is None or parameters.n != 2 * slots:
                continue
            made.append(self._planned(parameters, polynomials))
        return made

    def _with(self, polynomials: Mapping[str, Polynomial]) -> list[Choice | None]:
        made = []
        deepest = max((fitted.depth for fitted in polynomials.values()), default=0) + 1
        for name in NAMED:
            parameters = self._named(name)
            if parameters.slots >= self._least_slots() and parameters.depth_between >= deepest:
                made.append(self._planned(parameters, polynomials))
        return made


def limits_of(parameters: ckks.Parameters) -> Limits:
    """Returns the levels and the sizes of key switches of a set."""
    spec = parameters._core.spec
    special, digits = len(spec.special), spec.digits
    return Limits(parameters.levels, parameters.bootstrapping_level, parameters.n / 65536, special, max(digits), sum(digits))


def plan_of(
    network: Network, design: Design, units: Units, polynomials: Mapping[str, Polynomial], limits: Limits
) -> Plan | None:
    """Returns the levels and bootstraps of a network; None if they do not fit."""
    steps = []
    columns = design.columns
    for cut in network.cuts:
        count = design.layouts[cut.name].ciphertexts * design.groups
        if cut.form is None:
            steps.append(Step(cut.name, 0, 0, count, ()))
            continue
        if cut.is_contraction:
            reads = _contraction_reads(design, cut.name)
            steps.append(Step(cut.name, 2, 1, count, reads, is_product=True))
            continue
        if cut.is_product:
            factors = tuple(
                (m.source, int(m.factor is None), float(sum(d.count for _, d in m.parts())), m.turns())
                for m in design.maps[cut.name]
            )
            steps.append(Step(cut.name, 1, 1, count, factors, is_product=True))
            continue
        fitted = polynomials[cut.name]
        maps, half = design.maps[cut.name], units.arguments[cut.name][1]
        filled = _reads(maps, units, half, columns, True) if any(m.filled is not None for m in maps) else ()
        reads = _reads(maps, units, half, columns)
        products = 0 if cut.is_linear else products_of(fitted.degree)
        steps.append(Step(cut.name, fitted.depth, products, count, reads, filled, is_linear=cut.is_linear))
    output = Step("", 0, 0, design.output.ciphertexts, _reads(design.output_maps, units, units.output, columns))
    return place(steps, output, limits)


def _contraction_reads(design: Design, name: str) -> Reads:
    """Returns the maps and rotations of both factors of a product of attention for the search of levels."""
    made, (one, two) = design.contractions[name], design.maps[name]
    counts = [design.layouts[m.source].ciphertexts * design.groups for m in (one, two)]
    versions = len(made.versions)
    turns = [versions * counts[0], (made.skew.turns + len(made.rotations)) * counts[1]]
    diagonals = [versions * counts[0], made.skew.count * counts[1]]
    return tuple(
        (m.source, int(m.factor is None), float(some + sum(d.count for _, d in m.parts())), turned + m.turns())
        for m, some, turned in zip((one, two), diagonals, turns, strict=True)
    )


def _reads(maps: tuple[Map, ...], units: Units, half: float, columns: int, filled: bool = False) -> Reads:
    """Returns the maps of one argument for the search of levels, with the work of all columns of groups."""
    made = []
    for m in maps:
        free = m.factor is not None and is_one(m.factor * units.values[m.source] / half)
        parts = m.parts(filled)
        levels = max((above for above, _ in parts), default=0 if free else 1)
        made.append((m.source, levels, float(columns * sum(d.count for _, d in parts)), columns * m.turns(filled)))
    return tuple(made)
