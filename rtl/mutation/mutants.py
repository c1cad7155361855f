"""The mutants of mutants.toml, and the benches that must find them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """A source in which the text `old`, which occurs once, is replaced by `new`. `benches` and `models` replace the default
    benches and models of the file.
    """

    name: str
    kind: str
    fault: str
    file: str
    old: str
    new: str
    benches: tuple[str, ...] = ()
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class Equivalent:
    """A change that has no effect on any port, with the reason."""

    name: str
    file: str
    old: str
    new: str
    why: str


#: The default benches of a file (test/test_NAME.cpp), the fastest first.
BENCHES: dict[str, tuple[str, ...]] = {
    "lib/hg_bursts.sv": ("lib", "dma_read", "dma_write"),
    "lib/hg_delay.sv": ("lib",),
    "lib/hg_fifo.sv": ("lib", "ring", "dma_write"),
    "lib/hg_pieces.sv": ("arithmetic",),
    "lib/hg_product.sv": ("multipliers", "arithmetic"),
    "lib/hg_product_sum.sv": ("arithmetic",),
    "lib/hg_ram.sv": ("lib",),
    "src/hg_bank.sv": ("memory",),
    "src/hg_butterfly.sv": ("arithmetic",),
    "src/hg_card.sv": ("bus",),
    "src/hg_convert.sv": ("core", "bus"),
    "src/hg_core.sv": ("core", "bus"),
    "src/hg_dispatch.sv": ("dispatch",),
    "src/hg_dma_read.sv": ("dma_read",),
    "src/hg_dma_write.sv": ("dma_write",),
    "src/hg_lane.sv": ("arithmetic",),
    "src/hg_memory.sv": ("memory",),
    "src/hg_mod_add.sv": ("multipliers",),
    "src/hg_mod_sub.sv": ("multipliers",),
    "src/hg_mul_barrett.sv": ("multipliers",),
    "src/hg_mul_montgomery.sv": ("multipliers",),
    "src/hg_mul_shoup.sv": ("multipliers",),
    "src/hg_mul_window.sv": ("multipliers",),
    "src/hg_ntt.sv": ("ntt",),
    "src/hg_permute.sv": ("core",),
    "src/hg_pointwise.sv": ("core",),
    "src/hg_reduce4.sv": ("arithmetic",),
    "src/hg_reduce_sum.sv": ("arithmetic",),
    "src/hg_registers.sv": ("registers",),
    "src/hg_ring.sv": ("ring",),
    "src/hg_scoreboard.sv": ("scoreboard", "dispatch"),
}

_LISTED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
MUTANTS = tuple(
    Mutant(name, kind, fault, file, old, new, *map(tuple, more))
    for file, listed in _LISTED["mutant"].items()
    for name, (kind, fault, old, new, *more) in listed.items()
)
EQUIVALENT = tuple(
    Equivalent(name, file, old, new, why)
    for file, listed in _LISTED["equivalent"].items()
    for name, (why, old, new) in listed.items()
)
