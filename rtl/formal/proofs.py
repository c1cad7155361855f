"""The proofs of prove.py: properties, modules, parameters, and the mutants that must be refuted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A source in which the text `old`, which occurs once, is replaced by `new`."""

    fault: str
    file: str
    old: str
    new: str
    after: int = 0  # number of first cycles that are not searched, so that faults in long runs are found sooner


@dataclass(frozen=True)
class Proof:
    """Assertions of TOP_proof.sv (and of the proofs in `also`), bound into the module `top` with these parameters."""

    name: str
    statement: str
    top: str
    parameters: dict[str, object]
    mutants: tuple[Mutant, ...]
    cycles: int = 10  # largest k, the number of cycles of the induction (prove.py)
    also: tuple[str, ...] = ()


def _dma(mutants: tuple[Mutant, ...], which: str, statement: str) -> Proof:
    return Proof(f"dma-{which}", statement, f"hg_dma_{which}", {"B": 1, "AW": 14, "W": 4}, mutants, 16, also=("hg_bursts",))


FIFO = (
    Mutant("reports room when full", "lib/hg_fifo.sv", "count != CB'(DEPTH)", "count <= CB'(DEPTH)"),
    Mutant("taken words are still counted", "lib/hg_fifo.sv", " - CB'(get)", ""),
    Mutant("words overwrite the oldest", "lib/hg_fifo.sv", "words[tail] <=", "words[head] <="),
)
BURSTS = (
    Mutant(
        "a burst crosses a page of 4 KiB", "lib/hg_bursts.sv", "LB'(LONGEST) - LB'(address[SHIFT+:LB-1])", "LB'(LONGEST)"
    ),
    Mutant("a beat is skipped", "lib/hg_bursts.sv", "left - COUNT'(now)", "left - COUNT'(now) - COUNT'(!last_o)"),
    Mutant(
        "an address changes before it is accepted",
        "lib/hg_bursts.sv",
        "else if (valid_o && ready_i) address",
        "else if (valid_o) address",
    ),
)
RING = (
    Mutant(
        "more descriptors are requested than there is room for",
        "src/hg_ring.sv",
        "asked - head < DEPTH",
        "asked - head <= DEPTH",
    ),
    Mutant("an address is withdrawn", "src/hg_ring.sv", "(enable_i || offered)", "enable_i"),
    Mutant("a descriptor leaves after seven of its eight pieces", "src/hg_ring.sv", "part == 3'd7", "part == 3'd6"),
)
REGISTERS = (
    Mutant(
        "a response is withdrawn before it is accepted",
        "src/hg_registers.sv",
        "else if (rready_i) rvalid_o",
        "else rvalid_o",
    ),
    Mutant(
        "the next write changes the response to a write",
        "src/hg_registers.sv",
        "if (write) bresp_o",
        "if (awvalid_i) bresp_o",
    ),
    Mutant("the next read changes the response to a read", "src/hg_registers.sv", "arvalid_i && !rvalid_o", "arvalid_i"),
)
DMA_READ = (
    Mutant(
        "a beat overwrites one that is still held", "src/hg_dma_read.sv", "left != 0 && (!held || piece_end)", "left != 0"
    ),
    Mutant("the rows of a limb start where the previous limb ended", "src/hg_dma_read.sv", "      pair <= '0;\n", ""),
    Mutant(
        "a load ends before its last rows are written",
        "src/hg_dma_read.sv",
        "left == 0 && !held && idle",
        "left == 0 && idle",
    ),
)
DMA_WRITE = (
    Mutant(
        "rows in flight are not counted",
        "src/hg_dma_write.sv",
        "queued + CB'(coming) < CB'(DEPTH)",
        "queued < CB'(DEPTH)",
        11,
    ),
    Mutant(
        "data precede the address of their burst",
        "src/hg_dma_write.sv",
        "wvalid_o = beat_valid && burst_valid",
        "wvalid_o = beat_valid",
        5,
    ),
    Mutant(
        "a store ends before the bus has answered it",
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
        "the bank that a late unit claims is given to another unit",
        "src/hg_scoreboard.sv",
        "wants_banks[u] & held & ~own",
        "wants_banks[u] & '0 & own",
    ),
    Mutant("two late units are granted one bank", "src/hg_scoreboard.sv", "        held |= wants_banks[u];\n", ""),
)
MEMORY = (
    Mutant("a reader gets the rows of another bank", "src/hg_memory.sv", "    bank2 <= bank1;\n", "    bank2 <= '0;\n"),
    Mutant(
        "a write goes to the wrong slot",
        "src/hg_memory.sv",
        "write_slot_i[w][SB-1:BB], write_address_i",
        "(IB)'(0), write_address_i",
    ),
    Mutant("a write enables all lanes of its row", "src/hg_bank.sv", "write_i(write_i[g][l])", "write_i(|write_i[g])"),
)
NTT = (
    Mutant("the group of a row is its lowest bit, not its parity", "src/hg_ntt.sv", "odd = ^pair", "odd = pair[0]"),
    Mutant(
        "a stage uses the partners of the next stage",
        "src/hg_ntt.sv",
        "!limb.inverse ? below >> 1",
        "!limb.inverse ? below >> 2",
    ),
    Mutant("stages follow without a gap", "src/hg_ntt.sv", "gap <= gap_of(limb.log_n)", "gap <= '0", 18),
)
DISPATCH = (
    Mutant("a conversion's last source is skipped", "src/hg_dispatch.sv", "8'(i) <= word6[7:0]", "8'(i) < word6[7:0]"),
    Mutant(
        "twiddles are loaded into a table in use",
        "src/hg_dispatch.sv",
        "slot(word1[15:8]) | table_at(word6[15:0])",
        "slot(word1[15:8])",
    ),
    Mutant(
        "a permutation writes its own slot",
        "src/hg_dispatch.sv",
        "is_slot(word1[15:8]) && (reads & writes) == 0",
        "is_slot(word1[15:8])",
    ),
    Mutant("a slot after the last one is read", "src/hg_dispatch.sv", "return 32'(number) < SLOTS", "return 1'b1"),
    Mutant("a store starts within a beat", "src/hg_dispatch.sv", "word1[15:8]) && beat_aligned", "word1[15:8])"),
    Mutant("a fence does not wait", "src/hg_dispatch.sv", "valid_i && fence && idle_o", "valid_i && fence"),
)
POINTWISE = (
    Mutant(
        "a third operand of one bank is read with the second",
        "src/hg_pointwise.sv",
        "turn_c = turn_b + 2'd1",
        "turn_c = turn_b",
    ),
    Mutant(
        "banks are compared in one bit too many",
        "src/hg_pointwise.sv",
        "x[BB-1:0] == y[BB-1:0] &&",
        "x[BB:0] == y[BB:0] &&",
    ),
    Mutant(
        "a row ends before its last operand is read",
        "src/hg_pointwise.sv",
        "turn_c > turn_b && row_c_i ? turn_c : turn_b",
        "turn_b",
    ),
)
PROOFS = (
    Proof("fifo", "a queue returns each word once, in order", "hg_fifo", {"WIDTH": 4, "DEPTH": 8}, FIFO, 12),
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
    Proof("ring", "each descriptor leaves once, complete; there is room for all requested ones", "hg_ring", {}, RING, 40),
    Proof(
        "registers",
        "each access of the host gets one response, which stays until it is accepted",
        "hg_registers",
        {},
        REGISTERS,
    ),
    Proof(
        "scoreboard",
        "no slot is read before it is written or overwritten while in use; a bank has one reader and one writer",
        "hg_scoreboard",
        {"SLOTS": 4, "TABLES": 2, "BANKS": 2, "UNITS": 3, "LATE": "3'b011"},
        SCOREBOARD,
    ),
    Proof(
        "memory",
        "a read returns the last write; users of different banks do not conflict",
        "hg_memory",
        {"W": 2, "B": 2, "LOG_N": 4, "BANKS": 2, "SLOTS": 4, "READERS": 3, "WRITERS": 2},
        MEMORY,
    ),
    Proof(
        "ntt",
        "the two rows of a cycle are in two groups; no row is read while its newest words are in flight",
        "hg_ntt",
        {"B": 16, "LOG_N": 9},
        NTT,
        60,
    ),
    Proof(
        "dispatch",
        "descriptors start when their operands are free, and are issued to their units once",
        "hg_dispatch",
        {"SLOTS": 8, "TABLES": 2, "SETS": 2, "BANKS": 2, "SOURCES": 4, "T": 4},
        DISPATCH,
    ),
    Proof(
        "pointwise",
        "operands that are read in one cycle are in different banks, or in one slot",
        "hg_pointwise",
        {"B": 2, "SB": 4},
        POINTWISE,
    ),
    _dma(DMA_READ, "read", "each beat of a load is written to its rows once"),
    _dma(DMA_WRITE, "write", "each row of a store is sent once, after the address of its burst"),
)
