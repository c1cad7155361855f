"""Placement of bootstraps in a graph of operations, for the smallest total time, by an exact search.

The search chooses the level of each operation, which costs more at higher levels, and the values to bootstrap before it.
Each value has a needed level: the highest level at which a later operation takes the value. An operation runs at the lowest
level that gives its result's needed level, so only bootstraps remain to be chosen.

The search runs backward over the operations. The state of the search is the needed levels of the live values. A state
dominates another if it needs no higher level of any value and costs no more. The search also drops states that cannot
become cheaper than a known placement."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, prod

#: Maximum states in the first search, maximum states in the exact search, and number of visited states after which the
#: exact search falls back to the first search.
_FIRST, _MOST, _ALL = 24, 2000, 40_000
#: Maximum candidates of which all subsets are tried as companions (other values bootstrapped in the same call), in the
#: first search and in the exact search.
_MOST_COMPANIONS = (2, 9)
_WAYS = 16  # maximum choices of companions among more candidates
_CHEAPEST = 24  # number of states that are tested for dominating other states

Needs = tuple[tuple[int, int], ...]  #: values and their needed levels, sorted


@dataclass(frozen=True)
class Value:
    """A tensor in a graph."""

    kind: Hashable = None  #: values of one kind can be bootstrapped in one call
    items: int = 1  #: number of ciphertexts
    level: int | None = None  #: level of an operand of the graph; None for results of operations
    loose: bool = False  #: whether the scale differs from its level's; if so, no lowering and no bootstrap


@dataclass(frozen=True)
class Operation:
    """An operation, which takes values at a level and makes another value."""

    operands: tuple[int, ...]  #: the values that the operation takes, without duplicates
    result: int
    runs: Mapping[int, tuple[int, float]]  #: level of the result, and seconds, by level of the operands
    view: bool = False  #: whether the operation computes nothing; then lowering its operand saves no time


@dataclass(frozen=True)
class Choice:
    """A placement: the values that are bootstrapped before each operation, and the operation's level."""

    before: tuple[tuple[int, ...], ...]
    levels: tuple[int, ...]
    seconds: float
    exact: bool  #: whether the search proved that no placement of the graph is cheaper


@dataclass(frozen=True)
class _State:
    seconds: float
    needs: Needs
    #: The last choice of a state: an operation's level, the values bootstrapped before the operation, and the next state.
    trail: tuple[int, tuple[int, ...], _State] | None


@dataclass(frozen=True)
class Graph:
    """Operations in a topological order, at levels up to `top`. A value can be bootstrapped at level `entry` or above."""

    top: int
    entry: int
    values: Sequence[Value]
    operations: Sequence[Operation]
    outputs: Collection[int]
    bootstrap: Callable[[Hashable, int], float] = field(repr=False)  #: seconds of one call, by kind and number of items

    @cached_property
    def low(self) -> frozenset[int]:
        """Values that cannot be bootstrapped: operands below the entry level, and all results that depend on them."""
        values = {v for v, value in enumerate(self.values) if value.level is not None and value.level < self.entry}
        for o in self.operations:
            if values.intersection(o.operands):
                values.add(o.result)
        return frozenset(values)

    def least(self, v: int) -> int:
        """Returns the lowest allowed level of a value: the entry level, or 1 for a value that cannot be bootstrapped."""
        return 1 if v in self.low else self.entry

    def can(self, v: int) -> bool:
        """Tells whether a value can be bootstrapped."""
        return not self.values[v].loose and v not in self.low

    def together(self, values: Collection[int]) -> float:
        """Returns the seconds to bootstrap values together, with one call for each kind."""
        items: dict[Hashable, int] = {}
        for v in values:
            items[self.values[v].kind] = items.get(self.values[v].kind, 0) + self.values[v].items
        return sum(self.bootstrap(kind, count) for kind, count in items.items())

    @cached_property
    def uses(self) -> dict[int, int]:
        """Number of operations that take each value."""
        counts: dict[int, int] = {}
        for o in self.operations:
            for v in o.operands:
                counts[v] = counts.get(v, 0) + 1
        return counts

    @cached_property
    def one(self) -> float:
        """Seconds of the cheapest bootstrap."""
        return min((self.bootstrap(v.kind, v.items) for k, v in enumerate(self.values) if self.can(k)), default=0.0)

    @cached_property
    def reach(self) -> list[list[int]]:
        """For each value, its highest level after 0, 1, 2, ... successive bootstraps, until further bootstraps do not raise
        the level."""
        highest_levels: list[list[int]] = []
        for steps in itertools.count():
            last = highest_levels[-1] if highest_levels else None
            now: list[int] = [0] * len(self.values)
            for v, value in enumerate(self.values):
                if value.level is not None:
                    now[v] = self._refreshed(v, value.level, last)
            for o in self.operations:
                have = min((now[v] for v in o.operands), default=self.top)
                result_level = max(
                    (out for r, (out, _) in o.runs.items() if r <= have and out >= self.least(o.result)), default=0
                )
                now[o.result] = self._refreshed(o.result, result_level, last)
            if now == last or steps > 4 * len(self.operations):
                return [[each[v] for each in highest_levels] for v in range(len(self.values))]
            highest_levels.append(now)
        raise AssertionError

    def _refreshed(self, v: int, level: int, last: list[int] | None) -> int:
        if last is not None and self.can(v) and last[v] >= self.entry:
            return self.top
        return level

    @cached_property
    def rows(self) -> list[list[float]]:
        """For each value, a lower bound on the seconds of its successive bootstraps, by needed level."""
        return [
            [next((k for k, level in enumerate(reach) if level >= need), inf) * self.one for need in range(self.top + 1)]
            if self.one
            else [0.0] * (self.top + 1)
            for reach in self.reach
        ]


def place(graph: Graph, *, most: int = _MOST) -> Choice | None:
    """Returns the placement with the smallest total time, or None if no placement exists. The search stores at most `most`
    states."""
    first = _Search(graph, min(most, _FIRST), _MOST_COMPANIONS[0], inf)
    choice = first.best()
    if first.is_exhaustive:
        return choice
    second = _Search(graph, most, _MOST_COMPANIONS[1], inf if choice is None else choice.seconds)
    better = second.best()
    if better is None or (choice is not None and choice.seconds < better.seconds):
        better = choice
    return None if better is None else Choice(better.before, better.levels, better.seconds, second.is_exhaustive)


class _Search:
    """A backward search over a graph's operations. `is_exhaustive` tells whether it dropped no candidate."""

    def __init__(self, graph: Graph, most: int, most_companions: int, beyond: float) -> None:
        self.graph, self.most, self.most_companions = graph, most, most_companions
        self.beyond = beyond * (1 + 1e-12)  # a state of a higher cost than this cannot beat the known placement
        self.most_now, self.most_companions_now = most, most_companions
        self.is_exhaustive = True
        self.candidates = 0

    def best(self) -> Choice | None:
        g = self.graph
        remaining = [0.0]  # for each operation, a lower bound on the seconds of all operations before it
        for o in g.operations:
            cheapest = min((s for out, s in o.runs.values() if out >= g.least(o.result)), default=inf)
            remaining.append(remaining[-1] + cheapest)
        states = [_State(0.0, self._ends(), None)]
        for at in range(len(g.operations) - 1, -1, -1):
            by_needs: dict[Needs, _State] = {}
            self.most_now = self.most if self.candidates <= _ALL else _FIRST
            self.most_companions_now = self.most_companions if self.candidates <= _ALL else _MOST_COMPANIONS[0]
            for state in states:
                for seconds, needs_before, level, values in self._before(state, g.operations[at]):
                    self.candidates += 1
                    if seconds + remaining[at] > self.beyond:
                        continue
                    needs = tuple(sorted(needs_before.items()))
                    have = by_needs.get(needs)
                    if have is not None and have.seconds <= seconds:
                        continue
                    if seconds + remaining[at] + self._bootstraps(needs) <= self.beyond:
                        by_needs[needs] = _State(seconds, needs, (level, values, state))
            states = self._undominated(list(by_needs.values()))
        ended = [s for s in states if not s.needs]
        if not ended:
            return None
        best = at_last = min(ended, key=lambda s: s.seconds)
        before: list[tuple[int, ...]] = []
        levels: list[int] = []
        while at_last.trail is not None:
            level, values, at_last = at_last.trail
            levels.append(level)
            before.append(values)
        return Choice(tuple(before), tuple(levels), best.seconds, self.is_exhaustive)

    def _ends(self) -> Needs:
        """Returns the needs at the end: results stay where they can be bootstrapped.

        An operand at a sufficient level adds no need."""
        g = self.graph
        return tuple(sorted((v, g.least(v)) for v in set(g.outputs) if g.values[v].level is None and not g.values[v].loose))

    def _bootstraps(self, needs: Needs) -> float:
        """Returns a lower bound on the seconds of bootstraps: successive bootstraps of a value need separate calls."""
        rows = self.graph.rows
        return max([rows[v][need] for v, need in needs], default=0.0)

    def _before(self, state: _State, o: Operation) -> Iterator[tuple[float, dict[int, int], int, tuple[int, ...]]]:
        """Yields the candidates before an operation: (seconds, needs, its level, values bootstrapped)."""
        g = self.graph
        needs = dict(state.needs)
        need = needs.pop(o.result, None)
        exact = g.values[o.result].loose and need is not None
        result_level = max(need or 0, 0 if g.values[o.result].loose else g.least(o.result))
        levels = sorted(r for r, (out, _) in o.runs.items() if (out == result_level if exact else out >= result_level))
        if not any(g.values[v].loose and g.uses[v] > 1 for v in o.operands):
            levels = levels[:1]  # higher levels cost more without a benefit
        for r in levels:
            needs_before = self._needs_before(needs, o, r)
            if needs_before is None:
                continue
            seconds = state.seconds + o.runs[r][1]
            yield seconds, needs_before, r, ()
            for values in self._bootstrap_sets(needs_before, o):
                after = dict(needs_before)
                for v in values:
                    if g.values[v].level is None:
                        after[v] = g.entry
                    else:
                        del after[v]
                yield seconds + g.together(values), after, r, values

    def _needs_before(self, needs: dict[int, int], o: Operation, r: int) -> dict[int, int] | None:
        """Adds the needs of an operation at level r; returns None if the operation cannot run at this level."""
        g = self.graph
        needs_before = dict(needs)
        for v in o.operands:
            value = g.values[v]
            if value.loose:
                if needs_before.setdefault(v, r) != r or (value.level is not None and value.level != r):
                    return None
                if value.level is not None:
                    del needs_before[v]
                continue
            if value.level is not None and r <= value.level:
                continue
            if value.level is not None and v in g.low:
                return None
            needs_before[v] = max(needs_before.get(v, g.least(v)), r)
        return needs_before

    def _bootstrap_sets(self, needs: dict[int, int], o: Operation) -> Iterator[tuple[int, ...]]:
        """Yields the sets of values to bootstrap before an operation: some operands of the operation, and companions in the
        same calls."""
        g = self.graph
        high = [v for v, need in needs.items() if need > g.entry and g.can(v)]
        own = [v for v in o.operands if v in high]
        others = [v for v in high if v not in own]
        for k in range(1, len(own) + 1):
            for operands in itertools.combinations(own, k):
                for companions in self._companion_sets(others, needs):
                    yield tuple(sorted((*operands, *companions)))

    def _companion_sets(self, others: list[int], needs: dict[int, int]) -> Iterator[tuple[int, ...]]:
        if len(others) <= self.most_companions_now:
            for k in range(len(others) + 1):
                yield from itertools.combinations(others, k)
            return
        self.is_exhaustive = False
        alike: dict[Hashable, list[int]] = {}
        for v in others:
            alike.setdefault((self.graph.values[v].kind, needs[v]), []).append(v)
        groups = list(alike.values())
        if prod(len(group) + 1 for group in groups) <= _WAYS:
            for counts in itertools.product(*(range(len(group) + 1) for group in groups)):
                yield tuple(v for group, count in zip(groups, counts, strict=True) for v in group[:count])
            return
        yield ()
        yield from (tuple(group) for group in groups)
        yield tuple(others)

    def _undominated(self, states: list[_State]) -> list[_State]:
        """Returns the states that no other state dominates, up to the maximum number of states."""
        order = sorted(states, key=lambda s: s.seconds + self._bootstraps(s.needs))
        result: list[_State] = []
        first: list[tuple[float, dict[int, int]]] = []
        loose = [v.loose for v in self.graph.values]
        for state in order:
            own = dict(state.needs)
            if any(seconds <= state.seconds and _within(few, own, loose) for seconds, few in first):
                continue
            if len(result) == self.most_now:
                self.is_exhaustive = False
                break
            result.append(state)
            if len(first) < _CHEAPEST:
                first.append((state.seconds, own))
        return result


def _within(few: dict[int, int], many: dict[int, int], loose: list[bool]) -> bool:
    """Tells whether the needs `few` are satisfied whenever `many` are."""
    for v, need in few.items():
        other = many.get(v, 0)
        if other < need or (other > need and loose[v]):
            return False
    return True


def resolve_levels(graph: Graph, choice: Choice, lowering: Callable[[int, int], float]) -> tuple[int | None, ...]:
    """Returns for each operation the level to which it lowers its operands; None leaves the operands at their levels.

    Operands are lowered to the chosen level if lowering costs less time than it saves. `lowering` is the seconds to lower a
    value to a level."""
    have = [0 if v.level is None else v.level for v in graph.values]
    there: set[tuple[int, int]] = set()  # pairs (value, level) that have been lowered
    levels: list[int | None] = []

    def price(o: Operation, r: int) -> float:
        return o.runs[r][1] + sum(lowering(v, r) for v in o.operands if have[v] > r and (v, r) not in there)

    for o, before, level in zip(graph.operations, choice.before, choice.levels, strict=True):
        for v in before:
            have[v] = graph.top
            there = {(w, r) for w, r in there if w != v}
        runs = level
        natural = min((have[v] for v in o.operands), default=level)
        free = natural > level and natural in o.runs and not graph.values[o.result].loose
        if free and (o.view or price(o, natural) <= price(o, level)):
            runs = natural
        levels.append(level if runs == level else None)
        if runs == level:
            there.update((v, level) for v in o.operands if have[v] > level)
        have[o.result] = o.runs[runs][0]
    return tuple(levels)
