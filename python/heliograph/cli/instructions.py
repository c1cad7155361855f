"""heliograph cinnamon: a folder's program of instructions on values, as owner and server in one process."""

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
from heliograph.cli import roles, screen

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
    """The whole command."""
    if out is not None:
        roles.require_absent([out], force)
    begin = time.perf_counter()
    program = hg.cinnamon.load(folder)
    screen.say(f"read and linked in {screen.seconds(time.perf_counter() - begin)}")
    given = _read(values, program) if values is not None else {}
    said = _scales(scales)
    parameters = program.parameters(n=n, insecure=True)
    screen.table("The program", ("", ""), program.explain_rows())
    screen.say(f"scales: {program.explain_rows(parameters, said)[-1][1]}")
    party = _Party(program, parameters, given, said, fixed=check)
    for run in range(runs):
        begin = time.perf_counter()
        results = party.run()
        party.wait(results)
        screen.say(f"run {run + 1}: {screen.seconds(time.perf_counter() - begin)}, {party.runner.calls:,} kernel calls")
    # A program's text says nothing of sizes: no bound can show that results fit.
    decrypted = {name: party.secret.decrypt(x, unchecked=True) for name, x in results.items()}
    rows = [(name, f"{results[name].level}", _shown(v)) for name, v in decrypted.items()]
    screen.table("Results", ("name", "level", "first values"), rows)
    if check:
        plain = _Party(program, parameters, given, said, fixed=True, device="ref").run()
        if any(results[name].to_bytes() != plain[name].to_bytes() for name in results):
            raise roles.CommandError("the results are not those of plain scalar code")
        screen.say("the results are those of plain scalar code, bit by bit")
    if out is not None:
        with out.open("wb") as file:
            np.savez(file, **decrypted)


def _shown(values: Any) -> str:
    return " ".join(f"{v:.5g}" for v in values[:4]) + (" ..." if len(values) > 4 else "")


def _read(path: Path, program: Any) -> dict[str, Any]:
    """The arrays of an .npz file by name, each of the kind and shape of what the program takes. Raises OSError, CommandError."""
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("it holds one array without a name; numpy.savez writes arrays by name")
        with file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise roles.CommandError(f"cannot read values: {path} must be an .npz file of numeric arrays: {error}") from error
    return {name: _value(array, name, program) for name, array in arrays.items()}


def _value(array: Any, name: str, program: Any) -> Any:
    """What the program takes by that name. Raises CommandError."""
    item = program.inputs.get(name)
    if item is None:
        raise roles.CommandError(f"the program takes no {name}; it takes {', '.join(program.inputs)}")
    axes = 0 if item.kind == "scalar" else 1
    kinds = "iuf" if item.kind == "scalar" else "iufcb"
    if array.dtype.kind not in kinds or array.ndim != axes or not np.all(np.isfinite(array)):
        wanted = "a finite real number, an array of no axis" if item.kind == "scalar" else "finite numbers on one axis"
        raise roles.CommandError(
            f"cannot take {name}: a {item.kind} must be {wanted}, got {array.dtype} of shape {array.shape}"
        )
    return array


def _scales(texts: Sequence[str]) -> dict[str, float]:
    """Of options NAME=BITS. Raises CommandError."""
    scales = {}
    for text in texts:
        name, sign, bits = text.rpartition("=")
        try:
            scales[name] = 2.0 ** float(bits)
        except (ValueError, OverflowError):
            sign = ""
        if not sign or not name or not math.isfinite(scales[name]):
            raise roles.CommandError(f"cannot take a scale: --scale must be NAME=BITS, such as w=27.8, got {text}")
    return scales


class _Party:
    """Keys for a program, and what it takes: given values, and random ones for the rest."""

    def __init__(
        self, program: Any, parameters: Any, given: dict[str, Any], scales: dict[str, float], fixed: bool, device: str = ""
    ) -> None:
        if device:
            parameters = hg.ckks.Parameters(parameters._core.on_device(device))
        if fixed:  # for comparing bits
            self.secret: Any = hg.ckks.SecretKey(hg._core.CkksSecretKey.generate_for_test(parameters._core, _SEED))
        else:
            self.secret = hg.SecretKey.generate(parameters)
        server = hg.Server(self.secret.evaluation_keys(relinearize=False, cinnamon=program))
        rng = np.random.default_rng(1)
        constants: dict[str, Any] = {}
        self.inputs: dict[str, Any] = {}
        for name, item in program.inputs.items():
            drawn = rng.uniform(-1, 1, parameters.slots) if item.kind != "scalar" else rng.uniform(-1, 1)
            value = given.get(name, drawn)
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
