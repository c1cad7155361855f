"""BGV is compared with the big-integer model: the same residues, word for word, on every device.

The model extends BFV's model, with other definitions where the schemes differ: ciphertexts, products, switches, factors.
Products are computed at the level of their operands, because the level that the operator * chooses depends on the noise
model.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import rigs
from heliograph import _core
from model import Cipher, Model, Plain, Poly, centred, parse, product, rounded, smallest, times, turned
from places import places

N = rigs.N


class BgvModel(Model):
    """The model of BGV; its keys are the same as BFV's."""

    def hidden(self, m: Poly, t: int, error: Poly, modulus: int) -> Poly:
        """Returns the phase of an encryption, which is t times the error plus the centred message."""
        return t * error + centred(m, t)

    def cipher(self, *made: Any) -> BgvCipher:
        """Makes a ciphertext with factors."""
        return BgvCipher(self, *made)

    def decrypt(self, cipher: Any, phases: list[Poly] | None = None) -> Poly:
        """Returns the centred phase modulo t, divided by the correction factor."""
        phases = phases or self.phases(cipher)
        parts = [x * pow(f, -1, t) % t for x, t, f in zip(phases, self.plain, cipher.factors, strict=True)]
        return self.decode(Plain(parts), cipher.packing, cipher.width)

    def noise_budget(self, cipher: Cipher, phases: list[Poly] | None = None) -> float:
        """Returns log2 of (Q / 2) over the largest coefficient of a phase."""
        largest = max(int(abs(x).max()) for x in phases or self.phases(cipher))
        return float(np.log2(float(self.modulus(cipher.level))) - 1 - np.log2(float(largest)))


class BgvCipher(Cipher):
    """A BGV ciphertext with a correction factor for each plaintext modulus."""

    def __init__(self, model: Model, parts: Any, level: int, packing: str, width: int, seeds: Any = ()) -> None:
        super().__init__(model, parts, level, packing, width, seeds)
        self.factors = [1] * len(parts)

    def made(self, parts: list[Poly], level: int | None = None, factors: list[int] | None = None) -> BgvCipher:
        """Makes a ciphertext of these words after reducing them."""
        level = level or self.level
        q = self.model.modulus(level)
        out = BgvCipher(self.model, [p % q for p in parts], level, self.packing, self.width)
        out.factors = factors or self.factors
        return out

    def of(self, f: Callable[[Poly, int], Poly]) -> BgvCipher:
        """Applies f(components, t) to each ciphertext."""
        parts = []
        for p, t in zip(self.parts, self.model.plain, strict=True):
            done = [f(p[at], t) for at in np.ndindex(p.shape[:-2])]
            parts.append(np.array(done, dtype=object).reshape(*p.shape[:-2], *done[0].shape))
        return self.made(parts)

    def divided(self, p: Poly, t: int) -> Poly:
        """Returns p / t modulo Q."""
        q = self.model.modulus(self.level)
        return p * pow(t, -1, q) % q

    def shrink(self, level: int) -> BgvCipher:
        """Returns t round(c / (t D)), which is (c - d) / D, where d is c modulo D and 0 modulo t."""
        dropped = product(self.model.chain[level : self.level])
        plain = self.model.plain
        parts = [t * rounded(self.divided(p, t), dropped) for p, t in zip(self.parts, plain, strict=True)]
        return self.made(parts, level, [f * pow(dropped, -1, t) % t for f, t in zip(self.factors, plain, strict=True)])

    def times(self, other: BgvCipher) -> BgvCipher:
        """Returns the product of two polynomials in s, item by item."""
        parts = []
        for p, r in zip(self.parts, other.parts, strict=True):
            out = np.zeros((*p.shape[:-2], 3, self.model.n), dtype=object)
            for at in np.ndindex(p.shape[:-2]):
                (x0, x1), (y0, y1) = p[at], r[at]
                out[at] = [times(x0, y0), times(x0, y1) + times(x1, y0), times(x1, y1)]
            parts.append(out)
        factors = [a * b % t for a, b, t in zip(self.factors, other.factors, self.model.plain, strict=True)]
        return self.made(parts, factors=factors)

    def relinearize(self) -> BgvCipher:
        """Relinearizes with BFV's key: t times the switch of c_2 / t."""
        key = self.model.relinearization
        assert key is not None
        return self.of(lambda c, t: c[:2] + t * self.model.switch(self.divided(c[2], t), key, self.level))

    def turned(self, galois: int) -> BgvCipher:
        """Applies X -> X^galois with a rotation key; the key switch is as in relinearization."""
        key = self.model.rotations[galois]

        def one(c: Poly, t: int) -> Poly:
            out = t * self.model.switch(self.divided(turned(c[1], galois), t), key, self.level)
            return np.array([out[0] + turned(c[0], galois), out[1]])

        return self.of(one)

    def plus(self, polynomials: list[Poly]) -> BgvCipher:
        """Adds plaintexts, multiplied by the factors."""
        parts = []
        for p, m, t, f in zip(self.parts, polynomials, self.model.plain, self.factors, strict=True):
            added = p.copy()
            added[..., 0, :] = added[..., 0, :] + centred(m * f, t)
            parts.append(added)
        return self.made(parts)


class Ours:
    """The operations of the cases, computed by the library."""

    def __init__(self, x: hg.Tensor, y: hg.Tensor, plain: hg.Plaintext) -> None:
        self.x, self.y, self.plain = x, y, plain

    def times(self, a: hg.Tensor, b: hg.Tensor) -> hg.Tensor:
        """Multiplies at the level of the operands."""
        return hg.Tensor(_core.exact.multiply(a._core, b._core, None), a._keys)

    relinearize = staticmethod(hg.relinearize)
    shrink = staticmethod(hg.shrink)
    rotate = staticmethod(hg.rotate_rows)
    columns = staticmethod(hg.rotate_columns)

    def add_plain(self, a: hg.Tensor) -> hg.Tensor:
        """Adds a value to each slot."""
        return a + self.plain

    def add_integer(self, a: hg.Tensor) -> hg.Tensor:
        """Adds 7 to each slot."""
        return a + 7

    def by_integer(self, a: hg.Tensor) -> hg.Tensor:
        """Multiplies by -3."""
        return a * -3

    def by_plain(self, a: hg.Tensor) -> hg.Tensor:
        """Multiplies slot by slot."""
        return a * self.plain


class Theirs:
    """The operations of the cases, computed by the model."""

    def __init__(self, x: BgvCipher, y: BgvCipher, plain: Plain) -> None:
        self.x, self.y, self.plain = x, y, plain

    def times(self, a: BgvCipher, b: BgvCipher) -> BgvCipher:
        return a.times(b)

    def relinearize(self, a: BgvCipher) -> BgvCipher:
        return a.relinearize()

    def shrink(self, a: BgvCipher, level: int) -> BgvCipher:
        return a.shrink(level)

    def rotate(self, a: BgvCipher, steps: int) -> BgvCipher:
        return a.turned(a.model.galois(steps))

    def columns(self, a: BgvCipher) -> BgvCipher:
        return a.turned(2 * N - 1)

    def add_plain(self, a: BgvCipher) -> BgvCipher:
        return a.plus(self.plain.parts)

    def add_integer(self, a: BgvCipher) -> BgvCipher:
        seven = np.zeros(N, dtype=object)
        seven[0] = 7
        return a.plus([seven] * len(a.parts))

    def by_integer(self, a: BgvCipher) -> BgvCipher:
        return a.made([p * int(smallest(-3, t)) for p, t in zip(a.parts, a.model.plain, strict=True)])

    def by_plain(self, a: BgvCipher) -> BgvCipher:
        rest = dict(zip(a.model.plain, self.plain.parts, strict=True))
        return a.of(lambda c, t: np.array([times(k, centred(rest[t], t)) for k in c]))


#: An operation of the library and of the model, and its effect on values v, w and the plaintext p.
CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any, Any], Any]]] = {
    "encrypt": (lambda o: o.x, lambda v, w, p: v),
    "multiply": (lambda o: o.times(o.x, o.y), lambda v, w, p: v * w),
    "relinearize": (lambda o: o.relinearize(o.times(o.x, o.y)), lambda v, w, p: v * w),
    "switch": (lambda o: o.shrink(o.x, 2), lambda v, w, p: v),
    "switch far": (lambda o: o.shrink(o.x, 1), lambda v, w, p: v),
    "switch a product": (lambda o: o.shrink(o.relinearize(o.times(o.x, o.y)), 2), lambda v, w, p: v * w),
    "switch degree two": (lambda o: o.shrink(o.times(o.x, o.y), 2), lambda v, w, p: v * w),
    "multiply below": (lambda o: o.times(o.shrink(o.x, 2), o.shrink(o.y, 2)), lambda v, w, p: v * w),
    "relinearize below": (lambda o: o.relinearize(o.times(o.shrink(o.x, 2), o.shrink(o.x, 2))), lambda v, w, p: v * v),
    "rotate": (lambda o: o.rotate(o.x, 5), lambda v, w, p: np.roll(v.reshape(-1, 2, N // 2), -5, 2).reshape(v.shape)),
    "columns below": (lambda o: o.columns(o.shrink(o.x, 2)), lambda v, w, p: np.roll(v, N // 2, 1)),
    "add plaintext": (lambda o: o.add_plain(o.x), lambda v, w, p: v + p),
    "add plaintext below": (lambda o: o.add_plain(o.shrink(o.x, 2)), lambda v, w, p: v + p),
    "add integer below": (lambda o: o.add_integer(o.shrink(o.y, 1)), lambda v, w, p: w + 7),
    "multiply integer": (lambda o: o.by_integer(o.x), lambda v, w, p: -3 * v),
    "multiply plaintext below": (lambda o: o.by_plain(o.shrink(o.x, 2)), lambda v, w, p: v * p),
}
SETS = {
    "w64": lambda: rigs.small_spec(150, 1, [65537], scheme="bgv"),
    "w64-digits": lambda: rigs.small_spec(150, 2, [65537, 12289], scheme="bgv"),
    "w64-no-special": lambda: rigs.small_spec(150, 0, [12289], scheme="bgv"),
    "w32": lambda: rigs.small_spec(112, 2, [12289], 32, "bgv"),
}


class Rig:
    """One secret key, and the same operands in the library and in the model."""

    def __init__(self, name: str) -> None:
        self.spec = SETS[name]()
        rng = np.random.default_rng(3)
        self.values = [rng.integers(-6000, 6000, (2, N)).astype(object) for _ in range(2)] + [rng.integers(-9, 9, N)]
        self.model = BgvModel(self.spec, rigs.SEED)
        self.model.evaluation_keys([5], columns=True)
        x, y = (self.model.encrypt(v) for v in self.values[:2])
        self.theirs = Theirs(x, y, self.model.encode(self.values[2], "slots"))

    @functools.cache  # noqa: B019
    def ours(self, device: str) -> tuple[hg.SecretKey, Ours]:
        """Returns the secret key and the library's operands on a device."""
        secret = rigs.secret_for_test(rigs.parameters_on(self.spec, device))
        server = hg.Server(secret.evaluation_keys(rotations=[5], columns=True))
        x, y = (server.bind(secret.encrypt(v.astype(np.int64))) for v in self.values[:2])
        return secret, Ours(x, y, server.encode(self.values[2]))

    @functools.cache  # noqa: B019
    def expected(self, case: str) -> tuple[BgvCipher, float]:
        """Returns the model's ciphertext and budget, and checks its decryption."""
        operation, clear = CASES[case]
        cipher = operation(self.theirs)
        phases = self.model.phases(cipher)
        modulus = product(self.model.plain)
        np.testing.assert_array_equal(self.model.decrypt(cipher, phases), centred(clear(*self.values), modulus))
        return cipher, self.model.noise_budget(cipher, phases)


@functools.cache
def rig(name: str) -> Rig:
    """Returns the shared rig of a set."""
    return Rig(name)


@pytest.mark.parametrize(
    ("name", "device", "case"),
    [
        pytest.param(s, *d.values, c, marks=d.marks)
        for s in SETS
        for d in places(
            *(["ref", "cpu", "3*cpu/costs=1e3:300e9:12e-6:1e-6:8e-6", "cuda:0"] if s == "w64-digits" else ["cpu"])
        )
        for c in CASES
    ],
)
def test_operation(name: str, device: str, case: str) -> None:
    """The words, factors, level and noise budget of the result equal those of the model."""
    cipher, budget = rig(name).expected(case)
    secret, ours = rig(name).ours(device)
    result = CASES[case][0](ours)
    found = parse(result.to_bytes())
    assert found.type == "heliograph.bgv.ciphertext"
    assert (found.header["level"], found.header["degree"]) == (cipher.level, cipher.degree)
    assert found.header["factors"] == cipher.factors
    assert found.header["seeds"] == [s.hex() for s in cipher.seeds]
    for part, words in enumerate(cipher.words(found.header["ntt"])):
        np.testing.assert_array_equal(found.arrays[f"part{part}"], words[..., :1, :, :] if cipher.seeds else words)
    assert secret.noise_budget(result) == pytest.approx(budget, abs=1e-3)
