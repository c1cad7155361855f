"""What the tables of Al Badawi and others (IEEE TPDS 2020) ask for besides the cases of mesh.py, part by part.

    python benchmarks/al_badawi.py --only counts --out FILE.json                          # Table 2: operations, no device
    python benchmarks/al_badawi.py --only cores --device cpu --out FILE.json              # Table 4 on 1, 2, 4 ... cores
    python benchmarks/al_badawi.py --only program,keys,batch --device cuda --out FILE.json   # on each number of GPUs

`program` evaluates HCNN-5 as it is and as a recorded program, one batch of images and two independent ones: the paper's future
work, task beside data parallelism. `keys` makes more rotation keys than a GPU has memory and turns a ciphertext by every one of
them; `batch` fills more than a GPU's memory with ciphertexts and adds and multiplies all. Each part runs on each number of
devices in a process of its own; what it cannot do there is told as the error that it gets. Results are decrypted and compared.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import mesh
import numpy as np
import nvml
import run as runner
from operands import packing
from scaling import counts_of

import heliograph as hg
from heliograph import _core, ckks, nn

Row = dict[str, Any]
#: Of Table 2.
NETWORKS = {"HCNN-5": "hcnn5-paper", "HCNN-5, dense over its maps": "hcnn5", "HCNN-11": "hcnn11"}
VECTORS = ("hvadd-2^15-x500-w64", "hvmul-2^15-x250-w64")
THREADS = (1, 2, 4, 8, 16, 20)
#: How much more than a GPU's memory.
BEYOND = 1.15
KEY_SETS = 4  # of clients, each of which fits
CHUNK = 250  # ciphertexts multiplied in a call
CHECKED = 5  # of the rotations, decrypted


def workloads() -> Iterator[Row]:
    """Table 2's columns for vectors of ciphertexts and for our networks."""
    for name, inputs, products, additions in (("HVAdd", 1000, 0, 500), ("HVMul", 500, 250, 0)):
        outputs = products + additions
        yield {"counts": name, "inputs": inputs, "outputs": outputs, "products": products, "constants": 0} | {
            "additions": additions,
            "biases": 0,
            "relinearizations": products,
        }
    for name, network in NETWORKS.items():
        try:
            loaded = nn.load(network)
        except hg.HeliographError as error:
            yield {"counts": name, "skipped": f"{type(error).__name__}: {error}"}
            continue
        yield {"counts": name, "outputs": loaded.classes} | vars(loaded.counts())


def _waited(call: Callable[[], Any]) -> float:
    """Seconds of a call and of all of its results."""
    start = time.perf_counter()
    result = call()
    for tensor in result if isinstance(result, tuple) else (result,):
        tensor.wait()
    return time.perf_counter() - start


def _times(calls: dict[str, Callable[[], Any]], seconds: float) -> dict[str, list[float]]:
    """In turns, at least five of each after one to warm up."""
    for call in calls.values():
        _waited(call)
    found: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    while len(found[next(iter(calls))]) < 5 or time.perf_counter() < end:
        for name, call in calls.items():
            found[name].append(_waited(call))
    return found


def program(small: bool, seconds: float) -> Iterator[Row]:
    """A network of one batch, and of two that know nothing of each other, as a function and as a program."""
    setup = nn.setup("digits-batch" if small else "hcnn5-paper")
    network, params = setup.load(), setup.parameters()
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys(**setup.keys()))
    images = np.random.default_rng(5).integers(0, network.top + 1, (2, params.slots, *network.image), dtype=np.uint8)
    x, y = (server.bind(secret.encrypt(network.arrange(batch), slots=-1)) for batch in images)
    kinds: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "one batch of images": (network.evaluate, (x,)),
        "two batches of images": (lambda a, b: (network.evaluate(a), network.evaluate(b)), (x, y)),
    }
    for words, (function, operands) in kinds.items():
        recorded = hg.program(function, *operands)
        ways: dict[str, Callable[[], Any]] = {"eager": partial(function, *operands), "program": partial(recorded, *operands)}
        times = _times(ways, seconds)
        same = True
        if _core.device_name() != "null":
            both = [way() if len(operands) > 1 else (way(),) for way in ways.values()]
            same = all(a.to_bytes() == b.to_bytes() for a, b in zip(both[0], both[1], strict=True))
        (core,) = [r.core for r in recorded._recorded.values()]
        yield {
            "program": f"{network.name}, {words}",
            "images": params.slots * len(operands),
            "security": params.security,
            "calls": sum(core.calls.values()),
            "depth": core.depth,
            "launches": core.launches,
            "eager_s": statistics.median(times["eager"]),
            "program_s": statistics.median(times["program"]),
            "runs": len(times["eager"]),
            "same": same,
        }


def _ckks(small: bool) -> Any:
    return ckks.parameters("n14-l8" if small else "n16-l28")


def keys(size: int, small: bool) -> Iterator[Row]:
    """More keys than fit, as several clients': each used twice, in order, so that the least recently used is the next that is wanted.
    A set is made in one call and has to fit; others make room for it.
    """
    params = _ckks(small)
    count = math.ceil(BEYOND * size / params.switch_key_bytes)
    secret = ckks.SecretKey.generate(params)
    values = np.random.default_rng(3).uniform(-1, 1, params.slots)
    uses: list[tuple[Any, int]] = []
    start = time.perf_counter()
    for part in np.array_split(np.arange(1, count + 1), KEY_SETS):
        steps = [int(step) for step in part]
        server = hg.Server(secret.evaluation_keys(relinearize=False, rotations=steps))
        x = server.bind(secret.encrypt(values))
        uses += [(x, step) for step in steps]
    made = time.perf_counter() - start
    passes = []
    for _ in range(2):
        start = time.perf_counter()
        for x, step in uses:
            ckks.rotate(x, step).wait()
        passes.append(time.perf_counter() - start)
    some = uses[: max(1, count // 8)]
    for x, step in some:
        ckks.rotate(x, step).wait()
    resident = _waited(lambda: [ckks.rotate(x, step) for x, step in some][-1]) / len(some)
    wrong = sum(
        bool(np.abs(secret.decrypt(ckks.rotate(x, step)) - np.roll(values, -step)).max() > 2.0**-10)
        for x, step in uses[:: max(1, count // CHECKED)]
    )
    yield {
        "larger": "keys",
        "what": f"{count:,} rotation keys of {params.name}, in {KEY_SETS} sets",
        "bytes": count * params.switch_key_bytes,
        "security": params.security,
        "made_s": made,
        "first_s": passes[0] / count,
        "again_s": passes[1] / count,
        "resident_s": resident,
        "wrong": wrong,
    }


def batch(size: int, small: bool) -> Iterator[Row]:
    """More ciphertexts than fit, in one tensor: additions in its own memory, products of stretches of it."""
    params = hg.bfv.parameters(depth=1, plain_bits=20) if small else hg.bfv.parameters("hvmul-2020")
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys(relinearize=True))
    few = 16
    bits = np.random.default_rng(4).integers(0, 2, (few, params.n), dtype=np.int64)
    x = server.bind(secret.encrypt(bits, **packing(params))) + 0
    copies = math.ceil(BEYOND * size / x.nbytes)
    common = {
        "larger": "batch",
        "what": f"{copies * few:,} ciphertexts of {params.name or f'N={params.n:,}'}",
        "bytes": copies * x.nbytes,
    }
    common |= {"security": params.security}
    try:
        start = time.perf_counter()
        many = hg.concatenate([x] * copies)
        many.wait()
        made = time.perf_counter() - start
        start = time.perf_counter()
        many += x[0]
        many.wait()
        added = time.perf_counter() - start
        start = time.perf_counter()
        for first in range(0, copies * few, CHUNK):
            part = many[first : first + CHUNK]
            last = hg.relinearize(part * part)
        last.wait()
        multiplied = time.perf_counter() - start
    except hg.OutOfMemoryError as error:
        yield common | {"refused": str(error)}
        return
    found = secret.decrypt(many[-1]).astype(np.int64)
    right = bool(np.array_equal(found, (bits[-1] + bits[0]) % params.plain_moduli[0])) and secret.noise_budget(last) > 0
    yield common | {"made_s": made, "add_s": added, "multiply_s": multiplied, "wrong": int(not right)}


PARTS = ("counts", "cores", "program", "keys", "batch")


def child(part: str, size: int, small: bool, seconds: float) -> None:
    """One part on the device of this process; its rows as JSON lines."""
    found = hg.devices()
    print(json.dumps({"machine": {"device": found[0], "devices": found} | mesh.boards().describe()}), flush=True)
    rows = program(small, seconds) if part == "program" else {"keys": keys, "batch": batch}[part](size, small)
    try:
        for row in rows:
            print(json.dumps(row), flush=True)
    except hg.HeliographError as error:
        print(json.dumps({"larger": part, "what": part, "refused": f"{type(error).__name__}: {error}"}), flush=True)


def on_devices(part: str, device: str, counts: list[int], options: argparse.Namespace, until: float) -> Iterator[Row]:
    """A part on each number of devices. "More than fits" is more than one of them has, on any number."""
    size = int(options.gib * 2**30)
    if not size:
        memory = nvml.Gpus([0]).describe().get("gpu_memory_gib")
        if memory is None and part in ("keys", "batch"):
            raise SystemExit("no GPU tells its memory: --gib says how much to go beyond")
        size = int((memory or 0) * 2**30)
    for count in counts:
        names = mesh.members(device, count)
        work = {"part": part, "size": size, "small": options.small, "seconds": options.seconds}
        command = [sys.executable, str(mesh.HERE / "al_badawi.py"), "--child", json.dumps(work)]
        for line in mesh.lines(command, {"HELIOGRAPH_DEVICE": ",".join(names)}, options.limit, until):
            row = json.loads(line)
            if "ended" in row:
                row = {"part": part, "skipped": row["ended"]}
            yield row | {"devices": count} | ({"limit_bytes": size} if "larger" in row else {})


def cores(options: argparse.Namespace, until: float) -> Iterator[Row]:
    """Table 4's vectors on so many threads, each on a core of its own."""
    there = sorted(os.sched_getaffinity(0))
    names = ("add-2^14-x1-w64",) if options.small else VECTORS
    for threads in (n for n in THREADS if n <= len(there)):
        os.environ["HELIOGRAPH_THREADS"] = str(threads)
        os.sched_setaffinity(0, there[:threads])
        for row in mesh.measure(
            mesh.Process("cpu", 1, mesh.AUTO, names),
            options.seconds,
            options.limit,
            {"copy_bytes_s": 0.0, "products_s": 0.0},
            until=until,
        ):
            if "ceilings" not in row:
                yield row | {"threads": threads}
    os.sched_setaffinity(0, there)


def line(row: Row) -> str:
    """For a person."""
    return json.dumps({k: v for k, v in row.items() if k not in ("parameters", "traffic", "extra")})


def main() -> None:
    """Parses the command line and writes the JSON."""
    begin = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--device", default="cuda", help="cuda, cpu, or as HELIOGRAPH_DEVICE")
    parser.add_argument("--counts", default="", help="numbers of devices; default: 1, 2, 4, 8 as far as there are")
    parser.add_argument("--gib", type=float, default=0, help="memory to go beyond; default: one GPU's")
    parser.add_argument("--seconds", type=float, default=2, help="for each case")
    parser.add_argument("--total", type=float, default=280, help="seconds of everything")
    parser.add_argument("--limit", type=float, default=200, help="seconds after which a silent process is ended")
    parser.add_argument("--small", action="store_true", help="small sets, to try this")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(**json.loads(options.child))
        return
    wanted = options.only.split(",")
    if unknown := set(wanted) - set(PARTS):
        raise SystemExit(f"no part is called {', '.join(sorted(unknown))}: {', '.join(PARTS)}")
    os.environ.pop("HELIOGRAPH_DEVICE", None)
    report = runner.Rows(options.out, shown=lambda row: print(line(row), flush=True), kind="al-badawi")
    until = begin + options.total
    for part in wanted:
        if part == "counts":
            rows: Iterator[Row] = workloads()
        elif part == "cores":
            rows = cores(options, until)
        else:
            counts = [int(n) for n in options.counts.split(",")] if options.counts else counts_of(options.device)
            rows = on_devices(part, options.device, counts, options, until)
        for row in rows:
            report.add(row)


if __name__ == "__main__":
    main()
