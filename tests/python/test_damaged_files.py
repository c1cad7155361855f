"""Damaged or malicious files and bytes give typed errors: no crash, no wrong result."""

from __future__ import annotations

import copy
import functools
import hashlib
import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import rigs
from heliograph import _core
from model import Container, build, canonical, parse
from rigs import N

Damage = Callable[[Container], None]


@functools.cache
def secret() -> hg.SecretKey:
    """Returns a key of the smallest set."""
    spec = _core.exact.make_spec(N, 54, 1, [12289], 32, 0, True)
    return hg.SecretKey.generate(hg.bfv.Parameters(_core.exact.Parameters(spec)))


@functools.cache
def original(kind: str) -> bytes:
    """Returns a file of this kind."""
    x = secret().encrypt(np.arange(2 * N).reshape(2, N))
    keys = secret().evaluation_keys(rotations=[1], columns=True)
    made: dict[str, Callable[[], bytes]] = {
        "seeded": x.to_bytes,
        "public": secret().public_key().encrypt(np.arange(N)).to_bytes,
        "low": lambda: hg.shrink(x[0], 1).to_bytes(),
        "degree two": lambda: hg.square(x[0]).to_bytes(),
        "public key": secret().public_key().to_bytes,
        "evaluation keys": keys.to_bytes,
    }
    return made[kind]()


READERS: dict[str, Callable[[bytes], Any]] = {
    "seeded": lambda b: hg.Server(secret().evaluation_keys()).from_bytes(b),
    "public": _core.exact.Ciphertext.from_bytes,
    "low": _core.exact.Ciphertext.from_bytes,
    "degree two": _core.exact.Ciphertext.from_bytes,
    "public key": hg.PublicKey.from_bytes,
    "evaluation keys": hg.EvaluationKeys.from_bytes,
}


def digested(data: bytes) -> bytes:
    """Returns the data with a matching digest, so that the digest does not reveal the damage."""
    return data[:-32] + hashlib.sha256(data[:-32]).digest()


def rehashed(container: Container) -> bytes:
    """Returns the file with a matching parameter hash and digest."""
    h = container.header
    h["parameter_hash"] = hashlib.sha256(canonical(h["parameters"] | {"name": ""})).hexdigest()
    return build(container)


@pytest.mark.parametrize("kind", READERS)
def test_these_tests_write_files_like_the_engine(kind: str) -> None:
    """An unchanged container that these tests build equals the engine's container, byte for byte, and is read."""
    data = original(kind)
    assert build(parse(data)) == data
    assert rehashed(parse(data)) == data
    READERS[kind](data)


@pytest.mark.parametrize("kind", READERS)
def test_every_changed_byte_is_detected(kind: str) -> None:
    """A changed byte is detected: each byte of prefix, header and digest, and a sample of the words."""
    data = original(kind)
    header = 32 + struct.unpack_from("<Q", data, 16)[0]
    rng = np.random.default_rng(5)
    places = [*range(header), *rng.integers(header, len(data), 200).tolist(), *range(len(data) - 32, len(data))]
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(hg.FormatError) as caught:
            READERS[kind](bytes(damaged))
        expected = hg.FormatError if place < 8 else hg.VersionError if place < 12 else hg.DamagedFileError
        assert caught.type is expected


@pytest.mark.parametrize("kind", READERS)
def test_truncated_and_oversized(kind: str) -> None:
    """Files of any other length are errors."""
    data = original(kind)
    for length in (0, 1, 7, 8, 31, 32, 33, 500, len(data) // 2, len(data) - 64, len(data) - 32, len(data) - 1):
        with pytest.raises(hg.DamagedFileError, match="truncated"):
            READERS[kind](data[:length])
    for more in (b"\0", bytes(64), data):
        with pytest.raises(hg.DamagedFileError, match="oversized"):
            READERS[kind](data + more)


def test_false_lengths_allocate_no_memory() -> None:
    """A header length or total length far beyond the file's end allocates no memory and is refused."""
    data = original("low")
    for at, value in ((16, 2**63), (16, 2**20 + 1), (16, 0), (24, 2**64 - 1), (24, 0)):
        damaged = bytearray(data)
        struct.pack_into("<Q", damaged, at, value)
        with pytest.raises(hg.DamagedFileError):
            _core.exact.Ciphertext.from_bytes(digested(bytes(damaged)))


def test_other_versions_and_formats_are_refused(tmp_path: Path) -> None:
    """Other format versions, other formats and missing files are refused."""
    data = bytearray(original("low"))
    for version in (0, 4, 2**32 - 1):
        struct.pack_into("<I", data, 8, version)
        with pytest.raises(hg.VersionError, match="1"):
            _core.exact.Ciphertext.from_bytes(digested(bytes(data)))
    for text in (b"PK\x03\x04" + bytes(100), b"{}", b"\x89HELIO\n" + bytes(100)):
        (tmp_path / "x.hg").write_bytes(text)
        with pytest.raises(hg.FormatError):
            hg.load(tmp_path / "x.hg")
    with pytest.raises(FileNotFoundError):
        hg.load(tmp_path / "nothing.hg")
    with pytest.raises(IsADirectoryError):
        hg.load(tmp_path)
    with pytest.raises(OSError, match="cannot write"):
        secret().encrypt(np.arange(N)).save(tmp_path / "no folder" / "x.hg")


def test_wrong_kinds(tmp_path: Path) -> None:
    """Each reader names the kind of the file that it got."""
    for data in map(original, READERS):
        for other, reader in READERS.items():
            mine, its = parse(data).type, parse(original(other)).type
            if mine != its:
                with pytest.raises(hg.FormatError, match=f"holds .*{mine.removeprefix('heliograph.bfv.')}, not"):
                    reader(data)
        (tmp_path / "file").write_bytes(data)
        with pytest.raises(hg.FormatError, match=r"not.* secret-key"):
            hg.SecretKey.load(tmp_path / "file")
    foreign = parse(original("low"))
    foreign.type = "heliograph.other.ciphertext"
    (tmp_path / "file").write_bytes(build(foreign))
    with pytest.raises(hg.FormatError, match=r"heliograph\.other\.ciphertext"):
        hg.load(tmp_path / "file")


@pytest.mark.parametrize("kind", READERS)
def test_residues_above_the_modulus(kind: str) -> None:
    """Readers check the residues of every array in files with a valid digest: q - 1 is accepted, q and the largest word are
    refused.

    """
    data = original(kind)
    for name in parse(data).arrays:
        for place in (0, -1):
            for value, valid in ((-1, True), (0, False), (None, False)):
                damaged = parse(data)
                words = damaged.arrays[name].copy()
                primes = [*damaged.header["parameters"]["chain"], *damaged.header["parameters"]["special"]]
                q = primes[0 if place == 0 else words.shape[-2] - 1]
                words.reshape(-1)[place] = q + value if value is not None else 2**32 - 1
                damaged.arrays[name] = words
                if valid:
                    READERS[kind](build(damaged))
                else:
                    with pytest.raises(hg.DamagedFileError, match="not below its modulus"):
                        READERS[kind](build(damaged))


def change(*path: Any, to: Any) -> Damage:
    """Returns a change that sets a field of the header."""

    def apply(c: Container) -> None:
        at: Any = c.header
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = to

    return apply


def drop(*path: str) -> Damage:
    """Returns a change that removes a field of the header."""

    def apply(c: Container) -> None:
        at: Any = c.header
        for key in path[:-1]:
            at = at[key]
        del at[path[-1]]

    return apply


def arrays(f: Callable[[dict[str, Any]], dict[str, Any]]) -> Damage:
    """Returns a change of the arrays."""

    def apply(c: Container) -> None:
        c.arrays = f(dict(c.arrays))

    return apply


HEADERS: dict[str, Damage] = {
    "no key": drop("key"),
    "no parameters": drop("parameters"),
    "unknown field": change("colour", to="red"),
    "key too short": change("key", to="00" * 15),
    "key not hex": change("key", to="zz" * 16),
    "key a number": change("key", to=7),
    "shape too long": change("shape", to=[1] * 7),
    "shape too large": change("shape", to=[2**40]),
    "shape overflows": change("shape", to=[2**31, 2**31, 2**31]),
    "shape negative": change("shape", to=[-2]),
    "shape another": change("shape", to=[3]),
    "degree 0": change("degree", to=0),
    "degree 3": change("degree", to=3),
    "degree of a seeded": change("degree", to=2),
    "level 0": change("level", to=0),
    "level beyond": change("level", to=3),
    "level below": change("level", to=1),
    "width beyond": change("width", to=N + 1),
    "packing": change("packing", to="rows"),
    "ntt a number": change("ntt", to=1),
    "ntt of a seeded": change("ntt", to=True),
    "not fresh but seeded": change("fresh", to=False),
    "seed too short": change("seeds", to=["00" * 31]),
    "two seeds": change("seeds", to=["00" * 32] * 2),
    "no seeds": change("seeds", to=[]),
    "array missing": arrays(lambda a: {}),
    "array renamed": arrays(lambda a: {"part1": a["part0"]}),
    "array more": arrays(lambda a: a | {"part1": a["part0"]}),
    "array of another dtype": arrays(lambda a: {"part0": a["part0"].astype(np.uint64)}),
    "array of another shape": arrays(lambda a: {"part0": a["part0"].reshape(2, 2, 1, N)}),
    "array too short": arrays(lambda a: {"part0": a["part0"][:1]}),
}
PARAMETERS: dict[str, Damage] = {
    "scheme": change("parameters", "scheme", to="ckks"),
    "edition": change("parameters", "edition", to="w16"),
    "edition w64": change("parameters", "edition", to="w64"),
    "N small": change("parameters", "n", to=512),
    "N large": change("parameters", "n", to=2**18),
    "N odd": change("parameters", "n", to=1025),
    "another N": change("parameters", "n", to=2048),
    "no chain": change("parameters", "chain", to=[]),
    "composite": change("parameters", "chain", to=[12289 * 2048 + 1, 12289]),
    "prime twice": change("parameters", "chain", to=[12289, 12289]),
    "even prime": change("parameters", "chain", to=[2, 12289]),
    "zero prime": change("parameters", "chain", to=[0, 0]),
    "huge prime": change("parameters", "chain", to=[2**60, 2**60]),
    "too many primes": change("parameters", "chain", to=[12289] * 129),
    "gadget": change("parameters", "digits", to=[1]),
    "empty digit": change("parameters", "digits", to=[2, 0]),
    "huge digit": change("parameters", "digits", to=[128, 128]),
    "plain modulus 0": change("parameters", "plain_moduli", to=[0]),
    "plain modulus 1": change("parameters", "plain_moduli", to=[1]),
    "plain modulus large": change("parameters", "plain_moduli", to=[2**60]),
    "no plain modulus": change("parameters", "plain_moduli", to=[]),
    "slots": change("parameters", "slots", to=N + 1),
    "security": change("parameters", "insecure", to=False),
    "security a number": change("parameters", "insecure", to=1),
    "long name": change("parameters", "name", to="n" * 65),
    "unknown": change("parameters", "seed", to=1),
}


@pytest.mark.parametrize("damage", HEADERS)
def test_false_headers(damage: str) -> None:
    """A header that contradicts its arrays is refused before the words are used, although the digest is valid."""
    c = copy.deepcopy(parse(original("seeded")))
    HEADERS[damage](c)
    with pytest.raises(hg.FormatError):
        _core.exact.Ciphertext.from_bytes(build(c))


@pytest.mark.parametrize("kind", ["seeded", "public key", "evaluation keys"])
@pytest.mark.parametrize("damage", PARAMETERS)
def test_false_parameters(kind: str, damage: str) -> None:
    """Impossible parameters are refused even if their hash is right; any change is refused if the hash is the old one."""
    c = copy.deepcopy(parse(original(kind)))
    PARAMETERS[damage](c)
    with pytest.raises(hg.FormatError):
        READERS[kind](build(c))
    with pytest.raises(hg.FormatError):
        (_core.exact.Ciphertext.from_bytes if kind == "seeded" else READERS[kind])(rehashed(c))
    if kind == "seeded":  # reading at a server, which also refuses seeded ciphertexts of other sets
        with pytest.raises((hg.MismatchError, hg.FormatError)):
            READERS[kind](rehashed(c))


@pytest.mark.parametrize("kind", READERS)
def test_random_headers(kind: str) -> None:
    """If a header byte is flipped and the digest is valid, the result is an error or a valid object."""
    data = original(kind)
    length = struct.unpack_from("<Q", data, 16)[0]
    rng = np.random.default_rng(9)
    read = 0
    for place in rng.integers(12, 32 + length, 400).tolist():
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(7))
        try:
            READERS[kind](digested(bytes(damaged)))
            read += 1
        except hg.HeliographError:
            pass
    assert read < 100  # a flipped bit in a seed or id gives another valid file


def test_not_json() -> None:
    """Header texts that are not canonical JSON are refused."""
    c = parse(original("low"))
    data = original("low")
    length = struct.unpack_from("<Q", data, 16)[0]
    text = data[32 : 32 + length]
    for wrong in (
        b"",
        b"null",
        b"[" * 100 + b"]" * 100,
        text + b" ",
        text.replace(b'"level":1', b'"level": 1'),
        text.replace(b'"level":1', b'"level":1.0'),
        text.replace(b'"level":1', b'"level":01'),
        text.replace(b'"level":1', b'"level":1e0'),
        text.replace(b'"level":1', b'"level":1,"level":1'),
        text.replace(b'"level":1', b'"level":18446744073709551616'),
        text.replace(b'"type"', b'"typo"'),
        text.replace(b"ciphertext", b"cipher\xff\xff\xff\xff"),
    ):
        with pytest.raises(hg.FormatError):
            _core.exact.Ciphertext.from_bytes(build(c, header_text=wrong))


def test_false_evaluation_keys() -> None:
    """Evaluation keys with invalid automorphisms, seeds or arrays are refused."""
    good = parse(original("evaluation keys"))
    column = str(2 * N - 1)
    assert set(good.header["rotations"]) == {"3", column}
    for wrong in ("2", "0", "-3", "03", "3 ", str(2 * N + 1), "99999999999999999999", ""):
        c = copy.deepcopy(good)
        c.header["rotations"] = {wrong: c.header["rotations"]["3"], column: c.header["rotations"][column]}
        c.arrays = {"rotation" + wrong if k == "rotation3" else k: v for k, v in c.arrays.items()}
        with pytest.raises(hg.FormatError):
            hg.EvaluationKeys.from_bytes(build(c))
    c = copy.deepcopy(good)
    del c.header["relinearization"]
    with pytest.raises(hg.DamagedFileError, match="number of arrays"):
        hg.EvaluationKeys.from_bytes(build(c))


# Secret keys


def test_secret_keys_leave_only_by_save(tmp_path: Path) -> None:
    """Secret key files have mode 0600 under any umask. Secret keys cannot be written by to_bytes, read by `hg.load`, or
    pickled.

    """
    path = tmp_path / "secret.hg"
    before = os.umask(0)
    try:
        secret().save(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["secret.hg"]
    with pytest.raises(hg.FormatError, match=r"secret-key.*SecretKey\.load alone"):
        hg.load(path)
    for reader in READERS.values():
        with pytest.raises(hg.FormatError, match="secret-key"):
            reader(path.read_bytes())
    assert not hasattr(secret(), "to_bytes")
    assert not hasattr(secret(), "from_bytes")
    loaded = hg.SecretKey.load(path)
    assert loaded.id == secret().id
    assert "secret key" in repr(loaded)


@pytest.mark.parametrize("value", [2, -2, 127, -128])
def test_false_secret_keys(value: int, tmp_path: Path) -> None:
    """A secret key has N coefficients, each -1, 0 or 1; other keys are refused."""
    path = tmp_path / "secret.hg"
    secret().save(path)
    good = parse(path.read_bytes())
    words = good.arrays["secret"].copy()
    assert set(words.tolist()) == {-1, 0, 1}
    words[5] = value
    path.write_bytes(build(Container(good.type, good.header, {"secret": words})))
    with pytest.raises(hg.DamagedFileError, match="-1, 0 or 1"):
        hg.SecretKey.load(path)
    path.write_bytes(build(Container(good.type, good.header, {"secret": words[: N // 2]})))
    with pytest.raises(hg.DamagedFileError):
        hg.SecretKey.load(path)


def test_files_of_keys_hold_no_secret(tmp_path: Path) -> None:
    """Files for the server contain neither the secret's coefficients nor its seed."""
    secret().save(tmp_path / "secret.hg")
    coefficients = parse((tmp_path / "secret.hg").read_bytes()).arrays["secret"].tobytes()
    for kind in READERS:
        assert coefficients[:64] not in original(kind)
        assert set(parse(original(kind)).header) <= {
            *("parameters", "parameter_hash", "key", "shape", "degree", "level", "ntt", "packing", "width"),
            *("fresh", "noise", "bound", "seeds", "seed", "rotations", "relinearization"),
        }


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    """If saving fails, the old file remains, and no temporary file is left."""
    x = secret().encrypt(np.arange(N))
    x.save(tmp_path / "x.hg")
    before = (tmp_path / "x.hg").read_bytes()
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        x.save(tmp_path / "taken")
    x.save(tmp_path / "x.hg")
    assert (tmp_path / "x.hg").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["taken", "x.hg"]


def test_foreign_ciphertexts(tmp_path: Path) -> None:
    """When a server reads a ciphertext, it refuses ciphertexts of another set, word size or key."""
    server = hg.Server(secret().evaluation_keys())
    other_key = hg.SecretKey.generate(secret().parameters)
    other_key.encrypt(np.arange(N)).save(tmp_path / "key.hg")
    with pytest.raises(hg.WrongKeyError):
        server.load(tmp_path / "key.hg")
    other_set = hg.SecretKey.generate(hg.bfv.Parameters(_core.exact.Parameters(rigs.specs("w64"))))
    other_set.encrypt(np.arange(N)).save(tmp_path / "set.hg")
    with pytest.raises(hg.MismatchError):
        server.load(tmp_path / "set.hg")
