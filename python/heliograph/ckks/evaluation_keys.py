"""Evaluation keys of CKKS."""

from __future__ import annotations

from heliograph import _core, keys
from heliograph._common.arguments import readable_bytes
from heliograph._common.schemes import engine_property
from heliograph.ckks.parameters import Parameters
from heliograph.ckks.scheme import CKKS


class EvaluationKeys(keys.SwitchKeys[Parameters, keys.T], core=_core.ckks.EvaluationKeys):
    """The keys by which a server multiplies, rotates, conjugates and bootstraps. Evaluation keys do not decrypt.

    >>> keys = secret.evaluation_keys(rotations=[1, 2])
    >>> keys.rotations, keys.conjugate
    ([1, 2], False)
    >>> hg.ckks.rotate(x, 3)
    Traceback (most recent call last):
        ...
    heliograph.MissingKeyError: rotation 3 is not among the keys; they have 1, 2
    """

    _scheme = CKKS

    _swap = ("conjugate", "a conjugation key")

    conjugate = engine_property("conjugate", bool, "Whether there is a conjugation key.")
    level_rotations = engine_property(
        "level_rotations", dict, "Steps with keys that were made for ciphertexts of a level and below, by level."
    )
    bootstrap = engine_property("bootstrap", bool, "Whether there are keys for bootstrapping.")

    def _period(self) -> int:
        return self.parameters.period

    def _steps(self) -> set[int]:
        return set(self.rotations).union(*self.level_rotations.values())

    def __repr__(self) -> str:
        parts = ["relinearization"] if self.relinearize else []
        if self.rotations:
            parts.append(f"{len(self.rotations)} rotations")
        parts += [f"{len(steps)} rotations at level {level}" for level, steps in self.level_rotations.items() if steps]
        if self.conjugate:
            parts.append("conjugation")
        if self.bootstrap:
            parts.append("bootstrapping")
        if self.of_programs:
            parts.append(f"{len(self.of_programs)} of programs")
        return f"<{self._title()}: {', '.join(parts) or 'nothing'}, {readable_bytes(self.nbytes)}; {self.parameters!r}>"
