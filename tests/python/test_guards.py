"""Guards: an argument outside its declared interval is detected at decryption, after any computation in between."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import heliograph as hg
import resign
from bits import digest
from heliograph import _core
from places import places
from rigs import SEED

C = hg.ckks
SLOTS = 1024
RNG = np.random.default_rng(40)
Array = npt.NDArray[np.float64]
DEGREES = (2, 3, 5, 7, 8, 12, 15, 16, 23, 31, 33, 59, 119)


class Owner:
    """A secret key and a server with its evaluation keys."""

    def __init__(self, parameters: Any, **keys: Any) -> None:
        self.secret = hg.SecretKey.generate(parameters)
        self.server = hg.Server(self.secret.evaluation_keys(**keys))

    def own(self, values: npt.ArrayLike, **options: Any) -> Any:
        """Encrypts values whose trusted bounds this process knows."""
        return self.server.bind(self.secret.encrypt(np.asarray(values, dtype=float), **options))

    def encrypt(self, values: npt.ArrayLike, **options: Any) -> Any:
        """Encrypts values for a server that knows only their public bound."""
        return self.server.from_bytes(self.own(values, **options).to_bytes())

    def decrypt(self, x: Any, **options: Any) -> Array:
        return np.asarray(self.secret.decrypt(x, **options))


@pytest.fixture(scope="module")
def owner() -> Owner:
    params = C.parameters(n=2 * SLOTS, levels=16, log_scale=40, base_bits=60, insecure=True)
    return Owner(params, rotations=C.sum_rotations(SLOTS), conjugate=True)


@pytest.fixture(scope="module")
def padded() -> Owner:
    """A set whose ciphertexts have 1,000 values and 24 slots of padding."""
    params = C.parameters(n=2 * SLOTS, levels=16, log_scale=40, base_bits=60, slots=1000, insecure=True)
    return Owner(params, rotations=[1, 2, 4])


def inside(shape: tuple[int, ...] = (SLOTS,)) -> Array:
    """Returns values in [-1, 1], including both ends."""
    values = RNG.uniform(-1, 1, shape)
    values[..., :2] = -1, 1
    return values


def outside(share: float = 0.05, shape: tuple[int, ...] = (SLOTS,)) -> Array:
    """Returns values, one of which is outside [-1, 1] by this fraction of half the interval."""
    values = inside(shape)
    values.flat[RNG.integers(values.size)] = RNG.choice([-1, 1]) * (1 + share)
    return values


def series(degree: int) -> Array:
    """Returns the coefficients of the Chebyshev series of a smooth function."""
    return 0.5 ** np.minimum(np.arange(degree + 1), 20)


def guarded(x: Any, degree: int = 23) -> Any:
    return C.polynomial(C.within(x, 1), series(degree), "chebyshev")


@pytest.mark.parametrize("degree", DEGREES)
def test_one_value_outside_is_noticed(owner: Owner, degree: int) -> None:
    for share in (0.02, 0.05, 0.2, 1.0, 3.0):
        y = guarded(owner.encrypt(outside(share), bound=8), degree)
        assert y.guards[0].excess < 0.02
        with pytest.raises(hg.OutOfIntervalError, match="a Chebyshev series"):
            owner.decrypt(y)


@pytest.mark.parametrize("degree", DEGREES)
def test_values_inside_are_decrypted(owner: Owner, degree: int) -> None:
    values = inside((16, SLOTS))
    y = guarded(owner.encrypt(values, bound=8), degree)
    assert len(y.guards) == 1
    wanted = np.polynomial.chebyshev.chebval(values, series(degree))
    np.testing.assert_allclose(owner.decrypt(y), wanted, atol=1e-5)


def test_one_value_among_many_ciphertexts_is_noticed(owner: Owner) -> None:
    y = guarded(owner.encrypt(outside(0.05, (50, SLOTS)), bound=8, level=9))
    assert len(y.guards) == 1
    assert y.guards[0].excess < 0.05
    with pytest.raises(hg.OutOfIntervalError):
        owner.decrypt(y)


@pytest.mark.parametrize("degree", [2, 3, 7, 15])
def test_strong_guards_notice_one_value_among_many_ciphertexts(owner: Owner, degree: int) -> None:
    x = owner.encrypt(outside(0.05, (50, SLOTS)), bound=8, level=9)
    weak = C.polynomial(C.within(x, 1), series(degree), "chebyshev")
    y = C.polynomial(C.within(x, 1), series(degree), "chebyshev", guard=True)
    assert y.level == weak.level
    assert y.guards[0].excess <= 0.05 < weak.guards[0].excess
    owner.decrypt(C.polynomial(C.within(owner.encrypt(inside(), bound=8), 1), series(degree), "chebyshev", guard=True))
    with pytest.raises(hg.OutOfIntervalError):
        owner.decrypt(y)
    z = C.exp(owner.encrypt(inside((8, SLOTS)), bound=8), domain=1, error=0.1, guard=True)
    assert z.guards[0].excess <= 0.05
    assert C.exp(owner.encrypt(inside((8, SLOTS)), bound=8), domain=1, error=0.1).guards[0].excess > 0.05


def test_levels_are_those_without_a_guard(owner: Owner) -> None:
    for degree in (2, 7, 23):
        for level in range(C.polynomial_depth(degree) + 1, C.polynomial_depth(degree) + 4):
            x = owner.encrypt(outside(), bound=8, level=level)
            y = guarded(x, degree)
            assert y.level == C.polynomial(C.within(x, 1), series(degree), "chebyshev", guard=False).level
            with pytest.raises(hg.OutOfIntervalError):
                owner.decrypt(y)


def test_proved_bounds_need_no_guard(owner: Owner) -> None:
    x = owner.own(inside(), bound=1)
    for y in (guarded(x), C.exp(x), C.sign(x, gap=0.25, error=0.1), C.exp(x, domain=(-2, 2))):
        assert y.guards == ()
        assert y.precision is not None
    assert guarded(owner.own(inside(), bound=8)).guards == ()  # the trusted bounds are those of the values
    # A file states the sender's public bound. This bound is not a declaration by the party that computes.
    assert guarded(owner.server.from_bytes(x.to_bytes())).guards == ()


def test_explicit_words_open(owner: Owner) -> None:
    x = owner.encrypt(outside(), bound=8)
    for call in (
        lambda: C.polynomial(C.within(x, 1), series(7), "chebyshev", guard=False),
        lambda: C.exp(x, domain=1, guard=False),
        lambda: C.exp(C.within(x, 1), guard=False),
        lambda: C.sign(x, gap=0.5, error=0.1, domain=1, guard=False),
        lambda: C.approximate(np.exp, -1, 1)(C.within(x, 1), guard=False),
        lambda: C.unguarded(C.exp(x, domain=1)),
    ):
        assert call().guards == ()
        owner.decrypt(call(), unchecked=True)
    y = C.exp(x, domain=1)
    plain = owner.decrypt(C.exp(x, domain=1, guard=False))
    np.testing.assert_allclose(owner.decrypt(y, unguarded=True), plain, atol=1e-5)
    np.testing.assert_allclose(owner.decrypt(y, unchecked=True), plain, atol=1e-5)
    with pytest.raises(hg.DtypeError):
        C.exp(x, domain=1, guard="no")


def test_a_result_names_its_guards(owner: Owner) -> None:
    y = C.exp(owner.encrypt(inside(), bound=8), domain=(-1, 1))
    assert [g.operation for g in y.guards] == ["exp on [-1, 1]"]
    assert y.guards[0].nbytes > 0
    assert "exp on [-1, 1]" in repr(y)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": lambda x: C.exp(x, domain=1),
    "log": lambda x: C.log(x + 1.5, domain=(0.5, 2.5)),
    "power": lambda x: C.power(x + 1.5, 3, domain=(0.5, 2.5)),
    "inverse": lambda x: C.inverse(x + 1.5, domain=(0.5, 2.5), error=0.01),
    "rsqrt": lambda x: C.rsqrt(x + 1.5, domain=(0.5, 2.5), error=0.01),
    "sqrt": lambda x: C.sqrt(x + 1.5, domain=(0.5, 2.5), error=0.01),
    "sign": lambda x: C.sign(x, gap=0.5, error=0.1, domain=1),
    "compare": lambda x: C.compare(x, "<", 0, gap=0.5, error=0.1, domain=1),
    "abs": lambda x: C.abs(x, error=0.2, domain=1),
    "relu": lambda x: C.relu(x, error=0.2, domain=1),
    "softmax": lambda x: C.softmax(x.reshape(1, SLOTS) if x.ndim > 1 else x.reshape(1), 0, domain=1),
    "f": lambda x: C.approximate(lambda v: v * v * v, -1, 1)(C.within(x, 1)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_name_their_guards(owner: Owner, name: str) -> None:
    wanted = "<lambda>" if name == "f" else name
    share = 1.5 if name == "relu" else 0.1  # relu uses the sign of x / 2 on [-1, 1], so its guard holds on [-2, 2]
    with pytest.raises(hg.OutOfIntervalError, match=f"an argument of {wanted} on"):
        owner.decrypt(FUNCTIONS[name](owner.encrypt(outside(share), bound=8)))
    owner.decrypt(FUNCTIONS[name](owner.encrypt(inside(), bound=8)))


def in_place(y: Any) -> Any:
    y += 1
    y -= y
    return y


BETWEEN: dict[str, Callable[[Any, Any], Any]] = {
    "rotation": lambda y, _: C.rotate(y, 5, compose=True),
    "rotations": lambda y, _: C.rotate(y, [1, 2]).sum(0),
    "sum of slots": lambda y, _: C.sum_slots(y),
    "conjugation": lambda y, _: C.conjugate(y),
    "sum": lambda y, z: z + y,
    "difference": lambda y, z: z - y,
    "negation": lambda y, _: -y,
    "product": lambda y, z: z * y,
    "zero": lambda y, z: z + y * 0,
    "product later finished": lambda y, z: C.relinearize_rescale(C.multiply(z, y, relinearize=False, rescale=False)),
    "inner product": lambda y, z: C.inner_product(hg.stack([z, z]), hg.stack([y, z])),
    "dot": lambda y, z: hg.dot(hg.stack([z, y]), [1.0, 2.0]),
    "matrix on ciphertexts": lambda y, z: hg.matmul(np.array([[1.0, 2.0]]), hg.stack([z, y])),
    "array": lambda y, _: y * np.linspace(0, 1, SLOTS) + np.ones(SLOTS),
    "plaintext": lambda y, _: y + C.encode(y.parameters, np.ones(SLOTS), level=y.level, scale=y.scale),
    "concatenation": lambda y, z: hg.concatenate([z.reshape(1), y.reshape(1)]),
    "stacking and slicing": lambda y, z: hg.stack([z, y])[0],
    "shapes": lambda y, _: y.reshape(1, 1).transpose().broadcast_to((2, 1))[1],
    "lower": lambda y, _: C.lower(y, 2),
    "power": lambda y, _: y**3,
    "in place": lambda y, _: in_place(y),
    "in place of another": lambda y, z: functools.reduce(lambda a, b: a.__iadd__(b), [+z, y]),
    "variance": lambda y, z: C.var(hg.stack([z, y]), 0),
    "declaration": lambda y, _: C.within(y, 2),
    "another function": lambda y, _: C.exp(y * 0.1, domain=(-0.5, 0.5)),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_operations_carry_guards(owner: Owner, name: str) -> None:
    z = owner.encrypt(inside(), bound=1)
    owner.decrypt(BETWEEN[name](guarded(owner.encrypt(inside(), bound=8), 7), z))
    with pytest.raises(hg.OutOfIntervalError, match="a Chebyshev series"):
        owner.decrypt(BETWEEN[name](guarded(owner.encrypt(outside(), bound=8), 7), z))


def test_a_matrix_on_slots_carries_guards(owner: Owner) -> None:
    matrix = C.LinearTransform(owner.secret.parameters, np.eye(SLOTS), level=4)
    with pytest.raises(hg.OutOfIntervalError):
        owner.decrypt(hg.matmul(matrix, guarded(owner.encrypt(outside(), bound=8))))


@pytest.mark.parametrize("way", ["bytes", "file", "pickle", "again"])
def test_files_carry_guards(owner: Owner, way: str, tmp_path: Path) -> None:
    def copied(y: Any) -> Any:
        if way == "file":
            y.save(tmp_path / "y.hg")
            return hg.load(tmp_path / "y.hg")
        if way == "pickle":
            return pickle.loads(pickle.dumps(y))
        z = owner.server.from_bytes(y.to_bytes())
        return owner.server.from_bytes((z + z).to_bytes()) if way == "again" else z

    good, bad = (copied(C.exp(owner.encrypt(v, bound=8), domain=1)) for v in (inside(), outside()))
    assert [g.operation for g in good.guards] == ["exp on [-1, 1]"]
    owner.decrypt(good)
    with pytest.raises(hg.OutOfIntervalError, match=r"exp on \[-1, 1\]"):
        owner.decrypt(bad)


DAMAGE: dict[str, Callable[[resign.Document], Any]] = {
    "power": lambda d: d.header["guards"][0].update(power=0.0),
    "limit": lambda d: d.header["guards"][0].update(limit=-1.0),
    "noise": lambda d: d.header["guards"][0].update(noise=-1.0),
    "scale": lambda d: d.header["guards"][0].update(scale=1e300),
    "width": lambda d: d.header["guards"][0].update(width=4096),
    "no name": lambda d: d.header["guards"][0].update(operations=[]),
    "a number as name": lambda d: d.header["guards"][0].update(operations=[1]),
    "unknown field": lambda d: d.header["guards"][0].update(more=1),
    "no guards": lambda d: d.header.pop("guards"),
    "no words": lambda d: d.arrays.pop(),
    "one more": lambda d: d.header["guards"].append(d.header["guards"][0]),
    "no list": lambda d: d.header.update(guards=1),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_guards_in_files_are_refused(owner: Owner, what: str) -> None:
    document = resign.take_apart(C.exp(owner.encrypt(inside(), bound=8, level=7), domain=1).to_bytes())
    owner.server.from_bytes(resign.signed(document))
    DAMAGE[what](document)
    with pytest.raises(hg.FormatError):
        owner.server.from_bytes(resign.signed(document))


def test_programs_carry_guards(owner: Owner) -> None:
    good, bad, other = (owner.encrypt(v, bound=8) for v in (inside(), outside(), inside()))
    f = hg.program(lambda x, z: (C.exp(x, domain=1) * z, z + 1, [C.exp(x, domain=1)]))
    for _ in range(2):  # the first call records, the second call replays
        first, second, [third] = f(good, other)
        for y in (first, second, third):
            owner.decrypt(y)
        owner.decrypt(first + third)
    first, second, [third] = f(bad, other)
    assert (f.recordings, second.guards) == (1, ())
    owner.decrypt(second)
    for y in (first, third, first + third):
        with pytest.raises(hg.OutOfIntervalError, match="exp"):
            owner.decrypt(y)
    loaded = hg.Program.from_bytes(f.to_bytes())
    owner.decrypt(loaded(good, other)[0])
    with pytest.raises(hg.OutOfIntervalError, match="exp"):
        owner.decrypt(loaded(bad, other)[0])


def test_a_program_does_not_rest_on_trusted_bounds_of_its_first_operands(owner: Owner) -> None:
    f = hg.program(lambda x: C.exp(x, domain=1))
    owner.decrypt(f(owner.own(inside(), bound=8)))
    loaded = hg.Program.from_bytes(f.to_bytes())
    with pytest.raises(hg.OutOfIntervalError):
        owner.decrypt(loaded(owner.encrypt(outside(), bound=8)))


def test_guards_of_a_programs_operands_are_those_of_its_results(owner: Owner) -> None:
    good, bad, other = (owner.encrypt(v, bound=8) for v in (inside(), outside(), inside()))
    f = hg.program(lambda x, z: x * z)
    owner.decrypt(f(guarded(good), other))
    for _ in range(2):
        with pytest.raises(hg.OutOfIntervalError):
            owner.decrypt(f(guarded(bad), other))
    owner.decrypt(f(C.polynomial(C.within(bad, 1), series(23), "chebyshev", guard=False), other))
    assert f.recordings == 1
    loaded = hg.Program.from_bytes(f.to_bytes())
    with pytest.raises(hg.OutOfIntervalError):
        owner.decrypt(loaded(guarded(bad), other))
    assert hg.forecast(lambda x, z: x * z, guarded(bad), other).products > 0


def test_two_replays_are_two_arguments(owner: Owner) -> None:
    good, bad = (owner.encrypt(v, bound=8) for v in (inside(), outside()))
    f = hg.program(lambda x: C.exp(x, domain=1))
    f(good)
    y = f(good) + f(bad)
    assert len(y.guards) == 2
    with pytest.raises(hg.OutOfIntervalError):
        owner.decrypt(y)


def test_the_right_operation_is_named(owner: Owner) -> None:
    good, bad = (owner.encrypt(v, bound=8) for v in (inside(), outside()))

    def both(x: Any, z: Any) -> Any:
        return C.exp(x, domain=1) + C.sin(z, domain=1)

    owner.decrypt(both(good, good))
    with pytest.raises(hg.OutOfIntervalError, match="an argument of exp on"):
        owner.decrypt(both(bad, good))
    with pytest.raises(hg.OutOfIntervalError, match="an argument of sin on"):
        owner.decrypt(both(good, bad))


def test_many_guards_are_joined(owner: Owner) -> None:
    functions = [functools.partial(C.exp, domain=d) for d in np.linspace(1, 2, 6)] + [functools.partial(C.sin, domain=1)]

    def total(values: list[Array]) -> Any:
        y = None
        for i, v in enumerate(values):
            z = functions[i % len(functions)](owner.encrypt(v, bound=8, level=8))
            y = z if y is None else y + z
        return y

    values = [inside() for _ in range(30)]
    good = total(values)
    assert len(good.guards) <= 8
    owner.decrypt(good)
    assert owner.server.from_bytes(good.to_bytes()).guards == good.guards
    for place in (0, 13, 29):
        bad = values.copy()
        bad[place] = outside(1.1)
        with pytest.raises(hg.OutOfIntervalError, match=r"exp on|sin on"):
            owner.decrypt(total(bad))


def test_a_joined_guard_counts_an_argument_once(owner: Owner) -> None:
    y = z = guarded(owner.encrypt(inside(), bound=8))
    for _ in range(20):
        z = z + y
    assert z.guards == y.guards
    w = y
    for _ in range(12):  # this loop adds to its own result
        w = w + guarded(owner.encrypt(inside(), bound=8, level=8)) * 0.5
    assert len(w.guards) <= 8
    excess = max(g.excess for g in (w + w * 2).guards)
    assert excess == max(g.excess for g in w.guards) < 0.05
    owner.decrypt(w)


def with_padding(padded: Owner, kind: str, values: Array) -> Any:
    """Returns values whose padding slots are outside [-1, 1] before the series; `kind` selects how."""
    if kind == "zero":
        return padded.encrypt(values, bound=8)
    x = padded.encrypt(values + 3, bound=(-8, 8))
    if kind == "number":
        return x - 3
    if kind == "unknown":
        return x - np.full(1000, 3.0)
    turned = C.rotate(x, 1)  # the last slot now holds the 0 of the padding
    return turned - np.where(np.arange(1000) < 999, 3.0, 0.0) if kind == "rotated" else turned - 3


@pytest.mark.parametrize("degree", [3, 7, 23])
@pytest.mark.parametrize("kind", ["zero", "number", "unknown", "rotated"])
def test_padding_slots_do_not_fire(padded: Owner, kind: str, degree: int) -> None:
    values = inside((1000,))
    y = guarded(with_padding(padded, kind, values), degree)
    wanted = np.polynomial.chebyshev.chebval(np.append(values[1:], 0) if kind == "rotated" else values, series(degree))
    assert len(y.guards) == 1
    np.testing.assert_allclose(padded.decrypt(y), wanted, atol=1e-4)
    values[500] = 1.05
    with pytest.raises(hg.OutOfIntervalError):
        padded.decrypt(guarded(with_padding(padded, kind, values), degree))


def test_padding_far_outside_does_not_fire(padded: Owner) -> None:
    """Padding slots of unknown content hold -3. There the guard's polynomial exceeds the room."""
    values = inside((1000,))
    values[0] = 0  # this value moves out of the value slots
    y = guarded(with_padding(padded, "far", values)[()], 7)
    with pytest.raises(hg.OutOfIntervalError):  # the last value is the 0 of the padding minus 3
        padded.decrypt(y)
    x = with_padding(padded, "far", values) + np.where(np.arange(1000) < 999, 0.0, 3.0)
    padded.decrypt(guarded(x, 7))


def test_bootstraps_carry_guards() -> None:
    params = C.parameters(n=2 * SLOTS, depth=8, log_scale=45, bootstrap=True, insecure=True)
    party = Owner(params, bootstrap=True)
    for values, fires in ((inside(), False), (outside(), True)):
        x = party.encrypt(values, bound=8)
        y = C.bootstrap(C.within(C.exp(x, domain=1, error=0.01), 4), bound=4)
        with C.auto_bootstrap() as auto:
            z = C.sin(x, domain=1, error=0.01)
            for _ in range(3):
                z = C.sin(z, error=0.01)
        assert auto.count > 0
        for result in (y, z):
            if fires:
                with pytest.raises(hg.OutOfIntervalError):
                    party.decrypt(result)
            else:
                party.decrypt(result)


def test_a_guard_covers_later_functions(owner: Owner) -> None:
    y = C.exp(C.sin(owner.encrypt(inside(), bound=8), domain=1, error=0.01), error=0.1)
    assert [g.operation for g in y.guards] == ["sin on [-1, 1]"]


def test_objects_that_carry_no_guards_refuse(owner: Owner) -> None:
    x = owner.encrypt(inside(), bound=8)
    f = hg.program(lambda x: C.polynomial(C.within(x, 1), [0, 0, 1], "chebyshev"))
    f(x)
    with pytest.raises(hg.ParameterError, match="instructions carry no guards"):
        hg.cinnamon.write(f)


def test_a_publication_checks_guards(owner: Owner) -> None:
    for values, fires in ((inside(), False), (outside(), True)):
        y = guarded(owner.encrypt(values, bound=8))
        options = {"publish_bits": 2, "precision": 15.0}
        if fires:
            with pytest.raises(hg.OutOfIntervalError):
                owner.decrypt(y, **options)
        else:
            owner.decrypt(y, **options)


def test_an_approximation_of_degree_one_is_guarded(owner: Owner) -> None:
    f = C.approximate(lambda v: np.sqrt(v), 1.0, 1.2, error=0.01)
    assert f.degree == 1
    with pytest.raises(hg.OutOfIntervalError):
        owner.decrypt(f(C.within(owner.encrypt(1.1 + 0.1 * outside(0.5), bound=8), (1.0, 1.2))))


@functools.cache
def bits_on(device: str) -> list[str]:
    """Returns digests of guarded results and their guards, under fixed keys."""
    core = C.parameters(n=2 * SLOTS, levels=12, log_scale=45, base_bits=60, insecure=True)._core.on_device(device)
    secret = C.SecretKey(_core.ckks.SecretKey.generate_for_test(core, SEED))
    server = hg.Server(secret.evaluation_keys())
    x = server.bind(secret.encrypt(np.random.default_rng(1).uniform(-1, 1, (3, SLOTS)), bound=4))
    y = C.exp(x, domain=1, error=2.0**-12)
    return [digest(z) for z in (y, guarded(x, 7), y[0] + C.sin(x[1], domain=1))]


@pytest.mark.parametrize(
    "device", places("ref", "2*cpu/limb/uncalibrated", "cuda:0", usual=("ref", "2*cpu/limb/uncalibrated"))
)
def test_guards_have_the_same_bits_on_every_device(device: str) -> None:
    """Results and their guards have the same words on every device."""
    assert bits_on(device) == bits_on("cpu")
