"""Cases of TFHE. A case is a call on encrypted arrays, the same call on clear arrays, and its cost in bootstraps."""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.cases.examples import example
from heliograph import _core, tfhe

Shape = tuple[int, ...]
#: Parameter sets for the paper's tables: Heliograph's set for bits, the paper's own set (far below 128 bits of security),
#: Heliograph's set for digits.
BITS, PAPER, DIGITS = "boolean", "morshed-2020", "2_2"


@dataclass(frozen=True)
class Step:
    """One operation of the engine on `items` elements at once, repeated `times` times in sequence."""

    operation: str
    types: Sequence[str]
    items: int
    times: int = 1
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A case that can be prepared. Table, line and column locate the paper's number for comparison."""

    what: str
    set: str
    inputs: Sequence[tuple[Shape, str]]
    call: Callable[..., Any]
    clear: Callable[..., Any]
    steps: Sequence[Step]
    items: int
    table: str = ""
    line: str = ""
    column: str = ""
    regression: Regression | None = None


@dataclass(frozen=True)
class Regression:
    """A run of examples/tfhe_regression, client and server. The measured time is the server's, including reading keys and
    files.
    """

    mode: str  #: "sums" for least squares, or a "step" of gradient descent
    binary: bool
    rows: int
    attributes: int
    steps: int = 1  #: number of sequential steps, with encrypted weights between them
    file: str = ""  #: public data set in the folder HELIOGRAPH_TABULAR; empty: synthetic rows


CASES: dict[str, Case] = {}


def describe(p: tfhe.Parameters) -> dict[str, Any]:
    """Returns a set's parameters for the results file."""
    s = p._core.spec
    return {
        "name": p.name,
        "n": p.n,
        "k": s.k,
        "degree": p.degree,
        "group": s.group,
        "message_bits": p.message_bits,
        "carry_bits": p.carry_bits,
        "norm": s.norm,
        "security": p.security,
        "log2_failure": round(p.log2_failure, 1),
        "key_bytes": p.evaluation_key_bytes,
        "number_bytes": p.ciphertext_bytes("uint32"),
    }


@dataclass
class Party:
    """Keys of one parameter set, and the measured speed of its bootstraps."""

    parameters: tfhe.Parameters
    secret: tfhe.SecretKey
    server: hg.Server
    keys_s: float
    alone_s: float = 0.0  #: seconds of one bootstrap with its key switch
    a_second: float = 0.0  #: bootstraps per second in a batch


@cache
def party(name: str) -> Party:
    """Returns the keys of a set, made once per process, and rates measured with NAND gates."""
    p = tfhe.parameters(name, insecure=name == PAPER)
    start = time.perf_counter()
    secret = tfhe.SecretKey.generate(p)
    server = hg.Server(secret.evaluation_keys())
    made = Party(p, secret, server, time.perf_counter() - start)
    batch = min(4096, p.parallel_bootstraps)

    def once(count: int) -> float:
        x, y = (
            server.bind(secret.encrypt(np.ones(count, bool))) for _ in range(2)
        )  # two operands, because a NAND of one ciphertext with itself takes no bootstrap
        tfhe.nand(x, y).wait()
        start = time.perf_counter()
        tfhe.nand(x, y).wait()
        return time.perf_counter() - start

    made.alone_s, made.a_second = once(1), batch / once(batch)
    return made


def rates_row(name: str) -> dict[str, Any]:
    """Returns the measured rates on which estimates are based, for the results file."""
    made = party(name)
    return {
        "rates": name,
        "parameters": describe(made.parameters),
        "keys_s": made.keys_s,
        "alone_s": made.alone_s,
        "a_second": made.a_second,
    }


def cost(case: Case) -> list[tuple[Step, int, int]]:
    """Returns (step, bootstraps per element, layers) of each step, for the circuit that the engine probably chooses: the
    faster one, if a layer takes at least a quarter of the time of a full batch.
    """
    p = party(case.set).parameters
    full = max(1, p.parallel_bootstraps)
    found = []
    for step in case.steps:
        both = [p.cost(step.operation, *step.types, **step.options, goal=goal) for goal in ("fewest", "shallow")]
        likely = min(both, key=lambda c: max(0.25 * c[1], c[0] * step.items / full))
        found.append((step, *likely))
    return found


def regression() -> Any:
    """Returns the module examples/tfhe_regression."""
    return example("tfhe_regression", "regression")


def numbers() -> Any:
    """Returns the number format of the regressions: 32 bits, 8 of them fractional."""
    return regression().Format(32, 8, 8.0)


def regression_bootstraps(case: Case) -> int:
    """Returns the bootstraps of a regression, as counted by the example."""
    r = case.regression
    assert r
    p = party(case.set).parameters
    return r.steps * int(regression().bootstraps(p, r.mode, r.rows, r.attributes, r.binary, numbers()))


def regression_table(r: Regression) -> Any:
    """Returns synthetic rows, or the rows of a data set's file. Raises FileNotFoundError if the file does not exist."""
    if not r.file:
        return regression().synthetic(r.rows, r.attributes, numbers(), binary=r.binary)
    folder = os.environ.get("HELIOGRAPH_TABULAR", "")
    path = Path(folder) / r.file
    if not folder or not path.is_file():
        raise FileNotFoundError(f"{r.file} is not in the folder of --tabular")
    return regression().read_table(path, numbers(), rows=r.rows, attributes=r.attributes, binary=r.binary)


def regression_row(case: Case) -> dict[str, Any]:
    """Runs a regression once. Returns the server's time, whether every integer equals its clear result, and the difference from floating
    point. For a training, also the shares of rows that the decrypted model and a floating-point model predict correctly.
    """
    r = case.regression
    assert r
    table = regression_table(r)
    with tempfile.TemporaryDirectory() as folder:
        report = regression().run(party(case.set).secret, table, r.mode, Path(folder), steps=r.steps)
    return {
        "median_s": report.seconds,
        "fastest_s": report.seconds,
        "slowest_s": report.seconds,
        "runs": 1,
        "warm": False,
        "bootstraps_s": report.bootstraps / report.seconds,
        "floor_s": None,
        "floor_from": "",
        "over_floor": None,
        "wrong": None if _core.device.name() == "null" else int(not report.exact),
        "elements": 1,
        "error": report.error,
        "allowed": report.allowed,
        "right": report.right,
    }


def estimate(case: Case) -> float:
    """Returns estimated seconds of a call: bootstraps at the measured rate, at least one bootstrap's time per layer."""
    made = party(case.set)
    if case.regression:
        return regression_bootstraps(case) / made.a_second
    return sum(
        step.times * max(bootstraps * step.items / made.a_second, layers * made.alone_s)
        for step, bootstraps, layers in cost(case)
    )


def operands(case: Case) -> tuple[list[Any], list[Any]]:
    """Returns random arrays and the tensors that encrypt them."""
    rng = np.random.default_rng(2020)
    made = party(case.set)
    arrays, tensors = [], []
    for shape, kind in case.inputs:
        if kind == "bool":
            array: Any = rng.integers(0, 2, shape).astype(bool)
        else:
            bits = tfhe.dtypes.bits_of(kind)
            array = rng.integers(1, 1 << bits, shape, dtype=np.uint64).astype(tfhe.dtypes.holder(kind))
        arrays.append(array)
        tensors.append(made.server.bind(made.secret.encrypt(array, kind)))
    return arrays, tensors


def wrong(case: Case, arrays: list[Any], results: Any) -> int | None:
    """Returns the number of elements that differ from the clear computation; None on a device that computes nothing."""
    if _core.device.name() == "null":
        return None
    clear = case.clear(*arrays)
    pairs = zip(clear, results, strict=True) if isinstance(results, tuple) else [(clear, results)]
    count = 0
    for expected, result in pairs:
        found = party(case.set).secret.decrypt(result)
        name = str(result.dtype)
        if name != "bool":
            expected = np.asarray(expected, np.uint64) & np.uint64((1 << tfhe.dtypes.bits_of(name)) - 1)
        count += int(np.count_nonzero(found.astype(np.uint64) != np.asarray(expected).astype(np.uint64)))
    return count


def wait(results: Any) -> Any:
    """Waits for all results and returns them."""
    for result in results if isinstance(results, tuple) else (results,):
        result.wait()
    return results


def declare(name: str, case: Case) -> None:
    """Declares a case by its name."""
    assert name not in CASES, name
    CASES[name] = case


def plural(count: int, what: str) -> str:
    """Formats a count, such as "one gate" or "256 gates at once"."""
    return f"one {what}" if count == 1 else f"{count:,} {what}s at once"


# Gates and bootstraps


def _look_up(table: Any, kind: str) -> Callable[..., Any]:
    return lambda x: tfhe.look_up(x, table, kind)


for _set in (BITS, "boolean/p64", PAPER, DIGITS):
    for _count in (1, 256, 16_384, 65_536) if _set == BITS else (1, 16_384):
        declare(
            f"gates/nand/{_set}/x{_count}",
            Case(
                f"{plural(_count, 'NAND')}, {_set}",
                _set,
                [((_count,), "bool")] * 2,
                tfhe.nand,
                lambda a, b: ~(a & b),
                [Step("nand", ("bool", "bool"), _count)],
                _count,
            ),
        )
for _set, _bits in ((DIGITS, 2), ("2_2/latency", 2), ("2_2/p64", 2), ("1_1", 1)):
    _table = np.arange(1 << _bits, dtype=np.uint8)[::-1].copy()
    _type = f"uint{_bits}"
    for _count in (1, 256, 16_384) if _set == DIGITS else (1, 16_384):
        declare(
            f"gates/bootstrap/{_set}/x{_count}",
            Case(
                f"{plural(_count, 'table look-up')} in digits (key switch and bootstrap), {_set}",
                _set,
                [((_count,), _type)],
                _look_up(_table, _type),
                lambda x, table=_table: table[x],
                [Step("look_up", (_type,), _count, options={"arguments": _table.tolist(), "dtype": _type})],
                _count,
            ),
        )

# Operations on 32-bit integers, by family

for _name, _call, _clear, _operation in (
    ("add", lambda a, b: a + b, lambda a, b: a + b, "add"),
    ("multiply", lambda a, b: a * b, lambda a, b: a * b, "multiply"),
    ("less", lambda a, b: a < b, lambda a, b: a < b, "less"),
    ("divide", tfhe.truncated_divmod, lambda a, b: (a // b, a % b), "divmod"),
):
    for _set in (BITS, DIGITS, "2_2/latency"):
        for _count in (1, 256) if _set != "2_2/latency" else (1,):
            declare(
                f"integers/{_name}/{_set}/x{_count}",
                Case(f"32-bit {_name}, {f'{_count} at once' if _count > 1 else 'one'}, {_set}", _set,
                     [((_count,), "uint32")] * 2, _call, _clear,
                     [Step(_operation, ("uint32", "uint32"), _count)], _count),
            )  # fmt: skip

# The paper's gates. The totals of Table IV are those of an AND gate; its parts are timed as kernels by cpp/tfhe.cpp.


def _two_gates(a: Any, b: Any) -> tuple[Any, Any]:
    first = tfhe.xor(a, b)
    first.wait()  # the gates run one after the other, as in the paper
    return first, tfhe.and_(a, b)


for _set in (BITS, PAPER):
    for _width in (1, 2, 4, 8, 16, 24, 32, 64, 256, 1024):
        _ins = [((_width,), "bool")] * 2
        _column = str(_width)
        declare(
            f"figure5/and/{_set}/{_width}",
            Case(f"AND of {_width} bits, {_set}", _set, _ins, tfhe.and_, lambda a, b: a & b,
                 [Step("and", ("bool", "bool"), _width)], 1, "Figure 5", "AND", _column),
        )  # fmt: skip
        if _width > 32:
            continue
        declare(
            f"figure5/compound/{_set}/{_width}",
            Case(f"compound gate (XOR and AND) of {_width} bits, {_set}", _set, _ins, tfhe.half_adder,
                 lambda a, b: (a ^ b, a & b), [Step("half_adder", ("bool", "bool"), _width)], 1,
                 "Figure 5", "compound gate", _column),
        )  # fmt: skip
        declare(
            f"figure5/single/{_set}/{_width}",
            Case(f"XOR, then AND of {_width} bits, {_set}", _set, _ins, _two_gates, lambda a, b: (a ^ b, a & b),
                 [Step(gate, ("bool", "bool"), _width) for gate in ("xor", "and")], 1,
                 "Figure 5", "two single gates", _column),
        )  # fmt: skip

# Gates of one bit, with one result and with two (ADR 28). A comparison with one and with two ANDs shows which gates share a
# bootstrap or a launch.


def _each_alone(*gates: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a call of gates one after the other."""

    def call(*bits: Any) -> tuple[Any, ...]:
        return tuple(wait(gate(*bits)) for gate in gates)

    return call


_PAIRS: dict[str, tuple[str, int, Callable[..., Any], Callable[..., Any], tuple[str, ...]]] = {
    "and": ("AND", 2, tfhe.and_, lambda a, b: a & b, ("and",)),
    "xor": ("XOR", 2, tfhe.xor, lambda a, b: a ^ b, ("xor",)),
    "and-xor": ("AND, then XOR", 2, _each_alone(tfhe.and_, tfhe.xor), lambda a, b: (a & b, a ^ b), ("and", "xor")),
    "half-adder": ("half adder", 2, tfhe.half_adder, lambda a, b: (a ^ b, a & b), ("half_adder",)),
    "majority-xor3": (
        "majority, then XOR of three", 3, _each_alone(tfhe.majority, tfhe.xor3),
        lambda a, b, c: (a & b | a & c | b & c, a ^ b ^ c), ("majority", "xor3"),
    ),
    "full-adder": (
        "full adder", 3, tfhe.full_adder, lambda a, b, c: (a ^ b ^ c, a & b | a & c | b & c), ("full_adder",),
    ),
}  # fmt: skip
for _set in (BITS, "boolean/p64", PAPER):
    for _name, (_what, _operands, _call, _clear, _operations) in _PAIRS.items():
        for _count in (1, 256):
            declare(
                f"pairs/{_name}/{_set}/x{_count}",
                Case(f"{_what} of {plural(_count, 'bit')}, {_set}", _set, [((_count,), "bool")] * _operands, _call, _clear,
                     [Step(each, ("bool",) * _operands, _count) for each in _operations], _count),
            )  # fmt: skip

# The paper's arithmetic


def _arithmetic(
    prefix: str, table: str, what: str, function: Callable[..., Any], operation: str, variants: dict[str, Sequence[str]]
) -> None:
    """Declares one operation for several bit widths, in each set's variants."""
    clear = {"add": lambda a, b: a + b, "multiply": lambda a, b: a * b}[operation]
    for set_name, names in variants.items():
        for variant in names:
            for bits in (16, 24, 32):
                kind = f"uint{bits}"
                line = variant or "default"
                declare(
                    f"{prefix}/{set_name}/{line}/{bits}",
                    Case(f"{what} of {bits} bits, {line}, {set_name}", set_name, [((1,), kind)] * 2,
                         lambda a, b, v=variant: function(a, b, variant=v), clear,
                         [Step(operation, (kind, kind), 1, options={"variant": variant})], 1, table, line, str(bits)),
                )  # fmt: skip


def _vectors(prefix: str, table: str, what: str, function: Callable[..., Any], operation: str) -> None:
    """Declares element-wise operations, in the default variant."""
    clear = {"add": lambda a, b: a + b, "multiply": lambda a, b: a * b}[operation]
    for set_name in (BITS, PAPER, DIGITS):
        for bits in (16, 32):
            for length in (4, 8, 16, 32):
                kind = f"uint{bits}"
                declare(
                    f"{prefix}/{set_name}/{bits}/x{length}",
                    Case(f"{length} {what}s of {bits} bits, {set_name}", set_name, [((length,), kind)] * 2, function, clear,
                         [Step(operation, (kind, kind), length)], length, table, "default", f"{bits} x{length}"),
                )  # fmt: skip


_arithmetic(
    "table5", "V", "addition", tfhe.add, "add",
    {BITS: ("bitwise", "numberwise", "prefix", ""), PAPER: ("bitwise", "numberwise", "prefix", ""), DIGITS: ("",)},
)  # fmt: skip
_vectors("table6", "VI", "addition", tfhe.add, "add")
_arithmetic(
    "table7", "VII", "multiplication", tfhe.multiply, "multiply",
    {BITS: ("tree", "karatsuba", ""), PAPER: ("tree", "karatsuba", ""), DIGITS: ("", "karatsuba")},
)  # fmt: skip
_vectors("table8", "VIII", "multiplication", tfhe.multiply, "multiply")


def _matrices(set_name: str, algorithm: str, size: int, bits: int = 16) -> None:
    kind = f"uint{bits}"
    product = Step("multiply", (kind, kind), size * size, size)
    added = Step("add", (kind, kind), size * size, size - 1)
    dot = Step("dot", (kind,) * (2 * size), size * size)
    line = algorithm or "default"
    declare(
        f"table9/{set_name}/{line}/{size}" + ("" if bits == 16 else f"x{bits}"),
        Case(f"{size}x{size} matrix product of {bits}-bit numbers, {line}, {set_name}", set_name, [((size, size), kind)] * 2,
             lambda a, b: tfhe.matmul(a, b, algorithm=algorithm), lambda a, b: a @ b,
             [product, added] if algorithm else [dot], 1, "IX", line, str(size) if bits == 16 else f"{size}, {bits}-bit"),
    )  # fmt: skip


for _size in (2, 4, 8, 16):
    for _set in (BITS, PAPER, DIGITS):
        for _algorithm in ("cannon", ""):
            _matrices(_set, _algorithm, _size)

for _set in (BITS, DIGITS):  # for comparison with Morshed's 186 minutes
    _matrices(_set, "", 16, 32)

#: The paper's sizes, with synthetic rows, and public data sets of similar sizes, whose files are optional.
SYNTHETIC = {f"{rows} x {attributes}": ("", rows, attributes) for rows in (200, 300) for attributes in (10, 20)}
PUBLIC = {"lbw": (189, 9), "pcs": (379, 9), "uis": (575, 8), "edin": (1253, 9)}
TABULAR = SYNTHETIC | {f"{name}, {size[0]} x {size[1]}": (f"{name}.txt", *size) for name, size in PUBLIC.items()}
#: Mode, steps and description of each regression.
REGRESSIONS = {
    "sums": ("sums", 1, "sums for least squares"),
    "step": ("step", 1, "a step of gradient descent"),
    "training": ("step", 2, "training, two steps"),
}


def _regression(name: str, column: str, binary: bool, set_name: str) -> None:
    file, rows, attributes = TABULAR[column]
    mode, steps, words = REGRESSIONS[name]
    kind = "binary" if binary else "numerical"
    of = file.removesuffix(".txt") or f"{rows}x{attributes}"
    declare(
        f"table10/{set_name}/{name}/{kind}/{of}",
        Case(f"regression, {words}, {kind}, {column}, {set_name}", set_name, [], print, print, [], 1, "X", f"{kind}, {words}",
             column, Regression(mode, binary, rows, attributes, steps, file)),
    )  # fmt: skip


for _name in REGRESSIONS:
    for _column in TABULAR:
        _regression(_name, _column, False, DIGITS)
        _regression(_name, _column, True, DIGITS)
        if _name == "sums":
            _regression(_name, _column, True, BITS)


def measure(call: Callable[[], Any], repeat: float, seconds: float, expected: float) -> tuple[list[float], Any]:
    """Returns times of calls with the wait, repeated for `repeat` seconds, and the last result. A call that takes an eighth of the
    available time or more is made once, without warm-up.
    """
    if warms_up(repeat, seconds, expected):
        wait(call())
    least = 5 if expected < repeat / 4 else 3 if expected < repeat else 1
    times: list[float] = []
    end = time.perf_counter() + repeat
    while len(times) < least or (time.perf_counter() + times[-1] < end and len(times) < 1000):
        start = time.perf_counter()
        result = wait(call())
        times.append(time.perf_counter() - start)
    return times, result


def warms_up(repeat: float, seconds: float, expected: float) -> bool:
    """Returns whether a warm-up call is made."""
    return expected < max(repeat, seconds / 8)


#: The null device's counts of one bootstrap with its key switch, and of each layer.
Counts = dict[str, dict[str, float]]


def floor(case: Case, counts: Counts | None, rates: dict[str, float]) -> tuple[float | None, str]:
    """Returns the floor in seconds and its origin: the longer of multiply-adds and bytes at the machine's rates."""
    if not counts or not rates.get("bytes_s"):
        return None, ""
    products = moved = 0.0
    for step, bootstraps, layers in cost(case):
        many = step.times * step.items * bootstraps
        products += many * counts["each"]["fma"] / rates["fma_s"] if rates.get("fma_s") else 0.0
        products += many * counts["each"]["mac"] / rates["mac_s"] if rates.get("mac_s") else 0.0
        moved += many * counts["each"]["bytes"] + step.times * layers * counts["layer"]["bytes"]
    found = {"products": products, "bytes": moved / rates["bytes_s"]}
    name = max(found, key=lambda key: found[key])
    return found[name], name


def row_of(name: str, seconds: float, repeat: float, counts: Counts | None, rates: dict[str, float]) -> dict[str, Any]:
    """Measures one case, or returns why the case is skipped."""
    case = CASES[name]
    expected = estimate(case)
    found = cost(case)
    row: dict[str, Any] = {
        "case": name,
        "what": case.what,
        "parameters": describe(party(case.set).parameters),
        "items": case.items,
        "bootstraps": regression_bootstraps(case) if case.regression else sum(s.times * s.items * b for s, b, _ in found),
        "levels": sum(s.times * layers for s, _, layers in found),
        "estimate_s": expected,
        "load": round(os.getloadavg()[0], 2),
        "table": case.table,
        "line": case.line,
        "column": case.column,
    }
    if expected > seconds:
        return row | {"skipped": f"a call would take longer than the {max(0, seconds):.3g} s there were"}
    if case.regression:
        return row | regression_row(case)
    arrays, tensors = operands(case)
    times, result = measure(lambda: case.call(*tensors), repeat, seconds, expected)
    median = float(np.median(times))
    lowest, origin = floor(case, counts, rates)
    return row | {
        "median_s": median,
        "fastest_s": min(times),
        "slowest_s": max(times),
        "runs": len(times),
        "warm": warms_up(repeat, seconds, expected),
        "bootstraps_s": row["bootstraps"] / median,
        "floor_s": lowest,
        "floor_from": origin,
        "over_floor": median / lowest if lowest else None,
        "wrong": wrong(case, arrays, result),
        "elements": int(sum(math.prod(r.shape) for r in (result if isinstance(result, tuple) else (result,)))),
    }


def child(
    names: Sequence[str], seconds: float, repeat: float, until: float, counts: dict[str, Counts], rates: dict[str, float]
) -> None:
    """Runs cases in this process and prints their rows as JSON lines, with a notice before long cases."""
    known: set[str] = set()
    for name in names:
        case = CASES[name]
        try:
            if case.set not in known:
                known.add(case.set)
                print(json.dumps(rates_row(case.set)), flush=True)
            expected = estimate(case)
            if 2 < expected <= seconds:
                print(json.dumps({"begun": name, "estimate_s": expected}), flush=True)
            row = row_of(name, min(seconds, until - time.time()), repeat, counts.get(case.set), rates)
        except FileNotFoundError as error:  # the data set is missing
            print(json.dumps({"case": name, "what": case.what, "skipped": str(error)}), flush=True)
            continue
        except hg.HeliographError as error:
            row = {"case": name, "what": case.what, "skipped": f"{type(error).__name__}: {error}"}
            print(json.dumps(row), flush=True)
            if isinstance(error, hg.DeviceError):  # the error would recur in every following case
                raise SystemExit(str(error)) from None
            continue
        print(json.dumps(row), flush=True)
