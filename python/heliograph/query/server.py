"""The party that answers queries on encrypted tables, and what its answers become at the owner's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from heliograph import _core
from heliograph._arrays import Buffer, path_of, printable, readable_bytes
from heliograph._container import replacing
from heliograph._html import Shown
from heliograph._shapes import Progress
from heliograph.exact import EvaluationKeys, SecretKey, Tensor, encode
from heliograph.functions import dot, relinearize, shrink
from heliograph.functions import sum as total_of
from heliograph.keys import Server, from_bytes
from heliograph.query.columns import Value, scaled
from heliograph.query.containers import Parts, pieces, source_of
from heliograph.query.errors import SqlError
from heliograph.query.layout import Layout, Part
from heliograph.query.monomials import nullable, places_of
from heliograph.query.plan import ROWS, ZERO, Linear, Plan, Total, key_values, made_plan
from heliograph.query.sql import Item, Reader, table_of
from heliograph.query.table import EncryptedTable

TYPE = "heliograph.query.answer"
_EVERY: Linear = ((ROWS, 1),)


class SqlServer:
    """Answers queries on encrypted tables of one key. It has evaluation keys and no secret.

    `limit` bounds one tensor read from a table, as `hg.Server` has it.

    >>> server = hg.query.SqlServer(secret.evaluation_keys())
    >>> server.add(table)
    >>> answer = server.sql("SELECT SUM(salary) AS total, COUNT(*) FROM t WHERE age < 30")
    >>> answer.decrypt(secret).rows
    [(8300, 3)]
    """

    def __init__(self, keys: EvaluationKeys, *, limit: int | None = None) -> None:
        self._server = Server(keys, limit=limit)
        if not isinstance(keys, EvaluationKeys):
            raise _core.DtypeError(f"tables are of BGV or BFV, not of {self._server.parameters.scheme}")
        self._tables: dict[str, EncryptedTable] = {}

    @property
    def keys(self) -> EvaluationKeys:
        """The evaluation keys."""
        found: EvaluationKeys = self._server.keys
        return found

    @property
    def tables(self) -> list[str]:
        """Names of its tables."""
        return [table.layout.table for table in self._tables.values()]

    def add(self, table: EncryptedTable) -> None:
        """A table to answer for; one of its name gives way. Raises WrongKeyError, MismatchError for one of another key.

        >>> server.add(table)
        >>> server.tables
        ['t']
        """
        if not isinstance(table, EncryptedTable):
            raise _core.DtypeError(f"a server answers for encrypted tables, not for {type(table).__name__}")
        if table.layout.parameters != self._server.parameters:
            raise _core.MismatchError("the table is of other parameters than this server's keys")
        if table.key_id != self.keys.id:
            raise _core.WrongKeyError(
                f"the table is of key {printable(table.key_id[:8])}, this server's keys are of {self.keys.id[:8]}"
            )
        self._tables[table.layout.table.lower()] = table

    def load(self, path: Any) -> EncryptedTable:
        """A table from a file, added. Raises as `EncryptedTable.load` and `add`.

        >>> table.save("t.hg")
        >>> server.load("t.hg").layout.rows
        6
        """
        table = EncryptedTable.load(path)
        self.add(table)
        return table

    def _table(self, text: str) -> EncryptedTable:
        name = table_of(text)
        found = self._tables.get(name.lower())
        if found is None and len(self._tables) == 1 and not name:
            found = next(iter(self._tables.values()))  # its reader says what is wrong
        if found is None:
            there = ", ".join(self.tables) or "none"
            raise SqlError("FROM", f"there is no table {printable(name)[:100]}; there is {there}")
        return found

    def plan(self, text: str) -> Plan:
        """How a query is computed. Raises SqlError.

        >>> print(server.plan("SELECT COUNT(*) FROM t").totals)
        0
        """
        return self._table(text).plan(text)

    def sql(self, text: str, *, progress: Progress | None = None) -> Answer:
        """The encrypted answer to a query.

        WHERE takes =, <>, <, <=, >, >=, BETWEEN, IN, IS NULL of a column and what is known, AND, OR and NOT; SELECT takes SUM and
        AVG of polynomials in columns, COUNT of * or a column, columns of GROUP BY. Raises SqlError, which names what else there
        is; DamagedFileError, WrongKeyError, LimitError where the table is not what it says.

        >>> server.sql("SELECT AVG(salary) FROM t WHERE age BETWEEN 30 AND 40").decrypt(secret).rows
        [(3900.0,)]
        >>> server.sql("SELECT SUM(salary) FROM t WHERE name LIKE 'A%'")
        Traceback (most recent call last):
            ...
        heliograph.SqlError: LIKE: conditions are ...
        """
        table = self._table(text)
        plan = table.plan(text)
        sums: dict[tuple[int, int], Tensor] = {}
        for span in range(table.spans):
            _Span(self._server, table, plan, span).add_to(sums)
            if progress is not None:
                progress((span + 1) / table.spans)
        # each a tensor of its own: to be one, BGV's would be brought to one factor, which takes as much noise as a product
        made = [shrink(relinearize(sums[key])) for key in sorted(sums)]
        if (
            not made and table.layout.parts
        ):  # nothing is encrypted in it: a tensor of no ciphertexts, which names the parameters
            made = [self._server.from_bytes(table.data_of(table.layout.parts[0], 0))[:0]]
        return Answer(plan, self.keys.id, made)

    def __repr__(self) -> str:
        return f"<server of tables {', '.join(self.tables) or 'none yet'}: {self.keys!r}>"


class _Span:
    """A query on some blocks of rows. What is computed is forgotten at its last use."""

    def __init__(self, server: Server[Any], table: EncryptedTable, plan: Plan, span: int) -> None:
        self._server, self._table, self._plan, self._span = server, table, plan, span
        self._blocks = table.blocks(span)
        self._masks: dict[Linear, Tensor] = {}  # of degree one
        self._nodes: dict[int, Tensor] = {}
        self._limbs: dict[Part, Tensor] = {}
        self._uses: Counter[Linear] = Counter()
        self._node_uses: Counter[int] = Counter()
        for node in plan.graph.nodes:
            if isinstance(node, tuple):
                self._uses.update(node)
        self._uses.update(t.mask for t in plan.asked)
        for linear in self._uses:
            self._node_uses.update(node for node, _ in linear)

    def add_to(self, sums: dict[tuple[int, int], Tensor]) -> None:
        """This span's sums to those of the others: by total, and by which stretch of blocks."""
        for number, asked in enumerate(self._plan.asked):
            for stretch, made in self._sums(asked):
                key = number, stretch
                sums[key] = sums[key] + made if key in sums else made

    def _sums(self, asked: Total) -> Iterator[tuple[int, Tensor]]:
        """Of each stretch of blocks that goes into one ciphertext."""
        mask = None if asked.mask == _EVERY else self._mask(asked.mask, asked.part is not None)
        values = None if asked.part is None else self._values(asked.part)
        start = self._blocks.start
        while start < self._blocks.stop:
            stretch = start // asked.together
            stop = min(self._blocks.stop, (stretch + 1) * asked.together)
            at = slice(start - self._blocks.start, stop - self._blocks.start)
            if mask is None or values is None:
                one = values if mask is None else mask
                assert one is not None
                yield stretch, total_of(one[at], 0)
            else:
                yield stretch, dot(mask[at], values[at])
            start = stop

    def _values(self, part: Part) -> Tensor:
        if part not in self._limbs:
            self._limbs[part] = self._read(part)
        return self._limbs[part]

    def _read(self, part: Part) -> Tensor:
        made: Tensor = self._server.from_bytes(self._table.data_of(part, self._span))
        if made.shape != (len(self._blocks),) or made._core.packing != "slots" or made.degree != 1:
            raise _core.DamagedFileError(f"a vector of this table is none: {part}")
        return made

    def _mask(self, linear: Linear, factor: bool) -> Tensor:
        """A sum of nodes; as a factor of degree one, so that it is relinearized once."""
        if linear in self._masks:
            made = self._masks[linear]
        else:
            made = self._summed(linear)
            for node, _ in linear:
                self._node_uses[node] -= 1
                if not self._node_uses[node]:
                    self._nodes.pop(node, None)
        if factor and made.degree > 1:
            made = relinearize(made)
        self._uses[linear] -= 1
        if self._uses[linear]:
            self._masks[linear] = made
        else:
            self._masks.pop(linear, None)
        return made

    def _summed(self, linear: Linear) -> Tensor:
        found: Tensor | None = None
        constant = 0
        for node, factor in linear:
            if node == ROWS:
                constant = factor
                continue
            one = self._node(node)
            if found is None:
                found = one if factor == 1 else -one if factor == -1 else one * factor
            else:
                found = found + one if factor == 1 else found - one if factor == -1 else found + one * factor
        if found is None:
            raise _core.InternalError("a sum of no vectors")
        return self._plus_rows(found, constant) if constant else found

    def _plus_rows(self, found: Tensor, constant: int) -> Tensor:
        """Plus a number in each row of the table; what stands behind the rows stays 0."""
        layout = self._table.layout
        slots = layout.parameters.slots
        if self._blocks.stop * slots <= layout.rows:
            return found + constant
        rows = np.arange(self._blocks.start * slots, self._blocks.stop * slots) < layout.rows
        return found + encode(layout.parameters, constant * rows.reshape(-1, slots).astype(np.int64))

    def _node(self, node: int) -> Tensor:
        if node not in self._nodes:
            what = self._plan.graph.nodes[node]
            if isinstance(what, Part):
                self._nodes[node] = self._read(what)
            else:
                assert what is not None
                a, b = (self._mask(linear, True) for linear in what)
                self._nodes[node] = a * b
        return self._nodes[node]


@dataclass(frozen=True)
class Result(Shown):
    """A decrypted answer: what SQL gives, NULL as None. Integers and decimals are exact, averages are floats.

    >>> result = answer.decrypt(secret)
    >>> result.columns, result.rows
    (['total', 'count(*)'], [(8300, 3)])
    """

    columns: list[str]  #: labels
    rows: list[tuple[Any, ...]]  #: in the order of the groups' values

    def to_dict(self) -> dict[str, list[Any]]:
        """A list for each column; the later one of two of a label.

        >>> result.to_dict()
        {'total': [8300], 'count(*)': [3]}
        """
        return {name: [row[at] for row in self.rows] for at, name in enumerate(self.columns)}

    def to_pandas(self) -> Any:
        """A pandas.DataFrame.

        >>> result.to_pandas().shape
        (1, 2)
        """
        try:
            import pandas
        except ImportError:
            raise _core.HeliographError("data frames are pandas's: pip install pandas") from None
        return pandas.DataFrame(self.rows, columns=self.columns)

    def to_arrow(self) -> Any:
        """A pyarrow.Table.

        >>> result.to_arrow().num_rows
        1
        """
        try:
            import pyarrow
        except ImportError:
            raise _core.HeliographError("Arrow's tables are pyarrow's: pip install 'heliograph[query]'") from None
        return pyarrow.table({name: pyarrow.array(values) for name, values in self.to_dict().items()})


class Answer(Shown):
    """An encrypted answer. Made by `SqlServer.sql`.

    >>> answer.sql[:18], answer.key_id == secret.id
    ('SELECT SUM(salary)', True)
    >>> hg.query.Answer.from_bytes(answer.to_bytes()).decrypt(secret).rows
    [(8300, 3)]
    """

    def __init__(self, plan: Plan, key_id: str, tensors: list[Tensor]) -> None:
        self.plan = plan  #: how it was computed, or is said to have been
        self.key_id = key_id  #: which key it is of
        self._tensors = tensors

    @property
    def sql(self) -> str:
        """The query."""
        return self.plan.query.text

    @property
    def nbytes(self) -> int:
        """Bytes of its ciphertexts in memory."""
        return sum(tensor.nbytes for tensor in self._tensors)

    @property
    def noise_budget(self) -> float | None:
        """Bits of noise that are left, an estimate; None where nothing is encrypted in it, or nobody knows."""
        budgets = [tensor.noise_budget for tensor in self._tensors if tensor.size]
        return None if not budgets or None in budgets else min(b for b in budgets if b is not None)

    def explain(self) -> str:
        """As `Plan.explain`, with what it came to.

        >>> "noise" in answer.explain()
        True
        """
        budget = self.noise_budget
        left = "unknown" if budget is None else f"{budget:.0f} bits left"
        return f"{self.plan.explain()}\n{'noise':>10}  {left}\n{'size':>10}  {readable_bytes(self.nbytes)}"

    def decrypt(self, secret: SecretKey, *, sql: str | None = None) -> Result:
        """The result, by the table's secret key. With `sql`, only of this query.

        Raises WrongKeyError, MismatchError for another key or another query, NoiseError for what cannot be right. A server that
        does not follow the protocol can answer with anything: nothing here proves what was computed.

        >>> answer.decrypt(secret).rows
        [(8300, 3)]
        """
        if not isinstance(secret, SecretKey):
            raise _core.DtypeError(f"answers are decrypted by a secret key of BGV or BFV, not {type(secret).__name__}")
        if sql is not None and sql != self.sql:
            raise _core.MismatchError(f"this is the answer to another query: {printable(self.sql)[:200]}")
        if self.key_id != secret.id:
            raise _core.WrongKeyError(f"the answer is of key {printable(self.key_id[:8])}, this one is {secret.id[:8]}")
        values: list[int] = []
        for tensor in self._tensors:
            slots = secret.decrypt(tensor.reshape(-1))
            values += [int(row.sum()) if row.dtype != object else sum(row.tolist()) for row in slots]
        if len(values) != self.plan.results:
            raise _core.DamagedFileError(f"this answer has {len(values)} ciphertexts, and its query {self.plan.results}")
        totals, at = [], 0
        for asked in self.plan.asked:
            count = -(-self.plan.layout.blocks // asked.together)
            totals.append(sum(values[at : at + count]))
            at += count
        return _Reading(self.plan, totals).result()

    def to_bytes(self) -> bytes:
        """The answer as a file's bytes.

        >>> len(answer.to_bytes()) > 1000
        True
        """
        return b"".join(bytes(piece) for piece in self._pieces())

    def save(self, path: Any) -> None:
        """Writes a file, all or nothing.

        >>> answer.save("answer.hg")
        >>> hg.query.Answer.load("answer.hg").decrypt(secret).rows
        [(8300, 3)]
        """
        with replacing(path_of(path)) as file:
            for piece in self._pieces():
                file.write(piece)

    def _pieces(self) -> Iterator[Any]:
        parts = [tensor.to_bytes() for tensor in self._tensors]
        header = {"key": self.key_id, "layout": self.plan.layout.data(), "sql": self.sql}
        return pieces(TYPE, header, parts, [len(part) for part in parts])

    @classmethod
    def load(cls, path: Any) -> Answer:
        """Reads `save`. Raises FormatError, DamagedFileError, VersionError.

        >>> answer.save("answer.hg")
        >>> hg.query.Answer.load("answer.hg").sql == answer.sql
        True
        """
        return cls._of(Parts(path_of(path), TYPE))

    @classmethod
    def from_bytes(cls, data: Buffer) -> Answer:
        """Reads `to_bytes`. Raises as `load`.

        >>> hg.query.Answer.from_bytes(answer.to_bytes()).key_id == secret.id
        True
        """
        return cls._of(Parts(source_of(data), TYPE))

    @classmethod
    def _of(cls, parts: Parts) -> Answer:
        header = parts.header
        if set(header) != {"key", "layout", "sql"} or not all(isinstance(header[name], str) for name in ("key", "sql")):
            raise _core.DamagedFileError("this file's header is not one of an answer")
        tensors: list[Any] = [from_bytes(parts[number]) for number in range(len(parts))]
        if not tensors or not all(isinstance(tensor, Tensor) for tensor in tensors):
            raise _core.DamagedFileError("an answer holds tensors of BGV or BFV")
        layout = Layout.of_data(header["layout"], tensors[0].parameters)
        try:
            plan = made_plan(Reader(layout.table, layout.columns).query(header["sql"]), layout)
        except SqlError as error:
            raise _core.DamagedFileError(f"this answer's query is none of its table: {error}") from None
        return cls(plan, header["key"], tensors)

    def _rows(self) -> list[tuple[str, str]]:
        lines = (line.strip().partition("  ") for line in self.explain().split("\n"))
        return [(label, text.strip()) for label, _, text in lines]

    def __repr__(self) -> str:
        return (
            f"<answer of {self.plan.results} ciphertexts, {readable_bytes(self.nbytes)}, key {printable(self.key_id[:8])}>"
        )


class _Reading:
    """A plan's totals as the rows of its query."""

    def __init__(self, plan: Plan, totals: list[int]) -> None:
        self._plan, self._totals = plan, totals

    def result(self) -> Result:
        plan = self._plan
        rows = []
        for group, key in enumerate(plan.keys):
            if plan.query.groups and not self._count(group, ()):
                continue
            shown = dict(zip(plan.query.groups, key_values(plan, key), strict=True))
            rows.append(tuple(self._value(group, item, shown) for item in plan.query.items))
        return Result([item.label for item in plan.query.items], rows)

    def _total(self, number: int) -> int:
        return 0 if number == ZERO else self._totals[number]

    def _count(self, group: int, null: tuple[str, ...]) -> int:
        number = self._plan.counts[group, null]
        return self._plan.layout.rows if number is None else self._total(number)

    def _value(self, group: int, item: Item, shown: dict[str, Value]) -> Any:
        columns = self._plan.layout.columns
        if not item.function:
            return shown[item.column]
        if item.function == "COUNT":
            return self._count(group, nullable([item.column] if item.column else [], columns))
        count = self._count(group, nullable([name for monomial, _ in item.polynomial for name in monomial], columns))
        if not count:
            return None
        found, places = Fraction(0), 0
        for monomial, factor in item.polynomial:
            number = count if not monomial else self._sum(group, monomial)
            own = places_of(monomial, columns)
            found += factor * Fraction(number, 10**own)
            places = max(places, own + _places(factor))
        if item.function == "AVG":
            return float(found / count)
        return scaled(int(found * 10**places), places) if places else int(found)

    def _sum(self, group: int, monomial: tuple[str, ...]) -> int:
        layout = self._plan.layout
        limbs = range(layout.limbs(monomial))
        return sum(self._total(self._plan.sums[group, monomial, limb]) << (layout.limb_bits * limb) for limb in limbs)


def _places(factor: Fraction) -> int:
    """After the point of a number that was written as a decimal."""
    places = 0
    while (factor * 10**places).denominator != 1:
        places += 1
    return places
