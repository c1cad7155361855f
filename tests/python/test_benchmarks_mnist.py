"""The benchmark of networks and queries on small rings (benchmarks/runners/mnist.py)."""

from __future__ import annotations

import gzip
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.report import results


def write_idx(path: Path, values: np.ndarray) -> None:
    """Writes a gzipped IDX file of bytes."""
    head = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
    path.write_bytes(gzip.compress(head + values.astype(np.uint8).tobytes()))


def test_networks_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """For ten digits and noise in two requests, the benchmark counts correct classifications and compares every logit. The
    table has the counts.

    """
    from benchmarks import tables
    from benchmarks.runners import mnist
    from heliograph.cli import pen_digits

    digits = [pen_digits.render(digit) for digit in range(10)]
    images = np.stack([*digits, *np.random.default_rng(1).integers(0, 256, (30, 28, 28))])
    write_idx(tmp_path / "t10k-images-idx3-ubyte.gz", images)
    write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", np.array([*range(10), *[10] * 30]))
    out = tmp_path / "mine.jsonl"
    monkeypatch.setattr(sys, "argv", ["mnist.py", "--mnist", str(tmp_path), "--only", "mnist-small", "--out", str(out)])
    mnist.main()
    (row,) = results.read(out)["results"]
    assert (row["images"], row["requests"], row["right"], row["of"]) == (32, 2, 10, 40)
    assert row["exact"]
    assert 0 < row["least_noise_bits"] < 106
    assert min(row[f"{step}_s"] for step in ("encrypt", "run", "decrypt")) > 0
    assert "10 of 40 right, every logit exact" in capsys.readouterr().out
    ((name, reports),) = tables.by_name([out]).items()
    assert "| mnist-small | N=4,096, log q 106, w32 | 32 |" in "\n".join(tables.TABLES[name](reports))


def test_queries_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer is exact; a wrong answer is written to the report and makes the program fail."""
    from benchmarks.cases.examples import example
    from benchmarks.runners import mnist

    out = tmp_path / "mine.jsonl"
    monkeypatch.setattr(sys, "argv", ["mnist.py", "--only", "where,look-up-8x8", "--out", str(out)])
    monkeypatch.setattr(mnist, "RUNS", 1)
    mnist.main()
    assert [(row["query"], row["exact"]) for row in results.read(out)["results"]] == [("where", True), ("look-up-8x8", True)]
    program = example("query", "query")
    monkeypatch.setattr(program, "where", lambda groups, amounts, asked: amounts.reshape(1).broadcast_to((2,)))
    with pytest.raises(SystemExit, match="differs from the clear computation"):
        mnist.main()
    assert [row["exact"] for row in results.read(out)["results"]] == [False, True]
    monkeypatch.setattr(sys, "argv", ["mnist.py", "--only", "mnist-small"])
    with pytest.raises(SystemExit, match="give --mnist FOLDER"):
        mnist.main()


def test_cycles_have_a_table_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cycles of a simulated device have a separate table, and the times of this device are in no table."""
    import heliograph as hg
    from benchmarks import tables
    from benchmarks.runners import mnist

    out = tmp_path / "rtl.jsonl"
    counts = dict.fromkeys(("waited", "lists", "instructions", "stalled", "sampled", "moved"), 0)
    counted = hg.Cycles(
        cycles=4_000_000,
        predicted=4_040_000,
        bytes_read=3_000_000,
        bytes_written=500_000,
        busy={"load": 10, "ntt": 3_000_000},
        clock=200e6,
        **counts,
    )
    monkeypatch.setattr(sys, "argv", ["mnist.py", "--only", "look-up-8x8", "--out", str(out)])
    monkeypatch.setattr(mnist, "RUNS", 1)
    ordinary = mnist.query

    def simulated(name: str, runs: int) -> dict[str, object]:
        return ordinary(name, runs) | mnist.counted([counted])

    monkeypatch.setattr(mnist, "query", simulated)
    mnist.main()
    lines = tables.TABLES["small rings"](tables.by_name([out])["small rings"])
    row = next(text for text in lines if "an entry by an encrypted key, 8 x 8" in text)
    assert "| 4,000,000 | 4,040,000 | 20 ms (200 MHz) | 3.0, 0.5 MB | ntt 75% |" in row
    assert sum("8 x 8" in text for text in lines) == 1
