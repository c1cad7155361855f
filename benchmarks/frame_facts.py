"""Frame's thesis (2015), chapter 5: run times in seconds of operations on DoubleCRT objects, by table.

Serial HElib on one core of a Core 2 Duo at 3.0 GHz, GPUHElib with a Quadro NVS 290, DistributedHElib over Open MPI and Ethernet.

Two things that the thesis does not say follow from its figures. What it calls the size of a row is HElib's m: the serial
product takes 71 to 74 ns a residue at every size if a row has phi(m) residues - 400, 4,000, 40,000, 80,000, 80,000 and
160,000 -, and 200,000 and 300,000 take the same time. And an object has about eight rows: a sync over 16 nodes, which sends
two rows and receives one for 15 in 16 of them, takes the time of 7.5 (both ways in turn) to 11 rows (at once) on a gigabit link.
"""

from __future__ import annotations

import json
from pathlib import Path

SIZES = (1_000, 10_000, 100_000, 200_000, 300_000, 400_000)
#: Euler's phi of them: residues a row has if they are HElib's m.
TOTIENTS = (400, 4_000, 40_000, 80_000, 80_000, 160_000)

Lines = dict[str, list[float]]
#: What each table shows: level, and who computed.
TITLES: dict[str, tuple[str, str]] = {
    "5.1": ("circuit", "serial HElib"),
    "5.2": ("circuit", "GPUHElib"),
    "5.3": ("function", "serial HElib"),
    "5.4": ("function", "GPUHElib"),
    "5.5": ("phase", "GPUHElib, add"),
    "5.6": ("phase", "GPUHElib, sub"),
    "5.7": ("phase", "GPUHElib, mul"),
    "5.8": ("circuit", "serial HElib"),
    "5.9": ("circuit", "DistributedHElib, 4 nodes"),
    "5.10": ("circuit", "DistributedHElib, 8 nodes"),
    "5.11": ("circuit", "DistributedHElib, 16 nodes"),
    "5.12": ("function", "serial HElib"),
    "5.13": ("function", "DistributedHElib, 4 nodes"),
    "5.14": ("function", "DistributedHElib, 8 nodes"),
    "5.15": ("function", "DistributedHElib, 16 nodes"),
    "5.16": ("distribute", "DistributedHElib, 4 nodes"),
    "5.17": ("sync", "DistributedHElib, 4 nodes"),
    "5.18": ("distribute", "DistributedHElib, 8 nodes"),
    "5.19": ("sync", "DistributedHElib, 8 nodes"),
    "5.20": ("distribute", "DistributedHElib, 16 nodes"),
    "5.21": ("sync", "DistributedHElib, 16 nodes"),
}
#: The figures: by table and line, a number for each size.
TABLES: dict[str, Lines] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
