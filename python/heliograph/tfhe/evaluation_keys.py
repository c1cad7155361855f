"""Evaluation keys of TFHE."""

from __future__ import annotations

from typing import Any

from heliograph import _core, keys
from heliograph._common.arguments import readable_bytes
from heliograph.tfhe.parameters import Parameters
from heliograph.tfhe.scheme import TFHE


class EvaluationKeys(keys.EvaluationKeys[Parameters, keys.T], core=_core.tfhe.EvaluationKeys):
    """The bootstrapping key and the key-switching key, by which a server computes. Evaluation keys do not decrypt.

    >>> server.keys.id == secret.id
    True
    """

    _scheme = TFHE
    _noted: list[Any] | None = None  #: calls that a trial run made with these keys (`hg.parameters_for`)

    def __repr__(self) -> str:
        return f"<{self._title()}: {self.parameters!r}, {readable_bytes(self.nbytes)}>"
