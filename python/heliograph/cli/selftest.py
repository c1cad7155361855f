"""heliograph selftest: compares the results of the device in use bit by bit with the reference device.

TFHE's bootstraps have a tolerance and are compared by their decrypted results.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from rich.text import Text

import heliograph as hg
from heliograph import _core
from heliograph._common.arguments import Int64Array
from heliograph.cli import selftest_ckks, selftest_tfhe, terminal, trials, workflow
from heliograph.cli.trials import Row, difference, run_steps

_SEED = bytes(range(32))
_STEPS = [1, -3]


@dataclass(frozen=True)
class Trial:
    """A parameter set made only for the test, and the number of ciphertexts."""

    n: int
    log_q: int
    special: int
    word_size: int
    items: int
    plain_moduli: int = 1
    scheme: str = "bfv"

    @property
    def title(self) -> str:
        """The title in the table."""
        scheme = "" if self.scheme == "bfv" else f" {self.scheme.upper()}"
        return f"2^{self.n.bit_length() - 1} w{self.word_size}{scheme}"

    def spec(self) -> _core.exact.Spec:
        """Returns the set's numbers."""
        moduli = _core.exact.batching_primes(self.n, 30, self.plain_moduli)
        return _core.exact.make_spec(self.n, self.log_q, self.special, moduli, self.word_size, 0, True, self.scheme)


QUICK = (
    Trial(1024, 130, 1, 64, 12, plain_moduli=2),
    Trial(2048, 110, 2, 32, 12, plain_moduli=2),
    Trial(1 << 15, 300, 3, 64, 1),
    Trial(1024, 190, 1, 64, 12, plain_moduli=2, scheme="bgv"),
    Trial(2048, 170, 2, 32, 12, scheme="bgv"),
)
ALL = (
    *QUICK[:2],
    Trial(4096, 190, 2, 64, 17),
    Trial(4096, 168, 2, 32, 17),
    Trial(8192, 187, 0, 64, 5),
    Trial(8192, 180, 1, 32, 5),
    Trial(1 << 14, 330, 2, 64, 4),
    Trial(1 << 14, 330, 3, 32, 4),
    Trial(1 << 15, 600, 4, 64, 1),
    Trial(1 << 15, 600, 5, 32, 1),
    Trial(1 << 16, 600, 4, 64, 1),
    Trial(1 << 16, 600, 5, 32, 1),
    *QUICK[3:],
    Trial(8192, 218, 0, 64, 5, scheme="bgv"),
    Trial(1 << 14, 270, 3, 64, 4, scheme="bgv"),
    Trial(1 << 15, 550, 6, 64, 1, scheme="bgv"),
    Trial(1 << 15, 550, 10, 32, 1, scheme="bgv"),
)


class ExactFixture(trials.Fixture[hg.bfv.Tensor]):
    """Keys and operands from fixed seeds."""

    def __init__(self, trial: Trial, device: str | None) -> None:
        core = _core.exact.Parameters(trial.spec())
        parameters = hg.bfv.Parameters(core.on_device(device) if device else core)
        rng = np.random.default_rng(trial.n)
        self.clear = [rng.integers(-9, 10, (trial.items, trial.n)) for _ in range(2)]
        self.plain_values: Int64Array = rng.integers(-9, 10, trial.n)
        self.weights: Int64Array = rng.integers(-300, 301, (3, trial.items))
        self.long_weights: Int64Array = rng.integers(-(1 << 28), 1 << 28, (2, trial.items))
        self.kernel: Int64Array = rng.integers(-300, 301, (2, 1, 1, 1) if trial.items < 9 else (2, 1, 3, 3))
        secret = hg.bfv.SecretKey(_core.exact.SecretKey.generate_for_test(parameters._core, _SEED))
        super().__init__(secret, self.clear, rotations=_STEPS, columns=True)
        self.plain = self.server.encode(self.plain_values)
        self.product = self.x * self.y

    def picture(self) -> hg.bfv.Tensor:
        """Returns the largest square of ciphertexts."""
        side = math.isqrt(self.x.size)
        return self.x[: side * side].reshape(1, side, side)


Operation = Callable[[ExactFixture], hg.bfv.Tensor]
OPERATIONS: dict[str, Operation] = {
    "add": lambda s: s.x + s.y,
    "multiply": lambda s: s.x * s.y,
    "square": lambda s: hg.square(s.x),
    "relinearize": lambda s: hg.relinearize(s.product),
    "multiply by plaintexts": lambda s: s.x * s.plain + s.plain,
    "rotate": lambda s: hg.rotate_rows(s.x, _STEPS),
    "exchange rows": lambda s: hg.rotate_columns(s.x),
    "matmul": lambda s: hg.matmul(s.weights, s.product, np.arange(3)),
    "matmul, 28-bit weights": lambda s: hg.matmul(s.long_weights, s.x),
    "conv2d": lambda s: hg.conv2d(s.picture(), s.kernel, padding=(s.kernel.shape[-1] - 1) // 2),
    "shrink": lambda s: hg.shrink(hg.relinearize(s.product)),
}


def _compare(run: Operation, mine: ExactFixture, reference: ExactFixture) -> tuple[float, str]:
    """Computes twice on the device (the first call prepares) and once on the reference, and compares."""
    first = run(mine)
    first.wait()
    start = time.perf_counter()
    result = run(mine)
    result.wait()
    spent = time.perf_counter() - start
    result_bytes, reference_bytes = result.to_bytes(), run(reference).to_bytes()
    if fault := difference(result_bytes, reference_bytes):
        return spent, fault
    return spent, difference(first.to_bytes(), reference_bytes) and "two calls gave two results"


def _decrypted(mine: ExactFixture, reference: ExactFixture) -> tuple[float, str]:
    """Compares both decrypted results with each other and with the true products."""
    start = time.perf_counter()
    values = mine.secret.decrypt(mine.product)
    spent = time.perf_counter() - start
    if not np.array_equal(values, reference.secret.decrypt(reference.product)):
        return spent, "decrypts to other values"
    return spent, "" if np.array_equal(values, mine.clear[0] * mine.clear[1]) else "the products are wrong"


def run_trial(trial: Trial) -> Iterator[Row]:
    """Runs every operation of a trial, on the device in use and on the reference."""
    steps = {name: partial(_compare, run) for name, run in OPERATIONS.items()}
    return run_steps(trial, partial(ExactFixture, trial), {**steps, "decrypt": _decrypted})


class Words(NamedTuple):
    """Texts of a test: the progress bar, the table's column, and the verdicts for equal and for different results."""

    doing: str
    column: str
    good: str
    bad: str


_LIKE = Words("compare with ref", "like ref", "equal those of ref, bit by bit", "ARE NOT THOSE OF ref")
_RIGHT = Words("compute and decrypt", "right", "are right", "ARE WRONG")


def run(quick: bool) -> bool:
    """Runs the whole test and prints a table for each family of schemes. Returns whether every result was right."""
    device = _core.device.name()
    if device == "null":
        raise workflow.CommandError("cannot test the null device: it computes nothing; set HELIOGRAPH_DEVICE to another")
    for line in hg.devices():
        terminal.say(line)
    ckks, tfhe = selftest_ckks, selftest_tfhe
    equal = [
        _run_all(device, QUICK if quick else ALL, run_trial, _LIKE),
        _run_all(f"CKKS on {device}", ckks.QUICK if quick else ckks.ALL, ckks.run_trial, _LIKE),
        _run_all(f"TFHE on {device}", tfhe.QUICK if quick else tfhe.ALL, tfhe.run_trial, _RIGHT),
    ]
    return all(equal)


def _run_all(device: str, trials: Sequence[Any], run_one: Callable[[Any], Iterator[Row]], words: Words) -> bool:
    """Runs trials one after another."""
    start = time.perf_counter()
    rows: list[Row] = []
    with terminal.bar(words.doing) as progress:
        for index, trial in enumerate(trials):
            for row in run_one(trial):
                rows.append(row)
                progress(f"{row.trial} {row.operation}", index / len(trials))
    return _print_report(device, rows, time.perf_counter() - start, words)


def _print_report(device: str, rows: list[Row], spent: float, words: Words) -> bool:
    """Prints the rows as a table, the failures, and the verdict."""
    terminal.table("", ("ring", "operation", f"time on {device}", words.column), [_cells(row) for row in rows])
    failed = [row for row in rows if row.fault]
    for row in failed:
        terminal.say(f"{row.trial}, {row.operation}: {row.fault}", "red")
    took = f"in {terminal.seconds(spent)}"
    if failed:
        terminal.say(f"{device}: {len(failed)} OF {len(rows)} RESULTS {words.bad}; compared {took}", "bold red")
    else:
        terminal.say(f"{device}: all {len(rows)} results {words.good}; compared {took}", "bold green")
    return not failed


def _cells(row: Row) -> tuple[str | Text, ...]:
    verdict = Text("FAILED", style="bold red") if row.fault else Text("ok", style="green")
    return row.trial, row.operation, "-" if row.seconds is None else terminal.seconds(row.seconds), verdict
