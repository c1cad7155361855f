"""Recorded programs give the bits of the function, with any keys and with captured host values. Unsupported functions are
refused.
"""

from __future__ import annotations

import gc
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

DEVICES = [
    "ref",
    "cpu",
    "null",
    "3*cpu/costs=1e3:300e9:12e-6:1e-6:8e-6",
    "2*cpu/limb/uncalibrated",
    "cuda:0",
    "cuda:0,cuda:1",
]


@pytest.fixture(scope="module")
def party() -> Party:
    """Returns BFV's party on the default device."""
    return Party(hg.bfv.Parameters(_core.exact.Parameters(rigs.specs("w64"))))


def mixed(x: Any, y: Any) -> tuple[Any, Any]:
    """Computes products, rotations, sums, operations with integers, a matrix and a slice."""
    product = hg.relinearize(x * y + x)
    turned = hg.rotate_rows(product, [1, 5])
    mean = hg.matmul([[1, 2], [3, -1]], product) - 7
    return (turned[1] + mean[0]) * 3, hg.relinearize(hg.square(product[::-1]))


@pytest.mark.parametrize("scheme", ["bfv", "bgv"])
@pytest.mark.parametrize("device", DEVICES)
def test_replays_give_the_bits_of_the_function(scheme: str, device: str) -> None:
    p = Party(opened(scheme, device))
    f = hg.program(mixed)
    for turn in range(4):
        x, y = p.tensor([[turn, 2, 3], [4, 5, 6]]), p.tensor([[7, 8 + turn, 1], [9, 1, 2]])
        for found, expected in zip(f(x, y), mixed(x, y), strict=True):
            same(found, expected)
    assert (f.recordings, f.replays) == (1, 3)


@pytest.mark.parametrize("device", [d for d in DEVICES if "*" in d or "," in d])
def test_branches_on_several_devices(device: str) -> None:
    def chain(x: Any) -> Any:
        return hg.rotate_rows(hg.relinearize(x * x) + x, 1) - x

    p = Party(opened("bfv", device))
    f = hg.program(lambda x, y, z: (chain(x), chain(y), chain(z) + chain(x + z)))
    for turn in range(3):
        operands = [p.tensor(turn + k) for k in range(3)]
        x, y, z = operands
        for found, expected in zip(f(*operands), (chain(x), chain(y), chain(z) + chain(x + z)), strict=True):
            same(found, expected)
        same(f(*operands)[0] + f(*operands)[1], chain(x) + chain(y))  # the bits are the same for operands in other memory
    assert f.recordings == 1


@pytest.mark.parametrize("word_size", [64, 32])
def test_ckks(word_size: int) -> None:
    p = ckks_rig.party(word_size)

    def step(x: Any, w: Any) -> Any:
        return hg.ckks.rotate(x * w + 0.5, 1) * x - hg.ckks.mean(w, "slots")

    f = hg.program(step)
    for seed in range(3):
        x, w = p.tensor(ckks_rig.real(2, seed=seed)), p.tensor(ckks_rig.real(2, seed=seed + 50))
        same(f(x, w), step(x, w))
    assert f.replays == 2


def test_tfhe() -> None:
    p = tfhe_rig.party()

    def step(a: Any, b: Any) -> dict[str, Any]:
        return {"sum": a + b, "larger": hg.tfhe.select(a > b, a, b)}

    f = hg.program(step)
    for turn in range(3):
        a, b = np.array([3, 200 + turn, 17], np.uint8), np.array([9, 100, 17], np.uint8)
        found = f(p.tensor(a), p.tensor(b))
        p.check(found["sum"], a + b)
        p.check(found["larger"], np.maximum(a, b))
    assert f.replays == 2


def test_inputs_of_other_shapes_or_levels_record_again(party: Party) -> None:
    f = hg.program(lambda x: hg.relinearize(x * x))
    x = party.tensor([1, 2, 3])
    lower = hg.shrink(x, x.level - 1)
    for number, operand in enumerate([x, lower, party.tensor([[1], [2]])], start=1):
        for _ in range(2):
            same(f(operand), hg.relinearize(operand * operand))
        assert f.recordings == number
        assert f.replays == number


def test_the_same_operand_twice_is_another_computation(party: Party) -> None:
    f = hg.program(lambda a, b: hg.relinearize(a * b))
    x, y = party.tensor([[1, 2], [3, 4]]), party.tensor([[5, 6], [7, 8]])
    for a, b in [(x, y), (x, x), (y, x), (x[0], x[1]), (x[:1], x), (y, y), (y[0], y[1]), (y[:1], y)]:
        same(f(a, b), hg.relinearize(a * b))
    assert (f.recordings, f.replays) == (4, 4)


def test_errors_of_a_function_leave_its_program_usable(party: Party) -> None:
    def deep(x: Any) -> Any:
        for _ in range(9):
            x = hg.relinearize(x * x)
        return x

    f = hg.program(lambda x, y: x + y)
    x = party.tensor([1, 2])
    with pytest.raises(hg.ShapeError):
        f(x, party.tensor([1, 2, 3]))
    with pytest.raises(hg.MissingKeyError):
        hg.program(lambda x: hg.rotate_rows(x, 7))(x)
    same(f(x, x), x + x)
    exhausted = hg.program(deep)(x)
    with pytest.raises(hg.NoiseError):
        party.secret.decrypt(exhausted)


def test_unrecordable_functions_are_refused(party: Party) -> None:
    x = party.tensor([1, 2])
    for function in (
        party.secret.decrypt,
        lambda x: (x.to_bytes(), x)[1] if (x := x + 1) is not None else x,
        lambda x: (party.secret.noise_budget(x * x), x)[1],
        lambda x: x + party.tensor([1, 2]),
        lambda x: 5,
        lambda x: (x, None),
    ):
        f = hg.program(function)
        with pytest.raises(hg.RecordingError):
            f(x)
        assert f.recordings == 0
    with pytest.raises(hg.RecordingError, match="encrypt outside of it and pass the ciphertext as an operand"):
        hg.program(lambda x: x + party.tensor([1, 2]))(x)
    same(x + 1, x + 1)  # recording has ended after the error
    with pytest.raises(hg.DtypeError):
        hg.program(lambda x: x)(3)
    with pytest.raises(hg.DtypeError):
        hg.program(7)  # type: ignore[arg-type]
    with pytest.raises(hg.ParameterError):
        hg.program(lambda x: x, limit=0)


def test_clear_values_are_captured_as_constants(party: Party) -> None:
    other, weights = party.tensor([5, 6]), [3, -2]

    def f(x: Any) -> Any:
        assert party.secret.decrypt(other)[0][0] == 5  # this tensor exists before the recording, so it is a constant
        plain = party.server.encode(np.arange(rigs.N))
        return (x * weights + other) * plain

    program = hg.program(f)
    x, y = party.tensor([1, 2]), party.tensor([3, 4])
    expected = f(x), f(y)
    program(x)
    kept, other = other, party.tensor([0, 0])
    weights[:] = [0, 0]
    same(program(x), expected[0])
    same(program(y), expected[1])
    del kept


def test_results_belong_to_the_caller(party: Party) -> None:
    f = hg.program(lambda x: (x, x[1:], x * 2))
    x, y = party.tensor([1, 2]), party.tensor([3, 4])
    f(x)
    first, second = f(x), f(y)
    for found, operand in ((first, x), (second, y)):
        for a, b in zip(found, (operand, operand[1:], operand * 2), strict=True):
            same(a, b)


def test_replays_use_the_operands_keys() -> None:
    parameters = rigs.parameters_on(rigs.specs("w64"), "cpu")
    one, two = Party(parameters), Party(parameters, bytes(32))
    f = hg.program(lambda x: hg.rotate_rows(hg.relinearize(x * x), 5))
    for p in (one, two, one):
        x = p.tensor([4, 5])
        found = f(x)
        same(found, hg.rotate_rows(hg.relinearize(x * x), 5))
        np.testing.assert_array_equal(p.secret.decrypt(found), p.secret.decrypt(hg.rotate_rows(hg.square(x), 5)))
    assert (f.recordings, f.replays) == (1, 2)


def test_programs_keep_no_keys() -> None:
    parameters = rigs.parameters_on(rigs.specs("w64"), "null")
    p = Party(parameters)
    f = hg.program(lambda x: hg.relinearize(x * x), p.tensor([1, 2]))
    gc.collect()
    with_keys = parameters._core.peak_bytes
    del p
    gc.collect()
    parameters._core.reset_counts()  # from here on, the peak of memory is counted
    assert f.recordings == 1
    assert parameters._core.peak_bytes == 0 < with_keys


def test_several_threads(party: Party) -> None:
    f = hg.program(lambda x, y: hg.relinearize(x * y) + y)
    operands = [(party.tensor([i, 1, 2]), party.tensor([3, i, 5])) for i in range(8)]
    expected = [hg.relinearize(x * y) + y for x, y in operands]

    def work(start: int) -> None:
        for i in range(24):
            x, y = operands[(start + i) % 8]
            same(f(x, y), expected[(start + i) % 8])

    in_threads(work, 4)
    assert f.recordings == 1


def test_the_number_of_recordings_is_limited(party: Party) -> None:
    f = hg.program(lambda x: x + 1, limit=2)
    x = party.tensor(np.arange(4))
    for count in (1, 2):
        same(f(x[:count]), x[:count] + 1)
    with pytest.warns(RuntimeWarning, match="more than 2 recordings"):
        f(x[:3])
    same(f(x), x + 1)
    assert f.recordings == 2
    f(x)
    assert f.replays == 1


def test_programs_in_programs(party: Party) -> None:
    inner = hg.program(lambda x: hg.relinearize(x * x))
    outer = hg.program(lambda x: inner(x) + x)
    for values in ([1, 2], [3, 4], [5, 6]):
        x = party.tensor(values)
        same(outer(x), hg.relinearize(x * x) + x)
    assert outer.replays == 2


def test_repr(party: Party) -> None:
    def f(x: Any) -> Any:
        unused = x * x
        assert unused.degree == 2
        return hg.relinearize(x * x) + 1

    program = hg.program(f, party.tensor([1, 2]))
    text = repr(program)
    assert text.startswith("<program f: 1 of at most 16 recordings")
    assert "1 key_switch" in text
    assert "1 bfv_multiply" in text  # the result of this product is not used, so it is not recorded
    assert "4 calls, depth 4, 4 when merged" in text
    assert "replayed 0 times" in text


@pytest.mark.parametrize(("device", "known"), [("cpu", "both"), ("2*cpu/limb/uncalibrated", "floor"), ("null", "nothing")])
def test_predicted_times(device: str, known: str) -> None:
    p = Party(opened("bfv", device))
    x = p.tensor(np.arange(16))
    f, twice = hg.program(mixed_alone, x), hg.program(lambda x: (mixed_alone(x), mixed_alone(x + x)), x)
    floor, predicted = f._calls[0].times
    assert (floor > 0, predicted > 0) == {"both": (True, True), "floor": (True, False), "nothing": (False, False)}[known]
    assert ("at least" in repr(f), "predicted" in repr(f)) == (floor > 0, predicted > 0)
    if known == "both":
        assert floor <= predicted
        assert twice._calls[0].times[1] > 1.9 * predicted
    assert hg.program(lambda x: x, x)._calls[0].times == (0, 0)


def mixed_alone(x: Any) -> Any:
    """Computes products and rotations."""
    return hg.rotate_rows(hg.relinearize(x * x), 1) + x


def test_decorated_functions_are_programs(party: Party) -> None:
    @hg.program
    def f(x: Any, *, others: list[Any]) -> list[Any]:
        return [x + y for y in others]

    x, y = party.tensor([1]), party.tensor([2])
    for _ in range(2):
        same(f(x, others=[y, x])[0], x + y)
    assert f.replays == 1


def branches(x: Any, y: Any) -> tuple[Any, Any]:
    """Computes two independent chains of the same calls."""
    for _ in range(2):
        x, y = hg.relinearize(x * x), hg.relinearize(y * y)
    return x + 1, y + 1


def test_equal_calls_on_independent_data_are_one_launch() -> None:
    """A program counts equal independent calls as one launch. GPUs replay equal independent calls as one launch; the bits
    are compared there.

    """
    p = Party(opened("bgv", "cpu"))
    f = hg.program(branches, p.tensor([1, 2]), p.tensor([3, 4]))
    (recorded,) = f._recorded.values()
    assert 2 * recorded.core.launches == sum(recorded.core.calls.values())


@pytest.mark.parametrize("scheme", ["bfv", "bgv"])
def test_graphs(scheme: str) -> None:
    p = Party(opened(scheme, "cuda:0"))
    for function in (branches, mixed):
        f = hg.program(function)
        kept = []
        for turn in range(9):
            x, y = p.tensor([[turn, 2, 3], [4, 5, 6]]), p.tensor([[7, 8 + turn, 1], [9, 1, 2]])
            kept.append((f(x, y), function(x, y)))  # more results are kept than the program has graphs
            if turn == 6:
                del kept[1:3]
        for results, expected in kept:
            for found, right in zip(results, expected, strict=True):
                same(found, right)
        (recorded,) = f._recorded.values()
        assert recorded.core.replays == 8
        assert recorded.core.graphs == 6
    g = hg.program(lambda x: x * 3)
    z, w = g(x), x * 3
    for _ in range(5):
        same(g(x), w)
    same(z, w)


@pytest.mark.parametrize("device", ["ref", "cpu"])
@pytest.mark.parametrize("scheme", ["bfv", "bgv"])
def test_batched_replays(scheme: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On other devices, too, calls can be replayed in batches and in packed memory, as graphs on a GPU do; the bits are
    those of the function.

    """
    monkeypatch.setenv("HELIOGRAPH_REPLAY", "batched")
    p = Party(opened(scheme, device))
    for function in (branches, mixed):
        f = hg.program(function)
        kept = []
        for turn in range(7):
            x, y = p.tensor([[turn, 2, 3], [4, 5, 6]]), p.tensor([[7, 8 + turn, 1], [9, 1, 2]])
            kept.append((f(x, y), function(x, y)))
        for results, expected in kept:
            for found, right in zip(results, expected, strict=True):
                same(found, right)
        (recorded,) = f._recorded.values()
        assert (
            recorded.core.graphs == 4
        )  # while the results are held, four replays use graphs and later replays use single calls


@pytest.mark.parametrize("word_size", [64, 32])
def test_batched_replays_of_matrices_and_rotations(word_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batched replays give the bits of the function. One key or plaintext serves all calls of a batch."""
    monkeypatch.setenv("HELIOGRAPH_REPLAY", "batched")
    parameters = ckks_rig.parameters(word_size)
    size = parameters.period
    band = sum(np.diag(np.full(size - k, 1 / (k + 1)), k) for k in range(6))
    transform = hg.ckks.LinearTransform(parameters, band)
    p = ckks_rig.Party(parameters, tuple({*transform.rotations, 1, 2, 4}))

    def both(x: Any, y: Any) -> list[Any]:
        return [hg.ckks.rotate((transform @ z) * z, [1, 2, 4]) for z in (x, y)]

    f = hg.program(both)
    for seed in range(4):
        x, y = p.tensor(ckks_rig.real(2, seed=seed)), p.tensor(ckks_rig.real(2, seed=seed + 50))
        for found, right in zip(f(x, y), both(x, y), strict=True):
            same(found, right)
    (recorded,) = f._recorded.values()
    assert recorded.core.graphs == 3
    assert 2 * recorded.core.launches == sum(recorded.core.calls.values())


@pytest.mark.parametrize("inputs", [1, 2])
@pytest.mark.parametrize("diagonals", [(0, 1, 8, 9, 16), (8, 9, 16)], ids=["identity", "rotations"])
def test_batched_replays_of_block_transforms(
    diagonals: tuple[int, ...], inputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Baby and giant steps of equal forms are not batched, because one axis holds their steps and items. The calls around
    them are batched, and the bits are those of the function.

    """
    monkeypatch.setenv("HELIOGRAPH_REPLAY", "batched")
    parameters = ckks_rig.parameters()
    rng = np.random.default_rng(1)
    blocks = hg.ckks.BlockTransform(
        parameters,
        [[{k: rng.normal(size=ckks_rig.SLOTS) for k in diagonals} for _ in range(inputs)]],
        level=3,
        baby=8,
    )
    p = ckks_rig.Party(parameters, tuple(blocks.rotations))

    def both(x: Any, y: Any) -> list[Any]:
        return [blocks @ x, blocks @ y]

    f = hg.program(both)
    for seed in range(3):
        x, y = (p.tensor(ckks_rig.real(inputs, 2, seed=seed + k)) for k in (0, 50))
        for found, right in zip(f(x, y), both(x, y), strict=True):
            same(found, right)
    (recorded,) = f._recorded.values()
    assert recorded.core.graphs == 2
    # A call takes both of its items at once, or one after the other with one thread (items_at_once).
    assert recorded.core.calls["giant_steps"] in (2, 4)
    assert recorded.core.launches < sum(recorded.core.calls.values())


@pytest.mark.parametrize("device", ["2*cpu/costs=1e3:1e6:1e-3:1e-6:8e-6", "2*cpu/limb"])
def test_a_mesh_has_no_batched_replays(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mesh places each tensor separately. So batches cannot share memory, and calls run one by one."""
    monkeypatch.setenv("HELIOGRAPH_REPLAY", "batched")
    p = Party(opened("bfv", device))
    f = hg.program(mixed)
    for turn in range(3):
        x, y = p.tensor([[turn, 2, 3], [4, 5, 6]]), p.tensor([[7, 8 + turn, 1], [9, 1, 2]])
        for found, right in zip(f(x, y), mixed(x, y), strict=True):
            same(found, right)
    (recorded,) = f._recorded.values()
    assert (recorded.core.replays, recorded.core.graphs) == (2, 0)


def test_rotations_by_other_steps_are_other_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rotations by different steps use different keys, so they cannot be in one batch."""
    monkeypatch.setenv("HELIOGRAPH_REPLAY", "batched")
    p = ckks_rig.Party(ckks_rig.parameters(64), (1, 2, 4))
    steps = ([1, 2], [2, 1], [1, 2], [2, 4])

    def turned(*inputs: Any) -> list[Any]:
        return [hg.ckks.rotate(z, s) for z, s in zip(inputs, steps, strict=True)]

    f = hg.program(turned)
    for seed in range(2):
        inputs = [p.tensor(ckks_rig.real(1, seed=10 * seed + k)) for k in range(len(steps))]
        for found, right in zip(f(*inputs), turned(*inputs), strict=True):
            same(found, right)
    (recorded,) = f._recorded.values()
    assert recorded.core.calls["apply_keys"] == len(steps)
