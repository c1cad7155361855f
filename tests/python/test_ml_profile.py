"""Cost profiles: measured rows, interpolation by work, files."""

from __future__ import annotations

import doctest
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import heliograph as hg
from heliograph.cli.commands import commands
from heliograph.ml import canonical as canonical_form
from heliograph.ml import costs
from heliograph.ml import profile as profiles
from heliograph.ml.profile import OPERATIONS, Plan, Profile, Row, measure, names, not_negative, profile_of

SMALL = [Plan((), (("depth", 2), ("precision", 20), ("slots", 512), ("word_size", 64)))]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure one small set, for a short time."""
    monkeypatch.setattr(profiles, "plans", lambda bootstrap, word_size: SMALL)
    monkeypatch.setattr(profiles, "_LONGEST_RUN", 0.002)


def test_a_measured_profile(small: None, tmp_path: Path) -> None:
    """Each operation is measured at several levels; a file gives the same rows."""
    lines: list[str] = []
    made = measure("here", bootstrap=None, batches=(1, 2), report=lines.append)
    assert {row.operation for row in made.rows} == set(OPERATIONS) - {"bootstrap"}
    assert {row.batch for row in made.rows if row.operation == "product"} == {1, 2}
    assert len(lines) == 1
    made.save(tmp_path / "here.json")
    read = profile_of(tmp_path / "here.json")
    assert (read.name, read.device, len(read.rows)) == (made.name, made.device, len(made.rows))
    assert "free" not in made.device
    rates = read.rates(hg.ckks.parameters(depth=2, precision=20, slots=512))
    assert 0 < rates.addition(2) < rates.product(3)
    assert rates.transform(3, range(64), 8) >= rates.transform(3, range(8), 8) > 0


def test_the_command(small: None, tmp_path: Path) -> None:
    """`heliograph profile` writes the file, and refuses to replace one."""
    out = tmp_path / "here.json"
    options = ["profile", "--out", str(out), "--bootstrap", "none", "--batches", "1", "--processor-time"]
    done = CliRunner().invoke(commands, options)
    assert done.exit_code == 0, done.output
    assert Profile.load(out).name == "here"
    assert "processor time" in Profile.load(out).device
    assert CliRunner().invoke(commands, options).exit_code != 0
    for wrong in (["--batches", "x"], ["--word-sizes", "48"]):
        assert CliRunner().invoke(commands, [*options, "--force", *wrong]).exit_code != 0


def test_the_parts_of_matrices() -> None:
    """Seconds of parts are never negative, and exact where the measurements are."""
    shares = np.array([[1, 1, 0, 2], [1, 7, 0, 8], [1, 1, 7, 8], [1, 7, 3, 32], [1, 7, 7, 64]], float)
    parts = np.array([0.5, 0.1, 0.2, 0.01])
    assert not_negative(shares, shares @ parts) == pytest.approx(parts)
    noisy = not_negative(shares, shares @ np.array([0.5, 0.0, 0.2, 0.01]) * [1.1, 0.9, 1, 1, 1])
    assert (noisy >= 0).all()


def test_interpolation() -> None:
    """Seconds follow the work between measurements, and are proportional beyond the largest."""
    rows = (Row("rotation", 64, 1, 100, 1.0), Row("rotation", 64, 1, 10_000, 10.0), Row("rotation", 64, 4, 100, 0.5))
    profile = Profile("p", "d", rows)
    for work, batch, seconds in ((100, 1, 1), (1000, 1, 10**0.5), (100_000, 2, 50000**0.5), (1, 1, 1), (100, 64, 0.5)):
        assert profile.seconds("rotation", work, batch=batch) == pytest.approx(seconds)
    with pytest.raises(hg.ParameterError, match=r"no measurement of rotation with 32-bit words, only rotation \(64-bit\)"):
        profile.seconds("rotation", 100, word_size=32)
    with pytest.raises(hg.ParameterError, match="no measurement of bootstrap"):
        profile.rates(hg.ckks.parameters("n15-b4")).bootstrap()


def test_shipped_profiles() -> None:
    """Shipped profiles load; seconds grow with the level and with the number of diagonals."""
    assert "two-cores" in names()
    p = hg.ckks.parameters("n15-b4")
    for name in names():
        rates = profile_of(name).rates(p)
        assert rates.product(2) < rates.product(p.levels) < rates.bootstrap()
        assert rates.parts(5, 10, 3, 1) < rates.parts(5, 100, 3, 1)
        # On a GPU one rotation of a small set takes the latency of its kernels, with either key.
        assert profile_of(name).rates(p, key_level=2).rotation(2) < 1.2 * rates.rotation(2)
    assert profile_of().name in names()
    assert profile_of(profile_of("two-cores")).name == "two-cores"
    with pytest.raises(hg.ParameterError, match="there is no profile 'h9000', only"):
        profile_of("h9000")


def test_recorded_bootstraps() -> None:
    """The work of a bootstrap is that of its recording; sets without bootstrapping have none."""
    counter = profile_of("two-cores").rates(hg.ckks.parameters("n15-b4")).counter
    assert counter.bootstrap().products > 50 * counter.rotation(7).products
    with pytest.raises(hg.ParameterError, match="no bootstrapping"):
        profile_of("two-cores").rates(hg.ckks.parameters(depth=2, precision=20, slots=512)).bootstrap()


@pytest.mark.parametrize("module", [canonical_form, costs, profiles])
def test_examples(module: Any) -> None:
    """The examples of docstrings run."""
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert not found.failed


GOOD: dict[str, Any] = {
    "kind": "heliograph.profile",
    "format": 1,
    "name": "a",
    "device": "b",
    "rows": [{"operation": "product", "word_size": 64, "batch": 1, "work": 5, "seconds": 0.5}],
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "x"}, "kind and format"),
        ({"format": 2}, "kind and format"),
        ({"more": 1}, "fields must be"),
        ({"name": 3}, "must be texts"),
        ({"rows": [3]}, "a row must have the fields"),
        ({"rows": [GOOD["rows"][0] | {"work": 0}]}, "positive integers"),
        ({"rows": [GOOD["rows"][0] | {"work": True}]}, "positive integers"),
        ({"rows": [GOOD["rows"][0] | {"operation": "sum"}]}, "known operation"),
        ({"rows": [GOOD["rows"][0] | {"seconds": float("nan")}]}, "seconds must be positive"),
        ({"rows": [GOOD["rows"][0] | {"seconds": -1}]}, "seconds must be positive"),
    ],
)
def test_damaged_files(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    """Other files are refused."""
    path = tmp_path / "p.json"
    path.write_text(json.dumps(GOOD))
    assert Profile.load(path).rows[0].seconds == 0.5
    path.write_text(json.dumps(GOOD | change))
    with pytest.raises(hg.FormatError, match=words):
        Profile.load(path)
    path.write_text("[" * 5000)
    with pytest.raises(hg.FormatError, match="not JSON"):
        Profile.load(path)
