"""`scheme` sets "bgv", "bfv" (slower than BGV for these queries) or "tfhe" instead."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from heliograph import _core, tfhe
from heliograph._common.columns import Column
from heliograph._common.functions import relinearize, shrink
from heliograph._common.process import cycles
from heliograph._common.sql_error import SqlError
from heliograph.keys import SecretKey, Server
from heliograph.programs.forecast import forecast, rates_of, recorded
from heliograph.sql.costs import FORECASTERS, Cost, readable
from heliograph.sql.monomials import Monomial, Summand, monomial_text
from heliograph.sql.slot_executor import BlockSums
from heliograph.sql.slot_layout import Layout, Part, choose_layout
from heliograph.sql.slot_plan import Plan
from heliograph.sql.table import Layouts, Plans, plan_of
from heliograph.sql.tfhe_executor import Rows
from heliograph.sql.tfhe_layout import IntegerLayout
from heliograph.sql.tfhe_plan import IntegerPlan

_SAMPLE = 64  # rows of a TFHE table that are traced; every other row takes as long as a traced row
_READS = 3  # readings of a piece of the table to measure its rate


def cost_of(plan: Plans, server: Server[Any], data_of: Callable[[Part], Any]) -> Cost:
    """Returns the forecast of a query, from a server's keys and a piece of each vector that the query reads."""
    if not plan.aggregates:
        return Cost(0.0, 0.0)
    if cycles() is not None:  # measuring a simulated card would take too long
        return Cost(None, None)
    try:
        data = data_of(plan.reads[0])
        reading = _reading(server, lambda: data_of(plan.reads[0])) / len(data) * plan.read_bytes
        computing = _of_blocks(plan, server, data) if isinstance(plan, Plan) else _of_rows(plan, server.keys)
    except _core.HeliographError:  # no forecast if memory or keys do not suffice
        return Cost(None, None)
    return Cost(None, None) if computing is None else Cost(computing + reading, reading)


def _reading(server: Server[Any], reader: Callable[[], Any]) -> float:
    """Measures the seconds to read a piece of a vector from its file."""
    times = []
    for _ in range(_READS):
        start = time.perf_counter()
        server.from_bytes(reader()).wait()
        times.append(time.perf_counter() - start)
    return min(times)


def _of_blocks(plan: Plan, server: Server[Any], data: Any) -> float | None:
    """Forecasts the products and sums of all blocks. Two ciphertexts represent all vectors, so that products are not counted
    as squares.
    """
    blocks = plan.layout.blocks
    examples = [server.from_bytes(data)[:1].broadcast_to((blocks,)) for _ in range(2)]

    def work(*vectors: Any) -> list[Any]:
        sums: dict[tuple[int, int], Any] = {}
        parts = plan.layout.parts
        BlockSums(plan, range(blocks), lambda part: vectors[parts.index(part) % 2]).add_to(sums)
        return [shrink(relinearize(one)) for one in sums.values()]

    return forecast(work, *examples).seconds


def _of_rows(plan: IntegerPlan, keys: Any) -> float | None:
    """Forecasts the circuits on all rows from the circuits on some rows."""
    layout = plan.layout
    rows = min(layout.rows, _SAMPLE)
    vectors = {part: tfhe.trivial(keys, np.zeros(rows, np.int64), layout.type_of(part)) for part in plan.reads}

    def work(*tensors: Any) -> list[Any]:
        vectors_by_part = dict(zip(vectors, tensors, strict=True))
        return [result for _, _, result in Rows(keys, plan, range(rows), vectors_by_part.__getitem__).numbers()]

    core, _ = recorded(work, *vectors.values())
    every = SimpleNamespace(calls=core.calls, products=core.products * layout.rows // rows)
    return rates_of(list(vectors.values())).seconds(every, None)


# Forecasts of layouts, with temporary keys


def _trial(layout: Layouts, text: str) -> Cost:
    """Forecasts a query on a table that does not exist."""
    plan = plan_of(text, layout)
    make: Any = SecretKey
    secret = make.generate(layout.parameters)
    if isinstance(layout, Layout):
        data = secret.encrypt(np.zeros((1, layout.parameters.slots), np.int64)).to_bytes()
    else:
        data = secret.encrypt(np.zeros(min(layout.rows, _SAMPLE), bool)).to_bytes()
    return cost_of(plan, Server(secret.evaluation_keys()), lambda part: data)


def _typical(layout: Layouts, filters: list[str], sums: list[Monomial]) -> str:
    """Returns a typical query: a sum over rows in which some columns are in the middle of their range."""
    conditions = [_middle(name, layout.columns[name]) for name in filters]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    aggregate = f"SUM({monomial_text(sums[0])})" if sums else "COUNT(*)"
    return f"SELECT {aggregate} FROM {layout.table}{where}"


def _middle(name: str, column: Column) -> str:
    """Returns a condition that half of a column's range meets."""
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


def _typical_columns(layout: Layouts) -> tuple[list[str], list[Monomial]]:
    """Returns filters and sums of a typical query: the announced filters and sums, or the first suitable columns."""
    if isinstance(layout, Layout):
        return list(layout.digits), list(layout.sums)
    numbers: list[Monomial] = [(name,) for name, c in layout.columns.items() if c.kind in ("int", "decimal")]
    return list(layout.filters) or list(layout.columns)[:1], list(layout.sums) or numbers[:1]


def _other(layout: Layouts, filters: list[str], sums: list[Monomial]) -> Layouts:
    """Returns the layout of the same table by the other scheme. Raises ParameterError if the other scheme has no layout for
    the table.

    """
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
        word_size=64,
        depth=None,
        conditions=None,
    )


def forecast_row(layout: Layouts) -> list[tuple[str, str]]:
    """Returns the label and the text of the forecast, as `explain` shows them."""
    filters, sums = _typical_columns(layout)
    text = _typical(layout, filters, sums)
    while filters:  # tries fewer conditions until the layout's depth allows the query
        try:
            plan_of(text, layout)
            break
        except SqlError:
            filters = filters[:-1]
            text = _typical(layout, filters, sums)
    forecasts = []
    for own in (True, False):
        name = layout.parameters.scheme if own else "TFHE" if isinstance(layout, Layout) else "BGV"
        try:
            one = layout if own else _other(layout, filters, sums)
            cost = _trial(one, text)
        except _core.HeliographError as error:
            forecasts.append(f"not by {name} ({error})")
            continue
        forecasts.append(f"unknown by {name}" if cost.seconds is None else f"about {readable(cost.seconds)} by {name}")
    return [("forecast", f"{text}: {', '.join(forecasts)}")]


FORECASTERS.append(forecast_row)
