"""Recorded programs on a mesh: each call is placed on a member, and the bits are those of one device."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

import ckks_rig
import heliograph as hg
import rigs
import tfhe_rig
from alike import in_threads
from heliograph import _core
from program_rig import Party, opened, same

SLOW = (
    # members are declared so slow that several are faster than one; limbs are not distributed
    "/costs=1e3:300e9:12e-6:1e-6:1e-4"
)
DEVICES = [
    f"2*cpu{SLOW}",
    f"3*ref{SLOW}",
    f"cpu,ref,cpu{SLOW}",
    f"3*cpu{SLOW}/weights=4:1:1",
    f"2*cpu{SLOW}/slowdown=1:30",
    f"3*cpu{SLOW}/slowdown=30:1:1",
    f"2*cpu{SLOW}/staged",
    "2*cpu/uncalibrated",
]


@pytest.fixture(params=["calls", "members' programs"])
def replays(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Sets how members run their calls: one by one or as graphs. Only in tests do members in host memory use graphs."""
    if request.param != "calls":
        monkeypatch.setenv("HELIOGRAPH_REPLAY", "batched")
    return str(request.param)


def _core_of(program: Any) -> Any:
    return next(reversed(program._recorded.values())).core


def _busy(program: Any) -> list[str]:
    """Returns the members that have work in the timeline."""
    return [member for member, events in _core_of(program).timeline if events]


def branches(x: Any, y: Any) -> tuple[Any, Any, Any]:
    """Computes three chains of different lengths that join, and a chain that continues alone."""
    a = hg.relinearize(x * y) + x
    b = hg.rotate_rows(hg.relinearize(hg.square(y)), 1)
    c = hg.rotate_rows(x, [1, 5])
    met = hg.relinearize(a * b) - c[1]
    return met, c[0] + a, hg.matmul([[2, -1], [1, 3]], hg.stack([b, c[0]]))


def spread(x: Any, y: Any) -> tuple[Any, Any]:
    """Computes on items that are distributed over all members, on single items, and on both together."""
    each = hg.relinearize(x * x) + 3
    one, two = hg.relinearize(each[0] * y[0]), hg.rotate_rows(x[-1], 1)
    return hg.relinearize(each * hg.stack([one] * x.shape[0])) - two, one + two


@pytest.mark.parametrize("scheme", ["bfv", "bgv"])
@pytest.mark.parametrize("device", DEVICES)
def test_branches_on_several_members_give_the_same_bits(scheme: str, device: str, replays: str) -> None:
    p = Party(opened(scheme, device))
    f = hg.program(branches)
    for turn in range(4):
        x, y = p.tensor(turn + 1), p.tensor(2 * turn)
        for found, expected in zip(f(x, y), branches(x, y), strict=True):
            same(found, expected)
    assert f.recordings == 1
    if SLOW in device and "weights" not in device:
        assert len(_busy(f)) > 1
    if replays != "calls" and SLOW in device and "weights" not in device:
        assert _core_of(f).graphs > 0  # the calls ran as graphs on the members


@pytest.mark.parametrize("device", [DEVICES[0], DEVICES[2], DEVICES[6]])
def test_inputs_distributed_over_all_members(device: str, replays: str) -> None:
    p = Party(opened("bfv", device))
    f = hg.program(spread)
    for count in (5, 2):
        for turn in range(3):
            x = p.tensor(np.arange(count) + turn)
            y = p.tensor(np.arange(count)[::-1].copy() + turn)[::-1]  # a reversed view
            for found, expected in zip(f(x, y), spread(x, y), strict=True):
                same(found, expected)


@pytest.mark.parametrize("device", [DEVICES[0], DEVICES[1]])
def test_results_are_inputs_of_the_next_replay(device: str, replays: str) -> None:
    """Results are valid operands of the next replay on any member. If a result is kept, it does not change."""
    p = Party(opened("bfv", device))

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        return hg.rotate_rows(x + y, 1) - y, hg.rotate_columns(y - x) + x

    f = hg.program(step)
    x, y = p.tensor(1), p.tensor(7)
    found, right, kept = (x, y), (x, y), []
    for _ in range(9):
        found, right = f(*found), step(*right)
        kept.append((found, right))
    for several in kept:
        for one, other in zip(*several, strict=True):
            assert one.to_bytes() == other.to_bytes()


@pytest.mark.parametrize("device", [DEVICES[0], DEVICES[3]])
def test_shared_constants_keys_and_operands(device: str, replays: str) -> None:
    p = Party(opened("bfv", device))
    other = Party(p.secret.parameters, bytes(reversed(rigs.SEED)))
    weights = p.tensor([3, 1, 4])

    def f(x: Any, y: Any) -> list[Any]:
        return [
            hg.relinearize(x * weights[0]) + 5,
            hg.relinearize(y * weights[1]) * 3,
            hg.sum(weights + x, axis=0),
            hg.rotate_rows(y, 5) - weights[2],
        ]

    program = hg.program(f)
    for turn in range(3):
        x, y = p.tensor(turn), p.tensor(9)
        for a, b in zip(program(x, y), f(x, y), strict=True):
            same(a, b)
        for a, b in zip(program(x, x), f(x, x), strict=True):
            same(a, b)
    g = hg.program(lambda x, y: (hg.rotate_rows(hg.relinearize(x * x), 1), hg.rotate_rows(hg.relinearize(y * y), 5)))
    for party in (p, other, p):
        x, y = party.tensor(2), party.tensor(3)
        for a, b in zip(g(x, y), g.function(x, y), strict=True):
            same(a, b)


@pytest.mark.parametrize("device", [DEVICES[0], DEVICES[1]])
def test_threads(device: str, replays: str) -> None:
    """Several threads may call one program at the same time."""
    p = Party(opened("bfv", device))
    f = hg.program(branches, p.tensor(1), p.tensor(2))
    operands = [(p.tensor(k), p.tensor(k + 3)) for k in range(4)]
    right = [[t.to_bytes() for t in branches(*pair)] for pair in operands]

    def called(k: int) -> None:
        for _ in range(4):
            assert [t.to_bytes() for t in f(*operands[k])] == right[k]

    in_threads(called, 4)


def _ckks_on(device: str) -> ckks_rig.Party:
    return ckks_rig.Party(hg.ckks.Parameters(ckks_rig.parameters()._core.on_device(device)), tuple(range(1, 9)))


@pytest.mark.parametrize("device", [DEVICES[0], DEVICES[2]])
def test_ckks(device: str, replays: str) -> None:
    """Members compute a matrix by baby and giant steps, a polynomial, and a residual sum beside another branch. The bits are
    those of the function.

    """
    p = _ckks_on(device)
    rng = np.random.default_rng(3)
    matrix = hg.ckks.LinearTransform(p.parameters, rng.uniform(-0.1, 0.1, (16, 16)), repeats=True)

    def block(x: Any, w: Any) -> tuple[Any, Any]:
        y = hg.ckks.polynomial(matrix @ x, [0.1, 0.5, 0.0, -0.2]) + x
        z = hg.ckks.rotate(w * w - 0.5, 1) * w
        return y, y * z - hg.ckks.rotate(x, [1, 2])[1]

    f = hg.program(block)
    for _ in range(3):
        values = np.tile(rng.uniform(-1, 1, (2, 16)), ckks_rig.SLOTS // 16)
        x, w = p.tensor(values[0]), p.tensor(values[1])
        for found, expected in zip(f(x, w), block(x, w), strict=True):
            same(found, expected)
    assert len(_busy(f)) > 1


@pytest.mark.parametrize("device", [DEVICES[0], f"3*cpu{SLOW}"])
def test_tfhe(device: str, replays: str) -> None:
    """Independent operations on integers on several members give the bits of the function."""
    own = tfhe_rig.parameters("digits")
    p = tfhe_rig.Party(hg.tfhe.Parameters(own._core.on_device(device)))

    def f(a: Any, b: Any, c: Any) -> tuple[Any, Any, Any]:
        return a + b, b * c, hg.tfhe.maximum(a, c) if hasattr(hg.tfhe, "maximum") else a - c

    program = hg.program(f)
    for turn in range(3):
        a, b, c = (np.array(v, np.uint8) for v in (200 + turn, 17, 99))
        x, y, z = p.tensor(a), p.tensor(b), p.tensor(c)
        for found, expected in zip(program(x, y, z), f(x, y, z), strict=True):
            assert np.array_equal(p.secret.decrypt(found), p.secret.decrypt(expected))
    assert len(_busy(program)) > 1


def test_loaded_programs(tmp_path: Any) -> None:
    """A saved program gives the same bits in another process that has several members."""
    p = Party(hg.bfv.Parameters(_core.exact.Parameters(rigs.specs("w64"))))
    x, y = p.tensor(3), p.tensor(4)
    program = hg.program(branches, x, y)
    program.save(tmp_path / "p.hgp")
    p.keys.save(tmp_path / "keys.hg"), x.save(tmp_path / "x.hg"), y.save(tmp_path / "y.hg")
    text = """
        import heliograph as hg
        server = hg.Server(hg.load("keys.hg"))
        x, y = (server.load(f"{name}.hg") for name in "xy")
        program = hg.Program.load("p.hgp")
        for turn in range(3):
            results = program(x, y)
        for i, result in enumerate(results):
            result.save(f"result{i}.hg")
        print(program)
    """
    expected = [p.secret.decrypt(r) for r in branches(x, y)]
    for replay in ("", "batched"):
        printed = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(text)],
            cwd=tmp_path,
            env={**os.environ, "HELIOGRAPH_DEVICE": f"3*cpu{SLOW}", "HELIOGRAPH_REPLAY": replay},
            check=True,
            timeout=120,
            capture_output=True,
            text=True,
        ).stdout
        assert printed.count(": busy ") > 1, printed
        for i, right in enumerate(expected):
            assert np.array_equal(p.secret.decrypt(hg.load(tmp_path / f"result{i}.hg")), right)


def test_the_timeline_shows_each_members_calls() -> None:
    p = Party(opened("bfv", DEVICES[0]))
    f = hg.program(branches, p.tensor(1), p.tensor(2))
    f(p.tensor(1), p.tensor(2))
    text = repr(f)
    assert len(re.findall(r"^  +cpu: busy [\d.e+]+ \w+ until [\d.e+]+ \w+: ", text, re.MULTILINE)) == 2
    assert "predicted" in text
    assert " fetch " in text
    lanes = _core_of(f).timeline
    seconds = _core_of(f).times[1]
    calls = [e for _, events in lanes for e in events if e[0] != "fetch"]
    assert len(calls) == sum(_core_of(f).calls.values())
    for _, events in lanes:
        for before, after in itertools.pairwise(events):
            assert before[2] <= after[1] + 1e-9
        assert all(0 <= start < end <= seconds * (1 + 1e-9) for _, start, end in events)
    # The makespan is below the sum of all calls, and at least half of this sum.
    busy = sum(end - start for _, start, end in calls)
    assert busy / 2 < seconds < busy
    alone = Party(opened("bfv", "cpu"))
    assert _core_of(hg.program(branches, alone.tensor(1), alone.tensor(2))).timeline == []


def test_a_long_timeline_is_shortened() -> None:
    p = Party(opened("bfv", DEVICES[0]))

    def sums(x: Any, y: Any) -> tuple[Any, Any]:
        for _ in range(40):
            x, y = x + x, y - x
        return x, y

    f = hg.program(sums, p.tensor(1), p.tensor(2))
    assert re.search(r"\.\.\. \d+ \w+(, \d+ \w+)* \.\.\.", repr(f))
    assert max(map(len, repr(f).splitlines())) < 600


def test_forecasts_know_several_devices() -> None:
    one, two = Party(opened("bfv", "cpu")), Party(opened("bfv", "2*cpu/costs=6e4:3e9:5e-5:5e-5:1e-5"))

    def f(x: Any, y: Any) -> Any:
        return hg.relinearize(x * y) + x, hg.relinearize(y * y) - y

    told = hg.forecast(f, two.tensor([1] * 4), two.tensor([2] * 4))
    assert told.seconds is not None
    assert 0 < told.floor < told.seconds
    assert "unknown" not in repr(told)
    alone = hg.forecast(f, one.tensor([1] * 4), one.tensor([2] * 4))
    assert told.calls == alone.calls
    hg.Costs(seconds=60).require(told)
    with pytest.raises(hg.LimitError):
        hg.Costs(seconds=1e-9).require(told)
