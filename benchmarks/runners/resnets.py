"""ResNet-18 in its form for ImageNet, as an ONNX file with random weights: for times and memory without trained weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from heliograph.ml import kernels

WIDTHS = (64, 128, 256, 512)
_BLOCKS = 2


class _Writer:
    """Adds layers to an ONNX graph, and computes their values for some images."""

    def __init__(self, images: Any, seed: int) -> None:
        self.rng, self.nodes, self.weights = np.random.default_rng(seed), list[Any](), list[Any]()
        self.values: dict[str, Any] = {"image": np.asarray(images, dtype=np.float32)}

    def _node(self, operator: str, inputs: list[str], made: Any, **attributes: Any) -> str:
        name = f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=f"/{name}", **attributes))
        self.values[name] = made
        return name

    def _weight(self, array: Any) -> str:
        name = f"weight{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype=np.float32), name))
        return name

    def convolution(self, x: str, outputs: int, size: int, stride: int) -> str:
        """Adds a convolution and a batch normalization with the statistics of its result."""
        value = self.values[x]
        weight = self.rng.normal(size=(outputs, value.shape[1], size, size)) * np.sqrt(2 / (value.shape[1] * size**2))
        pads, strides = (size // 2,) * 4, (stride, stride)
        made = kernels.convolve(value, weight.astype(np.float32), strides=strides, pads=pads, dilations=(1, 1))
        name = self._node("Conv", [x, self._weight(weight)], made, strides=strides, pads=pads, kernel_shape=(size, size))
        mean, variance = made.mean(axis=(0, 2, 3)), made.var(axis=(0, 2, 3))
        parts = [self._weight(part) for part in (np.ones(outputs), np.zeros(outputs), mean, variance)]
        normal = (made - mean[:, None, None]) / np.sqrt(variance + 1e-5)[:, None, None]
        return self._node("BatchNormalization", [name, *parts], normal, epsilon=1e-5)

    def relu(self, x: str) -> str:
        """Adds ReLU."""
        return self._node("Relu", [x], np.maximum(self.values[x], 0))

    def pool(self, x: str) -> str:
        """Adds a maximum pool of 3 x 3 with stride 2."""
        options = {"strides": (2, 2), "pads": (1, 1, 1, 1)}
        made = kernels.maximum_pool(self.values[x], kernel=(3, 3), dilations=(1, 1), **options)
        return self._node("MaxPool", [x], made, kernel_shape=(3, 3), **options)

    def block(self, x: str, channels: int, stride: int) -> str:
        """Adds a residual block."""
        inner = self.relu(self.convolution(x, channels, 3, stride))
        inner = self.convolution(inner, channels, 3, 1)
        other = x if stride == 1 and self.values[x].shape[1] == channels else self.convolution(x, channels, 1, stride)
        return self.relu(self._node("Add", [inner, other], self.values[inner] + self.values[other]))

    def scores(self, x: str, classes: int) -> None:
        """Adds the mean over the image and a dense layer."""
        mean = self._node("GlobalAveragePool", [x], self.values[x].mean(axis=(2, 3), keepdims=True))
        flat = self._node("Flatten", [mean], self.values[mean][:, :, 0, 0])
        channels = self.values[flat].shape[1]
        weight = self._weight(self.rng.normal(size=(classes, channels)) / np.sqrt(channels))
        self.nodes.append(helper.make_node("Gemm", [flat, weight], ["logits"], name="/dense", transB=1))


def write_resnet18(path: Path, images: Any, *, classes: int = 10, widths: tuple[int, ...] = WIDTHS, seed: int = 1) -> None:
    """Writes a ResNet-18 with random weights. Its batch normalizations have the statistics of `images` [count, 3, n, n]."""
    writer = _Writer(images, seed)
    x = writer.pool(writer.relu(writer.convolution("image", widths[0], 7, 2)))
    for stage, width in enumerate(widths):
        for number in range(_BLOCKS):
            x = writer.block(x, width, 2 if stage and not number else 1)
    writer.scores(x, classes)
    image = helper.make_tensor_value_info("image", onnx.TensorProto.FLOAT, (1, *images.shape[1:]))
    logits = helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, (1, classes))
    graph = helper.make_graph(writer.nodes, "resnet18", [image], [logits], writer.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
