"""Functions of order on tensors of few values, which share ciphertexts in blocks of slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import heliograph as hg
from heliograph import _core

C = hg.ckks
WIDTH = 100
Values = npt.NDArray[Any]


class Owner:
    """A secret key, a server with the rotations of blocks, and a server without them."""

    def __init__(self) -> None:
        self.parameters = C.parameters(n=2**11, depth=13, log_scale=45, bootstrap=True, insecure=True)
        self.secret = hg.SecretKey.generate(self.parameters)
        self.rotations = C.block_rotations(WIDTH, self.parameters.period)
        rotations = self.rotations + C.sum_rotations(self.parameters.period)
        self.packing = hg.Server(self.secret.evaluation_keys(bootstrap=True, rotations=rotations))
        self.plain = hg.Server(self.secret.evaluation_keys(bootstrap=True))

    def encrypt(self, values: Values, server: hg.Server | None = None, **options: Any) -> Any:
        return (server or self.packing).bind(self.secret.encrypt(values, pad=True, **options))

    def check(self, y: Any, wanted: Values, error: float) -> None:
        """Checks the shape, that the largest error is within the promised error, and that the promised error is within
        `error`."""
        promised = float(_core.ckks.error_bounds(y._core)[0])
        got = self.secret.decrypt(y)
        assert got.shape == wanted.shape
        assert np.abs(got - wanted).max() <= promised <= error


@pytest.fixture(scope="module")
def owner() -> Owner:
    return Owner()


def integers(count: int) -> Values:
    """Returns integers of 8 bits, including both ends, neighbours and ties."""
    v = np.random.default_rng(count).integers(-128, 128, (count, WIDTH))
    v[:, :4] = 127, -128, 0, 5
    v[0, 4:8], v[-1, 4:8] = (127, -128, 0, 1), (-128, 127, 1, 0)
    return v


def one_hot(places: Values, count: int) -> Values:
    return (np.arange(count)[:, None] == places).astype(float)


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Values], Values]]] = {
    "argmax": (lambda x: C.argmax(x, 0, integers=True), lambda v: v.argmax(0)),
    "argmin": (lambda x: C.argmin(x, 0, integers=True, one_hot=True), lambda v: one_hot(v.argmin(0), len(v))),
    "gap": (lambda x: C.argmax(x, 0, gap=1), lambda v: v.argmax(0)),
    "sort": (lambda x: C.sort(x, 0, integers=True), lambda v: np.sort(v, 0)),
    "top_k": (lambda x: C.top_k(x, 2, 0, gap=1), lambda v: np.sort(v, 0)[::-1][:2]),
    "median": (lambda x: C.median(x, 0, integers=True), lambda v: np.median(v, 0)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("count", [2, 3, 5])
def test_packed_results_are_those_of_numpy(owner: Owner, name: str, count: int) -> None:
    """Every function is right for values with ties and for the smallest and the largest integer."""
    function, wanted = CASES[name]
    v = integers(count)
    with C.auto_bootstrap():
        y = function(owner.encrypt(v, bound=(-128, 127)))
    owner.check(y, wanted(v), 0.1)


def test_packing_keeps_the_error_bounds(owner: Owner) -> None:
    """The error of a block does not depend on the errors of the values in other blocks."""
    v = np.random.default_rng(20).integers(0, 8, (20, 31)).astype(float)
    with C.auto_bootstrap():
        y = C.top_k(owner.encrypt(v, bound=(0, 7)), 6, 0, gap=1)
    owner.check(y, np.sort(v, 0)[::-1][:6], 2.0**-13)


def test_packing_saves_most_of_the_work(owner: Owner) -> None:
    """Ten values take 45 signs of pairs and ten signs of ranks. With eight blocks in each ciphertext, signs are computed on
    six and two ciphertexts.

    """
    v = integers(10)

    def products(server: hg.Server) -> int:
        def automatic(x: Any) -> Any:
            with C.auto_bootstrap():
                return C.argmax(x, 0, integers=True)

        return hg.forecast(automatic, owner.encrypt(v, server, bound=(-128, 127))).products

    assert products(owner.packing) < products(owner.plain) / 4


def test_axes_and_unknown_padding(owner: Owner) -> None:
    """Packing also works along other axes of ciphertexts. The contents of padding slots have no effect on other blocks."""
    v = np.moveaxis(np.stack([integers(3), integers(3)[::-1]]), 0, 1)  # [3, 2, width]
    with C.auto_bootstrap():
        x = owner.encrypt(v, bound=(-128, 127))
        owner.check(C.argmax(x, 0, integers=True), v.argmax(0), 0.1)
        owner.check(C.argmax(x, 1, integers=True), v.argmax(1), 0.1)
        owner.check(C.argmin(x + 3.0, 0, integers=True), v.argmin(0), 0.1)
        shifted = x - C.mean(x[0, 0])  # the padding has secret numbers
        owner.check(C.argmax(shifted, 0, integers=True), v.argmax(0), 0.1)


def test_without_rotations_or_free_slots_nothing_is_packed(owner: Owner) -> None:
    """Without the rotations of blocks the results are right, but each ciphertext is computed separately."""

    def automatic(x: Any) -> Any:
        with C.auto_bootstrap():
            return C.argmax(x, 0, integers=True)

    def products(values: Values, server: hg.Server) -> int:
        return hg.forecast(automatic, owner.encrypt(values, server, bound=(-128, 127))).products

    v, full = integers(3), np.zeros((3, owner.parameters.slots))
    owner.check(automatic(owner.encrypt(v, owner.plain, bound=(-128, 127))), v.argmax(0), 0.1)
    assert products(v, owner.packing) < 0.6 * products(v, owner.plain)
    assert products(full, owner.packing) == products(full, owner.plain)


def test_keys_for_a_function_have_the_rotations(owner: Owner) -> None:
    """Keys that are made for a function include the rotations of its blocks."""

    def automatic(x: Any) -> Any:
        with C.auto_bootstrap():
            return C.argmax(x, 0, integers=True)

    example = owner.secret.encrypt(np.zeros((5, WIDTH)), pad=True, bound=(-128, 127))
    keys = owner.secret.evaluation_keys(for_=(automatic, example))
    period = owner.parameters.period
    assert {r % period for r in owner.rotations} <= set(keys.rotations)


def test_block_rotations() -> None:
    assert C.block_rotations(100, 1024) == [128, 256, 512, -128, -256, -512]
    assert C.block_rotations(512, 1024) == [512, -512]
    assert C.block_rotations(1024, 1024) == []
    assert C.block_rotations(1, 4) == [1, 2, -1, -2]
