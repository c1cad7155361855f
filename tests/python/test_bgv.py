"""BGV differs from BFV in levels, correction factors of the plaintext, noise, parameter sets and files."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import rigs
from heliograph import _core
from model import build, parse
from rigs import N


class World:
    """A secret key, a server and values. The parameter set allows several products in sequence."""

    def __init__(self, word_size: int) -> None:
        spec = rigs.small_spec(400, 2, [65537, 12289], word_size, "bgv")
        self.parameters = hg.bgv.Parameters(_core.exact.Parameters(spec))
        self.secret = hg.SecretKey.generate(self.parameters)
        self.server = hg.Server(self.secret.evaluation_keys(rotations=[1]))
        self.modulus = self.parameters.plain_modulus
        self.values = np.random.default_rng(5).integers(-(self.modulus // 2), self.modulus // 2, (2, N))
        self.x = self.server.bind(self.secret.encrypt(self.values))

    def check(self, tensor: hg.Tensor, expected: Any) -> None:
        """Checks that a tensor decrypts to `expected` and that the estimate of its noise budget is a lower bound."""
        clear = rigs.Clear(np.asarray(expected, dtype=object), self.modulus, "slots")
        np.testing.assert_array_equal(self.secret.decrypt(tensor), clear.centred())
        if tensor.noise_budget is not None:
            assert self.secret.noise_budget(tensor) >= tensor.noise_budget > 0


@functools.cache
def world(word_size: int) -> World:
    """Returns the shared World of a word size."""
    return World(word_size)


WORD_SIZES = pytest.mark.parametrize("word_size", [64, 32])


@WORD_SIZES
def test_products_switch_their_operands(word_size: int) -> None:
    """The operator * switches its operands to the level that the noise model chooses, so more products in sequence are
    possible.
    """
    w = world(word_size)
    v = w.values.astype(object)
    tensor, expected, levels = w.x, v, [w.x.level]
    while (following := hg.relinearize(tensor * tensor)).noise_budget:
        tensor, expected = following, expected * expected % w.modulus
        levels.append(tensor.level)
        w.check(tensor, expected)
    assert len(levels) > 5
    assert levels == sorted(levels, reverse=True)
    assert levels[-1] < levels[0]
    fixed = w.x
    for _ in range(len(levels) - 1):
        fixed = hg.relinearize(hg.Tensor(_core.exact.multiply(fixed._core, fixed._core, None), w.server.keys))
    assert fixed.noise_budget == 0


@WORD_SIZES
def test_sums_across_levels(word_size: int) -> None:
    """Operands that reached a level in different ways have different factors. An operation of two operands makes these
    factors equal.
    """
    w = world(word_size)
    v = w.values.astype(object)
    square = w.x * w.x
    fourth = square * square
    low = hg.shrink(hg.relinearize(fourth), fourth.level - 1)
    for result, expected in (
        (fourth + w.x, v**4 + v),
        (w.x - fourth, v - v**4),
        (low + square, v**4 + v**2),
        (low + 7, v**4 + 7),
        (9 - low, 9 - v**4),
        (low * -3, v**4 * -3),
        (low + w.server.encode(w.values[0]), v**4 + v[0]),
        (low * w.server.encode(w.values[0] % 9), v**4 * (v[0] % 9)),
        (hg.concatenate([low, w.x, fourth]), np.concatenate([v**4, v, v**4])),
        (hg.concatenate([w.x, low]), np.concatenate([v, v**4])),
        (hg.matmul([[2, -1]], low, [5]), 2 * v[:1] ** 4 - v[1:] ** 4 + 5),
        (hg.join_moduli([hg.shrink(hg.split_moduli(low)[0], low.level - 1), hg.split_moduli(low)[1]]), v**4),
        (low * fourth, v**8),
    ):
        w.check(result, expected)


def test_equal_programs_take_equal_levels() -> None:
    """Levels depend on the operations and not on the values."""
    w = world(64)
    other = w.server.bind(w.secret.encrypt(np.zeros((2, N), dtype=int)))
    a, b = w.x * w.x * w.x, other * other * other
    assert (a.level, a.noise_budget) == (b.level, b.noise_budget)


def test_loaded_tensors_switch_to_the_same_levels() -> None:
    """Files contain the noise estimate, so loaded tensors switch to the same levels."""
    w = world(64)
    square = hg.relinearize(w.x * w.x)
    fourth = hg.relinearize(square * square)
    loaded = w.server.from_bytes(fourth.to_bytes())
    assert (loaded * loaded).level == (fourth * fourth).level < loaded.level
    w.check(hg.relinearize(loaded * loaded), w.values.astype(object) ** 8)


def test_tensors_of_unknown_noise_stay_at_their_level() -> None:
    """Files of format 1 have no noise figure, so the levels of their tensors are switched only on request."""
    w = world(64)
    square = hg.relinearize(w.x * w.x)
    old = parse(hg.relinearize(square * square).to_bytes())
    del old.header["noise"], old.header["bound"]
    loaded = w.server.from_bytes(build(dataclasses.replace(old, version=1)))
    assert loaded.noise_budget is None
    product = loaded * loaded
    assert product.level == loaded.level
    lower = hg.shrink(loaded, loaded.level - 1)
    w.check(hg.relinearize(lower * lower), w.values.astype(object) ** 8)


def test_the_fused_layer_has_the_bits_of_its_steps() -> None:
    """conv2d_square_pool is computed in parts. conv2d_square_pool gives the bits of its four separate steps, and chooses one
    level for both plaintext moduli.

    """
    w = world(64)
    rng = np.random.default_rng(2)
    x = w.server.bind(w.secret.encrypt(rng.integers(-9, 9, (1, 4, 4, N))))
    deep = hg.relinearize(x * x)
    kernel, bias = rng.integers(-300, 300, (3, 1, 3, 3)), rng.integers(-9, 9, 3)
    steps = hg.relinearize(hg.sum_pool2d(hg.square(hg.conv2d(deep, kernel, bias, padding=1)), 2))
    for stretch in (1, 3):
        assert hg.conv2d_square_pool(deep, kernel, bias, pool=2, padding=1, stretch=stretch).to_bytes() == steps.to_bytes()


def test_files_keep_factors() -> None:
    """Files contain the factors; invalid factors are refused."""
    w = world(64)
    low = hg.shrink(w.x, 3)
    data = low.to_bytes()
    file = parse(data)
    factors = file.header["factors"]
    assert len(factors) == 2
    assert factors != [1, 1]
    assert parse(w.x.to_bytes()).header["factors"] == [1, 1]
    w.check(w.server.from_bytes(data), w.values.astype(object))
    for wrong in ([0, 1], [65537, 1], [1], [1, 1, 1]):
        file.header["factors"] = wrong
        with pytest.raises(hg.DamagedFileError, match="factor"):
            w.server.from_bytes(build(file))
    fresh = parse(w.x.to_bytes())
    fresh.header["factors"] = [2, 1]
    with pytest.raises(hg.DamagedFileError, match="factor"):
        w.server.from_bytes(build(fresh))


def test_a_file_names_one_scheme() -> None:
    """The file type and the parameters must name the same scheme."""
    w = world(64)
    file = parse(w.x.to_bytes())
    assert file.header["parameters"]["scheme"] == "bgv"
    assert file.type == "heliograph.bgv.ciphertext"
    file.type = "heliograph.bfv.ciphertext"
    with pytest.raises(hg.DamagedFileError, match="scheme"):
        w.server.from_bytes(build(file))


# Sets


@pytest.mark.parametrize("name", hg.bgv.named())
@WORD_SIZES
def test_named_sets(name: str, word_size: int) -> None:
    """Named sets have 128-bit security and allow the listed numbers of products in sequence."""
    p = hg.bgv.parameters(f"{name}/w32" if word_size == 32 else name)
    assert p.security == "128-bit"
    assert p.scheme == "BGV"
    assert p.has_slots
    assert repr(p).startswith(f"<BGV parameters {name}")
    depth = {"bgv-n15": 10, "bgv-n14": 4, "hcnn5-bgv": 2}[name]
    products = functools.reduce(lambda x, _: hg.relinearize(x * x), range(depth), trial(p))
    assert products.noise_budget


def trial(p: hg.bgv.Parameters) -> hg.Tensor:
    """Returns a tensor on the null device."""
    core = _core.exact.Parameters(p._core.spec).on_device("null")
    secret = hg.SecretKey(_core.exact.SecretKey.generate(core))
    return hg.Server(secret.evaluation_keys()).bind(secret.encrypt(np.ones((1, 9), dtype=int), pad=True))


@pytest.mark.parametrize("depth", [1, 3, 6])
@WORD_SIZES
def test_chosen_sets_allow_the_requested_products(depth: int, word_size: int) -> None:
    """A set that `parameters` chooses allows `depth` products of sums and leaves some budget. The set is smaller than the
    set for one more product.

    """
    p = hg.bgv.parameters(depth=depth, plain_modulus=65537, terms=16, word_size=word_size)
    assert p.security == "128-bit"
    x = trial(p)
    for _ in range(depth):
        x = hg.relinearize(hg.sum((x * x).broadcast_to((16,)), 0)).reshape(1)
    assert x.noise_budget
    more = hg.bgv.parameters(depth=depth + 1, plain_modulus=65537, terms=16, word_size=word_size)
    assert more.log_q > p.log_q


def test_parameters_for_a_function() -> None:
    """parameters_for returns the smallest set of each scheme. For small t and many products in sequence, the set of BGV is
    not larger.
    """

    def function(x: Any) -> Any:
        for _ in range(3):
            x = hg.relinearize(x * x)
        return x

    example = np.ones((1, 64), dtype=int)
    exact = {s: hg.parameters_for(function, example, plain_modulus=65537, n=8192, scheme=s) for s in ("bfv", "bgv")}
    assert {s: p.scheme for s, p in exact.items()} == {"bfv": "BFV", "bgv": "BGV"}


def test_schemes_do_not_mix() -> None:
    """A set name belongs to one scheme; the other scheme refuses it and lists its own names."""
    with pytest.raises(hg.ParameterError, match="bgv-n15"):
        hg.bgv.parameters("hcnn5")
    with pytest.raises(hg.ParameterError, match="hcnn5"):
        hg.bfv.parameters("bgv-n15")
    with pytest.raises(hg.ParameterError, match="bgv"):
        _core.exact.named_specs("tfhe")
    assert "BGV" in repr(world(64).x)
    assert "BGV" in repr(world(64).secret)
    assert "BGV" in world(64).parameters.explain()
