"""Recorded programs: a function of ciphertext tensors, recorded once, replayed without its Python."""

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
from heliograph._arrays import Buffer, is_whole, path_of, readable_bytes
from heliograph._html import Rows, Shown
from heliograph._json import DEEPEST, read_json, require_shallow
from heliograph._schemes import SCHEMES, Faced
from heliograph._sealing import seal
from heliograph._shapes import Tensor
from heliograph.host import logger
from heliograph.placement import Bootstraps, Placement, bootstraps_of

_RECORDING: ContextVar[Any] = ContextVar("heliograph.recording", default=None)


_LIMITS: ContextVar[tuple[int, int | None]] = ContextVar("heliograph.program_limits", default=(0, None))


@contextmanager
def program_limits(*, memory: int | None = None, products: int | None = None) -> Iterator[None]:
    """Limits on what the programs that are loaded inside may take; of this thread or task alone. It holds for `Program.load`,
    `Program.from_bytes` and for the programs of sealed models.

    ``memory``: a limit in bytes, for the peak memory of one call and, separately, for the tables of the program's parameter sets.
    Default: the free memory of the device for a call, 1 GiB for the tables. ``products``: modular products that one call may make. Default: 10^13,
    minutes to hours of one core. A program that takes more is refused with LimitError while it is loaded.

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
            raise _core.ParameterError(f"{name}= must be an integer of at least 1, not {limit!r}")
    most = (1 << 63) - 1
    token = _LIMITS.set((min(int(memory or 0), most), None if products is None else min(int(products), most)))
    try:
        yield
    finally:
        _LIMITS.reset(token)


def recording_now() -> Any:
    """The recording that calls of this thread go to, or None. What was computed in one is not to be used outside it: nothing may have
    been done.
    """
    return _RECORDING.get()


@contextmanager
def recording_of(operands: Any, dry: bool) -> Iterator[Any]:
    """A recording of what is computed inside, with `dry` without its work."""
    recording = _core.Recording(operands, dry=dry)
    token = _RECORDING.set(recording)
    try:
        yield recording
    finally:
        _RECORDING.reset(token)
        recording.stop()


def _flat(value: Any, what: str) -> tuple[list[Any], Any]:
    """The tensors in nested lists, tuples and dicts, and a description of the nest that `_nested` takes."""
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
        f"{what} of a program are ciphertext tensors, or lists, tuples and dicts of them, not {type(value).__name__}; "
        "what else the function needs it takes from where it is defined"
    )


def _flat_results(value: Any) -> tuple[list[Any], Any]:
    """As `_flat`. Raises RecordingError for what is no tensor."""
    try:
        return _flat(value, "results")
    except _core.DtypeError as error:
        raise _core.RecordingError(str(error)) from None


def tensors_in(value: Any) -> list[Any]:
    """The tensors of operands or results. Raises DtypeError for anything else among them."""
    return _flat(value, "operands and results")[0]


def _operands(tensors: list[Any]) -> Any:
    return _core.Operands([t._core for t in tensors], [None if t._keys is None else t._keys._core for t in tensors])


def operands_of(value: Any) -> Any:
    """Nested tensors as the engine takes them."""
    return _operands(tensors_in(value))


def _nested(tensors: Iterator[Any], nest: Any) -> Any:
    if isinstance(nest, type):
        return next(tensors)
    if nest[0] is dict:
        return {name: _nested(tensors, part) for name, part in zip(nest[1], nest[2], strict=True)}
    return nest[0](_nested(tensors, part) for part in nest[1])


def _kind(key: str) -> Any:
    """The tensors of a scheme by its key."""
    return Faced._classes[SCHEMES[key].core("Ciphertext")]


def _described(nest: Any) -> Any:
    """A nest for JSON."""
    if isinstance(nest, type) and issubclass(nest, Tensor):
        return nest._scheme.key
    if nest[0] is not dict:
        return [nest[0].__name__, *map(_described, nest[1])]
    if not all(isinstance(name, str) for name in nest[1]):
        raise _core.RecordingError("a program is saved where dicts of its operands and results have names of text")
    return ["dict", list(nest[1]), *map(_described, nest[2])]


def _nest_of(described: Any) -> Any:
    """The other way. Raises DamagedFileError."""
    if isinstance(described, str) and described in SCHEMES:
        return _kind(described)
    if isinstance(described, list) and described:
        if described[0] in ("list", "tuple"):
            return ({"list": list, "tuple": tuple}[described[0]], tuple(map(_nest_of, described[1:])))
        names = described[1] if len(described) > 1 and isinstance(described[1], list) else [None]
        if described[0] == "dict" and len(names) == len(described) - 2 and all(isinstance(name, str) for name in names):
            return (dict, tuple(names), tuple(map(_nest_of, described[2:])))
    raise _core.DamagedFileError("a saved program nests its operands in no known way")


def _kinds_in(nest: Any) -> list[type]:
    return [nest] if isinstance(nest, type) else [kind for part in nest[-1] for kind in _kinds_in(part)]


#: Signatures of operands whose results' figures a program keeps: a handful of numbers each.
_FIGURES = 256


def _no_function(*_: Any) -> Any:
    raise _core.InternalError("a program from a file has no function")


@dataclass(frozen=True, eq=False)
class _Recorded:
    """The engine's program for operands of one signature, and how its results are handed out."""

    core: Any
    shapes: Any  # of the operands, without figures
    nest: Any
    kinds: list[type]  # of the results
    keys: list[Any]  # of each result: the number of the operand whose keys it has, or the keys themselves, or None
    bootstraps: Placement | None  # where they are placed

    def __call__(self, operands: Any, tensors: list[Any]) -> Any:
        made = [
            kind(core, tensors[owner]._keys if isinstance(owner, int) else owner)
            for kind, core, owner in zip(self.kinds, self.core(operands), self.keys, strict=True)
        ]
        return _nested(iter(made), self.nest)


def _times(floor: float, predicted: float) -> str:
    if not floor:
        return ""
    about = f", about {_readable_times([predicted])[0]} predicted" if predicted else ""
    return f"at least {_readable_times([floor])[0]} by bytes and products{about}; "


_SHOWN = 3  # events at either end of a member's timeline


def _readable_times(seconds: list[float]) -> list[str]:
    """All in the unit of the longest."""
    most = max(seconds, default=0.0)
    scale, unit = next(((s, u) for s, u in ((1.0, "s"), (1e3, "ms")) if most * s >= 1), (1e6, "us"))
    return [f"{s * scale:.3g} {unit}" for s in seconds]


def _lane(member: str, events: list[tuple[str, float, float]]) -> str:
    """What a member does: its first and last calls, and how many there are between."""
    busy = sum(end - start for _, start, end in events)
    if not events:
        return f"{member}: idle"

    def shown(some: list[tuple[str, float, float]]) -> list[str]:
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
        parts = shown(events)
    else:
        between = Counter(e[0] for e in events[_SHOWN:-_SHOWN])
        names = ", ".join(f"{count} {name}" for name, count in between.most_common())
        parts = [*shown(events[:_SHOWN]), f"... {names} ...", *shown(events[-_SHOWN:])]
    total, end = _readable_times([busy, events[-1][2]])
    return f"{member}: busy {total} until {end}: {', '.join(parts)}"


def _numbers(seconds: list[float], events: list[tuple[str, float, float]]) -> list[str]:
    """Without the unit, which is that of the last event's end."""
    return [text.split(" ")[0] for text in _readable_times([*seconds, events[-1][2]])[:-1]]


class Program(Shown):
    """A recorded function. Made by `hg.program`; called as the function is, with the same results to the last bit.

    It is recorded once for each shape, level and parameter set of its operands. A call with others records again, at the cost
    of a plain call; `limit` recordings are kept, the least recently used one goes. Operands of the same shapes that say other
    things of themselves (noise, sizes, scales) take the function's Python once more, without its work: what the results say of
    themselves is what the function gives for these operands. Where that takes other calls, they are another recording.

    >>> f = hg.program(lambda x: hg.relinearize(x * x) + 1, x)
    >>> secret.decrypt(f(x))
    array([[ 2,  5, 10, 17],
           [26, 37, 50, 65]])
    >>> f.recordings, f.replays
    (1, 1)
    """

    _label: str | None = None
    _loaded: tuple[Any, _Recorded] | None = None  #: of a program from a file: the nest of its operands, and what it does

    def __init__(self, function: Callable[..., Any], *, limit: int = 16, bootstrap: Any = False) -> None:
        if not callable(function):
            raise _core.DtypeError(f"a program is recorded from a function, not {type(function).__name__}")
        if not is_whole(limit):
            raise _core.DtypeError("a limit is a number of recordings")
        if limit < 1:
            raise _core.ParameterError("a program keeps at least one recording")
        self._function = function
        self._limit = int(limit)
        self._asked = bootstraps_of(bootstrap)
        self._plans: OrderedDict[Any, Any] = OrderedDict()  # by shapes: how the function bootstraps
        self._recorded: OrderedDict[Any, _Recorded] = OrderedDict()  # of each signature
        self._calls: list[Any] = []  # a program for each recording, the one used last at the end
        self._dropped = 0
        self._lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's results.

        Raises what the function raises for these operands, and RecordingError where it does what cannot be recorded: looks at a
        value (decrypts, saves), draws random numbers (encrypts) or returns anything but tensors.
        """
        tensors, nest = _flat((args, kwargs), "operands")
        if not tensors:
            raise _core.DtypeError("a program is called with at least one ciphertext tensor")
        operands = _operands(tensors)
        if self._loaded is not None:
            if nest != self._loaded[0]:
                raise _core.MismatchError(
                    "a program from a file takes operands nested and named as those it was recorded with"
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
            return value
        del value  # nothing was computed, and its memory serves the replay
        return self._replayed(recorded, operands, tensors)

    def _performed(self, nest: Any, tensors: list[Any]) -> Any:
        """The function's value. What it does to operands in place stays inside, as in a replay."""
        own = {id(t): t._wrap(t._core) for t in tensors}
        given, named = _nested(iter([own[id(t)] for t in tensors]), nest)
        return self._function(*given, **named)

    def _planned(self, shapes: Any, nest: Any, tensors: list[Any]) -> Any:
        """How the function bootstraps, for operands of these shapes; None where nobody asked."""
        if self._asked is None:
            return None
        with self._lock:
            plan = self._plans.get(shapes)
        if plan is None:
            kind = next((type(t) for t in tensors if t._places), None)
            if kind is None:
                raise _core.ParameterError(
                    f"bootstraps are placed for CKKS; these operands are of {tensors[0]._scheme.title}"
                )
            plan = kind._planned(self._asked, lambda: _flat_results(self._performed(nest, tensors))[0], tensors)
        with self._lock:
            self._plans[shapes] = plan
            self._plans.move_to_end(shapes)
            if len(self._plans) > self._limit:
                self._plans.popitem(last=False)
        return plan

    def _following(self, *args: Any) -> AbstractContextManager[Any]:
        """Inside, the function bootstraps as the program does for these operands. As `hg.forecast` asks for it."""
        tensors, nest = _flat((args, {}), "operands")
        plan = self._planned((nest, _operands(tensors).shapes), nest, tensors)
        return nullcontext() if plan is None else plan.followed()

    def _replayed(self, recorded: _Recorded, operands: Any, tensors: list[Any]) -> Any:
        if not logger.isEnabledFor(logging.DEBUG):
            return recorded(operands, tensors)
        before = recorded.core.graphs
        results = recorded(operands, tensors)
        if before == 0 < recorded.core.graphs:
            logger.debug("program %s: its first replay as a graph", self._name)
        return results

    def _finish(self, recording: Any, value: Any, shapes: Any, tensors: list[Any], plan: Any) -> _Recorded:
        """What a recording recorded: with the calls of another one where these are the same."""
        results, nest = _flat_results(value)
        core = recording.finish([t._core for t in results], self._calls[::-1])
        owners = [t._keys for t in tensors]
        found = [next((i for i, k in enumerate(owners) if k is not None and k is t._keys), t._keys) for t in results]
        placed = None if plan is None else plan.placement
        return _Recorded(core, shapes, nest, [type(t) for t in results], found, placed)

    def _use(self, key: Any, recorded: _Recorded) -> None:
        """Keeps it, as what was used last, and no more than the limits."""
        if key not in self._recorded and logger.isEnabledFor(logging.DEBUG):
            calls = sum(recorded.core.calls.values())
            known = any(c.shares_calls_with(recorded.core) for c in self._calls)
            logger.debug("program %s: %s %d calls", self._name, "other figures for known" if known else "recorded", calls)
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
        logger.debug("program %s: a recording of %d calls is dropped", self._name, sum(gone.calls.values()))
        if self._dropped == 1:
            warnings.warn(
                f"{self._name} needed more than {self._limit} recordings, for operands of different shapes or levels: those used "
                "longest ago are dropped and made again when called for; hg.program(..., limit=) keeps more",
                RuntimeWarning,
                stacklevel=3,
            )

    def to_bytes(self) -> bytes:
        """The recording used last as a file's bytes: its calls and constants, and what operands it takes; nothing of Python.

        Raises RecordingError where nothing is recorded yet, and for what only this process has: results with keys that no operand
        has, operands that share memory.

        >>> f = hg.program(lambda x: x + x, x)
        >>> type(f.to_bytes())
        <class 'bytes'>
        """
        core, note = self._saved()
        data: bytes = core.to_bytes(note)
        return data

    def __reduce__(self) -> NoReturn:
        raise _core.DtypeError(
            "cannot pickle a program: its function would be lost. Pickle program.to_bytes(), which hg.Program.from_bytes reads"
        )

    def save(self, path: Any) -> None:
        """The same as a file, written all or nothing. Raises FileError besides.

        >>> hg.program(lambda x: x + x, x).save("double.hgp")
        >>> secret.decrypt(hg.Program.load("double.hgp")(x))
        array([[ 2,  4,  6,  8],
               [10, 12, 14, 16]])
        """
        core, note = self._saved()
        core.save(path_of(path), note)

    def _last(self) -> tuple[Any, _Recorded]:
        """The nest of its operands, and what was recorded or used last. Raises RecordingError."""
        with self._lock:
            if self._loaded is not None:
                return self._loaded
            if self._recorded:
                (taken, _), last = next(reversed(self._recorded.items()))
                return taken, last
        raise _core.RecordingError("nothing is recorded yet: call the program with the operands that it is to take")

    def _last_recording(self) -> tuple[Any, int]:
        """The engine's program, and how many tensors it gives. Raises RecordingError."""
        _, last = self._last()
        return last.core, len(last.kinds)

    def _operand_names(self) -> list[str]:
        """A name for each tensor that the last recording took: the function's own where each is one of its parameters."""
        taken, _ = self._last()
        count = len(_kinds_in(taken))
        names: list[str] = []
        if self._loaded is None:
            try:
                names = list(inspect.signature(self._function).parameters)
            except (TypeError, ValueError):
                names = []
        return names if len(names) == count else [f"x{i}" for i in range(count)]

    def _saved(self) -> tuple[Any, str]:
        taken, last = self._last()
        if not all(owner is None or isinstance(owner, int) for owner in last.keys):
            raise _core.RecordingError(
                "a program whose results have keys of their own cannot be saved: take them from an operand"
            )
        note = {"name": self._name, "operands": _described(taken), "results": _described(last.nest), "keys": last.keys}
        if last.bootstraps is not None:
            note["bootstraps"] = last.bootstraps.told()
        try:
            require_shallow(note)
        except ValueError:
            raise _core.RecordingError(
                f"cannot save this program: operands and results must be nested at most {DEEPEST} deep"
            ) from None
        return last.core, json.dumps(note)

    def seal(self, path: Any, *, name: str | None = None, version: str = "1", title: str = "", labels: Any = None) -> Any:
        """The recording used last as a sealed model (`hg.SealedModel`): for a server, and for clients that have neither the function nor
        what it was recorded with. Its operands must be such as a client encrypts anew, all of one key. It is run once to see that.

        Raises RecordingError as `to_bytes` does, and for a program from a file; ParameterError for operands that no fresh encryption is as
        good as; OSError.

        >>> f = hg.program(lambda x: hg.relinearize(x * x) + 1, x)
        >>> model = f.seal("square.hgm", title="squares")
        >>> model.inputs[0].shape, model.needs
        ((2, 4), {'relinearize': True})
        >>> answer = model.run(hg.Server(model.keys(secret)), model.encrypt(secret, np.arange(8).reshape(2, 4)))
        >>> model.decrypt(secret, answer)
        array([[ 1,  2,  5, 10],
               [17, 26, 37, 50]])
        """
        return seal("program", self, path, name=name, version=version, title=title, labels=labels)

    @staticmethod
    def load(path: Any) -> Program:
        """A program from a file, on the device in use.

        It has no function: it takes operands of the parameters, shapes, levels and scales that it was recorded with, with no more
        noise and no larger values, of any owner, and raises MismatchError for others. What its results say of their noise is from
        the file, so not vouched for. The program is verified whole before anything of it is prepared, allocated or run: it computes
        on its operands, its keys and its own constants, shows no memory that it did not write, and takes no more than
        `hg.program_limits` allow. No code is run but the engine's kernels.

        Raises FormatError and its kinds, LimitError, OutOfMemoryError.

        >>> hg.program(lambda x: hg.relinearize(x * x) + 1, x).save("square.hgp")
        >>> secret.decrypt(hg.Program.load("square.hgp")(x))
        array([[ 2,  5, 10, 17],
               [26, 37, 50, 65]])
        """
        return Program._of(*_core.load_program(path_of(path), *_LIMITS.get()))

    @staticmethod
    def from_bytes(data: Buffer) -> Program:
        """A program from bytes. Raises as `load`.

        >>> data = hg.program(lambda x: x + x, x).to_bytes()
        >>> secret.decrypt(hg.Program.from_bytes(data)(x))
        array([[ 2,  4,  6,  8],
               [10, 12, 14, 16]])
        """
        return Program._of(*_core.program_from_bytes(data, *_LIMITS.get()))

    @staticmethod
    def _of(core: Any, note: str) -> Program:
        try:
            said = read_json(note)
            name, keys = said["name"], said["keys"]
            taken, nest = _nest_of(said["operands"]), _nest_of(said["results"])
            placed = Placement.of(said["bootstraps"]) if "bootstraps" in said else None
        except (ValueError, TypeError, KeyError):
            raise _core.DamagedFileError("a saved program does not say how its operands and results are nested") from None
        operands = len(_kinds_in(taken))
        kinds = _kinds_in(nest)
        whole = isinstance(keys, list) and all(k is None or (type(k) is int and 0 <= k < operands) for k in keys)
        if (
            not whole
            or len(keys) != len(kinds)
            or [_kind(k) for k in core.result_kinds] != kinds
            or not isinstance(name, str)
        ):
            raise _core.DamagedFileError("a saved program says what its results are in two ways")
        program = Program(_no_function)
        program._loaded = (taken, _Recorded(core, None, nest, kinds, keys, placed))
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
        """What it was recorded from. Raises RecordingError for a program from a file, which has none."""
        if self._loaded is not None:
            raise _core.RecordingError("a program from a file has no function; print(program) tells what it takes")
        return self._function

    @property
    def bootstraps(self) -> Placement | None:
        """Where the recording used last bootstraps, with predicted times; None where `bootstrap` did not ask for it."""
        with self._lock:
            last = self._loaded[1] if self._loaded else next(reversed(self._recorded.values()), None)
        return None if last is None else last.bootstraps

    @property
    def recordings(self) -> int:
        """How many recordings of different calls it has at this moment."""
        return len(self._calls)

    @property
    def replays(self) -> int:
        """How many calls were replays of what is kept."""
        return sum(int(core.replays) for core in list(self._calls))

    def __repr__(self) -> str:
        head = f"<program {self._name}: {self.recordings} of at most {self._limit} recordings"
        placed = [] if self.bootstraps is None else [repr(self.bootstraps)[1:-1].replace("\n", "\n  ")]
        return "\n  ".join([head, *self._lines(), *placed]) + ">"

    def _rows(self) -> Rows:
        placed = [] if self.bootstraps is None else self.bootstraps._rows()
        return [("function", self._name), *((f"recording {i + 1}", line) for i, line in enumerate(self._lines())), *placed]

    def _lines(self) -> list[str]:
        """A line for each recording."""
        lines = []
        for core in list(self._calls):
            calls = core.calls
            names = ", ".join(f"{count} {name}" for name, count in sorted(calls.items(), key=lambda c: -c[1]))
            together = f", {core.launches} where alike ones go together" if core.launches else ""
            lines.append(
                f"{sum(calls.values())} calls, {core.depth} in a row{together}: {names or 'nothing'}; "
                f"at most {readable_bytes(core.peak_bytes)} of memory at a time, {readable_bytes(core.constant_bytes)} of constants; "
                f"reads {readable_bytes(core.bytes_read)}, writes {readable_bytes(core.bytes_written)}, "
                f"{core.products / 1e6:,.1f} M products; {_times(*core.times)}replayed {core.replays} times, {core.graphs} of them as a graph"
            )
            lines += [f"  {_lane(member, events)}" for member, events in core.timeline]
            if core.cycles:
                lines.append(f"the last replay: {core.cycles}")
        return lines


def program(function: Callable[..., Any], *examples: Any, limit: int = 16, bootstrap: bool | Bootstraps = False) -> Program:
    """Record a function of ciphertext tensors, of any scheme, so that calling it costs no Python and less of the host.

    `examples` are operands to record it with now (nothing is recorded where none are given); calls with other shapes, levels
    or noise record again, up to `limit` recordings. The result is called as the function is, and gives the same bits.
    Plaintexts, weights and other tensors that the function takes from outside are kept as they were when it was recorded;
    operands, their keys and results are not kept. May be used as a decorator.

    With `bootstrap` (True, or `hg.ckks.Bootstraps` with a bound on the values) a function of CKKS tensors counts no levels: for each
    recording a search places bootstraps, several in one call where that is cheaper, and chooses the level at which each operation
    runs, so that the predicted time of all is least. Results are at `Parameters.bootstrapping_level` or above. `Program.bootstraps`
    tells where they are. It raises ParameterError for other schemes and for sets without bootstrapping, MissingKeyError without its
    keys, LevelError for an operation of more levels than a bootstrap leaves.

    >>> f = hg.program(lambda x: hg.relinearize(x * x) + 1, x)
    >>> secret.decrypt(f(x))
    array([[ 2,  5, 10, 17],
           [26, 37, 50, 65]])
    """
    recorded = Program(function, limit=limit, bootstrap=bootstrap)
    if examples:
        recorded(*examples)
    return recorded
