"""Parser of SQL queries. The parser refuses a construct that encrypted tables do not answer, and names the construct."""

from __future__ import annotations

import calendar
import datetime
import decimal
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from heliograph import _core
from heliograph._common.arguments import described, printable
from heliograph._common.columns import EPOCH, Column
from heliograph._common.sql_error import SqlError
from heliograph.sql.conditions import MIRRORED, And, Comparison, Condition, Is, Or, Ranges, compared, negated, ranges_of
from heliograph.sql.monomials import Polynomial, added, constant, multiplied

_LONGEST = 1 << 14  # characters of a query
_DEEPEST = 100  # levels of nested expressions
_MOST_DEGREE, _MOST_MONOMIALS = 8, 64
_CLAUSES = {
    **{"joins": "JOIN", "laterals": "LATERAL", "with": "WITH", "with_": "WITH", "order": "ORDER BY", "limit": "LIMIT"},
    **{"offset": "OFFSET", "distinct": "DISTINCT", "having": "HAVING", "windows": "WINDOW", "qualify": "QUALIFY"},
    **{"into": "INTO", "locks": "FOR UPDATE", "sample": "TABLESAMPLE", "hint": "a hint", "pivots": "PIVOT"},
}
_NAMES = {"from", "from_", "where", "group", "expressions"}


@dataclass(frozen=True)
class Item:
    """An item of the SELECT list: a column of the groups, or an aggregate."""

    label: str  #: label in results
    function: str  #: "SUM", "COUNT", "AVG", "MIN", "MAX", or "" for a column of the groups
    column: str = ""  #: the column of a group, or of COUNT, MIN and MAX
    polynomial: tuple[tuple[tuple[str, ...], Fraction], ...] = ()  #: the argument of SUM and AVG
    names: tuple[str, ...] = ()  #: all columns of the argument; a row counts if none is NULL


@dataclass(frozen=True)
class Query:
    """A parsed query."""

    text: str
    items: tuple[Item, ...]
    where: Condition | None
    groups: tuple[str, ...]


def sqlglot_of() -> Any:
    """Returns the parser. Raises HeliographError if the parser is not installed."""
    try:
        import sqlglot
        import sqlglot.errors
        import sqlglot.expressions
    except ImportError:
        raise _core.HeliographError("cannot parse SQL: sqlglot is not installed; pip install 'heliograph[sql]'") from None
    return sqlglot


def _parsed(text: Any, what: str) -> Any:
    """Parses a statement with sqlglot. Raises SqlError, DtypeError."""
    sqlglot = sqlglot_of()
    if not isinstance(text, str):
        raise _core.DtypeError(f"{what} must be a string, got {type(text).__name__}")
    if len(text) > _LONGEST:
        raise SqlError(what, f"it must have at most {_LONGEST:,} characters, got {len(text):,}")
    try:
        several = [one for one in sqlglot.parse(text, read="duckdb") if one is not None]
    except (sqlglot.errors.SqlglotError, RecursionError, ValueError) as error:
        first = str(error).split("\n")[0][:200] if str(error) else type(error).__name__
        raise SqlError(what, f"it is not valid SQL: {printable(first)}") from None
    if len(several) != 1:
        raise SqlError(what, f"it must be one statement, got {len(several)}")
    return several[0]


def table_of(text: Any) -> str:
    """Returns the name of the table that a query reads; "" if the query names no table. Raises SqlError, DtypeError."""
    args = _parsed(text, "a query").args
    node = args.get("from_") or args.get("from")
    return str(node.this.name) if node is not None and hasattr(node.this, "name") else ""


def _name_of(node: Any) -> str:
    """Returns the name of a construct."""
    key = str(node.key).upper()
    return str(node.name).upper() if key == "ANONYMOUS" else key


class Reader:
    """Parses queries on one table."""

    def __init__(self, table: str, columns: Mapping[str, Column]) -> None:
        self._exp: Any = sqlglot_of().expressions
        self._table = table
        self._columns = columns
        self._names = {table.lower()}

    # The statement

    def query(self, text: str) -> Query:
        """Parses a SELECT. Raises SqlError, which names the unsupported construct."""
        exp, node = self._exp, _parsed(text, "a query")
        if not isinstance(node, exp.Select):
            raise SqlError(_name_of(node), "only SELECT is answered")
        for key, value in node.args.items():
            if value and key not in _NAMES:
                raise SqlError(_CLAUSES.get(key, key.upper().strip("_")), "encrypted tables do not answer it")
        self._from(node.args.get("from_") or node.args.get("from"))
        try:
            where, group = node.args.get("where"), node.args.get("group")
            condition = self._condition(where.this, False, 0) if where else None
            groups = self._groups(group) if group else ()
            items = tuple(self._item(one, groups) for one in node.expressions)
        except RecursionError:
            raise SqlError("a query", "its expressions are nested too deeply") from None
        if not any(item.function for item in items):
            raise SqlError("SELECT", "it must have a SUM, COUNT, AVG, MIN or MAX: single rows are not answered")
        return Query(text, items, condition, groups)

    def _from(self, node: Any) -> None:
        exp = self._exp
        if node is None:
            raise SqlError("FROM", f"a query must have FROM {self._table}")
        table = node.this
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise SqlError(_name_of(table), f"FROM must name the table {self._table} and nothing else")
        for key, value in table.args.items():
            if value and key not in ("this", "alias"):
                raise SqlError(_CLAUSES.get(key, key.upper()), "encrypted tables do not answer it")
        if table.name.lower() != self._table.lower():
            raise SqlError("FROM", f"there is no table {printable(table.name)}; the table is {self._table}")
        if table.alias:
            if table.args["alias"].args.get("columns"):
                raise SqlError("FROM", "aliases of columns are not supported; use the columns' own names")
            self._names = {table.alias.lower()}

    def _groups(self, node: Any) -> tuple[str, ...]:
        for key, value in node.args.items():
            if value and key != "expressions":
                raise SqlError(f"GROUP BY {key.upper()}", "GROUP BY must list columns")
        names = []
        for one in node.expressions:
            if not isinstance(one, self._exp.Column):
                raise SqlError("GROUP BY", f"it must list columns, got {printable(one.sql())}")
            names.append(self._column(one))
        return tuple(dict.fromkeys(names))

    def _item(self, node: Any, groups: tuple[str, ...]) -> Item:
        exp = self._exp
        label = node.alias if isinstance(node, exp.Alias) else node.sql(dialect="duckdb").lower()
        inner = node.this if isinstance(node, exp.Alias) else node
        if isinstance(inner, exp.Column):
            name = self._column(inner)
            if name not in groups:
                raise SqlError(name, "a column in SELECT must be in GROUP BY or inside an aggregate")
            return Item(label if isinstance(node, exp.Alias) else inner.name, "", name)
        if isinstance(inner, exp.Count):
            return self._count(inner, label)
        if isinstance(inner, (exp.Sum, exp.Avg)):
            function = "SUM" if isinstance(inner, exp.Sum) else "AVG"
            self._plain(inner, function)
            polynomial = self._polynomial(inner.this, 0)
            return Item(label, function, "", tuple(sorted(polynomial.items())), self._names_in(inner.this))
        if isinstance(inner, (exp.Min, exp.Max)):
            return self._extreme(inner, label)
        if isinstance(inner, exp.Star):
            raise SqlError(
                "*", "single rows are not answered; SELECT supports SUM, COUNT, AVG, MIN, MAX and columns of GROUP BY"
            )
        if isinstance(inner, (exp.Binary, exp.Paren, exp.Neg)) and inner.find(exp.AggFunc):
            raise SqlError(
                _name_of(inner),
                "SELECT does not compute with aggregates; select each one and compute with the decrypted results",
            )
        raise SqlError(_name_of(inner), "SELECT supports SUM, COUNT, AVG, MIN, MAX and columns of GROUP BY")

    def _plain(self, node: Any, function: str) -> None:
        """Requires an aggregate with one argument and no options."""
        if isinstance(node.this, self._exp.Distinct):
            raise SqlError(f"{function}(DISTINCT)", "encrypted tables do not answer it")
        for key, value in node.args.items():
            if value and key not in ("this", "big_int"):
                raise SqlError(f"{function} {key.upper()}", "an aggregate must have one argument and no options")

    def _count(self, node: Any, label: str) -> Item:
        self._plain(node, "COUNT")
        if node.this is None or isinstance(node.this, self._exp.Star):
            if node.this is not None and any(node.this.args.values()):
                raise SqlError("COUNT(* ...)", "the argument of COUNT must be * or a column")
            return Item(label, "COUNT")
        if not isinstance(node.this, self._exp.Column):
            raise SqlError("COUNT", f"its argument must be * or a column, got {printable(node.this.sql())}")
        name = self._column(node.this)
        return Item(label, "COUNT", name, (), (name,))

    def _extreme(self, node: Any, label: str) -> Item:
        function = _name_of(node)
        self._plain(node, function)
        if not isinstance(node.this, self._exp.Column):
            raise SqlError(function, f"its argument must be a column, got {printable(node.this.sql())}")
        name = self._column(node.this)
        return Item(label, function, name, (), (name,))

    def _column(self, node: Any) -> str:
        """Returns a column's name in the table. Names are case-insensitive, as in SQL."""
        for key in ("db", "catalog"):
            if node.args.get(key):
                raise SqlError(printable(node.sql()), f"a column must be of the table {self._table}, without a schema")
        if not isinstance(node.this, self._exp.Identifier):
            raise SqlError(_name_of(node.this), "a column must be given by its name")
        if node.table and node.table.lower() not in self._names:
            raise SqlError(printable(node.sql()), f"there is no table {printable(node.table)} in FROM")
        if node.name in self._columns:
            return str(node.name)
        matches = [name for name in self._columns if name.lower() == node.name.lower()]
        if len(matches) != 1:
            there = ", ".join(self._columns)
            raise SqlError(printable(node.name), f"the table has no such column; its columns are {printable(there)}"[:400])
        return matches[0]

    # Sums

    def summand(self, text: str) -> tuple[Polynomial, tuple[str, ...]]:
        """Parses an expression to sum. Returns the expression's polynomial and all its columns, including columns that
        cancel. Raises SqlError.

        """
        node = _parsed(f"SELECT {text}" if isinstance(text, str) else text, "a sum")
        exp = self._exp
        if (
            not isinstance(node, exp.Select)
            or len(node.expressions) != 1
            or any(value for key, value in node.args.items() if key != "expressions")
        ):
            raise SqlError(described(text), "a sum must be one expression of columns")
        return self._polynomial(node.expressions[0], 0), self._names_in(node.expressions[0])

    def _names_in(self, node: Any) -> tuple[str, ...]:
        """Returns all columns of an expression."""
        return tuple(sorted({self._column(column) for column in node.find_all(self._exp.Column)}))

    def _polynomial(self, node: Any, depth: int) -> Polynomial:
        exp = self._exp
        if depth > _DEEPEST:
            raise SqlError("an expression", "it is nested too deeply")
        if isinstance(node, exp.Paren):
            return self._polynomial(node.this, depth + 1)
        if isinstance(node, exp.Neg):
            return multiplied(constant(Fraction(-1)), self._polynomial(node.this, depth + 1))
        if isinstance(node, exp.Literal) and not node.is_string:
            return constant(_number(node.this))
        if isinstance(node, exp.Column):
            name = self._column(node)
            kind = self._columns[name].kind
            if kind not in ("int", "decimal", "bool"):
                raise SqlError(name, f"a column of {kind} cannot be summed; sums are of int and decimal columns")
            if kind == "bool":
                raise SqlError(name, "truth values cannot be summed; count them by WHERE and COUNT(*)")
            return {(name,): Fraction(1)}
        steps: dict[Any, Callable[[Polynomial, Polynomial], Polynomial]] = {
            exp.Add: added,
            exp.Sub: lambda a, b: added(a, b, -1),
            exp.Mul: multiplied,
        }
        if type(node) not in steps:
            raise SqlError(_name_of(node), "a summed expression may have only columns, numbers, +, - and *")
        return _bounded(
            steps[type(node)](self._polynomial(node.this, depth + 1), self._polynomial(node.expression, depth + 1))
        )

    # Conditions

    def _condition(self, node: Any, no: bool, depth: int) -> Condition:
        """Parses a condition, or its negation if `no` is true: NOT is applied to the comparisons."""
        exp = self._exp
        if depth > _DEEPEST:
            raise SqlError("WHERE", "its conditions are nested too deeply")
        if isinstance(node, exp.Paren):
            return self._condition(node.this, no, depth + 1)
        if isinstance(node, exp.Not):
            return self._condition(node.this, not no, depth + 1)
        if isinstance(node, (exp.And, exp.Or)):
            both = [self._condition(one, no, depth + 1) for one in (node.this, node.expression)]
            return (And if isinstance(node, exp.And) != no else Or).of(both)
        comparison = self._comparison(node)
        return negated(comparison) if no else comparison

    def condition(self, text: Any) -> Condition:
        """Parses a condition of WHERE by itself. Raises SqlError, DtypeError."""
        node = _parsed(f"SELECT 1 WHERE {text}" if isinstance(text, str) else text, "a condition")
        where = node.args.get("where") if isinstance(node, self._exp.Select) else None
        if where is None or any(value for key, value in node.args.items() if key not in ("expressions", "where")):
            raise SqlError(described(text), "a condition must be an expression as in WHERE")
        try:
            return self._condition(where.this, False, 0)
        except RecursionError:
            raise SqlError("a condition", "it is nested too deeply") from None

    def _comparison(self, node: Any) -> Condition:
        exp = self._exp
        signs = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
        if type(node) in signs:
            return self._compared(node.this, signs[type(node)], node.expression)
        if isinstance(node, exp.Between):
            if node.args.get("symmetric"):
                raise SqlError("BETWEEN SYMMETRIC", "encrypted tables do not answer it")
            low, high = node.args["low"], node.args["high"]
            if not node.this.find(exp.Column):
                self._required_column(node.this, "BETWEEN")
            return And.of([self._compared(node.this, ">=", low), self._compared(node.this, "<=", high)])
        if isinstance(node, exp.In):
            if not node.expressions or node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
                raise SqlError("IN", "it must have a list of values in parentheses")
            if not node.this.find(exp.Column):
                self._required_column(node.this, "IN")
            return Or.of([self._compared(node.this, "=", one) for one in node.expressions])
        if isinstance(node, exp.Is):
            name = self._required_column(node.this, "IS")
            if not isinstance(node.expression, exp.Null):
                raise SqlError(f"IS {_name_of(node.expression)}", "only IS NULL and IS NOT NULL are answered")
            return Is(name, Ranges((), True))
        if isinstance(node, exp.Column):
            name = self._column(node)
            if self._columns[name].kind == "bool":
                return Is(name, compared(self._columns[name], "=", True, name))
        raise SqlError(
            _name_of(node), "conditions support =, <>, <, <=, >, >=, BETWEEN, IN, IS NULL of a column, and AND, OR, NOT"
        )

    def _required_column(self, node: Any, what: str) -> str:
        inner = _without_parentheses(node, self._exp)
        if not isinstance(inner, self._exp.Column):
            raise SqlError(what, f"it must compare a column with a value, got {printable(node.sql())[:100]}")
        return self._column(inner)

    def _compared(self, left: Any, sign: str, right: Any) -> Condition:
        """Parses a comparison with a constant to a set of values, and a comparison of two columns to a Comparison."""
        exp = self._exp
        left, right = _without_parentheses(left, exp), _without_parentheses(right, exp)
        if not isinstance(left, exp.Column) and right.find(exp.Column):
            left, right, sign = right, left, MIRRORED[sign]
        if not left.find(exp.Column):
            self._required_column(left, sign)
        if isinstance(left, exp.Column) and not right.find(exp.Column):
            name = self._column(left)
            return Is(name, compared(self._columns[name], sign, self._value(right, 0), name))
        text = printable(f"{left.sql(dialect='duckdb')} {sign} {right.sql(dialect='duckdb')}")[:200]
        texts = [self._quoted(one) if isinstance(one, exp.Column) else "" for one in (left, right)]
        if any(name and self._columns[name].kind == "text" for name in texts):
            if not all(name and self._columns[name].kind == "text" for name in texts):
                raise SqlError(text, "a text can only be compared with a text")
            return Comparison(text, sign, tuple(sorted(set(texts))), (), (texts[0], texts[1]))
        (one, kind), (other, other_kind) = self._term(left, 0), self._term(right, 0)
        if kind != other_kind or (kind == "bool" and sign not in ("=", "<>")):
            raise SqlError(text, f"a {kind} and a {other_kind} cannot be compared by {sign}")
        names = tuple(sorted({*self._names_in(left), *self._names_in(right)}))
        return self._set_of(Comparison(text, sign, names, tuple(sorted(added(one, other, -1).items()))))

    def _set_of(self, comparison: Comparison) -> Condition:
        """Converts a comparison that is linear in one column to a set of the column's values."""
        factors = dict(comparison.difference)
        rest = factors.pop((), Fraction(0))
        name = comparison.names[0]
        if len(comparison.names) > 1 or set(factors) - {(name,)}:
            return comparison
        if not factors:  # the column cancels, so the set has all values or none; NULL gives UNKNOWN
            every = any(low <= 0 <= high for low, high in ranges_of(comparison.sign, -rest).ranges)
            return Is(name, Ranges(((-math.inf, math.inf),) if every else (), None))
        factor = factors[(name,)]
        sign = comparison.sign if factor > 0 else MIRRORED[comparison.sign]
        return Is(name, ranges_of(sign, -rest / factor * 10 ** self._columns[name].places))

    def _term(self, node: Any, depth: int) -> tuple[Polynomial, str]:
        """Parses a side of a comparison of columns. Returns the side's polynomial and kind: number, date (in days
        since 1970) or bool.
        """
        exp = self._exp
        node = _without_parentheses(node, exp)
        if depth > _DEEPEST:
            raise SqlError("an expression", "it is nested too deeply")
        if isinstance(node, exp.Column):
            return self._column_term(node)
        if not node.find(exp.Column):
            value = self._value(node, 0)
            if isinstance(value, Fraction):
                return constant(value), "number"
            if isinstance(value, bool):
                return constant(Fraction(int(value))), "bool"
            return constant(Fraction((_day(value) - EPOCH).days)), "date"
        if isinstance(node, exp.Neg):
            inner, kind = self._term(node.this, depth + 1)
            if kind == "number":
                return multiplied(constant(Fraction(-1)), inner), kind
        if isinstance(node, (exp.Add, exp.Sub, exp.Mul)):
            left, kind = self._term(node.this, depth + 1)
            sign, right = -1 if isinstance(node, exp.Sub) else 1, _without_parentheses(node.expression, exp)
            if isinstance(right, exp.Interval) and kind == "date" and not isinstance(node, exp.Mul):
                days = (self._shifted(EPOCH, right, sign, ("DAY", "WEEK")) - EPOCH).days
                return added(left, constant(Fraction(days))), kind
            other, other_kind = self._term(right, depth + 1)
            if isinstance(node, exp.Mul) and kind == other_kind == "number":
                return _bounded(multiplied(left, other)), kind
            kinds = {("number", "number"): "number", ("date", "number"): "date"}
            kinds |= {("date", "date"): "number"} if sign < 0 else {("number", "date"): "date"}
            if not isinstance(node, exp.Mul) and (kind, other_kind) in kinds:
                return _bounded(added(left, other, sign)), kinds[kind, other_kind]
        raise SqlError(
            _name_of(node),
            "a side of a comparison may have only columns, values, +, - and *; dates only with dates and days",
        )

    def _quoted(self, node: Any) -> str:
        """Returns a column's name. Raises SqlError for a text in double quotes."""
        if node.this.args.get("quoted") and node.name.lower() not in {name.lower() for name in self._columns}:
            raise SqlError(f'"{printable(node.name)}"', "no column has this name; write a text in single quotes")
        return self._column(node)

    def _column_term(self, node: Any) -> tuple[Polynomial, str]:
        name = self._quoted(node)
        kind = self._columns[name].kind
        if kind == "text":
            raise SqlError(name, "a text can only be compared with a text")
        return {(name,): Fraction(1)}, kind if kind in ("date", "bool") else "number"

    def _value(self, node: Any, depth: int) -> Any:
        exp = self._exp
        node = _without_parentheses(node, exp)
        if depth > _DEEPEST:
            raise SqlError("an expression", "it is nested too deeply")
        if isinstance(node, exp.Literal):
            return str(node.this) if node.is_string else _number(node.this)
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Null):
            raise SqlError("NULL", "no comparison with NULL is true; use IS NULL")
        if isinstance(node, exp.Neg):
            inner = self._value(node.this, depth + 1)
            if isinstance(inner, Fraction):
                return -inner
        if isinstance(node, (exp.Cast, exp.TsOrDsToDate, exp.Date)) and not isinstance(node, exp.TryCast):
            inner, to = self._value(node.this, depth + 1), node.args.get("to")
            if (to is None or to.is_type("date")) and isinstance(inner, (str, datetime.date)):
                return _day(inner)
        if isinstance(node, (exp.Add, exp.Sub, exp.Mul)):
            left = self._value(node.this, depth + 1)
            sign = -1 if isinstance(node, exp.Sub) else 1
            right = _without_parentheses(node.expression, exp)
            if isinstance(right, exp.Interval) and not isinstance(node, exp.Mul) and isinstance(left, (str, datetime.date)):
                return self._shifted(_day(left), right, sign)
            other = self._value(right, depth + 1)
            if isinstance(left, Fraction) and isinstance(other, Fraction):
                return left * other if isinstance(node, exp.Mul) else left + sign * other
        raise SqlError(_name_of(node), f"a column must be compared with a value, got {printable(node.sql())[:100]}")

    def _shifted(
        self, day: datetime.date, interval: Any, sign: int, units: tuple[str, ...] = ("DAY", "WEEK", "MONTH", "YEAR")
    ) -> datetime.date:
        """Returns a date plus or minus an interval in one of the units."""
        unit = str(interval.args.get("unit") or "").upper().rstrip("S")
        try:
            if unit not in units:
                raise ValueError
            count = sign * int(str(interval.this.name))
            if unit in ("DAY", "WEEK"):
                return day + datetime.timedelta(days=count * (7 if unit == "WEEK" else 1))
            if unit in ("MONTH", "YEAR"):
                months = day.year * 12 + day.month - 1 + count * (12 if unit == "YEAR" else 1)
                year, month = divmod(months, 12)
                return datetime.date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))
        except (ValueError, OverflowError, AttributeError):
            pass
        raise SqlError("INTERVAL", f"it must be a whole number of {', '.join(units)}, got {printable(interval.sql())[:100]}")


def _bounded(polynomial: Polynomial) -> Polynomial:
    if len(polynomial) > _MOST_MONOMIALS or any(len(monomial) > _MOST_DEGREE for monomial in polynomial):
        raise SqlError(
            "an expression", f"it may have at most {_MOST_MONOMIALS} products of at most {_MOST_DEGREE} columns each"
        )
    return polynomial


def _without_parentheses(node: Any, exp: Any) -> Any:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _number(text: str) -> Fraction:
    """Parses a numeric literal. The exponent is limited because a large one would exhaust memory."""
    try:
        number = decimal.Decimal(text)
        if number.is_finite() and abs(number.adjusted()) < 40 and len(text) < 80:
            return Fraction(number)
    except (decimal.InvalidOperation, ValueError):
        pass
    raise SqlError("a number", f"{printable(text)[:80]} must be a decimal number of less than 80 characters, below 1e40")


def _day(value: str | datetime.date) -> datetime.date:
    try:
        return value if isinstance(value, datetime.date) else datetime.date.fromisoformat(value)
    except ValueError:
        raise SqlError("DATE", f"a date must be a valid day as YYYY-MM-DD, got {described(value)}") from None
