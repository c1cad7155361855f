"""The benchmarks of CKKS bootstrapping on a small insecure set, and the scaling benchmark."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import results
from figures_rig import ROOT, module, replace_modules, require_lines, table_of


def test_bootstraps_are_measured(tmp_path: Path) -> None:
    """The report has times, precision, levels, keys and a product for comparison; the table has its lines."""
    out = tmp_path / "bootstrap.jsonl"
    command = [*module("runners.bootstrap"), "--sets", "small", "--seconds", "0.01", "--threads", "1"]
    command += ["--only", "bootstrap-small-real-x2,bootstrap-small-complex-x1,bootstrap-small-product-x1", "--out", str(out)]
    done = subprocess.run([*command, "--runs", "3"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = results.read(out)
    assert (report["kind"], report["machine"]["device"][:3]) == ("bootstrap", "cpu")
    rows = {r["case"].removeprefix("bootstrap-small-"): r for r in report["results"] if "case" in r}
    assert list(rows) == ["complex-x1", "real-x2", "product-x1"]
    assert [r["extra"].get("precision", {}).get("ciphertexts") for r in rows.values()] == [3, 4, None]
    for row in rows.values():
        p, extra = row["parameters"], row["extra"]
        assert (row["threads"], p["level_before"], p["level_after"]) == (1, 4, 9)
        assert p["security"].startswith("insecure")
        assert min(row["floor_s"], row["median_s"]) > 0
        assert extra["keys_bytes"] > 2 * extra["keys_file_bytes"] - 2 > 0
        if told := extra.get("precision"):
            assert 17 < told["worst_bits"] < told["root_mean_square_bits"] < told["mean_bits"] < 25
    require_lines(
        table_of("bootstraps", out),
        """
        | 1 core | N=2,048 | bootstrap of two real ciphertexts, paired |
        of 4 | 4 to 9 |
        | 1 core | N=2,048 | multiply + relinearize + rescale at the top |
        | 1 core | N=2,048 | insecure
        """,
    )


def test_cases_of_bootstrapping_accept_any_set() -> None:
    """The target time of a case follows from its set; unknown names of cases are refused."""
    from benchmarks.cases import bootstrap as bootstrap_cases
    from benchmarks.cases import gpu as gpu_cases

    assert gpu_cases.case_of("bootstrap-n16-b13-complex-x16").asked == pytest.approx(16 * 5.8e-3)
    assert gpu_cases.case_of("bootstrap-n15-b4-real-x1").asked is None
    assert "bootstrap-n16-b10-h-twice-x1" in bootstrap_cases.names_of("n16-b10-h")
    assert "bootstrap-n16-b13-twice-x1" not in bootstrap_cases.names_of("n16-b13")
    assert not any(name.startswith(bootstrap_cases.BEGIN) for name in gpu_cases.CASES)
    with pytest.raises(SystemExit, match="unknown case bootstrap-n16-b13-none"):
        gpu_cases.case_of("bootstrap-n16-b13-none")


def test_a_single_wrong_slot_shows_in_the_worst_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """If one slot has an error of 0.001, the worst error shows it and the mean hardly does."""
    from benchmarks.cases import bootstrap as bootstrap_cases
    from heliograph import ckks

    class Off(ckks.SecretKey):
        def decrypt(self, x: Any, **options: Any) -> Any:
            values = super().decrypt(x, **options)
            values[..., 5] += 1e-3j
            return values

    party = bootstrap_cases.party("small")
    off = bootstrap_cases.Party(Off(party.secret._core), party.server, 0)
    monkeypatch.setattr(bootstrap_cases, "party", lambda name: off)
    told = bootstrap_cases.precision("small", "complex-x1", 1)
    assert told["worst_bits"] == pytest.approx(9.97, abs=0.05)
    assert told["mean_bits"] > 18


class Slow:
    """A simulated result that takes a hundredth of a second and counts its waits."""

    waits = 0

    def wait(self) -> None:
        """Waits a hundredth of a second and counts the wait."""
        type(self).waits += 1
        time.sleep(0.01)


def test_long_calls_are_timed_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long calls run once to warm up; then three runs are timed."""
    from benchmarks.cases import gpu as gpu_cases
    from benchmarks.runners import gpu, nvml

    monkeypatch.setattr(gpu, "LONG", 0.005)
    case = gpu_cases.Case("slow", lambda: gpu_cases.Ready(Slow, {}))  # type: ignore[arg-type]
    monkeypatch.setitem(gpu_cases.CASES, "slow", case)
    row = gpu.row_of("slow", gpu_cases.UNKNOWN, 60, 20, nvml.Gpus())
    assert (row["runs"], Slow.waits) == (3, 4)
    assert row["median_s"] == row["pipe_s"] >= 0.01


def test_a_process_ends_when_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the deadline, the measured cases remain in the report and the others are listed as skipped."""
    from benchmarks.runners import mesh

    (tmp_path / "run.py").write_text(
        "import json, sys, time\n"
        "print(json.dumps({'machine': {}}), flush=True)\n"
        "for name in sys.argv[sys.argv.index('--child') + 1].split(','):\n"
        "    if name == 'long': time.sleep(600)\n"
        "    print(json.dumps({'case': name}), flush=True)\n"
    )
    replace_modules(monkeypatch, tmp_path)
    process = mesh.Process("cpu", 1, mesh.AUTO, ("first", "long", "last"))
    for seconds in (2, 10, 50):  # repeats with a later deadline until the first case is measured before the deadline
        until = time.monotonic() + seconds
        rows = [row for row in mesh.measure(process, 1, 50, None, until=until) if "case" in row]
        if "skipped" not in rows[0]:
            break
    assert [row.get("skipped") for row in rows] == [None, mesh.OVER, mesh.OVER]


# Scaling


def test_scaling_is_measured_on_one_and_on_two_devices(tmp_path: Path) -> None:
    """Two devices are compared with one device for ring cases and TFHE; the table has a line for each."""
    out = tmp_path / "scaling.jsonl"
    command = [*module("runners.scaling"), "--device", "cpu/uncalibrated", "--counts", "1,2", "--small"]
    command += ["--only", "bootstrap-small-product-x1,gates", "--seconds", "0.01", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = results.read(out)
    assert (report["kind"], len(report["machine"]["devices"]) > 1) == ("scaling", True)
    rows = [r for r in report["results"] if "case" in r]
    names = ("bootstrap-small-product-x1", "gates/nand/boolean/x1")
    assert [(r["case"], r["devices"]) for r in rows] == [(name, n) for name in names for n in (1, 2)]
    for one, two in (rows[:2], rows[2:]):
        assert (one["speedup"], two["speedup"]) == (1, pytest.approx(one["median_s"] / two["median_s"]))
    assert rows[2]["wrong"] == 0
    require_lines(
        table_of("scaling", out),
        """
        | one call (times faster than one GPU) | 1 GPU | 2 GPUs |
        | CKKS multiply + relinearize + rescale at the top, small |
        | one NAND, boolean |
        """,
    )


def test_cases_beyond_the_deadline_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the deadline the running process is ended and no other process starts; the report names the missing cases."""
    from benchmarks.runners import mesh, scaling

    for name in ("run.py", "tfhe.py"):
        (tmp_path / name).write_text("import time\ntime.sleep(600)\n")
    replace_modules(monkeypatch, tmp_path)
    rows: list[dict[str, Any]] = []
    groups = (("gates/a", "gates/b"), ("c",))
    scaling.measure("cpu", [1, 2], groups, 0.1, 50, time.monotonic() + 1, rows.append)
    expected = [("gates/a", 1), ("gates/b", 1), ("gates/a", 2), ("gates/b", 2), ("c", 1), ("c", 2)]
    assert [(r["case"], r["devices"]) for r in rows] == expected
    assert {r["skipped"] for r in rows} == {mesh.OVER}
    assert "skipped" in scaling.line(rows[0])


def test_scaling_uses_the_visible_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark uses the GPUs that the process sees, and cases of the other benchmarks."""
    from benchmarks.cases import gpu as gpu_cases
    from benchmarks.cases import tfhe as tfhe_cases
    from benchmarks.runners import nvml, scaling

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,3,5,6,7")
    assert scaling.counts_of("cuda") == [1, 2, 3, 4]
    assert scaling.counts_of("cuda:1,cuda:2") == [1, 2]
    assert [p.device for p in scaling.processes("cuda/uncalibrated", [2, 1], ("x",))] == [
        "cuda:0",
        "cuda:0,cuda:1/uncalibrated",
    ]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert nvml.count() == 0
    with pytest.raises(SystemExit, match="no GPU"):
        scaling.counts_of("cuda")
    for name in (name for group in scaling.GROUPS + scaling.SMALL for name in group):
        assert name in tfhe_cases.CASES or gpu_cases.case_of(name)


def test_a_first_call_is_timed_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long cases are timed after a first call. This first call is timed separately, and has a line in the table if it takes
    much longer.
    """
    from benchmarks.cases import gpu as gpu_cases
    from benchmarks.report import operations
    from benchmarks.runners import gpu, nvml

    calls: list[float] = []

    class Clock:
        now = 0.0

        def perf_counter(self) -> float:
            return self.now

    clock = Clock()

    class Result:
        def wait(self) -> None:
            calls.append(clock.now)
            clock.now += 0.4 if len(calls) == 1 else 0.01

    ready = gpu_cases.Ready(Result, {"n": 1}, 0)
    monkeypatch.setattr(gpu_cases, "case_of", lambda name: gpu_cases.Case("slow at first", lambda: ready, 1, runs=1))
    monkeypatch.setattr(gpu, "time", clock)
    row = gpu.row_of("c", gpu_cases.UNKNOWN, 0.1, 1, nvml.Gpus([0], False))
    assert row["runs"] == 1
    assert len(calls) == 2
    assert (row["median_s"], row["first_s"]) == (pytest.approx(0.01), pytest.approx(0.4))
    rows = [
        {"case": "c", "what": "w", "devices": n, "layout": "auto", "median_s": 2.0 / n, "first_s": 4.0, "speedup": n}
        for n in (1, 2)
    ]
    lines = operations.by_count(rows, {"c": rows[0]})
    assert lines[2:] == ["| w | 2 s | 1 s (2.00) |", "| w: the first call of a process | 4 s | 4 s |"]
    assert len(operations.by_count([r | {"first_s": 2.2} for r in rows[:1]], {"c": rows[0]})) == 3
