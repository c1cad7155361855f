"""Recorded programs: functions of ciphertext tensors, recorded once and replayed without Python."""

from __future__ import annotations

import inspect
import json
import logging
import threading
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn

from heliograph import _core
from heliograph._common.arguments import Buffer, described, is_whole, path_of, readable_bytes
from heliograph._common.exporters import export
from heliograph._common.html import HtmlRepr, Rows
from heliograph._common.json import DEEPEST, read_json, require_shallow
from heliograph._common.operations import composite
from heliograph._common.process import logger
from heliograph._common.schemes import SCHEMES, EngineObject
from heliograph._common.tensor import Tensor
from heliograph.programs.bootstraps import Bootstraps, Placement, bootstraps_of

_RECORDING: ContextVar[Any] = ContextVar("heliograph.recording", default=None)


_LIMITS: ContextVar[tuple[int, int | None]] = ContextVar("heliograph.program_limits", default=(0, None))


@contextmanager
def program_limits(*, memory: int | None = None, products: int | None = None) -> Iterator[None]:
    """Context manager: limits the costs of programs that are loaded inside, in this thread or asyncio task.

    The limits hold for `Program.load`, `Program.from_bytes` and the programs of model bundles. A program beyond a limit
    raises LimitError when it is loaded.

    - ``memory``: maximum bytes of the peak memory of one call and, separately, of the tables of the program's parameter
      sets. The default is the device's free memory for a call and 1 GiB for the tables.
    - ``products``: maximum modular products of one call. The default is 10^13, minutes to hours of one core.

    Raises ParameterError for limits that are no positive integers.

    >>> data = hg.program(lambda x: hg.relinearize(x * x), x).to_bytes()
    >>> with hg.program_limits(memory=1 << 20, products=10**6):
    ...     hg.Program.from_bytes(data)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    heliograph._core.LimitError: ...
    """
    for name, limit in (("memory", memory), ("products", products)):
        if limit is not None and not (is_whole(limit) and limit >= 1):
            raise _core.ParameterError(f"{name} must be an integer of at least 1, not {limit!r}")
    most = (1 << 63) - 1
    token = _LIMITS.set((min(int(memory or 0), most), None if products is None else min(int(products), most)))
    try:
        yield
    finally:
        _LIMITS.reset(token)


def recording_now() -> Any:
    """Returns the recording that receives calls of this thread, or None.

    Results of a recording must not be used outside the recording: a dry recording computes nothing.
    """
    return _RECORDING.get()


@contextmanager
def recording_of(operands: Any, dry: bool) -> Iterator[Any]:
    """Context that records the calls inside; with `dry` the calls are not computed."""
    recording = _core.program.Recording(operands, dry=dry)
    token = _RECORDING.set(recording)
    try:
        yield recording
    finally:
        _RECORDING.reset(token)
        recording.stop()


def _flat(value: Any, what: str) -> tuple[list[Any], Any]:
    """Returns the tensors in nested lists, tuples and dicts, and the structure of the nest for `_nested`.

    Raises DtypeError.
    """
    if isinstance(value, Tensor):
        return [value], type(value)
    if isinstance(value, (list, tuple)) and (not isinstance(value, tuple) or type(value) is tuple):
        parts = [_flat(v, what) for v in value]
        return [t for tensors, _ in parts for t in tensors], (type(value), tuple(nest for _, nest in parts))
    if isinstance(value, dict):
        names = sorted(value, key=repr)
        parts = [_flat(value[name], what) for name in names]
        return [t for tensors, _ in parts for t in tensors], (dict, tuple(names), tuple(nest for _, nest in parts))
    raise _core.DtypeError(
        f"{what} of a program must be ciphertext tensors, or lists, tuples and dicts of them, not {type(value).__name__}; "
        "take other values from the function's scope, by a closure or functools.partial"
    )


def _flat_results(value: Any) -> tuple[list[Any], Any]:
    """Same as `_flat` for results. Raises RecordingError for anything but tensors."""
    try:
        return _flat(value, "results")
    except _core.DtypeError as error:
        raise _core.RecordingError(str(error)) from None


def tensors_in(value: Any) -> list[Any]:
    """Returns the tensors in nested operands or results. Raises DtypeError for other values."""
    return _flat(value, "operands and results")[0]


def _operands(tensors: list[Any]) -> Any:
    return _core.program.Operands([t._core for t in tensors], [None if t._keys is None else t._keys._core for t in tensors])


def bare(operands: Any) -> Any:
    """Returns nested tensors without their guards, which are no part of a recording."""
    tensors, nest = _flat(operands, "operands")
    return _nested((t._wrap(t._bare()) for t in tensors), nest)


def operands_of(value: Any) -> Any:
    """Returns nested tensors as the engine's operands."""
    return _operands(tensors_in(value))


def _nested(tensors: Iterator[Any], nest: Any) -> Any:
    if isinstance(nest, type):
        return next(tensors)
    if nest[0] is dict:
        return {name: _nested(tensors, part) for name, part in zip(nest[1], nest[2], strict=True)}
    return nest[0](_nested(tensors, part) for part in nest[1])


def _kind(key: str) -> Any:
    """Returns the tensor class of a scheme by its key."""
    return EngineObject._classes[SCHEMES[key].core.Ciphertext]


def _described(nest: Any) -> Any:
    """Returns the structure of a nest for JSON. Raises RecordingError."""
    if isinstance(nest, type) and issubclass(nest, Tensor):
        return nest._scheme.key
    if nest[0] is not dict:
        return [nest[0].__name__, *map(_described, nest[1])]
    if not all(isinstance(name, str) for name in nest[1]):
        raise _core.RecordingError("cannot save this program: the keys of dicts of operands and results must be strings")
    return ["dict", list(nest[1]), *map(_described, nest[2])]


def _nest_of(described: Any) -> Any:
    """Reads the structure of a nest from JSON. Raises DamagedFileError."""
    if isinstance(described, str) and described in SCHEMES:
        return _kind(described)
    if isinstance(described, list) and described:
        if described[0] in ("list", "tuple"):
            return ({"list": list, "tuple": tuple}[described[0]], tuple(map(_nest_of, described[1:])))
        names = described[1] if len(described) > 1 and isinstance(described[1], list) else [None]
        if described[0] == "dict" and len(names) == len(described) - 2 and all(isinstance(name, str) for name in names):
            return (dict, tuple(names), tuple(map(_nest_of, described[2:])))
    raise _core.DamagedFileError("damaged program: its operands or results have an invalid structure")


def _kinds_in(nest: Any) -> list[type]:
    return [nest] if isinstance(nest, type) else [kind for part in nest[-1] for kind in _kinds_in(part)]


#: Maximum operand signatures of a program, for each of which it stores its results' noise, sizes and scales.
_FIGURES = 256


def _no_function(*_: Any) -> Any:
    raise _core.InternalError("a program from a file has no function")


@dataclass(frozen=True, eq=False)
class _Recorded:
    """The engine's program for operands of one signature, and the structure of its results."""

    core: Any
    shapes: Any  # properties of the operands, without noise, sizes and scales
    nest: Any  # structure of the results
    kinds: list[type]  # classes of the results
    keys: list[Any]  # for each result: the number of the operand whose keys the result has, or the keys, or None
    bootstraps: Placement | None  # placement of the recording's bootstraps

    def __call__(self, operands: Any, tensors: list[Any]) -> Any:
        results = [
            kind(core, tensors[owner]._keys if isinstance(owner, int) else owner)
            for kind, core, owner in zip(self.kinds, self.core(operands), self.keys, strict=True)
        ]
        return _nested(iter(results), self.nest)


def _times(floor: float, predicted: float) -> str:
    if not floor:
        return ""
    about = f", about {_readable_times([predicted])[0]} predicted" if predicted else ""
    return f"at least {_readable_times([floor])[0]} by bytes and products{about}; "


_SHOWN = 3  # events shown at either end of a member's timeline


def _readable_times(seconds: list[float]) -> list[str]:
    """Formats times in the unit of the longest."""
    most = max(seconds, default=0.0)
    scale, unit = next(((s, u) for s, u in ((1.0, "s"), (1e3, "ms")) if most * s >= 1), (1e6, "us"))
    return [f"{s * scale:.3g} {unit}" for s in seconds]


def _member_line(member: str, events: list[tuple[str, float, float]]) -> str:
    """Formats a device's timeline: its first and last calls, and the number of calls between."""
    busy = sum(end - start for _, start, end in events)
    if not events:
        return f"{member}: idle"

    def event_ranges(some: list[tuple[str, float, float]]) -> list[str]:
        return [
            f"{name} {start}-{end}"
            for name, start, end in zip(
                (e[0] for e in some),
                _numbers([e[1] for e in some], events),
                _numbers([e[2] for e in some], events),
                strict=True,
            )
        ]

    if len(events) <= 2 * _SHOWN + 1:
        parts = event_ranges(events)
    else:
        between = Counter(e[0] for e in events[_SHOWN:-_SHOWN])
        names = ", ".join(f"{count} {name}" for name, count in between.most_common())
        parts = [*event_ranges(events[:_SHOWN]), f"... {names} ...", *event_ranges(events[-_SHOWN:])]
    total, end = _readable_times([busy, events[-1][2]])
    return f"{member}: busy {total} until {end}: {', '.join(parts)}"


def _numbers(seconds: list[float], events: list[tuple[str, float, float]]) -> list[str]:
    """Formats times without a unit, in the unit of the last event's end."""
    return [text.split(" ")[0] for text in _readable_times([*seconds, events[-1][2]])[:-1]]


class Program(HtmlRepr):
    """A recorded function, made by `hg.program`. Calls take the function's arguments and return the same results, bit for
    bit.

    A program has one recording for each shape, level and parameter set of its operands. A call with other operands records
    again, at the cost of a plain call. At most `limit` recordings are stored; the least recently used one is dropped first.

    Operands of known shapes with other noise, sizes or scales run the function's Python once more, without computing. This
    additional run determines the noise, sizes and scales of the results. If the calls differ, they become another
    recording.

    >>> f = hg.program(lambda x: hg.relinearize(x * x) + 1, x)
    >>> secret.decrypt(f(x))
    array([[ 2,  5, 10, 17],
           [26, 37, 50, 65]])
    >>> f.recordings, f.replays
    (1, 1)
    """

    _label: str | None = None
    _loaded: tuple[Any, _Recorded] | None = None  #: for a program from a file: its operands' structure and its recording

    def __init__(self, function: Callable[..., Any], *, limit: int = 16, bootstrap: Any = False) -> None:
        if not callable(function):
            raise _core.DtypeError(f"a program is recorded from a function, not {type(function).__name__}")
        if not is_whole(limit):
            raise _core.DtypeError(f"limit must be an integer number of recordings, not {described(limit)}")
        if limit < 1:
            raise _core.ParameterError(f"limit must be at least 1 recording, not {described(limit)}")
        self._function = function
        self._limit = int(limit)
        self._bootstraps = bootstraps_of(bootstrap)
        self._plans: OrderedDict[Any, Any] = OrderedDict()  # plans of bootstraps by operand shapes
        self._recorded: OrderedDict[Any, _Recorded] = OrderedDict()  # recordings by operand signature
        self._calls: list[Any] = []  # the engine's program of each recording, the most recently used last
        self._dropped = 0
        self._lock = threading.Lock()

    @composite
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the function's results.

        Raises the function's errors for these operands. Raises RecordingError if the function reads a value (decrypts,
        saves), draws random numbers (encrypts) or returns anything but tensors.
        """
        tensors, nest = _flat((args, kwargs), "operands")
        if not tensors:
            raise _core.DtypeError("a program takes at least one ciphertext tensor, not none")
        operands = _operands(tensors)
        if self._loaded is not None:
            if nest != self._loaded[0]:
                raise _core.MismatchError(
                    "a program from a file takes operands with the structure and names of its recording; print(program) "
                    "shows it"
                )
            return self._loaded[1](operands, tensors)
        key = (nest, operands.signature)
        shapes = (nest, operands.shapes)
        with self._lock:
            recorded = self._recorded.get(key)
            if recorded is not None:
                self._use(key, recorded)
            dry = any(r.shapes == shapes for r in self._recorded.values()) if recorded is None else False
        if recorded is not None:
            return self._replayed(recorded, operands, tensors)
        plan = self._planned(shapes, nest, tensors)
        with recording_of(operands, dry) as recording:
            with nullcontext() if plan is None else plan.followed():
                value = self._performed(nest, tensors)
            with self._lock:
                recorded = self._finish(recording, value, shapes, tensors, plan)
                self._use(key, recorded)
        if not dry:
            return _nested((t._wrap(operands.guarded(t._core)) for t in _flat_results(value)[0]), recorded.nest)
        del value  # a dry result holds no data; free its memory for the replay
        return self._replayed(recorded, operands, tensors)

    def _performed(self, nest: Any, tensors: list[Any]) -> Any:
        """Calls the function on handles of the operands without guards, so that in-place operations do not change the
        caller's tensors, as in a replay.

        """
        own = {id(t): t._wrap(t._bare()) for t in tensors}
        args, options = _nested(iter([own[id(t)] for t in tensors]), nest)
        return self._function(*args, **options)

    def _planned(self, shapes: Any, nest: Any, tensors: list[Any]) -> Any:
        """Returns the plan of bootstraps for operands of these shapes; None without `bootstrap`."""
        if self._bootstraps is None:
            return None
        with self._lock:
            plan = self._plans.get(shapes)
        if plan is None:
            kind = next((type(t) for t in tensors if t._places), None)
            if kind is None:
                raise _core.ParameterError(
                    f"bootstraps are placed for CKKS only, and these operands are of {tensors[0]._scheme.title}; leave out "
                    "bootstrap="
                )
            plan = kind._planned(self._bootstraps, lambda: _flat_results(self._performed(nest, tensors))[0], tensors)
        with self._lock:
            self._plans[shapes] = plan
            self._plans.move_to_end(shapes)
            if len(self._plans) > self._limit:
                self._plans.popitem(last=False)
        return plan

    def _following(self, *args: Any) -> AbstractContextManager[Any]:
        """Context in which the function bootstraps as the program does for these operands, for `hg.forecast`."""
        tensors, nest = _flat((args, {}), "operands")
        plan = self._planned((nest, _operands(tensors).shapes), nest, tensors)
        return nullcontext() if plan is None else plan.followed()

    def _replayed(self, recorded: _Recorded, operands: Any, tensors: list[Any]) -> Any:
        if not logger.isEnabledFor(logging.DEBUG):
            return recorded(operands, tensors)
        before = recorded.core.graphs
        results = recorded(operands, tensors)
        if before == 0 < recorded.core.graphs:
            logger.debug("program %s: first replay as a graph", self._name)
        return results

    def _finish(self, recording: Any, value: Any, shapes: Any, tensors: list[Any], plan: Any) -> _Recorded:
        """Finishes a recording. Two recordings with equal calls share the calls."""
        results, nest = _flat_results(value)
        core = recording.finish([t._core for t in results], self._calls[::-1])
        owners = [t._keys for t in tensors]
        key_owners = [next((i for i, k in enumerate(owners) if k is not None and k is t._keys), t._keys) for t in results]
        placed = None if plan is None else plan.placement
        return _Recorded(core, shapes, nest, [type(t) for t in results], key_owners, placed)

    def _use(self, key: Any, recorded: _Recorded) -> None:
        """Stores a recording as the most recently used one, and drops the oldest recordings beyond the limits."""
        if key not in self._recorded and logger.isEnabledFor(logging.DEBUG):
            calls = sum(recorded.core.calls.values())
            is_known = any(c.shares_calls_with(recorded.core) for c in self._calls)
            logger.debug("program %s: %s %d calls", self._name, "other noise for known" if is_known else "recorded", calls)
        self._recorded[key] = recorded
        self._recorded.move_to_end(key)
        if len(self._recorded) > _FIGURES:
            self._recorded.popitem(last=False)
        if self._calls and self._calls[-1].shares_calls_with(recorded.core):
            return
        self._calls = [c for c in self._calls if not c.shares_calls_with(recorded.core)] + [recorded.core]
        if len(self._calls) <= self._limit:
            return
        gone = self._calls.pop(0)
        for old in [k for k, r in self._recorded.items() if r.core.shares_calls_with(gone)]:
            del self._recorded[old]
        self._dropped += 1
        logger.debug("program %s: dropped a recording of %d calls", self._name, sum(gone.calls.values()))
        if self._dropped == 1:
            warnings.warn(
                f"program {self._name} needs more than {self._limit} recordings, for operands of different shapes or "
                "levels: the least recently used ones are dropped and recorded again when needed; pass a larger limit to "
                "hg.program to store more",
                RuntimeWarning,
                stacklevel=3,
            )

    def to_bytes(self) -> bytes:
        """Returns the last used recording in the format of a file: its calls, constants and operands, without Python code.

        Raises RecordingError if nothing is recorded, if a result has keys that no operand has, or if operands share memory.

        >>> f = hg.program(lambda x: x + x, x)
        >>> type(f.to_bytes())
        <class 'bytes'>
        """
        core, note = self._saved()
        data: bytes = core.to_bytes(note)
        return data

    def __reduce__(self) -> NoReturn:
        raise _core.DtypeError(
            "cannot pickle a program: its function would be lost. Pickle program.to_bytes(), which hg.Program.from_bytes "
            "reads"
        )

    def save(self, path: Any) -> None:
        """Writes the last used recording to a file, atomically. Raises the errors of `to_bytes`, and OSError.

        >>> hg.program(lambda x: x + x, x).save("double.hgp")
        >>> secret.decrypt(hg.Program.load("double.hgp")(x))
        array([[ 2,  4,  6,  8],
               [10, 12, 14, 16]])
        """
        core, note = self._saved()
        core.save(path_of(path), note)

    def _last(self) -> tuple[Any, _Recorded]:
        """Returns the operands' structure and the last used recording. Raises RecordingError."""
        with self._lock:
            if self._loaded is not None:
                return self._loaded
            if self._recorded:
                (operands, _), last = next(reversed(self._recorded.items()))
                return operands, last
        raise _core.RecordingError("nothing is recorded yet: call the program with operands first")

    def _last_recording(self) -> tuple[Any, int]:
        """Returns the engine's program of the last used recording, and its number of results. Raises RecordingError."""
        _, last = self._last()
        return last.core, len(last.kinds)

    def _operand_names(self) -> list[str]:
        """Returns a name for each operand of the last used recording: the function's parameters if their count agrees."""
        operands, _ = self._last()
        count = len(_kinds_in(operands))
        names: list[str] = []
        if self._loaded is None:
            try:
                names = list(inspect.signature(self._function).parameters)
            except (TypeError, ValueError):
                names = []
        return names if len(names) == count else [f"x{i}" for i in range(count)]

    def _saved(self) -> tuple[Any, str]:
        operands, last = self._last()
        if not all(owner is None or isinstance(owner, int) for owner in last.keys):
            raise _core.RecordingError(
                "cannot save this program: the keys of each result must be those of an operand; bind results to no other "
                "keys"
            )
        note = {"name": self._name, "operands": _described(operands), "results": _described(last.nest), "keys": last.keys}
        if last.bootstraps is not None:
            note["bootstraps"] = last.bootstraps.to_dict()
        try:
            require_shallow(note)
        except ValueError:
            raise _core.RecordingError(
                f"cannot save this program: operands and results must be nested at most {DEEPEST} deep"
            ) from None
        return last.core, json.dumps(note)

    def export(self, path: Any, *, name: str | None = None, version: str = "1", title: str = "", labels: Any = None) -> Any:
        """Writes the last used recording as a model bundle (`hg.ModelBundle`) and returns that model.

        Clients of the model need neither the function nor its data. The recording must take freshly encrypted operands of
        one key; a run checks this. `name` is the model's name in a service, by default the file's name; `labels` are the
        labels of scores.

        Raises RecordingError as `to_bytes`, and for a program from a file; ParameterError for operands that are not freshly
        encrypted; OSError.

        >>> f = hg.program(lambda x: hg.relinearize(x * x) + 1, x)
        >>> model = f.export("square.hgm", title="squares")
        >>> model.inputs[0].shape, model.needs
        ((2, 4), {'relinearize': True})
        >>> answer = model.run(hg.Server(model.keys(secret)), model.encrypt(secret, np.arange(8).reshape(2, 4)))
        >>> model.decrypt(secret, answer)
        array([[ 1,  2,  5, 10],
               [17, 26, 37, 50]])
        """
        return export("program", self, path, name=name, version=version, title=title, labels=labels)

    @staticmethod
    def load(path: Any) -> Program:
        """Reads a program from a file, for the device in use.

        A loaded program has no function. The program takes operands of any owner with the parameters, shapes, levels and
        scales of its recording, and with at most the recorded noise and magnitudes. Other operands raise MismatchError. The
        noise of its results is stated by the file and not proven by this process.

        The program is verified completely before anything is prepared, allocated or run. A loaded program reads only its
        operands, keys and constants, exposes no memory that it did not write, and stays within `hg.program_limits`. A loaded
        program runs only the engine's kernels.

        Raises FormatError and its subclasses, LimitError, OutOfMemoryError.

        >>> hg.program(lambda x: hg.relinearize(x * x) + 1, x).save("square.hgp")
        >>> secret.decrypt(hg.Program.load("square.hgp")(x))
        array([[ 2,  5, 10, 17],
               [26, 37, 50, 65]])
        """
        return Program._of(*_core.program.load(path_of(path), *_LIMITS.get()))

    @staticmethod
    def from_bytes(data: Buffer) -> Program:
        """Reads a program from the bytes of `to_bytes`. Raises the errors of `load`.

        >>> data = hg.program(lambda x: x + x, x).to_bytes()
        >>> secret.decrypt(hg.Program.from_bytes(data)(x))
        array([[ 2,  4,  6,  8],
               [10, 12, 14, 16]])
        """
        return Program._of(*_core.program.from_bytes(data, *_LIMITS.get()))

    @staticmethod
    def _of(core: Any, note: str) -> Program:
        try:
            description = read_json(note)
            name, keys = description["name"], description["keys"]
            operands, nest = _nest_of(description["operands"]), _nest_of(description["results"])
            placed = Placement.of(description["bootstraps"]) if "bootstraps" in description else None
        except (ValueError, TypeError, KeyError):
            raise _core.DamagedFileError("damaged program: the description of its operands and results is invalid") from None
        operand_count = len(_kinds_in(operands))
        kinds = _kinds_in(nest)
        has_valid_keys = isinstance(keys, list) and all(
            k is None or (type(k) is int and 0 <= k < operand_count) for k in keys
        )
        if (
            not has_valid_keys
            or len(keys) != len(kinds)
            or [_kind(k) for k in core.result_kinds] != kinds
            or not isinstance(name, str)
        ):
            raise _core.DamagedFileError("damaged program: the description of its results does not fit its calls")
        program = Program(_no_function)
        program._loaded = (operands, _Recorded(core, None, nest, kinds, keys, placed))
        program._calls = [core]
        program._label = name
        return program

    @property
    def _name(self) -> str:
        if self._label is not None:
            return self._label

        return str(getattr(self._function, "__name__", type(self._function).__name__))

    @property
    def function(self) -> Callable[..., Any]:
        """The recorded function. Raises RecordingError for a program from a file."""
        if self._loaded is not None:
            raise _core.RecordingError("a program from a file has no function; print(program) shows its operands")
        return self._function

    @property
    def bootstraps(self) -> Placement | None:
        """Placement of bootstraps of the last used recording, with predicted times; None without `bootstrap`."""
        with self._lock:
            last = self._loaded[1] if self._loaded else next(reversed(self._recorded.values()), None)
        return None if last is None else last.bootstraps

    @property
    def recordings(self) -> int:
        """Number of stored recordings with different calls."""
        return len(self._calls)

    @property
    def replays(self) -> int:
        """Number of calls that replayed a stored recording."""
        return sum(int(core.replays) for core in list(self._calls))

    def __repr__(self) -> str:
        head = f"<program {self._name}: {self.recordings} of at most {self._limit} recordings"
        placed = [] if self.bootstraps is None else [repr(self.bootstraps)[1:-1].replace("\n", "\n  ")]
        return "\n  ".join([head, *self._lines(), *placed]) + ">"

    def _rows(self) -> Rows:
        placed = [] if self.bootstraps is None else self.bootstraps._rows()
        return [("function", self._name), *((f"recording {i + 1}", line) for i, line in enumerate(self._lines())), *placed]

    def _lines(self) -> list[str]:
        """Describes each recording in a line, followed by the timelines of its devices."""
        lines = []
        for core in list(self._calls):
            calls = core.calls
            names = ", ".join(f"{count} {name}" for name, count in sorted(calls.items(), key=lambda c: -c[1]))
            together = f", {core.launches} when merged" if core.launches else ""
            lines.append(
                f"{sum(calls.values())} calls, depth {core.depth}{together}: {names or 'nothing'}; "
                f"peak memory {readable_bytes(core.peak_bytes)}, {readable_bytes(core.constant_bytes)} of constants; "
                f"reads {readable_bytes(core.bytes_read)}, writes {readable_bytes(core.bytes_written)}, "
                f"{core.products / 1e6:,.1f} M products; {_times(*core.times)}replayed {core.replays} times, {core.graphs} "
                "of them as a graph"
            )
            lines += [f"  {_member_line(member, events)}" for member, events in core.timeline]
            if core.cycles:
                lines.append(f"last replay: {core.cycles}")
        return lines


def program(function: Callable[..., Any], *examples: Any, limit: int = 16, bootstrap: bool | Bootstraps = False) -> Program:
    """Records a function of ciphertext tensors, of any scheme, so that later calls run no Python and less host work.

    Returns a `Program`, which is called like the function and returns the same bits. `examples` are operands to record now;
    without them the first call records. Calls with other shapes, levels or noise record again, up to `limit` recordings.
    `program` can be used as a decorator.

    Plaintexts, weights and other tensors of the function's scope are stored with their values at recording time. Operands,
    their keys and results are not stored.

    With `bootstrap` (True, or `hg.ckks.Bootstraps` with a bound on values), a function of CKKS tensors need not count
    levels. For each recording, a search places bootstraps and chooses the level of each operation for the smallest predicted
    time; it merges bootstraps into one call if that is cheaper. Results are at `Parameters.bootstrapping_level` or above.
    `Program.bootstraps` shows the placement.

    Raises DtypeError, ParameterError. With `bootstrap`, recording raises ParameterError for other schemes and for sets
    without bootstrapping. Recording raises MissingKeyError if bootstrapping keys are missing, and LevelError for an
    operation that takes more levels than a bootstrap leaves.

    >>> f = hg.program(lambda x: hg.relinearize(x * x) + 1, x)
    >>> secret.decrypt(f(x))
    array([[ 2,  5, 10, 17],
           [26, 37, 50, 65]])
    """
    recorded = Program(function, limit=limit, bootstrap=bootstrap)
    if examples:
        recorded(*examples)
    return recorded
