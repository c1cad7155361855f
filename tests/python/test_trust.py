"""What a file says of noise and size is assumed, never vouched for: it may make a reader refuse, not promise."""

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
    """A small set of two plaintext moduli."""
    spec = rigs.small_spec(300, 2, [65537, 12289], "w64", scheme)
    secret = hg.SecretKey.generate(getattr(hg, scheme).Parameters(_core.Parameters(spec)))
    return secret, secret.evaluation_keys(rotations=[1], columns=True)


def own(scheme: str) -> tuple[Any, Any, Any, Any]:
    """A secret key, its evaluation keys, what they are read back as, and a tensor nobody else has touched."""
    if scheme == "ckks":
        p = ckks_rig.party()
        return p.secret, p.keys, hg.ckks.EvaluationKeys.from_bytes(p.keys.to_bytes()), p.tensor(np.full(ckks_rig.SLOTS, 0.5))
    secret, keys = exact(scheme)
    read = hg.EvaluationKeys.from_bytes(keys.to_bytes())
    return secret, keys, read, hg.Server(keys).bind(secret.encrypt(np.arange(N)))


def reloaded(x: Any, **header: Any) -> Any:
    """Through a file, signed again after a change of its header (None: without that field)."""
    container = parse(x.to_bytes())
    container.header = {k: v for k, v in (container.header | header).items() if v is not None}
    return hg.Server(x._keys).from_bytes(build(container))


def is_vouched(x: Any) -> bool:
    """CKKS tells it by its precision."""
    return x.vouched if isinstance(x, hg.bfv.Tensor) else x.precision is not None


@SCHEMES
def test_a_file_vouches_for_nothing(scheme: str) -> None:
    """Neither for what it calls fresh nor for what is computed with it, on whichever side; keys from files neither."""
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
    assert "if files are what they say" in repr(y)
    halves = hg.split_moduli(x)
    assert hg.join_moduli(halves).vouched
    assert not hg.join_moduli([halves[0], hg.split_moduli(y)[1]]).vouched
    assert not hg.join_moduli([hg.split_moduli(y)[0], halves[1]]).vouched
    np.testing.assert_array_equal(secret.decrypt(bound), np.arange(N))


def test_publication_takes_no_files_word() -> None:
    """A computed ciphertext re-signed as fresh would be published with a fresh one's noise; so would an honest fresh one."""
    p = ckks_rig.party()
    x = p.tensor(np.full(ckks_rig.SLOTS, 0.5))
    for said in (reloaded(x * x, fresh=True, noise=None), reloaded(x), reloaded(x * x, noise=[0]), x + reloaded(x)):
        assert said.precision is None
        with pytest.raises(hg.NoiseError, match="not known"):
            p.secret.decrypt(said, publish_bits=4)
        assert p.secret.decrypt(said, publish_bits=4, precision=20).shape == (ckks_rig.SLOTS,)
    assert p.secret.decrypt(x * x, publish_bits=4).shape == (ckks_rig.SLOTS,)


@EXACT
def test_what_is_called_fresh_is_measured(scheme: str) -> None:
    """An exhausted ciphertext re-signed as fresh: its noise is far beyond a fresh one's, whatever values it has."""
    secret, keys, *_ = own(scheme)
    x = hg.Server(keys).bind(secret.encrypt(np.full(N, 3)))
    for _ in range(400):
        x = x + x
        if x._core.noise_budget < -1:
            said = reloaded(x, fresh=True, noise=None)
            assert said.noise_budget > 200
            assert not said.vouched
            assert secret.noise_budget(said) == 0
            with pytest.raises(hg.NoiseError):
                secret.decrypt(said)


@EXACT
def test_answers_keep_their_estimate(scheme: str) -> None:
    """The same to a sixteenth of a bit; a server chooses levels by it, and so does `shrink`."""
    secret, _, _, x = own(scheme)
    y = hg.relinearize(x * x)
    again = reloaded(y)
    assert y.noise_budget - 1 / 16 <= again.noise_budget <= y.noise_budget
    assert again.to_bytes() == y.to_bytes()
    assert hg.shrink(again).level == hg.shrink(y).level < y.level
    assert (again * again).level == (y * y).level
    t = secret.parameters.plain_modulus
    np.testing.assert_array_equal(secret.decrypt(hg.shrink(again)) % t, np.arange(N) ** 2 % t)


def test_the_readmes_flow(tmp_path: Path) -> None:
    """A request that was loaded is computed on and shrunk; the answer decrypts."""
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
def test_figures_that_cannot_be(scheme: str, wrong: Any) -> None:
    """Whole numbers, as many as there are parts, 0 to 2^20."""
    *_, x = own(scheme)
    for field in ["noise", "ranges"] if scheme == "ckks" else ["noise"]:
        assert reloaded(x + 1, **{field: parse((x + 1).to_bytes()).header[field]}).slots == x.slots
        with pytest.raises(hg.DamagedFileError):
            reloaded(x + 1, **{field: wrong})


@SCHEMES
def test_fields_of_another_version(scheme: str) -> None:
    """A fresh ciphertext has no figure of noise, a file of format 1 none at all."""
    *_, x = own(scheme)
    with pytest.raises(hg.DamagedFileError):
        reloaded(x, noise=[100] * (1 if scheme == "ckks" else 2))
    old = dataclasses.replace(parse((x + 1).to_bytes()), version=1)
    with pytest.raises(hg.DamagedFileError):
        hg.Server(x._keys).from_bytes(build(old))


def as_version_1(data: bytes) -> bytes:
    """The same as format 1 has it: no figures, and the set's name under its hash."""
    c = parse(data)
    header = {k: v for k, v in c.header.items() if k not in ("noise", "bound", "ranges")}
    header["parameter_hash"] = hashlib.sha256(canonical(header["parameters"])).hexdigest()
    return build(Container(c.type, header, c.arrays, 1))


@SCHEMES
def test_equal_numbers_are_one_set(scheme: str) -> None:
    """Whatever they are called, and whether or not they were called insecure: objects of both belong together."""
    if scheme == "ckks":
        spec, make, key = hg.ckks.parameters("n13-l4")._core.spec, _core.CkksParameters, _core.CkksSecretKey
        wrap: Any = hg.ckks.Parameters
        name = "n13-l4"
    else:
        name = {"bfv": "hcnn5", "bgv": "bgv-n14"}[scheme]
        spec, make, key = getattr(hg, scheme).parameters(name)._core.spec, _core.Parameters, _core.SecretKey
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
    """A secret key of a scheme."""
    core = key.generate(parameters._core)
    return hg.ckks.SecretKey(core) if isinstance(core, _core.CkksSecretKey) else hg.SecretKey(core)


@SCHEMES
def test_files_of_format_1_with_a_name(scheme: str) -> None:
    """Their hash is taken with the name: they load all the same, into the same set. Format 2 takes it without."""
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
