"""Linear maps of encrypted networks: triplets, layouts and diagonals, against the interpreter."""

from __future__ import annotations

import math
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given, settings

from heliograph.ml.errors import ModelError
from heliograph.ml.graph import Graph
from heliograph.ml.interpreter import run
from heliograph.ml.networks import terms as triplets
from heliograph.ml.networks.cuts import Network, network_of
from heliograph.ml.networks.design import design_of
from heliograph.ml.networks.diagonals import diagonals_of, turns_of
from heliograph.ml.networks.filled import filled_of
from heliograph.ml.networks.layouts import packed, raster, strided
from heliograph.ml.networks.terms import Deferred
from network_graphs import Builder, residual

SLOTS = 1024


def interpreted(graph: Graph, samples: np.ndarray) -> np.ndarray:
    return run(graph, samples)[graph.outputs[0]]


def dependent(graph: Graph) -> Network:
    """Returns the network of a graph; graphs whose windows see only zeros are skipped."""
    try:
        return network_of(graph)
    except ModelError as error:
        assume("depend on its input" not in str(error))
        raise


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[Graph, tuple[int, ...]]:
    """A chain of one to three convolutions with strides, groups, pads and dilations."""
    groups = draw(st.sampled_from([1, 1, 2]))
    channels = groups * draw(st.integers(1, 3))
    shape = (channels, draw(st.integers(4, 9)), draw(st.integers(4, 9)))
    b = Builder(shape, draw(st.integers(0, 1000)))
    value = "x"
    for _ in range(draw(st.integers(1, 3))):
        inputs, high, wide = b.shapes[value]
        kernel = draw(st.integers(1, 3))
        dilation = draw(st.integers(1, 2))
        pad = draw(st.integers(0, 2))
        if min(high, wide) + 2 * pad < (kernel - 1) * dilation + 1:
            continue
        grouped = groups if inputs % groups == 0 else 1
        outputs = grouped * draw(st.integers(1, 3))
        stride = draw(st.sampled_from([1, 1, 2, 2, 3]))
        value = b.convolution(value, outputs, kernel, stride=stride, pad=pad, groups=grouped, dilation=dilation)
    return b.graph(value), shape


@settings(max_examples=40, deadline=None)
@given(convolutions())
def test_triplets_of_convolutions_equal_the_interpreter(case: tuple[Graph, tuple[int, ...]]) -> None:
    graph, shape = case
    network = dependent(graph)
    x = np.random.default_rng(2).normal(size=(1, *shape))
    form = network.output
    made = sum(terms.apply(x.ravel()) for terms in form.maps.values()) + form.constant
    expected = interpreted(graph, x).ravel() if graph.nodes else x.ravel()
    np.testing.assert_allclose(made, expected, atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(convolutions(), st.sampled_from([128, 512, 4096]), st.booleans())
def test_diagonals_of_all_layouts_equal_the_interpreter(
    case: tuple[Graph, tuple[int, ...]], slots: int, compact: bool
) -> None:
    graph, shape = case
    form = dependent(graph).output
    x = np.random.default_rng(3).normal(size=shape)
    target = packed(form.shape, slots) if compact else raster(form.shape, slots)
    source = packed(shape, slots) if not compact else raster(shape, slots)
    if len(form.shape) == 3 and not compact:
        stride = [max(1, round(a / b)) for a, b in zip(shape[1:], form.shape[1:], strict=True)]
        target = strided(source, stride, form.shape) or target
    vectors = source.pack(x[None])
    results = np.zeros((target.ciphertexts, slots))
    for (to, of), diagonals in diagonals_of(form.maps["x"], source, target).items():
        results[to] += diagonals.apply(vectors[of])
    made = target.unpack(results, 1)[0].ravel()
    expected = form.maps["x"].apply(x.ravel())
    np.testing.assert_allclose(made, expected, atol=1e-10)
    if target.ciphertexts == 1:  # values must repeat with the period
        np.testing.assert_allclose(results, target.spread(expected), atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(convolutions(), st.sampled_from([1024, 4096]), st.booleans())
def test_filled_copies_equal_the_plain_map(case: tuple[Graph, tuple[int, ...]], slots: int, compact: bool) -> None:
    graph, shape = case
    form = dependent(graph).output
    x = np.random.default_rng(7).normal(size=shape)
    source = packed(shape, slots) if compact else raster(shape, slots)
    target = packed(form.shape, slots) if compact else raster(form.shape, slots)
    if len(form.shape) == 3 and not compact:
        stride = [max(1, round(a / b)) for a, b in zip(shape[1:], form.shape[1:], strict=True)]
        target = strided(source, stride, form.shape) or target
    filled = filled_of(form.maps["x"], source, target)
    if max(source.period, target.period) >= slots:
        assert filled is None
    assume(filled is not None)
    assert filled is not None
    vectors = source.pack(x[None])
    expected = form.maps["x"].apply(x.ravel())
    made = filled.apply(vectors[0])
    np.testing.assert_allclose(made, target.spread(expected)[0], atol=1e-10)  # right in all copies
    plain = diagonals_of(form.maps["x"], source, target)[0, 0]
    np.testing.assert_allclose(made, plain.apply(vectors[0]), atol=1e-10)


def test_filled_copies_of_resnets_layers() -> None:
    images = [raster((16, 32, 32), 32768)]
    for shape in ((32, 16, 16), (64, 8, 8)):
        made = strided(images[-1], (2, 2), shape)
        assert made is not None
        images.append(made)
    for layout, plain, most in zip(images, (144, 392, 900), (72, 98, 120), strict=True):
        b = Builder(layout.shape)
        terms = network_of(b.graph(b.convolution("x", layout.shape[0]))).output.maps["x"]
        filled = filled_of(terms, layout, layout)
        assert filled is not None
        assert filled.matrix.count <= most
        assert filled.spread.count == layout.slots // layout.period
        assert filled.cost < diagonals_of(terms, layout, layout)[0, 0].cost
        assert diagonals_of(terms, layout, layout)[0, 0].count == plain


def test_full_ciphertexts_have_no_copies() -> None:
    b = Builder((4, 4))
    terms = network_of(b.graph(b.dense("x", 4))).output.maps["x"]
    assert filled_of(terms, raster((4, 4), 16), raster((4, 4), 16)) is None
    assert filled_of(terms, raster((4, 4), 8), raster((4, 4), 8)) is None


@settings(max_examples=20, deadline=None)
@given(convolutions(), st.sampled_from([2, 4, 8]), st.sampled_from([256, 1024, 8192]))
def test_maps_of_samples_that_share_ciphertexts_do_not_mix_them(
    case: tuple[Graph, tuple[int, ...]], share: int, slots: int
) -> None:
    graph, shape = case
    network = dependent(graph)
    design, one = design_of(network, slots, share, share), design_of(network, slots // share)
    (only,), (m,) = network.output.maps.values(), design.output_maps
    assume(m.factor is None)
    x = np.random.default_rng(4).normal(size=(share, *shape))
    source, target = design.layouts["x"], design.output
    assert [(d.count, d.turns) for d in m.diagonals.values()] == [
        (d.count, d.turns) for d in one.output_maps[0].diagonals.values()
    ]
    vectors, result = source.pack(x), np.zeros((target.ciphertexts, slots))
    for (to, of), diagonals in m.diagonals.items():
        result[to] += diagonals.apply(vectors[of])
    made = target.unpack(result, share)
    for sample, got in zip(x, made, strict=True):
        np.testing.assert_allclose(got.ravel(), only.apply(sample.ravel()), atol=1e-10)
    if m.filled is not None:
        np.testing.assert_allclose(m.filled.apply(vectors[0]), result[0], atol=1e-10)


@settings(max_examples=20, deadline=None)
@given(convolutions(), st.sampled_from([32, 64, 128]))
def test_blocks_share_steps(case: tuple[Graph, tuple[int, ...]], slots: int) -> None:
    graph, shape = case
    form = dependent(graph).output
    blocks = diagonals_of(form.maps["x"], raster(shape, slots), raster(form.shape, slots))
    assume(len(blocks) > 1)
    assert len({(d.period, d.baby, d.folds) for d in blocks.values()}) == 1
    assert turns_of(blocks) <= sum(d.turns for d in blocks.values())
    for d in blocks.values():
        steps = {int(k) for n in d.numbers for k in (n % d.baby, n - n % d.baby) if k}
        assert set(d.rotations) == steps


def test_blocks_of_a_convolution_take_half_the_rotations() -> None:
    b = Builder((16, 16, 16))
    layout = raster((16, 16, 16), 2048)
    blocks = diagonals_of(network_of(b.graph(b.convolution("x", 16))).output.maps["x"], layout, layout)
    assert sorted(blocks) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert 2 * turns_of(blocks) <= sum(d.turns for d in blocks.values())


def test_layouts_fill_the_gaps_of_strides() -> None:
    image = raster((16, 32, 32), 32768)
    half = strided(image, (2, 2), (32, 16, 16))
    assert half is not None
    assert half.period == 8192
    quarter = strided(half, (2, 2), (64, 8, 8))
    assert quarter is not None
    assert quarter.period == 4096
    for layout in (image, half, quarter):
        assert len(np.unique(layout.places)) == math.prod(layout.shape)
        assert layout.places.max() < layout.period


def test_no_layout_keeps_places_after_other_strides() -> None:
    assert strided(raster((1, 9, 9), 128), (3, 3), (2, 3, 3)) is None
    assert strided(raster((12,), 128), (1, 1), (1, 2, 2)) is None


def test_a_small_diagonal_count_of_resnets_layers() -> None:
    b = Builder((16, 32, 32))
    same, down = b.convolution("x", 16), b.convolution("x", 32, stride=2)
    for value, most in ((same, 144), (down, 128)):
        network = network_of(b.graph(value))
        source = raster((16, 32, 32), 32768)
        target = source if value == same else strided(source, (2, 2), (32, 16, 16))
        assert target is not None
        assert diagonals_of(network.output.maps["x"], source, target)[0, 0].count <= most


def test_other_operations_of_forms() -> None:
    b = Builder((2, 4, 6))
    value = b.other("transpose", "x", (6, 2, 4), permutation=(2, 0, 1))
    value = b.other("slice", value, (3, 2, 2), slices=((0, 6, 2), (None, None, None), (3, 0, -2)))
    value = b.other("pad", value, (4, 2, 3), pads=((1, 0), (0, 0), (0, 1)))
    value = b.other("scale", value, (4, 2, 3), factor=np.arange(6.0).reshape(2, 3), offset=np.array(0.5))
    other = b.other("sum", value, (4, 3), axes=(1,), keepdims=False)
    graph = b.graph(b.dense(other, 5))
    graph.shapes[graph.outputs[0]] = (4, 5)  # type: ignore[index]
    x = np.random.default_rng(6).normal(size=(1, 2, 4, 6))
    form = network_of(graph).output
    made = form.maps["x"].apply(x.ravel()) + form.constant
    np.testing.assert_allclose(made, interpreted(graph, x).ravel(), atol=1e-12)


@pytest.mark.parametrize("operation", ["matmul", "normalize"])
def test_unsupported_nodes_are_refused_by_name(operation: str) -> None:
    b = Builder((1, 4, 4))
    value = b.activation(b.convolution("x", 1))
    graph = b.graph(b.other(operation, value, (1, 4, 4)))
    with pytest.raises(ModelError, match=f"/{operation}2 .{operation}."):
        network_of(graph)


def test_networks_that_do_not_depend_on_their_input_are_refused() -> None:
    b = Builder((3,))
    value = b.other("scale", "x", (3,), factor=np.array(0.0), offset=np.array(1.0))
    with pytest.raises(ModelError, match="depend on"):
        network_of(b.graph(value))
    with pytest.raises(ModelError, match="depend on"):
        network_of(b.graph(b.activation(value)))
    assert len(network_of(residual()).cuts) == 6


def branches() -> Graph:
    """Two convolutions of one input, added, with operations that move values between them."""
    b = Builder((4, 8, 8))
    value = b.add(b.convolution("x", 6), b.convolution("x", 6, 1, pad=0, groups=2))
    value = b.other("scale", value, (6, 8, 8), factor=np.arange(6.0)[:, None, None], offset=np.array(0.5))
    joined = b.other("concatenate", value, (12, 8, 8), axis=0)
    b.nodes[-1] = replace(b.nodes[-1], inputs=(value, value))
    return b.graph(b.convolution(joined, 4, stride=2))


@pytest.mark.parametrize("slots", [64, 256, 2048])
def test_large_maps_equal_whole_ones(slots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = network_of(branches()).output
    monkeypatch.setattr(triplets, "MOST_WHOLE", 700)
    monkeypatch.setattr(triplets, "PART", 2000)
    parts = network_of(branches()).output
    one, many = whole.maps["x"], parts.maps["x"]
    assert isinstance(many, Deferred)
    assert max(part.count for part in many.parts()) < one.count / 4
    x = np.random.default_rng(8).normal(size=256)
    np.testing.assert_allclose(many.apply(x), one.apply(x), atol=1e-12)
    np.testing.assert_allclose(parts.constant, interpreted(branches(), np.zeros((1, 4, 8, 8))).ravel(), atol=1e-12)
    source, target = raster((4, 8, 8), slots), raster(whole.shape, slots)
    blocks, expected = (diagonals_of(terms, source, target) for terms in (many, one))
    assert sorted(blocks) == sorted(expected)
    for name, made in blocks.items():
        assert made.rotations == expected[name].rotations
        np.testing.assert_allclose(made.values(), expected[name].values(), atol=1e-12)
        np.testing.assert_allclose(made.interleaved(2).values(), expected[name].interleaved(2).values(), atol=1e-12)
    copies = [filled_of(terms, source, target) for terms in (many, one)]
    assert (copies[0] is None) == (copies[1] is None) == (slots < 2048)
    if copies[0] is not None and copies[1] is not None:
        np.testing.assert_allclose(copies[0].matrix.values(), copies[1].matrix.values(), atol=1e-12)


def test_maps_beyond_all_limits_are_refused() -> None:
    b = Builder((64, 64, 64))
    weight = np.zeros((1024, 64, 3, 3))
    options = {"bias": np.zeros(1024), "strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "groups": 1}
    graph = b.graph(b.other("convolution", "x", (1024, 64, 64), weight=weight, **options))
    with pytest.raises(ModelError, match=r"/convolution0 .*at most 268,435,456 weights.*smaller inputs"):
        network_of(graph)
