"""Nearest neighbours: the server's vectors in the clear, a client's vector encrypted. docs/query.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._arrays import (
    Int64Array,
    array_of,
    count_of,
    described,
    from_residues,
    is_whole,
    listed,
    path_of,
    printable,
    readable_bytes,
)
from heliograph._container import replacing
from heliograph._html import Shown
from heliograph._shapes import Progress, keys_of
from heliograph.bfv import parameters as bfv_parameters
from heliograph.exact import EvaluationKeys, Parameters, SecretKey, Tensor
from heliograph.query.containers import Parts, Piece, Saved, pieces, split_title, titled

LAYOUT_TYPE = "heliograph.query.vectors"
INDEX_TYPE = "heliograph.query.vector-index"
SCORES_TYPE = "heliograph.query.scores"
Int8Array = npt.NDArray[np.int8]

_MOST_ROWS = (1 << 31) - 1
_MOST_DIMENSION = 4096
_LARGEST_PRODUCT = 128 * 128  # of two bytes
#: N and log Q; log Q with the special prime of 30 bits is what is secure at that N. Three primes of Q, two where rows and vector meet.
_RING, _LOG_Q = 4096, 76


class Neighbours(NamedTuple):
    """What is nearest, the best first: `ids` and inner products, `scores`, int64 [k] each.

    >>> found.ids, found.scores
    (array([2, 0]), array([5, 3]))
    """

    ids: Int64Array
    scores: Int64Array


class VectorLayout(Saved):
    """How vectors are asked: what their server tells whoever asks. Made by `hg.query.Vectors`, or read from a file of it.

    `rows` vectors of `dimension` components, int8; `ids`, int64 [rows], where they are not their places. `parameters`
    (BFV, 128-bit) follow from the dimension: a file of others raises MismatchError. None of it is a secret.

    >>> index.layout
    <layout of 4 vectors of 3 components>
    >>> hg.query.VectorLayout.from_bytes(index.layout.to_bytes()).parameters == index.layout.parameters
    True
    """

    _TYPE = LAYOUT_TYPE

    def __init__(self, rows: int, dimension: int, ids: Any = None) -> None:
        self.rows = count_of(rows, "rows", 1)  #: vectors
        self.dimension = count_of(dimension, "a dimension", 1)  #: components of each
        if self.dimension > _MOST_DIMENSION:
            raise _core.LimitError(f"vectors have at most {_MOST_DIMENSION:,} components, not {self.dimension:,}")
        self.ids: Int64Array | None = (
            None if ids is None else _ids_of(ids, self.rows)
        )  #: what the rows are called; None: 0, 1, ...
        self.parameters: Parameters = _parameters(self.dimension)  #: what keys are made of
        self._plan = _core.rows_plan(self.parameters._core, self.dimension)

    @property
    def rotations(self) -> list[int]:
        """Steps of the rotations that evaluation keys must have."""
        return list(self._plan.rotations)

    @property
    def answer_bytes(self) -> int:
        """Bytes of the scores of all rows, encrypted."""
        return int(self._plan.rounded_bytes(self.parameters._core, self.rows))

    @property
    def key_bytes(self) -> int:
        """Bytes of the evaluation keys in a file, once for each client; its header not counted."""
        return int(self.parameters._core.switch_key_bytes) // 2 * len(self.rotations)

    def explain(self) -> str:
        """Bytes to expect and what they are of, a line each.

        >>> print(index.layout.explain().splitlines()[0])
            vectors  4 of 3 components, int8
        """
        return "\n".join(f"{label:>11}  {text}" for label, text in self._rows())

    def require_keys(self, keys: Any) -> None:
        """Raises MismatchError for keys of other parameters, MissingKeyError for a rotation that is not there; DtypeError.

        >>> index.layout.require_keys(client.evaluation_keys())
        """
        if not isinstance(keys, EvaluationKeys):
            raise _core.DtypeError(f"evaluation keys of BFV are needed, not {type(keys).__name__}")
        if keys.parameters != self.parameters:
            raise _core.MismatchError("the keys are of other parameters than the layout: VectorClient.evaluation_keys()")
        if missing := sorted(set(self.rotations) - set(keys.rotations)):
            raise _core.MissingKeyError(
                f"a search needs rotations by {', '.join(map(str, missing))} besides those of the keys"
            )

    @property
    def query_bytes(self) -> int:
        """Bytes of an encrypted vector in a file; its header not counted."""
        p = self.parameters
        return int(self._plan.ciphertexts * p.n * 4 * len(p._core.spec.chain))

    def _rows(self) -> list[tuple[str, str]]:
        p, plan = self.parameters, self._plan
        return [
            ("vectors", f"{self.rows:,} of {self.dimension:,} components, int8"),
            ("parameters", repr(p)[1:-1]),
            ("keys up", f"{readable_bytes(self.key_bytes)} once, {len(self.rotations)} rotations"),
            ("vector up", f"{readable_bytes(self.query_bytes)} in {plan.ciphertexts} ciphertexts"),
            ("scores down", f"{readable_bytes(self.answer_bytes)}, {plan.body_bits + plan.mask_bits} bits a row"),
            ("failure", "a score is wrong with probability below 2^-64 for a million rows"),
        ]

    def _pieces(self) -> Iterator[Piece]:
        several = self._named()
        return pieces(LAYOUT_TYPE, self._header(), several, [len(one) for one in several])

    def _header(self) -> dict[str, Any]:
        return {"dimension": self.dimension, "parameter_hash": self.parameters._core.hash, "rows": self.rows}

    def _named(self) -> list[bytes]:
        return [] if self.ids is None else [self.ids.astype("<i8").tobytes()]

    @classmethod
    def _of(cls, parts: Parts) -> Self:
        if len(parts) > 1:
            raise _core.DamagedFileError("this file has more than a layout of vectors")
        return cls._said(parts.header, parts, 0)

    @classmethod
    def _said(cls, header: dict[str, Any], parts: Parts, at: int) -> Self:
        """Of a header, and of the part `at`, where there is one: ids."""
        if set(header) != {"dimension", "parameter_hash", "rows"}:
            raise _core.DamagedFileError("this file's header is not one of a layout of vectors")
        rows, dimension = header["rows"], header["dimension"]
        if (
            not is_whole(rows)
            or not is_whole(dimension)
            or not 1 <= rows <= _MOST_ROWS
            or not 1 <= dimension <= _MOST_DIMENSION
        ):
            raise _core.DamagedFileError("this layout's numbers of rows and components cannot be")
        named = len(parts) > at
        if named and parts.sizes()[at] != 8 * rows:
            raise _core.DamagedFileError("this layout has another number of ids than of rows")
        try:
            layout = cls(rows, dimension, np.frombuffer(parts[at], "<i8").astype(np.int64) if named else None)
        except _core.PlaintextRangeError:
            raise _core.DamagedFileError("this layout names two rows alike") from None
        if layout.parameters._core.hash != header["parameter_hash"]:
            raise _core.MismatchError("this layout is of other parameters than this version takes for its dimension")
        return layout

    def __repr__(self) -> str:
        return f"<layout of {self.rows:,} vectors of {self.dimension:,} components>"


def _ids_of(ids: Any, rows: int) -> Int64Array:
    found = array_of(ids, "ids")
    if found.dtype.kind not in "iu" or (found.dtype == np.uint64 and found.size and int(found.max()) >= 1 << 63):
        raise _core.DtypeError(f"ids are integers of 63 bits, not {found.dtype}")
    if found.shape != (rows,):
        raise _core.ShapeError(f"{rows:,} vectors have as many ids, not an array of shape {found.shape}")
    made = found.astype(np.int64)
    if len(np.unique(made)) < rows:
        raise _core.PlaintextRangeError("two vectors have one id")
    return made


@lru_cache(maxsize=32)
def _parameters(dimension: int) -> Parameters:
    """The set for a dimension: t is the least prime with slots that holds all inner products."""
    step = 2 * _RING
    t = 2 * dimension * _LARGEST_PRODUCT // step * step + 1
    while t <= 2 * dimension * _LARGEST_PRODUCT or not _is_prime(t):
        t += step
    return bfv_parameters(n=_RING, log_q=_LOG_Q, plain_modulus=t, edition="w32")


def _is_prime(value: int) -> bool:
    return all(value % divisor for divisor in range(3, int(value**0.5) + 1, 2))


class Vectors(Shown):
    """A server's vectors, prepared: they answer an encrypted vector with its inner products with all of them, encrypted.

    `array` is int8 [rows, dimension]; `ids` int64 [rows], all different, are what answers call the rows in place of 0, 1, ....
    Prepared they take 8 bytes a component. `progress` is called with the share done. Raises DtypeError, ShapeError, LimitError,
    OutOfMemoryError before anything is computed.

    >>> index = hg.query.Vectors(np.array([[1, 2, 0], [0, 0, -3], [2, 2, 1], [-4, 1, 1]], np.int8))
    >>> index.rows, index.dimension, index.nbytes
    (4, 3, 98304)
    """

    def __init__(self, array: Any, *, ids: Any = None, progress: Progress | None = None) -> None:
        values = _vectors_of(array)
        self._set(VectorLayout(len(values), values.shape[1], ids), values.copy(), progress)

    def _set(self, layout: VectorLayout, values: Int8Array, progress: Progress | None) -> None:
        self.layout = layout  #: for whoever asks
        self._core = _core.ClearRows(layout.parameters._core, len(values), values.shape[1])
        self._values = values
        blocks = range(-(-self.rows // _RING))
        for block in blocks:
            self._prepare(block)
            if progress is not None:
                progress((block + 1) / len(blocks))

    def save(self, path: Any, *, name: str = "", version: str = "1", title: str = "") -> None:
        """Writes the vectors as one file, in clear, for `heliograph serve` or `load`.

        `name` is what a service calls them (by default the file's), `version` and `title` are their maker's. Raises OSError,
        ParameterError for a name that is none.

        >>> index.save("faces.hgv")
        >>> hg.query.Vectors.load("faces.hgv").rows
        4
        """
        place = path_of(path)
        told = titled(name or Path(place).stem, version, title)
        parts: list[Any] = [memoryview(self._values.reshape(-1).data).cast("B"), *self.layout._named()]
        with replacing(place) as file:
            for piece in pieces(INDEX_TYPE, self.layout._header() | told, parts, [len(part) for part in parts]):
                file.write(piece)

    @classmethod
    def load(cls, path: Any, *, progress: Progress | None = None) -> Vectors:
        """Reads what `save` wrote, and prepares it. Raises FormatError and its kinds, OSError, OutOfMemoryError.

        >>> index.save("faces.hgv", title="faces")
        >>> hg.query.Vectors.load("faces.hgv").layout
        <layout of 4 vectors of 3 components>
        """
        parts = Parts(path_of(path), INDEX_TYPE)
        layout, _ = served_vectors(parts)
        made = cls.__new__(cls)
        made._set(layout, parts.array(0).view(np.int8).reshape(layout.rows, layout.dimension), progress)
        return made

    def _follow(self, parts: Parts) -> None:
        """Becomes what a file of as many vectors with the same ids has. Raises MismatchError for others', DamagedFileError."""
        layout, _ = served_vectors(parts)
        if layout.to_bytes() != self.layout.to_bytes():
            raise _core.MismatchError("this file is of other vectors, whose clients are others")
        before, self._values = self._values, parts.array(0).view(np.int8).reshape(self.rows, self.dimension)
        for block in range(-(-self.rows // _RING)):
            part = slice(block * _RING, (block + 1) * _RING)
            if not np.array_equal(before[part], self._values[part]):
                self._prepare(block)

    def _prepare(self, block: int) -> None:
        self._core.set(block, self._values[block * _RING : (block + 1) * _RING])

    @property
    def rows(self) -> int:
        """How many vectors."""
        return self.layout.rows

    @property
    def dimension(self) -> int:
        """Components of each."""
        return self.layout.dimension

    @property
    def nbytes(self) -> int:
        """Bytes of the prepared vectors on the device; a byte a component on the host comes to them."""
        return int(self._core.nbytes)

    def replace(self, first: int, array: Any) -> None:
        """Puts other vectors, int8 [count, dimension], in place of rows `first`, `first` + 1, ...; not while scores are computed.

        Blocks of 4,096 rows are prepared anew. Raises DtypeError, ShapeError.

        >>> index.replace(3, np.array([[-4, 1, 1]], np.int8))
        """
        values = _vectors_of(array)
        start = count_of(first, "a row")
        if values.shape[1] != self.dimension or start + len(values) > self.rows:
            raise _core.ShapeError(
                f"vectors of shape {values.shape} do not fit rows {start:,} to {start + len(values) - 1:,} of {self.rows:,} "
                f"with {self.dimension:,} components"
            )
        self._values[start : start + len(values)] = values
        for block in range(start // _RING, -(-(start + len(values)) // _RING)):
            self._prepare(block)

    def scores(self, query: Tensor, *, keys: EvaluationKeys | None = None, progress: Progress | None = None) -> Scores:
        """The inner product of every row with an encrypted vector: `VectorClient.encrypt`'s, through a server of its client's keys.

        All rows are read, whatever is asked. Raises MismatchError, ShapeError for a tensor that is no such vector, MissingKeyError.

        >>> index.scores(query).nbytes == index.layout.answer_bytes
        True
        """
        return self._scores([query], keys, progress)[0]

    def scores_together(self, queries: Sequence[Tensor], *, progress: Progress | None = None) -> list[Scores]:
        """As `scores`, of several vectors, of one client or of several, each through a server of its own keys: faster than one after
        another, for the rows are read once for every four.

        >>> [one.rows for one in index.scores_together([query, query])]
        [4, 4]
        """
        several = listed(queries)
        if several is None:
            raise _core.DtypeError(f"several encrypted vectors are a list of tensors, not {described(queries)}")
        return self._scores(several, None, progress)

    def _scores(self, queries: list[Any], keys: EvaluationKeys | None, progress: Progress | None) -> list[Scores]:
        for query in queries:
            if not isinstance(query, Tensor):
                raise _core.DtypeError(f"an encrypted vector is a tensor of BFV, not {type(query).__name__}")
            if query.parameters != self.layout.parameters:
                raise _core.MismatchError("this vector is encrypted for other parameters than the layout's")
        found = [keys_of([query], keys, "a search")._for(self.layout.rotations) for query in queries]
        products = self._core.times([query._core for query in queries], found, progress)
        return [
            Scores(query.key_id, self.rows, self.dimension, _core.rounded(one, self.layout._plan))
            for query, one in zip(queries, products, strict=True)
        ]

    def explain(self) -> str:
        """As the layout's, and the memory.

        >>> "prepared" in index.explain()
        True
        """
        return f"{self.layout.explain()}\n{'prepared':>11}  {readable_bytes(self.nbytes)}"

    def __repr__(self) -> str:
        return f"<{self.rows:,} vectors of {self.dimension:,} components, {readable_bytes(self.nbytes)} prepared>"


def served_vectors(parts: Parts) -> tuple[VectorLayout, dict[str, str]]:
    """The layout of saved vectors, and their name, version and title. Raises DamagedFileError."""
    said, told = split_title(parts.header)
    if not 1 <= len(parts) <= 2:
        raise _core.DamagedFileError("this file has other parts than vectors and ids")
    layout = VectorLayout._said(said, parts, 1)
    if parts.sizes()[0] != layout.rows * layout.dimension:
        raise _core.DamagedFileError("this file's vectors are of another size than it says")
    return layout, told


def _vectors_of(array: Any) -> Int8Array:
    found = array_of(array, "vectors")
    if found.dtype != np.int8:
        raise _core.DtypeError(f"vectors are of int8, not {found.dtype}: scale and round them first")
    if found.ndim != 2 or not found.size:
        raise _core.ShapeError(
            f"vectors are an array of rows and components, at least one of each, not of shape {found.shape}"
        )
    return np.ascontiguousarray(found)


class Scores(Saved):
    """The inner products of all rows, encrypted: an answer of `hg.query.Vectors`. Words are rounded to what decryption needs.

    >>> scores = index.scores(query)
    >>> scores.rows, scores.key_id == client.secret.id
    (4, True)
    >>> client.nearest(hg.query.Scores.from_bytes(scores.to_bytes()), k=1).ids
    array([2])
    """

    _TYPE = SCORES_TYPE

    def __init__(self, key_id: str, rows: int, dimension: int, data: bytes) -> None:
        self.key_id = key_id  #: which key it is of
        self.rows = rows  #: of the vectors
        self.dimension = dimension  #: of the vectors
        self._data = data

    @property
    def nbytes(self) -> int:
        """Bytes of the ciphertexts."""
        return len(self._data)

    def _pieces(self) -> Iterator[Piece]:
        header = {"dimension": self.dimension, "key": self.key_id, "rows": self.rows}
        return pieces(SCORES_TYPE, header, [self._data], [len(self._data)])

    @classmethod
    def _of(cls, parts: Parts) -> Self:
        header = parts.header
        if set(header) != {"dimension", "key", "rows"} or not isinstance(header["key"], str) or len(parts) != 1:
            raise _core.DamagedFileError("this file's header is not one of scores")
        rows, dimension = header["rows"], header["dimension"]
        if not is_whole(rows) or not is_whole(dimension) or rows < 1 or dimension < 1:
            raise _core.DamagedFileError("these scores' numbers of rows and components cannot be")
        return cls(header["key"], rows, dimension, bytes(parts[0]))

    def __repr__(self) -> str:
        return f"<scores of {self.rows:,} rows, {readable_bytes(self.nbytes)}, key {printable(self.key_id[:8])}>"


class VectorClient(Shown):
    """Who asks: encrypts vectors for a layout, opens scores. `secret` is a key of the layout's parameters; a new one by default.

    >>> client = hg.query.VectorClient(index.layout)
    >>> server = hg.Server(client.evaluation_keys())  # the server's: nothing in it decrypts
    >>> query = server.from_bytes(client.encrypt(np.array([1, 1, 1], np.int8)).to_bytes())
    >>> found = client.nearest(index.scores(query), k=2)
    >>> found.ids, found.scores
    (array([2, 0]), array([5, 3]))
    """

    def __init__(self, layout: VectorLayout, secret: SecretKey | None = None) -> None:
        if not isinstance(layout, VectorLayout):
            raise _core.DtypeError(f"a client is made of a layout of vectors, not {type(layout).__name__}")
        made: Any = SecretKey.generate(layout.parameters) if secret is None else secret
        if not isinstance(made, SecretKey):
            raise _core.DtypeError(f"a client's secret is a secret key of BFV, not {type(made).__name__}")
        if made.parameters != layout.parameters:
            raise _core.MismatchError(
                "the key is of other parameters than the layout: SecretKey.generate(layout.parameters)"
            )
        self.layout = layout  #: what is asked
        self.secret = made  #: keep it

    def evaluation_keys(self, *, progress: Progress | None = None) -> EvaluationKeys:
        """What the server needs of this client, once: rotations alone.

        >>> client.evaluation_keys().relinearize
        False
        """
        return self.secret.evaluation_keys(relinearize=False, rotations=self.layout.rotations, progress=progress)

    def encrypt(self, vector: Any) -> Tensor:
        """A vector, int8 [dimension], as `Vectors.scores` takes it; seeded, so that a file has half the bytes.

        Raises DtypeError, ShapeError.

        >>> client.encrypt(np.array([1, 1, 1], np.int8)).shape
        (1,)
        """
        found = array_of(vector, "a vector")
        if found.dtype != np.int8:
            raise _core.DtypeError(f"a vector is of int8, not {found.dtype}: scale and round it as the server's were")
        if found.shape != (self.layout.dimension,):
            raise _core.ShapeError(
                f"the vectors have {self.layout.dimension:,} components, this one is of shape {found.shape}"
            )
        return Tensor(_core.encrypt_vector(self.secret._core, np.ascontiguousarray(found)))

    def scores(self, answer: Scores) -> Int64Array:
        """The inner products with all rows, int64 [rows].

        Raises WrongKeyError, MismatchError for scores of another key or other vectors, NoiseError for what cannot be right. Nothing
        proves what a server computed that does not follow the protocol.

        >>> client.scores(scores)
        array([ 3, -3,  5, -2])
        """
        if not isinstance(answer, Scores):
            raise _core.DtypeError(f"scores are hg.query.Scores, not {type(answer).__name__}")
        if answer.key_id != self.secret.id:
            raise _core.WrongKeyError(
                f"the scores are of key {printable(answer.key_id[:8])}, this one is {self.secret.id[:8]}"
            )
        layout = self.layout
        if (answer.rows, answer.dimension) != (layout.rows, layout.dimension):
            raise _core.MismatchError(
                f"these are scores of {answer.rows:,} rows of {answer.dimension:,} components, the layout has "
                f"{layout.rows:,} of {layout.dimension:,}"
            )
        core = _core.from_rounded(self.secret._core, answer._data, layout._plan, layout.rows)
        residues: Any = self.secret._core.decrypt(core)
        return from_residues(residues, layout.parameters.plain_moduli).reshape(-1)[: layout.rows]

    def nearest(self, answer: Scores, k: int = 10) -> Neighbours:
        """The `k` rows of the largest inner products, or all where they are fewer; of equal ones those of lower rows first.

        Raises as `scores`.

        >>> client.nearest(scores, k=10).ids
        array([2, 0, 3, 1])
        """
        count = count_of(k, "k", 1)
        found = self.scores(answer)
        rows = np.arange(len(found))
        if count < len(found):
            least = np.partition(found, -count)[-count]
            rows = np.flatnonzero(found >= least)
        best = rows[np.argsort(-found[rows], kind="stable")][:count]
        return Neighbours(best if self.layout.ids is None else self.layout.ids[best], found[best])

    def __repr__(self) -> str:
        return f"<client of {self.layout.rows:,} vectors of {self.layout.dimension:,} components, key {self.secret.id[:8]}>"
