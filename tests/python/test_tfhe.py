"""Every operator and function on encrypted integers and booleans gives NumPy's result, for edge values and random values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import heliograph as hg
from heliograph.tfhe.dtypes import widened
from tfhe_rig import NUMBERS, Party, party

DTYPES = ["uint8", "int8", "uint16", "int32", "uint32"]
USUAL = ("uint8", "int8", "int32")
FAST = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
Operator = Callable[[Any, Any], Any]


def edges(dtype: Any, count: int = 12, seed: int = 3) -> Any:
    """Returns the edge values and some random values of a dtype."""
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed)
    some = [0, 1, info.max, info.min, info.max - 1, 3, info.max // 2]
    drawn = rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    return rng.permutation(np.concatenate([np.array(some, dtype=dtype), drawn])[:count])


@pytest.fixture(params=list(NUMBERS))
def each(request: pytest.FixtureRequest) -> Party:
    """Returns a party of each encoding."""
    return party(request.param)


@pytest.fixture(params=["digits", "bits", pytest.param("small digits", marks=pytest.mark.full)])
def most(request: pytest.FixtureRequest) -> Party:
    """Returns a party of one encoding, for slow tests. Small digits are omitted, because they take twice as many bootstraps."""
    return party(request.param)


ARITHMETIC: dict[str, Operator] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@pytest.mark.parametrize("dtype", [pytest.param(d, marks=[pytest.mark.full] * (d not in USUAL)) for d in DTYPES])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_operators_between_tensors(each: Party, name: str, dtype: str) -> None:
    """Operators between tensors wrap as in NumPy."""
    a, b = edges(dtype), edges(dtype, seed=4)
    each.check(ARITHMETIC[name](each.tensor(a), each.tensor(b)), ARITHMETIC[name](a, b))


@pytest.mark.parametrize("dtype", ["uint8", "int32"])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_operators_with_clear_values(each: Party, name: str, dtype: str) -> None:
    """Operators with clear integers and arrays on either side equal NumPy's."""
    f, a = ARITHMETIC[name], edges(dtype, 6)
    x = each.tensor(a)
    for value in (0, 1, 5, np.iinfo(dtype).max):
        scalar = np.array(value, dtype=dtype)
        each.check(f(x, value), f(a, scalar))
        each.check(f(value, x), f(scalar, a))
    others = edges(dtype, 6, 9)
    each.check(f(x, others), f(a, others))
    each.check(f(others, x), f(others, a))


@pytest.mark.parametrize("dtype", ["uint8", "int8", pytest.param("int16", marks=pytest.mark.full)])
def test_division_rounds_down_as_numpy(most: Party, dtype: str) -> None:
    """//, % and divmod by tensors, by clear integers, and of clear integers round down as in NumPy."""
    a, b = edges(dtype, 16), edges(dtype, 16, 5)
    b[b == 0] = 7
    x, y = most.tensor(a), most.tensor(b)
    with np.errstate(over="ignore"):
        most.check(x // y, a // b)
        most.check(x % y, a % b)
        q, r = divmod(x, y)
        most.check(q, a // b)
        most.check(r, a % b)
        for divisor in (1, 3, 10) if dtype[0] == "u" else (1, -1, 7, -10):
            most.check(x // divisor, a // np.array(divisor, dtype=dtype))
            most.check(x % divisor, a % np.array(divisor, dtype=dtype))
        most.check(100 // y, np.array(100, dtype=dtype) // b)
    q, r = hg.tfhe.truncated_divmod(x, y)
    most.check(r, np.fmod(a, b))


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_division_by_an_encrypted_zero(each: Party, dtype: str) -> None:
    """If the divisor is an encrypted zero, the quotient has all bits set, and the remainder is the dividend."""
    a = edges(dtype, 5)
    x, zero = each.tensor(a), each.tensor(np.zeros(5, dtype=dtype))
    for q, r in (divmod(x, zero), hg.tfhe.truncated_divmod(x, zero)):
        each.check(q, np.full(5, -1).astype(dtype))
        each.check(r, a)


@pytest.mark.parametrize("dtype", ["uint8", "int8", pytest.param("int32", marks=pytest.mark.full)])
def test_shifts_and_rotations(each: Party, dtype: str) -> None:
    """Shifts and rotations by clear and by encrypted amounts give NumPy's results."""
    a = edges(dtype, 6)
    x, bits = each.tensor(a), np.iinfo(dtype).bits
    unsigned = a.astype(f"uint{bits}")
    for amount in (0, 1, 3, bits - 1):
        n = np.array(amount, dtype=dtype)
        turned = (unsigned << n.astype(unsigned.dtype)) | (
            unsigned >> np.array((bits - amount) % bits, dtype=unsigned.dtype)
        )
        encrypted = each.tensor(np.array(amount, dtype=np.uint8))
        for by in (amount, encrypted):
            each.check(x << by, a << n)
            each.check(x >> by, a >> n)
            each.check(hg.tfhe.rotate_left(x, by), turned.astype(dtype))
            each.check(hg.tfhe.rotate_right(hg.tfhe.rotate_left(x, by), by), a)
    each.check(x << bits, np.zeros_like(a))
    each.check(x >> bits, np.where(a < 0, -1, 0).astype(dtype))
    amounts = np.arange(6, dtype=dtype)
    each.check(x << amounts, a << amounts)


def test_unary_and_selection(each: Party) -> None:
    """The operators -, ~, abs, minimum, maximum and select give NumPy's results."""
    for dtype in ("int8", "uint8", "int16"):
        a, b = edges(dtype), edges(dtype, seed=8)
        x, y = each.tensor(a), each.tensor(b)
        with np.errstate(over="ignore"):
            each.check(-x, np.negative(a))
            each.check(abs(x), np.abs(a))
        each.check(~x, ~a)
        each.check(hg.tfhe.minimum(x, y), np.minimum(a, b))
        each.check(hg.tfhe.maximum(x, 5), np.maximum(a, np.array(5, dtype=dtype)))
        each.check(hg.tfhe.select(x < y, x, y), np.where(a < b, a, b))
        each.check(hg.tfhe.select(x < y, x, 0), np.where(a < b, a, np.zeros_like(a)))
        each.check(hg.tfhe.select(x == y, b, a), np.where(a == b, b, a))
        each.check(hg.tfhe.select(x == y, b, 0), np.where(a == b, b, np.zeros_like(b)))


GATES: dict[str, tuple[Any, Operator]] = {
    "and_": (hg.tfhe.and_, lambda a, b: a & b),
    "nand": (hg.tfhe.nand, lambda a, b: ~(a & b)),
    "or_": (hg.tfhe.or_, lambda a, b: a | b),
    "nor": (hg.tfhe.nor, lambda a, b: ~(a | b)),
    "xor": (hg.tfhe.xor, lambda a, b: a ^ b),
    "xnor": (hg.tfhe.xnor, lambda a, b: ~(a ^ b)),
    "andny": (hg.tfhe.andny, lambda a, b: ~a & b),
    "andyn": (hg.tfhe.andyn, lambda a, b: a & ~b),
    "orny": (hg.tfhe.orny, lambda a, b: ~a | b),
    "oryn": (hg.tfhe.oryn, lambda a, b: a | ~b),
}


@pytest.mark.parametrize("name", GATES)
def test_gates(each: Party, name: str) -> None:
    """Every gate is right for all inputs: on booleans, bit by bit on integers, and with clear operands."""
    gate, f = GATES[name]
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    x, y = each.tensor(a), each.tensor(b)
    each.check(gate(x, y), f(a, b))
    for clear in (False, True):
        each.check(gate(x, clear), f(a, np.array(clear)))
        each.check(gate(clear, x), f(np.array(clear), a))
    m, n = edges("uint8", 4), edges("uint8", 4, 2)
    each.check(gate(each.tensor(m), each.tensor(n)), f(m, n))


def test_gates_of_three(each: Party) -> None:
    """Adders and three-input gates are right for all inputs."""
    a, b, c = (np.array([bool(i >> k & 1) for i in range(8)]) for k in range(3))
    x, y, z = each.tensor(a), each.tensor(b), each.tensor(c)
    each.check(hg.tfhe.and3(x, y, z), a & b & c)
    each.check(hg.tfhe.or3(x, y, z), a | b | c)
    each.check(hg.tfhe.xor3(x, y, z), a ^ b ^ c)
    each.check(hg.tfhe.majority(x, y, z), a & b | a & c | b & c)
    each.check(hg.tfhe.mux(x, y, z), np.where(a, b, c))
    each.check(hg.tfhe.not_(x), ~a)
    total, carry = hg.tfhe.full_adder(x, y, z)
    each.check(total, a ^ b ^ c)
    each.check(carry, a & b | a & c | b & c)
    total, carry = hg.tfhe.half_adder(x, y)
    each.check(total, a ^ b)
    each.check(carry, a & b)
    table = [0, 1, 1, 0, 1, 0, 0, 0]
    each.check(hg.tfhe.truth_table([x, y, z], table), np.array(table, dtype=bool))


def test_conversions(each: Party) -> None:
    """Conversions equal NumPy's astype. NumPy has no 24-bit integers, so the names "int24" and "uint24" select them."""
    a = edges("int16", 8)
    x = each.tensor(a)
    for dtype in ("int8", "uint8", "int32", "uint16", "bool", "int64"):
        each.check(x.astype(dtype), a.astype(dtype))
    m = a.astype(np.int64) * 100
    y = each.tensor(m, hg.tfhe.int24)
    assert y.dtype == "int24"
    each.check(y, m.astype(np.int32))
    each.check(y * y, ((m * m + (1 << 23)) % (1 << 24) - (1 << 23)).astype(np.int32))
    each.check(y.astype("uint24").astype("uint32"), (m % (1 << 24)).astype(np.uint32))
    flags = np.array([True, False, True])
    each.check(each.tensor(flags).astype("int16"), flags.astype(np.int16))


def test_look_up(each: Party) -> None:
    """Look-ups by eight-bit values return the entries of the table."""
    table = np.arange(256, dtype=np.int32) ** 2 - 1000
    a = np.array([0, 1, 17, 128, 255], dtype=np.uint8)
    each.check(hg.tfhe.look_up(each.tensor(a), table), table[a])
    each.check(hg.tfhe.look_up(each.tensor(a), table > 0), (table > 0)[a])
    with pytest.raises(hg.ParameterError, match="256"):
        hg.tfhe.look_up(each.tensor(a), table[:100])


def test_sums_and_products_along_axes(most: Party) -> None:
    """sum, dot and matmul give NumPy's results; Cannon's schedule gives the same result."""
    a = edges("uint16", 12).reshape(3, 4)
    b = edges("uint16", 12, 6).reshape(4, 3)
    x, y = most.tensor(a), most.tensor(b)
    most.check(x.sum(dtype="uint16"), a.sum(dtype=np.uint16))
    most.check(x.sum(0), a.sum(0, dtype=np.uint32))
    most.check(hg.tfhe.sum(x, (0, -1)), a.sum(dtype=np.uint32))
    most.check(x.sum(1, dtype="uint32"), a.sum(1, dtype=np.uint32))
    most.check(x @ y, a @ b)
    most.check(x[0] @ y, a[0] @ b)
    most.check(hg.tfhe.dot(x[0], y[:, 0]), a[0] @ b[:, 0])
    most.check(x @ b, a @ b)
    most.check(b @ x, b @ a)
    square = most.tensor(a[:, :3])
    most.check(hg.tfhe.matmul(square, square, algorithm="cannon"), a[:, :3] @ a[:, :3])
    stacked = hg.tfhe.stack([square, square])
    most.check(stacked @ square, np.stack([a[:, :3] @ a[:, :3]] * 2))


def test_long_sums(each: Party) -> None:
    """A sum may have more terms than one circuit takes. A sum of booleans is their count."""
    a = np.random.default_rng(1).integers(0, 256, (150, 2), dtype=np.uint8)
    each.check(each.tensor(a).sum(0, dtype="uint8"), a.sum(0, dtype=np.uint8))
    each.check(each.tensor(a).sum(0), a.sum(0, dtype=np.uint16))
    flags = a[:, 0] > 100
    each.check(each.tensor(flags).sum(dtype="uint16"), flags.sum(dtype=np.uint16))
    m = np.random.default_rng(2).integers(0, 256, 70, dtype=np.uint8)
    each.check(hg.tfhe.dot(each.tensor(m), each.tensor(m)), np.sum(m * m, dtype=np.uint8))
    each.check(each.tensor(np.zeros((0, 3), dtype=np.int8)).sum(0), np.zeros(3, dtype=np.int8))


@pytest.mark.parametrize(
    ("dtype", "count", "wide"),
    [
        ("uint8", 1, "uint8"), ("uint8", 2, "uint16"), ("uint8", 256, "uint16"), ("uint8", 257, "uint32"), ("int8", 256, "int16"),
        ("int16", 9, "int32"), ("uint24", 2, "uint32"), ("uint24", 300, "uint64"), ("int32", 2, "int64"), ("uint64", 9, "uint64"),
    ],
)  # fmt: skip
def test_sums_widen(dtype: str, count: int, wide: str) -> None:
    """A sum has the narrowest NumPy type that can represent any sum of so many values, at most 64 bits."""
    assert widened(dtype, count) == wide


def test_sums_do_not_wrap_earlier_than_numpys(most: Party) -> None:
    """Sums of extreme values, which would wrap in their own type, give NumPy's results. Sums of 64-bit values wrap."""
    for dtype in ("uint8", "int8", "uint16", "int16", "uint64", "int64"):
        a = np.array([np.iinfo(dtype).max] * 5 + [np.iinfo(dtype).min], dtype)[:3]
        x = most.tensor(a)
        with np.errstate(over="ignore"):
            assert int(most.secret.decrypt(x.sum())) == int(a.sum())
            assert int(most.secret.decrypt(hg.sum(x, 0))) == int(a.sum())
            assert most.secret.decrypt(hg.tfhe.sum(x, dtype=dtype)) == a.sum(dtype=dtype)
    low = most.tensor(np.full(7, -128, np.int8))
    assert int(most.secret.decrypt(low.sum())) == -896


def test_one_tensor_given_twice(each: Party) -> None:
    """If both operands are the same ciphertext, the circuit detects this and counts its noise as one quantity."""
    for dtype in ("uint8", "int16"):
        a = edges(dtype, 8)
        x = each.tensor(a)
        with np.errstate(over="ignore"):
            each.check(x + x, a + a)
            each.check(x * x, a * a)
            each.check(x**3, a**3)
            each.check(x - x, a - a)
            each.check(hg.tfhe.dot(x, x), np.sum(a * a, dtype=dtype))
            each.check(hg.tfhe.sum(hg.tfhe.stack([x] * 3), 0, dtype=dtype), (a * 3).astype(dtype))
        each.check(x & x, a)
        each.check(x ^ x, a ^ a)
        each.check(x < x, a < a)
        each.check(x == x, a == a)
        each.check(hg.tfhe.maximum(x, x), a)
        for count in (20, 150):
            each.check(x.broadcast_to((count, 8)).sum(0, dtype=dtype), (a.astype(np.int64) * count).astype(dtype))
        each.check(hg.tfhe.select(x < x[::-1], x, x), a)
    flags = np.array([True, False])
    b = each.tensor(flags)
    each.check(hg.tfhe.majority(b, b, b), flags)
    each.check(hg.tfhe.majority(b, b, b[::-1]), flags)
    each.check(hg.tfhe.xor3(b, b, b), flags)
    total, carry = hg.tfhe.full_adder(b, b, b)
    each.check(total, flags)
    each.check(carry, flags)
    each.check(b.broadcast_to((100, 2)).sum(0, dtype="uint8"), np.array([100, 0], dtype=np.uint8))


def test_operands_may_share_some_elements(each: Party) -> None:
    """Operations on two views of one tensor that share some elements are right."""
    a = edges("uint8", 5)
    x = each.tensor(a)
    each.check(x[:, None] * x[None, :], a[:, None] * a[None, :])
    each.check(x[:-1] + x[1:], a[:-1] + a[1:])
    each.check(x + x[0], a + a[0])
    m = edges("uint8", 9).reshape(3, 3)
    y = each.tensor(m)
    each.check(y + y.T, m + m.T)
    each.check(y @ y.T, m @ m.T)
    each.check(hg.tfhe.matmul(y, y, algorithm="cannon"), m @ m)
    each.check(y + y.T + y, m + m.T + m)


@pytest.mark.parametrize("dtype", ["uint8", "bool"])
def test_only_one_of_equal_operands_is_bootstrapped(dtype: str) -> None:
    """If operands are only partly equal, one operand is refreshed by a bootstrap. Equal operands are not refreshed: their
    ciphertexts do not change.
    """
    p = party()
    x = p.tensor(np.ones(3, dtype=dtype))
    same = x & x
    errors = [p.secret._core.errors(t._core) for t in (x, same, x & same)]
    np.testing.assert_array_equal(errors[0], errors[1])
    np.testing.assert_array_equal(errors[0], errors[2])


def test_the_librarys_functions_know_both_schemes() -> None:
    """hg.sum and similar functions call those of hg.tfhe."""
    p = party()
    a = np.arange(9, dtype=np.uint8).reshape(3, 3)
    x = p.tensor(a)
    p.check(hg.sum(x), a.sum(dtype=np.uint16))
    p.check(hg.sum(x, 1), a.sum(1, dtype=np.uint16))
    p.check(hg.matmul(a, x), a @ a)
    p.check(hg.matmul(x, x), a @ a)
    p.check(hg.dot(x[0], a[1]), a[0] @ a[1])
    p.check(hg.dot(x[0], x[1]), a[0] @ a[1])
    p.check(hg.concatenate([x, x], 1), np.concatenate([a, a], 1))
    p.check(hg.stack([x[0], x[1]]), a[:2])
    p.check(hg.multiply(x, 3), a * np.uint8(3))
    p.check(hg.square(x), a * a)


def test_equal_numbers_are_one_set() -> None:
    """Sets that have equal numbers are one set, whichever names they have, so their tensors can be mixed."""
    numbers: dict[str, Any] = {"n": 688, "k": 3, "degree": 512, "bootstrap": (16, 1), "switch": (2, 6), "group": 2}
    numbers |= {"lwe_noise": ("gaussian", -14.13), "glwe_noise": ("tuniform", 31), "message_bits": 0, "carry_bits": 0}
    named = hg.tfhe.parameters("boolean")
    for mine in (hg.tfhe.parameters(**numbers, norm=3), hg.tfhe.parameters(**numbers, norm=3, insecure=True)):
        assert mine == named
        assert mine.name == "boolean"
        secret = hg.SecretKey.generate(mine)
        np.testing.assert_array_equal(secret.decrypt(secret.encrypt([True])), [True])


def test_shapes() -> None:
    """Views, indices, broadcasting and iteration follow the rules of NumPy."""
    p = party()
    a = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    x = p.tensor(a)
    assert (x.shape, x.ndim, x.size, len(x), x.dtype) == ((2, 3, 4), 3, 24, 2, np.uint8)
    keys: list[Any] = [0, -1, (1, 2), (0, 1, 2), np.s_[:, 1:], np.s_[::-1], np.s_[..., ::2], np.s_[None, 0], np.s_[:, :0]]
    for key in keys:
        p.check(x[key], a[key])
    p.check(x.T, a.T)
    p.check(x.transpose([1, 0, 2]), a.transpose(1, 0, 2))
    p.check(x.reshape(6, -1), a.reshape(6, 4))
    p.check(x[0, 0].broadcast_to((5, 4)), np.broadcast_to(a[0, 0], (5, 4)))
    p.check(x + x[0, 0], a + a[0, 0])
    p.check(x[:, :, :1] * x[0, :1], a[:, :, :1] * a[0, :1])
    p.check(x + np.zeros((2, 1, 1), dtype=int), a)
    p.check(x[0] + np.ones((2, 1, 1), dtype=int), a[0] + np.ones((2, 1, 1), dtype=np.uint8))
    p.check(hg.tfhe.concatenate([x, x[:1]]), np.concatenate([a, a[:1]]))
    for row, values in zip(x, a, strict=True):
        p.check(row, values)
    p.check(x[:0] + x[:0], a[:0])


@pytest.mark.parametrize("variant", ["ripple", "bitwise", "numberwise", "prefix"])
def test_adders_of_bits(variant: str) -> None:
    """Each named adder gives right sums."""
    p, a, b = party("bits"), edges("uint16"), edges("uint16", seed=4)
    p.check(hg.tfhe.add(p.tensor(a), p.tensor(b), variant=variant), a + b)


@pytest.mark.parametrize("variant", ["tree", "karatsuba", "wallace", "booth"])
def test_multipliers_of_bits(variant: str) -> None:
    """Each named multiplier gives right products."""
    p, a, b = party("bits"), edges("uint16", 4), edges("uint16", 4, 4)
    p.check(hg.tfhe.multiply(p.tensor(a), p.tensor(b), variant=variant), a * b)


@pytest.mark.parametrize("variant", ["ripple", "prefix"])
def test_variants_of_carries_have_the_same_names(each: Party, variant: str) -> None:
    """The variants of carries have the same names in each encoding."""
    a, b = edges("uint16"), edges("uint16", seed=4)
    each.check(hg.tfhe.add(each.tensor(a), each.tensor(b), variant=variant), a + b)
    each.check(hg.tfhe.subtract(each.tensor(a), 5, variant=variant), a - np.uint16(5))


@pytest.mark.parametrize("goal", ["fewest", "shallow"])
def test_goals_agree(each: Party, goal: str) -> None:
    """The circuits for either goal give the same result and have the stated cost."""
    a, b = edges("int32", 4), edges("int32", 4, 4)
    x, y = each.tensor(a), each.tensor(b)
    each.check(hg.tfhe.add(x, y, goal=goal), a + b)
    each.check(hg.tfhe.multiply(x, y, goal=goal), a * b)
    bootstraps, layers = each.parameters.cost("add", "int32", "int32", goal=goal)
    assert 0 < layers <= bootstraps < 300


def test_compound_gates_are_one_layer() -> None:
    """The sum and the carry of a half adder take one layer. A selection takes two bootstraps per bit, in two layers."""
    p = hg.tfhe.parameters("boolean")
    assert p.cost("half_adder", "bool", "bool") == p.cost("full_adder", "bool", "bool", "bool") == (2, 1)
    assert p.cost("select", "bool", "uint8", "uint8") == (16, 2)
    assert p.cost("add", "uint8", arguments=[77], goal="fewest") == (13, 7)
    assert p.cost("multiply", "uint64", arguments=[2**64 - 1]) == p.cost("multiply", "uint64", arguments=[-1])


def test_shallow_is_shallow(each: Party) -> None:
    """ "shallow" takes fewer layers than "fewest" and more bootstraps."""
    costs = {goal: each.parameters.cost("add", "uint32", "uint32", goal=goal) for goal in ("fewest", "shallow")}
    assert costs["fewest"][0] <= costs["shallow"][0]
    assert costs["shallow"][1] < costs["fewest"][1]


@FAST
@given(data=st.data(), dtype=st.sampled_from(DTYPES), name=st.sampled_from(sorted(NUMBERS)))
def test_expressions(data: st.DataObject, dtype: str, name: str) -> None:
    """Random expressions of random values give NumPy's results."""
    p, info = party(name), np.iinfo(dtype)
    value = st.integers(int(info.min), int(info.max))
    a, b = (np.array(data.draw(st.lists(value, min_size=3, max_size=3)), dtype=dtype) for _ in range(2))
    clear = data.draw(value)
    x, y = p.tensor(a), p.tensor(b)
    for op in data.draw(st.lists(st.sampled_from(["+", "-", "*", "&", "|", "^"]), min_size=1, max_size=4)):
        f, other = ARITHMETIC[op], data.draw(st.sampled_from(["tensor", "clear"]))
        x, a = (f(x, y), f(a, b)) if other == "tensor" else (f(x, clear), f(a, np.array(clear, dtype=dtype)))
    p.check(x, a)
    p.check(hg.tfhe.select(x > y, x, y), np.where(a > b, a, b))


def test_operators_on_many_eight_bit_values(most: Party) -> None:
    """Operators on eight-bit values are right for all values of one operand and many values of the other."""
    a = np.arange(256, dtype=np.uint8).reshape(-1, 1)
    b = np.array([0, 1, 2, 85, 127, 128, 254, 255], dtype=np.uint8)
    x, y = most.tensor(a), most.tensor(b)
    most.check(x + y, a + b)
    most.check(x < y, a < b)
    most.check(x[::8] * y, a[::8] * b)
    signed = a.view(np.int8), b.view(np.int8)
    most.check(most.tensor(signed[0]) < most.tensor(signed[1]), signed[0] < signed[1])


def test_a_long_chain() -> None:
    """In more than 200 operations in sequence, the noise does not grow."""
    for name in ("digits", "bits"):
        p = party(name)
        a = np.array([3, 250], dtype=np.uint8)
        x, y = p.tensor(a), p.tensor(a[::-1].copy())
        b = a[::-1].copy()
        for i in range(100):
            x, a = (x + y, a + b) if i % 3 else (x - 7, a - np.uint8(7))
            x, a = x * y, a * b
            y, b = y ^ x, b ^ a
        p.check(x, a)
        p.check(y, b)
