"""heliograph cinnamon: runs a folder's program of instructions on values, as owner and server in one process."""

from __future__ import annotations

import math
import time
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from heliograph.cli import terminal, workflow

_SEED = bytes(range(64, 96))


def run(
    folder: Path,
    n: int,
    values: Path | None,
    out: Path | None,
    runs: int,
    check: bool,
    force: bool,
    scales: Sequence[str] = (),
) -> None:
    """Runs the command."""
    if out is not None:
        workflow.require_absent([out], force)
    begin = time.perf_counter()
    program = hg.cinnamon.load(folder)
    terminal.say(f"read and linked in {terminal.seconds(time.perf_counter() - begin)}")
    input_values = _read(values, program) if values is not None else {}
    scale_values = _scales(scales)
    parameters = program.parameters(n=n, insecure=True)
    terminal.table("The program", ("", ""), program.explain_rows())
    terminal.say(f"scales: {program.explain_rows(parameters, scale_values)[-1][1]}")
    party = _Party(program, parameters, input_values, scale_values, fixed=check)
    for run in range(runs):
        begin = time.perf_counter()
        results = party.run()
        party.wait(results)
        terminal.say(f"run {run + 1}: {terminal.seconds(time.perf_counter() - begin)}, {party.runner.calls:,} kernel calls")
    # A program does not bound its values, so no bound can prove that results fit: unchecked.
    decrypted = {name: party.secret.decrypt(x, unchecked=True) for name, x in results.items()}
    rows = [(name, f"{results[name].level}", _first_values(v)) for name, v in decrypted.items()]
    terminal.table("Results", ("name", "level", "first values"), rows)
    if check:
        plain = _Party(program, parameters, input_values, scale_values, fixed=True, device="ref").run()
        if any(results[name].to_bytes() != plain[name].to_bytes() for name in results):
            raise workflow.CommandError("the results differ from those of plain scalar code; report this, with the program")
        terminal.say("the results equal those of plain scalar code, bit by bit")
    if out is not None:
        with out.open("wb") as file:
            np.savez(file, **decrypted)


def _first_values(values: Any) -> str:
    return " ".join(f"{v:.5g}" for v in values[:4]) + (" ..." if len(values) > 4 else "")


def _read(path: Path, program: Any) -> dict[str, Any]:
    """Reads the arrays of an .npz file by name; checks them by the program's inputs. Raises OSError, CommandError."""
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("it holds one array without a name; numpy.savez writes arrays by name")
        with file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise workflow.CommandError(f"cannot read values: {path} must be an .npz file of numeric arrays: {error}") from error
    return {name: _value(array, name, program) for name, array in arrays.items()}


def _value(array: Any, name: str, program: Any) -> Any:
    """Checks an array against the program's input of that name. Raises CommandError."""
    item = program.inputs.get(name)
    if item is None:
        raise workflow.CommandError(f"the program has no input {name}; its inputs are {', '.join(program.inputs)}")
    axes = 0 if item.kind == "scalar" else 1
    kinds = "iuf" if item.kind == "scalar" else "iufcb"
    if array.dtype.kind not in kinds or array.ndim != axes or not np.all(np.isfinite(array)):
        expected = "a finite real number, an array of no axis" if item.kind == "scalar" else "finite numbers on one axis"
        raise workflow.CommandError(
            f"cannot take {name}: a {item.kind} must be {expected}, got {array.dtype} of shape {array.shape}"
        )
    return array


def _scales(texts: Sequence[str]) -> dict[str, float]:
    """Parses options NAME=BITS. Raises CommandError."""
    scales = {}
    for text in texts:
        name, sign, bits = text.rpartition("=")
        try:
            scales[name] = 2.0 ** float(bits)
        except (ValueError, OverflowError):
            sign = ""
        if not sign or not name or not math.isfinite(scales[name]):
            raise workflow.CommandError(f"--scale must be NAME=BITS, such as w=27.8, got {text}")
    return scales


class _Party:
    """Keys and inputs for a program: given values, and random values for the other inputs."""

    def __init__(
        self, program: Any, parameters: Any, inputs: dict[str, Any], scales: dict[str, float], fixed: bool, device: str = ""
    ) -> None:
        if device:
            parameters = hg.ckks.Parameters(parameters._core.on_device(device))
        if fixed:  # fixed keys, so that results can be compared bit by bit
            self.secret: Any = hg.ckks.SecretKey(hg._core.ckks.SecretKey.generate_for_test(parameters._core, _SEED))
        else:
            self.secret = hg.SecretKey.generate(parameters)
        server = hg.Server(self.secret.evaluation_keys(relinearize=False, cinnamon=program))
        rng = np.random.default_rng(1)
        constants: dict[str, Any] = {}
        self.inputs: dict[str, Any] = {}
        for name, item in program.inputs.items():
            default = rng.uniform(-1, 1, parameters.slots) if item.kind != "scalar" else rng.uniform(-1, 1)
            value = inputs.get(name, default)
            if item.kind == "ciphertext":
                self.inputs[name] = server.bind(self.secret.encrypt(value, level=item.level, pad=True))
            else:
                constants[name] = float(value) if item.kind == "scalar" else value
        self.runner = program.at(server, constants, scales=scales)

    def run(self) -> dict[str, Any]:
        results: dict[str, Any] = self.runner(self.inputs)
        return results

    def wait(self, results: dict[str, Any]) -> None:
        for x in results.values():
            x._core.wait()
