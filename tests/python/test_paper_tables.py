"""The pages on papers have the numbers of the papers as printed and our numbers as measured."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import results
from figures_rig import ROOT, module

CORES = {"processor": "AMD EPYC", "cores": 2, "memory_gib": 8.0, "device": "cpu: 2 threads"}
BOARD = CORES | {"gpu": "NVIDIA H100", "gpus": 1, "device": "cuda: NVIDIA H100"}


def report(machine: dict[str, Any], rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Returns a results file."""
    return {"commit": "C" * 40, "date": "2026-01-02T03", "machine": machine, "results": rows} | more


def tfhe_row(case: str, seconds: float, **more: Any) -> dict[str, Any]:
    """Returns a result of benchmarks/runners/tfhe.py."""
    from benchmarks.cases import tfhe as tfhe_cases

    declared = tfhe_cases.CASES[case]
    parameters = {"name": declared.set, "security": "128-bit", "log2_failure": -129.8, "number_bytes": 270336}
    place = {"table": declared.table, "line": declared.line, "column": declared.column}
    return {"case": case, "what": declared.what, "parameters": parameters, "median_s": seconds, "elements": 1} | place | more


@pytest.fixture
def morshed() -> dict[str, Any]:
    """Returns the results of one core and of a GPU."""
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
        tfhe_row("table10/2_2/step/binary/300x20", 3.0),
        tfhe_row("table10/2_2/sums/binary/300x20", 2.0),
    ]
    return {"c.jsonl": report(CORES, cores, kind="tfhe"), "g.jsonl": report(BOARD, gpu, kind="tfhe")}


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
        ("morshed in short", "| 32-bit addition | 7.04 s | 7.04 s | 1.99 s | 120 ms (2_2; AMD EPYC, CCCCCCCCCCCC) | - | 10 ms (boolean; H100, CCCCCCCCCCCC) |"),
        ("morshed in short", "| 16 x 16 matrices of 16 bits | 523,073 s | 150,860 s | 11,174 s | - | - | - |"),
        ("morshed in short", "| regression, 300 x 20 bits: a step of gradient descent | - | - | 5,753 s | - | - | 3 s (2_2; H100, CCCCCCCCCCCC) |"),
        ("morshed X", "| here, H100, CCCCCCCCCCCC | numerical, training, two steps | 2_2 | - | - | - | - | 7 s |"),
        ("morshed I", "| TFHE, digits | - | fully | exact | cores | 128 | 270.3 | 120 | 1,700 |"),
        ("morshed I", "| paper | SEAL (BFV) | 2019 | somewhat | no | no | 157 | 8,806 | 4,237 | 23,954 |"),
        ("morshed II", "| here, H100, CCCCCCCCCCCC | boolean | - | 10 ms | - | - | - |"),
        ("morshed sources", "[g.jsonl](benchmarks/results/g.jsonl): NVIDIA H100 (2 cores), commit CCCCCCCCCCCC, 2026-01-02"),
    ],
)  # fmt: skip
def test_tables_of_morshed_have_both_results(morshed: dict[str, Any], table: str, line: str) -> None:
    """Each table has the row of the paper and our row, with machine and commit. Estimates and wrong results are marked."""
    from benchmarks.papers import morshed as morshed_tables

    assert line in "\n".join(morshed_tables.TABLES[table](morshed))


def test_tables_without_our_results_have_the_papers_rows(morshed: dict[str, Any]) -> None:
    """A table for which we have no results has only the rows of the paper."""
    from benchmarks.papers import morshed as morshed_tables

    text = "\n".join(morshed_tables.TABLES["morshed VIII"](morshed))
    assert "paper" in text
    assert "here" not in text


def lines_of(table: str, reports: dict[str, Any]) -> str:
    """Returns a table of the page on this paper."""
    from benchmarks.papers import morshed as morshed_tables

    return "\n".join(morshed_tables.TABLES[table](reports))


def test_one_machine_may_have_several_files(morshed: dict[str, Any]) -> None:
    """Files of one machine give one row of Table I with all their commits. Each CPU generation is a separate machine."""
    add, multiply = (tfhe_row(f"{case}/boolean/default/32", 0.2, threads=1) for case in ("table5", "table7"))
    for name, other in (("zen5-a.jsonl", "zen5-b.jsonl"), ("zen4-a.jsonl", "zen5-b.jsonl")):
        files = {
            name: report(CORES, [add], kind="tfhe"),
            other: report(CORES, [multiply], kind="tfhe") | {"commit": "D" * 40},
        }
        found = [line for line in lines_of("morshed I", files).splitlines() if "here" in line]
        line = "| here, 1 core of AMD EPYC (Zen 5), CCCCCCCCCCCC, DDDDDDDDDDDD | TFHE, bits | - | fully | exact | cores | 128 | 270.3 | 200 | 200 |"
        assert found == ([line] if name.startswith("zen5") else [])


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.9996, "1 s"), (0.9994, "999 ms"), (999.7, "1,000 s"), (0.9996e-3, "1 ms"), (0.9996e-6, "1 us"), (5e-9, "5 ns")],
)
def test_times_have_three_significant_digits(value: float, words: str) -> None:
    """Values are rounded before the unit is chosen, so no value is written as "1e+03 ms"."""
    from benchmarks.report.render import seconds

    assert seconds(value) == words


def test_processors_of_equal_names_are_distinguished() -> None:
    """Processors with equal names are told apart by file name or model; other processors keep their names."""
    from benchmarks.report.machines import processor

    intel = {"processor": "Intel(R) Xeon(R) Processor", "family": "GenuineIntel family 6 model 207"}
    assert processor(intel, "xeon-a.jsonl") == "Intel Xeon (model 207)"
    assert processor({"processor": "Intel(R) Xeon(R) Processor"}) == "Intel Xeon"
    amd = {"processor": "AMD EPYC", "family": "AuthenticAMD family 26 model 2"}
    assert [processor(amd, name) for name in ("zen5-a.jsonl", "zen4.jsonl", "a.jsonl")] == [
        "AMD EPYC (Zen 5)",
        "AMD EPYC (Zen 4)",
        "AMD EPYC",
    ]


def test_a_measurement_replaces_an_estimate(morshed: dict[str, Any]) -> None:
    """A measurement on the same machine replaces an estimate, in any order of files. Measurements on other machines do not."""
    measured = report(CORES, [tfhe_row("table9/2_2/cannon/16", 1500.0, threads=1)], kind="tfhe") | {"commit": "D" * 40}
    for files in ({"a.jsonl": measured} | morshed, morshed | {"z.jsonl": measured}):
        text = lines_of("morshed IX", files)
        assert "1,500 s" in text
        assert "about" not in text
    away = measured | {"machine": CORES | {"processor": "Intel(R) Xeon(R) Processor"}}
    assert "| (about 3,000 s) |" in lines_of("morshed IX", morshed | {"z.jsonl": away})


def test_shared_cores_are_marked(morshed: dict[str, Any]) -> None:
    """The cores of a row are marked as shared if, for most rows, the load exceeds the threads in use and too few cores are
    free.

    """
    rows = [tfhe_row("table5/boolean/default/32", 0.2, threads=1, load=load) for load in (1.0, 6.0, 7.0)]
    assert "1 core of AMD EPYC, shared, CCCC" in lines_of("morshed V", {"a.jsonl": report(CORES, rows, kind="tfhe")})
    assert "shared" not in lines_of("morshed V", {"a.jsonl": report(CORES, rows[:1], kind="tfhe")})
    assert "shared" not in lines_of("morshed V", {"a.jsonl": report(CORES | {"cores": 16}, rows, kind="tfhe")})


def test_wrong_results_have_their_probability() -> None:
    """A wrong result is given with its probability: 0.048 for 855 bootstraps at 2^-14, negligible at 2^-130."""
    row = tfhe_row("table7/morshed-2020/karatsuba/24", 1.0, threads=2, wrong=1, bootstraps=855)
    for failure, likely in ((-14.1, "0.048"), (-129.6, "8.3e-37")):
        row["parameters"]["log2_failure"] = failure
        text = lines_of("morshed VII", {"a.jsonl": report(CORES, [row], kind="tfhe")})
        assert f"855 bootstraps that fail with 2^{failure:.0f} each cause an error with probability {likely}." in text


def test_predictions_name_the_run_that_decrypted_to_them(morshed: dict[str, Any]) -> None:
    """A predicted accuracy names the encrypted run that confirmed it. If no run confirmed the accuracy, or the run was
    wrong, the table has "not run"."""
    case = "table10/2_2/step/numerical/200x10"
    ran = tfhe_row(case, 20.0, wrong=0)
    shares = {"start": 0.25, "exact": 0.5, "real": 0.505, "least_squares": 0.9, "error": 0.003, "allowed": 0.005}
    clear = report(CORES, [{"of": case, "line": ran["line"], "column": ran["column"], "steps": 1} | shares], kind="training")
    cells = "| 200 x 10 | numerical, a step of gradient descent | 25.0% | 50.0% | 50.5% | 90.0% | 0.0030 of 0.0050 |"
    assert f"{cells} not run yet |" in lines_of("morshed predictions", {"a.jsonl": clear})
    with_run = {"a.jsonl": clear, "g.jsonl": report(BOARD, [ran], kind="tfhe")}
    assert f"{cells} H100, CCCCCCCCCCCC |" in lines_of("morshed predictions", with_run)
    with_run["g.jsonl"]["results"][0]["wrong"] = 1
    assert f"{cells} not run yet |" in lines_of("morshed predictions", with_run)


def test_estimates_are_compared_with_what_was_measured() -> None:
    """Estimates and measurements are compared for the cases that have both."""
    rows = [
        tfhe_row("table5/boolean/default/32", 0.2, estimate_s=0.1),
        tfhe_row("table5/2_2/default/32", 0.1, estimate_s=0.3),
    ]
    text = lines_of("morshed estimates", {"g.jsonl": report(BOARD, rows, kind="tfhe")})
    assert text.endswith("the estimate was 0.5 to 3 times the measured time on GPUs for eight in ten of 2 cases.")


def test_the_clear_training_is_of_every_case(tmp_path: Path) -> None:
    """The clear training covers every case, with plausible accuracies. Public tables that are missing are skipped."""
    out = tmp_path / "clear.jsonl"
    subprocess.run([*module("runners.training"), "--out", str(out)], cwd=ROOT, check=True, capture_output=True)
    rows = results.read(out)["results"]
    assert {r["skipped"] for r in rows if "skipped" in r} == {
        f"{name}.txt is not in the folder of --tabular" for name in ("lbw", "pcs", "uis", "edin")
    }
    done = [r for r in rows if "skipped" not in r]
    assert len(done) == 16
    assert all(r["error"] <= r["allowed"] and abs(r["exact"] - r["real"]) < 0.02 for r in done)
    assert all(max(r["exact"], r["real"], 0.8) < r["least_squares"] for r in done)


def al_badawi_row(case: str, seconds: float, **more: Any) -> dict[str, Any]:
    """Returns a result of benchmarks/run.py."""
    parameters = {"name": "hvmul-2020", "edition": "w64", "security": "128-bit", "n": 1 << 15}
    return {"case": case, "parameters": parameters, "median_s": seconds, "joules": None} | more


@pytest.fixture
def al_badawi() -> dict[str, Any]:
    """Returns the results of cores, of GPUs and of the workbench."""
    name = "hvmul-2^15-x250-w64"
    cores = [al_badawi_row(name, 8.0 / n, threads=n, devices=1, layout="auto") for n in (1, 2)]
    gpus = [
        al_badawi_row(name, 0.03, devices=1, layout="auto", joules=20.0, watts=600.0),
        al_badawi_row(name, 0.016, devices=2, layout="auto", joules=24.0, watts=1100.0),
        al_badawi_row(name, 0.001, devices=2, layout="limb"),
        al_badawi_row("hvmul-2^15-x2500-w64", 0.002, devices=2, layout="auto"),
        {
            "program": "hcnn5, two batches of images",
            "images": 32768,
            "devices": 2,
            "eager_s": 0.1,
            "program_s": 0.08,
            "runs": 5,
        }
        | {"calls": 96, "launches": 48, "same": True},
        {
            "larger": "batch",
            "what": "9 ciphertexts",
            "bytes": 9e10,
            "limit_bytes": 8e10,
            "devices": 1,
            "refused": "needs 9, has 8",
        },
        {
            "larger": "keys",
            "what": "700 keys",
            "bytes": 9e10,
            "limit_bytes": 8e10,
            "devices": 1,
            "made_s": 9.0,
            "first_s": 0.01,
        }
        | {"again_s": 0.02, "resident_s": 0.001, "wrong": 0},
    ]
    counted = {"counts": "HCNN-5", "inputs": 784, "outputs": 10, "products": 1520, "constants": 46000, "additions": 44470}
    moves = [
        {"way": "unified memory", "direction": d, "gpus": 2, "seconds": s, "right": True}
        for d, s in (("rows to columns", 0.003), ("columns to rows", 0.004))
    ]
    exchange = {"exchange": "repartition", "matrix": "Figure 4", "devices": 2, "path": "direct", "what": "rows to columns"}
    gpus += [exchange | {"median_s": 4e-5}, exchange | {"median_s": 3e-5, "what": "columns to rows"}]
    return {
        "c.jsonl": report(CORES, cores),
        "g.jsonl": report(BOARD | {"gpus": 2, "gpu_memory_gib": 79.6, "gpu_driver": "1"}, gpus),
        "n.jsonl": report(CORES, [counted | {"biases": 1530, "relinearizations": 730}]),
        "workbench/results/h-partition.json": {"settings": {"device": "NVIDIA H100", "commit": "D" * 40}, "moves": moves},
    }


HERE = "H100, CCCCCCCCCCCC ([g.jsonl](benchmarks/results/g.jsonl))"


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("al-badawi 2", "| HCNN-5 | paper | 784 | 10 | 1,520 | 46,000 | 46,000 | 1,950 |"),
        ("al-badawi 2", "| 784 | 10 | 1,520 | 46,000 | 44,470 | 1,530 |"),
        ("al-badawi 3", "| here, [g.jsonl](benchmarks/results/g.jsonl) | 2 H100 | 80 GiB |"),
        ("al-badawi 4", "| HVMul | paper: K80 | 5.788 s | 2.602 s | 1.997 s | 6.162 s | - | - |"),
        ("al-badawi 4", f"| HVMul | here: {HERE}: hvmul-2020, w64, 128-bit | 30 ms | 16 ms | - | - | - | - |"),
        ("al-badawi 4", "w64, 128-bit | 8 s | 4 s | - | - | - | - |"),
        ("al-badawi figure 7", f"| HVMul | here: {HERE}: hvmul-2020, w64, 128-bit | 1.88 | - | - | - | - |"),
        ("al-badawi figure 7", "| HVAdd | paper: K80 | 2.03 | 3.50 | 2.62 | - | - |"),
        ("al-badawi figure 8", "hvmul-2020, w64, 128-bit | 2 | 550 W | 24 J | 21.8 ms | 16 ms |"),
        ("al-badawi figure 4", "| unified memory | 2 | 3 ms | 4 ms | H100, DDDDDDDDDDDD ([h-partition.json](workbench/results/h-partition.json)) |"),
        ("al-badawi figure 4", f"| the mesh's exchange, by loads | 2 | 40 us | 30 us | {HERE} |"),
        ("al-badawi in short", "| HVMul | 62.81 s (20: Cingulata, cores of a Xeon E5-2620) | 1.091 s (2: V100 and three P100) | 4 s (2: AMD EPYC, CCCCCCCCCCCC) | 30 ms (1: H100, CCCCCCCCCCCC) | 16 ms (2: H100, CCCCCCCCCCCC) |"),
        ("al-badawi 5", "| HCNN-11, ten plaintext moduli | paper: K80 | - | - | - | 11,207.33 s |"),
        ("al-badawi programs", "| hcnn5, two batches of images | 2 | 32,768 | 100 ms | 80 ms | - | 96 in 48 | yes |"),
        ("al-badawi larger", "| 9 ciphertexts | 90 GB | 80 GB | 1 | refused: needs 9, has 8 | - |"),
        ("al-badawi larger", "made in 9 s; each used once 10 ms, again 20 ms, while it is on the GPU 1 ms | yes |"),
    ],
)  # fmt: skip
def test_tables_of_al_badawi_have_cores_and_gpus(al_badawi: dict[str, Any], table: str, line: str) -> None:
    """Tables have our results on cores by number of threads, and on GPUs by number of GPUs. Results for which layouts were
    requested are omitted.

    """
    from benchmarks.papers import al_badawi as al_badawi_tables

    text = "\n".join(al_badawi_tables.TABLES[table](al_badawi))
    assert line in text
    assert "1 ms |" not in text or table == "al-badawi larger"


def test_cores_have_no_energy(al_badawi: dict[str, Any]) -> None:
    """Rows of cores have no energy, even if an older file has the energy of a GPU. Rows of cores are marked as shared."""
    from benchmarks.papers import al_badawi as al_badawi_tables

    row = al_badawi_row("hvadd-2^15-x500-w64", 0.7, threads=1, joules=500.0, watts=480.0)
    files = {"c.jsonl": report(CORES, [row], load=[1.0, 5.0])}
    assert "HVAdd" not in "\n".join(al_badawi_tables.TABLES["al-badawi figure 8"](files))
    assert "here: shared cores of AMD EPYC, CCCC" in "\n".join(al_badawi_tables.TABLES["al-badawi 4"](files))


def test_the_benchmark_of_al_badawi_runs(tmp_path: Path) -> None:
    """A small run on one device and on two devices succeeds. Programs give the same bits, and keys and a batch exceed the
    given memory.

    """
    out = tmp_path / "parts.jsonl"
    command = [*module("runners.al_badawi"), "--only", "counts,program,keys,batch", "--device", "cpu", "--small"]
    command += ["--counts", "1,2", "--seconds", "0.01", "--gib", "0.02", "--out", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    rows = results.read(out)["results"]
    assert [r for r in rows if "skipped" in r] == []
    counted = {r["counts"]: r for r in rows if "counts" in r}
    assert counted["HCNN-11"]["additions"] > 10_000_000
    recorded = [r for r in rows if "program_s" in r]
    assert [(r["devices"], r["same"]) for r in recorded] == [(1, True), (1, True), (2, True), (2, True)]
    assert recorded[1]["launches"] < recorded[1]["calls"] == 2 * recorded[0]["calls"]
    larger = [r for r in rows if "larger" in r]
    assert [(r["larger"], r["devices"], r["wrong"]) for r in larger] == [
        (w, n, 0) for w in ("keys", "batch") for n in (1, 2)
    ]
    assert all(r["bytes"] > r["limit_bytes"] for r in larger)


def test_an_unknown_part_is_refused() -> None:
    """For an unknown part, the error lists the known names."""
    done = subprocess.run([*module("runners.al_badawi"), "--only", "everything"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "unknown part everything: use counts, cores, program, keys, batch" in done.stderr


# Runs


@pytest.fixture
def machine(tmp_path: Path) -> Any:
    """Returns a machine with two GPUs on which all programs are built."""
    from benchmarks.papers import run as papers

    for name in ("tfhe_kernels", "doublecrt"):
        (tmp_path / "benchmarks").mkdir(exist_ok=True)
        (tmp_path / "benchmarks" / name).touch()
    for name in ("partition", "copies"):
        (tmp_path / name).touch()
    return papers.Machine(2, "h100", "zen5", tmp_path, tmp_path, tmp_path / "tables of others")


def test_every_run_has_a_valid_command_and_a_page(machine: Any) -> None:
    """The case and the options of each run exist. Each run has a separate file name, and a page reads the file."""
    import fnmatch

    from benchmarks.cases import tfhe as tfhe_cases
    from benchmarks.papers import run as papers
    from benchmarks.runners import scaling, tfhe

    files = [job.file(machine) for job in papers.JOBS]
    assert len(set(files)) == len(files)
    others = ("instructions", "instructions-hints", "steps", "peer", "host", "timeline", "sums-triton", "slow-network")
    taken = ("*-morshed*.jsonl", "*al-badawi*.jsonl", "*-frame*.jsonl", "*-partition.json", "*-hcnn5-ranks.jsonl")
    taken += tuple(f"*-{name}.jsonl" for name in others)
    assert all(any(fnmatch.fnmatch(file, pattern) for pattern in taken) for file in files)
    for job in papers.JOBS:
        words = papers.command_of(job, machine, Path("out"))
        assert isinstance(words, list), words
        assert f"out/{job.file(machine)}" in words
        assert not any("{" in word for word in words)
        assert job.minutes * 60 < (papers.LONGEST if job.gpus else 3600)
        longer = papers.command_of(job, machine, Path("out"), 3600)
        assert "--total" not in words or (words[words.index("--total") + 1], longer[words.index("--total") + 1]) == (
            "280",
            "3585",
        )
        only = words[words.index("--only") + 1] if "--only" in words else ""
        if "benchmarks.runners.tfhe" in words:
            assert all(tfhe.chosen(word, list(tfhe_cases.CASES)) for word in only.split(",")), only
        if "benchmarks.runners.scaling" in words:
            assert only in sum(scaling.GROUPS, ())
    asked = ",".join(
        words[words.index("--only") + 1]
        for words in (papers.command_of(j, machine, Path()) for j in papers.JOBS)
        if "--only" in words
    )
    of_tables = [name for name in tfhe_cases.CASES if name.startswith(("table", "figure"))]
    assert set(of_tables) <= set(tfhe.chosen(asked, list(tfhe_cases.CASES)))


def test_files_are_named_by_any_card(machine: Any) -> None:
    """File names contain the letters and digits by which cards differ. The pages of Kim's figures read the files of all
    cards.
    """
    from benchmarks.papers import kim as kim_tables
    from benchmarks.papers import run as papers

    names = {
        "NVIDIA H100 80GB HBM3": "h100",
        "NVIDIA H200": "h200",
        "NVIDIA A100-SXM4-80GB": "a100",
        "NVIDIA GeForce RTX 4090": "rtx4090",
        "NVIDIA GeForce GTX 1080 Ti": "gtx1080",
        "NVIDIA RTX A6000": "a6000",
        "Tesla V100-PCIE-16GB": "v100",
        "NVIDIA GH200 480GB": "gh200",
        "NVIDIA L40S": "l40s",
        "": "gpu",
    }
    assert {name: papers.card_of(name) for name in names} == names
    files = [f"{card}{many}-steps.jsonl" for card in names.values() for many in ("", "x2", "x3") if card != "gpu"]
    cards = kim_tables.cards_of([*files, "xeon-instructions.jsonl", "zen5-instructions.jsonl", "h200-frame.jsonl"])
    assert cards[:2] == ("h200", "h100")
    assert set(cards) == set(names.values()) - {"gpu"}


def test_runs_over_several_gpus_count_all_of_them(machine: Any) -> None:
    """Runs use one, two, three, four, eight and all GPUs. Kim's chips are distributed over all GPUs."""
    from dataclasses import replace

    from benchmarks.papers import run as papers

    jobs = {job.name: job for job in papers.JOBS}
    for gpus, counts in ((2, "1,2"), (3, "1,2,3"), (4, "1,2,3,4"), (6, "1,2,3,4,6"), (8, "1,2,3,4,8")):
        there = replace(machine, gpus=gpus)
        words = papers.command_of(jobs["frame-ranks"], there, Path())
        assert words[words.index("--ranks") + 1] == counts
        kim = papers.command_of(jobs["kim-several/steps"], there, Path())
        assert kim[kim.index("--chips") + 1] == str(gpus)
        assert kim[kim.index("--beside") + 1] == ",".join(f"cuda:{n}" for n in range(1, gpus))
        assert jobs["kim-several/steps"].file(there) == f"h100x{gpus}-steps.jsonl"
    assert "HELIOGRAPH_PEER=0" in papers.command_of(jobs["kim-several/host"], machine, Path())
    assert len(papers.chosen("kim")) >= 10


def test_an_impossible_run_states_its_needs(machine: Any, tmp_path: Path) -> None:
    """A run states which GPUs, programs or public data sets are missing. Runs that need no data sets run without them."""
    from dataclasses import replace

    from benchmarks.papers import run as papers

    jobs = {job.name: job for job in papers.JOBS}
    poor = replace(machine, gpus=1, tabular=None, build=tmp_path / "nothing")
    assert papers.command_of(jobs["frame-ranks"], poor, tmp_path) == "needs 2 GPUs, this machine has 1"
    assert papers.command_of(jobs["morshed-gates"], poor, tmp_path) == (
        "needs tfhe_kernels: build it by cmake --preset bench, and give its folder with --build"
    )
    assert papers.command_of(jobs["morshed-public-sums"], poor, tmp_path) == (
        "needs tabular: give the folder of the public data sets with --tabular"
    )
    assert "--tabular" not in papers.command_of(jobs["morshed-sums"], poor, tmp_path)
    with_tables = papers.command_of(jobs["morshed-sums"], machine, tmp_path)
    assert with_tables[with_tables.index("--tabular") + 1] == str((tmp_path / "tables of others").resolve())
    assert jobs["frame"].file(poor) == "h100-frame.jsonl"
    assert jobs["al-badawi-batch"].file(machine) == "h100x2-al-badawi-batch.jsonl"


def test_a_run_beyond_its_limit_is_ended_with_its_children(tmp_path: Path) -> None:
    """If a run exceeds its time limit, it is ended with its child processes, and the status shows this."""
    from benchmarks.papers import run as papers

    assert papers.ended([sys.executable, "-c", "raise SystemExit(3)"], 60) == 3
    mark = tmp_path / "mark"
    for seconds in (0.5, 2, 8, 32):  # repeats with a longer limit until the child processes start within the limit
        assert papers.ended(["sh", "-c", f"(while :; do date > {mark}; sleep 0.05; done) & wait"], seconds) == 124
        if mark.exists():
            break
    assert mark.exists()
    mark.unlink()
    time.sleep(0.3)
    assert not mark.exists()


def test_machines_are_named_by_driver_and_processor() -> None:
    """The names of machines come from the driver and the processor."""
    from benchmarks.papers import run as papers

    assert papers.card_of("NVIDIA H100 80GB HBM3") == "h100"
    assert papers.cores_of("AuthenticAMD family 26 model 2") == "zen5"
    assert papers.cores_of("GenuineIntel family 6 model 143") == "xeon"
    assert papers.cores_of("GenuineIntel family 6 model 167") == "xeon167"


def test_runs_are_chosen_by_prefix_and_remaining_time(tmp_path: Path) -> None:
    """Runs that take longer than the remaining time are named. For an unknown name, the error lists the known names."""
    command = [*module("papers.run"), "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [*command, "--only", "al-badawi-cores", "--total", "5"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert all(
        ", about 4 min, " in line and "skipped: it takes 240 s, --total leaves 5 s" in line
        for line in done.stdout.splitlines()
    )
    done = subprocess.run(
        [*command, "--only", "morshed-cores-matrices-8"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "skipped: it takes 2280 s, --longest leaves 295 s" in done.stdout
    assert not (tmp_path / "out").exists()
    done = subprocess.run([*command, "--only", "nobody"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "unknown run nobody: use morshed-gates, " in done.stderr


@pytest.mark.parametrize(
    ("name", "words", "rows"), [("partition", ["", "8", "64", "2"], "moves"), ("copies", ["3", "2", "1000"], "copies")]
)
def test_the_workbench_programs_move_every_word(name: str, words: list[str], rows: str, tmp_path: Path) -> None:
    """The programs of the workbench, compiled in the same way as in the runs, move every word correctly. The programs check
    each result themselves.

    """
    from benchmarks.papers import run as papers
    from benchmarks.runners import nvml

    program = papers.program_of(name, papers.Machine(nvml.count(), "gpu", "cpu", tmp_path, tmp_path, None))
    if program is None:
        pytest.skip("needs nvcc and a GPU")
    out = tmp_path / "out.jsonl"
    subprocess.run([str(program), str(out), *(word or str(nvml.count()) for word in words)], check=True)
    found = results.read(out)
    assert found["settings"]["right"]
    assert len({(r["way"], r.get("order"), r.get("pinned")) for r in found[rows]}) >= 5
    assert all(r["right"] and r["seconds"] > 0 for r in found[rows])
