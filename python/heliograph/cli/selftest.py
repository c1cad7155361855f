"""heliograph selftest: what the device in use computes, compared bit by bit with the reference device; TFHE's bootstraps, which
have a tolerance, by what they decrypt to.
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
from heliograph._arrays import Int64Array
from heliograph.cli import roles, screen, selftest_ckks, selftest_tfhe, sides
from heliograph.cli.sides import Row, difference, run_steps

_SEED = bytes(range(32))
_STEPS = [1, -3]


@dataclass(frozen=True)
class Trial:
    """A parameter set, made for the test alone, and how many ciphertexts to compute with."""

    n: int
    log_q: int
    special: int
    edition: str
    items: int
    plain_moduli: int = 1
    scheme: str = "bfv"

    @property
    def title(self) -> str:
        """For a table."""
        scheme = "" if self.scheme == "bfv" else f" {self.scheme.upper()}"
        return f"2^{self.n.bit_length() - 1} {self.edition}{scheme}"

    def spec(self) -> _core.Spec:
        """Its numbers."""
        moduli = _core.batching_primes(self.n, 30, self.plain_moduli)
        return _core.make_spec(self.n, self.log_q, self.special, moduli, self.edition, 0, True, self.scheme)


QUICK = (
    Trial(1024, 130, 1, "w64", 12, plain_moduli=2),
    Trial(2048, 110, 2, "w32", 12, plain_moduli=2),
    Trial(1 << 15, 300, 3, "w64", 1),
    Trial(1024, 190, 1, "w64", 12, plain_moduli=2, scheme="bgv"),
    Trial(2048, 170, 2, "w32", 12, scheme="bgv"),
)
ALL = (
    *QUICK[:2],
    Trial(4096, 190, 2, "w64", 17),
    Trial(4096, 168, 2, "w32", 17),
    Trial(8192, 187, 0, "w64", 5),
    Trial(8192, 180, 1, "w32", 5),
    Trial(1 << 14, 330, 2, "w64", 4),
    Trial(1 << 14, 330, 3, "w32", 4),
    Trial(1 << 15, 600, 4, "w64", 1),
    Trial(1 << 15, 600, 5, "w32", 1),
    Trial(1 << 16, 600, 4, "w64", 1),
    Trial(1 << 16, 600, 5, "w32", 1),
    *QUICK[3:],
    Trial(8192, 218, 0, "w64", 5, scheme="bgv"),
    Trial(1 << 14, 270, 3, "w64", 4, scheme="bgv"),
    Trial(1 << 15, 550, 6, "w64", 1, scheme="bgv"),
    Trial(1 << 15, 550, 10, "w32", 1, scheme="bgv"),
)


class Side(sides.Side[hg.bfv.Tensor]):
    """Keys and operands from fixed seeds."""

    def __init__(self, trial: Trial, device: str | None) -> None:
        core = _core.Parameters(trial.spec())
        parameters = hg.bfv.Parameters(core.on_device(device) if device else core)
        rng = np.random.default_rng(trial.n)
        self.clear = [rng.integers(-9, 10, (trial.items, trial.n)) for _ in range(2)]
        self.plain_values: Int64Array = rng.integers(-9, 10, trial.n)
        self.weights: Int64Array = rng.integers(-300, 301, (3, trial.items))
        self.long_weights: Int64Array = rng.integers(-(1 << 28), 1 << 28, (2, trial.items))
        self.kernel: Int64Array = rng.integers(-300, 301, (2, 1, 1, 1) if trial.items < 9 else (2, 1, 3, 3))
        secret = hg.bfv.SecretKey(_core.SecretKey.generate_for_test(parameters._core, _SEED))
        super().__init__(secret, self.clear, rotations=_STEPS, columns=True)
        self.plain = self.server.encode(self.plain_values)
        self.product = self.x * self.y

    def picture(self) -> hg.bfv.Tensor:
        """The largest square of ciphertexts."""
        side = math.isqrt(self.x.size)
        return self.x[: side * side].reshape(1, side, side)


Operation = Callable[[Side], hg.bfv.Tensor]
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


def _compare(run: Operation, mine: Side, reference: Side) -> tuple[float, str]:
    """Computed twice on the device (the first call prepares), once on the reference."""
    first = run(mine)
    first.wait()
    start = time.perf_counter()
    result = run(mine)
    result.wait()
    spent = time.perf_counter() - start
    found, expected = result.to_bytes(), run(reference).to_bytes()
    if fault := difference(found, expected):
        return spent, fault
    return spent, difference(first.to_bytes(), expected) and "two calls gave two results"


def _decrypted(mine: Side, reference: Side) -> tuple[float, str]:
    """Both must give the products, and not only the same."""
    start = time.perf_counter()
    values = mine.secret.decrypt(mine.product)
    spent = time.perf_counter() - start
    if not np.array_equal(values, reference.secret.decrypt(reference.product)):
        return spent, "decrypts to other values"
    return spent, "" if np.array_equal(values, mine.clear[0] * mine.clear[1]) else "the products are wrong"


def run_trial(trial: Trial) -> Iterator[Row]:
    """Every operation of a trial, on the device in use and on the reference."""
    steps = {name: partial(_compare, run) for name, run in OPERATIONS.items()}
    return run_steps(trial, partial(Side, trial), {**steps, "decrypt": _decrypted})


class Words(NamedTuple):
    """What is said of results: while they are compared, over them, and of all."""

    doing: str
    column: str
    good: str
    bad: str


_LIKE = Words("compare with ref", "like ref", "equal those of ref, bit by bit", "ARE NOT THOSE OF ref")
_RIGHT = Words("compute and decrypt", "right", "are right", "ARE WRONG")


def run(quick: bool) -> bool:
    """The whole test, told as a table for each family of schemes. Whether every result was right."""
    device = _core.device_name()
    if device == "null":
        raise roles.CommandError("the null device computes nothing; HELIOGRAPH_DEVICE chooses another")
    for line in hg.devices():
        screen.say(line)
    ckks, tfhe = selftest_ckks, selftest_tfhe
    equal = [
        _run_all(device, QUICK if quick else ALL, run_trial, _LIKE),
        _run_all(f"CKKS on {device}", ckks.QUICK if quick else ckks.ALL, ckks.run_trial, _LIKE),
        _run_all(f"TFHE on {device}", tfhe.QUICK if quick else tfhe.ALL, tfhe.run_trial, _RIGHT),
    ]
    return all(equal)


def _run_all(device: str, trials: Sequence[Any], run_one: Callable[[Any], Iterator[Row]], words: Words) -> bool:
    """Some trials, one after another."""
    start = time.perf_counter()
    rows: list[Row] = []
    with screen.bar(words.doing) as progress:
        for index, trial in enumerate(trials):
            for row in run_one(trial):
                rows.append(row)
                progress(f"{row.trial} {row.operation}", index / len(trials))
    return _tell(device, rows, time.perf_counter() - start, words)


def _tell(device: str, rows: list[Row], spent: float, words: Words) -> bool:
    """The rows as a table, what failed, and the verdict."""
    screen.table("", ("ring", "operation", f"time on {device}", words.column), [_cells(row) for row in rows])
    failed = [row for row in rows if row.fault]
    for row in failed:
        screen.say(f"{row.trial}, {row.operation}: {row.fault}", "red")
    took = f"in {screen.seconds(spent)}"
    if failed:
        screen.say(f"{device}: {len(failed)} OF {len(rows)} RESULTS {words.bad}; compared {took}", "bold red")
    else:
        screen.say(f"{device}: all {len(rows)} results {words.good}; compared {took}", "bold green")
    return not failed


def _cells(row: Row) -> tuple[str | Text, ...]:
    verdict = Text("FAILED", style="bold red") if row.fault else Text("ok", style="green")
    return row.trial, row.operation, "-" if row.seconds is None else screen.seconds(row.seconds), verdict
