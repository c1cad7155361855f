"""ONNX graphs of small transformers with random weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from test_ml_read_onnx import model, node

WORDS = 60  # tokens of the vocabulary


def encoder(
    count: int, features: int, heads: int, hidden: int, layers: int = 1, *, square: bool = False, seed: int = 5
) -> Any:
    """Returns an encoder of token numbers "x" and a mask "mask" [1, count]: embeddings, and layers of attention and GELU with
    normalizations. With `square` the mask is a matrix [1, 1, count, count] before it is added."""
    rng = np.random.default_rng(seed)
    size = features // heads
    constants: dict[str, Any] = {
        "table": rng.normal(size=(WORDS, features)).astype(np.float32),
        "places": rng.normal(size=(count, features)).astype(np.float32),
        "split": np.array([1, count, heads, size]),
        "joined": np.array([1, count, features]),
        "one": np.float32(1),
        "low": np.float32(-1e9),
        "factor": np.float32(size**-0.5),
        "axes": np.array([1, 2]),
        "matrix": np.array([1, 1, count, count]),
    }
    nodes = [
        node("Gather", "table x", "words"),
        node("Add", "words places", "embedded"),
        node("Cast", "mask", "floats", to=1),
        node("Unsqueeze", "floats axes", "wide"),
        node("Sub", "one wide", "rest"),
        node("Mul", "rest low", "row"),
        *([node("Expand", "row matrix", "bias")] if square else []),
    ]
    bias, value = "bias" if square else "row", "embedded"

    def weight(name: str, *shape: int) -> str:
        constants[name] = (rng.normal(size=shape) * (0.7 / shape[0] ** 0.5 if len(shape) > 1 else 0.1)).astype(np.float32)
        return name

    def dense(x: str, name: str, outputs: int, inputs: int) -> str:
        nodes.append(node("MatMul", f"{x} {weight(f'{name}/w', inputs, outputs)}", f"{name}/product"))
        nodes.append(node("Add", f"{name}/product {weight(f'{name}/b', outputs)}", name))
        return name

    def normalized(x: str, name: str) -> str:
        constants[f"{name}/scale"] = (1 + 0.1 * rng.normal(size=features)).astype(np.float32)
        nodes.append(node("LayerNormalization", f"{x} {name}/scale {weight(f'{name}/offset', features)}", name))
        return name

    value = normalized(value, "start")
    for layer in range(layers):
        at = f"layer{layer}"
        turned = {}
        for part, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
            made = dense(value, f"{at}/{part}", features, features)
            nodes.append(node("Reshape", f"{made} split", f"{made}/split"))
            nodes.append(node("Transpose", f"{made}/split", f"{made}/turned", perm=order))
            turned[part] = f"{made}/turned"
        nodes += [
            node("MatMul", f"{turned['q']} {turned['k']}", f"{at}/product"),
            node("Mul", f"{at}/product factor", f"{at}/scores"),
            node("Add", f"{at}/scores {bias}", f"{at}/masked"),
            node("Softmax", f"{at}/masked", f"{at}/shares"),
            node("MatMul", f"{at}/shares {turned['v']}", f"{at}/mixed"),
            node("Transpose", f"{at}/mixed", f"{at}/back", perm=[0, 2, 1, 3]),
            node("Reshape", f"{at}/back joined", f"{at}/whole"),
        ]
        out = dense(f"{at}/whole", f"{at}/out", features, features)
        nodes.append(node("Add", f"{value} {out}", f"{at}/sum"))
        value = normalized(f"{at}/sum", f"{at}/normal")
        wide = dense(value, f"{at}/wide", hidden, features)
        nodes.append(node("Gelu", wide, f"{at}/gelu"))
        narrow = dense(f"{at}/gelu", f"{at}/narrow", features, hidden)
        nodes.append(node("Add", f"{value} {narrow}", f"{at}/sum2"))
        value = normalized(f"{at}/sum2", f"{at}/normal2" if layer < layers - 1 else "y")
    return model(nodes, {"x": [1, count], "mask": [1, count]}, ["y"], constants, kind=7, opset=20)


def feeds(samples: int, count: int, seed: int = 6) -> dict[str, np.ndarray]:
    """Returns token numbers and masks [samples, count]."""
    rng = np.random.default_rng(seed)
    mask = (np.arange(count) < rng.integers(count // 3, count + 1, (samples, 1))).astype(np.int64)
    return {"x": rng.integers(0, WORDS, (samples, count)), "mask": mask}
