"""Closed-form counts equal those of programs recorded on the `null` device."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import heliograph as hg
from heliograph.ml import costs
from heliograph.ml.costs import Counter, Counts
from heliograph.ml.networks.sets import NAMED
from heliograph.programs.forecast import recorded

ROTATIONS = [1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32, 40]
SETS: dict[str, dict[str, Any]] = {
    "64-bit": {"depth": 4, "precision": 30, "slots": 1024},
    "one digit": {"depth": 1, "precision": 30, "slots": 2048},
    "32-bit": {"depth": 4, "precision": 24, "slots": 512, "word_size": 32},
    "named": {"name": "n13-l4"},
    "deep": {"depth": 9, "precision": 22, "slots": 256},
}


class Trial:
    """A set on the `null` device, with keys."""

    def __init__(self, name: str) -> None:
        options = dict(SETS[name])
        made = hg.ckks.parameters(*filter(None, [options.pop("name", None)]), **options)
        self.parameters = type(made)(made._core.on_device("null"))
        secret = hg.SecretKey.generate(self.parameters)
        self.keys = secret.evaluation_keys(relinearize=True, rotations=ROTATIONS)
        self.x = hg.Server(self.keys).bind(secret.encrypt(np.zeros(self.parameters.slots)))
        self.counter = Counter(made)

    def at(self, level: int) -> Any:
        """Return a ciphertext of a level."""
        return self.x.lower(level) if level < self.x.level else self.x


@functools.cache
def trial_of(name: str) -> Trial:
    """Return the set of a name, made once."""
    return Trial(name)


def counted(function: Any, x: Any) -> Counts:
    """Return the counts of a recording."""
    program, _ = recorded(function, x)
    return Counts(dict(program.calls), program.products)


@pytest.fixture(scope="module", params=list(SETS))
def trial(request: pytest.FixtureRequest) -> Trial:
    """A set of each kind."""
    return trial_of(request.param)


def test_operations(trial: Trial) -> None:
    """Sums, products and rotations at each level."""
    for level in range(2, trial.parameters.levels + 1):
        x = trial.at(level)
        assert counted(lambda a: a + a, x) == trial.counter.addition(level)
        assert counted(lambda a: a * a, x) == trial.counter.product(level)
        assert counted(lambda a: a * 0.3, x) == trial.counter.constant_product(level)
        assert counted(lambda a: a.rotate(1), x) == trial.counter.rotation(level)
    assert counted(lambda a: a.rotate(2), trial.at(1)) == trial.counter.rotation(1)


@pytest.mark.parametrize("name", SETS)
@settings(max_examples=6, deadline=None, database=None)
@given(data=st.data())
def test_matrices(name: str, data: st.DataObject) -> None:
    """Matrices by any diagonals, steps and levels."""
    trial = trial_of(name)
    p = trial.parameters
    level = data.draw(st.integers(2, p.levels))
    numbers = data.draw(st.sets(st.integers(0, 47), min_size=1, max_size=12))
    period = data.draw(st.sampled_from([None, 64]))
    diagonals = {number: np.ones(period or p.slots) * np.linspace(0.1, 1, period or p.slots) for number in numbers}
    transform = hg.ckks.LinearTransform.from_diagonals(p, diagonals, period=period, level=level, baby=8, compact=False)
    assert counted(transform, trial.at(level)) == trial.counter.transform(level, numbers, 8)
    assert transform.bytes == trial.counter.plaintext_bytes(len(numbers), level, period)


@settings(max_examples=10, deadline=None, database=None)
@given(data=st.data())
def test_blocks(data: st.DataObject) -> None:
    """Matrices of blocks, of which some are zero."""
    trial = trial_of("64-bit")
    p = trial.parameters
    level = data.draw(st.integers(2, p.levels))
    outputs, inputs = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    places = st.sets(st.integers(0, 40), max_size=5)
    numbers = [[data.draw(places) for _ in range(inputs)] for _ in range(outputs)]
    assume(all(any(row) for row in numbers))
    values = np.linspace(0.1, 1, p.slots)
    table = [[dict.fromkeys(block, values) or None for block in row] for row in numbers]
    blocks = hg.ckks.BlockTransform(p, table, level=level, baby=8, compact=False)
    x = hg.concatenate([trial.at(level).reshape(1)] * inputs)
    assert counted(blocks, x).products == trial.counter.blocks(level, numbers, 8)


def test_key_bytes(trial: Trial) -> None:
    """Bytes of keys with and without relinearization; rotations by 0 need none."""
    assert trial.counter.key_bytes(ROTATIONS) == trial.keys.nbytes
    assert trial.counter.key_bytes([0, 1, 1], relinearize=False) == trial.parameters.switch_key_bytes


@pytest.mark.parametrize("name", SETS)
def test_keys_for_a_level(name: str) -> None:
    """Rotations and matrices by keys for a level, which have their own digits."""
    p = trial_of(name).parameters
    secret = hg.SecretKey.generate(p)
    for key_level in range(2, p.levels + 1):
        counter = Counter(trial_of(name).counter.parameters, key_level)
        keys = secret.evaluation_keys(relinearize=True, level_rotations={key_level: ROTATIONS})
        assert keys.nbytes == counter.key_bytes(ROTATIONS)
        x = hg.Server(keys).bind(secret.encrypt(np.zeros(p.slots)))
        for level in {key_level, max(1, key_level - 1)}:
            at = x.lower(level) if level < x.level else x
            assert counted(lambda a: a.rotate(1), at) == counter.rotation(level)
        numbers = (0, 3, 9, 20)
        values = dict.fromkeys(numbers, np.linspace(0.1, 1, p.slots))
        transform = hg.ckks.LinearTransform.from_diagonals(p, values, level=key_level, baby=8, compact=False)
        at = x.lower(key_level) if key_level < x.level else x
        assert counted(transform, at).products == counter.transform(key_level, numbers, 8).products
        assert transform.bytes == counter.plaintext_bytes(len(numbers), key_level)


def test_known_bootstraps_are_those_of_recordings() -> None:
    named = hg.ckks.parameters("n15-b4")
    counter = Counter(named)
    assert counter.bootstrap() == costs._recorded_bootstrap(named, None, None)
    assert counter.bootstrap(5) == costs._recorded_bootstrap(named, 5, None)
    for name in NAMED:
        p = hg.ckks.parameters(name)
        rows = costs._known_bootstraps()[f"{name} w{p.word_size}"]
        assert [int(level) for level in rows] == list(range(p.bootstrapping_level + 1, p.levels + 1))
        assert rows[str(p.bootstrapping_level + 1)]["products"] < rows[str(p.levels)]["products"]


def test_bootstrapping_keys() -> None:
    """Bootstrapping keys have relinearization and some rotations."""
    named = hg.ckks.parameters("n15-b4")
    keys = hg.SecretKey.generate(type(named)(named._core.on_device("null"))).evaluation_keys
    for steps in ([], [1, 2, 999]):
        assert Counter(named).key_bytes(steps, bootstrap=True) == keys(rotations=steps, bootstrap=True).nbytes
    with pytest.raises(hg.ParameterError, match="no bootstrapping"):
        Counter(hg.ckks.parameters(depth=2, precision=20, slots=512)).key_bytes(bootstrap=True)


def test_refusals() -> None:
    """Levels that the set does not have, products at the lowest level and empty matrices are refused."""
    counter = Counter(hg.ckks.parameters(depth=2, precision=20, slots=512))
    for call in (lambda: counter.rotation(0), lambda: counter.rotation(9), lambda: counter.product(1)):
        with pytest.raises(hg.LevelError, match="level"):
            call()
    with pytest.raises(hg.ShapeError, match="at least one diagonal"):
        counter.transform(2, [], 4)
    with pytest.raises(hg.ParameterError, match="baby must be at least 1"):
        counter.transform(2, [0], 0)
    with pytest.raises(hg.DtypeError, match="counts are of"):
        Counter(3)  # type: ignore[arg-type]
