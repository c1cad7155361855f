"""Cases of CKKS bootstrapping: sets and keys, calls, precision, products."""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.cases import ckks as ckks_cases
from heliograph import _core, ckks


def _bootstrap(x: ckks.Tensor) -> ckks.Tensor:
    # looked up at the call, because the tree of a comparison (before_after.py) may lack this function
    return ckks.bootstrap(x)


def _twice(x: ckks.Tensor) -> ckks.Tensor:
    return ckks.bootstrap(x, iterations=2)


@dataclass(frozen=True)
class Form:
    """A form of the benchmarked call: number of ciphertexts, real or complex values, iterations of bootstrapping."""

    what: str
    items: int = 1
    complex: bool = True
    run: Callable[[ckks.Tensor], ckks.Tensor] = _bootstrap
    bootstraps: bool = True  #: if False, the case is a multiplication at the top level, for comparison


def _square(x: ckks.Tensor) -> ckks.Tensor:
    return x * x[...]  # two operand objects, so that the engine does not see that they are equal


TWICE = "twice-x1"  #: this form needs a set with a large scale
FORMS = {
    "complex-x1": Form("bootstrap of one complex ciphertext"),
    "real-x1": Form("bootstrap of one real ciphertext", complex=False),
    "real-x2": Form("bootstrap of two real ciphertexts, paired", 2, complex=False),
    "complex-x16": Form("bootstrap of 16 complex ciphertexts in one call", 16),
    TWICE: Form("bootstrap of one complex ciphertext in two iterations", run=_twice),
    "product-x1": Form("multiply + relinearize + rescale at the top", run=_square, bootstraps=False),
    "product-x16": Form("multiply + relinearize + rescale at the top, 16 in one call", 16, run=_square, bootstraps=False),
}
#: Target time of a complete call on one H200, in seconds.
ASKED = {
    "n16-b13": {"complex-x1": 8.0e-3, "real-x1": 6.2e-3, "real-x2": 2 * 4.2e-3, "complex-x16": 16 * 5.8e-3},
    "n16-b9": {"complex-x1": 6.5e-3},
    "n15-b4": {"complex-x1": 4.0e-3},
    "n16-b13:512": {"complex-x1": 5.5e-3},
    "n16-b13:1": {"complex-x1": 5.0e-3},
}
BEGIN = "bootstrap-"


def names_of(set_name: str) -> list[str]:
    """Returns the benchmark cases of a parameter set."""
    return [f"{BEGIN}{set_name}-{form}" for form in FORMS if form != TWICE or "-h" in set_name]


def parts_of(name: str) -> tuple[str, str]:
    """Returns the set and the form of a case. Raises SystemExit for other names."""
    for form in FORMS:
        if name.startswith(BEGIN) and name.endswith(f"-{form}"):
            return name[len(BEGIN) : -len(form) - 1], form
    raise SystemExit(f"unknown case {name}: use {BEGIN}SET-FORM with a form of {', '.join(FORMS)}")


def parameters_of(set_name: str) -> ckks.Parameters:
    """Returns a named set. "small" is a set without security for tests; "n16-b13:512" is the set n16-b13 with 512 slots."""
    name, _, slots = set_name.partition(":")
    small = name == "small"
    spec = _core.ckks.make_bootstrapping_spec(2048, 5, 39, 49.9, 3, 64, True) if small else _core.ckks.named_spec(name)
    spec.slots = int(slots or 0)
    return ckks.Parameters(_core.ckks.Parameters(spec))


@dataclass(frozen=True)
class Party:
    """A secret key and a server, and the seconds that key generation took."""

    secret: ckks.SecretKey
    server: hg.Server
    keys_s: float


@lru_cache(maxsize=1)  # keeps the keys of one set only, because keys take gigabytes
def party(set_name: str) -> Party:
    """Returns the keys of a set; they are made once."""
    secret = ckks.SecretKey.generate(parameters_of(set_name))
    start = time.perf_counter()
    keys = secret.evaluation_keys(bootstrap=True)
    return Party(secret, hg.Server(keys), time.perf_counter() - start)


def values(p: ckks.Parameters, form: Form, random: np.random.Generator) -> Any:
    """Returns uniform values, with real and imaginary parts in [-1, 1]."""
    shape = (form.items, p.slots) if form.items > 1 else (p.slots,)
    real = random.uniform(-1, 1, shape)
    return real + 1j * random.uniform(-1, 1, shape) if form.complex else real


def encrypted(at: Party, form: Form, clear: Any) -> ckks.Tensor:
    """Returns the values encrypted at the form's first level, in the NTT domain. The tracked bound of complex values is on their
    magnitude, which may exceed bootstrapping's bound on each part, so `within` asserts the bound.
    """
    p = at.secret.parameters
    level = p.bootstrapping_level if form.bootstraps else p.levels
    x: ckks.Tensor = at.server.bind(at.secret.encrypt(clear, level=level))
    return (ckks.within(x, 1.0) if form.complex else x) + 0


@lru_cache(maxsize=1)
def operand(set_name: str, form: str) -> ckks.Tensor:
    """Returns the operand of the timed call."""
    at = party(set_name)
    return encrypted(at, FORMS[form], values(at.secret.parameters, FORMS[form], np.random.default_rng(1)))


def describe(set_name: str) -> dict[str, Any]:
    """Returns a set's parameters for the results file."""
    p = parameters_of(set_name)
    return ckks_cases.describe(p) | {"slots": p.slots, "level_before": p.bootstrapping_level, "level_after": p.levels}


@lru_cache(maxsize=1)
def _counting(set_name: str) -> Party:
    """Returns keys on the null device. A first call has already made plans and plaintexts, so that these are not counted."""
    null = parameters_of(set_name)._core.on_device("null")
    secret = ckks.SecretKey(_core.ckks.SecretKey.generate(null))
    at = Party(secret, hg.Server(secret.evaluation_keys(bootstrap=True)), 0)
    ckks.bootstrap(encrypted(at, FORMS["real-x1"], np.zeros(secret.parameters.slots)))
    return at


def products(set_name: str, form: str) -> int:
    """Returns the modular products of a call, counted by the null device."""
    at, called = _counting(set_name), FORMS[form]
    x = encrypted(at, called, values(at.secret.parameters, called, np.random.default_rng(1)))
    at.secret.parameters._core.reset_counts()
    called.run(x)
    return sum(int(count["products"]) for count in at.secret.parameters._core.counts().values())


def precision(set_name: str, form: str, runs: int) -> dict[str, Any]:
    """Measures correct bits of real and imaginary parts, over all slots of at least `runs` ciphertexts with different
    values. The function returns three numbers of bits: for the mean error, for the root mean square error, and for the
    largest error. Promised bits are None for complex values, whose bound is only asserted."""
    at, called = party(set_name), FORMS[form]
    total = squares = largest = 0.0
    count, calls = 0, math.ceil(runs / called.items)
    promised = None
    for run in range(calls):
        clear = values(at.secret.parameters, called, np.random.default_rng([2, run]))
        result = called.run(encrypted(at, called, clear))
        promised = result.precision
        off = np.atleast_1d(at.secret.decrypt(result) - clear)
        each = np.abs(np.concatenate([off.real.ravel(), off.imag.ravel()]) if called.complex else off.ravel())
        total, squares, largest = total + each.sum(), squares + (each**2).sum(), max(largest, float(each.max()))
        count += each.size
    return {
        "ciphertexts": calls * called.items,
        "mean_bits": round(-math.log2(total / count), 2),
        "root_mean_square_bits": round(-math.log2(squares / count) / 2, 2),
        "worst_bits": round(-math.log2(largest), 2),
        "promised_bits": promised,
    }


def figures(name: str, runs: int) -> dict[str, Any]:
    """Returns sizes and precision of a case. In a file, a seed replaces one half of each key."""
    set_name, form = parts_of(name)
    at = party(set_name)
    size = at.server.keys.nbytes
    found: dict[str, Any] = {"keys_bytes": size, "keys_file_bytes": size // 2, "keys_s": round(at.keys_s, 2)}
    if FORMS[form].bootstraps:
        found["precision"] = precision(set_name, form, runs)
    return found | {"peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)}
