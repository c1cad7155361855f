"""Small integer networks whose only activation is the square: run, measure, save.

A network is a list of linear layers with x -> x * x between them, without rescaling,
rounding or clipping. Weights, biases and inputs are integers, so the outputs are exact
integers. A computation modulo a plaintext prime t gives the same outputs if all lie in
(-t/2, t/2).

The training scripts of this folder (train_mnist.py, train_digits.py) describe their
networks with the two layer classes below. The scripts evaluate the finished network with
`evaluate` and write it with `save`; evaluate_mnist.py reads it with `load`. Only numpy is
needed.

A weight file is a compressed .npz archive. For each layer it contains `NAME_weight` and
`NAME_bias` as integer arrays; one 0-d string array, `meta`, contains JSON.
"""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

WHITE = 255  # the largest MNIST pixel
BATCH = 1000  # images evaluated at a time; limits the memory for patches


@dataclass(frozen=True)
class Convolution:
    """A 2-d convolution over `channels` square maps of side `size`.

    With `groups` > 1 the filters are divided into that many equal groups, and each group
    reads only its own equal share of the input maps. A negative padding removes that many
    pixels at each border.
    """

    name: str
    channels: int
    size: int
    filters: int
    kernel: int = 5
    stride: int = 2
    padding: int = 0
    groups: int = 1

    @property
    def out_size(self) -> int:
        """Return the side of an output map."""
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def outputs(self) -> int:
        """Return the number of biases: one per filter."""
        return self.filters

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Return the shape of the weight array: filter, input map of its group, row, column."""
        return (self.filters, self.channels // self.groups, self.kernel, self.kernel)

    def apply(self, x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
        """Return weight * x + bias as (images, filters, rows, columns), in int64."""
        images, groups, side = len(x), self.groups, self.out_size
        x = x.reshape(images, self.channels, self.size, self.size)
        if self.padding >= 0:
            pad = (self.padding, self.padding)
            x = np.pad(x, ((0, 0), (0, 0), pad, pad))
        else:
            x = x[:, :, -self.padding : self.padding, -self.padding : self.padding]
        windows = np.lib.stride_tricks.sliding_window_view(x, (self.kernel, self.kernel), axis=(2, 3))[
            :, :, :: self.stride, :: self.stride
        ]
        windows = windows.reshape(images, groups, -1, side, side, self.kernel**2)
        patches = windows.transpose(1, 0, 3, 4, 2, 5).reshape(groups, images * side**2, -1)
        matrices = weight.reshape(groups, self.filters // groups, -1).transpose(0, 2, 1)
        y = np.matmul(patches, matrices).reshape(groups, images, side, side, -1)
        y = y.transpose(1, 0, 4, 2, 3).reshape(images, self.filters, side, side)
        return y + bias[:, None, None]


@dataclass(frozen=True)
class Dense:
    """A full matrix; its input is flattened in C order (channel, row, column)."""

    name: str
    inputs: int
    outputs: int

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Return the shape of the weight array: output, input."""
        return (self.outputs, self.inputs)

    def apply(self, x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
        """Return weight * x + bias as (images, outputs), in int64."""
        return np.matmul(x.reshape(len(x), -1), weight.T) + bias


Layer = Convolution | Dense

MNIST_NETWORKS: dict[str, tuple[Layer, ...]] = {
    "hcnn5": (
        Convolution("conv1", channels=1, size=28, filters=5),
        Convolution("conv2", channels=5, size=12, filters=50),
        Dense("dense", 800, 10),
    ),
    "hcnn5-paper": (
        Convolution("conv1", channels=1, size=28, filters=5),
        Convolution("conv2", channels=5, size=12, filters=50, groups=5),
        Dense("dense", 800, 10),
    ),
    "mnist-packed": (
        Convolution("conv1", channels=1, size=28, filters=5, padding=1),
        Dense("dense1", 845, 100),
        Dense("dense2", 100, 10),
    ),
    "mnist-small": (Convolution("conv1", channels=1, size=28, filters=10, padding=-1), Dense("dense", 1210, 10)),
}

Parameters = dict[str, tuple[np.ndarray, np.ndarray]]  # layer name -> weight, bias


@dataclass(frozen=True)
class Evaluation:
    """Results of `evaluate`: the logits, and the size of each layer's values."""

    logits: np.ndarray  # int64, (images, classes)
    max_linear: dict[str, int]  # layer name -> largest |weight * x + bias|

    def accuracy(self, labels: np.ndarray) -> float:
        """Return the fraction of images whose largest logit is the label's."""
        return float(np.mean(self.logits.argmax(axis=1) == labels))

    @property
    def max_logit(self) -> int:
        """Return the largest |logit|."""
        return int(np.abs(self.logits).max())


def read_idx(path: Path) -> np.ndarray:
    """Read an IDX file of unsigned bytes (the format of MNIST), gzipped or not."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    zeros, kind, dimensions = struct.unpack_from(">HBB", data)
    if zeros != 0 or kind != 8:
        raise ValueError(f"{path} is not an IDX file of bytes")
    shape = struct.unpack_from(f">{dimensions}I", data, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def quantise(values: np.ndarray, levels: int, top: int) -> np.ndarray:
    """Map integers 0..top to 0..levels, to nearest: (values * levels + top // 2) // top."""
    return (values.astype(np.int64) * levels + top // 2) // top


def evaluate(layers: Sequence[Layer], parameters: Parameters, inputs: np.ndarray) -> Evaluation:
    """Run the integer network on integer inputs (images first), exactly, in int64."""
    assert worst_case(layers, parameters, int(inputs.max()))[-1] < 2**63, "int64 could overflow"
    wide = {name: (w.astype(np.int64), b.astype(np.int64)) for name, (w, b) in parameters.items()}
    largest = dict.fromkeys((layer.name for layer in layers), 0)
    logits = []
    for start in range(0, len(inputs), BATCH):
        x = inputs[start : start + BATCH].astype(np.int64)
        for index, layer in enumerate(layers):
            x = layer.apply(x * x if index else x, *wide[layer.name])
            largest[layer.name] = max(largest[layer.name], int(np.abs(x).max()))
        logits.append(x)
    return Evaluation(np.concatenate(logits), largest)


def worst_case(layers: Sequence[Layer], parameters: Parameters, max_input: int) -> list[int]:
    """Bound |weight * x + bias| of each layer over all inputs in 0..max_input.

    Python integers, so the bound itself cannot overflow. Values rarely approach the bound: use
    it to rule out overflow, and the largest value seen to choose a modulus.
    """
    bounds: list[int] = []
    reach = max_input
    for index, layer in enumerate(layers):
        weight, bias = parameters[layer.name]
        sums = np.abs(weight.reshape(layer.outputs, -1).astype(np.int64)).sum(axis=1)
        reach = reach * reach if index else reach
        pairs = zip(sums.tolist(), np.abs(bias.astype(np.int64)).tolist(), strict=True)
        reach = max(total * reach + offset for total, offset in pairs)
        bounds.append(reach)
    return bounds


def weight_statistics(layers: Sequence[Layer], parameters: Parameters) -> dict[str, dict]:
    """Describe each layer's weights: size, sparsity, and the norms that drive noise."""
    statistics = {}
    for layer in layers:
        weight = parameters[layer.name][0].reshape(layer.outputs, -1).astype(np.int64)
        limit = int(np.abs(weight).max())
        statistics[layer.name] = {
            "max_abs_weight": limit,
            "weight_bits": limit.bit_length() + 1,  # two's complement, including the sign
            "nonzero_fraction": round(float(np.mean(weight != 0)), 4),
            "max_sum_abs": int(np.abs(weight).sum(axis=1).max()),
            "max_l2_norm": round(float(np.sqrt((weight**2).sum(axis=1).max())), 3),
        }
    return statistics


def narrow(array: np.ndarray) -> np.ndarray:
    """Return the array in the narrowest signed integer type that holds it."""
    for dtype in (np.int8, np.int16, np.int32):
        info = np.iinfo(dtype)
        if info.min <= array.min() and array.max() <= info.max:
            return array.astype(dtype)
    return array.astype(np.int64)


def describe(layers: Sequence[Layer], parameters: Parameters, training: Evaluation) -> dict:
    """Return the part of `meta` that follows from the weights and the training images."""
    statistics = weight_statistics(layers, parameters)
    *hidden, last = layers
    activations = {layer.name: training.max_linear[layer.name] ** 2 for layer in hidden}
    return {
        "layers": [layer.name for layer in layers],
        "max_abs_logit_training": training.max_logit,
        "max_abs_linear": training.max_linear,  # values before squaring
        "max_abs_activation": activations | {last.name: training.max_logit},  # values after squaring
        "weight_bits": {name: entry["weight_bits"] for name, entry in statistics.items()},
        "weights": statistics,
    }


def save(path: Path, layers: Sequence[Layer], parameters: Parameters, meta: dict) -> None:
    """Write the weight file."""
    arrays = {}
    for layer in layers:
        weight, bias = parameters[layer.name]
        arrays[f"{layer.name}_weight"] = narrow(weight.reshape(layer.weight_shape))
        arrays[f"{layer.name}_bias"] = narrow(bias.reshape(layer.outputs))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays, meta=np.array(json.dumps(meta, sort_keys=True)))


def load(path: Path, layers: Sequence[Layer]) -> tuple[Parameters, dict]:
    """Read a weight file: the layers' weights and biases, and `meta`."""
    with np.load(path) as archive:
        names = [layer.name for layer in layers]
        parameters = {name: (archive[f"{name}_weight"], archive[f"{name}_bias"]) for name in names}
        return parameters, json.loads(str(archive["meta"]))
