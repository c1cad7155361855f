"""Measures rotations by keys for a level, matrices with compact plaintexts, and matrices of blocks.

    python -m benchmarks.runners.level_keys --out benchmarks/results/mine-level-keys.jsonl
    python -m benchmarks.runners.level_keys --set n14-l8 --levels 5,2 --only rotation

Cases:
- one rotation of 16 ciphertexts, by the usual key and by a key for the level; times are for each ciphertext;
- a matrix of 64 diagonals, with transformed and with compact plaintexts;
- 4 x 4 blocks of nine diagonals, as blocks and as single matrices.
Each row has the median, the processor's time for each call, and the bytes of keys and plaintexts."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.report import results
from benchmarks.runners import common
from heliograph import ckks

COUNT = 16  #: ciphertexts of a rotation
DIAGONALS, BLOCKS = 64, 4  #: diagonals of the matrix; inputs and outputs of the matrix of blocks
OFFSETS = (-33, -32, -31, -1, 0, 1, 31, 32, 33)  #: diagonals of a block: a filter of 3 x 3 on rows of 32 values

Case = tuple[str, Callable[[], Any], dict[str, Any]]


def rotations(secret: ckks.SecretKey, level: int) -> Iterator[Case]:
    """Yields rotations of 16 ciphertexts at a level, by both kinds of keys."""
    values = np.random.default_rng(1).uniform(-1, 1, (COUNT, secret.parameters.slots))
    x = secret.encrypt(values, level=level)
    for kind, at in (("usual", None), ("level", level)):
        keys = secret.evaluation_keys(relinearize=False, rotations=[1], level=at)
        own = hg.Server(keys).bind(x)
        yield (
            f"rotation-{kind}-l{level}",
            functools.partial(hg.ckks.rotate, own, 1),
            {"count": COUNT, "key_bytes": keys.nbytes},
        )


def matrices(secret: ckks.SecretKey, level: int) -> Iterator[Case]:
    """Yields products with a matrix of 64 diagonals, whose plaintexts are transformed or compact."""
    parameters = secret.parameters
    rng = np.random.default_rng(2)
    diagonals = {k: rng.normal(0, 0.1, parameters.slots) for k in range(DIAGONALS)}
    x = secret.encrypt(rng.uniform(-1, 1, parameters.slots), level=level)
    for kind in ("transformed", "compact"):
        made = ckks.LinearTransform.from_diagonals(parameters, diagonals, level=level, compact=kind == "compact")
        keys = secret.evaluation_keys(relinearize=False, for_=made)
        own = hg.Server(keys).bind(x)
        sizes = {"count": 1, "key_bytes": keys.nbytes, "plaintext_bytes": made.bytes}
        yield f"matrix{DIAGONALS}-{kind}-l{level}", functools.partial(made, own), sizes


def blocks(secret: ckks.SecretKey, level: int) -> Iterator[Case]:
    """Yields products with 4 x 4 blocks, together and as single matrices."""
    parameters = secret.parameters
    rng = np.random.default_rng(3)
    table = [[{k: rng.normal(0, 0.1, parameters.slots) for k in OFFSETS} for _ in range(BLOCKS)] for _ in range(BLOCKS)]
    x = secret.encrypt(rng.uniform(-1, 1, (BLOCKS, parameters.slots)), level=level)
    whole = ckks.BlockTransform(parameters, table, level=level)
    keys = secret.evaluation_keys(relinearize=False, for_=whole)
    own = hg.Server(keys).bind(x)
    yield (
        f"blocks{BLOCKS}x{BLOCKS}-l{level}",
        lambda: whole @ own,
        {"count": 1, "key_bytes": keys.nbytes, "plaintext_bytes": whole.bytes},
    )
    singles = [[ckks.LinearTransform.from_diagonals(parameters, b, level=level) for b in row] for row in table]
    steps = {s for row in singles for t in row for s in t.rotations}
    keys = secret.evaluation_keys(relinearize=False, rotations=steps, level=level)
    own = hg.Server(keys).bind(x)

    def separate() -> Any:
        return [sum((t @ own[i] for i, t in enumerate(row)), 0) for row in singles]

    size = sum(t.bytes for row in singles for t in row)
    yield f"singles{BLOCKS}x{BLOCKS}-l{level}", separate, {"count": 1, "key_bytes": keys.nbytes, "plaintext_bytes": size}


def measured(name: str, call: Callable[[], Any], sizes: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Returns the row of a case. Times are for each of `count` ciphertexts."""

    def waited() -> None:
        found = call()
        for y in found if isinstance(found, list) else [found]:
            y.wait()

    before = time.process_time()
    times = common.measure(waited, seconds)
    processor = (time.process_time() - before) / (len(times) + 1)
    count = sizes["count"]
    return {"case": name, "median_s": statistics.median(times) / count, "processor_s": processor / count} | sizes


def main() -> None:
    """Measures the cases and writes a row for each."""
    given = common.parser(
        __doc__,
        set=("n16-b13", "name of the parameter set"),
        levels=("5,2", "comma-separated levels of rotations; matrices take the first"),
        only="",
        seconds=3.0,
    ).parse_args()
    secret = ckks.SecretKey.generate(ckks.parameters(given.set))
    levels = [int(level) for level in given.levels.split(",")]
    rows: list[dict[str, Any]] = []

    def cases() -> Iterator[Case]:
        for level in levels:
            yield from rotations(secret, level)
        yield from matrices(secret, levels[0])
        yield from blocks(secret, levels[0])

    for name, call, sizes in cases():
        if given.only and not name.startswith(tuple(given.only.split(","))):
            continue
        rows.append(measured(name, call, sizes, given.seconds))
        print(
            f"{name:28} {rows[-1]['median_s'] * 1e6:12.1f} us", {k: v for k, v in sizes.items() if k != "count"}, flush=True
        )
        report = common.report(
            rows, common.machine() | common.engine(), kind="level-keys", set=given.set, load=common.load()
        )
        results.save(given.out, report)


if __name__ == "__main__":
    main()
