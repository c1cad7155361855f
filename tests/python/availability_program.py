"""Calls functions with invalid and extreme arguments. Each call must end quickly, with a result or a typed error.

``python availability_program.py`` prints the name of each case before the case runs, and each fault after the case.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import ckks_rig
import heliograph as hg
import tfhe_rig

LIMIT = 5.0  #: limit per case in processor seconds, which do not depend on other load; nearly all cases take milliseconds
N = 1024

#: Invalid and extreme arguments for each integer parameter.
INTEGERS: list[Any] = [
    *(0, 1, 3, -1, -(2**31), -(2**63), -(2**64), 10**9, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, 10**5000),
    *(True, 1.0, 0.5, math.nan, math.inf, -math.inf, 1e300, 1j, None, "1", b"1", [1], (), {}, object()),
    *(np.int8(2), np.uint64(2**63), np.float64(2), np.bool_(True), np.array(2), np.array([1, 2])),
]
REALS: list[Any] = [*INTEGERS, -0.0, 5e-324, 40.5]

Case = tuple[Callable[[Any], Any], list[Any]]


def exact_sets(scheme: Any) -> dict[str, Case]:
    """Returns a test case for each number that defines a parameter set of BFV or BGV."""
    made: dict[str, Any] = {"n": N, "log_q": 60, "plain_modulus": 12289, "insecure": True}
    found: dict[str, Any] = {"depth": 1, "plain_bits": 20}
    cases: dict[str, Case] = {}
    for name in ("n", "log_q", "special", "plain_modulus", "plain_bits", "slots"):
        cases[f"numbers, {name}"] = (lambda v, name=name: scheme.parameters(**(made | {name: v})), INTEGERS)
    for name in ("depth", "plain_bits", "plain_modulus", "slots", "terms"):
        cases[f"need, {name}"] = (lambda v, name=name: scheme.parameters(**(found | {name: v})), INTEGERS)
    cases["moduli"] = (lambda v: scheme.parameters(**(made | {"plain_modulus": [12289, v]})), INTEGERS)
    cases["name"] = (scheme.parameters, INTEGERS)
    cases["word_size"] = (lambda v: scheme.parameters(**made, word_size=v), INTEGERS)
    return cases


def ckks_sets() -> dict[str, Case]:
    """Returns a test case for each number that defines a parameter set of CKKS."""
    made: dict[str, Any] = {"n": N, "levels": 2, "log_scale": 40, "base_bits": 50, "special": 1, "insecure": True}
    found: dict[str, Any] = {"depth": 1, "precision": 20}
    cases: dict[str, Case] = {}
    for word_size in (64, 32):
        for name in ("n", "levels", "log_scale", "base_bits", "special", "slots"):
            cases[f"numbers, {name}, w{word_size}"] = (
                lambda v, name=name, word_size=word_size: hg.ckks.parameters(**(made | {"word_size": word_size, name: v})), REALS,
            )  # fmt: skip
    for name in ("depth", "precision", "integer_bits", "slots"):
        cases[f"need, {name}"] = (lambda v, name=name: hg.ckks.parameters(**(found | {name: v})), INTEGERS)
    cases["name"] = (hg.ckks.parameters, INTEGERS)
    cases["word_size"] = (lambda v: hg.ckks.parameters(**made, word_size=v), INTEGERS)
    return cases


def tfhe_sets() -> dict[str, Case]:
    """Returns a test case for each number that defines a parameter set of TFHE."""
    made: dict[str, Any] = {"n": 32, "k": 1, "bootstrap": (18, 1), "switch": (4, 4), "group": 2, "insecure": True}
    made |= tfhe_rig.NOISE | tfhe_rig.NUMBERS["digits"]
    cases: dict[str, Case] = {}
    for name in ("n", "k", "degree", "group", "message_bits", "carry_bits", "norm", "bootstrap", "switch", "lwe_noise"):
        cases[name] = (lambda v, name=name: hg.tfhe.parameters(**(made | {name: v})), INTEGERS)
    for name in ("bootstrap", "switch"):
        for at in (0, 1):
            cases[f"{name}, {at}"] = (
                lambda v, name=name, at=at: hg.tfhe.parameters(**(made | {name: (v, 1) if at == 0 else (4, v)})), INTEGERS,
            )  # fmt: skip
    for name in ("lwe_noise", "glwe_noise"):
        for kind in ("gaussian", "tuniform"):
            cases[f"{name}, {kind}"] = (
                lambda v, name=name, kind=kind: hg.tfhe.parameters(**(made | {name: (kind, v)})), REALS,
            )  # fmt: skip
    cases["name"] = (hg.tfhe.parameters, INTEGERS)
    return cases


def searches() -> dict[str, Case]:
    """Returns the test cases of `hg.parameters_for`."""
    example = np.ones((1, 16), dtype=int)

    def searched(**options: Any) -> Any:
        return hg.parameters_for(lambda x: x + x, example, **({"n": 2048} | options))

    cases: dict[str, Case] = {}
    for name in ("n", "plain_bits", "plain_modulus", "margin_bits", "slots", "word_size", "scheme"):
        cases[name] = (lambda v, name=name: searched(**{name: v}), INTEGERS)
    reals = np.ones((1, 16))
    for name in ("precision", "bound", "slots", "word_size"):
        cases[f"ckks, {name}"] = (
            lambda v, name=name: hg.parameters_for(lambda x: x * x, reals, scheme="ckks", **{name: v}), REALS,
        )  # fmt: skip
    for name in ("log2_failure", "dtype"):
        cases[f"tfhe, {name}"] = (
            lambda v, name=name: hg.parameters_for(lambda x: x + x, example, scheme="tfhe", **{name: v}), REALS,
        )  # fmt: skip
    cases["a result"] = (lambda v: hg.parameters_for(lambda x: v, example, n=2048), INTEGERS)
    return cases


def exact_calls() -> dict[str, Case]:
    """Returns the test cases of functions on BFV tensors, parameter sets and keys."""
    parameters = hg.bfv.parameters(n=N, log_q=150, plain_modulus=12289, insecure=True)
    secret = hg.SecretKey.generate(parameters)
    server = hg.Server(secret.evaluation_keys(rotations=[1], columns=True))
    x = server.bind(secret.encrypt(np.ones((1, 4, 4, N), dtype=int)))
    kernel = np.ones((1, 1, 2, 2), dtype=int)
    ones = np.ones((2, N), dtype=int)
    calls: dict[str, Callable[[Any], Any]] = {
        "rotate_rows": lambda v: hg.rotate_rows(x, v),
        "rotate_rows, several": lambda v: hg.rotate_rows(x, [1, v]),
        "rotations": lambda v: secret.evaluation_keys(rotations=[v]),
        "rotations, all": lambda v: secret.evaluation_keys(rotations=v),
        "shrink": lambda v: hg.shrink(x, v),
        "sum": lambda v: hg.sum(x, v),
        "sum_pool2d": lambda v: hg.sum_pool2d(x, v),
        "stride": lambda v: hg.conv2d(x, kernel, stride=v),
        "padding": lambda v: hg.conv2d(x, kernel, padding=v if not isinstance(v, int) or abs(v) < 10 else -1),
        "groups": lambda v: hg.conv2d(x, kernel, groups=v),
        "pool": lambda v: hg.conv2d_square_pool(x, kernel, pool=v),
        "stretch": lambda v: hg.conv2d_square_pool(x, kernel, stretch=v),
        "concatenate": lambda v: hg.concatenate([x, x], v),
        "stack": lambda v: hg.stack([x, v]),
        "encrypt, slots": lambda v: secret.encrypt(ones, slots=v),
        "encrypt, coefficients": lambda v: secret.encrypt(ones, coefficients=v),
        "encrypt, moduli": lambda v: secret.encrypt(ones, moduli=v),
        "encrypt, values": lambda v: secret.encrypt([v] * N),
        "encode": lambda v: hg.encode(parameters, ones, slots=v),
        "server's encode": lambda v: server.encode(ones, coefficients=v),
        "decrypt": lambda v: secret.decrypt(x, slots=v),
        "reshape": lambda v: x.reshape(v),
        "reshape, two": lambda v: x.reshape(4, v),
        "broadcast_to": lambda v: x.broadcast_to(v),
        "broadcast_to, two": lambda v: x.broadcast_to((v, 1, 4, 4)),
        "transpose": lambda v: x.transpose([0, 1, v]),
        "index": lambda v: x[v],
        "slice": lambda v: x[0, v:],
        "step": lambda v: x[0, ::v],
        "power": lambda v: x[0, 0, 0] ** v,
        "plus": lambda v: x + v,
        "times": lambda v: v * x,
        "matmul": lambda v: hg.matmul([[v] * 1], x),
        "bias": lambda v: hg.matmul([[1]], x, [v]),
        "matmul, axis": lambda v: hg.matmul([[1]], x, axis=v),
        "stack, axis": lambda v: hg.stack([x, x], v),
        "ciphertext_bytes": lambda v: parameters.ciphertext_bytes(v),
        "modulus of clear tensors": lambda v: hg.ClearTensor(ones, v),
        "progress": lambda v: hg.multiply(x, x, progress=v),
    }
    return {name: (call, INTEGERS) for name, call in calls.items()}


def ckks_calls() -> dict[str, Case]:
    """Returns the test cases of functions on CKKS tensors."""
    party = ckks_rig.party()
    x = party.tensor(ckks_rig.real(2))
    matrix = np.ones((4, 4))
    values = ckks_rig.real()
    calls: dict[str, Callable[[Any], Any]] = {
        "rotate": lambda v: hg.ckks.rotate(x, v),
        "rotations": lambda v: party.secret.evaluation_keys(rotations=[v]),
        "lower": lambda v: hg.ckks.lower(x, v),
        "sum": lambda v: hg.ckks.sum(x, v),
        "matmul, axis": lambda v: hg.matmul([[1.5, 2.5]], x, axis=v),
        "matmul, weights": lambda v: hg.matmul([[v, v]], x, axis=0),
        "matmul, bias": lambda v: hg.matmul([[1, 2]], x, [v], axis=0),
        "sum_slots": lambda v: hg.ckks.sum_slots(x, v),
        "sum_rotations": hg.ckks.sum_rotations,
        "axis": lambda v: hg.ckks.inner_product(x, x, v),
        "count": lambda v: hg.ckks.inner_product(x, x, 0, v),
        "transform, level": lambda v: hg.ckks.LinearTransform(party.parameters, matrix, level=v),
        "transform, baby": lambda v: hg.ckks.LinearTransform(party.parameters, matrix, baby=v),
        "transform, entries": lambda v: hg.ckks.LinearTransform(party.parameters, [[v]]),
        "polynomial": lambda v: hg.ckks.polynomial(x, [1, v]),
        "polynomial_depth": hg.ckks.polynomial_depth,
        "encrypt, slots": lambda v: party.secret.encrypt(values, slots=v),
        "encrypt, level": lambda v: party.secret.encrypt(values, level=v),
        "encrypt, values": lambda v: party.secret.encrypt([v] * ckks_rig.SLOTS),
        "encrypt, bound": lambda v: party.secret.encrypt(values, bound=v),
        "decrypt, checked": lambda v: party.secret.decrypt(x, checked=v),
        "encode, level": lambda v: hg.ckks.encode(party.parameters, values, level=v),
        "encode, scale": lambda v: hg.ckks.encode(party.parameters, values, scale=v),
        "decrypt, slots": lambda v: party.secret.decrypt(x, slots=v),
        "publish_bits": lambda v: party.secret.decrypt(x, publish_bits=v),
        "precision": lambda v: party.secret.decrypt(x, publish_bits=2, precision=v),
        "plus": lambda v: x + v,
        "times": lambda v: v * x,
        "by": lambda v: x / v,
        "power": lambda v: x[0] ** v,
        "level scale": lambda v: party.parameters.scale(v),
        "ciphertext_bytes": lambda v: party.parameters.ciphertext_bytes(v),
        "ciphertext_bytes, level": lambda v: party.parameters.ciphertext_bytes(1, v),
        "index": lambda v: x[v],
        "reshape": lambda v: x.reshape(v),
    }
    return {name: (call, REALS) for name, call in calls.items()}


def tfhe_calls() -> dict[str, Case]:
    """Returns the test cases of functions on TFHE tensors."""
    party = tfhe_rig.party()
    x = party.tensor(np.array([1, 2], dtype=np.uint8))
    calls: dict[str, Callable[[Any], Any]] = {
        "plus": lambda v: x + v,
        "by": lambda v: x // v,
        "shift": lambda v: x << v,
        "rotate": lambda v: hg.tfhe.rotate_left(x, v),
        "less": lambda v: x < v,
        "select": lambda v: hg.tfhe.select(x < 2, x, v),
        "table": lambda v: hg.tfhe.look_up(x, [v] * 256),
        "table, all": lambda v: hg.tfhe.look_up(x, v),
        "sum": lambda v: hg.tfhe.sum(x, v),
        "matmul, axis": lambda v: hg.matmul(np.ones((1, x.shape[0]), dtype=np.uint8), x, axis=v),
        "stack": lambda v: hg.tfhe.stack([x, x], v),
        "concatenate": lambda v: hg.tfhe.concatenate([x, x], v),
        "encrypt": lambda v: party.secret.encrypt(v),
        "dtype": lambda v: party.secret.encrypt([1], v),
        "astype": lambda v: x.astype(v),
        "trivial": lambda v: hg.tfhe.trivial(party.keys, v),
        "variant": lambda v: hg.tfhe.add(x, x, variant=v),
        "goal": lambda v: hg.tfhe.add(x, x, goal=v),
        "algorithm": lambda v: hg.tfhe.matmul(x, x, algorithm=v),
        "cost": lambda v: party.parameters.cost(v),
        "ciphertext_bytes": lambda v: party.parameters.ciphertext_bytes(v),
        "truth_table": lambda v: hg.tfhe.truth_table([x < 2, x < 3], v),
        "index": lambda v: x[v],
        "reshape": lambda v: x.reshape(v),
    }
    return {name: (call, INTEGERS) for name, call in calls.items()}


GROUPS: dict[str, Callable[[], dict[str, Case]]] = {
    "bfv": lambda: exact_sets(hg.bfv),
    "bgv": lambda: exact_sets(hg.bgv),
    "ckks": ckks_sets,
    "tfhe": tfhe_sets,
    "searches": searches,
    "exact calls": exact_calls,
    "ckks calls": ckks_calls,
    "tfhe calls": tfhe_calls,
}


def named(value: Any) -> str:
    """Returns the repr of a value, or a short name if the repr is too long."""
    return "10**5000" if isinstance(value, int) and value >= 10**4999 else repr(value)


def faults(cases: dict[str, Case]) -> Iterator[str]:
    """Runs the cases and yields a description of each case that fails or takes longer than the time limit."""
    for name, (call, values) in cases.items():
        for value in values:
            print(f"{name}: {named(value)}", flush=True)
            start = time.process_time()
            try:
                call(value)
            except hg.HeliographError as error:
                if not str(error) or "incompatible function" in str(error):
                    yield f"{name}: {named(value)}: {error!r}"
            except Exception as error:
                yield f"{name}: {named(value)}: {error!r}"
            took = time.process_time() - start
            if took > LIMIT:
                yield f"{name}: {named(value)}: took {took:.1f} s"


if __name__ == "__main__":
    for name, group in GROUPS.items():
        for text in faults(group()):
            print("WRONG", text)
        print("done", name)
