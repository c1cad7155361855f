"""In-place operations such as a += b change the tensor, in the same memory if no other object shares it."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckks_rig
import heliograph as hg
import rigs
import tfhe_rig
from heliograph import _core
from places import places
from rigs import N

SCHEMES = ["bfv", "bgv", "bfv several", "ckks"]
IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "+=": lambda a, b: a.__iadd__(b),
    "-=": lambda a, b: a.__isub__(b),
    "*=": lambda a, b: a.__imul__(b),
}


@functools.cache
def party(scheme: str) -> tuple[Any, Any]:
    """Returns a secret key and its server."""
    if scheme == "ckks":
        return ckks_rig.party().secret, ckks_rig.party().server
    moduli = [12289, 18433] if scheme == "bfv several" else [65537]
    spec = rigs.small_spec(200, 1, moduli, scheme=scheme[:3])
    secret = hg.SecretKey.generate(hg.bfv.Parameters(_core.exact.Parameters(spec)))
    return secret, hg.Server(secret.evaluation_keys())


def tensor(scheme: str, *shape: int, seed: int = 1) -> tuple[Any, Any]:
    """Returns an unseeded tensor and its values."""
    secret, server = party(scheme)
    width = ckks_rig.SLOTS if scheme == "ckks" else N
    values = np.random.default_rng(seed).integers(-9, 10, (*shape, width))
    x = server.bind(secret.encrypt(values))
    return x + 0, values


def opened(scheme: str, x: Any) -> Any:
    """Returns the decrypted values, rounded to integers."""
    return np.rint(party(scheme)[0].decrypt(x)).astype(int)


def place(x: Any) -> int:
    """Returns the address of the first word of a tensor."""
    return int(x._core.address)


def vector(scheme: str, values: Any) -> Any:
    """Returns a clear operand with one number per slot."""
    return values if scheme == "ckks" else hg.bfv.encode(party(scheme)[1].parameters, values)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_additions_in_place_keep_the_memory(scheme: str) -> None:
    """a += b keeps the tensor's address and has the bits and noise estimates of a + b, for tensors, numbers, arrays and
    plaintexts.
    """
    y, b = tensor(scheme, 3, seed=2)
    row = y[1]
    each = np.array([1, -2, 3])
    v = np.arange(b.shape[-1]) % 5
    operands = {
        "tensor": (y, b),
        "row": (row, b[1]),
        "number": (7, 7),
        "each": (each[:, None] if scheme == "ckks" else each, each[:, None]),
        "vector": (vector(scheme, v), v),
    }
    for name, (operand, value) in operands.items():
        for op, sign in (("+=", 1), ("-=", -1)):
            x, a = tensor(scheme, 3)
            same, before = x, place(x)
            apart = x + operand if sign == 1 else x - operand
            x = IN_PLACE[op](x, operand)
            assert x is same
            assert place(x) == before, (name, op)
            np.testing.assert_array_equal(opened(scheme, x), a + sign * value)
            assert x.to_bytes() == apart.to_bytes(), (name, op)
            assert repr(x) == repr(apart)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_derived_tensors_keep_their_values(scheme: str) -> None:
    """Copies, slices, reshaped views and results keep their values; the tensor that is changed moves to new memory."""
    makers: dict[str, Callable[[Any], Any]] = {
        "copy": lambda x: +x,
        "wrapped": lambda x: type(x)(x._core, x._keys),
        "bound": lambda x: party(scheme)[1].bind(x),
        "slice": lambda x: x[0:1],
        "reversed": lambda x: x[::-1],
        "all": lambda x: x[...],
        "item": lambda x: x[2],
        "reshaped": lambda x: x.reshape(3, 1),
        "broadcast": lambda x: x.broadcast_to((2, 3)),
        "turned": lambda x: x.T,
        "relinearized": hg.relinearize,
        "first power": lambda x: x**1,
        "operands": lambda x: _core.program.Operands([x._core], [None]),
    }
    for name, make in makers.items():
        x, a = tensor(scheme, 3)
        made = make(x)
        kept = None if name == "operands" else opened(scheme, made)
        before = place(x)
        x += 5
        assert place(x) != before, name
        np.testing.assert_array_equal(opened(scheme, x), a + 5)
        if kept is not None:
            np.testing.assert_array_equal(opened(scheme, made), kept, err_msg=name)
        del made
        before = place(x)
        x += 5
        assert place(x) == before, name


@pytest.mark.parametrize("scheme", SCHEMES)
def test_operands_may_be_views_of_the_tensor(scheme: str) -> None:
    """An operand may be the tensor itself or a view of it: a += a, a += a[::-1], a += a[0], b = a[0:1]; b += 1."""
    x, a = tensor(scheme, 3)
    before = place(x)
    x += x
    assert place(x) == before
    np.testing.assert_array_equal(opened(scheme, x), 2 * a)
    x -= x
    np.testing.assert_array_equal(opened(scheme, x), 0 * a)
    x, a = tensor(scheme, 3)
    x += x[::-1]
    np.testing.assert_array_equal(opened(scheme, x), a + a[::-1])
    x, a = tensor(scheme, 3)
    x -= x[0]
    np.testing.assert_array_equal(opened(scheme, x), a - a[0])
    part = x[0:1]
    part += 1
    np.testing.assert_array_equal(opened(scheme, part), np.ones((1, a.shape[-1])))
    np.testing.assert_array_equal(opened(scheme, x), a - a[0])
    held = [x, {"x": x}]
    x += 1
    assert held[0] is x
    np.testing.assert_array_equal(opened(scheme, held[1]["x"]), a - a[0] + 1)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_operations_that_need_new_memory(scheme: str) -> None:
    """Products, and operands of other levels and degrees, change the tensor, too, but in new memory."""
    x, a = tensor(scheme, 2)
    y, b = tensor(scheme, 2, seed=3)
    same = x
    x *= 3
    x += (y * y)[:]
    assert same is x
    np.testing.assert_array_equal(opened(scheme, x), 3 * a + b * b)
    x, a = tensor(scheme, 2)
    if scheme == "ckks":
        x += hg.ckks.lower(y, 3)
        assert x.level == 3
        x /= 2
        np.testing.assert_array_equal(opened(scheme, x * 2), a + b)
    else:
        x += hg.shrink(y, y.level - 1)
        assert x.level == y.level - 1
        x **= 2
        np.testing.assert_array_equal(opened(scheme, x), (a + b) ** 2)
    z = type(x)(x._core)
    z += y
    assert z._keys is not None


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_refused_operation_changes_nothing(scheme: str) -> None:
    """Operands that do not broadcast, or that have other widths, keys or kinds, are refused, and the tensor does not change."""
    x, a = tensor(scheme, 2)
    bytes_before, before = x.to_bytes(), place(x)
    secret, server = party(scheme)
    other = hg.SecretKey.generate(secret.parameters)
    wide = tensor(scheme, 3, 2)[0]
    narrow = server.bind(secret.encrypt(np.arange(4), pad=True))
    cases: list[tuple[Any, type[Exception]]] = [
        (wide, hg.ShapeError),
        (np.ones((3, 2, 1) if scheme == "ckks" else (3, 2), int), hg.ShapeError),
        (other.encrypt(a), hg.WrongKeyError),
        ("text", hg.DtypeError),
        (tfhe_rig.party().tensor(np.zeros(2, np.uint8)), hg.MismatchError),
    ]
    if scheme == "ckks":
        cases += [(1j, hg.DtypeError), (tensor(scheme, 2)[0] * 1j, hg.DtypeError), (1e300, hg.PlaintextRangeError)]
    else:
        cases += [(0.5, hg.DtypeError), (1 << 40, hg.PlaintextRangeError)]
    for operand, error in cases:
        for op in ("+=", "-="):
            with pytest.raises(error):
                IN_PLACE[op](x, operand)
    for op in IN_PLACE.values():
        with pytest.raises(hg.ShapeError):
            op(narrow, x[0])
    with pytest.raises(hg.ShapeError, match="in place"):
        x *= wide
    assert place(x) == before
    assert x.to_bytes() == bytes_before
    y = np.zeros(3)
    with pytest.raises(hg.DtypeError):
        y += x


def test_tfhe_tensors_stay_the_same_object() -> None:
    """A TFHE tensor that is changed in place is still the same object of the same type."""
    p = tfhe_rig.party()
    a = np.array([1, 200], np.uint8)
    x = p.tensor(a)
    same = x
    x += np.array([3, 4], np.uint8)
    x ^= x[::-1]
    assert same is x
    expected = a + np.array([3, 4], np.uint8)
    np.testing.assert_array_equal(p.secret.decrypt(x), expected ^ expected[::-1])
    with pytest.raises(hg.DtypeError, match="one type"):
        x += p.tensor(np.array([1, 2], np.uint16))
    with pytest.raises(hg.ShapeError, match="in place"):
        x += np.zeros((2, 2), np.uint8)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_recorded_programs(scheme: str) -> None:
    """Recorded programs give the same values and bits. Operands keep their values both when recorded and when replayed."""

    def f(x: Any, y: Any) -> Any:
        z = x + y
        z += x
        z -= 3
        x += y
        y += x
        return z, x, y

    x, a = tensor(scheme, 2)
    y, b = tensor(scheme, 2, seed=4)
    program = hg.program(f)
    plain = f(+x, +y)
    for _ in range(3):
        results = program(x, y)
        for found, expected, values in zip(results, plain, (2 * a + b - 3, a + b, a + 2 * b), strict=True):
            assert found.to_bytes() == expected.to_bytes()
            np.testing.assert_array_equal(opened(scheme, found), values)
        np.testing.assert_array_equal(opened(scheme, x), a)
        np.testing.assert_array_equal(opened(scheme, y), b)
        results[0].__iadd__(1)  # results belong to the caller, so the next replay does not change
    z = x + y
    with hg.trace() as t:
        z += 1
        z *= 2
    assert [step.name for step in t] == ["add", "multiply"]


_RUN = """
import numpy as np, heliograph as hg, hashlib
from test_in_place import tensor, opened, SCHEMES
for scheme in SCHEMES:
    x, a = tensor(scheme, 5)
    y, b = tensor(scheme, 5, seed=2)
    x += y; x -= y[0]; x += 3; x += x; x += x[::-1]
    expected = 2 * (a + b - b[0] + 3)
    np.testing.assert_array_equal(opened(scheme, x), expected + expected[::-1])
"""


@pytest.mark.parametrize("device", places("ref", "cpu:scalar", "3*cpu", "2*cpu/limb/uncalibrated"))
def test_on_every_device(device: str) -> None:
    """Operations in place work on every device, including meshes that distribute items."""
    here = Path(__file__).parent
    path = os.pathsep.join([str(Path(hg.__file__).parent.parent), str(here)])
    environment = os.environ | {"HELIOGRAPH_DEVICE": device, "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", _RUN], check=True, env=environment, timeout=300)
