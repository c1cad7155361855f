"""What is proven (prove.py), of which module with which parameters, and the mutants that must not pass."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A source with `old`, which it has once, replaced."""

    says: str
    file: str
    old: str
    new: str
    after: int = 0  # cycles in which no fault is looked for, to find one of a long run sooner


@dataclass(frozen=True)
class Proof:
    """Assertions of TOP_proof.sv (and of those of `also`), bound into a module with parameters."""

    name: str
    says: str
    top: str
    parameters: dict[str, object]
    mutants: tuple[Mutant, ...]
    cycles: int = 10
    also: tuple[str, ...] = ()


def _dma(mutants: tuple[Mutant, ...], which: str, says: str) -> Proof:
    return Proof(f"dma-{which}", says, f"hg_dma_{which}", {"B": 1, "AW": 14, "W": 4}, mutants, 16, also=("hg_bursts",))


FIFO = (
    Mutant("room is told when full", "lib/hg_fifo.sv", "count != CB'(DEPTH)", "count <= CB'(DEPTH)"),
    Mutant("words taken are counted on", "lib/hg_fifo.sv", " - CB'(get)", ""),
    Mutant("words go where the oldest lies", "lib/hg_fifo.sv", "words[tail] <=", "words[head] <="),
)
BURSTS = (
    Mutant("a burst crosses the page", "lib/hg_bursts.sv", "LB'(LONGEST) - LB'(address[SHIFT+:LB-1])", "LB'(LONGEST)"),
    Mutant("a beat is left out", "lib/hg_bursts.sv", "left - COUNT'(now)", "left - COUNT'(now) - COUNT'(!last_o)"),
    Mutant(
        "an address moves before it is taken",
        "lib/hg_bursts.sv",
        "else if (valid_o && ready_i) address",
        "else if (valid_o) address",
    ),
)
RING = (
    Mutant("more is asked for than has room", "src/hg_ring.sv", "asked - head < DEPTH", "asked - head <= DEPTH"),
    Mutant("a descriptor of seven pieces", "src/hg_ring.sv", "part == 3'd7", "part == 3'd6"),
)
REGISTERS = (
    Mutant("an answer is withdrawn", "src/hg_registers.sv", "else if (rready_i) rvalid_o", "else rvalid_o"),
    Mutant("a read changes the answer before it", "src/hg_registers.sv", "arvalid_i && !rvalid_o", "arvalid_i"),
)
DMA_READ = (
    Mutant("a beat is taken over another", "src/hg_dma_read.sv", "left != 0 && (!held || piece_end)", "left != 0"),
    Mutant("rows begin where the last limb ended", "src/hg_dma_read.sv", "      pair <= '0;\n", ""),
    Mutant(
        "it ends before its last rows are written", "src/hg_dma_read.sv", "left == 0 && !held && idle", "left == 0 && idle"
    ),
)
DMA_WRITE = (
    Mutant(
        "rows on their way are not counted",
        "src/hg_dma_write.sv",
        "queued + CB'(coming) < CB'(DEPTH)",
        "queued < CB'(DEPTH)",
        11,
    ),
    Mutant(
        "data go before their address",
        "src/hg_dma_write.sv",
        "wvalid_o = beat_valid && burst_valid",
        "wvalid_o = beat_valid",
        5,
    ),
    Mutant(
        "it ends before the bus has answered",
        "src/hg_dma_write.sv",
        "idle && open_bursts == 0 && !read1",
        "idle && !read1",
        6,
    ),
)
PROOFS = (
    Proof("fifo", "a queue gives each word once, in order", "hg_fifo", {"WIDTH": 4, "DEPTH": 8}, FIFO, 12),
    *(
        Proof(
            f"bursts-{b}",
            "bursts cover a transfer exactly, within pages of 4 KiB",
            "hg_bursts",
            {"BYTES": b},
            BURSTS if b == 64 else (),
        )
        for b in (8, 64, 128)
    ),
    Proof("ring", "descriptors leave whole, once; the ring's reads find room", "hg_ring", {}, RING, 40),
    Proof("registers", "each access of the host is answered once, by an answer that stays", "hg_registers", {}, REGISTERS),
    _dma(DMA_READ, "read", "each beat of a load goes to its rows once"),
    _dma(DMA_WRITE, "write", "each row of a store is sent once, behind its burst's address"),
)
