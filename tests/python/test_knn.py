"""Nearest neighbours: scores of encrypted vectors equal NumPy's exactly, and invalid inputs are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heliograph as hg
from benchmarks.report import results
from figures_rig import ROOT, module
from heliograph import _core
from heliograph._common.ciphertext_files import pieces
from heliograph.cli import run
from heliograph.knn.vectors import LAYOUT_TYPE
from places import places
from rigs import SEED

ROWS, DIMENSION = 4100, 200  # this size takes two blocks of rows, and two ciphertexts per vector


@cache
def base() -> Any:
    """Returns random vectors. Some rows have extreme values, which give the largest sums; some are equal, which gives ties."""
    values = np.random.default_rng(5).integers(-128, 128, (ROWS, DIMENSION), dtype=np.int8)
    values[0], values[1], values[4096] = -128, 127, -128
    values[17] = values[4099] = values[9]
    return values


@cache
def parties() -> tuple[Any, Any, Any]:
    """Returns an index, a client and a server; they exchange serialized objects."""
    index = hg.knn.Vectors(base())
    client = hg.knn.VectorClient(hg.knn.VectorLayout.from_bytes(index.layout.to_bytes()))
    server = hg.Server(hg.EvaluationKeys.from_bytes(client.evaluation_keys().to_bytes()))
    return index, client, server


def asked(vector: Any, parties: tuple[Any, Any, Any]) -> Any:
    """Returns the scores of an encrypted query after serializing both."""
    index, client, server = parties
    query = server.from_bytes(client.encrypt(vector).to_bytes())
    return hg.knn.Scores.from_bytes(index.scores(query).to_bytes())


def expected(vector: Any, among: Any) -> Any:
    """Computes the scores by NumPy."""
    return among.astype(np.int64) @ vector.astype(np.int64)


VECTORS = {
    "random": np.random.default_rng(6).integers(-128, 128, DIMENSION, dtype=np.int8),
    "the least": np.full(DIMENSION, -128, np.int8),
    "the largest": np.full(DIMENSION, 127, np.int8),
    "one component": np.eye(1, DIMENSION, 199, dtype=np.int8)[0],
    "zero": np.zeros(DIMENSION, np.int8),
}


@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
def test_scores_equal_numpys(vector: Any) -> None:
    """All scores are exact, including the largest possible sum and zero."""
    found = parties()[1].scores(asked(vector, parties()))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, expected(vector, base()))


@pytest.mark.parametrize("dimension", [1, 2, 128, 129, 384])
def test_vectors_of_any_dimension(dimension: int) -> None:
    """Scores are exact for vectors of any length: one component, as many as a ciphertext holds, one more, and several
    ciphertexts.

    """
    rng = np.random.default_rng(dimension)
    values = rng.integers(-128, 128, (50, dimension), dtype=np.int8)
    values[0] = -128
    vector = np.full(dimension, -128, np.int8)
    index = hg.knn.Vectors(values)
    client = hg.knn.VectorClient(index.layout)
    found = client.scores(asked(vector, (index, client, hg.Server(client.evaluation_keys()))))
    np.testing.assert_array_equal(found, expected(vector, values))


@pytest.mark.parametrize("dimension", [768, 1536, pytest.param(4096, marks=pytest.mark.full)])
def test_long_vectors_at_the_ends(dimension: int) -> None:
    """Products of vectors that have only components -128 have the most noise; their scores are still exact."""
    values = np.full((3, dimension), -128, np.int8)
    values[1], values[2] = 127, np.random.default_rng(1).integers(-128, 128, dimension)
    index = hg.knn.Vectors(values)
    client = hg.knn.VectorClient(index.layout)
    found = client.scores(asked(values[0], (index, client, hg.Server(client.evaluation_keys()))))
    np.testing.assert_array_equal(found, expected(values[0], values))


def test_nearest_and_ties() -> None:
    """Results are sorted by score, and for equal scores by row. If k exceeds the number of rows, all rows are returned."""
    _, client, _ = parties()
    vector = base()[9]
    answer, wanted = asked(vector, parties()), expected(vector, base())
    order = np.lexsort((np.arange(ROWS), -wanted))
    for k in (1, 2, 3, 10, ROWS, ROWS + 5):
        found = client.nearest(answer, k=k)
        np.testing.assert_array_equal(found.ids, order[:k])
        np.testing.assert_array_equal(found.scores, wanted[order[:k]])
    assert list(order[:3]) == [9, 17, 4099]  # ties do occur
    for k in (0, -1, 2.5, "ten"):
        with pytest.raises(hg.ParameterError, match="k must be"):
            client.nearest(answer, k=k)


def test_recall_of_rounded_vectors() -> None:
    """For normalised real vectors, scaled by one factor and rounded, at least 95 % of the ten nearest neighbours are found."""
    rng = np.random.default_rng(12)
    # The vectors are like embeddings: a few directions have most of the variance.
    real = rng.normal(size=(3000, 96)) @ np.diag(1 / (1 + np.arange(96) / 24))
    real /= np.linalg.norm(real, axis=1, keepdims=True)
    asked_for = real[:6] + 0.3 * rng.normal(size=(6, 96)) / np.sqrt(96)
    asked_for /= np.linalg.norm(asked_for, axis=1, keepdims=True)
    scale = 127 / np.abs(np.concatenate([real, asked_for])).max()
    index = hg.knn.Vectors(np.rint(scale * real).astype(np.int8))
    client = hg.knn.VectorClient(index.layout)
    server = hg.Server(client.evaluation_keys())
    found = 0
    for vector in asked_for:
        near = client.nearest(index.scores(server.bind(client.encrypt(np.rint(scale * vector).astype(np.int8)))), k=10)
        found += len(set(near.ids.tolist()) & set(np.argsort(-(real @ vector))[:10].tolist()))
    assert found >= 0.95 * 60


def test_results_name_rows_by_their_ids(tmp_path: Path) -> None:
    """Results have the row ids of the server, also negative ids and ids beyond 32 bits."""
    ids = np.array([70, -3, 1 << 40], np.int64)
    index = hg.knn.Vectors(np.array([[1, 0], [0, 1], [5, 5]], np.int8), ids=ids)
    index.layout.save(tmp_path / "layout.hg")
    client = hg.knn.VectorClient(hg.knn.VectorLayout.load(tmp_path / "layout.hg"))
    answer = asked(np.array([0, 1], np.int8), (index, client, hg.Server(client.evaluation_keys())))
    assert client.nearest(answer, k=2).ids.tolist() == [1 << 40, -3]


def test_replaced_rows() -> None:
    """If rows across a block boundary are replaced, these rows have new scores and the others keep theirs."""
    values = base().copy()
    index, client, server = hg.knn.Vectors(values), parties()[1], parties()[2]
    other = np.random.default_rng(8).integers(-128, 128, (6, DIMENSION), dtype=np.int8)
    index.replace(4093, other)
    changed = base().copy()
    changed[4093:4099] = other
    vector = VECTORS["random"]
    np.testing.assert_array_equal(client.scores(asked(vector, (index, client, server))), expected(vector, changed))
    np.testing.assert_array_equal(values, base())  # the array of the caller is unchanged
    for first, array in ((4095, other), (0, other[:, :5]), (-1, other)):
        with pytest.raises((hg.ShapeError, hg.ParameterError)):
            index.replace(first, array)


def test_two_secrets_and_one_index() -> None:
    """Of two clients of one index, each can decrypt only its own scores."""
    index, client, server = parties()
    other = hg.knn.VectorClient(index.layout)
    theirs = hg.Server(other.evaluation_keys())
    vector = VECTORS["random"]
    answer = asked(vector, (index, other, theirs))
    np.testing.assert_array_equal(other.scores(answer), expected(vector, base()))
    with pytest.raises(hg.WrongKeyError, match="the scores are of key"):
        client.scores(answer)
    with pytest.raises(hg.WrongKeyError):
        index.scores(other.encrypt(vector), keys=server.keys)


def test_several_clients_at_once() -> None:
    """If the queries of two clients do not fit one pass, each client gets its own answers, which equal those of single
    queries.

    """
    index, client, server = parties()
    other = hg.knn.VectorClient(index.layout)
    theirs = hg.Server(other.evaluation_keys())
    vectors = [*VECTORS.values(), base()[9]]
    owners = [(client, server), (other, theirs)] * 3
    queries = [s.bind(c.encrypt(vector)) for vector, (c, s) in zip(vectors, owners, strict=True)]
    shares: list[float] = []
    answers = index.scores_together(queries, progress=shares.append)
    assert (shares == sorted(shares), shares[-1], len(answers)) == (True, 1, 6)
    for query, vector, (owner, _), answer in zip(queries, vectors, owners, answers, strict=True):
        np.testing.assert_array_equal(owner.scores(answer), expected(vector, base()))
        assert answer.to_bytes() == index.scores(query).to_bytes()
    assert index.scores_together([]) == []
    with pytest.raises(hg.DtypeError, match="list of tensors"):
        index.scores_together(7)  # type: ignore[arg-type]
    with pytest.raises(hg.MissingKeyError):
        index.scores_together([queries[0], client.encrypt(vectors[0])])


@pytest.mark.parametrize(
    ("array", "options", "error", "match"),
    [
        (np.zeros((3, 4), np.int16), {}, hg.DtypeError, "int8, not int16"),
        (np.zeros((3, 4)), {}, hg.DtypeError, "int8, not float64"),
        (np.zeros(4, np.int8), {}, hg.ShapeError, r"got shape \(4,\)"),
        (np.zeros((0, 4), np.int8), {}, hg.ShapeError, "not empty"),
        (np.zeros((4, 0), np.int8), {}, hg.ShapeError, "not empty"),
        (np.zeros((1, 4097), np.int8), {}, hg.LimitError, "4,096 components"),
        (np.zeros((3, 4), np.int8), {"ids": [1, 2]}, hg.ShapeError, "one for each of 3 vectors"),
        (np.zeros((3, 4), np.int8), {"ids": [1, 2, 1]}, hg.PlaintextRangeError, "must be different"),
        (np.zeros((3, 4), np.int8), {"ids": ["a", "b", "c"]}, hg.DtypeError, "ids must be integers"),
    ],
)
def test_arrays_that_do_not_fit(array: Any, options: dict[str, Any], error: Any, match: str) -> None:
    """Invalid arrays are refused before preparation; the error names them."""
    with pytest.raises(error, match=match):
        hg.knn.Vectors(array, **options)


def test_vectors_that_do_not_fit() -> None:
    """The client refuses other dimensions and dtypes. The server refuses encrypted vectors of other layouts."""
    index, client, server = parties()
    with pytest.raises(hg.ShapeError, match="200 components"):
        client.encrypt(np.zeros(199, np.int8))
    with pytest.raises(hg.DtypeError, match="int8, not int64"):
        client.encrypt(np.zeros(200, np.int64))
    with pytest.raises(hg.DtypeError, match="tensor of BFV"):
        index.scores(np.zeros(200, np.int8))
    with pytest.raises(hg.MissingKeyError):
        index.scores(client.encrypt(VECTORS["zero"]))
    query = server.bind(client.encrypt(VECTORS["zero"]))
    with pytest.raises(hg.ShapeError, match="not a vector for these rows"):
        index.scores(query[:1])
    with pytest.raises(hg.LevelError, match="was changed by an operation"):
        index.scores(hg.shrink(query, 2))
    few = hg.Server(client.secret.evaluation_keys(relinearize=False, rotations=index.layout.rotations[1:]))
    with pytest.raises(hg.MissingKeyError, match="rotation"):
        index.scores(few.bind(client.encrypt(VECTORS["zero"])))
    small = hg.knn.VectorClient(hg.knn.VectorLayout(5, 3))
    with pytest.raises(hg.MismatchError, match="other parameters"):
        index.scores(hg.Server(small.evaluation_keys()).bind(small.encrypt(np.zeros(3, np.int8))))
    with pytest.raises(hg.MismatchError, match="other parameters"):
        hg.knn.VectorClient(index.layout, small.secret)


def test_files_that_are_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A flipped bit, a short file, another type and impossible numbers are refused. inspect describes valid files."""
    index, client, _ = parties()
    answer = asked(VECTORS["random"], parties())
    for made, read in ((index.layout, hg.knn.VectorLayout.from_bytes), (answer, hg.knn.Scores.from_bytes)):
        data = bytearray(made.to_bytes())
        data[len(data) // 2] ^= 4
        with pytest.raises(hg.FormatError):
            read(bytes(data))
        with pytest.raises(hg.FormatError):
            read(made.to_bytes()[:-1])
    with pytest.raises(hg.FormatError, match="holds"):
        hg.knn.Scores.from_bytes(index.layout.to_bytes())
    for rows, dimension, error in ((ROWS, 199, hg.MismatchError), (ROWS - 1, DIMENSION, hg.MismatchError)):
        with pytest.raises(error):
            client.scores(hg.knn.Scores(client.secret.id, rows, dimension, answer._data))
    with pytest.raises(hg.DamagedFileError, match="so many rows"):
        client.scores(hg.knn.Scores(client.secret.id, ROWS, DIMENSION, answer._data[:-8]))
    index.layout.save(tmp_path / "layout.hg")
    answer.save(tmp_path / "scores.hg")
    assert run(["inspect", str(tmp_path / "layout.hg"), str(tmp_path / "scores.hg")]) == 0
    shown = capsys.readouterr().out
    assert "4,100 of 200 components" in shown
    assert client.secret.id[:8] in shown


GOOD = {"dimension": 3, "parameter_hash": hg.knn.VectorLayout(2, 3).parameters._core.hash, "rows": 2}


@pytest.mark.parametrize(
    ("header", "ids", "error"),
    [
        ({**GOOD, "rows": 0}, None, hg.DamagedFileError),
        ({**GOOD, "rows": 1 << 31}, None, hg.DamagedFileError),
        ({**GOOD, "dimension": 4097}, None, hg.DamagedFileError),
        ({**GOOD, "dimension": True}, None, hg.DamagedFileError),
        ({**GOOD, "more": 1}, None, hg.DamagedFileError),
        (GOOD, [1, 2, 3], hg.DamagedFileError),
        (GOOD, [7, 7], hg.DamagedFileError),
        ({**GOOD, "parameter_hash": "0" * 64}, None, hg.MismatchError),
    ],
)
def test_impossible_layouts_are_refused(header: dict[str, Any], ids: Any, error: Any) -> None:
    """Valid containers with impossible layouts are refused; one with a possible layout is read."""

    def written(header: dict[str, Any], ids: Any) -> bytes:
        parts = [] if ids is None else [np.array(ids, "<i8").tobytes()]
        return b"".join(bytes(piece) for piece in pieces(LAYOUT_TYPE, header, parts, [len(part) for part in parts]))

    assert hg.knn.VectorLayout.from_bytes(written(GOOD, [5, 6])).rows == 2
    with pytest.raises(error):
        hg.knn.VectorLayout.from_bytes(written(header, ids))


def test_random_words_as_an_answer_are_refused() -> None:
    """Random words in place of an answer raise a NoiseError."""
    _, client, _ = parties()
    answer = asked(VECTORS["random"], parties())
    noise = np.random.default_rng(2).bytes(len(answer._data))
    with pytest.raises(hg.NoiseError):
        client.scores(hg.knn.Scores(client.secret.id, ROWS, DIMENSION, noise))


def test_a_layout_states_the_true_sizes() -> None:
    """The layout states the actual sizes of keys, query and answer."""
    index, client, _ = parties()
    layout = index.layout
    assert 0 < len(client.evaluation_keys().to_bytes()) - layout.key_bytes < 4096
    assert asked(VECTORS["zero"], parties()).nbytes == layout.answer_bytes
    assert layout.parameters.security == "128-bit"
    million = hg.knn.VectorLayout(1_000_000, 384)
    assert million.answer_bytes < 8_000_000
    assert million.key_bytes < 1_500_000


def test_all_queries_have_the_same_size() -> None:
    """The size of a query does not depend on the vector."""
    client = parties()[1]
    assert len({len(client.encrypt(vector).to_bytes()) for vector in VECTORS.values()}) == 1


@pytest.mark.parametrize("device", places())
def test_the_same_bits_everywhere(device: str) -> None:
    """With equal keys and draws, the rounded answer equals the answer of ref, byte for byte."""
    values = base()[:, :5]

    def answer(place: str) -> bytes:
        layout = hg.knn.VectorLayout(ROWS, 5)
        parameters = layout.parameters._core.on_device(place)
        secret = _core.exact.SecretKey.generate_for_test(parameters, SEED)
        plan = _core.exact.rows_plan(parameters, 5)
        rows = _core.exact.ClearRows(parameters, ROWS, 5)
        for block in range(2):
            rows.set(block, values[block * 4096 : (block + 1) * 4096])
        keys = secret.evaluation_keys(False, plan.rotations, False)
        query = _core.exact.encrypt_vector(secret, np.array([3, -128, 127, 0, 1], np.int8))
        return _core.exact.rounded(rows.times([query], [keys])[0], plan)

    assert answer(device) == answer("ref")


def test_the_benchmark_says_what_it_measured(tmp_path: Path) -> None:
    """The benchmark reports stages, bytes and machine, and itself checks the scores."""
    out = tmp_path / "out.jsonl"
    command = [*module("runners.vectors"), "--rows", "4100", "--dimension", "8", "--repeats", "1", "--out", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    report = results.read(out)
    (case,) = report["results"]
    assert {"index", "keys", "encrypt", "read", "scores", "together", "write", "nearest"} == set(case["seconds"])
    assert case["security"] == "128-bit"
    assert 0 < case["answer_bytes"] - hg.knn.VectorLayout(4100, 8).answer_bytes < 500
    assert {"machine", "engine", "commit", "load"} < set(report)


def test_a_process_serves_another(tmp_path: Path) -> None:
    """Client and server are two programs that exchange files; the server does not have a secret key."""
    client = hg.knn.VectorClient(hg.knn.VectorLayout(40, 16))
    values = np.random.default_rng(4).integers(-128, 128, (40, 16), dtype=np.int8)
    np.save(tmp_path / "base.npy", values)
    client.evaluation_keys().save(tmp_path / "keys.hg")
    client.encrypt(values[7]).save(tmp_path / "query.hg")
    program = """
import numpy as np, heliograph as hg
index = hg.knn.Vectors(np.load("base.npy"))
query = hg.Server(hg.load("keys.hg")).load("query.hg")
index.scores(query).save("scores.hg")
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, env=os.environ)
    found = client.nearest(hg.knn.Scores.load(tmp_path / "scores.hg"), k=1)
    wanted = expected(values[7], values)
    assert (found.ids[0], found.scores[0]) == (int(wanted.argmax()), int(wanted.max()))
