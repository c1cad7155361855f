"""Noise estimates and bounds in files are assumed and never trusted. Assumed bounds may cause errors, but no precision is
promised from them.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ckks_rig
import heliograph as hg
import rigs
from heliograph import _core
from model import Container, build, canonical, parse

EXACT = pytest.mark.parametrize("scheme", ["bfv", "bgv"])
SCHEMES = pytest.mark.parametrize("scheme", ["bfv", "bgv", "ckks"])
N = rigs.N


@functools.cache
def exact(scheme: str) -> tuple[hg.SecretKey, hg.EvaluationKeys]:
    """Returns a small parameter set that has two plaintext moduli."""
    spec = rigs.small_spec(300, 2, [65537, 12289], 64, scheme)
    secret = hg.SecretKey.generate(getattr(hg, scheme).Parameters(_core.exact.Parameters(spec)))
    return secret, secret.evaluation_keys(rotations=[1], columns=True)


def own(scheme: str) -> tuple[Any, Any, Any, Any]:
    """Returns a secret key, its evaluation keys, the same keys loaded from bytes, and a tensor."""
    if scheme == "ckks":
        p = ckks_rig.party()
        return p.secret, p.keys, hg.ckks.EvaluationKeys.from_bytes(p.keys.to_bytes()), p.tensor(np.full(ckks_rig.SLOTS, 0.5))
    secret, keys = exact(scheme)
    read = hg.EvaluationKeys.from_bytes(keys.to_bytes())
    return secret, keys, read, hg.Server(keys).bind(secret.encrypt(np.arange(N)))


def reloaded(x: Any, **header: Any) -> Any:
    """Saves a tensor, changes header fields (None removes a field), recomputes the digest and loads the tensor."""
    container = parse(x.to_bytes())
    container.header = {k: v for k, v in (container.header | header).items() if v is not None}
    return hg.Server(x._keys).from_bytes(build(container))


def is_vouched(x: Any) -> bool:
    """Returns whether the noise bound is trusted; if so, a CKKS tensor has a precision."""
    return x.is_trusted if isinstance(x, hg.bfv.Tensor) else x.precision is not None


@SCHEMES
def test_noise_estimates_in_files_are_not_trusted(scheme: str) -> None:
    """A loaded tensor, even if it is fresh, has no trusted bound, and neither have results with it or with loaded keys."""
    secret, _, read, x = own(scheme)
    y = reloaded(x)
    public = type(secret.public_key()).from_bytes(secret.public_key().to_bytes())
    values = np.full(x.slots, 0.5) if scheme == "ckks" else np.arange(N)
    bound = hg.Server(read).bind(x)
    turn = hg.ckks.rotate if scheme == "ckks" else hg.rotate_rows
    low = hg.ckks.lower if scheme == "ckks" else hg.shrink
    join = hg.ckks.concatenate if scheme == "ckks" else hg.concatenate
    for honest in (x, x + x, x * x, x + 1, -x, x[None][0], turn(x, 1), low(x, 1), secret.public_key().encrypt(values)):
        assert is_vouched(honest)
    for foreign in (
        *(y, y + x, x + y, y * x, x * y, y + 1, -y, y[None][0], turn(y, 1), low(y, 1), public.encrypt(values)),
        *(x - y, join([x[None], y[None]]), join([y[None], x[None]]), turn(bound, 1)),
        bound * bound if scheme == "ckks" else hg.relinearize(bound * bound),
    ):
        assert not is_vouched(foreign)
    assert y.fresh
    assert not (y + 1).fresh
    if scheme == "ckks":
        return
    assert "(estimate of a file)" in repr(y)
    halves = hg.split_moduli(x)
    assert hg.join_moduli(halves).is_trusted
    assert not hg.join_moduli([halves[0], hg.split_moduli(y)[1]]).is_trusted
    assert not hg.join_moduli([hg.split_moduli(y)[0], halves[1]]).is_trusted
    np.testing.assert_array_equal(secret.decrypt(bound), np.arange(N))


def test_publication_refuses_tensors_from_files() -> None:
    """Publication refuses tensors from files. If a file declares a computed tensor as fresh, too little noise would be added
    to it.
    """
    p = ckks_rig.party()
    x = p.tensor(np.full(ckks_rig.SLOTS, 0.5))
    for said in (reloaded(x * x, fresh=True, noise=None), reloaded(x), reloaded(x * x, noise=[0]), x + reloaded(x)):
        assert said.precision is None
        with pytest.raises(hg.NoiseError, match="no bound on it is known"):
            p.secret.decrypt(said, publish_bits=4)
        assert p.secret.decrypt(said, publish_bits=4, precision=20).shape == (ckks_rig.SLOTS,)
    assert p.secret.decrypt(x * x, publish_bits=4).shape == (ckks_rig.SLOTS,)


@EXACT
def test_noise_of_declared_fresh_tensors_is_measured(scheme: str) -> None:
    """If a file declares a tensor as fresh, its noise is measured. If the noise budget is exhausted, the tensor is refused
    for any values.
    """
    secret, keys, *_ = own(scheme)
    x = hg.Server(keys).bind(secret.encrypt(np.full(N, 3)))
    for _ in range(400):
        x = x + x
        if x._core.noise_budget < -1:
            said = reloaded(x, fresh=True, noise=None)
            assert said.noise_budget > 200
            assert not said.is_trusted
            assert secret.noise_budget(said) == 0
            with pytest.raises(hg.NoiseError):
                secret.decrypt(said)


@EXACT
def test_answers_keep_their_estimate(scheme: str) -> None:
    """The estimate in a file is exact to a sixteenth of a bit, because the levels that a server and `shrink` choose depend
    on it.
    """
    secret, _, _, x = own(scheme)
    y = hg.relinearize(x * x)
    again = reloaded(y)
    assert y.noise_budget - 1 / 16 <= again.noise_budget <= y.noise_budget
    assert again.to_bytes() == y.to_bytes()
    assert hg.shrink(again).level == hg.shrink(y).level < y.level
    assert (again * again).level == (y * y).level
    t = secret.parameters.plain_modulus
    np.testing.assert_array_equal(secret.decrypt(hg.shrink(again)) % t, np.arange(N) ** 2 % t)


def test_the_exchange_of_the_readme(tmp_path: Path) -> None:
    """A loaded request is computed on and shrunk, and the answer can be decrypted."""
    secret, keys, _, x = own("bfv")
    x.save(tmp_path / "request.hg")
    keys.save(tmp_path / "server.hg")
    server = hg.Server(hg.load(tmp_path / "server.hg"))
    y = hg.relinearize(hg.square(server.load(tmp_path / "request.hg")))
    answer = hg.shrink(y)
    assert answer.level < y.level
    answer.save(tmp_path / "answer.hg")
    t = secret.parameters.plain_modulus
    np.testing.assert_array_equal(secret.decrypt(hg.load(tmp_path / "answer.hg")) % t, np.arange(N) ** 2 % t)


FIGURES: list[Any] = [[-1], [0.5], ["1"], [2**20 + 1], 7, [], [1, 2, 3], {"a": 1}, [[1]], True]


@SCHEMES
@pytest.mark.parametrize("wrong", FIGURES, ids=map(str, FIGURES))
def test_impossible_noise_estimates_are_refused(scheme: str, wrong: Any) -> None:
    """A file must have one noise estimate per plaintext modulus; each is an integer from 0 to 2^20."""
    *_, x = own(scheme)
    for field in ["noise", "ranges"] if scheme == "ckks" else ["noise"]:
        assert reloaded(x + 1, **{field: parse((x + 1).to_bytes()).header[field]}).slots == x.slots
        with pytest.raises(hg.DamagedFileError):
            reloaded(x + 1, **{field: wrong})


@SCHEMES
def test_fields_of_another_version_are_refused(scheme: str) -> None:
    """A file that has a noise estimate is refused if its ciphertext is fresh or its format is 1."""
    *_, x = own(scheme)
    with pytest.raises(hg.DamagedFileError):
        reloaded(x, noise=[100] * (1 if scheme == "ckks" else 2))
    old = dataclasses.replace(parse((x + 1).to_bytes()), version=1)
    with pytest.raises(hg.DamagedFileError):
        hg.Server(x._keys).from_bytes(build(old))


def as_version_1(data: bytes) -> bytes:
    """Returns the file in format 1: without noise estimates, and the parameter hash includes the name of the set."""
    c = parse(data)
    header = {k: v for k, v in c.header.items() if k not in ("noise", "bound", "ranges")}
    header["parameter_hash"] = hashlib.sha256(canonical(header["parameters"])).hexdigest()
    return build(Container(c.type, header, c.arrays, 1))


@SCHEMES
def test_equal_numbers_are_one_set(scheme: str) -> None:
    """Sets that have equal numbers are one set, whichever name or insecure flag they have, so their objects can be mixed."""
    if scheme == "ckks":
        spec, make, key = hg.ckks.parameters("n13-l4")._core.spec, _core.ckks.Parameters, _core.ckks.SecretKey
        wrap: Any = hg.ckks.Parameters
        name = "n13-l4"
    else:
        name = {"bfv": "hcnn5", "bgv": "bgv-n14"}[scheme]
        spec, make, key = getattr(hg, scheme).parameters(name)._core.spec, _core.exact.Parameters, _core.exact.SecretKey
        wrap = getattr(hg, scheme).Parameters
    first = wrap(make(spec))
    hashes = {first.hash}
    for other, insecure in (("", False), ("", True), ("mine", False)):
        spec.name, spec.insecure = other, insecure
        again = wrap(make(spec))
        assert again == first
        assert hash(again) == hash(first)
        assert again.name == name
        hashes.add(again.hash)
    assert len(hashes) == 1
    text = canonical(parse(secret_of(key, first).public_key().to_bytes()).header["parameters"] | {"name": ""})
    assert hashes == {hashlib.sha256(text).hexdigest()}


def secret_of(key: Any, parameters: Any) -> Any:
    """Returns a secret key of a scheme."""
    core = key.generate(parameters._core)
    return hg.ckks.SecretKey(core) if isinstance(core, _core.ckks.SecretKey) else hg.SecretKey(core)


@SCHEMES
def test_files_of_format_1_with_a_name(scheme: str) -> None:
    """In format 1, the hash of a set includes its name. Files of format 1 are loaded into the same set as files of format 2."""
    secret, keys, _, x = own(scheme)
    server = hg.Server(keys)
    container = parse((x + 1).to_bytes())
    container.header["parameters"]["name"] = "a name"
    for data in (build(container), as_version_1(build(container)), as_version_1((x + 1).to_bytes())):
        y = server.from_bytes(data)
        assert y.parameters == x.parameters
        np.testing.assert_allclose(secret.decrypt(y + x), secret.decrypt(x + x + 1), atol=1e-6)
    y = server.from_bytes(as_version_1(build(container)))
    if scheme == "ckks":
        with pytest.raises(hg.RoomError, match="came from a file"):
            secret.decrypt(y, checked=True)
    else:
        assert y.noise_budget is None
    fresh = server.from_bytes(as_version_1(x.to_bytes()))
    assert fresh.fresh
    assert scheme == "ckks" or fresh.noise_budget == x.noise_budget
    container.header["parameter_hash"] = hashlib.sha256(canonical(container.header["parameters"])).hexdigest()
    with pytest.raises(hg.DamagedFileError, match="hash"):
        server.from_bytes(build(container))
