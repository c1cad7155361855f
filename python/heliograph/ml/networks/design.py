"""Layouts and linear maps of a network for one number of slots: everything that does not depend on levels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from heliograph.ml.errors import ModelError
from heliograph.ml.networks.cuts import Cut, Form, Network
from heliograph.ml.networks.diagonals import Diagonals, cost_of, diagonals_of, turns_of
from heliograph.ml.networks.filled import Filled, filled_of
from heliograph.ml.networks.layouts import Layout, packed, power, raster, strided
from heliograph.ml.networks.terms import Terms

_STRIDES = (1, 2, 4, 8)  # distances of pixels, in those of the layout before, that are tried

_FILLED_GAIN = 0.9  # largest cost, relative to the plain map, with which filled copies are offered


@dataclass(frozen=True)
class Map:
    """A linear map from a cut: a factor for each value in place, or diagonals by (output, input) ciphertext."""

    source: str
    factor: float | None  #: factor before units; None if the map has diagonals
    diagonals: Mapping[tuple[int, int], Diagonals]

    filled: Filled | None = None  #: the same map by filled copies, which takes a level more

    def parts(self, filled: bool = False) -> tuple[tuple[int, Diagonals], ...]:
        """Returns the matrices, each with the levels of its operand above the result of the map."""
        if filled and self.filled is not None:
            return (2, self.filled.spread), (1, self.filled.matrix)
        return tuple((1, d) for d in self.diagonals.values())

    def turns(self, filled: bool = False) -> int:
        """Returns the number of rotations."""
        if filled and self.filled is not None:
            return self.filled.spread.turns + self.filled.matrix.turns
        return turns_of(self.diagonals)


@dataclass(frozen=True)
class Design:
    """Layout of each cut and of the output, and the linear maps that each of them reads."""

    slots: int
    batch: int
    layouts: Mapping[str, Layout]
    output: Layout
    maps: Mapping[str, tuple[Map, ...]]  #: maps of each cut's argument, by the cut's name
    output_maps: tuple[Map, ...]


def design_of(network: Network, slots: int, batch: int = 1) -> Design:
    """Chooses the layouts of a network in ciphertexts of `slots` slots.

    Raises ModelError if `batch` samples do not fit one ciphertext."""
    layouts = _layouts(network, slots)
    output = packed(network.output.shape, slots)
    if batch > 1:
        layouts, output = _shared(layouts, output, slots, batch)
    maps = {cut.name: _maps(cut.form, layouts, layouts[cut.name]) for cut in network.cuts if cut.form is not None}
    return Design(slots, batch, layouts, output, maps, _maps(network.output, layouts, output))


def _shared(layouts: dict[str, Layout], output: Layout, slots: int, batch: int) -> tuple[dict[str, Layout], Layout]:
    """Returns the layouts for several samples in one ciphertext."""
    period = max(layout.period for layout in (*layouts.values(), output))
    if period * power(batch) > slots:
        raise ModelError(
            f"cannot put {batch} samples into one ciphertext: a sample takes {period:,} of {slots:,} slots, so batch must "
            f"be at most {max(1, slots // period)}"
        )
    made = {name: Layout(each.shape, each.digits, period, slots, batch) for name, each in layouts.items()}
    return made, Layout(output.shape, output.digits, period, slots, batch)


def _layouts(network: Network, slots: int) -> dict[str, Layout]:
    """Returns the layout of each cut."""
    layouts: dict[str, Layout] = {}
    partners: dict[str, str] = {}
    for cut in network.cuts:
        if cut.is_product and cut.form is not None:
            one, two = cut.form.maps
            partners |= {one: two, two: one}
    for cut in network.cuts:
        partner = partners.get(cut.name)
        if cut.form is None:
            layouts[cut.name] = raster(cut.shape, slots)
        elif partner in layouts and cut.node is not None and cut.node.attributes.get("function") == "identity":
            layouts[cut.name] = layouts[partner]
        else:
            layouts[cut.name] = _layout(cut, cut.form, layouts, slots)
    return layouts


def _layout(cut: Cut, form: Form, layouts: Mapping[str, Layout], slots: int) -> Layout:
    """Returns the layout of an activation: that of a cut that it adds in place, else the cheapest of some layouts."""
    for name, terms in form.maps.items():
        if terms.factor() is not None and layouts[name].shape == cut.shape:
            return layouts[name]
    candidates = _candidates(cut, [layouts[name] for name in form.maps], slots)
    if len(candidates) == 1:
        return candidates[0]
    best, least = candidates[0], math.inf
    for candidate in candidates:
        cost = sum(cost_of(diagonals_of(terms, layouts[name], candidate)) for name, terms in form.maps.items())
        cost += 1e-3 * candidate.period  # of equally cheap layouts the smallest, which later maps read by fewer diagonals
        if cost < least:
            best, least = candidate, cost
    return best


def _candidates(cut: Cut, sources: list[Layout], slots: int) -> list[Layout]:
    """Returns layouts of an activation: for images those that keep the places of rows and columns, else row-major ones."""
    found: list[Layout] = []
    for source in sources:
        if source.shape == cut.shape:
            found.append(source)
        elif len(cut.shape) == 3 and len(source.shape) == 3:
            for stride in _STRIDES:
                made = strided(source, (stride, stride), cut.shape)
                found += [made] if made is not None else []
    return list(dict.fromkeys(found or [packed(cut.shape, slots), raster(cut.shape, slots)]))


def _maps(form: Form, layouts: Mapping[str, Layout], target: Layout) -> tuple[Map, ...]:
    return tuple(_map(name, terms, layouts[name], target) for name, terms in form.maps.items())


def _map(name: str, terms: Terms, source: Layout, target: Layout) -> Map:
    factor = terms.factor()
    if factor is not None and source.digits == target.digits and source.period == target.period:
        return Map(name, factor, {})
    diagonals = diagonals_of(terms, source, target)
    filled = filled_of(terms, source, target)
    cheaper = filled is not None and filled.cost < _FILLED_GAIN * cost_of(diagonals)
    return Map(name, None, diagonals, filled if cheaper else None)
