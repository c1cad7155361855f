"""The benchmarks of a GPU, as far as they run without one: cases on the null device, energy from a made-up counter, tables."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
RUN = [sys.executable, str(FOLDER / "run.py"), "--device", "null"]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmarks' own modules, as their runner finds them."""
    monkeypatch.syspath_prepend(str(FOLDER))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run of three cases."""
    out = tmp_path_factory.mktemp("bench") / "null.json"
    names = "add-2^14-x1-w64,multiply-2^14-x64-w32,hcnn5-2020-w64"
    done = subprocess.run([*RUN, "--only", names, "--seconds", "0.01", "--out", str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())


def test_a_run_records_where_what_and_how(report: Any) -> None:
    """Machine, commit, parameters; both times, floor and figure aimed at; the layers of a network."""
    assert report["machine"]["device"].startswith("null: ")
    assert report["commit"]
    cases = {r["case"]: r for r in report["results"] if "case" in r}
    assert list(cases) == ["add-2^14-x1-w64", "multiply-2^14-x64-w32", "hcnn5-2020-w64"]
    many = cases["multiply-2^14-x64-w32"]
    assert many["items"] == 64
    assert many["asked_s"] == pytest.approx(64 * 40e-6)
    assert many["floor_s"] == pytest.approx(64 * 25e-6)
    assert many["parameters"]["edition"] == "w32"
    assert many["parameters"]["security"] == "128-bit"
    assert many["runs"] >= 20
    assert min(many["median_s"], many["pipe_s"]) > 0
    assert set(many["traffic"]) >= {"launches", "uploads", "downloads"}
    assert {"conv1", "conv2", "dense"} <= set(cases["hcnn5-2020-w64"]["extra"]["layers_s"])


def test_every_case_has_its_own_name() -> None:
    """Both editions of each operation, and batches."""
    done = subprocess.run([*RUN, "--list"], capture_output=True, text=True, check=True)
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert len(set(names)) == len(names)
    for name in ("hvadd-2^15-x500", "hvmul-2^15-x250", "rotate8-2^14-x64", "square-2^15-x16", "relinearize-2^15-x1"):
        assert {f"{name}-w64", f"{name}-w32"} <= set(names)


class Slow:
    """A result that takes a millisecond to come, and counts how often it was waited for."""

    waits = 0

    def wait(self) -> None:
        """Takes its time."""
        type(self).waits += 1
        time.sleep(0.001)


def test_times_end_with_a_wait_and_energy_is_between_steps_of_its_counter() -> None:
    """A board of 100 W whose counter moves every 10 ms."""
    import gpu

    alone = gpu.latency(Slow, 0, 20)  # type: ignore[arg-type]
    assert len(alone.times) == 20
    assert Slow.waits == 23
    assert min(alone.times) >= 0.001 > statistics.median(alone.calls)
    found = gpu.pipe(Slow, 0.01, 0.2, lambda: 100 * int(time.perf_counter() * 100) / 100)  # type: ignore[arg-type]
    assert found.watts == pytest.approx(100, rel=0.3)
    assert found.joules is not None
    assert found.joules > 0.7 * 100 * 0.001 / 3  # three calls to a wait
    assert gpu.pipe(Slow, 0.01, 0.01, lambda: None).joules is None  # type: ignore[arg-type]


def test_a_machine_without_the_management_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known, and nothing fails."""
    import ctypes

    import nvml

    def absent(name: str) -> Any:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", absent)
    assert nvml.Gpu().describe() == {}
    assert nvml.Gpu().joules() is None


def test_tables_go_between_their_own_marks(report: Any, tmp_path: Path) -> None:
    """A GPU's results leave the cores' table alone."""
    page, file = tmp_path / "page.md", tmp_path / "gpu.json"
    marks = "<!-- figures -->\ncores\n<!-- end of figures -->\n<!-- gpu figures -->\n<!-- end of gpu figures -->\nend\n"
    page.write_text(marks)
    kernel = {"kernel": "batched ntt 2^16", "median_s": 2e-4, "pipe_s": 1e-4, "units": 512, "unit": "limbs"}
    with_kernel = {**report, "results": [*report["results"], kernel | {"asked_s": 1e-4, "floor_s": None}]}
    file.write_text(json.dumps(with_kernel))
    table = [sys.executable, str(FOLDER / "table.py"), str(file), "--into", str(page)]
    subprocess.run(table, check=True)
    text = page.read_text()
    assert text.startswith("<!-- figures -->\ncores\n<!-- end of figures -->\n<!-- gpu figures -->\n| what")
    assert "HCNN-5 on 16,384" in text
    subprocess.run([*table, "--whole"], check=True)
    text = page.read_text()
    assert "| batched ntt 2^16 | 200 us | 100 us | 5.12e+06 limbs/s | 100 us | - |" in text
    assert "multiply + relinearize, 64 in one call" in text
    assert text.endswith("<!-- end of gpu figures -->\nend\n")
    page.write_text("no marks")
    assert subprocess.run(table, capture_output=True).returncode == 1
