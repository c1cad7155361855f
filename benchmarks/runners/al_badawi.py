"""Measures the cases of Al Badawi and others' tables (IEEE TPDS 2020) that mesh.py does not have, part by part.

    python -m benchmarks.runners.al_badawi --only counts --out FILE.jsonl                          # Table 2: operations, without a device
    python -m benchmarks.runners.al_badawi --only cores --device cpu --out FILE.jsonl              # Table 4 on 1, 2, 4 ... cores
    python -m benchmarks.runners.al_badawi --only program,keys,batch --device cuda --out FILE.jsonl   # on each number of GPUs

`program` evaluates HCNN-5 as a function and as a recorded program, for one batch of images and for two independent batches:
the paper's future work, task parallelism with data parallelism. `keys` makes more rotation keys than fit one GPU's memory
and rotates a ciphertext by each of them. `batch` fills more than one GPU's memory with ciphertexts, then adds and multiplies
all. Each part runs in a separate process for each number of devices; an error is recorded as its result. Results are
decrypted and compared.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.cases.operands import packing
from benchmarks.runners import common, mesh, nvml
from benchmarks.runners.scaling import counts_of
from heliograph import _core, ckks, nn

Row = dict[str, Any]
#: Descriptions of the networks of Table 2.
NETWORKS = {"HCNN-5": "hcnn5-paper", "HCNN-5, dense over its maps": "hcnn5", "HCNN-11": "hcnn11"}
VECTORS = ("hvadd-2^15-x500-w64", "hvmul-2^15-x250-w64")
THREADS = (1, 2, 4, 8, 16, 20)
#: Bytes of keys or ciphertexts, divided by the memory of one GPU.
BEYOND = 1.15
KEY_SETS = 4  # number of sets of keys, as of several clients; each set fits the memory
CHUNK = 250  # number of ciphertexts per multiplication call
CHECKED = 5  # number of rotations that are decrypted


def workloads() -> Iterator[Row]:
    """Yields Table 2's columns for vectors of ciphertexts and for the networks."""
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


def _times(calls: dict[str, Callable[[], Any]], seconds: float) -> dict[str, list[float]]:
    """Returns the times of several calls that run in turns, at least five of each after one warm-up call."""
    for call in calls.values():
        common.timed(call)
    found: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    while len(found[next(iter(calls))]) < 5 or time.perf_counter() < end:
        for name, call in calls.items():
            found[name].append(common.timed(call)[0])
    return found


def program(small: bool, seconds: float) -> Iterator[Row]:
    """Times a network of one batch, and of two independent batches, as a function and as a program."""
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
        if _core.device.name() != "null":
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
    """Times rotations with more keys than fit the memory, in sets of several clients. Each key is used twice, in order, so
    the next key is always the one that was evicted last. A set is made in one call and must fit; it evicts other sets."""
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
    resident = common.timed(lambda: [ckks.rotate(x, step) for x, step in some][-1])[0] / len(some)
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
    """Times a tensor with more ciphertexts than one GPU's memory holds: additions in place, and products of its parts."""
    params = hg.bfv.parameters(depth=1, plain_bits=20) if small else hg.bfv.parameters("hvmul-2020")
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys(relinearize=True))
    few = 16
    bits = np.random.default_rng(4).integers(0, 2, (few, params.n), dtype=np.int64)
    x = server.bind(secret.encrypt(bits, **packing(params))) + 0
    copies = math.ceil(BEYOND * size / x.nbytes)
    shared = {
        "larger": "batch",
        "what": f"{copies * few:,} ciphertexts of {params.name or f'N={params.n:,}'}",
        "bytes": copies * x.nbytes,
    }
    shared |= {"security": params.security}
    try:
        made, _, many = common.timed(lambda: hg.concatenate([x] * copies))
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
        yield shared | {"refused": str(error)}
        return
    found = secret.decrypt(many[-1]).astype(np.int64)
    right = bool(np.array_equal(found, (bits[-1] + bits[0]) % params.plain_moduli[0])) and secret.noise_budget(last) > 0
    yield shared | {"made_s": made, "add_s": added, "multiply_s": multiplied, "wrong": int(not right)}


PARTS = ("counts", "cores", "program", "keys", "batch")


def child(part: str, size: int, small: bool, seconds: float) -> None:
    """Runs one part on the device of this process and prints its rows as JSON lines."""
    found = hg.devices()
    print(json.dumps({"machine": {"device": found[0], "devices": found} | mesh.boards().describe()}), flush=True)
    rows = program(small, seconds) if part == "program" else {"keys": keys, "batch": batch}[part](size, small)
    try:
        for row in rows:
            print(json.dumps(row), flush=True)
    except hg.HeliographError as error:
        print(json.dumps({"larger": part, "what": part, "refused": f"{type(error).__name__}: {error}"}), flush=True)


def on_devices(part: str, device: str, counts: list[int], options: argparse.Namespace, until: float) -> Iterator[Row]:
    """Yields a part's rows on each number of devices. On any number of devices, the data exceed one device's memory."""
    size = int(options.gib * 2**30)
    if not size:
        memory = nvml.Gpus([0]).describe().get("gpu_memory_gib")
        if memory is None and part in ("keys", "batch"):
            raise SystemExit("the memory of the GPU is unknown: give it with --gib")
        size = int((memory or 0) * 2**30)
    for count in counts:
        names = mesh.members(device, count)
        work = {"part": part, "size": size, "small": options.small, "seconds": options.seconds}
        command = [*common.module("runners.al_badawi"), "--child", json.dumps(work)]
        for line in mesh.lines(command, {"HELIOGRAPH_DEVICE": ",".join(names)}, options.limit, until):
            row = json.loads(line)
            if "ended" in row:
                row = {"part": part, "skipped": row["ended"]}
            yield row | {"devices": count} | ({"limit_bytes": size} if "larger" in row else {})


def cores(options: argparse.Namespace, until: float) -> Iterator[Row]:
    """Yields the rows of Table 4's vectors for each number of threads, each thread on its own core."""
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
    """Formats a row for the terminal."""
    return json.dumps({k: v for k, v in row.items() if k not in ("parameters", "traffic", "extra")})


def main() -> None:
    """Parses the command line and writes the results."""
    begin = time.monotonic()
    options = common.parser(
        __doc__,
        only=(",".join(PARTS), f"comma-separated parts: {', '.join(PARTS)}"),
        device="cuda",
        counts=("", "comma-separated numbers of devices; default: 1, 2, 4, 8, up to those available"),
        gib=(0.0, "GiB that the data exceed; default: one GPU's memory"),
        seconds=2.0,
        total=280.0,
        limit=200.0,
        small=(False, "use small sets, for tests"),
        child=str,
    ).parse_args()
    if options.child:
        child(**json.loads(options.child))
        return
    wanted = options.only.split(",")
    if unknown := set(wanted) - set(PARTS):
        raise SystemExit(f"unknown part {', '.join(sorted(unknown))}: use {', '.join(PARTS)}")
    os.environ.pop("HELIOGRAPH_DEVICE", None)
    report = common.Rows(options.out, shown=lambda row: print(line(row), flush=True), kind="al-badawi")
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
