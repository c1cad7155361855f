"""Writes small limb programs for one or several chips, with key switches by input broadcast or output aggregation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import heliograph as hg

#: A polynomial: maps each limb to the register that holds the limb on its chip.
Limbs = dict[int, str]


@dataclass
class Chip:
    """The instructions, inputs and outputs of one chip."""

    lines: list[str] = field(default_factory=list)
    inputs: dict[str, tuple[str, set[int]]] = field(default_factory=dict)
    outputs: dict[str, tuple[str, set[int]]] = field(default_factory=dict)
    registers: int = 0
    scalars: int = 0

    def new(self) -> str:
        """Returns an unused register."""
        self.registers += 1
        return f"r{self.registers - 1}"

    def emit(self, text: str) -> None:
        self.lines.append(text)


class Writer:
    """Writes instructions; limb l is placed on chip l modulo the number of chips."""

    def __init__(self, chips: int = 1, special: int = 2) -> None:
        self.chips = [Chip() for _ in range(chips)]
        self.special = special
        self.terms: dict[str, int] = {}
        self.meetings = 0
        self.kinds: dict[str, str] = {}

    def chip(self, limb: int) -> Chip:
        """Returns the chip that holds a limb."""
        return self.chips[limb % len(self.chips)]

    def term(self, kind: str, symbol: str) -> str:
        """Returns the name (term) of an input in instructions for this symbol; declares the input when it is first used."""
        self.kinds[symbol] = kind
        return kind + str(self.terms.setdefault(symbol, len(self.terms) + 1))

    def load(self, chip: Chip, kind: str, symbol: str, limb: int) -> str:
        """Loads a limb of a program input into a register."""
        term = self.term(kind, symbol)
        chip.inputs.setdefault(term, (symbol, set()))[1].add(limb)
        half = kind == "k" and ":c1:" in symbol
        if kind == "s":
            chip.scalars += 1
            register = f"s{chip.scalars - 1}"
        else:
            register = chip.new()
        chip.emit(f"{'loas' if kind == 's' else 'evg' if half else 'load'} {register}: {term}({limb})")
        return register

    def taken(self, kind: str, symbol: str, level: int) -> Limbs:
        return {limb: self.load(self.chip(limb), kind, symbol, limb) for limb in range(level)}

    def ciphertext(self, name: str, level: int) -> tuple[Limbs, Limbs]:
        return self.taken("i", f"{name}:c0", level), self.taken("i", f"{name}:c1", level)

    def plaintext(self, name: str, level: int) -> Limbs:
        return self.taken("p", f"{name}:p", level)

    def scalar(self, name: str, level: int) -> Limbs:
        return self.taken("s", f"{name}:s", level)

    def give(self, name: str, *components: Limbs) -> None:
        for c, limbs in enumerate(components):
            term = self.term("v", f"{name}:c{c}")
            for limb, register in limbs.items():
                chip = self.chip(limb)
                chip.outputs.setdefault(term, (f"{name}:c{c}", set()))[1].add(limb)
                chip.emit(f"store {register}: {term}({limb})")

    def each(self, op: str, *operands: Limbs) -> Limbs:
        """Writes the same instruction for all limbs."""
        made = {}
        for limb in operands[0]:
            to = self.chip(limb).new()
            self.chip(limb).emit(f"{op} {to}: {', '.join(o[limb] for o in operands)} | {limb}")
            made[limb] = to
        return made

    def product(self, x: tuple[Limbs, Limbs], y: tuple[Limbs, Limbs]) -> tuple[Limbs, Limbs, Limbs]:
        cross = self.each("add", self.each("mul", x[0], y[1]), self.each("mul", x[1], y[0]))
        return self.each("mul", x[0], y[0]), cross, self.each("mul", x[1], y[1])

    def meet(self) -> int:
        self.meetings += 1
        return self.meetings

    def rescale(self, x: Limbs) -> Limbs:
        """Writes a division by the last prime. The chip that holds the last limb sends this limb to the other chips."""
        top = max(x)
        owner = self.chip(top)
        rest = owner.new()
        owner.emit(f"int {rest}: {x[top]} | {top}")
        held = {id(owner): rest}
        if len(self.chips) > 1:
            meeting = self.meet()
            owner.emit(f"dis @ {meeting}:{len(self.chips)} : {rest}")
            for chip in self.chips:
                if chip is not owner:
                    held[id(chip)] = chip.new()
                    chip.emit(f"rcv @ {meeting}:{len(self.chips)} {held[id(chip)]}: ")
        made = {}
        for limb in range(top):
            chip = self.chip(limb)
            made[limb] = chip.new()
            chip.emit(f"sud {made[limb]}: {x[limb]}, {held[id(chip)]} | {limb}")
        return made

    def specials(self) -> list[int]:
        return list(range(64 - self.special, 64))

    def switch(
        self, x: Limbs, kind: int, turn: int, digits: list[list[int]], aggregate: bool = False
    ) -> tuple[Limbs, Limbs]:
        """Writes a key switch. Input broadcast: each chip raises every digit to the chip's own limbs and to the special
        limbs. Output
        aggregation: each chip raises its own digit to all limbs, and the divided results are added up.

        """
        level = len(x)
        coefficients: dict[tuple[int, int], str] = {}  # chip, limb
        for limb, register in x.items() if not aggregate else ():
            chip = self.chip(limb)
            mine = chip.new()
            chip.emit(f"int {mine}: {register} | {limb}")
            for c, other in enumerate(self.chips):
                coefficients[c, limb] = mine if other is chip else other.new()
            if len(self.chips) > 1:
                meeting = self.meet()
                chip.emit(f"dis @ {meeting}:{len(self.chips)} : {mine}")
                for c, other in enumerate(self.chips):
                    if other is not chip:
                        other.emit(f"rcv @ {meeting}:{len(self.chips)} {coefficients[c, limb]}: ")
        results: list[tuple[Limbs, Limbs]] = []
        for c, chip in enumerate(self.chips):
            targets = [limb for limb in range(level) if aggregate or self.chip(limb) is chip]
            mine_digits = [d for d in digits if not aggregate or self.chip(d[0]) is chip]
            sums: list[dict[int, str]] = [{}, {}]
            for digit in mine_digits:
                others = [limb for limb in targets if limb not in digit] + self.specials()
                chip.emit(f"bci B{c}: {_list(others)}, {_list(digit)}")
                for limb in digit:
                    if aggregate:
                        chip.emit(f"pl1 B{c}: {x[limb]} | {limb}")
                    else:
                        chip.emit(f"bcw B{c}: {coefficients[c, limb]} | {limb}")
                for limb in targets + self.specials():
                    if limb in digit:
                        raised = x[limb]
                    else:
                        raised = chip.new()
                        chip.emit(f"ntt {raised}: b{c}{{{others.index(limb)}}} | {limb}")
                    for half in (0, 1):
                        symbol = f"K:{kind}:{level}:{self.special}:{turn}:c{half}:{_list(digit)}"
                        key = self.load(chip, "k", symbol, limb)
                        term = chip.new()
                        chip.emit(f"mul {term}: {raised}, {key}[X] | {limb}")
                        if limb in sums[half]:
                            total = chip.new()
                            chip.emit(f"add {total}: {sums[half][limb]}[X], {term}[X] | {limb}")
                            term = total
                        sums[half][limb] = term
            divided: list[Limbs] = [{}, {}]
            for half in (0, 1):
                if not targets or not mine_digits:
                    continue
                chip.emit(f"bci B{c}: {_list(targets)}, {_list(self.specials())}")
                for limb in self.specials():
                    chip.emit(f"pl1 B{c}: {sums[half][limb]}[X] | {limb}")
                for k, limb in enumerate(targets):
                    divided[half][limb] = chip.new()
                    chip.emit(f"sud {divided[half][limb]}: {sums[half][limb]}[X], b{c}{{{k}}} | {limb}")
            results.append((divided[0], divided[1]))
        out: tuple[Limbs, Limbs] = ({}, {})
        for half in (0, 1):
            for limb in range(level):
                owner = self.chip(limb)
                if not aggregate or len(self.chips) == 1:
                    out[half][limb] = results[limb % len(self.chips)][half][limb]
                    continue
                meeting = self.meet()
                to = owner.new()
                for c, chip in enumerate(self.chips):
                    part = results[c][half].get(limb, "")
                    chip.emit(f"joi @ {meeting}:{len(self.chips)} {to if chip is owner else ''}: {part} | {limb}")
                out[half][limb] = to
        return out

    def files(self) -> dict[str, str]:
        files = {}
        everything: dict[str, dict[str, tuple[str, set[int]]]] = {"in": {}, "out": {}}
        for c, chip in enumerate(self.chips):
            files[f"instructions{c}"] = "\n".join([f"Instruction Stream {c}:", *chip.lines]) + "\n"
            files[f"inputs{c}"] = _section("Input", chip.inputs) + _section("Output", chip.outputs)
            for name, listed in (("in", chip.inputs), ("out", chip.outputs)):
                for term, (symbol, limbs) in listed.items():
                    everything[name].setdefault(term, (symbol, set()))[1].update(limbs)
        of = lambda kind: {t: e for t, e in everything["in"].items() if t[0] == kind}  # noqa: E731
        files["program_inputs"] = (
            _section("Ciphertext", of("i"))
            + _section("Plaintext", of("p"))
            + _section("Scalar", of("s"))
            + _section("Output", everything["out"])
            + _section("Evalkey", of("k"))
        )
        return files

    def program(self) -> hg.cinnamon.Program:
        return hg.cinnamon.Program.parse(self.files())


def _list(limbs: Any) -> str:
    return "[" + ",".join(str(limb) for limb in sorted(limbs)) + "]"


def _section(title: str, entries: dict[str, tuple[str, set[int]]]) -> str:
    lines = [f"{term} | {symbol} | {_list(limbs)}\n" for term, (symbol, limbs) in entries.items()]
    return f"{title} Stream:\n{''.join(lines)};\n"


def digits_of(level: int, chips: int, size: int) -> list[list[int]]:
    """Groups the limbs of each chip into digits of at most `size` limbs."""
    found = []
    for c in range(chips):
        mine = list(range(c, level, chips))
        found += [mine[i : i + size] for i in range(0, len(mine), size)]
    return found


def sum_of_product(
    w: Writer, x: tuple[Limbs, Limbs, Limbs], digits: list[list[int]], aggregate: bool
) -> tuple[Limbs, Limbs]:
    """Relinearizes a ciphertext of degree two."""
    k0, k1 = w.switch(x[2], 0, 0, digits, aggregate)
    return w.each("add", x[0], k0), w.each("add", x[1], k1)


def rotated(w: Writer, x: tuple[Limbs, Limbs], steps: int, digits: list[list[int]], aggregate: bool) -> tuple[Limbs, Limbs]:
    """Rotates a ciphertext to the left."""
    k0, k1 = w.switch(w.each(f"rot {steps}", x[1]), 1, steps, digits, aggregate)
    return w.each("add", w.each(f"rot {steps}", x[0]), k0), k1
