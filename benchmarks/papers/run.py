"""Runs all measurements for the pages of docs/papers/, one after the other, each below five minutes unless longer runs are allowed.

    python -m benchmarks.papers.run --list                                    # names, minutes, commands, missing requirements
    python -m benchmarks.papers.run --out results                             # all runs that this machine supports, on cores and GPUs
    python -m benchmarks.papers.run --only morshed-gates,frame --total 600 --out results
    python -m benchmarks.papers.run --only morshed-cores --longest 3600 --out results   # also runs of up to an hour

To update the pages: `cp results/*.json* benchmarks/results/`, but copy files that end in -partition.json or
-sums-triton.jsonl to `workbench/results/`; then `python -m benchmarks.pages`.

On a machine without GPUs, in a clone (the package built as in README.md):

    PATH=$PWD/.venv/bin:$PATH; cmake --preset bench && cmake --build --preset bench
    python -m benchmarks.papers.run --only morshed-c,al-badawi-c,frame-cores,hcnn5 --out results

Files are named by GPU and processor, so that files of several machines can be in one folder; the pages use every file with such a name.
Missing requirements of a run (GPUs, programs, public data sets) are printed. `--build` names the folder of the built C++
benchmarks (`cmake --preset bench-cuda && cmake --build --preset bench-cuda`); this program compiles the workbench's two
programs if nvcc is installed. A run that ends early keeps its rows.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.runners import common, nvml

#: Folders of public data sets: beside the project or in it.
TABULAR = tuple((common.ROOT, common.ROOT.parent)[above] / "shared" / "data" / "tabular" for above in (1, 0))
#: Default limit of a run in seconds; a longer run is killed.
LONGEST = 295
#: Function that builds each required program.
BUILT_BY = {
    "tfhe_kernels": "cmake --preset bench",
    "doublecrt": "cmake --preset bench",
    "partition": "nvcc",
    "copies": "nvcc",
}


@dataclass(frozen=True)
class Machine:
    """The GPUs and cores of this machine, and its folders of programs and data sets."""

    gpus: int
    card: str  #: short name of the GPU in file names: "h100", "h200"
    cores: str  #: short name of the processor: "zen4"
    build: Path
    built: Path  #: folder of the workbench's compiled programs
    tabular: Path | None


@dataclass(frozen=True)
class Job:
    """A run of one benchmark program. `words` is its command line: a module of the benchmarks, {python} (this interpreter)
    or a program, then arguments.

    Placeholders in `words`: {out} is the file to write; {public} the option with the folder of public data sets, if it exists.
    {counts} are numbers of GPUs, {gpus} is their number, {others} are all but the first. {total} are the seconds after which
    the run ends itself. Names of `needs` stand for programs and folders.
    """

    name: str  #: name of the run; the part after a slash names the results file
    minutes: float  #: approximate duration in minutes, on one H200 or on two cores
    words: str
    gpus: int = 0  #: number of required GPUs; 0: cores
    needs: tuple[str, ...] = ()
    spread: bool = False  #: whether the run uses all available GPUs

    def file(self, there: Machine) -> str:
        """Returns the name of the output file."""
        many = f"x{there.gpus}" if self.spread and there.gpus > 1 else ""
        stem = self.name.rpartition("/")[2]
        end = "json" if stem == "partition" else "jsonl"  # a program of the workbench writes one JSON object
        return f"{there.card}{many}-{stem}.{end}" if self.gpus else f"{there.cores}-{stem}.{end}"


def _tfhe(name: str, minutes: float, cases: str, more: str = "") -> Job:
    """Returns a run of tables of Morshed 2020 on one GPU."""
    needs = ("tfhe_kernels",) if more == KERNELS else ("tabular",) if name.startswith("public") else ()
    words = f"runners.tfhe --device cuda --only {cases} --seconds 270 --repeat 0.5 --total {{total}} {more} --out {{out}}"
    return Job(f"morshed-{name}", minutes, words, 1, needs)


def _tfhe_on_cores(name: str, minutes: float, cases: str, threads: int, seconds: int, more: str = "") -> Job:
    """Returns a run of tables of Morshed 2020 on a number of threads. Numbers of threads are separate runs, so that each has
    enough time. Cases that would take longer than `seconds` are estimated.

    """
    needs = ("tfhe_kernels",) if more == KERNELS else ()
    words = f"runners.tfhe --device cpu --threads {threads} --only {cases} --seconds {seconds} --repeat 0.5 --total {{total}} {more} --out {{out}}"
    return Job(f"morshed-cores-{name}", minutes, words, 0, needs)


def _regression(mode: str, kind: str, *tables: str) -> str:
    return ",".join(f"table10/2_2/{mode}/{kind}/{table}" for table in tables)


def _of(set_name: str, *tables: int) -> str:
    return ",".join(f"table{table}/{set_name}" for table in tables)


def _matrices(size: int, *sets: str) -> str:
    """Returns the cases of 16-bit numbers for each of the two algorithms."""
    return ",".join(f"table9/{name}/{way}/{size}" for name in sets for way in ("cannon", "default"))


def _kim(name: str, minutes: float, gpus: int, words: str, before: str = "") -> Job:
    """Returns a run of Kim 2025: single-limb instructions on cores (no GPUs), on one GPU, or on all GPUs."""
    device = "cuda:0" if gpus else "cpu"
    more = "--chips {gpus} --beside {others}" if gpus > 1 else ""
    command = (
        f"env HELIOGRAPH_DEVICE={device} {before} {{python}} -m benchmarks.runners.instructions {words} {more} --out {{out}}"
    )
    return Job(f"kim-{('cores', 'one', 'several')[min(gpus, 2)]}/{name}", minutes, command, gpus, spread=gpus > 1)


KERNELS = "--kernels {tfhe_kernels} --counts 1,2,4,8,16,32 --shapes boolean,morshed-2020"
PUBLIC = "{public}"
GATES = "figure5,pairs,table5,table6"
SMALL, LARGE = ("200x10", "200x20", "300x10"), ("300x20",)
JOBS = (
    _tfhe("gates", 2.5, "figure5,pairs,table5,table6", KERNELS),
    _tfhe("products", 1.5, "table7,table8"),
    _tfhe("matrices", 3, "table9"),
    _tfhe("sums", 3, f"{_regression('sums', 'numerical', *SMALL, *LARGE)},table10/boolean,table10/2_2/sums/binary", PUBLIC),
    _tfhe("step", 3, _regression("step", "numerical", *SMALL, *LARGE)),
    _tfhe("binary", 3, "table10/2_2/step/binary,table10/2_2/training/binary", PUBLIC),
    _tfhe("training", 3, _regression("training", "numerical", *SMALL)),
    _tfhe("training-large", 2.5, _regression("training", "numerical", *LARGE)),
    _tfhe("public-sums", 4, _regression("sums", "numerical", "lbw", "pcs", "uis", "edin"), PUBLIC),
    _tfhe("public-step", 4, _regression("step", "numerical", "lbw", "pcs", "uis", "edin"), PUBLIC),
    _tfhe("public-training", 4, _regression("training", "numerical", "lbw", "pcs", "uis"), PUBLIC),
    _tfhe("public-training-edin", 4, _regression("training", "numerical", "edin"), PUBLIC),
    Job("morshed-clear", 0.5, "runners.training {public} --out {out}"),
    _tfhe_on_cores("gates", 4.5, GATES, 1, 20, KERNELS),
    _tfhe_on_cores("gates-two", 4, GATES, 2, 20, KERNELS),
    _tfhe_on_cores("products-boolean", 4.5, _of("boolean", 7, 8), 1, 130),
    _tfhe_on_cores("products-paper", 4.5, _of("morshed-2020", 7, 8), 1, 130),
    _tfhe_on_cores("products-digits", 3, _of("2_2", 7, 8), 1, 130),
    _tfhe_on_cores("products-boolean-two", 4.5, _of("boolean", 7, 8), 2, 130),
    _tfhe_on_cores("products-two-paper", 4.5, _of("morshed-2020", 7, 8), 2, 130),
    _tfhe_on_cores("products-digits-two", 3, _of("2_2", 7, 8), 2, 130),
    _tfhe_on_cores("sums", 4.5, "table10/boolean/sums/binary", 1, 130, PUBLIC),
    _tfhe_on_cores("sums-two", 3, "table10/boolean/sums/binary", 2, 130, PUBLIC),
    _tfhe_on_cores("sums-digits-two", 4.5, "table10/2_2/sums/binary", 2, 130, PUBLIC),
    _tfhe_on_cores("matrices", 4.5, "table9", 1, 130),
    _tfhe_on_cores("matrices-two", 3.5, "table9", 2, 130),
    _tfhe_on_cores("matrices-8", 38, _matrices(8, "2_2", "boolean", "morshed-2020"), 1, 900),
    _tfhe_on_cores("matrices-8-two", 25, _matrices(8, "2_2", "boolean", "morshed-2020"), 2, 900),
    _tfhe_on_cores("matrices-16-two", 50, _matrices(16, "2_2"), 2, 3300),
    _tfhe_on_cores("step-bits-two", 26, _regression("step", "binary", "200x10", "lbw", "pcs"), 2, 900, PUBLIC),
    _tfhe_on_cores("step-two", 50, _regression("step", "numerical", "lbw"), 2, 3300, PUBLIC),
    Job("al-badawi-counts", 0.5, "runners.al_badawi --only counts --out {out}"),
    Job("al-badawi-cores-hcnn5", 4, "run --only hcnn5-2020,hcnn5-paper --threads 2 --out {out}"),
    Job("al-badawi-cores", 4, "runners.al_badawi --only cores --device cpu --seconds 1 --total {total} --out {out}"),
    Job("al-badawi-workloads", 2.5, "run --device cuda --counts {counts} --only hvadd,hvmul,hcnn5 --seconds 1 --out {out}", 1, spread=True),
    Job("al-badawi-hcnn11-one", 3, "runners.scaling --only hcnn11-one-w64 --total {total} --out {out}", 1, spread=True),
    Job("al-badawi-hcnn11-all", 4.5, "runners.scaling --only hcnn11-all-w64 --total {total} --out {out}", 1, spread=True),
    Job("al-badawi-programs", 2, "runners.al_badawi --only program --seconds 3 --total {total} --out {out}", 1, spread=True),
    Job("al-badawi-keys", 4, "runners.al_badawi --only keys --counts 1 --total {total} --limit 280 --out {out}", 1),
    Job("al-badawi-batch", 3, "runners.al_badawi --only batch --total {total} --limit 280 --out {out}", 1, spread=True),
    Job("partition", 0.5, "{partition} {out}", 1, ("partition",), True),
    Job("frame", 1.5, "runners.doublecrt --program {doublecrt} --device cuda --copies {copies} --out {out}", 1, ("doublecrt", "copies")),
    Job("frame-ranks", 3, "runners.doublecrt --program {doublecrt} --device cuda --ranks {counts} --editions w64 --seconds 0.01 --out {out}", 2, ("doublecrt",), True),
    Job("frame-cores", 4.5, "runners.doublecrt --program {doublecrt} --device cpu --ranks 1,2,4,8,16 --seconds 0.01 --limit 60 --out {out}", 0, ("doublecrt",)),
    _kim("instructions", 4, 0, "--only bootstrap-28 --variants all"),
    _kim("instructions", 4, 1, "--only bootstrap,rotations,network"),
    _kim("instructions-hints", 3, 1, "--only bootstrap,rotations --variants all,all-plain,all,all-plain"),
    _kim("steps", 2, 1, "--only bootstrap-28,bootstrap-small --variants calls,branches,merged,all"),
    _kim("instructions", 3, 2, "--only bootstrap,rotations --variants all,all-calls"),
    _kim("steps", 2, 2, "--only bootstrap-28,bootstrap-small --variants branches,all,all-calls"),
    _kim("peer", 2, 2, "--only bootstrap-28,rotations --variants all,all-calls"),
    _kim("host", 2, 2, "--only bootstrap-28,rotations --variants all,all-calls", "HELIOGRAPH_PEER=0"),
    Job("kim-one/timeline", 3, "runners.timeline --out {out} --trace {trace}", 1),
    Job("kim-one/sums-triton", 1, "{python} workbench/sums_triton.py --out {out}", 1),
    # this run needs root
    Job("slow-network", 4.5, "runners.slow_network --program {doublecrt} --out {out}", 0, ("doublecrt",)),
    Job("hcnn5-ranks", 1.5, "runners.ranks --counts 1,2 --only hcnn5 --start sockets --out {out}"),
    Job("gpus-hcnn5-ranks", 1.5, "runners.ranks --device cuda --counts {counts} --only hcnn5 --start sockets --out {out}", 2, spread=True),
)  # fmt: skip


def card_of(name: str) -> str:
    """Returns a short name of a GPU. NVIDIA H100 80GB HBM3: h100; NVIDIA GeForce RTX 4090: rtx4090; others: letters and digits."""
    words = [word for word in name.split() if word not in ("NVIDIA", "Tesla", "GeForce", "Quadro")]
    if words[:1] in (["RTX"], ["GTX"]) and len(words) > 1:
        words = words[1:] if words[1][0].isalpha() else ["".join(words[:2]), *words[2:]]
    return re.sub(r"[^a-z0-9]", "", words[0].split("-")[0].lower()) if words else "gpu"


def cores_of(family: str) -> str:
    """Returns a short name of a processor: zen4 and zen5 are AMD's families 25 and 26; xeon is Intel's servers since 2023, else the model."""
    words = family.split()
    if words[0] == "AuthenticAMD":
        return {"25": "zen4", "26": "zen5"}.get(words[2], "amd")
    if words[0] == "GenuineIntel":
        return "xeon" if words[-1] in ("143", "207") else f"xeon{words[-1]}"
    return "cpu"


def program_of(name: str, there: Machine) -> Path | None:
    """Returns the path of a built benchmark, the newest under the build folder; compiles a benchmark of the workbench."""
    if name in ("partition", "copies"):
        made = there.built / name
        if made.exists():
            return made
        nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
        if nvcc is None or not there.gpus:
            return None
        source = common.ROOT / "workbench" / f"{name}.cu"
        command = [nvcc, "-std=c++20", "-arch=native", "-O3", "-cudart", "static", str(source), "-o", str(made)]
        return made if subprocess.run(command, check=False).returncode == 0 else None
    found = [path for path in there.build.glob(f"**/benchmarks/{name}") if path.is_file()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def command_of(job: Job, there: Machine, out: Path, longest: float = LONGEST) -> list[str] | str:
    """Returns the command of a run of at most `longest` seconds, or why it cannot run."""
    if job.gpus > there.gpus:
        return f"needs {job.gpus} GPU{'s' if job.gpus > 1 else ''}, this machine has {there.gpus}"
    public = f"--tabular {shlex.quote(str(there.tabular.resolve()))}" if there.tabular else ""
    names = {
        "public": public,
        "out": str(out / job.file(there)),
        "total": f"{longest - 15:g}",
        "counts": ",".join(str(n) for n in sorted({1, 2, 3, 4, 8, there.gpus}) if 0 < n <= max(1, there.gpus)),
        "gpus": str(there.gpus),
        "others": ",".join(f"cuda:{n}" for n in range(1, there.gpus)),
        "python": sys.executable,
        "trace": str(out / job.file(there).replace(".jsonl", "-trace.json")),
    }
    for need in job.needs:
        path = there.tabular if need == "tabular" else program_of(need, there)
        if path is None:
            made = "" if need == "tabular" else f"build it by {BUILT_BY[need]}"
            return f"needs {need}: " + (
                f"{made}, and give its folder with --build"
                if made
                else "give the folder of the public data sets with --tabular"
            )
        names[need] = str(path.resolve())
    words = shlex.split(
        job.words.format(**{name: shlex.quote(text) for name, text in names.items() if text} | {"public": public})
    )
    return [*common.module(words[0]), *words[1:]] if words[0] == "run" or words[0].startswith("runners.") else words


def chosen(only: str) -> list[Job]:
    """Returns the runs whose names have one of the prefixes. Raises SystemExit for a prefix without a run."""
    begun = tuple(word for word in only.split(",") if word)
    found = [job for job in JOBS if not begun or job.name.startswith(begun)]
    for word in begun:
        if not any(job.name.startswith(word) for job in JOBS):
            raise SystemExit(f"unknown run {word}: use {', '.join(job.name for job in JOBS)}")
    return found


def ended(command: list[str], limit: float) -> int:
    """Returns the exit status of a run; 124 if the run exceeded the limit. In that case all its processes are killed."""
    process = subprocess.Popen(command, cwd=common.ROOT, start_new_session=True)
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return 124
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def main() -> int:
    """Parses the command line and runs the benchmarks; returns 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="comma-separated prefixes of names")
    parser.add_argument("--out", type=Path, default=Path("papers-results"), help="folder for the results")
    parser.add_argument(
        "--total", type=float, default=1e9, help="seconds of the whole run; runs that do not fit are skipped"
    )
    parser.add_argument("--longest", type=float, default=LONGEST, help="seconds per run; longer runs are skipped")
    parser.add_argument("--build", type=Path, default=common.ROOT / "build", help="build folder of the C++ benchmarks")
    parser.add_argument("--tabular", type=Path, help="folder of lbw.txt, pcs.txt, uis.txt, edin.txt")
    parser.add_argument("--list", action="store_true", help="print names, minutes and commands; run nothing")
    options = parser.parse_args()
    jobs, begin, out = chosen(options.only), time.monotonic(), options.out.resolve()
    tabular = options.tabular or next((path for path in TABULAR if path.is_dir()), None)
    gpus = nvml.count()
    machine = common.machine() | (nvml.Gpus([0]).describe() if gpus else {})
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        there = Machine(
            gpus, card_of(machine.get("gpu") or ""), cores_of(machine["family"]), options.build, Path(folder), tabular
        )
        for job in jobs:
            command = command_of(job, there, out, options.longest)
            summary = f"{job.name}, about {job.minutes:g} min, {job.file(there)}: "
            left = options.total - (time.monotonic() - begin)
            if isinstance(command, str) or options.list:
                print(summary + (command if isinstance(command, str) else shlex.join(command)), flush=True)
                continue
            if 60 * job.minutes > min(left, options.longest):
                which, most = ("--longest", options.longest) if options.longest < left else ("--total", max(0, left))
                print(f"{summary}skipped: it takes {60 * job.minutes:.0f} s, {which} leaves {most:.0f} s", flush=True)
                continue
            out.mkdir(parents=True, exist_ok=True)
            start = time.monotonic()
            status = ended(command, min(left, options.longest))
            failed |= status != 0
            print(f"{job.name}: ended with {status} after {time.monotonic() - start:.0f} s: {job.file(there)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
