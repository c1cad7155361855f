"""Typical first attempts work as in NumPy or raise a typed error. No wrong value is returned without an error."""

from __future__ import annotations

import fractions
import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from alike import require_refused

Attempt = Callable[[], Any]


@functools.cache
def secret_of(scheme: str) -> Any:
    """Returns a secret key of a small set."""
    if scheme == "ckks":
        return hg.SecretKey.generate(hg.ckks.parameters(depth=1, precision=20, slots=8))
    if scheme == "tfhe":
        return hg.SecretKey.generate(hg.tfhe.parameters("boolean"))
    make = hg.bfv.parameters if scheme == "bfv" else hg.bgv.parameters
    return hg.SecretKey.generate(make(depth=1, plain_bits=16, slots=8))


@functools.cache
def tensor(scheme: str) -> Any:
    """Returns a tensor of shape (2, 3)."""
    if scheme == "tfhe":
        return secret_of(scheme).encrypt(np.ones((2, 3), dtype=np.uint8))
    return secret_of(scheme).encrypt(np.arange(48).reshape(2, 3, 8))


LEVELLED = pytest.mark.parametrize("scheme", ["bfv", "bgv", "ckks"])
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@LEVELLED
@pytest.mark.parametrize("compare", COMPARISONS)
def test_comparisons_outside_tfhe_are_refused(scheme: str, compare: Callable[[Any, Any], Any]) -> None:
    """Outside TFHE, comparisons of encrypted values raise an error instead of giving Python's default False."""
    x = tensor(scheme)
    for a, b in ((x, 1), (1, x), (x, np.ones(3)), (np.ones(3), x), (x, x + 0), (x, None)):
        with pytest.raises(hg.DtypeError, match="can be compared"):
            compare(a, b)


@LEVELLED
def test_encrypted_truth_values_are_refused(scheme: str) -> None:
    """Truth values and membership tests of tensors raise errors. A list or dict finds a tensor only if it contains the same
    object.
    """
    x = tensor(scheme)
    with pytest.raises(TypeError, match="cannot be a condition"):
        bool(x)
    with pytest.raises(hg.DtypeError, match="only tensors of TFHE"):
        3 in x  # noqa: B015
    with pytest.raises(hg.DtypeError, match="can be compared"):
        hg.ClearTensor([1, 2]) == 1  # noqa: B015
    assert x in [x]
    assert {x: 1}[x] == 1


@pytest.mark.parametrize("scheme", ["bfv", "ckks", "tfhe"])
def test_transpose_as_numpy(scheme: str) -> None:
    """transpose accepts a list, separate arguments, or no argument."""
    x = tensor(scheme)
    assert x.transpose(1, 0).shape == x.transpose((1, 0)).shape == x.transpose().shape == x.transpose(None).shape == (3, 2)
    assert x.transpose(0, -1).shape == (2, 3)
    with pytest.raises(hg.ShapeError):
        x.transpose(0, 0)


def test_transpose_in_the_clear() -> None:
    """Clear tensors accept the same arguments."""
    clear = hg.ClearTensor(np.arange(48).reshape(2, 3, 8))
    assert clear.transpose(1, 0).shape == clear.transpose([1, 0]).shape == clear.transpose().shape == (3, 2)


def test_errors_name_functions_of_the_same_scheme() -> None:
    """The error for a NumPy function names the function of the tensor's scheme and no function of another scheme."""
    with pytest.raises(hg.DtypeError, match=r"use hg\.ckks\.mean"):
        np.mean(tensor("ckks"))
    with pytest.raises(hg.DtypeError) as told:
        np.mean(tensor("bfv"))
    assert "ckks" not in str(told.value)
    with pytest.raises(hg.DtypeError, match=r"use hg\.sum"):
        np.sum(tensor("bfv"))


REFUSED: dict[str, tuple[Attempt, type[Exception], str]] = {
    "a tensor as weights": (lambda: tensor("bfv") @ tensor("bfv"), hg.MismatchError, "clear values, not a tensor of BFV"),
    "a tensor encrypted": (
        lambda: secret_of("ckks").encrypt(tensor("ckks")), hg.MismatchError, "clear values, not a tensor of CKKS",
    ),
    "another scheme's plaintext": (
        lambda: tensor("bfv") + hg.encode(secret_of("ckks").parameters, np.ones(8)), hg.DtypeError, "not a Plaintext of CKKS",
    ),
    "a key as values": (lambda: tensor("ckks") * secret_of("ckks"), hg.DtypeError, "not a SecretKey of CKKS"),
    "nothing added": (lambda: tensor("bfv") + None, hg.DtypeError, "integers, not NoneType$"),
    "a clear tensor added": (lambda: tensor("bfv") + hg.ClearTensor([1]), hg.DtypeError, "integers, not ClearTensor$"),
    "a fraction": (lambda: tensor("ckks") * fractions.Fraction(1, 2), hg.DtypeError, "numbers, not Fraction$"),
    "a word": (lambda: secret_of("tfhe").encrypt(dict), hg.DtypeError, "integers, not type$"),
    "an index beyond": (lambda: hg.ClearTensor([[1], [2]])[5], hg.ShapeError, "index 5"),
    "a plot into a path": (lambda: hg.trace().plot("a.png"), hg.DtypeError, "savefig"),
    "a key by its class": (lambda: hg.SecretKey(secret_of("bfv").parameters), hg.DtypeError, "SecretKey.generate secret keys"),
    "a scheme's key by its class": (
        lambda: hg.bfv.SecretKey(secret_of("bfv").parameters), hg.DtypeError, "not made of Parameters",
    ),
    "a tensor of a list": (lambda: hg.ckks.Tensor([1.0, 2.0]), hg.DtypeError, "a Tensor is not made of list"),
    "a set of another scheme's": (lambda: hg.ckks.Parameters(secret_of("bfv").parameters._core), hg.DtypeError, "is not made of"),
    "a number joined": (lambda: hg.join_moduli(3), hg.DtypeError, "a list of tensors, not int"),  # type: ignore[arg-type, type-var]
    "a tensor joined": (lambda: hg.join_moduli(tensor("bfv")), hg.DtypeError, "a list of tensors, not Tensor"),
    "a clear number alone": (lambda: hg.ClearTensor(3), hg.ShapeError, "at least one axis"),
    "a number stacked": (lambda: hg.stack(3), hg.DtypeError, "a list of tensors, not int"),  # type: ignore[arg-type, type-var]
    "nothing concatenated": (lambda: hg.concatenate(None), hg.DtypeError, "a list of tensors, not NoneType"),  # type: ignore[arg-type, type-var]
    "columns by a number": (lambda: secret_of("bfv").evaluation_keys(columns=3), hg.DtypeError, "columns must be True or False"),
    "conjugate by a text": (
        lambda: secret_of("ckks").evaluation_keys(conjugate="no"), hg.DtypeError, "conjugate must be True or False",
    ),
    "a cost's argument": (
        lambda: secret_of("tfhe").parameters.cost("shift_left", "uint8", arguments=["a"]), hg.DtypeError, "an argument",
    ),
    "a polynomial of numpy": (
        lambda: hg.ckks.polynomial(tensor("ckks"), np.polynomial.Polynomial([1, 2])), hg.DtypeError, "constant first",
    ),
    "a poly1d": (lambda: hg.ckks.polynomial(tensor("ckks"), np.poly1d([1, 2])), hg.DtypeError, "constant first"),
    "a forecast of a number": (lambda: hg.forecast(3, tensor("bfv")), hg.DtypeError, "function of tensors, not int"),  # type: ignore[arg-type]
    "a set for a number": (lambda: hg.parameters_for(3, [1]), hg.DtypeError, "a function of a tensor, not int"),  # type: ignore[call-overload]
    "samples by a key of BFV": (
        lambda: hg.ml.EstimatorModel.encrypt(None, secret_of("bfv"), [[1]]), hg.DtypeError, "key of CKKS, not by <BFV secret key",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_arguments_are_refused(name: str) -> None:
    """The error states the expected argument."""
    require_refused(*REFUSED[name])


def test_a_cost_by_one_argument() -> None:
    """`Parameters.cost` accepts a single argument in place of a list with one argument."""
    cost = secret_of("tfhe").parameters.cost
    assert cost("shift_left", "uint8", arguments=3) == cost("shift_left", "uint8", arguments=[3])


UNHEARD: dict[str, tuple[Attempt, type[Exception], str]] = {
    "a number as a name": (lambda: hg.bfv.parameters(2), hg.DtypeError, "name must be a string, not 2"),  # type: ignore[arg-type]
    "a number as a CKKS name": (lambda: hg.ckks.parameters(2), hg.DtypeError, "name must be a string"),  # type: ignore[arg-type]
    "a number as a TFHE name": (lambda: hg.tfhe.parameters(2), hg.DtypeError, "name must be a string"),  # type: ignore[arg-type]
    "a name and a depth": (lambda: hg.bfv.parameters("hcnn5", depth=3), hg.ParameterError, "takes no depth"),
    "a name and bits": (
        lambda: hg.bgv.parameters("bgv-n14", plain_bits=30, slots=9), hg.ParameterError, "no plain_bits and no slots",
    ),
    "a CKKS name and a depth": (lambda: hg.ckks.parameters("n13-l4", depth=3), hg.ParameterError, "takes no depth"),
    "a depth and n": (lambda: hg.bfv.parameters(depth=1, plain_bits=20, n=2**15), hg.ParameterError, "takes no n"),
    "a CKKS depth and n": (lambda: hg.ckks.parameters(depth=1, n=2**15), hg.ParameterError, "takes no n"),
    "numbers and a depth": (
        lambda: hg.bfv.parameters(n=2**13, log_q=150, depth=9), hg.ParameterError, "n and log_q takes no depth",
    ),
    "slots that the modulus has not": (
        lambda: hg.bfv.parameters(depth=1, plain_modulus=256, slots=10), hg.SlotsError, "1 modulo",
    ),
    "an insecure text": (
        lambda: hg.bfv.parameters("hcnn11-2020", insecure="no"), hg.DtypeError, "True or False",  # type: ignore[arg-type]
    ),
    "a name and a word size": (lambda: hg.bfv.parameters("hcnn5", word_size=16), hg.ParameterError, "word_size must be 64 or 32, got 16"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNHEARD)
def test_every_argument_of_parameters_is_used_or_refused(name: str) -> None:
    """`parameters` uses or refuses every argument, so no other set is returned than the requested one."""
    require_refused(*UNHEARD[name])


def test_a_name_and_a_word_size() -> None:
    """The argument word_size= has the same effect as the suffix of the name."""
    for make, name in ((hg.bfv.parameters, "hcnn5"), (hg.ckks.parameters, "n13-l4")):
        assert make(name, word_size=32) == make(f"{name}/w32") == make(f"{name}/w32", word_size=32) != make(name)


def test_keys_of_many_rotations_are_shown_short() -> None:
    """repr lists up to sixteen rotations; if there are more, it states their number."""
    secret = secret_of("bfv")
    assert f"rotations {list(range(1, 17))};" in repr(secret.evaluation_keys(rotations=range(1, 17)))
    assert " 17 rotations;" in repr(secret.evaluation_keys(rotations=range(1, 18)))
