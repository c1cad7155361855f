"""Networks with squares and pooling are exact on sets of several plaintext moduli. The test has small networks like HCNN-11,
and HCNN-11 itself.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph import _core, nn
from heliograph.cli import cifar

N = 1024
MODULI = 5


def random_network(
    seed: int = 1,
    side: int = 8,
    channels: tuple[int, ...] = (4, 6, 8),
    dense: int = 12,
    bits: int = 4,
    levels: int = 15,
    long_biases: bool = True,
) -> nn.Network:
    """Returns the layers of HCNN-11 for small images, with random weights and long biases."""
    rng = np.random.default_rng(seed)
    layers: list[nn.Layer] = []
    inputs, largest = 3, levels

    def layer(name: str, shape: tuple[int, ...], **how: Any) -> None:
        nonlocal largest
        weight = rng.integers(1 - (1 << (bits - 1)), 1 << (bits - 1), shape)
        about = 1 + nn.Layer(name, weight, np.zeros(shape[0], dtype=np.int64)).bound(largest) // 4
        about = about if long_biases else 1000
        bias = [(-1) ** k * (about * int(rng.integers(1, 1000)) // 1000) for k in range(shape[0])]
        fits = all(abs(b) < 1 << 63 for b in bias)
        layers.append(nn.Layer(name, weight, np.array(bias, dtype=np.int64 if fits else object), **how))
        largest = layers[-1].bound(largest)

    for index, outputs in enumerate(channels):
        layer(f"conv{index + 1}", (outputs, inputs, 3, 3), padding=1, square=True, pool=2)
        inputs = outputs
    layer("dense1", (dense, inputs * (side >> len(channels)) ** 2))
    layer("dense2", (10, dense))
    meta = {"input": {"levels": levels}, "max_abs_logit_training": largest}
    return nn.Network("small", tuple(layers), (3, side, side), meta)


NETWORK = random_network()


def small_set(network: nn.Network, moduli: int = 0, log_q: int = 330) -> hg.bfv.Parameters:
    """Returns a small insecure set whose plaintext moduli can represent every logit."""
    count = moduli or -(-(network.worst_case().bit_length() + 2) // 24)
    plain = _core.exact.batching_primes(N, network.worst_case().bit_length() + 2, count)
    return hg.bfv.parameters(n=N, log_q=log_q, special=0, plain_modulus=plain, insecure=True)


class Rig:
    """The keys of a network and encrypted random images."""

    def __init__(self, network: nn.Network, images: int = 5) -> None:
        self.network = network
        self.parameters = small_set(network)
        self.images = np.random.default_rng(3).integers(0, 256, (images, *network.image))
        self.secret = hg.SecretKey.generate(self.parameters)
        self.server = hg.Server(self.secret.evaluation_keys())
        self.values = network.arrange(self.images)
        self.x = self.server.bind(self.secret.encrypt(self.values, pad=True))

    @property
    def moduli(self) -> int:
        return len(self.parameters.plain_moduli)


@pytest.fixture(scope="module")
def rig() -> Rig:
    """Returns the rig of the small network."""
    return Rig(NETWORK)


def exact_logits(network: nn.Network, images: np.ndarray) -> np.ndarray:
    """Computes the logits by Python integers, independently of the library."""
    results = []
    for image in network.quantize(images).astype(object):
        x = image
        for layer in network.layers:
            if layer.convolution:
                height, width = x.shape[1:]
                padded = np.full((len(x), height + 2, width + 2), 0, dtype=object)
                padded[:, 1:-1, 1:-1] = x
                y = np.zeros((len(layer.weight), height, width), dtype=object)
                for i, j in itertools.product(range(3), range(3)):
                    window = padded[:, i : i + height, j : j + width]
                    y = y + np.tensordot(layer.weight[:, :, i, j].astype(object), window, 1)
                y = (y + np.array([int(b) for b in layer.bias], dtype=object)[:, None, None]) ** 2
                x = y[:, ::2, ::2] + y[:, 1::2, ::2] + y[:, ::2, 1::2] + y[:, 1::2, 1::2]
            else:
                x = layer.weight.astype(object) @ x.reshape(-1) + np.array([int(b) for b in layer.bias], dtype=object)
        results.append(x)
    return np.array(results, dtype=object)


# The clear network


def test_clear_logits_of_any_length_are_exact() -> None:
    """Logits of any length, computed modulo several primes, equal Python integers. No images give no logits."""
    images = np.random.default_rng(3).integers(0, 256, (3, 3, 8, 8))
    logits = NETWORK.clear_logits(images)
    assert NETWORK.worst_case() > 1 << 64
    assert logits.dtype == object
    np.testing.assert_array_equal(logits, exact_logits(NETWORK, images))
    assert max(abs(v) for v in logits.flat) <= NETWORK.worst_case()
    assert NETWORK.clear_logits(images[:0]).shape == (0, 10)


def test_the_bound_is_reached() -> None:
    """One pixel and one weight reach the worst-case bound, so no smaller bound would be right."""
    layers = (
        nn.Layer("conv1", np.array([[[[-3]]]]), np.array([-1]), square=True, pool=2),
        nn.Layer("dense1", np.array([[2]]), np.array([1])),
    )
    network = nn.Network("one", layers, (1, 2, 2), {"input": {"levels": 255}})
    assert network.worst_case() == 2 * 4 * (3 * 255 + 1) ** 2 + 1
    assert network.clear_logits(np.full((1, 1, 2, 2), 255)).tolist() == [[network.worst_case()]]


def test_clear_tensors_modulo_a_prime() -> None:
    """Clear tensors modulo t remain centred. Moduli cannot be mixed, and a modulus that could overflow is refused."""
    t = 65537
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-t, t, (2, 4, 4, 3)) for _ in range(2))
    x, y = hg.ClearTensor(a, t), hg.ClearTensor(b, t)
    kernel = rng.integers(-(1 << 40), 1 << 40, (3, 2, 3, 3))
    big = [3**200, -(5**100), 7]

    def same(found: hg.ClearTensor, expected: np.ndarray) -> None:
        assert found.modulus == t
        assert found.bound() <= t // 2
        np.testing.assert_array_equal(found.values % t, expected % t)

    same(x + y, a + b)
    same(x - y, a - b)
    same(7 - x, 7 - a)
    same(-x, -a)
    same(x * y, a * b)
    same(x**3, a.astype(object) ** 3)
    same(x * (3**100), a.astype(object) * 3**100)
    same(hg.sum(x, 1), a.sum(1))
    same(hg.concatenate([x, y]), np.concatenate([a, b]))
    same(x[0].reshape(-1), a[0].reshape(16, 3))
    same(hg.sum_pool2d(x, 2), a.reshape(2, 2, 2, 2, 2, 3).sum((2, 4)))
    whole = hg.conv2d(hg.ClearTensor(a), kernel % t).values.astype(object)
    same(hg.conv2d(x, kernel, big), whole + np.array(big, dtype=object)[:, None, None, None])
    w = kernel.reshape(3, 18)[:, :2]
    same(
        hg.matmul(w, x, big),
        np.tensordot(w.astype(object), a.astype(object), 1) + np.array(big, dtype=object)[:, None, None, None],
    )
    for other in (hg.ClearTensor(b), hg.ClearTensor(b, 257)):
        with pytest.raises(hg.MismatchError, match="not 65537 and"):
            x + other
        with pytest.raises(hg.MismatchError, match="not 65537 and"):
            hg.concatenate([x, other])
    for modulus in (1, 1 << 31):
        with pytest.raises(hg.ParameterError, match="at least 2 and below 2"):
            hg.ClearTensor(a, modulus)
    with pytest.raises(hg.MismatchError, match="takes one clear tensor"):
        hg.join_moduli([x, y])


# Encrypted


def test_every_logit_equals_the_clear_networks(rig: Rig) -> None:
    """All logits are exact, both for the whole batch and for parts that are encrypted one by one."""
    expected = rig.network.clear_logits(rig.images)
    said: list[str] = []
    answer = rig.network.evaluate(rig.x, lambda what, share: said.append(what))
    logits = rig.secret.decrypt(answer).T
    assert rig.secret.noise_budget(answer) > 1
    assert answer.plain_moduli == rig.parameters.plain_moduli
    assert logits.dtype == object
    np.testing.assert_array_equal(logits, expected)
    assert {f"conv1, modulus 1 of {rig.moduli}", f"dense2, modulus {rig.moduli} of {rig.moduli}"} <= set(said)
    one_by_one = (
        rig.server.bind(rig.secret.encrypt(rig.values, pad=True, moduli=range(k, k + 1))) for k in range(rig.moduli)
    )
    np.testing.assert_array_equal(rig.secret.decrypt(rig.network.evaluate_moduli(one_by_one)).T, expected)


def test_operation_counts_are_hcnn11s() -> None:
    """The counts are those of HCNN-11, computed from shapes alone."""
    network = random_network(side=32, channels=(32, 64, 128), dense=256)
    counts = network.counts()
    assert network.shapes() == [(3, 32, 32), (32, 16, 16), (64, 8, 8), (128, 4, 4), (256,), (10,)]
    assert counts.inputs == 3072
    assert counts.products == 57_344
    assert counts.relinearizations == 14_336
    assert counts.constants == 32 * 1024 * 27 + 64 * 256 * 288 + 128 * 64 * 576 + 256 * 2048 + 10 * 256
    parameters = hg.bfv.parameters("hcnn11")
    assert network.memory(parameters) < 1 << 34  # the layers run for one modulus at a time, in parts
    assert 10 * 57_344 * parameters.ciphertext_bytes() // 10 > 1 << 37


def composition(x: hg.Tensor, weight: Any, bias: Any, pool: int, **how: int) -> hg.Tensor:
    """Computes the fused layer by separate calls."""
    return hg.relinearize(hg.sum_pool2d(hg.square(hg.conv2d(x, weight, bias, **how)), pool))


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize(("padding", "pool"), [(0, 1), (0, 2), pytest.param(1, 1, marks=pytest.mark.full), (1, 2)])
def test_the_fused_layer_has_the_bits_of_its_parts(rig: Rig, groups: int, pool: int, padding: int) -> None:
    """Computed in any number of parts, the fused layer gives the bytes and the noise estimate of its separate steps."""
    rng = np.random.default_rng(8)
    weight = rng.integers(-9, 10, (6, 3 // groups, 3, 3))
    bias = rng.integers(-1000, 1000, 6)
    how = {"groups": groups, "padding": padding}
    x = rig.x[:, :4, :4]
    values = rig.values[:, :4, :4]
    expected = composition(x, weight, bias, pool, **how)
    data = expected.to_bytes()
    for stretch in (0, 1, 4, 100):
        shares: list[float] = []
        found = hg.conv2d_square_pool(x, weight, bias, pool=pool, stretch=stretch, progress=shares.append, **how)
        assert found.to_bytes() == data
        assert found.noise_budget == expected.noise_budget
        assert found.shape == expected.shape
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(1)
    np.testing.assert_array_equal(
        rig.secret.decrypt(expected)[..., :5],
        hg.conv2d_square_pool(hg.ClearTensor(values), weight, bias, pool=pool, **how).values,
    )


def test_the_noise_estimate_covers_equal_filters(rig: Rig) -> None:
    """If filters are equal, the noise of their outputs is dependent. The estimate includes this dependence even if the
    outputs are computed in different parts.

    """
    weight = np.ones((2, 3, 3, 3), dtype=int)
    for stretch in (1, 2):
        found = hg.conv2d_square_pool(rig.x, weight, pool=2, stretch=stretch, padding=1)
        summed = hg.square(hg.matmul([[1, 1]], found.reshape(2, -1)))
        expected = hg.square(hg.matmul([[1, 1]], composition(rig.x, weight, None, 2, padding=1).reshape(2, -1)))
        assert summed.noise_budget == expected.noise_budget


def test_the_fused_layer_accepts_degree_two(rig: Rig) -> None:
    """Operands of degree two are relinearized, as by the separate calls."""
    squares = hg.square(rig.x[:, :4, :4])
    weight = np.random.default_rng(9).integers(-9, 10, (2, 3, 3, 3))
    assert (
        hg.conv2d_square_pool(squares, weight, pool=2, padding=1, stretch=1).to_bytes()
        == composition(squares, weight, None, 2, padding=1).to_bytes()
    )


def test_a_fused_layer_is_cancelled(rig: Rig) -> None:
    """The progress callback can cancel a fused layer between its parts."""

    def stop(share: float) -> None:
        raise hg.CancelledError("enough")

    with pytest.raises(hg.CancelledError, match="enough"):
        hg.conv2d_square_pool(rig.x, np.ones((2, 3, 3, 3), dtype=int), pool=2, padding=1, progress=stop)


def test_sum_pooling(rig: Rig) -> None:
    """Sum pooling is correct for tensors with any leading axes."""
    for shape in ((3, 8, 8), (8, 24), (3, 2, 4, 8)):
        x, clear = rig.x.reshape(*shape), hg.ClearTensor(rig.values).reshape(*shape)
        for size in (1, 2, 4):
            if shape[-2] % size == 0:
                found = rig.secret.decrypt(hg.sum_pool2d(x, size))[..., :5]
                np.testing.assert_array_equal(found, hg.sum_pool2d(clear, size).values)
    np.testing.assert_array_equal(hg.sum_pool2d(hg.ClearTensor(np.arange(4).reshape(2, 2, 1)), 2).values, [[[6]]])


def test_biases_of_any_length(rig: Rig) -> None:
    """Biases may exceed 64 bits, up to half the plaintext modulus."""
    top = rig.parameters.plain_modulus // 2
    bias = [top - 255 * 9, -top, 1 << 70]
    weight = np.ones((3, 3, 1, 1), dtype=int)
    found = rig.secret.decrypt(hg.conv2d(rig.x, weight, bias))[..., :5]
    sums = rig.values.sum(0).astype(object)
    np.testing.assert_array_equal(found, [sums + b for b in bias])
    rows = hg.matmul(np.ones((3, 3), dtype=int), hg.sum(rig.x, 1), bias)
    np.testing.assert_array_equal(
        rig.secret.decrypt(rows)[..., :5], [rig.values.sum((0, 1)).astype(object) + b for b in bias]
    )
    with pytest.raises(hg.PlaintextRangeError, match="beyond half the plaintext modulus"):
        hg.conv2d(rig.x, weight, [top + 1, 0, 0])
    with pytest.raises(hg.ShapeError, match=r"bias (has|must have)"):
        hg.conv2d(rig.x, weight, [top, 0])
    with pytest.raises(hg.DtypeError, match="must be integers"):
        hg.conv2d(rig.x, weight, [0.5, 0, 0])


# ---- Tensors of some of the plaintext moduli


def test_split_tensors_compute_as_whole_ones(rig: Rig) -> None:
    """Every operation on the parts, which are then joined, gives the bytes of the operation on the whole tensor."""
    x = rig.x[:, :2, :2].reshape(12)
    y = x[::-1]
    plain = rig.server.encode(np.random.default_rng(4).integers(0, 9, N))
    turn = rig.secret.evaluation_keys(rotations=[3], columns=True)
    operations: dict[str, Any] = {
        "nothing": lambda a, b: a,
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: 3 - (a - b),
        "multiply": lambda a, b: hg.relinearize(a * b),
        "constants": lambda a, b: a * 5 + np.arange(12),
        "plaintexts": lambda a, b: a * plain + plain,
        "matmul": lambda a, b: hg.matmul(np.arange(24).reshape(2, 12), hg.concatenate([a[:6], b[6:]]), [1 << 80, 3]),
        "conv2d": lambda a, b: hg.conv2d(a.reshape(3, 2, 2), np.ones((1, 3, 2, 2), dtype=int), [7]),
        "pool": lambda a, b: hg.sum_pool2d(a.reshape(3, 2, 2), 2),
        "rotate": lambda a, b: hg.rotate_rows(a, 3, keys=turn) + hg.rotate_columns(b, keys=turn),
        "shapes": lambda a, b: a.reshape(3, 4).T.broadcast_to((2, 4, 3))[:, ::2],
        "shrink": lambda a, b: hg.shrink(a, 2) - b,
    }
    for name, operation in operations.items():
        whole = operation(x, y)
        for pieces in ([1] * rig.moduli, [2, rig.moduli - 2], [rig.moduli]):
            ends = list(itertools.accumulate(pieces))
            parts = [
                operation(*(hg.join_moduli(hg.split_moduli(v)[end - size : end]) for v in (x, y)))
                for size, end in zip(pieces, ends, strict=True)
            ]
            joined = hg.join_moduli(parts)
            assert joined.to_bytes() == whole.to_bytes(), name
            assert joined.noise_budget == min(p.noise_budget for p in parts) == whole.noise_budget
            assert joined.plain_moduli == rig.parameters.plain_moduli


def test_parts_report_their_moduli_and_size(rig: Rig) -> None:
    """Parts know their moduli and size. Parts of fresh tensors are fresh, and joined parts are saved like tensors that were
    never split.

    """
    parts = hg.split_moduli(rig.x)
    assert [p.plain_moduli for p in parts] == [[t] for t in rig.parameters.plain_moduli]
    assert sum(p.nbytes for p in parts) == rig.x.nbytes
    assert f"1 of {rig.moduli} plaintext moduli" in repr(parts[0])
    assert "plaintext moduli" not in repr(rig.x)
    assert rig.secret.noise_budget(parts[1]) > 0
    assert hg.split_moduli(parts[1])[0].plain_moduli == parts[1].plain_moduli
    joined = hg.join_moduli(parts)
    assert joined._core.seeded
    assert joined.to_bytes() == rig.x.to_bytes()
    np.testing.assert_array_equal(rig.secret.decrypt(rig.server.from_bytes(joined.to_bytes()))[..., :5], rig.values)


@pytest.mark.parametrize("public", [False, True])
def test_encrypting_some_moduli(rig: Rig, public: bool) -> None:
    """Values are encrypted for separate ranges of the moduli and then joined; they decrypt correctly."""
    key = rig.secret.public_key() if public else rig.secret
    parts = [key.encrypt(rig.values, pad=True, moduli=r) for r in (range(2), range(2, 3), range(3, rig.moduli))]
    assert [len(p.plain_moduli) for p in parts] == [2, 1, rig.moduli - 3]
    joined = hg.join_moduli(parts)
    np.testing.assert_array_equal(rig.secret.decrypt(joined)[..., :5], rig.values)
    assert joined._core.seeded is not public
    bad: Any
    for bad in (range(0), range(rig.moduli + 1), range(-1, 2), range(0, 4, 2), slice(0, 1), 1):
        with pytest.raises(hg.ParameterError, match="a range within this set's"):
            key.encrypt(rig.values, pad=True, moduli=bad)


def test_parts_that_do_not_match(rig: Rig) -> None:
    """If parts of different moduli are combined, the error states the moduli of each part."""
    first, second, third, *_ = hg.split_moduli(rig.x)
    for wrong in (lambda: first + second, lambda: first * rig.x, lambda: hg.concatenate([second, third])):
        with pytest.raises(hg.MismatchError, match=rf"(number \d|all) of {rig.moduli} plaintext moduli"):
            wrong()
    with pytest.raises(hg.MismatchError, match="number 3 does not follow number 1"):
        hg.join_moduli([first, third])
    with pytest.raises(hg.MismatchError, match="adjacent"):
        hg.join_moduli([first, first])
    with pytest.raises(hg.MismatchError, match="at least one tensor"):
        hg.join_moduli([])
    with pytest.raises(hg.MismatchError, match="one degree"):
        hg.join_moduli([first, hg.square(second)])
    with pytest.raises(hg.ShapeError, match="one shape"):
        hg.join_moduli([first, second[:1]])
    other = hg.SecretKey.generate(rig.parameters)
    with pytest.raises(hg.WrongKeyError):
        hg.join_moduli([first, hg.split_moduli(other.encrypt(rig.values, pad=True))[1]])
    with pytest.raises(hg.ParameterError, match="does not hold plaintext moduli"):
        _core.exact.take_moduli(second._core, 0, 1)
    with pytest.raises(hg.ParameterError, match="does not hold plaintext moduli"):
        _core.exact.take_moduli(rig.x._core, 0, rig.moduli + 1)


def test_a_part_is_not_saved_nor_decrypted(rig: Rig, tmp_path: Any) -> None:
    """A tensor of some plaintext moduli must be joined with the others before it is saved or decrypted. If saving is
    refused, no file is written.

    """
    part = hg.split_moduli(rig.x)[1]
    for refused in (lambda: part.save(tmp_path / "part.hg"), part.to_bytes, lambda: rig.secret.decrypt(part)):
        with pytest.raises(hg.MismatchError, match=rf"number 2 of {rig.moduli} plaintext moduli; join all of them before"):
            refused()
    assert not list(tmp_path.iterdir())


def test_joining_takes_the_lowest_level(rig: Rig) -> None:
    """join_moduli switches all parts to the lowest level, like an addition."""
    parts = [hg.shrink(p, 5 - (k % 2)) for k, p in enumerate(hg.split_moduli(rig.x))]
    joined = hg.join_moduli(parts)
    assert joined.level == 4
    np.testing.assert_array_equal(rig.secret.decrypt(joined)[..., :5], rig.values)


ERRORS: dict[str, tuple[Any, type[Exception], str]] = {
    "windows": (lambda x: hg.sum_pool2d(x, 3), hg.ShapeError, "3 x 3 do not tile"),
    "no window": (lambda x: hg.sum_pool2d(x, 0), hg.ShapeError, "must be at least 1, not 0"),
    "one axis": (lambda x: hg.sum_pool2d(x.reshape(-1), 2), hg.ShapeError, "pooling takes|do not tile"),
    "fused windows": (lambda x: hg.conv2d_square_pool(x, np.ones((2, 3, 3, 3), dtype=int), pool=2 + 2 * x.shape[1]), hg.ShapeError, "do not tile"),
    "fused kernel": (lambda x: hg.conv2d_square_pool(x, np.ones((2, 2, 3, 3), dtype=int)), hg.ShapeError, "do not (convolve|fit)"),
    "fused bias": (lambda x: hg.conv2d_square_pool(x, np.ones((2, 3, 1, 1), dtype=int), [1]), hg.ShapeError, "bias (has 1|must have 2)"),
    "fused pool": (lambda x: hg.conv2d_square_pool(x, np.ones((2, 3, 1, 1), dtype=int), pool=0), hg.ShapeError, "at least 1"),
    "fused stretch": (lambda x: hg.conv2d_square_pool(x, np.ones((2, 3, 1, 1), dtype=int), stretch=-1), hg.ShapeError, "stretch .*-1"),
}  # fmt: skip


@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.parametrize("case", ERRORS)
def test_errors_state_the_cause(rig: Rig, case: str, clear: bool) -> None:
    """Errors are the same on encrypted tensors and on clear tensors."""
    call, error, message = ERRORS[case]
    with pytest.raises(error, match=message):
        call(hg.ClearTensor(rig.values) if clear else rig.x)


def test_fused_layers_need_keys(rig: Rig) -> None:
    """Missing keys are reported before anything is computed."""
    weight = np.ones((2, 3, 3, 3), dtype=int)
    with pytest.raises(hg.MissingKeyError, match="this layer needs evaluation keys"):
        hg.conv2d_square_pool(rig.secret.encrypt(rig.values, pad=True), weight)
    server = hg.Server(rig.secret.evaluation_keys(relinearize=False))
    with pytest.raises(hg.MissingKeyError, match="no relinearization key"):
        hg.conv2d_square_pool(server.bind(rig.secret.encrypt(rig.values, pad=True)), weight)
    other = hg.SecretKey.generate(rig.parameters).evaluation_keys()
    with pytest.raises(hg.WrongKeyError):
        hg.conv2d_square_pool(rig.x, weight, keys=other)
    with pytest.raises(hg.ShapeError, match="at least one output"):
        hg.conv2d_square_pool(rig.x, weight[:0])
    with pytest.raises(hg.ShapeError, match=r"takes \(channels, H, W\)"):
        hg.conv2d_square_pool(rig.x.reshape(1, 3, 8, 8), weight)


# HCNN-11


def test_a_search_for_given_moduli(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search with given moduli leaves some noise budget. The test uses a small network, because the search for HCNN-11 is
    slow.

    """
    network = random_network(side=2, channels=(1,), dense=2, bits=2, levels=1)
    monkeypatch.setattr(nn.Setup, "load", lambda self: network)
    plain = _core.exact.batching_primes(8192, 2 * network.worst_case().bit_length(), 2)
    found = nn.Setup("small", "small", None, 8192, 0, 0, tuple(plain), "small", given_moduli=True).search()
    assert (found.n, found.plain_moduli, found.security) == (8192, plain, "128-bit")
    assert network.noise_budget(found) > 0


@pytest.fixture(scope="module")
def hcnn11() -> nn.Network:
    """Returns the trained network; skips the test if its weights are missing."""
    if "hcnn11" not in nn.names():
        pytest.skip("the weights of hcnn11 are not installed")
    return nn.load("hcnn11")


def test_hcnn11_fits_its_sets(hcnn11: nn.Network) -> None:
    """In every word size, a quarter of the plaintext modulus exceeds every observed logit, and noise budget is left."""
    counts = hcnn11.counts()
    assert (counts.inputs, counts.products, counts.relinearizations) == (3072, 57_344, 14_336)
    assert counts.constants == 10_848_768
    for name in ("hcnn11", "hcnn11/w32", "hcnn11-2020", "hcnn11-2020/w32"):
        parameters = hg.bfv.parameters(name, insecure=True)
        hcnn11.require_fit(parameters)
        assert parameters.plain_modulus > 4 * hcnn11.meta["max_abs_logit_training"]
        assert hcnn11.noise_budget(parameters) > 2
    assert nn.setup("hcnn11").parameters() == hg.bfv.parameters("hcnn11")


def test_hcnn11_is_exact(hcnn11: nn.Network) -> None:
    """Long biases are read exactly, logits equal Python integers, and the logits of a random image are below the worst case."""
    image = np.random.default_rng(11).integers(0, 256, (1, 3, 32, 32))
    logits = hcnn11.clear_logits(image)
    np.testing.assert_array_equal(logits, exact_logits(hcnn11, image))
    assert max(abs(int(b)) for b in hcnn11.layers[-1].bias).bit_length() + 1 == hcnn11.meta["bias_bits"]["dense2"]


def test_hcnn11_accuracy(hcnn11: nn.Network) -> None:
    """The accuracy is stated for test images of CIFAR-10 as JPEG of quality 75, and tested on them."""
    pytest.importorskip("PIL")
    folder = Path(os.environ.get("HELIOGRAPH_CIFAR10", Path(__file__).parents[3] / "shared" / "data" / "cifar10"))
    if not (folder / "test_jpeg.npz").exists():
        pytest.skip(f"CIFAR-10 is not in {folder}; set HELIOGRAPH_CIFAR10 to its folder")
    images, labels, name = cifar.read(folder / "test_jpeg.npz")
    assert name == "CIFAR-10, JPEG q75"
    logits = hcnn11.clear_logits(images[:300])
    assert (logits.argmax(1) == labels[:300]).mean() == pytest.approx(hcnn11.meta["accuracy"]["test"], abs=0.06)
    assert max(abs(v) for v in logits.flat) <= hcnn11.meta["max_abs_logit_test"]
