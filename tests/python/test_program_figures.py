"""Operands of recorded programs have noise estimates and bounds. New estimates or bounds need no new recording, and results
have the estimates and bounds of the function.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ckks_rig
import heliograph as hg
import rigs
from heliograph import _core
from program_rig import Party, opened, said, same

DEVICES = ["cpu", "null", "3*cpu/costs=1e3:300e9:12e-6:1e-6:8e-6", "cuda:0", "cuda:0,cuda:1"]


@pytest.fixture(scope="module")
def party() -> Party:
    """Returns BFV's party on the default device."""
    return Party(hg.bfv.Parameters(_core.exact.Parameters(rigs.specs("w64"))))


def calls(f: hg.Program) -> list[int]:
    """Returns the number of replays for each recording."""
    return [core.replays for core in f._calls]


@pytest.mark.parametrize("scheme", ["bfv", "bgv"])
@pytest.mark.parametrize("device", DEVICES)
def test_noisier_operands_need_no_new_recording(scheme: str, device: str) -> None:
    p = Party(opened(scheme, device))

    def function(x: Any) -> Any:
        return hg.rotate_rows(hg.relinearize(x * x), 1) + x - 3

    f = hg.program(function)
    x, other = p.tensor([1, 2, 3]), p.tensor([7, 8, 9])
    operands = [x, x + other, x + other + other, -x - other]
    for number, operand in enumerate(operands, start=1):
        for _ in range(2):
            same(f(operand), function(operand))
        assert f.recordings == 1
        assert f.replays == 2 * number - 1


def test_operands_without_trusted_bounds(party: Party) -> None:
    f = hg.program(lambda x: hg.relinearize(x * x) + x)
    x = party.tensor([1, 2, 3])
    loaded = party.server.from_bytes(x.to_bytes())
    for operand in (x, loaded, loaded + x, x + x):
        for _ in range(2):
            same(f(operand), hg.relinearize(operand * operand) + operand)
            assert f(operand).is_trusted == operand.is_trusted
    assert f.recordings == 1


@pytest.mark.parametrize("word_size", [64, 32])
def test_ckks_sizes_and_scales(word_size: int) -> None:
    p = ckks_rig.party(word_size)

    def function(x: Any, y: Any) -> Any:
        return hg.ckks.rotate(x * y, 1) + x

    f = hg.program(function)
    y = p.tensor(ckks_rig.real(2, seed=3))
    for number, size in enumerate([1, 4.5, 17, 0.25], start=1):
        x = p.tensor(ckks_rig.real(2, seed=number, size=size))  # this process knows bounds of the values that it encrypted
        same(f(x, y), function(x, y))
        assert f.recordings == 1
        assert f.replays == number - 1
    deeper, shallower = x * y * y, y * x
    for a, b in ((deeper, deeper), (deeper, shallower), (shallower, deeper)):
        same(f(a, b), function(a, b))
        same(f(a, b), function(a, b))


def test_operands_of_another_scale_are_recorded_again() -> None:
    p = ckks_rig.party()

    def function(x: Any) -> Any:
        return x + 0.25

    f = hg.program(function)
    x = p.tensor(ckks_rig.real())
    other = hg.ckks.multiply(x, x, rescale=False)  # the same level, but another scale
    assert other.level == x.level
    for operand in (x, other, x + x, other + other, x, other):
        same(f(operand), function(operand))
    assert f.recordings == 2


def test_results_may_be_operands_of_the_next_call(party: Party) -> None:
    """If a result is the operand of the next call, its noise estimate is new at each call. One recording for each level is
    enough, and its graph is kept.

    """

    def function(x: Any) -> Any:
        return x + x - 1

    f = hg.program(function, limit=1)
    x = y = party.tensor([1, 2])
    for _ in range(20):
        x, y = f(x), function(y)
        same(x, y)
    assert calls(f) == [19]

    def square(x: Any) -> Any:
        return hg.shrink(hg.relinearize(x * x) + x, x.level - 1) if x.level > 1 else hg.relinearize(x * x) + x

    g = hg.program(square)
    start = party.tensor([1, 1])
    levels = start.level
    for turn in range(3):
        x = y = start + start * turn  # the operand has more noise at each turn
        for _ in range(levels):
            x, y = g(x), square(y)
            same(x, y)
    assert calls(g) == [2] * levels


def test_functions_may_depend_on_noise_estimates(party: Party) -> None:
    limit = party.tensor([0]).noise_budget

    def function(x: Any) -> Any:
        return x * 3 + 1 if x.noise_budget > limit - 2 else hg.relinearize(x * x)

    f = hg.program(function)
    fresh = party.tensor([5])
    noisy = fresh
    for _ in range(6):
        noisy = noisy + noisy
    assert fresh.noise_budget > limit - 2 > noisy.noise_budget
    for operand in (fresh, noisy, fresh + fresh, noisy + fresh, fresh, noisy, noisy + noisy):
        same(f(operand), function(operand))
    assert f.recordings == 2


def test_constants_may_depend_on_noise_estimates(party: Party) -> None:
    """If a function's constants depend on a noise estimate, other constants need another recording, and equal constants do
    not.

    """
    limit = party.tensor([0]).noise_budget

    def function(x: Any) -> Any:
        weights = np.arange(rigs.N) if x.noise_budget > limit - 2 else np.arange(rigs.N)[::-1]
        return x * party.server.encode(weights.copy())

    f = hg.program(function)
    fresh = party.tensor([5])
    noisy = fresh + fresh + fresh + fresh + fresh + fresh + fresh + fresh
    operands = (fresh, fresh - party.tensor([1]), noisy, noisy + noisy, fresh + fresh)
    for operand in operands:
        same(f(operand), function(operand))
    assert f.recordings == 2
    captured = party.tensor([9])

    def shifted(x: Any) -> Any:
        return x + captured

    g = hg.program(shifted)
    for operand in operands:
        same(g(operand), shifted(operand))
    assert g.recordings == 1
    captured = party.tensor([10])
    for operand in (noisy - fresh, noisy - fresh - fresh):
        same(g(operand), shifted(operand))  # a dry run computes the new estimates
    assert g.recordings == 2


def test_tensors_of_a_dry_run_cannot_be_read(party: Party) -> None:
    kept: list[Any] = []

    def function(x: Any) -> Any:
        y = hg.relinearize(x * x)
        kept.append(y)
        return y + 1

    f = hg.program(function)
    x = party.tensor([3])
    f(x)
    f(x + x)
    assert f.replays == 1
    same(kept[0], hg.relinearize(x * x))  # this run was a computation, so its tensors hold data
    for use in (party.secret.decrypt, lambda t: t + t, lambda t: t.to_bytes(), hg.program(lambda t: t + 1)):
        with pytest.raises(hg.RecordingError, match="holds no data"):
            use(kept[1])


def test_errors_of_a_function_depend_on_noise_estimates(party: Party) -> None:
    limit = party.tensor([0]).noise_budget

    def function(x: Any) -> Any:
        if x.noise_budget < limit - 2:
            raise hg.NoiseError("too noisy for me")
        return x + 1

    f = hg.program(function)
    x = party.tensor([1])
    f(x)
    noisy = x
    for _ in range(6):
        noisy = noisy + noisy
    with pytest.raises(hg.NoiseError, match="too noisy for me"):
        f(noisy)
    same(f(x + x), x + x + 1)
    looked = hg.program(lambda x: (party.secret.decrypt(x), x)[1] if x.noise_budget < limit - 2 else x + 1)
    looked(x)
    with pytest.raises(hg.RecordingError, match="reads a value"):
        looked(noisy)


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_programs_in_programs(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a program is replayed during a recording, its calls are recorded, even if it has a graph."""
    monkeypatch.setenv("HELIOGRAPH_REPLAY", "batched")
    p = Party(opened("bfv", device))
    weights = np.arange(rigs.N)

    def square(x: Any) -> Any:
        return hg.relinearize(x * x) * p.server.encode(weights)

    inner = hg.program(square)
    outer = hg.program(lambda x: inner(x) + x)
    x = p.tensor([1, 2])
    for operand in (x, x, x + x, x + x, x - x, p.tensor([3, 4])):
        same(outer(operand), square(operand) + operand)
        same(inner(operand), square(operand))
    assert outer.recordings == 1
    assert inner.recordings == 1
    fresh = hg.program(lambda x: inner(x) - x)
    for operand in (x, p.tensor([5, 6]), x + x):
        same(fresh(operand), square(operand) - operand)


def test_records_of_noise_estimates_are_distinguished(party: Party) -> None:
    x = party.tensor([1])
    assert said(party.tensor([2])) == said(party.tensor([3]))
    assert said(x) != said(x + x)
