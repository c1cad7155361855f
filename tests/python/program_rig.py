"""Helpers shared by tests of recorded programs: a client and server for exact integers, and equality of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heliograph as hg
import rigs
from heliograph import _core


def opened(scheme: str, device: str) -> hg.bfv.Parameters:
    """Returns the small set on a device; skips the test if this machine lacks the device."""
    try:
        return rigs.parameters_on(rigs.specs("w64" if scheme == "bfv" else "bgv"), device)
    except (hg.DeviceError, hg.ParameterError) as error:
        pytest.skip(f"{device}: {error}")


class Party:
    """A secret key and a server for exact integers."""

    def __init__(self, parameters: hg.bfv.Parameters, seed: bytes = rigs.SEED) -> None:
        self.secret = rigs.secret_for_test(parameters, seed)
        self.keys = self.secret.evaluation_keys(rotations=[1, 5], columns=True)
        self.server = hg.Server(self.keys)

    def tensor(self, values: Any) -> Any:
        """Encrypts rows of consecutive integers, each beginning with one of the values, and binds them to the server."""
        return self.server.bind(self.secret.encrypt(np.asarray(values)[..., None] + np.arange(rigs.N)))


def same(a: Any, b: Any) -> None:
    """Checks that two tensors have the same words, reprs, bounds and noise estimates."""
    assert a.to_bytes() == b.to_bytes()
    assert repr(a) == repr(b)
    assert said(a) == said(b)
    assert a._keys is b._keys


def said(x: Any) -> bytes:
    """Returns all metadata of a tensor without the words of the ciphertext; floats are exact to the last bit."""
    return bytes(_core.program.Operands([x._core], [None]).signature)
