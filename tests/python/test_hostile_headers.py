"""Tests malicious headers of every kind of file that Python reads: each field gets each malicious value, and the digest is
recomputed.

Every case must end soon and within bounded memory, with a result or a typed error.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
import resign
from file_kinds import Kind, kinds
from heliograph._common.json import read_json

pytest.importorskip("sqlglot")

SECONDS, MEMORY = 10, 512 << 20  # limits of a case: seconds of processor time, and additional bytes of memory
KINDS = 22  #: number of kinds of files
MISSING: Any = object()  #: a value that stands for a removed field


def nested(depth: int, kind: type = list) -> Any:
    """Returns lists or objects that are nested `depth` deep."""
    value: Any = kind()
    for _ in range(depth):
        value = [value] if kind is list else {"a": value}
    return value


HOSTILE: tuple[Any, ...] = (
    *(MISSING, None, True, False, 0, 1, -1, 2, 63, 64, 1 << 16, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 32, 1 << 40),
    *((1 << 53) + 1, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, -(1 << 63), 0.0, 0.5, -1.5, 1e308, -1e308, 5e-324),
    *(
        "",
        "a",
        "0",
        "-1",
        "nan",
        "inf",
        "0x1p+9999",
        "f8,(",
        "\x00",
        "\n",
        "é",
        "\U0001f600",
        "A" * 32,
        "f" * 64,
        "x" * 5000,
    ),
    *([], {}, [[]], [0], [-1], ["a"], [None], {"a": 0}, {"": []}, list(range(300)), nested(20), nested(20, dict)),
    *("SELECT", "SELECT COUNT(*) FROM t WHERE " + "(" * 90 + "x = 1" + ")" * 90, "9" * 4400, "1" * 19),
)
#: Texts that are not canonical JSON; they replace a marker in the text of a header.
TEXTS = (
    b"NaN",
    b"Infinity",
    b"1e999",
    b'"\\ud800"',
    b"[" * 2000 + b"]" * 2000,
    b"[" * 30000,
    b'{"a":' * 2000 + b"1" + b"}" * 2000,
    b"9" * 5000,
    b"-0",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder for files."""
    return tmp_path_factory.mktemp("hostile")


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path of every field and entry; of a long list, only the first and last entry."""
    if at:
        yield at
    if isinstance(value, dict):
        for name in value:
            yield from paths(value[name], (*at, name))
    elif isinstance(value, list):
        for place in sorted({0, len(value) - 1} if value else ()):
            yield from paths(value[place], (*at, place))


def changed(header: Any, at: tuple[Any, ...], value: Any) -> Any:
    """Returns the header with another value at this path."""
    made = copy.deepcopy(header)
    holder = made
    for step in at[:-1]:
        holder = holder[step]
    if value is not MISSING:
        holder[at[-1]] = value
    else:
        del holder[at[-1]]
    return made


def notes(header: dict[str, Any]) -> dict[str, Any]:
    """Returns the header with nested JSON texts parsed, such as a program's note."""
    return header | ({"note": json.loads(header["note"])} if "note" in header else {})


def resigned(document: Any, header: Any) -> bytes:
    """Returns the file with another header and a new digest."""
    if "note" in document.header and isinstance(header, dict) and "note" in header and not isinstance(header["note"], str):
        header = header | {"note": json.dumps(header["note"])}
    made = copy.copy(document)
    made.header = header
    return resign.signed(made)


def cases(kind: Kind) -> Iterator[tuple[str, bytes]]:
    """Yields the file with every field set to every malicious value, and with headers whose text is not JSON."""
    document = resign.take_apart(kind.data)
    header = notes(document.header)
    for at, value in itertools.product(paths(header), HOSTILE):
        yield (
            f"{at} = {'taken away' if value is MISSING else repr(value)[:60]}",
            resigned(document, changed(header, at, value)),
        )
    for at in paths(document.header):
        for text in TEXTS:
            made = copy.copy(document)
            made.header = changed(document.header, at, "MARK")
            yield f"{at} = {text[:20]!r}", resign.signed(made, lambda t, new=text: t.replace(b'"MARK"', new))
    for depth in (50, 99, 120, 600, 5000):
        if "note" in document.header:
            nest = '["list", ' * depth + '"exact"' + "]" * depth
            text = json.dumps(notes(document.header)["note"] | {"results": "NEST"}).replace('"NEST"', nest)
            yield f"results {depth} deep", resigned(document, document.header | {"note": text})
    for value in HOSTILE[1:]:
        if not isinstance(value, float) or math.isfinite(value):
            yield f"the header is {repr(value)[:60]}", resigned(document, value)


def fault(kind: Kind, data: bytes) -> str:
    """Returns the message of an untyped error, or "" for a result or a typed error."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"the case takes more than {SECONDS} s of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        kind.use(kind.read(data))
    except hg.HeliographError:
        pass
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:200]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return ""


def peak() -> int:
    """Returns the largest resident memory in bytes since the last reset."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) << 10  # type: ignore[index]


def peak_after_reset() -> int:
    """Resets the peak to the present resident memory, because other tests of the process may have had a higher peak."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def swept(several: Iterator[tuple[str, Kind, str, bytes]]) -> list[str]:
    """Returns the faults of the cases; too much memory is also a fault."""
    faults = []
    for name, kind, what, data in several:
        before = peak_after_reset()
        if said := fault(kind, data):
            faults.append(f"{name}: {what}: {said}")
        grown = peak() - before
        if grown > MEMORY:
            faults.append(f"{name}: {what}: takes {grown >> 20} MiB")
    return faults


def test_unchanged_files_are_used(folder: Path) -> None:
    """Files that are not changed are read and used, and every kind has fields."""
    for name, kind in kinds(folder).items():
        kind.use(kind.read(kind.data))
        assert sum(1 for _ in paths(resign.take_apart(kind.data).header)) >= 1, name
    assert len(kinds(folder)) == KINDS
    assert len(HOSTILE) + len(TEXTS) > 60


SAMPLE = 80


def test_some_hostile_headers(folder: Path) -> None:
    """A random sample of malicious headers gives no untyped error; a failure prints the seed."""
    seed = random.SystemRandom().randrange(1 << 32)
    rng = random.Random(seed)
    every = [(name, kind, *case) for name, kind in kinds(folder).items() for case in few(kind, rng)]
    faults = swept(iter(rng.sample(every, min(SAMPLE, len(every)))))
    assert not faults, f"seed {seed}: " + "\n".join(faults[:20])


def few(kind: Kind, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yields a sample of `cases` without computing all of them."""
    document = resign.take_apart(kind.data)
    header = notes(document.header)
    places = list(paths(header))
    for _ in range(20):
        at, value = rng.choice(places), rng.choice(HOSTILE)
        yield (
            f"{at} = {'taken away' if value is MISSING else repr(value)[:60]}",
            resigned(document, changed(header, at, value)),
        )


@pytest.mark.full
@pytest.mark.parametrize("number", range(KINDS))
def test_every_hostile_header(folder: Path, number: int) -> None:
    """No field gives an untyped error with any malicious value."""
    name = sorted(kinds(folder))[number]
    kind = kinds(folder)[name]
    faults = swept((name, kind, what, data) for what, data in cases(kind))
    assert not faults, "\n".join(faults[:40])


def test_untyped_errors_and_memory_are_detected(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An untyped error and too much memory are detected."""
    monkeypatch.setitem(globals(), "MEMORY", 1 << 24)
    kind = next(iter(kinds(folder).values()))

    def wrong(_: Any) -> None:
        raise KeyError("field")

    assert "KeyError" in fault(Kind(kind.data, kind.read, wrong), kind.data)
    assert not fault(kind, b"")
    large = Kind(kind.data, lambda data: np.ones(1 << 25, np.float64), len)
    assert "MiB" in swept(iter([("large", large, "memory", b"")]))[0]


@pytest.mark.parametrize(
    "text", ["[" * 101 + "]" * 101, "[" * 50_000, '{"a":' * 101 + "1" + "}" * 101, "NaN", "-Infinity", "x", "", "1" * 5000]
)
def test_json_is_bounded(text: str) -> None:
    """For texts that are too deep, too long or invalid, the common JSON reader raises only ValueError."""
    with pytest.raises(ValueError):  # noqa: PT011
        read_json(text)
    with pytest.raises(ValueError, match="characters"):
        read_json("[" + "1," * 100 + "1]", longest=100)
    assert read_json("[" * 100 + "]" * 100)


def test_programs_nest_as_deep_as_files_are_read() -> None:
    """A program whose nesting exceeds the reader's limit is not saved; a program within the limit is loaded again."""
    params = hg.bfv.parameters(n=1024, log_q=60, special=0, plain_modulus=12289, insecure=True)
    x = hg.SecretKey.generate(params).encrypt(np.arange(1024))

    def deep(levels: int) -> Any:
        def f(a: Any) -> Any:
            for _ in range(levels):
                a = [a]
            return a

        return hg.program(lambda a: f(a + a), x)

    assert hg.Program.from_bytes(deep(40).to_bytes())(x)
    with pytest.raises(hg.RecordingError, match="at most 100 deep"):
        deep(120).to_bytes()
