"""Compares several processes (ranks) as one device with one process that has all their devices.

    python -m benchmarks.runners.ranks --counts 1,2 --out FILE.jsonl                      # cores: a thread for each rank
    python -m benchmarks.runners.ranks --device cuda --counts 1,2,4,8 --out FILE.jsonl    # a GPU for each rank

Each count is measured twice: as ranks of one device (`heliograph run`, or with `--start sockets` processes that connect by
HELIOGRAPH_MEET), and as one process with as many devices. Data are encrypted and distributed first. Then all ranks make the same number of
calls, each between two barriers, which the time includes. `sent_bytes` is all traffic between ranks during the calls (`most_sent_bytes`:
that of the rank with the most); for a network also per operation. Every result is decrypted and compared.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.report import results
from benchmarks.runners import common, hosts
from heliograph import _core, nn

Row = dict[str, Any]


@dataclass(frozen=True)
class Prepared:
    """A prepared case: a call, a check of its result, the parameters, and, if it has several operations, the bytes that each
    operation sends.
    """

    run: Callable[[], Any]
    right: Callable[[Any], bool]
    parameters: Row
    steps: Callable[[], list[Row]] | None = None


def _product(params: Any, items: int) -> Prepared:
    """Prepares a batch of independent multiplications with relinearization, of BFV or BGV."""
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys(relinearize=True))
    t, rng = params.plain_moduli[0], np.random.default_rng(11)
    pack: dict[str, int] = {"slots": 1} if params.has_slots else {"coefficients": 1}
    x, y = (rng.integers(0, min(t, 2) if not params.has_slots else 100, (items, params.n)) for _ in range(2))
    a, b = (server.bind(secret.encrypt(v, **pack)) for v in (x, y))

    def right(result: Any) -> bool:
        if not params.has_slots:  # without slots the product is negacyclic, which this check does not compare
            return bool(secret.decrypt(result).shape == (items, params.n))
        return bool(np.array_equal(secret.decrypt(result).astype(np.int64), x * y % t))

    parameters = {"set": repr(params), "log_qp": params.log_qp, "items": items}
    return Prepared(lambda: hg.relinearize(a * b), right, parameters)


def _approximate(items: int) -> Prepared:
    params = hg.ckks.parameters(depth=5, precision=25)
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys())
    rng = np.random.default_rng(12)
    x, y = (rng.uniform(-1, 1, (items, params.slots)) for _ in range(2))
    a, b = (server.bind(secret.encrypt(v, slots=1)) for v in (x, y))
    return Prepared(
        lambda: a * b,
        lambda result: bool(np.abs(secret.decrypt(result) - x * y).max() < 2.0**-20),
        {"set": repr(params), "items": items},
    )


def _integers(items: int) -> Prepared:
    """Prepares a batch of 32-bit products with TFHE."""
    params = hg.tfhe.parameters("2_2")
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys())
    rng = np.random.default_rng(13)
    x, y = (rng.integers(0, 1 << 32, items, dtype=np.uint32) for _ in range(2))
    a, b = (server.bind(secret.encrypt(v)) for v in (x, y))
    return Prepared(
        lambda: a * b,
        lambda result: bool(np.array_equal(secret.decrypt(result), x * y)),
        {"set": repr(params), "items": items},
    )


def _steps(network: Any, x: Any) -> list[Row]:
    """Runs a network's operations one by one. Returns for each operation the bytes that move between members, and the bytes
    that this rank sends.

    """
    rows: list[Row] = []

    def step(what: str, run: Callable[[], Any]) -> Any:
        before = _core.device.moved()
        result = run()
        result.wait()
        after = _core.device.moved()
        moved = {
            "exchanged_bytes": after["bytes"] - before["bytes"],
            "sent_bytes": after["sent_bytes"] - before["sent_bytes"],
        }
        rows.append({"what": what, "outputs": result.size, "outputs_bytes": result.nbytes} | moved)
        return result

    for index, layer in enumerate(network.layers):
        if network.squares_before(index):
            x = step("square", partial(hg.square, x))
            if network.relinearizes_before(index):
                x = step("relinearize", partial(hg.relinearize, x))
        x = step(layer.name, partial(layer.apply, x))
    step("relinearize", partial(hg.relinearize, x))
    return rows


def _network(images: int) -> Prepared:
    """Prepares HCNN-5 as in `heliograph mnist --network paper`; logits of the first images are compared with the clear ones."""
    setup = nn.setup("hcnn5-paper")
    network, params = setup.load(), setup.parameters()
    secret = hg.SecretKey.generate(params)
    server = hg.Server(secret.evaluation_keys(**setup.keys()))
    pictures = np.random.default_rng(14).integers(0, 256, (params.slots, 28, 28), dtype=np.uint8)
    x = server.bind(secret.encrypt(network.arrange(pictures), slots=-1))
    expected = network.clear_logits(pictures[:images])

    def right(result: Any) -> bool:
        return bool(np.array_equal(secret.decrypt(result).T[:images], expected))

    parameters = {
        "set": repr(params),
        "log_qp": params.log_qp,
        "items": params.slots,
        "ciphertext_bytes": x.nbytes // x.size,
    }
    return Prepared(lambda: network.evaluate(x), right, parameters, partial(_steps, network, x))


@dataclass(frozen=True)
class Case:
    """A case of independent work in a batch, and its number of timed calls."""

    what: str
    prepare: Callable[[], Prepared]
    calls: int


CORES = {
    "bfv-multiply-2^14-x16": Case(
        "16 BFV multiplications + relinearizations, N=2^14",
        lambda: _product(hg.bfv.parameters(depth=6, plain_bits=17), 16),
        21,
    ),
    "bgv-multiply-2^14-x16": Case(
        "16 BGV multiplications + relinearizations", lambda: _product(hg.bgv.parameters(depth=6, plain_bits=17), 16), 21
    ),
    "ckks-multiply-x16": Case("16 CKKS multiplications, relinearized and rescaled", partial(_approximate, 16), 21),
    "hcnn5-paper": Case("HCNN-5 (paper) of as many images as there are slots", partial(_network, 4), 3),
    "tfhe-multiply-u32-x4": Case("4 TFHE products of 32-bit integers", partial(_integers, 4), 3),
}
QUICK = {"bgv-multiply-2^12-x3": Case("3 BGV multiplications", lambda: _product(hg.bgv.parameters(depth=1, plain_bits=17), 3), 1)}  # fmt: skip
GPUS = {
    "hvmul-2^15-x250": Case("HVMul: 250 BFV multiplications + relinearizations", lambda: _product(hg.bfv.parameters("hvmul-2020"), 250), 40),
    "ckks-multiply-x64": Case("64 CKKS multiplications, relinearized and rescaled", partial(_approximate, 64), 40),
    "hcnn5-paper": Case("HCNN-5 (paper) of as many images as there are slots", partial(_network, 4), 20),
    "tfhe-multiply-u32-x256": Case("256 TFHE products of 32-bit integers", partial(_integers, 256), 5),
}  # fmt: skip


def measure(name: str, case: Case) -> Row:
    """Measures a case; every rank makes the calls, and rank 0's row is the result."""
    prepared = case.prepare()
    first = _core.device.moved()["sent_bytes"]
    result = prepared.run()
    result.wait()
    first = _core.device.moved()["sent_bytes"] - first  # bytes of the first call include keys and cached operands
    correct = prepared.right(result)
    prepared.run().wait()
    times = []
    before = _core.device.moved()
    for _ in range(case.calls):
        hg.barrier()
        start = time.perf_counter()
        result = prepared.run()
        result.wait()
        hg.barrier()
        times.append(time.perf_counter() - start)
    after = _core.device.moved()
    moved = {key: after[key] - before[key] for key in after}
    return {
        "case": name,
        "what": case.what,
        "parameters": prepared.parameters,
        "median_s": statistics.median(times),
        "fastest_s": min(times),
        "slowest_s": max(times),
        "calls": case.calls,
        "correct": correct,
        "exchanged_bytes": moved["bytes"],
        "exchanges": moved["exchanges"],
        "sent_bytes": moved["sent_bytes"],
        "first_sent_bytes": first,
        "steps": prepared.steps() if prepared.steps else [],
    }


def child(names: list[str], cases: dict[str, Case], folder: Path) -> None:
    """Runs cases in one process; its rows go to a file named after its rank."""
    rank, count = hg.ranks()
    rows = []
    for name in names:
        rows.append(measure(name, cases[name]) | {"rank": rank, "ranks": count, "devices": hg.devices()})
        (folder / f"{rank}.json").write_text(json.dumps(rows), encoding="utf-8")


def start(
    ranks: int, device: str, how: str, words: list[str], threads: str, limit: float, places: hosts.Hosts | None = None
) -> None:
    """Runs the ranks' processes, on this machine unless hosts are given (only with "sockets"). Raises SystemExit if the
    ranks fail.
    """
    env = os.environ | {"HELIOGRAPH_DEVICE": device} | ({"HELIOGRAPH_THREADS": threads} if threads else {})
    if device == "cuda":
        env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(ranks)))  # one thread or GPU per rank
    command = [*common.module("runners.ranks"), *words]
    if ranks == 1:
        done = subprocess.run(command, cwd=common.ROOT, env=env, timeout=limit, check=False).returncode
    elif how == "run":
        launch = [sys.executable, "-m", "heliograph.cli", "run", "-n", str(ranks), *command[1:]]
        done = subprocess.run(launch, cwd=common.ROOT, env=env, timeout=limit, check=False).returncode
    else:
        places = places or hosts.loopback(ranks)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            place = f"{places.addresses[0]}:{s.getsockname()[1]}"
        several = []
        for rank in range(ranks):
            own = {"HELIOGRAPH_RANKS": str(ranks), "HELIOGRAPH_RANK": str(rank), "HELIOGRAPH_MEET": place}
            if device == "cuda":
                own["HELIOGRAPH_DEVICE"] = f"cuda:{rank}"
            several.append(subprocess.Popen(places.command(rank, command), cwd=common.ROOT, env=env | own))
        done = max(abs(p.wait(limit)) for p in several)
    if done:
        raise SystemExit(f"{ranks} ranks ended with {done}")


def several_in_one(device: str, count: int) -> str:
    """Returns the device name for one process with the devices of all ranks."""
    return ",".join(f"cuda:{i}" for i in range(count)) if device == "cuda" else f"{count}*{device}" if count > 1 else device


def rows_of(folder: Path) -> list[Row]:
    """Returns rank 0's rows, with the bytes that all ranks sent."""
    files = [json.loads(f.read_text(encoding="utf-8")) for f in sorted(folder.glob("*.json"))]
    rows = next(rows for rows in files if rows and rows[0]["rank"] == 0)
    for at, row in enumerate(rows):
        row["most_sent_bytes"] = max(rows_of_rank[at]["sent_bytes"] for rows_of_rank in files)
        for key in ("sent_bytes", "first_sent_bytes"):
            row[key] = sum(rows_of_rank[at][key] for rows_of_rank in files)
        for number, step in enumerate(row["steps"]):
            step["sent_bytes"] = sum(rows_of_rank[at]["steps"][number]["sent_bytes"] for rows_of_rank in files)
    return rows


def main() -> None:
    """Parses the command line, starts the processes and writes the results."""
    parser = common.parser(
        __doc__,
        counts=("1,2", "comma-separated numbers of ranks"),
        device=("cpu", "cpu (one thread per rank) or cuda (one GPU per rank)"),
        only="",
        limit=(300.0, "seconds per set of processes"),
        quick=(False, "one small case, for tests"),
        child=Path,
    )
    parser.add_argument(
        "--start", default="run", choices=("run", "sockets"), help="start ranks by heliograph run or by sockets"
    )
    options = parser.parse_args()
    cases = QUICK if options.quick else GPUS if options.device == "cuda" else CORES
    names = [n for n in cases if not options.only or n.startswith(tuple(options.only.split(",")))]
    if options.child:
        child(names, cases, options.child)
        return

    words = ["--device", options.device, "--only", options.only, *(["--quick"] if options.quick else [])]
    threads = "1" if options.device == "cpu" else ""
    rows: list[Row] = []
    one: dict[str, float] = {}
    for count in sorted(int(c) for c in options.counts.split(",")):
        together: dict[str, float] = {}
        for form in ("ranks", "one process") if count > 1 else ("one process",):
            device = several_in_one(options.device, count) if form == "one process" else options.device
            with tempfile.TemporaryDirectory() as folder:
                start(1 if form == "one process" else count, device, options.start, [*words, "--child", folder], threads, options.limit)  # fmt: skip
                found = rows_of(Path(folder))
            for row in found:
                one.setdefault(row["case"], row["median_s"])
                row |= {"form": form, "count": count, "speedup": one[row["case"]] / row["median_s"]}
                together.setdefault(row["case"], row["median_s"])
                row["ranks_over_one_process"] = (
                    together[row["case"]] / row["median_s"] if form == "one process" and count > 1 else None
                )
                rows.append(row)
                print(
                    f"{row['case']:26} {count} x {options.device}, {form:12} {row['median_s'] * 1e3:10.3f} ms  x{row['speedup']:.2f}"
                    f"  sent {row['sent_bytes']} bytes  {'right' if row['correct'] else 'WRONG'}",
                    flush=True,
                )
            results.save(options.out, common.report(rows, common.machine() | {"ranks": rows[-1]["devices"]}))
    if not all(row["correct"] for row in rows):
        raise SystemExit("wrong results")


if __name__ == "__main__":
    main()
