"""heliograph selftest, CKKS: compares results bit by bit with the reference device, and decrypted with the clear result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

import heliograph as hg
from heliograph import _core
from heliograph.cli import trials
from heliograph.cli.trials import Array, Row, difference, run_steps

_SEED = bytes(range(64, 96))
_ERROR = 1e-4


@dataclass(frozen=True)
class Trial:
    """A parameter set made only for the test, and the number of ciphertexts."""

    n: int
    levels: int
    special: int
    word_size: int
    items: int

    @property
    def title(self) -> str:
        """The title in the table."""
        return f"CKKS 2^{self.n.bit_length() - 1} w{self.word_size}"

    def parameters(self) -> hg.ckks.Parameters:
        """Returns the set on the process's device."""
        long = self.word_size == 64
        return hg.ckks.parameters(
            n=self.n,
            levels=self.levels,
            log_scale=40 if long else 48,
            base_bits=50 if long else 58,
            special=self.special,
            word_size=self.word_size,
            insecure=True,
        )


QUICK = (Trial(1024, 4, 2, 64, 5), Trial(1024, 4, 5, 32, 5))
ALL = (*QUICK, Trial(1 << 13, 5, 2, 64, 2), Trial(1 << 15, 6, 3, 64, 1), Trial(1 << 15, 6, 5, 32, 1))


class CkksFixture(trials.Fixture[hg.ckks.Tensor]):
    """Keys and operands from a fixed seed."""

    def __init__(self, trial: Trial, device: str | None) -> None:
        core = trial.parameters()._core
        secret = hg.ckks.SecretKey(_core.ckks.SecretKey.generate_for_test(core.on_device(device) if device else core, _SEED))
        rng = np.random.default_rng(trial.n)
        self.a, self.b = (rng.uniform(-1, 1, (trial.items, trial.n // 2)) for _ in range(2))
        super().__init__(secret, (self.a, self.b), rotations=[1, 2, -3], conjugate=True)


_CUBIC = [0.25, -0.5, 0.125, 0.75]
#: Each operation returns the encrypted and the clear result.
OPERATIONS: dict[str, Callable[[CkksFixture], tuple[hg.ckks.Tensor, Array]]] = {
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


def _compare(
    run: Callable[[CkksFixture], tuple[hg.ckks.Tensor, Array]], mine: CkksFixture, reference: CkksFixture
) -> tuple[float, str]:
    """Computes twice on the device (the first call prepares) and once on the reference; compares these, then the decrypted
    result.
    """
    spent, result = 0.0, mine.x
    expected: Array = mine.a
    for _ in range(2):
        start = time.perf_counter()
        result, expected = run(mine)
        result.wait()
        spent = time.perf_counter() - start
    if fault := difference(result.to_bytes(), run(reference)[0].to_bytes()):
        return spent, fault
    error = float(np.abs(mine.secret.decrypt(result) - expected).max())
    return spent, "" if error < _ERROR else f"values differ by {error:.1e}"


def run_trial(trial: Trial) -> Iterator[Row]:
    """Runs every operation of a trial, on the device in use and on the reference."""
    return run_steps(trial, partial(CkksFixture, trial), {name: partial(_compare, run) for name, run in OPERATIONS.items()})
