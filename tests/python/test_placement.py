"""The search finds the optimal placement of bootstraps, and recorded programs bootstrap at these places."""

from __future__ import annotations

import functools
import itertools
import random
from math import inf
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from bits import digest
from heliograph.ckks.bootstrap_search import Choice, Graph, Operation, Value, _Search, place, resolve_levels

# The search on abstract graphs


def bootstrap(kind: object, items: int) -> float:
    """Returns the seconds that bootstraps take; two real ciphertexts together take one bootstrap."""
    return 10.0 + 7 * (items // 2) if kind == "real" else 10.0 + 9 * (items - 1)


def graph(rng: random.Random, operations: int, *, top: int = 5, entry: int = 2, loose: bool = False) -> Graph:
    """Returns a random graph with sums, products, polynomials that use more levels, views, bootstraps, and products that are
    not rescaled yet.

    """

    def cost(factor: float) -> list[float]:
        steps = [rng.choice([0.0, 0.1, 0.5, 2.0]) * factor for _ in range(top)]
        return list(itertools.accumulate(steps))

    inputs = rng.randint(1, 2)
    values = [Value(rng.choice(["real", "real", "complex"]), rng.randint(1, 3), rng.choice([1, entry, top, top]))]
    values += [Value("real", 1, rng.choice([entry, top])) for _ in range(inputs - 1)]
    made: list[Operation] = []
    while len(made) < operations:
        waiting = [v for v, value in enumerate(values) if value.loose]
        normal = [v for v, value in enumerate(values) if not value.loose]
        takes = rng.choice([0, 1, 1, 1, 2, 2])
        operands = tuple(rng.sample(normal, min(len(normal), rng.choice([1, 1, 2]))))
        if len(normal) > 3 and rng.random() < 0.7:
            operands = tuple({normal[-1], *operands})
        seconds = cost(1.0 + takes)
        is_loose = loose and rng.random() < 0.4
        if is_loose:
            takes = 0
        if waiting and rng.random() < 0.6:
            operands, takes, is_loose = (rng.choice(waiting),), 1, False
        runs = {r: (r - takes, seconds[r - 1]) for r in range(1 + takes, top + 1)}
        if not is_loose and rng.random() < 0.05 and operands[0] not in waiting:
            runs = dict.fromkeys(range(entry, top + 1), (top, 12.0))
        made.append(Operation(operands, len(values), runs, view=takes == 0 and not is_loose))
        values.append(Value(rng.choice(["real", "complex"]), rng.randint(1, 2), loose=is_loose))
    last = next(v for v in reversed(range(len(values))) if not values[v].loose)
    return Graph(top, entry, values, made, {last, rng.choice([last, 0])}, bootstrap)


def everything(g: Graph) -> float:
    """Returns the least total seconds. The least time is found by trying each level and each set of bootstraps before each
    operation.
    """

    @functools.cache
    def after(at: int, have: tuple[int, ...]) -> float:
        if at == len(g.operations):
            return 0.0 if all(have[v] >= g.least(v) for v in g.outputs) else inf
        o = g.operations[at]
        rest = {v for later in g.operations[at:] for v in later.operands}
        able = [v for v in rest if have[v] and g.can(v) and have[v] < g.top]
        best = inf
        for k in range(len(able) + 1):
            for chosen in itertools.combinations(able, k):
                now = list(have)
                for v in chosen:
                    now[v] = g.top
                for r, (out, seconds) in o.runs.items():
                    fits = all(now[v] == r if g.values[v].loose else now[v] >= r for v in o.operands)
                    if not fits or (not g.values[o.result].loose and out < g.least(o.result)):
                        continue
                    left = after(at + 1, (*now[: o.result], out, *now[o.result + 1 :]))
                    best = min(best, g.together(chosen) + seconds + left)
        return best

    return after(0, tuple(v.level or 0 for v in g.values))


def performed(g: Graph, choice: Choice) -> float:
    """Checks that a placement is valid, and returns its total seconds."""
    have = [v.level or 0 for v in g.values]
    seconds = 0.0
    for o, before, r in zip(g.operations, choice.before, choice.levels, strict=True):
        assert all(g.can(v) and have[v] >= g.entry for v in before)
        seconds += g.together(before)
        for v in before:
            have[v] = g.top
        assert all(have[v] == r if g.values[v].loose else have[v] >= r for v in o.operands)
        out, own = o.runs[r]
        assert g.values[o.result].loose or out >= g.least(o.result)
        have[o.result] = out
        seconds += own
    assert all(have[v] >= g.least(v) for v in g.outputs)
    return seconds


@pytest.mark.parametrize("loose", [False, True])
def test_the_search_finds_the_cheapest_placement(loose: bool) -> None:
    """No valid placement is faster than the placement that the search finds."""
    bootstraps = 0
    for seed in range(150):
        g = graph(random.Random(seed), 3 + seed % 4, loose=loose)
        least, found = everything(g), place(g)
        if found is None:
            assert least == inf
            continue
        assert found.exact
        assert found.seconds == pytest.approx(least), seed
        assert performed(g, found) == pytest.approx(found.seconds)
        bootstraps += sum(map(bool, found.before))
    assert bootstraps > 40


def test_a_search_stopped_early_is_marked() -> None:
    """If a search is stopped early, its placement is valid and is marked as not exact."""
    cut = 0
    for seed in range(60):
        g = graph(random.Random(seed), 12)
        is_exhaustive, search = place(g), _Search(g, 2, 0, inf)
        short = search.best()
        cut += not search.is_exhaustive
        if is_exhaustive is None or short is None:
            assert short is None
            assert is_exhaustive is None or not search.is_exhaustive
            continue
        assert performed(g, short) == pytest.approx(short.seconds)
        assert is_exhaustive.seconds <= short.seconds + 1e-9
        assert short.exact == search.is_exhaustive
        assert not short.exact or short.seconds == pytest.approx(is_exhaustive.seconds)
    assert cut > 5


def test_operands_are_lowered_if_that_is_faster() -> None:
    """An operand is lowered before an operation if that is faster. A tensor that is used twice is lowered only once."""
    runs = {r: (r, float(r)) for r in range(2, 6)}
    g = Graph(
        5, 2, [Value(level=5), Value(), Value()], [Operation((0,), 1, runs), Operation((0,), 2, runs)], {1, 2}, bootstrap
    )
    choice = place(g)
    assert choice is not None
    assert choice.levels == (2, 2)
    assert resolve_levels(g, choice, lambda v, r: 2.0) == (2, 2)
    assert resolve_levels(g, choice, lambda v, r: 4.0) == (None, None)
    seen = [Operation((0,), 1, runs, view=True), Operation((0,), 2, runs)]
    assert resolve_levels(Graph(5, 2, g.values, seen, {1, 2}, bootstrap), choice, lambda v, r: 0.0) == (None, 2)


# ---- Programs, on an insecure set

SLOTS = 1024


@functools.cache
def party() -> tuple[hg.ckks.SecretKey, hg.Server]:
    """Returns the shared secret key and server."""
    secret = hg.SecretKey.generate(hg.ckks.parameters(n=2 * SLOTS, depth=3, log_scale=39, bootstrap=True, insecure=True))
    return secret, hg.Server(secret.evaluation_keys(bootstrap=True, rotations=hg.ckks.sum_rotations(SLOTS)))


def values(*shape: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).uniform(-0.9, 0.9, (*shape, SLOTS))


def tensor(v: Any, level: int | None = None) -> hg.ckks.Tensor:
    secret, server = party()
    return server.bind(secret.encrypt(v, bound=1, level=level))


def waist(x: Any, turn: Any = hg.ckks.rotate) -> Any:
    """Computes on one ciphertext, then on four, then on one."""
    for _ in range(3):
        x = x * x - 0.5
    wide = [turn(x, 1 << k) * x for k in range(4)]
    wide = [y * y - 0.5 for y in wide]
    x = (wide[0] + wide[1] + wide[2] + wide[3]) * 0.25
    return x * x


def check(function: Any, x: hg.ckks.Tensor, expected: Any, bound: float = 4.0, bits: float = 10) -> hg.Program:
    """Checks that a program's results are close to `expected` and have the bits of the function: when recorded, replayed and
    loaded.

    """
    program = hg.program(function, x, bootstrap=hg.ckks.Bootstraps(bound))
    copy = +x  # the function may change its operand in place
    with program._following(x):
        by_hand = digest(function(copy))
    assert digest(program(x)) == by_hand
    again = hg.Program.from_bytes(program.to_bytes())
    assert digest(again(x)) == by_hand
    assert again.bootstraps == program.bootstraps
    assert np.abs(party()[0].decrypt(program(x)) - expected).max() < 2.0**-bits
    told = program.bootstraps
    assert told is not None
    with hg.ckks.auto_bootstrap(bound) as auto:
        function(+x)
    assert told.automatic_count == auto.count
    assert told.seconds is not None
    assert told.automatic_seconds is not None
    assert told.seconds <= told.automatic_seconds
    return program


def test_bootstraps_are_placed_at_few_ciphertexts() -> None:
    """Bootstraps are placed before the part that has many ciphertexts. The program needs fewer bootstraps than if they were
    placed as late as possible, and it reports its bootstraps.

    """
    v = values()
    program = check(waist, tensor(v), waist(v, lambda w, k: np.roll(w, -k)))
    told = program.bootstraps
    assert told is not None
    assert 0 < told.count < told.automatic_count
    assert not told.automatic
    assert f"{told.count} bootstrap" in repr(program)
    assert str(told.bootstraps[0]) in repr(program)
    assert str(told.bootstraps[0]) in [text for _, text in program._rows()]
    assert hg.forecast(program, tensor(v)).calls["linear_sum"] == 5 * told.count


def test_real_ciphertexts_are_bootstrapped_in_pairs() -> None:
    """Two real ciphertexts are bootstrapped as a pair."""
    v = values(2)

    def function(x: Any) -> Any:
        a, b = x[0], x[1]
        for _ in range(4):
            a, b = a * b, b * b - 0.5
        return a + b

    a, b = v
    for _ in range(4):
        a, b = a * b, b * b - 0.5
    told = check(function, tensor(v), a + b).bootstraps
    assert told is not None
    assert any(len(each.shapes) == 2 or each.ciphertexts == 2 for each in told.bootstraps)


def test_manual_bootstraps_have_the_same_bits() -> None:
    """For one product at the lowest level, the result has the bits of a manual bootstrap, which may have been lowered to a
    smaller level.

    """
    x = tensor(values(), level=4)
    program = hg.program(lambda x: x * x, x, bootstrap=True)
    y = hg.ckks.bootstrap(hg.ckks.within(x, 1.0))
    assert digest(program(x)) in [digest(z * z) for z in (y, hg.ckks.lower(y, 5))]
    assert program.bootstraps is not None
    (one,) = program.bootstraps.bootstraps
    assert (one.operation, one.before, one.shapes, one.levels, one.ciphertexts) == (1, "multiply", ((),), (4,), 1)


def test_all_kinds_of_operations_are_placed() -> None:
    """Placement supports in-place operations, products that are not rescaled, statistics, captured tensors, arrays and
    polynomials.
    """
    v, other = values(), tensor(values(seed=2), level=5)
    w = values(seed=2)

    def function(x: Any) -> Any:
        x *= 0.5
        x += other
        x -= 0.25
        y = hg.ckks.multiply(x, x, rescale=False) + hg.ckks.multiply(x, other, rescale=False)
        y = hg.rescale(y) * np.linspace(-1, 1, SLOTS)
        y = hg.ckks.polynomial(y, [0.1, 0.2, 0, 0.3]) * other
        return y - hg.ckks.mean(y, "slots")

    x = v * 0.5 + w - 0.25
    y = (x * x + x * w) * np.linspace(-1, 1, SLOTS)
    y = (0.1 + 0.2 * y + 0.3 * y**3) * w
    check(function, tensor(v), y - y.mean(), bits=8)


def test_other_levels_and_shapes_have_their_own_placement() -> None:
    """Other levels and shapes have placements of their own; other noise estimates use the recorded placement."""
    program = hg.program(lambda x: x * x * x, bootstrap=True)
    counts = []
    for x in (tensor(values()), tensor(values(), level=4), tensor(values(2), level=4), tensor(values() / 2)):
        assert np.abs(party()[0].decrypt(program(x)) - party()[0].decrypt(x) ** 3).max() < 2.0**-10
        assert program.bootstraps is not None
        counts.append(program.bootstraps.count)
    assert counts == [0, 1, 1, 0]
    assert len(program._plans) == 3


def test_functions_that_depend_on_levels_are_not_placed() -> None:
    """If a function depends on the levels of its operands, bootstraps stay as late as possible."""

    def function(x: Any) -> Any:
        for _ in range(5):
            x = x * x - 0.5 if x.level % 2 else x * 0.5 * x
        return x

    program = hg.program(function, tensor(values()), bootstrap=True)
    told = program.bootstraps
    assert told is not None
    assert told.automatic
    assert told.count == told.automatic_count > 0
    assert "placed as by auto_bootstrap" in repr(program)


def test_a_function_that_changes_between_runs_is_refused() -> None:
    """If a function records different operations each time, recording refuses it."""
    turns = iter(range(100))

    def function(x: Any) -> Any:
        x = waist(x)
        for _ in range(next(turns) // 2):  # in each pair of runs, both runs record the same operations
            x = -x
        return x

    with pytest.raises(hg.RecordingError, match="operations must be those"):
        hg.program(function, tensor(values()), bootstrap=hg.ckks.Bootstraps(4))


def test_refusals() -> None:
    """Each refused call raises its own error type and message."""
    exact = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=16))
    x = hg.Server(exact.evaluation_keys()).bind(exact.encrypt([1, 2], pad=True))
    plain = hg.SecretKey.generate(hg.ckks.parameters(n=2 * SLOTS, levels=4, insecure=True))
    y = hg.Server(plain.evaluation_keys()).bind(plain.encrypt(values()))
    secret, _ = party()
    z = secret.encrypt(values())
    deep = tensor(values(), level=4)

    def square(x: Any) -> Any:
        return x * x

    refused: list[tuple[Any, type[Exception], str]] = [
        (
            lambda: hg.program(square, x, bootstrap=True),
            hg.ParameterError,
            "placed for CKKS only, and these operands are of BFV",
        ),
        (lambda: hg.program(square, y, bootstrap=True), hg.ParameterError, "no bootstrapping"),
        (lambda: hg.program(square, z, bootstrap=True), hg.MissingKeyError, "Server"),
        (
            lambda: hg.program(square, hg.Server(secret.evaluation_keys()).bind(z), bootstrap=True),
            hg.MissingKeyError,
            "bootstrap=True",
        ),
        (
            lambda: hg.program(lambda x: hg.ckks.polynomial(x, np.ones(16)), deep, bootstrap=True),
            hg.LevelError,
            "takes 4 levels",
        ),
        (lambda: hg.program(lambda x: 3, deep, bootstrap=True), hg.RecordingError, "results"),
        (lambda: hg.program(square, bootstrap=1), hg.DtypeError, "bootstrap must be True"),  # type: ignore[arg-type]
        (lambda: hg.ckks.Bootstraps(bound=0), hg.ParameterError, "bound"),
        (lambda: hg.ckks.Bootstraps(iterations=0), hg.ParameterError, "iterations"),
        (lambda: hg.ckks.Placement.of({}), hg.DamagedFileError, "placement of its bootstraps"),
    ]
    for attempt, error, words in refused:
        with pytest.raises(error, match=words):
            attempt()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("bootstraps", v) for v in (1, [1], [{}])),
        *(("seconds", v) for v in (-1, float("nan"), "1")),
        *(("operations", v) for v in (-1, True, 1.0)),
        ("exact", 1),
    ],
)
def test_files_have_complete_placements(name: str, value: Any) -> None:
    """A file is refused if its placement is not complete."""
    program = hg.program(lambda x: x * x, tensor(values(), level=4), bootstrap=True)
    assert program.bootstraps is not None
    told = program.bootstraps.to_dict()
    assert hg.ckks.Placement.of(told) == program.bootstraps
    with pytest.raises(hg.DamagedFileError):
        hg.ckks.Placement.of(told | {name: value})
