"""Makes random changes in files and recomputes the digest (resign.py), for a limited time and from a seed that failures
report.
"""

from __future__ import annotations

import math
import random

import pytest

import heliograph as hg
import resign
from resign_uses import OTHER, bases, parties, use, uses_of

#: The seconds in the full suite and the number of cases in the usual suite; `python tests/python/resign.py` runs more cases.
SECONDS = 45
CASES = 600


def test_unchanged_files_are_used() -> None:
    """The tests write files in the same way as the engine, and files without changes are read and used."""
    for name, data in bases().items():
        assert resign.signed(resign.take_apart(data)) == data, name
        for draw in range(4):
            found = use(name, data, random.Random(draw))
            assert found["read"] == 1, name
            assert found["uses done"] >= (1 if name.startswith(f"{OTHER}/") else 3), name


def test_cases_depend_on_their_seed_only() -> None:
    """Cases depend only on their seed."""
    assert [resign.case(bases(), 5, i) for i in range(50)] == [resign.case(bases(), 5, i) for i in range(50)]
    assert len({resign.case(bases(), 5, i)[1] for i in range(50)}) > 45


@pytest.mark.parametrize(
    ("body", "how"), [("import os; os.kill(os.getpid(), 11)", "SIGSEGV"), ("raise ValueError('not typed')", "ValueError")]
)
def test_crashes_and_untyped_errors_are_reported(
    body: str, how: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child process that crashes and an untyped error are reported with their case. The other cases continue."""
    script = f"""
import resign, resign_uses
true = resign_uses.use
def use(name, data, draw):
    if data == resign.case(resign_uses.bases(), 3, 4)[1]:
        {body}
    return true(name, data, draw)
resign_uses.use = use
resign.work(3, range(FIRST, 8), 1e12)
"""
    real = resign.subprocess.Popen

    def begin(command: list[str], **options: object) -> object:
        first = command[-1].split(":")[1]
        return real([command[0], "-c", script.replace("FIRST", first)], **options)  # type: ignore[call-overload]

    monkeypatch.setattr(resign.subprocess, "Popen", begin)
    report = resign.campaign(3, 8)
    assert [fault.number for fault in report.faults] == [4]
    assert how in report.faults[0].what
    assert report.cases == 8


@pytest.mark.parametrize(("cases", "seconds"), [(CASES, math.inf), pytest.param(1_000_000, SECONDS, marks=pytest.mark.full)])
def test_resigned_files(cases: int, seconds: float) -> None:
    """Changed files with a valid digest cause no crash, no hang and no untyped error."""
    seed = random.SystemRandom().randrange(1 << 32)
    report = resign.campaign(seed, cases, seconds)
    print(f"seed {seed}: {report}")
    assert not report.faults, f"seed {seed}: " + "\n".join(f"case {f.number}: {f.what}" for f in report.faults)
    assert report.cases > 500
    assert report.counts["read"] > report.cases / 20  # many of the files are read and used
    assert report.counts["DamagedFileError"] > report.cases / 10


def test_uses_of_every_kind() -> None:
    """Each class of objects has its own uses."""
    p = parties()["bfv"]
    for thing in (p.x, p.keys, p.secret, p.secret.public_key()):
        assert len(uses_of(thing, p, random.Random(0))) >= 4
    assert isinstance(p.x, hg.Tensor)
