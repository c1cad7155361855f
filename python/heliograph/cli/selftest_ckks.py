"""heliograph selftest, CKKS: every result bit by bit with the reference device, and decrypted against the clear one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

import heliograph as hg
from heliograph import _core
from heliograph.cli import sides
from heliograph.cli.sides import Array, Row, difference, run_steps

_SEED = bytes(range(64, 96))
_ERROR = 1e-4


@dataclass(frozen=True)
class Trial:
    """A parameter set, made for the test alone, and how many ciphertexts to compute with."""

    n: int
    levels: int
    special: int
    edition: str
    items: int

    @property
    def title(self) -> str:
        """For a table."""
        return f"CKKS 2^{self.n.bit_length() - 1} {self.edition}"

    def parameters(self) -> hg.ckks.Parameters:
        """On the process's device."""
        long = self.edition == "w64"
        return hg.ckks.parameters(
            n=self.n,
            levels=self.levels,
            log_scale=40 if long else 48,
            base_bits=50 if long else 58,
            special=self.special,
            edition=self.edition,
            insecure=True,
        )


QUICK = (Trial(1024, 4, 2, "w64", 5), Trial(1024, 4, 5, "w32", 5))
ALL = (*QUICK, Trial(1 << 13, 5, 2, "w64", 2), Trial(1 << 15, 6, 3, "w64", 1), Trial(1 << 15, 6, 5, "w32", 1))


class Side(sides.Side[hg.ckks.Tensor]):
    """Keys and operands from a fixed seed."""

    def __init__(self, trial: Trial, device: str | None) -> None:
        core = trial.parameters()._core
        secret = hg.ckks.SecretKey(_core.CkksSecretKey.generate_for_test(core.on_device(device) if device else core, _SEED))
        rng = np.random.default_rng(trial.n)
        self.a, self.b = (rng.uniform(-1, 1, (trial.items, trial.n // 2)) for _ in range(2))
        super().__init__(secret, (self.a, self.b), rotations=[1, 2, -3], conjugate=True)


_CUBIC = [0.25, -0.5, 0.125, 0.75]
#: With the clear result.
OPERATIONS: dict[str, Callable[[Side], tuple[hg.ckks.Tensor, Array]]] = {
    "add": lambda s: (s.x + s.y, s.a + s.b),
    "multiply": lambda s: (s.x * s.y, s.a * s.b),
    "multiply by plaintexts": lambda s: (s.x * s.b, s.a * s.b),
    "multiply by constants": lambda s: (s.x * 2.5 + 1.5, s.a * 2.5 + 1.5),
    "lower": lambda s: (hg.ckks.lower(s.x, 2), s.a),
    "rotate": lambda s: (hg.ckks.rotate(s.x, [1, -3]), np.stack([np.roll(s.a, -k, -1) for k in (1, -3)])),
    "conjugate": lambda s: ((s.x * 1j).conjugate(), -1j * s.a),
    "sum of slots": lambda s: (hg.ckks.sum_slots(s.x, 4), np.sum([np.roll(s.a, -k, -1) for k in range(4)], 0)),
    "inner product": lambda s: (hg.ckks.inner_product(s.x, s.y), (s.a * s.b).sum(0)),
    "polynomial": lambda s: (hg.ckks.polynomial(s.x, _CUBIC, "monomial"), np.polynomial.polynomial.polyval(s.a, _CUBIC)),
}


def _compare(run: Callable[[Side], tuple[hg.ckks.Tensor, Array]], mine: Side, reference: Side) -> tuple[float, str]:
    """Computed twice on the device (the first call prepares), once on the reference; then decrypted."""
    spent, found = 0.0, mine.x
    expected: Array = mine.a
    for _ in range(2):
        start = time.perf_counter()
        found, expected = run(mine)
        found.wait()
        spent = time.perf_counter() - start
    if fault := difference(found.to_bytes(), run(reference)[0].to_bytes()):
        return spent, fault
    error = float(np.abs(mine.secret.decrypt(found) - expected).max())
    return spent, "" if error < _ERROR else f"values are {error:.1e} off"


def run_trial(trial: Trial) -> Iterator[Row]:
    """Every operation of a trial, on the device in use and on the reference."""
    return run_steps(trial, partial(Side, trial), {name: partial(_compare, run) for name, run in OPERATIONS.items()})
