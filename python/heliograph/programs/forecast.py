"""Forecasts of a computation's time and memory."""

from __future__ import annotations

import re
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
from heliograph._common.arguments import described, is_real, is_whole, readable_bytes
from heliograph._common.functions import relinearize
from heliograph._common.html import HtmlRepr, Rows
from heliograph._common.process import logger
from heliograph.programs.program import Program, bare, operands_of, recording_now, recording_of, tensors_in

#: Forecast seconds above which a call warns.
LONG = 60.0

_IN_CACHE = 1 << 21  # bytes that caches hold, which cost no memory traffic
_LARGE = 1 << 25  # bytes of a result that exceeds caches
_EXPOSED = 0.5  # share of the reads of keys and plaintexts that does not overlap with products, as measured on two cores
_MANY = 8  # minimum simultaneous bootstraps of a measurement
_PLAUSIBLE_RATIOS = (0.1, 4.0)  # range of measured over predicted time: other load disturbs both measurements
_WAITING = 1.5  # seconds of a call over processor seconds of all threads, from which the threads lacked cores
_LONGEST, _FEWEST, _MOST = 0.2, 5, 25  # seconds, minimum and maximum runs of a measurement


class HeliographWarning(UserWarning):
    """The base class of all warnings of Heliograph."""


class LongCallWarning(HeliographWarning):
    """A call that has started is forecast to take more than a minute.

    ``warnings.simplefilter("ignore", hg.LongCallWarning)`` silences this warning, "error" makes it an exception.
    `hg.forecast` predicts the seconds before a call.
    """


#: Whether calls of this thread or task emit warnings. Calls inside another call, and measurements, emit no warnings.
_ANNOUNCES: ContextVar[bool] = ContextVar("heliograph.announces", default=True)


@contextmanager
def unannounced() -> Iterator[None]:
    """Context in which calls are not forecast and emit no warnings."""
    token = _ANNOUNCES.set(False)
    try:
        yield
    finally:
        _ANNOUNCES.reset(token)


@contextmanager
def announced(what: str, function: Callable[..., Any] | None, *operands: Any) -> Iterator[None]:
    """Context of a possibly long call, which ``function(*operands)`` repeats. Emits a LongCallWarning before the call, if
    the call is forecast to take more than a minute. `function` is None for a short call. Calls inside this context emit no
    warnings.

    """
    if function is None or not _ANNOUNCES.get() or recording_now() is not None:
        yield
        return
    with unannounced():
        seconds = forecast(function, *operands).seconds
        if seconds is not None and seconds > LONG:
            warnings.warn(
                f"{what} is forecast to take {_clock(seconds)} on this device. Interrupt it with Ctrl-C, follow it with "
                "progress=, or call "
                'hg.forecast before; warnings.simplefilter("ignore", hg.LongCallWarning) silences this warning',
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
    """Returns the stack level of the first caller outside this package, for `warnings.warn`."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and (frame.f_globals.get("__name__", "").split(".")[0] in ("heliograph", "contextlib")):
        level, frame = level + 1, frame.f_back
    return level


@dataclass(frozen=True)
class Forecast(HtmlRepr):
    """The predicted costs of a computation on the device in use, made by `hg.forecast`.

    >>> told = hg.forecast(lambda x: hg.relinearize(x * x) + 1, x)
    >>> told.calls["key_switch"], told.result_bytes == x.nbytes
    (1, True)
    """

    seconds: float | None  #: predicted by measured rates; None on a device that only counts
    floor: float  #: lower bound in seconds, by bytes and products; 0 for TFHE
    nbytes: int  #: peak memory in bytes, without the operands
    result_bytes: int  #: memory of the results, in bytes
    bytes_read: int  #: bytes read by the kernels
    bytes_written: int  #: bytes written by the kernels
    products: int  #: number of modular products; for TFHE, of real products
    depth: int  #: length of the longest chain of dependent calls
    calls: dict[str, int]  #: number of the engine's calls, by kernel

    def _rows(self) -> Rows:
        floor = f", at least {_readable(self.floor)}" if self.floor else ""
        time_of = "unknown on this device" if self.seconds is None else f"about {_readable(self.seconds)}{floor}"
        names = ", ".join(f"{count} {name}" for name, count in sorted(self.calls.items(), key=lambda c: -c[1]))
        return [
            ("time", time_of),
            ("memory", f"peak {readable_bytes(self.nbytes)}, {readable_bytes(self.result_bytes)} of results"),
            ("moves", f"reads {readable_bytes(self.bytes_read)}, writes {readable_bytes(self.bytes_written)}"),
            ("products", f"{self.products / 1e6:,.1f} M"),
            ("calls", f"{sum(self.calls.values())}, depth {self.depth}: {names or 'nothing'}"),
        ]

    def __repr__(self) -> str:
        rows = dict(self._rows())
        work = f"{rows['moves']}, {rows['products']} products; calls {rows['calls']}"
        return f"<forecast: {rows['time']}; {rows['memory']}; {work}>"


@dataclass(frozen=True)
class Costs:
    """Maximum costs of one computation at a `Server`, by its forecast. None means no maximum. Raises DtypeError,
    ParameterError.

    >>> careful = hg.Server(secret.evaluation_keys(), costs=hg.Costs(result_bytes=1 << 20))
    >>> careful.compute(lambda x: x + x, careful.bind(x)).shape
    (2,)
    """

    seconds: float | None = None  #: seconds on a device without other work
    nbytes: int | None = None  #: peak memory in bytes, without the operands
    result_bytes: int | None = None  #: memory of the results, in bytes

    def __post_init__(self) -> None:
        for name in ("seconds", "nbytes", "result_bytes"):
            limit = getattr(self, name)
            allowed = "a number of seconds" if name == "seconds" else "a number of bytes"
            if limit is None:
                continue
            if not (is_real(limit) if name == "seconds" else is_whole(limit)):
                raise _core.DtypeError(f"{name} must be {allowed}, not {described(limit)}")
            if not limit >= 0:
                raise _core.ParameterError(f"{name} must be {allowed} of at least 0, not {described(limit)}")

    def _require_call(self, function: Callable[..., Any], *operands: Any) -> None:
        """Raises LimitError for a call whose forecast is beyond a maximum (`require`)."""
        self.require(forecast(function, *operands))

    def require(self, expected: Forecast, owner: str = "this server") -> None:
        """Raises LimitError for a forecast beyond a maximum, or for a forecast without a time if the time has a maximum.

        `owner` is the one who allows the costs, for the error.

        >>> told = hg.forecast(lambda x: x + x, x)
        >>> hg.Costs(result_bytes=1 << 20).require(told)  # within
        >>> hg.Costs(result_bytes=1 << 10).require(told)
        Traceback (most recent call last):
            ...
        heliograph.LimitError: its results would take 768.0 KiB; this server allows 1.0 KiB
        """
        for limit, take, words in (
            (self.result_bytes, expected.result_bytes, "its results"),
            (self.nbytes, expected.nbytes, "its memory"),
        ):
            if limit is not None and take > limit:
                raise _core.LimitError(f"{words} would take {readable_bytes(take)}; {owner} allows {readable_bytes(limit)}")
        if self.seconds is None:
            return
        if expected.seconds is None:
            raise _core.LimitError(
                f"cannot check the limit of seconds of {owner}: this device has no rates to forecast time; leave out "
                "Costs(seconds=)"
            )
        if expected.seconds > self.seconds:
            raise _core.LimitError(
                f"it would take about {_readable(expected.seconds)}; {owner} allows {_readable(self.seconds)}"
            )


def _readable(seconds: float) -> str:
    scale, unit = next(((s, u) for s, u in ((1.0, "s"), (1e3, "ms")) if seconds * s >= 1), (1e6, "us"))
    return f"{seconds * scale:.3g} {unit}"


def forecast(function: Callable[..., Any], *examples: Any) -> Forecast:
    """Predicts the time, memory and calls of ``function(*examples)`` without computing on ciphertexts.

    `function` is a function of tensors of any scheme, as for `hg.program`, or a `Program`. The function's Python runs, and
    clear values such as weights and plaintexts are encoded. To forecast a large computation without its memory, pass
    examples that repeat one ciphertext (``x.broadcast_to((1000,))``).

    The first forecast for a parameter set measures a few operations on the device, for some tenths of a second.
    docs/watching.md states the accuracy of the seconds.

    Raises DtypeError, the function's errors for these operands, OutOfMemoryError if the computation would not fit, and
    RecordingError if it cannot be recorded.

    >>> import heliograph as hg
    >>> secret = hg.SecretKey.generate(hg.bfv.parameters(depth=2, plain_bits=20))
    >>> x = hg.Server(secret.evaluation_keys()).bind(secret.encrypt([1, 2, 3], pad=True))
    >>> f = hg.forecast(lambda x: hg.relinearize(x * x) + 1, x.broadcast_to((100,)))
    >>> f.calls["key_switch"], f.seconds > f.floor > 0, f.result_bytes == 100 * x.nbytes
    (1, True, True)
    """
    tensors = list(tensors_in(examples))
    if not tensors:
        raise _core.DtypeError("forecast takes at least one ciphertext tensor as an example, not none")
    rates = rates_of(tensors)
    core, result_bytes = recorded(function, *examples)
    return Forecast(
        seconds=rates.seconds(core, sum(t.nbytes for t in tensors)),
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
    """Records a function without computing on ciphertexts. Returns the engine's program and the bytes of the results."""
    following: AbstractContextManager[Any] = nullcontext()
    if isinstance(function, Program):
        following = function._following(*examples)
        function = function.function
    if not callable(function):
        raise _core.DtypeError(f"forecast takes a function of tensors, not {type(function).__name__}")
    operands = operands_of(examples)
    with recording_of(operands, dry=True) as recording:
        with following:
            value = function(*bare(examples))
        results = list(tensors_in(value))
        if not results:
            raise _core.RecordingError(f"forecast takes a function that returns tensors, not {type(value).__name__}")
        return recording.finish([t._core for t in results], []), sum(t.nbytes for t in results)


def measured(function: Callable[..., Any], *operands: Any) -> float:
    """Returns the minimum seconds of a call, after one warm-up call. The minimum is least affected by other load.

    On CPU threads that were mostly without a core, the seconds are those of all threads together, divided by their number.
    """
    function(*operands).wait()
    times: list[float] = []
    used: list[float] = []
    start = time.perf_counter()
    while len(times) < _FEWEST or (time.perf_counter() - start < _LONGEST and len(times) < _MOST):
        before, processor = time.perf_counter(), time.process_time()
        function(*operands).wait()
        times.append(time.perf_counter() - before)
        used.append(time.process_time() - processor)
    found = re.search(r"^cpu: (\d+) thread", " ".join(_core.device.describe()))
    if found is not None and min(times) > _WAITING * min(used):
        return min(used) / int(found[1])
    return min(times)


@dataclass(frozen=True)
class _Ring:
    """Rates of BFV, BGV and CKKS, which correct the engine's prediction of a program's time."""

    factor: float = 1.0  # measured over predicted time of a product
    call_seconds: float = 0.0  # additional seconds of a call
    byte: float = 0.0  # additional seconds of a byte of memory beyond caches

    key_bytes: int = 0  # bytes of one key

    def seconds(self, core: Any, operand_bytes: int | None) -> float | None:
        """Returns the predicted seconds of a program, or of a part of a program, whose operands cost no memory traffic.
        Returns None if there are no rates.

        Keys and plaintexts, which a program reads once, are beyond caches if they are large.
        """
        predicted = float(core.times[1])
        if not predicted:
            return None if sum(core.calls.values()) else 0.0
        beyond: float = 0 if operand_bytes is None else max(0, operand_bytes + int(core.peak_bytes) - _IN_CACHE)
        if operand_bytes is not None:
            constants = core.constant_bytes + len(core.key_numbers) * self.key_bytes
            beyond += _EXPOSED * max(0, min(constants, int(core.bytes_read)) - _IN_CACHE)
        calls: int = sum(core.calls.values())
        return self.factor * predicted + self.call_seconds * calls + self.byte * beyond


@dataclass(frozen=True)
class _Bootstraps:
    """Rates of TFHE: layers run one after another, and each takes at least the time of one bootstrap."""

    layer: float  # seconds of a call with one bootstrap
    product: float  # seconds of a real product in a call with many bootstraps

    def seconds(self, core: Any, operand_bytes: int | None) -> float | None:
        layers: int = core.calls.get("evaluate", 0)
        return max(layers * self.layer, int(core.products) * self.product)


_RATES: dict[tuple[str, str, bool], _Ring | _Bootstraps] = {}
_lock = threading.Lock()


def _bootstraps(x: Any) -> bool:
    """Tells whether a tensor's operations are layers of bootstraps."""
    return hasattr(x.parameters, "parallel_bootstraps")


def rates_of(examples: list[Any]) -> _Ring | _Bootstraps:
    """Returns the rates of the examples' parameters, measured at first use; those of TFHE if any example is of TFHE."""
    x = next((t for t in examples if _bootstraps(t)), examples[0])
    key = (x.parameters.scheme, x.parameters.hash, x._keys is not None)
    with _lock, unannounced():
        if key not in _RATES:
            _RATES[key] = _bootstrap_rates(x) if _bootstraps(x) else _ring_rates(x)
            logger.debug("rates of %r: %s", x.parameters, _RATES[key])
        return _RATES[key]


def _ring_rates(x: Any) -> _Ring:
    if not x.size:
        return _Ring()
    one = x.reshape(-1)[:1]
    core, _ = recorded(lambda a: a + a, one)
    if not core.times[1]:
        return _Ring()
    host_seconds = max(0.0, measured(lambda a: a + a, one) - core.times[1])
    repeated = one.broadcast_to((max(1, _LARGE // one.nbytes),))
    several = repeated + repeated
    core, size = recorded(lambda a: a + a, several)
    byte = max(0.0, measured(lambda a: a + a, several) - core.times[1]) / (several.nbytes + size)
    del several
    key_bytes = int(getattr(x.parameters, "switch_key_bytes", 0))
    rates = _Ring(1.0, host_seconds, byte, key_bytes)
    try:
        core, _ = recorded(_product, one)
        expected = rates.seconds(core, one.nbytes)
        factor = measured(_product, one) / expected if expected else 1.0
    except _core.HeliographError:  # no keys or no level left: the forecast has no products either
        return rates
    return _Ring(min(max(factor, _PLAUSIBLE_RATIOS[0]), _PLAUSIBLE_RATIOS[1]), host_seconds, byte, key_bytes)


def _product(one: Any) -> Any:
    return relinearize(one * one)


def _bootstrap_rates(x: Any) -> _Bootstraps:
    """Measures one gate on clear values, and at least `_MANY` gates at once, which share reads of the keys."""
    if x._keys is None:
        raise _core.MissingKeyError("a forecast of TFHE needs evaluation keys: load a tensor through a Server")
    trivial = x._scheme.core.trivial

    def gate_of(count: int) -> tuple[float, Any]:
        bits = np.arange(count, dtype=np.uint64) % 2  # separate elements: a broadcast element would be computed only once
        operands = tuple(type(x)(trivial(x._keys._core, b, "bool"), x._keys) for b in (bits, 1 - bits))
        return measured(_gate, *operands), recorded(_gate, *operands)[0]

    layer, one = gate_of(1)
    together, many = gate_of(max(_MANY, int(x.parameters.parallel_bootstraps)))
    return _Bootstraps(layer / max(1, one.calls.get("evaluate", 0)), together / max(1, int(many.products)))


def _gate(a: Any, b: Any) -> Any:
    return a & b
