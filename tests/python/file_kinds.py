"""Valid files of every kind that Python reads, with their readers and operations on the loaded objects."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
import tfhe_rig
from heliograph import ml, nn
from heliograph.ml.graph import Graph, Node
from heliograph.ml.networks import compile_graph
from heliograph.ml.networks.preparation import Preparation
from heliograph.ml.networks.prepared import PreparedModel
from heliograph.ml.partition import partition
from heliograph.ml.trees.compile import compile_ensemble
from heliograph.ml.trees.ensemble import Builder, Condition


class Kind:
    """A valid file, its reader, and operations on the loaded object."""

    def __init__(self, data: bytes, read: Callable[[bytes], Any], use: Callable[[Any], Any]) -> None:
        self.data, self.read, self.use = data, read, use


def from_file(load: Callable[[Any], Any], folder: Path) -> Callable[[bytes], Any]:
    """Returns a reader of bytes for a loader of paths."""

    def read(data: bytes) -> Any:
        (folder / "hostile").write_bytes(data)
        return load(folder / "hostile")

    return read


def described(thing: Any) -> Any:
    """Returns the texts that describe an object: repr and HTML."""
    return repr(thing), getattr(thing, "explain", str)(), getattr(thing, "_repr_html_", str)()


def _sql(kinds: dict[str, Kind]) -> None:
    data = {"x": [1, None, 3], "s": ["a", "b", "a"], "d": ["2026-01-01"] * 3}
    days = {"d": hg.sql.Column("date")}
    for name, options in {
        "sql table": {"filters": ["x", "s", "d"], "sums": ["x"]},
        "sql integers": {"scheme": "tfhe", "parameters": tfhe_rig.parameters("bits")},
    }.items():
        layout = hg.sql.layout(data, columns=days, **options)
        secret = hg.SecretKey.generate(layout.parameters)
        table = hg.sql.encrypt(secret, layout, data)
        server = hg.sql.SqlServer(secret.evaluation_keys())
        server.add(table)
        answer = server.sql("SELECT COUNT(*), SUM(x) FROM t WHERE s = 'a'")

        def use_table(read: Any) -> None:
            (
                repr(read),
                read.layout.summary_rows(),
                read.key_id,
                read.piece_count,
                read.plan("SELECT COUNT(*), SUM(x) FROM t WHERE x > 1"),
            )

        def use_answer(read: Any, secret: Any = secret) -> None:
            described(read)
            read.decrypt(secret)

        kinds[name] = Kind(table.to_bytes(), hg.sql.EncryptedTable.from_bytes, use_table)
        kinds[f"{name}'s answer"] = Kind(answer.to_bytes(), hg.sql.Answer.from_bytes, use_answer)


def _lookup(kinds: dict[str, Kind], folder: Path) -> None:
    frame = {"k": ["a", "b"], "v": np.arange(2), "f": [0.5, 1.5], "b": [b"xy", b"zw"]}
    db = hg.pir.Database(frame, key="k")
    client = db.client()
    question = client.ask("a")

    def use_client(read: Any) -> None:
        described(read), len(read), read.by_number, read.question_bytes, read.answer_bytes
        read.ask(0 if read.by_number else "a").to_bytes()

    kinds["look-up client"] = Kind(client.to_bytes(), hg.pir.LookupClient.from_bytes, use_client)
    numbers = hg.pir.Database({"v": np.arange(3)}).client()
    kinds["look-up by number"] = Kind(numbers.to_bytes(), hg.pir.LookupClient.from_bytes, use_client)
    db.save(folder / "t.hgd")
    load = from_file(hg.pir.Database.load, folder)
    kinds["look-up table"] = Kind((folder / "t.hgd").read_bytes(), load, lambda read: use_client(read.client()))
    asked = question.to_bytes()
    kinds["look-up question"] = Kind(asked, db.answer, question.read)
    kinds["look-up answer"] = Kind(db.answer(asked), question.read, repr)


def _vectors(kinds: dict[str, Kind], folder: Path) -> None:
    index = hg.knn.Vectors(np.arange(8, dtype=np.int8).reshape(4, 2), ids=[5, 6, 7, 8])
    client = hg.knn.VectorClient(index.layout)
    query = hg.Server(client.evaluation_keys()).bind(client.encrypt(np.array([1, 1], np.int8)))
    scores = index.scores(query)
    kinds["vectors' layout"] = Kind(index.layout.to_bytes(), hg.knn.VectorLayout.from_bytes, described)
    index.save(folder / "v.hgv")
    kinds["vectors"] = Kind((folder / "v.hgv").read_bytes(), from_file(hg.knn.Vectors.load, folder), described)
    kinds["scores"] = Kind(scores.to_bytes(), hg.knn.Scores.from_bytes, lambda read: (repr(read), client.nearest(read, k=1)))


def _prepared(folder: Path, load: Any) -> Kind:
    """Returns a bundle of a network of token numbers."""
    shapes = {"x": (1, 2), "table": (4, 3), "w": (6, 2), "words": (1, 2, 3), "flat": (1, 6), "y": (1, 2)}
    nodes = (
        Node("Gather", ("table", "x"), "words", {"axis": 0}),
        Node("Reshape", ("words",), "flat", {"shape": (1, 6)}),
        Node("MatMul", ("flat", "w"), "y"),
    )
    random = np.random.default_rng(2)
    constants = {"table": random.normal(size=(4, 3)).astype(np.float32), "w": random.normal(size=(6, 2))}
    parts = partition(Graph(("x",), ("y",), nodes, shapes, constants, "", {"x": "int64"}))
    tokens = random.integers(0, 4, (20, 2))
    preparation = Preparation.of(parts, tokens, 1.3)
    graph, _ = preparation.joined(parts.canonical())
    parameters = hg.ckks.parameters(depth=1, precision=15)
    made = PreparedModel(compile_graph(graph, preparation(tokens), accuracy=0.1, parameters=parameters), preparation)
    made.export(folder / "p.hgm")
    secret = hg.SecretKey.generate(parameters)

    def use(read: Any) -> None:
        described(read), read.inputs, read.outputs, read.needs, read.client().nbytes
        read.client().encrypt(secret, tokens[:1], unchecked=True)

    return Kind((folder / "p.hgm").read_bytes(), load, use)


def _models(kinds: dict[str, Kind], folder: Path) -> None:
    params = hg.bfv.parameters(n=1024, log_q=60, special=0, plain_modulus=12289, insecure=True)
    secret = hg.SecretKey.generate(params)
    x = hg.Server(secret.evaluation_keys()).bind(secret.encrypt(np.arange(1024)))
    program = hg.program(lambda a: [a + a, (a - 1,)], x)

    def use_model(read: Any) -> None:
        described(read), read.inputs, read.outputs, read.needs, read.labels

    def use_program(read: Any) -> None:
        repr(read), read.bootstraps
        read(x)

    load = from_file(hg.ModelBundle.load, folder)
    program.export(folder / "m.hgm")
    kinds["program bundle"] = Kind((folder / "m.hgm").read_bytes(), load, use_model)
    layer = ml.Dense(np.array([[2.0, 1.0], [1.0, -1.0]]), np.array([0.5, 0.0]))
    model = ml.EstimatorModel("a line", (layer,), np.array([0, 1]), False, 8.0)
    model.export(folder / "e.hgm", parameters=hg.ckks.parameters(depth=2, precision=15))
    kinds["estimator bundle"] = Kind((folder / "e.hgm").read_bytes(), load, use_model)
    random = np.random.default_rng(1)
    builder = Builder("trees", 2, 1)
    condition = builder.condition(Condition(1, 0.5), "a tree")
    builder.add([condition, 0, 0], [1, -1, -1], [2, -1, -1], random.normal(size=(3, 1)), "a tree")
    compile_ensemble(builder.made([0.5], ml.Output(), None, single=True)).export(folder / "t.hgm")
    kinds["prepared network"] = _prepared(folder, load)
    kinds["ensemble bundle"] = Kind((folder / "t.hgm").read_bytes(), load, use_model)
    nn.setup("digits").export(folder / "n.hgm")
    kinds["network bundle"] = Kind((folder / "n.hgm").read_bytes(), load, use_model)
    kinds["program"] = Kind(program.to_bytes(), hg.Program.from_bytes, use_program)


def _frames(kinds: dict[str, Kind]) -> None:
    sales = {"price": [10.0, 20.0, 30.0], "count": [1, 2, 3], "region": ["east", "north", "east"]}
    parameters = hg.frame.parameters_for(sales)
    owner = hg.frame.SecretKey.generate(parameters)
    keys = owner.evaluation_keys()
    server = hg.frame.Server(keys)
    frame = owner.encrypt(sales)
    answer = server.bind(frame)["count"].mean()

    def use_frame(read: Any) -> None:
        described(read), len(read), read.columns, read.key_ids, read.nbytes
        server.bind(read)["count"].sum()

    def use_answer(read: Any) -> None:
        described(read), read.nbytes
        owner.decrypt(read)

    def use_keys(read: Any) -> None:
        described(read), read.ids
        hg.frame.Server(read).bind(frame)["count"].sum()

    kinds["encrypted frame"] = Kind(frame.to_bytes(), hg.frame.EncryptedFrame.from_bytes, use_frame)
    kinds["frame's answer"] = Kind(answer.to_bytes(), hg.frame.Answer.from_bytes, use_answer)
    kinds["frame's keys"] = Kind(keys.to_bytes(), hg.frame.EvaluationKeys.from_bytes, use_keys)


def _switching(kinds: dict[str, Kind]) -> None:
    parameters = hg.ckks.parameters(n=2**11, depth=5, log_scale=39, slots=64, bootstrap=True, insecure=True)
    ckks, tfhe = hg.SecretKey.generate(parameters), hg.SecretKey.generate(tfhe_rig.parameters("digits"))
    keys = hg.switching.keys(ckks, tfhe)

    def use_keys(read: Any) -> None:
        described(read), read.ckks_id, read.tfhe_id, read.nbytes
        hg.switching.log2_failure(read)
        assert hg.switching.Keys.from_bytes(read.to_bytes()).to_bytes() == read.to_bytes()

    kinds["switching keys"] = Kind(keys.to_bytes(), hg.switching.Keys.from_bytes, use_keys)


@functools.cache
def kinds(folder: Path) -> dict[str, Kind]:
    """Returns all kinds of files."""
    found: dict[str, Kind] = {}
    _sql(found), _lookup(found, folder), _vectors(found, folder), _models(found, folder), _frames(found), _switching(found)
    return found
