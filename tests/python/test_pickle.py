"""pickle, copy, deepcopy and joblib use the file format with its checks. pickle, copy, deepcopy and joblib refuse secret
keys.
"""

from __future__ import annotations

import copy
import functools
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from heliograph import _core


def small_tfhe() -> hg.tfhe.Parameters:
    """Returns a set whose keys are small and have no bootstrapping."""
    spec = _core.tfhe.named_spec(hg.tfhe.parameters().name, True)
    spec.n, spec.insecure = 8 * spec.group, True
    return hg.tfhe.Parameters(_core.tfhe.Parameters(spec))


SETS: dict[str, Any] = {
    "bfv": lambda: hg.bfv.parameters(n=1024, log_q=140, plain_modulus=12289, insecure=True),
    "bgv": lambda: hg.bgv.parameters(n=1024, log_q=140, plain_modulus=12289, insecure=True),
    "ckks": lambda: hg.ckks.parameters(n=1024, levels=4, log_scale=40, base_bits=50, slots=4, insecure=True),
    "tfhe": small_tfhe,
}
VALUES = {"bfv": np.arange(1024), "bgv": np.arange(1024), "ckks": np.array([1.0, 2, 3, 4]), "tfhe": np.array([True, False])}


@functools.cache
def secret(scheme: str) -> Any:
    return hg.SecretKey.generate(SETS[scheme]())


@functools.cache
def server(scheme: str) -> hg.Server[Any]:
    return hg.Server(secret(scheme).evaluation_keys())


def objects(scheme: str) -> list[Any]:
    key = secret(scheme)
    tensor = key.encrypt(VALUES[scheme])
    computed = server(scheme).bind(tensor)
    computed = ~computed if scheme == "tfhe" else computed + 1
    several = [key.parameters, tensor, computed, server(scheme).keys]
    return several if scheme == "tfhe" else [*several, key.public_key()]


def require_equal(scheme: str, found: Any, given: Any) -> None:
    assert type(found) is type(given)
    if isinstance(given, hg.Tensor):
        np.testing.assert_array_equal(secret(scheme).decrypt(found), secret(scheme).decrypt(given))
        assert (found.shape, found.key_id) == (given.shape, given.key_id)
    elif hasattr(given, "id"):
        assert found.id == given.id
        assert found.to_bytes() == given.to_bytes()
    else:
        assert (found, found.hash) == (given, given.hash)


@pytest.mark.parametrize("scheme", SETS)
def test_objects_are_pickled_and_copied(scheme: str) -> None:
    for given in objects(scheme):
        for protocol in (2, pickle.HIGHEST_PROTOCOL):
            require_equal(scheme, pickle.loads(pickle.dumps(given, protocol)), given)
        for same in (copy.copy(given), copy.deepcopy(given), copy.deepcopy({"nested": [given]})["nested"][0]):
            require_equal(scheme, same, given)


@pytest.mark.parametrize("scheme", SETS)
def test_copies_are_independent(scheme: str) -> None:
    """If a copy is changed in place, the original does not change. An unpickled tensor must be bound to keys again."""
    values, decrypt = VALUES[scheme], secret(scheme).decrypt
    x = server(scheme).bind(secret(scheme).encrypt(values))
    other, deep, sent = copy.copy(x), copy.deepcopy([x])[0], pickle.loads(pickle.dumps(x))
    if scheme == "tfhe":
        x ^= True
    else:
        x += 1
    for same in (other, deep, server(scheme).bind(sent)):
        np.testing.assert_allclose(decrypt(same), values, atol=1e-4)
        product = decrypt(~~same if scheme == "tfhe" else hg.square(same))
        np.testing.assert_allclose(product % 12289, values * values % 12289, atol=1e-4)
    if scheme == "bfv":
        with pytest.raises(hg.MissingKeyError):
            hg.relinearize(hg.square(sent))


@pytest.mark.parametrize("scheme", SETS)
def test_secret_keys_are_refused(scheme: str) -> None:
    """Every way to copy a secret key is refused, also inside other objects, and the error names the alternative."""
    key = secret(scheme)
    for attempt, what in (
        (pickle.dumps, "pickle"),
        (copy.copy, "copy"),
        (copy.deepcopy, "copy"),
        (lambda k: pickle.dumps({"a": [k]}), "pickle"),
    ):
        with pytest.raises(
            hg.DtypeError, match=rf"cannot {what} a secret key: .*secret\.save\(path\).*hg\.SecretKey\.load\(path\)"
        ):
            attempt(key)


def test_objects_without_a_file_format_are_refused() -> None:
    with pytest.raises(hg.DtypeError, match="cannot pickle a Plaintext of CKKS"):
        pickle.dumps(hg.encode(secret("ckks").parameters, [1.0]))
    with pytest.raises(hg.DtypeError, match="cannot pickle a LinearTransform: pickle its parameters and its matrix"):
        pickle.dumps(hg.ckks.LinearTransform(secret("ckks").parameters, np.eye(4)))
    with pytest.raises(hg.DtypeError, match=r"cannot pickle a program: .*to_bytes\(\), which hg.Program.from_bytes reads"):
        pickle.dumps(hg.program(lambda x: x + x, secret("ckks").encrypt(VALUES["ckks"])))


def test_pickled_parameters_keep_their_list_of_keys() -> None:
    found = hg.parameters_for(lambda x: hg.ckks.rotate(x, 1), np.ones(4), scheme="ckks", precision=20)
    assert pickle.loads(pickle.dumps(found)).needs == found.needs
    assert copy.deepcopy(found).needs == found.needs


def test_loading_detects_damage() -> None:
    """A changed byte is detected when loading, as for files."""
    for given in objects("ckks"):
        data = pickle.dumps(given)
        at = data.index(given.hash.encode() if isinstance(given, hg.ckks.Parameters) else b"heliograph.ckks") + 40
        with pytest.raises(hg.FormatError):
            pickle.loads(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def test_a_pickled_server_has_its_keys() -> None:
    party = hg.Server(server("bfv").keys, limit=1 << 30)
    again = pickle.loads(pickle.dumps(party))
    assert (again.limit, again.keys.id) == (1 << 30, party.keys.id)


def test_joblib(tmp_path: Path) -> None:
    """joblib's files and its processes use pickle."""
    joblib = pytest.importorskip("joblib")
    key = secret("ckks")
    x = key.encrypt(VALUES["ckks"])
    joblib.dump({"x": x, "keys": server("ckks").keys}, tmp_path / "both")
    both = joblib.load(tmp_path / "both")
    np.testing.assert_allclose(key.decrypt(hg.Server(both["keys"]).bind(both["x"]) * 2), 2 * VALUES["ckks"], atol=1e-4)
    with pytest.raises(hg.DtypeError, match="cannot pickle a secret key"):
        joblib.dump(key, tmp_path / "secret")


def test_another_process_reads_it(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(pickle.dumps((secret("ckks").parameters, secret("ckks").encrypt(VALUES["ckks"]))))
    program = "import pickle, sys; p, x = pickle.load(open(sys.argv[1], 'rb')); print(p.hash, x.parameters == p, x.shape)"
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "x"], capture_output=True, text=True, check=True)
    assert done.stdout.split(maxsplit=1) == [secret("ckks").parameters.hash, "True ()\n"]
