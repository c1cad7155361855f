"""Small objects of every kind, and all operations on an object that was read from a file."""

from __future__ import annotations

import atexit
import functools
import json
import math
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import file_kinds
import heliograph as hg
import resign
from heliograph import _core

SEED = bytes(range(32))
N = 1024
Use = Callable[[], Any]


class Party:
    """A secret key from a fixed seed, with its evaluation keys, server and a tensor."""

    def __init__(self, secret: Any, keys: Any, x: Any) -> None:
        self.secret, self.keys, self.server, self.x = secret, keys, hg.Server(keys), x
        self.parameters = secret.parameters


def _exact(scheme: str, word_size: int, moduli: list[int], log_q: int) -> Party:
    spec = _core.exact.make_spec(N, log_q, 1, moduli, word_size, 0, True, scheme)
    parameters = hg.bfv.Parameters(_core.exact.Parameters(spec))
    secret = hg.SecretKey(_core.exact.SecretKey.generate_for_test(parameters._core, SEED))
    x = secret.encrypt(np.arange(2 * N).reshape(2, N) % 7)
    return Party(secret, secret.evaluation_keys(rotations=[1], columns=True), x)


def _ckks(word_size: int) -> Party:
    scale = 26 if word_size == 32 else 30
    parameters = hg.ckks.parameters(
        n=N, levels=2, log_scale=scale, base_bits=scale + 3, word_size=word_size, slots=16, insecure=True
    )
    secret = hg.ckks.SecretKey(_core.ckks.SecretKey.generate_for_test(parameters._core, SEED))
    return Party(
        secret, secret.evaluation_keys(rotations=[1], conjugate=True), secret.encrypt(np.linspace(-1, 1, 32).reshape(2, 16))
    )


def _tfhe(message_bits: int) -> Party:
    parameters = hg.tfhe.parameters(
        n=4, k=1, degree=256, lwe_noise=("gaussian", -22), glwe_noise=("gaussian", -40), bootstrap=(18, 1), switch=(4, 4),
        group=2, message_bits=message_bits, carry_bits=message_bits, norm=5, insecure=True,
    )  # fmt: skip
    secret = hg.tfhe.SecretKey(_core.tfhe.SecretKey.generate_for_test(parameters._core, SEED))
    return Party(secret, secret.evaluation_keys(), secret.encrypt(np.array([[200, 7]], dtype=np.uint8)))


@functools.cache
def parties() -> dict[str, Party]:
    """Returns a party for each scheme and word size."""
    moduli = _core.exact.batching_primes(N, 30, 2)
    return {
        "bfv": _exact("bfv", 32, [12289], 54),
        "bfv two moduli": _exact("bfv", 64, moduli, 90),
        "bgv": _exact("bgv", 32, [12289], 54),
        "bgv two moduli": _exact("bgv", 64, moduli, 90),
        "ckks": _ckks(32),
        "ckks w64": _ckks(64),
        "tfhe": _tfhe(1),
        "tfhe bits": _tfhe(0),
    }


def saved(secret: Any) -> bytes:
    """Returns the bytes of an object that can be saved only to a path."""
    path = f"/tmp/heliograph-resign-{os.getpid()}.hg"
    secret.save(path)
    with open(path, "rb") as file:  # noqa: PTH123
        data = file.read()
    os.unlink(path)  # noqa: PTH108
    return data


def _ciphertexts(p: Party) -> dict[str, Any]:
    x = p.server.bind(p.x)
    found: dict[str, Any] = {"seeded": x, "empty": x[:0], "scalar": x.reshape(-1)[0]}
    if isinstance(x, hg.tfhe.Tensor):
        bits = p.server.bind(p.secret.encrypt(np.array([True, False])))
        return found | {
            "computed": hg.tfhe.not_(bits),
            "bits": bits,
            "clear": hg.tfhe.trivial(p.keys, np.array([1, 2], np.uint8)),
        }
    if isinstance(x, hg.ckks.Tensor):
        return found | {"computed": x + x, "degree two": hg.ckks.multiply(x[0], x[0], relinearize=False, rescale=False)}
    return found | {"computed": x + x, "low": hg.shrink(x[0], 1), "degree two": x[0] * x[0]}


@functools.cache
def bases() -> dict[str, bytes]:
    """Returns valid files by kind: "bfv/ciphertext/seeded" and so on."""
    found = {}
    for name, p in parties().items():
        for which, tensor in _ciphertexts(p).items():
            found[f"{name}/ciphertext/{which}"] = tensor.to_bytes()
        found[f"{name}/evaluation-keys"] = p.keys.to_bytes()
        found[f"{name}/secret-key"] = saved(p.secret)
        if not name.startswith("tfhe"):
            found[f"{name}/public-key"] = p.secret.public_key().to_bytes()
    return found | {f"{OTHER}/{name}": kind.data for name, kind in others().items()}


OTHER = "other"  #: first part of the names of files that the Python package reads


@functools.cache
def others() -> dict[str, Any]:
    """Returns bundles, tables, look-up files and other files that the Python package reads. The ciphertexts and keys in
    these files differ in each process.
    """
    folder = Path(tempfile.mkdtemp(prefix="heliograph-resign-"))
    atexit.register(shutil.rmtree, folder, True)
    return file_kinds.kinds(folder)


# Uses of loaded objects

#: The largest number of ciphertexts of a tensor on which the tests compute. Files can declare very large results that have
#: axes of length zero.
MOST = 256


def _views(x: Any) -> list[Use]:
    count = math.prod(x.shape)
    return [
        lambda: repr(x),
        lambda: (x.shape, x.ndim, x.size, x.nbytes, x.key_id, x.parameters, x.parameters.hash),
        lambda: str(x.parameters) + getattr(x.parameters, "explain", str)(),
        lambda: x.reshape(-1),
        lambda: x.reshape(count).reshape(1, count, 1),
        lambda: x.reshape(0, 2**62),
        lambda: x.T.transpose(),
        lambda: x[::-1],
        lambda: x[1:],
        lambda: x[..., None, ::2],
        lambda: x[0],
        lambda: x[-1],
        lambda: x[2**63 - 1],
        lambda: x[-(2**63) :: 2**62],
        lambda: x[:0].to_bytes(),
        lambda: x.broadcast_to((2, *x.shape))[1],
        lambda: x.broadcast_to((2**32, 2**31, *x.shape)),
        lambda: _again(x),
    ]


def _again(x: Any) -> None:
    data = x.to_bytes()
    again = type(x._core).from_bytes(data).to_bytes()
    assert again == data, "the object is written differently from the file that it was read from"


def _arithmetic(x: Any, p: Party) -> list[Use]:
    """Returns slow operations; a case runs only a few of them."""
    bound, other = p.server.bind, p.x
    uses: list[Use] = [
        lambda: p.secret.decrypt(x),
        lambda: bound(x) + other,
        lambda: bound(x) - x,
        lambda: -x,
        lambda: bound(x) * bound(x),
        lambda: bound(x) * 3,
        lambda: bound(x) + 1,
        lambda: hg.concatenate([x, x]),
        lambda: hg.stack([x, other]),
        lambda: p.server.bind(x[::-1]) + bound(other[::-1]),
    ]
    if isinstance(x, hg.tfhe.Tensor):
        return [
            *uses,
            lambda: bound(x).sum(),
            lambda: bound(x) < 3,
            lambda: bound(x) == bound(x)[::-1],
            lambda: hg.tfhe.select(bound(x) > 1, bound(x), 0),
            lambda: ~bound(x),
            lambda: bound(x).astype("uint16"),
            lambda: bound(x) << 1,
            lambda: bound(x) @ bound(x).T,
        ]
    if isinstance(x, hg.ckks.Tensor):
        return [
            *uses,
            lambda: (x.precision, x.scale, x.level, x.degree, x.dtype),
            lambda: hg.ckks.sum(x),
            lambda: hg.ckks.sum(x, 0),
            lambda: hg.ckks.rotate(bound(x), 1),
            lambda: hg.ckks.conjugate(bound(x)),
            lambda: hg.rescale(x),
            lambda: hg.ckks.lower(x, 1),
            lambda: hg.relinearize(bound(x)),
            lambda: hg.ckks.sum_slots(bound(x), 2),
            lambda: hg.ckks.multiply(x, hg.ckks.encode(x.parameters, [0.5] * x.slots), relinearize=False),
            lambda: p.secret.decrypt(x, publish_bits=4, precision=8),
        ]
    return [
        *uses,
        lambda: (x.noise_budget, x.degree, x.level, x.slots, x.plain_moduli),
        lambda: p.secret.noise_budget(x),
        lambda: hg.sum(x),
        lambda: hg.sum(x, 0),
        lambda: hg.relinearize(bound(x)),
        lambda: hg.rotate_rows(bound(x), 1),
        lambda: hg.rotate_columns(bound(x)),
        lambda: hg.shrink(x),
        lambda: hg.shrink(x, 1),
        lambda: hg.square(bound(x)),
        lambda: hg.dot(bound(x), bound(x)),
        lambda: hg.matmul([[1, -2]], x, [3]),
        lambda: hg.join_moduli(hg.split_moduli(x)),
        lambda: hg.sum_pool2d(x, 2),
        lambda: hg.conv2d(x, np.ones((1, 1, 1, 2), dtype=np.int64)),
        lambda: x * hg.encode(x.parameters, [1, 2, 3], coefficients=0),
    ]


def _keys(keys: Any, p: Party) -> list[Use]:
    """Returns the operations on evaluation keys of any scheme."""

    def serve(use: Callable[[Any], Any]) -> Use:
        return lambda: use(hg.Server(keys).bind(p.x))

    uses: list[Use] = [
        lambda: repr(keys),
        lambda: (keys.nbytes, keys.id, repr(keys.parameters), keys.parameters.hash),
        lambda: type(keys).from_bytes(keys.to_bytes()),
        lambda: repr(hg.Server(keys)),
        serve(lambda x: x * x * x),
    ]
    if isinstance(keys, hg.tfhe.EvaluationKeys):
        clear = functools.partial(hg.tfhe.trivial, keys)
        return [*uses, lambda: hg.tfhe.and_(clear(np.array([True, False])), clear(np.array([True, True])))]
    uses.append(lambda: (keys.relinearize, keys.rotations))
    if isinstance(keys, hg.ckks.EvaluationKeys):
        return [*uses, serve(lambda x: hg.ckks.rotate(x, keys.rotations)), serve(hg.ckks.conjugate)]
    return [*uses, serve(lambda x: hg.rotate_rows(x, keys.rotations)), serve(hg.rotate_columns)]


def _key(key: Any, p: Party) -> list[Use]:
    """Returns the operations on public and secret keys."""
    uses: list[Use] = [lambda: repr(key), lambda: (key.id, repr(key.parameters), key.parameters.hash)]
    values = np.array([True]) if isinstance(key, hg.tfhe.SecretKey) else np.ones((1, getattr(key.parameters, "slots", 1)))
    if isinstance(key, (hg.bfv.SecretKey, hg.bfv.PublicKey)):
        values = values.astype(np.int64)
    uses.append(lambda: p.secret.decrypt(key.encrypt(values)))
    if isinstance(key, hg.PublicKey):
        return [*uses, lambda: type(key).from_bytes(key.to_bytes())]
    uses += [lambda: key.decrypt(p.x), lambda: key.decrypt(key.encrypt(values)), lambda: key.evaluation_keys().to_bytes()]
    return uses if isinstance(key, hg.tfhe.SecretKey) else [*uses, lambda: key.decrypt(key.public_key().encrypt(values))]


def _read(name: str, data: bytes, p: Party, by_path: bool) -> Any:
    """Returns the loaded object. Reads tensors at a server, keys from bytes or from a path, and secret keys only from a
    path.
    """
    secret = name.split("/")[1] == "secret-key"
    if not secret and not by_path:
        if "/ciphertext" in name:
            return p.server.from_bytes(data)
        own = {"tfhe": hg.tfhe, "ckks": hg.ckks}.get(name.split("/")[0].split()[0], hg)
        return (own.PublicKey if "/public-key" in name else own.EvaluationKeys).from_bytes(data)
    file = os.memfd_create("resigned")
    try:
        os.write(file, data)
        path = f"/proc/self/fd/{file}"
        json.loads(_core.container.inspect(path))
        return hg.SecretKey.load(path) if secret else hg.load(path)
    finally:
        os.close(file)


def _small(shape: tuple[int, ...]) -> bool:
    return math.prod(max(1, s) for s in shape) <= MOST


def uses_of(thing: Any, p: Party, draw: random.Random) -> list[Use]:
    """Returns all fast operations and a sample of the slow operations."""
    if isinstance(thing, hg.Tensor):
        more = _arithmetic(thing, p) if _small(thing.shape) else []
        return _views(thing) + draw.sample(more, min(3, len(more)))
    if isinstance(thing, hg.EvaluationKeys):
        return _keys(thing, p)
    return _key(thing, p)


def use(name: str, data: bytes, draw: random.Random) -> Counter[str]:
    """Reads a file of this kind, uses the object and counts the outcomes. Exceptions that are not typed errors propagate."""
    place, kind = name.split("/", 1)
    try:
        if place == OTHER:
            thing = others()[kind].read(data)
            uses: list[Use] = [lambda: others()[kind].use(thing)]
        else:
            thing = _read(name, data, parties()[place], draw.random() < 0.3)
            uses = uses_of(thing, parties()[place], draw)
    except hg.InternalError:
        raise
    except hg.HeliographError as e:
        return Counter({type(e).__name__: 1})
    found = Counter({"read": 1})
    for each in uses:
        try:
            each()
            found["uses done"] += 1
        except hg.InternalError:
            raise
        except hg.HeliographError:
            found["uses refused"] += 1
    return found


def refused_models(good: bytes, name: str, count: int) -> int:
    """Changes the model's fields or arrays of a bundle `count` times. Returns the number of changed files that a typed error
    refuses; the other files describe themselves.

    """
    refused = 0
    for number in range(count):
        mutator = resign.Mutator(f"{name}:{number}")
        document = resign.take_apart(good)
        if number % 2:
            document.header["model"] = mutator.changed(document.header["model"])
        else:
            mutator._arrays(document)
        try:
            hg.ModelBundle.load(resign.signed(document, mutator.text)).explain()
        except hg.HeliographError:
            refused += 1
    return refused
