"""Tests the GPU benchmarks and their tables without a GPU. The tests use the null device, a mesh of two cpu devices and a
simulated energy counter.
"""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import results
from figures_rig import (
    FOLDER,
    ROOT,
    breaking_program,
    hanging_queue,
    module,
    program_of,
    replace_modules,
    require_lines,
    table_of,
)

RUN = [*module("run"), "--device", "null"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs three cases and returns the report."""
    out = tmp_path_factory.mktemp("bench") / "null.jsonl"
    names = "add-2^14-x1-w64,multiply-2^14-x64-w32,hcnn5-2020-w64"
    done = subprocess.run(
        [*RUN, "--only", names, "--seconds", "0.01", "--out", str(out)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return results.read(out)


def test_a_run_records_machine_cases_and_parameters(report: Any) -> None:
    """The report has the machine, commit, parameters, both times, floor and target, and the layers of a network."""
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
    """Case names are unique and cover both word sizes and batches of each operation."""
    done = subprocess.run([*RUN, "--list"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert len(set(names)) == len(names)
    for name in ("hvadd-2^15-x500", "hvmul-2^15-x250", "rotate8-2^14-x64", "square-2^15-x16", "relinearize-2^15-x1"):
        assert {f"{name}-w64", f"{name}-w32"} <= set(names)


class Clock:
    """A simulated clock that advances only when the benchmark waits for a call's result."""

    now = 0.0

    def perf_counter(self) -> float:
        """Returns the simulated time in seconds."""
        return self.now


CLOCK = Clock()


class Slow:
    """A simulated result that takes a millisecond, and counts how often it is awaited."""

    waits = 0

    def wait(self) -> None:
        """Advances the clock."""
        type(self).waits += 1
        CLOCK.now += 0.001


def test_times_end_with_a_wait() -> None:
    """The report has the time of a call without and with the final wait; before that, three calls warm up."""
    from benchmarks.runners import common, gpu

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(common, "time", CLOCK)
        patch.setattr(Slow, "waits", 0)
        alone = gpu.latency(Slow, 0, 20)  # type: ignore[arg-type]
        assert Slow.waits == 23
    assert alone.times == pytest.approx([0.001] * 20)
    assert alone.calls == [0] * 20


def test_energy_is_measured_between_steps_of_the_counter() -> None:
    """A simulated board uses 100 W and changes its counter every 10 ms; the measured power is 100 W."""
    from benchmarks.runners import gpu

    class Noted(gpu.Meter):
        def __enter__(self) -> Noted:
            self._last = self._joules()
            meters.append(self)
            return self

        def look(self) -> None:
            used = self._joules()
            if used is not None and used != self._last:
                self.steps.append((CLOCK.now, used))
            self._last = used

        def __exit__(self, *error: object) -> None:
            meters.clear()

    class Metered(Slow):
        def wait(self) -> None:
            super().wait()
            for meter in meters:
                meter.look()

    meters: list[Noted] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu, "time", CLOCK)
        patch.setattr(gpu, "Meter", Noted)
        found = gpu.pipe(Metered, 0.01, 0.2, lambda: 100 * int(CLOCK.now * 100) / 100)  # type: ignore[arg-type]
        assert found.watts == pytest.approx(100, rel=0.1)
        assert found.joules is not None
        assert found.joules / found.watts == pytest.approx(found.seconds, rel=0.1)
        assert gpu.pipe(Metered, 0.01, 0.01, lambda: None).joules is None  # type: ignore[arg-type]


def test_the_calls_do_not_wait_for_the_counter() -> None:
    """Reading the energy counter never delays the next call, because a separate thread reads it."""
    from benchmarks.runners import gpu

    made, readings, readers = threading.Condition(), 0, set[int]()

    class Called(Slow):
        calls = 0

        def __init__(self) -> None:
            with made:
                Called.calls += 1
                made.notify_all()

        def wait(self) -> None:
            with made:
                CLOCK.now += 0.001 if readings > 3 else 0  # time advances only after some readings
                made.notify_all()

    def joules() -> float:
        nonlocal readings
        readers.add(threading.get_ident())
        with made:
            before = Called.calls
            assert made.wait_for(lambda: Called.calls > before or CLOCK.now >= end, 60)
        readings += 1
        return 1.0

    end = CLOCK.now + 0.1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu, "time", CLOCK)
        gpu.pipe(Called, 0.01, 0.1, joules)  # type: ignore[arg-type]
        assert threading.get_ident() not in readers
        assert len(readers) == 1


def test_the_meter_records_steps_of_the_counter_only() -> None:
    """The meter records each change of the counter and drops readings that did not change."""
    from benchmarks.runners import gpu

    values, read = iter([1.0, 1.0, 2.0, 2.0, 5.0]), threading.Event()

    def joules() -> float:
        found = next(values, None)
        if found is None:
            read.set()
        return 5.0 if found is None else found

    with gpu.Meter(joules) as meter:
        assert read.wait(60)
    assert [used for _, used in meter.steps] == [2, 5]
    assert not meter._thread.is_alive()


def test_energy_is_measured_on_the_computing_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Energy is measured on all boards for a device name without numbers, on the numbered boards for a name with numbers,
    and on no board for cores.

    """
    import heliograph as hg
    from benchmarks.runners import mesh, nvml

    monkeypatch.setattr(nvml, "Gpus", lambda numbers, computing: (list(numbers), computing))
    monkeypatch.setattr(hg, "devices", lambda: ["cuda: H200", "cuda: H200", "links: direct"])
    found = {}
    for name in ("cuda", "cuda:1", "cuda:0,cuda:3", "cpu"):
        monkeypatch.setenv("HELIOGRAPH_DEVICE", name)
        found[name] = mesh.boards()
    assert found == {"cuda": ([0, 1], True), "cuda:1": ([1], True), "cuda:0,cuda:3": ([0, 3], True), "cpu": ([0], False)}


def test_without_the_management_library_there_is_no_energy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the management library the report has no energy, and no error occurs."""
    import ctypes

    from benchmarks.runners import nvml

    def absent(name: str) -> Any:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", absent)
    assert nvml.Gpus().describe() == {}
    assert nvml.Gpus([0, 1]).joules() is None


class Driver:
    """A simulated driver with two boards, which have the numbers 3 and 5 on the machine and have used 1 and 2 joules."""

    def nvmlInit_v2(self) -> int:
        """Returns success; the method has the name of NVIDIA's function."""
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, number: Any, handle: Any) -> int:
        """Finds only the boards 3 and 5."""
        if number.value not in (3, 5):
            return 1
        handle._obj.value = number.value
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, used: Any) -> int:
        """Returns the energy in millijoules."""
        used._obj.value = 1000 if handle.value == 3 else 2000
        return 0


def test_energy_is_of_all_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Energy is summed over the boards that the process sees, by the numbers that they have in the process."""
    import ctypes

    from benchmarks.runners import nvml

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Driver())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert nvml.Gpus([0]).joules() == 1
    assert nvml.Gpus([1]).joules() == 2
    assert nvml.Gpus([0, 1]).joules() == 3
    assert nvml.Gpus([0, 1, 2]).joules() is None


def test_tables_of_a_file_are_printed(report: Any, tmp_path: Path) -> None:
    """The tables of a GPU's results have every case and kernel; the table of headlines has some of them."""
    file = tmp_path / "gpu.jsonl"
    kernel = {"kernel": "batched ntt 2^16", "median_s": 2e-4, "pipe_s": 1e-4, "units": 512, "unit": "limbs"}
    with_kernel = {**report, "results": [*report["results"], kernel | {"asked_s": 1e-4, "floor_s": None}]}
    results.save(file, with_kernel)
    assert "HCNN-5 on 16,384" in table_of("GPU in short", file)
    printed = subprocess.run([*module("tables"), str(file)], cwd=ROOT, check=True, capture_output=True, text=True)
    text = printed.stdout
    assert text.startswith("**gpu.jsonl**: ")
    assert "| batched ntt 2^16 | 200 us | 100 us | 5.12e+06 limbs/s | 100 us | - |" in text
    assert "multiply + relinearize, 64 in one call" in text


# Meshes


def test_device_names_follow_from_their_number() -> None:
    """For n devices, the name has n GPU numbers, one device n times, or the first n devices of a list. The numbers are also
    parsed from a mesh's name.

    """
    from benchmarks.runners import mesh

    assert mesh.members("cuda", 3) == ["cuda:0", "cuda:1", "cuda:2"]
    assert mesh.members("cpu/uncalibrated", 2) == ["cpu", "cpu"]
    assert mesh.members("cuda:4,cuda:6,cuda:7", 2) == ["cuda:4", "cuda:6"]
    assert mesh.members("cuda:1", 1) == ["cuda:1"]
    with pytest.raises(SystemExit):
        mesh.members("cuda:4,cuda:6", 3)
    assert mesh.members_of("2*cpu,cuda:1/limb") == ["cpu", "cpu", "cuda:1"]
    assert mesh.numbers_of(["cuda:0", "cuda:5", "cpu"]) == [0, 5, 0]


def test_processes_are_ordered_and_every_case_is_a_case_of_gpus() -> None:
    """Processes with fewer devices run first and long cases run last. Every case runs in the requested layouts."""
    from benchmarks.cases import gpu as gpu_cases
    from benchmarks.runners import mesh

    assert set(mesh.LAYOUTS) <= set(gpu_cases.CASES)
    processes = list(mesh.plan("cuda", [2, 1], mesh.chosen("", list(gpu_cases.CASES))))
    assert [p.devices for p in processes if p.layout == mesh.AUTO] == [1, 2, 1, 2]
    assert processes[0].device == "cuda:0"
    assert processes[1].device == "1*cuda:0/uncalibrated"
    assert processes[2].device == "cuda:0,cuda:1"
    assert {p.layout for p in processes if p.devices == 2} == {mesh.AUTO, *mesh.FORCED}
    assert all(n.startswith("hcnn11") for n in processes[-1].names)
    assert mesh.chosen("hvmul", list(gpu_cases.CASES)) == ["hvmul-2^15-x250-w64", "hvmul-2^15-x250-w32"]
    some = mesh.chosen("rotate-2^14-x1", list(gpu_cases.CASES))
    asked = list(mesh.plan("cpu/uncalibrated", [1, 3], some, "limb/transpose"))
    assert [p.device for p in asked] == ["cpu", "cpu,cpu,cpu/uncalibrated/limb/transpose"]
    assert asked[1].names == ("rotate-2^14-x1-w64", "rotate-2^14-x1-w32")


def test_a_process_that_breaks_costs_one_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a process exits or hangs, one case is lost; the following cases are still measured."""
    from benchmarks.runners import mesh

    named = "sys.argv[sys.argv.index('--child') + 1].split(',')"
    breaking_program(tmp_path / "run.py", named, "print(json.dumps({'machine': {}}), flush=True)")
    replace_modules(monkeypatch, tmp_path)

    hangs = tmp_path / "hangs"
    monkeypatch.setattr(mesh, "queue", hanging_queue(hangs))
    process = mesh.Process("cpu,cpu", 2, "limb", ("first", "breaks", "second", "hangs", "last"))
    rows = list[dict[str, Any]]()
    for row in mesh.measure(process, 1, 120, None):
        rows += [row] if "case" in row else []
        if row.get("case") == "hangs":
            hangs.unlink()
    assert [row["case"] for row in rows] == ["first", "breaks", "second", "hangs", "last"]
    assert [row.get("skipped") for row in rows[::2]] == [None] * 3
    assert "a reason" in rows[1]["skipped"]
    assert rows[3]["skipped"] == "silent for 120 s"
    assert all(row["layout"] == "limb" and row["devices"] == 2 for row in rows)
    (tmp_path / "run.py").write_text("raise SystemExit('no such device')")
    rows = list(mesh.measure(process, 1, 120, None))
    assert len(rows) == 5
    assert all("no such device" in row["skipped"] for row in rows)


@pytest.mark.full
def test_two_cpu_devices_are_measured_beside_one(tmp_path: Path) -> None:
    """The report of two devices has speed-ups over one device, halved floors and the traffic. If one case fails, the other
    cases are measured.

    """
    out = tmp_path / "mesh.jsonl"
    run = [*module("run"), "--device", "cpu/uncalibrated", "--counts", "1,2", "--out", str(out)]
    done = subprocess.run(
        [*run, "--only", "add-2^14-x1-w64", "--layouts", "auto,limb,nonsense", "--seconds", "0.01"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    report = results.read(out)
    assert len(report["machine"]["devices"]) > 1
    assert report["commit"]
    rows = [r for r in report["results"] if "case" in r]
    assert [(r["devices"], r["layout"]) for r in rows] == [(1, "auto"), (2, "auto"), (2, "limb"), (2, "nonsense")]
    one, several, limbs, wrong = rows
    assert "nonsense" in wrong["skipped"]
    assert one["speedup"] == 1
    assert several["speedup"] == pytest.approx(one["median_s"] / several["median_s"])
    assert several["floor_s"] == pytest.approx(one["floor_s"] / 2)
    assert limbs["device"] == "cpu,cpu/uncalibrated/limb"
    assert limbs["parameters"]["security"] == "128-bit"
    # an addition moves no data between members
    assert limbs["traffic"]["exchanges"] == limbs["traffic"]["exchanged_bytes"] == 0


def test_traffic_between_devices_is_recorded(tmp_path: Path) -> None:
    """The rows of the program that measures traffic are recorded for each number of devices; a failure is recorded with its
    reason.
    """
    from benchmarks.runners import mesh

    program = program_of(
        tmp_path / "mesh",
        """
        import json, sys
        names = sys.argv[sys.argv.index('--members') + 1].split(',')
        print(json.dumps({'exchange': 'link', 'devices': len(names), 'members': names}))
        sys.exit('no third' if len(names) == 3 else 0)
        """,
    )
    rows = list(mesh.exchanges(program, "cuda", [1, 3], 0.01, 10))
    assert [row.get("members") for row in rows] == [["cuda:0"], ["cuda:0", "cuda:1", "cuda:2"], None]
    assert "no third" in rows[2]["skipped"]


def fake(case: str, what: str, devices: int, layout: str, seconds: float, **more: Any) -> dict[str, Any]:
    """Returns a result row."""
    return {
        "case": case, "what": what, "devices": devices, "layout": layout, "device": "cuda:0", "median_s": seconds,
        "pipe_s": seconds, "floor_s": 1e-3 / devices, "joules": 2.0, "speedup": None, "extra": {},
        "parameters": {"name": "hvmul-2020", "edition": "w64", "security": "128-bit"},
        "traffic": {"exchanges": 3.0, "exchanged_bytes": 2.5e6, "staged_bytes": 0.0},
    } | more  # fmt: skip


def test_tables_of_several_gpus(tmp_path: Path) -> None:
    """Result files of one machine are merged into tables of scaling, single ciphertexts and repartitioning."""
    move = {
        "exchange": "repartition", "what": "rows to columns", "matrix": "lift", "rows": 40, "columns": 65536,
        "word_bytes": 4, "devices": 2, "members": "cuda:0,cuda:1", "tensor_bytes": 10485760, "median_s": 5e-5,
        "pipe_s": 4e-5, "bytes": 5242880, "bytes_s": 1.31e11,
    }  # fmt: skip
    link = move | {"exchange": "link", "what": "each member its neighbour's", "path": "direct"}
    name, what = "hvmul-2^15-x250-w64", "HVMul: 250 multiply + relinearize in one call"
    first = [
        fake(name, what, 1, "auto", 0.036),
        fake(name, what, 2, "auto", 0.020),
        fake("multiply-2^15-x1-w64", "multiply + relinearize, N=2^15", 1, "auto", 2e-4),
        fake("multiply-2^15-x1-w64", "multiply + relinearize, N=2^15", 2, "limb/transpose/input", 1.6e-4),
        move | {"path": "direct"},
        move | {"path": "host", "median_s": 3e-3},
        link,
        {
            "case": "hcnn11-one-w64",
            "skipped": "ParameterError: there is none",
            "device": "cuda:0",
            "devices": 1,
            "layout": "auto",
        },
    ]
    second = [fake(name, what, 4, "auto", 0.009), link | {"devices": 4}]
    machine = {
        "processor": "P",
        "cores": 8,
        "memory_gib": 64.0,
        "device": "cuda:0: G",
        "gpu": "G",
        "gpus": 2,
        "gpu_driver": "1",
        "gpu_memory_gib": 80.0,
    }
    files = []
    for index, rows in enumerate((first, second)):
        files.append(tmp_path / f"{index}.jsonl")
        results.save(files[-1], {"date": "D", "commit": "C" * 40, "machine": machine, "results": rows})
    scaled = f"| {what} | 36 ms | 20 ms (1.80) | 9 ms (4.00) |"
    assert scaled in table_of("mesh in short", *files)
    text = table_of("mesh", *files)
    assert text.startswith("**0.jsonl**: 2 G, 80 GiB, driver 1 (host: P")
    assert scaled in text
    require_lines(
        text,
        """
        | 2 | limb/transpose/input | 160 us | 160 us | 1.25 | 3 | 2.5 MB | 2 J |
        | lift: 40 x 65,536 words of 4 bytes | rows to columns | 2 | 5.24 MB | 50 us | 40 us | 131 | 3 ms | 40 us |
        each member its neighbour's, of 4
        Not measured: hcnn11-one-w64 on cuda:0: ParameterError: there is none
        """,
    )
    assert table_of("mesh", *files).count("**") == 4


# TFHE

TFHE = module("runners.tfhe")


def tfhe_report(tmp_path: Path, *words: str) -> Any:
    """Runs the TFHE benchmark and returns its report."""
    out = tmp_path / "tfhe.jsonl"
    done = subprocess.run([*TFHE, *words, "--out", str(out)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return results.read(out)


def counting(tmp_path: Path) -> Path:
    """Returns a simulated program whose counts are like those of the null device: 1,000 multiply-adds per bootstrap, 10 per
    key switch, small keys.

    """
    return program_of(
        tmp_path / "kernels",
        """
        import json
        for c in (1, 2):
            row = {'shape': 'boolean', 'n': 688, 'k': 3, 'degree': 512, 'group': 2, 'count': c}
            row['bootstrap_counts'] = {'products': 1000 * c, 'bytes': 400 + c}
            row['lwe_key_switch_counts'] = {'products': 10 * c, 'bytes': 40 + c}
            row['combine_counts'] = {'products': 2 * c, 'bytes': 3 * c}
            print(json.dumps(row))
        """,
    )


def test_tfhe_runs_record_sets_costs_and_what_was_left_out(tmp_path: Path) -> None:
    """The report has the parameters with their security and failure probability, counts of bootstraps and layers, and
    estimates.
    """
    names = "gates/nand/boolean/x1,table5/boolean/bitwise/16,table9/boolean/cannon/2"
    report = tfhe_report(
        tmp_path, "--device", "null", "--only", names, "--repeat", "0.01", "--kernels", str(counting(tmp_path))
    )
    assert report["kind"] == "tfhe"
    assert report["commit"]
    assert report["machine"]["device"].startswith("null: ")
    rows = {r["case"]: r for r in report["results"] if "case" in r}
    assert list(rows) == names.split(",")
    gate, addition, matrices = rows.values()
    assert gate["parameters"]["security"] == "128-bit"
    assert gate["parameters"]["log2_failure"] < -128
    assert (gate["bootstraps"], gate["levels"], gate["wrong"]) == (1, 1, None)
    assert addition["bootstraps"] > addition["levels"] >= 15
    assert matrices["bootstraps"] > 8 * 16 * 15
    assert min(r["median_s"] for r in rows.values()) > 0
    assert [r["rates"] for r in report["results"] if "rates" in r] == ["boolean"]
    report = tfhe_report(tmp_path, "--device", "null", "--only", names, "--seconds", "1e-12")
    for row in (r for r in report["results"] if "case" in r):
        assert "longer than" in row["skipped"]
        assert row["estimate_s"] > 0
        assert "median_s" not in row


def test_tfhe_results_are_compared_with_clear_ones(tmp_path: Path) -> None:
    """Results on a computing device are compared with the clear computation."""
    report = tfhe_report(
        tmp_path, "--device", "cpu", "--threads", "1", "--only", "figure5/compound/boolean/1", "--repeat", "0.01"
    )
    row = report["results"][-1]
    assert row["case"] == "figure5/compound/boolean/1"
    assert (row["wrong"], row["elements"], row["threads"]) == (0, 2, 1)


def test_tfhe_cases_refer_to_tables_of_the_paper() -> None:
    """The table and the column of each case exist in the papers' numbers. The parameter sets equal those of
    benchmarks/cpp/tfhe.cpp.

    """
    import re

    import heliograph as hg
    from benchmarks.cases import tfhe as tfhe_cases
    from benchmarks.papers import facts
    from benchmarks.report import tfhe as tfhe_tables

    columns: dict[str, set[str]] = {}
    for case in tfhe_cases.CASES.values():
        columns.setdefault(case.table, set()).add(case.column)
    paper = facts.of("morshed")
    assert set(columns) - {""} == set(paper["columns"]) - {"IV"} == set(paper["tables"]) - {"IV"}
    for name, lines in paper["tables"].items():
        assert {c for line in lines.values() for c in line} <= columns["Figure 5" if name == "IV" else name], name
    assert {p["case"] for p in tfhe_tables.PEERS} <= set(tfhe_cases.CASES)
    text = (FOLDER / "cpp" / "tfhe.cpp").read_text()
    pattern = (
        r'\{"(.+)", \{\.n = (\d+), \.k = (\d+), \.degree = (\d+), \.gadget = \{(\d+), (\d+)\}, \.group = (\d+)\}, '
        r"\{(\d+), (\d+)\}\}"
    )
    shapes = re.findall(pattern, text)
    assert len(shapes) >= 5
    for name, *numbers in shapes:
        s = hg.tfhe.parameters(name, insecure=True)._core.spec
        gadgets = (s.bootstrap_log_base, s.bootstrap_levels, s.group, s.switch_log_base, s.switch_levels)
        assert tuple(map(int, numbers)) == (s.n, s.k, s.degree, *gadgets), name


def test_tfhe_cases_are_chosen_by_name_or_beginning() -> None:
    """A full name selects one case; a prefix selects all cases that begin with it."""
    from benchmarks.runners import tfhe

    known = ["a/x1", "a/x16", "b/x1"]
    assert tfhe.chosen("a/x1", known) == ["a/x1"]
    assert tfhe.chosen("a/,b/x1", known) == known
    assert tfhe.chosen("", known) == known
    assert tfhe.chosen("none", known) == []


def test_tfhe_floors_come_from_counts(tmp_path: Path) -> None:
    """The floors (least possible times) of bootstraps and layers follow from counts. The floors do not include the parts of
    the key that need not be read.

    """
    from benchmarks.cases import tfhe as tfhe_cases
    from benchmarks.runners import tfhe

    counts = tfhe.counts_of(counting(tmp_path))["boolean"]
    assert counts["each"] == {"fma": 1000, "mac": 12, "bytes": 5}
    assert counts["layer"] == {"fma": 0, "mac": 0, "bytes": 440 - 100}
    rates = {"fma_s": 1e3, "mac_s": 12.0, "bytes_s": 1e9}
    assert tfhe.kernel_floor(counts, 3, rates) == pytest.approx(6)
    assert tfhe.kernel_floor(counts, 3, rates | {"bytes_s": 1.0}) == pytest.approx(340 + 15)
    assert tfhe.kernel_floor(counts, 3, {}) is None
    case = tfhe_cases.CASES["figure5/single/boolean/4"]  # a circuit of two layers with four bootstraps
    assert tfhe_cases.floor(case, counts, rates) == (pytest.approx(16), "products")
    assert tfhe_cases.floor(case, counts, rates | {"bytes_s": 1.0}) == (pytest.approx(8 * 5 + 2 * 340), "bytes")
    assert tfhe_cases.floor(case, None, rates) == (None, "")


def test_a_tfhe_process_that_breaks_costs_one_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a process exits, one case is lost; the following cases are still measured."""
    import argparse

    from benchmarks.runners import tfhe

    breaking_program(tmp_path / "tfhe.py", "json.loads(sys.argv[-1])['names']")
    replace_modules(monkeypatch, tmp_path)
    options = argparse.Namespace(seconds=1.0)
    rows = list(tfhe.measured(["first", "breaks", "last"], options, {"threads": 1}, {}))
    assert [r["case"] for r in rows] == ["first", "breaks", "last"]
    assert "a reason" in rows[1]["skipped"]


def tfhe_row(case: str, seconds: float, **more: Any) -> dict[str, Any]:
    """Returns a result row."""
    from benchmarks.cases import tfhe as tfhe_cases

    declared = tfhe_cases.CASES[case]
    parameters = {"name": declared.set, "security": "128-bit", "log2_failure": -129.8}
    place = {"table": declared.table, "line": declared.line, "column": declared.column}
    return {
        "case": case, "what": declared.what, "parameters": parameters, "items": declared.items, "bootstraps": declared.items,
        "levels": 1, "median_s": seconds, "floor_s": seconds / 2, "over_floor": 2.0, "wrong": 0, "elements": 1, "threads": 1,
    } | place | more  # fmt: skip


def test_tables_of_tfhe(tmp_path: Path) -> None:
    """Tables have our machines side by side, and the times of other libraries. The paper's tables are on a separate page."""
    kernel = {"shape": "boolean", "count": 4, "a_second": 400.0, "combine_s": 0.0, "key_switch_s": 1e-3, "threads": 1}
    skipped = tfhe_row("table9/2_2/cannon/16", 1, skipped="longer", estimate_s=3000.0)
    del skipped["median_s"]
    machine = {"processor": "P", "cores": 2, "memory_gib": 8.0, "device": "cpu: 2 threads"}
    cores = [
        kernel | {"bootstrap_s": 8e-3, "all_s": 1e-2, "prepare_s": 1.0, "floor_s": 5e-3, "over_floor": 2.0},
        tfhe_row("gates/nand/boolean/x1", 0.005),
        tfhe_row("integers/add/2_2/x1", 0.3),
        tfhe_row("figure5/and/boolean/4", 0.0105),
        tfhe_row("table5/boolean/bitwise/32", 0.25),
        tfhe_row("table9/2_2/cannon/2", 3.0, wrong=1, elements=4),
        skipped,
        {"case": "kernels", "skipped": "ended with 1"},
    ]
    gpu = [
        tfhe_row("gates/nand/boolean/x65536", 0.5, threads=None),
        tfhe_row("table5/boolean/bitwise/32", 0.05, threads=None),
    ]
    board = {"gpu": "NVIDIA H200", "gpus": 1, "gpu_memory_gib": 140.0, "gpu_driver": "1"}
    files = []
    for name, where, rows in (("zen.jsonl", machine, cores), ("h.jsonl", machine | board, gpu)):
        files.append(tmp_path / name)
        report = {"kind": "tfhe", "date": "D", "commit": "C" * 40, "machine": where, "load": [0.1, 1.2], "results": rows}
        results.save(files[-1], report)
    text = table_of("TFHE", *files)
    assert text.startswith("**zen.jsonl**: P, 2 cores, 8.0 GiB; commit CCCCCCCCCCCC; D; load 0.1 to 1.2\n")
    require_lines(
        text,
        r"""
        | boolean | 1 core | 4 | 1 ms | 8 ms | 10 ms | 400 | 5 ms | 2.00 |
        | one NAND, boolean | 1 core | 1 in 1 | 5 ms | 200 | 2.5 ms | 2.00 | 128-bit, 2^-130 | 11.9 ms (tfhe-rs 1.8.2
        2x2 matrix product of 16-bit numbers, cannon, 2_2, 1 core: 1 of 4
        """,
    )
    require_lines(
        table_of("TFHE in short", *files),
        """
        | one NAND | boolean | 5 ms | - | 1 core 11.9 ms |
        | NANDs in a batch, a second | boolean | - | 131,072 | - |
        | 32-bit addition | 2_2 | 300 ms | - | 1 core 573 ms |
        """,
    )


def test_ranks_are_measured_beside_one_process(tmp_path: Path) -> None:
    """The results of ranks are correct, a batch of products sends no bytes between ranks, and the table has a line for the
    batch.
    """
    out = tmp_path / "ranks.jsonl"
    command = [*module("runners.ranks"), "--counts", "1,2", "--quick", "--start", "sockets"]
    done = subprocess.run([*command, "--out", str(out)], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rows = results.read(out)["results"]
    assert [(r["form"], r["count"]) for r in rows] == [("one process", 1), ("ranks", 2), ("one process", 2)]
    assert all(r["correct"] and r["sent_bytes"] == 0 and r["exchanged_bytes"] == 0 for r in rows)
    assert "| 3 BGV multiplications | 2 |" in table_of("ranks", out)


def test_a_network_over_ranks_has_lines_in_the_table(tmp_path: Path) -> None:
    """A network over ranks has lines for its ranks and for the bytes that each operation sends; other reports have no such
    lines.
    """
    from benchmarks import tables

    steps = [
        {"what": "conv2", "outputs": 800, "outputs_bytes": 419430400, "exchanged_bytes": 86507520, "sent_bytes": 64891212},
        {"what": "square", "outputs": 800, "outputs_bytes": 629145600, "exchanged_bytes": 0, "sent_bytes": 0},
    ]
    row = {"case": "hcnn5-paper", "what": "HCNN-5", "calls": 3, "sent_bytes": 0, "first_sent_bytes": 104200000, "steps": []}
    rows = [
        row | {"form": "one process", "count": 1, "median_s": 2.0},
        row | {"form": "ranks", "count": 2, "median_s": 1.25, "sent_bytes": 3 * 70800000, "steps": steps},
        row | {"form": "one process", "count": 2, "median_s": 1.0},
    ]
    machine = {"processor": "Some CPU", "cores": 2, "memory_gib": 4, "ranks": ["cpu: 1 thread, avx512"]}
    report = {"machine": machine, "commit": "0123456789abcdef", "date": "today", "results": rows}
    lines = "\n".join(tables.TABLES["network over ranks"]({"a.jsonl": report, "b.jsonl": report | {"results": rows[:1]}}))
    require_lines(
        lines,
        """
        | 2 ranks of 1 thread (Some CPU), 0123456789ab | 1.25 s | 1.60x | 2.00x | 70.8 MB | [a.jsonl](benchmarks/results/a.jsonl) |
        | 2 ranks of 1 thread (Some CPU), 0123456789ab: operation | its ciphertexts | moved, as words | sent |
        | conv2 | 800, 419.4 MB | 86.5 MB | 64.9 MB |
        | square | 800, 629.1 MB | 0 | 0 |
        | the first call, with keys and cached images | | | 104.2 MB |
        """,
    )
    assert lines.count("b.jsonl") == 0


def test_programs_run_once_per_number_of_devices(tmp_path: Path) -> None:
    """Each number of devices runs in its own process; speed-ups are relative to the first number."""
    out = tmp_path / "schedules.jsonl"
    words = [
        "--device",
        "cpu/uncalibrated",
        "--counts",
        "1,2",
        "--small",
        "--only",
        "sums",
        "--seconds",
        "0.05",
        "--out",
        str(out),
    ]
    command = [*module("runners.programs"), *words]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120).stdout
    report = results.read(out)
    assert report["kind"] == "schedules"
    assert [(r["devices"], r["program"]) for r in report["results"]] == [(1, "sums-ckks-2^14"), (2, "sums-ckks-2^14")]
    one, two = report["results"]
    assert two["over_first"] == pytest.approx(one["program_s"] / two["program_s"])
    assert (one["members"], [count for _, count in two["members"]]) == ([], [10, 0])  # a chain of calls uses only one member
    assert printed.count("times the first") == 2


def test_programs_on_several_gpus_are_compared_with_one_gpu() -> None:
    """Several GPUs have a separate table, with speed-ups over the function and over the program on one GPU."""
    from benchmarks.report import workloads

    def report(gpus: int, program: float) -> dict[str, Any]:
        row = {"program": "p", "what": "w", "calls": 2, "launches": 1, "graphs": True} | dict.fromkeys(
            ("eager_s", "eager_host_s", "program_host_s"), 3.0
        )
        return {"machine": {"gpus": gpus}, "results": [row | {"program_s": program}]}

    lines = workloads.programs({"one": report(1, 2.0), "two": report(2, 1.0)})
    assert lines[2] == "| w | 2 | 1, a graph | 3 s | 3 s | 2 s | 3 s | 1.50 |"
    assert lines[-1] == "| w | 3 s | 1 s | 3 s | 3.00 | 2.00 |"
