"""Layouts and linear maps of a network for one number of slots: everything that does not depend on levels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from heliograph.ml.errors import ModelError
from heliograph.ml.networks.contraction import Contraction, contraction_of
from heliograph.ml.networks.cuts import Cut, Form, Network
from heliograph.ml.networks.diagonals import Diagonals, Surveys, cost_of, diagonals_of, surveys, turns_of
from heliograph.ml.networks.filled import Filled, filled_of
from heliograph.ml.networks.layouts import Layout, packed, raster, strided
from heliograph.ml.networks.propagation import carried
from heliograph.ml.networks.sequences import fixed_layouts, heads_of, input_layout, operand_layouts
from heliograph.ml.networks.terms import Alike, LinearMap, Terms

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
    copies: int = 1  #: how often the ciphertexts of a factor of a product repeat

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
        filled = None if self.filled is None else self.filled.interleaved(share)
        return replace(self, diagonals=diagonals, filled=filled)


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
    contractions: Mapping[str, Contraction]  #: products of attention, by the cut's name

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
            {name: made.interleaved(share) for name, made in self.contractions.items()},
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
    layouts, kept = _layouts(network, places, found)
    output = packed(network.output.shape, places)
    if output.ciphertexts > 1 and kept:  # values stay where they are
        output = min(kept, key=lambda layout: layout.period)
    most = max(layout.ciphertexts for layout in (*layouts.values(), output))
    if share > 1 and most > MOST_CIPHERTEXTS:
        raise ModelError(
            f"cannot put {share} samples into the same ciphertexts: a tensor of them takes {most} ciphertexts, at most "
            f"{MOST_CIPHERTEXTS} are allowed; put fewer samples into a ciphertext"
        )
    maps: dict[str, tuple[Map, ...]] = {}
    contractions: dict[str, Contraction] = {}
    for cut in network.cuts:
        if cut.form is None:
            continue
        if cut.is_contraction:
            maps[cut.name], contractions[cut.name] = _contraction(cut, cut.form, network, layouts)
        elif cut.is_product:
            targets = [layouts[cut.name]] * 2
            maps[cut.name] = tuple(_factor(m, layouts[m], to) for m, to in zip(cut.form.maps, targets, strict=True))
        else:
            maps[cut.name] = _maps(cut.name, cut.form, layouts, layouts[cut.name], found)
    last = _maps("", network.output, layouts, output, found)
    return Design(places, 1, layouts, output, maps, last, contractions).interleaved(batch, share)


def _contraction(
    cut: Cut, form: Form, network: Network, layouts: Mapping[str, Layout]
) -> tuple[tuple[Map, ...], Contraction]:
    """Returns the maps of both factors to the layouts that a product of attention requires, and its steps."""
    assert cut.node is not None
    shapes = network.graph.shapes
    heads = heads_of(cut, network, layouts[cut.name].slots)
    targets = operand_layouts(cut, heads, shapes)
    maps = tuple(_factor(name, layouts[name], to) for name, to in zip(form.maps, targets[:2], strict=True))
    features = shapes[cut.node.inputs[1]][-1]
    return maps, contraction_of(heads, features, cut.node.operation == "attention_values")


def _factor(name: str, source: Layout, target: Layout) -> Map:
    """Returns the map of a factor of a product to the layout of the product. A factor of length 1 along an axis repeats."""
    if source.shape == target.shape:
        return _map(name, Terms.identity(source.shape), source, target, None)
    index = np.arange(math.prod(source.shape), dtype=np.int64).reshape(source.shape)
    cols = np.broadcast_to(index, target.shape).ravel()
    copies = target.ciphertexts // source.ciphertexts
    repeated = (source.places[cols] % (source.ciphertexts * source.slots)) == (
        target.places % (source.ciphertexts * source.slots)
    )
    if source.period >= source.slots and copies * source.period == target.period and repeated.all():
        return Map(name, 1.0, {}, copies=copies)
    terms = Terms(target.shape, index.size, np.arange(len(cols), dtype=np.int64), cols, np.ones(len(cols)), 1)
    return _map(name, terms, source, target, None)


def _layouts(
    network: Network, slots: int, found: dict[tuple[str, str], Surveys]
) -> tuple[dict[str, Layout], tuple[Layout, ...]]:
    """Returns the layout of each cut, and those that linear operations carry to the output. Adds the survey of each map to
    `found`, by the names of the cut and its source."""
    layouts: dict[str, Layout] = {}
    fixed = fixed_layouts(network, slots)
    partners: dict[str, str] = {}
    for product in network.cuts:
        if product.is_product and product.form is not None and not product.is_contraction:
            one, two = product.form.maps
            partners |= {one: two, two: one}
    graph, cuts = network.graph, {cut.name: cut for cut in network.cuts}
    first = network.cuts[0]
    layouts[first.name] = input_layout(network, slots)
    kept: dict[str, tuple[Layout, ...]] = {first.name: (layouts[first.name],)}
    for node in graph.nodes:
        operands = [same for name in node.inputs if (same := kept.get(name))]
        shape = tuple(graph.shapes[node.output])
        kept[node.output] = carried(node, operands[0], shape) if operands else ()
        cut = cuts.get(node.output)
        if cut is None or cut.form is None:
            continue
        partner = partners.get(cut.name)
        if cut.name in fixed:
            layouts[cut.name] = fixed[cut.name]
        elif partner in layouts and cut.is_linear and layouts[partner].shape == cut.shape:
            layouts[cut.name] = layouts[partner]
        else:
            layouts[cut.name] = _layout(cut, cut.form, layouts, slots, found, kept[node.output])
        kept[cut.name] = (layouts[cut.name],)
    return layouts, kept.get(network.result, ())


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
    factor = _in_place(terms, source, target)
    if factor is not None:
        return Map(name, factor, {})
    found = surveys(terms, source, [target])[0] if found is None else found
    diagonals = diagonals_of(terms, source, target, found)
    filled = filled_of(terms, source, target, found)
    cheaper = filled is not None and filled.cost < _FILLED_GAIN * cost_of(diagonals)
    return Map(name, None, diagonals, filled if cheaper else None)


def _in_place(terms: LinearMap, source: Layout, target: Layout) -> float | None:
    """Returns the number by which a map multiplies each value and leaves it at its place; None for any other map."""
    if source.period != target.period or source.parts or source.fill > 1:
        return None
    factor = terms.factor()
    if factor is not None:
        return factor if np.array_equal(source.places, target.places) else None
    if isinstance(terms, Alike):
        return _alike_in_place(terms, source, target)
    if not isinstance(terms, Terms) or not terms.count == len(source.places) == len(target.places):
        return None
    once = np.bincount(terms.rows).max() == np.bincount(terms.cols).max() == 1
    same = once and (terms.weights == terms.weights[0]).all()
    return float(terms.weights[0]) if same and (target.places[terms.rows] == source.places[terms.cols]).all() else None


def _alike_in_place(terms: Alike, source: Layout, target: Layout) -> float | None:
    """Returns the number of `_in_place` for a map that is the same for each index along an axis."""
    rows, cols, weights = terms.one()
    if not len(rows) == len(np.unique(cols)) == len(terms.matrix) == terms.matrix.shape[1] or (weights != weights[0]).any():
        return None
    outputs, inputs = target.places[terms.outputs[:, rows]], source.places[terms.inputs[:, cols]]
    return float(weights[0]) if np.array_equal(outputs, inputs) else None
