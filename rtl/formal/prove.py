#!/usr/bin/env python3
"""Prove what the card's control logic promises, and refute each promise for a faulty source.

    python rtl/formal/prove.py              all proofs and their mutants
    python rtl/formal/prove.py fifo ring    these
    python rtl/formal/prove.py --list       what each proves

A proof is a module that is bound into the one that it is about (hg_fifo_proof.sv into hg_fifo): it assumes what its header says of the
surroundings and asserts the rest. yosys' `sat -tempinduct` then shows that nothing reachable from a reset, in whatever many cycles,
breaks an assertion: none of the first k cycles does, and no k cycles without a fault lead to one with a fault. Parameters are small
ones of the same kind, named below; k is at most `cycles`. A mutant is the source with one line changed: it counts only if there is a run
from reset in which an assertion fails.
"""

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
class Told:
    """What yosys found: whether the assertions hold, and after how many cycles that was plain."""

    holds: bool
    refuted: bool
    cycles: int
    seconds: float = field(default=0.0)


def check(proof: Proof, mutant: Mutant | None = None) -> Told:
    """Prove, or refute with a mutant in place of its source."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        files = list(SOURCES)
        if mutant:
            original = RTL / mutant.file
            text = original.read_text(encoding="utf-8")
            if text.count(mutant.old) != 1:
                raise SystemExit(f"{proof.name}: {mutant.file} has {text.count(mutant.old)} times {mutant.old!r}, not once")
            files[files.index(original)] = Path(folder) / original.name
            (Path(folder) / original.name).write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        files += [RTL / "formal" / f"{name}_proof.sv" for name in (proof.top, *proof.also)]
        sat = "sat -prove-asserts -set-assumes -tempinduct"
        # Outputs are let go, so that only what assertions look at stays.
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
        said = yosys.run(commands)
    steps = [int(n) for n in re.findall(r"\[(?:base case|induction step) (\d+)\]", said)]
    return Told(
        "Induction step proven: SUCCESS" in said,
        "model found for base case" in said,
        max(steps, default=0),
        time.monotonic() - start,
    )


def main() -> int:
    """Run proofs and mutants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of: {', '.join(p.name for p in PROOFS)}")
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    unknown = set(asked.names) - {p.name for p in PROOFS}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if asked.list:
        for proof in PROOFS:
            print(f"{proof.name}: {proof.says}")
        return 0
    if not yosys.found():
        print(f"skipped: {yosys.MISSING}")
        return yosys.SKIPPED
    bad = 0
    for proof in PROOFS:
        if asked.names and proof.name not in asked.names:
            continue
        told = check(proof)
        bad += not told.holds
        how = (
            f"proven, k = {told.cycles}"
            if told.holds
            else "REFUTED"
            if told.refuted
            else f"NOT PROVEN with k = {told.cycles}"
        )
        print(f"{proof.name}: {how} ({told.seconds:.1f} s)", flush=True)
        for mutant in proof.mutants:
            told = check(proof, mutant)
            bad += not told.refuted
            how = f"fails in cycle {told.cycles}" if told.refuted else "IS NOT CAUGHT"
            print(f"    mutant, {mutant.says}: {how} ({told.seconds:.1f} s)", flush=True)
    print(f"{bad} of these are not as they should be" if bad else "all proven, all mutants caught")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
