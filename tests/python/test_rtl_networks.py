"""Networks and queries on the simulated co-processor: the same answers as on cores, in so many cycles."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import heliograph as hg
from heliograph import nn
from heliograph.cli import demo, strokes

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "query" / "query.py"


def reason_for_none() -> str:
    """Why there is no simulated co-processor here; empty where there is one."""
    try:
        nn.setup("mnist-small").parameters()._core.on_device("rtl")
    except hg.HeliographError as error:
        return str(error)
    return ""


pytestmark = pytest.mark.skipif(bool(reason_for_none()), reason=reason_for_none() or "it is there")


def exchange(tmp_path: Path, name: str, images: np.ndarray) -> demo.Exchange:
    """One request, answered by a server on the card."""
    at = demo.Folders(tmp_path / "client", tmp_path / "shared")
    for folder in (at.client, at.shared):
        folder.mkdir()
    return demo.exchange(nn.setup(name), [images], at, "rtl")


def require_counted(cycles: hg.Cycles, most: int) -> None:
    """No more cycles than that, about as many as the model says, at the assumed clock."""
    assert 0 < cycles.cycles <= most
    assert abs(cycles.predicted / cycles.cycles - 1) < 0.02
    assert cycles.clock == 200e6
    assert all(0 <= busy <= cycles.cycles for busy in cycles.busy.values())


def test_the_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten digits in one request, in less than 50 ms at 200 MHz."""
    at = demo.Folders(tmp_path / "client", tmp_path / "shared")
    for folder in (at.client, at.shared):
        folder.mkdir()
    demo.drawn_digits(at, "rtl")
    said = capsys.readouterr().out
    assert all(f"read as {digit}, is {digit}" in said for digit in range(10))
    assert "every logit equals the clear network's" in said
    found = re.search(r"classifying: ([\d,]+) cycles, [\d.]+ ms at an assumed 200 MHz; busy: ", said)
    assert found
    assert 10**6 < int(found[1].replace(",", "")) <= 10**7


def query(*line: str) -> int:
    """Cycles of examples/query on the card, whose answer is the clear one."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *line, "--device", "rtl"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nas in the clear" in done.stdout
    found = re.search(r"^([\d,]+) cycles, [\d.]+ ms at an assumed 200 MHz$", done.stdout, re.MULTILINE)
    assert found
    return int(found[1].replace(",", ""))


def test_a_look_up() -> None:
    """In a table of 8 x 8."""
    assert 10**5 < query("look-up", "--key", "63") <= 2 * 10**6


@pytest.mark.full
@pytest.mark.parametrize(
    ("line", "most"),
    [
        ("where --value 7", 14_600_000),
        ("look-up --rows 64 --columns 64", 8_500_000),
        ("look-up --rows 64 --columns 4096", 8_500_000),
    ],
)
def test_larger_queries(line: str, most: int) -> None:
    """A sum of 4,096 rows; large tables."""
    assert query(*line.split()) <= most


@pytest.mark.full
@pytest.mark.parametrize(("name", "count", "most"), [("mnist-small", 32, 10_000_000), ("mnist-packed/w32", 1, 51_000_000)])
def test_networks(name: str, count: int, most: int, tmp_path: Path) -> None:
    """A full request; the slides' shape. Every logit the clear network's."""
    images = np.stack([strokes.drawn(digit % 10) for digit in range(count)])
    done = exchange(tmp_path, name, images)
    np.testing.assert_array_equal(done.logits[0], nn.setup(name).load().clear_logits(images))
    (cycles,) = done.cycles
    require_counted(cycles, most)


def test_sets_of_other_words_are_refused(tmp_path: Path) -> None:
    """By an error that says which ones fit."""
    with pytest.raises(hg.HeliographError, match=r"the server failed: .*take a set of word w32"):
        exchange(tmp_path, "mnist-packed", np.stack([strokes.drawn(3)]))
