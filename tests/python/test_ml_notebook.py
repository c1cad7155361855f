"""The notebook on compiled models runs, and its results are those of the libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def test_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All cells run. Encrypted results have the library's classes, and the guard of the network notices wrong samples."""
    pytest.importorskip("sklearn")
    pytest.importorskip("onnx")
    path = Path(__file__).resolve().parents[2] / "examples" / "models.ipynb"
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    monkeypatch.chdir(tmp_path)  # the notebook writes a file
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells):
        exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), names)
    assert [names[f"{kind}_same"] for kind in ("linear", "one", "many", "network")] == [1, 1, 1, True]
    limits = {"linear_error": 1e-5, "one_error": 1e-6, "many_error": 1e-6, "network_error": 1e-3}
    assert {name: bool(names[name] < limit) for name, limit in limits.items()} == dict.fromkeys(limits, True)
    assert (names["one"].scheme, names["many"].scheme) == ("CKKS", "BGV")
    assert names["noticed"]
    assert names["simulated"] > names["clear"] - 0.02
    assert names["found"].worst.from_polynomials < 1e-3
