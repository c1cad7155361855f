"""Runs the fuzz test of the Python interface (tests/fuzz/python_face.py) on its corpus and on random inputs."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import pytest

import campaign
import python_face
import resign


def test_the_corpus() -> None:
    """The corpus has earlier findings and inputs for each kind of call. The corpus gives no untyped error."""
    inputs = campaign.corpus()["python-face"].values()
    ways = Counter(python_face.face(data).split(":")[0] for data in inputs)
    assert set(ways) == {way.__name__ for way in python_face.WAYS}


def test_random_inputs() -> None:
    """A few hundred random inputs give no untyped error; a failure states its seed."""
    seed = random.SystemRandom().randrange(1 << 32)
    ends: Counter[str] = Counter()
    for number in range(400):
        data = random.Random(f"{seed}:{number}").randbytes(96)
        try:
            ends[python_face.face(data)] += 1
        except Exception as e:
            pytest.fail(f"seed {seed}, case {number}, input {data.hex()}: {type(e).__name__}: {e}")
    assert sum(ends.values()) == 400
    assert sum(count for how, count in ends.items() if how.endswith("done")) > 40


def test_equal_bytes_give_equal_calls() -> None:
    """Equal bytes give equal calls; after the end of the input, all draws are 0."""
    assert [python_face.Draws(b"abc").getrandbits(8) for _ in range(2)] == [ord("a")] * 2
    draws = python_face.Draws(b"\xff")
    assert (draws.getrandbits(4), draws.getrandbits(64), draws.random()) == (15, 0, 0.0)
    assert draws.sample(range(100), 3) == [0, 1, 2]  # a draw from an exhausted input ends, too
    assert repr(python_face.Draws(bytes(range(64))).value()) == repr(python_face.Draws(bytes(range(64))).value())


def test_the_corpus_is_small() -> None:
    """For every target, the corpus has few inputs of a few KiB each."""
    for target, inputs in campaign.corpus().items():
        assert 0 < len(inputs) <= 40, target
        assert max(map(len, inputs.values())) <= campaign.SMALL, target


def test_packed_inputs_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs are packed and read again, and are unpacked into one folder per target."""
    inputs = campaign.corpus()
    monkeypatch.setattr(campaign, "CORPUS", tmp_path / "corpus.tar.xz")
    campaign.pack(inputs)
    assert campaign.corpus() == inputs
    campaign.unpack(tmp_path)
    assert {name: path.read_bytes() for name in inputs["json"] for path in [tmp_path / "json" / name]} == inputs["json"]


def test_the_page_has_the_counts_of_the_results() -> None:
    """docs/fuzzing.md has the counts of benchmarks/results/fuzz.jsonl."""
    told = campaign.read(campaign.RESULTS)
    text = campaign.PAGE.read_text()
    assert campaign.page(told, text) == text


def test_counts_add_up() -> None:
    """Counts of two runs are merged into one file."""
    one = {"json": {"executions": 5, "edges": 7, "features": 9, "corpus": 1, "faults": 0, "seconds": 2}}
    two = {"json": {"executions": 6, "edges": 5, "features": 10, "corpus": 3, "faults": 1, "seconds": 2}}
    both = campaign.merged(one, two)["json"]
    assert both == {"executions": 11, "edges": 7, "features": 10, "corpus": 3, "faults": 1, "seconds": 4}


def test_counts_of_several_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of counts states which commits ran, and on which machine. Files of other machines are added to the results."""
    counts = {"json": {"executions": 5, "edges": 7, "features": 9, "corpus": 1, "faults": 0, "seconds": 2}}
    campaign.record(tmp_path / "one.jsonl", counts, ["abc1234, a machine"])
    campaign.record(tmp_path / "two.jsonl", counts, ["def5678, another, 64 cores"])
    monkeypatch.setattr(campaign, "RESULTS", tmp_path / "results.jsonl")
    monkeypatch.setattr(sys, "argv", ["campaign.py", "counts", str(tmp_path / "one.jsonl"), str(tmp_path / "two.jsonl")])
    assert campaign.main() == 0
    told = campaign.read(tmp_path / "results.jsonl")
    assert (told["commit"], told["targets"]["json"]["executions"]) == ("abc1234, def5678", 10)
    assert "Ran at abc1234, a machine; def5678, another, 64 cores." in campaign.table(told)


def test_doubles_are_written_like_the_engines() -> None:
    """Doubles are written in the same form as by the engine."""
    told = [(0.0, "0.0"), (-0.0, "-0.0"), (1e300, "1e+300"), (5e-324, "5e-324"), (0.5, "0.5"), (-22.0, "-22.0")]
    told += [(2.0**60, "1152921504606846976.0"), (1e-5, "1e-05"), (123456.0, "123456.0")]
    for value, text in told:
        assert resign.double_text(value) == text
