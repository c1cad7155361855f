"""Evaluation keys of BFV and BGV."""

from __future__ import annotations

from heliograph import _core, keys
from heliograph._common.arguments import readable_bytes
from heliograph._common.schemes import engine_property
from heliograph.exact.parameters import Parameters
from heliograph.exact.scheme import EXACT

#: Maximum rotations listed in a repr, which otherwise shows their number.
_SHOWN = 16


class EvaluationKeys(keys.SwitchKeys[Parameters, keys.T], core=_core.exact.EvaluationKeys):
    """The keys by which a server relinearizes and rotates. Evaluation keys do not decrypt. Steps of rotations are modulo
    N/2.

    >>> keys = secret.evaluation_keys(rotations=[1, 2])
    >>> keys.relinearize, keys.rotations, keys.columns
    (True, [1, 2], False)
    >>> hg.rotate_rows(x, 3)
    Traceback (most recent call last):
        ...
    heliograph.MissingKeyError: rotation 3 is not among the keys; they have 1, 2
    """

    _scheme = EXACT

    _swap = ("columns", "a key to exchange the rows of slots")

    columns = engine_property("columns", bool, "Whether there is a key to exchange the two rows of slots.")

    def _period(self) -> int:
        return self.parameters.n // 2

    def __repr__(self) -> str:
        steps = self.rotations
        turns = f"rotations {steps}" if len(steps) <= _SHOWN else f"{len(steps):,} rotations"
        have = ["relinearize"] * self.relinearize + [turns] * bool(steps)
        have += ["columns"] * self.columns
        have += [f"{len(self.of_programs)} of programs"] * bool(self.of_programs)
        return f"<{self._title()}: {', '.join(have) or 'none'}; {readable_bytes(self.nbytes)}>"
