"""Networks and queries of small rings, measured (benchmarks/mnist.py)."""

from __future__ import annotations

import gzip
import json
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("benchmarks")


def write_idx(path: Path, values: np.ndarray) -> None:
    """A gzipped IDX file of bytes."""
    head = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
    path.write_bytes(gzip.compress(head + values.astype(np.uint8).tobytes()))


def test_networks_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The ten drawn digits and noise, in two requests: right ones are counted, every logit compared; the table says so."""
    import mnist
    import table

    from heliograph.cli import strokes

    digits = [strokes.drawn(digit) for digit in range(10)]
    images = np.stack([*digits, *np.random.default_rng(1).integers(0, 256, (30, 28, 28))])
    write_idx(tmp_path / "t10k-images-idx3-ubyte.gz", images)
    write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", np.array([*range(10), *[10] * 30]))
    out = tmp_path / "mine.json"
    monkeypatch.setattr(sys, "argv", ["mnist.py", "--mnist", str(tmp_path), "--only", "mnist-small", "--out", str(out)])
    mnist.main()
    (row,) = json.loads(out.read_text())["results"]
    assert (row["images"], row["requests"], row["right"], row["of"]) == (32, 2, 10, 40)
    assert row["exact"]
    assert 0 < row["least_noise_bits"] < 106
    assert min(row[f"{step}_s"] for step in ("encrypt", "run", "decrypt")) > 0
    assert "10 of 40 right, every logit exact" in capsys.readouterr().out
    found = table.by_kind([out])
    assert any(
        "| mnist-small | N=4,096, log q 106, w32 | 32 |" in text
        for text in table.WHOLE["mnist figures"](found["mnist figures"])
    )


def test_queries_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each exact; an answer that is not makes the program fail, and is written."""
    import mnist
    import run as runner

    out = tmp_path / "mine.json"
    monkeypatch.setattr(sys, "argv", ["mnist.py", "--only", "where,look-up-8x8", "--out", str(out)])
    monkeypatch.setattr(mnist, "RUNS", 1)
    mnist.main()
    assert [(row["query"], row["exact"]) for row in json.loads(out.read_text())["results"]] == [
        ("where", True),
        ("look-up-8x8", True),
    ]
    program = runner.example("query", "query")
    monkeypatch.setattr(program, "where", lambda groups, amounts, asked: amounts.reshape(1).broadcast_to((2,)))
    with pytest.raises(SystemExit, match="is not what the clear computation gives"):
        mnist.main()
    assert [row["exact"] for row in json.loads(out.read_text())["results"]] == [False, True]
    monkeypatch.setattr(sys, "argv", ["mnist.py", "--only", "mnist-small"])
    with pytest.raises(SystemExit, match="say --mnist FOLDER"):
        mnist.main()


def test_cycles_have_a_table_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulated device's: its seconds are a simulation's and stand in no other table."""
    import mnist
    import table

    import heliograph as hg

    out = tmp_path / "rtl.json"
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
    lines = table.WHOLE["mnist figures"](table.by_kind([out])["mnist figures"])
    row = next(text for text in lines if "an entry by an encrypted key, 8 x 8" in text)
    assert "| 4,000,000 | 4,040,000 | 20 ms (200 MHz) | 3.0, 0.5 MB | ntt 75% |" in row
    assert sum("8 x 8" in text for text in lines) == 1
