"""Programs of single limbs in the Cinnamon instruction set, as its public compiler writes them, on CKKS tensors.

A compiler's folder has a stream of instructions for each chip, and lists of what these take and give. The program is run on the
devices that Heliograph found, chip after chip in turn where there are fewer.

The examples of its functions go on from these lines, which double a ciphertext of one limb and add a number to it.

>>> import heliograph as hg
>>> program = hg.cinnamon.Program.parse({
...     "instructions0": '''Instruction Stream 0:
... load r0: i1(0){F}
... loas s0: s3(0){F}
... add r4: r0, r0[X] | 0
... ads r1: r4[X], s0[X] | 0
... store r1[X]: v4(0)
... load r2: i2(0){F}
... add r3: r2, r2[X] | 0
... store r3[X]: v5(0)
... ''',
...     "inputs0": '''Input Stream:
... i1 | x:c0 | [0]
... i2 | x:c1 | [0]
... s3 | one:s | [0]
... ;
... Output Stream:
... v4 | y:c0 | [0]
... v5 | y:c1 | [0]
... ;
... ''',
...     "program_inputs": '''Ciphertext Stream:
... i1 | x:c0 | [0]
... i2 | x:c1 | [0]
... ;
... Plaintext Stream:
... ;
... Scalar Stream:
... s3 | one:s | [0]
... ;
... Output Stream:
... v4 | y:c0 | [0]
... v5 | y:c1 | [0]
... ;
... Evalkey Stream:
... ;
... ''',
... })
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._arrays import complexes, count_of, described, flag, is_real, path_of, readable_bytes
from heliograph._html import Rows, Shown
from heliograph.ckks.parameters import Parameters
from heliograph.ckks.tensor import Plaintext, Tensor
from heliograph.keys import Server

__all__ = ["Item", "Program", "Runner", "load"]


@dataclass(frozen=True)
class Item:
    """What a program takes or gives: "ciphertext", "plaintext" or "scalar", and its level; of what is taken the least."""

    kind: str
    level: int


def load(folder: Any) -> Program:
    """The program in a compiler's folder. Raises FileError's OSError, InstructionError, which names file, line and word.

    >>> hg.cinnamon.load("no/such/folder")
    Traceback (most recent call last):
        ...
    FileNotFoundError: [Errno 2] cannot read 'no/such/folder': No such file or directory
    """
    return Program(_core.cinnamon_load(path_of(folder)))


class Program(Shown):
    """A program of instructions. Immutable.

    >>> program
    <program of 8 instructions for 1 chip: one, x -> y; 0 evaluation keys>
    """

    def __init__(self, core: Any) -> None:
        if not isinstance(core, _core.CinnamonProgram):
            raise _core.DtypeError("programs of instructions are made by hg.cinnamon.load and Program.parse")
        self._core = core
        self._last: tuple[Any, Any, Runner] | None = None
        self._lock = threading.Lock()

    @staticmethod
    def parse(files: Mapping[str, str]) -> Program:
        """From texts by their files' names. Raises InstructionError.

        >>> texts = program.files()
        >>> texts["instructions0"] = texts["instructions0"].replace("add r3", "sum r3")
        >>> hg.cinnamon.Program.parse(texts)
        Traceback (most recent call last):
            ...
        heliograph._core.InstructionError: instructions0:8: sum: there is no such instruction
        """
        return Program(_core.cinnamon_parse([(str(name), str(text)) for name, text in files.items()]))

    def files(self) -> dict[str, str]:
        """The texts again, by their files' names.

        >>> program.files()["instructions0"].splitlines()[3]
        'add r4: r0, r0[X] | 0'
        """
        return dict(self._core.files())

    @property
    def chips(self) -> int:
        """Streams of instructions."""
        return int(self._core.chips)

    @property
    def instructions(self) -> int:
        """Instructions of all streams."""
        return int(self._core.instructions)

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each.

        >>> program.counts["load"]
        2
        """
        return dict(self._core.counts)

    @property
    def inputs(self) -> dict[str, Item]:
        """What it takes, by name.

        >>> program.inputs
        {'x': Item(kind='ciphertext', level=1), 'one': Item(kind='scalar', level=1)}
        """
        return {name: Item(kind, level) for name, kind, level in self._core.inputs}

    @property
    def outputs(self) -> dict[str, Item]:
        """The ciphertexts that it gives, by name."""
        return {name: Item(kind, level) for name, kind, level in self._core.outputs}

    @property
    def keys(self) -> list[str]:
        """The evaluation keys that it needs: ``secret.evaluation_keys(cinnamon=program)`` makes them.

        "K:type:level:extension:steps:[digit][digit]": type 0 relinearizes, 1 rotates, 2 conjugates, 4 goes to an ephemeral
        secret, 5 back from it after its modulus was raised, 3 raises without one.
        """
        return list(self._core.keys)

    @property
    def levels(self) -> int:
        """Chain primes that it needs, one a level."""
        return int(self._core.levels)

    @property
    def special(self) -> int:
        """Special primes that its keys need."""
        return int(self._core.special)

    def parameters(self, *, n: int, bits: float = 27.8, insecure: bool = False) -> Parameters:
        """A set for it: single primes of about `bits` bits, one a level, in 32-bit words. Raises ParameterError, SecurityError.

        >>> program.parameters(n=2**12)
        <CKKS parameters: N=2^12, log q 30, 0 multiplications, scale 2^27.8, 2,048 slots, 128-bit, w32>
        """
        if not is_real(bits):
            raise _core.DtypeError(f"bits are a number, not {described(bits)}")
        spec = self._core.spec(count_of(n, "n"), float(bits), flag(insecure, "insecure"))
        return Parameters(_core.CkksParameters(spec))

    def at(self, server: Server[Any], constants: Mapping[str, Any] | None = None, *, tolerance: float = 2**-20) -> Runner:
        """The program with a server's keys and its plaintexts and scalars, to run again and again: ``runner(x=x)``.

        A plaintext is given by its values, which are encoded at the scale that the program needs, or as `hg.ckks.Plaintext`.
        Scales are followed through the program, and what is added must have those of its partner but for `tolerance` (in
        proportion, which is then the error). Raises MissingKeyError, ParameterError, DtypeError.

        >>> secret = hg.SecretKey.generate(program.parameters(n=2**12))
        >>> server = hg.Server(secret.evaluation_keys(cinnamon=program))
        >>> runner = program.at(server, {"one": 1.0})
        >>> y = runner(x=server.bind(secret.encrypt([0.25, 0.5], pad=True)))["y"]
        >>> y.level, y.scale == program.parameters(n=2**12).scale(1)
        (1, True)
        """
        if not isinstance(server, Server):
            raise _core.DtypeError(f"a program runs at a server, not at {described(server)}")
        if not is_real(tolerance):
            raise _core.DtypeError(f"a tolerance is a number, not {described(tolerance)}")
        plaintexts, values, scalars = {}, {}, {}
        kinds = self.inputs
        for name, given in (constants or {}).items():
            kind = kinds[name].kind if name in kinds else None
            if kind == "scalar":
                if not is_real(given):
                    raise _core.DtypeError(f"the scalar {name} is a real number, not {described(given)}")
                scalars[name] = float(given)
            elif kind != "plaintext":
                raise _core.ParameterError(f"the program takes no plaintext or scalar of the name {name}")
            elif isinstance(given, Plaintext):
                plaintexts[name] = given._core
            else:
                values[name] = complexes(given, f"the values of {name}")
        return Runner(
            self, server, _core.CinnamonRunner(self._core, server.keys._core, plaintexts, values, scalars, float(tolerance))
        )

    def run(self, server: Server[Any], inputs: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, Tensor]:
        """Runs it once: ciphertexts, plaintexts and scalars by name, results by name. `at` is for running it more than once, though
        what stays the same from one call to the next is kept. Raises as `at` and a Runner.

        >>> sorted(program.run(server, x=server.bind(secret.encrypt([0.25, 0.5], pad=True)), one=1))
        ['y']
        """
        given = {**(inputs or {}), **named}
        constants = {name: value for name, value in given.items() if not isinstance(value, Tensor)}
        with self._lock:
            last = self._last
        same = (
            last is not None
            and last[0] is server
            and last[1].keys() == constants.keys()
            and all(last[1][name] is value for name, value in constants.items() if not is_real(value))
            and all(last[1][name] == value for name, value in constants.items() if is_real(value))
            and not any(isinstance(value, np.ndarray) for value in constants.values())  # whose values may have changed
        )
        runner = last[2] if same and last is not None else self.at(server, constants)
        with self._lock:
            self._last = (server, constants, runner)
        return runner({name: value for name, value in given.items() if isinstance(value, Tensor)})

    def explain_rows(self) -> Rows:
        """What `explain` says, as pairs.

        >>> program.explain_rows()[0]
        ('chips', '1')
        """
        listed = [f"{name} ({i.kind}, level {i.level})" for name, i in self.inputs.items()]
        return [
            ("chips", f"{self.chips}"),
            ("instructions", ", ".join(f"{count:,} {name}" for name, count in sorted(self.counts.items()))),
            ("takes", ", ".join(listed)),
            ("gives", ", ".join(f"{name} (level {i.level})" for name, i in self.outputs.items())),
            ("evaluation keys", ", ".join(self.keys) or "none"),
            ("primes", f"{self.levels} of the chain, {self.special} special"),
        ]

    def _rows(self) -> Rows:
        return self.explain_rows()

    def explain(self) -> str:
        """What it takes and gives, as text.

        >>> print(program.explain().splitlines()[0].split())
        ['chips', '1']
        """
        rows = self.explain_rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:{width}}  {text}" for name, text in rows)

    def __repr__(self) -> str:
        chips = f"{self.chips} chip" + ("s" if self.chips != 1 else "")
        return (
            f"<program of {self.instructions:,} instructions for {chips}: {', '.join(sorted(self.inputs))} -> "
            f"{', '.join(self.outputs)}; {len(self.keys)} evaluation keys>"
        )


class Runner(Shown):
    """A program with keys and constants (`Program.at`). Calls are safe from several threads, which take turns."""

    def __init__(self, program: Program, server: Server[Any], core: Any) -> None:
        self.program = program
        self.server = server
        self._core = core

    def __call__(self, inputs: Mapping[str, Tensor] | None = None, /, **named: Tensor) -> dict[str, Tensor]:
        """The results by name, of ciphertexts by name: of one shape, of degree 1, at the level that the program asks for or above.

        Nothing is known of the results' noise (`Tensor.precision` is NaN). Raises ParameterError for names that the program does
        not take, LevelError, ShapeError, ScaleError, WrongKeyError, MismatchError, OutOfMemoryError, RecordingError in a function
        that is recorded.
        """
        given = {**(inputs or {}), **named}
        for name, x in given.items():
            if not isinstance(x, Tensor):
                raise _core.DtypeError(f"{name} is a tensor of ciphertexts, not {described(x)}")
        results = self._core({name: x._core for name, x in given.items()})
        return {name: Tensor(core, self.server.keys) for name, core in results.items()}

    def __repr__(self) -> str:
        return f"<{self.program!r} at {self.server!r}>"

    @property
    def nbytes(self) -> int:
        """Bytes of memory that it holds after the first run, keys and plaintexts not counted."""
        return int(self._core.bytes)

    @property
    def calls(self) -> int:
        """Kernel calls of one run; known after the first."""
        return int(self._core.calls)

    @property
    def devices(self) -> int:
        """Devices that its chips run on; known after the first run."""
        return int(self._core.devices)

    def _rows(self) -> Rows:
        return [("program", repr(self.program)), ("memory", readable_bytes(self.nbytes)), ("calls", f"{self.calls:,}")]
