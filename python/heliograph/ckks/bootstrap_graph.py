"""Placement of bootstraps in recorded programs, by the predicted cost of the whole program.

The function runs three times without computing. The first run bootstraps as late as possible, and yields the graph of
operations and their costs at each level. The second run uses the placement found by `placement`. The third run is recorded,
with the cheaper of the two placements."""

from __future__ import annotations

import functools
import hashlib
import time
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._common.functions import concatenate
from heliograph._common.operations import observed
from heliograph._common.process import logger
from heliograph._common.tensor import Tensor
from heliograph.ckks.automatic import auto_bootstrap, bounded, by_hand
from heliograph.ckks.bootstrap_search import Choice, Graph, Operation, Value, place, resolve_levels
from heliograph.programs.bootstraps import Bootstrapped, Bootstraps, Placement
from heliograph.programs.forecast import rates_of, recorded
from heliograph.programs.program import operands_of, recording_of

_VIEWS = ("reshape", "transpose", "broadcast_to", "__getitem__", "__pos__", "within", "_with_keys")
_SLOW = 5e-3  # seconds of a dry operation above which only some of its levels are measured
_SMALL = 64  # maximum entries of a clear operand that are compared by value


class _DiffersError(Exception):
    """The function's operations depend on the placement of bootstraps."""


def _name(method: Any) -> str:
    return str(method.__name__)


def _tensors(args: Sequence[Any], options: dict[str, Any]) -> list[Any]:
    """Returns the distinct tensors of a call."""
    found: dict[int, Any] = {}
    for a in (*args, *options.values()):
        for t in a if isinstance(a, (list, tuple)) else (a,):
            if is_tensor(t):
                found[id(t)] = t
    return list(found.values())


def is_tensor(x: Any) -> bool:
    """Tells whether a value is a tensor that can be bootstrapped."""
    return bool(isinstance(x, Tensor) and x._places)


def _instead(value: Any, others: dict[int, Any]) -> Any:
    """Replaces tensors in an argument of a call, by id."""
    if isinstance(value, (list, tuple)) and any(map(is_tensor, value)):
        return [others.get(id(t), t) for t in value]
    return others.get(id(value), value) if is_tensor(value) else value


def _called(method: Callable[..., Any], args: Sequence[Any], options: dict[str, Any], others: dict[int, Any]) -> Any:
    return method(*(_instead(a, others) for a in args), **{name: _instead(a, others) for name, a in options.items()})


def _is_off_scale(t: Any) -> bool:
    off: float = abs(t.scale / t.parameters.scale(t.level) - 1)
    return off > 2.0**-20


def _likeness(value: Any) -> Hashable:
    """Returns the properties of a clear argument on which an operation's time depends."""
    if isinstance(value, (list, tuple)):
        return (type(value), *map(_likeness, value)) if len(value) <= _SMALL else _likeness(np.asarray(value))
    if isinstance(value, np.ndarray):
        seen = np.ascontiguousarray(value if value.size <= _SMALL else value != 0)
        return value.shape, value.dtype.str, hashlib.sha256(seen.tobytes()).digest()
    if hasattr(value, "level") and hasattr(value, "shape"):  # a plaintext or a matrix
        return type(value), value.shape, value.level, getattr(value, "scale", None), tuple(getattr(value, "rotations", ()))
    return repr(value) if isinstance(value, (int, float, complex, str, bool, slice, type(None), type(...))) else id(value)


class _Numbers:
    """Assigns to each tensor its number as a value of the graph."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, int, int]] = {}  # tensors by id: weak reference, in-place changes, number
        self.count = 0

    def find(self, t: Any) -> int | None:
        if id(t) not in self._known:
            return None
        whose, changes, number = self._known[id(t)]
        return number if whose() is t and changes == t._changes else None

    def give(self, t: Any, number: int | None = None) -> int:
        """Assigns a new number to a tensor, or a given one."""
        if number is None:
            number, self.count = self.count, self.count + 1
        key, known = id(t), self._known
        known[key] = weakref.ref(t, lambda _: known.pop(key, None)), t._changes, number
        return number


class _Follower:
    """The observer that builds the graph of a function's operations."""

    decides = False

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.values: list[Value] = []
        self.operations: list[Operation] = []
        self.names: list[str] = []
        self.bootstraps: list[Bootstrapped] = []  # automatic bootstraps, in order of execution
        self._numbers = _Numbers()
        self._within = False
        self._runs: dict[Hashable, dict[int, tuple[int, float]]] = {}
        self._made: dict[
            Hashable, tuple[Any, ...]
        ] = {}  # calls that made a tensor whose scale is not its level's, by shape and level
        self._ones: dict[Hashable, Any] = {}  # ciphertexts to measure a bootstrap with, by kind

    def number(self, t: Any) -> int:
        """Returns the number of a tensor. A new tensor is an operand of the graph."""
        known = self._numbers.find(t)
        if known is not None:
            return known
        if t.parameters != self.plan.parameters:
            raise _core.MismatchError(
                "cannot place bootstraps: all tensors must use the same parameter set, not different "
                f"{t.parameters._differs_from(self.plan.parameters)}"
            )
        self._add(t, t.level)
        return self._numbers.give(t)

    def _add(self, t: Any, level: int | None = None) -> None:
        kind = (t.dtype.kind, t.slots, t.key_id)
        self.values.append(Value(kind, t.size, level, _is_off_scale(t)))
        if (
            t.size
            and kind not in self._ones
            and not _is_off_scale(t)
            and t.level >= self.plan.parameters.bootstrapping_level
        ):
            with observed(None):
                self._ones[kind] = t.reshape(-1)[:1]

    def same(self, made: Any, x: Any) -> None:
        """Gives `made` the number of x, because `made` took over the content of x."""
        known = None if self._within else self._numbers.find(x)
        if known is not None:
            self._numbers.give(made, known)

    def bootstrapped(self, made: Any, x: Any) -> None:
        """Notes an automatic bootstrap; its result keeps the number of x."""
        at = len(self.names)
        self.bootstraps.append(Bootstrapped(at + 1, "", (x.shape,), (x.level,)))
        if not self._within:
            self._numbers.give(made, self.number(x))

    def operation(self, method: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Performs an operation and notes its costs at each level."""
        tensors = [] if self._within else _tensors(args, options)
        if not tensors:
            return method(*args, **options)
        numbers = [self.number(t) for t in tensors]
        before = {id(t): t for t in tensors}
        if options.get("into"):  # the operation overwrites its operand
            with observed(None):
                before = {id(t): +t for t in tensors}
        self._within = True
        try:
            made = method(*args, **options)
            with by_hand():
                runs = self._runs_of(method, args, options, before, made)
                self._add(made)
        finally:
            self._within = False
        self.operations.append(
            Operation(tuple(dict.fromkeys(numbers)), self._numbers.give(made), runs, _name(method) in _VIEWS)
        )
        self.names.append(_name(method).strip("_"))
        return made

    def ended(self, results: Sequence[Any]) -> Graph:
        """Returns the graph, and names the operation after each automatic bootstrap."""
        outputs = {self.number(t) for t in results if is_tensor(t)}
        names = [*self.names, "results"]
        self.bootstraps = [Bootstrapped(b.operation, names[b.operation - 1], b.shapes, b.levels) for b in self.bootstraps]
        p = self.plan.parameters
        bootstrap = functools.cache(self._bootstrap)
        return Graph(p.levels, p.bootstrapping_level, self.values, self.operations, outputs, bootstrap)

    def _bootstrap(self, kind: Hashable, items: int) -> float:
        """Returns the seconds of one bootstrap call."""
        one = self._ones.get(kind)
        if one is None or not items:
            return 0.0
        return self.plan.seconds(lambda t: self.plan.bootstrap(t.broadcast_to((items,))), one)

    def lowering(self) -> dict[int, float]:
        """Returns the seconds to lower a ciphertext from the top to each level."""
        p = self.plan.parameters
        one = next(iter(self._ones.values()), None)
        if one is None:
            return {}
        high = self.plan.bootstrap(one)
        return {r: self.plan.seconds(lambda t, r=r: t.lower(r), high) for r in range(p.bootstrapping_level, p.levels)}

    # Costs of an operation at each level

    def _kind(self, t: Any) -> Hashable:
        scale = round(t.scale / t.parameters.scale(t.level), 3) if t.scale < 2 * t.parameters.scale(t.level) else 0
        return t.shape, t.dtype.kind, t.slots, t.degree, scale, t._core.tail_known

    def _runs_of(
        self, method: Any, args: Sequence[Any], options: dict[str, Any], before: dict[int, Any], made: Any
    ) -> dict[int, tuple[int, float]]:
        tensors = list(before.items())
        entry, top = self.plan.parameters.bootstrapping_level, self.plan.parameters.levels
        least = min(t.level for _, t in tensors)
        levels = range(1, least + 1) if least < entry else range(entry, top + 1)
        if _name(method) in _VIEWS:
            return {r: (r, 0.0) for r in levels}
        plain = [None if id(a) in before else _likeness(a) for a in args if not isinstance(a, (list, tuple))]
        plain += [_likeness([None if id(b) in before else b for b in a]) for a in args if isinstance(a, (list, tuple))]
        named = [(name, None if id(a) in before else _likeness(a)) for name, a in sorted(options.items())]
        key = (_name(method), tuple(plain), tuple(named), tuple(self._kind(t) for _, t in tensors), levels)
        if _is_off_scale(made):
            self._made.setdefault(self._kind(made), (method, args, options, before))
        if key not in self._runs:
            self._runs[key] = self._looked_at(method, args, options, before, made, levels)
        return self._runs[key]

    def _looked_at(
        self, method: Any, args: Sequence[Any], options: dict[str, Any], before: dict[int, Any], made: Any, levels: range
    ) -> dict[int, tuple[int, float]]:
        """Measures an operation at each level; measures a slow operation at some levels, and interpolates the other
        levels."""
        found: dict[int, tuple[int, float]] = {}
        lifted: dict[int, Any] = {}
        start, slow = time.perf_counter(), False
        for r in reversed(levels):
            if slow and r not in (levels[0], levels[len(levels) // 2]):
                continue
            took = self._at(method, args, options, before, made, r, lifted)
            if took is not None:
                found[r] = took
            slow = slow or time.perf_counter() - start > _SLOW * (levels[-1] - r + 1)
        known = sorted(found)
        for low, high in pairwise(known):
            lost = found[high][0] - found[low][0]
            for r in range(low + 1, high) if slow and lost == high - low else ():
                part = (r - low) / (high - low)
                found[r] = found[low][0] + r - low, found[low][1] * (1 - part) + found[high][1] * part
        dearest = 0.0
        for r in sorted(found):  # make seconds monotone: no level is cheaper than a lower level
            dearest = max(dearest, found[r][1])
            found[r] = found[r][0], dearest
        return found

    def _at(
        self,
        method: Any,
        args: Sequence[Any],
        options: dict[str, Any],
        before: dict[int, Any],
        made: Any,
        r: int,
        lifted: dict[int, Any],
    ) -> tuple[int, float] | None:
        """Returns the level and the seconds of an operation on operands at level r; None if it cannot run there."""
        seen: list[Any] = []
        try:
            there = {key: self._sample(t, r, lifted) for key, t in before.items()}

            def once(*tensors: Any) -> Any:
                seen.append(_called(method, args, options, dict(zip(there, tensors, strict=True))))
                return seen[0]

            seconds = self.plan.seconds(once, *there.values())
        except _core.OutOfMemoryError:
            raise
        except _core.HeliographError:
            return None
        return None if _is_off_scale(seen[0]) != _is_off_scale(made) else (seen[0].level, seconds)

    def _sample(self, t: Any, r: int, lifted: dict[int, Any]) -> Any:
        """Returns a tensor like t at level r."""
        if _is_off_scale(t):
            if self._kind(t) not in self._made:
                if t.level == r:
                    return t
                raise _core.LevelError(
                    "cannot change the level of an operand that is not at its level's scale; rescale it first"
                )
            method, args, options, before = self._made[self._kind(t)]
            return _called(method, args, options, {key: self._sample(u, r, {}) for key, u in before.items()})
        if t.level < r:
            if id(t) not in lifted:
                lifted[id(t)] = self.plan.bootstrap(t)
            t = lifted[id(t)]
        return t if t.level == r else t.lower(r)


class _Placer:
    """The observer that bootstraps and lowers operands of a function's operations as a placement says."""

    decides = True

    def __init__(self, plan: Plan, settled: Sequence[int | None], choice: Choice) -> None:
        self.plan, self.settled, self.choice = plan, settled, choice
        self.done: list[Bootstrapped] = []
        self._at = 0
        self._numbers = _Numbers()
        self._wanted = {v for before in choice.before for v in before}
        self._held: dict[int, Any] = {}  # tensors that will be bootstrapped, by number in the graph
        self._now: dict[int, Any] = {}  # the same tensors after their bootstrap, by number in the graph
        self._lowered: dict[tuple[int, int], Any] = {}
        self._within = False

    def same(self, made: Any, x: Any) -> None:
        """Gives `made` the number of x, because `made` took over the content of x."""
        known = None if self._within else self._numbers.find(x)
        if known is not None:
            self._assign_number(made, known)

    def bootstrapped(self, made: Any, x: Any) -> None:
        """Raises InternalError: automatic bootstraps are off while this observer decides."""
        raise _core.InternalError("an automatic bootstrap happened while a placement decides on bootstraps")

    def _assign_number(self, t: Any, number: int | None = None) -> int:
        found = self._numbers.give(t, number)
        if found in self._wanted:
            self._held[found] = t
        return found

    def operation(self, method: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Performs an operation on operands that are bootstrapped and lowered as the placement says."""
        tensors = [] if self._within else _tensors(args, options)
        if not tensors:
            return method(*args, **options)
        graph, at = self.plan.graph, self._at
        found = [self._numbers.find(t) for t in tensors]
        numbers = [self._assign_number(t) if v is None else v for t, v in zip(tensors, found, strict=True)]
        expected = graph.operations[at] if at < len(graph.operations) else None
        if expected is None or expected.operands != tuple(dict.fromkeys(numbers)):
            raise _DiffersError
        if self.plan.names[at] != _name(method).strip("_"):
            raise _DiffersError
        self._within = True
        try:
            self._bootstrap(self.choice.before[at])
            there = {id(t): self._there(t, v, self.settled[at]) for t, v in zip(tensors, numbers, strict=True)}
            if options.get("into"):
                there = {key: +t for key, t in there.items()}
            made = _called(method, args, options, there)
        finally:
            self._within = False
        if made.level < expected.runs[self.choice.levels[at]][0]:
            raise _DiffersError
        self._at += 1
        self._forget(expected.operands, at)
        if not options.get("into"):
            if self._assign_number(made) != expected.result:
                raise _DiffersError
            return made
        target = tensors[0]
        with observed(None):
            target._become(made)
        if self._assign_number(target) != expected.result:
            raise _DiffersError
        return target

    def _there(self, t: Any, v: int, level: int | None) -> Any:
        now = self._now.get(v, t)
        if level is None or self.plan.graph.values[v].loose or now.level <= level:
            return now
        if (v, level) not in self._lowered:
            self._lowered[v, level] = now.lower(level)
        return self._lowered[v, level]

    def _bootstrap(self, chosen: Sequence[int]) -> None:
        """Bootstraps values, with one call for each kind."""
        kinds: dict[Hashable, list[int]] = {}
        for v in chosen:
            kinds.setdefault(self.plan.graph.values[v].kind, []).append(v)
        for several in kinds.values():
            given = [self._now.get(v) or self._held[v] for v in several]
            level = min(t.level for t in given)
            shapes, levels = tuple(t.shape for t in given), tuple(t.level for t in given)
            self.done.append(Bootstrapped(self._at + 1, self.plan.names[self._at], shapes, levels))
            if len(given) == 1:
                self._now[several[0]] = self.plan.bootstrap(given[0])
                continue
            flat = [t if t.level == level else t.lower(level) for t in given]
            made = self.plan.bootstrap(concatenate([t.reshape(-1) for t in flat]))
            start = 0
            for v, t in zip(several, given, strict=True):
                self._now[v] = made[start : start + t.size].reshape(t.shape)
                start += t.size
        for key in [key for key in self._lowered if key[0] in chosen]:
            del self._lowered[key]
        for v in chosen:
            self._held.pop(v, None)

    def _forget(self, operands: Sequence[int], at: int) -> None:
        """Drops operands that no later operation reads."""
        for v in operands:
            if self.plan.last[v] <= at:
                self._now.pop(v, None)
                for key in [key for key in self._lowered if key[0] == v]:
                    del self._lowered[key]


class Plan:
    """The plan of bootstraps of a function, for operands of given shapes and levels."""

    def __init__(self, asked: Bootstraps, keys: Any, function: Callable[[], Sequence[Any]], tensors: Sequence[Any]) -> None:
        self._asked, self._keys, self._given = asked, keys, list(tensors)
        self._rates = rates_of(self._given)
        follower = _Follower(self)
        self._chosen: tuple[Sequence[int | None], Choice] | None = None
        with observed(follower), self._automatic(), self._dry() as recording:
            results = function()
            with observed(None), by_hand():  # inside the recording, whose tensors are measured
                self.graph = follower.ended(results)
                lowering = follower.lowering()
                start = time.perf_counter()
                choice = place(self.graph)
            automatic = self._whole(recording, results)
        self.names = follower.names
        self.last = {v: at for at, o in enumerate(self.graph.operations) for v in o.operands}
        logger.debug("placed bootstraps of %d operations in %.2g s", len(self.names), time.perf_counter() - start)
        late = follower.bootstraps
        self.placement = Placement(
            tuple(late), len(self.names), automatic, len(late), automatic, exact=False, automatic=True
        )
        if choice is not None:
            values = self.graph.values
            levels = resolve_levels(self.graph, choice, lambda v, r: values[v].items * lowering.get(r, 0.0))
            self._try(function, choice, levels)
        self._given.clear()

    def _try(self, function: Callable[[], Sequence[Any]], choice: Choice, levels: Sequence[int | None]) -> None:
        """Adopts a choice of bootstraps if, with this choice, the function runs the same operations in less predicted
        time."""
        placer = _Placer(self, levels, choice)
        try:
            with observed(placer), self._dry() as recording:
                seconds = self._whole(recording, function())
        except (_DiffersError, _core.LevelError, _core.ScaleError) as error:
            logger.debug("using the placement of auto_bootstrap: %s", error or "operations depend on levels")
            return
        placement = self.placement
        late = placement.automatic_seconds
        known = seconds is not None and late is not None
        is_faster = seconds < late if known else len(placer.done) < placement.automatic_count  # type: ignore[operator]
        if is_faster:
            self._chosen = levels, choice
            self.placement = Placement(
                tuple(placer.done),
                placement.operations,
                seconds,
                placement.automatic_count,
                late,
                choice.exact,
                automatic=False,
            )

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Context in which the function bootstraps as planned.

        Raises RecordingError if the function's operations differ from the plan."""
        with self._automatic() if self._chosen is None else observed(_Placer(self, *self._chosen)):
            try:
                yield
            except _DiffersError:
                raise _core.RecordingError(
                    "cannot record this function: its operations must be those for which bootstraps were placed, but they "
                    "differ"
                ) from None

    def bootstrap(self, t: Any) -> Any:
        """Bootstraps a tensor with the options of the plan."""
        a = self._asked
        return bounded(t, a.bound).bootstrap(a.bound, iterations=a.iterations, keys=self._keys)

    @property
    def parameters(self) -> Any:
        """The parameter set of all tensors."""
        return self._keys.parameters

    def _automatic(self) -> Any:
        return auto_bootstrap(self._asked.bound, iterations=self._asked.iterations)

    def _dry(self) -> Any:
        return recording_of(operands_of(self._given), dry=True)

    def _whole(self, recording: Any, results: Sequence[Any]) -> float | None:
        """Returns the predicted seconds of a dry recording of the function."""
        core = recording.finish([t._core for t in results], [])
        return self._rates.seconds(core, sum(t.nbytes for t in self._given))

    def seconds(self, function: Callable[..., Any], *tensors: Any) -> float:
        """Returns the predicted seconds of a part of a program. Without measured rates, the prediction follows from the
        number of products."""
        core = recorded(function, *tensors)[0]
        found = self._rates.seconds(core, None)
        return int(core.products) * 1e-9 if found is None else found
