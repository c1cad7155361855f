"""What tests of recorded programs share: a party for exact integers, and tensors that are each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heliograph as hg
import rigs
from heliograph import _core


def opened(scheme: str, device: str) -> hg.bfv.Parameters:
    """The small set on a device, or a skipped test."""
    try:
        return rigs.parameters_on(rigs.specs("w64" if scheme == "bfv" else "bgv"), device)
    except (hg.DeviceError, hg.ParameterError) as error:
        pytest.skip(f"{device}: {error}")


class Party:
    """A key and a server for exact integers."""

    def __init__(self, parameters: hg.bfv.Parameters, seed: bytes = rigs.SEED) -> None:
        self.secret = rigs.secret_for_test(parameters, seed)
        self.keys = self.secret.evaluation_keys(rotations=[1, 5], columns=True)
        self.server = hg.Server(self.keys)

    def tensor(self, values: Any) -> Any:
        """A ciphertext for each value, which it begins with; at the server."""
        return self.server.bind(self.secret.encrypt(np.asarray(values)[..., None] + np.arange(rigs.N)))


def same(a: Any, b: Any) -> None:
    """One tensor is the other: words, and what it says of itself."""
    assert a.to_bytes() == b.to_bytes()
    assert repr(a) == repr(b)
    assert said(a) == said(b)
    assert a._keys is b._keys


def said(x: Any) -> bytes:
    """All that a tensor says of itself but its words: every figure of it, to the last bit."""
    return bytes(_core.Operands([x._core], [None]).signature)
