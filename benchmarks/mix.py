"""Operations in a mix, and memory over many rounds of it: what one operation repeated does not show.

    python benchmarks/mix.py --sets ckks:n16-l24 --rounds 30 --out benchmarks/results/mine-mix.json

Each operation is timed alone first, then once in every round, in a process that keeps all its operands. A device whose
memory does not serve one operation after another gets slower in the mix, or larger with every round. The bytes in use are
the process's own resident ones on cores and the GPU's on a GPU; page faults count what had to be cleared anew.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import nvml
import operands
import run as runner

import heliograph as hg
from heliograph import ckks

STEPS = [1, 2, 4, 8, 16, 32, 64, 128]
Operations = dict[str, Callable[[], Any]]


def ckks_operations(params: ckks.Parameters, items: int) -> Operations:
    """Products, rotations, sums and matrices of `items` ciphertexts."""
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys(rotations=STEPS))
    rng = np.random.default_rng(7)
    a, b = operands.reals(secret, server, items)
    return {
        "multiply": lambda: a * b,
        "rotate": lambda: ckks.rotate(a, 1),
        "rotate8": lambda: ckks.rotate(a, STEPS),
        "add": lambda: a + b,
        "multiply, then rescale": lambda: ckks.rescale(ckks.multiply(a, b, rescale=False)),
        "lower and multiply": lambda: ckks.lower(a, params.levels // 2) * b,
        "to bytes and back": lambda: server.from_bytes(ckks.lower(a, 2).to_bytes()),
        "encrypt": lambda: secret.encrypt(rng.uniform(-1, 1, (items, params.slots))),
    }


def exact_operations(params: Any, items: int) -> Operations:
    """Products, rotations, sums and matrices of `items` ciphertexts of BFV or BGV."""
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys(relinearize=True, rotations=STEPS))
    rng = np.random.default_rng(7)
    a, b = operands.bits(secret, server, items)
    weights = rng.integers(-50, 50, (2 * items, items))
    return {
        "multiply": lambda: hg.relinearize(a * b),
        "rotate": lambda: hg.rotate_rows(a, 1),
        "rotate8": lambda: hg.rotate_rows(a, STEPS),
        "add": lambda: a + b,
        "square": lambda: hg.square(a),
        "matrix": lambda: hg.matmul(weights, a),
        "to bytes and back": lambda: server.from_bytes(a.to_bytes()),
        "encrypt": lambda: secret.encrypt(rng.integers(0, 2, (items, params.n)), slots=-1),
    }


def operations_of(name: str, items: int) -> tuple[Any, Operations]:
    """A set as "scheme:name", and what is done with it."""
    scheme, _, which = name.partition(":")
    if scheme == "ckks":
        params = hg.ckks.parameters(which)
        return params, ckks_operations(params, items)
    params = {"bfv": hg.bfv, "bgv": hg.bgv}[scheme].parameters(which)
    return params, exact_operations(params, items)


def bytes_in_use() -> int:
    """Resident bytes of this process on cores; the first GPU's bytes in use otherwise."""
    if not hg.devices()[0].startswith("cpu") and (used := nvml.Gpus().used_bytes()) is not None:
        return used
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def timed(operation: Callable[[], Any]) -> float:
    """Seconds of one call and the wait for its result."""
    start = time.perf_counter()
    result = operation()
    if hasattr(result, "wait"):
        result.wait()
    return time.perf_counter() - start


def mix(operations: Operations, rounds: int, alone_runs: int = 9) -> dict[str, Any]:
    """Medians alone and in the mix, page faults of a call there, and bytes in use after each round."""
    alone = {}
    for name, operation in operations.items():
        timed(operation), timed(operation)
        alone[name] = statistics.median(timed(operation) for _ in range(alone_runs))
    mixed: dict[str, list[float]] = {name: [] for name in operations}
    faults: dict[str, list[int]] = {name: [] for name in operations}
    used = []
    for _ in range(rounds):
        for name, operation in operations.items():
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            mixed[name].append(timed(operation))
            faults[name].append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        used.append(bytes_in_use())
    return {
        "operations": {
            name: {
                "alone_s": alone[name],
                "mixed_s": statistics.median(mixed[name]),
                "slowest_s": max(mixed[name]),
                "page_faults": statistics.median(faults[name]),
            }
            for name in operations
        },
        "bytes_after_round": used,
    }


def main() -> None:
    """Parses the command line, prints a table and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="ckks:n16-l24", help="comma-separated, each scheme:name")
    parser.add_argument("--items", type=int, default=1, help="ciphertexts in each operand")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--alone", type=int, default=9, help="runs of each operation alone")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = []
    for name in options.sets.split(","):
        params, operations = operations_of(name, options.items)
        found = mix(operations, options.rounds, options.alone)
        rows.append(
            {"set": name, "items": options.items, "log_qp": round(params.log_qp, 2), "security": params.security}
            | {"edition": params.edition, "rounds": options.rounds}
            | found
        )
        for operation, row in found["operations"].items():
            ratio = row["mixed_s"] / row["alone_s"]
            print(
                f"{name} {operation:24} alone {1e3 * row['alone_s']:9.2f} ms, mixed {1e3 * row['mixed_s']:9.2f} ms, {ratio:.2f}"
            )
        used = found["bytes_after_round"]
        print(
            f"{name} bytes in use: {used[2] / 2**20:,.0f} MiB after 3 rounds, {used[-1] / 2**20:,.0f} after {len(used)}",
            flush=True,
        )
    runner.save(options.out, runner.report(rows, runner.machine() | runner.engine(), kind="mix", load=runner.load()))


if __name__ == "__main__":
    main()
