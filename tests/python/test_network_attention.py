"""Encrypted runs, masks and bundles of networks whose attention is a sum of rotated products."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import heliograph as hg
from heliograph.ml.networks import NetworkModel, compile_graph
from heliograph.ml.networks.evaluation import is_relative
from heliograph.ml.networks.files import arrays_of, circuit_of
from heliograph.ml.networks.prepared import PreparedModel
from heliograph.ml.networks.program import excess_of
from heliograph.models.prepared_bundle import PreparedForm
from network_graphs import Builder
from test_ml_read_onnx import model, node
from transformer_graphs import encoder, feeds

# ---- encrypted runs ----


def parameters(depth: int = 13) -> Any:
    return hg.ckks.parameters(n=2**11, depth=depth, log_scale=39, bootstrap=True, insecure=True)


@pytest.fixture(scope="module")
def small() -> Any:
    return parameters()


@pytest.fixture(scope="module")
def owner(small: Any) -> Any:
    return hg.SecretKey.generate(small)


def compiled(folder: Path, on: Any, *sizes: int, **options: Any) -> PreparedModel:
    """Compiles an encoder for tokens, features, heads and hidden features."""
    onnx.save(encoder(*sizes, **options), folder / "encoder.onnx")
    made = hg.ml.compile(
        folder / "encoder.onnx", calibrate=feeds(60, sizes[0]), accuracy=0.05, classifies=False, parameters=on
    )
    assert isinstance(made, PreparedModel)
    return made


@pytest.fixture(scope="module")
def whole(small: Any, tmp_path_factory: pytest.TempPathFactory) -> PreparedModel:
    """An encoder whose mask is a matrix of equal rows."""
    return compiled(tmp_path_factory.mktemp("whole"), small, 16, 96, 12, 192, square=True)


def contractions(made: PreparedModel) -> int:
    """Returns the number of products that are sums of rotated products."""
    return sum(cut.is_contraction for cut in made.network.network.cuts)


def check_run(made: PreparedModel, secret: Any, count: int) -> None:
    x = feeds(1, count, 9)
    values = made.run(secret, x)
    np.testing.assert_allclose(values, made.simulate(x), atol=5e-4)
    np.testing.assert_allclose(values, made.clear(x), atol=0.25)


def test_a_mask_of_a_row(small: Any, owner: Any, tmp_path: Path) -> None:
    """Tensors of four ciphertexts, and twelve heads in two of them."""
    made = compiled(tmp_path, small, 16, 96, 12, 192)
    assert contractions(made) == 2
    design = made.network.circuit.design
    assert design.most_ciphertexts == 4
    parts = design.layouts[made.network.network.cuts[0].name].parts
    assert [(part.ciphertexts, part.fill) for part in parts] == [(2, 1), (1, 64)]
    assert [(part.shape, part.is_mask, part.has_equal_rows) for part in made.preparation.parts] == [
        ((16, 96), False, False),
        ((1, 1, 16), True, False),
    ]
    check_run(made, owner, 16)


def test_a_mask_of_equal_rows(whole: PreparedModel, owner: Any) -> None:
    assert contractions(whole) == 2
    (part,) = [part for part in whole.preparation.parts if part.is_mask]
    assert (part.has_equal_rows, part.shape, part.size) == (True, (1, 16, 16), 16)
    check_run(whole, owner, 16)


def test_both_masks_give_one_network(whole: PreparedModel, small: Any, tmp_path: Path) -> None:
    row = compiled(tmp_path, small, 16, 96, 12, 192)
    x = feeds(2, 16, 9)
    assert row.network.features == whole.network.features == 16 * 97
    np.testing.assert_array_equal(row.prepare(x), whole.prepare(x))
    np.testing.assert_allclose(row.clear(x), whole.clear(x), atol=1e-5)


@pytest.mark.parametrize(("heads", "depth"), [(3, 14), (4, 20)])
def test_scores_in_blocks(heads: int, depth: int, tmp_path: Path) -> None:
    """More tokens than places of a head, so that the scores have blocks of ciphertexts."""
    made = compiled(tmp_path, parameters(depth), 32, 24, heads, 48)
    assert contractions(made) == 2
    scores = next(cut for cut in made.network.network.cuts if cut.is_contraction)
    assert made.network.circuit.design.layouts[scores.name].ciphertexts == 4
    check_run(made, hg.SecretKey.generate(made.parameters), 32)


def test_a_bootstrap_of_weighted_values(tmp_path: Path) -> None:
    """The values before the product reach further than the weighted values."""
    made = compiled(tmp_path, parameters(12), 8, 8, 2, 8)
    (weighted,) = [c for c in made.network.network.cuts if c.is_contraction and c.node and "values" in c.node.operation]
    assert made.network.circuit.plan.places[weighted.name].after
    check_run(made, hg.SecretKey.generate(made.parameters), 8)


@pytest.mark.parametrize("count", [4, 16])
def test_heads_of_six_features(count: int, small: Any, owner: Any, tmp_path: Path) -> None:
    """The places of a head have gaps: of features, and of diagonals of fewer tokens than places."""
    made = compiled(tmp_path, small, count, 18, 3, 24)
    assert contractions(made) == 2
    check_run(made, owner, count)


def test_numbers_of_tokens_that_are_no_power_of_two(small: Any, owner: Any, tmp_path: Path) -> None:
    made = compiled(tmp_path, small, 6, 8, 2, 16)
    assert contractions(made) == 0
    check_run(made, owner, 6)


PARTS = ("queries", "keys", "values")


@pytest.fixture(scope="module")
def floats(small: Any) -> NetworkModel:
    """Attention of 16 tokens whose queries, keys and values read features of their own."""
    b = Builder((16, 36))
    made = []
    for i in range(3):
        value = b.dense("x", 12)
        b.nodes[-1].attributes["weight"][:, np.arange(36) // 12 != i] = 0
        value = b.other("reshape", value, (16, 3, 4), shape=(16, 3, 4))
        made.append(b.transpose(value, (1, 0, 2)))
    weights = b.softmax(b.matmul(made[0], b.transpose(made[1], (0, 2, 1))))
    mixed = b.transpose(b.matmul(weights, made[2]), (1, 0, 2))
    graph = b.graph(b.other("reshape", mixed, (16, 12), shape=(16, 12)))
    return compile_graph(graph, np.random.default_rng(1).uniform(-1, 1, (60, 16, 36)), accuracy=0.05, parameters=small)


@pytest.fixture(scope="module")
def server(floats: NetworkModel, owner: Any) -> hg.Server[Any]:
    return hg.Server(floats.keys(owner))


def test_inputs_inside_the_range_pass_the_guards(floats: NetworkModel, server: hg.Server[Any], owner: Any) -> None:
    x = np.random.default_rng(2).uniform(-1, 1, (1, 16, 36))
    values = floats.decrypt(owner, floats(server.bind(floats.encrypt(owner, x))))
    np.testing.assert_allclose(values, floats.simulate(x), atol=1e-4)


@pytest.mark.parametrize("part", PARTS)
def test_each_operand_of_attention_has_a_guard(floats: NetworkModel, server: hg.Server[Any], owner: Any, part: str) -> None:
    """Inputs of one operand are far outside, and the others inside."""
    x = np.random.default_rng(2).uniform(-1, 1, (1, 16, 36))
    x[..., np.arange(36) // 12 == PARTS.index(part)] *= 6
    answer = floats(server.bind(floats.encrypt(owner, x, unchecked=True)))
    with pytest.raises(hg.OutOfIntervalError, match=rf"matmul\d+ \({part}\)"):
        floats.decrypt(owner, answer)


# ---- masks ----


def with_matrix(count: int, low: float) -> Any:
    """Attention of tokens "x" with a matrix "mask" [1, count, count], 1 for pairs of tokens that are used."""
    rng = np.random.default_rng(3)
    constants = {name: (rng.normal(size=(4, 4)) / 2).astype(np.float32) for name in "qkv"}
    constants |= {"table": rng.normal(size=(20, 4)), "one": np.ones(()), "low": np.array(low)}
    nodes = [
        node("Gather", "table x", "words"),
        node("Cast", "mask", "floats", to=1),
        node("Sub", "one floats", "rest"),
        node("Mul", "rest low", "bias"),
        *(node("MatMul", f"words {name}", f"x{name}") for name in "qkv"),
        node("Transpose", "xk", "kt", perm=[0, 2, 1]),
        node("MatMul", "xq kt", "scores"),
        node("Add", "scores bias", "masked"),
        node("Softmax", "masked", "soft"),
        node("MatMul", "soft xv", "y"),
    ]
    constants = {name: value.astype(np.float32) for name, value in constants.items()}
    return model(nodes, {"x": [1, count], "mask": [1, count, count]}, ["y"], constants, kind=7)


def masked(folder: Path, on: Any, kept: np.ndarray, low: float) -> tuple[PreparedModel, dict[str, np.ndarray]]:
    count = kept.shape[1]
    onnx.save(with_matrix(count, low), folder / "masked.onnx")
    x = {"x": np.random.default_rng(1).integers(0, 20, (60, count)), "mask": kept}
    made = hg.ml.compile(folder / "masked.onnx", calibrate=x, accuracy=0.05, classifies=False, parameters=on)
    assert isinstance(made, PreparedModel)
    return made, {name: values[:1] for name, values in x.items()}


def rows(samples: int = 60, count: int = 8) -> np.ndarray:
    """Returns masks [samples, count, count] of equal rows."""
    lengths = np.random.default_rng(2).integers(3, count + 1, (samples, 1, 1))
    return np.repeat(np.arange(count) < lengths, count, axis=1).astype(np.int64)


def test_rows_of_masks_that_differ_are_refused(small: Any, owner: Any, tmp_path: Path) -> None:
    made, x = masked(tmp_path, small, rows(), -1e9)
    assert contractions(made) == 2
    np.testing.assert_allclose(made.run(owner, x), made.simulate(x), atol=1e-3)
    other = x["mask"].copy()
    other[0, 5, 0] = 0
    for mask in (other, np.tril(np.ones((1, 8, 8), np.int64))):
        with pytest.raises(hg.PlaintextRangeError, match="the mask bias of a sample must have equal rows"):
            made.encrypt(owner, {"x": x["x"], "mask": mask})


def test_masks_of_other_rows_are_sent_whole(small: Any, owner: Any, tmp_path: Path) -> None:
    made, x = masked(tmp_path, small, np.tile(np.tril(np.ones((8, 8), np.int64)), (60, 1, 1)), -1e9)
    (part,) = [part for part in made.preparation.parts if part.is_mask]
    assert (part.has_equal_rows, part.size) == (False, 64)
    x["mask"] = rows(1)
    made.encrypt(owner, x)


def test_other_values_of_masks_are_refused(small: Any, owner: Any, tmp_path: Path) -> None:
    """Entries of 1 and -2 become 0 and -1200; entries of 2, 0 and -1 become 400, -400 and -800."""
    made, x = masked(tmp_path, small, 3 * rows() - 2, -400.0)
    assert [part.is_mask for part in made.preparation.parts] == [False, True]
    made.encrypt(owner, x)
    made.encrypt(owner, {"x": x["x"], "mask": np.minimum(x["mask"], 5 * x["mask"])})  # -10: -4400
    for value in (2, 0, -1):
        mask = x["mask"].copy()
        mask[..., 2] = value
        with pytest.raises(hg.PlaintextRangeError, match=r"the mask bias must be 0, or at most -1000"):
            made.encrypt(owner, {"x": x["x"], "mask": mask})


# ---- bundles ----


@pytest.fixture(scope="module")
def few(small: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[PreparedModel, dict[str, np.ndarray]]:
    """A model of four tokens, whose input has one layout, and a sample."""
    return masked(tmp_path_factory.mktemp("few"), small, rows(count=4), -1e9)


def check_bundle(made: PreparedModel, secret: Any, x: dict[str, np.ndarray], path: Path) -> None:
    """Checks that the bundle, its client's half and the model give the same bits."""
    bundle = made.export(path)
    half, again = hg.ModelBundle.load(bundle.client().to_bytes()), hg.ModelBundle.load(path)
    assert again.digest == half.digest == bundle.digest
    server = hg.Server(half.keys(secret))
    request = server.bind(half.encrypt(secret, x))
    answers = [made(request), again.run(server, request)]
    values = [np.ravel(made.decrypt(secret, answers[0])), np.ravel(half.decrypt(secret, answers[1], like=x))]
    np.testing.assert_array_equal(*values)
    np.testing.assert_allclose(values[0], made.simulate(x).ravel(), atol=5e-4)
    with pytest.raises(hg.PlaintextRangeError, match="the mask bias must be 0"):
        half.encrypt(secret, {"x": x["x"], "mask": x["mask"] + 1})


def test_a_bundle_of_masks(few: tuple[PreparedModel, dict[str, np.ndarray]], owner: Any, tmp_path: Path) -> None:
    made, x = few
    assert contractions(made) == 2
    assert made.preparation.parts[1].has_equal_rows
    check_bundle(made, owner, x, tmp_path / "few.hgm")
    other = {"x": x["x"], "mask": np.tril(np.ones((1, 4, 4), np.int64))}
    with pytest.raises(hg.PlaintextRangeError, match="the mask bias of a sample"):
        hg.ModelBundle.load(tmp_path / "few.hgm").encrypt(owner, other)


def test_a_bundle_of_an_input_of_several_parts(whole: PreparedModel, owner: Any, tmp_path: Path) -> None:
    check_bundle(whole, owner, feeds(1, 16, 9), tmp_path / "whole.hgm")


def test_a_bundle_of_attention_on_numbers(floats: NetworkModel, server: hg.Server[Any], owner: Any, tmp_path: Path) -> None:
    floats.export(tmp_path / "floats.hgm")
    again = hg.ModelBundle.load(tmp_path / "floats.hgm")
    x = np.random.default_rng(3).uniform(-1, 1, (1, 16, 36))
    request = server.bind(again.client().encrypt(owner, x))
    values = again.client().decrypt(owner, again.run(server, request), like=x)
    np.testing.assert_array_equal(np.ravel(values), floats.decrypt(owner, floats(request)).ravel())
    np.testing.assert_allclose(np.ravel(values), floats.simulate(x).ravel(), atol=1e-4)


def test_changed_bytes_of_a_bundle_are_refused(few: tuple[PreparedModel, Any], tmp_path: Path) -> None:
    few[0].export(tmp_path / "few.hgm")
    data = bytearray((tmp_path / "few.hgm").read_bytes())
    for at in (len(data) // 3, len(data) // 2, len(data) - 9):
        changed = data.copy()
        changed[at] ^= 1
        with pytest.raises(hg.DamagedFileError):
            hg.ModelBundle.load(bytes(changed))


CHANGES: list[tuple[int, str, Any, str]] = [
    (1, "equal_rows", False, "as many values as its network takes"),
    (1, "equal_rows", 1, "only a mask of several rows"),
    (1, "mask", False, "only a mask of several rows"),
    (0, "equal_rows", True, "only a mask of several rows"),
    (1, "shape", [16], "only a mask of several rows"),
    (1, "shape", [2, 8], "must be that of its operations"),
    (1, "scale", (2.0).hex(), "that of a mask is 1"),
]


@pytest.mark.parametrize(("part", "field", "value", "error"), CHANGES)
def test_changed_fields_of_masks_are_refused(
    few: tuple[PreparedModel, Any], part: int, field: str, value: Any, error: str
) -> None:
    form = PreparedForm.of(few[0])
    description = json.loads(json.dumps(form.described()))
    assert PreparedForm.read(description, form.arrays(), form.parameters).needs == few[0].needs
    description["client"]["parts"][part][field] = value
    with pytest.raises(hg.DamagedFileError, match=error):
        PreparedForm.read(description, form.arrays(), form.parameters)


def with_width(made: NetworkModel, operation: str, width: Any) -> dict[str, Any]:
    """Returns the arrays of a network with another width of the heads, or without one."""
    arrays = arrays_of(made.circuit)
    text = json.loads(arrays["network"].tobytes())
    (one,) = [one for one in text["nodes"] if one["operation"] == f"attention_{operation}"]
    one["attributes"] = {} if width is None else {"width": width}
    return arrays | {"network": np.frombuffer(json.dumps(text).encode(), dtype=np.uint8)}


@pytest.mark.parametrize("operation", ["scores", "values"])
@pytest.mark.parametrize("width", [None, 3, 1.5, 1 << 20, 0, 2, True, "4", -4])
def test_changed_widths_of_heads_are_refused(floats: NetworkModel, operation: str, width: Any) -> None:
    """Heads have four features. The width must be a power of two of at least as many."""
    assert circuit_of(with_width(floats, operation, 4), floats.parameters, 1).needs == floats.needs
    with pytest.raises(hg.DamagedFileError, match="damaged network"):
        circuit_of(with_width(floats, operation, width), floats.parameters, 1)


def test_products_of_attention_are_inside_their_bounds(owner: Any, tmp_path: Path) -> None:
    """The bound of scores includes the constants that exp's argument adds. Here offsets of queries and keys add the same number
    to all scores of a token, which exp's argument subtracts."""
    proto = encoder(16, 16, 2, 16, seed=3)
    for tensor in proto.graph.initializer:
        if tensor.name in ("layer0/q/b", "layer0/k/b"):
            tensor.CopyFrom(onnx.numpy_helper.from_array(4 + onnx.numpy_helper.to_array(tensor), tensor.name))
    onnx.save(proto, tmp_path / "shifted.onnx")
    options = {"accuracy": 0.05, "classifies": False, "parameters": owner.parameters}
    made = hg.ml.compile(tmp_path / "shifted.onnx", calibrate=feeds(60, 16), **options)
    network = made.network
    server, seen = hg.Server(network.keys(owner)), {}
    sample = made.prepare({name: values[:1] for name, values in feeds(3, 16, 8).items()})[0]

    def note(name: str, value: Any) -> None:
        if any(cut.name == name and cut.is_product for cut in network.network.cuts):
            seen[name] = float(np.abs(owner.decrypt(value, unguarded=True, unchecked=True)).max()), value.bounds

    network.circuit(server.bind(network.encrypt(owner, sample)), note)
    assert len(seen) > 5
    for largest, (low, high) in seen.values():
        assert largest <= 1.001 * max(-low, high)


def test_inverses_of_large_errors_give_no_bounds(floats: NetworkModel) -> None:
    """Products have known bounds only if the polynomials of their inverses are near the inverses."""
    circuit = floats.circuit
    assert 1 <= excess_of(circuit.network, circuit.polynomials) < 4
    name = next(cut.name for cut in circuit.network.activations if cut.node and is_relative(cut.node))
    fitted = circuit.polynomials[name]
    poor = replace(fitted, coefficients=(0.0, *fitted.coefficients[1:]))
    assert excess_of(circuit.network, {**circuit.polynomials, name: poor}) == math.inf
