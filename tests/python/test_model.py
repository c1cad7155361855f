"""Every operation of BFV is compared with the big-integer model: the same residues, word for word, on every device."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import rigs
from model import Cipher, chacha_blocks, from_ntt, gaussian_table, parse
from places import places

W = np.array([[1, -2], [3, 0], [-1, 1]])
K = np.arange(-4, 4).reshape(2, 1, 2, 2)
K2 = np.array([3, -1, 0, 2, 1, -2, 1, 1, 2, -3, 1, 0]).reshape(3, 2, 1, 2)
BIAS = np.array([0, 1])
ONES = np.array([[0, 1], [1, 1]])
SIGNED = np.array([[-1, 2], [0, 3]])

Case = Callable[[Any], Any]

CASES: dict[str, Case] = {
    "encrypt": lambda o: o.x,
    "add": lambda o: o.x + o.y,
    "subtract": lambda o: o.x - o.y,
    "negate": lambda o: -o.x,
    "multiply": lambda o: o.xy,
    "square": lambda o: o.yy,
    "relinearize": lambda o: o.relinearize(o.xy),
    "multiply degree two": lambda o: o.take(o.xy, 0) * o.y,
    "third power": lambda o: o.power(o.take(o.y, 1), 3),
    "add degrees two and one": lambda o: o.xy + o.y,
    "subtract degrees one and two": lambda o: o.y - o.xy,
    "negate degree two": lambda o: -o.xy,
    "add plaintext": lambda o: o.x + o.plain,
    "subtract plaintext": lambda o: o.x - o.plain,
    "add plaintext to degree two": lambda o: o.yy + o.plain,
    "multiply plaintext": lambda o: o.x * o.plain,
    "multiply degree two by plaintext": lambda o: o.yy * o.plain,
    "plaintext after plaintext": lambda o: o.y * o.plain + o.plain,
    "mixed domains": lambda o: o.y * o.plain + o.y,
    "multiply after plaintext": lambda o: o.take(o.y * o.plain, 0) * o.take(o.y, 1),
    "add integer": lambda o: o.x + 1,
    "add integers": lambda o: o.x + ONES,
    "integers add an axis": lambda o: o.y + ONES,
    "integer less tensor": lambda o: 1 - o.x,
    "subtract integer": lambda o: o.x - 0,
    "integers after plaintext": lambda o: o.y * o.plain + np.array([1, 0]),
    "multiply integer": lambda o: o.x * 1,
    "multiply integers": lambda o: o.x * ONES,
    "multiply degree two by integers": lambda o: o.yy * np.array([1, 0]),
    "matmul": lambda o: o.matmul(W, o.x, np.array([1, 0, 1])),
    "matmul of a vector": lambda o: o.matmul(W, o.y),
    "matmul from the right": lambda o: o.times_matrix(o.x, W.T),
    "matmul of degree two": lambda o: o.matmul(W, o.yy),
    "matmul after plaintext": lambda o: o.matmul(W, o.y * o.plain, np.array([0, 1, 1])),
    "convolution": lambda o: o.conv2d(o.z, K2, np.array([1, 0, 1])),
    "convolution with stride and padding": lambda o: o.conv2d(o.z, K2, stride=2, padding=1),
    "convolution in groups": lambda o: o.conv2d(o.z, K, BIAS, padding=1, groups=2),
    "convolution of a batch": lambda o: o.conv2d(o.reshape(o.z, 2, 1, 2, 3), K, BIAS, stride=2),
    "convolution of degree two": lambda o: o.conv2d(o.reshape(o.xy, 1, 2, 2), K),
    "sum of an axis": lambda o: o.sum(o.z, 1),
    "sum of all": lambda o: o.sum(o.x),
    "dot": lambda o: o.dot(o.y, o.y),
    "index": lambda o: o.take(o.z, (1, slice(None), -1)),
    "slices": lambda o: o.take(o.z, (..., slice(None, None, 2), slice(2, None, -1))),
    "new axis": lambda o: o.take(o.x, (slice(None), None, 0)),
    "reshape": lambda o: o.reshape(o.z, 4, 3),
    "transpose": lambda o: o.transpose(o.z, 2, 0, 1),
    "transposed sum": lambda o: o.sum(o.transpose(o.z, 1, 2, 0), 0),
    "reshape of a transpose": lambda o: o.reshape(o.transpose(o.x, 1, 0), 4),
    "broadcast": lambda o: o.broadcast(o.y, 3, 2),
    "product of broadcasts": lambda o: o.broadcast(o.take(o.y, 1), 2) * o.y,
    "concatenate": lambda o: o.concatenate([o.x, o.take(o.x, slice(0, 1))]),
    "concatenate degrees": lambda o: o.concatenate([o.y, o.yy]),
    "concatenate levels": lambda o: o.concatenate([o.y, o.shrink(o.y, o.low)]),
    "shrink": lambda o: o.shrink(o.x, o.low),
    "shrink far": lambda o: o.shrink(o.x, o.least),
    "shrink degree two": lambda o: o.shrink(o.yy, o.low),
    "shrink after plaintext": lambda o: o.shrink(o.y * o.plain, o.low),
    "add levels": lambda o: o.x + o.shrink(o.y, o.low),
    "multiply below": lambda o: o.shrink(o.take(o.x, 0), o.low) * o.take(o.y, 0),
    "relinearize below": lambda o: o.relinearize(o.square(o.shrink(o.take(o.y, 0), o.low))),
    "add plaintext below": lambda o: o.shrink(o.y, o.low) + o.plain,
    "multiply plaintext below": lambda o: o.shrink(o.y, o.low) * o.plain,
}
ROTATIONS: dict[str, Case] = {
    "rotate": lambda o: o.rotate(o.x, 1),
    "rotate right": lambda o: o.rotate(o.y, -2),
    "hoisted rotations": lambda o: o.rotate(o.y, [5, 0, -2]),
    "rotate degree two": lambda o: o.rotate(o.yy, 5),
    "rotate below": lambda o: o.rotate(o.shrink(o.y, o.low), 1),
    "rotate after plaintext": lambda o: o.rotate(o.y * o.plain, 1),
    "columns": lambda o: o.columns(o.x),
    "columns of degree two": lambda o: o.columns(o.yy),
}
SIGNED_CASES: dict[str, Case] = {
    "add signed integers": lambda o: o.x + SIGNED,
    "subtract signed integers": lambda o: o.x - SIGNED,
    "multiply signed integers": lambda o: o.x * SIGNED,
    "signed integer less tensor": lambda o: -5 - o.x,
}


def require_same_words(tensor: hg.Tensor, cipher: Cipher) -> None:
    """Checks that words, shape, level and width are equal."""
    found = parse(tensor.to_bytes())
    header = found.header
    assert found.type == "heliograph.bfv.ciphertext"
    assert tuple(header["shape"]) == tensor.shape == cipher.shape
    assert (header["degree"], header["level"], header["width"]) == (cipher.degree, cipher.level, cipher.width)
    assert header["key"] == cipher.model.key_id
    assert header["seeds"] == [s.hex() for s in cipher.seeds]
    for part, words in enumerate(cipher.words(header["ntt"])):
        stored = words[..., :1, :, :] if cipher.seeds else words
        np.testing.assert_array_equal(found.arrays[f"part{part}"], stored)


#: Cases that `make test` runs for sets that are not in EVERYWHERE: one case for each kind of step that depends on the
#: numbers of a set.
BRIEF = (
    "encrypt",
    "multiply",
    "relinearize",
    "third power",
    "multiply plaintext",
    "subtract plaintext",
    "add signed integers",
    "matmul",
    "convolution in groups",
    "concatenate levels",
    "shrink far",
    "relinearize below",
    "rotate below",
    "columns",
)


def places_of(name: str) -> list[Any]:
    """Returns the devices on which a set is tested."""
    return places(*([] if name in rigs.EVERYWHERE else ["ref", "cpu", "cuda:0"]))


def pairs() -> list[Any]:
    """Returns pairs of a set and a device."""
    return [pytest.param(name, *place.values, marks=place.marks) for name in rigs.SETS for place in places_of(name)]


def cases_of(name: str) -> dict[str, Case]:
    """Returns the cases that a set supports. t = 2 has only the values 0 and 1, and not every t has slots. The errors of
    other cases are tested in test_errors.py.

    """
    cases = CASES | ({} if name == "w64-t2" else SIGNED_CASES)
    return cases if name in ("w64-t2", "w64-even-t") else cases | ROTATIONS


def triples() -> list[Any]:
    """Returns triples of a set, a device and a case."""
    made = []
    for pair in pairs():
        name, _ = pair.values
        for case in cases_of(name):
            more = [] if name in rigs.EVERYWHERE or case in BRIEF else [pytest.mark.full]
            made.append(pytest.param(*pair.values, case, marks=[*pair.marks, *more]))
    return made


@pytest.mark.parametrize("device", rigs.DEVICES)
def test_devices(device: str) -> None:
    """Each device opens and works. Only this test is skipped for devices that the machine lacks."""
    if device not in rigs.open_devices():
        pytest.skip(f"this machine has no device {device}")
    secret = rigs.secret_for_test(rigs.parameters_on(rigs.specs("w64"), device))
    np.testing.assert_array_equal(secret.decrypt(secret.encrypt(np.arange(rigs.N))), np.arange(rigs.N))


@pytest.mark.parametrize(("name", "device", "case"), triples())
def test_operation(name: str, device: str, case: str) -> None:
    """The words of the engine equal those of the model, and decrypt to the clear result."""
    rig = rigs.rig(name)
    secret, _, engine = rig.engine(device)
    operation = cases_of(name)[case]
    expected = rig.expected(case, operation)
    result = operation(engine)
    require_same_words(result, expected.cipher)
    # decryption is unchecked: these small sets exhaust the noise estimate, but some cases still decrypt correctly.
    assert secret.noise_budget(result, beyond_estimate=True) == pytest.approx(expected.budget, abs=1e-3)
    decrypted = secret.decrypt(result, beyond_estimate=True)
    np.testing.assert_array_equal(decrypted, expected.decrypted)
    assert expected.budget > 1, "the set is too small for this case"
    np.testing.assert_array_equal(decrypted, expected.values)


@pytest.mark.parametrize(("name", "device"), pairs())
def test_keys(name: str, device: str) -> None:
    """The key id, the secret and every word of the evaluation keys follow from the seed, as in the model."""
    rig = rigs.rig(name)
    secret, keys, _ = rig.engine(device)
    assert secret.id == keys.id == rig.model.key_id
    found = parse(keys.to_bytes())
    primes = [*rig.spec.chain, *rig.spec.special]
    expected = {f"rotation{g}": k for g, k in rig.model.rotations.items()}
    assert rig.model.relinearization is not None
    expected["relinearization"] = rig.model.relinearization
    assert set(found.arrays) == set(expected)
    for array, key in expected.items():
        galois = array.removeprefix("rotation")
        seeds = found.header["rotations"]
        assert key.seed.hex() == (seeds[galois] if galois in seeds else found.header["relinearization"])
        for digit, (body, _) in enumerate(key.pairs):
            for limb, q in enumerate(primes):
                words = found.arrays[array][digit, limb].astype(object)
                np.testing.assert_array_equal(from_ntt(words, q), body % q)


@pytest.mark.parametrize("device", places())
@pytest.mark.parametrize("name", rigs.EVERYWHERE)
def test_public_key(name: str, device: str) -> None:
    """The words of the public key equal those of the model, and ciphertexts by this key can be decrypted."""
    spec = rigs.specs(name)
    secret = rigs.secret_for_test(rigs.parameters_on(spec, device))
    model = rigs.Model(spec, rigs.SEED)
    public = secret.public_key()
    seed, body, _ = model.public_key()
    found = parse(public.to_bytes())
    assert found.header["seed"] == seed.hex()
    for limb, q in enumerate(spec.chain):
        words = found.arrays["body"].reshape(len(spec.chain), rigs.N)[limb].astype(object)
        np.testing.assert_array_equal(from_ntt(words, q), body % q)
    values = np.arange(-512, 512)
    tensor = public.encrypt(np.stack([values, -values]))
    np.testing.assert_array_equal(secret.decrypt(tensor), [values, -values])
    words = parse(tensor.to_bytes()).arrays["part0"]
    primes = np.array(spec.chain, dtype=np.uint64)[:, None]
    assert (words < primes).all()
    assert not np.array_equal(words, parse(public.encrypt(np.stack([values, -values])).to_bytes()).arrays["part0"])


@pytest.mark.parametrize("device", places())
def test_large_batches_use_the_draws_of_each_item(device: str) -> None:
    """If a batch is encrypted in several parts, item i still has the draws of item i of the batch."""
    spec = rigs.specs("w64")
    secret = rigs.secret_for_test(rigs.parameters_on(spec, device))
    tensor = secret.encrypt(many_values())
    require_same_words(tensor, many_ciphers())


def many_values() -> Any:
    """Returns 35 rows of slots."""
    return np.arange(35)[:, None] + np.zeros(rigs.N, dtype=np.int64)


@functools.cache
def many_ciphers() -> Cipher:
    """Returns the model's ciphertexts of these rows."""
    return rigs.Model(rigs.specs("w64"), rigs.SEED).encrypt(many_values())


def test_chacha_block_of_rfc_8439() -> None:
    """The ChaCha20 block function of the model gives the example of RFC 8439, section 2.3.2."""
    block = chacha_blocks(bytes(range(32)), (0x09000000, 0x4A000000, 0), 1, first=1)[0]
    assert block.astype("<u4").tobytes().hex().startswith("10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c06803")


def test_gaussian_table_is_a_distribution() -> None:
    """The table of the model, which is computed from the density, increases and ends at 2^63."""
    table = gaussian_table()
    assert all(a < b for a, b in itertools.pairwise(table))
    assert (1 << 63) - 3 <= table[-1] <= 1 << 63


def test_one_changed_word_is_detected() -> None:
    """A single changed word is detected."""
    rig = rigs.rig("w64")
    engine = rig.engine("cpu")[2]
    other = rig.cipher.x.mapped(lambda p, t: p + (np.arange(p.size).reshape(p.shape) == 5))
    other.seeds = rig.cipher.x.seeds
    with pytest.raises(AssertionError):
        require_same_words(engine.x, other)
