"""Data stay on the device: between the upload and the final result, no byte is copied between host and device.

The device counts the traffic (`_core.device.traffic`). If the host and the device share memory, there is no traffic.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph import _core
from rigs import N

MATRIX = np.array([[3, -2, 1], [0, 5, -7]])
BIAS = np.array([4, -9])
KERNEL = np.array([[[[1, -2], [3, 1]]], [[[0, 2], [-1, 1]]]])


class Party:
    """The keys and operands of one set on the default device."""

    def __init__(self, word_size: int, moduli: list[int]) -> None:
        log_q, special = (170, 2) if word_size == 64 else (140, 2)
        spec = _core.exact.make_spec(N, log_q, special, moduli, word_size, 0, True)
        self.secret = hg.SecretKey.generate(hg.bfv.Parameters(_core.exact.Parameters(spec)))
        self.server = hg.Server(self.secret.evaluation_keys(rotations=[1, 2, -3], columns=True))
        values = np.random.default_rng(5).integers(-9, 9, (2, 3, N))
        self.x, self.y = (self.server.bind(self.secret.encrypt(v)) for v in values)
        self.plain = self.server.encode(values[0, 0])
        self.product = self.x * self.y  # a tensor of degree two
        self.image = self.server.bind(self.secret.encrypt(np.random.default_rng(6).integers(-9, 9, (1, 3, 3, N))))


PARTIES = {"w64": (64, [65537]), "w64 several primes": (64, [12289, 18433]), "w32": (32, [65537])}


@functools.cache
def party(name: str) -> Party:
    """Returns the shared party of a set."""
    return Party(*PARTIES[name])


Operation = Callable[[Party], hg.Tensor]
OPERATIONS: dict[str, Operation] = {
    "add": lambda p: p.x + p.y,
    "subtract": lambda p: p.x - p.y,
    "negate": lambda p: -p.x,
    "add degrees": lambda p: p.product + p.x,
    "multiply": lambda p: p.x * p.y,
    "square": lambda p: hg.square(p.x),
    "relinearize": lambda p: hg.relinearize(p.product),
    "power": lambda p: hg.relinearize(p.x**3),
    "rotate": lambda p: hg.rotate_rows(p.x, 2),
    "rotate several steps": lambda p: hg.rotate_rows(p.x, [1, 0, -3]),
    "columns": lambda p: hg.rotate_columns(p.x),
    "matmul": lambda p: hg.matmul(MATRIX, p.x, BIAS),
    "matmul of degree two": lambda p: hg.matmul(MATRIX, p.product),
    "matrix on the right": lambda p: p.x @ MATRIX.T,
    "conv2d": lambda p: hg.conv2d(p.image, KERNEL, BIAS, padding=1),
    "sum": lambda p: hg.sum(p.x),
    "dot": lambda p: hg.dot(p.x, p.y),
    "dot with weights": lambda p: hg.dot(p.x, [1, -2, 3]),
    "multiply plaintext": lambda p: p.x * p.plain,
    "add plaintext": lambda p: p.x + p.plain,
    "subtract plaintext": lambda p: p.x - p.plain,
    "multiply integer": lambda p: p.x * 5,
    "multiply integers": lambda p: p.x * np.array([2, 0, -3]),
    "add integer": lambda p: p.x + 5,
    "add integers": lambda p: p.x - np.array([2, 0, -3]),
    "concatenate": lambda p: hg.concatenate([p.x[1:], p.product]),
    "stack": lambda p: hg.stack([p.x, p.y]),
    "shrink": lambda p: hg.shrink(p.x, p.x.level - 1),
    "shrink by the estimate": lambda p: hg.shrink(p.x),
    "levels meet": lambda p: p.x + hg.shrink(p.y, p.y.level - 1),
    "slice and add": lambda p: p.x[::2] + p.y[1],
    "reshape and add": lambda p: p.x.reshape(3, 1) + p.y.reshape(1, 3),
    "transpose and multiply": lambda p: p.x.reshape(3, 1).T * p.y,
}
VIEWS: dict[str, Operation] = {
    "slice": lambda p: p.x[::2],
    "reverse": lambda p: p.x[::-1],
    "index": lambda p: p.x[1],
    "reshape": lambda p: p.x.reshape(1, 3, 1),
    "transpose": lambda p: p.image.T,
    "broadcast": lambda p: p.x.broadcast_to((4, 3)),
}


def traffic() -> dict[str, int]:
    """Returns the counts of the device's traffic."""
    return dict(_core.device.traffic())


def during(work: Callable[[], Any]) -> tuple[Any, dict[str, int]]:
    """Returns the result of `work` and the traffic during it."""
    before = traffic()
    result = work()
    after = traffic()
    return result, {name: after[name] - before[name] for name in after}


def some(names: Iterable[str]) -> list[str]:
    """On a GPU, returns all names; otherwise only one name, whose test is skipped."""
    return list(names) if "cuda" in _core.device.name() else list(names)[:1]


def require_gpu() -> None:
    """Skips the test if host and device share memory. If host and device share memory, no launches were counted when the
    operands were computed.

    """
    party("w64")
    if traffic()["launches"] == 0:
        pytest.skip(f"the {_core.device.name()} device shares the host's memory, so it has no traffic")


def require_still(crossed: dict[str, int]) -> None:
    """Checks that the traffic contains no copy and no wait."""
    moved = {k: v for k, v in crossed.items() if k not in ("launches", "allocations")}
    assert not any(moved.values()), moved


def test_every_count_exists_on_every_device() -> None:
    """Every count exists on every device."""
    names = {"uploads", "upload_bytes", "downloads", "download_bytes", "launches", "allocations", "waits"}
    assert set(traffic()) == names
    assert all(count >= 0 for count in traffic().values())


def test_necessary_copies_are_counted() -> None:
    """Copies that are necessary are counted: uploads of values, downloads of results and files."""
    require_gpu()
    p = party("w64")
    _, crossed = during(lambda: p.secret.encrypt(np.ones((3, N), dtype=int)))
    assert crossed["uploads"] > 0
    assert crossed["upload_bytes"] >= 3 * N * 8
    for work in (lambda: p.secret.decrypt(p.x), lambda: p.x.to_bytes()):
        _, crossed = during(work)
        assert crossed["downloads"] > 0
        assert crossed["download_bytes"] >= 3 * N * 8
        assert crossed["waits"] > 0
    data = p.product.to_bytes()
    _, crossed = during(lambda: p.server.from_bytes(data))
    assert crossed["upload_bytes"] >= p.product.nbytes


@pytest.mark.parametrize("name", some(PARTIES))
@pytest.mark.parametrize("operation", some(OPERATIONS))
def test_operations_copy_nothing_after_the_first_call(name: str, operation: str) -> None:
    """The first call uploads constants and weights. The second call, which has equal weights, copies nothing and does not
    wait.

    The weights of matmul and conv2d are data of the host; the engine caches their prepared form by their content.
    """
    require_gpu()
    p, run = party(name), OPERATIONS[operation]
    first = run(p)
    second, crossed = during(lambda: run(p))
    require_still(crossed)
    assert crossed["launches"] > 0
    assert second.to_bytes() == first.to_bytes()


@pytest.mark.parametrize("operation", some(VIEWS))
def test_views_copy_nothing(operation: str) -> None:
    """Views change shapes only on the host, without a kernel."""
    require_gpu()
    p = party("w64")
    _, crossed = during(lambda: VIEWS[operation](p))
    assert not any(crossed.values()), crossed


def program(p: Party) -> hg.Tensor:
    """Computes various operations, each on the results of earlier operations."""
    a = hg.relinearize(p.x * p.y) + p.plain
    b = hg.rotate_rows(a, [1, 2, -3])[1:].reshape(6)
    c = hg.matmul(np.arange(-9, 9).reshape(3, 6), b, np.array([1, 2, 3]))
    d = hg.concatenate([c, hg.rotate_columns(p.x)[:2], p.y * p.plain])
    e = hg.conv2d(d[:4].reshape(1, 2, 2), KERNEL, BIAS, padding=1)
    return hg.shrink(hg.sum(e.reshape(2, 9), 1) * 3 - hg.shrink(p.x[:2], 2), 2)


@pytest.mark.parametrize("name", some(PARTIES))
def test_programs_copy_nothing_after_the_first_run(name: str) -> None:
    """After the first run of a program, nothing is copied until the result is read."""
    require_gpu()
    p = party(name)
    first = program(p)
    second, crossed = during(lambda: program(p))
    require_still(crossed)
    assert crossed["launches"] > 20
    assert second.to_bytes() == first.to_bytes()
    assert p.secret.noise_budget(second) > 0, "the set has too few levels for this program"


def test_new_weights_are_uploaded_once() -> None:
    """If weights of the same shape have other values, they are uploaded once and used."""
    require_gpu()
    p = party("w64")
    hg.matmul(MATRIX, p.x)
    other = MATRIX + 1
    result, crossed = during(lambda: hg.matmul(other, p.x))
    assert crossed["uploads"] > 0
    again, crossed = during(lambda: hg.matmul(other.copy(), p.x))
    require_still(crossed)
    expected = np.tensordot(other, p.secret.decrypt(p.x), 1)
    np.testing.assert_array_equal(p.secret.decrypt(result), expected)
    np.testing.assert_array_equal(p.secret.decrypt(again), expected)


def test_keys_are_uploaded_once() -> None:
    """Evaluation keys are much larger than a ciphertext, and are uploaded only when they are first used."""
    require_gpu()
    p = party("w64")
    for steps in (1, 2, -3):
        hg.rotate_rows(p.x, steps)
    _, crossed = during(lambda: [hg.rotate_rows(p.y, steps) for steps in (1, 2, -3)])
    require_still(crossed)
