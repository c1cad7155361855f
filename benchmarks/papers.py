"""All runs that the pages of docs/papers/ ask for, one after the other, each below five minutes unless longer ones are allowed.

    python benchmarks/papers.py --list                                    # names, minutes, commands, and what is missing
    python benchmarks/papers.py --out results                             # what this machine can, cores and GPUs
    python benchmarks/papers.py --only morshed-gates,frame --total 600 --out results
    python benchmarks/papers.py --only morshed-cores --longest 3600 --out results   # what takes up to an hour too

Then the pages: `cp results/*.json benchmarks/results/`, but files that end in -partition.json or -sums-triton.json to
`workbench/results/`, and `python benchmarks/pages.py`.

With cores alone, in a clone, as a machine without GPUs needs it (the package built as README.md says):

    PATH=$PWD/.venv/bin:$PATH; cmake --preset bench && cmake --build --preset bench
    python benchmarks/papers.py --only morshed-c,al-badawi-c,frame-cores,hcnn5 --out results

Files are named by GPU and processor, so that those of several machines lie in one folder; the pages take in every file of such a
name. What a run needs and is not there (GPUs, programs, public tables) is told. `--build` names the folder of the built C++
benchmarks (`cmake --preset bench-cuda && cmake --build --preset bench-cuda`); the workbench's two programs are compiled here
where nvcc is. A run that ends early leaves the rows that it had.
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

import nvml
import run as runner

HERE = Path(__file__).resolve().parent
#: Where public tables may lie: beside the project or in it.
TABULAR = tuple(HERE.parents[above] / "shared" / "data" / "tabular" for above in (1, 0))
#: Seconds after which a run is ended, whatever it has, where nothing else is said.
LONGEST = 295
#: What makes a program that a run needs.
BUILT_BY = {
    "tfhe_kernels": "cmake --preset bench",
    "doublecrt": "cmake --preset bench",
    "partition": "nvcc",
    "copies": "nvcc",
}


@dataclass(frozen=True)
class Machine:
    """What there is to run on, and where programs and tables lie."""

    gpus: int
    card: str  #: of file names: "h100", "h200"
    cores: str  #: "zen4", "zen5", "xeon"
    build: Path
    built: Path  #: the workbench's programs
    tabular: Path | None


@dataclass(frozen=True)
class Job:
    """A run. In `words` are {out}, the file to write; {public}, the option of public tables where they are there; {counts}, numbers of
    GPUs; {gpus}, how many there are; {others}, all but the first; {total}, seconds after which it ends itself; {python} and {here},
    this Python and this folder; and what `needs` names.
    """

    name: str  #: the file's is what follows a slash
    minutes: float  #: about, on one H200 or on two cores
    words: str
    gpus: int = 0  #: that it takes; 0: cores
    needs: tuple[str, ...] = ()
    spread: bool = False  #: over all GPUs that are there

    def file(self, there: Machine) -> str:
        """What it writes."""
        many = f"x{there.gpus}" if self.spread and there.gpus > 1 else ""
        stem = self.name.rpartition("/")[2]
        return f"{there.card}{many}-{stem}.json" if self.gpus else f"{there.cores}-{stem}.json"


def _tfhe(name: str, minutes: float, cases: str, more: str = "") -> Job:
    """Tables of Morshed 2020 on one GPU."""
    needs = ("tfhe_kernels",) if more == KERNELS else ("tabular",) if name.startswith("public") else ()
    words = f"tfhe.py --device cuda --only {cases} --seconds 270 --repeat 0.5 --total {{total}} {more} --output {{out}}"
    return Job(f"morshed-{name}", minutes, words, 1, needs)


def _tfhe_on_cores(name: str, minutes: float, cases: str, threads: int, seconds: int, more: str = "") -> Job:
    """The same on so many threads: a run for each, so that none is left without time. What takes longer than `seconds` is estimated."""
    needs = ("tfhe_kernels",) if more == KERNELS else ()
    words = f"tfhe.py --device cpu --threads {threads} --only {cases} --seconds {seconds} --repeat 0.5 --total {{total}} {more} --output {{out}}"
    return Job(f"morshed-cores-{name}", minutes, words, 0, needs)


def _regression(mode: str, kind: str, *tables: str) -> str:
    return ",".join(f"table10/2_2/{mode}/{kind}/{table}" for table in tables)


def _of(set_name: str, *tables: int) -> str:
    return ",".join(f"table{table}/{set_name}" for table in tables)


def _matrices(size: int, *sets: str) -> str:
    """Of 16-bit numbers, both ways."""
    return ",".join(f"table9/{name}/{way}/{size}" for name in sets for way in ("cannon", "default"))


def _kim(name: str, minutes: float, gpus: int, words: str, before: str = "") -> Job:
    """Figures of Kim 2025: instructions of single limbs on cores (no GPUs), on one GPU, or on all that are there."""
    device = "cuda:0" if gpus else "cpu"
    more = "--chips {gpus} --beside {others}" if gpus > 1 else ""
    command = f"env HELIOGRAPH_DEVICE={device} {before} {{python}} {{here}}/instructions.py {words} {more} --out {{out}}"
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
    Job("morshed-clear", 0.5, "training.py {public} --out {out}"),
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
    Job("al-badawi-counts", 0.5, "al_badawi.py --only counts --out {out}"),
    Job("al-badawi-cores-hcnn5", 4, "run.py --only hcnn5-2020,hcnn5-paper --threads 2 --out {out}"),
    Job("al-badawi-cores", 4, "al_badawi.py --only cores --device cpu --seconds 1 --total {total} --out {out}"),
    Job("al-badawi-workloads", 2.5, "run.py --device cuda --counts {counts} --only hvadd,hvmul,hcnn5 --seconds 1 --out {out}", 1, spread=True),
    Job("al-badawi-hcnn11-one", 3, "scaling.py --only hcnn11-one-w64 --total {total} --out {out}", 1, spread=True),
    Job("al-badawi-hcnn11-all", 4.5, "scaling.py --only hcnn11-all-w64 --total {total} --out {out}", 1, spread=True),
    Job("al-badawi-programs", 2, "al_badawi.py --only program --seconds 3 --total {total} --out {out}", 1, spread=True),
    Job("al-badawi-keys", 4, "al_badawi.py --only keys --counts 1 --total {total} --limit 280 --out {out}", 1),
    Job("al-badawi-batch", 3, "al_badawi.py --only batch --total {total} --limit 280 --out {out}", 1, spread=True),
    Job("partition", 0.5, "{partition} {out}", 1, ("partition",), True),
    Job("frame", 1.5, "doublecrt.py --program {doublecrt} --device cuda --copies {copies} --out {out}", 1, ("doublecrt", "copies")),
    Job("frame-ranks", 3, "doublecrt.py --program {doublecrt} --device cuda --ranks {counts} --editions w64 --seconds 0.01 --out {out}", 2, ("doublecrt",), True),
    Job("frame-cores", 4.5, "doublecrt.py --program {doublecrt} --device cpu --ranks 1,2,4,8,16 --seconds 0.01 --limit 60 --out {out}", 0, ("doublecrt",)),
    _kim("instructions", 4, 0, "--only bootstrap-28 --variants all"),
    _kim("instructions", 4, 1, "--only bootstrap,rotations,network"),
    _kim("instructions-hints", 3, 1, "--only bootstrap,rotations --variants all,all-plain,all,all-plain"),
    _kim("steps", 2, 1, "--only bootstrap-28,bootstrap-small --variants calls,branches,merged,all"),
    _kim("instructions", 3, 2, "--only bootstrap,rotations --variants all,all-calls"),
    _kim("steps", 2, 2, "--only bootstrap-28,bootstrap-small --variants branches,all,all-calls"),
    _kim("peer", 2, 2, "--only bootstrap-28,rotations --variants all,all-calls"),
    _kim("host", 2, 2, "--only bootstrap-28,rotations --variants all,all-calls", "HELIOGRAPH_PEER=0"),
    Job("kim-one/timeline", 3, "timeline.py --out {out} --trace {trace}", 1),
    Job("kim-one/sums-triton", 1, "../workbench/sums_triton.py --out {out}", 1),
    Job("slow-network", 4.5, "slow_network.py --program {doublecrt} --out {out}", 0, ("doublecrt",)),  # by root
    Job("hcnn5-ranks", 1.5, "ranks.py --counts 1,2 --only hcnn5 --start sockets --out {out}"),
    Job("gpus-hcnn5-ranks", 1.5, "ranks.py --device cuda --counts {counts} --only hcnn5 --start sockets --out {out}", 2, spread=True),
)  # fmt: skip


def card_of(name: str) -> str:
    """NVIDIA H100 80GB HBM3: h100; NVIDIA A100-SXM4-80GB: a100; NVIDIA GeForce RTX 4090: rtx4090; of others their letters and digits."""
    words = [word for word in name.split() if word not in ("NVIDIA", "Tesla", "GeForce", "Quadro")]
    if words[:1] in (["RTX"], ["GTX"]) and len(words) > 1:
        words = words[1:] if words[1][0].isalpha() else ["".join(words[:2]), *words[2:]]
    return re.sub(r"[^a-z0-9]", "", words[0].split("-")[0].lower()) if words else "gpu"


def cores_of(family: str) -> str:
    """By vendor and family: zen4 and zen5 are AMD's 25 and 26; Intel's by the model, those of servers since 2023 together."""
    words = family.split()
    if words[0] == "AuthenticAMD":
        return {"25": "zen4", "26": "zen5"}.get(words[2], "amd")
    if words[0] == "GenuineIntel":
        return "xeon" if words[-1] in ("143", "207") else f"xeon{words[-1]}"
    return "cpu"


def program_of(name: str, there: Machine) -> Path | None:
    """A built benchmark, the newest under the build folder; one of the workbench's is compiled."""
    if name in ("partition", "copies"):
        made = there.built / name
        if made.exists():
            return made
        nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
        if nvcc is None or not there.gpus:
            return None
        source = HERE.parent / "workbench" / f"{name}.cu"
        command = [nvcc, "-std=c++20", "-arch=native", "-O3", "-cudart", "static", str(source), "-o", str(made)]
        return made if subprocess.run(command, check=False).returncode == 0 else None
    found = [path for path in there.build.glob(f"**/benchmarks/{name}") if path.is_file()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def command_of(job: Job, there: Machine, out: Path, longest: float = LONGEST) -> list[str] | str:
    """What is run, for so many seconds at most; words where it cannot be."""
    if job.gpus > there.gpus:
        return f"needs {job.gpus} GPU{'s' if job.gpus > 1 else ''}, {there.gpus} there"
    public = f"--tabular {shlex.quote(str(there.tabular.resolve()))}" if there.tabular else ""
    names = {
        "public": public,
        "out": str(out / job.file(there)),
        "total": f"{longest - 15:g}",
        "counts": ",".join(str(n) for n in sorted({1, 2, 3, 4, 8, there.gpus}) if 0 < n <= max(1, there.gpus)),
        "gpus": str(there.gpus),
        "others": ",".join(f"cuda:{n}" for n in range(1, there.gpus)),
        "python": sys.executable,
        "here": str(HERE),
        "trace": str(out / job.file(there).replace(".json", "-trace.json")),
    }
    for need in job.needs:
        path = there.tabular if need == "tabular" else program_of(need, there)
        if path is None:
            made = "" if need == "tabular" else f"{BUILT_BY[need]} makes it"
            return f"needs {need}: " + (
                f"{made}, --build says where" if made else "--tabular says where the public tables are"
            )
        names[need] = str(path.resolve())
    words = shlex.split(
        job.words.format(**{name: shlex.quote(text) for name, text in names.items() if text} | {"public": public})
    )
    return [sys.executable, str(HERE / words[0]), *words[1:]] if words[0].endswith(".py") else words


def chosen(only: str) -> list[Job]:
    """Those whose names begin so; SystemExit where none does."""
    begun = tuple(word for word in only.split(",") if word)
    found = [job for job in JOBS if not begun or job.name.startswith(begun)]
    for word in begun:
        if not any(job.name.startswith(word) for job in JOBS):
            raise SystemExit(f"no run is called {word}: {', '.join(job.name for job in JOBS)}")
    return found


def ended(command: list[str], limit: float) -> int:
    """The status of a run; 124 where it took longer and was ended, with all that it started."""
    process = subprocess.Popen(command, start_new_session=True)
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return 124
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def main() -> int:
    """Parses the command line; 1 where a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="comma-separated beginnings of names")
    parser.add_argument("--out", type=Path, default=Path("papers-results"), help="folder for the JSON")
    parser.add_argument("--total", type=float, default=1e9, help="seconds for everything: what is longer is left out")
    parser.add_argument("--longest", type=float, default=LONGEST, help="seconds for one run: what is longer is left out")
    parser.add_argument("--build", type=Path, default=HERE.parent / "build", help="where the C++ benchmarks were built")
    parser.add_argument("--tabular", type=Path, help="folder of lbw.txt, pcs.txt, uis.txt, edin.txt")
    parser.add_argument("--list", action="store_true", help="names, minutes and commands, without running them")
    options = parser.parse_args()
    jobs, begin = chosen(options.only), time.monotonic()
    tabular = options.tabular or next((path for path in TABULAR if path.is_dir()), None)
    gpus = nvml.count()
    machine = runner.machine() | (nvml.Gpus([0]).describe() if gpus else {})
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        there = Machine(
            gpus, card_of(machine.get("gpu") or ""), cores_of(machine["family"]), options.build, Path(folder), tabular
        )
        for job in jobs:
            command = command_of(job, there, options.out, options.longest)
            told = f"{job.name}, about {job.minutes:g} min, {job.file(there)}: "
            left = options.total - (time.monotonic() - begin)
            if isinstance(command, str) or options.list:
                print(told + (command if isinstance(command, str) else shlex.join(command)), flush=True)
                continue
            if 60 * job.minutes > min(left, options.longest):
                which, most = ("--longest", options.longest) if options.longest < left else ("--total", max(0, left))
                print(f"{told}left out, it takes {60 * job.minutes:.0f} s of {most:.0f} left by {which}", flush=True)
                continue
            options.out.mkdir(parents=True, exist_ok=True)
            start = time.monotonic()
            status = ended(command, min(left, options.longest))
            failed |= status != 0
            print(f"{job.name}: ended with {status} after {time.monotonic() - start:.0f} s: {job.file(there)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
