"""Calls the Python interface with arguments of every kind: parameters, keys, encryption, operators, indices, files.

    python tests/fuzz/python_face.py [CORPUS] [-max_total_time=60 and other flags of libFuzzer]    # needs atheris
    python tests/fuzz/python_face.py --cases 10000 --seed 7                                        # random inputs, without it

An input is a string of bytes from which choices are drawn: a call and its arguments. Each call must end within bounded time
and memory. A call must give a result, a typed error, or the TypeError that Python raises for arguments of a wrong type.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import inspect
import math
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "python")]
UNDER_ATHERIS = __name__ == "__main__" and "--cases" not in sys.argv
if UNDER_ATHERIS:
    import atheris
with atheris.instrument_imports(include=["heliograph"]) if UNDER_ATHERIS else contextlib.nullcontext():
    import heliograph as hg
    import resign
    import resign_uses

SECONDS = 30  # time limit of one input in seconds


class Draws(random.Random):
    """Random choices that are read from the bytes of an input; after its end, from zeros."""

    def __init__(self, data: bytes) -> None:
        super().__init__(0)
        self.data, self.at = data, 0

    def getrandbits(self, k: int) -> int:
        """Returns the next bytes of the input."""
        count = -(-k // 8)
        drawn = self.data[self.at : self.at + count].ljust(count, b"\0")
        self.at += count
        return int.from_bytes(drawn, "little") >> (8 * count - k)

    def random(self) -> float:
        """Returns the next bytes as a fraction."""
        return self.getrandbits(53) * 2.0**-53

    def sample(self, population: Any, k: int, **_: Any) -> list[Any]:  # type: ignore[override]
        """Draws without replacement. The library's method repeats draws of equal values, so it would never end on zeros."""
        left = list(population)
        return [left.pop(self.randrange(len(left))) for _ in range(k)]

    def number(self) -> Any:
        """Returns an integer or a float, often an extreme value."""
        found = self.choice(resign.NUMBERS) if self.getrandbits(1) else self.getrandbits(4) - 4
        return found if self.getrandbits(2) else np.float64(found) if isinstance(found, float) else found

    def few(self) -> list[Any]:
        """Returns a list of a few numbers."""
        return [self.number() for _ in range(self.randrange(5))]

    def shape(self) -> list[Any]:
        """Returns a shape of a few axes."""
        return [self.choice(resign.AXES) if self.getrandbits(1) else self.randrange(5) for _ in range(self.randrange(6))]

    def array(self) -> Any:
        """Returns a small array of any dtype."""
        dtype = self.choice(["i1", "u1", "i8", "u8", "f8", "f4", "c16", "?", "O", "U3", "M8[s]", "V4"])
        lengths = [self.choice([0, 1, 2, 3, 16, 1024]) for _ in range(self.randrange(4))]
        if math.prod(lengths) > 4096:
            lengths = lengths[:1]
        made = np.zeros(lengths, dtype=dtype)
        if dtype in ("i1", "u1", "i8", "u8", "f8", "f4", "O"):
            made = np.asarray(made + np.array(self.getrandbits(6), dtype=dtype), dtype=dtype)
        return self.choice([made, made.T, made[::-1] if made.ndim else made, made.tolist()])

    def index(self) -> Any:
        """Returns an index: an integer, a slice, a list, or a tuple of such indices."""
        one: list[Callable[[], Any]] = [
            self.number,
            lambda: slice(*(self.choice([None, self.number()]) for _ in range(3))),
            lambda: None,
            lambda: Ellipsis,
            lambda: self.choice(["a", True, [0, 1], np.array([0, 1]), np.int64(0), 1.0]),
        ]
        return tuple(self.choice(one)() for _ in range(self.randrange(5))) if self.getrandbits(1) else self.choice(one)()

    def value(self) -> Any:
        """Returns a value of any kind."""
        made: list[Callable[[], Any]] = [self.number, self.few, self.array, self.shape, self.index]
        made += [
            lambda: self.choice(resign.TEXTS),
            lambda: None,
            lambda: self.choice([True, False, object(), b"\0", {}, ()]),
        ]
        return self.choice(made)()


def tensor(d: Draws) -> tuple[Any, resign_uses.Party]:
    """Returns a tensor and the party that encrypted it."""
    p = resign_uses.parties()[d.choice(["bfv", "bgv", "ckks", "tfhe", "tfhe bits", "bfv two moduli"])]
    x = p.server.bind(p.x)
    return d.choice([lambda: x, lambda: x[0], lambda: x[:0], lambda: x.reshape(-1)[:1].reshape(1, 1)])(), p


def make_parameters(d: Draws) -> Any:
    """Makes parameter sets by name and by numbers; most of these numbers are impossible."""
    scheme, numbers = d.choice([hg.bfv, hg.bgv, hg.ckks, hg.tfhe]), {}
    names = [
        "depth",
        "plain_bits",
        "plain_modulus",
        "slots",
        "terms",
        "n",
        "log_q",
        "special",
        "edition",
        "insecure",
        "levels",
    ]
    names += [
        "log_scale",
        "base_bits",
        "precision",
        "integer_bits",
        "k",
        "degree",
        "lwe_noise",
        "bootstrap",
        "group",
        "norm",
    ]
    for _ in range(d.randrange(6)):
        numbers[d.choice(names)] = d.value()
    # Large rings are valid but slow.
    if isinstance(numbers.get("n"), int) and numbers["n"] > 2048:
        numbers["n"] = 1024
    if "depth" in numbers or "precision" in numbers:
        numbers.pop("insecure", None)
        numbers["depth"] = d.choice([0, -1, 1, 2**40, "1", None])
    given = [d.value()] if d.getrandbits(2) == 0 else []
    return repr(scheme.parameters(*given, **numbers))


def encrypt(d: Draws) -> Any:
    """Encrypts values of every dtype and shape, along any axis."""
    _, p = tensor(d)
    options = {
        name: d.value() for name in ("slots", "coefficients", "pad", "moduli", "level", "dtype") if d.getrandbits(3) == 0
    }
    if d.getrandbits(2) == 0 and "level" not in options:
        options["pad"] = True
    return p.secret.decrypt(p.secret.encrypt(d.array(), **options))


def operate(d: Draws) -> Any:
    """Applies an operator to a tensor and any value."""
    x, _ = tensor(d)
    other = d.choice([d.value, lambda: tensor(d)[0], lambda: x, lambda: x[::-1] if x.ndim else x])()
    if isinstance(x, hg.tfhe.Tensor) and d.getrandbits(2):  # look-ups are fast, products of integers are slow
        one = d.choice(["__add__", "__and__", "__xor__", "__lt__", "__eq__", "__rshift__", "__rsub__", "__getitem__"])
        return getattr(x, one)(other)
    name = d.choice(
        ["add", "sub", "mul", "radd", "rsub", "rmul", "pow", "matmul", "rmatmul", "truediv", "getitem", "neg", "len"]
    )
    if name == "pow" and isinstance(other, int) and other > 5:
        other = 3
    method = getattr(x, f"__{name}__", None)
    return None if method is None else method() if name in ("neg", "len") and x.ndim else method(other)


def _seen(x: Any, d: Draws) -> Any:
    """Returns the tensor in another shape."""
    ways: list[Callable[[], Any]] = [
        lambda: x[d.index()],
        lambda: x.reshape(d.shape()),
        lambda: x.reshape(*d.few()),
        lambda: x.transpose(d.few()),
        lambda: x.broadcast_to(d.shape()),
        lambda: hg.concatenate([x, x[d.index()]], d.choice([0, 1, -1, d.value()])),
        lambda: hg.stack([x, x]),
        lambda: hg.concatenate(d.choice([[], [x], x if x.ndim and x.shape[0] < 9 else [x], [x, 1]])),
    ]
    return d.choice(ways)()


def look(d: Draws) -> Any:
    """Reshapes and indexes a tensor."""
    x, _ = tensor(d)
    for _ in range(d.randrange(1, 4)):
        x = _seen(x, d)
    return repr(x), x.shape, x.to_bytes() if math.prod(max(1, s) for s in x.shape) < 64 else None


def call(d: Draws) -> Any:
    """Calls a function of the library with a tensor and any values."""
    x, p = tensor(d)
    if d.getrandbits(2) == 0:
        x = d.value()
    scheme = d.choice([hg, hg.ckks, hg.tfhe])
    name = d.choice(scheme.__all__)
    if name in ("parameters", "parameters_for", "named", "load", "barrier", "devices") or not callable(
        getattr(scheme, name)
    ):
        return None
    if name in ("matmul", "conv2d", "conv2d_square_pool") and isinstance(x, hg.tfhe.Tensor):
        return None
    if name[0].isupper():  # most classes are constructed only by the library
        made = [hg.Server, hg.SecretKey.generate, hg.tfhe.SecretKey.generate, hg.ckks.SecretKey.generate]
        return d.choice(made)(d.value())
    function = getattr(scheme, name)
    wanted = [q for q in inspect.signature(function).parameters.values() if q.kind == q.POSITIONAL_OR_KEYWORD]
    count = d.randrange(sum(q.default is q.empty for q in wanted), len(wanted) + 1)
    arguments = [d.choice([d.value, lambda: tensor(d)[0], lambda: p.parameters])() for _ in range(count)]
    if arguments and d.getrandbits(3):
        arguments[0] = [x, x] if wanted[0].name in ("tensors", "operands") else p.keys if wanted[0].name == "keys" else x
    return function(*arguments)


def read(d: Draws) -> Any:
    """Reads a changed file with a valid digest, or arbitrary bytes."""
    found = resign_uses.bases()
    name = d.choice(sorted(found))
    mutator = resign.Mutator("")
    mutator.random = d
    return resign_uses.use(name, mutator.case(found[name]) if d.getrandbits(3) else d.data, d)


WAYS = [make_parameters, encrypt, operate, look, call, read]


def face(data: bytes) -> str:
    """Runs an input and returns the name of its outcome; unexpected exceptions propagate."""
    d = Draws(data)
    way = d.choice(WAYS)
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    try:
        way(d)
    except hg.InternalError:
        raise
    except (hg.HeliographError, TypeError) as e:
        return f"{way.__name__}: {type(e).__name__}"
    finally:
        faulthandler.cancel_dump_traceback_later()
    return f"{way.__name__}: done"


def main() -> int:
    """Runs the command."""
    if UNDER_ATHERIS:
        atheris.Setup(sys.argv, face)
        atheris.Fuzz()
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    given = parser.parse_args()
    resign.limited(resign.MEMORY, 0)
    print(f"seed {given.seed}")
    counts: Counter[str] = Counter()
    for number in range(given.cases):
        data = random.Random(f"{given.seed}:{number}").randbytes(96)
        print(f"\rcase {number}, {data.hex()}", end="", file=sys.stderr, flush=True)
        try:
            counts[face(data)] += 1
        except Exception as e:
            print(f"case {number}, {data.hex()}: {type(e).__name__}: {e}", flush=True)
            counts["fault"] += 1
    print(*(f"{count:8,} {how}" for how, count in sorted(counts.items())), sep="\n")
    return 1 if counts["fault"] else 0


if __name__ == "__main__":
    sys.exit(main())
