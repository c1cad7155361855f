"""Quantiles of encrypted columns: the server counts the values below public limits, and the owner finds the quantiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from heliograph import _core, ckks
from heliograph._common.arguments import count_of
from heliograph._common.functions import concatenate
from heliograph.frame.answers import FINISHES, Moments, describe, group_keys, pandas
from heliograph.frame.functions import count_error, enough_levels, interval, is_number, limited, rows_of

_MOST_BINS = 4096
_TOGETHER = 8  #: ciphertexts compared in one call, or the ciphertexts of one limit
_PARTS = 4  #: gaps of a comparison in a bin


def order_sums(sums: Any, place: int, one: Any, weights: Any, bins: Any) -> dict[str, Any]:
    """Adds, for each limit and group, the number of values below the limit. Returns the limits, in the column's unit."""
    if count_of(bins, "bins", 2) > _MOST_BINS:
        raise _core.ParameterError(f"bins must be at most {_MOST_BINS:,}, got {bins}")
    low, high = interval(one, "a quantile")
    edges, gap = _limits(low, high, one.step, int(bins))
    v, rows = one.variable, one.parameters.rows
    places = (edges - v.offset) / v.scale
    relation = "<" if v.scale > 0 else ">"
    t = limited(one).reshape(1, *one.tensor.shape)
    mask = rows_of(one.parameters, "ckks")
    together = max(1, _TOGETHER // one.parameters.blocks("ckks"))
    for first in range(0, len(places), together):
        several = places[first : first + together].reshape(-1, 1, 1)
        with enough_levels("a quantile", one):
            below = ckks.compare(
                concatenate([t] * len(several)), relation, several, gap=gap / abs(v.scale), error=count_error(rows)
            )
            if one.valid is not None:
                below = below * one.valid
            elif not all(weights):
                below = below * mask
            _add(sums, place, first, below, weights)
    return {"low": low, "high": high, "edges": edges.tolist(), "gap": gap, "step": one.step}


def _add(sums: Any, place: int, first: int, below: Any, weights: Any) -> None:
    """Adds the sums over rows of values of 0 and 1, [limits, blocks], in each group."""
    for group, weight in enumerate(weights):
        if weight:
            counts = below.multiply(weight["ckks"], relinearize=False, rescale=False).sum(1).relinearize().rescale()
        else:
            counts = below.sum(1)
        for k in range(counts.shape[0]):
            sums.add("ckks", ("below", group, place, first + k), counts[k].reshape(1))


def _limits(low: float, high: float, step: float, bins: int) -> tuple[Any, float]:
    """Returns limits inside an interval, and the distance from a limit at which a comparison still distinguishes values from
    the limit.

    """
    if step and (steps := round((high - low) / step)) <= bins:
        return low + step * (np.arange(max(1, steps)) + 0.5), 0.49 * step
    width = (high - low) / bins
    edges = low + width * np.arange(1, bins)
    if step:  # edges are in the middle between two multiples of the step
        edges = (np.floor(edges / step) + 0.5) * step
    return edges, width / _PARTS


class _Order:
    """The order of a column's values in a group, from the counts of values below each limit."""

    def __init__(self, m: Moments, i: int, group: int) -> None:
        limits = m.header["limits"][i]
        numbers = [limits[name] for name in ("low", "high", "gap", "step")]
        if not isinstance(limits["edges"], list) or not all(is_number(n) for n in [*numbers, *limits["edges"]]):
            raise TypeError
        edges = np.array(limits["edges"], dtype=np.float64)
        self.low, self.high, self.gap, self.step = (float(n) for n in numbers)
        steps = (self.high - self.low) / self.step if self.step else 0.0
        if not edges.size or (np.diff(edges) <= 0).any() or self.gap < 0 or not 0 <= steps < 2.0**53:
            raise TypeError
        self.n, self.edges = m.count(i, None, group), edges
        self.below = np.array([m.sums[f"below {group} {i} {k}"] for k in range(len(edges))])

    def value(self, rank: int) -> tuple[float, float]:
        """Returns the value that has `rank` smaller values, and a bound on its error."""
        after = self.edges[self.below < rank + 0.75]  # the value is above these limits, less the gap
        before = self.edges[self.below > rank + 0.25]
        low = max([self.low, *(after - self.gap)])
        high = min([self.high, *(before + self.gap)])
        if self.step:
            first, last = math.ceil(low / self.step - 1e-6), math.floor(high / self.step + 1e-6)
            low, high = first * self.step, last * self.step
        if low > high:
            raise _core.NoiseError("the counts of a quantile contradict each other; choose a greater precision")
        # The position within a bin follows from the share of the bin's values that are smaller, as if the values were spread
        # evenly in the bin.
        at = np.concatenate([[self.low], self.edges, [self.high]])
        counts = np.maximum.accumulate(np.clip(np.concatenate([[0.0], self.below, [self.n]]), 0, self.n))
        k = int(np.searchsorted(counts, rank + 0.5, side="right")) - 1
        k = min(k, len(at) - 2)
        share = (rank + 0.5 - counts[k]) / max(counts[k + 1] - counts[k], 0.5)
        value = min(max(at[k] + share * (at[k + 1] - at[k]), low), high)
        if self.step:
            value = min(max(round(value / self.step) * self.step, low), high)
        return float(value), float(max(value - low, high - value))

    def quantile(self, q: float) -> tuple[float, float]:
        """Returns a quantile by linear interpolation, and the bound of its error; NaN without values."""
        if not self.n:
            return math.nan, math.nan
        place = q * (self.n - 1)
        below = min(math.floor(place), self.n - 1)
        share = place - below
        (a, error), (b, other) = self.value(below), self.value(min(below + 1, self.n - 1))
        return a * (1 - share) + b * share, error * (1 - share) + other * share


def _quantiles(m: Moments) -> Any:
    """Returns quantiles of columns or of their groups. ``attrs["error"]`` bounds the error of each column."""
    pd, header = pandas(), m.header
    shares = _shares(header)
    if header["groups"]:
        return _of_groups(m, shares)
    found = [[_Order(m, i, 0).quantile(q) for q in shares] for i in range(len(m.names))]
    values = np.array([[value for value, _ in several] for several in found])
    errors = {name: max(error for _, error in several) for name, several in zip(m.names, found, strict=True)}
    if header.get("single"):
        if not header["is_list"]:
            return float(values[0, 0])
        result = pd.Series(values[0], shares, name=m.names[0])
    elif not header["is_list"]:
        result = pd.Series(values[:, 0], m.names, name=shares[0] if header.get("label") else None)
    else:
        result = pd.DataFrame(values.T, shares, m.names)
    result.attrs["error"] = errors
    return result


def _shares(header: dict[str, Any]) -> list[float]:
    if not header["q"] or not all(is_number(q) and 0 <= q <= 1 for q in header["q"]):
        raise TypeError
    return [float(q) for q in header["q"]]


def _of_groups(m: Moments, shares: list[float]) -> Any:
    pd, header = pandas(), m.header
    kept = [g for g in range(len(header["groups"])) if m.rows(g)]
    keys = group_keys(m, kept)
    columns, errors = {}, {}
    for i, name in enumerate(m.names):
        found = [_Order(m, i, g).quantile(shares[0]) for g in kept]
        columns[name] = pd.Series([value for value, _ in found], keys, name=name, dtype=float)
        errors[name] = float(np.nanmax([0.0, *(error for _, error in found)]))
    result = columns[m.names[0]] if header["single"] else pd.DataFrame(columns, keys)
    result.attrs["error"] = errors
    return result


def _described(m: Moments) -> Any:
    """Adds quantiles to the moments, in the order of pandas."""
    table = describe(m)
    if "limits" not in m.header:
        return table
    pd, errors = pandas(), {}
    rows = {f"{100 * q:.10g}%": q for q in _shares(m.header)}
    rows = {"min": 0.0, **rows, "max": 1.0}
    columns = {}
    for i, name in enumerate(m.names):
        order = _Order(m, i, 0)
        found = [order.quantile(q) for q in rows.values()]
        columns[name] = [value for value, _ in found]
        errors[name] = max(error for _, error in found)
    result = pd.concat([table, pd.DataFrame(columns, list(rows))])
    result.attrs["error"] = errors
    return result


FINISHES["quantile"] = _quantiles
FINISHES["describe"] = _described
