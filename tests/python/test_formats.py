"""Known answers: files of format 1 that stay readable, and whose bytes follow from their seed on every device.

`python tests/python/test_formats.py` writes the files of a new version; those of an old one are never written again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import rigs
from heliograph import _core
from model import Model, build, parse
from rigs import N

DATA = Path(__file__).with_name("data") / "format-v1"
SEED = b"a seed for known answers, public"
VALUES = np.arange(-512, 512)

# SHA-256 of each file. One that changes is a change of the format or of a draw: bump the version.
DIGESTS: dict[str, str] = {
    "secret-key-w32.hg": "0fcdf958d51f648b623e293b1bb2b3a5ca6080ade437cfc1a767f4ec1d03cd15",
    "evaluation-keys-w32.hg": "d3ae65ac49dad259f424321992a95bf8e8fbb6e056a7386e3fa676ebabfaef47",
    "ciphertext-w32.hg": "b31e93c51a9f3e4a312538131c23657def5d7641d5f94e4f77cf2ff0287bd627",
    "degree-two-w32.hg": "6c74e495637387678da224ab15c4725d12d16597e08c2d5913e03df12c029a9a",
    "public-key-w32.hg": "818e6e585f9a409410d62c3615a05f5aef7c0e4bcdd15e7ad2d222c2419ea009",
    "secret-key-w64.hg": "b8baa7dbe430c685618d2635419f89a54e052a8565eb8a4fc5002100ed1b3247",
    "evaluation-keys-w64.hg": "54e87da05e186b34cd18e748cb922fdb26ce4b7f2a65532a97bd7d9ff84311b0",
    "ciphertext-w64.hg": "5649382cc7b4480594c66728139e6fae965e5e641a272a4cefe9bcd29f3e47e9",
    "degree-two-w64.hg": "a431a9fcfee4da88b655aa27b7e8d9387d3f9bad7e69696550b2cd3907dd5758",
    "public-key-w64.hg": "c64dbe1734bc60b11721427dfd9e5fbd4f8d4533692e792c904935483c02c602",
}


def small_set(edition: str, moduli: list[int], special: int) -> hg.bfv.Parameters:
    """One prime or two: small files."""
    log_q = 56 if edition == "w32" else 50
    return hg.bfv.Parameters(_core.Parameters(_core.make_spec(N, log_q, special, moduli, edition, 0, True)))


@functools.cache
def made(edition: str) -> dict[str, Any]:
    """One object of each kind from the seed, in this order of draws."""
    secret = rigs.secret_for_test(small_set(edition, [12289] if edition == "w32" else [257, 769], 1), SEED)
    wide = edition == "w64"
    packing = {"coefficients": 0} if wide else {"slots": 0}
    keys = secret.evaluation_keys(rotations=[] if wide else [3])
    x = secret.encrypt(VALUES, **packing)
    return {
        f"secret-key-{edition}.hg": secret,
        f"evaluation-keys-{edition}.hg": keys,
        f"ciphertext-{edition}.hg": x,
        f"degree-two-{edition}.hg": hg.shrink(hg.square(x), 1 if wide else 2),
        f"public-key-{edition}.hg": secret.public_key(),
    }


def all_made() -> dict[str, Any]:
    """Both editions."""
    return made("w32") | made("w64")


@pytest.mark.parametrize("name", DIGESTS)
def test_known_file(name: str, tmp_path: Path) -> None:
    """Its digest, and the same bytes made again from the seed."""
    data = (DATA / name).read_bytes()
    assert hashlib.sha256(data).hexdigest() == DIGESTS[name]
    all_made()[name].save(tmp_path / name)
    assert (tmp_path / name).read_bytes() == data
    assert build(parse(data)) == data


def test_nothing_is_forgotten() -> None:
    """Each file has a digest and each digest a file; together they stay small."""
    files = list(DATA.iterdir())
    assert {f.name for f in files} == set(DIGESTS) == set(all_made())
    assert sum(f.stat().st_size for f in files) < 200_000


@pytest.mark.parametrize("edition", ["w32", "w64"])
def test_old_files_are_read(edition: str) -> None:
    """What the files hold: keys that decrypt the ciphertexts, and evaluation keys that compute on them."""
    secret = hg.SecretKey.load(DATA / f"secret-key-{edition}.hg")
    keys, x = hg.load(DATA / f"evaluation-keys-{edition}.hg"), hg.load(DATA / f"ciphertext-{edition}.hg")
    public, product = hg.load(DATA / f"public-key-{edition}.hg"), hg.load(DATA / f"degree-two-{edition}.hg")
    assert isinstance(keys, hg.EvaluationKeys)
    assert isinstance(public, hg.PublicKey)
    assert isinstance(x, hg.Tensor)
    assert isinstance(product, hg.Tensor)
    assert secret.id == keys.id == public.id == x.key_id == product.key_id
    assert (product.degree, x.degree) == (2, 1)
    assert product.noise_budget is None  # files carry no noise
    assert x.noise_budget is not None
    np.testing.assert_array_equal(secret.decrypt(x), VALUES)
    clear = rigs.Clear(VALUES, secret.parameters.plain_modulus, "slots" if edition == "w32" else "coefficients")
    np.testing.assert_array_equal(secret.decrypt(product), (clear * clear).centred())
    server = hg.Server(keys)
    again = server.load(DATA / f"ciphertext-{edition}.hg")
    assert hg.relinearize(again * again).degree == 1
    packing = {"coefficients": 0} if edition == "w64" else {}
    np.testing.assert_array_equal(secret.decrypt(public.encrypt(VALUES, **packing)), VALUES)
    if edition == "w32":
        np.testing.assert_array_equal(
            secret.decrypt(hg.rotate_rows(again, 3)), np.roll(VALUES.reshape(2, -1), -3, axis=1).ravel()
        )


@pytest.mark.parametrize("edition", ["w32", "w64"])
def test_the_model_knows_the_files(edition: str) -> None:
    """The secret's coefficients and the ciphertext's words, from the seed, by the model alone."""
    files = {n: parse((DATA / f"{n}-{edition}.hg").read_bytes()) for n in ("secret-key", "ciphertext", "evaluation-keys")}
    parameters = files["ciphertext"].header["parameters"]
    spec = _core.Spec()
    for field in ("n", "chain", "special", "auxiliary", "digits", "plain_moduli", "slots"):
        setattr(spec, field, parameters[field])
    model = Model(spec, SEED)
    np.testing.assert_array_equal(files["secret-key"].arrays["secret"], model.secret.astype(np.int8))
    assert files["secret-key"].header["key"] == model.key_id
    model.evaluation_keys([] if edition == "w64" else [3], columns=False)
    assert model.relinearization is not None
    assert files["evaluation-keys"].header["relinearization"] == model.relinearization.seed.hex()
    cipher = model.encrypt(VALUES, "slots" if edition == "w32" else "coefficients")
    for part, words in enumerate(cipher.words()):
        np.testing.assert_array_equal(files["ciphertext"].arrays[f"part{part}"], words[:1])


@pytest.mark.parametrize("name", DIGESTS)
def test_inspect(name: str) -> None:
    """What a file is, without its words."""
    told = json.loads(_core.inspect(str(DATA / name)))
    assert told["type"] == f"heliograph.bfv.{_core.kind_of(str(DATA / name))}"
    assert told["file_bytes"] == (DATA / name).stat().st_size
    assert told["header"]["parameters"]["n"] == N


def write() -> None:
    """Writes the files and prints their digests."""
    DATA.mkdir(parents=True, exist_ok=True)
    for name, thing in all_made().items():
        save: Callable[[Path], None] = thing.save
        save(DATA / name)
        (DATA / name).chmod(0o644)
        print(f'    "{name}": "{hashlib.sha256((DATA / name).read_bytes()).hexdigest()}",')


if __name__ == "__main__":
    sys.exit(write())
