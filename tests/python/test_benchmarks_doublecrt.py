"""Tests the DoubleCRT benchmark with a simulated program: processes, floors and tables. Also tests the numbers of the
thesis.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import results
from figures_rig import FOLDER, ROOT, module, program_of, require_lines, table_of

#: A simulated program that reports its arguments in the format of benchmarks/cpp/doublecrt.cpp; on rank 2 it fails.
PROGRAM = """\
import json, os, sys
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
rank = int(os.environ.get("HELIOGRAPH_RANK", "0"))
if rank == 2: sys.exit("no third")
if "--json" not in given: sys.exit(0)
n = int(given["--sizes"])
common = {"row_size": n, "ring": False, "items": 1, "runs": 3, "moved": 0}
one = common | {"parts": 1, "products": 0}
lines = [
    {"device": given["--device"], "description": "D", "products_s": 1e9, "edition": given["--edition"]},
    one | {"level": "function", "operation": "add", "median_s": 4e-6, "pipe_s": 3e-6, "bytes": 300},
    one | {"level": "function", "operation": "mul", "median_s": 5e-6, "pipe_s": 5e-6, "bytes": 300, "products": 1e4},
    one | {"level": "function", "operation": "neg", "median_s": 2e-6, "pipe_s": 1e-6, "bytes": 200},
    common | {"level": "phase", "operation": "mul", "parts": 1, "setup_s": 1e-6, "in_s": 2e-6, "compute_s": 3e-6,
               "out_s": 4e-6, "median_s": 1e-5, "dealt": 1500},
    common | {"level": "circuit", "operation": "multiply", "parts": 2, "ring": True, "row_size": 8192,
               "median_s": 1e-3 / int(os.environ.get("HELIOGRAPH_RANKS", "1")), "pipe_s": 1e-3, "bytes": 1, "products": 1},
]
open(given["--json"], "w").write("\\n".join(map(json.dumps, lines)))
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs the benchmark on cores: as a single process, and as one, two and three ranks."""
    folder = tmp_path_factory.mktemp("doublecrt")
    program = program_of(folder / "doublecrt", PROGRAM)
    out = folder / "mine.jsonl"
    command = [*module("runners.doublecrt"), "--program", str(program), "--out", str(out)]
    env = {k: v for k, v in os.environ.items() if not k.startswith("HELIOGRAPH_") or k == "HELIOGRAPH_COMMIT"}
    subprocess.run([*command, "--quick", "--ranks", "1,2,3"], cwd=ROOT, check=True, capture_output=True, env=env)
    return out


def test_a_run_has_one_line_for_each_process_layout_and_edition(file: Path) -> None:
    """Ranks connect to each other; if a rank fails, it is reported, and the rows of other runs are kept."""
    report = results.read(file)
    assert (report["kind"], report["rows"]) == ("doublecrt", 8)
    assert report["commit"]
    rows = report["results"]
    adds = [r for r in rows if r.get("operation") == "add"]
    assert {(r["edition"], r["threads"]) for r in adds if not r["ranks"]} >= {("w64", 1), ("w32", 1)}
    layouts = {(r["ranks"], r["layout"]) for r in adds if r["ranks"]}
    assert layouts == {(n, layout) for n in (1, 2, 3) for layout in ("batch", "limb", "coefficient")}
    heads = {r["device"] for r in rows if r.get("ranks") == 2 and "description" in r}
    assert heads == {"cpu"}
    skipped = [r for r in rows if "skipped" in r]
    assert {r["ranks"] for r in skipped} == {3}
    assert all("process 2 ended with 1: no third" in r["skipped"] for r in skipped)


def test_floors_follow_from_bytes_or_products(file: Path) -> None:
    """The floor of a sum is the time that a negation takes for as many bytes. The floor of a product is the time of its
    modular products at the machine's rate, if that time is longer.
    """
    rows = [r for r in results.read(file)["results"] if r.get("level") == "function" and r["threads"] == 1]
    floors = {r["operation"]: r.get("floor_s") for r in rows}
    assert floors == {"add": pytest.approx(1.5e-6), "mul": pytest.approx(1e-5), "neg": None}


def test_the_thesis_has_six_sizes_in_all_tables() -> None:
    """The thesis has 21 tables of six sizes; in rows of phi(m) residues the time per residue is constant."""
    from benchmarks.papers import facts

    thesis = facts.of("frame")
    tables = thesis["tables"]
    assert list(tables) == list(thesis["titles"]) == [f"5.{i}" for i in range(1, 22)]
    assert all(len(line) == len(thesis["sizes"]) == 6 for lines in tables.values() for line in lines.values())
    each = [time / phi for time, phi in zip(tables["5.3"]["mul"], thesis["totients"], strict=True)]
    assert max(each) / min(each) < 1.05


def test_tables_compare_thesis_peer_and_heliograph(file: Path, tmp_path: Path) -> None:
    """Results of the thesis, of the peer and of this library are side by side by size. There are tables of bytes and of
    speed-ups over ranks.
    """
    ours = results.read(file)
    ours |= {"commit": "C" * 40, "machine": ours["machine"] | {"processor": "AMD EPYC"}}
    mark = {"ranks": 0, "threads": 1, "edition": "w64", "device": "cpu", "layout": ""}
    copied = {"level": "copies", "way": "3-way", "order": "all at once", "pinned": True, "seconds": 7e-6, "operation": "mul"}
    ours["results"].append({"row_size": 1000, "ring": False, "items": 1, "parts": 1} | copied | mark)
    file = tmp_path / "mine.jsonl"
    results.save(file, ours)
    peer: dict[str, Any] = results.read(file) | {"kind": "doublecrt-peer", "peer": "HElib 0"}
    peer["results"] = [{"level": "function", "operation": "mul", "row_size": 1008, "rows": 8, "median_s": 2.5e-5}]
    results.save(tmp_path / "peer.jsonl", peer)
    text = table_of("frame", file, tmp_path / "peer.jsonl")
    assert text.startswith("**mine.jsonl**: ")
    require_lines(
        text,
        """
        | mul: thesis, serial HElib (5.3) | 29 us | 283 us | 2.88 ms | 5.86 ms | 5.86 ms | 11.8 ms |
        | mul: HElib 0, one core | 25 us | - | - | - | - | - |
        | **mul: here, one core, AMD EPYC, CCCCCCCCCCCC** | 5 us | - | - | - | - | - |
        | mul: one core, AMD EPYC, CCCCCCCCCCCC, floor | 10 us | - | - | - | - | - |
        | mul: one core, AMD EPYC, CCCCCCCCCCCC, among many, times faster than HElib | 5.0 | - | - | - | - | - |
        | mul, in: here, one core, AMD EPYC, CCCCCCCCCCCC | 2 us | - | - | - | - | - |
        | 2 ranks of one thread, limb, AMD EPYC, CCCCCCCCCCCC | 10 us | 1.5 kB | 5 us | 0 B | 2 |
        | 1, N=8,192 | 2 ranks of one thread, batch, AMD EPYC, CCCCCCCCCCCC | 500 us | 2.00 | 0 B |
        | mul: thesis, GPUHElib (figure 5.1), circuit | 2.23 | 1.15 | 1.13 | 1.08 | 1.02 | 0.758 |
        | mul: here, 2 ranks of one thread, limb, AMD EPYC, CCCCCCCCCCCC, copied around | 2 | - | - | - | - | - |
        | mul: 3-way, all at once, pinned; one core, AMD EPYC, CCCCCCCCCCCC | 7 us | - | - | - | - | - |
        Not measured: process 2 ended with 1: no third
        """,
    )
    assert "thesis, GPUHElib (5.7)" in text


def test_rows_of_pipelined_copies_are_added(tmp_path: Path) -> None:
    """Rows of the workbench program appear beside the thesis's and the peer's rows; a row that fails is reported."""
    program = program_of(tmp_path / "doublecrt", PROGRAM)
    copies = program_of(
        tmp_path / "copies",
        """
        import json, sys
        if sys.argv[2] == '3': sys.exit('no GPU is there')
        row = {'operation': 'add', 'way': '2-way', 'order': 'batched', 'pinned': True, 'row_size': 1000, 'rows': 8, 'seconds': 2e-5}
        json.dump({'settings': {}, 'copies': [row]}, open(sys.argv[1], 'w'))
        """,
    )
    out = tmp_path / "mine.jsonl"
    command = [*module("runners.doublecrt"), "--program", str(program), "--out", str(out), "--quick"]
    command += ["--ranks", "", "--editions", "w64", "--copies", str(copies)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (row,) = [r for r in results.read(out)["results"] if r.get("level") == "copies"]
    assert (row["way"], row["median_s"], row["ranks"], row["device"]) == ("2-way", 2e-5, 0, "cpu")
    subprocess.run([*command, "--rows", "3"], cwd=ROOT, check=True, capture_output=True)
    assert results.read(out)["results"][-1]["skipped"] == "copies ended with 1: no GPU is there"


def built() -> Path | None:
    """Returns the newest build of the program by the C++ tests or by the benchmarks, or None."""
    build = FOLDER.parent / "build"
    found = [*build.glob("*/tests/cpp/bench_doublecrt"), *build.glob("*/benchmarks/doublecrt")]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


@pytest.mark.skipif(built() is None, reason="bench_doublecrt is not built; make test builds it")
def test_two_ranks_move_data_only_in_layouts_that_distribute_rows(tmp_path: Path) -> None:
    """The program checks every result itself. Ranks exchange data only in layouts that distribute the rows of an object."""
    out = tmp_path / "ranks.jsonl"
    command = [*module("runners.doublecrt"), "--program", str(built()), "--out", str(out), "--quick"]
    env = {k: v for k, v in os.environ.items() if not k.startswith("HELIOGRAPH_") or k == "HELIOGRAPH_COMMIT"}
    subprocess.run(
        [*command, "--ranks", "2", "--editions", "w32", "--rows", "3"], cwd=ROOT, check=True, capture_output=True, env=env
    )
    rows = [r for r in results.read(out)["results"] if r["ranks"]]
    assert [r["skipped"] for r in rows if "skipped" in r] == []
    resident = [r["moved"] for r in rows if r.get("level") in ("function", "circuit")]
    assert len(resident) > 20
    assert set(resident) == {0}
    dealt = {(r["layout"], r["dealt"]) for r in rows if r.get("level") == "phase" and r["operation"] == "mul"}
    row = 1024 * 4
    assert ("batch", 0) in dealt
    # rank 1 has 1 or 2 of 3 rows; the program runs three times
    assert all(3 * row <= d <= 6 * row for layout, d in dealt if layout != "batch")
