"""Compares with other libraries on the same inputs: in exact schemes all integers are equal, in CKKS our errors are not
larger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import heliograph as hg

Array = npt.NDArray[Any]
Results = dict[str, Array]

T = 65537
SCALE_BITS = 40
WORST = 4  #: Largest allowed ratio of our error to the other library's.


def error(found: Any, expected: Any) -> float:
    """Returns the root mean square of the errors, which varies less than the largest error."""
    return float(np.sqrt(np.mean(np.square(np.asarray(found, dtype=float) - expected))))


def require_as_precise(ours: Results, theirs: Results, expected: Results) -> None:
    """Checks that the values of the other library are near NumPy's, and that our error is at most `WORST` times the other
    library's error.

    """
    assert set(ours) == set(theirs) == set(expected)
    for name, want in expected.items():
        other, own = error(theirs[name], want), error(ours[name], want)
        assert other < 1e-4, f"{name}: the other library has an error of {other}"
        assert own <= WORST * other, f"{name}: our error is {own}, the other library's {other}"


def real(*shape: int, seed: int = 1) -> Array:
    """Returns numbers in [-1, 1]."""
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def integers(*shape: int, seed: int = 1) -> Array:
    """Returns centred residues modulo T."""
    return np.random.default_rng(seed).integers(-(T // 2), T // 2 + 1, shape)


def reduced(values: Any) -> Array:
    """Returns values reduced to centred residues modulo T."""
    return (np.asarray(values).astype(object) + T // 2) % T - T // 2


# CKKS and tenseal, N = 8192. tenseal divides public-key encryptions by a special prime, so its errors are compared with our
# secret-key encryptions.

SLOTS = 4096
QUADRATIC = [0.5, 0.25, -0.125]


class Ckks:
    """Our secret key, public key and server."""

    def __init__(self, n: int, depth: int, rotations: list[int], slots: int = 0) -> None:
        self.parameters = hg.ckks.parameters(
            n=n, levels=depth + 1, log_scale=SCALE_BITS, base_bits=50, special=1, slots=slots
        )
        self.secret = hg.SecretKey.generate(self.parameters)
        self.public = self.secret.public_key()
        self.server = hg.Server(self.secret.evaluation_keys(rotations=rotations))

    def tensor(self, values: Array, *, public: bool = False) -> hg.ckks.Tensor:
        """Encrypts values and binds the ciphertexts to the server."""
        return self.server.bind((self.public if public else self.secret).encrypt(values))


def test_tenseal_ckks_vectors() -> None:
    """Errors of sums, products and a polynomial are at most as large as tenseal's."""
    ts = pytest.importorskip("tenseal")
    a, b = real(SLOTS), real(SLOTS, seed=2)
    context = ts.context(ts.SCHEME_TYPE.CKKS, 2 * SLOTS, coeff_mod_bit_sizes=[60, SCALE_BITS, SCALE_BITS, 60])
    context.global_scale = 2**SCALE_BITS
    side = Ckks(2 * SLOTS, 2, [])

    def run(x: Any, y: Any, read: Callable[[Any], Any], quadratic: Callable[[Any], Any]) -> Results:
        # If an operand of tenseal meets an operand at a lower level, it is lowered in place. So the deepest product is
        # computed last.
        made = {"fresh": x, "add": x + y, "subtract": x - y, "multiply": x * y, "square": x * x, "quadratic": quadratic(x)}
        made |= {"numbers": x * 0.3 + 0.7, "clear": x * b.tolist(), "third": x * y * x}
        return {name: np.asarray(read(result)) for name, result in made.items()}

    theirs = run(
        ts.ckks_vector(context, a.tolist()),
        ts.ckks_vector(context, b.tolist()),
        lambda v: v.decrypt(),
        lambda v: v.polyval(QUADRATIC),
    )
    ours = run(side.tensor(a), side.tensor(b), side.secret.decrypt, lambda v: hg.ckks.polynomial(v, QUADRATIC))
    expected = {
        **{"fresh": a, "add": a + b, "subtract": a - b, "multiply": a * b, "square": a * a, "third": a * b * a},
        **{"numbers": a * 0.3 + 0.7, "clear": a * b, "quadratic": np.polynomial.polynomial.polyval(a, QUADRATIC)},
    }
    require_as_precise(ours, theirs, expected)


def test_tenseal_ckks_sums_and_matrices() -> None:
    """Errors of dot products over all slots and of products with clear matrices are at most as large as tenseal's."""
    ts = pytest.importorskip("tenseal")
    count, length, rows, columns = 12, 256, 16, 8
    a, b = real(count, length, seed=3), real(count, length, seed=4)
    v, m = real(count, rows, seed=5), real(rows, columns, seed=6)
    context = ts.context(ts.SCHEME_TYPE.CKKS, 2 * SLOTS, coeff_mod_bit_sizes=[60, SCALE_BITS, SCALE_BITS, 60])
    context.global_scale = 2**SCALE_BITS
    context.generate_galois_keys()

    def theirs_of(values: Array) -> list[Any]:
        return [ts.ckks_vector(context, row.tolist()) for row in values]

    theirs = {
        "dot": np.array([x.dot(y).decrypt()[0] for x, y in zip(theirs_of(a), theirs_of(b), strict=True)]),
        "matmul": np.array([x.matmul(m.tolist()).decrypt() for x in theirs_of(v)]),
    }
    long = Ckks(2 * SLOTS, 2, hg.ckks.sum_rotations(length), slots=length)
    x, y = long.tensor(a), long.tensor(b)
    dots = long.secret.decrypt(hg.ckks.inner_product(x.reshape(1, count), y.reshape(1, count), axis=0, count=length))
    parameters = Ckks(2 * SLOTS, 2, [], slots=rows).parameters
    transform = hg.ckks.LinearTransform(parameters, m.T)
    short = Ckks(2 * SLOTS, 2, transform.rotations, slots=rows)
    ours = {"dot": dots[..., 0].ravel(), "matmul": short.secret.decrypt(transform @ short.tensor(v))}
    require_as_precise(ours, theirs, {"dot": (a * b).sum(1), "matmul": v @ m})


# Exact integers and tenseal


@pytest.mark.parametrize("scheme", ["bfv", "bgv"])
def test_tenseal_integers(scheme: str) -> None:
    """tenseal's BFV and our two exact schemes give the same integers modulo t."""
    ts = pytest.importorskip("tenseal")
    a, b = integers(2 * SLOTS), integers(2 * SLOTS, seed=2)
    context = ts.context(ts.SCHEME_TYPE.BFV, 2 * SLOTS, plain_modulus=T)
    x, y = (ts.bfv_vector(context, v.tolist()) for v in (a, b))
    theirs = [x + y, x - y, x * y, x * x + y, x * b.tolist(), x + b.tolist()]
    parameters = getattr(hg, scheme).parameters(n=2 * SLOTS, log_q=150, special=1, plain_modulus=T)
    secret = hg.SecretKey.generate(parameters)
    server = hg.Server(secret.evaluation_keys())
    u, w = (server.bind(secret.encrypt(v)) for v in (a, b))
    plain = server.encode(b)
    ours = [u + w, u - w, u * w, u * u + w, u * plain, u + plain]
    p, q = a.astype(object), b.astype(object)
    for mine, other, expected in zip(ours, theirs, [p + q, p - q, p * q, p * p + q, p * q, p + q], strict=True):
        np.testing.assert_array_equal(secret.decrypt(mine), reduced(expected))
        np.testing.assert_array_equal(reduced(other.decrypt()), reduced(expected))


# OpenFHE, N = 2^14


def openfhe_keys(o: Any, p: Any, step: int) -> tuple[Any, Any]:
    """Returns a context of these parameters, and keys for products and one rotation."""
    context = o.GenCryptoContext(p)
    for feature in (o.PKESchemeFeature.PKE, o.PKESchemeFeature.KEYSWITCH, o.PKESchemeFeature.LEVELEDSHE):
        context.Enable(feature)
    keys = context.KeyGen()
    context.EvalMultKeyGen(keys.secretKey)
    context.EvalRotateKeyGen(keys.secretKey, [step])
    return context, keys


def opened(context: Any, keys: Any, ciphertext: Any, length: int) -> Any:
    """Returns the decrypted plaintext of this length."""
    plain = context.Decrypt(ciphertext, keys.secretKey)
    plain.SetLength(length)
    return plain


def openfhe_bgv(o: Any, a: Array, b: Array, step: int) -> Results:
    """OpenFHE's BGV: two multiplications in sequence, and rotations to the left in rows of N/2 slots."""
    p = o.CCParamsBGVRNS()
    p.SetPlaintextModulus(T)
    p.SetMultiplicativeDepth(2)
    p.SetRingDim(len(a))
    context, keys = openfhe_keys(o, p, step)
    x, y = (context.Encrypt(keys.publicKey, context.MakePackedPlaintext(v.tolist())) for v in (a, b))
    product = context.EvalMult(x, y)
    made = {"add": context.EvalAdd(x, y), "subtract": context.EvalSub(x, y), "multiply": product}
    made |= {"third": context.EvalMult(product, x), "rotate": context.EvalRotate(x, step)}
    made["rotate product"] = context.EvalRotate(product, step)

    return {name: np.array(opened(context, keys, c, len(a)).GetPackedValue()) for name, c in made.items()}


def openfhe_ckks(o: Any, a: Array, b: Array, step: int) -> Results:
    """OpenFHE's CKKS at a scale of 40 bits."""
    p = o.CCParamsCKKSRNS()
    p.SetMultiplicativeDepth(2)
    p.SetScalingModSize(SCALE_BITS)
    p.SetFirstModSize(50)
    p.SetScalingTechnique(o.ScalingTechnique.FLEXIBLEAUTO)
    p.SetRingDim(2 * len(a))
    p.SetBatchSize(len(a))
    context, keys = openfhe_keys(o, p, step)
    x, y = (context.Encrypt(keys.publicKey, context.MakeCKKSPackedPlaintext(v.tolist())) for v in (a, b))
    product = context.EvalMult(x, y)
    made = {"fresh": x, "add": context.EvalAdd(x, y), "multiply": product, "third": context.EvalMult(product, x)}
    made |= {"number": context.EvalMult(x, 0.3), "rotate": context.EvalRotate(x, step)}

    return {name: np.array(opened(context, keys, c, len(a)).GetRealPackedValue()) for name, c in made.items()}


def clear_bgv(a: Array, b: Array, step: int) -> Results:
    """Returns the exact results of both libraries."""
    p, q = a.astype(object), b.astype(object)

    def turned(v: Array) -> Array:
        return np.roll(v.reshape(2, -1), -step, axis=1).ravel()

    made = {"add": p + q, "subtract": p - q, "multiply": p * q, "third": p * q * p}
    made |= {"rotate": turned(p), "rotate product": turned(p * q)}
    return {name: reduced(v) for name, v in made.items()}


def clear_ckks(a: Array, b: Array, step: int) -> Results:
    """Returns the values that both libraries approximate."""
    return {
        **{"fresh": a, "add": a + b, "multiply": a * b, "third": a * b * a},
        **{"number": 0.3 * a, "rotate": np.roll(a, -step)},
    }


def our_bgv(a: Array, b: Array, step: int) -> Results:
    """Our BGV with the same parameters."""
    parameters = hg.bgv.parameters(n=len(a), log_q=200, special=2, plain_modulus=T)
    secret = hg.SecretKey.generate(parameters)
    server = hg.Server(secret.evaluation_keys(rotations=[step]))
    x, y = (server.bind(secret.public_key().encrypt(v)) for v in (a, b))
    made = {"add": x + y, "subtract": x - y, "multiply": x * y, "third": x * y * x}
    made |= {"rotate": hg.rotate_rows(x, step), "rotate product": hg.rotate_rows(x * y, step)}
    return {name: secret.decrypt(t) for name, t in made.items()}


def our_ckks(a: Array, b: Array, step: int) -> Results:
    """Our CKKS with the same parameters."""
    side = Ckks(2 * len(a), 2, [step])
    # OpenFHE also encrypts by public key over this modulus.
    x, y = side.tensor(a, public=True), side.tensor(b, public=True)
    made = {"fresh": x, "add": x + y, "multiply": x * y, "third": x * y * x}
    made |= {"number": x * 0.3, "rotate": hg.ckks.rotate(x, step)}
    return {name: side.secret.decrypt(t) for name, t in made.items()}


def test_openfhe_bgv() -> None:
    """OpenFHE's BGV and ours give the same integers for sums, products and rotations."""
    o = pytest.importorskip("openfhe")
    a, b = integers(1 << 14), integers(1 << 14, seed=2)
    expected = clear_bgv(a, b, 3)
    for results in (openfhe_bgv(o, a, b, 3), our_bgv(a, b, 3)):
        for name, want in expected.items():
            np.testing.assert_array_equal(reduced(results[name]), want)


def test_openfhe_ckks() -> None:
    """At equal scale and ring degree, our errors are at most as large as OpenFHE's."""
    o = pytest.importorskip("openfhe")
    a, b = real(1 << 13), real(1 << 13, seed=2)
    require_as_precise(our_ckks(a, b, 3), openfhe_ckks(o, a, b, 3), clear_ckks(a, b, 3))
