"""Compares functions of ciphertext tensors with their recorded programs, in one run.

    python -m benchmarks.runners.programs --out benchmarks/results/mine-programs.jsonl
    python -m benchmarks.runners.programs --device cuda --counts 1,2,4 --out benchmarks/results/mine-schedules.jsonl
    python -m benchmarks.runners.programs --device cpu --counts 1,2 --small --out benchmarks/results/mine-schedules.jsonl

Each case is timed in turns, function and program, in one process: a call with the wait for it, and the host time of the call alone. Both
results are compared bit by bit. `--counts` starts a process for each number of devices, and compares programs on several devices with the
same programs on the first number.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.cases import ckks as ckks_cases
from benchmarks.cases import cores as cases
from benchmarks.cases.examples import example
from benchmarks.report import results
from benchmarks.runners import common, mesh
from heliograph import _core, ckks, nn

Function = Callable[..., Any]
Prepared = tuple[Function, tuple[Any, ...]]


@cache
def _pair(scheme: str, set_name: str) -> tuple[Any, Any]:
    """Returns two ciphertexts at a server, already in the NTT domain."""
    params = {"ckks": ckks, "bgv": hg.bgv, "bfv": hg.bfv}[scheme].parameters(set_name)
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys(rotations=[1]))
    rng = np.random.default_rng(7)
    one = (lambda: rng.uniform(-1, 1, params.slots)) if scheme == "ckks" else (lambda: rng.integers(0, 2, params.slots))
    x, y = (server.bind(secret.encrypt(one())) for _ in range(2))
    return x + 0, y + 0


def _switched(x: Any, y: Any) -> Any:
    """Computes BGV's product and relinearization without a change of level."""
    core, keys = _core.exact.multiply(x._core, y._core, x._keys._core), x._keys
    return type(x)(_core.exact.relinearize(core, keys._core), keys)


def chain(x: Any, y: Any) -> Any:
    """Computes twenty sequential products."""
    for _ in range(20):
        x = _switched(x, y)
    return x


def sums(x: Any, y: Any) -> Any:
    """Computes ten sequential additions."""
    for _ in range(10):
        x = x + y
    return x


def branches(x: Any, y: Any) -> Any:
    """Computes two independent chains of four products each."""
    a, b = x, y
    for _ in range(4):
        a, b = a * x, b * y
    return a, b


def ten(x: Any, y: Any) -> Any:
    """Computes two independent chains of ten products each."""
    a, b = x, y
    for _ in range(10):
        a, b = a * x, b * y
    return a, b


def unequal(x: Any, y: Any, *, lengths: tuple[int, ...]) -> Any:
    """Computes independent chains of the given lengths."""
    made = []
    for k, length in enumerate(lengths):
        a = x if k % 2 else y
        for _ in range(length):
            a = a * (y if k % 2 else x)
        made.append(a)
    return tuple(made)


def _on_pair(scheme: str, set_name: str, function: Function) -> Prepared:
    return function, _pair(scheme, set_name)


def _helr(depth: int, rows: int, attributes: int) -> Prepared:
    """Prepares an iteration of HELR: an inner product with the weights, a cubic, a product and sums over all slots."""
    helr = example("helr", "helr")
    params = ckks.parameters(depth=depth, precision=24, slots=rows, integer_bits=helr.LARGEST)
    secret = hg.SecretKey.generate(params)
    table = helr.synthetic(rows, attributes)
    keys = secret.evaluation_keys(rotations=[1 << k for k in range(params.slots.bit_length() - 1)])
    z = hg.Server(keys).bind(secret.encrypt(table.signed))
    return partial(helr.train, rows=rows, iterations=2), (z,)


def _matrix(set_name: str, size: int, *, residual: bool) -> Prepared:
    """Prepares a matrix on slots by baby and giant steps; with `residual`, also a polynomial and a sum with the input."""
    params = ckks.parameters(set_name)
    rng = np.random.default_rng(11)
    matrix = ckks.LinearTransform(params, rng.uniform(-1, 1, (size, size)) / size, repeats=True)
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys(rotations=matrix.rotations, relinearize=True))
    x = server.bind(secret.encrypt(np.tile(rng.uniform(-1, 1, size), params.slots // size)))

    def block(x: Any) -> Any:
        y = matrix @ x
        return ckks.polynomial(y, [0.1, 0.5, 0.0, -0.2]) + x if residual else y

    return block, (x,)


def _integers() -> Prepared:
    """Prepares a product of two 64-bit integers of TFHE."""
    secret = hg.SecretKey.generate(hg.tfhe.parameters())
    server = hg.Server(secret.evaluation_keys())
    rng = np.random.default_rng(5)
    a, b = (server.bind(secret.encrypt(rng.integers(0, 1 << 32, (), dtype=np.uint64))) for _ in range(2))
    return (lambda a, b: a * b), (a, b)


def _convolutions(side: int, channels: tuple[int, ...]) -> Prepared:
    """Prepares layers like those of HCNN-11 on smaller images: convolutions of 3 x 3, squares and sums of windows, then a
    dense layer.
    """
    rng = np.random.default_rng(3)
    layers, inputs = [], 3
    for k, outputs in enumerate(channels):
        weight = rng.integers(-3, 4, (outputs, inputs, 3, 3))
        layers.append(nn.Layer(f"conv{k + 1}", weight, np.zeros(outputs, dtype=np.int64), padding=1, square=True, pool=2))
        inputs = outputs
    weight = rng.integers(-3, 4, (10, inputs * (side >> len(channels)) ** 2))
    layers.append(nn.Layer("dense", weight, np.zeros(10, dtype=np.int64)))
    network = nn.Network("colours", tuple(layers), (3, side, side), {"input": {"levels": 15}})
    params = hg.bfv.parameters("hcnn5-2020", insecure=True)
    images = rng.integers(0, 256, (params.slots, *network.image), dtype=np.uint8)
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys())
    x = server.bind(secret.encrypt(np.ascontiguousarray(network.arrange(images)), slots=-1))
    return network.evaluate, (x,)


_LONG, _SHORT = tuple(range(2, 12)), (1, 1, 2, 2, 3, 3, 4, 4, 5, 5)
#: Description of each case, and the function that makes its function and operands.
CASES: dict[str, tuple[str, Callable[[], Prepared]]] = {
    name: (words, partial(_on_pair, scheme, set_name, function))
    for name, words, scheme, set_name, function in (
        ("chain-bgv-2^14", "20 BGV multiplications + relinearizations in a chain, N=2^14", "bgv", "bgv-n14", chain),
        ("sums-ckks-2^14", "10 CKKS additions in a chain, N=2^14", "ckks", "n14-l8", sums),
        ("sums-ckks-2^16", "10 CKKS additions in a chain, N=2^16", "ckks", "n16-l28", sums),
        ("product-ckks-2^14", "one CKKS product, N=2^14", "ckks", "n14-l8", lambda x, y: x * y),
        ("product-ckks-2^16", "one CKKS product, N=2^16", "ckks", "n16-l28", lambda x, y: x * y),
        ("branches-ckks-2^14", "two independent branches of four CKKS products, N=2^14", "ckks", "n14-l8", branches),
        ("branches-ckks-2^15", "two independent branches of four CKKS products, N=2^15", "ckks", "n15-l20", branches),
        ("branches-ckks-2^16", "two independent branches of four CKKS products, N=2^16", "ckks", "n16-l28", branches),
        ("ten-ckks-2^16", "two independent branches of ten CKKS products, N=2^16", "ckks", "n16-l28", ten),
    )
}
#: Cases for schedules on several GPUs, and the same cases with smaller parameters for a few cores.
SCHEDULED: dict[str, tuple[str, Callable[[], Prepared]]] = {
    "chain-bgv-2^14": CASES["chain-bgv-2^14"],
    "sums-ckks-2^14": CASES["sums-ckks-2^14"],
    "sums-ckks-2^16": CASES["sums-ckks-2^16"],
    "product-ckks-2^14": CASES["product-ckks-2^14"],
    "branches-ckks-2^14": CASES["branches-ckks-2^14"],
    "branches-ckks-2^16": CASES["branches-ckks-2^16"],
    "unequal-ckks-2^16": (
        "ten independent branches of 2 to 11 CKKS products, N=2^16",
        partial(_on_pair, "ckks", "n16-l28", partial(unequal, lengths=_LONG)),
    ),
    "bsgs-ckks-2^16": ("a matrix of 128 x 128 on slots, CKKS, N=2^16", partial(_matrix, "n16-l28", 128, residual=False)),
    "residual-ckks-2^16": (
        "a matrix of 128 x 128, a cubic and a residual sum, CKKS, N=2^16",
        partial(_matrix, "n16-l28", 128, residual=True),
    ),
    "helr": ("HELR's first two iterations, 16,000 rows of 15 attributes", partial(_helr, 8, 1 << 14, 15)),
    "tfhe-product-64": ("a product of two 64-bit integers, TFHE", _integers),
    "hcnn11-layers": ("HCNN-11's kind of layers on 3 x 8 x 8 images, BFV", partial(_convolutions, 8, (16, 32))),
}
SMALL: dict[str, tuple[str, Callable[[], Prepared]]] = {
    "sums-ckks-2^14": CASES["sums-ckks-2^14"],
    "branches-ckks-2^14": CASES["branches-ckks-2^14"],
    "unequal-ckks-2^14": (
        "ten independent branches of 1 to 5 CKKS products, N=2^14",
        partial(_on_pair, "ckks", "n14-l8", partial(unequal, lengths=_SHORT)),
    ),
    "bsgs-ckks-2^14": ("a matrix of 16 x 16 on slots, CKKS, N=2^14", partial(_matrix, "n14-l8", 16, residual=False)),
    "residual-ckks-2^14": (
        "a matrix of 16 x 16, a cubic and a residual sum, CKKS, N=2^14",
        partial(_matrix, "n14-l8", 16, residual=True),
    ),
    "helr": ("HELR's first two iterations, 1,000 rows of 3 attributes", partial(_helr, 8, 1 << 10, 3)),
    "hcnn11-layers": ("HCNN-11's kind of layers on 3 x 4 x 4 images, BFV", partial(_convolutions, 4, (4,))),
}


def _parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def measure(name: str, seconds: float) -> dict[str, Any]:
    """Runs one case."""
    return _measured(name, CASES, seconds)


def _bits(result: Any) -> list[Any]:
    """Returns the words of BFV, BGV and CKKS. TFHE's results may differ in bits that no key reads, because it multiplies reals."""
    return [part.to_bytes() for part in _parts(result) if not hasattr(part.parameters, "parallel_bootstraps")]


def _measured(name: str, known: dict[str, tuple[str, Callable[[], Prepared]]], seconds: float) -> dict[str, Any]:
    words, prepare = known[name]
    function, operands = prepare()
    program = hg.program(function, *operands)
    for _ in range(3):  # warm-up calls, which also make graphs
        same = _bits(program(*operands)) == _bits(function(*operands))
    if not same:
        raise SystemExit(f"{name}: the program's bits differ from the function's")
    found: dict[str, tuple[list[float], list[float]]] = {"eager": ([], []), "program": ([], [])}
    for _ in range(3):
        for kind, call in (("eager", lambda: function(*operands)), ("program", lambda: program(*operands))):
            for to, of in zip(found[kind], common.times_of(call, seconds / 6), strict=True):
                to += of
    (recorded,) = program._recorded.values()
    core = recorded.core
    params = operands[0].parameters
    if hasattr(params, "plain_moduli"):
        described = cases.describe(params)
    else:
        described = {"name": repr(params)} if hasattr(params, "parallel_bootstraps") else ckks_cases.describe(params)
    return {
        "program": name,
        "what": words,
        "parameters": described,
        "calls": sum(core.calls.values()),
        "depth": core.depth,
        "launches": core.launches,
        "graphs": bool(core.graphs),
        "members": [[member, len(events)] for member, events in core.timeline],
        "floor_s": core.times[0] or None,
        "predicted_s": core.times[1] or None,
        "runs": len(found["eager"][0]),
        "eager_s": statistics.median(found["eager"][0]),
        "eager_host_s": statistics.median(found["eager"][1]),
        "program_s": statistics.median(found["program"][0]),
        "program_host_s": statistics.median(found["program"][1]),
    }


def line(row: dict[str, Any]) -> str:
    """Formats a row for the terminal."""
    if "skipped" in row:
        return f"{row['what']:64s} skipped: {row['skipped']}"
    over = f"   {row['over_first']:.2f} times the first" if "over_first" in row else ""
    return (
        f"{row['what']:64s} {row['eager_s'] * 1e6:9.1f} us (host {row['eager_host_s'] * 1e6:7.1f})   "
        f"program {row['program_s'] * 1e6:9.1f} us (host {row['program_host_s'] * 1e6:7.1f})" + over
    )


def boards() -> dict[str, Any]:
    """Returns the GPUs in use."""
    return mesh.boards().describe()


def _child(names: list[str], small: bool, seconds: float, out: Path) -> None:
    """Runs cases on the devices of this process; writes a line of JSON per case."""
    known = SMALL if small else SCHEDULED
    with out.open("a", encoding="utf-8") as file:
        for name in names:
            try:
                row = _measured(name, known, seconds)
            except hg.HeliographError as error:  # an error such as out of memory on one device does not end the other cases
                row = {"program": name, "what": known[name][0], "skipped": str(error)}
            print(json.dumps(row), file=file, flush=True)
        print(json.dumps({"machine": common.machine() | common.engine() | boards()}), file=file, flush=True)


def schedules(device: str, counts: list[int], names: list[str], small: bool, seconds: float, out: Path | None) -> None:
    """Runs each case on each number of devices, in a process per number, and compares with the first number."""
    rows: list[dict[str, Any]] = []
    machine: dict[str, Any] = {}
    first: dict[str, float] = {}
    options = "".join("/" + word for word in device.split("/")[1:])
    for count in counts:
        list_of = ",".join(mesh.members(device, count)) + (options if count > 1 else "")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows"
            command = [*common.module("runners.programs"), "--child", str(path), "--seconds", str(seconds)]
            command += ["--only", ",".join(names), *(["--small"] if small else [])]
            status = subprocess.run(
                command, cwd=common.ROOT, env={**os.environ, "HELIOGRAPH_DEVICE": list_of}, check=False
            ).returncode
            found = [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
        if status != 0:
            print(f"{list_of}: the process ended with {status}", file=sys.stderr)
        for row in found:
            if "machine" in row:
                machine = row["machine"]
                continue
            row |= {"devices": count, "device": list_of}
            if "skipped" not in row:
                row["over_first"] = first.setdefault(row["program"], row["program_s"]) / row["program_s"]
            rows.append(row)
            print(f"{count} x {line(row)}", flush=True)
        results.save(out, common.report(rows, machine, kind="schedules", load=common.load()))


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--counts", default="")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--child", type=Path)
    given, _ = parser.parse_known_args()
    if not given.counts and not given.child:
        return common.run_named("programs", __doc__, CASES, measure, line, seconds=1.5, more=boards)
    parser.add_argument("--only", default="", help="comma-separated prefixes of case names")
    parser.add_argument("--seconds", type=float, default=0.8, help="seconds per case")
    parser.add_argument("--out", type=results.file, help="results file to write (.jsonl)")
    given = parser.parse_args()
    known = SMALL if given.small else SCHEDULED
    names = [name for name in known if not given.only or name.startswith(tuple(given.only.split(",")))]
    if given.child:
        return _child(names, given.small, given.seconds, given.child)
    return schedules(given.device, [int(c) for c in given.counts.split(",")], names, given.small, given.seconds, given.out)


if __name__ == "__main__":
    main()
