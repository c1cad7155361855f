"""What the pages of papers say: the papers' figures as printed, ours where they were measured, nothing else."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("benchmarks")

CORES = {"processor": "AMD EPYC", "cores": 2, "memory_gib": 8.0, "device": "cpu: 2 threads"}
BOARD = CORES | {"gpu": "NVIDIA H100", "gpus": 1, "device": "cuda: NVIDIA H100"}


def report(machine: dict[str, Any], rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A file of results."""
    return {"commit": "C" * 40, "date": "2026-01-02T03", "machine": machine, "results": rows} | more


def tfhe_row(case: str, seconds: float, **more: Any) -> dict[str, Any]:
    """A result of benchmarks/tfhe.py."""
    import tfhe_cases

    declared = tfhe_cases.CASES[case]
    parameters = {"name": declared.set, "security": "128-bit", "log2_failure": -129.8, "number_bytes": 270336}
    place = {"table": declared.table, "line": declared.line, "column": declared.column}
    return {"case": case, "what": declared.what, "parameters": parameters, "median_s": seconds, "elements": 1} | place | more


@pytest.fixture
def morshed() -> dict[str, Any]:
    """A core's and a GPU's file."""
    kernel = {"shape": "boolean", "count": 4, "key_switch_s": 1e-3, "bootstrap_s": 8e-3, "threads": 1}
    skipped = tfhe_row("table9/2_2/cannon/16", 1, skipped="longer", estimate_s=3000.0, threads=1)
    del skipped["median_s"]
    cores = [
        kernel,
        tfhe_row("figure5/and/boolean/4", 0.0105, threads=1),
        tfhe_row("table5/2_2/default/32", 0.12, threads=1),
        tfhe_row("table7/2_2/default/32", 1.7, threads=1),
        tfhe_row("table9/2_2/cannon/2", 3.0, threads=1, wrong=1, elements=4),
        skipped,
    ]
    gpu = [
        tfhe_row("table5/boolean/bitwise/32", 0.05),
        tfhe_row("table5/boolean/default/32", 0.01),
        tfhe_row("table10/2_2/training/numerical/lbw", 7.0),
    ]
    return {"c.json": report(CORES, cores, kind="tfhe"), "g.json": report(BOARD, gpu, kind="tfhe")}


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("morshed IV", "| here, 1 core of AMD EPYC, CCCCCCCCCCCC | rest | boolean | - | 1.5 ms | - | - | - |"),
        ("morshed IV", "| paper | GPU, key switch | - | 2.65 ms | 2.69 ms | 2.69 ms | 2.91 ms | 3.34 ms |"),
        ("morshed 5a", "| here, 1 core of AMD EPYC, CCCCCCCCCCCC | AND | boolean | 10.5 ms | - | - | - | - |"),
        ("morshed 5b", "| Titan Xp | cuFHE, by its own page | - | - | - | - | - | - | - | 128 ms | 256 ms | 512 ms |"),
        ("morshed V", "| here, H100, CCCCCCCCCCCC | bitwise | boolean | - | - | 50 ms |"),
        ("morshed V", "| paper | GPU_1 (bitwise) | - | 980 ms | 1.47 s | 1.99 s |"),
        ("morshed IX", "| here, 1 core of AMD EPYC, CCCCCCCCCCCC | cannon | 2_2 | 3 s\\* | - | - | (about 3,000 s) |"),
        ("morshed IX", "2x2 matrix product of 16-bit numbers, cannon, 2_2, 1 core of AMD EPYC, CCCCCCCCCCCC: 1 of 4."),
        ("morshed X", "| here, H100, CCCCCCCCCCCC | numerical, training, two steps | 2_2 | - | - | - | - | 7 s |"),
        ("morshed I", "| TFHE, digits | fully | exact | cores | 128 | 270.3 | 120 | 1,700 |"),
        ("morshed I", "| paper | SEAL (BFV) | somewhat | no | no | 157 | 8,806 | 4,237 | 23,954 |"),
        ("morshed II", "| here, H100, CCCCCCCCCCCC | boolean | - | 10 ms | - | - | - |"),
        ("morshed sources", "[g.json](benchmarks/results/g.json): NVIDIA H100 (2 cores), commit CCCCCCCCCCCC, 2026-01-02"),
    ],
)
def test_morshed(morshed: dict[str, Any], table: str, line: str) -> None:
    """Each table has the paper's line and ours, with machine and commit; estimates in parentheses, wrong results marked."""
    import morshed_tables
    from table import seconds

    assert line in "\n".join(morshed_tables.TABLES[table](morshed, seconds))


def test_what_nobody_measured_has_no_line(morshed: dict[str, Any]) -> None:
    """Of a table without results the paper's lines are left."""
    import morshed_tables
    from table import seconds

    text = "\n".join(morshed_tables.TABLES["morshed VIII"](morshed, seconds))
    assert "paper" in text
    assert "here" not in text
