"""Cases on a GPU. A case returns a call whose result is a tensor; the caller that times it waits for that tensor.

`asked` are target times and `floor` floors computed by hand, both in seconds. A case without such a floor has one from
counts: bytes of operands, result and keys at the copy rate; for 50-bit primes, whose product rate the device can measure,
also products at that rate.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.cases import bootstrap as bootstrap_cases
from benchmarks.cases import ckks as ckks_cases
from benchmarks.cases import cores as cases
from benchmarks.cases import operands
from benchmarks.cases.cores import Rates, describe
from heliograph import _core, ckks, nn

STEPS = list(range(1, 9))
Operands = tuple[hg.Tensor, ...]


@dataclass
class Ready:
    """A prepared case: the call to time, and its data."""

    run: Callable[[], hg.Tensor]
    parameters: dict[str, Any]
    bytes: int = 0  #: bytes of operands, result and keys, each counted once
    products: int | Callable[[], int] = 0  #: modular products, or a function that counts them if counting takes long
    layers: Callable[[], dict[str, float]] | None = None


@dataclass(frozen=True)
class Case:
    """A declared case of the GPU benchmark."""

    what: str
    prepare: Callable[[], Ready]
    items: int = 1
    asked: float | None = None
    floor: float | None = None
    runs: int | None = None  #: timed calls after a first one, for calls of seconds; None: as many as the time allows


CASES: dict[str, Case] = {}


def floor_of(case: Case, ready: Ready, rates: Rates) -> tuple[float | None, str]:
    """Returns the floor in seconds, and its origin."""
    if case.floor is not None:
        return case.floor, "by hand"
    floors = {}
    if rates["copy_bytes_s"]:
        floors["bytes"] = ready.bytes / rates["copy_bytes_s"]
    if rates["products_s"]:
        products = ready.products if isinstance(ready.products, int) else ready.products()
        floors["products"] = products / rates["products_s"]
    if not any(floors.values()):
        return None, ""
    name = max(floors, key=lambda key: floors[key])
    return floors[name], name


#: Rates of an H200, for runs that measure no rates.
UNKNOWN: Rates = {"copy_bytes_s": 0.0, "products_s": 0.0}


def ceilings() -> Rates:
    """Returns the copy rate (bytes read plus written, far beyond caches) and the product rate of the whole device."""
    secret, server = _parties("hvmul-2020")
    few = server.bind(secret.encrypt(np.ones((8, server.parameters.n), np.int64), coefficients=-1))
    many = hg.concatenate([few] * (16 if _core.device.name() == "cuda" else 2))
    other = -many
    size = many.nbytes
    # The copy rate is that of the fastest operation that only moves words, because the copy kernel may not be the fastest.
    moved = {"negate": (2 * size, lambda: -many), "add": (3 * size, lambda: many + other)}
    moved["copy"] = (4 * size, lambda: hg.concatenate([many, other]))
    rates = {}
    for name, (count, call) in moved.items():
        times = [_timed(call) for _ in range(12)]
        rates[name] = count / statistics.median(times[2:])
    threads = int(os.environ.get("HELIOGRAPH_THREADS", "1")) if _core.device.name() == "cpu" else 1
    return {"copy_bytes_s": max(rates.values()), "products_s": threads * _core.device.product_ceiling()} | {
        f"{name}_bytes_s": rate for name, rate in rates.items()
    }


def _timed(call: Callable[[], hg.Tensor]) -> float:
    start = time.perf_counter()
    call().wait()
    return time.perf_counter() - start


# Operations

#: Parameter sets that have a name in this file and no name in the library.
SETS: dict[str, dict[str, Any]] = {"hvmul-2^16": {"n": 1 << 16, "log_q": 1200, "special": 8, "plain_modulus": 2}}


def parameters_of(set_name: str) -> hg.bfv.Parameters:
    """Returns a named set, or one of `SETS`."""
    return hg.bfv.parameters(**SETS[set_name]) if set_name in SETS else cases.parameters_of(set_name)


@lru_cache(maxsize=1)  # keeps one set only: cases of a set are consecutive, and two sets may not fit the memory together
def _parties(set_name: str) -> tuple[hg.SecretKey, hg.Server]:
    p = parameters_of(set_name)
    secret = hg.SecretKey.generate(p)
    keys = secret.evaluation_keys(relinearize=True, rotations=STEPS if p.has_slots else [])
    return secret, hg.Server(keys)


@lru_cache(maxsize=2)
def _operands(set_name: str, items: int) -> Operands:
    return operands.bits(*_parties(set_name), *([items] if items > 1 else []))


@dataclass(frozen=True)
class Operation:
    """A call on operands made from two tensors, and the number of switching keys that the call reads."""

    what: str
    run: Callable[..., hg.Tensor]
    operands: Callable[[hg.Tensor, hg.Tensor], Operands] = field(default=lambda a, b: (a, b))
    keys: int = 1


OPERATIONS = {
    "add": Operation("addition", lambda a, b: a + b, keys=0),
    "multiply": Operation("multiply + relinearize", lambda a, b: hg.relinearize(hg.multiply(a, b))),
    "square": Operation("square + relinearize", lambda a: hg.relinearize(hg.square(a)), lambda a, b: (a,)),
    "relinearize": Operation("relinearize alone", hg.relinearize, lambda a, b: (a * b,)),
    "rotate": Operation("one rotation", lambda a: hg.rotate_rows(a, 1), lambda a, b: (a,)),
    "rotate8": Operation("eight hoisted rotations", lambda a: hg.rotate_rows(a, STEPS), lambda a, b: (a,), keys=8),
}


@cache
def _products(set_name: str, name: str) -> int:
    """Returns the modular products of one item, counted by the null device."""
    p = parameters_of(set_name)
    null = p._core.on_device("null")
    secret = hg.SecretKey(_core.exact.SecretKey.generate(null))
    server = hg.Server(secret.evaluation_keys(relinearize=True, rotations=STEPS if p.has_slots else []))
    operation = OPERATIONS[name]
    called = operation.operands(*operands.bits(secret, server))
    null.reset_counts()
    operation.run(*called)
    return sum(int(count["products"]) for count in null.counts().values())


def _prepare(set_name: str, name: str, items: int) -> Ready:
    operation = OPERATIONS[name]
    called = operation.operands(*_operands(set_name, items))
    p = called[0].parameters
    result = operation.run(*called)
    result.wait()
    moved = sum(x.nbytes for x in called) + result.nbytes + operation.keys * p.switch_key_bytes
    products = items * _products(set_name, name) if p.word_size == 64 else 0
    return Ready(lambda: operation.run(*called), describe(p) | {"items": items}, moved, products)


def operation(
    name: str,
    set_name: str,
    ring: str,
    items: int = 1,
    *,
    title: str = "",
    asked: float | None = None,
    floor: float | None = None,
    prefix: str = "",
) -> None:
    """Declares an operation on a set, on one ciphertext or on many in one call. Targets and floors are per ciphertext."""
    edition = "w32" if set_name.endswith("/w32") else "w64"
    words = title or OPERATIONS[name].what + (f", {items} in one call" if items > 1 else "")
    CASES[f"{prefix}{title.split(':')[0].lower() if title else name}-{ring.split(',')[0][2:]}-x{items}-{edition}"] = Case(
        f"{words}, {ring}, {edition}",
        lambda: _prepare(set_name, name, items),
        items,
        asked * items if asked else None,
        floor * items if floor else None,
    )


# Target seconds per ciphertext, alone and in a batch, and the floor with 30-bit primes.
ASKED = {"2^15": (320e-6, 150e-6), "2^14": (100e-6, 40e-6)}
FLOOR_W32 = {"2^15": 82e-6, "2^14": 25e-6}
HVADD_FLOOR_W32, HVADD_ASKED_W32 = 1.83e-3, 1.25 * 1.83e-3
HVMUL_FLOOR_W32, HVMUL_ASKED = 20e-3, 38e-3


def _declare(set_name: str, ring: str, batch: int, names: tuple[str, ...]) -> None:
    size, narrow = ring.split(",")[0][2:], set_name.endswith("/w32")
    for name in names:
        known = name == "multiply"
        for items, asked in zip((1, batch), ASKED[size], strict=True):
            operation(
                name,
                set_name,
                ring,
                items,
                asked=asked if known else None,
                floor=FLOOR_W32[size] if known and narrow else None,
            )


for _edition in ("", "/w32"):
    _ring = "N=2^15, log q 600"
    _declare("hvmul-2020" + _edition, _ring, 16, ("add", "multiply", "square", "relinearize"))
    operation(
        "add", "hvmul-2020" + _edition, _ring, 500, title="HVAdd: 500 additions in one call",
        asked=HVADD_ASKED_W32 / 500 if _edition else None, floor=HVADD_FLOOR_W32 / 500 if _edition else None,
    )  # fmt: skip
    operation(
        "multiply", "hvmul-2020" + _edition, _ring, 250, title="HVMul: 250 multiply + relinearize in one call",
        asked=HVMUL_ASKED / 250, floor=HVMUL_FLOOR_W32 / 250 if _edition else None,
    )  # fmt: skip
for _edition in ("", "/w32"):
    _declare("hcnn5-2020" + _edition, "N=2^14, log q 330", 64, tuple(OPERATIONS))
for _items in (1, 16):
    operation("multiply", "hvmul-2^16", "N=2^16, log q 1200", _items)


for _bits, _ring, _batch, _asked in (
    (15, "N=2^15, 11 limbs", 16, (140e-6, 60e-6)),
    (14, "N=2^14, 6 limbs", 64, (80e-6, 30e-6)),
):
    for _items, _figure in zip((1, _batch), _asked, strict=True):
        operation("multiply", f"bgv-n{_bits}", f"{_ring}, BGV", _items, asked=_figure, prefix="bgv-")

# CKKS


def _approximate(set_name: str, name: str, items: int) -> Ready:
    _operands.cache_clear()
    _parties.cache_clear()
    called = ckks_cases.OPERATIONS[name]
    operands = called.operands(*ckks_cases.pair(set_name, items))
    p = operands[0].parameters
    result = called.run(*operands)
    result.wait()
    moved = sum(x.nbytes for x in operands) + result.nbytes + called.keys * p.switch_key_bytes
    products = items * sum(ckks_cases.counts(set_name, name).values()) if p.word_size == 64 else 0
    return Ready(lambda: called.run(*operands), ckks_cases.describe(p) | {"items": items}, moved, products)


def _slice(set_name: str, items: int, whole: int) -> Ready:
    """Prepares a product of the first `items` items of two tensors."""
    _operands.cache_clear()
    _parties.cache_clear()
    a, b = ckks_cases.pair(set_name, whole)
    p = a.parameters
    result = a[:items] * b[:items]
    result.wait()
    moved = (a.nbytes + b.nbytes) * items // whole + result.nbytes + p.switch_key_bytes
    products = items * sum(ckks_cases.counts(set_name, "rescaled").values())
    return Ready(lambda: a[:items] * b[:items], ckks_cases.describe(p) | {"items": items, "of": whole}, moved, products)


# target seconds of one ciphertext alone, and per ciphertext of a batch
ASKED_CKKS = {"rescaled": (330e-6, 250e-6), "rotate": (310e-6, 235e-6)}
for _edition in ("", "/w32"):
    for _name in ckks_cases.OPERATIONS:
        for _place, _items in enumerate((1, 16)):
            _limits = ASKED_CKKS.get(_name)
            _many = f", {_items} in one call" if _items > 1 else ""
            CASES[f"ckks-{_name}-2^16-x{_items}-{_edition[1:] or 'w64'}"] = Case(
                f"CKKS {ckks_cases.OPERATIONS[_name].what}{_many}, N=2^16, log QP 1740 or more, four digits, {_edition[1:] or 'w64'}",
                partial(_approximate, "n16-l28" + _edition, _name, _items),
                _items,
                _limits[_place] * _items if _limits else None,
            )


CASES["ckks-slice-2^16-x8-w64"] = Case(
    "CKKS multiply + relinearize + rescale, the first 8 of 64 as a slice, N=2^16, log QP 1740 or more, four digits, w64",
    partial(_slice, "n16-l28", 8, 64),
    8,
)


@lru_cache(maxsize=1)
def _matrix_party(set_name: str) -> tuple[ckks.SecretKey, hg.Server]:
    secret = ckks.SecretKey.generate(ckks.parameters(set_name))
    rotations = ckks_cases.matrix(secret.parameters, 2).rotations
    return secret, hg.Server(secret.evaluation_keys(relinearize=False, rotations=rotations))


def _matrix(set_name: str, level: int) -> Ready:
    ckks_cases.pair.cache_clear()
    ckks_cases.parties.cache_clear()
    secret, server = _matrix_party(set_name)
    p = secret.parameters
    transform = ckks_cases.matrix(p, level)
    values = np.tile(np.random.default_rng(9).uniform(-1, 1, 64), p.slots // 64)
    x = ckks.lower(server.bind(secret.encrypt(values)), level)
    described = ckks_cases.describe(p) | {"level": level, "rotations": len(transform.rotations)}
    moved = ckks_cases.matrix_bytes(transform)
    return Ready(lambda: transform(x), described, moved, ckks_cases.matrix_products(set_name, level))


for _level, _limit in ((27, 3.0e-3), (19, 2.1e-3), (11, 1.4e-3)):
    CASES[f"ckks-matrix63-2^16-l{_level}-w64"] = Case(
        f"CKKS matrix on slots of 63 diagonals, N=2^16, at level {_level} of 28, w64",
        partial(_matrix, "n16-l28", _level),
        asked=_limit,
    )


# Bootstrapping: cases of any set, made on demand, so that a run of all cases does not make gigabytes of keys


def _bootstrap(set_name: str, form: str) -> Ready:
    for held in (_operands, _parties, ckks_cases.pair, ckks_cases.parties, bootstrap_cases.operand):
        held.cache_clear()
    x, called = bootstrap_cases.operand(set_name, form), bootstrap_cases.FORMS[form]
    result = called.run(x)
    result.wait()
    keys = bootstrap_cases.party(set_name).server.keys
    moved = x.nbytes + result.nbytes + (keys.nbytes if called.bootstraps else keys.parameters.switch_key_bytes)
    described = bootstrap_cases.describe(set_name) | {"items": called.items}
    return Ready(lambda: called.run(x), described, moved, lambda: bootstrap_cases.products(set_name, form))


def case_of(name: str) -> Case:
    """Returns a declared case, or one of `bootstrap_cases`."""
    if name in CASES:
        return CASES[name]
    set_name, form = bootstrap_cases.parts_of(name)
    called = bootstrap_cases.FORMS[form]
    asked = bootstrap_cases.ASKED.get(set_name, {}).get(form)
    return Case(f"CKKS {called.what}, {set_name}", partial(_bootstrap, set_name, form), called.items, asked)


# Networks


def _layers(network: nn.Network, x: hg.Tensor) -> dict[str, float]:
    """Returns the seconds of each layer, with a wait after it: medians of five runs. Because of the waits, their sum exceeds
    the time of the complete evaluation.
    """
    times: dict[str, list[float]] = {}

    def step(name: str, call: Callable[[], hg.Tensor]) -> hg.Tensor:
        start = time.perf_counter()
        result = call()
        result.wait()
        times.setdefault(name, []).append(time.perf_counter() - start)
        return result

    for _ in range(5):
        h = x
        for index, layer in enumerate(network.layers):
            if index:
                h = step(f"square before {layer.name}", partial(hg.square, h))
                if network.relinearizes_before(index):
                    h = step(f"relinearize before {layer.name}", partial(hg.relinearize, h))
            h = step(layer.name, partial(layer.apply, h))
            if h.degree == 2:
                h = step(f"relinearize after {layer.name}", partial(hg.relinearize, h))
        step("shrink", partial(hg.shrink, h))
    return {name: statistics.median(found) for name, found in times.items()}


def _network(set_name: str, setup_name: str = "hcnn5") -> Ready:
    """Prepares the evaluation of one full batch of images, one per slot, with keys and encrypted images on the device."""
    _parties.cache_clear()
    _operands.cache_clear()
    setup = nn.setup(setup_name)
    network = setup.load()
    p = hg.bfv.parameters(set_name)
    images = np.random.default_rng(5).integers(0, 256, (p.slots, 28, 28), dtype=np.uint8)
    secret = hg.SecretKey.generate(p)
    server = hg.Server(secret.evaluation_keys(**setup.keys()))
    x = server.bind(secret.encrypt(network.arrange(images), slots=-1))
    y = network.evaluate(x)
    y.wait()
    return Ready(
        lambda: network.evaluate(x),
        describe(p) | {"images": p.slots, "products": vars(network.counts())},
        x.nbytes + y.nbytes + p.switch_key_bytes,
        0,  # no floor from counts, because layers multiply by small weights at another rate
        lambda: _layers(network, x),
    )


def _colours(set_name: str, moduli: int) -> Ready:
    """Prepares one full batch of colour images through HCNN-11, for the first `moduli` plaintext moduli, one after the other."""
    _parties.cache_clear()
    _operands.cache_clear()
    setup = nn.setup("hcnn11")  # raises ParameterError without the weights
    network = setup.load()
    p = hg.bfv.parameters(set_name, insecure=True)  # the results file states this set's security
    images = np.random.default_rng(5).integers(0, 256, (p.slots, *network.image), dtype=np.uint8)
    values = np.ascontiguousarray(network.arrange(images))
    secret = hg.SecretKey.generate(p)
    server = hg.Server(secret.evaluation_keys(**setup.keys()))
    parts = [server.bind(secret.encrypt(values, slots=-1, moduli=range(k, k + 1))) for k in range(moduli)]
    del values
    return Ready(
        lambda: network.evaluate_moduli(iter(parts)),
        describe(p) | {"images": p.slots, "moduli": moduli, "products": vars(network.counts())},  # this case has no floor
    )


def _digit(setup_name: str, side: int) -> Ready:
    run, p, size = cases.digit(setup_name, side)
    return Ready(run, describe(p), size)


for _edition in ("", "/w32"):
    CASES[f"hcnn5-2020{'-w32' if _edition else '-w64'}"] = Case(
        f"HCNN-5, 16,384 images in one batch at hcnn5-2020, evaluation, {_edition[1:] or 'w64'}",
        partial(_network, "hcnn5-2020" + _edition),
        16384,
        0.12,
        0.030,
    )
CASES["hcnn5-paper-w64"] = Case(
    "HCNN-5 of 46,000 products, 16,384 images in one batch at hcnn5-2020, evaluation, w64",
    lambda: _network("hcnn5-2020", "hcnn5-paper"),
    16384,
)
for _set in ("hcnn11-2020", "hcnn11"):
    for _name, _moduli, _runs in (("one", 1, 3), ("all", 10, 1)):
        CASES[f"{_set}-{_name}-w64"] = Case(
            f"HCNN-11, 8,192 images in one batch at {_set}, evaluation for {_name} of 10 plaintext moduli, w64",
            partial(_colours, _set, _moduli),
            8192,
            runs=_runs,
        )
CASES["digit-8x8"] = Case("one 8x8 digit at low latency, w64", lambda: _digit("digits", 8))
CASES["digit-28x28"] = Case("one 28x28 digit at low latency, w64", lambda: _digit("mnist-packed", 28), asked=0.020)

#: Single kernels: target rate in limbs per second, and floor if known.
KERNELS: dict[str, tuple[float, float | None]] = {
    "batched ntt 2^16, 30 bits": (2.8e6, 4.1e6),
    "batched ntt 2^15, 50 bits": (2.0e6, None),
}
