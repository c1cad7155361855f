"""heliograph cinnamon: a folder's program of instructions on values, as owner and server in one process."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from heliograph.cli import roles, screen

_SEED = bytes(range(64, 96))


def run(folder: Path, n: int, values: Path | None, out: Path | None, runs: int, check: bool, force: bool) -> None:
    """The whole command."""
    if out is not None:
        roles.require_absent([out], force)
    begin = time.perf_counter()
    program = hg.cinnamon.load(folder)
    screen.say(f"read and linked in {screen.seconds(time.perf_counter() - begin)}")
    screen.table("The program", ("", ""), program.explain_rows())
    given = _read(values) if values is not None else {}
    party = _Party(program, n, given, fixed=check)
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
        plain = _Party(program, n, given, fixed=True, device="ref").run()
        if any(results[name].to_bytes() != plain[name].to_bytes() for name in results):
            raise roles.CommandError("the results are not those of plain scalar code")
        screen.say("the results are those of plain scalar code, bit by bit")
    if out is not None:
        with out.open("wb") as file:
            np.savez(file, **decrypted)


def _shown(values: Any) -> str:
    return " ".join(f"{v:.5g}" for v in values[:4]) + (" ..." if len(values) > 4 else "")


def _read(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, AttributeError, EOFError) as error:
        raise roles.CommandError(f"{path} is no .npz file of arrays: {error}") from error


class _Party:
    """Keys for a program, and what it takes: given values, and random ones for the rest."""

    def __init__(self, program: Any, n: int, given: dict[str, Any], fixed: bool, device: str = "") -> None:
        parameters = program.parameters(n=n, insecure=True)
        if device:
            parameters = hg.ckks.Parameters(parameters._core.on_device(device))
        if fixed:  # for comparing bits
            self.secret: Any = hg.ckks.SecretKey(hg._core.CkksSecretKey.generate_for_test(parameters._core, _SEED))
        else:
            self.secret = hg.SecretKey.generate(parameters)
        unknown = sorted(set(given) - set(program.inputs))
        if unknown:
            raise roles.CommandError(f"the program takes no {', '.join(unknown)}")
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
        self.runner = program.at(server, constants)

    def run(self) -> dict[str, Any]:
        results: dict[str, Any] = self.runner(self.inputs)
        return results

    def wait(self, results: dict[str, Any]) -> None:
        for x in results.values():
            x._core.wait()
