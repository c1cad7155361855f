"""Equal keys and operands in the engine, in the big-integer model and in clear, and the operations on each of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import heliograph as hg
from heliograph import _core
from model import Cipher, Model, smallest, times

SEED = bytes(range(32))
N = 1024
ROTATIONS = [1, 5, -2]


def long_primes() -> Any:
    """Returns a parameter set of 58-bit primes, which need 128-bit products."""
    primes = _core.exact.batching_primes(N, 57 * 8, 8)
    spec = _core.exact.Spec()
    spec.n, spec.chain, spec.special, spec.auxiliary = N, primes[:3], primes[3:4], primes[4:]
    spec.digits, spec.plain_moduli, spec.insecure = [1, 1, 1], [65537], True
    return spec


def small_spec(log_q: int, special: int, moduli: list[int], word_size: int = 64, scheme: str = "bfv") -> Any:
    """Returns an insecure set of N = 1024."""
    return _core.exact.make_spec(N, log_q, special, moduli, word_size, 0, True, scheme)


SETS = {
    "w64": lambda: small_spec(120, 1, [65537]),
    "w64-digits": lambda: small_spec(150, 2, _core.exact.batching_primes(N, 34, 2)),
    "w64-no-special": lambda: small_spec(120, 0, [12289]),
    "w64-t2": lambda: small_spec(90, 1, [2]),
    "w64-even-t": lambda: small_spec(90, 1, [1 << 12]),
    "w64-long": long_primes,
    "w32": lambda: small_spec(112, 1, [65537], 32),
    "w32-digits": lambda: small_spec(168, 2, _core.exact.batching_primes(N, 42), 32),
    "w32-no-special": lambda: small_spec(84, 0, [12289, 18433], 32),
}
#: Parameter sets of BGV; test_bgv_model.py has other sets and a separate model.
BGV_SETS = {
    "bgv": lambda: small_spec(120, 1, [65537], scheme="bgv"),
    "bgv-digits": lambda: small_spec(200, 2, _core.exact.batching_primes(N, 34, 2), scheme="bgv"),
    "bgv-t2": lambda: small_spec(90, 1, [2], scheme="bgv"),
    "bgv-w32": lambda: small_spec(168, 2, [65537], 32, "bgv"),
}
DEVICES = [
    "ref",
    "cpu",
    "cpu:scalar",
    "cpu:avx2",
    "cpu:avx512",
    "3*cpu/costs=1e3:300e9:12e-6:1e-6:8e-6",
    "2*cpu/limb/uncalibrated",
    "cuda:0",
    "cuda:0,cuda:1",
]
# tested with every instruction set; the other parameter sets run on ref, with the best instruction set and on a GPU
EVERYWHERE = ["w64", "w32-digits"]


@functools.cache
def specs(name: str) -> Any:
    """Returns the specification of a named test set; cached."""
    return (SETS | BGV_SETS)[name]()


@functools.cache
def open_devices() -> list[str]:
    """Returns the devices that this machine can run."""
    found = []
    for device in DEVICES:
        try:
            _core.exact.Parameters(specs("w64")).on_device(device)
        except (hg.ParameterError, hg.DeviceError):
            continue
        found.append(device)
    return found


def parameters_on(spec: Any, device: str) -> hg.bfv.Parameters:
    """Returns parameters on their own device."""
    return hg.bfv.Parameters(_core.exact.Parameters(spec).on_device(device))


def secret_for_test(parameters: hg.bfv.Parameters, seed: bytes = SEED) -> hg.SecretKey:
    """Returns the secret key of a test seed."""
    return hg.SecretKey(_core.exact.SecretKey.generate_for_test(parameters._core, seed))


class Clear:
    """Values [batch..., N] modulo T, which are the expected decryption of every operation."""

    def __init__(self, values: Any, modulus: int, packing: str) -> None:
        self.values = np.asarray(values).astype(object) % modulus
        self.modulus, self.packing = modulus, packing

    def mapped(self, f: Any) -> Clear:
        """Returns f(values, T) as clear values."""
        return Clear(f(self.values, self.modulus), self.modulus, self.packing)

    def _other(self, other: Any) -> Any:
        return other.values if isinstance(other, Clear) else np.asarray(other).astype(object)[..., None]

    def _constant(self, other: Any) -> Any:
        """Returns the summand that adding `other` means: an integer is added to every slot, but with packing in coefficients
        only to coefficient 0.

        """
        v = self._other(other)
        if isinstance(other, Clear) or self.packing == "slots":
            return v
        return v * np.array([1] + [0] * (N - 1), dtype=object)

    def __add__(self, other: Any) -> Clear:
        return self.mapped(lambda v, t: v + self._constant(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Clear:
        return self.mapped(lambda v, t: v - self._constant(other))

    def __rsub__(self, other: Any) -> Clear:
        return self.mapped(lambda v, t: self._constant(other) - v)

    def __neg__(self) -> Clear:
        return self.mapped(lambda v, t: -v)

    def __mul__(self, other: Any) -> Clear:
        if self.packing == "slots" or not isinstance(other, Clear):
            return self.mapped(lambda v, t: v * self._other(other))
        a, b = np.broadcast_arrays(self.values, other.values)
        done = [times(a[at], b[at]) for at in np.ndindex(a.shape[:-1])]
        return self.mapped(lambda v, t: np.array(done, dtype=object).reshape(a.shape))

    __rmul__ = __mul__

    def relinearize(self) -> Clear:
        """Returns the values unchanged, because relinearization does not change them."""
        return self

    def shrink(self, level: int) -> Clear:
        """Returns the values unchanged, because a switch of levels does not change them."""
        return self

    def rolled(self, steps: int) -> Clear:
        """Rotates both rows left."""
        return self.mapped(lambda v, t: np.roll(v.reshape(*v.shape[:-1], 2, N // 2), -steps, -1).reshape(v.shape))

    def swapped(self) -> Clear:
        """Exchanges the rows."""
        return self.mapped(lambda v, t: np.roll(v, N // 2, -1))

    def centred(self) -> Any:
        """Returns the values centred, in the form in which decryption returns them."""
        t = self.modulus
        return self.values if t == 2 else np.where(2 * self.values >= t + t % 2, self.values - t, self.values)


def convolve(x: Any, w: Any, stride: int, padding: int, groups: int) -> Any:
    """Convolves x [channels, H, W, ...] with w [outputs, channels / groups, height, width]."""
    outputs, per_group, height, width = w.shape
    padded = np.zeros((x.shape[0], x.shape[1] + 2 * padding, x.shape[2] + 2 * padding, *x.shape[3:]), dtype=object)
    padded[:, padding : padding + x.shape[1], padding : padding + x.shape[2]] = x
    x = padded
    rows = [
        [
            np.tensordot(w[o], x[g : g + per_group, i : i + height, j : j + width], 3)
            for i in range(0, x.shape[1] - height + 1, stride)
            for j in range(0, x.shape[2] - width + 1, stride)
        ]
        for o in range(outputs)
        for g in [o // (outputs // groups) * per_group]
    ]
    high, wide = (x.shape[1] - height) // stride + 1, (x.shape[2] - width) // stride + 1
    return np.array(rows, dtype=object).reshape(outputs, high, wide, *x.shape[3:])


class Operands:
    """Operands that the test cases share; their products are computed once."""

    x: Any
    y: Any

    @functools.cached_property
    def xy(self) -> Any:
        return self.x * self.y

    @functools.cached_property
    def yy(self) -> Any:
        return self.square(self.y)

    def square(self, a: Any) -> Any:
        return a * a


class Reference(Operands):
    """Operations on the model's ciphertexts and on clear values. Both the class of encrypted values and the class of clear
    values have `mapped` and the operators.
    """

    def __init__(self, x: Any, y: Any, z: Any, plain: Any, low: int, least: int) -> None:
        self.x, self.y, self.z, self.plain = x, y, z, plain
        self.low, self.least = low, least

    def relinearize(self, a: Any) -> Any:
        return a.relinearize()

    def shrink(self, a: Any, level: int) -> Any:
        return a.shrink(level)

    def rotate(self, a: Any, steps: int | Sequence[int]) -> Any:
        if isinstance(steps, int):
            return a.rolled(steps) if isinstance(a, Clear) else a.turned(a.model.galois(steps))
        each = [self.rotate(a, s) for s in steps]
        return self.concatenate([self.take(t, None) for t in each])

    def columns(self, a: Any) -> Any:
        return a.swapped() if isinstance(a, Clear) else a.turned(2 * N - 1)

    def matmul(self, w: Any, a: Any, bias: Any = None) -> Any:
        out = a.mapped(lambda p, t: np.tensordot(smallest(w, t), p, 1))
        return out if bias is None else out + bias.reshape(-1, *[1] * (self.axes(a) - 1))

    def times_matrix(self, a: Any, w: Any) -> Any:
        k = self.axes(a) - 1
        return a.mapped(lambda p, t: np.moveaxis(np.tensordot(p, smallest(w, t), (k, 0)), -1, k))

    def conv2d(self, a: Any, w: Any, bias: Any = None, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
        if self.axes(a) == 4:
            batch = [self.conv2d(self.take(a, i), w, bias, stride, padding, groups) for i in range(self.shape(a)[0])]
            return self.concatenate([self.take(b, None) for b in batch])
        out = a.mapped(lambda p, t: convolve(p, smallest(w, t), stride, padding, groups))
        return out if bias is None else out + bias[:, None, None]

    def shape(self, a: Any) -> tuple[int, ...]:
        return tuple(a.values.shape[:-1] if isinstance(a, Clear) else a.shape)

    def axes(self, a: Any) -> int:
        return len(self.shape(a))

    def sum(self, a: Any, axis: int | None = None) -> Any:
        k = self.axes(a)
        if axis is None:
            return a.mapped(lambda p, t: p.sum(axis=tuple(range(k))))
        return a.mapped(lambda p, t: p.sum(axis=axis % k))

    def dot(self, a: Any, b: Any) -> Any:
        return self.sum(a * b, 0)

    def encoded(self, a: Any, values: Any) -> Any:
        return Clear(values, a.modulus, a.packing)

    def take(self, a: Any, key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        trailing = 1 if isinstance(a, Clear) else 2
        keys = (*keys, *[slice(None)] * trailing) if Ellipsis in keys else (*keys, Ellipsis)
        return a.mapped(lambda p, t: p[keys])

    def reshape(self, a: Any, *shape: int) -> Any:
        k = self.axes(a)
        out = a.mapped(lambda p, t: p.reshape(*shape, *p.shape[k:]))
        if isinstance(a, Cipher):
            out.seeds = a.seeds  # the order of the ciphertexts is unchanged
        return out

    def transpose(self, a: Any, *order: int) -> Any:
        return a.mapped(lambda p, t: p.transpose(*order, *range(len(order), p.ndim)))

    def broadcast(self, a: Any, *shape: int) -> Any:
        k = self.axes(a)
        return a.mapped(lambda p, t: np.broadcast_to(p, (*shape, *p.shape[k:])))

    def concatenate(self, parts: list[Any], axis: int = 0) -> Any:
        if isinstance(parts[0], Clear):
            return parts[0].mapped(lambda v, t: np.concatenate([p.values for p in parts], axis))
        level, degree = min(p.level for p in parts), max(p.degree for p in parts)
        same = [(p.shrink(level) if p.level > level else p)._padded(degree) for p in parts]
        rest = iter(zip(*[p.parts for p in same], strict=True))
        return same[0].mapped(lambda p, t: np.concatenate(next(rest), axis))

    def power(self, a: Any, k: int) -> Any:
        if k == 1:
            return a
        half = self.power(a, k // 2)
        return half * half * a if k % 2 else half * half


class Engine(Operands):
    """The same operations in the library."""

    def __init__(self, x: hg.Tensor, y: hg.Tensor, z: hg.Tensor, plain: hg.Plaintext, low: int, least: int) -> None:
        self.x, self.y, self.z, self.plain = x, y, z, plain
        self.low, self.least = low, least

    square = staticmethod(hg.square)
    relinearize = staticmethod(hg.relinearize)
    shrink = staticmethod(hg.shrink)
    rotate = staticmethod(hg.rotate_rows)
    columns = staticmethod(hg.rotate_columns)
    matmul = staticmethod(hg.matmul)
    conv2d = staticmethod(hg.conv2d)
    sum = staticmethod(hg.sum)
    dot = staticmethod(hg.dot)
    concatenate = staticmethod(hg.concatenate)

    def times_matrix(self, a: Any, w: Any) -> Any:
        return a @ w

    def encoded(self, a: Any, values: Any) -> Any:
        return hg.encode(a.parameters, values)

    def take(self, a: Any, key: Any) -> Any:
        return a[key]

    def reshape(self, a: Any, *shape: int) -> Any:
        return a.reshape(*shape)

    def transpose(self, a: Any, *order: int) -> Any:
        return a.transpose(order)

    def broadcast(self, a: Any, *shape: int) -> Any:
        return a.broadcast_to(shape)

    def power(self, a: Any, k: int) -> Any:
        return a**k


Step = Callable[[Any, Any, Any, int], Any]
#: Steps of random programs, for tensors and for clear values: op(operations, a and b of shape (2,), an integer).
STEPS: dict[str, Step] = {
    "add": lambda o, a, b, k: a + b,
    "subtract": lambda o, a, b, k: a - b,
    "negate": lambda o, a, b, k: -a,
    "multiply": lambda o, a, b, k: a * b,
    "square": lambda o, a, b, k: o.square(a),
    "relinearize": lambda o, a, b, k: o.relinearize(a),
    "rotate": lambda o, a, b, k: o.rotate(a, [1, 2, -1][k % 3]),
    "rotate and add": lambda o, a, b, k: o.sum(o.rotate(a, [1, 0, 2]), 0),
    "columns": lambda o, a, b, k: o.columns(a),
    "matmul": lambda o, a, b, k: o.matmul(np.array([[k % 7, -3], [2, k % 5]]), a, np.array([k, -1])),
    "sum and broadcast": lambda o, a, b, k: o.broadcast(o.sum(a, 0), 2),
    "reverse": lambda o, a, b, k: o.take(a, slice(None, None, -1)),
    "concatenate": lambda o, a, b, k: o.concatenate([o.take(a, slice(0, 1)), o.take(b, slice(1, 2))]),
    "shrink": lambda o, a, b, k: o.shrink(a, a.level - 1) if hasattr(a, "level") and a.level > 2 else a,
}


@dataclass
class Expected:
    """The expected result of a case: the model's ciphertext, its decryption, and the clear values."""

    cipher: Cipher
    decrypted: Any
    budget: float
    values: Any


class Rig:
    """One parameter set: its operands in the model and in clear, and in the engine by device."""

    def __init__(self, name: str) -> None:
        self.spec = specs(name)
        modulus = int(np.prod([int(t) for t in self.spec.plain_moduli], dtype=object))
        self.packing = "slots" if all(t % (2 * N) == 1 for t in self.spec.plain_moduli) else "coefficients"
        rng = np.random.default_rng(7)
        low, high = (0, 1) if modulus == 2 else (-(modulus // 2), (modulus - 1) // 2)
        self.values = [rng.integers(low, high, (*s, N), endpoint=True) for s in [(2, 2), (2,), (2, 2, 3), (2,)]]
        for v in self.values:
            v[..., :2] = low, high
        self.model = Model(self.spec, SEED)
        self.rotations = ROTATIONS if self.packing == "slots" else []
        self.model.evaluation_keys(self.rotations, bool(self.rotations))
        longest = max(self.spec.plain_moduli).bit_length() + 14
        least = next(k for k in range(1, 9) if self.model.modulus(k).bit_length() > longest)
        self.levels = len(self.spec.chain) - 1, least
        ciphers = [self.model.encrypt(v, self.packing) for v in self.values[:3]]
        self.cipher = Reference(*ciphers, self.model.encode(self.values[3], self.packing), *self.levels)
        clear = [Clear(v, modulus, self.packing) for v in self.values]
        self.clear = Reference(*clear, *self.levels)
        self.results: dict[str, Expected] = {}
        self.devices: dict[str, Any] = {}

    def expected(self, name: str, case: Any) -> Expected:
        """Returns the results of the model and of the computation in clear; they are computed once for all devices."""
        if name not in self.results:
            cipher = case(self.cipher)
            phases = self.model.phases(cipher)
            decrypted, budget = self.model.decrypt(cipher, phases), self.model.noise_budget(cipher, phases)
            self.results[name] = Expected(cipher, decrypted, max(0.0, budget), case(self.clear).centred())
        return self.results[name]

    def engine(self, device: str) -> tuple[hg.SecretKey, hg.EvaluationKeys, Engine]:
        """Returns keys and operands on a device, drawn from the model's seed in the model's order."""
        if device not in self.devices:
            parameters = parameters_on(self.spec, device)
            secret = secret_for_test(parameters)
            keys = secret.evaluation_keys(rotations=self.rotations, columns=bool(self.rotations))
            server = hg.Server(keys)
            where = {self.packing: -1}
            tensors = [server.bind(secret.encrypt(v, **where)) for v in self.values[:3]]
            plain = server.encode(self.values[3], **where)
            self.devices[device] = secret, keys, Engine(*tensors, plain, *self.levels)
        return self.devices[device]


@functools.cache
def rig(name: str) -> Rig:
    """Returns the rig of a set; each rig is made once."""
    return Rig(name)
