#!/usr/bin/env python3
"""Insert each fault of mutants.toml into a copy of rtl/, run the benches of its file, and write which bench failed.

    python rtl/mutation/mutate.py --build build/release                all mutants
    python rtl/mutation/mutate.py --build build/release ring-carry     these mutants; the result's other entries stay
    python rtl/mutation/mutate.py --build build/release --kind reset   the mutants of a kind
    python rtl/mutation/mutate.py --check                              no build: each mutant applies and is recorded as killed
    python rtl/mutation/mutate.py --list                               names, kinds and faults

The build folder holds the benches, compiled from the present sources (targets test_rtl_*, by Ninja). For a mutant, Verilator builds
the models that contain its file again; they are linked with the benches' objects. A failing bench kills the mutant, and so does a bench
that takes more than --timeout seconds of processor time. The script exits with 1 if a mutant survives or a check fails.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[0]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from mutants import BENCHES, EQUIVALENT, MUTANTS, Equivalent, Mutant

from benchmarks.report import results

RTL = Path(__file__).resolve().parent.parent
RESULTS = results.FOLDER / "rtl-mutants.jsonl"
FLAGS = ("--cc", "--assert", "-O3", "--x-assign", "unique", "--x-initial", "unique", "-Wno-fatal", "-Wno-lint", "-Wno-style")
SKIPPED = 77  # exit status without Verilator, which ctest counts as skipped


@dataclass(frozen=True)
class Model:
    """A Verilated module: top module, and arguments to Verilator."""

    module: str
    arguments: tuple[str, ...]


def described() -> tuple[dict[str, Model], dict[str, list[str]]]:
    """Return models by name and each bench's models, from CMakeLists.txt."""
    text = (RTL / "CMakeLists.txt").read_text(encoding="utf-8")
    models = {}
    benches = {}
    for kind, words in re.findall(r"^heliograph_rtl_(model|test)\(([^)]*)\)", text, re.MULTILINE):
        name, *rest = words.split()
        if kind == "model":
            models[name] = Model(rest[0], tuple(rest[1:]))
        else:
            benches[name] = rest
    return models, benches


def top_of(model: Model, root: Path) -> Path:
    """Return the file of a model's top module."""
    bench = root / "test" / f"{model.module}.sv"
    return bench if bench.exists() else root / "src" / f"{model.module}.sv"


def files_of(model: Model) -> set[str]:
    """Return the files that a model is made of, relative to rtl/."""
    known = {p.stem: p for folder in ("src", "lib") for p in (RTL / folder).glob("*.sv")}
    found: set[Path] = set()
    wanted = [top_of(model, RTL)]
    while wanted:
        path = wanted.pop()
        if path not in found:
            found.add(path)
            names = re.findall(r"\bhg_\w+", re.sub(r"//.*", "", path.read_text(encoding="utf-8")))
            wanted += [known[name] for name in names if name in known]
    return {path.relative_to(RTL).as_posix() for path in found}


def changed(mutant: Mutant | Equivalent) -> str:
    """Return the file's text with the fault. Raises ValueError if the text to replace does not occur exactly once."""
    text = (RTL / mutant.file).read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.file} must have once {mutant.old!r}, has it {text.count(mutant.old)} times")
    return text.replace(mutant.old, mutant.new)


def digest(mutant: Mutant) -> str:
    """Return the digest of a mutant and its benches."""
    words = (mutant.file, mutant.old, mutant.new, *benches_of(mutant))
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]


def benches_of(mutant: Mutant) -> tuple[str, ...]:
    """Return the benches that must detect a fault in the mutant's file, the quickest first."""
    return mutant.benches or BENCHES[mutant.file]


class Build:
    """The folder of the compiled benches."""

    def __init__(self, folder: Path, timeout: int) -> None:
        self.folder, self.timeout = folder.resolve(), timeout
        self.models, self.benches = described()
        self.links: dict[str, list[str]] = {}

    def link(self, bench: str) -> list[str]:
        """Return the command that links a bench, in the build folder."""
        if bench not in self.links:
            command = ["ninja", "-C", str(self.folder), "-t", "commands", f"rtl/test_rtl_{bench}"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            self.links[bench] = [w for w in shlex.split(done.stdout.strip().splitlines()[-1]) if w not in (":", "&&")]
        return self.links[bench]

    def verilate(self, root: Path, name: str) -> Path:
        """Make a model of the sources under `root`; return its archive. Raises CalledProcessError."""
        model = self.models[name]
        folder = root / "models" / name
        top = top_of(model, root)
        make = ["-MAKEFLAGS", "OPT_FAST=-O1", "-MAKEFLAGS", "OPT_SLOW=-O0"]
        command = ["verilator", *FLAGS, "--build", "-j", "1", *make, "--top-module", model.module]
        command += ["--prefix", f"V{name}", "--Mdir", str(folder), *model.arguments, "-y", "src", "-y", "lib", "lint.vlt"]
        command += ["src/hg_pkg.sv", str(top)]
        subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
        return folder / f"V{name}__ALL.a"

    def run(self, bench: str, archives: dict[str, Path], into: Path) -> str:
        """Link a bench with archives in place of its own, and run it; return the name of the test that failed, or an empty
        string.
        """
        program = into / f"test_rtl_{bench}"
        own = {f"rtl/{name}/V{name}__ALL.a": str(path) for name, path in archives.items()}
        command = [own.get(word, word) for word in self.link(bench)]
        command[command.index("-o") + 1] = str(program)
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True, text=True)
        # processor time, not wall time, because other load on the machine must not kill a mutant
        limit = (self.timeout, self.timeout + 5)
        done = subprocess.run(
            [program, "--gtest_fail_fast", "--gtest_brief=1"],
            capture_output=True,
            text=True,
            errors="replace",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit),
        )
        if done.returncode == 0:
            return ""
        if done.returncode == -signal.SIGXCPU:
            return f"more than {self.timeout} s"
        failed = re.search(r"\[  FAILED  \] ([^\s,]+)", done.stdout)
        return failed[1] if failed else f"exit status {done.returncode}"

    def outcome(self, mutant: Mutant) -> dict[str, object]:
        """Build and run a mutant."""
        start = time.monotonic()
        entry: dict[str, object] = {
            "kind": mutant.kind,
            "fault": mutant.fault,
            "file": mutant.file,
            "mutant": digest(mutant),
        }
        with tempfile.TemporaryDirectory(prefix="heliograph-mutant-") as folder:
            root = Path(folder)
            for part in ("src", "lib", "test"):
                shutil.copytree(RTL / part, root / part)
            shutil.copy(RTL / "lint.vlt", root)
            (root / "models").mkdir()
            (root / mutant.file).write_text(changed(mutant), encoding="utf-8")
            archives: dict[str, Path] = {}
            entry |= {"outcome": "survived", "benches": list(benches_of(mutant))}
            for bench in benches_of(mutant):
                for name in self.benches[bench]:
                    wanted = not mutant.models or name in mutant.models
                    if wanted and name not in archives and mutant.file in files_of(self.models[name]):
                        archives[name] = self.verilate(root, name)
                if failed := self.run(bench, archives, root):
                    entry |= {"outcome": "killed", "bench": bench, "test": failed}
                    break
        return entry | {"seconds": round(time.monotonic() - start, 1)}


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Return the results in a file by the mutant's name; an empty dict if there is no file."""
    rows = results.read(path)["results"] if path.exists() else []
    return {row["name"]: row for row in rows}


def write(path: Path, entries: dict[str, dict[str, Any]]) -> None:
    """Write the results; the mutants are in the order of the list."""
    version = subprocess.run(["verilator", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=RTL).stdout.strip()
    ordered = {m.name: entries[m.name] for m in MUTANTS if m.name in entries}
    outcomes = [entry["outcome"] for entry in ordered.values()]
    result = {
        "tool": version,
        "commit": commit,
        "mutants": len(ordered),
        "killed": outcomes.count("killed"),
        "survived": outcomes.count("survived"),
        "equivalent": len(EQUIVALENT),
        "results": [{"name": name} | entry for name, entry in ordered.items()],
    }
    results.save(path, result)


def check(path: Path) -> list[str]:
    """Return the errors of the list and of the result."""
    wrong = []
    entries = read(path)
    names = [m.name for m in MUTANTS]
    wrong += [f"{name}: the list has it {names.count(name)} times" for name in sorted(set(names)) if names.count(name) > 1]
    for mutant in (*MUTANTS, *EQUIVALENT):
        try:
            changed(mutant)
        except ValueError as error:
            wrong.append(f"{mutant.name}: {error}")
    for mutant in MUTANTS:
        entry = entries.get(mutant.name, {})
        if entry.get("mutant") != digest(mutant):
            wrong.append(f"{mutant.name}: {path.name} has no result of it; run rtl/mutation/mutate.py {mutant.name}")
        elif entry["outcome"] != "killed":
            wrong.append(f"{mutant.name}: it survived")
    return wrong + [f"{name}: {path.name} has it, the list does not" for name in entries if name not in names]


def main() -> int:
    """Run mutants, or check the list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="mutant", help="names of mutants; without any, all")
    parser.add_argument("--build", type=Path, help="build folder with the benches, made by Ninja")
    parser.add_argument("--kind", choices=sorted({m.kind for m in MUTANTS}), help="the mutants of a kind")
    parser.add_argument("--check", action="store_true", help="check the list and the result; build nothing")
    parser.add_argument("--list", action="store_true", help="print names, kinds and faults")
    parser.add_argument("--dry", action="store_true", help="do not write the result")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time (default 1)")
    parser.add_argument("--timeout", type=int, default=60, help="seconds of processor time per bench (default 60)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="result (default: %(default)s)")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - {m.name for m in MUTANTS}:
        parser.error(f"cannot run {', '.join(sorted(unknown))}: mutants must be names of --list")
    wanted = [m for m in MUTANTS if (not arguments.names or m.name in arguments.names) and arguments.kind in (None, m.kind)]
    if arguments.list:
        for mutant in wanted:
            print(f"{mutant.name} ({mutant.kind}): {mutant.fault}")
        return 0
    if arguments.check:
        wrong = check(arguments.output)
        print("\n".join(wrong) or f"{len(MUTANTS)} mutants, all killed")
        return 1 if wrong else 0
    if not shutil.which("verilator"):
        print("skipped: Verilator is not installed (Debian: apt-get install verilator)")
        return SKIPPED
    if arguments.build is None or not (arguments.build / "build.ninja").exists():
        parser.error(f"cannot run mutants: --build must be a folder configured for Ninja, got {arguments.build}")
    build = Build(arguments.build, arguments.timeout)
    held = read(arguments.output)
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=arguments.jobs) as pool:
        pending = {pool.submit(build.outcome, mutant): mutant for mutant in wanted}
        for future in concurrent.futures.as_completed(pending):
            mutant = pending[future]
            try:
                entry = future.result()
            except (ValueError, subprocess.CalledProcessError) as error:
                bad += 1
                print(f"{mutant.name}: NOT BUILT: {(getattr(error, 'stderr', '') or str(error))[:600]}", flush=True)
                continue
            killed = entry["outcome"] == "killed"
            bad += not killed
            how = f"killed by {entry['bench']}, {entry['test']}" if killed else "SURVIVES"
            print(f"{mutant.name}: {how} ({entry['seconds']} s)", flush=True)
            held[mutant.name] = entry
            if not arguments.dry:
                write(arguments.output, held)
    print(f"{len(wanted)} mutants, {bad} not killed")
    return 1 if bad else 0


if __name__ == "__main__":
    os.environ.setdefault("CCACHE_DISABLE", "1")  # every mutant differs, so a cache has no hits
    sys.exit(main())
