"""Rotation keys that were made for a level."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import resign
import rigs
from ckks_rig import SLOTS, Party, complexes, parameters, party, real, stranger
from heliograph import _core
from heliograph.cli import run

LEVEL = 3


@functools.cache
def keys(word_size: int = 64) -> Any:
    """Returns keys for level 3, among others."""
    secret = party(word_size).secret
    return secret.evaluation_keys(
        rotations=[1, 2, 4, 5], conjugate=True, level=LEVEL, level_rotations={2: [1], 5: [1, 7], 7: [3]}
    )


def rotated(a: np.ndarray, steps: list[int]) -> np.ndarray:
    """Returns the values rotated by each step."""
    return np.stack([np.roll(a, -s, axis=-1) for s in steps])


@pytest.mark.parametrize("word_size", [64, 32])
@pytest.mark.parametrize("level", [1, 2, 3])
def test_rotations_by_keys_for_a_level(word_size: int, level: int) -> None:
    """Keys for a level serve it and all levels below; several rotations may have keys for several levels."""
    p = party(word_size)
    a, c = real(2), complexes()
    x = hg.Server(keys(word_size)).bind(p.secret.encrypt(a, level=level))
    p.check(hg.ckks.rotate(x, [0, 1, 2, 5]), rotated(a, [0, 1, 2, 5]))
    p.check(hg.ckks.rotate(x, [7, 3, 1, 0]), rotated(a, [7, 3, 1, 0]))
    p.check(hg.ckks.rotate(x[0], 4), rotated(a[0], [4])[0])
    p.check(hg.ckks.sum_slots(x, 8), sum(rotated(a, list(range(8)))))
    z = hg.Server(keys(word_size)).bind(p.secret.encrypt(c, level=level))
    p.check(hg.ckks.conjugate(z), c.conj())


@pytest.mark.parametrize("word_size", [64, 32])
def test_keys_for_a_level_are_smaller(word_size: int) -> None:
    """The size of a key grows with its level, and a key for the top level is at most as large as a usual key."""
    p = party(word_size)
    usual = p.secret.evaluation_keys(relinearize=False, rotations=[1]).nbytes
    sizes = [
        p.secret.evaluation_keys(relinearize=False, rotations=[1], level=level).nbytes
        for level in range(1, p.parameters.levels + 1)
    ]
    assert sizes == sorted(sizes)
    assert sizes[-1] <= usual
    assert sizes[1] < usual / 4


def test_the_key_of_the_lowest_level_is_used() -> None:
    """A rotation takes the key for the lowest level that serves the operand."""
    p = party(64)
    own = keys(64)
    for level, step, needed in ((2, 1, 2), (3, 1, 3), (4, 1, 5), (6, 3, 7)):
        x = p.secret.encrypt(real(), level=level)
        some = hg.Server(own).bind(x)
        core = own._core.level_rotations
        assert step in core[needed]
        assert all(step not in steps for at, steps in core.items() if level <= at < needed)
        p.check(hg.ckks.rotate(some, step), np.roll(real(), -step))


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("word_size", [64, 32])
def test_matrices_take_keys_for_their_level(compact: bool, word_size: int) -> None:
    """A matrix made for a level asks for keys of this level; usual keys and keys for a higher level serve it too."""
    p = party(word_size)
    rng = np.random.default_rng(3)
    diagonals = {k: rng.normal(size=SLOTS) for k in (0, 1, 2, 3, 8, 17, -1)}
    matrix = sum(np.roll(np.diag(np.roll(d, k)), -k, axis=0) for k, d in diagonals.items())
    made = hg.ckks.LinearTransform.from_diagonals(p.parameters, diagonals, level=LEVEL, compact=compact)
    blocks = hg.ckks.BlockTransform(p.parameters, [[diagonals, None], [{0: 1.0}, diagonals]], level=LEVEL, compact=compact)
    assert made.needs == {"level_rotations": {LEVEL: made.rotations}}
    assert blocks.needs == {"level_rotations": {LEVEL: blocks.rotations}}
    a = real(2)
    steps = {*made.rotations, *blocks.rotations}
    several = [
        p.secret.evaluation_keys(for_=[made, blocks]),
        p.secret.evaluation_keys(rotations=steps),
        p.secret.evaluation_keys(rotations=steps, level=LEVEL + 1),
    ]
    precisions = []
    for own in several:
        x = p.bound(own, a)
        y, z = made @ x[0], blocks @ x
        p.check(y, matrix @ a[0], 1e-4)
        p.check(z, [matrix @ a[0], a[0] + matrix @ a[1]], 1e-4)
        precisions.append((y.precision or 0, z.precision or 0))
    assert several[0].rotations == []
    assert several[0].nbytes < several[1].nbytes / 2
    assert np.ptp(precisions, axis=0).max() < 1.5


def test_keys_for_levels_are_stored_in_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys from a file give the same bits, also if they stay in the file; changed files are refused."""
    p = party(64)
    own = keys(64)
    own.save(tmp_path / "keys.hg")
    x = p.secret.encrypt(real(), level=3)
    loaded: list[Any] = [hg.load(tmp_path / "keys.hg"), hg.load(tmp_path / "keys.hg", memory=1 << 20)]
    results = [hg.ckks.rotate(hg.Server(k).bind(x), [1, 5]).to_bytes() for k in (own, *loaded)]
    data = own.to_bytes()
    again = hg.ckks.EvaluationKeys.from_bytes(data)
    assert (again.level_rotations, again.rotations, again.conjugate) == (
        {2: [1], 3: [1, 2, 4, 5], 5: [1, 7], 7: [3]},
        [],
        True,
    )
    assert again.nbytes == own.nbytes
    ranges = [hg.Server(own).bind(x), hg.Server(again).bind(x)]
    found = [p.secret.decrypt(hg.ckks.rotate(y, [1, 5])) for y in ranges]
    assert np.array_equal(*found)
    assert results[1] == results[2]
    assert "level 3" in repr(own)
    assert run(["inspect", str(tmp_path / "keys.hg")]) == 0
    assert "at level 3  5 keys" in capsys.readouterr().out
    for old, new in ((b'"3":{', b'"9":{'), (b'"level_rotations":', b'"level_rotationz":')):
        assert data.count(old) >= 1
        with pytest.raises(hg.DamagedFileError):
            hg.ckks.EvaluationKeys.from_bytes(data.replace(old, new))


def test_programs_use_keys_for_levels() -> None:
    """Recorded programs take keys for levels, and list them as needs."""
    p = party(64)
    own = keys(64)
    x = hg.Server(own).bind(p.secret.encrypt(real(), level=3))
    program = hg.program(lambda x: hg.ckks.rotate(x, 2) + hg.ckks.rotate(x, 1), x)
    want = np.roll(real(), -2) + np.roll(real(), -1)
    p.check(program(x), want)
    more = p.secret.evaluation_keys(for_=program)
    assert (more.rotations, more.level_rotations) == ([], {3: [1, 2]})
    again = hg.Program.from_bytes(program.to_bytes())
    loaded = again(hg.Server(more).bind(p.secret.encrypt(real(), level=3)))
    np.testing.assert_allclose(p.secret.decrypt(loaded), want, atol=2e-6)


def test_bundles_of_programs_make_keys_for_levels(tmp_path: Path) -> None:
    """An exported program makes the keys for levels that it needs; a wrong level in its file is refused."""
    p = party(64)
    x = hg.Server(keys(64)).bind(p.secret.encrypt(real(), level=3))
    program = hg.program(lambda x: hg.ckks.rotate(x, 2) * 0.5, x)
    program(x)
    made = program.export(tmp_path / "model.hgm", name="turn")
    again = hg.ModelBundle.load(tmp_path / "model.hgm")
    assert made.needs == again.needs == {"relinearize": False, "level_rotations": {3: [2]}}
    own: Any = again.keys(p.secret)
    assert (own.rotations, own.level_rotations) == ([], {3: [2]})
    with pytest.raises(hg.MissingKeyError):
        again.require_keys(p.secret.evaluation_keys(rotations=[2]))
    data = (tmp_path / "model.hgm").read_bytes()
    document = resign.take_apart(data)
    for level in ("0", "8", "03", "x"):
        header = json.loads(
            json.dumps(document.header).replace('"level_rotations": {"3"', f'"level_rotations": {{"{level}"')
        )
        assert header != document.header
        (tmp_path / "wrong.hgm").write_bytes(resign.signed(dataclasses.replace(document, header=header)))
        with pytest.raises(hg.DamagedFileError):
            hg.ModelBundle.load(tmp_path / "wrong.hgm")


def test_purposes_at_a_level() -> None:
    """`level` applies to the rotations of purposes; a conjugation key for a level counts as one."""
    p = party(64)
    own = p.secret.evaluation_keys(for_=lambda x: hg.ckks.rotate(x, 3) + hg.ckks.conjugate(x), level=4)
    assert (own.rotations, own.level_rotations, own.conjugate, own.relinearize) == ([], {4: [3]}, True, False)
    top = p.secret.evaluation_keys(rotations=[1], level=p.parameters.levels)
    x = hg.Server(top).bind(p.secret.encrypt(real()))
    p.check(hg.ckks.rotate(x, 1), np.roll(real(), -1))


def test_errors_of_keys_for_levels() -> None:
    """Operands above the keys' level, unknown levels and wrong arguments are refused."""
    p = party(64)
    x = hg.Server(keys(64)).bind(p.secret.encrypt(real(2)))
    with pytest.raises(hg.LevelError, match="rotation 5 was made for level 3 and below, but this ciphertext is at level 7"):
        hg.ckks.rotate(x, 5)
    with pytest.raises(hg.LevelError, match="level 3"):
        hg.ckks.rotate(x, [3, 2])
    with pytest.raises(hg.LevelError, match="conjugation was made for level 3"):
        hg.ckks.conjugate(x)
    with pytest.raises(hg.LevelError, match="level 3"):
        hg.ckks.sum_slots(hg.ckks.lower(x, 5), 4)
    with pytest.raises(hg.MissingKeyError, match="rotation 9"):
        hg.ckks.rotate(x, 9)
    made = hg.ckks.LinearTransform.from_diagonals(p.parameters, {2: 1.0, 4: 1.0}, level=4)
    with pytest.raises(hg.LevelError, match="level 3"):
        made @ x
    with pytest.raises(hg.LevelError, match="level 3"):
        hg.ckks.BlockTransform(p.parameters, [[{2: 1.0}, {4: 1.0}]], level=4) @ x
    for wrong in (0, 8, -1):
        with pytest.raises(hg.LevelError):
            p.secret.evaluation_keys(rotations=[1], level=wrong)
        with pytest.raises(hg.LevelError):
            p.secret.evaluation_keys(level_rotations={wrong: [1]})
    with pytest.raises(hg.DtypeError):
        p.secret.evaluation_keys(level_rotations=[1])
    with pytest.raises(hg.DtypeError):
        p.secret.evaluation_keys(level_rotations={2: ["a"]})
    with pytest.raises(hg.WrongKeyError):
        hg.ckks.rotate(hg.Server(keys(64)).bind(stranger().secret.encrypt(real(), level=2)), 1)


def bits(device: str) -> list[bytes]:
    """Returns the bytes of results from a fixed seed on a device, and of the keys."""
    on = hg.ckks.Parameters(parameters()._core.on_device(device))
    secret = hg.SecretKey(_core.ckks.SecretKey.generate_for_test(on._core, rigs.SEED))
    rng = np.random.default_rng(8)
    made = hg.ckks.LinearTransform.from_diagonals(on, {k: rng.normal(size=SLOTS) for k in (0, 1, 2, 9, 10)}, level=4)
    own = secret.evaluation_keys(for_=made, rotations=[1, 2], conjugate=True, level=3)
    x = hg.Server(own).bind(secret.encrypt(rng.uniform(-1, 1, (3, SLOTS))))
    low = hg.ckks.lower(x, 2)
    results = [made @ x, hg.ckks.rotate(low, [1, 2]), hg.ckks.conjugate(low[0])]
    return [own.to_bytes(), *(y.to_bytes() for y in results)]


@functools.cache
def reference() -> list[bytes]:
    """Returns the bytes of the device `ref`."""
    return bits("ref")


@pytest.mark.parametrize("device", [d for d in rigs.DEVICES if d != "ref"])
def test_every_device_gives_the_bits_of_ref(device: str) -> None:
    """Keys for levels, and results by them, have equal bits on every device."""
    try:
        parameters()._core.on_device(device)
    except (hg.ParameterError, hg.DeviceError):
        pytest.skip(f"device {device} is not available")
    assert bits(device) == reference()


def test_known_answer_of_a_file() -> None:
    """The file of keys for a level has known bytes."""
    known = "00afaac9add66bd8111029209301801150286b9391629027176eb5b5398d37ff"
    assert hashlib.sha256(reference()[0]).hexdigest() == known


def test_bootstrapping_sets_have_keys_for_levels() -> None:
    """Keys for levels exist beside those of bootstraps."""
    params = hg.ckks.parameters(n=2**11, depth=3, log_scale=39, bootstrap=True, insecure=True)
    p = Party(params, rotations=())
    own = p.secret.evaluation_keys(rotations=[1], level=5, bootstrap=True)
    a = np.random.default_rng(1).uniform(-1, 1, params.slots)
    x = hg.Server(own).bind(p.secret.encrypt(a, bound=1, level=params.bootstrapping_level))
    y = hg.ckks.bootstrap(hg.ckks.rotate(x, 1))
    p.check(y, np.roll(a, -1), 2.0**-16)
    z = hg.ckks.rotate(hg.ckks.lower(y, 5), 1)
    p.check(z, np.roll(a, -2), 2.0**-16)


def test_changed_headers_are_refused() -> None:
    """A valid container with wrong levels, automorphisms, seeds or arrays is a DamagedFileError."""
    p = party(64)
    data = p.secret.evaluation_keys(relinearize=False, rotations=[1], level=2).to_bytes()
    document = resign.take_apart(data)
    seeds = document.header["level_rotations"]["2"]
    (galois, seed), *_ = seeds.items()
    cases: list[Any] = [5, [], None, {}, {"2": 5}, {"2": {}}, {"2": {galois: "00"}}, {"2": {galois: 7}}]
    cases += [{level: seeds} for level in ("0", "8", "02", "-2", "", "a", "9" * 30, "3", "1")]
    cases += [{"2": {name: seed}} for name in ("4", "-1", "2049", "05", "", "x" * 700)]
    cases += [{"2": seeds, "3": seeds}, {"2": {**seeds, "25": seed}}]
    for case in cases:
        changed = dataclasses.replace(document, header={**document.header, "level_rotations": case})
        with pytest.raises(hg.DamagedFileError):
            hg.ckks.EvaluationKeys.from_bytes(resign.signed(changed))
    exact = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=20, slots=4)).evaluation_keys(rotations=[1])
    other = resign.take_apart(exact.to_bytes())
    changed = dataclasses.replace(other, header={**other.header, "level_rotations": {}})
    with pytest.raises(hg.DamagedFileError, match="does not have"):
        hg.bfv.EvaluationKeys.from_bytes(resign.signed(changed))
