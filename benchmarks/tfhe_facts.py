"""Figures of others beside which ours stand: peers measured earlier on machines like ours, and what GPUs can do."""

from __future__ import annotations

from dataclasses import dataclass


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
