"""What a service serves: sealed models, and tables for private look-up, which are described alike."""

from __future__ import annotations

from pathlib import Path

from heliograph import _container, _core, sealed
from heliograph._arrays import Buffer, path_of, printable, readable_bytes
from heliograph._schemes import type_of_bytes
from heliograph.query.containers import Parts
from heliograph.query.lookup import CLIENT_TYPE, DATABASE_TYPE, LookupClient, served
from heliograph.sealed import SealedModel

_PREPARED = 24 << 10  # bytes for each column of a table's matrix, whatever its rows: digits of masks, and the masks


class Table:
    """A saved `hg.query.Database` as a service has it, which does not prepare it: engines do. Raises FormatError and its kinds, OSError."""

    kind = "look-up"
    complete = True
    key_bytes = 0  #: there are none to upload: each question brings its own

    def __init__(self, path: Path) -> None:
        self._half, told = served(Parts(path_of(path), DATABASE_TYPE))
        self.name, self.version, self.title = (told[name] for name in ("name", "version", "title"))
        self.digest = self._half.digest
        self.input_bytes, self.output_bytes = self._half.question_bytes, self._half.answer_bytes

    @property
    def memory_bytes(self) -> int:
        """Of an engine: the matrix twice, for the device and for updates, and what is prepared."""
        shape = self._half._shape
        return 2 * shape.rows * shape.columns + _PREPARED * shape.columns + self.input_bytes + self.output_bytes

    def _rows(self) -> list[tuple[str, str]]:
        own = [("table", printable(f"{self.name} {self.version}" + (f": {self.title}" if self.title else "")))]
        more = [("memory", f"{readable_bytes(self.memory_bytes)} at the server"), ("digest", self.digest)]
        return own + self._half._rows() + more

    def client(self) -> LookupClient:
        """What clients need."""
        return self._half


def is_table(path: Path) -> bool:
    """Whether a file is a table for look-ups, by its first bytes. Raises OSError."""
    with path.open("rb") as file:
        return type_of_bytes(file.read(_container.PREFIX + (1 << 20))) == DATABASE_TYPE


def served_of(path: Path) -> SealedModel | Table:
    """A file to serve. Raises FormatError and its kinds, OSError."""
    if is_table(path):
        return Table(path)
    try:
        return SealedModel.load(path)
    except _core.HeliographError as error:
        said = str(error)
        if type(error) is _core.FormatError and sealed.TYPE in said:
            said = f"{said}, and no table of hg.query.Database.save"
        raise type(error)(f"{path_of(path)}: {said}") from None


def half_of(data: Buffer) -> SealedModel | LookupClient:
    """A client's half, of a model or of a table. Raises FormatError and its kinds."""
    return LookupClient.from_bytes(data) if type_of_bytes(data) == CLIENT_TYPE else SealedModel.load(data)
