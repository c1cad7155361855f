"""Cases on cores. A case prepares its operands once and returns a function to time."""

from __future__ import annotations

import importlib.util
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.cases import ckks as ckks_cases
from benchmarks.cases import operands
from heliograph import _core, nn

Rates = dict[str, float]


@dataclass
class Prepared:
    """A prepared case: the call to time, and its data."""

    run: Callable[[], Any]
    parameters: dict[str, Any] = field(default_factory=dict)
    floor: Callable[[Rates], float] | None = None
    extra: Callable[[], dict[str, Any]] | None = None


@dataclass(frozen=True)
class Case:
    """A case that can be prepared. `asked` is the target time in seconds."""

    what: str
    prepare: Callable[[], Prepared]
    threads: tuple[int, ...] = (1, 2)
    asked: float | None = None
    runs: int = 5
    missing: Callable[[], str] = lambda: ""


CASES: dict[str, Case] = {}


def ceilings() -> Rates:
    """Returns the copy rate (bytes read plus written) beyond the caches, and the rate of the NTT's Shoup products, on all threads."""
    a = np.random.default_rng(1).integers(0, 1 << 60, 1 << 24, dtype=np.uint64)
    b = np.empty_like(a)
    copies = []
    for _ in range(7):
        start = time.perf_counter()
        np.copyto(b, a)
        copies.append(time.perf_counter() - start)
    threads = int(os.environ.get("HELIOGRAPH_THREADS", "1"))
    # NumPy copies with one thread, although two cores of one chip reach slightly more memory bandwidth.
    return {
        "copy_bytes_s": 2 * a.nbytes / sorted(copies)[3],
        "products_s": threads * _core.device.product_ceiling(),
        "sums_s": threads * _core.device.sum_ceiling(),
    }


def parameters_of(set_name: str) -> hg.bfv.Parameters:
    """Returns a named set of BFV or BGV."""
    return hg.bgv.parameters(set_name) if set_name.startswith("bgv") else hg.bfv.parameters(set_name)


def describe(p: hg.bfv.Parameters) -> dict[str, Any]:
    """Returns a set's parameters for the results file."""
    return {
        "name": p.name,
        "n": p.n,
        "log_q": round(p.log_q, 2),
        "log_qp": round(p.log_qp, 2),
        "edition": f"w{p.word_size}",
        "security": p.security,
        "plain_moduli": p.plain_moduli,
        "levels": p.levels,
    }


def counted(p: hg.bfv.Parameters, shape: tuple[int, ...], function: Callable[[hg.Tensor], Any]) -> Callable[[Rates], float]:
    """Returns the floor of `function` on a tensor of the given shape, from the null device's counts."""
    null = p._core.on_device("null")
    secret = hg.SecretKey(_core.exact.SecretKey.generate(null))
    keys = secret.evaluation_keys(relinearize=True, rotations=[1, 2, 4, 8] if p.has_slots else [])
    x = hg.Server(keys).bind(
        secret.encrypt(np.zeros((*shape, 1), np.int64), coefficients=-1, pad=True)
        if not p.has_slots
        else secret.encrypt(np.zeros((*shape, 1), np.int64), pad=True)
    )
    null.reset_counts()
    function(x)
    counts = null.counts()
    butterflies = sum(c["products"] for name, c in counts.items() if name.endswith("_ntt"))
    # Products by small weights use 16-bit digits and run twice as fast as the measured products.
    small = counts.get("product", {}).get("products", 0)
    sums = sum(c["products"] for c in counts.values()) - butterflies - small / 2
    # The floor counts each operand and result once; scratch data between kernels may stay in caches.
    size = x.nbytes + (x.nbytes if len(shape) else 0)
    return lambda rates: max(butterflies / rates["products_s"] + sums / rates["sums_s"], size / rates["copy_bytes_s"])


def tensors(p: hg.bfv.Parameters, shape: tuple[int, ...]) -> tuple[hg.Tensor, hg.Tensor]:
    """Returns two encrypted random tensors bound to keys."""
    secret = hg.SecretKey.generate(p)
    server = hg.Server(secret.evaluation_keys(relinearize=True, rotations=[1, 2, 4, 8] if p.has_slots else []))
    return operands.bits(secret, server, *shape)


def operation(
    name: str, set_name: str, what: str, function: Callable[..., Any], shape: tuple[int, ...] = (), **options: Any
) -> None:
    """Declares a case of one operation on tensors of one shape."""

    def prepare() -> Prepared:
        p = parameters_of(set_name)
        a, b = tensors(p, shape)
        return Prepared(
            lambda: function(a, b), describe(p) | {"batch": list(shape)}, counted(p, shape, lambda x: function(x, x[...]))
        )

    CASES[name] = Case(what, prepare, **options)


def _copy() -> Prepared:
    p = hg.bfv.parameters("hvmul-2020")
    source = np.random.default_rng(3).integers(0, 1 << 50, p.ciphertext_bytes() // 8, dtype=np.uint64)
    target = np.empty_like(source)
    return Prepared(lambda: np.copyto(target, source), {"bytes": source.nbytes})


def product(a: hg.Tensor, b: hg.Tensor) -> hg.Tensor:
    """Returns a product of degree one."""
    return hg.relinearize(a * b)


def _in_place(count: int) -> Prepared:
    """Times a += b and, in turns with it, a + b and copies of the same number of bytes. The C library's copy uses string
    instructions or non-temporal stores, depending on the size; `np.invert` loads and stores with an ordinary loop.

    """
    p = parameters_of("hvmul-2020")
    a, b = (x + 0 for x in tensors(p, (count,)))
    source = np.random.default_rng(3).integers(0, 1 << 50, a.nbytes // 8, dtype=np.uint64)
    target = np.zeros_like(source)

    def add() -> None:
        nonlocal a
        a += b

    def turns() -> dict[str, Any]:
        ways = {
            "in_place": add,
            "new": lambda: a + b,
            "copy": lambda: np.invert(source, out=target),
            "library_copy": lambda: np.copyto(target, source),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(100 if count > 1 else 1000):
            for name, way in ways.items():
                start = time.perf_counter()
                way()
                times[name].append(time.perf_counter() - start)
        over = {
            f"{name}_over_copy": statistics.median(t / c for t, c in zip(times[name], times["copy"], strict=True))
            for name in ("in_place", "new", "library_copy")
        }
        return over | {f"{name}_s": statistics.median(t) for name, t in times.items()} | {"rounds": len(times["copy"])}

    return Prepared(add, describe(p) | {"batch": [count], "bytes": a.nbytes}, extra=turns)


CASES["copy-2^15"] = Case("memory copy of one ciphertext (the addition's yardstick)", _copy, (1,), None)
operation("add-2^15", "hvmul-2020", "addition, N=2^15, log q 600", lambda a, b: a + b)
for _count in (1, 16, 40):
    CASES[f"add-in-place-2^15-{_count}"] = Case(
        f"addition in place of {_count} ciphertexts, N=2^15, log q 600; over a copy with ordinary stores, as is a new tensor",
        partial(_in_place, _count),
        (1,),
    )
operation("multiply-2^15", "hvmul-2020", "multiply + relinearize, N=2^15, log q 600, t=2", product, asked=0.050)
operation(
    "square-2^15", "hvmul-2020", "square + relinearize, N=2^15, log q 600, t=2", lambda a, b: hg.relinearize(hg.square(a))
)
operation("multiply-2^14", "hcnn5-2020", "multiply + relinearize, N=2^14, log q 330, 43-bit t", product, asked=0.012)
operation("rotate-2^14", "hcnn5-2020", "one rotation, N=2^14, log q 330", lambda a, b: hg.rotate_rows(a, 1))
operation(
    "rotate4-2^14", "hcnn5-2020", "four hoisted rotations, N=2^14, log q 330", lambda a, b: hg.rotate_rows(a, [1, 2, 4, 8])
)
operation("hvadd500-2^15", "hvmul-2020", "HVAdd: 500 additions in one call", lambda a, b: a + b, (500,), threads=(2,))
_many = "HVMul: 250 multiply + relinearize in one call"
operation("hvmul250-2^15", "hvmul-2020", _many, product, (250,), threads=(2,), asked=7.0, runs=3)
for _ring, _set in (("N=2^15, log q 600", "hvmul-2020/w32"), ("N=2^14, log q 330", "hcnn5-2020/w32")):
    operation(f"multiply-{_ring[2:6]}-w32", _set, f"multiply + relinearize, {_ring}, 30-bit primes", product)
for _bits, _ring, _asked in ((15, "N=2^15, 11 limbs", 14e-3), (14, "N=2^14, 6 limbs", 3.5e-3)):
    operation(
        f"bgv-multiply-2^{_bits}", f"bgv-n{_bits}", f"BGV multiply + relinearize, {_ring}, t=65537", product, asked=_asked
    )


def _approximate(set_name: str, name: str) -> Prepared:
    """Prepares an operation of CKKS on two ciphertexts."""
    called = ckks_cases.OPERATIONS[name]
    operands = called.operands(*ckks_cases.pair(set_name, 1))
    p = operands[0].parameters
    size = sum(x.nbytes for x in operands) + called.keys * p.switch_key_bytes
    made = ckks_cases.counts(set_name, name)

    def floor(rates: Rates) -> float:
        products = made["butterflies"] / rates["products_s"] + made["sums"] / rates["sums_s"]
        return max(products, size / rates["copy_bytes_s"])

    return Prepared(lambda: called.run(*operands), ckks_cases.describe(p), floor)


for _set, _ring, _figures in (
    ("n16-l24", "N=2^16, 24 limbs", (90e-3, None, 11e-3, 85e-3, None)),
    ("n15-l20", "N=2^15, 20 limbs", (35e-3, None, 3.5e-3, 33e-3, None)),
):
    for _name, _asked in zip(("multiply", "rescaled", "rescale", "rotate", "rotate8"), _figures, strict=True):
        CASES[f"ckks-{_name}-{_ring.split(',')[0][2:]}"] = Case(
            f"CKKS {ckks_cases.OPERATIONS[_name].what}, {_ring}", partial(_approximate, _set, _name), asked=_asked
        )


def _network(setup_name: str, set_name: str | None) -> Prepared:
    """Prepares the evaluation of one full batch of images, one per slot. Keys and encrypted images are ready."""
    setup = nn.setup(setup_name)
    p = hg.bfv.parameters(set_name) if set_name else setup.parameters()
    network = setup.load()
    images = np.random.default_rng(5).integers(0, 256, (p.slots, 28, 28), dtype=np.uint8)
    secret = hg.SecretKey.generate(p)
    server = hg.Server(secret.evaluation_keys(**setup.keys()))
    held = [server.bind(secret.encrypt(network.arrange(images), slots=-1))]
    return Prepared(
        lambda: network.evaluate(held[0]),
        describe(p) | {"images": p.slots, "products": vars(network.counts())},
        counted(p, held[0].shape, network.evaluate),
        lambda: {"peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)},
    )


def digit(setup_name: str, side: int) -> tuple[Callable[[], Any], hg.bfv.Parameters, int]:
    """Returns the evaluation of one image packed in the slots, its parameters, and the bytes of image and keys."""
    setup = nn.setup(setup_name)
    p = setup.parameters()
    layout = setup.layout()
    image = np.random.default_rng(6).integers(0, 256 if side == 28 else 17, (side, side), dtype=np.uint8)
    secret = hg.SecretKey.generate(p)
    server = hg.Server(secret.evaluation_keys(**setup.keys()))
    x = server.bind(secret.encrypt(layout.pack(image)))
    ready = layout.server(p)
    return lambda: ready.run(x), p, x.nbytes + server.keys.nbytes


def _digit(setup_name: str, side: int) -> Prepared:
    run, p, _ = digit(setup_name, side)
    return Prepared(run, describe(p))


CASES["hcnn5-2020"] = Case(
    "HCNN-5, 16,384 images in one batch at hcnn5-2020, evaluation", lambda: _network("hcnn5", "hcnn5-2020"), (2,), 11.77, 3
)
CASES["hcnn5"] = Case(
    "HCNN-5, 8,192 images in one batch at hcnn5, evaluation", lambda: _network("hcnn5", None), (2,), None, 3
)
CASES["hcnn5-paper"] = Case(
    "HCNN-5 of 46,000 products, 16,384 images at hcnn5-2020", lambda: _network("hcnn5-paper", "hcnn5-2020"), (2,), 11.77, 3
)
CASES["digit-8x8"] = Case("one 8x8 digit at low latency", lambda: _digit("digits", 8), (1, 2), 0.1)
CASES["digit-28x28"] = Case("one 28x28 digit at low latency", lambda: _digit("mnist-packed", 28), (1, 2), 1.0)


def _import() -> Prepared:
    def run() -> None:
        subprocess.run([sys.executable, "-c", "import heliograph"], check=True)

    return Prepared(run)


CASES["import"] = Case("import heliograph, in a new process", _import, (1,), 0.3)


def _tenseal(n: int, bits: list[int], t: int) -> Prepared:
    import tenseal as ts

    context = ts.context(ts.SCHEME_TYPE.BFV, poly_modulus_degree=n, plain_modulus=t, coeff_mod_bit_sizes=bits)
    a, b = ts.bfv_vector(context, [1, 2, 3]), ts.bfv_vector(context, [4, 5, 6])
    return Prepared(lambda: a * b, {"n": n, "bits": bits, "t": t, "peer": f"tenseal {ts.__version__}"})


def _no_tenseal() -> str:
    return "" if importlib.util.find_spec("tenseal") else "tenseal is not installed"


def _tenseal_ckks(n: int, bits: list[int]) -> Prepared:
    import tenseal as ts

    context = ts.context(ts.SCHEME_TYPE.CKKS, poly_modulus_degree=n, coeff_mod_bit_sizes=bits)
    context.global_scale = 2.0 ** bits[1]
    context.auto_rescale = False
    a, b = (ts.ckks_vector(context, [0.5] * (n // 2)) for _ in range(2))
    return Prepared(lambda: a * b, {"n": n, "bits": bits, "peer": f"tenseal {ts.__version__}"})


CASES["peer-tenseal-ckks-2^15"] = Case(
    "peer: tenseal (SEAL without HEXL) CKKS multiply + relinearize, N=2^15, 20 limbs",
    lambda: _tenseal_ckks(1 << 15, [60] + [40] * 19 + [60]),
    (1,),
    None,
    5,
    _no_tenseal,
)
CASES["peer-tenseal-2^14"] = Case(
    "peer: tenseal (SEAL without HEXL) multiply + relinearize, N=2^14, log q 330",
    lambda: _tenseal(1 << 14, [55] * 6 + [60], 65537),
    (1,),
    None,
    5,
    _no_tenseal,
)
CASES["peer-tenseal-2^15"] = Case(
    "peer: tenseal (SEAL without HEXL) multiply + relinearize, N=2^15, log q 600",
    lambda: _tenseal(1 << 15, [60] * 11, 786433),
    (1,),
    None,
    5,
    _no_tenseal,
)
