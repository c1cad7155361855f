"""Values at unused places never change results. Random expressions of tensors that have fewer values than places give
NumPy's sums over slots and rotations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.polynomial.polynomial as np_polynomial
import pytest

import heliograph as hg
import resign
import rigs
from ckks_rig import Party, parameters
from heliograph import _core
from rigs import N

WIDTH = 5
#: The numbers of slots of CKKS sets: 16 slots, whose values repeat over the places; 100 slots, which are a part of the
#: places; 0, all places.
SETS = (16, 100, 0)


@functools.cache
def ckks(slots: int, levels: int = 9) -> Party:
    """Returns a party with keys for sums over slots, for two rotations and for conjugation."""
    p = parameters(levels=levels, slots=slots)
    return Party(p, rotations=tuple(sorted({*hg.ckks.sum_rotations(p.period), 3, -1})))


class Array:
    """The expected content of a tensor: its values and the zeros behind them, which rotations move into the slots."""

    def __init__(self, values: Any, places: int, slots: int, modulus: int | None = None) -> None:
        self.values, self.places, self.slots, self.modulus = np.asarray(values), places, slots, modulus

    def of(self, values: Any) -> Array:
        """Returns an array that has other values and the same number of places and slots."""
        return Array(values if self.modulus is None else values % self.modulus, self.places, self.slots, self.modulus)

    def padded(self) -> Any:
        """Returns the values at all places."""
        missing = self.places - self.values.shape[-1]
        return np.concatenate([self.values, np.zeros((*self.values.shape[:-1], missing), self.values.dtype)], -1)

    @property
    def even(self) -> bool:
        """Returns whether the values of each ciphertext are equal, as after a sum over slots, which fills the unused places,
        too.

        """
        return bool(np.all(np.ptp(self.values, -1) < 1e-6))

    def mean(self) -> Array:
        """Returns an array with the mean in every slot."""
        return self.of(np.broadcast_to(self.values.mean(-1, keepdims=True), self.values.shape))

    def total(self) -> Array:
        """Returns an array with the sum over slots in every slot."""
        return self.of(np.broadcast_to(self.values.sum(-1, keepdims=True), self.values.shape))


def steps_of_ckks(rng: np.random.Generator, x: Any, a: Array, y: Any, b: Array) -> list[tuple[str, Callable[[], Any]]]:
    """Returns the operations that are possible next, each with the new tensor and its expected values."""
    c, d = rng.uniform(-2, 2, 2)
    each = rng.uniform(-2, 2, (*x.shape, 1))
    vector = rng.uniform(-1, 1, x.slots)
    v, power_of_two = a.values, a.slots == a.places
    steps: dict[str, Callable[[], Any]] = {
        "x + c": lambda: (x + c, v + c),
        "c - x": lambda: (c - x, c - v),
        "x * c": lambda: (x * c, v * c),
        "x * 3 + 1": lambda: (x * 3 + 1, v * 3 + 1),
        "x + c i": lambda: (x + (c + d * 1j), v + (c + d * 1j)),
        "x * i": lambda: (x * 1j, v * 1j),
        "each": lambda: ((x + each) * each, (v + each) * each),
        "x + vector": lambda: (x + vector, v + vector),
        "x * vector": lambda: (x * vector, v * vector),
        "x + y": lambda: (x + y, v + b.values),
        "x * y": lambda: (x * y + d, v * b.values + d),
        "x * x": lambda: (x * x, v * v),
        "polynomial": lambda: (hg.ckks.polynomial(x, [c, d, 0.5]), np_polynomial.polyval(v, [c, d, 0.5])),
        "- mean": lambda: (x - hg.ckks.mean(x, "slots"), v - a.mean().values),
        "mean + x": lambda: (hg.ckks.mean(x, "slots") + x, v + a.mean().values),
        "sum": lambda: (hg.sum(x, "slots") * 0.25 + c, a.total().values * 0.25 + c),
        "window": lambda: (hg.ckks.sum_slots(x, 2), (a.padded() + np.roll(a.padded(), -1, -1))[..., : a.slots]),
        "conjugate": lambda: (hg.ckks.conjugate(x), v.conj()),
        "lower": lambda: (hg.ckks.lower(x, x.level - 1), v),
    }
    if x.ndim == 1:
        steps |= {
            "reversed": lambda: (x[::-1], v[::-1]),
            "matrix": lambda: (hg.matmul([[1, 2], [c, 0]], x, axis=0), np.array([[1, 2], [c, 0]]) @ v),
            "joined": lambda: (hg.concatenate([x[:1] + c, x[1:]]), np.concatenate([v[:1] + c, v[1:]])),
            "sum of two": lambda: (hg.sum(x)[None].broadcast_to((2,)), np.broadcast_to(v.sum(0), v.shape)),
        }
    if a.even or not x._core.tail_known:
        del steps["window"]
    elif power_of_two:  # if the number of slots differs, values rotated beyond the last slot stay at unused places
        steps |= {
            "right": lambda: (hg.ckks.rotate(x, -1), np.roll(a.padded(), 1, -1)[..., : a.slots]),
            "left": lambda: (hg.ckks.rotate(x, 3), np.roll(a.padded(), -3, -1)[..., : a.slots]),
        }
    else:
        del steps["window"]
    return sorted(steps.items())


def check(x: Any, a: Array, secret: Any, said: str) -> None:
    """Checks the values, their sum in every slot, and the rotated values."""
    tolerance = {"atol": 2e-4, "rtol": 1e-5} if a.modulus is None else {"atol": 0, "rtol": 0}

    def same(found: Any, expected: Any) -> None:
        got = secret.decrypt(found)
        want = np.asarray(expected)
        if a.modulus is not None:
            got, want = got % a.modulus, want % a.modulus
        np.testing.assert_allclose(got, want, err_msg=said, **tolerance)

    same(x, a.values)
    same(hg.sum(x, axis="slots"), a.total().values)


@pytest.mark.parametrize("slots", SETS)
@pytest.mark.parametrize("seed", range(12))
def test_random_expressions_of_reals(slots: int, seed: int) -> None:
    """Random CKKS expressions (constants, vectors, tensors, polynomials, statistics, rotations, reshapes) give the right
    values and sums.

    """
    rng = np.random.default_rng([seed, slots])
    p = ckks(slots)
    places, used = p.parameters.period, p.parameters.slots
    values, others = rng.uniform(-1, 1, (2, 2, WIDTH))
    x, a, said = p.tensor(values, pad=True), Array(values, places, used), "x"
    y, b = p.tensor(others, pad=True) + 0.5, Array(others + 0.5, places, used)
    for _ in range(5):
        b = b.of(b.padded()[..., : a.values.shape[-1]])
        steps = steps_of_ckks(rng, x, a, y, b)
        name, step = steps[rng.integers(len(steps))]
        x, new = step()
        a, said = a.of(new), f"{said}, {name}"
        if x.level < 4:
            break
        if np.abs(a.values).max() > 8:
            x, a = x * (1 / 16), a.of(a.values / 16)
    check(x, a, p.secret, said)
    if a.values.shape[-1] < places and x.level > 1:
        np.testing.assert_allclose(p.secret.decrypt(hg.ckks.mean(x, "slots")), a.mean().values, atol=2e-4, err_msg=said)


@functools.cache
def exact(scheme: str, moduli: tuple[int, ...] = (65537,)) -> tuple[Any, Any]:
    """Returns a secret key and its server, which has all rotations for sums."""
    spec = rigs.small_spec(250 if len(moduli) == 1 else 300, 1, list(moduli), scheme=scheme)
    secret = hg.SecretKey.generate(hg.bfv.Parameters(_core.exact.Parameters(spec)))
    steps = [1 << i for i in range((N // 2).bit_length() - 1)]
    return secret, hg.Server(secret.evaluation_keys(rotations=[*steps, 3, -1], columns=True))


def rows_turned(a: Any, steps: int) -> Any:
    """Rotates both rows of all slots to the left."""
    return np.roll(a.reshape(*a.shape[:-1], 2, N // 2), -steps, -1).reshape(a.shape)


def steps_of_integers(rng: np.random.Generator, x: Any, a: Array, y: Any, b: Array) -> list[tuple[str, Callable[[], Any]]]:
    """Returns the operations that are possible next, each with the new tensor and its expected values."""
    c, d = (int(k) for k in rng.integers(-9, 9, 2))
    each = rng.integers(-5, 6, x.shape)
    vector = rng.integers(-5, 6, x.slots)
    v = a.values
    steps: dict[str, Callable[[], Any]] = {
        "x + c": lambda: (x + c, v + c),
        "c - x": lambda: (c - x, c - v),
        "x * c": lambda: (x * c, v * c),
        "each": lambda: (x * each - each, v * each[..., None] - each[..., None]),
        "x + y": lambda: (x + y, v + b.values),
        "x * y": lambda: (hg.relinearize(x * y) + d, v * b.values + d),
        "sum": lambda: (hg.sum(x, "slots") * 2 + c, a.total().values * 2 + c),
        "shrink": lambda: (hg.shrink(x, max(2, x.level - 1)), v),
    }
    if not a.even and x._core.tail_known:
        steps |= {
            "right": lambda: (hg.rotate_rows(x, -1), rows_turned(a.padded(), -1)),
            "left": lambda: (hg.rotate_rows(x, 3), rows_turned(a.padded(), 3)),
            "columns": lambda: (hg.rotate_columns(x), np.roll(a.padded(), N // 2, -1)),
        }
    if x.slots < N:
        server = y._keys
        steps |= {
            "x + vector": lambda: (x + hg.bfv.encode(server.parameters, vector), v + vector),
            "x * vector": lambda: (x * hg.bfv.encode(server.parameters, vector), v * vector),
        }
    if x.ndim == 1:
        w = np.array([[1, 2], [c, 0]])
        steps |= {
            "reversed": lambda: (x[::-1], v[::-1]),
            "matrix": lambda: (hg.matmul(w, x, [d, 1]), w @ v + np.array([[d], [1]])),
            "joined": lambda: (hg.concatenate([x[:1] + c, x[1:]]), np.concatenate([v[:1] + c, v[1:]])),
            "parts": lambda: (x.split_moduli()[0].join_moduli(x.split_moduli()[1:]), v),
        }
    return sorted(steps.items())


@pytest.mark.parametrize(("scheme", "moduli"), [("bfv", (65537,)), ("bgv", (65537,)), ("bfv", (12289, 18433))])
@pytest.mark.parametrize("seed", range(8))
def test_random_expressions_of_integers(scheme: str, moduli: tuple[int, ...], seed: int) -> None:
    """Random expressions of BFV and BGV give exactly the right values and sums."""
    rng = np.random.default_rng([seed, len(scheme), len(moduli)])
    secret, server = exact(scheme, moduli)
    t = int(np.prod(moduli))
    values, others = rng.integers(-20, 20, (2, 2, WIDTH))
    x, a, said = server.bind(secret.encrypt(values, pad=True)), Array(values, N, N, t), "x"
    y, b = server.bind(secret.encrypt(others, pad=True)) + 2, Array(others + 2, N, N, t)
    products = 0
    for _ in range(5):
        b = b.of(b.padded()[..., : a.values.shape[-1]])
        steps = steps_of_integers(rng, x, a, y, b)
        name, step = steps[rng.integers(len(steps))]
        products += name in ("x * y", "x * vector")
        if products > 2:
            break
        x, new = step()
        a, said = a.of(new), f"{said}, {name}"
    check(x, a, secret, said)


@pytest.mark.parametrize("scheme", ["bfv", "bgv"])
def test_layers_of_networks(scheme: str) -> None:
    """A convolution with bias, squares and pooling is correct for any content of the unused places, computed in any number
    of parts.

    """
    secret, server = exact(scheme)
    images = np.random.default_rng(5).integers(-2, 3, (1, 4, 4, WIDTH))
    x = server.bind(secret.encrypt(images, pad=True)) + 1
    w = np.random.default_rng(6).integers(-1, 2, (2, 1, 3, 3))
    layer = {"padding": 1, "pool": 2}
    whole = hg.conv2d_square_pool(x, w, [1, -2], **layer)
    parts = x.conv2d_square_pool(w, [1, -2], **layer, stretch=1)
    apart = hg.sum_pool2d(hg.square(hg.conv2d(x, w, [1, -2], padding=1)), 2)
    for y in (whole, parts, apart):
        np.testing.assert_array_equal(
            secret.decrypt(hg.sum(y, "slots")), secret.decrypt(y).sum(-1, keepdims=True) + 0 * secret.decrypt(y)
        )


def test_sums_take_a_level_for_unknown_places_only() -> None:
    """A sum takes a level only if the content of the unused places is unknown. If no level is left, the error states this."""
    p = ckks(0, 3)
    a = np.linspace(0, 1, WIDTH)
    x = p.tensor(a, pad=True)
    assert hg.sum((x + 1) * 2, "slots").level == 3
    z = x - hg.ckks.mean(x, "slots")  # the unused places hold minus the mean, which the server does not know
    assert hg.sum(z, "slots").level == z.level - 1
    # the product with the mask and the product with the mean's weight take one level together
    assert hg.ckks.mean(z, "slots").level == z.level - 1
    low = hg.ckks.lower(z, 1)
    with pytest.raises(hg.LevelError, match="behind the 5 values"):
        hg.sum(low, "slots")
    once = hg.ckks.multiply(z, np.ones(WIDTH), rescale=False)
    assert hg.sum(once, "slots").level == z.level
    product = hg.ckks.multiply(z, z, rescale=False)
    with pytest.raises(hg.LevelError, match=r"behind the 5 values.*rescale"):
        hg.sum(product, "slots")
    with pytest.raises(hg.LevelError, match="level 1 is the lowest"):
        hg.sum(product.rescale(), "slots")
    p = ckks(0)
    z = p.tensor(a, pad=True)
    z = z - hg.ckks.mean(z, "slots")
    product = hg.ckks.multiply(z, z, rescale=False)
    for total in (hg.sum(product, "slots").rescale(), hg.sum(product.rescale(), "slots")):
        np.testing.assert_allclose(p.secret.decrypt(total), 0.625, atol=1e-5)


def test_tensors_of_different_widths() -> None:
    """The narrower tensor is extended by zeros. A tensor whose places are all equal broadcasts to any width."""
    p = ckks(16)
    a, b = np.arange(5.0), np.arange(8.0)
    x, y = p.tensor(a, pad=True), p.tensor(b, pad=True)
    wide = np.concatenate([a + 1, np.zeros(3)])
    p.check((x + 1) + y, wide + b)
    p.check((x + 1) * y, wide * b)
    p.check((x - hg.ckks.mean(x, "slots")) + y, np.concatenate([a - 2, np.zeros(3)]) + b)
    p.check(hg.sum(x, "slots") + y, b + 10)
    p.check(hg.stack([x + 1, y]), np.stack([wide, b]))
    secret, server = exact("bfv")
    x, y = (server.bind(secret.encrypt(v.astype(int), pad=True)) for v in (a, b))
    np.testing.assert_array_equal(secret.decrypt((x + 1) + y), wide + b)
    np.testing.assert_array_equal(secret.decrypt(hg.sum(x, "slots") + y), b + 10)
    np.testing.assert_array_equal(secret.decrypt(hg.stack([x + 1, y])), np.stack([wide, b]))


def test_matrices_on_slots() -> None:
    """Matrices ignore the places behind their last column and leave zeros behind their last row."""
    p = ckks(16)
    m = np.arange(15.0).reshape(3, 5) / 8
    layer = hg.ckks.LinearTransform(p.parameters, m, level=8)
    server = hg.Server(p.secret.evaluation_keys(rotations=[*layer.rotations, 1, 2, 4, 8]))
    a = np.linspace(-1, 1, 5)
    x = server.bind(p.secret.encrypt(a, pad=True)) + 1
    y = layer @ (x - hg.ckks.mean(x, "slots"))
    assert hg.sum(y, "slots").level == y.level
    np.testing.assert_allclose(p.secret.decrypt(hg.sum(y + 1, "slots")), np.full(3, (m @ a + 1).sum()), atol=1e-5)


@pytest.mark.parametrize("scheme", ["ckks", "bfv"])
def test_files_and_programs(scheme: str, tmp_path: Path) -> None:
    """A file states whether the unused places are zero, equal to the values, or unknown. The file contains no other numbers
    about the unused places.

    """
    if scheme == "ckks":
        secret, server = ckks(0).secret, ckks(0).server
    else:
        secret, server = exact("bfv")
    a = np.arange(WIDTH)
    x = server.bind(secret.encrypt(a, pad=True))

    def said(t: Any) -> Any:
        return resign.take_apart(t.to_bytes()).header.get("tail")

    def total(t: Any) -> Any:
        return secret.decrypt(hg.sum(t, "slots")).round(3)

    cases = {
        "x": (x, None, 10),
        "x * 3": (x * 3, "zero", 30),
        "x + 7": (x + 7, "zero", 45),
        "each": (hg.stack([x, x + 7])[1], "zero", 45),
        "secret": (x + hg.sum(x, "slots"), None, 60),
        "sum": (hg.sum(x, "slots"), "even", 50),
    }
    for t, word, expected in cases.values():
        assert said(t) == word
        read = server.from_bytes(t.to_bytes())
        np.testing.assert_array_equal(total(read), np.full(WIDTH, expected))
        assert said(read) == word

    def f(t: Any) -> Any:
        return hg.sum((t + 7) * 2, "slots"), t + 7

    program = hg.program(f, x)
    program.save(tmp_path / "f.hgp")
    for run in (program, hg.Program.load(tmp_path / "f.hgp")):
        found, added = run(x)
        np.testing.assert_array_equal(secret.decrypt(found).round(3), np.full(WIDTH, 90))
        np.testing.assert_array_equal(total(added), np.full(WIDTH, 45))
    # the function is recorded again
    np.testing.assert_array_equal(secret.decrypt(program(x + 1)[0]).round(3), np.full(WIDTH, 100))
    with pytest.raises(hg.MismatchError):
        hg.Program.load(tmp_path / "f.hgp")(x + 1)


@pytest.mark.parametrize("scheme", ["ckks", "bfv"])
def test_false_statements_about_unused_places(scheme: str) -> None:
    """An invalid statement about unused places is refused. A false statement changes only numbers of its own tensor."""
    secret, server = (ckks(0).secret, ckks(0).server) if scheme == "ckks" else exact("bfv")
    places = ckks(0).parameters.period if scheme == "ckks" else N
    x = server.bind(secret.encrypt(np.arange(WIDTH), pad=True))
    for value in ("one", "", 0, 1e300, None, ["zero"], True):
        document = resign.take_apart((x * 3).to_bytes())
        document.header["tail"] = value
        with pytest.raises(hg.FormatError):
            server.from_bytes(resign.signed(document))
    fresh = resign.take_apart(x.to_bytes())
    fresh.header["tail"] = "zero"
    with pytest.raises(hg.DamagedFileError, match="fresh"):
        server.from_bytes(resign.signed(fresh))
    document = resign.take_apart((x + hg.sum(x, "slots")).to_bytes())
    document.header["tail"] = "zero"
    liar = server.from_bytes(resign.signed(document))
    total = hg.sum(liar, "slots")
    wrong = secret.decrypt(total, **({"unchecked": True} if scheme == "ckks" else {}))[0]
    # control: without the correction the sum is wrong, so the tests above would detect a fault
    assert round(float(wrong)) == 60 + 10 * (places - WIDTH)


def same(p: Party, x: Any, expected: Any) -> None:
    """Checks that the values are within 1e-5 of the expected values."""
    np.testing.assert_allclose(p.secret.decrypt(x), expected, atol=1e-5)


@pytest.mark.parametrize("slots", [6, 16])
def test_rotations_through_files(slots: int) -> None:
    """In CKKS, rotations move zeros from behind the values into the slots, also after loading. Values that were rotated out
    of the slots can be rotated back.

    """
    p = ckks(slots)
    width = 5
    v = np.arange(1.0, 1 + width)
    layer = hg.ckks.LinearTransform(p.parameters, np.ones((3, width)), level=7)
    keys = sorted({*hg.ckks.sum_rotations(p.parameters.period), 3, -1, -3, *layer.rotations})
    server = hg.Server(p.secret.evaluation_keys(rotations=keys))
    y = 10 - server.bind(p.secret.encrypt(v, pad=True))  # the unused places hold 10
    padded = np.concatenate([10 - v, np.zeros(p.parameters.period - width)])
    for x in (y, server.from_bytes(y.to_bytes()), server.from_bytes(server.from_bytes(y.to_bytes()).to_bytes())):
        level = x.level
        for steps in (3, -1):
            turned = hg.ckks.rotate(x, steps)
            assert turned.level == level
            same(p, turned, np.roll(padded, -steps)[: turned.slots])
        back = hg.ckks.rotate(server.from_bytes((hg.ckks.rotate(x, 3) * 2).to_bytes()), -3)
        same(p, back, (2 * padded)[: back.slots])
        same(p, hg.ckks.sum_slots(x, 2), (padded + np.roll(padded, -1))[:slots])
        same(p, hg.sum(x, "slots"), np.full(width, (10 - v).sum()))
        same(p, layer @ x, np.full(3, (10 - v).sum()))


def test_rotations_of_unknown_places() -> None:
    """Places of unknown content are masked before a rotation; this costs a level. If no level is left, a LevelError states
    this.
    """
    p = ckks(6, 3)
    server = hg.Server(p.secret.evaluation_keys(rotations=sorted({*hg.ckks.sum_rotations(p.parameters.period), 2})))
    v = np.arange(1.0, 7.0)
    x = server.bind(p.secret.encrypt(v))
    z = x - hg.ckks.mean(x, "slots")  # the unused places hold minus the mean
    wanted = np.concatenate([(v - 3.5)[2:], [0, 0]])
    for some in (z, server.from_bytes(z.to_bytes())):
        turned = hg.ckks.rotate(some, 2)
        assert turned.level == z.level - 1
        same(p, turned, wanted)
        same(p, hg.ckks.rotate(turned, 2), np.concatenate([wanted[2:], [0, 0]]))
        same(p, hg.ckks.sum_slots(some, 2), (v - 3.5) + np.concatenate([(v - 3.5)[1:], [0]]))
    with pytest.raises(hg.LevelError, match=r"behind the 6 values"):
        hg.ckks.rotate(hg.ckks.lower(z, 1), 2)
    # the 1 is also added at the places to which values were rotated; the next rotation masks these places
    turned = hg.ckks.rotate(x, 2) + 1
    same(p, hg.ckks.rotate(turned, 2), np.concatenate([v[4:] + 1, [1, 1, 0, 0]]))


@pytest.mark.parametrize("scheme", ["bfv", "bgv"])
def test_rotations_of_integers_through_files(scheme: str) -> None:
    """In BFV and BGV, row rotations, column exchanges and sums are right, also after loading. Unused places of unknown
    content are masked.

    """
    secret, server = exact(scheme)
    a = np.arange(1, WIDTH + 1)
    x = server.bind(secret.encrypt(a, pad=True))
    padded = np.concatenate([10 - a, np.zeros(N - WIDTH, int)])
    total = x + hg.sum(x, "slots")
    filled = np.concatenate([a + 15, np.zeros(N - WIDTH, int)])
    for y, values in ((10 - x, padded), (total, filled)):
        for some in (y, server.from_bytes(y.to_bytes())):
            np.testing.assert_array_equal(secret.decrypt(hg.rotate_rows(some, 3)), rows_turned(values, 3))
            np.testing.assert_array_equal(secret.decrypt(hg.rotate_columns(some)), np.roll(values, N // 2))
            np.testing.assert_array_equal(secret.decrypt(hg.sum(some, "slots")), np.full(WIDTH, values.sum()))


def test_padding_beyond_the_room() -> None:
    """Padding slots may hold numbers that exceed the room of a level. A tensor with such numbers is refused, and saving to a
    file removes the numbers.

    """
    party = ckks(100)
    values = np.linspace(-1, 1, WIDTH)
    x = party.server.bind(party.secret.encrypt(values - 3000.0, pad=True, bound=3001)) + 3000.0
    y = hg.ckks.lower(x * x, 1)
    assert party.secret.parameters.room < 9e6  # the room is too small for the values in the padding slots
    with pytest.raises(hg.RoomError):
        party.secret.decrypt(y)
    loaded = party.server.from_bytes(y.to_bytes())
    assert np.abs(party.secret.decrypt(loaded, unchecked=True) - values**2).max() < 1e-2
