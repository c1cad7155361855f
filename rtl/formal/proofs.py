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
    Mutant("an address is withdrawn", "src/hg_ring.sv", "(enable_i || offered)", "enable_i"),
    Mutant("a descriptor of seven pieces", "src/hg_ring.sv", "part == 3'd7", "part == 3'd6"),
)
REGISTERS = (
    Mutant("an answer is withdrawn", "src/hg_registers.sv", "else if (rready_i) rvalid_o", "else rvalid_o"),
    Mutant("a write changes its answer", "src/hg_registers.sv", "if (write) bresp_o", "if (awvalid_i) bresp_o"),
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
SCOREBOARD = (
    Mutant("a slot is read before it is written", "src/hg_scoreboard.sv", "&& (reads_i & in_writing) == 0 &&", "&&"),
    Mutant("a slot is overwritten while it is read", "src/hg_scoreboard.sv", "(in_writing | in_reading)", "in_writing"),
    Mutant(
        "tables are free once the operands are read",
        "src/hg_scoreboard.sv",
        "reads[u][e] : reads[u][e] & KEPT",
        "reads[u][e] : '0",
    ),
    Mutant("two units read a bank", "src/hg_scoreboard.sv", "reads_i\n  ) & others_read) == 0", "reads_i\n  ) & '0) == 0"),
    Mutant(
        "what is wanted late is not kept free",
        "src/hg_scoreboard.sv",
        "wants_banks[u] & held & ~own",
        "wants_banks[u] & '0 & own",
    ),
    Mutant("two late units are granted one bank", "src/hg_scoreboard.sv", "        held |= wants_banks[u];\n", ""),
)
MEMORY = (
    Mutant("a reader gets another bank's rows", "src/hg_memory.sv", "    bank2 <= bank1;\n", "    bank2 <= '0;\n"),
    Mutant(
        "a write goes to the slot beside",
        "src/hg_memory.sv",
        "write_slot_i[w][SB-1:BB], write_address_i",
        "(IB)'(0), write_address_i",
    ),
    Mutant("a row is written over all its lanes", "src/hg_bank.sv", "write_i(write_i[g][l])", "write_i(|write_i[g])"),
)
NTT = (
    Mutant("a row's group is its lowest bit", "src/hg_ntt.sv", "odd = ^pair", "odd = pair[0]"),
    Mutant(
        "partners of a stage are those of the next",
        "src/hg_ntt.sv",
        "!limb.inverse ? below >> 1",
        "!limb.inverse ? below >> 2",
    ),
    Mutant("stages follow without a gap", "src/hg_ntt.sv", "gap <= gap_of(limb.log_n)", "gap <= '0", 18),
)
DISPATCH = (
    Mutant("a conversion's last source is left out", "src/hg_dispatch.sv", "8'(i) <= word6[7:0]", "8'(i) < word6[7:0]"),
    Mutant(
        "twiddles are loaded into a table in use",
        "src/hg_dispatch.sv",
        "slot(word1[15:8]) | table_at(word6[15:0])",
        "slot(word1[15:8])",
    ),
    Mutant(
        "a permutation into its own slot",
        "src/hg_dispatch.sv",
        "is_slot(word1[15:8]) && (reads & writes) == 0",
        "is_slot(word1[15:8])",
    ),
    Mutant("a slot beyond the last one is read", "src/hg_dispatch.sv", "return 32'(number) < SLOTS", "return 1'b1"),
    Mutant("a store begins within a beat", "src/hg_dispatch.sv", "word1[15:8]) && beat_aligned", "word1[15:8])"),
    Mutant("a fence waits for nothing", "src/hg_dispatch.sv", "valid_i && fence && idle_o", "valid_i && fence"),
)
POINTWISE = (
    Mutant(
        "a third operand of one bank goes with the second",
        "src/hg_pointwise.sv",
        "turn_c = turn_b + 2'd1",
        "turn_c = turn_b",
    ),
    Mutant("banks are told apart by one bit", "src/hg_pointwise.sv", "x[BB-1:0] == y[BB-1:0] &&", "x[BB:0] == y[BB:0] &&"),
    Mutant(
        "a row ends before its last operand is read",
        "src/hg_pointwise.sv",
        "turn_c > turn_b && row_c_i ? turn_c : turn_b",
        "turn_b",
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
    Proof(
        "scoreboard",
        "no slot is read before it is written or overwritten while in use; a bank has one reader and one writer",
        "hg_scoreboard",
        {"SLOTS": 4, "TABLES": 2, "BANKS": 2, "UNITS": 3, "LATE": "3'b011"},
        SCOREBOARD,
    ),
    Proof(
        "memory",
        "what is read is what was last written; users of apart banks do not meet",
        "hg_memory",
        {"W": 2, "B": 2, "LOG_N": 4, "BANKS": 2, "SLOTS": 4, "READERS": 3, "WRITERS": 2},
        MEMORY,
    ),
    Proof(
        "ntt",
        "the two rows of a cycle lie in two groups; none is read while its newest words are on their way",
        "hg_ntt",
        {"B": 16, "LOG_N": 9},
        NTT,
        60,
    ),
    Proof(
        "dispatch",
        "descriptors begin when what they name is free, and go to their units once",
        "hg_dispatch",
        {"SLOTS": 8, "TABLES": 2, "SETS": 2, "BANKS": 2, "SOURCES": 4, "T": 4},
        DISPATCH,
    ),
    Proof(
        "pointwise", "operands read together are in different banks, or one", "hg_pointwise", {"B": 2, "SB": 4}, POINTWISE
    ),
    _dma(DMA_READ, "read", "each beat of a load goes to its rows once"),
    _dma(DMA_WRITE, "write", "each row of a store is sent once, behind its burst's address"),
)
