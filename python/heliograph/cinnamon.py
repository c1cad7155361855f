"""Programs of single limbs in the Cinnamon instruction set, on tensors of CKKS and BGV (docs/cinnamon.md).

`load` reads the folder of the public Cinnamon compiler: a stream of instructions for each chip, and lists of inputs and
outputs. `write` converts a recorded program of CKKS or BGV to instructions. Programs run on the devices that Heliograph
found; chips share devices if there are fewer.

The examples of this module's functions continue this example, which doubles a ciphertext of one limb and adds a number to
it.

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

A recorded program, which is then written as instructions:

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
from heliograph._common.arguments import complexes, count_of, described, flag, is_real, path_of, readable_bytes, real, whole
from heliograph._common.html import HtmlRepr, Rows
from heliograph._common.operations import composite
from heliograph._common.tensor import Tensor
from heliograph.ckks.parameters import Parameters
from heliograph.ckks.tensor import Plaintext
from heliograph.keys import Server
from heliograph.programs.program import Program as Recorded

__all__ = ["Constants", "Item", "Program", "Runner", "load", "write"]


@dataclass(frozen=True)
class Item:
    """An input or output of a program: its kind ("ciphertext", "plaintext" or "scalar") and its level. For an input, the
    level is the lowest allowed.

    >>> program.outputs["y"]
    Item(kind='ciphertext', level=1)
    """

    kind: str
    level: int


def load(folder: Any) -> Program:
    """Reads the program in a compiler's folder. Raises OSError, and InstructionError, which names file, line and word.

    >>> hg.cinnamon.load("no/such/folder")
    Traceback (most recent call last):
        ...
    FileNotFoundError: [Errno 2] cannot read 'no/such/folder': No such file or directory
    """
    return Program(_core.cinnamon.load(path_of(folder)))


class Constants:
    """The constants of a program written from a recording (`Program.constants`): plaintexts, scalars and scales of results.

    Constants belong to the program's text. A program that was parsed from the text runs with the constants.

    >>> written = hg.cinnamon.write(turned)
    >>> again = hg.cinnamon.Program.parse(written.files())
    >>> owner.decrypt(again.at(party, written.constants)(z=z)["y"]).round(4)[:2]
    array([0.75, 0.75])
    """

    def __init__(self, core: Any) -> None:
        if not isinstance(core, _core.cinnamon.Constants):
            raise _core.DtypeError(
                f"hg.cinnamon.write makes constants of a recording; they are not made of {described(core)}"
            )
        self._core = core


def write(
    program: Recorded,
    *,
    chips: int = 1,
    switching: str = "broadcast",
    inputs: Sequence[str] | None = None,
    results: Sequence[str] | None = None,
) -> Program:
    """Writes a recorded program's last used recording as instructions of single limbs, for one or several chips.

    Limb l is on chip l modulo the number of chips. Several chips switch keys in one of three ways, `switching`:

    - "broadcast" sends the input's limbs to all chips, and each chip raises them to its own limbs.
    - "sum" raises each chip's digits to all limbs and adds the products of all chips before the division.
    - "aggregate" adds the products after the division; each chip rounds, so the bits differ from the recorded program's.

    The result runs with the keys of the recorded function (`Program.at`, `Program.run`). `inputs` and `results` name the
    tensors, by default with the function's parameters, and y, or y0, y1, ... Each ciphertext of a tensor with several has a
    name of its own, "x.0", "x.1".

    Raises RecordingError without a recording, and ParameterError for programs outside the instruction set: schemes other
    than CKKS and BGV, several plaintext moduli, sets of more than 64 primes or with levels that are not a prefix of the
    primes, ciphertexts of degree 2.

    >>> written = hg.cinnamon.write(turned, chips=2)
    >>> written.chips, written.outputs
    (2, {'y': Item(kind='ciphertext', level=4)})
    >>> owner.decrypt(written.run(party, z=z)["y"]).round(4)[:2]
    array([0.75, 0.75])
    """
    if not isinstance(program, Recorded):
        raise _core.DtypeError(f"hg.cinnamon.write takes a recorded program (hg.program), not {described(program)}")
    core, result_count = program._last_recording()
    if inputs is None:
        inputs = program._operand_names()
    if results is None:
        results = ["y"] if result_count == 1 else [f"y{i}" for i in range(result_count)]
    core_program, constants = _core.cinnamon.write(
        core, count_of(chips, "chips"), str(switching), [str(n) for n in inputs], [str(n) for n in results]
    )
    return Program(core_program, Constants(constants))


class Program(HtmlRepr):
    """A program of instructions. A program is immutable.

    >>> program
    <program of 8 instructions for 1 chip: one, x -> y; 0 evaluation keys>
    >>> program.inputs, program.counts["load"]
    ({'x': Item(kind='ciphertext', level=1), 'one': Item(kind='scalar', level=1)}, 2)
    """

    def __init__(self, core: Any, constants: Constants | None = None) -> None:
        if not isinstance(core, _core.cinnamon.Program):
            raise _core.DtypeError(
                "hg.cinnamon.load, hg.cinnamon.write and Program.parse make programs of instructions; they are not made of "
                f"{described(core)}"
            )
        self._core = core
        self.constants = constants  #: constants of a program written from a recording, else None
        self._last: tuple[Any, Any, Runner] | None = None
        self._lock = threading.Lock()

    @staticmethod
    def parse(files: Mapping[str, str]) -> Program:
        """Parses texts, by the names of their files. Raises InstructionError.

        >>> texts = program.files()
        >>> texts["instructions0"] = texts["instructions0"].replace("add r3", "sum r3")
        >>> hg.cinnamon.Program.parse(texts)
        Traceback (most recent call last):
            ...
        heliograph._core.InstructionError: instructions0:8: sum: there is no such instruction
        """
        return Program(_core.cinnamon.parse([(str(name), str(text)) for name, text in files.items()]))

    def files(self) -> dict[str, str]:
        """Returns the program's texts, by the names of their files.

        >>> program.files()["instructions0"].splitlines()[3]
        'add r4: r0, r0[X] | 0'
        """
        return dict(self._core.files())

    def save(self, folder: Any) -> None:
        """Writes the texts into a folder, which is created if necessary. Raises OSError.

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
        """Number of chips: streams of instructions."""
        return int(self._core.chips)

    @property
    def instructions(self) -> int:
        """Number of instructions in all streams."""
        return int(self._core.instructions)

    @property
    def counts(self) -> dict[str, int]:
        """Number of instructions by name."""
        return dict(self._core.counts)

    @property
    def inputs(self) -> dict[str, Item]:
        """The inputs, by name."""
        return {name: Item(kind, level) for name, kind, level in self._core.inputs}

    @property
    def outputs(self) -> dict[str, Item]:
        """The output ciphertexts, by name."""
        return {name: Item(kind, level) for name, kind, level in self._core.outputs}

    @property
    def keys(self) -> list[str]:
        """Names of the evaluation keys that the program needs; ``secret.evaluation_keys(cinnamon=program)`` makes them.

        A name is "K:type:level:extension:steps:[digit][digit]". Types 0, 1 and 2 are relinearization, rotation and
        conjugation. Type 3 raises the modulus without an ephemeral secret. Type 4 switches to an ephemeral secret; type 5
        switches back from this secret after the modulus was raised.
        """
        return list(self._core.keys)

    @property
    def levels(self) -> int:
        """Number of chain primes that the program needs, one for each level."""
        return int(self._core.levels)

    @property
    def special(self) -> int:
        """Number of special primes that the program's keys need."""
        return int(self._core.special)

    def parameters(self, *, n: int, bits: float = 27.8, insecure: bool = False) -> Parameters:
        """Returns a set for the program: one prime of about `bits` bits for each level, in 32-bit words.

        Raises DtypeError, ParameterError, SecurityError.

        >>> program.parameters(n=2**12)
        <CKKS parameters: N=2^12, log q 30, 0 multiplications, scale 2^27.8, 2,048 slots, 128-bit, w32>
        """
        if not is_real(bits):
            raise _core.DtypeError(f"bits must be a number, not {described(bits)}")
        spec = self._core.spec(count_of(n, "n"), float(bits), flag(insecure, "insecure"))
        return Parameters(_core.ckks.Parameters(spec))

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
        """Prepares the program with a server's keys and its constants, for repeated runs: ``runner(x=x)``.

        `constants` are plaintexts and scalars by name. A plaintext is an array of values, which are encoded at the scale
        that the program needs, or a `hg.ckks.Plaintext`. A program written from a recording has its own constants (`write`);
        pass these `Constants` to a program that was parsed from its text.

        `scales` sets the scales of plaintexts and scalars by name. Scales are tracked through the program, and summands must
        have the same scale up to the relative `tolerance`, which is also the relative error of such a sum.

        `devices` are names of devices that run chips in turn, after the server's own: ``["cuda:1"]``. On a mesh, chips run
        on its members.

        `memory` is the maximum bytes of intermediate values on each device, without keys and inputs; None: the free memory.
        Values that do not fit are spilled to the host's memory and back (`Runner.spilled`), each at most once, and no graph
        is used.

        Options for measurements:

        - `fuse`: computes element-wise instructions between two transforms as one sum.
        - `merge`: computes independent instructions of one kind in one call.
        - `graph`: replays a graph from the second run on, if the device has graphs: with parallel "branches", as one
          "stream", or None for no graph.
        - `hints`: marks keys and plaintexts as read once, for a GPU's cache.

        Raises MissingKeyError, ParameterError, DtypeError. The first run raises ScaleError and PlaintextRangeError, which
        name the line, and OutOfMemoryError if values that are needed at once do not fit `memory`.

        >>> runner = program.at(server, {"one": 1.0})
        >>> y = runner(x=x)["y"]
        >>> y.level, y.scale == program.parameters(n=2**12).scale(1)
        (1, True)
        """
        if not isinstance(server, Server):
            raise _core.DtypeError(f"a program runs at a hg.Server, not at {described(server)}")
        recorded = constants if isinstance(constants, Constants) else None if constants else self.constants
        if isinstance(constants, Constants):
            constants = None
        plaintexts, values, scalars = {}, {}, {}
        kinds = self.inputs
        for name, value in (constants or {}).items():
            kind = kinds[name].kind if name in kinds else None
            if kind == "scalar":
                scalars[name] = _number(value, f"the scalar {name}")
            elif kind != "plaintext":
                names = ", ".join(n for n, item in kinds.items() if item.kind != "ciphertext") or "none"
                raise _core.ParameterError(
                    f"the program takes no plaintext or scalar of the name {name}; its plaintexts and scalars are {names}"
                )
            elif isinstance(value, Plaintext):
                plaintexts[name] = value._core
            else:
                values[name] = complexes(value, f"the values of {name}")
        return Runner(
            self,
            server,
            _core.cinnamon.Runner(
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
        """Returns the scales of the program's plaintexts and scalars, if ciphertexts have the scales of their levels.

        Scales that are not `given` follow from the program: summands have the same scale, and a quotient has its level's.
        Raises ScaleError, which names the line, for sums of different scales and for scales below 1.

        >>> params = program.parameters(n=2**12)
        >>> program.scales(params)["one"] == params.scale(1)
        True
        """
        if not isinstance(parameters, Parameters):
            raise _core.DtypeError(f"parameters must be those of CKKS, not {described(parameters)}")
        return dict(self._core.scales(parameters._core, _scales(given), real(tolerance, "tolerance")))

    def run(self, server: Server[Any], inputs: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, Any]:
        """Runs the program on ciphertexts, plaintexts and scalars by name, and returns the results by name.

        Consecutive calls with the same server and constants share one `Runner`; `at` makes a `Runner` for repeated runs.
        Raises as `at` and `Runner`.

        >>> secret.decrypt(program.run(server, x=x, one=1)["y"])[:2].round(3)
        array([1.5, 2. ])
        """
        operands = {**(inputs or {}), **named}
        constants = {name: value for name, value in operands.items() if not isinstance(value, Tensor)}
        with self._lock:
            last = self._last
        same = (
            last is not None
            and last[0] is server
            and last[1].keys() == constants.keys()
            and all(last[1][name] is value for name, value in constants.items() if not is_real(value))
            and all(last[1][name] == value for name, value in constants.items() if is_real(value))
            and not any(isinstance(value, np.ndarray) for value in constants.values())  # arrays may have changed in place
        )
        runner = last[2] if same and last is not None else self.at(server, constants)
        with self._lock:
            self._last = (server, constants, runner)
        return runner({name: value for name, value in operands.items() if isinstance(value, Tensor)})

    def explain_rows(self, parameters: Parameters | None = None, scales: Mapping[str, float] | None = None) -> Rows:
        """Returns the lines of `explain` as (label, text).

        >>> program.explain_rows()[0]
        ('chips', '1')
        """
        inputs = self.inputs
        listed = [f"{name} ({i.kind}, level {i.level})" for name, i in inputs.items()]
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
        """Describes inputs, outputs, instructions and keys as text; with parameters also the `scales`. Raises the errors of
        `scales`.

        >>> print(program.explain(program.parameters(n=2**12)).splitlines()[-1])
        scales           one 2^27.8
        """
        rows = self.explain_rows(parameters, scales)
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:{width}}  {text}" for name, text in rows)

    def __repr__(self) -> str:
        chips = f"{self.chips} chip" + ("s" if self.chips != 1 else "")
        inputs = self.inputs
        names = sorted(inputs)
        if len(names) > 8:  # names of ciphertexts, and the numbers of plaintexts and scalars
            rest = {kind: sum(i.kind == kind for i in inputs.values()) for kind in ("plaintext", "scalar")}
            names = sorted(name for name, i in inputs.items() if i.kind == "ciphertext")
            names += [f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in rest.items() if count]
        return (
            f"<program of {self.instructions:,} instructions for {chips}: {', '.join(names)} -> "
            f"{', '.join(self.outputs)}; {len(self.keys)} evaluation keys>"
        )


def _number(value: Any, what: str) -> float:
    """Returns a real number as a float. Raises DtypeError, PlaintextRangeError for integers beyond floats."""
    if not is_real(value):
        raise _core.DtypeError(f"{what} must be a real number, not {described(value)}")
    try:
        return float(value)
    except OverflowError:
        raise _core.PlaintextRangeError(f"{what} must be at most the largest float, 1.8e308") from None


def _scales(scales: Mapping[str, float] | None) -> dict[str, float]:
    """Returns scales by name as floats. Raises DtypeError."""
    if scales is None:
        return {}
    if not isinstance(scales, Mapping):
        raise _core.DtypeError(f"scales must be numbers by name, not {described(scales)}")
    return {str(name): real(scale, f"the scale of {name}") for name, scale in scales.items()}


def _listed_scales(scales: Mapping[str, float]) -> str:
    """Formats names grouped by scale, at most the first six of each."""
    alike: dict[str, list[str]] = {}
    for name, scale in scales.items():
        alike.setdefault(f"2^{math.log2(scale):.6g}", []).append(name)
    short = {
        scale: [*names[:6], f"and {len(names) - 6} more"] if len(names) > 8 else names for scale, names in alike.items()
    }
    return ", ".join(f"{' '.join(names)} {scale}" for scale, names in short.items()) or "none"


def _bytes_of(memory: Any) -> int:
    """Returns a number of bytes. Raises DtypeError, ParameterError unless the number is at least 1."""
    size = whole(memory, "memory in bytes")
    if size < 1:
        raise _core.ParameterError(f"memory must be at least 1 byte, not {size}")
    return size


class Runner(HtmlRepr):
    """A program with keys and constants, made by `Program.at`. Threads may call the program concurrently; the calls are
    serialized.

    >>> runner = program.at(server, {"one": 1})
    >>> secret.decrypt(runner(x=x)["y"])[:2].round(3), runner.calls
    (array([1.5, 2. ]), 1)
    """

    def __init__(self, program: Program, server: Server[Any], core: Any) -> None:
        self.program = program
        self.server = server
        self._core = core

    @composite
    def __call__(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, Any]:
        """Runs the program on ciphertexts by name and returns the results by name.

        The ciphertexts must have the same shape and degree 1, and at least the level of the input. The noise and ranges of
        results are those of the same operations on tensors, if the program's limbs can be interpreted as ciphertext
        operations. For a program written from a recording, the noise and ranges are the recording's, for operands within the
        recorded noise and ranges. In other cases the noise and ranges are unknown: `precision` is None and `noise_budget`
        NaN.

        Raises DtypeError, ParameterError for unknown names, LevelError, ShapeError, ScaleError, WrongKeyError,
        MismatchError, OutOfMemoryError, and RecordingError inside a recorded function.
        """
        operands = {**(inputs or {}), **named}
        for name, x in operands.items():
            if not isinstance(x, Tensor):
                raise _core.DtypeError(f"{name} must be a tensor, not {described(x)}")
        results = self._core({name: x._core for name, x in operands.items()})
        return {name: Tensor(core, self.server.keys) for name, core in results.items()}

    def __repr__(self) -> str:
        return f"<{self.program!r} at {self.server!r}>"

    @property
    def nbytes(self) -> int:
        """Bytes of device memory that the runner holds after the first run, without keys and plaintexts."""
        return int(self._core.bytes)

    @property
    def spilled(self) -> tuple[int, int, int]:
        """Bytes held on the host for lack of device memory, and bytes that a run moves to the host and back; known after the
        first run.

        """
        return tuple(self._core.spilled)

    @property
    def calls(self) -> int:
        """Number of kernel calls of one run; known after the first run."""
        return sum(self.kernels.values())

    @property
    def kernels(self) -> dict[str, int]:
        """Number of calls of each kernel in one run; known after the first run."""
        return dict(self._core.calls)

    @property
    def work(self) -> tuple[int, int, int]:
        """Bytes read, bytes written and modular products of one run; known after the first run."""
        return tuple(self._core.work)

    @property
    def scales(self) -> dict[str, float]:
        """Scales of encoded plaintexts and scalars, by name, without the constants of a recording; known after the first
        run.

        """
        return dict(self._core.scales)

    @property
    def devices(self) -> int:
        """Number of devices that execute the program's chips. The number is known after the first run."""
        return int(self._core.devices)

    def _rows(self) -> Rows:
        rows = [("program", repr(self.program)), ("memory", readable_bytes(self.nbytes)), ("calls", f"{self.calls:,}")]
        resident, out, back = map(readable_bytes, self.spilled)
        return [*rows, ("on the host", f"{resident}; a run moves {out} there and {back} back")] if self.spilled[0] else rows
