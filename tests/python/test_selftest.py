"""`heliograph selftest` passes on a correct device. The self-test detects a wrong bit, a failed call and wrong products."""

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
SMALL = (selftest.Trial(1024, 130, 1, 64, 9), selftest.Trial(1024, 110, 1, 32, 4))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits the selftest to small rings and few integers of TFHE."""
    monkeypatch.setattr(selftest, "QUICK", SMALL)
    few = tuple(dataclasses.replace(trial, items=2) for trial in selftest_tfhe.QUICK)
    monkeypatch.setattr(selftest_tfhe, "QUICK", few)


def on_reference(fixture: selftest.ExactFixture) -> bool:
    """Returns whether a fixture of the selftest belongs to the reference backend, that is, its parameters are not on the
    default device.

    """
    return fixture.x.parameters != hg.bfv.Parameters(_core.exact.Parameters(fixture.x._core.parameters.spec))


@pytest.mark.parametrize("large", [False, pytest.param(True, marks=pytest.mark.full)])
def test_a_correct_device_passes(large: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operation on each ring passes, in both word sizes and on a large ring, and the table names the device."""
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
    assert f"{_core.device.name()}: all {len(rows)} results equal" in said
    assert "FAILED" not in said


def test_the_full_test_has_every_size_in_both_word_sizes() -> None:
    """The full test has rings that one GPU block processes and rings that take two passes, in both word sizes."""
    sizes = {64: set(), 32: set()}
    for trial in selftest.ALL:
        sizes[trial.word_size].add(trial.n)
    for found in sizes.values():
        assert {1 << k for k in range(12, 17)} <= found


@pytest.mark.usefixtures("small")
def test_a_wrong_bit_is_detected(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong operation fails only in its own rows, and the exit status is 1."""
    wrong = {**selftest.OPERATIONS, "add": lambda s: s.x + s.y if on_reference(s) else s.x + s.y + 1}
    monkeypatch.setattr(selftest, "OPERATIONS", wrong)
    assert run(["selftest", "--quick"]) == 1
    said = capsys.readouterr().out
    assert said.count("FAILED") == len(SMALL)
    assert "2^10 w64, add: " in said
    assert "bytes differ" in said
    assert f"2 OF {len(SMALL) * (len(wrong) + 3)} RESULTS" in said


@pytest.mark.usefixtures("small")
def test_results_that_change_are_detected(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """If the first of two calls has another result, as when a wait is missing, this is detected."""
    calls: list[selftest.ExactFixture] = []

    def unsteady(fixture: selftest.ExactFixture) -> hg.Tensor:
        calls.append(fixture)
        return fixture.x + 1 if len(calls) == 1 else fixture.x + 0

    monkeypatch.setattr(selftest, "OPERATIONS", {"unsteady": unsteady})
    assert run(["selftest", "--quick"]) == 1
    assert "2^10 w64, unsteady: two calls gave two results" in capsys.readouterr().out


@pytest.mark.usefixtures("small")
def test_an_error_fails_only_its_row(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An error such as after a GPU fault makes only its own row fail."""

    def faulty(fixture: selftest.ExactFixture) -> hg.Tensor:
        raise hg.DeviceError("kernel add: an illegal memory access was encountered")

    monkeypatch.setattr(selftest, "OPERATIONS", {"add": faulty, "square": selftest.OPERATIONS["square"]})
    assert run(["selftest", "--quick"]) == 1
    said = capsys.readouterr().out
    assert said.count("FAILED") == len(SMALL)
    assert "DeviceError: kernel add" in said


@pytest.mark.usefixtures("small")
def test_a_lost_device_fails_every_ring(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """If the device is lost, every ring fails and the table is still printed."""

    def lost(fixture: selftest.ExactFixture, trial: selftest.Trial, device: str | None) -> None:
        raise hg.DeviceError("this GPU failed earlier and cannot be used again in this process")

    monkeypatch.setattr(selftest.ExactFixture, "__init__", lost)
    assert run(["selftest", "--quick"]) == 1
    said = capsys.readouterr().out
    assert said.count("FAILED") == len(SMALL)
    assert "2^10 w32, keys: DeviceError: this GPU failed earlier" in said


@pytest.mark.usefixtures("small")
def test_products_wrong_on_both_backends_are_detected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the device and the reference have the same wrong products, the selftest detects it, because it also compares
    decrypted values with clear values.

    """
    true = selftest.ExactFixture.__init__

    def other_operands(fixture: selftest.ExactFixture, trial: selftest.Trial, device: str | None) -> None:
        true(fixture, trial, device)
        fixture.product = fixture.x + fixture.y

    monkeypatch.setattr(selftest.ExactFixture, "__init__", other_operands)
    monkeypatch.setattr(selftest, "OPERATIONS", {})
    assert run(["selftest", "--quick"]) == 1
    assert "the products are wrong" in capsys.readouterr().out


@pytest.mark.parametrize("device", ["ref", pytest.param("cpu:scalar", marks=pytest.mark.full)])
def test_the_environment_chooses_the_device(device: str) -> None:
    """HELIOGRAPH_DEVICE chooses the tested device, which the table names."""
    short = (
        "import dataclasses, sys; from heliograph.cli import run, selftest, selftest_tfhe; "
        "selftest.QUICK = selftest.QUICK[:1]; "
        "selftest_tfhe.QUICK = (dataclasses.replace(selftest_tfhe.QUICK[0], items=2),); "  # the device ref is slow
        "sys.exit(run(['selftest', '--quick']))"
    )
    environment = os.environ | {"HELIOGRAPH_DEVICE": device}
    done = subprocess.run([sys.executable, "-c", short], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{device.split(':')[0]}: all " in done.stdout


def test_tfhe_is_covered(capsys: pytest.CaptureFixture[str]) -> None:
    """For TFHE, the selftest compares the bits of exact kernels and the decrypted values of every set. The full test has the
    secure sets.

    """
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
def test_wrong_tfhe_values_are_detected(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong gate and a wrong linear combination are detected, and the exit status is 1."""
    monkeypatch.setattr(selftest_tfhe, "OPERATIONS", {"add": lambda s: (s.x + s.y, s.a - s.b)})
    turns: list[int] = []

    def unlike(fixture: selftest_tfhe.TfheFixture) -> hg.tfhe.Tensor:
        turns.append(1)
        return ~fixture.x if len(turns) % 2 else fixture.x

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
    """The null device, which computes nothing, is refused."""
    done = subprocess.run(COMMAND, capture_output=True, text=True, env=os.environ | {"HELIOGRAPH_DEVICE": "null"})
    assert done.returncode == 1
    assert done.stderr == "heliograph: cannot test the null device: it computes nothing; set HELIOGRAPH_DEVICE to another\n"
