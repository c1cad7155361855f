"""Figures of others beside which ours stand: the paper's tables, and peers measured earlier on machines like ours."""

from __future__ import annotations

from dataclasses import dataclass

#: Morshed, Al Aziz, Mohammed: CPU and GPU accelerated fully homomorphic encryption (HOST 2020). Intel i7-2600 with 8 threads,
#: NVIDIA GTX 1080; TFHE-lib's first parameter set.
PAPER = "Morshed and others 2020"
HARDWARE = "i7-2600 (8 threads), GTX 1080"

Lines = dict[str, dict[str, float]]
#: By table: seconds by line and column, as printed there.
TABLES: dict[str, Lines] = {
    "IV": {
        "sequential, bootstrapping": {"2": 0.06889, "4": 0.13802, "8": 0.27567, "16": 0.13725, "32": 0.2743},
        "sequential, key switch": {"2": 0.01713, "4": 0.03418, "8": 0.06831, "16": 0.13725, "32": 0.2743},
        "sequential, rest": {"2": 0.02704, "4": 0.04797, "8": 0.09648, "16": 0.42522, "32": 0.85251},
        "sequential, total": {"2": 0.11305, "4": 0.22017, "8": 0.44046, "16": 0.69972, "32": 1.4011},
        "GPU, bootstrapping": {"2": 0.01964, "4": 0.01886, "8": 0.02783, "16": 0.0407, "32": 0.06674},
        "GPU, key switch": {"2": 0.00265, "4": 0.00269, "8": 0.00269, "16": 0.00291, "32": 0.00334},
        "GPU, rest": {"2": 0.00045, "4": 0.00008, "8": 0.00006, "16": 0.00044, "32": 0.00042},
        "GPU, total": {"2": 0.02274, "4": 0.02163, "8": 0.03058, "16": 0.04406, "32": 0.0705},
    },
    "Figure 5": {  # what its text says of the curves
        "AND, sequential": {"4": 0.22, "32": 1.4},
        "AND, GPU": {"4": 0.02, "32": 0.06},
        "compound gate, GPU": {"1": 0.02},
        "two single gates, GPU": {"1": 0.04},
    },
    "V": {
        "sequential": {"16": 3.51, "24": 5.23, "32": 7.04},
        "cuFHE": {"16": 1.00, "24": 1.51, "32": 2.03},
        "NuFHE": {"16": 2.92, "24": 3.56, "32": 4.16},
        "Cingulata": {"16": 1.10, "24": 1.63, "32": 2.16},
        "CPU": {"16": 3.51, "24": 5.23, "32": 7.04},
        "GPU_n (numberwise)": {"16": 0.94, "24": 2.55, "32": 4.44},
        "GPU_1 (bitwise)": {"16": 0.98, "24": 1.47, "32": 1.99},
    },
    "VI": {
        "sequential": {
            "16 x4": 13.98, "16 x8": 27.86, "16 x16": 55.66, "16 x32": 111.32,
            "32 x4": 28.05, "32 x8": 56.01, "32 x16": 111.3, "32 x32": 224.31,
        },
        "CPU": {
            "16 x4": 5.07, "16 x8": 9.96, "16 x16": 19.65, "16 x32": 38.99,
            "32 x4": 10.02, "32 x8": 19.29, "32 x16": 38.77, "32 x32": 77.18,
        },
        "GPU": {
            "16 x4": 1.27, "16 x8": 1.78, "16 x16": 2.82, "16 x32": 5.41,
            "32 x4": 2.56, "32 x8": 3.58, "32 x16": 5.70, "32 x32": 11.22,
        },
    },
    "VII": {
        "naive, sequential": {"16": 120.64, "24": 273.82, "32": 489.94},
        "naive, CPU": {"16": 52.77, "24": 101.22, "32": 174.54},
        "naive, GPU": {"16": 11.16, "24": 22.08, "32": 33.99},
        "naive, cuFHE": {"16": 32.75, "24": 74.21, "32": 132.23},
        "naive, NuFHE": {"16": 47.72, "24": 105.48, "32": 186.00},
        "Cingulata": {"16": 11.50, "24": 27.04, "32": 50.69},
        "Karatsuba, CPU": {"16": 54.76, "32": 177.04},
        "Karatsuba, GPU": {"16": 7.6708, "32": 24.62},
    },
    "VIII": {
        "sequential": {
            "16 x4": 487.8, "16 x8": 977.4, "16 x16": 1957.2, "16 x32": 3909.0,
            "32 x4": 1953.6, "32 x8": 3907.2, "32 x16": 7818.6, "32 x32": 15631.2,
        },
        "CPU": {
            "16 x4": 195.0, "16 x8": 370.2, "16 x16": 715.8, "16 x32": 1414.8,
            "32 x4": 729.0, "32 x8": 1408.8, "32 x16": 2783.4, "32 x32": 5546.4,
        },
        "GPU": {
            "16 x4": 24.6, "16 x8": 45.0, "16 x16": 84.0, "16 x32": 160.8,
            "32 x4": 96.6, "32 x8": 177.6, "32 x16": 337.2, "32 x32": 647.4,
        },
    },
    "IX": {
        "sequential": {"2": 1024.2, "4": 8200.8, "8": 65407.2, "16": 523073.4},
        "CPU": {"2": 637.2, "4": 2866.8, "8": 21109.2, "16": 150860.4},
        "GPU": {"2": 51.6, "4": 354.0, "8": 2637.0, "16": 11173.8},
    },
    "X": {
        "GPU, numerical": {"200 x 10": 9802.8, "200 x 20": 16131.6, "300 x 10": 14722.8, "300 x 20": 24231.0},
        "GPU, binary": {"200 x 10": 3234.6, "200 x 20": 4072.8, "300 x 10": 4854.6, "300 x 20": 5752.8},
    },
}  # fmt: skip
#: What each table measures, by its columns.
TITLES = {
    "IV": "Table IV: the parts of an AND, by bits",
    "Figure 5": "Figure 5: gates, by bits",
    "V": "Table V: one addition, by bits",
    "VI": "Table VI: vectors added, by bits x length",
    "VII": "Table VII: one multiplication, by bits",
    "VIII": "Table VIII: vectors multiplied, by bits x length",
    "IX": "Table IX: matrix products by dimension, of 16-bit numbers unless said",
    "X": "Table X: linear regression, by rows x attributes",
}


@dataclass(frozen=True)
class Peer:
    """A figure of a peer, measured earlier and elsewhere; never in the same run."""

    case: str  #: ours beside it
    seconds: float  #: of one of its calls on as many items as ours
    who: str
    where: str  #: "1 core", "2 cores", "H200"


_RS = "tfhe-rs 1.8.2"
_CUDA = "tfhe-rs CUDA (11a245d)"
#: Measured on 2026-11-21 with the peers' own programs on machines of the kinds ours are.
PEERS = [
    Peer("gates/nand/boolean/x1", 0.0119, f"{_RS}, boolean default (n=805, k=3, N=512)", "1 core"),
    Peer("gates/nand/boolean/x1", 0.0068, f"{_RS}, boolean default, each of two at once", "2 cores"),
    Peer("gates/nand/boolean/x1", 0.028, "OpenFHE, STD128 LMKCDEY with HEXL", "1 core"),
    Peer("gates/bootstrap/2_2/x1", 0.0165, f"{_RS}, 2_2 (n=866, N=2048, 2^-128.6)", "1 core"),
    Peer("integers/add/2_2/x1", 0.573, f"{_RS}, FheUint32", "1 core"),
    Peer("integers/add/2_2/x1", 0.297, f"{_RS}, FheUint32", "2 cores"),
    Peer("integers/multiply/2_2/x1", 7.848, f"{_RS}, FheUint32", "1 core"),
    Peer("integers/multiply/2_2/x1", 4.054, f"{_RS}, FheUint32", "2 cores"),
    Peer("integers/less/2_2/x1", 0.408, f"{_RS}, FheUint32", "1 core"),
    Peer("integers/less/2_2/x1", 0.223, f"{_RS}, FheUint32", "2 cores"),
    Peer("gates/bootstrap/2_2/x1", 0.0041, f"{_CUDA}, classical", "H200"),
    Peer("gates/bootstrap/2_2/latency/x1", 0.00097, f"{_CUDA}, bootstrap alone, 4 key bits a step", "H200"),
    Peer("gates/bootstrap/2_2/x16384", 16384 / 42600, f"{_CUDA}, with key switch", "H200"),
    Peer("gates/nand/boolean/x16384", 16384 / 7300, "HEonGPU (n=512)", "H200"),
]
#: Fused multiply-adds of doubles a second, by what a device's name says: measured earlier on an H200; an H100 by its data sheet.
GPU_FMA = {"H200": 16.3e12, "H100": 16.7e12}
