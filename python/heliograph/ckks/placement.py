"""Where bootstraps go: the least total time over a graph of operations, by an exact search.

What is to be chosen is the level at which each operation runs (it costs more at higher ones) and what is bootstrapped before it. Seen from
the end, each value has a level that it is needed at: the highest at which an operation behind takes it. An operation whose result is needed at a
level runs at the lowest that gives it, so that nothing but bootstraps is left to choose. The search goes backward over the operations,
with the needs of the values that are alive as its state. A state that needs more nowhere and costs no more drives another out; so does
a found placement all states that cannot become cheaper.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, prod

#: States that are kept where a first placement is found, and in the exact search; how many are looked at before that gives up.
_FIRST, _MOST, _ALL = 24, 2000, 40_000
#: Values of which all subsets are tried as company of a bootstrap: at first, and in the exact search.
_COMPANY = (2, 9)
_WAYS = 16  # of choosing company among more
_CHEAPEST = 24  # states that may drive others out

Needs = tuple[tuple[int, int], ...]  #: values and the levels that they are needed at, in order


@dataclass(frozen=True)
class Value:
    """A tensor in a graph."""

    kind: Hashable = None  #: those of one kind can be bootstrapped in one call
    items: int = 1
    level: int | None = None  #: of an operand of the whole; None for what an operation makes
    loose: bool = False  #: not at its level's scale: neither lowered nor bootstrapped


@dataclass(frozen=True)
class Operation:
    """What takes values at a level and makes another one."""

    operands: tuple[int, ...]  #: different values
    result: int
    runs: Mapping[int, tuple[int, float]]  #: by the level that it may run at: its result's, and seconds
    view: bool = False  #: makes nothing: it is never worth lowering its operand


@dataclass(frozen=True)
class Choice:
    """A placement: before each operation the values that are bootstrapped, and the level that it runs at."""

    before: tuple[tuple[int, ...], ...]
    levels: tuple[int, ...]
    seconds: float
    exact: bool  #: whether no placement of the graph is cheaper; else the best of those that were looked at


@dataclass(frozen=True)
class _State:
    seconds: float
    needs: Needs
    #: What was chosen: an operation's level, what is bootstrapped before it, and the state behind.
    trail: tuple[int, tuple[int, ...], _State] | None


@dataclass(frozen=True)
class Graph:
    """Operations in an order in which they can be made, on levels up to `top`; what bootstraps is at `entry` or above."""

    top: int
    entry: int
    values: Sequence[Value]
    operations: Sequence[Operation]
    outputs: Collection[int]
    bootstrap: Callable[[Hashable, int], float] = field(repr=False)  #: seconds of one call, by kind and items

    @cached_property
    def low(self) -> frozenset[int]:
        """Values below the level that bootstraps start at, and what comes of them: no bootstrap helps."""
        found = {v for v, value in enumerate(self.values) if value.level is not None and value.level < self.entry}
        for o in self.operations:
            if found.intersection(o.operands):
                found.add(o.result)
        return frozenset(found)

    def least(self, v: int) -> int:
        """The level that a value must have, whoever takes it: so that it can be bootstrapped, if it ever could."""
        return 1 if v in self.low else self.entry

    def can(self, v: int) -> bool:
        """Whether a value can be bootstrapped."""
        return not self.values[v].loose and v not in self.low

    def together(self, chosen: Collection[int]) -> float:
        """Seconds to bootstrap values at one moment: those of one kind in one call."""
        items: dict[Hashable, int] = {}
        for v in chosen:
            items[self.values[v].kind] = items.get(self.values[v].kind, 0) + self.values[v].items
        return sum(self.bootstrap(kind, count) for kind, count in items.items())

    @cached_property
    def uses(self) -> dict[int, int]:
        """How many operations take each value."""
        found: dict[int, int] = {}
        for o in self.operations:
            for v in o.operands:
                found[v] = found.get(v, 0) + 1
        return found

    @cached_property
    def one(self) -> float:
        """The cheapest bootstrap."""
        return min((self.bootstrap(v.kind, v.items) for k, v in enumerate(self.values) if self.can(k)), default=0.0)

    @cached_property
    def reach(self) -> list[list[int]]:
        """Of each value the levels that it reaches at most after 0, 1, 2, ... bootstraps in a row, till more reach no more."""
        found: list[list[int]] = []
        for steps in itertools.count():
            last = found[-1] if found else None
            now: list[int] = [0] * len(self.values)
            for v, value in enumerate(self.values):
                if value.level is not None:
                    now[v] = self._refreshed(v, value.level, last)
            for o in self.operations:
                have = min((now[v] for v in o.operands), default=self.top)
                made = max((out for r, (out, _) in o.runs.items() if r <= have and out >= self.least(o.result)), default=0)
                now[o.result] = self._refreshed(o.result, made, last)
            if now == last or steps > 4 * len(self.operations):
                return [[each[v] for each in found] for v in range(len(self.values))]
            found.append(now)
        raise AssertionError

    def _refreshed(self, v: int, level: int, last: list[int] | None) -> int:
        if last is not None and self.can(v) and last[v] >= self.entry:
            return self.top
        return level

    @cached_property
    def rows(self) -> list[list[float]]:
        """How many bootstraps in a row each value takes at least, by the level that it is needed at, in seconds."""
        return [
            [next((k for k, level in enumerate(reach) if level >= need), inf) * self.one for need in range(self.top + 1)]
            if self.one
            else [0.0] * (self.top + 1)
            for reach in self.reach
        ]


def place(graph: Graph, *, most: int = _MOST) -> Choice | None:
    """The placement of least total time; None where there is none. `most` states are kept on the way."""
    first = _Search(graph, min(most, _FIRST), _COMPANY[0], inf)
    found = first.best()
    if first.whole:
        return found
    second = _Search(graph, most, _COMPANY[1], inf if found is None else found.seconds)
    better = second.best()
    if better is None or (found is not None and found.seconds < better.seconds):
        better = found
    return None if better is None else Choice(better.before, better.levels, better.seconds, second.whole)


class _Search:
    """Backward over a graph's operations. `whole`: nothing was left out."""

    def __init__(self, graph: Graph, most: int, company: int, beyond: float) -> None:
        self.graph, self.most, self.company = graph, most, company
        self.beyond = beyond * (1 + 1e-12)  # no dearer state can become better than what is known
        self.most_now, self.company_now = most, company
        self.whole = True
        self.looked = 0

    def best(self) -> Choice | None:
        g = self.graph
        left = [0.0]  # what operations before each take at least
        for o in g.operations:
            cheapest = min((s for out, s in o.runs.values() if out >= g.least(o.result)), default=inf)
            left.append(left[-1] + cheapest)
        states = [_State(0.0, self._ends(), None)]
        for at in range(len(g.operations) - 1, -1, -1):
            by_needs: dict[Needs, _State] = {}
            self.most_now = self.most if self.looked <= _ALL else _FIRST
            self.company_now = self.company if self.looked <= _ALL else _COMPANY[0]
            for state in states:
                for seconds, found, level, chosen in self._before(state, g.operations[at]):
                    self.looked += 1
                    if seconds + left[at] > self.beyond:
                        continue
                    needs = tuple(sorted(found.items()))
                    have = by_needs.get(needs)
                    if have is not None and have.seconds <= seconds:
                        continue
                    if seconds + left[at] + self._bootstraps(needs) <= self.beyond:
                        by_needs[needs] = _State(seconds, needs, (level, chosen, state))
            states = self._kept(list(by_needs.values()))
        ended = [s for s in states if not s.needs]
        if not ended:
            return None
        best = at_last = min(ended, key=lambda s: s.seconds)
        before: list[tuple[int, ...]] = []
        levels: list[int] = []
        while at_last.trail is not None:
            level, chosen, at_last = at_last.trail
            levels.append(level)
            before.append(chosen)
        return Choice(tuple(before), tuple(levels), best.seconds, self.whole)

    def _ends(self) -> Needs:
        """Results are left where they can be bootstrapped. What an operand's level is enough for is no need."""
        g = self.graph
        return tuple(sorted((v, g.least(v)) for v in set(g.outputs) if g.values[v].level is None and not g.values[v].loose))

    def _bootstraps(self, needs: Needs) -> float:
        """At least so many seconds: those that come one after another are calls of their own."""
        rows = self.graph.rows
        return max([rows[v][need] for v, need in needs], default=0.0)

    def _before(self, state: _State, o: Operation) -> Iterator[tuple[float, dict[int, int], int, tuple[int, ...]]]:
        """What may be before an operation: seconds, needs, the level that it runs at, what is bootstrapped."""
        g = self.graph
        needs = dict(state.needs)
        need = needs.pop(o.result, None)
        exact = g.values[o.result].loose and need is not None
        wanted = max(need or 0, 0 if g.values[o.result].loose else g.least(o.result))
        levels = sorted(r for r, (out, _) in o.runs.items() if (out == wanted if exact else out >= wanted))
        if not any(g.values[v].loose and g.uses[v] > 1 for v in o.operands):
            levels = levels[:1]  # nothing is gained by more
        for r in levels:
            taken = self._taken(needs, o, r)
            if taken is None:
                continue
            seconds = state.seconds + o.runs[r][1]
            yield seconds, taken, r, ()
            for chosen in self._bootstrapped(taken, o):
                after = dict(taken)
                for v in chosen:
                    if g.values[v].level is None:
                        after[v] = g.entry
                    else:
                        del after[v]
                yield seconds + g.together(chosen), after, r, chosen

    def _taken(self, needs: dict[int, int], o: Operation, r: int) -> dict[int, int] | None:
        """Needs with those of an operation at level r; None where it cannot run there."""
        g = self.graph
        found = dict(needs)
        for v in o.operands:
            value = g.values[v]
            if value.loose:
                if found.setdefault(v, r) != r or (value.level is not None and value.level != r):
                    return None
                if value.level is not None:
                    del found[v]
                continue
            if value.level is not None and r <= value.level:
                continue
            if value.level is not None and v in g.low:
                return None
            found[v] = max(found.get(v, g.least(v)), r)
        return found

    def _bootstrapped(self, needs: dict[int, int], o: Operation) -> Iterator[tuple[int, ...]]:
        """What may be bootstrapped before an operation: some of its operands, and others for company."""
        g = self.graph
        high = [v for v, need in needs.items() if need > g.entry and g.can(v)]
        own = [v for v in o.operands if v in high]
        others = [v for v in high if v not in own]
        for k in range(1, len(own) + 1):
            for chosen in itertools.combinations(own, k):
                for company in self._companies(others, needs):
                    yield tuple(sorted((*chosen, *company)))

    def _companies(self, others: list[int], needs: dict[int, int]) -> Iterator[tuple[int, ...]]:
        if len(others) <= self.company_now:
            for k in range(len(others) + 1):
                yield from itertools.combinations(others, k)
            return
        self.whole = False
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

    def _kept(self, states: list[_State]) -> list[_State]:
        """Those that no other one drives out, and no more than there may be."""
        order = sorted(states, key=lambda s: s.seconds + self._bootstraps(s.needs))
        kept: list[_State] = []
        first: list[tuple[float, dict[int, int]]] = []
        loose = [v.loose for v in self.graph.values]
        for state in order:
            own = dict(state.needs)
            if any(seconds <= state.seconds and _within(few, own, loose) for seconds, few in first):
                continue
            if len(kept) == self.most_now:
                self.whole = False
                break
            kept.append(state)
            if len(first) < _CHEAPEST:
                first.append((state.seconds, own))
        return kept


def _within(few: dict[int, int], many: dict[int, int], loose: list[bool]) -> bool:
    """Whether needs are met wherever others are."""
    for v, need in few.items():
        other = many.get(v, 0)
        if other < need or (other > need and loose[v]):
            return False
    return True


def settle(graph: Graph, choice: Choice, lowering: Callable[[int, int], float]) -> tuple[int | None, ...]:
    """The levels at which operations are to run: those of a choice where bringing operands there (`lowering`: seconds of a value to a level)
    costs less than it saves, else None: as they come.
    """
    have = [0 if v.level is None else v.level for v in graph.values]
    there: set[tuple[int, int]] = set()  # values that were lowered, and to which level
    found: list[int | None] = []

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
        found.append(level if runs == level else None)
        if runs == level:
            there.update((v, level) for v in o.operands if have[v] > level)
        have[o.result] = o.runs[runs][0]
    return tuple(found)
