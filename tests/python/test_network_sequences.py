"""Networks of many tokens: maps that are the same for each token, layouts of tokens, and operations of attention."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from heliograph.ml import shapes
from heliograph.ml.graph import Graph, Node, Shape
from heliograph.ml.interpreter import CANONICAL
from heliograph.ml.networks import terms as triplets
from heliograph.ml.networks.diagonals import Blocks, diagonals_of
from heliograph.ml.networks.layouts import Digits, Layout, packed, period_of, power, raster
from heliograph.ml.networks.propagation import carried
from heliograph.ml.networks.pushes import PUSHES, alike
from heliograph.ml.networks.terms import Alike, LinearMap, Terms, along
from network_graphs import Builder

RNG = np.random.default_rng(7)

# ---- maps that are the same for each index along an axis ----


def pushed(graph: Graph) -> tuple[list[LinearMap], Terms]:
    """Returns the map after each node of a chain, with `Alike` maps where the rules give them, and the last map as `Terms`."""
    first = Terms.identity(tuple(graph.shapes["x"]))
    maps: list[LinearMap] = [first]
    plain = first
    for one in graph.nodes:
        shape = tuple(graph.shapes[one.output])
        same = alike(one, maps[-1], shape)
        push = partial(PUSHES[one.operation], one, shape=shape)
        maps.append(maps[-1].pushed(lambda t, push=push: push(terms=t), shape, 0) if same is None else same)
        plain = push(terms=plain)
    return maps, plain


def dense(made: LinearMap) -> np.ndarray:
    """Returns the matrix of a map, from its parts."""
    matrix = np.zeros((math.prod(made.shape), made.columns))
    for part in made.parts():
        matrix += part.dense()
    return matrix


def check(made: LinearMap, matrix: np.ndarray) -> None:
    """Checks all properties of a map against its matrix, with parts of about 40 triplets."""
    assert (math.prod(made.shape), made.columns) == matrix.shape
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triplets, "PART", 40)
        own = dense(made)
        np.testing.assert_allclose(own, matrix, atol=1e-12)
        x = RNG.normal(size=made.columns)
        np.testing.assert_allclose(made.apply(x), matrix @ x, atol=1e-12)
        some = RNG.random(made.columns) < 0.5
        np.testing.assert_allclose(made.of(some).dense(), matrix * some, atol=1e-12)
        if isinstance(made, Alike):
            assert sum(part.count for part in made.parts()) == made.count == np.count_nonzero(own)
            number = own[0, 0]
            is_factor = len(own) == made.columns and np.array_equal(own, number * np.eye(len(own)))
            assert made.factor() == (number if is_factor else None)
            assert made.is_zero == (not own.any())


def step(b: Builder, value: str, draw: st.DrawFn) -> str:
    """Appends a random linear operation."""
    shape = b.shapes[value]
    kind = draw(st.sampled_from(["dense", "scale", "split", "merge", "transpose", "sum"]))
    if kind == "dense":
        return b.dense(value, draw(st.integers(1, 4)))
    if kind == "scale":
        own = draw(st.sampled_from([(), shape[-1:], shape]))
        return b.other("scale", value, shape, factor=b.rng.normal(size=own), offset=np.float64(0))
    if kind == "transpose":
        order = tuple(draw(st.permutations(range(len(shape)))))
        return b.transpose(value, order)
    axis = draw(st.integers(0, len(shape) - 1))
    if kind == "sum" and len(shape) > 1:
        keep = draw(st.booleans())
        after = (*shape[:axis], *((1,) if keep else ()), *shape[axis + 1 :])
        return b.other("sum", value, after, axes=(draw(st.sampled_from([axis, axis - len(shape)])),), keepdims=keep)
    if kind == "split":
        size = draw(st.sampled_from([n for n in range(1, shape[axis] + 1) if shape[axis] % n == 0]))
        after = (*shape[:axis], shape[axis] // size, size, *shape[axis + 1 :])
    else:
        after = (*shape[:axis], math.prod(shape[axis : axis + 2]), *shape[axis + 2 :])
    return b.other("reshape", value, after, shape=after)


@st.composite
def chains(draw: st.DrawFn) -> Graph:
    """A chain of one to five linear operations on tokens."""
    lead = draw(st.sampled_from([(), (1,), (2,)]))
    b = Builder((*lead, draw(st.sampled_from([2, 3, 4, 8])), draw(st.sampled_from([1, 3, 4, 6]))), draw(st.integers(0, 99)))
    value = "x"
    for _ in range(draw(st.integers(1, 5))):
        value = step(b, value, draw)
    return b.graph(value)


@settings(max_examples=150, deadline=None)
@given(chains())
def test_chains_equal_triplets(graph: Graph) -> None:
    maps, plain = pushed(graph)
    check(maps[-1], plain.dense())


def layer(b: Builder, value: str = "x", heads: int = 3) -> str:
    """Appends a linear layer, a factor for each feature, and heads before the tokens."""
    value = b.dense(value, 4 * heads)
    value = b.other("scale", value, b.shapes[value], factor=b.rng.normal(size=4 * heads), offset=np.float64(0))
    (*lead, count, _) = b.shapes[value]
    value = b.other("reshape", value, (*lead, count, heads, 4), shape=(*lead, count, heads, 4))
    first = len(lead)
    return b.transpose(value, (*range(first), first + 1, first, first + 2))


@pytest.mark.parametrize("lead", [(), (1,)])
def test_a_layer_of_tokens_has_one_matrix(lead: Shape) -> None:
    b = Builder((*lead, 8, 6))
    value = b.other("sum", layer(b), (*lead, 8, 4), axes=(len(lead),), keepdims=False)
    maps, plain = pushed(b.graph(value))
    axes = [made.axis for made in maps[1:] if isinstance(made, Alike)]
    assert axes == [len(lead) + i for i in (0, 0, 0, 1, 0)]
    last = maps[-1]
    assert isinstance(last, Alike)
    assert (last.repeats, last.matrix.shape, last.stored) == (8, (4, 6), 24)
    assert last.joined() is last.short() is last
    assert last.without_weights().is_zero
    check(last, plain.dense())


@pytest.mark.parametrize("operation", ["scale", "split", "dense", "sum"])
def test_operations_along_the_tokens_give_triplets(operation: str) -> None:
    """Tokens with numbers of their own, divided tokens, and sums of tokens are not the same for each token."""
    b = Builder((8, 6))
    value = b.dense("x", 4)
    if operation == "scale":
        value = b.other("scale", value, (8, 4), factor=np.arange(8.0)[:, None], offset=np.float64(0))
    elif operation == "split":
        value = b.other("reshape", value, (2, 4, 4), shape=(2, 4, 4))
    elif operation == "dense":
        value = b.dense(b.transpose(value, (1, 0)), 5)
    else:
        value = b.other("sum", value, (4,), axes=(0,), keepdims=False)
    maps, plain = pushed(b.graph(value))
    assert isinstance(maps[-2], Alike)
    assert isinstance(maps[-1], Terms)
    check(maps[-1], plain.dense())


@pytest.mark.parametrize("shape", [(4, 4), (4, 2, 2), (2, 2, 4), (1, 4, 4), (16,), (8, 2)])
def test_reshapes_after_tokens_moved(shape: Shape) -> None:
    """The tokens are the last axis, and have as many indices as another axis."""
    b = Builder((4, 3))
    value = b.transpose(b.dense("x", 4), (1, 0))
    maps, plain = pushed(b.graph(b.other("reshape", value, shape, shape=shape)))
    assert isinstance(maps[-1], Alike) is (shape[-1] == 4)
    check(maps[-1], plain.dense())


def test_sums_of_maps() -> None:
    b = Builder((8, 4))
    made, plain = pushed(b.graph(b.dense("x", 4)))
    one = made[-1]
    assert isinstance(one, Alike)
    matrix, whole = plain.dense(), Terms.identity((8, 4))
    number = Terms(whole.shape, 32, whole.rows, whole.cols, np.tile([1.0, 2.0, 3.0, 4.0], 8), 2)
    other = along(whole, 1)
    assert other is not None
    cases: list[tuple[LinearMap, np.ndarray, bool]] = [
        (one, matrix, True),
        (whole, np.eye(32), True),  # a residual sum
        (number, np.diag(number.weights), True),
        (replace(number, weights=np.arange(32.0)), np.diag(np.arange(32.0)), False),
        (replace(whole, rows=whole.rows[::-1]), np.eye(32)[::-1], False),
        (other, np.eye(32), False),  # the features are the axis
    ]
    for added, own, has_matrix in cases:
        for total in (one.plus(added), added.plus(one)):
            assert isinstance(total, Alike) is has_matrix
            check(total, matrix + own)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triplets, "PART", 100)
        patch.setattr(triplets, "MOST_WHOLE", 100)
        large = one.plus(other)
    check(large, matrix + np.eye(32))
    square = Terms.identity((4, 4))
    one, other = along(square, 0), along(square, 1)  # matrices of one shape
    assert one is not None
    assert other is not None
    check(one.plus(other), 2 * np.eye(16))
    turned = Alike((4, 4), 0, np.arange(16).reshape(4, 4)[::-1], np.eye(4))
    check(one.plus(turned), np.eye(16) + turned.of(np.ones(16, bool)).dense())


def test_maps_along_an_axis() -> None:
    identity = Terms.identity((4, 6))
    for axis in (0, 1):
        made = along(identity.times(2.0), axis)
        assert made is not None
        check(made, 2.0 * np.eye(24))
    columns = Terms(identity.shape, 24, identity.rows, identity.cols, np.tile(np.arange(6.0), 4), 2)
    made = along(columns, 0)
    assert made is not None
    check(made, np.diag(columns.weights))
    for other in (
        replace(columns, weights=np.repeat(np.arange(4.0), 6)),
        replace(columns, rows=columns.rows[::-1]),
        replace(columns, distinct=0),
        Terms((4, 6), 12, np.arange(12), np.arange(12), np.ones(12), 2),
    ):
        assert along(other, 0) is None
    turned = Alike((4, 6), 1, np.arange(24).reshape(6, 4), np.eye(4))  # a transposition, which is no factor
    check(turned, np.eye(24)[np.arange(24).reshape(6, 4).T.ravel()])
    missing = Terms((4, 6), 24, identity.rows[1:], identity.cols[1:], np.ones(23), 2)
    assert along(missing, 0) is None


# ---- diagonals that repeat ----


def sequence(count: int, features: int, distance: int, slots: int) -> Layout:
    """Returns the layout of tokens [count, features] with the tokens outermost in each ciphertext."""
    own: Digits = ((features, 1),) if features <= distance else ((distance, 1), (-(-features // distance), slots))
    return Layout((count, features), (((count, distance),), own), slots * own[-1][0] if len(own) > 1 else slots, slots)


def check_diagonals(made: LinearMap, source: Layout, target: Layout, spans: set[int]) -> Blocks:
    """Checks the diagonals of a map between two layouts, also for two interleaved samples, and the spans of the weights."""
    every = diagonals_of(made, source, target)
    assert {d.span for d in every.values()} == spans
    x = RNG.normal(size=(2, made.columns))
    for share in (1, 2):
        one, two = (layout.interleaved(share) if share > 1 else layout for layout in (source, target))
        vectors = one.pack(x[:share])
        results = np.zeros((two.ciphertexts, two.slots))
        for (to, of), diagonals in every.items():
            d = diagonals.interleaved(share) if share > 1 else diagonals
            assert d.span == diagonals.span * share
            assert d.values().shape == (d.count, d.span)
            results[to] += d.apply(vectors[of])
        got = two.unpack(results, share).reshape(share, -1)
        np.testing.assert_allclose(got, [made.apply(one) for one in x[:share]], atol=1e-11)
        if target.ciphertexts == 1:  # right in all copies
            np.testing.assert_allclose(results, two.pack(got), atol=1e-11)
    return every


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([2, 4, 16]), st.integers(1, 21), st.integers(1, 3), st.integers(1, 5), st.sampled_from([4, 8]))
def test_diagonals_of_tokens_repeat(count: int, inputs: int, heads: int, size: int, distance: int) -> None:
    """A layer of tokens in one or several ciphertexts: the weights repeat with the distance of tokens."""
    slots = count * distance
    b = Builder((count, inputs))
    value = b.dense("x", heads * size)
    value = b.other("reshape", value, (count, heads, size), shape=(count, heads, size))
    maps, _ = pushed(b.graph(b.transpose(value, (1, 0, 2))))
    assert all(isinstance(made, Alike) for made in maps[1:])
    source, target = sequence(count, inputs, distance, slots), sequence(count, heads * size, distance, slots)
    check_diagonals(maps[1], source, target, {distance})
    # Heads before the tokens, in the places of `target`.
    layouts: tuple[Layout, ...] = (target,)
    for one in b.nodes[1:]:
        layouts = carried(one, layouts, b.shapes[one.output])
    for layout in layouts[:1]:
        check_diagonals(maps[3], source, layout, {distance})


def test_blocks_of_repeating_diagonals() -> None:
    """Three ciphertexts to two: blocks share steps, and diagonals without weights are left out."""
    b = Builder((8, 20))
    maps, _ = pushed(b.graph(b.dense("x", 12)))
    every = check_diagonals(maps[1], sequence(8, 20, 8, 64), sequence(8, 12, 8, 64), {8})
    assert set(every) == {(to, of) for to in range(2) for of in range(3)}
    assert len({(d.period, d.baby) for d in every.values()}) == 1
    assert [every[0, 0].count, every[1, 2].count] == [15, 7]


def test_diagonals_of_other_layouts_do_not_repeat() -> None:
    """Tokens that do not divide the period have diagonals of the period."""
    b = Builder((8, 6))
    (_, made), _ = pushed(b.graph(b.dense("x", 4)))
    fits, target = sequence(8, 6, 8, 64), sequence(8, 4, 8, 64)
    inner = Layout((8, 6), (((8, 1),), ((6, 8),)), 64, 64)
    check_diagonals(made, fits, target, {8})
    check_diagonals(made, inner, target, {64})
    check_diagonals(made, fits, Layout((8, 4), (((8, 1),), ((4, 8),)), 64, 64), {64})
    check_diagonals(made, raster((8, 6), 256), raster((8, 4), 256), {64})  # periods 64 and 32
    check_diagonals(made, packed((8, 6), 64), target, {64})  # a distance of 6
    check_diagonals(made, Layout((8, 6), (((2, 8), (4, 16)), ((6, 1),)), 64, 64), target, {8})
    check_diagonals(made, Layout((8, 6), (((2, 32), (4, 8)), ((6, 1),)), 64, 64), target, {64})  # other places of tokens
    check_diagonals(
        made, Layout((8, 6), (((4, 16), (2, 64)), ((6, 1),)), 128, 64), target, {64}
    )  # tokens in two ciphertexts
    check_diagonals(made, inner, Layout((8, 4), (((8, 1),), ((4, 8),)), 64, 64), {64})  # neighbouring tokens
    tokens: Digits = ((4, 16), (2, 72))  # the second four tokens are in another ciphertext, between the first ones
    apart = [Layout((8, features), (tokens, ((features, 1),)), 128, 64) for features in (6, 4)]
    check_diagonals(made, apart[0], apart[1], {64})
    whole = made.of(np.ones(48, bool)) if isinstance(made, Alike) else made
    check_diagonals(whole, fits, target, {64})


# ---- layouts ----


@st.composite
def factored(draw: st.DrawFn, most: int = 5) -> list[int]:
    """Small factors of a number of values, of which most are powers of two."""
    return draw(st.lists(st.sampled_from([2, 2, 2, 2, 4, 3]), min_size=1, max_size=most))


def grouped(draw: st.DrawFn, factors: list[int]) -> Shape:
    """Returns a shape of some axes whose lengths are products of neighbouring factors, with some axes of length 1."""
    lengths = [1]
    for factor in factors:
        if draw(st.booleans()):
            lengths.append(1)
        lengths[-1] *= factor
    return tuple(lengths)


@st.composite
def reshapes(draw: st.DrawFn) -> tuple[Layout, Shape]:
    """A layout with digits at random distances, and another shape of as many values."""
    factors = draw(factored())
    before, after = grouped(draw, factors), grouped(draw, draw(st.permutations(factors)))
    sizes: list[list[int]] = []
    left = list(factors)
    for length in before:
        own: list[int] = []
        while math.prod(own) < length:
            own.append(left.pop(0))
        while len(own) > 1 and draw(st.booleans()):  # one digit for two factors
            own[:2] = [own[0] * own[1]]
        sizes.append(own[::-1] or [1])
    if draw(st.booleans()):  # the highest digit of the outermost axis is longer than the axis
        sizes[0][-1] += 1
    every = [(axis, i) for axis, own in enumerate(sizes) for i in range(len(own))]
    distance, found = 1, {}
    for name in draw(st.permutations(every)):
        found[name] = distance
        size = sizes[name[0]][name[1]]
        distance *= power(size) if draw(st.booleans()) else size
    digits = tuple(tuple((n, found[axis, i]) for i, n in enumerate(own)) for axis, own in enumerate(sizes))
    slots = draw(st.sampled_from([64, 1 << 12]))
    return Layout(before, digits, period_of(distance, slots), slots), after


@settings(max_examples=300, deadline=None)
@given(reshapes())
def test_reshapes_keep_the_places(case: tuple[Layout, Shape]) -> None:
    """Values in row-major order have the same places before and after a reshape."""
    source, shape = case
    made = carried(Node("reshape", ("x",), "y", {"shape": shape}), (source,), shape)
    for layout in made:
        assert layout.shape == shape
        np.testing.assert_array_equal(layout.places, source.places)
        assert layout.places.max() < layout.period <= source.period
        assert (layout.slots, layout.share) == (source.slots, source.share)
    if all(n & (n - 1) == 0 for n in (*source.shape, *shape)):
        assert made
    order = tuple(reversed(range(len(source.shape))))
    turned = tuple(source.shape[i] for i in order)
    [other] = carried(Node("transpose", ("x",), "y", {"permutation": order}), (source,), turned)
    np.testing.assert_array_equal(other.places, source.places.reshape(source.shape).transpose(order).ravel())


def test_heads_that_fill_two_ciphertexts_in_part() -> None:
    """Twelve heads of four features in ciphertexts of eight heads."""
    heads = Layout((16, 12, 4), (((16, 32),), ((8, 4), (2, 512)), ((4, 1),)), 1024, 512)
    for shape in ((16, 48), (1, 16, 3, 4, 4), (16, 12, 2, 2), (192, 4)):
        made = carried(Node("reshape", ("x",), "y", {"shape": shape}), (heads,), shape)
        assert len(made) == (0 if shape == (192, 4) else 1)
        for layout in made:
            np.testing.assert_array_equal(layout.places, heads.places)
    [back] = carried(Node("reshape", ("x",), "y", {"shape": (16, 12, 4)}), (sequence(16, 48, 32, 512),), (16, 12, 4))
    np.testing.assert_array_equal(back.places, heads.places)


def filled(count: int, fill: int, slots: int) -> Layout:
    """Returns the layout of one value for each token, which fills the token's places."""
    return Layout((count,), (((count, fill),),), count * fill, slots, fill=fill)


@pytest.mark.parametrize("share", [1, 2])
def test_filled_values_and_parts(share: int) -> None:
    first, second, third = filled(8, 4, 64), sequence(8, 11, 8, 64), packed((5,), 64)
    whole = Layout((101,), (((101, 1),),), 4 * 64, 64, parts=(first, second, third))
    assert whole.ciphertexts == 4
    x = RNG.normal(size=(share, 101))
    layouts = [layout.interleaved(share) if share > 1 else layout for layout in (first, second, third, whole)]
    pieces = [x[:, :8], x[:, 8:96], x[:, 96:]]
    slots = [layout.pack(piece) for layout, piece in zip(layouts[:3], pieces, strict=True)]
    np.testing.assert_array_equal(layouts[3].pack(x), np.concatenate(slots))
    expected = np.tile(np.repeat(pieces[0], 4, axis=1), 2).T.reshape(1, -1)
    np.testing.assert_array_equal(slots[0], expected)
    for layout, piece in zip(layouts, [*pieces, x], strict=True):
        np.testing.assert_array_equal(layout.unpack(layout.pack(piece), share).reshape(share, -1), piece)
    np.testing.assert_array_equal(layouts[3].fills, np.repeat([4, 1], [8, 93]))
    groups = layouts[3].pack_groups(x)
    assert groups.shape == (1, 4, 64 * share)
    np.testing.assert_array_equal(layouts[3].unpack_groups(groups, share), x)


def test_places_near_others() -> None:
    """Each place that `near` returns holds the value, and is a multiple of the fill behind the other place if possible."""
    whole = Layout((13,), (((13, 1),),), 2 * 64, 64, parts=(filled(8, 8, 64), packed((5,), 64)))
    values = np.repeat(np.arange(13), 128)
    places = np.tile(np.arange(128), 13)
    near = whole.near(values, places)
    x = RNG.normal(size=13)
    np.testing.assert_array_equal(whole.pack(x[None]).ravel()[near], x[values])
    assert ((near - places)[values < 8] % 8 == 0).all()
    plain = packed((5,), 64)
    np.testing.assert_array_equal(plain.near(np.array([3, 4]), np.array([7, 9])), [3, 4])


def test_diagonals_of_filled_masks() -> None:
    """The diagonals of scores read a mask that fills the places of tokens by rotations of whole tokens."""
    b = Builder((16,))
    turned = b.other("shifts", "x", (16, 16), axis=0, count=16)
    maps, _ = pushed(b.graph(turned))
    target = Layout((16, 16), (((8, 1), (2, 128)), ((16, 8),)), 256, 128)
    every = check_diagonals(maps[-1], filled(16, 8, 128), target, {128})
    assert all((d.numbers % 8 == 0).all() for d in every.values())
    assert [d.count for d in every.values()] == [8, 8]
    parts = Layout((29,), (((29, 1),),), 256, 128, parts=(packed((13,), 128), filled(16, 8, 128)))
    selected = Terms((16,), 29, np.arange(16), np.arange(13, 29), np.ones(16), 2)
    made = PUSHES["shifts"](b.nodes[0], selected, (16, 16))
    every = check_diagonals(made, parts, target, {128})
    assert set(every) == {(0, 1), (1, 1)}
    assert all((d.numbers % 8 == 0).all() for d in every.values())


# ---- operations of attention ----


@pytest.mark.parametrize(("lead", "count", "size", "values"), [((), 4, 3, 2), ((3,), 5, 2, 4), ((1, 2), 8, 1, 1)])
def test_attention_by_diagonals_equals_loops(lead: Shape, count: int, size: int, values: int) -> None:
    q, k = RNG.normal(size=(2, 2, *lead, count, size))
    v = RNG.normal(size=(2, *lead, count, values))
    w = RNG.normal(size=(2, count, *lead, count))
    scores = CANONICAL["attention_scores"]([q, k], {"width": 4})
    sums = CANONICAL["attention_values"]([w, v], {"width": 4})
    wanted_scores, wanted_sums = np.zeros_like(w), np.zeros_like(v)
    for sample in range(2):
        for at in np.ndindex(*lead):
            for i in range(count):
                for s in range(count):
                    j = (i + s) % count
                    wanted_scores[(sample, s, *at, i)] = q[(sample, *at, i)] @ k[(sample, *at, j)]
                    wanted_sums[(sample, *at, i)] += w[(sample, s, *at, i)] * v[(sample, *at, j)]
    np.testing.assert_allclose(scores, wanted_scores, atol=1e-12)
    np.testing.assert_allclose(sums, wanted_sums, atol=1e-12)
    for operation, operands, result in (("scores", (q, k), w), ("values", (w, v), v)):
        rule = shapes.CANONICAL[f"attention_{operation}"]
        assert rule([operand.shape[1:] for operand in operands], {"width": 4}) == result.shape[1:]


@pytest.mark.parametrize(
    ("operation", "one", "two"),
    [
        ("scores", (4, 3), (4, 2)),
        ("scores", (4, 3), (2, 3)),
        ("scores", (2, 4, 3), (4, 3)),
        ("scores", (4,), (4,)),
        ("values", (4, 4), (3, 2)),
        ("values", (4, 3), (3, 2)),
        ("values", (2, 4, 4), (2, 4, 3)),  # the diagonals are not first
        ("values", (4, 2, 4), (4, 3)),
        ("values", (4,), (4,)),
    ],
)
def test_wrong_shapes_of_attention_are_refused(operation: str, one: Shape, two: Shape) -> None:
    with pytest.raises(ValueError, match=f"of shape .*{one[0]}.* have no .*of shape"):
        shapes.CANONICAL[f"attention_{operation}"]([one, two], {"width": 4})
