"""Layouts and linear maps of a network for one number of slots: everything that does not depend on levels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from heliograph.ml.errors import ModelError
from heliograph.ml.networks.cuts import Cut, Form, Network
from heliograph.ml.networks.diagonals import Diagonals, Surveys, cost_of, diagonals_of, surveys, turns_of
from heliograph.ml.networks.filled import Filled, filled_of
from heliograph.ml.networks.layouts import Layout, packed, raster, strided
from heliograph.ml.networks.propagation import carried
from heliograph.ml.networks.terms import LinearMap

_STRIDES = (1, 2, 4, 8)  # distances of pixels, in those of the layout before, that are tried

_ACTIVATION_COST = 3000.0  # cost of an activation and a bootstrap of a ciphertext, in products with a diagonal

_LARGE = 1 << 21  # weights of a map from which only layouts are tried that linear operations keep

#: Most ciphertexts of a tensor whose ciphertexts several samples share.
MOST_CIPHERTEXTS = 32

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

    @property
    def norm(self) -> float:
        """The largest sum of magnitudes of a slot: a bound on the results for operands of at most 1."""
        if self.factor is not None:
            return abs(self.factor)
        sums: dict[int, npt.NDArray[np.float64]] = {}
        folds: dict[int, tuple[int, ...]] = {}
        for (to, _), diagonals in self.diagonals.items():
            own = np.abs(diagonals.values()).sum(axis=0)
            sums[to] = sums[to] + own if to in sums else own
            folds[to] = diagonals.folds
        for to, steps in folds.items():
            for step in steps:
                sums[to] = sums[to] + np.roll(sums[to], -step)
        return max((float(own.max()) for own in sums.values()), default=0.0)

    def turns(self, filled: bool = False) -> int:
        """Returns the number of rotations."""
        if filled and self.filled is not None:
            return self.filled.spread.turns + self.filled.matrix.turns
        return turns_of(self.diagonals)

    def interleaved(self, share: int) -> Map:
        """Returns the same map for `share` interleaved samples."""
        diagonals = {name: d.interleaved(share) for name, d in self.diagonals.items()}
        return Map(self.source, self.factor, diagonals, None if self.filled is None else self.filled.interleaved(share))


@dataclass(frozen=True)
class Design:
    """Layout of each cut and of the output, and the linear maps that each of them reads.

    A request of `batch` samples has `groups` tensors. The samples of a group share the slots of its ciphertexts."""

    slots: int
    batch: int  #: samples of a request
    layouts: Mapping[str, Layout]
    output: Layout
    maps: Mapping[str, tuple[Map, ...]]  #: maps of each cut's argument, by the cut's name
    output_maps: tuple[Map, ...]

    @property
    def share(self) -> int:
        """Samples of a group."""
        return self.output.share

    @property
    def groups(self) -> int:
        """Groups of a full request."""
        return self.groups_of(self.batch)

    @property
    def columns(self) -> int:
        """Groups that the linear maps of a full request take, two of them as real and imaginary parts."""
        return -(-self.groups // 2)

    @property
    def most_ciphertexts(self) -> int:
        """Ciphertexts of the largest tensor of a group."""
        return max(layout.ciphertexts for layout in (*self.layouts.values(), self.output))

    def interleaved(self, batch: int, share: int) -> Design:
        """Returns the design of `share` samples in ciphertexts of `share` times the slots, for requests of `batch`."""
        if share == 1:
            return replace(self, batch=batch)
        return Design(
            self.slots * share,
            batch,
            {name: layout.interleaved(share) for name, layout in self.layouts.items()},
            self.output.interleaved(share),
            {name: tuple(m.interleaved(share) for m in maps) for name, maps in self.maps.items()},
            tuple(m.interleaved(share) for m in self.output_maps),
        )

    def described(self) -> str:
        """Returns the samples of a request in words."""
        shared = f" by {min(self.share, self.batch)} in the same ciphertexts" if self.share > 1 else ""
        return f"{self.batch} in a request{shared}"

    def groups_of(self, count: int) -> int:
        """Returns the groups of `count` samples."""
        return -(-count // self.share)


def design_of(network: Network, slots: int, batch: int = 1, share: int = 1) -> Design:
    """Chooses the layouts of a network in ciphertexts of `slots` slots, which `share` samples share.

    Raises ModelError if a tensor of several samples takes more than 32 ciphertexts."""
    places = slots // share
    found: dict[tuple[str, str], Surveys] = {}
    layouts = _layouts(network, places, found)
    output = packed(network.output.shape, places)
    most = max(layout.ciphertexts for layout in (*layouts.values(), output))
    if share > 1 and most > MOST_CIPHERTEXTS:
        raise ModelError(
            f"cannot put {share} samples into the same ciphertexts: a tensor of them takes {most} ciphertexts, at most "
            f"{MOST_CIPHERTEXTS} are allowed; put fewer samples into a ciphertext"
        )
    maps = {cut.name: _maps(cut.name, cut.form, layouts, layouts[cut.name], found) for cut in network.cuts if cut.form}
    last = _maps("", network.output, layouts, output, found)
    return Design(places, 1, layouts, output, maps, last).interleaved(batch, share)


def _layouts(network: Network, slots: int, found: dict[tuple[str, str], Surveys]) -> dict[str, Layout]:
    """Returns the layout of each cut. Adds the survey of each map to `found`, by the names of the cut and its source."""
    layouts: dict[str, Layout] = {}
    partners: dict[str, str] = {}
    for product in network.cuts:
        if product.is_product and product.form is not None:
            one, two = product.form.maps
            partners |= {one: two, two: one}
    graph, cuts = network.graph, {cut.name: cut for cut in network.cuts}
    first = network.cuts[0]
    layouts[first.name] = raster(first.shape, slots)
    kept: dict[str, tuple[Layout, ...]] = {first.name: (layouts[first.name],)}
    for node in graph.nodes:
        operands = [same for name in node.inputs if (same := kept.get(name))]
        shape = tuple(graph.shapes[node.output])
        kept[node.output] = carried(node, operands[0], shape) if operands else ()
        cut = cuts.get(node.output)
        if cut is None or cut.form is None:
            continue
        partner = partners.get(cut.name)
        if partner in layouts and cut.is_linear:
            layouts[cut.name] = layouts[partner]
        else:
            layouts[cut.name] = _layout(cut, cut.form, layouts, slots, found, kept[node.output])
        kept[cut.name] = (layouts[cut.name],)
    return layouts


def _layout(
    cut: Cut,
    form: Form,
    layouts: Mapping[str, Layout],
    slots: int,
    found: dict[tuple[str, str], Surveys],
    kept: tuple[Layout, ...],
) -> Layout:
    """Returns the layout of an activation: that of a cut that it adds in place, else the cheapest of some layouts.

    `kept` are the layouts that linear operations carry from their operands."""
    for name, terms in form.maps.items():
        if terms.factor() is not None and layouts[name].shape == cut.shape:
            return layouts[name]
    if kept and form.count > _LARGE:
        return min(kept, key=lambda layout: layout.period)
    candidates = list(dict.fromkeys([*_candidates(cut, [layouts[name] for name in form.maps], slots), *kept]))
    if len(candidates) == 1:
        return candidates[0]
    best, least = 0, math.inf
    every = {name: surveys(terms, layouts[name], candidates) for name, terms in form.maps.items()}
    for i, candidate in enumerate(candidates):
        made = [diagonals_of(terms, layouts[name], candidate, every[name][i]) for name, terms in form.maps.items()]
        cost = sum(cost_of(one) for one in made)
        cost += _ACTIVATION_COST * candidate.ciphertexts
        cost += 1e-3 * candidate.period  # of equally cheap layouts the smallest, which later maps read by fewer diagonals
        if cost < least:
            best, least = i, cost
    found.update({(cut.name, name): some[best] for name, some in every.items()})
    return candidates[best]


def _candidates(cut: Cut, sources: list[Layout], slots: int) -> list[Layout]:
    """Returns layouts of an activation: for images those that keep the places of rows and columns, else row-major ones.

    The row-major layout without gaps is also one for images, if it is smaller than the others."""
    found: list[Layout] = []
    for source in sources:
        if source.shape == cut.shape:
            found.append(source)
        elif len(cut.shape) == 3 and len(source.shape) == 3:
            same = [a == b for a, b in zip(source.shape[1:], cut.shape[1:], strict=True)]
            for stride in _STRIDES:
                made = strided(source, (stride, stride), cut.shape)
                found += [made] if made is not None else []
                if same[0] != same[1]:
                    made = strided(source, (1 if same[0] else stride, 1 if same[1] else stride), cut.shape)
                    found += [made] if made is not None else []
    dense = packed(cut.shape, slots)
    if found and dense.period < min(layout.period for layout in found):
        found.append(dense)
    return list(dict.fromkeys(found or [dense, raster(cut.shape, slots)]))


def _maps(
    reader: str,
    form: Form,
    layouts: Mapping[str, Layout],
    target: Layout,
    found: Mapping[tuple[str, str], Surveys],
) -> tuple[Map, ...]:
    every = form.maps.items()
    return tuple(_map(name, terms, layouts[name], target, found.get((reader, name))) for name, terms in every)


def _map(name: str, terms: LinearMap, source: Layout, target: Layout, found: Surveys | None) -> Map:
    factor = terms.factor()
    if factor is not None and source.digits == target.digits and source.period == target.period:
        return Map(name, factor, {})
    found = surveys(terms, source, [target])[0] if found is None else found
    diagonals = diagonals_of(terms, source, target, found)
    filled = filled_of(terms, source, target, found)
    cheaper = filled is not None and filled.cost < _FILLED_GAIN * cost_of(diagonals)
    return Map(name, None, diagonals, filled if cheaper else None)
