"""Tests parameter sets (search, named sets, security, texts) and the statistics of the samplers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import rigs
from heliograph import _core
from model import centred, crt, from_ntt, gaussian_table, parse, times
from rigs import N

# The largest log2(QP) for 128 bits (Bossuat and others, ePrint 2024/463), written here independently of the engine.
TABLE = {1024: 26, 2048: 53, 4096: 106, 8192: 214, 16384: 430, 32768: 868, 65536: 1747, 131072: 3523}
TEN = [2424833, 2654209, 2752513, 3604481, 3735553, 4423681, 4620289, 4816897, 4882433, 5308417]


def log2(values: list[int]) -> float:
    """Returns log2 of a product."""
    return sum(math.log2(v) for v in values)


def is_prime(q: int) -> bool:
    """Tests whether a number is prime by the method of Miller and Rabin, with bases that suffice for 64 bits."""
    d, s = q - 1, 0
    while d % 2 == 0:
        d, s = d // 2, s + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        x = pow(base, d, q)
        if x not in (1, q - 1) and all((x := x * x % q) != q - 1 for _ in range(s - 1)):
            return False
    return True


def require_sound(p: hg.bfv.Parameters) -> None:
    """Checks the invariants of every set."""
    s = p._core.spec
    primes = [*s.chain, *s.special, *s.auxiliary]
    assert len(set(primes)) == len(primes)
    assert all(q % (2 * s.n) == 1 and is_prime(q) for q in primes)
    assert max(primes) < 2 ** (30 if s.word_size == 32 else 60)
    assert sum(s.digits) == len(s.chain)
    assert p.log_q == pytest.approx(log2(s.chain))
    assert p.log_qp == pytest.approx(log2([*s.chain, *s.special]))
    assert p.security.startswith("128-bit" if p.log_qp <= TABLE[p.n] else "insecure")
    # The product of a digit and the errors must be below P; otherwise the key switch would add more noise.
    first = 0
    for size in s.digits:
        if s.special:
            assert log2(s.chain[first : first + size]) <= log2(s.special) + 0.2
        first += size
    # BFV multiplies modulo Q and R, where R must exceed t N Q with some room.
    assert log2(s.auxiliary) >= p.log_q + math.log2(max(s.plain_moduli)) + math.log2(s.n) + 1


# Named sets

NUMBERS: dict[str, tuple[int, int, list[int]]] = {
    "hvmul-2020": (15, 600, [2]),
    "hcnn5-2020": (14, 330, [5522259017729]),
    "hcnn11-2020": (13, 300, TEN),
}


def test_every_named_set() -> None:
    """Every named set exists in both word sizes and is valid. A set is secure unless it is marked insecure."""
    assert set(hg.bfv.named()) == {*NUMBERS, "hcnn5", "hcnn11"}
    for name in hg.bfv.named():
        for ending in ("", "/w32", "/w64"):
            p = hg.bfv.parameters(name + ending, insecure=name == "hcnn11-2020")
            require_sound(p)
            assert p.name == name + ending.removesuffix("/w64")  # w64 is the default, so this name is not a second name
            assert p.word_size == (32 if ending == "/w32" else 64)
            assert ("insecure" in p.security) == (name == "hcnn11-2020")
            assert p.name in repr(p)


@pytest.mark.parametrize("ending", ["", "/w32"])
@pytest.mark.parametrize("name", NUMBERS)
def test_the_papers_numbers(name: str, ending: str) -> None:
    """The named sets of the paper have the N, log q and t of Al Badawi and others (2020)."""
    log_n, log_q, moduli = NUMBERS[name]
    p = hg.bfv.parameters(name + ending, insecure=True)
    assert p.n == 2**log_n
    assert p.log_q == pytest.approx(log_q, abs=0.5)
    assert p.plain_moduli == moduli
    assert p.has_slots == (moduli != [2])
    assert p.security == ("insecure, about 91-bit" if name == "hcnn11-2020" else "128-bit")


@pytest.mark.parametrize("name", ["hcnn5", "hcnn11"])
def test_the_networks_sets(name: str) -> None:
    """The networks' sets have 128-bit security at N = 2^13."""
    p = hg.bfv.parameters(name)
    assert p.n == 2**13
    assert p.security == "128-bit"
    assert p.has_slots
    old = hg.bfv.parameters(name + "-2020", insecure=True)
    assert p.plain_modulus.bit_length() >= old.plain_modulus.bit_length()


# Security


@pytest.mark.parametrize("n", TABLE)
def test_the_security_table_is_enforced(n: int) -> None:
    """A set at the bound is accepted. A set with one bit more is refused, and insecure=True marks the set as insecure."""
    bound = TABLE[n]
    assert _core.exact.largest_secure_log_qp(n) == bound
    if n > 2**15:  # larger degrees have the same rule, but the search for their primes is slow
        return
    p = hg.bfv.parameters(n=n, log_q=bound, special=0, plain_modulus=2)
    require_sound(p)
    assert p.security == "128-bit"
    with pytest.raises(hg.SecurityError):
        hg.bfv.parameters(n=n, log_q=bound + 2, special=0, plain_modulus=2)
    weak = hg.bfv.parameters(n=n, log_q=bound + 2, special=0, plain_modulus=2, insecure=True)
    assert weak.security.startswith("insecure, about ")
    assert weak != p


def test_security_depends_on_special_primes() -> None:
    """Security depends on QP, because the keys are modulo QP."""
    numbers: dict[str, Any] = {"n": 4096, "log_q": 100, "plain_modulus": 2}
    assert hg.bfv.parameters(**numbers, special=0).security == "128-bit"
    with pytest.raises(hg.SecurityError):
        hg.bfv.parameters(**numbers, special=1)


def test_insecure_named_sets_are_marked() -> None:
    """Sets that are not marked insecure are within the table."""
    for name in hg.bfv.named():
        try:
            p = hg.bfv.parameters(name)
        except hg.SecurityError:
            assert name == "hcnn11-2020"
            continue
        assert p.log_qp <= TABLE[p.n]


# Search

REQUESTS: list[dict[str, Any]] = [
    {"depth": 0, "plain_bits": 20},
    {"depth": 1, "plain_bits": 16},
    {"depth": 1, "plain_bits": 20, "slots": 4096},
    {"depth": 1, "plain_bits": 20, "slots": 4097},
    {"depth": 2, "plain_bits": 30, "word_size": 32},
    {"depth": 1, "plain_bits": 90},
    {"depth": 2, "plain_modulus": 65537, "terms": 16},
    {"depth": 1, "plain_modulus": 2},
    {"depth": 4, "plain_bits": 42, "slots": 10_000},
    {"depth": 3, "plain_modulus": [65537, 786433]},
]


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_chosen_sets_are_secure_and_sufficient(request_: dict[str, Any]) -> None:
    """The set is secure, can represent the requested values, and allows the requested multiplications."""
    p = hg.bfv.parameters(**request_)
    require_sound(p)
    assert p.security == "128-bit"
    assert p.slots >= request_.get("slots", 0)
    assert p.plain_modulus.bit_length() > request_.get("plain_bits", 0)
    if "plain_modulus" in request_:
        given = request_["plain_modulus"]
        assert p.plain_moduli == (given if isinstance(given, list) else [given])
    else:
        assert p.has_slots
    terms = min(request_.get("terms", 1024), 8)
    secret = hg.SecretKey.generate(p)
    packing = "slots" if p.has_slots else "coefficients"
    server = hg.Server(secret.evaluation_keys())
    width = min(p.n, p.slots)
    values = np.zeros((terms, width), dtype=int)
    values[:, 0] = 1
    x = server.bind(secret.encrypt(values, pad=True, **{packing: -1}))
    for _ in range(request_["depth"]):
        x = hg.relinearize(hg.sum(x * x, 0))[None].broadcast_to((terms,))
        values = np.broadcast_to((values * values).sum(0), (terms, width))
        values = rigs.Clear(values, p.plain_modulus, "slots").centred()
    assert x.noise_budget is not None
    assert x.noise_budget > 0
    np.testing.assert_array_equal(secret.decrypt(x[0]), values[0])


def test_chosen_sets_have_the_smallest_ring() -> None:
    """A larger request gives no smaller set, and half the ring degree would not suffice."""
    before = 0
    for depth in range(6):
        p = hg.bfv.parameters(depth=depth, plain_bits=20)
        assert p.n >= before
        before = p.n
    assert hg.bfv.parameters(depth=0, plain_bits=20).n == 2048
    deep = hg.bfv.parameters(depth=12, plain_bits=20)
    half = TABLE[deep.n // 2]
    assert deep.log_q > half  # log q alone exceeds the bound for half the degree
    assert deep.log_q <= TABLE[deep.n]


def test_equal_requests_give_equal_sets() -> None:
    """Equal requests give equal sets with equal hashes."""
    a, b = (hg.bfv.parameters(depth=2, plain_bits=20) for _ in range(2))
    assert a == b
    assert hash(a) == hash(b)
    assert a.hash == b.hash
    assert a != hg.bfv.parameters(depth=2, plain_bits=20, word_size=32)
    assert a != "something else"


# parameters_for

FUNCTIONS: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "square": (lambda x: x * x, {}),
    "affine": (lambda x: 3 * x + 7, {}),
    "sum of squares": (lambda x: hg.sum(x * x, 0), {}),
    "cube": (lambda x: x**3, {}),
    "matmul": (lambda x: hg.matmul(np.array([[1, 2], [3, -4]]), x, np.array([5, 6])), {}),
    "network": (lambda x: hg.square(hg.matmul(np.array([[1, 2], [3, -4]]), hg.square(x))), {}),
    "convolution": (lambda x: hg.conv2d(x.reshape(1, 1, 2), np.array([[[[1, -1]]]])), {}),
    "shrunk": (lambda x: hg.shrink(x * x), {}),
}


@pytest.mark.parametrize("word_size", [64, 32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_parameters_for(name: str, word_size: int) -> None:
    """The set can run the function, and the result is the clear result."""
    function, _ = FUNCTIONS[name]
    example = np.arange(-10, 10).reshape(2, 10)
    p = hg.parameters_for(function, example, word_size=word_size)
    require_sound(p)
    assert (p.security, p.word_size) == ("128-bit", word_size)
    secret = hg.SecretKey.generate(p)
    server = hg.Server(secret.evaluation_keys(relinearize=True))
    result = function(server.bind(secret.encrypt(example, pad=True)))
    assert result.noise_budget > 0
    np.testing.assert_array_equal(secret.decrypt(result), function(hg.ClearTensor(example)).values)


def test_parameters_for_rotations() -> None:
    """The rotation keys that the function needs are listed."""
    width = 4096

    def turn(x: Any) -> Any:
        return hg.sum(hg.rotate_rows(x, [1, 0, 5]), 0) + hg.rotate_columns(hg.rotate_rows(x, -1))

    example = np.arange(width) % 100
    p = hg.parameters_for(turn, example, n=width)
    assert p.needs == {"relinearize": True, "rotations": [1, 5, 2047], "columns": True}
    secret = hg.SecretKey.generate(p)
    server = hg.Server(secret.evaluation_keys(**p.needs))
    result = turn(server.bind(secret.encrypt(example)))
    np.testing.assert_array_equal(secret.decrypt(result), turn(hg.ClearTensor(example)).values)


def test_parameters_for_options() -> None:
    """A requested ring degree or plaintext size is used. Impossible requests are refused."""
    example = np.arange(8)
    assert hg.parameters_for(lambda x: x * x, example, n=8192).n == 8192
    assert hg.parameters_for(lambda x: x * x, example, plain_bits=50).plain_modulus.bit_length() > 50
    small = hg.parameters_for(lambda x: x * x, example)
    assert small.n == 4096
    with pytest.raises(hg.ParameterError, match="128-bit"):
        hg.parameters_for(lambda x: x**16, example, n=4096, plain_bits=40)
    with pytest.raises(hg.DtypeError):
        hg.parameters_for(lambda x: x * x, np.ones(4))
    with pytest.raises(hg.PlaintextRangeError):
        hg.parameters_for(lambda x: x**40, example)


# Texts


def test_repr_has_the_main_numbers() -> None:
    """repr has the scheme, N, log q, security, shape, slots, noise budget, bytes and key."""
    p = hg.bfv.parameters("hcnn5-2020")
    for text in ("BFV", "hcnn5-2020", "N=2^14", "log q 330", "128-bit", "43-bit plaintext", "16,384 slots", "w64"):
        assert text in repr(p)
    spec = rigs.specs("w64-digits")
    small = hg.bfv.Parameters(_core.exact.Parameters(spec))
    secret = hg.SecretKey.generate(small)
    keys = secret.evaluation_keys(rotations=[3, 1], columns=True)
    x = secret.encrypt(np.zeros((2, 3, N), dtype=int))
    for text in (
        "BFV",
        "(2, 3)",
        "1,024 slots",
        "N=2^10",
        "log q 150",
        "insecure",
        "degree 1",
        "level 3",
        "seeded",
        secret.id[:8],
    ):
        assert text in repr(x)
    assert f"noise budget {x.noise_budget:.0f} bits (estimate)" in repr(x)
    assert "bits (estimate of a file)" in repr(hg.Tensor(_core.exact.Ciphertext.from_bytes((x + x).to_bytes())))
    for text in ("evaluation keys", "relinearize", "rotations [1, 3]", "columns", secret.id[:8]):
        assert text in repr(keys)
    assert "none" in repr(secret.evaluation_keys(relinearize=False))
    for thing in (secret, secret.public_key(), hg.Server(keys), hg.encode(small, np.ones(N, dtype=int))):
        assert repr(thing).startswith("<")
    assert hex(int(secret.id, 16))[2:] not in repr(small)


def test_explain_has_all_numbers() -> None:
    """The text of explain() contains all numbers of the set."""
    text = hg.bfv.parameters("hcnn11-2020", insecure=True).explain()
    for part in ("N = 8,192", "log q = 300.0", "insecure", "at most 214", "2^-128", "8,192 slots", "MiB", *map(str, TEN)):
        assert part in text
    assert "no slots" in hg.bfv.parameters("hvmul-2020").explain()


def test_stated_sizes_are_true() -> None:
    """The stated sizes in memory and in files are the actual sizes."""
    for name in ("w64", "w64-digits", "w32"):
        p = hg.bfv.Parameters(_core.exact.Parameters(rigs.specs(name)))
        secret = hg.SecretKey.generate(p)
        x = secret.encrypt(np.zeros((5, N), dtype=int))
        assert x.nbytes == 5 * p.ciphertext_bytes()
        assert (x * x).nbytes == 5 * p.ciphertext_bytes(2)
        assert 0 <= len(x.to_bytes()) - x.nbytes // 2 < 4096
        assert 0 <= len((x + x).to_bytes()) - x.nbytes < 4096
        keys = secret.evaluation_keys(rotations=[1, 2])
        assert keys.nbytes == 3 * p.switch_key_bytes
        assert 0 <= len(keys.to_bytes()) - keys.nbytes // 2 < 4096


# Samplers, tested by keys and by encryptions of zero

ITEMS = 24


@functools.cache
def zeros(public: bool) -> tuple[Any, Any, Any]:
    """Returns the secret; also the errors [ITEMS, N] and the masks [ITEMS, limb, N] of encryptions of zero."""
    spec = rigs.specs("w64")
    secret = rigs.secret_for_test(hg.bfv.Parameters(_core.exact.Parameters(spec)))
    model = rigs.Model(spec, rigs.SEED)
    key = secret.public_key() if public else secret
    x = key.encrypt(np.zeros((ITEMS, N), dtype=int))
    # A sum has no seed, so its file has both components.
    words = parse((x + 0 * x[:1]).to_bytes()).arrays["part0"].astype(object)
    parts = [crt(list(np.moveaxis(words[:, k], 1, 0)), spec.chain) for k in range(2)]
    modulus = math.prod(spec.chain)
    phases = [centred(c0 + times(c1, model.secret), modulus) for c0, c1 in zip(*parts, strict=True)]
    return model.secret, np.array(phases, dtype=np.float64), words[:, 1].astype(np.uint64)


def deviations(observed: float, expected: float, deviation: float) -> float:
    """Returns how far a measured mean is from its expectation, in standard deviations."""
    return abs(observed - expected) / deviation


def test_errors_are_discrete_gaussians() -> None:
    """Errors have the mean, the variance and every frequency of a discrete Gaussian of deviation 3.19."""
    _, errors, _ = zeros(public=False)
    count = errors.size
    assert deviations(errors.mean(), 0, 3.19 / math.sqrt(count)) < 5
    assert deviations(errors.var(), 3.19**2, 3.19**2 * math.sqrt(2 / count)) < 5
    below = [0, *gaussian_table()]
    chi = 0.0
    for k in range(-9, 10):
        share = (below[abs(k) + 1] - below[abs(k)]) / 2**63 / (1 if k == 0 else 2)
        chi += ((errors == k).sum() - count * share) ** 2 / (count * share)
    assert chi < 19 + 5 * math.sqrt(2 * 19)
    assert np.abs(errors).max() < 6 * 3.19
    for lag in (1, N // 2):  # neighbouring coefficients and items are independent
        products = errors * np.roll(errors, lag, axis=1)
        assert deviations(products.mean(), 0, 3.19**2 / math.sqrt(count)) < 5
    between = (errors[1:] * errors[:-1]).mean()
    assert deviations(between, 0, 3.19**2 / math.sqrt(count)) < 5


def test_public_key_noise() -> None:
    """The noise e u + e_1 + e_2 s has variance 3.19^2 (1 + 4N/3), as in the noise model."""
    _, errors, _ = zeros(public=True)
    expected = 3.19**2 * (1 + 4 * N / 3)
    assert errors.var() == pytest.approx(expected, rel=0.15)
    assert deviations(errors.mean(), 0, math.sqrt(expected / errors.size) * 4) < 5


def test_masks_are_uniform() -> None:
    """Masks are uniform over sixteenths of the range of each prime, and in their lowest bits."""
    _, _, words = zeros(public=False)
    for limb, q in enumerate(rigs.specs("w64").chain):
        w = words[:, limb].ravel()
        for parts in (w.astype(np.float64) * 16 / q, w % np.uint64(16)):
            counts = np.bincount(np.minimum(parts.astype(int), 15), minlength=16)
            chi = ((counts - w.size / 16) ** 2 / (w.size / 16)).sum()
            assert chi < 15 + 5 * math.sqrt(30)
    assert len(np.unique(words[:, 0])) > 0.999 * words[:, 0].size


def test_secrets_are_ternary() -> None:
    """Over many keys, each of -1, 0 and 1 is a third of the coefficients; the key ids differ."""
    parameters = hg.bfv.Parameters(_core.exact.Parameters(rigs.specs("w64")))
    keys = [rigs.secret_for_test(parameters, bytes([k]) * 32) for k in range(16)]
    assert len({k.id for k in keys}) == 16
    models = [rigs.Model(rigs.specs("w64"), bytes([k]) * 32) for k in range(16)]
    all_of = np.concatenate([m.secret for m in models]).astype(int)
    for value in (-1, 0, 1):
        share = all_of.size / 3
        assert deviations((all_of == value).sum(), share, math.sqrt(share * 2 / 3)) < 5
    for key, model in zip(keys, models, strict=True):
        assert key.id == model.key_id


def test_keys_and_encryptions_never_repeat_draws(tmp_path: Path) -> None:
    """The keys and encryptions of several generated keys never repeat draws."""
    parameters = hg.bfv.Parameters(_core.exact.Parameters(rigs.specs("w32")))
    seen = set()
    for k in range(4):
        secret = hg.SecretKey.generate(parameters)
        secret.save(tmp_path / str(k))
        seen.add(secret.id)
        seen.add(parse((tmp_path / str(k)).read_bytes()).arrays["secret"].tobytes())
        for tensor in (secret.encrypt(np.zeros(N, dtype=int)), secret.public_key().encrypt(np.zeros(N, dtype=int))):
            file = parse(tensor.to_bytes())
            seen.update(file.header["seeds"])
            seen.add(file.arrays["part0"].tobytes())
        header = parse(secret.evaluation_keys(rotations=[1]).to_bytes()).header
        seen.update([header["relinearization"], *header["rotations"].values()])
    assert len(seen) == 4 * 7


def test_key_errors_are_small() -> None:
    """For each digit, b + a s - P g s^2 is a Gaussian error."""
    spec = rigs.specs("w64-digits")
    secret = rigs.secret_for_test(hg.bfv.Parameters(_core.exact.Parameters(spec)))
    model = rigs.Model(spec, rigs.SEED)
    model.evaluation_keys([], columns=False)
    keys = parse(secret.evaluation_keys().to_bytes())
    primes = [*spec.chain, *spec.special]
    assert model.relinearization is not None
    errors = []
    square = times(model.secret, model.secret)
    first = 0
    for digit, size in enumerate(spec.digits):
        words = keys.arrays["relinearization"][digit].astype(object)
        body = crt([from_ntt(w, q) for w, q in zip(words, primes, strict=True)], primes)
        mask = model.relinearization.pairs[digit][1]
        gadget = [math.prod(spec.special) % q if first <= i < first + size else 0 for i, q in enumerate(primes)]
        constant = int(crt([np.array(g, dtype=object) for g in gadget], primes))
        error = centred(body + times(mask, model.secret) - constant * square, math.prod(primes))
        errors.append(error.astype(np.float64))
        first += size
    assert np.abs(errors).max() < 6 * 3.19
    assert np.var(errors) == pytest.approx(3.19**2, rel=0.15)
