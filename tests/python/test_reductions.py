"""Sums and means of a vector equal NumPy's in every scheme; arrays for which the axis is ambiguous are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heliograph as hg


def party(scheme: str, slots: int) -> tuple[Any, Any]:
    """Returns a secret key and a server that has the rotations for sums."""
    if scheme == "ckks":
        params = hg.ckks.parameters(depth=3, precision=20, slots=slots)
        secret = hg.SecretKey.generate(params)
        return secret, hg.Server(secret.evaluation_keys(rotations=hg.ckks.sum_rotations(params.period)))
    find = {"bfv": hg.bfv.parameters, "bgv": hg.bgv.parameters}[scheme]
    params = find(depth=2, plain_bits=24, slots=slots)
    secret = hg.SecretKey.generate(params)
    steps = [1 << i for i in range((params.n // 2).bit_length() - 1)]
    return secret, hg.Server(secret.evaluation_keys(rotations=steps, columns=True))


@pytest.mark.parametrize("scheme", ["bfv", "bgv", "ckks"])
def test_sums_of_one_and_of_several_ciphertexts(scheme: str) -> None:
    """The sum of one ciphertext is a number, which is in every slot. The sum of several ciphertexts is slot by slot, as for
    clear tensors.
    """
    secret, server = party(scheme, 6)
    v = np.arange(12).reshape(2, 6)
    x, clear = server.bind(secret.encrypt(v)), hg.ClearTensor(v)
    for one in (x[1], clear[1], server.bind(secret.encrypt(v[1]))):
        for total in (hg.sum(one), one.sum(), hg.sum(one, axis="slots")):
            found = secret.decrypt(total) if total is not None and not isinstance(total, hg.ClearTensor) else total.values
            np.testing.assert_allclose(found, np.full(6, v[1].sum()), atol=1e-3)
    for both in (x, clear):
        total = hg.sum(both)
        found = total.values if isinstance(total, hg.ClearTensor) else secret.decrypt(total)
        np.testing.assert_allclose(found, v.sum(0), atol=1e-3)
    bare = hg.Server(secret.evaluation_keys())
    with pytest.raises(hg.MissingKeyError):
        hg.sum(bare.bind(secret.encrypt(v[0])))


def test_parameters_for_the_sum_of_a_vector() -> None:
    """The set lists the rotations that a sum needs."""
    params = hg.parameters_for(lambda x: hg.sum(x), np.arange(100))
    secret = hg.SecretKey.generate(params)
    x = hg.Server(secret.evaluation_keys(**params.needs)).bind(secret.encrypt(np.arange(100), pad=True))
    assert secret.decrypt(hg.sum(x))[0] == 4950


def test_means_and_variances_name_their_axis() -> None:
    """For one ciphertext, means and variances are over its values. For several ciphertexts, the axis must be given."""
    secret, server = party("ckks", 6)
    v = np.arange(12.0).reshape(2, 6)
    x = server.bind(secret.encrypt(v))
    for statistic, numpy in ((hg.ckks.mean, np.mean), (hg.ckks.var, np.var)):
        for axis in (None, "slots"):
            np.testing.assert_allclose(secret.decrypt(statistic(x[0], axis)), np.full(6, numpy(v[0])), atol=1e-2)
        np.testing.assert_allclose(secret.decrypt(statistic(x, "slots"))[:, 0], numpy(v, 1), atol=1e-2)
        np.testing.assert_allclose(secret.decrypt(statistic(x, 0))[0], numpy(v), atol=2e-2)
        with pytest.raises(hg.ShapeError, match=r"tensor of shape \(2,\) needs an axis: pass axis=\"slots\""):
            statistic(x)
        with pytest.raises(hg.DtypeError, match='"slots"'):
            statistic(x, "slot")


@pytest.mark.parametrize("scheme", ["bfv", "bgv", "clear"])
def test_ambiguous_arrays_are_refused(scheme: str) -> None:
    """If an array fits both slots and ciphertexts, the error names both choices, and both work."""
    v, r = np.arange(16).reshape(4, 4), np.array([1, 10, 100, 1000])
    secret, server = party("bfv" if scheme == "clear" else scheme, 4)
    x = hg.ClearTensor(v) if scheme == "clear" else server.bind(secret.encrypt(v))

    def opened(y: Any) -> Any:
        return y.values if scheme == "clear" else secret.decrypt(y)

    one = x[1]
    for call in (lambda: x * r, lambda: r * x, lambda: x + r, lambda: r - x, lambda: one * r, lambda: x[:1] + r):
        with pytest.raises(hg.ShapeError, match=r"each of the 4 slots or for each ciphertext"):
            call()
    np.testing.assert_array_equal(opened(x.reshape(4, 1) * r[..., None]).reshape(4, 4), v * r[:, None])
    np.testing.assert_array_equal(opened(x * r[:3].sum()), v * 111)
    np.testing.assert_array_equal(opened(x[:2] * [3, 4]), v[:2] * [[3], [4]])
    if scheme != "clear":
        np.testing.assert_array_equal(secret.decrypt(x * server.encode(r)), v * r)
        # with packing in coefficients there are no slots, so the array is not ambiguous
        inside = server.bind(secret.encrypt(v, coefficients=1, pad=True))
        np.testing.assert_array_equal(secret.decrypt(inside * r)[:, :4], v * r[:, None])
