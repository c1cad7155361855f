"""What queries will take, before they are asked: seconds on this device by the engine's forecast."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from heliograph import _core, tfhe
from heliograph.forecasting import forecast, rates_of, recorded
from heliograph.functions import relinearize, shrink
from heliograph.host import cycles
from heliograph.keys import SecretKey, Server
from heliograph.query.circuits import Rows
from heliograph.query.columns import Column
from heliograph.query.costs import Cost, foretellers, readable
from heliograph.query.errors import SqlError
from heliograph.query.integer_plan import IntegerPlan
from heliograph.query.integers import IntegerLayout
from heliograph.query.layout import Layout, Part, choose_layout
from heliograph.query.monomials import Monomial, Summand, named
from heliograph.query.plan import Plan
from heliograph.query.spans import Span
from heliograph.query.table import Layouts, Plans, plan_of

_SAMPLE = 64  # rows that are followed of a table of TFHE: the others take as much
_READS = 3  # of a piece of the table, to measure it


def cost_of(plan: Plans, server: Server[Any], data_of: Callable[[Part], Any]) -> Cost:
    """Of a query, by a server's keys and a piece of each vector that it reads."""
    if not plan.asked:
        return Cost(0.0, 0.0)
    if cycles() is not None:  # nobody waits for a simulated card to be measured
        return Cost(None, None)
    try:
        data = data_of(plan.reads[0])
        reading = _reading(server, lambda: data_of(plan.reads[0])) / len(data) * plan.read_bytes
        computing = _of_spans(plan, server, data) if isinstance(plan, Plan) else _of_rows(plan, server.keys)
    except _core.HeliographError:  # what does not fit, or has no keys, takes no time that anybody knows
        return Cost(None, None)
    return Cost(None, None) if computing is None else Cost(computing + reading, reading)


def _reading(server: Server[Any], read: Callable[[], Any]) -> float:
    """Seconds of a piece of a vector, from the file on."""
    times = []
    for _ in range(_READS):
        start = time.perf_counter()
        server.from_bytes(read()).wait()
        times.append(time.perf_counter() - start)
    return min(times)


def _of_spans(plan: Plan, server: Server[Any], data: Any) -> float | None:
    """Of products and sums of all blocks. Two ciphertexts stand for all, so that products of different vectors are no squares."""
    blocks = plan.layout.blocks
    examples = [server.from_bytes(data)[:1].broadcast_to((blocks,)) for _ in range(2)]

    def work(*vectors: Any) -> list[Any]:
        sums: dict[tuple[int, int], Any] = {}
        parts = plan.layout.parts
        Span(plan, range(blocks), lambda part: vectors[parts.index(part) % 2]).add_to(sums)
        return [shrink(relinearize(one)) for one in sums.values()]

    return forecast(work, *examples).seconds


def _of_rows(plan: IntegerPlan, keys: Any) -> float | None:
    """Of circuits on all rows, by some of them."""
    layout = plan.layout
    rows = min(layout.rows, _SAMPLE)
    vectors = {part: tfhe.trivial(keys, np.zeros(rows, np.int64), layout.type_of(part)) for part in plan.reads}

    def work(*given: Any) -> list[Any]:
        read = dict(zip(vectors, given, strict=True))
        return [made for _, _, made in Rows(keys, plan, range(rows), read.__getitem__).numbers()]

    core, _ = recorded(work, *vectors.values())
    every = SimpleNamespace(calls=core.calls, products=core.products * layout.rows // rows)
    return rates_of(list(vectors.values())).seconds(every, None)


# Of layouts, by keys that are made for it


def _trial(layout: Layouts, text: str) -> Cost:
    """Of a query on a table that is not there."""
    plan = plan_of(text, layout)
    make: Any = SecretKey
    secret = make.generate(layout.parameters)
    if isinstance(layout, Layout):
        data = secret.encrypt(np.zeros((1, layout.parameters.slots), np.int64)).to_bytes()
    else:
        data = secret.encrypt(np.zeros(min(layout.rows, _SAMPLE), bool)).to_bytes()
    return cost_of(plan, Server(secret.evaluation_keys()), lambda part: data)


def _typical(layout: Layouts, filters: list[str], sums: list[Monomial]) -> str:
    """A sum where each of some columns is in the middle of its values."""
    conditions = [_middle(name, layout.columns[name]) for name in filters]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    aggregate = f"SUM({named(sums[0])})" if sums else "COUNT(*)"
    return f"SELECT {aggregate} FROM {layout.table}{where}"


def _middle(name: str, column: Column) -> str:
    """A condition that half of a column's values meet."""
    if column.kind == "bool":
        return name
    quarter = (column.high - column.low) // 4
    ends = [column.shown(number) for number in (column.low + quarter, column.high - quarter)]
    if column.kind == "text":
        low, high = ("'" + str(end).replace("'", "''") + "'" for end in ends)
    elif column.kind == "date":
        low, high = (f"DATE '{end}'" for end in ends)
    else:
        low, high = (str(end) for end in ends)
    return f"{name} BETWEEN {low} AND {high}"


def _asked(layout: Layouts) -> tuple[list[str], list[Monomial]]:
    """What a typical query is of: what was announced, or the first columns that serve."""
    if isinstance(layout, Layout):
        return list(layout.digits), list(layout.sums)
    numbers: list[Monomial] = [(name,) for name, c in layout.columns.items() if c.kind in ("int", "decimal")]
    return list(layout.filters) or list(layout.columns)[:1], list(layout.sums) or numbers[:1]


def _other(layout: Layouts, filters: list[str], sums: list[Monomial]) -> Layouts:
    """The same table by the other scheme. Raises ParameterError where there is none."""
    if isinstance(layout, Layout):
        return IntegerLayout(layout.table, layout.rows, layout.columns, (), (), "", tfhe.parameters())
    columns = {name: c for name, c in layout.columns.items() if name in filters or any(name in m for m in sums)}
    return choose_layout(
        layout.table,
        layout.rows,
        columns,
        filters,
        [Summand((m,), m) for m in sums],
        scheme="bgv",
        edition="w64",
        depth=None,
        conditions=None,
    )


def tell(layout: Layouts) -> list[tuple[str, str]]:
    """A line of `explain`."""
    filters, sums = _asked(layout)
    text = _typical(layout, filters, sums)
    while filters:  # as many conditions as the layout's depth serves
        try:
            plan_of(text, layout)
            break
        except SqlError:
            filters = filters[:-1]
            text = _typical(layout, filters, sums)
    said = []
    for own in (True, False):
        name = layout.parameters.scheme if own else "TFHE" if isinstance(layout, Layout) else "BGV"
        try:
            one = layout if own else _other(layout, filters, sums)
            cost = _trial(one, text)
        except _core.HeliographError as error:
            said.append(f"not by {name} ({error})")
            continue
        said.append(f"unknown by {name}" if cost.seconds is None else f"about {readable(cost.seconds)} by {name}")
    return [("forecast", f"{text}: {', '.join(said)}")]


foretellers.append(tell)
