"""Measures operations in a mix, and memory over many rounds, to find effects that one repeated operation hides.

    python -m benchmarks.runners.mix --sets ckks:n16-l24 --rounds 30 --out benchmarks/results/mine-mix.jsonl

Each operation is timed alone first, then once in every round, in a process that keeps all operands. If a device's memory pool does not
reuse memory between operations, the mix gets slower, or uses more memory with every round. Bytes in use are the resident ones of the
process on cores and the GPU's on a GPU; page faults count newly cleared pages.
"""

from __future__ import annotations

import resource
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.cases import operands
from benchmarks.report import results
from benchmarks.runners import common, nvml
from heliograph import ckks

STEPS = [1, 2, 4, 8, 16, 32, 64, 128]
Operations = dict[str, Callable[[], Any]]


def ckks_operations(params: ckks.Parameters, items: int) -> Operations:
    """Returns the CKKS operations of the mix: products, rotations, sums and conversions of `items` ciphertexts."""
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
    """Returns the BFV or BGV operations of the mix: products, rotations, sums and matrices of `items` ciphertexts."""
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
    """Returns the parameters of a set given as "scheme:name", and its operations."""
    scheme, _, which = name.partition(":")
    if scheme == "ckks":
        params = hg.ckks.parameters(which)
        return params, ckks_operations(params, items)
    params = {"bfv": hg.bfv, "bgv": hg.bgv}[scheme].parameters(which)
    return params, exact_operations(params, items)


def bytes_in_use() -> int:
    """Returns the bytes in use: of this process on cores, otherwise of the first GPU."""
    if not hg.devices()[0].startswith("cpu") and (used := nvml.Gpus().used_bytes()) is not None:
        return used
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def mix(operations: Operations, rounds: int, alone_runs: int = 9) -> dict[str, Any]:
    """Returns each operation's median time alone and in the mix, page faults per call in the mix, and bytes in use after
    each round.
    """
    alone = {}
    for name, operation in operations.items():
        common.times_of(operation, 0, at_least=2)
        alone[name] = statistics.median(common.timed(operation)[0] for _ in range(alone_runs))
    mixed: dict[str, list[float]] = {name: [] for name in operations}
    faults: dict[str, list[int]] = {name: [] for name in operations}
    used = []
    for _ in range(rounds):
        for name, operation in operations.items():
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            mixed[name].append(common.timed(operation)[0])
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
    """Parses the command line, prints a table and writes the results."""
    options = common.parser(
        __doc__,
        needs=("out",),
        sets=("ckks:n16-l24", "comma-separated sets, each scheme:name"),
        items=(1, "ciphertexts per operand"),
        rounds=30,
        alone=(9, "runs per operation alone"),
    ).parse_args()
    rows = []
    for name in options.sets.split(","):
        params, operations = operations_of(name, options.items)
        found = mix(operations, options.rounds, options.alone)
        rows.append(
            {"set": name, "items": options.items, "log_qp": round(params.log_qp, 2), "security": params.security}
            | {"edition": f"w{params.word_size}", "rounds": options.rounds}
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
    results.save(options.out, common.report(rows, common.machine() | common.engine(), kind="mix", load=common.load()))


if __name__ == "__main__":
    main()
