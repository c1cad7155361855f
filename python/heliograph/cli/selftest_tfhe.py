"""heliograph selftest, TFHE: compares keys, encryptions and linear steps bit by bit, and decrypted with clear results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import heliograph as hg
from heliograph import _core
from heliograph.cli import trials
from heliograph.cli.trials import Array, Row, difference, run_steps

_SEED = bytes(range(32, 64))
_SMALL: dict[str, Any] = {
    **{"n": 32, "k": 1, "bootstrap": (18, 1), "switch": (4, 4), "group": 2, "insecure": True},
    **{"lwe_noise": ("gaussian", -22), "glwe_noise": ("gaussian", -40)},
}


@dataclass(frozen=True)
class Trial:
    """A parameter set, the number of elements, and whether the exact steps are compared with the reference device."""

    title: str
    items: int
    exact: bool
    numbers: dict[str, Any] = field(default_factory=dict)

    def parameters(self) -> hg.tfhe.Parameters:
        """Returns the set on the process's device."""
        return hg.tfhe.parameters(**self.numbers) if self.numbers else hg.tfhe.parameters(self.title.split()[-1])


QUICK = (
    Trial("TFHE, bits", 65, True, {**_SMALL, "degree": 256, "message_bits": 0, "carry_bits": 0, "norm": 3}),
    Trial("TFHE, digits", 65, True, {**_SMALL, "degree": 1024, "message_bits": 2, "carry_bits": 2, "norm": 17}),
)
ALL = (*QUICK, Trial("TFHE boolean", 4, False), Trial("TFHE 2_2", 4, False))


class TfheFixture(trials.Fixture[hg.tfhe.Tensor]):
    """Keys and operands from a fixed seed."""

    def __init__(self, trial: Trial, device: str | None) -> None:
        core = trial.parameters()._core
        secret = hg.tfhe.SecretKey(_core.tfhe.SecretKey.generate_for_test(core.on_device(device) if device else core, _SEED))
        rng = np.random.default_rng(trial.items)
        self.a, self.b = (rng.integers(0, 256, trial.items, dtype=np.uint8) for _ in range(2))
        self.flags = [np.arange(8) >> k & 1 == 1 for k in range(3)]
        super().__init__(secret, (self.a, self.b))
        self.bits = [self.server.bind(secret.encrypt(values)) for values in self.flags]


#: Exact on every device, without bootstraps.
LINEAR: dict[str, Callable[[TfheFixture], hg.tfhe.Tensor]] = {
    "linear combinations": lambda s: ~s.x,
    "copies": lambda s: s.x[::-1].reshape(1, -1),
}
#: Each operation returns the encrypted and the clear result.
OPERATIONS: dict[str, Callable[[TfheFixture], tuple[hg.tfhe.Tensor, Array]]] = {
    "and": lambda s: (s.bits[0] & s.bits[1], s.flags[0] & s.flags[1]),
    "xor": lambda s: (s.bits[0] ^ s.bits[1], s.flags[0] ^ s.flags[1]),
    "nor": lambda s: (hg.tfhe.nor(s.bits[0], s.bits[1]), ~(s.flags[0] | s.flags[1])),
    "majority": lambda s: (
        hg.tfhe.majority(*s.bits),
        s.flags[0] & s.flags[1] | s.flags[0] & s.flags[2] | s.flags[1] & s.flags[2],
    ),
    "select": lambda s: (hg.tfhe.select(*s.bits), np.where(*s.flags)),
    "add": lambda s: (s.x + s.y, s.a + s.b),
    "less": lambda s: (s.x < s.y, s.a < s.b),
}


def _alike(run: Callable[[TfheFixture], hg.tfhe.Tensor], mine: TfheFixture, reference: TfheFixture) -> tuple[float, str]:
    start = time.perf_counter()
    result = run(mine)
    result.wait()
    spent = time.perf_counter() - start
    return spent, difference(result.to_bytes(), run(reference).to_bytes())


def _right(
    run: Callable[[TfheFixture], tuple[hg.tfhe.Tensor, Array]], fixture: TfheFixture, *others: TfheFixture
) -> tuple[float, str]:
    """Computes twice on one device (the first call prepares) and compares the decrypted results. The reference device is not
    used.
    """
    start, faults = 0.0, []
    for _ in range(2):
        start = time.perf_counter()
        result, expected = run(fixture)
        result.wait()
        spent = time.perf_counter() - start
        wrong = np.count_nonzero(fixture.secret.decrypt(result) != expected)
        faults += [f"{wrong} of {expected.size} values are wrong"] if wrong else []
    return spent, faults[0] if faults else ""


def run_trial(trial: Trial) -> Iterator[Row]:
    """Runs every operation of a trial."""
    linear = {name: partial(_alike, run) for name, run in LINEAR.items()} if trial.exact else {}
    bootstrapped = {name: partial(_right, run) for name, run in OPERATIONS.items()}
    return run_steps(
        trial, partial(TfheFixture, trial), {**linear, **bootstrapped}, (None, "ref") if trial.exact else (None,)
    )
