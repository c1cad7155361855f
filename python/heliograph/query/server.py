"""The party that answers queries on encrypted tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from heliograph import _core, exact, tfhe
from heliograph._arrays import printable
from heliograph._shapes import Progress
from heliograph.functions import relinearize, shrink
from heliograph.keys import Server
from heliograph.query.answers import Answer
from heliograph.query.circuits import Rows, further
from heliograph.query.errors import SqlError
from heliograph.query.forecasts import cost_of
from heliograph.query.integer_plan import IntegerPlan
from heliograph.query.layout import Part
from heliograph.query.plan import Plan
from heliograph.query.spans import Span
from heliograph.query.sql import table_of
from heliograph.query.table import EncryptedTable

EvaluationKeys = exact.EvaluationKeys | tfhe.EvaluationKeys


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
        self._server: Server[Any] = Server(keys, limit=limit)
        if not isinstance(keys, EvaluationKeys):
            raise _core.DtypeError(f"tables are of BGV, BFV or TFHE, not of {self._server.parameters.scheme}")
        self._tables: dict[str, EncryptedTable] = {}

    @property
    def keys(self) -> Any:
        """The evaluation keys."""
        return self._server.keys

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

    def plan(self, text: str) -> Plan | IntegerPlan:
        """How a query is computed, what it reads, and the seconds that it is forecast to take. Raises SqlError.

        >>> plan = server.plan("SELECT SUM(salary) FROM t WHERE age < 30")
        >>> plan.read_bytes > 1000, plan.seconds is None or plan.seconds > 0
        (True, True)
        """
        table = self._table(text)
        plan = table.plan(text)
        return replace(plan, cost=cost_of(plan, self._server, lambda part: table.data_of(part, 0)))

    def sql(self, text: str, *, progress: Progress | None = None) -> Answer:
        """The encrypted answer to a query.

        WHERE takes =, <>, <, <=, >, >=, BETWEEN, IN, IS NULL of a column and what is known, AND, OR and NOT; SELECT takes SUM and
        AVG of polynomials in columns, COUNT of * or a column, columns of GROUP BY. A table of TFHE compares columns with each other
        too, and has MIN and MAX. Raises SqlError, which names what else there is, and the layout that answers it where one does;
        DamagedFileError, WrongKeyError, LimitError where the table is not what it says.

        >>> server.sql("SELECT AVG(salary) FROM t WHERE age BETWEEN 30 AND 40").decrypt(secret).rows
        [(3900.0,)]
        >>> server.sql("SELECT SUM(salary) FROM t WHERE name LIKE 'A%'")
        Traceback (most recent call last):
            ...
        heliograph.SqlError: LIKE: conditions are ...
        """
        table = self._table(text)
        plan = table.plan(text)
        step = self._integers if isinstance(plan, IntegerPlan) else self._indicators
        sums: dict[tuple[int, int], Any] = {}
        for span in range(table.spans):
            step(plan, table, span, sums)
            if progress is not None:
                progress((span + 1) / table.spans)
        if isinstance(plan, Plan):
            # each a tensor of its own: to be one, BGV's would be brought to one factor, which takes as much noise as a product
            made = [shrink(relinearize(sums[key])) for key in sorted(sums)]
        else:
            made = [sums[key] for key in sorted(sums)]
        if (
            not made and table.layout.parts
        ):  # nothing is encrypted in it: a tensor of no ciphertexts, which names the parameters
            made = [self._server.from_bytes(table.data_of(table.layout.parts[0], 0))[:0]]
        return Answer(plan, self.keys.id, made)

    def _indicators(self, plan: Any, table: EncryptedTable, span: int, sums: dict[tuple[int, int], Any]) -> None:
        """Adds what one piece of a table of BGV or BFV has."""
        blocks = table.blocks(span)

        def fits(made: Any) -> Any:
            return made.shape == (len(blocks),) and made._core.packing == "slots" and made.degree == 1

        Span(plan, blocks, self._reader(table, span, exact.Tensor, fits)).add_to(sums)

    def _integers(self, plan: Any, table: EncryptedTable, span: int, sums: dict[tuple[int, int], Any]) -> None:
        """Adds what one piece of a table of TFHE has; the least and the most of both."""
        rows = table.blocks(span)
        read = self._reader(table, span, tfhe.Tensor, lambda made: made.shape == (len(rows),))

        def typed(part: Part) -> Any:
            made = read(part)
            if made._name != plan.layout.type_of(part):
                raise _core.DamagedFileError(f"a vector of this table is none: {part}")
            return made

        for place, stretch, made in Rows(self.keys, plan, rows, typed).numbers():
            key = place, stretch
            sums[key] = further(plan.asked[place], sums[key], made) if key in sums else made

    def _reader(self, table: EncryptedTable, span: int, kind: type, fits: Callable[[Any], bool]) -> Callable[[Part], Any]:
        """Reads a piece of a vector. Raises DamagedFileError where it is none."""

        def read(part: Part) -> Any:
            made = self._server.from_bytes(table.data_of(part, span))
            if not isinstance(made, kind) or not fits(made):
                raise _core.DamagedFileError(f"a vector of this table is none: {part}")
            return made

        return read

    def __repr__(self) -> str:
        return f"<server of tables {', '.join(self.tables) or 'none yet'}: {self.keys!r}>"
