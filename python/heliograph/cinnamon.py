"""Programs of single limbs in the Cinnamon instruction set, as its public compiler writes them, on CKKS tensors; and recorded programs of
CKKS or BGV written as such.

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
>>> secret = hg.SecretKey.generate(program.parameters(n=2**12))
>>> server = hg.Server(secret.evaluation_keys(cinnamon=program))
>>> x = server.bind(secret.encrypt([0.25, 0.5], pad=True))

And a recorded program, which is written as one.

>>> params = hg.ckks.parameters("n13-l4")
>>> owner = hg.SecretKey.generate(params)
>>> party = hg.Server(owner.evaluation_keys(rotations=[1]))
>>> z = party.bind(owner.encrypt([0.5] * params.slots))
>>> turned = hg.program(lambda z: hg.ckks.rotate(z, 1) + 0.25, z)
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._arrays import complexes, count_of, described, flag, is_real, path_of, readable_bytes, real, whole
from heliograph._html import Rows, Shown
from heliograph._shapes import Tensor
from heliograph.ckks.parameters import Parameters
from heliograph.ckks.tensor import Plaintext
from heliograph.keys import Server
from heliograph.recording import Program as Recorded

__all__ = ["Constants", "Item", "Program", "Runner", "load", "write"]


@dataclass(frozen=True)
class Item:
    """What a program takes or gives: "ciphertext", "plaintext" or "scalar", and its level; of what is taken the least.

    >>> program.outputs["y"]
    Item(kind='ciphertext', level=1)
    """

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


class Constants:
    """What a program that was written from a recording takes beside ciphertexts (`Program.constants`): plaintexts, scalars, and the
    scales of its results. They are of the program's text, so a program that reads this text again runs with them.

    >>> written = hg.cinnamon.write(turned)
    >>> again = hg.cinnamon.Program.parse(written.files())
    >>> owner.decrypt(again.at(party, written.constants)(z=z)["y"]).round(4)[:2]
    array([0.75, 0.75])
    """

    def __init__(self, core: Any) -> None:
        if not isinstance(core, _core.CinnamonConstants):
            raise _core.DtypeError("constants of a recording are made by hg.cinnamon.write")
        self._core = core


def write(
    program: Recorded,
    *,
    chips: int = 1,
    switching: str = "broadcast",
    inputs: Sequence[str] | None = None,
    results: Sequence[str] | None = None,
) -> Program:
    """A recorded program's last recording as instructions of single limbs, for one chip or several.

    Limb l lies on chip l modulo the chips. Several chips switch keys in one of three ways: "broadcast" sends the input's limbs to all
    chips, and each raises them to its own limbs; with "sum" and "aggregate" each chip raises its own digits to all limbs, and products
    are added up, before they are divided or after. The first two give the bits of the recorded program, "aggregate" rounds on each chip.

    It runs with the keys that the recorded function ran with (`Program.at`, `Program.run`). `inputs` and `results` name the tensors; without them
    they have the function's own names, and y, or y0, y1 and so on. Of a tensor of several ciphertexts each is one, "x.0", "x.1". Raises
    ParameterError for what the instruction set does not say: other schemes than CKKS and BGV, several plaintext moduli, sets of more than 64 primes or whose
    levels are not the first few of these, ciphertexts of degree 2; RecordingError where nothing is recorded.

    >>> written = hg.cinnamon.write(turned, chips=2)
    >>> written.chips, written.outputs
    (2, {'y': Item(kind='ciphertext', level=4)})
    >>> owner.decrypt(written.run(party, z=z)["y"]).round(4)[:2]
    array([0.75, 0.75])
    """
    if not isinstance(program, Recorded):
        raise _core.DtypeError(f"instructions are written of a recorded program (hg.program), not of {described(program)}")
    core, given = program._last_recording()
    if inputs is None:
        inputs = program._operand_names()
    if results is None:
        results = ["y"] if given == 1 else [f"y{i}" for i in range(given)]
    made, constants = _core.cinnamon_write(
        core, count_of(chips, "chips"), str(switching), [str(n) for n in inputs], [str(n) for n in results]
    )
    return Program(made, Constants(constants))


class Program(Shown):
    """A program of instructions. Immutable.

    >>> program
    <program of 8 instructions for 1 chip: one, x -> y; 0 evaluation keys>
    >>> program.inputs, program.counts["load"]
    ({'x': Item(kind='ciphertext', level=1), 'one': Item(kind='scalar', level=1)}, 2)
    """

    def __init__(self, core: Any, constants: Constants | None = None) -> None:
        if not isinstance(core, _core.CinnamonProgram):
            raise _core.DtypeError(
                "programs of instructions are made by hg.cinnamon.load, hg.cinnamon.write and Program.parse"
            )
        self._core = core
        self.constants = constants  #: of a program that was written from a recording
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

    def save(self, folder: Any) -> None:
        """Writes the texts into a folder, which is made where it is not there. Raises OSError.

        >>> program.save("double")
        >>> hg.cinnamon.load("double").files() == program.files()
        True
        """
        path = Path(path_of(folder))
        path.mkdir(parents=True, exist_ok=True)
        for name, text in self.files().items():
            (path / name).write_text(text)

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
        """How many there are of each."""
        return dict(self._core.counts)

    @property
    def inputs(self) -> dict[str, Item]:
        """What it takes, by name."""
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

    def at(
        self,
        server: Server[Any],
        constants: Mapping[str, Any] | Constants | None = None,
        *,
        scales: Mapping[str, float] | None = None,
        tolerance: float = 2**-20,
        fuse: bool = True,
        merge: bool = True,
        graph: str | None = "branches",
        hints: bool = True,
        devices: Sequence[str] = (),
        memory: int | None = None,
    ) -> Runner:
        """The program with a server's keys and its plaintexts and scalars, to run again and again: ``runner(x=x)``.

        A plaintext is given by its values, which are encoded at the scale that the program needs (`scales`), or as `hg.ckks.Plaintext`.
        Scales are followed through the program, and what is added must have those of its partner but for `tolerance` (in
        proportion, which is then the error). `scales` sets those of plaintexts and scalars by name. A program that was written from a recording has its constants (`write`); its text, read again,
        takes them from there.

        `devices`: names of devices that chips run on in turn beside the server's own, which is the first: ``["cuda:1"]``. On a mesh they run on
        its members.

        `memory`: bytes that each device has for what a run makes, keys and what is given not counted; None: what is free. What does not fit is moved to the
        host's memory and back (`Runner.spilled`), each value at most once there; without a graph then. OutOfMemoryError where what is needed at once does not fit.

        The rest is for those who measure. `fuse`: element-wise instructions between two transforms are one sum. `merge`: alike instructions
        that need nothing of each other are one call. `graph`: from the second run on a device that has graphs replays one, with "branches" of
        calls side by side, as one "stream", or with None not. `hints`: a GPU is told that keys and plaintexts are read once. Raises MissingKeyError,
        ParameterError, DtypeError; the first run ScaleError, PlaintextRangeError, which name the line.

        >>> runner = program.at(server, {"one": 1.0})
        >>> y = runner(x=x)["y"]
        >>> y.level, y.scale == program.parameters(n=2**12).scale(1)
        (1, True)
        """
        if not isinstance(server, Server):
            raise _core.DtypeError(f"a program runs at a server, not at {described(server)}")
        recorded = constants if isinstance(constants, Constants) else None if constants else self.constants
        if isinstance(constants, Constants):
            constants = None
        plaintexts, values, scalars = {}, {}, {}
        kinds = self.inputs
        for name, given in (constants or {}).items():
            kind = kinds[name].kind if name in kinds else None
            if kind == "scalar":
                scalars[name] = _number(given, f"the scalar {name}")
            elif kind != "plaintext":
                raise _core.ParameterError(f"the program takes no plaintext or scalar of the name {name}")
            elif isinstance(given, Plaintext):
                plaintexts[name] = given._core
            else:
                values[name] = complexes(given, f"the values of {name}")
        return Runner(
            self,
            server,
            _core.CinnamonRunner(
                self._core,
                server.keys._core,
                plaintexts,
                values,
                scalars,
                _scales(scales),
                real(tolerance, "tolerance"),
                None if recorded is None else recorded._core,
                flag(fuse, "fuse"),
                flag(merge, "merge"),
                "" if graph is None else str(graph),
                flag(hints, "hints"),
                [str(name) for name in ([devices] if isinstance(devices, str) else devices)],
                0 if memory is None else _bytes_of(memory),
            ),
        )

    def scales(
        self, parameters: Parameters, given: Mapping[str, float] | None = None, *, tolerance: float = 2**-20
    ) -> dict[str, float]:
        """The scales of its plaintexts and scalars for ciphertexts at their level's scale: those of `given` and, for the rest, those
        that follow from the program. Summands have one scale, and a quotient has its level's.

        Raises ScaleError, which names the line, where none can: sums of different scales, scales below 1.

        >>> params = program.parameters(n=2**12)
        >>> program.scales(params)["one"] == params.scale(1)
        True
        """
        if not isinstance(parameters, Parameters):
            raise _core.DtypeError(f"parameters must be those of CKKS, not {described(parameters)}")
        return dict(self._core.scales(parameters._core, _scales(given), real(tolerance, "tolerance")))

    def run(self, server: Server[Any], inputs: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, Any]:
        """Runs it once: ciphertexts, plaintexts and scalars by name, results by name. `at` is for running it more than once, though
        what stays the same from one call to the next is kept. Raises as `at` and a Runner.

        >>> secret.decrypt(program.run(server, x=x, one=1)["y"])[:2].round(3)
        array([1.5, 2. ])
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

    def explain_rows(self, parameters: Parameters | None = None, scales: Mapping[str, float] | None = None) -> Rows:
        """What `explain` says, as pairs.

        >>> program.explain_rows()[0]
        ('chips', '1')
        """
        taken = self.inputs
        listed = [f"{name} ({i.kind}, level {i.level})" for name, i in taken.items()]
        if len(listed) > 24:
            listed = [*listed[:20], f"and {len(listed) - 20} more"]
        encoded = [] if parameters is None else [("scales", _listed_scales(self.scales(parameters, scales)))]
        return [
            ("chips", f"{self.chips}"),
            ("instructions", ", ".join(f"{count:,} {name}" for name, count in sorted(self.counts.items()))),
            ("takes", ", ".join(listed)),
            ("gives", ", ".join(f"{name} (level {i.level})" for name, i in self.outputs.items())),
            ("evaluation keys", ", ".join(self.keys) or "none"),
            ("primes", f"{self.levels} of the chain, {self.special} special"),
            *encoded,
        ]

    def _rows(self) -> Rows:
        return self.explain_rows()

    def explain(self, parameters: Parameters | None = None, scales: Mapping[str, float] | None = None) -> str:
        """What it takes and gives, as text; with parameters also the `scales` of its plaintexts and scalars. Raises as `scales`.

        >>> print(program.explain(program.parameters(n=2**12)).splitlines()[-1])
        scales           one 2^27.8
        """
        rows = self.explain_rows(parameters, scales)
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:{width}}  {text}" for name, text in rows)

    def __repr__(self) -> str:
        chips = f"{self.chips} chip" + ("s" if self.chips != 1 else "")
        taken = self.inputs
        shown = sorted(taken)
        if len(shown) > 8:  # what is encrypted, and how many of the rest
            rest = {kind: sum(i.kind == kind for i in taken.values()) for kind in ("plaintext", "scalar")}
            shown = sorted(name for name, i in taken.items() if i.kind == "ciphertext")
            shown += [f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in rest.items() if count]
        return (
            f"<program of {self.instructions:,} instructions for {chips}: {', '.join(shown)} -> "
            f"{', '.join(self.outputs)}; {len(self.keys)} evaluation keys>"
        )


def _number(value: Any, what: str) -> float:
    """A real number as a float. Raises DtypeError, PlaintextRangeError for integers beyond floats."""
    if not is_real(value):
        raise _core.DtypeError(f"{what} must be a real number, not {described(value)}")
    try:
        return float(value)
    except OverflowError:
        raise _core.PlaintextRangeError(f"{what} is too large: no float holds it") from None


def _scales(given: Mapping[str, float] | None) -> dict[str, float]:
    """By name. Raises DtypeError."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise _core.DtypeError(f"scales must be numbers by name, not {described(given)}")
    return {str(name): real(scale, f"the scale of {name}") for name, scale in given.items()}


def _listed_scales(scales: Mapping[str, float]) -> str:
    """Names by their scales, in bits; of many of one scale the first few."""
    alike: dict[str, list[str]] = {}
    for name, scale in scales.items():
        alike.setdefault(f"2^{math.log2(scale):.6g}", []).append(name)
    short = {
        scale: [*names[:6], f"and {len(names) - 6} more"] if len(names) > 8 else names for scale, names in alike.items()
    }
    return ", ".join(f"{' '.join(names)} {scale}" for scale, names in short.items()) or "none"


def _bytes_of(memory: Any) -> int:
    """Of memory, one at least."""
    given = whole(memory, "memory in bytes")
    if given < 1:
        raise _core.ParameterError(f"memory is one byte or more, not {given}")
    return given


class Runner(Shown):
    """A program with keys and constants (`Program.at`). Calls are safe from several threads, which take turns.

    >>> runner = program.at(server, {"one": 1})
    >>> secret.decrypt(runner(x=x)["y"])[:2].round(3), runner.calls
    (array([1.5, 2. ]), 1)
    """

    def __init__(self, program: Program, server: Server[Any], core: Any) -> None:
        self.program = program
        self.server = server
        self._core = core

    def __call__(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, Any]:
        """The results by name, of ciphertexts by name: of one shape, of degree 1, at the level that the program asks for or above.

        Results of a compiler's program have the noise and ranges that the same operations on tensors have, where its limbs can be read as
        such, and those of a written one its recording's, for operands within the recording's. Of others nothing is known: `precision` is None,
        `noise_budget` NaN. Raises ParameterError for names that the program does
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
        """Bytes of its devices' memory that it holds after the first run, keys and plaintexts not counted."""
        return int(self._core.bytes)

    @property
    def spilled(self) -> tuple[int, int, int]:
        """Bytes that it holds on the host for want of room on its devices, and that a run moves there and back; known after the first run."""
        return tuple(self._core.spilled)

    @property
    def calls(self) -> int:
        """Kernel calls of one run; known after the first."""
        return sum(self.kernels.values())

    @property
    def kernels(self) -> dict[str, int]:
        """How many of each kernel they are; known after the first run."""
        return dict(self._core.calls)

    @property
    def work(self) -> tuple[int, int, int]:
        """Bytes that they read and write, and their modular products; known after the first run."""
        return tuple(self._core.work)

    @property
    def scales(self) -> dict[str, float]:
        """The scales at which plaintexts and scalars were encoded, by name; known after the first run. None of a recording's."""
        return dict(self._core.scales)

    @property
    def devices(self) -> int:
        """Devices that its chips run on; known after the first run."""
        return int(self._core.devices)

    def _rows(self) -> Rows:
        rows = [("program", repr(self.program)), ("memory", readable_bytes(self.nbytes)), ("calls", f"{self.calls:,}")]
        held, out, back = map(readable_bytes, self.spilled)
        return [*rows, ("on the host", f"{held}; a run moves {out} there and {back} back")] if self.spilled[0] else rows
