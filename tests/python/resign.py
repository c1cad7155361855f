"""Malicious files: in a valid container one to four fields are changed, then its lengths, text and digest are recomputed.

The changed files pass the container's checks and reach the readers of objects. The test uses each object that can be loaded.
Each case must end soon, in bounded memory, with a result or a typed error.

    python tests/python/resign.py --cases 100000 --seed 7    # in child processes; writes files that show faults
    python tests/python/resign.py --seed 7 --case 1234       # repeats one case, in this process
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

NUMBERS: list[Any] = [0, 1, -1, 2, 3, 63, 64, 1023, 1024, 2048, 2**17, 2**17 + 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**60 - 1]
NUMBERS += [2**60, 2**61, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, 0.0, -0.0, 0.5, -1.5, 1e300, -1e300, 5e-324]
NUMBERS += [math.nan, math.inf, -math.inf]
TEXTS = ["", "a", "slots", "coefficients", "w32", "w64", "bfv", "bgv", "ckks", "tfhe", "bool", "int8", "uint8", "uint64"]
TEXTS += ["int0", "uint65", "uint18446744073709551617", "NaN", "0", "-1", "03", "3", "1023", "2047", "99999999999999999999"]
TEXTS += ["\n", '"\\', "\u00e9", "\U0001f600", "\x00", "\x7f", "f" * 64, "0" * 32, "A" * 32, "x" * 700]
AXES = [0, 0, 0, 0, 1, 1, 2, 3, 4, 2**16, 2**31, 2**32, 2**53, 2**61, 2**62, 2**63 - 1, 2**64 - 1]
SIZES = {"u8": 1, "i8": 1, "u32": 4, "u64": 8, "i64": 8}
SCHEMES, KINDS = ["bfv", "bgv", "ckks", "tfhe"], ["ciphertext", "public-key", "evaluation-keys", "secret-key"]
ROOM = 1 << 18  # greatest number of bytes of arrays


@dataclass
class Piece:
    """An array: its entry in the header and its bytes. `offset` and `bytes` are computed if the entry lacks them."""

    entry: dict[str, Any]
    data: bytes


@dataclass
class Document:
    """A parsed container."""

    type: Any
    header: Any
    arrays: list[Piece]
    version: int


def take_apart(data: bytes) -> Document:
    """Parses a valid container."""
    version, _, length = struct.unpack_from("<IIQ", data, 8)
    head = json.loads(data[32 : 32 + length])
    arrays = []
    for entry in head["arrays"]:
        offset, size = entry.pop("offset"), entry.pop("bytes")
        arrays.append(Piece(entry, data[offset : offset + size]))
    return Document(head["type"], head["header"], arrays, version)


def double_text(value: float) -> str:
    """Returns the shortest text of a double, as std::to_chars does; in fixed notation if both notations have the same
    length.
    """
    if not math.isfinite(value):
        return str(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text, power = "".join(map(str, digits)), len(digits) - 1 + exponent
    scientific = text[0] + ("." + text[1:] if len(text) > 1 else "") + f"e{power:+03d}"
    fixed = str(int(abs(value))) if exponent >= 0 else f"{abs(Decimal(repr(value))):f}"
    shortest = (scientific if len(scientific) < len(fixed) else fixed) if value else "0"
    return "-" * sign + shortest + ("" if set(shortest) & set(".e") else ".0")


def canonical_text(value: Any) -> str:
    """Returns the canonical JSON text of a value."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{canonical_text(k)}:{canonical_text(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical_text, value)) + "]"
    return double_text(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def canonical(value: Any) -> bytes:
    """Returns the canonical JSON text of a value as bytes."""
    return canonical_text(value).encode()


def padded(size: int) -> int:
    """Rounds up to a multiple of 64."""
    return -(-size // 64) * 64


def signed(d: Document, change: Callable[[bytes], bytes] = lambda text: text) -> bytes:
    """Returns the file with matching lengths and digest, after `change` is applied to the header's text."""
    text = b""
    while True:
        offset, entries = padded(32 + len(text)), []
        for piece in d.arrays:
            entries.append({"offset": offset, "bytes": len(piece.data)} | piece.entry)
            offset += padded(len(piece.data))
        new = canonical({"type": d.type, "header": d.header, "arrays": entries})
        if len(new) == len(text):
            break
        text = new
    text = change(new)
    body = b"".join(piece.data.ljust(padded(len(piece.data)), b"\0") for piece in d.arrays)
    start = padded(32 + len(text))
    head = struct.pack("<8sIIQQ", b"\x89HELIO\r\n", d.version, 0, len(text), start + len(body) + 32) + text
    whole = head.ljust(start, b"\0") + body
    return whole + hashlib.sha256(whole).digest()


def axes_of(holder: dict[str, Any]) -> list[Any]:
    """Returns the shape field, or [] if it is missing or not a list."""
    shape = holder.get("shape")
    return list(shape) if isinstance(shape, list) else []


def put(entry: Any, holder: Any, at: Any) -> None:
    """Stores a value under a key of a JSON object or at an index of a list."""
    holder[at] = entry


def exchange(holder: Any, a: Any, b: Any) -> None:
    """Exchanges two entries of a JSON list or object."""
    holder[a], holder[b] = holder[b], holder[a]


class Mutator:
    """Draws random changes."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def one_in(self, count: int) -> bool:
        """Returns True with probability 1 / `count`."""
        return self.random.randrange(count) == 0

    def nasty(self) -> Any:
        """Returns a value that readers often handle wrongly."""
        r = self.random
        made: list[Callable[[], Any]] = [
            lambda: None,
            lambda: self.one_in(2),
            lambda: r.choice(TEXTS),
            list,
            dict,
            lambda: [r.choice(NUMBERS), r.choice(NUMBERS)],
            lambda: [r.choice(AXES) for _ in range(r.randrange(20))],
        ]
        return r.choice(NUMBERS) if self.one_in(2) else r.choice(made)()

    def changed(self, value: Any) -> Any:
        """Returns the value with one change somewhere inside."""
        r = self.random
        if isinstance(value, dict) and value and not self.one_in(64):
            return self._changed_object(dict(value))
        if isinstance(value, list) and value and not self.one_in(16):
            return self._changed_list(list(value))
        if isinstance(value, bool):
            return not value if self.one_in(2) else self.nasty()
        if isinstance(value, int) and self.one_in(3):
            return value * r.choice([1, 1, 2]) + r.choice([-2, -1, 0, 1, 2])
        if isinstance(value, float) and self.one_in(2):
            return value * r.choice([-1, 0, 0.5, 1 + 2**-40, 2, 1e10])
        if isinstance(value, str) and value[:1] in ("{", "[") and not self.one_in(8):
            return self._changed_text(value)
        if isinstance(value, str) and value and self.one_in(2):
            at = r.randrange(len(value))
            return value[:at] + r.choice("0123456789abcdefG") + value[at + 1 :] if self.one_in(2) else value[:at]
        return r.choice(TEXTS) if isinstance(value, str) and self.one_in(2) else self.nasty()

    def _changed_text(self, text: str) -> str:
        """Returns a JSON text that is contained in the header, such as a program's note, with a change inside."""
        try:
            return canonical_text(self.changed(json.loads(text)))
        except ValueError:
            return text[: self.random.randrange(len(text))]

    def one_of(self, count: int, *rare: Callable[[], Any], otherwise: Callable[[], Any]) -> None:
        """Calls each of the rare functions with probability 1 / count, otherwise calls `otherwise`."""
        how = self.random.randrange(count) if count > 1 else 0
        (rare[how] if how < len(rare) else otherwise)()

    def _changed_object(self, value: dict[str, Any]) -> dict[str, Any]:
        r = self.random
        key = r.choice(list(value))
        self.one_of(
            16,
            lambda: value.pop(key),
            lambda: put(value[key], value, r.choice(TEXTS)),
            lambda: exchange(value, key, r.choice(list(value))),
            otherwise=lambda: put(self.changed(value[key]), value, key),
        )
        return value

    def _changed_list(self, value: list[Any]) -> list[Any]:
        r, at = self.random, self.random.randrange(len(value))
        self.one_of(
            7,
            lambda: value.insert(at, r.choice(NUMBERS)),
            lambda: value.pop(at),
            lambda: value.append(value[at]),
            lambda: exchange(value, at, r.randrange(len(value))),
            otherwise=lambda: put(self.changed(value[at]), value, at),
        )
        return value

    def axes(self, axes: list[Any]) -> list[Any]:
        """Returns a shape similar to `axes`."""
        r, axes = self.random, list(axes)
        self.one_of(
            5 if axes else 1,
            lambda: axes.insert(r.randrange(len(axes) + 1), r.choice(AXES)),
            lambda: axes.pop(r.randrange(len(axes))),
            lambda: r.shuffle(axes),
            otherwise=lambda: put(r.choice(AXES), axes, r.randrange(len(axes))),
        )
        return axes

    def reshape(self, piece: Piece, axes: list[Any]) -> None:
        """Sets an array's shape, and resizes its data if the size is allowed."""
        piece.entry["shape"] = axes
        lengths = [a if isinstance(a, int) and a >= 0 else 1 for a in axes]
        size = math.prod(lengths) * SIZES.get(str(piece.entry.get("dtype")), 1)
        if size <= ROOM:
            piece.data = (piece.data * (size // max(1, len(piece.data)) + 1))[:size].ljust(size, b"\0")

    # Changes of a complete document

    def _shape(self, d: Document) -> None:
        """Changes a tensor's shape in the header and in its arrays consistently."""
        before = d.header.get("shape")
        if not isinstance(before, list):
            return
        after = before
        for _ in range(self.random.randrange(1, 4)):
            after = self.axes(after)
        d.header["shape"] = after
        for piece in d.arrays:
            self.reshape(piece, after + axes_of(piece.entry)[len(before) :])

    def _kind(self, d: Document) -> None:
        """Changes the degree or the level, and the array axis whose length follows from it."""
        r, value = self.random, self.random.randrange(1, 4)
        name, axis = r.choice([("level", -2), ("degree", -3)])
        d.header[name], d.header["fresh"] = value, False
        if "seeds" in d.header:
            d.header["seeds"] = []
        d.header.pop("seed", None)
        for piece in d.arrays:
            axes = axes_of(piece.entry)
            if len(axes) >= 3:
                axes[-3] = 2 if name == "level" else value + 1
                axes[axis] = value if name == "level" else value + 1
                self.reshape(piece, axes)

    def _words(self, d: Document) -> None:
        r = self.random
        pieces = [p for p in d.arrays if p.data]
        if not pieces:
            return
        piece = r.choice(pieces)
        data = bytearray(piece.data)
        parameters = d.header.get("parameters")
        chain = parameters.get("chain") if isinstance(parameters, dict) else None
        primes = [q for q in chain if isinstance(q, int)] if isinstance(chain, list) else []
        words = [0, 1, 2, 0x7F, 0x80, 0xFF, 2**32 - 1, 2**64 - 1] + [q + e for q in primes for e in (-1, 0, 1)]
        for _ in range(r.randrange(1, 6)):
            size = min(r.choice([1, 2, 4, 8]), len(data))
            word = (r.choice(words) if not self.one_in(4) else r.getrandbits(64)) % 2 ** (8 * size)
            at = r.randrange(len(data) // size) * size
            data[at : at + size] = word.to_bytes(size, "little")
        piece.data = bytes(data)

    def _arrays(self, d: Document) -> None:
        r = self.random
        if not d.arrays:
            d.arrays.append(Piece({"name": "words", "dtype": "u32", "shape": [0]}, b""))
            return
        at = r.randrange(len(d.arrays))
        piece, how = d.arrays[at], r.randrange(9)
        if how == 0:
            del d.arrays[at]
        elif how == 1:
            d.arrays.insert(at, Piece(dict(piece.entry), piece.data))
        elif how == 2:
            r.shuffle(d.arrays)
        elif how == 3:
            piece.entry["name"] = f"rotation{r.randrange(5000)}" if self.one_in(2) else r.choice(TEXTS)
        elif how == 4:
            piece.entry["dtype"] = r.choice([*SIZES, "f64", ""])
            self.reshape(piece, axes_of(piece.entry))
        elif how == 5:
            piece.entry[r.choice(["name", "dtype", "shape", "offset", "bytes"])] = self.nasty()
        elif how == 6:
            piece.data = (piece.data * 2)[: r.randrange(2 * len(piece.data) + 8)]
        else:
            self.reshape(piece, self.axes(axes_of(piece.entry)))

    def _rotations(self, d: Document) -> None:
        """Adds or renames an array of a rotation key, together with the field of the header that names it."""
        r = self.random
        if not isinstance(d.header.get("rotations"), dict) or not d.arrays:
            return
        name = str(r.randrange(1 << 20) if self.one_in(4) else 2 * r.randrange(1024) + 1)
        piece = r.choice(d.arrays)
        d.header["rotations"][name] = "7" * 64
        copy = Piece(piece.entry | {"name": f"rotation{name}"}, piece.data)
        if self.one_in(2):
            d.arrays.append(copy)
        else:
            d.arrays[r.randrange(len(d.arrays))] = copy

    def _parameters(self, d: Document) -> None:
        if "parameters" in d.header:
            d.header["parameters"] = self.changed(d.header["parameters"])

    def _header(self, d: Document) -> None:
        d.header = self.changed(d.header)

    def _type(self, d: Document) -> None:
        r = self.random
        if self.one_in(8):
            d.version = r.choice([0, 1, 2, 3, 2**32 - 1])
        d.type = self.nasty() if self.one_in(4) else f"heliograph.{r.choice(SCHEMES)}.{r.choice([*KINDS, ''])}"

    def text(self, text: bytes) -> bytes:
        """Occasionally returns a text that is not canonical or not JSON."""
        r = self.random
        if not self.one_in(24):
            return text
        at = r.randrange(len(text))
        made = [
            text[:at] + text[at + 1 :],
            text[:at] + bytes([r.randrange(256)]) + text[at + 1 :],
            text.replace(b'"key":', b'"key":"' + b"0" * 32 + b'","key":', 1),
            text.replace(b'"shape":[', b'"shape":[ ', 1),
            text.replace(b"heliograph", b"\\u0068eliograph", 1),
            text.replace(b"1024", r.choice([b"1024.0", b"1.024e3", b"01024", b"NaN", b"1e999", b"-0"]), 1),
            b"[" * r.choice([31, 32, 33, 100_000]) + text,
        ]
        return r.choice(made)

    def case(self, base: bytes) -> bytes:
        """Changes a base file and recomputes its digest."""
        r, d = self.random, take_apart(base)
        ways = [
            self._shape,
            self._kind,
            self._words,
            self._arrays,
            self._parameters,
            self._header,
            self._rotations,
            self._type,
        ]
        for _ in range(r.randrange(1, 5)):
            if isinstance(d.header, dict):
                r.choices(ways, weights=[5, 4, 4, 4, 6, 8, 2, 1])[0](d)
        if isinstance(d.header, dict) and "parameters" in d.header and not self.one_in(32):
            numbers = d.header["parameters"]
            if isinstance(numbers, dict) and "name" in numbers and self.one_in(2):
                numbers = numbers | {"name": ""}
            d.header["parameter_hash"] = hashlib.sha256(canonical(numbers)).hexdigest()
        return signed(d, self.text)


def case(bases: dict[str, bytes], seed: int, number: int) -> tuple[str, bytes]:
    """Returns the kind of object and the bytes of a case; they depend only on seed and number."""
    mutator = Mutator(f"{seed}:{number}")
    name = mutator.random.choice(sorted(bases))
    return name, mutator.case(bases[name])


# Child processes, each of which runs a range of cases


@dataclass
class Fault:
    """The number of a case that has a fault, and this fault."""

    number: int
    what: str


@dataclass
class Report:
    """The results of a run."""

    cases: int = 0
    seconds: float = 0
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)

    def __str__(self) -> str:
        each = ", ".join(f"{name} {count:,}" for name, count in sorted(self.counts.items()))
        return f"{self.cases:,} cases in {self.seconds:.0f} s: {len(self.faults)} faults; {each}"


def limited(memory: int, seconds: int) -> None:
    """Limits this process's memory, and its processor time until the next call of `limit_time`."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit_time(seconds)


def limit_time(seconds: float) -> None:
    """Ends this process by SIGPROF after this number of seconds of processor time. The processor time of other processes
    does not count. If the process waits forever, SIGALRM ends it after twenty times as many seconds of real time. 0: no
    limit.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 20 * seconds)


def work(seed: int, numbers: range, deadline: float) -> None:
    """Runs cases in a child process. Prints a line for each case that starts, a line for each fault, and a last line with
    the counts.

    """
    from resign_uses import bases, use

    limited(MEMORY, 60)
    found = bases()
    counts: Counter[str] = Counter()
    for number in numbers:
        if time.time() > deadline:
            break
        limit_time(SECONDS)
        print(f"case {number}", flush=True)
        name, data = case(found, seed, number)
        try:
            counts.update(use(name, data, random.Random(number)))
        except Exception as e:
            print("fault " + json.dumps([number, f"{name}: {type(e).__name__}: {e}"]), flush=True)
    limit_time(0)
    print("counts " + json.dumps(counts), flush=True)


MEMORY, SECONDS = 4 << 30, 20  # limits: bytes of memory per child, seconds of processor time per case


def run(seed: int, numbers: range, deadline: float, report: Report) -> Iterator[Fault]:
    """Runs cases in child processes; after a case that ended its process, a new child starts."""
    first = numbers.start
    while first < numbers.stop and time.time() < deadline:
        command = [sys.executable, str(Path(__file__).resolve()), "--work", f"{seed}:{first}:{numbers.stop}:{deadline}"]
        environment = os.environ | {"HELIOGRAPH_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        last = first - 1
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as child,
        ):
            assert child.stdout is not None
            finished = False
            for line in child.stdout:
                word, _, rest = line.partition(" ")
                if word == "case":
                    last, report.cases = int(rest), report.cases + 1
                elif word == "fault":
                    yield Fault(*json.loads(rest))
                elif word == "counts":
                    report.counts.update(json.loads(rest))
                    finished = True
            status = child.wait()
            errors.seek(0)
            said = errors.read().strip()[-2000:]
        if finished and status == 0:
            return
        if last < first:
            raise RuntimeError(f"cannot run cases: the child exited at start (status {status}): {said}")
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        yield Fault(last, f"ended the process by {how}" + (f" after {SECONDS} s" if how == "SIGPROF" else "") + f": {said}")
        first = last + 1


def campaign(seed: int, cases: int, seconds: float = math.inf, folder: Path | None = None) -> Report:
    """Runs `cases` cases within `seconds`; writes files that show faults into `folder`."""
    report, start = Report(), time.time()
    for fault in run(seed, range(cases), start + seconds, report):
        report.faults.append(fault)
        print(f"case {fault.number}: {fault.what}", flush=True)
        if folder is not None:
            from resign_uses import bases

            (folder / f"resigned-{seed}-{fault.number}.hg").write_bytes(case(bases(), seed, fault.number)[1])
    report.seconds = time.time() - start
    return report


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--case", type=int, help="number of one case, which runs in this process")
    parser.add_argument("--folder", type=Path, default=Path(), help="folder for faulty files")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work is not None:
        seed, first, stop, deadline = given.work.split(":")
        work(int(seed), range(int(first), int(stop)), float(deadline))
        return 0
    if given.case is not None:
        from resign_uses import bases, use

        name, data = case(bases(), given.seed, given.case)
        print(name, len(data), "bytes; the header:", data[32:2000].split(b"\0")[0].decode(errors="replace"))
        print(use(name, data, random.Random(given.case)))
        return 0
    print(f"seed {given.seed}", flush=True)
    report = campaign(given.seed, given.cases, given.seconds, given.folder)
    print(report)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
