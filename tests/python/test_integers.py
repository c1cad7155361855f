"""Clear operands of every dtype at the ends of its range give the results of Python integers. No scheme wraps clear
operands.
"""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import heliograph as hg
import tfhe_rig
from ckks_rig import party as ckks_party
from heliograph import _core
from rigs import N, small_spec

FAST = settings(max_examples=12, deadline=None, derandomize=True)
Operator = Callable[[Any, Any], Any]
LEAST, MOST = -(1 << 63), (1 << 63) - 1
DTYPES = [np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
HALVES = [-(1 << 11), (1 << 11) - 1, -(1 << 15), 1 << 15]  # near half of the plaintext moduli below
VALUES = np.array([-7, 0, 1, 12345], dtype=object)

#: Sets of each exact scheme: with a plaintext modulus beyond 64 bits, with an even modulus, and with one prime.
SETS: dict[str, Any] = {
    f"{scheme} {name}": (scheme, log_q, moduli, packing)
    for scheme, log_q in (("bfv", 200), ("bgv", 320))
    for name, moduli, packing in (
        ("long", _core.exact.batching_primes(N, 80, 5), "slots"),
        ("even", [1 << 12], "coefficients"),
        ("prime", [65537], "slots"),
    )
}


@functools.cache
def world(name: str) -> tuple[hg.SecretKey, hg.Server, int, str]:
    """Returns a secret key, a server, the plaintext modulus and the packing."""
    scheme, log_q, moduli, packing = SETS[name]
    parameters = hg.bfv.Parameters(_core.exact.Parameters(small_spec(log_q, 1, moduli, scheme=scheme)))
    secret = hg.SecretKey.generate(parameters)
    return secret, hg.Server(secret.evaluation_keys()), parameters.plain_modulus, packing


def encrypted(name: str, values: Any) -> hg.Tensor:
    """Encrypts values and binds the ciphertexts to the server."""
    secret, server, _, packing = world(name)
    padded = np.zeros((*np.shape(values)[:-1], N), dtype=object)
    padded[..., : np.shape(values)[-1]] = values
    return server.bind(secret.encrypt(padded, **{packing: -1}))


def centred(values: Any, modulus: int) -> Any:
    """Returns residues in -(modulus // 2) ... (modulus - 1) // 2, as Python integers."""
    rest = np.asarray(values, dtype=object) % modulus
    return np.where(rest > (modulus - 1) // 2, rest - modulus, rest)


def decrypted(name: str, tensor: hg.Tensor, count: int) -> Any:
    """Returns the first decrypted values, as Python integers."""
    return world(name)[0].decrypt(tensor)[..., :count].astype(object)


def scalars() -> st.SearchStrategy[Any]:
    """Draws Python integers and NumPy integers of every dtype, the ends of the ranges first."""

    def of(dtype: np.dtype[Any]) -> st.SearchStrategy[Any]:
        info = np.iinfo(dtype)
        edge = st.sampled_from([info.min, info.max, info.min + 1, 0, 1])
        return (edge | st.integers(info.min, info.max)).map(dtype.type)

    return st.one_of(st.sampled_from([LEAST, MOST, LEAST + 1]), st.booleans(), *(of(dtype) for dtype in DTYPES))


OPERATORS = {
    "x + v": lambda x, v: x + v,
    "v + x": lambda x, v: v + x,
    "x - v": lambda x, v: x - v,
    "v - x": lambda x, v: v - x,
    "x * v": lambda x, v: x * v,
    "v * x": lambda x, v: v * x,
}


@pytest.mark.parametrize("case", OPERATORS)
@pytest.mark.parametrize("name", SETS)
@FAST
@given(data=st.data())
def test_operators_with_any_number(name: str, case: str, data: st.DataObject) -> None:
    """An operator with a number gives Python's result modulo t, or raises a typed error if the number is out of range."""
    check_scalar(name, case, data.draw(scalars()))


@pytest.mark.parametrize("case", OPERATORS)
@pytest.mark.parametrize("name", SETS)
def test_operators_with_extreme_numbers(name: str, case: str) -> None:
    """Operators accept the ends of 64 bits and of the range of the plaintext modulus t. For an even t, -t/2 is valid and t/2
    is not.

    """
    for scalar in (LEAST, MOST, *HALVES):
        check_scalar(name, case, scalar)


def check_scalar(name: str, case: str, scalar: Any) -> None:
    """Checks one operator with one number."""
    value, modulus = int(scalar), world(name)[2]
    values = VALUES
    if world(name)[3] == "coefficients":
        values = VALUES[:1]  # a number is the constant coefficient of a polynomial
    x = encrypted(name, centred(values, modulus))
    if not -(modulus // 2) <= value <= (modulus - 1) // 2:
        with pytest.raises(hg.PlaintextRangeError):
            OPERATORS[case](x, scalar)
        return
    expected = centred(OPERATORS[case](values, value), modulus)
    np.testing.assert_array_equal(decrypted(name, OPERATORS[case](x, scalar), len(values)), expected)


@pytest.mark.parametrize("case", OPERATORS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["bfv long", "bgv long"])
def test_arrays_of_every_dtype(name: str, dtype: np.dtype[Any], case: str) -> None:
    """Operators accept an array of one integer per ciphertext. Operators do not negate unsigned integers in their own dtype,
    nor -2^63 in int64.

    """
    info = np.iinfo(dtype)
    array = np.array([info.min, min(info.max, MOST), 1, 0], dtype=dtype)
    values = np.array([[1], [-1], [1], [-1]], dtype=object)
    modulus = world(name)[2]
    clear = array.astype(object)[:, None]
    found = OPERATORS[case](encrypted(name, values), array)
    np.testing.assert_array_equal(decrypted(name, found, 1), centred(OPERATORS[case](values, clear), modulus))


@pytest.mark.parametrize("name", ["bfv long", "bgv long"])
def test_extreme_plaintexts_weights_and_biases(name: str) -> None:
    """Integers at the ends of their range are accepted as plaintexts, weights and biases."""
    _, server, modulus, _ = world(name)
    x = encrypted(name, np.array([[3], [-5]], dtype=object))
    extremes = np.array([LEAST, MOST])
    plain = server.encode(np.resize(extremes, N))
    np.testing.assert_array_equal(
        decrypted(name, x[0] - plain, 2), centred(np.array([3, 0]) - extremes.astype(object), modulus)
    )
    product = 3 * LEAST - 5 * MOST
    for found, expected in (
        (hg.dot(x, extremes), product),
        (hg.matmul(extremes[None], x)[0] - LEAST, product - LEAST),
        (hg.matmul(extremes[None], x, [LEAST])[0], product + LEAST),
        (hg.conv2d(x.reshape(1, 1, 2), extremes.reshape(1, 1, 1, 2), [LEAST])[0, 0, 0], product + LEAST),
    ):
        np.testing.assert_array_equal(decrypted(name, found, 1), centred([expected], modulus))


CLEAR: dict[str, Callable[[hg.ClearTensor], Any]] = {
    "negative": lambda x: -hg.ClearTensor([[LEAST]]),
    "less the least": lambda x: x - LEAST,
    "the least less it": lambda x: LEAST - x,
    "times the least": lambda x: x * LEAST,
    "least weights": lambda x: hg.matmul([[LEAST, 1]], x),
    "sums of weights": lambda x: hg.matmul([[1 << 62, 1 << 62]], x),
    "weights from the right": lambda x: x @ [[LEAST], [1]],
    "least bias": lambda x: hg.matmul([[1, 1]], x, [LEAST]),
    "least kernel": lambda x: hg.conv2d(x.reshape(1, 1, 2), [[[[LEAST, 1]]]]),
    "least bias of a convolution": lambda x: hg.conv2d(x.reshape(1, 1, 2), [[[[1, 1]]]], [LEAST]),
}


@pytest.mark.parametrize("case", CLEAR)
def test_clear_tensors_do_not_wrap(case: str) -> None:
    """Clear tensors refuse results that could exceed 63 bits."""
    with pytest.raises(hg.PlaintextRangeError, match="beyond 63 bits"):
        CLEAR[case](hg.ClearTensor([[1], [1]]))


@pytest.mark.parametrize(("weight", "value"), [(1 << 40, 1 << 20), (1 << 59, 1), (-(1 << 38), -(1 << 23)), (3, -(1 << 60))])
def test_clear_products_of_long_factors(weight: int, value: int) -> None:
    """A product is exact, whichever of the factors is long."""
    found = hg.matmul([[weight, 1]], hg.ClearTensor([[value], [-7]]))
    assert found.values.tolist() == [[weight * value - 7]]


def test_residues_of_the_extremes() -> None:
    """Residues of very large integers are correct and cause no NumPy warnings, also for a single number."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in (LEAST, MOST, np.uint64(MOST)):
            expected = centred([[int(value) + 3]], 97)
            np.testing.assert_array_equal((hg.ClearTensor([[3]], 97) + value).values, expected)


def test_networks_bound_what_their_weights_reach() -> None:
    """Sums of absolute weights are exact; they determine the plaintext modulus."""
    from heliograph._common.arguments import absolute_sums

    assert absolute_sums(np.array([[LEAST, LEAST], [1, -2]])) == [1 << 64, 3]
    assert absolute_sums(np.array([[MOST, MOST, MOST]])) == [3 * MOST]
    assert absolute_sums(np.zeros((2, 0), dtype=np.int64)) == [0, 0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_ckks_takes_every_dtype(dtype: np.dtype[Any]) -> None:
    """CKKS operators accept numbers, arrays along the slots, and arrays of one number per ciphertext, on either side."""
    p = ckks_party()
    info = np.iinfo(dtype)
    slots = np.arange(p.parameters.slots) % 4
    array = np.array([max(info.min, -256), min(info.max, 256), 1, 0], dtype=dtype)[slots]
    a = np.array([0.5, -1.0, 1.0, 2.0])[slots]
    x = p.tensor(a)
    for operand in (array, array[:1], array[0], array[1]):
        wide = operand.astype(np.float64)
        for op in (operator.add, operator.sub, operator.mul):
            p.check(op(x, operand), op(a, wide), 1e-4)
            p.check(op(operand, x), op(wide, a), 1e-4)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
@pytest.mark.parametrize("party", ["digits", "bits"])
def test_tfhe_wraps_as_numpy_does(party: str, dtype: str) -> None:
    """Clear operands at the ends of a dtype wrap as in NumPy, on either side."""
    p, info = tfhe_rig.party(party), np.iinfo(dtype)
    a = np.array([info.min, info.max, 1, 0], dtype=dtype)
    x = p.tensor(a)
    operators: list[Operator] = [operator.add, operator.sub, operator.mul, operator.lt, operator.eq]
    if dtype.endswith("8"):
        operators += [operator.floordiv, operator.mod]
    with np.errstate(all="ignore"):
        for value in (info.min, info.max):
            for op in operators:
                if value == 0 and op in (operator.floordiv, operator.mod):
                    continue  # for these operands NumPy has another result (docs/tfhe.md)
                p.check(op(x, value), op(a, a.dtype.type(value)))
            p.check(value - x, a.dtype.type(value) - a)
            p.check(x - np.full(4, value, dtype=dtype), a - a.dtype.type(value))
        p.check(-x, -a)
        if info.min < 0:
            p.check(abs(x), np.abs(a))
