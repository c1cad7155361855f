"""Compares CKKS with OpenFHE and HEXL, in turns on the same cores: products, rotations, bootstraps.

    python -m benchmarks.peers.openfhe --peer BUILD/openfhe_ckks --out benchmarks/results/mine-beside-openfhe.jsonl
    python -m benchmarks.peers.openfhe --peer BUILD/openfhe_ckks --only rotate --threads 1

benchmarks/results/ckks-bgv.md tells how to build the peer's program. For each number of cores two processes run side by side on the same
cores. Both processes prepare a case, then one is timed while the other waits, in turns. The result is the median of all
calls of all turns. Precision is measured on the last number of cores. Both sides of a bootstrap take 20 GiB together. The
JSON is written after every row.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.runners import common
from benchmarks.runners.bootstrap import pinned

Row = dict[str, Any]
PAUSE = 0.3  # pause in seconds, after which the other side's threads are idle
MOST = 100  # maximum number of calls per turn


@dataclass(frozen=True)
class Case:
    """A case that both libraries run. `asked` is the target speed-up over the peer."""

    what: str
    operation: str  #: an operation of cases/ckks.py, or a form of cases/bootstrap.py
    asked: float | None = None
    bootstraps: bool = False


CASES = {
    "multiply": Case("multiply + relinearize", "multiply", 4.5),
    "rescaled": Case("multiply + relinearize + rescale", "rescaled"),
    "rotate": Case("one rotation", "rotate", 4.5),
    "rotate8": Case("eight hoisted rotations", "rotate8", 4),
    "bootstrap": Case("bootstrap of one complex ciphertext", "complex-x1", 4, bootstraps=True),
    "bootstrap-precise": Case("the same, OpenFHE at its most precise", "complex-x1", bootstraps=True),
}
SETS = ("n16-l24", "n16-b13")
SMALL = ("n13-l4", "small")


class Side:
    """A process that executes commands, one per line."""

    def __init__(self, name: str, command: list[str]) -> None:
        self._name = name
        self._process = subprocess.Popen(command, cwd=common.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words: Any) -> Row:
        """Sends a command and returns its result."""
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(" ".join(map(str, words)) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise SystemExit(f"{self._name} ended with {self._process.wait()}")
        found: Row = json.loads(line)
        return found

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


class Ours:
    """Executes the commands on Heliograph's side."""

    def __init__(self, sets: tuple[str, str]) -> None:
        self._sets = sets
        self._name = ""

    def prepare(self, name: str) -> Row:
        """Makes keys and operands, and times a first call."""
        import heliograph as hg
        from benchmarks.cases import bootstrap as bootstrap_cases
        from benchmarks.cases import ckks as ckks_cases

        self._name, case = name, CASES[name]
        levelled, bootstrapped = self._sets
        keys: dict[str, float] = {}
        if case.bootstraps:
            keys = {"keys_s": bootstrap_cases.party(bootstrapped).keys_s}
            x = bootstrap_cases.operand(bootstrapped, case.operation)
            run = bootstrap_cases.FORMS[case.operation].run
            self._call = lambda: run(x).wait()
            parameters = bootstrap_cases.describe(bootstrapped)
        else:
            operation = ckks_cases.OPERATIONS[case.operation]
            operands = operation.operands(*ckks_cases.pair(levelled, 1))
            self._call = lambda: operation.run(*operands).wait()
            parameters = ckks_cases.describe(operands[0].parameters)
        first = self.time(1)["times_s"][0]
        return {"parameters": parameters, "first_s": first, "device": hg.devices()[0]} | keys

    def time(self, calls: int) -> Row:
        """Returns the time of each call."""
        times = []
        for _ in range(calls):
            start = time.perf_counter()
            self._call()
            times.append(time.perf_counter() - start)
        return {"times_s": times}

    def precision(self, ciphertexts: int) -> Row:
        """Returns the correct bits of bootstraps."""
        from benchmarks.cases import bootstrap as bootstrap_cases

        return bootstrap_cases.precision(self._sets[1], CASES[self._name].operation, ciphertexts)


def serve(sets: tuple[str, str]) -> None:
    """Executes the parent's commands."""
    ours = Ours(sets)
    for line in sys.stdin:
        word, value = line.split()
        found = ours.prepare(value) if word == "prepare" else getattr(ours, word)(int(value))
        print(json.dumps(found), flush=True)


def compare(name: str, sides: tuple[Side, Side], seconds: float, turns: int, ciphertexts: int) -> Row:
    """Compares one case. `ciphertexts`: the number of ciphertexts whose precision is measured."""
    prepared = [side.ask("prepare", name) for side in sides]
    times: list[list[float]] = [[], []]
    for _ in range(turns):
        for side, about, found in zip(sides, prepared, times, strict=True):
            time.sleep(PAUSE)
            found += side.ask("time", min(MOST, max(1, round(seconds / min(found, default=about["first_s"])))))["times_s"]
    for about, found in zip(prepared, times, strict=True):
        about |= {"median_s": statistics.median(found), "fastest_s": min(found), "slowest_s": max(found), "runs": len(found)}
    if CASES[name].bootstraps and ciphertexts:
        for side, about in zip(sides, prepared, strict=True):
            about["precision"] = side.ask("precision", ciphertexts)
    ours, peer = prepared
    case = {"case": name, "what": CASES[name].what, "bootstraps": CASES[name].bootstraps, "asked": CASES[name].asked}
    return {**case, "ours": ours, "peer": peer, "ratio": peer["median_s"] / ours["median_s"]}


def show(row: Row) -> None:
    """Prints a row for the terminal."""
    ours, peer = (f"{row[side]['median_s'] * 1e3:9.2f} ms" for side in ("ours", "peer"))
    asked = f" asked {row['asked']}" if row["asked"] else ""
    bits = "".join(
        f"; {side}: {p['mean_bits']:.1f} bits, worst {p['worst_bits']:.1f}"
        for side in ("ours", "peer")
        if (p := row[side].get("precision"))
    )
    print(
        f"{row['case']:17} {row['threads']} cores: ours {ours}, peer {peer}, ratio {row['ratio']:.2f}{asked}{bits}",
        flush=True,
    )


def main() -> None:
    """Parses the command line and writes the results."""
    parser = common.parser(
        __doc__,
        peer=(Path, "program built from benchmarks/peers"),
        only=("", f"comma-separated, of {', '.join(CASES)}"),
        threads=("1,2", "comma-separated numbers of cores"),
        seconds=(1.0, "seconds per turn, of at least one call"),
        turns=3,
        runs=(2, "number of ciphertexts whose precision is measured"),
        small=(False, "use small sets on Heliograph's side, for tests"),
        serve=False,
    )
    given = parser.parse_args()
    os.environ["HELIOGRAPH_DEVICE"] = "cpu"  # OpenFHE has no GPU backend
    sets = SMALL if given.small else SETS
    if given.serve:
        serve(sets)
        return
    if not given.peer:
        parser.error("--peer is missing: give the program of OpenFHE's side")
    names = given.only.split(",") if given.only else list(CASES)
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"unknown case {', '.join(unknown)}: use {', '.join(CASES)}")
    own = [*common.module("peers.openfhe"), "--serve", *(["--small"] if given.small else [])]
    report = common.Rows(given.out, show, kind="beside openfhe", load=common.load())
    everywhere = os.sched_getaffinity(0)
    threads = [int(count) for count in given.threads.split(",")]
    for count in threads:
        pinned(count)
        for bootstraps in (False, True):  # separate processes: the keys of both kinds of cases would not fit together
            if not (chosen := [name for name in names if CASES[name].bootstraps == bootstraps]):
                continue
            sides = Side("our side", own), Side("the peer", [str(given.peer.resolve())])
            for name in chosen:
                row = compare(name, sides, given.seconds, given.turns, given.runs if count == threads[-1] else 0)
                report.machine["device"] = row["ours"].pop("device")
                report.add({**row, "threads": count})
            for side in sides:
                side.close()
        os.sched_setaffinity(0, everywhere)


if __name__ == "__main__":
    main()
