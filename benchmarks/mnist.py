"""The networks and queries that fit a co-processor: MNIST's test images through `mnist-small` and `mnist-packed/w32`, examples/query.

    python benchmarks/mnist.py --mnist FOLDER --threads 1 --out benchmarks/results/mine-mnist.json
    python benchmarks/mnist.py --mnist FOLDER --only mnist-small --limit 320

Of a network, median and least times of encrypting a request, the server's work on it and decrypting its answer, keys and weights ready;
how many images are read right; whether every logit is the clear network's; the least noise left, measured. Of a query, those from the
question's bytes to the answer's. On a simulated device (HELIOGRAPH_DEVICE=rtl) few images and one run, with cycles. FOLDER has MNIST's test images and labels as IDX files, gzipped.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import run as runner
from cases import describe

import heliograph as hg
from heliograph import nn
from heliograph.cli import idx, roles

Row = dict[str, Any]
#: How many of the test images go through each network.
NETWORKS = {"mnist-small": 10_000, "mnist-packed/w32": 1_000}
QUERIES = {
    "where": "SUM and COUNT WHERE, 4,096 rows in 8 groups, all encrypted",
    "look-up-8x8": "an entry by an encrypted key, 8 x 8",
    "look-up-64x64": "an entry by an encrypted key, 64 x 64",
    "look-up-64x4096": "an entry by an encrypted key, 64 x 4,096",
}
RUNS = 20  # of a query
SIMULATED = {"mnist-small": 10, "mnist-packed/w32": 1}  # images where seconds are a simulation's; and one run of a query


class Clock:
    """Times of named steps."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = {}

    def __call__(self, what: str, step: Callable[[], Any]) -> Any:
        """What the step gives, waited for."""
        start = time.perf_counter()
        result = step()
        if isinstance(result, hg.Tensor):
            result.wait()
        self.times.setdefault(what, []).append(time.perf_counter() - start)
        return result

    def found(self) -> dict[str, float]:
        """Median and least time of each step, in seconds."""
        medians = {f"{what}_s": statistics.median(times) for what, times in self.times.items()}
        return medians | {f"{what}_least_s": min(times) for what, times in self.times.items()}


def counted(cycles: list[hg.Cycles]) -> Row:
    """The median of what a simulated device counted, in full, and what its clock makes of it; nothing where none is simulated."""
    if not cycles:
        return {}
    middle = sorted(cycles, key=lambda each: each.cycles)[len(cycles) // 2]
    return {"cycles": asdict(middle), "assumed_clock_s": middle.seconds}


def network(name: str, images: np.ndarray, labels: np.ndarray) -> Row:
    """The images through a network, as many in a request as it holds."""
    setup = nn.setup(name)
    p, layout = setup.parameters(), setup.layout()
    secret = hg.SecretKey.generate(p)
    server = hg.Server(secret.evaluation_keys(**setup.keys()))
    ready = layout.server(p)
    clock, logits, noise, sizes = Clock(), [], [], (0, 0)
    cycles: list[hg.Cycles] = []
    for first in range(0, len(images), layout.images):
        some = images[first : first + layout.images]
        x = server.bind(clock("encrypt", lambda some=some: secret.encrypt(roles.pack(setup, some, p))))
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
    """One of examples/query, several times."""
    program = runner.example("query", "query")
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
    """For a person."""
    cycles = f"; {row['cycles']['cycles']:,} cycles" if "cycles" in row else ""
    if "query" in row:
        return f"{row['what']:60s} {1e3 * row['run_s']:9.2f} ms{'' if row['exact'] else ' WRONG'}{cycles}"
    steps = ", ".join(f"{what} {1e3 * row[f'{what}_s']:.2f} ms" for what in ("encrypt", "run", "decrypt"))
    return (
        f"{row['network']}: {row['images']} images a request: {steps}; {row['right']:,} of {row['of']:,} right, "
        f"{'every logit exact' if row['exact'] else 'logits WRONG'}{cycles}"
    )


def test_images(folder: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """MNIST's test set."""
    if folder is None:
        raise SystemExit(
            "say --mnist FOLDER, with t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz, or --only where,look-up"
        )
    return idx.images(folder / "t10k-images-idx3-ubyte.gz"), idx.labels(folder / "t10k-labels-idx1-ubyte.gz")


def main() -> None:
    """Measures, shows and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", type=Path, help="a folder with MNIST's test images and labels")
    parser.add_argument("--only", default="", help="cases whose names begin so, separated by commas")
    parser.add_argument("--limit", type=int, help="images of each network; default: 10,000 and 1,000")
    parser.add_argument("--threads", type=int, help="as many threads, on as many cores; default: all")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    found = runner.machine()
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
    runner.save(given.out, runner.report(rows, found | runner.engine(), kind="mnist", load=runner.load()))
    if not all(row["exact"] for row in rows):
        raise SystemExit("what was decrypted is not what the clear computation gives")


if __name__ == "__main__":
    main()
