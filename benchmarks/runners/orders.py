"""Measures signs, comparisons and arguments of the maximum of CKKS values: by polynomials, by one functional bootstrap, by TFHE.

    python -m benchmarks.runners.orders --out benchmarks/results/mine-orders.jsonl
    HELIOGRAPH_DEVICE=cuda python -m benchmarks.runners.orders --only sign,argmax --out benchmarks/results/mine-orders.jsonl

Each case makes its keys, checks all results against clear ones, and takes the median of warm calls. --small takes insecure sets with
N = 2^11, to try the runner. --values limits the number of values of the comparison by TFHE, which takes minutes on few cores.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.runners import common

C = hg.ckks
Row = dict[str, Any]
Seconds = list[tuple[float, float]]
GROUPS, CHOICES = 3276, 10  # values per ciphertext and choices of argmax
COMPARED, BITS = 4096, 16  # values, and their bits, of the comparison by TFHE


@dataclass(frozen=True)
class Case:
    """A measured case. `asked` is the target in seconds on an H200, if there is one."""

    what: str
    set: str
    run: Callable[[Case, Given], Row]
    asked: float | None = None


@dataclass(frozen=True)
class Given:
    """Options of the run."""

    small: bool
    calls: int
    values: int


def _parameters(case: Case, given: Given) -> Any:
    if not given.small:
        return C.parameters(case.set)
    return C.parameters(n=2**11, depth=13, log_scale=45, bootstrap=True, insecure=True)


def _timed(call: Callable[[], Any], calls: int) -> tuple[Any, Seconds, int]:
    """Returns the last result, the seconds of all calls including the first, and the bootstraps of a call.

    Each call has wall-clock seconds and processor seconds of all threads; other programs disturb processor seconds less."""
    seconds = []
    for _ in range(calls + 1):
        with C.auto_bootstrap() as auto:
            start, cpu = time.perf_counter(), time.process_time()
            y = call()
            y.wait()
            seconds.append((time.perf_counter() - start, time.process_time() - cpu))
    return y, seconds, auto.count


def _row(y: Any, off: Any, seconds: Seconds, bootstraps: int | None, values: int, params: Any) -> Row:
    trusted, assumed = hg._core.ckks.error_bounds(y._core)
    most = float(np.max(off))
    return {
        "parameters": {"name": params.name or None, "n": params.n, "slots": params.slots, "security": params.security},
        "values": values,
        "log2_promised": math.log2(assumed if math.isnan(trusted) else trusted),
        "log2_largest": math.log2(most) if most else -math.inf,
        "bootstraps": bootstraps,
        "first_seconds": seconds[0][0],
        "seconds": statistics.median(clock for clock, _ in seconds[1:]),
        "slowest_seconds": max(seconds[1:])[0],
        "cpu_seconds": statistics.median(cpu for _, cpu in seconds[1:]),
        "calls": len(seconds) - 1,
    }


def _owner(params: Any, **more: Any) -> tuple[Any, Any]:
    secret = hg.SecretKey.generate(params)
    return secret, hg.Server(secret.evaluation_keys(bootstrap=True, **more))


def _sign(case: Case, given: Given, bits: int) -> Row:
    params = _parameters(case, given)
    secret, server = _owner(params)
    gap, error = (2.0**-8, 2.0**-10) if given.small else (2.0**-16, 2.0**-bits)
    v = np.random.default_rng(1).uniform(-1, 1, params.slots)
    v[:4] = gap, -gap, 1, -1
    x = server.bind(secret.encrypt(v, bound=1))
    y, seconds, count = _timed(lambda: C.sign(x, gap=gap, error=error), given.calls)
    off = np.abs(secret.decrypt(y) - np.sign(v))[np.abs(v) >= gap]
    return _row(y, off, seconds, count, params.slots, params)


def _sign_of_integers(case: Case, given: Given) -> Row:
    params = _parameters(case, given)
    secret, server = _owner(params)
    v = np.random.default_rng(1).integers(-128, 128, params.slots)
    v[:4] = 1, -1, 127, -128
    x = server.bind(secret.encrypt(v, bound=(-128, 127), level=params.bootstrapping_level))
    y, seconds, _ = _timed(lambda: C.sign(x, integers=True, method="bootstrap", error=2.0**-6), given.calls)
    return _row(y, np.abs(secret.decrypt(y) - np.sign(v)), seconds, 1, params.slots, params)


def _argmax(case: Case, given: Given) -> Row:
    groups = 8 if given.small else GROUPS
    choices = 3 if given.small else CHOICES
    params = _parameters(case, given)
    secret, server = _owner(params, rotations=C.block_rotations(groups, params.period))
    random = np.random.default_rng(1)
    v = random.permuted(np.tile(np.arange(256), (groups, 1)), axis=1)[:, :choices].T - 128  # distinct integers of 8 bits
    x = server.bind(secret.encrypt(v, pad=True, bound=(-128, 127)))
    y, seconds, count = _timed(lambda: C.argmax(x, 0, integers=True), given.calls)
    return _row(y, np.abs(secret.decrypt(y) - v.argmax(0)), seconds, count, groups, params)


def _by_tfhe(case: Case, given: Given) -> Row:
    values = 8 if given.small else given.values
    bits = 8 if given.small else BITS
    params = _parameters(case, given)
    tfhe = hg.tfhe.parameters("2_2")
    if given.small:
        params = C.parameters(n=2**11, depth=5, log_scale=39, slots=8, bootstrap=True, insecure=True)
        tfhe = hg.tfhe.parameters(
            n=32, k=1, degree=1024, lwe_noise=("gaussian", -22), glwe_noise=("gaussian", -40), bootstrap=(18, 1), switch=(4, 4),
            message_bits=2, carry_bits=2, norm=17, insecure=True,
        )  # fmt: skip
    ckks_secret, tfhe_secret = hg.SecretKey.generate(params), hg.SecretKey.generate(tfhe)
    server = hg.switching.Server(
        hg.switching.keys(ckks_secret, tfhe_secret),
        ckks_secret.evaluation_keys(bootstrap=True),
        tfhe_secret.evaluation_keys(),
    )
    most = 2 ** (bits - 1)
    v = np.random.default_rng(1).integers(-most, most, values)
    v[:3] = 0, 1, -1
    x = ckks_secret.encrypt(v / most, pad=True, bound=(-1, 1 - 1 / most))
    y, seconds, _ = _timed(lambda: server.to_ckks(server.compare(x, ">", bits=bits, unit=1 / most)), given.calls)
    return _row(y, np.abs(ckks_secret.decrypt(y)[:values] - (v > 0)), seconds, None, values, params)


CASES = {
    "sign": Case("sign, gap 2^-16, error 2^-20", "n16-b10-h", partial(_sign, bits=20)),
    "sign-w32": Case("sign, gap 2^-16, error 2^-15", "n16-b11/w32", partial(_sign, bits=15)),
    "sign-integers": Case("sign of integers of 8 bits, one functional bootstrap", "n16-b13", _sign_of_integers, 0.015),
    "sign-integers-h": Case("sign of integers of 8 bits, one functional bootstrap", "n16-b10-h", _sign_of_integers, 0.015),
    "argmax": Case("argmax of 10 integers of 8 bits in each group", "n16-b10-h", _argmax, 0.3),
    "tfhe": Case("exact comparison at 16 bits by TFHE and back", "n16-b13", _by_tfhe),
}


def main() -> None:
    """Measures, prints and writes each case."""
    given = common.parser(
        __doc__,
        only="",
        calls=3,
        values=(COMPARED, "number of values of the comparison by TFHE"),
        small=(False, "insecure sets with N = 2^11"),
    ).parse_args()
    prefixes = tuple(given.only.split(","))
    options = Given(given.small, given.calls, given.values)

    def show(row: Row) -> None:
        print(
            f"{row['case']:16} {row['set']:10} promised 2^{row['log2_promised']:.1f}, largest error 2^{row['log2_largest']:.1f}, "
            f"{row['values']:,} values, {row['bootstraps']} bootstraps, {row['seconds']:.3f} s, processor {row['cpu_seconds']:.3f} s",
            flush=True,
        )

    report = common.Rows(given.out, show, kind="orders", engine=common.engine(), load=common.load())
    for name, case in CASES.items():
        if not name.startswith(prefixes):
            continue
        row = case.run(case, options)
        report.add({"case": name, "what": case.what, "set": case.set, "asked": case.asked, "load": common.load(), **row})


if __name__ == "__main__":
    main()
