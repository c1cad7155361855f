"""The server of queries on encrypted tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from heliograph import _core, exact, tfhe
from heliograph._common.arguments import printable
from heliograph._common.functions import relinearize, shrink
from heliograph._common.sql_error import SqlError
from heliograph._common.tensor import Progress
from heliograph.keys import Server
from heliograph.sql.answers import Answer
from heliograph.sql.forecasts import cost_of
from heliograph.sql.parser import table_of
from heliograph.sql.slot_executor import BlockSums
from heliograph.sql.slot_layout import Part
from heliograph.sql.slot_plan import Plan
from heliograph.sql.table import EncryptedTable
from heliograph.sql.tfhe_executor import Rows, further
from heliograph.sql.tfhe_plan import IntegerPlan

EvaluationKeys = exact.EvaluationKeys | tfhe.EvaluationKeys


class SqlServer:
    """Answers SQL queries on encrypted tables of one key. The server has evaluation keys and no secret.

    `limit` is the memory limit of one tensor read from a table, as for `hg.Server`.

    >>> server = hg.sql.SqlServer(secret.evaluation_keys())
    >>> server.add(table)
    >>> answer = server.sql("SELECT SUM(salary) AS total, COUNT(*) FROM t WHERE age < 30")
    >>> answer.decrypt(secret).rows
    [(8300, 3)]
    """

    def __init__(self, keys: EvaluationKeys, *, limit: int | None = None) -> None:
        self._server: Server[Any] = Server(keys, limit=limit)
        if not isinstance(keys, EvaluationKeys):
            raise _core.DtypeError(f"the keys must be of BGV, BFV or TFHE, got {self._server.parameters.scheme}")
        self._tables: dict[str, EncryptedTable] = {}

    @property
    def keys(self) -> Any:
        """The evaluation keys."""
        return self._server.keys

    @property
    def tables(self) -> list[str]:
        """Names of the tables."""
        return [table.layout.table for table in self._tables.values()]

    def add(self, table: EncryptedTable) -> None:
        """Adds a table, which replaces a table of the same name. Raises WrongKeyError or MismatchError for a table of
        another key.

        >>> server.add(table)
        >>> server.tables
        ['t']
        """
        if not isinstance(table, EncryptedTable):
            raise _core.DtypeError(f"a server's table must be an EncryptedTable, got {type(table).__name__}")
        if table.layout.parameters != self._server.parameters:
            raise _core.MismatchError(
                "cannot add the table: it has other parameters than this server's keys; make a server with its key's "
                "evaluation keys"
            )
        if table.key_id != self.keys.id:
            raise _core.WrongKeyError(
                f"cannot add the table: it is of key {printable(table.key_id[:8])}, this server's keys are of "
                f"{self.keys.id[:8]}; make a server with its key's evaluation keys"
            )
        self._tables[table.layout.table.lower()] = table

    def load(self, path: Any) -> EncryptedTable:
        """Loads a table from a file and adds it. Raises the errors of `EncryptedTable.load` and `add`.

        >>> table.save("t.hg")
        >>> server.load("t.hg").layout.rows
        6
        """
        table = EncryptedTable.load(path)
        self.add(table)
        return table

    def _table(self, text: str) -> EncryptedTable:
        name = table_of(text)
        table = self._tables.get(name.lower())
        if table is None and len(self._tables) == 1 and not name:
            table = next(iter(self._tables.values()))  # the reader of the query raises the specific error
        if table is None:
            there = ", ".join(self.tables) or "none"
            raise SqlError("FROM", f"there is no table {printable(name)[:100]}; the tables are {there}")
        return table

    def plan(self, text: str) -> Plan | IntegerPlan:
        """Returns the plan of a query, with the bytes that it reads and the forecast seconds. Raises SqlError.

        >>> plan = server.plan("SELECT SUM(salary) FROM t WHERE age < 30")
        >>> plan.read_bytes > 1000, plan.seconds is None or plan.seconds > 0
        (True, True)
        """
        table = self._table(text)
        plan = table.plan(text)
        return replace(plan, cost=cost_of(plan, self._server, lambda part: table.data_of(part, 0)))

    def sql(self, text: str, *, progress: Progress | None = None) -> Answer:
        """Returns the encrypted answer to a query.

        WHERE supports =, <>, <, <=, >, >=, BETWEEN, IN, IS NULL of a column and constants, AND, OR and NOT. SELECT supports
        SUM and AVG of polynomials in columns, COUNT of * or a column, and columns of GROUP BY. A table of TFHE also supports
        comparisons of columns with each other, MIN and MAX.

        Raises SqlError, which names the unsupported construct and, if one exists, the layout that supports it;
        DamagedFileError, WrongKeyError, LimitError for a damaged or hostile table.

        >>> server.sql("SELECT AVG(salary) FROM t WHERE age BETWEEN 30 AND 40").decrypt(secret).rows
        [(3900.0,)]
        >>> server.sql("SELECT SUM(salary) FROM t WHERE name LIKE 'A%'")
        Traceback (most recent call last):
            ...
        heliograph.sql.SqlError: LIKE: conditions are ...
        """
        table = self._table(text)
        plan = table.plan(text)
        step = self._integers if isinstance(plan, IntegerPlan) else self._indicators
        sums: dict[tuple[int, int], Any] = {}
        for span in range(table.piece_count):
            step(plan, table, span, sums)
            if progress is not None:
                progress((span + 1) / table.piece_count)
        if isinstance(plan, Plan):
            # The numbers stay separate tensors: joining BGV's tensors would bring them to one factor, which costs as much
            # noise as a product.
            results = [shrink(relinearize(sums[key])) for key in sorted(sums)]
        else:
            results = [sums[key] for key in sorted(sums)]
        if not results and table.layout.parts:  # no encrypted number: an empty tensor, which has the parameters
            results = [self._server.from_bytes(table.data_of(table.layout.parts[0], 0))[:0]]
        return Answer(plan, self.keys.id, results)

    def _indicators(self, plan: Any, table: EncryptedTable, span: int, sums: dict[tuple[int, int], Any]) -> None:
        """Adds the sums of one piece of a table of BGV or BFV."""
        blocks = table.blocks(span)

        def fits(tensor: Any) -> Any:
            return tensor.shape == (len(blocks),) and tensor._core.packing == "slots" and tensor.degree == 1

        BlockSums(plan, blocks, self._reader(table, span, exact.Tensor, fits)).add_to(sums)

    def _integers(self, plan: Any, table: EncryptedTable, span: int, sums: dict[tuple[int, int], Any]) -> None:
        """Adds the numbers of one piece of a table of TFHE: sums, minima and maxima."""
        rows = table.blocks(span)
        load = self._reader(table, span, tfhe.Tensor, lambda tensor: tensor.shape == (len(rows),))

        def typed(part: Part) -> Any:
            tensor = load(part)
            if tensor._name != plan.layout.type_of(part):
                raise _core.DamagedFileError(
                    f"the table's vector {part} must be of type {plan.layout.type_of(part)}, got "
                    f"{printable(str(tensor._name))}"
                )
            return tensor

        for place, stretch, tensor in Rows(self.keys, plan, rows, typed).numbers():
            key = place, stretch
            sums[key] = further(plan.aggregates[place], sums[key], tensor) if key in sums else tensor

    def _reader(self, table: EncryptedTable, span: int, kind: type, fits: Callable[[Any], bool]) -> Callable[[Part], Any]:
        """Returns a function that reads a piece of a vector. The function raises DamagedFileError for an invalid piece."""

        def read(part: Part) -> Any:
            tensor = self._server.from_bytes(table.data_of(part, span))
            if not isinstance(tensor, kind) or not fits(tensor):
                raise _core.DamagedFileError(
                    f"the table's vector {part} must be a fresh tensor of its layout's shape, got {tensor!r}"
                )
            return tensor

        return read

    def __repr__(self) -> str:
        return f"<server of tables {', '.join(self.tables) or 'none yet'}: {self.keys!r}>"
