"""Functions of ciphertext tensors as they are and as recorded programs, in one run.

    python benchmarks/programs.py --out benchmarks/results/mine-programs.json
    HELIOGRAPH_DEVICE=cuda:0,cuda:1 python benchmarks/programs.py --only ten,branches --out benchmarks/results/two-programs.json

Each case is timed in turns, function and program, in one process: a call and the wait for it, and what the call alone takes
the host. Both results are compared bit by bit.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import cases
import ckks_cases
import mesh
import numpy as np
import run as runner

import heliograph as hg
from heliograph import _core, ckks

Function = Callable[..., Any]


@cache
def _pair(scheme: str, set_name: str) -> tuple[Any, Any]:
    """Two ciphertexts at a server, transformed."""
    params = {"ckks": ckks, "bgv": hg.bgv, "bfv": hg.bfv}[scheme].parameters(set_name)
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys(rotations=[1]))
    rng = np.random.default_rng(7)
    one = (lambda: rng.uniform(-1, 1, params.slots)) if scheme == "ckks" else (lambda: rng.integers(0, 2, params.slots))
    x, y = (server.bind(secret.encrypt(one())) for _ in range(2))
    return x + 0, y + 0


def _switched(x: Any, y: Any) -> Any:
    """BGV's product and relinearization at the level that they have."""
    core, keys = _core.multiply(x._core, y._core, x._keys._core), x._keys
    return type(x)(_core.relinearize(core, keys._core), keys)


def chain(x: Any, y: Any) -> Any:
    """Twenty products, one after the other."""
    for _ in range(20):
        x = _switched(x, y)
    return x


def sums(x: Any, y: Any) -> Any:
    """Ten additions, one after the other."""
    for _ in range(10):
        x = x + y
    return x


def branches(x: Any, y: Any) -> Any:
    """Two independent chains of four products each."""
    a, b = x, y
    for _ in range(4):
        a, b = a * x, b * y
    return a, b


def ten(x: Any, y: Any) -> Any:
    """Two independent chains of ten products each."""
    a, b = x, y
    for _ in range(10):
        a, b = a * x, b * y
    return a, b


#: Words, scheme and set, function.
CASES: dict[str, tuple[str, str, str, Function]] = {
    "chain-bgv-2^14": ("20 BGV multiplications + relinearizations in a chain, N=2^14", "bgv", "bgv-n14", chain),
    "sums-ckks-2^14": ("10 CKKS additions in a chain, N=2^14", "ckks", "n14-l8", sums),
    "sums-ckks-2^16": ("10 CKKS additions in a chain, N=2^16", "ckks", "n16-l28", sums),
    "product-ckks-2^14": ("one CKKS product, N=2^14", "ckks", "n14-l8", lambda x, y: x * y),
    "product-ckks-2^16": ("one CKKS product, N=2^16", "ckks", "n16-l28", lambda x, y: x * y),
    "branches-ckks-2^14": ("two independent branches of four CKKS products, N=2^14", "ckks", "n14-l8", branches),
    "branches-ckks-2^15": ("two independent branches of four CKKS products, N=2^15", "ckks", "n15-l20", branches),
    "branches-ckks-2^16": ("two independent branches of four CKKS products, N=2^16", "ckks", "n16-l28", branches),
    "ten-ckks-2^16": ("two independent branches of ten CKKS products, N=2^16", "ckks", "n16-l28", ten),
}


def _parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def _times(function: Callable[[], Any], seconds: float) -> tuple[list[float], list[float]]:
    """Seconds of calls waited for, and of the calls alone."""
    waited, alone = [], []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(waited) < 5:
        start = time.perf_counter()
        result = function()
        alone.append(time.perf_counter() - start)
        for part in _parts(result):
            part.wait()
        waited.append(time.perf_counter() - start)
    return waited, alone


def measure(name: str, seconds: float) -> dict[str, Any]:
    """One case."""
    words, scheme, set_name, function = CASES[name]
    x, y = _pair(scheme, set_name)
    program = hg.program(function, x, y)
    for _ in range(3):  # what a device prepares for replays is there then
        same = all(a.to_bytes() == b.to_bytes() for a, b in zip(_parts(program(x, y)), _parts(function(x, y)), strict=True))
    if not same:
        raise SystemExit(f"{name}: a program gave other bits than its function")
    found: dict[str, tuple[list[float], list[float]]] = {"eager": ([], []), "program": ([], [])}
    for _ in range(3):
        for kind, call in (("eager", lambda: function(x, y)), ("program", lambda: program(x, y))):
            for to, of in zip(found[kind], _times(call, seconds / 6), strict=True):
                to += of
    (recorded,) = program._recorded.values()
    core = recorded.core
    describe = ckks_cases.describe if scheme == "ckks" else cases.describe
    return {
        "program": name,
        "what": words,
        "parameters": describe(x.parameters),
        "calls": sum(core.calls.values()),
        "depth": core.depth,
        "launches": core.launches,
        "graphs": bool(core.graphs),
        "floor_s": core.times[0] or None,
        "predicted_s": core.times[1] or None,
        "runs": len(found["eager"][0]),
        "eager_s": statistics.median(found["eager"][0]),
        "eager_host_s": statistics.median(found["eager"][1]),
        "program_s": statistics.median(found["program"][0]),
        "program_host_s": statistics.median(found["program"][1]),
    }


def line(row: dict[str, Any]) -> str:
    """For a person."""
    return (
        f"{row['what']:64s} {row['eager_s'] * 1e6:9.1f} us (host {row['eager_host_s'] * 1e6:7.1f})   "
        f"program {row['program_s'] * 1e6:9.1f} us (host {row['program_host_s'] * 1e6:7.1f})"
    )


def boards() -> dict[str, Any]:
    """The GPUs in use."""
    return mesh.boards().describe()


def main() -> None:
    """Measures, shows and writes."""
    runner.run_named("programs", __doc__, CASES, measure, line, seconds=1.5, more=boards)


if __name__ == "__main__":
    main()
