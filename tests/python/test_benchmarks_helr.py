"""The benchmark of logistic regression with bootstrapping (benchmarks/runners/helr_bootstrap.py), on a small insecure set."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.report import results
from figures_rig import require_lines, table_of


def command(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    """Runs the program for a small case with further arguments."""
    from benchmarks.runners import helr_bootstrap

    some = ["--set", "small", "--rows", "200", "--features", "6", "--minibatch", "128", "--iterations", "3"]
    monkeypatch.setattr(sys, "argv", ["helr_bootstrap.py", *some, *words])
    helr_bootstrap.main()


def test_an_encrypted_training_equals_the_clear_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training with two bootstraps has two minibatches, the second of which is shorter. The encrypted model of this
    training equals the clear model.

    """
    out = tmp_path / "helr.jsonl"
    command(monkeypatch, "--out", str(out))
    report = results.read(out)
    (row,) = report["results"]
    assert (row["bootstraps"], row["ciphertexts"], row["minibatch"]) == (2, 2, 128)
    assert row["largest_weight_error"] < 1e-3 < 0.1 < row["largest_weight"]
    assert row["encrypted"] == row["same_steps_in_the_clear"]
    require_lines(
        table_of("HELR with bootstraps", out), "| synthetic: 200 of 6 features, 128 a minibatch | 3 | 2 | , log QP 1"
    )


def test_a_differing_model_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear training without momentum gives another model, and the check refuses this model."""
    from benchmarks.runners import helr_bootstrap

    original = helr_bootstrap.train_clear

    def plain(batches: Any, iterations: int) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(helr_bootstrap, "momentum", lambda n: [0.0] * n)
            return original(batches, iterations)

    monkeypatch.setattr(helr_bootstrap, "train_clear", plain)
    with pytest.raises(SystemExit, match="differs from the clear one"):
        command(monkeypatch)


def test_the_clear_steps_find_the_model() -> None:
    """On synthetic rows, training finds the model; the cubic polynomial is close to the sigmoid."""
    from benchmarks.runners import helr_bootstrap as helr

    train, test = helr.synthetic(2000, 10, 1), helr.synthetic(1000, 10, 2)
    weights, largest = helr.train_clear(helr.minibatches(train, 500), 32)
    assert np.mean((test.x @ weights > 0) == test.y) > 0.75
    assert largest < helr.LARGEST
    t = np.linspace(-16, 16, 1001)
    c0, c1, c3 = helr.SIGMOID
    off = np.abs(c0 + c1 * t + c3 * t**3 - 1 / (1 + np.exp(t)))
    assert off.max() < 0.25


def test_sums_over_features_and_rows_are_rotations() -> None:
    """Sums over the features are cyclic rotations within a row; sums over the rows are rotations by complete rows."""
    from benchmarks.runners import helr_bootstrap as helr

    layout = helr.Layout.of(64, 5)
    assert (layout.places, layout.rows) == (8, 8)
    z = np.random.default_rng(1).normal(size=(13, 5))
    packed = layout.pack(z, 2)
    t = packed[1].copy()
    for step in layout.over_places:
        t = t + np.roll(t, -step)
    np.testing.assert_allclose(t, np.tile(np.append(z[8:].sum(1), [0, 0, 0]), 8))
    np.testing.assert_allclose(packed.reshape(2, 8, 8).sum((0, 2))[:5], z.sum(0))


def test_bootstraps_are_placed_where_levels_run_out() -> None:
    """Bootstraps are placed where levels run out: thirteen levels, of which one is reserved, allow three iterations of four
    levels.
    """
    from benchmarks.runners import helr_bootstrap as helr

    found = helr.begins(16, 4, 7)
    assert found == [(16, False), (12, False), (8, False), (16, True), (12, False), (8, False), (16, True)]
    with pytest.raises(SystemExit, match="needs 4 levels"):
        helr.begins(7, 4, 1)


def test_the_data_reader_returns_two_digits(tmp_path: Path) -> None:
    """The data reader averages blocks of four pixels and prepends a constant; an 8 has label 1."""
    from benchmarks.runners import helr_bootstrap as helr

    images = np.zeros((4, 28, 28), np.uint8)
    images[1, :2, :2] = [[255, 0], [0, 255]]
    for name, values in (
        ("t10k-images-idx3-ubyte.gz", images),
        ("t10k-labels-idx1-ubyte.gz", np.array([3, 8, 5, 8], np.uint8)),
    ):
        head = bytes([0, 0, 8, values.ndim]) + b"".join(n.to_bytes(4, "big") for n in values.shape)
        (tmp_path / name).write_bytes(gzip.compress(head + values.tobytes()))
    rows = helr.mnist(tmp_path, "t10k")
    assert rows.x.shape == (3, 197)
    assert rows.y.tolist() == [0, 1, 1]
    assert rows.x[:, :3].tolist() == [[1, 0, 0], [1, 0.5, 0], [1, 0, 0]]
    assert rows.signed[0, 0] == -1
    with pytest.raises(SystemExit, match="cannot read train-images"):
        helr.mnist(tmp_path, "train")
