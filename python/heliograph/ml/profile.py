"""Cost profiles: measured seconds of CKKS operations on a device, for forecasts on another machine.

A profile is a JSON file. Each row has an operation, the word size of the set, and the number of ciphertexts in one call. It
has the work of one ciphertext by `costs.Counter`, and its measured seconds. Other levels and ring degrees are interpolated
by their work. ``heliograph profile --out FILE`` measures a device.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heliograph import _core, ckks
from heliograph._common.arguments import described, path_of, printable
from heliograph._common.functions import concatenate
from heliograph.ckks.keys import SecretKey
from heliograph.keys import Server
from heliograph.ml.costs import Counter

Array = npt.NDArray[Any]
Clock = Callable[[], float]
KIND, FORMAT = "heliograph.profile", 1
#: Operations of a profile. The last four are parts of a `LinearTransform`: its decomposition and division, each rotation of
#: a baby step, each giant step, and each product with a diagonal.
OPERATIONS = (
    "addition",
    "product",
    "constant_product",
    "rotation",
    "bootstrap",
    "base",
    "baby_step",
    "giant_step",
    "diagonal",
)
_FOLDER = Path(__file__).parent / "profiles"
_MOST_BYTES, _MOST_ROWS = 1 << 20, 10_000
#: Share of a bootstrap's time that does not fall with its products: between those of an H200 (0.27 for level 6 of n16-b13)
#: and of cores.
_CONSTANT_SHARE = 0.2
_MANY = 1 << 16  # ciphertexts of a call that keeps a device busy
_LONGEST_RUN, _MOST_RUNS = 0.5, 25  # seconds and runs of one measurement


@dataclass(frozen=True)
class Row:
    """One measurement.

    >>> Row("rotation", 64, 1, 10_000_000, 0.001).seconds
    0.001
    """

    operation: str
    word_size: int  #: bits of the words, 32 or 64
    batch: int  #: ciphertexts of one call
    work: int  #: modular products of one ciphertext; for `addition` the words of a ciphertext
    seconds: float  #: seconds of one ciphertext


@dataclass(frozen=True)
class Profile:
    """Measured seconds of operations on a device.

    >>> rows = (Row("rotation", 64, 1, 1000, 1e-3), Row("rotation", 64, 1, 4000, 4e-3), Row("rotation", 64, 8, 1000, 5e-4))
    >>> profile = Profile("small", "cpu: 2 threads", rows)
    >>> [round(profile.seconds("rotation", work, batch=batch), 5) for work, batch in ((2000, 1), (8000, 1), (1000, 9))]
    [0.002, 0.008, 0.0005]
    """

    name: str
    device: str  #: the device in words
    rows: tuple[Row, ...]

    def seconds(self, operation: str, work: int, *, word_size: int = 64, batch: int = 1) -> float:
        """Return the seconds of one ciphertext's operation of this work, in calls of `batch` ciphertexts. Numbers of
        ciphertexts between measured ones are interpolated.

        Raises ParameterError if the profile has no row of the operation and the word size.
        """
        rows = [row for row in self.rows if row.operation == operation and row.word_size == word_size]
        if not rows:
            known = ", ".join(sorted({f"{row.operation} ({row.word_size}-bit)" for row in self.rows})) or "none"
            raise _core.ParameterError(
                f"profile {self.name} has no measurement of {operation} with {word_size}-bit words, only {known}; measure "
                "one by: heliograph profile"
            )
        sizes = sorted({row.batch for row in rows})
        logs = [_at([row for row in rows if row.batch == size], work) for size in sizes]
        return float(np.exp(np.interp(math.log(batch), [math.log(size) for size in sizes], logs)))

    @property
    def memory(self) -> int | None:
        """Bytes of the memory of one device, or None if the description has none.

        >>> Profile("one", "cuda: NVIDIA H200, 140 GiB, 132 multiprocessors", ()).memory == 140 << 30
        True
        """
        found = re.search(r"(\d+) GiB", self.device)
        return int(found[1]) << 30 if found else None

    def rates(self, parameters: ckks.Parameters, key_level: int | None = None) -> Rates:
        """Return the seconds of the operations of one parameter set, with rotation keys for the top or for a level."""
        return Rates(self, Counter(parameters, key_level))

    # ---- files ----

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the profile as JSON."""
        data = {"kind": KIND, "format": FORMAT, "name": self.name, "device": self.device}
        rows = ",\n  ".join(json.dumps({**asdict(row), "seconds": float(f"{row.seconds:.4g}")}) for row in self.rows)
        head = json.dumps(data, indent=1)[:-2]
        Path(path).write_text(f'{head},\n "rows": [\n  {rows}\n ]\n}}\n', encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Profile:
        """Read a profile. Raises FormatError for another file, and OSError if it cannot be read."""
        path = Path(path)
        if path.stat().st_size > _MOST_BYTES:
            raise _damaged(path, f"it must have at most {_MOST_BYTES} bytes")
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise _damaged(path, "it is not JSON") from error
        if not isinstance(data, dict) or data.get("kind") != KIND or data.get("format") != FORMAT:
            raise _damaged(path, f"its kind and format must be {KIND} and {FORMAT}")
        if set(data) != {"kind", "format", "name", "device", "rows"} or not isinstance(data["rows"], list):
            raise _damaged(path, "its fields must be kind, format, name, device and rows")
        if not isinstance(data["name"], str) or not isinstance(data["device"], str) or len(data["rows"]) > _MOST_ROWS:
            raise _damaged(path, f"name and device must be texts, and rows at most {_MOST_ROWS}")
        return cls(data["name"], data["device"], tuple(_row(path, row) for row in data["rows"]))


def _at(rows: list[Row], work: int) -> float:
    """Return the logarithm of the seconds of an operation of this work, interpolated between measured ones."""
    points = sorted((math.log(row.work), math.log(row.seconds)) for row in rows)
    at = math.log(max(1, work))
    if at > points[-1][0]:
        return points[-1][1] + at - points[-1][0]
    return float(np.interp(at, [x for x, _ in points], [y for _, y in points]))


def _damaged(path: Path, reason: str) -> Exception:
    return _core.FormatError(f"{printable(path.name)} is not a cost profile: {reason}")


def _row(path: Path, data: Any) -> Row:
    """Return a row of a file, checked."""
    fields = {"operation", "word_size", "batch", "work", "seconds"}
    if not isinstance(data, dict) or set(data) != fields:
        raise _damaged(path, f"a row must have the fields {', '.join(sorted(fields))}")
    word_size, batch, work = data["word_size"], data["batch"], data["work"]
    if data["operation"] not in OPERATIONS or not all(type(n) is int and 0 < n < 1 << 62 for n in (word_size, batch, work)):
        raise _damaged(path, "a row must have a known operation and positive integers")
    seconds = data["seconds"]
    if type(seconds) not in (int, float) or not 0 < seconds < 1e6:
        raise _damaged(path, "seconds must be positive numbers")
    return Row(str(data["operation"]), word_size, batch, work, float(seconds))


@dataclass(frozen=True)
class Rates:
    """Seconds of operations of one parameter set, for one ciphertext of calls of `batch` ciphertexts.

    >>> import heliograph as hg
    >>> rates = profile_of("two-cores").rates(hg.ckks.parameters(depth=4, precision=22, slots=4096))
    >>> 0 < rates.rotation(2) < rates.rotation(5) < rates.transform(5, range(32), 8)
    True
    """

    profile: Profile
    counter: Counter

    def _seconds(self, operation: str, work: int, batch: int) -> float:
        word_size = int(self.counter.parameters.word_size)
        return self.profile.seconds(operation, work, word_size=word_size, batch=batch)

    def addition(self, level: int, batch: int = 1) -> float:
        """Return the seconds of a sum of two ciphertexts."""
        return self._seconds("addition", addition_work(self.counter, level), batch)

    def product(self, level: int, batch: int = 1) -> float:
        """Return the seconds of a product of two ciphertexts, relinearized and rescaled."""
        return self._seconds("product", self.counter.product(level).products, batch)

    def constant_product(self, level: int, batch: int = 1) -> float:
        """Return the seconds of a product with a number."""
        return self._seconds("constant_product", self.counter.constant_product(level).products, batch)

    def rotation(self, level: int, batch: int = 1) -> float:
        """Return the seconds of one rotation."""
        return self._seconds("rotation", self.counter.rotation(level).products, batch)

    def bootstrap(self, batch: int = 1, level: int | None = None) -> float:
        """Return the seconds of one bootstrap of real values to a level; by default to the top.

        A lower level takes less than the top in proportion to the products, but for the part that waits for memory.
        """
        whole = self.counter.bootstrap().products
        seconds = self._seconds("bootstrap", whole, batch)
        if level is None:
            return seconds
        share = self.counter.bootstrap(level).products / whole
        return seconds * (_CONSTANT_SHARE + (1 - _CONSTANT_SHARE) * share)

    def transform(self, level: int, numbers: Iterable[int], baby: int, batch: int = 1) -> float:
        """Return the seconds of a matrix on slots, given by the numbers of its diagonals (`Counter.transform`)."""
        places = set(numbers)
        babies = len({number % baby for number in places} - {0})
        giants = len({number // baby for number in places} - {0})
        return self.parts(level, len(places), babies, giants, batch)

    def parts(self, level: int, diagonals: int, babies: int, giants: int, batch: int = 1) -> float:
        """Return the seconds of a matrix on slots, by the numbers of its diagonals and of its baby and giant steps."""
        one = self.counter.transform_parts(level, (0, 1, 2, 3), 2)
        two = {"base": one["base"], "baby_step": one["baby_step"], "giant_step": one["giant_step"]}
        total = self._seconds("base", two["base"], batch)
        for name, count in (("baby_step", babies), ("giant_step", giants)):
            total += count * self._seconds(name, two[name], batch) if count else 0.0
        return total + diagonals * self._seconds("diagonal", one["diagonal"] // 4, batch)

    def transforms(self, level: int, diagonals: int) -> float:
        """Return the seconds of the number-theoretic transforms of a compact matrix, by the rate of rotations in a batch."""
        rotation = self.counter.rotation(level).products
        words = self.counter.plaintext_transforms(level)
        return diagonals * words / rotation * self._seconds("rotation", rotation, _MANY)


def addition_work(counter: Counter, level: int) -> int:
    """Return the words of a ciphertext, which the time of an addition follows."""
    return 2 * counter.limbs(level) * counter.n


# ---- profiles by name ----


def names() -> list[str]:
    """Return the names of the profiles that are part of the package."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def profile_of(target: str | os.PathLike[str] | Profile | None = None) -> Profile:
    """Return a profile by its name, by the path of its file, or for the device in use if the target is None.

    The device in use has the profile of its kind, by name. Raises ParameterError for an unknown name, and DtypeError for
    anything but a name, a path or a profile.

    >>> profile_of("two-cores").name
    'two-cores'
    """
    if isinstance(target, Profile):
        return target
    if target is None:
        target = _of_device(" ".join(_core.device.describe()))
    if not isinstance(target, (str, os.PathLike)):
        raise _core.DtypeError(
            f"a target must be the name of a cost profile ({', '.join(names())}), the path of a file of heliograph profile, "
            f"or a profile, not {described(target)}"
        )
    text = path_of(target)
    if re.fullmatch(r"[\w-]+", text):
        path = _FOLDER / f"{text}.json"
        if not path.is_file():
            raise _core.ParameterError(
                f"there is no profile {text!r}, only {', '.join(names())}; measure one on the target by: heliograph profile "
                f"--out {text}.json, and give its path"
            )
        return Profile.load(path)
    return Profile.load(text)


def _of_device(description: str) -> str:
    """Return the name of the profile of a device: by the model of the GPU, else that of two cores."""
    found = [name for name in names() if re.search(rf"\b{re.escape(name)}\b", description, re.I)]
    return found[0] if found else "two-cores"


# ---- measurement ----

#: Matrices that are measured: numbers of diagonals. Their baby steps are of 8 diagonals.
_MATRICES = ((0, 1), tuple(range(8)), (1, *range(8, 64, 8)), tuple(range(32)), tuple(range(64)))
_BABY = 8


@dataclass(frozen=True)
class Plan:
    """One parameter set to measure: arguments of `ckks.parameters`, and the levels."""

    arguments: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...]
    bootstrap: bool = False

    def parameters(self) -> ckks.Parameters:
        """Return the set."""
        return ckks.parameters(*self.arguments, **dict(self.options))


def plans(bootstrap: str | None, word_size: int) -> list[Plan]:
    """Return the sets to measure: small, middle and large ones, and a named one with bootstrapping."""
    words = ("word_size", word_size)
    sizes = ((3, 2048), (8, 8192), (14, 32768))
    made = [Plan((), (("depth", depth), ("precision", 22), ("slots", slots), words)) for depth, slots in sizes]
    if bootstrap:
        name = f"{bootstrap}/w32" if word_size == 32 and not bootstrap.endswith("/w32") else bootstrap
        made.append(Plan((name,), (), True))
    return made


def measure(
    name: str,
    *,
    bootstrap: str | None = "n16-b13",
    word_sizes: Iterable[int] = (64,),
    batches: Iterable[int] = (1, 16),
    processor_time: bool = False,
    report: Callable[[str], None] | None = None,
) -> Profile:
    """Measure the device in use. Return its profile.

    `bootstrap` names a set with bootstrapping; None leaves bootstraps out. `batches` are numbers of ciphertexts of one
    call. With `processor_time` the seconds are those of the process's threads together, divided by their number: use it on
    cores that other programs share. `report` gets a line for each set.

    Raises ParameterError on a device that computes nothing.
    """
    if _core.device.name() == "null":
        raise _core.ParameterError("the null device computes nothing; measure another device by HELIOGRAPH_DEVICE")
    rows: list[Row] = []
    if processor_time and _core.device.name() != "cpu":
        raise _core.ParameterError(f"processor time measures the device cpu only, not {_core.device.name()}")
    clock = functools.partial(_processor_seconds, _threads()) if processor_time else time.perf_counter
    counts = sorted(set(batches))
    if not counts or counts[0] < 1:
        raise _core.ParameterError(f"batches must be positive numbers of ciphertexts, got {counts}")
    for word_size in word_sizes:
        for plan in plans(bootstrap, word_size):
            parameters = plan.parameters()
            start = time.perf_counter()
            made = list(_measured_set(parameters, plan.bootstrap, counts, clock))
            rows += made
            if report is not None:
                report(f"{parameters!r}: {len(made)} measurements in {time.perf_counter() - start:.1f} s")
    device = "; ".join(re.sub(r", [\d.]+ \w+ of [\d.]+ \w+ free", "", line) for line in _core.device.describe())
    return Profile(name, f"{device}; processor time" if processor_time else device, tuple(rows))


def _threads() -> int:
    """Return the threads of the device `cpu`."""
    found = re.search(r"(\d+) threads?", " ".join(_core.device.describe()))
    return int(found[1]) if found else 1


def _processor_seconds(threads: int) -> float:
    return time.process_time() / threads


def _measured_set(parameters: ckks.Parameters, bootstrap: bool, batches: list[int], clock: Clock) -> Iterable[Row]:
    counter = Counter(parameters)
    rotations = sorted({*range(_BABY), *range(_BABY, 64, _BABY)} - {0})
    secret = SecretKey.generate(parameters)
    keys = secret.evaluation_keys(relinearize=True, rotations=rotations, **({"bootstrap": True} if bootstrap else {}))
    one = Server(keys).bind(secret.encrypt(np.zeros(parameters.slots)))
    levels = sorted({2, (2 + parameters.levels) // 2, parameters.levels})
    for level in levels:
        x = one.lower(level) if level < one.level else one
        for batch in batches:
            yield from _operations(counter, _several(x, batch), level, batch, clock)
            if batch == 1 or _core.device.name() != "cpu":  # a batch of matrices takes cores long and gains nothing
                yield from _transforms(counter, _several(x, batch), level, batch, clock)
        if batches[0] > 1 and _core.device.name() == "cpu":
            yield from _transforms(counter, x, level, 1, clock)
    if bootstrap:
        low = one.lower(parameters.bootstrapping_level).within((-1.0, 1.0))
        work = counter.bootstrap().products
        for batch in batches:
            several = _several(low, batch)
            seconds = _least(functools.partial(several.bootstrap, 1.0), clock) / batch
            yield Row("bootstrap", int(parameters.word_size), batch, work, seconds)


def _several(x: Any, batch: int) -> Any:
    """Return `batch` ciphertexts, each with its own memory."""
    flat = x.reshape(-1)[:1]
    return concatenate([flat] * batch) if batch > 1 else flat


def _operations(counter: Counter, x: Any, level: int, batch: int, clock: Clock) -> Iterable[Row]:
    calls: dict[str, tuple[Callable[[], Any], int]] = {
        "addition": (lambda: x + x, addition_work(counter, level)),
        "product": (lambda: x * x, counter.product(level).products),
        "constant_product": (lambda: x * 0.3, counter.constant_product(level).products),
        "rotation": (lambda: x.rotate(1), counter.rotation(level).products),
    }
    for operation, (call, work) in calls.items():
        yield Row(operation, int(counter.parameters.word_size), batch, work, _least(call, clock) / batch)


def _transforms(counter: Counter, x: Any, level: int, batch: int, clock: Clock) -> Iterable[Row]:
    """Measure matrices of few and many diagonals and steps on `batch` ciphertexts. Solve for the seconds of each part."""
    p = counter.parameters
    values = np.linspace(0.1, 1.0, p.slots)
    seconds, shares = [], []
    for numbers in _MATRICES:
        matrix = ckks.LinearTransform.from_diagonals(
            p, dict.fromkeys(numbers, values), level=level, baby=_BABY, compact=False
        )
        seconds.append(_least(functools.partial(matrix, x), clock) / batch)
        steps = len({n % _BABY for n in numbers} - {0}), len({n // _BABY for n in numbers} - {0})
        shares.append((1, *steps, len(numbers)))
        del matrix
    parts = not_negative(np.array(shares, np.float64), np.array(seconds))
    work = counter.transform_parts(level, (0, 1, _BABY, _BABY + 1), _BABY)
    sizes = (work["base"], work["baby_step"], work["giant_step"], work["diagonal"] // 4)
    for operation, part, size in zip(("base", "baby_step", "giant_step", "diagonal"), parts, sizes, strict=True):
        yield Row(operation, int(p.word_size), batch, size, max(float(part), 1e-7))


def not_negative(shares: Array, seconds: Array) -> Array:
    """Return the seconds of each part, none negative, whose sums are nearest to the measured ones, in relative error.

    `shares` [measurements, parts] has the number of each part in each measurement. All choices of parts that take no time
    are tried.
    """
    weights = 1 / seconds
    best, least = np.zeros(shares.shape[1]), math.inf
    for chosen in itertools.product((False, True), repeat=shares.shape[1]):
        columns = np.flatnonzero(chosen)
        parts = np.zeros(shares.shape[1])
        if len(columns):
            parts[columns] = np.linalg.lstsq(shares[:, columns] * weights[:, None], np.ones(len(seconds)), rcond=None)[0]
        error = float(np.sum((shares @ parts * weights - 1) ** 2))
        if np.all(parts >= 0) and error < least - 1e-12:
            best, least = parts, error
    return best


def _least(call: Callable[[], Any], clock: Clock) -> float:
    """Return the least seconds of a call, after one call that warms up."""
    call().wait()
    times: list[float] = []
    start = time.perf_counter()
    while len(times) < _MOST_RUNS and (not times or time.perf_counter() - start < _LONGEST_RUN):
        before = clock()
        call().wait()
        times.append(max(clock() - before, 1e-7))
    return min(times)
