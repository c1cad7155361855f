"""Measures networks and queries that fit a co-processor: MNIST's test images with `mnist-small` and `mnist-packed/w32`, and
the queries of examples/query.

    python -m benchmarks.runners.mnist --mnist FOLDER --threads 1 --out benchmarks/results/mine-mnist.jsonl
    python -m benchmarks.runners.mnist --mnist FOLDER --only mnist-small --limit 320

For a network the result has median and least times of encryption, the server's evaluation and decryption of a request, with keys and weights
ready. The result also has the number of correctly classified images, whether every logit equals the clear network's, and the least
measured noise budget. For a query the result has times from the question's bytes to the answer's. On a simulated device
(HELIOGRAPH_DEVICE=rtl) the program uses few images and one run, and reports cycles. FOLDER has MNIST's test images and
labels as gzipped IDX files."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.cases.cores import describe
from benchmarks.cases.examples import example
from benchmarks.report import results
from benchmarks.runners import common
from heliograph import nn
from heliograph.cli import idx, workflow

Row = dict[str, Any]
#: Number of test images for each network.
NETWORKS = {"mnist-small": 10_000, "mnist-packed/w32": 1_000}
QUERIES = {
    "where": "SUM and COUNT WHERE, 4,096 rows in 8 groups, all encrypted",
    "look-up-8x8": "an entry by an encrypted key, 8 x 8",
    "look-up-64x64": "an entry by an encrypted key, 64 x 64",
    "look-up-64x4096": "an entry by an encrypted key, 64 x 4,096",
}
RUNS = 20  # number of runs of a query
SIMULATED = {"mnist-small": 10, "mnist-packed/w32": 1}  # number of images on a simulated device; queries run once


class Clock:
    """Measured times of named steps."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = {}

    def __call__(self, what: str, step: Callable[[], Any]) -> Any:
        """Runs a step, waits for its result and returns it."""
        seconds, _, result = common.timed(step)
        self.times.setdefault(what, []).append(seconds)
        return result

    def found(self) -> dict[str, float]:
        """Returns median and least seconds of each step."""
        medians = {f"{what}_s": statistics.median(times) for what, times in self.times.items()}
        return medians | {f"{what}_least_s": min(times) for what, times in self.times.items()}


def counted(cycles: list[hg.Cycles]) -> Row:
    """Returns the median of the simulated device's counts, and its time at the assumed clock; empty without a simulation."""
    if not cycles:
        return {}
    middle = sorted(cycles, key=lambda each: each.cycles)[len(cycles) // 2]
    return {"cycles": asdict(middle), "assumed_clock_s": middle.seconds}


def network(name: str, images: np.ndarray, labels: np.ndarray) -> Row:
    """Classifies encrypted images with a network; all requests but the last are full."""
    setup = nn.setup(name)
    p, layout = setup.parameters(), setup.layout()
    secret = hg.SecretKey.generate(p)
    server = hg.Server(secret.evaluation_keys(**setup.keys()))
    ready = layout.server(p)
    clock, logits, noise, sizes = Clock(), [], [], (0, 0)
    cycles: list[hg.Cycles] = []
    for first in range(0, len(images), layout.images):
        some = images[first : first + layout.images]
        x = server.bind(clock("encrypt", lambda some=some: secret.encrypt(workflow.pack(setup, some, p))))
        before = hg.cycles()
        y = clock("run", lambda x=x: ready.run(x))
        if before:
            cycles.append(hg.cycles() - before)
        values = clock("decrypt", lambda y=y: secret.decrypt(y))
        logits.append(layout.unpack(values).reshape(layout.images, -1)[: len(some)])
        noise.append(secret.noise_budget(y))
        sizes = (len(x.to_bytes()), len(y.to_bytes()))
    found = np.concatenate(logits)
    return {
        "network": name,
        "what": setup.title,
        "parameters": describe(p),
        "images": layout.images,
        "requests": len(logits),
        **clock.found(),
        "request_bytes": sizes[0],
        "answer_bytes": sizes[1],
        "right": int((found.argmax(1) == labels).sum()),
        "of": len(labels),
        "exact": bool(np.array_equal(found, setup.load().clear_logits(images))),
        "least_noise_bits": round(min(noise), 1),
    } | counted(cycles)


def query(name: str, runs: int) -> Row:
    """Runs one query of examples/query several times."""
    program = example("query", "query")
    if name == "where":
        p = program.where_parameters()
        reports = [program.run_where(p, program.synthetic(4096, 8, seed), 3) for seed in range(runs)]
    else:
        p = program.look_up_parameters()
        rows, columns = map(int, name.removeprefix("look-up-").split("x"))
        grid = program.synthetic_grid(rows, columns, p.plain_modulus, 1)
        reports = [program.run_look_up(p, grid, rows * columns // 2 + k) for k in range(runs)]
    return {
        "query": name,
        "what": QUERIES[name],
        "parameters": describe(p),
        "run_s": statistics.median(r.seconds for r in reports),
        "run_least_s": min(r.seconds for r in reports),
        "runs": runs,
        "question_bytes": reports[0].question,
        "answer_bytes": reports[0].reply,
        "exact": all(r.answer == r.expected for r in reports),
    } | counted([r.cycles for r in reports if r.cycles])


def line(row: Row) -> str:
    """Formats a row for the terminal."""
    cycles = f"; {row['cycles']['cycles']:,} cycles" if "cycles" in row else ""
    if "query" in row:
        return f"{row['what']:60s} {1e3 * row['run_s']:9.2f} ms{'' if row['exact'] else ' WRONG'}{cycles}"
    steps = ", ".join(f"{what} {1e3 * row[f'{what}_s']:.2f} ms" for what in ("encrypt", "run", "decrypt"))
    return (
        f"{row['network']}: {row['images']} images a request: {steps}; {row['right']:,} of {row['of']:,} right, "
        f"{'every logit exact' if row['exact'] else 'logits WRONG'}{cycles}"
    )


def test_images(folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Reads MNIST's test set."""
    if folder is None:
        raise SystemExit(
            "MNIST's test set is missing: give --mnist FOLDER with t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz, or --only where,look-up"
        )
    return idx.images(folder / "t10k-images-idx3-ubyte.gz"), idx.labels(folder / "t10k-labels-idx1-ubyte.gz")


def main() -> None:
    """Measures, prints and writes."""
    given = common.parser(
        __doc__,
        mnist=(Path, "folder with MNIST's test images and labels"),
        only="",
        limit=(int, "images per network; default: 10,000 and 1,000"),
        threads=(int, "number of threads, each on its core; default: all"),
    ).parse_args()
    found = common.machine()
    if given.threads:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.threads])
        os.environ["HELIOGRAPH_THREADS"] = str(given.threads)
    rows, simulated = [], hg.cycles() is not None
    for name in (*NETWORKS, *QUERIES):
        if given.only and not name.startswith(tuple(given.only.split(","))):
            continue
        if name in QUERIES:
            rows.append(query(name, 1 if simulated else RUNS))
        else:
            images, labels = test_images(given.mnist)
            count = given.limit or (SIMULATED if simulated else NETWORKS)[name]
            rows.append(network(name, images[:count], labels[:count]))
        print(line(rows[-1]), flush=True)
    results.save(given.out, common.report(rows, found | common.engine(), kind="mnist", load=common.load()))
    if not all(row["exact"] for row in rows):
        raise SystemExit("a decrypted result differs from the clear computation")


if __name__ == "__main__":
    main()
