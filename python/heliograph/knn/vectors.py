"""Nearest neighbours: the server's vectors in clear, the client's vector encrypted. docs/query.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from heliograph import _core
from heliograph._common.arguments import (
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
from heliograph._common.ciphertext_files import Parts, Serializable, pieces, split_title, titled
from heliograph._common.container import Piece, replacing
from heliograph._common.html import HtmlRepr
from heliograph._common.operations import composite
from heliograph._common.tensor import Progress, keys_of
from heliograph.exact import EvaluationKeys, Parameters, SecretKey, Tensor
from heliograph.exact.parameters import set_for

LAYOUT_TYPE = "heliograph.query.vectors"
INDEX_TYPE = "heliograph.query.vector-index"
SCORES_TYPE = "heliograph.query.scores"
Int8Array = npt.NDArray[np.int8]

_MOST_ROWS = (1 << 31) - 1
_MOST_DIMENSION = 4096
_LARGEST_PRODUCT = 128 * 128  # largest product of two components
#: N and log Q. Together with the special prime of 30 bits, log Q reaches the limit of 128-bit security at N. Q has three
#: primes; the product with the rows is computed at two.
_RING, _LOG_Q = 4096, 76


class Neighbours(NamedTuple):
    """The nearest vectors, best first: `ids` and inner products `scores`, int64 [k] each.

    >>> found.ids, found.scores
    (array([2, 0]), array([5, 3]))
    """

    ids: Int64Array
    scores: Int64Array


class VectorLayout(Serializable):
    """The public description of a server's vectors, from `hg.knn.Vectors` or a file. Clients need this description to
    encrypt and decrypt.

    `rows` vectors of `dimension` int8 components. `ids`, int64 [rows], replace the row numbers. `parameters` (BFV, 128-bit)
    follow from the dimension; a file with other parameters raises MismatchError.

    >>> index.layout
    <layout of 4 vectors of 3 components>
    >>> hg.knn.VectorLayout.from_bytes(index.layout.to_bytes()).parameters == index.layout.parameters
    True
    """

    _TYPE = LAYOUT_TYPE

    def __init__(self, rows: int, dimension: int, ids: Any = None) -> None:
        self.rows = count_of(rows, "rows", 1)  #: number of vectors
        self.dimension = count_of(dimension, "a dimension", 1)  #: components of each vector
        if self.dimension > _MOST_DIMENSION:
            raise _core.LimitError(f"vectors must have at most {_MOST_DIMENSION:,} components, got {self.dimension:,}")
        #: Ids of the rows; None: 0, 1, ...
        self.ids: Int64Array | None = None if ids is None else _ids_of(ids, self.rows)
        self.parameters: Parameters = _parameters(self.dimension)  #: parameters of the keys
        self._plan = _core.exact.rows_plan(self.parameters._core, self.dimension)

    @property
    def rotations(self) -> list[int]:
        """Steps of the rotations that the evaluation keys must have."""
        return list(self._plan.rotations)

    @property
    def answer_bytes(self) -> int:
        """Bytes of the encrypted scores of all rows."""
        return int(self._plan.rounded_bytes(self.parameters._core, self.rows))

    @property
    def key_bytes(self) -> int:
        """Bytes of the evaluation keys in a file, without the header; uploaded once per client."""
        return int(self.parameters._core.switch_key_bytes) // 2 * len(self.rotations)

    def explain(self) -> str:
        """Describes sizes and parameters, a line each.

        >>> print(index.layout.explain().splitlines()[0])
            vectors  4 of 3 components, int8
        """
        return "\n".join(f"{label:>11}  {text}" for label, text in self._rows())

    def require_keys(self, keys: Any) -> None:
        """Raises MismatchError for keys of other parameters, MissingKeyError for a missing rotation, DtypeError.

        >>> index.layout.require_keys(client.evaluation_keys())
        """
        if not isinstance(keys, EvaluationKeys):
            raise _core.DtypeError(f"the keys must be evaluation keys of BFV, got {type(keys).__name__}")
        if keys.parameters != self.parameters:
            raise _core.MismatchError(
                "the keys have other parameters than the layout; make them by VectorClient(layout).evaluation_keys()"
            )
        if missing := sorted(set(self.rotations) - set(keys.rotations)):
            raise _core.MissingKeyError(
                f"the keys lack the rotations {', '.join(map(str, missing))}; make them by "
                "VectorClient(layout).evaluation_keys()"
            )

    @property
    def query_bytes(self) -> int:
        """Bytes of an encrypted vector in a file, without the header."""
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
        several = self._id_parts()
        return pieces(LAYOUT_TYPE, self._header(), several, [len(one) for one in several])

    def _header(self) -> dict[str, Any]:
        return {"dimension": self.dimension, "parameter_hash": self.parameters._core.hash, "rows": self.rows}

    def _id_parts(self) -> list[bytes]:
        return [] if self.ids is None else [self.ids.astype("<i8").tobytes()]

    @classmethod
    def _of(cls, parts: Parts) -> Self:
        if len(parts) > 1:
            raise _core.DamagedFileError(f"a layout of vectors must have at most 1 part, got {len(parts)}")
        return cls._from_header(parts.header, parts, 0)

    @classmethod
    def _from_header(cls, header: dict[str, Any], parts: Parts, at: int) -> Self:
        """Parses a header; the part `at`, if it exists, holds the ids."""
        if set(header) != {"dimension", "parameter_hash", "rows"}:
            raise _core.DamagedFileError(
                "this file's header must be that of a layout of vectors: dimension, parameter_hash and rows"
            )
        rows, dimension = header["rows"], header["dimension"]
        if (
            not is_whole(rows)
            or not is_whole(dimension)
            or not 1 <= rows <= _MOST_ROWS
            or not 1 <= dimension <= _MOST_DIMENSION
        ):
            raise _core.DamagedFileError(
                f"this layout must have 1 to {_MOST_ROWS:,} rows of 1 to {_MOST_DIMENSION:,} components"
            )
        has_ids = len(parts) > at
        if has_ids and parts.sizes()[at] != 8 * rows:
            raise _core.DamagedFileError(f"this layout must have one id for each of {rows:,} rows")
        try:
            layout = cls(rows, dimension, np.frombuffer(parts[at], "<i8").astype(np.int64) if has_ids else None)
        except _core.PlaintextRangeError:
            raise _core.DamagedFileError("this layout's ids must be different") from None
        if layout.parameters._core.hash != header["parameter_hash"]:
            raise _core.MismatchError(
                "this layout has other parameters than this version uses for its dimension; use the version that wrote it"
            )
        return layout

    def __repr__(self) -> str:
        return f"<layout of {self.rows:,} vectors of {self.dimension:,} components>"


def _ids_of(ids: Any, rows: int) -> Int64Array:
    array = array_of(ids, "ids")
    if array.dtype.kind not in "iu" or (array.dtype == np.uint64 and array.size and int(array.max()) >= 1 << 63):
        raise _core.DtypeError(f"ids must be integers below 2^63, got {array.dtype}")
    if array.shape != (rows,):
        raise _core.ShapeError(f"ids must be one for each of {rows:,} vectors, got an array of shape {array.shape}")
    numbers = array.astype(np.int64)
    if len(np.unique(numbers)) < rows:
        raise _core.PlaintextRangeError("ids must be different; two vectors have the same id")
    return numbers


@lru_cache(maxsize=32)
def _parameters(dimension: int) -> Parameters:
    """Returns the set for a dimension: t is the least prime with slots that holds all inner products."""
    step = 2 * _RING
    t = 2 * dimension * _LARGEST_PRODUCT // step * step + 1
    while t <= 2 * dimension * _LARGEST_PRODUCT or not _is_prime(t):
        t += step
    return set_for("bfv", n=_RING, log_q=_LOG_Q, plain_modulus=t, word_size=32)


def _is_prime(value: int) -> bool:
    return all(value % divisor for divisor in range(3, int(value**0.5) + 1, 2))


class Vectors(HtmlRepr):
    """A server's prepared vectors: computes the encrypted inner products of all these vectors with an encrypted vector.

    `array` is int8 [rows, dimension]. `ids`, int64 [rows] and all different, replace the row numbers 0, 1, ... in answers.
    Prepared vectors take 8 bytes per component. `progress` is called with the completed share.

    Raises DtypeError, ShapeError, LimitError, OutOfMemoryError before anything is computed.

    >>> index = hg.knn.Vectors(np.array([[1, 2, 0], [0, 0, -3], [2, 2, 1], [-4, 1, 1]], np.int8))
    >>> index.rows, index.dimension, index.nbytes
    (4, 3, 98304)
    """

    def __init__(self, array: Any, *, ids: Any = None, progress: Progress | None = None) -> None:
        values = _vectors_of(array)
        self._set(VectorLayout(len(values), values.shape[1], ids), values.copy(), progress)

    def _set(self, layout: VectorLayout, values: Int8Array, progress: Progress | None) -> None:
        self.layout = layout  #: public description for clients
        self._core = _core.exact.ClearRows(layout.parameters._core, len(values), values.shape[1])
        self._values = values
        blocks = range(-(-self.rows // _RING))
        for block in blocks:
            self._prepare(block)
            if progress is not None:
                progress((block + 1) / len(blocks))

    def save(self, path: Any, *, name: str = "", version: str = "1", title: str = "") -> None:
        """Writes the vectors to one file, in clear, for `heliograph serve` or `load`.

        `name` is the vectors' name at a service (default: the file's name); `version` and `title` are any texts. Raises
        OSError; ParameterError for an invalid name.

        >>> index.save("faces.hgv")
        >>> hg.knn.Vectors.load("faces.hgv").rows
        4
        """
        place = path_of(path)
        metadata = titled(name or Path(place).stem, version, title)
        parts: list[Any] = [memoryview(self._values.reshape(-1).data).cast("B"), *self.layout._id_parts()]
        with replacing(place) as file:
            for piece in pieces(INDEX_TYPE, self.layout._header() | metadata, parts, [len(part) for part in parts]):
                file.write(piece)

    @classmethod
    def load(cls, path: Any, *, progress: Progress | None = None) -> Vectors:
        """Reads a file that `save` wrote, and prepares the vectors. Raises FormatError and its subclasses, OSError,
        OutOfMemoryError.

        >>> index.save("faces.hgv", title="faces")
        >>> hg.knn.Vectors.load("faces.hgv").layout
        <layout of 4 vectors of 3 components>
        """
        parts = Parts(path_of(path), INDEX_TYPE)
        layout, _ = served_vectors(parts)
        vectors = cls.__new__(cls)
        vectors._set(layout, parts.array(0).view(np.int8).reshape(layout.rows, layout.dimension), progress)
        return vectors

    def _follow(self, parts: Parts) -> None:
        """Replaces the vectors by the vectors of a newer file with as many vectors and the same ids. Raises MismatchError if
        the file has other vectors, DamagedFileError if it is damaged."""
        layout, _ = served_vectors(parts)
        if layout.to_bytes() != self.layout.to_bytes():
            raise _core.MismatchError("the file must hold as many vectors of the same dimension and ids as this index")
        before, self._values = self._values, parts.array(0).view(np.int8).reshape(self.rows, self.dimension)
        for block in range(-(-self.rows // _RING)):
            part = slice(block * _RING, (block + 1) * _RING)
            if not np.array_equal(before[part], self._values[part]):
                self._prepare(block)

    def _prepare(self, block: int) -> None:
        self._core.set(block, self._values[block * _RING : (block + 1) * _RING])

    @property
    def rows(self) -> int:
        """The number of vectors."""
        return self.layout.rows

    @property
    def dimension(self) -> int:
        """Components of each vector."""
        return self.layout.dimension

    @property
    def nbytes(self) -> int:
        """Bytes of the prepared vectors on the device. The host also holds one byte per component."""
        return int(self._core.nbytes)

    def replace(self, first: int, array: Any) -> None:
        """Replaces the rows from `first` on by vectors, int8 [count, dimension]. Do not call `replace` while scores are
        computed.

        Prepares the affected blocks of 4,096 rows again. Raises DtypeError, ShapeError.

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
        """Computes the inner product of every row with an encrypted vector.

        `query` is the tensor of `VectorClient.encrypt`, bound to a server with its client's keys. All rows are read for
        every query. Raises MismatchError for parameters other than the layout's, ShapeError for a tensor that is not one
        vector, MissingKeyError.

        >>> index.scores(query).nbytes == index.layout.answer_bytes
        True
        """
        return self._scores([query], keys, progress)[0]

    def scores_together(self, queries: Sequence[Tensor], *, progress: Progress | None = None) -> list[Scores]:
        """Same as `scores`, for several vectors of one or several clients, each bound to a server with its own keys.

        One call is faster than separate calls, because each pass over the rows serves four encrypted vectors.

        >>> [one.rows for one in index.scores_together([query, query])]
        [4, 4]
        """
        several = listed(queries)
        if several is None:
            raise _core.DtypeError(f"encrypted vectors must be a list of tensors, got {described(queries)}")
        return self._scores(several, None, progress)

    def _scores(self, queries: list[Any], keys: EvaluationKeys | None, progress: Progress | None) -> list[Scores]:
        for query in queries:
            if not isinstance(query, Tensor):
                raise _core.DtypeError(f"an encrypted vector must be a tensor of BFV, got {type(query).__name__}")
            if query.parameters != self.layout.parameters:
                raise _core.MismatchError(
                    "the vector is encrypted with other parameters than the layout's; encrypt it by VectorClient(layout)"
                )
        rotation_keys = [keys_of([query], keys, "a search")._for(self.layout.rotations) for query in queries]
        products = self._core.times([query._core for query in queries], rotation_keys, progress)
        return [
            Scores(query.key_id, self.rows, self.dimension, _core.exact.rounded(one, self.layout._plan))
            for query, one in zip(queries, products, strict=True)
        ]

    def explain(self) -> str:
        """Same as `VectorLayout.explain`, with the memory that the prepared vectors take.

        >>> "prepared" in index.explain()
        True
        """
        return f"{self.layout.explain()}\n{'prepared':>11}  {readable_bytes(self.nbytes)}"

    def __repr__(self) -> str:
        return f"<{self.rows:,} vectors of {self.dimension:,} components, {readable_bytes(self.nbytes)} prepared>"


def served_vectors(parts: Parts) -> tuple[VectorLayout, dict[str, str]]:
    """Returns the layout of saved vectors, and their name, version and title. Raises DamagedFileError."""
    header, metadata = split_title(parts.header)
    if not 1 <= len(parts) <= 2:
        raise _core.DamagedFileError(f"a file of vectors must have 1 or 2 parts, vectors and ids; got {len(parts)}")
    layout = VectorLayout._from_header(header, parts, 1)
    if parts.sizes()[0] != layout.rows * layout.dimension:
        raise _core.DamagedFileError(
            f"the vectors must have {layout.rows * layout.dimension:,} bytes by the header, got {parts.sizes()[0]:,}"
        )
    return layout, metadata


def _vectors_of(array: Any) -> Int8Array:
    matrix = array_of(array, "vectors")
    if matrix.dtype != np.int8:
        raise _core.DtypeError(f"vectors must be of int8, not {matrix.dtype}; scale and round them first")
    if matrix.ndim != 2 or not matrix.size:
        raise _core.ShapeError(f"vectors must be an array [rows, components] that is not empty, got shape {matrix.shape}")
    return np.ascontiguousarray(matrix)


class Scores(Serializable):
    """The encrypted inner products of all rows, from `hg.knn.Vectors`. The words are rounded to the bits that decryption
    needs.

    >>> scores = index.scores(query)
    >>> scores.rows, scores.key_id == client.secret.id
    (4, True)
    >>> client.nearest(hg.knn.Scores.from_bytes(scores.to_bytes()), k=1).ids
    array([2])
    """

    _TYPE = SCORES_TYPE

    def __init__(self, key_id: str, rows: int, dimension: int, data: bytes) -> None:
        self.key_id = key_id  #: id of the key that decrypts the scores
        self.rows = rows  #: number of vectors
        self.dimension = dimension  #: components of a vector
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
            raise _core.DamagedFileError("this file's header must be that of scores: dimension, key and rows, with 1 part")
        rows, dimension = header["rows"], header["dimension"]
        if not is_whole(rows) or not is_whole(dimension) or rows < 1 or dimension < 1:
            raise _core.DamagedFileError("these scores must have at least 1 row and 1 component")
        return cls(header["key"], rows, dimension, bytes(parts[0]))

    def __repr__(self) -> str:
        return f"<scores of {self.rows:,} rows, {readable_bytes(self.nbytes)}, key {printable(self.key_id[:8])}>"


class VectorClient(HtmlRepr):
    """The client of a nearest-neighbour search: encrypts vectors and decrypts scores. `secret` is a key of the layout's
    parameters; None generates a new key.

    >>> client = hg.knn.VectorClient(index.layout)
    >>> server = hg.Server(client.evaluation_keys())  # the server's; it cannot decrypt
    >>> query = server.from_bytes(client.encrypt(np.array([1, 1, 1], np.int8)).to_bytes())
    >>> found = client.nearest(index.scores(query), k=2)
    >>> found.ids, found.scores
    (array([2, 0]), array([5, 3]))
    """

    def __init__(self, layout: VectorLayout, secret: SecretKey | None = None) -> None:
        if not isinstance(layout, VectorLayout):
            raise _core.DtypeError(f"layout must be a VectorLayout, got {type(layout).__name__}")
        secret_key: Any = SecretKey.generate(layout.parameters) if secret is None else secret
        if not isinstance(secret_key, SecretKey):
            raise _core.DtypeError(f"secret must be a secret key of BFV, got {type(secret_key).__name__}")
        if secret_key.parameters != layout.parameters:
            raise _core.MismatchError(
                "the key has other parameters than the layout; make one by SecretKey.generate(layout.parameters)"
            )
        self.layout = layout  #: description of the server's vectors
        self.secret = secret_key  #: the secret key; the client must keep it

    def evaluation_keys(self, *, progress: Progress | None = None) -> EvaluationKeys:
        """Generates the evaluation keys that the server needs, which are uploaded once: only rotation keys.

        >>> client.evaluation_keys().relinearize
        False
        """
        return self.secret.evaluation_keys(relinearize=False, rotations=self.layout.rotations, progress=progress)

    @composite
    def encrypt(self, vector: Any) -> Tensor:
        """Encrypts a vector, int8 [dimension], for `Vectors.scores`. The tensor is seeded, which halves the bytes of its
        file.

        Raises DtypeError, ShapeError.

        >>> client.encrypt(np.array([1, 1, 1], np.int8)).shape
        (1,)
        """
        components = array_of(vector, "a vector")
        if components.dtype != np.int8:
            raise _core.DtypeError(
                f"a vector must be of int8, not {components.dtype}; scale and round it as the server's vectors"
            )
        if components.shape != (self.layout.dimension,):
            raise _core.ShapeError(
                f"the vector must have {self.layout.dimension:,} components on one axis, got shape {components.shape}"
            )
        return Tensor(_core.exact.encrypt_vector(self.secret._core, np.ascontiguousarray(components)))

    def scores(self, answer: Scores) -> Int64Array:
        """Decrypts the inner products with all rows, int64 [rows].

        Raises WrongKeyError, MismatchError for scores of another key or other vectors, NoiseError for scores that may be
        wrong. Scores contain no proof that the server has followed the protocol.

        >>> client.scores(scores)
        array([ 3, -3,  5, -2])
        """
        if not isinstance(answer, Scores):
            raise _core.DtypeError(f"scores must be hg.knn.Scores, got {type(answer).__name__}")
        if answer.key_id != self.secret.id:
            raise _core.WrongKeyError(
                f"the scores are of key {printable(answer.key_id[:8])}, not of this client's key {self.secret.id[:8]}"
            )
        layout = self.layout
        if (answer.rows, answer.dimension) != (layout.rows, layout.dimension):
            raise _core.MismatchError(
                f"the scores must be of {layout.rows:,} rows of {layout.dimension:,} components, as the layout; got "
                f"{answer.rows:,} of {answer.dimension:,}"
            )
        core = _core.exact.from_rounded(self.secret._core, answer._data, layout._plan, layout.rows)
        residues: Any = self.secret._core.decrypt(core)
        return from_residues(residues, layout.parameters.plain_moduli).reshape(-1)[: layout.rows]

    def nearest(self, answer: Scores, k: int = 10) -> Neighbours:
        """Returns the `k` rows with the largest inner products, or all rows if there are fewer than `k`. Among equal scores,
        the rows with lower numbers come first.

        Raises the errors of `scores`.

        >>> client.nearest(scores, k=10).ids
        array([2, 0, 3, 1])
        """
        count = count_of(k, "k", 1)
        scores = self.scores(answer)
        rows = np.arange(len(scores))
        if count < len(scores):
            least = np.partition(scores, -count)[-count]
            rows = np.flatnonzero(scores >= least)
        best = rows[np.argsort(-scores[rows], kind="stable")][:count]
        return Neighbours(best if self.layout.ids is None else self.layout.ids[best], scores[best])

    def __repr__(self) -> str:
        return f"<client of {self.layout.rows:,} vectors of {self.layout.dimension:,} components, key {self.secret.id[:8]}>"
