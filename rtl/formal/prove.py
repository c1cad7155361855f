#!/usr/bin/env python3
"""Prove properties of the card's control logic, and refute each property for faulty sources.

    python rtl/formal/prove.py              all proofs and their mutants
    python rtl/formal/prove.py fifo ring    these proofs
    python rtl/formal/prove.py --list       print the properties

A proof is a module that is bound into the module under proof (hg_fifo_proof.sv into hg_fifo). The proof assumes the
conditions in its header and asserts the rest. yosys' `sat -tempinduct` then shows that no state reachable from a reset,
after any number of cycles, breaks an assertion. The first k cycles have no fault, and no k cycles without a fault lead to a
cycle with a fault. yosys increases k until both hold, up to the proof's `cycles`. To keep proofs short, proofs.py sets
parameters below the card's, such as depths of queues and widths of addresses. A mutant is the source with one line changed.
A mutant counts only if a run from reset makes an assertion fail."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import yosys
from proofs import PROOFS, Mutant, Proof

RTL = yosys.RTL
SOURCES = sorted((p for d in ("lib", "src") for p in (RTL / d).glob("*.sv")), key=lambda p: (p.stem != "hg_pkg", p.stem))


@dataclass
class Verdict:
    """The result of yosys: whether it proved or refuted the assertions, and k, the number of cycles that this took."""

    holds: bool
    refuted: bool
    cycles: int
    seconds: float = field(default=0.0)


def check(proof: Proof, mutant: Mutant | None = None) -> Verdict:
    """Runs yosys on a proof. If there is a mutant, its changed line replaces the original line in the source."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        files = list(SOURCES)
        if mutant:
            original = RTL / mutant.file
            text = original.read_text(encoding="utf-8")
            if text.count(mutant.old) != 1:
                raise SystemExit(
                    f"{proof.name}: {mutant.file} must contain {mutant.old!r} once, got {text.count(mutant.old)} times"
                )
            files[files.index(original)] = Path(folder) / original.name
            (Path(folder) / original.name).write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        files += [RTL / "formal" / f"{name}_proof.sv" for name in (proof.top, *proof.also)]
        sat = "sat -prove-asserts -set-assumes -tempinduct"
        # Outputs are removed, so that only logic that assertions use remains.
        commands = [
            yosys.read(proof.top, files, proof.parameters),
            *(f"hierarchy -check -top {proof.top}", "proc", "flatten", "async2sync", "chformal -lower"),
            *(
                "delete -port o:*",
                "opt_clean -purge",
                "memory_map",
                "opt_expr",
                "opt_muxtree",
                "opt_reduce",
                "opt_merge",
                "opt_clean -purge",
            ),
            f"{sat}-baseonly -tempinduct-skip {mutant.after} -maxsteps {proof.cycles}"
            if mutant
            else f"{sat} -maxsteps {proof.cycles}",
        ]
        log = yosys.run(commands)
    steps = [int(n) for n in re.findall(r"\[(?:base case|induction step) (\d+)\]", log)]
    return Verdict(
        "Induction step proven: SUCCESS" in log,
        "model found for base case" in log,
        max(steps, default=0),
        time.monotonic() - start,
    )


def main() -> int:
    """Run proofs and mutants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"proofs, default all: {', '.join(p.name for p in PROOFS)}")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - {p.name for p in PROOFS}
    if unknown:
        parser.error(f"unknown proofs: {', '.join(sorted(unknown))}")
    if arguments.list:
        for proof in PROOFS:
            print(f"{proof.name}: {proof.statement}")
        return 0
    if not yosys.found():
        print(f"skipped: {yosys.MISSING}")
        return yosys.SKIPPED
    bad = 0
    for proof in PROOFS:
        if arguments.names and proof.name not in arguments.names:
            continue
        verdict = check(proof)
        bad += not verdict.holds
        how = (
            f"proven, k = {verdict.cycles}"
            if verdict.holds
            else "REFUTED"
            if verdict.refuted
            else f"NOT PROVEN with k = {verdict.cycles}"
        )
        print(f"{proof.name}: {how} ({verdict.seconds:.1f} s)", flush=True)
        for mutant in proof.mutants:
            verdict = check(proof, mutant)
            bad += not verdict.refuted
            how = f"fails in cycle {verdict.cycles}" if verdict.refuted else "IS NOT CAUGHT"
            print(f"    mutant, {mutant.fault}: {how} ({verdict.seconds:.1f} s)", flush=True)
    print(f"{bad} of these failed" if bad else "all proven, all mutants caught")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
