"""On the simulated co-processor, networks and queries give the answers of cores within a limit of cycles."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import heliograph as hg
from heliograph import nn
from heliograph.cli import demo, pen_digits

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "query" / "query.py"


def reason_for_none() -> str:
    """Returns why there is no simulated co-processor, or ""."""
    try:
        nn.setup("mnist-small").parameters()._core.on_device("rtl")
    except hg.HeliographError as error:
        return str(error)
    return ""


pytestmark = pytest.mark.skipif(bool(reason_for_none()), reason=reason_for_none() or "the co-processor is available")


def exchange(tmp_path: Path, name: str, images: np.ndarray) -> demo.Exchange:
    """Sends one request to a server that computes on the card."""
    at = demo.Folders(tmp_path / "client", tmp_path / "shared")
    for folder in (at.client, at.shared):
        folder.mkdir()
    return demo.exchange(nn.setup(name), [images], at, "rtl")


def require_counted(cycles: hg.Cycles, most: int) -> None:
    """Checks that cycles are at most `most`, near the prediction of the model, and counted at the assumed clock rate."""
    assert 0 < cycles.cycles <= most
    assert abs(cycles.predicted / cycles.cycles - 1) < 0.02
    assert cycles.clock == 200e6
    assert all(0 <= busy <= cycles.cycles for busy in cycles.busy.values())


def test_the_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ten digits in one request take less than 50 ms at 200 MHz."""
    at = demo.Folders(tmp_path / "client", tmp_path / "shared")
    for folder in (at.client, at.shared):
        folder.mkdir()
    demo.classify_pen_digits(at, "rtl")
    said = capsys.readouterr().out
    assert all(f"read as {digit}, is {digit}" in said for digit in range(10))
    assert "every logit equals the clear network's" in said
    found = re.search(r"classifying: ([\d,]+) cycles, [\d.]+ ms at an assumed 200 MHz; busy: ", said)
    assert found
    assert 10**6 < int(found[1].replace(",", "")) <= 10**7


def query(*line: str) -> int:
    """Runs examples/query on the card, checks the answer, and returns the cycles."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *line, "--device", "rtl"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\nas in the clear" in done.stdout
    found = re.search(r"^([\d,]+) cycles, [\d.]+ ms at an assumed 200 MHz$", done.stdout, re.MULTILINE)
    assert found
    return int(found[1].replace(",", ""))


def test_a_look_up() -> None:
    """A look-up in a table of 8 x 8 is right and stays within its limit of cycles."""
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
    """A sum over 4,096 rows and look-ups in large tables are right and stay within their limits of cycles."""
    assert query(*line.split()) <= most


@pytest.mark.full
@pytest.mark.parametrize(("name", "count", "most"), [("mnist-small", 32, 10_000_000), ("mnist-packed/w32", 1, 51_000_000)])
def test_networks(name: str, count: int, most: int, tmp_path: Path) -> None:
    """For a full request and with the packing of the published design, every logit equals the unencrypted network's."""
    images = np.stack([pen_digits.render(digit % 10) for digit in range(count)])
    done = exchange(tmp_path, name, images)
    np.testing.assert_array_equal(done.logits[0], nn.setup(name).load().clear_logits(images))
    (cycles,) = done.cycles
    require_counted(cycles, most)


def test_sets_of_other_words_are_refused(tmp_path: Path) -> None:
    """A set of another word size is refused; the error names the set that fits."""
    with pytest.raises(hg.HeliographError, match=r"the server failed: .*use a set of 32-bit words"):
        exchange(tmp_path, "mnist-packed", np.stack([pen_digits.render(3)]))
