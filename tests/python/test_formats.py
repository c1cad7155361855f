"""Known answers: files of formats 1 to 3 remain readable, and on every device the seed determines their bytes.

`python tests/python/test_formats.py` writes missing files and never overwrites existing ones.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import rigs
from heliograph import _core
from model import KEY_MASK, MASK, Model, build, centred, crt, from_ntt, parse, times, turned, uniform
from rigs import N

DATA = Path(__file__).with_name("data")
SEED = b"a seed for known answers, public"
VALUES = np.arange(-512, 512)

# The SHA-256 of each file. If a digest changes, the format or a random draw has changed. Then the version must be increased.
DIGESTS_1: dict[str, str] = {
    "secret-key-w32.hg": "0fcdf958d51f648b623e293b1bb2b3a5ca6080ade437cfc1a767f4ec1d03cd15",
    "evaluation-keys-w32.hg": "d3ae65ac49dad259f424321992a95bf8e8fbb6e056a7386e3fa676ebabfaef47",
    "ciphertext-w32.hg": "b31e93c51a9f3e4a312538131c23657def5d7641d5f94e4f77cf2ff0287bd627",
    "degree-two-w32.hg": "6c74e495637387678da224ab15c4725d12d16597e08c2d5913e03df12c029a9a",
    "public-key-w32.hg": "818e6e585f9a409410d62c3615a05f5aef7c0e4bcdd15e7ad2d222c2419ea009",
    "bgv-secret-key-w32.hg": "8b1ec492709ab9073ead1d87fa5c414f3f8b30b29b4416356ceec4552bd0db8b",
    "bgv-ciphertext-w32.hg": "04631c15bdc29de5bfb6a021783bad4cc577316347cbe42e1e07ebaae68c9d5b",
    "bgv-switched-w32.hg": "1ccd419be2321ce86bf34c2aec42ddc8557f173501f9d4b33e2c69aef5564cd7",
    "bgv-evaluation-keys-w32.hg": "60373d7b46426ca84e5ac168ac196b32374028dc10cd5795a3b4e40f3b1d7471",
    "bgv-product-w32.hg": "3e7f0bea893547ee08fada70cd488634671132aae57f1e46862d723eda568828",
    "ckks-secret-key-w32.hg": "b5c931f074d7cf125687231b0e0a2a3c421ebfe31899a9ca47ad295bb59e2d13",
    "ckks-evaluation-keys-w32.hg": "ac159a9844e5eca84d4cc396febd101050e69ef67692bce7fc1d20c5d4367728",
    "ckks-ciphertext-w32.hg": "c7d57b575724f8a4e3135091d39ecca1596add8cda5e6e481088406766c23396",
    "ckks-product-w32.hg": "2750c25e2bf91a98bb65ebd1ba2358ce4e6ed357b5c156d278664a4ed9b044b0",
    "ckks-degree-two-w32.hg": "49b78c1f15108ca8d05a12f80177bce05396b3b137a5fb956b1a573502f432eb",
    "ckks-public-key-w32.hg": "a1ec6a487540f11a8c59f76ce17d56e0fa9661d22b1258ff443f5fceef453d1b",
    "secret-key-w64.hg": "b8baa7dbe430c685618d2635419f89a54e052a8565eb8a4fc5002100ed1b3247",
    "evaluation-keys-w64.hg": "54e87da05e186b34cd18e748cb922fdb26ce4b7f2a65532a97bd7d9ff84311b0",
    "ciphertext-w64.hg": "5649382cc7b4480594c66728139e6fae965e5e641a272a4cefe9bcd29f3e47e9",
    "degree-two-w64.hg": "a431a9fcfee4da88b655aa27b7e8d9387d3f9bad7e69696550b2cd3907dd5758",
    "public-key-w64.hg": "c64dbe1734bc60b11721427dfd9e5fbd4f8d4533692e792c904935483c02c602",
    "bgv-secret-key-w64.hg": "1c174d7f8baa146105e8d5b19d575383690f2b6dd196fbce1e951dba1d8a14fc",
    "bgv-ciphertext-w64.hg": "678c1441a866a018a3e24aa8fad7a8a062be20d2505440b5293a94fefe81ea5d",
    "bgv-switched-w64.hg": "627b240f55f7e529d58526495cae13cec882b53aa18f8f8d3cd89a637304cb7f",
    "ckks-secret-key-w64.hg": "1506aabb2f151ac28a28becd815c5dbe2a06ff49a97ea6bdff96c10510b9fc13",
    "ckks-evaluation-keys-w64.hg": "810f124bea7593caed6425a77354d6719c2b0f96bdac2b746d7ac8e54f5a3ad3",
    "ckks-ciphertext-w64.hg": "5bd6d9542b1434d71f72866171504491c6594ef8361c91de3defa57707835c33",
    "ckks-product-w64.hg": "e1f8e83735045b11874da55c1f58f1ddade750fce708e16fbe9dcc9ab5e4ad24",
    "ckks-public-key-w64.hg": "8142d646c40295dd24ce49e734e9c59a1f3f3b1eb0a1e02cf70893922f7ecf1a",
}
DIGESTS_2: dict[str, str] = {
    "secret-key-w32.hg": "59a15c7577fe8a19d470706e44031f0549ab12ecb7911bcd3bf5ba5c118cbce1",
    "evaluation-keys-w32.hg": "e2153a7ee70f25a6f4becf30493a7718d19903b6a99886e750fe6654727130ae",
    "ciphertext-w32.hg": "92bdb35e8abf63c454209fe37542b322f24a654972cd5b4ba71ac93460a96023",
    "degree-two-w32.hg": "720f54462f1f6b20f13dbfb2f5bf439ca5dfcc6b061385a1e202adf4be967ea6",
    "public-key-w32.hg": "c88c8f0a26767d7e484619e85815a742b413fa9171718dec6e83151cc4082a76",
    "bgv-secret-key-w32.hg": "ba568304d7ff4e212883a210a63402a59e21983e79a71a8029bb96fa7fd2cafc",
    "bgv-ciphertext-w32.hg": "27356498807f3ed98ca4677ebd00818404987147a32651b3c4f8bb2993aa3154",
    "bgv-switched-w32.hg": "ca911c27d88755e5b3ac95d6039ee4b17787035604678a61ccb0474296b6092f",
    "bgv-evaluation-keys-w32.hg": "c067e55bb40519fa09da477f6ca902b26e8f8a5108be9071e2e21d7ee5430200",
    "bgv-product-w32.hg": "98f4ea0dce8589078a086083bc54130395217004dc442b6a04766ee7de40a40a",
    "ckks-secret-key-w32.hg": "474ee2e695ccd79159c7d9868f87396a62d44940834ac8f64677f99b7f0cbb71",
    "ckks-evaluation-keys-w32.hg": "86e426ab6bf1e67a99db8ca72121a198672e182e6e58b36f3403eaa3f057823f",
    "ckks-ciphertext-w32.hg": "c7cf0373dce7648f37099753864eae1c788d83958da74ffeacfb9b8bbe3d61b8",
    "ckks-product-w32.hg": "28615eda0954f06447a8045d1a093fcee4ca9da73db26765d47a01af1fdc71df",
    "ckks-public-key-w32.hg": "45104b2dc9008d07eae94f6bf646938d74495b611724476712e46feb43615312",
    "ckks-public-key-divides-w32.hg": "39cdbd871262b950f1991d48db6904a29a1b02b23406f9fea523fe9e8c7985ec",
    "ckks-degree-two-w32.hg": "442736705fbc9c8bc007e3e51e54b367e9df87586e6c46450a81863006b86098",
    "secret-key-w64.hg": "65a185fe14d088d4ffb432d68a9c6f05d4d5c74586dcec6efe18570229b7363e",
    "evaluation-keys-w64.hg": "0cfe94ef5fff9d82a7a030d2c232101bdf9699bfad2e0470c11cc7ca50ba1758",
    "ciphertext-w64.hg": "c0fc56fcc090f8c545e8514ac40b52b0278b54b632641ce6416f5fa1367b1e2c",
    "degree-two-w64.hg": "83fe71a79ec990f53641f81e564fbba47185940b34b277272cfa596a51d7d90c",
    "public-key-w64.hg": "c739d5ff6aa4495b0647efdf61bec2b5477a38729c9a3ea82349094c37f1621f",
    "bgv-secret-key-w64.hg": "988d03620a9a3f1733ddfd7895111645cea6bacb7c3fadb4b2ebee0b47cd446b",
    "bgv-ciphertext-w64.hg": "ab9bfa18d58f33ba6b81a4be0c19712aed74529007a8e5eeabae8258304c5f43",
    "bgv-switched-w64.hg": "252643e80d36c59ce68a3c17363686b7814a71f4cbb0bdc598e9216062e1f737",
    "ckks-secret-key-w64.hg": "581f5994855f623eccf1592e9dac8a0ad4fc8b711e89eba7f329132d0167717e",
    "ckks-evaluation-keys-w64.hg": "40c6571525b4527b08b584b9f786e7a00119109bc6306562d148694243421720",
    "ckks-ciphertext-w64.hg": "984d6b7647f80c2edfac6e08c2af6ad0bb5e8ae5a38576455498ea5bba6d4546",
    "ckks-product-w64.hg": "b4f2613ceaa026f66bcfe4481b766a57b07c2c3fe4686e157bda61917143a4a9",
    "ckks-public-key-w64.hg": "992c5badab38997aad9e56ea8dec262b322d330407c00a8081591c5150f58992",
    "ckks-public-key-divides-w64.hg": "edd441532b0a95859e73f70d801e04460a1508825d9426ad3f082ecdfd4efc49",
}
DIGESTS_3: dict[str, str] = {
    "secret-key-w32.hg": "5c0712364a7389390bb57aaeeb254376077b4c2b597b72fb2e0bf9ae929dd370",
    "evaluation-keys-w32.hg": "c4b78cd067cb5ce38d73168fbfa23f6bdab50ebf43a6e31566c187443cbb56ae",
    "ciphertext-w32.hg": "7ca1e2e431f0f9d373c50927b0090f919e906c1475b21ee41d157d198aab16fd",
    "degree-two-w32.hg": "f38391f54d3b1bfe6e1281c73870f10d44c44d7483a90e3eb09a6a606318c958",
    "public-key-w32.hg": "bcbe461bc6232046bf1acc20ede60de588fb78671fe60c5d2d9235c6c9ee180c",
    "bgv-secret-key-w32.hg": "c26b644c980855ee52280f60c71d997e0b4457d78e781da8679bf09f3747e235",
    "bgv-ciphertext-w32.hg": "4b0425d16e34e312730aa5372f248e50d508acaca05fa3a1b723b06ac0d531d2",
    "bgv-switched-w32.hg": "2b9c5c52d8fffc57d88b5d43e771682f763d0ca9c582328312c77393698fad0c",
    "bgv-evaluation-keys-w32.hg": "115affe1aa7f7980e0a9d807409a301c409582e5943f2e851ba651f36f1b6c9e",
    "bgv-product-w32.hg": "3a693775060f84621f91f899b2a30f890031db7e720a8e46d57a1b3504d4defb",
    "ckks-secret-key-w32.hg": "9b5ff816cd2a921977884b166daf7203c2276f319cd8ab0ac3c1c4b682af00da",
    "ckks-evaluation-keys-w32.hg": "e94b83249e0193d2049968e78ca0fc0b8bac352c76db4de60a9c640411502af5",
    "ckks-ciphertext-w32.hg": "edcf93152c42681126a49f64565eeffb891e76a9081e70c632182217cb79caeb",
    "ckks-product-w32.hg": "c0464a5fc84d1d63a528aa9b6cc20942e3c6d410a23a6bb68b48dcd7de2450f7",
    "ckks-public-key-divides-w32.hg": "a0a482441d7e24dd8f753855922de7860f881942b7d7c7a52e9e898cfafa5d84",
    "ckks-public-key-w32.hg": "39636ab3ad4dcd17a36871dd3a2e0a85f886249b7a70e8e529d1aa649be9a2a6",
    "ckks-degree-two-w32.hg": "83fbdffebe641699a60b114e3ecdd5a00d1647d995f44128041ddbc01151157e",
    "secret-key-w64.hg": "9e86b0667ad2f86fbd89d5fb1db5aaef7f3aa6436886cc4319f4c7d479813827",
    "evaluation-keys-w64.hg": "5b2e366edb002626dfe0212a234d3bfc4aee2c4e582be4283dea6909567aa083",
    "ciphertext-w64.hg": "fa7e311e2a54973081100f5b3a0f85112eca320554755cb55b97d7858061ba4c",
    "degree-two-w64.hg": "20e99029f5a4ebf50ef9e931d5f57f0debccaf17742e4640518b30d8cf0cc459",
    "public-key-w64.hg": "00ce70ee75ac7e1f5b46da2dfb87ef1facae82dd4747f7b4acee23f3e27c99a2",
    "bgv-secret-key-w64.hg": "6f965ab0b0e8f049586363794584d0d1e475c413ce2eb1236dbd4cd1a9e12916",
    "bgv-ciphertext-w64.hg": "6014185e7a90ebd6551229c981aaa3f5ad1b98e8affe830db26acdf2b84025ba",
    "bgv-switched-w64.hg": "b6332712c0234058d832843b72e496306328c02dfc9d2859bea611084b2bb707",
    "ckks-secret-key-w64.hg": "770a1fb96a50b926ca4a983982ab4068e14684f5e597bd7111dfcdcec884a66c",
    "ckks-evaluation-keys-w64.hg": "ee1c7611d465cdd692d427328c5a3badc3e15a9eb057253561ce2a0accd86caf",
    "ckks-ciphertext-w64.hg": "2cdc048887768d0b9ac5fd20ecb515683f2b7969656a9d5fffeb6ef5f62bfbe3",
    "ckks-product-w64.hg": "65fd8ac22f6ca462c3b812905c924e6050408d5482891792aa79171e9eda6eb3",
    "ckks-public-key-divides-w64.hg": "a79948b4ae1b105514471614a125e2e3a3eb781dbc6183a78b13c9bf8d9cd580",
    "ckks-public-key-w64.hg": "b09315c526c79f627bd57432be455f5b62ac3c9c055a88ed80fcf902a82cde2f",
}
DIVIDES = "ckks-public-key-divides"  #: the public key also has the special primes, which format 1 lacks
DIGESTS = {1: DIGESTS_1, 2: DIGESTS_2, 3: DIGESTS_3}
FILES = [(version, name) for version, digests in DIGESTS.items() for name in digests]
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


def folder(version: int) -> Path:
    """Returns the folder of a version's files."""
    return DATA / f"format-v{version}"


def small_set(word_size: int, moduli: list[int], special: int) -> hg.bfv.Parameters:
    """Returns a set of one or two primes, so its files are small."""
    log_q = 56 if word_size == 32 else 50
    return hg.bfv.Parameters(_core.exact.Parameters(_core.exact.make_spec(N, log_q, special, moduli, word_size, 0, True)))


@functools.cache
def made(word_size: int) -> dict[str, Any]:
    """Returns one object of each kind; they are drawn from the seed in this order."""
    secret = rigs.secret_for_test(small_set(word_size, [12289] if word_size == 32 else [257, 769], 1), SEED)
    wide = word_size == 64
    packing = {"coefficients": 0} if wide else {"slots": 0}
    keys = secret.evaluation_keys(rotations=[] if wide else [3])
    x = secret.encrypt(VALUES, **packing)
    return {
        f"secret-key-w{word_size}.hg": secret,
        f"evaluation-keys-w{word_size}.hg": keys,
        f"ciphertext-w{word_size}.hg": x,
        f"degree-two-w{word_size}.hg": hg.shrink(hg.square(x), 1 if wide else 2),
        f"public-key-w{word_size}.hg": secret.public_key(),
    }


@functools.cache
def made_bgv(word_size: int) -> dict[str, Any]:
    """Returns BGV's objects, with a tensor whose factor is not 1."""
    if word_size == 32:
        spec = _core.exact.make_spec(N, 84, 3, [12289], word_size, 0, True, "bgv")
    else:
        spec = _core.exact.make_spec(N, 100, 2, [257, 769], word_size, 0, True, "bgv")
    secret = rigs.secret_for_test(hg.bgv.Parameters(_core.exact.Parameters(spec)), SEED)
    keys = secret.evaluation_keys(rotations=[3] if word_size == 32 else [])
    x = hg.Server(keys).bind(secret.encrypt(VALUES, **({"slots": 0} if word_size == 32 else {"coefficients": 0})))
    found = {
        f"bgv-secret-key-w{word_size}.hg": secret,
        f"bgv-ciphertext-w{word_size}.hg": x,
        f"bgv-switched-w{word_size}.hg": hg.shrink(hg.relinearize(x * 2), 2 if word_size == 32 else 1),
    }
    if word_size == 32:
        square = hg.relinearize(hg.Tensor(_core.exact.multiply(x._core, x._core, None), keys))
        found |= {"bgv-evaluation-keys-w32.hg": keys, "bgv-product-w32.hg": hg.shrink(square, 2)}
    return found


REALS = np.linspace(-1, 1, 16)


@functools.cache
def made_ckks(word_size: int) -> dict[str, Any]:
    """Returns CKKS's objects. With 32-bit words, the primes of a level are not the first primes of the level above."""
    parameters = hg.ckks.parameters(n=N, levels=2, log_scale=30, base_bits=40, special=2, slots=16, insecure=True)
    if word_size == 32:
        primes = sorted(_core.exact.batching_primes(N, 27 * 2, 2)) + _core.exact.batching_primes(N, 29 * 4, 4)
        spec = parameters._core.spec
        spec.word_size, spec.chain, spec.special, spec.digits = 32, primes[:3], primes[3:], [3]
        spec.levels, spec.log_scale = [[2], [0, 1]], 26.0
        parameters = hg.ckks.Parameters(_core.ckks.Parameters(spec))
    secret = hg.ckks.SecretKey(_core.ckks.SecretKey.generate_for_test(parameters._core, SEED))
    keys = secret.evaluation_keys(rotations=[] if word_size == 32 else [3])
    x = hg.Server(keys).bind(secret.encrypt(REALS, bound=1))
    found = {
        f"ckks-secret-key-w{word_size}.hg": secret,
        f"ckks-evaluation-keys-w{word_size}.hg": keys,
        f"ckks-ciphertext-w{word_size}.hg": x,
        f"ckks-product-w{word_size}.hg": x * x,
        f"{DIVIDES}-w{word_size}.hg": secret.public_key(),
        f"ckks-public-key-w{word_size}.hg": hg.load(
            folder(2) / f"ckks-public-key-w{word_size}.hg"
        ),  # a public key in the form of format 2
    }
    if word_size == 32:
        found["ckks-degree-two-w32.hg"] = hg.ckks.multiply(x, x, relinearize=False, rescale=False)
    return found


def all_made() -> dict[str, Any]:
    """Returns the objects of every scheme and word size."""
    found: dict[str, Any] = {}
    for word_size in (32, 64):
        found |= made(word_size) | made_bgv(word_size) | made_ckks(word_size)
    return found


@pytest.mark.parametrize(("version", "name"), FILES)
def test_known_file(version: int, name: str, tmp_path: Path) -> None:
    """The file has the known digest, and the seed gives the same bytes. In older formats, only the numbers for noise and
    bounds differ.

    """
    data = (folder(version) / name).read_bytes()
    assert hashlib.sha256(data).hexdigest() == DIGESTS[version][name]
    all_made()[name].save(tmp_path / name)
    again, kept = (tmp_path / name).read_bytes(), parse(data)
    assert build(kept) == data

    def plain(container: Any) -> bytes:
        """Returns the container without the header's fields for noise and bounds."""
        header = {k: v for k, v in container.header.items() if k not in ("noise", "bound", "ranges")}
        return build(dataclasses.replace(container, header=header, version=version))

    assert again == data if version == max(DIGESTS) else plain(parse(again)) == plain(kept)


def test_files_and_digests_match() -> None:
    """Every file has a digest, every digest has a file, and the files are small."""
    for version, digests in DIGESTS.items():
        files = list(folder(version).iterdir())
        later = {name for name in all_made() if name.startswith(DIVIDES)} if version == 1 else set()
        assert {f.name for f in files} == set(digests) == set(all_made()) - later
        assert sum(f.stat().st_size for f in files) < 640_000


@VERSIONS
@pytest.mark.parametrize("word_size", [32, 64])
def test_old_files_are_read(version: int, word_size: int) -> None:
    """Old keys decrypt old ciphertexts, and old evaluation keys compute on them."""
    secret = hg.SecretKey.load(folder(version) / f"secret-key-w{word_size}.hg")
    keys, x = (
        hg.load(folder(version) / f"evaluation-keys-w{word_size}.hg"),
        hg.load(folder(version) / f"ciphertext-w{word_size}.hg"),
    )
    public, product = (
        hg.load(folder(version) / f"public-key-w{word_size}.hg"),
        hg.load(folder(version) / f"degree-two-w{word_size}.hg"),
    )
    assert isinstance(keys, hg.EvaluationKeys)
    assert isinstance(public, hg.PublicKey)
    assert isinstance(x, hg.Tensor)
    assert isinstance(product, hg.Tensor)
    assert secret.id == keys.id == public.id == x.key_id == product.key_id
    assert (product.degree, x.degree) == (2, 1)
    assert (product.noise_budget is None) == (version == 1)  # version 1 has no noise estimate
    assert x.noise_budget is not None
    assert not x.is_trusted
    assert not product.is_trusted
    assert (x.fresh, product.fresh) == (True, False)
    np.testing.assert_array_equal(secret.decrypt(x), VALUES)
    clear = rigs.Clear(VALUES, secret.parameters.plain_modulus, "slots" if word_size == 32 else "coefficients")
    np.testing.assert_array_equal(secret.decrypt(product), (clear * clear).centred())
    server = hg.Server(keys)
    again = server.load(folder(version) / f"ciphertext-w{word_size}.hg")
    assert hg.relinearize(again * again).degree == 1
    packing = {"coefficients": 0} if word_size == 64 else {}
    np.testing.assert_array_equal(secret.decrypt(public.encrypt(VALUES, **packing)), VALUES)
    if word_size == 32:
        np.testing.assert_array_equal(
            secret.decrypt(hg.rotate_rows(again, 3)), np.roll(VALUES.reshape(2, -1), -3, axis=1).ravel()
        )


@VERSIONS
@pytest.mark.parametrize("word_size", [32, 64])
def test_old_files_of_bgv_are_read(version: int, word_size: int) -> None:
    """Old BGV files are read with their correction factors, and products and rotations of them are correct."""
    secret = hg.SecretKey.load(folder(version) / f"bgv-secret-key-w{word_size}.hg")
    assert secret.parameters.scheme == "BGV"
    x, switched = (hg.load(folder(version) / f"bgv-{name}-w{word_size}.hg") for name in ("ciphertext", "switched"))
    assert parse((folder(version) / f"bgv-switched-w{word_size}.hg").read_bytes()).header["factors"] != [1] * len(
        x.plain_moduli
    )
    clear = rigs.Clear(VALUES, secret.parameters.plain_modulus, "slots" if word_size == 32 else "coefficients")
    np.testing.assert_array_equal(secret.decrypt(x), VALUES)
    np.testing.assert_array_equal(secret.decrypt(switched), (clear * 2).centred())
    np.testing.assert_array_equal(secret.decrypt(switched - x), VALUES)
    if word_size == 32:
        product, server = (
            hg.load(folder(version) / "bgv-product-w32.hg"),
            hg.Server(hg.load(folder(version) / "bgv-evaluation-keys-w32.hg")),
        )
        np.testing.assert_array_equal(secret.decrypt(product), (clear * clear).centred())
        np.testing.assert_array_equal(secret.decrypt(hg.relinearize(server.bind(x) * x)), (clear * clear).centred())
        np.testing.assert_array_equal(
            secret.decrypt(hg.rotate_rows(server.bind(x), 3)), np.roll(VALUES.reshape(2, -1), -3, axis=1).ravel()
        )


@VERSIONS
@pytest.mark.parametrize("word_size", [32, 64])
def test_old_files_of_ckks_are_read(version: int, word_size: int) -> None:
    """Old CKKS files are read with their scales, levels and keys, and the tensors can be used in computations."""
    secret = hg.SecretKey.load(folder(version) / f"ckks-secret-key-w{word_size}.hg")
    assert isinstance(secret, hg.ckks.SecretKey)
    names = ("ciphertext", "product", "public-key", "evaluation-keys")
    x, product, public, keys = (hg.load(folder(version) / f"ckks-{name}-w{word_size}.hg") for name in names)
    assert isinstance(public, hg.ckks.PublicKey)
    assert isinstance(keys, hg.ckks.EvaluationKeys)
    assert secret.id == keys.id == public.id == x.key_id == product.key_id
    assert (x.level, product.level) == (2, 1)
    assert (x.degree, product.degree) == (1, 1)
    assert x.scale == x.parameters.scale(x.level)
    assert product.precision is None  # bounds from files are not trusted
    assert x.precision is None
    near: dict[str, Any] = {"rtol": 0, "atol": 1e-3}
    for tensor, expected in ((x, REALS), (product, REALS**2), (public.encrypt(REALS), REALS)):
        np.testing.assert_allclose(secret.decrypt(tensor, unchecked=version < 3), expected, **near)
    if version < 3:  # older files have no range or the room as range, which a square exceeds
        with pytest.raises(hg.RoomError):
            secret.decrypt(product)
    bound = hg.Server(keys).bind(x)
    np.testing.assert_allclose(secret.decrypt(bound * bound, unchecked=True), REALS**2, **near)
    if word_size == 32:
        two = hg.load(folder(version) / "ckks-degree-two-w32.hg")
        assert (two.degree, two.level, two.scale) == (2, 2, x.scale * x.scale)
        np.testing.assert_allclose(secret.decrypt(two, unchecked=version < 3), REALS**2, **near)
    else:
        turned_left = secret.decrypt(hg.ckks.rotate(bound, 3), unchecked=version < 3)
        np.testing.assert_allclose(turned_left, np.roll(REALS, -3), **near)


def parsed(version: int, word_size: int, scheme: str = "") -> dict[str, Any]:
    """Returns a key, a ciphertext and evaluation keys, parsed as docs/format.md describes."""
    kinds = ("secret-key", "ciphertext", "evaluation-keys")
    return {kind: parse((folder(version) / f"{scheme}{kind}-w{word_size}.hg").read_bytes()) for kind in kinds}


@VERSIONS
@pytest.mark.parametrize("word_size", [32, 64])
def test_the_model_computes_the_words_of_files(version: int, word_size: int) -> None:
    """The model alone computes the secret's coefficients and the ciphertext's words from the seed."""
    files = parsed(version, word_size)
    parameters = files["ciphertext"].header["parameters"]
    spec = _core.exact.Spec()
    for field in ("n", "chain", "special", "auxiliary", "digits", "plain_moduli", "slots"):
        setattr(spec, field, parameters[field])
    model = Model(spec, SEED)
    np.testing.assert_array_equal(files["secret-key"].arrays["secret"], model.secret.astype(np.int8))
    assert files["secret-key"].header["key"] == model.key_id
    model.evaluation_keys([] if word_size == 64 else [3], columns=False)
    assert model.relinearization is not None
    assert files["evaluation-keys"].header["relinearization"] == model.relinearization.seed.hex()
    cipher = model.encrypt(VALUES, "slots" if word_size == 32 else "coefficients")
    for part, words in enumerate(cipher.words()):
        np.testing.assert_array_equal(files["ciphertext"].arrays[f"part{part}"], words[:1])


@VERSIONS
@pytest.mark.parametrize("word_size", [32, 64])
def test_the_format_page_describes_ckks_files(version: int, word_size: int) -> None:
    """CKKS files can be decoded by docs/format.md alone. The test decodes the values at the 5^s-th roots, and the plaintexts
    of the rows of a rotation key.

    """
    files = parsed(version, word_size, "ckks-")
    cipher, keys = files["ciphertext"], files["evaluation-keys"]
    p, secret = cipher.header["parameters"], files["secret-key"].arrays["secret"].astype(object)
    primes = [(i, p["chain"][i]) for i in (p["levels"][-1] if p["levels"] else range(len(p["chain"])))]
    seed, moduli = bytes.fromhex(cipher.header["seed"]), [q for _, q in primes]
    mask = crt([uniform(seed, MASK, i, 0, 0, N, q) for i, q in primes], moduli)
    body = crt([from_ntt(w.astype(object), q) for w, q in zip(cipher.arrays["words"][0], moduli, strict=True)], moduli)
    phase = centred(body + times(mask, secret), math.prod(moduli)).astype(float)
    roots = np.exp(1j * np.pi / N * np.array([pow(5, s, 2 * N) for s in range(32)]))
    values = (roots[:, None] ** np.arange(N)) @ phase / cipher.header["scale"]
    np.testing.assert_allclose(values, np.tile(REALS, 2), atol=1e-3)

    galois = pow(5, 3, 2 * N)
    target = turned(secret, galois) if word_size == 64 else times(secret, secret)
    name = f"rotation{galois}" if word_size == 64 else "relinearization"
    found = keys.header["rotations"][str(galois)] if word_size == 64 else keys.header["relinearization"]
    moduli = [*p["chain"], *p["special"]]
    assert p["digits"] == [len(p["chain"])]  # there is one digit, so g is 1 modulo all of Q
    words, drawn = keys.arrays[name][0].astype(object), bytes.fromhex(found)
    body = crt([from_ntt(w, q) for w, q in zip(words, moduli, strict=True)], moduli)
    mask = crt([from_ntt(uniform(drawn, KEY_MASK, i, 0, 0, N, q), q) for i, q in enumerate(moduli)], moduli)
    error = centred(body + times(mask, secret) - math.prod(p["special"]) * target, math.prod(moduli))
    assert 0 < max(abs(error)) < 29  # the table's largest magnitude is 28


@pytest.mark.parametrize(("version", "name"), FILES)
def test_inspect(version: int, name: str) -> None:
    """inspect describes a file and shows none of its words."""
    told = json.loads(_core.container.inspect(str(folder(version) / name)))
    scheme = name.split("-")[0] if name.startswith(("bgv", "ckks")) else "bfv"
    if scheme == "ckks":
        assert told["type"] in {
            f"heliograph.ckks.{k}" for k in ("ciphertext", "secret-key", "public-key", "evaluation-keys")
        }
    else:
        assert told["type"] == f"heliograph.{scheme}.{_core.container.kind_of(str(folder(version) / name))}"
    assert told["file_bytes"] == (folder(version) / name).stat().st_size
    assert told["header"]["parameters"]["n"] == N


def write() -> None:
    """Writes missing files of the newest format and prints the digests of all files."""
    newest = folder(max(DIGESTS))
    newest.mkdir(parents=True, exist_ok=True)
    for name, thing in all_made().items():
        save: Callable[[Path], None] = thing.save
        if not (newest / name).exists():
            save(newest / name)
        (newest / name).chmod(0o644)
        print(f'    "{name}": "{hashlib.sha256((newest / name).read_bytes()).hexdigest()}",')


if __name__ == "__main__":
    sys.exit(write())
