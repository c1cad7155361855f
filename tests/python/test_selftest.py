"""heliograph selftest: it passes on a sound device, and sees a wrong bit, a failed call and wrong products."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import pytest

import heliograph as hg
from heliograph import _core
from heliograph.cli import run, selftest, selftest_tfhe

COMMAND = [sys.executable, "-m", "heliograph.cli", "selftest", "--quick"]
SMALL = (selftest.Trial(1024, 130, 1, "w64", 9), selftest.Trial(1024, 110, 1, "w32", 4))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small rings alone, and few integers of TFHE."""
    monkeypatch.setattr(selftest, "QUICK", SMALL)
    few = tuple(dataclasses.replace(trial, items=2) for trial in selftest_tfhe.QUICK)
    monkeypatch.setattr(selftest_tfhe, "QUICK", few)


def on_reference(side: selftest.Side) -> bool:
    """Whether it is the reference's turn: its parameters are not those of the process's device."""
    return side.x.parameters != hg.bfv.Parameters(_core.Parameters(side.x._core.parameters.spec))


@pytest.mark.parametrize("large", [False, pytest.param(True, marks=pytest.mark.full)])
def test_a_sound_device_passes(large: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operation of each ring, in both editions and on a large ring, with the device's name."""
    if not large:
        monkeypatch.setattr(selftest, "QUICK", tuple(trial for trial in selftest.QUICK if trial.n < 1 << 15))
    assert run(["selftest", "--quick"]) == 0
    said = capsys.readouterr().out
    rows = [line for line in said.splitlines() if line.startswith("2^")]
    assert len(rows) == len(selftest.QUICK) * (len(selftest.OPERATIONS) + 3)
    assert all(line.endswith(" ok") for line in rows)
    assert ("2^15 w64" in said) == large
    for wanted in ("2^10 w64", "2^11 w32", *selftest.OPERATIONS, "keys", "encrypt", "decrypt"):
        assert wanted in said
    assert f"{_core.device_name()}: all {len(rows)} results equal" in said
    assert "FAILED" not in said


def test_the_whole_test_has_every_size_in_both_editions() -> None:
    """Rings that one block of a GPU holds, and rings of two passes."""
    sizes = {"w64": set(), "w32": set()}
    for trial in selftest.ALL:
        sizes[trial.edition].add(trial.n)
    for found in sizes.values():
        assert {1 << k for k in range(12, 17)} <= found


@pytest.mark.usefixtures("small")
def test_a_wrong_bit_is_seen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One operation that computes something else on the device: its rows fail, the others stand; status 1."""
    wrong = {**selftest.OPERATIONS, "add": lambda s: s.x + s.y if on_reference(s) else s.x + s.y + 1}
    monkeypatch.setattr(selftest, "OPERATIONS", wrong)
    assert run(["selftest", "--quick"]) == 1
    said = capsys.readouterr().out
    assert said.count("FAILED") == len(SMALL)
    assert "2^10 w64, add: " in said
    assert "bytes differ" in said
    assert f"2 OF {len(SMALL) * (len(wrong) + 3)} RESULTS" in said


@pytest.mark.usefixtures("small")
def test_results_that_change_are_seen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The first call of two is wrong, as where a wait is missing."""
    calls: list[selftest.Side] = []

    def unsteady(side: selftest.Side) -> hg.Tensor:
        calls.append(side)
        return side.x + 1 if len(calls) == 1 else side.x + 0

    monkeypatch.setattr(selftest, "OPERATIONS", {"unsteady": unsteady})
    assert run(["selftest", "--quick"]) == 1
    assert "2^10 w64, unsteady: two calls gave two results" in capsys.readouterr().out


@pytest.mark.usefixtures("small")
def test_an_error_fails_its_row_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What a fault of a GPU would look like."""

    def faulty(side: selftest.Side) -> hg.Tensor:
        raise hg.DeviceError("kernel add: an illegal memory access was encountered")

    monkeypatch.setattr(selftest, "OPERATIONS", {"add": faulty, "square": selftest.OPERATIONS["square"]})
    assert run(["selftest", "--quick"]) == 1
    said = capsys.readouterr().out
    assert said.count("FAILED") == len(SMALL)
    assert "DeviceError: kernel add" in said


@pytest.mark.usefixtures("small")
def test_a_device_that_is_lost_fails_every_ring(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The table is still told."""

    def lost(side: selftest.Side, trial: selftest.Trial, device: str | None) -> None:
        raise hg.DeviceError("this GPU failed earlier and cannot be used again in this process")

    monkeypatch.setattr(selftest.Side, "__init__", lost)
    assert run(["selftest", "--quick"]) == 1
    said = capsys.readouterr().out
    assert said.count("FAILED") == len(SMALL)
    assert "2^10 w32, keys: DeviceError: this GPU failed earlier" in said


@pytest.mark.usefixtures("small")
def test_wrong_products_are_seen_where_both_agree(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Decryption is compared with the clear values too."""
    true = selftest.Side.__init__

    def other_operands(side: selftest.Side, trial: selftest.Trial, device: str | None) -> None:
        true(side, trial, device)
        side.product = side.x + side.y

    monkeypatch.setattr(selftest.Side, "__init__", other_operands)
    monkeypatch.setattr(selftest, "OPERATIONS", {})
    assert run(["selftest", "--quick"]) == 1
    assert "the products are wrong" in capsys.readouterr().out


@pytest.mark.parametrize("device", ["ref", pytest.param("cpu:scalar", marks=pytest.mark.full)])
def test_the_device_is_the_environments(device: str) -> None:
    """HELIOGRAPH_DEVICE chooses what is tested; the table names it."""
    short = (
        "import dataclasses, sys; from heliograph.cli import run, selftest, selftest_tfhe; "
        "selftest.QUICK = selftest.QUICK[:1]; "
        "selftest_tfhe.QUICK = (dataclasses.replace(selftest_tfhe.QUICK[0], items=2),); "  # the reference takes its time
        "sys.exit(run(['selftest', '--quick']))"
    )
    environment = os.environ | {"HELIOGRAPH_DEVICE": device}
    done = subprocess.run([sys.executable, "-c", short], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{device.split(':')[0]}: all " in done.stdout


def test_tfhe_is_covered(capsys: pytest.CaptureFixture[str]) -> None:
    """Exact parts and decrypted values of each set; the real ones in the whole test."""
    rows = [row for trial in selftest_tfhe.QUICK for row in selftest_tfhe.run_trial(trial)]
    assert len(rows) == len(selftest_tfhe.QUICK) * (2 + len(selftest_tfhe.LINEAR) + len(selftest_tfhe.OPERATIONS))
    assert [row for row in rows if row.fault] == []
    real = next(trial for trial in selftest_tfhe.ALL if not trial.exact)
    assert real.parameters().security == "128-bit"
    rows = list(selftest_tfhe.run_trial(real))
    assert [row for row in rows if row.fault] == []
    assert len(rows) == 2 + len(selftest_tfhe.OPERATIONS)
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("small")
def test_wrong_tfhe_values_are_seen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong gate, a wrong linear combination: status 1."""
    monkeypatch.setattr(selftest_tfhe, "OPERATIONS", {"add": lambda s: (s.x + s.y, s.a - s.b)})
    turns: list[int] = []

    def unlike(side: selftest_tfhe.Side) -> hg.tfhe.Tensor:
        turns.append(1)
        return ~side.x if len(turns) % 2 else side.x

    monkeypatch.setattr(selftest_tfhe, "LINEAR", {"linear combinations": unlike})
    monkeypatch.setattr(selftest, "OPERATIONS", {})
    assert run(["selftest", "--quick"]) == 1
    said = capsys.readouterr().out
    assert said.count("FAILED") == 2 * len(selftest_tfhe.QUICK)
    assert "values are wrong" in said
    assert "bytes" in said
    assert "RESULTS ARE WRONG" in said
    assert "results equal those of ref" in said


def test_the_null_device_is_refused() -> None:
    """It computes nothing."""
    done = subprocess.run(COMMAND, capture_output=True, text=True, env=os.environ | {"HELIOGRAPH_DEVICE": "null"})
    assert done.returncode == 1
    assert done.stderr == "heliograph: the null device computes nothing; HELIOGRAPH_DEVICE chooses another\n"
