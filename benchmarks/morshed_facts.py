"""Morshed, Al Aziz and Mohammed, CPU and GPU accelerated fully homomorphic encryption (HOST 2020): its tables, as printed.

An Intel i7-2600 with 8 threads and an NVIDIA GTX 1080; the first parameter set of TFHE's library. Of Figures 5a to 5c, charts without
numbers, what the text says of their curves.
"""

from __future__ import annotations

import json
from pathlib import Path

HARDWARE = "i7-2600 (8 threads), GTX 1080"

Lines = dict[str, dict[str, float]]
#: By table: seconds by line and column; Figure 5's are 5a to 5c together.
TABLES: dict[str, Lines] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
#: What each table's columns are.
COLUMNS = {
    "IV": "bits",
    "Figure 5": "bits",
    "V": "bits",
    "VI": "bits x length",
    "VII": "bits",
    "VIII": "bits x length",
    "IX": "dimension, of 16-bit numbers unless said",
    "X": "rows x attributes",
}
#: Which lines of Figure 5 each of its parts shows.
PARTS_OF_FIGURE_5 = {"5a": ("AND",), "5b": ("AND",), "5c": ("compound gate", "two single gates")}
#: And at which bits.
BITS_OF_FIGURE_5 = {
    "5a": ("4", "8", "16", "24", "32"),
    "5b": tuple(str(1 << k) for k in range(2, 11)),
    "5c": ("1", "2", "4", "8", "16", "24", "32"),
}
#: Seconds of a gate that the libraries of Figure 5b print of themselves, on a Titan Xp and in large batches.
PRINTED = {"NuFHE, by its own page": 0.13e-3, "cuFHE, by its own page": 0.5e-3}

#: Table I: year, homomorphism, bootstrapping, parallelism, bits of security, kB of a 32-bit number, milliseconds of an
#: addition and of a multiplication.
FEATURES: dict[str, tuple[str, str, str, str, str, str, str, str]] = {
    "RSA": ("1978", "partial", "no", "no", "128", "0.9", "-", "5"),
    "Paillier": ("1999", "partial", "no", "no", "128", "0.3", "4", "-"),
    "TFHE": ("2016", "fully", "exact", "AVX", "110", "31.5", "7,044", "489,938"),
    "HEAAN": ("2018", "somewhat", "approximate", "CPU", "157", "7,168", "11.37", "1,215"),
    "SEAL (BFV)": ("2019", "somewhat", "no", "no", "157", "8,806", "4,237", "23,954"),
    "cuFHE": ("2018", "fully", "exact", "GPU", "110", "31.5", "2,032", "132,231"),
    "NuFHE": ("2018", "fully", "exact", "GPU", "110", "31.5", "4,162", "186,011"),
    "Cingulata": ("2018", "fully", "exact", "no", "110", "31.5", "2,160", "50,690"),
    "theirs": ("-", "fully", "exact", "GPU", "110", "31.5", "1,991", "33,930"),
}
#: Table II: seconds of a gate of 32 bits, an addition, 32 additions, a multiplication, a 16x16 matrix product.
SUMMARY: dict[str, tuple[float, float, float, float, float]] = {
    "TFHE": (1.40, 7.04, 224.31, 489.93, 8717.89 * 60),
    "theirs, CPU": (0.50, 7.04, 77.18, 174.54, 2514.34 * 60),
    "theirs, GPU": (0.07, 1.99, 11.22, 33.93, 186.23 * 60),
}
