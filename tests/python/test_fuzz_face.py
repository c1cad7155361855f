"""The Python face under arguments of every kind (tests/fuzz/python_face.py): the corpus, and some random inputs."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

import campaign
import python_face
import resign

FUZZ = campaign.HERE


def test_the_corpus() -> None:
    """What was found once, and inputs of each way."""
    files = sorted((FUZZ / "corpus" / "python-face").iterdir())
    ways = Counter(python_face.face(path.read_bytes()).split(":")[0] for path in files)
    assert set(ways) == {way.__name__ for way in python_face.WAYS}


def test_random_inputs() -> None:
    """A few hundred, from a seed that is said."""
    seed = random.SystemRandom().randrange(1 << 32)
    ends: Counter[str] = Counter()
    for number in range(400):
        data = random.Random(f"{seed}:{number}").randbytes(96)
        try:
            ends[python_face.face(data)] += 1
        except Exception as e:
            pytest.fail(f"seed {seed}, case {number}, {data.hex()}: {type(e).__name__}: {e}")
    assert sum(ends.values()) == 400
    assert sum(count for how, count in ends.items() if how.endswith("done")) > 40


def test_draws_are_the_input() -> None:
    """Equal bytes give equal calls; after their end there are zeros."""
    assert [python_face.Draws(b"abc").getrandbits(8) for _ in range(2)] == [ord("a")] * 2
    draws = python_face.Draws(b"\xff")
    assert (draws.getrandbits(4), draws.getrandbits(64), draws.random()) == (15, 0, 0.0)
    assert draws.sample(range(100), 3) == [0, 1, 2]  # and ends
    assert repr(python_face.Draws(bytes(range(64))).value()) == repr(python_face.Draws(bytes(range(64))).value())


@pytest.mark.parametrize("target", sorted(p.name for p in (FUZZ / "corpus").iterdir()))
def test_the_corpus_is_small(target: str) -> None:
    """Some KiB each, and not many."""
    sizes = [path.stat().st_size for path in (FUZZ / "corpus" / target).iterdir()]
    assert 0 < len(sizes) <= 40
    assert max(sizes) <= campaign.SMALL


def test_the_page_has_the_counts_of_the_results() -> None:
    """docs/fuzzing.md is what benchmarks/results/fuzz.json says."""
    told = json.loads(campaign.RESULTS.read_text())
    text = campaign.PAGE.read_text()
    assert campaign.page(told, text) == text


def test_counts_add_up() -> None:
    """Two runs into one file."""
    one = {"json": {"executions": 5, "edges": 7, "features": 9, "corpus": 1, "faults": 0, "seconds": 2}}
    two = {"json": {"executions": 6, "edges": 5, "features": 10, "corpus": 3, "faults": 1, "seconds": 2}}
    both = campaign.merged(one, two)["json"]
    assert both == {"executions": 11, "edges": 7, "features": 10, "corpus": 3, "faults": 1, "seconds": 4}


def test_texts_of_doubles() -> None:
    """As the engine writes them."""
    told = [(0.0, "0.0"), (-0.0, "-0.0"), (1e300, "1e+300"), (5e-324, "5e-324"), (0.5, "0.5"), (-22.0, "-22.0")]
    told += [(2.0**60, "1152921504606846976.0"), (1e-5, "1e-05"), (123456.0, "123456.0")]
    for value, text in told:
        assert resign.double_text(value) == text
