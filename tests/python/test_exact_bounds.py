"""Tensors of exact integers have bounds, in memory and in files. Decryption refuses values that may have wrapped modulo t."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import heliograph as hg
import rigs
from heliograph import _core
from model import build, parse
from rigs import N

SCHEMES = pytest.mark.parametrize("scheme", ["bfv", "bgv"])
#: Plaintext moduli: one prime, or two primes.
MODULI = {"one": [65537], "two": [12289, 18433]}
SETS = pytest.mark.parametrize(("scheme", "moduli"), [(s, m) for s in ("bfv", "bgv") for m in MODULI])
#: A modulus so large that no integer in these tests wraps.
ENDLESS = 1 << 4000


def exact_spec(scheme: str, moduli: list[int], log_q: int = 300, exact: bool = True) -> Any:
    """Returns the specification of a small set."""
    spec = rigs.small_spec(log_q, 2, moduli, scheme=scheme)
    spec.exact = exact
    return spec


class Party:
    """A secret key and a server, with helpers."""

    def __init__(self, spec: Any, device: str | None = None) -> None:
        core = _core.exact.Parameters(spec)
        self.parameters = hg.bfv.Parameters(core if device is None else core.on_device(device))
        self.secret = hg.SecretKey.generate(self.parameters)
        steps = [1 << i for i in range(9)] + [5, -2, -1]
        self.keys = self.secret.evaluation_keys(rotations=steps, columns=True)
        self.server = hg.Server(self.keys)
        self.half = self.parameters.plain_modulus // 2

    def tensor(self, values: Any, **options: Any) -> Any:
        """Encrypts values and binds the ciphertexts to the server."""
        return self.server.bind(self.secret.encrypt(np.asarray(values), **options))

    def through_bytes(self, x: Any) -> Any:
        """Saves a tensor and loads it at the server."""
        return self.server.from_bytes(x.to_bytes())


@functools.cache
def party(scheme: str = "bfv", moduli: str = "one", log_q: int = 300, exact: bool = True) -> Party:
    """Returns the shared party of a set."""
    return Party(exact_spec(scheme, MODULI[moduli], log_q, exact))


def integers(values: Any) -> rigs.Clear:
    """Returns clear values whose modulus is too large for them to wrap."""
    return rigs.Clear(values, ENDLESS, "slots")


def largest(clear: rigs.Clear) -> int:
    """Returns the largest magnitude."""
    return max((abs(int(v)) for v in clear.centred().flat), default=0)


def vouched(x: Any) -> int | None:
    """Returns the trusted bound, which follows from values that this process encrypted, or None."""
    digits = str(x._core.vouched_bound)
    return int(digits, 16) if digits else None


def require_bounds(x: Any, clear: rigs.Clear) -> None:
    """Checks that the largest integer exceeds neither bound."""
    most, own = largest(clear), vouched(x)
    assert own is not None
    assert most <= own
    assert x.bound is not None
    assert most <= x.bound


# Bounds

PLAIN = np.random.default_rng(1).integers(-3, 4, N)
KERNEL = np.array([[[[2, -1], [1, 0]]], [[[0, 3], [-1, 1]]]])

#: op(engine or reference, tensors a and b of shape (2,), a number) -> shape (2,).
STEPS: dict[str, rigs.Step] = {
    **rigs.STEPS,
    "dot": lambda o, a, b, k: o.broadcast(o.dot(a, b), 2),
    "add integers": lambda o, a, b, k: a + np.array([k, -7]),
    "integer less tensor": lambda o, a, b, k: k - a,
    "multiply integers": lambda o, a, b, k: a * np.array([k % 9 - 4, 2]),
    "add plaintext": lambda o, a, b, k: a + o.encoded(a, PLAIN * (k % 5)),
    "multiply plaintext": lambda o, a, b, k: a * o.encoded(a, PLAIN),
    "convolution": lambda o, a, b, k: o.take(
        o.conv2d(o.reshape(o.concatenate([a, b]), 1, 2, 2), KERNEL, np.array([k % 9, -2]), padding=1),
        (slice(None), 0, k % 3),
    ),
    "transpose": lambda o, a, b, k: o.take(o.transpose(o.reshape(a, 1, 2), 1, 0), (slice(None), 0)),
}
PROGRAMS = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 1000)), min_size=1, max_size=8)
engine = rigs.Engine(*[None] * 4, 0, 0)  # type: ignore[arg-type]
reference = rigs.Reference(None, None, None, None, 0, 0)


@SETS
@settings(max_examples=30, deadline=None, derandomize=True)
@given(program=PROGRAMS, said=st.sampled_from([None, 10, 100]))
def test_bounds_hold_for_random_programs(scheme: str, moduli: str, program: list[tuple[str, int]], said: int | None) -> None:
    """For random programs, bounds are valid and decryption gives the exact integers, with and without a given bound."""
    p = party(scheme, moduli)
    rng = np.random.default_rng(len(program))
    made = [rng.integers(-10, 11, (2, N)) for _ in range(2)]
    pool = [(p.tensor(v, bound=said), integers(v)) for v in made]
    for step, k in program:
        (a, clear_a), (b, clear_b) = pool[k % len(pool)], pool[k // 7 % len(pool)]
        result, clear = STEPS[step](engine, a, b, k), STEPS[step](reference, clear_a, clear_b, k)
        require_bounds(result, clear)
        assert vouched(result) is not None
        again = p.through_bytes(result)
        assert again.bound == result.bound
        assert vouched(again) is None
        if result._core.noise_budget <= 0:
            return
        for x in (result, again):
            try:
                found = p.secret.decrypt(x)
            except hg.RoomError:
                continue
            np.testing.assert_array_equal(found, clear.centred())
        if largest(clear) > p.half:
            with pytest.raises(hg.RoomError):
                p.secret.decrypt(result, checked=True)
        pool.append((result, clear))


@SETS
def test_bounds_of_sums_over_slots_layers_and_tails(scheme: str, moduli: str) -> None:
    """A tensor's bound also covers the places beyond the encrypted values. The bound of a sum counts only the encrypted
    values.

    """
    p = party(scheme, moduli)
    few = np.arange(-4, 5)
    x = p.tensor(few, pad=True, bound=4)
    assert x.bound == 4
    moved = x + 100
    assert moved.bound == 104
    assert hg.sum(x, axis="slots").bound == 36
    total = hg.sum(moved, axis="slots")
    assert total.bound == 936
    assert vouched(total) == 936
    np.testing.assert_array_equal(p.secret.decrypt(total), [few.sum() + 900] * 9)
    assert hg.sum(total, axis="slots").bound == 9 * 936  # all values are equal, so the bound is 9 times the value
    hidden = p.through_bytes(hg.rotate_rows(moved, 1))  # the values at the other places are unknown
    assert hg.rotate_rows(hidden, -1).bound == 104
    image = p.tensor(np.arange(8 * N).reshape(2, 2, 2, N) % 3, bound=2)
    layer = hg.conv2d_square_pool(image, KERNEL.repeat(2, 1), np.array([5, -1]), padding=1, pool=3)
    row = max(abs(int(w)) for w in [8, 10])  # the bound follows from the 1-norms of the two kernels
    assert layer.bound == 9 * (2 * row + 5) ** 2
    assert hg.sum_pool2d(image, 2).bound == 8
    assert (image * p.server.encode(PLAIN)).bound == 6
    assert (image[0] + p.server.encode([7] * N)).bound == 9


@SCHEMES
def test_bounds_of_coefficients(scheme: str) -> None:
    """A product of polynomials sums as many products as an operand has coefficients; computed operands have N."""
    p = party(scheme)
    x = p.tensor([1, -2, 3], coefficients=0, pad=True, bound=3)
    y = p.tensor(np.full(N, 2), coefficients=0, bound=2)
    assert ((x * x).bound, (y * y).bound, (x * y).bound, ((x + 0) * y).bound) == (27, 4 * N, 18, 6 * N)
    assert (y * p.server.encode([5, -6] + [0] * (N - 2), coefficients=0)).bound == 22
    clear = rigs.Clear(np.full(N, 2), ENDLESS, "coefficients")
    require_bounds(y * y, clear * clear)


@SETS
def test_split_moduli_keep_bounds(scheme: str, moduli: str) -> None:
    """A tensor of some of the moduli has the bound of the whole tensor."""
    p = party(scheme, moduli)
    x = p.tensor(np.arange(N) % 5, bound=4)
    parts = hg.split_moduli(x)
    joined = hg.join_moduli([part * part for part in parts])
    assert ([part.bound for part in parts], joined.bound) == ([4] * len(parts), 16)
    np.testing.assert_array_equal(p.secret.decrypt(joined, checked=True), (np.arange(N) % 5) ** 2)
    lone = [p.server.bind(p.secret.encrypt(np.arange(N) % 5, moduli=range(i, i + 1), bound=9)) for i in range(len(parts))]
    assert hg.join_moduli(lone).bound == 9


def test_large_biases() -> None:
    """A bias beyond 64 bits is given as residues; the result has the bound of the integer."""
    p = Party(exact_spec("bfv", _core.exact.batching_primes(N, 170, 4), 420))
    x = p.tensor(np.arange(N) % 5, bound=4)[None]
    for bias in (-(3**70), 3**70, 12):
        y = hg.matmul([[2]], x, np.array([bias], dtype=object))
        assert y.bound == 8 + abs(bias)
    np.testing.assert_array_equal(p.secret.decrypt(y)[0], 2 * (np.arange(N) % 5) + 12)


# Refused decryptions


def wraps(p: Party) -> dict[str, Callable[[Any], Any]]:
    """Returns operations on a tensor (2,) of values up to a third of t/2; their results exceed t/2."""
    many, ones = 40, np.ones(N, int)
    return {
        "sums": lambda x: x + x + x + x,
        "differences": lambda x: x - (-x) - (-x) - (-x),
        "in place": lambda x: in_place(x),
        "products": lambda x: x * x,
        "squares": lambda x: hg.relinearize(hg.square(x)),
        "powers": lambda x: x**3,
        "integers": lambda x: x * 4,
        "integers added": lambda x: x + p.half,
        "plaintexts": lambda x: x * p.server.encode(4 * ones),
        "plaintexts added": lambda x: x + p.server.encode(p.half * ones),
        "matrices": lambda x: hg.matmul([[3, 2]], x),
        "biases": lambda x: hg.matmul([[1, 0]], x, [p.half]),
        "convolutions": lambda x: hg.conv2d(x.reshape(1, 1, 2), [[[[2, 2]]]]),
        "sums of many": lambda x: hg.sum(x.broadcast_to((many, 2)), axis=0),
        "sums over slots": lambda x: hg.sum(x, axis="slots"),
        "pools": lambda x: hg.sum_pool2d(x.broadcast_to((2, 2)), 2),
        "dots": lambda x: hg.dot(x, x),
        "after slicing": lambda x: (x * 4)[0],
        "after rotation": lambda x: hg.rotate_rows(x * 4, 1),
        "after columns": lambda x: hg.rotate_columns(x * 4),
        "after shrinking": lambda x: hg.shrink(x * 4),
        "after joining": lambda x: hg.concatenate([x, x * 4]),
        "after reshaping": lambda x: (x * 4).reshape(1, 2).T,
    }


def in_place(x: Any) -> Any:
    """Returns four times x, by additions in place."""
    y = +x
    for _ in range(3):
        y += x
    return y


@SETS
@pytest.mark.parametrize("name", sorted(wraps(party())))
def test_wraps_are_refused(scheme: str, moduli: str, name: str) -> None:
    """Wrapped results are refused in memory, from files and in programs. `unchecked` and residue sets allow wrapped results."""
    p, residues = party(scheme, moduli), party(scheme, moduli, exact=False)
    values = np.full((2, N), p.half // 3)
    x = p.tensor(values)
    y = wraps(p)[name](x)
    said = wraps(p)[name](p.tensor(values, bound=p.half // 3))
    loaded = p.through_bytes(wraps(p)[name](p.through_bytes(x)))
    recorded = hg.program(wraps(p)[name])
    for made in (y, said, p.through_bytes(y), p.through_bytes(said), loaded, recorded(x), recorded(p.through_bytes(x))):
        for options in ({}, {"checked": True}):
            with pytest.raises(hg.RoomError, match=r"may have wrapped modulo t"):
                p.secret.decrypt(made, **options)
        assert p.secret.decrypt(made, unchecked=True).shape[-1] == N
    wrapped = wraps(residues)[name](residues.tensor(values))
    found = residues.secret.decrypt(wrapped)
    np.testing.assert_array_equal(found, p.secret.decrypt(y, unchecked=True))
    with hg.strict():
        np.testing.assert_array_equal(residues.secret.decrypt(wrapped), found)
    with pytest.raises(hg.RoomError):
        residues.secret.decrypt(wrapped, checked=True)


@SETS
@pytest.mark.parametrize("name", sorted(wraps(party())))
def test_small_values_are_not_refused(scheme: str, moduli: str, name: str) -> None:
    """The same operations on values 0 and 1 are accepted: in this process because bounds prove them, from files because the
    key has a record of encrypted values.

    """
    p = party(scheme, moduli)
    if name in ("integers added", "plaintexts added", "biases"):
        return  # the following additions have values near t/2
    values = (np.arange(2 * N) % 2).reshape(2, N)
    x = p.tensor(values)
    y = wraps(p)[name](x)
    found = p.secret.decrypt(y, checked=True)
    assert abs(found).max() <= p.half
    key = hg.SecretKey.generate(p.parameters)
    server = hg.Server(key.evaluation_keys(rotations=p.keys.rotations, columns=True))
    asked = server.from_bytes(server.bind(key.encrypt(values)).to_bytes())
    answer = server.from_bytes(wraps(p)[name](asked).to_bytes())
    np.testing.assert_array_equal(key.decrypt(answer), found)
    with pytest.raises(hg.RoomError, match="not trusted"):
        key.decrypt(answer, checked=True)
    with hg.strict(), pytest.raises(hg.RoomError):
        key.decrypt(answer)


def test_the_error_states_the_remedy() -> None:
    """The error states the bound, t/2, how many plaintext bits would hold the result, and which bound would suffice."""
    p = party("bfv", "one")
    x = p.tensor(np.full(N, 30_000))
    with pytest.raises(hg.RoomError) as error:
        p.secret.decrypt(hg.sum(hg.stack([x] * 101)))
    text = str(error.value)
    for part in ("t/2 is 32,768", "3,030,000", "plain_bits=23", "bound=324", "unchecked=True"):
        assert part in text
    wide = hg.bfv.parameters(n=N, log_q=200, plain_bits=23, insecure=True)
    secret = hg.SecretKey.generate(wide)
    np.testing.assert_array_equal(secret.decrypt(hg.sum(hg.stack([secret.encrypt(np.full(N, 30_000))] * 101))), 3_030_000)
    y = p.tensor(np.full(N, 324), bound=324)
    np.testing.assert_array_equal(p.secret.decrypt(p.through_bytes(hg.sum(hg.stack([y] * 101)))), 101 * 324)
    z = p.tensor(np.full(N, 324), bound=325)
    with pytest.raises(hg.RoomError):
        p.secret.decrypt(p.through_bytes(hg.sum(hg.stack([z] * 101))))


@SCHEMES
def test_the_largest_value_is_decrypted_and_the_next_refused(scheme: str) -> None:
    """A result of (t - 1)/2 is decrypted; a result of (t + 1)/2 is refused."""
    p = party(scheme)
    assert p.half == 32768
    x = p.tensor(np.full(N, p.half - 1))
    np.testing.assert_array_equal(p.secret.decrypt(x + 1), p.half)
    np.testing.assert_array_equal(p.secret.decrypt(-x, checked=True), 1 - p.half)
    np.testing.assert_array_equal(p.secret.decrypt(p.through_bytes(-x - 1)), -p.half)
    for beyond in (x + 2, -x - 2, p.through_bytes(x + 2)):
        with pytest.raises(hg.RoomError):
            p.secret.decrypt(beyond)


# Trust in bounds


@SCHEMES
def test_bounds_of_files_are_assumed_and_never_trusted(scheme: str) -> None:
    """If a file has a false bound and a new digest, default decryption accepts it and checked decryption refuses it. Without
    a bound in the file, the bound is unknown.

    """
    p = party(scheme)
    x = p.through_bytes(p.tensor(np.full(N, 30_000)))
    y = hg.sum(hg.stack([x] * 101))
    with pytest.raises(hg.RoomError):
        p.secret.decrypt(y)
    file = parse(y.to_bytes())
    assert file.header["bound"] == {"coefficients": ["65"], "degrees": [1]}
    for lie in ({"coefficients": ["ff"], "degrees": [0]}, {"coefficients": [], "degrees": []}):
        file.header["bound"] = lie
        told = p.server.from_bytes(build(file))
        assert told.bound == (255 if lie["degrees"] else 0)
        wrong = p.secret.decrypt(told)
        assert not np.array_equal(wrong, np.full(N, 3_030_000))
        with pytest.raises(hg.RoomError, match="not trusted"):
            p.secret.decrypt(told, checked=True)
        with hg.strict(), pytest.raises(hg.RoomError):
            p.secret.decrypt(told)
    del file.header["bound"]
    silent = p.server.from_bytes(build(file))
    assert silent.bound is None
    with pytest.raises(hg.RoomError, match="no bound"):
        p.secret.decrypt(silent)


BOUNDS: list[Any] = [
    7, [], "ff", {}, {"degrees": [1]}, {"degrees": [1], "coefficients": []}, {"degrees": [1], "coefficients": ["0"]},
    {"degrees": [1], "coefficients": ["01"]}, {"degrees": [1], "coefficients": ["FF"]}, {"degrees": [1], "coefficients": [1]},
    {"degrees": [1, 1], "coefficients": ["1", "1"]}, {"degrees": [2, 1], "coefficients": ["1", "1"]},
    {"degrees": [1], "coefficients": ["1"], "more": 1}, {"degrees": [0], "coefficients": ["1"], "session": 5},
    {"degrees": [1], "coefficients": ["1"], "session": "5"}, {"degrees": [-1], "coefficients": ["1"]},
    {"degrees": [5000], "coefficients": ["1"]}, {"degrees": [1], "coefficients": ["f" * 2000]},
    {"degrees": list(range(17)), "coefficients": ["1"] * 17},
]  # fmt: skip


@pytest.mark.parametrize("wrong", BOUNDS, ids=[str(b)[:60] for b in BOUNDS])
def test_impossible_bounds_in_files_are_refused(wrong: Any) -> None:
    """Impossible bounds in files are refused."""
    p = party()
    file = parse(p.tensor(np.arange(N)).to_bytes())
    file.header["bound"] = wrong
    with pytest.raises(hg.DamagedFileError):
        p.server.from_bytes(build(file))


@SCHEMES
def test_older_files_have_no_bounds(scheme: str) -> None:
    """Files of format 2 have no bounds, so bounds of results are unknown. Sets in files of format 2 are residue sets, whose
    values may wrap.

    """
    p, residues = party(scheme), party(scheme, exact=False)
    for q in (p, residues):
        file = parse(q.tensor(np.arange(N) % 7).to_bytes())
        file.version = 2
        with pytest.raises(hg.DamagedFileError, match="bound"):
            q.server.from_bytes(build(file))
        del file.header["bound"]
        x = q.server.from_bytes(build(file))
        assert (x.bound, (x + 1).bound, (x * q.tensor(np.arange(N))).bound) == (None, None, None)
        if q is residues:
            np.testing.assert_array_equal(q.secret.decrypt(x * 9000), (np.arange(N) % 7 * 9000 + q.half) % 65537 - q.half)
        else:
            with pytest.raises(hg.RoomError, match="no bound"):
                q.secret.decrypt(x)
    written = parse(residues.tensor(np.arange(N)).to_bytes()).header["parameters"]
    assert "exact" not in written
    assert parse(p.tensor(np.arange(N)).to_bytes()).header["parameters"]["exact"] is True
    assert residues.parameters != p.parameters


@SCHEMES
def test_a_loaded_key_does_not_know_earlier_values(scheme: str) -> None:
    """A key loaded from a file, as by another process, does not know which values the first process encrypted."""
    p = Party(exact_spec(scheme, [65537]))
    other = hg.SecretKey(_core.exact.SecretKey.from_secret_bytes(bytes(p.secret._core.secret_bytes())))
    x = p.through_bytes(p.tensor(np.full(N, 20)))
    large = p.server.from_bytes(other.encrypt(np.full(N, 20_000)).to_bytes())
    assert parse(large.to_bytes()).header["bound"]["session"] > 0
    assert p.secret.decrypt(x * 1000)[0] == 20_000
    for wrong in (x * large, large * 2, large + x, large * large):
        for key in (p.secret, other):
            with pytest.raises(hg.RoomError):
                key.decrypt(wrong)
    assert other.decrypt(large)[0] == 20_000
    assert p.secret.decrypt(large)[0] == 20_000  # the magnitude is at most t/2, like that of every encrypted value
    with pytest.raises(hg.RoomError):
        other.decrypt(x * 1000)
    assert other.decrypt(p.through_bytes(p.tensor([2] * N, bound=2)) * 1000)[0] == 2000


def test_public_key_ciphertexts_have_the_bound_of_the_set() -> None:
    """Ciphertexts of a public key have the bound t/2 or a given bound. The bound is trusted if this process made the key."""
    p = party()
    public = p.secret.public_key()
    x = p.server.bind(public.encrypt(np.full(N, 3)))
    assert (x.bound, vouched(x * 5)) == (p.half, 15)
    assert p.secret.decrypt(x * 5)[0] == 15
    with pytest.raises(hg.RoomError, match="give a smaller public bound"):
        p.secret.decrypt(p.through_bytes(x * 5))
    said = p.server.bind(public.encrypt(np.full(N, 3), bound=100))
    assert p.secret.decrypt(p.through_bytes(said * 5))[0] == 15


def test_unused_bits_are_evidence() -> None:
    """Values without a bound are decrypted if all magnitudes are at most t/2 2^-14, and refused if one is larger."""
    p = Party(exact_spec("bfv", _core.exact.batching_primes(N, 30, 1)))
    edge = p.half >> 14
    for value, right in ((edge, True), (-edge, True), (edge + 1, False), (-edge - 1, False), (p.half, False)):
        values = np.zeros(N, int)
        values[5] = value
        file = parse(p.tensor(values).to_bytes())
        del file.header["bound"]
        x = p.server.from_bytes(build(file))
        if right:
            np.testing.assert_array_equal(p.secret.decrypt(x), values)
            with pytest.raises(hg.RoomError):
                p.secret.decrypt(x, checked=True)
        else:
            with pytest.raises(hg.RoomError):
                p.secret.decrypt(x)


def test_sums_that_wrap_and_cancel_are_right() -> None:
    """A sum that wraps and then wraps back is correct. The bound of the final sum does not prove that the sum fits, but the
    unused bits of the sum do.

    """
    p = Party(exact_spec("bfv", _core.exact.batching_primes(N, 30, 1)))
    x = p.tensor(np.full(N, 12345))
    y = x * 2_000_000 - x * 1_999_999
    np.testing.assert_array_equal(p.secret.decrypt(y), 12345)
    with pytest.raises(hg.RoomError):
        p.secret.decrypt(y, checked=True)


@pytest.mark.parametrize("said", [0, -1, 1.5, "3", True])
def test_invalid_bounds(said: Any) -> None:
    """Invalid bounds are refused at encryption."""
    with pytest.raises(hg.ParameterError, match="a bound on values"):
        party().secret.encrypt(np.zeros(N, int), bound=said)


def test_values_above_the_given_bound() -> None:
    """Values beyond the given bound are refused, whether positive or negative."""
    p = party()
    for values in ([11] * N, [-11] * N):
        with pytest.raises(hg.PlaintextRangeError, match="exceeds 10, the given bound"):
            p.secret.encrypt(values, bound=10)
    assert p.secret.encrypt([10] * N, bound=1 << 200).bound == 1 << 63
    with pytest.raises(hg.ParameterError, match="not both"):
        p.secret.decrypt(p.tensor([1] * N), checked=True, unchecked=True)


# Programs


def test_saved_programs_carry_bounds() -> None:
    """Saved programs contain bounds, which are valid for operands within the recorded bounds. For other operands, the bounds
    of results are unknown.

    """
    p, q = party(), Party(exact_spec("bfv", [65537]))

    def function(x: Any, y: Any) -> Any:
        return x * y + x * 3

    values = np.full(N, 5)
    program = hg.program(function)
    program(p.through_bytes(p.tensor(values)), p.through_bytes(p.tensor(values, bound=10)))
    loaded = hg.RecordedProgram.from_bytes(program.to_bytes()) if hasattr(hg, "RecordedProgram") else None
    if loaded is None:
        loaded = type(program).from_bytes(program.to_bytes())
    x, y = q.through_bytes(q.tensor(values)), q.through_bytes(q.tensor(values, bound=10))
    made = loaded(x, y)
    assert made.bound == 13 * q.half
    np.testing.assert_array_equal(q.secret.decrypt(made), 40)
    np.testing.assert_array_equal(q.secret.decrypt(q.through_bytes(made)), 40)
    assert loaded(x, q.through_bytes(q.tensor(values, bound=9))).bound == 13 * q.half
    for other in (q.tensor(values, bound=11), q.tensor(values)):
        unknown = loaded(x, q.through_bytes(other))
        assert unknown.bound is None
        with pytest.raises(hg.RoomError, match="no bound"):
            q.secret.decrypt(unknown)


# Devices, sets


@SCHEMES
def test_on_a_mesh(scheme: str) -> None:
    """A mesh of two devices gives the same bounds and refuses the same values."""
    p = Party(exact_spec(scheme, MODULI["two"]), "2*cpu")
    x = p.tensor(np.arange(5 * N).reshape(5, N) % 11)
    y = hg.matmul([[1, 2, -3, 4, 5]], x * x)
    assert vouched(y) == 1500
    weighted = np.array([1, 2, -3, 4, 5]) @ (np.arange(5 * N).reshape(5, N) % 11) ** 2
    np.testing.assert_array_equal(p.secret.decrypt(y, checked=True)[0], weighted)
    with pytest.raises(hg.RoomError):
        p.secret.decrypt(hg.sum(x**8))


@pytest.mark.parametrize("family", [hg.bfv, hg.bgv], ids=["bfv", "bgv"])
def test_sets_are_exact_or_of_residues(family: Any) -> None:
    """Sets made with plain_bits are exact; sets with plain_modulus, a name or version 0.2 hold residues by default."""
    bits, modulus = {"depth": 1, "plain_bits": 17}, {"depth": 1, "plain_modulus": 65537}
    numbers = {"n": 8192, "log_q": 150}
    for asked, exact in (
        *((bits, True), (modulus, False), (bits | {"version": "0.3"}, True), (bits | {"version": "0.2"}, False)),
        *(
            (bits | {"exact": False}, False),
            (modulus | {"exact": True}, True),
            (bits | {"version": "0.2", "exact": True}, True),
        ),
        *((numbers | {"plain_bits": 20}, True), (numbers | {"plain_modulus": 65537}, False), (numbers, True)),
        *((numbers | {"plain_modulus": 65537, "exact": True}, True), (numbers | {"version": "0.2"}, False)),
    ):
        p = family.parameters(**asked)
        assert p.exact is exact
        text = str(p)
        assert (f"exact integers up to {p.plain_modulus // 2:,}" in text) is exact
        assert ("residues modulo t: larger integers wrap" in text) is not exact
    assert not family.parameters(family.named()[-1]).exact
    with pytest.raises(hg.ParameterError, match="takes no exact"):
        family.parameters(family.named()[-1], exact=True)
    for wrong in ("0.1", "1", 2, "v0.2"):
        with pytest.raises(hg.ParameterError, match=r"'0\.2' or '0\.3'"):
            family.parameters(**bits, version=wrong)
    with pytest.raises(hg.ParameterError, match="odd"):
        family.parameters(depth=1, plain_modulus=256, exact=True)


#: The first digits of the parameter hash of the set that version 0.2 chose for each request.
FORMER = {
    'bfv {"depth": 0, "plain_bits": 20}': '6d0812472c55d582',
    'bfv {"depth": 1, "plain_bits": 16}': '64a00e6920241458',
    'bfv {"depth": 1, "plain_bits": 20, "slots": 4096}': '662c1b7af5fff5d7',
    'bfv {"depth": 1, "plain_bits": 30, "slots": 1000}': 'dd28f4da7bfb0863',
    'bfv {"depth": 2, "plain_bits": 20}': 'a317f37bed590ac9',
    'bfv {"depth": 2, "plain_bits": 30, "word_size": 32}': '728c890f7cda47c9',
    'bfv {"depth": 1, "plain_bits": 90}': '2a4087d543adc3ec',
    'bfv {"depth": 4, "plain_bits": 42, "slots": 10000}': '9272d5283a791f0a',
    'bfv {"depth": 2, "plain_bits": 40, "slots": 4096}': '344083565e43b311',
    'bfv {"depth": 6, "plain_bits": 17}': '482149ad83b18c3d',
    'bfv {"depth": 12, "plain_bits": 20}': 'dfa5691a3641cff2',
    'bfv {"depth": 1, "plain_modulus": 65537}': '56cd3ef14d0af096',
    'bfv {"depth": 4, "plain_modulus": 65537}': 'c78910b4c2ae9136',
    'bfv {"depth": 8, "plain_modulus": 65537, "word_size": 32}': 'd57103e3d3e75682',
    'bfv {"depth": 3, "plain_modulus": 65537, "slots": 4096, "terms": 1}': '6a59bbf503fbb612',
    'bgv {"depth": 0, "plain_bits": 20}': 'bfeb6259f30f7ce3',
    'bgv {"depth": 1, "plain_bits": 16}': '5ef37e6cccf97be5',
    'bgv {"depth": 1, "plain_bits": 20, "slots": 4096}': '57f9b43cdbfeba90',
    'bgv {"depth": 1, "plain_bits": 30, "slots": 1000}': '18e98a292123463a',
    'bgv {"depth": 2, "plain_bits": 20}': '22498fb050d10b64',
    'bgv {"depth": 2, "plain_bits": 30, "word_size": 32}': '5d5537afd69b305d',
    'bgv {"depth": 1, "plain_bits": 90}': '116188bc5e3bbc7f',
    'bgv {"depth": 4, "plain_bits": 42, "slots": 10000}': '28813ab88a1e569c',
    'bgv {"depth": 2, "plain_bits": 40, "slots": 4096}': '264bd6ef9b01686c',
    'bgv {"depth": 6, "plain_bits": 17}': '9262c744c11a8c39',
    'bgv {"depth": 12, "plain_bits": 20}': 'd040ab3e79d634c1',
    'bgv {"depth": 1, "plain_modulus": 65537}': '967f656d793358d5',
    'bgv {"depth": 4, "plain_modulus": 65537}': '4b36f221e383d525',
    'bgv {"depth": 8, "plain_modulus": 65537, "word_size": 32}': 'e007c1f6c066d937',
    'bgv {"depth": 3, "plain_modulus": 65537, "slots": 4096, "terms": 1}': '0b5ec7f15d1e768f',
}  # fmt: skip


@pytest.mark.parametrize("request_", FORMER)
def test_the_former_versions_sets(request_: str) -> None:
    """With version="0.2", sets have the numbers of version 0.2 and hold residues. The sets equal the sets in files of that
    version."""
    scheme, _, options = request_.partition(" ")
    p = getattr(hg, scheme).parameters(**json.loads(options), version="0.2")
    assert p._core.hash.startswith(FORMER[request_])
    assert not p.exact


def test_the_present_versions_sets_hold_more_noise() -> None:
    """Version 0.3 chooses rings that are not smaller than those of 0.2. The moduli of version 0.3 are larger unless another
    gadget suffices.

    """
    found: dict[str, list[Any]] = {}
    for version in ("0.2", "0.3"):
        found[version] = [getattr(hg, r[:3]).parameters(**json.loads(r[4:]), version=version) for r in FORMER]
    pairs = list(zip(*found.values(), strict=True))
    assert all(a.n <= b.n for a, b in pairs)
    assert sum(a.log_q < b.log_q for a, b in pairs) > len(FORMER) // 2


def test_sets_found_for_a_function_hold_its_bounds() -> None:
    """The bound of the example's results is proven, although the integers partly cancel."""
    values = np.full((4, 100), 50)

    def function(x: Any) -> Any:
        return hg.matmul([[100, -100, 50, -49]], x * x)

    p = hg.parameters_for(function, values)
    assert p.exact
    secret = hg.SecretKey.generate(p)
    server = hg.Server(secret.evaluation_keys())
    y = function(server.from_bytes(secret.encrypt(values).to_bytes()))
    assert (secret.decrypt(y) == 2500).all()
    assert p.plain_modulus // 2 >= 299 * 2500
    assert not hg.parameters_for(function, values, plain_modulus=65537).exact
    loose = hg.parameters_for(function, values, exact=False)
    assert not loose.exact
    assert loose.plain_modulus < p.plain_modulus
    assert math.log2(loose.plain_modulus) > 13
