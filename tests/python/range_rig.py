"""Helpers for tests of CKKS bounds: values at all places of a ciphertext, the tensor's bounds of these values, and files
with false bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import heliograph as hg
import resign

#: Bounds of a ciphertext: lowest and highest value, magnitude at all places, root mean square over all places, magnitude of
#: the mean. The last entry tells whether the caller declared the bound.
Bounds = tuple[float, float, float, float, float, bool]


def rewritten(x: hg.ckks.Tensor, **fields: Any) -> bytes:
    """Returns the tensor's file with changed header fields (None removes a field) and a new digest."""
    d = resign.take_apart(x.to_bytes())
    d.header = {name: value for name, value in (dict(d.header) | fields).items() if value is not None}
    return resign.signed(d)


def places(party: Any, x: hg.ckks.Tensor) -> npt.NDArray[np.complex128]:
    """Returns the value at each place of the period, one row per ciphertext. The parameter set has as many slots as places."""
    assert x.parameters.slots == x.parameters.period
    whole = rewritten(x, width=x.parameters.period, fresh=False, tail=None, complex=True)
    values = party.secret.decrypt(party.server.from_bytes(whole), unchecked=True)
    return np.asarray(values).reshape(-1, values.shape[-1])


def bounds_of(x: hg.ckks.Tensor, vouched: bool) -> list[Bounds]:
    """Returns the trusted bounds or the assumed bounds of each ciphertext."""
    found: list[Bounds] = x._core.value_bounds(vouched)
    return found * x.size if len(found) == 1 else found


def below(party: Any, x: hg.ckks.Tensor, clear: Any) -> list[str]:
    """Returns a description of each bound that some values exceed."""
    at = places(party, x)
    rows = np.asarray(clear).reshape(-1, x.slots)
    wrong = []
    for vouched in (True, False):
        for i, (low, high, peak, rms, mean, _) in enumerate(bounds_of(x, vouched)):
            off = 2.0**-13 * max(1.0, np.abs(at[i]).max()) + 2.0**-10  # allowance for noise
            own = np.abs(rows[i]) if x.dtype == np.complex128 else rows[i].real
            true = {
                "low": (low, own.min()),
                "high": (own.max(), high),
                "peak": (np.abs(at[i]).max(), peak),
                "rms": (np.sqrt((np.abs(at[i]) ** 2).mean()), rms),
                "mean": (abs(rows[i].mean()), mean),
            }
            wrong += [
                f"{'vouched' if vouched else 'assumed'} {k} of {i}: {a} > {b}" for k, (a, b) in true.items() if a > b + off
            ]
    return wrong
