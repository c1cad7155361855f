"""A loaded program computes the same as the saved program, for the keys of any owner. Operands that do not match are
refused, and so are damaged files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import resign
import rigs
from heliograph import _core
from heliograph.cli import explain
from program_rig import Party, opened, said

SCHEMES = ["bfv", "bgv"]


@pytest.fixture(scope="module", params=SCHEMES)
def party(request: pytest.FixtureRequest) -> Party:
    # Uses the default device, as loaded programs do.
    return Party(hg.bfv.Parameters(_core.exact.Parameters(rigs.specs("w64" if request.param == "bfv" else "bgv"))))


def step(pair: dict[str, Any], weights: Any) -> tuple[Any, list[Any]]:
    product = hg.relinearize(pair["x"] * pair["y"])
    return hg.rotate_rows(product, 1) + 3, [hg.matmul(weights, pair["x"]) - pair["y"]]


def recorded(party: Party) -> tuple[Any, Any, Any]:
    x, y = party.tensor([1, 2]), party.tensor([5, -3])
    weights = np.array([[1, 2], [3, -1]])
    program = hg.program(lambda pair: step(pair, weights))
    program({"x": x, "y": y})
    return program, x, y


def test_a_loaded_program_computes_the_same(party: Party, tmp_path: Path) -> None:
    program, x, y = recorded(party)
    program.save(tmp_path / "step.hgp")
    loaded = hg.Program.load(tmp_path / "step.hgp")
    again = hg.Program.from_bytes(program.to_bytes())
    for a, b in ((x, y), (y, x), (party.tensor([-4, 9]), x)):
        expected = program({"x": a, "y": b})
        for other in (loaded, again):
            one, (two,) = other({"x": a, "y": b})
            for result, wanted in ((one, expected[0]), (two, expected[1][0])):
                assert np.array_equal(party.secret.decrypt(result), party.secret.decrypt(wanted))
                assert result._keys is wanted._keys
    assert "calls" in repr(loaded)
    assert loaded.to_bytes() == program.to_bytes()


def test_results_of_loaded_programs_are_not_trusted(party: Party) -> None:
    program, x, y = recorded(party)
    loaded = hg.Program.from_bytes(program.to_bytes())
    mine, theirs = program({"x": x, "y": y})[0], loaded({"x": x, "y": y})[0]
    assert mine.noise_budget is not None
    assert mine.noise_budget == theirs.noise_budget
    assert said(mine) != said(theirs)
    party.secret.decrypt(theirs)


def test_programs_run_for_other_owners_with_matching_operands(party: Party) -> None:
    program, x, y = recorded(party)
    loaded = hg.Program.from_bytes(program.to_bytes())
    other = Party(party.secret.parameters, bytes(32))
    a, b = other.tensor([4, 5]), other.tensor([6, 7])
    assert np.array_equal(
        other.secret.decrypt(loaded({"x": a, "y": b})[0]), other.secret.decrypt(program({"x": a, "y": b})[0])
    )
    with pytest.raises(hg.MismatchError, match="structure and names of its recording"):
        loaded(x, y)
    with pytest.raises(hg.MismatchError, match="shapes"):
        loaded({"x": x[:1], "y": y[:1]})
    with pytest.raises(hg.MismatchError, match="noise"):
        loaded({"x": x + x + x + x, "y": y})
    with pytest.raises(hg.MismatchError, match="shapes"):
        loaded({"x": x, "y": x})  # a program whose two operands are the same tensor is another computation
    with pytest.raises(hg.HeliographError):
        loaded({"x": x, "y": a})


def test_operands_on_another_device_are_refused(party: Party) -> None:
    program, _, _ = recorded(party)
    loaded = hg.Program.from_bytes(program.to_bytes())
    elsewhere = Party(opened(party.secret.parameters.scheme.lower(), "cpu"))
    x = elsewhere.tensor([1, 2])
    with pytest.raises(hg.MismatchError, match="another device"):
        loaded({"x": x, "y": x + 0})


def test_unsavable_programs_state_the_reason(party: Party) -> None:
    with pytest.raises(hg.RecordingError, match="nothing is recorded"):
        hg.program(lambda x: x + 1).to_bytes()
    x = party.tensor([1, 2, 3])
    shared = hg.program(lambda a, b: a + b, x[0:2], x[1:3])
    with pytest.raises(hg.RecordingError, match="share memory"):
        shared.to_bytes()
    named = hg.program(lambda d: d[1] + 1, {1: x})
    with pytest.raises(hg.RecordingError, match="must be strings"):
        named.to_bytes()


def test_load_names_program_load(party: Party, tmp_path: Path) -> None:
    program, _, _ = recorded(party)
    program.save(tmp_path / "p.hgp")
    with pytest.raises(hg.FormatError, match=r"Program\.load"):
        hg.load(tmp_path / "p.hgp")
    party.tensor([1]).save(tmp_path / "x.hg")
    with pytest.raises(hg.FormatError):
        hg.Program.load(tmp_path / "x.hg")
    assert json.loads(_core.container.inspect(str(tmp_path / "p.hgp")))["type"] == "heliograph.program"


def test_inspect_describes_a_program(party: Party, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, _, _ = recorded(party)
    program.save(tmp_path / "p.hgp")
    assert explain.inspect(tmp_path / "p.hgp")
    shown = capsys.readouterr().out
    for text in ("recorded program", "2 of 1 owner(s), 2 with evaluation keys", "N = ", "whole: digest and calls checked"):
        assert text in shown, f"{text!r} is missing in: {shown}"
    data = bytearray((tmp_path / "p.hgp").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "p.hgp").write_bytes(data)
    assert not explain.inspect(tmp_path / "p.hgp")
    assert "DAMAGED" in capsys.readouterr().out


def test_programs_of_unknown_bounds_can_be_saved() -> None:
    """If by their bounds a program's values may exceed their modulus, the program can still be saved. After loading, its
    results report this.

    """
    secret = hg.SecretKey.generate(hg.ckks.parameters(depth=2, precision=20, integer_bits=4))
    server = hg.Server(secret.evaluation_keys())
    values = np.linspace(-1, 1, secret.parameters.slots)
    x = server.from_bytes(secret.encrypt(values).to_bytes())
    program = hg.program(lambda v: v * v * 4, x)
    loaded = hg.Program.from_bytes(program.to_bytes())
    assert np.array_equal(secret.decrypt(loaded(x)), secret.decrypt(program(x)))
    assert loaded.to_bytes() == program.to_bytes()


def test_ckks_and_tfhe() -> None:
    ckks = hg.SecretKey.generate(hg.ckks.parameters(depth=3, precision=25))
    server = hg.Server(ckks.evaluation_keys(rotations=[1]))
    rng = np.random.default_rng(1)
    x, w = (server.bind(ckks.encrypt(rng.uniform(-1, 1, ckks.parameters.slots))) for _ in range(2))
    program = hg.program(lambda x, w: hg.ckks.rotate(x * w + 0.5, 1) * x, x, w)
    loaded = hg.Program.from_bytes(program.to_bytes())
    assert np.array_equal(ckks.decrypt(loaded(x, w)), ckks.decrypt(program(x, w)))
    tfhe = hg.SecretKey.generate(hg.tfhe.parameters())
    bits = hg.Server(tfhe.evaluation_keys())
    a, b = (bits.bind(tfhe.encrypt(np.array(v, np.uint8))) for v in ([3, 200], [5, 100]))
    adder = hg.program(lambda a, b: a + b, a, b)
    summed = hg.Program.from_bytes(adder.to_bytes())
    assert np.array_equal(tfhe.decrypt(summed(a, b)), tfhe.decrypt(a + b))


def test_noise_spread_is_a_limit() -> None:
    """Operands have two noise bounds. A program of an older version, which has only one of them, is accepted."""
    parameters = hg.ckks.parameters(depth=3, precision=25)
    ckks = hg.SecretKey.generate(parameters)
    server = hg.Server(ckks.evaluation_keys(rotations=hg.ckks.sum_rotations(parameters.period)))
    x = server.bind(ckks.encrypt(np.full(parameters.slots, 0.5)))
    program = hg.program(lambda x: x.sum_slots(), x)
    document = resign.take_apart(program.to_bytes())
    (spread,) = document.header["spreads"]
    for spreads in ([spread], [spread + 1], None):
        document.header["spreads"] = spreads
        if spreads is None:
            del document.header["spreads"]
        loaded = hg.Program.from_bytes(resign.signed(document))
        assert np.array_equal(ckks.decrypt(loaded(x)), ckks.decrypt(program(x)))
    for spreads in ([spread - 1], [spread] * 2):
        document.header["spreads"] = spreads
        with pytest.raises(hg.MismatchError, match="grows more in sums over slots"):
            hg.Program.from_bytes(resign.signed(document))(x)


def test_another_process_runs_it(party: Party, tmp_path: Path) -> None:
    program, x, y = recorded(party)
    expected = party.secret.decrypt(program({"x": x, "y": y})[0])
    program.save(tmp_path / "p.hgp")
    party.keys.save(tmp_path / "keys.hg"), x.save(tmp_path / "x.hg"), y.save(tmp_path / "y.hg")
    text = """
        import heliograph as hg
        server = hg.Server(hg.load("keys.hg"))
        x, y = (server.load(f"{name}.hg") for name in "xy")
        hg.Program.load("p.hgp")({"x": x, "y": y})[0].save("result.hg")
    """
    for device in ("cpu", "2*cpu/uncalibrated"):
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(text)],
            cwd=tmp_path,
            env={**os.environ, "HELIOGRAPH_DEVICE": device},
            check=True,
            timeout=120,
        )
        assert np.array_equal(party.secret.decrypt(hg.load(tmp_path / "result.hg")), expected)


@pytest.mark.parametrize("change", [{"keys": 2}, {"sources": 1}, {"keys": 4, "sources": 2}])
def test_owners_in_files_are_checked(party: Party, change: dict[str, int]) -> None:
    """A file is refused if a result has the key of an operand that does not exist, or a call uses the keys of no operand."""
    program, x, y = recorded(party)
    document = resign.take_apart(program.to_bytes())
    document.header |= change
    for result in document.header["results"]:
        result["key"] = document.header["keys"] - 1
    with pytest.raises(hg.MismatchError, match="kinds of keys"):
        hg.Program.from_bytes(resign.signed(document))({"x": x, "y": y})


def test_damaged_and_signed_again(party: Party) -> None:
    program, x, y = recorded(party)
    data = program.to_bytes()
    rng = np.random.default_rng(3)
    ran = refused = 0
    for place in rng.integers(0, len(data), 40):
        broken = bytearray(data)
        broken[place] ^= 1 << int(rng.integers(0, 8))
        with pytest.raises(hg.FormatError):
            hg.Program.from_bytes(broken)
    for _ in range(300):
        document = resign.take_apart(data)
        piece = document.arrays[int(rng.integers(0, len(document.arrays)))]
        words = bytearray(piece.data)
        for _ in range(int(rng.integers(1, 3))):
            words[int(rng.integers(0, len(words)))] = int(rng.integers(0, 256))
        piece.data = bytes(words)
        changed = resign.signed(document)
        try:
            hg.Program.from_bytes(changed)({"x": x, "y": y})
            ran += 1
        except hg.HeliographError:
            refused += 1
    assert ran > 0
    assert refused > 0
