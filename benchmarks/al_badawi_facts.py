"""Al Badawi and others, Multi-GPU design and performance evaluation of homomorphic encryption on GPU clusters (IEEE TPDS 2020).

Figures as printed: seconds by the number of processing units; what is a chart there (Figures 4, 7, 8) by what its text says.
"""

from __future__ import annotations

Times = dict[str, dict[str, dict[int, float]]]
#: By workload and machine.
TABLE_4: Times = {
    "HVAdd": {
        "Cingulata, cores of a Xeon E5-2620": {1: 12.672, 2: 7.970, 4: 5.798, 8: 4.169, 16: 3.28, 20: 3.45},
        "K80": {1: 0.063, 2: 0.031, 4: 0.018, 8: 0.024},
        "V100 and three P100": {1: 0.024, 2: 0.009, 4: 0.013},
    },
    "HVMul": {
        "Cingulata, cores of a Xeon E5-2620": {1: 561.04, 2: 289.18, 4: 155.37, 8: 63.64, 16: 65.57, 20: 62.81},
        "K80": {1: 5.788, 2: 2.602, 4: 1.997, 8: 6.162},
        "V100 and three P100": {1: 2.097, 2: 1.091, 4: 4.135},
    },
}
TABLE_5: Times = {
    "HCNN-5": {"K80": {1: 25.25, 2: 15.31, 4: 15.84, 8: 34.53}, "V100 and three P100": {1: 14.31, 2: 11.77, 4: 22.50}},
    "HCNN-11, one plaintext modulus": {"K80": {8: 1120.71}},
    "HCNN-11, ten plaintext moduli": {"K80": {8: 11207.33}},
}
#: Inputs, outputs, then ciphertext by ciphertext, by plaintext, plus ciphertext, plus plaintext.
TABLE_2: dict[str, tuple[int, int, int, int, int, int]] = {
    "HVAdd": (1000, 500, 0, 0, 500, 0),
    "HVMul": (500, 250, 250, 0, 0, 0),
    "HCNN-5": (784, 10, 1520, 46_000, 46_000, 1_950),
    "HCNN-11": (3072, 10, 57_344, 6_952_332, 6_952_332, 91_728),
}
#: Columns of the machines, rows of what they are.
TABLE_3: dict[str, tuple[str, str]] = {
    "GPUs": ("8 K80", "1 V100, 3 P100"),
    "memory of a GPU": ("12 GB, 240 GB/s", "16 GB, 732 to 900 GB/s"),
    "links": ("two groups of 4; PCIe, 16 GB/s", "3 P100 joined, V100 apart; PCIe, 16 GB/s"),
    "processor": ("Xeon E5-2620, 12 cores, 64 GB", "Xeon Platinum, 52 cores, 191 GB"),
    "CUDA": ("9.0", "9.0"),
}
#: Our cases beside a workload: beginnings of names, of GPUs and of cores.
CASES: dict[str, tuple[str, ...]] = {
    "HVAdd": ("hvadd-2^15-x500", "hvadd500-2^15"),
    "HVMul": ("hvmul-2^15-x250-", "hvmul250-2^15"),
    "HCNN-5": ("hcnn5-paper", "hcnn5-2020"),
    "HCNN-11, one plaintext modulus": ("hcnn11-2020-one", "hcnn11-one"),
    "HCNN-11, ten plaintext moduli": ("hcnn11-2020-all", "hcnn11-all"),
}
