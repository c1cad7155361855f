"""Every function that takes clear values refuses masked values. SQL stores masked values as NULL (test_sql_values)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heliograph as hg
import tfhe_rig
from heliograph import ml, nn

MASKED = np.ma.array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
#: Containers of masked arrays; when NumPy converts them, it may ignore the mask.
FORMS: dict[str, Any] = {
    "array": MASKED,
    "list of arrays": [MASKED[0], MASKED[1]],
    "nested": [[MASKED[0]], (MASKED[1],)],
    "constant": [[np.ma.masked, 2], [3, 4]],
    "reals": MASKED.astype(float),
}
OPEN = np.ma.array([[1, 2], [3, 4]], mask=False)  # arrays in which no value is masked are accepted


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scheme", ["bfv", "bgv", "ckks", "tfhe"])
def test_encryption_and_operators_refuse_masked_values(scheme: str, form: str) -> None:
    """Encryption by either key refuses masked values, and so do encoding and the operators of a tensor."""
    masked = FORMS[form]
    if scheme == "tfhe":
        party = tfhe_rig.Party(tfhe_rig.parameters("bits"))
        secret, x = party.secret, party.tensor([[1, 2], [3, 4]], "uint8")
        calls = [
            lambda: secret.encrypt(masked),
            lambda: hg.tfhe.trivial(party.keys, masked),
            lambda: hg.tfhe.select(x > 1, x, masked),
        ]
    else:
        find = {"bfv": hg.bfv.parameters, "bgv": hg.bgv.parameters, "ckks": hg.ckks.parameters}[scheme]
        kind = {"precision": 20} if scheme == "ckks" else {"plain_bits": 20}
        secret = hg.SecretKey.generate(params := find(depth=1, slots=2, **kind))
        x = hg.Server(secret.evaluation_keys()).bind(secret.encrypt([[1, 2], [3, 4]]))
        encode = hg.ckks.encode if scheme == "ckks" else hg.bfv.encode
        calls = [
            *(lambda: secret.encrypt(masked), lambda: secret.public_key().encrypt(masked), lambda: encode(params, masked)),
            lambda: hg.matmul(masked, x),
        ]
    calls += [lambda: x + masked, lambda: x * masked, lambda: x - masked]
    for call in calls:
        with pytest.raises(hg.DtypeError, match=r"masked values, which are missing numbers: fill them"):
            call()
    with pytest.raises(hg.DtypeError):  # masked arrays have an operator of their own, which would convert the tensor
        masked * x
    assert secret.decrypt(secret.encrypt(OPEN)).round().astype(int).tolist() == OPEN.tolist()


def test_models_and_searches_refuse_masked_values(tmp_path: Any) -> None:
    """Networks refuse masked values, and so do estimators (also with one sample) and query vectors."""
    image = np.ma.array(np.zeros((8, 8), int), mask=False)
    image[0, 0] = np.ma.masked
    network = nn.load("digits")
    layer = ml.Dense(np.array([[2.0, 1.0]]), np.array([0.5]))
    model = ml.EstimatorModel("a line", (layer,), None, False, 8.0)
    index = hg.knn.Vectors(np.array([[1, 2], [0, 3]], np.int8))
    client = hg.knn.VectorClient(index.layout)
    sample = np.ma.array([1.0, 2.0], mask=[True, False])
    vector = np.ma.array([1, 2], np.int8, mask=[True, False])
    for call in (
        lambda: network.quantize([image]),
        lambda: network.clear_logits([image]),
        lambda: model.clear(np.ma.array([sample])),
        lambda: layer.clear(np.ma.array([sample]).T),
        lambda: client.encrypt(vector),
        lambda: hg.knn.Vectors(np.ma.array([vector])),
        lambda: hg.ClearTensor(image),
    ):
        with pytest.raises(hg.DtypeError, match="masked values"):
            call()


def test_errors_name_the_invalid_object() -> None:
    """pandas makes arrays of objects for integers with NULLs. The error for an array of objects states the invalid value and
    its index.

    """
    secret = hg.SecretKey.generate(hg.bfv.parameters(depth=1, plain_bits=20, slots=3))
    for missing in (None, np.datetime64("NaT"), "3"):
        with pytest.raises(hg.DtypeError, match=rf"{type(missing).__name__}\) at \[1\]"):
            secret.encrypt(np.array([1, missing, 3], object))
    pd = pytest.importorskip("pandas")
    with pytest.raises(hg.DtypeError, match=r"objects: <NA> \(NAType\) at \[1\]"):
        secret.encrypt([1, pd.NA, 3])
    for kind in ("Int64", None):
        with pytest.raises(hg.DtypeError):
            secret.encrypt(pd.Series([1, None, 3], dtype=kind))
