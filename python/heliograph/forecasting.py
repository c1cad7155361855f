"""What a computation will take, before it is done: seconds and bytes."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._arrays import described, is_real, is_whole, readable_bytes
from heliograph._html import Rows, Shown
from heliograph.functions import relinearize
from heliograph.host import logger
from heliograph.recording import Program, operands_of, recording_now, recording_of, tensors_in

#: Seconds from which on a call is announced.
LONG = 60.0

_IN_CACHE = 1 << 21  # bytes that cost nothing besides
_LARGE = 1 << 25  # bytes of a result that lies in no cache
_MANY = 8  # bootstraps at once, at least
_ALIKE = (0.5, 4.0)  # what measured differs from predicted by, at most: more is a disturbance
_LONGEST, _FEWEST, _MOST = 0.2, 5, 25  # seconds to measure one operation, and how often


class HeliographWarning(UserWarning):
    """What Heliograph warns of by Python's `warnings`. Kinds of it say what."""


class LongCallWarning(HeliographWarning):
    """A call that has begun is forecast to take more than a minute. Silenced by
    ``warnings.simplefilter("ignore", hg.LongCallWarning)``, an exception by "error"; `hg.forecast` tells the seconds beforehand.
    """


#: Whether calls of this thread or task are announced: not those inside of one that was, nor those that measure rates.
_ANNOUNCES: ContextVar[bool] = ContextVar("heliograph.announces", default=True)


@contextmanager
def _unannounced() -> Iterator[None]:
    token = _ANNOUNCES.set(False)
    try:
        yield
    finally:
        _ANNOUNCES.reset(token)


@contextmanager
def announced(what: str, function: Callable[..., Any] | None, *operands: Any) -> Iterator[None]:
    """Inside, a call is made that may be long: ``function(*operands)`` makes it too, and None says that it is short. Warns first,
    LongCallWarning, if its forecast is above a minute. Calls inside are part of it.
    """
    if function is None or not _ANNOUNCES.get() or recording_now() is not None:
        yield
        return
    with _unannounced():
        seconds = forecast(function, *operands).seconds
        if seconds is not None and seconds > LONG:
            warnings.warn(
                f"{what} is forecast to take {_clock(seconds)} on this device. Interrupt it by Ctrl-C, watch it by progress=, ask hg.forecast "
                'first; warnings.simplefilter("ignore", hg.LongCallWarning) silences this',
                LongCallWarning,
                stacklevel=_outside(),
            )
        yield


def _clock(seconds: float) -> str:
    minutes = seconds / 60
    return (
        f"{seconds:,.0f} seconds"
        if minutes < 3
        else f"{minutes:,.0f} minutes"
        if minutes < 180
        else f"{minutes / 60:,.0f} hours"
    )


def _outside() -> int:
    """Frames up to the first one that is not of this package, as `warnings.warn` counts them from its caller."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and (frame.f_globals.get("__name__", "").split(".")[0] in ("heliograph", "contextlib")):
        level, frame = level + 1, frame.f_back
    return level


@dataclass(frozen=True)
class Forecast(Shown):
    """What a computation is expected to take on the device in use. Made by `hg.forecast`.

    >>> told = hg.forecast(lambda x: hg.relinearize(x * x) + 1, x)
    >>> told.calls["key_switch"], told.result_bytes == x.nbytes
    (1, True)
    """

    seconds: float | None  #: from measured rates; None where there are none (a device that only counts)
    floor: float  #: seconds that it cannot take less than by bytes and products; 0 for TFHE
    nbytes: int  #: memory that it makes at most at a time, its operands not counted
    result_bytes: int  #: of its results
    bytes_read: int
    bytes_written: int
    products: int  #: modular ones; of TFHE real ones
    depth: int  #: calls that must come one after another
    calls: dict[str, int]  #: of the engine, by kernel

    def _rows(self) -> Rows:
        floor = f", at least {_readable(self.floor)}" if self.floor else ""
        time_of = "unknown on this device" if self.seconds is None else f"about {_readable(self.seconds)}{floor}"
        names = ", ".join(f"{count} {name}" for name, count in sorted(self.calls.items(), key=lambda c: -c[1]))
        return [
            ("time", time_of),
            ("memory", f"at most {readable_bytes(self.nbytes)} at a time, {readable_bytes(self.result_bytes)} of results"),
            ("moves", f"reads {readable_bytes(self.bytes_read)}, writes {readable_bytes(self.bytes_written)}"),
            ("products", f"{self.products / 1e6:,.1f} M"),
            ("calls", f"{sum(self.calls.values())}, {self.depth} in a row: {names or 'nothing'}"),
        ]

    def __repr__(self) -> str:
        rows = dict(self._rows())
        return f"<forecast: {rows['time']}; {rows['memory']}; {rows['moves']}, {rows['products']} products; {rows['calls']} calls>"


@dataclass(frozen=True)
class Costs:
    """What one computation may take at most, by its forecast: of a `Server`. None: as much as it does.

    >>> careful = hg.Server(secret.evaluation_keys(), costs=hg.Costs(result_bytes=1 << 20))
    >>> careful.compute(lambda x: x + x, careful.bind(x)).shape
    (2,)
    """

    seconds: float | None = None  #: of the device to itself
    nbytes: int | None = None  #: memory made at a time
    result_bytes: int | None = None  #: of its results in memory

    def __post_init__(self) -> None:
        for name in ("seconds", "nbytes", "result_bytes"):
            given = getattr(self, name)
            wanted = "a number of seconds" if name == "seconds" else "a number of bytes"
            if given is None:
                continue
            if not (is_real(given) if name == "seconds" else is_whole(given)):
                raise _core.DtypeError(f"{name} is {wanted}, not {described(given)}")
            if not given >= 0:
                raise _core.ParameterError(f"{name} is {wanted}, from 0 on, not {described(given)}")

    def require(self, asked: Forecast) -> None:
        """Raises LimitError for a forecast that is beyond any of them, or of no known time where that has a limit.

        >>> told = hg.forecast(lambda x: x + x, x)
        >>> hg.Costs(result_bytes=1 << 20).require(told)  # within
        >>> hg.Costs(result_bytes=1 << 10).require(told)
        Traceback (most recent call last):
            ...
        heliograph.LimitError: its results would take 768.0 KiB; this server allows 1.0 KiB
        """
        for limit, take, words in (
            (self.result_bytes, asked.result_bytes, "its results"),
            (self.nbytes, asked.nbytes, "its memory"),
        ):
            if limit is not None and take > limit:
                raise _core.LimitError(
                    f"{words} would take {readable_bytes(take)}; this server allows {readable_bytes(limit)}"
                )
        if self.seconds is None:
            return
        if asked.seconds is None:
            raise _core.LimitError("cannot forecast seconds on this device, and this server has a limit of them")
        if asked.seconds > self.seconds:
            raise _core.LimitError(
                f"it would take about {_readable(asked.seconds)}; this server allows {_readable(self.seconds)}"
            )


def _readable(seconds: float) -> str:
    scale, unit = next(((s, u) for s, u in ((1.0, "s"), (1e3, "ms")) if seconds * s >= 1), (1e6, "us"))
    return f"{seconds * scale:.3g} {unit}"


def forecast(function: Callable[..., Any], *examples: Any) -> Forecast:
    """What ``function(*examples)`` will take: seconds, bytes, calls. Its Python runs, its work on ciphertexts is not done.

    `function` is as `hg.program` takes it (a `Program` too), of tensors of any scheme; what it takes from clear values (weights, encoded
    plaintexts) is made. A large computation is asked for without its memory by examples that repeat one ciphertext
    (``x.broadcast_to((1000,))``). The first forecast for a parameter set measures a few operations of it on the device, for some
    tenths of a second. docs/watching.md says how near the seconds come.

    Raises what the function raises for these operands, OutOfMemoryError where it would not fit, RecordingError where it cannot be
    recorded.

    >>> import heliograph as hg
    >>> secret = hg.SecretKey.generate(hg.bfv.parameters(depth=2, plain_bits=20))
    >>> x = hg.Server(secret.evaluation_keys()).bind(secret.encrypt([1, 2, 3], pad=True))
    >>> f = hg.forecast(lambda x: hg.relinearize(x * x) + 1, x.broadcast_to((100,)))
    >>> f.calls["key_switch"], f.seconds > f.floor > 0, f.result_bytes == 100 * x.nbytes
    (1, True, True)
    """
    given = list(tensors_in(examples))
    if not given:
        raise _core.DtypeError("a forecast is made with at least one ciphertext tensor")
    rates = rates_of(given)
    core, result_bytes = recorded(function, *examples)
    return Forecast(
        seconds=rates.seconds(core, sum(t.nbytes for t in given)),
        floor=float(core.times[0]),
        nbytes=int(core.peak_bytes),
        result_bytes=result_bytes,
        bytes_read=int(core.bytes_read),
        bytes_written=int(core.bytes_written),
        products=int(core.products),
        depth=int(core.depth),
        calls=dict(core.calls),
    )


def recorded(function: Callable[..., Any], *examples: Any) -> tuple[Any, int]:
    """The engine's program of a function that is followed and not performed, and the bytes of its results."""
    following: AbstractContextManager[Any] = nullcontext()
    if isinstance(function, Program):
        following = function._following(*examples)
        function = function.function
    if not callable(function):
        raise _core.DtypeError(f"a computation is a function of tensors, not {type(function).__name__}")
    operands = operands_of(examples)
    with recording_of(operands, dry=True) as recording:
        with following:
            value = function(*examples)
        results = list(tensors_in(value))
        if not results:
            raise _core.RecordingError(f"a forecast is of a function that returns tensors, not {type(value).__name__}")
        return recording.finish([t._core for t in results], []), sum(t.nbytes for t in results)


def _measured(function: Callable[..., Any], *operands: Any) -> float:
    """The least seconds of a call, after a first one that makes what it needs once: whatever disturbs only adds to it."""
    function(*operands).wait()
    times: list[float] = []
    start = time.perf_counter()
    while len(times) < _FEWEST or (time.perf_counter() - start < _LONGEST and len(times) < _MOST):
        before = time.perf_counter()
        function(*operands).wait()
        times.append(time.perf_counter() - before)
    return min(times)


@dataclass(frozen=True)
class _Ring:
    """Of BFV, BGV and CKKS: how a call's prediction by the engine's rates becomes a program's time."""

    factor: float = 1.0  # measured over predicted, of a product
    host: float = 0.0  # seconds of a call besides
    byte: float = 0.0  # seconds of a byte of operands, results and what is between that lies in no cache

    def seconds(self, core: Any, operand_bytes: int | None) -> float | None:
        """Of a program; without its operands' bytes, of a part of one."""
        predicted = float(core.times[1])
        if not predicted:
            return None if sum(core.calls.values()) else 0.0
        beyond = 0 if operand_bytes is None else max(0, operand_bytes + int(core.peak_bytes) - _IN_CACHE)
        calls: int = sum(core.calls.values())
        return self.factor * predicted + self.host * calls + self.byte * beyond


@dataclass(frozen=True)
class _Bootstraps:
    """Of TFHE: layers one after another, each of which takes no less than a bootstrap alone."""

    layer: float  # seconds of a call of one bootstrap
    product: float  # seconds of a real product, of many bootstraps at once

    def seconds(self, core: Any, operand_bytes: int | None) -> float | None:
        layers: int = core.calls.get("evaluate", 0)
        return max(layers * self.layer, int(core.products) * self.product)


_known: dict[tuple[str, str, bool], _Ring | _Bootstraps] = {}
_lock = threading.Lock()


def _bootstraps(x: Any) -> bool:
    """Whether what it computes is layers of bootstraps."""
    return hasattr(x.parameters, "parallel_bootstraps")


def rates_of(examples: list[Any]) -> _Ring | _Bootstraps:
    """Of the examples' parameters, measured at their first use. TFHE's where any of them is of it."""
    x = next((t for t in examples if _bootstraps(t)), examples[0])
    known = (x.parameters.scheme, x.parameters.hash, x._keys is not None)
    with _lock, _unannounced():
        if known not in _known:
            _known[known] = _bootstrap_rates(x) if _bootstraps(x) else _ring_rates(x)
            logger.debug("rates of %r: %s", x.parameters, _known[known])
        return _known[known]


def _ring_rates(x: Any) -> _Ring:
    if not x.size:
        return _Ring()
    one = x.reshape(-1)[:1]
    core, _ = recorded(lambda a: a + a, one)
    if not core.times[1]:
        return _Ring()
    host = max(0.0, _measured(lambda a: a + a, one) - core.times[1])
    repeated = one.broadcast_to((max(1, _LARGE // one.nbytes),))
    several = repeated + repeated
    core, size = recorded(lambda a: a + a, several)
    byte = max(0.0, _measured(lambda a: a + a, several) - core.times[1]) / (several.nbytes + size)
    del several
    rates = _Ring(1.0, host, byte)
    try:
        core, _ = recorded(_product, one)
        expected = rates.seconds(core, one.nbytes)
        factor = _measured(_product, one) / expected if expected else 1.0
    except _core.HeliographError:  # without keys, or on the lowest level: products are not asked for either
        return rates
    return _Ring(min(max(factor, _ALIKE[0]), _ALIKE[1]), host, byte)


def _product(one: Any) -> Any:
    return relinearize(one * one)


def _bootstrap_rates(x: Any) -> _Bootstraps:
    """By one gate of clear values, and by many: also where few fill the device, for those share what they read of the keys."""
    if x._keys is None:
        raise _core.MissingKeyError("a forecast of TFHE needs evaluation keys: load a tensor through a Server")
    clear = x._scheme.call("trivial")

    def gate_of(count: int) -> tuple[float, Any]:
        bits = np.arange(count, dtype=np.uint64) % 2  # one by one: what is broadcast is computed once
        operands = tuple(type(x)(clear(x._keys._core, b, "bool"), x._keys) for b in (bits, 1 - bits))
        return _measured(_gate, *operands), recorded(_gate, *operands)[0]

    layer, one = gate_of(1)
    together, many = gate_of(max(_MANY, int(x.parameters.parallel_bootstraps)))
    return _Bootstraps(layer / max(1, one.calls.get("evaluate", 0)), together / max(1, int(many.products)))


def _gate(a: Any, b: Any) -> Any:
    return a & b
