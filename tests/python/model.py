"""BFV computed with Python integers: slow and exact, with one line per definition. The words of the engine must equal the
model's words.

A polynomial is an object array whose last axis holds N integers. A ciphertext (`Cipher`) has one array
[batch..., component, N] for each plaintext modulus: residues modulo the product of its level's primes.
The model has no RNS, no fixed point and no NTT network. Products are exact products of integers, and roundings are exact.
The NTT order is the order of evaluation at powers of psi, as defined.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, getcontext
from typing import Any

import numpy as np
import numpy.typing as npt

Poly = npt.NDArray[Any]

# Randomness: ChaCha20 (RFC 8439) and the draws of src/math/sampler.h

MASK, SECRET, ERROR, KEY_MASK, KEY_ERROR = 1, 2, 3, 4, 5  # purpose numbers of random draws (src/math/sampler.h)
SMALL = 0xFFFF  # in place of a prime's index, for draws that belong to no prime
PUBLIC_OBJECT = 0xFFFFFFFF


def chacha_blocks(key: bytes, nonce: Sequence[int], count: int, first: int = 0) -> npt.NDArray[Any]:
    """Returns ChaCha20 blocks from number `first` on, as [count, 16] words."""
    constants = np.frombuffer(b"expand 32-byte k" + key, dtype="<u4")
    start = np.zeros((16, count), dtype=np.uint32)
    start[:12] = constants[:, None]
    start[12] = np.arange(first, first + count, dtype=np.uint32)
    start[13:] = np.array(nonce, dtype=np.uint32)[:, None]
    s = start.copy()

    def rotate(x: npt.NDArray[Any], by: int) -> npt.NDArray[Any]:
        return (x << np.uint32(by)) | (x >> np.uint32(32 - by))

    def quarters(s: npt.NDArray[Any]) -> None:
        a, b, c, d = s[:4], s[4:8], s[8:12], s[12:]  # four quarter rounds at once, one for each column or diagonal
        for p, q, r, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            p += q
            r[:] = rotate(r ^ p, by)

    diagonals = np.array([4 * k + (i + k) % 4 for k in range(4) for i in range(4)])
    for _ in range(10):
        quarters(s)
        s = s[diagonals]
        quarters(s)
        s = s[np.argsort(diagonals)]
    return (s + start).T


def draws(key: bytes, purpose: int, prime: int, obj: int, item: int, n: int, size: int) -> list[int]:
    """Returns n little-endian integers of `size` bytes, which are the draws of one polynomial (component 0)."""
    blocks = chacha_blocks(key, (purpose << 24 | prime, obj, item), n * size // 64)
    raw = np.ascontiguousarray(blocks).astype("<u4").tobytes()
    return [int.from_bytes(raw[i : i + size], "little") for i in range(0, n * size, size)]


def uniform(key: bytes, purpose: int, prime: int, obj: int, item: int, n: int, q: int) -> Poly:
    """Returns uniform residues modulo q, which is the ring's prime with number `prime`."""
    return np.array([d % q for d in draws(key, purpose, prime, obj, item, n, 16)], dtype=object)


def ternary(key: bytes, purpose: int, obj: int, item: int, n: int) -> Poly:
    """Returns uniform values among -1, 0 and 1."""
    small = draws(key, purpose, SMALL, obj, item, n, 8)
    return np.array([3 * d // 2**64 - 1 for d in small], dtype=object)


@functools.cache
def gaussian_table() -> list[int]:
    """Returns round(2^63 P(|X| <= k)) of the discrete Gaussian of deviation 3.19, computed from its definition."""
    getcontext().prec = 60
    rho = [(-Decimal(k * k) / (2 * Decimal("3.19") ** 2)).exp() for k in range(120)]
    total = rho[0] + 2 * sum(rho[1:])
    sums = [rho[0] + 2 * sum(rho[1 : k + 1]) for k in range(29)]
    return [int((2**63 * s / total).to_integral_value()) for s in sums]


def gaussian(key: bytes, purpose: int, obj: int, item: int, n: int) -> Poly:
    """Returns samples of the discrete Gaussian of deviation 3.19."""
    small = draws(key, purpose, SMALL, obj, item, n, 8)
    at = np.searchsorted(gaussian_table(), np.array([d >> 1 for d in small], dtype=np.int64), side="right")
    return np.array([-int(m) if d & 1 else int(m) for m, d in zip(at, small, strict=True)], dtype=object)


class Entropy:
    """The random stream of a test seed: 32 bytes at a time, in counter mode."""

    def __init__(self, seed: bytes) -> None:
        self.seed, self.count = seed, 0

    def next(self) -> bytes:
        """Returns the next 32 bytes."""
        block = chacha_blocks(self.seed, (0, 0, 0), 1, self.count)
        self.count += 1
        return block.astype("<u4").tobytes()[:32]


# Integers and polynomials


def centred(x: Poly, modulus: int) -> Poly:
    """Returns representatives in [-M/2, M/2)."""
    r = x % modulus
    return np.where(2 * r >= modulus, r - modulus, r)


def smallest(values: Any, modulus: int) -> Poly:
    """Returns representatives in (-M/2, M/2], as is usual for integer factors and weights."""
    r = np.asarray(values).astype(object) % modulus
    return np.where(2 * r > modulus, r - modulus, r)


def rounded(x: Poly, divisor: int) -> Poly:
    """Returns x / divisor rounded to the nearest integer; halves are rounded upwards."""
    return (2 * x + divisor) // (2 * divisor)


def product(values: Iterable[int]) -> int:
    """Returns the product of integers."""
    return math.prod(values)


def _digits(x: Poly) -> npt.NDArray[Any]:
    """Returns digits to base 2^16, [digit, N]; the highest digit carries the sign."""
    count = int(max(map(abs, x))).bit_length() // 16 + 1
    raw = b"".join([int(v).to_bytes(2 * count, "little", signed=True) for v in x])
    digits = np.frombuffer(raw, dtype="<u2").reshape(-1, count).T.astype(np.float64)
    digits[-1] -= 65536 * (digits[-1] >= 32768)
    return digits


def _integers(digits: npt.NDArray[Any]) -> Poly:
    """Inverts `_digits`, for digits of any size and sign."""
    carried = np.concatenate([digits, np.zeros((4, digits.shape[1]), dtype=np.int64)])
    for k in range(len(carried) - 1):
        carried[k + 1] += carried[k] >> 16
    raw, size = carried.astype("<u2").T.tobytes(), 2 * len(carried)
    return np.array(
        [int.from_bytes(raw[i : i + size], "little", signed=True) for i in range(0, len(raw), size)], dtype=object
    )


def times(a: Poly, b: Poly) -> Poly:
    """Returns a b in Z[X]/(X^N + 1), exactly. The digits are convolved along both axes, and every sum is below 2^50."""
    n, x, y = len(a), _digits(a), _digits(b)
    size = (len(x) + len(y), 2 * n)
    c = np.fft.irfft2(np.fft.rfft2(x, size) * np.fft.rfft2(y, size), size)
    whole = np.rint(c)
    assert np.abs(c - whole).max() < 0.25, "sums exceed the precision of doubles"
    long = _integers(whole.astype(np.int64))
    return long[:n] - long[n:]


def turned(x: Poly, galois: int) -> Poly:
    """Applies X -> X^galois along the last axis."""
    n = x.shape[-1]
    out = np.zeros_like(x)
    for i in range(n):
        to = i * galois % (2 * n)
        out[..., to % n] = x[..., i] if to < n else -x[..., i]
    return out


@functools.cache
def psi(n: int, q: int) -> int:
    """Returns the numerically smallest primitive 2N-th root of unity modulo q."""
    root = next(r for b in range(2, q) if pow(r := pow(b, (q - 1) // (2 * n), q), n, q) == q - 1)
    odd, square = [root], root * root % q
    for _ in range(n - 1):
        odd.append(odd[-1] * square % q)
    return min(odd)


@functools.cache
def powers(root: int, q: int, count: int) -> Poly:
    """Returns root^i modulo q for i < count."""
    return np.array([pow(root, i, q) for i in range(count)], dtype=object)


@functools.cache
def reversal(n: int) -> npt.NDArray[Any]:
    """Returns the bit reversal of each i < n over log2 n bits."""
    bits = n.bit_length() - 1
    return np.array([int(f"{i:0{bits}b}"[::-1], 2) for i in range(n)])


def _dft(x: Poly, w: int, q: int) -> Poly:
    """Returns sum_i x_i w^(ik), k = 0..n-1, along the last axis."""
    n, batch = x.shape[-1], x.shape[:-1]
    x, m = x[..., reversal(n)], 1
    while m < n:
        z = powers(pow(w, n // (2 * m), q), q, m)
        x = x.reshape(*batch, -1, 2, m)
        u, v = x[..., 0, :], x[..., 1, :] * z % q
        x, m = np.concatenate([(u + v) % q, (u - v) % q], axis=-1).reshape(*batch, n), 2 * m
    return x


def evaluated(x: Poly, q: int) -> Poly:
    """Evaluates the polynomial at psi^(2k + 1), k = 0..N-1."""
    n, root = x.shape[-1], psi(x.shape[-1], q)
    twist = powers(root, q, n)
    return _dft(x * twist % q, root * root % q, q)


def interpolated(values: Poly, q: int) -> Poly:
    """Inverts `evaluated`."""
    n, root = values.shape[-1], pow(psi(values.shape[-1], q), -1, q)
    twist = powers(root, q, n) * pow(n, -1, q) % q
    return _dft(values, root * root % q, q) * twist % q


def to_ntt(x: Poly, q: int) -> Poly:
    """Returns the words of the NTT domain: position i holds the value at psi^(2 rev(i) + 1)."""
    return evaluated(x, q)[..., reversal(x.shape[-1])]


def from_ntt(words: Poly, q: int) -> Poly:
    """Inverts `to_ntt`."""
    return interpolated(words[..., reversal(words.shape[-1])], q)


def crt(residues: Sequence[Poly], moduli: Sequence[int]) -> Poly:
    """Returns the integers in [0, M) with these residues."""
    modulus = product(moduli)
    total: Any = 0
    for r, m in zip(residues, moduli, strict=True):
        cofactor = modulus // m
        total = total + r * (cofactor * pow(cofactor, -1, m))
    return total % modulus


# BFV


@dataclass
class SwitchKey:
    """One pair (body, mask) for each digit, modulo QP."""

    seed: bytes
    pairs: list[tuple[Poly, Poly]]


@dataclass
class Plain:
    """Encoded values: polynomials modulo each plaintext modulus, [batch..., N]."""

    parts: list[Poly]


class Model:
    """The keys of one parameter set and test seed, and all operations that use them."""

    def __init__(self, spec: Any, seed: bytes) -> None:
        self.n: int = spec.n
        self.chain, self.special = list(spec.chain), list(spec.special)
        self.digits, self.plain = list(spec.digits), list(spec.plain_moduli)
        self.width: int = spec.slots or spec.n
        self.entropy = Entropy(seed)
        self.secret = ternary(self.entropy.next(), SECRET, 0, 0, self.n)
        self.key_id = self.entropy.next()[:16].hex()
        self.relinearization: SwitchKey | None = None
        self.rotations: dict[int, SwitchKey] = {}

    def modulus(self, level: int) -> int:
        """Returns the product of a level's primes."""
        return product(self.chain[:level])

    def galois(self, steps: int) -> int:
        """Returns the automorphism that rotates rows left."""
        return pow(3, steps % (self.n // 2), 2 * self.n)

    # Keys

    def _key_mask(self, seed: bytes, obj: int, moduli: list[int]) -> Poly:
        words = [uniform(seed, KEY_MASK, i, obj, 0, self.n, q) for i, q in enumerate(moduli)]
        return crt([from_ntt(w, q) for w, q in zip(words, moduli, strict=True)], moduli)

    def public_key(self) -> tuple[bytes, Poly, Poly]:
        """Returns seed, body and mask: (e - a s, a)."""
        seed, error_seed = self.entropy.next(), self.entropy.next()
        mask = self._key_mask(seed, PUBLIC_OBJECT, self.chain)
        error = gaussian(error_seed, KEY_ERROR, PUBLIC_OBJECT, 0, self.n)
        return seed, (error - times(mask, self.secret)) % self.modulus(len(self.chain)), mask

    def switch_key(self, target: Poly) -> SwitchKey:
        """Returns (e_j - a_j s + P g_j target, a_j) for each digit j; g_j is 1 modulo the primes of digit j and 0 modulo the
        others.
        """
        seed, error_seed = self.entropy.next(), self.entropy.next()
        moduli = self.chain + self.special
        modulus, first, pairs = product(moduli), 0, []
        for j, size in enumerate(self.digits):
            own = range(first, first + size)
            gadget = [product(self.special) % q if i in own else 0 for i, q in enumerate(moduli)]
            constant = int(crt([np.array(g, dtype=object) for g in gadget], moduli))
            mask = self._key_mask(seed, j, moduli)
            error = gaussian(error_seed, KEY_ERROR, j, 0, self.n)
            body = (error - times(mask, self.secret) + constant * target) % modulus
            pairs.append((body, mask))
            first += size
        return SwitchKey(seed, pairs)

    def evaluation_keys(self, rotations: Sequence[int], columns: bool) -> None:
        """Makes a relinearization key, then rotation keys in the given order, then the key that exchanges the two rows."""
        self.relinearization = self.switch_key(times(self.secret, self.secret))
        for g in [self.galois(s) for s in rotations] + [2 * self.n - 1] * columns:
            self.rotations[g] = self.switch_key(turned(self.secret, g))

    # Values and plaintexts

    def _slot_exponents(self) -> npt.NDArray[Any]:
        row = [pow(3, c, 2 * self.n) for c in range(self.n // 2)]
        return np.array([(e - 1) // 2 for e in row + [2 * self.n - e for e in row]])

    def encode(self, values: Any, packing: str) -> Plain:
        """Encodes integers [batch..., width] as polynomials modulo each t; fewer than N values are padded with zeros."""
        v = np.asarray(values).astype(object)
        full = np.zeros((*v.shape[:-1], self.n), dtype=object)
        full[..., : v.shape[-1]] = v
        if packing == "coefficients":
            return Plain([full % t for t in self.plain])
        order = np.argsort(self._slot_exponents())
        return Plain([interpolated(full[..., order] % t, t) for t in self.plain])

    def decode(self, plain: Plain, packing: str, width: int) -> Poly:
        """Decodes to centred integers modulo the product of the plaintext moduli."""
        parts = plain.parts
        if packing == "slots":
            parts = [evaluated(p, t)[..., self._slot_exponents()] for p, t in zip(parts, self.plain, strict=True)]
        modulus = product(self.plain)
        x = crt(parts, self.plain)[..., :width]
        return x if modulus == 2 else centred(x, modulus)

    # Encryption

    def encrypt(self, values: Any, packing: str = "slots") -> Cipher:
        """Returns (e - a s + round(Q m / t), a) for each ciphertext and each plaintext modulus."""
        plain, level = self.encode(values, packing), len(self.chain)
        modulus, parts, seeds = self.modulus(level), [], []
        for m, t in zip(plain.parts, self.plain, strict=True):
            seed, errors = self.entropy.next(), self.entropy.next()
            seeds.append(seed)
            out = np.zeros((*m.shape[:-1], 2, self.n), dtype=object)
            for item, at in enumerate(np.ndindex(m.shape[:-1])):
                mask = self.masks(seed, item)
                hidden = self.hidden(m[at], t, gaussian(errors, ERROR, 0, item, self.n), modulus)
                out[at] = [(hidden - times(mask, self.secret)) % modulus, mask]
            parts.append(out)
        return self.cipher(parts, level, packing, np.asarray(values).shape[-1], seeds)

    def hidden(self, m: Poly, t: int, error: Poly, modulus: int) -> Poly:
        """Returns the phase of a fresh encryption: the scaled message plus the error."""
        return error + rounded(modulus * m, t)

    def cipher(self, *made: Any) -> Cipher:
        """Makes a ciphertext of this scheme."""
        return Cipher(self, *made)

    def masks(self, seed: bytes, item: int) -> Poly:
        """Returns the uniform component of the seeded encryption with number `item`."""
        words = [uniform(seed, MASK, i, 0, item, self.n, q) for i, q in enumerate(self.chain)]
        return crt(words, self.chain)

    def phase(self, cipher: Cipher, part: int) -> Poly:
        """Returns c_0 + c_1 s + ..., centred modulo the level's modulus."""
        c = cipher.parts[part]
        out = np.zeros((*c.shape[:-2], self.n), dtype=object)
        for at in np.ndindex(c.shape[:-2]):
            total = c[at][-1]
            for k in range(c.shape[-2] - 2, -1, -1):
                total = times(total, self.secret) + c[at][k]
            out[at] = total
        return centred(out, self.modulus(cipher.level))

    def phases(self, cipher: Cipher) -> list[Poly]:
        """Returns the phase modulo each plaintext modulus."""
        return [self.phase(cipher, part) for part in range(len(self.plain))]

    def decrypt(self, cipher: Cipher, phases: list[Poly] | None = None) -> Poly:
        """Returns round(t phase / Q) modulo each t, decoded."""
        q = self.modulus(cipher.level)
        parts = [rounded(t * x, q) % t for x, t in zip(phases or self.phases(cipher), self.plain, strict=True)]
        return self.decode(Plain(parts), cipher.packing, cipher.width)

    def noise_budget(self, cipher: Cipher, phases: list[Poly] | None = None) -> float:
        """Returns log2 of (Q / 2) over the largest |[t phase]_Q|."""
        q = self.modulus(cipher.level)
        all_phases = zip(phases or self.phases(cipher), self.plain, strict=True)
        largest = [abs(centred(t * x, q)).max() for x, t in all_phases]
        return math.log2(q) - 1 - math.log2(max(1, *map(int, largest)))

    # Key switching

    def switch(self, x: Poly, key: SwitchKey, level: int) -> Poly:
        """Returns [2, N]: an encryption of x times the target of the key. The encryption is computed from the digits,
        divided by P and rounded.

        """
        q, p = self.modulus(level), product(self.special)
        total = np.zeros((2, self.n), dtype=object)
        first = 0
        for (body, mask), size in zip(key.pairs, self.digits, strict=True):
            if first >= level:
                break
            digit = centred(x, product(self.chain[first : min(first + size, level)]))
            total = total + np.array([times(digit, body), times(digit, mask)])
            first += size
        return rounded(centred(total, q * p), p) % q


class Cipher:
    """Ciphertexts of a model: [batch..., component, N] for each plaintext modulus."""

    def __init__(self, model: Model, parts: list[Poly], level: int, packing: str, width: int, seeds: Any = ()) -> None:
        self.model, self.parts, self.level = model, parts, level
        self.packing, self.width, self.seeds = packing, width, list(seeds)
        self._words: dict[bool, list[npt.NDArray[Any]]] = {}

    @property
    def shape(self) -> tuple[int, ...]:
        """The batch axes."""
        return tuple(self.parts[0].shape[:-2])

    @property
    def degree(self) -> int:
        """The number of components minus one."""
        return int(self.parts[0].shape[-2]) - 1

    def mapped(self, f: Any, level: int | None = None, width: int | None = None) -> Cipher:
        """Applies f(array, t) to the array of each plaintext modulus t and reduces the result."""
        level = level or self.level
        q = self.model.modulus(level)
        parts = [f(p, t) % q for p, t in zip(self.parts, self.model.plain, strict=True)]
        return Cipher(self.model, parts, level, self.packing, width or self.width)

    def each(self, f: Any, level: int | None = None, width: int | None = None) -> Cipher:
        """Applies f(components [k, N], t) to each ciphertext."""

        def all_of(p: Poly, t: int) -> Poly:
            done = [f(p[at], t) for at in np.ndindex(p.shape[:-2])]
            return np.array(done, dtype=object).reshape(*p.shape[:-2], *done[0].shape)

        return self.mapped(all_of, level, width)

    # Levels

    def shrink(self, level: int) -> Cipher:
        """Returns round(c / D), where D is the product of the dropped primes."""
        dropped = product(self.model.chain[level : self.level])
        return self.mapped(lambda p, t: rounded(p, dropped), level)

    def _aligned(self, other: Cipher) -> tuple[Cipher, Cipher]:
        level = min(self.level, other.level)
        return (self.shrink(level) if self.level > level else self), (other.shrink(level) if other.level > level else other)

    # Arithmetic

    def _padded(self, degree: int) -> Cipher:
        missing = degree - self.degree

        def padded(p: Poly, t: int) -> Poly:
            return np.concatenate([p, np.zeros((*p.shape[:-2], missing, p.shape[-1]), dtype=object)], -2)

        return self.mapped(padded)

    def _joined(self, other: Cipher, f: Any) -> Cipher:
        a, b = self._aligned(other)
        degree = max(a.degree, b.degree)
        x, y = a._padded(degree), b._padded(degree)
        rest = iter(y.parts)
        return x.mapped(lambda p, t: f(p, next(rest)), width=max(self.width, other.width))

    def _plus(self, other: Any, sign: int) -> Cipher:
        if isinstance(other, Cipher):
            return self._joined(other, lambda p, r: p + sign * r)
        q = self.model.modulus(self.level)
        polys = other.parts if isinstance(other, Plain) else [self._constants(other, t) for t in self.model.plain]
        rest = iter(polys)

        def add(p: Poly, t: int) -> Poly:
            m = rounded(q * next(rest), t)[..., None, :]
            first = p[..., :1, :] + sign * m
            others = np.broadcast_to(p[..., 1:, :], (*first.shape[:-2], p.shape[-2] - 1, p.shape[-1]))
            return np.concatenate([first, others], -2)

        return self.mapped(add)

    def _constants(self, values: Any, t: int) -> Poly:
        v = np.asarray(values).astype(object)
        out = np.zeros((*v.shape, self.model.n), dtype=object)
        out[..., 0] = v % t
        return out

    def __add__(self, other: Any) -> Cipher:
        return self._plus(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Cipher:
        if isinstance(other, (Cipher, Plain)):
            return self._plus(other, -1)
        return self._plus(-np.asarray(other), 1)

    def __rsub__(self, other: Any) -> Cipher:
        return (-self)._plus(other, 1)

    def __neg__(self) -> Cipher:
        return self.mapped(lambda p, t: -p)

    def __mul__(self, other: Any) -> Cipher:
        if isinstance(other, Cipher):
            return self._product(other)
        if isinstance(other, Plain):
            rest = iter(other.parts)

            def by_plain(p: Poly, t: int) -> Poly:
                m = centred(next(rest), t)
                m = np.broadcast_to(m, (*np.broadcast_shapes(self.shape, m.shape[:-1]), self.model.n))
                wide = np.broadcast_to(p, (*m.shape[:-1], *p.shape[-2:]))
                done = [[times(c, m[at]) for c in wide[at]] for at in np.ndindex(m.shape[:-1])]
                return np.array(done, dtype=object).reshape(wide.shape)

            return self.mapped(by_plain)
        return self.mapped(lambda p, t: p * smallest(other, t)[..., None, None])

    __rmul__ = __mul__

    def _product(self, other: Cipher) -> Cipher:
        """Returns round(t c / Q) for the tensor product c of centred operands, computed by the method of Halevi, Polyakov
        and Shoup.
        """
        a, b = self.relinearize()._aligned(other.relinearize())
        q = self.model.modulus(a.level)
        shape = np.broadcast_shapes(a.shape, b.shape)
        rest = iter(b.parts)

        def multiply(p: Poly, t: int) -> Poly:
            x, y = centred(p, q), centred(next(rest), q)
            x, y = np.broadcast_to(x, (*shape, *x.shape[-2:])), np.broadcast_to(y, (*shape, *y.shape[-2:]))
            out = np.zeros((*shape, 3, self.model.n), dtype=object)
            for at in np.ndindex(*shape):
                (x0, x1), (y0, y1) = x[at], y[at]
                middle = times(x0, y1) + times(x1, y0)
                out[at] = [rounded(t * c, q) for c in (times(x0, y0), middle, times(x1, y1))]
            return out

        return a.mapped(multiply, width=max(self.width, other.width))

    def relinearize(self) -> Cipher:
        """Reduces to degree one by the relinearization key."""
        if self.degree == 1:
            return self
        key = self.model.relinearization
        return self.each(lambda c, t: c[:2] + self.model.switch(c[2], key, self.level))

    def turned(self, galois: int) -> Cipher:
        """Applies X -> X^galois by its key. The words are the same whether decomposing comes before or after the
        automorphism.
        """
        x = self.relinearize()
        if galois == 1:
            return x.mapped(lambda p, t: p, width=self.model.n)
        key = self.model.rotations[galois]

        def one(c: Poly, t: int) -> Poly:
            out = self.model.switch(turned(c[1], galois), key, self.level)
            return np.array([out[0] + turned(c[0], galois), out[1]])

        return x.each(one, width=self.model.n)

    # Words

    def words(self, ntt: bool = False) -> list[npt.NDArray[Any]]:
        """Returns [batch..., component, limb, N] for each plaintext modulus: canonical residues as the engine stores them."""
        if ntt not in self._words:
            primes = self.model.chain[: self.level]
            residues = [[to_ntt(p % q, q) if ntt else p % q for q in primes] for p in self.parts]
            self._words[ntt] = [np.stack(r, axis=-2).astype(np.uint64) for r in residues]
        return self._words[ntt]


# The container of docs/format.md


@dataclass
class Container:
    """A parsed file."""

    type: str
    header: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]
    version: int = 3


def parse(data: bytes) -> Container:
    """Reads a container and checks its lengths, offsets and digest."""
    magic, version, reserved, header_bytes, total = struct.unpack_from("<8sIIQQ", data)
    assert (magic, reserved, total) == (b"\x89HELIO\r\n", 0, len(data))
    assert version in (1, 2, 3)
    assert hashlib.sha256(data[:-32]).digest() == data[-32:]
    head = json.loads(data[32 : 32 + header_bytes])
    assert set(head) == {"type", "header", "arrays"}
    offset, arrays = -(-(32 + header_bytes) // 64) * 64, {}
    for a in head["arrays"]:
        dtype = np.dtype({"u8": "u1", "i8": "i1", "u32": "<u4", "u64": "<u8", "i64": "<i8"}[a["dtype"]])
        assert a["offset"] == offset
        assert a["bytes"] == math.prod(a["shape"]) * dtype.itemsize
        arrays[a["name"]] = np.frombuffer(data, dtype, math.prod(a["shape"]), offset).reshape(a["shape"])
        offset += -(-a["bytes"] // 64) * 64
    assert offset == len(data) - 32
    return Container(head["type"], head["header"], arrays, version)


def canonical(value: Any) -> bytes:
    """Returns the canonical JSON text of a value that contains no fractions."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def build(container: Container, header_text: bytes | None = None) -> bytes:
    """Returns the bytes of a container, which may be invalid: `header_text` replaces the canonical header."""
    names = {"uint8": "u8", "int8": "i8", "uint32": "u32", "uint64": "u64", "int64": "i64"}
    text = b""
    while True:
        offset, described, payload = -(-(32 + len(text)) // 64) * 64, [], b""
        start = offset
        for name, a in container.arrays.items():
            entry = {"name": name, "dtype": names[a.dtype.name], "shape": list(a.shape), "bytes": a.nbytes, "offset": offset}
            described.append(entry)
            payload += a.tobytes() + bytes(-a.nbytes % 64)
            offset = start + len(payload)
        head = {"type": container.type, "header": container.header, "arrays": described}
        new = canonical(head) if header_text is None else header_text
        if new == text:
            break
        text = new
    total = start + len(payload) + 32
    prefix = struct.pack("<8sIIQQ", b"\x89HELIO\r\n", container.version, 0, len(text), total)
    body = (prefix + text).ljust(start, b"\0") + payload
    return body + hashlib.sha256(body).digest()
